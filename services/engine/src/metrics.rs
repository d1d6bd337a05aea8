//! Counters and histograms under the names of vLLM, so that whoever scrapes a vLLM server can scrape this one.
//!
//! The embedded engine neither preempts nor keeps a prefix cache; those counters are there and stay at zero, which is the truth.

use std::{
    fmt::Write,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use crate::schedule::FinishReason;

const TIME_TO_FIRST_TOKEN: &[f64] = &[
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
];
const END_TO_END: &[f64] = &[
    0.01, 0.03, 0.1, 0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0,
];

/// All metrics of one engine.
#[derive(Debug)]
pub(crate) struct Metrics {
    model: String,
    pub(crate) running: AtomicU64,
    pub(crate) waiting: AtomicU64,
    /// Tokens in the caches of running sequences.
    pub(crate) kv_tokens: AtomicU64,
    kv_room: u64,
    pub(crate) prompt_tokens: AtomicU64,
    pub(crate) generation_tokens: AtomicU64,
    stopped: AtomicU64,
    truncated: AtomicU64,
    aborted: AtomicU64,
    failed: AtomicU64,
    time_to_first_token: Histogram,
    end_to_end: Histogram,
}

/// How a sequence ended, for counting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// It ended by itself, by its limit, or was aborted.
    Finished(FinishReason),
    /// It ended by a fault of the engine.
    Failed,
}

impl Metrics {
    /// Metrics of a server of `model` whose caches have room for `kv_room` tokens.
    pub(crate) fn new(model: &str, kv_room: u64) -> Self {
        Self {
            model: model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"),
            running: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            kv_tokens: AtomicU64::new(0),
            kv_room: kv_room.max(1),
            prompt_tokens: AtomicU64::new(0),
            generation_tokens: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            truncated: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            time_to_first_token: Histogram::new(TIME_TO_FIRST_TOKEN),
            end_to_end: Histogram::new(END_TO_END),
        }
    }

    /// Records that a sequence gave its first token.
    pub(crate) fn first_token(&self, after: Duration) {
        self.time_to_first_token.observe(after);
    }

    /// Records that a sequence ended.
    pub(crate) fn ended(&self, outcome: Outcome, after: Duration) {
        self.end_to_end.observe(after);
        self.outcome(outcome).fetch_add(1, Relaxed);
    }

    fn outcome(&self, outcome: Outcome) -> &AtomicU64 {
        match outcome {
            Outcome::Finished(FinishReason::Stop) => &self.stopped,
            Outcome::Finished(FinishReason::Length) => &self.truncated,
            Outcome::Finished(FinishReason::Abort) => &self.aborted,
            Outcome::Failed => &self.failed,
        }
    }

    /// The Prometheus text format.
    pub(crate) fn render(&self) -> String {
        let mut text = Text {
            model: &self.model,
            text: String::new(),
        };
        text.gauge("num_requests_running", "Sequences being computed.", load(&self.running));
        text.gauge(
            "num_requests_waiting",
            "Sequences waiting for a slot.",
            load(&self.waiting),
        );
        let usage = load(&self.kv_tokens) / self.kv_room as f64;
        text.gauge(
            "kv_cache_usage_perc",
            "Share of the key-value room in use, 0 to 1.",
            usage,
        );
        text.counter(
            "prompt_tokens_total",
            "Prompt tokens computed.",
            load(&self.prompt_tokens),
        );
        text.counter(
            "generation_tokens_total",
            "Tokens generated.",
            load(&self.generation_tokens),
        );
        text.counter("num_preemptions_total", "Preemptions; this engine has none.", 0.0);
        text.counter(
            "prefix_cache_queries_total",
            "Prefix cache look-ups, in tokens; this engine has no such cache.",
            0.0,
        );
        text.counter(
            "prefix_cache_hits_total",
            "Prefix cache hits, in tokens; this engine has no such cache.",
            0.0,
        );
        text.head("request_success_total", "Sequences ended, by reason.", "counter");
        for (reason, count) in [
            ("stop", &self.stopped),
            ("length", &self.truncated),
            ("abort", &self.aborted),
            ("error", &self.failed),
        ] {
            text.line(
                "request_success_total",
                &format!(",finished_reason=\"{reason}\""),
                load(count),
            );
        }
        let help = "Time from arrival to the first token.";
        text.histogram("time_to_first_token_seconds", help, &self.time_to_first_token);
        let help = "Time from arrival to the end.";
        text.histogram("e2e_request_latency_seconds", help, &self.end_to_end);
        text.text
    }
}

fn load(value: &AtomicU64) -> f64 {
    value.load(Relaxed) as f64
}

/// Cumulative buckets are formed when rendering.
#[derive(Debug)]
struct Histogram {
    bounds: &'static [f64],
    state: Mutex<Observations>,
}

#[derive(Debug, Clone)]
struct Observations {
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Self {
        let counts = vec![0; bounds.len() + 1];
        Self {
            bounds,
            state: Mutex::new(Observations { counts, sum: 0.0 }),
        }
    }

    fn observe(&self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        let bucket = self.bounds.partition_point(|bound| *bound < seconds);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.counts[bucket] += 1;
        state.sum += seconds;
    }
}

struct Text<'a> {
    model: &'a str,
    text: String,
}

impl Text<'_> {
    fn head(&mut self, name: &str, help: &str, kind: &str) {
        self.push(format_args!("# HELP vllm:{name} {help}\n# TYPE vllm:{name} {kind}\n"));
    }

    fn line(&mut self, name: &str, labels: &str, value: f64) {
        let model = self.model;
        self.push(format_args!(
            "vllm:{name}{{engine=\"0\",model_name=\"{model}\"{labels}}} {value}\n"
        ));
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "gauge");
        self.line(name, "", value);
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) {
        self.head(name, help, "counter");
        self.line(name, "", value);
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) {
        let state = histogram.state.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.head(name, help, "histogram");
        let mut total = 0;
        let bounds = histogram
            .bounds
            .iter()
            .map(ToString::to_string)
            .chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(&state.counts) {
            total += count;
            self.line(&format!("{name}_bucket"), &format!(",le=\"{bound}\""), total as f64);
        }
        self.line(&format!("{name}_sum"), "", state.sum);
        self.line(&format!("{name}_count"), "", total as f64);
    }

    fn push(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        self.text.write_fmt(text).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_cumulative_and_labelled() {
        let metrics = Metrics::new("a\"b", 100);
        metrics.first_token(Duration::from_millis(30));
        metrics.first_token(Duration::from_secs(100));
        metrics.kv_tokens.store(25, Relaxed);
        let text = metrics.render();
        for line in [
            "vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"a\\\"b\",le=\"0.02\"} 0",
            "vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"a\\\"b\",le=\"0.04\"} 1",
            "vllm:time_to_first_token_seconds_bucket{engine=\"0\",model_name=\"a\\\"b\",le=\"+Inf\"} 2",
            "vllm:time_to_first_token_seconds_count{engine=\"0\",model_name=\"a\\\"b\"} 2",
            "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"a\\\"b\"} 0.25",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
