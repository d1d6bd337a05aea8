//! What is wrong here, and what to do.

mod engines;
mod fill;

use std::time::Duration;

use anyhow::Context as _;
use async_nats::jetstream::stream::{ClusterInfo, PeerInfo};
use serde::Serialize;
use serde_json::Value;
use tidemill_config::Config;
use tidemill_domain::counted;
use tidemill_service::{Broker, Context, dead};
use tidemill_storage::Store;
use tidemill_streams::{buckets, declared, live};

use crate::arguments::{Doctor, Place};
use crate::exit::Done;
use crate::{archive, broker, output, session};

#[derive(Debug, Serialize)]
struct Finding {
    check: &'static str,
    ok: bool,
    detail: String,
    /// The numbers behind the detail.
    #[serde(skip_serializing_if = "Value::is_null")]
    figures: Value,
}

impl Finding {
    fn with(self, figures: Value) -> Self {
        Self { figures, ..self }
    }
}

fn finding(check: &'static str, found: anyhow::Result<String>) -> Finding {
    match found {
        Ok(detail) => Finding {
            check,
            ok: true,
            detail,
            figures: Value::Null,
        },
        Err(error) => Finding {
            check,
            ok: false,
            detail: format!("{error:#}"),
            figures: Value::Null,
        },
    }
}

pub(crate) fn run(args: Doctor) -> anyhow::Result<Done> {
    let mut findings = Vec::new();
    let config = session::configuration(&args.place, "error");
    findings.push(finding(
        "configuration",
        config
            .as_ref()
            .map(|_| "loads".to_owned())
            .map_err(|error| anyhow::anyhow!("{error:#}")),
    ));
    if let Ok(config) = config {
        findings.extend(session::block_on(async { Ok(examine(&args.place, &config).await) })?);
    }
    for finding in &findings {
        if !args.json {
            let mark = if finding.ok { "ok  " } else { "FAIL" };
            output::data(&format!("{mark} {:14} {}", finding.check, finding.detail))?;
        }
    }
    if args.json {
        output::data(&serde_json::to_string_pretty(&findings)?)?;
    }
    Ok(if findings.iter().all(|finding| finding.ok) {
        Done::Valid
    } else {
        Done::Invalid
    })
}

async fn examine(place: &Place, config: &Config) -> Vec<Finding> {
    let mut findings = Vec::new();
    if config.broker.url.is_empty() {
        findings.push(finding("nats-server", server_version()));
    }
    findings.push(finding("object store", store(place, config).await));
    findings.push(sandbox(config).await);
    findings.extend(judges(config).await);
    match session::connect_only(place, config).await {
        Ok((broker, own)) => {
            let version = broker.client.server_info().version;
            let owner = if own.is_some() { ", started for this check" } else { "" };
            findings.push(finding(
                "broker",
                Ok(format!("nats-server {version} at {}{owner}", broker.url)),
            ));
            let streams = streams(&broker, config).await;
            let is_empty = matches!(&streams, Ok(detail) if detail == NOT_THERE_YET);
            findings.push(finding("streams", streams));
            // Nothing can be in streams that are not there.
            if !is_empty {
                findings.extend(contents(place, config, broker.clone()).await);
            }
            session::leave(&broker, own).await;
        }
        Err(error) => findings.push(finding("broker", Err(error))),
    }
    findings
}

/// Whether generated programs can be run here. Without that only benchmarks that want it lack something.
async fn sandbox(config: &Config) -> Finding {
    let runners = tidemill_grader::Runners::of(&config.grader);
    let detail = match Box::pin(runners.sandbox_in_words()).await {
        Ok(words) => words,
        Err(error) => format!("none, so benchmarks with grader kind code end as grader_error: {error}"),
    };
    finding("sandbox", Ok(detail))
}

/// Whether the configured judges serve their models. One that is away only delays grades.
async fn judges(config: &Config) -> Vec<Finding> {
    let runners = tidemill_grader::Runners::of(&config.grader);
    let words = runners.judges_in_words().await;
    words.into_iter().map(|detail| finding("judge", Ok(detail))).collect()
}

/// How long the object store may take to write and read a few bytes.
const STORE_ANSWERS_WITHIN: Duration = Duration::from_secs(10);

fn server_version() -> anyhow::Result<String> {
    let server = broker::find_server()?;
    let said = std::process::Command::new(&server).arg("--version").output()?;
    Ok(format!(
        "{} ({})",
        String::from_utf8_lossy(&said.stdout).trim(),
        server.display()
    ))
}

