//! What a suite says beside prompts and graders: shared settings, reasoning, metrics, parts, weights, filters, groups.

use crate::support::{Folder, question_suite, suite, whole};
use tidemill_domain::{Group, GroupMean, Manifest, Member, MetricSource, Prompt, Reasoning};
use tidemill_tasks::{Collected, Counted, Extent, Picked, load};

const ROWS: &str = r#"{"q": "1", "a": "x", "part": "algebra", "level": 1, "points": 2.5}
{"q": "2", "a": "y", "part": "geometry", "level": 2, "points": "0.5"}
{"q": "3", "a": "z", "part": "algebra", "level": 3, "points": 1}
"#;

fn folder(fields: &str) -> Folder {
    Folder::new()
        .with("suite.toml", question_suite(fields))
        .with("rows.jsonl", ROWS)
}

fn manifest(suite: &str) -> (Manifest, Folder) {
    let folder = Folder::new().with("suite.toml", suite).with("rows.jsonl", ROWS);
    let loaded = folder.load().unwrap_or_else(|errors| panic!("{errors}"));
    (loaded.manifest, folder)
}

fn benchmark(name: &str, fields: &str) -> String {
    let head = "data = \"rows.jsonl\"\nprompt = \"{{ q }}\"\ntarget = \"{{ a }}\"\n";
    format!("[[benchmark]]\nname = \"{name}\"\n{head}{fields}\n[benchmark.grader]\nkind = \"exact\"\n")
}

fn errors_of(texts: &[&str]) -> String {
    let errors: Vec<String> = texts
        .iter()
        .map(|fields| format!("{fields}\n  {}", folder(fields).errors().replace('\n', "\n  ")))
        .collect();
    errors.join("\n")
}

#[test]
fn settings_are_shared_and_a_benchmarks_own_go_before() {
    let defaults = "name = \"s\"\nversion = \"1\"\n[defaults]\nmax_tokens = 77\ntemperature = 0.5\nsamples = 4\nreasoning = \"none\"\n\
                    stop = [\"END\"]\nsystem = \"Be {{ part }}.\"\n";
    let chat = "[[benchmark]]\nname = \"c\"\ndata = \"rows.jsonl\"\nmessages = [{ role = \"user\", content = \"{{ q }}\" }]\n\
                target = \"{{ a }}\"\n[benchmark.grader]\nkind = \"exact\"\n";
    let text = format!(
        "{defaults}{}{}{chat}",
        benchmark("a", ""),
        benchmark("b", "max_tokens = 5\nreasoning = \"think\"")
    );
    let (manifest, folder) = manifest(&text);
    let [a, b, c] = &manifest.benchmarks[..] else {
        panic!("{manifest:?}")
    };
    assert_eq!(
        (a.settings.max_tokens, a.settings.samples, a.settings.stop.len()),
        (77, 4, 1)
    );
    assert_eq!(
        (b.settings.max_tokens, b.settings.samples, b.settings.temperature),
        (5, 4, 0.5)
    );
    assert_eq!((&a.reasoning, &b.reasoning), (&Reasoning::None, &Reasoning::Think));
    let items = whole(&folder.path()).0.benchmarks;
    assert!(matches!(&items[0].items[0].prompt, Prompt::Text(text) if text == "1"));
    let Prompt::Chat(turns) = &items[2].items[1].prompt else {
        panic!("no chat")
    };
    assert_eq!(
        (turns[0].role.as_str(), turns[0].content.as_str(), turns.len()),
        ("system", "Be geometry.", 2)
    );
    assert_eq!(c.settings.max_tokens, 77);
}

#[test]
fn what_is_wrong_with_shared_settings_is_said_once() {
    let defaults = "name = \"s\"\nversion = \"1\"\n[defaults]\nmax_tokens = 0\ntemprature = 1\nprompt = \"x\"\nreasoning = \"thoughts\"\n";
    let text = format!("{defaults}{}{}", benchmark("a", ""), benchmark("b", ""));
    let folder = Folder::new().with("suite.toml", text).with("rows.jsonl", ROWS);
    insta::assert_snapshot!(folder.errors());
    let text = format!("name = \"s\"\nversion = \"1\"\ndefaults = 3\n{}", benchmark("a", ""));
    let folder = Folder::new().with("suite.toml", text).with("rows.jsonl", ROWS);
    assert!(folder.errors().contains("written [defaults]"), "{}", folder.errors());
}

