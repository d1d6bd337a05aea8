//! The model: a Llama of three quarters of a million parameters.
//!
//! Weights carry the names and shapes of Hugging Face's `LlamaForCausalLM`, so a checkpoint needs no conversion.

use std::sync::Arc;

use candle_core::{Result, Tensor};
use serde_json::{Value, json};

use crate::operations::{Rotary, gated_silu, masked_softmax, root_mean_square_norm};
use crate::tokenizer;

/// The size of the model.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Width of the feed-forward layer.
    pub intermediate: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub key_heads: usize,
    /// Width of a head, even.
    pub head_width: usize,
    /// Longest context, in tokens.
    pub context: usize,
    /// Base of the rotary angles.
    pub theta: f64,
}

impl Shape {
    /// The shape of the shipped checkpoints.
    pub const TINY: Self = Self {
        hidden: 128,
        intermediate: 352,
        layers: 4,
        heads: 4,
        key_heads: 2,
        head_width: 32,
        context: 512,
        theta: 10_000.0,
    };

    /// The term added to the mean square in normalisation.
    pub const EPSILON: f64 = 1e-5;

    /// Names and shapes of all weights, in a fixed order.
    pub fn weights(&self) -> Vec<(String, Vec<usize>)> {
        let (queries, keys) = (self.heads * self.head_width, self.key_heads * self.head_width);
        let (hidden, wide) = (self.hidden, self.intermediate);
        let mut weights = vec![(
            "model.embed_tokens.weight".to_owned(),
            vec![tokenizer::VOCABULARY, hidden],
        )];
        for layer in 0..self.layers {
            let parts = [
                ("input_layernorm", vec![hidden]),
                ("self_attn.q_proj", vec![queries, hidden]),
                ("self_attn.k_proj", vec![keys, hidden]),
                ("self_attn.v_proj", vec![keys, hidden]),
                ("self_attn.o_proj", vec![hidden, queries]),
                ("post_attention_layernorm", vec![hidden]),
                ("mlp.gate_proj", vec![wide, hidden]),
                ("mlp.up_proj", vec![wide, hidden]),
                ("mlp.down_proj", vec![hidden, wide]),
            ];
            weights.extend(parts.map(|(part, shape)| (format!("model.layers.{layer}.{part}.weight"), shape)));
        }
        weights.push(("model.norm.weight".to_owned(), vec![hidden]));
        weights.push(("lm_head.weight".to_owned(), vec![tokenizer::VOCABULARY, hidden]));
        weights
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.weights()
            .iter()
            .map(|(_, shape)| shape.iter().product::<usize>())
            .sum()
    }

    /// The configuration as Hugging Face reads it.
    pub fn config_json(&self) -> Value {
        json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "dtype": "bfloat16",
            "vocab_size": tokenizer::VOCABULARY, "hidden_size": self.hidden, "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_heads, "head_dim": self.head_width,
            "max_position_embeddings": self.context, "rms_norm_eps": Self::EPSILON,
            "rope_parameters": { "rope_type": "default", "rope_theta": self.theta },
            "hidden_act": "silu", "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0,
            "tie_word_embeddings": false, "pretraining_tp": 1, "initializer_range": 0.02, "use_cache": true,
            "bos_token_id": tokenizer::BEGIN, "eos_token_id": tokenizer::END, "pad_token_id": tokenizer::PAD
        })
    }
}

const EPSILON: f32 = Shape::EPSILON as f32;

/// Rows of tokens, `[batch, time]`, with what each position may see.
pub struct Input {
    /// The ids.
    pub tokens: Tensor,
    /// The first position that each position sees, row after row.
    pub starts: Arc<Vec<u32>>,
}

/// Keys and values of what was read before, one pair per layer.
#[derive(Default)]
pub struct Cache {
    layers: Vec<(Tensor, Tensor)>,
    length: usize,
}

/// The weights, ready to compute.
pub struct Model {
    shape: Shape,
    rotary: Rotary,
    embedding: Tensor,
    layers: Vec<Layer>,
    norm: Tensor,
    head: Tensor,
}

struct Layer {
    input_norm: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    output: Tensor,
    inner_norm: Tensor,
    gate: Tensor,
    up: Tensor,
    down: Tensor,
}

