//! Mathematical answers: reads them from LaTeX and plain text, and decides when two are equal.
//!
//! Numbers are exact rationals and formulas have an exact normal form wherever one exists, so `0.1 + 0.2` is `3/10` and nothing
//! else; only what has none (logarithms, angles, roots of sums) is evaluated, to 192 bits. Every step is charged to a budget
//! and every input is bounded, so hostile text costs little and ends as text that was not understood, never as a panic.
//!
//! This is no computer algebra system: it solves nothing, proves nothing, and knows no answer but by comparing two. It reads
//! one answer; finding that in a completion is the caller's work, beside [`boxes`] and [`last_formula`].

mod answer;
mod boxed;
mod canonical;
mod characters;
mod compare;
mod condition;
mod distance;
mod evaluate;
mod formula;
mod lexer;
mod node;
mod normal;
mod parser;
mod polynomial;
mod radical;
mod relation;
mod segment;
mod stated;
mod steps;
mod unit;
mod worded;

pub use answer::{Answer, MAX_BYTES, MAX_CANONICAL_BYTES};
pub use boxed::{Boxed, Boxes, boxes, unwrapped};
pub use compare::{Comparison, Verdict, compare, equal};
pub use distance::are_within;
pub use formula::last_formula;
pub use steps::Steps;
pub use unit::{is_measure, power_of_ten};
