//! What each family accepts as an answer, and which outcome each ending has.

use std::time::Duration;

use tidemill_domain::{ChoiceScore, Digest, EvaluationId, ItemKey, MetricSource, Normalise, Served, Take};

use super::*;
use crate::answer::tests::item;

const NUMERIC: GraderSpec = GraderSpec::Numeric {
    pattern: None,
    tolerance: 0.0,
};
const CHOICE: GraderSpec = GraderSpec::Choice { pattern: None };
const EXACT: GraderSpec = GraderSpec::Exact {
    ignore_case: false,
    ignore_punctuation: false,
};

/// The grade of a text, with what it adds to the metrics of its grader's kind.
pub(crate) fn measured(spec: &GraderSpec, item: &Item, text: &str) -> Grade {
    let grader = Grader::new(spec, &Reasoning::default()).measuring(&spec.metrics());
    grader.grade(item, &completion(text), Timestamp(3))
}

pub(crate) fn completion(text: &str) -> Completion {
    Completion {
        key: ItemKey {
            evaluation: EvaluationId::from_digest(&Digest::of(b"evaluation")),
            benchmark: 0,
            item: 7,
            sample: 1,
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
        prompt_tokens: 11,
        completion_tokens: 22,
        requests: 2,
        attempts: 1,
        cached: false,
        served: Served::default(),
        generation: None,
        engine: "replica".to_owned(),
        started: Timestamp(1),
        finished: Timestamp(2),
    }
}

fn ended(ending: Ending, text: &str) -> Completion {
    Completion {
        ending,
        truncated: ending == Ending::Length,
        ..completion(text)
    }
}

fn graded(spec: &GraderSpec, target: &str, completion: &Completion) -> Grade {
    grade(spec, &item(&[target], &[]), completion, Timestamp(3))
}

fn outcome(spec: &GraderSpec, target: &str, text: &str) -> Outcome {
    graded(spec, target, &completion(text)).outcome
}

#[test]
fn a_grade_carries_what_the_aggregator_folds() {
    let grade = graded(&NUMERIC, "4", &completion("2 + 2 = 4"));
    let expected = Grade {
        key: completion("").key,
        outcome: Outcome::Correct,
        score: 1.0,
        score_before_cut: None,
        extracted: Some("4".to_owned()),
        grader: "numeric@6".to_owned(),
        reason: Some("equals 4".to_owned()),
        truncated: false,
        cut_in_reasoning: false,
        replaced: false,
        prompt_tokens: 11,
        completion_tokens: 22,
        requests: 2,
        cached: false,
        served: Served::default(),
        started: Timestamp(1),
        finished: Timestamp(2),
        graded: Timestamp(3),
        extractor: Some("last-number@5".to_owned()),
        span: Some(Span { start: 8, end: 9 }),
        canonical: Some("4".to_owned()),
        measures: Vec::new(),
        judge: None,
    };
    assert_eq!(grade, expected);
}

#[test]
fn an_open_reasoning_block_has_no_answer_in_any_family() {
    let text = "<think> I guess Answer: B, which is 5";
    for (spec, target) in [(&CHOICE, "B"), (&NUMERIC, "5"), (&EXACT, text)] {
        let grade = graded(spec, target, &completion(text));
        assert_eq!((grade.outcome, grade.extracted), (Outcome::NoAnswer, None));
        assert_eq!(grade.reason.as_deref(), Some("the reasoning never ended"));
    }
    let cut = graded(&CHOICE, "B", &ended(Ending::Length, text));
    assert_eq!((cut.outcome, cut.score_before_cut), (Outcome::Truncated, None));
}

#[test]
fn closed_reasoning_is_never_the_answer() {
    let text = "<think>Answer: A</think>\nAnswer: B";
    assert_eq!(outcome(&CHOICE, "B", text), Outcome::Correct);
    assert_eq!(outcome(&CHOICE, "A", text), Outcome::Incorrect);
    assert_eq!(outcome(&CHOICE, "A", "<think>Answer: A</think>"), Outcome::NoAnswer);
}

#[test]
fn the_last_balanced_box_is_the_answer() {
    let text = r"\boxed{5} ... no, \boxed{\frac{1}{2}} ... \boxed{7";
    assert_eq!(graded(&NUMERIC, "0.5", &completion(text)).outcome, Outcome::Correct);
    assert_eq!(outcome(&CHOICE, "E", r"so \boxed{\text{E}}"), Outcome::Correct);
    assert_eq!(outcome(&CHOICE, "E", r"\boxed{E} or \boxed{\text{D}"), Outcome::Correct);
}

#[test]
fn numbers_are_compared_as_numbers() {
    for (text, target) in [
        ("$9{,}500", "9500"),
        ("8,000", "8000"),
        ("$29.00", "29"),
        ("72 clips, altogether.", "72"),
        ("1.5e3", "1500"),
        ("-0", "0"),
    ] {
        assert_eq!(outcome(&NUMERIC, target, text), Outcome::Correct, "{text}");
    }
    assert_eq!(outcome(&NUMERIC, "9500", "950"), Outcome::Incorrect);
    assert_eq!(outcome(&NUMERIC, "9500", "many"), Outcome::NoAnswer);
}

#[test]
fn the_last_announced_choice_counts_in_every_language() {
    for (text, letter) in [
        ("Answer: A ... wait ... **Answer: D**", "D"),
        ("The answer is B because a car moves", "B"),
        ("Antwort: C", "C"),
        ("答案：C", "C"),
    ] {
        assert_eq!(outcome(&CHOICE, letter, text), Outcome::Correct, "{text}");
    }
    assert_eq!(outcome(&CHOICE, "A", "it was a car"), Outcome::NoAnswer);
}

#[test]
fn exact_compares_the_whole_answer() {
    let ignoring = |ignore_case, ignore_punctuation| GraderSpec::Exact {
        ignore_case,
        ignore_punctuation,
    };
    assert_eq!(outcome(&EXACT, "Paris", " Paris\n"), Outcome::Correct);
    assert_eq!(outcome(&EXACT, "Paris", "paris"), Outcome::Incorrect);
    assert_eq!(outcome(&ignoring(true, false), "Paris", "PARIS"), Outcome::Correct);
    assert_eq!(outcome(&ignoring(true, false), "Paris", "Paris."), Outcome::Incorrect);
    assert_eq!(outcome(&ignoring(false, true), "Paris", "**Paris.**"), Outcome::Correct);
    assert_eq!(
        outcome(&ignoring(true, true), "It's Paris", "its paris!"),
        Outcome::Correct
    );
    assert_eq!(outcome(&EXACT, "Paris", " \n"), Outcome::NoAnswer);
}

#[test]
fn regex_takes_the_first_or_the_last_match() {
    let spec = |take| GraderSpec::Regex {
        pattern: r"#### (\S+)".to_owned(),
        take,
        ignore_case: true,
    };
    let text = "#### One\n#### two";
    assert_eq!(outcome(&spec(Take::First), "one", text), Outcome::Correct);
    assert_eq!(outcome(&spec(Take::Last), "one", text), Outcome::Incorrect);
    assert_eq!(outcome(&spec(Take::Last), "one", "one"), Outcome::NoAnswer);
}

#[test]
fn an_ending_without_an_answer_is_an_outcome_of_its_own() {
    for (ending, expected) in [
        (Ending::Empty, Outcome::Empty),
        (Ending::Refused, Outcome::Refused),
        (Ending::ContextOverflow, Outcome::ContextOverflow),
        (Ending::EngineError, Outcome::EngineError),
    ] {
        let completion = Completion {
            detail: Some("as the engine said".to_owned()),
            ..ended(ending, "4")
        };
        let grade = graded(&NUMERIC, "4", &completion);
        assert_eq!((grade.outcome, grade.score, grade.extracted), (expected, 0.0, None));
        assert_eq!(grade.reason.as_deref(), Some("as the engine said"));
    }
}

#[test]
fn a_stop_without_a_single_token_is_empty_and_not_wrong() {
    let silent = |text: &str| Completion {
        completion_tokens: 0,
        ..completion(text)
    };
    assert_eq!(graded(&EXACT, "4", &silent("")).outcome, Outcome::Empty);
    assert_eq!(graded(&EXACT, "4", &silent(" \n")).outcome, Outcome::Empty);
    assert_eq!(graded(&EXACT, "4", &silent("4")).outcome, Outcome::Correct);
    assert_eq!(graded(&EXACT, "4", &completion("\n")).outcome, Outcome::NoAnswer);
}

#[test]
fn a_completion_cut_inside_its_reasoning_is_truncated_without_an_answer() {
    let completion = Completion {
        reasoning: Some("Answer: 4, or".to_owned()),
        ..ended(Ending::Length, "")
    };
    let grade = graded(&NUMERIC, "4", &completion);
    assert_eq!((grade.outcome, grade.extracted), (Outcome::Truncated, None));
    assert!(grade.truncated);
}

#[test]
fn a_stop_at_the_cap_is_truncated() {
    let at_cap = |text: &str| Completion {
        truncated: true,
        ..completion(text)
    };
    let right = graded(&NUMERIC, "4", &at_cap("4 apples and"));
    assert_eq!((right.outcome, right.score), (Outcome::Truncated, 0.0));
    assert_eq!(right.score_before_cut, Some(1.0));
    let none = graded(&NUMERIC, "4", &at_cap("apples and"));
    assert_eq!((none.outcome, none.score_before_cut), (Outcome::Truncated, None));
}

#[test]
fn an_answer_before_the_cut_is_kept_beside_the_truncation() {
    let right = graded(&CHOICE, "B", &ended(Ending::Length, "Answer: B. This is so bec"));
    assert_eq!((right.outcome, right.score), (Outcome::Truncated, 0.0));
    assert_eq!(
        (right.extracted.as_deref(), right.score_before_cut),
        (Some("B"), Some(1.0))
    );
    let wrong = graded(&CHOICE, "C", &ended(Ending::Length, "Answer: B. This is so bec"));
    assert_eq!((wrong.outcome, wrong.score_before_cut), (Outcome::Truncated, Some(0.0)));
}

#[test]
fn an_answer_that_the_cut_goes_through_has_no_score_before_it() {
    let before_cut = |spec: &GraderSpec, target: &str, text: &str| {
        graded(spec, target, &ended(Ending::Length, text)).score_before_cut
    };
    for (text, wanted) in [
        ("so 4", None),
        ("$4", None),
        (r"\boxed{4", None),
        ("so 4.", Some(1.0)),
        (r"\boxed{4}", Some(1.0)),
        ("<think>5</think>so 4", None),
    ] {
        assert_eq!(before_cut(&NUMERIC, "4", text), wanted, "{text}");
    }
    assert_eq!(before_cut(&CHOICE, "B", "Answer: B"), None);
    assert_eq!(before_cut(&EXACT, "4", "4"), None);
    let json = GraderSpec::JsonSchema {
        check: tidemill_domain::JsonCheck::Valid,
        schema: None,
    };
    assert_eq!(before_cut(&json, "12", "12"), None);
    assert_eq!(before_cut(&json, "{}", "{\"a\": 1}"), Some(1.0));
}

#[test]
fn the_stop_text_that_left_no_answer_is_named() {
    let completion = Completion {
        stop_reason: Some("Answer".to_owned()),
        ..completion("")
    };
    let grade = graded(&NUMERIC, "4", &completion);
    assert_eq!(grade.outcome, Outcome::NoAnswer);
    assert_eq!(
        grade.reason.as_deref(),
        Some("the stop text \"Answer\" came before an answer")
    );
}

#[test]
fn a_likelihood_needs_scores_and_a_text_needs_none() {
    let likelihood = GraderSpec::Likelihood {
        normalise: Normalise::None,
    };
    assert_eq!(outcome(&likelihood, "4", "4"), Outcome::GraderError);
    assert_eq!(
        graded(&NUMERIC, "4", &ended(Ending::Scored, "4")).outcome,
        Outcome::GraderError
    );
    let score = |log_probability| ChoiceScore {
        log_probability,
        tokens: 1,
        is_greedy: false,
    };
    let scored = Completion {
        choices: vec![score(-2.0), score(-1.0)],
        truncated: true,
        ..ended(Ending::Scored, "")
    };
    let two = Item {
        correct_choice: Some(1),
        ..item(&[], &["no", "yes"])
    };
    let grade = Grader::new(&likelihood, &Reasoning::default()).grade(&two, &scored, Timestamp(3));
    assert_eq!((grade.outcome, grade.truncated), (Outcome::Correct, false));
    assert_eq!(grade.extracted.as_deref(), Some("yes"));
    assert_eq!(grade.grader, "likelihood@1");
}

#[test]
fn a_fault_of_the_suite_is_never_a_wrong_answer() {
    let bad_pattern = GraderSpec::Numeric {
        pattern: Some("(".to_owned()),
        tolerance: 0.0,
    };
    let grade = graded(&bad_pattern, "4", &completion("4"));
    assert_eq!((grade.outcome, grade.score), (Outcome::GraderError, 0.0));
    assert!(grade.reason.unwrap().contains("compile the pattern"));
    assert_eq!(outcome(&NUMERIC, "none", "4"), Outcome::GraderError);
}

#[test]
fn a_panic_is_a_fault_of_the_grader() {
    let caught: Result<(), Error> = guarded(|| panic!("index {}", 5));
    assert_eq!(caught, Err(Error::Panic("index 5".to_owned())));
    let caught: Result<(), Error> = guarded(|| panic!("plain"));
    assert_eq!(caught, Err(Error::Panic("plain".to_owned())));
}

#[test]
fn nul_bytes_and_right_to_left_text_are_ordinary_text() {
    assert_eq!(outcome(&NUMERIC, "4", "\0the answer\0 is 4\0"), Outcome::Correct);
    assert_eq!(outcome(&EXACT, "\0", "\0"), Outcome::Correct);
    assert_eq!(outcome(&CHOICE, "C", "Answer: \0C"), Outcome::NoAnswer);
    assert_eq!(
        outcome(&EXACT, "שלום", "\u{202b}שלום\u{202c}\u{200f}"),
        Outcome::Correct
    );
    assert_eq!(outcome(&NUMERIC, "42", "\u{200f}الجواب هو ٤٢."), Outcome::Correct);
    assert_eq!(outcome(&CHOICE, "C", "\u{200f}الإجابة: C"), Outcome::Correct);
}

/// Far beyond any cap. Four times as much may take about four times as long: a family that grew with the square would take sixteen.
/// It is the thread's own time, on which other programs have little influence.
#[test]
fn no_family_takes_time_that_grows_faster_than_the_answer() {
    let regex = GraderSpec::Regex {
        pattern: r"answer is (\w+)".to_owned(),
        take: Take::Last,
        ignore_case: true,
    };
    let folded = GraderSpec::Exact {
        ignore_case: true,
        ignore_punctuation: true,
    };
    for (unit, bytes) in [
        ("Well (so it is), the answer is far. ", 10_000_000),
        ("الجواب ليس هنا. ", 1_000_000),
        (r"\boxed{ <think", 1_000_000),
        ("AAAA", 1_000_000),
        ("1,1/", 1_000_000),
    ] {
        for (spec, target) in [
            (&NUMERIC, "5"),
            (&CHOICE, "B"),
            (&EXACT, "5"),
            (&folded, "AAAB"),
            (&regex, "near"),
        ] {
            let took = |bytes: usize| {
                let completion = completion(&unit.repeat(bytes / unit.len()));
                let before = thread_time();
                let grade = graded(spec, target, &completion);
                assert!(matches!(grade.outcome, Outcome::Incorrect | Outcome::NoAnswer));
                thread_time() - before
            };
            let (quarter, whole) = (took(bytes / 4), took(bytes));
            let most = quarter * 9 + Duration::from_millis(300);
            assert!(whole < most, "{target} in {unit:?}: {quarter:?}, then {whole:?}");
        }
    }
}

/// What this thread has computed so far.
fn thread_time() -> Duration {
    rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime)
        .try_into()
        .unwrap()
}

