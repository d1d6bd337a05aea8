//! Continued answers are draws like whole ones: shown against the simulated engine, whose seeds fix every number here.

use std::collections::BTreeMap;

use futures::stream::{self, StreamExt as _};
use tidemill_simulated::answers::{self, Answers, Form, Mode, Question, Sampling};
use tidemill_simulated::{Config, SimulatedEngine, tokens};

use super::*;

const PROMPT: &str = "Count the ways\nAnswer:";

/// Samples of each kind.
const SAMPLES: u64 = 700;

/// Tokens before the interruption.
const CUT: usize = 4;

const CAP: u32 = 40;

/// How a sample is drawn.
#[derive(Clone, Copy)]
struct Draw {
    frequency: f64,
    repetition: f64,
}

const PLAIN: Draw = Draw {
    frequency: 0.0,
    repetition: 1.0,
};

fn chain() -> Answers {
    Answers {
        mode: Mode::Chain,
        chain_tokens: 14.0,
        ..Answers::default()
    }
}

/// What the engine draws after `ids` with this seed.
fn drawn(ids: &[u32], max_tokens: u32, draw: Draw, seed: u64) -> answers::Answer {
    let question = Question {
        ids,
        max_tokens,
        min_tokens: 0,
        ignore_eos: false,
        stop: &[],
        keep_stop: false,
        sampling: Sampling {
            temperature: 1.0,
            frequency_penalty: draw.frequency,
            repetition_penalty: draw.repetition,
            seed,
            ..Sampling::default()
        },
    };
    answers::answer(&chain(), 1, &question)
}

/// What a sample is compared by: where it is when it is interrupted, and what follows.
type Category = (Option<u32>, Option<u32>, Option<u32>);

type Counts = BTreeMap<Category, u64>;

/// Two counts of a sample: the first token with the one behind the seam, and the last before it with that one and whether the
/// one behind repeats any; lengths by fours.
fn count(counts: &mut [Counts; 3], tokens: &[u32]) {
    let at = |index: usize| tokens.get(index).copied();
    let repeats = at(CUT).map(|token| u32::from(tokens[..CUT].contains(&token)));
    *counts[0].entry((at(0), at(CUT), None)).or_default() += 1;
    *counts[1].entry((at(CUT - 1), at(CUT), None)).or_default() += 1;
    *counts[2]
        .entry((repeats, Some(tokens.len() as u32 / 4), None))
        .or_default() += 1;
}

/// Whether two samples may come of one distribution: chi-square of homogeneity on each of the counts, cells with fewer than
/// ten joined, at a level of 1 in 10,000.
///
/// Source: Wilson and Hilferty, "The Distribution of Chi-Square", 1931, for the bound.
fn are_alike(left: &[Counts; 3], right: &[Counts; 3]) -> bool {
    left.iter().zip(right).all(|(left, right)| {
        let (statistic, freedom) = chi_square(left, right);
        let part = 2.0 / (9.0 * freedom);
        let bound = freedom * (1.0 - part + 3.719 * part.sqrt()).powi(3);
        statistic <= bound
    })
}

fn chi_square(left: &Counts, right: &Counts) -> (f64, f64) {
    let total = |counts: &Counts| counts.values().sum::<u64>() as f64;
    let (of_left, of_right) = (total(left), total(right));
    let mut cells: Vec<(f64, f64)> = Vec::new();
    let mut rest = (0.0, 0.0);
    let keys: std::collections::BTreeSet<&Category> = left.keys().chain(right.keys()).collect();
    for key in keys {
        let of = |counts: &Counts| counts.get(key).copied().unwrap_or(0) as f64;
        let cell = (of(left), of(right));
        if cell.0 + cell.1 < 10.0 {
            rest = (rest.0 + cell.0, rest.1 + cell.1);
        } else {
            cells.push(cell);
        }
    }
    if rest.0 + rest.1 > 0.0 {
        cells.push(rest);
    }
    let statistic = cells.iter().map(|(left, right)| {
        let share = (left + right) / (of_left + of_right);
        let expected = (share * of_left, share * of_right);
        (left - expected.0).powi(2) / expected.0 + (right - expected.1).powi(2) / expected.1
    });
    (statistic.sum(), (cells.len() - 1).max(1) as f64)
}