#[test]
fn reasoning_is_split_as_the_suite_says() {
    let of = |fields: &str| folder(fields).load().unwrap().manifest.benchmarks[0].reasoning.clone();
    assert_eq!(of(""), Reasoning::Think);
    assert_eq!(of("reasoning = \"none\""), Reasoning::None);
    let marks = Reasoning::Marks {
        open: "<r>".to_owned(),
        close: "</r>".to_owned(),
    };
    assert_eq!(of("reasoning = { open = \"<r>\", close = \"</r>\" }"), marks);
}

#[test]
fn metrics_are_named_and_need_their_samples() {
    let fields = "samples = 8\ntemperature = 0.7\nmetrics = [\"pass@1\", \"pass@8\", \"maj@8\"]";
    let loaded = folder(fields).load().unwrap();
    let metrics = &loaded.manifest.benchmarks[0].metrics;
    let of = |index: usize| (metrics[index].name.as_str(), metrics[index].source);
    assert_eq!(of(0), ("pass@1", MetricSource::PassAt(1)));
    assert_eq!(of(1), ("pass@8", MetricSource::PassAt(8)));
    assert_eq!(of(2), ("maj@8", MetricSource::MajorityAt(8)));
}

#[test]
fn options_that_mean_nothing_are_refused() {
    insta::assert_snapshot!(errors_of(&[
        "metrics = [\"pass@8\"]",
        "metrics = [\"pass@0\"]",
        "metrics = [\"pas@1\"]",
        "metrics = [\"accuracy\"]",
        "metrics = [\"pass@1\", \"pass@1\"]",
        "metrics = [\"maj@01\"]",
        "reasoning = \"thinking\"",
        "reasoning = { open = \"<r>\" }",
        "reasoning = { open = \"<r>\", close = \"\" }",
        "reasoning = { open = \"|\", close = \"|\" }",
        "reasoning = { open = \"a\", close = \"b\", middle = \"c\" }",
        "reasoning = 3",
        "system = \"Be brief.\"",
        "filter = \"{{ level }} == 1\"",
        "filter = \"level ==\"",
        "subset = \"{{ part }}\"",
    ]));
}

#[test]
fn parts_and_weights_come_from_columns() {
    let folder = folder("subset = \"part\"\nweight = \"points\"");
    let mut collected = Collected::default();
    let manifest = folder.load_into(&mut collected).unwrap().manifest;
    let items: Vec<_> = collected.items(&manifest, 0).cloned().collect();
    let subsets: Vec<_> = items.iter().map(|item| item.subset.as_deref().unwrap()).collect();
    assert_eq!(subsets, ["algebra", "geometry", "algebra"]);
    assert_eq!(
        items.iter().map(|item| item.weight).collect::<Vec<_>>(),
        [2.5, 0.5, 1.0]
    );
    let column = collected.subsets(&manifest, 0).unwrap();
    assert_eq!((&column.of_item[..], column.names.len()), (&[0, 1, 0][..], 2));
    assert_eq!(collected.weights(&manifest, 0).unwrap().of_item, [2.5, 0.5, 1.0]);
}

#[test]
fn columns_that_say_no_weight_or_part_are_refused_by_row() {
    let rows = r#"{"q": "1", "a": "x", "w": 0}
{"q": "2", "a": "x", "w": "heavy", "part": true}
{"q": "3", "a": "x", "w": -1, "part": null}
{"q": "4", "a": "x", "part": 1.5}
"#;
    let folder = Folder::new()
        .with("suite.toml", question_suite("weight = \"w\"\nsubset = \"part\""))
        .with("rows.jsonl", rows);
    insta::assert_snapshot!(folder.errors());
}

#[test]
fn a_weight_whose_square_no_float_holds_is_refused() {
    let rows = r#"{"q": "1", "a": "x", "w": 1e308}
{"q": "2", "a": "x", "w": 1e-320}
{"q": "3", "a": "x", "w": 1e100}
"#;
    let folder = Folder::new()
        .with("suite.toml", question_suite("weight = \"w\""))
        .with("rows.jsonl", rows);
    let errors = folder.errors();
    assert_eq!(
        errors.matches("a weight must be from 1e-100 to 1e100").count(),
        2,
        "{errors}"
    );
}