#[test]
fn a_cut_inside_the_reasoning_and_a_replaced_character_are_marked() {
    let marks = |ending: Ending, reasoning: Option<&str>, text: &str| {
        let graded = grade(
            &GraderSpec::Numeric {
                pattern: None,
                tolerance: 0.0,
            },
            &item(&["4"], &[]),
            &Completion {
                ending,
                truncated: ending == Ending::Length,
                reasoning: reasoning.map(str::to_owned),
                completion_tokens: 9,
                ..completion(text)
            },
            Timestamp(3),
        );
        (graded.cut_in_reasoning, graded.replaced)
    };
    use Ending::{Length, Stop};
    assert_eq!(
        marks(Length, Some("long"), ""),
        (true, false),
        "E2: split off by the engine"
    );
    assert_eq!(marks(Length, None, "<think>long"), (true, false), "in the text");
    assert_eq!(marks(Length, Some("long"), "4"), (false, false), "the answer had begun");
    assert_eq!(
        marks(Length, None, ""),
        (false, false),
        "nobody says that it was reasoning"
    );
    assert_eq!(marks(Stop, None, "<think>long"), (false, false), "not cut");
    assert_eq!(marks(Stop, None, "caf\u{fffd} 4"), (false, true), "E12: in the answer");
    assert_eq!(marks(Stop, Some("caf\u{fffd}"), "4"), (false, true), "in the reasoning");
    assert_eq!(marks(Stop, None, "café 4"), (false, false), "a whole character");
}

