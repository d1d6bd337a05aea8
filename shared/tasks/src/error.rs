//! What is wrong with a suite, and where.

use std::fmt;
use std::path::{Path, PathBuf};

use tidemill_domain::Class;

/// Where something in a suite is wrong or odd, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The suite file.
    pub file: PathBuf,
    /// The line in the suite file, from 1.
    pub line: Option<usize>,
    /// The benchmark: its name, or its number from 1 where the name is missing.
    pub benchmark: Option<BenchmarkLabel>,
    /// The field of the suite file.
    pub field: Option<String>,
    /// The data file, as the suite file writes it.
    pub data: Option<String>,
    /// The row of the data file: its line from 1, or the row's number from 1 in a file without lines.
    pub row: Option<u64>,
}

/// What a benchmark is called in a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BenchmarkLabel {
    /// Its name.
    Name(String),
    /// Its number in the file, from 1.
    Number(usize),
}

impl Place {
    pub(crate) fn of(file: &Path) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            benchmark: None,
            field: None,
            data: None,
            row: None,
        }
    }

    pub(crate) fn line(&self, line: usize) -> Self {
        Self {
            line: Some(line),
            ..self.clone()
        }
    }

    pub(crate) fn benchmark(&self, label: BenchmarkLabel) -> Self {
        Self {
            benchmark: Some(label),
            ..self.clone()
        }
    }

    pub(crate) fn field(&self, field: impl Into<String>) -> Self {
        Self {
            field: Some(field.into()),
            ..self.clone()
        }
    }

    pub(crate) fn data(&self, data: &str, row: Option<u64>) -> Self {
        Self {
            data: Some(data.to_owned()),
            row,
            ..self.clone()
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        if let Some(benchmark) = &self.benchmark {
            write!(formatter, ": benchmark {benchmark}")?;
        }
        if let Some(field) = &self.field {
            write!(formatter, ": field {field}")?;
        }
        if let Some(data) = &self.data {
            write!(formatter, ": {data}")?;
        }
        if let Some(row) = self.row {
            write!(formatter, " row {row}")?;
        }
        Ok(())
    }
}

impl fmt::Display for BenchmarkLabel {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(formatter, "{name:?}"),
            Self::Number(number) => write!(formatter, "{number}"),
        }
    }
}

/// One thing that is wrong with a suite.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct SuiteError {
    /// Where.
    pub place: Place,
    /// What, in words for the suite's author.
    pub message: String,
}

/// Something odd that does not keep a suite from running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where.
    pub place: Place,
    /// What, in words for the suite's author.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.place, self.message)
    }
}

/// Everything that is wrong with a suite: at least one error, by line; displays one line each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SuiteErrors(Vec<SuiteError>);

impl SuiteErrors {
    /// The errors, in the order of the suite file.
    pub fn iter(&self) -> impl Iterator<Item = &SuiteError> {
        self.0.iter()
    }

    /// Permanent: a suite stays wrong until someone changes it.
    #[must_use]
    pub const fn class(&self) -> Class {
        Class::Permanent
    }
}

impl fmt::Display for SuiteErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(formatter)?;
            }
            write!(formatter, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SuiteErrors {}

/// Gathers what is found while a suite is read.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    errors: Vec<SuiteError>,
    warnings: Vec<Warning>,
}

impl Problems {
    /// An error of a setting that benchmarks share is kept once, however many benchmarks meet it.
    pub(crate) fn error(&mut self, place: Place, message: impl Into<String>) {
        let message = message.into();
        let is_same = |known: &SuiteError| {
            let same_place = known.place.line == place.line && known.place.field == place.field;
            same_place && known.place.data.is_none() && known.message == message
        };
        let is_shared =
            place.data.is_none() && place.field.as_ref().is_some_and(|field| field.starts_with("defaults."));
        if !(is_shared && self.errors.iter().any(is_same)) {
            self.errors.push(SuiteError { place, message });
        }
    }

    /// Takes over the errors of something that was looked at by itself; its warnings are dropped.
    pub(crate) fn take_errors(&mut self, other: Self) {
        self.errors.extend(other.errors);
    }

    pub(crate) fn warn(&mut self, place: Place, message: impl Into<String>) {
        let message = message.into();
        self.warnings.push(Warning { place, message });
    }

    /// What was made with the warnings, or the errors when there is any. Who makes nothing has reported why.
    pub(crate) fn settle<T>(mut self, made: Option<T>) -> Result<(T, Vec<Warning>), SuiteErrors> {
        match made {
            Some(made) if self.errors.is_empty() => Ok((made, self.warnings)),
            _ => {
                self.errors.sort_by_key(|error| error.place.line);
                Err(SuiteErrors(self.errors))
            }
        }
    }
}
