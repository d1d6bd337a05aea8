//! What a text that says nothing outright shows: an answer that is all of it or of a line, and one that alone is set apart or named
//! in the last line.

use super::echo::Lead;
use super::form::{Form, Same, weak_words};
use super::{Named, Options, Said, offset};
use crate::anchor::{is_denied_after, is_denied_before, ticked};
use crate::answer::trimmed;

/// A longer line is not searched for options' words.
const MAX_LINE_BYTES: usize = 1 << 16;

impl Options<'_> {
    /// A part of the text that is an option and nothing else.
    pub(super) fn whole(&self, text: &str, part: &str, how: &'static str) -> Said {
        let bare = trimmed(part);
        let start = offset(text, bare);
        let written = start..start + bare.len();
        match self.named_by(part) {
            Same::One(index) => Said::Option(Named { index, written, how }),
            Same::Several => Said::Several,
            Same::None => Said::Nothing,
        }
    }

    /// The first line is nothing but an option, with its label or without, and the last one is no other.
    pub(super) fn first_line(&self, text: &str) -> Said {
        let mut lines = text.lines().filter(|line| !is_blank(line));
        let Some(first) = lines.next() else {
            return Said::Nothing;
        };
        let how = "is all of the first line";
        let said = match self.labelled(first) {
            // It may begin a list of the options.
            Some(index) if lines.clone().find_map(|line| self.heading(line)) == Some(index + 1) => Said::Nothing,
            Some(index) => {
                let bare = trimmed(first);
                let start = offset(text, bare);
                let written = start..start + bare.len();
                Said::Option(Named { index, written, how })
            }
            None => self.whole(text, first, how),
        };
        match (&said, lines.next_back().map(|last| self.named_by(last))) {
            (Said::Option(named), Some(Same::One(index))) if named.index != index => Said::Several,
            _ => said,
        }
    }

    /// The only letter with a tick: `A ❌`, `B ✅`.
    pub(super) fn ticked_alone(&self, text: &str) -> Said {
        let mut named = ticked(text).filter_map(|start| {
            let index = self.letter(text[start..].chars().next()?)?;
            let (written, how) = (start..start + 1, "is the only letter with a tick");
            Some(Named { index, written, how })
        });
        let Some(first) = named.next() else {
            return Said::Nothing;
        };
        if named.all(|other| other.index == first.index) {
            Said::Option(first)
        } else {
            Said::Several
        }
    }

    /// The only letter that is set apart and not denied: `(C)`, `[C]`, `**C**`, or `C)`, `C.`, `C:` at the start of a line.
    pub(super) fn mentioned_alone(&self, text: &str) -> Said {
        let mut only: Option<Named> = None;
        for line in text.lines() {
            let bytes = line.as_bytes();
            let starts = line.len()
                - line
                    .trim_start_matches(|mark: char| mark.is_whitespace() || "([*".contains(mark))
                    .len();
            for (at, &byte) in bytes.iter().enumerate().filter(|(_, byte)| byte.is_ascii_uppercase()) {
                let before = at.checked_sub(1).and_then(|before| bytes.get(before));
                let after = bytes.get(at + 1);
                let is_enclosed = matches!(
                    (before, after),
                    (Some(b'('), Some(b')')) | (Some(b'['), Some(b']')) | (Some(b'*'), Some(b'*'))
                );
                let is_heading = at == starts && matches!(after, Some(b')' | b'.' | b':'));
                if !(is_enclosed || is_heading) {
                    continue;
                }
                let Some(index) = self.letter(char::from(byte)) else {
                    continue;
                };
                if is_heading && self.lists_options(line, at, Lead::Question) {
                    break;
                }
                if is_denied_before(line, at) || is_denied_after(line, at + 1) {
                    continue;
                }
                if only.as_ref().is_some_and(|earlier| earlier.index != index) {
                    return Said::Several;
                }
                let place = offset(text, line) + at;
                let (written, how) = (place..place + 1, "is the only letter set apart");
                only = Some(Named { index, written, how });
            }
        }
        only.map_or(Said::Nothing, Said::Option)
    }

    /// The only option whose words occur in the last line, and are not denied there. An option within a longer one that occurs does
    /// not count.
    pub(super) fn words_in_last_line(&self, text: &str) -> Said {
        let Some(last) = text.lines().rfind(|line| !is_blank(line)) else {
            return Said::Nothing;
        };
        if last.len() > MAX_LINE_BYTES {
            return Said::Nothing;
        }
        let line = weak_words(without_question(last));
        let occurring: Vec<(usize, &[String])> = self
            .forms
            .iter()
            .map(Form::weak)
            .enumerate()
            .filter(|(_, option)| {
                let is_word = matches!(option, [word] if word == "a" || word == "i")
                    || matches!(option, [word] if word == "no" && is_determiner(&line));
                place_in(&line, option).is_some() && !is_word
            })
            .collect();
        let mut longest = occurring.iter().filter(|(index, option)| {
            let is_part = |(other, longer): &(usize, &[String])| {
                other != index && longer.len() > option.len() && place_in(longer, option).is_some()
            };
            !occurring.iter().any(is_part) && !is_denied_in(&line, option)
        });
        let (Some((index, _)), None) = (longest.next(), longest.next()) else {
            return Said::Nothing;
        };
        let (index, last) = (*index, trimmed(last));
        let start = offset(text, last);
        let (written, how) = (start..start + last.len(), "alone has its words in the last line");
        Said::Option(Named { index, written, how })
    }
}

