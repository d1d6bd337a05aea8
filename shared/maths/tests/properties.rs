//! What holds of all answers: formatting makes no difference, and nothing is too strange to read.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may fail this way"
)]

use proptest::prelude::*;
use tidemill_maths::{Answer, Steps, Verdict, boxes, compare, equal, last_formula, unwrapped};

/// A formula in LaTeX.
fn formula() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        (0_u32..2_000).prop_map(|number| number.to_string()),
        (0_u32..100, 1_u32..100).prop_map(|(whole, part)| format!("{whole}.{part:02}")),
        Just("x".to_owned()),
        Just("y".to_owned()),
        Just(r"\pi".to_owned()),
        (2_u32..50).prop_map(|number| format!(r"\sqrt{{{number}}}")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("{one} + {other}")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!("({one}) - ({other})")),
            (inner.clone(), inner.clone()).prop_map(|(one, other)| format!(r"({one}) \cdot ({other})")),
            (inner.clone(), 1_u32..40).prop_map(|(above, below)| format!(r"\frac{{{above}}}{{{below}}}")),
            (inner, 1_u32..4).prop_map(|(base, exponent)| format!("({base})^{{{exponent}}}")),
        ]
    })
}

fn collection() -> impl Strategy<Value = String> {
    (prop::collection::vec(formula(), 1..4), 0..4_usize).prop_map(|(items, kind)| match kind {
        0 => items.join(", "),
        1 => format!(r"\{{{}\}}", items.join(", ")),
        2 => format!("({})", items.join(", ")),
        _ => format!("z = {}", items[0]),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_equals_itself_rewritten(answer in collection(), rewrite in 0..8_usize) {
        let rewritten = match rewrite {
            0 => format!("${answer}$"),
            1 => format!(r"\boxed{{{answer}}}"),
            2 => answer.replace(r"\frac", r"\dfrac"),
            3 => answer.replace(' ', "  "),
            4 => format!(r"\left.{answer}\right."),
            5 => answer.replace(r"\cdot", "*").replace(r"\pi", "π"),
            6 => answer.replace('(', r"\left(").replace(')', r"\right)"),
            _ => format!("{answer}."),
        };
        prop_assert!(equal(&answer, &rewritten), "{answer}  against  {rewritten}");
        prop_assert_eq!(Answer::read(&answer).canonical(), Answer::read(&rewritten).canonical());
    }

    #[test]
    fn equality_is_symmetric_and_follows_from_equal_canonical_forms(one in collection(), other in collection()) {
        prop_assert_eq!(equal(&one, &other), equal(&other, &one));
        let (form, another) = (Answer::read(&one).canonical(), Answer::read(&other).canonical());
        prop_assert!(form != another || equal(&one, &other), "{} and {}", form, another);
    }

    #[test]
    fn formulas_are_equal_exactly_when_their_canonical_forms_are(one in formula(), other in formula(), by in 1_u32..9) {
        let doubled = format!(r"({one}) \cdot {by} - \frac{{{by}}}{{1}} \cdot ({one}) + ({other})");
        let form = |text: &str| Answer::read(text).canonical();
        prop_assert!(equal(&doubled, &other));
        prop_assert_eq!(form(&doubled), form(&other));
        prop_assert_eq!(equal(&one, &other), form(&one) == form(&other));
    }

    #[test]
    fn a_number_differs_from_its_neighbour(digits in "[1-9][0-9]{0,30}", decimals in "[0-9]{0,20}[1-9]") {
        let number = format!("{digits}.{decimals}");
        let (padded, longer) = (format!("{number}00"), format!("{number}1"));
        prop_assert!(equal(&number, &padded));
        prop_assert!(!equal(&number, &longer));
        prop_assert!(!equal(&number, &digits));
    }

    #[test]
    fn sums_are_in_no_order(mut terms in prop::collection::vec(formula(), 2..5)) {
        let sum = terms.iter().map(|term| format!("({term})")).collect::<Vec<_>>().join("+");
        terms.reverse();
        let reversed = terms.iter().map(|term| format!("({term})")).collect::<Vec<_>>().join("+");
        prop_assert!(equal(&sum, &reversed));
    }

    #[test]
    fn garbage_is_read_within_the_budget(text in garbage(), other in garbage()) {
        unharmed(&text, &other);
    }
}

fn garbage() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            r"\frac",
            r"\sqrt",
            r"\left",
            r"\right",
            r"\boxed",
            r"\text",
            r"\begin{pmatrix}",
            r"\end{pmatrix}",
            "{",
            "}",
            "(",
            ")",
            "[",
            "]",
            "^",
            "_",
            "!",
            "|",
            "&",
            r"\\",
            r"\pm",
            r"\cup",
            r"\infty",
            r"\overline",
            "$",
            r"\{",
            r"\}",
            "%",
            ",",
            "=",
            "<",
            "sin",
            "log",
            "cm",
            "e",
            "i",
            "x",
            "1",
            "9",
            "0.",
            "1e999",
            "/",
            "-",
            "+",
            "*",
            "\0",
            "\u{202e}",
            "א",
            "é",
            "𝜋",
            "½",
            "²",
            " ",
        ])
        .prop_map(str::to_owned),
        any::<char>().prop_map(String::from),
        (0_u64..u64::MAX).prop_map(|number| number.to_string()),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Reads and compares without a panic and within the steps allowed.
