//! What a text says outright: answers that are announced, boxed, all of the last line, or called the answer. The last of them
//! counts.

use std::ops::Range;

use tidemill_maths::{boxes, unwrapped};

use super::alone::is_blank;
use super::echo::Lead;
use super::form::{Same, peeled};
use super::place::At;
use super::{Named, Options, Said, is_opener, offset};
use crate::anchor::{
    Joint, announced, are_denied, is_asked, is_denied_after, is_denied_before, is_joined, is_of_others,
    is_wrong_before, joint, without_lead,
};

/// Places where an answer is said, by what kind of place they are.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// An announcement that begins at `start`; what it announces begins at `end`.
    Announced { start: usize, end: usize },
    /// The content of the last box.
    Boxed { start: usize, end: usize },
    /// The last line, which is a letter and nothing else.
    Line { start: usize, end: usize },
}

impl Place {
    const fn order(self) -> usize {
        match self {
            Self::Announced { end, .. } => end,
            Self::Boxed { start, .. } | Self::Line { start, .. } => start,
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
    /// The last that says anything of announced answers, boxes and a last line that is a letter, unless a claim behind it stands
    /// against it.
    pub(super) fn said_last(&self, text: &str) -> Said {
        let (from, said) = self.said_outright(text);
        match self.claimed_against(text, from) {
            Said::Nothing => said,
            claimed => claimed,
        }
    }

    /// What is said outright last, and behind which place.
    fn said_outright(&self, text: &str) -> (usize, Said) {
        let mut places: Vec<Place> = announced(text)
            .map(|(start, end)| Place::Announced { start, end })
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
            && peeled(unwrapped(line)).chars().all(char::is_uppercase)
        {
            let start = offset(text, line);
            let end = start + line.len();
            places.push(Place::Line { start, end });
        }
        places.sort_by_key(|place| place.order());
        for place in places.into_iter().rev() {
            let said = match place {
                Place::Announced { start, end } => self.announced(text, start, end),
                Place::Boxed { start, end } => self.boxed(text, start..end),
                Place::Line { start, end } => self.whole(text, &text[start..end], "is all of the last line"),
            };
            if !matches!(said, Said::Nothing) {
                return (place.order(), said);
            }
        }
        (0, Said::Nothing)
    }

    fn announced(&self, text: &str, start: usize, end: usize) -> Said {
        if is_denied_before(text, start) || is_wrong_before(text, start) || is_of_others(text, start) {
            return Said::Nothing;
        }
        let (index, written) = match self.at(text, end, true) {
            At::Nothing => return Said::Nothing,
            At::Several => return Said::Several,
            At::Option { index, written } => (index, written),
        };
        let lead = if is_asked(text, end) {
            Lead::Question
        } else {
            Lead::Answer
        };
        if is_denied_after(text, written.end) || self.lists_options(text, end, lead) {
            return Said::Nothing;
        }
        let how = "was announced last";
        match self.joined(text, index, &written) {
            Joined::Alone => Said::Option(Named { index, written, how }),
            Joined::Several => Said::Several,
            Joined::All => Said::Nothing,
        }
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
        let mut joints = Vec::new();
        while let Some((joint, next)) = joint(text, end) {
            let At::Option { index: other, written } = self.at(text, next, false) else {
                break;
            };
            if !is_joined(text, written.end, joint) {
                break;
            }
            joints.push((joint, &text[end..next]));
            end = written.end;
            if !seen.contains(&other) {
                seen.push(other);
            }
        }
        match seen.len() {
            1 => Joined::Alone,
            _ if self.are_others(text, index, end, &joints) => Joined::Alone,
            named if named > 2 && named == self.texts.len() => Joined::All,
            _ => Joined::Several,
        }
    }

    /// What is joined stands apart from the answer, and is denied ("B; A and C are wrong") or what the answer says ("D (A, B, and C)").
    fn are_others(&self, text: &str, index: usize, end: usize, joints: &[(Joint, &str)]) -> bool {
        let Some((_, first)) = joints.first() else {
            return false;
        };
        if first.contains(['(', '[', '-', '–', '—', ';']) && are_denied(text, end) {
            return true;
        }
        let is_bracketed = first.contains('(') && text[end..].starts_with(')');
        let is_list = joints.len() > 1 && joints.iter().all(|(joint, _)| *joint != Joint::Or);
        let says_several = |words: &[String]| {
            const SEVERAL: [&str; 6] = ["all", "both", "above", "and", "every", "each"];
            words.iter().any(|word| SEVERAL.contains(&word.as_str()))
        };
        is_bracketed && is_list && self.forms.get(index).is_none_or(|form| says_several(form.weak()))
    }
}

enum Joined {
    Alone,
    Several,
    /// Every option: that is the question and no answer.
    All,
}
