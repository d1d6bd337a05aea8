//! Values of formulas that have no exact normal form, as complex numbers of 192 bits.

use dashu_base::{Abs, BitTest, Sign};
use dashu_float::round::mode::HalfEven;
use dashu_float::{ConstCache, Context, FBig, FpError};
use dashu_int::IBig;
use dashu_ratio::RBig;

use crate::node::{Function, Node};
use crate::normal::normal;
use crate::polynomial::{Exponent, Unformed};
use crate::steps::Steps;

pub(crate) type Real = FBig<HalfEven, 2>;

const PRECISION: usize = 192;
/// Values beyond two to this power, either way, are given up.
const MAX_MAGNITUDE: isize = 1 << 17;
/// The largest exponent of e, and the largest angle in bits.
const MAX_LOGARITHM: isize = 16;
const MAX_ANGLE: isize = 64;
/// Two values agree when they differ by less than this part of the larger, in bits, or by less than this.
const RELATIVE_BITS: isize = 130;
const ABSOLUTE_BITS: isize = 150;
/// What a function costs, an operation being 1.
const FUNCTION_STEPS: u64 = 60;

#[derive(Debug, Clone)]
pub(crate) struct Complex {
    pub(crate) re: Real,
    pub(crate) im: Real,
}

/// Where variables have which value.
pub(crate) type Point = Vec<(String, RBig)>;

pub(crate) struct Evaluator<'s> {
    context: Context<HalfEven>,
    cache: ConstCache,
    pub(crate) steps: &'s mut Steps,
}

type Value<T> = Result<T, Unformed>;

/// About the base-2 logarithm; very small for zero.
fn magnitude(value: &Real) -> isize {
    if value.repr().significand().is_zero() {
        return isize::MIN / 2;
    }
    let bits = isize::try_from(value.repr().significand().bit_len()).unwrap_or(isize::MAX / 4);
    value.repr().exponent().saturating_add(bits)
}

fn is_zero(value: &Real) -> bool {
    value.repr().significand().is_zero()
}

impl Complex {
    pub(crate) fn is_real(&self) -> bool {
        is_zero(&self.im) || magnitude(&self.im) < (magnitude(&self.re) - RELATIVE_BITS).max(-ABSOLUTE_BITS)
    }
}

impl<'s> Evaluator<'s> {
    pub(crate) fn new(steps: &'s mut Steps) -> Self {
        Self {
            context: Context::new(PRECISION),
            cache: ConstCache::new(),
            steps,
        }
    }

    /// Whether two values agree as far as they are known.
    pub(crate) fn agree(&self, one: &Complex, other: &Complex) -> Value<bool> {
        let larger = [&one.re, &one.im, &other.re, &other.im]
            .into_iter()
            .map(magnitude)
            .max()
            .unwrap_or(0);
        let least = (larger - RELATIVE_BITS).max(-ABSOLUTE_BITS);
        let re = self.sub(&one.re, &other.re)?;
        let im = self.sub(&one.im, &other.im)?;
        Ok(magnitude(&re) < least && magnitude(&im) < least)
    }

    pub(crate) fn value(&mut self, node: &Node, point: &Point) -> Value<Complex> {
        self.steps.take(2)?;
        match node {
            Node::Number(value) => Ok(real(rational(value))),
            Node::Name(name) => {
                let (_, value) = point.iter().find(|(known, _)| known == name).ok_or(Unformed::None)?;
                Ok(real(rational(value)))
            }
            Node::Pi => Ok(real(self.pi())),
            Node::E => self.exponential(&real(rational(&RBig::ONE))),
            Node::I => Ok(Complex {
                re: Real::ZERO,
                im: Real::ONE,
            }),
            Node::Sum(terms) => {
                let mut sum = real(Real::ZERO);
                for term in terms {
                    let term = self.value(term, point)?;
                    sum = self.plus(&sum, &term)?;
                }
                Ok(sum)
            }
            Node::Product(factors) => {
                let mut product = real(Real::ONE);
                for factor in factors {
                    let factor = self.value(factor, point)?;
                    product = self.times(&product, &factor)?;
                }
                Ok(product)
            }
            Node::Negate(part) => Ok(negated(self.value(part, point)?)),
            Node::Divide(above, below) => {
                let above = self.value(above, point)?;
                let below = self.value(below, point)?;
                self.over(&above, &below)
            }
            Node::Power(base, exponent) => {
                let base = self.value(base, point)?;
                if let Some(exponent) = self.exact(exponent) {
                    return self.rational_power(&base, &exponent);
                }
                let exponent = self.value(exponent, point)?;
                self.power(&base, &exponent)
            }
            Node::Call(function, arguments) => self.called(*function, arguments, point),
            Node::Quantity(..) | Node::Based { .. } => {
                let exact = normal(node, self.steps)?;
                if let Some(value) = exact.as_constant() {
                    return Ok(real(rational(&value)));
                }
                self.quantity(node, point)
            }
            _ => Err(Unformed::None),
        }
    }

