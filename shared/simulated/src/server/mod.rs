//! HTTP around the model: OpenAI's endpoints, and `/simulate/...` for whoever runs the simulation.
//!
//! `GET /simulate/report` says what was seen; `POST /simulate/reset` forgets it. `GET`, `POST` and `DELETE /simulate/faults`
//! show, set and end faults: `{"faults": [{"kind": "overloaded", "retry_after": "7s", "times": 200}]}`. They are for the whole
//! process, at any replica's port.
//!
//! All of it runs on one thread with a runtime of its own, so that it answers while a test blocks, and takes little from what
//! is measured beside it.

mod ask;
mod ledger;
mod metrics;
mod replica;
mod respond;
mod scripted;
mod shape;
mod stream;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub use ledger::Report;

use crate::config::Config;
use crate::faults::{Fault, FaultKind};
use ledger::{Ledger, Snapshot};
use replica::Replica;

/// Between attempts to take the port of a replica that comes back.
const BIND_AGAIN: Duration = Duration::from_millis(10);
/// Ports drawn for a replica that may listen anywhere: below those that the kernel gives to outgoing connections, one of which
/// could else take the port of a replica that is down.
const PORTS: std::ops::Range<u16> = 10_000..32_000;
const DRAWS: u64 = 64;

/// Why an engine does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A value of the configuration makes no sense.
    #[error("{0}")]
    Config(String),
    /// A port cannot be taken.
    #[error("listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// There is no thread or runtime.
    #[error("start the engine's thread: {0}")]
    Thread(std::io::Error),
}

/// A running engine; all its replicas end when it is dropped.
#[derive(Debug)]
pub struct SimulatedEngine {
    replicas: Vec<Arc<Replica>>,
    addresses: Vec<SocketAddr>,
    config: Arc<Config>,
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl SimulatedEngine {
    /// Starts all replicas. Their ports are taken when this returns, unless `ready_after` says later.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(config: Config) -> Result<Self, StartError> {
        if let Some(complaint) = config.complaint() {
            return Err(StartError::Config(complaint.to_string()));
        }
        let config = Arc::new(config);
        let ledger = Arc::new(Mutex::new(Ledger::new()));
        let replica = |index| Arc::new(Replica::new(index, Arc::clone(&config), Arc::clone(&ledger)));
        let replicas: Vec<Arc<Replica>> = (0..config.replicas).map(replica).collect();
        let mut listeners = Vec::new();
        for index in 0..config.replicas {
            listeners.push(bind(&config, index)?);
        }
        let addresses: Vec<SocketAddr> = listeners.iter().map(|(address, _)| *address).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(StartError::Thread)?;
        let (end, ending) = watch::channel(false);
        let serving = serve_all(replicas.clone(), listeners, ending);
        let spawned = thread::Builder::new()
            .name("simulated-engine".to_owned())
            .spawn(move || runtime.block_on(serving));
        Ok(Self {
            replicas,
            addresses,
            config,
            end,
            thread: Some(spawned.map_err(StartError::Thread)?),
        })
    }

    /// The addresses of all replicas, without a path: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.addresses
            .iter()
            .map(|address| format!("http://{address}"))
            .collect()
    }

    /// The address of the first replica.
    #[must_use]
    pub fn url(&self) -> String {
        self.urls().swap_remove(0)
    }

    /// The name of the model served.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.config.model
    }

    /// What all replicas saw.
    #[must_use]
    pub fn report(&self) -> Report {
        Snapshot::take(&self.replicas, &self.config).report(&self.config)
    }

    /// How often each prompt was asked for, by [`crate::answers::prompt_hash`].
    #[must_use]
    pub fn requests_by_prompt(&self) -> HashMap<u64, u64> {
        self.replicas
            .first()
            .map(|first| first.ledger().requests_by_prompt())
            .unwrap_or_default()
    }

    /// Sets what goes wrong from now on, in place of what was set before.
    pub fn set_faults(&self, faults: &[Fault]) {
        for replica in &self.replicas {
            replica.set_faults(faults);
        }
    }

    /// Takes a replica away, losing what it computes, or brings it back on its port. Without effect where there is none.
    pub fn set_down(&self, replica: usize, down: bool) {
        match self.replicas.get(replica) {
            Some(replica) if down => replica.die(),
            Some(replica) => replica.rise(),
            None => {}
        }
    }
}

impl Drop for SimulatedEngine {
    fn drop(&mut self) {
        self.end.send_replace(true);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap_or_default();
        }
    }
}

