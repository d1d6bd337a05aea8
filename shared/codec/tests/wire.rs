//! What is on the wire stays readable: round trips, refusals and golden files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use tidemill_codec::{Error, claim, decode, encode, seal, unseal, v1, v2, v3};
use tidemill_domain::{
    Aggregation, Benchmark, BenchmarkName, Block, BlockRef, ChoiceScore, ClusterColumn, ClustersRef, Completion,
    Continuation, Digest, Ending, EvaluationId, Generation, Grade, GraderSpec, Group, GroupMean, Item, ItemKey,
    JudgeCost, Lengths, Manifest, Measured, Member, Message, Metric, MetricSource, Outcome, Outline, Parked, Partial,
    Penalties, Prompt, Reasoning, Release, Reuse, Served, Settings, Span, Spread, SubsetColumn, SuiteName, SuiteRef,
    Tier, Timestamp, WeightColumn,
};

fn key() -> ItemKey {
    ItemKey {
        evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
        benchmark: 1,
        item: 70_000,
        sample: 3,
    }
}

fn release() -> Release {
    Release {
        key: key(),
        manifest: Digest::of(b"manifest"),
        again: true,
        reuse: Reuse::Likely,
        expected_tokens: 700,
        prefix: 0x0123_4567_89ab_cdef,
    }
}

fn completion() -> Completion {
    Completion {
        key: key(),
        manifest: Digest::of(b"manifest"),
        ending: Ending::Length,
        text: "4\u{0}2 \u{fffd} שלום".to_owned(),
        reasoning: Some("because".to_owned()),
        finish_reason: Some("length".to_owned()),
        stop_reason: None,
        truncated: true,
        choices: vec![ChoiceScore {
            log_probability: -1.5,
            tokens: 2,
            is_greedy: false,
        }],
        detail: None,
        prompt_tokens: 12,
        completion_tokens: 256,
        requests: 2,
        attempts: 2,
        cached: false,
        served: Served {
            cached_tokens: Some(8),
            reusable_tokens: Some(10),
            first_token: Some(Timestamp(1)),
            continuations: 1,
        },
        generation: Some("00112233445566778899aabbccddeeff".parse().unwrap()),
        engine: "http://127.0.0.1:8000".to_owned(),
        started: Timestamp(1),
        finished: Timestamp(2),
    }
}

fn release_v1() -> v1::Release {
    let Release {
        key, manifest, again, ..
    } = release();
    v1::Release { key, manifest, again }
}

fn completion_v1() -> v1::Completion {
    let new = completion();
    v1::Completion {
        key: new.key,
        manifest: new.manifest,
        ending: new.ending,
        text: new.text,
        reasoning: new.reasoning,
        finish_reason: new.finish_reason,
        stop_reason: new.stop_reason,
        truncated: new.truncated,
        choices: new.choices,
        detail: new.detail,
        prompt_tokens: new.prompt_tokens,
        completion_tokens: new.completion_tokens,
        requests: new.requests,
        attempts: new.attempts,
        cached: new.cached,
        engine: new.engine,
        started: new.started,
        finished: new.finished,
    }
}

fn grade() -> Grade {
    Grade {
        key: key(),
        outcome: Outcome::Truncated,
        score: 0.0,
        score_before_cut: Some(1.0),
        extracted: Some("42".to_owned()),
        grader: "numeric@1".to_owned(),
        reason: None,
        truncated: true,
        cut_in_reasoning: true,
        replaced: true,
        prompt_tokens: 12,
        completion_tokens: 256,
        requests: 2,
        cached: false,
        served: completion().served,
        started: Timestamp(1),
        finished: Timestamp(2),
        graded: Timestamp(3),
        extractor: Some("last-number@1".to_owned()),
        span: Some(Span { start: 3, end: 5 }),
        canonical: Some("42".to_owned()),
        measures: vec![
            None,
            Some(Measured::Value(0.5)),
            Some(Measured::Weighted {
                value: -3.0,
                weight: 7.0,
            }),
            Some(Measured::Labels { truth: 1, predicted: 0 }),
            Some(Measured::Counts(vec![1.0, 2.0])),
        ],
        judge: Some(JudgeCost {
            verdicts: 6,
            cached: 2,
            requests: 5,
            prompt_tokens: 900,
            completion_tokens: 90,
            unreadable: 1,
            disagreed: true,
        }),
    }
}

