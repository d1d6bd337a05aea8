//! What items come out of rows.

use crate::support::{Folder, question_suite, suite, whole};
use tidemill_domain::{Continuation, GraderSpec, Item, Message, Normalise, Penalties, Prompt, Take};

fn items(fields: &str, rows: &str) -> Vec<Item> {
    Folder::new()
        .with("suite.toml", question_suite(fields))
        .with("rows.jsonl", rows)
        .items()
}

fn text(item: &Item) -> &str {
    match &item.prompt {
        Prompt::Text(text) => text,
        Prompt::Chat(_) => panic!("not a text"),
    }
}

fn turns(item: &Item) -> Vec<(&str, &str)> {
    match &item.prompt {
        Prompt::Chat(messages) => messages
            .iter()
            .map(|Message { role, content }| (role.as_str(), content.as_str()))
            .collect(),
        Prompt::Text(_) => panic!("not a chat"),
    }
}

#[test]
fn a_shipped_suite_of_every_grader_renders() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suites/data/every-grader/suite.toml");
    let (manifest, warnings) = whole(&path);
    assert_eq!(warnings, []);
    insta::assert_json_snapshot!(manifest);
}

#[test]
fn penalties_and_what_becomes_of_interrupted_answers_are_the_benchmarks_own() {
    let fields = "frequency_penalty = -0.5\npresence_penalty = 2\nrepetition_penalty = 1.2\ncontinuation = \"never\"";
    let folder = Folder::new()
        .with("suite.toml", question_suite(fields))
        .with("rows.jsonl", "{\"q\": 1, \"a\": 2}");
    let benchmark = folder.load().unwrap().manifest.benchmarks.remove(0);
    let penalties = Penalties {
        frequency: -0.5,
        presence: 2.0,
        repetition: 1.2,
    };
    assert_eq!(
        (benchmark.penalties, benchmark.continuation),
        (penalties, Continuation::Never)
    );
    assert_eq!(folder.warnings(), "");
}

#[test]
fn a_wish_to_continue_exactly_what_cannot_be_is_warned_of() {
    let warnings = |penalties: &str| {
        let suite = question_suite(&format!("continuation = \"exact\"\n{penalties}"));
        let folder = Folder::new().with("suite.toml", suite);
        folder.with("rows.jsonl", "{\"q\": 1, \"a\": 2}").warnings()
    };
    let warning = |penalties: &str| {
        format!(
            "suite.toml:9: benchmark \"b\": field continuation: has no effect: an answer with {penalties} cannot be \
             continued exactly, so it is asked for anew"
        )
    };
    assert_eq!(warnings("presence_penalty = 1"), warning("a presence_penalty"));
    assert_eq!(
        warnings("frequency_penalty = 1\nrepetition_penalty = 1.1"),
        warning("both a frequency_penalty and a repetition_penalty")
    );
    for alone in ["frequency_penalty = 1", "repetition_penalty = 1.1", ""] {
        assert_eq!(warnings(alone), "");
    }
}

#[test]
fn fields_left_out_take_their_documented_defaults() {
    let folder = Folder::new()
        .with("suite.toml", question_suite(""))
        .with("rows.jsonl", "{\"q\": 1, \"a\": 2}");
    let manifest = folder.load().unwrap().manifest;
    let settings = &manifest.benchmarks[0].settings;
    assert_eq!(manifest.max_failure_rate, 0.02);
    assert_eq!((settings.max_tokens, settings.samples, settings.seed), (256, 1, 0));
    assert_eq!((settings.temperature, settings.top_p), (0.0, 1.0));
    assert!(settings.stop.is_empty());
    assert!(manifest.benchmarks[0].penalties.are_neutral());
    assert_eq!(manifest.benchmarks[0].continuation, Continuation::Exact);
    let grader = |grader: &str| {
        let suite = question_suite(&format!("[benchmark.grader]\n{grader}"));
        Folder::new()
            .with("suite.toml", suite)
            .with("rows.jsonl", "{\"q\": 1, \"a\": 2}")
            .benchmark()
            .grader
    };
    assert_eq!(
        grader("kind = \"regex\"\npattern = 'x'"),
        GraderSpec::Regex {
            pattern: "x".to_owned(),
            take: Take::Last,
            ignore_case: false
        }
    );
    assert_eq!(
        grader("kind = \"numeric\""),
        GraderSpec::Numeric {
            pattern: None,
            tolerance: 0.0
        }
    );
    assert_eq!(
        grader("kind = \"exact\""),
        GraderSpec::Exact {
            ignore_case: false,
            ignore_punctuation: false
        }
    );
}

