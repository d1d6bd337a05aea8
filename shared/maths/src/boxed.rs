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
            before_unclosed: text,
        };
    };
    let mut open: Vec<Open> = Vec::new();
    let mut depth = 0_usize;
    let mut last = None;
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
                    last = Some((closed.start, closed.content..offset));
                }
            }
            _ => {}
        }
        is_escaped = false;
    }
    let unclosed = open.first().map_or(text.len(), |opened| opened.start);
    Boxes {
        last: last.map(|(start, range)| Boxed {
            start,
            content: &text[range.clone()],
            range,
        }),
        before_unclosed: &text[..unclosed],
    }
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
    fn wrappers_of_several_formulas_stay() {
        assert_eq!(unwrapped("$1$, $2$"), "$1$, $2$");
        assert_eq!(unwrapped("{1}, {2}"), "{1}, {2}");
        assert_eq!(unwrapped(r"$$ \textbf{ (C) } $$"), "(C)");
    }
}
