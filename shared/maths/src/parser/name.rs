//! Words and commands: functions, constants, variables.

use dashu_base::{Abs, Gcd};
use dashu_int::IBig;
use dashu_ratio::RBig;

use super::group::binomial;
use super::{Fault, Parser, Read};
use crate::lexer::{Kind, SET_CLOSE, SET_OPEN, Token};
use crate::node::{Function, Node};
use crate::normal::normal;

const GREEK: [&str; 29] = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "epsilon",
    "varepsilon",
    "zeta",
    "eta",
    "theta",
    "vartheta",
    "iota",
    "kappa",
    "lambda",
    "mu",
    "nu",
    "xi",
    "rho",
    "sigma",
    "tau",
    "phi",
    "varphi",
    "chi",
    "psi",
    "omega",
    "Gamma",
    "Delta",
    "Theta",
    "Omega",
    "ell",
];

/// A command that a factor can begin with.
pub(super) fn starts_factor(name: &str) -> bool {
    const OTHERS: [&str; 22] = [
        "frac",
        "dfrac",
        "tfrac",
        "cfrac",
        "sqrt",
        "pi",
        "infty",
        "binom",
        "dbinom",
        "tbinom",
        "lfloor",
        "lceil",
        "lvert",
        "langle",
        "begin",
        "emptyset",
        "varnothing",
        "exp",
        "gcd",
        "lcm",
        "max",
        "min",
    ];
    OTHERS.contains(&name) || GREEK.contains(&name) || function(name).is_some() || is_logarithm(name)
}

/// A word of plain text that is no unit.
pub(super) fn is_known(word: &str) -> bool {
    starts_factor(word) || matches!(word, "cbrt" | "infinity" | "inf" | "oo")
}

pub(super) fn is_greek(name: &str) -> bool {
    GREEK.contains(&name)
}

fn is_logarithm(name: &str) -> bool {
    matches!(name, "log" | "ln" | "lg")
}

fn function(name: &str) -> Option<Function> {
    Some(match name {
        "sin" => Function::Sin,
        "cos" => Function::Cos,
        "tan" | "tg" => Function::Tan,
        "cot" => Function::Cot,
        "sec" => Function::Sec,
        "csc" => Function::Csc,
        "arcsin" | "asin" => Function::Arcsin,
        "arccos" | "acos" => Function::Arccos,
        "arctan" | "atan" => Function::Arctan,
        "sinh" => Function::Sinh,
        "cosh" => Function::Cosh,
        "tanh" => Function::Tanh,
        "abs" => Function::Abs,
        "floor" => Function::Floor,
        "ceil" => Function::Ceiling,
        _ => return None,
    })
}

fn inverse(function: Function) -> Option<Function> {
    Some(match function {
        Function::Sin => Function::Arcsin,
        Function::Cos => Function::Arccos,
        Function::Tan => Function::Arctan,
        _ => return None,
    })
}

