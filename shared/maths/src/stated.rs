//! The value that an equation states of something whose name is more than a letter: `m + n = 113`, `|AB| = 5`, `\\angle ABC = 40`.
//!
//! Nothing is solved: of an equation of one letter, as `2x = 5`, no side is such a name.

use crate::node::{Function, Node};
use crate::parser::parse;
use crate::steps::Steps;

/// The last side of an equation whose first side names what has the value, if that holds no variable.
pub(crate) fn value(text: &str, steps: &mut Steps) -> Option<Node> {
    let sides = sides(text)?;
    let (first, last) = (sides.first()?.trim(), sides.last()?.trim());
    if sides.len() < 2 || !is_name(first, steps) {
        return None;
    }
    let value = parse(last, steps).ok()?;
    let is_plain = value.is_scalar() || matches!(value, Node::Bracketed { .. } | Node::Matrix(_));
    (value.is_constant() && is_plain).then_some(value)
}

/// What stands between the equals signs outside of brackets; `None` where other signs or words relate or list parts.
fn sides(text: &str) -> Option<Vec<&str>> {
    const OTHERS: [&str; 12] = [
        r"\le", r"\ge", r"\lt", r"\gt", r"\ne", r"\in", r"\to", r"\pm", r"\mp", r"\lor", r"\vee", r"\cup",
    ];
    let mut sides = Vec::new();
    let (mut start, mut depth) = (0, 0_i32);
    for (at, letter) in text.char_indices() {
        depth += i32::from("([{".contains(letter)) - i32::from(")]}".contains(letter));
        let head = &text[..at];
        match letter {
            _ if depth > 0 => {}
            '<' | '>' | ';' | '≤' | '≥' | '≠' | ':' | '\n' => return None,
            ',' if !separates_thousands(head, &text[at + 1..]) && !head.ends_with('\\') => return None,
            '=' if head.ends_with(['!', '=']) => return None,
            '=' => {
                sides.push(&text[start..at]);
                start = at + 1;
            }
            '\\' if is_command(&text[at..], &OTHERS) => return None,
            _ => {}
        }
    }
    let has_joint = text
        .split(|letter: char| !letter.is_alphabetic())
        .any(|word| matches!(word, "and" | "or"));
    sides.push(&text[start..]);
    (depth == 0 && !has_joint).then_some(sides)
}

fn separates_thousands(head: &str, rest: &str) -> bool {
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    head.ends_with(|last: char| last.is_ascii_digit()) && digits == 3
}

/// One of these commands, or one of their longer forms (`\\leq`), stands here.
fn is_command(text: &str, commands: &[&str]) -> bool {
    let length = text[1..].bytes().take_while(u8::is_ascii_alphabetic).count();
    let command = &text[..=length];
    let plain = command.trim_end_matches("slant").trim_end_matches('q');
    commands.contains(&command) || commands.contains(&plain)
}

/// It names something that may have a value, and is no equation's side that is solved for one letter.
fn is_name(text: &str, steps: &mut Steps) -> bool {
    const NAMING: [&str; 22] = [
        r"\angle",
        r"\measuredangle",
        r"\triangle",
        r"\lim",
        r"\gcd",
        r"\lcm",
        r"\det",
        r"\max",
        r"\min",
        r"\dim",
        r"\int",
        r"\sum",
        r"\prod",
        r"\deg",
        r"\Re",
        r"\Im",
        r"\overline",
        r"\overrightarrow",
        r"\widehat",
        r"\operatorname",
        r"\cdots",
        r"\rank",
    ];
    if applies_function(text) {
        return true;
    }
    let Ok(node) = parse(text, steps) else {
        return NAMING.iter().any(|command| text.contains(command));
    };
    let is_function =
        |part: &Node| matches!(part, Node::Call(function, _) if is_of_angle(*function) && !part.is_constant());
    let names = node.names().len();
    node.is_scalar() && (names > 1 || names == 1 && node.any(&is_function))
}

/// Its value is asked for more often than its argument.
const fn is_of_angle(function: Function) -> bool {
    matches!(
        function,
        Function::Sin | Function::Cos | Function::Tan | Function::Cot | Function::Sec | Function::Csc | Function::Abs
    )
}

/// A letter that names functions stands before brackets with a number or one letter in them, as in `f(1) + f(2)`.
fn applies_function(text: &str) -> bool {
    let mut places = text.match_indices('(');
    places.any(|(at, _)| {
        let is_function = text[..at].ends_with(|letter: char| "fghpqFGHPQSTV".contains(letter));
        let argument = text[at + 1..].split(')').next().unwrap_or_default().trim();
        let is_number = !argument.is_empty()
            && argument
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b"-./,".contains(&byte));
        is_function && (is_number || argument.len() == 1)
    })
}
