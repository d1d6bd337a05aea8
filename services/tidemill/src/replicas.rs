//! The replicas that generators serve at present, and what is said of those that take nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::anyhow;
use async_nats::jetstream::Context as JetStream;
use futures::TryStreamExt as _;
use tidemill_domain::{Capacity, GroupId, ReplicaLoad, Trouble, TroubleKind};
use tidemill_service::Broker;
use tidemill_streams::buckets;
use tokio::time::{Duration, Instant};

/// Turned away for less long is an episode that passes; whoever is away is told of at once.
const SAID_AFTER_SECONDS: u64 = 5;

/// Between two looks, and between two lines about one replica.
const LOOK_EVERY: Duration = Duration::from_secs(3);
const SAID_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// The replicas, each as all generators together see it; of one group, or of all. `None` where no bucket is there.
///
/// # Errors
/// When the broker does not answer, or an entry is not understood.
pub(crate) async fn look(
    jetstream: &JetStream,
    groups: Option<&BTreeSet<GroupId>>,
) -> anyhow::Result<Option<Vec<ReplicaLoad>>> {
    let Ok(bucket) = jetstream.get_key_value(buckets::CAPACITY.name).await else {
        return Ok(None);
    };
    let is_wanted = |key: &str| {
        let group = key.split('.').next().unwrap_or_default();
        groups.is_none_or(|groups| groups.iter().any(|wanted| wanted.as_str() == group))
    };
    let keys: Vec<String> = bucket.keys().await?.try_collect().await?;
    let mut told = Vec::new();
    for key in keys.iter().filter(|key| is_wanted(key)) {
        if let Some(bytes) = bucket.get(key).await? {
            let capacity = serde_json::from_slice(&bytes);
            told.push(capacity.map_err(|error| anyhow!("what {key} tells is not understood: {error}"))?);
        }
    }
    Ok(Some(joined(told)))
}

/// It takes nothing when all generators say so, and then since the last of them found that.
pub(crate) fn joined(told: Vec<Capacity>) -> Vec<ReplicaLoad> {
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
                let both = known.trouble.take().zip(load.trouble);
                known.trouble = both.map(|(one, other)| {
                    if one.since_seconds <= other.since_seconds {
                        one
                    } else {
                        other
                    }
                });
            }
        }
    }
    replicas.into_values().collect()
}

/// Why a replica takes nothing and what to do, where that is worth a line; behind its address.
pub(crate) fn trouble(load: &ReplicaLoad) -> Option<String> {
    let Some(trouble) = &load.trouble else {
        let remedy = remedy(TroubleKind::Away);
        return load.is_away.then(|| format!("it is away; {remedy}"));
    };
    let is_busy = matches!(trouble.kind, TroubleKind::Unavailable | TroubleKind::Overloaded);
    if is_busy && trouble.since_seconds < SAID_AFTER_SECONDS {
        return None;
    }
    let mut line = format!("it {} since {} s", trouble.kind.label(), trouble.since_seconds);
    if let Some(reason) = &trouble.reason {
        line += &format!(": {reason}");
    }
    line += &match trouble.next_seconds {
        Some(next) => format!("; asked again in {next} s"),
        None => "; being asked again".to_owned(),
    };
    Some(format!("{line}. {}", remedy(trouble.kind)))
}

const fn remedy(kind: TroubleKind) -> &'static str {
    match kind {
        TroubleKind::Away => {
            "Its items wait or go elsewhere until it answers, and nothing is lost: start it or mend it, all goes on by itself"
        }
        TroubleKind::Refusing => {
            "Its items wait or go elsewhere, and nothing is lost: look whether the model's name and the key are what it wants"
        }
        TroubleKind::Unavailable => {
            "The evaluation waits and nothing is lost: look into the server's log, or start it anew; all goes on by itself"
        }
        TroubleKind::Overloaded => {
            "The evaluation waits and nothing is lost: see who else uses the server, or raise its limit; all goes on by itself"
        }
    }
}

/// What was said of a replica that takes nothing.
#[derive(Debug)]
struct Said {
    kind: TroubleKind,
    reason: Option<String>,
    at: Instant,
}

impl Said {
    /// Whether there is more to say: something else, why, or the same after a while.
    fn is_old(&self, trouble: Option<&Trouble>, kind: TroubleKind, now: Instant) -> bool {
        let reason = trouble.and_then(|trouble| trouble.reason.as_deref());
        let is_explained = reason.is_some() && reason != self.reason.as_deref();
        self.kind != kind || is_explained || now - self.at >= SAID_AGAIN_AFTER
    }
}