#[test]
fn a_filter_keeps_rows_for_which_it_is_true_and_the_limit_counts_those() {
    let ids = |fields: &str| {
        let items = folder(&format!("id = \"q\"\n{fields}")).items();
        items.into_iter().map(|item| item.id).collect::<Vec<_>>()
    };
    assert_eq!(ids("filter = \"level >= 2\""), ["2", "3"]);
    assert_eq!(ids("filter = \"part == 'algebra' and level > 1\""), ["3"]);
    assert_eq!(ids("filter = \"q in ['1', '3']\"\nlimit = 1"), ["1"]);
    assert_eq!(ids("filter = \"level >= 2\"\nlimit = 1"), ["2"]);
    assert_eq!(ids("filter = \"hard is not defined\""), ["1", "2", "3"]);
    assert_eq!(ids("filter = \"level in range(2, 9)\""), ["2", "3"]);
}

#[test]
fn a_filter_that_says_neither_yes_nor_no_is_refused() {
    insta::assert_snapshot!(errors_of(&[
        "filter = \"level\"",
        "filter = \"lvl == 2\"",
        "filter = \"level > 9\"",
        "filter = \"q.upper() < 3\"",
    ]));
}

#[test]
fn groups_are_means_over_benchmarks_by_name_or_pattern() {
    let head = "name = \"s\"\nversion = \"1\"\n[defaults]\nsamples = 2\ntemperature = 1.0\n";
    let metric = "metrics = [\"pass@2\"]";
    let groups = "[[group]]\nname = \"all\"\nbenchmarks = [\"mmlu_*\", \"gsm\"]\nmean = \"micro\"\nweights = { gsm = 3.0, \"mmlu_*\" = 0.5 }\n\
                  metric = \"pass@2\"\n[[group]]\nname = \"mmlu\"\nbenchmarks = [\"mmlu_*\", \"mmlu_a\"]\n";
    let text = format!(
        "{head}{}{}{}{groups}",
        benchmark("mmlu_a", metric),
        benchmark("gsm", metric),
        benchmark("mmlu_b", metric)
    );
    let (manifest, _) = manifest(&text);
    let member = |benchmark, weight| Member { benchmark, weight };
    let expected = [
        Group {
            name: "all".to_owned(),
            members: vec![member(0, 0.5), member(1, 3.0), member(2, 0.5)],
            mean: GroupMean::Micro,
            metric: Some("pass@2".to_owned()),
        },
        Group {
            name: "mmlu".to_owned(),
            members: vec![member(0, 1.0), member(2, 1.0)],
            mean: GroupMean::Macro,
            metric: None,
        },
    ];
    assert_eq!(manifest.groups, expected);
}

#[test]
fn groups_of_nothing_are_refused() {
    let head = "name = \"s\"\nversion = \"1\"\n";
    let groups = r#"[[group]]
name = "a"
benchmarks = ["mmul_*"]
[[group]]
name = "g"
benchmarks = []
[[group]]
name = "g2"
benchmarks = ["mmlu"]
weights = { mmlu = 0, other = 1 }
mean = "median"
metric = "pass@1"
[[group]]
name = "g3"
benchmarks = ["mmlu"]
weights = { other = 1 }
metric = "pass@1"
[[group]]
name = "g3"
benchmarks = ["mmlu"]
weight = 3
[[group]]
benchmarks = ["mmlu"]
"#;
    let text = format!("{head}{}{}{groups}", benchmark("mmlu", ""), benchmark("a", ""));
    let folder = Folder::new().with("suite.toml", text).with("rows.jsonl", ROWS);
    insta::assert_snapshot!(folder.errors());
}

