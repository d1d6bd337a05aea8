//! What is refused, and in which words.

use crate::support::{Folder, question_suite, suite};

/// The errors of the question suite over these rows.
fn row_errors(fields: &str, rows: &str) -> String {
    Folder::new()
        .with("suite.toml", question_suite(fields))
        .with("rows.jsonl", rows)
        .errors()
}

/// The errors of a benchmark over one good row.
fn suite_errors(fields: &str) -> String {
    let row = r#"{"q": "1+1", "a": "2", "choices": ["a", "b"]}"#;
    Folder::new()
        .with("suite.toml", suite(fields))
        .with("rows.jsonl", row)
        .errors()
}

#[test]
fn every_error_of_a_suite_is_reported_at_once() {
    let text = r#"name = ""
version = 1
teir = "canary"
max_failure_rate = 1.5

[[benchmark]]
name = "one"
data = "missing.jsonl"
promt = "{{ question }}"
target = "{{ answer"
max_tokens = 0
temprature = 0.5
temperature = -1
top_p = 0
samples = 0
limit = 0
stop = ["\n", ""]
few_shot = 2
[benchmark.grader]
kind = "exact"
tolerance = 1

[[benchmark]]
name = "one"
data = "rows.jsonl"
prompt = "{{ q }}"
messages = [{ role = "user", content = "{{ q }}" }]
target = "{{ a }}"
[benchmark.grader]
kind = "regex"
pattern = "(["

[[benchmark]]
data = "s3://bucket/rows.jsonl"
prompt = "{{ q }}"
target = "{{ a }}"
[benchmark.grader]
kind = "numeric"
tolerance = -1.0
"#;
    let folder = Folder::new()
        .with("suite.toml", text)
        .with("rows.jsonl", r#"{"q": "1", "a": "2"}"#);
    insta::assert_snapshot!(folder.errors());
}

#[test]
fn syntax_errors_name_their_lines() {
    let text = "name = \"s\"\nversion = 1.2.3\ntier = canary\n\n[[benchmark]\n";
    insta::assert_snapshot!(Folder::new().with("suite.toml", text).errors());
    let doubled = "name = \"s\"\nname = \"t\"\n";
    insta::assert_snapshot!(Folder::new().with("suite.toml", doubled).errors());
    let bytes = b"name = \"s\"\n# \xff\n";
    insta::assert_snapshot!(Folder::new().with("suite.toml", bytes).errors());
}

#[test]
fn an_absent_suite_is_an_error() {
    insta::assert_snapshot!(Folder::new().errors());
}

#[test]
fn a_suite_of_no_benchmarks_is_refused() {
    let header = "name = \"s\"\nversion = \"1\"\ntier = \"canary\"\n";
    insta::assert_snapshot!(Folder::new().with("suite.toml", header).errors());
    let empty = format!("{header}benchmark = []\n");
    insta::assert_snapshot!(Folder::new().with("suite.toml", empty).errors());
    let table = format!("{header}[benchmark]\nname = \"b\"\n");
    insta::assert_snapshot!(Folder::new().with("suite.toml", table).errors());
    let plural = format!("{header}[[benchmarks]]\nname = \"b\"\n");
    insta::assert_snapshot!(Folder::new().with("suite.toml", plural).errors());
}

#[test]
fn a_benchmark_of_no_items_is_refused() {
    insta::assert_snapshot!(row_errors("", ""));
    assert_eq!(row_errors("", "\n  \n\n"), row_errors("", ""));
    let header_only = suite("data = \"rows.csv\"\nprompt = \"{{ q }}\"\ntarget = \"{{ a }}\"");
    insta::assert_snapshot!(
        Folder::new()
            .with("suite.toml", header_only)
            .with("rows.csv", "q,a\n")
            .errors()
    );
}

#[test]
fn a_missing_column_is_named_with_file_row_and_field() {
    let rows: Vec<String> = (1..=900)
        .map(|row| match row {
            817 => r#"{"question": "x", "a": "y"}"#.to_owned(),
            818 => format!(r#"{{"q": "{row}"}}"#),
            819 => format!(r#"{{"q": null, "a": "{row}"}}"#),
            _ => format!(r#"{{"q": "{row}", "a": "y"}}"#),
        })
        .collect();
    insta::assert_snapshot!(row_errors("", &rows.join("\n")));
}

#[test]
fn nested_and_chat_fields_that_are_missing_are_named() {
    let fields = r#"data = "rows.jsonl"
messages = [{ role = "system", content = "Be brief." }, { role = "user", content = "{{ q.text }}" }]
target = "{{ answers[1] }}""#;
    let rows = "{\"q\": {\"texts\": \"x\"}, \"answers\": [\"a\"]}\n{\"q\": {\"text\": null}, \"answers\": [1, null]}\n";
    let folder = Folder::new().with("suite.toml", suite(fields)).with("rows.jsonl", rows);
    insta::assert_snapshot!(folder.errors());
}

#[test]
fn ids_that_collide_are_refused_naming_both_rows() {
    let rows = concat!(
        "{\"id\": 1, \"q\": \"a\", \"a\": \"x\"}\n",
        "{\"id\": \"1\", \"q\": \"b\", \"a\": \"x\"}\n",
        "{\"id\": \"two\", \"q\": \"c\", \"a\": \"x\"}\n",
        "\n",
        "{\"id\": \"two\", \"q\": \"c\", \"a\": \"y\"}\n",
        "{\"q\": \"d\", \"a\": \"x\"}\n",
        "{\"id\": null, \"q\": \"e\", \"a\": \"x\"}\n",
        "{\"id\": 1.0, \"q\": \"f\", \"a\": \"x\"}\n",
        "{\"id\": \"\", \"q\": \"g\", \"a\": \"x\"}\n",
    );
    insta::assert_snapshot!(row_errors("id = \"id\"", rows));
}

#[test]
fn equal_rows_without_ids_are_refused_naming_both() {
    let rows = "{\"q\": \"a\", \"a\": \"x\"}\n{\"q\": \"b\", \"a\": \"x\"}\n{\"a\": \"x\", \"q\": \"a\"}\n";
    insta::assert_snapshot!(row_errors("", rows));
}

#[test]
fn row_errors_beyond_twenty_are_counted() {
    let rows = "{}\n".repeat(30);
    let text = row_errors("id = \"q\"\ncluster = \"c\"", &rows);
    assert_eq!(text.lines().count(), 21);
    assert!(text.contains("100 more errors in rows are not shown"), "{text}");
}

#[test]
fn broken_rows_are_named_and_reading_goes_on() {
    let mut rows =
        b"{\"q\": \"a\", \"a\": \"x\"}\n{\"q\": \"b\", \n[1]\n7\n{\"q\": \"\\ud800\", \"a\": \"x\"}\n".to_vec();
    rows.extend_from_slice(b"{\"q\": \"\xff\", \"a\": \"x\"}\n{\"q\": 1, \"a\": \"x\"} trailing\n");
    let folder = Folder::new()
        .with("suite.toml", question_suite(""))
        .with("rows.jsonl", rows);
    insta::assert_snapshot!(folder.errors());
}

#[test]
fn broken_csv_is_named() {
    let toml = suite("data = \"rows.csv\"\nprompt = \"{{ q }}\"\ntarget = \"{{ a }}\"");
    let errors = |rows: &[u8]| Folder::new().with("suite.toml", &toml).with("rows.csv", rows).errors();
    let texts = [
        errors(b"q,a\n1,2\n\"open,3\n4,5\n"),
        errors(b"q,a\n1,2\n\"closed\" and on,3\n"),
        errors(b"q,a\n1,2\n3\n4,5,6\n"),
        errors(b"q,a\n1,2\n\xff,3\n"),
        errors(b"q,q\n1,2\n"),
        errors(b"q,\n1,2\n"),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn packed_files_that_break_off_are_named() {
    let toml = question_suite("").replace("rows.jsonl", "rows.jsonl.gz");
    let errors = |bytes: &[u8]| {
        Folder::new()
            .with("suite.toml", &toml)
            .with("rows.jsonl.gz", bytes)
            .errors()
    };
    insta::assert_snapshot!(errors(b"{\"q\": 1, \"a\": 2}\n"));
    let zst = toml.replace(".gz", ".zst");
    let whole = zstd::encode_all("{\"q\": 1, \"a\": 2}\n".repeat(500).as_bytes(), 1).unwrap();
    let cut = Folder::new()
        .with("suite.toml", &zst)
        .with("rows.jsonl.zst", &whole[..whole.len() - 5])
        .errors();
    insta::assert_snapshot!(cut);
    let parquet = toml.replace(".jsonl.gz", ".parquet");
    let text = Folder::new()
        .with("suite.toml", parquet)
        .with("rows.parquet", "PAR1 no")
        .errors();
    insta::assert_snapshot!(text);
}

#[test]
fn data_files_that_cannot_be_located_are_named() {
    let errors = |data: &str| {
        suite_errors(&format!(
            "data = \"{data}\"\nprompt = \"{{{{ q }}}}\"\ntarget = \"{{{{ a }}}}\""
        ))
    };
    let texts = [
        errors("none.jsonl"),
        errors("rows.txt"),
        errors("rows"),
        errors("rows.parquet.gz"),
        errors("s3://bucket/rows.jsonl"),
        errors("file://relative.jsonl"),
        errors("file:///nowhere/rows.jsonl"),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn graders_of_other_kinds_and_options_are_refused() {
    let errors = |grader: &str| {
        suite_errors(&format!(
            "data = \"rows.jsonl\"\nprompt = \"{{{{ q }}}}\"\ntarget = \"{{{{ a }}}}\"\n{grader}"
        ))
    };
    let kinds = ["code", "judge", "exat"];
    let mut texts: Vec<String> = kinds
        .iter()
        .map(|kind| errors(&format!("[benchmark.grader]\nkind = \"{kind}\"")))
        .collect();
    texts.extend([
        errors("[benchmark.grader]"),
        errors("[benchmark.grader]\nkind = \"regex\""),
        errors("[benchmark.grader]\nkind = \"regex\"\npattern = \"\""),
        errors("[benchmark.grader]\nkind = \"regex\"\npattern = \"a(b\"\ntake = \"any\""),
        errors("[benchmark.grader]\nkind = \"regex\"\npattern = \"(a)\"\ngroup = 2\nfallbacks = [\"b\", \"c(\"]"),
        errors("[benchmark.grader]\nkind = \"math\"\npattern = \"(\"\nnormalisers = [\"case\"]"),
        errors("[benchmark.grader]\nkind = \"exact\"\nnormalisers = [\"cases\"]"),
        errors("[benchmark.grader]\nkind = \"numeric\"\npattern = \"(?<n\"\ntolerance = nan"),
        errors("[benchmark.grader]\nkind = \"exact\"\nignore_cases = true\nnormalise = \"bytes\""),
        errors("choices = \"{{ choices }}\"\n[benchmark.grader]\nkind = \"exact\""),
    ]);
    insta::assert_snapshot!(texts.join("\n"));
    let refused = |kind: &str, options: &str| {
        suite_errors(&format!(
            "data = \"rows.jsonl\"\nprompt = \"{{{{ q }}}}\"\ntarget = \"\"\n[benchmark.grader]\nkind = \"{kind}\"\n{options}"
        ))
    };
    let asked = |ids: &str, arguments: &str| {
        refused(
            "instructions",
            &format!("instructions = '{ids}'\narguments = '{arguments}'"),
        )
    };
    let texts = [
        refused("f1", "words = \"coqa\""),
        refused("bleu", "tokenise = \"zh\"\nmaterial = { tests = \"x\" }"),
        refused("instructions", ""),
        asked("[\"keywords:existance\"]", "[{}]"),
        asked(
            "[\"length_constraints:number_words\"]",
            "[{\"relation\": \"at most\", \"num_words\": 3}]",
        ),
        asked("{{ q }}", "[]"),
        asked("{{ nothing }}", "[]"),
        refused("json_schema", ""),
        refused("json_schema", "schema = '{\"type\": 1}'"),
        refused("json_schema", "schema = '{\"$ref\": \"https://example.org/a.json\"}'"),
        refused("json_schema", "schema_file = \"nowhere.json\""),
        refused("json_schema", "check = \"equal\""),
        refused("command", "command = []\nseconds = 0"),
    ];
    insta::assert_snapshot!(texts.join("\n"));
    let no_table =
        "name = \"s\"\nversion = \"1\"\ntier = \"canary\"\n[[benchmark]]\nname = \"b\"\ngrader = \"exact\"\n";
    insta::assert_snapshot!(Folder::new().with("suite.toml", no_table).errors());
}

#[test]
fn chat_prompts_that_no_server_takes_are_refused() {
    let errors = |messages: &str| {
        suite_errors(&format!(
            "data = \"rows.jsonl\"\nmessages = [{messages}]\ntarget = \"{{{{ a }}}}\""
        ))
    };
    let texts = [
        errors(""),
        errors("{ role = \"user\" }"),
        errors("{ role = \"human\", content = \"x\" }"),
        errors("{ role = \"user\", content = \"x\", name = \"y\" }"),
        errors("{ role = \"user\", content = \"x\" }, { role = \"assistant\", content = \"y\" }"),
        errors(
            "{ role = \"user\", content = \"x\" }, { role = \"system\", content = \"y\" }, { role = \"user\", content = \"z\" }",
        ),
        errors("{ role = \"user\", content = \"{{ q\" }"),
        errors("{ role = \"user\", content = \"{% if false %}x{% endif %}\" }"),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn likelihood_needs_choices_and_a_target_among_them() {
    let fields = "choices = \"{{ c }}\"\nmax_tokens = 0\n[benchmark.grader]\nkind = \"likelihood\"";
    let rows = [
        r#"{"q": 1, "a": 0, "c": ["x"]}"#,
        r#"{"q": 2, "a": 2, "c": ["x", "y"]}"#,
        r#"{"q": 3, "a": -1, "c": ["x", "y"]}"#,
        r#"{"q": 4, "a": "z", "c": ["x", "y"]}"#,
        r#"{"q": 5, "a": "x", "c": ["x", "x"]}"#,
        r#"{"q": 6, "a": "2", "c": ["x", "y"]}"#,
        r#"{"q": 7, "a": 20, "c": [10, 20]}"#,
        r#"{"q": 8, "a": 1.5, "c": ["x", "y"]}"#,
        r#"{"q": 9, "a": ["x", "y"], "c": ["x", "y"]}"#,
        r#"{"q": 10, "a": 0, "c": "x, y"}"#,
        r#"{"q": 11, "a": 0, "c": ["x", null]}"#,
        r#"{"q": 12, "a": 0, "c": ["x", ""]}"#,
        r#"{"q": 13, "a": 0, "c": []}"#,
        r#"{"q": 14, "a": 0}"#,
    ];
    insta::assert_snapshot!(row_errors(fields, &rows.join("\n")));
    let without = "data = \"rows.jsonl\"\nmessages = [{ role = \"user\", content = \"x\" }]\ntarget = \"0\"\n[benchmark.grader]\nkind = \"likelihood\"";
    insta::assert_snapshot!(suite_errors(without));
    let text = "data = \"rows.jsonl\"\nprompt = \"x\"\ntarget = \"0\"\nchoices = \"{{ a }} {{ q }}\"\n[benchmark.grader]\nkind = \"likelihood\"";
    insta::assert_snapshot!(suite_errors(text));
}

#[test]
fn targets_that_no_answer_can_meet_are_refused() {
    let rows = [
        r#"{"q": 1, "a": ""}"#,
        r#"{"q": 2, "a": []}"#,
        r#"{"q": 3, "a": ["x", " "]}"#,
        r#"{"q": 4, "a": ["x", ["y"]]}"#,
        r#"{"q": 5, "a": {"x": 1}}"#,
        r#"{"q": 6, "a": [null]}"#,
    ];
    insta::assert_snapshot!(row_errors("", &rows.join("\n")));
    let numeric = "[benchmark.grader]\nkind = \"numeric\"";
    insta::assert_snapshot!(row_errors(numeric, r#"{"q": 1, "a": "none of these"}"#));
    let choice = "[benchmark.grader]\nkind = \"choice\"";
    insta::assert_snapshot!(row_errors(
        choice,
        "{\"q\": 1, \"a\": \"Paris\"}\n{\"q\": 2, \"a\": 26}\n"
    ));
}

#[test]
fn few_shot_examples_must_exist() {
    let row = r#"{"q": "1", "a": "2"}"#;
    let missing = Folder::new()
        .with("suite.toml", question_suite("few_shot = 1"))
        .with("rows.jsonl", row);
    insta::assert_snapshot!(missing.errors());
    let fields = "few_shot = 1\nfew_shot_data = \"shots.jsonl\"";
    let shots = |content: &str| {
        Folder::new()
            .with("suite.toml", question_suite(fields))
            .with("rows.jsonl", row)
            .with("shots.jsonl", content)
            .errors()
    };
    let texts = [shots(""), shots(row), shots("{\"q\": 1}\n"), shots("{\"q\": \n")];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn ids_and_clusters_are_columns_not_templates() {
    insta::assert_snapshot!(row_errors("id = \"{{ id }}\"\ncluster = \"\"", "{\"q\": 1, \"a\": 2}"));
}

#[test]
fn penalties_outside_their_ranges_and_unknown_continuations_are_refused() {
    let fields =
        "frequency_penalty = 2.5\npresence_penalty = nan\nrepetition_penalty = 0\ncontinuation = \"sometimes\"";
    let row = r#"{"q": "1", "a": "2"}"#;
    let prefix = "benchmark \"b\": field";
    assert_eq!(
        row_errors(fields, row),
        [
            format!("suite.toml:9: {prefix} frequency_penalty: must be from -2 to 2, but is 2.5"),
            format!("suite.toml:10: {prefix} presence_penalty: must be from -2 to 2, but is NaN"),
            format!("suite.toml:11: {prefix} repetition_penalty: must be above 0 and at most 2 (1 changes nothing), but is 0"),
            format!("suite.toml:12: {prefix} continuation: unknown variant `sometimes`, expected `exact` or `never`"),
        ]
        .join("\n")
    );
}
