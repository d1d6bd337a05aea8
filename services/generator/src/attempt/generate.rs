//! Asking for a completion: what has arrived of it outlives the tries.

use tidemill_domain::{Continuation, Ending, Partial, Timestamp};
use tidemill_inference::{Answer, Attempt, Capabilities, Connection, Engine, Request, Verdict};
use tidemill_service::now;
use tokio::sync::watch;

use super::Ask;
use crate::parking::Spot;

/// Asks for a completion.
pub(crate) struct Generate<'a> {
    request: Request<'a>,
    continuation: Continuation,
    /// Where the answer is saved on the way, and after how many new tokens.
    saving: Option<(Spot<'a>, u64)>,
    /// What has arrived of the answer. Nothing of it is an answer before an engine says that it has ended.
    partial: Partial,
    /// When the answer's first token arrived; unknown where another process saw it.
    first_token: Option<Timestamp>,
}

impl<'a> Generate<'a> {
    /// A question of which nothing has arrived and nothing is saved.
    pub(crate) fn new(request: Request<'a>, continuation: Continuation) -> Self {
        Self {
            request,
            continuation,
            saving: None,
            partial: Partial::default(),
            first_token: None,
        }
    }

    /// Goes on from `partial`, and saves each `every` new tokens.
    pub(crate) fn saved_at(mut self, spot: Spot<'a>, partial: Option<Partial>, every: u32) -> Self {
        self.saving = Some((spot, u64::from(every.max(1))));
        self.partial = partial.unwrap_or_default();
        self
    }

    /// Saves what has arrived for whoever goes on with it.
    pub(crate) async fn park(&mut self) {
        if self.is_continuable()
            && let Some((spot, _)) = &mut self.saving
        {
            spot.save(&self.partial).await;
        }
    }

    /// How often the answer was continued.
    pub(crate) const fn continuations(&self) -> u32 {
        self.partial.continuations
    }

    /// When the answer's first token arrived.
    pub(crate) const fn first_token(&self) -> Option<Timestamp> {
        self.first_token
    }

    /// What has arrived can be continued exactly, if an engine can.
    fn is_continuable(&self) -> bool {
        self.continuation == Continuation::Exact && self.partial.is_continuable(&self.request.penalties)
    }

    /// Another try: goes on from what there is, or drops it.
    fn begin(&mut self, capabilities: Capabilities) {
        if self.partial.is_empty() {
            return;
        }
        if self.is_continuable() && capabilities.continues {
            self.partial.continuations += 1;
        } else {
            // Asked for from the start, with the same seed.
            self.partial = Partial::default();
            self.first_token = None;
        }
    }
}

impl<E: Engine> Ask<E> for Generate<'_> {
    type Answer = Answer;

    fn ending(answer: &Answer) -> Ending {
        answer.ending
    }

    async fn ask(&mut self, engine: &E, connection: Connection) -> Attempt<Answer> {
        let may_pause = <Self as Ask<E>>::may_pause(self, engine);
        self.begin(engine.capabilities());
        let (is_new, begun) = (self.partial.is_empty(), now());
        let Self {
            request,
            saving,
            partial,
            first_token,
            ..
        } = self;
        let attempt = match saving.as_mut().filter(|_| may_pause) {
            None => engine.complete(request, connection, partial).await,
            Some((spot, every)) => {
                let (saves, saved) = watch::channel(None);
                let mut save_at = partial.completion_tokens + *every;
                let mut grown = |partial: &Partial| {
                    if is_new && first_token.is_none() {
                        *first_token = Some(now());
                    }
                    if partial.completion_tokens >= save_at {
                        save_at = partial.completion_tokens + *every;
                        saves.send_replace(Some(partial.clone()));
                    }
                };
                tokio::select! { biased;
                    attempt = engine.complete_watched(request, connection, partial, &mut grown) => attempt,
                    never = spot.follow(saved) => match never {},
                }
            }
        };
        if let Verdict::Done(Answer {
            first_token_after: Some(after),
            ..
        }) = &attempt.verdict
            && is_new
        {
            first_token.get_or_insert(begun.later_by(*after));
        }
        attempt
    }

    fn kept(&self, engine: &E) -> u64 {
        if self.is_continuable() && engine.capabilities().continues {
            self.partial.completion_tokens
        } else {
            0
        }
    }

    fn may_pause(&self, engine: &E) -> bool {
        self.request.stream && self.continuation == Continuation::Exact && engine.capabilities().continues
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
