//! The broker as a test uses it: killed, stopped, restarted, with its store kept.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use async_nats::jetstream;
use tidemill_testkit::Broker;

async fn context(broker: &Broker) -> jetstream::Context {
    let client = async_nats::connect(broker.url()).await.unwrap();
    jetstream::new(client)
}

/// Publishes one message to a new stream and waits until the server has it.
async fn store_one(broker: &Broker) {
    let context = context(broker).await;
    let stream = jetstream::stream::Config {
        name: "KEPT".to_owned(),
        subjects: vec!["kept.>".to_owned()],
        ..Default::default()
    };
    context.create_stream(stream).await.unwrap();
    context
        .publish("kept.one", "still here".into())
        .await
        .unwrap()
        .await
        .unwrap();
}

async fn stored(broker: &Broker) -> Vec<u8> {
    let stream = context(broker).await.get_stream("KEPT").await.unwrap();
    stream
        .get_last_raw_message_by_subject("kept.one")
        .await
        .unwrap()
        .payload
        .to_vec()
}

#[tokio::test]
async fn killed_broker_comes_back_on_its_port_with_its_messages() {
    let mut broker = Broker::start().unwrap();
    let url = broker.url();
    store_one(&broker).await;
    broker.kill().unwrap();
    assert!(broker.pid().is_none());
    assert!(
        async_nats::ConnectOptions::new()
            .connection_timeout(Duration::from_secs(1))
            .connect(&url)
            .await
            .is_err()
    );
    broker.restart().unwrap();
    assert_eq!(broker.url(), url);
    assert_eq!(stored(&broker).await, b"still here");
}

#[tokio::test]
async fn stopped_broker_comes_back_with_its_messages() {
    let mut broker = Broker::start().unwrap();
    store_one(&broker).await;
    broker.stop().unwrap();
    broker.restart().unwrap();
    assert_eq!(stored(&broker).await, b"still here");
}

#[tokio::test]
async fn brokers_share_nothing() {
    let (first, second) = (Broker::start().unwrap(), Broker::start().unwrap());
    assert_ne!(first.port(), second.port());
    store_one(&first).await;
    assert!(context(&second).await.get_stream("KEPT").await.is_err());
}

#[tokio::test]
async fn settings_reach_the_server() {
    let broker = Broker::start_with("max_payload: 1KB").unwrap();
    let client = async_nats::connect(broker.url()).await.unwrap();
    assert_eq!(client.server_info().max_payload, 1024);
}

#[test]
fn refused_setting_is_shown() {
    let error = Broker::start_with("no_such_setting: 1").unwrap_err().to_string();
    assert!(error.contains("no_such_setting"), "{error}");
}

#[test]
fn dropped_broker_leaves_no_process() {
    let broker = Broker::start().unwrap();
    let process = format!("/proc/{}", broker.pid().unwrap());
    assert!(std::path::Path::new(&process).exists());
    drop(broker);
    assert!(!std::path::Path::new(&process).exists());
}