const CODE: GraderSpec = GraderSpec::Code {
    language: tidemill_domain::CodeLanguage::Python,
    program: tidemill_domain::ProgramPlace::Fenced,
    limits: tidemill_domain::CodeLimits {
        cpu_seconds: 1,
        wall_seconds: 10,
        memory_mib: 128,
    },
};

/// A host on which nothing can be run.
fn without_sandbox() -> Runners {
    let sandbox = tidemill_config::Sandbox {
        bubblewrap: Some("/nowhere/bwrap".into()),
        ..tidemill_config::Sandbox::default()
    };
    Runners::of(&tidemill_config::Grader {
        sandbox,
        ..tidemill_config::Grader::default()
    })
}

fn problem() -> Item {
    let material = [("tests", "assert f(1) == 1"), ("entry_point", "f")];
    Item {
        material: material.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
        ..item(&["the solution"], &[])
    }
}

#[tokio::test]
async fn without_a_sandbox_a_program_is_not_run_and_not_wrong() {
    let (grader, runners) = (Grader::new(&CODE, &Reasoning::Think), without_sandbox());
    assert!(grader.is_outside());
    let grade = grader
        .grade_with(&runners, &problem(), &completion("def f(x): return x"), || Timestamp(9))
        .await
        .unwrap();
    assert_eq!(
        (grade.outcome, grade.grader.as_str(), grade.graded),
        (Outcome::GraderError, "code@5", Timestamp(9))
    );
    let reason = grade.reason.unwrap();
    assert!(
        reason.contains("/nowhere/bwrap") && reason.contains("apt-get install bubblewrap"),
        "{reason}"
    );
    let grade = grader.grade(&problem(), &completion("def f(x): return x"), Timestamp(3));
    assert_eq!(grade.outcome, Outcome::GraderError, "nothing was there to run it with");
}

