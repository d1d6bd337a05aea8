//! One engine's HTTP connection: bodies out, outcomes back. Knows nothing of what they mean.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Method, Response, Url};
use tokio::time::{Instant, timeout_at};

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
    urls: [Url; Endpoint::ALL.len()],
    request_timeout: Duration,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Completions,
    Chat,
    Models,
    /// Prometheus text.
    Metrics,
    /// SGLang's own endpoint.
    Generate,
    /// llama.cpp's own endpoint.
    Completion,
    /// llama.cpp's and vLLM's; only the former's shape is used.
    Tokenize,
    /// vLLM's and SGLang's.
    Detokenize,
    /// What only llama.cpp has.
    Props,
    /// What only SGLang has.
    ModelInfo,
    /// SGLang's settings, with what its scheduler made of them.
    ServerInfo,
}

impl Endpoint {
    const ALL: [Self; 11] = [
        Self::Completions,
        Self::Chat,
        Self::Models,
        Self::Metrics,
        Self::Generate,
        Self::Completion,
        Self::Tokenize,
        Self::Detokenize,
        Self::Props,
        Self::ModelInfo,
        Self::ServerInfo,
    ];

    const fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/completions",
            Self::Chat => "/v1/chat/completions",
            Self::Models => "/v1/models",
            Self::Metrics => "/metrics",
            Self::Generate => "/generate",
            Self::Completion => "/completion",
            Self::Tokenize => "/tokenize",
            Self::Detokenize => "/detokenize",
            Self::Props => "/props",
            Self::ModelInfo => "/get_model_info",
            Self::ServerInfo => "/server_info",
        }
    }
}

/// An outcome and how many requests it took.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) outcome: HttpOutcome,
    pub(crate) requests: u32,
}

