//! How full the engines are, as the generators that serve them say.

use std::collections::BTreeMap;

use anyhow::anyhow;
use async_nats::jetstream::kv::Store;
use futures::TryStreamExt as _;
use serde_json::json;
use tidemill_domain::{Capacity, ReplicaLoad};
use tidemill_service::Broker;
use tidemill_streams::buckets;

use super::{Finding, finding};

/// One finding a replica that is served at present.
pub(super) async fn replicas(broker: &Broker) -> Vec<Finding> {
    let Ok(bucket) = broker.jetstream.get_key_value(buckets::CAPACITY.name).await else {
        return Vec::new();
    };
    match told(&bucket).await {
        Ok(told) => joined(told).into_iter().map(found).collect(),
        Err(error) => vec![finding("replicas", Err(error))],
    }
}

async fn told(bucket: &Store) -> anyhow::Result<Vec<Capacity>> {
    let keys: Vec<String> = bucket.keys().await?.try_collect().await?;
    let mut told = Vec::new();
    for key in keys {
        if let Some(bytes) = bucket.get(&key).await? {
            let capacity = serde_json::from_slice(&bytes);
            told.push(capacity.map_err(|error| anyhow!("what {key} tells is not understood: {error}"))?);
        }
    }
    Ok(told)
}

/// The replicas, each as all generators together see it: it is away when all of them say so.
fn joined(told: Vec<Capacity>) -> Vec<ReplicaLoad> {
    let mut replicas: BTreeMap<String, ReplicaLoad> = BTreeMap::new();
    for load in told.into_iter().flat_map(|capacity| capacity.replicas) {
        match replicas.get_mut(&load.url) {
            None => drop(replicas.insert(load.url.clone(), load)),
            Some(known) => {
                known.allowed += load.allowed;
                known.in_flight += load.in_flight;
                known.is_away &= load.is_away;
                known.running = known.running.or(load.running);
                known.waiting = known.waiting.or(load.waiting);
                known.kv_use = known.kv_use.or(load.kv_use);
            }
        }
    }
    replicas.into_values().collect()
}

fn found(load: ReplicaLoad) -> Finding {
    let figures = json!(load);
    let mut detail = format!(
        "{}: {} of {} requests in flight",
        load.url, load.in_flight, load.allowed
    );
    match (load.running, load.waiting) {
        (Some(running), Some(waiting)) => detail += &format!(", {running} running and {waiting} waiting there"),
        _ => detail += ", its load is not told",
    }
    if let Some(used) = load.kv_use {
        detail += &format!(", {:.0} % of its KV cache used", 100.0 * used);
    }
    let found = if load.is_away {
        Err(anyhow!(
            "{detail}; it is away: its items wait or go elsewhere until it answers, start it or mend it"
        ))
    } else {
        Ok(detail)
    };
    finding("replica", found).with(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(url: &str, in_flight: u32, is_away: bool) -> ReplicaLoad {
        ReplicaLoad {
            url: url.to_owned(),
            allowed: 10,
            in_flight,
            running: (!is_away).then_some(5),
            waiting: (!is_away).then_some(2),
            kv_use: None,
            is_away,
        }
    }

    fn capacity(replicas: Vec<ReplicaLoad>) -> Capacity {
        Capacity {
            schema: 1,
            slots: 10,
            in_flight: 0,
            replicas,
        }
    }

    #[test]
    fn a_replica_is_what_all_generators_together_have_there() {
        let told = vec![
            capacity(vec![load("http://a", 3, true), load("http://b", 1, true)]),
            capacity(vec![load("http://a", 4, false)]),
        ];
        let findings: Vec<Finding> = joined(told).into_iter().map(found).collect();
        assert!(findings[0].ok, "{:?}", findings[0]);
        assert_eq!(
            findings[0].detail,
            "http://a: 7 of 20 requests in flight, 5 running and 2 waiting there"
        );
        assert!(
            !findings[1].ok && findings[1].detail.contains("it is away"),
            "{:?}",
            findings[1]
        );
    }
}
