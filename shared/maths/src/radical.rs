//! Roots of rational numbers as products of roots of primes.

use dashu_base::{BitTest, Sign, UnsignedAbs};
use dashu_int::UBig;
use dashu_ratio::RBig;

use crate::polynomial::{Atom, Exponent, Monomial, Polynomial, Unformed, power};
use crate::steps::Steps;

/// Divisors that are tried; what is left below their square is a prime.
const MAX_DIVISOR: u64 = 10_000;
const MAX_BITS: usize = 4_096;

/// `value` to a fractional power. Of negative numbers the odd roots are real and the square roots imaginary; other even roots
/// have no form here.
pub(crate) fn root(value: &RBig, exponent: Exponent, steps: &mut Steps) -> Result<Polynomial, Unformed> {
    if value.is_zero() {
        return if exponent.above > 0 {
            Ok(Polynomial::constant(RBig::ZERO))
        } else {
            Err(Unformed::Undefined)
        };
    }
    let mut result = Polynomial::constant(RBig::ONE);
    if value.sign() == Sign::Negative {
        match exponent.below {
            odd if odd % 2 == 1 => {
                let sign = if exponent.above % 2 == 0 { 1 } else { -1 };
                result = Polynomial::constant(RBig::from(sign));
            }
            2 => {
                let times = u32::try_from(exponent.above.rem_euclid(4)).map_err(|_| Unformed::None)?;
                result = Polynomial::atom(Atom::I).power(times, steps)?;
            }
            _ => return Err(Unformed::None),
        }
    }
    let above = primes(value.numerator().unsigned_abs(), exponent, steps)?;
    let inverse = exponent.times(Exponent { above: -1, below: 1 }).ok_or(Unformed::None)?;
    let below = primes(value.denominator().clone(), inverse, steps)?;
    result.times(&above, steps)?.times(&below, steps)
}

/// A whole number above zero to a power.
fn primes(mut rest: UBig, exponent: Exponent, steps: &mut Steps) -> Result<Polynomial, Unformed> {
    if rest.bit_len() > MAX_BITS {
        return Err(Unformed::None);
    }
    steps.take(1 + rest.bit_len() as u64)?;
    let mut result = Polynomial::constant(RBig::ONE);
    let mut divisor = 2_u64;
    while divisor <= MAX_DIVISOR && rest >= UBig::from(divisor * divisor) {
        if divisor % 64 == 1 {
            steps.take(1 + rest.bit_len() as u64 / 64)?;
        }
        if (&rest % divisor) == 0 {
            let times = rest.remove(&UBig::from(divisor)).ok_or(Unformed::None)?;
            result = result.times(&prime_power(divisor, times, exponent)?, steps)?;
        }
        divisor += if divisor == 2 { 1 } else { 2 };
    }
    if rest.is_one() {
        return Ok(result);
    }
    let (base, times) = if rest < UBig::from(MAX_DIVISOR * MAX_DIVISOR) {
        (rest, 1)
    } else {
        perfect_power(&rest).ok_or(Unformed::None)?
    };
    let prime = u64::try_from(base).map_err(|_| Unformed::None)?;
    result.times(&prime_power(prime, times, exponent)?, steps)
}

/// A number without small divisors, as a power of one that is known to be prime.
fn perfect_power(value: &UBig) -> Option<(UBig, usize)> {
    [2_usize, 3, 5, 7].into_iter().find_map(|degree| {
        let base = value.nth_root(degree);
        (base.pow(degree) == *value && base < UBig::from(MAX_DIVISOR * MAX_DIVISOR)).then_some((base, degree))
    })
}

fn prime_power(prime: u64, times: usize, exponent: Exponent) -> Result<Polynomial, Unformed> {
    let formed = || {
        let times = Exponent::try_new(i64::try_from(times).ok()?, 1)?;
        let exponent = exponent.times(times)?;
        let whole = exponent.above.div_euclid(exponent.below);
        let rest = Exponent::try_new(exponent.above.rem_euclid(exponent.below), exponent.below)?;
        let monomial: Monomial = if rest.above == 0 {
            Vec::new()
        } else {
            vec![(Atom::Prime(prime), rest)]
        };
        Some(Polynomial::term(monomial, power(&RBig::from(prime), whole)?))
    };
    formed().ok_or(Unformed::None)
}