/// Servers close idle connections after as little as 5 s (uvicorn's default); ours are given up before.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// A kept connection that the server has given up is lost within a round trip; one that is lost later had an engine behind it,
/// which may have died of the request.
const STALE_SHOWS_WITHIN: Duration = Duration::from_secs(1);

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
        let mut urls = Vec::with_capacity(Endpoint::ALL.len());
        for endpoint in Endpoint::ALL {
            let url = Url::parse(&format!("{base}{}", endpoint.path())).map_err(|error| refused(error.to_string()))?;
            urls.push(url);
        }
        let urls = <[Url; Endpoint::ALL.len()]>::try_from(urls).map_err(|_| refused("it has no paths".to_owned()))?;
        Ok(Self {
            shared: Arc::new(Shared {
                kept: pool(&urls[0], options, options.max_in_flight)?,
                new: pool(&urls[0], options, 0)?,
                urls,
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
    /// was idle. Where nobody listens any more, the first request counts: it was sent.
    pub(crate) async fn post(&self, endpoint: Endpoint, body: Bytes, connection: Connection) -> Exchange {
        self.post_for(endpoint, body, connection, MOST_BYTES).await
    }

    /// As [`Client::post`], for a response of at most so many bytes.
    pub(crate) async fn post_for(
        &self,
        endpoint: Endpoint,
        body: Bytes,
        connection: Connection,
        most: usize,
    ) -> Exchange {
        let most = most.min(MOST_BYTES);
        let timeout = self.shared.request_timeout;
        let begun = Instant::now();
        let outcome = self
            .send(
                (Method::POST, endpoint),
                Some(body.clone()),
                connection,
                (most, timeout),
            )
            .await;
        if !may_be_stale(&outcome, connection, begun.elapsed()) {
            return Exchange { outcome, requests: 1 };
        }
        match self
            .send((Method::POST, endpoint), Some(body), Connection::New, (most, timeout))
            .await
        {
            HttpOutcome::Unreachable(_) => Exchange { outcome, requests: 1 },
            outcome => Exchange { outcome, requests: 2 },
        }
    }

    /// Asks for a document.
    pub(crate) async fn get(&self, endpoint: Endpoint, connection: Connection, timeout: Duration) -> HttpOutcome {
        self.send((Method::GET, endpoint), None, connection, (MOST_BYTES, timeout))
            .await
    }

    /// Sends a body and waits for the response to begin. A success comes back as a body that is still on its way, anything
    /// else as the outcome that it is.
    ///
    /// The time-out of a request holds until then; a body that is on its way is waited for as its reader sees fit. Closed
    /// connections are replaced as [`Client::post`] does.
    pub(crate) async fn open(&self, endpoint: Endpoint, body: Bytes, connection: Connection) -> Opened {
        let sent = Instant::now();
        let begun = self.begin(endpoint, body.clone(), connection).await;
        let is_stale = |outcome: &HttpOutcome| may_be_stale(outcome, connection, sent.elapsed());
        if !begun.as_ref().is_err_and(is_stale) {
            return Opened { begun, requests: 1 };
        }
        match self.begin(endpoint, body, Connection::New).await {
            Err(HttpOutcome::Unreachable(_)) => Opened { begun, requests: 1 },
            begun => Opened { begun, requests: 2 },
        }
    }

    async fn begin(&self, endpoint: Endpoint, body: Bytes, connection: Connection) -> Result<Stream, HttpOutcome> {
        let timeout = self.shared.request_timeout;
        let begun = Instant::now();
        let until = begun + timeout;
        let request = self.request(Method::POST, endpoint, Some(body), None);
        let Ok(response) = timeout_at(until, self.execute(request, connection, timeout)).await else {
            return Err(HttpOutcome::TimedOut(timeout));
        };
        let response = response?;
        if response.status().is_success() {
            return Ok(Stream {
                is_events: is_event_stream(&response),
                response,
                begun,
                first_by: until,
                timeout,
            });
        }
        let whole = timeout_at(until, read(response, MOST_BYTES, timeout)).await;
        Err(whole.unwrap_or(HttpOutcome::TimedOut(timeout)))
    }

    async fn send(
        &self,
        (method, endpoint): (Method, Endpoint),
        body: Option<Bytes>,
        connection: Connection,
        (most, timeout): (usize, Duration),
    ) -> HttpOutcome {
        let request = self.request(method, endpoint, body, Some(timeout));
        match self.execute(request, connection, timeout).await {
            Ok(response) => read(response, most, timeout).await,
            Err(outcome) => outcome,
        }
    }

    fn request(
        &self,
        method: Method,
        endpoint: Endpoint,
        body: Option<Bytes>,
        timeout: Option<Duration>,
    ) -> reqwest::Request {
        let mut request = reqwest::Request::new(method, self.shared.urls[endpoint as usize].clone());
        *request.timeout_mut() = timeout;
        if let Some(body) = body {
            request
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            *request.body_mut() = Some(body.into());
        }
        request
    }

    async fn execute(
        &self,
        request: reqwest::Request,
        connection: Connection,
        timeout: Duration,
    ) -> Result<Response, HttpOutcome> {
        let client = match connection {
            Connection::Kept => &self.shared.kept,
            Connection::New => &self.shared.new,
        };
        client.execute(request).await.map_err(|error| {
            if error.is_connect() {
                HttpOutcome::Unreachable(root_cause(&error))
            } else if error.is_timeout() {
                HttpOutcome::TimedOut(timeout)
            } else {
                HttpOutcome::Lost(root_cause(&error))
            }
        })
    }
}

/// How a request with a body that arrives in pieces began, and how many requests it took.
pub(crate) struct Opened {
    pub(crate) begun: Result<Stream, HttpOutcome>,
    pub(crate) requests: u32,
}

/// The body of a success that is on its way.
pub(crate) struct Stream {
    response: Response,
    /// The server sends events, not one document.
    pub(crate) is_events: bool,
    /// When the request was sent.
    pub(crate) begun: Instant,
    /// When the first token is due.
    pub(crate) first_by: Instant,
    /// The time-out of the request, of which that is made.
    pub(crate) timeout: Duration,
}

/// What came of waiting for the next bytes of a body.
pub(crate) enum Next {
    Bytes(Bytes),
    End,
    Cut(String),
    Late,
}

impl Stream {
    /// The next bytes, waited for until then.
    pub(crate) async fn next(&mut self, until: Instant) -> Next {
        match timeout_at(until, self.response.chunk()).await {
            Ok(Ok(Some(bytes))) => Next::Bytes(bytes),
            Ok(Ok(None)) => Next::End,
            Ok(Err(error)) => Next::Cut(root_cause(&error)),
            Err(_) => Next::Late,
        }
    }
}

fn is_event_stream(response: &Response) -> bool {
    let kind = response.headers().get(CONTENT_TYPE);
    kind.and_then(|kind| kind.to_str().ok())
        .is_some_and(|kind| kind.trim_start().starts_with("text/event-stream"))
}

/// The connection may have been closed before the request came: lost without a byte of an answer, and so soon that the engine
/// need not have seen it.
fn may_be_stale(outcome: &HttpOutcome, connection: Connection, after: Duration) -> bool {
    connection == Connection::Kept && matches!(outcome, HttpOutcome::Lost(_)) && after < STALE_SHOWS_WITHIN
}

/// The longest body that is read, in bytes: the log-probabilities of a prompt of 200,000 tokens, and no answer that never ends.
const MOST_BYTES: usize = 64 << 20;

/// Waits for the rest of a response.
async fn read(response: Response, most: usize, timeout: Duration) -> HttpOutcome {
    let status = response.status().as_u16();
    let retry_after = retry_after::read(response.headers());
    match body(response, most).await {
        Ok(Some(body)) => HttpOutcome::Answered {
            status,
            retry_after,
            body,
        },
        Ok(None) => HttpOutcome::Cut(format!("the body is longer than {} KiB", most >> 10)),
        Err(error) if error.is_timeout() => HttpOutcome::TimedOut(timeout),
        Err(error) => HttpOutcome::Cut(root_cause(&error)),
    }
}

/// The body, unless it is longer than that.
async fn body(mut response: Response, most: usize) -> Result<Option<Bytes>, reqwest::Error> {
    let Some(first) = response.chunk().await? else {
        return Ok(Some(Bytes::new()));
    };
    // Most bodies come in one piece, which is not copied.
    let mut whole = Vec::new();
    while let Some(next) = response.chunk().await? {
        if whole.is_empty() {
            whole.extend_from_slice(&first);
        }
        if whole.len() + next.len() > most {
            return Ok(None);
        }
        whole.extend_from_slice(&next);
    }
    Ok(Some(if whole.is_empty() { first } else { whole.into() }))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kept_connection_that_is_lost_at_once_may_have_been_closed_before() {
        let lost = HttpOutcome::Lost("closed".to_owned());
        let soon = STALE_SHOWS_WITHIN - Duration::from_nanos(1);
        assert!(may_be_stale(&lost, Connection::Kept, soon));
        assert!(!may_be_stale(&lost, Connection::Kept, STALE_SHOWS_WITHIN));
        assert!(!may_be_stale(&lost, Connection::New, soon));
        let cut = HttpOutcome::Cut("closed".to_owned());
        assert!(!may_be_stale(&cut, Connection::Kept, soon), "a byte of the answer came");
    }
}
