//! One check an instruction.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::arguments::{Arguments, Wanted, compile};
use crate::python::{is_lower, is_space, is_upper, split, stripped};
use crate::{Error, language_of, sentences, tokens};

#[derive(Debug, Clone)]
pub(super) enum Check {
    /// Each is found.
    Keywords(Vec<Regex>),
    /// None is found.
    Forbidden(Vec<Regex>),
    /// Found often enough, or not too often.
    Frequency(Regex, Wanted),
    Letter(char, Wanted),
    Language(String),
    Sentences(Wanted),
    Words(Wanted),
    CapitalWords(Wanted),
    /// Parts between `***`.
    Paragraphs(usize),
    FirstWord {
        paragraphs: usize,
        nth: usize,
        word: String,
    },
    Placeholders(usize),
    Postscript(Regex),
    Bullets(usize),
    ConstrainedResponse,
    Highlights(usize),
    Sections(Regex, usize),
    Json,
    Title,
    TwoResponses,
    /// Lower case.
    BeginsWith(String),
    /// Lower case.
    EndsWith(String),
    Quotation,
    Capital,
    Lowercase,
    NoComma,
}

struct Patterns {
    placeholder: Regex,
    star: Regex,
    hyphen: Regex,
    highlight: Regex,
    double_highlight: Regex,
    divider: Regex,
    title: Regex,
    word: Regex,
}

/// A test uses each; `None` would be a pattern of our own that does not compile.
static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    Some(Patterns {
        placeholder: compile(r"\[.*?\]").ok()?,
        star: compile(r"^[\s\x1c-\x1f]*\*[^\*].*$").ok()?,
        hyphen: compile(r"^[\s\x1c-\x1f]*-.*$").ok()?,
        highlight: compile(r"\*[^\n\*]*\*").ok()?,
        double_highlight: compile(r"\*\*[^\n\*]*\*\*").ok()?,
        divider: compile(r"[\s\x1c-\x1f]?\*\*\*[\s\x1c-\x1f]?").ok()?,
        word: compile(r"\w+").ok()?,
        title: compile(r"<<[^\n]+>>").ok()?,
    })
});

const RESPONSES: [&str; 3] = ["My answer is yes.", "My answer is no.", "My answer is maybe."];

impl Check {
    pub(super) fn read(id: &'static str, given: &Map<String, Value>) -> Result<Self, Error> {
        let arguments = Arguments { id, given };
        Ok(match id {
            "keywords:existence" => Self::Keywords(arguments.patterns("keywords", "")?),
            "keywords:forbidden_words" => Self::Forbidden(arguments.patterns("forbidden_words", r"\b")?),
            "keywords:frequency" => Self::Frequency(
                arguments.pattern("keyword", "", "")?,
                arguments.wanted("relation", "frequency")?,
            ),
            "keywords:letter_frequency" => Self::Letter(
                arguments.letter("letter")?,
                arguments.wanted("let_relation", "let_frequency")?,
            ),
            "language:response_language" => Self::Language(arguments.text("language")?),
            "length_constraints:number_sentences" => Self::Sentences(arguments.wanted("relation", "num_sentences")?),
            "length_constraints:number_words" => Self::Words(arguments.wanted("relation", "num_words")?),
            "change_case:capital_word_frequency" => {
                Self::CapitalWords(arguments.wanted("capital_relation", "capital_frequency")?)
            }
            "length_constraints:number_paragraphs" => Self::Paragraphs(arguments.count("num_paragraphs")?),
            "length_constraints:nth_paragraph_first_word" => first_word(&arguments)?,
            "detectable_content:number_placeholders" => Self::Placeholders(arguments.count("num_placeholders")?),
            "detectable_content:postscript" => Self::Postscript(postscript(&arguments)?),
            "detectable_format:number_bullet_lists" => Self::Bullets(arguments.count("num_bullets")?),
            "detectable_format:number_highlighted_sections" => Self::Highlights(arguments.count("num_highlights")?),
            "detectable_format:multiple_sections" => Self::Sections(
                // Case counts here.
                arguments.pattern("section_spliter", r"(?-i)\s?", r"\s?\d+\s?")?,
                arguments.count("num_sections")?,
            ),
            "detectable_format:constrained_response" => Self::ConstrainedResponse,
            "detectable_format:json_format" => Self::Json,
            "detectable_format:title" => Self::Title,
            "combination:two_responses" => Self::TwoResponses,
            "combination:repeat_prompt" => Self::BeginsWith(bare(&arguments.text("prompt_to_repeat")?)),
            "startend:end_checker" => Self::EndsWith(bare(&arguments.text("end_phrase")?)),
            "startend:quotation" => Self::Quotation,
            "change_case:english_capital" => Self::Capital,
            "change_case:english_lowercase" => Self::Lowercase,
            _ => Self::NoComma,
        })
    }

