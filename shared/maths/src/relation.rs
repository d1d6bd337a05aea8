//! Equations and inequalities: what they say of a variable, and when two say the same.

use dashu_ratio::RBig;

use crate::compare::{Comparer, is_application, is_equation};
use crate::node::{Function, Node, Relation};
use crate::normal::normal;
use crate::polynomial::{Atom, Fraction, Polynomial, Unformed};
use crate::segment::merged;
use crate::steps::{Exhausted, Steps};

/// The value in `x = 3`, `f(x) = x^2`, `x \in (1, 2]` and `1 + 1 = 2`, the point in `P(1, 2)`; anything else as it is.
pub(crate) fn unnamed(node: &Node) -> &Node {
    if let Node::Product(factors) = node
        && let [
            Node::Name(name),
            point @ Node::Bracketed {
                open: '(', close: ')', ..
            },
        ] = factors.as_slice()
        && name.len() == 1
        && name.bytes().all(|letter| letter.is_ascii_uppercase())
    {
        return point;
    }
    let Node::Relation(first, rest) = node else {
        return node;
    };
    match rest.as_slice() {
        [(Relation::In, set)] if matches!(**first, Node::Name(_)) || is_tuple_of_names(first) => set,
        [(Relation::Equal, Node::Name(_))] if first.is_constant() && first.is_scalar() => first,
        [.., (Relation::Equal | Relation::About, last)] if is_equation(rest) && is_label(first, last) => last,
        _ => node,
    }
}

/// Values and the names of what has them, as they are written: `x = 1, y = 2`, `(x, y) = (1, 2)`, `x = y = 0`; each name stands once.
pub(crate) fn named(node: &Node) -> Option<Vec<(&str, &Node)>> {
    let named: Vec<(&str, &Node)> = match node {
        Node::List(items) => items.iter().map(named_value).collect::<Option<_>>()?,
        Node::Relation(first, rest) => match (&**first, rest.as_slice()) {
            (Node::Bracketed { items: names, .. }, [.., (_, Node::Bracketed { items: values, .. })])
                if is_equation(rest) && names.len() == values.len() =>
            {
                let pairs = names.iter().map(name_of).zip(values);
                pairs.map(|(name, value)| Some((name?, value))).collect::<Option<_>>()?
            }
            (Node::Name(name), [names @ .., (Relation::Equal, value)])
                if !names.is_empty() && names.iter().all(|(sign, _)| *sign == Relation::Equal) =>
            {
                let names = std::iter::once(Some(name.as_str())).chain(names.iter().map(|(_, name)| name_of(name)));
                names.map(|name| Some((name?, value))).collect::<Option<_>>()?
            }
            _ => return None,
        },
        _ => return None,
    };
    let is_once = |(index, (name, _)): (usize, &(&str, &Node))| named[..index].iter().all(|(other, _)| other != name);
    let are_plain = named.iter().all(|(_, value)| !value.has_two_signs());
    (named.len() > 1 && are_plain && named.iter().enumerate().all(is_once)).then_some(named)
}

fn name_of(node: &Node) -> Option<&str> {
    match node {
        Node::Name(name) => Some(name),
        _ => None,
    }
}

fn named_value(node: &Node) -> Option<(&str, &Node)> {
    match node {
        Node::Relation(first, rest) => match (&**first, rest.as_slice()) {
            (Node::Name(name), [.., (_, value)]) if is_equation(rest) => Some((name, value)),
            _ => None,
        },
        _ => None,
    }
}

/// Named values in the order of a tuple of them: by the alphabet, Greek letters last.
pub(crate) fn in_order_of_names<'n>(named: &[(&'n str, &'n Node)]) -> Vec<(&'n str, &'n Node)> {
    let mut ordered = named.to_vec();
    ordered.sort_by_key(|(name, _)| (name.starts_with('\\'), *name));
    ordered
}

/// Nobody writes a tuple of such variables but by the alphabet: x and y, a to d, `x_1` and `x_2`.
pub(crate) fn has_one_order(ordered: &[(&str, &Node)]) -> bool {
    let parts = |name: &str| {
        let mut letters = name.chars();
        let letter = letters.next().filter(char::is_ascii_alphabetic)?;
        let index = letters.as_str().strip_prefix('_').unwrap_or(letters.as_str());
        let number = if index.is_empty() {
            0
        } else {
            index.parse::<u32>().ok()?
        };
        Some((letter, number))
    };
    ordered
        .windows(2)
        .all(|pair| match (parts(pair[0].0), parts(pair[1].0)) {
            (Some((one, first)), Some((other, second))) if one == other => first < second && second < 10,
            (Some((one, 0)), Some((other, 0))) => u32::from(other) == u32::from(one) + 1 || (one, other) == ('h', 'k'),
            (Some(('r', 0)), None) => pair[1].0 == r"\theta",
            _ => false,
        })
}

