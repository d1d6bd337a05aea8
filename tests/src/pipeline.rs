//! The services as processes of their own, with a broker and an engine, to be disturbed while they evaluate.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use async_nats::jetstream;
use serde_json::Value;
use tidemill_testkit::engine::Request;
use tidemill_testkit::{Broker, FakeEngine, Proxy, Reply, Service, SmallDisk};

use crate::{Workbench, tidemill};

/// The services of a pipeline.
pub const ROLES: [&str; 4] = ["loader", "generator", "grader", "aggregator"];

/// Longest wait for anything, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(150);
const POLL: Duration = Duration::from_millis(20);

/// A server promises its streams no more than its disk has, unless it is told that it has more.
const STORE_BEYOND_DISK: &str = "jetstream { max_file_store: 32GB }";

/// How a pipeline is set up.
#[derive(Debug, Default)]
pub struct Setup {
    /// Items of the suite.
    pub items: usize,
    /// Requests in flight at the engine.
    pub in_flight: u64,
    /// How long the engine takes for an answer.
    pub latency: Duration,
    /// The services that reach the broker through a proxy.
    pub through_proxy: Vec<&'static str>,
    /// The disk that holds the broker's store.
    pub broker_disk: Option<SmallDisk>,
    /// The disk that services run inside of, with the object store on it.
    pub service_disk: Option<SmallDisk>,
    /// Further environment of the services.
    pub environment: Vec<(String, String)>,
    /// Answers to chats come with so many bytes of reasoning.
    pub reasoning_bytes: usize,
}

/// A broker, an engine and one process of each service.
pub struct Pipeline {
    /// The services, by role; before the broker, so that they end before it.
    pub services: BTreeMap<&'static str, Service>,
    /// The proxies between services and the broker, by role.
    pub proxies: BTreeMap<&'static str, Proxy>,
    /// The broker.
    pub broker: Broker,
    /// The suite and the data directory.
    pub bench: Workbench,
    /// The engine.
    pub engine: FakeEngine,
    /// The disk that services run inside of.
    pub disk: Option<SmallDisk>,
    setup: Setup,
}

impl Pipeline {
    /// Starts everything.
    ///
    /// # Errors
    /// When a part does not start.
    pub fn start(mut setup: Setup) -> Result<Self> {
        let broker = match setup.broker_disk.take() {
            Some(disk) => Broker::start_on(disk, STORE_BEYOND_DISK)?,
            None => Broker::start()?,
        };
        let (latency, reasoning) = (setup.latency, "r".repeat(setup.reasoning_bytes));
        let answer = move |request: &Request| -> Reply {
            let reply = Workbench::answer(request).after(latency);
            // Chats end with a question mark.
            if reasoning.is_empty() || !request.prompt.contains('?') {
                return reply;
            }
            reply.reasoning(reasoning.clone())
        };
        let disk = setup.service_disk.take();
        let mut pipeline = Self {
            services: BTreeMap::new(),
            proxies: BTreeMap::new(),
            bench: Workbench::new(setup.items)?,
            engine: FakeEngine::builder().respond(answer).start()?,
            broker,
            disk,
            setup,
        };
        let applied = tidemill(&["streams", "apply", "--nats", &pipeline.broker.url()])?;
        ensure!(applied.code == Some(0), "{}", applied.log);
        for role in pipeline.setup.through_proxy.clone() {
            pipeline.proxies.insert(role, Proxy::start(pipeline.broker.port())?);
        }
        for role in ROLES {
            pipeline.spawn(role)?;
        }
        Ok(pipeline)
    }

