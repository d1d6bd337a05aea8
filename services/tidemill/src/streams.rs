//! The broker's streams against their declarations.

use tidemill_config::Config;
use tidemill_domain::counted;
use tidemill_streams::declared;
use tidemill_streams::live::{self, Difference};

use crate::arguments::{Streams, StreamsAction};
use crate::exit::Done;
use crate::{output, session};

pub(crate) fn run(args: Streams) -> anyhow::Result<Done> {
    let (action, args) = match args.action {
        StreamsAction::Plan(args) => (Action::Plan, args),
        StreamsAction::Apply(args) => (Action::Apply, args),
        StreamsAction::Check(args) => (Action::Check, args),
    };
    let config = session::configuration(&args.place, "warn")?;
    let differences = session::block_on(async {
        let (broker, own) = session::connect_only(&args.place, &config).await?;
        let differences = compare(&broker.jetstream, &config, action).await;
        session::leave(&broker, own).await;
        Ok(differences?)
    })?;
    show(action, &differences, args.json)?;
    Ok(if action == Action::Check && !differences.is_empty() {
        Done::Invalid
    } else {
        Done::Valid
    })
}

async fn compare(
    jetstream: &async_nats::jetstream::Context,
    config: &Config,
    action: Action,
) -> Result<Vec<Difference>, live::Error> {
    let is_apply = action == Action::Apply;
    let mut differences = if is_apply {
        live::apply(jetstream, config.broker.replicas).await?
    } else {
        live::plan(jetstream, config.broker.replicas).await?
    };
    let is_missing = |difference: &Difference| difference.name == declared::CACHE.name && difference.is_missing();
    if is_apply || !differences.iter().any(is_missing) {
        differences.extend(live::size_cache(jetstream, config.cache.max_bytes, is_apply).await?);
    }
    Ok(differences)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Plan,
    Apply,
    Check,
}

fn show(action: Action, differences: &[Difference], json: bool) -> anyhow::Result<()> {
    if json {
        return output::data(&serde_json::to_string_pretty(differences)?);
    }
    for difference in differences {
        output::data(&difference.to_string())?;
    }
    match (action, differences.len()) {
        (_, 0) => output::note("streams, consumers and buckets are as declared"),
        (Action::Apply, count) => output::note(&format!("{} made as declared", counted(count as u64, "difference"))),
        (Action::Plan | Action::Check, count) => {
            let (is, all) = (
                counted(count as u64, "difference"),
                if count == 1 { "it" } else { "them" },
            );
            output::note(&format!(
                "{is} to make as declared; `tidemill streams apply` does {all}"
            ));
        }
    }
    Ok(())
}
