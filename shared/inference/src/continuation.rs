//! How the rest of an answer is asked for so that the whole is the same draw as an uninterrupted one.
//!
//! A model draws each token given all before it, and an engine given token ids sees exactly these. So asking for what follows
//! prompt and beginning, with the random numbers of a seed of its own, draws from the same distribution; which tokens had
//! arrived by the interruption does not depend on what they are. What is not the same has no continuation:
//!
//! - without all token ids (text might be split into others);
//! - a presence penalty, which one cannot say of tokens that are prompt now without its being counted twice;
//! - a frequency penalty together with a repetition penalty: engines apply a bias before the latter, a penalty after;
//! - a repetition penalty on an engine that counts the answer alone;
//! - an answer whose reasoning was split off: the rest would come back unsplit.

use std::collections::BTreeMap;

use tidemill_domain::{Partial, Prompt};

use crate::Request;

/// What a request for the rest of an answer says otherwise than one for the whole.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rest {
    /// The prompt's tokens and those that there are of the answer.
    pub(crate) prompt: Vec<u32>,
    /// Tokens that may follow.
    pub(crate) max_tokens: u32,
    /// A seed of its own: that of the answer would draw again the numbers that drew its beginning.
    pub(crate) seed: Option<u64>,
    /// What a frequency penalty takes from the tokens of the beginning.
    pub(crate) logit_bias: BTreeMap<u32, f64>,
}

/// What to do with a partial answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Plan {
    /// Ask for the whole.
    Anew,
    /// Ask for the rest.
    Continue(Rest),
    /// All is there that the cap allows.
    Full,
}

/// The largest bias that engines take.
const MOST_BIAS: f64 = 100.0;

/// The most tokens with a bias that engines take (vLLM's limit is 1,024, OpenAI's 300).
const MOST_BIASED: usize = 300;

/// The largest seed that every engine takes.
const SEED_MASK: u64 = 0x7fff_ffff;

/// What of an engine decides how an answer of it is continued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    /// Its repetition penalty counts the prompt's tokens too.
    pub(crate) repetition_counts_prompt: bool,
    /// A seed's random number for a token depends on the token's position in the whole alone, so that the seed of the answer
    /// draws the rest as it would have without an interruption.
    pub(crate) draws_by_position: bool,
}

/// Decides on `partial`.
pub(crate) fn plan(request: &Request<'_>, partial: &Partial, traits: Traits) -> Plan {
    if !partial.has_tokens() || !is_exact(request, partial, traits.repetition_counts_prompt) {
        return Plan::Anew;
    }
    let Some(logit_bias) = bias(request.penalties.frequency, &partial.tokens) else {
        return Plan::Anew;
    };
    let left = u64::from(request.max_tokens).saturating_sub(partial.tokens.len() as u64);
    if left == 0 {
        return Plan::Full;
    }
    Plan::Continue(Rest {
        prompt: [partial.prompt_tokens.as_slice(), &partial.tokens].concat(),
        max_tokens: u32::try_from(left).unwrap_or(u32::MAX),
        seed: if traits.draws_by_position {
            request.seed
        } else {
            request.seed.map(|seed| fresh_seed(seed, &partial.tokens))
        },
        logit_bias,
    })
}

/// The penalties of `request` can be given to the rest of its answer.
pub(crate) fn keeps_penalties(request: &Request<'_>, repetition_counts_prompt: bool) -> bool {
    let penalties = request.penalties;
    let repeats = penalties.repetition != 1.0;
    penalties.presence == 0.0 && !(repeats && (penalties.frequency != 0.0 || !repetition_counts_prompt))
}

fn is_exact(request: &Request<'_>, partial: &Partial, repetition_counts_prompt: bool) -> bool {
    let is_split = matches!(request.prompt, Prompt::Chat(_)) && partial.text.is_empty();
    partial.reasoning.is_empty() && !is_split && keeps_penalties(request, repetition_counts_prompt)
}

/// The bias that a frequency penalty amounts to for tokens that have come already; `None` where no engine takes it.
fn bias(frequency: f64, tokens: &[u32]) -> Option<BTreeMap<u32, f64>> {
    let mut biases = BTreeMap::new();
    if frequency == 0.0 {
        return Some(biases);
    }
    for token in tokens {
        *biases.entry(*token).or_insert(0.0) -= frequency;
    }
    let is_taken = biases.len() <= MOST_BIASED && biases.values().all(|bias| f64::abs(*bias) <= MOST_BIAS);
    is_taken.then_some(biases)
}

