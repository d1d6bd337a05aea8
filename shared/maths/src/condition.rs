//! Conditions on variables that are said together: what "and", "or" and a comma make of them.

use crate::node::{Node, Relation};
use crate::relation::{around, interval};
use crate::segment::common;
use crate::steps::Steps;

/// What stands between two items of a list. Of several between the same two the largest counts: `, or`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Joint {
    /// A comma or a semicolon.
    Comma,
    And,
    Or,
}

/// A condition that puts one variable into a set.
struct Condition {
    name: String,
    /// The set is their union.
    pieces: Vec<Node>,
    /// It says which value the variable has.
    is_value: bool,
}

/// What conditions that are said together come to: for each variable the one set that it is in. All else stays as it is.
///
/// Conditions that are joined by "and", or by commas alone, hold together; but for such as nothing fulfils, as in `x < 1, x > 3`:
/// there the commas are read as "or".
pub(crate) fn together(items: Vec<Node>, joints: &[Joint], steps: &mut Steps) -> Vec<Node> {
    let Some(conditions) = items
        .iter()
        .map(|item| condition(item, steps))
        .collect::<Option<Vec<Condition>>>()
    else {
        return items;
    };
    let are_settled = items.len() < 2 && !items.iter().any(Node::has_two_signs);
    if are_settled || conditions.iter().all(|condition| condition.is_value) {
        return items;
    }
    let is_one_variable = conditions.windows(2).all(|pair| pair[0].name == pair[1].name);
    let set = if is_one_variable {
        one_set(&conditions, joints, steps).map(|set| vec![set])
    } else if joints.contains(&Joint::Or) {
        None
    } else {
        by_variable(&items, &conditions, steps)
    };
    set.unwrap_or(items)
}

fn one_set(conditions: &[Condition], joints: &[Joint], steps: &mut Steps) -> Option<Node> {
    let name = &conditions.first()?.name;
    let has_or = joints.contains(&Joint::Or);
    let mut alternatives: Vec<Vec<&Condition>> = vec![Vec::new()];
    for (index, condition) in conditions.iter().enumerate() {
        let joint = index.checked_sub(1).and_then(|before| joints.get(before));
        // Beside an "or" a comma is one too: `x < 1, 2 < x < 3, or x > 5`.
        let is_other = joint == Some(&Joint::Or) || (has_or && joint == Some(&Joint::Comma));
        if is_other {
            alternatives.push(Vec::new());
        }
        alternatives.last_mut()?.push(condition);
    }
    let mut pieces = Vec::new();
    for alternative in &alternatives {
        pieces.append(&mut fulfilling(alternative, steps)?);
    }
    if pieces.is_empty() && joints.iter().all(|joint| *joint == Joint::Comma) {
        pieces = conditions
            .iter()
            .flat_map(|condition| condition.pieces.iter().cloned())
            .collect();
    }
    Some(within(name, pieces))
}

/// What fulfils all of some conditions on one variable.
fn fulfilling(conditions: &[&Condition], steps: &mut Steps) -> Option<Vec<Node>> {
    if let [sole] = conditions {
        return Some(sole.pieces.clone());
    }
    let sets: Vec<Vec<Node>> = conditions.iter().map(|condition| condition.pieces.clone()).collect();
    common(&sets, steps)
}

/// One condition for each of several variables, in the order in which they are named first.
fn by_variable(items: &[Node], conditions: &[Condition], steps: &mut Steps) -> Option<Vec<Node>> {
    let mut names: Vec<&str> = Vec::new();
    for condition in conditions {
        if !names.contains(&condition.name.as_str()) {
            names.push(&condition.name);
        }
    }
    let of = |name: &str, steps: &mut Steps| {
        let (own, own_items): (Vec<&Condition>, Vec<&Node>) = conditions
            .iter()
            .zip(items)
            .filter(|(condition, _)| condition.name == name)
            .unzip();
        match own_items.as_slice() {
            [sole] => Some((*sole).clone()),
            _ => fulfilling(&own, steps).map(|pieces| within(name, pieces)),
        }
    };
    names.into_iter().map(|name| of(name, steps)).collect()
}

/// The variable is in the union of these.
fn within(name: &str, mut pieces: Vec<Node>) -> Node {
    let set = match pieces.len() {
        0 => Node::Set(Vec::new()),
        1 => pieces.remove(0),
        _ => Node::Union(pieces),
    };
    Node::Relation(Box::new(Node::Name(name.to_owned())), vec![(Relation::In, set)])
}

fn condition(node: &Node, steps: &mut Steps) -> Option<Condition> {
    let Node::Relation(first, rest) = node else {
        return None;
    };
    let of = |name: &str, pieces: Vec<Node>, is_value: bool| Condition {
        name: name.to_owned(),
        pieces,
        is_value,
    };
    if let Some(piece) = interval(node) {
        return Some(of(node.names().first()?, vec![piece], false));
    }
    let (Node::Name(name), [(relation, value)]) = (&**first, rest.as_slice()) else {
        return None;
    };
    match relation {
        Relation::In => Some(of(name, parts(value)?, false)),
        Relation::Equal => Some(of(name, vec![Node::Set(values(value)?)], true)),
        Relation::Unequal => {
            let around: Vec<Vec<Node>> = values(value)?
                .iter()
                .map(|point| around(std::slice::from_ref(point)))
                .collect();
            let pieces = match around.as_slice() {
                [sole] => sole.clone(),
                _ => common(&around, steps)?,
            };
            Some(of(name, pieces, false))
        }
        _ => None,
    }
}

fn parts(set: &Node) -> Option<Vec<Node>> {
    match set {
        Node::Union(parts) => Some(parts.clone()),
        Node::Set(_) => Some(vec![set.clone()]),
        Node::Bracketed { items, .. } if items.len() == 2 => Some(vec![set.clone()]),
        _ => None,
    }
}

/// The constant, or the two that a double sign makes of it.
fn values(value: &Node) -> Option<Vec<Node>> {
    let values = if value.has_two_signs() {
        vec![value.with_sign(true), value.with_sign(false)]
    } else {
        vec![value.clone()]
    };
    let are_constants = values.iter().all(|value| value.is_constant() && value.is_scalar());
    are_constants.then_some(values)
}