#[tokio::test]
async fn what_holds_no_program_is_graded_without_a_sandbox() {
    let (grader, runners) = (Grader::new(&CODE, &Reasoning::Think), without_sandbox());
    for (completion, outcome) in [
        (completion("<think>def f(x): return x"), Outcome::NoAnswer),
        (completion("<think>hm</think>\n"), Outcome::NoAnswer),
        (ended(Ending::Length, "<think>hm"), Outcome::Truncated),
        (ended(Ending::Refused, ""), Outcome::Refused),
        (ended(Ending::EngineError, ""), Outcome::EngineError),
        (ended(Ending::Scored, ""), Outcome::GraderError),
    ] {
        let grade = grader
            .grade_with(&runners, &problem(), &completion, || Timestamp(9))
            .await
            .unwrap();
        assert_eq!(grade.outcome, outcome, "{:?} {:?}", completion.ending, completion.text);
    }
}

#[tokio::test]
async fn an_item_without_its_tests_is_no_wrong_answer() {
    let (grader, runners) = (Grader::new(&CODE, &Reasoning::Think), without_sandbox());
    let item = item(&["the solution"], &[]);
    let grade = grader
        .grade_with(&runners, &item, &completion("def f(x): return x"), || Timestamp(9))
        .await
        .unwrap();
    assert_eq!(grade.outcome, Outcome::GraderError);
    assert!(grade.reason.unwrap().contains("entry_point"));
}