#[test]
fn a_prompt_is_sent_as_it_is_written() {
    let fields = "data = \"rows.jsonl\"\nprompt = \"<b>{{ q }}</b>\\n\\n\"\ntarget = \"{{ a }} \"";
    let rows = "{\"q\": \"a < b & \\\"c\\\" \\u0001 {{ x }}\", \"a\": \"y\"}";
    let items = Folder::new()
        .with("suite.toml", suite(fields))
        .with("rows.jsonl", rows)
        .items();
    assert_eq!(text(&items[0]), "<b>a < b & \"c\" \u{1} {{ x }}</b>\n\n");
    assert_eq!(items[0].targets, ["y "]);
}

#[test]
fn templates_may_compute() {
    let fields = "data = \"rows.jsonl\"
prompt = \"{% for c in choices %}{{ 'ABC'[loop.index0] }}. {{ c }}\\n{% endfor %}{{ q | default('none') }}\"
target = \"{{ answer.split('####')[1] | trim }}\"";
    let rows = "{\"choices\": [\"x\", \"y\"], \"answer\": \"so\\n#### 72\"}";
    let items = Folder::new()
        .with("suite.toml", suite(fields))
        .with("rows.jsonl", rows)
        .items();
    assert_eq!(text(&items[0]), "A. x\nB. y\nnone");
    assert_eq!(items[0].targets, ["72"]);
}

#[test]
fn a_target_of_one_expression_may_be_a_list() {
    let rows = "{\"q\": 1, \"a\": [\"x\", 2]}\n{\"q\": 2, \"a\": 3.5}\n{\"q\": 3, \"a\": 7}\n";
    let targets: Vec<Vec<String>> = items("", rows).into_iter().map(|item| item.targets).collect();
    assert_eq!(targets, [vec!["x", "2"], vec!["3.5"], vec!["7"]]);
}

