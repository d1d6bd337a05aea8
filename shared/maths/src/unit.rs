//! Units and the words after a number: which ones measure the same thing, and by what factor.

use dashu_ratio::RBig;

use crate::worded;

/// Length, mass, time, money of a currency, temperature, amount of data, angle: how often each occurs.
pub(crate) type Dimension = [i32; 7];

/// What stands after (or, for a currency, before) a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// In words as they are written, for comparing those that are not in the table.
    pub(crate) words: String,
    /// What it measures, and how many of the dimension's base units it is.
    pub(crate) measure: Option<Measure>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Measure {
    pub(crate) dimension: Dimension,
    pub(crate) scale: RBig,
    /// Which currency, when it measures money, or which scale of temperature.
    pub(crate) currency: Option<&'static str>,
    /// A share of the value itself: percent, degrees. They may be meant even where they are not written.
    pub(crate) is_ratio: bool,
}

const LENGTH: usize = 0;
const MASS: usize = 1;
const TIME: usize = 2;
const MONEY: usize = 3;
const TEMPERATURE: usize = 4;
const DATA: usize = 5;

/// Name, dimension, its power, and the scale as a ratio.
const UNITS: &[(&str, usize, i32, u64, u64)] = &[
    ("m", LENGTH, 1, 1, 1),
    ("meter", LENGTH, 1, 1, 1),
    ("metre", LENGTH, 1, 1, 1),
    ("cm", LENGTH, 1, 1, 100),
    ("centimeter", LENGTH, 1, 1, 100),
    ("centimetre", LENGTH, 1, 1, 100),
    ("mm", LENGTH, 1, 1, 1_000),
    ("millimeter", LENGTH, 1, 1, 1_000),
    ("millimetre", LENGTH, 1, 1, 1_000),
    ("km", LENGTH, 1, 1_000, 1),
    ("kilometer", LENGTH, 1, 1_000, 1),
    ("kilometre", LENGTH, 1, 1_000, 1),
    ("in", LENGTH, 1, 254, 10_000),
    ("inch", LENGTH, 1, 254, 10_000),
    ("inche", LENGTH, 1, 254, 10_000),
    ("ft", LENGTH, 1, 3_048, 10_000),
    ("foot", LENGTH, 1, 3_048, 10_000),
    ("feet", LENGTH, 1, 3_048, 10_000),
    ("yd", LENGTH, 1, 9_144, 10_000),
    ("yard", LENGTH, 1, 9_144, 10_000),
    ("mi", LENGTH, 1, 1_609_344, 1_000),
    ("mile", LENGTH, 1, 1_609_344, 1_000),
    ("l", LENGTH, 3, 1, 1_000),
    ("liter", LENGTH, 3, 1, 1_000),
    ("litre", LENGTH, 3, 1, 1_000),
    ("ml", LENGTH, 3, 1, 1_000_000),
    ("milliliter", LENGTH, 3, 1, 1_000_000),
    ("g", MASS, 1, 1, 1_000),
    ("gram", MASS, 1, 1, 1_000),
    ("kg", MASS, 1, 1, 1),
    ("kilogram", MASS, 1, 1, 1),
    ("mg", MASS, 1, 1, 1_000_000),
    ("lb", MASS, 1, 45_359_237, 100_000_000),
    ("pound", MASS, 1, 45_359_237, 100_000_000),
    ("oz", MASS, 1, 45_359_237, 1_600_000_000),
    ("ounce", MASS, 1, 45_359_237, 1_600_000_000),
    ("ton", MASS, 1, 1_000, 1),
    ("s", TIME, 1, 1, 1),
    ("sec", TIME, 1, 1, 1),
    ("second", TIME, 1, 1, 1),
    ("ms", TIME, 1, 1, 1_000),
    ("min", TIME, 1, 60, 1),
    ("minute", TIME, 1, 60, 1),
    ("h", TIME, 1, 3_600, 1),
    ("hr", TIME, 1, 3_600, 1),
    ("hour", TIME, 1, 3_600, 1),
    ("day", TIME, 1, 86_400, 1),
    ("week", TIME, 1, 604_800, 1),
    ("month", TIME, 1, 2_629_746, 1),
    ("year", TIME, 1, 31_556_952, 1),
    ("dollar", MONEY, 1, 1, 1),
    ("usd", MONEY, 1, 1, 1),
    ("$", MONEY, 1, 1, 1),
    ("cent", MONEY, 1, 1, 100),
    ("¢", MONEY, 1, 1, 100),
    ("€", MONEY, 1, 1, 1),
    ("euro", MONEY, 1, 1, 1),
    ("eur", MONEY, 1, 1, 1),
    ("£", MONEY, 1, 1, 1),
    ("gbp", MONEY, 1, 1, 1),
    ("¥", MONEY, 1, 1, 1),
    ("yen", MONEY, 1, 1, 1),
    ("₹", MONEY, 1, 1, 1),
    ("rupee", MONEY, 1, 1, 1),
    ("°c", TEMPERATURE, 1, 1, 1),
    ("celsius", TEMPERATURE, 1, 1, 1),
    ("°f", TEMPERATURE, 1, 1, 1),
    ("fahrenheit", TEMPERATURE, 1, 1, 1),
    ("kelvin", TEMPERATURE, 1, 1, 1),
    ("gallon", LENGTH, 3, 3_785_411_784, 1_000_000_000_000),
    ("quart", LENGTH, 3, 946_352_946, 1_000_000_000_000),
    ("pint", LENGTH, 3, 473_176_473, 1_000_000_000_000),
    ("acre", LENGTH, 2, 40_468_564_224, 10_000_000),
    ("hectare", LENGTH, 2, 10_000, 1),
    ("nanometer", LENGTH, 1, 1, 1_000_000_000),
    ("micrometer", LENGTH, 1, 1, 1_000_000),
    ("decimeter", LENGTH, 1, 1, 10),
    ("milligram", MASS, 1, 1, 1_000_000),
    ("tonne", MASS, 1, 1_000, 1),
    ("nanosecond", TIME, 1, 1, 1_000_000_000),
    ("microsecond", TIME, 1, 1, 1_000_000),
    ("millisecond", TIME, 1, 1, 1_000),
    ("yr", TIME, 1, 31_556_952, 1),
    ("hz", TIME, -1, 1, 1),
    ("hertz", TIME, -1, 1, 1),
    ("khz", TIME, -1, 1_000, 1),
    ("kilohertz", TIME, -1, 1_000, 1),
    ("mhz", TIME, -1, 1_000_000, 1),
    ("megahertz", TIME, -1, 1_000_000, 1),
    ("ghz", TIME, -1, 1_000_000_000, 1),
    ("gigahertz", TIME, -1, 1_000_000_000, 1),
    ("byte", DATA, 1, 8, 1),
    ("bit", DATA, 1, 1, 1),
];

