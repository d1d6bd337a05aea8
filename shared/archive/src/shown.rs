//! A row as JSON.

use serde_json::{Value, json};
use tidemill_domain::{Benchmark, Completion, Grade, Measured, Prompt};

use crate::Row;

/// A row as `tidemill items --json` prints it, with what the columns of an archive have but for what is the same for the whole
/// evaluation, and the messages.
pub(crate) fn json(row: &Row<'_>) -> Value {
    let (completed, graded) = (row.completed(), row.graded());
    let settings = &row.benchmark.settings;
    let item = row.item;
    let prompt = match &item.prompt {
        Prompt::Text(text) => json!(text),
        Prompt::Chat(messages) => json!(messages),
    };
    let target = match row.targets() {
        one if one.len() == 1 => json!(one[0]),
        several => json!(several),
    };
    let probabilities = completed.map(|completion| {
        let choices = completion.choices.iter();
        choices.map(|choice| choice.log_probability).collect::<Vec<_>>()
    });
    json!({
        "benchmark": row.benchmark.name,
        "item": item.id,
        "sample": row.ordinals[2],
        "prompt": prompt,
        "completion": completed.map(|completion| &completion.text),
        "reasoning": completed.and_then(|completion| completion.reasoning.as_ref()),
        "choices": item.choices,
        "choice_log_probabilities": probabilities,
        "extracted": graded.and_then(|grade| grade.extracted.as_ref()),
        "target": target,
        "outcome": row.outcome(),
        "score": graded.filter(|grade| grade.outcome.is_scored()).map(|grade| grade.score),
        "score_before_cut": graded.and_then(|grade| grade.score_before_cut),
        "measures": graded.map(|grade| measures(row.benchmark, grade)),
        "cluster": item.cluster,
        "subset": item.subset,
        "weight": item.weight,
        "grader": graded.map(|grade| &grade.grader),
        "reason": row.reason(),
        "ending": completed.map(|completion| completion.ending.label()),
        "finish_reason": completed.and_then(|completion| completion.finish_reason.as_ref()),
        "stop_reason": completed.and_then(|completion| completion.stop_reason.as_ref()),
        "truncated": completed.map(|completion| completion.truncated),
        "truncated_in_reasoning": graded.map(|grade| grade.cut_in_reasoning),
        "replaced_characters": completed.map(Completion::replaced_characters),
        "prompt_tokens": completed.map(|completion| completion.prompt_tokens),
        "completion_tokens": completed.map(|completion| completion.completion_tokens),
        "attempts": completed.map(|completion| completion.attempts),
        "requests": completed.map(|completion| completion.requests),
        "cached": completed.map(|completion| completion.cached),
        "cached_prompt_tokens": completed.and_then(|completion| completion.served.cached_tokens),
        "continuations": completed.map(|completion| completion.served.continuations),
        "first_token_seconds": completed.and_then(first_token_seconds),
        "engine": completed.map(|completion| &completion.engine),
        "seed": settings.sample_seed(&item.id, row.ordinals[2]),
        "temperature": settings.temperature,
        "max_tokens": settings.max_tokens,
        "times": {
            "started": completed.map(|completion| completion.started),
            "finished": completed.map(|completion| completion.finished),
            "graded": graded.map(|grade| grade.graded),
        },
    })
}

/// From the first request to the first token; `None` for an answer that was not streamed.
pub(crate) fn first_token_seconds(completion: &Completion) -> Option<f64> {
    let first = completion.served.first_token?;
    Some(first.seconds_since(completion.started))
}

/// What the sample adds to each metric, by the metric's name: a number, or an object of value and weight, of truth and predicted
/// label, or of value and vote, or a list of counts; null where it adds nothing.
pub(crate) fn measures(benchmark: &Benchmark, grade: &Grade) -> Value {
    let named = benchmark.metrics.iter().zip(&grade.measures);
    let shown = named.map(|(metric, measured)| {
        let value = match measured {
            Some(Measured::Value(value)) => json!(value),
            Some(Measured::Weighted { value, weight }) => json!({"value": value, "weight": weight}),
            Some(Measured::Labels { truth, predicted }) => json!({"truth": truth, "predicted": predicted}),
            Some(Measured::Counts(counts)) => json!(counts),
            // As a text: JSON's numbers are not that long.
            Some(Measured::Vote { answer, value }) => json!({"value": value, "vote": format!("{answer:016x}")}),
            None => Value::Null,
        };
        (metric.name.clone(), value)
    });
    Value::Object(shown.collect())
}
