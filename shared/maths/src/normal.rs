//! The exact normal form of a formula, where it has one.

use dashu_base::{Abs, BitTest, Sign};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use crate::node::{Function, Node};
use crate::polynomial::{Atom, Exponent, Fraction, Monomial, Polynomial, Unformed, power};
use crate::radical::root;
use crate::steps::Steps;

/// The largest number whose factorial is taken.
const MAX_FACTORIAL: u64 = 5_000;

/// The normal form of a formula.
pub(crate) fn normal(node: &Node, steps: &mut Steps) -> Result<Fraction, Unformed> {
    steps.take(1)?;
    match node {
        Node::Number(value) => Ok(Fraction::constant(value.clone())),
        Node::Based { digits, base } => based(digits, *base),
        Node::Name(name) => Ok(atom(Atom::Name(name.clone()))),
        Node::Pi => Ok(atom(Atom::Pi)),
        Node::E => Ok(atom(Atom::E)),
        Node::I => Ok(atom(Atom::I)),
        Node::Infinity => Ok(atom(Atom::Infinity)),
        Node::Sum(terms) => {
            let mut sum = Fraction::constant(RBig::ZERO);
            let mut is_infinite = false;
            for term in terms {
                let term = normal(term, steps)?;
                is_infinite |= has_infinity(&term);
                sum = sum.plus(&term, steps)?;
            }
            defined(sum, is_infinite)
        }
        Node::Product(factors) => {
            let mut product = Fraction::constant(RBig::ONE);
            let mut is_infinite = false;
            for factor in factors {
                let factor = normal(factor, steps)?;
                is_infinite |= has_infinity(&factor);
                product = product.times(&factor, steps)?;
            }
            defined(product, is_infinite)
        }
        Node::Negate(part) => Ok(normal(part, steps)?.negated()),
        Node::Divide(above, below) => {
            let (above, below) = (normal(above, steps)?, normal(below, steps)?);
            let is_infinite = has_infinity(&above) || has_infinity(&below);
            defined(above.divided(&below, steps)?, is_infinite)
        }
        Node::Power(base, exponent) => {
            let exponent = normal(exponent, steps)?.as_constant().ok_or(Unformed::None)?;
            raised(&normal(base, steps)?, &exponent, steps)
        }
        Node::Call(function, arguments) => called(*function, arguments, steps),
        Node::Quantity(value, unit) if unit.is_degree() => {
            let radians = Polynomial::term(vec![(Atom::Pi, Exponent::ONE)], RBig::from(1) / RBig::from(180));
            normal(value, steps)?.times(&Fraction::whole(radians), steps)
        }
        Node::Quantity(value, unit) => {
            let scale = unit.measure.as_ref().filter(|measure| measure.is_ratio);
            let scale = scale.map_or(RBig::ONE, |measure| measure.scale.clone());
            normal(value, steps)?.times(&Fraction::constant(scale), steps)
        }
        _ => Err(Unformed::None),
    }
}

/// What infinity cancels out of has no value: `\infty - \infty`, `0 \cdot \infty`.
fn defined(value: Fraction, is_infinite: bool) -> Result<Fraction, Unformed> {
    if is_infinite && !has_infinity(&value) {
        return Err(Unformed::Undefined);
    }
    Ok(value)
}

fn has_infinity(value: &Fraction) -> bool {
    let mut atoms = [&value.above, &value.below]
        .into_iter()
        .flat_map(|side| side.terms.keys().flatten());
    atoms.any(|(atom, _)| *atom == Atom::Infinity)
}

fn atom(atom: Atom) -> Fraction {
    Fraction::whole(Polynomial::atom(atom))
}

fn based(digits: &str, base: u32) -> Result<Fraction, Unformed> {
    let value = UBig::from_str_radix(digits, base).map_err(|_| Unformed::None)?;
    Ok(Fraction::constant(RBig::from(IBig::from(value))))
}

fn raised(base: &Fraction, exponent: &RBig, steps: &mut Steps) -> Result<Fraction, Unformed> {
    let exponent = Exponent::of(exponent).ok_or(Unformed::None)?;
    if let Some(value) = base.as_constant() {
        steps.take(exponent.above.unsigned_abs() / 64)?;
        if exponent.below == 1 {
            if value.is_zero() && exponent.above <= 0 {
                return Err(Unformed::Undefined);
            }
            return power(&value, exponent.above)
                .map(Fraction::constant)
                .ok_or(Unformed::None);
        }
        return root(&value, exponent, steps).map(Fraction::whole);
    }
    match base.as_polynomial().and_then(Polynomial::single) {
        Some((monomial, coefficient)) => term_raised(monomial, coefficient, exponent, steps).map(Fraction::whole),
        None if exponent.below == 1 => base.power(exponent.above, steps),
        None => Err(Unformed::None),
    }
}

