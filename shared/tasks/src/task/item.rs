//! One row of a task as an item.

use serde_json::{Value as Json, json};
use tidemill_domain::{Item, Prompt};
use tidemill_harness::python;
use tidemill_harness::request::{Asked, Request};
use tidemill_harness::rows::Row;
use tidemill_harness::task::Task;

use crate::render::NUL;

/// What all items of a task share.
pub(super) struct Shape<'a> {
    pub(super) task: &'a Task,
    pub(super) targets_are_lists: bool,
    /// Stands before a text whose likelihood is asked for after nothing.
    pub(super) start: &'a str,
}

/// The item of a row.
pub(super) fn of(shape: &Shape<'_>, number: usize, asked: Asked, row: &Row) -> Result<Item, String> {
    let Asked {
        request,
        target,
        choices,
        gold,
    } = asked;
    let mut item = Item {
        id: number.to_string(),
        prompt: Prompt::Text(String::new()),
        targets: Vec::new(),
        choices: Vec::new(),
        correct_choice: None,
        cluster: None,
        subset: None,
        weight: 1.0,
        material: Vec::new(),
    };
    match request {
        Request::Generate { prompt } if prompt.is_empty() => return Err("the prompt is empty".to_owned()),
        Request::Generate { prompt } => {
            item.prompt = Prompt::Text(prompt);
            item.targets = match &target {
                Json::Array(targets) => targets.iter().map(python::str).collect(),
                target => vec![python::str(target)],
            };
            item.material.push(("target".to_owned(), target.to_string()));
            if shape.targets_are_lists {
                item.material.push(("targets_are_lists".to_owned(), "true".to_owned()));
            }
            if reads_choices(shape.task)
                && let Some(choices) = row.get("choices")
            {
                item.material.push(("choices".to_owned(), choices.to_string()));
            }
        }
        Request::Choices { pairs, .. } => {
            let context = one_context(&pairs)?;
            let continuations: Vec<String> = pairs.into_iter().map(|(_, continuation)| continuation).collect();
            (item.prompt, item.choices) = moved(&context, continuations);
            if let Some(gold) = gold {
                let single = gold.indices.first().copied();
                item.correct_choice = single.and_then(|index| u32::try_from(index).ok());
                let gold = if gold.is_list {
                    json!(gold.indices)
                } else {
                    json!(single)
                };
                item.material.push(("gold".to_owned(), gold.to_string()));
            }
            item.targets = item
                .correct_choice
                .and_then(|at| choices.get(at as usize).cloned())
                .into_iter()
                .collect();
            item.material.push(("choices".to_owned(), json!(choices).to_string()));
        }
        Request::Continue { context, continuation } => {
            item.targets = vec![continuation.clone()];
            item.correct_choice = Some(0);
            (item.prompt, item.choices) = moved(&context, vec![continuation]);
        }
        Request::Whole { text } => {
            item.targets = vec![text.clone()];
            item.correct_choice = Some(0);
            item.choices = vec![text];
        }
    }
    if !item.choices.is_empty() && item.prompt == Prompt::Text(String::new()) {
        item.prompt = Prompt::Text(shape.start.to_owned());
    }
    readable(&item)?;
    match item.choices.iter().position(String::is_empty) {
        Some(at) => Err(format!("the continuation of choice {at} is empty")),
        None => Ok(item),
    }
}

/// Whether every server takes all of it as it is.
fn readable(item: &Item) -> Result<(), String> {
    if matches!(&item.prompt, Prompt::Text(prompt) if prompt.contains('\0')) {
        return Err(format!("the prompt {NUL}"));
    }
    match item.choices.iter().position(|choice| choice.contains('\0')) {
        Some(at) => Err(format!("the continuation of choice {at} {NUL}")),
        None => Ok(()),
    }
}

fn reads_choices(task: &Task) -> bool {
    use tidemill_harness::filter::Step;
    let mut steps = task.pipelines.iter().flat_map(|pipeline| &pipeline.steps);
    steps.any(|step| matches!(step, Step::MultiChoiceRegex(_)))
}

/// A likelihood compares continuations of one prompt.
fn one_context(pairs: &[(String, String)]) -> Result<String, String> {
    let context = pairs.first().map(|(context, _)| context.clone()).unwrap_or_default();
    match pairs.iter().all(|(other, _)| *other == context) {
        true => Ok(context),
        false => Err(
            "doc_to_text: is an index of a choice, so that each has a prompt of its own, which is not asked here"
                .to_owned(),
        ),
    }
}

/// White space at the end of a prompt belongs to what continues it: tokens begin with it.
fn moved(context: &str, continuations: Vec<String>) -> (Prompt, Vec<String>) {
    let kept = context.trim_end_matches(python::is_space);
    let space = &context[kept.len()..];
    let continuations = continuations
        .into_iter()
        .map(|continuation| format!("{space}{continuation}"));
    (Prompt::Text(kept.to_owned()), continuations.collect())
}
