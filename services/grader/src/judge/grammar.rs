//! What in a judge's reply is its verdict. What is not exactly one is none, and never a guess: a judge's slip must not count
//! as the model's.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use tidemill_domain::{JudgeSpec, VerdictForm, Verdicts};

use super::tail;

/// Objects that a reply is searched for, from its end: more braces than a reply has that ends with one.
const BRACES: usize = 256;

/// A verdict, and what it is worth.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Verdict {
    /// As the suite writes it; a number as the judge wrote it.
    pub(crate) word: String,
    /// 0 to 1.
    pub(crate) worth: f64,
}

/// Reads the verdict out of a whole reply, without the judge's reasoning.
pub(crate) fn read(spec: &JudgeSpec, reply: &str) -> Option<Verdict> {
    let said = match spec.form {
        VerdictForm::Line => line(&spec.label, reply)?,
        VerdictForm::Json => json(&spec.label, reply)?,
    };
    among(&spec.verdicts, spec.form.verdict(&said))
}

/// The end of a reply, of `most` bytes where that is enough to read the same verdict from it.
pub(crate) fn end(spec: &JudgeSpec, reply: &str, most: usize) -> String {
    let reply = reply.trim_end();
    let end = tail(reply, most);
    let object = match spec.form {
        VerdictForm::Line => None,
        VerdictForm::Json => object(reply),
    };
    let start = object.map_or(reply.len(), |(start, _)| start);
    reply[start.min(reply.len() - end.len())..].to_owned()
}

/// What the last line says, where it is the label, a colon and something.
fn line(label: &str, reply: &str) -> Option<String> {
    let last = reply.lines().rev().find(|line| !line.trim().is_empty())?;
    let (before, after) = last.split_once([':', '：'])?;
    is_label(label, VerdictForm::Line.label(before)).then(|| after.to_owned())
}

fn is_label(label: &str, said: &str) -> bool {
    said.to_lowercase() == label.to_lowercase()
}

/// What the object says with which the reply ends.
fn json(label: &str, reply: &str) -> Option<String> {
    let (_, Entries(entries)) = object(reply)?;
    let mut entries = entries.iter().filter(|(key, _)| is_label(label, key));
    let (_, value) = entries.next()?;
    if entries.next().is_some() {
        return None;
    }
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(boolean) => Some(boolean.to_string()),
        _ => None,
    }
}

/// The object with which a reply ends, and where it begins.
fn object(reply: &str) -> Option<(usize, Entries)> {
    let text = reply.trim_end_matches(|letter: char| letter.is_whitespace() || letter == '`');
    let mut opening = text.match_indices('{').rev().take(BRACES);
    opening.find_map(|(start, _)| Some((start, serde_json::from_str(&text[start..]).ok()?)))
}

/// An object as it is written: what is there twice stays there twice.
#[derive(Debug)]
struct Entries(Vec<(String, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Entries(entries))
    }
}

fn among(verdicts: &Verdicts, said: &str) -> Option<Verdict> {
    match verdicts {
        Verdicts::Words(words) => {
            let (word, worth) = words
                .iter()
                .find(|(word, _)| word.to_lowercase() == said.to_lowercase())?;
            Some(Verdict {
                word: word.clone(),
                worth: *worth,
            })
        }
        Verdicts::Scale { from, to } => {
            let number = match said.split_once('/') {
                Some((number, most)) if number_of(most)? == *to => number,
                Some(_) => return None,
                None => said,
            };
            let value = number_of(number)?;
            (*from..=*to).contains(&value).then(|| Verdict {
                word: number.trim().to_owned(),
                worth: (value - from) / (to - from),
            })
        }
    }
}

