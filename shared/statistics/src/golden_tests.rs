//! Every figure against that of another library: `ops/statistics/golden.py` writes what is read here.

use serde_json::Value;

use super::*;

fn golden(section: &str) -> Value {
    let mut all: Value = serde_json::from_str(include_str!("../tests/golden.json")).unwrap();
    let section = all[section].take();
    assert!(!section.is_null());
    section
}

fn cases(value: &Value) -> &[Value] {
    let cases = value.as_array().unwrap();
    assert!(!cases.is_empty());
    cases
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap()
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

fn small(value: &Value) -> u32 {
    u32::try_from(whole(value)).unwrap()
}

fn numbers(value: &Value) -> Vec<f64> {
    cases(value).iter().map(number).collect()
}

fn smalls(value: &Value) -> Vec<u32> {
    cases(value).iter().map(small).collect()
}

/// Within a share of the larger of the expected number and 1e-3.
#[track_caller]
fn assert_near(actual: f64, expected: f64, share: f64) {
    let allowed = share * expected.abs().max(1e-3);
    assert!((actual - expected).abs() <= allowed, "{actual} is not {expected}");
}

#[track_caller]
fn assert_interval(actual: [f64; 2], expected: &Value, share: f64) {
    assert_near(actual[0], number(&expected[0]), share);
    assert_near(actual[1], number(&expected[1]), share);
}

#[test]
fn quantiles_and_tails_agree_with_scipy() {
    let golden = golden("distributions");
    for case in cases(&golden["normal_quantile"]) {
        assert_near(normal_quantile(number(&case[0])), number(&case[1]), 1e-9);
    }
    for case in cases(&golden["normal_p"]) {
        assert_near(normal_p(number(&case[0])), number(&case[1]), 1e-9);
        assert_near(
            student_p(number(&case[0]), f64::INFINITY).unwrap(),
            number(&case[1]),
            1e-9,
        );
    }
    for case in cases(&golden["student_quantile"]) {
        let (p, free) = (number(&case[0]), number(&case[1]));
        assert_near(student_quantile(p, free), number(&case[2]), 1e-9);
    }
    for case in cases(&golden["student_p"]) {
        let (t, free) = (number(&case[0]), number(&case[1]));
        assert_near(student_p(t, free).unwrap(), number(&case[2]), 1e-8);
    }
}

#[test]
fn means_and_their_errors_agree_with_scipy_and_statsmodels() {
    for case in cases(&golden("means")) {
        let (scores, weights) = (numbers(&case["scores"]), numbers(&case["weights"]));
        let clusters = smalls(&case["clusters"]);
        let (mut items, mut weighted) = (Items::default(), Weighted::default());
        let (mut clustered, mut both) = (Clusters::default(), Clusters::default());
        for ((&score, &weight), &cluster) in scores.iter().zip(&weights).zip(&clusters) {
            items.push(score);
            weighted.push(score, weight);
            clustered.push(cluster as usize, score);
            both.push_weighted(cluster as usize, score, weight);
        }
        assert_near(items.mean().unwrap(), number(&case["mean"]), 1e-12);
        assert_near(items.standard_error().unwrap(), number(&case["standard_error"]), 1e-12);
        assert_near(weighted.mean().unwrap(), number(&case["weighted"][0]), 1e-12);
        assert_near(weighted.standard_error().unwrap(), number(&case["weighted"][1]), 1e-10);
        let (mean, error) = (clustered.mean().unwrap(), clustered.standard_error().unwrap());
        assert_near(mean, number(&case["clustered"][0]), 1e-12);
        assert_near(error, number(&case["clustered"][1]), 1e-10);
        let interval = student_interval(mean, error, clustered.degrees_of_freedom()).unwrap();
        assert_interval(interval, &case["clustered_interval"], 1e-8);
        assert_near(both.mean().unwrap(), number(&case["clustered_weighted"][0]), 1e-12);
        assert_near(
            both.standard_error().unwrap(),
            number(&case["clustered_weighted"][1]),
            1e-10,
        );
    }
}

#[test]
fn wilson_agrees_with_statsmodels() {
    for case in cases(&golden("shares")) {
        let [low, high] = wilson_interval(whole(&case[0]), whole(&case[1])).unwrap();
        assert_near(low, number(&case[2]), 1e-12);
        assert_near(high, number(&case[3]), 1e-12);
    }
}

#[test]
fn f1_and_matthews_agree_with_scikit_learn() {
    for case in cases(&golden("labels")) {
        let said: Vec<(u32, u32)> = smalls(&case["truth"])
            .into_iter()
            .zip(smalls(&case["predicted"]))
            .collect();
        let pairs = Pairs::of(said.iter().copied());
        let mut units = Units::new(pairs.width());
        for pair in said {
            units.push_sparse([(pairs.column(pair).unwrap(), 1.0)]);
        }
        for (average, name) in [
            (Average::Macro, "macro"),
            (Average::Micro, "micro"),
            (Average::Weighted, "weighted"),
            (Average::Binary(1), "binary"),
        ] {
            assert_near(pairs.f1(units.totals(), average).unwrap(), number(&case[name]), 1e-12);
        }
        assert_near(
            pairs.matthews(units.totals()).unwrap(),
            number(&case["matthews"]),
            1e-12,
        );
    }
}

#[test]
fn perplexity_and_bits_agree_with_their_definitions() {
    let golden = golden("corpus");
    let log_likelihood = numbers(&golden["log_likelihoods"]).iter().sum();
    let weight = numbers(&golden["weights"]).iter().sum();
    assert_near(
        perplexity(log_likelihood, weight).unwrap(),
        number(&golden["perplexity"]),
        1e-12,
    );
    assert_near(
        bits_per_weight(log_likelihood, weight).unwrap(),
        number(&golden["bits_per_weight"]),
        1e-12,
    );
}

/// SciPy's intervals are of half a million draws; ours of 40,000 differ from them by a few hundredths of a standard error.
#[test]
fn resampled_intervals_agree_with_scipy() {
    let mut apart = 0;
    for case in cases(&golden("resampled")) {
        let mut units = Units::new(2);
        for row in cases(&case["rows"]) {
            units.push(&numbers(row));
        }
        let ratio = |sums: &[f64]| (sums[1] > 0.0).then(|| sums[0] / sums[1]);
        let jackknife = units.jackknife(&ratio).unwrap();
        assert_near(
            jackknife.standard_error,
            number(&case["jackknife"]["standard_error"]),
            1e-10,
        );
        assert_near(jackknife.acceleration, number(&case["jackknife"]["acceleration"]), 1e-8);
        let resampled = units.bootstrap(Resampling { draws: 40_000, seed: 3 }, &ratio).unwrap();
        assert_near(resampled.value(), number(&case["value"]), 1e-12);
        let error = number(&case["standard_error"]);
        assert_near(resampled.standard_error(), error, 0.02);
        let (bca, method) = resampled.bca(&jackknife);
        assert_eq!(method, Method::Bca);
        for (interval, name) in [(resampled.percentile(), "percentile"), (bca, "bca")] {
            for (side, end) in interval.into_iter().enumerate() {
                let expected = number(&case[name][side]);
                assert!((end - expected).abs() < 0.05 * error, "{name}: {end} is not {expected}");
            }
        }
        let distance = (number(&case["bca"][1]) - number(&case["percentile"][1])).abs();
        apart += usize::from(distance > 0.1 * error);
    }
    assert!(apart > 0, "no case tells the two methods apart");
}

#[test]
fn pass_at_k_agrees_with_exact_fractions() {
    for case in cases(&golden("pass_at")) {
        let chance = pass_at(small(&case[0]), small(&case[1]), small(&case[2])).unwrap();
        assert_near(chance, number(&case[3]), 1e-11);
    }
}

#[test]
fn majority_at_k_agrees_with_all_subsets_counted() {
    for case in cases(&golden("majority_at")) {
        let vote = |vote: &Value| Vote {
            count: small(&vote[0]),
            score: number(&vote[1]),
        };
        let votes: Vec<Vote> = cases(&case["votes"]).iter().map(vote).collect();
        let found = majority_at(small(&case["k"]), &votes, small(&case["abstained"])).unwrap();
        assert_near(found, number(&case["expected"]), 1e-12);
    }
}

#[test]
fn groups_agree_with_all_items_together() {
    let golden = golden("groups");
    let part = |part: &Value| Part {
        mean: number(&part[0]),
        standard_error: Some(number(&part[1])),
        interval: None,
        items: whole(&part[2]),
        weight: number(&part[3]),
    };
    let parts: Vec<Part> = cases(&golden["parts"]).iter().map(part).collect();
    for ((mean, error), name) in [
        (macro_mean(&parts).unwrap(), "macro"),
        (micro_mean(&parts).unwrap(), "micro"),
    ] {
        assert_near(mean, number(&golden[name][0]), 1e-12);
        assert_near(error.unwrap(), number(&golden[name][1]), 1e-12);
    }
    assert_near(pooled_standard_error(&parts).unwrap(), number(&golden["pooled"]), 1e-12);
}

#[test]
fn mcnemar_agrees_with_statsmodels() {
    for case in cases(&golden("mcnemar")) {
        let discordant = Discordant {
            first: whole(&case[0]),
            second: whole(&case[1]),
        };
        assert_near(discordant.p_exact(), number(&case[2]), 1e-9);
        assert_near(discordant.p_mid(), number(&case[3]), 1e-9);
    }
}

#[test]
fn paired_differences_agree_with_scipy_and_statsmodels() {
    for case in cases(&golden("pairs")) {
        let (first, second) = (numbers(&case["first"]), numbers(&case["second"]));
        let (clusters, weights) = (smalls(&case["clusters"]), numbers(&case["weights"]));
        let pairs: Vec<Pair> = first
            .iter()
            .zip(&second)
            .map(|(&first, &second)| Pair {
                first,
                second,
                weight: 1.0,
                cluster: None,
            })
            .collect();
        let plain = difference(&pairs).unwrap();
        assert_near(plain.mean, number(&case["mean"]), 1e-10);
        assert_near(plain.standard_error.unwrap(), number(&case["standard_error"]), 1e-10);
        assert_near(plain.p.unwrap(), number(&case["p"]), 1e-8);
        assert_interval(plain.interval.unwrap().0, &case["interval"], 1e-8);
        let with = |change: &dyn Fn(usize, Pair) -> Pair| -> Difference {
            let changed = pairs.iter().enumerate().map(|(index, pair)| change(index, *pair));
            difference(&changed.collect::<Vec<Pair>>()).unwrap()
        };
        let clustered = with(&|index, pair| Pair {
            cluster: Some(clusters[index]),
            ..pair
        });
        assert_near(clustered.standard_error.unwrap(), number(&case["clustered"][1]), 1e-10);
        let weighted = with(&|index, pair| Pair {
            weight: weights[index],
            ..pair
        });
        assert_near(weighted.mean, number(&case["weighted"][0]), 1e-10);
        assert_near(weighted.standard_error.unwrap(), number(&case["weighted"][1]), 1e-10);
    }
}

#[test]
fn holm_agrees_with_statsmodels() {
    for case in cases(&golden("holm")) {
        let p_values: Vec<Option<f64>> = numbers(&case[0]).into_iter().map(Some).collect();
        for (found, expected) in holm(&p_values).into_iter().zip(numbers(&case[1])) {
            assert_near(found.unwrap(), expected, 1e-12);
        }
    }
}

#[test]
fn the_items_that_a_difference_takes_agree_with_statsmodels() {
    for case in cases(&golden("designs")) {
        let (difference, spread) = (number(&case[0]), Spread::of(number(&case[1]), None, None));
        let items = number(&case[2]);
        let design = Design::default();
        assert_eq!(design.items_for(difference, &spread), items.ceil());
        assert_near(design.detectable_with(items, &spread), difference, 1e-9);
    }
}