/// The value that the last one is a rounding of: the root in `\sqrt 2 \approx 1.41` and in `x = \sqrt 2 \approx 1.41`.
pub(crate) fn exact(node: &Node) -> Option<&Node> {
    let Node::Relation(first, rest) = node else {
        return None;
    };
    let [before @ .., (Relation::About, _)] = rest.as_slice() else {
        return None;
    };
    let value = before.last().map_or(&**first, |(_, value)| value);
    (is_equation(rest) && value.is_constant() && value.is_scalar()).then_some(value)
}

fn is_tuple_of_names(node: &Node) -> bool {
    matches!(node, Node::Bracketed { items, .. } if items.iter().all(|item| matches!(item, Node::Name(_))))
}

/// Values of one variable, which are no tuple: `x = 2, x = 3`.
pub(crate) fn are_of_one_name(items: &[Node]) -> bool {
    let mut names = items.iter().map(named_value);
    let Some(Some((first, _))) = names.next() else {
        return false;
    };
    items.len() > 1 && names.all(|named| named.is_some_and(|(name, _)| name == first))
}

/// It says what some variables are, so that a union of such is of conditions and not of intervals.
pub(crate) fn is_condition(node: &Node) -> bool {
    matches!(node, Node::Relation(..) | Node::List(_))
}

/// A relation, of an absolute value what it says of the variable itself.
pub(crate) fn related(first: Node, rest: Vec<(Relation, Node)>, steps: &mut Steps) -> Node {
    without_bars(&first, &rest, steps).unwrap_or_else(|| Node::Relation(Box::new(first), rest))
}

/// All real numbers minus a set of some, as in `\mathbb{R} - \{2\}`; anything else as it is.
pub(crate) fn difference(node: Node, steps: &mut Steps) -> Node {
    let rest = match &node {
        Node::Sum(terms) => match terms.as_slice() {
            [reals, Node::Negate(removed)] => reals_without(reals, removed, steps),
            _ => None,
        },
        _ => None,
    };
    rest.unwrap_or(node)
}

/// What a bound of an absolute value says of the variable itself: `|x| < 3` puts it between -3 and 3.
fn without_bars(first: &Node, rest: &[(Relation, Node)], steps: &mut Steps) -> Option<Node> {
    let (low, name, high) = match rest {
        [(sign, bound)] if bar(first).is_some() => (None, bar(first)?, Some((*sign, bound))),
        [(sign, bars)] => (None, bar(bars)?, Some((sign.reversed(), first))),
        [(low, bars), (high, bound)] => (Some((low.reversed(), first)), bar(bars)?, Some((*high, bound))),
        _ => return None,
    };
    let (mut below, mut above) = (None, None);
    for (sign, value) in low.into_iter().chain(high) {
        let value = normal(value, steps).ok()?.as_constant()?;
        let side = match sign {
            Relation::Less | Relation::LessOrEqual => &mut above,
            Relation::Greater | Relation::GreaterOrEqual => &mut below,
            _ => return None,
        };
        if value <= RBig::ZERO || side.is_some() {
            return None;
        }
        *side = Some((sign, value));
    }
    if let (Some((_, below)), Some((_, above))) = (&below, &above)
        && below >= above
    {
        return None;
    }
    let set = ring(below.as_ref(), above.as_ref());
    Some(Node::Relation(Box::new(name.clone()), vec![(Relation::In, set)]))
}

/// The variable between the bars.
fn bar(node: &Node) -> Option<&Node> {
    match node {
        Node::Call(Function::Abs, of) => of.first().filter(|of| matches!(of, Node::Name(_))),
        _ => None,
    }
}

/// The values whose distance from zero is in the bounds.
fn ring(low: Option<&(Relation, RBig)>, high: Option<&(Relation, RBig)>) -> Node {
    let is_closed = |side: Option<&(Relation, RBig)>| {
        side.is_some_and(|(sign, _)| matches!(sign, Relation::LessOrEqual | Relation::GreaterOrEqual))
    };
    let end = |side: Option<&(Relation, RBig)>| side.map_or(Node::Infinity, |(_, value)| Node::Number(value.clone()));
    let minus = |node: Node| match node {
        Node::Number(value) => Node::Number(-value),
        node => Node::Negate(Box::new(node)),
    };
    let between = |from: Node, is_from: bool, to: Node, is_to: bool| Node::Bracketed {
        open: if is_from { '[' } else { '(' },
        close: if is_to { ']' } else { ')' },
        items: vec![from, to],
    };
    let (inner, outer) = (is_closed(low), is_closed(high));
    if low.is_none() {
        return between(minus(end(high)), outer, end(high), outer);
    }
    Node::Union(vec![
        between(minus(end(high)), outer, minus(end(low)), inner),
        between(end(low), inner, end(high), outer),
    ])
}

