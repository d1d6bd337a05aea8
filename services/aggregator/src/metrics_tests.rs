use tidemill_domain::{Average, ClusterColumn, Columns, MetricResult};

use super::*;
use crate::fold::tests::{benchmark, grade};
use crate::tally::Tally;

fn metric(source: MetricSource, aggregation: Aggregation) -> Metric {
    Metric {
        name: "metric".to_owned(),
        source,
        aggregation,
        higher_is_better: true,
    }
}

fn tally(items: u32, samples: u32, metrics: Vec<Metric>) -> Tally {
    tally_with(items, samples, metrics, Columns::default())
}

fn tally_with(items: u32, samples: u32, metrics: Vec<Metric>, columns: Columns) -> Tally {
    let benchmark = Benchmark {
        metrics,
        ..benchmark(items, samples)
    };
    Tally::new(&benchmark, columns)
}

fn only(tally: &Tally) -> MetricResult {
    tally.result(Effort::Final).metrics.remove(0)
}

fn measured(item: u32, sample: u32, measure: Measured) -> Grade {
    Grade {
        measures: vec![Some(measure)],
        ..grade(item, sample, Outcome::Incorrect)
    }
}

fn said(item: u32, sample: u32, outcome: Outcome, answer: &str) -> Grade {
    Grade {
        canonical: Some(answer.to_owned()),
        ..grade(item, sample, outcome)
    }
}

fn assert_close(actual: Option<f64>, expected: f64) {
    assert!(
        (actual.unwrap() - expected).abs() < 1e-12,
        "{actual:?} is not {expected}"
    );
}

#[test]
fn a_mean_of_measures_averages_samples_within_their_item() {
    let mut tally = tally(3, 2, vec![metric(MetricSource::Measure, Aggregation::Mean)]);
    for (item, sample, value) in [(0, 0, 10.0), (0, 1, 30.0), (1, 0, 100.0)] {
        assert!(tally.apply(&measured(item, sample, Measured::Value(value))));
    }
    let found = only(&tally);
    assert_close(found.value, 60.0);
    assert_close(found.standard_error, 40.0);
    assert_eq!((found.items, found.missing, found.failed), (2, 3, 0));
    // Two items, so Student's with one degree of freedom, and not clipped to shares.
    assert_eq!(found.method.as_deref(), Some("student_t"));
    let [low, high] = found.interval.unwrap();
    assert!(
        (low + 448.248).abs() < 1e-3 && (high - 568.248).abs() < 1e-3,
        "{low}..{high}"
    );
}

/// By hand: e^(30/10) over all tokens, where the mean of the items' perplexities would be another number.
#[test]
fn a_share_that_shows_no_spread_has_an_interval_all_the_same() {
    let found = |values: [f64; 4], samples: u32| {
        let items = 4 / samples;
        let mut tally = tally(items, samples, vec![metric(MetricSource::Measure, Aggregation::Mean)]);
        for (place, value) in (0..).zip(values) {
            assert!(tally.apply(&measured(place / samples, place % samples, Measured::Value(value))));
        }
        only(&tally)
    };
    let wilson = |found: &MetricResult| found.interval.unwrap();
    let none = found([0.0; 4], 1);
    assert_eq!((none.value, none.method.as_deref()), (Some(0.0), Some("wilson")));
    assert!((wilson(&none)[1] - 0.489_890).abs() < 1e-5, "{none:?}");
    assert!(wilson(&found([1.0; 4], 2))[0] < 0.5, "also of several samples");
    assert!(wilson(&found([1.0, 1.0, 1.0, 0.0], 1))[1] < 1.0);
    // What is no share is not taken for one: nothing is known of how far others are off.
    assert_eq!(found([3.0; 4], 1).interval, None);
}

#[test]
fn perplexity_and_bits_are_those_of_the_whole_corpus() {
    for (aggregation, expected) in [
        (Aggregation::Perplexity, 3.0_f64.exp()),
        (Aggregation::BitsPerWeight, 3.0 / 2.0_f64.ln()),
        (Aggregation::WeightedMean, -3.0),
    ] {
        let mut tally = tally(3, 1, vec![metric(MetricSource::Measure, aggregation)]);
        for (item, value, weight) in [(0, -4.0, 2.0), (1, -6.0, 3.0), (2, -20.0, 5.0)] {
            tally.apply(&measured(item, 0, Measured::Weighted { value, weight }));
        }
        let found = only(&tally);
        assert_close(found.value, expected);
        assert!(found.standard_error.unwrap() > 0.0);
        assert_eq!(found.items, 3);
    }
}

#[test]
fn an_impossible_text_has_no_finite_perplexity_and_is_not_left_out() {
    let mut tally = tally(2, 1, vec![metric(MetricSource::Measure, Aggregation::Perplexity)]);
    for (item, value) in [(0, -4.0), (1, f64::NEG_INFINITY)] {
        tally.apply(&measured(item, 0, Measured::Weighted { value, weight: 2.0 }));
    }
    let found = only(&tally);
    assert_eq!(
        (found.value, found.standard_error, found.interval, found.items),
        (None, None, None, 2)
    );
}

