//! What is evaluated in every run, and which item a request to the engine was for.

use std::time::Duration;

use tidemill_domain::Settings;
use tidemill_testkit::engine::{Asked, Request};
use tidemill_testkit::{FakeEngine, Reply};

use crate::Workbench;

/// A sample: its benchmark, item and sample index, as subjects name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Sample {
    /// The benchmark's place in the suite.
    benchmark: u32,
    /// The item's place in its benchmark.
    item: u32,
    /// Which draw.
    sample: u32,
}

impl Sample {
    /// The sample that a subject ends in.
    pub(super) fn of_subject(subject: &str) -> Option<Self> {
        let mut tokens = subject.rsplit('.').map(str::parse::<u32>);
        let mut next = || tokens.next()?.ok();
        let (sample, item, benchmark) = (next()?, next()?, next()?);
        Some(Self {
            benchmark,
            item,
            sample,
        })
    }
}

/// What a run evaluates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Work {
    /// So many sums, asked of an engine inside the harness, which keeps a journal.
    Scripted(usize),
    /// A small checkpoint, served by the embedded engine as a child of the loader.
    Embedded(usize),
}

/// How long the scripted engine thinks.
const THINKING: Duration = Duration::from_millis(60);

impl Work {
    /// Sums in the data file.
    pub(super) const fn items(self) -> usize {
        match self {
            Self::Scripted(items) | Self::Embedded(items) => items,
        }
    }

    /// Declared samples.
    #[must_use]
    pub fn samples(self) -> u64 {
        match self {
            Self::Scripted(items) => Workbench::samples(items),
            Self::Embedded(items) => 2 * items as u64,
        }
    }

    /// Requests of an undisturbed run, the warm-up apart.
    pub(super) fn requests(self) -> u64 {
        match self {
            Self::Scripted(items) => Workbench::requests(items),
            Self::Embedded(items) => 2 * items as u64,
        }
    }

    pub(super) fn engine() -> anyhow::Result<FakeEngine> {
        let answer = |request: &Request| -> Reply { Workbench::answer(request).after(THINKING) };
        FakeEngine::builder().respond(answer).keep_journal().start()
    }
}

/// The sample that a request was for; none for a warm-up.
pub(super) fn sample_of(asked: &Asked) -> Option<Sample> {
    let (benchmark, sum) = match asked.prompt.strip_prefix("Q: ") {
        Some(sum) => (0, sum),
        None if asked.prompt.ends_with('?') => (1, asked.prompt.as_str()),
        None => (2, asked.prompt.as_str()),
    };
    let (first, _) = sum.split_once('+')?;
    let item: u32 = first.parse().ok()?;
    let sample = match benchmark {
        1 => (0..2).find(|sample| Some(seed(item, *sample)) == asked.seed)?,
        _ => 0,
    };
    Some(Sample {
        benchmark,
        item,
        sample,
    })
}

/// The seed of a sample of the suite, whose base seed is 0.
fn seed(item: u32, sample: u32) -> u64 {
    let settings = Settings {
        max_tokens: 16,
        temperature: 0.5,
        top_p: 1.0,
        stop: Vec::new(),
        seed: 0,
        samples: 2,
    };
    settings.sample_seed(&format!("sum-{item}"), sample)
}
