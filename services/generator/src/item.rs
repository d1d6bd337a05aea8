//! One released item, from its delivery to its stored completion.

use std::sync::Arc;

use futures::FutureExt as _;
use tidemill_domain::{
    AnswerLength, Asked as Draw, Benchmark, Class, Completion, Continuation, Digest, Ending, Item, ItemKey, Manifest,
    Release, Served, Timestamp,
};
use tidemill_inference::{Answer, Engine, Request, Scoring};
use tidemill_service::fault::{self, Point};
use tidemill_service::leader::Looks;
use tidemill_service::settle::Failure;
use tidemill_service::{Context, Delivery, Settled, Ttl, check_in, now, outcome, span};
use tidemill_storage::StoredItem;
use tidemill_streams::{Message as _, subject};
use tidemill_telemetry::{Metric, Warning};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::attempt::{Budget, Course, Ended, Generate, GivenBack, Places, Score, Signals, Tally, ask};
use crate::cache::{Cache, Earlier};
use crate::keys::Keys;
use crate::parking::Parking;
use crate::pool::{Pool, Wish};
use crate::sent;
use crate::step::{Action, Asked, Event, is_good, next};

/// How much of a choice an error shows, in characters.
const SHOWN_CHARACTERS: usize = 40;

/// What the items of one group share.
pub(crate) struct Worker<E> {
    pub(crate) context: Context,
    pub(crate) pool: Pool<E>,
    pub(crate) signals: Signals,
    /// The requests that this process may have in flight, over all groups.
    pub(crate) room: Arc<Semaphore>,
    /// The items that this process works on, over all groups.
    pub(crate) keys: Arc<Keys>,
    /// What was generated from the group's weights before.
    pub(crate) cache: Cache,
    /// What was interrupted of the group's answers.
    pub(crate) parking: Parking,
    /// Identity of the group's weights.
    pub(crate) weights: Digest,
    /// Looks into DONE, over all groups.
    pub(crate) looks: Looks,
}

/// What became of asking, before it is a record.
struct Outcome {
    answer: Answer,
    choices: Vec<tidemill_domain::ChoiceScore>,
    detail: Option<String>,
    continuations: u32,
    first_token: Option<Timestamp>,
}

/// Counts an item in, and out when dropped.
struct Inside;

impl Inside {
    fn enter() -> Self {
        tidemill_telemetry::count(Metric::ItemsEntered, []);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        tidemill_telemetry::count(Metric::ItemsLeft, []);
    }
}

impl<E: Engine> Worker<E> {
    /// Handles a delivery as [`step`](crate::step) says.
    pub(crate) async fn handle(&self, delivery: Delivery) -> Settled {
        let release: Release = tidemill_codec::decode(&delivery.payload)?;
        let _held = Arc::clone(&self.keys).hold(release.key.clone()).await;
        let (mut event, mut looked) = (Event::Delivered, Instant::now());
        loop {
            event = match next(event) {
                Action::LookUp => {
                    looked = Instant::now();
                    let recorded = self.is_recorded(&release.key).await;
                    let ago = looked.elapsed();
                    if let Ok(true) = recorded {
                        self.parking.clear_of(&release, &delivery).await;
                    }
                    Event::Looked { recorded, ago }
                }
                Action::Ask => Event::Asked(self.asked(&release, &delivery, looked).await),
                Action::Publish { completion, then } => Event::Published {
                    stored: self.record(&completion, &delivery).await,
                    then,
                },
                Action::Settle(settled) => return settled,
            };
        }
    }

