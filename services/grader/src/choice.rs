//! Family `choice`: a letter or an option's text names one of the choices.
//!
//! The last announced answer counts, because models correct themselves. Only a text that announces none is searched for a line
//! that is nothing but an answer, for a letter that stands alone, then for the options' own words, and there an answer must be
//! the only one: of two letters that are merely mentioned neither is an answer. What is denied ("do not choose B") is none, and
//! of two that are joined ("B or C") neither is.

mod form;
mod visible;

use std::ops::Range;

use tidemill_domain::Item;
use tidemill_maths::{boxes, unwrapped};

use self::form::{Form, Same, continues_word, is_operator, peeled, same, weak_words};
use self::visible::Visible;
use crate::Error;
use crate::anchor::{announced, claimed, is_denied_after, is_denied_before, is_joined, is_shared, joint};
use crate::answer::{Answer, Credit, Finding, trimmed};
use crate::family::Family;
use crate::pattern::Pattern;

const NAME: &str = "choice@3";
const NAMED_OPTION: &str = "named-option@3";

/// Letters that label options when an item does not list their texts.
const MAX_LETTERS: usize = 26;

/// How far before the end of an announcement an option's text may begin, in bytes: its first words may be taken for the
/// announcement's last ones.
const ANNOUNCED_REACH: usize = 64;

/// A letter with more marks around it than this is no answer.
const MAX_DRESSED_BYTES: usize = 256;