/// Names of products of units: the product, and how often it is taken.
const PRODUCTS: &[(&str, &str, u64)] = &[
    ("mph", "mile per hour", 1),
    ("kmh", "km per hour", 1),
    ("kph", "km per hour", 1),
    ("kmph", "km per hour", 1),
    ("mpg", "mile per gallon", 1),
    ("fps", "foot per second", 1),
    ("newton", "kg m per s^2", 1),
    ("joule", "kg m^2 per s^2", 1),
    ("kilojoule", "kg m^2 per s^2", 1_000),
    ("watt", "kg m^2 per s^3", 1),
    ("kilowatt", "kg m^2 per s^3", 1_000),
    ("pascal", "kg per m s^2", 1),
    ("kilopascal", "kg per m s^2", 1_000),
];

/// Symbols whose capital letters count.
const SYMBOLS: &[(&str, &str)] = &[
    ("N", "newton"),
    ("J", "joule"),
    ("kJ", "kilojoule"),
    ("W", "watt"),
    ("kW", "kilowatt"),
    ("Pa", "pascal"),
    ("kPa", "kilopascal"),
    ("K", "kelvin"),
];

/// What sets a unit apart from others of its dimension: a currency, or a scale of temperature, of which none is converted.
fn currency(name: &str) -> Option<&'static str> {
    Some(match name {
        "°c" | "celsius" => "°C",
        "°f" | "fahrenheit" => "°F",
        "kelvin" => "K",
        "dollar" | "usd" | "$" | "cent" | "¢" => "USD",
        "€" | "euro" | "eur" => "EUR",
        "£" | "gbp" => "GBP",
        "¥" | "yen" => "JPY",
        "₹" | "rupee" => "INR",
        _ => return None,
    })
}

