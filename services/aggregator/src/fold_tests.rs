//! What counts as a score, how means and errors come about, and that order and repeats change none of it.

use proptest::prelude::*;
use tidemill_domain::{
    Aggregation, Average, Benchmark, BenchmarkName, ClusterColumn, Continuation, Digest, EvaluationId, GraderSpec,
    GroupMean, Measured, Member, Metric, MetricSource, Outcome, Penalties, Reasoning, Served, Settings, SubsetColumn,
    SuiteName, SuiteRef, Tier, WeightColumn,
};

use super::*;

pub(crate) fn manifest(items: u32, samples: u32) -> Manifest {
    Manifest {
        suite: SuiteRef {
            name: SuiteName::try_new("suite").unwrap(),
            version: "1".to_owned(),
            tier: Tier::InTraining,
        },
        max_failure_rate: 0.02,
        benchmarks: vec![benchmark(items, samples)],
        groups: Vec::new(),
    }
}

pub(crate) fn benchmark(items: u32, samples: u32) -> Benchmark {
    Benchmark {
        name: BenchmarkName::try_new("benchmark").unwrap(),
        settings: Settings {
            max_tokens: 10,
            temperature: 0.0,
            top_p: 1.0,
            stop: Vec::new(),
            seed: 0,
            samples,
        },
        grader: GraderSpec::Exact {
            ignore_case: false,
            ignore_punctuation: false,
        },
        items,
        // No item is ever looked at here.
        blocks: Vec::new(),
        clusters: None,
        penalties: Penalties::default(),
        continuation: Continuation::default(),
        spare_samples: 0,
        outlines: Vec::new(),
        reasoning: Reasoning::default(),
        metrics: Vec::new(),
        subsets: None,
        weights: None,
    }
}

pub(crate) fn grade(item: u32, sample: u32, outcome: Outcome) -> Grade {
    let time = i64::from(item * 100 + sample);
    Grade {
        key: ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
            benchmark: 0,
            item,
            sample,
        },
        outcome,
        score: f64::from(u8::from(outcome == Outcome::Correct)),
        score_before_cut: None,
        extracted: None,
        grader: "exact@1".to_owned(),
        reason: None,
        truncated: outcome == Outcome::Truncated,
        cut_in_reasoning: false,
        replaced: false,
        prompt_tokens: 10,
        completion_tokens: 3,
        requests: 2,
        cached: item == 0,
        served: Served::default(),
        started: Timestamp(1_000 + time),
        finished: Timestamp(2_000 + time),
        graded: Timestamp(3_000 + time),
        extractor: None,
        span: None,
        canonical: None,
        measures: Vec::new(),
        judge: None,
    }
}

fn folded(manifest: &Manifest, grades: &[Grade]) -> Fold {
    let mut fold = Fold::new(manifest, Vec::new());
    for grade in grades {
        fold.apply(grade);
    }
    fold
}

fn result(manifest: &Manifest, grades: &[Grade]) -> BenchmarkResult {
    folded(manifest, grades).benchmark_result(0).unwrap()
}

fn assert_close(actual: Option<f64>, expected: f64) {
    assert!(
        (actual.unwrap() - expected).abs() < 1e-12,
        "{actual:?} is not {expected}"
    );
}

#[test]
fn nothing_known_is_no_mean_and_bounds_from_zero_to_one() {
    let result = result(&manifest(4, 2), &[]);
    assert_eq!(
        (result.mean, result.standard_error, result.interval),
        (None, None, None)
    );
    assert_eq!((result.bounds, result.coverage), ([0.0, 1.0], 0.0));
    assert_eq!((result.items, result.samples, result.outcomes.missing), (4, 8, 8));
    assert_eq!(result.metric, "accuracy");
}

