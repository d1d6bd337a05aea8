//! Several nats-servers that share their streams.
//!
//! What a server thinks of its streams is asked over its monitoring port, so that asking disturbs no connection under test.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use async_nats::jetstream::{self, stream};
use serde_json::Value;

use crate::{Broker, port};

/// Three servers on a busy machine elect their leaders within some seconds.
const DEADLINE: Duration = Duration::from_secs(90);
/// A request to a cluster that has just started may never be answered; it is then made anew.
const ATTEMPT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(50);

/// Servers with JetStream that form one cluster, each with a port and a store of its own; killed when dropped.
///
/// Methods block for as long as the servers take, which is some seconds.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
}

#[derive(Debug)]
struct Node {
    broker: Broker,
    monitor: u16,
}

impl Cluster {
    /// Starts three servers and waits until streams of three copies can be made and written.
    ///
    /// # Errors
    /// When no nats-server is found, or the cluster cannot be used within 90 seconds.
    pub fn start() -> Result<Self> {
        Self::start_with(3, "")
    }

    /// Starts `nodes` servers with `settings`, in the syntax of the server's configuration file, added to ours.
    ///
    /// # Errors
    /// As [`start`](Self::start); a setting the server refuses is shown in the error.
    pub fn start_with(nodes: usize, settings: &str) -> Result<Self> {
        let free = || Ok(port::listen()?.local_addr()?.port());
        let routes = (0..nodes).map(|_| free()).collect::<Result<Vec<u16>>>()?;
        let mut cluster = Self { nodes: Vec::new() };
        for (index, route) in routes.iter().enumerate() {
            let monitor = free()?;
            let others = routes.iter().map(|port| format!("nats://127.0.0.1:{port}"));
            let others = others.collect::<Vec<_>>().join(", ");
            let text = format!(
                "server_name: {}\nhttp: \"127.0.0.1:{monitor}\"\n\
                 cluster {{ name: test, listen: \"127.0.0.1:{route}\", routes: [{others}] }}\n{settings}",
                name(index)
            );
            let broker = Broker::prepare(None, &text)?;
            cluster.nodes.push(Node { broker, monitor });
        }
        for node in &mut cluster.nodes {
            node.broker.launch()?;
        }
        for node in &mut cluster.nodes {
            node.broker.wait_until_ready()?;
        }
        cluster.wait_until_usable(Instant::now() + DEADLINE)?;
        Ok(cluster)
    }

    /// The addresses clients connect to, separated by commas.
    #[must_use]
    pub fn url(&self) -> String {
        let urls = self.nodes.iter().map(|node| node.broker.url());
        urls.collect::<Vec<_>>().join(",")
    }

    /// The address of one server.
    #[must_use]
    pub fn url_of(&self, node: usize) -> String {
        self.nodes[node].broker.url()
    }

