//! Which option a text names, and which texts name none.

use super::*;
use crate::answer::tests::item;

const CITIES: [&str; 4] = ["Paris", "New York", "York", "a car"];

fn find(text: &str) -> Option<String> {
    find_with(None, text)
}

fn find_with(pattern: Option<&str>, text: &str) -> Option<String> {
    let choice = Choice::try_new(pattern).unwrap();
    choice
        .judge(&item(&["B"], &CITIES), &Answer::whole(text))
        .unwrap()
        .map(|finding| finding.extracted)
}

fn assert_finds(cases: &[(&str, &str)]) {
    for (text, letter) in cases {
        assert_eq!(find(text).as_deref(), Some(*letter), "{text}");
    }
}

fn assert_finds_none(cases: &[&str]) {
    for text in cases {
        assert_eq!(find(text), None, "{text}");
    }
}

#[test]
fn the_last_announced_answer_counts() {
    assert_finds(&[
        ("Answer: A ... wait ... **Answer: D**", "D"),
        ("The answer is B because a car moves", "B"),
        ("Answer: A\nFinal answer: option (C). It was not B.", "C"),
        ("**Answer:** (b)\n", "B"),
        ("The correct answer is **D**, not A.", "D"),
        ("The answer is A because of this", "A"),
        ("I choose C since it fits", "C"),
        ("Answer: the answer is\n\nD", "D"),
        ("(B) is the correct answer", "B"),
        ("Answer: A. No, B is correct.", "B"),
    ]);
}

#[test]
fn answers_are_announced_in_many_languages() {
    assert_finds(&[
        ("Antwort: C", "C"),
        ("答案：C", "C"),
        ("所以答案是C项。", "C"),
        ("Die richtige Antwort lautet B.", "B"),
        ("La réponse est (D).", "D"),
        ("La respuesta correcta es: Respuesta: C", "C"),
        ("La respuesta correcta es C.", "C"),
        ("La risposta corretta è la B.", "B"),
        ("Ответ: C", "C"),
        ("答えはＣです", "C"),
        ("정답은 C입니다", "C"),
        ("\u{200f}الإجابة: C\u{200f}", "C"),
    ]);
}

#[test]
fn an_article_is_no_answer() {
    assert_finds_none(&[
        "To answer a question like this needs thought",
        "The answer is a matter of taste",
        "The answer: A dog would know",
        "Answer: I think so",
    ]);
    assert_finds(&[
        ("The answer is a.", "A"),
        ("answer: a", "A"),
        ("Answer: a because it is", "A"),
    ]);
}

#[test]
fn a_letter_is_no_part_of_a_word() {
    assert_finds_none(&[
        "Answer: Because",
        "Answer: B2",
        "The answers: C_x",
        "Answer: Dé",
        "Answer: E",
    ]);
}

#[test]
fn boxes_count_by_their_place() {
    assert_finds(&[
        (r"\boxed{C}", "C"),
        (r"Answer: A, rather $\boxed{\text{D}}$", "D"),
        (r"\boxed{A} but finally: Answer: B", "B"),
        (r"\boxed{New York}", "B"),
        (r"\boxed{A} and \boxed{B", "A"),
    ]);
}

#[test]
fn a_sole_letter_in_any_dress_is_an_answer() {
    assert_finds(&[
        ("C", "C"),
        ("(C)", "C"),
        (" **c**. ", "C"),
        ("C) York", "C"),
        ("\u{200f}C\u{200f}", "C"),
    ]);
    assert_finds(&[("Well, I say (C), that is it", "C"), ("Both times:\n(D) and (D)", "D")]);
    assert_finds_none(&["Either (A) or (B)", "A. one\nB. two", "", "\0", "E"]);
}

#[test]
fn the_text_of_an_option_is_an_answer() {
    assert_finds(&[
        ("Paris", "A"),
        ("paris!", "A"),
        ("The answer is New York.", "B"),
        ("Answer: a car", "D"),
        ("Let me think.\nIt must be New York", "B"),
        ("It is york", "C"),
    ]);
    assert_finds_none(&["Paris or York", "Yorkshire", "Parisian"]);
}

