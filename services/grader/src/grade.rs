//! From a completion to a grade: which ending is graded at all, and what the finding means.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tidemill_domain::{Completion, Ending, Grade, GraderSpec, Item, Outcome, Timestamp};

use crate::answer::{Finding, without_reasoning};
use crate::choice::Choice;
use crate::exact::Exact;
use crate::likelihood::Likelihood;
use crate::numeric::Numeric;
use crate::regex::Regex;
use crate::{Error, choice, exact, likelihood, numeric, regex};

/// Grades one completion of an item. To grade many, build a [`Grader`] once: it compiles the pattern.
#[must_use]
pub fn grade(spec: &GraderSpec, item: &Item, completion: &Completion, now: Timestamp) -> Grade {
    Grader::new(spec).grade(item, completion, now)
}

/// A benchmark's grader, ready for any number of completions.
#[derive(Debug, Clone)]
pub struct Grader {
    name: &'static str,
    /// A suite's bad pattern is the outcome of each of its samples, so that it shows in the result and stops nothing else.
    family: Result<Family, Error>,
}

#[derive(Debug, Clone)]
enum Family {
    Exact(Exact),
    Regex(Regex),
    Numeric(Numeric),
    Choice(Choice),
    Likelihood(Likelihood),
}

impl Grader {
    /// Prepares the grader that a manifest names.
    #[must_use]
    pub fn new(spec: &GraderSpec) -> Self {
        let (name, family) = match spec {
            GraderSpec::Exact {
                ignore_case,
                ignore_punctuation,
            } => {
                let exact = Exact {
                    ignore_case: *ignore_case,
                    ignore_punctuation: *ignore_punctuation,
                };
                (exact::NAME, Ok(Family::Exact(exact)))
            }
            GraderSpec::Regex {
                pattern,
                take,
                ignore_case,
            } => (
                regex::NAME,
                Regex::try_new(pattern, *take, *ignore_case).map(Family::Regex),
            ),
            GraderSpec::Numeric { pattern, tolerance } => (
                numeric::NAME,
                Numeric::try_new(pattern.as_deref(), *tolerance).map(Family::Numeric),
            ),
            GraderSpec::Choice { pattern } => (choice::NAME, Choice::try_new(pattern.as_deref()).map(Family::Choice)),
            GraderSpec::Likelihood { normalise } => {
                let likelihood = Likelihood { normalise: *normalise };
                (likelihood::NAME, Ok(Family::Likelihood(likelihood)))
            }
        };
        Self { name, family }
    }

    /// Kind and version, as grades carry it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Grades one completion. Never panics: a family that does becomes the outcome `grader_error`.
    #[must_use]
    pub fn grade(&self, item: &Item, completion: &Completion, now: Timestamp) -> Grade {
        let is_cut = is_cut(completion);
        let verdict = match outcome_without_grading(completion) {
            Some(outcome) => Verdict {
                reason: completion.detail.clone(),
                ..Verdict::of(outcome)
            },
            None => match guarded(|| self.judge(item, completion)) {
                Ok(finding) => Verdict::from_finding(finding, is_cut, completion),
                Err(error) => Verdict {
                    reason: Some(error.to_string()),
                    ..Verdict::of(Outcome::GraderError)
                },
            },
        };
        Grade {
            key: completion.key.clone(),
            outcome: verdict.outcome,
            score: verdict.score,
            score_before_cut: verdict.score_before_cut,
            extracted: verdict.extracted,
            grader: self.name.to_owned(),
            reason: verdict.reason,
            truncated: is_cut,
            cut_in_reasoning: is_cut && is_all_reasoning(completion),
            replaced: completion.replaced_characters() > 0,
            prompt_tokens: completion.prompt_tokens,
            completion_tokens: completion.completion_tokens,
            requests: completion.requests,
            cached: completion.cached,
            served: completion.served,
            started: completion.started,
            finished: completion.finished,
            graded: now,
        }
    }

