//! Equations and inequalities: what they say of a variable, and when two say the same.

use dashu_ratio::RBig;

use crate::compare::{Comparer, is_application, is_equation};
use crate::node::{Node, Relation};
use crate::normal::normal;
use crate::polynomial::{Atom, Fraction, Polynomial, Unformed};
use crate::steps::Exhausted;

/// The value in `x = 3`, `f(x) = x^2`, `x \in (1, 2]` and `1 + 1 = 2`; anything else as it is.
pub(crate) fn unnamed(node: &Node) -> &Node {
    let Node::Relation(first, rest) = node else {
        return node;
    };
    match rest.as_slice() {
        [(Relation::In, set)] if matches!(**first, Node::Name(_)) => set,
        [.., (Relation::Equal, last)] if is_equation(rest) && is_label(first, last) => last,
        _ => node,
    }
}

fn is_label(first: &Node, value: &Node) -> bool {
    match first {
        Node::Name(name) => !value.names().contains(name),
        Node::Text(_) => true,
        Node::Bracketed { items, .. } => items.iter().all(|item| matches!(item, Node::Name(_))),
        _ => is_application(first) || first.is_constant(),
    }
}

/// The intervals that a union, an interval, an inequality or a list of inequalities consists of.
pub(crate) fn pieces(node: &Node) -> Option<Vec<Node>> {
    match node {
        Node::Union(parts) => parts.iter().map(piece).collect(),
        Node::List(parts) if parts.iter().all(|part| matches!(part, Node::Relation(..))) => {
            parts.iter().map(interval).collect()
        }
        Node::Relation(..) => interval(node).map(|piece| vec![piece]),
        Node::Bracketed { items, .. } if items.len() == 2 => Some(vec![node.clone()]),
        _ => None,
    }
}

fn piece(node: &Node) -> Option<Node> {
    match node {
        Node::Bracketed { .. } | Node::Set(_) | Node::Name(_) => Some(node.clone()),
        _ => None,
    }
}

/// The interval in which an inequality puts a variable.
pub(crate) fn interval(node: &Node) -> Option<Node> {
    let Node::Relation(first, rest) = node else {
        return None;
    };
    let is_bound = |node: &Node| node.is_constant() && node.is_scalar();
    match rest.as_slice() {
        [(relation, value)] if matches!(**first, Node::Name(_)) && is_bound(value) => half_open(*relation, value),
        [(relation, name)] if matches!(name, Node::Name(_)) && is_bound(first) => half_open(relation.reversed(), first),
        [(one, name), (other, value)] if matches!(name, Node::Name(_)) && is_bound(first) && is_bound(value) => {
            let (low, high) = (half_open(one.reversed(), first)?, half_open(*other, value)?);
            between(&low, &high).or_else(|| between(&high, &low))
        }
        _ => None,
    }
}

fn half_open(relation: Relation, value: &Node) -> Option<Node> {
    let minus_infinity = Node::Negate(Box::new(Node::Infinity));
    let (open, close, items) = match relation {
        Relation::Less => ('(', ')', vec![minus_infinity, value.clone()]),
        Relation::LessOrEqual => ('(', ']', vec![minus_infinity, value.clone()]),
        Relation::Greater => ('(', ')', vec![value.clone(), Node::Infinity]),
        Relation::GreaterOrEqual => ('[', ')', vec![value.clone(), Node::Infinity]),
        _ => return None,
    };
    Some(Node::Bracketed { open, close, items })
}

/// The interval from a lower bound's beginning to an upper bound's end.
fn between(low: &Node, high: &Node) -> Option<Node> {
    let (
        Node::Bracketed { open, items: lows, .. },
        Node::Bracketed {
            close, items: highs, ..
        },
    ) = (low, high)
    else {
        return None;
    };
    let is_ordered = lows.get(1) == Some(&Node::Infinity) && highs.get(1) != Some(&Node::Infinity);
    is_ordered.then(|| Node::Bracketed {
        open: *open,
        close: *close,
        items: lows.iter().take(1).chain(highs.iter().skip(1)).cloned().collect(),
    })
}

/// Compares two relations; `None` when what they say of their variables is to be compared instead.
pub(crate) fn compare(comparer: &mut Comparer<'_>, one: &Node, other: &Node) -> Result<Option<bool>, Exhausted> {
    let (Node::Relation(first, rest), Node::Relation(others, another)) = (one, other) else {
        return Ok(None);
    };
    if interval(one).is_some() && interval(other).is_some() {
        return Ok(same_variable(one, other).then_some(()).map_or(Some(false), |()| None));
    }
    let ([(relation, last)], [(others_relation, others_last)]) = (rest.as_slice(), another.as_slice()) else {
        let is_same =
            same_variable(one, other) && !std::ptr::eq(unnamed(one), one) && !std::ptr::eq(unnamed(other), other);
        return Ok(if is_same { None } else { Some(false) });
    };
    if matches!(relation, Relation::In) || matches!(others_relation, Relation::In) {
        return Ok(same_variable(one, other).then_some(()).map_or(Some(false), |()| None));
    }
    let (ours, relation) = directed(first, *relation, last);
    let (theirs, another) = directed(others, *others_relation, others_last);
    if relation != another {
        return Ok(Some(false));
    }
    let quotient = match quotient(comparer, &ours, &theirs) {
        Ok(quotient) => quotient,
        Err(Unformed::Exhausted) => return Err(Exhausted),
        Err(_) => {
            let is_same = comparer.equal(first, others)? && comparer.equal(last, others_last)?;
            return Ok(Some(is_same));
        }
    };
    let Some(quotient) = quotient else {
        return Ok(Some(false));
    };
    if matches!(relation, Relation::Equal | Relation::Unequal) {
        return Ok(Some(true));
    }
    Ok(Some(match quotient.as_constant() {
        Some(value) => value > RBig::ZERO,
        None => {
            let ratio = Node::Divide(Box::new(ours), Box::new(theirs));
            comparer.is_positive(&ratio)?.unwrap_or(false)
        }
    }))
}

fn same_variable(one: &Node, other: &Node) -> bool {
    one.names() == other.names()
}

/// The difference of the sides, so that the relation is less, less or equal, equal or unequal to zero.
fn directed(first: &Node, relation: Relation, last: &Node) -> (Node, Relation) {
    let difference = |one: &Node, other: &Node| Node::Sum(vec![one.clone(), Node::Negate(Box::new(other.clone()))]);
    match relation {
        Relation::Greater | Relation::GreaterOrEqual => (difference(last, first), relation.reversed()),
        _ => (difference(first, last), relation),
    }
}

/// What one difference is of the other when that holds no variable and is not zero.
fn quotient(comparer: &mut Comparer<'_>, one: &Node, other: &Node) -> Result<Option<Fraction>, Unformed> {
    let one = normal(one, comparer.steps)?;
    let other = normal(other, comparer.steps)?;
    if one.above.is_zero() || other.above.is_zero() {
        let zero = Fraction::constant(RBig::ONE);
        return Ok((one.above.is_zero() && other.above.is_zero()).then_some(zero));
    }
    let quotient = one.divided(&other, comparer.steps)?;
    let has_name = |polynomial: &Polynomial| {
        let mut atoms = polynomial.terms.keys().flatten();
        atoms.any(|(atom, _)| matches!(atom, Atom::Name(_)))
    };
    let is_constant = !has_name(&quotient.above) && !has_name(&quotient.below);
    Ok(is_constant.then_some(quotient))
}
