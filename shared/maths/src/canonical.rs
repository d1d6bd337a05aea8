//! A short text that is the same for equal answers: for votes, and for people to read.

use dashu_ratio::RBig;

use crate::answer::{Answer, MAX_CANONICAL_BYTES, words};
use crate::compare::{elements, hash, hoisted, points};
use crate::evaluate::{Complex, Evaluator, digits};
use crate::node::{Clock, Node, Relation};
use crate::normal::normal;
use crate::polynomial::{Atom, Exponent, Fraction, Polynomial, Unformed};
use crate::relation::{in_order_of_names, named, pieces, unnamed};
use crate::steps::Steps;
use crate::unit::{Unit, is_half_of_day};
use crate::worded::limit;

pub(crate) fn canonical(answer: &Answer, steps: &mut Steps) -> String {
    let read = answer.node.as_ref().or(answer.stated.as_ref());
    let formed = read.and_then(|node| form(node, steps));
    let text = formed.unwrap_or_else(|| {
        // What has no form is told apart by its letters.
        answer.source.squeezed.clone()
    });
    shortened(text)
}

/// A long form keeps its beginning and is told apart by the hash of the whole.
fn shortened(text: String) -> String {
    const KEPT: usize = MAX_CANONICAL_BYTES - 24;
    if text.len() <= MAX_CANONICAL_BYTES {
        return text;
    }
    let mut end = KEPT;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…#{:016x}", &text[..end], hash(text.as_bytes()))
}

fn form(node: &Node, steps: &mut Steps) -> Option<String> {
    steps.take(1).ok()?;
    if let Some(named) = named(node) {
        let values: Option<Vec<String>> = in_order_of_names(&named)
            .into_iter()
            .map(|(_, value)| form(value, steps))
            .collect();
        return Some(format!("({})", values?.join(", ")));
    }
    let node = unnamed(node);
    if let Some(pieces) = pieces(node).filter(|_| !matches!(node, Node::Bracketed { .. })) {
        return sorted(&pieces, steps).map(|mut parts| {
            parts.dedup();
            parts.join(" U ")
        });
    }
    if let Some(elements) = elements(node) {
        let mut parts = match node {
            Node::List(items) if are_conditions_of_several(items) => conditions(items, steps)?,
            _ => sorted(&elements, steps)?,
        };
        // A list names an element as often as it occurs.
        if !matches!(node, Node::List(_)) {
            parts.dedup();
        }
        return Some(match parts.as_slice() {
            [sole] => sole.clone(),
            _ => format!("{{{}}}", parts.join(", ")),
        });
    }
    match node {
        Node::Union(groups) => alternatives(groups, steps),
        Node::Text(text) => Some(words(text)),
        Node::Based { digits, .. } => Some(digits.clone()),
        Node::Bracketed { open, close, items } => Some(format!("{open}{}{close}", forms(items, steps)?.join(", "))),
        Node::Matrix(rows) if rows.len() == 1 => Some(format!("({})", forms(&rows[0], steps)?.join(", "))),
        Node::Matrix(rows) if rows.iter().all(|row| row.len() == 1) => {
            let column: Vec<Node> = rows.iter().flatten().cloned().collect();
            Some(format!("({})", forms(&column, steps)?.join(", ")))
        }
        Node::Matrix(rows) => {
            let rows: Option<Vec<String>> = rows.iter().map(|row| Some(forms(row, steps)?.join(", "))).collect();
            Some(format!("[{}]", rows?.join("; ")))
        }
        Node::Proportion(parts, Clock::No) => proportion(parts, steps),
        Node::Proportion(parts, _) => forms(parts, steps).map(|parts| parts.join(":")),
        Node::Relation(first, rest) => related(first, rest, steps),
        _ => {
            let (value, unit) = hoisted(node);
            let value = scalar(&value, steps)?;
            Some(match unit.as_ref().and_then(told) {
                Some(words) => format!("{value} {words}"),
                None => value,
            })
        }
    }
}