#[test]
fn a_pattern_narrows_the_place() {
    let pattern = Some(r"<answer>(.*?)</answer>");
    assert_eq!(find_with(pattern, "Answer: A <answer>C</answer>").as_deref(), Some("C"));
    assert_eq!(
        find_with(pattern, "<answer>A</answer> <answer>york</answer>").as_deref(),
        Some("C")
    );
    assert_eq!(find_with(pattern, "Answer: A"), None);
}

#[test]
fn the_right_choice_is_an_index_a_letter_or_a_text() {
    let choice = Choice::try_new(None).unwrap();
    let answer = Answer::whole("Answer: B");
    let judge = |item: &Item| {
        let finding = choice.judge(item, &answer);
        finding.map(|finding| finding.unwrap().credit == Credit::Whole(true))
    };
    assert_eq!(judge(&item(&["B"], &CITIES)), Ok(true));
    assert_eq!(judge(&item(&["new york"], &CITIES)), Ok(true));
    assert_eq!(judge(&item(&["C"], &[])), Ok(false));
    let by_index = Item {
        correct_choice: Some(1),
        ..item(&[], &CITIES)
    };
    assert_eq!(judge(&by_index), Ok(true));
    assert!(judge(&item(&["Rome"], &CITIES)).is_err());
    assert!(
        judge(&Item {
            correct_choice: Some(4),
            ..item(&[], &CITIES)
        })
        .is_err()
    );
}

const COLOURS: [&str; 4] = ["red", "green", "blue", "pink"];

fn find_in(options: &[&str], text: &str) -> Option<String> {
    let item = Item {
        correct_choice: Some(0),
        ..item(&[], options)
    };
    let finding = Choice::try_new(None)
        .unwrap()
        .judge(&item, &Answer::whole(text))
        .unwrap();
    finding.map(|finding| finding.extracted)
}

fn assert_found(options: &[&str], cases: &[(&str, Option<&str>)]) {
    for (text, letter) in cases {
        assert_eq!(find_in(options, text).as_deref(), *letter, "{options:?}: {text}");
    }
}

#[test]
fn signs_points_and_marks_tell_options_apart() {
    assert_found(
        &["12", "-12"],
        &[
            ("The answer is -12.", Some("B")),
            ("The answer is \u{2212}12.", Some("B")),
            ("The answer is 12.", Some("A")),
            ("Answer - 12", None),
            ("Answer -12", Some("B")),
            ("So it is -12", Some("B")),
        ],
    );
    assert_found(
        &["3", "4"],
        &[
            ("Answer: -3", None),
            ("Answer: +3", Some("A")),
            ("Answer: **3**", Some("A")),
        ],
    );
    assert_found(&["-3", "4"], &[("Answer: -3", Some("A")), ("Answer: 3", None)]);
    assert_found(
        &["15", "1.5"],
        &[
            (r"\boxed{1.5}", Some("B")),
            (r"\boxed{15}", Some("A")),
            ("It is 1.5.", Some("B")),
            ("15.", Some("A")),
        ],
    );
    assert_found(
        &["12", "12.75"],
        &[
            ("Answer: 12.5", None),
            ("Answer: 12.75.", Some("B")),
            ("Answer: 12. It follows.", Some("A")),
            ("Answer: 12 apples", Some("A")),
        ],
    );
    assert_found(
        &["x<3", "x>3"],
        &[
            ("Answer: x > 3", Some("B")),
            (r"\boxed{x<3}", Some("A")),
            ("$x>3$", Some("B")),
        ],
    );
    assert_found(
        &["x<3", "x>4"],
        &[("Answer: x > 3", None), ("x>3", None), ("x < 3.", Some("A"))],
    );
    assert_found(
        &["$150", "$1.50"],
        &[
            (r"\boxed{$1.50}", Some("B")),
            ("The answer is $150.", Some("A")),
            ("Answer: 1.50", Some("B")),
        ],
    );
    assert_found(
        &["12", "1-2", "1/2"],
        &[
            ("Answer: 1-2", Some("B")),
            ("1/2", Some("C")),
            ("Answer: 12", Some("A")),
        ],
    );
    assert_found(
        &["PH", "pH"],
        &[
            ("Answer: pH", Some("B")),
            ("PH", Some("A")),
            ("Answer: ph", None),
            ("ph", None),
        ],
    );
    assert_found(
        &["Java", "C#", "C++", "Go"],
        &[
            ("Answer: C++", Some("C")),
            ("C#", Some("B")),
            ("The answer is C#.", Some("B")),
            ("Answer: C", Some("C")),
        ],
    );
    assert_found(
        &["-", "+"],
        &[
            ("Answer: +", Some("B")),
            ("Answer: -", Some("A")),
            ("-", Some("A")),
            ("Answer - B", Some("B")),
        ],
    );
    assert_found(
        &["1000", "10"],
        &[
            ("Answer: 1,000", Some("A")),
            ("Answer: 1,001", None),
            ("1,000", Some("A")),
            ("We get 1,000.", Some("A")),
        ],
    );
    assert_found(
        &["most likely", "likely"],
        &[("The answer is most likely.", Some("A")), ("Answer: likely", Some("B"))],
    );
}

