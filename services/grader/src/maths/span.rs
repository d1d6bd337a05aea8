//! How far an answer reaches that a formula between LaTeX's marks begins: over others that are joined to it, and over its unit.

use std::ops::Range;
use std::sync::LazyLock;

use ::regex::Regex;
use tidemill_maths::{is_measure, last_formula};

/// Where a formula ends that is looked for at the beginning of a line, in bytes.
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
        (range.start <= 3).then_some(range)
    })
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
    static JOINT: LazyLock<Regex> =
        LazyLock::new(|| super::compile(r"^[*_]*\s*(?:(,?\s*or\s|to\s|through\s|-|–)|,\s*and\s|and\s|,|;)\s*[*_]*"));
    static ENDS: LazyLock<Regex> = LazyLock::new(|| super::compile(r"^[*_]*\s*(?:$|[.,;!?(]|(?:and|or)\s)"));
    let rest = line.get(end..)?;
    let joint = JOINT.captures(rest)?;
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
        super::compile(r"^[*_]*\s+or\s+(?:more|less|fewer|greater|higher|lower|larger|smaller|above|below)\b")
    });
    let rest = &text[end..];
    if let Some(limit) = LIMIT.find(rest) {
        return end + limit.end();
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