    fn quantity(&mut self, node: &Node, point: &Point) -> Value<Complex> {
        let Node::Quantity(value, unit) = node else {
            return Err(Unformed::None);
        };
        let value = self.value(value, point)?;
        let mut scale = match unit.measure.as_ref().filter(|measure| measure.is_ratio) {
            Some(measure) => real(rational(&measure.scale)),
            None => return Ok(value),
        };
        if unit.is_degree() {
            let pi = real(self.pi());
            scale = self.over(&pi, &real(Real::from(180)))?;
        }
        self.times(&value, &scale)
    }

    /// The rational number that a constant formula is.
    fn exact(&mut self, node: &Node) -> Option<RBig> {
        normal(node, self.steps).ok()?.as_constant()
    }

    fn called(&mut self, function: Function, arguments: &[Node], point: &Point) -> Value<Complex> {
        self.steps.take(FUNCTION_STEPS)?;
        let [first, rest @ ..] = arguments else {
            return Err(Unformed::None);
        };
        match (function, rest) {
            (Function::Root, [degree]) => {
                let degree = self
                    .exact(degree)
                    .filter(|degree| !degree.is_zero())
                    .ok_or(Unformed::None)?;
                let of = self.value(first, point)?;
                self.rational_power(&of, &(RBig::ONE / degree))
            }
            (Function::Log, [base]) => {
                let of = self.value(first, point)?;
                let base = self.value(base, point)?;
                let above = self.logarithm(&of)?;
                let below = self.logarithm(&base)?;
                self.over(&above, &below)
            }
            (Function::Factorial | Function::Binomial, _) => {
                let exact = normal(&Node::Call(function, arguments.to_vec()), self.steps)?;
                exact
                    .as_constant()
                    .map(|value| real(rational(&value)))
                    .ok_or(Unformed::None)
            }
            (Function::Abs, []) => {
                let of = self.value(first, point)?;
                self.absolute(&of).map(real)
            }
            (_, []) => {
                let of = self.value(first, point)?;
                if !of.is_real() {
                    return Err(Unformed::None);
                }
                self.of_real(function, &of.re).map(real)
            }
            _ => Err(Unformed::None),
        }
    }

    fn of_real(&mut self, function: Function, x: &Real) -> Value<Real> {
        if magnitude(x) > MAX_ANGLE {
            return Err(Unformed::Large);
        }
        let context = self.context;
        let repr = x.repr();
        let cache = Some(&mut self.cache);
        let one = Real::ONE;
        let inverse = |value: Real| -> Value<Real> {
            if magnitude(&value) < -ABSOLUTE_BITS {
                return Err(Unformed::Undefined);
            }
            checked(context.div(one.repr(), value.repr()))
        };
        match function {
            Function::Sin => checked(context.sin(repr, cache)),
            Function::Cos => checked(context.cos(repr, cache)),
            Function::Tan => {
                let cosine = checked(context.cos(repr, cache))?;
                let sine = checked(context.sin(repr, None))?;
                let inverse = inverse(cosine)?;
                checked(context.mul(sine.repr(), inverse.repr()))
            }
            Function::Cot => {
                let sine = checked(context.sin(repr, cache))?;
                let cosine = checked(context.cos(repr, None))?;
                let inverse = inverse(sine)?;
                checked(context.mul(cosine.repr(), inverse.repr()))
            }
            Function::Sec => inverse(checked(context.cos(repr, cache))?),
            Function::Csc => inverse(checked(context.sin(repr, cache))?),
            Function::Arcsin => checked(context.asin(repr, cache)),
            Function::Arccos => checked(context.acos(repr, cache)),
            Function::Arctan => checked(context.atan(repr, cache)),
            Function::Sinh | Function::Cosh | Function::Tanh if magnitude(x) > MAX_LOGARITHM => Err(Unformed::Large),
            Function::Sinh => checked(context.sinh(repr, cache)),
            Function::Cosh => checked(context.cosh(repr, cache)),
            Function::Tanh => checked(context.tanh(repr, cache)),
            Function::Floor => self.rounded(x, false),
            Function::Ceiling => self.rounded(x, true),
            _ => Err(Unformed::None),
        }
    }