/// By hand: class 1 is true three times, predicted twice, hit once more than missed: F1 = 2·2/(3+2); accuracy 3/4.
#[test]
fn f1_and_correlation_come_from_the_labels_of_all_samples() {
    let labels = [(1, 1), (1, 1), (1, 0), (0, 0)];
    for (aggregation, expected) in [
        (Aggregation::F1(Average::Binary), 0.8),
        (Aggregation::F1(Average::Micro), 0.75),
        (Aggregation::F1(Average::Macro), (0.8 + 2.0 / 3.0) / 2.0),
        (Aggregation::F1(Average::Weighted), (3.0 * 0.8 + 2.0 / 3.0) / 4.0),
        (Aggregation::Mcc, 1.0 / 3.0_f64.sqrt()),
    ] {
        let mut tally = tally(4, 1, vec![metric(MetricSource::Measure, aggregation)]);
        for (item, (truth, predicted)) in (0..).zip(labels) {
            tally.apply(&measured(item, 0, Measured::Labels { truth, predicted }));
        }
        assert_close(only(&tally).value, expected);
    }
}

/// Expected: the corpus figures of the counts' sums, which are not the means of the sentences'.
#[test]
fn bleu_and_chrf_are_those_of_the_whole_corpus() {
    let pairs = [
        ("the cat sat on the mat", "the cat sat on a mat"),
        ("it rains", "it does not rain today"),
    ];
    let bleu = pairs.map(|(said, wanted)| tidemill_scoring::bleu_counts(said, &[wanted], Default::default()).unwrap());
    let chrf = pairs.map(|(said, wanted)| tidemill_scoring::chrf_counts(said, &[wanted], false).unwrap());
    for (aggregation, counts, figure) in [
        (
            Aggregation::Bleu,
            bleu,
            tidemill_scoring::corpus_bleu as fn(&[f64]) -> f64,
        ),
        (Aggregation::Chrf, chrf, tidemill_scoring::corpus_chrf),
    ] {
        let sums: Vec<f64> = counts[0]
            .iter()
            .zip(&counts[1])
            .map(|(one, other)| one + other)
            .collect();
        let mut tally = tally(3, 1, vec![metric(MetricSource::Measure, aggregation)]);
        for (item, counts) in (0..).zip(counts) {
            tally.apply(&measured(item, 0, Measured::Counts(counts)));
        }
        let found = only(&tally);
        assert_close(found.value, figure(&sums));
        assert!(
            found.value.unwrap() > 10.0 && found.standard_error.unwrap() > 0.0,
            "{found:?}"
        );
        assert_eq!((found.items, found.missing), (2, 1));
    }
}

#[test]
fn a_measure_of_another_shape_or_of_a_failed_sample_is_none() {
    let mut tally = tally(4, 1, vec![metric(MetricSource::Measure, Aggregation::Mean)]);
    tally.apply(&measured(0, 0, Measured::Counts(vec![1.0])));
    tally.apply(&measured(1, 0, Measured::Value(f64::NAN)));
    let failed = Grade {
        measures: vec![Some(Measured::Value(1.0))],
        ..grade(2, 0, Outcome::GraderError)
    };
    tally.apply(&failed);
    let found = only(&tally);
    assert_eq!((found.value, found.items, found.failed, found.missing), (None, 0, 1, 1));
}

/// By hand: of item 0 two of four are right, 1 - C(2,2)/C(4,2); of item 1 none is; item 2 has a sample that failed.
#[test]
fn pass_at_k_is_of_items_with_all_their_samples() {
    let mut tally = tally(4, 4, vec![metric(MetricSource::PassAt(2), Aggregation::Mean)]);
    use Outcome::{Correct, EngineError, Incorrect, Truncated};
    for (item, outcomes) in [
        [Correct, Incorrect, Truncated, Correct],
        [Incorrect; 4],
        [Correct, Correct, EngineError, Correct],
    ]
    .into_iter()
    .enumerate()
    {
        for (sample, outcome) in outcomes.into_iter().enumerate() {
            tally.apply(&grade(item as u32, sample as u32, outcome));
        }
    }
    let found = only(&tally);
    assert_close(found.value, (5.0 / 6.0) / 2.0);
    assert_eq!(
        (found.items, found.failed, found.missing, found.truncated),
        (2, 1, 4, 1)
    );
}

#[test]
fn samples_vote_by_their_canonical_answers_and_silent_ones_do_not() {
    let of_votes = metric(MetricSource::MajorityAt(5), Aggregation::Mean);
    use Outcome::{Correct, Incorrect, NoAnswer};
    let all = [
        said(0, 0, Incorrect, "7"),
        said(0, 1, Correct, "1/2"),
        said(0, 2, Correct, "1/2"),
        said(0, 3, Incorrect, "9"),
        said(0, 4, NoAnswer, "9"),
    ];
    let mut wins = tally(1, 5, vec![of_votes.clone()]);
    all.iter().for_each(|grade| assert!(wins.apply(grade)));
    assert_eq!(
        only(&wins).value,
        Some(1.0),
        "two say 1/2; one that holds no answer does not say 9"
    );
    let mut ties = tally(1, 5, vec![of_votes]);
    all.iter().for_each(|grade| {
        ties.apply(&Grade {
            outcome: if grade.outcome == NoAnswer {
                Incorrect
            } else {
                grade.outcome
            },
            ..grade.clone()
        });
    });
    assert_eq!(only(&ties).value, Some(0.5), "two say 1/2 and two say 9");
}

