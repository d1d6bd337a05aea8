//! From tokens to an answer: lists of relations between formulas, by recursive descent of bounded depth.

mod group;
mod label;
mod name;

use crate::compare::are_one_value;
use crate::condition::{self, Joint};
use crate::lexer::{Kind, Token, tokens};
use crate::node::{Clock, Function, Node, Relation};
use crate::relation;
use crate::steps::{Exhausted, Steps};
use crate::unit::{Unit, is_half_of_day, is_unit};
use crate::worded;

/// How deep brackets, roots and fractions may stand in each other.
const MAX_DEPTH: usize = 288;
/// How many factorials and degree signs may follow each other.
const MAX_POSTFIX: usize = 4;

/// Why a text is no answer that can be compared as mathematics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Syntax,
    /// The budget of steps is used up, or brackets stand in each other deeper than is read.
    Exhausted,
}

impl From<Exhausted> for Fault {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

pub(crate) type Read<T> = Result<T, Fault>;

/// Reads a whole text as one answer.
pub(crate) fn parse(text: &str, steps: &mut Steps) -> Read<Node> {
    let mut tokens = tokens(text, steps)?;
    while tokens
        .last()
        .is_some_and(|last| matches!(last.kind, Kind::Mark('.' | ',' | ';' | ':')))
    {
        tokens.pop();
    }
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        bars: 0,
        steps,
    };
    // `\approx 3.14` and `= 5` say what the answer is.
    if matches!(parser.relation_sign(), Some(Relation::Equal | Relation::About)) {
        parser.at += 1;
    }
    let (mut items, joints) = parser.joined()?;
    parser.chosen(&mut items)?;
    if parser.at < parser.tokens.len() {
        return Err(Fault::Syntax);
    }
    // `\frac12 or 0.5` says one value twice.
    let is_choice = !joints.is_empty() && joints.iter().all(|joint| *joint == Joint::Or);
    if is_choice && are_one_value(&items, parser.steps)? {
        items.truncate(1);
    }
    let mut items = condition::together(items, &joints, parser.steps);
    match items.len() {
        0 => Err(Fault::Syntax),
        1 => Ok(items.remove(0)),
        _ => Ok(Node::List(items)),
    }
}

