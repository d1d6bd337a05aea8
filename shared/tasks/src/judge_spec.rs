//! Reads the grader table of kind `judge`, and renders what a judge is asked.
//!
//! What is rendered holds marks where answers go, which are not known yet; they are no characters of any text.

use std::collections::BTreeMap;

use minijinja::Value;
use tidemill_domain::{
    ANSWER_MARK, FIRST_MARK, GraderSpec, JUDGE_PROMPT, JUDGE_REFERENCE, JUDGE_SYSTEM, JudgeSpec, Prompt, SECOND_MARK,
    VerdictForm, Verdicts,
};

use crate::fields::{Fields, any};
use crate::grader_spec::Material;
use crate::suite::{LABEL, REPLY_TOKENS, VOTES};
use crate::template;

/// More votes than this are a mistake: each is a request for each sample.
const MOST_VOTES: u32 = 99;

/// The options of this kind alone.
pub(crate) const OPTIONS: [&str; 12] = [
    "judge",
    "system",
    "prompt",
    "reference",
    "pairwise",
    "verdicts",
    "scale",
    "label",
    "form",
    "votes",
    "temperature",
    "max_tokens",
];

/// What a judge is shown of an item.
pub(crate) const MATERIAL: [&str; 3] = [JUDGE_SYSTEM, JUDGE_PROMPT, JUDGE_REFERENCE];

/// Reads what follows the kind; `None` when no grader can be made of it, after reporting why.
pub(crate) fn decode(fields: &mut Fields<'_, '_>) -> Option<(GraderSpec, Vec<Material>)> {
    let judge = fields.required("judge", is_name);
    let is_pair = fields.or_default("pairwise", false, any);
    let verdicts = verdicts(fields, is_pair);
    let temperature = fields.or_default("temperature", 0.0, |value: &f64| match (0.0..=2.0).contains(value) {
        true => Ok(()),
        false => Err(format!("must be from 0 to 2, but is {value}")),
    });
    let votes = fields.or_default("votes", VOTES, |votes: &u32| {
        if votes.is_multiple_of(2) || *votes > MOST_VOTES {
            return Err(format!(
                "must be odd, so that most say one thing, and at most {MOST_VOTES}, but is {votes}"
            ));
        }
        if *votes > 1 && temperature <= 0.0 {
            return Err("of a judge that draws nothing are all alike: add a temperature above 0".to_owned());
        }
        Ok(())
    });
    let form = fields.or_default("form", VerdictForm::default(), any);
    let label = fields.or_default("label", LABEL.to_owned(), |label| is_label(label, form));
    if let Some(Verdicts::Words(words)) = &verdicts {
        are_read(fields, words, form);
    }
    let max_tokens = fields.or_default("max_tokens", REPLY_TOKENS, |tokens: &u32| match *tokens {
        0 => Err("must be at least 1".to_owned()),
        _ => Ok(()),
    });
    let material = material(fields, is_pair);
    let spec = JudgeSpec {
        judge: judge?.value,
        verdicts: verdicts?,
        label,
        form,
        votes,
        is_pair,
        temperature,
        max_tokens,
    };
    Some((GraderSpec::Judge(spec), material?))
}

fn material(fields: &mut Fields<'_, '_>, is_pair: bool) -> Option<Vec<Material>> {
    let mut material = Vec::new();
    let mut is_whole = true;
    let templates = [
        (JUDGE_SYSTEM, "system", "grader.system"),
        (JUDGE_PROMPT, "prompt", "grader.prompt"),
        (JUDGE_REFERENCE, "reference", "grader.reference"),
    ];
    for (name, key, field) in templates {
        if key == "reference" && !is_pair {
            continue;
        }
        if key == "prompt" && !fields.is_for_stored_items() && fields.raw(key).is_none() {
            fields.missing(key);
            is_whole = false;
        }
        let check = |source: &String| match name {
            JUDGE_REFERENCE => shows_no_answer(source),
            _ => shows_answers_alone(source, is_pair),
        };
        if let Some(source) = fields.optional(key, check) {
            material.push(Material {
                name: name.into(),
                field,
                source,
                is_json: false,
            });
        } else {
            is_whole &= fields.raw(key).is_none();
        }
    }
    is_whole.then_some(material)
}

