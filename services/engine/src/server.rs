//! Loading, listening, and the order of a shutdown.

use std::{
    future::IntoFuture,
    net::SocketAddr,
    num::NonZero,
    path::Path,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::net::{TcpListener, TcpSocket};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Error, Options,
    api::{self, App},
    checkpoint::{ModelConfig, ShardSet},
    metrics::Metrics,
    model::{Decoder, Llama},
    schedule::{Engine, Parts},
    text::TextModel,
};

/// Parameters from which computing on several threads pays.
const PARALLEL_PARAMETERS: u64 = 50_000_000;
/// Connections not yet accepted.
const BACKLOG: u32 = 1024;
/// Time that connections get to take their last bytes, after the engine is done.
const FLUSH: Duration = Duration::from_secs(2);

/// Loads the checkpoint and serves it until `shutdown` is cancelled and running requests have finished.
///
/// The port is taken at once but answers only when the model is ready; then `on_ready` gets the address. After `shutdown`,
/// new requests get 503, running ones have `shutdown_grace` to finish, and those that do not are ended with reason `abort`.
/// Dropping the future stops accepting and leaves running sequences to end with their clients.
///
/// # Errors
/// The address is taken, or the checkpoint cannot be loaded: see [`Error`].
pub async fn serve(
    options: Options,
    shutdown: CancellationToken,
    on_ready: impl FnOnce(SocketAddr),
) -> Result<(), Error> {
    check(&options)?;
    let address = SocketAddr::new(options.host, options.port);
    let listening = |source| Error::Listen { address, source };
    let socket = bind(address).map_err(listening)?;
    let loading = {
        let options = options.clone();
        tokio::task::spawn_blocking(move || load(&options))
    };
    let Loaded { app, engine } = loading.await.map_err(std::io::Error::other)??;
    let listener = socket.listen(BACKLOG).map_err(listening)?;
    on_ready(listener.local_addr().map_err(listening)?);
    run(listener, app, engine, shutdown, options.shutdown_grace).await
}

fn check(options: &Options) -> Result<(), Error> {
    if options.max_num_seqs == 0 {
        return Err(Error::Option("max-num-seqs must be at least 1".to_owned()));
    }
    if options.threads == Some(0) {
        return Err(Error::Option("threads must be at least 1".to_owned()));
    }
    Ok(())
}

fn bind(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()
    } else {
        TcpSocket::new_v6()
    }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

struct Loaded {
    app: App,
    engine: Engine,
}

fn load(options: &Options) -> Result<Loaded, Error> {
    let started = Instant::now();
    let directory = &options.checkpoint;
    let summary = crate::validate(directory)?;
    let config = ModelConfig::read(directory)?;
    let context_length = context_length(options, summary.context_length)?;
    let text = Arc::new(TextModel::load(directory, config.vocab_size)?);
    let mut eos_token_ids = config.eos_token_ids.clone();
    if eos_token_ids.is_empty() {
        eos_token_ids.extend(text.eos_token_id());
    }
    let model = Llama::load(config, &ShardSet::open(directory)?, context_length)?;
    let name = options
        .served_model_name
        .clone()
        .unwrap_or_else(|| directory_name(directory));
    let metrics = Arc::new(Metrics::new(&name, (options.max_num_seqs * context_length) as u64));
    let vocab_size = model.vocab_size();
    let threads = options.threads.unwrap_or_else(|| default_threads(summary.parameters));
    let engine = Engine::start(Parts {
        model,
        text: Arc::clone(&text),
        eos_token_ids,
        max_sequences: options.max_num_seqs,
        metrics: Arc::clone(&metrics),
        threads,
    })?;
    let seconds = started.elapsed().as_secs_f64();
    tracing::info!(checkpoint = %directory.display(), parameters = summary.parameters, context_length, threads, seconds, "loaded checkpoint");
    let app = App {
        name,
        checkpoint: directory.clone(),
        text,
        vocab_size,
        context_length,
        metrics,
        jobs: engine.jobs.clone(),
        draining: CancellationToken::new(),
        in_flight: TaskTracker::new(),
        created: SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map_or(0, |since| since.as_secs()),
    };
    Ok(Loaded { app, engine })
}

fn context_length(options: &Options, of_checkpoint: usize) -> Result<usize, Error> {
    match options.max_model_len {
        Some(length) if length == 0 || length > of_checkpoint => Err(Error::Option(format!(
            "max-model-len {length} is not from 1 to the {of_checkpoint} tokens (max_position_embeddings) of the checkpoint"
        ))),
        Some(length) => Ok(length),
        None => Ok(of_checkpoint),
    }
}

fn default_threads(parameters: u64) -> usize {
    if parameters < PARALLEL_PARAMETERS {
        1
    } else {
        std::thread::available_parallelism().map_or(1, NonZero::get)
    }
}

/// The name under which a checkpoint is served when none was given.
pub(crate) fn directory_name(directory: &Path) -> String {
    let absolute = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    absolute
        .file_name()
        .map_or_else(|| "model".to_owned(), |name| name.to_string_lossy().into_owned())
}

async fn run(
    listener: TcpListener,
    app: App,
    engine: Engine,
    shutdown: CancellationToken,
    grace: Duration,
) -> Result<(), Error> {
    let (draining, in_flight) = (app.draining.clone(), app.in_flight.clone());
    let close = CancellationToken::new();
    let router = api::router(Arc::new(app));
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(close.clone().cancelled_owned())
        .into_future();
    let mut server = std::pin::pin!(server);
    let drain = async {
        shutdown.cancelled().await;
        draining.cancel();
        in_flight.close();
        finish_running(&in_flight, &engine.abort, grace).await;
    };
    tokio::select! {
        ended = &mut server => ended?,
        () = engine.jobs.closed() => return Err(Error::EngineEnded),
        () = drain => {
            close.cancel();
            if let Ok(ended) = tokio::time::timeout(FLUSH, server).await {
                ended?;
            }
        }
    }
    Ok(())
}

async fn finish_running(in_flight: &TaskTracker, abort: &CancellationToken, grace: Duration) {
    tracing::info!(in_flight = in_flight.len(), "draining");
    if tokio::time::timeout(grace, in_flight.wait()).await.is_ok() {
        return;
    }
    tracing::warn!(in_flight = in_flight.len(), "grace is over, aborting what still runs");
    abort.cancel();
    if tokio::time::timeout(FLUSH, in_flight.wait()).await.is_err() {
        tracing::warn!(in_flight = in_flight.len(), "requests did not end");
    }
}
