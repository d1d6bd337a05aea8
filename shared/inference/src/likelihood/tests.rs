//! Which tokens of an engine's echo are summed for a choice, and which answers are refused.

use bytes::Bytes;
use serde_json::{Value, json};

use super::*;

/// An echo of `tokens` with a log-probability for each but the first, as probable as any, and the prompt's length in the usage.
fn echo(text: &str, tokens: &[&str]) -> Value {
    let logprobs: Vec<Value> = (0..tokens.len())
        .map(|index| {
            if index == 0 {
                Value::Null
            } else {
                json!(-1.0 - index as f64 / 8.0)
            }
        })
        .collect();
    let best = logprobs.iter().map(|logprob| match logprob {
        Value::Null => Value::Null,
        logprob => json!({ "a token": logprob }),
    });
    json!({
        "choices": [{ "text": text, "finish_reason": "length",
            "logprobs": { "tokens": tokens, "token_logprobs": logprobs, "text_offset": vec![-1; tokens.len()],
                "top_logprobs": best.collect::<Vec<Value>>() } }],
        "usage": { "prompt_tokens": tokens.len(), "completion_tokens": 0 }
    })
}

fn score(
    context: &str,
    choice: &str,
    counted: Option<u64>,
    body: &Value,
) -> Result<Verdict<Scored>, NeedsContextTokens> {
    let mut scoring = Scoring::new(context);
    scoring.context_tokens = counted;
    let outcome = HttpOutcome::Answered {
        status: 200,
        retry_after: None,
        body: Bytes::from(body.to_string()),
    };
    classify_score(&outcome, &scoring, choice, 0)
}

fn tokens_covered(context: &str, choice: &str, counted: Option<u64>, body: &Value) -> u32 {
    match score(context, choice, counted, body) {
        Ok(Verdict::Done(scored)) => scored.choice.tokens,
        other => panic!("expected a score, got {other:?}"),
    }
}

#[test]
fn the_sum_covers_exactly_the_continuation() {
    let body = echo("The sky is light blue", &["The", " sky", " is", " light", " blue"]);
    let Ok(Verdict::Done(scored)) = score("The sky is", " light blue", None, &body) else {
        panic!("expected a score")
    };
    assert_eq!(scored.choice.tokens, 2);
    assert_eq!(scored.choice.log_probability, -1.375 - 1.5);
    assert_eq!(scored.prompt_tokens, 5);
    assert_eq!(tokens_covered("The sky is light", " blue", None, &body), 1);
}

#[test]
fn trailing_space_of_the_context_is_scored_with_the_choice() {
    let body = echo("The sky is blue", &["The", " sky", " is", " blue"]);
    assert_eq!(tokens_covered("The sky is ", "blue", None, &body), 1);
}

#[test]
fn start_tokens_are_no_part_of_the_text() {
    let body = echo("The sky is blue", &["<s>", "The", " sky", " is", " blue"]);
    assert_eq!(tokens_covered("The sky is", " blue", None, &body), 1);
    let body = echo("blue sky", &["<s>", "blue", " sky"]);
    assert_eq!(tokens_covered("", "blue sky", None, &body), 2);
}

#[test]
fn a_token_over_the_border_counts_only_when_it_is_all_there_is() {
    let body = echo("so unhappy", &["so", " unh", "appy"]);
    assert_eq!(tokens_covered("so un", "happy", None, &body), 1);
    let body = echo("so unhappy", &["so", " unhappy"]);
    assert_eq!(tokens_covered("so un", "happy", None, &body), 1);
}

#[test]
fn offsets_serve_where_tokens_show_the_tokenizers_marks() {
    let mut body = echo("The sky is blue", &["The", "\u{120}sky", "\u{120}is", "\u{120}blue"]);
    body["choices"][0]["logprobs"]["text_offset"] = json!([0, 3, 7, 10]);
    assert_eq!(tokens_covered("The sky", " is blue", None, &body), 2);
    // Characters, not bytes.
    let mut body = echo("Größe: blau", &["Größe", ":", "\u{120}blau"]);
    body["choices"][0]["logprobs"]["text_offset"] = json!([0, 5, 6]);
    assert_eq!(tokens_covered("Größe:", " blau", None, &body), 1);
}

#[test]
fn without_usable_offsets_the_contexts_tokens_are_counted() {
    for offsets in [
        json!([-1, -1, -1, -1]),
        json!([0, 0, 0, 0]),
        json!([0, 6, 10, 13]),
        json!([]),
    ] {
        let mut body = echo("The sky is blue", &["The", "sky", "is", "blue"]);
        body["choices"][0]["logprobs"]["text_offset"] = offsets;
        assert_eq!(score("The sky", " is blue", None, &body), Err(NeedsContextTokens));
        assert_eq!(tokens_covered("The sky", " is blue", Some(2), &body), 2);
    }
}

