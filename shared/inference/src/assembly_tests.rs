//! Streamed answers, event by event: the whole means what the same answer in one piece means.

use bytes::Bytes;
use serde_json::{Value, json};
use tidemill_domain::{Ending, Penalties, Prompt};

use super::*;
use crate::{HttpOutcome, classify};

const CAP: u32 = 8;

fn with_request<T>(stop: &[&str], look: impl FnOnce(&Request<'_>) -> T) -> T {
    let (prompt, stop): (_, Vec<String>) = (
        Prompt::Text("Q:".to_owned()),
        stop.iter().map(ToString::to_string).collect(),
    );
    look(&Request {
        prompt: &prompt,
        max_tokens: CAP,
        temperature: 0.0,
        top_p: 1.0,
        stop: &stop,
        seed: None,
        penalties: Penalties::default(),
        stream: true,
        stall_timeout: Duration::from_secs(60),
    })
}

/// What the events make of `partial`.
fn streamed(stop: &[&str], partial: &mut Partial, events: &[Value]) -> Verdict<Answer> {
    with_request(stop, |request| {
        let mut assembly = Assembly::new(request, partial, true);
        for event in events {
            if assembly.event(event.to_string().as_bytes()) == Flow::Over {
                break;
            }
        }
        assembly.conclude()
    })
}

fn in_one_piece(body: &Value) -> Verdict<Answer> {
    let outcome = HttpOutcome::Answered {
        status: 200,
        retry_after: None,
        body: Bytes::from(body.to_string()),
    };
    with_request(&[], |request| classify(&outcome, request))
}

fn text(text: &str, ids: &[u32]) -> Value {
    json!({ "choices": [{ "text": text, "finish_reason": null, "token_ids": ids }] })
}

fn usage(tokens: u64) -> Value {
    json!({ "prompt_tokens": 3, "completion_tokens": tokens, "prompt_tokens_details": { "cached_tokens": 2 } })
}

fn answer(verdict: Verdict<Answer>) -> Answer {
    match verdict {
        Verdict::Done(answer) | Verdict::Suspect(answer) => answer,
        other => panic!("expected an answer, got {other:?}"),
    }
}

#[test]
fn pieces_mean_what_the_whole_means() {
    for (choice, tokens) in [
        (json!({ "text": " 4", "finish_reason": "stop" }), 2),
        (json!({ "text": " 4", "finish_reason": "length" }), 8),
        (json!({ "text": " 4", "finish_reason": "stop" }), 8),
        (json!({ "text": " 4", "finish_reason": "stop", "stop_reason": "\n" }), 8),
        (json!({ "text": "", "finish_reason": "stop" }), 0),
        (json!({ "text": " \n", "finish_reason": "stop" }), 0),
        (json!({ "text": "", "finish_reason": "stop" }), 1),
        (json!({ "text": "a", "finish_reason": "content_filter" }), 1),
        (json!({ "text": "a", "finish_reason": "abort" }), 1),
        (json!({ "text": "a", "finish_reason": "stop", "matched_stop": 2 }), 1),
        (json!({ "text": "a", "finish_reason": "stop", "matched_stop": "b" }), 1),
        (json!({ "message": { "content": "4" }, "finish_reason": "stop" }), 2),
        (
            json!({ "message": { "content": null, "reasoning_content": "hm" }, "finish_reason": "length" }),
            8,
        ),
        (
            json!({ "message": { "reasoning": "hm", "content": "4" }, "finish_reason": "stop" }),
            3,
        ),
        (json!({ "message": { "refusal": "No." }, "finish_reason": "stop" }), 2),
    ] {
        let whole = in_one_piece(&json!({ "choices": [choice], "usage": usage(tokens) }));
        let mut last = choice.clone();
        let mut events = Vec::new();
        if let Some(message) = last.as_object_mut().and_then(|last| last.remove("message")) {
            events.push(json!({ "choices": [{ "delta": { "role": "assistant", "content": "" } }] }));
            events.push(json!({ "choices": [{ "delta": message }] }));
            last["delta"] = json!({});
        } else {
            events.push(json!({ "choices": [{ "text": last["text"], "finish_reason": null }] }));
            last["text"] = json!("");
        }
        events.push(json!({ "choices": [last] }));
        events.push(json!({ "choices": [], "usage": usage(tokens) }));
        let joined = streamed(&[], &mut Partial::default(), &events);
        assert_eq!(joined, whole, "{choice}");
    }
}

#[test]
fn text_and_tokens_are_there_as_they_arrive() {
    let mut partial = Partial::default();
    with_request(&[], |request| {
        let mut assembly = Assembly::new(request, &mut partial, true);
        let first = json!({ "choices": [{ "text": "a", "token_ids": [7], "prompt_token_ids": [1, 2, 3] }] });
        assert_eq!(assembly.event(first.to_string().as_bytes()), Flow::Progress);
        assert_eq!(
            assembly.event(text("b", &[8, 9]).to_string().as_bytes()),
            Flow::Progress
        );
        assert_eq!(assembly.event(b"{\"choices\":[]}"), Flow::Idle);
        let role = json!({ "choices": [{ "delta": { "role": "assistant", "content": "" } }] });
        assert_eq!(assembly.event(role.to_string().as_bytes()), Flow::Idle);
    });
    assert_eq!(partial.prompt_tokens, [1, 2, 3]);
    let mut chat = Partial::default();
    with_request(&[], |request| {
        let opening = json!({ "choices": [{ "delta": { "role": "assistant" } }], "prompt_token_ids": [4, 5] });
        Assembly::new(request, &mut chat, true).event(opening.to_string().as_bytes());
    });
    assert_eq!(chat.prompt_tokens, [4, 5]);
    assert_eq!(
        (partial.text.as_str(), partial.tokens.as_slice()),
        ("ab", [7, 8, 9].as_slice())
    );
    assert_eq!(partial.completion_tokens, 3);
    assert!(partial.has_tokens());
}

#[test]
fn a_token_without_its_text_is_not_continued_from() {
    let mut partial = Partial {
        prompt_tokens: vec![1],
        ..Partial::default()
    };
    with_request(&[], |request| {
        let mut assembly = Assembly::new(request, &mut partial, true);
        assembly.event(text("a", &[7]).to_string().as_bytes());
        // The first half of a character.
        assert_eq!(assembly.event(text("", &[200]).to_string().as_bytes()), Flow::Progress);
    });
    assert!(!partial.has_tokens(), "{partial:?}");
    let mut whole = Partial {
        prompt_tokens: vec![1],
        ..Partial::default()
    };
    with_request(&[], |request| {
        let mut assembly = Assembly::new(request, &mut whole, true);
        assembly.event(text("a", &[7]).to_string().as_bytes());
        assembly.event(text("", &[200]).to_string().as_bytes());
        assembly.event(text("\u{e9}", &[201]).to_string().as_bytes());
    });
    assert_eq!(whole.tokens, [7, 200, 201]);
    assert!(whole.has_tokens());
}

#[test]
fn an_answer_that_ended_is_not_continued_although_its_counts_are_outstanding() {
    let mut partial = Partial {
        prompt_tokens: vec![1],
        ..Partial::default()
    };
    let last = json!({ "choices": [{ "text": "b", "token_ids": [8, 9], "finish_reason": "stop" }] });
    with_request(&[], |request| {
        let mut assembly = Assembly::new(request, &mut partial, true);
        assembly.event(text("a", &[7]).to_string().as_bytes());
        assert_eq!(assembly.event(last.to_string().as_bytes()), Flow::Ended);
    });
    assert!(!partial.has_tokens(), "{partial:?}");
    let mut partial = Partial::default();
    answer(streamed(&[], &mut partial, &[text("a", &[7]), last]));
    assert_eq!(partial.tokens, [7, 8, 9]);
}

#[test]
fn errors_and_ends_without_an_end_are_no_answers() {
    let begun = text("a", &[1]);
    for last in [
        json!({ "error": { "message": "engine died" } }),
        json!({ "object": "error", "message": "engine died" }),
        json!("[DONE]"),
        json!({ "choices": [{ "text": "b", "finish_reason": "abort" }] }),
    ] {
        let mut partial = Partial::default();
        let verdict = streamed(&[], &mut partial, &[begun.clone(), last.clone()]);
        assert!(matches!(verdict, Verdict::Retry { .. }), "{last}: {verdict:?}");
        assert!(partial.text.starts_with('a'));
    }
    with_request(&[], |request| {
        let mut partial = Partial::default();
        let mut assembly = Assembly::new(request, &mut partial, true);
        assembly.event(begun.to_string().as_bytes());
        assert_eq!(assembly.event(DONE), Flow::Over);
        assert!(matches!(assembly.conclude(), Verdict::Retry { .. }));
    });
    let overflow = json!({ "error": { "message": "maximum context length is 8", "code": 400 } });
    let verdict = streamed(&[], &mut Partial::default(), &[overflow]);
    assert!(matches!(verdict, Verdict::Overflow { .. }), "{verdict:?}");
}

#[test]
fn the_stop_text_that_was_asked_for_is_no_part_of_the_answer() {
    let last =
        json!({ "choices": [{ "text": "b\n\n", "finish_reason": "stop", "stop_reason": "\n\n", "token_ids": [8] }] });
    let mut partial = Partial::default();
    let answer = answer(streamed(&["\n\n"], &mut partial, &[text("a", &[7]), last]));
    assert_eq!(answer.text, "ab");
    assert_eq!(answer.stop_reason.as_deref(), Some("\n\n"));
    assert_eq!((answer.ending, answer.completion_tokens), (Ending::Stop, 2));
}

#[test]
fn events_of_llama_cpps_own_endpoint_mean_the_same() {
    let native = |events: &[Value], partial: &mut Partial| {
        with_request(&["\n"], |request| {
            let mut assembly = Assembly::new(request, partial, false).in_shape(Shape::LlamaCpp);
            for event in events {
                assembly.event(event.to_string().as_bytes());
            }
            assembly.conclude()
        })
    };
    let first = json!({ "content": "a", "tokens": [7], "stop": false, "tokens_predicted": 1, "tokens_evaluated": 3 });
    let end = |stop_type: &str, word: &str| {
        json!({
            "content": "", "tokens": [], "stop": true, "stop_type": stop_type, "stopping_word": word,
            "tokens_predicted": 2, "tokens_evaluated": 3, "timings": { "cache_n": 2, "prompt_n": 1 },
        })
    };
    for (stop_type, word, ending, stop_reason) in [
        ("eos", "", Ending::Stop, None),
        ("word", "\n", Ending::Stop, Some("\n")),
        ("limit", "", Ending::Length, None),
    ] {
        let answer = answer(native(&[first.clone(), end(stop_type, word)], &mut Partial::default()));
        assert_eq!((answer.text.as_str(), answer.ending), ("a", ending));
        assert_eq!(
            (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens),
            (3, 2, Some(2))
        );
        assert_eq!(answer.stop_reason.as_deref(), stop_reason);
    }
    // A token within a character is counted and not told: nothing is continued after it.
    let mut partial = Partial {
        prompt_tokens: vec![1],
        ..Partial::default()
    };
    let later = json!({ "content": "\u{e9}", "tokens": [9], "stop": false, "tokens_predicted": 3 });
    let after = json!({ "content": "b", "tokens": [10], "stop": false, "tokens_predicted": 4 });
    let verdict = native(&[first.clone(), later, after], &mut partial);
    assert!(matches!(verdict, Verdict::Retry { .. }));
    assert_eq!(
        (partial.tokens.as_slice(), partial.has_tokens()),
        ([7, 9].as_slice(), false)
    );
    // The token that completes a stop text is known to be one by the event after it alone.
    let mut cut = Partial {
        prompt_tokens: vec![1],
        ..Partial::default()
    };
    let stopped = json!({ "content": "9", "tokens": [9], "stop": false, "tokens_predicted": 2 });
    native(&[first.clone(), stopped], &mut cut);
    assert_eq!(
        (cut.text.as_str(), cut.tokens.as_slice(), cut.completion_tokens),
        ("a", [7].as_slice(), 1)
    );
    let error = json!({ "error": { "code": 500, "message": "slot failed", "type": "server_error" } });
    assert!(matches!(
        native(&[first, error], &mut Partial::default()),
        Verdict::Retry { .. }
    ));
}

fn begun(text: &str) -> Partial {
    Partial {
        prompt_tokens: vec![1, 2, 3, 4],
        tokens: vec![5, 6],
        text: text.to_owned(),
        completion_tokens: 2,
        ..Partial::default()
    }
}

#[test]
fn the_rest_is_joined_to_the_beginning() {
    let mut partial = begun("ab");
    let counts = json!({
        "choices": [],
        "usage": { "prompt_tokens": 6, "completion_tokens": 3, "prompt_tokens_details": { "cached_tokens": 5 } }
    });
    let first = json!({ "choices": [{ "text": "c", "token_ids": [7], "prompt_token_ids": [1, 2, 3, 4, 5, 6] }] });
    let last = json!({ "choices": [{ "text": "e", "token_ids": [9], "finish_reason": "length" }] });
    let answer = answer(streamed(&[], &mut partial, &[first, text("d", &[8]), last, counts]));
    assert_eq!(answer.text, "abcde");
    assert_eq!(answer.ending, Ending::Length);
    // Of six tokens sent, the prompt is four; five were cached, of which one was an answer's.
    assert_eq!(
        (answer.prompt_tokens, answer.completion_tokens, answer.cached_tokens),
        (4, 5, Some(4))
    );
    assert_eq!(partial.prompt_tokens, [1, 2, 3, 4]);
    assert_eq!(partial.tokens, [5, 6, 7, 8, 9]);
    assert_eq!(partial.continuations, 1);
}

#[test]
fn a_joined_answer_is_truncated_by_the_cap_of_the_whole() {
    let mut partial = begun("ab");
    let last = json!({ "choices": [{ "text": "c", "token_ids": [7, 7, 7, 7, 7, 7], "finish_reason": "stop" }] });
    let answer = answer(streamed(&[], &mut partial, &[last]));
    assert_eq!((answer.ending, answer.completion_tokens), (Ending::Length, 8));
}

#[test]
fn a_stop_text_across_the_seam_ends_the_answer_there() {
    for (beginning, pieces, stops, expected, fired) in [
        ("ab\n", vec!["\nQ"], vec!["\n\n"], "ab", "\n\n"),
        ("ab En", vec!["d", "e", " of"], vec!["Ende"], "ab ", "Ende"),
        ("ab E", vec!["nde o"], vec!["\n", "Ende"], "ab ", "Ende"),
        // Two at once: the one that is complete first.
        ("xa", vec!["bcd"], vec!["abcd", "ab"], "x", "ab"),
        ("caf\u{e9}", vec!["!"], vec!["\u{e9}!"], "caf", "\u{e9}!"),
    ] {
        let mut partial = begun(beginning);
        let events: Vec<Value> = pieces.iter().map(|piece| text(piece, &[9])).collect();
        let answer = answer(streamed(&stops, &mut partial, &events));
        assert_eq!(answer.text, expected, "{beginning:?} {pieces:?}");
        assert_eq!(answer.stop_reason.as_deref(), Some(fired));
        assert_eq!(answer.ending, Ending::Stop);
    }
}

#[test]
fn a_stop_text_within_either_part_alone_is_the_engines_affair() {
    // What lies wholly in the beginning did not fire then, and what lies in the rest, the engine stops at.
    let last = json!({ "choices": [{ "text": "c", "token_ids": [9], "finish_reason": "length" }] });
    let mut partial = begun("ab");
    let whole = answer(streamed(&["zz", "bd"], &mut partial, &[text("zz", &[8]), last]));
    assert_eq!(whole.text, "abzzc");
    // Only in a first answer there is no seam.
    let mut partial = Partial::default();
    let events = [text("a\n", &[7]), text("\n", &[8])];
    let verdict = streamed(&["\n\n"], &mut partial, &events);
    assert!(matches!(verdict, Verdict::Retry { .. }));
}

#[test]
fn an_answer_at_its_cap_needs_no_request() {
    let mut partial = begun("ab");
    partial.completion_tokens = u64::from(CAP);
    let answer = answer(with_request(&[], |request| full(request, &partial)));
    assert_eq!(
        (answer.ending, answer.text.as_str(), answer.truncated),
        (Ending::Length, "ab", true)
    );
    assert_eq!((answer.prompt_tokens, answer.completion_tokens), (4, u64::from(CAP)));
}

/// What comes of `count` times the same event, then of nothing.
fn repeated(event: &Value, count: usize) -> (Verdict<Answer>, Partial) {
    let mut partial = Partial::default();
    let verdict = streamed(&[], &mut partial, &vec![event.clone(); count]);
    (verdict, partial)
}

#[test]
fn an_answer_that_goes_on_beyond_its_cap_is_cut_there() {
    let most = CAP as usize + TOKENS_BEYOND as usize;
    for event in [
        text("ab", &[7]),
        json!({ "choices": [{ "text": "ab", "token_ids": [7] }], "usage": usage(9) }),
        text("abab", &[7, 7]),
    ] {
        let (verdict, partial) = repeated(&event, most + 1);
        let answer = answer(verdict);
        assert_eq!((answer.ending, answer.truncated), (Ending::Length, true), "{event}");
        assert_eq!((answer.text, answer.completion_tokens), ("ab".repeat(8), 8), "{event}");
        assert_eq!((partial.text, partial.tokens), ("ab".repeat(8), vec![7; 8]), "{event}");
    }
    // Not clearly beyond it: the engine's own end is waited for, and what it says of it changes nothing.
    let mut events = vec![text("ab", &[7]); most];
    events.push(json!({ "choices": [{ "text": "", "finish_reason": "stop" }] }));
    events.push(json!({ "choices": [], "usage": usage(most as u64) }));
    for stop in [Value::Null, json!("X")] {
        events[most]["choices"][0]["stop_reason"] = stop;
        let answer = answer(streamed(&[], &mut Partial::default(), &events));
        assert_eq!((answer.ending, answer.text), (Ending::Length, "ab".repeat(8)));
        assert_eq!((answer.truncated, answer.completion_tokens), (true, 8));
    }
}

#[test]
fn an_endless_answer_whose_cap_is_in_no_known_place_is_a_fault_of_the_engine_and_nothing_of_it_is_kept() {
    let pieces = PIECES_OF_TOKEN as usize * (CAP as usize + TOKENS_BEYOND as usize);
    for (event, count) in [
        // Tokens that nobody counts.
        (json!({ "choices": [{ "text": " x" }] }), pieces + 1),
        (json!({ "choices": [{ "delta": { "content": " x" } }] }), pieces + 1),
        (json!({ "choices": [{ "delta": { "reasoning": " x" } }] }), pieces + 1),
        (json!({ "choices": [{ "delta": { "tool_calls": [] } }] }), pieces + 1),
        // The cap lies within a piece, and before a text that is outstanding.
        (text("abc", &[7, 7, 7]), 25),
        (text("", &[7]), 73),
        // More text than so many tokens have.
        (text(&"x".repeat(100_000), &[7]), 1),
    ] {
        let (verdict, partial) = repeated(&event, count);
        let Verdict::Endless { why } = verdict else {
            panic!("{event}: {verdict:?}")
        };
        assert!(why.contains("does not end the answer"), "{why}");
        assert!(partial.is_empty() && partial.text.is_empty(), "{event}");
    }
}

#[test]
fn the_cap_of_a_continued_answer_is_that_of_the_whole() {
    let mut partial = Partial {
        prompt_tokens: vec![1],
        tokens: vec![5, 6],
        text: "cd".to_owned(),
        completion_tokens: 2,
        ..Partial::default()
    };
    let answer = answer(streamed(&[], &mut partial, &vec![text("a", &[7]); 80]));
    assert_eq!((answer.text.as_str(), answer.completion_tokens), ("cdaaaaaa", 8));
    assert_eq!(partial.tokens, [5, 6, 7, 7, 7, 7, 7, 7]);
}