    pub(super) fn is_followed_by(&self, text: &str) -> Result<bool, Error> {
        Ok(match self {
            Self::Keywords(keywords) => keywords.iter().all(|keyword| keyword.is_match(text)),
            Self::Forbidden(words) => !words.iter().any(|word| word.is_match(text)),
            Self::Frequency(keyword, wanted) => wanted.is_met_by(keyword.find_iter(text).take(wanted.enough()).count()),
            Self::Letter(letter, wanted) => {
                wanted.is_met_by(text.to_lowercase().chars().filter(|found| found == letter).count())
            }
            Self::Language(language) => is_in(text, language)?,
            Self::Sentences(wanted) => wanted.is_met_by(sentences(text).len()),
            Self::Words(wanted) => wanted.is_met_by(patterns()?.word.find_iter(text).count()),
            Self::CapitalWords(wanted) => wanted.is_met_by(tokens::count(text, is_upper)),
            Self::ConstrainedResponse => RESPONSES.iter().any(|response| stripped(text).contains(response)),
            Self::Postscript(pattern) => pattern.is_match(&text.to_lowercase()),
            Self::Sections(splitter, wanted) => splitter.find_iter(text).take(*wanted).count() >= *wanted,
            Self::FirstWord { paragraphs, nth, word } => begins_paragraph(text, *paragraphs, *nth, word),
            Self::Json => is_json(text),
            Self::TwoResponses => is_two_responses(text),
            Self::BeginsWith(prompt) => stripped(text).to_lowercase().starts_with(prompt.as_str()),
            Self::EndsWith(phrase) => {
                let unquoted = stripped(text).trim_matches('"');
                unquoted.to_lowercase().ends_with(phrase.as_str())
            }
            Self::Quotation => {
                let text = stripped(text);
                text.len() > 1 && text.starts_with('"') && text.ends_with('"')
            }
            Self::Capital => is_upper(text) && is_in(text, "en")?,
            Self::Lowercase => is_lower(text) && is_in(text, "en")?,
            Self::NoComma => !text.contains(','),
            Self::Paragraphs(_) | Self::Placeholders(_) | Self::Bullets(_) | Self::Highlights(_) | Self::Title => {
                self.is_format_of(text, patterns()?)
            }
        })
    }

    fn is_format_of(&self, text: &str, patterns: &Patterns) -> bool {
        match self {
            Self::Paragraphs(wanted) => divided(text, &patterns.divider) == Some(*wanted),
            Self::Placeholders(wanted) => patterns.placeholder.find_iter(text).count() >= *wanted,
            Self::Bullets(wanted) => {
                let bullets = [&patterns.star, &patterns.hyphen].map(|bullet| bullet.find_iter(text).count());
                bullets.iter().sum::<usize>() == *wanted
            }
            Self::Highlights(wanted) => {
                let single = patterns
                    .highlight
                    .find_iter(text)
                    .map(|found| found.as_str().trim_matches('*'));
                let double = patterns.double_highlight.find_iter(text).map(|found| found.as_str());
                let double = double
                    .map(|found| found.strip_prefix("**").unwrap_or(found))
                    .map(|found| found.strip_suffix("**").unwrap_or(found));
                single.chain(double).filter(|found| !stripped(found).is_empty()).count() >= *wanted
            }
            _ => patterns.title.find_iter(text).any(|title| {
                let title = title.as_str().trim_start_matches('<').trim_end_matches('>');
                !stripped(title).is_empty()
            }),
        }
    }
}

