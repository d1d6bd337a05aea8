//! Whether two answers are equal.

use dashu_ratio::RBig;

use crate::answer::{Answer, words};
use crate::evaluate::{Complex, Evaluator, Point};
use crate::node::{Clock, Node, Relation};
use crate::normal::normal;
use crate::polynomial::Unformed;
use crate::relation::{self, in_order_of_names};
use crate::steps::{Exhausted, Steps};
use crate::unit::{Unit, letter_is_unit};
use crate::worded;

/// What a comparison came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// They are equal.
    Equal,
    /// They are not.
    Different,
    /// The budget was used up before it was known.
    Undecided,
}

/// A verdict and how it was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comparison {
    /// The verdict.
    pub verdict: Verdict,
    /// In words, for the record: "exactly", "to 130 bits", "without the unit".
    pub how: &'static str,
}

/// Whether two texts are equal answers; undecided counts as not.
#[must_use]
pub fn equal(target: &str, answer: &str) -> bool {
    let mut steps = Steps::default();
    let target = Answer::read_within(target, &mut steps);
    let answer = Answer::read_within(answer, &mut steps);
    compare(&target, &answer, &mut steps).verdict == Verdict::Equal
}

/// Why an answer without a letter that the target has is neither equal nor different.
const AMBIGUOUS: &str = r"a letter of the target may be a unit or a variable; write a unit as text, as in 5\text{ m}";

/// Why two of the same ratio are neither equal nor different where the target may be a time.
const TIME_OR_RATIO: &str =
    "the target may be a time or a ratio; write a ratio with spaces, as in 1 : 15, or as a fraction";

/// Why named values in another order than a tuple's are neither equal nor different.
const TUPLE_OF_NAMES: &str =
    "the names of the values do not say their order in a tuple; write the target as (x, y) = (1, 2), with its names";

/// Compares two answers within a budget. It makes no difference which is which, but for what may be a time or a ratio (`1:15`),
/// which leaves an answer of the same ratio undecided in a target, and for a letter that may be a unit or a variable: in an answer to a target without it, it is a unit (`5 m` for `5`); in a target it is a variable (`2s` is not `2`), or,
/// set apart as in `5 m`, leaves an answer that would be equal without it undecided.
#[must_use]
pub fn compare(target: &Answer, answer: &Answer, steps: &mut Steps) -> Comparison {
    if target.is_empty() || answer.is_empty() {
        return Comparison {
            verdict: Verdict::Different,
            how: "nothing to compare",
        };
    }
    if let Some(comparison) = by_option(target, answer) {
        return comparison;
    }
    if target.source.squeezed == answer.source.squeezed {
        return Comparison {
            verdict: Verdict::Equal,
            how: "letter by letter",
        };
    }
    if target.is_beyond || answer.is_beyond {
        return Comparison {
            verdict: Verdict::Undecided,
            how: "one is longer than is read, or brackets stand in it deeper in each other",
        };
    }
    let may_be_time = |node: &Node| matches!(node, Node::Proportion(_, clock) if *clock != Clock::No);
    let mut comparer = Comparer {
        variables: target.node.as_ref().map(Node::names).unwrap_or_default(),
        reads_times: target.node.as_ref().is_some_and(|node| node.any(&may_be_time)),
        ..Comparer::new(steps)
    };
    // Against a bare value an answer is the value that it states: 113 in `m + n = 113`.
    let stated = answer.stated.as_ref();
    let given = stated
        .filter(|_| target.node.as_ref().is_some_and(is_bare))
        .or(answer.node.as_ref());
    let mut result = match (&target.node, given) {
        (Some(one), Some(other)) if !is_text(one) && !is_text(other) => comparer.equal(one, other),
        _ => {
            comparer.how = "as words";
            let (one, other) = (&target.source.words, &answer.source.words);
            let is_said = [target, answer]
                .into_iter()
                .any(|answer| answer.node.as_ref().is_some_and(is_text));
            Ok(is_said && one == other && one.contains(char::is_alphabetic))
        }
    };
    if let (Ok(false), true, Some(one), Some(other)) = (result, comparer.is_doubtful, &target.node, given) {
        comparer.reads_times = false;
        match comparer.equal(one, other) {
            Ok(false) => comparer.how = "as times",
            Ok(true) => {
                return Comparison {
                    verdict: Verdict::Undecided,
                    how: TIME_OR_RATIO,
                };
            }
            Err(exhausted) => result = Err(exhausted),
        }
    }
    let how = comparer.how;
    let is_ambiguous = comparer.is_ambiguous && target.source.sets_letter_apart;
    match result {
        Ok(false) if comparer.is_unordered => Comparison {
            verdict: Verdict::Undecided,
            how: TUPLE_OF_NAMES,
        },
        Ok(false) if is_ambiguous => Comparison {
            verdict: Verdict::Undecided,
            how: AMBIGUOUS,
        },
        Ok(true) => Comparison {
            verdict: Verdict::Equal,
            how,
        },
        Ok(false) => Comparison {
            verdict: Verdict::Different,
            how,
        },
        Err(Exhausted) => Comparison {
            verdict: Verdict::Undecided,
            how: "the budget of steps ran out",
        },
    }
}

