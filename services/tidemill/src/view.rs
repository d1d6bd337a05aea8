//! What is known of evaluations while they run: a fold of EVALUATION and RESULT messages.

use std::collections::BTreeMap;

use tidemill_domain::{
    BenchmarkResult, EvaluationEvent, EvaluationId, EvaluationResult, EvaluationState, ResultMessage, ResultState,
    Timestamp,
};
use tidemill_service::{Context, Follow, Followed, Start};
use tidemill_streams::{declared, durable, evaluation_event};

/// One evaluation as it is known.
#[derive(Debug, Clone)]
pub(crate) struct Known {
    pub(crate) event: EvaluationEvent,
    sequence: u64,
    /// The newest result of each benchmark, by name, with its place in the stream.
    benchmarks: BTreeMap<String, (u64, BenchmarkResult)>,
}

/// All evaluations as they are known.
#[derive(Debug, Default)]
pub(crate) struct View {
    known: BTreeMap<EvaluationId, Known>,
    /// The newest results of benchmarks that came before their evaluation's first event.
    early: BTreeMap<EvaluationId, BTreeMap<String, (u64, BenchmarkResult)>>,
}

impl View {
    /// Takes in a message of the EVALUATION stream; any order.
    pub(crate) fn apply_event(&mut self, message: &Followed) -> Option<&Known> {
        let event = evaluation_event(&message.subject, &message.payload)?;
        let id = event.evaluation.clone();
        match self.known.get_mut(&id) {
            Some(known) if known.sequence >= message.sequence || !event.displaces(&known.event) => return None,
            Some(known) => {
                known.event = event;
                known.sequence = message.sequence;
            }
            None => {
                let benchmarks = BTreeMap::new();
                self.known.insert(
                    id.clone(),
                    Known {
                        event,
                        sequence: message.sequence,
                        benchmarks,
                    },
                );
            }
        }
        for (sequence, benchmark) in self.early.remove(&id).unwrap_or_default().into_values() {
            self.put(&id, sequence, benchmark);
        }
        self.known.get(&id)
    }

    /// Takes in a message of the RESULT stream; any order.
    pub(crate) fn apply_result(&mut self, message: &Followed) -> Option<ResultMessage> {
        let result: ResultMessage = serde_json::from_slice(&message.payload).ok()?;
        let benchmark = result.result.benchmarks.first()?.clone();
        self.put(&result.result.evaluation, message.sequence, benchmark);
        Some(result)
    }

    fn put(&mut self, id: &EvaluationId, sequence: u64, benchmark: BenchmarkResult) {
        let benchmarks = match self.known.get_mut(id) {
            Some(known) => &mut known.benchmarks,
            None => self.early.entry(id.clone()).or_default(),
        };
        let name = benchmark.name.to_string();
        if benchmarks.get(&name).is_none_or(|(newest, _)| *newest < sequence) {
            benchmarks.insert(name, (sequence, benchmark));
        }
    }

    /// Evaluations in the order of run, step and suite.
    pub(crate) fn evaluations(&self) -> Vec<&Known> {
        let mut known: Vec<&Known> = self.known.values().collect();
        known.sort_by_key(|known| {
            let event = &known.event;
            (
                event.run.to_string(),
                event.step,
                event.suite.name.to_string(),
                event.timeline.queued,
            )
        });
        known
    }

    pub(crate) fn get(&self, id: &EvaluationId) -> Option<&Known> {
        self.known.get(id)
    }
}

impl Known {
    /// The result: the whole one where the evaluation ended, else what is provisional.
    pub(crate) fn result(&self) -> EvaluationResult {
        let superseded = self.event.state == EvaluationState::Superseded;
        if let Some(result) = &self.event.result {
            let mut result = (**result).clone();
            if superseded {
                result.state = ResultState::Superseded;
                result.reason.clone_from(&self.event.reason);
            }
            return result;
        }
        let event = &self.event;
        EvaluationResult {
            schema: 1,
            evaluation: event.evaluation.clone(),
            state: match event.state {
                EvaluationState::Superseded => ResultState::Superseded,
                EvaluationState::Invalid => ResultState::Invalid,
                _ => ResultState::Serving,
            },
            reason: event.reason.clone(),
            run: event.run.clone(),
            step: event.step,
            team: event.team.clone(),
            checkpoint: event.checkpoint.clone(),
            suite: event.suite.clone(),
            benchmarks: self
                .benchmarks
                .values()
                .map(|(_, benchmark)| benchmark.clone())
                .collect(),
            groups: Vec::new(),
            timeline: event.timeline.clone(),
        }
    }