#[test]
fn a_failure_is_never_a_score_and_a_refusal_is_one() {
    let grades = [
        grade(0, 0, Outcome::Correct),
        grade(1, 0, Outcome::Incorrect),
        grade(2, 0, Outcome::NoAnswer),
        grade(3, 0, Outcome::Refused),
        grade(4, 0, Outcome::EngineError),
        grade(5, 0, Outcome::Empty),
        grade(6, 0, Outcome::ContextOverflow),
        grade(7, 0, Outcome::GraderError),
        grade(8, 0, Outcome::Ungraded),
    ];
    let result = result(&manifest(10, 1), &grades);
    assert_eq!(result.mean, Some(0.25));
    assert_eq!(result.coverage, 0.4);
    assert_eq!(result.bounds, [0.1, 0.7]);
    assert_eq!((result.outcomes.missing, result.outcomes.failed()), (1, 6));
    assert_eq!((result.requests, result.cached), (18, 1));
    assert_eq!((result.prompt_tokens, result.completion_tokens), (90, 27));
}

#[test]
fn truncated_samples_are_wrong_in_the_mean_and_absent_beside_it() {
    let right_before_cut = Grade {
        score_before_cut: Some(1.0),
        ..grade(2, 0, Outcome::Truncated)
    };
    let wrong_before_cut = Grade {
        score_before_cut: Some(0.0),
        ..grade(3, 0, Outcome::Truncated)
    };
    let grades = [
        grade(0, 0, Outcome::Correct),
        grade(1, 0, Outcome::Incorrect),
        right_before_cut,
        wrong_before_cut,
    ];
    let result = result(&manifest(4, 1), &grades);
    assert_eq!(result.mean, Some(0.25));
    assert_eq!(result.mean_excluding_truncated, Some(0.5));
    assert_eq!((result.truncated_correct, result.outcomes.truncated), (1, 2));
}

/// By hand: the item means are 1/2, 1 and 0; their mean 1/2, their sd 1/2, the error 1/2/√3.
#[test]
fn samples_are_averaged_within_their_item_first() {
    let grades = [
        grade(0, 0, Outcome::Correct),
        grade(0, 1, Outcome::Incorrect),
        grade(1, 0, Outcome::Correct),
        grade(2, 0, Outcome::Incorrect),
        grade(2, 1, Outcome::NoAnswer),
    ];
    let result = result(&manifest(3, 2), &grades);
    assert_close(result.mean, 0.5);
    assert_close(result.standard_error, 0.5 / 3_f64.sqrt());
    assert_eq!(result.interval.unwrap(), [0.0, 1.0]);
    assert_eq!(result.bounds, [2.0 / 6.0, 3.0 / 6.0]);
}

#[test]
fn one_right_or_wrong_sample_an_item_gets_a_wilson_interval() {
    let grades: Vec<Grade> = (0..10).map(|item| grade(item, 0, Outcome::Correct)).collect();
    let result = result(&manifest(10, 1), &grades);
    assert_eq!(result.standard_error, Some(0.0));
    let [low, high] = result.interval.unwrap();
    assert!((low - 0.722_467_200_137_110_9).abs() < 1e-12);
    assert_eq!(high, 1.0);
}

#[test]
fn items_of_a_cluster_widen_the_error() {
    let clustered = |of_item: &[u32], grades: &[Grade]| {
        let count = of_item.iter().max().unwrap() + 1;
        let of_item = of_item.to_vec();
        let mut fold = Fold::new(
            &manifest(4, 1),
            vec![Columns {
                clusters: Some(ClusterColumn { of_item, count }),
                ..Columns::default()
            }],
        );
        grades.iter().for_each(|grade| assert!(fold.apply(grade)));
        fold.benchmark_result(0).unwrap()
    };
    let grades = [
        grade(0, 0, Outcome::Correct),
        grade(1, 0, Outcome::Correct),
        grade(2, 0, Outcome::Incorrect),
        grade(3, 0, Outcome::Incorrect),
    ];
    // By hand: the clusters' sums of deviations are 1 and -1; √(2/1 · 2)/4 = 1/2. As items: √(1/3)/2.
    assert_close(clustered(&[0, 0, 1, 1], &grades).standard_error, 0.5);
    assert_close(
        result(&manifest(4, 1), &grades).standard_error,
        (1.0_f64 / 3.0).sqrt() / 2.0,
    );
    let result = clustered(&[0, 0, 1, 2], &grades);
    // By hand: sums of deviations 1, -1/2, -1/2; √(3/2 · 3/2)/4.
    assert_close(result.standard_error, 0.375);
}

