//! What an answer is once it has been read.

use dashu_ratio::RBig;

use crate::unit::Unit;

/// A formula, or a collection of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    /// An exact number.
    Number(RBig),
    /// Digits in a base that is written beside them.
    Based {
        digits: String,
        base: u32,
    },
    /// A variable.
    Name(String),
    Pi,
    /// The base of the natural logarithm.
    E,
    /// The imaginary unit.
    I,
    Infinity,
    Sum(Vec<Node>),
    Product(Vec<Node>),
    Negate(Box<Node>),
    Divide(Box<Node>, Box<Node>),
    Power(Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
    /// Two values at once; `true` when the upper sign is a minus.
    PlusMinus(Box<Node>, bool),
    /// A value with a unit, or with words that follow it.
    Quantity(Box<Node>, Unit),
    /// Words.
    Text(String),
    /// A tuple, a point, an interval or a vector, by its brackets.
    Bracketed {
        open: char,
        close: char,
        items: Vec<Node>,
    },
    Set(Vec<Node>),
    /// Several answers, in no order.
    List(Vec<Node>),
    /// Parts in a proportion, `1:2:3`, or of a time.
    Proportion(Vec<Node>, Clock),
    Matrix(Vec<Vec<Node>>),
    Union(Vec<Node>),
    /// `first` and what each further side is to the one before it.
    Relation(Box<Node>, Vec<(Relation, Node)>),
}

/// Whether what is written with colons is a time: `3:4` is none, `7:30` may be one, `4:05` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    No,
    Perhaps,
    Sure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Relation {
    Equal,
    /// Equal but for rounding.
    About,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// The second argument is the degree.
    Root,
    /// The second argument is the base.
    Log,
    Sin,
    Cos,
    Tan,
    Cot,
    Sec,
    Csc,
    Arcsin,
    Arccos,
    Arctan,
    Sinh,
    Cosh,
    Tanh,
    Abs,
    Floor,
    Ceiling,
    Factorial,
    Binomial,
}

impl Relation {
    pub(crate) const fn reversed(self) -> Self {
        match self {
            Self::Less => Self::Greater,
            Self::LessOrEqual => Self::GreaterOrEqual,
            Self::Greater => Self::Less,
            Self::GreaterOrEqual => Self::LessOrEqual,
            other => other,
        }
    }

    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::About => "~",
            Self::Unequal => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::In => "in",
        }
    }
}

impl Node {
    pub(crate) fn integer(value: i64) -> Self {
        Self::Number(RBig::from(value))
    }

    /// All real numbers, as an interval.
    pub(crate) fn reals() -> Self {
        Self::Bracketed {
            open: '(',
            close: ')',
            items: vec![Self::Negate(Box::new(Self::Infinity)), Self::Infinity],
        }
    }

    /// The parts directly below, in order.
    pub(crate) fn parts(&self) -> Vec<&Node> {
        match self {
            Self::Number(_)
            | Self::Based { .. }
            | Self::Name(_)
            | Self::Pi
            | Self::E
            | Self::I
            | Self::Infinity
            | Self::Text(_) => Vec::new(),
            Self::Negate(part) | Self::PlusMinus(part, _) | Self::Quantity(part, _) => vec![part],
            Self::Divide(one, other) | Self::Power(one, other) => vec![one, other],
            Self::Sum(parts)
            | Self::Product(parts)
            | Self::Call(_, parts)
            | Self::Set(parts)
            | Self::List(parts)
            | Self::Proportion(parts, _)
            | Self::Union(parts)
            | Self::Bracketed { items: parts, .. } => parts.iter().collect(),
            Self::Matrix(rows) => rows.iter().flatten().collect(),
            Self::Relation(first, rest) => std::iter::once(&**first)
                .chain(rest.iter().map(|(_, side)| side))
                .collect(),
        }
    }

    /// Some part, or the whole, is as asked.
    pub(crate) fn any(&self, is: &dyn Fn(&Node) -> bool) -> bool {
        is(self) || self.parts().into_iter().any(|part| part.any(is))
    }

    /// The variables, sorted, each once.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        self.collect_names(&mut names);
        names.sort_unstable();
        names.dedup();
        names
    }

    fn collect_names(&self, names: &mut Vec<String>) {
        if let Self::Name(name) = self {
            names.push(name.clone());
        }
        for part in self.parts() {
            part.collect_names(names);
        }
    }

    pub(crate) fn is_constant(&self) -> bool {
        !self.any(&|part| matches!(part, Self::Name(_) | Self::Text(_)))
    }

    /// A number or a formula, not a collection, a relation or words.
    pub(crate) fn is_scalar(&self) -> bool {
        !self.any(&|part| {
            matches!(
                part,
                Self::Text(_)
                    | Self::Bracketed { .. }
                    | Self::Set(_)
                    | Self::List(_)
                    | Self::Proportion(..)
                    | Self::Matrix(_)
                    | Self::Union(_)
                    | Self::Relation(..)
                    | Self::PlusMinus(..)
            )
        })
    }

    /// The formula with every `±` replaced by its upper or its lower sign.
    pub(crate) fn with_sign(&self, is_upper: bool) -> Self {
        let all = |parts: &[Self]| parts.iter().map(|part| part.with_sign(is_upper)).collect();
        let one = |part: &Self| Box::new(part.with_sign(is_upper));
        match self {
            Self::PlusMinus(part, is_minus_first) => {
                let part = part.with_sign(is_upper);
                if *is_minus_first == is_upper {
                    Self::Negate(Box::new(part))
                } else {
                    part
                }
            }
            Self::Sum(parts) => Self::Sum(all(parts)),
            Self::Product(parts) => Self::Product(all(parts)),
            Self::Call(function, parts) => Self::Call(*function, all(parts)),
            Self::Negate(part) => Self::Negate(one(part)),
            Self::Divide(above, below) => Self::Divide(one(above), one(below)),
            Self::Power(base, exponent) => Self::Power(one(base), one(exponent)),
            Self::Quantity(part, unit) => Self::Quantity(one(part), unit.clone()),
            Self::Bracketed { open, close, items } => Self::Bracketed {
                open: *open,
                close: *close,
                items: all(items),
            },
            Self::Relation(first, rest) => Self::Relation(
                one(first),
                rest.iter()
                    .map(|(relation, side)| (*relation, side.with_sign(is_upper)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    pub(crate) fn has_two_signs(&self) -> bool {
        self.any(&|part| matches!(part, Self::PlusMinus(..)))
    }
}
