//! What goes wrong, on demand.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::complaint::Complaint;
use crate::hash::{mix, uniform};

/// One thing that goes wrong, and for whom. What selects requests applies together; without any, all are met.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// Requests of a replica by their number, from the first to the last included; the first ever is 1.
    #[serde(default)]
    pub requests: Option<[u64; 2]>,
    /// A share of the prompts, always the same ones.
    #[serde(default)]
    pub share: Option<f64>,
    /// Prompts by the hash under which the report counts them.
    #[serde(default)]
    pub prompts: Vec<u64>,
    /// A text that the prompt holds.
    #[serde(default)]
    pub containing: Option<String>,
    /// One replica, from 0 on; all unless set.
    #[serde(default)]
    pub replica: Option<u16>,
    /// Also requests of a single token, by which clients look whether an engine answers before they send it work. Else they are
    /// spared, unless `requests`, `prompts` or `containing` select them.
    #[serde(default)]
    pub probes: bool,
    /// At most so many requests of each replica are met.
    #[serde(default)]
    pub times: Option<u64>,
    /// Not before this long after the fault was set; wall time.
    #[serde(default, deserialize_with = "crate::config::time")]
    pub after: Duration,
    /// How long it lasts: from `after` on, or, for `die` and `stall_engine`, from the request that set it off. Wall time; for ever unless set.
    #[serde(default, rename = "for", deserialize_with = "crate::config::some_time")]
    pub lasts: Option<Duration>,
    /// `overloaded`, `unavailable`: what `Retry-After` says.
    #[serde(default, deserialize_with = "crate::config::some_time")]
    pub retry_after: Option<Duration>,
    /// `Retry-After` is a date instead of seconds.
    #[serde(default)]
    pub as_date: bool,
    /// `reset`, `stall`: tokens that come before.
    #[serde(default)]
    pub after_tokens: u32,
}

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// 200 with an empty text, finish `stop`, 0 completion tokens.
    Empty,
    /// The same with white space alone.
    Blank,
    /// 200 without content, with a long reasoning field, finish `length`.
    ReasoningCut,
    /// Finish `stop` although as many tokens as the cap came.
    StopAtCap,
    /// Finish `length` although the answer is whole.
    LengthAfterAnswer,
    /// 200 with an error object.
    ErrorObject,
    /// 200 with `choices: []`.
    NoChoices,
    /// A body that is not JSON.
    NotJson,
    /// JSON that ends in the middle.
    CutJson,
    /// 429.
    Overloaded,
    /// 503.
    Unavailable,
    /// 500.
    Internal,
    /// The connection ends after `after_tokens` streamed tokens, or in the middle of a body; at 0 tokens before any byte.
    Reset,
    /// No token comes after `after_tokens` of them, and the connection stays.
    Stall,
    /// All log-probabilities are 0.
    ZeroLogprobs,
    /// Fewer log-probabilities than tokens.
    ShortLogprobs,
    /// Log-probabilities are null behind the first token as well.
    NullLogprobs,
    /// Bytes that end inside a UTF-8 character.
    CutCharacter,
    /// A lone surrogate, as a JSON escape.
    LoneSurrogate,
    /// `/v1/models` lists another name.
    OtherModel,
    /// `/v1/models` says that the context is a quarter of what it is.
    SmallerContext,
    /// No sequence gets a token.
    StallEngine,
    /// The replica loses everything and stops listening; with `for` it comes back.
    Die,
}

impl FaultKind {
    /// It concerns the replica, and not an answer.
    const fn is_of_replica(self) -> bool {
        matches!(
            self,
            Self::StallEngine | Self::Die | Self::OtherModel | Self::SmallerContext
        )
    }
}

impl Fault {
    /// A fault that meets every request.
    #[must_use]
    pub const fn new(kind: FaultKind) -> Self {
        Self {
            kind,
            requests: None,
            share: None,
            prompts: Vec::new(),
            containing: None,
            replica: None,
            probes: false,
            times: None,
            after: Duration::ZERO,
            lasts: None,
            retry_after: None,
            as_date: false,
            after_tokens: 0,
        }
    }

