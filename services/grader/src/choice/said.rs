//! What a text says outright: answers that are announced, called right, boxed, or all of the last line. The last of them counts.

use std::ops::Range;

use tidemill_maths::{boxes, unwrapped};

use super::alone::is_blank;
use super::form::{Same, peeled};
use super::place::At;
use super::{Named, Options, Said, is_opener, offset};
use crate::anchor::{
    announced, claimed, is_denied_after, is_denied_before, is_joined, is_shared, is_wrong_before, joint, without_lead,
};

/// Places where an answer is said, by what kind of place they are.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// An announcement that begins at `start`; what it announces begins at `end`.
    Announced { start: usize, end: usize },
    /// A capital letter that is called right.
    Claimed(usize),
    /// The content of the last box.
    Boxed { start: usize, end: usize },
    /// The last line, which is a letter and nothing else.
    Line { start: usize, end: usize },
}

impl Place {
    const fn order(self) -> usize {
        match self {
            Self::Announced { end, .. } => end,
            Self::Claimed(start) | Self::Boxed { start, .. } | Self::Line { start, .. } => start,
        }
    }
}

/// A line without the marks of a heading: `#### D`.
fn unheaded(line: &str) -> &str {
    let rest = line.trim_start().trim_start_matches('#');
    if rest.starts_with(char::is_whitespace) {
        rest
    } else {
        line
    }
}

impl Options<'_> {
    /// The last that says anything of: announced answers, boxes, letters claimed to be correct, a last line that is a letter.
    pub(super) fn said_last(&self, text: &str) -> Said {
        let mut places: Vec<Place> = announced(text)
            .map(|(start, end)| Place::Announced { start, end })
            .chain(claimed(text).map(Place::Claimed))
            .collect();
        if let Some(boxed) = boxes(text).last {
            let start = offset(text, boxed.content);
            let end = start + boxed.content.len();
            places.push(Place::Boxed { start, end });
        }
        if let Some(line) = text
            .lines()
            .rfind(|line| !is_blank(line))
            .map(|line| without_lead(unheaded(line)))
            && self.bare_letter(line).is_some()
            && peeled(line).chars().all(char::is_uppercase)
        {
            let start = offset(text, line);
            let end = start + line.len();
            places.push(Place::Line { start, end });
        }
        places.sort_by_key(|place| place.order());
        for place in places.into_iter().rev() {
            let said = match place {
                Place::Announced { start, end } => self.announced(text, start, end),
                Place::Claimed(start) => self.claimed(text, start),
                Place::Boxed { start, end } => self.boxed(text, start..end),
                Place::Line { start, end } => self.whole(text, &text[start..end], "is all of the last line"),
            };
            if !matches!(said, Said::Nothing) {
                return said;
            }
        }
        Said::Nothing
    }

    fn announced(&self, text: &str, start: usize, end: usize) -> Said {
        if is_denied_before(text, start) || is_wrong_before(text, start) {
            return Said::Nothing;
        }
        let (index, written) = match self.at(text, end, true) {
            At::Nothing => return Said::Nothing,
            At::Several => return Said::Several,
            At::Option { index, written } => (index, written),
        };
        if is_denied_after(text, written.end) || self.lists_options(text, end) {
            return Said::Nothing;
        }
        let how = "was announced last";
        match self.joined(text, index, &written) {
            Joined::Alone => Said::Option(Named { index, written, how }),
            Joined::Several => Said::Several,
            Joined::All => Said::Nothing,
        }
    }

    fn claimed(&self, text: &str, start: usize) -> Said {
        let Some(index) = text[start..].chars().next().and_then(|letter| self.letter(letter)) else {
            return Said::Nothing;
        };
        if is_denied_before(text, start) {
            return Said::Nothing;
        }
        if is_shared(text, start) {
            return Said::Several;
        }
        let how = "was called right last";
        // The letter may be the last of an option's text: "Vitamin C is the answer".
        let (index, written) = self.ending_at(text, start + 1).unwrap_or((index, start..start + 1));
        Said::Option(Named { index, written, how })
    }

    fn boxed(&self, text: &str, content: Range<usize>) -> Said {
        let inner = unwrapped(&text[content.clone()]);
        let how = "stands in the last box";
        let named = |index| {
            let written = content.clone();
            Said::Option(Named { index, written, how })
        };
        match self.named_by(inner) {
            Same::One(index) => return named(index),
            Same::Several => return Said::Several,
            Same::None => {}
        }
        if let Some(index) = self.heading(inner) {
            return named(index);
        }
        let start = inner.len() - inner.trim_start_matches(is_opener).len();
        if let At::Option { index, written } = self.at(inner, start, false)
            && matches!(self.joined(inner, index, &written), Joined::Several | Joined::All)
        {
            return Said::Several;
        }
        Said::Nothing
    }

    /// Whether other options follow that are named in the same breath.
    fn joined(&self, text: &str, index: usize, written: &Range<usize>) -> Joined {
        let mut seen = vec![index];
        let mut end = written.end;
        while let Some((joint, next)) = joint(text, end) {
            let At::Option { index: other, written } = self.at(text, next, false) else {
                break;
            };
            if !is_joined(text, written.end, joint) {
                break;
            }
            end = written.end;
            if !seen.contains(&other) {
                seen.push(other);
            }
        }
        match seen.len() {
            1 => Joined::Alone,
            named if named > 2 && named == self.texts.len() => Joined::All,
            _ => Joined::Several,
        }
    }

    /// The question's own options, one after the other, and no answer: "A) red B) green".
    pub(super) fn lists_options(&self, text: &str, place: usize) -> bool {
        let rest = &text[place..];
        let mut letters = rest.chars();
        let Some(index) = letters
            .next()
            .filter(char::is_ascii_uppercase)
            .and_then(|letter| self.letter(letter))
        else {
            return false;
        };
        let Some(mark) = letters.next().filter(|mark| matches!(mark, ')' | '.' | ':')) else {
            return false;
        };
        let after = letters.as_str().trim_start();
        if let Some(length) = self.forms.get(index).and_then(|form| form.begins(after, true)) {
            let after =
                after[length..].trim_start_matches(|letter: char| letter.is_whitespace() || ",;.(*".contains(letter));
            return after
                .strip_prefix(&*self.label(index + 1))
                .is_some_and(|after| after.starts_with(mark));
        }
        // Without their texts, or with others, it takes three of them.
        [index + 1, index + 2]
            .iter()
            .try_fold(after, |after, next| labelled(after, &self.label(*next), mark))
            .is_some()
    }
}

/// What stands behind a label that is set apart: `B)`.
fn labelled<'t>(text: &'t str, letter: &str, mark: char) -> Option<&'t str> {
    let label = format!("{letter}{mark}");
    let (at, _) = text.match_indices(&label).find(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|before| before.is_whitespace() || before == '(')
    })?;
    text.get(at + label.len()..)
}

enum Joined {
    Alone,
    Several,
    /// Every option: that is the question and no answer.
    All,
}
