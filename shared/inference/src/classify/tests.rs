//! How each kind of engine's answer ends: an answer, cut, refused, to be asked again.

use std::time::Duration;

use serde_json::{Value, json};
use tidemill_domain::{Penalties, Prompt};

use super::*;

const CAP: u32 = 8;

fn classified(outcome: &HttpOutcome) -> Verdict<Answer> {
    let prompt = Prompt::Text("Q:".to_owned());
    let request = Request {
        prompt: &prompt,
        max_tokens: CAP,
        temperature: 0.0,
        top_p: 1.0,
        stop: &[],
        seed: None,
        penalties: Penalties::default(),
        stream: false,
        stall_timeout: Duration::from_secs(60),
    };
    classify(outcome, &request)
}

fn answered(status: u16, body: impl Into<Bytes>) -> HttpOutcome {
    HttpOutcome::Answered {
        status,
        retry_after: None,
        body: body.into(),
    }
}

fn of_body(status: u16, body: &Value) -> Verdict<Answer> {
    classified(&answered(status, body.to_string()))
}

fn of_choice(choice: Value, completion_tokens: u64) -> Verdict<Answer> {
    let usage = json!({ "prompt_tokens": 3, "completion_tokens": completion_tokens });
    of_body(200, &json!({ "id": "x", "choices": [choice], "usage": usage }))
}

fn done(verdict: Verdict<Answer>) -> Answer {
    match verdict {
        Verdict::Done(answer) => answer,
        other => panic!("expected an answer, got {other:?}"),
    }
}

#[test]
fn text_that_stopped_is_an_answer_with_its_counts() {
    let answer = done(of_choice(json!({ "text": " 4", "finish_reason": "stop" }), 2));
    assert_eq!(
        answer,
        Answer {
            ending: Ending::Stop,
            text: " 4".to_owned(),
            reasoning: None,
            finish_reason: Some("stop".to_owned()),
            stop_reason: None,
            truncated: false,
            prompt_tokens: 3,
            completion_tokens: 2,
            cached_tokens: None,
            first_token_after: None,
        }
    );
    let chat = json!({ "message": { "role": "assistant", "content": "4" }, "finish_reason": "stop" });
    assert_eq!(done(of_choice(chat, 2)).text, "4");
}

#[test]
fn success_without_content_is_suspect() {
    for text in [json!(""), json!(" \n"), Value::Null] {
        let verdict = of_choice(json!({ "text": text, "finish_reason": "stop" }), 0);
        let Verdict::Suspect(answer) = verdict else {
            panic!("{verdict:?}")
        };
        assert_eq!(answer.ending, Ending::Empty);
    }
    let without_usage = json!({ "choices": [{ "text": "", "finish_reason": "stop" }] });
    assert_eq!(of_body(200, &without_usage).label(), "suspect");
}

#[test]
fn a_model_that_stops_at_once_is_not_suspect() {
    let end_token = of_choice(json!({ "text": "", "finish_reason": "stop" }), 1);
    assert_eq!(done(end_token).ending, Ending::Stop);
    let stop_text = json!({ "text": "", "finish_reason": "stop", "stop_reason": "\n" });
    let answer = done(of_choice(stop_text, 0));
    assert_eq!(
        (answer.ending, answer.stop_reason.as_deref()),
        (Ending::Stop, Some("\n"))
    );
}

#[test]
fn reasoning_cut_by_the_cap_is_kept_and_truncated() {
    for field in ["reasoning_content", "reasoning"] {
        let message = json!({ "content": null, field: "so far" });
        let answer = done(of_choice(json!({ "message": message, "finish_reason": "length" }), 8));
        assert_eq!(answer.ending, Ending::Length);
        assert!(answer.truncated);
        assert_eq!(answer.reasoning.as_deref(), Some("so far"));
        assert_eq!(answer.text, "");
    }
    let message = json!({ "content": null, "reasoning": "all of it" });
    let stopped = done(of_choice(json!({ "message": message, "finish_reason": "stop" }), 0));
    assert_eq!((stopped.ending, stopped.truncated), (Ending::Stop, false));
}

#[test]
fn as_many_tokens_as_the_cap_is_truncated_whatever_it_is_called() {
    let at = |tokens| done(of_choice(json!({ "text": "a b", "finish_reason": "stop" }), tokens));
    assert_eq!((at(7).ending, at(7).truncated), (Ending::Stop, false));
    assert_eq!((at(8).ending, at(8).truncated), (Ending::Length, true));
    assert_eq!((at(9).ending, at(9).truncated), (Ending::Length, true));
    let stopped = json!({ "text": "a b", "finish_reason": "stop", "stop_reason": "\n" });
    assert_eq!(
        done(of_choice(stopped, 8)).ending,
        Ending::Stop,
        "the stop text that fired is evidence"
    );
    let token = json!({ "text": "a b", "finish_reason": "stop", "matched_stop": 2 });
    assert_eq!(done(of_choice(token, 8)).ending, Ending::Length);
}