#[test]
fn a_shared_system_turn_that_no_benchmark_has_a_chat_for_is_warned_of() {
    let rows = "{\"q\": \"c\", \"a\": \"x\"}\n";
    let shared = format!("{}[defaults]\nsystem = \"Be brief.\"\n", question_suite(""));
    let folder = Folder::new().with("suite.toml", &shared).with("rows.jsonl", rows);
    let said = folder.warnings();
    assert!(said.contains("defaults.system: has no effect"), "{said}");
    let chat = "[[benchmark]]\nname = \"c\"\ndata = \"rows.jsonl\"\ntarget = \"{{ a }}\"\n\
                messages = [{ role = \"user\", content = \"{{ q }}\" }]\n[benchmark.grader]\nkind = \"exact\"\n";
    let folder = Folder::new()
        .with("suite.toml", format!("{shared}{chat}"))
        .with("rows.jsonl", rows);
    assert_eq!(folder.warnings(), "");
}

#[test]
fn texts_that_servers_cut_are_refused_and_very_long_ones_are_warned_of() {
    let rows = "{\"q\": \"a\\u0000b\", \"a\": \"x\"}\n{\"q\": \"c\", \"a\": \"x\\u0000\"}\n";
    let folder = Folder::new()
        .with("suite.toml", question_suite(""))
        .with("rows.jsonl", rows);
    insta::assert_snapshot!(folder.errors());
    let long = "x".repeat(10_000_000);
    let rows = format!(
        "{{\"q\": \"{long}\", \"a\": \"x\"}}\n{{\"q\": \"{long}y\", \"a\": \"x\"}}\n{{\"q\": 1, \"a\": \"x\"}}\n"
    );
    let folder = Folder::new()
        .with("suite.toml", question_suite(""))
        .with("rows.jsonl", rows);
    insta::assert_snapshot!(folder.warnings(), @r#"suite.toml:7: benchmark "b": field prompt: rows.jsonl row 1: has 10000006 bytes, which is more than most contexts hold; likewise in 1 more row"#);
}

#[test]
fn text_from_right_to_left_arrives_as_it_was() {
    let rows = "{\"q\": \"\u{5d0}\u{5d1} 12 \u{202b}\u{627}\u{202c}?\", \"a\": \"\u{5d2}\"}\n";
    let items = Folder::new()
        .with("suite.toml", question_suite(""))
        .with("rows.jsonl", rows)
        .items();
    assert_eq!(
        items[0].prompt,
        Prompt::Text("Q: \u{5d0}\u{5d1} 12 \u{202b}\u{627}\u{202c}?\nA:".to_owned())
    );
    assert_eq!(items[0].targets, ["\u{5d2}"]);
}

#[test]
fn a_suite_is_counted_and_single_items_are_picked_without_keeping_the_rest() {
    let text = format!(
        "name = \"s\"\nversion = \"1\"\n{}{}",
        benchmark("a", "subset = \"part\""),
        benchmark("b", "id = \"q\"\nlimit = 2")
    );
    let (_, folder) = manifest(&text);
    let mut counted = Counted::default();
    load(&folder.path(), &mut counted).unwrap();
    let extent = |items, subsets| Extent {
        items,
        prompt_bytes: items,
        longest_prompt_bytes: 1,
        subsets,
        ..Extent::default()
    };
    assert_eq!(counted.extents(), [extent(3, 2), extent(2, 0)]);
    let picked = |wanted: Option<&str>| {
        let mut picked = Picked::new(wanted.map(str::to_owned));
        load(&folder.path(), &mut picked).unwrap();
        picked.item(1).map(|(number, item)| (*number, item.id.clone()))
    };
    assert_eq!(picked(None), Some((0, "1".to_owned())));
    assert_eq!(
        picked(Some("2")),
        Some((1, "2".to_owned())),
        "an id goes before a number"
    );
    assert_eq!(picked(Some("0")), Some((0, "1".to_owned())));
    assert_eq!(picked(Some("7")), None);
}

#[test]
fn a_system_message_stands_once() {
    let fields = "data = \"rows.jsonl\"\nsystem = \"S\"\nmessages = [{ role = \"system\", content = \"T\" }, { role = \"user\", content = \"{{ q }}\" }]\ntarget = \"{{ a }}\"";
    let folder = Folder::new().with("suite.toml", suite(fields)).with("rows.jsonl", ROWS);
    insta::assert_snapshot!(folder.errors(), @r#"suite.toml:7: benchmark "b": field system: cannot stand beside a system message in messages: give one of them"#);
}
