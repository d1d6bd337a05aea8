//! What a judge is asked, and what its verdicts mean together.

use tidemill_domain::{Reasoning, VerdictForm, Verdicts};

use super::*;
use crate::answer::tests::item;

pub(crate) fn spec(words: &[(&str, f64)]) -> JudgeSpec {
    let words = words.iter().map(|(word, worth)| ((*word).to_owned(), *worth));
    JudgeSpec {
        judge: "main".to_owned(),
        verdicts: Verdicts::Words(words.collect()),
        label: "GRADE".to_owned(),
        form: VerdictForm::Line,
        votes: 1,
        is_pair: false,
        temperature: 0.0,
        max_tokens: 64,
    }
}

fn pair() -> Judge {
    Judge {
        spec: JudgeSpec {
            is_pair: true,
            ..spec(&[("A", 1.0), ("TIE", 0.5), ("B", 0.0)])
        },
    }
}

fn asked(material: &[(&str, &str)]) -> Item {
    let material = material
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    Item {
        material: material.collect(),
        ..item(&["the reference"], &[])
    }
}

fn ballot(spec: &JudgeSpec, words: &[&str]) -> Ballot {
    let read = |word: &&str| grammar::read(spec, &format!("GRADE: {word}")).unwrap();
    words.iter().map(read).collect()
}

fn texts(questions: Vec<Vec<Message>>) -> Vec<Vec<(String, String)>> {
    let turns = |question: Vec<Message>| question.into_iter().map(|turn| (turn.role, turn.content)).collect();
    questions.into_iter().map(turns).collect()
}

#[test]
fn the_answer_stands_where_the_mark_is_and_is_not_read_as_a_template() {
    let judge = Judge {
        spec: spec(&[("C", 1.0), ("I", 0.0)]),
    };
    let template = format!("Q\n{ANSWER_MARK}\nagain {ANSWER_MARK}");
    let item = asked(&[(JUDGE_PROMPT, &template), (JUDGE_SYSTEM, "Be strict.")]);
    let answer = format!(" GRADE: C {SECOND_MARK} {{{{ x }}}} \n");
    let questions = judge.questions(&item, &Answer::whole(&answer)).unwrap().unwrap();
    let shown = answer.trim();
    assert_eq!(
        texts(questions),
        [[
            ("system".to_owned(), "Be strict.".to_owned()),
            ("user".to_owned(), format!("Q\n{shown}\nagain {shown}"))
        ]]
    );
}

#[test]
fn reasoning_is_shown_to_no_judge_and_where_there_is_no_answer_none_is_asked() {
    let judge = Judge {
        spec: spec(&[("C", 1.0), ("I", 0.0)]),
    };
    let item = asked(&[(JUDGE_PROMPT, ANSWER_MARK)]);
    let answer = Answer::of("<think>secret</think>4", &Reasoning::Think).unwrap();
    let questions = judge.questions(&item, &answer).unwrap().unwrap();
    assert_eq!(texts(questions), [[("user".to_owned(), "4".to_owned())]]);
    assert_eq!(judge.questions(&item, &Answer::whole(" \n")).unwrap().map(texts), None);
    let long = "x".repeat(LONGEST_ANSWER_BYTES + 1);
    let error = judge.questions(&item, &Answer::whole(&long)).unwrap_err();
    assert_eq!(error.outcome(), tidemill_domain::Outcome::Ungraded, "{error}");
    assert!(judge.questions(&item, &Answer::whole(&long[1..])).unwrap().is_some());
    let bare = asked(&[]);
    assert!(judge.questions(&bare, &Answer::whole("4")).is_err());
}

#[test]
fn a_comparison_is_asked_in_both_orders() {
    let template = format!("1: {FIRST_MARK} 2: {SECOND_MARK}");
    let mut item = asked(&[(JUDGE_PROMPT, &template)]);
    let prompts = |item: &Item| {
        let questions = pair().questions(item, &Answer::whole("mine")).unwrap().unwrap();
        let prompts = texts(questions).into_iter().map(|question| question[0].1.clone());
        prompts.collect::<Vec<String>>()
    };
    assert_eq!(prompts(&item), ["1: mine 2: the reference", "1: the reference 2: mine"]);
    item.material.push((JUDGE_REFERENCE.to_owned(), "another".to_owned()));
    assert_eq!(prompts(&item), ["1: mine 2: another", "1: another 2: mine"]);
}

