use tidemill_aggregator::Contribution;
use tidemill_domain::{Aggregation, Digest, Member, MetricSource, ResultState};

use super::*;
use crate::compare::side::{Name, Operand, Print, Settings};
use crate::compare::unlike::{self, unlike};

/// An item with samples of these scores.
fn scores(samples: &[f64]) -> Scores {
    Scores {
        scored: samples.len() as u32,
        sum: samples.iter().sum(),
        squares: samples.iter().map(|score| score * score).sum(),
        weight: 1.0,
        ..Scores::default()
    }
}

fn benchmark(name: &str, items: Vec<(String, Scores)>) -> Scored {
    Scored {
        name: name.to_owned(),
        samples: items.first().map_or(1, |(_, scores)| scores.scored),
        settings: Settings::from([
            ("temperature", "0".to_owned()),
            ("grader-version", "exact@1".to_owned()),
        ]),
        items: items.into_iter().collect(),
        ..Scored::default()
    }
}

/// Items that are right or wrong, by a string of 1 and 0.
fn binary(name: &str, rights: &str) -> Scored {
    let item = |(index, right): (usize, char)| (format!("q{index}"), scores(&[f64::from(u8::from(right == '1'))]));
    benchmark(name, rights.chars().enumerate().map(item).collect())
}

fn side(benchmarks: Vec<Scored>) -> Side {
    Side {
        evaluation: EvaluationId::from_digest(&Digest::of(b"side")),
        regrade: None,
        run: RunId::try_new("run").unwrap(),
        step: Step(1),
        state: ResultState::Final,
        settings: Settings::from([("suite", "smoke 1".to_owned())]),
        benchmarks,
        groups: Vec::new(),
    }
}

fn compared(first: Scored, second: Scored) -> Row {
    let report = compare(&side(vec![first]), &side(vec![second]), None, Vec::new(), None);
    report.benchmarks.into_iter().next().unwrap()
}

fn assert_close(actual: Option<f64>, expected: f64) {
    assert!(
        (actual.unwrap() - expected).abs() < 1e-9,
        "{actual:?} is not {expected}"
    );
}

/// By hand: 1 won and 5 lost of 10, so p = 2·(1 + 6)/2⁶ by the binomial distribution.
#[test]
fn right_or_wrong_items_are_tested_by_mcnemar() {
    let row = compared(binary("b", "1111100000"), binary("b", "0000010000"));
    assert_close(row.difference, -0.4);
    assert_eq!((row.items, row.wins, row.losses, row.ties), (10, 1, 5, 4));
    assert_eq!(row.test, Some("mcnemar_exact"));
    assert_close(row.p, 14.0 / 64.0);
    let mcnemar = row.mcnemar.unwrap();
    assert_eq!((mcnemar.first_only, mcnemar.second_only), (5, 1));
    assert_close(Some(mcnemar.p_mid), 8.0 / 64.0);
    let error = row.standard_error.unwrap();
    // By hand: differences -1 five times, 1 once, 0 four times; sd √(0.44·10/9).
    assert_close(Some(error), (0.44_f64 / 9.0).sqrt());
    assert_close(
        row.minimum_detectable,
        error * (1.959_963_984_540_054 + 0.841_621_233_572_914_2),
    );
    let [low, high] = row.interval.unwrap();
    assert!(low < -0.4 && -0.4 < high);
    let [low, high] = row.bootstrap_interval.unwrap();
    assert!(low < -0.4 && -0.4 < high);
}

#[test]
fn clusters_weights_and_several_samples_are_tested_by_their_differences() {
    let mut first = binary("b", "110010");
    let mut second = binary("b", "111011");
    assert_eq!(compared(first.clone(), second.clone()).test, Some("mcnemar_exact"));
    for side in [&mut first, &mut second] {
        for (index, scores) in side.items.values_mut().enumerate() {
            scores.cluster = Some(format!("passage {}", index / 2));
        }
    }
    let row = compared(first.clone(), second.clone());
    assert_eq!((row.test, row.degrees_of_freedom), (Some("paired_t"), Some(2.0)));
    let several = |samples: &[&[f64]]| {
        let items = samples.iter().enumerate();
        benchmark(
            "b",
            items
                .map(|(index, samples)| (format!("q{index}"), scores(samples)))
                .collect(),
        )
    };
    let row = compared(
        several(&[&[1.0, 0.0], &[0.0, 0.0], &[1.0, 1.0]]),
        several(&[&[1.0, 1.0], &[0.0, 1.0], &[1.0, 1.0]]),
    );
    assert_close(row.difference, 1.0 / 3.0);
    assert_eq!((row.test, row.mcnemar), (Some("paired_t"), None));
    let noise = row.noise.unwrap();
    // By hand: within the first 0.5 over 3 degrees of freedom, over 2 samples.
    assert_close(noise.first_sampling, 0.5 / 3.0 / 2.0);
    assert_close(noise.second_sampling, 0.5 / 3.0 / 2.0);
}

