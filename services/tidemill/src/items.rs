//! Every item of an evaluation.

use std::collections::HashMap;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};
use tidemill_domain::{Benchmark, Completion, Grade, Item, ItemKey, Outcome, Prompt};
use tidemill_service::{Context, Follow, Start};
use tidemill_streams::{Stream, declared, subject};

use crate::arguments::Items;
use crate::exit::Done;
use crate::output;
use crate::session::{self, Need, Session};
use crate::view::Following;

pub(crate) fn run(args: Items) -> anyhow::Result<Done> {
    if let Some(outcome) = &args.outcome {
        let known: Vec<&str> = Outcome::ALL
            .iter()
            .map(|outcome| outcome.label())
            .chain(["missing"])
            .collect();
        if !known.contains(&outcome.as_str()) {
            bail!("no outcome is named {outcome:?}; there are {}", known.join(", "));
        }
    }
    let config = session::configuration(&args.place, "warn")?;
    session::block_on(async {
        let session = Session::open(&args.place, config, Need::Any).await?;
        let shown = Box::pin(show(&session.context, &args)).await;
        session.close().await;
        shown.map(|()| Done::Valid)
    })
}

async fn show(context: &Context, args: &Items) -> anyhow::Result<()> {
    let following = Following::open(context).await;
    let known = following.view.get(&args.evaluation);
    let known =
        known.with_context(|| format!("no evaluation {} here; `tidemill results` lists them", args.evaluation))?;
    let manifest = context.store.manifest(&known.event.manifest).await?;
    let mut completions =
        read::<Completion>(context, declared::DONE, subject::done_of_evaluation(&args.evaluation)).await?;
    let mut grades = read::<Grade>(context, declared::GRADE, subject::grade_of_evaluation(&args.evaluation)).await?;
    if let Some(name) = &args.benchmark
        && !manifest
            .benchmarks
            .iter()
            .any(|benchmark| benchmark.name.as_str() == name)
    {
        let names: Vec<&str> = manifest
            .benchmarks
            .iter()
            .map(|benchmark| benchmark.name.as_str())
            .collect();
        bail!("no benchmark is named {name:?}; there are {}", names.join(", "));
    }
    for key in manifest.keys(&args.evaluation) {
        let (completion, grade) = (completions.remove(&key), grades.remove(&key));
        let item = context.store.item(&manifest, &key).await?;
        let Some((item, benchmark)) = item.as_deref().zip(manifest.benchmark_of(&key)) else {
            continue;
        };
        let row = row(benchmark, item, &key, completion, grade);
        let is_wanted =
            |field: &str, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| row[field] == *wanted.as_str());
        if is_wanted("benchmark", &args.benchmark) && is_wanted("outcome", &args.outcome) {
            output::data(&if args.json { row.to_string() } else { plain(&row) })?;
        }
    }
    Ok(())
}

async fn read<T>(context: &Context, stream: Stream, filter: String) -> anyhow::Result<HashMap<ItemKey, T>>
where
    T: tidemill_codec::Wire,
{
    let mut follow = Follow::open(context, stream, filter, false, Start::Beginning).await;
    let mut read = HashMap::new();
    while let Some(message) = follow.next_known().await {
        let Some(key) = subject::key_of(&message.subject) else {
            continue;
        };
        let value = context.store.check_out::<T>(&message.payload).await;
        // The first write of a key is the one that counts.
        read.entry(key)
            .or_insert(value.with_context(|| format!("read {}", message.subject))?);
    }
    Ok(read)
}

fn row(
    benchmark: &Benchmark,
    item: &Item,
    key: &ItemKey,
    completion: Option<Completion>,
    grade: Option<Grade>,
) -> Value {
    let prompt = match &item.prompt {
        Prompt::Text(text) => json!(text),
        Prompt::Chat(messages) => json!(messages),
    };
    let target = match item.correct_choice.and_then(|index| item.choices.get(index as usize)) {
        Some(choice) if item.targets.is_empty() => json!(choice),
        _ if item.targets.len() == 1 => json!(item.targets[0]),
        _ => json!(item.targets),
    };
    let outcome = grade.as_ref().map_or("missing", |grade| grade.outcome.label());
    let completed = completion.as_ref();
    json!({
        "benchmark": benchmark.name,
        "item": item.id,
        "sample": key.sample,
        "prompt": prompt,
        "completion": completed.map(|completion| &completion.text),
        "reasoning": completed.and_then(|completion| completion.reasoning.as_ref()),
        "choices": item.choices,
        "choice_log_probabilities": completed.map(|completion| completion.choices.iter().map(|choice| choice.log_probability).collect::<Vec<_>>()),
        "extracted": grade.as_ref().and_then(|grade| grade.extracted.as_ref()),
        "target": target,
        "outcome": outcome,
        "score": grade.as_ref().map(|grade| grade.score),
        "score_before_cut": grade.as_ref().and_then(|grade| grade.score_before_cut),
        "grader": grade.as_ref().map(|grade| &grade.grader),
        "reason": grade.as_ref().and_then(|grade| grade.reason.as_ref()).or(completed.and_then(|completion| completion.detail.as_ref())),
        "finish_reason": completed.and_then(|completion| completion.finish_reason.as_ref()),
        "stop_reason": completed.and_then(|completion| completion.stop_reason.as_ref()),
        "truncated": completed.map(|completion| completion.truncated),
        "prompt_tokens": completed.map(|completion| completion.prompt_tokens),
        "completion_tokens": completed.map(|completion| completion.completion_tokens),
        "attempts": completed.map(|completion| completion.attempts),
        "requests": completed.map(|completion| completion.requests),
        "cached": completed.map(|completion| completion.cached),
        "engine": completed.map(|completion| &completion.engine),
        "times": {
            "started": completed.map(|completion| completion.started),
            "finished": completed.map(|completion| completion.finished),
            "graded": grade.as_ref().map(|grade| grade.graded),
        },
    })
}

fn plain(row: &Value) -> String {
    let text = |field: &str| {
        row[field]
            .as_str()
            .map_or_else(|| row[field].to_string(), str::to_owned)
    };
    let short = |text: String| {
        let line = text.replace('\n', "⏎");
        if line.chars().count() > 60 {
            format!("…{}", line.chars().skip(line.chars().count() - 59).collect::<String>())
        } else {
            line
        }
    };
    format!(
        "{} {}#{}  {:12} target {}  extracted {}  | {}",
        text("benchmark"),
        text("item"),
        row["sample"],
        text("outcome"),
        text("target"),
        text("extracted"),
        short(text("completion"))
    )
}
