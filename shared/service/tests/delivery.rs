//! The rules of delivery against a real broker: nothing lost, nothing twice, whatever dies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::{FutureExt as _, StreamExt as _, TryStreamExt as _};
use tidemill_config::Config;
use tidemill_domain::{Completion, Digest, Ending, EvaluationId, GroupId, ItemKey, Release, Reuse, Served, Timestamp};
use tidemill_service::leader::Looks;
use tidemill_service::settle::MOST_FAILURES;
use tidemill_service::{Context, Failure, Follow, Obstacle, Published, Slots, Start, acquire, connect, prepare, work};
use tidemill_storage::{Address, Store};
use tidemill_streams::{Durable, Released, declared, durable, live, subject};
use tidemill_testkit::broker::Broker;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

struct Bench {
    broker: Broker,
    context: Context,
    _folder: tempfile::TempDir,
}

async fn bench() -> Bench {
    let broker = Broker::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let context = context(&broker, folder.path()).await;
    Bench {
        broker,
        context,
        _folder: folder,
    }
}

async fn context(broker: &Broker, folder: &std::path::Path) -> Context {
    let config = Config::default();
    let connection = connect(&config, &broker.url(), "test").await.unwrap();
    let store = Store::open(Address::of_folder(folder)).unwrap();
    prepare(&connection, &config, &store, true).await.unwrap();
    Context::new("generator", connection, store, Arc::new(config))
}

fn group() -> GroupId {
    GroupId::from_digest(&Digest::of(b"group"))
}

fn key(item: u32) -> ItemKey {
    ItemKey {
        evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
        benchmark: 0,
        item,
        sample: 0,
    }
}

fn released(item: u32) -> Released {
    let release = Release {
        key: key(item),
        manifest: Digest::of(b"manifest"),
        again: false,
        reuse: Reuse::Unlikely,
        expected_tokens: 0,
        prefix: 0,
    };
    Released {
        group: group(),
        release,
    }
}

fn completion(item: u32, text: &str) -> Completion {
    Completion {
        key: key(item),
        manifest: Digest::of(b"manifest"),
        ending: Ending::Stop,
        text: text.to_owned(),
        reasoning: None,
        finish_reason: None,
        stop_reason: None,
        truncated: false,
        choices: Vec::new(),
        detail: None,
        prompt_tokens: 1,
        completion_tokens: 1,
        requests: 1,
        attempts: 1,
        cached: false,
        served: Served::default(),
        generation: None,
        engine: String::new(),
        started: Timestamp(0),
        finished: Timestamp(0),
    }
}

/// The generators' consumer with a short wait, so that redelivery is seen soon.
fn impatient() -> Durable {
    Durable {
        ack_wait: Duration::from_secs(1),
        ..durable::generator(&group(), 64)
    }
}

async fn release_all(context: &Context, items: u32) {
    for item in 0..items {
        context.publisher.publish(&released(item), None).await.unwrap();
    }
}

async fn wait_for_done(context: &Context, count: usize) -> HashSet<ItemKey> {
    let filter = subject::done_of_evaluation(&key(0).evaluation);
    let mut follow = Follow::open(context, declared::DONE, filter, true, Start::Beginning).await;
    let mut keys = HashSet::new();
    let all = async {
        while keys.len() < count {
            let subject = follow.next().await.subject;
            assert!(
                keys.insert(subject::key_of(&subject).unwrap()),
                "{subject} was recorded twice"
            );
        }
    };
    tokio::time::timeout(Duration::from_secs(60), all)
        .await
        .expect("every item is recorded");
    keys
}

