//! Chains of filters over the answers to one request.
//!
//! A chain starts with the list of answers. `take_first` leaves one of them, which a later filter then takes for a list of
//! its letters: odd, and kept, because scores depend on it.

use serde_json::{Map, Value as Json};

use crate::pattern::{Found, Pattern};
use crate::python;
use crate::task::Pipeline;

/// One filter.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The first answer.
    TakeFirst,
    /// The first answers, this many.
    TakeFirstK(usize),
    /// The answer that is given most often, of several the first.
    MajorityVote,
    /// Without white space at both ends.
    RemoveWhitespace,
    /// In lower case.
    Lowercase,
    /// In upper case.
    Uppercase,
    /// Another value for each.
    Map {
        /// From and to.
        entries: Vec<(Json, Json)>,
        /// Where there is no entry.
        default: Json,
    },
    /// What a pattern finds.
    Regex(RegexStep),
    /// What a pattern finds, else a choice's text, else a letter.
    MultiChoiceRegex(MultiChoice),
}

/// Finds an answer by a pattern.
#[derive(Debug, Clone)]
pub struct RegexStep {
    /// As written.
    pub source: String,
    pub(crate) pattern: Pattern,
    /// Which of the matches, from the end where negative.
    pub group_select: i64,
    /// Where there is no match.
    pub fallback: Json,
}

impl PartialEq for RegexStep {
    fn eq(&self, other: &Self) -> bool {
        (&self.source, self.group_select, &self.fallback) == (&other.source, other.group_select, &other.fallback)
    }
}

/// Finds a choice.
#[derive(Debug, Clone, PartialEq)]
pub struct MultiChoice {
    /// Looked for first.
    pub regex: RegexStep,
    /// Choices' texts are found without regard to case.
    pub ignore_case: bool,
    /// Choices' texts are found without punctuation.
    pub ignore_punctuation: bool,
    pub(crate) regexes_to_ignore: Vec<(String, Pattern)>,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

/// What a chain has made of the answers so far.
enum Answers {
    Many(Vec<Json>),
    One(Json),
}

/// Which of several answers to one request a chain takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chosen {
    /// The first one.
    First,
    /// The one that is given most often among so many first ones, of several the first.
    Voted(u32),
}

impl Pipeline {
    /// Which of `repeats` answers the chain takes.
    ///
    /// # Errors
    /// It leaves several, or needs more.
    pub fn chosen(&self, repeats: u32) -> Result<Chosen, String> {
        let mut left = repeats;
        for step in &self.steps {
            match step {
                Step::TakeFirst => return Ok(Chosen::First),
                Step::MajorityVote => return Ok(Chosen::Voted(left)),
                Step::TakeFirstK(count) => match u32::try_from(*count) {
                    Ok(count) if (1..=left).contains(&count) => left = count,
                    _ => return Err(format!("take_first_k of {count} does not fit {left} answers of a row")),
                },
                _ => {}
            }
        }
        match left {
            1 => Ok(Chosen::First),
            _ => Err(format!(
                "leaves {left} answers of a row; end it by take_first or majority_vote"
            )),
        }
    }

    /// What the chain makes of one of several answers if that is the one which it takes.
    ///
    /// # Errors
    /// As [`Pipeline::apply`].
    pub fn apply_to_one(&self, answer: &str, row: &Map<String, Json>) -> Result<Json, String> {
        let (before, after) = self.steps.split_at(self.choice());
        let before = before.iter().filter(|step| !matches!(step, Step::TakeFirstK(_)));
        applied(before.chain(after), &[answer.to_owned()], row)
    }

    /// What the chain leaves of most answers, as far as its kind goes: a text, or a list of texts. Nothing where filters give
    /// other values than texts.
    pub(crate) fn likely(&self) -> Option<Json> {
        let are_texts = self.steps.iter().all(|step| match step {
            Step::Map { entries, default } => entries.iter().map(|(_, to)| to).chain([default]).all(Json::is_string),
            Step::Regex(step) => step.fallback.is_string(),
            Step::MultiChoiceRegex(step) => step.regex.fallback.is_string(),
            _ => true,
        });
        let text = Json::String("a".to_owned());
        are_texts.then(|| match self.steps.last() {
            Some(Step::TakeFirst) => text,
            _ => Json::Array(vec![text]),
        })
    }

    /// What an answer votes for; `None` where the chain counts no votes.
    ///
    /// # Errors
    /// As [`Pipeline::apply`].
    pub fn vote(&self, answer: &str, row: &Map<String, Json>) -> Result<Option<Json>, String> {
        let at = self.choice();
        if self.steps.get(at) != Some(&Step::MajorityVote) {
            return Ok(None);
        }
        let before = self.steps[..at]
            .iter()
            .filter(|step| !matches!(step, Step::TakeFirstK(_)));
        applied(before, &[answer.to_owned()], row).map(Some)
    }

