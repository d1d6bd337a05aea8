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
            (item.prompt, item.choices) = prompt_of(pairs, shape.start);
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
            (item.prompt, item.choices) = prompt_of(vec![(context, continuation)], shape.start);
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

/// The prompt and the choices that follow it. Where each choice has a context of its own, all of them are the prompt.
fn prompt_of(pairs: Vec<(String, String)>, start: &str) -> (Prompt, Vec<String>) {
    let first = pairs.first().map(|(context, _)| context.clone()).unwrap_or_default();
    let are_one = pairs.iter().all(|(context, _)| *context == first);
    let moved_each = pairs
        .into_iter()
        .map(|(context, continuation)| moved(&context, continuation));
    let (contexts, choices): (Vec<String>, Vec<String>) = moved_each.unzip();
    if are_one {
        return (Prompt::Text(contexts.into_iter().next().unwrap_or_default()), choices);
    }
    let begun = |context: String| if context.is_empty() { start.to_owned() } else { context };
    (Prompt::of_contexts(contexts.into_iter().map(begun).collect()), choices)
}

/// White space at the end of a prompt belongs to what continues it: tokens begin with it.
fn moved(context: &str, continuation: String) -> (String, String) {
    let kept = context.trim_end_matches(python::is_space);
    (kept.to_owned(), format!("{}{continuation}", &context[kept.len()..]))
}