    /// The nearest whole number below or above; a value that is whole as far as it is known stays.
    fn rounded(&self, x: &Real, is_up: bool) -> Value<Real> {
        let nearest = x.clone().round();
        let off = self.sub(x, &nearest)?;
        if magnitude(&off) < -RELATIVE_BITS {
            return Ok(nearest);
        }
        Ok(if is_up { x.clone().ceil() } else { x.clone().floor() })
    }

    fn pi(&mut self) -> Real {
        self.context.pi(Some(&mut self.cache)).value()
    }

    fn add(&self, one: &Real, other: &Real) -> Value<Real> {
        checked(self.context.add(one.repr(), other.repr()))
    }

    fn sub(&self, one: &Real, other: &Real) -> Value<Real> {
        checked(self.context.sub(one.repr(), other.repr()))
    }

    fn mul(&self, one: &Real, other: &Real) -> Value<Real> {
        checked(self.context.mul(one.repr(), other.repr()))
    }

    fn div(&self, one: &Real, other: &Real) -> Value<Real> {
        if is_zero(other) {
            return Err(Unformed::Undefined);
        }
        checked(self.context.div(one.repr(), other.repr()))
    }

    fn plus(&self, one: &Complex, other: &Complex) -> Value<Complex> {
        Ok(Complex {
            re: self.add(&one.re, &other.re)?,
            im: self.add(&one.im, &other.im)?,
        })
    }

    pub(crate) fn times(&self, one: &Complex, other: &Complex) -> Value<Complex> {
        let re = self.sub(&self.mul(&one.re, &other.re)?, &self.mul(&one.im, &other.im)?)?;
        let im = self.add(&self.mul(&one.re, &other.im)?, &self.mul(&one.im, &other.re)?)?;
        Ok(Complex { re, im })
    }

    fn over(&self, one: &Complex, other: &Complex) -> Value<Complex> {
        if is_zero(&other.im) {
            if magnitude(&other.re) < -ABSOLUTE_BITS {
                return Err(Unformed::Undefined);
            }
            return Ok(Complex {
                re: self.div(&one.re, &other.re)?,
                im: self.div(&one.im, &other.re)?,
            });
        }
        let square = self.add(&self.mul(&other.re, &other.re)?, &self.mul(&other.im, &other.im)?)?;
        let conjugate = Complex {
            re: other.re.clone(),
            im: -other.im.clone(),
        };
        let above = self.times(one, &conjugate)?;
        Ok(Complex {
            re: self.div(&above.re, &square)?,
            im: self.div(&above.im, &square)?,
        })
    }

    fn absolute(&self, value: &Complex) -> Value<Real> {
        if is_zero(&value.im) {
            return Ok(value.re.clone().abs());
        }
        let square = self.add(&self.mul(&value.re, &value.re)?, &self.mul(&value.im, &value.im)?)?;
        checked(self.context.sqrt(square.repr()))
    }

    fn exponential(&mut self, value: &Complex) -> Value<Complex> {
        self.steps.take(FUNCTION_STEPS)?;
        if magnitude(&value.re) > MAX_LOGARITHM || magnitude(&value.im) > MAX_ANGLE {
            return Err(Unformed::Large);
        }
        let size = checked(self.context.exp(value.re.repr(), Some(&mut self.cache)))?;
        if is_zero(&value.im) {
            return Ok(real(size));
        }
        let cosine = checked(self.context.cos(value.im.repr(), Some(&mut self.cache)))?;
        let sine = checked(self.context.sin(value.im.repr(), Some(&mut self.cache)))?;
        Ok(Complex {
            re: self.mul(&size, &cosine)?,
            im: self.mul(&size, &sine)?,
        })
    }

    fn logarithm(&mut self, value: &Complex) -> Value<Complex> {
        self.steps.take(FUNCTION_STEPS)?;
        let size = self.absolute(value)?;
        if is_zero(&size) {
            return Err(Unformed::Undefined);
        }
        let re = checked(self.context.ln(size.repr(), Some(&mut self.cache)))?;
        let im = if is_zero(&value.im) && value.re.sign() == Sign::Positive {
            Real::ZERO
        } else {
            checked(
                self.context
                    .atan2(value.im.repr(), value.re.repr(), Some(&mut self.cache)),
            )?
        };
        Ok(Complex { re, im })
    }