/// Samples that nothing interrupts, with seeds of their own.
fn whole(draw: Draw) -> [Counts; 3] {
    let (prompt, mut counts) = (tokens::tokenize(PROMPT), <[Counts; 3]>::default());
    for seed in 0..4 * SAMPLES {
        count(&mut counts, &drawn(&prompt, CAP, draw, 1_000_000 + seed).tokens);
    }
    counts
}

/// Samples that are interrupted after [`CUT`] tokens and of which `rest` gives what follows.
fn joined(draw: Draw, rest: impl Fn(&[u32], &[u32], u64) -> Vec<u32>) -> [Counts; 3] {
    let (prompt, mut counts) = (tokens::tokenize(PROMPT), <[Counts; 3]>::default());
    for seed in 1..=SAMPLES {
        let mut tokens = drawn(&prompt, CAP, draw, seed).tokens;
        if tokens.len() >= CUT {
            tokens.truncate(CUT);
            let follows = rest(&prompt, &tokens, seed);
            tokens.extend(follows);
        }
        count(&mut counts, &tokens);
    }
    counts
}

/// The same, continued by the adapter over HTTP.
async fn continued(draw: Draw) -> [Counts; 3] {
    let simulated = SimulatedEngine::start(Config {
        speed: 0.0,
        answers: chain(),
        ..Config::default()
    })
    .unwrap();
    let client = Client::new(&simulated.url(), &Options::default()).unwrap();
    let engine = OpenAi::new(client, simulated.model(), EngineKind::Vllm);
    let prompt = tokens::tokenize(PROMPT);
    let sample = |seed: u64| {
        let (engine, prompt) = (engine.clone(), prompt.clone());
        async move {
            let mut tokens = drawn(&prompt, CAP, draw, seed).tokens;
            // Whether an answer that has this many tokens ends with them is not known when it is interrupted.
            if tokens.len() < CUT {
                return tokens;
            }
            tokens.truncate(CUT);
            let mut partial = Partial {
                prompt_tokens: prompt,
                text: tokens::text(&tokens),
                completion_tokens: CUT as u64,
                tokens,
                ..Partial::default()
            };
            let text = Prompt::Text(PROMPT.to_owned());
            let request = Request {
                temperature: 1.0,
                seed: Some(seed),
                penalties: Penalties {
                    frequency: draw.frequency,
                    presence: 0.0,
                    repetition: draw.repetition,
                },
                ..request(&text, &[])
            };
            let attempt = engine.complete(&request, Connection::Kept, &mut partial).await;
            let Verdict::Done(answer) = attempt.verdict else {
                panic!("{:?}", attempt.verdict)
            };
            assert_eq!(answer.completion_tokens as usize, partial.tokens.len());
            assert!(
                answer.completion_tokens <= u64::from(CAP),
                "the cap is that of the whole"
            );
            partial.tokens
        }
    };
    let samples: Vec<Vec<u32>> = stream::iter((1..=SAMPLES).map(sample))
        .buffer_unordered(16)
        .collect()
        .await;
    let mut counts = <[Counts; 3]>::default();
    samples.iter().for_each(|tokens| count(&mut counts, tokens));
    counts
}

fn request<'a>(prompt: &'a Prompt, stop: &'a [String]) -> Request<'a> {
    Request {
        prompt,
        max_tokens: CAP,
        temperature: 0.0,
        top_p: 1.0,
        stop,
        seed: None,
        penalties: Penalties::default(),
        stream: true,
        stall_timeout: Duration::from_secs(60),
    }
}