fn term_raised(
    monomial: &Monomial,
    coefficient: &RBig,
    exponent: Exponent,
    steps: &mut Steps,
) -> Result<Polynomial, Unformed> {
    let is_whole = exponent.below == 1;
    let mut result = if is_whole {
        Polynomial::constant(power(coefficient, exponent.above).ok_or(Unformed::None)?)
    } else if coefficient.sign() == Sign::Positive {
        root(coefficient, exponent, steps)?
    } else {
        return Err(Unformed::None);
    };
    for (atom, own) in monomial {
        // The root of a square is no variable but its absolute value, and roots of i have several values.
        let is_defined = match atom {
            Atom::Name(_) | Atom::Infinity => is_whole || *own == Exponent::ONE,
            Atom::I => is_whole,
            Atom::Pi | Atom::E | Atom::Prime(_) => true,
        };
        let raised = own.times(exponent).filter(|_| is_defined).ok_or(Unformed::None)?;
        let factor = Polynomial::term(vec![(atom.clone(), raised)], RBig::ONE);
        // Multiplied twice over, so that the reduction of primes and of i sees it.
        result = result.times(&factor, steps)?;
    }
    Ok(result)
}

fn called(function: Function, arguments: &[Node], steps: &mut Steps) -> Result<Fraction, Unformed> {
    match (function, arguments) {
        (Function::Root, [of, degree]) => {
            let degree = normal(degree, steps)?.as_constant().ok_or(Unformed::None)?;
            if degree.is_zero() {
                return Err(Unformed::Undefined);
            }
            let of = normal(of, steps)?;
            raised(&of, &(RBig::ONE / degree), steps)
        }
        (Function::Binomial, [of, chosen]) => binomial(&whole(of, steps)?, &whole(chosen, steps)?, steps),
        (_, [of]) => {
            let value = normal(of, steps)?.as_constant().ok_or(Unformed::None)?;
            match function {
                Function::Abs => Ok(Fraction::constant(value.abs())),
                Function::Floor => Ok(Fraction::constant(RBig::from(value.floor()))),
                Function::Ceiling => Ok(Fraction::constant(RBig::from(value.ceil()))),
                Function::Factorial => factorial(&value, steps),
                _ => Err(Unformed::None),
            }
        }
        (Function::Log, [of, base]) => logarithm(of, base, steps),
        _ => Err(Unformed::None),
    }
}

/// Logarithms that are whole numbers: of 8 to the base 2, of 1, of powers of e.
fn logarithm(of: &Node, base: &Node, steps: &mut Steps) -> Result<Fraction, Unformed> {
    const LARGEST: i64 = 4_096;
    let of = normal(of, steps)?;
    let base = normal(base, steps)?;
    if of.as_constant().is_some_and(|of| of.is_one()) {
        return Ok(Fraction::constant(RBig::ZERO));
    }
    if let (Some(one), Some(other)) = (single_e(&of), single_e(&base)) {
        return Ok(Fraction::constant(one / other));
    }
    let (Some(of), Some(base)) = (of.as_constant(), base.as_constant()) else {
        return Err(Unformed::None);
    };
    if of.sign() == Sign::Negative || of.is_zero() || base <= RBig::ONE {
        return Err(Unformed::None);
    }
    let (is_inverse, of) = if of < RBig::ONE {
        (true, RBig::ONE / of)
    } else {
        (false, of)
    };
    let mut power = RBig::ONE;
    for exponent in 0..LARGEST {
        steps.take(1 + power.numerator().bit_len() as u64 / 64)?;
        if power == of {
            let sign = if is_inverse { -1 } else { 1 };
            return Ok(Fraction::constant(RBig::from(sign * exponent)));
        }
        if power > of {
            break;
        }
        power *= base.clone();
    }
    Err(Unformed::None)
}

/// The exponent of a power of e.
fn single_e(value: &Fraction) -> Option<RBig> {
    let (monomial, coefficient) = value.as_polynomial()?.single()?;
    match monomial.as_slice() {
        [(Atom::E, exponent)] if coefficient.is_one() => Some(RBig::from(exponent.above) / RBig::from(exponent.below)),
        _ => None,
    }
}

fn whole(node: &Node, steps: &mut Steps) -> Result<RBig, Unformed> {
    let value = normal(node, steps)?.as_constant().ok_or(Unformed::None)?;
    if value.is_int() && value.sign() == Sign::Positive {
        Ok(value)
    } else {
        Err(Unformed::None)
    }
}

/// A whole number whose factorial is taken.
fn small(value: &RBig) -> Result<u64, Unformed> {
    if !value.is_int() || value.sign() == Sign::Negative {
        return Err(Unformed::None);
    }
    let value = u64::try_from(value.numerator().clone()).ok();
    value.filter(|value| *value <= MAX_FACTORIAL).ok_or(Unformed::Large)
}

fn factorial(of: &RBig, steps: &mut Steps) -> Result<Fraction, Unformed> {
    let of = small(of)?;
    // Half of so many products of a word and as many words.
    steps.take(1 + of / 8 + of * of / 1_024)?;
    let product = (1..=of).fold(IBig::ONE, |product, factor| product * factor);
    Ok(Fraction::constant(RBig::from(product)))
}

fn binomial(of: &RBig, chosen: &RBig, steps: &mut Steps) -> Result<Fraction, Unformed> {
    let (of, chosen) = (small(of)?, small(chosen)?);
    steps.take(1 + of + of * of / 1_024)?;
    if chosen > of {
        return Ok(Fraction::constant(RBig::ZERO));
    }
    // Each quotient is a binomial coefficient of its own, so that none leaves a remainder.
    let value = (1..=chosen.min(of - chosen)).fold(IBig::ONE, |value, index| value * (of - index + 1) / index);
    Ok(Fraction::constant(RBig::from(value)))
}
