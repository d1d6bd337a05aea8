//! One evaluation to its end.

use std::path::Path;

use anyhow::{Context as _, bail};
use tidemill_domain::{EvaluationState, ResultState, RunId, Written};
use tidemill_loader::{Queued, Scope, intake};
use tidemill_service::{Context, now};

use crate::arguments::Evaluate;
use crate::exit::Done;
use crate::live::{self, Wanted};
use crate::roles::Roles;
use crate::session::{self, Need, Session};
use crate::view::{Following, Known};
use crate::{output, table};

pub(crate) fn run(args: Box<Evaluate>) -> anyhow::Result<Done> {
    let mut config = session::configuration(&args.place, "warn")?;
    if let Some(patience) = args.engine_patience {
        config.loader.engine_patience = patience;
        config.loader.endpoint_patience = config.loader.endpoint_patience.min(patience);
    }
    let event = announcement(&args)?;
    session::block_on(async {
        let _admin = session::admin(&args.place).await?;
        let session = Session::open(&args.place, config, Need::Alone).await?;
        let done = Box::pin(evaluate(&session.context, &event, args.json)).await;
        session.close().await;
        done
    })
}

fn announcement(args: &Evaluate) -> anyhow::Result<Written> {
    let suite = args
        .suite
        .canonicalize()
        .with_context(|| format!("suite file {}", args.suite.display()))?;
    let mut addresses = addresses(&args.endpoint)?.into_iter();
    let uri = match (&args.checkpoint, addresses.next()) {
        (Some(folder), _) => absolute(folder)?,
        (None, Some(url)) => url,
        (None, None) => bail!("give --checkpoint or --endpoint"),
    };
    Ok(Written {
        schema: 1,
        run: args
            .run
            .clone()
            .map_or_else(|| RunId::try_new(intake::UNNAMED_RUN), Ok)?,
        step: args.step,
        uri,
        written_at: Some(now()),
        team: args.team.clone(),
        suites: vec![absolute(&suite)?],
        decision_value: None,
        model: args.model.clone(),
        replicas: addresses.collect(),
        max_in_flight: args.max_in_flight,
        no_cache: args.no_cache,
    })
}

/// The base addresses of servers in one form.
pub(crate) fn addresses(endpoints: &[String]) -> anyhow::Result<Vec<String>> {
    let normalised = endpoints.iter().map(|endpoint| {
        let url = tidemill_inference::normalise_url(endpoint);
        let is_address = url.starts_with("http://") || url.starts_with("https://");
        anyhow::ensure!(
            is_address,
            "--endpoint {endpoint} is not the address of a server, such as http://127.0.0.1:8000"
        );
        Ok(url)
    });
    normalised.collect()
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).with_context(|| format!("path {}", path.display()))?;
    path.to_str()
        .map(str::to_owned)
        .with_context(|| format!("path {} is not UTF-8", path.display()))
}

async fn evaluate(context: &Context, event: &Written, json: bool) -> anyhow::Result<Done> {
    let patience = std::time::Duration::ZERO;
    let queued = tokio::select! {
        queued = live::with_waits(context, intake::queue(context, event, patience)) => queued??,
        stopped = stop_signal() => return Err(stopped),
    };
    let Queued {
        event: asked, again, ..
    } = queued.into_iter().next().context("the suite made no evaluation")?;
    let mut following = Following::open(context).await;
    let wanted = Wanted {
        evaluations: [asked.evaluation.clone()].into(),
    };
    let before = following.view.get(&asked.evaluation).map_or(0, Known::samples_done);
    // Those have no outcome any more, although the last result still counts them.
    let before = before.saturating_sub(again);
    if again > 0 {
        output::note(&format!("{again} samples that failed are asked for again"));
    }
    let is_stored = wanted.are_ended(&following);
    if !is_stored {
        let mut roles = Roles::start(context, Scope::Only(vec![asked.evaluation.clone()]));
        let followed = tokio::select! {
            followed = live::follow(context, &mut following, &wanted, Some(&mut roles), json) => followed,
            stopped = stop_signal() => Err(stopped),
        };
        roles.drain(context.config.service.shutdown_grace).await;
        followed?;
    }
    let known = following
        .view
        .get(&asked.evaluation)
        .context("the evaluation vanished")?;
    let result = known.result();
    if result.state == ResultState::Invalid && !is_stored && known.samples_done() <= before {
        // Not one sample came of this run: the engine could not be used.
        bail!(
            result
                .reason
                .unwrap_or_else(|| "the engine could not be used".to_owned())
        );
    }
    if json {
        output::data(&serde_json::to_string_pretty(&result)?)?;
    } else {
        output::data(&table::results(std::slice::from_ref(&result)))?;
        output::note(&format!("every item: tidemill items {}", result.evaluation));
    }
    Ok(if known.event.state == EvaluationState::Final {
        Done::Valid
    } else {
        Done::Invalid
    })
}

/// Waits for a signal to stop: what is finished stays, and the same command goes on from there.
pub(crate) async fn stop_signal() -> anyhow::Error {
    use tokio::signal::unix::{SignalKind, signal};
    let (terminate, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    match (terminate, interrupt) {
        (Ok(mut terminate), Ok(mut interrupt)) => {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            anyhow::anyhow!("stopped by a signal; nothing finished is lost: the same command goes on from here")
        }
        (Err(error), _) | (_, Err(error)) => error.into(),
    }
}
