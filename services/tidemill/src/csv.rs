//! Results as CSV, for spreadsheets: one line a benchmark, or one line a figure, with the same columns.
//!
//! Of figures a benchmark's score comes first, with all that is counted of it; its metrics and parts follow, then the groups.
//! Which of them a line is, is in the column `row`, so that a filter or a pivot table takes what it wants. Columns are only
//! added, behind those that there are. Whoever averages a column of the short form must not meet a metric in it.

use tidemill_domain::{BenchmarkResult, EvaluationResult, GroupResult, MetricResult, SubsetResult};

const HEADER: [&str; 45] = [
    "run",
    "step",
    "suite",
    "version",
    "benchmark",
    "metric",
    "mean",
    "standard_error",
    "low",
    "high",
    "items",
    "samples",
    "coverage",
    "correct",
    "incorrect",
    "graded",
    "no_answer",
    "truncated",
    "refused",
    "empty",
    "context_overflow",
    "engine_error",
    "grader_error",
    "ungraded",
    "missing",
    "state",
    "evaluation",
    "team",
    "checkpoint",
    "requests",
    "cached",
    "cached_prompt_tokens",
    "reusable_prompt_tokens",
    "continued",
    "mean_excluding_truncated",
    "mean_counting_cut_answers",
    "truncated_correct",
    "truncated_in_reasoning",
    "truncated_in_reasoning_rate",
    "replaced",
    "row",
    "subset",
    "group",
    "group_mean",
    "failed",
];

/// The scores of all benchmarks, with a header.
pub(crate) fn scores(results: &[EvaluationResult]) -> String {
    let mut lines = vec![HEADER.join(",")];
    for result in results {
        let benchmarks = result.benchmarks.iter();
        lines.extend(benchmarks.map(|benchmark| Line::of(result).score(benchmark)));
    }
    lines.join("\n")
}

/// All figures, with a header.
pub(crate) fn figures(results: &[EvaluationResult]) -> String {
    let mut lines = vec![HEADER.join(",")];
    for result in results {
        for benchmark in &result.benchmarks {
            lines.push(Line::of(result).score(benchmark));
            let name = benchmark.name.as_str();
            let metrics = benchmark.metrics.iter();
            lines.extend(metrics.map(|metric| Line::of(result).metric(name, metric)));
            let subsets = benchmark.subsets.iter();
            lines.extend(subsets.map(|subset| Line::of(result).subset(benchmark, subset)));
        }
        lines.extend(result.groups.iter().map(|group| Line::of(result).group(group)));
    }
    lines.join("\n")
}

/// A line whose cells are empty where nothing is said.
struct Line([String; HEADER.len()]);

impl Line {
    fn of(result: &EvaluationResult) -> Self {
        let mut line = Self([const { String::new() }; HEADER.len()]);
        line.put("run", &result.run);
        line.put("step", &result.step);
        line.put("suite", &result.suite.name);
        line.put("version", &result.suite.version);
        line.put("state", &result.state.label());
        line.put("evaluation", &result.evaluation);
        line.put("team", &result.team);
        line.put("checkpoint", &result.checkpoint);
        line
    }

    fn put(&mut self, column: &str, value: &dyn std::fmt::Display) {
        let place = HEADER.iter().position(|name| *name == column);
        if let Some(cell) = place.and_then(|place| self.0.get_mut(place)) {
            *cell = value.to_string();
        }
    }

    fn put_known<T: std::fmt::Display>(&mut self, column: &str, value: Option<T>) {
        if let Some(value) = value {
            self.put(column, &value);
        }
    }

    fn figure(&mut self, value: Option<f64>, error: Option<f64>, interval: Option<[f64; 2]>) {
        self.put_known("mean", value);
        self.put_known("standard_error", error);
        self.put_known("low", interval.map(|interval| interval[0]));
        self.put_known("high", interval.map(|interval| interval[1]));
    }

    fn counts(&mut self, [items, truncated, failed, missing]: [u64; 4]) {
        for (column, count) in [
            ("items", items),
            ("truncated", truncated),
            ("failed", failed),
            ("missing", missing),
        ] {
            self.put(column, &count);
        }
    }

    fn score(mut self, benchmark: &BenchmarkResult) -> String {
        let outcomes = &benchmark.outcomes;
        self.put("row", &"score");
        self.put("benchmark", &benchmark.name);
        self.put("metric", &benchmark.metric);
        self.figure(benchmark.mean, benchmark.standard_error, benchmark.interval);
        let failed = outcomes.failed() - outcomes.missing;
        self.counts([benchmark.items, outcomes.truncated, failed, outcomes.missing]);
        for (column, count) in [
            ("samples", benchmark.samples),
            ("correct", outcomes.correct),
            ("incorrect", outcomes.incorrect),
            ("graded", outcomes.graded),
            ("no_answer", outcomes.no_answer),
            ("refused", outcomes.refused),
            ("empty", outcomes.empty),
            ("context_overflow", outcomes.context_overflow),
            ("engine_error", outcomes.engine_error),
            ("grader_error", outcomes.grader_error),
            ("ungraded", outcomes.ungraded),
            ("requests", benchmark.requests),
            ("cached", benchmark.cached),
            ("continued", benchmark.continued),
            ("truncated_correct", benchmark.truncated_correct),
            ("truncated_in_reasoning", benchmark.truncated_in_reasoning),
            ("replaced", benchmark.replaced),
        ] {
            self.put(column, &count);
        }
        self.put("coverage", &benchmark.coverage);
        self.put("truncated_in_reasoning_rate", &benchmark.truncated_in_reasoning_rate);
        self.put_known("cached_prompt_tokens", benchmark.cached_prompt_tokens);
        self.put_known("reusable_prompt_tokens", benchmark.reusable_prompt_tokens);
        self.put_known("mean_excluding_truncated", benchmark.mean_excluding_truncated);
        self.put_known("mean_counting_cut_answers", benchmark.mean_counting_cut_answers);
        self.written()
    }

