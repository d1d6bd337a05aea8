//! Completions on a real broker: one grade each, whatever is repeated, killed or damaged.

use std::time::Duration;

use tidemill_config::Config;
use tidemill_domain::{Ending, ItemKey, Outcome, Timestamp};
use tidemill_service::Published;
use tidemill_streams::declared;

use super::*;
use crate::bench::{Bench, PATIENCE, Running, delivery, evaluation, key};
use crate::step::fault;

#[tokio::test(flavor = "multi_thread")]
async fn completions_are_graded_once_each_by_two_graders() {
    let bench = Bench::start(300).await;
    for item in 0..300 {
        bench.finish(item, &format!("It is {}", item - item % 2)).await;
    }
    let graders = [bench.grader(), bench.grader()];
    let grades = bench.grades(300).await;
    for grader in graders {
        grader.drain().await;
    }
    for (index, grade) in grades.iter().enumerate() {
        let expected = if index % 2 == 0 {
            Outcome::Correct
        } else {
            Outcome::Incorrect
        };
        assert_eq!((grade.key.item as usize, grade.outcome), (index, expected));
    }
    assert_eq!(bench.messages(declared::GRADE.name).await, 300);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redelivered_completion_keeps_its_first_grade() {
    let bench = Bench::start(2).await;
    let first = fault(key(0), "of an earlier grader".to_owned());
    assert!(matches!(
        bench.context.publisher.publish(&first, None).await.unwrap(),
        Published::Stored(_)
    ));
    bench.finish(0, "0").await;
    bench.finish(1, "1").await;
    let grader = bench.grader();
    bench.settled().await;
    grader.drain().await;
    let grades = bench.grades(2).await;
    assert_eq!(grades[0], first);
    assert_eq!(grades[1].outcome, Outcome::Correct);
    assert_eq!(bench.messages(declared::GRADE.name).await, 2);
    assert_eq!(bench.messages(declared::DEAD.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn grading_goes_on_after_the_broker_was_killed() {
    let mut bench = Bench::start(2).await;
    let grader = bench.grader();
    bench.finish(0, "0").await;
    assert_eq!(bench.grades(1).await.len(), 1);
    bench.broker.kill().unwrap();
    bench.broker.restart().unwrap();
    bench.finish(1, "1").await;
    assert_eq!(bench.grades(2).await[1].outcome, Outcome::Correct);
    grader.drain().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unreadable_completion_is_a_dead_letter_and_a_fault_of_the_grader() {
    let bench = Bench::start(2).await;
    bench.finish_raw(0, b"not ours".to_vec()).await;
    bench.finish(1, "1").await;
    let grader = bench.grader();
    let (grades, (letter_subject, reason)) = (bench.grades(2).await, bench.dead_letter().await);
    bench.settled().await;
    grader.drain().await;
    assert_eq!(grades[0].outcome, Outcome::GraderError);
    assert_eq!(grades[1].outcome, Outcome::Correct);
    assert_eq!(letter_subject, subject::done(&key(0)));
    assert!(reason.contains("not a message of ours"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_of_a_newer_version_gets_no_grade_from_this_one() {
    let bench = Bench::start(1).await;
    let mut newer = tidemill_codec::encode(&bench.completion(0, "0")).unwrap();
    newer[4] = 99;
    let grading = Grading::new(&bench.context);
    let delivery = delivery(&key(0), newer);
    let failure = grading.handle(delivery).await.unwrap_err();
    assert_eq!(failure.class, Class::Newer);
    assert!(failure.reason.contains("version 99 is not known"), "{failure:?}");
    assert_eq!(bench.messages(declared::GRADE.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_manifest_is_a_dead_letter_and_a_fault_of_the_grader() {
    let bench = Bench::start(1).await;
    let completion = Completion {
        manifest: bench.damaged_manifest(),
        ..bench.completion(0, "0")
    };
    bench.context.publisher.publish(&completion, None).await.unwrap();
    let grader = bench.grader();
    let (grades, (letter_subject, reason)) = (bench.grades(1).await, bench.dead_letter().await);
    bench.settled().await;
    grader.drain().await;
    assert_eq!(
        (grades[0].outcome, grades[0].requests, grades[0].started),
        (Outcome::GraderError, 2, Timestamp(1))
    );
    assert!(grades[0].reason.as_ref().unwrap().contains("damaged"));
    assert_eq!(letter_subject, subject::done(&key(0)));
    assert!(reason.contains("damaged"), "{reason}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_that_its_manifest_does_not_declare_is_a_dead_letter() {
    let bench = Bench::start(1).await;
    bench.finish(7, "7").await;
    let grader = bench.grader();
    let (_, reason) = bench.dead_letter().await;
    grader.drain().await;
    assert!(reason.contains("is not declared"), "{reason}");
    assert_eq!(bench.messages(declared::GRADE.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_in_the_object_store_is_graded() {
    let bench = Bench::start(1).await;
    let long = bench.completion(0, &format!("{} so 0", "word ".repeat(100_000)));
    let message = tidemill_codec::encode(&long).unwrap();
    let store = &bench.context.store;
    let claim = store.check_in::<Completion>(&key(0), message).await.unwrap();
    assert!(claim.len() < 1_000);
    bench.finish_raw(0, claim).await;
    let grader = bench.grader();
    let grades = bench.grades(1).await;
    grader.drain().await;
    assert_eq!(grades[0].outcome, Outcome::Correct);
}

#[tokio::test]
async fn a_slow_grade_leaves_the_thread_to_others() {
    let bench = Bench::start(1).await;
    let grading = Grading::new(&bench.context);
    let completion = bench.completion(0, &format!("{} so 0", "word ".repeat(100_000)));
    let turn = grading.turn(&completion, &delivery(&key(0), Vec::new())).await.unwrap();
    assert!(turn.is_some(), "a long answer waits for its turn");
    let declared = grading.find(&completion).await.unwrap().unwrap();
    let mut grading = std::pin::pin!(grading.grade(declared, Box::new(completion), turn));
    // One thread: were the grade made on it, it would be there at the first look.
    tokio::select! { biased;
        graded = &mut grading => panic!("graded in place: {graded:?}"),
        () = std::future::ready(()) => {}
    }
    assert_eq!(grading.await.unwrap().grade().unwrap().outcome, Outcome::Correct);
}

#[tokio::test]
async fn a_short_grade_and_one_with_nothing_to_grade_wait_for_no_turn() {
    let bench = Bench::start(1).await;
    let grading = Grading::new(&bench.context);
    let short = bench.completion(0, "0");
    let refused = Completion {
        ending: Ending::Refused,
        ..bench.completion(0, &"word ".repeat(100_000))
    };
    for completion in [short, refused] {
        let turn = grading.turn(&completion, &delivery(&key(0), Vec::new())).await.unwrap();
        assert!(turn.is_none(), "{:?}", completion.ending);
    }
}

/// Graders each of whose grades takes so long, on one thread each, and which hold little.
fn slow(delay: Duration) -> Config {
    let grader = tidemill_config::Grader {
        max_in_flight: 20,
        threads: 1,
        delay,
        ..tidemill_config::Grader::default()
    };
    Config {
        grader,
        ..Config::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_graders_share_the_work_and_grade_all_of_it_once() {
    let bench = Bench::start_with(120, slow(Duration::from_millis(20))).await;
    for item in 0..120 {
        bench.finish(item, &item.to_string()).await;
    }
    let graders = [bench.grader(), bench.grader(), bench.grader()];
    let grades = bench.grades(120).await;
    bench.settled().await;
    let done = |grader: &Running| grader.loads.all().iter().map(|load| load.done).sum::<u64>();
    let told = async {
        while graders.iter().map(done).sum::<u64>() < 120 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, told)
        .await
        .expect("each says what it has done");
    let shares: Vec<u64> = graders.iter().map(done).collect();
    assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
    for grader in graders {
        grader.drain().await;
    }
    assert!(grades.iter().all(|grade| grade.outcome == Outcome::Correct));
    assert_eq!(bench.messages(declared::GRADE.name).await, 120);
    assert_eq!(bench.messages(declared::DEAD.name).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evaluation_has_its_turns_before_the_sweep_that_came_first_is_graded() {
    let bench = Bench::start_with(400, slow(Duration::from_millis(50))).await;
    for item in 0..400 {
        bench.finish(item, &item.to_string()).await;
    }
    let late = evaluation("late");
    for item in 0..5 {
        let key = ItemKey {
            evaluation: late.clone(),
            ..key(item)
        };
        bench.finish_of(key, &item.to_string()).await;
    }
    let grader = bench.grader();
    bench.grades_of(&late, 5).await;
    let graded = bench.messages(declared::GRADE.name).await;
    grader.drain().await;
    assert!(graded < 200, "{graded} were graded first");
}