async fn store(place: &Place, config: &Config) -> anyhow::Result<String> {
    let store = Store::open(place.common.store_address(config))?;
    let probe = async {
        store.put("doctor", b"written by tidemill doctor".to_vec()).await?;
        store.get("doctor").await
    };
    tokio::time::timeout(STORE_ANSWERS_WITHIN, probe)
        .await
        .with_context(|| {
            format!(
                "{} did not answer within {STORE_ANSWERS_WITHIN:?}",
                store.address().as_str()
            )
        })??;
    Ok(format!("{} can be written and read", store.address().as_str()))
}

/// What is said of a broker that nobody has used.
const NOT_THERE_YET: &str = "not there yet; the first evaluation, `tidemill up` or `tidemill streams apply` makes them";

async fn streams(broker: &Broker, config: &Config) -> anyhow::Result<String> {
    let differences = live::plan(&broker.jetstream, config.broker.replicas).await?;
    if differences.is_empty() {
        return Ok("as declared".to_owned());
    }
    if differences.iter().all(live::Difference::is_missing) {
        return Ok(NOT_THERE_YET.to_owned());
    }
    let differences: Vec<String> = differences.iter().map(ToString::to_string).collect();
    anyhow::bail!("{}; run `tidemill streams apply`", differences.join("; "))
}

async fn contents(place: &Place, config: &Config, broker: Broker) -> Vec<Finding> {
    let mut findings = fill::streams(&broker).await;
    findings.push(fill::room(place, config, &broker).await);
    findings.push(fill::held(&broker).await);
    findings.extend(fill::processes(&broker).await);
    findings.extend(engines::replicas(&broker).await);
    if let Ok(store) = Store::open(place.common.store_address(config)) {
        let context = Context::new("command", broker, store, config.clone().into());
        findings.push(fill::grading(&context).await);
        findings.extend(dead_letters(&context).await);
        findings.extend(archives(&context).await);
    }
    findings
}

/// How many copies a stream has and who leads it; and what is wrong with them.
fn copies(cluster: &ClusterInfo) -> (String, Option<String>) {
    let leader = cluster.leader.as_deref().filter(|leader| !leader.is_empty());
    let count = cluster.replicas.len() + usize::from(leader.is_some());
    let led = leader.map_or_else(|| "no leader".to_owned(), |leader| format!("leader {leader}"));
    let mut ill: Vec<String> = cluster.replicas.iter().filter_map(illness).collect();
    if leader.is_none() {
        ill.insert(
            0,
            "nothing is stored until more than half of its servers are up".to_owned(),
        );
    }
    let copies = if count == 1 { "copy" } else { "copies" };
    (
        format!("{count} {copies}, {led}"),
        (!ill.is_empty()).then(|| ill.join(", ")),
    )
}

fn illness(peer: &PeerInfo) -> Option<String> {
    if peer.current && !peer.offline {
        return None;
    }
    let (seen, lag) = (peer.active.as_secs(), peer.lag.unwrap_or_default());
    Some(format!(
        "{} is not in step, last heard of {seen} s ago, {lag} operations behind",
        peer.name
    ))
}

/// Dead letters that are shown, newest last.
const SHOWN: usize = 5;

async fn dead_letters(context: &Context) -> Option<Finding> {
    context.jetstream().get_stream(declared::DEAD.name).await.ok()?;
    let found = match (dead::letters(context).await, dead::held(context).await) {
        (Ok(letters), _) if letters.is_empty() => Ok("none".to_owned()),
        (Ok(letters), Ok(held)) => {
            let shown = letters.iter().rev().take(SHOWN).rev().map(|letter| {
                let subject = letter.subject.as_deref().unwrap_or("-");
                format!("{} {subject}: {}", letter.sequence, letter.reason)
            });
            Err(anyhow::anyhow!(
                "{}, {} held open: `tidemill dead list`, then `dead retry` or `dead drop`; the newest: {}",
                letters.len(),
                counted(held.len() as u64, "item"),
                shown.collect::<Vec<_>>().join(" | ")
            ))
        }
        (Err(failure), _) | (_, Err(failure)) => Err(anyhow::anyhow!("not read: {}", failure.reason)),
    };
    Some(finding("dead letters", found))
}

/// What waits to be archived or purged, and why it cannot be.
async fn archives(context: &Context) -> Option<Finding> {
    context.jetstream().get_key_value(buckets::ARCHIVE.name).await.ok()?;
    Some(finding("archive", archive::summary(context).await))
}
