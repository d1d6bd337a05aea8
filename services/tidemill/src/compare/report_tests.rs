use std::collections::BTreeMap;

use serde_json::json;
use tidemill_aggregator::Contribution;
use tidemill_domain::{Aggregation, Digest, GraderSpec, Group, GroupMean, Member, MetricSource, ResultState};

use super::*;
use crate::compare::side::{Name, Operand, Print, Settings, grader};
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
        settings: Settings::from([("temperature", json!(0)), ("grader-version", json!(["exact@1"]))]),
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
        settings: Settings::from([("suite", json!({"name": "smoke", "version": "1"}))]),
        benchmarks,
        groups: Vec::new(),
        beside: BTreeMap::new(),
    }
}

fn compared(first: Scored, second: Scored) -> Row {
    let report = compare(&side(vec![first]), &side(vec![second]), None, Vec::new(), None);
    report.benchmarks.into_iter().next().unwrap()
}

/// Whatever terminal the test runs in.
fn shown(report: &Report) -> String {
    crate::compare::show::within(report, None)
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
    assert_eq!(row.method, Some("student_t"));
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
    let report = compare(&first, &other, None, Vec::new(), None);
    assert!(report.groups.is_empty());
    assert_eq!(report.groups_not_compared, ["all"]);
}

/// By hand: of 10 items none was seen to differ, so 1 - 0.05^(1/10) of them might.
#[test]
fn agreement_on_every_item_is_no_proof_of_no_difference() {
    let unseen = 1.0 - 0.05_f64.powf(0.1);
    let detectable = (unseen / 10.0).sqrt() * (1.959_963_984_540_054 + 0.841_621_233_572_914_2);
    for (first, second, difference) in [("1111100000", "1111100000", 0.0), ("0000000000", "1111111111", 1.0)] {
        let row = compared(binary("b", first), binary("b", second));
        assert_close(row.difference, difference);
        let [low, high] = row.interval.unwrap();
        assert_close(Some(low), difference - unseen * (difference + 1.0));
        assert_close(Some(high), difference + unseen * (1.0 - difference));
        assert_close(row.minimum_detectable, detectable);
        assert_eq!((row.method, row.bootstrap_interval), (Some("unseen_share"), None));
    }
    let mut clustered = binary("b", "1111100000");
    for (index, scores) in clustered.items.values_mut().enumerate() {
        scores.cluster = Some(format!("passage {}", index / 5));
    }
    let row = compared(clustered.clone(), clustered);
    assert_close(row.interval.map(|[_, high]| high), 1.0 - 0.05_f64.sqrt());
    let report = compare(
        &side(vec![binary("b", "1111100000")]),
        &side(vec![binary("b", "1111100000")]),
        None,
        Vec::new(),
        None,
    );
    let text = shown(&report);
    assert!(text.contains("-25.9..+25.9") && text.contains("45.1"), "{text}");
    assert!(
        !text.contains("±0.0") && text.contains("nothing varies between the items of b"),
        "{text}"
    );
    // Of what has no range nothing is known.
    let length = metric("length", Aggregation::Mean, false);
    let measured = |value: f64| Scored {
        metric: Some((0, length.clone())),
        ..benchmark(
            "b",
            (0..10).map(|item| (format!("q{item}"), scores(&[value]))).collect(),
        )
    };
    let report = compare(
        &side(vec![measured(3.0)]),
        &side(vec![measured(3.5)]),
        Some("length"),
        Vec::new(),
        None,
    );
    let row = &report.benchmarks[0];
    assert_close(row.difference, 0.5);
    assert_eq!((row.interval, row.minimum_detectable, row.p), (None, None, None));
}

#[test]
fn few_items_are_not_resampled() {
    let row = compared(binary("b", "1100000"), binary("b", "0000001"));
    assert!(row.interval.is_some() && row.bootstrap_interval.is_none());
    let row = compared(binary("b", "11000000"), binary("b", "00000001"));
    assert!(row.bootstrap_interval.is_some());
}

/// By hand: of agreement in one benchmark and none in the other, the room of both adds up as errors do.
#[test]
fn a_group_shows_both_means_and_the_room_that_its_benchmarks_leave() {
    let group = Group {
        name: "all".to_owned(),
        members: (0..2).map(|benchmark| Member { benchmark, weight: 1.0 }).collect(),
        mean: GroupMean::Macro,
        metric: None,
    };
    let with = |rights: [&str; 2]| Side {
        groups: vec![group.clone()],
        ..side(vec![binary("a", rights[0]), binary("b", rights[1])])
    };
    let (first, second) = (with(["1100000000", "1110000000"]), with(["1100000000", "1111100000"]));
    let report = compare(&first, &second, None, Vec::new(), None);
    let [row] = report.groups.as_slice() else {
        panic!("{:?}", report.groups)
    };
    assert_close(row.first, 0.25);
    assert_close(row.second, 0.35);
    assert_eq!(row.items, 20);
    let [a, b] = report.benchmarks.as_slice() else {
        panic!("{:?}", report.benchmarks)
    };
    let below = |row: &Row| row.difference.unwrap() - row.interval.unwrap()[0];
    assert_close(row.interval.map(|[low, _]| low), 0.1 - below(a).hypot(below(b)) / 2.0);
    assert_close(
        row.minimum_detectable,
        a.minimum_detectable.unwrap().hypot(b.minimum_detectable.unwrap()) / 2.0,
    );
    // One benchmark alone varies, so the test is its own.
    assert_close(row.p, student_p(0.2 / b.standard_error.unwrap(), 9.0).unwrap());
    let same = compare(&first, &first, None, Vec::new(), None);
    assert!(same.groups[0].interval.unwrap()[1] > 0.15, "{:?}", same.groups);
    let text = shown(&report);
    let line = text.lines().find(|line| line.contains("all (macro)")).unwrap();
    assert!(line.contains("25.0") && line.contains("35.0"), "{line}");
}

