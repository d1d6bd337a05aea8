//! A quick look at a checkpoint, without loading its weights.

use std::path::Path;

use super::{ModelConfig, ShardSet};
use crate::{Error, model, text};

/// What a checkpoint is, found from its small files and the headers of its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// Number of weights in all shards.
    pub parameters: u64,
    /// Longest sequence in tokens, prompt and output together.
    pub context_length: usize,
    /// Number of tokens that the model can give.
    pub vocab_size: usize,
    /// Whether chat requests can be answered.
    pub has_chat_template: bool,
}

/// Checks configuration, tokenizer, chat template, shard lengths and tensor shapes, but not the weights themselves.
///
/// # Errors
/// The first of the faults that would also keep [`serve`](crate::serve) from loading `checkpoint`; a weight that is not
/// finite is found by loading alone.
pub fn validate(checkpoint: &Path) -> Result<Summary, Error> {
    if !checkpoint.is_dir() {
        return Err(Error::NoDirectory(checkpoint.to_owned()));
    }
    let config = ModelConfig::read(checkpoint)?;
    let shards = ShardSet::open(checkpoint)?;
    model::check_tensors(&config, &shards)?;
    let text = text::TextModel::load(checkpoint, config.vocab_size)?;
    Ok(Summary {
        parameters: shards
            .shards()
            .iter()
            .flat_map(|shard| shard.tensors.values())
            .map(count)
            .sum(),
        context_length: config.context_length,
        vocab_size: config.vocab_size,
        has_chat_template: text.has_chat_template(),
    })
}

fn count(tensor: &safetensors::tensor::TensorInfo) -> u64 {
    tensor.shape.iter().map(|&length| length as u64).product()
}
