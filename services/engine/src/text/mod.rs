//! Text to tokens and back: tokenizer, chat template, incremental decoding, stop strings.

mod count;
mod detokenize;
mod stop;
mod template;
mod tokenizer;

pub use count::TokenCounter;
pub(crate) use detokenize::Detokenizer;
pub(crate) use stop::StopMatcher;
pub(crate) use template::{ChatTemplate, TemplateError};
pub(crate) use tokenizer::TextModel;