    /// What is wrong with it, if anything, where there are so many replicas.
    #[must_use]
    pub fn complaint(&self, replicas: u16) -> Option<Complaint> {
        let never = "it would never be met; leave the fault out instead";
        if let Some(share) = self.share.filter(|share| !(*share > 0.0 && *share <= 1.0)) {
            let rule = format!("is {share}, which is not above 0 and at most 1");
            return Some(Complaint::new(&["share"], rule));
        }
        if let Some([first, last]) = self.requests.filter(|[first, last]| first > last || *first == 0) {
            let rule = format!("{first} to {last} are none; the first request is 1");
            return Some(Complaint::new(&["requests"], rule));
        }
        if self.times == Some(0) {
            return Some(Complaint::new(&["times"], format!("is 0: {never}")));
        }
        if self.lasts.is_some_and(|lasts| lasts.is_zero()) {
            return Some(Complaint::new(&["for"], format!("is 0: {never}")));
        }
        if let Some(replica) = self.replica.filter(|replica| *replica >= replicas) {
            let rule = format!("is {replica}, and there are {replicas}, from 0 to {}", replicas - 1);
            return Some(Complaint::new(&["replica"], rule));
        }
        self.complaint_of_kind()
    }

    /// What is set and belongs to another kind.
    fn complaint_of_kind(&self) -> Option<Complaint> {
        let answers_about_time = matches!(self.kind, FaultKind::Overloaded | FaultKind::Unavailable);
        if (self.retry_after.is_some() || self.as_date) && !answers_about_time {
            let key = if self.retry_after.is_some() {
                "retry_after"
            } else {
                "as_date"
            };
            return Some(Complaint::new(&[key], "belongs to overloaded and unavailable"));
        }
        if self.as_date && self.retry_after.is_none() {
            return Some(Complaint::new(
                &["as_date"],
                "says how retry_after is written, which is not set",
            ));
        }
        if self.after_tokens > 0 && !matches!(self.kind, FaultKind::Reset | FaultKind::Stall) {
            return Some(Complaint::new(&["after_tokens"], "belongs to reset and stall"));
        }
        None
    }

    /// Whether it meets requests of one token, by which clients look whether an engine answers: where it says so, or selects
    /// requests one by one.
    const fn meets_probes(&self) -> bool {
        self.probes || self.requests.is_some() || !self.prompts.is_empty() || self.containing.is_some()
    }

    fn selects_prompts(&self) -> bool {
        self.share.is_some() || !self.prompts.is_empty() || self.containing.is_some()
    }

    /// Whether it begins by itself, without a request.
    fn is_timed(&self) -> bool {
        self.kind.is_of_replica() && self.requests.is_none() && !self.selects_prompts()
    }
}

/// A request as faults see it.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Its number at this replica.
    pub number: u64,
    /// Hash of its prompt.
    pub hash: u64,
    /// Text of its prompt.
    pub prompt: &'a str,
    /// It asks for a single token.
    pub is_probe: bool,
}

/// The faults of one replica and how often each was met.
#[derive(Debug, Default)]
pub struct Active {
    faults: Vec<(Fault, u64)>,
}

impl Active {
    /// Those of `faults` that concern the replica.
    #[must_use]
    pub fn new(faults: &[Fault], replica: u16) -> Self {
        let ours = faults
            .iter()
            .filter(|fault| fault.replica.is_none_or(|of| of == replica));
        Self {
            faults: ours.map(|fault| (fault.clone(), 0)).collect(),
        }
    }

    /// Whether any needs the prompt's text.
    #[must_use]
    pub fn reads_prompts(&self) -> bool {
        self.faults.iter().any(|(fault, _)| fault.containing.is_some())
    }

    /// The first fault that meets a request `elapsed` after the faults were set.
    pub fn meet(&mut self, seen: Seen<'_>, elapsed: Duration) -> Option<Fault> {
        let met = self.faults.iter_mut().find(|(fault, times)| {
            !fault.is_timed()
                && is_current(fault, elapsed)
                && meets(fault, seen)
                && fault.times.is_none_or(|most| *times < most)
        })?;
        met.1 += 1;
        Some(met.0.clone())
    }

    /// Those that begin by themselves.
    pub fn timed(&self) -> impl Iterator<Item = &Fault> {
        self.faults
            .iter()
            .map(|(fault, _)| fault)
            .filter(|fault| fault.is_timed())
    }

    /// Whether a fault that begins by itself is there now.
    #[must_use]
    pub fn holds(&self, kind: FaultKind, elapsed: Duration) -> bool {
        self.timed()
            .any(|fault| fault.kind == kind && is_current(fault, elapsed))
    }

    /// How often each kind was met.
    pub fn met(&self) -> impl Iterator<Item = (FaultKind, u64)> + '_ {
        self.faults.iter().map(|(fault, times)| (fault.kind, *times))
    }
}

fn is_current(fault: &Fault, elapsed: Duration) -> bool {
    let Some(since) = elapsed.checked_sub(fault.after) else {
        return false;
    };
    let is_set_off = fault.kind.is_of_replica() && !fault.is_timed();
    is_set_off || fault.lasts.is_none_or(|lasts| since < lasts)
}

