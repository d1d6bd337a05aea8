//! What is wrong with a setting, and where it stands in a file.

use std::fmt;

use toml::de::{DeTable, DeValue};

/// What is wrong with a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    table: Table,
    /// The setting, and others that it does not go together with.
    keys: Vec<String>,
    /// Follows the setting's name.
    rule: String,
}

/// Where a setting belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Table {
    Root,
    Named(&'static str),
    /// One `[[fault]]`, from 0 on.
    Fault(usize),
}

impl Complaint {
    pub(crate) fn new(keys: &[&str], rule: impl Into<String>) -> Self {
        Self {
            table: Table::Root,
            keys: keys.iter().copied().map(str::to_owned).collect(),
            rule: rule.into(),
        }
    }

    /// Against a number outside its range; what is no number is outside of each.
    pub(crate) fn of_range(key: &str, value: f64, least: f64, most: f64) -> Option<Self> {
        let rule = || format!("is {value}, which is not from {least} to {most}");
        (!(least..=most).contains(&value)).then(|| Self::new(&[key], rule()))
    }

    /// The same of a setting in a table.
    pub(crate) fn within(self, table: Table) -> Self {
        Self { table, ..self }
    }

    /// The line, from 1, on which the setting stands, else the first of those it does not go together with, else its table.
    pub(crate) fn line(&self, text: &str) -> Option<usize> {
        let root = DeTable::parse(text).ok()?;
        let root = root.get_ref();
        let (table, span) = match self.table {
            Table::Root => (root, 0..0),
            Table::Named(name) => {
                let table = root.get(name)?;
                (table.get_ref().as_table()?, table.span())
            }
            Table::Fault(index) => {
                let DeValue::Array(faults) = root.get("fault")?.get_ref() else {
                    return None;
                };
                let table = faults.get(index)?;
                (table.get_ref().as_table()?, table.span())
            }
        };
        let value = self.keys.iter().find_map(|key| table.get(key.as_str()));
        let start = value.map_or(span.start, |value| value.span().start);
        let before = text.as_bytes().get(..start)?;
        Some(1 + before.iter().filter(|byte| **byte == b'\n').count())
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = self.keys.first().map_or("", String::as_str);
        match self.table {
            Table::Root => write!(formatter, "{key} {}", self.rule),
            Table::Named(table) => write!(formatter, "{table}.{key} {}", self.rule),
            Table::Fault(index) => write!(formatter, "fault {}: {key} {}", index + 1, self.rule),
        }
    }
}