#[test]
fn ids_come_from_the_column_or_from_the_content() {
    let rows = "{\"q\": 1, \"a\": 2, \"key\": 7}\n{\"q\": 1, \"a\": 2, \"key\": \"b\"}\n";
    let ids = |items: Vec<Item>| items.into_iter().map(|item| item.id).collect::<Vec<_>>();
    assert_eq!(ids(items("id = \"key\"", rows)), ["7", "b"]);
    let content = ids(items("", rows));
    assert!(
        content
            .iter()
            .all(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
    );
    let (first, second) = rows.split_once('\n').unwrap();
    let shuffled = format!("{{\"q\": 9, \"a\": 9}}\n{second}{first}\n");
    assert_eq!(ids(items("", &shuffled))[1..], [content[1].clone(), content[0].clone()]);
}

#[test]
fn clusters_are_texts() {
    let rows = "{\"q\": 1, \"a\": 2, \"c\": 7}\n{\"q\": 2, \"a\": 2, \"c\": \"p\"}\n";
    let clusters: Vec<_> = items("cluster = \"c\"", rows)
        .into_iter()
        .map(|item| item.cluster.unwrap())
        .collect();
    assert_eq!(clusters, ["7", "p"]);
    assert_eq!(items("", rows)[0].cluster, None);
}

#[test]
fn a_limit_takes_the_first_rows_and_reads_no_further() {
    let rows = "{\"q\": 1, \"a\": 2}\n{\"q\": 2, \"a\": 2}\nbroken";
    assert_eq!(items("limit = 2", rows).len(), 2);
    assert_eq!(items("limit = 1", rows)[0], items("limit = 2", rows)[0]);
}

#[test]
fn likelihood_choices_continue_the_prompt() {
    let grader =
        "choices = \"{{ c }}\"\nmax_tokens = 0\n[benchmark.grader]\nkind = \"likelihood\"\nnormalise = \"bytes\"";
    let rows = "{\"q\": 1, \"a\": \"no\", \"c\": [\"yes\", \"no\", \" spaced\"]}";
    let folder = Folder::new()
        .with("suite.toml", question_suite(grader))
        .with("rows.jsonl", rows);
    let benchmark = folder.benchmark();
    assert_eq!(
        benchmark.grader,
        GraderSpec::Likelihood {
            normalise: Normalise::Bytes
        }
    );
    let item = &benchmark.items[0];
    assert_eq!(item.choices, [" yes", " no", " spaced"]);
    assert_eq!(
        (item.correct_choice, item.targets.as_slice()),
        (Some(1), &["no".to_owned()][..])
    );
    let open = question_suite(grader).replace("\\nA:", "\\nA: ");
    let item = &Folder::new().with("suite.toml", open).with("rows.jsonl", rows).items()[0];
    assert_eq!(item.choices, ["yes", "no", " spaced"]);
}

#[test]
fn an_empty_context_is_allowed_for_likelihood_alone() {
    let fields = |grader: &str| {
        suite(&format!(
            "data = \"rows.jsonl\"\nprompt = \"\"\ntarget = \"{{{{ a }}}}\"\n{grader}"
        ))
    };
    let rows = "{\"a\": 1, \"c\": [\"x\", \"y\"]}";
    let likelihood = fields("choices = \"{{ c }}\"\n[benchmark.grader]\nkind = \"likelihood\"");
    let items = Folder::new()
        .with("suite.toml", likelihood)
        .with("rows.jsonl", rows)
        .items();
    assert_eq!(
        (text(&items[0]), items[0].choices.as_slice()),
        ("", &["x".to_owned(), "y".to_owned()][..])
    );
    assert!(
        Folder::new()
            .with("suite.toml", fields(""))
            .with("rows.jsonl", rows)
            .load()
            .is_err()
    );
}

#[test]
fn examples_precede_the_prompt_and_an_item_is_never_its_own() {
    let rows =
        "{\"q\": 1, \"a\": \"x\"}\n{\"q\": 2, \"a\": \"y\"}\n{\"q\": 3, \"a\": \"z\"}\n{\"q\": 4, \"a\": \"w\"}\n";
    let items = items("few_shot = 2\nfew_shot_data = \"rows.jsonl\"", rows);
    assert_eq!(text(&items[0]), "Q: 2\nA: y\n\nQ: 3\nA: z\n\nQ: 1\nA:");
    assert_eq!(text(&items[1]), "Q: 1\nA: x\n\nQ: 3\nA: z\n\nQ: 2\nA:");
    assert_eq!(text(&items[3]), "Q: 1\nA: x\n\nQ: 2\nA: y\n\nQ: 4\nA:");
}

#[test]
fn equal_examples_count_once_and_rows_beyond_them_are_not_read() {
    let shots =
        "{\"q\": 8, \"a\": [\"x\", \"y\"]}\n{\"a\": [\"x\", \"y\"], \"q\": 8}\n{\"q\": 9, \"a\": \"z\"}\nbroken";
    let toml = question_suite("few_shot = 1\nfew_shot_data = \"shots.jsonl\"").replace("A:", "A: ");
    let folder = Folder::new().with("suite.toml", toml).with("shots.jsonl", shots);
    let items = folder.with("rows.jsonl", "{\"q\": 9, \"a\": \"z\"}").items();
    assert_eq!(text(&items[0]), "Q: 8\nA: x\n\nQ: 9\nA: ");
}

#[test]
fn chat_examples_are_turns_after_the_system_message() {
    let fields = r#"data = "rows.jsonl"
messages = [{ role = "system", content = "Be {{ tone }}." }, { role = "user", content = "{{ q }}" }]
target = "{{ a }}"
few_shot = 1
few_shot_data = "shots.jsonl""#;
    let items = Folder::new()
        .with("suite.toml", suite(fields))
        .with("rows.jsonl", "{\"q\": \"1+1\", \"a\": 2, \"tone\": \"brief\"}")
        .with("shots.jsonl", "{\"q\": \"0+0\", \"a\": 0, \"tone\": \"wordy\"}")
        .items();
    let expected = [
        ("system", "Be brief."),
        ("user", "0+0"),
        ("assistant", "0"),
        ("user", "1+1"),
    ];
    assert_eq!(turns(&items[0]), expected);
}

#[test]
fn oddities_are_warned_of() {
    let rows = "{\"q\": 1, \"a\": \"1\", \"c\": [\"1\", \"2\"]}\n{\"q\": 2, \"a\": \"1\", \"c\": [\"1\", \"2\"]}\n";
    let warnings = |fields: &str| {
        let folder = Folder::new()
            .with("suite.toml", question_suite(fields))
            .with("rows.jsonl", rows);
        folder.warnings()
    };
    let texts = [
        warnings("samples = 4"),
        warnings("samples = 2\ntemperature = 0.7\nchoices = \"{{ c }}\"\n[benchmark.grader]\nkind = \"likelihood\""),
        warnings("spare_samples = 1"),
        warnings("few_shot_data = \"rows.jsonl\""),
    ];
    insta::assert_snapshot!(texts.join("\n"));
    assert_eq!(warnings("samples = 2\ntemperature = 0.7"), "");
}

#[test]
fn spare_samples_are_declared_beside_the_others() {
    let rendered = |fields: &str| {
        let folder = Folder::new()
            .with("suite.toml", question_suite(&format!("temperature = 0.7\n{fields}")))
            .with("rows.jsonl", "{\"q\": 1, \"a\": 2}");
        let manifest = folder.load().unwrap().manifest;
        let benchmark = &manifest.benchmarks[0];
        (benchmark.settings.samples, benchmark.spare_samples, manifest.samples())
    };
    assert_eq!(rendered("samples = 2\nspare_samples = 3"), (5, 3, 5));
    assert_eq!(rendered("spare_samples = 1"), (2, 1, 2));
    assert_eq!(rendered("samples = 2"), (2, 0, 2));
    for (fields, message) in [
        (
            "spare_samples = 4294967295",
            "field spare_samples: is 4294967295: with samples = 1 that makes 4294967296 for each item, which is more than 4294967295",
        ),
        (
            "spare_samples = 4294967296",
            "field spare_samples: is 4294967296, which is not a whole number from 0 to 4294967295",
        ),
        (
            "samples = 99999999999999999999",
            "field samples: is 99999999999999999999, which is not a whole number from 0 to 4294967295",
        ),
        (
            "max_tokens = -1",
            "field max_tokens: is -1, which is not a whole number from 0 to 4294967295",
        ),
        ("limit = 0x1_0000_0000_0000_0000", "field limit: is "),
        (
            "seed = -7",
            "field seed: is -7, which is not a whole number from 0 to 9223372036854775807",
        ),
        ("spare_samples = 1.5", "field spare_samples: "),
    ] {
        let folder = Folder::new()
            .with("suite.toml", question_suite(fields))
            .with("rows.jsonl", "{\"q\": 1, \"a\": 2}");
        let refused = folder.load().unwrap_err().to_string();
        assert!(
            refused.contains(message) && refused.contains("suite.toml:"),
            "{fields}: {refused}"
        );
    }
}

#[test]
fn twenty_thousand_rows_render() {
    let rows: String = (0..20_000)
        .map(|row| format!("{{\"q\": \"{row} and more\", \"a\": {row}}}\n"))
        .collect();
    let items = items("", &rows);
    assert_eq!(items.len(), 20_000);
    assert_eq!(text(&items[19_999]), "Q: 19999 and more\nA:");
}
