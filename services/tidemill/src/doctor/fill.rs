//! How full everything is, and who waits for what.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{anyhow, bail};
use async_nats::jetstream::consumer;
use futures::TryStreamExt as _;
use serde_json::{Value, json};
use tidemill_config::Config;
use tidemill_domain::counted;
use tidemill_service::status::Status;
use tidemill_service::{Broker, Context, Load, status};
use tidemill_streams::{Retention, declared};

use super::{Finding, finding};
use crate::arguments::Place;

/// A share of a stream's limit above which it is soon full.
const NEARLY_FULL: f64 = 0.9;

/// Free bytes on the broker's disk below which it is soon full.
const LITTLE_ROOM: u64 = 512 << 20;

/// How long processes may take to answer. They are asked over the broker, so this is much.
const ANSWERS_WITHIN: Duration = Duration::from_millis(500);

const MIB: f64 = (1 << 20) as f64;

/// One finding a stream, as far as there are any.
pub(super) async fn streams(broker: &Broker) -> Vec<Finding> {
    let mut findings = Vec::new();
    for stream in declared::ALL {
        let Ok(live) = broker.jetstream.get_stream(stream.name).await else {
            continue;
        };
        let info = live.cached_info();
        let (messages, bytes, limit) = (info.state.messages, info.state.bytes, info.config.max_bytes);
        let share = if limit > 0 { bytes as f64 / limit as f64 } else { 0.0 };
        let detail = format!(
            "{}, {:.1} MiB, {:.1} % of its limit",
            counted(messages, "message"),
            bytes as f64 / MIB,
            100.0 * share
        );
        let (detail, ill) = match info.cluster.as_ref().map(super::copies) {
            Some((copies, ill)) => (format!("{detail}; {copies}"), ill),
            None => (detail, None),
        };
        let found = if let Some(ill) = ill {
            Err(anyhow!("{detail}: {ill}"))
        } else if stream.retention == Retention::Cache {
            Ok(format!("{detail}; when it is full the oldest generations go"))
        } else if share < NEARLY_FULL {
            Ok(detail)
        } else {
            let next_step = match stream.name {
                name if name == declared::DEAD.name => "look at `tidemill dead list`, then `dead retry` or `dead drop`",
                _ => "raise its limit or archive old evaluations",
            };
            Err(anyhow!(
                "{detail}: producers wait when it is full; nothing is dropped; {next_step}"
            ))
        };
        let figures = json!({ "messages": messages, "bytes": bytes, "limit_bytes": limit });
        findings.push(finding(stream.name, found).with(figures));
    }
    findings
}

/// How far grading is behind, and whether that holds releases up.
pub(super) async fn grading(context: &Context) -> Finding {
    let backlog = match tidemill_grader::backlog(context).await {
        Ok(backlog) => backlog,
        Err(error) => return finding("grading backlog", Err(anyhow!("{error}"))),
    };
    let (ungraded, bound) = (
        backlog.waiting + backlog.in_hand,
        u64::from(context.config.loader.max_ungraded),
    );
    let detail = format!(
        "{ungraded} completions without a grade ({} at graders), the oldest for {:.0} s",
        backlog.in_hand, backlog.oldest_age
    );
    let found = if ungraded < bound {
        Ok(detail)
    } else {
        Err(anyhow!(
            "{detail}: nothing more is released from {bound} on; start more graders, or look at what keeps them"
        ))
    };
    let figures = json!({
        "waiting": backlog.waiting, "in_hand": backlog.in_hand, "oldest_seconds": backlog.oldest_age, "bound": bound,
    });
    finding("grading backlog", found).with(figures)
}

/// What consumers hold: delivered and not acknowledged.
pub(super) async fn held(broker: &Broker) -> Finding {
    match consumers(broker).await {
        Ok(held) => {
            let lines: Vec<String> = held.iter().map(Held::line).collect();
            let line = if lines.is_empty() {
                "no consumers".to_owned()
            } else {
                lines.join("; ")
            };
            finding("held items", Ok(line)).with(held.iter().map(Held::figures).collect())
        }
        Err(error) => finding("held items", Err(error)),
    }
}

struct Held {
    consumer: String,
    in_hand: usize,
    again: usize,
    waiting: u64,
}

