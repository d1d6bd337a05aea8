//! One item of a benchmark, exactly as an engine and a grader get it.

use anyhow::{Context as _, anyhow, bail};
use serde_json::{Map, Value, json};
use tidemill_domain::{Benchmark, GraderSpec, Item, Manifest, Prompt, Reasoning};
use tidemill_engine::TokenCounter;
use tidemill_grader::Grader;
use tidemill_tasks::Picked;

use super::{load, note_errors};
use crate::arguments::SuiteShow;
use crate::exit::Done;
use crate::output;

pub(super) fn run(args: &SuiteShow) -> anyhow::Result<Done> {
    let counter = args.tokenizer.as_deref().map(TokenCounter::load).transpose();
    let counter = counter.context("count tokens")?;
    let mut picked = Picked::new(args.item.clone());
    let loaded = match load(&args.file, &mut picked)? {
        Ok(loaded) => loaded,
        Err(errors) => {
            note_errors(&errors);
            return Ok(Done::Refused);
        }
    };
    let manifest = &loaded.manifest;
    let wanted = wanted(manifest, args)?;
    for index in wanted {
        let benchmark = &manifest.benchmarks[index];
        let Some((number, item)) = picked.item(index) else {
            let wanted = args.item.as_deref().unwrap_or_default();
            bail!(
                "benchmark {} has no item {wanted:?}: it has {}, by id or by number from 0 to {}",
                benchmark.name,
                benchmark.items,
                benchmark.items - 1
            );
        };
        let shown = Shown {
            benchmark,
            item,
            number: *number,
            tokens: counter
                .as_ref()
                .map(|counter| tokens(counter, &item.prompt))
                .transpose()?
                .flatten(),
            is_counted: counter.is_some(),
        };
        if args.json {
            output::data(&shown.json().to_string())?;
        } else {
            output::data(&shown.text())?;
        }
    }
    Ok(Done::Valid)
}

/// The benchmarks to show: the named one, else all.
fn wanted(manifest: &Manifest, args: &SuiteShow) -> anyhow::Result<Vec<usize>> {
    let Some(name) = &args.benchmark else {
        return Ok((0..manifest.benchmarks.len()).collect());
    };
    let index = manifest
        .benchmarks
        .iter()
        .position(|benchmark| benchmark.name.as_str() == name);
    let index = index.with_context(|| {
        let names: Vec<&str> = manifest
            .benchmarks
            .iter()
            .map(|benchmark| benchmark.name.as_str())
            .collect();
        format!("no benchmark is named {name:?}; there are {}", names.join(", "))
    })?;
    Ok(vec![index])
}

fn tokens(counter: &TokenCounter, prompt: &Prompt) -> anyhow::Result<Option<usize>> {
    if let Some(contexts) = prompt.contexts() {
        let counts = contexts.into_iter().map(|context| counter.of_text(context));
        let all: Result<usize, _> = counts.sum();
        return all.map(Some).map_err(|reason| anyhow!("count tokens: {reason}"));
    }
    match prompt {
        Prompt::Text(text) => counter.of_text(text).map(Some),
        Prompt::Chat(turns) => {
            let turns: Vec<(&str, &str)> = turns
                .iter()
                .map(|turn| (turn.role.as_str(), turn.content.as_str()))
                .collect();
            counter.of_turns(&turns)
        }
    }
    .map_err(|reason| anyhow!("count tokens: {reason}"))
}

struct Shown<'a> {
    benchmark: &'a Benchmark,
    item: &'a Item,
    number: u32,
    tokens: Option<usize>,
    is_counted: bool,
}