/// A line without the question that it answers: "Is it true? No." Where the answer is "yes", the question says what is so.
fn without_question(line: &str) -> &str {
    let Some((_, answer)) = line.rsplit_once('?') else {
        return line;
    };
    let first = weak_words(answer).into_iter().next();
    match first.as_deref() {
        None | Some("yes") => line,
        Some(_) => answer,
    }
}

/// Each "no" of a line belongs to the word behind it: "I have no idea". One that begins the line, or gives its reason, does not.
fn is_determiner(line: &[String]) -> bool {
    const NOUNS: [&str; 6] = ["idea", "clue", "one", "doubt", "way", "answer"];
    const REASONS: [&str; 5] = ["because", "since", "as", "for", "it"];
    let mut places = (0..line.len()).filter(|at| line[*at] == "no");
    places.all(|at| match line.get(at + 1).map(String::as_str) {
        None => false,
        Some(next) if at == 0 => NOUNS.contains(&next),
        Some(next) => !REASONS.contains(&next),
    })
}

fn place_in(words: &[String], part: &[String]) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    words.windows(part.len()).position(|window| window == part)
}

/// Each time the option's words occur, words around them deny it: "it is not red", "red is wrong".
fn is_denied_in(line: &[String], option: &[String]) -> bool {
    const DENIALS: [&str; 14] = [
        "not", "isnt", "arent", "wasnt", "never", "neither", "nor", "cannot", "cant", "dont", "doesnt", "wouldnt",
        "shouldnt", "without",
    ];
    const ENDS: [&str; 4] = ["but", "rather", "instead", "so"];
    const WRONG: [&str; 6] = ["not", "wrong", "incorrect", "false", "never", "impossible"];
    let is_denied = |at: usize| {
        let before = line[..at].iter().rev().take(3);
        let is_before = before
            .take_while(|word| !ENDS.contains(&word.as_str()))
            .any(|word| DENIALS.contains(&word.as_str()));
        let after: Vec<&str> = line[at + option.len()..].iter().take(2).map(String::as_str).collect();
        let is_after = match after.as_slice() {
            [verb, said] => matches!(*verb, "is" | "was" | "are") && WRONG.contains(said),
            _ => false,
        } || after
            .first()
            .is_some_and(|word| matches!(*word, "isnt" | "cannot" | "cant" | "wasnt"));
        is_before || is_after
    };
    let mut places = (0..line.len().saturating_sub(option.len() - 1)).filter(|at| line[*at..].starts_with(option));
    places.all(is_denied)
}

pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}
