//! One evaluation to its end.

use std::path::Path;

use anyhow::{Context as _, bail};
use tidemill_config::{Config, Loader};
use tidemill_domain::{EvaluationResult, EvaluationState, ResultState, RunId, Written, counted_as};
use tidemill_loader::intake::Ahead;
use tidemill_loader::{Queued, Scope, intake};
use tidemill_service::{Context, now};
use tidemill_storage::Store;

use crate::arguments::Evaluate;
use crate::exit::Done;
use crate::live::{self, Wanted};
use crate::roles::Roles;
use crate::session::{self, Need, Session};
use crate::stops::{stop_signal, unless_stopped};
use crate::view::{Following, Known};
use crate::{output, table};

pub(crate) fn run(args: Box<Evaluate>) -> anyhow::Result<Done> {
    let mut config = session::configuration(&args.place, "warn")?;
    override_loader(&mut config.loader, &args);
    let event = announcement(&args)?;
    session::block_on(async {
        let open = async {
            let admin = session::admin(&args.place).await?;
            let render = |store: &Store, config: &Config| Ahead::begin(store, &config.loader, &event.suites);
            let opened = Session::open_beside(&args.place, config, Need::Alone, render).await?;
            anyhow::Ok((admin, opened))
        };
        let (_admin, (session, ahead)) = unless_stopped(Box::pin(open)).await?;
        let done = Box::pin(evaluate(&session.context, &event, ahead, args.json)).await;
        session.close().await;
        done
    })
}

/// What the command line says of the loader overrides what file and environment say.
fn override_loader(loader: &mut Loader, args: &Evaluate) {
    if let Some(patience) = args.engine_patience {
        loader.engine_patience = patience;
        loader.endpoint_patience = loader.endpoint_patience.min(patience);
    }
    if let Some(kind) = &args.engine_kind {
        loader.engine_kind.clone_from(kind);
    }
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
    let addresses: Vec<String> = normalised.collect::<anyhow::Result<_>>()?;
    let again = addresses
        .iter()
        .zip(1..)
        .find(|(url, next)| addresses[*next..].contains(url));
    anyhow::ensure!(
        again.is_none(),
        "--endpoint {} is given twice: one server is one replica",
        again.map_or("", |(url, _)| url.as_str())
    );
    Ok(addresses)
}

fn absolute(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).with_context(|| format!("path {}", path.display()))?;
    path.to_str()
        .map(str::to_owned)
        .with_context(|| format!("path {} is not UTF-8", path.display()))
}

async fn evaluate(context: &Context, event: &Written, ahead: Ahead, json: bool) -> anyhow::Result<Done> {
    let patience = std::time::Duration::ZERO;
    let queued = tokio::select! {
        queued = live::with_waits(context, intake::queue_rendered(context, event, patience, ahead)) => queued??,
        stopped = stop_signal() => return Err(stopped),
    };
    let Queued {
        event: asked,
        again,
        graded_again,
        ..
    } = queued.into_iter().next().context("the suite made no evaluation")?;
    let mut following = Following::open(context).await;
    let wanted = Wanted {
        evaluations: [asked.evaluation.clone()].into(),
    };
    let before = following.view.get(&asked.evaluation).map_or(0, Known::samples_done);
    // Those have no outcome any more, although the last result still counts them.
    let before = before.saturating_sub(again + graded_again);
    if again > 0 {
        let again = counted_as(again, "sample that failed is", "samples that failed are");
        output::note(&format!("{again} asked for again"));
    }
    if graded_again > 0 {
        let again = counted_as(
            graded_again,
            "sample that its grader failed is",
            "samples that their grader failed are",
        );
        output::note(&format!("{again} graded again; the engine is not asked"));
    }
    let is_stored = wanted.are_ended(&following);
    if !is_stored {
        let mut roles = Roles::start(context, Scope::Only(vec![asked.evaluation.clone()]));
        let followed = tokio::select! {
            followed = live::follow(context, &mut following, &wanted, Some(&mut roles), json) => Ok(followed),
            stopped = stop_signal() => Err(stopped),
        };
        roles.end(followed, context.config.service.shutdown_grace).await?;
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
    if let Some(advice) = ungraded(&result) {
        output::note(&advice);
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

/// What to do about samples of a result that counts which have no verdict of their grader; an invalid one says it itself.
fn ungraded(result: &EvaluationResult) -> Option<String> {
    let outcomes = result.benchmarks.iter().map(|benchmark| &benchmark.outcomes);
    let failed: u64 = outcomes.map(|outcomes| outcomes.grader_error + outcomes.ungraded).sum();
    (failed > 0 && result.state == ResultState::Final).then(|| {
        let id = &result.evaluation;
        format!(
            "{}, by a fault of the grader (`tidemill items {id} --outcome grader_error`, or \
             ungraded); when it is mended: tidemill regrade {id} --failed",
            counted_as(failed, "sample has no verdict", "samples have no verdict")
        )
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tidemill_domain::EngineKind;

    use super::*;
    use crate::arguments::{Arguments, Command};

    #[test]
    fn one_server_is_one_replica() {
        let given = |urls: &[&str]| addresses(&urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>());
        assert_eq!(given(&["http://a:1", "http://a:2/v1"]).unwrap().len(), 2);
        let error = given(&["http://a:1", "http://b:1", "http://a:1/v1/"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("http://a:1") && error.contains("twice"), "{error}");
    }

    /// The loader's section when `evaluate` is given these flags beside an endpoint, and `before` is configured.
    fn loader(flags: &[&str], mut before: Loader) -> Result<Loader, String> {
        let command = ["tidemill", "evaluate", "--suite", "s.toml"].iter().chain(flags);
        let arguments = Arguments::try_parse_from(command).map_err(|error| error.to_string())?;
        let Command::Evaluate(args) = arguments.command else {
            return Err("another command".to_owned());
        };
        override_loader(&mut before, &args);
        Ok(before)
    }

    const ENDPOINT: [&str; 4] = ["--endpoint", "http://127.0.0.1:8000", "--model", "tiny"];

    #[test]
    fn the_engine_kind_of_the_command_line_overrides_the_configured_one() {
        let configured = || Loader {
            engine_kind: "openai".to_owned(),
            ..Loader::default()
        };
        assert_eq!(loader(&ENDPOINT, configured()), Ok(configured()));
        for kind in EngineKind::ALL.map(EngineKind::label) {
            let flags = [&ENDPOINT[..], &["--engine-kind", kind]].concat();
            assert_eq!(loader(&flags, configured()).unwrap().engine_kind, kind);
        }
    }

    #[test]
    fn an_unknown_engine_kind_is_refused_with_those_that_there_are() {
        let error = loader(&[&ENDPOINT[..], &["--engine-kind", "vlmm"]].concat(), Loader::default()).unwrap_err();
        assert!(error.contains("vlmm") && error.contains("sglang"), "{error}");
        let embedded = ["--checkpoint", "step-1", "--engine-kind", "vllm"];
        let error = loader(&embedded, Loader::default()).unwrap_err();
        assert!(error.contains("--endpoint"), "{error}");
    }
}