    /// The step that takes one of several answers; all before it treat each answer alone.
    fn choice(&self) -> usize {
        let is_choice = |step: &Step| matches!(step, Step::TakeFirst | Step::MajorityVote);
        self.steps.iter().position(is_choice).unwrap_or(self.steps.len())
    }

    /// What the chain makes of the answers to one request. `row` is read by `multi_choice_regex` alone, for its `choices`.
    ///
    /// # Errors
    /// The chain cannot be applied to these answers: lm-evaluation-harness would stop here.
    pub fn apply(&self, answers: &[String], row: &Map<String, Json>) -> Result<Json, String> {
        applied(&self.steps, answers, row)
    }
}

fn applied<'a>(
    steps: impl IntoIterator<Item = &'a Step>,
    answers: &[String],
    row: &Map<String, Json>,
) -> Result<Json, String> {
    let mut answers = Answers::Many(answers.iter().cloned().map(Json::String).collect());
    for step in steps {
        answers = step.apply(answers, row)?;
    }
    Ok(match answers {
        Answers::Many(values) => Json::Array(values),
        Answers::One(value) => value,
    })
}

impl Answers {
    /// The elements that Python iterates over.
    fn elements(self) -> Result<Vec<Json>, String> {
        match self {
            Self::Many(values) | Self::One(Json::Array(values)) => Ok(values),
            Self::One(Json::String(text)) => Ok(text.chars().map(|letter| Json::String(letter.into())).collect()),
            Self::One(other) => Err(format!("a filter is applied to {other}, which is no list")),
        }
    }
}

impl Step {
    fn apply(&self, answers: Answers, row: &Map<String, Json>) -> Result<Answers, String> {
        let values = answers.elements()?;
        let each = |change: &dyn Fn(&str) -> String| {
            let changed = values.iter().map(|value| match value {
                Json::String(text) => Ok(Json::String(change(text))),
                other => Err(format!("a filter of texts is applied to {other}")),
            });
            changed.collect::<Result<Vec<_>, _>>().map(Answers::Many)
        };
        match self {
            Self::TakeFirst => {
                let first = values.into_iter().next();
                first
                    .map(Answers::One)
                    .ok_or_else(|| "take_first is applied to nothing".to_owned())
            }
            Self::TakeFirstK(count) if values.len() < *count => Err(format!(
                "take_first_k needs {count} answers and has {}; raise repeats",
                values.len()
            )),
            Self::TakeFirstK(count) => Ok(Answers::Many(values.into_iter().take(*count).collect())),
            Self::MajorityVote => majority(&values).map(|vote| Answers::Many(vec![vote])),
            Self::RemoveWhitespace => each(&|text| python::strip(text).to_owned()),
            Self::Lowercase => each(&str::to_lowercase),
            Self::Uppercase => each(&str::to_uppercase),
            Self::Map { entries, default } => {
                let of = |value: &Json| match value {
                    Json::Array(_) | Json::Object(_) => Err(format!("map is applied to {value}, which is no key")),
                    value => Ok(python::entry(entries, value).unwrap_or(default).clone()),
                };
                values.iter().map(of).collect::<Result<_, _>>().map(Answers::Many)
            }
            Self::Regex(step) => {
                let found = values.iter().map(|value| step.find(value.as_str().unwrap_or_default()));
                found.collect::<Result<Vec<_>, _>>().map(Answers::Many)
            }
            Self::MultiChoiceRegex(step) => {
                let choices = Choices::of(step, row)?;
                let found = values.iter().map(|value| choices.find(step, value));
                found.collect::<Result<Vec<_>, _>>().map(Answers::Many)
            }
        }
    }
}

fn majority(values: &[Json]) -> Result<Json, String> {
    let mut counts: Vec<(&Json, usize)> = Vec::new();
    for value in values {
        match counts.iter_mut().find(|(known, _)| python::equal(known, value)) {
            Some((_, count)) => *count += 1,
            None => counts.push((value, 1)),
        }
    }
    let mut best: Option<(&Json, usize)> = None;
    for (value, count) in counts {
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((value, count));
        }
    }
    best.map(|(value, _)| value.clone())
        .ok_or_else(|| "majority_vote is applied to nothing".to_owned())
}