#[test]
fn items_of_one_side_and_failed_ones_are_counted_and_named_and_not_compared() {
    let mut first = binary("b", "1101");
    let mut second = binary("b", "1100");
    first.items.remove("q3");
    second.items.remove("q0");
    let failed = Scores {
        failed: 1,
        weight: 1.0,
        ..Scores::default()
    };
    second.items.insert("q1".to_owned(), failed);
    let row = compared(first, second);
    assert_eq!((row.items, row.difference), (1, Some(0.0)));
    assert_eq!(row.only_in_first.items, ["q0"]);
    assert_eq!(row.only_in_second.items, ["q3"]);
    assert_eq!(
        (row.without_score.count, row.without_score.items),
        (1, vec!["q1".to_owned()])
    );
    assert_eq!((row.first.failed, row.second.failed), (0, 1));
}

#[test]
fn p_is_corrected_for_all_benchmarks_and_a_drop_is_seen() {
    let first = side(vec![binary("a", "1111111100"), binary("b", "10"), binary("only", "1")]);
    let second = side(vec![binary("a", "0000000000"), binary("b", "10")]);
    let report = compare(&first, &second, None, Vec::new(), Some(0.1));
    let p: Vec<f64> = report.benchmarks.iter().map(|row| row.p.unwrap()).collect();
    assert_close(report.benchmarks[0].p_holm, 2.0 * p[0]);
    assert_eq!(report.benchmarks[1].p_holm, Some(1.0));
    assert_eq!(
        (report.dropped, report.only_in_first),
        (vec!["a".to_owned()], vec!["only".to_owned()])
    );
    assert!(
        compare(&first, &second, None, Vec::new(), Some(0.8)).dropped.is_empty(),
        "by as much as that"
    );
    assert!(
        compare(&second, &first, None, Vec::new(), Some(0.1)).dropped.is_empty(),
        "a gain"
    );
}

#[test]
fn groups_that_both_define_alike_are_compared() {
    let group = |weight| Group {
        name: "all".to_owned(),
        members: vec![
            Member { benchmark: 0, weight },
            Member {
                benchmark: 1,
                weight: 1.0,
            },
        ],
        mean: GroupMean::Macro,
        metric: None,
    };
    let with = |rights: [&str; 2], weight| Side {
        groups: vec![group(weight)],
        ..side(vec![binary("a", rights[0]), binary("b", rights[1])])
    };
    let (first, second) = (with(["1100", "1100"], 1.0), with(["1110", "0000"], 1.0));
    let report = compare(&first, &second, None, Vec::new(), Some(0.1));
    let [row] = report.groups.as_slice() else {
        panic!("{:?}", report.groups)
    };
    assert_close(row.difference, (0.25 - 0.5) / 2.0);
    let errors: Vec<f64> = report
        .benchmarks
        .iter()
        .map(|row| row.standard_error.unwrap())
        .collect();
    assert_close(row.standard_error, errors[0].hypot(errors[1]) / 2.0);
    assert_eq!(report.dropped, ["b", "all"]);
    let other = with(["1110", "0000"], 2.0);
    assert!(compare(&first, &other, None, Vec::new(), None).groups.is_empty());
}

#[test]
fn settings_that_differ_are_named_with_both_values() {
    let first = side(vec![binary("a", "10"), binary("gone", "1")]);
    let same = unlike(&first, &side(vec![binary("a", "01")]));
    assert!(same.is_empty(), "scores are no settings: {same:?}");
    let mut other = side(vec![binary("a", "10")]);
    other.settings.insert("suite", "smoke 2".to_owned());
    other.state = ResultState::Invalid;
    other.benchmarks[0].settings.insert("temperature", "0.7".to_owned());
    other.benchmarks[0].settings.insert("max-tokens", "16".to_owned());
    for scores in other.benchmarks[0].items.values_mut() {
        scores.prompt = Print(7);
    }
    let found = unlike(&first, &other);
    let keys: Vec<&str> = found.iter().map(|unlike| unlike.key).collect();
    assert_eq!(keys, ["state", "suite", "max-tokens", "temperature", "prompt"]);
    assert_eq!(found[3].sentence(), "a: temperature is 0 and 0.7");
    assert_eq!(found[2].sentence(), "a: max-tokens is nothing and 16");
    assert!(found[4].second.contains("item q0, 2 of them"), "{}", found[4].second);
    let (refused, allowed) = unlike::sorted(found, &["suite".to_owned(), "prompt".to_owned()]);
    assert_eq!((refused.len(), allowed.len()), (3, 2));
    assert!(keys.iter().all(|key| unlike::key(key).is_ok()) && unlike::key("colour").is_err());
}