impl Held {
    fn line(&self) -> String {
        let Self {
            consumer,
            in_hand,
            again,
            waiting,
        } = self;
        format!("{consumer}: {in_hand} in hand ({again} delivered before), {waiting} waiting")
    }

    fn figures(&self) -> Value {
        let Self {
            consumer,
            in_hand,
            again,
            waiting,
        } = self;
        json!({ "consumer": consumer, "in_hand": in_hand, "delivered_before": again, "waiting": waiting })
    }
}

/// The durable consumers of the streams that are worked on.
async fn consumers(broker: &Broker) -> anyhow::Result<Vec<Held>> {
    let mut held = Vec::new();
    for stream in [declared::CHECKPOINT, declared::READY, declared::DONE] {
        let Ok(live) = broker.jetstream.get_stream_no_info(stream.name).await else {
            continue;
        };
        let mut infos = live.consumers();
        while let Some(info) = infos.try_next().await? {
            let consumer::Info {
                config,
                num_ack_pending,
                num_redelivered,
                num_pending,
                ..
            } = info;
            // Readers without a name of their own acknowledge nothing.
            if let Some(consumer) = config.durable_name {
                held.push(Held {
                    consumer,
                    in_hand: num_ack_pending,
                    again: num_redelivered,
                    waiting: num_pending,
                });
            }
        }
    }
    Ok(held)
}

/// What each process waits for, and what graders have in hand.
pub(super) async fn processes(broker: &Broker) -> Vec<Finding> {
    match status::ask(broker, ANSWERS_WITHIN).await {
        Ok(statuses) => vec![waits(&statuses), families(&statuses)],
        Err(error) => vec![finding("processes", Err(anyhow!("{error}")))],
    }
}

/// How grading gets on, family by family, over all processes that answered.
fn families(statuses: &[Status]) -> Finding {
    let mut families: BTreeMap<&str, Load> = BTreeMap::new();
    for load in statuses.iter().flat_map(|status| &status.loads) {
        let known = families.remove(load.kind.as_str());
        let both = known.map_or_else(|| load.clone(), |known| known.and(load));
        families.insert(load.kind.as_str(), both);
    }
    let lines: Vec<String> = families.values().map(Load::line).collect();
    let line = if lines.is_empty() {
        "no process says that it has graded anything".to_owned()
    } else {
        lines.join("; ")
    };
    finding("grading families", Ok(line)).with(families.values().map(|load| json!(load)).collect())
}

fn waits(statuses: &[Status]) -> Finding {
    let figures = json!(statuses);
    let waiting: Vec<String> = statuses
        .iter()
        .flat_map(|status| status.waits.iter().map(move |wait| (&status.holder, wait)))
        .map(|(holder, wait)| {
            format!(
                "{holder} waits on {} for {:.0} s ({})",
                wait.on, wait.seconds, wait.reason
            )
        })
        .collect();
    let found = if waiting.is_empty() {
        Ok(format!("{} answered, none waits for room", statuses.len()))
    } else {
        Err(anyhow!("{}", waiting.join("; ")))
    };
    finding("processes", found).with(figures)
}

/// What room the broker has, as far as that can be known from here: of a broker of our own its disk, of another one what
/// it says of itself.
pub(super) async fn room(place: &Place, config: &Config, broker: &Broker) -> Finding {
    finding("broker's room", room_found(place, config, broker).await)
}

async fn room_found(place: &Place, config: &Config, broker: &Broker) -> anyhow::Result<String> {
    let account = broker.jetstream.query_account().await?;
    let used = format!(
        "{:.1} MiB stored, {:.1} MiB promised to streams",
        account.storage as f64 / MIB,
        account.reserved_storage as f64 / MIB
    );
    if !config.broker.url.is_empty() {
        return Ok(format!(
            "{used}; its disk is not visible from here: look there, or at its monitoring port's /jsz"
        ));
    }
    let disk = rustix::fs::statvfs(&place.common.data_dir)?;
    let free = disk.f_bavail * disk.f_frsize;
    let detail = format!("{used}, {:.1} MiB free on its disk", free as f64 / MIB);
    if free < LITTLE_ROOM {
        bail!("{detail}: when it is full the broker stores nothing more, and everything waits; make room");
    }
    Ok(detail)
}
