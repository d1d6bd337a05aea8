//! Results of all evaluations.

use std::collections::BTreeSet;

use tidemill_domain::{EvaluationResult, RunId};

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