    /// Gets what asking takes, and asks when the look that was sent at `looked` is still good.
    async fn asked(&self, release: &Release, delivery: &Delivery, looked: Instant) -> Asked {
        let found = match self.find(release).await {
            Ok(found) => found,
            Err(error) => return self.without_item(release, &error).await,
        };
        let Some((manifest, item)) = found else {
            let reason = format!("manifest {} declares no {}", release.manifest, release.key);
            return hopeless(release, Failure::permanent(reason));
        };
        if !is_good(looked.elapsed()) {
            return Asked::TooLate;
        }
        let benchmark = &manifest.benchmarks[release.key.benchmark as usize];
        let earlier = tokio::select! { biased;
            () = self.signals.stopped.cancelled() => return Asked::Failed(Failure::cancelled()),
            () = delivery.stopped.cancelled() => return Asked::Failed(Failure::cancelled()),
            earlier = self.cache.earlier(release, delivery, benchmark, &item) => earlier,
        };
        let wanted = match earlier {
            Ok(Earlier::Found(completion)) => return Asked::Completed(completion),
            Ok(Earlier::None(wanted)) => wanted,
            Err(failure) => return Asked::Failed(failure),
        };
        let completed = tokio::select! { biased;
            completed = self.complete(release, delivery, benchmark, &item, looked) => completed,
            () = delivery.stopped.cancelled() => Err(GivenBack::Stopped),
        };
        match completed {
            Ok(mut completion) => {
                fault::point(Point::GeneratorAnswered);
                self.cache.keep(&mut completion, wanted).await;
                fault::point(Point::GeneratorKept);
                Asked::Completed(Box::new(completion))
            }
            Err(given_back) => {
                match given_back {
                    GivenBack::Overtaken => self.parking.clear(&release.key).await,
                    GivenBack::Stopped => drop(self.parking.forget(&release.key)),
                }
                Asked::Failed(Failure::cancelled())
            }
        }
    }

    /// The manifest of a release and its item; `None` when the manifest does not declare it.
    async fn find(&self, release: &Release) -> Result<Option<(Arc<Manifest>, StoredItem)>, tidemill_storage::Error> {
        let store = &self.context.store;
        let manifest = store.manifest(&release.manifest).await?;
        let item = store.item(&manifest, &release.key).await?;
        Ok(item.map(|item| (manifest, item)))
    }

