//! Family `choice`: a letter or an option's text names one of the choices.
//!
//! The last announced answer counts, because models correct themselves. Only a text that announces none is searched for a line
//! that is nothing but an answer, for a letter that is called right, for one that stands alone, then for the options' own words,
//! and there an answer must be the only one: of two letters that are merely mentioned neither is an answer. What is denied ("do not choose B") is none, and
//! of two that are joined ("B or C") neither is.

mod alone;
mod claim;
mod echo;
mod form;
mod names;
mod place;
mod said;
mod visible;

use std::ops::Range;

use tidemill_domain::Item;

use self::form::{Form, Same, same};
use self::visible::Visible;
use crate::Error;
use crate::anchor::without_end_marks;
use crate::answer::{Answer, Credit, Finding};
use crate::family::Family;
use crate::pattern::Pattern;

const NAME: &str = "choice@6";
const NAMED_OPTION: &str = "named-option@6";

/// Letters that label options when an item does not list their texts.
const MAX_LETTERS: usize = 26;

#[derive(Debug, Clone)]
pub(crate) struct Choice {
    pattern: Option<Pattern>,
}

impl Choice {
    pub(crate) fn try_new(pattern: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            pattern: pattern.map(Pattern::try_new).transpose()?,
        })
    }
}

impl Family for Choice {
    fn name(&self) -> &'static str {
        NAME
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let options = Options::of(&item.choices);
        let right = options.right(item).ok_or(Error::Target {
            wanted: "one of the choices",
        })?;
        let place = match &self.pattern {
            Some(pattern) => pattern.last(answer.text()),
            None => Some(answer.text()),
        };
        let Some(place) = place else {
            return Ok(None);
        };
        let visible = Visible::of(place);
        Ok(options.find(&visible.text).map(|named| {
            let (said, wanted) = (options.label(named.index), options.label(right));
            Finding::new(NAMED_OPTION, &said, Credit::Whole(named.index == right))
                .at(answer.span(&place[visible.original(&named.written)]))
                .known_as(&said)
                .because(format!("{} {}; {wanted} is right", said, named.how))
        }))
    }
}

/// An option that a text names.
#[derive(Debug, Clone)]
struct Named {
    index: usize,
    /// The part of the text that names it.
    written: Range<usize>,
    how: &'static str,
}

/// What a place in a text says.
#[derive(Debug, Clone)]
enum Said {
    /// Nothing: another place may.
    Nothing,
    Option(Named),
    /// Several options, or one that cannot be told from another: no answer, whatever was said before.
    Several,
}

/// The options of one item, named by their index.
struct Options<'i> {
    texts: &'i [String],
    forms: Vec<Form>,
}

impl<'i> Options<'i> {
    fn of(texts: &'i [String]) -> Self {
        let form = |text: &String| Form::of(&Visible::of(text).text);
        let forms = texts.iter().map(form).collect();
        Self { texts, forms }
    }

    fn right(&self, item: &Item) -> Option<usize> {
        if let Some(index) = item.correct_choice {
            return Some(index as usize).filter(|&index| index < self.letters());
        }
        // A target is a letter first, then the first option of its text: which one is meant is the suite's to say.
        let named = |target: &String| {
            let target = Visible::of(target).text.into_owned();
            let by_text = || match same(&self.forms, &target) {
                Same::One(index) => Some(index),
                Same::Several => self.texts.iter().position(|text| text.trim() == target.trim()),
                Same::None => None,
            };
            self.bare_letter(&target).or_else(by_text)
        };
        item.targets.iter().find_map(named)
    }

    fn letters(&self) -> usize {
        if self.texts.is_empty() {
            MAX_LETTERS
        } else {
            self.texts.len()
        }
    }

    /// The option's letter, or its text past the alphabet.
    fn label(&self, index: usize) -> String {
        match u8::try_from(index)
            .ok()
            .filter(|&index| usize::from(index) < MAX_LETTERS)
        {
            Some(index) => char::from(b'A' + index).to_string(),
            None => self.texts.get(index).cloned().unwrap_or_default(),
        }
    }

    fn find(&self, text: &str) -> Option<Named> {
        let text = without_end_marks(text);
        let steps: [&dyn Fn() -> Said; 7] = [
            &|| self.said_last(text),
            &|| self.whole(text, text, "is all that was answered"),
            &|| self.first_line(text),
            &|| self.claimed_alone(text),
            &|| self.ticked_alone(text),
            &|| self.mentioned_alone(text),
            &|| self.words_in_last_line(text),
        ];
        for step in steps {
            match step() {
                Said::Nothing => {}
                Said::Option(named) => return Some(named),
                Said::Several => return None,
            }
        }
        None
    }
}

fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

fn is_opener(mark: char) -> bool {
    mark.is_whitespace() || "([{*_$\\".contains(mark)
}

#[cfg(test)]
mod tests;
