//! Engines that run outside: asked all at once, and taken as they answer.

use std::time::Duration;

use tidemill_config::Loader;
use tidemill_domain::{EngineKind, Source};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::{EngineError, Engines, Present, Ready, answer};

/// How long the others may take once one has answered; those that take longer join later.
const OTHERS_MAY_TAKE: Duration = Duration::from_secs(1);

/// A replica's address with its answer.
type Answered = (String, Result<Ready, EngineError>);

/// Replicas that are being asked.
pub(super) type Away = JoinSet<Answered>;

/// Attaches every endpoint that answers. One that does not holds up the others for a second at most, and joins when it
/// answers; one that is wrong is left out.
///
/// # Errors
/// When none can be used, with the reason of each.
pub(super) async fn attach(
    config: &Loader,
    limit: Option<u32>,
    urls: &[String],
    model: &str,
) -> Result<Engines, EngineError> {
    let source = Source::Endpoint {
        urls: urls.to_vec(),
        model: model.to_owned(),
    };
    let mut engines = Engines::new(source, model, limit, config.max_in_flight);
    engines.kind = kind_named(&config.engine_kind);
    let kind = engines.kind;
    for url in urls {
        ask(&mut engines.away, (url, model), config.endpoint_patience, kind);
    }
    let mut failures = Vec::new();
    let mut last_call: Option<Instant> = None;
    while let Some((url, answered)) = next(&mut engines.away, last_call).await {
        match answered {
            Ok(ready) => {
                engines.join(Present::new(&url, ready));
                last_call.get_or_insert_with(|| Instant::now() + OTHERS_MAY_TAKE);
            }
            Err(error) => {
                tracing::warn!(url, %error, "replica left out");
                failures.push((url, error));
            }
        }
    }
    if engines.present.is_empty() {
        return Err(none_of(failures));
    }
    let silent = failures.iter().filter(|(_, error)| error.is_silence());
    silent.for_each(|(url, _)| ask(&mut engines.away, (url, model), config.endpoint_patience, kind));
    Ok(engines)
}

async fn next(away: &mut Away, last_call: Option<Instant>) -> Option<Answered> {
    let answered = match last_call {
        Some(at) => timeout_at(at, away.join_next()).await.ok().flatten(),
        None => away.join_next().await,
    };
    answered?
        .inspect_err(|error| tracing::error!(%error, "a replica was not asked"))
        .ok()
}

/// The kind of this name; none for the empty one, which asks to find out. The configuration takes no other.
fn kind_named(name: &str) -> Option<EngineKind> {
    EngineKind::ALL.into_iter().find(|kind| kind.label() == name)
}

fn ask(away: &mut Away, (url, model): (&str, &str), patience: Duration, kind: Option<EngineKind>) {
    let (url, model) = (url.to_owned(), model.to_owned());
    away.spawn(async move {
        let answered = answer(&url, &model, patience, None, kind).await;
        (url, answered)
    });
}

fn none_of(mut failures: Vec<(String, EngineError)>) -> EngineError {
    match failures.pop() {
        Some((_, only)) if failures.is_empty() => only,
        last => {
            failures.extend(last);
            EngineError::Endpoints(failures.into_iter().map(|(_, error)| error.to_string()).collect())
        }
    }
}

impl Engines {
    /// Waits until a replica that was away joins; for ever when none is away.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(super) async fn joined(&mut self) {
        while let Some((url, answered)) = next(&mut self.away, None).await {
            match answered {
                Ok(ready) => {
                    let late = Present::new(&url, ready);
                    if let Some(reason) = self.late_refusal(&late) {
                        tracing::warn!(url, reason, "replica left out: it cannot run what is served");
                        continue;
                    }
                    self.join(late);
                    tracing::info!(url, "replica joined");
                    return;
                }
                Err(EngineError::Silent { waited, .. }) => ask(&mut self.away, (&url, &self.model), waited, self.kind),
                Err(error) => tracing::warn!(url, %error, "replica left out"),
            }
        }
        std::future::pending().await
    }
}