fn generation() -> Generation {
    let Completion {
        ending,
        text,
        reasoning,
        finish_reason,
        stop_reason,
        truncated,
        choices,
        prompt_tokens,
        completion_tokens,
        engine,
        finished,
        ..
    } = completion();
    Generation {
        key: "00112233445566778899aabbccddeeff".parse().unwrap(),
        ending,
        text,
        reasoning,
        finish_reason,
        stop_reason,
        truncated,
        choices,
        prompt_tokens,
        completion_tokens,
        engine,
        generated: finished,
    }
}

#[test]
fn a_release_is_small() {
    assert!(
        encode(&release()).unwrap().len() <= 160,
        "{}",
        encode(&release()).unwrap().len()
    );
}

#[test]
fn messages_come_back_as_they_were() {
    assert_eq!(decode::<Release>(&encode(&release()).unwrap()).unwrap(), release());
    assert_eq!(
        decode::<Completion>(&encode(&completion()).unwrap()).unwrap(),
        completion()
    );
    assert_eq!(decode::<Grade>(&encode(&grade()).unwrap()).unwrap(), grade());
}

#[test]
fn foreign_cut_and_confused_messages_are_told_apart() {
    let bytes = encode(&completion()).unwrap();
    assert!(matches!(decode::<Completion>(b"{}"), Err(Error::Foreign { length: 2 })));
    assert!(matches!(
        decode::<Completion>(b"not a message"),
        Err(Error::Foreign { .. })
    ));
    assert!(matches!(
        decode::<Grade>(&bytes),
        Err(Error::WrongSchema {
            found: 2,
            expected: 3,
            ..
        })
    ));
    assert!(matches!(
        decode::<Completion>(&bytes[..bytes.len() - 1]),
        Err(Error::Malformed(_))
    ));
    let longer = [bytes.as_slice(), b"x"].concat();
    assert!(matches!(
        decode::<Completion>(&longer),
        Err(Error::TrailingBytes { extra: 1 })
    ));
    let mut newer = bytes;
    newer[4] = 200;
    assert!(matches!(
        decode::<Completion>(&newer),
        Err(Error::UnknownVersion {
            found: 200,
            known: 3,
            ..
        })
    ));
}

#[test]
fn a_claim_names_where_the_body_is() {
    let bytes = claim::<Completion>("claims/1");
    assert!(matches!(decode::<Completion>(&bytes), Err(Error::Claimed { key }) if key == "claims/1"));
}

/// Compares with the bytes written by the version that introduced them; `UPDATE_GENERATED=1` writes missing files.
fn golden(name: &str, bytes: &[u8]) {
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("UPDATE_GENERATED").is_some() && !std::path::Path::new(&path).exists() {
        std::fs::write(&path, bytes).unwrap();
    }
    assert_eq!(
        std::fs::read(&path).unwrap(),
        bytes,
        "{name}: raise the version instead of changing the bytes"
    );
}

fn suite() -> SuiteRef {
    SuiteRef {
        name: SuiteName::try_new("suite").unwrap(),
        version: "2026-11".to_owned(),
        tier: Tier::Promotion,
    }
}

fn settings() -> Settings {
    Settings {
        max_tokens: 64,
        temperature: 0.5,
        top_p: 0.9,
        stop: vec!["\n".to_owned()],
        seed: 7,
        samples: 2,
    }
}

fn numeric() -> GraderSpec {
    GraderSpec::Numeric {
        pattern: Some("= (.*)".to_owned()),
        tolerance: 0.01,
    }
}

fn items() -> Vec<Item> {
    let item = |id: &str, prompt| Item {
        id: id.to_owned(),
        prompt,
        targets: vec!["42".to_owned()],
        choices: vec!["42".to_owned(), "43".to_owned()],
        correct_choice: Some(0),
        cluster: Some("passage".to_owned()),
        subset: Some("law".to_owned()),
        weight: 0.5,
        material: vec![("tests".to_owned(), "assert f() == 42".to_owned())],
    };
    let turn = Message {
        role: "user".to_owned(),
        content: "6 · 7?".to_owned(),
    };
    vec![
        item("text", Prompt::Text("6 · 7 =".to_owned())),
        item("chat", Prompt::Chat(vec![turn])),
    ]
}

fn old_items() -> Vec<v1::Item> {
    let old = |item: Item| v1::Item {
        id: item.id,
        prompt: item.prompt,
        targets: item.targets,
        choices: item.choices,
        correct_choice: item.correct_choice,
        cluster: item.cluster,
    };
    items().into_iter().map(old).collect()
}