fn unharmed(text: &str, other: &str) {
    let mut steps = Steps::default();
    let one = Answer::read_within(text, &mut steps);
    let another = Answer::read_within(other, &mut steps);
    let comparison = compare(&one, &another, &mut steps);
    assert!(steps.taken() <= Steps::DEFAULT);
    assert!(one.canonical().len() <= tidemill_maths::MAX_CANONICAL_BYTES);
    if text == other && !one.is_empty() {
        assert_eq!(comparison.verdict, Verdict::Equal);
    }
    let found = boxes(text);
    if let Some(boxed) = found.last {
        assert_eq!(&text[boxed.range], boxed.content);
        assert!(boxed.content.contains(unwrapped(boxed.content)));
    }
    if let Some(range) = last_formula(text) {
        assert!(text.get(range).is_some());
    }
}

#[test]
fn what_no_answer_looks_like_does_no_harm() {
    let million = 1 << 20;
    let deep = |open: &str, close: &str, times: usize| format!("{}1{}", open.repeat(times), close.repeat(times));
    let texts = [
        "\0".to_owned(),
        "\u{202e}5\u{202c}".to_owned(),
        "x".repeat(10 * million),
        "{".repeat(2 * million),
        r"\boxed{".repeat(million / 4),
        "$".repeat(2 * million),
        "9".repeat(4_000),
        "9,999".repeat(800),
        deep("(", ")", 2_000),
        deep("{", "}", 2_000),
        deep(r"\sqrt{", "}", 500),
        deep(r"\frac{1}{", "}", 400),
        deep("|", "|", 1_000),
        deep(r"\text{", "}", 500),
        "-".repeat(4_000) + "1",
        "2^".repeat(2_000) + "2",
        "9^9^9^9^9".to_owned(),
        "(x+y+z+w+1)^{60}".to_owned(),
        "(a+b)^{20}(c+d)^{20}(x+y)^{20}".to_owned(),
        "9999999999!".to_owned(),
        "500!^{500}".to_owned(),
        r"e^{e^{e^{e^{e^{9}}}}}".to_owned(),
        r"\sin 10^{300}".to_owned(),
        r"\log_{1} 5 + \ln 0".to_owned(),
        r"0^{-1} + 0^0 + \frac{0}{0}".to_owned(),
        r"\sqrt{".to_owned() + &"7".repeat(1_200) + "}",
        r"\sqrt[99999999]{2}".to_owned(),
        "x^{99999999}".to_owned(),
        "1/".repeat(2_000) + "3",
        r"\pm".repeat(1_000) + "1",
        (0..800).map(|index| index.to_string()).collect::<Vec<_>>().join(", "),
    ];
    for text in &texts {
        unharmed(text, "5");
        unharmed(text, text);
        if text.len() <= tidemill_maths::MAX_BYTES {
            unharmed(text, &format!("{text}+0"));
        }
    }
}

#[test]
fn a_small_budget_leaves_it_undecided() {
    let mut steps = Steps::new(500);
    let (one, other) = (Answer::read("(x+y+1)^{20}"), Answer::read("(1+y+x)^{20}"));
    assert_eq!(compare(&one, &other, &mut steps).verdict, Verdict::Undecided);
    assert_eq!(steps.taken(), 500);
    assert!(equal("(x+y+1)^{20}", "(1+y+x)^{20}"));
}
