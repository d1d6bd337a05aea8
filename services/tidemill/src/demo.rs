//! The shipped checkpoints, evaluated live on this machine.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail};
use tidemill_domain::{CheckpointEvent, EvaluationId, EvaluationResult, RunId, Step, Timestamp, Written, counted};
use tidemill_loader::{Scope, intake};
use tidemill_service::{Context, now};
use tidemill_streams::CheckpointMessage;

use crate::arguments::Demo;
use crate::exit::Done;
use crate::live::{self, Wanted};
use crate::roles::Roles;
use crate::session::{self, Need, Session};
use crate::stops::{stop_signal, unless_stopped};
use crate::view::Following;
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
        let open = async {
            let admin = session::admin(&args.place).await?;
            anyhow::Ok((admin, Session::open(&args.place, config, Need::Alone).await?))
        };
        let (_admin, session) = unless_stopped(Box::pin(open)).await?;
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
        let mut wanted = Wanted::default();
        for (step, path) in checkpoints {
            wanted.evaluations.extend(announce(context, folder, *step, path).await?);
        }
        let mut following = Following::open(context).await;
        live::follow(context, &mut following, &wanted, Some(&mut roles), false).await?;
        let known = following.view.evaluations();
        let ended = known
            .into_iter()
            .filter(|known| wanted.evaluations.contains(&known.event.evaluation));
        Ok(ended.map(|known| known.result()).collect())
    };
    let results = tokio::select! {
        results = followed => Ok(results),
        stopped = stop_signal() => Err(stopped),
    };
    roles.end(results, context.config.service.shutdown_grace).await
}

/// Announces a checkpoint as a trainer does, and returns the evaluations that this makes: announcing is idempotent, so they
/// can be asked for here without waiting for the loader, and what is wrong is known at once.
async fn announce(context: &Context, folder: &Path, step: Step, path: &Path) -> anyhow::Result<Vec<EvaluationId>> {
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
        no_cache: false,
    };
    let queued = intake::queue(context, &event, Duration::ZERO).await?;
    context
        .publisher
        .publish(&CheckpointMessage(CheckpointEvent::Written(event)), None)
        .await?;
    Ok(queued.into_iter().map(|queued| queued.event.evaluation).collect())
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
        "\n{} in {:.0} s. What next:",
        counted(results.len() as u64, "evaluation"),
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
