//! Instructions that a program can check, with the names and arguments of IFEval.
//!
//! A text follows an instruction strictly as it stands, and loosely if it, or what remains without its first line, its last
//! line or its asterisks, does. The measures of a benchmark are the share of texts that follow all instructions, and the
//! share of instructions that are followed, each strictly and loosely.
//!
//! # Where this differs from the published checks
//! - An argument that is missing, zero or of another kind is refused. There, a random one is drawn for each check.
//! - `letter_frequency` counts any letter or mark. There, what is no English letter is replaced by a random one.
//! - Words are counted with the marks of their script, as NLTK 3.10 does; older versions count each mark as a gap.
//! - Keywords are patterns as there, without look-around and back-references, which cost more than linear time.
//! - Languages are told with a fixed seed. There, short texts may have another one each time.
//! - `NaN`, `Infinity` and halves of surrogate pairs are no JSON, and neither is what is nested deeper than 128.
//!
//! Source: Zhou et al., "Instruction-Following Evaluation for Large Language Models", 2023; the checks are those of
//! lm-evaluation-harness's task `ifeval`, version 4.

mod arguments;
mod check;

use serde_json::{Map, Value};

use crate::Error;
use crate::python::stripped;
use check::Check;

/// Every instruction of the published set.
pub const INSTRUCTION_IDS: [&str; 25] = [
    "keywords:existence",
    "keywords:frequency",
    "keywords:forbidden_words",
    "keywords:letter_frequency",
    "language:response_language",
    "length_constraints:number_sentences",
    "length_constraints:number_paragraphs",
    "length_constraints:number_words",
    "length_constraints:nth_paragraph_first_word",
    "detectable_content:number_placeholders",
    "detectable_content:postscript",
    "detectable_format:number_bullet_lists",
    "detectable_format:constrained_response",
    "detectable_format:number_highlighted_sections",
    "detectable_format:multiple_sections",
    "detectable_format:json_format",
    "detectable_format:title",
    "combination:two_responses",
    "combination:repeat_prompt",
    "startend:end_checker",
    "startend:quotation",
    "change_case:capital_word_frequency",
    "change_case:english_capital",
    "change_case:english_lowercase",
    "punctuation:no_comma",
];

/// The instructions of one prompt, ready for any number of texts.
#[derive(Debug, Clone)]
pub struct Instructions {
    list: Vec<(&'static str, Check)>,
}

/// Which instructions a text follows, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Followed {
    /// As the text stands.
    pub strictly: Vec<bool>,
    /// With one of the eight ways to leave something out.
    pub loosely: Vec<bool>,
}

impl Followed {
    /// The share of instructions that are followed; 1 for no instruction.
    #[must_use]
    pub fn share(followed: &[bool]) -> f64 {
        let count = followed.iter().filter(|&&is_followed| is_followed).count();
        if followed.is_empty() {
            1.0
        } else {
            count as f64 / followed.len() as f64
        }
    }

    /// Every instruction is followed.
    #[must_use]
    pub fn all(followed: &[bool]) -> bool {
        followed.iter().all(|&is_followed| is_followed)
    }
}

impl Instructions {
    /// Reads ids and, for each, a map of arguments; arguments that are null do not count.
    ///
    /// # Errors
    /// An unknown id, an argument that is missing or of another kind, a pattern that does not compile.
    pub fn try_new<T: AsRef<str>>(ids: &[T], arguments: &[Map<String, Value>]) -> Result<Self, Error> {
        if ids.len() != arguments.len() {
            return Err(Error::Arguments {
                ids: ids.len(),
                arguments: arguments.len(),
            });
        }
        let each = ids.iter().zip(arguments).map(|(id, arguments)| {
            let id = known(id.as_ref())?;
            Ok((id, Check::read(id, arguments)?))
        });
        Ok(Self {
            list: each.collect::<Result<_, _>>()?,
        })
    }

    /// Reads ids and arguments as JSON: a list of texts, and a list of as many maps.
    ///
    /// # Errors
    /// Those of [`Instructions::try_new`], and what is not JSON of that form.
    pub fn from_json(ids: &str, arguments: &str) -> Result<Self, Error> {
        let ids: Vec<String> = parsed(ids, "instructions", "a list of instruction ids")?;
        let arguments: Vec<Option<Map<String, Value>>> =
            parsed(arguments, "arguments", "a list of maps, one an instruction")?;
        let arguments: Vec<_> = arguments.into_iter().map(Option::unwrap_or_default).collect();
        Self::try_new(&ids, &arguments)
    }

    /// The ids, in order.
    pub fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.list.iter().map(|(id, _)| *id)
    }

    /// Checks a text. An empty one follows nothing.
    ///
    /// # Errors
    /// The language of a text cannot be told.
    pub fn check(&self, text: &str) -> Result<Followed, Error> {
        let variants = variants(text);
        let mut followed = Followed::default();
        for (_, check) in &self.list {
            let strictly = follows(check, text)?;
            let mut loosely = strictly;
            for variant in &variants {
                loosely = loosely || follows(check, variant)?;
            }
            followed.strictly.push(strictly);
            followed.loosely.push(loosely);
        }
        Ok(followed)
    }
}

