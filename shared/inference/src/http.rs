//! One engine's HTTP connection: bodies out, outcomes back. Knows nothing of what they mean.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use reqwest::{Method, Url};

use crate::{Connection, HttpOutcome, address, retry_after};

/// How a client speaks to its engine.
#[derive(Clone)]
pub struct Options {
    /// The most requests that are in flight at once: as many connections are kept.
    pub max_in_flight: usize,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest wait for a whole response. Generous, because an answer that is merely long must never be given up.
    pub request_timeout: Duration,
    /// Sent as a bearer token, where set.
    pub api_key: Option<String>,
}

/// The environment variable that holds the key of engines that want one.
const API_KEY: &str = "TIDEMILL_ENGINE_API_KEY";

impl Options {
    /// The defaults, with the key in `TIDEMILL_ENGINE_API_KEY` where that is set.
    #[must_use]
    pub fn from_environment() -> Self {
        Self {
            api_key: std::env::var(API_KEY).ok().filter(|key| !key.is_empty()),
            ..Self::default()
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            max_in_flight: 512,
            connect_timeout: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30 * 60),
            api_key: None,
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("max_in_flight", &self.max_in_flight)
            .field("connect_timeout", &self.connect_timeout)
            .field("request_timeout", &self.request_timeout)
            .finish_non_exhaustive()
    }
}

/// Why there is no client for an address.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is not one.
    #[error("{url:?} is not the base address of a server: {why}")]
    Address {
        /// What was given.
        url: String,
        /// Why it is refused.
        why: String,
    },
    /// The key cannot be sent in a header.
    #[error("the API key holds characters that a header cannot carry")]
    ApiKey,
    /// TLS or name resolution could not be set up.
    #[error("set up HTTP")]
    Setup(#[source] reqwest::Error),
}

/// A connection pool to one engine. Clones share it.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    kept: reqwest::Client,
    new: reqwest::Client,
    completions: Url,
    chat: Url,
    models: Url,
    request_timeout: Duration,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Endpoint {
    Completions,
    Chat,
    Models,
}

/// An outcome and how many requests it took.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) outcome: HttpOutcome,
    pub(crate) requests: u32,
}

/// Servers close idle connections after as little as 5 s (uvicorn's default); ours are given up before.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

impl Client {
    /// Makes a client for the server at `url`, which may be written in any of the ways
    /// [`normalise_url`](crate::normalise_url) knows. Sends
    /// nothing yet.
    ///
    /// # Errors
    /// When the address is none, the key cannot be sent, or TLS cannot be set up.
    pub fn new(url: &str, options: &Options) -> Result<Self, ClientError> {
        let refused = |why: String| ClientError::Address {
            url: url.to_owned(),
            why,
        };
        let base = address::base(url).map_err(refused)?;
        let at = |path: &str| Url::parse(&format!("{base}{path}")).map_err(|error| refused(error.to_string()));
        let completions = at("/v1/completions")?;
        Ok(Self {
            shared: Arc::new(Shared {
                kept: pool(&completions, options, options.max_in_flight)?,
                new: pool(&completions, options, 0)?,
                chat: at("/v1/chat/completions")?,
                models: at("/v1/models")?,
                completions,
                request_timeout: options.request_timeout,
                url: base,
            }),
        })
    }

    /// The server's base address, without `/v1`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.shared.url
    }

    /// Sends a body and waits for the whole response.
    ///
    /// A kept connection that turns out to be closed is replaced once, because the server may have given it up while it
    /// was idle.
    pub(crate) async fn post(&self, endpoint: Endpoint, body: Bytes, connection: Connection) -> Exchange {
        let timeout = self.shared.request_timeout;
        let outcome = self
            .send(Method::POST, endpoint, Some(body.clone()), connection, timeout)
            .await;
        if !(matches!(outcome, HttpOutcome::Lost(_)) && connection == Connection::Kept) {
            return Exchange { outcome, requests: 1 };
        }
        let outcome = self
            .send(Method::POST, endpoint, Some(body), Connection::New, timeout)
            .await;
        Exchange { outcome, requests: 2 }
    }

    /// Asks for a document on a new connection.
    pub(crate) async fn get(&self, endpoint: Endpoint, timeout: Duration) -> HttpOutcome {
        self.send(Method::GET, endpoint, None, Connection::New, timeout).await
    }

    async fn send(
        &self,
        method: Method,
        endpoint: Endpoint,
        body: Option<Bytes>,
        connection: Connection,
        timeout: Duration,
    ) -> HttpOutcome {
        let url = match endpoint {
            Endpoint::Completions => &self.shared.completions,
            Endpoint::Chat => &self.shared.chat,
            Endpoint::Models => &self.shared.models,
        };
        let mut request = reqwest::Request::new(method, url.clone());
        *request.timeout_mut() = Some(timeout);
        if let Some(body) = body {
            request
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.into());
        }
        let client = match connection {
            Connection::Kept => &self.shared.kept,
            Connection::New => &self.shared.new,
        };
        let response = match client.execute(request).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return HttpOutcome::Unreachable(root_cause(&error)),
            Err(error) if error.is_timeout() => return HttpOutcome::TimedOut(timeout),
            Err(error) => return HttpOutcome::Lost(root_cause(&error)),
        };
        let status = response.status().as_u16();
        let retry_after = response
            .headers()
            .get(RETRY_AFTER)
            .and_then(|value| retry_after::parse(value.to_str().ok()?, SystemTime::now()));
        match response.bytes().await {
            Ok(body) => HttpOutcome::Answered {
                status,
                retry_after,
                body,
            },
            Err(error) if error.is_timeout() => HttpOutcome::TimedOut(timeout),
            Err(error) => HttpOutcome::Cut(root_cause(&error)),
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Client")
            .field("url", &self.shared.url)
            .finish_non_exhaustive()
    }
}

fn pool(url: &Url, options: &Options, idle: usize) -> Result<reqwest::Client, ClientError> {
    let mut headers = HeaderMap::new();
    if let Some(key) = &options.api_key {
        let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ClientError::ApiKey)?;
        value.set_sensitive(true);
        headers.insert(AUTHORIZATION, value);
    }
    let mut builder = reqwest::Client::builder()
        .default_headers(headers)
        .user_agent(concat!("tidemill/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(options.connect_timeout)
        .tcp_nodelay(true)
        .pool_max_idle_per_host(idle)
        .pool_idle_timeout(IDLE_TIMEOUT);
    install_tls_provider();
    if url.scheme() != "https" {
        // Nothing here will speak TLS, so a machine without root certificates must not be refused.
        builder = builder.tls_certs_only(std::iter::empty());
    }
    if is_loopback(url) {
        builder = builder.no_proxy();
    }
    builder.build().map_err(ClientError::Setup)
}

fn install_tls_provider() {
    // An error means that the process has a provider already, which serves as well.
    drop(rustls::crypto::ring::default_provider().install_default());
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// The innermost cause: the outer layers only repeat the address.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