/// The folder is of what guests may read: without it no sandbox starts.
#[tokio::test]
async fn a_sandbox_that_does_not_start_any_more_is_looked_at_again() {
    let folder = tempfile::Builder::new().permissions(open_to_all()).tempdir().unwrap();
    let sandbox = tidemill_config::Sandbox {
        readable: vec![folder.path().to_owned()],
        ..tidemill_config::Sandbox::default()
    };
    let runners = Runners::of(&tidemill_config::Grader {
        sandbox,
        ..tidemill_config::Grader::default()
    });
    let grader = Grader::new(&CODE, &Reasoning::Think);
    let problem = problem();
    let graded = async |text: &str| {
        grader
            .grade_with(&runners, &problem, &completion(text), || Timestamp(9))
            .await
            .unwrap()
    };
    let right = graded("```python\ndef f(x): return x\n```").await;
    assert_eq!(right.outcome, Outcome::Correct, "{:?}", right.reason);
    assert!(right.reason.unwrap().contains("[sandbox: "));
    assert_eq!(right.extractor.as_deref(), Some("fenced-block@4"));
    let wrong = graded("def f(x): return 2").await;
    assert_eq!(wrong.outcome, Outcome::Incorrect, "{:?}", wrong.reason);
    drop(folder);
    let fault = graded("def f(x): return x").await;
    assert_eq!(fault.outcome, Outcome::GraderError);
    assert!(fault.reason.unwrap().contains("set the sandbox up"));
    let refused = graded("def f(x): return x").await;
    assert_eq!(refused.outcome, Outcome::GraderError);
    assert!(refused.reason.unwrap().contains("no sandbox"));
}