fn old_numeric() -> v1::GraderSpec {
    v1::GraderSpec::Numeric {
        pattern: Some("= (.*)".to_owned()),
        tolerance: 0.01,
    }
}

fn manifest_1() -> v1::Manifest {
    let benchmark = v1::Benchmark {
        name: BenchmarkName::try_new("sums").unwrap(),
        settings: settings(),
        grader: old_numeric(),
        items: old_items(),
    };
    v1::Manifest {
        suite: suite(),
        max_failure_rate: 0.02,
        benchmarks: vec![benchmark],
    }
}

fn manifest() -> Manifest {
    let benchmark = Benchmark {
        name: BenchmarkName::try_new("sums").unwrap(),
        settings: settings(),
        grader: numeric(),
        items: 2,
        blocks: vec![BlockRef {
            digest: Digest::of(b"block"),
            end: 2,
        }],
        clusters: Some(ClustersRef {
            digest: Digest::of(b"clusters"),
            count: 1,
        }),
        penalties: Penalties {
            frequency: 0.5,
            presence: 0.25,
            repetition: 1.1,
        },
        continuation: Continuation::Never,
        spare_samples: 1,
        outlines: vec![Digest::of(b"outline")],
        reasoning: Reasoning::Marks {
            open: "[".to_owned(),
            close: "]".to_owned(),
        },
        metrics: vec![Metric {
            name: "bits_per_byte".to_owned(),
            source: MetricSource::Measure,
            aggregation: Aggregation::BitsPerWeight,
            higher_is_better: false,
        }],
        subsets: Some(Digest::of(b"subsets")),
        weights: Some(Digest::of(b"weights")),
    };
    let group = Group {
        name: "all".to_owned(),
        members: vec![Member {
            benchmark: 0,
            weight: 2.0,
        }],
        mean: GroupMean::Micro,
        metric: Some("bits_per_byte".to_owned()),
    };
    Manifest {
        suite: suite(),
        max_failure_rate: 0.02,
        benchmarks: vec![benchmark],
        groups: vec![group],
    }
}

fn manifest_3() -> v3::Manifest {
    let new = manifest();
    let old = |benchmark: Benchmark| v3::Benchmark {
        name: benchmark.name,
        settings: benchmark.settings,
        grader: old_numeric(),
        items: benchmark.items,
        blocks: benchmark.blocks,
        clusters: benchmark.clusters,
        penalties: benchmark.penalties,
        continuation: benchmark.continuation,
        spare_samples: benchmark.spare_samples,
        outlines: benchmark.outlines,
    };
    v3::Manifest {
        suite: new.suite,
        max_failure_rate: new.max_failure_rate,
        benchmarks: new.benchmarks.into_iter().map(old).collect(),
    }
}

fn manifest_2() -> v2::Manifest {
    let Manifest {
        suite,
        max_failure_rate,
        benchmarks,
        ..
    } = manifest();
    let old = |benchmark: Benchmark| v2::Benchmark {
        name: benchmark.name,
        settings: benchmark.settings,
        grader: old_numeric(),
        items: benchmark.items,
        blocks: benchmark.blocks,
        clusters: benchmark.clusters,
    };
    v2::Manifest {
        suite,
        max_failure_rate,
        benchmarks: benchmarks.into_iter().map(old).collect(),
    }
}

fn outline() -> Outline {
    Outline {
        prompts: vec![9, 33],
        prefixes: vec![0, u64::MAX],
    }
}

fn lengths() -> Lengths {
    Lengths {
        classes: vec![0, 41, 97],
        cut: vec![0b100],
    }
}

fn spread() -> Spread {
    Spread {
        quantiles: vec![9, 33, 97],
    }
}

fn parked() -> Parked {
    Parked {
        generation: "00112233445566778899aabbccddeeff".parse().unwrap(),
        manifest: Digest::of(b"manifest"),
        partial: Partial {
            prompt_tokens: vec![1, 70_000],
            tokens: vec![5, 6, 7],
            text: "4\u{0}2".to_owned(),
            reasoning: String::new(),
            completion_tokens: 3,
            continuations: 1,
        },
    }
}

