//! Conditions on variables that are said together: what "and", "or" and a comma make of them.

use crate::node::{Node, Relation};
use crate::relation::{around, interval};
use crate::segment::common;
use crate::steps::Steps;

/// What stands between two items of a list. Of several between the same two the largest counts: `, or`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Joint {
    Comma,
    /// A semicolon, or the end of a line of LaTeX.
    Semicolon,
    And,
    Or,
}

impl Joint {
    /// It says neither "and" nor "or".
    const fn is_mark(self) -> bool {
        matches!(self, Self::Comma | Self::Semicolon)
    }
}

/// A condition that puts one variable into a set.
struct Condition {
    name: String,
    /// The set is their union.
    pieces: Vec<Node>,
    /// It says which value the variable has.
    is_value: bool,
}

/// What conditions that are said together come to: for each variable the one set that it is in, or where one group of them holds or
/// another, a list of the values of each group, or a union of groups that are not of the same variables. All else stays as it is.
///
/// Conditions that are joined by "and", or by commas alone, hold together; but for such as nothing fulfils, as in `x < 1, x > 3`:
/// there the commas are read as "or".
pub(crate) fn together(items: Vec<Node>, joints: &[Joint], steps: &mut Steps) -> Vec<Node> {
    let (items, joints) = match excluded(&items) {
        Some(excluded) => (excluded, vec![Joint::And; joints.len()]),
        None => (items, joints.to_vec()),
    };
    let Some(conditions) = items
        .iter()
        .map(|item| condition(item, steps))
        .collect::<Option<Vec<Condition>>>()
    else {
        return items;
    };
    let are_settled = items.len() < 2 && !items.iter().any(Node::has_two_signs);
    let are_values = conditions.iter().all(|condition| condition.is_value);
    let is_one_variable = conditions.windows(2).all(|pair| pair[0].name == pair[1].name);
    if are_settled || (are_values && is_one_variable) {
        return items;
    }
    let set = if is_one_variable {
        one_set(&conditions, &joints, steps).map(|set| vec![set])
    } else if let Some(starts) = starts(&conditions, &joints) {
        alternatives(&items, &conditions, &starts, steps)
    } else if are_values {
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
        let is_other = joint == Some(&Joint::Or) || (has_or && joint.is_some_and(|joint| joint.is_mark()));
        if is_other {
            alternatives.push(Vec::new());
        }
        alternatives.last_mut()?.push(condition);
    }
    let mut pieces = Vec::new();
    for alternative in &alternatives {
        pieces.append(&mut fulfilling(alternative, steps)?);
    }
    if pieces.is_empty() && joints.iter().all(|joint| joint.is_mark()) {
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

/// Bare values behind an excluded one, which are excluded too: `x \ne -2, 2`.
fn excluded(items: &[Node]) -> Option<Vec<Node>> {
    let Some((Node::Relation(first, rest), others)) = items.split_first() else {
        return None;
    };
    let is_bare = |node: &Node| node.is_constant() && node.is_scalar();
    let is_exclusion = matches!(rest.as_slice(), [(Relation::Unequal, value)] if is_bare(value));
    if !is_exclusion || !matches!(**first, Node::Name(_)) || others.is_empty() || !others.iter().all(is_bare) {
        return None;
    }
    let unequal = |value: &Node| Node::Relation(first.clone(), vec![(Relation::Unequal, value.clone())]);
    Some(items[..1].iter().cloned().chain(others.iter().map(unequal)).collect())
}

/// Where the groups begin of which one holds or another; `None` where all conditions hold together.
fn starts(conditions: &[Condition], joints: &[Joint]) -> Option<Vec<usize>> {
    let is_before =
        |index: usize, is: &dyn Fn(Joint) -> bool| index == 0 || joints.get(index - 1).is_some_and(|joint| is(*joint));
    let split = |is: &dyn Fn(Joint) -> bool| -> Vec<usize> {
        (0..conditions.len()).filter(|index| is_before(*index, is)).collect()
    };
    let is_named_once = |from: usize, to: usize| {
        let group = &conditions[from..to];
        (1..group.len()).all(|index| group[..index].iter().all(|other| other.name != group[index].name))
    };
    if joints.contains(&Joint::Or) {
        let starts = split(&|joint| joint == Joint::Or);
        let ends = starts.iter().skip(1).copied().chain([conditions.len()]);
        let are_apart = starts.iter().zip(ends).all(|(from, to)| is_named_once(*from, to));
        // Commas before an "or" are as many of it, unless they join what belongs together: `x = 1, y = 2 or x = 2, y = 1`.
        let is_one_list = !are_apart || is_named_once(0, conditions.len());
        return Some(if is_one_list {
            split(&|joint| joint != Joint::And)
        } else {
            starts
        });
    }
    if is_named_once(0, conditions.len()) || !conditions.iter().all(|condition| condition.is_value) {
        return None;
    }
    let by_semicolons = split(&|joint| joint == Joint::Semicolon);
    if by_semicolons.len() > 1 && joints.contains(&Joint::Comma) {
        return Some(by_semicolons);
    }
    // The names come round again: `x = 1, y = 2, x = 2, y = 1`.
    let period = conditions
        .iter()
        .skip(1)
        .position(|condition| condition.name == conditions[0].name)?
        + 1;
    let is_periodic = conditions.len().is_multiple_of(period)
        && is_named_once(0, period)
        && (period..conditions.len()).all(|index| conditions[index].name == conditions[index - period].name);
    (period > 1 && is_periodic).then(|| (0..conditions.len()).step_by(period).collect())
}

/// The groups that begin at these places: a list where each says values of the same variables, else a union.
fn alternatives(items: &[Node], conditions: &[Condition], starts: &[usize], steps: &mut Steps) -> Option<Vec<Node>> {
    let mut groups = Vec::with_capacity(starts.len());
    let mut names: Vec<Vec<&str>> = Vec::with_capacity(starts.len());
    for (index, &from) in starts.iter().enumerate() {
        let to = starts.get(index + 1).copied().unwrap_or(items.len());
        let (own, own_conditions) = (&items[from..to], &conditions[from..to]);
        groups.push(match own {
            [sole] => sole.clone(),
            _ if own_conditions.iter().all(|condition| condition.is_value) => Node::List(own.to_vec()),
            _ => one_or_list(by_variable(own, own_conditions, steps)?),
        });
        let mut own_names: Vec<&str> = own_conditions.iter().map(|condition| condition.name.as_str()).collect();
        own_names.sort_unstable();
        names.push(own_names);
    }
    let are_values = conditions.iter().all(|condition| condition.is_value);
    let are_alike = names.windows(2).all(|pair| pair[0] == pair[1]);
    Some(if are_values && are_alike {
        groups
    } else {
        vec![Node::Union(groups)]
    })
}

fn one_or_list(mut nodes: Vec<Node>) -> Node {
    if nodes.len() == 1 {
        nodes.remove(0)
    } else {
        Node::List(nodes)
    }
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
