//! What takes part in a generation's key, what is kept, and that keys never change silently.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;
use crate::{Continuation, EvaluationId, Message, Penalties, Reasoning, Served};

fn weights() -> Digest {
    Digest::of(b"weights")
}

fn settings() -> Settings {
    Settings {
        max_tokens: 16,
        temperature: 0.7,
        top_p: 0.9,
        stop: vec!["\n".to_owned(), "Q:".to_owned()],
        seed: 5,
        samples: 4,
    }
}

/// A request that owns its parts, so that one of them can be changed.
#[derive(Debug, Clone)]
struct Owned {
    weights: Digest,
    lane: String,
    prompt: Prompt,
    settings: Settings,
    penalties: Penalties,
    seed: u64,
    choices: Option<Vec<String>>,
    sample: u32,
}

impl Owned {
    fn key(&self) -> GenerationKey {
        let question = match &self.choices {
            Some(choices) => Question::Score { choices },
            None => Question::Complete {
                settings: &self.settings,
                penalties: self.penalties,
                seed: self.seed,
            },
        };
        Asked {
            weights: &self.weights,
            lane: &self.lane,
            prompt: &self.prompt,
            question,
            sample: self.sample,
        }
        .key()
    }
}

fn generated() -> Owned {
    Owned {
        weights: weights(),
        lane: LANE.to_owned(),
        prompt: Prompt::Text("Question 1\nAnswer:".to_owned()),
        settings: settings(),
        penalties: Penalties::default(),
        seed: 77,
        choices: None,
        sample: 2,
    }
}

fn chat() -> Owned {
    let turn = |role: &str, content: &str| Message {
        role: role.to_owned(),
        content: content.to_owned(),
    };
    Owned {
        prompt: Prompt::Chat(vec![turn("system", "Be brief."), turn("user", "Question 1\nAnswer:")]),
        ..generated()
    }
}

fn scored() -> Owned {
    Owned {
        choices: Some(vec![" red".to_owned(), " blue".to_owned()]),
        ..generated()
    }
}

#[test]
fn keys_never_change_silently() {
    let keys = [generated(), chat(), scored()].map(|asked| asked.key().to_string());
    assert_eq!(
        keys,
        [
            "5485d2f5513e2c01aa882390c1c7d4d1",
            "76c3ccbcfcdd3b1c86b9ef74e01b1b72",
            "67b4a58a57290e6937c0ab454887016f",
        ],
        "another key makes every stored generation unreachable: raise the version in the context string instead"
    );
}

