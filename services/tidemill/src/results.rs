//! Results of all evaluations.

use std::collections::{BTreeMap, BTreeSet};

use futures::StreamExt as _;
use tidemill_domain::{EvaluationId, EvaluationResult, ResultState, RunId, counted_as};
use tidemill_service::{Context, dead};

use crate::arguments::{Format, Results};
use crate::exit::Done;
use crate::held::Held;
use crate::session::{self, Need, Session};
use crate::table::{self, Shown};
use crate::view::Following;
use crate::{csv, output, regrade, sheet};

pub(crate) fn run(args: Results) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "warn")?;
    let format = if args.json { Format::Json } else { args.format };
    let (results, regrades, runs) = session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let following = Following::open(&session.context).await;
        let known = following.view.evaluations();
        let runs: BTreeSet<RunId> = known.iter().map(|known| known.event.run.clone()).collect();
        let wanted = known
            .into_iter()
            .filter(|known| args.run.as_ref().is_none_or(|run| known.event.run == *run));
        let results: Vec<EvaluationResult> = wanted.map(|known| known.result()).collect();
        let mut held = Held::default();
        held.look(&session.context).await;
        results
            .iter()
            .filter_map(|result| held.news(&result.evaluation))
            .for_each(|news| output::note(&news));
        let regrades = match format {
            Format::Table => regrades(&session.context, &results).await,
            Format::Json | Format::Csv | Format::CsvLong => BTreeMap::new(),
        };
        match dead::letters(&session.context).await {
            Ok(letters) => {
                let told = letters
                    .iter()
                    .map(|letter| (letter.subject.as_deref(), letter.reason.as_str()));
                refused(told).iter().for_each(|note| output::note(note));
            }
            Err(failure) => tracing::debug!(reason = failure.reason, "dead letters not read"),
        }
        session.close().await;
        Ok((results, regrades, runs))
    })?;
    match format {
        Format::Table if results.is_empty() => output::note(&nothing(args.run.as_ref(), &runs)),
        Format::Table => output::data(&table::text(&beside(&results, regrades), sheet::width_of_data()))?,
        Format::Json => output::data(&serde_json::to_string_pretty(&results)?)?,
        Format::Csv => output::data(&csv::scores(&results))?,
        Format::CsvLong => output::data(&csv::figures(&results))?,
    }
    Ok(Done::Valid)
}

type Regrades = BTreeMap<EvaluationId, Vec<(u32, EvaluationResult)>>;

/// Evaluations whose regrades are looked for at a time: a listing of the object store takes tens of milliseconds where that is
/// far away.
const AT_ONCE: usize = 16;

/// The regrades of evaluations that ended. Results are shown also where they cannot be read.
async fn regrades(context: &Context, results: &[EvaluationResult]) -> Regrades {
    let ended = results.iter().filter(|result| result.state != ResultState::Serving);
    let looks = ended.map(|result| async {
        let evaluation = result.evaluation.clone();
        let found = regrade::results(context, &evaluation).await;
        (evaluation, found)
    });
    let mut looks = futures::stream::iter(looks).buffer_unordered(AT_ONCE);
    let (mut regrades, mut failure) = (Regrades::new(), None);
    while let Some((evaluation, found)) = looks.next().await {
        match found {
            Ok(found) => drop(regrades.insert(evaluation, found)),
            Err(error) => failure = Some(error),
        }
    }
    if let Some(error) = failure {
        output::note(&format!("not every regrade is shown: {error:#}"));
    }
    regrades
}

/// Each result with its regrades behind it.
fn beside(results: &[EvaluationResult], mut regrades: Regrades) -> Vec<Shown> {
    let with_regrades = results.iter().flat_map(|result| {
        let regrades = regrades.remove(&result.evaluation).unwrap_or_default().into_iter();
        let regrades = regrades.map(|(number, result)| Shown {
            result,
            regrade: Some(number),
        });
        std::iter::once(Shown::first(result)).chain(regrades)
    });
    with_regrades.collect()
}

/// That announcements came to nothing, which no result tells where it is not known what they asked for; with the newest reason.
/// `letters` are subjects and reasons of dead letters, the newest last.
fn refused<'a>(letters: impl Iterator<Item = (Option<&'a str>, &'a str)>) -> Option<String> {
    let is_announcement = |subject: Option<&str>| subject.is_some_and(|subject| subject.starts_with("tm.checkpoint."));
    let reasons: Vec<&str> = letters
        .filter(|(subject, _)| is_announcement(*subject))
        .map(|(_, reason)| reason)
        .collect();
    let newest = reasons.last()?;
    let announcements = counted_as(reasons.len() as u64, "announcement was", "announcements were");
    Some(format!(
        "{announcements} refused, the newest because: {newest}; `tidemill dead list --stage loader` shows all, and `tidemill dead retry` \
         takes one up again once its cause is mended; `tidemill dead drop` forgets one that was announced anew"
    ))
}

/// What there is where no result is shown.
fn nothing(wanted: Option<&RunId>, runs: &BTreeSet<RunId>) -> String {
    match wanted {
        Some(run) if !runs.is_empty() => {
            let runs: Vec<String> = runs.iter().map(ToString::to_string).collect();
            format!("no results of run {run}; there are runs {}", runs.join(", "))
        }
        _ => "no results yet".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{benchmark, result};

    #[test]
    fn regrades_stand_behind_the_first_grades_of_their_evaluation() {
        let (first, mut other) = (result(benchmark(4, 4)), result(benchmark(4, 4)));
        other.evaluation = "1".repeat(16).parse().unwrap();
        let regrades = Regrades::from([(first.evaluation.clone(), vec![(1, first.clone()), (3, first.clone())])]);
        let shown = beside(&[first.clone(), other.clone()], regrades);
        let found: Vec<_> = shown.iter().map(|one| (&one.result.evaluation, one.regrade)).collect();
        assert_eq!(
            found,
            [
                (&first.evaluation, None),
                (&first.evaluation, Some(1)),
                (&first.evaluation, Some(3)),
                (&other.evaluation, None),
            ]
        );
    }

    #[test]
    fn announcements_that_were_refused_are_said_with_the_newest_reason_and_other_letters_are_not() {
        let other = (Some("tm.done.x"), "damaged");
        let first = (Some("tm.checkpoint.r.written"), "no suite");
        let second = (Some("tm.checkpoint.q.written"), "no folder");
        assert_eq!(refused([other, (None, "lost")].into_iter()), None);
        let said = refused([first, other].into_iter()).unwrap();
        assert!(
            said.starts_with("1 announcement was refused, the newest because: no suite;"),
            "{said}"
        );
        let said = refused([first, second, other].into_iter()).unwrap();
        assert!(
            said.starts_with("2 announcements were refused, the newest because: no folder;"),
            "{said}"
        );
    }
}