    fn judge(&self, item: &Item, completion: &Completion) -> Result<Option<Finding>, Error> {
        let family = self.family.as_ref().map_err(Clone::clone)?;
        match (family, completion.ending) {
            (Family::Likelihood(likelihood), Ending::Scored) => likelihood.judge(item, &completion.choices),
            (Family::Likelihood(_), ending) | (_, ending @ Ending::Scored) => Err(Error::Kind {
                ending: ending.label(),
                family: self.name,
            }),
            _ => match without_reasoning(&completion.text) {
                Some(answer) => family.judge_text(item, &answer),
                None => Ok(None),
            },
        }
    }
}

impl Family {
    fn judge_text(&self, item: &Item, answer: &str) -> Result<Option<Finding>, Error> {
        match self {
            Self::Exact(exact) => exact.judge(item, answer),
            Self::Regex(regex) => regex.judge(item, answer),
            Self::Numeric(numeric) => numeric.judge(item, answer),
            Self::Choice(choice) => choice.judge(item, answer),
            Self::Likelihood(_) => Ok(None),
        }
    }
}

/// The part of a grade that grading decides.
#[derive(Debug, Clone)]
struct Verdict {
    outcome: Outcome,
    score: f64,
    score_before_cut: Option<f64>,
    extracted: Option<String>,
    reason: Option<String>,
}

impl Verdict {
    const fn of(outcome: Outcome) -> Self {
        Self {
            outcome,
            score: 0.0,
            score_before_cut: None,
            extracted: None,
            reason: None,
        }
    }

    fn from_finding(finding: Option<Finding>, is_cut: bool, completion: &Completion) -> Self {
        let Some(finding) = finding else {
            return if is_cut {
                Self::of(Outcome::Truncated)
            } else {
                Self {
                    reason: why_no_answer(completion),
                    ..Self::of(Outcome::NoAnswer)
                }
            };
        };
        let score = f64::from(u8::from(finding.is_right));
        let verdict = if is_cut {
            Self {
                score_before_cut: Some(score),
                ..Self::of(Outcome::Truncated)
            }
        } else if finding.is_right {
            Self {
                score,
                ..Self::of(Outcome::Correct)
            }
        } else {
            Self::of(Outcome::Incorrect)
        };
        Self {
            extracted: Some(finding.extracted),
            ..verdict
        }
    }
}

/// A stop text that also begins a right answer leaves nothing to grade, and the grade should say so.
fn why_no_answer(completion: &Completion) -> Option<String> {
    if without_reasoning(&completion.text).is_none() {
        return Some("the reasoning never ended".to_owned());
    }
    let stop = completion.stop_reason.as_ref()?;
    Some(format!("the stop text {stop:?} came before an answer"))
}

/// Nothing is cut when nothing is generated.
const fn is_cut(completion: &Completion) -> bool {
    match completion.ending {
        Ending::Scored => false,
        Ending::Length => true,
        _ => completion.truncated,
    }
}

/// The answer had not begun: the engine split off reasoning and nothing came behind it, or a reasoning block is open.
fn is_all_reasoning(completion: &Completion) -> bool {
    let has_reasoning = completion
        .reasoning
        .as_ref()
        .is_some_and(|reasoning| !reasoning.trim().is_empty());
    (has_reasoning && completion.text.trim().is_empty()) || without_reasoning(&completion.text).is_none()
}

fn outcome_without_grading(completion: &Completion) -> Option<Outcome> {
    match completion.ending {
        Ending::Stop if said_nothing(completion) => Some(Outcome::Empty),
        Ending::Stop | Ending::Length | Ending::Scored => None,
        Ending::Empty => Some(Outcome::Empty),
        Ending::Refused => Some(Outcome::Refused),
        Ending::ContextOverflow => Some(Outcome::ContextOverflow),
        Ending::EngineError => Some(Outcome::EngineError),
    }
}

/// Not one token: whatever the engine called it, the model had no say.
fn said_nothing(completion: &Completion) -> bool {
    completion.completion_tokens == 0 && completion.reasoning.is_none() && completion.text.trim().is_empty()
}

fn guarded<T>(work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| Err(Error::Panic(message(payload.as_ref()))))
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
        .to_owned()
}

#[cfg(test)]
#[path = "grade_tests.rs"]
mod tests;
