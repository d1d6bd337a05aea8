//! Family `code`: the answer holds a program, which is run in a sandbox and tested.
//!
//! Here is what is run and what that means, which are pure; [`crate::Runners`] runs it.

use std::borrow::Cow;
use std::time::Duration;

use tidemill_domain::{CodeLanguage, CodeLimits, Item, ProgramPlace, Prompt};
use tidemill_sandbox::{Check, Command, Limits, Verdict};

use crate::Error;
use crate::answer::{Answer, Credit, Finding};

pub(crate) const NAME: &str = "code@5";

const FENCED: &str = "fenced-block@4";
const WHOLE: &str = "whole-answer@1";
const CONTINUED: &str = "continuation@1";

/// A benchmark's grader of programs.
#[derive(Debug, Clone)]
pub(crate) struct Code {
    pub(crate) language: CodeLanguage,
    pub(crate) program: ProgramPlace,
    pub(crate) limits: CodeLimits,
}

/// What is run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Python with its tests.
    Check(Check),
    /// A command, and what it must print.
    Command(Command, String),
}

impl Code {
    /// What is run for an answer, and what is known of the answer without; `None` where no program is in it.
    pub(crate) fn task(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<(Task, Finding)>, Error> {
        let names: Vec<&str> = names(item).collect();
        if answer.text().trim().is_empty() {
            return Ok(None);
        }
        let block = match (self.program, &self.language) {
            (ProgramPlace::Fenced, CodeLanguage::Python) => block(answer.text(), &names),
            (ProgramPlace::Fenced, CodeLanguage::Command { .. }) => block(answer.text(), &[]),
            (ProgramPlace::Continued, _) => None,
        };
        let (extractor, raw) = match (self.program, block) {
            (ProgramPlace::Continued, _) => (CONTINUED, answer.text()),
            (ProgramPlace::Fenced, Some(block)) => (FENCED, block.content),
            (ProgramPlace::Fenced, None) => (WHOLE, answer.text()),
        };
        let program = match block {
            Some(block) => unindented(unmarked(block.content), block.indentation),
            None => Cow::Borrowed(unmarked(raw)),
        };
        let finding = Finding::new(extractor, raw, Credit::Whole(false)).at(answer.span(raw));
        let source = format!("{}{program}", self.before(item)?);
        Ok(Some((self.of(source, item, &names)?, finding)))
    }

    fn of(&self, source: String, item: &Item, names: &[&str]) -> Result<Task, Error> {
        let needed = |name: &'static str| item.material(name).ok_or(Error::Material { name });
        let optional = |name: &str| item.material(name).unwrap_or_default();
        match &self.language {
            CodeLanguage::Python if names.is_empty() => Err(Error::Material { name: "entry_point" }),
            CodeLanguage::Python => Ok(Task::Check(Check {
                program: source,
                prelude: optional("prelude").to_owned(),
                tests: needed("tests")?.to_owned(),
                entry_points: names.iter().map(|name| (*name).to_owned()).collect(),
            })),
            CodeLanguage::Command { argv, file } => {
                let command = Command {
                    argv: argv.clone(),
                    files: vec![(file.clone(), source.into_bytes())],
                    input: optional("input").as_bytes().to_vec(),
                };
                Ok(Task::Command(command, needed("expected")?.to_owned()))
            }
        }
    }

    /// What stands before the program. A block begins a line of its own.
    fn before<'i>(&self, item: &'i Item) -> Result<Cow<'i, str>, Error> {
        match (item.material("prefix"), self.program) {
            (Some(prefix), ProgramPlace::Continued) => Ok(prefix.into()),
            (Some(prefix), ProgramPlace::Fenced) => Ok(format!("{prefix}\n").into()),
            (None, ProgramPlace::Fenced) => Ok("".into()),
            (None, ProgramPlace::Continued) => match &item.prompt {
                Prompt::Text(prompt) => Ok(prompt.into()),
                Prompt::Chat(_) => Err(Error::Material { name: "prefix" }),
            },
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits {
            wall: Duration::from_secs(self.limits.wall_seconds.into()),
            cpu: Duration::from_secs(self.limits.cpu_seconds.into()),
            memory_bytes: u64::from(self.limits.memory_mib) << 20,
            ..Limits::default()
        }
    }
}

/// A finding with what the run said, and where it ran.
pub(crate) fn judged(finding: Finding, verdict: &Verdict, level: &str) -> Finding {
    let limit = verdict.limit.map(|limit| format!("{limit}: ")).unwrap_or_default();
    Finding {
        credit: Credit::Whole(verdict.is_right),
        reason: Some(format!("{limit}{} [sandbox: {level}]", verdict.reason)),
        ..finding
    }
}

fn names(item: &Item) -> impl Iterator<Item = &str> {
    let names = item.material("entry_point").unwrap_or_default();
    names.split([',', ' ', '\n', '\t']).filter(|name| !name.is_empty())
}

/// A fenced block of Markdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block<'t> {
    content: &'t str,
    /// Spaces before its fence, which are none of the content's.
    indentation: usize,
}

