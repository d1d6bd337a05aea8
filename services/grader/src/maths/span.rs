//! How far an answer reaches that a formula between LaTeX's marks begins: over others that are joined to it, and over its unit.

use std::ops::Range;
use std::sync::LazyLock;

use ::regex::Regex;
use tidemill_maths::{is_measure, last_formula, power_of_ten};

use crate::number::{Place, last_number};

/// Where a formula ends that is looked for at the beginning of a line, and the longest beginning of a sentence, in bytes.
const MAX_BYTES: usize = 400;
/// Formulas that are joined; nobody writes more.
const MAX_JOINED: usize = 32;

/// The marks between which formulas stand, longer ones first.
const OPENING: [&str; 4] = ["$$", "$", r"\(", r"\["];
const CLOSING: [&str; 4] = ["$$", "$", r"\)", r"\]"];

/// Where the formula stands that a line begins with, marks aside.
pub(super) fn at_start(line: &str) -> Option<Range<usize>> {
    let closes = line.match_indices(['$', ')', ']']).map(|(at, mark)| at + mark.len());
    closes.take(64).take_while(|end| *end < MAX_BYTES).find_map(|end| {
        let range = last_formula(&line[..end])?;
        let is_first = line[..range.start]
            .chars()
            .all(|letter| letter.is_whitespace() || r"$\([*_".contains(letter));
        (is_first && !is_suffix(&line[range.clone()])).then_some(range)
    })
}

/// A formula at the beginning of a line with the sign before its marks: `negative $3$`, `-$3$`.
pub(super) fn signed(line: &str) -> Option<&str> {
    static SIGN: LazyLock<Regex> = LazyLock::new(|| super::compile(r"(?i)^[*_\s]*((?:negative|minus)\s+|[-−]|±\s?)"));
    let sign = SIGN.captures(line)?.get(1)?;
    let rest = &line[sign.end()..];
    // A dash and a space begin an entry of a list.
    let range = at_start(rest).filter(|_| !rest.starts_with(char::is_whitespace))?;
    let written = with_following(rest, range);
    let end = written.as_ptr().addr() - line.as_ptr().addr() + written.len();
    Some(&line[sign.start()..after_marks(line, end)])
}

/// Nothing but what belongs to the number before it: an exponent, a percent or degree sign, a unit.
pub(super) fn is_suffix(formula: &str) -> bool {
    static SUFFIX: LazyLock<Regex> = LazyLock::new(|| {
        super::compile(concat!(
            r"^\s*(?:\^\s*(?:\{[^{}]*\}|\\circ|\\degree|-?\d+|.)|\\?%|\\circ|\\degree|°)\s*(?:[CF]|\\(?:text|mathrm)\{[^{}]*\})?\s*$",
            r"|^\s*\\(?:text|mathrm|textrm|mbox|rm)\s*\{[~\s]*([^{}]*)\}(?:\s*\^\s*(?:\{-?\d\}|-?\d))?\s*$",
        ))
    });
    SUFFIX.captures(formula).is_some_and(|found| match found.get(1) {
        Some(words) => words.as_str().split([' ', '/', '^', '~']).any(is_measure),
        None => true,
    })
}

/// A variable and nothing else.
pub(super) fn is_letter(formula: &str) -> bool {
    static LETTER: LazyLock<Regex> = LazyLock::new(|| {
        super::compile(
            r"^\s*(?:[a-zA-Z]|\\(?:alpha|beta|gamma|delta|epsilon|varepsilon|theta|lambda|mu|rho|sigma|tau|phi|varphi|omega|ell))(?:_(?:\w|\{\w+\}))?'*\s*$",
        )
    });
    LETTER.is_match(formula)
}

/// A variable, or a condition that begins with one.
pub(super) fn is_of_letter(formula: &str) -> bool {
    const RELATIONS: [&str; 10] = ["=", "<", ">", r"\le", r"\ge", r"\lt", r"\gt", r"\in", "≤", "≥"];
    let first = RELATIONS.iter().filter_map(|relation| formula.find(relation)).min();
    is_letter(&formula[..first.unwrap_or(formula.len())])
}

/// A suffix between marks with the number or the formula that it belongs to; `None` where there is none.
pub(super) fn with_suffix(text: &str, suffix: Range<usize>) -> Option<&str> {
    static GAP: LazyLock<Regex> = LazyLock::new(|| {
        super::compile(r"^[*_\s~]*(?:(?:(?:sq|square|cubic|cu)\.?\s+)?[a-zA-Z]{1,16}(?:/[a-zA-Z]{1,12})?)?$")
    });
    let opens = before_marks(text, suffix.start);
    let head = &text[..opens];
    let is_gap = |end: usize| head.get(end..).is_some_and(|gap| GAP.is_match(gap));
    let formula = last_formula(head).filter(|range| is_gap(after_marks(head, range.end)));
    let start = match formula {
        Some(range) => before_marks(head, range.start),
        None => {
            last_number(head, Place::Prose)
                .filter(|(_, place)| is_gap(place.end))?
                .1
                .start
        }
    };
    // Of several, one alone is not the answer.
    let before = head[..start].trim_end();
    let joint = [",", "and", "or", "to", "±", "-", "−", "–"]
        .iter()
        .find_map(|joint| before.strip_suffix(joint));
    let is_joined = joint.is_some_and(|before| {
        before
            .trim_end()
            .ends_with(|last: char| last.is_numeric() || "$)".contains(last))
    });
    let end = after_marks(text, suffix.end);
    (!is_joined).then(|| &text[start..unit_end(text, end)])
}

