//! Benchmarks that a judge grades.

use std::path::Path;

use crate::support::{Folder, whole};
use tidemill_domain::{ANSWER_MARK, FIRST_MARK, GraderSpec, JudgeSpec, SECOND_MARK, VerdictForm, Verdicts};

const ROWS: &str = r#"{"q": "2+2?", "answer": "4", "rubric": "be strict"}"#;

fn folder(grader: &str) -> Folder {
    let head = "name = \"s\"\nversion = \"1\"\n[[benchmark]]\nname = \"b\"\ndata = \"rows.jsonl\"\n";
    let suite = format!(
        "{head}messages = [{{ role = \"system\", content = \"Be short.\" }}, {{ role = \"user\", content = \"{{{{ q }}}}\" }}]\n\
         target = \"{{{{ answer }}}}\"\n[benchmark.grader]\nkind = \"judge\"\n{grader}"
    );
    Folder::new().with("suite.toml", suite).with("rows.jsonl", ROWS)
}

const PLAIN: &str =
    "judge = \"main\"\nprompt = \"{{ question }} {{ target }} {{ row.answer }} {{ rubric }}: {{ answer }}\"\n";
const PAIR: &str = "judge = \"main\"\npairwise = true\nprompt = \"{{ answer_a }} or {{ answer_b }}? {{ format }}\"\n";

#[test]
fn a_judge_is_asked_what_the_row_renders_with_marks_for_the_answer() {
    let whole = "prompt = \"{{ question }} {{ target }} {{ row.answer }} {{ rubric }}: {{ answer }}\"";
    let odd = "prompt = \"{# answer|upper #}{{ question }} {{ target }} {{ row['answer'] }} {{ 'be answer'[:3] }}strict: {{-answer-}}\"";
    let shown = folder(&PLAIN.replace(whole, odd)).benchmark();
    assert_eq!(
        shown.items[0].material("judge_prompt"),
        Some(format!("2+2? 4 4 be strict:{ANSWER_MARK}").as_str())
    );
    let benchmark = folder(&format!("{PLAIN}system = \"{{{{ rubric }}}}\"\n")).benchmark();
    let item = &benchmark.items[0];
    assert_eq!(
        item.material("judge_prompt"),
        Some(format!("2+2? 4 4 be strict: {ANSWER_MARK}").as_str())
    );
    assert_eq!(item.material("judge_system"), Some("be strict"));
    let GraderSpec::Judge(spec) = &benchmark.grader else {
        panic!("{:?}", benchmark.grader)
    };
    let words = [("CORRECT".to_owned(), 1.0), ("INCORRECT".to_owned(), 0.0)];
    assert_eq!(
        *spec,
        JudgeSpec {
            judge: "main".to_owned(),
            verdicts: Verdicts::Words(words.to_vec()),
            label: "GRADE".to_owned(),
            form: VerdictForm::Line,
            votes: 1,
            is_pair: false,
            temperature: 0.0,
            max_tokens: 1_024,
        }
    );
}

#[test]
fn a_comparison_has_marks_for_both_and_a_reference_of_its_own() {
    let benchmark = folder(&format!("{PAIR}reference = \"four\"\nlabel = \"BETTER\"\n")).benchmark();
    let item = &benchmark.items[0];
    assert_eq!(
        item.material("judge_prompt"),
        Some(format!("{FIRST_MARK} or {SECOND_MARK}? a last line that is `BETTER: ` and one of A, TIE, B").as_str())
    );
    assert_eq!(item.material("judge_reference"), Some("four"));
    assert_eq!(
        folder(PAIR).items()[0].material("judge_reference"),
        None,
        "the target is"
    );
}

