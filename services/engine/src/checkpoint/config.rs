//! config.json and generation_config.json: what the engine needs of them, checked.
//!
//! Values that would change the numbers and that the engine does not implement are refused, never ignored: a model that
//! runs and scores badly costs more than one that does not start.

use std::path::Path;

use serde::Deserialize;

use super::{read_json, read_optional_json};
use crate::Error;

/// The shape of a Llama-like model.
#[derive(Debug, Clone)]
pub(crate) struct ModelConfig {
    pub(crate) vocab_size: usize,
    pub(crate) hidden_size: usize,
    pub(crate) intermediate_size: usize,
    pub(crate) layers: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) head_dim: usize,
    pub(crate) rms_norm_eps: f64,
    pub(crate) rope_theta: f64,
    pub(crate) rope_scaling: Option<RopeScaling>,
    /// Longest sequence in tokens, prompt and output together.
    pub(crate) context_length: usize,
    pub(crate) tied_embeddings: bool,
    /// Whether the query, key and value projections have a bias (Qwen2).
    pub(crate) qkv_bias: bool,
    /// Tokens that end a generation, from generation_config.json and config.json together.
    pub(crate) eos_token_ids: Vec<u32>,
}

/// The frequency scaling that Llama 3.1 introduced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RopeScaling {
    pub(crate) factor: f64,
    pub(crate) low_freq_factor: f64,
    pub(crate) high_freq_factor: f64,
    pub(crate) original_context: f64,
}

impl ModelConfig {
    /// Reads and checks the configuration of the checkpoint in `directory`.
    pub(crate) fn read(directory: &Path) -> Result<Self, Error> {
        let path = directory.join("config.json");
        let remedy = "give the directory that save_pretrained wrote";
        if !path.is_file() {
            return Err(Error::MissingFile { path, remedy });
        }
        let raw: Raw = read_json(&path)?;
        let generation: Option<Generation> = read_optional_json(&directory.join("generation_config.json"))?;
        let mut eos_token_ids = raw.eos_token_id.clone().map(Ids::into_vec).unwrap_or_default();
        eos_token_ids.extend(
            generation
                .and_then(|g| g.eos_token_id)
                .map(Ids::into_vec)
                .unwrap_or_default(),
        );
        eos_token_ids.sort_unstable();
        eos_token_ids.dedup();
        raw.check(&path, eos_token_ids)
    }