/// A word is in the table, as it is or in the plural.
pub(crate) fn is_unit(word: &str) -> bool {
    // Two letters that a table of products knows may be two variables all the same.
    let is_symbol = SYMBOLS.iter().any(|(symbol, _)| *symbol == word);
    word.len() > 1 && !is_symbol && measure_of(word).is_some()
}

fn measure_of(word: &str) -> Option<Measure> {
    let word = SYMBOLS
        .iter()
        .find(|(symbol, _)| *symbol == word)
        .map_or(word, |(_, name)| name);
    let lower = word.to_lowercase();
    let is_named = |name: &str| lower == name || lower.strip_suffix('s') == Some(name);
    if let Some((_, product, times)) = PRODUCTS.iter().find(|(name, ..)| is_named(name)) {
        let mut measure = measured(product)?;
        measure.scale *= RBig::from(*times);
        return Some(measure);
    }
    let singular = lower.strip_suffix('s').filter(|singular| singular.len() > 1);
    let found = |name: &str| UNITS.iter().find(|unit| unit.0 == name);
    let &(name, axis, power, above, below) = found(&lower).or_else(|| found(singular?))?;
    let mut dimension = Dimension::default();
    dimension[axis] = power;
    Some(Measure {
        dimension,
        scale: RBig::from(above) / RBig::from(below),
        currency: currency(name),
        is_ratio: false,
    })
}

/// The measure of one letter that was read as a variable, where it might be a unit.
pub(crate) fn letter_is_unit(name: &str) -> bool {
    matches!(name, "m" | "g" | "s" | "h" | "l" | "L")
}

/// A word behind a number that says what it measures, or that multiplies it: `cm`, `hours`, `percent`, `million`.
#[must_use]
pub fn is_measure(word: &str) -> bool {
    let is_share = matches!(word, "percent" | "degrees" | "degree");
    is_share || is_unit(word) || letter_is_unit(word) || worded::is_magnitude(word)
}

/// The power of ten by which the letters that a text begins with multiply a number before them, and what is left of the text: 7 of
/// `千万元`. Letters that begin a unit (`千米`, kilometres) or a part (`万分之一`) are none.
#[must_use]
pub fn power_of_ten(text: &str) -> Option<(u32, &str)> {
    let (mut power, mut rest) = (0, text);
    while let Some(letter) = rest.chars().next() {
        let of_letter = match letter {
            '百' | '백' => 2,
            '千' | '천' => 3,
            '万' | '萬' | '만' => 4,
            '亿' | '億' | '억' => 8,
            _ => break,
        };
        let after = &rest[letter.len_utf8()..];
        let begins_unit =
            letter == '千' && after.starts_with(['米', '克', '瓦', '卡', '赫', '帕', '伏', '焦', '字', '升']);
        let is_part = after.starts_with("分之") || (letter == '百' && after.starts_with(['分', '帕']));
        if begins_unit || is_part {
            break;
        }
        (power, rest) = (power + of_letter, after);
    }
    (1..=16).contains(&power).then_some((power, rest))
}

/// Before or after noon.
pub(crate) fn is_half_of_day(word: &str) -> bool {
    matches!(
        word.to_lowercase().as_str(),
        "am" | "pm" | "a.m" | "p.m" | "a.m." | "p.m."
    )
}

impl Unit {
    pub(crate) fn percent() -> Self {
        Self {
            words: "%".to_owned(),
            measure: Some(Measure {
                dimension: Dimension::default(),
                scale: RBig::from(1) / RBig::from(100),
                currency: None,
                is_ratio: true,
            }),
        }
    }