/// Every single change of `asked`, by name.
fn changes(asked: &Owned) -> Vec<(&'static str, Owned)> {
    let mut changes: Vec<(&'static str, Owned)> = Vec::new();
    let mut change = |name, change: &dyn Fn(&mut Owned)| {
        let mut changed = asked.clone();
        change(&mut changed);
        changes.push((name, changed));
    };
    change("weights", &|asked| asked.weights = Digest::of(b"other weights"));
    change("lane", &|asked| asked.lane = "deterministic".to_owned());
    change("sample", &|asked| asked.sample += 1);
    match &asked.prompt {
        Prompt::Text(text) => {
            change("text", &|asked| asked.prompt = Prompt::Text(format!("{text} ")));
            change("a chat of the same text", &|asked| {
                let turn = Message {
                    role: "user".to_owned(),
                    content: text.clone(),
                };
                asked.prompt = Prompt::Chat(vec![turn]);
            });
        }
        Prompt::Chat(turns) => {
            let with = |change: &dyn Fn(&mut Vec<Message>)| {
                let mut turns = turns.clone();
                change(&mut turns);
                Prompt::Chat(turns)
            };
            change("role", &|asked| {
                asked.prompt = with(&|turns| turns[0].role = "user".to_owned())
            });
            change("content", &|asked| {
                asked.prompt = with(&|turns| turns[1].content.push('!'))
            });
            change("order", &|asked| asked.prompt = with(&|turns| turns.reverse()));
            change("fewer turns", &|asked| {
                asked.prompt = with(&|turns| drop(turns.remove(0)))
            });
            change("role and content run together", &|asked| {
                asked.prompt = with(&|turns| {
                    turns[0].role.push('B');
                    turns[0].content.remove(0);
                });
            });
            change("a text", &|asked| asked.prompt = Prompt::Text(turns[1].content.clone()));
        }
    }
    if let Some(choices) = &asked.choices {
        change("choice", &|asked| {
            asked.choices = Some(vec![choices[0].clone(), " green".to_owned()])
        });
        change("order of choices", &|asked| {
            asked.choices = Some(choices.iter().rev().cloned().collect())
        });
        change("choices run together", &|asked| {
            asked.choices = Some(vec![choices.concat()])
        });
        change("a completion", &|asked| asked.choices = None);
    } else {
        change("seed", &|asked| asked.seed += 1);
        change("cap", &|asked| asked.settings.max_tokens += 1);
        change("temperature", &|asked| asked.settings.temperature = 0.0);
        change("top_p", &|asked| asked.settings.top_p = 1.0);
        change("frequency penalty", &|asked| asked.penalties.frequency = 0.5);
        change("presence penalty", &|asked| asked.penalties.presence = 0.5);
        change("repetition penalty", &|asked| asked.penalties.repetition = 0.5);
        change("no stop", &|asked| asked.settings.stop.clear());
        change("stop", &|asked| asked.settings.stop[1] = "A:".to_owned());
        change("stops run together", &|asked| {
            asked.settings.stop = vec!["\nQ:".to_owned()]
        });
        change("a score", &|asked| asked.choices = Some(Vec::new()));
    }
    changes
}

#[test]
fn any_single_change_is_another_key() {
    for asked in [generated(), chat(), scored()] {
        let mut keys = HashSet::from([asked.key()]);
        for (name, changed) in changes(&asked) {
            assert!(
                keys.insert(changed.key()),
                "{name} does not take part in the key of {asked:?}"
            );
        }
    }
}

#[test]
fn what_is_not_sent_takes_no_part() {
    let same = Owned {
        settings: Settings {
            seed: 6,
            samples: 1,
            ..settings()
        },
        ..generated()
    };
    assert_eq!(
        same.key(),
        generated().key(),
        "base seed and sample count only make the seed that is sent"
    );
    let zero = |temperature| Owned {
        settings: Settings {
            temperature,
            ..settings()
        },
        ..generated()
    };
    assert_eq!(zero(0.0).key(), zero(-0.0).key());
    let scored_otherwise = Owned {
        settings: Settings {
            temperature: 0.1,
            ..settings()
        },
        seed: 78,
        ..scored()
    };
    assert_eq!(scored_otherwise.key(), scored().key(), "nothing is drawn for a score");
}

#[test]
fn samples_of_an_item_and_the_same_row_under_another_id_are_other_draws() {
    let benchmark: Benchmark = benchmark();
    let item = |id: &str| Item {
        id: id.to_owned(),
        prompt: Prompt::Text("Q".to_owned()),
        targets: vec!["A".to_owned()],
        choices: Vec::new(),
        correct_choice: None,
        cluster: None,
        subset: None,
        weight: 1.0,
        material: Vec::new(),
    };
    let mut keys = HashSet::new();
    for id in ["1", "2"] {
        for sample in 0..4 {
            assert!(keys.insert(Asked::of(&weights(), &benchmark, &item(id), sample).key()));
        }
    }
    let regraded = Item {
        targets: vec!["B".to_owned()],
        cluster: Some("c".to_owned()),
        ..item("1")
    };
    assert!(
        keys.contains(&Asked::of(&weights(), &benchmark, &regraded, 0).key()),
        "a target is not sent"
    );
}

fn benchmark() -> Benchmark {
    Benchmark {
        name: crate::BenchmarkName::try_new("b").unwrap(),
        settings: settings(),
        grader: crate::GraderSpec::Exact {
            ignore_case: false,
            ignore_punctuation: false,
        },
        items: 0,
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

#[test]
fn keys_are_read_back_from_their_text() {
    let key = generated().key();
    assert_eq!(key.to_string().parse(), Ok(key));
    for text in ["", "00", &key.to_string().to_uppercase(), &format!("{key}0")] {
        assert!(text.parse::<GenerationKey>().is_err(), "{text}");
    }
}

fn completion(ending: Ending) -> Completion {
    Completion {
        key: ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"e")),
            benchmark: 0,
            item: 3,
            sample: 1,
        },
        manifest: Digest::of(b"m"),
        ending,
        text: "4".to_owned(),
        reasoning: Some("2+2".to_owned()),
        finish_reason: Some("stop".to_owned()),
        stop_reason: Some("\n".to_owned()),
        truncated: false,
        choices: Vec::new(),
        detail: None,
        prompt_tokens: 5,
        completion_tokens: 6,
        requests: 2,
        attempts: 2,
        cached: false,
        served: Served::default(),
        generation: Some(generated().key()),
        engine: "http://a".to_owned(),
        started: Timestamp(1),
        finished: Timestamp(2),
    }
}

