//! What the generation cache holds, as a dispatcher needs it: keys alone.

use std::time::Duration;

use tidemill_domain::{Asked, Digest, GenerationKey, GroupId, Manifest};
use tidemill_service::{Context, Follow, Start};
use tidemill_storage::Store;
use tidemill_streams::{declared, subject};
use tidemill_telemetry::Metric;
use tokio::time::timeout;

/// How long the cache's keys are waited for, a million of them included; without them items are asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cached body that no entry names is left for so long: its entry may be about to be written.
const BODY_IS_NEW: Duration = Duration::from_secs(3_600);

/// The generations of a group's weights that are in the cache.
///
/// They are listed once when a group begins. Later ones are its own, and their completions tell of them. A cache that is
/// away or gone holds nothing.
pub(crate) async fn known(context: &Context, group: &GroupId) -> Vec<GenerationKey> {
    match timeout(PATIENCE, list(context, group)).await {
        Ok(Ok(keys)) => return keys,
        Ok(Err(error)) => tracing::warn!(%group, error, "the generation cache cannot be read; going on without it"),
        Err(_) => tracing::warn!(%group, "the generation cache does not answer; going on without it"),
    }
    Vec::new()
}

async fn list(context: &Context, group: &GroupId) -> Result<Vec<GenerationKey>, String> {
    // Asked first: a reader of a stream that is not there would wait for it.
    let stream = context.jetstream().get_stream(declared::CACHE.name).await;
    let stream = stream.map_err(|error| error.to_string())?;
    let state = &stream.cached_info().state;
    tidemill_telemetry::set(Metric::CacheBytes, state.bytes as f64, []);
    let mut keys = Vec::new();
    if state.messages > 0 {
        let filter = subject::cache_of_group(group);
        let mut follow = Follow::open(context, declared::CACHE, filter, true, Start::Beginning).await;
        let read = |message: tidemill_service::Followed| {
            keys.extend(subject::generation_of(&message.subject).map(|(_, key)| key))
        };
        follow.each_known(read).await;
    }
    Ok(keys)
}

/// What each sample of a manifest asks of the weights, in the order of [`Manifest::keys`]: 16 bytes a sample, made block
/// after block.
///
/// # Errors
/// When a block cannot be read.
pub(crate) async fn asked(
    store: &Store,
    weights: &Digest,
    manifest: &Manifest,
) -> Result<Vec<GenerationKey>, tidemill_storage::Error> {
    let mut keys = Vec::with_capacity(usize::try_from(manifest.samples()).unwrap_or_default());
    for benchmark in &manifest.benchmarks {
        for block in &benchmark.blocks {
            let block = store.passing_block(&block.digest).await?;
            for item in &block.items {
                let samples = 0..benchmark.settings.samples;
                keys.extend(samples.map(|sample| Asked::of(weights, benchmark, item, sample).key()));
            }
        }
    }
    Ok(keys)
}

/// Removes bodies from the object store whose generations the cache has let go of.
pub(crate) async fn sweep_bodies(context: &Context) {
    if let Err(error) = sweep(context).await {
        tracing::warn!(
            error,
            "bodies of evicted generations are not removed; the next round tries again"
        );
    }
}

async fn sweep(context: &Context) -> Result<(), String> {
    let bodies = context
        .store
        .cached_bodies(None)
        .await
        .map_err(|error| error.to_string())?;
    let old: Vec<_> = bodies.into_iter().filter(|body| body.age >= BODY_IS_NEW).collect();
    if old.is_empty() {
        return Ok(());
    }
    let stream = context.jetstream().get_stream_no_info(declared::CACHE.name).await;
    let stream = stream.map_err(|error| error.to_string())?;
    for body in old {
        use async_nats::jetstream::stream::DirectGetErrorKind::NotFound;
        match stream
            .direct_get_last_for_subject(subject::cache(&body.group, &body.key))
            .await
        {
            Ok(_) => {}
            Err(error) if error.kind() == NotFound => {
                let removed = context.store.remove_cached_body(&body.group, &body.key).await;
                removed.map_err(|error| error.to_string())?;
            }
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}
