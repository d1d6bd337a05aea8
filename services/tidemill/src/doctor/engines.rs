//! How full the engines are, as the generators that serve them say.

use anyhow::anyhow;
use serde_json::json;
use tidemill_domain::ReplicaLoad;
use tidemill_service::Broker;

use super::{Finding, finding};
use crate::replicas::{look, trouble};

/// One finding a replica that is served at present.
pub(super) async fn replicas(broker: &Broker) -> Vec<Finding> {
    match look(&broker.jetstream, None).await {
        Ok(replicas) => replicas.into_iter().flatten().map(found).collect(),
        Err(error) => vec![finding("replicas", Err(error))],
    }
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
    let found = match trouble(&load) {
        Some(trouble) => Err(anyhow!("{detail}; {trouble}")),
        None => Ok(detail),
    };
    finding("replica", found).with(figures)
}

#[cfg(test)]
mod tests {
    use tidemill_domain::{Capacity, TroubleKind};

    use super::*;
    use crate::replicas::joined;
    use crate::replicas::tests::load;

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
            capacity(vec![
                load("http://a", Some((TroubleKind::Away, 9))),
                load("http://b", Some((TroubleKind::Away, 9))),
                load("http://c", Some((TroubleKind::Unavailable, 30))),
            ]),
            capacity(vec![
                load("http://a", None),
                load("http://c", Some((TroubleKind::Unavailable, 20))),
            ]),
        ];
        let findings: Vec<Finding> = joined(told).into_iter().map(found).collect();
        assert!(findings[0].ok, "{:?}", findings[0]);
        assert_eq!(
            findings[0].detail,
            "http://a: 6 of 20 requests in flight, 5 running and 2 waiting there"
        );
        assert!(
            !findings[1].ok && findings[1].detail.contains("it is away since 9 s"),
            "{:?}",
            findings[1]
        );
        assert!(
            !findings[2].ok && findings[2].detail.contains("(HTTP 503) since 20 s; asked again in 4 s"),
            "{:?}",
            findings[2]
        );
        assert_eq!(findings[2].figures["trouble"]["kind"], "unavailable");
    }
}