#[test]
fn length_keeps_the_answer_before_the_cut() {
    for reason in ["length", "max_tokens", "repetition"] {
        let answer = done(of_choice(
            json!({ "text": "The answer is 4. Now", "finish_reason": reason }),
            8,
        ));
        assert!(answer.truncated);
        assert_eq!(answer.text, "The answer is 4. Now");
        assert_eq!(answer.finish_reason.as_deref(), Some(reason));
    }
    let context_full = done(of_choice(json!({ "text": "x", "finish_reason": "length" }), 2));
    assert!(context_full.truncated, "the context may end an answer before the cap");
}

#[test]
fn bodies_that_hold_no_answer_are_retried() {
    let cut = r#"{"choices":[{"text":"The ans"#;
    for body in [
        r#"{"error":{"message":"boom","type":"server_error"}}"#,
        r#"{"object":"error","message":"boom","code":500}"#,
        r#"{"error":"boom"}"#,
        r#"{"choices":[]}"#,
        r#"{"choices":null}"#,
        "{}",
        "<html>Bad gateway</html>",
        "",
        "null",
        cut,
    ] {
        assert_eq!(classified(&answered(200, body)).label(), "retry", "{body}");
    }
    let Verdict::Retry { on_new_connection, .. } = classified(&answered(200, cut)) else {
        panic!("expected a retry")
    };
    assert!(on_new_connection, "half a body may be the connection's fault");
    assert_eq!(classified(&HttpOutcome::Cut("end of file".to_owned())).label(), "retry");
    assert_eq!(
        classified(&HttpOutcome::TimedOut(Duration::from_secs(9))).label(),
        "retry"
    );
}

#[test]
fn an_error_in_a_success_that_names_the_context_is_overflow() {
    let body = json!({ "error": { "message": "too long", "code": "context_length_exceeded" } });
    assert_eq!(of_body(200, &body).label(), "overflow");
}

#[test]
fn endings_that_are_no_answer_are_retried() {
    for reason in [
        json!("abort"),
        json!("error"),
        json!("cancelled"),
        json!(""),
        Value::Null,
    ] {
        let verdict = of_choice(json!({ "text": "half an ans", "finish_reason": reason }), 4);
        assert_eq!(verdict.label(), "retry", "{reason}");
    }
    assert_eq!(of_choice(json!({ "text": "half an ans" }), 4).label(), "retry");
}

#[test]
fn refusals_are_an_ending_of_their_own() {
    let cut_by_filter = done(of_choice(
        json!({ "text": "Well", "finish_reason": "content_filter" }),
        1,
    ));
    assert_eq!(
        (cut_by_filter.ending, cut_by_filter.text.as_str()),
        (Ending::Refused, "Well")
    );
    let message = json!({ "content": null, "refusal": "I cannot help with that." });
    let declined = done(of_choice(json!({ "message": message, "finish_reason": "stop" }), 6));
    assert_eq!(
        (declined.ending, declined.text.as_str()),
        (Ending::Refused, "I cannot help with that.")
    );
    let body = json!({ "error": { "message": "filtered", "code": "content_filter" } });
    assert_eq!(done(of_body(400, &body)).ending, Ending::Refused);
    let empty = json!({ "message": { "content": "Sure.", "refusal": "" }, "finish_reason": "stop" });
    assert_eq!(done(of_choice(empty, 2)).ending, Ending::Stop);
}

#[test]
fn damaged_characters_are_marked_and_the_answer_kept() {
    let surrogate = r#"{"choices":[{"text":"a\ud800","finish_reason":"stop"}],"usage":{"completion_tokens":1}}"#;
    assert_eq!(done(classified(&answered(200, surrogate))).text, "a\u{fffd}");
    let cut = [
        br#"{"choices":[{"text":"caf"#.as_slice(),
        b"\xc3",
        br#"","finish_reason":"length"}],"usage":{"completion_tokens":8}}"#,
    ]
    .concat();
    assert_eq!(done(classified(&answered(200, cut))).text, "caf\u{fffd}");
    let unread = r#"{"id":"\ud800","choices":[{"text":"ok","finish_reason":"stop"}]}"#;
    assert_eq!(done(classified(&answered(200, unread))).text, "ok");
}