    /// What an unreadable manifest means for its item: waiting, for the store or for a newer generator, or its end. A release
    /// of an evaluation that nobody knows has nothing to wait for.
    async fn without_item(&self, release: &Release, error: &tidemill_storage::Error) -> Asked {
        let evaluation = &release.key.evaluation;
        if matches!(error, tidemill_storage::Error::Missing { .. }) {
            match outcome::newest_event(&self.context, evaluation).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let reason =
                        format!("evaluation {evaluation} is not known, and its manifest is not there ({error})");
                    return Asked::Failed(Failure::permanent(reason));
                }
                Err(failure) => return Asked::Failed(failure),
            }
        }
        let failure = Failure::of(error.class(), error);
        if failure.class == Class::Permanent {
            return hopeless(release, failure);
        }
        Asked::Failed(failure)
    }

    /// Whether DONE holds the key's completion.
    async fn is_recorded(&self, key: &ItemKey) -> Result<bool, Failure> {
        let recorded = self.looks.holds(subject::done(key)).await;
        recorded.map_err(|error| Failure::of(Class::Transient, &error))
    }

    async fn record(&self, completion: &Completion, delivery: &Delivery) -> Settled {
        let trace = delivery.trace.map(|trace| trace.child("generate"));
        let payload = check_in::<Completion>(&self.context, &completion.key, completion.payload()?).await?;
        fault::point(Point::GeneratorBodyStored);
        let publisher = &self.context.publisher;
        publisher
            .publish_bytes::<Completion>(
                completion.subject(),
                payload,
                trace,
                Ttl::Stream,
                length_header(completion),
            )
            .await?;
        fault::point(Point::GeneratorPublished);
        span("generate", &completion.key, trace);
        self.parking.clear(&completion.key).await;
        self.cache.keep_late(completion).await;
        if !completion.cached {
            tidemill_telemetry::add(Metric::PromptTokens, completion.prompt_tokens, []);
            tidemill_telemetry::add(Metric::CompletionTokens, completion.completion_tokens, []);
            count_prefix(&completion.served);
        }
        if matches!(completion.ending, Ending::EngineError) {
            let reason = completion.detail.as_deref().unwrap_or_default();
            let warning = Warning {
                message: "no answer within the budget",
                scope: completion.key.evaluation.as_str(),
                reason,
            };
            if tidemill_telemetry::is_said(warning) {
                tracing::warn!(item_id = %completion.key, attempts = completion.attempts, reason, "no answer within the budget");
            }
        }
        Ok(())
    }

    /// Asks, after a look that was sent at `looked`.
    async fn complete(
        &self,
        release: &Release,
        delivery: &Delivery,
        benchmark: &Benchmark,
        item: &Item,
        looked: Instant,
    ) -> Result<Completion, GivenBack> {
        let _inside = Inside::enter();
        let key = &release.key;
        let mut course = Course::begin(move || self.is_recorded(key).boxed()).after(looked);
        let outcome = if benchmark.is_likelihood() {
            self.score(release, benchmark, item, &mut course).await?
        } else {
            self.generate(release, delivery, benchmark, item, &mut course).await?
        };
        Ok(completion(release, outcome, course.tally))
    }

    async fn generate(
        &self,
        release: &Release,
        delivery: &Delivery,
        benchmark: &Benchmark,
        item: &Item,
        course: &mut Course<'_>,
    ) -> Result<Outcome, GivenBack> {
        let config = &self.context.config.generator;
        course.tally.reusable = (release.prefix != 0).then(|| self.pool.sent_before(&item.prompt));
        let settings = &benchmark.settings;
        let request = Request {
            prompt: &item.prompt,
            max_tokens: settings.max_tokens,
            temperature: settings.temperature,
            top_p: settings.top_p,
            stop: &settings.stop,
            seed: Some(settings.sample_seed(&item.id, release.key.sample)),
            penalties: benchmark.penalties,
            stream: settings.max_tokens > config.stream_above,
            stall_timeout: config.stall_timeout,
        };
        let mut question = Generate::new(request, benchmark.continuation);
        if request.stream && benchmark.continuation == Continuation::Exact {
            let mut spot = self
                .parking
                .spot(release, Draw::of(&self.weights, benchmark, item, release.key.sample));
            let partial = match self.parking.may_hold(release, delivery) {
                true => spot.find().await?,
                false => None,
            };
            question = question.saved_at(spot, partial, config.park_every_tokens);
        }
        let ended = ask(
            self.places(release, benchmark, item),
            &mut question,
            self.budget(),
            &self.signals,
            course,
        )
        .await;
        if ended == Err(GivenBack::Stopped) {
            question.park().await;
        }
        let mut outcome = match ended? {
            Ended::Answered(answer) => Outcome {
                detail: (answer.ending == Ending::Empty)
                    .then(|| "the engine said success and sent nothing, however often it was asked".to_owned()),
                choices: Vec::new(),
                answer,
                continuations: 0,
                first_token: None,
            },
            Ended::Failed(ending, detail) => Outcome::without_answer(ending, detail),
        };
        outcome.continuations = question.continuations();
        outcome.first_token = question.first_token();
        Ok(outcome)
    }

    /// Scores the choices one after another, so that an item never takes more than its one slot.
    async fn score(
        &self,
        release: &Release,
        benchmark: &Benchmark,
        item: &Item,
        course: &mut Course<'_>,
    ) -> Result<Outcome, GivenBack> {
        let Some(contexts) = item.contexts() else {
            let detail = "likelihood needs a text prompt: a chat prompt's text is known to the server alone";
            return Ok(Outcome::without_answer(Ending::EngineError, detail.to_owned()));
        };
        let prepare = if benchmark.grader.scores_whole_texts() {
            Scoring::of_whole_text
        } else {
            Scoring::new
        };
        let mut known = contexts.first().copied().unwrap_or_default();
        let mut scoring = prepare(known);
        let mut outcome = Outcome::without_answer(Ending::Scored, String::new());
        outcome.detail = None;
        for (choice, context) in item.choices.iter().zip(contexts) {
            // What was learnt of a context says nothing of another one.
            if context != known {
                (known, scoring) = (context, prepare(context));
            }
            let mut question = Score {
                scoring: &mut scoring,
                choice,
            };
            match ask(
                self.places(release, benchmark, item),
                &mut question,
                self.budget(),
                &self.signals,
                course,
            )
            .await?
            {
                Ended::Answered(scored) => {
                    outcome.choices.push(scored.choice);
                    outcome.answer.prompt_tokens += scored.prompt_tokens;
                    outcome.answer.completion_tokens += scored.completion_tokens;
                }
                // A sample with some of its choices has no answer: the missing one might have been the best.
                Ended::Failed(ending, detail) => {
                    outcome.choices.clear();
                    outcome.answer.ending = ending;
                    outcome.detail = Some(format!("choice {}: {detail}", excerpt(choice)));
                    break;
                }
            }
        }
        Ok(outcome)
    }

    fn places(&self, release: &Release, benchmark: &Benchmark, item: &Item) -> Places<'_, E> {
        Places {
            pool: &self.pool,
            room: &self.room,
            wish: Wish {
                prefix: if self.context.config.generator.prefix_affinity {
                    release.prefix
                } else {
                    0
                },
                prompt_tokens: sent::tokens(&item.prompt),
                expected_tokens: release.expected_tokens,
                is_spare: benchmark.is_spare(release.key.sample),
                ..Wish::default()
            },
        }
    }

    fn budget(&self) -> Budget {
        Budget::new(self.context.config.generator.attempts)
    }
}