/// An answer with the letter of its option is equal to the letter alone, and is none of another letter.
fn by_option(target: &Answer, answer: &Answer) -> Option<Comparison> {
    let verdict = match (target.option, answer.option) {
        (Some(one), Some(other)) if one != other => Verdict::Different,
        (Some(letter), None) if answer.is_letter(letter) => Verdict::Equal,
        (None, Some(letter)) if target.is_letter(letter) => Verdict::Equal,
        _ => return None,
    };
    let how = "by the letter of the option";
    Some(Comparison { verdict, how })
}

/// A value without a name, and no collection but a tuple.
fn is_bare(node: &Node) -> bool {
    let is_other = |part: &Node| matches!(part, Node::Relation(..) | Node::List(_) | Node::Set(_) | Node::Union(_));
    node.is_constant() && !node.any(&is_other)
}

/// Several ways to write one value, of percent its hundredth: `\frac12`, `0.5` and `50\%`.
pub(crate) fn are_one_value(items: &[Node], steps: &mut Steps) -> Judged {
    let names: Vec<Vec<String>> = items
        .iter()
        .map(Node::names)
        .filter(|names| !names.is_empty())
        .collect();
    let Some(values) = items.iter().map(plain_value).collect::<Option<Vec<Node>>>() else {
        return Ok(false);
    };
    let mut comparer = Comparer::new(steps);
    for pair in values.windows(2) {
        if !comparer.scalars(&pair[0], &pair[1])? {
            return Ok(false);
        }
    }
    Ok(values.len() > 1 && names.windows(2).all(|pair| pair[0] == pair[1]))
}

fn plain_value(node: &Node) -> Option<Node> {
    let (value, unit) = hoisted(relation::unnamed(node));
    let value = match unit {
        None => value,
        Some(unit) if unit.words == "%" => scaled(&value, &unit.measure?.scale),
        Some(_) => return None,
    };
    (value.is_constant() && value.is_scalar()).then_some(value)
}

fn is_text(node: &Node) -> bool {
    matches!(node, Node::Text(_))
}

pub(crate) struct Comparer<'s> {
    pub(crate) steps: &'s mut Steps,
    pub(crate) how: &'static str,
    /// Those of the target, sorted.
    variables: Vec<String>,
    /// Without a letter that the target has, the values would be equal.
    is_ambiguous: bool,
    /// What may be a time is read as one.
    reads_times: bool,
    /// What was read as times might have been ratios.
    is_doubtful: bool,
    /// Named values are those of a tuple in the order of the alphabet, and not in the order in which they are written.
    is_unordered: bool,
}

type Judged = Result<bool, Exhausted>;

impl<'s> Comparer<'s> {
    fn new(steps: &'s mut Steps) -> Self {
        Self {
            steps,
            how: "exactly",
            variables: Vec::new(),
            is_ambiguous: false,
            reads_times: false,
            is_doubtful: false,
            is_unordered: false,
        }
    }
}

