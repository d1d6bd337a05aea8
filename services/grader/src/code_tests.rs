use tidemill_domain::Reasoning;

use super::*;
use crate::answer::tests::item;

fn code(language: CodeLanguage, program: ProgramPlace) -> Code {
    Code {
        language,
        program,
        limits: CodeLimits::default(),
    }
}

fn problem() -> Item {
    let material = [
        ("tests", "assert f(1) == 1"),
        ("entry_point", "f"),
        ("prelude", "import math"),
    ];
    Item {
        material: material.map(|(name, text)| (name.to_owned(), text.to_owned())).to_vec(),
        ..item(&["the solution"], &[])
    }
}

/// The program that is run for an answer, and the finding.
fn program(place: ProgramPlace, item: &Item, text: &str) -> Option<(String, Finding)> {
    let answer = Answer::of(text, &Reasoning::Think)?;
    let (task, finding) = code(CodeLanguage::Python, place).task(item, &answer).unwrap()?;
    match task {
        Task::Check(check) => Some((check.program, finding)),
        Task::Command(..) => panic!("Python is checked"),
    }
}

#[test]
fn a_program_is_the_last_block_that_defines_what_is_tested() {
    let ended_often = format!("```python\ndef f(x): return 2\n```{}", "</s>".repeat(100_000));
    for (text, expected) in [
        ("```python\ndef f(x):\n    return x\n```", "def f(x):\n    return x\n"),
        (
            "Sure!\n```\ndef f(x): return 1\n```\nNo:\n```py\ndef f(x): return 2\n```\n",
            "def f(x): return 2\n",
        ),
        (
            "```python\ndef f(x): return 1\n```\nUse it:\n```python\nprint(f(1))\n```",
            "def f(x): return 1\n",
        ),
        (
            "```python\ndef g(x): return 1\n```\nand\n```python\ng(2)\n```",
            "g(2)\n",
        ),
        (
            "```python\ndef f(x): return 1\n```\nOutput:\n```python\nf(2)  # 4\n```",
            "def f(x): return 1\n",
        ),
        (
            "```python\ndef f(x): return 1\n```\nOutput:\n```\nf(2) -> 4\nf: 4\nf == 4\n```",
            "def f(x): return 1\n",
        ),
        (
            "```python\ndef f(x): return 1\n```\n```python\nf = f\nassert f(2) == 4\n```",
            "def f(x): return 1\n",
        ),
        (
            "```python\ndef f(x): return 1\n```\n```python\ndef test_f():\n    f = 3\n```\n```bash\nf() { echo; }\n```",
            "def f(x): return 1\n",
        ),
        (
            "```python\nimport math\n```\n```python\n@cache\nasync  def f (x): return 1\n```\n```\nf(3)\n```",
            "@cache\nasync  def f (x): return 1\n",
        ),
        (
            "```python\nclass f:\n    pass\n```\n```\nclassf: f(1)\nundef f(x)\n```",
            "class f:\n    pass\n",
        ),
        (
            "```python\nif True:\n    def f[T](x): return 1\n```\n```\nx = f(1)\n```",
            "if True:\n    def f[T](x): return 1\n",
        ),
        ("```python\nf: object = abs\n```\n```\nf(1)\n```", "f: object = abs\n"),
        (
            "1. So:\n   ```\n   f = abs\n   ```\n   ```\n   f(1)\n   ```\n",
            "f = abs\n",
        ),
        (
            "```\ndef f(x): return 1\nf = g(f)\n```\n```\ndef f(x): return 2\n```\n",
            "def f(x): return 2\n",
        ),
        (
            "~~~\ndef f(x):\n    '''\n```\n    '''\n~~~",
            "def f(x):\n    '''\n```\n    '''\n",
        ),
        ("````\ndef f(x):\n    '```'\n```\n````", "def f(x):\n    '```'\n```\n"),
        (
            "1. First\n   ```python\n   def f(x):\n       return x\n   ```\n",
            "def f(x):\n    return x\n",
        ),
        ("```python\ndef f(x): return 1", "def f(x): return 1"),
        ("```python\n```\n```python\nf = abs\n```", "f = abs\n"),
        ("```python\ndef f(x): return 2\n```<|im_end|>\n", "def f(x): return 2\n"),
        (
            "```python\ndef f(x): return 2\n``` </s><|endoftext|>",
            "def f(x): return 2\n",
        ),
        (&ended_often, "def f(x): return 2\n"),
        ("def f(x): return 3", "def f(x): return 3"),
        (
            "<think>```\ndef f(x): return 0\n```</think>```\ndef f(x): return 4\n```",
            "def f(x): return 4\n",
        ),
        ("```python\r\ndef f(x): return 5\r\n```\r\n", "def f(x): return 5\r\n"),
        (
            "```\ndef f(x): return 5\n```\n```\n\u{feff}def f(x): return 6\n```",
            "def f(x): return 6\n",
        ),
        ("\u{feff}def f(x): return 7", "def f(x): return 7"),
        ("\u{feff}```python\ndef f(x): return 8\n```", "def f(x): return 8\n"),
        (
            "```python\ndef f(x):\n    '''\n    ```\n    f(1)\n    ```\n    '''\n   ```\n",
            "def f(x):\n    '''\n    ```\n    f(1)\n    ```\n    '''\n",
        ),
        (
            "1. So:\n   ```\n   def f(x):\n       '''\n       ```\n       '''\n   ```\nIt is.",
            "def f(x):\n    '''\n    ```\n    '''\n",
        ),
    ] {
        let (program, finding) = program(ProgramPlace::Fenced, &problem(), text).unwrap();
        assert_eq!(program, expected, "{text:?}");
        let span = finding.span.unwrap();
        assert_eq!(
            &text[span.start as usize..span.end as usize],
            finding.extracted,
            "{text:?}"
        );
    }
}

