//! What an engine may answer, and what is right: each case of the list of broken answers by its name, with two neighbours,
//! against the simulated engine. What follows of a verdict (retries, breakers, an evaluation's end) is tested where it is done.

use tidemill_domain::Message;
use tidemill_inference::{Answer, Described, Scored};
use tidemill_simulated::answers::{Answers, Form};
use tidemill_simulated::model::Limits;
use tidemill_simulated::{Config, Fault, FaultKind, SimulatedEngine};

use super::*;

/// What makes a case: what is wrong, what is asked, and what has to come of it.
struct Case {
    name: &'static str,
    fault: Option<Fault>,
    ask: Ask,
    expect: fn(&Outcome) -> bool,
}

#[derive(Clone)]
struct Ask {
    prompt: Prompt,
    max_tokens: u32,
    stop: Vec<String>,
    stream: bool,
    stall_timeout: Duration,
}

#[derive(Debug)]
struct Outcome {
    verdict: Verdict<Answer>,
    partial: Partial,
}

impl Outcome {
    fn done(&self) -> Option<&Answer> {
        match &self.verdict {
            Verdict::Done(answer) => Some(answer),
            _ => None,
        }
    }

    fn is(&self, label: &str) -> bool {
        self.verdict.label() == label
    }

    fn is_busy(&self, status: u16, seconds: Option<u64>) -> bool {
        let Verdict::Busy {
            status: got,
            retry_after,
            ..
        } = &self.verdict
        else {
            return false;
        };
        // A date has whole seconds, of which one may have passed.
        let wait = retry_after.map(|wait| wait.as_secs());
        *got == status && (wait == seconds || wait.map(|wait| wait + 1) == seconds)
    }
}

/// The whole answer to `text()`: some words, then the answer proper.
const PROMPT: &str = "2+2= [target: 4]";
const CAP: u32 = 2_000;

fn ask() -> Ask {
    Ask {
        prompt: Prompt::Text(PROMPT.to_owned()),
        max_tokens: CAP,
        stop: Vec::new(),
        stream: false,
        stall_timeout: Duration::from_secs(30),
    }
}

fn chat() -> Ask {
    let message = Message {
        role: "user".to_owned(),
        content: PROMPT.to_owned(),
    };
    Ask {
        prompt: Prompt::Chat(vec![message]),
        ..ask()
    }
}

fn streamed() -> Ask {
    Ask { stream: true, ..ask() }
}

fn capped(max_tokens: u32) -> Ask {
    Ask { max_tokens, ..ask() }
}

fn long(words: usize, max_tokens: u32) -> Ask {
    Ask {
        prompt: Prompt::Text(" the".repeat(words)),
        ..capped(max_tokens)
    }
}

/// An engine whose answers are about 500 tokens and always right, and whose context is 4,096.
fn simulated() -> Config {
    Config {
        model: "tiny".to_owned(),
        speed: 0.0,
        engine: Limits {
            max_model_len: 4_096,
            ..Limits::default()
        },
        answers: Answers {
            median_tokens: 500.0,
            spread: 0.0,
            tail_share: 0.0,
            correct: 1.0,
            ..Answers::default()
        },
        ..Config::default()
    }
}

async fn answer_to(engine: &SimulatedEngine, ask: &Ask) -> Outcome {
    answer_over(engine, ask, Connection::Kept).await
}

async fn answer_over(engine: &SimulatedEngine, ask: &Ask, connection: Connection) -> Outcome {
    let client = Client::new(&engine.url(), &Options::default()).unwrap();
    let adapter = OpenAi::new(client, "tiny", EngineKind::Vllm);
    let mut partial = Partial::default();
    let request = Request {
        max_tokens: ask.max_tokens,
        stop: &ask.stop,
        stream: ask.stream,
        stall_timeout: ask.stall_timeout,
        ..request(&ask.prompt)
    };
    let verdict = adapter.complete(&request, connection, &mut partial).await.verdict;
    Outcome { verdict, partial }
}

const fn fault(kind: FaultKind) -> Option<Fault> {
    Some(Fault::new(kind))
}

fn busy(kind: FaultKind, retry_after: Option<u64>, as_date: bool) -> Option<Fault> {
    Some(Fault {
        retry_after: retry_after.map(Duration::from_secs),
        as_date,
        ..Fault::new(kind)
    })
}

fn after_tokens(kind: FaultKind, after_tokens: u32) -> Option<Fault> {
    Some(Fault {
        after_tokens,
        ..Fault::new(kind)
    })
}

fn case(name: &'static str, fault: Option<Fault>, ask: Ask, expect: fn(&Outcome) -> bool) -> Case {
    Case {
        name,
        fault,
        ask,
        expect,
    }
}

