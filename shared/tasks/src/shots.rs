//! Solved examples that stand before a prompt.
//!
//! `first` and ids give every item the same examples, apart from the item itself. `random` gives each item its own, by
//! [`Draw`]: a rule that is part of what a suite means, so it must never change.

use std::collections::{HashMap, HashSet};

use minijinja::{Environment, Value};
use tidemill_domain::{Message, Prompt};

use crate::data::Row;
use crate::decode::BenchmarkEntry;
use crate::error::Place;
use crate::faults::Faults;
use crate::ids::{column_id, content_digest};
use crate::render::Templates;
use crate::shots_spec::{Choice, Form, ShotsEntry};
use crate::template::{Template, row_context};

/// Examples that are drawn for each item are all in memory: at most so many bytes.
const MAX_POOL_BYTES: usize = 256 << 20;

/// The examples of a benchmark: for `first` one more than wanted, so that an item that is among them still gets its number.
pub(crate) struct Shots {
    wanted: usize,
    seed: Option<u64>,
    examples: Vec<Example>,
    /// Where the row with a digest is among them.
    places: HashMap<String, usize>,
}

struct Example {
    digest: String,
    text: String,
    turns: Vec<Message>,
}

impl Shots {
    /// No examples.
    pub(crate) fn none() -> Self {
        Self {
            wanted: 0,
            seed: None,
            examples: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Reads and renders the examples; equal rows count once.
    pub(crate) fn load<'e>(
        shots: &'e ShotsEntry,
        entry: &'e BenchmarkEntry,
        environment: &'e Environment<'e>,
        templates: &Templates<'_>,
        faults: &mut Faults,
    ) -> Self {
        let none = Self::none();
        let place = entry.place.line(shots.data.line).field("few_shot_data");
        let place = place.data(&shots.data.value.written, None);
        let form = match Forms::compile(environment, shots) {
            Ok(form) => form,
            Err((field, message)) => {
                let line = shots.form.as_ref().map_or(shots.count_line, |form| form.line);
                faults.push(entry.place.line(line).field(field), message);
                return none;
            }
        };
        let rendering = Rendering {
            shots,
            entry,
            templates,
            form,
        };
        match rendering.examples(&place) {
            Ok(examples) => Self {
                wanted: shots.count,
                seed: match shots.choice {
                    Choice::Random { seed } => Some(seed),
                    Choice::First | Choice::Ids(_) => None,
                },
                places: examples.iter().map(|example| example.digest.clone()).zip(0..).collect(),
                examples,
            },
            Err((place, message)) => {
                faults.push(place, message);
                none
            }
        }
    }

    /// Whether examples are wanted, and items therefore need their digests.
    pub(crate) const fn are_wanted(&self) -> bool {
        self.wanted > 0
    }

    /// Puts the examples before an item's prompt, leaving out the item itself.
    ///
    /// # Errors
    /// Too few examples are left without it.
    pub(crate) fn prepend(&self, prompt: Prompt, id: &str, digest: &str) -> Result<Prompt, String> {
        if self.wanted == 0 {
            return Ok(prompt);
        }
        let examples = self.of(id, digest);
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

    fn of(&self, id: &str, digest: &str) -> Vec<&Example> {
        let own = self.places.get(digest).copied();
        let Some(seed) = self.seed else {
            let others = self
                .examples
                .iter()
                .enumerate()
                .filter(|(index, _)| Some(*index) != own);
            return others.map(|(_, example)| example).take(self.wanted).collect();
        };
        let others = self.examples.len() - usize::from(own.is_some());
        let mut chosen = Vec::with_capacity(self.wanted);
        let mut passed: HashSet<usize> = own.into_iter().collect();
        let mut draw = Draw::new(seed, id);
        while chosen.len() < self.wanted.min(others) {
            let index = draw.below(self.examples.len());
            if passed.insert(index) {
                chosen.push(&self.examples[index]);
            }
        }
        chosen
    }
}

/// The numbers by which an item's examples are drawn, the same for ever.
///
/// BLAKE3 in its extended output over `tidemill few-shot 1`, the seed as 8 bytes and the item's id gives 64-bit numbers, all little
/// endian; each number `w` draws the example `w * n / 2^64`, rounded down, of `n` different rows in the order of their file. What
/// was drawn before, and the item's own row, is passed over.
pub(crate) struct Draw(blake3::OutputReader);

impl Draw {
    pub(crate) fn new(seed: u64, id: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"tidemill few-shot 1");
        hasher.update(&seed.to_le_bytes());
        hasher.update(id.as_bytes());
        Self(hasher.finalize_xof())
    }

    /// A number from 0 to `count` - 1; `count` is at least 1.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        let mut bytes = [0; 8];
        self.0.fill(&mut bytes);
        let scaled = u128::from(u64::from_le_bytes(bytes)) * count as u128;
        (scaled >> 64) as usize
    }
}

