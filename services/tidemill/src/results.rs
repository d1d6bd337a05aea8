//! Results of all evaluations.

use std::collections::BTreeSet;

use tidemill_domain::{EvaluationResult, RunId};
use tidemill_service::dead;

use crate::arguments::{Format, Results};
use crate::exit::Done;
use crate::held::Held;
use crate::session::{self, Need, Session};
use crate::view::Following;
use crate::{csv, output, table};

pub(crate) fn run(args: Results) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "warn")?;
    let (results, runs) = session::block_on(async {
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
        Ok((results, runs))
    })?;
    let format = if args.json { Format::Json } else { args.format };
    match format {
        Format::Table if results.is_empty() => output::note(&nothing(args.run.as_ref(), &runs)),
        Format::Table => output::data(&table::results(&results))?,
        Format::Json => output::data(&serde_json::to_string_pretty(&results)?)?,
        Format::Csv => output::data(&csv::scores(&results))?,
        Format::CsvLong => output::data(&csv::figures(&results))?,
    }
    Ok(Done::Valid)
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
    let announcements = match reasons.len() {
        1 => "1 announcement was".to_owned(),
        more => format!("{more} announcements were"),
    };
    Some(format!(
        "{announcements} refused, the newest because: {newest}; `tidemill dead list --stage loader` shows all, and `tidemill dead retry` \
         takes one up again once its cause is mended"
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