#[test]
fn partial_credit_is_a_score_kept_exactly() {
    let partial = |item, score| Grade {
        score,
        ..grade(item, 0, Outcome::Graded)
    };
    let grades = [
        grade(0, 0, Outcome::Correct),
        partial(1, 0.1),
        partial(2, f64::NAN),
        partial(3, 7.0),
    ];
    let result = result(&manifest(4, 1), &grades);
    assert_eq!(result.metric, "score");
    assert_eq!(result.mean, Some((1.0 + 0.1 + 1.0) / 3.0));
    assert_eq!((result.outcomes.graded, result.outcomes.grader_error), (2, 1));
}

#[test]
fn undeclared_keys_and_second_grades_change_nothing() {
    let mut fold = Fold::new(&manifest(2, 1), Vec::new());
    assert!(fold.apply(&grade(0, 0, Outcome::Correct)));
    let before = fold.clone();
    assert!(!fold.apply(&grade(0, 0, Outcome::Incorrect)));
    assert!(!fold.apply(&grade(2, 0, Outcome::Correct)));
    assert!(!fold.apply(&grade(0, 1, Outcome::Correct)));
    let mut elsewhere = grade(1, 0, Outcome::Correct);
    elsewhere.key.benchmark = 1;
    assert!(!fold.apply(&elsewhere));
    assert!(!fold.apply_unreadable(&elsewhere.key));
    assert_eq!(fold, before);
}

#[test]
fn an_unreadable_grade_is_a_fault_of_the_grader() {
    let mut fold = Fold::new(&manifest(2, 1), Vec::new());
    assert!(fold.apply_unreadable(&grade(0, 0, Outcome::Correct).key));
    assert_eq!(fold.outcomes().grader_error, 1);
    assert!(!fold.apply(&grade(0, 0, Outcome::Correct)));
    assert_eq!(fold.timeline(), Timeline::default());
}

#[test]
fn completeness_and_times_are_those_of_all_benchmarks() {
    let mut two = manifest(1, 1);
    two.benchmarks.push(benchmark(2, 1));
    let mut fold = Fold::new(&two, Vec::new());
    fold.apply(&grade(0, 0, Outcome::EngineError));
    assert!(fold.benchmark_complete(0) && !fold.benchmark_complete(1) && !fold.is_complete());
    for item in [1, 0] {
        let mut grade = grade(item, 0, Outcome::Correct);
        grade.key.benchmark = 1;
        fold.apply(&grade);
    }
    assert!(fold.is_complete());
    assert_eq!((fold.declared(), fold.seen(), fold.outcomes().correct), (3, 3, 2));
    assert_close(Some(fold.failure_rate()), 1.0 / 3.0);
    let timeline = fold.timeline();
    assert_eq!(timeline.first_request, Some(Timestamp(1_000)));
    assert_eq!(timeline.last_completion, Some(Timestamp(2_100)));
    assert_eq!(timeline.last_grade, Some(Timestamp(3_100)));
}

#[test]
fn subsets_have_means_of_their_own_and_counts_beside_them() {
    let columns = Columns {
        subsets: Some(SubsetColumn {
            of_item: vec![0, 1, 0, 1, u32::MAX],
            names: vec!["law".to_owned(), "art".to_owned()],
        }),
        ..Columns::default()
    };
    let mut fold = Fold::new(&manifest(5, 1), vec![columns]);
    for (item, outcome) in [
        (0, Outcome::Correct),
        (1, Outcome::Truncated),
        (2, Outcome::EngineError),
        (4, Outcome::Correct),
    ] {
        assert!(fold.apply(&grade(item, 0, outcome)));
    }
    let result = fold.results().remove(0);
    let [law, art] = result.subsets.as_slice() else {
        panic!("{:?}", result.subsets)
    };
    assert_eq!(
        (law.name.as_str(), law.mean, law.coverage, law.bounds),
        ("law", Some(1.0), 0.5, [0.5, 1.0])
    );
    assert_eq!(
        (law.items, law.samples, law.truncated, law.failed, law.missing),
        (2, 2, 0, 1, 0)
    );
    assert_eq!(law.method.as_deref(), Some("wilson"));
    assert_eq!(
        (art.mean, art.mean_excluding_truncated, art.bounds),
        (Some(0.0), None, [0.0, 0.5])
    );
    assert_eq!((art.truncated, art.failed, art.missing), (1, 0, 1));
    assert_eq!((result.mean, result.scored_items), (Some(2.0 / 3.0), 3));
}