    /// Degrees of an angle; their scale is no rational number and stands in the comparison.
    pub(crate) fn degree() -> Self {
        let mut dimension = Dimension::default();
        dimension[6] = 1;
        Self {
            words: "°".to_owned(),
            measure: Some(Measure {
                dimension,
                scale: RBig::from(1),
                currency: None,
                is_ratio: true,
            }),
        }
    }

    pub(crate) fn is_degree(&self) -> bool {
        self.words == "°"
    }

    /// Reads the words after a value: `cm^2`, `square feet`, `miles per hour`, `apples`.
    pub(crate) fn of_words(words: &str) -> Self {
        let lower = words.to_lowercase();
        if matches!(lower.as_str(), "%" | "percent" | "per cent" | "pct") || lower.starts_with("percent of ") {
            return Self::percent();
        }
        if is_half_of_day(&lower) {
            return Self {
                words: lower.replace('.', ""),
                measure: None,
            };
        }
        if matches!(lower.as_str(), "degree" | "degrees" | "deg") {
            return Self::degree();
        }
        let scale = lower.strip_prefix("degrees ").or_else(|| lower.strip_prefix("degree "));
        let scale = scale.and_then(Self::of_temperature);
        scale.unwrap_or_else(|| Self {
            measure: measured(words),
            words: words.to_owned(),
        })
    }

    /// With what other words say behind it, where those make more than one value of a number: `%` and then `or more`.
    pub(crate) fn said_with(self, outer: &Self) -> Self {
        match worded::limit(&outer.words) {
            Some(limit) => Self {
                words: format!("{} {limit}", self.words),
                measure: self.measure,
            },
            None => self,
        }
    }

    /// Degrees of a scale of temperature, by its name or its letter.
    pub(crate) fn of_temperature(scale: &str) -> Option<Self> {
        let words = match scale.to_lowercase().as_str() {
            "c" | "celsius" | "centigrade" => "°c",
            "f" | "fahrenheit" => "°f",
            _ => return None,
        };
        Some(Self {
            measure: measured(words),
            words: words.to_owned(),
        })
    }

    /// What the values are to be multiplied with so that they can be compared; `None` where the units do not agree.
    ///
    /// Units of one dimension are converted. Of words that are not in the table one may say more than the other.
    pub(crate) fn conversion(&self, other: &Self) -> Option<(RBig, RBig)> {
        let same = (RBig::ONE, RBig::ONE);
        if worded::limit(&self.words) != worded::limit(&other.words) {
            return None;
        }
        match (&self.measure, &other.measure) {
            (Some(one), Some(another)) => {
                let is_temperature =
                    |measure: &Measure| measure.dimension[TEMPERATURE] == 1 && measure.currency.is_some();
                if (self.is_degree() && is_temperature(another)) || (other.is_degree() && is_temperature(one)) {
                    return Some(same);
                }
                let agree = one.dimension == another.dimension
                    && one.currency == another.currency
                    && one.is_ratio == another.is_ratio;
                agree.then(|| (one.scale.clone(), another.scale.clone()))
            }
            _ => are_alike(&self.words, &other.words).then_some(same),
        }
    }
}

/// The words of two units say the same, or one says more that is no unit: `ways` and `different ways`, `cm` and `cm long`.
fn are_alike(one: &str, other: &str) -> bool {
    let (one, other) = (names(one), names(other));
    let (short, long) = if one.len() <= other.len() {
        (&one, &other)
    } else {
        (&other, &one)
    };
    let is_measure = |word: &String| {
        const RELATING: [&str; 8] = ["per", "square", "sq", "cubic", "cu", "squared", "cubed", "light"];
        RELATING.contains(&word.as_str())
            || measure_of(word).is_some()
            || word.starts_with(|first: char| first.is_ascii_digit())
    };
    if short.iter().any(is_measure) {
        return long.starts_with(short) && !long[short.len()..].iter().any(is_measure);
    }
    let is_more = |word: &&String| !short.contains(word);
    short.iter().all(|word| long.contains(word)) && !long.iter().filter(is_more).any(is_measure)
}

