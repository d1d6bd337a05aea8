//! Whether an evaluation's numbers count.

use tidemill_domain::{Outcome, OutcomeCounts, ResultState, counted_as};

use crate::Fold;

/// What an evaluation that ended is worth, and why when it is nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Final or invalid.
    pub state: ResultState,
    /// For people; absent when final.
    pub reason: Option<String>,
}

/// Judges an evaluation that ended, with what is missing counted as failed.
///
/// Invalid when more than `max_failure_rate` of the declared samples failed, or when nothing of a benchmark could be
/// scored: a mean over nothing is no result, however small the benchmark is beside the others.
#[must_use]
pub fn verdict(fold: &Fold, max_failure_rate: f64) -> Verdict {
    judged(
        fold,
        max_failure_rate,
        "the same `tidemill evaluate`, or `tidemill announce`, as before grades what is stored and asks no engine",
    )
}

/// Judges a regrade as the evaluation itself would be: its own grades stay what they are, and are not what failed here.
#[must_use]
pub fn verdict_of_regrade(fold: &Fold, max_failure_rate: f64) -> Verdict {
    judged(
        fold,
        max_failure_rate,
        "the same `tidemill regrade` again grades what is stored; the evaluation's first grades are not touched",
    )
}

/// `afterwards` is what grades once the grader works.
fn judged(fold: &Fold, max_failure_rate: f64, afterwards: &str) -> Verdict {
    let reason = if fold.failure_rate() > max_failure_rate {
        Some(too_many_failed(fold, max_failure_rate))
    } else {
        let names: Vec<&str> = fold.unscored().collect();
        (!names.is_empty()).then(|| format!("nothing could be scored in {}", names.join(", ")))
    };
    let reason = reason.map(|reason| format!("{reason}{}", after_mending(fold.outcomes(), afterwards)));
    Verdict {
        state: if reason.is_some() {
            ResultState::Invalid
        } else {
            ResultState::Final
        },
        reason,
    }
}

/// What to do once the grader works again, where it failed.
fn after_mending(outcomes: OutcomeCounts, afterwards: &str) -> String {
    match outcomes.grader_error + outcomes.ungraded {
        0 => String::new(),
        failed => format!(
            "; {} for a grader that works: `tidemill items EVALUATION` says what is wrong with it; then {afterwards}",
            counted_as(failed, "answer is stored and waits", "answers are stored and wait")
        ),
    }
}

fn too_many_failed(fold: &Fold, max_failure_rate: f64) -> String {
    format!(
        "{} % of samples failed ({} of {}), above the suite's {} %",
        percent(fold.failure_rate()),
        failures(fold.outcomes()),
        fold.declared(),
        percent(max_failure_rate)
    )
}

/// Every kind of failure that occurred, for instance `31 engine_error, 2 missing`.
fn failures(mut outcomes: OutcomeCounts) -> String {
    let kinds = Outcome::ALL.into_iter().filter(|outcome| !outcome.is_scored());
    let mut parts: Vec<String> = kinds
        .map(|outcome| (*outcomes.slot(outcome), outcome.label()))
        .filter(|(count, _)| *count > 0)
        .map(|(count, label)| format!("{count} {label}"))
        .collect();
    if outcomes.missing > 0 {
        parts.push(format!("{} missing", outcomes.missing));
    }
    parts.join(", ")
}

/// Two decimals at most.
fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::tests::{grade, manifest};

    fn fold(items: u32, failed: u32, missing: u32) -> Fold {
        let mut fold = Fold::new(&manifest(items, 1), Vec::new());
        for item in missing..items {
            let outcome = if item - missing < failed {
                Outcome::EngineError
            } else {
                Outcome::Correct
            };
            fold.apply(&grade(item, 0, outcome));
        }
        fold
    }

    #[test]
    fn too_many_failures_make_it_invalid_and_are_named() {
        let verdict = verdict(&fold(1000, 31, 0), 0.02);
        assert_eq!(verdict.state, ResultState::Invalid);
        assert_eq!(
            verdict.reason.unwrap(),
            "3.1 % of samples failed (31 engine_error of 1000), above the suite's 2 %"
        );
    }

    #[test]
    fn failures_up_to_the_limit_are_accepted() {
        let at_limit = verdict(&fold(1000, 20, 0), 0.02);
        assert_eq!((at_limit.state, at_limit.reason), (ResultState::Final, None));
        assert_eq!(verdict(&fold(1000, 21, 0), 0.02).state, ResultState::Invalid);
        assert_eq!(verdict(&fold(150, 3, 0), 0.02).state, ResultState::Final);
        assert_eq!(verdict(&fold(10, 0, 0), 0.0).state, ResultState::Final);
    }

    #[test]
    fn missing_samples_count_as_failed() {
        let reason = verdict(&fold(8, 1, 1), 0.125).reason.unwrap();
        assert_eq!(
            reason,
            "25 % of samples failed (1 engine_error, 1 missing of 8), above the suite's 12.5 %"
        );
    }

    #[test]
    fn what_a_grader_failed_is_told_with_the_command_that_grades_it_again() {
        let mut fold = Fold::new(&manifest(4, 1), Vec::new());
        let outcomes = [
            Outcome::Correct,
            Outcome::GraderError,
            Outcome::Ungraded,
            Outcome::Correct,
        ];
        for (item, outcome) in (0..).zip(outcomes) {
            fold.apply(&grade(item, 0, outcome));
        }
        let reason = verdict(&fold, 0.02).reason.unwrap();
        assert!(
            reason.starts_with("50 % of samples failed (1 grader_error, 1 ungraded of 4)"),
            "{reason}"
        );
        assert!(
            reason.contains("; 2 answers are stored") && reason.contains("the same `tidemill evaluate`"),
            "{reason}"
        );
        let regraded = verdict_of_regrade(&fold, 0.02).reason.unwrap();
        assert!(
            regraded.contains("; 2 answers are stored") && regraded.contains("the same `tidemill regrade` again"),
            "{regraded}"
        );
        assert!(!regraded.contains("evaluate`"), "{regraded}");
    }

    #[test]
    fn a_benchmark_without_any_score_is_no_result() {
        let reason = verdict(&fold(3, 3, 0), 1.0).reason.unwrap();
        assert_eq!(reason, "nothing could be scored in benchmark");
    }
}
