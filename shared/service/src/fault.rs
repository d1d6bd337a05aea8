//! Fault points: the places between two effects at which a test kills or suspends this process.
//!
//! The list is closed and always there; what happens at a point is compiled in by the cargo feature `fault-points` alone,
//! which only the crate of the end-to-end tests enables. Without it [`point`] is empty. With it the environment says where:
//! `TIDEMILL_FAULT=NAME:N` kills the process (SIGKILL) when it passes the point for the N-th time, and
//! `TIDEMILL_FAULT=NAME:N:stop` suspends it (SIGSTOP) there.

/// Names the point, which passing of it, and optionally `stop`.
pub const VARIABLE: &str = "TIDEMILL_FAULT";

macro_rules! points {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// A place between two effects.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Point {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Point {
            /// Every point, in the order of an item's life.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Its name in the environment: the role and what was done just before.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

points! {
    /// A checkpoint event is delivered; nothing is done about it.
    LoaderDelivered = "loader.delivered",
    /// The manifest is stored; no evaluation refers to it.
    LoaderManifestStored = "loader.manifest_stored",
    /// EVALUATION `queued` is published; the checkpoint event is not acknowledged.
    LoaderEvaluationQueued = "loader.evaluation_queued",
    /// The checkpoint event is acknowledged; the acknowledgement may not have left.
    LoaderAcked = "loader.acked",
    /// The group's lease is taken; nothing is started.
    LoaderLeaseTaken = "loader.lease_taken",
    /// EVALUATION `admitted` is published.
    LoaderAdmitted = "loader.evaluation_admitted",
    /// EVALUATION `starting` is published; no engine is started.
    LoaderStarting = "loader.evaluation_starting",
    /// The engine answers; no generator knows of it.
    LoaderEngineStarted = "loader.engine_started",
    /// The completions that were there are read; nothing is released.
    LoaderCompletionsRead = "loader.completions_read",
    /// The group has its consumer and no record.
    LoaderConsumerMade = "loader.consumer_made",
    /// The group's record is written; the evaluation is not said to be serving.
    LoaderRecordWritten = "loader.record_written",
    /// EVALUATION `serving` is published; nothing is released for it.
    LoaderServing = "loader.evaluation_serving",
    /// One release of a batch is published; the rest is not.
    LoaderReleased = "loader.release_published",
    /// The group's record is withdrawn; the engine runs.
    LoaderRecordWithdrawn = "loader.record_withdrawn",
    /// The group's consumer is deleted; the lease is held.
    LoaderConsumerDeleted = "loader.consumer_deleted",
    /// A release is delivered; nothing is asked.
    GeneratorDelivered = "generator.delivered",
    /// The tokens so far of an answer are saved; the rest of it is not there.
    GeneratorParked = "generator.answer_parked",
    /// The engine has answered; nothing is stored.
    GeneratorAnswered = "generator.answered",
    /// The generation cache holds the answer; no completion does.
    GeneratorKept = "generator.generation_kept",
    /// A large body lies in the object store; no completion refers to it.
    GeneratorBodyStored = "generator.body_checked_in",
    /// The completion is published; the release is not acknowledged.
    GeneratorPublished = "generator.completion_published",
    /// The saved tokens of an answer whose completion is published are removed; the release is not acknowledged.
    GeneratorUnparked = "generator.parked_removed",
    /// The release is acknowledged; the acknowledgement may not have left.
    GeneratorAcked = "generator.acked",
    /// A completion is delivered; nothing is graded.
    GraderDelivered = "grader.delivered",
    /// The grade is known; it is not published.
    GraderGraded = "grader.graded",
    /// The grade is published; the completion is not acknowledged.
    GraderPublished = "grader.grade_published",
    /// The completion is acknowledged; the acknowledgement may not have left.
    GraderAcked = "grader.acked",
    /// The aggregator's lease is taken; nothing is folded.
    AggregatorLeaseTaken = "aggregator.lease_taken",
    /// One grade is folded; no result shows it.
    AggregatorFolded = "aggregator.folded",
    /// A provisional RESULT is published.
    AggregatorProvisional = "aggregator.provisional_published",
    /// The final RESULT of one benchmark is published; the evaluation has not ended.
    AggregatorResult = "aggregator.result_published",
    /// EVALUATION `final` or `invalid` is published.
    AggregatorEnded = "aggregator.end_published",
    /// An archive's files are written and read back; no record refers to them.
    ArchiveWritten = "archive.files_written",
    /// The record says where the archive is; nothing is purged.
    ArchiveCommitted = "archive.record_written",
    /// The record says that the streams may hold a part; they hold everything.
    ArchivePurgeBegun = "archive.purge_begun",
    /// The completions are purged; the grades are not.
    ArchiveDonePurged = "archive.completions_purged",
    /// The grades are purged as well; large bodies are there and the record does not say so.
    ArchiveGradePurged = "archive.grades_purged",
    /// The record says that the streams hold nothing.
    ArchivePurged = "archive.purge_recorded",
    /// The streams hold an archived evaluation again; its record says otherwise.
    ArchiveRestored = "archive.messages_put_back",
    /// The record says so too; the evaluation is not queued anew.
    ArchiveReopened = "archive.reopened",
    /// A dead letter is stored, by any role; its message is not terminated.
    DeadLetterStored = "any.dead_letter_stored",
}

impl Point {
    /// The point of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|point| point.name() == name)
    }

    /// Passed after an evaluation's end: nothing of a running one passes it.
    #[must_use]
    pub fn is_after_end(self) -> bool {
        self.name().starts_with("archive.")
    }

    /// Where the work loop of `role` has taken a message.
    pub(crate) fn delivered(role: &str) -> Option<Self> {
        match role {
            "loader" => Some(Self::LoaderDelivered),
            "generator" => Some(Self::GeneratorDelivered),
            "grader" => Some(Self::GraderDelivered),
            _ => None,
        }
    }

    /// Where the work loop of `role` has acknowledged a message.
    pub(crate) fn acked(role: &str) -> Option<Self> {
        match role {
            "loader" => Some(Self::LoaderAcked),
            "generator" => Some(Self::GeneratorAcked),
            "grader" => Some(Self::GraderAcked),
            _ => None,
        }
    }
}

