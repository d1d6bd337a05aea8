//! The evaluations of a group: taken up, announced, given up.

use std::sync::Arc;

use tidemill_domain::{Class, EvaluationEvent, EvaluationId, EvaluationState, Manifest};
use tidemill_service::fault::{self, Point};
use tidemill_service::{Obstacle, now};
use tidemill_streams::{StateChange, declared, subject};
use tokio::time::Instant;

use super::Runner;
use crate::engine::Engines;
use crate::{cached, released};

/// How long an object store that does not answer is left alone.
const ASK_STORE_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

impl Runner {
    /// Gives live evaluations that the dispatcher does not have yet to it.
    pub(super) async fn take_up(&mut self, engines: &mut Engines) {
        let is_asked_lately = |(asked, _): &(Instant, _)| asked.elapsed() < ASK_STORE_AGAIN_AFTER;
        if self.store_away.as_ref().is_some_and(is_asked_lately) {
            return;
        }
        let mut store_away = self.store_away.take().map(|(_, waiting)| waiting);
        let mut is_new = false;
        for event in self.live.clone() {
            if self.followed.contains_key(&event.evaluation) || self.awaited.is_recent(&event.evaluation) {
                continue;
            }
            let manifest = match self.manifest(&event).await {
                Ok(manifest) => manifest,
                Err(error) if error.is_of_the_store() => {
                    let reason = error.to_string();
                    tracing::warn!(evaluation_id = %event.evaluation, reason, "the manifest cannot be read; waiting");
                    let waits = &self.context.waits;
                    let waiting = store_away
                        .take()
                        .unwrap_or_else(|| waits.begin(Obstacle::ObjectStore, &reason));
                    waiting.because(&reason);
                    self.store_away = Some((Instant::now(), waiting));
                    break;
                }
                Err(error) if error.class() != Class::Transient => {
                    let reason = format!("its manifest {} cannot be used: {error}", event.manifest);
                    self.abandon(&event, &reason).await;
                    continue;
                }
                Err(error) => {
                    self.wait_for_manifest(&event, &error).await;
                    continue;
                }
            };
            self.awaited.forget(&event.evaluation);
            if let Some(reason) = engines.refusal(&manifest) {
                self.abandon(&event, &reason).await;
                continue;
            }
            let again = event.timeline.serving.is_some();
            self.dispatcher.add(
                event.evaluation.clone(),
                event.manifest.clone(),
                Arc::clone(&manifest),
                &[],
                again,
            );
            self.dispatcher
                .bill(&event.evaluation, event.team.clone(), event.decision_value);
            self.read_lengths(&event.evaluation, &event.run, manifest);
            // Nothing is released before all of them are known: one task does both.
            let (dispatcher, coming) = (&mut self.dispatcher, self.coming.clone());
            let guard = released::completions(&self.context, &event.evaluation, coming, dispatcher).await;
            fault::point(Point::LoaderCompletionsRead);
            self.followed.insert(event.evaluation.clone(), guard);
            is_new = true;
        }
        if is_new {
            // What lay there before is asked about anew: it was passed over while its evaluation was not here.
            self.held.forget();
            self.look_for_held(Instant::now()).await;
        }
        if is_new && self.context.config.cache.enabled {
            self.share().await;
        }
    }

    /// Lets evaluations take part in the generation cache.
    ///
    /// Of an evaluation that is alone with new weights nothing needs to be known: all of its answers are left in the cache
    /// and none can be there. What it asks for is computed once there is something to share.
    async fn share(&mut self) {
        let is_followed = |event: &&EvaluationEvent| self.followed.contains_key(&event.evaluation) && !event.no_cache;
        let sharing: Vec<EvaluationEvent> = self.live.iter().filter(is_followed).cloned().collect();
        if sharing.is_empty() {
            return;
        }
        if !std::mem::replace(&mut self.knows_cache, true) {
            self.dispatcher.learn(cached::known(&self.context, &self.group).await);
        }
        for event in &sharing {
            self.dispatcher.keep(&event.evaluation);
            let store = &self.context.store;
            let Ok(manifest) = store.manifest(&event.manifest).await else {
                continue;
            };
            // Benchmarks of one suite may ask the same, to grade it otherwise.
            let may_share = sharing.len() > 1 || manifest.benchmarks.len() > 1 || self.dispatcher.knows_generations();
            if !may_share || self.dispatcher.is_shared(&event.evaluation) {
                continue;
            }
            match cached::asked(store, &event.checkpoint, &manifest).await {
                Ok(generations) => self.dispatcher.share(&event.evaluation, generations),
                Err(error) => {
                    tracing::warn!(evaluation_id = %event.evaluation, %error, "takes nothing over from the generation cache");
                }
            }
        }
    }

