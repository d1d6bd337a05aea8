//! Polynomials over the rationals in variables, constants and roots of primes, and their quotients.
//!
//! Exponents may be fractions and negative, so a quotient by a single term is a polynomial too. Powers of the imaginary unit
//! and of primes are reduced as they arise; prime roots are independent over the rationals, so equal numbers have equal terms.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use dashu_base::BitTest;
use dashu_int::IBig;
use dashu_ratio::RBig;

use crate::steps::{Exhausted, Steps};

/// More terms than this make no answer that anybody writes down.
const MAX_TERMS: usize = 1_500;
/// Room for a coefficient.
const MAX_BITS: usize = 1 << 18;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Atom {
    Pi,
    E,
    I,
    Name(String),
    Infinity,
    Prime(u64),
}

/// A reduced fraction with a positive denominator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Exponent {
    pub(crate) above: i64,
    pub(crate) below: i64,
}

impl Exponent {
    pub(crate) const ONE: Self = Self { above: 1, below: 1 };

    pub(crate) fn try_new(above: i64, below: i64) -> Option<Self> {
        const LARGEST: i64 = 1 << 24;
        let divisor = greatest_divisor(above.unsigned_abs(), below.unsigned_abs()).cast_signed();
        if below == 0 || divisor == 0 {
            return None;
        }
        let sign = below.signum();
        let reduced = Self {
            above: sign * above / divisor,
            below: sign * below / divisor,
        };
        (reduced.above.abs() < LARGEST && reduced.below < LARGEST).then_some(reduced)
    }

    /// The exponent that a rational number is, when it is small enough.
    pub(crate) fn of(value: &RBig) -> Option<Self> {
        let above = i64::try_from(value.numerator().clone()).ok()?;
        let below = i64::try_from(value.denominator().clone()).ok()?;
        Self::try_new(above, below)
    }

    fn plus(self, other: Self) -> Option<Self> {
        Self::try_new(
            self.above * other.below + other.above * self.below,
            self.below * other.below,
        )
    }

    pub(crate) fn times(self, other: Self) -> Option<Self> {
        Self::try_new(self.above * other.above, self.below * other.below)
    }

    const fn is_zero(self) -> bool {
        self.above == 0
    }

    fn compare(self, other: Self) -> Ordering {
        (self.above * other.below).cmp(&(other.above * self.below))
    }
}

const fn greatest_divisor(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Atoms with their exponents, sorted by atom, none with exponent zero.
pub(crate) type Monomial = Vec<(Atom, Exponent)>;

/// A sum of monomials, none with coefficient zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Polynomial {
    pub(crate) terms: BTreeMap<Monomial, RBig>,
}

/// Why there is no normal form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unformed {
    /// The formula has none, or one that is too large.
    None,
    /// A value beyond what is computed with, which may be equal to another all the same.
    Large,
    /// A division by zero: the formula has no value.
    Undefined,
    Exhausted,
}

impl From<Exhausted> for Unformed {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

impl Polynomial {
    pub(crate) fn constant(value: RBig) -> Self {
        Self::term(Vec::new(), value)
    }

    pub(crate) fn atom(atom: Atom) -> Self {
        Self::term(vec![(atom, Exponent::ONE)], RBig::ONE)
    }

