//! Values of Parquet as `datasets` gives them to Python: moments and times print as Python's `str` prints them, single-precision
//! numbers with the digits of their widening.

use std::fmt::Write as _;

use parquet::basic::{LogicalType, TimeUnit, Type};
use parquet::record::Field;
use parquet::schema::types::SchemaDescriptor;
use serde_json::Value;

/// What a file's columns of moments and times say of them.
#[derive(Debug)]
pub(super) struct Clocks(Vec<Clock>);

/// A column, or a part of one.
#[derive(Debug)]
struct Clock {
    path: Vec<String>,
    /// Whether it has a zone, which is that of UTC.
    has_zone: bool,
    /// Whether it counts in billionths of seconds, which its values themselves do not tell.
    counts_nanos: bool,
    is_time: bool,
}

impl Clocks {
    pub(super) fn of(schema: &SchemaDescriptor) -> Self {
        let clocks = schema.columns().iter().filter_map(|column| {
            let (is_adjusted, unit, is_time) = match column.logical_type_ref() {
                Some(LogicalType::Timestamp(moment)) => (moment.is_adjusted_to_u_t_c, moment.unit, false),
                Some(LogicalType::Time(time)) => (false, time.unit, true),
                // Moments of 96 bits come in thousandths of seconds.
                None if column.physical_type() == Type::INT96 => (false, TimeUnit::MILLIS, false),
                _ => return None,
            };
            Some(Clock {
                path: column.path().parts().to_vec(),
                has_zone: is_adjusted,
                counts_nanos: matches!(unit, TimeUnit::NANOS),
                is_time,
            })
        });
        Self(clocks.collect())
    }

    /// What the file says of a part of a column; the two are the same where it is the whole column.
    fn find(&self, column: &str, part: &str) -> Option<&Clock> {
        let is_it = |clock: &&Clock| {
            clock.path.first().is_some_and(|root| root == column) && clock.path.iter().any(|name| name == part)
        };
        self.0.iter().find(is_it)
    }

    /// The value in Python's form, where that is another than the usual one.
    ///
    /// # Errors
    /// It is a time that Python has none for.
    pub(super) fn value(&self, field: &Field, (column, part): (&str, &str)) -> Result<Option<Value>, String> {
        let clock = self.find(column, part);
        let text = match field {
            Field::Float(number) => return super::columns::finite(f64::from(*number)).map(Some),
            Field::TimestampMillis(_) | Field::TimestampMicros(_) => {
                // Moments of old files, which do not say, are those of UTC.
                moment(field, "", clock.is_none_or(|clock| clock.has_zone))
            }
            Field::TimeMillis(_) | Field::TimeMicros(_) => moment(field, "", false),
            Field::Long(nanos) => match clock.filter(|clock| clock.counts_nanos) {
                Some(clock) => of_nanos(*nanos, clock)?,
                None => return Ok(None),
            },
            _ => return Ok(None),
        };
        Ok(Some(Value::String(text)))
    }
}

fn of_nanos(nanos: i64, clock: &Clock) -> Result<String, String> {
    let (micros, rest) = (nanos.div_euclid(1_000), nanos.rem_euclid(1_000));
    if clock.is_time {
        return match rest {
            0 => Ok(moment(&Field::TimeMicros(micros), "", false)),
            _ => Err("holds a time in billionths of seconds, which Python has none for".to_owned()),
        };
    }
    let more = if rest == 0 { String::new() } else { format!("{rest:03}") };
    Ok(moment(&Field::TimestampMicros(micros), &more, clock.has_zone))
}

/// A moment or time as Python prints it: fractions of six digits and those that follow them, or none where they are nothing.
fn moment(field: &Field, more: &str, has_zone: bool) -> String {
    let usual = match field.to_json_value() {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let (mut text, fraction) = match usual.split_once('.') {
        Some((whole, fraction)) => (whole.to_owned(), fraction.split(' ').next().unwrap_or_default()),
        None => (usual.clone(), ""),
    };
    let has_fraction = !more.is_empty() || fraction.bytes().any(|digit| digit != b'0');
    if has_fraction {
        // Writing to a text does not fail.
        write!(text, ".{fraction:0<6}{more}").ok();
    }
    if has_zone {
        text.push_str("+00:00");
    }
    text
}
