//! The life of an evaluation as its events tell it.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Digest, EvaluationId, EvaluationResult, GroupId, RunId, Source, Step, SuiteName, TeamId, Timestamp};

/// How urgent a suite is: each tier has an objective of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, Default)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Fixed prompts that must not change.
    Canary,
    /// Watches a training run.
    #[default]
    InTraining,
    /// Decides whether a checkpoint is promoted.
    Promotion,
    /// Sweeps and ablations.
    Ablation,
}

impl Tier {
    /// The tier's name as suites write it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Canary => "canary",
            Self::InTraining => "in-training",
            Self::Promotion => "promotion",
            Self::Ablation => "ablation",
        }
    }
}

/// Names a suite.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SuiteRef {
    /// Its name.
    pub name: SuiteName,
    /// Its version, as the suite file states it.
    pub version: String,
    /// Its tier.
    pub tier: Tier,
}

/// The state that an event announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EvaluationState {
    /// Rendered and waiting for engines.
    Queued,
    /// A loader has taken it.
    Admitted,
    /// Engines are starting or being attached.
    Starting,
    /// Items are released.
    Serving,
    /// Release is paused.
    Paused,
    /// Nothing more is released; what is known will be counted and the evaluation ends invalid with the reason.
    Draining,
    /// Every declared sample has an outcome and the result counts.
    Final,
    /// Ended, but too much is missing or failed for the numbers to count.
    Invalid,
    /// Ended or abandoned because the run went back.
    Superseded,
}

impl EvaluationState {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Admitted,
        Self::Starting,
        Self::Serving,
        Self::Paused,
        Self::Draining,
        Self::Final,
        Self::Invalid,
        Self::Superseded,
    ];

    /// The state's token in subjects and JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Admitted => "admitted",
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Final => "final",
            Self::Invalid => "invalid",
            Self::Superseded => "superseded",
        }
    }

    /// Nothing more will happen unless the evaluation is announced again.
    #[must_use]
    pub const fn is_ended(self) -> bool {
        matches!(self, Self::Final | Self::Invalid | Self::Superseded)
    }
}

/// An event of the EVALUATION stream: a state change, with everything a service needs to take part.
///
/// The state of an evaluation is what is left when its events are folded in the order of the stream, each one by
/// [`EvaluationEvent::displaces`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvaluationEvent {
    /// Version of this shape; 1.
    pub schema: u32,
    /// The evaluation.
    pub evaluation: EvaluationId,
    /// Its new state.
    pub state: EvaluationState,
    /// When the state was entered.
    pub at: Timestamp,
    /// The training run.
    pub run: RunId,
    /// The training step.
    pub step: Step,
    /// The team that pays.
    pub team: TeamId,
    /// Identity of the weights: the content digest of a checkpoint in files, else one made from the server's name.
    pub checkpoint: Digest,
    /// How much a decision waits for the checkpoint, when the announcement says; larger is more urgent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision_value: Option<u32>,
    /// The suite.
    pub suite: SuiteRef,
    /// Digest of the manifest, which is its key in the object store.
    pub manifest: Digest,
    /// The server group that answers.
    pub group: GroupId,
    /// Where the weights are.
    pub source: Source,
    /// The most requests in flight, when the announcement set one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_in_flight: Option<u32>,
    /// Its samples are drawn anew: the generation cache takes no part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub no_cache: bool,
    /// Declared samples over all benchmarks.
    pub samples: u64,
    /// Why, for draining, invalid and superseded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The times known so far.
    pub timeline: Timeline,
    /// The whole result, for final and invalid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<EvaluationResult>>,
}

impl EvaluationEvent {
    /// The life of the evaluation that the event belongs to: when that was queued. One announced again has a later life.
    #[must_use]
    pub fn life(&self) -> Timestamp {
        self.timeline.queued.unwrap_or(Timestamp(0))
    }

    /// The event, which comes later in the stream, takes the place of the one that is known of the same evaluation.
    ///
    /// Whoever stood still may publish what was true before: an older life never displaces a newer one. Within a life
    /// nothing displaces superseded, and only superseded displaces final or invalid.
    #[must_use]
    pub fn displaces(&self, known: &Self) -> bool {
        match self.life().cmp(&known.life()) {
            Ordering::Less => false,
            Ordering::Greater => true,
            Ordering::Equal => match known.state {
                EvaluationState::Superseded => false,
                EvaluationState::Final | EvaluationState::Invalid => self.state == EvaluationState::Superseded,
                _ => true,
            },
        }
    }

    /// It tells how the life ended that `known` is of.
    #[must_use]
    pub fn is_end_of(&self, known: &Self) -> bool {
        let is_end = matches!(self.state, EvaluationState::Final | EvaluationState::Invalid);
        is_end && self.life() == known.life()
    }

    /// The next event of the same evaluation.
    #[must_use]
    pub fn next(&self, state: EvaluationState, at: Timestamp, reason: Option<String>) -> Self {
        let mut timeline = self.timeline.clone();
        timeline.enter(state, at);
        Self {
            state,
            at,
            reason,
            timeline,
            result: None,
            ..self.clone()
        }
    }
}