/// A plain decimal number: neither `inf` nor `1e3`.
fn number_of(text: &str) -> Option<f64> {
    let text = text.trim();
    let is_plain = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'));
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::tests::spec;

    fn read_word(spec: &JudgeSpec, reply: &str) -> Option<String> {
        read(spec, reply).map(|verdict| verdict.word)
    }

    #[test]
    fn a_verdict_that_is_none_is_none() {
        let spec = spec(&[("C", 1.0), ("I", 0.0)]);
        for (reply, expected) in [
            ("It is right.\nGRADE: C", Some("C")),
            ("It is right.\n\n**GRADE: C**\n\n", Some("C")),
            ("**Grade:** `I`.", Some("I")),
            ("GRADE：C", Some("C")),
            ("> GRADE: [[i]]", Some("I")),
            ("GRADE: “C”", Some("C")),
            ("GRADE: «C».\u{200b}", Some("C")),
            ("GRADE: I\nOn second thoughts:\nGRADE: C", Some("C")),
            // Another word than the label, another verdict than those asked for, several, none, or not at the end.
            ("GRID: C", None),
            ("UPGRADE: C", None),
            ("GRADE C", None),
            ("GRADE: D", None),
            ("GRADE: CI", None),
            ("GRADE: C or I", None),
            ("GRADE: C\nGRID: C", None),
            ("GRADE: C\nI hope that this helps.", None),
            ("GRADE:", None),
            ("C", None),
            ("", None),
            ("\0\0", None),
        ] {
            assert_eq!(read_word(&spec, reply).as_deref(), expected, "{reply:?}");
        }
    }

    #[test]
    fn a_verdict_in_an_object_is_read_from_the_last_one() {
        let spec = JudgeSpec {
            form: VerdictForm::Json,
            label: "grade".to_owned(),
            ..spec(&[("C", 1.0), ("I", 0.0)])
        };
        for (reply, expected) in [
            (r#"{"grade": "C"}"#, Some("C")),
            (
                "Well.\n```json\n{\"why\": {\"grade\": \"I\"}, \"Grade\": \"c\"}\n```\n",
                Some("C"),
            ),
            (r#"{"grade": "I"} {"grade": "C"}"#, Some("C")),
            (r#"{"grid": "C"}"#, None),
            (r#"{"why": {"grade": "C"}}"#, None),
            (r#"{"grade": "C", "GRADE": "I"}"#, None),
            (r#"{"grade": "C", "grade": "I"}"#, None),
            (r#"{"grade": "C", "grade": "C"}"#, None),
            (r#"{"why": 1, "grade": "C", "why": 2}"#, Some("C")),
            (r#"{"grade": ["C"]}"#, None),
            (r#"{"grade": "C"} said I"#, None),
            (r#"{"grade": "C""#, None),
            ("GRADE: C", None),
        ] {
            assert_eq!(read_word(&spec, reply).as_deref(), expected, "{reply:?}");
        }
        let deep = "{".repeat(1_000_000);
        assert_eq!(read(&spec, &deep), None, "in bounded time");
    }

    #[test]
    fn the_end_that_is_kept_of_a_reply_holds_its_verdict() {
        let line = spec(&[("C", 1.0), ("I", 0.0)]);
        let json = JudgeSpec {
            form: VerdictForm::Json,
            ..line.clone()
        };
        let (long, blank) = ("x".repeat(100), " ".repeat(100));
        for (spec, reply, kept) in [
            (&line, format!("{long}\nGRADE: C"), 20),
            (&line, format!("{long}\nGRADE: C\n{blank}\n"), 20),
            (&json, format!("{long}{{\"GRADE\": \"C\"}}"), 20),
            (
                &json,
                format!("{long}{{\"GRADE\": \"C\", \"why\": \"{long}\"}}\n```"),
                129,
            ),
            (
                &json,
                format!("{{\"why\": \"{{{long}\", \"GRADE\": \"C\"}}{blank}"),
                126,
            ),
        ] {
            let end = end(spec, &reply, 20);
            assert_eq!(end.len(), kept, "{end:?}");
            assert_eq!(read(spec, &end), read(spec, &reply), "{reply:?}");
            assert_eq!(read_word(spec, &end).as_deref(), Some("C"), "{reply:?}");
        }
    }

    #[test]
    fn a_number_counts_within_its_scale_alone() {
        let spec = JudgeSpec {
            verdicts: Verdicts::Scale { from: 1.0, to: 5.0 },
            ..spec(&[])
        };
        let worth = |reply: &str| read(&spec, reply).map(|verdict| verdict.worth);
        for (reply, expected) in [
            ("GRADE: 1", Some(0.0)),
            ("GRADE: 5", Some(1.0)),
            ("GRADE: 2.", Some(0.25)),
            ("GRADE: 4.0", Some(0.75)),
            ("GRADE: 3/5", Some(0.5)),
            ("GRADE: 0", None),
            ("GRADE: 6", None),
            ("GRADE: 3/10", None),
            ("GRADE: 1e0", None),
            ("GRADE: nan", None),
            ("GRADE: 3 or 4", None),
            ("GRID: 3", None),
        ] {
            assert_eq!(worth(reply), expected, "{reply:?}");
        }
    }
}
