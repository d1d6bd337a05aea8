//! What a target names among choices: an index, a letter or a text.

use serde_json::json;
use tidemill_domain::Normalise;

use super::*;
use crate::template::context;

const LIKELIHOOD: GraderSpec = GraderSpec::Likelihood {
    normalise: Normalise::None,
};
const CHOICE: GraderSpec = GraderSpec::Choice { pattern: None };
const EXACT: GraderSpec = GraderSpec::Exact {
    ignore_case: false,
    ignore_punctuation: false,
};

fn settle(grader: &GraderSpec, target: serde_json::Value, choices: &[&str]) -> Result<Answer, String> {
    resolved(grader, target, choices, false)
}

fn resolved(
    grader: &GraderSpec,
    target: serde_json::Value,
    choices: &[&str],
    unanswerable: bool,
) -> Result<Answer, String> {
    let serde_json::Value::Object(columns) = json!({ "target": target }) else {
        panic!("an object");
    };
    let target = context(&columns).get_attr("target").unwrap();
    let choices = choices.iter().map(|choice| (*choice).to_owned()).collect();
    resolve(grader, &target, choices, unanswerable)
}

const SQUAD: GraderSpec = GraderSpec::F1 { words: Words::Squad };

#[test]
fn an_empty_target_is_a_mistake_unless_questions_may_have_no_answer() {
    for grader in [&SQUAD, &EXACT] {
        for empty in [json!([]), json!(""), json!(["", " "])] {
            let said = settle(grader, empty.clone(), &[]).unwrap_err();
            assert!(said.contains("empty") && said.contains("unanswerable = true"), "{said}");
            assert_eq!(resolved(grader, empty, &[], true).unwrap().targets, [""]);
        }
        let some = resolved(grader, json!(["", "Paris"]), &[], true).unwrap();
        assert_eq!(some.targets, ["Paris"], "it has an answer");
    }
}

#[test]
fn a_target_of_which_nothing_is_left_is_refused_and_doubted_beside_others() {
    let normalised = |normalisers: &[Normaliser]| GraderSpec::ExactNormalised {
        normalisers: normalisers.to_vec(),
    };
    let both = normalised(&[Normaliser::Punctuation, Normaliser::Articles]);
    let bare = GraderSpec::Exact {
        ignore_case: false,
        ignore_punctuation: true,
    };
    for (grader, target) in [(&SQUAD, "The"), (&SQUAD, "a ..."), (&both, "“The”"), (&bare, "?!")] {
        let said = settle(grader, json!(target), &[]).unwrap_err();
        assert!(said.contains("is nothing once it is normalised"), "{said}");
        let doubted = settle(grader, json!([target, "The Who"]), &[]).unwrap();
        assert_eq!(doubted.targets, [target, "The Who"], "what a suite means stays");
        assert!(doubted.ambiguity.unwrap().contains("take it out"));
        assert!(
            resolved(grader, json!(target), &[], true).is_err(),
            "a mistake there too"
        );
    }
    for (grader, target) in [(&EXACT, "..."), (&bare, "the"), (&both, "them"), (&SQUAD, "…")] {
        assert_eq!(settle(grader, json!(target), &[]).unwrap().ambiguity, None, "{target}");
    }
}

fn correct(target: serde_json::Value, choices: &[&str]) -> Option<u32> {
    settle(&LIKELIHOOD, target, choices).unwrap().correct
}

fn accepted(grader: &GraderSpec, target: serde_json::Value, choices: &[&str]) -> Vec<String> {
    settle(grader, target, choices).unwrap().targets
}

#[test]
fn an_integer_is_an_index_and_a_text_is_a_choice_or_an_index() {
    let choices = ["yes", "no", "maybe"];
    assert_eq!(correct(json!(2), &choices), Some(2));
    assert_eq!(correct(json!("2"), &choices), Some(2));
    assert_eq!(correct(json!("no"), &choices), Some(1));
    assert_eq!(accepted(&LIKELIHOOD, json!(2), &choices), ["maybe"]);
    assert!(settle(&LIKELIHOOD, json!("No"), &choices).is_err());
    assert!(settle(&LIKELIHOOD, json!("3"), &choices).is_err());
    assert!(
        settle(&LIKELIHOOD, json!("b"), &choices).is_err(),
        "letters name nothing here"
    );
}

#[test]
fn a_number_among_choices_that_are_numbers_goes_by_its_type_and_the_doubt_is_told() {
    let choices = ["0", "1", "3", "2"];
    assert_eq!(correct(json!(3), &choices), Some(3));
    let by_text = settle(&LIKELIHOOD, json!("3"), &choices).unwrap();
    assert_eq!(by_text.correct, Some(2));
    assert!(by_text.ambiguity.unwrap().contains("choice 2 is taken"));
    assert_eq!(settle(&LIKELIHOOD, json!("1"), &choices).unwrap().ambiguity, None);
}

#[test]
fn equal_choices_are_told_apart_by_index_alone() {
    assert_eq!(correct(json!(1), &["x", "x"]), Some(1));
    assert!(settle(&LIKELIHOOD, json!("x"), &["x", "x"]).is_err());
}