#[test]
fn answers_without_a_canonical_form_vote_as_they_were_found() {
    let mut tally = tally(1, 3, vec![metric(MetricSource::MajorityAt(3), Aggregation::Mean)]);
    for (sample, outcome, answer) in [
        (0, Outcome::Incorrect, "x"),
        (1, Outcome::Correct, "y"),
        (2, Outcome::Correct, "y"),
    ] {
        tally.apply(&Grade {
            extracted: Some(answer.to_owned()),
            ..grade(0, sample, outcome)
        });
    }
    assert_eq!(only(&tally).value, Some(1.0));
}

/// Item 0: two votes for 7 and two for 9, of which 7 was first. Item 1: the third vote decides for 9. Item 2: one failed.
#[test]
fn the_vote_of_most_samples_counts_and_of_equals_the_first() {
    let of = |source| metric(source, Aggregation::Mean);
    let vote = |answer| Measured::Vote {
        answer,
        value: f64::from(u8::from(answer == 9)),
    };
    let value = |source, is_reversed: bool| {
        let mut tally = tally(3, 4, vec![of(source)]);
        let mut grades = Vec::new();
        for (item, answers) in [[7, 9, 9, 7], [7, 9, 9, 3], [9, 9, 9, 9]].into_iter().enumerate() {
            for (sample, answer) in answers.into_iter().enumerate() {
                let mut grade = measured(item as u32, sample as u32, vote(answer));
                if (item, sample) == (2, 1) {
                    grade.outcome = Outcome::EngineError;
                    grade.measures.clear();
                }
                grades.push(grade);
            }
        }
        if is_reversed {
            grades.reverse();
        }
        grades.iter().for_each(|grade| assert!(tally.apply(grade)));
        let found = only(&tally);
        (found.value, found.items)
    };
    for is_reversed in [false, true] {
        assert_eq!(value(MetricSource::VotedMeasure(4), is_reversed), (Some(0.5), 2));
        assert_eq!(value(MetricSource::VotedMeasure(3), is_reversed), (Some(1.0), 2));
        assert_eq!(
            value(MetricSource::VotedMeasure(1), is_reversed),
            (Some(1.0 / 3.0), 3),
            "the failed one is not heard"
        );
        assert_eq!(value(MetricSource::VotedMeasure(5), is_reversed), (None, 0));
    }
}

#[test]
fn of_the_first_sample_alone_later_ones_change_nothing() {
    let mut tally = tally(2, 2, vec![metric(MetricSource::FirstMeasure, Aggregation::Mean)]);
    for (item, sample, value) in [(0, 1, 1.0), (0, 0, 0.25), (1, 1, 1.0)] {
        tally.apply(&measured(item, sample, Measured::Value(value)));
    }
    let found = only(&tally);
    assert_eq!((found.value, found.items), (Some(0.25), 1));
}

#[test]
fn clusters_and_weights_are_those_of_the_score() {
    let clusters = ClusterColumn {
        of_item: vec![0, 0, 1, 1],
        count: 2,
    };
    let columns = Columns {
        clusters: Some(clusters),
        ..Columns::default()
    };
    let mut tally = tally_with(4, 1, vec![metric(MetricSource::Measure, Aggregation::Mean)], columns);
    for (item, value) in [(0, 1.0), (1, 1.0), (2, 0.0), (3, 0.0)] {
        let outcome = if value > 0.5 {
            Outcome::Correct
        } else {
            Outcome::Incorrect
        };
        tally.apply(&Grade {
            measures: vec![Some(Measured::Value(value))],
            ..grade(item, 0, outcome)
        });
    }
    let result = tally.result(Effort::Final);
    assert_close(result.standard_error, 0.5);
    assert_eq!(result.metrics[0].standard_error, result.standard_error);
    assert_eq!(result.method.as_deref(), Some("student_t"));
    assert_eq!(result.metrics[0].method, result.method);
}

#[test]
fn what_is_not_declared_takes_no_room() {
    let samples = 100_000;
    let mut plain = Measures::new(&benchmark(samples, 1));
    plain.apply(5, samples as usize, &measured(5, 0, Measured::Value(1.0)));
    assert_eq!(plain.state_bytes(), 0);
    let declared = Benchmark {
        metrics: vec![metric(MetricSource::Measure, Aggregation::Mean)],
        ..benchmark(samples, 1)
    };
    let mut kept = Measures::new(&declared);
    assert_eq!(kept.state_bytes(), 0, "before the first");
    kept.apply(5, samples as usize, &measured(5, 0, Measured::Value(1.0)));
    assert_eq!(kept.state_bytes(), 8 * samples as usize);
}
