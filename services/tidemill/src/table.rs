//! Results as tables, for people.

use std::collections::BTreeSet;

use tidemill_domain::{
    BenchmarkResult, EvaluationResult, GroupResult, JudgeUse, MetricResult, ResultState, SubsetResult, counted,
    counted_as,
};

use crate::sheet::{self, Sheet};

/// A result, and whose grades it is of.
#[derive(Debug, Clone)]
pub(crate) struct Shown {
    pub(crate) result: EvaluationResult,
    /// The how-many-th regrade of the evaluation; `None` for the first grades.
    pub(crate) regrade: Option<u32>,
}

impl Shown {
    pub(crate) fn first(result: &EvaluationResult) -> Self {
        Self {
            result: result.clone(),
            regrade: None,
        }
    }

    /// As commands take it.
    fn name(&self) -> String {
        let evaluation = &self.result.evaluation;
        self.regrade.map_or_else(
            || evaluation.to_string(),
            |number| format!("{evaluation}/regrade-{number}"),
        )
    }

    fn state(&self) -> String {
        let state = match self.result.state {
            ResultState::Serving => "provisional",
            other => other.label(),
        };
        self.regrade
            .map_or_else(|| state.to_owned(), |number| format!("{state}, regrade {number}"))
    }
}

/// A score with its error bar, in percent: `81.0 ±1.2`.
pub(crate) fn score(benchmark: &BenchmarkResult) -> String {
    figure(benchmark.mean, benchmark.standard_error, None, 100.0)[0].clone()
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

const RUN: usize = 0;
const STEP: usize = 1;
const SUITE: usize = 2;
const INTERVAL: usize = 5;
const EVALUATION: usize = 21;

/// Whether columns of [`HEADER`] are the same in every row.
struct Same {
    run: bool,
    step: bool,
    suite: bool,
}

impl Same {
    fn of(all: &[Shown]) -> Self {
        let is_one = |of: fn(&EvaluationResult) -> String| {
            let kinds: BTreeSet<String> = all.iter().map(|shown| of(&shown.result)).collect();
            kinds.len() < 2
        };
        Self {
            run: is_one(|result| result.run.to_string()),
            step: is_one(|result| result.step.to_string()),
            suite: is_one(|result| result.suite.name.to_string()),
        }
    }

    /// Columns that tell no row from another: they stand below the table in one line an evaluation.
    fn columns(&self) -> Vec<usize> {
        let each = [(RUN, self.run), (SUITE, self.suite), (STEP, self.step)];
        each.into_iter()
            .filter(|(_, is_same)| *is_same)
            .map(|(column, _)| column)
            .collect()
    }
}

/// Some figure has an error of 0, which only its interval qualifies.
fn needs_intervals(all: &[Shown]) -> bool {
    let results = || all.iter().map(|shown| &shown.result);
    let benchmarks = || results().flat_map(|result| &result.benchmarks);
    let mut errors = benchmarks()
        .map(|benchmark| benchmark.standard_error)
        .chain(
            benchmarks()
                .flat_map(|benchmark| &benchmark.metrics)
                .map(|metric| metric.standard_error),
        )
        .chain(
            benchmarks()
                .flat_map(|benchmark| &benchmark.subsets)
                .map(|subset| subset.standard_error),
        )
        .chain(
            results()
                .flat_map(|result| &result.groups)
                .map(|group| group.standard_error),
        );
    errors.any(|error| error == Some(0.0))
}

/// What a narrow terminal does without, the first first. Never without benchmark and score, nor the counts of what was cut, failed
/// or is missing, nor coverage and bounds of what is not whole. Rows of several steps are told apart whatever the room.
fn spare(all: &[Shown]) -> Vec<usize> {
    let same = Same::of(all);
    let several = [(RUN, same.run), (SUITE, same.suite)].into_iter();
    let several = several.filter(|(_, is_same)| !is_same).map(|(column, _)| column);
    std::iter::once(EVALUATION)
        .chain(same.columns())
        .chain([19, 12, 6, 18, 17, 9, 11, 10, 7, 20])
        .chain(several)
        .chain((!needs_intervals(all)).then_some(INTERVAL))
        .collect()
}

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
    let all: Vec<Shown> = results.iter().map(Shown::first).collect();
    text(&all, sheet::width_of_data())
}