#[test]
fn only_what_the_model_or_its_cap_ended_is_kept() {
    for ending in [Ending::Stop, Ending::Length, Ending::Scored] {
        assert!(Generation::of(&completion(ending)).is_some(), "{ending:?}");
    }
    for ending in [
        Ending::Empty,
        Ending::Refused,
        Ending::ContextOverflow,
        Ending::EngineError,
    ] {
        assert_eq!(Generation::of(&completion(ending)), None, "{ending:?}");
    }
    let own_draw = Completion {
        generation: None,
        ..completion(Ending::Stop)
    };
    assert_eq!(Generation::of(&own_draw), None);
}

#[test]
fn an_answer_from_the_cache_has_the_text_and_its_tokens_and_no_request() {
    let original = completion(Ending::Stop);
    let other = ItemKey {
        item: 9,
        ..original.key.clone()
    };
    let answer = Generation::of(&original)
        .unwrap()
        .answer(other.clone(), Digest::of(b"n"), Timestamp(50));
    let expected = Completion {
        key: other,
        manifest: Digest::of(b"n"),
        requests: 0,
        attempts: 0,
        cached: true,
        served: Served::default(),
        started: Timestamp(50),
        finished: Timestamp(50),
        ..original
    };
    assert_eq!(answer, expected);
    assert_eq!(Generation::of(&answer), None, "it is in the cache already");
}

proptest! {
    #[test]
    fn texts_and_lists_do_not_run_together(
        one in prop::collection::vec("[ab]{0,2}", 0..4),
        two in prop::collection::vec("[ab]{0,2}", 0..4),
    ) {
        let stops = |stop: &Vec<String>| Owned { settings: Settings { stop: stop.clone(), ..settings() }, ..generated() }.key();
        let choices = |choices: &Vec<String>| Owned { choices: Some(choices.clone()), ..generated() }.key();
        prop_assert_eq!(stops(&one) == stops(&two), one == two);
        prop_assert_eq!(choices(&one) == choices(&two), one == two);
    }

    #[test]
    fn numbers_take_part_whole(
        cap in any::<u32>(), temperature in 0.0..2.0_f64, top_p in 0.01..1.0_f64, seed in any::<u64>(), sample in any::<u32>(),
    ) {
        let base = Owned {
            settings: Settings { max_tokens: cap, temperature, top_p, ..settings() }, seed, sample, ..generated()
        };
        for bit in 0..32 {
            let mut other = base.clone();
            other.settings.max_tokens ^= 1 << bit;
            prop_assert_ne!(other.key(), base.key());
            let mut other = base.clone();
            other.sample ^= 1 << bit;
            prop_assert_ne!(other.key(), base.key());
        }
        for bit in 0..64 {
            let mut other = base.clone();
            other.seed ^= 1 << bit;
            prop_assert_ne!(other.key(), base.key());
            let mut other = base.clone();
            other.settings.temperature = f64::from_bits(temperature.to_bits() ^ (1 << bit));
            prop_assert!(other.settings.temperature == temperature || other.key() != base.key());
        }
    }
}