    fn power(&mut self, base: &Complex, exponent: &Complex) -> Value<Complex> {
        let logarithm = self.logarithm(base)?;
        let scaled = self.times(&logarithm, exponent)?;
        self.exponential(&scaled)
    }

    /// As the exact rules take it: odd roots of negative numbers are real.
    fn rational_power(&mut self, base: &Complex, exponent: &RBig) -> Value<Complex> {
        const SMALL: i64 = 64;
        let small = Exponent::of(exponent);
        if let Some(Exponent { above, below: 1 }) = small.filter(|small| small.above.abs() <= SMALL) {
            let mut power = real(Real::ONE);
            for _ in 0..above.abs() {
                self.steps.take(1)?;
                power = self.times(&power, base)?;
            }
            return if above < 0 {
                self.over(&real(Real::ONE), &power)
            } else {
                Ok(power)
            };
        }
        if is_zero(&base.re) && is_zero(&base.im) {
            return if exponent.sign() == Sign::Positive {
                Ok(real(Real::ZERO))
            } else {
                Err(Unformed::Undefined)
            };
        }
        let is_negative = is_zero(&base.im) && base.re.sign() == Sign::Negative;
        if let Some(small) = small.filter(|small| is_negative && small.below % 2 == 1) {
            let size = real(base.re.clone().abs());
            let power = self.power(&size, &real(rational(exponent)))?;
            return Ok(if small.above % 2 == 0 { power } else { negated(power) });
        }
        if is_zero(&base.im) && *exponent == RBig::ONE / RBig::from(2) {
            let root = checked(self.context.sqrt(base.re.clone().abs().repr()))?;
            return Ok(if is_negative {
                Complex {
                    re: Real::ZERO,
                    im: root,
                }
            } else {
                real(root)
            });
        }
        self.power(base, &real(rational(exponent)))
    }
}

fn real(re: Real) -> Complex {
    Complex { re, im: Real::ZERO }
}

fn negated(value: Complex) -> Complex {
    Complex {
        re: -value.re,
        im: -value.im,
    }
}

fn rational(value: &RBig) -> Real {
    value.to_float::<HalfEven, 2>(PRECISION).value()
}

/// A finite value of bounded size.
fn checked(result: Result<dashu_float::round::Rounded<Real>, FpError>) -> Value<Real> {
    let value = result.map_err(|_| Unformed::Undefined)?.value();
    if value.repr().is_infinite() {
        return Err(Unformed::Undefined);
    }
    if !is_zero(&value) && magnitude(&value).abs() > MAX_MAGNITUDE {
        return Err(Unformed::Large);
    }
    Ok(value)
}

/// The digits of a value as far as they are the same however it was computed: a small fraction where it is one, else 30 digits.
pub(crate) fn digits(value: &Real) -> String {
    const DIGITS: usize = 30;
    if magnitude(value) < -ABSOLUTE_BITS {
        return "0".to_owned();
    }
    if let Some(fraction) = simple(value) {
        return fraction.to_string();
    }
    let decimal = value.clone().with_base_and_precision::<10>(DIGITS).value();
    let significand = decimal.repr().significand();
    let digits = significand.clone().abs().to_string();
    let exponent = decimal.repr().exponent() + isize::try_from(digits.len()).unwrap_or(0) - 1;
    let sign = if significand.sign() == Sign::Negative { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let power = if exponent == 0 {
        String::new()
    } else {
        format!("e{exponent}")
    };
    format!("{sign}{first}.{rest}{power}")
}

/// The fraction that a value is, if there is one far simpler than chance would have it.
fn simple(value: &Real) -> Option<RBig> {
    const MAX_DENOMINATOR_BITS: usize = 32;
    if magnitude(value).abs() > 64 {
        return None;
    }
    let exact = RBig::try_from(value.clone()).ok()?;
    let slack = exact.clone().abs() * RBig::from_parts(IBig::ONE, dashu_int::UBig::ONE << RELATIVE_BITS.unsigned_abs());
    let found = RBig::simplest_in(&exact - &slack, &exact + &slack);
    (found.denominator().bit_len() <= MAX_DENOMINATOR_BITS).then_some(found)
}