/// The last block that defines most of the names, for models correct themselves and end with examples of use; else the last that
/// gives one of them a value; else the last. One that is not closed goes on to the end. Blocks are not joined.
fn block<'t>(text: &'t str, names: &[&str]) -> Option<Block<'t>> {
    let blocks: Vec<Block<'_>> = blocks(text)
        .into_iter()
        .filter(|block| !block.content.trim().is_empty())
        .collect();
    let defined = |block: &Block<'_>| {
        let counted = |rule: fn(&str, usize, &str) -> bool| {
            let is_there = |name: &&&str| {
                let mut lines = unmarked(block.content)
                    .lines()
                    .map(|line| depth(line, block.indentation));
                lines.any(|(line, depth)| rule(line, depth, name))
            };
            names.iter().filter(is_there).count()
        };
        match counted(defines) {
            0 => (0, counted(sets)),
            definitions => (definitions, 0),
        }
    };
    blocks.iter().max_by_key(|block| defined(block)).copied()
}

/// A program without the mark of byte order that some editors put before a file, and models then repeat.
fn unmarked(program: &str) -> &str {
    program.strip_prefix('\u{feff}').unwrap_or(program)
}

/// A line without its indentation, and how much of that is more than the fence has.
fn depth(line: &str, fence: usize) -> (&str, usize) {
    let rest = line.trim_start_matches(BLANK);
    (rest, (line.len() - rest.len()).saturating_sub(fence))
}

/// `def name(`, `async def name(`, `class name`: at any depth, for definitions may stand under a condition.
fn defines(line: &str, _depth: usize, name: &str) -> bool {
    let plain = after(line, "async").unwrap_or(line);
    let rest = after(plain, "def").or_else(|| after(plain, "class"));
    rest.and_then(|rest| rest.strip_prefix(name))
        .is_some_and(|rest| rest.trim_start_matches(BLANK).starts_with(['(', ':', '[']))
}

const BLANK: [char; 2] = [' ', '\t'];

/// What stands after a word and some space.
fn after<'l>(line: &'l str, word: &str) -> Option<&'l str> {
    let rest = line.strip_prefix(word)?;
    rest.starts_with(BLANK).then(|| rest.trim_start_matches(BLANK))
}

/// `name = ` or `name: type = `, where no block is open.
fn sets(line: &str, depth: usize, name: &str) -> bool {
    let Some(rest) = line.strip_prefix(name).map(|rest| rest.trim_start_matches(BLANK)) else {
        return false;
    };
    let value = match rest.strip_prefix(':') {
        Some(annotated) => annotated.split_once('=').map(|(_, value)| value),
        None => rest.strip_prefix('='),
    };
    depth == 0 && value.is_some_and(|value| !value.starts_with('='))
}

fn blocks(text: &str) -> Vec<Block<'_>> {
    let mut found = Vec::new();
    let mut open: Option<(Fence, usize)> = None;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        match (&open, fence(line)) {
            (None, Some(fence)) => open = Some((fence, end)),
            (Some((opening, from)), Some(closing)) if closing.closes(opening) => {
                found.push(Block {
                    content: &text[*from..start],
                    indentation: opening.indentation,
                });
                open = None;
            }
            _ => {}
        }
        start = end;
    }
    if let Some((opening, from)) = open {
        found.push(Block {
            content: &text[from..],
            indentation: opening.indentation,
        });
    }
    found
}

struct Fence {
    letter: char,
    length: usize,
    indentation: usize,
    is_bare: bool,
}

/// Spaces that a closing fence may have more than the opening one; with more it is a line of the content.
/// Source: CommonMark 0.31, section 4.5.
const DEEPEST: usize = 3;

/// Marks of the end of a turn, which an engine that does not know them for such leaves where they stand: behind the last fence.
const ENDS: [&str; 4] = ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "</s>"];

impl Fence {
    fn closes(&self, opening: &Self) -> bool {
        let is_indented = self.indentation > opening.indentation + DEEPEST;
        self.is_bare && !is_indented && self.letter == opening.letter && self.length >= opening.length
    }
}

fn fence(line: &str) -> Option<Fence> {
    let line = unmarked(line);
    let content = line.trim_start_matches(' ');
    let letter = content.chars().next().filter(|letter| matches!(letter, '`' | '~'))?;
    let rest = content.trim_start_matches(letter);
    let length = content.len() - rest.len();
    (length >= 3 && !rest.contains('`')).then(|| Fence {
        letter,
        length,
        indentation: line.len() - content.len(),
        is_bare: is_bare(rest),
    })
}

/// Nothing but marks of the end of a turn.
fn is_bare(rest: &str) -> bool {
    let mut rest = rest.trim();
    while let Some(after) = ENDS.iter().find_map(|end| rest.strip_prefix(end)) {
        rest = after.trim_start();
    }
    rest.is_empty()
}

/// A block's lines without the indentation of its fence.
fn unindented(content: &str, indentation: usize) -> Cow<'_, str> {
    if indentation == 0 {
        return Cow::Borrowed(content);
    }
    let lines = content.split_inclusive('\n').map(|line| {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        &line[spaces.min(indentation)..]
    });
    Cow::Owned(lines.collect())
}

#[cfg(test)]
#[path = "code_tests.rs"]
mod tests;
