//! Family `json_schema`: JSON in an answer, against a schema or a target.

use std::borrow::Cow;

use serde_json::Value;
use tidemill_domain::{Item, JsonCheck, Measured};
use tidemill_scoring::{Schema, canonical_json, find_json, same_json};

use crate::Error;
use crate::answer::{Answer, Credit, Finding};
use crate::family::Family;

#[derive(Debug, Clone)]
pub(crate) struct JsonSchema {
    check: JsonCheck,
    /// Of all items; else each has its own.
    schema: Option<Schema>,
}

impl JsonSchema {
    pub(crate) fn try_new(check: JsonCheck, schema: Option<&str>) -> Result<Self, Error> {
        Ok(Self {
            check,
            schema: schema.map(compiled).transpose()?,
        })
    }

    fn schema_of(&self, item: &Item) -> Result<Option<Cow<'_, Schema>>, Error> {
        match (&self.schema, item.material("schema")) {
            (Some(schema), _) => Ok(Some(Cow::Borrowed(schema))),
            (None, Some(schema)) => Ok(Some(Cow::Owned(compiled(schema)?))),
            (None, None) if self.check == JsonCheck::Schema => Err(Error::Material { name: "schema" }),
            (None, None) => Ok(None),
        }
    }
}

fn compiled(schema: &str) -> Result<Schema, Error> {
    let schema = serde_json::from_str(schema).map_err(|error| Error::Json(error.to_string()))?;
    Ok(Schema::try_new(&schema)?)
}

impl Family for JsonSchema {
    fn name(&self) -> &'static str {
        "json_schema@3"
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let schema = self.schema_of(item)?;
        let targets = item.targets.iter().map(|target| serde_json::from_str::<Value>(target));
        let targets: Vec<Value> = targets
            .collect::<Result<_, serde_json::Error>>()
            .map_err(|error| Error::Json(error.to_string()))?;
        if targets.is_empty() && self.check == JsonCheck::Equal {
            return Err(Error::Target { wanted: "JSON" });
        }
        let Some(found) = find_json(answer.text()) else {
            return Ok(None);
        };
        let faults = schema.and_then(|schema| schema.faults(&found.value));
        let text = answer.text().get(found.span).unwrap_or_default();
        let is_equal = item.targets.iter().any(|target| same_json(target, text));
        let is_right = match self.check {
            JsonCheck::Valid => true,
            JsonCheck::Schema => faults.is_none(),
            JsonCheck::Equal => is_equal && faults.is_none(),
        };
        let canonical = canonical_json(text).unwrap_or_else(|| found.value.to_string());
        let mut finding = Finding::new("json@1", text, Credit::Whole(is_right))
            .at(answer.span(text))
            .known_as(&canonical);
        let is = |claim: bool| Measured::Value(f64::from(u8::from(claim)));
        finding.measures = vec![
            ("valid".to_owned(), is(true)),
            ("fits".to_owned(), is(faults.is_none())),
        ];
        if !targets.is_empty() {
            finding.measures.push(("equal".to_owned(), is(is_equal)));
        }
        finding.reason = faults.or_else(|| (!is_right).then(|| "another value than the target's".to_owned()));
        Ok(Some(finding))
    }
}

#[cfg(test)]
mod tests {
    use tidemill_domain::{GraderSpec, Outcome};

    use super::*;
    use crate::answer::tests::item;
    use crate::grade::tests::measured;

    const AGE: &str = r#"{"type": "object", "required": ["age"], "properties": {"age": {"type": "integer"}}}"#;

    fn spec(check: JsonCheck, schema: Option<&str>) -> GraderSpec {
        GraderSpec::JsonSchema {
            check,
            schema: schema.map(str::to_owned),
        }
    }

    #[test]
    fn json_is_valid_fits_or_equals() {
        let with = |check, text: &str| measured(&spec(check, Some(AGE)), &item(&[r#"{"age": 3}"#], &[]), text);
        let wrong_value = "It is:\n```json\n{\"age\": 4.0}\n```";
        assert_eq!(with(JsonCheck::Valid, "[]").outcome, Outcome::Correct);
        assert_eq!(with(JsonCheck::Schema, wrong_value).outcome, Outcome::Correct);
        let unequal = with(JsonCheck::Equal, wrong_value);
        assert_eq!((unequal.outcome, unequal.span.unwrap().start), (Outcome::Incorrect, 15));
        let value = |value| Some(Measured::Value(value));
        assert_eq!(unequal.measures, [value(1.0), value(1.0), value(0.0)]);
        assert_eq!(with(JsonCheck::Equal, r#"{"age": 3.0}"#).outcome, Outcome::Correct);
        let long = |text| {
            measured(
                &spec(JsonCheck::Equal, None),
                &item(&["12345678901234567890"], &[]),
                text,
            )
            .outcome
        };
        assert_eq!(long("12345678901234567890"), Outcome::Correct);
        assert_eq!(long("12345678901234567891"), Outcome::Incorrect);
        let canonical = |text: &str| {
            let grade = measured(&spec(JsonCheck::Valid, None), &item(&[], &[]), text);
            grade.canonical.unwrap()
        };
        assert_eq!(
            canonical(r#"{"b": 1.0, "a": [2]}"#),
            canonical(r#"{"a": [2.0], "b": 1}"#)
        );
        assert_ne!(
            canonical("12345678901234567890123"),
            canonical("12345678901234567890124")
        );
        let long = |last: &str| canonical(&format!("[{}{last}]", "1, ".repeat(200)));
        assert_ne!(long("1"), long("2"), "what is left out of a long one is told apart");
        let unfit = with(JsonCheck::Schema, r#"{"age": "3"}"#);
        assert!(unfit.reason.unwrap().starts_with("/age: "));
        assert_eq!(with(JsonCheck::Schema, "{\"age\": 3").outcome, Outcome::NoAnswer);
    }

    #[test]
    fn a_schema_may_be_the_items_own_and_must_be_somewhere() {
        let own = Item {
            material: vec![("schema".to_owned(), AGE.to_owned())],
            ..item(&[], &[])
        };
        let without = spec(JsonCheck::Schema, None);
        assert_eq!(measured(&without, &own, r#"{"age": 3}"#).outcome, Outcome::Correct);
        assert_eq!(measured(&without, &own, "3").outcome, Outcome::Incorrect);
        assert_eq!(measured(&without, &item(&[], &[]), "3").outcome, Outcome::GraderError);
        let broken = spec(JsonCheck::Schema, Some("{"));
        assert_eq!(measured(&broken, &item(&[], &[]), "3").outcome, Outcome::GraderError);
    }
}