#[test]
fn an_option_of_one_character_is_announced_like_any_other() {
    assert_found(
        &["1", "2", "3", "4"],
        &[
            ("The answer is 4.\nCheck: 2 + 2 makes it.", Some("D")),
            ("The answer is 2 + 2 = 4.", None),
            ("Answer: 12", None),
            ("Answer: B", Some("B")),
        ],
    );
    assert_found(
        &["x", "y", "z"],
        &[
            ("Answer: x\nbecause y is wrong", Some("A")),
            ("Answer: y", Some("B")),
            ("Answer: x < 3", None),
        ],
    );
    assert_found(
        &["a", "b"],
        &[("The answer is a matter of taste", None), ("Answer: b", Some("B"))],
    );
}

#[test]
fn a_letter_that_is_also_another_options_text_is_none_unless_it_is_dressed() {
    let options = ["C", "C++", "Java"];
    assert_found(
        &options,
        &[
            ("Answer: C", None),
            ("C", None),
            ("Answer: (C)", Some("C")),
            ("(C)", Some("C")),
            ("Answer: C++", Some("B")),
            ("Answer: A", Some("A")),
        ],
    );
    assert_found(&["b", "a"], &[("Answer: a", Some("B")), ("Answer: A", Some("A"))]);
}

#[test]
fn a_first_line_that_is_an_answer_comes_before_words_of_later_ones() {
    assert_found(
        &COLOURS,
        &[
            ("B\n\nIt is not red.", Some("B")),
            ("B\nBecause red is not green.", Some("B")),
            ("green\nBecause it is not red.", Some("B")),
            ("Because of the light.\nIt is green.", Some("B")),
            ("Some say\nA\nbut\nC", Some("C")),
            ("red\nNo, that was wrong.\ngreen", None),
            ("It is not red.", None),
            ("That is not red but green.", Some("B")),
            ("Green is wrong, so red", Some("A")),
        ],
    );
    assert_found(&["Yes", "No"], &[("No, it isn't.", Some("B")), ("Yes", Some("A"))]);
    assert_found(
        &["entailment", "not entailment"],
        &[("It is not entailment", Some("B"))],
    );
}

#[test]
fn what_is_denied_is_no_answer() {
    assert_found(
        &COLOURS,
        &[
            ("Do not choose B. (A) is what I go with.", Some("A")),
            ("(C) is what I'd go with. Do not select A.", Some("C")),
            ("I would never pick A. Answer: C", Some("C")),
            ("I don't think B is correct.", None),
            ("The answer is not B.", None),
            ("Answer: A is wrong.", None),
            ("Answer: A is wrong, B is right", Some("B")),
            ("It is not (A).", None),
            ("Not sure, but I choose B", Some("B")),
            ("I choose B, not A", Some("B")),
            ("I do not know the answer: B", Some("B")),
            ("不选A，选B", Some("B")),
        ],
    );
}

#[test]
fn of_two_joined_answers_neither_counts() {
    assert_found(
        &COLOURS,
        &[
            ("Answer: B or C", None),
            ("Answer: B and C", None),
            ("Answer: A, B", None),
            ("Answer: B/C", None),
            ("Answer: **B** or **C**.", None),
            ("Answer: red or green", None),
            ("The answer is (B) or (C).", None),
            (r"Answer: A, so \boxed{B or C}", None),
            ("B or C", None),
            ("B/C", None),
            ("A or B is correct", None),
            ("Answer: A\nFinal answer: B or C", None),
            ("Answer: B or C. Final answer: C", Some("C")),
            ("Answer: B or C\n\nC", Some("C")),
            ("Answer: B, A is wrong", Some("B")),
            ("Answer: B and a reason", Some("B")),
            ("Answer: B and A is wrong", Some("B")),
            ("Answer: B or rather green", Some("B")),
        ],
    );
    assert_found(
        &["one", "two", "A and B"],
        &[("Answer: A and B", Some("C")), ("Answer: A", Some("A"))],
    );
}