    fn metric(mut self, benchmark: &str, metric: &MetricResult) -> String {
        self.put("row", &"metric");
        self.put("benchmark", &benchmark);
        self.put("metric", &metric.name);
        self.figure(metric.value, metric.standard_error, metric.interval);
        self.counts([metric.items, metric.truncated, metric.failed, metric.missing]);
        self.written()
    }

    fn subset(mut self, benchmark: &BenchmarkResult, subset: &SubsetResult) -> String {
        self.put("row", &"subset");
        self.put("benchmark", &benchmark.name);
        self.put("metric", &benchmark.metric);
        self.put("subset", &subset.name);
        self.figure(subset.mean, subset.standard_error, subset.interval);
        self.counts([subset.items, subset.truncated, subset.failed, subset.missing]);
        self.put("samples", &subset.samples);
        self.put("coverage", &subset.coverage);
        self.put_known("mean_excluding_truncated", subset.mean_excluding_truncated);
        self.written()
    }

    fn group(mut self, group: &GroupResult) -> String {
        self.put("row", &"group");
        self.put("group", &group.name);
        self.put("group_mean", &group.mean);
        self.put_known("metric", group.metric.as_ref());
        self.figure(group.value, group.standard_error, group.interval);
        self.counts([group.items, group.truncated, group.failed, group.missing]);
        self.put("samples", &group.samples);
        self.written()
    }

    fn written(self) -> String {
        self.0.map(|cell| quoted(&cell)).join(",")
    }
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use tidemill_domain::OutcomeCounts;

    use super::*;
    use crate::table::tests::{benchmark, result};

    /// The columns of before, which scripts know by their places.
    const FIRST: &str = "run,step,suite,version,benchmark,metric,mean,standard_error,low,high,items,samples,coverage,\
correct,incorrect,graded,no_answer,truncated,refused,empty,context_overflow,engine_error,grader_error,ungraded,missing,\
state,evaluation,team,checkpoint,requests,cached,cached_prompt_tokens,reusable_prompt_tokens,continued,\
mean_excluding_truncated,mean_counting_cut_answers,truncated_correct,truncated_in_reasoning,truncated_in_reasoning_rate,replaced";

    fn cell<'l>(line: &'l str, column: &str) -> &'l str {
        let place = HEADER.iter().position(|name| *name == column).unwrap();
        line.split(',').nth(place).unwrap()
    }

    #[test]
    fn every_figure_is_a_line_of_its_own_behind_its_benchmarks_score() {
        let mut shown = benchmark(8, 8);
        shown.outcomes = OutcomeCounts {
            correct: 5,
            truncated: 2,
            engine_error: 1,
            ..OutcomeCounts::default()
        };
        shown.mean_excluding_truncated = Some(0.75);
        shown.replaced = 3;
        shown.metrics.push(MetricResult {
            name: "pass@8".to_owned(),
            value: Some(0.5),
            standard_error: Some(0.25),
            interval: Some([0.125, 0.875]),
            method: None,
            higher_is_better: true,
            items: 7,
            truncated: 2,
            failed: 1,
            missing: 0,
        });
        shown.subsets.push(SubsetResult {
            name: "algebra".to_owned(),
            mean: Some(0.25),
            standard_error: None,
            interval: None,
            method: None,
            bounds: [0.0, 1.0],
            mean_excluding_truncated: None,
            items: 4,
            samples: 4,
            coverage: 1.0,
            truncated: 0,
            failed: 0,
            missing: 0,
        });
        let group = GroupResult {
            name: "all".to_owned(),
            metric: None,
            mean: "macro".to_owned(),
            benchmarks: vec![shown.name.clone()],
            value: Some(0.625),
            standard_error: None,
            interval: None,
            method: None,
            items: 8,
            samples: 8,
            truncated: 2,
            failed: 1,
            missing: 0,
        };
        let all = [EvaluationResult {
            groups: vec![group],
            ..result(shown)
        }];
        let csv = figures(&all);
        let lines: Vec<&str> = csv.lines().collect();
        let short = scores(&all);
        assert_eq!(short.lines().collect::<Vec<_>>(), lines[..2], "one line a benchmark");
        assert!(lines[0].starts_with(FIRST), "{}", lines[0]);
        assert!(lines.iter().all(|line| line.split(',').count() == HEADER.len()));
        let cells = |column: &str| lines[1..].iter().map(|line| cell(line, column)).collect::<Vec<_>>();
        assert_eq!(cells("row"), ["score", "metric", "subset", "group"]);
        assert_eq!(cells("benchmark"), ["b", "b", "b", ""]);
        assert_eq!(cells("metric"), ["accuracy", "pass@8", "accuracy", ""]);
        assert_eq!(cells("mean"), ["1", "0.5", "0.25", "0.625"]);
        assert_eq!(cells("low"), ["", "0.125", "", ""]);
        assert_eq!(cells("items"), ["8", "7", "4", "8"]);
        assert_eq!(cells("failed"), ["1", "1", "0", "1"]);
        assert_eq!(cells("subset"), ["", "", "algebra", ""]);
        assert_eq!((cells("group")[3], cells("group_mean")[3]), ("all", "macro"));
        assert_eq!(cells("correct"), ["5", "", "", ""]);
        assert_eq!(
            (cells("mean_excluding_truncated")[0], cells("replaced")[0]),
            ("0.75", "3")
        );
        assert!(cells("evaluation").iter().all(|id| id.len() == 16));
    }

    #[test]
    fn fields_are_quoted_where_needed() {
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quoted("plain"), "plain");
    }
}
