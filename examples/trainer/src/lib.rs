//! Trains a tiny model on a handful of skills and announces its checkpoints, as an example of a trainer that Tidemill
//! serves, and as the source of the demo's checkpoints and data.
//!
//! Everything follows from a seed. Nothing here is needed by the pipeline itself.

pub mod announce;
pub mod batch;
pub mod checkpoint;
pub mod evaluation;
pub mod model;
pub mod operations;
pub mod optimizer;
pub mod random;
pub mod skills;
pub mod suite;
pub mod tokenizer;
pub mod training;
