use std::collections::HashMap;

use super::*;
use crate::tokens::tokenize;

fn question<'a>(ids: &'a [u32], max_tokens: u32) -> Question<'a> {
    Question {
        ids,
        max_tokens,
        min_tokens: 0,
        ignore_eos: false,
        stop: &[],
        keep_stop: false,
        sampling: Sampling::default(),
    }
}

fn item(index: usize) -> Vec<u32> {
    tokenize(&format!("Q: item {index} [target: {}]\nA:", index % 50))
}

fn drawn(seed: u64) -> Sampling {
    Sampling {
        temperature: 1.0,
        seed,
        ..Sampling::default()
    }
}

fn lengths(settings: &Answers, checkpoint: u64) -> Vec<f64> {
    let length = |index| {
        answer(settings, checkpoint, &question(&item(index), 100_000))
            .tokens
            .len() as f64
    };
    (0..2_000).map(length).collect()
}

fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let logs = |values: &[f64]| values.iter().map(|value| value.ln()).collect::<Vec<_>>();
    let (left, right) = (logs(left), logs(right));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mid_left, mid_right) = (mean(&left), mean(&right));
    let product =
        |a: &[f64], ma: f64, b: &[f64], mb: f64| a.iter().zip(b).map(|(a, b)| (a - ma) * (b - mb)).sum::<f64>();
    product(&left, mid_left, &right, mid_right)
        / (product(&left, mid_left, &left, mid_left) * product(&right, mid_right, &right, mid_right)).sqrt()
}

#[test]
fn lengths_have_their_median_and_their_tail_and_stay_with_the_item() {
    let settings = Answers::default();
    let (first, second) = (lengths(&settings, 1), lengths(&settings, 2));
    assert_eq!(f64::from(length(&settings, 2, &item(7), 100_000)), second[7]);
    let mut sorted = first.clone();
    sorted.sort_by(f64::total_cmp);
    assert!((180.0..220.0).contains(&sorted[1_000]), "median {}", sorted[1_000]);
    let tail = first.iter().filter(|length| **length > 1_500.0).count();
    assert!((8..35).contains(&tail), "{tail} of 2,000");
    assert_eq!(first, lengths(&settings, 1));
    assert!(correlation(&first, &second) > 0.7, "{}", correlation(&first, &second));
    let independent = Answers {
        correlation: 0.0,
        ..settings
    };
    let apart = correlation(&lengths(&independent, 1), &lengths(&independent, 2));
    assert!(apart.abs() < 0.1, "{apart}");
}

#[test]
fn the_set_share_of_marked_targets_is_answered_rightly() {
    let settings = Answers {
        correct: 0.6,
        ..Answers::default()
    };
    let is_right = |index: usize| {
        let answer = answer(&settings, 1, &question(&item(index), 100_000));
        assert_eq!(answer.finish, Finish::End);
        answer.text.ends_with(&format!("\nAnswer: {}", index % 50))
    };
    let right = (0..1_000).filter(|index| is_right(*index)).count();
    assert!((560..640).contains(&right), "{right}");
    assert_eq!(
        (wrong("9"), wrong("D"), wrong("x")),
        ("10".to_owned(), "A".to_owned(), "not x".to_owned())
    );
}

#[test]
fn the_cap_cuts_and_says_so() {
    let ids = item(1);
    let whole = answer(&Answers::default(), 1, &question(&ids, 100_000));
    let length = whole.tokens.len() as u32;
    let within = answer(&Answers::default(), 1, &question(&ids, length + 1));
    assert_eq!((within.finish, within.tokens.len() as u32), (Finish::End, length));
    assert_eq!(
        answer(&Answers::default(), 1, &question(&ids, length)).finish,
        Finish::Length
    );
    let cut = answer(&Answers::default(), 1, &question(&ids, length - 1));
    assert_eq!((cut.finish, cut.tokens.len() as u32), (Finish::Length, length - 1));
    assert_eq!(cut.tokens, whole.tokens[..cut.tokens.len()]);
}

#[test]
fn a_greedy_answer_continues_exactly_from_any_place_and_a_foreign_one_is_seen() {
    let ids = item(3);
    let settings = Answers::default();
    let whole = answer(&settings, 1, &question(&ids, 1_000));
    for at in [1, 7, whole.tokens.len() - 1, whole.tokens.len()] {
        let joined = [&ids[..], &whole.tokens[..at]].concat();
        let rest = answer(&settings, 1, &question(&joined, 1_000));
        assert_eq!(rest.tokens, whole.tokens[at..]);
        assert_eq!((rest.continued as usize, rest.is_foreign), (at, false));
        assert_eq!(prompt_hash(&joined), prompt_hash(&ids));
        assert!(answer(&settings, 2, &question(&joined, 1_000)).is_foreign);
    }
}

#[test]
fn a_stop_text_ends_the_answer_with_the_token_that_completes_it() {
    let ids = item(4);
    let stop = ["Answer".to_owned(), "\nAns".to_owned()];
    let stopped = answer(
        &Answers::default(),
        1,
        &Question {
            stop: &stop,
            ..question(&ids, 9_999)
        },
    );
    assert_eq!(stopped.finish, Finish::Stop("\nAns".to_owned()));
    assert!(!stopped.text.contains('\n'));
    let generated = crate::tokens::text(&stopped.tokens);
    assert!(generated.starts_with(&stopped.text) && generated.len() > stopped.text.len());
    let kept = Question {
        stop: &stop,
        keep_stop: true,
        ..question(&ids, 9_999)
    };
    assert!(answer(&Answers::default(), 1, &kept).text.ends_with("\nAns"));
}

