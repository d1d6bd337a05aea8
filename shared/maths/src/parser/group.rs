//! What stands alone in a formula: numbers, brackets, fractions, roots, matrices.

use dashu_int::IBig;
use dashu_ratio::RBig;

use super::{Fault, Parser, Read};
use crate::condition;
use crate::lexer::{Kind, SET_CLOSE, SET_OPEN};
use crate::node::{Function, Node};
use crate::unit::Unit;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Read<Node> {
        self.deeper(|parser| {
            let Some(kind) = parser.peek().cloned() else {
                return Err(Fault::Syntax);
            };
            match kind {
                Kind::Number {
                    value,
                    digits,
                    is_integer,
                } => {
                    parser.at += 1;
                    parser.based(value, digits, is_integer)
                }
                Kind::Word(word) => parser.word(&word),
                Kind::Text(text) => {
                    parser.at += 1;
                    Ok(Node::Text(text))
                }
                Kind::Command(name) => parser.command(&name),
                Kind::Mark(mark) => parser.marked(mark),
            }
        })
    }

    fn marked(&mut self, mark: char) -> Read<Node> {
        self.at += 1;
        match mark {
            '(' | '[' => self.bracketed(mark),
            '{' => {
                let mut items = self.list()?;
                self.chosen(&mut items)?;
                self.expect('}')?;
                Ok(one_or(items, Node::Set))
            }
            SET_OPEN => {
                if let Some(length) = self.builder() {
                    self.at += length;
                    let (items, joints) = self.joined()?;
                    self.expect(SET_CLOSE)?;
                    let items = condition::together(items, &joints, self.steps);
                    return Ok(one_or(items, Node::List));
                }
                let items = self.list()?;
                self.expect(SET_CLOSE)?;
                Ok(Node::Set(items))
            }
            '|' => {
                self.bars += 1;
                let inner = self.sum();
                self.bars -= 1;
                self.expect('|')?;
                Ok(Node::Call(Function::Abs, vec![inner?]))
            }
            '$' | '€' | '£' | '¥' | '₹' => {
                let value = self.factor()?;
                Ok(Node::Quantity(Box::new(value), Unit::of_words(&mark.to_string())))
            }
            _ => Err(Fault::Syntax),
        }
    }

    /// Takes the other half of `5 \choose 2`.
    pub(super) fn chosen(&mut self, items: &mut Vec<Node>) -> Read<()> {
        if !self.take_command(&["choose"]) {
            return Ok(());
        }
        items.append(&mut self.list()?);
        if items.len() != 2 {
            return Err(Fault::Syntax);
        }
        let (Some(chosen), Some(of)) = (items.pop(), items.pop()) else {
            return Err(Fault::Syntax);
        };
        *items = vec![binomial(of, chosen)];
        Ok(())
    }

    /// How many tokens name the variable of a set that a condition makes: `x |`, `x \in \mathbb{R} \mid`.
    fn builder(&self) -> Option<usize> {
        if !matches!(self.peek()?, Kind::Word(word) if word.len() == 1) {
            return None;
        }
        let is = |kind: Option<&Kind>, name: &str| matches!(kind, Some(Kind::Command(command)) if command == name);
        let is_typed = is(self.peek_after(1), "in") && is(self.peek_after(2), "reals");
        let length = if is_typed { 3 } else { 1 };
        let mark = self.peek_after(length);
        let is_mark = is(mark, "mid") || matches!(mark, Some(Kind::Mark('|' | ':')));
        is_mark.then_some(length + 1)
    }

    /// A tuple or an interval; one element alone is a group.
    fn bracketed(&mut self, open: char) -> Read<Node> {
        let bars = std::mem::take(&mut self.bars);
        let mut items = self.list()?;
        self.bars = bars;
        let close = if self.take_mark(')') {
            ')'
        } else if self.take_mark(']') {
            ']'
        } else {
            return Err(Fault::Syntax);
        };
        let is_paired = matches!((open, close), ('(', ')') | ('[', ']'));
        if items.len() == 1 && is_paired && !matches!(items[0], Node::Bracketed { .. }) {
            return Ok(items.remove(0));
        }
        if items.is_empty() {
            return Err(Fault::Syntax);
        }
        let is_rows = open == '['
            && items
                .iter()
                .all(|item| matches!(item, Node::Bracketed { open: '[', .. }));
        if is_rows && is_paired {
            let row = |item: Node| match item {
                Node::Bracketed { items, .. } => items,
                other => vec![other],
            };
            return Ok(Node::Matrix(items.into_iter().map(row).collect()));
        }
        Ok(Node::Bracketed { open, close, items })
    }

    /// A number, in the base that may stand below it.
    fn based(&mut self, value: RBig, digits: String, is_integer: bool) -> Read<Node> {
        if let Some((base, length)) = self.worded_base() {
            self.at += length;
            return in_base(digits, base, is_integer);
        }
        let base = match (
            self.is_mark('_'),
            self.peek_after(1),
            self.peek_after(2),
            self.peek_after(3),
        ) {
            (true, Some(Kind::Number { digits, .. }), _, _) => Some((digits.clone(), 2)),
            (true, Some(Kind::Mark('{')), Some(Kind::Number { digits, .. }), Some(Kind::Mark('}'))) => {
                Some((digits.clone(), 4))
            }
            _ => None,
        };
        let Some((base, length)) = base else {
            return if self.is_mark('_') {
                Err(Fault::Syntax)
            } else {
                Ok(Node::Number(value))
            };
        };
        let base: u32 = base.parse().map_err(|_| Fault::Syntax)?;
        self.at += length;
        in_base(digits, base, is_integer)
    }

    /// The base behind digits that words name, and how many tokens they take: `(base 5)`, `base 5`.
    fn worded_base(&self) -> Option<(u32, usize)> {
        let open = usize::from(self.is_mark('('));
        let is_named = matches!(self.peek_after(open)?, Kind::Word(word) | Kind::Text(word) if matches!(word.trim(), "base" | "in base"));
        let Kind::Number {
            digits,
            is_integer: true,
            ..
        } = self.peek_after(open + 1)?
        else {
            return None;
        };
        let is_closed = open == 0 || self.peek_after(open + 2) == Some(&Kind::Mark(')'));
        let base = digits.parse().ok().filter(|_| is_named && is_closed)?;
        Some((base, 2 * open + 2))
    }

    /// An argument in braces, or the next digit, or what stands alone.
    pub(super) fn argument(&mut self) -> Read<Node> {
        if self.is_mark('{') {
            return self.primary();
        }
        let position = self.at;
        if let Some(token) = self.tokens.get_mut(position)
            && let Kind::Number {
                value,
                digits,
                is_integer: true,
            } = &mut token.kind
            && digits.len() > 1
        {
            let first: IBig = digits[..1].parse().map_err(|_| Fault::Syntax)?;
            digits.remove(0);
            *value = RBig::from(digits.parse::<IBig>().map_err(|_| Fault::Syntax)?);
            token.is_spaced = false;
            return Ok(Node::Number(RBig::from(first)));
        }
        self.primary()
    }

    pub(super) fn fraction(&mut self) -> Read<Node> {
        if let Some(derivative) = self.derivative() {
            return Ok(derivative);
        }
        let above = self.argument()?;
        let below = self.argument()?;
        Ok(Node::Divide(Box::new(above), Box::new(below)))
    }

    pub(super) fn root(&mut self) -> Read<Node> {
        let degree = if self.take_mark('[') {
            let degree = self.sum()?;
            self.expect(']')?;
            degree
        } else {
            Node::integer(2)
        };
        let of = self.primary()?;
        Ok(Node::Call(Function::Root, vec![of, degree]))
    }

    /// What stands between two commands, as the arguments of a function.
    pub(super) fn between(&mut self, function: Function, close: &str) -> Read<Node> {
        let inner = self.sum()?;
        if self.take_command(&[close]) {
            Ok(Node::Call(function, vec![inner]))
        } else {
            Err(Fault::Syntax)
        }
    }

    pub(super) fn angled(&mut self) -> Read<Node> {
        let items = self.list()?;
        if !self.take_command(&["rangle"]) || items.is_empty() {
            return Err(Fault::Syntax);
        }
        Ok(Node::Bracketed {
            open: '(',
            close: ')',
            items,
        })
    }

    fn environment(&mut self) -> Read<String> {
        self.expect('{')?;
        let Some(Kind::Word(name)) = self.peek().cloned() else {
            return Err(Fault::Syntax);
        };
        self.at += 1;
        self.take_mark('*');
        self.expect('}')?;
        Ok(name)
    }

    /// Equations in lines, which hold together; lines that each have a condition beside them are no such system.
    fn system(&mut self, name: &str) -> Read<Node> {
        let mut at = self.at;
        while let Some(token) = self.tokens.get(at) {
            let is_equals = |at: usize| self.tokens.get(at).is_some_and(|token| token.kind == Kind::Mark('='));
            match &token.kind {
                Kind::Command(command) if command == "end" => break,
                Kind::Mark('&') if is_equals(at + 1) || is_equals(at.saturating_sub(1)) => {
                    self.tokens.remove(at);
                }
                _ => at += 1,
            }
        }
        let (items, joints) = self.joined()?;
        if !self.take_command(&["end"]) || self.environment()? != name {
            return Err(Fault::Syntax);
        }
        let items = condition::together(items, &joints, self.steps);
        let are_equations = !items.is_empty()
            && items
                .iter()
                .all(|item| matches!(item, Node::Relation(..) | Node::List(_)));
        if are_equations {
            Ok(one_or(items, Node::List))
        } else {
            Err(Fault::Syntax)
        }
    }

    pub(super) fn matrix(&mut self) -> Read<Node> {
        let name = self.environment()?;
        if matches!(name.as_str(), "cases" | "aligned" | "align" | "gathered" | "split") {
            return self.system(&name);
        }
        if !matches!(
            name.as_str(),
            "pmatrix" | "bmatrix" | "matrix" | "Bmatrix" | "smallmatrix" | "array"
        ) {
            return Err(Fault::Syntax);
        }
        if name == "array" {
            self.expect('{')?;
            while !self.take_mark('}') {
                self.at += 1;
                if self.at >= self.tokens.len() {
                    return Err(Fault::Syntax);
                }
            }
        }
        let mut rows = vec![Vec::new()];
        loop {
            self.steps.take(1)?;
            if self.take_command(&["end"]) {
                break;
            }
            if self.take_command(&["\\"]) {
                rows.push(Vec::new());
                continue;
            }
            if self.take_mark('&') || self.take_command(&["hline"]) {
                continue;
            }
            let element = self.sum()?;
            if let Some(row) = rows.last_mut() {
                row.push(element);
            }
        }
        if self.environment()? != name {
            return Err(Fault::Syntax);
        }
        if rows.last().is_some_and(Vec::is_empty) {
            rows.pop();
        }
        let width = rows.first().map_or(0, Vec::len);
        if width == 0 || rows.iter().any(|row| row.len() != width) {
            return Err(Fault::Syntax);
        }
        Ok(Node::Matrix(rows))
    }
}