#[test]
fn groups_of_metrics_stand_beside_those_of_scores() {
    let f1 = metric("f1", Aggregation::Mean, true);
    let group = |name: &str, metric: Option<&str>| Group {
        name: name.to_owned(),
        members: vec![Member {
            benchmark: 0,
            weight: 1.0,
        }],
        mean: GroupMean::Macro,
        metric: metric.map(str::to_owned),
    };
    let with = |scores: &str, measured: &str, made_by: Aggregation| {
        let metric = Metric {
            aggregation: made_by,
            ..f1.clone()
        };
        let of_metric = Scored {
            metric: Some((0, metric)),
            ..binary("a", measured)
        };
        Side {
            groups: vec![group("of f1", Some("f1")), group("scores", None)],
            beside: BTreeMap::from([("f1".to_owned(), vec![of_metric])]),
            ..side(vec![binary("a", scores)])
        }
    };
    let first = with("1100", "1000", Aggregation::Mean);
    let second = with("1100", "0000", Aggregation::Mean);
    let report = compare(&first, &second, None, Vec::new(), Some(0.01));
    let found: Vec<_> = report
        .groups
        .iter()
        .map(|row| (row.group.as_str(), row.difference))
        .collect();
    assert_eq!(found, [("of f1", Some(-0.25)), ("scores", Some(0.0))]);
    assert!(report.dropped.is_empty(), "the drop that is looked for is the score's");
    let text = shown(&report);
    let line = text.lines().find(|line| line.contains("of f1 (macro) f1")).unwrap();
    assert!(line.contains("0.250") && line.contains("-0.250"), "{line}");
    let other = with("1100", "0000", Aggregation::WeightedMean);
    let report = compare(&first, &other, None, Vec::new(), None);
    assert_eq!(
        (report.groups.len(), report.groups_not_compared.as_slice()),
        (1, &["of f1".to_owned()][..])
    );
    let text = shown(&report);
    assert!(
        text.contains("groups that are not compared") && text.contains(": of f1"),
        "{text}"
    );
}

#[test]
fn settings_are_compared_by_their_options() {
    let numeric = |tolerance| GraderSpec::Numeric {
        pattern: None,
        tolerance,
    };
    let found = crate::compare::value::differing("grader", &grader(&numeric(0.0)), &grader(&numeric(0.5)));
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].path.as_str(), found[0].second.as_str()),
        ("grader tolerance", "0.5")
    );
    let choice = GraderSpec::Choice { pattern: None };
    let found = crate::compare::value::differing("grader", &grader(&numeric(0.0)), &grader(&choice));
    assert_eq!(
        (found[0].first.as_str(), found[0].second.as_str()),
        ("numeric", "choice")
    );
}

#[test]
fn settings_that_differ_are_named_with_both_values() {
    let first = side(vec![binary("a", "10"), binary("gone", "1")]);
    let same = unlike(&first, &side(vec![binary("a", "01")]));
    assert!(same.is_empty(), "scores are no settings: {same:?}");
    let mut other = side(vec![binary("a", "10")]);
    other.settings.insert("suite", json!({"name": "smoke", "version": "2"}));
    other.state = ResultState::Invalid;
    other.benchmarks[0].settings.insert("temperature", json!(0.7));
    other.benchmarks[0].settings.insert("max-tokens", json!(16));
    other.benchmarks[0].settings.insert("grader-version", json!([]));
    for scores in other.benchmarks[0].items.values_mut() {
        scores.prompt = Print(7);
    }
    let found = unlike(&first, &other);
    let keys: Vec<&str> = found.iter().map(|unlike| unlike.key).collect();
    assert_eq!(
        keys,
        [
            "state",
            "suite",
            "grader-version",
            "max-tokens",
            "temperature",
            "prompt"
        ]
    );
    let told: Vec<String> = found.iter().map(Unlike::sentence).collect();
    let expected = [
        "state final against invalid",
        "suite version 1 against 2",
        "a: grader_version exact@1 against none",
        "a: max_tokens none against 16",
        "a: temperature 0 against 0.7",
        "a: the prompts differ, of 2 items, q0 the first",
    ];
    assert_eq!(told, expected);
    let said = unlike::refusal(&found, &first, &other);
    assert!(
        said.contains(&format!("`tidemill items {} --benchmark a --json`", first.evaluation)),
        "{said}"
    );
    let (refused, allowed) = unlike::sorted(found, &["suite".to_owned(), "prompt".to_owned()]);
    assert_eq!((refused.len(), allowed.len()), (4, 2));
    let said = unlike::refusal(&refused, &first, &other);
    assert!(!said.contains("tidemill items"), "{said}");
    assert!(
        said.ends_with("--allow grader-version --allow max-tokens --allow state --allow temperature"),
        "{said}"
    );
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
        setting: "suite version".to_owned(),
        first: Some("1".to_owned()),
        second: Some("2".to_owned()),
        items: None,
    }];
    let report = compare(
        &side(vec![first]),
        &side(vec![binary("b", "1100")]),
        None,
        allowed,
        Some(0.01),
    );
    let text = shown(&report);
    for part in [
        "-50.0 ±28.9",
        "NOT ALIKE, allowed: suite version 1 against 2",
        "b: 1 item only in the first: extra",
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
    let text = shown(&report);
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
    assert_eq!(found[0].sentence(), "a: metric made by mean against BLEU");
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
    let text = shown(&report);
    assert!(text.contains("4.482") && text.contains("12.182"), "{text}");
}
