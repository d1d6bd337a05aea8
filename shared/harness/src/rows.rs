//! Rows of files as `datasets` gives them: every row has every column, and a column has one type.

use serde_json::{Map, Number, Value as Json};

/// A row.
pub type Row = Map<String, Json>;

/// Gives every row every column, missing ones as null, in mappings inside of rows too; where a column holds integers and
/// numbers with a point, all of them get one.
#[must_use]
pub fn conform(rows: Vec<Row>) -> Vec<Row> {
    let mut shape = Shape::default();
    for row in &rows {
        shape.note_row(row);
    }
    rows.into_iter().map(|row| shape.fit_row(row)).collect()
}

/// The rows of a JSON file as `datasets` reads them: an integer beyond those with a sign makes its column one of numbers with a
/// point, and is one itself.
#[must_use]
pub fn signed(rows: Vec<Row>) -> Vec<Row> {
    let fit = |(name, value)| (name, signed_value(value));
    rows.into_iter().map(|row| row.into_iter().map(fit).collect()).collect()
}

fn signed_value(value: Json) -> Json {
    match value {
        Json::Number(number) if number.is_u64() && !number.is_i64() => {
            let float = number.as_f64().and_then(Number::from_f64);
            Json::Number(float.unwrap_or(number))
        }
        Json::Array(values) => values.into_iter().map(signed_value).collect(),
        Json::Object(row) => row
            .into_iter()
            .map(|(name, value)| (name, signed_value(value)))
            .collect(),
        other => other,
    }
}

/// What a column holds over all rows.
#[derive(Default)]
struct Shape {
    has_floats: bool,
    columns: Vec<(String, Shape)>,
    elements: Option<Box<Shape>>,
}

impl Shape {
    fn note_row(&mut self, row: &Row) {
        for (name, value) in row {
            let at = match self.columns.iter().position(|(known, _)| known == name) {
                Some(at) => at,
                None => {
                    self.columns.push((name.clone(), Self::default()));
                    self.columns.len() - 1
                }
            };
            self.columns[at].1.note(value);
        }
    }

    fn note(&mut self, value: &Json) {
        match value {
            Json::Number(number) => self.has_floats |= number.is_f64(),
            Json::Array(values) => {
                let elements = self.elements.get_or_insert_default();
                values.iter().for_each(|value| elements.note(value));
            }
            Json::Object(row) => self.note_row(row),
            _ => {}
        }
    }

    fn fit_row(&self, mut row: Row) -> Row {
        let fit = |(name, shape): &(String, Self)| {
            let value = row.remove(name).unwrap_or(Json::Null);
            (name.clone(), shape.fit(value))
        };
        self.columns.iter().map(fit).collect()
    }

    fn fit(&self, value: Json) -> Json {
        match value {
            Json::Number(number) if self.has_floats && !number.is_f64() => {
                let float = number.as_f64().and_then(Number::from_f64);
                Json::Number(float.unwrap_or(number))
            }
            Json::Array(values) => match &self.elements {
                Some(elements) => Json::Array(values.into_iter().map(|value| elements.fit(value)).collect()),
                None => Json::Array(values),
            },
            Json::Object(row) => Json::Object(self.fit_row(row)),
            other => other,
        }
    }
}

/// Texts that stand for nothing in a CSV file.
const MISSING: [&str; 17] = [
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA",
    "NULL", "NaN", "nan", "null",
];

/// Gives the columns of a CSV file their types: integers, numbers, booleans or texts, whichever all of a column are.
#[must_use]
pub fn typed(rows: Vec<Row>) -> Vec<Row> {
    let names: Vec<String> = rows
        .first()
        .map(|row| row.keys().cloned().collect())
        .unwrap_or_default();
    let kinds: Vec<(String, Kind)> = names
        .into_iter()
        .map(|name| (name.clone(), Kind::of(&rows, &name)))
        .collect();
    let convert = |mut row: Row| {
        for (name, kind) in &kinds {
            if let Some(value) = row.get_mut(name)
                && let Json::String(text) = value
            {
                *value = kind.value(text);
            }
        }
        row
    };
    rows.into_iter().map(convert).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Integers,
    /// Integers of which some are beyond those with a sign.
    Unsigned,
    /// Integers of which some are beyond all that a number holds, or beside negative ones or holes: texts as they stand.
    Verbatim,
    Numbers,
    Booleans,
    Texts,
}

