//! What a regrade found, and how people are shown it.

use std::collections::BTreeMap;

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tidemill_archive::Row;
use tidemill_domain::{EvaluationId, EvaluationResult, Grade, counted};

use crate::table::{self, Shown};
use crate::{output, sheet};

/// What a regrade found.
#[derive(Serialize)]
pub(super) struct Regraded {
    pub(super) evaluation: EvaluationId,
    /// The how-many-th regrade of the evaluation, from 1.
    pub(super) regrade: u32,
    /// Where it is kept in the object store.
    pub(super) folder: String,
    /// What had been said before.
    pub(super) old: EvaluationResult,
    /// What this regrade says.
    pub(super) new: EvaluationResult,
    /// Samples that were graded again.
    pub(super) graded: u64,
    /// Samples that keep what they had: without a completion that can be read, or not to be graded again.
    pub(super) kept: u64,
    pub(super) changed: usize,
    /// How often one outcome became another.
    pub(super) transitions: Vec<Transition>,
    pub(super) changes: Vec<Change>,
}

/// One outcome that became another, or the same with another score.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Transition {
    pub(super) from: &'static str,
    pub(super) to: &'static str,
    pub(super) samples: usize,
}

/// A sample whose outcome or score is another one now.
#[derive(Serialize)]
pub(super) struct Change {
    pub(super) benchmark: String,
    pub(super) item: String,
    pub(super) sample: u32,
    pub(super) old: Judged,
    pub(super) new: Judged,
    pub(super) reason: String,
}

#[derive(Debug, PartialEq, Serialize)]
pub(super) struct Judged {
    pub(super) outcome: &'static str,
    pub(super) score: Option<f64>,
    /// For a truncated sample, the score of an answer that was complete before the cut.
    pub(super) score_before_cut: Option<f64>,
    pub(super) extracted: Option<String>,
    pub(super) grader: Option<String>,
}

impl Judged {
    fn of(row: &Row<'_>) -> Self {
        let grade = row.graded();
        Self {
            outcome: row.outcome(),
            score: grade.filter(|grade| grade.outcome.is_scored()).map(|grade| grade.score),
            score_before_cut: grade.and_then(|grade| grade.score_before_cut),
            extracted: grade.and_then(|grade| grade.extracted.clone()),
            grader: grade.map(|grade| grade.grader.clone()),
        }
    }

    fn is_as_good_as(&self, other: &Self) -> bool {
        let worth = |judged: &Self| (judged.outcome, judged.score, judged.score_before_cut);
        worth(self) == worth(other)
    }
}

/// The change of a sample, when its outcome or score is another one, or the score of what was answered before a cut: the mean
/// that counts cut answers is made of that.
pub(super) fn change(before: &Row<'_>, after: &Row<'_>, grade: &Grade) -> Option<Change> {
    let (old, new) = (Judged::of(before), Judged::of(after));
    if old.is_as_good_as(&new) {
        return None;
    }
    let reason = grade.reason.clone().unwrap_or_else(|| why(&old, &new));
    Some(Change {
        benchmark: before.benchmark.name.to_string(),
        item: before.item.id.clone(),
        sample: before.ordinals[2],
        old,
        new,
        reason,
    })
}

fn why(old: &Judged, new: &Judged) -> String {
    let named = |grader: &Option<String>| grader.clone().unwrap_or_else(|| "nobody".to_owned());
    let found = |extracted: &Option<String>| {
        extracted
            .as_ref()
            .map_or("nothing".to_owned(), |text| format!("{text:?}"))
    };
    if old.extracted == new.extracted {
        return format!(
            "{} judged {} as {} did not",
            named(&new.grader),
            found(&new.extracted),
            named(&old.grader)
        );
    }
    format!(
        "{} found {} where {} had found {}",
        named(&new.grader),
        found(&new.extracted),
        named(&old.grader),
        found(&old.extracted)
    )
}

/// How often which outcome became which, the most frequent first.
pub(super) fn transitions(changes: &[Change]) -> Vec<Transition> {
    let mut counted: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for change in changes {
        *counted.entry((change.old.outcome, change.new.outcome)).or_default() += 1;
    }
    let transition = |((from, to), samples)| Transition { from, to, samples };
    let mut transitions: Vec<Transition> = counted.into_iter().map(transition).collect();
    transitions.sort_by_key(|transition| std::cmp::Reverse(transition.samples));
    transitions
}

/// Changes that people are shown; all are in the JSON and in the stored `changes.jsonl`.
const SHOWN: usize = 20;

