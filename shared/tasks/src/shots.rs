//! Solved examples that stand before a prompt.

use std::collections::HashSet;

use tidemill_domain::{Message, Prompt};

use crate::data::Row;
use crate::decode::{BenchmarkEntry, ShotsEntry};
use crate::faults::Faults;
use crate::ids::content_digest;
use crate::render::Templates;
use crate::template::context;

/// What separates two examples, and the last one from the prompt.
const SEPARATOR: &str = "\n\n";

/// The examples of a benchmark: one more than wanted, so that an item that is among them still gets its number.
pub(crate) struct Shots {
    wanted: usize,
    examples: Vec<Example>,
}

struct Example {
    digest: String,
    text: String,
    turns: Vec<Message>,
}

impl Shots {
    /// No examples.
    pub(crate) const fn none() -> Self {
        Self {
            wanted: 0,
            examples: Vec::new(),
        }
    }

    /// Renders the first rows of the examples' file; equal rows count once.
    pub(crate) fn load(
        shots: &ShotsEntry,
        entry: &BenchmarkEntry,
        templates: &Templates<'_>,
        faults: &mut Faults,
    ) -> Self {
        let place = entry.place.line(shots.data.line).field("few_shot_data");
        let file = &shots.data.value;
        let mut loaded = Self {
            wanted: shots.count,
            examples: Vec::new(),
        };
        let rows = match file.rows() {
            Ok(rows) => rows,
            Err(error) => {
                faults.push(place.data(&file.written, error.row), error.message);
                return loaded;
            }
        };
        let mut digests = HashSet::new();
        for row in rows {
            let rendered = row
                .map_err(|error| (error.row, error.message))
                .and_then(|row| Example::render(&row, templates).map_err(|message| (Some(row.number), message)));
            match rendered {
                Ok(example) if digests.insert(example.digest.clone()) => loaded.examples.push(example),
                Ok(_) => {}
                Err((row, message)) => {
                    faults.push(place.data(&file.written, row), message);
                    return loaded;
                }
            }
            if loaded.examples.len() > shots.count {
                return loaded;
            }
        }
        if loaded.examples.len() < shots.count {
            let found = loaded.examples.len();
            let message = format!("holds {found} different rows where few_shot wants {}", shots.count);
            faults.push(place.data(&file.written, None), message);
        }
        loaded
    }

    /// Whether examples are wanted, and items therefore need their digests.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Puts the examples before an item's prompt, leaving out the item itself.
    ///
    /// # Errors
    /// Too few examples are left without it.
    pub(crate) fn prepend(&self, prompt: Prompt, digest: &str) -> Result<Prompt, String> {
        if self.wanted == 0 {
            return Ok(prompt);
        }
        let others = self.examples.iter().filter(|example| example.digest != digest);
        let examples: Vec<&Example> = others.take(self.wanted).collect();
        if examples.len() < self.wanted {
            return Err(format!(
                "few_shot wants {} examples, but few_shot_data has {} beside the row itself",
                self.wanted,
                examples.len()
            ));
        }
        Ok(match prompt {
            Prompt::Text(prompt) => {
                let mut text: String = examples.iter().map(|example| example.text.as_str()).collect();
                text.push_str(&prompt);
                Prompt::Text(text)
            }
            Prompt::Chat(mut messages) => {
                let turns = examples.iter().flat_map(|example| example.turns.iter().cloned());
                let start = system_messages(&messages);
                messages.splice(start..start, turns);
                Prompt::Chat(messages)
            }
        })
    }
}

impl Example {
    fn render(row: &Row, templates: &Templates<'_>) -> Result<Self, String> {
        let context = context(&row.columns);
        let prompt = templates.prompt(&context).map_err(|fault| fault.to_string())?;
        let answer = templates.answer(&context).map_err(|fault| fault.to_string())?;
        let answer = answer.targets.into_iter().next().unwrap_or_default();
        let mut example = Self {
            digest: content_digest(&row.columns),
            text: String::new(),
            turns: Vec::new(),
        };
        match prompt {
            Prompt::Text(prompt) => {
                let answer = continuation(&prompt, &answer);
                example.text = format!("{prompt}{answer}{SEPARATOR}");
            }
            Prompt::Chat(mut messages) => {
                messages.drain(..system_messages(&messages));
                messages.push(Message {
                    role: "assistant".to_owned(),
                    content: answer,
                });
                example.turns = messages;
            }
        }
        Ok(example)
    }
}

/// An answer as it follows a prompt: after a space, unless white space is there already.
pub(crate) fn continuation(prompt: &str, answer: &str) -> String {
    let spaced = prompt.is_empty() || prompt.ends_with(char::is_whitespace) || answer.starts_with(char::is_whitespace);
    if spaced {
        answer.to_owned()
    } else {
        format!(" {answer}")
    }
}

fn system_messages(messages: &[Message]) -> usize {
    messages.iter().take_while(|message| message.role == "system").count()
}