fn is_whole(outcome: &Outcome) -> bool {
    outcome
        .done()
        .is_some_and(|answer| !answer.truncated && answer.text.ends_with("Answer: 4") && answer.ending == Ending::Stop)
}

fn is_cut(outcome: &Outcome) -> bool {
    outcome
        .done()
        .is_some_and(|answer| answer.truncated && !answer.text.contains("Answer:"))
}

fn is_cut_behind_the_answer(outcome: &Outcome) -> bool {
    outcome
        .done()
        .is_some_and(|answer| answer.truncated && answer.text.ends_with("Answer: 4"))
}

/// Nothing of what had arrived counts as an answer, and all of it is kept.
fn keeps(outcome: &Outcome, tokens: u64) -> bool {
    !matches!(outcome.verdict, Verdict::Done(_) | Verdict::Suspect(_))
        && outcome.partial.completion_tokens == tokens
        && outcome.partial.tokens.len() as u64 == tokens
}

/// The first three cases name what came without content, or with too much; "E1a" is a neighbour of "E1".
fn answers_that_mislead(length: u32) -> Vec<Case> {
    use FaultKind::{Blank, Empty, LengthAfterAnswer, ReasoningCut, StopAtCap};
    let at_once = Ask {
        stop: vec![" ".to_owned()],
        ..ask()
    };
    vec![
        case("E1: nothing, and no token", fault(Empty), ask(), |outcome| {
            outcome.is("suspect")
        }),
        case("E1a: white space, and no token", fault(Blank), chat(), |outcome| {
            outcome.is("suspect")
        }),
        case("E1b: a stop text at once is the model's", None, at_once, |outcome| {
            outcome
                .done()
                .is_some_and(|answer| answer.text.is_empty() && answer.ending == Ending::Stop)
        }),
        case("E2: reasoning up to the cap", fault(ReasoningCut), chat(), |outcome| {
            outcome
                .done()
                .is_some_and(|answer| answer.truncated && answer.text.is_empty() && answer.reasoning.is_some())
        }),
        case(
            "E2a: the same without a reasoning field",
            fault(ReasoningCut),
            ask(),
            |outcome| {
                outcome
                    .done()
                    .is_some_and(|answer| answer.truncated && answer.text.is_empty())
            },
        ),
        case(
            "E2b: content up to the cap",
            None,
            Ask {
                max_tokens: 3,
                ..chat()
            },
            is_cut,
        ),
        case(
            "E3: stop with as many tokens as the cap",
            fault(StopAtCap),
            capped(40),
            is_cut,
        ),
        case("E3a: stop one token before the cap", None, capped(length + 1), is_whole),
        case("E3b: length at the cap", None, capped(length), is_cut_behind_the_answer),
        case(
            "E4: length behind a whole answer",
            fault(LengthAfterAnswer),
            ask(),
            is_cut_behind_the_answer,
        ),
        case("E4a: length before the answer", None, capped(100), is_cut),
        case("E4b: the same answer without a cut", None, ask(), is_whole),
    ]
}

fn answers_that_break() -> Vec<Case> {
    use FaultKind::{CutJson, ErrorObject, Internal, NoChoices, NotJson, Overloaded, Reset, Unavailable};
    vec![
        case("E5: success with an error", fault(ErrorObject), ask(), |outcome| {
            outcome.is("retry")
        }),
        case("E5a: success without choices", fault(NoChoices), chat(), |outcome| {
            outcome.is("retry")
        }),
        case("E5b: no JSON", fault(NotJson), ask(), |outcome| outcome.is("retry")),
        case("E5c: JSON cut in the middle", fault(CutJson), ask(), |outcome| {
            outcome.is("retry")
        }),
        case("E5d: an error that says so", fault(Internal), ask(), |outcome| {
            outcome.is("retry")
        }),
        case(
            "E5e: success with an error in a stream",
            fault(ErrorObject),
            streamed(),
            |outcome| outcome.is("retry"),
        ),
        case(
            "E6: too many, with seconds",
            busy(Overloaded, Some(7), false),
            ask(),
            |outcome| outcome.is_busy(429, Some(7)),
        ),
        case(
            "E6a: too many, with a date",
            busy(Overloaded, Some(9), true),
            ask(),
            |outcome| outcome.is_busy(429, Some(9)),
        ),
        case(
            "E6b: unavailable",
            busy(Unavailable, Some(7), false),
            ask(),
            |outcome| outcome.is_busy(503, Some(7)),
        ),
        case(
            "E6c: too many, without a wait",
            busy(Overloaded, None, false),
            streamed(),
            |outcome| outcome.is_busy(429, None),
        ),
        case(
            "E7: a reset after 400 tokens",
            after_tokens(Reset, 400),
            streamed(),
            |outcome| outcome.is("down") && keeps(outcome, 400),
        ),
        case(
            "E7a: a reset after one token",
            after_tokens(Reset, 1),
            streamed(),
            |outcome| outcome.is("down") && keeps(outcome, 1),
        ),
        case(
            "E7b: a reset inside a whole body",
            after_tokens(Reset, 1),
            ask(),
            |outcome| outcome.is("retry") && keeps(outcome, 0),
        ),
        case("E7c: a reset before any byte", fault(Reset), streamed(), |outcome| {
            keeps(outcome, 0)
        }),
    ]
}

