//! How far the answers of a benchmark are from what was expected of them: what its own completions say of the rest. A pure rule.
//!
//! Short answers end first, so the first ones to end say little: an answer that is out may be of any length. The distribution
//! is therefore read with all that is out at its long end, and only where it does not reach into those.

use tidemill_domain::class_length;

/// Where the two distributions are compared.
const AT: f64 = 0.9;

/// Answers before which nothing is said.
const FEW: u32 = 32;

/// Beyond so many answers it is looked at when this share of them is new.
const LOOKS: u32 = 16;

/// Expected and actual lengths of the samples that were released, by class.
#[derive(Debug, Default)]
pub(super) struct Drift {
    counts: Option<Box<Counts>>,
    /// Classes, eight to a doubling, by which answers are longer than was expected.
    shift: i16,
    look_at: u32,
}

#[derive(Debug)]
struct Counts {
    expected: [u32; 256],
    released: u32,
    actual: [u32; 256],
    ended: u32,
}

impl Drift {
    fn counts(&mut self) -> &mut Counts {
        self.counts.get_or_insert_with(|| {
            Box::new(Counts {
                expected: [0; 256],
                released: 0,
                actual: [0; 256],
                ended: 0,
            })
        })
    }

    /// Notes a release and what was expected of it at first.
    pub(super) fn release(&mut self, class: u8) {
        if class > 0 {
            let counts = self.counts();
            counts.expected[usize::from(class)] += 1;
            counts.released += 1;
        }
    }

    /// Notes that a released sample ended and tells nothing.
    pub(super) fn lost(&mut self, class: u8) {
        if class > 0 {
            let counts = self.counts();
            let expected = &mut counts.expected[usize::from(class)];
            *expected = expected.saturating_sub(1);
            counts.released = counts.released.saturating_sub(1);
        }
    }

    /// Notes how long the answer to a released sample was.
    pub(super) fn ended(&mut self, class: u8) {
        let look_at = self.look_at;
        let counts = self.counts();
        counts.actual[usize::from(class)] += 1;
        counts.ended += 1;
        if counts.ended < look_at.max(FEW) {
            return;
        }
        let (ended, shift) = (counts.ended, counts.shift());
        self.shift = shift.unwrap_or(self.shift);
        self.look_at = ended + (ended / LOOKS).max(1);
    }

    /// The class that is expected where another one was at first.
    pub(super) fn applied(&self, class: u8) -> u8 {
        // In range by the clamp.
        (i16::from(class) + self.shift).clamp(1, 255) as u8
    }

    /// Tokens that are expected where others were at first.
    pub(super) fn scaled(&self, tokens: u64) -> u64 {
        if self.shift == 0 {
            return tokens;
        }
        let base = 129;
        let factor = class_length(self.applied(base)) as f64 / class_length(base) as f64;
        (tokens as f64 * factor) as u64
    }
}

impl Counts {
    /// What the two distributions say; `None` where too much is out.
    fn shift(&self) -> Option<i16> {
        let rank = (f64::from(self.released.max(self.ended)) * AT).ceil() as u32;
        if rank > self.ended {
            return None;
        }
        let actual = class_at(&self.actual, rank)?;
        let expected = class_at(&self.expected, (f64::from(self.released) * AT).ceil() as u32)?;
        Some(actual - expected)
    }
}

fn class_at(counts: &[u32; 256], rank: u32) -> Option<i16> {
    let mut seen = 0;
    let class = counts.iter().position(|count| {
        seen += count;
        seen >= rank.max(1)
    });
    class.and_then(|class| i16::try_from(class).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidemill_domain::length_class;

    #[test]
    fn answers_that_ended_say_nothing_while_too_many_are_out() {
        let (mut drift, cap) = (Drift::default(), length_class(4_096));
        (0..200).for_each(|_| drift.release(cap));
        (0..179).for_each(|_| drift.ended(length_class(10)));
        assert_eq!(drift.applied(cap), cap, "the rest may be the long ones");
        (0..12).for_each(|_| drift.ended(length_class(64)));
        assert_eq!(
            class_length(drift.applied(cap)),
            64,
            "nine tenths are no longer than that"
        );
        assert_eq!(drift.scaled(4_096_000), 64_000);
    }

    #[test]
    fn what_was_expected_well_does_not_move_and_failures_tell_nothing() {
        let mut drift = Drift::default();
        for tokens in 1..=200_u64 {
            drift.release(length_class(tokens));
            drift.release(length_class(2_000));
            drift.ended(length_class(tokens));
            drift.lost(length_class(2_000));
        }
        assert_eq!((drift.shift, drift.scaled(77)), (0, 77));
    }
}