#[tokio::test]
async fn continued_samples_are_distributed_as_whole_ones() {
    let reference = whole(PLAIN);
    assert!(are_alike(&continued(PLAIN).await, &reference));
    // What is wrong is found by the same comparison: the numbers of the beginning once more, and a beginning left out.
    let left = CAP - CUT as u32;
    let with_old_seed = joined(PLAIN, |prompt, tokens, seed| {
        drawn(&[prompt, tokens].concat(), left, PLAIN, seed).tokens
    });
    assert!(!are_alike(&with_old_seed, &reference));
    let without_beginning = joined(PLAIN, |prompt, _, seed| drawn(prompt, left, PLAIN, seed + 1_000).tokens);
    assert!(!are_alike(&without_beginning, &reference));
}

#[tokio::test]
async fn penalties_are_those_of_the_whole_answer() {
    let frequent = Draw {
        frequency: 2.0,
        ..PLAIN
    };
    let repeating = Draw {
        repetition: 1.8,
        ..PLAIN
    };
    for draw in [frequent, repeating] {
        assert!(are_alike(&continued(draw).await, &whole(draw)), "{}", draw.frequency);
    }
    // The engine counts only what it generates for this penalty: without what the beginning has earned it is another draw.
    let forgotten = joined(frequent, |prompt, tokens, seed| {
        let left = CAP - CUT as u32;
        drawn(&[prompt, tokens].concat(), left, frequent, seed + 1_000_000).tokens
    });
    assert!(!are_alike(&forgotten, &whole(frequent)));
}

#[tokio::test]
async fn a_greedy_answer_that_is_interrupted_anywhere_is_the_uncut_one() {
    let simulated = SimulatedEngine::start(Config {
        speed: 0.0,
        answers: Answers {
            median_tokens: 30.0,
            spread: 0.0,
            tail_share: 0.0,
            form: Form::Worked,
            ..Answers::default()
        },
        ..Config::default()
    })
    .unwrap();
    let client = Client::new(&simulated.url(), &Options::default()).unwrap();
    let engine = OpenAi::new(client, simulated.model(), EngineKind::Vllm);
    let text = Prompt::Text(PROMPT.to_owned());
    let mut uncut = Partial::default();
    let asked = engine
        .complete(&request(&text, &[]), Connection::Kept, &mut uncut)
        .await;
    let Verdict::Done(plain) = asked.verdict else {
        panic!("{:?}", asked.verdict)
    };
    // A text across the borders of tokens ends the answer wherever it was interrupted.
    let middle =
        (plain.text.len() / 2..).find(|at| plain.text.is_char_boundary(*at) && plain.text.is_char_boundary(at + 9));
    let stop = vec![plain.text[middle.unwrap()..middle.unwrap() + 9].to_owned()];
    for stop in [Vec::new(), stop] {
        let mut seen = Partial::default();
        let asked = engine
            .complete(&request(&text, &stop), Connection::Kept, &mut seen)
            .await;
        let Verdict::Done(expected) = asked.verdict else {
            panic!("{:?}", asked.verdict)
        };
        let ends_at = expected.text.len();
        for cut in 1..uncut.tokens.len() {
            let mut partial = Partial {
                prompt_tokens: uncut.prompt_tokens.clone(),
                tokens: uncut.tokens[..cut].to_vec(),
                text: tokens::text(&uncut.tokens[..cut]),
                completion_tokens: cut as u64,
                ..Partial::default()
            };
            if partial.text.len() >= ends_at + stop.first().map_or(0, String::len) {
                break;
            }
            let asked = engine
                .complete(&request(&text, &stop), Connection::Kept, &mut partial)
                .await;
            let Verdict::Done(answer) = asked.verdict else {
                panic!("{:?}", asked.verdict)
            };
            assert_eq!(answer.text, expected.text, "cut after {cut}, stop {stop:?}");
            assert_eq!(
                (answer.ending, answer.truncated),
                (expected.ending, expected.truncated),
                "cut after {cut}, stop {stop:?}"
            );
        }
    }
}