fn answers_that_do_not_fit() -> Vec<Case> {
    use FaultKind::{CutCharacter, LoneSurrogate};
    let is_marked = |outcome: &Outcome| {
        outcome
            .done()
            .is_some_and(|answer| answer.text.contains('\u{fffd}') && answer.text.ends_with("Answer: 4"))
    };
    vec![
        case("E8: a prompt over the context", None, long(5_000, 16), |outcome| {
            outcome.is("overflow")
        }),
        case(
            "E8a: prompt and cap over the context",
            None,
            long(4_000, 97),
            |outcome| outcome.is("overflow"),
        ),
        case("E8b: prompt and cap that just fit", None, long(4_000, 96), |outcome| {
            outcome.done().is_some()
        }),
        case(
            "E12: bytes cut inside a character",
            fault(CutCharacter),
            ask(),
            is_marked,
        ),
        case("E12a: a lone surrogate", fault(LoneSurrogate), chat(), is_marked),
        case(
            "E12b: a whole character",
            None,
            Ask {
                prompt: Prompt::Text("🦀 [target: é]".to_owned()),
                ..ask()
            },
            |outcome| outcome.done().is_some_and(|answer| answer.text.ends_with("Answer: é")),
        ),
    ]
}

#[tokio::test]
async fn every_answer_of_the_list_and_its_neighbours_has_its_verdict() {
    let engine = SimulatedEngine::start(simulated()).unwrap();
    let whole = answer_to(&engine, &ask()).await;
    let length = u32::try_from(whole.done().unwrap().completion_tokens).unwrap();
    assert!(length > 450, "{length}");
    let cases = [
        answers_that_mislead(length),
        answers_that_break(),
        answers_that_do_not_fit(),
    ];
    for Case {
        name,
        fault,
        ask,
        expect,
    } in cases.into_iter().flatten()
    {
        engine.set_faults(fault.as_slice());
        let outcome = answer_to(&engine, &ask).await;
        assert!(expect(&outcome), "{name}: {outcome:?}");
        let met = engine.report().faults.iter().map(|(_, times)| times).sum::<u64>();
        assert_eq!(met > 0, fault.is_some(), "{name}: the fault was not met");
        // What was damaged says the same the second time.
        let again = answer_to(&engine, &ask).await;
        assert_eq!(
            outcome.done().map(|answer| &answer.text),
            again.done().map(|answer| &answer.text),
            "{name}"
        );
    }
}

#[tokio::test]
async fn e9_a_dead_engine_is_down_and_answers_again_when_it_is_back() {
    let engine = SimulatedEngine::start(simulated()).unwrap();
    let dies = Fault {
        requests: Some([2, 2]),
        ..Fault::new(FaultKind::Die)
    };
    engine.set_faults(&[dies]);
    assert!(is_whole(&answer_to(&engine, &ask()).await));
    let killed = answer_over(&engine, &ask(), Connection::New).await.verdict;
    assert!(
        matches!(killed, Verdict::Down { sent: true, .. }),
        "E9, in the middle: {killed:?}"
    );
    let refused = answer_to(&engine, &ask()).await.verdict;
    assert!(
        matches!(refused, Verdict::Down { sent: false, .. }),
        "E9a, no longer there: {refused:?}"
    );
    engine.set_down(0, false);
    let mut back = answer_to(&engine, &ask()).await;
    while matches!(back.verdict, Verdict::Down { sent: false, .. }) {
        tokio::task::yield_now().await;
        back = answer_to(&engine, &ask()).await;
    }
    assert!(is_whole(&back), "E9b, there again: {back:?}");
}

#[tokio::test]
async fn a_stream_without_progress_is_stalled_and_keeps_its_tokens() {
    let engine = SimulatedEngine::start(simulated()).unwrap();
    engine.set_faults(&[Fault {
        after_tokens: 5,
        ..Fault::new(FaultKind::Stall)
    }]);
    let impatient = Ask {
        stall_timeout: Duration::from_millis(200),
        ..streamed()
    };
    let outcome = answer_to(&engine, &impatient).await;
    assert!(outcome.is("stalled") && keeps(&outcome, 5), "{outcome:?}");
}

