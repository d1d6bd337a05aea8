//! Quantiles and tails; the only user of the crate that computes them.

use statrs::distribution::{ContinuousCDF as _, Normal, StudentsT};
use statrs::function::factorial::ln_binomial;

/// Degrees of freedom from which Student's distribution is computed from the normal one by a series, whose error is then below
/// 1e-10: the library's own figures lose digits with many.
const MANY: f64 = 1_000.0;

/// The number below which a standard normal variable falls with probability `p`; infinite at 0 and 1, NaN outside.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if !(0.0..=1.0).contains(&p) {
        return f64::NAN;
    }
    Normal::standard().inverse_cdf(p)
}

/// The probability that a standard normal variable is below `x`.
pub(crate) fn normal_cdf(x: f64) -> f64 {
    Normal::standard().cdf(x)
}

/// The probability that a standard normal variable is at least as far from 0 as `z`, on either side.
#[must_use]
pub fn normal_p(z: f64) -> f64 {
    (2.0 * normal_cdf(-z.abs())).clamp(0.0, 1.0)
}

/// The number below which Student's t with `degrees_of_freedom` falls with probability `p`; NaN unless `0 < p < 1` and there is
/// at least one degree of freedom.
#[must_use]
pub fn student_quantile(p: f64, degrees_of_freedom: f64) -> f64 {
    if !(p > 0.0 && p < 1.0 && degrees_of_freedom >= 1.0) {
        return f64::NAN;
    }
    if degrees_of_freedom >= MANY {
        return student_from_normal(normal_quantile(p), degrees_of_freedom);
    }
    StudentsT::new(0.0, 1.0, degrees_of_freedom).map_or(f64::NAN, |student| student.inverse_cdf(p))
}

/// Source: Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5.
fn student_from_normal(z: f64, degrees_of_freedom: f64) -> f64 {
    let z2 = z * z;
    let first = z * (z2 + 1.0) / 4.0;
    let second = z * ((5.0 * z2 + 16.0) * z2 + 3.0) / 96.0;
    let third = z * (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) / 384.0;
    let share = 1.0 / degrees_of_freedom;
    z + share * (first + share * (second + share * third))
}

/// The number that a standard normal variable passes as often as Student's t passes `t`.
///
/// Source: Hill, "Algorithm 395: Student's t-Distribution", 1970.
fn normal_from_student(t: f64, degrees_of_freedom: f64) -> f64 {
    let less = degrees_of_freedom - 0.5;
    let scale = 48.0 * less * less;
    let z2 = less * (t * t / degrees_of_freedom).ln_1p();
    let last = ((4.0 * z2 + 33.0) * z2 + 240.0) * z2 + 855.0;
    let corrected = (z2 + 3.0) / scale - last / (10.0 * scale * (scale + 0.8 * z2 * z2 + 100.0));
    z2.sqrt() * (1.0 + corrected)
}

/// The probability that Student's t is at least as far from 0 as `t`, on either side; `None` without a degree of freedom or
/// for a `t` that is no number.
#[must_use]
pub fn student_p(t: f64, degrees_of_freedom: f64) -> Option<f64> {
    if t.is_nan() || degrees_of_freedom.is_nan() || degrees_of_freedom < 1.0 {
        return None;
    }
    if degrees_of_freedom.is_infinite() {
        return Some(normal_p(t));
    }
    if t.is_infinite() {
        return Some(0.0);
    }
    let tail = if degrees_of_freedom >= MANY {
        normal_cdf(-normal_from_student(t.abs(), degrees_of_freedom))
    } else {
        let student = StudentsT::new(0.0, 1.0, degrees_of_freedom).ok()?;
        student.cdf(-t.abs())
    };
    Some((2.0 * tail).clamp(0.0, 1.0))
}

/// The probability of exactly `heads` in `throws` of a fair coin.
pub(crate) fn coin_exactly(heads: u64, throws: u64) -> f64 {
    if heads > throws {
        return 0.0;
    }
    (ln_binomial(throws, heads) - throws as f64 * std::f64::consts::LN_2).exp()
}

/// The probability of at most `heads` in `throws` of a fair coin.
///
/// Summed from the largest term downwards: a continued fraction of the incomplete beta function needs more terms than the
/// library takes when there are many throws.
pub(crate) fn coin_at_most(heads: u64, throws: u64) -> f64 {
    if heads >= throws {
        return 1.0;
    }
    if 2 * heads >= throws {
        return 1.0 - coin_at_most(throws - heads - 1, throws);
    }
    let mut term = coin_exactly(heads, throws);
    let mut sum = term;
    for below in (0..heads).rev() {
        term *= (below + 1) as f64 / (throws - below) as f64;
        let before = sum;
        sum += term;
        if sum == before {
            break;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of `scipy.stats.t.ppf(0.975, df)`.
    #[test]
    fn few_degrees_of_freedom_take_many_standard_errors() {
        for (free, expected) in [
            (1.0, 12.706_205),
            (2.0, 4.302_653),
            (3.0, 3.182_446),
            (5.0, 2.570_582),
            (7.0, 2.364_624),
            (10.0, 2.228_139),
            (30.0, 2.042_272),
        ] {
            let found = student_quantile(0.975, free);
            assert!((found - expected).abs() < 1e-6, "{free}: {found} is not {expected}");
        }
    }
}