#[test]
fn an_echoed_question_announces_nothing() {
    assert_found(
        &COLOURS,
        &[
            (
                "Choose the correct option: A) red B) green C) blue D) pink\nC",
                Some("C"),
            ),
            ("Choose the correct option: A) red B) ..\nC", Some("C")),
            ("Choose the correct option:\nA) red\nB) green\nC) blue\nD) pink", None),
            ("Choose A, B, C or D.\nB", Some("B")),
            ("Answer: A) red", Some("A")),
            ("Answer: A) red. B) is too dark.", Some("A")),
        ],
    );
    assert_found(
        &[],
        &[
            ("Pick the best: A. up B. down C. left\nB", Some("B")),
            ("Answer: A. B is down", Some("A")),
        ],
    );
}

#[test]
fn options_echoed_on_one_line_are_no_answer() {
    assert_found(
        &COLOURS,
        &[
            ("A) red B) green", None),
            ("A) red B) green C) blue D) pink", None),
            ("B. green C. blue", None),
            ("A) red B) green C) blue D) pink\n(C)", Some("C")),
            ("A) apple B) pear C) plum", None),
            ("A) red", Some("A")),
            ("B. green. It is not red.", Some("B")),
        ],
    );
    assert_found(
        &[],
        &[("A) up B) down C) left", None), ("C. The U.S. is up.", Some("C"))],
    );
    assert_found(&["iron", "Vitamin C"], &[("B. Vitamin C.", Some("B"))]);
}

#[test]
fn a_second_answer_in_brackets_or_beside_makes_none() {
    assert_found(
        &COLOURS,
        &[
            ("Answer: A (or B)", None),
            ("Answer: A. or B.", None),
            ("Answer: A B", None),
            ("Answer: A+B", None),
            ("Answer: A + B", None),
            ("Answer: A (or rather dark)", Some("A")),
            ("Answer: A B-movie", Some("A")),
            ("Answer: A. Or so I think.", Some("A")),
        ],
    );
}

#[test]
fn what_is_called_the_answer_is_one() {
    assert_found(
        &COLOURS,
        &[
            ("B is the answer", Some("B")),
            ("So B is the answer.", Some("B")),
            ("(C) is my final answer", Some("C")),
            ("B is not the answer", None),
            ("I doubt that.\n#### D", Some("D")),
            ("#### (D)", Some("D")),
            ("Answer: probably A", Some("A")),
            ("Answer: I think B", Some("B")),
            ("It is not A but B", Some("B")),
            ("The answer is not (A), but rather (B).", Some("B")),
            ("It is not A but a shade", None),
        ],
    );
    assert_found(
        &["iron", "Vitamin C", "zinc"],
        &[("Vitamin C is the answer", Some("B"))],
    );
    assert_found(&["Java", "C#", "C++"], &[("It is C#.\nC#", Some("B"))]);
}

#[test]
fn invisible_characters_make_no_difference() {
    for mark in ["\u{200f}", "\u{200b}", "\u{2060}", "\u{ad}", "\u{200d}"] {
        assert_found(
            &COLOURS,
            &[
                (&format!("Answer:{mark}B"), Some("B")),
                (&format!("Answer: {mark}B{mark}."), Some("B")),
                (&format!("{mark}B{mark}\n\nIt is not red."), Some("B")),
                (&format!("Answer: gr{mark}een"), Some("B")),
                (&format!("Answer:{mark}E"), None),
            ],
        );
    }
    let text = "\u{200f}Answer:\u{200b} gr\u{ad}een.";
    let finding = Choice::try_new(None).unwrap();
    let finding = finding
        .judge(&item(&["B"], &COLOURS), &Answer::whole(text))
        .unwrap()
        .unwrap();
    let span = finding.span.unwrap();
    let written = &text[usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()];
    assert_eq!(written, "gr\u{ad}een");
}