pub(super) fn show(regraded: &Regraded, json: bool) -> anyhow::Result<()> {
    if json {
        return output::data(&serde_json::to_string_pretty(regraded)?);
    }
    output::data("before:")?;
    output::data(&table::results(std::slice::from_ref(&regraded.old)))?;
    output::data(&format!("regrade {}:", regraded.regrade))?;
    let new = Shown {
        result: regraded.new.clone(),
        regrade: Some(regraded.regrade),
    };
    output::data(&table::text(&[new], sheet::width_of_data()))?;
    output::data(&format!(
        "{} graded again, {} changed, {} kept as they were",
        counted(regraded.graded, "sample"),
        regraded.changed,
        regraded.kept
    ))?;
    for Transition { from, to, samples } in &regraded.transitions {
        output::data(&format!("  {from} -> {to}: {samples}"))?;
    }
    if regraded.changed > 0 {
        output::data(&changes(&regraded.changes))?;
    }
    if regraded.changed > SHOWN {
        output::note(&format!("{} more; --json prints all", regraded.changed - SHOWN));
    }
    output::note(&format!(
        "kept in {} of the object store; its items: tidemill items {} --regrade {}",
        regraded.folder, regraded.evaluation, regraded.regrade
    ));
    Ok(())
}

fn changes(changes: &[Change]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(["benchmark", "item", "sample", "outcome", "score", "extracted", "reason"]);
    for change in changes.iter().take(SHOWN) {
        let (old, new) = (&change.old, &change.new);
        let number = |score: Option<f64>| score.map_or("-".to_owned(), |score| format!("{score:.3}"));
        let is_of_cut = old.score_before_cut != new.score_before_cut;
        let score = |judged: &Judged| match judged.score_before_cut {
            before if is_of_cut => format!("{} ({} before the cut)", number(judged.score), number(before)),
            _ => number(judged.score),
        };
        let extracted = |judged: &Judged| {
            judged
                .extracted
                .as_ref()
                .map_or("-".to_owned(), |text| format!("{text:?}"))
        };
        table.add_row([
            change.benchmark.clone(),
            change.item.clone(),
            change.sample.to_string(),
            format!("{} -> {}", old.outcome, new.outcome),
            format!("{} -> {}", score(old), score(new)),
            format!("{} -> {}", extracted(old), extracted(new)),
            change.reason.clone(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: &'static str, to: &'static str) -> Change {
        let judged = |outcome, score, extracted: &str| Judged {
            outcome,
            score: Some(score),
            score_before_cut: None,
            extracted: Some(extracted.to_owned()),
            grader: Some("exact@1".to_owned()),
        };
        Change {
            benchmark: "b".to_owned(),
            item: "q1".to_owned(),
            sample: 0,
            old: judged(from, 0.0, "1"),
            new: judged(to, 1.0, "1.0"),
            reason: "equal numbers".to_owned(),
        }
    }

    #[test]
    fn another_score_before_the_cut_is_a_change() {
        let cut = |score_before_cut| Judged {
            outcome: "truncated",
            score: Some(0.0),
            score_before_cut,
            extracted: Some("4".to_owned()),
            grader: Some("math@1".to_owned()),
        };
        assert!(cut(Some(1.0)).is_as_good_as(&cut(Some(1.0))));
        for other in [None, Some(0.0)] {
            assert!(!cut(Some(1.0)).is_as_good_as(&cut(other)), "{other:?}");
        }
        let changed = Change {
            old: cut(None),
            new: cut(Some(1.0)),
            ..change("truncated", "truncated")
        };
        let table = changes(&[changed]);
        assert!(
            table.contains("0.000 (- before the cut) -> 0.000 (1.000 before the cut)"),
            "{table}"
        );
    }

    #[test]
    fn changes_are_counted_by_kind_and_shown_with_old_and_new() {
        let all = [
            change("no_answer", "correct"),
            change("incorrect", "correct"),
            change("incorrect", "correct"),
        ];
        let counted: Vec<_> = transitions(&all)
            .iter()
            .map(|one| (one.from, one.to, one.samples))
            .collect();
        assert_eq!(counted, [("incorrect", "correct", 2), ("no_answer", "correct", 1)]);
        let table = changes(&all[..1]);
        for part in [
            "q1",
            "no_answer -> correct",
            "0.000 -> 1.000",
            "\"1\" -> \"1.0\"",
            "equal numbers",
        ] {
            assert!(table.contains(part), "{part:?} is missing in\n{table}");
        }
    }
}
