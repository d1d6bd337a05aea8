//! The allowed arrows between crates, read from `cargo metadata`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Which crates of ours each crate may depend on; tests may also use the testkit.
const ALLOWED: &[(&str, &[&str])] = &[
    // Numbers alone: it compiles and is tested without the rest.
    ("statistics", &[]),
    ("domain", &[]),
    ("codec", &["domain"]),
    ("streams", &["domain", "codec"]),
    ("config", &[]),
    ("telemetry", &[]),
    ("storage", &["domain", "codec"]),
    // Texts and numbers alone.
    ("scoring", &[]),
    // Task files of another program, which no type of ours takes part in.
    ("harness", &[]),
    // Instructions and schemas are compiled when a suite is loaded, so that a wrong one is an error of its row.
    ("tasks", &["domain", "harness", "scoring"]),
    // Texts in, verdicts out: whoever compares answers may use it, and it knows nothing of them.
    ("maths", &[]),
    ("inference", &["domain"]),
    (
        "service",
        &["domain", "codec", "streams", "config", "telemetry", "storage"],
    ),
    // Beside the streams and the object store: Parquet stays out of those.
    (
        "archive",
        &["domain", "codec", "streams", "storage", "service", "telemetry"],
    ),
    // Runs untrusted programs; knows nothing of items and grades.
    ("sandbox", &[]),
    ("simulated", &[]),
    // The handle of the simulated engine, beside the scripted one.
    ("testkit", &["simulated"]),
    ("engine", &["telemetry"]),
    (
        "loader",
        &[
            "domain",
            "codec",
            "streams",
            "config",
            "telemetry",
            "storage",
            "service",
            "inference",
            "tasks",
            "archive",
        ],
    ),
    (
        "generator",
        &[
            "domain",
            "codec",
            "streams",
            "config",
            "telemetry",
            "storage",
            "service",
            "inference",
        ],
    ),
    (
        "grader",
        &[
            "sandbox",
            // Judges are servers of models, and asked as engines are.
            "inference",
            "domain",
            "maths",
            // The filters and metrics of task files, and what they count.
            "harness",
            "scoring",
            "codec",
            "streams",
            "config",
            "telemetry",
            "storage",
            "service",
        ],
    ),
    (
        "aggregator",
        &[
            "domain",
            "codec",
            "streams",
            "config",
            "telemetry",
            "storage",
            "service",
            "archive",
            "statistics",
            // BLEU and chrF of a corpus, from the counts of its sentences.
            "scoring",
        ],
    ),
    ("trainer", &[]),
    // Measures; what it takes for that, it takes as tests do.
    ("benches", &[]),
    // Drives the rules of every service; nothing depends on it.
    (
        "simulation",
        &[
            "domain",
            "streams",
            "storage",
            "service",
            "loader",
            "generator",
            "grader",
            "aggregator",
        ],
    ),
    // Seeds of samples, names of fault points and how long a delivery is kept, to judge what a disturbed run asked.
    ("tests", &["testkit", "domain", "codec", "service", "streams"]),
];

fn metadata() -> serde_json::Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let said = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(tidemill_tests::workspace())
        .output()
        .unwrap();
    serde_json::from_slice(&said.stdout).unwrap()
}

fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let ours = |name: &str| name.strip_prefix("tidemill-").map(str::to_owned);
    let mut found = BTreeMap::new();
    for package in metadata["packages"].as_array().unwrap() {
        let listed = package["dependencies"].as_array().unwrap().iter();
        let normal = listed.filter(|dependency| dependency["kind"].is_null());
        let names = normal
            .filter_map(|dependency| ours(dependency["name"].as_str().unwrap()))
            .collect();
        found.insert(package["name"].as_str().unwrap().to_owned(), names);
    }
    found
}

#[test]
fn crates_depend_only_along_the_allowed_arrows() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> = ALLOWED
        .iter()
        .map(|(name, arrows)| (*name, arrows.iter().copied().collect()))
        .collect();
    for (package, arrows) in dependencies() {
        let Some(name) = package.strip_prefix("tidemill-") else {
            assert_eq!(package, "tidemill", "a crate without the project's prefix");
            continue;
        };
        let allowed = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not listed: say what it may depend on"));
        for arrow in arrows {
            assert!(allowed.contains(arrow.as_str()), "{name} must not depend on {arrow}");
        }
    }
}

#[test]
fn the_list_names_only_crates_that_exist() {
    let found = dependencies();
    for (name, _) in ALLOWED {
        assert!(
            found.contains_key(&format!("tidemill-{name}")),
            "{name} is listed and does not exist"
        );
    }
}

/// Features that let a test break a process; a program that is shipped has none of them.
const BREAKING: [&str; 2] = ["version-shift", "fault-points"];

#[test]
fn only_the_tests_enable_what_breaks_a_process() {
    for package in metadata()["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        let dependencies = package["dependencies"].as_array().unwrap().iter();
        let asked = dependencies.flat_map(|dependency| dependency["features"].as_array().unwrap());
        let passed_on = package["features"].as_object().unwrap().values();
        let all = asked.chain(passed_on.flat_map(|features| features.as_array().unwrap()));
        let breaking = |feature: &str| BREAKING.iter().any(|known| feature.rsplit('/').next() == Some(known));
        let enabled: Vec<&str> = all
            .filter_map(|feature| feature.as_str())
            .filter(|feature| breaking(feature))
            .collect();
        if name == "tidemill-tests" {
            assert_eq!(enabled, BREAKING, "the tests need them");
        } else {
            assert!(
                enabled.is_empty(),
                "{name} enables {enabled:?}: a release could then hold it"
            );
        }
    }
}

/// The unmaintained crates of the stack, each behind one file.
#[test]
fn pinned_crates_are_used_by_one_file_each() {
    for (word, home) in [
        ("bincode::", "shared/codec/src/binary.rs"),
        ("use backoff::", "shared/service/src/backoff.rs"),
    ] {
        let said = Command::new("grep")
            .args(["-rlE", "--include=*.rs", word, "shared", "services", "streams"])
            .current_dir(tidemill_tests::workspace())
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), home, "{word}");
    }
}