    pub(crate) fn term(monomial: Monomial, coefficient: RBig) -> Self {
        let mut terms = BTreeMap::new();
        if !coefficient.is_zero() {
            terms.insert(monomial, coefficient);
        }
        Self { terms }
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// The number that this is, if it is rational.
    pub(crate) fn as_constant(&self) -> Option<RBig> {
        match self.single() {
            Some((monomial, coefficient)) if monomial.is_empty() => Some(coefficient.clone()),
            None if self.is_zero() => Some(RBig::ZERO),
            _ => None,
        }
    }

    pub(crate) fn single(&self) -> Option<(&Monomial, &RBig)> {
        if self.terms.len() == 1 {
            self.terms.first_key_value()
        } else {
            None
        }
    }

    pub(crate) fn plus(&self, other: &Self, steps: &mut Steps) -> Result<Self, Unformed> {
        let mut sum = self.clone();
        for (monomial, coefficient) in &other.terms {
            steps.take(cost(coefficient))?;
            sum.add(monomial.clone(), coefficient.clone());
        }
        if sum.terms.len() > MAX_TERMS {
            return Err(Unformed::None);
        }
        Ok(sum)
    }

    fn add(&mut self, monomial: Monomial, coefficient: RBig) {
        let sum = match self.terms.get(&monomial) {
            Some(present) => present + coefficient,
            None => coefficient,
        };
        if sum.is_zero() {
            self.terms.remove(&monomial);
        } else {
            self.terms.insert(monomial, sum);
        }
    }

    pub(crate) fn negated(&self) -> Self {
        self.scaled(&RBig::from(-1))
    }

    pub(crate) fn scaled(&self, by: &RBig) -> Self {
        let terms = self
            .terms
            .iter()
            .map(|(monomial, coefficient)| (monomial.clone(), coefficient * by));
        Self { terms: terms.collect() }
    }

    pub(crate) fn times(&self, other: &Self, steps: &mut Steps) -> Result<Self, Unformed> {
        let mut product = Self { terms: BTreeMap::new() };
        for (one, by) in &self.terms {
            for (another, factor) in &other.terms {
                steps.take(cost(by) + cost(factor) + one.len() as u64)?;
                let (monomial, scale) = joined(one, another).ok_or(Unformed::None)?;
                let coefficient = bounded(by * factor * scale).ok_or(Unformed::None)?;
                product.add(monomial, coefficient);
                if product.terms.len() > MAX_TERMS {
                    return Err(Unformed::None);
                }
            }
        }
        Ok(product)
    }

    pub(crate) fn power(&self, exponent: u32, steps: &mut Steps) -> Result<Self, Unformed> {
        let mut power = Self::constant(RBig::ONE);
        let mut square = self.clone();
        let mut left = exponent;
        while left > 0 {
            if left % 2 == 1 {
                power = power.times(&square, steps)?;
            }
            left /= 2;
            if left > 0 {
                square = square.times(&square, steps)?;
            }
        }
        Ok(power)
    }

    /// The quotient by a single term; `None` when the other has several.
    fn divided_by_term(&self, other: &Self, steps: &mut Steps) -> Result<Option<Self>, Unformed> {
        let Some((monomial, coefficient)) = other.single() else {
            return Ok(None);
        };
        let minus = Exponent { above: -1, below: 1 };
        let inverse: Option<Monomial> = monomial
            .iter()
            .map(|(atom, exponent)| Some((atom.clone(), exponent.times(minus)?)))
            .collect();
        let (monomial, scale) = joined(&inverse.ok_or(Unformed::None)?, &[]).ok_or(Unformed::None)?;
        let inverse = Self::term(monomial, scale / coefficient);
        self.times(&inverse, steps).map(Some)
    }

    /// The term that is first when variables are compared one after the other.
    fn leading(&self) -> Option<(&Monomial, &RBig)> {
        self.terms.iter().max_by(|one, other| compare(one.0, other.0))
    }

    /// The quotient when it is a polynomial.
    fn divided_exactly(&self, other: &Self, steps: &mut Steps) -> Result<Option<Self>, Unformed> {
        const MAX_QUOTIENT: usize = 256;
        // What is reduced as it is multiplied has no first term that a division could take off.
        let is_reduced = |(atom, _): &(Atom, Exponent)| matches!(atom, Atom::I | Atom::Prime(_));
        if other.terms.keys().flatten().any(is_reduced) {
            return Ok(None);
        }
        let lowest = self.lowest();
        let mut rest = self.clone();
        let mut quotient = Self { terms: BTreeMap::new() };
        while let (Some((ours, by)), Some((theirs, over))) = (rest.leading(), other.leading()) {
            let by_term = Self::term(ours.clone(), by.clone());
            let over_term = Self::term(theirs.clone(), over.clone());
            let Some(term) = by_term.divided_by_term(&over_term, steps)? else {
                return Ok(None);
            };
            let is_below = |(atom, exponent): &(Atom, Exponent)| {
                let least = lowest.get(atom).copied().unwrap_or(Exponent { above: 0, below: 1 });
                exponent.compare(least) == Ordering::Less
            };
            if quotient.terms.len() >= MAX_QUOTIENT || term.terms.keys().flatten().any(is_below) {
                return Ok(None);
            }
            let product = term.times(other, steps)?;
            rest = rest.plus(&product.negated(), steps)?;
            quotient = quotient.plus(&term, steps)?;
        }
        Ok(rest.is_zero().then_some(quotient))
    }

    /// For each atom the least exponent with which it occurs; zero where some term lacks it.
    fn lowest(&self) -> BTreeMap<Atom, Exponent> {
        let mut lowest: BTreeMap<Atom, (Exponent, usize)> = BTreeMap::new();
        for (atom, exponent) in self.terms.keys().flatten() {
            let entry = lowest.entry(atom.clone()).or_insert((*exponent, 0));
            if exponent.compare(entry.0) == Ordering::Less {
                entry.0 = *exponent;
            }
            entry.1 += 1;
        }
        let zero = Exponent { above: 0, below: 1 };
        lowest
            .into_iter()
            .map(|(atom, (least, count))| {
                let is_everywhere = count == self.terms.len();
                let is_positive = least.above > 0;
                (atom, if is_positive && !is_everywhere { zero } else { least })
            })
            .collect()
    }
}

fn compare(one: &Monomial, other: &Monomial) -> Ordering {
    let zero = Exponent { above: 0, below: 1 };
    let exponent = |monomial: &Monomial, atom: &Atom| {
        monomial
            .iter()
            .find(|(present, _)| present == atom)
            .map_or(zero, |(_, exponent)| *exponent)
    };
    let mut atoms: Vec<&Atom> = one.iter().chain(other).map(|(atom, _)| atom).collect();
    atoms.sort_unstable();
    atoms.dedup();
    atoms
        .into_iter()
        .map(|atom| exponent(one, atom).compare(exponent(other, atom)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// The product of two monomials, reduced, with the number that the reduction splits off.
fn joined(one: &[(Atom, Exponent)], other: &[(Atom, Exponent)]) -> Option<(Monomial, RBig)> {
    let mut exponents: BTreeMap<&Atom, Exponent> = BTreeMap::new();
    for (atom, exponent) in one.iter().chain(other) {
        let sum = match exponents.get(atom) {
            Some(present) => present.plus(*exponent)?,
            None => *exponent,
        };
        exponents.insert(atom, sum);
    }
    let mut monomial = Vec::with_capacity(exponents.len());
    let mut scale = RBig::ONE;
    for (atom, exponent) in exponents {
        let (exponent, split) = reduced(atom, exponent)?;
        scale *= split;
        if !exponent.is_zero() {
            monomial.push((atom.clone(), exponent));
        }
    }
    Some((monomial, scale))
}

fn reduced(atom: &Atom, exponent: Exponent) -> Option<(Exponent, RBig)> {
    match atom {
        Atom::I if exponent.below == 1 => {
            let power = exponent.above.rem_euclid(4);
            let sign = if power >= 2 { -1 } else { 1 };
            Some((
                Exponent {
                    above: power % 2,
                    below: 1,
                },
                RBig::from(sign),
            ))
        }
        Atom::I => None,
        Atom::Prime(prime) => {
            let whole = exponent.above.div_euclid(exponent.below);
            let rest = Exponent::try_new(exponent.above.rem_euclid(exponent.below), exponent.below)?;
            Some((rest, power(&RBig::from(*prime), whole)?))
        }
        _ => Some((exponent, RBig::ONE)),
    }
}

/// A rational number to a whole power, within bounds.
pub(crate) fn power(base: &RBig, exponent: i64) -> Option<RBig> {
    let times = usize::try_from(exponent.unsigned_abs()).ok()?;
    if base.is_one() || exponent == 0 {
        return Some(RBig::ONE);
    }
    if base.is_zero() {
        return (exponent > 0).then_some(RBig::ZERO);
    }
    let bits = base.numerator().bit_len().max(base.denominator().bit_len());
    if bits.saturating_mul(times) > MAX_BITS {
        return None;
    }
    let above = base.numerator().pow(times);
    let below = IBig::from(base.denominator().pow(times));
    Some(if exponent > 0 {
        RBig::from_parts_signed(above, below)
    } else {
        RBig::from_parts_signed(below, above)
    })
}

fn bounded(value: RBig) -> Option<RBig> {
    let bits = value.numerator().bit_len().max(value.denominator().bit_len());
    (bits <= MAX_BITS).then_some(value)
}

/// Numbers of several thousand bits cost as the square of their length.
fn cost(value: &RBig) -> u64 {
    let words = (value.numerator().bit_len() + value.denominator().bit_len()) as u64 / 64;
    1 + words * words / 64 + words
}

/// A quotient of polynomials, the lower one not zero; lower 1 wherever the quotient is a polynomial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fraction {
    pub(crate) above: Polynomial,
    pub(crate) below: Polynomial,
}

impl Fraction {
    pub(crate) fn whole(above: Polynomial) -> Self {
        Self {
            above,
            below: Polynomial::constant(RBig::ONE),
        }
    }

    pub(crate) fn constant(value: RBig) -> Self {
        Self::whole(Polynomial::constant(value))
    }

    pub(crate) fn as_constant(&self) -> Option<RBig> {
        self.as_polynomial()?.as_constant()
    }

    pub(crate) fn as_polynomial(&self) -> Option<&Polynomial> {
        (self.below.as_constant()? == RBig::ONE).then_some(&self.above)
    }

    pub(crate) fn plus(&self, other: &Self, steps: &mut Steps) -> Result<Self, Unformed> {
        if self.below == other.below {
            return Self::over(self.above.plus(&other.above, steps)?, self.below.clone(), steps);
        }
        let one = self.above.times(&other.below, steps)?;
        let another = other.above.times(&self.below, steps)?;
        Self::over(
            one.plus(&another, steps)?,
            self.below.times(&other.below, steps)?,
            steps,
        )
    }

    pub(crate) fn negated(&self) -> Self {
        Self {
            above: self.above.negated(),
            below: self.below.clone(),
        }
    }

    pub(crate) fn times(&self, other: &Self, steps: &mut Steps) -> Result<Self, Unformed> {
        let above = self.above.times(&other.above, steps)?;
        Self::over(above, self.below.times(&other.below, steps)?, steps)
    }

    pub(crate) fn divided(&self, other: &Self, steps: &mut Steps) -> Result<Self, Unformed> {
        if other.above.is_zero() {
            return Err(Unformed::Undefined);
        }
        let above = self.above.times(&other.below, steps)?;
        Self::over(above, self.below.times(&other.above, steps)?, steps)
    }

    pub(crate) fn power(&self, exponent: i64, steps: &mut Steps) -> Result<Self, Unformed> {
        let times = u32::try_from(exponent.unsigned_abs()).map_err(|_| Unformed::None)?;
        let power = Self::over(self.above.power(times, steps)?, self.below.power(times, steps)?, steps)?;
        if exponent < 0 {
            return Self::constant(RBig::ONE).divided(&power, steps);
        }
        Ok(power)
    }

    fn over(above: Polynomial, below: Polynomial, steps: &mut Steps) -> Result<Self, Unformed> {
        if below.as_constant() == Some(RBig::ONE) {
            return Ok(Self { above, below });
        }
        if let Some(quotient) = above.divided_by_term(&below, steps)? {
            return Ok(Self::whole(quotient));
        }
        // The lower side loses what all its terms share, so that a quotient's exponents are bounded from below.
        let shared: Monomial = below
            .lowest()
            .into_iter()
            .filter(|(_, exponent)| !exponent.is_zero())
            .collect();
        let shared = Polynomial::term(shared, RBig::ONE);
        let below = below.divided_by_term(&shared, steps)?.ok_or(Unformed::None)?;
        let above = above.divided_by_term(&shared, steps)?.ok_or(Unformed::None)?;
        if let Some(quotient) = above.divided_exactly(&below, steps)? {
            return Ok(Self::whole(quotient));
        }
        Ok(Self { above, below })
    }

    /// Equal as quotients, by multiplying crosswise.
    pub(crate) fn equals(&self, other: &Self, steps: &mut Steps) -> Result<bool, Unformed> {
        if self.below == other.below {
            return Ok(self.above == other.above);
        }
        Ok(self.above.times(&other.below, steps)? == other.above.times(&self.below, steps)?)
    }
}
