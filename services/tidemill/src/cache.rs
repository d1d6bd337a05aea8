//! What an operator sees and removes of the generation cache.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, bail};
use serde_json::json;
use tidemill_domain::{EvaluationEvent, GroupId, Source, counted, counted_as};
use tidemill_service::{Context, Follow, Start};
use tidemill_streams::{declared, subject};

use crate::arguments::{Cache, CacheAction, CacheClear, CacheStat};
use crate::exit::Done;
use crate::output;
use crate::session::{self, Need, Session};

pub(crate) fn run(args: Cache) -> anyhow::Result<Done> {
    let place = match &args.action {
        CacheAction::Stat(args) => &args.place,
        CacheAction::Clear(args) => &args.place,
    };
    let config = session::configuration(place, "warn")?;
    session::block_on(async {
        let session = Session::open(place, config, Need::Any).await?;
        let done = match &args.action {
            CacheAction::Stat(args) => Box::pin(stat(&session.context, args)).await,
            CacheAction::Clear(args) => Box::pin(clear(&session.context, args)).await,
        };
        session.close().await;
        done.map(|()| Done::Valid)
    })
}

async fn stream(context: &Context) -> anyhow::Result<async_nats::jetstream::stream::Stream> {
    let stream = context.jetstream().get_stream(declared::CACHE.name).await;
    stream.context("look up the generation cache; `tidemill streams apply` makes it")
}

async fn stat(context: &Context, args: &CacheStat) -> anyhow::Result<()> {
    let stream = stream(context).await?;
    let (state, max_bytes) = (&stream.cached_info().state, stream.cached_info().config.max_bytes);
    let mut models: BTreeMap<GroupId, u64> = BTreeMap::new();
    if state.messages > 0 {
        let filter = "tm.cache.>".to_owned();
        let mut follow = Follow::open(context, declared::CACHE, filter, true, Start::Beginning).await;
        let count = |message: tidemill_service::Followed| {
            if let Some((group, _)) = subject::generation_of(&message.subject) {
                *models.entry(group).or_default() += 1;
            }
        };
        follow.each_known(count).await;
    }
    let names = names(context).await;
    let name = |group: &GroupId| names.get(group).map_or(String::new(), join);
    let bodies = context.store.cached_bodies(None).await?;
    let body_bytes: u64 = bodies.iter().map(|body| body.bytes).sum();
    let generations: u64 = models.values().sum();
    if args.json {
        let rows: Vec<_> = models
            .iter()
            .map(|(group, count)| json!({ "group": group, "model": name(group), "generations": count }))
            .collect();
        let stat = json!({
            "generations": generations, "bytes": state.bytes, "max_bytes": max_bytes,
            "large_bodies": bodies.len(), "large_body_bytes": body_bytes, "models": rows,
        });
        return output::data(&serde_json::to_string_pretty(&stat)?);
    }
    output::data(&format!(
        "{}, {} of {max_bytes} bytes; {} in the object store, {body_bytes} bytes",
        counted(generations, "generation"),
        state.bytes,
        counted_as(bodies.len() as u64, "large body", "large bodies")
    ))?;
    for (group, count) in &models {
        output::data(&format!("{group}  {count:>9}  {}", name(group)))?;
    }
    Ok(())
}

async fn clear(context: &Context, args: &CacheClear) -> anyhow::Result<()> {
    let stream = stream(context).await?;
    let groups = match &args.model {
        Some(model) => Some(groups_of(context, model).await?),
        None => None,
    };
    let filters: Vec<String> = match &groups {
        Some(groups) => groups.iter().map(subject::cache_of_group).collect(),
        None => vec!["tm.cache.>".to_owned()],
    };
    let mut removed = 0;
    for filter in filters {
        removed += stream
            .purge()
            .filter(filter)
            .await
            .context("clear the generation cache")?
            .purged;
    }
    let bodies = context.store.cached_bodies(None).await?;
    let is_cleared = |group: &GroupId| groups.as_ref().is_none_or(|groups| groups.contains(group));
    let mut removed_bodies = 0_u64;
    for body in bodies.iter().filter(|body| is_cleared(&body.group)) {
        context.store.remove_cached_body(&body.group, &body.key).await?;
        removed_bodies += 1;
    }
    if args.json {
        let cleared = json!({ "removed": removed, "removed_large_bodies": removed_bodies });
        return output::data(&serde_json::to_string_pretty(&cleared)?);
    }
    output::note(&format!(
        "{} removed; later evaluations ask anew",
        counted(removed, "generation")
    ));
    Ok(())
}

/// The groups that a model's name, a checkpoint's address or a group's id stands for.
async fn groups_of(context: &Context, model: &str) -> anyhow::Result<BTreeSet<GroupId>> {
    if let Ok(group) = model.parse::<GroupId>() {
        return Ok([group].into());
    }
    let names = names(context).await;
    let is_named = |(_, names): &(GroupId, BTreeSet<String>)| names.contains(model);
    let groups: BTreeSet<GroupId> = names.into_iter().filter(is_named).map(|(group, _)| group).collect();
    if groups.is_empty() {
        bail!("no model here is called {model:?}; `tidemill cache stat` lists them");
    }
    Ok(groups)
}

/// What the weights of each group are called by the evaluations that are known.
async fn names(context: &Context) -> BTreeMap<GroupId, BTreeSet<String>> {
    let mut names: BTreeMap<GroupId, BTreeSet<String>> = BTreeMap::new();
    let filter = "tm.evaluation.>".to_owned();
    let mut follow = Follow::open(context, declared::EVALUATION, filter, false, Start::LastPerSubject).await;
    let note = |message: tidemill_service::Followed| {
        if let Ok(event) = serde_json::from_slice::<EvaluationEvent>(&message.payload) {
            let name = match event.source {
                Source::Checkpoint { uri } => uri,
                Source::Endpoint { model, .. } => model,
            };
            names.entry(event.group).or_default().insert(name);
        }
    };
    follow.each_known(note).await;
    names
}

fn join(names: &BTreeSet<String>) -> String {
    names.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}
