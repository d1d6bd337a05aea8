//! Whole numbers of a JSON text, which a reader of 64 bits would turn into others without a word.

use std::borrow::Cow;

/// Letters of a number that are shown.
const SHOWN: usize = 40;

/// The text with every whole number as it will be read: `-0` is 0, and not the float of that sign.
///
/// # Errors
/// Says which whole number does not fit into 64 bits: read as a float it would lose its last digits.
pub(crate) fn exact(text: &str) -> Result<Cow<'_, str>, String> {
    let mut changed = String::new();
    let mut taken = 0;
    for (start, number) in Numbers::of(text) {
        let Some(digits) = whole(number) else { continue };
        if number.starts_with('-') && digits.bytes().all(|digit| digit == b'0') {
            changed.push_str(text.get(taken..start).unwrap_or_default());
            changed.push_str(digits);
            taken = start + number.len();
        } else if number.parse::<u64>().is_err() && number.parse::<i64>().is_err() {
            let shown: String = number.chars().take(SHOWN).collect();
            let more = if shown.len() < number.len() { "..." } else { "" };
            return Err(format!(
                "holds the whole number {shown}{more}, which has more digits than are read exactly (64 bits); write it as a text, \
                 in quotes"
            ));
        }
    }
    if taken == 0 {
        return Ok(Cow::Borrowed(text));
    }
    changed.push_str(text.get(taken..).unwrap_or_default());
    Ok(Cow::Owned(changed))
}

/// The digits of a whole number; none of one with a fraction or an exponent.
fn whole(number: &str) -> Option<&str> {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_whole.then_some(digits)
}

/// What looks like a number outside quotes, and where it begins.
struct Numbers<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Numbers<'t> {
    const fn of(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Goes behind the quote that ends a text.
    fn pass_text(&mut self) {
        while let Some(byte) = self.byte() {
            self.at += if byte == b'\\' { 2 } else { 1 };
            if byte == b'"' {
                return;
            }
        }
    }
}

impl<'t> Iterator for Numbers<'t> {
    type Item = (usize, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        while let Some(byte) = self.byte() {
            let start = self.at;
            self.at += 1;
            match byte {
                b'"' => self.pass_text(),
                b'-' | b'0'..=b'9' => {
                    let goes_on = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-');
                    while self.byte().is_some_and(goes_on) {
                        self.at += 1;
                    }
                    return self.text.get(start..self.at).map(|number| (start, number));
                }
                _ => {}
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_that_fit_stay_and_no_other_is_read() {
        for text in [
            r#"{"a": 18446744073709551615, "b": [-9223372036854775808, 0, 1e30, -0.0, 123456789012345678901234567890.5]}"#,
            r#"{"a": "123456789012345678901234567890", "b\"": "\\", "c": "-0"}"#,
            "",
        ] {
            assert_eq!(exact(text), Ok(Cow::Borrowed(text)));
        }
        assert_eq!(
            exact(r#"{"a": -0, "b": [-0, -0.0, -01, "-0"]}"#).unwrap(),
            r#"{"a": 0, "b": [0, -0.0, -01, "-0"]}"#
        );
        for (text, number) in [
            (r#"{"a": 18446744073709551616}"#, "18446744073709551616"),
            (r#"{"a": {"b\\": [1, -9223372036854775809]}}"#, "-9223372036854775809"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
        ] {
            let said = exact(text).unwrap_err();
            assert!(said.contains(number) && said.contains("in quotes"), "{said}");
        }
    }
}
