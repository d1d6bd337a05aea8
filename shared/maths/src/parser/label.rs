//! Names that look like products and quotients: `f(2)` before an equals sign, `\frac{dy}{dx}`.

use super::{Parser, name};
use crate::lexer::{Kind, Token};
use crate::node::Node;

/// Brackets that stand in each other in a label; nobody writes more.
const MAX_NESTED: usize = 8;

impl Parser<'_> {
    /// Takes `f(2)`, `f'(2)` or `f^{-1}(x)` before an equals sign: what has the value that follows, and no product.
    pub(super) fn label(&mut self) -> Option<Node> {
        let end = self.application(self.at, 0)?;
        let is_equated = match self.kind(end)? {
            Kind::Mark('=') => true,
            Kind::Command(name) => matches!(name.as_str(), "approx" | "equiv"),
            _ => false,
        };
        if !is_equated {
            return None;
        }
        let name = self.tokens.get(self.at..end)?.iter().map(spelled).collect();
        self.at = end;
        Some(Node::Name(name))
    }

    fn kind(&self, at: usize) -> Option<&Kind> {
        self.tokens.get(at).map(|token| &token.kind)
    }

    /// The end of a function's name with its arguments: a variable each, constants, or what is no product as `P(X = 2)`.
    fn application(&self, start: usize, depth: usize) -> Option<usize> {
        let is_name = self.is_letter(start) || matches!(self.kind(start)?, Kind::Word(word) if word == "Pr");
        if !is_name || depth > MAX_NESTED {
            return None;
        }
        let open = self.behind_marks(start + 1)?;
        if self.kind(open) != Some(&Kind::Mark('(')) {
            return None;
        }
        let close = self.closing(open)?;
        let inner = self.tokens.get(open + 1..close).filter(|inner| !inner.is_empty())?;
        let is_constant = || !(open + 1..close).any(|at| self.is_letter(at) || self.is_word(at));
        let are_arguments = || {
            (open + 1..close).all(|at| {
                let is_comma = self.kind(at) == Some(&Kind::Mark(','));
                if (at - open).is_multiple_of(2) {
                    is_comma
                } else {
                    self.is_letter(at)
                }
            })
        };
        let is_event = || inner.iter().any(says_an_event);
        let is_nested = || self.application(open + 1, depth + 1) == Some(close);
        (is_constant() || are_arguments() || is_event() || is_nested()).then_some(close + 1)
    }

    /// One letter that may name a variable or a function.
    fn is_letter(&self, at: usize) -> bool {
        match self.kind(at) {
            Some(Kind::Word(word)) => word.len() == 1 && !matches!(word.as_str(), "e" | "i"),
            Some(Kind::Command(name)) => name::is_greek(name),
            _ => false,
        }
    }

    fn is_word(&self, at: usize) -> bool {
        matches!(self.kind(at), Some(Kind::Word(word) | Kind::Text(word)) if word != "e" && word != "pi")
    }

    /// Behind an index, primes, and the exponent of an inverse or of a derivative.
    fn behind_marks(&self, start: usize) -> Option<usize> {
        let mut at = start;
        if self.kind(at) == Some(&Kind::Mark('_')) {
            at = match self.kind(at + 1)? {
                Kind::Mark('{') => self.closing(at + 1)? + 1,
                _ => at + 2,
            };
        }
        while self.kind(at) == Some(&Kind::Mark('\'')) {
            at += 1;
        }
        let is_raised = self.kind(at) == Some(&Kind::Mark('^')) && self.kind(at + 1) == Some(&Kind::Mark('{'));
        if !is_raised {
            return Some(at);
        }
        match (self.kind(at + 2)?, self.kind(at + 3)?) {
            (Kind::Mark('-'), Kind::Number { digits, .. }) if digits == "1" => Some(at + 5),
            (Kind::Mark('('), _) => Some(self.closing(at + 1)? + 1),
            _ => None,
        }
    }

    /// The token that closes the bracket at a place.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (offset, token) in self.tokens.get(open..)?.iter().enumerate() {
            match token.kind {
                Kind::Mark('(' | '[' | '{') => depth += 1,
                Kind::Mark(')' | ']' | '}') => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return Some(open + offset);
            }
        }
        None
    }

    /// Takes the two arguments of a fraction that is a derivative: `{dy}{dx}`, `{d^2 y}{dx^2}`.
    pub(super) fn derivative(&mut self) -> Option<Node> {
        let above_end = self.braced(self.at)?;
        let below_end = self.braced(above_end + 1)?;
        let above = self.tokens.get(self.at + 1..above_end)?;
        let below = self.tokens.get(above_end + 2..below_end)?;
        let is_above = match above {
            [first] => is_differential(&first.kind),
            [first, power, degree, rest] => {
                matches!(&first.kind, Kind::Word(word) if word == "d")
                    && power.kind == Kind::Mark('^')
                    && matches!(degree.kind, Kind::Number { .. })
                    && matches!(&rest.kind, Kind::Word(word) if word.len() == 1)
            }
            _ => false,
        };
        let is_below = match below {
            [first] => is_differential(&first.kind),
            [first, power, degree] => {
                is_differential(&first.kind)
                    && power.kind == Kind::Mark('^')
                    && matches!(degree.kind, Kind::Number { .. })
            }
            _ => false,
        };
        if !is_above || !is_below {
            return None;
        }
        let spelled = |tokens: &[Token]| tokens.iter().map(spelled).collect::<String>();
        let name = format!("{}/{}", spelled(above), spelled(below));
        self.at = below_end + 1;
        Some(Node::Name(name))
    }

    /// The brace that closes the one at a place.
    fn braced(&self, open: usize) -> Option<usize> {
        let is_open = self.kind(open) == Some(&Kind::Mark('{'));
        self.closing(open).filter(|_| is_open)
    }

    /// Takes `dy/dx`.
    pub(super) fn plain_derivative(&mut self, word: &str) -> Option<Node> {
        let is_above = word.len() == 2 && word.starts_with('d');
        let below = self.kind(self.at + 2).filter(|below| is_differential(below))?;
        if !is_above || self.kind(self.at + 1) != Some(&Kind::Mark('/')) {
            return None;
        }
        let Kind::Word(below) = below else {
            return None;
        };
        let name = format!("{word}/{below}");
        self.at += 3;
        Some(Node::Name(name))
    }
}

fn is_differential(kind: &Kind) -> bool {
    matches!(kind, Kind::Word(word) if word.len() == 2 && word.starts_with('d'))
}

/// It stands between events, or makes one of a variable.
fn says_an_event(token: &Token) -> bool {
    match &token.kind {
        Kind::Mark(mark) => matches!(mark, '=' | '<' | '>' | '|'),
        Kind::Command(name) => matches!(name.as_str(), "cap" | "cup" | "mid" | "le" | "leq" | "ge" | "geq"),
        _ => false,
    }
}

fn spelled(token: &Token) -> String {
    match &token.kind {
        Kind::Number { value, .. } => value.to_string(),
        Kind::Word(text) | Kind::Text(text) => text.clone(),
        Kind::Command(name) => format!("\\{name} "),
        Kind::Mark('{' | '}') => String::new(),
        Kind::Mark(mark) => mark.to_string(),
    }
}