/// By hand: (3·1 + 1·0)/4; of four declared by weight the unknown one has 2.
#[test]
fn weights_move_mean_and_bounds_and_not_coverage() {
    let columns = Columns {
        weights: Some(WeightColumn {
            of_item: vec![3.0, 1.0, 2.0],
        }),
        ..Columns::default()
    };
    let mut fold = Fold::new(&manifest(3, 1), vec![columns]);
    fold.apply(&grade(0, 0, Outcome::Correct));
    fold.apply(&grade(1, 0, Outcome::Incorrect));
    let result = fold.results().remove(0);
    assert_eq!((result.mean, result.mean_excluding_truncated), (Some(0.75), Some(0.75)));
    assert_eq!(result.bounds, [0.5, 5.0 / 6.0]);
    assert_close(Some(result.coverage), 2.0 / 3.0);
    // By hand: √(2/1 · (9/16 + 9/16))/4.
    assert_close(result.standard_error, 0.375);
    assert_eq!(
        result.method.as_deref(),
        Some("student_t"),
        "no Wilson for weighted items, and too few to draw from"
    );
}

/// By hand: means 1/2 of 4 items and 1/4 of 4; macro (2·1/2 + 1/4)/3; micro of the items by weight the same here, and with
/// equal weights 3/8.
#[test]
fn groups_are_means_over_benchmarks_or_over_their_items() {
    let group = |name: &str, mean, weights: [f64; 2]| Group {
        name: name.to_owned(),
        members: weights
            .into_iter()
            .zip(0..)
            .map(|(weight, benchmark)| Member { benchmark, weight })
            .collect(),
        mean,
        metric: None,
    };
    let mut two = manifest(4, 1);
    two.benchmarks.push(benchmark(4, 1));
    two.groups = vec![
        group("macro", GroupMean::Macro, [2.0, 1.0]),
        group("micro", GroupMean::Micro, [1.0, 1.0]),
        Group {
            metric: Some("unknown".to_owned()),
            ..group("of a metric", GroupMean::Macro, [1.0, 1.0])
        },
    ];
    let mut fold = Fold::new(&two, Vec::new());
    for (benchmark, right) in [(0, 2), (1, 1)] {
        for item in 0..4 {
            let outcome = if item < right {
                Outcome::Correct
            } else {
                Outcome::Incorrect
            };
            let mut grade = grade(item, 0, outcome);
            grade.key.benchmark = benchmark;
            assert!(fold.apply(&grade));
        }
    }
    let results = fold.results();
    let groups = fold.groups(&results);
    assert_close(groups[0].value, 1.25 / 3.0);
    assert_close(groups[1].value, 0.375);
    let errors: Vec<f64> = results.iter().map(|result| result.standard_error.unwrap()).collect();
    assert_close(groups[0].standard_error, (2.0 * errors[0]).hypot(errors[1]) / 3.0);
    assert_close(groups[1].standard_error, errors[0].hypot(errors[1]) / 2.0);
    assert_eq!(
        (groups[0].items, groups[0].mean.as_str(), groups[0].benchmarks.len()),
        (8, "macro", 2)
    );
    assert_eq!(groups[2].value, None, "no member has the metric");
    let empty = Fold::new(&two, Vec::new());
    assert_eq!(empty.groups(&empty.results())[0].value, None, "nothing is scored");
    assert_eq!(empty.groups(&empty.results())[0].missing, 8);
}

