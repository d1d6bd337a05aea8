//! A server in this process and a client for it.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tidemill_engine::{Error, Options, serve};
use tokio::{sync::oneshot, task::JoinHandle};
use tokio_util::sync::CancellationToken;

/// The directory of the sample checkpoints.
pub(crate) fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// Prompts with known results, as found by the reference implementation.
pub(crate) fn expected() -> Vec<Value> {
    let text = std::fs::read_to_string(data().join("expected.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    value["cases"].as_array().unwrap().clone()
}

/// Scores of the same prompts under the rounded weights of `hf-bf16-single`.
pub(crate) fn expected_of_sixteen_bits() -> Vec<Value> {
    let text = std::fs::read_to_string(data().join("expected-bf16.json")).unwrap();
    let value: Value = serde_json::from_str(&text).unwrap();
    value["prompt_logprobs"].as_array().unwrap().clone()
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) client: reqwest::Client,
    pub(crate) shutdown: CancellationToken,
    task: JoinHandle<Result<(), Error>>,
}

impl Server {
    /// Serves a sample checkpoint with default options.
    pub(crate) async fn start(sample: &str) -> Self {
        Self::start_with(Options::new(data().join(sample))).await
    }

    pub(crate) async fn start_with(options: Options) -> Self {
        let shutdown = CancellationToken::new();
        let (ready, address) = oneshot::channel();
        let served = serve(options, shutdown.clone(), move |address| ready.send(address).unwrap());
        let task = tokio::spawn(served);
        let address = address.await.expect("the server starts");
        Self {
            address,
            client: client(),
            shutdown,
            task,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> (u16, Value) {
        let response = self.client.post(self.url(path)).json(body).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// A completion that succeeds.
    pub(crate) async fn complete(&self, body: &Value) -> Value {
        let (status, answer) = self.post("/v1/completions", body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// The chunks of a streamed answer, which must end with `[DONE]`.
    pub(crate) async fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let response = self.client.post(self.url(path)).json(body).send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let text = response.text().await.unwrap();
        let mut lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(lines.pop(), Some("[DONE]"));
        lines
            .into_iter()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    pub(crate) async fn metrics(&self) -> String {
        self.client
            .get(self.url("/metrics"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap()
    }

    /// The value of a metric whose labels contain `label`.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> f64 {
        let text = self.metrics().await;
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("vllm:{name}{{")) && line.contains(label));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .rsplit(' ')
            .next()
            .unwrap()
            .parse()
            .unwrap()
    }

    /// Waits until a metric has a value.
    pub(crate) async fn wait_for(&self, name: &str, label: &str, holds: impl Fn(f64) -> bool) {
        assert!(
            self.comes_to(name, label, holds, Duration::from_secs(20)).await,
            "{name} got no such value in time"
        );
    }

    async fn comes_to(&self, name: &str, label: &str, holds: impl Fn(f64) -> bool, within: Duration) -> bool {
        let started = std::time::Instant::now();
        while started.elapsed() < within {
            if holds(self.metric(name, label).await) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        false
    }

    /// Keeps `samples` sequences in the engine, `waiting` of them without a slot, while the answer is held.
    ///
    /// On a busy machine they may have run to their end before the metric was looked at; then others are sent.
    pub(crate) async fn keep_busy(&self, samples: usize, waiting: usize) -> reqwest::Response {
        for _ in 0..10 {
            let stream = self.open_stream(&Self::long(samples)).await;
            let (name, value) = if waiting == 0 {
                ("num_requests_running", samples)
            } else {
                ("num_requests_waiting", waiting)
            };
            if self
                .comes_to(name, "", |found| found == value as f64, Duration::from_millis(500))
                .await
            {
                return stream;
            }
        }
        panic!("the engine was never seen busy");
    }

    /// A request that keeps `samples` slots busy for as long as the context lasts.
    pub(crate) fn long(samples: usize) -> Value {
        json!({"prompt": "The License", "max_tokens": 508, "n": samples, "ignore_eos": true, "stream": true})
    }

    /// Starts a streamed request and leaves it unread.
    pub(crate) async fn open_stream(&self, body: &Value) -> reqwest::Response {
        let response = self
            .client
            .post(self.url("/v1/completions"))
            .json(body)
            .send()
            .await
            .unwrap();
        assert_eq!(response.status(), 200);
        response
    }

    /// Shuts down and waits for the end.
    pub(crate) async fn stop(self) {
        self.shutdown.cancel();
        self.ended().await.unwrap();
    }

    pub(crate) async fn ended(self) -> Result<(), Error> {
        drop(self.client);
        tokio::time::timeout(Duration::from_secs(20), self.task)
            .await
            .expect("the server ends in time")
            .unwrap()
    }
}

fn client() -> reqwest::Client {
    // Another test of this process may have been first.
    rustls::crypto::ring::default_provider()
        .install_default()
        .unwrap_or_default();
    reqwest::Client::builder()
        .timeout(Duration::from_secs(20))
        .no_proxy()
        .build()
        .unwrap()
}

/// The numbers of a JSON list, null as NaN.
pub(crate) fn numbers(value: &Value) -> Vec<f64> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|number| number.as_f64().unwrap_or(f64::NAN))
        .collect()
}

/// Asserts that two lists agree within `tolerance`, NaN with NaN.
pub(crate) fn assert_close(left: &[f64], right: &[f64], tolerance: f64) {
    assert_eq!(left.len(), right.len());
    for (x, y) in left.iter().zip(right) {
        assert!(
            (x - y).abs() <= tolerance || (x.is_nan() && y.is_nan()),
            "{left:?} and {right:?} differ"
        );
    }
}