/// Passes a point.
#[cfg(not(feature = "fault-points"))]
#[inline]
pub const fn point(_: Point) {}

#[cfg(feature = "fault-points")]
pub use armed::point;

/// What happens at a point of a process under test.
#[cfg(feature = "fault-points")]
mod armed {
    use std::io::Write as _;
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::process::{Signal, getpid, kill_process};

    use super::{Point, VARIABLE};

    /// What the environment asks for.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(super) struct Fault {
        point: Point,
        /// Which passing of it, from 1.
        passing: u64,
        signal: Signal,
    }

    /// Passes a point: the process ends or stops here if the environment says so.
    pub fn point(point: Point) {
        static FAULT: OnceLock<Option<Fault>> = OnceLock::new();
        static PASSED: AtomicU64 = AtomicU64::new(0);
        let Some(fault) = *FAULT.get_or_init(from_environment) else {
            return;
        };
        if fault.point == point && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == fault.passing {
            say(&format!("fault point {} reached", point.name()));
            // It cannot fail: a process may always signal itself.
            kill_process(getpid(), fault.signal).ok();
        }
    }

    fn from_environment() -> Option<Fault> {
        let text = std::env::var(VARIABLE).ok()?;
        let parsed = parse(&text);
        if parsed.is_none() {
            // A test that asks for a point that does not exist must not pass for one that survived it.
            say(&format!(
                "{VARIABLE}={text}: expected POINT:N or POINT:N:stop with a point of shared/service/src/fault.rs"
            ));
            std::process::exit(64);
        }
        parsed
    }

    pub(super) fn parse(text: &str) -> Option<Fault> {
        let mut parts = text.split(':');
        let fault = Fault {
            point: Point::named(parts.next()?)?,
            passing: parts.next()?.parse().ok().filter(|passing| *passing > 0)?,
            signal: match parts.next() {
                None => Signal::KILL,
                Some("stop") => Signal::STOP,
                Some(_) => return None,
            },
        };
        parts.next().is_none().then_some(fault)
    }

    fn say(line: &str) {
        // Standard error may be closed; the end of the process tells as well.
        writeln!(std::io::stderr(), "{line}").ok();
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_fault_names_its_point_and_passing_and_may_only_stop() {
            let fault = |passing, signal| {
                Some(Fault {
                    point: Point::GraderAcked,
                    passing,
                    signal,
                })
            };
            assert_eq!(parse("grader.acked:3"), fault(3, Signal::KILL));
            assert_eq!(parse("grader.acked:1:stop"), fault(1, Signal::STOP));
            for wrong in [
                "",
                "grader.acked",
                "grader.acked:0",
                "grader.acked:x",
                "no.such:1",
                "grader.acked:1:term",
                "grader.acked:1:stop:2",
            ] {
                assert_eq!(parse(wrong), None, "{wrong}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn names_are_distinct_and_begin_with_their_role() {
        let names: HashSet<&str> = Point::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), Point::ALL.len());
        let roles = ["loader", "generator", "grader", "aggregator", "archive", "any"];
        for point in Point::ALL {
            assert_eq!(Point::named(point.name()), Some(*point));
            let role = point.name().split('.').next().unwrap_or_default();
            assert!(roles.contains(&role), "{}", point.name());
        }
    }
}
