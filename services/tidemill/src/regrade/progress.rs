//! How far a regrade is, on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tokio::time::Instant;

use crate::output;

/// How often a plain line may be printed.
const PLAIN_EVERY: Duration = Duration::from_secs(2);

pub(super) struct Progress {
    bar: Option<ProgressBar>,
    rule: Rule,
    is_quiet: bool,
}

/// When a plain line is due, and what it says.
struct Rule {
    done: u64,
    all: u64,
    begun: Instant,
    said: Instant,
}

impl Progress {
    /// Of `all` samples none is graded yet. Nothing is shown when it is quiet.
    pub(super) fn begin(all: u64, is_quiet: bool) -> Self {
        let is_drawn = std::io::stderr().is_terminal() && !is_quiet;
        let bar = is_drawn.then(|| {
            let style = ProgressStyle::with_template("{prefix} {bar:20} {pos:>5}/{len:5} {elapsed}, {eta} left");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::with_draw_target(Some(all), ProgressDrawTarget::stderr_with_hz(4)).with_style(style);
            bar.set_prefix("grading again");
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        let begun = Instant::now();
        Self {
            bar,
            rule: Rule {
                done: 0,
                all,
                begun,
                said: begun,
            },
            is_quiet,
        }
    }

    /// One more sample has its grade, or keeps the one that it had.
    pub(super) fn step(&mut self) {
        let line = self.rule.step(Instant::now());
        match &self.bar {
            Some(bar) => bar.inc(1),
            None if self.is_quiet => {}
            None => line.iter().for_each(|line| output::note(line)),
        }
    }

    pub(super) fn finish(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Rule {
    /// What is to be said after one more sample, where something is due.
    fn step(&mut self, now: Instant) -> Option<String> {
        self.done += 1;
        if now - self.said < PLAIN_EVERY || self.done == self.all {
            return None;
        }
        self.said = now;
        let left = (now - self.begun).as_secs_f64() * (self.all - self.done) as f64 / self.done as f64;
        Some(format!(
            "graded again: {}/{} samples, {left:.0} s left",
            self.done, self.all
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_every_two_seconds_and_says_how_long_it_takes_still() {
        let begun = Instant::now();
        let mut rule = Rule {
            done: 0,
            all: 40,
            begun,
            said: begun,
        };
        let lines: Vec<String> = (1..=40)
            .filter_map(|step| rule.step(begun + step * Duration::from_millis(500)))
            .collect();
        assert_eq!(lines.len(), 9);
        assert_eq!(lines[0], "graded again: 4/40 samples, 18 s left");
        assert_eq!(lines[8], "graded again: 36/40 samples, 2 s left");
    }
}