/// When each stage was reached; absent where it has not been yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, Default)]
pub struct Timeline {
    /// The checkpoint's writer finished.
    pub written: Option<Timestamp>,
    /// The announcement reached a loader.
    pub seen: Option<Timestamp>,
    /// The evaluation was queued.
    pub queued: Option<Timestamp>,
    /// A loader took it.
    pub admitted: Option<Timestamp>,
    /// The engines answered a real request.
    pub serving: Option<Timestamp>,
    /// The first request of an item started.
    pub first_request: Option<Timestamp>,
    /// The last completion ended.
    pub last_completion: Option<Timestamp>,
    /// The last grade was made.
    pub last_grade: Option<Timestamp>,
    /// The final result was published.
    pub visible: Option<Timestamp>,
}

impl Timeline {
    /// Notes when a state was first entered.
    pub fn enter(&mut self, state: EvaluationState, at: Timestamp) {
        let slot = match state {
            EvaluationState::Queued => &mut self.queued,
            EvaluationState::Admitted => &mut self.admitted,
            EvaluationState::Serving => &mut self.serving,
            _ => return,
        };
        slot.get_or_insert(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STATES: [EvaluationState; 9] = [
        EvaluationState::Queued,
        EvaluationState::Admitted,
        EvaluationState::Starting,
        EvaluationState::Serving,
        EvaluationState::Paused,
        EvaluationState::Draining,
        EvaluationState::Final,
        EvaluationState::Invalid,
        EvaluationState::Superseded,
    ];

    fn event((life, state): (i64, EvaluationState)) -> EvaluationEvent {
        let digest = Digest::of(b"x");
        let mut event: EvaluationEvent = serde_json::from_value(serde_json::json!({
            "schema": 1, "evaluation": "0".repeat(16), "state": state, "at": "2024-01-01T00:00:00Z", "run": "r",
            "step": 1, "team": "t", "checkpoint": digest, "manifest": digest, "group": "0".repeat(16),
            "suite": {"name": "s", "version": "1", "tier": "canary"}, "samples": 1,
            "source": {"checkpoint": {"uri": "/c"}}, "timeline": {},
        }))
        .unwrap();
        event.timeline.queued = (life > 0).then_some(Timestamp(life));
        event
    }

    #[test]
    fn only_final_and_invalid_tell_how_a_life_ended() {
        let served = event((2, EvaluationState::Serving));
        let ends = |life| {
            let ends = STATES.iter().filter(|state| event((life, **state)).is_end_of(&served));
            ends.copied().collect::<Vec<_>>()
        };
        assert_eq!(ends(2), [EvaluationState::Final, EvaluationState::Invalid]);
        assert_eq!((ends(1), ends(3)), (Vec::new(), Vec::new()));
    }

    fn events() -> impl Strategy<Value = Vec<EvaluationEvent>> {
        let one = (0..4_i64, proptest::sample::select(STATES.as_slice())).prop_map(event);
        proptest::collection::vec(one, 1..12)
    }

    fn fold(events: &[EvaluationEvent]) -> EvaluationEvent {
        let mut newest = events[0].clone();
        for event in &events[1..] {
            if event.displaces(&newest) {
                newest = event.clone();
            }
        }
        newest
    }

    #[test]
    fn a_stale_word_changes_no_evaluation() {
        use EvaluationState::{Draining, Final, Invalid, Queued, Serving, Superseded};
        for (told, newest) in [
            (vec![(1, Serving), (1, Superseded), (1, Final)], (1, Superseded)),
            (vec![(1, Draining), (2, Queued), (1, Invalid)], (2, Queued)),
            (vec![(1, Final), (1, Serving)], (1, Final)),
            (vec![(1, Final), (1, Invalid)], (1, Final)),
            (vec![(1, Invalid), (1, Superseded)], (1, Superseded)),
            (vec![(1, Superseded), (2, Queued), (1, Superseded)], (2, Queued)),
            (vec![(0, Serving), (0, Draining), (0, Serving)], (0, Serving)),
        ] {
            let told: Vec<EvaluationEvent> = told.into_iter().map(event).collect();
            assert_eq!(fold(&told), event(newest));
        }
    }

    proptest! {
        #[test]
        fn the_newest_life_counts_and_its_end_stands(events in events()) {
            let newest = fold(&events);
            prop_assert_eq!(Some(newest.life()), events.iter().map(EvaluationEvent::life).max());
            let of_this_life = |event: &&EvaluationEvent| event.life() == newest.life();
            let end = events.iter().filter(of_this_life).find(|event| event.state.is_ended());
            let is_superseded = events.iter().filter(of_this_life).any(|event| event.state == EvaluationState::Superseded);
            let expected = match end {
                _ if is_superseded => EvaluationState::Superseded,
                Some(end) => end.state,
                None => events.iter().rfind(of_this_life).map(|event| event.state).unwrap(),
            };
            prop_assert_eq!(newest.state, expected);
        }

        #[test]
        fn telling_everything_again_changes_nothing(events in events()) {
            let ended = fold(&events);
            let again: Vec<EvaluationEvent> = std::iter::once(ended.clone()).chain(events).collect();
            if ended.state.is_ended() {
                prop_assert_eq!(fold(&again), ended);
            } else {
                prop_assert_eq!(fold(&again).life(), ended.life());
            }
        }
    }
}
