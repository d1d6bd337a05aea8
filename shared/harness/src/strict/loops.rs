//! The engine goes over null as over nothing: what a loop goes over is given to a function first, which may stop.

/// The name of the function, which no row has as a column.
pub const EACH: &str = "__each";

/// A template with what each loop goes over given to the function.
pub fn guarded(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find('{') {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let length = match from.as_bytes().get(1) {
            Some(b'{') => code(from, 2, "}}"),
            Some(b'%') => block(from),
            Some(b'#') => from.find("#}").map(|end| end + 2),
            _ => Some(1),
        };
        // Whatever does not end is left to the engine, which says so.
        let (part, after) = from.split_at(length.unwrap_or(from.len()));
        out.push_str(&guarded_part(part));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// An expression as the template writes it.
pub fn written(expression: &str) -> &str {
    let inner = expression
        .strip_prefix(EACH)
        .and_then(|call| call.strip_prefix('(')?.strip_suffix(')'));
    inner.unwrap_or(expression)
}

/// The length of a block; `raw` ends behind its `endraw`.
fn block(from: &str) -> Option<usize> {
    let length = code(from, 1, "%}")?;
    if words(from.get(..length)?).first().map(|(_, word)| *word) != Some("raw") {
        return Some(length);
    }
    let end = length + from.get(length..)?.find("endraw")?;
    Some(end + from.get(end..)?.find("%}")? + 2)
}

/// The length of code up to the sign that ends it, which stands in no text and in no brackets but the braces that begin it.
fn code(from: &str, braces: i32, end: &str) -> Option<usize> {
    let ends = |at: usize| from.get(at..).is_some_and(|rest| rest.starts_with(end));
    let mut inside = Walk::new(from).skip(2);
    let found = inside.find(|(at, depth, _)| *depth <= braces && ends(*at));
    found.map(|(at, ..)| at + end.len())
}

fn guarded_part(part: &str) -> String {
    let words = words(part);
    let place = |wanted: &str| words.iter().find(|(_, word)| *word == wanted).map(|(at, _)| *at);
    let ("for", Some(start)) = (words.first().map_or("", |(_, word)| *word), place("in")) else {
        return part.to_owned();
    };
    let start = start + "in".len();
    let ends = |(at, word): &&(usize, &str)| *at > start && matches!(*word, "if" | "recursive");
    let close = part.trim_end_matches("%}").trim_end_matches(['-', '+']).len();
    let end = words.iter().find(ends).map_or(close, |(at, _)| *at);
    match (part.get(..start), part.get(start..end), part.get(end..)) {
        (Some(before), Some(over), Some(after)) if !over.trim().is_empty() => {
            format!("{before} {EACH}({}) {after}", over.trim())
        }
        _ => part.to_owned(),
    }
}

/// Words of a block outside of texts and brackets, each with where it begins.
fn words(code: &str) -> Vec<(usize, &str)> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut words = Vec::new();
    let mut begun = None;
    for (at, depth, letter) in Walk::new(code) {
        // The brace of the block itself is one.
        let is_word = depth == 1 && is_part(letter);
        match (begun, is_word) {
            (None, true) => begun = Some(at),
            (Some(start), false) => {
                words.extend(code.get(start..at).map(|word| (start, word)));
                begun = None;
            }
            _ => {}
        }
    }
    words
}

/// Letters outside of texts: where each stands, how many brackets are open there, and itself.
struct Walk<'t> {
    letters: std::str::CharIndices<'t>,
    depth: i32,
}

impl<'t> Walk<'t> {
    fn new(code: &'t str) -> Self {
        Self {
            letters: code.char_indices(),
            depth: 0,
        }
    }

    fn pass_text(&mut self, quote: char) {
        while let Some((_, letter)) = self.letters.next() {
            match letter {
                '\\' => _ = self.letters.next(),
                letter if letter == quote => return,
                _ => {}
            }
        }
    }
}

impl Iterator for Walk<'_> {
    type Item = (usize, i32, char);

    fn next(&mut self) -> Option<Self::Item> {
        let (at, letter) = self.letters.next()?;
        let depth = self.depth;
        match letter {
            '(' | '[' | '{' => self.depth += 1,
            ')' | ']' | '}' => self.depth -= 1,
            '\'' | '"' => self.pass_text(letter),
            _ => {}
        }
        Some((at, depth, letter))
    }
}
