//! Answers and endings that broke other tools, each with two neighbours, by the rows in which they are listed.

use tidemill_domain::{
    Completion, Digest, Ending, EvaluationId, GraderSpec, Item, ItemKey, Outcome, Served, Timestamp,
};

use crate::answer::tests::item;
use crate::grade;

const NUMERIC: GraderSpec = GraderSpec::Numeric {
    pattern: None,
    tolerance: 0.0,
};
const CHOICE: GraderSpec = GraderSpec::Choice { pattern: None };
const MATH: GraderSpec = GraderSpec::Math { pattern: None };
const EXACT: GraderSpec = GraderSpec::Exact {
    ignore_case: false,
    ignore_punctuation: false,
};

fn stopped(text: &str) -> Completion {
    Completion {
        key: ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
            benchmark: 0,
            item: 1,
            sample: 0,
        },
        manifest: Digest::of(b"manifest"),
        ending: Ending::Stop,
        text: text.to_owned(),
        reasoning: None,
        finish_reason: Some("stop".to_owned()),
        stop_reason: None,
        truncated: false,
        choices: Vec::new(),
        detail: None,
        prompt_tokens: 10,
        completion_tokens: 20,
        requests: 1,
        attempts: 1,
        cached: false,
        served: Served::default(),
        generation: None,
        engine: "engine".to_owned(),
        started: Timestamp(1),
        finished: Timestamp(2),
    }
}

fn cut(text: &str) -> Completion {
    Completion {
        ending: Ending::Length,
        finish_reason: Some("length".to_owned()),
        truncated: true,
        ..stopped(text)
    }
}

