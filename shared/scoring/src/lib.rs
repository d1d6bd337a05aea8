//! Scores of a text against others, as the packages compute them that people compare with.
//!
//! Token F1 and exact match (SQuAD, DROP), ROUGE, BLEU and chrF with statistics that add up over a corpus, checks of
//! instructions (IFEval), and JSON against a schema. Pure functions over text; nothing here knows of items or grades. What is
//! not a score (a pattern that does not compile, a text too long to compare) is an [`Error`].
//!
//! Expected values in the tests come from the packages themselves: `ops/scoring/golden.py` names them and writes the file.
//!
//! # Bounds
//! Everything is linear in the prediction, whatever it holds, with one exception: the longest common subsequence of two long
//! texts, which is given up beyond a number of steps. Targets are bounded by [`MAX_TARGET_BYTES`], because their n-grams are
//! kept.

mod bleu;
mod chrf;
mod error;
mod f1;
#[cfg(test)]
mod golden_tests;
mod instructions;
mod json;
mod language;
mod lcs;
mod ngrams;
mod porter;
mod python;
mod rouge;
mod sentences;
mod tokens;

pub use bleu::{BLEU_COUNTS, Tokenisation, bleu_counts, corpus_bleu, sentence_bleu};
pub use chrf::{chrf_counts, corpus_chrf, sentence_chrf};
pub use error::{Error, MAX_TARGET_BYTES, comparable};
pub use f1::{Match, Normalisation, normalised, token_match};
pub use instructions::{Followed, INSTRUCTION_IDS, Instructions};
pub use json::{Found, Schema, canonical_json, find_json, same_json};
pub use language::language_of;
pub use rouge::{Rouge, RougeScore, RougeScores};
pub use sentences::sentences;