impl RegexStep {
    /// What the pattern finds in a text, stripped, or the fallback.
    fn find(&self, text: &str) -> Result<Json, String> {
        match selected(&self.pattern.find_all(text)?, self.group_select)? {
            None => Ok(self.fallback.clone()),
            Some(Found::Text(text)) => Ok(Json::String(python::strip(text).to_owned())),
            Some(Found::Groups(groups)) => match (groups.iter().find(|group| !group.is_empty()), &self.fallback) {
                (Some(group), _) => Ok(Json::String(python::strip(group).to_owned())),
                (None, Json::String(fallback)) => Ok(Json::String(python::strip(fallback).to_owned())),
                (None, other) => Err(format!("the fallback {other} is no text")),
            },
        }
    }
}

fn selected(found: &[Found], select: i64) -> Result<Option<&Found>, String> {
    if found.is_empty() {
        return Ok(None);
    }
    let length = i64::try_from(found.len()).unwrap_or(i64::MAX);
    let at = if select < 0 { select + length } else { select };
    let chosen = usize::try_from(at).ok().and_then(|at| found.get(at));
    chosen
        .map(Some)
        .ok_or_else(|| format!("group_select {select} is outside of {length} matches"))
}

/// The choices of a row as patterns.
struct Choices {
    texts: Pattern,
    letters_by_text: Vec<(String, String)>,
    letters: Pattern,
}

impl Choices {
    fn of(step: &MultiChoice, row: &Map<String, Json>) -> Result<Self, String> {
        let Some(Json::Array(choices)) = row.get("choices") else {
            return Err("multi_choice_regex needs a column choices that holds a list".to_owned());
        };
        let mut texts = Vec::new();
        let mut letters_by_text: Vec<(String, String)> = Vec::new();
        let mut letters = Vec::new();
        for (choice, letter) in choices.iter().zip('A'..) {
            let Json::String(choice) = choice else {
                return Err(format!("choice {choice} is no text"));
            };
            let text = step.ignored(python::strip(choice))?;
            let label = format!("({letter})");
            letters_by_text.retain(|(known, _)| *known != text);
            letters.push(fancy_regex::escape(&letter.to_string()).into_owned());
            letters_by_text.push((text.clone(), label));
            texts.push(text);
        }
        // Longest first, so that a choice which begins another one does not hide it.
        texts.sort_by_key(|text| std::cmp::Reverse(escaped_length(text)));
        let texts: Vec<_> = texts
            .iter()
            .map(|text| fancy_regex::escape(text).into_owned())
            .collect();
        Ok(Self {
            texts: Pattern::verbatim(&texts.join("|"))?,
            letters_by_text,
            letters: Pattern::verbatim(&format!(r":[\s\x1c-\x1f]*({})", letters.join("|")))?,
        })
    }

    fn find(&self, step: &MultiChoice, answer: &Json) -> Result<Json, String> {
        let text = answer.as_str().unwrap_or_default();
        let first = |pattern: &Pattern, text: &str| -> Result<String, String> {
            Ok(match selected(&pattern.find_all(text)?, step.regex.group_select)? {
                None => String::new(),
                Some(Found::Text(text)) => python::strip(text).to_owned(),
                Some(Found::Groups(groups)) => {
                    let group = groups.iter().find(|group| !group.is_empty());
                    group.map(|group| python::strip(group).to_owned()).unwrap_or_default()
                }
            })
        };
        let found = first(&step.regex.pattern, text)?;
        if !found.is_empty() {
            return Ok(Json::String(found));
        }
        let found = first(&self.texts, &step.ignored(text)?)?;
        if !found.is_empty() {
            let letter = self.letters_by_text.iter().find(|(text, _)| *text == found);
            return Ok(Json::String(letter.map_or(found, |(_, letter)| letter.clone())));
        }
        let found = first(&self.letters, text)?;
        if !found.is_empty() {
            return Ok(Json::String(format!("({found})")));
        }
        Ok(step.regex.fallback.clone())
    }
}

impl MultiChoice {
    fn ignored(&self, text: &str) -> Result<String, String> {
        let mut text = text.to_owned();
        for (_, pattern) in &self.regexes_to_ignore {
            text = pattern.replace(&text, "", 0)?;
        }
        if self.ignore_case {
            text = text.to_lowercase();
        }
        if self.ignore_punctuation {
            text.retain(|letter| !python::is_punctuation(letter));
        }
        Ok(text)
    }
}

/// How long a text is once `re.escape` has been at it.
fn escaped_length(text: &str) -> usize {
    let special = "()[]{}?*+-|^$\\.&~# \t\n\r\u{b}\u{c}";
    text.chars()
        .map(|letter| 1 + usize::from(special.contains(letter)))
        .sum()
}
