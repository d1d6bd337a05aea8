//! Telling that a checkpoint was written: the one line in a training loop.

use anyhow::Context as _;
use tidemill_domain::{CheckpointEvent, RolledBack, Written};
use tidemill_service::{Published, now};
use tidemill_streams::CheckpointMessage;

use crate::arguments::Announce;
use crate::evaluate::addresses;
use crate::exit::Done;
use crate::output;
use crate::session::{self, Need, Session};

pub(crate) fn run(args: Announce) -> anyhow::Result<Done> {
    let config = session::configuration(&args.place, "warn")?;
    let event = event(&args)?;
    session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let published = session.context.publisher.publish(&CheckpointMessage(event), None).await;
        let (url, is_alone) = (session.url().to_owned(), session.has_own_broker());
        session.close().await;
        if let Published::Stored(sequence) = published? {
            output::note(&format!(
                "announced {} step {} at {url} (message {sequence})",
                args.run, args.step
            ));
        }
        if let Some(path) = args.path.as_deref().filter(|path| !args.rolled_back && !path.exists()) {
            output::note(&format!(
                "there is no {} here: the loader waits for it for its `checkpoint_patience`, and then refuses it",
                path.display()
            ));
        }
        if is_alone {
            output::note(&format!(
                "nobody runs here: it waits in {} until `tidemill up` is started with this data directory; to reach one that \
                 runs, name its --data-dir, or its broker by --nats and its store by --store",
                args.place.common.data_dir.display()
            ));
        }
        Ok(Done::Valid)
    })
}

fn event(args: &Announce) -> anyhow::Result<CheckpointEvent> {
    if args.rolled_back {
        return Ok(CheckpointEvent::RolledBack(RolledBack {
            schema: 1,
            run: args.run.clone(),
            to_step: args.step,
        }));
    }
    let mut endpoints = addresses(&args.endpoint)?.into_iter();
    let uri = match (&args.path, endpoints.next()) {
        (Some(path), _) => {
            let path = std::path::absolute(path).with_context(|| format!("path {}", path.display()))?;
            format!(
                "file://{}",
                encoded(path.to_str().context("the checkpoint's path is not UTF-8")?)
            )
        }
        (None, Some(url)) => url,
        (None, None) => anyhow::bail!("give the checkpoint's folder, or --endpoint"),
    };
    let suites = args
        .suite
        .iter()
        .map(|suite| suite_reference(suite))
        .collect::<anyhow::Result<_>>()?;
    Ok(CheckpointEvent::Written(Written {
        schema: 1,
        run: args.run.clone(),
        step: args.step,
        uri,
        written_at: Some(now()),
        team: args.team.clone(),
        suites,
        decision_value: None,
        model: args.model.clone(),
        replicas: endpoints.collect(),
        max_in_flight: None,
        no_cache: args.no_cache,
    }))
}

/// A file becomes an absolute path, since the loader runs elsewhere; anything else is a name that the loader knows.
fn suite_reference(suite: &str) -> anyhow::Result<String> {
    let path = std::path::Path::new(suite);
    if path.extension().is_none_or(|extension| extension != "toml") && !suite.contains('/') {
        return Ok(suite.to_owned());
    }
    let path = path.canonicalize().with_context(|| format!("suite file {suite}"))?;
    path.to_str()
        .map(str::to_owned)
        .context("the suite's path is not UTF-8")
}

fn encoded(path: &str) -> String {
    path.replace('%', "%25").replace(' ', "%20")
}
