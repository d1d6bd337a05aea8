//! What can be told of a numeric target before any answer comes: that the grader will find no number in it, or one of several.
//!
//! Where the grader reads more than is understood here, nothing is said.

use std::sync::LazyLock;

use regex::Regex;

/// A number with all that belongs to it: thousands in any separator, a fraction, an exponent.
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&number()).ok());

/// Several numbers and nothing else, each perhaps with its name: `3, 4`, `(3, 4)`, `x = 5 or 6`, `3:4`.
static SEVERAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let one = format!(r"(?:[a-zA-Z]+\s*=\s*)?[-−]?\s*(?:{})", number());
    let word = r"(?:or|and|to)\b|\\text\{\s*(?:or|and|to)\s*\}";
    let joint = format!(r"\s*(?:[,;:]\s*(?:{word})?|{word})\s*");
    Regex::new(&format!(
        r"^\s*(?:\\?[(\[{{])?\s*{one}(?:{joint}{one})+\s*(?:\\?[)\]}}])?[\s.]*$"
    ))
    .ok()
});

/// A relation between a variable and a number, which is no number. Marks of HTML and of calculators are none.
static RELATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let mark = r"(?:^|[^<>=-])[<>](?:[^<>a-zA-Z/]|$)";
    Regex::new(&format!(r"\\(?:leq?|geq?|neq?|lt|gt)(?:[^a-z]|$)|[≤≥≠]|!=|{mark}")).ok()
});

/// A power of ten, which is read as a number.
static POWER_OF_TEN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\$?\s*10\s*(?:\^|\*\*)\s*(?:\{\s*[-−+]?\d+\s*\}|[-−+]?\d+)\s*\$?\.?$").ok());

/// Digits to another base, as programs write them.
static OTHER_BASE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^[-+]?0(?:[xX][0-9a-fA-F]+|[bB][01]+|[oO][0-7]+)$").ok());

static TAG: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("</?[a-zA-Z][^<>]*>").ok());

fn is_relation(line: &str) -> bool {
    let plain = TAG.as_ref().map_or(line.into(), |tag| tag.replace_all(line, ""));
    RELATION.as_ref().is_some_and(|relation| relation.is_match(&plain))
}

fn number() -> String {
    let apart = r"(?:\{,\}|,\\!|\\,|\\!|\\ |[,'’_ \u{a0}\u{2009}\u{202f}])";
    let lakhs = r"\d{1,2}(?:,\d{2})*,0\d(?:,\d{2})*,\d{3}|\d{1,2}(?:,\d{2})+,0\d{2}";
    let plain = format!(r"(?:(?:{lakhs})(?:\.\d+)?|\d{{1,3}}(?:{apart}\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)");
    let exponent = r"(?:[eE][-+]?\d+|\s*(?:\\times|\\cdot|×|·|\*)\s*10\s*\^\s*\{?\s*[-−+]?\d+\s*\}?)?";
    let fraction = format!(r"\\[dt]?frac\s*(?:\{{\s*{plain}\s*\}}|\d)\s*(?:\{{\s*{plain}\s*\}}|\d)");
    let ratio = format!(r"{plain}\s*[/⁄]\s*{plain}");
    format!("(?:{plain}\\s*)?{fraction}|{plain}\\s+{ratio}|{ratio}|{plain}{exponent}")
}

/// What stands before the number of which the value is another.
const FUNCTIONS: [&str; 12] = [
    "\\sqrt{", "\\sqrt", "√", "\\log", "\\ln", "\\sin", "\\cos", "\\exp", "±", "∓", "\\pm", "\\mp",
];

/// What makes of the number before it another.
const AFTER: [&str; 4] = ["^", "!", "\\pi", "π"];

/// What says that the number of a whole solution follows.
const ANNOUNCED: [&str; 3] = ["####", "=", "answer is"];

