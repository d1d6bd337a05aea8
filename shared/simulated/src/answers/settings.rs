//! How answers are made.

use serde::Deserialize;

use crate::complaint::Complaint;

/// Settings of answers.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Answers {
    /// Half of the answers are shorter, apart from the tail. Tokens.
    pub median_tokens: f64,
    /// Standard deviation of the length's logarithm.
    pub spread: f64,
    /// Share of items with a long answer.
    pub tail_share: f64,
    /// How many times longer those are.
    pub tail_factor: f64,
    /// How much of an item's length, and of whether it is answered rightly, is the item's own in every checkpoint: 0 nothing, 1 all.
    pub correlation: f64,
    /// The same between the drawn samples of one item in one checkpoint.
    pub sample_correlation: f64,
    /// Share of items with a target that are answered rightly.
    pub correct: f64,
    /// What stands before the target in a prompt; a `]` ends it.
    pub marker: String,
    /// Whether answers show their work.
    pub form: Form,
    /// How drawn samples come about.
    pub mode: Mode,
    /// In the mode `chain`: tokens that answers have on average, about.
    pub chain_tokens: f64,
}

/// What an answer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// Words, then `Answer: X` on a line of its own.
    Worked,
    /// ` X` alone, whatever lengths are set.
    Bare,
}

/// How drawn samples come about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Planned, as greedy answers are.
    Planned,
    /// Token by token from a small Markov chain, with penalties, bias and cuts: for tests of distributions.
    Chain,
}

impl Default for Answers {
    fn default() -> Self {
        Self {
            median_tokens: 200.0,
            spread: 0.5,
            tail_share: 0.01,
            tail_factor: 16.0,
            correlation: 0.9,
            sample_correlation: 0.8,
            correct: 0.7,
            marker: "[target:".to_owned(),
            form: Form::Worked,
            mode: Mode::Planned,
            chain_tokens: 20.0,
        }
    }
}

impl Answers {
    /// What is wrong with the settings, if anything, and with which of them.
    #[must_use]
    pub fn complaint(&self) -> Option<Complaint> {
        let ranges = [
            ("tail_share", self.tail_share, 0.0, 1.0),
            ("correlation", self.correlation, 0.0, 1.0),
            ("sample_correlation", self.sample_correlation, 0.0, 1.0),
            ("correct", self.correct, 0.0, 1.0),
            ("median_tokens", self.median_tokens, 1.0, 1e6),
            ("tail_factor", self.tail_factor, 1.0, 1e6),
            ("chain_tokens", self.chain_tokens, 1.0, 1e6),
            ("spread", self.spread, 0.0, 10.0),
        ];
        let mut wrong = ranges
            .iter()
            .filter_map(|(name, value, least, most)| Complaint::of_range(name, *value, *least, *most));
        wrong.next().or_else(|| {
            let rule = "is empty, and would be found in every prompt";
            self.marker.is_empty().then(|| Complaint::new(&["marker"], rule))
        })
    }
}
