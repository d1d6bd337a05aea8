//! Answers in a LaTeX `\boxed{...}` or `\fbox{...}`, by which models mark a result.

use std::ops::Range;

const COMMANDS: [&str; 2] = [r"\boxed", r"\fbox"];

/// A balanced box.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boxed<'t> {
    /// Where its command begins, in bytes.
    pub start: usize,
    /// Where its content stands, in bytes.
    pub range: Range<usize>,
    /// What it holds, as written.
    pub content: &'t str,
}

/// What the boxes of a text say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boxes<'t> {
    /// The last balanced box; of nested ones the outer.
    pub last: Option<Boxed<'t>>,
    /// Where the last box stands with those before it that a comma, "and" or "or" joins to it in one line, and with the names
    /// before them (`x = \boxed{2}$ and $y = \boxed{3}`), in bytes; `None` where all say the same, or it stands alone.
    pub joined: Option<Range<usize>>,
    /// The text before a box that was never closed, else the whole text.
    pub before_unclosed: &'t str,
}

/// A box that is open, by the number of braces around it.
struct Open {
    start: usize,
    content: usize,
    depth: usize,
}

/// Finds the last balanced box in one pass.
#[must_use]
pub fn boxes(text: &str) -> Boxes<'_> {
    let Some(first) = COMMANDS.iter().filter_map(|command| text.find(command)).min() else {
        return Boxes {
            last: None,
            joined: None,
            before_unclosed: text,
        };
    };
    let mut open: Vec<Open> = Vec::new();
    let mut depth = 0_usize;
    let mut last = None;
    let mut outer: Vec<Boxed<'_>> = Vec::new();
    // The box whose brace is awaited: where its command begins and ends.
    let mut awaited: Option<(usize, usize)> = None;
    let mut is_escaped = false;
    for (offset, byte) in text.bytes().enumerate().skip(first) {
        match byte {
            b'\\' if !is_escaped => {
                is_escaped = true;
                awaited = command_at(text, offset).map(|end| (offset, end));
                continue;
            }
            b'{' if !is_escaped => {
                if let Some((start, end)) = awaited.take()
                    && text[end..offset].trim().is_empty()
                {
                    let content = offset + 1;
                    open.push(Open { start, content, depth });
                }
                depth += 1;
            }
            b'}' if !is_escaped => {
                depth = depth.saturating_sub(1);
                if let Some(closed) = open.pop_if(|opened| opened.depth == depth) {
                    let boxed = Boxed {
                        start: closed.start,
                        range: closed.content..offset,
                        content: &text[closed.content..offset],
                    };
                    outer.truncate(outer.partition_point(|inner| inner.start < closed.start));
                    outer.push(boxed.clone());
                    last = Some(boxed);
                }
            }
            _ => {}
        }
        is_escaped = false;
    }
    let unclosed = open.first().map_or(text.len(), |opened| opened.start);
    Boxes {
        last,
        joined: joined(text, &outer),
        before_unclosed: &text[..unclosed],
    }
}