#[test]
fn of_several_names_most_are_in_one_block() {
    let mut item = problem();
    item.material[1].1 = "encode decode".to_owned();
    let both = "def encode(x): pass\ndef decode(x): pass\n";
    let text = format!("```\n{both}```\nFaster:\n```\ndef encode(x): pass\n```\n```\nencode(1)\ndecode(1)\n```");
    assert_eq!(program(ProgramPlace::Fenced, &item, &text).unwrap().0, both);
}

#[test]
fn no_answer_holds_no_program() {
    for place in [ProgramPlace::Fenced, ProgramPlace::Continued] {
        for text in ["", " \n\t", "<think>def f(x): return 1", "<think>a</think>\n"] {
            assert!(program(place, &problem(), text).is_none(), "{text:?}");
        }
    }
}

#[test]
fn a_continuation_goes_on_where_the_prefix_ends() {
    let mut item = problem();
    item.prompt = Prompt::Text("examples\n\ndef f(x):\n".to_owned());
    let (source, finding) = program(ProgramPlace::Continued, &item, "    return x\n").unwrap();
    assert_eq!(source, "examples\n\ndef f(x):\n    return x\n");
    assert_eq!(
        (finding.extractor, finding.extracted.as_str()),
        ("continuation@1", "    return x\n")
    );
    item.material.push(("prefix".to_owned(), "def f(x):\n".to_owned()));
    assert_eq!(
        program(ProgramPlace::Continued, &item, "    return x").unwrap().0,
        "def f(x):\n    return x"
    );
    let (source, finding) = program(ProgramPlace::Fenced, &item, "```\nf = abs\n```").unwrap();
    assert_eq!(
        (source.as_str(), finding.extractor),
        ("def f(x):\n\nf = abs\n", "fenced-block@4")
    );
}

#[test]
fn what_the_suite_did_not_render_is_named() {
    let answer = Answer::whole("f = abs");
    let python = code(CodeLanguage::Python, ProgramPlace::Fenced);
    for missing in ["tests", "entry_point"] {
        let mut item = problem();
        item.material.retain(|(name, _)| name != missing);
        assert_eq!(
            python.task(&item, &answer).unwrap_err(),
            Error::Material { name: missing }
        );
    }
    let mut chat = problem();
    chat.prompt = Prompt::Chat(Vec::new());
    let continued = code(CodeLanguage::Python, ProgramPlace::Continued).task(&chat, &answer);
    assert_eq!(continued.unwrap_err(), Error::Material { name: "prefix" });
}

#[test]
fn a_command_gets_the_program_as_a_file_and_its_input() {
    let mut item = item(&["6"], &[]);
    item.material = vec![
        ("input".to_owned(), "2 3".to_owned()),
        ("expected".to_owned(), "6".to_owned()),
    ];
    let argv = vec!["/bin/sh".to_owned(), "main.sh".to_owned()];
    let language = CodeLanguage::Command {
        argv: argv.clone(),
        file: "main.sh".to_owned(),
    };
    let code = code(language, ProgramPlace::Fenced);
    let (task, _) = code
        .task(&item, &Answer::whole("```sh\nread a b; echo 6\n```"))
        .unwrap()
        .unwrap();
    let command = Command {
        argv,
        files: vec![("main.sh".to_owned(), b"read a b; echo 6\n".to_vec())],
        input: b"2 3".to_vec(),
    };
    assert_eq!(task, Task::Command(command, "6".to_owned()));
    item.material.pop();
    let missing = code.task(&item, &Answer::whole("x")).unwrap_err();
    assert_eq!(missing, Error::Material { name: "expected" });
}

#[test]
fn a_verdict_is_a_finding_with_its_reason_and_level() {
    let verdict = Verdict {
        is_right: false,
        reason: "the program went over its cpu_limit".to_owned(),
        limit: Some(tidemill_sandbox::Limit::Cpu),
    };
    let finding = judged(Finding::new(WHOLE, "x", Credit::Whole(false)), &verdict, "landlock");
    assert_eq!(finding.credit, Credit::Whole(false));
    let reason = "cpu_limit: the program went over its cpu_limit [sandbox: landlock]";
    assert_eq!(finding.reason.as_deref(), Some(reason));
    let right = Verdict {
        is_right: true,
        limit: None,
        ..verdict
    };
    assert_eq!(judged(finding, &right, "landlock").credit, Credit::Whole(true));
}
