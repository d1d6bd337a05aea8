//! Item ids: taken from a column, or made from a row's content.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Map, Value};

type Columns = Map<String, Value>;

/// A digest of a row's content that does not depend on the order of its columns: 64 hexadecimal digits.
pub(crate) fn content_digest(columns: &Columns) -> String {
    let mut text = String::with_capacity(256);
    write_object(columns, &mut text);
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The ids given out in a benchmark, with the rows that hold them.
///
/// Ids are kept as 16 bytes of their hash, about 50 bytes a row in all: a suite may have a million rows with long ids.
#[derive(Debug, Default)]
pub(crate) struct Ids {
    holders: HashMap<[u8; 16], Holder>,
}

/// The row that holds an id, above two bits for the [`Form`].
#[derive(Debug, Clone, Copy)]
struct Holder(u64);

impl Holder {
    const fn new(row: u64, form: Form) -> Self {
        Self(row << 2 | form as u64)
    }

    const fn row(self) -> u64 {
        self.0 >> 2
    }

    const fn form(self) -> Form {
        match self.0 & 3 {
            0 => Form::Text,
            1 => Form::Integer,
            _ => Form::Content,
        }
    }
}

/// What an id was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Text = 0,
    Integer = 1,
    Content = 2,
}

impl Ids {
    /// Takes a row's id from a column. A row without it, and an id that an earlier row has, are refused.
    ///
    /// An integer and a text of the same digits count as equal: results name items by text.
    pub(crate) fn take_column_id(&mut self, row: u64, columns: &Columns, column: &str) -> Result<String, String> {
        let (id, form) = read_id(columns, column)?;
        self.claim(row, id, form)
    }

    /// Makes a row's id from its content digest. A row equal to an earlier one is refused, since the two could not be told
    /// apart once rows are shuffled.
    pub(crate) fn make_content_id(&mut self, row: u64, digest: &str) -> Result<String, String> {
        self.claim(row, digest[..16].to_owned(), Form::Content)
    }

    fn claim(&mut self, row: u64, id: String, form: Form) -> Result<String, String> {
        let mut short = [0; 16];
        short.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[..16]);
        let holder = match self.holders.entry(short) {
            Entry::Vacant(free) => {
                free.insert(Holder::new(row, form));
                return Ok(id);
            }
            Entry::Occupied(held) => *held.get(),
        };
        let (earlier, held) = (holder.row(), holder.form());
        let rows = format!("rows {earlier} and {row}");
        Err(match (held, form) {
            (Form::Content, _) => format!("{rows} are equal and have no id: remove one, or name a column of ids"),
            (held, form) if held == form => format!("{rows} have the same id {id:?}"),
            (held, _) => {
                let integer = if held == Form::Integer { earlier } else { row };
                format!("{rows} have the same id {id:?}: as an integer in row {integer}, as a text in the other")
            }
        })
    }
}

/// The id that a column holds.
pub(crate) fn column_id(columns: &Columns, column: &str) -> Result<String, String> {
    read_id(columns, column).map(|(id, _)| id)
}

fn read_id(columns: &Columns, column: &str) -> Result<(String, Form), String> {
    match columns.get(column) {
        Some(Value::String(text)) if text.is_empty() => Err(format!("column {column} is empty")),
        Some(Value::String(text)) => Ok((text.clone(), Form::Text)),
        Some(Value::Number(number)) if !number.is_f64() => Ok((number.to_string(), Form::Integer)),
        Some(other) => Err(format!("column {column} must hold a text or an integer, not {other}")),
        None => Err(format!("column {column} is missing")),
    }
}

fn write_object(columns: &Columns, text: &mut String) {
    let mut names: Vec<&String> = columns.keys().collect();
    names.sort_unstable();
    text.push('{');
    for name in names {
        write_text(name, text);
        text.push(':');
        write_value(&columns[name], text);
        text.push(',');
    }
    text.push('}');
}

