//! Reads a table of the suite file field by field, so that one wrong field hides no other.

use std::any::TypeId;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, ValueDeserializer};

use crate::error::{Place, Problems};

/// A value and the line of the suite file it stands on.
#[derive(Debug, Clone)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) line: usize,
}

impl<T> Located<T> {
    pub(crate) fn map<U>(self, change: impl FnOnce(T) -> U) -> Located<U> {
        Located {
            value: change(self.value),
            line: self.line,
        }
    }
}

/// The line, from 1, of a byte in a text.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    let before = &text.as_bytes()[..offset.min(text.len())];
    1 + before.iter().filter(|byte| **byte == b'\n').count()
}

/// A table that is being read. Fields nobody asked for are errors in the end.
pub(crate) struct Fields<'a, 'i> {
    text: &'a str,
    table: &'a DeTable<'i>,
    defaults: Option<&'a DeTable<'i>>,
    place: Place,
    prefix: &'static str,
    problems: &'a mut Problems,
    asked: Vec<&'static str>,
    is_for_stored_items: bool,
}

impl<'a, 'i> Fields<'a, 'i> {
    /// `place` holds the line of the table itself, `prefix` what stands before the names of its fields in messages.
    pub(crate) fn new(
        text: &'a str,
        table: &'a DeTable<'i>,
        place: Place,
        prefix: &'static str,
        problems: &'a mut Problems,
    ) -> Self {
        Self {
            text,
            table,
            defaults: None,
            place,
            prefix,
            problems,
            asked: Vec::new(),
            is_for_stored_items: false,
        }
    }

    /// Takes what the table itself does not give from another one.
    pub(crate) fn or_from(mut self, defaults: Option<&'a DeTable<'i>>) -> Self {
        self.defaults = defaults;
        self
    }

    /// What is read is for items that are stored: of their rows nothing is rendered anew.
    pub(crate) fn for_stored_items(mut self) -> Self {
        self.is_for_stored_items = true;
        self
    }

    /// Whether it is for items that are stored.
    pub(crate) const fn is_for_stored_items(&self) -> bool {
        self.is_for_stored_items
    }

    /// Whether the table itself gives a field.
    pub(crate) fn gives(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// The value as it stands, without a report when it is absent.
    pub(crate) fn raw(&mut self, name: &'static str) -> Option<&'a Spanned<DeValue<'i>>> {
        self.asked.push(name);
        self.value_of(name)
    }

    fn value_of(&self, name: &str) -> Option<&'a Spanned<DeValue<'i>>> {
        let from_defaults = || self.defaults.and_then(|defaults| defaults.get(name));
        self.table.get(name).or_else(from_defaults)
    }

    /// A field that may be absent. What the rule says against its value is an error.
    pub(crate) fn optional<T: DeserializeOwned + 'static>(
        &mut self,
        name: &'static str,
        rule: impl FnOnce(&T) -> Result<(), String>,
    ) -> Option<Located<T>> {
        let value = self.raw(name)?;
        let line = self.line(value);
        let decoded = T::deserialize(ValueDeserializer::from(value.clone()))
            .map_err(|error| out_of_range::<T>(value.get_ref()).unwrap_or_else(|| error.message().to_owned()))
            .and_then(|value| rule(&value).map(|()| value));
        match decoded {
            Ok(value) => Some(Located { value, line }),
            Err(message) => {
                self.error(name, line, message);
                None
            }
        }
    }

