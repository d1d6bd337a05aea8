//! A network that fails: a TCP proxy between a service and what it talks to.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::port;

/// How long the proxy's port may stay taken after a cut.
const REBIND_DEADLINE: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(5);
/// A slow network passes pieces of this size.
const PIECE_BYTES: usize = 16 << 10;

/// What the network does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Whole,
    Cut,
    Silent,
    Slow(Duration),
    Ended,
}

/// What connections see: the mode, and how many silences there have been.
#[derive(Debug, Clone, Copy)]
struct Network {
    mode: Mode,
    silences: u64,
}

/// A TCP proxy on a loopback port that can be cut, made silent, slowed and healed.
///
/// It runs in a thread of its own and ends when dropped. The port stays the same throughout.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    network: watch::Sender<Network>,
    is_listening: watch::Receiver<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy to a loopback port.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start(target: u16) -> Result<Self> {
        let listener = port::listen()?;
        listener
            .set_nonblocking(true)
            .context("failed to prepare the listener")?;
        let port = listener.local_addr()?.port();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to make a runtime")?;
        let (network, seen) = watch::channel(Network {
            mode: Mode::Whole,
            silences: 0,
        });
        let (listening, is_listening) = watch::channel(true);
        let thread = thread::spawn(move || runtime.block_on(serve(listener, port, target, seen, listening)));
        Ok(Self {
            port,
            network,
            is_listening,
            thread: Some(thread),
        })
    }

    /// The loopback port that stands for the target.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Drops every connection and refuses new ones, until healed.
    ///
    /// # Errors
    /// When the proxy has ended.
    pub fn cut(&self) -> Result<()> {
        self.set(Mode::Cut)
    }

    /// Swallows every byte, both ways, while connections stay open and new ones are taken: nobody is told anything.
    ///
    /// A connection that lived through a silence stays silent also when the network is healed, as one whose state a
    /// router forgot: its ends must find out for themselves.
    ///
    /// # Errors
    /// When the proxy has ended.
    pub fn silence(&self) -> Result<()> {
        self.set(Mode::Silent)
    }

    /// Passes at most 16 KiB per `pause` and connection, each way.
    ///
    /// # Errors
    /// When the proxy has ended.
    pub fn slow(&self, pause: Duration) -> Result<()> {
        self.set(Mode::Slow(pause))
    }

    /// Passes everything again.
    ///
    /// # Errors
    /// When the proxy has ended, or its port was taken by another program meanwhile.
    pub fn heal(&self) -> Result<()> {
        self.set(Mode::Whole)
    }

    fn set(&self, mode: Mode) -> Result<()> {
        self.network.send_modify(|network| {
            network.mode = mode;
            network.silences += u64::from(mode == Mode::Silent);
        });
        let wanted = mode != Mode::Cut;
        let deadline = std::time::Instant::now() + REBIND_DEADLINE;
        while *self.is_listening.borrow() != wanted {
            let has_ended = self.thread.as_ref().is_none_or(JoinHandle::is_finished);
            anyhow::ensure!(!has_ended, "the proxy has ended");
            anyhow::ensure!(std::time::Instant::now() < deadline, "port {} was taken", self.port);
            thread::sleep(POLL);
        }
        Ok(())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.network.send_modify(|network| network.mode = Mode::Ended);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

async fn serve(
    listener: std::net::TcpListener,
    port: u16,
    target: u16,
    mut network: watch::Receiver<Network>,
    listening: watch::Sender<bool>,
) {
    let mut listener = TcpListener::from_std(listener).ok();
    let mut connections = JoinSet::new();
    loop {
        let mode = network.borrow_and_update().mode;
        match mode {
            Mode::Ended => return,
            Mode::Cut => {
                listener = None;
                connections.shutdown().await;
            }
            _ if listener.is_none() => listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.ok(),
            _ => {}
        }
        listening.send_replace(listener.is_some());
        tokio::select! {
            changed = network.changed() => if changed.is_err() { return },
            accepted = accept(listener.as_ref()) => if let Ok((client, _)) = accepted {
                connections.spawn(connect(client, target, network.clone()));
            },
            Some(_) = connections.join_next() => {}
            () = tokio::time::sleep(POLL), if mode != Mode::Cut && listener.is_none() => {}
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<(TcpStream, SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Joins both ends until one closes.
async fn connect(client: TcpStream, target: u16, network: watch::Receiver<Network>) {
    // A connection opened in a silence is silent too: its first bytes are swallowed.
    let known = {
        let network = network.borrow();
        network.silences - u64::from(network.mode == Mode::Silent)
    };
    let Ok(server) = TcpStream::connect((Ipv4Addr::LOCALHOST, target)).await else {
        return;
    };
    let prepared = client.set_nodelay(true).and_then(|()| server.set_nodelay(true));
    debug_assert!(prepared.is_ok(), "{prepared:?}");
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Either end's closing closes the other, as the silent ones must be closed too.
    tokio::select! {
        () = pump(from_client, to_server, network.clone(), known) => {}
        () = pump(from_server, to_client, network, known) => {}
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, network: watch::Receiver<Network>, known: u64) {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let Ok(read @ 1..) = from.read(&mut piece).await else {
            return;
        };
        let Network { mode, silences } = *network.borrow();
        if mode == Mode::Silent || silences > known {
            continue;
        }
        if let Mode::Slow(pause) = mode {
            tokio::time::sleep(pause).await;
        }
        if to.write_all(&piece[..read]).await.is_err() {
            return;
        }
    }
}
