//! Intervals with rational ends on one line, joined where they overlap or touch.

use std::cmp::Ordering;

use dashu_ratio::RBig;

use crate::node::Node;

/// An end of an interval; without a value it is infinite.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    value: Option<RBig>,
    is_closed: bool,
}

#[derive(Debug, Clone)]
struct Segment {
    low: End,
    high: End,
}

/// The same points in as few intervals as there are; as they were where an end is no rational number.
pub(crate) fn merged(pieces: Vec<Node>) -> Vec<Node> {
    let segments: Option<Vec<Vec<Segment>>> = pieces.iter().map(segments).collect();
    let Some(mut segments) = segments.map(|segments| segments.concat()) else {
        return pieces;
    };
    segments.sort_by(|one, other| by_low(&one.low, &other.low));
    let mut joined: Vec<Segment> = Vec::new();
    for segment in segments {
        match joined.last_mut() {
            Some(last) if touches(&last.high, &segment.low) => {
                if by_high(&last.high, &segment.high) == Ordering::Less {
                    last.high = segment.high;
                }
            }
            _ => joined.push(segment),
        }
    }
    joined.into_iter().map(node).collect()
}

/// A point is an interval that is closed at both ends.
fn segments(piece: &Node) -> Option<Vec<Segment>> {
    match piece {
        Node::Bracketed { open, close, items } => {
            let [low, high] = items.as_slice() else {
                return None;
            };
            let low = end(low, *open == '[', true)?;
            let high = end(high, *close == ']', false)?;
            let is_ordered = match (&low.value, &high.value) {
                (Some(low), Some(high)) => low < high,
                _ => true,
            };
            is_ordered.then(|| vec![Segment { low, high }])
        }
        Node::Set(points) => points
            .iter()
            .map(|point| {
                let point = end(point, true, true)?;
                point.value.is_some().then(|| Segment {
                    low: point.clone(),
                    high: point.clone(),
                })
            })
            .collect(),
        _ => None,
    }
}

fn end(node: &Node, is_closed: bool, is_low: bool) -> Option<End> {
    let is_infinite = match node {
        Node::Negate(inner) => **inner == Node::Infinity && is_low,
        Node::Infinity => !is_low,
        _ => false,
    };
    if is_infinite {
        return Some(End {
            value: None,
            is_closed: false,
        });
    }
    let value = Some(number(node)?);
    Some(End { value, is_closed })
}

fn number(node: &Node) -> Option<RBig> {
    match node {
        Node::Number(value) => Some(value.clone()),
        Node::Negate(inner) => Some(-number(inner)?),
        Node::Divide(above, below) => {
            let below = number(below).filter(|below| !below.is_zero())?;
            Some(number(above)? / below)
        }
        _ => None,
    }
}

fn by_low(one: &End, other: &End) -> Ordering {
    match (&one.value, &other.value) {
        (Some(low), Some(another)) => low.cmp(another).then(other.is_closed.cmp(&one.is_closed)),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

fn by_high(one: &End, other: &End) -> Ordering {
    match (&one.value, &other.value) {
        (Some(high), Some(another)) => high.cmp(another).then(one.is_closed.cmp(&other.is_closed)),
        (one, other) => one.is_none().cmp(&other.is_none()),
    }
}

/// Between an end and a beginning that is no earlier lies no point.
fn touches(high: &End, low: &End) -> bool {
    match (&high.value, &low.value) {
        (Some(high_value), Some(low_value)) => {
            low_value < high_value || (low_value == high_value && (high.is_closed || low.is_closed))
        }
        _ => true,
    }
}

fn node(segment: Segment) -> Node {
    let Segment { low, high } = segment;
    if let Some(value) = low.value.as_ref().filter(|_| low == high) {
        return Node::Set(vec![Node::Number(value.clone())]);
    }
    Node::Bracketed {
        open: if low.is_closed { '[' } else { '(' },
        close: if high.is_closed { ']' } else { ')' },
        items: vec![
            low.value
                .map_or_else(|| Node::Negate(Box::new(Node::Infinity)), Node::Number),
            high.value.map_or(Node::Infinity, Node::Number),
        ],
    }
}