impl Shown<'_> {
    fn endpoint(&self) -> &'static str {
        match &self.item.prompt {
            Prompt::Chat(_) if self.item.prompt.contexts().is_none() => "chat",
            _ => "completions",
        }
    }

    fn prompt_bytes(&self) -> usize {
        match &self.item.prompt {
            Prompt::Text(text) => text.len(),
            Prompt::Chat(turns) => turns.iter().map(|turn| turn.content.len()).sum(),
        }
    }

    fn grader(&self) -> String {
        Grader::new(&self.benchmark.grader, &self.benchmark.reasoning)
            .name()
            .to_owned()
    }

    fn seeds(&self) -> Vec<u64> {
        let settings = &self.benchmark.settings;
        let samples = 0..settings.samples.min(SHOWN_SEEDS);
        samples
            .map(|sample| settings.sample_seed(&self.item.id, sample))
            .collect()
    }

    fn settings(&self) -> Value {
        let (settings, penalties) = (&self.benchmark.settings, &self.benchmark.penalties);
        json!({
            "max_tokens": settings.max_tokens,
            "temperature": settings.temperature,
            "top_p": settings.top_p,
            "stop": settings.stop,
            "frequency_penalty": penalties.frequency,
            "presence_penalty": penalties.presence,
            "repetition_penalty": penalties.repetition,
            "continuation": self.benchmark.continuation,
            "samples": settings.samples,
            "spare_samples": self.benchmark.spare_samples,
            "seeds": self.seeds(),
        })
    }

    fn json(&self) -> Value {
        let item = self.item;
        let prompt = match &item.prompt {
            Prompt::Text(text) => json!(text),
            Prompt::Chat(turns) => json!(turns),
        };
        let material: Map<String, Value> = item
            .material
            .iter()
            .map(|(name, text)| (name.clone(), json!(text)))
            .collect();
        let metrics: Vec<&str> = self
            .benchmark
            .metrics
            .iter()
            .map(|metric| metric.name.as_str())
            .collect();
        json!({
            "benchmark": self.benchmark.name,
            "item": item.id,
            "number": self.number,
            "endpoint": self.endpoint(),
            "prompt": prompt,
            "prompt_bytes": self.prompt_bytes(),
            "prompt_tokens": self.tokens,
            "settings": if self.benchmark.is_likelihood() { Value::Null } else { self.settings() },
            "graded": {
                "grader": self.grader(),
                "options": options(&self.benchmark.grader),
                "reasoning": reasoning_json(&self.benchmark.reasoning),
                "targets": item.targets,
                "choices": item.choices,
                "correct_choice": item.correct_choice,
                "material": material,
                "metrics": metrics,
                "cluster": item.cluster,
                "subset": item.subset,
                "weight": item.weight,
            },
        })
    }

    fn text(&self) -> String {
        let mut lines = vec![
            format!(
                "benchmark {}, item {:?} (number {})",
                self.benchmark.name, self.item.id, self.number
            ),
            format!("sent to the {} endpoint: {}", self.endpoint(), self.size()),
        ];
        match &self.item.prompt {
            Prompt::Text(text) => lines.push(block("prompt", text)),
            Prompt::Chat(turns) => lines.extend(turns.iter().map(|turn| block(&turn.role, &turn.content))),
        }
        if self.benchmark.is_likelihood() {
            lines.push(
                "asked for the log-probability of each choice as it follows the prompt, or its own context; nothing is drawn".to_owned(),
            );
        } else {
            lines.push(self.settings_text());
        }
        lines.push(format!("graded by {}, reasoning {}", self.grader(), self.reasoning()));
        lines.push(format!("  options: {}", options(&self.benchmark.grader)));
        let targets: Vec<String> = self.item.targets.iter().map(|target| format!("{target:?}")).collect();
        let targets = match self.item.targets.as_slice() {
            [only] if only.is_empty() => "none: whoever gives no answer is right".to_owned(),
            _ => targets.join(" or "),
        };
        lines.push(format!("  targets: {targets}"));
        for (choice, number) in self.item.choices.iter().zip(0_u32..) {
            let mark = if self.item.correct_choice == Some(number) {
                " (right)"
            } else {
                ""
            };
            lines.push(format!("  choice {number}: {choice:?}{mark}"));
        }
        for (name, text) in &self.item.material {
            lines.push(block(&format!("material {name}"), text));
        }
        for (name, label) in [("cluster", &self.item.cluster), ("subset", &self.item.subset)] {
            lines.extend(label.iter().map(|label| format!("  {name}: {label:?}")));
        }
        if self.benchmark.weights.is_some() {
            lines.push(format!("  weight: {}", self.item.weight));
        }
        let metrics: Vec<&str> = self
            .benchmark
            .metrics
            .iter()
            .map(|metric| metric.name.as_str())
            .collect();
        if !metrics.is_empty() {
            lines.push(format!("  metrics: {}", metrics.join(", ")));
        }
        lines.push(String::new());
        lines.join("\n")
    }

    fn size(&self) -> String {
        let bytes = self.prompt_bytes();
        match (self.tokens, self.is_counted) {
            (Some(tokens), _) => format!("{bytes} bytes, {tokens} tokens"),
            (None, false) => format!("{bytes} bytes, tokens unknown without --tokenizer"),
            (None, true) => format!("{bytes} bytes, tokens unknown: the tokenizer has no chat template beside it"),
        }
    }

    fn settings_text(&self) -> String {
        let Value::Object(settings) = self.settings() else {
            return String::new();
        };
        let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name} {value}")).collect();
        format!("settings: {}", settings.join(", "))
    }

    fn reasoning(&self) -> String {
        match &self.benchmark.reasoning {
            Reasoning::Think => "between <think> and </think>".to_owned(),
            Reasoning::Marks { open, close } => format!("between {open:?} and {close:?}"),
            Reasoning::None => "not split off".to_owned(),
        }
    }
}

/// Seeds that are shown of an item with many samples.
const SHOWN_SEEDS: u32 = 8;

/// The options of a kind, without the kind itself.
fn options(grader: &GraderSpec) -> Value {
    match serde_json::to_value(grader) {
        Ok(Value::Object(kind)) => kind.into_iter().next().map_or(Value::Null, |(_, options)| options),
        _ => Value::Null,
    }
}

/// As a suite writes it.
fn reasoning_json(reasoning: &Reasoning) -> Value {
    match reasoning {
        Reasoning::Think => json!("think"),
        Reasoning::Marks { open, close } => json!({ "open": open, "close": close }),
        Reasoning::None => json!("none"),
    }
}

/// A text between rules. Control characters that a terminal would obey are written out.
fn block(name: &str, text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | '\t' => visible.push(character),
            hidden if hidden.is_control() || is_bidi_control(hidden) => visible.extend(hidden.escape_unicode()),
            plain => visible.push(plain),
        }
    }
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("--- {name}\n{visible}{end}--- end of {name}, {} bytes", text.len())
}

/// Marks that turn the direction of what follows, also of what is not theirs.
const fn is_bidi_control(character: char) -> bool {
    matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out_and_text_from_right_to_left_stays() {
        assert_eq!(
            block("prompt", "a\u{1b}[2J\0\tשלום\u{202e}\n"),
            "--- prompt\na\\u{1b}[2J\\u{0}\tשלום\\u{202e}\n--- end of prompt, 19 bytes"
        );
        assert_eq!(block("user", "x"), "--- user\nx\n--- end of user, 1 bytes");
    }
}