#[test]
fn an_overloaded_server_is_busy_and_its_wait_is_kept() {
    for status in [429, 503] {
        let wait = Some(Duration::from_secs(7));
        let outcome = HttpOutcome::Answered {
            status,
            retry_after: wait,
            body: Bytes::from_static(b"{\"error\":{\"message\":\"slow down\"}}"),
        };
        let Verdict::Busy {
            status: seen,
            why,
            retry_after,
        } = classified(&outcome)
        else {
            panic!("expected busy for {status}")
        };
        assert_eq!((seen, retry_after), (status, wait));
        assert!(why.contains("slow down"), "{why}");
    }
    let quota = json!({ "error": { "message": "pay", "code": "insufficient_quota" } });
    assert_eq!(of_body(429, &quota).label(), "fatal", "waiting does not refill a quota");
}

#[test]
fn prompts_that_do_not_fit_overflow_on_every_engine() {
    let vllm = json!({ "error": { "message": "Input length (1200) exceeds the limit.", "type": "BadRequestError",
        "param": "input_tokens", "code": 400 } });
    let older_vllm = json!({ "object": "error", "type": "BadRequestError", "param": null, "code": 400,
        "message": "This model's maximum context length is 1024 tokens. However, you requested 1200 tokens." });
    let cap_too_large = json!({ "error": { "type": "BadRequestError", "code": 400, "param": "max_tokens",
        "message": "'max_tokens' is too large: 2000. This model's maximum context length is 1024 tokens" } });
    let sglang = json!({ "object": "error", "type": "BadRequestError", "code": 400,
        "message": "The input (1200 tokens) is longer than the model's context length (1024 tokens)." });
    let sglang_sum = json!({ "error": { "message":
        "Requested token count exceeds the model's maximum context length of 1024 tokens." } });
    let llama_cpp = json!({ "error": { "code": 400, "type": "exceed_context_size_error", "n_ctx": 1024,
        "message": "the request exceeds the available context size" } });
    let openai = json!({ "error": { "code": "context_length_exceeded", "param": "messages",
        "type": "invalid_request_error", "message": "Please reduce." } });
    let plain = json!({ "detail": "prompt is too long: 1200 tokens > 1024 maximum" });
    for body in [
        &vllm,
        &older_vllm,
        &cap_too_large,
        &sglang,
        &sglang_sum,
        &llama_cpp,
        &openai,
        &plain,
    ] {
        assert_eq!(of_body(400, body).label(), "overflow", "{body}");
    }
    assert_eq!(of_body(500, &llama_cpp).label(), "overflow");
    assert_eq!(
        of_body(503, &sglang).label(),
        "busy",
        "a busy server's words are not about this prompt"
    );
}

#[test]
fn other_refusals_of_one_request_are_rejected_without_blame_for_the_replica() {
    let stop = json!({ "error": { "message": "stop has too many entries", "param": "stop", "code": 400 } });
    let Verdict::Rejected { detail } = of_body(400, &stop) else {
        panic!("expected a rejection")
    };
    assert_eq!(detail, "status 400: stop has too many entries");
    assert_eq!(
        of_body(422, &json!({ "detail": [{ "msg": "bad" }] })).label(),
        "rejected"
    );
    assert_eq!(classified(&answered(413, "too large")).label(), "rejected");
}

#[test]
fn what_every_request_would_meet_is_fatal() {
    for (status, body) in [
        (
            404,
            r#"{"error":{"message":"The model `x` does not exist.","type":"NotFoundError"}}"#,
        ),
        (404, "not found"),
        (401, r#"{"error":{"message":"Unauthorized"}}"#),
        (403, ""),
        (405, ""),
        (301, ""),
        (400, r#"{"error":{"message":"no such model","code":"model_not_found"}}"#),
    ] {
        assert_eq!(classified(&answered(status, body)).label(), "fatal", "{status} {body}");
    }
}

#[test]
fn server_errors_are_retried() {
    for (status, new_connection) in [(500, false), (502, true), (504, true), (408, true), (520, false)] {
        let Verdict::Retry { on_new_connection, .. } = classified(&answered(status, "oops")) else {
            panic!("expected a retry for {status}")
        };
        assert_eq!(on_new_connection, new_connection, "{status}");
    }
}

#[test]
fn a_replica_that_is_away_is_not_the_items_fault() {
    let refused = classified(&HttpOutcome::Unreachable("connection refused".to_owned()));
    assert_eq!(
        refused,
        Verdict::Down {
            why: "connection refused".to_owned(),
            sent: false
        }
    );
    assert!(matches!(
        classified(&HttpOutcome::Lost("reset".to_owned())),
        Verdict::Down { sent: true, .. }
    ));
}