/// The names of the answers that a judge is shown.
const fn answers(is_pair: bool) -> &'static [&'static str] {
    if is_pair {
        &["answer_a", "answer_b"]
    } else {
        &["answer"]
    }
}

/// An answer is not known when a template is rendered: it can be shown, and nothing else be done with it.
fn shows_answers_alone(source: &str, is_pair: bool) -> Result<(), String> {
    template::check(source)?;
    match template::uses(source, answers(is_pair), true) {
        Some(name) => Err(format!(
            "uses `{name}`, which is not known before there is an answer: it can be shown by {{{{ {name} }}}}, without a filter, a \
             condition and the like"
        )),
        None => Ok(()),
    }
}

fn shows_no_answer(source: &str) -> Result<(), String> {
    template::check(source)?;
    match template::uses(source, answers(true), false) {
        Some(name) => Err(format!(
            "uses `{name}`: an answer is compared with it, so it holds none"
        )),
        None => Ok(()),
    }
}

/// Shown second, an answer is worth what is left of 1: a verdict for one side needs one that says the same of the other.
fn are_mirrored(words: &[(String, f64)]) -> Result<(), String> {
    let has = |worth: f64| words.iter().any(|(_, other)| (other - worth).abs() < 1e-9);
    match words.iter().find(|(_, worth)| !has(1.0 - worth)) {
        Some((word, worth)) => Err(format!(
            "of a comparison must mirror each other, as A = 1, B = 0 and TIE = 0.5 do: {word} is worth {worth}, and no verdict \
             is worth {}, which it means when the answers change places",
            1.0 - worth
        )),
        None => Ok(()),
    }
}

/// The words of `verdicts`, or the numbers of `scale`.
fn verdicts(fields: &mut Fields<'_, '_>, is_pair: bool) -> Option<Verdicts> {
    let has_words = fields.raw("verdicts").is_some();
    let has_scale = fields.raw("scale").is_some();
    if has_words && has_scale {
        let line = fields.line_of_field("scale");
        fields.error("scale", line, "stands beside verdicts: a judge says a word or a number");
        return None;
    }
    if has_scale && is_pair {
        let line = fields.line_of_field("scale");
        fields.error(
            "scale",
            line,
            "is for one answer: a comparison has verdicts such as A, B and TIE",
        );
        return None;
    }
    if has_scale {
        let [from, to] = fields.optional("scale", is_scale)?.value;
        return Some(Verdicts::Scale { from, to });
    }
    let words = if has_words {
        fields.optional("verdicts", are_verdicts)?.value
    } else if is_pair {
        default_words(&[("A", 1.0), ("B", 0.0), ("TIE", 0.5)])
    } else {
        default_words(&[("CORRECT", 1.0), ("INCORRECT", 0.0)])
    };
    let mut words: Vec<(String, f64)> = words.into_iter().collect();
    words.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    if is_pair && let Err(message) = are_mirrored(&words) {
        let line = fields.line_of_field("verdicts");
        fields.error("verdicts", line, message);
        return None;
    }
    Some(Verdicts::Words(words))
}

fn default_words(words: &[(&str, f64)]) -> BTreeMap<String, f64> {
    words.iter().map(|(word, worth)| ((*word).to_owned(), *worth)).collect()
}

fn is_scale([from, to]: &[f64; 2]) -> Result<(), String> {
    if from.is_finite() && to.is_finite() && from < to {
        return Ok(());
    }
    Err(format!("must be the worst and the best number, but is {from} and {to}"))
}