/// What is doubtful about the number of a target; what is read is its last one.
///
/// # Errors
/// Says why no number is found.
pub(super) fn doubt(target: &str) -> Result<Option<String>, String> {
    if !target.chars().any(char::is_numeric) {
        return Err(format!("{target:?} holds no number"));
    }
    let (line, place) = place(target);
    let is = |pattern: &Option<Regex>| pattern.as_ref().is_some_and(|pattern| pattern.is_match(line));
    // Digits in groups are one number, whatever else they could be.
    let bare = line.trim();
    let is_one = NUMBER.as_ref().and_then(|number| number.find(bare));
    let is_one = is_one.is_some_and(|found| found.as_str() == bare);
    if !is_one && is(&SEVERAL) {
        return Err(format!(
            "{target:?} is several numbers, of which `numeric` takes none; write one, or compare by `math`"
        ));
    }
    let is_bare = |pattern: &Option<Regex>| pattern.as_ref().is_some_and(|pattern| pattern.is_match(bare));
    if is_bare(&OTHER_BASE) {
        return Err(format!(
            "{target:?} is not in decimal digits, which `numeric` reads alone"
        ));
    }
    if is_bare(&POWER_OF_TEN) {
        return Ok(None);
    }
    let Some(number) = NUMBER.as_ref() else { return Ok(None) };
    let numbers: Vec<_> = number
        .find_iter(place)
        .filter(|found| !is_part_of_a_name(place.get(..found.start()).unwrap_or_default()))
        .collect();
    let Some(last) = numbers.last() else { return Ok(None) };
    let earlier = numbers.len().checked_sub(2).and_then(|index| numbers.get(index));
    let is_operand = earlier.is_some_and(|earlier| {
        let between = place.get(earlier.end()..last.start()).unwrap_or_default();
        computes(between, last.as_str())
    });
    let is_factor = is_multiplied(place.get(last.end()..).unwrap_or_default());
    let (before, after) = (place.get(..last.start()), place.get(last.end()..));
    let (before, after) = (
        before.unwrap_or_default().trim_end(),
        after.unwrap_or_default().trim_start(),
    );
    let is_absolute = before.trim_end_matches(['-', '−']).ends_with('|') && after.starts_with('|');
    let is_applied =
        FUNCTIONS.iter().any(|name| before.ends_with(name)) || AFTER.iter().any(|name| after.starts_with(name));
    if is_applied || is_operand || is_factor || is_absolute || is_relation(line) {
        return Err(format!(
            "{target:?} ends in a formula, whose value `numeric` does not compute; write its value, or compare by `math`"
        ));
    }
    if divides_by_zero(last.as_str()) {
        return Err(format!("{target:?} is divided by zero, which is no number"));
    }
    Ok((numbers.len() > 1).then(|| {
        let last = last.as_str().trim();
        format!("{target:?} holds {} numbers; the last, {last}, is taken", numbers.len())
    }))
}

/// What stands between the last two numbers computes with them, or makes a date of them.
fn computes(between: &str, last: &str) -> bool {
    const OPERATORS: [&str; 10] = ["+", "*", "×", "·", "÷", "x", r"\cdot", r"\times", r"\div", r"\ast"];
    let operator = between.trim();
    if between.is_empty() {
        return last.starts_with('.');
    }
    if OPERATORS.contains(&operator) {
        return true;
    }
    // A minus right before its number alone is a sign, and the year of a date is a number.
    let is_even = between.starts_with(char::is_whitespace) == between.ends_with(char::is_whitespace);
    match operator {
        "-" | "−" => is_even,
        "/" => is_even && last.len() != 4,
        _ => false,
    }
}

/// A variable stands right behind a number: `3x`. Other letters are units.
fn is_multiplied(after: &str) -> bool {
    let end = after
        .find(|letter: char| !letter.is_alphabetic())
        .unwrap_or(after.len());
    let (letters, rest) = after.split_at(end);
    let are_variables =
        (1..=3).contains(&letters.len()) && letters.chars().all(|letter| "abijnqrwxyz".contains(letter));
    let goes_on = rest.starts_with(|next: char| next.is_ascii_digit() || matches!(next, '^' | '_'));
    (are_variables && !goes_on) || (letters == "e" && !rest.starts_with(|next: char| next.is_ascii_digit()))
}

