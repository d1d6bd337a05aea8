//! One row of an archive: what analysts read, and the messages that programs read.

use bytes::Bytes;
use tidemill_domain::{Benchmark, Completion, EvaluationEvent, Grade, Item, Prompt};

use crate::{Sample, shown};

/// A completion's message, and the completion where it decodes.
#[derive(Debug, Clone)]
pub struct Completed {
    /// As published.
    pub message: Bytes,
    /// What it says, or why it cannot be read.
    pub read: Result<Completion, String>,
}

/// A grade's message, and the grade where it decodes.
#[derive(Debug, Clone)]
pub struct Graded {
    /// As published.
    pub message: Bytes,
    /// What it says, or why it cannot be read.
    pub read: Result<Grade, String>,
}

/// A declared sample with its item.
#[derive(Debug, Clone)]
pub struct Row<'a> {
    /// The evaluation.
    pub event: &'a EvaluationEvent,
    /// Its benchmark.
    pub benchmark: &'a Benchmark,
    /// Its item.
    pub item: &'a Item,
    /// Ordinals: benchmark, item and sample.
    pub ordinals: [u32; 3],
    /// Its completion, once there is one.
    pub completion: Option<Completed>,
    /// Its grade, once there is one.
    pub grade: Option<Graded>,
}

impl<'a> Row<'a> {
    /// The row of a sample.
    #[must_use]
    pub fn new(event: &'a EvaluationEvent, benchmark: &'a Benchmark, item: &'a Item, sample: Sample) -> Self {
        let (completion, grade) = (sample.completion(), sample.grade());
        Self {
            event,
            benchmark,
            item,
            ordinals: [sample.key.benchmark, sample.key.item, sample.key.sample],
            completion: sample.completion.map(|message| Completed {
                message,
                read: flat(completion),
            }),
            grade: sample.grade.map(|message| Graded {
                message,
                read: flat(grade),
            }),
        }
    }

    /// The completion, where there is one that can be read.
    #[must_use]
    pub fn completed(&self) -> Option<&Completion> {
        self.completion.as_ref()?.read.as_ref().ok()
    }

    /// The grade, where there is one that can be read.
    #[must_use]
    pub fn graded(&self) -> Option<&Grade> {
        self.grade.as_ref()?.read.as_ref().ok()
    }

    /// The outcome as it was counted: a grade that cannot be read is a fault of the grader, as for the aggregator.
    #[must_use]
    pub fn outcome(&self) -> &'static str {
        match &self.grade {
            None => "missing",
            Some(Graded { read: Ok(grade), .. }) => grade.outcome.label(),
            Some(Graded { read: Err(_), .. }) => tidemill_domain::Outcome::GraderError.label(),
        }
    }

    /// Why the outcome is what it is, where it does not say.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let of_grade = match &self.grade {
            Some(Graded { read: Ok(grade), .. }) => grade.reason.clone(),
            Some(Graded { read: Err(error), .. }) => Some(format!("its grade cannot be read: {error}")),
            None => None,
        };
        of_grade.or_else(|| match &self.completion {
            Some(Completed {
                read: Ok(completion), ..
            }) => completion.detail.clone(),
            Some(Completed { read: Err(error), .. }) => Some(format!("its completion cannot be read: {error}")),
            None => None,
        })
    }

    /// What a person or a program is shown of it: what the columns of an archive have, as one object.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        shown::json(self)
    }

    /// What the sample adds to each metric, by the metric's name; `None` without a grade that can be read.
    #[must_use]
    pub fn measures(&self) -> Option<serde_json::Value> {
        self.graded().map(|grade| shown::measures(self.benchmark, grade))
    }

    /// The prompt as text; a chat as the JSON of its turns.
    #[must_use]
    pub fn prompt(&self) -> String {
        match &self.item.prompt {
            Prompt::Text(text) => text.clone(),
            Prompt::Chat(messages) => serde_json::to_string(messages).unwrap_or_default(),
        }
    }

    /// The accepted answers; the right choice where the item names one and no answers.
    #[must_use]
    pub fn targets(&self) -> Vec<String> {
        let item = self.item;
        match item.correct_choice.and_then(|index| item.choices.get(index as usize)) {
            Some(choice) if item.targets.is_empty() => vec![choice.clone()],
            _ => item.targets.clone(),
        }
    }
}

fn flat<T>(read: Result<Option<T>, tidemill_codec::Error>) -> Result<T, String> {
    match read {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err("it is empty".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