#[test]
fn most_votes_decide_and_all_are_shown() {
    let judge = Judge {
        spec: spec(&[("C", 1.0), ("I", 0.0)]),
    };
    for (votes, expected, distribution) in [
        (&["C"][..], true, "C 1"),
        (&["C", "I", "C"], true, "C 2, I 1"),
        (&["I", "C", "I"], false, "I 2, C 1"),
        (&["I", "I", "C", "C", "C"], true, "C 3, I 2"),
    ] {
        let (finding, disagreed) = judge.settled(&[ballot(&judge.spec, votes)], "m").unwrap();
        assert_eq!(finding.credit, Credit::Whole(expected), "{votes:?}");
        assert_eq!(finding.extracted, if expected { "C" } else { "I" });
        assert_eq!(finding.reason, Some(format!("{distribution} [judge: m]")));
        assert!(!disagreed);
    }
    // Where no word has most votes the middle one counts, whatever the order they came in.
    let judge = Judge {
        spec: spec(&[("GOOD", 1.0), ("FAIR", 0.5), ("BAD", 0.0)]),
    };
    for votes in [["GOOD", "BAD", "FAIR"], ["FAIR", "GOOD", "BAD"]] {
        let (finding, _) = judge.settled(&[ballot(&judge.spec, &votes)], "m").unwrap();
        assert_eq!(
            (finding.credit, finding.extracted.as_str()),
            (Credit::Part(0.5), "FAIR")
        );
    }
    let nothing = judge.settled(&[Vec::new()], "m").unwrap_err();
    assert_eq!(nothing.outcome(), tidemill_domain::Outcome::Ungraded);
}

#[test]
fn orders_that_disagree_are_a_tie() {
    let judge = pair();
    for (first, second, worth, winner, disagreed) in [
        ("A", "B", 1.0, "win", false),
        ("B", "A", 0.0, "loss", false),
        ("TIE", "TIE", 0.5, "tie", false),
        // The judge prefers whatever it is shown first, or second.
        ("A", "A", 0.5, "tie", true),
        ("B", "B", 0.5, "tie", true),
        ("A", "TIE", 0.5, "tie", true),
    ] {
        let ballots = [ballot(&judge.spec, &[first]), ballot(&judge.spec, &[second])];
        let (finding, was_split) = judge.settled(&ballots, "m").unwrap();
        assert_eq!(
            (finding.credit, finding.extracted.as_str(), was_split),
            (Credit::Part(worth), winner, disagreed),
            "{first} {second}"
        );
        let reason = finding.reason.unwrap();
        assert!(
            reason.contains(&format!("shown first {first} 1")) && reason.contains(&format!("shown second {second} 1")),
            "{reason}"
        );
        assert_eq!(reason.contains("disagree"), disagreed);
    }
}

#[test]
fn after_a_slip_the_judge_is_shown_its_reply_and_what_is_wanted() {
    let judge = Judge {
        spec: spec(&[("C", 1.0), ("I", 0.0)]),
    };
    let question = [message("user", "Q".to_owned())];
    let again = texts(vec![judge.again(&question, "Fine.\nGRID: C")]).remove(0);
    let roles: Vec<&str> = again.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert!(again[1].1.ends_with("GRID: C") && again[2].1.contains("GRADE: ") && again[2].1.contains("C, I"));
    let long = format!("{}GRID: C", "ä".repeat(10_000));
    let again = judge.again(&question, &long);
    assert!(again[1].content.len() <= SHOWN_AGAIN_BYTES && again[1].content.ends_with("äGRID: C"));
    assert_eq!(judge.again(&question, "  ").len(), 1, "there is nothing to show again");
}