impl Model {
    /// Builds the model from weights in the order of [`Shape::weights`]. Tensors of variables follow their variable.
    ///
    /// # Errors
    /// A weight is missing.
    pub fn try_new(shape: Shape, weights: impl IntoIterator<Item = Tensor>) -> Result<Self> {
        let mut weights = weights.into_iter();
        let mut next = || {
            weights
                .next()
                .ok_or_else(|| candle_core::Error::Msg("a weight is missing".to_owned()))
        };
        let embedding = next()?;
        let layers = (0..shape.layers)
            .map(|_| {
                Ok(Layer {
                    input_norm: next()?,
                    query: next()?,
                    key: next()?,
                    value: next()?,
                    output: next()?,
                    inner_norm: next()?,
                    gate: next()?,
                    up: next()?,
                    down: next()?,
                })
            })
            .collect::<Result<_>>()?;
        let rotary = Rotary::new(shape.head_width, shape.context, shape.theta);
        Ok(Self {
            rotary,
            embedding,
            layers,
            norm: next()?,
            head: next()?,
            shape,
        })
    }

    /// Computes the last layer's normalised output, `[batch * time, hidden]`; with a cache, extends it.
    ///
    /// # Errors
    /// Shapes that do not fit, or more positions than the context holds.
    pub fn hidden(&self, input: &Input, mut cache: Option<&mut Cache>) -> Result<Tensor> {
        let (batch, time) = input.tokens.dims2()?;
        let past = cache.as_ref().map_or(0, |cache| cache.length);
        if past + time > self.shape.context {
            candle_core::bail!("{} tokens exceed the context of {}", past + time, self.shape.context);
        }
        let mut stream = self.embedding.index_select(&input.tokens.flatten_all()?, 0)?;
        for (index, layer) in self.layers.iter().enumerate() {
            let normed = root_mean_square_norm(&stream, &layer.input_norm, EPSILON)?;
            let place = Place {
                batch,
                time,
                past,
                index,
            };
            stream = (&stream + self.attention(layer, &normed, &input.starts, &place, cache.as_deref_mut())?)?;
            let normed = root_mean_square_norm(&stream, &layer.inner_norm, EPSILON)?;
            let gated = gated_silu(&linear(&normed, &layer.gate)?, &linear(&normed, &layer.up)?)?;
            stream = (&stream + linear(&gated, &layer.down)?)?;
        }
        if let Some(cache) = cache {
            cache.length += time;
        }
        root_mean_square_norm(&stream, &self.norm, EPSILON)
    }

    /// Turns rows of hidden states into logits over the vocabulary.
    ///
    /// # Errors
    /// Rows of another width.
    pub fn logits(&self, hidden: &Tensor) -> Result<Tensor> {
        linear(hidden, &self.head)
    }

    fn attention(
        &self,
        layer: &Layer,
        normed: &Tensor,
        starts: &Arc<Vec<u32>>,
        place: &Place,
        cache: Option<&mut Cache>,
    ) -> Result<Tensor> {
        let Shape {
            heads,
            key_heads,
            head_width,
            ..
        } = self.shape;
        let Place {
            batch,
            time,
            past,
            index,
        } = *place;
        let split = |flat: Tensor, heads| {
            flat.reshape((batch, time, heads, head_width))?
                .transpose(1, 2)?
                .contiguous()
        };
        let query = self
            .rotary
            .rotate(&split(linear(normed, &layer.query)?, heads)?, past)?;
        let mut key = self
            .rotary
            .rotate(&split(linear(normed, &layer.key)?, key_heads)?, past)?;
        let mut value = split(linear(normed, &layer.value)?, key_heads)?;
        if let Some(cache) = cache {
            (key, value) = cache.extend(index, key, value)?;
        }
        let grouped = query.reshape((batch, key_heads, heads / key_heads * time, head_width))?;
        let scores = grouped.matmul(&key.t()?)?;
        let weights = masked_softmax(&scores, 1.0 / (head_width as f32).sqrt(), starts, time)?;
        let mixed = weights
            .matmul(&value)?
            .reshape((batch, heads, time, head_width))?
            .transpose(1, 2)?;
        linear(
            &mixed.contiguous()?.reshape((batch * time, heads * head_width))?,
            &layer.output,
        )
    }
}

/// Where a layer is in its batch.
struct Place {
    batch: usize,
    time: usize,
    past: usize,
    index: usize,
}

impl Cache {
    fn extend(&mut self, layer: usize, key: Tensor, value: Tensor) -> Result<(Tensor, Tensor)> {
        let pair = match self.layers.get(layer) {
            Some((keys, values)) => (Tensor::cat(&[keys, &key], 2)?, Tensor::cat(&[values, &value], 2)?),
            None => (key, value),
        };
        match self.layers.get_mut(layer) {
            Some(slot) => *slot = pair.clone(),
            None => self.layers.push(pair.clone()),
        }
        Ok(pair)
    }
}

fn linear(rows: &Tensor, weight: &Tensor) -> Result<Tensor> {
    rows.matmul(&weight.t()?)
}