/// What a sentence says before a place, as far as anybody would look for its subject.
pub(super) fn sentence_before(text: &str, place: usize) -> &str {
    let head = &text[..before_marks(text, place)];
    let line = head.rfind('\n').map_or(0, |at| at + 1);
    let starts = [". ", "! ", "? ", ".$ ", r".\) "]
        .iter()
        .filter_map(|end| head.rfind(end).map(|at| at + end.len()));
    let mut start = starts.fold(line, usize::max).max(head.len().saturating_sub(MAX_BYTES));
    while !head.is_char_boundary(start) {
        start += 1;
    }
    &head[start..]
}

/// A place stands between the marks of a formula.
pub(super) fn is_in_formula(text: &str, place: usize) -> bool {
    let mut rest = text;
    while let Some(range) = last_formula(rest) {
        if range.contains(&place) {
            return true;
        }
        if range.end <= place {
            return false;
        }
        rest = &rest[..before_marks(rest, range.start)];
    }
    false
}

/// A formula at the beginning of a line with those that are joined to it, and its unit: `$5$ or $6$`, `$3$ million`.
pub(super) fn with_following(line: &str, formula: Range<usize>) -> &str {
    let mut end = after_marks(line, formula.end);
    for _ in 0..MAX_JOINED {
        let Some(next) = joined_to(line, end) else {
            break;
        };
        end = next;
    }
    let is_joined = end > after_marks(line, formula.end);
    with_unit(line, formula, end, is_joined)
}

/// The last formula of a text with those before it that "or" joins to it, and its unit.
pub(super) fn with_others(text: &str, formula: Range<usize>) -> &str {
    let end = after_marks(text, formula.end);
    let mut start = formula.start;
    for _ in 0..MAX_JOINED {
        let Some(earlier) = alternative_before(text, start) else {
            break;
        };
        start = earlier;
    }
    with_unit(text, start..formula.end, end, start < formula.start)
}

/// Without its marks where nothing is joined to the formula.
fn with_unit(text: &str, formula: Range<usize>, end: usize, is_joined: bool) -> &str {
    let unit = unit_end(text, end);
    if unit == end && !is_joined {
        return &text[formula];
    }
    &text[before_marks(text, formula.start)..unit]
}

/// Behind the marks that close a formula.
fn after_marks(text: &str, end: usize) -> usize {
    let rest = &text[end..];
    let mark = CLOSING.iter().find(|mark| rest.starts_with(**mark));
    end + mark.map_or(0, |mark| mark.len())
}

/// Before the marks that open a formula.
fn before_marks(text: &str, start: usize) -> usize {
    let head = &text[..start];
    let mark = OPENING.iter().find(|mark| head.ends_with(**mark));
    start - mark.map_or(0, |mark| mark.len())
}

/// Behind the formula that is joined to what ends at a place. By "and" or a comma only where nothing more is said of it.
fn joined_to(line: &str, end: usize) -> Option<usize> {
    static JOINT: LazyLock<Regex> = LazyLock::new(|| {
        super::compile(
            r"^[*_]*\s*(?:(,?\s*or\s|to\s|through\s|times\s|plus\s|minus\s|over\s|divided\s+by\s|-|–|−|\+|/|×|÷|·|:)|,\s*and\s|and\s|,|;)\s*[*_]*",
        )
    });
    static ENDS: LazyLock<Regex> = LazyLock::new(|| super::compile(r"^[*_]*\s*(?:$|[.,;!?(]|(?:and|or)\s)"));
    let rest = line.get(end..)?;
    let joint = JOINT.captures(rest)?;
    // A colon before a space alone begins an explanation.
    if joint.get(0)?.as_str().ends_with(": ") && rest.starts_with(':') {
        return None;
    }
    let next = end + joint.get(0)?.end();
    let range = at_start(line.get(next..)?)?;
    let after = after_marks(line, next + range.end);
    (joint.get(1).is_some() || ENDS.is_match(&line[after..])).then_some(after)
}

/// Where the formula begins before a place, if "or" joins it to the one that begins there.
fn alternative_before(text: &str, start: usize) -> Option<usize> {
    let head = text[..before_marks(text, start)].trim_end();
    let head = head.strip_suffix("or")?;
    let close = head.trim_end_matches([' ', ',']);
    let is_apart = close.len() < head.len();
    let range = last_formula(close).filter(|range| after_marks(close, range.end) == close.len())?;
    is_apart.then_some(range.start)
}

/// Behind the words of a unit or of a magnitude at a place, and "or more" and its like.
fn unit_end(text: &str, end: usize) -> usize {
    static LIMIT: LazyLock<Regex> = LazyLock::new(|| {
        super::compile(
            r"^[*_]*\s+or\s+(?:more|less|fewer|greater|higher|lower|larger|smaller|above|below)\b|^[*_]*\s+(?:squared|cubed|and\s+(?:a|one)[\s-]+(?:half|third|quarter)|and\s+three[\s-]+quarters)\b",
        )
    });
    let rest = &text[end..];
    if let Some(limit) = LIMIT.find(rest) {
        return end + limit.end();
    }
    if let Some((_, left)) = power_of_ten(rest.trim_start_matches([' ', '~', '*'])) {
        return text.len() - left.len();
    }
    let mut unit = end;
    for _ in 0..4 {
        let spaced = text[unit..].trim_start_matches([' ', '~']);
        let is_spaced = spaced.len() < text.len() - unit;
        let word = &spaced[..spaced
            .find(|letter: char| !letter.is_ascii_alphabetic())
            .unwrap_or(spaced.len())];
        let after = spaced[word.len()..].chars().next();
        let goes_on = after.is_some_and(|after| after.is_alphanumeric() || matches!(after, '_' | '^' | '$'));
        let is_part = is_measure(word) && word != "in" || (unit > end && word == "per");
        if !is_spaced || !is_part || goes_on {
            break;
        }
        unit = text.len() - spaced.len() + word.len();
    }
    unit
}