impl Comparer<'_> {
    pub(crate) fn equal(&mut self, one: &Node, other: &Node) -> Judged {
        self.steps.take(1)?;
        if one == other {
            return Ok(true);
        }
        if let Some(is_equal) = self.by_names(one, other)? {
            return Ok(is_equal);
        }
        if let (Node::Relation(..), Node::Relation(..)) = (one, other)
            && let Some(is_equal) = self.relations(one, other)?
        {
            return Ok(is_equal);
        }
        // A value and its rounding are each the answer.
        if let Some(exact) = relation::exact(one)
            && self.equal(exact, other)?
        {
            return Ok(true);
        }
        if let Some(exact) = relation::exact(other)
            && self.equal(one, exact)?
        {
            return Ok(true);
        }
        let (one, other) = (relation::unnamed(one), relation::unnamed(other));
        if let Some(is_equal) = self.collections(one, other)? {
            return Ok(is_equal);
        }
        match (one, other) {
            (Node::Text(one), Node::Text(other)) => {
                self.how = "as words";
                Ok(words(one) == words(other))
            }
            (
                Node::Based { digits, base },
                Node::Based {
                    digits: others,
                    base: another,
                },
            ) => Ok(digits == others && base == another),
            (Node::Based { digits, .. }, Node::Number(value)) | (Node::Number(value), Node::Based { digits, .. }) => {
                self.how = "without the base";
                Ok(*digits == value.to_string())
            }
            (Node::Proportion(parts, clock), Node::Proportion(others, another)) => {
                self.proportions((parts, *clock), (others, *another))
            }
            (Node::Proportion(parts, clock), value) | (value, Node::Proportion(parts, clock)) => match parts.as_slice()
            {
                [above, below] if *clock != Clock::Sure => {
                    let quotient = Node::Divide(Box::new(above.clone()), Box::new(below.clone()));
                    self.equal(&quotient, value)
                }
                _ => Ok(false),
            },
            _ => self.quantities(one, other),
        }
    }

    /// Values that have names, each with the one of its name, or with its place in a tuple; `None` where neither side has them.
    fn by_names(&mut self, one: &Node, other: &Node) -> Result<Option<bool>, Exhausted> {
        match (relation::named(one), relation::named(other)) {
            (Some(values), Some(others)) => {
                let (values, others) = (in_order_of_names(&values), in_order_of_names(&others));
                let are_named_alike = values
                    .iter()
                    .map(|(name, _)| name)
                    .eq(others.iter().map(|(name, _)| name));
                if !are_named_alike {
                    return Ok(None);
                }
                self.how = "by name";
                self.in_order(&without_names(&values), &without_names(&others))
                    .map(Some)
            }
            (Some(values), None) => self.in_tuple(&values, other),
            (None, Some(values)) => self.in_tuple(&values, one),
            (None, None) => Ok(None),
        }
    }

    /// Named values against a tuple, in whose order the names say where each stands.
    fn in_tuple(&mut self, named: &[(&str, &Node)], tuple: &Node) -> Result<Option<bool>, Exhausted> {
        let tuple = relation::unnamed(tuple);
        let is_tuple = matches!(
            tuple,
            Node::Bracketed {
                open: '(',
                close: ')',
                ..
            } | Node::Matrix(_)
        );
        let Some(places) = ordered(tuple).filter(|_| is_tuple && !tuple.has_two_signs()) else {
            return Ok(None);
        };
        self.how = "in order";
        let ordered = in_order_of_names(named);
        let is_equal = self.in_order(&without_names(&ordered), &places)?;
        if relation::has_one_order(&ordered) || ordered.as_slice() == named {
            return Ok(Some(is_equal));
        }
        let is_equal_as_written = self.in_order(&without_names(named), &places)?;
        self.is_unordered |= is_equal && !is_equal_as_written;
        Ok(Some(is_equal_as_written))
    }

    /// Compares as sets, lists, tuples, unions and matrices; `None` when neither is one.
    fn collections(&mut self, one: &Node, other: &Node) -> Result<Option<bool>, Exhausted> {
        if let (Node::Union(parts), Node::Union(others)) = (one, other)
            && parts.iter().chain(others).any(relation::is_condition)
        {
            return self.unordered(parts, others).map(Some);
        }
        let are_single = is_single(one) && is_single(other);
        if let (false, Some(parts), Some(others)) = (are_single, relation::pieces(one), relation::pieces(other)) {
            return self.unordered(&parts, &others).map(Some);
        }
        if let (Node::Matrix(rows), Node::Matrix(others)) = (one, other) {
            return self.matrices(rows, others).map(Some);
        }
        let has_signs = one.has_two_signs() || other.has_two_signs();
        match (ordered(one), ordered(other)) {
            _ if has_signs => {}
            (Some(parts), Some(others)) => return self.tuples(&parts, &others, (one, other)).map(Some),
            (Some(parts), None) if matches!(other, Node::List(_)) => return self.listed(&parts, other).map(Some),
            (None, Some(parts)) if matches!(one, Node::List(_)) => return self.listed(&parts, one).map(Some),
            _ => {}
        }
        match (elements(one), elements(other)) {
            (Some(parts), Some(others)) => self.gathered((one, &parts), (other, &others)).map(Some),
            (Some(parts), None) => self.sole(&parts, other).map(Some),
            (None, Some(parts)) => self.sole(&parts, one).map(Some),
            (None, None) if is_collection(one) || is_collection(other) => Ok(Some(false)),
            (None, None) => Ok(None),
        }
    }

    /// A collection of one, words aside, against a single value.
    fn sole(&mut self, parts: &[Node], other: &Node) -> Judged {
        // `5 or more` is not 5.
        if parts
            .iter()
            .any(|part| matches!(part, Node::Text(word) if worded::is_limit(word)))
        {
            return Ok(false);
        }
        let mut values = parts.iter().filter(|part| !is_text(part));
        match (values.next(), values.next()) {
            (Some(value), None) => self.equal(value, other),
            _ => Ok(false),
        }
    }

    /// Several answers each: sets hold an element once, and lists as often as they name it.
    fn gathered(&mut self, (one, parts): (&Node, &[Node]), (other, others): (&Node, &[Node])) -> Judged {
        let is_list = |node: &Node| matches!(node, Node::List(_));
        self.how = "as sets";
        let is_equal = match (is_list(one), is_list(other)) {
            (false, false) => self.unordered(parts, others),
            (true, true) => self.paired(parts, others),
            (true, false) => Ok(self.paired(parts, others)? || self.is_listed_set(parts, others)?),
            (false, true) => Ok(self.paired(parts, others)? || self.is_listed_set(others, parts)?),
        }?;
        // The elements may have been compared in other ways.
        self.how = "as sets";
        Ok(is_equal)
    }

    /// The list has each element of the set once.
    fn is_listed_set(&mut self, list: &[Node], set: &[Node]) -> Judged {
        let mut distinct: Vec<Node> = Vec::new();
        for element in set {
            if !self.contained(std::slice::from_ref(element), &distinct)? {
                distinct.push(element.clone());
            }
        }
        self.paired(list, &distinct)
    }

    /// Each element of one has a partner of its own in the other.
    fn paired(&mut self, parts: &[Node], others: &[Node]) -> Judged {
        if parts.len() != others.len() {
            return Ok(false);
        }
        let mut left: Vec<&Node> = others.iter().collect();
        for part in parts {
            let mut partner = None;
            for (index, other) in left.iter().enumerate() {
                if self.equal(part, other)? {
                    partner = Some(index);
                    break;
                }
            }
            match partner {
                Some(index) => left.swap_remove(index),
                None => return Ok(false),
            };
        }
        Ok(true)
    }

    /// Each element of one is in the other, and the other way round.
    fn unordered(&mut self, parts: &[Node], others: &[Node]) -> Judged {
        Ok(self.contained(parts, others)? && self.contained(others, parts)?)
    }

    fn contained(&mut self, parts: &[Node], others: &[Node]) -> Judged {
        for part in parts {
            let mut is_found = false;
            for other in others {
                if self.equal(part, other)? {
                    is_found = true;
                    break;
                }
            }
            if !is_found {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn tuples(&mut self, parts: &[&Node], others: &[&Node], whole: (&Node, &Node)) -> Judged {
        if let (
            Node::Bracketed { open, close, .. },
            Node::Bracketed {
                open: opens,
                close: closes,
                ..
            },
        ) = whole
            && (open, close) != (opens, closes)
        {
            return Ok(false);
        }
        self.in_order(parts, others)
    }

    fn in_order(&mut self, parts: &[&Node], others: &[&Node]) -> Judged {
        if parts.len() != others.len() {
            return Ok(false);
        }
        for (part, other) in parts.iter().zip(others) {
            if !self.equal(part, other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A tuple against a list without brackets, `x = 1, y = 2` among them.
    fn listed(&mut self, parts: &[&Node], list: &Node) -> Judged {
        let Node::List(items) = list else {
            return Ok(false);
        };
        if relation::are_of_one_name(items) {
            return Ok(false);
        }
        self.how = "in order";
        let values: Vec<&Node> = items.iter().map(relation::unnamed).collect();
        self.in_order(parts, &values)
    }

    fn matrices(&mut self, rows: &[Vec<Node>], others: &[Vec<Node>]) -> Judged {
        if rows.len() != others.len() {
            return Ok(false);
        }
        for (row, other) in rows.iter().zip(others) {
            let (row, other): (Vec<&Node>, Vec<&Node>) = (row.iter().collect(), other.iter().collect());
            if !self.in_order(&row, &other)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn proportions(&mut self, (parts, clock): (&[Node], Clock), (others, another): (&[Node], Clock)) -> Judged {
        if parts.len() != others.len() {
            return Ok(false);
        }
        let Some((parts, others)) = in_one_unit(parts, others) else {
            self.how = "units of different kinds";
            return Ok(false);
        };
        let are_times = clock == Clock::Sure || another == Clock::Sure;
        let may_be_times = self.reads_times && (clock == Clock::Perhaps || another == Clock::Perhaps);
        if !are_times && !may_be_times {
            return self.ratios(&parts, &others);
        }
        let (ours, theirs): (Vec<&Node>, Vec<&Node>) = (parts.iter().collect(), others.iter().collect());
        let is_equal = self.in_order(&ours, &theirs)?;
        self.is_doubtful |= !is_equal && !are_times;
        self.how = "as times";
        Ok(is_equal)
    }

    /// Parts of as many: each is to one that is not zero as in the other. Two of which one is zero have no ratio.
    fn ratios(&mut self, parts: &[Node], others: &[Node]) -> Judged {
        let mut pivot = None;
        for (index, (part, other)) in parts.iter().zip(others).enumerate() {
            let zero = Node::integer(0);
            let is_zero = self.scalars(part, &zero)?;
            if is_zero != self.scalars(other, &zero)? {
                return Ok(false);
            }
            if is_zero && parts.len() == 2 {
                return self.in_order(&parts.iter().collect::<Vec<_>>(), &others.iter().collect::<Vec<_>>());
            }
            pivot = pivot.or((!is_zero).then_some(index));
        }
        let Some(pivot) = pivot else {
            return Ok(true);
        };
        let times = |one: &Node, other: &Node| Node::Product(vec![one.clone(), other.clone()]);
        for (part, other) in parts.iter().zip(others) {
            if !self.scalars(&times(&parts[pivot], other), &times(part, &others[pivot]))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Values with units: converted where both are known, left out where one says none.
    fn quantities(&mut self, one: &Node, other: &Node) -> Judged {
        let (value, unit) = hoisted(one);
        let (another, others) = hoisted(other);
        match (unit, others) {
            (Some(unit), Some(others)) => self.units(&value, &unit, &another, &others),
            (Some(unit), None) => self.unit_against(&value, &unit, &another),
            (None, Some(unit)) => self.unit_against(&another, &unit, &value),
            (None, None) => self.letters_as_units(&value, &another),
        }
    }

    fn units(&mut self, value: &Node, unit: &Unit, another: &Node, others: &Unit) -> Judged {
        let Some((scale, of)) = unit.conversion(others) else {
            self.how = "units of different kinds";
            return Ok(false);
        };
        self.scalars(&scaled(value, &scale), &scaled(another, &of))
    }

    /// A value with a unit against one without, or whose unit is a letter that was read as a variable.
    fn unit_against(&mut self, value: &Node, unit: &Unit, other: &Node) -> Judged {
        match without_letters(other) {
            Some((another, letters)) => self.units(value, unit, &another, &Unit::of_words(&letters)),
            None => self.unit_left_out(value, unit, other),
        }
    }

    fn unit_left_out(&mut self, value: &Node, unit: &Unit, other: &Node) -> Judged {
        if worded::limit(&unit.words).is_some() {
            return Ok(false);
        }
        if self.scalars(value, other)? {
            self.how = "without the unit";
            return Ok(true);
        }
        if !unit.measure.as_ref().is_some_and(|measure| measure.is_ratio) {
            return Ok(false);
        }
        let meant = Node::Quantity(Box::new(value.clone()), unit.clone());
        self.scalars(&meant, other)
    }

    /// `5 m` was read as a product, which against a plain number it is not.
    fn letters_as_units(&mut self, one: &Node, other: &Node) -> Judged {
        if self.scalars(one, other)? {
            return Ok(true);
        }
        let stripped = match (one.is_constant(), other.is_constant()) {
            (true, false) => without_letters(other).map(|(value, _)| (one, value, other)),
            (false, true) => without_letters(one).map(|(value, _)| (other, value, one)),
            _ => None,
        };
        let Some((one, other, with_letters)) = stripped else {
            return Ok(false);
        };
        let is_equal = self.scalars(one, &other)?;
        self.how = "without the unit";
        if with_letters.names().iter().any(|name| self.variables.contains(name)) {
            self.how = "exactly";
            self.is_ambiguous |= is_equal;
            return Ok(false);
        }
        Ok(is_equal)
    }

    fn scalars(&mut self, one: &Node, other: &Node) -> Judged {
        if !one.is_scalar() || !other.is_scalar() {
            return Ok(false);
        }
        self.how = "exactly";
        let formed = normal(one, self.steps).and_then(|one| {
            let other = normal(other, self.steps)?;
            one.equals(&other, self.steps)
        });
        match formed {
            Ok(is_equal) => Ok(is_equal),
            Err(Unformed::Undefined) => Ok(false),
            Err(Unformed::Exhausted) => Err(Exhausted),
            Err(Unformed::None | Unformed::Large) => self.by_value(one, other),
        }
    }

    /// Compares at points where both are real, or as complex numbers where there are too few of those.
    fn by_value(&mut self, one: &Node, other: &Node) -> Judged {
        self.how = "by value, to 130 bits";
        let mut names = one.names();
        names.extend(other.names());
        names.sort_unstable();
        names.dedup();
        let points = points(&names);
        let needed = if names.is_empty() { 1 } else { 2 };
        let mut evaluator = Evaluator::new(self.steps);
        let mut is_large = false;
        let mut real: Vec<bool> = Vec::new();
        let mut complex: Vec<bool> = Vec::new();
        for point in &points {
            let values = evaluator
                .value(one, point)
                .and_then(|value| Ok((value, evaluator.value(other, point)?)))
                .and_then(|(value, another)| Ok((evaluator.agree(&value, &another)?, value, another)));
            let (agrees, value, another) = match values {
                Ok(compared) => compared,
                Err(Unformed::Exhausted) => return Err(Exhausted),
                Err(Unformed::Large) => {
                    is_large = true;
                    continue;
                }
                Err(_) => continue,
            };
            complex.push(agrees);
            if value.is_real() && another.is_real() {
                real.push(agrees);
            }
        }
        let judged = if real.len() >= needed { real } else { complex };
        if judged.len() < needed && is_large {
            return Err(Exhausted);
        }
        Ok(judged.len() >= needed && judged.into_iter().all(|agrees| agrees))
    }

    fn relations(&mut self, one: &Node, other: &Node) -> Result<Option<bool>, Exhausted> {
        relation::compare(self, one, other)
    }

    /// The sign of a constant formula; `None` when it has none.
    pub(crate) fn is_positive(&mut self, node: &Node) -> Result<Option<bool>, Exhausted> {
        let mut evaluator = Evaluator::new(self.steps);
        let value = at(&mut evaluator, node, &Point::new())?;
        Ok(value
            .filter(Complex::is_real)
            .map(|value| value.re.sign() == dashu_base::Sign::Positive))
    }
}

fn at(evaluator: &mut Evaluator<'_>, node: &Node, point: &Point) -> Result<Option<Complex>, Exhausted> {
    match evaluator.value(node, point) {
        Ok(value) => Ok(Some(value)),
        Err(Unformed::Exhausted) => Err(Exhausted),
        Err(_) => Ok(None),
    }
}

/// The parts of two proportions without their units, which are converted where both sides have them, or where all parts of one
/// have; `None` where two do not agree.
fn in_one_unit(parts: &[Node], others: &[Node]) -> Option<(Vec<Node>, Vec<Node>)> {
    let pairs = measured(parts).into_iter().zip(measured(others));
    let pairs = pairs.map(|((value, unit), (another, others))| match (unit, others) {
        (Some(unit), Some(others)) => {
            let (scale, of) = unit.conversion(&others)?;
            Some((scaled(&value, &scale), scaled(&another, &of)))
        }
        _ => Some((value, another)),
    });
    pairs.collect::<Option<Vec<_>>>().map(|pairs| pairs.into_iter().unzip())
}

/// The parts of a proportion and their units; parts that all measure the same are numbers of it: `2 cm : 3 m` is `0.02 : 3`.
fn measured(parts: &[Node]) -> Vec<(Node, Option<Unit>)> {
    let parts: Vec<(Node, Option<Unit>)> = parts.iter().map(hoisted).collect();
    let measure = |unit: &Option<Unit>| unit.as_ref().and_then(|unit| unit.measure.clone());
    let Some(measures) = parts.iter().map(|(_, unit)| measure(unit)).collect::<Option<Vec<_>>>() else {
        return parts;
    };
    let are_alike = measures
        .windows(2)
        .all(|pair| pair[0].dimension == pair[1].dimension && pair[0].currency == pair[1].currency);
    if !are_alike {
        return parts;
    }
    let values = parts.into_iter().zip(measures);
    values
        .map(|((value, _), measure)| (scaled(&value, &measure.scale), None))
        .collect()
}

fn scaled(value: &Node, by: &RBig) -> Node {
    Node::Product(vec![value.clone(), Node::Number(by.clone())])
}

/// Fixed points, scattered by the variables' names: the first two have positive coordinates.
pub(crate) fn points(names: &[String]) -> Vec<Point> {
    const COUNT: u64 = 6;
    if names.is_empty() {
        return vec![Point::new()];
    }
    (0..COUNT)
        .map(|index| {
            let value = |name: &String| {
                let drawn = i64::try_from(scattered(hash(name.as_bytes()) ^ index) % 4_000).unwrap_or(0);
                let value = if index < 2 { drawn + 100 } else { drawn - 2_000 };
                RBig::from(value * 2 + 1) / RBig::from(2_018)
            };
            names.iter().map(|name| (name.clone(), value(name))).collect()
        })
        .collect()
}

/// FNV-1a.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Splitmix's mixing of one number.
const fn scattered(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The elements of what is given as several answers.
pub(crate) fn elements(node: &Node) -> Option<Vec<Node>> {
    let expanded = |items: &[Node]| items.iter().flat_map(both_signs).collect();
    match node {
        Node::Set(items) | Node::List(items) => Some(expanded(items)),
        _ if node.has_two_signs() => Some(both_signs(node)),
        _ => None,
    }
}

fn without_names<'n>(named: &[(&'n str, &'n Node)]) -> Vec<&'n Node> {
    named.iter().map(|(_, value)| *value).collect()
}

fn both_signs(node: &Node) -> Vec<Node> {
    if node.has_two_signs() {
        vec![node.with_sign(true), node.with_sign(false)]
    } else {
        vec![node.clone()]
    }
}

/// One interval in brackets, which has no parts to compare one by one.
fn is_single(node: &Node) -> bool {
    matches!(node, Node::Bracketed { .. })
}

fn is_collection(node: &Node) -> bool {
    matches!(
        node,
        Node::Bracketed { .. } | Node::Matrix(_) | Node::Union(_) | Node::Set(_) | Node::List(_)
    )
}

/// The parts of a tuple, or of a matrix of one row or one column.
fn ordered(node: &Node) -> Option<Vec<&Node>> {
    match node {
        Node::Bracketed { items, .. } => Some(items.iter().collect()),
        Node::Matrix(rows) if rows.len() == 1 => Some(rows[0].iter().collect()),
        Node::Matrix(rows) if rows.iter().all(|row| row.len() == 1) => Some(rows.iter().flatten().collect()),
        _ => None,
    }
}

/// The value and the unit, wherever the sign stands.
pub(crate) fn hoisted(node: &Node) -> (Node, Option<Unit>) {
    match node {
        Node::Negate(inner) => match hoisted(inner) {
            (value, Some(unit)) => (Node::Negate(Box::new(value)), Some(unit)),
            (_, None) => (node.clone(), None),
        },
        Node::Quantity(inner, unit) => match hoisted(inner) {
            (value, Some(inner)) => (value, Some(inner.said_with(unit))),
            (value, None) => (value, Some(unit.clone())),
        },
        // A quantity times a number, as in `$5 \times 2`, is none that can be converted.
        _ => (node.clone(), None),
    }
}

/// A constant without the letters after it that may be units, and those as the words of a unit.
fn without_letters(node: &Node) -> Option<(Node, String)> {
    match node {
        Node::Product(factors) => {
            let start = factors.iter().position(|factor| letters(factor).is_some())?;
            let (values, units) = factors.split_at(start);
            let words: Option<Vec<String>> = units.iter().map(letters).collect();
            let is_left = !values.is_empty() && values.iter().all(Node::is_constant);
            is_left.then_some((Node::Product(values.to_vec()), words?.join(" ")))
        }
        Node::Divide(above, below) => {
            let (value, words) = without_letters(above)?;
            Some((value, format!("{words} per {}", letters_below(below)?)))
        }
        Node::Negate(inner) => {
            let (value, words) = without_letters(inner)?;
            Some((Node::Negate(Box::new(value)), words))
        }
        _ => None,
    }
}

/// A variable that may be a unit, in the words of one.
fn letters(node: &Node) -> Option<String> {
    match node {
        Node::Name(name) if letter_is_unit(name) => Some(name.clone()),
        Node::Power(base, exponent) => match (&**base, &**exponent) {
            // Nobody measures in square seconds.
            (Node::Name(name), Node::Number(power)) if name == "m" => Some(format!("{name}^{power}")),
            (Node::Name(name), Node::Negate(power)) if letter_is_unit(name) => match &**power {
                Node::Number(power) => Some(format!("{name}^-{power}")),
                _ => None,
            },
            _ => None,
        },
        Node::Divide(above, below) if **above == Node::integer(1) => Some(format!("per {}", letters_below(below)?)),
        _ => None,
    }
}

/// As below a line, where seconds may be squared.
fn letters_below(node: &Node) -> Option<String> {
    match node {
        Node::Power(base, exponent) => match (&**base, &**exponent) {
            (Node::Name(name), Node::Number(power)) if letter_is_unit(name) => Some(format!("{name}^{power}")),
            _ => None,
        },
        _ => letters(node),
    }
}

/// A call that names what is defined: `f(x)`, `P(a, b)`.
pub(crate) fn is_application(node: &Node) -> bool {
    let Node::Product(factors) = node else {
        return false;
    };
    matches!(
        factors.as_slice(),
        [Node::Name(_), Node::Name(_) | Node::Bracketed { .. }]
    )
}

/// The relation sign of a chain that is all equal signs.
pub(crate) fn is_equation(rest: &[(Relation, Node)]) -> bool {
    let is_equal = |(relation, _): &(Relation, Node)| matches!(relation, Relation::Equal | Relation::About);
    rest.iter().all(is_equal)
}