/// The beginning of a choice, enough to tell it from the others.
fn excerpt(choice: &str) -> String {
    match choice.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{:?}...", &choice[..end]),
        None => format!("{choice:?}"),
    }
}

/// What the dispatcher learns of a completion without reading it.
fn length_header(completion: &Completion) -> async_nats::HeaderMap {
    let mut headers = async_nats::HeaderMap::new();
    if let Some(length) = AnswerLength::of(completion) {
        headers.insert(AnswerLength::HEADER, length.to_string());
    }
    headers
}

/// Counts what engines had of prompts in their caches, and what they could have had, where both are known.
fn count_prefix(served: &Served) {
    if let (Some(hit), Some(possible)) = (served.cached_tokens, served.reusable_tokens) {
        tidemill_telemetry::add(Metric::PrefixHitTokens, hit, []);
        tidemill_telemetry::add(Metric::PrefixPossibleTokens, possible, []);
    }
}

/// Records that an item will never be asked, so that it is not released again and its evaluation can end.
fn hopeless(release: &Release, failure: Failure) -> Asked {
    let outcome = Outcome::without_answer(Ending::EngineError, failure.reason.clone());
    Asked::Hopeless(Box::new(completion(release, outcome, Tally::default())), failure)
}

impl Outcome {
    fn without_answer(ending: Ending, detail: String) -> Self {
        Self {
            answer: Answer {
                ending,
                text: String::new(),
                reasoning: None,
                finish_reason: None,
                stop_reason: None,
                truncated: false,
                prompt_tokens: 0,
                completion_tokens: 0,
                cached_tokens: None,
                first_token_after: None,
            },
            choices: Vec::new(),
            detail: Some(detail),
            continuations: 0,
            first_token: None,
        }
    }
}

fn completion(release: &Release, outcome: Outcome, tally: Tally) -> Completion {
    let Outcome {
        answer,
        choices,
        detail,
        continuations,
        first_token,
    } = outcome;
    let finished = now();
    Completion {
        key: release.key.clone(),
        manifest: release.manifest.clone(),
        ending: answer.ending,
        text: answer.text,
        reasoning: answer.reasoning,
        finish_reason: answer.finish_reason,
        stop_reason: answer.stop_reason,
        truncated: answer.truncated,
        choices,
        detail,
        prompt_tokens: answer.prompt_tokens,
        completion_tokens: answer.completion_tokens,
        requests: tally.requests,
        attempts: tally.attempts,
        cached: false,
        served: Served {
            cached_tokens: answer.cached_tokens,
            // Tokens are counted by the engine alone, so their share is that of the bytes.
            reusable_tokens: tally.reusable.map(|share| (share * answer.prompt_tokens as f64) as u64),
            first_token,
            continuations,
        },
        generation: None,
        engine: tally.engine,
        started: tally.started.unwrap_or(finished),
        finished,
    }
}

#[cfg(test)]
mod tests {
    use super::excerpt;

    #[test]
    fn a_long_choice_is_told_by_its_beginning() {
        assert_eq!(excerpt(" b"), "\" b\"");
        assert_eq!(excerpt(&"é".repeat(41)), format!("\"{}\"...", "é".repeat(40)));
    }
}
