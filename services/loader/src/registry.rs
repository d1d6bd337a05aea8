//! One content for each name and version of a suite: results that bear both are compared as if it were so.

use std::ops::Range;
use std::path::{Path, PathBuf};

use async_nats::jetstream::kv::{CreateErrorKind, UpdateErrorKind};
use serde::{Deserialize, Serialize};
use tidemill_codec::Wire as _;
use tidemill_domain::{Benchmark, BenchmarkResult, Digest, Manifest, SuiteRef};
use tidemill_service::Context;
use tidemill_streams::buckets;

use crate::board;
use crate::suites::{Rendered, SuiteError};

/// What is registered for a name and version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    name: String,
    version: String,
    manifest: Digest,
    /// The file that it was first rendered from.
    file: PathBuf,
    /// The version of the manifest's format: another one gives the same suite another digest.
    format: u16,
}

/// Differences that are named in full.
const SHOWN: usize = 8;

/// Registers what a suite's name and version stand for, or proves that they still stand for it. They are bound once something is
/// generated under them.
///
/// # Errors
/// [`SuiteError::Changed`] when they stand for something else, [`SuiteError::Entry`] when it cannot be read what they stand
/// for, and [`SuiteError::Registry`].
pub(crate) async fn register(context: &Context, rendered: &Rendered) -> Result<(), SuiteError> {
    let failed = |error: &dyn std::fmt::Display| SuiteError::Registry(error.to_string());
    let entry = Entry {
        name: rendered.suite.name.to_string(),
        version: rendered.suite.version.clone(),
        manifest: rendered.manifest.clone(),
        file: rendered.file.clone(),
        format: Manifest::VERSION,
    };
    let (key, value) = (key(&rendered.suite), encoded(&entry)?);
    let bucket = context.jetstream().get_key_value(buckets::SUITES.name).await;
    let bucket = bucket.map_err(|error| failed(&error))?;
    loop {
        match bucket.create(&key, value.clone().into()).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == CreateErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&error)),
        }
        let Some(held) = bucket.entry(&key).await.map_err(|error| failed(&error))? else {
            continue;
        };
        let known: Entry = serde_json::from_slice(&held.value).map_err(|error| SuiteError::Entry {
            bucket: buckets::SUITES.name,
            key: key.clone(),
            name: entry.name.clone(),
            version: entry.version.clone(),
            reason: error.to_string(),
        })?;
        if known.manifest == entry.manifest {
            return Ok(());
        }
        if known.format == entry.format {
            if is_bound(context, &known.manifest)
                .await
                .map_err(|error| failed(&error))?
            {
                return Err(changed(context, known, entry).await);
            }
            let (suite, version) = (&entry.name, &entry.version);
            tracing::info!(
                suite,
                version,
                "stands for other content now: nothing was generated of the one before"
            );
        }
        match bucket.update(&key, value.clone().into(), held.revision).await {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => {}
            Err(error) => return Err(failed(&error)),
        }
    }
}

