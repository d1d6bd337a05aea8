//! Stored completions are graded as many at once as a grader of the same configuration grades.

use futures::future::join_all;
use tidemill_config::Config as Whole;
use tidemill_domain::{
    ANSWER_MARK, ColumnsRef, GraderSpec, ItemKey, JUDGE_PROMPT, Outcome, WholeBenchmark, WholeManifest,
};
use tidemill_testkit::{FakeEngine, Reply};

use super::*;
use crate::answer::tests::item;
use crate::bench::{key, manifest};
use crate::grade::tests::completion;
use crate::judge::judged_tests::configured;
use crate::judge::tests::spec;

fn regrading(config: &Config, grader: GraderSpec) -> Regrading {
    let plain = manifest(1);
    let benchmarks = plain.benchmarks.clone().into_iter().map(|benchmark| {
        let benchmark = WholeBenchmark {
            grader: grader.clone(),
            items: Vec::new(),
            ..benchmark
        };
        benchmark.located(Vec::new(), 1, ColumnsRef::default())
    });
    let benchmarks = benchmarks.collect();
    let manifest = WholeManifest {
        benchmarks: Vec::new(),
        ..plain
    };
    Regrading::with(config, Runners::of(config), Arc::new(manifest.located(benchmarks)))
}

async fn outcomes(regrading: &Regrading, item: &Item, count: u32) -> Vec<Outcome> {
    let graded = (0..count).map(|index| async move {
        let completion = Completion {
            key: ItemKey { item: index, ..key(0) },
            ..completion("an answer")
        };
        regrading.grade(item, &completion).await.unwrap().unwrap().outcome
    });
    join_all(graded).await
}

/// Judges nothing before two of its kind have begun: whoever asks one at a time waits in vain.
const TWO_AT_ONCE: &str = r#"while read -r line; do id=${line#*\"id\":\"}; touch "$0/$$"
until [ "$(ls "$0" | wc -l)" -ge 2 ]; do sleep 0.01; done
echo "{\"id\":\"${id%%\"*}\",\"outcome\":\"correct\"}"; done"#;

#[tokio::test]
async fn as_many_programs_judge_at_once_as_are_configured_and_no_more() {
    let begun = tempfile::tempdir().unwrap();
    let folder = begun.path().display().to_string();
    let command = ["sh", "-c", TWO_AT_ONCE, &folder].map(str::to_owned).to_vec();
    let config = Config {
        commands: vec![command.clone()],
        command_processes: 2,
        ..Config::default()
    };
    let regrading = regrading(&config, GraderSpec::Command { command, seconds: 30 });
    let outcomes = outcomes(&regrading, &item(&["x"], &[]), 6).await;
    assert_eq!(outcomes, [Outcome::Correct; 6]);
    assert_eq!(std::fs::read_dir(begun.path()).unwrap().count(), 2);
}

#[tokio::test]
async fn what_has_to_wait_for_its_judge_waits_and_is_graded() {
    let engine = FakeEngine::builder()
        .respond(|_| Reply::text("GRADE: C"))
        .start()
        .unwrap();
    let mut config: Whole = configured(&engine, 20);
    // Two judges share two places, so that one of them has one.
    let judge = config.grader.judge["main"].clone();
    config.grader.judge.insert("other".to_owned(), judge);
    let regrading = regrading(&config.grader, GraderSpec::Judge(spec(&[("C", 1.0), ("I", 0.0)])));
    let item = Item {
        material: vec![(JUDGE_PROMPT.to_owned(), ANSWER_MARK.to_owned())],
        ..item(&["x"], &[])
    };
    assert_eq!(outcomes(&regrading, &item, 3).await, [Outcome::Correct; 3]);
}

#[tokio::test]
async fn a_long_answer_leaves_the_thread_to_others() {
    let regrading = regrading(
        &Config::default(),
        GraderSpec::Numeric {
            pattern: None,
            tolerance: 0.0,
        },
    );
    let long = Completion {
        key: key(0),
        ..completion(&format!("{} so 7", "word ".repeat(100_000)))
    };
    let item = item(&["7"], &[]);
    let mut graded = std::pin::pin!(regrading.grade(&item, &long));
    tokio::select! { biased;
        _ = &mut graded => panic!("graded in place"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(graded.await.unwrap().unwrap().outcome, Outcome::Correct);
}
