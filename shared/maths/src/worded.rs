//! Words behind a numeral that change its value: `5 million`, `2 thirds`, `5 and a half`, `3 squared`, `8 degrees below zero`.

use dashu_ratio::RBig;

use crate::node::Node;
use crate::unit::{Unit, power_of_ten};

/// What a word makes of the value before it.
#[derive(Debug, Clone, PartialEq)]
enum Change {
    Times(RBig),
    Plus(RBig),
    Power(i64),
    Negated,
}

const MAGNITUDES: &[(&str, u64)] = &[
    ("dozen", 12),
    ("hundred", 100),
    ("thousand", 1_000),
    ("lakh", 100_000),
    ("million", 1_000_000),
    ("crore", 10_000_000),
    ("billion", 1_000_000_000),
    ("trillion", 1_000_000_000_000),
    ("quadrillion", 1_000_000_000_000_000),
];

/// Names of parts, which count where nothing follows but "of". Quarters are coins too, and stay words.
const PARTS: &[(&str, u64)] = &[
    ("half", 2),
    ("halves", 2),
    ("third", 3),
    ("fourth", 4),
    ("fifth", 5),
    ("sixth", 6),
    ("seventh", 7),
    ("eighth", 8),
    ("ninth", 9),
    ("tenth", 10),
    ("twelfth", 12),
    ("hundredth", 100),
    ("thousandth", 1_000),
];

/// A word for a power of ten, or a dozen; one or many.
pub(crate) fn is_magnitude(word: &str) -> bool {
    let lower = word.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    MAGNITUDES.iter().any(|(name, _)| *name == lower || *name == singular)
}

/// A value with what is said behind it: number words count, the rest is its unit.
pub(crate) fn quantity(value: Node, unit: Unit) -> Node {
    if unit.measure.is_some() {
        return Node::Quantity(Box::new(value), unit);
    }
    let (mut value, mut rest) = (value, unit.words.as_str());
    while let Some((change, left)) = first(rest) {
        value = changed(value, &change);
        rest = left;
    }
    if rest.is_empty() {
        return value;
    }
    if rest.len() == unit.words.len() {
        return Node::Quantity(Box::new(value), unit);
    }
    Node::Quantity(Box::new(value), Unit::of_words(rest))
}

/// What the words begin with, or end in, makes of the value, and the words that are left.
fn first(words: &str) -> Option<(Change, &str)> {
    if let Some((power, rest)) = power_of_ten(words) {
        let times = RBig::from(10_u64.pow(power));
        return Some((Change::Times(times), rest.trim_start()));
    }
    let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
    let lower = word.to_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    let named = |table: &[(&str, u64)]| {
        let found = table.iter().find(|(name, _)| *name == lower || *name == singular);
        found.map(|(_, value)| RBig::from(*value))
    };
    if let Some(times) = named(MAGNITUDES) {
        return Some((Change::Times(times), rest));
    }
    let is_last = rest.is_empty() || rest.starts_with("of ");
    if let Some(parts) = named(PARTS).filter(|_| is_last) {
        return Some((Change::Times(RBig::ONE / parts), rest));
    }
    let change = match words.to_lowercase().as_str() {
        "squared" => Change::Power(2),
        "cubed" => Change::Power(3),
        "and a half" | "and one half" | "and one-half" => Change::Plus(RBig::ONE / RBig::from(2)),
        "and a third" | "and one third" | "and one-third" => Change::Plus(RBig::ONE / RBig::from(3)),
        "and a quarter" | "and one quarter" | "and one-quarter" => Change::Plus(RBig::ONE / RBig::from(4)),
        "and three quarters" | "and three-quarters" => Change::Plus(RBig::from(3) / RBig::from(4)),
        lower => {
            let left = lower.strip_suffix("below zero")?.len();
            return Some((Change::Negated, words.get(..left)?.trim_end()));
        }
    };
    Some((change, ""))
}

/// The unit that a value has already stays outside.
fn changed(value: Node, change: &Change) -> Node {
    if let Node::Quantity(inner, unit) = value {
        return Node::Quantity(Box::new(changed(*inner, change)), unit);
    }
    match change {
        Change::Times(by) => Node::Product(vec![value, Node::Number(by.clone())]),
        Change::Plus(part) => Node::Sum(vec![value, Node::Number(part.clone())]),
        Change::Power(power) => Node::Power(Box::new(value), Box::new(Node::integer(*power))),
        Change::Negated => Node::Negate(Box::new(value)),
    }
}

/// What makes more than one value of a number, so that it is no unit that may be left out: `5 or more`.
pub(crate) fn limit(words: &str) -> Option<&'static str> {
    const LIMITS: [&str; 22] = [
        "or more",
        "or less",
        "or fewer",
        "or greater",
        "or higher",
        "or lower",
        "or larger",
        "or smaller",
        "or above",
        "or below",
        "or over",
        "or under",
        "and more",
        "and above",
        "and up",
        "at most",
        "at the most",
        "at least",
        "at minimum",
        "at maximum",
        "negative",
        "minus",
    ];
    let spaced = format!(" {} ", words.to_lowercase());
    LIMITS.into_iter().find(|limit| {
        let mut places = spaced.match_indices(limit);
        places.any(|(at, _)| spaced[..at].ends_with(' ') && spaced[at + limit.len()..].starts_with(' '))
    })
}

/// A word that is left of such a limit where "or" has joined it as if it were another answer: the `more` of `5 or more`.
pub(crate) fn is_limit(word: &str) -> bool {
    limit(&format!("or {word}")).is_some()
}
