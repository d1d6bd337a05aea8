//! The listening side: a thread with a runtime of its own, so that it answers while the test blocks.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, mpsc as std_mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::counts::{Counts, Stats};
use super::fast::Ready;
use super::journal::{Asked, Journal};
use super::reply::Reply;
use super::request::Request;
use super::respond::respond;
use super::tokens::prompt_hash;

/// Commands come one at a time from the test, each awaited.
const COMMANDS: usize = 4;
/// How long the port may stay taken by the connections that were just ended.
const REBIND_DEADLINE: Duration = Duration::from_secs(5);

type Script = dyn Fn(&Request) -> Reply + Send + Sync;

/// What the connections share.
pub(super) struct Shared {
    pub(super) model: String,
    pub(super) max_context: usize,
    pub(super) latency: Duration,
    pub(super) script: Box<Script>,
    pub(super) ready: Option<Ready>,
    pub(super) counts: Counts,
    pub(super) journal: Option<Journal>,
}

/// Sets an engine up; see [`FakeEngine::builder`].
pub struct Builder {
    model: String,
    max_context: usize,
    latency: Duration,
    port: u16,
    script: Box<Script>,
    fixed: Option<String>,
    journal: Option<Journal>,
}

impl Builder {
    /// The one model served; requests for another get 404. `"fake"` unless set.
    #[must_use]
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = name.into();
        self
    }

    /// The context length in tokens, above which requests get 400. 32,768 unless set.
    #[must_use]
    pub fn max_context(mut self, tokens: usize) -> Self {
        self.max_context = tokens;
        self
    }

    /// A wait before every answer, besides what a reply asks for. None unless set.
    #[must_use]
    pub fn latency(mut self, latency: Duration) -> Self {
        self.latency = latency;
        self
    }

    /// The loopback port; a free one unless set.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Decides each answer. Called once per prompt and sample, one call at a time, and must not block.
    #[must_use]
    pub fn respond(mut self, script: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        self.script = Box::new(script);
        self
    }

    /// Keeps a journal of every prompt asked for; see [`FakeEngine::journal`]. It costs memory and time.
    #[must_use]
    pub fn keep_journal(mut self) -> Self {
        self.journal = Some(Journal::default());
        self
    }

    /// Answers everything with one text; plain requests get a body made beforehand, which is fast enough to measure others.
    #[must_use]
    pub fn fixed_text(mut self, text: impl Into<String>) -> Self {
        let text = text.into();
        self.fixed = Some(text.clone());
        self.respond(move |_| Reply::text(text.clone()))
    }

    /// Starts the engine.
    ///
    /// # Errors
    /// When the port cannot be bound.
    pub fn start(self) -> Result<FakeEngine> {
        let listener = match self.port {
            0 => crate::port::listen()?,
            port => std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                .with_context(|| format!("failed to bind port {port}"))?,
        };
        listener
            .set_nonblocking(true)
            .context("failed to prepare the listener")?;
        let address = listener.local_addr()?;
        // Ready answers read no prompt, and a journal needs it.
        let fixed = self.fixed.filter(|_| self.journal.is_none());
        let ready = fixed.map(|text| Ready::new(&self.model, &text));
        let Self {
            model,
            max_context,
            latency,
            script,
            journal,
            ..
        } = self;
        let shared = Arc::new(Shared {
            model,
            max_context,
            latency,
            script,
            ready,
            counts: Counts::default(),
            journal,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("failed to make a runtime")?;
        let (commands, inbox) = mpsc::channel(COMMANDS);
        let state = Arc::clone(&shared);
        let thread = thread::spawn(move || runtime.block_on(serve(listener, address, inbox, state)));
        Ok(FakeEngine {
            address,
            shared,
            commands,
            thread: Some(thread),
        })
    }
}

/// A running engine; it ends when dropped.
pub struct FakeEngine {
    address: SocketAddr,
    shared: Arc<Shared>,
    commands: mpsc::Sender<Command>,
    thread: Option<JoinHandle<Result<()>>>,
}

/// Asks the serving thread for a state, and to say when it holds.
enum Command {
    Down(std_mpsc::SyncSender<Result<()>>),
    Up(std_mpsc::SyncSender<Result<()>>),
    End(std_mpsc::SyncSender<Result<()>>),
}

impl FakeEngine {
    /// An engine to be set up.
    #[must_use]
    pub fn builder() -> Builder {
        Builder {
            model: "fake".to_owned(),
            max_context: 32_768,
            latency: Duration::ZERO,
            port: 0,
            script: Box::new(|request| Reply::text(format!(" {}", request.hash() % 1000))),
            fixed: None,
            journal: None,
        }
    }

    /// An engine that answers each prompt with a number made from its hash.
    ///
    /// # Errors
    /// When no port can be bound.
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// The address, without a path: `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The name of the model served.
    #[must_use]
    pub fn model(&self) -> &str {
        &self.shared.model
    }

    /// The figures so far.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.shared.counts.stats()
    }

    /// How often this prompt was asked for.
    #[must_use]
    pub fn requests_for(&self, prompt: &str) -> u64 {
        self.requests_by_prompt()
            .get(&prompt_hash(prompt))
            .copied()
            .unwrap_or(0)
    }

    /// How often each prompt was asked for, by its hash.
    #[must_use]
    pub fn requests_by_prompt(&self) -> HashMap<u64, u64> {
        self.shared.counts.by_prompt()
    }

    /// Every prompt asked for so far, in the order of arrival; empty unless the journal is kept.
    #[must_use]
    pub fn journal(&self) -> Vec<Asked> {
        self.shared.journal.as_ref().map(Journal::read).unwrap_or_default()
    }

    /// Takes the engine away, ending its connections and refusing new ones, or brings it back on the same port.
    ///
    /// # Errors
    /// When another process has taken the port meanwhile.
    pub fn set_down(&self, down: bool) -> Result<()> {
        self.command(if down { Command::Down } else { Command::Up })
    }

    /// Waits until the engine ends, which it does only when something breaks.
    ///
    /// # Errors
    /// What broke.
    pub fn join(mut self) -> Result<()> {
        self.thread.take().map_or(Ok(()), finish)
    }

    fn command(&self, make: fn(std_mpsc::SyncSender<Result<()>>) -> Command) -> Result<()> {
        let (done, outcome) = std_mpsc::sync_channel(1);
        self.commands
            .try_send(make(done))
            .map_err(|_| anyhow::anyhow!("the engine takes no commands"))?;
        outcome.recv().context("the engine has ended")?
    }
}

