//! Which grades are made in place, and which in a lane of their own.
//!
//! What takes less than half a millisecond is graded where it was delivered: nothing waits there, and nothing is handed
//! over. The rest would keep the threads that talk to the broker, or a slot for seconds, so each kind of it has a lane:
//! places at once, and room to hold a few more. No lane has more than a fifth of what a grader holds, so that there is
//! always room for the others and for what is graded in place.

use tidemill_config::Grader as Config;

use crate::turns::Room;

/// Longer answers are graded away from the threads that talk to the broker: a pattern over one takes above half a
/// millisecond.
const LONG_ANSWER_BYTES: usize = 64 << 10;

/// Where a grade is made that is not made in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LaneName {
    /// On a thread of this process that may be kept busy.
    Blocking,
    /// By a program in the sandbox.
    Code,
    /// By a judge, over the network.
    Judge,
    /// By another program, started or kept.
    Outside,
}

/// One more than there are lanes: what is graded in place has as much room as each.
const SHARES: usize = LaneName::ALL.len() + 1;

impl LaneName {
    pub(crate) const ALL: [Self; 4] = [Self::Blocking, Self::Code, Self::Judge, Self::Outside];

    /// The lane of an answer of so many bytes for a grader of this kind, which asks something outside of this process or
    /// does not; `None` where it is graded in place.
    pub(crate) fn of(kind: &str, is_outside: bool, bytes: usize) -> Option<Self> {
        match (is_outside, kind) {
            (true, "code") => Some(Self::Code),
            (true, "judge") => Some(Self::Judge),
            (true, _) => Some(Self::Outside),
            (false, _) => (bytes > graded_in_place(kind)).then_some(Self::Blocking),
        }
    }

    /// What the lane has room for.
    pub(crate) fn room(self, config: &Config) -> Room {
        let held = (config.max_in_flight as usize / SHARES).max(1);
        let at_once = match self {
            Self::Blocking => or_cores(config.threads),
            Self::Code => or_cores(config.sandbox.concurrency),
            Self::Outside => config.commands.len().max(1) * config.command_processes.max(1) as usize,
            // It waits for somebody else, who has bounds of his own; some wait for their turn before they wait there.
            Self::Judge => held.div_ceil(2),
        };
        Room {
            at_once: at_once.min(held),
            held,
        }
    }

    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

/// The longest answer in bytes that a family grades in well under a millisecond.
fn graded_in_place(kind: &str) -> usize {
    match kind {
        // Work that grows faster than the answer: forms are compared, subsequences looked for, schemas followed.
        "math" | "rouge" | "instructions" | "json_schema" => 1 << 10,
        // Every few letters or words of it are counted.
        "f1" | "bleu" | "chrf" => 8 << 10,
        _ => LONG_ANSWER_BYTES,
    }
}

fn or_cores(configured: u32) -> usize {
    match configured {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads as usize,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_answers_are_graded_in_place_and_what_takes_long_is_not() {
        let lane = LaneName::of;
        assert_eq!(lane("exact", false, LONG_ANSWER_BYTES), None);
        assert_eq!(lane("exact", false, LONG_ANSWER_BYTES + 1), Some(LaneName::Blocking));
        assert_eq!(lane("math", false, 100), None);
        assert_eq!(lane("math", false, 2_000), Some(LaneName::Blocking));
        assert_eq!(lane("code", true, 0), Some(LaneName::Code));
        assert_eq!(lane("judge", true, 0), Some(LaneName::Judge));
        assert_eq!(lane("command", true, 0), Some(LaneName::Outside));
    }

    #[test]
    fn all_lanes_full_leave_room_for_what_is_graded_in_place() {
        for max_in_flight in [5, 20, 256, 1_000] {
            let config = Config {
                max_in_flight,
                threads: 10_000,
                ..Config::default()
            };
            let rooms = LaneName::ALL.map(|lane| lane.room(&config));
            let held: usize = rooms.iter().map(|room| room.held).sum();
            assert!(held < max_in_flight as usize, "{held} of {max_in_flight}");
            assert!(rooms.iter().all(|room| (1..=room.held).contains(&room.at_once)));
        }
    }

    #[test]
    fn what_may_be_ungraded_fits_what_graders_may_have_out() {
        let config = tidemill_config::Config::default();
        // A group of engines completes what it has out after it was told to stop: as much again as its slots.
        let out = 2 * i64::from(config.loader.max_in_flight);
        let most = i64::from(config.loader.max_ungraded) + out + i64::from(config.grader.max_in_flight);
        assert!(most <= tidemill_streams::durable::grader().max_ack_pending, "{most}");
    }

    #[test]
    fn the_threads_that_are_configured_are_used_and_no_more() {
        let config = Config {
            threads: 3,
            ..Config::default()
        };
        assert_eq!(LaneName::Blocking.room(&config).at_once, 3);
    }
}
