//! What can be told of a numeric target before any answer comes: that the grader will find no number in it, or one of several.
//!
//! Where the grader reads more than is understood here, nothing is said.

use std::sync::LazyLock;

use regex::Regex;

/// A number with all that belongs to it: thousands in any separator, a fraction, an exponent.
static NUMBER: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let apart = r"(?:\{,\}|,\\!|\\,|\\!|\\ |[,'’_ \u{a0}\u{2009}\u{202f}])";
    let plain = format!(r"(?:\d{{1,3}}(?:{apart}\d{{3}})+(?:\.\d+)?|\d+(?:\.\d+)?|\.\d+)");
    let exponent = r"(?:[eE][-+]?\d+|\s*(?:\\times|\\cdot|×|·|\*)\s*10\s*\^\s*\{?\s*[-−+]?\d+\s*\}?)?";
    let fraction = format!(r"\\[dt]?frac\s*(?:\{{\s*{plain}\s*\}}|\d)\s*(?:\{{\s*{plain}\s*\}}|\d)");
    let ratio = format!(r"{plain}\s*[/⁄]\s*{plain}");
    Regex::new(&format!(
        "(?:{plain}\\s*)?{fraction}|{plain}\\s+{ratio}|{ratio}|{plain}{exponent}"
    ))
    .ok()
});

/// What stands before the number of which the value is another.
const FUNCTIONS: [&str; 8] = ["\\sqrt{", "\\sqrt", "√", "\\log", "\\ln", "\\sin", "\\cos", "\\exp"];

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
    let place = place(target);
    let Some(number) = NUMBER.as_ref() else { return Ok(None) };
    let numbers: Vec<_> = number
        .find_iter(place)
        .filter(|found| !is_part_of_a_name(place.get(..found.start()).unwrap_or_default()))
        .collect();
    let Some(last) = numbers.last() else { return Ok(None) };
    let (before, after) = (place.get(..last.start()), place.get(last.end()..));
    let (before, after) = (
        before.unwrap_or_default().trim_end(),
        after.unwrap_or_default().trim_start(),
    );
    if FUNCTIONS.iter().any(|name| before.ends_with(name)) || AFTER.iter().any(|name| after.starts_with(name)) {
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

/// Where the number is looked for: the last box, else what follows the last announcement in the last line that has a digit.
fn place(target: &str) -> &str {
    if let Some((_, boxed)) = target.rsplit_once("\\boxed{") {
        let end = end_of_braces(boxed);
        return boxed.get(..end).unwrap_or(boxed);
    }
    let has_number = |text: &&str| text.chars().any(char::is_numeric);
    let line = target.lines().rev().find(has_number).unwrap_or(target);
    let announced = ANNOUNCED.iter().filter_map(|mark| Some(line.rfind(mark)? + mark.len()));
    let rests = announced.filter_map(|start| line.get(start..)).filter(has_number);
    rests.min_by_key(|rest| rest.len()).unwrap_or(line)
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
        ] {
            assert_eq!(doubt(target), Ok(None), "{target}");
        }
    }

    #[test]
    fn of_several_numbers_the_last_is_taken_and_the_doubt_is_told() {
        for (target, last) in [
            ("3,4", "4"),
            ("x=5 or 6", "6"),
            ("(3, 4)", "4"),
            ("5 to 7", "7"),
            ("3 4", "4"),
        ] {
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
        ] {
            assert!(doubt(target).is_err(), "{target}");
        }
        for target in ["1/0", r"\frac{1}{0}", "3 / 00"] {
            assert!(doubt(target).unwrap_err().contains("divided by zero"), "{target}");
        }
    }
}
