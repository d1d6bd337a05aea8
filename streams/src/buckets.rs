//! The key-value buckets.

use std::time::Duration;

use async_nats::jetstream::kv::Config;
use tidemill_domain::{BenchmarkName, Digest, GroupId, RunId};

/// A declared bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// Its name.
    pub name: &'static str,
    /// What its keys and values are.
    pub purpose: &'static str,
    /// Entries vanish when they are not written again for so long.
    pub max_age: Option<Duration>,
    /// Most bytes.
    pub max_bytes: i64,
}

/// Server groups that may be sent requests: group id to JSON of `ServerGroup`.
pub const GROUPS: Bucket = Bucket {
    name: "tm_groups",
    purpose: "server groups that may be sent requests: group id to `ServerGroup` (JSON)",
    max_age: None,
    max_bytes: 16 << 20,
};

/// Leases: who dispatches a server group, who aggregates. An entry that is not renewed vanishes.
pub const LEASES: Bucket = Bucket {
    name: "tm_leases",
    purpose: "leases: `group.<group>`, `aggregator`, `archiver` and `claims` to the holder's name; renewed every 3 s",
    max_age: Some(Duration::from_secs(10)),
    max_bytes: 4 << 20,
};

/// Facts about this deployment that its services must agree on.
pub const META: Bucket = Bucket {
    name: "tm_meta",
    purpose: "facts that all services must agree on: `store` is the object store's address, `format` the version of all that is stored",
    max_age: None,
    max_bytes: 1 << 20,
};

/// What stands behind the name and version of each suite that was evaluated, so that both always mean the same.
pub const SUITES: Bucket = Bucket {
    name: "tm_suites",
    purpose: "evaluated suites: a digest of name and version to the manifest and the file it was rendered from (JSON)",
    max_age: None,
    max_bytes: 16 << 20,
};

/// How often the handling of a message failed: `<stream>.<sequence>` to the count. Written at failures alone; a count that
/// is lost, or too old, gives its message more tries.
pub const FAILURES: Bucket = Bucket {
    name: "tm_failures",
    purpose: "failures of messages that are tried again: `<stream>.<sequence>` to their number",
    max_age: Some(Duration::from_secs(24 * 60 * 60)),
    max_bytes: 64 << 20,
};

/// Where evaluations that ended are kept: evaluation id to JSON. Written with the revision that was read, so that of two
/// writers one wins.
pub const ARCHIVE: Bucket = Bucket {
    name: "tm_archive",
    purpose: "where the items of ended evaluations are: evaluation id to `Record` (JSON), written by compare and set",
    max_age: None,
    max_bytes: 64 << 20,
};

/// How long answers were: what the dispatcher expects of a run's next checkpoint.
pub const LENGTHS: Bucket = Bucket {
    name: "tm_lengths",
    purpose: "lengths of answers, by run and block of items, by block alone, and by run and benchmark: what the dispatcher expects of the next checkpoint",
    max_age: Some(Duration::from_secs(90 * 24 * 60 * 60)),
    max_bytes: 256 << 20,
};

/// Answers that were interrupted and wait to be continued: item key to `Parked`, or to a claim on the object store.
pub const PARKED: Bucket = Bucket {
    name: "tm_parked",
    purpose: "interrupted answers that wait to be continued: `<evaluation>.<benchmark>.<item>.<sample>` to their tokens",
    max_age: Some(Duration::from_secs(7 * 24 * 60 * 60)),
    max_bytes: 512 << 20,
};

/// What each generator can take of each group. An entry that is not renewed vanishes.
pub const CAPACITY: Bucket = Bucket {
    name: "tm_capacity",
    purpose: "what each generator takes of each group at present: `<group>.<generator>` to `Capacity` (JSON); renewed every 2 s",
    max_age: Some(Duration::from_secs(10)),
    max_bytes: 4 << 20,
};

/// What judges said: a digest of judge, question and grader to the reply. What is old, or does not fit, is asked for again.
pub const VERDICTS: Bucket = Bucket {
    name: "tm_verdicts",
    purpose: "what judges said, which graders take over: a digest of the judge's model, what it was asked and the grader's version to the reply (JSON)",
    max_age: Some(Duration::from_secs(30 * 24 * 60 * 60)),
    max_bytes: 256 << 20,
};

/// The key of what a judge said.
#[must_use]
pub fn verdict(question: &Digest) -> String {
    question.hex()[..32].to_owned()
}

/// The key of the lengths of a block's answers in a run.
#[must_use]
pub fn lengths_of_run(run: &RunId, block: &Digest) -> String {
    format!("run.{}.block.{}", short(&[run.as_str()]), &block.hex()[..32])
}

/// The key of the lengths of a block's answers in the run that evaluated it last.
#[must_use]
pub fn lengths(block: &Digest) -> String {
    format!("block.{}", &block.hex()[..32])
}

/// The key of the distribution of a benchmark's lengths in a run.
#[must_use]
pub fn spread_of_run(run: &RunId, benchmark: &BenchmarkName) -> String {
    format!("run.{}.spread.{}", short(&[run.as_str()]), short(&[benchmark.as_str()]))
}

/// The keys of what all generators take of a group.
#[must_use]
pub fn capacity_of_group(group: &GroupId) -> String {
    format!("{group}.*")
}

/// Names hold what keys of a bucket may not.
fn short(parts: &[&str]) -> String {
    Digest::of_parts(parts.iter().map(|part| part.as_bytes())).hex()[..32].to_owned()
}

/// Every bucket.
pub const ALL: [Bucket; 10] = [
    GROUPS, LEASES, META, FAILURES, ARCHIVE, SUITES, LENGTHS, PARKED, CAPACITY, VERDICTS,
];

impl Bucket {
    /// The name of the stream that holds it.
    #[must_use]
    pub fn stream(&self) -> String {
        format!("KV_{}", self.name)
    }

    /// The server's configuration of this bucket on `replicas` nodes.
    #[must_use]
    pub fn config(&self, replicas: usize) -> Config {
        Config {
            bucket: self.name.to_owned(),
            description: self.purpose.to_owned(),
            history: 1,
            max_age: self.max_age.unwrap_or_default(),
            max_bytes: self.max_bytes,
            num_replicas: replicas,
            ..Config::default()
        }
    }
}