/// The table of results and of regrades, `width` columns wide at most.
pub(crate) fn text(all: &[Shown], width: Option<usize>) -> String {
    let benchmarks = || all.iter().flat_map(|shown| &shown.result.benchmarks);
    let says_nothing = ONLY_WHERE.iter().filter(|(_, says)| !benchmarks().any(*says));
    let idle: BTreeSet<usize> = says_nothing.map(|(column, _)| *column).collect();
    let columns: Vec<usize> = (0..HEADER.len()).filter(|column| !idle.contains(column)).collect();
    let places = |wanted: &[usize]| -> Vec<usize> {
        let place = |wanted: &usize| columns.iter().position(|column| column == wanted);
        wanted.iter().filter_map(place).collect()
    };
    let rows = all.iter().flat_map(rows);
    let drawn = Sheet {
        header: columns.iter().map(|column| HEADER[*column].to_owned()).collect(),
        rows: rows
            .map(|cells| columns.iter().map(|column| cells[*column].clone()).collect())
            .collect(),
        numbers: &places(&[1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19]),
        whole: &places(&[4, INTERVAL, 8, 13, 14]),
        spare: &places(&spare(all)),
    }
    .draw(width);
    let mut text = drawn.text;
    if let Some(beside) = beside(all, width) {
        text.push('\n');
        text.push_str(&beside);
    }
    if !drawn.left_out.is_empty() {
        for shown in all {
            let EvaluationResult { run, step, suite, .. } = &shown.result;
            text.push_str(&format!(
                "\n{run} step {step} {}: evaluation {}",
                suite.name,
                shown.name()
            ));
        }
    }
    let results = || all.iter().map(|shown| &shown.result);
    for result in results() {
        for benchmark in &result.benchmarks {
            text.extend(benchmark.judge.iter().map(|judge| judged(result, benchmark, judge)));
        }
    }
    for result in results().filter(|result| result.state == ResultState::Invalid) {
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
        "\n{} step {} {}: {} of a judge, {:.0} % known from before; {}, {prompt_tokens} + {completion_tokens} tokens; {} without \
         a verdict, {}",
        result.run,
        result.step,
        benchmark.name,
        counted(*verdicts, "verdict"),
        100.0 * judge.cache_hit_rate,
        counted(*requests, "request"),
        counted_as(*unreadable, "reply", "replies"),
        counted_as(*disagreed, "comparison that disagrees", "comparisons that disagree"),
    )
}

/// One a benchmark, and one for an evaluation of which nothing is known yet.
fn rows(shown: &Shown) -> Vec<Vec<String>> {
    let result = &shown.result;
    if result.benchmarks.is_empty() {
        let mut cells = vec![
            result.run.to_string(),
            result.step.to_string(),
            result.suite.name.to_string(),
        ];
        cells.extend(std::iter::repeat_n("-".to_owned(), 17));
        cells.extend([shown.state(), shown.name()]);
        return vec![cells];
    }
    result
        .benchmarks
        .iter()
        .map(|benchmark| row(shown, benchmark))
        .collect()
}

fn row(shown: &Shown, benchmark: &BenchmarkResult) -> Vec<String> {
    let result = &shown.result;
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
        shown.state(),
        shown.name(),
    ]
}

const BESIDE: [&str; 13] = [
    "run",
    "step",
    "suite",
    "benchmark",
    "figure",
    "value",
    "unit",
    "95 %",
    "items",
    "truncated",
    "failed",
    "missing",
    "evaluation",
];

/// Metrics, subsets and groups, one a row; `None` where there are none. Shares are in percent, metrics as they are.
fn beside(all: &[Shown], width: Option<usize>) -> Option<String> {
    let rows: Vec<Vec<String>> = all.iter().flat_map(figures).collect();
    if rows.is_empty() {
        return None;
    }
    // The evaluation first, then what is the same in all rows, and the intervals where errors say enough.
    let mut spare = vec![12];
    spare.extend(Same::of(all).columns());
    spare.extend((!needs_intervals(all)).then_some(7));
    // Where nothing was cut, or failed, or is missing, nothing is overlooked.
    spare.extend(
        [9, 10, 11]
            .into_iter()
            .filter(|column| rows.iter().all(|cells| cells[*column] == "0")),
    );
    let sheet = Sheet {
        header: BESIDE.map(str::to_owned).to_vec(),
        rows,
        numbers: &[1, 5, 7, 8, 9, 10, 11],
        whole: &[5, 9, 10, 11],
        spare: &spare,
    };
    let drawn = sheet.draw(width);
    let left_out = [(9, "cut off"), (10, "failed"), (11, "missing")].into_iter();
    let none: Vec<&str> = left_out
        .filter(|(column, _)| drawn.left_out.contains(column))
        .map(|(_, what)| what)
        .collect();
    let nothing = (!none.is_empty()).then(|| format!("\nof these figures no item is {}", none.join(", none is ")));
    Some(drawn.text + &nothing.unwrap_or_default())
}

