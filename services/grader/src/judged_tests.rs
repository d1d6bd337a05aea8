//! Completions that a judge grades, with a server that is scripted, away or overloaded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidemill_config::Config;
use tidemill_domain::{
    ANSWER_MARK, BenchmarkName, FIRST_MARK, Grade, GraderSpec, Item, ItemKey, JUDGE_PROMPT, JudgeCost, JudgeSpec,
    Outcome, Reasoning, SECOND_MARK, WholeBenchmark, WholeManifest,
};
use tidemill_service::now;
use tidemill_streams::declared;
use tidemill_testkit::engine::Request;
use tidemill_testkit::{FakeEngine, Reply};

use crate::answer::tests::item;
use crate::bench::{Bench, evaluation, key, manifest, settings};
use crate::grade::tests::completion;
use crate::judge::tests::spec;
use crate::{Grader, Runners};

const MATHS: u32 = 0;
pub(crate) const JUDGED: u32 = 1;
const COMPARED: u32 = 2;
const VOTED: u32 = 3;

fn judged() -> JudgeSpec {
    spec(&[("C", 1.0), ("I", 0.0)])
}

pub(crate) fn asking(prompt: &str) -> Item {
    Item {
        material: vec![(JUDGE_PROMPT.to_owned(), prompt.to_owned())],
        ..item(&["the reference"], &[])
    }
}

/// Numbers, and three ways to ask a judge.
pub(crate) fn mixed(items: usize) -> WholeManifest {
    let benchmark = |name: &str, grader: JudgeSpec, prompt: &str| WholeBenchmark {
        name: BenchmarkName::try_new(name).unwrap(),
        settings: settings(),
        grader: GraderSpec::Judge(grader),
        items: vec![asking(prompt); items],
    };
    let plain = manifest(items);
    let pair = JudgeSpec {
        is_pair: true,
        ..spec(&[("A", 1.0), ("TIE", 0.5), ("B", 0.0)])
    };
    let votes = JudgeSpec {
        votes: 3,
        temperature: 0.7,
        ..judged()
    };
    let compared = format!("first {FIRST_MARK} second {SECOND_MARK}");
    let others = [
        benchmark("judged", judged(), ANSWER_MARK),
        benchmark("compared", pair, &compared),
        benchmark("voted", votes, &format!("vote {ANSWER_MARK}")),
    ];
    WholeManifest {
        benchmarks: plain.benchmarks.into_iter().chain(others).collect(),
        ..plain
    }
}

fn judge(engine: &FakeEngine) -> tidemill_config::Judge {
    tidemill_config::Judge {
        url: engine.url(),
        model: engine.model().to_owned(),
        key_variable: None,
        concurrency: 8,
        requests_per_minute: 0,
        tokens_per_hour: 0,
        attempts: 3,
        request_timeout: Duration::from_secs(10),
        patience: Duration::from_secs(600),
    }
}

pub(crate) fn configured(engine: &FakeEngine, max_in_flight: u32) -> Config {
    let mut config = Config::default();
    config.grader.max_in_flight = max_in_flight;
    config.grader.judge.insert("main".to_owned(), judge(engine));
    config
}

/// Says what the answer tells it to say, after a slip or without.
pub(crate) fn obedient(request: &Request) -> Reply {
    let turns = request.body["messages"].as_array().unwrap();
    let prompt = turns[0]["content"].as_str().unwrap();
    let is_again = turns.len() > 1;
    Reply::text(match prompt {
        "right" => "Well.\nGRADE: C",
        "wrong" => "**GRADE: I**",
        "slips once" if is_again => "GRADE: C",
        "slips" | "slips once" => "GRID: C",
        "vote right" if request.body["seed"] == 1 => "GRADE: I",
        "vote right" => "GRADE: C",
        // It prefers whatever is first, and then what is better.
        "first mine second the reference" | "first the reference second mine" => "GRADE: A",
        "first better second the reference" => "GRADE: A",
        "first the reference second better" => "GRADE: B",
        other => panic!("{other}"),
    })
}

fn sample(name: &str, benchmark: u32, item: u32) -> ItemKey {
    ItemKey {
        evaluation: evaluation(name),
        benchmark,
        ..key(item)
    }
}

