//! Answers in a LaTeX `\boxed{...}`, by which models mark the result of mathematics.

const BOX: &str = r"\boxed";

/// What the boxes of a text say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Boxes<'t> {
    /// Where the last balanced box begins, and what it holds.
    pub(crate) last: Option<(usize, &'t str)>,
    /// The text before a box that was never closed, else the whole text.
    pub(crate) before_unclosed: &'t str,
}

/// Finds the last balanced box in one pass. Of nested boxes the outer one counts.
pub(crate) fn boxes(text: &str) -> Boxes<'_> {
    let Some(first) = text.find(BOX) else {
        return Boxes {
            last: None,
            before_unclosed: text,
        };
    };
    let mut open: Vec<Brace> = Vec::new();
    let mut last = None;
    let mut box_start = None;
    let mut is_escaped = false;
    for (offset, byte) in text.bytes().enumerate().skip(first) {
        match byte {
            b'\\' if !is_escaped => {
                is_escaped = true;
                box_start = text[offset..].starts_with(BOX).then_some(offset).or(box_start);
                continue;
            }
            b'{' if !is_escaped => open.push(Brace {
                at: offset,
                box_start: box_start.filter(|start| text[start + BOX.len()..offset].trim().is_empty()),
            }),
            b'}' if !is_escaped => {
                let closed = open.pop();
                if let Some((start, at)) = closed.and_then(|brace| Some((brace.box_start?, brace.at))) {
                    last = Some((start, &text[at + 1..offset]));
                }
            }
            _ => {}
        }
        is_escaped = false;
    }
    let unclosed = open.iter().find_map(|brace| brace.box_start);
    Boxes {
        last,
        before_unclosed: &text[..unclosed.unwrap_or(text.len())],
    }
}

#[derive(Clone, Copy)]
struct Brace {
    at: usize,
    /// The start of the box that this brace opens.
    box_start: Option<usize>,
}

/// Takes off what only sets the type of a formula: `$...$`, `\(...\)`, `\text{...}` and its like, a nested box, braces.
pub(crate) fn unwrapped(formula: &str) -> &str {
    let mut inner = formula.trim();
    loop {
        let next = inner
            .strip_prefix('$')
            .and_then(|rest| rest.strip_suffix('$'))
            .or_else(|| inner.strip_prefix(r"\(").and_then(|rest| rest.strip_suffix(r"\)")))
            .or_else(|| command_argument(inner));
        match next {
            Some(next) => inner = next.trim(),
            None => return inner,
        }
    }
}

/// The argument of a command, or of plain braces, that span the whole formula.
fn command_argument(formula: &str) -> Option<&str> {
    const COMMANDS: [&str; 10] = [
        r"\boxed", r"\text", r"\textbf", r"\textit", r"\textrm", r"\mathrm", r"\mathbf", r"\mathit", r"\mbox", "",
    ];
    let braced = COMMANDS.iter().find_map(|command| {
        let rest = formula.strip_prefix(command)?.trim_start();
        rest.strip_prefix('{')
    })?;
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
        boxes(text).last.map(|(_, inner)| unwrapped(inner))
    }

    #[test]
    fn the_last_balanced_box_counts_without_its_wrappers() {
        assert_eq!(last(r"\boxed{5}, corrected: \boxed{\frac{1}{2}}"), Some(r"\frac{1}{2}"));
        assert_eq!(last(r"\boxed{\text{E}}"), Some("E"));
        assert_eq!(last(r"\boxed{\boxed{7}}"), Some("7"));
        assert_eq!(last(r"$\boxed {\$ 5}$"), Some(r"\$ 5"));
        assert_eq!(last("no box"), None);
    }

    #[test]
    fn an_unclosed_box_is_ignored_with_all_after_it() {
        assert_eq!(last(r"\boxed{5} then \boxed{6"), Some("5"));
        assert_eq!(boxes(r"so 4. \boxed{6").before_unclosed, "so 4. ");
        assert_eq!(boxes(r"so 4. \boxed").before_unclosed, r"so 4. \boxed");
        assert_eq!(last(r"\boxed{\{1\}"), None);
    }

    #[test]
    fn escaped_braces_are_text() {
        assert_eq!(last(r"\boxed{\{1, 2\}}"), Some(r"\{1, 2\}"));
        assert_eq!(last(r"\boxed{a} } \boxed{b}"), Some("b"));
    }

    #[test]
    fn a_wrapper_that_does_not_span_the_whole_stays() {
        assert_eq!(unwrapped(r"\text{a} or \text{b}"), r"\text{a} or \text{b}");
        assert_eq!(unwrapped(r"$\mathrm{ {B} }$"), "B");
    }

    #[test]
    fn many_open_boxes_take_one_pass() {
        let text = r"\boxed{".repeat(100_000);
        assert_eq!(boxes(&text).last, None);
        assert_eq!(boxes(&text).before_unclosed, "");
    }
}