struct Parser<'s> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// How many absolute values are open.
    bars: usize,
    steps: &'s mut Steps,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Kind> {
        self.tokens.get(self.at).map(|token| &token.kind)
    }

    fn peek_after(&self, ahead: usize) -> Option<&Kind> {
        self.tokens.get(self.at + ahead).map(|token| &token.kind)
    }

    fn is_spaced(&self) -> bool {
        self.tokens.get(self.at).is_none_or(|token| token.is_spaced)
    }

    fn is_mark(&self, mark: char) -> bool {
        self.peek() == Some(&Kind::Mark(mark))
    }

    fn is_command(&self, names: &[&str]) -> bool {
        matches!(self.peek(), Some(Kind::Command(name)) if names.contains(&name.as_str()))
    }

    fn take_mark(&mut self, mark: char) -> bool {
        let is = self.is_mark(mark);
        self.at += usize::from(is);
        is
    }

    fn take_command(&mut self, names: &[&str]) -> bool {
        let is = self.is_command(names);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, mark: char) -> Read<()> {
        if self.take_mark(mark) {
            Ok(())
        } else {
            Err(Fault::Syntax)
        }
    }

    /// Runs a rule one level deeper.
    fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= MAX_DEPTH {
            return Err(Fault::Exhausted);
        }
        self.steps.take(1)?;
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    /// Relations with commas, semicolons, "and" or "or" between.
    fn list(&mut self) -> Read<Vec<Node>> {
        self.joined().map(|(items, _)| items)
    }

    /// Such relations, and what stands between each two.
    fn joined(&mut self) -> Read<(Vec<Node>, Vec<Joint>)> {
        let (mut items, mut joints) = (Vec::new(), Vec::new());
        loop {
            let ends = match self.peek() {
                None => true,
                Some(Kind::Mark('|')) => self.bars > 0,
                Some(Kind::Mark(mark)) => ")]}⦄".contains(*mark),
                Some(Kind::Command(name)) => matches!(name.as_str(), "rangle" | "rvert" | "end"),
                _ => false,
            };
            if ends {
                return Ok((items, joints));
            }
            items.push(self.relation()?);
            let Some(mut joint) = self.joint() else {
                return Ok((items, joints));
            };
            while let Some(next) = self.joint() {
                joint = joint.max(next);
            }
            joints.push(joint);
        }
    }

    fn joint(&mut self) -> Option<Joint> {
        let joint = match self.peek()? {
            Kind::Mark(',') => Joint::Comma,
            Kind::Mark(';') => Joint::Semicolon,
            Kind::Word(word) | Kind::Text(word) => match word.trim() {
                "and" => Joint::And,
                "or" => Joint::Or,
                _ => return None,
            },
            Kind::Command(name) => match name.as_str() {
                "land" | "wedge" => Joint::And,
                "lor" | "vee" => Joint::Or,
                "\\" => Joint::Semicolon,
                _ => return None,
            },
            _ => return None,
        };
        self.at += 1;
        Some(joint)
    }

    fn relation(&mut self) -> Read<Node> {
        let first = match self.label() {
            Some(label) => label,
            None => self.union()?,
        };
        let mut rest = Vec::new();
        while let Some(relation) = self.relation_sign() {
            self.at += 1;
            rest.push((relation, self.union()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(relation::related(first, rest, self.steps))
    }

    fn relation_sign(&self) -> Option<Relation> {
        match self.peek()? {
            Kind::Mark('=') => Some(Relation::Equal),
            Kind::Mark('<') => Some(Relation::Less),
            Kind::Mark('>') => Some(Relation::Greater),
            Kind::Command(name) => match name.as_str() {
                "equiv" | "cong" => Some(Relation::Equal),
                "approx" | "simeq" => Some(Relation::About),
                "lt" => Some(Relation::Less),
                "gt" => Some(Relation::Greater),
                "le" | "leq" | "leqslant" => Some(Relation::LessOrEqual),
                "ge" | "geq" | "geqslant" => Some(Relation::GreaterOrEqual),
                "ne" | "neq" => Some(Relation::Unequal),
                "in" => Some(Relation::In),
                _ => None,
            },
            _ => None,
        }
    }

    fn union(&mut self) -> Read<Node> {
        let first = self.proportion()?;
        let first = relation::difference(first, self.steps);
        if self.take_command(&["setminus", "backslash"]) {
            let removed = self.proportion()?;
            return relation::reals_without(&first, &removed, self.steps).ok_or(Fault::Syntax);
        }
        let mut parts = vec![first];
        loop {
            let is_word = matches!(self.peek(), Some(Kind::Word(word)) if word == "U" || word == "u")
                && matches!(parts.last(), Some(Node::Bracketed { .. }));
            if !is_word && !self.is_command(&["cup", "bigcup"]) {
                break;
            }
            self.at += 1;
            parts.push(self.proportion()?);
        }
        Ok(if parts.len() == 1 {
            parts.remove(0)
        } else {
            Node::Union(parts)
        })
    }

    fn proportion(&mut self) -> Read<Node> {
        let mut starts = vec![self.at];
        let mut parts = vec![self.sum()?];
        while self.take_mark(':') {
            starts.push(self.at);
            parts.push(self.sum()?);
        }
        Ok(match parts.as_slice() {
            [_] => parts.remove(0),
            // `A: 42` says of what 42 is the value.
            [Node::Name(_), value] if value.is_constant() && value.is_scalar() => {
                let value = parts.remove(1);
                Node::Relation(Box::new(parts.remove(0)), vec![(Relation::Equal, value)])
            }
            _ => Node::Proportion(parts, self.clock(&starts)),
        })
    }

    /// Whether parts that were read from these places on make a time: digits by twos, without spaces, below sixty.
    fn clock(&self, starts: &[usize]) -> Clock {
        const HOURS: u32 = 24;
        const MINUTES: u32 = 59;
        let mut clock = Clock::Perhaps;
        for (index, &start) in starts.iter().enumerate() {
            let Some(Token {
                kind:
                    Kind::Number {
                        digits,
                        is_integer: true,
                        ..
                    },
                is_spaced,
            }) = self.tokens.get(start)
            else {
                return Clock::No;
            };
            let after = self.tokens.get(start + 1);
            let is_all = match after.map(|token| &token.kind) {
                None | Some(Kind::Word(_) | Kind::Text(_)) => index + 1 == starts.len(),
                Some(Kind::Mark(':')) => after.is_some_and(|colon| !colon.is_spaced),
                Some(Kind::Mark(mark)) => ",;)]}⦄".contains(*mark),
                Some(_) => false,
            };
            let (largest, is_two) = if index == 0 {
                (HOURS, digits.len() <= 2)
            } else {
                (MINUTES, digits.len() == 2 && !is_spaced)
            };
            if !is_all || !is_two {
                return Clock::No;
            }
            let is_padded = digits.len() == 2 && digits.starts_with('0');
            let is_half_of_day = matches!(after.map(|token| &token.kind), Some(Kind::Word(word) | Kind::Text(word)) if is_half_of_day(word));
            if is_padded || is_half_of_day {
                clock = Clock::Sure;
            } else if clock == Clock::Perhaps && digits.parse().is_ok_and(|value: u32| value > largest) {
                clock = Clock::No;
            }
        }
        clock
    }

    fn sum(&mut self) -> Read<Node> {
        self.deeper(|parser| {
            let mut terms = Vec::new();
            loop {
                let mut sign = Sign::Plus;
                let start = parser.at;
                while let Some(next) = parser.sign() {
                    sign = sign.then(next);
                    parser.at += 1;
                }
                if parser.at == start && !terms.is_empty() {
                    break;
                }
                let term = parser.product()?;
                terms.push(match sign {
                    Sign::Plus => term,
                    Sign::Minus => negated(term),
                    Sign::PlusMinus => Node::PlusMinus(Box::new(term), false),
                    Sign::MinusPlus => Node::PlusMinus(Box::new(term), true),
                });
            }
            Ok(if terms.len() == 1 {
                terms.remove(0)
            } else {
                Node::Sum(terms)
            })
        })
    }

    fn sign(&self) -> Option<Sign> {
        match self.peek()? {
            Kind::Mark('+') => Some(Sign::Plus),
            Kind::Mark('-') => Some(Sign::Minus),
            Kind::Command(name) if name == "pm" => Some(Sign::PlusMinus),
            Kind::Command(name) if name == "mp" => Some(Sign::MinusPlus),
            Kind::Word(word) | Kind::Text(word) => worded_sign(word),
            _ => None,
        }
    }

    fn product(&mut self) -> Read<Node> {
        let first = self.factor()?;
        let mut product = self.mixed(first)?;
        loop {
            if let Some(unit) = self.unit(&product) {
                return Ok(worded::quantity(product, unit));
            }
            if self.take_mark('*') || self.take_command(&["cdot", "times", "ast"]) {
                let factor = self.signed_factor()?;
                product = multiplied(product, factor);
            } else if self.take_mark('/') || self.take_command(&["div"]) {
                let factor = self.signed_factor()?;
                product = divided(product, factor);
            } else if self.percent_remark(&product) {
                return Ok(product);
            } else if self.starts_factor() {
                if matches!(self.peek(), Some(Kind::Number { .. })) && ends_in_number(&product) {
                    return Err(Fault::Syntax);
                }
                let factor = self.factor()?;
                product = multiplied(product, factor);
            } else {
                return Ok(product);
            }
        }
    }

    fn signed_factor(&mut self) -> Read<Node> {
        if self.take_mark('-') {
            return Ok(Node::Negate(Box::new(self.factor()?)));
        }
        self.take_mark('+');
        self.factor()
    }

    /// `2\frac{1}{2}` and `2 1/2` are sums.
    fn mixed(&mut self, first: Node) -> Read<Node> {
        let is_whole = matches!(&first, Node::Number(value) if value.is_int());
        if !is_whole {
            return Ok(first);
        }
        let start = self.at;
        let is_fraction = self.is_command(&["frac", "dfrac", "tfrac"]);
        let is_plain = self.is_spaced()
            && matches!(self.peek(), Some(Kind::Number { is_integer: true, .. }))
            && self.peek_after(1) == Some(&Kind::Mark('/'))
            && matches!(self.peek_after(2), Some(Kind::Number { is_integer: true, .. }));
        let part = if is_fraction {
            self.primary()?
        } else if is_plain {
            let above = self.primary()?;
            self.at += 1;
            Node::Divide(Box::new(above), Box::new(self.primary()?))
        } else {
            return Ok(first);
        };
        match &part {
            Node::Divide(above, below) => match (&**above, &**below) {
                (Node::Number(above), Node::Number(below)) if above.is_int() && below.is_int() && above < below => {
                    Ok(Node::Sum(vec![first, part]))
                }
                _ if is_plain => Err(Fault::Syntax),
                _ => {
                    self.at = start;
                    Ok(first)
                }
            },
            _ => {
                self.at = start;
                Ok(first)
            }
        }
    }

    fn starts_factor(&self) -> bool {
        match self.peek() {
            Some(Kind::Number { .. }) => true,
            Some(Kind::Word(word)) => !matches!(word.as_str(), "and" | "or" | "U") && worded_sign(word).is_none(),
            Some(Kind::Mark('(' | '[' | '{')) => true,
            Some(Kind::Mark('|')) => self.bars == 0,
            Some(Kind::Command(name)) => name::starts_factor(name),
            _ => false,
        }
    }

    fn factor(&mut self) -> Read<Node> {
        self.deeper(|parser| {
            let base = parser.primary()?;
            parser.postfix(base)
        })
    }

    /// Exponents, factorials and degree signs.
    fn postfix(&mut self, mut base: Node) -> Read<Node> {
        for _ in 0..MAX_POSTFIX {
            if self.is_degree() {
                let unit = self.temperature().unwrap_or_else(Unit::degree);
                base = Node::Quantity(Box::new(base), unit);
            } else if self.take_mark('^') {
                let exponent = self.exponent()?;
                base = Node::Power(Box::new(base), Box::new(exponent));
            } else if self.take_mark('!') {
                base = Node::Call(Function::Factorial, vec![base]);
            } else {
                return Ok(base);
            }
        }
        Err(Fault::Syntax)
    }

    /// Takes the scale of temperature behind a degree sign.
    fn temperature(&mut self) -> Option<Unit> {
        let (Kind::Word(scale) | Kind::Text(scale)) = self.peek()? else {
            return None;
        };
        if scale.len() == 1 && !matches!(scale.as_str(), "C" | "F") {
            return None;
        }
        let unit = Unit::of_temperature(scale)?;
        self.at += 1;
        Some(unit)
    }

    /// Takes `^\circ`, `^{\circ}` or `\degree`.
    fn is_degree(&mut self) -> bool {
        let circ =
            |kind: Option<&Kind>| matches!(kind, Some(Kind::Command(name)) if name == "circ" || name == "degree");
        if circ(self.peek()) {
            self.at += 1;
            return true;
        }
        if !self.is_mark('^') {
            return false;
        }
        if circ(self.peek_after(1)) {
            self.at += 2;
            return true;
        }
        let is_braced = self.peek_after(1) == Some(&Kind::Mark('{')) && circ(self.peek_after(2));
        if is_braced && self.peek_after(3) == Some(&Kind::Mark('}')) {
            self.at += 4;
            return true;
        }
        false
    }

    fn exponent(&mut self) -> Read<Node> {
        self.deeper(|parser| {
            if parser.take_mark('-') {
                return Ok(Node::Negate(Box::new(parser.exponent()?)));
            }
            let base = parser.primary()?;
            // Powers of powers bind to the right.
            if parser.take_mark('^') {
                let exponent = parser.exponent()?;
                return Ok(Node::Power(Box::new(base), Box::new(exponent)));
            }
            Ok(base)
        })
    }

    /// Takes the same value in brackets as percent: `\frac12\ (50\%)`.
    fn percent_remark(&mut self, value: &Node) -> bool {
        let (Some(Kind::Number { value: percent, .. }), true) = (self.peek_after(1), self.is_spaced()) else {
            return false;
        };
        let percent = Node::Quantity(Box::new(Node::Number(percent.clone())), Unit::percent());
        let is_remark = self.is_mark('(')
            && self.peek_after(2) == Some(&Kind::Mark('%'))
            && self.peek_after(3) == Some(&Kind::Mark(')'))
            && are_one_value(&[value.clone(), percent], self.steps) == Ok(true);
        self.at += if is_remark { 4 } else { 0 };
        is_remark
    }

    fn word_after(&self, ahead: usize) -> Option<&str> {
        match self.peek_after(ahead)? {
            Kind::Word(word) => Some(word),
            _ => None,
        }
    }

    /// A part is added to a number in words: `3 and a half`.
    fn joins_part(&self) -> bool {
        matches!(self.word_after(1), Some("a" | "one"))
            && matches!(self.word_after(2), Some("half" | "third" | "quarter"))
    }

    /// The modulus behind a value and how many tokens it takes: `\pmod{10}`, `(mod 10)`.
    fn modulus(&self) -> Option<(String, usize)> {
        let is_mod = |kind: Option<&Kind>| matches!(kind, Some(Kind::Command(name) | Kind::Word(name) | Kind::Text(name)) if matches!(name.trim(), "mod" | "bmod"));
        let is_bracketed =
            self.is_mark('(') && is_mod(self.peek_after(1)) && self.peek_after(3) == Some(&Kind::Mark(')'));
        let (digits, length) = match (self.peek_after(1), self.peek_after(2), self.peek_after(3)) {
            (_, Some(Kind::Number { digits, .. }), _) if is_bracketed => (digits, 4),
            (Some(Kind::Number { digits, .. }), _, _) if self.is_command(&["pmod"]) => (digits, 2),
            (Some(Kind::Mark('{')), Some(Kind::Number { digits, .. }), Some(Kind::Mark('}')))
                if self.is_command(&["pmod"]) =>
            {
                (digits, 4)
            }
            _ => return None,
        };
        Some((format!("mod {digits}"), length))
    }

    /// A unit, or words, after a value.
    fn unit(&mut self, value: &Node) -> Option<Unit> {
        if let Some((words, length)) = self.modulus() {
            self.at += length;
            return Some(Unit::of_words(&words));
        }
        match self.peek()? {
            Kind::Mark('%') => {
                self.at += 1;
                Some(Unit::percent())
            }
            Kind::Mark(mark @ ('$' | '€' | '£' | '¥' | '₹' | '¢')) => {
                let unit = Unit::of_words(&mark.to_string());
                self.at += 1;
                Some(unit)
            }
            Kind::Word(word) if word == "and" && self.joins_part() => {
                let words: Vec<&str> = (0..3).filter_map(|ahead| self.word_after(ahead)).collect();
                let unit = Unit::of_words(&words.join(" "));
                self.at += 3;
                Some(unit)
            }
            Kind::Command(name) if name == "Omega" && value.is_constant() => {
                self.at += 1;
                Some(Unit::of_words("ohm"))
            }
            Kind::Word(word) | Kind::Text(word) if worded_sign(word).is_some() => None,
            Kind::Text(text) if !matches!(text.as_str(), "and" | "or" | "if" | "for") => Some(self.unit_words()),
            Kind::Word(word) if is_half_of_day(word) && self.follows_colon() => Some(self.unit_words()),
            Kind::Word(word) if value.is_constant() && self.is_word_unit(word) => Some(self.unit_words()),
            _ => None,
        }
    }

    /// One number, and a colon before it, stand right before this place.
    fn follows_colon(&self) -> bool {
        let before = |back: usize| Some(&self.tokens.get(self.at.checked_sub(back)?)?.kind);
        matches!(before(1), Some(Kind::Number { .. })) && before(2) == Some(&Kind::Mark(':'))
    }

    fn is_word_unit(&self, word: &str) -> bool {
        if matches!(word, "and" | "or") || name::is_known(word) {
            return false;
        }
        is_unit(word) || word.len() > 3 || (word.len() == 3 && self.is_spaced())
    }

    fn unit_words(&mut self) -> Unit {
        let mut words = String::new();
        loop {
            match self.peek() {
                Some(Kind::Word(word) | Kind::Text(word)) if !matches!(word.as_str(), "and" | "or") => {
                    words.push(' ');
                    words.push_str(word);
                }
                Some(Kind::Mark('/')) if matches!(self.peek_after(1), Some(Kind::Word(_) | Kind::Text(_))) => {
                    words.push('/')
                }
                Some(Kind::Mark('*')) if matches!(self.peek_after(1), Some(Kind::Text(_))) => {}
                Some(Kind::Command(name)) if name == "cdot" && matches!(self.peek_after(1), Some(Kind::Text(_))) => {}
                Some(Kind::Mark('^')) => match self.small_power() {
                    Some((power, length)) => {
                        words.push('^');
                        words.push_str(&power);
                        self.at += length - 1;
                    }
                    None => break,
                },
                _ => break,
            }
            self.at += 1;
        }
        Unit::of_words(words.trim())
    }

    /// The exponent of a unit and how many tokens it takes, `^2` or `^{2}`.
    fn small_power(&self) -> Option<(String, usize)> {
        let minus = Some(&Kind::Mark('-'));
        match (self.peek_after(1)?, self.peek_after(2), self.peek_after(3)) {
            (Kind::Mark('-'), Some(Kind::Number { digits, .. }), _) => Some((format!("-{digits}"), 3)),
            (Kind::Mark('{'), sign, Some(Kind::Number { digits, .. }))
                if sign == minus && self.peek_after(4) == Some(&Kind::Mark('}')) =>
            {
                Some((format!("-{digits}"), 5))
            }
            (Kind::Number { digits, .. }, _, _) => Some((digits.clone(), 2)),
            (Kind::Mark('{'), Some(Kind::Number { digits, .. }), Some(Kind::Mark('}'))) => Some((digits.clone(), 4)),
            _ => None,
        }
    }
}

/// A sign in a word.
fn worded_sign(word: &str) -> Option<Sign> {
    match word {
        "plus" => Some(Sign::Plus),
        "minus" | "negative" => Some(Sign::Minus),
        _ => None,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
    PlusMinus,
    MinusPlus,
}

impl Sign {
    const fn then(self, next: Self) -> Self {
        match (self, next) {
            (Self::Plus, other) | (other, Self::Plus) => other,
            (Self::Minus, Self::Minus) => Self::Plus,
            (Self::Minus, Self::PlusMinus) | (Self::PlusMinus, Self::Minus) => Self::MinusPlus,
            (Self::Minus, Self::MinusPlus) | (Self::MinusPlus, Self::Minus) => Self::PlusMinus,
            (other, _) => other,
        }
    }
}

fn negated(term: Node) -> Node {
    match term {
        Node::Matrix(rows) => scaled(&Node::integer(-1), rows),
        term => Node::Negate(Box::new(term)),
    }
}

/// A matrix of which each element is multiplied.
fn scaled(by: &Node, rows: Vec<Vec<Node>>) -> Node {
    let times = |element: Node| Node::Product(vec![by.clone(), element]);
    let row = |row: Vec<Node>| row.into_iter().map(times).collect();
    Node::Matrix(rows.into_iter().map(row).collect())
}

fn multiplied(product: Node, factor: Node) -> Node {
    let factor = match factor {
        Node::Matrix(rows) if product.is_scalar() => return scaled(&product, rows),
        factor => factor,
    };
    match product {
        Node::Product(mut factors) => {
            factors.push(factor);
            Node::Product(factors)
        }
        single => Node::Product(vec![single, factor]),
    }
}

/// A chain of divisions stays flat, however long it is.
fn divided(product: Node, factor: Node) -> Node {
    match product {
        Node::Product(_) | Node::Divide(..) => {
            let inverse = Node::Divide(Box::new(Node::integer(1)), Box::new(factor));
            multiplied(product, inverse)
        }
        single => Node::Divide(Box::new(single), Box::new(factor)),
    }
}

fn ends_in_number(product: &Node) -> bool {
    match product {
        Node::Number(_) => true,
        Node::Product(factors) => factors.last().is_some_and(ends_in_number),
        Node::Divide(_, below) => ends_in_number(below),
        _ => false,
    }
}