fn cost(grade: &Grade) -> (u32, u32, u32, u32) {
    let cost = grade.judge.expect("a judge was asked");
    (cost.verdicts, cost.cached, cost.requests, cost.unreadable)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_judge_says_is_graded_what_it_does_not_say_is_not_and_nothing_is_asked_twice() {
    let engine = FakeEngine::builder().respond(obedient).start().unwrap();
    let bench = Bench::start_of(configured(&engine, 64), mixed(4)).await;
    let answers = [
        (JUDGED, 0, "right"),
        (JUDGED, 1, "slips"),
        (JUDGED, 2, "slips once"),
        (JUDGED, 3, "wrong"),
        (COMPARED, 0, "mine"),
        (COMPARED, 1, "better"),
        (VOTED, 0, "right"),
    ];
    let grader = bench.grader();
    for (benchmark, item, text) in answers {
        bench.finish_of(sample("first", benchmark, item), text).await;
    }
    let grades = bench.grades_of(&evaluation("first"), answers.len()).await;
    let outcomes: Vec<Outcome> = grades.iter().map(|grade| grade.outcome).collect();
    assert_eq!(
        outcomes,
        [
            Outcome::Correct,
            Outcome::Ungraded,
            Outcome::Correct,
            Outcome::Incorrect,
            Outcome::Graded,
            Outcome::Graded,
            Outcome::Correct
        ]
    );
    let costs: Vec<_> = grades.iter().map(cost).collect();
    let expected = [
        (1, 0, 1, 0),
        (1, 0, 3, 3),
        (1, 0, 2, 1),
        (1, 0, 1, 0),
        (2, 0, 2, 0),
        (2, 0, 2, 0),
        (3, 0, 3, 0),
    ];
    assert_eq!(costs, expected);
    assert!(
        grades
            .iter()
            .all(|grade| grade.grader == "judge@1" && grade.judge.unwrap().prompt_tokens > 0)
    );
    let reason = |index: usize| grades[index].reason.clone().unwrap();
    assert!(
        reason(1).contains("\"GRID: C\"") && reason(1).contains("GRADE: "),
        "{}",
        reason(1)
    );
    assert_eq!(reason(6), "C 2, I 1 [judge: fake]");
    let compared = |index: usize| {
        let grade: &Grade = &grades[index];
        (
            grade.score,
            grade.extracted.clone().unwrap(),
            grade.judge.unwrap().disagreed,
        )
    };
    assert_eq!(compared(4), (0.5, "tie".to_owned(), true));
    assert_eq!(compared(5), (1.0, "win".to_owned(), false));

    let asked = engine.stats().requests;
    for (benchmark, item, text) in answers {
        bench.finish_of(sample("second", benchmark, item), text).await;
    }
    let again = bench.grades_of(&evaluation("second"), answers.len()).await;
    grader.drain().await;
    assert_eq!(again.iter().map(|grade| grade.outcome).collect::<Vec<_>>(), outcomes);
    assert_eq!(again[6].reason, grades[6].reason, "the votes are those of before");
    for (grade, (verdicts, ..)) in again.iter().zip(expected) {
        let is_known = grade.outcome != Outcome::Ungraded;
        let expected = JudgeCost {
            verdicts,
            cached: verdicts,
            disagreed: grade.judge.unwrap().disagreed,
            ..JudgeCost::default()
        };
        assert_eq!(grade.judge == Some(expected), is_known, "{grade:?}");
    }
    assert_eq!(
        engine.stats().requests,
        asked + 3,
        "what had no verdict is asked for anew"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_is_away_delays_its_grades_and_nothing_else() {
    let engine = FakeEngine::builder().respond(obedient).start().unwrap();
    // One completion may wait for the judge in a grader, and six are there: more than it holds at all.
    let bench = Bench::start_of(configured(&engine, 5), mixed(6)).await;
    engine.set_down(true).unwrap();
    for item in 0..6 {
        bench.finish_of(sample("first", JUDGED, item), "right").await;
    }
    let grader = bench.grader();
    for item in 0..6 {
        bench.finish_of(sample("first", MATHS, item), &item.to_string()).await;
    }
    let grades = bench.grades_of(&evaluation("first"), 6).await;
    assert!(
        grades
            .iter()
            .all(|grade| (grade.key.benchmark, grade.outcome) == (MATHS, Outcome::Correct)),
        "{grades:?}"
    );
    // A grader that ends leaves what waits to another one.
    grader.drain().await;
    assert_eq!(bench.messages(declared::GRADE.name).await, 6);
    let grader = bench.grader();
    engine.set_down(false).unwrap();
    let grades = bench.grades_of(&evaluation("first"), 12).await;
    grader.drain().await;
    assert!(
        grades.iter().all(|grade| grade.outcome == Outcome::Correct),
        "{grades:?}"
    );
    assert_eq!(bench.messages(declared::DEAD.name).await, 0);
}

fn grader_of(spec: JudgeSpec) -> Grader {
    Grader::new(&GraderSpec::Judge(spec), &Reasoning::default())
}

async fn asked_alone(config: &Config, text: &str) -> Grade {
    let runners = Runners::of(&config.grader);
    let item = asking(ANSWER_MARK);
    let graded = grader_of(judged())
        .grade_with(&runners, &item, &completion(text), now)
        .await;
    graded.unwrap()
}

#[tokio::test]
async fn a_judge_that_turns_away_is_asked_again_when_it_said() {
    let engine = FakeEngine::builder()
        .respond(|request| match request.attempt {
            1 => Reply::raw(429, r#"{"error": {"message": "slow down"}}"#).header("Retry-After", "1"),
            _ => Reply::text("GRADE: C"),
        })
        .keep_journal()
        .start()
        .unwrap();
    let begun = std::time::Instant::now();
    let grade = asked_alone(&configured(&engine, 8), "right").await;
    assert_eq!((grade.outcome, cost(&grade)), (Outcome::Correct, (1, 0, 2, 0)));
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn what_fails_one_request_alone_leaves_its_sample_ungraded() {
    let engine = FakeEngine::builder()
        .respond(|request| match request.prompt.as_str() {
            "poison" => Reply::raw(500, "the judge breaks on this"),
            _ => Reply::text("GRADE: C"),
        })
        .start()
        .unwrap();
    let config = configured(&engine, 64);
    let runners = Runners::of(&config.grader);
    let (grader, item) = (grader_of(judged()), asking(ANSWER_MARK));
    let (poison, good) = (completion("poison"), completion("right"));
    let answered = AtomicU64::new(0);
    let others = async {
        loop {
            let grade = grader.grade_with(&runners, &item, &good, now).await.unwrap();
            assert_eq!(grade.outcome, Outcome::Correct);
            answered.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let grade = tokio::select! {
        grade = grader.grade_with(&runners, &item, &poison, now) => grade.unwrap(),
        () = others => unreachable!(),
    };
    assert_eq!(grade.outcome, Outcome::Ungraded, "{grade:?}");
    assert!(
        grade
            .reason
            .unwrap()
            .contains("failed 3 times while it answered others")
    );
    assert!(answered.into_inner() >= 3);
}

/// A configuration of a judge that is asked by nobody else and is given up after two failures, or a second.
fn soon_given_up(engine: &FakeEngine) -> Config {
    let mut config = configured(engine, 8);
    let judge = tidemill_config::Judge {
        attempts: 2,
        patience: Duration::from_secs(1),
        ..judge(engine)
    };
    config.grader.judge.insert("main".to_owned(), judge);
    config
}

#[tokio::test]
async fn what_fails_a_request_that_nobody_else_joins_is_not_waited_for_where_the_judge_answers_a_check() {
    for fault in [
        Reply::raw(500, "the judge breaks on this"),
        Reply::raw(200, r#"{"choices": []}"#),
    ] {
        let engine = FakeEngine::builder()
            .respond(move |request| match request.prompt.as_str() {
                "poison" => fault.clone(),
                _ => Reply::text("OK."),
            })
            .start()
            .unwrap();
        let mut config = soon_given_up(&engine);
        config.grader.judge.get_mut("main").unwrap().patience = Duration::from_secs(600);
        let grade = asked_alone(&config, "poison").await;
        assert_eq!(grade.outcome, Outcome::Ungraded, "{grade:?}");
        let reason = grade.reason.clone().unwrap();
        assert!(reason.contains("failed 2 times while it answered others"), "{reason}");
        // One failure without a check, and two with one.
        assert_eq!((cost(&grade).2, engine.stats().requests), (5, 5));
    }
}

#[tokio::test]
async fn a_judge_that_fails_its_checks_too_is_waited_for() {
    let engine = FakeEngine::builder()
        .respond(|_| Reply::raw(500, "the judge breaks on everything"))
        .start()
        .unwrap();
    let grade = asked_alone(&soon_given_up(&engine), "poison").await;
    let reason = grade.reason.unwrap();
    assert!(reason.contains("did not answer within 1s"), "{reason}");
}

#[tokio::test]
async fn a_judge_that_refuses_the_request_grades_nothing_and_is_not_asked_again() {
    let refusal = r#"{"error": {"message": "This model's maximum context length is 10 tokens", "code": "context_length_exceeded"}}"#;
    let engine = FakeEngine::builder()
        .respond(move |_| Reply::raw(400, refusal))
        .start()
        .unwrap();
    let grade = asked_alone(&configured(&engine, 8), "right").await;
    assert_eq!(
        (grade.outcome, engine.stats().requests),
        (Outcome::Ungraded, 1),
        "{grade:?}"
    );
    assert!(grade.reason.unwrap().contains("maximum context length"));
}

#[tokio::test]
async fn a_reply_that_was_cut_holds_no_verdict() {
    for reason in ["length", "content_filter"] {
        let engine = FakeEngine::builder()
            .respond(move |_| Reply::text("GRADE: C").finish_reason(reason))
            .start()
            .unwrap();
        let grade = asked_alone(&configured(&engine, 8), "right").await;
        assert_eq!(
            (grade.outcome, cost(&grade)),
            (Outcome::Ungraded, (1, 0, 3, 3)),
            "{reason}"
        );
    }
}

#[tokio::test]
async fn a_judge_that_is_not_configured_is_a_fault_with_its_remedy() {
    let grade = asked_alone(&Config::default(), "right").await;
    assert_eq!((grade.outcome, grade.judge), (Outcome::GraderError, None));
    assert!(grade.reason.unwrap().contains("[grader.judge.main]"));
    let engine = FakeEngine::start().unwrap();
    let mut config = configured(&engine, 8);
    let judge = tidemill_config::Judge {
        key_variable: Some("TIDEMILL_NO_SUCH_KEY".to_owned()),
        ..judge(&engine)
    };
    config.grader.judge.insert("main".to_owned(), judge);
    let grade = asked_alone(&config, "right").await;
    assert_eq!(grade.outcome, Outcome::GraderError);
    assert!(grade.reason.unwrap().contains("TIDEMILL_NO_SUCH_KEY"));
    assert_eq!(engine.stats().requests, 0);
}