    /// A field that must be there.
    pub(crate) fn required<T: DeserializeOwned + 'static>(
        &mut self,
        name: &'static str,
        rule: impl FnOnce(&T) -> Result<(), String>,
    ) -> Option<Located<T>> {
        if !self.table.contains_key(name) {
            self.missing(name);
        }
        self.optional(name, rule)
    }

    /// A field with a default, which also stands in for a wrong value so that reading can go on.
    pub(crate) fn or_default<T: DeserializeOwned + 'static>(
        &mut self,
        name: &'static str,
        default: T,
        rule: impl FnOnce(&T) -> Result<(), String>,
    ) -> T {
        self.optional(name, rule).map_or(default, |located| located.value)
    }

    /// Reports that a field is not there.
    pub(crate) fn missing(&mut self, name: &str) {
        let place = self.place.field(format!("{}{name}", self.prefix));
        self.problems.error(place, "is missing");
    }

    /// Reports what is wrong with a field.
    pub(crate) fn error(&mut self, name: &str, line: usize, message: impl Into<String>) {
        let place = self.place_of(name, line);
        self.problems.error(place, message);
    }

    /// Reports what is odd about a field.
    pub(crate) fn warn(&mut self, name: &str, line: usize, message: impl Into<String>) {
        let place = self.place_of(name, line);
        self.problems.warn(place, message);
    }

    /// The line a value begins on.
    pub(crate) fn line(&self, value: &Spanned<DeValue<'i>>) -> usize {
        line_of(self.text, value.span().start)
    }

    /// The line of a field's value, else that of the table.
    pub(crate) fn line_of_field(&self, name: &str) -> usize {
        let line = self.value_of(name).map(|value| self.line(value));
        line.or(self.place.line).unwrap_or(1)
    }

    /// Where messages about the table itself point.
    pub(crate) fn place(&self) -> &Place {
        &self.place
    }

    /// Where further tables report.
    pub(crate) fn problems(&mut self) -> &mut Problems {
        self.problems
    }

    /// Reports every field that nobody asked for, with the nearest one that exists.
    ///
    /// `elsewhere` says for a field that exists, but not here, why it is refused.
    pub(crate) fn finish(self, elsewhere: impl Fn(&str) -> Option<String>) {
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if self.asked.contains(&name) {
                continue;
            }
            let message = elsewhere(name).unwrap_or_else(|| unknown(name, &self.asked));
            let line = line_of(self.text, key.span().start);
            let place = self.place_of(name, line);
            self.problems.error(place, message);
        }
    }

    fn place_of(&self, name: &str, line: usize) -> Place {
        let is_shared = !self.gives(name) && self.defaults.is_some_and(|defaults| defaults.contains_key(name));
        let prefix = if is_shared { "defaults." } else { self.prefix };
        self.place.line(line).field(format!("{prefix}{name}"))
    }
}

/// No rule beyond the type.
#[expect(clippy::unnecessary_wraps, reason = "it stands where rules stand")]
pub(crate) fn any<T>(_: &T) -> Result<(), String> {
    Ok(())
}

/// What is wrong with a whole number that its field cannot hold; `None` where something else is.
fn out_of_range<T: 'static>(value: &DeValue<'_>) -> Option<String> {
    let DeValue::Integer(written) = value else {
        return None;
    };
    let (least, most) = range_of(TypeId::of::<T>())?;
    let digits = written.as_str().replace('_', "");
    let is_within = i128::from_str_radix(&digits, written.radix()).is_ok_and(|value| (least..=most).contains(&value));
    (!is_within).then(|| format!("is {written}, which is not a whole number from {least} to {most}"))
}

/// The whole numbers that a field of this type can hold: TOML's go no further than those of 64 bits with a sign.
fn range_of(kind: TypeId) -> Option<(i128, i128)> {
    let largest = i128::from(i64::MAX);
    [
        (TypeId::of::<u8>(), 0, i128::from(u8::MAX)),
        (TypeId::of::<u16>(), 0, i128::from(u16::MAX)),
        (TypeId::of::<u32>(), 0, i128::from(u32::MAX)),
        (TypeId::of::<u64>(), 0, largest),
        (TypeId::of::<usize>(), 0, largest),
        (TypeId::of::<i64>(), i128::from(i64::MIN), largest),
    ]
    .into_iter()
    .find_map(|(known, least, most)| (known == kind).then_some((least, most)))
}

fn unknown(name: &str, known: &[&str]) -> String {
    nearest(name, known).map_or_else(
        || "is unknown".to_owned(),
        |nearest| format!("is unknown; did you mean {nearest}?"),
    )
}

/// The known name most like a given one.
pub(crate) fn nearest<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let likeness = |candidate: &str| strsim::jaro_winkler(&name.to_lowercase(), candidate);
    known
        .iter()
        .copied()
        .max_by(|left, right| likeness(left).total_cmp(&likeness(right)))
}
