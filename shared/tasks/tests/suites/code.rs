//! Benchmarks whose answers are programs.

use crate::support::Folder;
use tidemill_domain::{CodeLanguage, CodeLimits, GraderSpec, ProgramPlace};

const ROWS: &str = r#"{"q": "def f(x):\n", "name": "f", "test": "assert f(1) == 1", "in": "1", "out": "2"}"#;

fn folder(grader: &str, rows: &str) -> Folder {
    let head = "name = \"s\"\nversion = \"1\"\n[[benchmark]]\nname = \"b\"\ndata = \"rows.jsonl\"\n";
    let suite =
        format!("{head}prompt = \"{{{{ q }}}}\"\ntarget = \"x\"\n[benchmark.grader]\nkind = \"code\"\n{grader}");
    Folder::new().with("suite.toml", suite).with("rows.jsonl", rows)
}

const PYTHON: &str = "tests = \"{{ test }}\\n\"\nentry_point = \"{{ name }}\"\n";
const COMMAND: &str = "language = \"command\"\ncommand = [\"/bin/sh\", \"main.sh\"]\nexpected = \"{{ out }}\"\n";

#[test]
fn a_program_is_tested_by_what_the_row_renders() {
    let more = "program = \"continued\"\nprelude = \"import math\"\ncpu_seconds = 3\n";
    let benchmark = folder(&format!("{PYTHON}{more}"), ROWS).benchmark();
    let limits = CodeLimits {
        cpu_seconds: 3,
        ..CodeLimits::default()
    };
    assert_eq!(
        benchmark.grader,
        GraderSpec::Code {
            language: CodeLanguage::Python,
            program: ProgramPlace::Continued,
            limits,
        }
    );
    let item = &benchmark.items[0];
    assert_eq!(item.material("tests"), Some("assert f(1) == 1\n"));
    assert_eq!(item.material("entry_point"), Some("f"));
    assert_eq!(item.material("prelude"), Some("import math"));
    assert_eq!(item.material("prefix"), None);
}

#[test]
fn a_command_is_compared_with_what_the_row_renders() {
    let benchmark = folder(
        &format!("{COMMAND}file = \"main.sh\"\ninput = \"{{{{ in }}}}\"\n"),
        ROWS,
    )
    .benchmark();
    let language = CodeLanguage::Command {
        argv: vec!["/bin/sh".to_owned(), "main.sh".to_owned()],
        file: "main.sh".to_owned(),
    };
    assert_eq!(
        benchmark.grader,
        GraderSpec::Code {
            language,
            program: ProgramPlace::Fenced,
            limits: CodeLimits::default(),
        }
    );
    let item = &benchmark.items[0];
    assert_eq!(
        (item.material("input"), item.material("expected")),
        (Some("1"), Some("2"))
    );
}

#[test]
fn what_cannot_be_tested_is_refused_with_its_field() {
    for (grader, parts) in [
        ("entry_point = \"f\"\n", &["grader.tests", "is missing"][..]),
        ("tests = \"assert True\"\n", &["grader.entry_point", "is missing"]),
        (
            &format!("{PYTHON}language = \"pyhton\"\n"),
            &["grader.language", "did you mean python?"],
        ),
        (&format!("{PYTHON}program = \"block\"\n"), &["grader.program"]),
        (
            &format!("{PYTHON}cpu_seconds = 0\n"),
            &["grader.cpu_seconds", "at least 1"],
        ),
        (
            &format!("{PYTHON}memory_mib = 8\n"),
            &["grader.memory_mib", "at least 64"],
        ),
        (&format!("{PYTHON}expected = \"1\"\n"), &["grader.expected"]),
        (
            &format!("{PYTHON}pattern = \"1\"\n"),
            &["grader.pattern", "is not an option of grader kind code"],
        ),
        ("tests = \"{{ test\"\nentry_point = \"f\"\n", &["grader.tests"]),
        (
            "tests = \"{{ tset }}\"\nentry_point = \"f\"\n",
            &["grader.tests", "tset", "row 1"],
        ),
        ("tests = \" \"\nentry_point = \"f\"\n", &["grader.tests", "is empty"]),
        (
            "tests = \"f()\"\nentry_point = \"{{ q }}\"\n",
            &["grader.entry_point", "no name of a function"],
        ),
        (
            "tests = \"f()\"\nentry_point = \" , \"\n",
            &["grader.entry_point", "names no function"],
        ),
        (
            "language = \"command\"\nexpected = \"1\"\n",
            &["grader.command", "is missing"],
        ),
        (
            &COMMAND.replace("/bin/sh", "sh"),
            &["grader.command", "no absolute path"],
        ),
        (
            &format!("{COMMAND}file = \"../x\"\n"),
            &["grader.file", "no name of a file"],
        ),
        (&format!("{COMMAND}tests = \"x\"\n"), &["grader.tests"]),
    ] {
        let said = folder(grader, ROWS).errors();
        for part in parts {
            assert!(said.contains(part), "{grader:?}: {part:?} is missing in {said}");
        }
    }
}
