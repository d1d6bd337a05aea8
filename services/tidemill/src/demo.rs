//! The shipped checkpoints, evaluated live on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use tidemill_domain::{CheckpointEvent, EvaluationResult, RunId, Step, Timestamp, Written};
use tidemill_loader::Scope;
use tidemill_service::{Context, now};
use tidemill_streams::CheckpointMessage;

use crate::arguments::Demo;
use crate::evaluate::stop_signal;
use crate::exit::Done;
use crate::live::{self, Wanted};
use crate::roles::Roles;
use crate::session::{self, Need, Session};
use crate::view::{Following, News};
use crate::{output, table};

/// The run under which the shipped checkpoints are announced.
const RUN: &str = "demo";

pub(crate) fn run(mut args: Demo) -> anyhow::Result<Done> {
    let folder = args.from.clone().map_or_else(find, Ok)?;
    let checkpoints = checkpoints(&folder)?;
    if args.place.common.nats.is_none() {
        // Beside other data, so that `--fresh` removes nothing but the demo.
        args.place.common.data_dir = args.place.common.data_dir.join(RUN);
        if args.fresh && args.place.common.data_dir.exists() {
            std::fs::remove_dir_all(&args.place.common.data_dir).context("forget earlier runs of the demo")?;
        }
    }
    let config = session::configuration(&args.place, "warn")?;
    session::block_on(async {
        let session = Session::open(&args.place, config, Need::Alone).await?;
        output::note(&format!(
            "broker {}, data {}",
            session.url(),
            args.place.common.data_dir.display()
        ));
        let begun = now();
        let results = Box::pin(evaluate(&session.context, &folder, &checkpoints)).await;
        session.close().await;
        show(&args, &results?, begun)
    })
}

fn find() -> anyhow::Result<PathBuf> {
    let (here, program) = (std::env::current_dir().ok(), std::env::current_exe().ok());
    let above = here.iter().chain(&program).flat_map(|path| path.ancestors());
    above
        .map(|folder| folder.join("examples/demo"))
        .find(|folder| folder.join("suite.toml").is_file())
        .context("examples/demo is neither above this folder nor above this program: name it with --from")
}

fn checkpoints(folder: &Path) -> anyhow::Result<Vec<(Step, PathBuf)>> {
    let list = folder.join("checkpoints");
    let entries = std::fs::read_dir(&list).with_context(|| format!("list {}", list.display()))?;
    let mut checkpoints: Vec<(Step, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let step = entry.file_name().to_str()?.strip_prefix("step-")?.parse().ok()?;
            Some((Step(step), entry.path()))
        })
        .collect();
    checkpoints.sort();
    if checkpoints.is_empty() {
        bail!("{} holds no checkpoints named step-N", list.display());
    }
    Ok(checkpoints)
}

async fn evaluate(
    context: &Context,
    folder: &Path,
    checkpoints: &[(Step, PathBuf)],
) -> anyhow::Result<Vec<EvaluationResult>> {
    let mut roles = Roles::start(context, Scope::All);
    let followed = async {
        let mut following = Following::open(context).await;
        for (step, path) in checkpoints {
            announce(context, folder, *step, path).await?;
        }
        let wanted = wait_until_queued(&mut following, checkpoints).await;
        live::follow(context, &mut following, &wanted, Some(&mut roles), false).await?;
        let known = following.view.evaluations();
        let ended = known
            .into_iter()
            .filter(|known| wanted.evaluations.contains(&known.event.evaluation));
        Ok(ended.map(|known| known.result()).collect())
    };
    let results = tokio::select! {
        results = followed => results,
        stopped = stop_signal() => Err(stopped),
    };
    roles.drain(context.config.service.shutdown_grace).await;
    results
}

async fn announce(context: &Context, folder: &Path, step: Step, path: &Path) -> anyhow::Result<()> {
    let text = |path: &Path| {
        path.canonicalize()?
            .to_str()
            .map(str::to_owned)
            .context("a path that is not UTF-8")
    };
    let event = Written {
        schema: 1,
        run: RunId::try_new(RUN)?,
        step,
        uri: text(path)?,
        written_at: Some(now()),
        team: None,
        suites: vec![text(&folder.join("suite.toml"))?],
        decision_value: None,
        model: None,
        replicas: Vec::new(),
        max_in_flight: None,
    };
    context
        .publisher
        .publish(&CheckpointMessage(CheckpointEvent::Written(event)), None)
        .await?;
    Ok(())
}

/// Waits until every announced step has its evaluation, also one that an earlier run has finished.
async fn wait_until_queued(following: &mut Following, checkpoints: &[(Step, PathBuf)]) -> Wanted {
    let steps: BTreeSet<Step> = checkpoints.iter().map(|(step, _)| *step).collect();
    loop {
        let known = following.view.evaluations();
        let ours = known
            .iter()
            .filter(|known| known.event.run.as_str() == RUN && steps.contains(&known.event.step));
        let found: BTreeSet<Step> = ours.clone().map(|known| known.event.step).collect();
        if found == steps {
            return Wanted {
                evaluations: ours.map(|known| known.event.evaluation.clone()).collect(),
            };
        }
        while !matches!(following.next().await, News::Event(_)) {}
    }
}

fn show(args: &Demo, results: &[EvaluationResult], begun: Timestamp) -> anyhow::Result<Done> {
    if args.json {
        for result in results {
            output::data(&serde_json::to_string(result)?)?;
        }
    } else {
        output::data(&table::results(results))?;
    }
    let data = args.place.common.data_dir.display();
    output::note(&format!(
        "\n{} evaluations in {:.0} s. What next:",
        results.len(),
        now().seconds_since(begun)
    ));
    if let Some(result) = results.last() {
        output::note(&format!(
            "  tidemill items {} --data-dir {data} --outcome truncated   every prompt and answer",
            result.evaluation
        ));
    }
    output::note(&format!(
        "  tidemill results --data-dir {data} --format csv                   the same numbers for a spreadsheet"
    ));
    output::note("  tidemill evaluate --suite examples/demo/suite.toml --endpoint URL --model NAME   your own server");
    output::note(&format!("results, completions and grades lie in {data}"));
    let is_valid = results
        .iter()
        .all(|result| result.state != tidemill_domain::ResultState::Invalid);
    Ok(if is_valid { Done::Valid } else { Done::Invalid })
}