/// Of [`some_grades`]: everything that a benchmark can declare.
fn everything() -> (Manifest, Vec<Columns>) {
    let metric = |name: &str, source, aggregation| Metric {
        name: name.to_owned(),
        source,
        aggregation,
        higher_is_better: true,
    };
    let mut manifest = manifest(5, 3);
    manifest.benchmarks[0].metrics = vec![
        metric("mean", MetricSource::Measure, Aggregation::Mean),
        metric("perplexity", MetricSource::Measure, Aggregation::Perplexity),
        metric("f1", MetricSource::Measure, Aggregation::F1(Average::Macro)),
        metric("pass", MetricSource::PassAt(2), Aggregation::Mean),
        metric("votes", MetricSource::MajorityAt(2), Aggregation::Mean),
    ];
    let columns = Columns {
        clusters: None,
        subsets: Some(SubsetColumn {
            of_item: vec![0, 1, 0, u32::MAX, 1],
            names: vec!["a".to_owned(), "b".to_owned()],
        }),
        weights: Some(WeightColumn {
            of_item: vec![1.0, 0.5, 2.0, 3.0, 1.0],
        }),
    };
    (manifest, vec![columns])
}

/// What a grade of [`everything`] holds beside its outcome, from its score.
fn with_measures(grade: Grade) -> Grade {
    let label = grade.key.item % 2;
    Grade {
        canonical: Some(format!(
            "{}",
            grade.completion_tokens % 2 + u64::from(grade.key.sample / 2)
        )),
        measures: vec![
            Some(Measured::Value(10.0 * grade.score)),
            Some(Measured::Weighted {
                value: -1.0 - grade.score,
                weight: 1.0 + f64::from(label),
            }),
            (grade.key.sample != 1).then_some(Measured::Labels {
                truth: label,
                predicted: grade.key.sample % 2,
            }),
            None,
            None,
        ],
        ..grade
    }
}

/// Grades of some of 5 items with 3 samples, one a key.
fn some_grades() -> impl Strategy<Value = Vec<Grade>> {
    let one = (0..Outcome::ALL.len(), 0.0..1.0_f64, any::<bool>()).prop_map(Some);
    prop::collection::vec(prop_oneof![one, Just(None)], 15).prop_map(|drawn| {
        let keyed = drawn.into_iter().enumerate();
        keyed
            .filter_map(|(index, drawn)| {
                let (outcome, score, truncated) = drawn?;
                let outcome = Outcome::ALL[outcome];
                let plain = grade(index as u32 / 3, index as u32 % 3, outcome);
                let is_cut = plain.truncated || truncated;
                Some(Grade {
                    score: if outcome == Outcome::Graded { score } else { plain.score },
                    truncated: is_cut,
                    ..plain
                })
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn order_and_duplicates_do_not_matter(
        (grades, order) in some_grades().prop_flat_map(|grades| {
            let twice = [grades.clone(), grades.clone()].concat();
            (Just(grades), Just(twice).prop_shuffle())
        }),
    ) {
        let manifest = manifest(5, 3);
        let plain = folded(&manifest, &grades);
        let shuffled = folded(&manifest, &order);
        prop_assert_eq!(&plain, &shuffled);
        prop_assert_eq!(plain.benchmark_result(0), shuffled.benchmark_result(0));
        let (manifest, columns) = everything();
        let [plain, shuffled] = [&grades, &order].map(|grades| {
            let mut fold = Fold::new(&manifest, columns.clone());
            grades.iter().cloned().map(with_measures).for_each(|grade| {
                fold.apply(&grade);
            });
            fold
        });
        prop_assert_eq!(plain.benchmark_result(0).unwrap().metrics.len(), 5);
        prop_assert_eq!(plain.benchmark_result(0), shuffled.benchmark_result(0));
    }

    #[test]
    fn the_mean_lies_within_bounds_and_all_samples_are_counted(grades in some_grades()) {
        let result = result(&manifest(5, 3), &grades);
        let counts = result.outcomes;
        let scored = counts.correct + counts.incorrect + counts.graded + counts.no_answer + counts.truncated + counts.refused;
        prop_assert_eq!(scored + counts.failed(), 15);
        let [low, high] = result.bounds;
        prop_assert!(0.0 <= low && low <= high && high <= 1.0 + 1e-12);
        if scored == 15 {
            let mean = result.mean.unwrap();
            prop_assert!((mean - low).abs() < 1e-12 && (mean - high).abs() < 1e-12);
        }
    }
}
