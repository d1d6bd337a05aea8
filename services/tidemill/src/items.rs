//! Every item of an evaluation.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use async_nats::jetstream;
use async_nats::jetstream::stream::DirectGetErrorKind;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tidemill_domain::{Benchmark, Completion, Grade, Item, ItemKey, Manifest, Outcome, Prompt};
use tidemill_service::Context;
use tidemill_streams::{declared, subject};

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
    let reading = Reading::open(context, manifest).await?;
    let wanted = |key: &ItemKey| {
        let benchmark = reading.manifest.benchmark_of(key);
        args.benchmark.is_none()
            || benchmark.is_some_and(|known| args.benchmark.as_deref() == Some(known.name.as_str()))
    };
    let rows = stream::iter(reading.manifest.keys(&args.evaluation).filter(wanted)).map(|key| reading.row(key));
    let mut rows = std::pin::pin!(rows.buffered(READ_AT_ONCE));
    while let Some(row) = rows.try_next().await? {
        if args
            .outcome
            .as_ref()
            .is_none_or(|wanted| row["outcome"] == *wanted.as_str())
        {
            output::data(&if args.json { row.to_string() } else { plain(&row) })?;
        }
    }
    Ok(())
}

/// Items read at once: enough to hide the round trips, few enough to hold few completions.
const READ_AT_ONCE: usize = 64;

/// Where the parts of a row are read from, item by item: an evaluation may have more of them than fit into memory.
struct Reading<'a> {
    context: &'a Context,
    manifest: Arc<Manifest>,
    done: jetstream::stream::Stream<()>,
    grades: jetstream::stream::Stream<()>,
}

impl<'a> Reading<'a> {
    async fn open(context: &'a Context, manifest: Arc<Manifest>) -> anyhow::Result<Self> {
        Ok(Self {
            context,
            manifest,
            done: context.jetstream().get_stream_no_info(declared::DONE.name).await?,
            grades: context.jetstream().get_stream_no_info(declared::GRADE.name).await?,
        })
    }

    async fn row(&self, key: ItemKey) -> anyhow::Result<Value> {
        let (item, completion, grade) = tokio::try_join!(
            async { Ok(self.context.store.item(&self.manifest, &key).await?) },
            self.recorded::<Completion>(&self.done, subject::done(&key)),
            self.recorded::<Grade>(&self.grades, subject::grade(&key)),
        )?;
        let found = item.as_deref().zip(self.manifest.benchmark_of(&key));
        let (item, benchmark) = found.with_context(|| format!("{key} is not declared"))?;
        Ok(row(benchmark, item, &key, completion, grade))
    }

    /// What a stream holds for a key: one message at most, because the first write wins.
    async fn recorded<T>(&self, stream: &jetstream::stream::Stream<()>, subject: String) -> anyhow::Result<Option<T>>
    where
        T: tidemill_codec::Wire,
    {
        let message = match stream.direct_get_last_for_subject(subject.as_str()).await {
            Ok(message) => message,
            Err(error) if error.kind() == DirectGetErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error).with_context(|| format!("read {subject}")),
        };
        let value = self.context.store.check_out::<T>(&message.payload).await;
        Ok(Some(value.with_context(|| format!("read {subject}"))?))
    }
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