async fn messages(context: &Context, stream: &str) -> u64 {
    context
        .jetstream()
        .get_stream(stream)
        .await
        .unwrap()
        .cached_info()
        .state
        .messages
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_write_of_a_key_wins() {
    let bench = bench().await;
    let publisher = &bench.context.publisher;
    assert!(matches!(
        publisher.publish(&completion(0, "first"), None).await.unwrap(),
        Published::Stored(_)
    ));
    assert_eq!(
        publisher.publish(&completion(0, "second"), None).await.unwrap(),
        Published::AlreadyThere
    );
    assert!(matches!(
        publisher.publish(&completion(1, "other"), None).await.unwrap(),
        Published::Stored(_)
    ));
    assert_eq!(messages(&bench.context, "DONE").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_message_says_nothing_of_the_object_store_and_a_large_one_does() {
    let Bench { context, .. } = &bench().await;
    let _waiting = context.waits.begin(Obstacle::ObjectStore, "full");
    let since = || context.waits.all()[0].since;
    let began = since();
    let check_in = async |text: &str| {
        let message = tidemill_codec::encode(&completion(0, text)).unwrap();
        tidemill_service::check_in::<Completion>(context, &key(0), message)
            .await
            .unwrap();
    };
    check_in("small").await;
    assert_eq!(since(), began);
    check_in(&"large".repeat(100_000)).await;
    assert!(since() > began);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_waits_is_not_released_twice() {
    let bench = bench().await;
    let publisher = &bench.context.publisher;
    assert!(matches!(
        publisher.publish(&released(0), None).await.unwrap(),
        Published::Stored(_)
    ));
    assert_eq!(
        publisher.publish(&released(0), None).await.unwrap(),
        Published::AlreadyThere
    );
    assert_eq!(messages(&bench.context, "READY").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_and_panics_are_delivered_again_until_the_effect_is_stored() {
    let bench = bench().await;
    release_all(&bench.context, 12).await;
    let tries = Arc::new(AtomicUsize::new(0));
    let stop = CancellationToken::new();
    let working = {
        let (context, tries, stop) = (bench.context.clone(), Arc::clone(&tries), stop.clone());
        tokio::spawn(async move {
            let publisher = context.publisher.clone();
            let handler = move |delivery: tidemill_service::Delivery| {
                let (publisher, tries) = (publisher.clone(), Arc::clone(&tries));
                async move {
                    tries.fetch_add(1, Ordering::Relaxed);
                    let item = subject::key_of(&delivery.subject).unwrap().item;
                    assert!(
                        !item.is_multiple_of(4) || delivery.delivered > 1,
                        "a panic at the first delivery"
                    );
                    if item % 4 == 1 && delivery.delivered == 1 {
                        return Err(Failure::transient("first try"));
                    }
                    publisher.publish(&completion(item, "done"), None).await?;
                    Ok(())
                }
            };
            work(&context, &impatient(), 4, &stop, handler).await;
        })
    };
    assert_eq!(wait_for_done(&bench.context, 12).await.len(), 12);
    // A first delivery that waited too long is none that the handler saw.
    assert!(tries.load(Ordering::Relaxed) >= 12);
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_takes_as_many_as_it_is_told_at_each_time() {
    let bench = bench().await;
    release_all(&bench.context, 12).await;
    let stop = CancellationToken::new();
    let (slots, taking) = watch::channel(Slots::fixed(2));
    let (running, gate) = (Arc::new(AtomicU32::new(0)), Arc::new(Semaphore::new(0)));
    let working = {
        let (context, stop) = (bench.context.clone(), stop.clone());
        let (running, gate) = (Arc::clone(&running), Arc::clone(&gate));
        tokio::spawn(async move {
            let handler = move |_| {
                let (running, gate) = (Arc::clone(&running), Arc::clone(&gate));
                async move {
                    running.fetch_add(1, Ordering::Relaxed);
                    gate.acquire().await.unwrap().forget();
                    running.fetch_sub(1, Ordering::Relaxed);
                    Ok(())
                }
            };
            work(&context, &impatient(), taking, &stop, handler).await;
        })
    };
    let reaches = async |wanted| {
        let reached = async {
            while running.load(Ordering::Relaxed) != wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let reached = tokio::time::timeout(Duration::from_secs(20), reached).await;
        assert!(
            reached.is_ok(),
            "{} are worked on, not {wanted}",
            running.load(Ordering::Relaxed)
        );
    };
    reaches(2).await;
    slots.send_replace(Slots::fixed(7));
    reaches(7).await;
    slots.send_replace(Slots::fixed(1));
    // Six end and nothing follows: then there is a slot again, for one after the other.
    gate.add_permits(6);
    reaches(1).await;
    gate.add_permits(12);
    reaches(0).await;
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_processed_is_kept_with_its_reason() {
    let bench = bench().await;
    release_all(&bench.context, 1).await;
    let stop = CancellationToken::new();
    let working = {
        let (context, stop) = (bench.context.clone(), stop.clone());
        tokio::spawn(async move {
            let handler = |_| async { Err(Failure::permanent("no such\nmanifest")) };
            work(&context, &impatient(), 4, &stop, handler).await;
        })
    };
    let mut dead = Follow::open(
        &bench.context,
        declared::DEAD,
        "tm.dead.>".to_owned(),
        false,
        Start::Beginning,
    )
    .await;
    let letter = tokio::time::timeout(Duration::from_secs(20), dead.next())
        .await
        .expect("a dead letter");
    let headers = letter.headers.unwrap();
    assert_eq!(letter.subject, "tm.dead.generator");
    assert_eq!(headers.get("Tidemill-Reason").unwrap().as_str(), "no such manifest");
    assert_eq!(
        subject::key_of(headers.get("Tidemill-Subject").unwrap().as_str()),
        Some(key(0))
    );
    assert_eq!(
        tidemill_codec::decode::<Release>(&letter.payload).unwrap(),
        released(0).release
    );
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_breaks_its_handler_again_and_again_is_kept_with_the_reason() {
    let bench = bench().await;
    release_all(&bench.context, 2).await;
    let stop = CancellationToken::new();
    let tries = Arc::new(AtomicUsize::new(0));
    let working = {
        let (context, stop, tries) = (bench.context.clone(), stop.clone(), Arc::clone(&tries));
        tokio::spawn(async move {
            let publisher = context.publisher.clone();
            let handler = move |delivery: tidemill_service::Delivery| {
                let (publisher, tries) = (publisher.clone(), Arc::clone(&tries));
                async move {
                    let item = subject::key_of(&delivery.subject).unwrap().item;
                    if item == 0 {
                        tries.fetch_add(1, Ordering::Relaxed);
                        panic!("it is broken");
                    }
                    publisher.publish(&completion(item, "done"), None).await?;
                    Ok(())
                }
            };
            let durable = Durable {
                ack_wait: Duration::from_millis(300),
                ..impatient()
            };
            work(&context, &durable, 4, &stop, handler).await;
        })
    };
    let filter = "tm.dead.>".to_owned();
    let mut dead = Follow::open(&bench.context, declared::DEAD, filter, false, Start::Beginning).await;
    let letter = tokio::time::timeout(Duration::from_secs(60), dead.next())
        .await
        .expect("a dead letter");
    let headers = letter.headers.unwrap();
    let reason = headers.get("Tidemill-Reason").unwrap().as_str();
    assert!(reason.contains("it is broken"), "{reason}");
    assert_eq!(tries.load(Ordering::Relaxed), MOST_FAILURES as usize);
    assert_eq!(wait_for_done(&bench.context, 1).await, HashSet::from([key(1)]));
    while messages(&bench.context, "READY").await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_killed_loses_nothing_and_work_goes_on() {
    let mut bench = bench().await;
    release_all(&bench.context, 200).await;
    let stop = CancellationToken::new();
    let handled = Arc::new(Mutex::new(Vec::new()));
    let working = {
        let (context, stop, handled) = (bench.context.clone(), stop.clone(), Arc::clone(&handled));
        tokio::spawn(async move {
            let publisher = context.publisher.clone();
            let handler = move |delivery: tidemill_service::Delivery| {
                let (publisher, handled) = (publisher.clone(), Arc::clone(&handled));
                async move {
                    let item = subject::key_of(&delivery.subject).unwrap().item;
                    handled.lock().unwrap().push(item);
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    publisher.publish(&completion(item, "done"), None).await?;
                    Ok(())
                }
            };
            work(&context, &impatient(), 8, &stop, handler).await;
        })
    };
    let watching = {
        let context = bench.context.clone();
        tokio::spawn(async move { wait_for_done(&context, 200).await })
    };
    while handled.lock().unwrap().len() < 50 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    bench.broker.kill().unwrap();
    bench.broker.restart().unwrap();
    assert_eq!(watching.await.unwrap().len(), 200);
    assert_eq!(messages(&bench.context, "DONE").await, 200);
    stop.cancel();
    working.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_what_is_known_ends_although_messages_expire_unread() {
    let bench = bench().await;
    for item in 0..1_500 {
        bench
            .context
            .publisher
            .publish(&completion(item, "done"), None)
            .await
            .unwrap();
    }
    let filter = subject::done_of_evaluation(&key(0).evaluation);
    let mut follow = Follow::open(&bench.context, declared::DONE, filter, true, Start::Beginning).await;
    assert_eq!(follow.backlog(), 1_500);
    let mut read = vec![follow.next_known().await.unwrap().sequence];
    let stream = bench.context.jetstream().get_stream("DONE").await.unwrap();
    // The reader holds the first ones already; the last of those it counted on never comes.
    for sequence in 1_001..=1_500 {
        stream.delete_message(sequence).await.unwrap();
    }
    let all = follow.each_known(|message| read.push(message.sequence));
    tokio::time::timeout(Duration::from_secs(30), all)
        .await
        .expect("it ends");
    assert_eq!(read[..1_000], (1..=1_000).collect::<Vec<_>>());
    assert_eq!(follow.backlog(), 0);
    assert!(follow.next_known().await.is_none());
    bench
        .context
        .publisher
        .publish(&completion(1_500, "new"), None)
        .await
        .unwrap();
    assert_eq!(follow.next().await.sequence, 1_501);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_stream_has_nothing_known() {
    let bench = bench().await;
    let mut follow = Follow::open(
        &bench.context,
        declared::DONE,
        "tm.done.>".to_owned(),
        true,
        Start::LastPerSubject,
    )
    .await;
    let mut read = 0;
    follow.each_known(|_| read += 1).await;
    assert_eq!(read, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_has_one_holder_and_passes_on_when_it_is_given_back() {
    let bench = bench().await;
    let first = acquire(&bench.context, "group.a").await.unwrap();
    let other = bench.context.role("loader");
    let waiting = tokio::spawn(async move { acquire(&other, "group.a").await.is_some() });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    assert!(acquire(&bench.context, "group.b").await.is_some());
    drop(first);
    let passed = tokio::time::timeout(Duration::from_secs(5), waiting)
        .await
        .expect("the lease passes on");
    assert!(passed.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn services_of_one_broker_must_share_a_store() {
    let bench = bench().await;
    let elsewhere = tempfile::tempdir().unwrap();
    let config = Config::default();
    let connection = connect(&config, &bench.broker.url(), "other").await.unwrap();
    let store = Store::open(Address::of_folder(elsewhere.path())).unwrap();
    let refused = prepare(&connection, &config, &store, true)
        .await
        .unwrap_err()
        .to_string();
    assert!(refused.contains("object store"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_differ_are_refused_and_not_changed() {
    let bench = bench().await;
    let js = bench.context.jetstream();
    let mut config = declared::DONE.config(1);
    config.max_bytes /= 2;
    js.update_stream(config).await.unwrap();
    let refused = prepare(&bench.context.broker, &Config::default(), &bench.context.store, true)
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("max_bytes"), "{refused}");
    assert!(refused.to_string().contains("streams apply"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_not_there_or_not_fit_is_named() {
    let mut config = Config::default();
    config.broker.connect_timeout = Duration::from_millis(200);
    let nobody = connect(&config, "nats://127.0.0.1:1", "test")
        .await
        .unwrap_err()
        .to_string();
    assert!(
        nobody.contains("nats://127.0.0.1:1") && nobody.contains("--nats"),
        "{nobody}"
    );
}

/// The leases that somebody holds.
async fn leases(context: &Context) -> Vec<String> {
    let bucket = context.jetstream().get_key_value("tm_leases").await.unwrap();
    bucket.keys().await.unwrap().try_collect().await.unwrap()
}

#[tokio::test]
async fn a_process_that_ends_leaves_no_lease_behind_wherever_its_try_for_one_was() {
    let bench = bench().await;
    let context = bench.context.clone();
    let held = acquire(&context, "held").await.unwrap();
    assert_eq!(leases(&context).await, ["held"]);
    // The broker shows the write before it answers it: the drain begins in between.
    let mut written = context.broker.client.subscribe("$KV.tm_leases.>").await.unwrap();
    for step in 0..20 {
        let mut trying = context.clone();
        trying.draining = CancellationToken::new();
        let (draining, key) = (trying.draining.clone(), format!("try-{step}"));
        let given_up = async {
            written.next().await.unwrap();
            draining.cancel();
        };
        let (taken, ()) = tokio::join!(acquire(&trying, &key), given_up);
        drop(taken);
    }
    drop(held);
    context.close().await;
    assert_eq!(leases(&context).await, Vec::<String>::new());
}

/// Requests on a subject, copied to this connection before they are answered.
#[tokio::test(flavor = "multi_thread")]
async fn pulls_whose_readers_are_gone_are_forgotten_and_the_others_are_not() {
    let bench = bench().await;
    let js = bench.context.jetstream();
    let follow =
        |stream, filter: &str| Follow::open(&bench.context, stream, filter.to_owned(), false, Start::Beginning);
    let mut first = follow(declared::EVALUATION, "tm.evaluation.>").await;
    let mut second = follow(declared::RESULT, "tm.result.>").await;
    // The first poll has the client send a pull.
    assert!(first.next().now_or_never().is_none() && second.next().now_or_never().is_none());
    until(async || live::forget_pulls(js).await.unwrap() == 2).await;
    drop(first);
    until(async || live::forget_pulls(js).await.unwrap() == 1).await;
    drop(second);
    until(async || live::forget_pulls(js).await.unwrap() == 0).await;
}

async fn until(holds: impl AsyncFn() -> bool) {
    let wait = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), wait)
        .await
        .expect("it holds within 10 s");
}

async fn requests(bench: &Bench, subject: &'static str) -> async_nats::Subscriber {
    let client = &bench.context.broker.client;
    let copies = client.subscribe(subject).await.unwrap();
    client.flush().await.unwrap();
    copies
}

/// How many have come since.
fn count(requests: &mut async_nats::Subscriber) -> usize {
    std::iter::from_fn(|| requests.next().now_or_never().flatten()).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_of_one_moment_are_asked_together_and_see_what_was_acknowledged() {
    let bench = bench().await;
    let mut together = requests(&bench, "$JS.API.DIRECT.GET.DONE").await;
    let mut alone = requests(&bench, "$JS.API.STREAM.MSG.GET.DONE").await;
    let looks = Looks::open(&bench.context.broker, declared::DONE);
    let look = || async {
        let all = (0..300).map(|item| looks.holds(subject::done(&key(item))));
        futures::future::try_join_all(all).await.unwrap()
    };
    assert_eq!(look().await, [false; 300]);
    let count_together = count(&mut together);
    assert!((1..=4).contains(&count_together), "{count_together} requests");
    assert_eq!(count(&mut alone), 0);

    for item in [7, 250] {
        bench
            .context
            .publisher
            .publish(&completion(item, "x"), None)
            .await
            .unwrap();
        assert!(looks.holds(subject::done(&key(item))).await.unwrap());
    }
    let mut expected = [false; 300];
    (expected[7], expected[250]) = (true, true);
    assert_eq!(look().await, expected);
    assert!(count(&mut alone) > 0, "where there is something the leader says what");
}

#[tokio::test(flavor = "multi_thread")]
async fn looks_ask_the_leader_where_no_copy_may_answer() {
    let bench = bench().await;
    let looks = Looks::open(&bench.context.broker, declared::DONE);
    assert!(!looks.holds(subject::done(&key(1))).await.unwrap());
    let js = bench.context.jetstream();
    let indirect = async_nats::jetstream::stream::Config {
        allow_direct: false,
        ..declared::DONE.config(1)
    };
    js.update_stream(&indirect).await.unwrap();
    bench
        .context
        .publisher
        .publish(&completion(1, "x"), None)
        .await
        .unwrap();
    assert!(looks.holds(subject::done(&key(1))).await.unwrap());
    assert!(!looks.holds(subject::done(&key(2))).await.unwrap());
}

#[tokio::test]
async fn a_broker_that_asks_who_is_there_is_told_or_said_to_refuse() {
    let broker = Broker::start_with("authorization { users: [{ user: bob, password: secret }] }").unwrap();
    let config = Config::default();
    let named = broker.url().replace("nats://", "nats://bob:secret@");
    connect(&config, &named, "test").await.unwrap();
    for refused in [broker.url(), named.replace("secret", "other")] {
        let error = connect(&config, &refused, "test").await.unwrap_err().to_string();
        assert!(
            error.contains("refuses who asks") && error.contains("USER:PASSWORD"),
            "{error}"
        );
        assert!(!error.contains("other") && !error.contains("bob"), "{error}");
    }
}