type Listener = (SocketAddr, std::net::TcpListener);

fn bind(config: &Config, index: u16) -> Result<Listener, StartError> {
    if config.port > 0 {
        let address = SocketAddr::new(config.host, config.port + index);
        return listen(address).map_err(|source| StartError::Listen { address, source });
    }
    let mut last = None;
    for draw in 0..DRAWS {
        let random = crate::hash::mix(u64::from(std::process::id()) << 32 | u64::from(index), seed() ^ draw);
        let port = PORTS.start + (random % u64::from(PORTS.end - PORTS.start)) as u16;
        let address = SocketAddr::new(config.host, port);
        match listen(address) {
            Ok(listener) => return Ok(listener),
            Err(source) => last = Some(StartError::Listen { address, source }),
        }
    }
    Err(last.unwrap_or_else(|| StartError::Config("no port".to_owned())))
}

/// Another number at each call, from the operating system.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

fn listen(address: SocketAddr) -> std::io::Result<Listener> {
    let listener = std::net::TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    Ok((address, listener))
}

async fn serve_all(replicas: Vec<Arc<Replica>>, listeners: Vec<Listener>, mut ending: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    let all: Arc<[Arc<Replica>]> = replicas.into();
    for (replica, (address, listener)) in all.iter().zip(listeners) {
        tasks.spawn(listen_while_up(
            Arc::clone(&all),
            Arc::clone(replica),
            address,
            listener,
        ));
        let driven = Arc::clone(replica);
        tasks.spawn(async move { driven.drive().await });
        tasks.spawn(run_timed_faults(Arc::clone(replica)));
    }
    // An error means that the handle is gone, which ends it as well.
    ending.wait_for(|end| *end).await.map(|_| ()).unwrap_or_default();
    tasks.shutdown().await;
}

/// Serves one replica's port; while it is down nobody listens there and its connections are gone.
async fn listen_while_up(
    all: Arc<[Arc<Replica>]>,
    replica: Arc<Replica>,
    address: SocketAddr,
    listener: std::net::TcpListener,
) {
    let mut up = replica.is_up.subscribe();
    let delay = replica.config.ready_after;
    let mut listener = if delay.is_zero() {
        TcpListener::from_std(listener).ok()
    } else {
        drop(listener);
        tokio::time::sleep(delay).await;
        None
    };
    loop {
        if up.wait_for(|up| *up).await.is_err() {
            return;
        }
        let Some(listening) = listener.take() else {
            match TcpListener::bind(address).await {
                Ok(bound) => listener = Some(bound),
                Err(_) => tokio::time::sleep(BIND_AGAIN).await,
            }
            continue;
        };
        let mut connections = JoinSet::new();
        loop {
            tokio::select! { biased;
                _ = up.wait_for(|up| !*up) => break,
                Some(_) = connections.join_next() => {}
                Ok((stream, _)) = listening.accept() => {
                    connections.spawn(converse(stream, Arc::clone(&all), Arc::clone(&replica)));
                }
            }
        }
        drop(listening);
        connections.shutdown().await;
    }
}

async fn converse(stream: TcpStream, all: Arc<[Arc<Replica>]>, replica: Arc<Replica>) {
    // Answers are small and awaited one by one: waiting to fill a packet would cost 40 ms each.
    stream.set_nodelay(true).unwrap_or_default();
    let service = service_fn(|request| respond::respond(&all, &replica, request));
    // An error is a client that left, or an end in the middle that a fault wanted.
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
        .unwrap_or_default();
}

/// Lets those faults begin and end that no request sets off.
async fn run_timed_faults(replica: Arc<Replica>) {
    let mut set = replica.faults_set.subscribe();
    loop {
        set.mark_unchanged();
        let mut tasks = JoinSet::new();
        for (fault, left) in replica.timed_faults() {
            let replica = Arc::clone(&replica);
            tasks.spawn(async move {
                tokio::time::sleep(left).await;
                set_off(&replica, &fault).await;
            });
        }
        if set.changed().await.is_err() {
            return;
        }
    }
}

/// Does to the replica what a fault says, and undoes it when its time is over.
async fn set_off(replica: &Arc<Replica>, fault: &Fault) {
    match fault.kind {
        FaultKind::StallEngine => replica.stall(fault.lasts),
        FaultKind::Die => {
            replica.die();
            if let Some(lasts) = fault.lasts {
                tokio::time::sleep(lasts).await;
                replica.rise();
            }
        }
        _ => {}
    }
}