fn parsed<T: serde::de::DeserializeOwned>(json: &str, what: &'static str, wanted: &'static str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| Error::Json {
        what,
        wanted,
        reason: error.to_string(),
    })
}

fn follows(check: &Check, text: &str) -> Result<bool, Error> {
    Ok(!stripped(text).is_empty() && check.is_followed_by(text)?)
}

fn known(id: &str) -> Result<&'static str, Error> {
    if let Some(known) = INSTRUCTION_IDS.iter().find(|known| **known == id) {
        return Ok(known);
    }
    let likeness = |known: &&&str| (strsim::jaro_winkler(id, known) * 1_000.0) as u32;
    Err(Error::Instruction {
        id: id.to_owned(),
        nearest: INSTRUCTION_IDS.iter().max_by_key(likeness).copied().unwrap_or_default(),
    })
}

/// The text without its first line, its last, both, and each of the four without asterisks; only those that differ.
fn variants(text: &str) -> Vec<String> {
    let (after_first, before_last) = (text.find('\n').map(|at| at + 1), text.rfind('\n'));
    let part =
        |from: Option<usize>, to: Option<usize>| from.zip(to).and_then(|(from, to)| text.get(from..to)).map(stripped);
    let parts = [
        Some(text),
        part(after_first, Some(text.len())),
        part(Some(0), before_last),
        part(after_first, before_last),
    ];
    let mut variants: Vec<String> = Vec::new();
    for part in parts.into_iter().flatten() {
        for variant in [part.to_owned(), part.replace('*', "")] {
            if variant != text && !variants.contains(&variant) {
                variants.push(variant);
            }
        }
    }
    variants
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn instructions(id: &str, arguments: Value) -> Result<Instructions, Error> {
        let Value::Object(arguments) = arguments else {
            panic!("a map")
        };
        Instructions::try_new(&[id], &[arguments])
    }

    #[test]
    fn what_is_not_known_or_missing_is_refused_by_name() {
        let unknown = instructions("keywords:existance", json!({})).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            r#"check the instruction "keywords:existance": unknown; did you mean "keywords:existence"?"#
        );
        let missing = instructions(
            "length_constraints:number_words",
            json!({"relation": "at least", "num_words": null}),
        );
        assert_eq!(
            missing.unwrap_err().to_string(),
            "check length_constraints:number_words: num_words must be a whole number of 1 or more, but is null"
        );
        let relation = instructions(
            "length_constraints:number_words",
            json!({"relation": "about", "num_words": 3}),
        );
        assert!(
            relation
                .unwrap_err()
                .to_string()
                .contains(r#"relation must be "less than" or "at least", but is "about""#)
        );
        let pattern = instructions(
            "keywords:frequency",
            json!({"keyword": "(", "relation": "at least", "frequency": 1}),
        );
        assert!(matches!(pattern, Err(Error::Pattern { .. })));
        let nth = json!({"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "x"});
        assert!(instructions("length_constraints:nth_paragraph_first_word", nth).is_err());
        assert!(Instructions::try_new(&["punctuation:no_comma"], &[]).is_err());
    }

    #[test]
    fn lines_and_asterisks_are_forgiven_loosely_and_an_empty_text_follows_nothing() {
        let quotation = instructions("startend:quotation", json!({})).unwrap();
        let followed = quotation.check("Sure:\n\"yes\"").unwrap();
        assert_eq!((followed.strictly, followed.loosely), (vec![false], vec![true]));
        let comma = instructions("punctuation:no_comma", json!({})).unwrap();
        assert_eq!(comma.check(" \n").unwrap().loosely, [false]);
        assert_eq!(
            comma.check("a, b\nc").unwrap(),
            Followed {
                strictly: vec![false],
                loosely: vec![true]
            }
        );
    }

    #[test]
    fn every_instruction_has_a_check() {
        let all = json!({
            "keywords": ["a"], "keyword": "a", "frequency": 1, "relation": "at least", "forbidden_words": ["a"], "letter": "a",
            "let_frequency": 1, "let_relation": "less than", "language": "de", "num_sentences": 1, "num_paragraphs": 1,
            "num_words": 1, "nth_paragraph": 1, "first_word": "a", "num_placeholders": 1, "postscript_marker": "P.S.",
            "num_bullets": 1, "num_highlights": 1, "section_spliter": "Section", "num_sections": 1, "prompt_to_repeat": "a",
            "end_phrase": "a", "capital_frequency": 1, "capital_relation": "at least",
        });
        for id in INSTRUCTION_IDS {
            let checked = instructions(id, all.clone()).unwrap().check("a");
            assert!(checked.is_ok(), "{id}");
        }
    }
}