#[test]
fn evaluations_are_named_by_id_or_by_run_and_step() {
    let step = |run: &str, step| Name::Step(RunId::try_new(run).unwrap(), Step(step));
    assert_eq!("llama@900".parse(), Ok(step("llama", 900)));
    assert_eq!("a@b@7".parse(), Ok(step("a@b", 7)));
    assert!(matches!("8af03198ea3b1495".parse(), Ok(Name::Id(_))));
    let regraded = |name, regrade| Ok(Operand { name, regrade });
    assert_eq!("llama@900/regrade-2".parse(), regraded(step("llama", 900), Some(2)));
    assert_eq!("a/regrade-x@7".parse(), regraded(step("a/regrade-x", 7), None));
    assert!("llama/regrade-1".parse::<Operand>().is_err());
    for wrong in ["llama", "llama@", "@7", "llama@last"] {
        assert!(wrong.parse::<Name>().is_err(), "{wrong}");
    }
}

#[test]
fn the_table_names_what_is_not_to_be_overlooked() {
    let mut first = binary("b", "1111");
    first.items.insert("extra".to_owned(), scores(&[1.0]));
    let allowed = vec![Unlike {
        key: "suite",
        benchmark: None,
        first: "smoke 1".to_owned(),
        second: "smoke 2".to_owned(),
    }];
    let report = compare(
        &side(vec![first]),
        &side(vec![binary("b", "1100")]),
        None,
        allowed,
        Some(0.01),
    );
    let text = crate::compare::show::text(&report);
    for part in [
        "-50.0 ±28.9",
        "NOT ALIKE, allowed: suite is smoke 1 and smoke 2",
        "b: 1 items only in the first: extra",
        "DROPPED by more than 1.0 points: b",
        "0/2/2",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

fn metric(name: &str, aggregation: Aggregation, higher_is_better: bool) -> Metric {
    Metric {
        name: name.to_owned(),
        source: MetricSource::Measure,
        aggregation,
        higher_is_better,
    }
}

#[test]
fn a_metric_is_compared_where_both_have_it_and_less_may_be_better() {
    let length = metric("length", Aggregation::Mean, false);
    let measured = |benchmark: Scored| Scored {
        metric: Some((0, length.clone())),
        metrics: vec![length.clone()],
        ..benchmark
    };
    let first = side(vec![measured(binary("a", "1111")), binary("b", "11")]);
    let second = side(vec![measured(binary("a", "0011")), measured(binary("b", "11"))]);
    assert!(require("length", &first, &second).is_ok());
    let without = || {
        let mut benchmark = measured(binary("a", "1"));
        benchmark.metric = None;
        side(vec![benchmark])
    };
    let said = require("width", &without(), &without()).unwrap_err().to_string();
    assert!(said.ends_with("there are length"), "{said}");
    let report = compare(&first, &second, Some("length"), Vec::new(), Some(0.1));
    let [row] = report.benchmarks.as_slice() else {
        panic!("{:?}", report.benchmarks)
    };
    assert_close(row.difference, -0.5);
    assert_eq!((row.wins, row.losses, row.higher_is_better), (2, 0, false));
    assert!(report.dropped.is_empty(), "less is better");
    assert_eq!(report.without_metric, ["b"]);
    let report = compare(&second, &first, Some("length"), Vec::new(), Some(0.1));
    assert_eq!(report.dropped, ["a"]);
    let text = crate::compare::show::text(&report);
    for part in [
        "metric: length, of which less is better",
        "+0.500 ±0.289",
        "without this metric: b",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let mut other = second;
    other.benchmarks[0].metric.as_mut().unwrap().1.aggregation = Aggregation::Bleu;
    let found = unlike(&first, &other);
    assert_eq!(found.iter().map(|unlike| unlike.key).collect::<Vec<_>>(), ["metric"]);
}

/// By hand: e to the power of 1.5 and of 2.5.
#[test]
fn a_figure_of_the_whole_corpus_is_compared_as_one() {
    let perplexity = metric("perplexity", Aggregation::Perplexity, false);
    let of = |sums: &[f64]| {
        let items = sums.iter().enumerate().map(|(index, sum)| {
            let added = Some(Contribution::Sums(vec![-sum, 1.0]));
            let scores = Scores {
                added,
                weight: 1.0,
                ..Scores::default()
            };
            (format!("q{index}"), scores)
        });
        Scored {
            metric: Some((0, perplexity.clone())),
            ..benchmark("b", items.collect())
        }
    };
    let mut second = of(&[2.0, 3.0, 9.0]);
    second.items.get_mut("q2").unwrap().added = None;
    let (first, second) = (side(vec![of(&[1.0, 2.0, 9.0])]), side(vec![second]));
    let report = compare(&first, &second, Some("perplexity"), Vec::new(), Some(1.0));
    let row = &report.benchmarks[0];
    assert_close(row.first.mean, 1.5_f64.exp());
    assert_close(row.difference, 2.5_f64.exp() - 1.5_f64.exp());
    assert_eq!((row.items, row.of_corpus, row.test), (2, true, Some("jackknife_t")));
    assert_eq!(row.without_score.items, ["q2"]);
    assert_eq!(report.dropped, ["b"]);
    let text = crate::compare::show::text(&report);
    assert!(text.contains("4.482") && text.contains("12.182"), "{text}");
}
