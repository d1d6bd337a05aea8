//! Reads which solved examples a benchmark wants.

use std::path::Path;

use toml::Value;

use crate::data::DataFile;
use crate::decode::{MessageSource, turns_rule};
use crate::fields::{Fields, Located, any};
use crate::suite::FewShotChoice;
use crate::template;

/// What stands between two examples, and between the last one and the prompt.
const SEPARATOR: &str = "\n\n";

/// The wish for solved examples.
pub(crate) struct ShotsEntry {
    pub(crate) count: usize,
    pub(crate) count_line: usize,
    pub(crate) data: Located<DataFile>,
    pub(crate) choice: Choice,
    /// Templates of an example's own; without them it looks like the prompt.
    pub(crate) form: Option<Located<Form>>,
    pub(crate) separator: String,
}

/// Which rows become examples.
pub(crate) enum Choice {
    /// The first.
    First,
    /// Drawn for each item.
    Random {
        /// From this seed.
        seed: u64,
    },
    /// Those with these ids, in this order.
    Ids(Located<Vec<String>>),
}

/// The templates of one whole example.
pub(crate) enum Form {
    /// Of a text.
    Text(String),
    /// Of turns.
    Turns(Vec<MessageSource>),
}

impl Form {
    /// The field that gives it.
    pub(crate) const fn field(&self) -> &'static str {
        match self {
            Self::Text(_) => "few_shot_prompt",
            Self::Turns(_) => "few_shot_messages",
        }
    }
}

const BESIDE: [&str; 7] = [
    "few_shot_choice",
    "few_shot_seed",
    "few_shot_ids",
    "few_shot_prompt",
    "few_shot_messages",
    "few_shot_separator",
    "few_shot_data",
];

/// Reads every field of examples; `None` where none are wanted, or after reporting why they cannot be had.
pub(crate) fn decode(fields: &mut Fields<'_, '_>, base: &Path) -> Option<ShotsEntry> {
    let count = fields.optional::<u32>("few_shot", any);
    let data = fields.optional::<String>("few_shot_data", |data| DataFile::locate(data, base).map(|_| ()));
    let choice = choice(fields);
    let form = form(fields);
    let separator = separator(fields);
    let ids = match &choice {
        Choice::Ids(ids) => Some((ids.value.len(), ids.line)),
        Choice::First | Choice::Random { .. } => None,
    };
    let count = match (count, ids) {
        (Some(count), Some((ids, _))) if count.value as usize > ids => {
            let message = format!("is {}, but few_shot_ids names {ids}", count.value);
            fields.error("few_shot", count.line, message);
            return None;
        }
        (Some(count), _) => (count.value as usize, count.line),
        (None, Some(ids)) => ids,
        (None, None) => (0, fields.line_of_field("few_shot")),
    };
    if count.0 == 0 {
        warn_of_unused(fields);
        return None;
    }
    if data.is_none() && !fields.gives("few_shot_data") {
        fields.error("few_shot", count.1, "needs few_shot_data, which is missing");
    }
    let data = data?;
    let file = DataFile::locate(&data.value, base).ok()?;
    Some(ShotsEntry {
        count: count.0,
        count_line: count.1,
        data: data.map(|_| file),
        choice,
        form,
        separator,
    })
}

fn choice(fields: &mut Fields<'_, '_>) -> Choice {
    let choice = fields.or_default("few_shot_choice", FewShotChoice::default(), any);
    let seed = fields.optional::<u64>("few_shot_seed", any);
    let ids = fields.optional("few_shot_ids", |ids: &Vec<Value>| read_ids(ids).map(|_| ()));
    if let Some(seed) = &seed
        && choice != FewShotChoice::Random
    {
        let message = "has no effect: only few_shot_choice = \"random\" draws from a seed";
        fields.warn("few_shot_seed", seed.line, message);
    }
    let Some(ids) = ids else {
        return match choice {
            FewShotChoice::First => Choice::First,
            FewShotChoice::Random => Choice::Random {
                seed: seed.map_or(0, |seed| seed.value),
            },
        };
    };
    if fields.gives("few_shot_choice") {
        let message = "cannot stand beside few_shot_choice: the ids are the choice";
        fields.error("few_shot_ids", ids.line, message);
    }
    if fields.raw("id").is_none() {
        let message = "needs id, the column by which examples are found in few_shot_data";
        fields.error("few_shot_ids", ids.line, message);
    }
    Choice::Ids(ids.map(|ids| read_ids(&ids).unwrap_or_default()))
}

fn read_ids(ids: &[Value]) -> Result<Vec<String>, String> {
    let mut read: Vec<String> = Vec::new();
    for id in ids {
        let id = match id {
            Value::String(text) => text.clone(),
            Value::Integer(number) => number.to_string(),
            other => return Err(format!("must hold texts and integers, not {other}")),
        };
        if read.contains(&id) {
            return Err(format!("names {id:?} twice"));
        }
        read.push(id);
    }
    match read.is_empty() {
        true => Err("is empty".to_owned()),
        false => Ok(read),
    }
}

fn form(fields: &mut Fields<'_, '_>) -> Option<Located<Form>> {
    let text = fields.optional("few_shot_prompt", |source: &String| template::check(source));
    let turns = fields.optional("few_shot_messages", |turns: &Vec<MessageSource>| {
        if turns.iter().any(|turn| turn.role == "system") {
            return Err("holds a system message, which stands once, before all examples: use system".to_owned());
        }
        turns_rule(turns, "assistant", "the assistant's, with the answer")
    });
    let (is_text, is_chat) = (fields.raw("prompt").is_some(), fields.raw("messages").is_some());
    for (name, given, other, fitting) in [
        (
            "few_shot_prompt",
            text.is_some(),
            is_chat && !is_text,
            "few_shot_messages",
        ),
        (
            "few_shot_messages",
            turns.is_some(),
            is_text && !is_chat,
            "few_shot_prompt",
        ),
    ] {
        if given && other {
            let line = fields.line_of_field(name);
            fields.error(name, line, format!("does not fit the kind of prompt: use {fitting}"));
        }
    }
    let text = text.filter(|_| is_text).map(|text| text.map(Form::Text));
    text.or(turns.filter(|_| is_chat).map(|turns| turns.map(Form::Turns)))
}

fn separator(fields: &mut Fields<'_, '_>) -> String {
    let separator = fields.optional::<String>("few_shot_separator", any);
    if let Some(separator) = &separator
        && fields.raw("messages").is_some()
    {
        let message = "has no effect: in a chat, examples are turns of their own";
        fields.warn("few_shot_separator", separator.line, message);
    }
    separator.map_or_else(|| SEPARATOR.to_owned(), |separator| separator.value)
}

fn warn_of_unused(fields: &mut Fields<'_, '_>) {
    for name in BESIDE {
        if fields.gives(name) {
            let line = fields.line_of_field(name);
            fields.warn(name, line, "is not used, because few_shot is 0");
        }
    }
}