fn are_verdicts(words: &BTreeMap<String, f64>) -> Result<(), String> {
    let mut seen = Vec::new();
    for (word, worth) in words {
        let folded = word.to_lowercase();
        if word.is_empty() || word.trim() != word || word.lines().count() > 1 {
            return Err(format!("{word:?} is no word that a line can end with"));
        }
        if seen.contains(&folded) {
            return Err(format!("{word:?} is there twice but for its case"));
        }
        seen.push(folded);
        if !(0.0..=1.0).contains(worth) {
            return Err(format!("{word} must be worth 0 to 1, but is worth {worth}"));
        }
    }
    let mut worths = words.values();
    let first = worths.next().copied().unwrap_or_default();
    if words.len() < 2 || worths.all(|worth| *worth == first) {
        return Err("must be at least two words of different worth".to_owned());
    }
    Ok(())
}

fn is_name(name: &String) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    if !name.is_empty() && name.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!(
        "{name:?} must be the name of a judge in the graders' configuration, of letters, digits, - and _; \
         its address stands there"
    ))
}

/// A verdict with what does not count in a reply is none that a reply can be equal to.
fn are_read(fields: &mut Fields<'_, '_>, words: &[(String, f64)], form: VerdictForm) {
    let unread = words.iter().find(|(word, _)| form.verdict(word) != word);
    if let Some((word, _)) = unread {
        let line = fields.line_of_field("verdicts");
        let read = form.verdict(word);
        let message = format!(
            "{word:?} is never read: of a line's last word, marks around it and a full stop do not count, so it is {read:?}; write \
             that, or form = \"json\""
        );
        fields.error("verdicts", line, message);
    }
}

fn is_label(label: &String, form: VerdictForm) -> Result<(), String> {
    if form.label(label) != label {
        return Err(format!(
            "{label:?} is never read: of what stands before the colon, marks around it do not count; write {:?}",
            form.label(label)
        ));
    }
    if label.is_empty() || label.trim() != label || label.contains([':', '：', '\n', '*', '`', '"']) {
        return Err(format!("{label:?} is no word that a colon can follow"));
    }
    Ok(())
}

/// A row as a judge's templates see it: its columns; `question`, `target`, `format` and the answer, whatever the columns are
/// called; and the row itself, for columns that are called so.
pub(crate) fn context(spec: &JudgeSpec, row: &Value, prompt: &Prompt, targets: &[String]) -> Value {
    let question = match prompt {
        Prompt::Text(text) => text.as_str(),
        Prompt::Chat(messages) => {
            let asked = messages
                .iter()
                .rfind(|message| message.role == "user")
                .or(messages.last());
            asked.map_or("", |message| message.content.as_str())
        }
    };
    let mut names: BTreeMap<String, Value> = BTreeMap::new();
    for key in row.try_iter().into_iter().flatten() {
        if let (Some(name), Ok(value)) = (key.as_str(), row.get_item(&key)) {
            names.insert(name.to_owned(), value);
        }
    }
    let ours = [
        ("question", Value::from(question)),
        ("target", Value::from(targets.first().map_or("", String::as_str))),
        ("targets", Value::from(targets.to_vec())),
        ("format", Value::from(spec.wanted())),
        ("row", row.clone()),
    ];
    let marks = if spec.is_pair {
        vec![("answer_a", FIRST_MARK), ("answer_b", SECOND_MARK)]
    } else {
        vec![("answer", ANSWER_MARK)]
    };
    names.extend(ours.map(|(name, value)| (name.to_owned(), value)));
    names.extend(
        marks
            .into_iter()
            .map(|(name, mark)| (name.to_owned(), Value::from(mark))),
    );
    Value::from(names)
}

/// Checks what a template gave for one row: the answer is in it, as it is.
pub(crate) fn checked(spec: &JudgeSpec, name: &str, text: String) -> Result<String, String> {
    if name != JUDGE_PROMPT {
        return Ok(text);
    }
    let marks = if spec.is_pair {
        vec![("answer_a", FIRST_MARK), ("answer_b", SECOND_MARK)]
    } else {
        vec![("answer", ANSWER_MARK)]
    };
    match marks.into_iter().find(|(_, mark)| !text.contains(mark)) {
        Some((missing, _)) => Err(format!(
            "does not show the answer: it must hold {{{{ {missing} }}}} as it is, without a filter"
        )),
        None => Ok(text),
    }
}
