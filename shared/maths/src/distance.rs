//! How far two plain numbers are from each other, exactly.

use dashu_base::Abs;
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

/// Longer numerals, and larger exponents of ten, are not computed with.
const MAX_DIGITS: usize = 4_096;
const MAX_EXPONENT: i64 = 4_096;

/// Whether two numbers differ by no more than the tolerance, as exact fractions.
///
/// Numbers are plain: `-1.5`, `1e400`, `3/4`, `2 1/2`. The tolerance is the decimal that it is written as. Numbers too long to be
/// computed with are within any tolerance of what is written alike, and of nothing else.
#[must_use]
pub fn are_within(one: &str, other: &str, tolerance: f64) -> bool {
    let within = || {
        let distance = (number(one)? - number(other)?).abs();
        Some(distance <= number(&tolerance.to_string())?)
    };
    within().unwrap_or(one == other)
}

fn number(text: &str) -> Option<RBig> {
    if let Some(positive) = text.strip_prefix('-') {
        return number(positive).map(|value| -value);
    }
    if let Some((whole, part)) = text.split_once(' ') {
        return Some(number(whole)? + number(part)?);
    }
    if let Some((above, below)) = text.split_once('/') {
        let below = number(below).filter(|below| !below.is_zero())?;
        return Some(number(above)? / below);
    }
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (whole, decimals) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.len() + decimals.len() > MAX_DIGITS || exponent.abs() > MAX_EXPONENT {
        return None;
    }
    let digits: UBig = format!("0{whole}{decimals}").parse().ok()?;
    let exponent = exponent - i64::try_from(decimals.len()).ok()?;
    let power = UBig::from(10_u8).pow(usize::try_from(exponent.unsigned_abs()).ok()?);
    Some(if exponent < 0 {
        RBig::from_parts(IBig::from(digits), power)
    } else {
        RBig::from(IBig::from(digits * power))
    })
}