#[test]
fn what_no_judge_can_be_asked_is_refused_with_its_field() {
    for (grader, parts) in [
        ("prompt = \"{{ answer }}\"\n", &["grader.judge", "is missing"][..]),
        ("judge = \"main\"\n", &["grader.prompt", "is missing"]),
        (
            "judge = \"http://host/v1\"\nprompt = \"{{ answer }}\"\n",
            &["grader.judge", "graders' configuration"],
        ),
        (
            "judge = \"m\"\nprompt = \"{{ row.answer }}\"\n",
            &["grader.prompt", "{{ answer }}", "row 1"],
        ),
        (
            "judge = \"m\"\nprompt = \"{{ anwser }}\"\n",
            &["grader.prompt", "anwser", "row 1"],
        ),
        (
            "judge = \"m\"\nprompt = \"{{ answer | upper }}\"\n",
            &["grader.prompt", "without a filter"],
        ),
        (
            "judge = \"m\"\nprompt = \"{{ answer[:3] }} {{ answer }}\"\n",
            &["grader.prompt", "uses `answer`"],
        ),
        (
            "judge = \"m\"\nprompt = \"{{ 'LONG' if answer|length > 9 else 'SHORT' }}{{ answer }}\"\n",
            &["grader.prompt", "uses `answer`"],
        ),
        (
            "judge = \"m\"\nprompt = \"{{answer}}{% if answer == target %}same{% endif %}\"\n",
            &["grader.prompt", "uses `answer`"],
        ),
        (
            "judge = \"m\"\nprompt = \"{{- answer -}} {{ answer|tojson }}\"\n",
            &["grader.prompt", "uses `answer`"],
        ),
        (
            &format!("{PLAIN}system = \"{{{{ answer|upper }}}}\"\n"),
            &["grader.system", "uses `answer`"],
        ),
        (
            &format!("{PAIR}reference = \"like {{{{ answer_a }}}}\"\n"),
            &["grader.reference", "uses `answer_a`", "holds none"],
        ),
        (
            &format!("{PAIR}verdicts = {{ A = 1, B = 0.3 }}\n"),
            &["grader.verdicts", "mirror", "A is worth 1", "worth 0"],
        ),
        (
            "judge = \"m\"\npairwise = true\nprompt = \"{{ answer_a }}\"\n",
            &["grader.prompt", "{{ answer_b }}"],
        ),
        (
            &format!("{PLAIN}votes = 2\ntemperature = 1.0\n"),
            &["grader.votes", "must be odd"],
        ),
        (&format!("{PLAIN}votes = 3\n"), &["grader.votes", "temperature above 0"]),
        (
            &format!("{PLAIN}temperature = 3.0\n"),
            &["grader.temperature", "from 0 to 2"],
        ),
        (
            &format!("{PLAIN}verdicts = {{ C = 1 }}\n"),
            &["grader.verdicts", "at least two words"],
        ),
        (
            &format!("{PLAIN}verdicts = {{ C = 1, D = 1 }}\n"),
            &["grader.verdicts", "different worth"],
        ),
        (
            &format!("{PLAIN}verdicts = {{ C = 1, c = 0 }}\n"),
            &["grader.verdicts", "but for its case"],
        ),
        (
            &format!("{PLAIN}verdicts = {{ C = 2, I = 0 }}\n"),
            &["grader.verdicts", "0 to 1"],
        ),
        (
            &format!("{PLAIN}scale = [5, 1]\n"),
            &["grader.scale", "worst and the best"],
        ),
        (
            &format!("{PLAIN}scale = [1, 5]\nverdicts = {{ C = 1, I = 0 }}\n"),
            &["grader.scale", "beside verdicts"],
        ),
        (&format!("{PAIR}scale = [1, 5]\n"), &["grader.scale", "A, B and TIE"]),
        (
            &format!("{PLAIN}verdicts = {{ \"C.\" = 1, C = 0 }}\n"),
            &["grader.verdicts", "\"C.\" is never read", "it is \"C\""],
        ),
        (
            &format!("{PLAIN}verdicts = {{ \"**C**\" = 1, C = 0 }}\n"),
            &["grader.verdicts", "\"**C**\" is never read"],
        ),
        (
            &format!("{PLAIN}verdicts = {{ \"(A)\" = 1, \"(B)\" = 0 }}\n"),
            &["grader.verdicts", "is never read", "form = \"json\""],
        ),
        (&format!("{PLAIN}label = \"GRADE:\"\n"), &["grader.label"]),
        (
            &format!("{PLAIN}label = \"[GRADE]\"\n"),
            &["grader.label", "write \"GRADE\""],
        ),
        (
            &format!("{PLAIN}label = \"# GRADE\"\n"),
            &["grader.label", "write \"GRADE\""],
        ),
        (&format!("{PLAIN}form = \"lines\"\n"), &["grader.form"]),
        (
            &format!("{PLAIN}max_tokens = 0\n"),
            &["grader.max_tokens", "at least 1"],
        ),
        (
            &format!("{PLAIN}reference = \"x\"\n"),
            &["grader.reference", "pairwise = true"],
        ),
        (
            &format!("{PLAIN}url = \"http://host\"\n"),
            &["grader.url", "is unknown"],
        ),
        (
            &format!("{PLAIN}pattern = \"1\"\n"),
            &["grader.pattern", "is not an option of grader kind judge"],
        ),
    ] {
        let said = folder(grader).errors();
        for part in parts {
            assert!(said.contains(part), "{grader:?}: {part:?} is missing in {said}");
        }
    }
}

#[test]
fn in_an_object_verdicts_and_labels_are_read_with_their_marks() {
    let marked = "verdicts = { \"C.\" = 1, \"(I)\" = 0 }\nlabel = \"_grade_\"\nform = \"json\"\n";
    let GraderSpec::Judge(spec) = folder(&format!("{PLAIN}{marked}")).benchmark().grader else {
        panic!("no judge")
    };
    assert_eq!((spec.label.as_str(), spec.form), ("_grade_", VerdictForm::Json));
}

#[test]
fn the_example_loads() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/judge/suite.toml");
    let (manifest, warnings) = whole(&path);
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    let shown: Vec<_> = manifest
        .benchmarks
        .iter()
        .map(|benchmark| &benchmark.items[0])
        .collect();
    let prompt = shown[0].material("judge_prompt").unwrap();
    assert!(
        prompt.contains("one bulge alone is partial") && prompt.contains("CORRECT, PARTIAL, INCORRECT"),
        "{prompt}"
    );
    assert!(shown[1].material("judge_reference").unwrap().contains("The Moon pulls"));
}