#[test]
fn a_generated_token_is_left_out() {
    let mut body = echo("The sky is blue.", &["The", " sky", " is", " blue", "."]);
    body["usage"]["prompt_tokens"] = json!(4);
    let outcome = HttpOutcome::Answered {
        status: 200,
        retry_after: None,
        body: Bytes::from(body.to_string()),
    };
    let verdict = classify_score(&outcome, &Scoring::new("The sky is"), " blue", 1);
    let Ok(Verdict::Done(scored)) = verdict else {
        panic!("expected a score, got {verdict:?}")
    };
    assert_eq!((scored.choice.tokens, scored.completion_tokens), (1, 1));
    assert_eq!(scored.choice.log_probability, -1.375);
}

#[test]
fn greedy_means_that_no_token_was_more_probable() {
    let mut body = echo("The sky is light blue", &["The", " sky", " is", " light", " blue"]);
    body["choices"][0]["logprobs"]["top_logprobs"] =
        json!([null, { " cat": -0.5 }, { " is": -1.25 }, { " light": -1.375 }, { " blue": -1.5, " red": -2.0 }]);
    let greedy = |context: &str, choice: &str, body: &Value| match score(context, choice, None, body) {
        Ok(Verdict::Done(scored)) => scored.choice.is_greedy,
        other => panic!("expected a score, got {other:?}"),
    };
    assert!(greedy("The sky is", " light blue", &body));
    assert!(!greedy("The", " sky is light blue", &body));
}

#[test]
fn whether_a_continuation_is_greedy_is_known_or_there_is_no_score() {
    let good = echo("The sky is blue", &["The", " sky", " is", " blue"]);
    let one = json!({ "x": -1.0 });
    for (top, label) in [
        (Value::Null, "unsupported"),
        (json!([]), "unsupported"),
        (json!([null, null, null, null]), "unsupported"),
        (json!([{}, {}, {}, {}]), "unsupported"),
        (
            json!([null, { "x": null }, { "x": null }, { "x": null }]),
            "unsupported",
        ),
        (json!([null, one, one]), "retry"),
        (json!([one, one, one]), "retry"),
        (json!([null, one, one, {}]), "retry"),
        (json!([null, one, one, null]), "retry"),
        (json!([null, {}, one, one]), "done"),
    ] {
        let mut body = good.clone();
        body["choices"][0]["logprobs"]["top_logprobs"] = top.clone();
        let verdict = score("The sky is", " blue", None, &body).unwrap();
        assert_eq!(verdict.label(), label, "{top}");
    }
}

#[test]
fn implausible_numbers_are_infrastructure_faults() {
    let good = echo("The sky is blue", &["The", " sky", " is", " blue"]);
    for (what, logprobs, prompt_tokens) in [
        ("all zero", json!([0.0, 0.0, 0.0, 0.0]), 4),
        ("all zero but the first", json!([null, 0.0, 0.0, 0.0]), 4),
        ("null in the middle", json!([null, -1.0, null, -1.0]), 4),
        ("null at the end", json!([null, -1.0, -1.0, null]), 4),
        ("fewer than tokens", json!([null, -1.0, -1.0]), 4),
        ("fewer than the prompt's tokens", json!([null, -1.0, -1.0, -1.0]), 9),
        ("more than the prompt's tokens", json!([null, -1.0, -1.0, -1.0]), 2),
        ("above zero", json!([null, -1.0, 0.5, -1.0]), 4),
    ] {
        let mut body = good.clone();
        body["choices"][0]["logprobs"]["token_logprobs"] = logprobs;
        body["usage"]["prompt_tokens"] = json!(prompt_tokens);
        let verdict = score("The sky is", " blue", None, &body).unwrap();
        assert_eq!(verdict.label(), "retry", "{what}");
    }
    let empty = json!({ "choices": [] });
    assert_eq!(score("The sky is", " blue", None, &empty).unwrap().label(), "retry");
}

#[test]
fn one_zero_among_others_is_a_certain_token() {
    let mut body = echo("The sky is blue", &["The", " sky", " is", " blue"]);
    body["choices"][0]["logprobs"]["token_logprobs"] = json!([null, -1.0, -2.0, 0.0]);
    assert_eq!(tokens_covered("The sky is", " blue", None, &body), 1);
}

#[test]
fn a_server_that_ignores_echo_is_refused_and_never_scored() {
    let nothing = json!({ "choices": [{ "text": "", "finish_reason": "length" }], "usage": { "prompt_tokens": 4 } });
    let chat_shaped = json!({ "choices": [{ "text": " today", "logprobs": { "content": [{ "logprob": -1.0 }] } }],
        "usage": { "prompt_tokens": 4 } });
    let generated = json!({ "choices": [{ "text": " today", "logprobs": { "tokens": [" today"],
        "token_logprobs": [-1.0], "text_offset": [0] } }], "usage": { "prompt_tokens": 4 } });
    let without_usage = json!({ "choices": [{ "text": " now and", "logprobs": { "tokens": [" now", " and"],
        "token_logprobs": [-1.0, -2.0] } }] });
    for body in [nothing, chat_shaped, generated, without_usage] {
        assert_eq!(
            score("The sky is", " blue", None, &body).unwrap().label(),
            "unsupported",
            "{body}"
        );
    }
}