/// What an answer is graded as: the outcome, and the answer that was found.
type Expected = (Outcome, Option<&'static str>);

const fn right(answer: &'static str) -> Expected {
    (Outcome::Correct, Some(answer))
}

const fn wrong(answer: &'static str) -> Expected {
    (Outcome::Incorrect, Some(answer))
}

const NONE: Expected = (Outcome::NoAnswer, None);

fn check(rows: &[(&str, &GraderSpec, Item, Completion, Expected)]) {
    let mut failures = Vec::new();
    for (row, spec, item, completion, expected) in rows {
        let grade = grade(spec, item, completion, Timestamp(3));
        let found = (grade.outcome, grade.extracted.as_deref());
        if found != *expected {
            failures.push(format!(
                "{row}: {:?} gives {found:?}, not {expected:?}",
                completion.text
            ));
        }
        // What was found is shown where it stands, and why it is worth that much.
        if grade.extracted.is_some() {
            let is_explained = grade.reason.is_some() && grade.canonical.is_some() && grade.extractor.is_some();
            let span = grade.span.and_then(|span| {
                let range = usize::try_from(span.start).ok()?..usize::try_from(span.end).ok()?;
                completion.text.get(range)
            });
            if !is_explained || span.is_none_or(str::is_empty) {
                failures.push(format!("{row}: {:?} is not explained: {grade:?}", completion.text));
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

fn to(target: &str) -> Item {
    item(&[target], &[])
}

#[test]
fn reasoning_that_never_ends_holds_no_answer() {
    check(&[
        ("A1", &CHOICE, to("B"), stopped("<think>so Answer: B"), NONE),
        (
            "A1 neighbour: closed",
            &CHOICE,
            to("B"),
            stopped("<think>Answer: A</think>Answer: B"),
            right("B"),
        ),
        (
            "A1 neighbour: opened again",
            &CHOICE,
            to("B"),
            stopped("Answer: B <think>or Answer: B"),
            NONE,
        ),
        ("A1", &MATH, to("4"), stopped(r"<think>\boxed{4}"), NONE),
        (
            "A1 neighbour: the template opened it",
            &MATH,
            to("4"),
            stopped(r"\boxed{3}</think>\boxed{4}"),
            right("4"),
        ),
    ]);
}

#[test]
fn the_last_balanced_box_counts_without_its_wrappers() {
    let corrected = r"\boxed{5} ... corrected ... \boxed{\frac{1}{2}}";
    check(&[
        ("A2", &MATH, to("0.5"), stopped(corrected), right(r"\frac{1}{2}")),
        ("A2", &MATH, to("5"), stopped(corrected), wrong(r"\frac{1}{2}")),
        (
            "A2",
            &MATH,
            to("E"),
            stopped(r"so \boxed{\text{E}}"),
            right(r"\text{E}"),
        ),
        ("A2", &CHOICE, to("E"), stopped(r"so \boxed{\text{E}}"), right("E")),
        (
            "A2",
            &MATH,
            to("7"),
            stopped(r"\boxed{7}, or rather \boxed{"),
            right("7"),
        ),
        (
            "A2 neighbour: framed",
            &MATH,
            to("7"),
            stopped(r"\fbox{$7$} and $8$"),
            right("$7$"),
        ),
        (
            "A2 neighbour: a box in a box",
            &MATH,
            to("7"),
            stopped(r"\boxed{\boxed{7}}"),
            right(r"\boxed{7}"),
        ),
        (
            "A2 neighbour: only an unclosed one",
            &MATH,
            to("6"),
            stopped(r"so $x=6$: \boxed{6"),
            right("x=6"),
        ),
        ("A2", &NUMERIC, to("0.5"), stopped(corrected), right("1/2")),
    ]);
}

#[test]
fn numbers_are_numbers_however_they_are_written() {
    for (text, number) in [
        ("$9{,}500", "9500"),
        ("8,000", "8000"),
        ("$29.00", "29"),
        ("72 clips, altogether.", "72"),
        ("1.5e3", "1500"),
        ("-0", "0"),
        (r"neighbour: 9\,500 \text{ m}", "9500"),
        ("neighbour: -$1,234.50", "-1234.5"),
    ] {
        let grade = grade(&NUMERIC, &to(number), &stopped(text), Timestamp(3));
        assert_eq!((grade.outcome, grade.extracted.as_deref()), right(number), "A3: {text}");
        let other = match number.strip_prefix('-') {
            Some(digits) => format!("-1{digits}"),
            None => format!("1{number}"),
        };
        let grade = crate::grade(&NUMERIC, &to(&other), &stopped(text), Timestamp(3));
        assert_eq!(grade.outcome, Outcome::Incorrect, "A3: {text} against {other}");
    }
    check(&[
        (
            "A3 neighbour: no float is that exact",
            &NUMERIC,
            to("0.1"),
            stopped("0.10000000000000001"),
            wrong("0.10000000000000001"),
        ),
        (
            "A3 neighbour: no number",
            &NUMERIC,
            to("72"),
            stopped("some clips"),
            NONE,
        ),
        (
            "A3",
            &MATH,
            to("9500"),
            stopped(r"\boxed{\$9{,}500}"),
            right(r"\$9{,}500"),
        ),
        (
            "A3",
            &MATH,
            to("72"),
            stopped("So there are 72 clips, altogether."),
            right("72"),
        ),
        (
            "A3",
            &MATH,
            to("1500"),
            stopped(r"\boxed{1.5 \times 10^3}"),
            right(r"1.5 \times 10^3"),
        ),
    ]);
}

#[test]
fn the_last_announced_choice_counts_and_no_article() {
    check(&[
        (
            "A4",
            &CHOICE,
            to("D"),
            stopped("Answer: A ... wait ... **Answer: D**"),
            right("D"),
        ),
        (
            "A4",
            &CHOICE,
            to("B"),
            stopped("The answer is B because a car moves"),
            right("B"),
        ),
        (
            "A4 neighbour: only an article",
            &CHOICE,
            to("A"),
            stopped("The answer is a car"),
            NONE,
        ),
        (
            "A4 neighbour: claimed after",
            &CHOICE,
            to("C"),
            stopped("Answer: B? No, (C) is correct."),
            right("C"),
        ),
        (
            "A4 neighbour: mentioned only",
            &CHOICE,
            to("A"),
            stopped("(A) and (B) are both close"),
            NONE,
        ),
    ]);
}

#[test]
fn answers_are_announced_in_every_language() {
    for text in [
        "Antwort: C",
        "答案：C",
        "neighbour: Réponse : C",
        "neighbour: La respuesta correcta es C.",
        "neighbour: Ответ: C",
        "neighbour: 答えはCです",
        "neighbour: 정답은 C입니다",
        "neighbour: \u{200f}الإجابة: C",
        "neighbour: उत्तर: C",
        "neighbour: Risposta: (C)",
        "neighbour: Đáp án: C",
    ] {
        let grade = grade(&CHOICE, &to("C"), &stopped(text), Timestamp(3));
        assert_eq!((grade.outcome, grade.extracted.as_deref()), right("C"), "A5: {text}");
        let span = grade.span.unwrap();
        let written = &text[usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()];
        assert_eq!(written, "C", "A5: {text}");
    }
}

#[test]
fn a_success_without_a_word_is_empty_and_not_wrong() {
    let silent = |text: &str, tokens| Completion {
        completion_tokens: tokens,
        ..stopped(text)
    };
    let empty = (Outcome::Empty, None);
    check(&[
        ("E1", &EXACT, to("4"), silent("", 0), empty),
        ("E1", &MATH, to("4"), silent(" \n", 0), empty),
        ("E1 neighbour: tokens without text", &MATH, to("4"), silent("", 3), NONE),
        (
            "E1 neighbour: an engine that does not count",
            &MATH,
            to("4"),
            silent("4", 0),
            right("4"),
        ),
    ]);
}

#[test]
fn a_cut_inside_the_reasoning_is_no_answer_and_said() {
    let reasoned = |completion: Completion| Completion {
        reasoning: Some("Answer: B, or".to_owned()),
        ..completion
    };
    let truncated = (Outcome::Truncated, None);
    check(&[
        ("E2", &CHOICE, to("B"), reasoned(cut("")), truncated),
        (
            "E2 neighbour: in the text",
            &CHOICE,
            to("B"),
            cut("<think>Answer: B, or"),
            truncated,
        ),
        (
            "E2 neighbour: the answer had begun",
            &CHOICE,
            to("B"),
            reasoned(cut("Answer: B")),
            (Outcome::Truncated, Some("B")),
        ),
    ]);
    let inside = |completion: &Completion| grade(&CHOICE, &to("B"), completion, Timestamp(3)).cut_in_reasoning;
    assert!(inside(&reasoned(cut(""))), "E2");
    assert!(inside(&cut("<think>Answer: B, or")), "E2 neighbour");
    assert!(!inside(&reasoned(cut("Answer: B"))), "E2 neighbour");
}

#[test]
fn a_stop_at_the_cap_is_a_cut() {
    let at_cap = |text: &str| Completion {
        truncated: true,
        ..stopped(text)
    };
    check(&[
        (
            "E3",
            &MATH,
            to("4"),
            at_cap(r"so \boxed{4}"),
            (Outcome::Truncated, Some("4")),
        ),
        (
            "E3 neighbour: below the cap",
            &MATH,
            to("4"),
            stopped(r"so \boxed{4}"),
            right("4"),
        ),
        (
            "E3 neighbour: nothing found",
            &MATH,
            to("4"),
            at_cap("so it"),
            (Outcome::Truncated, None),
        ),
    ]);
}

#[test]
fn an_answer_before_the_cut_is_kept_beside_it() {
    for (row, text, extracted, before_cut) in [
        ("E4", r"\boxed{4} and now", Some("4"), Some(1.0)),
        ("E4 neighbour: a wrong one", r"\boxed{5} and now", Some("5"), Some(0.0)),
        ("E4 neighbour: none", r"and now", None, None),
    ] {
        let grade = grade(&MATH, &to("4"), &cut(text), Timestamp(3));
        assert_eq!(
            (grade.outcome, grade.score, grade.truncated),
            (Outcome::Truncated, 0.0, true),
            "{row}"
        );
        assert_eq!(
            (grade.extracted.as_deref(), grade.score_before_cut),
            (extracted, before_cut),
            "{row}"
        );
    }
}