#[test]
fn a_letter_an_index_and_a_text_name_the_same_letter() {
    let choices = ["red", "green", "blue"];
    for target in [
        json!("C"),
        json!("c"),
        json!(2),
        json!("2"),
        json!("blue"),
        json!(["C"]),
    ] {
        let answer = settle(&CHOICE, target.clone(), &choices).unwrap();
        assert_eq!(
            (answer.targets.as_slice(), answer.correct),
            (&["C".to_owned()][..], Some(2)),
            "{target}"
        );
    }
    assert!(settle(&CHOICE, json!("D"), &choices).is_err());
    assert!(settle(&CHOICE, json!(3), &choices).is_err());
}

#[test]
fn letters_need_no_choices() {
    assert_eq!(accepted(&CHOICE, json!("b"), &[]), ["B"]);
    assert_eq!(accepted(&CHOICE, json!(25), &[]), ["Z"]);
    assert_eq!(accepted(&CHOICE, json!(["A", "C"]), &[]), ["A", "C"]);
    assert_eq!(settle(&CHOICE, json!("b"), &[]).unwrap().correct, None);
}

#[test]
fn a_choice_that_is_itself_a_letter_wins_over_its_position() {
    let answer = settle(&CHOICE, json!("A"), &["B", "A"]).unwrap();
    assert_eq!(answer.targets, ["B"]);
    assert!(answer.ambiguity.is_some());
}

#[test]
fn as_many_choices_as_letters_are_allowed() {
    let choices: Vec<String> = (0..27).map(|index| format!("choice {index}")).collect();
    let choices: Vec<&str> = choices.iter().map(String::as_str).collect();
    assert_eq!(accepted(&CHOICE, json!(25), &choices[..26]), ["Z"]);
    assert!(settle(&CHOICE, json!(0), &choices).is_err());
    assert_eq!(correct(json!(26), &choices), Some(26));
}

#[test]
fn a_list_accepts_each_of_its_elements() {
    assert_eq!(
        accepted(&EXACT, json!(["Paris", "paris, France", 75]), &[]),
        ["Paris", "paris, France", "75"]
    );
    assert_eq!(accepted(&EXACT, json!("[1, 2]"), &[]), ["[1, 2]"]);
    assert_eq!(accepted(&EXACT, json!(true), &[]), ["True"]);
}

#[test]
fn a_target_that_no_grader_can_compare_is_refused_and_one_of_several_readings_is_doubted() {
    let numeric = GraderSpec::Numeric {
        pattern: None,
        tolerance: 0.0,
    };
    assert!(settle(&numeric, json!("2^10"), &[]).is_err());
    assert!(settle(&numeric, json!(["5", "x=5 or 6"]), &[]).is_err());
    assert!(
        settle(&numeric, json!(["5", "5 of 6"]), &[])
            .unwrap()
            .ambiguity
            .is_some()
    );
    assert_eq!(settle(&numeric, json!([5, -0.5]), &[]).unwrap().ambiguity, None);
    let math = GraderSpec::Math { pattern: None };
    for marks in [
        r"\boxed{}",
        "$$",
        "...",
        r"\[ \]",
        r"\boxed{$ $}",
        r"\text{}",
        r"$\textbf{ }$",
    ] {
        let said = settle(&math, json!(marks), &[]).unwrap_err();
        assert!(said.contains("nothing is left"), "{said}");
    }
    for unclosed in [r"\boxed{5", r"so \boxed{\frac{1}{2}", r"\fbox{5\}"] {
        let said = settle(&math, json!(unclosed), &[]).unwrap_err();
        assert!(said.contains("never closes"), "{said}");
    }
    for formula in [
        r"\{\}",
        r"\emptyset",
        "0",
        r"\boxed{x}",
        "∞",
        r"\boxed{\{1, 2\}}",
        r"\text{E}",
    ] {
        assert!(settle(&math, json!(formula), &[]).is_ok(), "{formula}");
    }
    let rouge = GraderSpec::Rouge {
        measure: tidemill_domain::RougeMeasure::One,
        stem: true,
    };
    for wordless in ["日本語", "..."] {
        assert!(
            settle(&rouge, json!(wordless), &[])
                .unwrap_err()
                .contains("has no words")
        );
        assert!(
            settle(&rouge, json!([wordless, "a cat"]), &[])
                .unwrap()
                .ambiguity
                .is_some()
        );
    }
    assert_eq!(settle(&rouge, json!("Der Bär"), &[]).unwrap().ambiguity, None);
}

#[test]
fn json_of_a_target_keeps_its_digits_or_is_refused() {
    let schema = GraderSpec::JsonSchema {
        check: JsonCheck::Equal,
        schema: None,
    };
    assert_eq!(accepted(&schema, json!(u64::MAX), &[]), ["18446744073709551615"]);
    assert_eq!(accepted(&schema, json!(-0.5), &[]), ["-0.5"]);
    for wrong in ["1e400", r#""\ud800""#, "[1,"] {
        assert!(
            settle(&schema, json!(wrong), &[]).unwrap_err().contains("is not JSON"),
            "{wrong}"
        );
    }
}