fn meets(fault: &Fault, seen: Seen<'_>) -> bool {
    let is_spared = seen.is_probe && !fault.meets_probes();
    !is_spared
        && fault
            .requests
            .is_none_or(|[first, last]| (first..=last).contains(&seen.number))
        && fault.share.is_none_or(|share| uniform(mix(seen.hash, 0xfa)) < share)
        && (fault.prompts.is_empty() || fault.prompts.contains(&seen.hash))
        && fault
            .containing
            .as_ref()
            .is_none_or(|text| seen.prompt.contains(text.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seen(number: u64, hash: u64) -> Seen<'static> {
        Seen {
            number,
            hash,
            prompt: "Q: one",
            is_probe: false,
        }
    }

    fn met(fault: &Fault, numbers: std::ops::Range<u64>, elapsed: u64) -> Vec<u64> {
        let mut active = Active::new(std::slice::from_ref(fault), 1);
        let is_met = |number: &u64| {
            active
                .meet(seen(*number, number * 77), Duration::from_secs(elapsed))
                .is_some()
        };
        numbers.filter(is_met).collect()
    }

    #[test]
    fn requests_are_selected_by_number_share_prompt_time_and_count() {
        let all = Fault::new(FaultKind::Empty);
        assert_eq!(met(&all, 1..4, 0), [1, 2, 3]);
        let by_number = Fault {
            requests: Some([2, 3]),
            ..all.clone()
        };
        assert_eq!(met(&by_number, 1..9, 0), [2, 3]);
        let by_prompt = Fault {
            prompts: vec![77 * 5],
            ..all.clone()
        };
        assert_eq!(met(&by_prompt, 1..9, 0), [5]);
        let by_count = Fault {
            times: Some(2),
            ..all.clone()
        };
        assert_eq!(met(&by_count, 4..9, 0), [4, 5]);
        let share = Fault {
            share: Some(0.25),
            ..all.clone()
        };
        let shared = met(&share, 1..1_000, 0);
        assert!((200..300).contains(&shared.len()), "{}", shared.len());
        assert_eq!(shared, met(&share, 1..1_000, 9), "the same ones again");
        let later = Fault {
            after: Duration::from_secs(2),
            lasts: Some(Duration::from_secs(3)),
            ..all.clone()
        };
        let current: Vec<usize> = (0..8).map(|elapsed| met(&later, 1..2, elapsed).len()).collect();
        assert_eq!(current, [0, 0, 1, 1, 1, 0, 0, 0]);
        let by_text = Fault {
            containing: Some("two".to_owned()),
            ..all.clone()
        };
        assert!(met(&by_text, 1..9, 0).is_empty());
        let elsewhere = Fault {
            replica: Some(0),
            ..all
        };
        assert!(met(&elsewhere, 1..9, 0).is_empty());
    }

    #[test]
    fn probes_are_spared_unless_they_are_meant() {
        let probe = Seen {
            is_probe: true,
            ..seen(1, 77)
        };
        let all = Fault::new(FaultKind::Reset);
        let is_met = |fault: &Fault, seen| {
            Active::new(std::slice::from_ref(fault), 0)
                .meet(seen, Duration::ZERO)
                .is_some()
        };
        assert!(is_met(&all, seen(1, 77)) && !is_met(&all, probe));
        let share = Fault {
            share: Some(1.0),
            ..all.clone()
        };
        assert!(!is_met(&share, probe), "by chance");
        let meant = [
            Fault {
                probes: true,
                ..all.clone()
            },
            Fault {
                requests: Some([1, 1]),
                ..all.clone()
            },
            Fault {
                prompts: vec![77],
                ..all.clone()
            },
            Fault {
                containing: Some("one".to_owned()),
                ..all
            },
        ];
        for fault in meant {
            assert!(is_met(&fault, probe), "{fault:?}");
        }
    }

    #[test]
    fn a_death_is_set_off_by_a_request_or_by_the_clock() {
        let by_request = Fault {
            requests: Some([3, 3]),
            ..Fault::new(FaultKind::Die)
        };
        assert_eq!(met(&by_request, 1..9, 0), [3]);
        assert_eq!(Active::new(&[by_request], 0).timed().count(), 0);
        let by_clock = Active::new(&[Fault::new(FaultKind::Die)], 0);
        assert_eq!(by_clock.timed().count(), 1);
        assert!(met(&Fault::new(FaultKind::Die), 1..9, 0).is_empty());
    }
}