/// A seed for what follows these tokens: the same for the same beginning of the same sample.
///
/// Source: Fowler, Noll, Vo, FNV-1a with 64 bits, folded.
fn fresh_seed(seed: u64, tokens: &[u32]) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let tokens = tokens.iter().flat_map(|token| token.to_le_bytes());
    let hash = seed
        .to_le_bytes()
        .into_iter()
        .chain(tokens)
        .fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    (hash ^ (hash >> 32)) & SEED_MASK
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tidemill_domain::{Message, Penalties};

    use super::*;

    fn partial() -> Partial {
        Partial {
            prompt_tokens: vec![1, 2],
            tokens: vec![7, 8, 7],
            text: "aba".to_owned(),
            completion_tokens: 3,
            ..Partial::default()
        }
    }

    fn request<'a>(prompt: &'a Prompt, penalties: Penalties) -> Request<'a> {
        Request {
            prompt,
            max_tokens: 8,
            temperature: 1.0,
            top_p: 1.0,
            stop: &[],
            seed: Some(5),
            penalties,
            stream: true,
            stall_timeout: Duration::from_secs(60),
        }
    }

    const VLLM: Traits = Traits {
        repetition_counts_prompt: true,
        draws_by_position: false,
    };

    fn planned(partial: &Partial, penalties: Penalties) -> Plan {
        plan(&request(&Prompt::Text(String::new()), penalties), partial, VLLM)
    }

    fn rest(plan: Plan) -> Rest {
        match plan {
            Plan::Continue(rest) => rest,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_rest_follows_prompt_and_beginning_with_a_seed_of_its_own() {
        let asked = rest(planned(&partial(), Penalties::default()));
        assert_eq!(asked.prompt, [1, 2, 7, 8, 7]);
        assert_eq!(asked.max_tokens, 5);
        assert!(asked.logit_bias.is_empty());
        assert_ne!(asked.seed, Some(5));
        assert!(asked.seed <= Some(SEED_MASK));
        assert_eq!(rest(planned(&partial(), Penalties::default())).seed, asked.seed);
        let mut longer = partial();
        longer.tokens.push(9);
        longer.completion_tokens += 1;
        assert_ne!(rest(planned(&longer, Penalties::default())).seed, asked.seed);
        let by_position = Traits {
            draws_by_position: true,
            ..VLLM
        };
        let prompt = Prompt::Text(String::new());
        let same = rest(plan(&request(&prompt, Penalties::default()), &partial(), by_position));
        assert_eq!(same.seed, Some(5), "that seed draws on as it would have");
    }

    #[test]
    fn a_frequency_penalty_becomes_a_bias_by_the_counts_of_the_beginning() {
        let penalties = Penalties {
            frequency: 0.5,
            ..Penalties::default()
        };
        let asked = rest(planned(&partial(), penalties));
        assert_eq!(asked.logit_bias, BTreeMap::from([(7, -1.0), (8, -0.5)]));
        let heavy = Penalties {
            frequency: 60.0,
            ..penalties
        };
        assert_eq!(planned(&partial(), heavy), Plan::Anew);
    }

    #[test]
    fn what_would_be_another_draw_is_asked_anew() {
        let neutral = Penalties::default();
        let presence = Penalties {
            presence: 0.1,
            ..neutral
        };
        let repetition = Penalties {
            repetition: 1.1,
            ..neutral
        };
        let both = Penalties {
            frequency: 0.1,
            ..repetition
        };
        assert_eq!(planned(&partial(), presence), Plan::Anew);
        assert_eq!(planned(&partial(), both), Plan::Anew);
        assert!(matches!(planned(&partial(), repetition), Plan::Continue(_)));
        let text = Prompt::Text(String::new());
        let answer_alone = Traits {
            repetition_counts_prompt: false,
            ..VLLM
        };
        assert_eq!(plan(&request(&text, repetition), &partial(), answer_alone), Plan::Anew);
        let without_ids = Partial {
            tokens: vec![],
            ..partial()
        };
        let outstanding = Partial {
            completion_tokens: 4,
            ..partial()
        };
        let reasoning = Partial {
            reasoning: "hm".to_owned(),
            ..partial()
        };
        for incomplete in [without_ids, outstanding, reasoning] {
            assert_eq!(planned(&incomplete, neutral), Plan::Anew, "{incomplete:?}");
        }
        let chat = Prompt::Chat(vec![Message {
            role: "user".to_owned(),
            content: "hi".to_owned(),
        }]);
        assert!(matches!(
            plan(&request(&chat, neutral), &partial(), VLLM),
            Plan::Continue(_)
        ));
        let silent = Partial {
            text: String::new(),
            ..partial()
        };
        assert_eq!(plan(&request(&chat, neutral), &silent, VLLM), Plan::Anew);
    }

    #[test]
    fn an_answer_at_its_cap_is_full() {
        let full = Partial {
            tokens: vec![1; 8],
            completion_tokens: 8,
            ..partial()
        };
        assert_eq!(planned(&full, Penalties::default()), Plan::Full);
    }
}
