//! Reading a checkpoint directory in the layout of Hugging Face's `save_pretrained`.
//!
//! Nothing here unpickles: only JSON and safetensors are read. Nothing is memory-mapped either, so a checkpoint that is
//! deleted or overwritten while it is served changes no answer.

mod config;
mod files;
mod summary;
mod weights;

pub(crate) use config::{ModelConfig, RopeScaling};
pub(crate) use files::{ShardSet, read_json, read_optional_json};
pub use summary::{Summary, validate};
pub(crate) use weights::{Matrix, Weights};
