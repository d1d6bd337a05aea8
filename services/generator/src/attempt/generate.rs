//! Asking for a completion: what has arrived of it outlives the tries.

use tidemill_domain::{Continuation, Ending, Mark, Partial, Timestamp};
use tidemill_inference::{Answer, Attempt, Connection, Engine, Request, Verdict};
use tidemill_service::now;
use tokio::sync::watch;

use super::{Ask, Flows};
use crate::parking::Spot;
use crate::replicas::Took;

/// Asks for a completion.
pub(crate) struct Generate<'a> {
    request: Request<'a>,
    continuation: Continuation,
    /// Where the answer is saved on the way, and after how many new tokens.
    saving: Option<(Spot<'a>, u64)>,
    /// What has arrived of the answer. Nothing of it is an answer before an engine says that it has ended.
    partial: Partial,
    /// How much of it has all its token ids.
    settled: Mark,
    /// When the answer's first token arrived; unknown where another process saw it.
    first_token: Option<Timestamp>,
    /// The last try has brought tokens.
    has_begun: bool,
}

impl<'a> Generate<'a> {
    /// A question of which nothing has arrived and nothing is saved.
    pub(crate) fn new(request: Request<'a>, continuation: Continuation) -> Self {
        Self {
            request,
            continuation,
            saving: None,
            partial: Partial::default(),
            settled: Mark::default(),
            first_token: None,
            has_begun: false,
        }
    }

    /// Goes on from `partial`, and saves each `every` new tokens.
    pub(crate) fn saved_at(mut self, spot: Spot<'a>, partial: Option<Partial>, every: u32) -> Self {
        self.saving = Some((spot, u64::from(every.max(1))));
        self.partial = partial.unwrap_or_default();
        self.settled = self.partial.mark();
        self
    }

    /// Saves what has arrived for whoever goes on with it.
    pub(crate) async fn park(&mut self) {
        self.settle();
        if let Some((spot, _)) = self.saving.as_mut().filter(|_| self.partial.has_tokens()) {
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

    /// A try that ended in the middle of a character left tokens whose text is not known: they are taken back.
    fn settle(&mut self) {
        if !self.partial.has_tokens() {
            self.partial.take_back(self.settled);
        }
    }

    /// The next try begins at `engine`: drops what it would not go on from.
    fn begin<E: Engine>(&mut self, engine: &E) {
        self.settle();
        if self.continuation == Continuation::Never || !engine.goes_on(&self.request, &self.partial) {
            // Asked for from the start, with the same seed.
            self.partial = Partial::default();
            self.first_token = None;
            self.settled = Mark::default();
        }
    }
}

impl<E: Engine> Ask<E> for Generate<'_> {
    type Answer = Answer;

    fn ending(answer: &Answer) -> Ending {
        answer.ending
    }

    fn took(answer: &Answer) -> Took {
        Took {
            tokens: answer.completion_tokens,
            first_token: answer.first_token_after,
        }
    }

    async fn ask(&mut self, engine: &E, connection: Connection, flows: Flows<'_>) -> Attempt<Answer> {
        self.begin(engine);
        self.has_begun = false;
        if !self.request.stream {
            return engine.complete(&self.request, connection, &mut self.partial).await;
        }
        let (is_new, begun) = (self.partial.is_empty(), now());
        let held = self.partial.completion_tokens;
        let Self {
            request,
            saving,
            partial,
            settled,
            first_token,
            has_begun,
            ..
        } = self;
        let (saves, saved) = watch::channel(None);
        let every = saving.as_ref().map_or(u64::MAX, |(_, every)| *every);
        let mut save_at = partial.completion_tokens.saturating_add(every);
        let mut grown = |partial: &Partial| {
            // The event that ends an answer need not bring a token.
            *has_begun |= partial.completion_tokens > 0 && partial.completion_tokens != held;
            flows();
            if is_new {
                first_token.get_or_insert_with(now);
            }
            if !partial.has_tokens() {
                return;
            }
            *settled = partial.mark();
            if partial.completion_tokens >= save_at {
                save_at = partial.completion_tokens + every;
                saves.send_replace(Some(partial.clone()));
            }
        };
        let asking = engine.complete_watched(request, connection, partial, &mut grown);
        let attempt = match saving {
            Some((spot, _)) => tokio::select! { biased;
                attempt = asking => attempt,
                never = spot.follow(saved) => match never {},
            },
            None => asking.await,
        };
        if let Verdict::Done(Answer {
            first_token_after: Some(after),
            ..
        }) = &attempt.verdict
            && is_new
        {
            // The moment at which it came, not that at which it was looked at.
            self.first_token = Some(begun.later_by(*after));
        }
        attempt
    }

    fn kept(&mut self, engine: &E) -> u64 {
        self.settle();
        if self.continuation == Continuation::Exact && engine.goes_on(&self.request, &self.partial) {
            self.partial.completion_tokens
        } else {
            0
        }
    }

    fn has_begun(&self) -> bool {
        self.has_begun
    }

    fn may_pause(&self, engine: &E) -> bool {
        self.request.stream && self.continuation == Continuation::Exact && engine.may_continue(&self.request)
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