#[test]
fn more_words_announce() {
    for text in [
        "Ans: B",
        "Ans. B",
        "It must be B.",
        "I'd go with B.",
        "I am going with (B)",
        "选B",
        "应选择B。",
        "正确选项是B",
        "پاسخ: B",
        "پاسخ صحیح B است",
        "คำตอบ: B",
        "คำตอบคือ B",
        "Răspuns: B",
        "Vastaus: B",
        "Válasz: B",
        "התשובה היא B",
        "Poprawna odpowiedź to B",
        "উত্তরঃ B",
        "Jibu: B",
        "الإجابة الصحيحة هي: B",
    ] {
        assert_found(&COLOURS, &[(text, Some("B"))]);
    }
    assert_found(
        &COLOURS,
        &[
            ("To answer to B is hard", None),
            ("选项A是错的", None),
            ("It must be a bee", None),
            ("Answers B2", None),
        ],
    );
}

#[test]
fn what_is_called_wrong_or_asked_and_denied_is_no_answer() {
    assert_found(
        &COLOURS,
        &[
            ("The wrong answer is B", None),
            ("The incorrect choice is B. Answer: C", Some("C")),
            ("The answer is B? No, C.", None),
            ("Is the answer B? No.", None),
            ("Is the answer B? Yes.", Some("B")),
            ("正解はAではありません", None),
            ("정답은 A가 아닙니다", None),
            ("정답은 A입니다", Some("A")),
            ("A was wrong\nAnswer: B", Some("B")),
        ],
    );
    assert_found(
        &["yes", "no"],
        &[
            ("I have no idea", None),
            ("No idea.", None),
            ("So the answer is no.", Some("B")),
            ("I would say no", Some("B")),
            ("No, it is not.", Some("B")),
        ],
    );
}

#[test]
fn answers_side_by_side_in_a_range_or_behind_an_arrow_are_several() {
    assert_found(
        &COLOURS,
        &[
            ("Answer: (B) (C)", None),
            ("Answer: A-D", None),
            ("Answer: A–C", None),
            ("Answer: A to C", None),
            ("Answer: A as well as B", None),
            ("Answer: A (possibly B)", None),
            ("Answer: A, perhaps B", None),
            ("Answer: red green", None),
            ("Answer: B -> C", None),
            ("Answer: B - green", Some("B")),
            ("Answer: B green", Some("B")),
            ("Answer: B -> it is green", Some("B")),
            ("Answer: (B) green", Some("B")),
            ("Answer: B to be sure", Some("B")),
            ("Answer: A - D is too bright", Some("A")),
        ],
    );
}

#[test]
fn a_last_line_may_lead_to_its_letter() {
    for text in [
        "Option B",
        "Option: B",
        "Choice: B",
        "My choice is B",
        "Selected: B",
        "It's B.",
        "It is B",
        "So, B",
        "Hence, B.",
        "Therefore B.",
        "So it is option B.",
        "Red is dark, which is option B.",
        "Correct: B",
        "✔ B",
        "=> B",
        "1. B",
        "B -",
        "Answer: <B>",
        "The answer has to be B",
        "The answer, then, is B",
        "The solution is B",
        "Result: B",
        "Answer: A is wrong, so B",
        "It fits.\n**Option B**",
    ] {
        assert_found(&COLOURS, &[(text, Some("B"))]);
    }
    assert_found(
        &COLOURS,
        &[
            ("It is B or C", None),
            ("Option A is red", Some("A")),
            ("So, a bee", None),
            ("It is not B", None),
            ("It is hot", None),
        ],
    );
}

const CAPITALS: [&str; 4] = ["Paris", "London", "Berlin", "Madrid"];
const ALL: [&str; 4] = ["red", "blue", "green", "All of the above"];