fn in_base(digits: String, base: u32, is_integer: bool) -> Read<Node> {
    let is_written_in_it = digits
        .chars()
        .all(|digit| digit.to_digit(36).is_some_and(|digit| digit < base));
    if !is_integer || !(2..=36).contains(&base) || !is_written_in_it {
        return Err(Fault::Syntax);
    }
    let significant = digits.trim_start_matches('0');
    let digits = if significant.is_empty() { "0" } else { significant }.to_owned();
    Ok(Node::Based { digits, base })
}

/// How many ways there are to choose; of a variable, a product, as `n(n-1)/2` is of `\binom n2`.
pub(super) fn binomial(of: Node, chosen: Node) -> Node {
    /// Larger products are compared by value.
    const LARGEST: i64 = 8;
    let count = (1..=LARGEST).find(|count| chosen == Node::integer(*count));
    let Some(count) = count.filter(|_| !of.is_constant() && of.is_scalar()) else {
        return Node::Call(Function::Binomial, vec![of, chosen]);
    };
    let factor = |less: i64| Node::Sum(vec![of.clone(), Node::integer(-less)]);
    let below = Node::integer((1..=count).product());
    Node::Divide(
        Box::new(Node::Product((0..count).map(factor).collect())),
        Box::new(below),
    )
}

fn one_or(mut items: Vec<Node>, otherwise: fn(Vec<Node>) -> Node) -> Node {
    if items.len() == 1 {
        items.remove(0)
    } else {
        otherwise(items)
    }
}