#[test]
fn drawn_samples_differ_by_seed_and_keep_to_it() {
    let ids = item(5);
    let sample = |seed| {
        answer(
            &Answers::default(),
            1,
            &Question {
                sampling: drawn(seed),
                ..question(&ids, 9_999)
            },
        )
    };
    assert_eq!(sample(1), sample(1));
    assert_ne!(sample(1).tokens, sample(2).tokens);
}

/// Draws `count` samples of one prompt, whole, or cut at `at` and continued with another seed; how often each came.
fn sampled(settings: &Answers, sampling: &Sampling, at: Option<u32>, count: u64) -> HashMap<Vec<u32>, f64> {
    let ids = tokenize("short");
    let mut seen = HashMap::new();
    for seed in 0..count {
        let ask = |ids: &[u32], cap: u32, seed: u64, bias: Vec<(u32, f64)>| {
            let sampling = Sampling {
                seed,
                logit_bias: bias,
                ..sampling.clone()
            };
            answer(
                settings,
                1,
                &Question {
                    sampling,
                    ..question(ids, cap)
                },
            )
        };
        let cap = 3;
        let mut tokens = ask(&ids, at.unwrap_or(cap), mix(seed, 1), Vec::new());
        if let (Some(at), Finish::Length) = (at, &tokens.finish) {
            let bias = tokens
                .tokens
                .iter()
                .map(|id| (*id, -sampling.frequency_penalty))
                .collect();
            let joined = [&ids[..], &tokens.tokens].concat();
            tokens.tokens.extend(ask(&joined, cap - at, mix(seed, 2), bias).tokens);
        }
        *seen.entry(tokens.tokens).or_insert(0.0) += 1.0 / count as f64;
    }
    seen
}

/// Half the sum of absolute differences: 0 for equal distributions, 1 for disjoint ones.
fn distance(left: &HashMap<Vec<u32>, f64>, right: &HashMap<Vec<u32>, f64>) -> f64 {
    let mut keys: Vec<_> = left.keys().chain(right.keys()).collect();
    keys.sort();
    keys.dedup();
    let of = |map: &HashMap<Vec<u32>, f64>, key: &Vec<u32>| map.get(key).copied().unwrap_or(0.0);
    keys.iter()
        .map(|key| (of(left, key) - of(right, key)).abs())
        .sum::<f64>()
        / 2.0
}

/// A chain that ends early, so that few answers are possible and their shares can be compared.
fn short_chain() -> (Answers, Sampling) {
    let settings = Answers {
        mode: Mode::Chain,
        chain_tokens: 2.0,
        ..Answers::default()
    };
    let sampling = Sampling {
        temperature: 0.7,
        top_k: 4,
        frequency_penalty: -2.0,
        ..Sampling::default()
    };
    (settings, sampling)
}

#[test]
fn continued_samples_of_the_chain_are_distributed_as_whole_ones() {
    let (settings, sampling) = short_chain();
    let whole = sampled(&settings, &sampling, None, 40_000);
    let continued = sampled(&settings, &sampling, Some(1), 40_000);
    assert!(whole.len() > 10, "{}", whole.len());
    assert!(distance(&whole, &continued) < 0.02, "{}", distance(&whole, &continued));
}

#[test]
fn penalties_shape_the_chain_and_a_continuation_without_them_is_seen() {
    let (settings, sampling) = short_chain();
    let neutral = Sampling {
        frequency_penalty: 0.0,
        ..sampling.clone()
    };
    let with = sampled(&settings, &sampling, None, 40_000);
    let without = sampled(&settings, &neutral, None, 40_000);
    assert!(distance(&with, &without) > 0.04, "{}", distance(&with, &without));
}

#[test]
fn continued_planned_samples_are_as_long_as_whole_ones() {
    let settings = Answers {
        median_tokens: 12.0,
        tail_share: 0.2,
        tail_factor: 3.0,
        sample_correlation: 0.2,
        ..Answers::default()
    };
    let ids = item(6);
    let length = |seed: u64, at: Option<u32>| {
        let ask = |ids: &[u32], cap, seed| {
            let sampling = drawn(seed);
            answer(
                &settings,
                1,
                &Question {
                    sampling,
                    ..question(ids, cap)
                },
            )
        };
        let first = ask(&ids, at.unwrap_or(9_999), mix(seed, 1));
        if first.finish == Finish::End {
            return first.tokens.len();
        }
        let joined = [&ids[..], &first.tokens].concat();
        first.tokens.len() + ask(&joined, 9_999, mix(seed, 2)).tokens.len()
    };
    let mean = |at| (0..20_000).map(|seed| length(seed, at) as f64).sum::<f64>() / 20_000.0;
    let (whole, continued) = (mean(None), mean(Some(9)));
    assert!((whole / continued - 1.0).abs() < 0.02, "{whole} {continued}");
}
