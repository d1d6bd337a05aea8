//! A small disk as a test uses it: filled, and given room. Where the host allows none, that is said loudly.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says what it could not test"
)]

use async_nats::jetstream;
use tidemill_testkit::{Broker, SmallDisk};

const MIB: u64 = 1 << 20;

/// A small disk, or a loud word that there is none here.
fn small_disk(bytes: u64) -> Option<SmallDisk> {
    SmallDisk::new(bytes)
        .inspect_err(|error| eprintln!("NOT TESTED ON A REAL FULL DISK: {error:#}"))
        .ok()
}

async fn stream(broker: &Broker) -> jetstream::Context {
    let client = async_nats::connect(broker.url()).await.unwrap();
    let context = jetstream::new(client);
    let config = jetstream::stream::Config {
        name: "S".to_owned(),
        subjects: vec!["s".to_owned()],
        ..jetstream::stream::Config::default()
    };
    context.get_or_create_stream(config).await.unwrap();
    context
}

async fn publish(context: &jetstream::Context, bytes: usize) -> Result<(), async_nats::Error> {
    context.publish("s", vec![7; bytes].into()).await?.await?;
    Ok(())
}

/// Publishes until a publish is refused, and returns how many were stored.
async fn fill(context: &jetstream::Context) -> u64 {
    for stored in 0..1_000 {
        if publish(context, 64 << 10).await.is_err() {
            return stored;
        }
    }
    1_000
}

#[test]
fn a_disk_holds_what_it_has_room_for_and_is_seen_inside_alone() {
    let Some(disk) = small_disk(MIB) else { return };
    let file = disk.path().join("file");
    let write = |bytes: u64| {
        let written = disk
            .command("dd")
            .args(["if=/dev/zero", "bs=1024", &format!("count={}", bytes / 1_024)])
            .arg(format!("of={}", file.display()))
            .output();
        written.unwrap().status.success()
    };
    assert!(write(MIB / 2));
    assert!(!file.exists(), "outside nothing is seen");
    assert!(!write(2 * MIB));
    assert_eq!(disk.free().unwrap(), 0);
    disk.resize(4 * MIB).unwrap();
    assert!(write(2 * MIB));
    assert!(disk.free().unwrap() >= MIB);
}

#[tokio::test]
async fn a_broker_on_a_small_disk_refuses_when_it_is_full_and_takes_more_when_there_is_room() {
    let Some(disk) = small_disk(4 * MIB) else { return };
    let mut broker = Broker::start_on(disk, "").unwrap();
    let context = stream(&broker).await;
    let stored = fill(&context).await;
    assert!((1..1_000).contains(&stored), "{stored} stored");
    broker.disk().unwrap().resize(64 * MIB).unwrap();
    broker.restart().unwrap();
    let context = stream(&broker).await;
    publish(&context, 64 << 10).await.unwrap();
    let messages = context.get_stream("S").await.unwrap().cached_info().state.messages;
    assert!(
        messages > stored,
        "{messages} of {stored} and one more: the store outlives its server"
    );
}