impl Parser<'_> {
    /// A run of letters: a name that is known, else variables side by side.
    pub(super) fn word(&mut self, word: &str) -> Read<Node> {
        if matches!(word, "and" | "or") {
            return Err(Fault::Syntax);
        }
        if word.len() > 1 && is_known(word) {
            return self.command(word);
        }
        if let Some(derivative) = self.plain_derivative(word) {
            return Ok(derivative);
        }
        if word.len() > 3 {
            self.at += 1;
            return Ok(Node::Text(word.to_owned()));
        }
        let first = word[..1].to_owned();
        if word.len() == 1 {
            self.at += 1;
        } else if let Some(token) = self.tokens.get_mut(self.at) {
            *token = Token {
                kind: Kind::Word(word[1..].to_owned()),
                is_spaced: false,
            };
        }
        self.named(first)
    }

    /// A variable with its subscript and primes; `e` and `i` alone are constants.
    fn named(&mut self, mut name: String) -> Read<Node> {
        if self.take_mark('_') {
            name.push('_');
            name.push_str(&self.subscript()?);
        }
        while self.take_mark('\'') {
            name.push('\'');
        }
        Ok(match name.as_str() {
            "e" => Node::E,
            "i" => Node::I,
            _ => Node::Name(name),
        })
    }

    fn subscript(&mut self) -> Read<String> {
        let mut text = String::new();
        let is_braced = self.take_mark('{');
        loop {
            match self.peek() {
                Some(Kind::Number { digits, .. }) => text.push_str(digits),
                Some(Kind::Word(word) | Kind::Text(word) | Kind::Command(word)) => text.push_str(word),
                Some(Kind::Mark(mark)) if is_braced && !matches!(mark, '{' | '}') => text.push(*mark),
                Some(Kind::Mark('}')) if is_braced && !text.is_empty() => {
                    self.at += 1;
                    return Ok(text);
                }
                _ => return Err(Fault::Syntax),
            }
            self.at += 1;
            if !is_braced {
                return Ok(text);
            }
        }
    }

    pub(super) fn command(&mut self, name: &str) -> Read<Node> {
        self.at += 1;
        match name {
            "frac" | "dfrac" | "tfrac" | "cfrac" => self.fraction(),
            "sqrt" => self.root(),
            "cbrt" => {
                let of = self.primary()?;
                Ok(Node::Call(Function::Root, vec![of, Node::integer(3)]))
            }
            "binom" | "dbinom" | "tbinom" => {
                let of = self.argument()?;
                Ok(binomial(of, self.argument()?))
            }
            "pi" => Ok(Node::Pi),
            "infty" | "infinity" | "inf" | "oo" => Ok(Node::Infinity),
            "gcd" | "lcm" | "max" | "min" => self.of_numbers(name),
            "emptyset" | "varnothing" => Ok(Node::Set(Vec::new())),
            "reals" => Ok(Node::reals()),
            "lfloor" => self.between(Function::Floor, "rfloor"),
            "lceil" => self.between(Function::Ceiling, "rceil"),
            "lvert" => self.between(Function::Abs, "rvert"),
            "vert" => self.between(Function::Abs, "vert"),
            "langle" => self.angled(),
            "begin" => self.matrix(),
            "exp" => {
                let of = self.applied()?;
                Ok(Node::Power(Box::new(Node::E), Box::new(of)))
            }
            _ if is_logarithm(name) => self.logarithm(name),
            _ if GREEK.contains(&name) => self.named(format!("\\{name}")),
            _ => match function(name) {
                Some(function) => self.called(function),
                None => Err(Fault::Syntax),
            },
        }
    }

    /// The divisor, the multiple, the largest or the smallest of some numbers.
    fn of_numbers(&mut self, name: &str) -> Read<Node> {
        let close = match self.peek() {
            Some(Kind::Mark('(')) => ')',
            Some(&Kind::Mark(SET_OPEN)) => SET_CLOSE,
            _ => return Err(Fault::Syntax),
        };
        self.at += 1;
        let items = self.list()?;
        self.expect(close)?;
        let mut values = Vec::with_capacity(items.len());
        for item in &items {
            let value = normal(item, self.steps).ok().and_then(|value| value.as_constant());
            values.push(value.ok_or(Fault::Syntax)?);
        }
        let value = match name {
            "max" => values.into_iter().max(),
            "min" => values.into_iter().min(),
            _ => {
                whole_numbers(&values).and_then(|values| values.into_iter().reduce(divisor_or_multiple(name == "lcm")))
            }
        };
        value.map(Node::Number).ok_or(Fault::Syntax)
    }

    fn logarithm(&mut self, name: &str) -> Read<Node> {
        let base = if self.take_mark('_') {
            self.argument()?
        } else if name == "ln" {
            Node::E
        } else {
            Node::integer(10)
        };
        let power = if self.take_mark('^') {
            Some(self.exponent()?)
        } else {
            None
        };
        let of = self.applied()?;
        let call = Node::Call(Function::Log, vec![of, base]);
        Ok(raised(call, power))
    }

    fn called(&mut self, function: Function) -> Read<Node> {
        let mut function = function;
        let mut power = None;
        if self.take_mark('^') {
            let exponent = self.exponent()?;
            match (inverse(function), is_minus_one(&exponent)) {
                (Some(inverse), true) => function = inverse,
                _ => power = Some(exponent),
            }
        }
        let of = self.applied()?;
        Ok(raised(Node::Call(function, vec![of]), power))
    }

    /// What a function is applied to: a group, or the factors that follow up to the next function.
    fn applied(&mut self) -> Read<Node> {
        if self.is_mark('(') || self.is_mark('{') {
            return self.primary();
        }
        let mut argument = if self.take_mark('-') {
            Node::Negate(Box::new(self.factor()?))
        } else {
            self.factor()?
        };
        loop {
            let is_function = match self.peek() {
                Some(Kind::Command(name) | Kind::Word(name)) => {
                    function(name).is_some() || is_logarithm(name) || name == "exp"
                }
                Some(Kind::Mark('(' | '[')) => true,
                _ => false,
            };
            if is_function || !self.starts_factor() {
                return Ok(argument);
            }
            argument = super::multiplied(argument, self.factor()?);
        }
    }
}

/// The numbers, if all are whole and none is 0.
fn whole_numbers(values: &[RBig]) -> Option<Vec<RBig>> {
    let are_whole = values.iter().all(|value| value.is_int() && !value.is_zero());
    are_whole.then(|| values.to_vec())
}

fn divisor_or_multiple(is_multiple: bool) -> impl FnMut(RBig, RBig) -> RBig {
    move |one, other| {
        let (one, other) = (one.numerator().clone(), other.numerator().clone());
        let divisor = IBig::from((&one).gcd(&other));
        RBig::from(if is_multiple {
            (one * other).abs() / divisor
        } else {
            divisor
        })
    }
}

fn raised(call: Node, power: Option<Node>) -> Node {
    match power {
        Some(power) => Node::Power(Box::new(call), Box::new(power)),
        None => call,
    }
}

fn is_minus_one(node: &Node) -> bool {
    match node {
        Node::Negate(inner) => **inner == Node::integer(1),
        Node::Number(value) => *value == dashu_ratio::RBig::from(-1),
        _ => false,
    }
}