/// The words, in the singular; short ones are symbols, and keep their capitals.
fn names(words: &str) -> Vec<String> {
    let words = words.replace('/', " per ");
    let words = words.split(|letter: char| !letter.is_alphanumeric() && !"°%$€£¥₹¢-".contains(letter));
    let named = |word: &str| {
        if word.chars().count() <= 3 {
            return word.to_owned();
        }
        let lower = word.to_lowercase();
        lower.strip_suffix('s').unwrap_or(&lower).to_owned()
    };
    words.filter(|word| !word.is_empty()).map(named).collect()
}

/// The product of the units named, `None` when one is not in the table.
fn measured(words: &str) -> Option<Measure> {
    let spaced = words
        .replace('/', " per ")
        .replace('^', " ^ ")
        .replace(['.', '{', '}', '*'], " ");
    let mut factors: Vec<(Measure, i32)> = Vec::new();
    let mut sign = 1;
    let mut power = 1;
    let mut tokens = spaced.split_whitespace().peekable();
    while let Some(token) = tokens.next() {
        match token.to_lowercase().as_str() {
            "per" => sign = -1,
            "square" | "sq" => power = 2,
            "cubic" | "cu" => power = 3,
            "squared" => factors.last_mut()?.1 *= 2,
            "cubed" => factors.last_mut()?.1 *= 3,
            _ => {
                let one = measure_of(token)?;
                if tokens.peek() == Some(&"^") {
                    tokens.next();
                    power = tokens
                        .next()?
                        .parse()
                        .ok()
                        .filter(|power: &i32| (-3..=3).contains(power) && *power != 0)?;
                }
                factors.push((one, sign * power));
                power = 1;
            }
        }
    }
    let total = |total, (one, power): &(Measure, i32)| Some(times(total, one, *power));
    factors.iter().fold(None, total)
}

fn times(total: Option<Measure>, one: &Measure, power: i32) -> Measure {
    let mut product = total.unwrap_or(Measure {
        dimension: Dimension::default(),
        scale: RBig::from(1),
        currency: None,
        is_ratio: false,
    });
    for (sum, axis) in product.dimension.iter_mut().zip(one.dimension) {
        *sum += axis * power;
    }
    product.currency = product.currency.or(one.currency);
    for _ in 0..power.unsigned_abs() {
        if power > 0 {
            product.scale *= one.scale.clone();
        } else {
            product.scale /= one.scale.clone();
        }
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_magnitude_multiply_unless_they_begin_a_unit() {
        for (text, expected) in [
            ("万", Some((4, ""))),
            ("万元", Some((4, "元"))),
            ("千万", Some((7, ""))),
            ("万亿美元", Some((12, "美元"))),
            ("億円", Some((8, "円"))),
            ("만 명", Some((4, " 명"))),
            ("千米", None),
            ("千克", None),
            ("万千米", Some((4, "千米"))),
            ("百分点", None),
            ("万分之一", None),
            ("元", None),
            ("", None),
        ] {
            assert_eq!(power_of_ten(text), expected, "{text}");
        }
    }

    #[test]
    fn units_are_products_of_those_in_the_table() {
        let scale = |words: &str| Unit::of_words(words).measure.map(|measure| measure.scale.to_string());
        assert_eq!(scale("km").as_deref(), Some("1000"));
        assert_eq!(scale("square centimeters").as_deref(), Some("1/10000"));
        assert_eq!(scale("cm^2").as_deref(), Some("1/10000"));
        assert_eq!(scale("miles per hour"), scale("mi/h"));
        assert_eq!(scale("apples"), None);
        assert_eq!(scale("percent").as_deref(), Some("1/100"));
        assert_eq!(scale("km/h"), scale("kilometers per hour"));
        assert_eq!(scale("meters per second squared"), scale("m/s^2"));
        assert_eq!(scale("N m"), scale("joules"));
    }
}