/// A fault of the examples' file, and where.
type Misplaced = (Place, String);

struct Rendering<'a, 'e> {
    shots: &'a ShotsEntry,
    entry: &'a BenchmarkEntry,
    templates: &'a Templates<'e>,
    form: Option<Forms<'a>>,
}

impl Rendering<'_, '_> {
    fn examples(&self, place: &Place) -> Result<Vec<Example>, Misplaced> {
        let file = &self.shots.data.value;
        let at = |row| {
            let mut place = place.clone();
            place.row = row;
            place
        };
        let rows = file.rows().map_err(|error| (at(error.row), error.message))?;
        let mut gathered = Gathered::of(&self.shots.choice, self.shots.count);
        for row in rows {
            let row = row.map_err(|error| (at(error.row), error.message))?;
            let number = Some(row.number);
            let position = match &self.shots.choice {
                Choice::Ids(ids) => match self.wanted_id(&row, &ids.value) {
                    Ok(Some(position)) if !gathered.positions.contains(&position) => position,
                    Ok(_) => continue,
                    Err(message) => return Err((at(number), message)),
                },
                Choice::First | Choice::Random { .. } => gathered.examples.len(),
            };
            let example = self.example(&row).map_err(|message| (at(number), message))?;
            gathered
                .take(position, example)
                .map_err(|message| (at(number), message))?;
            if gathered.is_enough() {
                break;
            }
        }
        gathered
            .settle(&self.shots.choice, self.shots.count)
            .map_err(|message| {
                let place = match &self.shots.choice {
                    Choice::Ids(ids) => self
                        .entry
                        .place
                        .line(ids.line)
                        .field("few_shot_ids")
                        .data(&file.written, None),
                    Choice::First | Choice::Random { .. } => at(None),
                };
                (place, message)
            })
    }

    /// The place of a row among the ids that are wanted.
    fn wanted_id(&self, row: &Row, ids: &[String]) -> Result<Option<usize>, String> {
        let Some(column) = &self.entry.id else { return Ok(None) };
        let id = column_id(&row.columns, &column.value)?;
        Ok(ids.iter().position(|wanted| *wanted == id))
    }