/// What of a unit tells values apart of which one alone may be right: percent, degrees, halves of a day, "or more".
fn told(unit: &Unit) -> Option<&str> {
    let is_ratio = unit.measure.as_ref().is_some_and(|measure| measure.is_ratio);
    match limit(&unit.words) {
        Some(limit) => Some(limit),
        None => (is_ratio || is_half_of_day(&unit.words)).then_some(unit.words.as_str()),
    }
}

fn forms(items: &[Node], steps: &mut Steps) -> Option<Vec<String>> {
    items.iter().map(|item| form(item, steps)).collect()
}

/// Conditions on more than one variable, so that each is told with its own.
fn are_conditions_of_several(items: &[Node]) -> bool {
    let is_condition = |item: &Node| matches!(item, Node::Relation(..)) && unnamed_pieces(item);
    items.iter().all(is_condition) && items.windows(2).any(|pair| pair[0].names() != pair[1].names())
}

fn unnamed_pieces(node: &Node) -> bool {
    pieces(unnamed(node)).is_some()
}

/// Groups of conditions of which one holds or another.
fn alternatives(groups: &[Node], steps: &mut Steps) -> Option<String> {
    let mut told = Vec::with_capacity(groups.len());
    for group in groups {
        let items = match group {
            Node::List(items) => items.as_slice(),
            sole => std::slice::from_ref(sole),
        };
        told.push(conditions(items, steps)?.join(", "));
    }
    told.sort_unstable();
    told.dedup();
    Some(told.join(" or "))
}

fn conditions(items: &[Node], steps: &mut Steps) -> Option<Vec<String>> {
    let told = |item: &Node, steps: &mut Steps| Some(format!("{} in {}", item.names().join(", "), form(item, steps)?));
    let mut told: Vec<String> = items.iter().map(|item| told(item, steps)).collect::<Option<_>>()?;
    told.sort_unstable();
    Some(told)
}

fn sorted(items: &[Node], steps: &mut Steps) -> Option<Vec<String>> {
    let mut forms = forms(items, steps)?;
    forms.sort_unstable();
    Some(forms)
}

/// Parts of a proportion by the first; of two parts, their quotient.
fn proportion(parts: &[Node], steps: &mut Steps) -> Option<String> {
    let quotient = |one: &Node, other: &Node| Node::Divide(Box::new(one.clone()), Box::new(other.clone()));
    if let [above, below] = parts {
        return scalar(&quotient(above, below), steps);
    }
    let first = parts.first()?;
    let parts: Option<Vec<String>> = parts.iter().map(|part| scalar(&quotient(part, first), steps)).collect();
    Some(parts?.join(":"))
}

/// A relation as a polynomial, its first coefficient made one, against zero.
fn related(first: &Node, rest: &[(Relation, Node)], steps: &mut Steps) -> Option<String> {
    let [(relation, last)] = rest else {
        let mut text = form(first, steps)?;
        for (relation, side) in rest {
            text.push_str(relation.sign());
            text.push_str(&form(side, steps)?);
        }
        return Some(text);
    };
    let (low, high, relation) = match relation {
        Relation::Greater | Relation::GreaterOrEqual => (last, first, relation.reversed()),
        _ => (first, last, *relation),
    };
    let difference = Node::Sum(vec![low.clone(), Node::Negate(Box::new(high.clone()))]);
    let formed = normal(&difference, steps).ok()?;
    let polynomial = formed.as_polynomial()?;
    let (_, leading) = polynomial.terms.last_key_value()?;
    let is_flipped = *leading < RBig::ZERO;
    let by = if is_flipped && matches!(relation, Relation::Less | Relation::LessOrEqual) {
        RBig::from(-1) / leading
    } else {
        RBig::ONE / leading
    };
    Some(format!("{}{}0", written(&polynomial.scaled(&by)), relation.sign()))
}

