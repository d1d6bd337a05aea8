//! The Llama (and Qwen2) decoder.

use candle_core::{Device, Result, Storage, Tensor};
use candle_nn::{Module, RmsNorm};

use super::{
    Decoder, KvCache, Row,
    attention::{Attend, Heads},
    elementwise::{add, gate},
    linear::Linear,
    rope::Rope,
    values,
};
use crate::{
    Error,
    checkpoint::{ModelConfig, ShardSet, Weights},
};

/// A loaded model.
#[derive(Debug)]
pub(crate) struct Llama {
    config: ModelConfig,
    embeddings: Vec<f32>,
    layers: Vec<Layer>,
    norm: RmsNorm,
    head: Linear,
    rope: Rope,
}

#[derive(Debug)]
struct Layer {
    attention_norm: RmsNorm,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    mlp_norm: RmsNorm,
    gate: Linear,
    up: Linear,
    down: Linear,
}

/// Checks that every tensor that `config` calls for is there in the right shape.
pub(crate) fn check_tensors(config: &ModelConfig, shards: &ShardSet) -> std::result::Result<(), Error> {
    for (name, shape) in tensors(config) {
        shards.require(&name, &shape)?;
    }
    Ok(())
}

/// Names and shapes of all tensors, in reading order.
fn tensors(config: &ModelConfig) -> Vec<(String, Vec<usize>)> {
    let (hidden, inner) = (config.hidden_size, config.intermediate_size);
    let (query, kv) = (config.query_width(), config.kv_width());
    let mut list = vec![
        ("model.embed_tokens.weight".to_owned(), vec![config.vocab_size, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ];
    if !config.tied_embeddings {
        list.push(("lm_head.weight".to_owned(), vec![config.vocab_size, hidden]));
    }
    for layer in 0..config.layers {
        let mut push = |name: &str, shape: Vec<usize>| list.push((format!("model.layers.{layer}.{name}"), shape));
        push("input_layernorm.weight", vec![hidden]);
        for (name, width) in [("q_proj", query), ("k_proj", kv), ("v_proj", kv)] {
            push(&format!("self_attn.{name}.weight"), vec![width, hidden]);
            if config.qkv_bias {
                push(&format!("self_attn.{name}.bias"), vec![width]);
            }
        }
        push("self_attn.o_proj.weight", vec![hidden, query]);
        push("post_attention_layernorm.weight", vec![hidden]);
        push("mlp.gate_proj.weight", vec![inner, hidden]);
        push("mlp.up_proj.weight", vec![inner, hidden]);
        push("mlp.down_proj.weight", vec![hidden, inner]);
    }
    list
}

impl Llama {
    /// Loads the weights in `shards`; `context_length` may be below the configured one.
    pub(crate) fn load(
        config: ModelConfig,
        shards: &ShardSet,
        context_length: usize,
    ) -> std::result::Result<Self, Error> {
        check_tensors(&config, shards)?;
        let weights = Weights::new(shards);
        let embeddings = weights.matrix("model.embed_tokens.weight", config.vocab_size, config.hidden_size)?;
        let head = if config.tied_embeddings {
            Linear::new(&embeddings, None)
        } else {
            Linear::new(
                &weights.matrix("lm_head.weight", config.vocab_size, config.hidden_size)?,
                None,
            )
        };
        let layers = (0..config.layers)
            .map(|layer| Layer::load(&config, &weights, layer))
            .collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(Self {
            embeddings: embeddings.values,
            layers,
            norm: norm(&config, &weights, "model.norm.weight")?,
            head,
            rope: Rope::new(&config, context_length),
            config,
        })
    }

    fn embed(&self, rows: &[Row]) -> Result<Tensor> {
        let width = self.config.hidden_size;
        let mut values = Vec::with_capacity(rows.len() * width);
        for row in rows {
            let start = row.token as usize * width;
            values.extend_from_slice(&self.embeddings[start..start + width]);
        }
        Tensor::from_vec(values, (rows.len(), width), &Device::Cpu)
    }

    /// The logits of those `rows` that want them.
    fn logits(&self, hidden: &Tensor, rows: &[Row]) -> Result<Vec<f32>> {
        let width = self.config.hidden_size;
        let mut chosen = Vec::new();
        with_values(hidden, |values| {
            for (row, value) in rows.iter().zip(values.chunks_exact(width)) {
                if row.wants_logits {
                    chosen.extend_from_slice(value);
                }
            }
        })?;
        let count = chosen.len() / width;
        if count == 0 {
            return Ok(Vec::new());
        }
        let chosen = Tensor::from_vec(chosen, (count, width), &Device::Cpu)?;
        let logits = self.head.forward(&self.norm.forward(&chosen)?)?;
        with_values(&logits, <[f32]>::to_vec)
    }
}

impl Decoder for Llama {
    type Cache = KvCache;

    fn new_cache(&self, capacity: usize) -> KvCache {
        KvCache::with_capacity(self.config.layers, self.config.kv_width(), capacity)
    }

    fn vocab_size(&self) -> usize {
        self.config.vocab_size
    }

    fn forward(&self, rows: &[Row], caches: &mut [&mut KvCache]) -> Result<Vec<f32>> {
        let heads = Heads {
            heads: self.config.heads,
            kv_heads: self.config.kv_heads,
            head_dim: self.config.head_dim,
        };
        let mut hidden = self.embed(rows)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let step = Step {
                rows,
                rope: &self.rope,
                heads,
                layer: index,
            };
            hidden = layer.forward(&hidden, &step, caches)?;
        }
        self.logits(&hidden, rows)
    }
}

/// What a layer needs to know of the step.
struct Step<'a> {
    rows: &'a [Row],
    rope: &'a Rope,
    heads: Heads,
    layer: usize,
}