/// Shares a limit among replicas as evenly as it goes; where the limit is smaller than their number, some get nothing.
pub(super) fn shares(limit: Option<u32>, each: u32, replicas: usize) -> Vec<u32> {
    let count = u32::try_from(replicas).unwrap_or(u32::MAX).max(1);
    let total = limit.unwrap_or_else(|| each.saturating_mul(count)).max(1);
    let (share, rest) = (total / count, total % count);
    (0..count)
        .take(replicas)
        .map(|index| share + u32::from(index < rest))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::{GraderSpec, Normalise};
    use tidemill_testkit::FakeEngine;

    fn config(patience: Duration) -> Loader {
        Loader {
            endpoint_patience: patience,
            max_in_flight: 8,
            ..Loader::default()
        }
    }

    fn slots(engines: &Engines) -> Vec<u32> {
        let replicas = engines.replicas();
        replicas.iter().map(|replica| replica.max_in_flight).collect()
    }

    #[test]
    fn a_limit_is_shared_without_a_rest_and_without_excess() {
        assert_eq!(shares(Some(1), 256, 2), [1, 0]);
        assert_eq!(shares(Some(7), 256, 3), [3, 2, 2]);
        assert_eq!(shares(Some(0), 256, 2), [1, 0]);
        assert_eq!(shares(None, 16, 2), [16, 16]);
    }

    #[tokio::test]
    async fn one_that_answers_serves_while_another_is_away_and_joins_later() {
        let (first, second) = (FakeEngine::start().unwrap(), FakeEngine::start().unwrap());
        second.set_down(true).unwrap();
        let urls = [second.url(), first.url()];
        let begun = Instant::now();
        let mut engines = attach(&config(Duration::from_secs(60)), Some(5), &urls, first.model())
            .await
            .unwrap();
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(slots(&engines), [5]);
        second.set_down(false).unwrap();
        engines.joined().await;
        assert_eq!(slots(&engines), [3, 2]);
        assert!(engines.set_limit(Some(1)) && !engines.set_limit(Some(1)));
        assert_eq!(slots(&engines), [1]);
    }

    #[tokio::test]
    async fn no_endpoint_of_use_is_an_error_with_the_reason_of_each() {
        let (wrong, away) = (FakeEngine::start().unwrap(), FakeEngine::start().unwrap());
        away.set_down(true).unwrap();
        let urls = [wrong.url(), away.url()];
        let refused = attach(&config(Duration::ZERO), None, &urls, "another-model").await;
        let error = refused.err().unwrap();
        assert!(!error.is_passing());
        let text = error.to_string();
        assert!(urls.iter().all(|url| text.contains(url.as_str())), "{text}");
        assert!(text.contains("another-model"), "{text}");
    }

    #[test]
    fn the_kinds_of_the_configuration_are_those_that_there_are() {
        for kind in EngineKind::ALL {
            assert_eq!(kind_named(kind.label()), Some(kind));
            let environment = [("TIDEMILL_LOADER__ENGINE_KIND".to_owned(), kind.label().to_owned())];
            let config = tidemill_config::load(None, environment).unwrap();
            assert_eq!(config.loader.engine_kind, kind.label());
        }
        assert_eq!(kind_named(&Loader::default().engine_kind), None);
        let environment = [("TIDEMILL_LOADER__ENGINE_KIND".to_owned(), "vlmm".to_owned())];
        let error = tidemill_config::load(None, environment).unwrap_err().to_string();
        assert!(error.contains("vlmm") && error.contains("sglang"), "{error}");
    }

    #[tokio::test]
    async fn a_suite_by_likelihood_is_refused_before_any_item_where_no_prompt_has_log_probabilities() {
        let engine = FakeEngine::start().unwrap();
        let config = Loader {
            engine_kind: "llamacpp".to_owned(),
            ..config(Duration::from_secs(30))
        };
        let mut engines = attach(&config, None, &[engine.url()], engine.model()).await.unwrap();
        assert_eq!(engines.replicas()[0].kind, EngineKind::LlamaCpp);
        let mut manifest = crate::dispatch::tests::manifest_of(&[("choices", 1, 1, 8)]);
        assert_eq!(engines.refusal(&manifest), None);
        manifest.benchmarks[0].penalties.presence = 0.5;
        let reason = engines.refusal(&manifest).unwrap();
        for part in [engine.url().as_str(), "presence", "choices"] {
            assert!(reason.contains(part), "{reason}");
        }
        manifest.benchmarks[0].grader = GraderSpec::Likelihood {
            normalise: Normalise::None,
        };
        let reason = engines.refusal(&manifest).unwrap();
        for part in [engine.url().as_str(), "likelihood", "choices"] {
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[tokio::test]
    async fn one_that_joins_late_and_lacks_what_is_wanted_is_left_out_with_the_reason() {
        let engine = FakeEngine::builder().max_context(100).start().unwrap();
        let config = Loader {
            engine_kind: "vllm".to_owned(),
            ..config(Duration::from_secs(30))
        };
        let mut engines = attach(&config, None, &[engine.url()], engine.model()).await.unwrap();
        let mut manifest = crate::dispatch::tests::manifest_of(&[("wants", 1, 1, 90)]);
        manifest.benchmarks[0].penalties.presence = 0.5;
        assert_eq!(engines.refusal(&manifest), None);
        let late = |kind, context_length| Present {
            url: "http://late".to_owned(),
            described: tidemill_inference::Described {
                context_length,
                owned_by: None,
            },
            kind,
            scoring_refusal: None,
        };
        assert_eq!(engines.late_refusal(&late(EngineKind::Vllm, Some(90))), None);
        let reason = engines.late_refusal(&late(EngineKind::LlamaCpp, None)).unwrap();
        for part in ["http://late", "presence", "wants"] {
            assert!(reason.contains(part), "{reason}");
        }
        let reason = engines.late_refusal(&late(EngineKind::Vllm, Some(89))).unwrap();
        for part in ["89", "90", "wants"] {
            assert!(reason.contains(part), "{reason}");
        }
    }

    #[tokio::test]
    async fn a_context_shorter_than_a_cap_is_refused_with_both_values() {
        let engine = FakeEngine::builder().max_context(100).start().unwrap();
        let urls = [engine.url()];
        let mut engines = attach(&config(Duration::from_secs(30)), None, &urls, engine.model())
            .await
            .unwrap();
        let manifest = |max_tokens| crate::dispatch::tests::manifest_of(&[("long", 1, 1, max_tokens)]);
        assert_eq!(engines.refusal(&manifest(100)), None);
        let reason = engines.refusal(&manifest(101)).unwrap();
        for part in [urls[0].as_str(), "context of 100", "long", "101"] {
            assert!(reason.contains(part), "{reason}");
        }
    }
}