/// A longer line is not searched for options' words.
const MAX_LINE_BYTES: usize = 1 << 16;

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
        let steps: [&dyn Fn() -> Said; 5] = [
            &|| self.said_last(text),
            &|| self.whole(text, text, "is all that was answered"),
            &|| self.first_line(text),
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

    /// The last that says anything of: announced answers, boxes, letters claimed to be correct, a last line that is a letter.
    fn said_last(&self, text: &str) -> Said {
        let mut places: Vec<Place> = announced(text)
            .map(|(start, end)| Place::Announced { start, end })
            .chain(claimed(text).map(Place::Claimed))
            .collect();
        if let Some(boxed) = boxes(text).last {
            let start = offset(text, boxed.content);
            let end = start + boxed.content.len();
            places.push(Place::Boxed { start, end });
        }
        if let Some(line) = text.lines().rfind(|line| !is_blank(line))
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
        if is_denied_before(text, start) {
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
        let written = start..start + 1;
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

    /// A part of the text that is an option and nothing else.
    fn whole(&self, text: &str, part: &str, how: &'static str) -> Said {
        let bare = trimmed(part);
        let start = offset(text, bare);
        let written = start..start + bare.len();
        match self.named_by(part) {
            Same::One(index) => Said::Option(Named { index, written, how }),
            Same::Several => Said::Several,
            Same::None => Said::Nothing,
        }
    }

    /// The first line is nothing but an option, and the last one is no other.
    fn first_line(&self, text: &str) -> Said {
        let mut lines = text.lines().filter(|line| !is_blank(line));
        let Some(first) = lines.next() else {
            return Said::Nothing;
        };
        let said = self.whole(text, first, "is all of the first line");
        match (&said, lines.next_back().map(|last| self.named_by(last))) {
            (Said::Option(named), Some(Same::One(index))) if named.index != index => Said::Several,
            _ => said,
        }
    }

    /// The option that the whole text is, marks around it aside: by its letter, or by its text.
    fn named_by(&self, text: &str) -> Same {
        let by_text = same(&self.forms, text);
        let Some(letter) = self.bare_letter(text) else {
            return by_text;
        };
        match by_text {
            Same::One(index) if index != letter => self.letter_or_text(text, peeled(text), letter, index),
            _ => Same::One(letter),
        }
    }

    /// Of a letter that labels one option and is the text of another one: in brackets it is the label, a small one that is written
    /// so is the text, and else there is no telling.
    fn letter_or_text(&self, dressed: &str, letter: &str, label: usize, text: usize) -> Same {
        let is_exact = self.texts.get(text).is_some_and(|option| trimmed(option) == letter);
        let is_label = dressed.contains(')') || dressed.contains(']');
        match (is_exact, letter.starts_with(char::is_lowercase)) {
            (false, _) => Same::One(label),
            (true, _) if is_label => Same::One(label),
            (true, true) => Same::One(text),
            (true, false) => Same::Several,
        }
    }

    /// The whole text is a letter, marks around it aside.
    fn bare_letter(&self, text: &str) -> Option<usize> {
        if text.trim().len() > MAX_DRESSED_BYTES {
            return None;
        }
        let mut letters = peeled(text).chars();
        let letter = letters.next()?;
        letters.next().is_none().then(|| self.letter(letter)).flatten()
    }

    /// The text begins with a letter and a mark that makes it a label: `(B) green`, `B. green`.
    fn heading(&self, text: &str) -> Option<usize> {
        let text = text.trim_start_matches(is_opener);
        let mut letters = text.chars();
        let index = self.letter(letters.next().filter(|letter| letter.is_uppercase())?)?;
        let rest = letters.as_str().trim_start_matches(['}', '*', '_', ' ']);
        rest.starts_with([')', ']', '.', ':']).then_some(index)
    }

    /// What is said at a place: an option's text, which may begin with the announcement's last words and marks, else a letter
    /// that is no part of a word and no article.
    fn at(&self, text: &str, end: usize, reaches_back: bool) -> At {
        let mut starts = if reaches_back {
            starts_before(text, end)
        } else {
            vec![end]
        };
        if text[end..].starts_with('+') && text[end + 1..].starts_with(|next: char| next.is_ascii_digit()) {
            starts.push(end + 1);
        }
        let by_text = |ignores_case: bool| {
            let mut longest: Option<(usize, Range<usize>)> = None;
            let mut is_only = true;
            for start in &starts {
                for (index, form) in self.forms.iter().enumerate() {
                    let Some(length) = form.begins(&text[*start..], ignores_case) else {
                        continue;
                    };
                    let written = *start..*start + length;
                    if written.end < end || written.is_empty() || !is_whole(text, &written, form) {
                        continue;
                    }
                    let rank = |written: &Range<usize>| (written.end, usize::MAX - written.start);
                    match longest.as_ref().map(|(_, longest)| rank(longest).cmp(&rank(&written))) {
                        Some(std::cmp::Ordering::Greater) => {}
                        Some(std::cmp::Ordering::Equal) => is_only = false,
                        _ => (longest, is_only) = (Some((index, written)), true),
                    }
                }
            }
            longest.map(|longest| (longest, is_only))
        };
        let by_text = by_text(false).or_else(|| by_text(true));
        let by_letter = self.letter_at(text, end);
        match (by_text, by_letter) {
            (None, None) => At::Nothing,
            (None, Some((index, written))) => At::Option { index, written },
            (Some(((index, written), _)), Some((letter, label)))
                if letter != index && written.end == label.end && written.len() <= 1 =>
            {
                let after = text[label.end..].chars().next();
                let dressed = if matches!(after, Some(')' | ']')) { ")" } else { "" };
                match self.letter_or_text(dressed, &text[label.clone()], letter, index) {
                    Same::One(index) => At::Option { index, written: label },
                    _ => At::Several,
                }
            }
            (Some((_, false)), _) => At::Several,
            // Of "Answer - 12" nobody knows whether that is a sign.
            (Some(((_, written), _)), _) if is_loosely_signed(&text[written.clone()]) => At::Several,
            (Some(((index, written), true)), _) => At::Option { index, written },
        }
    }

    fn letter_at(&self, text: &str, place: usize) -> Option<(usize, Range<usize>)> {
        let mut letters = text[place..].chars();
        let letter = letters.next()?;
        let index = self.letter(letter)?;
        let rest = letters.as_str();
        let mut next = rest.chars();
        let (first, second) = (next.next(), next.next());
        let goes_on = match first {
            Some('#') => true,
            Some('+') => second == Some('+'),
            Some('-') => second.is_some_and(|second| second.is_ascii_digit()),
            Some('\'' | '’') => continues_word(second),
            first => continues_word(first),
        };
        (!goes_on && !is_article(letter, rest)).then_some((index, place..place + letter.len_utf8()))
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
    fn lists_options(&self, text: &str, place: usize) -> bool {
        let rest = &text[place..];
        let Some(mark) = rest.strip_prefix('A').and_then(|rest| rest.chars().next()) else {
            return false;
        };
        if !matches!(mark, ')' | '.' | ':') {
            return false;
        }
        let mut after = rest[2..].trim_start();
        if let Some(first) = self.forms.first() {
            match first.begins(after, true) {
                Some(length) => after = &after[length..],
                None => return false,
            }
            let after = after.trim_start_matches(|letter: char| letter.is_whitespace() || ",;.(*".contains(letter));
            return after.strip_prefix('B').is_some_and(|after| after.starts_with(mark));
        }
        // Without their texts it takes three of them.
        ["B", "C"].iter().all(|letter| {
            let label = format!("{letter}{mark}");
            let found = after.match_indices(&label).find(|(at, _)| {
                let before = after[..*at].chars().next_back();
                before.is_none_or(|before| before.is_whitespace() || before == '(')
            });
            let found = found.map(|(at, _)| at + label.len());
            after = &after[found.unwrap_or(0)..];
            found.is_some()
        })
    }

    fn letter(&self, letter: char) -> Option<usize> {
        let index = match letter {
            'a'..='z' => letter as usize - 'a' as usize,
            'A'..='Z' => letter as usize - 'A' as usize,
            'Ａ'..='Ｚ' => letter as usize - 'Ａ' as usize,
            _ => return None,
        };
        (index < self.letters()).then_some(index)
    }

    /// The only letter that is set apart and not denied: `(C)`, `[C]`, `**C**`, or `C)`, `C.`, `C:` at the start of a line.
    fn mentioned_alone(&self, text: &str) -> Said {
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
    fn words_in_last_line(&self, text: &str) -> Said {
        let Some(last) = text.lines().rfind(|line| !is_blank(line)) else {
            return Said::Nothing;
        };
        if last.len() > MAX_LINE_BYTES {
            return Said::Nothing;
        }
        let line = weak_words(last);
        let occurring: Vec<(usize, &[String])> = self
            .forms
            .iter()
            .map(Form::weak)
            .enumerate()
            .filter(|(_, option)| {
                place_in(&line, option).is_some() && !matches!(option, [word] if word == "a" || word == "i")
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

/// What stands at a place.
enum At {
    Nothing,
    Option { index: usize, written: Range<usize> },
    Several,
}

enum Joined {
    Alone,
    Several,
    /// Every option: that is the question and no answer.
    All,
}

fn offset(text: &str, part: &str) -> usize {
    part.as_ptr().addr() - text.as_ptr().addr()
}

fn is_opener(mark: char) -> bool {
    mark.is_whitespace() || "([{*_$\\".contains(mark)
}

/// The places from which an option's text may reach past the end of an announcement: its end, and where words and marks before
/// it begin.
fn starts_before(text: &str, end: usize) -> Vec<usize> {
    let mut starts = vec![end];
    for (at, letter) in text[..end].char_indices().rev() {
        if end - at > ANNOUNCED_REACH {
            break;
        }
        let before = text[..at].chars().next_back();
        let is_start = !letter.is_alphanumeric() || !before.is_some_and(char::is_alphanumeric);
        if is_start && !letter.is_whitespace() {
            starts.push(at);
        }
    }
    starts
}

/// The part of the text is an option as it stands there: no part of a number, of a formula, or of a phrase that begins with an
/// article.
fn is_whole(text: &str, written: &Range<usize>, form: &Form) -> bool {
    let (before, option, after) = (&text[..written.start], &text[written.clone()], &text[written.end..]);
    let (Some(first), Some(last)) = (option.chars().next(), option.chars().next_back()) else {
        return false;
    };
    let before = before.chars().next_back();
    let is_signed = |mark: Option<char>| matches!(mark, Some('-' | '\u{2212}' | '\u{2013}' | '.'));
    if first.is_ascii_digit() && is_signed(before) {
        return false;
    }
    if last.is_ascii_digit() && matches!(before, Some('(' | '[' | '{')) {
        // The first of a tuple.
        let next = after.strip_prefix(',').map(str::trim_start);
        if next.is_some_and(|next| next.starts_with(|next: char| next.is_ascii_digit() || next == '-')) {
            return false;
        }
    }
    let rest = after.trim_start_matches([' ', '\t']);
    if !option.chars().any(char::is_alphanumeric) {
        // A mark that is an option is followed by nothing that it may belong to.
        return rest.is_empty() || rest.starts_with(['\n', '\r', '.', ',', ';', ')', '"', '\'', '*', '`', '$', '}']);
    }
    if (last.is_ascii_digit() || form.is_one_character()) && is_operand(rest, form.is_one_character()) {
        return false;
    }
    !(form.is_one_character() && matches!(first, 'a' | 'A' | 'I') && is_article(first, after))
}

/// White space stands between a minus sign and its number.
fn is_loosely_signed(option: &str) -> bool {
    let number = option.strip_prefix(['-', '\u{2212}']).unwrap_or_default();
    number.starts_with(char::is_whitespace) && number.trim_start().starts_with(|next: char| next.is_ascii_digit())
}

/// An operator and another operand: the option is the beginning of a formula.
fn is_operand(rest: &str, is_one_character: bool) -> bool {
    let mut letters = rest.chars();
    let Some(operator) = letters.next() else {
        return false;
    };
    let is_operator = matches!(operator, '*' | '-' | '\u{2212}' | '×' | '÷' | '·' | '≤' | '≥')
        || (is_operator(operator) && operator != '|' && operator != '#' && (operator != '=' || is_one_character));
    if !is_operator {
        return false;
    }
    let next = letters.as_str().trim_start_matches([' ', '\t']);
    let mut letters = next.chars();
    letters.next().is_some_and(|next| next.is_ascii_digit() || next == '(')
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

fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// "The answer is a car", "A car moves", "I think": a small letter, an A or an I before a further word names no option,
/// unless that word gives a reason.
fn is_article(letter: char, rest: &str) -> bool {
    const REASONS: [&str; 10] = [
        "because", "since", "as", "and", "for", "is", "due", "which", "with", "given",
    ];
    if !(letter.is_lowercase() || matches!(letter, 'A' | 'I')) {
        return false;
    }
    let after = rest.trim_start_matches([' ', '\t']);
    if after.len() == rest.len() || !after.starts_with(char::is_lowercase) {
        return false;
    }
    let end = after
        .find(|letter: char| !letter.is_alphanumeric())
        .unwrap_or(after.len());
    !REASONS.contains(&&after[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::tests::item;

    const CITIES: [&str; 4] = ["Paris", "New York", "York", "a car"];

    fn find(text: &str) -> Option<String> {
        find_with(None, text)
    }

    fn find_with(pattern: Option<&str>, text: &str) -> Option<String> {
        let choice = Choice::try_new(pattern).unwrap();
        choice
            .judge(&item(&["B"], &CITIES), &Answer::whole(text))
            .unwrap()
            .map(|finding| finding.extracted)
    }

    fn assert_finds(cases: &[(&str, &str)]) {
        for (text, letter) in cases {
            assert_eq!(find(text).as_deref(), Some(*letter), "{text}");
        }
    }

    fn assert_finds_none(cases: &[&str]) {
        for text in cases {
            assert_eq!(find(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_announced_answer_counts() {
        assert_finds(&[
            ("Answer: A ... wait ... **Answer: D**", "D"),
            ("The answer is B because a car moves", "B"),
            ("Answer: A\nFinal answer: option (C). It was not B.", "C"),
            ("**Answer:** (b)\n", "B"),
            ("The correct answer is **D**, not A.", "D"),
            ("The answer is A because of this", "A"),
            ("I choose C since it fits", "C"),
            ("Answer: the answer is\n\nD", "D"),
            ("(B) is the correct answer", "B"),
            ("Answer: A. No, B is correct.", "B"),
        ]);
    }

    #[test]
    fn answers_are_announced_in_many_languages() {
        assert_finds(&[
            ("Antwort: C", "C"),
            ("答案：C", "C"),
            ("所以答案是C项。", "C"),
            ("Die richtige Antwort lautet B.", "B"),
            ("La réponse est (D).", "D"),
            ("La respuesta correcta es: Respuesta: C", "C"),
            ("La respuesta correcta es C.", "C"),
            ("La risposta corretta è la B.", "B"),
            ("Ответ: C", "C"),
            ("答えはＣです", "C"),
            ("정답은 C입니다", "C"),
            ("\u{200f}الإجابة: C\u{200f}", "C"),
        ]);
    }

    #[test]
    fn an_article_is_no_answer() {
        assert_finds_none(&[
            "To answer a question like this needs thought",
            "The answer is a matter of taste",
            "The answer: A dog would know",
            "Answer: I think so",
        ]);
        assert_finds(&[
            ("The answer is a.", "A"),
            ("answer: a", "A"),
            ("Answer: a because it is", "A"),
        ]);
    }

    #[test]
    fn a_letter_is_no_part_of_a_word() {
        assert_finds_none(&[
            "Answer: Because",
            "Answer: B2",
            "The answers: C_x",
            "Answer: Dé",
            "Answer: E",
        ]);
    }

    #[test]
    fn boxes_count_by_their_place() {
        assert_finds(&[
            (r"\boxed{C}", "C"),
            (r"Answer: A, rather $\boxed{\text{D}}$", "D"),
            (r"\boxed{A} but finally: Answer: B", "B"),
            (r"\boxed{New York}", "B"),
            (r"\boxed{A} and \boxed{B", "A"),
        ]);
    }

    #[test]
    fn a_sole_letter_in_any_dress_is_an_answer() {
        assert_finds(&[
            ("C", "C"),
            ("(C)", "C"),
            (" **c**. ", "C"),
            ("C) York", "C"),
            ("\u{200f}C\u{200f}", "C"),
        ]);
        assert_finds(&[("Well, I say (C), that is it", "C"), ("Both times:\n(D) and (D)", "D")]);
        assert_finds_none(&["Either (A) or (B)", "A. one\nB. two", "", "\0", "E"]);
    }

    #[test]
    fn the_text_of_an_option_is_an_answer() {
        assert_finds(&[
            ("Paris", "A"),
            ("paris!", "A"),
            ("The answer is New York.", "B"),
            ("Answer: a car", "D"),
            ("Let me think.\nIt must be New York", "B"),
            ("It is york", "C"),
        ]);
        assert_finds_none(&["Paris or York", "Yorkshire", "Parisian"]);
    }

    #[test]
    fn a_pattern_narrows_the_place() {
        let pattern = Some(r"<answer>(.*?)</answer>");
        assert_eq!(find_with(pattern, "Answer: A <answer>C</answer>").as_deref(), Some("C"));
        assert_eq!(
            find_with(pattern, "<answer>A</answer> <answer>york</answer>").as_deref(),
            Some("C")
        );
        assert_eq!(find_with(pattern, "Answer: A"), None);
    }

    #[test]
    fn the_right_choice_is_an_index_a_letter_or_a_text() {
        let choice = Choice::try_new(None).unwrap();
        let answer = Answer::whole("Answer: B");
        let judge = |item: &Item| {
            let finding = choice.judge(item, &answer);
            finding.map(|finding| finding.unwrap().credit == Credit::Whole(true))
        };
        assert_eq!(judge(&item(&["B"], &CITIES)), Ok(true));
        assert_eq!(judge(&item(&["new york"], &CITIES)), Ok(true));
        assert_eq!(judge(&item(&["C"], &[])), Ok(false));
        let by_index = Item {
            correct_choice: Some(1),
            ..item(&[], &CITIES)
        };
        assert_eq!(judge(&by_index), Ok(true));
        assert!(judge(&item(&["Rome"], &CITIES)).is_err());
        assert!(
            judge(&Item {
                correct_choice: Some(4),
                ..item(&[], &CITIES)
            })
            .is_err()
        );
    }

    const COLOURS: [&str; 4] = ["red", "green", "blue", "pink"];

    fn find_in(options: &[&str], text: &str) -> Option<String> {
        let item = Item {
            correct_choice: Some(0),
            ..item(&[], options)
        };
        let finding = Choice::try_new(None)
            .unwrap()
            .judge(&item, &Answer::whole(text))
            .unwrap();
        finding.map(|finding| finding.extracted)
    }

    fn assert_found(options: &[&str], cases: &[(&str, Option<&str>)]) {
        for (text, letter) in cases {
            assert_eq!(find_in(options, text).as_deref(), *letter, "{options:?}: {text}");
        }
    }

    #[test]
    fn signs_points_and_marks_tell_options_apart() {
        assert_found(
            &["12", "-12"],
            &[
                ("The answer is -12.", Some("B")),
                ("The answer is \u{2212}12.", Some("B")),
                ("The answer is 12.", Some("A")),
                ("Answer - 12", None),
                ("Answer -12", Some("B")),
                ("So it is -12", Some("B")),
            ],
        );
        assert_found(
            &["3", "4"],
            &[
                ("Answer: -3", None),
                ("Answer: +3", Some("A")),
                ("Answer: **3**", Some("A")),
            ],
        );
        assert_found(&["-3", "4"], &[("Answer: -3", Some("A")), ("Answer: 3", None)]);
        assert_found(
            &["15", "1.5"],
            &[
                (r"\boxed{1.5}", Some("B")),
                (r"\boxed{15}", Some("A")),
                ("It is 1.5.", Some("B")),
                ("15.", Some("A")),
            ],
        );
        assert_found(
            &["12", "12.75"],
            &[
                ("Answer: 12.5", None),
                ("Answer: 12.75.", Some("B")),
                ("Answer: 12. It follows.", Some("A")),
                ("Answer: 12 apples", Some("A")),
            ],
        );
        assert_found(
            &["x<3", "x>3"],
            &[
                ("Answer: x > 3", Some("B")),
                (r"\boxed{x<3}", Some("A")),
                ("$x>3$", Some("B")),
            ],
        );
        assert_found(
            &["x<3", "x>4"],
            &[("Answer: x > 3", None), ("x>3", None), ("x < 3.", Some("A"))],
        );
        assert_found(
            &["$150", "$1.50"],
            &[
                (r"\boxed{$1.50}", Some("B")),
                ("The answer is $150.", Some("A")),
                ("Answer: 1.50", Some("B")),
            ],
        );
        assert_found(
            &["12", "1-2", "1/2"],
            &[
                ("Answer: 1-2", Some("B")),
                ("1/2", Some("C")),
                ("Answer: 12", Some("A")),
            ],
        );
        assert_found(
            &["PH", "pH"],
            &[
                ("Answer: pH", Some("B")),
                ("PH", Some("A")),
                ("Answer: ph", None),
                ("ph", None),
            ],
        );
        assert_found(
            &["Java", "C#", "C++", "Go"],
            &[
                ("Answer: C++", Some("C")),
                ("C#", Some("B")),
                ("The answer is C#.", Some("B")),
                ("Answer: C", Some("C")),
            ],
        );
        assert_found(
            &["-", "+"],
            &[
                ("Answer: +", Some("B")),
                ("Answer: -", Some("A")),
                ("-", Some("A")),
                ("Answer - B", Some("B")),
            ],
        );
        assert_found(
            &["1000", "10"],
            &[
                ("Answer: 1,000", Some("A")),
                ("Answer: 1,001", None),
                ("1,000", Some("A")),
                ("We get 1,000.", Some("A")),
            ],
        );
        assert_found(
            &["most likely", "likely"],
            &[("The answer is most likely.", Some("A")), ("Answer: likely", Some("B"))],
        );
    }

    #[test]
    fn an_option_of_one_character_is_announced_like_any_other() {
        assert_found(
            &["1", "2", "3", "4"],
            &[
                ("The answer is 4.\nCheck: 2 + 2 makes it.", Some("D")),
                ("The answer is 2 + 2 = 4.", None),
                ("Answer: 12", None),
                ("Answer: B", Some("B")),
            ],
        );
        assert_found(
            &["x", "y", "z"],
            &[
                ("Answer: x\nbecause y is wrong", Some("A")),
                ("Answer: y", Some("B")),
                ("Answer: x < 3", None),
            ],
        );
        assert_found(
            &["a", "b"],
            &[("The answer is a matter of taste", None), ("Answer: b", Some("B"))],
        );
    }

    #[test]
    fn a_letter_that_is_also_another_options_text_is_none_unless_it_is_dressed() {
        let options = ["C", "C++", "Java"];
        assert_found(
            &options,
            &[
                ("Answer: C", None),
                ("C", None),
                ("Answer: (C)", Some("C")),
                ("(C)", Some("C")),
                ("Answer: C++", Some("B")),
                ("Answer: A", Some("A")),
            ],
        );
        assert_found(&["b", "a"], &[("Answer: a", Some("B")), ("Answer: A", Some("A"))]);
    }

    #[test]
    fn a_first_line_that_is_an_answer_comes_before_words_of_later_ones() {
        assert_found(
            &COLOURS,
            &[
                ("B\n\nIt is not red.", Some("B")),
                ("B\nBecause red is not green.", Some("B")),
                ("green\nBecause it is not red.", Some("B")),
                ("Because of the light.\nIt is green.", Some("B")),
                ("Some say\nA\nbut\nC", Some("C")),
                ("red\nNo, that was wrong.\ngreen", None),
                ("It is not red.", None),
                ("That is not red but green.", Some("B")),
                ("Green is wrong, so red", Some("A")),
            ],
        );
        assert_found(&["Yes", "No"], &[("No, it isn't.", Some("B")), ("Yes", Some("A"))]);
        assert_found(
            &["entailment", "not entailment"],
            &[("It is not entailment", Some("B"))],
        );
    }

    #[test]
    fn what_is_denied_is_no_answer() {
        assert_found(
            &COLOURS,
            &[
                ("Do not choose B. (A) is what I go with.", Some("A")),
                ("(C) is what I'd go with. Do not select A.", Some("C")),
                ("I would never pick A. Answer: C", Some("C")),
                ("I don't think B is correct.", None),
                ("The answer is not B.", None),
                ("Answer: A is wrong.", None),
                ("Answer: A is wrong, B is right", Some("B")),
                ("It is not (A).", None),
                ("Not sure, but I choose B", Some("B")),
                ("I choose B, not A", Some("B")),
                ("I do not know the answer: B", Some("B")),
                ("不选A，选B", Some("B")),
            ],
        );
    }

    #[test]
    fn of_two_joined_answers_neither_counts() {
        assert_found(
            &COLOURS,
            &[
                ("Answer: B or C", None),
                ("Answer: B and C", None),
                ("Answer: A, B", None),
                ("Answer: B/C", None),
                ("Answer: **B** or **C**.", None),
                ("Answer: red or green", None),
                ("The answer is (B) or (C).", None),
                (r"Answer: A, so \boxed{B or C}", None),
                ("B or C", None),
                ("B/C", None),
                ("A or B is correct", None),
                ("Answer: A\nFinal answer: B or C", None),
                ("Answer: B or C. Final answer: C", Some("C")),
                ("Answer: B or C\n\nC", Some("C")),
                ("Answer: B, A is wrong", Some("B")),
                ("Answer: B and a reason", Some("B")),
                ("Answer: B and A is wrong", Some("B")),
                ("Answer: B or rather green", Some("B")),
            ],
        );
        assert_found(
            &["one", "two", "A and B"],
            &[("Answer: A and B", Some("C")), ("Answer: A", Some("A"))],
        );
    }

    #[test]
    fn an_echoed_question_announces_nothing() {
        assert_found(
            &COLOURS,
            &[
                (
                    "Choose the correct option: A) red B) green C) blue D) pink\nC",
                    Some("C"),
                ),
                ("Choose the correct option: A) red B) ..\nC", Some("C")),
                ("Choose the correct option:\nA) red\nB) green\nC) blue\nD) pink", None),
                ("Choose A, B, C or D.\nB", Some("B")),
                ("Answer: A) red", Some("A")),
                ("Answer: A) red. B) is too dark.", Some("A")),
            ],
        );
        assert_found(
            &[],
            &[
                ("Pick the best: A. up B. down C. left\nB", Some("B")),
                ("Answer: A. B is down", Some("A")),
            ],
        );
    }

    #[test]
    fn invisible_characters_make_no_difference() {
        for mark in ["\u{200f}", "\u{200b}", "\u{2060}", "\u{ad}", "\u{200d}"] {
            assert_found(
                &COLOURS,
                &[
                    (&format!("Answer:{mark}B"), Some("B")),
                    (&format!("Answer: {mark}B{mark}."), Some("B")),
                    (&format!("{mark}B{mark}\n\nIt is not red."), Some("B")),
                    (&format!("Answer: gr{mark}een"), Some("B")),
                    (&format!("Answer:{mark}E"), None),
                ],
            );
        }
        let text = "\u{200f}Answer:\u{200b} gr\u{ad}een.";
        let finding = Choice::try_new(None).unwrap();
        let finding = finding
            .judge(&item(&["B"], &COLOURS), &Answer::whole(text))
            .unwrap()
            .unwrap();
        let span = finding.span.unwrap();
        let written = &text[usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()];
        assert_eq!(written, "gr\u{ad}een");
    }

    #[test]
    fn more_words_announce() {
        for text in [
            "Ans: B",
            "Ans. B",
            "It must be B.",
            "I'd go with B.",
            "I am going with (B)",
            "选B",
            "应选择B。",
            "正确选项是B",
            "پاسخ: B",
            "پاسخ صحیح B است",
            "คำตอบ: B",
            "คำตอบคือ B",
            "Răspuns: B",
            "Vastaus: B",
            "Válasz: B",
            "התשובה היא B",
            "Poprawna odpowiedź to B",
            "উত্তরঃ B",
            "Jibu: B",
            "الإجابة الصحيحة هي: B",
        ] {
            assert_found(&COLOURS, &[(text, Some("B"))]);
        }
        assert_found(
            &COLOURS,
            &[
                ("To answer to B is hard", None),
                ("选项A是错的", None),
                ("It must be a bee", None),
                ("Answers B2", None),
            ],
        );
    }
}