    /// How many servers there are, up or down.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The process ids of the servers that run.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.nodes.iter().filter_map(|node| node.broker.pid()).collect()
    }

    /// What one server has logged since it was first started.
    #[must_use]
    pub fn log(&self, node: usize) -> String {
        self.nodes[node].broker.log()
    }

    /// Kills one server (SIGKILL).
    ///
    /// # Errors
    /// When the operating system refuses.
    pub fn kill(&mut self, node: usize) -> Result<()> {
        self.nodes[node].broker.kill()
    }

    /// Stops one server in good order (SIGTERM).
    ///
    /// # Errors
    /// When it has not ended within 10 seconds.
    pub fn stop(&mut self, node: usize) -> Result<()> {
        self.nodes[node].broker.stop()
    }

    /// Starts one server again on its ports and store; it may lag behind the others for some time.
    ///
    /// # Errors
    /// When it does not answer within 20 seconds.
    pub fn restart(&mut self, node: usize) -> Result<()> {
        self.nodes[node].broker.restart()
    }

    /// Stops and starts one server after the other, each time waiting until all copies are in sync.
    ///
    /// # Errors
    /// When a server does not stop or start, or copies are not in sync within 90 seconds.
    pub fn roll(&mut self) -> Result<()> {
        for node in 0..self.nodes.len() {
            self.stop(node)?;
            self.restart(node)?;
            self.wait_until_in_sync()?;
        }
        Ok(())
    }

    /// The server that leads a stream.
    ///
    /// # Errors
    /// When no server knows of one within 90 seconds.
    pub fn leader_of(&self, stream: &str) -> Result<usize> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let known = self.nodes.iter().filter_map(|node| leader(node.monitor, stream)).next();
            if let Some(node) = known.and_then(|known| (0..self.nodes.len()).find(|index| name(*index) == known)) {
                return Ok(node);
            }
            ensure!(
                Instant::now() < deadline,
                "stream {stream} has no leader after {DEADLINE:?}"
            );
            thread::sleep(POLL);
        }
    }

    /// Waits until every server says that its copies of all streams and consumers are those of their leaders.
    ///
    /// # Errors
    /// When that takes longer than 90 seconds; what the servers say is in the error.
    pub fn wait_until_in_sync(&self) -> Result<()> {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let said = self.nodes.iter().map(|node| get(node.monitor, "/healthz"));
            let said: Vec<Result<Value>> = said.collect();
            let is_well = |answer: &Result<Value>| answer.as_ref().is_ok_and(|answer| answer["status"] == "ok");
            if said.iter().all(is_well) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "not in sync after {DEADLINE:?}: {said:?}");
            thread::sleep(POLL);
        }
    }

    fn wait_until_usable(&self, deadline: Instant) -> Result<()> {
        self.wait_until_in_sync()?;
        for attempt in 0_u32.. {
            match self.probe(attempt) {
                Ok(()) => break,
                Err(error) if Instant::now() > deadline => {
                    return Err(error.context("the cluster makes no streams"));
                }
                Err(_) => thread::sleep(POLL),
            }
        }
        self.wait_until_in_sync()
    }

    /// Makes, writes and deletes a stream with a copy on each server. On a thread of its own: the caller may be inside a runtime.
    fn probe(&self, attempt: u32) -> Result<()> {
        let (url, copies) = (self.url(), self.nodes.len());
        let body = move || -> Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async { tokio::time::timeout(ATTEMPT, probe(&url, copies, attempt)).await? })
        };
        thread::scope(|scope| match scope.spawn(body).join() {
            Ok(probed) => probed,
            Err(_) => bail!("the probe died"),
        })
    }
}

fn name(index: usize) -> String {
    format!("node-{index}")
}

async fn probe(url: &str, copies: usize, attempt: u32) -> Result<()> {
    let addresses: Vec<&str> = url.split(',').collect();
    let context = jetstream::new(async_nats::connect(addresses).await?);
    // A name of its own each time: an earlier one may still come into being.
    let name = format!("PROBE_{attempt}");
    let config = stream::Config {
        name: name.clone(),
        num_replicas: copies,
        ..Default::default()
    };
    context.create_stream(config).await?;
    context.publish(name.clone(), "probe".into()).await?.await?;
    for attempt in 0..=attempt {
        // Those of attempts that were not answered, too.
        let deleted = context.delete_stream(format!("PROBE_{attempt}")).await;
        ensure!(
            deleted.is_ok() || format!("PROBE_{attempt}") != name,
            "{name} is not deleted"
        );
    }
    Ok(())
}

fn leader(monitor: u16, stream: &str) -> Option<String> {
    let said = get(monitor, "/jsz?streams=true").ok()?;
    let accounts = said["account_details"].as_array()?;
    let streams = accounts
        .iter()
        .filter_map(|account| account["stream_detail"].as_array())
        .flatten();
    let found = streams.into_iter().find(|found| found["name"] == stream)?;
    found["cluster"]["leader"].as_str().map(str::to_owned)
}

/// What the monitoring port of a server answers.
fn get(monitor: u16, path: &str) -> Result<Value> {
    let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, monitor))?;
    connection.set_read_timeout(Some(ATTEMPT))?;
    write!(connection, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("an answer without a body")?;
    serde_json::from_str(body).with_context(|| format!("not JSON: {body}"))
}