/// Every figure of a result but its benchmarks' scores.
fn figures(shown: &Shown) -> Vec<Vec<String>> {
    let result = &shown.result;
    let mut rows = Vec::new();
    let mut push = |benchmark: &str, cells: [String; 8]| {
        let place = [
            result.run.to_string(),
            result.step.to_string(),
            result.suite.name.to_string(),
            benchmark.to_owned(),
        ];
        rows.push(place.into_iter().chain(cells).chain([shown.name()]).collect());
    };
    for benchmark in &result.benchmarks {
        let name = benchmark.name.as_str();
        let metrics = benchmark.metrics.iter();
        metrics.for_each(|metric| push(name, of_metric(metric, benchmark.items)));
        benchmark
            .subsets
            .iter()
            .for_each(|subset| push(name, of_subset(subset)));
    }
    result.groups.iter().for_each(|group| push("-", of_group(group)));
    rows
}

/// `all` are the benchmark's items, of which the metric may have fewer.
fn of_metric(metric: &MetricResult, all: u64) -> [String; 8] {
    let [value, interval] = figure(metric.value, metric.standard_error, metric.interval, 1.0);
    let items = match metric.items {
        items if items == all => items.to_string(),
        items => format!("{items} of {all}"),
    };
    let counts = [metric.truncated, metric.failed, metric.missing];
    let [truncated, failed, missing] = counts.map(|count| count.to_string());
    let [name, unit] = [metric.name.clone(), "-".to_owned()];
    [name, value, unit, interval, items, truncated, failed, missing]
}

fn of_subset(subset: &SubsetResult) -> [String; 8] {
    let [value, interval] = figure(subset.mean, subset.standard_error, subset.interval, 100.0);
    let counts = [subset.items, subset.truncated, subset.failed, subset.missing];
    let [items, truncated, failed, missing] = counts.map(|count| count.to_string());
    let [name, unit] = [subset.name.clone(), "%".to_owned()];
    [name, value, unit, interval, items, truncated, failed, missing]
}

fn of_group(group: &GroupResult) -> [String; 8] {
    let (unit, scale) = match &group.metric {
        None => ("%", 100.0),
        Some(_) => ("-", 1.0),
    };
    let [value, interval] = figure(group.value, group.standard_error, group.interval, scale);
    let counts = [group.items, group.truncated, group.failed, group.missing];
    let [items, truncated, failed, missing] = counts.map(|count| count.to_string());
    let metric = group.metric.as_ref().map(|metric| format!(" {metric}"));
    let name = format!("{} ({}){}", group.name, group.mean, metric.unwrap_or_default());
    [
        name,
        value,
        unit.to_owned(),
        interval,
        items,
        truncated,
        failed,
        missing,
    ]
}