/// What every service was made to read before manifests were cut into blocks.
#[test]
fn a_manifest_of_version_1_still_decodes() {
    let path = format!("{}/tests/golden/manifest.v1.bin", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(decode::<v1::Manifest>(&bytes).unwrap(), manifest_1());
    assert!(matches!(
        decode::<Manifest>(&bytes),
        Err(Error::UnknownVersion { found: 1, known: 5, .. })
    ));
}

#[test]
fn released_versions_keep_their_bytes() {
    golden("manifest.v1.bin", &encode(&manifest_1()).unwrap());
    golden("manifest.v2.bin", &encode(&manifest_2()).unwrap());
    golden("manifest.v3.bin", &encode(&manifest_3()).unwrap());
    golden("manifest.v5.bin", &encode(&manifest_of_a_task()).unwrap());
    golden("block.v1.bin", &encode(&v1::Block { items: old_items() }).unwrap());
    golden("block.v2.bin", &encode(&Block { items: items() }).unwrap());
    golden("subsets.v1.bin", &encode(&subsets()).unwrap());
    golden("weights.v1.bin", &encode(&weights()).unwrap());
    let column = ClusterColumn {
        of_item: vec![0, 0],
        count: 1,
    };
    golden("clusters.v1.bin", &encode(&column).unwrap());
    golden("release.v1.bin", &encode(&release_v1()).unwrap());
    golden("release.v2.bin", &encode(&v2::Release::from(&release())).unwrap());
    golden("release.v3.bin", &encode(&release()).unwrap());
    golden("completion.v1.bin", &encode(&completion_v1()).unwrap());
    golden(
        "completion.v2.bin",
        &encode(&v2::Completion::from(&completion())).unwrap(),
    );
    golden("completion.v3.bin", &encode(&completion()).unwrap());
    golden("grade.v1.bin", &encode(&v1::Grade::from(&grade())).unwrap());
    golden("grade.v2.bin", &encode(&v2::Grade::from(&grade())).unwrap());
    golden("grade.v4.bin", &encode(&grade_of_a_vote()).unwrap());
    golden("parked.v1.bin", &encode(&parked()).unwrap());
    golden("outline.v1.bin", &encode(&outline()).unwrap());
    golden("lengths.v1.bin", &encode(&lengths()).unwrap());
    golden("spread.v1.bin", &encode(&spread()).unwrap());
    golden("generation.v1.bin", &encode(&generation()).unwrap());
}

/// The forms in which messages lie in streams besides their own bytes: sealed in the cache, and as a claim on the object store.
#[test]
fn seals_and_claims_keep_their_bytes() {
    golden("generation.v1.sealed.bin", &seal(encode(&generation()).unwrap()));
    golden("completion.v2.claim.bin", &claim::<v2::Completion>("claims/1"));
    golden("completion.v3.claim.bin", &claim::<Completion>("claims/1"));
    golden(
        "generation.v1.sealed_claim.bin",
        &seal(claim::<Generation>("cache/group/key")),
    );
}

#[test]
fn a_cached_generation_of_version_1_is_still_read() {
    let read = |name: &str| std::fs::read(format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap();
    assert_eq!(decode::<Generation>(&read("generation.v1.bin")).unwrap(), generation());
    let sealed = read("generation.v1.sealed.bin");
    assert_eq!(decode::<Generation>(unseal(&sealed).unwrap()).unwrap(), generation());
    let claimed = |bytes: &[u8]| match decode::<Generation>(bytes) {
        Err(Error::Claimed { key }) => key,
        other => panic!("{other:?}"),
    };
    let sealed = read("generation.v1.sealed_claim.bin");
    assert_eq!(claimed(unseal(&sealed).unwrap()), "cache/group/key");
    let completion = decode::<Completion>(&read("completion.v2.claim.bin"));
    assert!(matches!(completion, Err(Error::Claimed { key }) if key == "claims/1"));
}

#[test]
fn version_1_is_still_read_and_says_nothing_of_the_cache() {
    let expected = Release {
        reuse: Reuse::Never,
        expected_tokens: 0,
        prefix: 0,
        ..release()
    };
    assert_eq!(decode::<Release>(&stored("release.v1.bin")).unwrap(), expected);
    let expected = Completion {
        generation: None,
        served: Served::default(),
        ..completion()
    };
    assert_eq!(decode::<Completion>(&stored("completion.v1.bin")).unwrap(), expected);
}

fn stored(name: &str) -> Vec<u8> {
    std::fs::read(format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// What was written before anybody knew what is expected of an answer, and how one was served.
#[test]
fn versions_that_say_nothing_of_serving_are_still_read() {
    let expected = Release {
        expected_tokens: 0,
        prefix: 0,
        ..release()
    };
    assert_eq!(decode::<Release>(&stored("release.v2.bin")).unwrap(), expected);
    let expected = Completion {
        served: Served::default(),
        ..completion()
    };
    assert_eq!(decode::<Completion>(&stored("completion.v2.bin")).unwrap(), expected);
    let expected = plain_grade();
    assert_eq!(decode::<Grade>(&stored("grade.v2.bin")).unwrap(), expected);
    let expected = Grade {
        served: Served::default(),
        ..expected
    };
    assert_eq!(decode::<Grade>(&stored("grade.v1.bin")).unwrap(), expected);
    let manifest = decode::<Manifest>(&stored("manifest.v2.bin")).unwrap();
    assert_eq!(manifest, Manifest::from(v3::Manifest::from(manifest_2())));
    let benchmark = &manifest.benchmarks[0];
    assert!(benchmark.penalties.are_neutral() && benchmark.outlines.is_empty());
    assert_eq!(
        (benchmark.continuation, benchmark.spare_samples),
        (Continuation::Exact, 0)
    );
}

/// A grade as those wrote it who knew no metrics, and did not say where an answer stands.
fn plain_grade() -> Grade {
    Grade {
        extractor: None,
        span: None,
        canonical: None,
        measures: Vec::new(),
        judge: None,
        cut_in_reasoning: false,
        replaced: false,
        ..grade()
    }
}

#[test]
fn versions_that_know_no_metrics_are_still_read() {
    let manifest = decode::<Manifest>(&stored("manifest.v3.bin")).unwrap();
    assert_eq!(manifest, Manifest::from(manifest_3()));
    assert_eq!(manifest.benchmarks[0].grader, numeric());
    assert!(manifest.groups.is_empty() && manifest.benchmarks[0].metrics.is_empty());
    let block = decode::<Block>(&stored("block.v1.bin")).unwrap();
    let plain = |item| Item {
        subset: None,
        weight: 1.0,
        material: Vec::new(),
        ..item
    };
    assert_eq!(block.items, items().into_iter().map(plain).collect::<Vec<Item>>());
}

fn subsets() -> SubsetColumn {
    SubsetColumn {
        of_item: vec![0, u32::MAX],
        names: vec!["law".to_owned()],
    }
}

fn weights() -> WeightColumn {
    WeightColumn {
        of_item: vec![0.5, 1.0],
    }
}

#[test]
fn what_is_known_of_lengths_reads_as_it_was_written() {
    assert_eq!(decode::<Outline>(&stored("outline.v1.bin")).unwrap(), outline());
    assert_eq!(decode::<Lengths>(&stored("lengths.v1.bin")).unwrap(), lengths());
    assert_eq!(decode::<Spread>(&stored("spread.v1.bin")).unwrap(), spread());
}

/// What samples vote for came with version 4 of grades, and what is made of it with version 5 of manifests.
#[test]
fn versions_without_votes_are_still_read() {
    assert_eq!(decode::<Grade>(&stored("grade.v3.bin")).unwrap(), grade());
    assert_eq!(decode::<Grade>(&stored("grade.v4.bin")).unwrap(), grade_of_a_vote());
    assert_eq!(decode::<Manifest>(&stored("manifest.v4.bin")).unwrap(), manifest());
    assert_eq!(
        decode::<Manifest>(&stored("manifest.v5.bin")).unwrap(),
        manifest_of_a_task()
    );
}

fn grade_of_a_vote() -> Grade {
    let mut grade = grade();
    grade.measures.push(Some(Measured::Vote {
        answer: u64::MAX,
        value: 0.5,
    }));
    grade
}

fn manifest_of_a_task() -> Manifest {
    let mut manifest = manifest();
    let benchmark = &mut manifest.benchmarks[0];
    benchmark.grader = GraderSpec::Pipelines {
        grading: "{\"metric_list\":[]}".to_owned(),
        by_likelihood: false,
    };
    for source in [MetricSource::FirstMeasure, MetricSource::VotedMeasure(8)] {
        let metric = benchmark.metrics[0].clone();
        benchmark.metrics.push(Metric { source, ..metric });
    }
    manifest
}

#[test]
fn a_reader_of_version_1_alone_names_what_it_lacks() {
    let error = decode::<v1::Release>(&encode(&release()).unwrap()).unwrap_err();
    assert!(
        matches!(error, Error::UnknownVersion { found: 3, known: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("release version 3"), "{error}");
    let error = decode::<v1::Completion>(&encode(&completion()).unwrap()).unwrap_err();
    assert!(
        matches!(error, Error::UnknownVersion { found: 3, known: 1, .. }),
        "{error}"
    );
}