fn is_label(first: &Node, value: &Node) -> bool {
    match first {
        Node::Name(name) => !value.names().contains(name),
        Node::Text(_) => true,
        Node::Bracketed { items, .. } => items.iter().all(|item| matches!(item, Node::Name(_))),
        _ => is_application(first) || first.is_constant(),
    }
}

/// The intervals that a union, an interval or an inequality consists of.
pub(crate) fn pieces(node: &Node) -> Option<Vec<Node>> {
    match node {
        Node::Union(parts) => parts.iter().map(piece).collect::<Option<_>>().map(merged),
        Node::Relation(..) => interval(node).map(|piece| vec![piece]).or_else(|| besides(node)),
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

/// What `x \ne 2` leaves of all real numbers.
fn besides(node: &Node) -> Option<Vec<Node>> {
    let Node::Relation(first, rest) = node else {
        return None;
    };
    match rest.as_slice() {
        [(Relation::Unequal, value)]
            if matches!(**first, Node::Name(_)) && value.is_constant() && value.is_scalar() =>
        {
            Some(around(std::slice::from_ref(value)))
        }
        _ => None,
    }
}

/// The intervals between points that stand in their order, and from the last ones on.
pub(crate) fn around(points: &[Node]) -> Vec<Node> {
    let minus_infinity = Node::Negate(Box::new(Node::Infinity));
    let ends: Vec<Node> = std::iter::once(minus_infinity)
        .chain(points.iter().cloned())
        .chain([Node::Infinity])
        .collect();
    let between = |ends: &[Node]| Node::Bracketed {
        open: '(',
        close: ')',
        items: ends.to_vec(),
    };
    ends.windows(2).map(between).collect()
}

/// All real numbers but some, as in `\mathbb{R} \setminus \{2\}`; of several points those that are rational numbers.
pub(crate) fn reals_without(reals: &Node, removed: &Node, steps: &mut Steps) -> Option<Node> {
    let points = match removed {
        Node::Set(points) if *reals == Node::reals() && !points.is_empty() => points,
        _ => return None,
    };
    if let [point] = points.as_slice() {
        return (point.is_constant() && point.is_scalar()).then(|| Node::Union(around(points)));
    }
    let values: Option<Vec<RBig>> = points
        .iter()
        .map(|point| normal(point, steps).ok()?.as_constant())
        .collect();
    let mut values = values?;
    values.sort();
    values.dedup();
    let points: Vec<Node> = values.into_iter().map(Node::Number).collect();
    Some(Node::Union(around(&points)))
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
    if let (Some((value, is_function)), Some((another, is_other))) = (graph(one), graph(other))
        && is_function != is_other
    {
        return comparer.equal(value, another).map(Some);
    }
    if says_a_set(one) && says_a_set(other) {
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

/// The values of a function, which `y` and `f(x)` both name, and whether it is the latter that does.
fn graph(node: &Node) -> Option<(&Node, bool)> {
    let Node::Relation(first, rest) = node else {
        return None;
    };
    let ([(Relation::Equal, value)], Node::Name(name)) = (rest.as_slice(), &**first) else {
        return None;
    };
    let argument = name
        .split_once('(')
        .and_then(|(_, argument)| argument.strip_suffix(')'));
    let names = value.names();
    match argument {
        Some(argument) if names == [argument] => Some((value, true)),
        None if name == "y" && names == ["x"] => Some((value, false)),
        _ => None,
    }
}

/// It puts a variable into a set: by an inequality, or in words of sets.
fn says_a_set(node: &Node) -> bool {
    let is_membership = matches!(node, Node::Relation(first, rest)
        if matches!(**first, Node::Name(_)) && matches!(rest.as_slice(), [(Relation::In, _)]));
    is_membership || interval(node).is_some()
}

fn same_variable(one: &Node, other: &Node) -> bool {
    one.names() == other.names()
}

/// The difference of the sides, so that the relation is less, less or equal, equal or unequal to zero.
fn directed(first: &Node, relation: Relation, last: &Node) -> (Node, Relation) {
    let difference = |one: &Node, other: &Node| Node::Sum(vec![one.clone(), Node::Negate(Box::new(other.clone()))]);
    match relation {
        Relation::Greater | Relation::GreaterOrEqual => (difference(last, first), relation.reversed()),
        Relation::About => (difference(first, last), Relation::Equal),
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