    /// The manifest of an evaluation, once all its blocks are there too: nothing is released that could not be asked.
    async fn manifest(&self, event: &EvaluationEvent) -> Result<Arc<Manifest>, tidemill_storage::Error> {
        let manifest = self.context.store.manifest(&event.manifest).await?;
        self.context.store.prove_blocks(&manifest).await?;
        Ok(manifest)
    }

    /// Says once why an evaluation waits; the others go on.
    async fn wait_for_manifest(&mut self, event: &EvaluationEvent, error: &tidemill_storage::Error) {
        let reason = format!("waits for its manifest {}: {error}", event.manifest);
        tracing::warn!(evaluation_id = %event.evaluation, reason, "nothing is released yet");
        if !self.awaited.note(&event.evaluation, &reason) || !self.context.may_act() {
            return;
        }
        let next = event.next(event.state, now(), Some(reason));
        self.spoken.insert(next.evaluation.clone(), next.at);
        if let Err(error) = self.context.publisher.publish(&StateChange(next), None).await {
            tracing::warn!(evaluation_id = %event.evaluation, %error, "state not published");
        }
    }

    /// Takes events in. What is ended or nearly so leaves the group.
    pub(super) async fn absorb(&mut self, events: Vec<EvaluationEvent>) {
        for event in events {
            if self.is_echo(&event) {
                continue;
            }
            let is_live = !event.state.is_ended() && event.state != EvaluationState::Draining;
            let before = self.live.len();
            self.live.retain(|known| known.evaluation != event.evaluation);
            let was_live = self.live.len() < before;
            if is_live {
                self.live.push(event);
                continue;
            }
            self.keep_lengths_of(&event.evaluation, &event.run);
            self.dispatcher.remove(&event.evaluation);
            self.followed.remove(&event.evaluation);
            self.awaited.forget(&event.evaluation);
            if was_live && event.state == EvaluationState::Superseded {
                self.recall(&event.evaluation).await;
            }
        }
        self.live.sort_by_key(|event| event.timeline.queued);
    }

    /// A state that only the group's holder publishes, from before the last one that this runner published.
    fn is_echo(&self, event: &EvaluationEvent) -> bool {
        use EvaluationState::{Admitted, Serving, Starting};
        let spoken = self.spoken.get(&event.evaluation);
        matches!(event.state, Admitted | Starting | Serving) && spoken.is_some_and(|at| event.at < *at)
    }

    /// Publishes a state for every live evaluation that is not in it or past it.
    pub(super) async fn announce(&mut self, state: EvaluationState) {
        for event in &mut self.live {
            if !self.context.may_act() {
                return;
            }
            if state == EvaluationState::Serving && self.awaited.contains(&event.evaluation) {
                continue;
            }
            let is_past = event.state == state || (event.state == EvaluationState::Serving && state != event.state);
            if is_past {
                continue;
            }
            let next = event.next(state, now(), None);
            match self.context.publisher.publish(&StateChange(next.clone()), None).await {
                Ok(_) => {
                    match state {
                        EvaluationState::Admitted => fault::point(Point::LoaderAdmitted),
                        EvaluationState::Starting => fault::point(Point::LoaderStarting),
                        _ => fault::point(Point::LoaderServing),
                    }
                    self.spoken.insert(next.evaluation.clone(), next.at);
                    *event = next;
                }
                Err(error) => tracing::warn!(evaluation_id = %event.evaluation, %error, "state not published"),
            }
        }
    }

    /// Ends every live evaluation: what is known will be counted, and the result is invalid with the reason.
    pub(super) async fn give_up(&mut self, reason: &str) {
        if !self.context.may_act() {
            return;
        }
        tracing::error!(group = %self.group, reason, "given up");
        for event in self.live.clone() {
            self.abandon(&event, reason).await;
        }
    }

    /// Ends one evaluation so. One that may be another loader's by now is left to that.
    pub(super) async fn abandon(&mut self, event: &EvaluationEvent, reason: &str) {
        if !self.context.may_act() {
            return;
        }
        self.dispatcher.remove(&event.evaluation);
        self.followed.remove(&event.evaluation);
        self.awaited.forget(&event.evaluation);
        self.live.retain(|known| known.evaluation != event.evaluation);
        self.recall(&event.evaluation).await;
        let next = event.next(EvaluationState::Draining, now(), Some(reason.to_owned()));
        self.spoken.insert(next.evaluation.clone(), next.at);
        if let Err(error) = self.context.publisher.publish(&StateChange(next), None).await {
            tracing::warn!(evaluation_id = %event.evaluation, %error, "state not published");
        }
    }

    /// Takes back what was released and not taken.
    async fn recall(&self, evaluation: &EvaluationId) {
        let filter = subject::ready_of_evaluation(&self.group, evaluation);
        let stream = self.context.jetstream().get_stream_no_info(declared::READY.name).await;
        let purged = match stream {
            Ok(stream) => stream
                .purge()
                .filter(filter)
                .await
                .map(drop)
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = purged {
            tracing::warn!(evaluation_id = %evaluation, error, "releases not taken back");
        }
    }
}
