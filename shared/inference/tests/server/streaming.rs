//! Answers that arrive in pieces, continued ones, and what an engine says of its load.

use futures::StreamExt;

use super::*;

fn events(events: &[Value]) -> String {
    let mut text = String::from(": hello\n\n");
    for event in events {
        text += &format!("data: {event}\n\n");
    }
    text
}

fn streaming(text: String) -> Response {
    ([("content-type", "text/event-stream; charset=utf-8")], text).into_response()
}

fn piece(text: &str, id: u32) -> Value {
    json!({ "choices": [{ "text": text, "token_ids": [id], "finish_reason": null }] })
}

fn last(id: u32) -> Value {
    json!({ "choices": [{ "text": ".", "token_ids": [id], "finish_reason": "stop", "stop_reason": null }] })
}

fn counts(tokens: u64) -> Value {
    json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": tokens } })
}

fn streamed(prompt: &Prompt) -> Request<'_> {
    Request {
        stream: true,
        ..request(prompt)
    }
}

fn of_kind(url: &str, kind: EngineKind) -> OpenAi {
    OpenAi::new(Client::new(url, &Options::default()).unwrap(), "tiny", kind)
}

async fn complete(
    engine: &OpenAi,
    request: &Request<'_>,
    partial: &mut Partial,
) -> Verdict<tidemill_inference::Answer> {
    engine.complete(request, Connection::Kept, partial).await.verdict
}