/// What is said of replicas while an evaluation runs.
#[derive(Debug, Default)]
pub(crate) struct News {
    looked: Option<Instant>,
    /// What was said of each that takes nothing, and when.
    said: BTreeMap<String, Said>,
}

impl News {
    /// Lines about replicas of these groups that began or ceased to take nothing, or still take nothing after a while.
    pub(crate) async fn look(&mut self, broker: &Broker, groups: &BTreeSet<GroupId>) -> Vec<String> {
        let now = Instant::now();
        if groups.is_empty() || self.looked.is_some_and(|looked| now - looked < LOOK_EVERY) {
            return Vec::new();
        }
        self.looked = Some(now);
        match look(&broker.jetstream, Some(groups)).await {
            Ok(replicas) => self.of(&replicas.unwrap_or_default(), now),
            Err(error) => {
                tracing::debug!(%error, "what generators say of their replicas is not known");
                Vec::new()
            }
        }
    }

    fn of(&mut self, replicas: &[ReplicaLoad], now: Instant) -> Vec<String> {
        let mut lines = Vec::new();
        for load in replicas {
            let said = self.said.get(&load.url);
            match (trouble(load), said) {
                (Some(line), said) => {
                    let kind = load.trouble.as_ref().map_or(TroubleKind::Away, |trouble| trouble.kind);
                    if said.is_none_or(|said| said.is_old(load.trouble.as_ref(), kind, now)) {
                        lines.push(format!("replica {}: {line}", load.url));
                        let reason = load.trouble.as_ref().and_then(|trouble| trouble.reason.clone());
                        self.said.insert(load.url.clone(), Said { kind, reason, at: now });
                    }
                }
                (None, Some(_)) if load.trouble.is_none() => {
                    lines.push(format!("replica {}: it takes requests again", load.url));
                    self.said.remove(&load.url);
                }
                (None, _) => {}
            }
        }
        lines
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn load(url: &str, trouble: Option<(TroubleKind, u64)>) -> ReplicaLoad {
        ReplicaLoad {
            url: url.to_owned(),
            allowed: 10,
            in_flight: 3,
            running: trouble.is_none().then_some(5),
            waiting: trouble.is_none().then_some(2),
            kv_use: None,
            is_away: trouble.is_some_and(|(kind, _)| kind == TroubleKind::Away),
            trouble: trouble.map(|(kind, since_seconds)| Trouble {
                kind,
                since_seconds,
                next_seconds: Some(4),
                reason: None,
            }),
        }
    }

    #[test]
    fn an_endless_refusal_says_since_when_with_which_status_until_when_and_what_to_do() {
        let line = |kind, since| trouble(&load("http://a", Some((kind, since))));
        assert_eq!(
            line(TroubleKind::Unavailable, 31).unwrap(),
            "it turns everything away (HTTP 503) since 31 s; asked again in 4 s. The evaluation waits and nothing is lost: look into \
             the server's log, or start it anew; all goes on by itself"
        );
        assert!(
            line(TroubleKind::Overloaded, 5)
                .unwrap()
                .contains("(HTTP 429) since 5 s")
        );
        assert!(line(TroubleKind::Away, 0).unwrap().contains("is away since 0 s"));
        assert_eq!(line(TroubleKind::Overloaded, 4), None, "an episode that passes");
        assert_eq!(trouble(&load("http://a", None)), None);
    }

    #[test]
    fn a_replica_that_takes_nothing_is_said_once_then_again_after_a_while_and_when_it_is_over() {
        let (mut news, now) = (News::default(), Instant::now());
        let refusing = |since| [load("http://a", Some((TroubleKind::Unavailable, since)))];
        assert!(news.of(&refusing(1), now).is_empty());
        assert_eq!(news.of(&refusing(9), now).len(), 1);
        assert!(news.of(&refusing(12), now + LOOK_EVERY).is_empty(), "said already");
        assert_eq!(news.of(&refusing(70), now + SAID_AGAIN_AFTER).len(), 1);
        let away = [load("http://a", Some((TroubleKind::Away, 0)))];
        assert_eq!(news.of(&away, now + SAID_AGAIN_AFTER).len(), 1, "something else");
        let mut explained = away.clone();
        let why = "it does not serve \"m\"; it serves \"n\"";
        explained[0].trouble.as_mut().unwrap().reason = Some(why.to_owned());
        let said = news.of(&explained, now + SAID_AGAIN_AFTER);
        assert!(said.len() == 1 && said[0].contains(why), "{said:?}");
        assert!(news.of(&explained, now + SAID_AGAIN_AFTER).is_empty(), "said already");
        let over = news.of(&[load("http://a", None)], now + SAID_AGAIN_AFTER);
        assert_eq!(over, ["replica http://a: it takes requests again"]);
    }
}
