//! What follows what for one released item: a pure rule that `item` carries out.
//!
//! Nothing that a delivery says proves that its item is new. The broker may have forgotten what it delivered, a publish
//! whose answer was lost may have put the item into READY a second time, and a dispatcher that was suspended may release
//! what another one released long before. So the completion is looked for each time, right before an engine is asked, and
//! once more when the look took so long that somebody else may have finished meanwhile.

use std::time::Duration;

use tidemill_domain::Completion;
use tidemill_service::{Failure, Settled};

/// A look that is older says nothing: the item may have been delivered to somebody else after the broker's `ack_wait`.
pub const LOOK_IS_GOOD_FOR: Duration = Duration::from_secs(5);

/// Whether an engine may be asked after a look that was sent so long ago and found nothing.
#[must_use]
pub fn is_good(ago: Duration) -> bool {
    ago <= LOOK_IS_GOOD_FOR
}

/// What happened to a released item.
#[derive(Debug)]
pub enum Event {
    /// It was delivered, and no other attempt of this process is at it.
    Delivered,
    /// DONE was looked at.
    Looked {
        /// Whether it holds the item's completion.
        recorded: Result<bool, Failure>,
        /// How long ago the question was sent.
        ago: Duration,
    },
    /// Asking ended.
    Asked(Asked),
    /// The completion was published, or it was not.
    Published {
        /// Whether it is stored, by us or by somebody who was faster.
        stored: Settled,
        /// How the delivery ends once it is.
        then: Settled,
    },
}

/// How asking for an item ended.
#[derive(Debug)]
pub enum Asked {
    /// With a completion, whatever its ending.
    Completed(Box<Completion>),
    /// It will never be asked: its completion says so, and the release becomes a dead letter.
    Hopeless(Box<Completion>, Failure),
    /// No engine was asked: the item's prompt took longer to get than the look is good for.
    TooLate,
    /// Nothing is to be recorded: somebody else, or this process later, asks.
    Failed(Failure),
}

/// What is to be done next.
#[derive(Debug)]
pub enum Action {
    /// Look whether DONE holds the completion.
    LookUp,
    /// Get what asking takes, and ask an engine if the look [is good](is_good) still.
    Ask,
    /// Publish the completion and wait until it is stored; the first write wins.
    Publish {
        /// What is published.
        completion: Box<Completion>,
        /// How the delivery ends afterwards.
        then: Settled,
    },
    /// Settle the delivery.
    Settle(Settled),
}

/// What follows an event. The effect is stored before the delivery is settled as done.
#[must_use]
pub fn next(event: Event) -> Action {
    match event {
        Event::Delivered => Action::LookUp,
        Event::Looked { recorded: Ok(true), .. } => Action::Settle(Ok(())),
        Event::Looked {
            recorded: Ok(false),
            ago,
        } if !is_good(ago) => Action::LookUp,
        Event::Looked {
            recorded: Ok(false), ..
        } => Action::Ask,
        Event::Looked {
            recorded: Err(failure), ..
        } => Action::Settle(Err(failure)),
        Event::Asked(Asked::Completed(completion)) => Action::Publish {
            completion,
            then: Ok(()),
        },
        Event::Asked(Asked::Hopeless(completion, failure)) => Action::Publish {
            completion,
            then: Err(failure),
        },
        Event::Asked(Asked::TooLate) => Action::LookUp,
        Event::Asked(Asked::Failed(failure)) => Action::Settle(Err(failure)),
        Event::Published { stored: Ok(()), then } => Action::Settle(then),
        Event::Published { stored, .. } => Action::Settle(stored),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(recorded: Result<bool, Failure>, ago: Duration) -> Action {
        next(Event::Looked { recorded, ago })
    }

    #[test]
    fn an_engine_is_asked_only_after_a_fresh_look_found_nothing() {
        assert!(matches!(next(Event::Delivered), Action::LookUp));
        assert!(matches!(looked(Ok(false), Duration::ZERO), Action::Ask));
        assert!(matches!(looked(Ok(true), Duration::ZERO), Action::Settle(Ok(()))));
        let old = LOOK_IS_GOOD_FOR + Duration::from_millis(1);
        assert!(matches!(looked(Ok(false), old), Action::LookUp));
        assert!(matches!(next(Event::Asked(Asked::TooLate)), Action::LookUp));
        assert!(matches!(looked(Ok(true), old), Action::Settle(Ok(()))));
        let failed = looked(Err(Failure::transient("away")), Duration::ZERO);
        assert!(matches!(failed, Action::Settle(Err(_))));
    }

    #[test]
    fn a_delivery_is_done_only_once_its_completion_is_stored() {
        let published = |stored, then| next(Event::Published { stored, then });
        assert!(matches!(published(Ok(()), Ok(())), Action::Settle(Ok(()))));
        let failed = published(Err(Failure::cancelled()), Ok(()));
        assert!(matches!(failed, Action::Settle(Err(_))));
        let hopeless = published(Ok(()), Err(Failure::permanent("undeclared")));
        assert!(matches!(hopeless, Action::Settle(Err(failure)) if failure.reason == "undeclared"));
    }
}