    /// Samples with an outcome. The end tells all of them, also where it came before the last of what was provisional.
    pub(crate) fn samples_done(&self) -> u64 {
        let ended = self.event.result.iter().flat_map(|result| &result.benchmarks);
        let provisional = self.benchmarks.values().map(|(_, benchmark)| benchmark);
        let done = |benchmark: &BenchmarkResult| benchmark.samples - benchmark.outcomes.missing;
        match self.event.result {
            Some(_) => ended.map(done).sum(),
            None => provisional.map(done).sum(),
        }
    }

    /// Seconds until the end at the pace so far; `None` before there is one.
    pub(crate) fn seconds_left(&self, now: Timestamp) -> Option<f64> {
        let done = self.samples_done();
        let left = self.event.samples.saturating_sub(done);
        let elapsed = now.seconds_since(self.event.timeline.serving?);
        (done > 0).then(|| elapsed * left as f64 / done as f64)
    }
}

/// Follows both streams into a view.
pub(crate) struct Following {
    pub(crate) view: View,
    events: Follow,
    results: Follow,
}

/// What came.
pub(crate) enum News {
    /// A state change.
    Event(Box<EvaluationEvent>),
    /// A result, provisional or final.
    Result(Box<ResultMessage>),
}

impl Following {
    /// Begins with all that is known: every evaluation's events and every result that is kept.
    pub(crate) async fn open(context: &Context) -> Self {
        let (events, results) = ("tm.evaluation.>".to_owned(), "tm.result.>".to_owned());
        let mut following = Self {
            view: View::default(),
            events: Follow::open(context, declared::EVALUATION, events, false, Start::LastPerSubject).await,
            results: Follow::open(context, declared::RESULT, results, false, Start::Beginning).await,
        };
        while let Some(message) = following.events.next_known().await {
            following.view.apply_event(&message);
        }
        while let Some(message) = following.results.next_known().await {
            following.view.apply_result(&message);
        }
        following
    }

    /// The next news.
    ///
    /// # Cancel safety
    /// Nothing is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> News {
        loop {
            tokio::select! {
                message = self.events.next() => {
                    if let Some(known) = self.view.apply_event(&message) {
                        return News::Event(Box::new(known.event.clone()));
                    }
                }
                message = self.results.next() => {
                    if let Some(result) = self.view.apply_result(&message) {
                        return News::Result(Box::new(result));
                    }
                }
            }
        }
    }
}

/// Requests of a group that are in flight, as the broker counts deliveries without an acknowledgement.
pub(crate) async fn in_flight(context: &Context, event: &EvaluationEvent) -> Option<usize> {
    let name = durable::generator(&event.group, 1).name;
    let consumer = context
        .jetstream()
        .get_consumer_from_stream::<async_nats::jetstream::consumer::pull::Config, _, _>(name, declared::READY.name)
        .await
        .ok()?;
    Some(consumer.cached_info().num_ack_pending)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::tests::{benchmark, result};

    #[test]
    fn the_end_tells_what_is_done_also_before_the_last_of_what_is_provisional() {
        let mut whole = result(benchmark(4, 6));
        whole.benchmarks[0].outcomes.missing = 2;
        let event: EvaluationEvent = serde_json::from_value(serde_json::json!({
            "schema": 1, "evaluation": whole.evaluation, "state": "invalid", "at": "2026-01-01T00:00:00Z", "run": "r", "step": 1, "team": "t",
            "checkpoint": whole.checkpoint, "suite": whole.suite, "manifest": whole.checkpoint, "group": "0".repeat(16),
            "source": {"endpoint": {"urls": ["http://127.0.0.1:1"], "model": "m"}}, "samples": 6, "timeline": {},
        }))
        .unwrap();
        let mut known = Known {
            event,
            sequence: 1,
            benchmarks: BTreeMap::new(),
        };
        assert_eq!(known.samples_done(), 0);
        let done = whole.benchmarks[0].samples - 2;
        known.event.result = Some(Box::new(whole));
        assert_eq!(known.samples_done(), done);
    }
}