/// From the first box that is joined to the last, or from its name, to the end of the last.
fn joined(text: &str, boxes: &[Boxed<'_>]) -> Option<Range<usize>> {
    /// Boxes of one list; nobody writes more.
    const MAX_JOINED: usize = 64;
    let (last, earlier) = boxes.split_last()?;
    let mut first = last;
    let mut is_one_value = true;
    for boxed in earlier.iter().rev().take(MAX_JOINED) {
        if !is_joint(text.get(boxed.range.end + 1..first.start)?) {
            break;
        }
        is_one_value &= boxed.content.trim() == last.content.trim();
        first = boxed;
    }
    let head = &text[..first.start];
    let start = name_before(head).unwrap_or(first.start);
    (!is_one_value).then_some(start..last.range.end + 1)
}

/// Between two boxes of one list nobody writes more, in bytes.
const MAX_BETWEEN: usize = 80;

/// What stands between two boxes of one list: marks, what joins them, and the name of the second.
fn is_joint(between: &str) -> bool {
    const MARKS: [&str; 14] = [
        "$", r"\(", r"\)", r"\[", r"\]", r"\text", r"\qquad", r"\quad", r"\,", r"\;", r"\ ", "{", "}", "*",
    ];
    if between.len() > MAX_BETWEEN || between.contains('\n') {
        return false;
    }
    let mut plain = between.to_owned();
    for mark in MARKS {
        plain = plain.replace(mark, " ");
    }
    let spaced = plain.replace([',', ';'], " , ").replace('=', " = ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let joints = words
        .iter()
        .take_while(|word| matches!(**word, "," | "and" | "or"))
        .count();
    joints > 0 && (words.len() == joints || matches!(words[joints..], [name, "="] if is_name(name)))
}

/// Where the variable begins that a text gives a value as it ends: the `x` of `$x = `.
fn name_before(head: &str) -> Option<usize> {
    let before = head.trim_end().strip_suffix('=')?.trim_end();
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '\\');
    let start = before.trim_end_matches(is_part).len();
    is_name(&before[start..]).then_some(start)
}

/// A letter, or a command of letters, and an index.
fn is_name(text: &str) -> bool {
    let (name, index) = text.split_once('_').unwrap_or((text, ""));
    let is_command = name
        .strip_prefix('\\')
        .is_some_and(|name| name.bytes().all(|byte| byte.is_ascii_alphabetic()));
    let is_letter = name.len() == 1 && name.bytes().all(|byte| byte.is_ascii_alphabetic());
    (is_letter || is_command && name.len() > 1) && index.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The end of a box's command that begins here.
fn command_at(text: &str, offset: usize) -> Option<usize> {
    let rest = &text[offset..];
    let command = COMMANDS.iter().find(|command| rest.starts_with(**command))?;
    Some(offset + command.len())
}

/// Takes off what only sets the type of a formula: `$...$`, `\(...\)`, `\text{...}` and its like, a nested box, braces.
#[must_use]
pub fn unwrapped(formula: &str) -> &str {
    const PAIRS: [(&str, &str); 4] = [("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]")];
    /// Wrappers that stand in each other; nobody writes more.
    const MAX_WRAPPERS: usize = 16;
    let mut inner = formula.trim();
    for _ in 0..MAX_WRAPPERS {
        let paired = PAIRS
            .iter()
            .find_map(|(open, close)| inner.strip_prefix(open)?.strip_suffix(close))
            .filter(|paired| !paired.contains('$'));
        match paired.or_else(|| argument(inner)) {
            Some(next) => inner = next.trim(),
            None => break,
        }
    }
    inner
}

/// The argument of a command, or of plain braces, that span the whole formula.
fn argument(formula: &str) -> Option<&str> {
    const COMMANDS: [&str; 11] = [
        r"\boxed", r"\fbox", r"\text", r"\textbf", r"\textit", r"\textrm", r"\mathrm", r"\mathbf", r"\mathit",
        r"\mbox", "",
    ];
    let braced = COMMANDS
        .iter()
        .find_map(|command| formula.strip_prefix(command)?.trim_start().strip_prefix('{'))?;
    let argument = braced.strip_suffix('}')?;
    let mut depth = 0_i64;
    for byte in argument.bytes() {
        depth += i64::from(byte == b'{') - i64::from(byte == b'}');
        if depth < 0 {
            return None;
        }
    }
    Some(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(text: &str) -> Option<&str> {
        boxes(text).last.map(|boxed| unwrapped(boxed.content))
    }

    #[test]
    fn the_last_balanced_box_counts_without_its_wrappers() {
        assert_eq!(last(r"\boxed{5}, corrected: \boxed{\frac{1}{2}}"), Some(r"\frac{1}{2}"));
        assert_eq!(last(r"\boxed{\text{E}}"), Some("E"));
        assert_eq!(last(r"\fbox{$7$} and \boxed {  $ \mathrm{x} $ }"), Some("x"));
        assert_eq!(last(r"\boxed{\boxed{3}}"), Some("3"));
        assert_eq!(last(r"\boxed{\left\{1, 2\right\}}"), Some(r"\left\{1, 2\right\}"));
    }

    #[test]
    fn an_unclosed_box_is_ignored_and_ends_the_text() {
        let text = r"so \boxed{4}, or \boxed{5";
        assert_eq!(last(text), Some("4"));
        assert_eq!(boxes(text).before_unclosed, r"so \boxed{4}, or ");
        assert_eq!(last(r"\boxed{"), None);
        assert_eq!(last(r"\boxed 5 {6}"), None);
        assert_eq!(last(r"} \boxed{5} {"), Some("5"));
    }

    #[test]
    fn a_box_says_where_it_stands() {
        let text = r"é \boxed{12}";
        let boxed = boxes(text).last.unwrap();
        assert_eq!((boxed.start, &text[boxed.range]), (3, "12"));
    }

    #[test]
    fn boxes_that_are_joined_are_found_together() {
        let joined = |text: &'static str| boxes(text).joined.map(|range| &text[range]);
        for (text, together) in [
            (r"are $\boxed{2}$ and $\boxed{3}$.", r"\boxed{2}$ and $\boxed{3}"),
            (
                r"$x = \boxed{2}$, $y_1 = \boxed{3}$",
                r"x = \boxed{2}$, $y_1 = \boxed{3}",
            ),
            (
                r"1: \boxed{1}; \(\boxed{2}\), or \(\boxed{\frac{1}{2}}\)",
                r"\boxed{1}; \(\boxed{2}\), or \(\boxed{\frac{1}{2}}",
            ),
            (
                r"\boxed{2}\text{ or }\boxed{\boxed{3}}",
                r"\boxed{2}\text{ or }\boxed{\boxed{3}}",
            ),
        ] {
            assert_eq!(joined(text), Some(together), "{text}");
        }
        for text in [
            r"\boxed{2}",
            r"\boxed{2}, then \boxed{3}",
            "\\boxed{2},\n\\boxed{3}",
            r"\boxed{2} \boxed{3}",
            r"\boxed{3}, \boxed{3}",
            r"\boxed{\boxed{2}, \boxed{3}}",
        ] {
            assert_eq!(joined(text), None, "{text}");
        }
    }

    #[test]
    fn wrappers_of_several_formulas_stay() {
        assert_eq!(unwrapped("$1$, $2$"), "$1$, $2$");
        assert_eq!(unwrapped("{1}, {2}"), "{1}, {2}");
        assert_eq!(unwrapped(r"$$ \textbf{ (C) } $$"), "(C)");
    }
}