    /// Starts the process of a role, in place of the one that may run.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn spawn(&mut self, role: &'static str) -> Result<()> {
        self.services.remove(role);
        let service = self.launch(role)?;
        self.services.insert(role, service);
        Ok(())
    }

    /// Starts a further process of a role, which lives as long as the caller keeps it.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn launch(&self, role: &str) -> Result<Service> {
        let launch = match &self.disk {
            Some(disk) => Service::tidemill_inside(disk)?,
            None => Service::tidemill()?,
        };
        let port = self.proxies.get(role).map_or(self.broker.port(), Proxy::port);
        let mut launch = launch
            .args([
                role,
                "--nats",
                &format!("nats://127.0.0.1:{port}"),
                "--store",
                &self.store(),
            ])
            .env("TIDEMILL_LOADER__MAX_IN_FLIGHT", self.setup.in_flight.to_string());
        for (name, value) in &self.setup.environment {
            launch = launch.env(name, value);
        }
        let service = launch.spawn()?;
        service.wait_for_line("ready", PATIENCE)?;
        Ok(service)
    }

    /// The address of the object store.
    #[must_use]
    pub fn store(&self) -> String {
        let folder = self
            .disk
            .as_ref()
            .map_or(self.bench.path("data"), |disk| disk.path().to_owned());
        format!("file://{}/objects", folder.display())
    }

    /// Announces the engine for the suite.
    ///
    /// # Errors
    /// When the announcement is refused.
    pub fn announce(&self) -> Result<()> {
        let suite = self.bench.text("suite.toml");
        self.announce_step(1, &[&suite])
    }

    /// Announces the engine, as what serves a step, for these suite files.
    ///
    /// # Errors
    /// When the announcement is refused.
    pub fn announce_step(&self, step: u64, suites: &[&str]) -> Result<()> {
        let (nats, url, step) = (self.broker.url(), self.engine.url(), step.to_string());
        let (data, store) = (self.bench.text("reader"), self.store());
        let mut arguments = vec!["announce", "--run", "r", "--step", &step, "--nats", &nats];
        arguments.extend(["--data-dir", &data, "--store", &store]);
        arguments.extend(suites.iter().flat_map(|suite| ["--suite", suite]));
        arguments.extend(["--endpoint", &url, "--model", self.engine.model()]);
        let ran = tidemill(&arguments)?;
        ensure!(ran.code == Some(0), "{}", ran.log);
        Ok(())
    }

    /// A service.
    ///
    /// # Errors
    /// When no process of the role runs.
    pub fn service(&mut self, role: &str) -> Result<&mut Service> {
        self.services.get_mut(role).with_context(|| format!("no {role} runs"))
    }

    /// Waits until the engine was asked so often.
    ///
    /// # Errors
    /// When it was not within the patience, with the services' logs.
    pub fn wait_for_requests(&self, count: u64) -> Result<()> {
        self.wait_until(|| Ok(self.engine.stats().requests >= count))
    }

    /// Waits until something is reached.
    ///
    /// # Errors
    /// When it was not within the patience, with the services' logs.
    pub fn wait_until(&self, mut reached: impl FnMut() -> Result<bool>) -> Result<()> {
        let begun = Instant::now();
        while !reached()? {
            if begun.elapsed() > PATIENCE {
                let logs: BTreeMap<_, _> = self
                    .services
                    .iter()
                    .map(|(role, service)| (role, service.log()))
                    .collect();
                bail!("no progress: {logs:#?}");
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// All results so far.
    ///
    /// # Errors
    /// When the command fails.
    pub fn results(&self) -> Result<Vec<Value>> {
        let data = self.bench.text("reader");
        let ran = tidemill(&[
            "results",
            "--json",
            "--nats",
            &self.broker.url(),
            "--data-dir",
            &data,
            "--store",
            &self.store(),
        ])?;
        ensure!(ran.code == Some(0), "{}", ran.log);
        Ok(serde_json::from_value(ran.json()?)?)
    }

    /// Waits for the end of the one evaluation.
    ///
    /// # Errors
    /// When there are several, or it does not end.
    pub fn final_result(&self) -> Result<Value> {
        let mut ended = None;
        self.wait_until(|| {
            std::thread::sleep(10 * POLL);
            let results = self.results()?;
            ensure!(results.len() <= 1, "one announcement is one evaluation: {results:?}");
            ended = results.into_iter().find(|result| result["state"] != "serving");
            Ok(ended.is_some())
        })?;
        ended.context("no result")
    }

    /// What the doctor finds, by check.
    ///
    /// # Errors
    /// When it does not answer in its form.
    pub fn doctor(&self) -> Result<BTreeMap<String, Value>> {
        let data = self.bench.text("reader");
        let ran = tidemill(&[
            "doctor",
            "--json",
            "--nats",
            &self.broker.url(),
            "--data-dir",
            &data,
            "--store",
            &self.store(),
        ])?;
        let findings: Vec<Value> = serde_json::from_value(ran.json()?)?;
        let named = findings.into_iter().map(|finding| {
            let check = finding["check"].as_str().unwrap_or_default().to_owned();
            (check, finding)
        });
        Ok(named.collect())
    }

    /// Waits until the doctor says that a process waits on `obstacle`.
    ///
    /// # Errors
    /// When it does not say so within the patience.
    pub fn wait_until_doctor_names(&self, obstacle: &str) -> Result<()> {
        let wanted = format!("waits on {obstacle} ");
        self.wait_until(|| {
            let found = self.doctor()?;
            let processes = found.get("processes").cloned().unwrap_or_default();
            Ok(processes["ok"] == false
                && processes["detail"]
                    .as_str()
                    .is_some_and(|detail| detail.contains(&wanted)))
        })
    }

    /// Waits until no process waits for room any more.
    ///
    /// # Errors
    /// When one still does after the patience.
    pub fn wait_until_nobody_waits(&self) -> Result<()> {
        self.wait_until(|| Ok(self.doctor()?.get("processes").is_some_and(|found| found["ok"] == true)))
    }

    /// Messages of a stream.
    ///
    /// # Errors
    /// When the broker does not answer.
    pub fn messages(&self, stream: &str) -> Result<u64> {
        with_stream(&self.broker, stream, async |stream, _| {
            Ok(stream.cached_info().state.messages)
        })
    }

    /// Gives a stream another limit, in bytes.
    ///
    /// # Errors
    /// When the broker refuses.
    pub fn limit_stream(&self, name: &str, max_bytes: i64) -> Result<()> {
        limit_stream(&self.broker, name, max_bytes)
    }
}

/// Gives a stream of a broker another limit, in bytes.
///
/// # Errors
/// When the broker refuses.
pub fn limit_stream(broker: &Broker, name: &str, max_bytes: i64) -> Result<()> {
    with_stream(broker, name, async |stream, context| {
        let config = jetstream::stream::Config {
            max_bytes,
            ..stream.cached_info().config.clone()
        };
        context.update_stream(config).await?;
        Ok(())
    })
}

fn with_stream<T>(
    broker: &Broker,
    name: &str,
    task: impl AsyncFnOnce(&jetstream::stream::Stream, &jetstream::Context) -> Result<T>,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let context = jetstream::new(async_nats::connect(broker.url()).await?);
        let stream = context.get_stream(name).await?;
        task(&stream, &context).await
    })
}
