//! Reads where streams have several copies: what was acknowledged is seen at once, whatever copy lags.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test may fail this way, and says what it measured"
)]

use std::sync::Arc;

use tidemill_config::Config;
use tidemill_service::leader::Looks;
use tidemill_service::{Context, Follow, Start, connect, leader, prepare};
use tidemill_storage::{Address, Store};
use tidemill_streams::{DeadLetter, Message as _, buckets, declared};
use tidemill_testkit::Cluster;

const WRITES: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_is_seen_whatever_copy_lags() {
    let cluster = tokio::task::block_in_place(|| Cluster::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.broker.replicas = 3;
    let broker = connect(&config, &cluster.url(), "test").await.unwrap();
    let store = Store::open(Address::of_folder(folder.path())).unwrap();
    prepare(&broker, &config, &store, true).await.unwrap();
    let context = Context::new("generator", broker, store, Arc::new(config));
    let js = context.jetstream();
    let looks = Looks::open(&context.broker, declared::DEAD);

    // Direct reads, which are what the client library makes of a look into a bucket, show that copies do lag.
    let leases = js.get_key_value(buckets::LEASES.name).await.unwrap();
    let mut stale = 0;
    for write in 0..WRITES {
        let (key, value) = (format!("group.{write}"), format!("holder {write}"));
        let revision = leases.put(&key, value.clone().into()).await.unwrap();
        stale += usize::from(leases.get(&key).await.ok().flatten().is_none());
        let read = leader::entry(&leases, &key).await.unwrap().expect("the leader has it");
        assert_eq!((read.revision, &read.value[..]), (revision, value.as_bytes()));
        leases.delete(&key).await.unwrap();
        assert_eq!(leader::entry(&leases, &key).await.unwrap(), None);
    }
    eprintln!("{stale} of {WRITES} direct reads were stale");

    // A reader may sit on any copy, and still knows of everything that was acknowledged before it was opened.
    for write in 1..=WRITES {
        let letter = DeadLetter {
            stage: "test",
            payload: write.to_string().into_bytes(),
        };
        let subject = letter.subject();
        context.publisher.publish(&letter, None).await.unwrap();
        let last = leader::last(js, declared::DEAD.name, &subject).await.unwrap().unwrap();
        assert_eq!(last.payload, write.to_string());
        let stage = Box::leak(format!("test-{write}").into_boxed_str());
        let letter = DeadLetter {
            stage,
            payload: Vec::new(),
        };
        assert!(!looks.holds(letter.subject()).await.unwrap());
        context.publisher.publish(&letter, None).await.unwrap();
        assert!(looks.holds(letter.subject()).await.unwrap(), "letter {write}");
        if write % 10 == 0 {
            let mut follow = Follow::open(&context, declared::DEAD, subject, true, Start::Beginning).await;
            let mut known = 0;
            follow.each_known(|_| known += 1).await;
            assert_eq!(
                known, write,
                "a reader that was opened after the acknowledgement misses some"
            );
        }
    }
}