#[test]
fn an_announced_answer_stands_whatever_labels_follow() {
    for (letter, capital) in ["A", "B", "C", "D"].into_iter().zip(CAPITALS) {
        for text in [
            "The answer is L.\n\nA. foo\nB. bar\nC. baz\nD. qux",
            "The answer is L.\nA. foo\nB. bar\nC. baz\nD. qux",
            "The answer is **L.**\n\nA. foo\nB. bar\nC. baz\nD. qux",
            "The answer is **L**.\n\nA. foo\nB. bar\nC. baz\nD. qux",
            "The answer is (L)\n\n(A) foo\n(B) bar\n(C) baz\n(D) qux",
            "The answer is (L).\n\n(A) foo\n(B) bar\n(C) baz\n(D) qux",
            "The answer is L)\n\nA) foo\nB) bar\nC) baz\nD) qux",
            "Answer: L\n\nA. foo\nB. bar\nC. baz\nD. qux",
            "Answer: L.\n\nA. Paris\nB. London\nC. Berlin\nD. Madrid",
            "The correct answer is L.\n\nExplanation:\nA. Paris is in France\nB. London is in the UK\nC. Berlin is German\nD. Madrid is Spanish",
            "The correct answer is L.\n\nThe options were:\nA. Paris\nB. London\nC. Berlin\nD. Madrid",
            "The correct answer is **L. X**.\n\n- A. Paris is big.\n- B. London is big.\n- C. Berlin is big.\n- D. Madrid is big.",
            "The correct answer is L. X.\n\nA. Paris is French.\nB. London is British.\nC. Berlin is German.\nD. Madrid is Spanish.",
            "The correct answer is: L. X\n\nA. Paris is French.\nB. London is British.\nC. Berlin is German.\nD. Madrid is Spanish.",
            "The answer is L. It is what was asked for.\n\nA. Paris is French.\n\nB. London is British.\n\nC. Berlin is German.\n\nD. Madrid is Spanish.",
            "The answer is L. It is so because A. Paris is French, B. London is British, C. Berlin is German and D. Madrid is Spanish.",
            "The answer is (L) since (A) is French, (B) is British, (C) is German, and (D) is Spanish.",
            "I choose L.\n\nA. foo\nB. bar\nC. baz\nD. qux",
            "Which is it? The answer is L.\n\nA. foo\nB. bar\nC. baz\nD. qux",
        ] {
            let text = text
                .replace('L', letter)
                .replace('X', capital)
                .replace(&format!("{letter}ondon"), "London");
            assert_found(&CAPITALS, &[(&text, Some(letter))]);
            assert_found(&[], &[(&text, Some(letter))]);
        }
    }
    assert_found(
        &CAPITALS,
        &[
            (
                "The correct answer is B.\n\nThe other options are incorrect:\nA. Paris\nC. Berlin\nD. Madrid",
                Some("B"),
            ),
            (
                "The answer is B. It is in the UK.\n\nC. Berlin is German.\n\nD. Madrid is Spanish.",
                Some("B"),
            ),
            (
                "The answer is B. It is in the UK. C. Berlin is German. D. Madrid is Spanish.",
                Some("B"),
            ),
            (
                "The answer is A. Paris\n\nB. London is British\nC. Berlin is German\nD. Madrid is Spanish",
                Some("A"),
            ),
            ("B. London.\n\nA. Paris\nC. Berlin\nD. Madrid", Some("B")),
            ("A. Paris\nB. London\nC. Berlin\nD. Madrid", None),
        ],
    );
}

#[test]
fn labels_right_behind_each_other_are_the_question() {
    for options in [&COLOURS[..], &[]] {
        assert_found(
            options,
            &[
                ("Choose the correct option:\nA) red\nB) green\nC) blue\nD) pink", None),
                (
                    "Choose the correct option:\nA. It is up.\nB. It is down.\nC. It is left.",
                    None,
                ),
                (
                    "Which is the correct answer: A. It is up.\nB. It is down.\nC. It is left.",
                    None,
                ),
                ("Pick the best: A. up. B. down. C. left.\nB", Some("B")),
                ("The answer is: A. up B. down C. left", None),
                ("Select the best answer: (A) up (B) down (C) left", None),
                ("Answer:\nA) red\nB) green\nC) blue\nD) pink", None),
                ("- **A.** up\n- **B.** down\n- **C.** left", None),
            ],
        );
    }
}

