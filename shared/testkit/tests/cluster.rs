//! The cluster as a test uses it: servers killed and brought back, and all of them restarted in turn.
use std::time::{Duration, Instant};

use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::{self, stream};
use tidemill_testkit::Cluster;

const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stored_outlives_each_server() {
    let mut cluster = Cluster::start().unwrap();
    assert_eq!((cluster.nodes(), cluster.pids().len()), (3, 3));
    let urls: Vec<String> = cluster.url().split(',').map(str::to_owned).collect();
    assert_eq!(urls, (0..3).map(|node| cluster.url_of(node)).collect::<Vec<_>>());
    let context = jetstream::new(async_nats::connect(urls).await.unwrap());
    let config = stream::Config {
        name: "KEPT".to_owned(),
        num_replicas: 3,
        ..Default::default()
    };
    context.create_stream(config).await.unwrap();
    context.publish("KEPT", "one".into()).await.unwrap().await.unwrap();

    let first = cluster.leader_of("KEPT").unwrap();
    cluster.kill(first).unwrap();
    assert_eq!(cluster.pids().len(), 2);
    loop {
        // Until the rest has elected another, it is told of the one that is gone.
        let leader = cluster.leader_of("KEPT").unwrap();
        if leader != first {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    cluster.restart(first).unwrap();
    cluster.wait_until_in_sync().unwrap();
    cluster.roll().unwrap();
    // The client may still be on its way to a server that is back, and the stream to a leader.
    let begun = Instant::now();
    let message = loop {
        match last(&context).await {
            Ok(message) => break message,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_eq!((message.sequence, &message.payload[..]), (1, &b"one"[..]));
}

async fn last(context: &jetstream::Context) -> Result<StreamMessage, async_nats::Error> {
    let stream = context.get_stream("KEPT").await?;
    assert_eq!(stream.cached_info().state.messages, 1);
    Ok(stream.get_raw_message(1).await?)
}