fn open_to_all() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o755)
}

#[test]
fn a_task_of_the_harness_measures_cut_answers_as_they_are_and_scores_them_as_cut() {
    let spec = GraderSpec::Pipelines {
        grading: "metric_list: [{metric: exact_match}]".to_owned(),
        by_likelihood: false,
    };
    let mut item = item(&["7"], &[]);
    item.material = vec![("target".to_owned(), "\"7\"".to_owned())];
    let metric = Metric {
        name: "exact_match".to_owned(),
        source: MetricSource::Measure,
        aggregation: tidemill_domain::Aggregation::Mean,
        higher_is_better: true,
    };
    let grader = Grader::new(&spec, &Reasoning::default()).measuring(&[metric]);
    let grade = |completion: &Completion| grader.grade(&item, completion, Timestamp(3));
    let cut = grade(&ended(Ending::Length, "7"));
    assert_eq!(
        (cut.outcome, cut.score, cut.score_before_cut),
        (Outcome::Truncated, 0.0, None)
    );
    assert_eq!(cut.measures, [Some(Measured::Value(1.0))]);
    let whole = grade(&completion("8"));
    assert_eq!(
        (whole.outcome, whole.measures),
        (Outcome::Incorrect, vec![Some(Measured::Value(0.0))])
    );
    // A log-probability that was not asked for by this task is the grader's fault, and no score.
    assert_eq!(grade(&ended(Ending::Scored, "")).outcome, Outcome::GraderError);
}

#[test]
fn what_the_filters_of_a_task_find_before_a_cut_stands_whole() {
    let spec = GraderSpec::Pipelines {
        grading: r#"{"filter_list": [{"name": "f", "filter": [{"function": "regex", "regex_pattern": "=> (\\d+)"},
            {"function": "take_first"}]}], "metric_list": [{"metric": "exact_match"}]}"#
            .to_owned(),
        by_likelihood: false,
    };
    let mut item = item(&["5"], &[]);
    item.material = vec![("target".to_owned(), "\"5\"".to_owned())];
    let before_cut = |text: &str| grade(&spec, &item, &ended(Ending::Length, text), Timestamp(3)).score_before_cut;
    for (text, expected) in [
        ("=> 5\nand then", Some(1.0)),
        ("=> 6\nand then", Some(0.0)),
        ("=> 5", None),
        // What follows may be another digit.
        ("5, so => 5", None),
    ] {
        assert_eq!(before_cut(text), expected, "{text}");
    }
}