impl Kind {
    fn of(rows: &[Row], name: &str) -> Self {
        let texts = || rows.iter().filter_map(|row| row.get(name)?.as_str());
        let present = || texts().filter(|text| !is_missing(text));
        let has_missing = texts().any(is_missing);
        if present().next().is_none() {
            return Self::Texts;
        }
        if present().all(|text| text.trim().parse::<i64>().is_ok()) {
            // A column with holes is one of numbers with a point.
            return if has_missing { Self::Numbers } else { Self::Integers };
        }
        if present().all(is_integer) {
            let is_unsigned = present().all(|text| text.trim().parse::<u64>().is_ok());
            return if is_unsigned && !has_missing {
                Self::Unsigned
            } else {
                Self::Verbatim
            };
        }
        if present().all(is_number) {
            return Self::Numbers;
        }
        let is_boolean = |text: &str| matches!(text, "True" | "False" | "TRUE" | "FALSE" | "true" | "false");
        if !has_missing && present().all(is_boolean) {
            Self::Booleans
        } else {
            Self::Texts
        }
    }

    fn value(self, text: &str) -> Json {
        if is_missing(text) && self != Self::Verbatim {
            return Json::Null;
        }
        match self {
            Self::Unsigned => text.trim().parse::<u64>().map_or(Json::Null, Json::from),
            Self::Integers => text.trim().parse::<i64>().map_or(Json::Null, Json::from),
            Self::Numbers => text.trim().parse::<f64>().map_or(Json::Null, Json::from),
            Self::Booleans => Json::Bool(text.eq_ignore_ascii_case("true")),
            Self::Texts | Self::Verbatim => Json::String(text.to_owned()),
        }
    }
}

fn is_missing(text: &str) -> bool {
    MISSING.contains(&text) || text == "n/a" || text == "None"
}

fn is_integer(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(values: Json) -> Vec<Row> {
        values
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_object().unwrap().clone())
            .collect()
    }

    #[test]
    fn every_row_gets_every_column_and_a_column_one_type() {
        let read = rows(json!([{"a": 1, "d": {"x": 1}}, {"b": [1, 2.5], "a": 1.5, "d": {"y": null}}]));
        let expected = json!([{"a": 1.0, "d": {"x": 1, "y": null}, "b": null}, {"a": 1.5, "d": {"x": null, "y": null}, "b": [1.0, 2.5]}]);
        assert_eq!(json!(conform(read)), expected);
    }

    #[test]
    fn integers_of_json_that_no_sign_fits_make_floats_of_their_column() {
        let big = 12_345_678_901_234_567_890_u64;
        let read = rows(json!([{"a": big, "l": [{"x": big}], "b": i64::MAX}, {"a": 5, "l": [], "b": 1}]));
        let float = 12_345_678_901_234_567_890.0;
        let expected = json!([{"a": float, "l": [{"x": float}], "b": i64::MAX}, {"a": 5.0, "l": [], "b": 1}]);
        assert_eq!(json!(conform(signed(read))), expected);
    }

    #[test]
    fn columns_of_texts_get_the_type_that_all_of_them_have() {
        let read = rows(json!([
            {"i": "1", "f": "2.5", "h": "3", "b": "True", "t": "x"},
            {"i": "-2", "f": "1", "h": "", "b": "False", "t": "NA"},
        ]));
        let expected = json!([
            {"i": 1, "f": 2.5, "h": 3.0, "b": true, "t": "x"},
            {"i": -2, "f": 1.0, "h": null, "b": false, "t": null},
        ]);
        assert_eq!(json!(typed(read)), expected);
    }

    /// As `datasets` 5.2.0 reads them.
    #[test]
    fn integers_that_64_bits_do_not_hold_are_unsigned_or_texts() {
        let column = |texts: &[&str]| {
            let read = texts.iter().map(|text| json!({"a": text}).as_object().unwrap().clone());
            let values = typed(read.collect()).into_iter().map(|row| row["a"].clone());
            Json::from(values.collect::<Vec<_>>())
        };
        let big = "12345678901234567890";
        assert_eq!(column(&[big, "+5"]), json!([12_345_678_901_234_567_890_u64, 5]));
        assert_eq!(column(&["-1", big]), json!(["-1", big]));
        assert_eq!(column(&["1", "", big]), json!(["1", "", big]));
        assert_eq!(column(&["1.5", big]), json!([1.5, 1.234_567_890_123_456_7e19]));
        assert_eq!(column(&[big, "NA", "x"]), json!([big, null, "x"]));
        assert_eq!(column(&["1e3", "2E-2", "3"]), json!([1000.0, 0.02, 3.0]));
    }
}