fn patterns() -> Result<&'static Patterns, Error> {
    PATTERNS.as_ref().ok_or_else(|| Error::Pattern {
        pattern: "one of the program's own".to_owned(),
        reason: "it does not compile".to_owned(),
    })
}

fn bare(text: &str) -> String {
    stripped(text).to_lowercase()
}

fn first_word(arguments: &Arguments<'_>) -> Result<Check, Error> {
    let (paragraphs, nth) = (arguments.count("num_paragraphs")?, arguments.count("nth_paragraph")?);
    if nth > paragraphs {
        return Err(Error::Argument {
            id: arguments.id,
            argument: "nth_paragraph",
            wanted: "at most num_paragraphs",
            found: nth.to_string(),
        });
    }
    Ok(Check::FirstWord {
        paragraphs,
        nth,
        word: arguments.text("first_word")?.to_lowercase(),
    })
}

/// A postscript begins anywhere; its marker is a pattern, as in the published check.
fn postscript(arguments: &Arguments<'_>) -> Result<Regex, Error> {
    let marker = arguments.text("postscript_marker")?;
    match stripped(&marker) {
        "P.P.S" => compile(r"(?-i)p\.\s?p\.\s?s"),
        "P.S." => compile(r"(?-i)p\.\s?s\."),
        other => compile(&format!(r"(?-i){}.*$", other.to_lowercase())),
    }
}

/// A text that tells no language is taken to be in any.
fn is_in(text: &str, language: &str) -> Result<bool, Error> {
    Ok(language_of(text)?.is_none_or(|found| found == language))
}

/// How many paragraphs there are; `None` when one between two others is empty.
fn divided(text: &str, divider: &Regex) -> Option<usize> {
    let is_empty: Vec<bool> = divider.split(text).map(|part| stripped(part).is_empty()).collect();
    let last = is_empty.len() - 1;
    let mut count = is_empty.len();
    for (index, _) in is_empty.iter().enumerate().filter(|(_, is_empty)| **is_empty) {
        if index != 0 && index != last {
            return None;
        }
        count -= 1;
    }
    Some(count)
}

fn begins_paragraph(text: &str, wanted: usize, nth: usize, word: &str) -> bool {
    let paragraphs: Vec<&str> = text.split("\n\n").map(stripped).collect();
    let count = paragraphs.iter().filter(|paragraph| !paragraph.is_empty()).count();
    if nth > count || count != wanted {
        return false;
    }
    let paragraph = paragraphs.get(nth - 1);
    let Some(first) = paragraph.and_then(|paragraph| split(paragraph).next()) else {
        return false;
    };
    let first = first.trim_start_matches('\'').trim_start_matches('"');
    let end = first.find(['.', ',', '?', '!', '\'', '"']).unwrap_or(first.len());
    first[..end].to_lowercase() == word
}

fn is_json(text: &str) -> bool {
    let mut text = stripped(text);
    for fence in ["```json", "```Json", "```JSON", "```"] {
        text = text.strip_prefix(fence).unwrap_or(text);
    }
    let text = text.strip_suffix("```").unwrap_or(text);
    serde_json::from_str::<serde::de::IgnoredAny>(text.trim_matches(is_space)).is_ok()
}

fn is_two_responses(text: &str) -> bool {
    let parts: Vec<&str> = text.split("******").map(stripped).collect();
    let last = parts.len() - 1;
    let is_gap = |(index, part): (usize, &&str)| part.is_empty() && index != 0 && index != last;
    if parts.iter().enumerate().any(is_gap) {
        return false;
    }
    let said: Vec<&&str> = parts.iter().filter(|part| !part.is_empty()).collect();
    matches!(said.as_slice(), [one, other] if one != other)
}