async fn score(engine: &SimulatedEngine, context: &str, choice: &str) -> Verdict<Scored> {
    let client = Client::new(&engine.url(), &Options::default()).unwrap();
    let adapter = OpenAi::new(client, "tiny", EngineKind::Vllm);
    adapter
        .score(&mut Scoring::new(context), choice, Connection::Kept)
        .await
        .verdict
}

#[tokio::test]
async fn e10_a_sum_covers_exactly_the_continuation_and_implausible_ones_are_faults() {
    let engine = SimulatedEngine::start(simulated()).unwrap();
    // E10, the unknown first token is normal; E10a, a continuation of two tokens; E10b, an empty context.
    for (context, choice, tokens) in [
        ("The sky is", " the", 1),
        ("The sky is", " blue", 2),
        ("The sky is ", "the of", 2),
    ] {
        let Verdict::Done(scored) = score(&engine, context, choice).await else {
            panic!("{context:?} {choice:?}")
        };
        let ids = tidemill_simulated::tokens::tokenize(&format!("{context}{choice}"));
        let pairs: Vec<f64> = ids
            .windows(2)
            .map(|pair| tidemill_simulated::answers::logprob(Some(pair[0]), pair[1]))
            .collect();
        let expected: f64 = pairs[pairs.len() - tokens..].iter().sum();
        assert!(
            (scored.choice.log_probability - expected).abs() < 1e-9,
            "{choice:?}: {scored:?} is not {expected}"
        );
    }
    let empty = score(&engine, "", "The sky").await;
    assert!(
        !matches!(empty, Verdict::Done(_)),
        "an unknown first token is no part of a sum: {empty:?}"
    );
    for kind in [
        FaultKind::ZeroLogprobs,
        FaultKind::ShortLogprobs,
        FaultKind::NullLogprobs,
    ] {
        engine.set_faults(&[Fault::new(kind)]);
        let verdict = score(&engine, "The sky is", " blue").await;
        assert_eq!(verdict.label(), "retry", "{kind:?}: {verdict:?}");
    }
}

#[tokio::test]
async fn e11_what_is_listed_is_compared_with_what_is_wanted() {
    let engine = SimulatedEngine::start(Config {
        answers: Answers {
            form: Form::Bare,
            ..Answers::default()
        },
        ..simulated()
    })
    .unwrap();
    let probed = probe(&engine.url(), "tiny", None).await.unwrap();
    assert_eq!(
        (probed.described.context_length, probed.capabilities.kind),
        (Some(4_096), EngineKind::Vllm),
        "E11b"
    );
    engine.set_faults(&[Fault::new(FaultKind::SmallerContext)]);
    assert_eq!(
        probe(&engine.url(), "tiny", None)
            .await
            .unwrap()
            .described
            .context_length,
        Some(1_024),
        "E11a"
    );
    engine.set_faults(&[Fault::new(FaultKind::OtherModel)]);
    let refused = probe(&engine.url(), "tiny", None).await.unwrap_err().to_string();
    assert!(
        refused.contains("\"tiny\"") && refused.contains("\"tiny-other\""),
        "E11: {refused}"
    );
}

#[tokio::test]
async fn e11_a_server_that_is_not_what_joined_is_not_alive_and_says_both_values() {
    let engine = SimulatedEngine::start(simulated()).unwrap();
    let joined_with = |context_length, owned_by: Option<&str>| {
        let client = Client::new(&engine.url(), &Options::default()).unwrap();
        OpenAi::new(client, "tiny", EngineKind::Vllm).described(Described {
            context_length,
            owned_by: owned_by.map(str::to_owned),
        })
    };
    for (context_length, owned_by) in [(None, None), (Some(4_096), Some("vllm")), (Some(2_048), Some("vllm"))] {
        joined_with(context_length, owned_by).alive().await.unwrap();
    }
    let difference = |joined: OpenAi| async move { joined.alive().await.unwrap_err().to_string() };
    let owner = difference(joined_with(Some(4_096), Some("sglang"))).await;
    assert!(
        owner.contains("owned by \"vllm\", and was owned by \"sglang\""),
        "{owner}"
    );
    engine.set_faults(&[Fault::new(FaultKind::SmallerContext)]);
    let shorter = difference(joined_with(Some(4_096), Some("vllm"))).await;
    assert!(shorter.contains("1024 tokens, and was 4096 tokens"), "{shorter}");
}
