//! Intervals on one line: joined where they overlap or touch, and what several sets of them have in common.

use std::cmp::Ordering;

use dashu_int::IBig;
use dashu_ratio::RBig;

use crate::evaluate::{Evaluator, Point, Real};
use crate::node::Node;
use crate::normal::normal;
use crate::steps::Steps;

/// An end of an interval; without a bound it is infinite.
#[derive(Debug, Clone, PartialEq, Eq)]
struct End {
    bound: Option<Bound>,
    is_closed: bool,
}

/// Where an interval ends.
#[derive(Debug, Clone)]
struct Bound {
    /// Of a number that is not rational its first digits.
    value: RBig,
    written: Node,
}

impl Bound {
    fn rational(value: RBig) -> Self {
        Self {
            written: Node::Number(value.clone()),
            value,
        }
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Bound {}

#[derive(Debug, Clone)]
struct Segment {
    low: End,
    high: End,
}

/// Reads the bound that a formula says.
type ReadBound<'r> = &'r mut dyn FnMut(&Node) -> Option<Bound>;

/// The same points in as few intervals as there are; as they were where an end is no rational number.
pub(crate) fn merged(pieces: Vec<Node>) -> Vec<Node> {
    let mut read = |node: &Node| number(node).map(Bound::rational);
    match all_segments(&pieces, &mut read) {
        Some(segments) => joined(segments).into_iter().map(node).collect(),
        None => pieces,
    }
}

/// What lies in each of some sets, each of them a union of pieces; `None` where an end has no place on the line.
pub(crate) fn common(sets: &[Vec<Node>], steps: &mut Steps) -> Option<Vec<Node>> {
    let mut read = |node: &Node| bound(node, steps);
    let mut common = vec![Segment {
        low: End::INFINITE,
        high: End::INFINITE,
    }];
    for set in sets {
        let segments = all_segments(set, &mut read)?;
        let meetings = common
            .iter()
            .flat_map(|one| segments.iter().filter_map(|other| meeting(one, other)));
        common = meetings.collect();
    }
    Some(joined(common).into_iter().map(node).collect())
}

fn all_segments(pieces: &[Node], read: ReadBound<'_>) -> Option<Vec<Segment>> {
    let segments: Option<Vec<Vec<Segment>>> = pieces.iter().map(|piece| segments(piece, read)).collect();
    segments.map(|segments| segments.concat())
}

/// The part that two segments share.
fn meeting(one: &Segment, other: &Segment) -> Option<Segment> {
    let low = std::cmp::max_by(&one.low, &other.low, |one, other| by_low(one, other)).clone();
    let high = std::cmp::min_by(&one.high, &other.high, |one, other| by_high(one, other)).clone();
    let is_empty = match (&low.bound, &high.bound) {
        (Some(least), Some(largest)) => match least.value.cmp(&largest.value) {
            Ordering::Less => false,
            Ordering::Equal => !(low.is_closed && high.is_closed),
            Ordering::Greater => true,
        },
        _ => false,
    };
    (!is_empty).then_some(Segment { low, high })
}

fn joined(mut segments: Vec<Segment>) -> Vec<Segment> {
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
    joined
}

/// A point is an interval that is closed at both ends.
fn segments(piece: &Node, read: ReadBound<'_>) -> Option<Vec<Segment>> {
    match piece {
        Node::Bracketed { open, close, items } => {
            let [low, high] = items.as_slice() else {
                return None;
            };
            let low = end(low, *open == '[', true, read)?;
            let high = end(high, *close == ']', false, read)?;
            let is_ordered = match (&low.bound, &high.bound) {
                (Some(low), Some(high)) => low.value < high.value,
                _ => true,
            };
            is_ordered.then(|| vec![Segment { low, high }])
        }
        Node::Set(points) => points
            .iter()
            .map(|point| {
                let point = end(point, true, true, read)?;
                point.bound.is_some().then(|| Segment {
                    low: point.clone(),
                    high: point.clone(),
                })
            })
            .collect(),
        _ => None,
    }
}

impl End {
    const INFINITE: Self = Self {
        bound: None,
        is_closed: false,
    };
}

fn end(node: &Node, is_closed: bool, is_low: bool, read: ReadBound<'_>) -> Option<End> {
    let is_infinite = match node {
        Node::Negate(inner) => **inner == Node::Infinity && is_low,
        Node::Infinity => !is_low,
        _ => false,
    };
    if is_infinite {
        return Some(End::INFINITE);
    }
    let bound = Some(read(node)?);
    Some(End { bound, is_closed })
}

/// The place of a constant on the line, exactly where it is rational.
fn bound(node: &Node, steps: &mut Steps) -> Option<Bound> {
    let exact = number(node).or_else(|| normal(node, steps).ok()?.as_constant());
    if let Some(value) = exact {
        return Some(Bound::rational(value));
    }
    let value = Evaluator::new(steps).value(node, &Point::new()).ok()?;
    value.is_real().then(|| Bound {
        value: first_digits(&value.re),
        written: node.clone(),
    })
}

/// The value to so many binary places as those agree in that are equal.
fn first_digits(value: &Real) -> RBig {
    const PLACES: usize = 120;
    let scaled = IBig::from(1) << PLACES;
    let exponent = value.repr().exponent();
    let power = RBig::from(IBig::from(1) << exponent.unsigned_abs());
    let significand = RBig::from(value.repr().significand().clone());
    let exact = if exponent < 0 {
        significand / power
    } else {
        significand * power
    };
    RBig::from((exact * RBig::from(scaled.clone())).round()) / RBig::from(scaled)
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
    match (&one.bound, &other.bound) {
        (Some(low), Some(another)) => low.value.cmp(&another.value).then(other.is_closed.cmp(&one.is_closed)),
        (one, other) => one.is_some().cmp(&other.is_some()),
    }
}

fn by_high(one: &End, other: &End) -> Ordering {
    match (&one.bound, &other.bound) {
        (Some(high), Some(another)) => high.value.cmp(&another.value).then(one.is_closed.cmp(&other.is_closed)),
        (one, other) => one.is_none().cmp(&other.is_none()),
    }
}

/// Between an end and a beginning that is no earlier lies no point.
fn touches(high: &End, low: &End) -> bool {
    match (&high.bound, &low.bound) {
        (Some(last), Some(first)) => first.value < last.value || (first == last && (high.is_closed || low.is_closed)),
        _ => true,
    }
}

fn node(segment: Segment) -> Node {
    let Segment { low, high } = segment;
    if let Some(point) = low.bound.as_ref().filter(|_| low == high) {
        return Node::Set(vec![point.written.clone()]);
    }
    Node::Bracketed {
        open: if low.is_closed { '[' } else { '(' },
        close: if high.is_closed { ']' } else { ')' },
        items: vec![
            low.bound
                .map_or_else(|| Node::Negate(Box::new(Node::Infinity)), |bound| bound.written),
            high.bound.map_or(Node::Infinity, |bound| bound.written),
        ],
    }
}
