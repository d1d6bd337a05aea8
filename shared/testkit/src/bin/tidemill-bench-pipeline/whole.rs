//! The whole of Tidemill: one evaluation against an engine that answers at once.

use std::time::Instant;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tidemill_testkit::FakeEngine;

use crate::servers::Servers;
use crate::{PATIENCE, usage};

const SUITE: &str = r#"
name = "bench"
version = "1"

[[benchmark]]
name = "sums"
data = "items.jsonl"
id = "id"
prompt = "Q: {{ question }}\nA:"
target = "{{ answer }}"
max_tokens = 4096
[benchmark.grader]
kind = "exact"
"#;

/// Evaluates so many items: the seconds and the CPU seconds of the command, from its start to its end.
pub(crate) fn run(servers: &Servers, items: usize, completion_bytes: usize) -> Result<(f64, f64)> {
    let suite = servers.write("suite.toml", SUITE)?;
    let row = |index: usize| {
        let question = format!("What is {index} plus {}, said as briefly as you can?", index % 97);
        json!({ "id": index, "question": question, "answer": "4" }).to_string()
    };
    let rows: Vec<String> = (0..items).map(row).collect();
    servers.write("items.jsonl", &rows.join("\n"))?;
    let text = "word ".repeat(completion_bytes / 5);
    let engine = FakeEngine::builder().fixed_text(text).start()?;
    let (url, model) = (engine.url(), engine.model().to_owned());
    let command = [
        "evaluate",
        "--json",
        "--suite",
        &suite,
        "--endpoint",
        &url,
        "--model",
        &model,
    ];
    let (begun, before) = (Instant::now(), usage::ended_children());
    let mut evaluating = servers.tidemill()?.args(command).spawn()?;
    let ended = evaluating.wait(PATIENCE)?;
    let seconds = begun.elapsed().as_secs_f64();
    ensure!(ended.success(), "evaluate: {:?}", evaluating.log());
    let result: Value = serde_json::from_str(&evaluating.output())?;
    let benchmark = &result["benchmarks"][0];
    ensure!(
        benchmark["samples"] == items && benchmark["outcomes"]["missing"] == 0,
        "not all items were evaluated: {benchmark}"
    );
    Ok((seconds, usage::ended_children() - before))
}