    fn example(&self, row: &Row) -> Result<Example, String> {
        let context = row_context(row);
        let mut example = Example {
            digest: content_digest(&row.columns),
            text: String::new(),
            turns: Vec::new(),
        };
        if let Some(form) = &self.form {
            match form {
                Forms::Text(template) => {
                    let text = template
                        .render(&context)
                        .map_err(|error| format!("few_shot_prompt: {error}"))?;
                    example.text = format!("{text}{}", self.shots.separator);
                }
                Forms::Turns(turns) => example.turns = render_turns(turns, &context)?,
            }
            return Ok(example);
        }
        let prompt = self.templates.prompt(&context).map_err(|fault| fault.to_string())?;
        let answer = self.templates.answer(&context).map_err(|fault| fault.to_string())?;
        let answer = answer.targets.into_iter().next().unwrap_or_default();
        match prompt {
            Prompt::Text(prompt) => {
                let answer = continuation(&prompt, &answer);
                example.text = format!("{prompt}{answer}{}", self.shots.separator);
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

/// What has been read of the examples so far.
struct Gathered {
    examples: Vec<Example>,
    /// The place that each of them was asked for, for ids.
    positions: Vec<usize>,
    digests: HashSet<String>,
    bytes: usize,
    enough: usize,
}

impl Gathered {
    fn of(choice: &Choice, count: usize) -> Self {
        Self {
            examples: Vec::new(),
            positions: Vec::new(),
            digests: HashSet::new(),
            bytes: 0,
            enough: match choice {
                Choice::First => count.saturating_add(1),
                Choice::Random { .. } => usize::MAX,
                Choice::Ids(ids) => ids.value.len(),
            },
        }
    }

    fn take(&mut self, position: usize, example: Example) -> Result<(), String> {
        if !self.digests.insert(example.digest.clone()) {
            return Ok(());
        }
        self.bytes += example.text.len() + example.turns.iter().map(|turn| turn.content.len()).sum::<usize>();
        if self.bytes > MAX_POOL_BYTES {
            return Err(format!(
                "the examples up to here take more than {} MiB, and all that are drawn from must fit: name a smaller file",
                MAX_POOL_BYTES >> 20
            ));
        }
        self.examples.push(example);
        self.positions.push(position);
        Ok(())
    }

    fn is_enough(&self) -> bool {
        self.examples.len() >= self.enough
    }

    fn settle(self, choice: &Choice, count: usize) -> Result<Vec<Example>, String> {
        if let Choice::Ids(ids) = choice {
            let found: HashMap<usize, Example> = self.positions.into_iter().zip(self.examples).collect();
            let missing = (0..ids.value.len()).find(|position| !found.contains_key(position));
            if let Some(missing) = missing {
                return Err(format!("holds no row with the id {:?}", ids.value[missing]));
            }
            let mut found: Vec<(usize, Example)> = found.into_iter().collect();
            found.sort_by_key(|(position, _)| *position);
            return Ok(found.into_iter().map(|(_, example)| example).collect());
        }
        if self.examples.len() < count {
            let found = self.examples.len();
            return Err(format!("holds {found} different rows where few_shot wants {count}"));
        }
        Ok(self.examples)
    }
}

/// An example's own templates, compiled.
enum Forms<'e> {
    Text(Template<'e>),
    Turns(Vec<(&'e str, Template<'e>)>),
}

impl<'e> Forms<'e> {
    fn compile(
        environment: &'e Environment<'e>,
        shots: &'e ShotsEntry,
    ) -> Result<Option<Self>, (&'static str, String)> {
        let Some(form) = shots.form.as_ref().map(|form| &form.value) else {
            return Ok(None);
        };
        let failed = |message| (form.field(), message);
        Ok(Some(match form {
            Form::Text(source) => Self::Text(Template::text(environment, source).map_err(failed)?),
            Form::Turns(turns) => {
                let turns = turns.iter().map(|turn| {
                    let template = Template::text(environment, &turn.content).map_err(failed)?;
                    Ok((turn.role.as_str(), template))
                });
                Self::Turns(turns.collect::<Result<_, _>>()?)
            }
        }))
    }
}

fn render_turns(turns: &[(&str, Template<'_>)], row: &Value) -> Result<Vec<Message>, String> {
    let render = |((role, template), number): (&(&str, Template<'_>), usize)| {
        let named = |message| format!("few_shot_messages: message {number}: {message}");
        let content = template.render(row).map_err(named)?;
        if content.is_empty() {
            return Err(named("is empty".to_owned()));
        }
        Ok(Message {
            role: (*role).to_owned(),
            content,
        })
    };
    turns.iter().zip(1..).map(render).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_the_same_for_ever() {
        let draws = |seed, id| {
            let mut draw = Draw::new(seed, id);
            (0..8).map(|_| draw.below(100)).collect::<Vec<_>>()
        };
        // Computed by another implementation of BLAKE3, from the words of docs/suites.md.
        assert_eq!(draws(0, "q1"), [35, 90, 14, 12, 97, 60, 19, 7]);
        assert_eq!(draws(1, "q1"), [71, 28, 44, 78, 11, 43, 35, 16]);
        assert_eq!(draws(0, "q2"), [50, 21, 32, 28, 79, 34, 59, 65]);
    }

    #[test]
    fn every_example_is_drawn_about_as_often() {
        let mut counts = [0; 10];
        for item in 0..2_000 {
            counts[Draw::new(7, &item.to_string()).below(10)] += 1;
        }
        assert!(counts.iter().all(|count| (140..260).contains(count)), "{counts:?}");
    }
}
