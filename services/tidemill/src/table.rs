//! Results as tables, for people.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use tidemill_domain::{
    BenchmarkResult, EvaluationResult, GroupResult, JudgeUse, MetricResult, ResultState, SubsetResult,
};

/// A score with its error bar, in percent: `81.0 ±1.2`.
pub(crate) fn score(benchmark: &BenchmarkResult) -> String {
    match (benchmark.mean, benchmark.standard_error) {
        (None, _) => "-".to_owned(),
        (Some(mean), None) => format!("{:.1}", 100.0 * mean),
        (Some(mean), Some(error)) => format!("{:.1} ±{:.1}", 100.0 * mean, 100.0 * error),
    }
}

/// A score as it stands: while samples have no score, with the share that has one and what the mean can become, since the
/// finished items are not drawn at random from all.
pub(crate) fn standing(benchmark: &BenchmarkResult) -> String {
    if benchmark.coverage >= 1.0 {
        return score(benchmark);
    }
    format!(
        "{} (coverage {:.3}, bounds [{}])",
        score(benchmark),
        benchmark.coverage,
        bounds(benchmark)
    )
}

/// The mean, in percent, if all samples without a score were wrong, and if all were right.
fn bounds(benchmark: &BenchmarkResult) -> String {
    let [low, high] = benchmark.bounds;
    format!("{:.1}, {:.1}", 100.0 * low, 100.0 * high)
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.1}", 100.0 * share))
}

fn interval(benchmark: &BenchmarkResult) -> String {
    benchmark.interval.map_or("-".to_owned(), |[low, high]| {
        format!("{:.1}..{:.1}", 100.0 * low, 100.0 * high)
    })
}

/// Columns that a terminal must have for the whole table; a narrower one gets the columns that matter most.
const WIDE: u16 = 166;

const HEADER: [&str; 22] = [
    "run",
    "step",
    "suite",
    "benchmark",
    "score %",
    "95 %",
    "items",
    "samples",
    "truncated",
    "in reasoning %",
    "without cut %",
    "cut counted %",
    "no answer",
    "failed",
    "missing",
    "coverage",
    "bounds %",
    "continued",
    "replaced",
    "cached %",
    "state",
    "evaluation",
];

/// What a narrow terminal shows of [`HEADER`].
const NARROW: [usize; 15] = [1, 3, 4, 7, 8, 9, 10, 11, 13, 14, 15, 16, 17, 18, 20];

type Says = fn(&BenchmarkResult) -> bool;

/// Whether a column says something of a benchmark; those that are not here always do. The share that was cut inside its
/// reasoning, the score without what was cut, and with what was answered before; how far a mean over a part of the samples can
/// be trusted; and samples that were continued, or hold replaced characters.
const ONLY_WHERE: [(usize, Says); 7] = [
    (9, |one| one.truncated_in_reasoning > 0),
    (10, |one| one.outcomes.truncated > 0),
    (11, |one| one.outcomes.truncated > 0),
    (15, |one| one.coverage < 1.0),
    (16, |one| one.coverage < 1.0),
    (17, |one| one.continued > 0),
    (18, |one| one.replaced > 0),
];

