//! Why a grader could not do its work.

use std::fmt;
use std::time::Duration;

use tidemill_domain::{JudgeCost, Outcome};

/// A grade that cannot be made now: its completion is to be given back, and delivered again after the pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Postponed {
    /// Why.
    pub reason: String,
    /// The pause; `None` for none.
    pub pause: Option<Duration>,
}

impl fmt::Display for Postponed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.reason)
    }
}

/// What to do once a grader is mended that could not grade.
pub(crate) const AFTERWARDS: &str = "afterwards the same `tidemill evaluate` or `announce` as before, or `tidemill regrade \
                                     EVALUATION --failed`, grades the stored answer without the engine";

/// A fault of the grader or of what it was given; the sample's outcome is then `grader_error`, never wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The suite's pattern does not compile within the bounds.
    #[error("compile the pattern {pattern:?}: {reason}")]
    Pattern {
        /// As the suite writes it.
        pattern: String,
        /// What the engine says.
        reason: String,
    },
    /// No target of the item can be what this family compares with.
    #[error("find {wanted} in the item's targets")]
    Target {
        /// What the family needs.
        wanted: &'static str,
    },
    /// A schema or a target is not JSON.
    #[error("read the item's JSON: {0}")]
    Json(String),
    /// What the answer is compared with, or by, is not usable.
    #[error(transparent)]
    Scoring(#[from] tidemill_scoring::Error),
    /// Comparing the answer takes too long.
    #[error("compare by {family} within its bounds: answer and target are too long")]
    TooLong {
        /// The family.
        family: &'static str,
    },
    /// The grader may not run the suite's program.
    #[error(
        "run {command}: the grader's configuration does not name it; add it to [grader] commands there; {AFTERWARDS}"
    )]
    Forbidden {
        /// As the suite has it.
        command: String,
    },
    /// A program of the suite's did not judge, however often it was asked.
    #[error("grade by the program: {0}; {AFTERWARDS}")]
    Unjudged(String),
    /// The scores of the choices are not what a comparison needs.
    #[error("compare the choices: {0}")]
    Scores(String),
    /// Whether the answer equals the target is not known: it would take more steps than one grade may, or the target is not clear.
    #[error("compare the answer: {why}")]
    Undecided {
        /// Why.
        why: &'static str,
    },
    /// The completion is of another kind than the grader's.
    #[error("grade a completion that ended {ending} by {family}")]
    Kind {
        /// The completion's ending.
        ending: &'static str,
        /// The family that was to grade it.
        family: &'static str,
    },
    /// The suite did not render what this family needs of the row.
    #[error("find {name} among what the suite gives the grader")]
    Material {
        /// What is not there.
        name: &'static str,
    },
    /// There is no sandbox, so no program is run.
    #[error("run the program: {0}; {AFTERWARDS}")]
    Sandbox(String),
    /// A run told nothing of the program, however often it was tried.
    #[error("learn of the program: {0}; {AFTERWARDS}")]
    Run(String),
    /// There is no such judge here.
    #[error("ask judge {0}; {AFTERWARDS}")]
    Judge(String),
    /// The judge said nothing of the answer that is a verdict, or refuses to be asked.
    #[error("{reason}")]
    NoVerdict {
        /// Why.
        reason: String,
        /// What it took all the same.
        cost: JudgeCost,
    },
    /// Nothing is wrong, and nothing is known yet.
    #[error("grade now: {0}")]
    Postponed(Postponed),
    /// The family asks something outside of this process, which was not to be asked.
    #[error("grade by {family} without what it runs")]
    Outside {
        /// The family.
        family: &'static str,
    },
    /// The task's filters and metrics cannot be applied.
    #[error("apply the task's filters and metrics: {0}")]
    Pipelines(String),
    /// The family broke.
    #[error("grade without a panic: {0}")]
    Panic(String),
}

impl Error {
    /// What becomes of the sample: what gave no verdict has no grade, anything else is a fault of the grader.
    pub(crate) const fn outcome(&self) -> Outcome {
        match self {
            Self::NoVerdict { .. } => Outcome::Ungraded,
            _ => Outcome::GraderError,
        }
    }

    /// What a judge took for no verdict.
    pub(crate) const fn judge(&self) -> Option<JudgeCost> {
        match self {
            Self::NoVerdict { cost, .. } => Some(*cost),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_can_mend_says_what_grades_the_answer_afterwards() {
        let mendable = [
            Error::Sandbox("no sandbox".to_owned()),
            Error::Run("it did not start".to_owned()),
            Error::Judge("main is not configured".to_owned()),
            Error::Unjudged("it ended".to_owned()),
            Error::Forbidden {
                command: "./grade".to_owned(),
            },
        ];
        for error in mendable {
            let said = error.to_string();
            assert!(
                said.contains("`tidemill evaluate`") && said.contains("regrade EVALUATION --failed"),
                "{said}"
            );
        }
    }
}