/// Where the number is looked for: the last box, else what follows the last announcement in the last line that has a digit; and
/// all of that line before it.
fn place(target: &str) -> (&str, &str) {
    if let Some((_, boxed)) = target.rsplit_once("\\boxed{") {
        let end = end_of_braces(boxed);
        let content = boxed.get(..end).unwrap_or(boxed);
        return (content, content);
    }
    let has_number = |text: &&str| text.chars().any(char::is_numeric);
    let line = target.lines().rev().find(has_number).unwrap_or(target);
    let announced = ANNOUNCED.iter().filter_map(|mark| Some(line.rfind(mark)? + mark.len()));
    let rests = announced.filter_map(|start| line.get(start..)).filter(has_number);
    (line, rests.min_by_key(|rest| rest.len()).unwrap_or(line))
}

/// Where the brace closes that was opened before the text; its end where none does.
fn end_of_braces(text: &str) -> usize {
    let mut depth = 1_usize;
    for (at, letter) in text.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The exponent of a unit, an index, digits in a name.
fn is_part_of_a_name(before: &str) -> bool {
    let before = before.trim_end_matches(['{', '-', '−']);
    before.ends_with(|letter: char| letter.is_alphabetic() || matches!(letter, '^' | '_')) && !ends_in_a_command(before)
}

/// A command of TeX ends where a digit begins: `\sqrt2`, `\times3`.
fn ends_in_a_command(before: &str) -> bool {
    let name = before.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    name.len() < before.len() && name.ends_with('\\')
}

fn divides_by_zero(number: &str) -> bool {
    let below = match number.rsplit_once(['/', '⁄']) {
        Some((_, below)) => below,
        None if number.contains("frac") => number
            .trim_end_matches('}')
            .rsplit(['{', '}'])
            .next()
            .unwrap_or_default(),
        None => return false,
    };
    let digits: Vec<char> = below.chars().filter(char::is_ascii_digit).collect();
    !digits.is_empty() && digits.iter().all(|digit| *digit == '0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_number_in_any_writing_is_in_no_doubt() {
        for target in [
            "42",
            "-5",
            "$1,234.50",
            "9{,}500",
            "12 345",
            "1.5e3",
            r"1.5 \times 10^3",
            "3/4",
            r"\frac{3}{4}",
            r"\frac12",
            "2 1/2",
            r"2\frac{1}{2}",
            "18 cm^2",
            "50%",
            "½",
            "٤٢",
            "x = 5",
            "H2 = 5",
            "3 + 4 = 7 apples, so\n#### 7",
            r"First 3, then 4, so \boxed{7}",
            "16 - 3 - 4 = <<16-3-4=9>>9\nShe makes 9 * 2 = $18\n#### 18",
            "0/5",
            "5m/s",
            "60 km/h",
            "1,00,000",
            "<b>5</b>",
            "3 + 4 = 7",
            r"x = \pm 3, so \boxed{3}",
            "10^5",
            "$10^{5}$",
            "10^{-3}",
            "500万",
        ] {
            assert_eq!(doubt(target), Ok(None), "{target}");
        }
    }

    #[test]
    fn of_several_numbers_the_last_is_taken_and_the_doubt_is_told() {
        for (target, last) in [("3 4", "4"), ("#### 3, 4", "4"), ("5 of 7", "7")] {
            let said = doubt(target).unwrap().unwrap();
            assert!(said.contains(&format!("the last, {last}, is taken")), "{said}");
        }
    }

    #[test]
    fn a_target_whose_value_is_not_read_is_refused() {
        for target in [
            r"\sqrt{2}",
            r"2\sqrt3",
            "√2",
            "2^10",
            r"2\pi",
            "5!",
            r"\log 5",
            "none",
            r"\boxed{2^{10}}",
            "3,4",
            "3, 4",
            "1,00",
            "x=5 or 6",
            "x=3, y=4",
            "(3, 4)",
            "5 to 7",
            "3:4",
            r"\boxed{3, 4}",
            "5 - 3",
            "5-3",
            "5 + 3",
            r"5 \times 3",
            "2024-05-06",
            "3.14.15",
            "3x",
            "3e",
            "|-3|",
            "x > 3",
            r"\ge 3",
            "≠ 3",
            "0x10",
            "0b101",
            "±5",
            "5±1",
            r"5 \pm 1",
            r"\pm\frac12",
            "12^5",
        ] {
            assert!(doubt(target).is_err(), "{target}");
        }
        for target in ["1/0", r"\frac{1}{0}", "3 / 00"] {
            assert!(doubt(target).unwrap_err().contains("divided by zero"), "{target}");
        }
    }
}
