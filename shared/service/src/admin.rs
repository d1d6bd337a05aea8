//! The admin listener: `/livez`, `/readyz`, `/metrics`.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;
use tokio::net::TcpListener;

/// The admin listener of a process; it answers from before the first work until the process ends.
#[derive(Debug, Clone)]
pub struct Admin {
    address: SocketAddr,
    ready: Arc<AtomicBool>,
}

impl Admin {
    /// Binds the listener; port 0 takes a free one.
    ///
    /// # Errors
    /// When the address is taken or not ours.
    pub async fn bind(address: &str) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let admin = Self {
            address: listener.local_addr()?,
            ready: Arc::default(),
        };
        let ready = Arc::clone(&admin.ready);
        let readiness = move || async move {
            if ready.load(Ordering::Relaxed) {
                (StatusCode::OK, "ready\n")
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, "not ready\n")
            }
        };
        let router = Router::new()
            .route("/livez", get(|| async { "alive\n" }))
            .route("/readyz", get(readiness))
            .route("/metrics", get(|| async { tidemill_telemetry::render() }));
        tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::error!(%error, "the admin listener ended");
            }
        });
        Ok(admin)
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `/readyz` says from now on.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::Relaxed);
    }
}
