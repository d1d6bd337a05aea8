//! What is written to a program and read from it: a line of JSON each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use tidemill_domain::{Item, Measured};

use crate::answer::{Answer, Credit, Finding, shortened};

/// The longest reason that a grade keeps, in bytes.
const MAX_REASON_BYTES: usize = 1_000;

/// One answer to judge.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a> {
    /// Unique among the requests of this process; the answer carries it too.
    id: String,
    /// The item's id in the suite's data.
    item: &'a str,
    /// The completion's text without its reasoning.
    pub(crate) completion: &'a str,
    targets: &'a [String],
    choices: &'a [String],
    material: BTreeMap<&'a str, &'a str>,
}

impl<'a> Request<'a> {
    pub(crate) fn of(item: &'a Item, answer: &'a Answer<'_>) -> Self {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        Self {
            id: ASKED.fetch_add(1, Ordering::Relaxed).to_string(),
            item: &item.id,
            completion: answer.text(),
            targets: &item.targets,
            choices: &item.choices,
            material: item
                .material
                .iter()
                .map(|(name, text)| (name.as_str(), text.as_str()))
                .collect(),
        }
    }

    /// The request with a line break.
    pub(crate) fn line(&self) -> Result<String, String> {
        let line = serde_json::to_string(self).map_err(|error| error.to_string())?;
        Ok(line + "\n")
    }

    /// Reads a line, which must be the answer to this request.
    pub(crate) fn answered(&self, line: &str) -> Result<Answered, String> {
        let answered: Answered =
            serde_json::from_str(line).map_err(|error| format!("answered {:?}: {error}", shortened(line, 200)))?;
        if answered.id != self.id {
            return Err(format!(
                "answered {:?} where {:?} was asked",
                shortened(&answered.id, 200),
                self.id
            ));
        }
        match (answered.score, answered.outcome) {
            (Some(score), None) if (0.0..=1.0).contains(&score) => Ok(answered),
            (Some(score), None) => Err(format!("gave the score {score}, which is not from 0 to 1")),
            (None, Some(_)) => Ok(answered),
            _ => Err("gave neither a score nor an outcome, or both".to_owned()),
        }
    }
}

/// What a program says of an answer. Either a score or an outcome.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    id: String,
    /// 0 to 1.
    #[serde(default)]
    score: Option<f64>,
    #[serde(default)]
    outcome: Option<Outcome>,
    #[serde(default)]
    extracted: Option<String>,
    #[serde(default)]
    reason: Option<String>,
    /// Metrics of the benchmark by name.
    #[serde(default)]
    measures: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Correct,
    Incorrect,
    NoAnswer,
    /// The program could not judge.
    GraderError,
}

impl Answered {
    /// What it means; what was extracted is the answer itself where the program says nothing.
    ///
    /// Fails where the program says that it could not judge.
    pub(crate) fn finding(self, answer: &str) -> Result<Option<Finding>, String> {
        let reason = self.reason.map(|reason| shortened(&reason, MAX_REASON_BYTES));
        let credit = match (self.score, self.outcome) {
            (Some(score), _) => Credit::Part(score),
            (_, Some(Outcome::Correct)) => Credit::Whole(true),
            (_, Some(Outcome::Incorrect)) => Credit::Whole(false),
            (_, Some(Outcome::NoAnswer)) => return Ok(None),
            _ => return Err(reason.unwrap_or_else(|| "the program could not judge".to_owned())),
        };
        let mut finding = Finding::new(super::NAME, self.extracted.as_deref().unwrap_or(answer), credit);
        finding.reason = reason;
        let measures = self.measures.into_iter();
        finding.measures = measures.map(|(name, value)| (name, Measured::Value(value))).collect();
        Ok(Some(finding))
    }
}