impl Layer {
    fn load(config: &ModelConfig, weights: &Weights<'_>, layer: usize) -> std::result::Result<Self, Error> {
        let (hidden, inner) = (config.hidden_size, config.intermediate_size);
        let name = |part: &str| format!("model.layers.{layer}.{part}");
        let linear = |part: &str, outputs, inputs, has_bias: bool| -> std::result::Result<Linear, Error> {
            let weight = weights.matrix(&name(&format!("{part}.weight")), outputs, inputs)?;
            let bias = has_bias
                .then(|| weights.vector(&name(&format!("{part}.bias")), outputs))
                .transpose()?;
            Ok(Linear::new(&weight, bias))
        };
        Ok(Self {
            attention_norm: norm(config, weights, &name("input_layernorm.weight"))?,
            query: linear("self_attn.q_proj", config.query_width(), hidden, config.qkv_bias)?,
            key: linear("self_attn.k_proj", config.kv_width(), hidden, config.qkv_bias)?,
            value: linear("self_attn.v_proj", config.kv_width(), hidden, config.qkv_bias)?,
            output: linear("self_attn.o_proj", hidden, config.query_width(), false)?,
            mlp_norm: norm(config, weights, &name("post_attention_layernorm.weight"))?,
            gate: linear("mlp.gate_proj", inner, hidden, false)?,
            up: linear("mlp.up_proj", inner, hidden, false)?,
            down: linear("mlp.down_proj", hidden, inner, false)?,
        })
    }

    fn forward(&self, hidden: &Tensor, step: &Step<'_>, caches: &mut [&mut KvCache]) -> Result<Tensor> {
        let attended = self.attend(&self.attention_norm.forward(hidden)?, step, caches)?;
        let hidden = add(hidden, &self.output.forward(&attended)?)?;
        let normed = self.mlp_norm.forward(&hidden)?;
        let gated = gate(&self.gate.forward(&normed)?, &self.up.forward(&normed)?)?;
        add(&hidden, &self.down.forward(&gated)?)
    }

    /// Stores all keys and values of the step first, then attends row by row, each row up to its own position.
    fn attend(&self, normed: &Tensor, step: &Step<'_>, caches: &mut [&mut KvCache]) -> Result<Tensor> {
        let Heads {
            heads,
            kv_heads,
            head_dim,
        } = step.heads;
        let (query_width, kv_width) = (heads * head_dim, kv_heads * head_dim);
        let mut keys = with_values(&self.key.forward(normed)?, <[f32]>::to_vec)?;
        with_values(&self.value.forward(normed)?, |values| {
            let pairs = keys.chunks_exact_mut(kv_width).zip(values.chunks_exact(kv_width));
            for (row, (key, value)) in step.rows.iter().zip(pairs) {
                step.rope.rotate(key, row.position);
                caches[row.sequence].layer(step.layer).store(row.position, key, value);
            }
        })?;
        let mut queries = with_values(&self.query.forward(normed)?, <[f32]>::to_vec)?;
        let mut output = vec![0.0; queries.len()];
        let mut scores = Vec::new();
        let pairs = queries
            .chunks_exact_mut(query_width)
            .zip(output.chunks_exact_mut(query_width));
        for (row, (query, result)) in step.rows.iter().zip(pairs) {
            step.rope.rotate(query, row.position);
            let cache = caches[row.sequence].layer(step.layer);
            let length = row.position + 1;
            Attend {
                heads: step.heads,
                queries: query,
                cache,
                length,
                scores: &mut scores,
                output: result,
            }
            .run();
        }
        Tensor::from_vec(output, (step.rows.len(), query_width), &Device::Cpu)
    }
}

fn norm(config: &ModelConfig, weights: &Weights<'_>, name: &str) -> std::result::Result<RmsNorm, Error> {
    let weight = Tensor::new(weights.vector(name, config.hidden_size)?, &Device::Cpu)?;
    Ok(RmsNorm::new(weight, config.rms_norm_eps))
}

/// Lends the values of a contiguous tensor without copying them.
fn with_values<T>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> T) -> Result<T> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(storage) => Ok(read(values(storage, layout)?)),
        _ => candle_core::bail!("expected a tensor in main memory"),
    }
}
