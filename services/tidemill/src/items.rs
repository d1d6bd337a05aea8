//! Every item of an evaluation.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use serde_json::Value;
use tidemill_archive::{Row, Samples};
use tidemill_domain::Outcome;
use tidemill_service::Context;

use crate::arguments::Items;
use crate::exit::Done;
use crate::regrade::Stored;
use crate::session::{self, Need, Session};
use crate::view::Following;
use crate::{output, regrade};

pub(crate) fn run(args: Items) -> anyhow::Result<Done> {
    if let Some(outcome) = &args.outcome {
        let known: Vec<&str> = Outcome::ALL
            .iter()
            .map(|outcome| outcome.label())
            .chain(["missing"])
            .collect();
        if !known.contains(&outcome.as_str()) {
            bail!("no outcome is named {outcome:?}; there are {}", known.join(", "));
        }
    }
    let config = session::configuration(&args.place, "warn")?;
    session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let shown = Box::pin(show(&session.context, &args)).await;
        session.close().await;
        shown.map(|()| Done::Valid)
    })
}

async fn show(context: &Context, args: &Items) -> anyhow::Result<()> {
    let following = Following::open(context).await;
    let known = following.view.get(&args.evaluation);
    let known =
        known.with_context(|| format!("no evaluation {} here; `tidemill results` lists them", args.evaluation))?;
    let mut manifest = context.store.manifest(&known.event.manifest).await?;
    if let Some(name) = &args.benchmark
        && !manifest
            .benchmarks
            .iter()
            .any(|benchmark| benchmark.name.as_str() == name)
    {
        let names: Vec<&str> = manifest
            .benchmarks
            .iter()
            .map(|benchmark| benchmark.name.as_str())
            .collect();
        bail!("no benchmark is named {name:?}; there are {}", names.join(", "));
    }
    let mut samples = match args.regrade {
        None => Samples::open(context, &known.event, &manifest).await?,
        Some(number) => {
            let numbers = regrade::numbers(context, &args.evaluation).await?;
            if !numbers.contains(&number) {
                bail!(
                    "evaluation {} has no regrade {number}; it has {numbers:?}",
                    args.evaluation
                );
            }
            let folder = regrade::folder(&args.evaluation, number);
            let opened = Samples::of_folder(context, &known.event, &manifest, &folder).await;
            let opened = opened.with_context(|| format!("regrade {number} of evaluation {}", args.evaluation))?;
            let stored = Stored::read(context, &args.evaluation, number).await?;
            manifest = Arc::new(stored.regraded(&manifest));
            opened
        }
    };
    while let Some(sample) = samples.next().await? {
        let found = tidemill_archive::item(&context.store, &manifest, &sample.key).await?;
        let (benchmark, item) = found.with_context(|| format!("{} is not in the manifest", sample.key))?;
        let row = Row::new(&known.event, benchmark, &item, sample).json();
        let is_wanted =
            |field: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| row[field] == *wanted.as_str());
        if is_wanted("benchmark", &args.benchmark) && is_wanted("outcome", &args.outcome) {
            output::data(&if args.json { row.to_string() } else { plain(&row) })?;
        }
    }
    Ok(())
}

fn plain(row: &Value) -> String {
    let text = |field: &str| {
        row[field]
            .as_str()
            .map_or_else(|| row[field].to_string(), str::to_owned)
    };
    let short = |text: String| {
        let line = text.replace('\n', "⏎");
        if line.chars().count() > 60 {
            format!("…{}", line.chars().skip(line.chars().count() - 59).collect::<String>())
        } else {
            line
        }
    };
    let marks = match (
        row["truncated_in_reasoning"] == true,
        row["replaced_characters"].as_u64().unwrap_or(0),
    ) {
        (true, _) => " (cut inside its reasoning)".to_owned(),
        (false, 0) => String::new(),
        (false, places) => format!(" ({places} replaced)"),
    };
    // What failed is read for why.
    let failed = Outcome::ALL.iter().filter(|outcome| !outcome.is_scored());
    let is_failed = failed
        .map(|outcome| outcome.label())
        .any(|label| row["outcome"] == label);
    if is_failed && let Some(reason) = row["reason"].as_str() {
        return format!(
            "{} {}#{}  {:12} {}",
            text("benchmark"),
            text("item"),
            row["sample"],
            text("outcome"),
            reason.replace('\n', "⏎")
        );
    }
    format!(
        "{} {}#{}  {:12}{marks} target {}  extracted {}  | {}",
        text("benchmark"),
        text("item"),
        row["sample"],
        text("outcome"),
        short(text("target")),
        short(text("extracted")),
        short(text("completion"))
    )
}
