//! What killed loaders left of groups that have no evaluation any more.

use std::collections::{BTreeSet, HashSet};

use futures::TryStreamExt as _;
use tidemill_domain::GroupId;
use tidemill_service::{Context, leader};
use tidemill_streams::{buckets, declared, durable};

/// Removes the records and consumers of groups that are not `alive` and that no loader runs.
pub(crate) async fn groups(context: &Context, alive: &HashSet<GroupId>) {
    if let Err(error) = sweep(context, alive).await {
        tracing::warn!(
            error,
            "what ended groups left is not removed; the next loader tries again"
        );
    }
}

async fn sweep(context: &Context, alive: &HashSet<GroupId>) -> Result<(), String> {
    let jetstream = context.jetstream();
    let records = jetstream.get_key_value(buckets::GROUPS.name).await.map_err(text)?;
    let leases = jetstream.get_key_value(buckets::LEASES.name).await.map_err(text)?;
    let ready = jetstream.get_stream(declared::READY.name).await.map_err(text)?;
    let mut names: BTreeSet<String> = records.keys().await.map_err(text)?.try_collect().await.map_err(text)?;
    let consumers: Vec<String> = ready.consumer_names().try_collect().await.map_err(text)?;
    names.extend(
        consumers
            .iter()
            .filter_map(|name| Some(name.strip_prefix("generator-")?.to_owned())),
    );
    for group in names.into_iter().filter_map(|name| name.parse::<GroupId>().ok()) {
        // Not of a copy that may be behind: what a living loader uses must not be removed.
        let lease = leader::entry(&leases, &format!("group.{group}")).await;
        let is_run = lease.map_err(text)?.is_some();
        if is_run || alive.contains(&group) {
            continue;
        }
        records.delete(group.as_str()).await.map_err(text)?;
        let consumer = durable::generator(&group, 1).name;
        if consumers.contains(&consumer) {
            ready.delete_consumer(&consumer).await.map_err(text)?;
        }
        tracing::info!(%group, "what an ended group had left is removed");
    }
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