#[test]
fn what_is_called_right_beside_an_announced_answer_is_a_reason() {
    assert_found(
        &ALL,
        &[
            (
                "Answer: D\n\nA is correct because red is a colour.\nB is correct because blue is.\nC is correct because green is one.",
                Some("D"),
            ),
            (
                "**D. All of the above**\n\nOption A is correct. Option B is correct. Option C is correct.",
                Some("D"),
            ),
            (
                "The answer is D, because A is correct, B is correct, and C is correct.",
                Some("D"),
            ),
            (
                "So the answer is D, because A is correct, and so is the rest.",
                Some("D"),
            ),
            ("So the answer is D because C is correct.", Some("D")),
            ("D\n\nA is correct. B is correct. C is correct.", Some("D")),
            (
                "A is correct. B is correct. C is correct.\n\nTherefore, D is correct.",
                Some("D"),
            ),
            ("A is correct. B is correct. C is correct.\nAnswer: D", Some("D")),
        ],
    );
    assert_found(
        &CAPITALS,
        &[
            (
                "Answer: C\n\nA is correct: it is a mammal.\nB is correct: it is one.\nD is correct: it is one too.",
                Some("C"),
            ),
            (
                "The correct answer is B. While Option A is correct in terms of being a capital, it is not the UK's.",
                Some("B"),
            ),
            (
                "Answer: B\n\nExplanation: C is correct only if the temperature is constant.",
                Some("B"),
            ),
            ("\\boxed{B}\n\nA is correct for France.", Some("B")),
            (
                "The best answer is **B**. A is in France. D is the correct answer for Spain.",
                Some("B"),
            ),
            ("Answer: B\n\nFor Spain, D is the correct answer.", Some("B")),
            (
                "Answer: B. If the question asked for Spain, D is the correct answer.",
                Some("B"),
            ),
            ("Answer: B. Some may think that A is the correct answer.", Some("B")),
            ("B\n\nA is correct for France.", Some("B")),
            ("**B. London**\n\nA is correct for France.", Some("B")),
        ],
    );
}

#[test]
fn a_claim_that_takes_back_or_concludes_counts_against_an_earlier_answer() {
    assert_found(
        &CAPITALS,
        &[
            ("The answer is A. Wait, actually C is correct.", Some("C")),
            ("The answer is A. Hmm, wait. That is France. C is correct.", Some("C")),
            ("Answer: A. No, B is correct.", Some("B")),
            ("Answer: A\n\nActually, option B is correct.", Some("B")),
            ("Answer: A. Let me double-check. It is the UK. B is correct.", Some("B")),
            ("I said the answer is A, but B is correct.", Some("B")),
            ("Answer: A\n\nB is the correct answer.", Some("B")),
            ("The answer is A? It is in France. So B is the answer.", Some("B")),
            (
                "The answer could be read as: A. It is in France. Therefore, B is correct.",
                Some("B"),
            ),
            ("\\boxed{A}... Sorry, (B) is correct.", Some("B")),
            ("A is correct. Wait, B is correct.", Some("B")),
            ("Option A is wrong. Option C is correct.", Some("C")),
            ("A is correct in saying so, but in all B is correct.", Some("B")),
            ("Only B is correct.", Some("B")),
            ("A is correct. B is correct.", None),
            ("I am not sure whether B is the answer.", None),
            ("If B is the answer, I do not know.", None),
        ],
    );
}

#[test]
fn letters_in_the_reason_of_an_announced_answer_are_no_answers() {
    for text in [
        "The correct answer is (B), since (A), (C), and (D) are false.",
        "The answer is (B). (A), (C), and (D) are incorrect.",
        "The answer is B (A, C, and D are incorrect).",
        "The answer is B - A, C and D are incorrect.",
        "The answer is B — A and C are wrong.",
        "The answer is B; A, C, and D are incorrect.",
        "The answer is B. A, C, and D are incorrect.",
        "The answer is B. Some might choose A, but it is wrong.",
        "The answer is B. Students often choose C.",
        "The answer is B. The student's answer was C.",
        "Answer: B\nRunner-up answer: C",
        "The answer is B. Many people think the answer is C, but it is German.",
        "The answer is B. One might think that the answer is C.",
        "Answer: B\n\nExplanation of the answer: A is in France.",
        "The answer is B. It may seem that the correct answer is A.",
    ] {
        assert_found(&CAPITALS, &[(text, Some("B"))]);
    }
    assert_found(&ALL, &[("The correct answer is D (A, B, and C).", Some("D"))]);
    assert_found(&[], &[("The correct answer is D (A, B, and C).", Some("D"))]);
    assert_found(
        &CAPITALS,
        &[
            ("Many people think the answer is C.", None),
            ("Answer: A, B and C are wrong", None),
            ("The answer is B (A and C).", None),
            ("The answer is B; C", None),
            ("The most likely answer is B.", Some("B")),
            ("The doctor should choose B.", Some("B")),
            ("First, the answer: B", Some("B")),
            ("Most people agree. The answer is B.", Some("B")),
        ],
    );
}