fn answer_of(verdict: Verdict<tidemill_inference::Answer>) -> tidemill_inference::Answer {
    match verdict {
        Verdict::Done(answer) => answer,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_streamed_answer_is_the_whole_one_with_its_tokens_and_its_connection_is_used_again() {
    let server = Server::start(|_, _| {
        let first = json!({ "choices": [{ "text": " 4", "token_ids": [7], "prompt_token_ids": [1, 2] }] });
        streaming(events(&[first, last(8), counts(2)]) + "data: [DONE]\n\n")
    })
    .await;
    let engine = of_kind(&server.url(), EngineKind::Vllm);
    let (prompt, stop) = (text(), ["\n".to_owned()]);
    let request = Request {
        stop: &stop,
        ..streamed(&prompt)
    };
    let mut partial = Partial::default();
    let answer = answer_of(complete(&engine, &request, &mut partial).await);
    assert_eq!((answer.text.as_str(), answer.ending), (" 4.", Ending::Stop));
    assert_eq!((answer.prompt_tokens, answer.completion_tokens), (5, 2));
    assert!(answer.first_token_after.is_some());
    assert_eq!((partial.prompt_tokens, partial.tokens), (vec![1, 2], vec![7, 8]));
    assert_eq!(engine.progress(), Some(2), "its tokens are counted as they arrive");
    let body = &server.bodies()[0];
    assert_eq!(
        (&body["stream"], &body["return_token_ids"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(body["stream_options"]["include_usage"], true);
    assert_eq!(body["include_stop_str_in_output"], true);

    complete(&engine, &request, &mut Partial::default()).await;
    let ports = server.ports.lock().unwrap().clone();
    assert_eq!(
        ports[0], ports[1],
        "a finished stream leaves its connection fit for the next request"
    );
    // Of a server of which nothing is known, only what OpenAI's has is asked.
    complete(&server.engine(), &request, &mut Partial::default()).await;
    let body = &server.bodies()[2];
    assert!(body.get("return_token_ids").is_none() && body.get("include_stop_str_in_output").is_none());
}

#[tokio::test]
async fn a_server_without_counts_in_streams_is_asked_without_them() {
    let server = Server::start(|_, body| {
        if body.get("stream_options").is_some() {
            return refused(400, "Unknown parameter: stream_options");
        }
        streaming(events(&[piece(" 4", 7), last(8)]) + "data: [DONE]\n\n")
    })
    .await;
    let engine = server.engine();
    for _ in 0..2 {
        let answer = answer_of(complete(&engine, &streamed(&text()), &mut Partial::default()).await);
        // Counted by the tokens that came.
        assert_eq!((answer.text.as_str(), answer.completion_tokens), (" 4.", 2));
    }
    assert_eq!(server.bodies().len(), 3, "the refusal is met once");
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let server = Server::start(|_, _| ok(&four())).await;
    let mut partial = Partial::default();
    let answer = answer_of(complete(&server.engine(), &streamed(&text()), &mut partial).await);
    assert_eq!((answer.text.as_str(), answer.completion_tokens), (" 4", 2));
}

#[tokio::test]
async fn refusals_of_streams_are_classified_like_any_other() {
    let server = Server::start(|_, _| refused(400, "This model's maximum context length is 8 tokens")).await;
    let verdict = complete(&server.engine(), &streamed(&text()), &mut Partial::default()).await;
    assert_eq!(verdict.label(), "overflow");
}

/// A server that sends these bytes, one write each, then waits, and closes.
async fn raw(writes: Vec<String>, then_wait: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut request = [0; 4096];
            assert!(socket.read(&mut request).await.unwrap() > 0);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            socket.write_all(head.as_bytes()).await.unwrap();
            for write in &writes {
                let chunk = format!("{:x}\r\n{write}\r\n", write.len());
                socket.write_all(chunk.as_bytes()).await.unwrap();
            }
            tokio::time::sleep(then_wait).await;
        }
    });
    url
}

#[tokio::test]
async fn text_before_a_reset_or_a_silent_end_is_kept_and_is_no_answer() {
    let tokens: Vec<Value> = (0..400).map(|id| piece("x", id)).collect();
    let reset = raw(vec![events(&tokens)], Duration::ZERO).await;
    let ended = Server::start(move |_, _| streaming(events(&tokens))).await;
    for url in [reset, ended.url()] {
        let mut partial = Partial::default();
        let engine = of_kind(&url, EngineKind::Vllm);
        let prompt = text();
        let request = Request {
            max_tokens: 512,
            ..streamed(&prompt)
        };
        let verdict = complete(&engine, &request, &mut partial).await;
        assert!(matches!(verdict, Verdict::Down { sent: true, .. }), "{verdict:?}");
        assert_eq!((partial.text.len(), partial.tokens.len()), (400, 400));
    }
}

#[tokio::test]
async fn an_answer_that_stops_growing_is_stalled_and_comments_are_no_growth() {
    let url = raw(
        vec![
            events(&[piece("a", 1)]),
            ": keep-alive\n\n".to_owned(),
            events(&[json!({ "choices": [] })]),
        ],
        Duration::from_secs(600),
    )
    .await;
    let prompt = text();
    let request = Request {
        stall_timeout: Duration::from_millis(50),
        ..streamed(&prompt)
    };
    let mut partial = Partial::default();
    let verdict = complete(&engine(&url), &request, &mut partial).await;
    assert_eq!((verdict.label(), partial.text.as_str()), ("stalled", "a"));
}

#[tokio::test]
async fn the_time_out_of_a_request_is_that_of_the_first_token_alone() {
    let options = Options {
        request_timeout: Duration::from_millis(400),
        ..Options::default()
    };
    let silent = raw(vec![": keep-alive\n\n".to_owned()], Duration::from_secs(600)).await;
    let slow = Server::start(|_, _| {
        let first = in_two_parts([events(&[piece("a", 1)]), events(&[last(2)]) + "data: [DONE]\n\n"]);
        ([("content-type", "text/event-stream")], first).into_response()
    })
    .await;
    let at = |url: &str| OpenAi::new(Client::new(url, &options).unwrap(), "tiny", EngineKind::OpenAi);
    let verdict = complete(&at(&silent), &streamed(&text()), &mut Partial::default()).await;
    assert_eq!(verdict.label(), "retry");
    let answer = answer_of(complete(&at(&slow.url()), &streamed(&text()), &mut Partial::default()).await);
    assert_eq!(answer.text, "a.");
}

#[tokio::test]
async fn a_server_that_ignores_the_cap_is_not_read_for_ever() {
    for (kind, label) in [(EngineKind::Vllm, "done"), (EngineKind::OpenAi, "endless")] {
        let server = Server::start(move |_, body| {
            let id = body.get("return_token_ids").map(|_| json!([7]));
            let one = json!({ "choices": [{ "text": " x", "token_ids": id, "finish_reason": null }] });
            // Many times the cap of 16, and no end.
            streaming(events(&vec![one; 2_000]))
        })
        .await;
        let mut partial = Partial::default();
        let engine = of_kind(&server.url(), kind);
        let verdict = complete(&engine, &streamed(&text()), &mut partial).await;
        assert_eq!(verdict.label(), label, "{verdict:?}");
        match verdict {
            Verdict::Done(answer) => {
                assert_eq!((answer.text, answer.truncated), (" x".repeat(16), true));
                assert_eq!(partial.tokens, [7; 16]);
            }
            _ => assert!(partial.is_empty(), "{partial:?}"),
        }
    }
}

/// A body whose second part comes after a pause that is longer than the time-out.
fn in_two_parts(parts: [String; 2]) -> axum::body::Body {
    let pauses = [Duration::ZERO, Duration::from_millis(600)];
    let parts = futures::stream::iter(parts.into_iter().zip(pauses)).then(|(part, pause)| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, std::io::Error>(part)
    });
    axum::body::Body::from_stream(parts)
}

fn begun() -> Partial {
    Partial {
        prompt_tokens: vec![1, 2],
        tokens: vec![3, 4],
        text: " 4".to_owned(),
        completion_tokens: 2,
        ..Partial::default()
    }
}

#[tokio::test]
async fn an_answer_is_continued_from_its_tokens_where_the_engine_can() {
    let server = Server::start(|_, body| {
        if body["prompt"].is_array() {
            return streaming(events(&[piece("2", 5), last(6), counts(2)]) + "data: [DONE]\n\n");
        }
        streaming(events(&[piece("whole", 9), last(6), counts(2)]) + "data: [DONE]\n\n")
    })
    .await;
    let prompt = Prompt::Chat(vec![]);
    for kind in [EngineKind::Vllm, EngineKind::Sglang, EngineKind::Embedded] {
        let mut partial = begun();
        let answer = answer_of(complete(&of_kind(&server.url(), kind), &streamed(&prompt), &mut partial).await);
        assert_eq!(
            (answer.text.as_str(), answer.completion_tokens),
            (" 42.", 4),
            "{kind:?}"
        );
        assert_eq!((partial.tokens, partial.continuations), (vec![3, 4, 5, 6], 1));
    }
    let at = server.paths().iter().position(|path| path != "/detokenize").unwrap();
    let body = &server.bodies()[at];
    assert_eq!(
        (&body["prompt"], &body["max_tokens"]),
        (&json!([1, 2, 3, 4]), &json!(14))
    );
    // The template is in the tokens already: it must not be applied once more.
    assert_eq!(server.paths()[at], "/v1/completions");

    let mut partial = begun();
    let answer = answer_of(complete(&server.engine(), &streamed(&text()), &mut partial).await);
    assert_eq!(answer.text, "whole.", "an engine without token ids begins again");
    assert_eq!(partial.text, "whole.");
}

#[tokio::test]
async fn an_answer_that_was_cut_within_a_character_begins_anew() {
    for (tail, whole) in [("4", false), ("4\u{fffd}", true)] {
        let server = Server::start(move |path, body| {
            if path == "/detokenize" {
                assert_eq!(body["tokens"], json!([3, 4]));
                return ok(&json!({ "prompt": tail }));
            }
            let first = if body["prompt"].is_array() { "2" } else { "whole" };
            streaming(events(&[piece(first, 5), last(6), counts(2)]))
        })
        .await;
        let mut partial = begun();
        let engine = of_kind(&server.url(), EngineKind::Vllm);
        let answer = answer_of(complete(&engine, &streamed(&text()), &mut partial).await);
        assert_eq!(answer.text, if whole { "whole." } else { " 42." }, "{tail:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_continued_after_all_is_asked_for_anew() {
    let server = Server::start(|_, body| {
        if body["prompt"].is_array() {
            return refused(400, "token ids are not taken here");
        }
        streaming(events(&[piece("whole", 9), last(6), counts(2)]) + "data: [DONE]\n\n")
    })
    .await;
    let engine = of_kind(&server.url(), EngineKind::Vllm);
    let mut partial = begun();
    let attempt = engine
        .complete(&streamed(&text()), Connection::Kept, &mut partial)
        .await;
    assert_eq!(attempt.requests, 2);
    let answer = answer_of(attempt.verdict);
    assert_eq!((answer.text.as_str(), partial.continuations), ("whole.", 0));
}

#[tokio::test]
async fn the_kind_of_an_engine_shows_in_its_owner_or_in_what_only_it_has() {
    let models = |owner: &str| json!({ "object": "list", "data": [{ "id": "tiny", "owned_by": owner }] });
    for (owner, document, kind) in [
        ("vllm", "", EngineKind::Vllm),
        ("sglang", "", EngineKind::Sglang),
        ("llamacpp", "", EngineKind::LlamaCpp),
        ("tidemill", "", EngineKind::Embedded),
        ("somebody", "", EngineKind::OpenAi),
        ("somebody", "/metrics", EngineKind::Vllm),
        ("somebody", "/props", EngineKind::LlamaCpp),
        ("somebody", "/get_model_info", EngineKind::Sglang),
    ] {
        let server = Server::start(move |path, _| match path {
            "/v1/models" => ok(&models(owner)),
            "/v1/completions" => ok(&four()),
            path if path != document => refused(404, "no such path"),
            "/metrics" => "# HELP vllm:num_requests_running x\nvllm:num_requests_running 0\n".into_response(),
            "/props" => ok(&json!({ "default_generation_settings": {} })),
            _ => ok(&json!({ "model_path": "x", "is_generation": true })),
        })
        .await;
        let probed = probe(&server.url(), "tiny", None).await.unwrap();
        assert_eq!(probed.capabilities.kind, kind, "{owner} {document}");
        let told = probe(&server.url(), "tiny", Some(EngineKind::Sglang)).await.unwrap();
        assert_eq!(told.capabilities.kind, EngineKind::Sglang, "who is told does not look");
    }
}

#[tokio::test]
async fn what_cannot_score_says_so_before_any_item() {
    let server = Server::start(|path, _| match path {
        "/v1/models" => ok(&json!({ "object": "list", "data": [{ "id": "tiny", "owned_by": "llamacpp" }] })),
        _ => ok(&four()),
    })
    .await;
    let probed = probe(&server.url(), "tiny", None).await.unwrap();
    let asked = server.paths().len();
    let refusal = probed.scoring_refusal().await.unwrap();
    assert!(refusal.contains("cannot score by likelihood"), "{refusal}");
    assert_eq!(
        server.paths().len(),
        asked,
        "what is known of its kind need not be tried"
    );
    // One that ignores `echo` is found out by trying.
    let unknown = probe(&server.url(), "tiny", Some(EngineKind::OpenAi)).await.unwrap();
    assert!(unknown.scoring_refusal().await.is_some());
    let vllm = probe(&server.url(), "tiny", Some(EngineKind::Vllm)).await.unwrap();
    assert_eq!(vllm.scoring_refusal().await, None);
}

#[tokio::test]
async fn a_penalty_that_an_engine_has_in_another_sense_is_refused_and_never_sent() {
    let server = Server::start(|_, _| ok(&four())).await;
    let neutral = Penalties::default();
    let frequency = Penalties {
        frequency: 0.5,
        ..neutral
    };
    let presence = Penalties {
        presence: 0.5,
        ..neutral
    };
    let repetition = Penalties {
        repetition: 1.1,
        ..neutral
    };
    for (kind, penalties, label) in [
        (EngineKind::Embedded, frequency, "unsupported"),
        (EngineKind::LlamaCpp, presence, "unsupported"),
        (EngineKind::LlamaCpp, repetition, "done"),
        (EngineKind::Sglang, repetition, "unsupported"),
        (EngineKind::Sglang, frequency, "done"),
        (EngineKind::Vllm, repetition, "done"),
        (EngineKind::OpenAi, presence, "done"),
        (EngineKind::Embedded, neutral, "done"),
    ] {
        let prompt = text();
        let request = Request {
            penalties,
            ..request(&prompt)
        };
        let asked = || server.paths().iter().filter(|path| path.contains("completion")).count();
        let before = asked();
        let verdict = complete(&of_kind(&server.url(), kind), &request, &mut Partial::default()).await;
        assert_eq!(verdict.label(), label, "{kind:?} {penalties:?}: {verdict:?}");
        assert_eq!(asked() - before, usize::from(label == "done"));
    }
}

#[tokio::test]
async fn llama_cpp_streams_from_the_tokens_of_its_own_endpoints() {
    let server = Server::start(|path, body| match path {
        "/tokenize" => ok(&json!({ "tokens": [1, 2] })),
        "/completion" => {
            let first = json!({ "content": "4", "tokens": [7], "stop": false, "tokens_predicted": 1 });
            let last = json!({
                "content": "", "tokens": [], "stop": true, "stop_type": "eos", "tokens_predicted": 2,
                "tokens_evaluated": body["prompt"].as_array().unwrap().len(),
            });
            streaming(events(&[first, last]))
        }
        _ => streaming(events(&[piece("chat", 1), last(2)])),
    })
    .await;
    let engine = of_kind(&server.url(), EngineKind::LlamaCpp);
    let mut partial = Partial::default();
    let answer = answer_of(complete(&engine, &streamed(&text()), &mut partial).await);
    assert_eq!(
        (answer.text.as_str(), answer.prompt_tokens, answer.completion_tokens),
        ("4", 2, 2)
    );
    assert_eq!((partial.prompt_tokens, partial.tokens), (vec![1, 2], vec![7]));
    let mut partial = begun();
    let answer = answer_of(complete(&engine, &streamed(&text()), &mut partial).await);
    assert_eq!((answer.text.as_str(), answer.completion_tokens), (" 44", 4));
    assert_eq!(server.bodies()[2]["prompt"], json!([1, 2, 3, 4]));
    assert_eq!(server.paths(), ["/tokenize", "/completion", "/completion"]);
    let chat = Prompt::Chat(vec![]);
    complete(&engine, &streamed(&chat), &mut Partial::default()).await;
    assert_eq!(server.paths()[3], "/v1/chat/completions");
}

#[tokio::test]
async fn sglang_is_asked_from_the_last_token_of_the_context_on() {
    let server = Server::start(|path, body| match path {
        "/v1/completions" => {
            ok(&json!({ "choices": [{ "text": "", "finish_reason": "length" }], "usage": { "prompt_tokens": 3 } }))
        }
        "/server_info" => ok(&json!({ "max_req_input_len": 6 })),
        _ => {
            assert_eq!(body["logprob_start_len"], 2);
            let entries = json!([[null, 1, null], [-0.5, 2, null], [-0.25, 3, null]]);
            let top = json!([null, [[-0.5, 2, null]], [[-0.25, 3, null]]]);
            ok(&json!({ "text": "", "meta_info": {
                "prompt_tokens": 5, "input_token_logprobs": entries, "input_top_logprobs": top,
            } }))
        }
    })
    .await;
    let engine = of_kind(&server.url(), EngineKind::Sglang);
    let mut scoring = Scoring::new("The sky is");
    for _ in 0..2 {
        let attempt = engine.score(&mut scoring, " blue", Connection::Kept).await;
        let Verdict::Done(scored) = attempt.verdict else {
            panic!("{attempt:?}")
        };
        assert_eq!((scored.choice.log_probability, scored.choice.tokens), (-0.75, 2));
    }
    assert_eq!(
        server.paths(),
        ["/v1/completions", "/generate", "/server_info", "/generate"],
        "the context is counted once, and what the scheduler takes is asked once for all items"
    );
}

#[tokio::test]
async fn an_engine_says_its_load_or_nothing_of_it() {
    let server = Server::start(|path, _| match path {
        "/metrics" => "vllm:num_requests_running{engine=\"0\"} 3.0\n".into_response(),
        _ => refused(404, "no such path"),
    })
    .await;
    let load = of_kind(&server.url(), EngineKind::Vllm).load().await.unwrap();
    assert_eq!((load.running, load.waiting), (Some(3), None));
    assert_eq!(server.engine().load().await.unwrap().running, None);
    assert_eq!(server.paths(), ["/metrics"], "an unknown server is not asked");

    let without = Server::start(|_, _| refused(404, "Not Found")).await;
    let engine = of_kind(&without.url(), EngineKind::Sglang);
    for _ in 0..2 {
        assert_eq!(engine.load().await.unwrap(), tidemill_inference::Load::default());
    }
    assert_eq!(
        without.paths().len(),
        1,
        "one that was started without metrics is asked once"
    );
    let ill = Server::start(|_, _| refused(500, "ill")).await;
    assert!(of_kind(&ill.url(), EngineKind::Vllm).load().await.is_err());
}