fn write_value(value: &Value, text: &mut String) {
    match value {
        Value::Object(columns) => write_object(columns, text),
        Value::Array(elements) => {
            text.push('[');
            for element in elements {
                write_value(element, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::String(string) => write_text(string, text),
        plain => text.push_str(&plain.to_string()),
    }
}

/// Length first, so that no text needs escapes and no two rows run together.
fn write_text(string: &str, text: &mut String) {
    text.push_str(&string.len().to_string());
    text.push('"');
    text.push_str(string);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn columns(value: Value) -> Columns {
        match value {
            Value::Object(columns) => columns,
            other => panic!("{other} is not an object"),
        }
    }

    fn content_ids(rows: &[Columns]) -> BTreeSet<String> {
        let mut ids = Ids::default();
        let claim = |(row, columns)| ids.make_content_id(row, &content_digest(columns)).unwrap();
        (1..).zip(rows).map(claim).collect()
    }

    fn distinct_rows() -> impl Strategy<Value = Vec<Columns>> {
        let cell = prop_oneof![
            any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from),
            Just(Value::Null)
        ];
        let row = prop::collection::btree_map("[a-d]{1,3}", cell, 1..5).prop_map(|cells| cells.into_iter().collect());
        prop::collection::vec(row, 1..20).prop_map(|mut rows: Vec<Columns>| {
            let mut seen = BTreeSet::new();
            rows.retain(|row| seen.insert(content_digest(row)));
            rows
        })
    }

    proptest! {
        #[test]
        fn content_ids_survive_shuffled_and_added_rows(
            (rows, shuffled) in distinct_rows().prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
            keep in 1_usize..20,
        ) {
            let all = content_ids(&rows);
            prop_assert_eq!(&all, &content_ids(&shuffled));
            prop_assert_eq!(all.len(), rows.len());
            let fewer = content_ids(&shuffled[..keep.min(shuffled.len())]);
            prop_assert!(fewer.is_subset(&all));
        }

        #[test]
        fn content_ids_do_not_depend_on_the_order_of_columns(
            (cells, shuffled) in prop::collection::btree_map("[a-z]{1,3}", ".{0,8}", 1..6)
                .prop_map(|cells| cells.into_iter().map(|(name, text)| (name, Value::from(text))).collect::<Vec<_>>())
                .prop_flat_map(|cells| (Just(cells.clone()), Just(cells).prop_shuffle())),
        ) {
            let one: Columns = cells.into_iter().collect();
            let other: Columns = shuffled.into_iter().collect();
            prop_assert_eq!(content_digest(&one), content_digest(&other));
        }
    }

    #[test]
    fn rows_that_look_alike_when_joined_have_different_digests() {
        let rows = [
            json!({ "a": "1" }),
            json!({ "a": 1 }),
            json!({ "a": ["1"] }),
            json!({ "a": ["1", ""] }),
            json!({ "a": "1\",1\"b:" }),
            json!({ "a": "1", "b": "" }),
            json!({ "a": { "b": "1" } }),
            json!({ "a": null }),
            json!({ "a": "null" }),
            json!({}),
        ];
        let digests: BTreeSet<String> = rows.iter().map(|row| content_digest(&columns(row.clone()))).collect();
        assert_eq!(digests.len(), rows.len());
    }

    #[test]
    fn an_integer_and_a_text_of_the_same_digits_collide() {
        let mut ids = Ids::default();
        let claim = |ids: &mut Ids, row, id| ids.take_column_id(row, &columns(json!({ "id": id })), "id");
        assert_eq!(claim(&mut ids, 4, json!("1")).unwrap(), "1");
        assert_eq!(claim(&mut ids, 5, json!("01")).unwrap(), "01");
        insta::assert_snapshot!(
            claim(&mut ids, 9, json!(1)).unwrap_err(),
            @r#"rows 4 and 9 have the same id "1": as an integer in row 9, as a text in the other"#
        );
    }

    #[test]
    fn an_id_is_a_text_or_an_integer() {
        let mut ids = Ids::default();
        for wrong in [json!(1.5), json!(true), json!(null), json!([1]), json!("")] {
            assert!(
                ids.take_column_id(1, &columns(json!({ "id": wrong })), "id").is_err(),
                "{wrong}"
            );
        }
        assert!(ids.take_column_id(1, &columns(json!({ "id": -7 })), "id").is_ok());
    }
}