    /// Width of all query heads together.
    pub(crate) fn query_width(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of all key (or value) heads together.
    pub(crate) fn kv_width(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

/// config.json as written, before any check.
#[derive(Debug, Deserialize)]
struct Raw {
    #[serde(default)]
    architectures: Option<Vec<String>>,
    vocab_size: Option<usize>,
    hidden_size: Option<usize>,
    intermediate_size: Option<usize>,
    num_hidden_layers: Option<usize>,
    num_attention_heads: Option<usize>,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    rms_norm_eps: Option<f64>,
    rope_theta: Option<f64>,
    rope_scaling: Option<Rope>,
    rope_parameters: Option<Rope>,
    max_position_embeddings: Option<usize>,
    #[serde(default)]
    tie_word_embeddings: bool,
    hidden_act: Option<String>,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    use_sliding_window: bool,
    quantization_config: Option<serde_json::Value>,
    eos_token_id: Option<Ids>,
}

/// `rope_scaling` of older checkpoints and `rope_parameters` of transformers 5: the second also holds `rope_theta`.
#[derive(Debug, Default, Deserialize)]
struct Rope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Generation {
    eos_token_id: Option<Ids>,
}

/// One token id or a list of them.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Ids {
    One(u32),
    Many(Vec<u32>),
}

impl Ids {
    fn into_vec(self) -> Vec<u32> {
        match self {
            Self::One(id) => vec![id],
            Self::Many(ids) => ids,
        }
    }
}

impl Raw {
    fn check(&self, path: &Path, eos_token_ids: Vec<u32>) -> Result<ModelConfig, Error> {
        let qkv_bias = self.check_architecture(path)?;
        self.check_settings(path)?;
        let need = |value: Option<usize>, name: &str| match value {
            Some(value) if value > 0 => Ok(value),
            _ => Err(Error::malformed(path, format!("{name} is absent or zero"))),
        };
        let hidden_size = need(self.hidden_size, "hidden_size")?;
        let heads = need(self.num_attention_heads, "num_attention_heads")?;
        let kv_heads = self.num_key_value_heads.unwrap_or(heads);
        if kv_heads == 0 || heads % kv_heads != 0 {
            let reason = format!("{heads} attention heads cannot share {kv_heads} key-value heads");
            return Err(Error::malformed(path, reason));
        }
        let head_dim = self.head_dim.filter(|&dim| dim > 0).unwrap_or(hidden_size / heads);
        if head_dim == 0 || !head_dim.is_multiple_of(2) {
            return Err(Error::malformed(
                path,
                format!("head_dim {head_dim} is not a positive even number"),
            ));
        }
        let (rope_theta, rope_scaling) = self.rope(path)?;
        Ok(ModelConfig {
            vocab_size: need(self.vocab_size, "vocab_size")?,
            hidden_size,
            intermediate_size: need(self.intermediate_size, "intermediate_size")?,
            layers: need(self.num_hidden_layers, "num_hidden_layers")?,
            heads,
            kv_heads,
            head_dim,
            rms_norm_eps: self.rms_norm_eps.unwrap_or(1e-6),
            rope_theta,
            rope_scaling,
            context_length: need(self.max_position_embeddings, "max_position_embeddings")?,
            tied_embeddings: self.tie_word_embeddings,
            qkv_bias,
            eos_token_ids,
        })
    }

    /// Whether the architecture has biases on query, key and value.
    fn check_architecture(&self, path: &Path) -> Result<bool, Error> {
        let names = self.architectures.as_deref().unwrap_or_default();
        match names {
            [name] if name == "LlamaForCausalLM" => Ok(false),
            [name] if name == "Qwen2ForCausalLM" => Ok(true),
            [] => Err(Error::malformed(path, "architectures is absent")),
            names => Err(Error::unsupported(path, format!("architecture {}", names.join(", ")))),
        }
    }

    fn check_settings(&self, path: &Path) -> Result<(), Error> {
        let activation = self.hidden_act.as_deref().unwrap_or("silu");
        let refused = [
            (activation != "silu", format!("hidden_act {activation}")),
            (self.attention_bias, "attention_bias true".to_owned()),
            (self.mlp_bias, "mlp_bias true".to_owned()),
            (self.use_sliding_window, "use_sliding_window true".to_owned()),
            (
                self.quantization_config.is_some(),
                "quantised weights (quantization_config)".to_owned(),
            ),
        ];
        match refused.into_iter().find(|(asked, _)| *asked) {
            Some((_, what)) => Err(Error::unsupported(path, what)),
            None => Ok(()),
        }
    }

    /// The base frequency and its scaling, from whichever of the two spellings is there.
    fn rope(&self, path: &Path) -> Result<(f64, Option<RopeScaling>), Error> {
        let rope = self.rope_parameters.as_ref().or(self.rope_scaling.as_ref());
        let theta = rope
            .and_then(|rope| rope.rope_theta)
            .or(self.rope_theta)
            .unwrap_or(10_000.0);
        let Some(rope) = rope else { return Ok((theta, None)) };
        match rope.rope_type.as_deref().unwrap_or("default") {
            "default" => Ok((theta, None)),
            "llama3" => Ok((theta, Some(rope.llama3(path)?))),
            other => Err(Error::unsupported(path, format!("rope_type {other}"))),
        }
    }
}

impl Rope {
    fn llama3(&self, path: &Path) -> Result<RopeScaling, Error> {
        let need = |value: Option<f64>, name: &str| {
            value
                .filter(|value| *value > 0.0)
                .ok_or_else(|| Error::malformed(path, format!("llama3 rope lacks {name}")))
        };
        Ok(RopeScaling {
            factor: need(self.factor, "factor")?,
            low_freq_factor: need(self.low_freq_factor, "low_freq_factor")?,
            high_freq_factor: need(self.high_freq_factor, "high_freq_factor")?,
            original_context: need(
                self.original_max_position_embeddings,
                "original_max_position_embeddings",
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(change: impl FnOnce(&mut Value)) -> Result<ModelConfig, Error> {
        let mut value = json!({
            "architectures": ["LlamaForCausalLM"], "vocab_size": 384, "hidden_size": 32, "intermediate_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 2, "max_position_embeddings": 512, "eos_token_id": [4, 2],
        });
        change(&mut value);
        let raw: Raw = serde_json::from_value(value).unwrap();
        let eos = raw.eos_token_id.clone().map(Ids::into_vec).unwrap_or_default();
        raw.check(Path::new("config.json"), eos)
    }

    #[test]
    fn rope_theta_is_read_in_both_spellings() {
        assert_eq!(read(|v| v["rope_theta"] = json!(5e5)).unwrap().rope_theta, 5e5);
        assert_eq!(
            read(|v| v["rope_parameters"] = json!({"rope_theta": 7e4}))
                .unwrap()
                .rope_theta,
            7e4
        );
        assert_eq!(read(|_| ()).unwrap().rope_theta, 1e4);
    }

    #[test]
    fn unknown_rope_type_is_refused_by_name() {
        let error = read(|v| v["rope_scaling"] = json!({"type": "yarn", "factor": 4.0})).unwrap_err();
        assert!(error.to_string().contains("rope_type yarn"), "{error}");
    }

    #[test]
    fn llama3_scaling_needs_all_its_factors() {
        let rope = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192});
        let scaling = read(|v| v["rope_scaling"] = rope.clone())
            .unwrap()
            .rope_scaling
            .unwrap();
        assert_eq!(scaling.original_context, 8192.0);
        assert!(read(|v| v["rope_scaling"] = json!({"rope_type": "llama3", "factor": 8.0})).is_err());
    }

    #[test]
    fn other_architectures_and_settings_are_refused() {
        for (key, value, said) in [
            ("architectures", json!(["MixtralForCausalLM"]), "MixtralForCausalLM"),
            ("mlp_bias", json!(true), "mlp_bias"),
            ("attention_bias", json!(true), "attention_bias"),
            ("hidden_act", json!("gelu"), "gelu"),
            ("quantization_config", json!({"quant_method": "fp8"}), "quantised"),
        ] {
            let error = read(|v| v[key] = value).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn head_dim_may_differ_from_the_quotient() {
        assert_eq!(read(|_| ()).unwrap().head_dim, 16);
        assert_eq!(read(|v| v["head_dim"] = json!(32)).unwrap().query_width(), 64);
    }

    #[test]
    fn key_value_heads_must_divide_the_heads() {
        assert!(read(|v| v["num_key_value_heads"] = json!(3)).is_err());
    }
}