/// The table of several evaluations: one row a benchmark. Scores are in percent, with the standard error.
pub(crate) fn results(results: &[EvaluationResult]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    let is_narrow = table.width().is_some_and(|width| width < WIDE);
    let any = |says: fn(&BenchmarkResult) -> bool| results.iter().flat_map(|result| &result.benchmarks).any(says);
    let is_shown = |column: &usize| {
        let mut conditions = ONLY_WHERE.iter();
        conditions
            .find(|(of, _)| of == column)
            .is_none_or(|(_, says)| any(*says))
    };
    let columns = if is_narrow {
        NARROW.to_vec()
    } else {
        (0..HEADER.len()).collect()
    };
    let columns: Vec<usize> = columns.into_iter().filter(is_shown).collect();
    let pick = |cells: Vec<String>| columns.iter().map(|index| cells[*index].clone()).collect::<Vec<_>>();
    table.set_header(pick(HEADER.map(str::to_owned).to_vec()));
    for result in results {
        for benchmark in &result.benchmarks {
            table.add_row(pick(row(result, benchmark)));
        }
        if result.benchmarks.is_empty() {
            let mut cells = vec![
                result.run.to_string(),
                result.step.to_string(),
                result.suite.name.to_string(),
            ];
            cells.extend(std::iter::repeat_n("-".to_owned(), 17));
            cells.extend([state(result), result.evaluation.to_string()]);
            table.add_row(pick(cells));
        }
    }
    for (place, index) in columns.iter().enumerate() {
        let is_number = matches!(index, 1 | 4..=19);
        if let Some(column) = table.column_mut(place).filter(|_| is_number) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = table.to_string();
    if let Some(beside) = beside(results) {
        text.push('\n');
        text.push_str(&beside);
    }
    if is_narrow {
        for result in results {
            text.push_str(&format!(
                "\n{} step {} {}: evaluation {}",
                result.run, result.step, result.suite.name, result.evaluation
            ));
        }
    }
    for result in results {
        for benchmark in &result.benchmarks {
            text.extend(benchmark.judge.iter().map(|judge| judged(result, benchmark, judge)));
        }
    }
    for result in results.iter().filter(|result| result.state == ResultState::Invalid) {
        let reason = result.reason.as_deref().unwrap_or("no reason is known");
        text.push_str(&format!(
            "\n{} step {} is INVALID, its scores do not count: {reason}; once that is mended, the same command asks again for \
             what failed, and for nothing else",
            result.run, result.step
        ));
    }
    text
}

/// What judging a benchmark took, on a line of its own.
fn judged(result: &EvaluationResult, benchmark: &BenchmarkResult, judge: &JudgeUse) -> String {
    let JudgeUse {
        verdicts,
        requests,
        prompt_tokens,
        completion_tokens,
        unreadable,
        disagreed,
        ..
    } = judge;
    format!(
        "\n{} step {} {}: {verdicts} verdicts of a judge, {:.0} % known from before; {requests} requests, {prompt_tokens} + \
         {completion_tokens} tokens; {unreadable} replies without a verdict, {disagreed} comparisons that disagree",
        result.run,
        result.step,
        benchmark.name,
        100.0 * judge.cache_hit_rate
    )
}

fn row(result: &EvaluationResult, benchmark: &BenchmarkResult) -> Vec<String> {
    let outcomes = &benchmark.outcomes;
    vec![
        result.run.to_string(),
        result.step.to_string(),
        result.suite.name.to_string(),
        benchmark.name.to_string(),
        score(benchmark),
        interval(benchmark),
        benchmark.items.to_string(),
        benchmark.samples.to_string(),
        outcomes.truncated.to_string(),
        format!("{:.1}", 100.0 * benchmark.truncated_in_reasoning_rate),
        percent(benchmark.mean_excluding_truncated),
        percent(benchmark.mean_counting_cut_answers),
        outcomes.no_answer.to_string(),
        (outcomes.failed() - outcomes.missing).to_string(),
        outcomes.missing.to_string(),
        format!("{:.3}", benchmark.coverage),
        bounds(benchmark),
        benchmark.continued.to_string(),
        benchmark.replaced.to_string(),
        format!("{:.0}", 100.0 * benchmark.cache_hit_rate),
        state(result),
        result.evaluation.to_string(),
    ]
}

const BESIDE: [&str; 10] = [
    "run",
    "step",
    "benchmark",
    "figure",
    "value",
    "95 %",
    "items",
    "truncated",
    "failed",
    "missing",
];

/// Metrics, subsets and groups, one a row; `None` where there are none. Shares are in percent, metrics as they are.
fn beside(results: &[EvaluationResult]) -> Option<String> {
    let mut rows = Vec::new();
    for result in results {
        let mut push = |benchmark: &str, cells: [String; 7]| {
            let place = [result.run.to_string(), result.step.to_string(), benchmark.to_owned()];
            rows.push(place.into_iter().chain(cells).collect::<Vec<String>>());
        };
        for benchmark in &result.benchmarks {
            let name = benchmark.name.as_str();
            benchmark
                .metrics
                .iter()
                .for_each(|metric| push(name, of_metric(metric)));
            benchmark
                .subsets
                .iter()
                .for_each(|subset| push(name, of_subset(subset)));
        }
        result.groups.iter().for_each(|group| push("-", of_group(group)));
    }
    if rows.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table
        .load_style(presets::ASCII_BORDERS_ONLY_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(BESIDE);
    for row in rows {
        table.add_row(row);
    }
    for place in [1, 4, 5, 6, 7, 8, 9] {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    Some(table.to_string())
}

fn of_metric(metric: &MetricResult) -> [String; 7] {
    let [value, interval] = figure(metric.value, metric.standard_error, metric.interval, 1.0);
    let counts = [metric.items, metric.truncated, metric.failed, metric.missing];
    let [items, truncated, failed, missing] = counts.map(|count| count.to_string());
    [metric.name.clone(), value, interval, items, truncated, failed, missing]
}

fn of_subset(subset: &SubsetResult) -> [String; 7] {
    let [value, interval] = figure(subset.mean, subset.standard_error, subset.interval, 100.0);
    let counts = [subset.items, subset.truncated, subset.failed, subset.missing];
    let [items, truncated, failed, missing] = counts.map(|count| count.to_string());
    [
        format!("{} %", subset.name),
        value,
        interval,
        items,
        truncated,
        failed,
        missing,
    ]
}

fn of_group(group: &GroupResult) -> [String; 7] {
    let (unit, scale) = match &group.metric {
        None => ("%", 100.0),
        Some(metric) => (metric.as_str(), 1.0),
    };
    let [value, interval] = figure(group.value, group.standard_error, group.interval, scale);
    let counts = [group.items, group.truncated, group.failed, group.missing];
    let [items, truncated, failed, missing] = counts.map(|count| count.to_string());
    let name = format!("{} ({}) {unit}", group.name, group.mean);
    [name, value, interval, items, truncated, failed, missing]
}

/// A value with its error, and its interval. Shares have a decimal, other figures three.
fn figure(value: Option<f64>, error: Option<f64>, interval: Option<[f64; 2]>, scale: f64) -> [String; 2] {
    let digits = if scale == 1.0 { 3 } else { 1 };
    let number = |value: f64| format!("{:.digits$}", scale * value);
    let value = match (value, error) {
        (None, _) => "-".to_owned(),
        (Some(value), None) => number(value),
        (Some(value), Some(error)) => format!("{} ±{}", number(value), number(error)),
    };
    let interval = interval.map_or("-".to_owned(), |[low, high]| {
        format!("{}..{}", number(low), number(high))
    });
    [value, interval]
}

fn state(result: &EvaluationResult) -> String {
    match result.state {
        ResultState::Serving => "provisional".to_owned(),
        other => other.label().to_owned(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tidemill_domain::{BenchmarkName, OutcomeCounts};

    use super::*;

    pub(crate) fn benchmark(scored: u64, samples: u64) -> BenchmarkResult {
        BenchmarkResult {
            name: BenchmarkName::try_new("b").unwrap(),
            metric: "accuracy".to_owned(),
            mean: Some(1.0),
            standard_error: None,
            interval: None,
            method: None,
            scored_items: scored,
            bounds: [scored as f64 / samples as f64, 1.0],
            items: samples,
            samples,
            coverage: scored as f64 / samples as f64,
            mean_excluding_truncated: None,
            truncated_correct: 0,
            mean_counting_cut_answers: None,
            truncated_in_reasoning: 0,
            truncated_in_reasoning_rate: 0.0,
            replaced: 0,
            outcomes: OutcomeCounts::default(),
            requests: 0,
            cached: 0,
            cache_hit_rate: 0.0,
            prompt_tokens: 0,
            completion_tokens: 0,
            cached_prompt_tokens: None,
            reusable_prompt_tokens: None,
            continued: 0,
            judge: None,
            metrics: Vec::new(),
            subsets: Vec::new(),
        }
    }

    #[test]
    fn what_judging_took_is_shown_where_a_judge_was_asked() {
        let mut shown = benchmark(4, 4);
        assert!(!results(&[result(shown.clone())]).contains("judge"));
        shown.judge = Some(JudgeUse {
            verdicts: 12,
            cached: 3,
            cache_hit_rate: 0.25,
            requests: 10,
            prompt_tokens: 900,
            completion_tokens: 90,
            unreadable: 1,
            disagreed: 2,
        });
        let text = results(&[result(shown)]);
        let line =
            "12 verdicts of a judge, 25 % known from before; 10 requests, 900 + 90 tokens; 1 replies without a verdict";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn what_is_beside_the_mean_is_shown_with_its_counts() {
        let mut shown = benchmark(4, 4);
        shown.outcomes.truncated = 1;
        shown.metrics.push(MetricResult {
            name: "perplexity".to_owned(),
            value: Some(12.3456),
            standard_error: Some(0.5),
            interval: Some([11.0, 14.0]),
            method: Some("bootstrap_bca".to_owned()),
            higher_is_better: false,
            items: 3,
            truncated: 1,
            failed: 0,
            missing: 0,
        });
        let group = GroupResult {
            name: "all".to_owned(),
            metric: None,
            mean: "macro".to_owned(),
            benchmarks: vec![shown.name.clone()],
            value: Some(0.5),
            standard_error: Some(0.25),
            interval: Some([0.0, 1.0]),
            method: Some("normal".to_owned()),
            items: 4,
            samples: 4,
            truncated: 1,
            failed: 0,
            missing: 2,
        };
        let text = results(&[EvaluationResult {
            groups: vec![group],
            ..result(shown)
        }]);
        for part in ["12.346 ±0.500", "11.000..14.000", "all (macro) %", "50.0 ±25.0"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let text = results(&[result(benchmark(4, 4))]);
        assert!(!text.contains("figure"), "{text}");
    }

    #[test]
    fn a_mean_over_a_part_is_never_shown_without_coverage_and_bounds() {
        assert_eq!(
            standing(&benchmark(1, 4)),
            "100.0 (coverage 0.250, bounds [25.0, 100.0])"
        );
        assert_eq!(standing(&benchmark(4, 4)), "100.0");
    }

    pub(crate) fn result(benchmark: BenchmarkResult) -> EvaluationResult {
        serde_json::from_value(serde_json::json!({
            "schema": 1, "evaluation": "0".repeat(16), "state": "final", "run": "r", "step": 1, "team": "t",
            "checkpoint": tidemill_domain::Digest::of(b"c"), "suite": {"name": "s", "version": "1", "tier": "canary"},
            "benchmarks": [benchmark], "timeline": {},
        }))
        .unwrap()
    }

    #[test]
    fn what_was_cut_and_replaced_is_shown_where_there_is_any() {
        let cut = BenchmarkResult {
            outcomes: OutcomeCounts {
                truncated: 2,
                ..OutcomeCounts::default()
            },
            mean_excluding_truncated: Some(0.75),
            mean_counting_cut_answers: Some(0.625),
            truncated_in_reasoning: 1,
            truncated_in_reasoning_rate: 0.125,
            replaced: 3,
            ..benchmark(8, 8)
        };
        let text = results(&[result(cut)]);
        let (header, row) = (text.lines().nth(1).unwrap(), text.lines().nth(3).unwrap());
        for (name, value) in [
            ("in reasoning %", "12.5"),
            ("without cut %", "75.0"),
            ("cut counted %", "62.5"),
            ("replaced", "3"),
        ] {
            let at = header.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
            assert!(row[at..at + name.len()].trim().ends_with(value), "{name}: {text}");
        }
        let nothing = results(&[result(benchmark(8, 8))]);
        for name in ["in reasoning", "without cut", "cut counted", "replaced"] {
            assert!(!nothing.contains(name), "{nothing}");
        }
    }
}