#[test]
fn what_a_program_measures_counts_of_cut_answers_and_is_left_out_where_there_is_none() {
    let spec = GraderSpec::Command {
        command: vec!["judge".to_owned()],
        seconds: 1,
    };
    let metric = |name: &str| Metric {
        name: name.to_owned(),
        source: MetricSource::Measure,
        aggregation: Aggregation::Mean,
        higher_is_better: true,
    };
    let grader = Grader::new(&spec, &Reasoning::Think).measuring(&[metric("distance"), metric("words")]);
    for (completion, outcome) in [
        (ended(Ending::Refused, ""), Outcome::Refused),
        (completion("<think> 7"), Outcome::NoAnswer),
        (ended(Ending::Length, "<think> 7"), Outcome::Truncated),
    ] {
        let grade = grader.grade(&item(&["7"], &[]), &completion, Timestamp(3));
        assert_eq!((grade.outcome, grade.measures), (outcome, vec![None, None]));
    }
    let finding = Finding {
        measures: vec![("distance".to_owned(), Measured::Value(9.0))],
        ..Finding::new("command@1", "7", Credit::Whole(true))
    };
    let cut = ended(Ending::Length, "7 and");
    let verdict = grader.verdict(Ok(Some(finding)), &item(&["7"], &[]), &cut);
    let measures = vec![Some(Measured::Value(9.0)), None];
    assert_eq!((verdict.outcome, verdict.measures), (Outcome::Truncated, measures));
    let failed = grader.grade(&item(&["7"], &[]), &ended(Ending::EngineError, ""), Timestamp(3));
    assert_eq!((failed.outcome, failed.measures), (Outcome::EngineError, Vec::new()));
}

#[test]
fn a_refused_answer_counts_in_the_metrics_of_a_task_of_the_harness_as_in_its_score() {
    let spec = GraderSpec::Pipelines {
        grading: r#"{"repeats": 2, "filter_list": [
            {"name": "first", "filter": [{"function": "take_first"}]},
            {"name": "maj", "filter": [{"function": "majority_vote"}, {"function": "take_first"}]}
        ], "metric_list": [{"metric": "exact_match"}, {"metric": "bleu"}]}"#
            .to_owned(),
        by_likelihood: false,
    };
    let metric = |name: &str, source, aggregation| Metric {
        name: name.to_owned(),
        source,
        aggregation,
        higher_is_better: true,
    };
    let metrics = [
        metric("exact_match,first", MetricSource::FirstMeasure, Aggregation::Mean),
        metric("bleu,first", MetricSource::FirstMeasure, Aggregation::Bleu),
        metric("exact_match,maj", MetricSource::VotedMeasure(2), Aggregation::Mean),
        metric("pass@1", MetricSource::PassAt(1), Aggregation::Mean),
    ];
    let grader = Grader::new(&spec, &Reasoning::Think).measuring(&metrics);
    // Where the right answer is none at all, a refusal is none either.
    for target in ["\"7\"", "\"\""] {
        let mut item = item(&["7"], &[]);
        item.material = vec![("target".to_owned(), target.to_owned())];
        let unended = "<think> 7";
        for (completion, outcome) in [
            (ended(Ending::Refused, ""), Outcome::Refused),
            (completion(unended), Outcome::NoAnswer),
            (ended(Ending::Length, unended), Outcome::Truncated),
        ] {
            let grade = grader.grade(&item, &completion, Timestamp(3));
            assert_eq!((grade.outcome, grade.score), (outcome, 0.0));
            assert!(
                matches!(
                    grade.measures.as_slice(),
                    [
                        Some(Measured::Value(0.0)),
                        Some(Measured::Counts(_)),
                        Some(Measured::Vote { value: 0.0, .. }),
                        None
                    ]
                ),
                "{:?}",
                grade.measures
            );
        }
        let failed = grader.grade(&item, &ended(Ending::EngineError, ""), Timestamp(3));
        assert_eq!(failed.measures, [], "a failure is no answer");
    }
}