impl Drop for FakeEngine {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            let ended = self.command(Command::End).and_then(|()| finish(thread));
            debug_assert!(ended.is_ok(), "{ended:?}");
        }
    }
}

fn finish(thread: JoinHandle<Result<()>>) -> Result<()> {
    thread
        .join()
        .map_err(|_| anyhow::anyhow!("the engine's thread panicked"))?
}

async fn serve(
    listener: std::net::TcpListener,
    address: SocketAddr,
    mut commands: mpsc::Receiver<Command>,
    shared: Arc<Shared>,
) -> Result<()> {
    let mut listener = Some(TcpListener::from_std(listener)?);
    let mut connections = JoinSet::new();
    loop {
        tokio::select! { biased;
            command = commands.recv() => match command {
                Some(Command::Down(done)) => {
                    listener = None;
                    connections.shutdown().await;
                    report(&done, Ok(()));
                }
                Some(Command::Up(done)) if listener.is_some() => report(&done, Ok(())),
                Some(Command::Up(done)) => {
                    let bound = bind_again(address).await;
                    report(&done, bound.map(|bound| listener = Some(bound)));
                }
                Some(Command::End(done)) => {
                    report(&done, Ok(()));
                    return Ok(());
                }
                None => return Ok(()),
            },
            Some(_) = connections.join_next() => {}
            Some(stream) = accept(listener.as_ref()) => {
                connections.spawn(converse(stream, Arc::clone(&shared)));
            }
        }
    }
}

fn report(done: &std_mpsc::SyncSender<Result<()>>, outcome: Result<()>) {
    // The channel holds one and the test waits for it, so a failure means the test is gone.
    done.try_send(outcome).ok();
}

/// The next connection. Waits for ever while there is no listener: another arm of the loop then brings it back.
async fn accept(listener: Option<&TcpListener>) -> Option<TcpStream> {
    match listener {
        Some(listener) => listener.accept().await.ok().map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

async fn bind_again(address: SocketAddr) -> Result<TcpListener> {
    let deadline = tokio::time::Instant::now() + REBIND_DEADLINE;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) if tokio::time::Instant::now() > deadline => {
                return Err(error).with_context(|| format!("failed to bind {address} again"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn converse(stream: TcpStream, shared: Arc<Shared>) {
    // Answers are small and awaited one by one: waiting to fill a packet would cost 40 ms each.
    stream.set_nodelay(true).ok();
    let service = service_fn(|request| respond(&shared, request));
    // An error is a client that left, or an end in the middle that the script wanted.
    http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await
        .ok();
}