#[test]
fn working_may_arrive_at_a_letter() {
    for text in [
        "This corresponds to option B.",
        "The capital is London, which corresponds to option (B).",
        "This matches option B.",
        "A is in France, leaving option B as the correct answer.",
        "It is in the UK, making B the correct answer.",
        "Only B fits.",
        r"$\text{B}$",
        r"$\textbf{B}$",
        "It fits.\n$\\text{B}$",
        "The answer here is B.",
        "It fits.\nFinal: B",
        "It fits.\nConclusion: B",
        "A ❌ / B ✅",
        "A. Paris ❌\nB. London ✅\nC. Berlin ❌",
        "It's B, not A.",
        "B</s>",
        "It fits.\nB<|im_end|>",
    ] {
        assert_found(&CAPITALS, &[(text, Some("B"))]);
    }
    assert_found(
        &CAPITALS,
        &[
            ("Answer: B. The other one corresponds to option C.", Some("B")),
            ("A ✅ / B ✅", None),
            ("A good try ✅", None),
            ("Option A matches option B.", Some("B")),
        ],
    );
    assert_found(
        &["True", "False"],
        &[
            ("Is it true? No.", None),
            ("Is it true? It is false.", Some("B")),
            ("It is true.", Some("A")),
            ("Is it true? Yes.", Some("A")),
        ],
    );
}

#[test]
fn whole_answers_as_models_write_them_name_their_letter() {
    assert_found(
        &CAPITALS,
        &[
            (
                "Let's look at each option.\n\nA. Paris is the capital of France.\nB. London is the capital of the UK.\nC. Berlin is the capital of Germany.\nD. Madrid is the capital of Spain.\n\nTherefore, the correct answer is B. London.",
                Some("B"),
            ),
            (
                "**Answer: B**\n\n**Explanation:** B is the correct answer because London is in the UK.\n\n**Why the others are wrong:**\n- A is the best choice for France.\n- C is correct for Germany.",
                Some("B"),
            ),
            (
                "The correct answer is **B) London**.\n\nHere's why the other options are incorrect:\n\n* **A) Paris:** the capital of France.\n* **C) Berlin:** the capital of Germany.\n* **D) Madrid:** the capital of Spain.",
                Some("B"),
            ),
            (
                "The correct answer is:\n\n**A) Paris**\n\n**B) London** is incorrect because it is in the UK.\n**C) Berlin** is incorrect.",
                Some("A"),
            ),
            (
                "I would choose option C. Option A is correct only in France. Option B is correct only in the UK.",
                Some("C"),
            ),
            (
                "Based on this, option B is correct. Options A, C and D are not.",
                Some("B"),
            ),
            (
                "Option A: Paris is French.\nOption B: London is British.\nSo option B is correct.",
                Some("B"),
            ),
            (
                "Choice (A) is incorrect. Choice (B) is correct. Choice (C) is incorrect.",
                Some("B"),
            ),
            (
                "It could be A at first sight. However, B is the best answer to this question.",
                Some("B"),
            ),
            (
                "The answer is B.\n\nStep by step: A is wrong, so the others remain. C is wrong too.",
                Some("B"),
            ),
            (
                "Answer: D.\n\nB is right about the river, and C is right about the wall.",
                Some("D"),
            ),
            (
                "C. Berlin\n\nExplanation: A is right for France, B is right for the UK.",
                Some("C"),
            ),
            (
                "The answer is A: B, C, and D are cities too, but none is French.",
                Some("A"),
            ),
            ("My first answer was A. The final answer is B.", Some("B")),
            ("Which is it? Choose wisely. Answer: D", Some("D")),
            ("Answer: (D) Madrid\n\n(A) Paris (B) London (C) Berlin", Some("D")),
        ],
    );
}