fn scalar(node: &Node, steps: &mut Steps) -> Option<String> {
    if !node.is_scalar() {
        return None;
    }
    match normal(node, steps) {
        Ok(formed) => match readable(&formed) {
            Some(text) => Some(text),
            None => by_value(node, &names(&formed), steps),
        },
        Err(Unformed::None | Unformed::Large) => by_value(node, &node.names(), steps),
        Err(Unformed::Undefined | Unformed::Exhausted) => None,
    }
}

/// The form of a rational number, or of a polynomial whose form does not depend on how it came about.
fn readable(formed: &Fraction) -> Option<String> {
    let polynomial = formed.as_polynomial()?;
    let mut atoms = polynomial.terms.keys().flatten();
    let has_root = atoms.any(|(atom, _)| matches!(atom, Atom::Prime(_) | Atom::I));
    let is_number = polynomial.as_constant().is_none()
        && polynomial
            .terms
            .keys()
            .flatten()
            .all(|(atom, _)| !matches!(atom, Atom::Name(_) | Atom::Infinity));
    (!has_root && !is_number).then(|| written(polynomial))
}

fn written(polynomial: &Polynomial) -> String {
    let mut text = String::new();
    for (monomial, coefficient) in polynomial.terms.iter().rev() {
        let atoms: Vec<String> = monomial
            .iter()
            .map(|(atom, exponent)| atom_written(atom, *exponent))
            .collect();
        let number = match (atoms.is_empty(), coefficient.to_string()) {
            (false, number) if number == "1" => String::new(),
            (false, number) if number == "-1" => "-".to_owned(),
            (false, number) => format!("{number}*"),
            (true, number) => number,
        };
        if !text.is_empty() && !number.starts_with('-') {
            text.push('+');
        }
        text.push_str(&number);
        text.push_str(&atoms.join("*"));
    }
    if text.is_empty() { "0".to_owned() } else { text }
}

fn atom_written(atom: &Atom, exponent: Exponent) -> String {
    let name = match atom {
        Atom::Name(name) => name.trim_start_matches('\\').to_owned(),
        Atom::Pi => "pi".to_owned(),
        Atom::E => "e".to_owned(),
        Atom::I => "i".to_owned(),
        Atom::Infinity => "infinity".to_owned(),
        Atom::Prime(prime) => prime.to_string(),
    };
    match exponent {
        Exponent::ONE => name,
        Exponent { above, below: 1 } => format!("{name}^{above}"),
        Exponent { above, below } => format!("{name}^({above}/{below})"),
    }
}

/// The variables that are left in a form.
fn names(formed: &Fraction) -> Vec<String> {
    let atoms = [&formed.above, &formed.below]
        .into_iter()
        .flat_map(|side| side.terms.keys().flatten());
    let mut names: Vec<String> = atoms
        .filter_map(|(atom, _)| match atom {
            Atom::Name(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The digits of a constant, or a hash of the values at fixed points. Variables that cancel have a value, and no part in the form.
fn by_value(node: &Node, left: &[String], steps: &mut Steps) -> Option<String> {
    let points = points(&node.names());
    let mut evaluator = Evaluator::new(steps);
    if left.is_empty() {
        return evaluator.value(node, points.first()?).ok().map(|value| complex(&value));
    }
    let values: Vec<String> = points
        .iter()
        .map(|point| {
            evaluator
                .value(node, point)
                .map_or_else(|_| String::new(), |value| complex(&value))
        })
        .collect();
    if values.iter().all(String::is_empty) {
        return None;
    }
    let names: Vec<&str> = left.iter().map(|name| name.trim_start_matches('\\')).collect();
    Some(format!(
        "of {}: {:016x}",
        names.join(", "),
        hash(values.join(";").as_bytes())
    ))
}

fn complex(value: &Complex) -> String {
    if value.is_real() {
        return digits(&value.re);
    }
    let im = digits(&value.im);
    match digits(&value.re).as_str() {
        "0" => format!("{im}*i"),
        re if im.starts_with('-') => format!("{re}{im}*i"),
        re => format!("{re}+{im}*i"),
    }
}