#[test]
fn the_unknown_first_token_of_an_empty_context_is_never_left_out_of_the_sum() {
    let body = echo("blue sky", &["blue", " sky"]);
    assert_eq!(score("", "blue sky", None, &body).unwrap().label(), "rejected");
    let mut body = echo("blue sky", &["blue", " sky"]);
    body["choices"][0]["logprobs"]["token_logprobs"] = json!([-3.0, -1.0]);
    assert_eq!(score("", "blue sky", None, &body).unwrap().label(), "retry");
    body["choices"][0]["logprobs"]["top_logprobs"] = json!([{ "blue": -3.0 }, { " sky": -1.0 }]);
    assert_eq!(tokens_covered("", "blue sky", None, &body), 2);
}

#[test]
fn failures_are_classified_as_for_completions() {
    let overflow = HttpOutcome::Answered {
        status: 400,
        retry_after: None,
        body: Bytes::from_static(b"{\"error\":{\"code\":\"context_length_exceeded\"}}"),
    };
    let scoring = Scoring::new("c");
    assert_eq!(
        classify_score(&overflow, &scoring, " x", 0).unwrap().label(),
        "overflow"
    );
    let lost = HttpOutcome::Lost("reset".to_owned());
    assert_eq!(classify_score(&lost, &scoring, " x", 0).unwrap().label(), "down");
}

#[test]
fn an_echo_of_less_than_the_prompt_is_never_a_score() {
    let all = ["The", " sky", " is", " blue"];
    for (text, tokens, label) in [
        // Start tokens, other white space and marks change nothing.
        (
            "<s>The sky is blue",
            ["<s>", "The", " sky", " is blue"].as_slice(),
            "done",
        ),
        ("The  sky\nis blue", all.as_slice(), "done"),
        ("", all.as_slice(), "done"),
        ("", ["<s>", "\u{2581}The", "\u{2581}sky is", " blue"].as_slice(), "done"),
        // Cut from the left and from the right, where the text tells it, its tokens alone, or they against the text.
        ("sky is blue", [" sky", " is", " blue"].as_slice(), "overflow"),
        ("The sky is", ["The", " sky", " is"].as_slice(), "overflow"),
        ("", [" sky", " is", " blue"].as_slice(), "overflow"),
        ("The sky is blue", [" sky", " is", " blue"].as_slice(), "overflow"),
        ("The sky is blue", ["The", " sky", " is"].as_slice(), "overflow"),
        // Another prompt, or none that can be seen.
        ("The sea is blue", all.as_slice(), "retry"),
        ("<s>sky is blue", ["<s>", " sky", " is", " blue"].as_slice(), "retry"),
        ("", ["t1", "t2", "t3", "t4"].as_slice(), "retry"),
        // Of one text the tokens may be shown in any way.
        ("The sky is blue", ["t1", "t2", "t3", "t4"].as_slice(), "done"),
        ("The sky is blue", ["", "sky", "is", "blue"].as_slice(), "done"),
    ] {
        let body = echo(text, tokens);
        let verdict = score("The sky is", " blue", Some(3), &body).unwrap();
        assert_eq!(verdict.label(), label, "{text:?} {tokens:?}: {verdict:?}");
    }
    let mut without_text = echo("", &all);
    without_text["choices"][0]["text"] = Value::Null;
    assert_eq!(tokens_covered("The sky is", " blue", None, &without_text), 1);
}

#[test]
fn token_ids_are_scored_where_as_many_were_read_as_were_sent() {
    for (told, sent, generated, label) in [
        (Some(4), 4, 0, "done"),
        (None, 4, 0, "done"),
        (Some(3), 3, 1, "done"),
        (None, 3, 1, "done"),
        (Some(4), 4, 1, "done"),
        // One more in front, or one less.
        (Some(4), 3, 0, "retry"),
        (Some(4), 5, 0, "retry"),
        (Some(4), 3, 1, "retry"),
        (None, 3, 0, "retry"),
        (None, 5, 0, "retry"),
        (Some(5), 4, 0, "retry"),
        (None, 9, 4, "unsupported"),
    ] {
        let mut body = echo("", &["The", " sky", " is", " blue"]);
        body["usage"]["prompt_tokens"] = json!(told);
        let outcome = HttpOutcome::Answered {
            status: 200,
            retry_after: None,
            body: Bytes::from(body.to_string()),
        };
        let mut texts = String::new();
        let verdict = classify_tokens(&outcome, (sent, 1), generated, &mut texts);
        assert_eq!(verdict.label(), label, "{told:?} {sent} {generated}: {verdict:?}");
        if label == "done" {
            let expected = if sent == 4 { " sky is blue" } else { " sky is" };
            assert_eq!(texts, expected);
        }
    }
}
