//! Family `instructions`: whether an answer does what its prompt asks for, as far as a program can tell.

use tidemill_domain::{Item, Measured};
use tidemill_scoring::{Followed, Instructions as Checks};

use crate::Error;
use crate::answer::{Answer, Credit, Finding, trimmed};
use crate::family::Family;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Instructions {
    pub(crate) loose: bool,
}

impl Family for Instructions {
    fn name(&self) -> &'static str {
        "instructions@1"
    }

    fn judge(&self, item: &Item, answer: &Answer<'_>) -> Result<Option<Finding>, Error> {
        let material = |name| item.material(name).ok_or(Error::Material { name });
        let checks = Checks::from_json(material("instructions")?, material("arguments")?)?;
        let text = answer.text();
        if trimmed(text).is_empty() {
            return Ok(None);
        }
        let followed = checks.check(text)?;
        let counted = if self.loose {
            &followed.loosely
        } else {
            &followed.strictly
        };
        let mut finding = Finding::new("whole-answer@1", trimmed(text), Credit::Whole(Followed::all(counted)));
        let missed: Vec<&str> = checks
            .ids()
            .zip(counted)
            .filter(|(_, is)| !**is)
            .map(|(id, _)| id)
            .collect();
        if !missed.is_empty() {
            finding.reason = Some(format!("not followed: {}", missed.join(", ")));
        }
        finding.measures = measures(&followed);
        Ok(Some(finding.at(answer.span(trimmed(text)))))
    }
}

/// The share of answers that follow all, and of instructions that are followed.
fn measures(followed: &Followed) -> Vec<(String, Measured)> {
    let each = [("strict", &followed.strictly), ("loose", &followed.loosely)];
    let pairs = each.into_iter().flat_map(|(name, followed)| {
        let all = f64::from(u8::from(Followed::all(followed)));
        let weight = followed.len() as f64;
        let value = Followed::share(followed) * weight;
        [
            (format!("prompt_level_{name}_acc"), Measured::Value(all)),
            (format!("inst_level_{name}_acc"), Measured::Weighted { value, weight }),
        ]
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use tidemill_domain::{GraderSpec, Outcome};

    use super::*;
    use crate::answer::tests::item;
    use crate::grade::tests::measured;

    fn asked(ids: &str, arguments: &str) -> Item {
        let material = [("instructions", ids), ("arguments", arguments)];
        Item {
            material: material.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
            ..item(&[], &[])
        }
    }

    #[test]
    fn all_instructions_count_for_the_score_and_each_for_its_measure() {
        let two = asked(
            r#"["punctuation:no_comma", "detectable_format:title"]"#,
            r#"[{}, {"num_words": null}]"#,
        );
        let strictly = GraderSpec::Instructions { loose: false };
        let grade = measured(&strictly, &two, "Well, here it is:\n<<a title>>");
        assert_eq!(
            (grade.outcome, grade.grader.as_str()),
            (Outcome::Incorrect, "instructions@1")
        );
        assert_eq!(grade.reason.as_deref(), Some("not followed: punctuation:no_comma"));
        let weighted = |value| Some(Measured::Weighted { value, weight: 2.0 });
        let value = |value| Some(Measured::Value(value));
        assert_eq!(grade.measures, [value(0.0), weighted(1.0), value(1.0), weighted(2.0)]);
        let loosely = GraderSpec::Instructions { loose: true };
        assert_eq!(
            measured(&loosely, &two, "Well, here it is:\n<<a title>>").outcome,
            Outcome::Correct
        );
        assert_eq!(measured(&strictly, &two, " ").outcome, Outcome::NoAnswer);
    }

    #[test]
    fn instructions_that_cannot_be_read_are_the_graders_fault() {
        let spec = GraderSpec::Instructions { loose: false };
        for wrong in [asked("[\"nonsense\"]", "[{}]"), asked("x", "[]"), item(&[], &[])] {
            let grade = measured(&spec, &wrong, "text");
            assert_eq!(grade.outcome, Outcome::GraderError, "{:?}", grade.reason);
        }
    }
}