/// Whether anything was generated, or may be at any moment, of a content: a suite that never came to a single answer, because
/// its engine could not be used, may be corrected.
async fn is_bound(context: &Context, manifest: &Digest) -> Result<bool, tidemill_archive::Error> {
    for event in board::all(context).await {
        if event.manifest != *manifest {
            continue;
        }
        let is_bound = match &event.result {
            _ if !event.state.is_ended() => true,
            Some(result) if result.benchmarks.iter().any(holds_answers) => true,
            // What was generated and not graded is known by its completion alone.
            result => {
                let benchmarks = result.iter().flat_map(|result| &result.benchmarks);
                let counted: u64 = benchmarks.map(|one| one.samples - one.outcomes.missing).sum();
                tidemill_archive::completions(context, &event).await? > counted
            }
        };
        if is_bound {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Faults of engines are no answers; nor is what was never asked for.
fn holds_answers(benchmark: &BenchmarkResult) -> bool {
    benchmark.coverage > 0.0 || benchmark.completion_tokens > 0
}

/// Names and versions may hold what keys of a bucket may not.
fn key(suite: &SuiteRef) -> String {
    let parts = [suite.name.as_str(), suite.version.as_str()];
    Digest::of_parts(parts.map(str::as_bytes)).hex()[..32].to_owned()
}

fn encoded(entry: &Entry) -> Result<Vec<u8>, SuiteError> {
    serde_json::to_vec(entry).map_err(|error| SuiteError::Registry(error.to_string()))
}

async fn changed(context: &Context, known: Entry, entry: Entry) -> SuiteError {
    let store = &context.store;
    let differences = match (
        store.manifest(&known.manifest).await,
        store.manifest(&entry.manifest).await,
    ) {
        (Ok(before), Ok(now)) => differences(&before, &now),
        // What differs is a help, and not knowing it changes nothing.
        _ => vec![format!("manifest {} became {}", known.manifest, entry.manifest)],
    };
    SuiteError::Changed {
        name: entry.name,
        version: entry.version,
        registered: known.file,
        file: entry.file,
        differences,
    }
}

/// What differs between two manifests, the first few of it.
pub(crate) fn differences(before: &Manifest, now: &Manifest) -> Vec<String> {
    let mut found = Vec::new();
    if before.suite.tier != now.suite.tier {
        found.push(format!(
            "tier {} became {}",
            before.suite.tier.label(),
            now.suite.tier.label()
        ));
    }
    if before.max_failure_rate != now.max_failure_rate {
        let (before, now) = (before.max_failure_rate, now.max_failure_rate);
        found.push(format!("max_failure_rate {before} became {now}"));
    }
    for benchmark in &before.benchmarks {
        match now.benchmarks.iter().find(|other| other.name == benchmark.name) {
            Some(other) => found.extend(of_benchmark(benchmark, other)),
            None => found.push(format!("benchmark {:?} is gone", benchmark.name.as_str())),
        }
    }
    let is_new = |benchmark: &&Benchmark| before.benchmarks.iter().all(|known| known.name != benchmark.name);
    let new = now.benchmarks.iter().filter(is_new);
    found.extend(new.map(|benchmark| format!("benchmark {:?} is new", benchmark.name.as_str())));
    if found.is_empty() {
        found.push("the order of the benchmarks".to_owned());
    }
    let more = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    found
}

fn of_benchmark(before: &Benchmark, now: &Benchmark) -> Vec<String> {
    let name = before.name.as_str();
    let mut found = Vec::new();
    let mut compare = |what: &str, before: String, now: String| {
        if before != now {
            found.push(format!("benchmark {name:?}: {what} {before} became {now}"));
        }
    };
    let (old, new) = (&before.settings, &now.settings);
    compare("max_tokens", old.max_tokens.to_string(), new.max_tokens.to_string());
    compare("temperature", old.temperature.to_string(), new.temperature.to_string());
    compare("top_p", old.top_p.to_string(), new.top_p.to_string());
    compare("stop", format!("{:?}", old.stop), format!("{:?}", new.stop));
    compare("seed", old.seed.to_string(), new.seed.to_string());
    compare("samples", old.samples.to_string(), new.samples.to_string());
    compare(
        "spare_samples",
        before.spare_samples.to_string(),
        now.spare_samples.to_string(),
    );
    compare("grader", before.grader.kind().to_owned(), now.grader.kind().to_owned());
    compare("items", before.items.to_string(), now.items.to_string());
    let clusters = |benchmark: &Benchmark| match &benchmark.clusters {
        Some(clusters) => format!("{} ({})", clusters.count, &clusters.digest.hex()[..8]),
        None => "none".to_owned(),
    };
    compare("clusters", clusters(before), clusters(now));
    if before.grader != now.grader && before.grader.kind() == now.grader.kind() {
        found.push(format!("benchmark {name:?}: options of grader {}", now.grader.kind()));
    }
    if let Some(Range { start, end }) = first_difference(before, now) {
        let last = end.saturating_sub(1).max(start);
        found.push(format!(
            "benchmark {name:?}: prompts, ids or answers, first of an item from {start} to {last}"
        ));
    }
    found
}

/// The ordinals of the items of the first block that differs.
fn first_difference(before: &Benchmark, now: &Benchmark) -> Option<Range<u32>> {
    let equal = before
        .blocks
        .iter()
        .zip(&now.blocks)
        .take_while(|(before, now)| before == now)
        .count();
    let is_same = equal == before.blocks.len() && equal == now.blocks.len();
    let start = equal.checked_sub(1).map_or(0, |last| before.blocks[last].end);
    let ends = [before, now].map(|benchmark| benchmark.blocks.get(equal).map(|block| block.end));
    let end = ends.into_iter().flatten().max().unwrap_or(start);
    (!is_same).then_some(start..end)
}

/// The name of a file for people: in full, since two files may have one name.
pub(crate) fn absolute(file: &Path) -> PathBuf {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned())
}

#[cfg(test)]
mod tests {
    use tidemill_domain::{BlockRef, GraderSpec};

    use super::*;
    use crate::dispatch::tests::manifest_of;

    #[test]
    fn differences_are_named() {
        let before = manifest_of(&[("a", 5, 1, 16), ("b", 5, 1, 16), ("c", 1, 1, 1)]);
        let mut now = manifest_of(&[("a", 5, 1, 32), ("b", 6, 1, 16), ("d", 1, 1, 1)]);
        now.max_failure_rate = 0.5;
        let expected = [
            "max_failure_rate 0 became 0.5",
            "benchmark \"a\": max_tokens 16 became 32",
            "benchmark \"b\": items 5 became 6",
            "benchmark \"c\" is gone",
            "benchmark \"d\" is new",
        ];
        assert_eq!(differences(&before, &now), expected);

        let mut other = before.clone();
        other.benchmarks[0].grader = GraderSpec::Numeric {
            pattern: Some("x".to_owned()),
            tolerance: 0.5,
        };
        other.benchmarks[1].blocks.push(BlockRef {
            digest: Digest::of(b"another"),
            end: 5,
        });
        let said = differences(&before, &other).join("; ");
        assert!(said.contains("benchmark \"a\": grader exact became numeric"), "{said}");
        assert!(
            said.contains("benchmark \"b\": prompts, ids or answers, first of an item from 0 to 4"),
            "{said}"
        );
        let mut options = other.clone();
        options.benchmarks[0].grader = GraderSpec::Numeric {
            pattern: None,
            tolerance: 0.5,
        };
        assert_eq!(
            differences(&other, &options),
            ["benchmark \"a\": options of grader numeric"]
        );
    }
}
