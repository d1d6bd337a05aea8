//! Errors of rows: the first of a benchmark in full, the rest as a count.

use crate::error::{Place, Problems};

/// Row errors reported in full for one benchmark; one broken column of a large file would else bury everything.
const REPORTED: usize = 20;

/// The row errors of one benchmark.
pub(crate) struct Faults {
    benchmark: Place,
    kept: Vec<(Place, String)>,
    omitted: u64,
}

impl Faults {
    /// `benchmark` is where the benchmark itself stands.
    pub(crate) fn new(benchmark: Place) -> Self {
        Self {
            benchmark,
            kept: Vec::new(),
            omitted: 0,
        }
    }

    /// Keeps an error, or counts it. One that several rows meet, as of an example that stands before each, is kept once.
    pub(crate) fn push(&mut self, place: Place, message: String) {
        let is_known = |(at, known): &(Place, String)| *known == message && *at == place;
        if self.kept.iter().any(is_known) {
            return;
        }
        if self.kept.len() < REPORTED {
            self.kept.push((place, message));
        } else {
            self.omitted += 1;
        }
    }

    /// No row was wrong.
    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Reports what was kept, and the count of the rest.
    pub(crate) fn report(self, problems: &mut Problems) {
        for (place, message) in self.kept {
            problems.error(place, message);
        }
        if self.omitted > 0 {
            let more = format!("{} more errors in rows are not shown", self.omitted);
            problems.error(self.benchmark, more);
        }
    }
}
