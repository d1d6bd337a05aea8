//! Patience with attached engines that went away.

use std::time::Duration;

use tokio::time::Instant;

use crate::engine::Engines;

/// Since when no attached engine has answered.
#[derive(Debug, Default)]
pub(super) struct Away {
    since: Option<Instant>,
}

impl Away {
    /// Looks whether any replica answers. Returns the reason to give up when none has for longer than the patience.
    pub(super) async fn look(&mut self, engines: &Engines, patience: Duration) -> Option<String> {
        let replicas = engines.replicas();
        for replica in &replicas {
            if tidemill_inference::is_reachable(&replica.url).await {
                self.since = None;
                return None;
            }
        }
        let urls: Vec<&str> = replicas.iter().map(|replica| replica.url.as_str()).collect();
        let since = *self.since.get_or_insert_with(Instant::now);
        tracing::warn!(
            urls = urls.join(" "),
            seconds = since.elapsed().as_secs(),
            "no engine answers; waiting"
        );
        (since.elapsed() >= patience).then(|| format!("no engine at {} answered for {patience:?}", urls.join(", ")))
    }
}