/// A value with its error, and its interval. Shares have a decimal, other figures three. An error of 0 is that of values which
/// are all alike, and no proof: the interval alone says what is open.
fn figure(value: Option<f64>, error: Option<f64>, interval: Option<[f64; 2]>, scale: f64) -> [String; 2] {
    let digits = if scale == 1.0 { 3 } else { 1 };
    let number = |value: f64| format!("{:.digits$}", scale * value);
    let value = match (value, error) {
        (None, _) => "-".to_owned(),
        (Some(value), None | Some(0.0)) => number(value),
        (Some(value), Some(error)) => format!("{} ±{}", number(value), number(error)),
    };
    let interval = interval.map_or("-".to_owned(), |[low, high]| {
        format!("{}..{}", number(low), number(high))
    });
    [value, interval]
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

    /// Whatever terminal the test runs in.
    fn full(results: &[EvaluationResult]) -> String {
        text(&results.iter().map(Shown::first).collect::<Vec<Shown>>(), None)
    }

    #[test]
    fn what_judging_took_is_shown_where_a_judge_was_asked() {
        let mut shown = benchmark(4, 4);
        assert!(!full(&[result(shown.clone())]).contains("judge"));
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
        let text = full(&[result(shown)]);
        let line = "12 verdicts of a judge, 25 % known from before; 10 requests, 900 + 90 tokens; 1 reply without a verdict, 2 \
             comparisons that disagree";
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
        let text = full(&[EvaluationResult {
            groups: vec![group],
            ..result(shown)
        }]);
        for part in ["12.346 ±0.500", "11.000..14.000", "3 of 4", "all (macro)", "50.0 ±25.0"] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        let lines: Vec<&str> = text.lines().skip_while(|line| !line.contains("figure")).collect();
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
        let (perplexity, all) = (cells(lines[2]), cells(lines[3]));
        assert_eq!(perplexity[3..5], ["s", "b"], "{text}");
        assert!(all.contains(&"%".to_owned()) && all.contains(&"0".repeat(16)), "{text}");
        let text = full(&[result(benchmark(4, 4))]);
        assert!(!text.contains("figure"), "{text}");
    }

    #[test]
    fn values_that_are_all_alike_show_their_interval_and_no_error() {
        let shown = BenchmarkResult {
            standard_error: Some(0.0),
            interval: Some([0.722, 1.0]),
            ..benchmark(10, 10)
        };
        assert_eq!(score(&shown), "100.0");
        let text = full(&[result(shown)]);
        assert!(!text.contains('±') && text.contains("72.2..100.0"), "{text}");
    }

    fn widest(text: &str) -> usize {
        text.lines().map(|line| line.chars().count()).max().unwrap()
    }

    #[test]
    fn a_narrow_terminal_shows_what_was_cut_failed_or_is_missing_all_the_same() {
        let mut shown = BenchmarkResult {
            name: BenchmarkName::try_new("a-benchmark-of-a-name-that-is-long").unwrap(),
            outcomes: OutcomeCounts {
                truncated: 101,
                engine_error: 202,
                missing: 303,
                ..OutcomeCounts::default()
            },
            standard_error: Some(0.01),
            interval: Some([0.1, 0.9]),
            replaced: 404,
            continued: 505,
            ..benchmark(100, 1_000)
        };
        shown.metrics.push(MetricResult {
            name: "a_metric_of_a_name_that_is_long_too".to_owned(),
            value: Some(12.3456),
            standard_error: Some(0.5),
            interval: Some([11.0, 14.0]),
            method: None,
            higher_is_better: false,
            items: 100,
            truncated: 101,
            failed: 202,
            missing: 303,
        });
        let all = [Shown::first(&result(shown))];
        let full = text(&all, None);
        assert!(
            full.contains("404") && full.contains("505") && widest(&full) > 150,
            "{full}"
        );
        for width in [160, 120, 100, 80] {
            let text = text(&all, Some(width));
            let tables = text
                .lines()
                .filter(|line| line.starts_with(['|', '+']))
                .collect::<Vec<_>>()
                .join("\n");
            assert!(widest(&tables) <= width, "{width}\n{text}");
            for count in ["101", "202", "303"] {
                assert_eq!(tables.matches(count).count(), 2, "{count} at {width}\n{text}");
            }
            assert!(text.contains(&"0".repeat(16)), "the evaluation stands below: {text}");
        }
    }

    #[test]
    fn a_narrow_terminal_says_in_words_that_no_figure_lacks_an_item() {
        let mut shown = benchmark(100, 100);
        shown.metrics.push(MetricResult {
            name: "a_metric_of_a_name_that_is_very_long_indeed".to_owned(),
            value: Some(12.3456),
            standard_error: Some(0.5),
            interval: Some([11.0, 14.0]),
            method: None,
            higher_is_better: false,
            items: 100,
            truncated: 0,
            failed: 7,
            missing: 0,
        });
        let all = [Shown::first(&result(shown))];
        let said = "of these figures no item is cut off, none is missing";
        assert!(
            !text(&all, None).contains("of these figures"),
            "its columns stand there"
        );
        let narrow = text(&all, Some(80));
        assert!(narrow.contains(said), "{narrow}");
    }

    #[test]
    fn runs_and_suites_are_told_apart_for_as_long_as_there_is_room() {
        let (one, mut other) = (result(benchmark(4, 4)), result(benchmark(4, 4)));
        other.run = tidemill_domain::RunId::try_new("another").unwrap();
        let one = Shown::first(&one);
        assert_eq!(spare(std::slice::from_ref(&one))[..4], [EVALUATION, RUN, SUITE, STEP]);
        let several = spare(&[one.clone(), Shown::first(&other)]);
        assert_eq!(several[several.len() - 2..], [RUN, INTERVAL]);
        other.step = tidemill_domain::Step(2);
        assert!(!spare(&[one, Shown::first(&other)]).contains(&STEP));
    }

    #[test]
    fn an_interval_that_says_more_than_its_error_is_shown_whatever_the_room() {
        let mut shown = BenchmarkResult {
            standard_error: Some(0.1),
            interval: Some([0.722, 1.0]),
            ..benchmark(10, 10)
        };
        assert!(!text(&[Shown::first(&result(shown.clone()))], Some(64)).contains("72.2"));
        shown.standard_error = Some(0.0);
        let text = text(&[Shown::first(&result(shown))], Some(64));
        assert!(text.contains("72.2..100.0"), "{text}");
    }

    #[test]
    fn a_regrade_stands_beside_the_first_grades_under_its_own_name() {
        let first = Shown::first(&result(benchmark(4, 4)));
        let regrade = Shown {
            regrade: Some(2),
            ..first.clone()
        };
        let text = text(&[first, regrade], None);
        let id = "0".repeat(16);
        assert!(
            text.contains("final, regrade 2") && text.contains(&format!("{id}/regrade-2")),
            "{text}"
        );
        assert_eq!(text.matches("100.0").count(), 2, "{text}");
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
        let text = full(&[result(cut)]);
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
        let nothing = full(&[result(benchmark(8, 8))]);
        for name in ["in reasoning", "without cut", "cut counted", "replaced"] {
            assert!(!nothing.contains(name), "{nothing}");
        }
    }
}
