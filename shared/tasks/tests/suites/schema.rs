//! The published schema against what is accepted.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Folder, question_suite};
use serde_json::Value;
use tidemill_tasks::{
    BenchmarkKind, BenchmarkTable, DefaultsTable, FewShotChoice, GraderTable, GroupTable, MeanName, ReasoningMarks,
    ReasoningName, ReasoningTable, SuiteFile, TaskTable, suite_schema,
};

fn as_json(toml: &str) -> Value {
    serde_json::to_value(toml::from_str::<toml::Table>(toml).unwrap()).unwrap()
}

fn full_suite(grader: GraderTable) -> SuiteFile {
    let is_likelihood = matches!(grader, GraderTable::Likelihood { .. });
    let has_choices = is_likelihood || matches!(grader, GraderTable::Choice { .. });
    SuiteFile {
        name: "s".to_owned(),
        version: "1".to_owned(),
        tier: tidemill_domain::Tier::Promotion,
        max_failure_rate: 0.1,
        defaults: Some(DefaultsTable {
            system: Some("Be brief.".to_owned()),
            reasoning: Some(ReasoningTable::Named(ReasoningName::None)),
            max_tokens: Some(9),
            temperature: Some(0.1),
            top_p: Some(0.2),
            stop: Some(vec!["x".to_owned()]),
            frequency_penalty: Some(0.1),
            presence_penalty: Some(0.1),
            repetition_penalty: Some(1.2),
            continuation: Some(tidemill_domain::Continuation::Exact),
            seed: Some(1),
            samples: Some(3),
            spare_samples: Some(0),
        }),
        group: vec![GroupTable {
            name: "g".to_owned(),
            benchmarks: vec!["b*".to_owned()],
            mean: MeanName::Micro,
            weights: [("b".to_owned(), 2.0)].into(),
            metric: Some("pass@1".to_owned()),
        }],
        benchmark: vec![BenchmarkKind::Written(Box::new(BenchmarkTable {
            name: "b".to_owned(),
            data: "rows.jsonl".to_owned(),
            id: Some("id".to_owned()),
            prompt: Some("{{ q }}".to_owned()),
            messages: None,
            system: None,
            target: "{{ a }}".to_owned(),
            choices: has_choices.then(|| "{{ c }}".to_owned()),
            few_shot: 1,
            few_shot_data: Some("shots.jsonl".to_owned()),
            few_shot_choice: FewShotChoice::Random,
            few_shot_seed: 5,
            few_shot_ids: Vec::new(),
            few_shot_prompt: Some("{{ q }}".to_owned()),
            few_shot_messages: None,
            few_shot_separator: Some("\n".to_owned()),
            max_tokens: 7,
            temperature: 0.5,
            top_p: 0.9,
            stop: vec!["\n".to_owned()],
            frequency_penalty: -0.5,
            presence_penalty: 0.0,
            repetition_penalty: 1.1,
            continuation: tidemill_domain::Continuation::Never,
            seed: 3,
            samples: if is_likelihood { 1 } else { 2 },
            spare_samples: u32::from(!is_likelihood),
            cluster: Some("id".to_owned()),
            subset: Some("id".to_owned()),
            weight: Some("id".to_owned()),
            metrics: vec!["pass@1".to_owned()],
            reasoning: Some(ReasoningTable::Marks(ReasoningMarks {
                open: "<r>".to_owned(),
                close: "</r>".to_owned(),
            })),
            filter: Some("id == 1".to_owned()),
            limit: Some(1),
            grader,
        }))],
    }
}

fn full_task() -> SuiteFile {
    SuiteFile {
        group: Vec::new(),
        defaults: None,
        benchmark: vec![BenchmarkKind::Task(TaskTable {
            task: "t.yaml".to_owned(),
            datasets: Some("sets.toml".to_owned()),
            task_folder: Some(".".to_owned()),
            limit: Some(2),
            few_shot: Some(1),
            start_text: Some("<s>".to_owned()),
        })],
        ..full_suite(graders().remove(0))
    }
}

fn task_folder(toml: &str) -> Folder {
    let task = "task: t\ndataset_path: org/set\ntest_split: test\ndoc_to_text: \"{{q}}\"\ndoc_to_target: a\n\
        fewshot_split: test\n";
    Folder::new()
        .with("suite.toml", toml)
        .with("t.yaml", task)
        .with(
            "sets.toml",
            "[[dataset]]\npath = \"org/set\"\nsplits.test = \"rows.jsonl\"\n",
        )
        .with(
            "rows.jsonl",
            "{\"q\": \"q\", \"a\": \"x\"}\n{\"q\": \"r\", \"a\": \"y\"}\n{\"q\": \"s\", \"a\": \"z\"}\n",
        )
}

fn graders() -> Vec<GraderTable> {
    vec![
        GraderTable::Exact {
            ignore_case: true,
            ignore_punctuation: true,
            normalisers: vec![tidemill_domain::Normaliser::Articles],
            unanswerable: true,
        },
        GraderTable::Regex {
            pattern: "x".to_owned(),
            take: tidemill_domain::Take::First,
            ignore_case: true,
            group: Some(0),
            fallbacks: vec!["y".to_owned()],
            normalisers: vec![tidemill_domain::Normaliser::Unicode],
        },
        GraderTable::Math {
            pattern: Some("x".to_owned()),
        },
        GraderTable::Numeric {
            pattern: Some("x".to_owned()),
            tolerance: 0.1,
        },
        GraderTable::Choice {
            pattern: Some("x".to_owned()),
        },
        GraderTable::Likelihood {
            normalise: tidemill_domain::Normalise::Tokens,
        },
        GraderTable::Code {
            language: "python".to_owned(),
            program: tidemill_domain::ProgramPlace::Continued,
            prefix: Some("{{ q }}".to_owned()),
            prelude: Some("{{ q }}".to_owned()),
            tests: Some("{{ q }}".to_owned()),
            entry_point: Some("{{ q }}".to_owned()),
            command: Vec::new(),
            file: None,
            input: None,
            expected: None,
            cpu_seconds: 1,
            wall_seconds: 2,
            memory_mib: 64,
        },
        GraderTable::Code {
            language: "command".to_owned(),
            program: tidemill_domain::ProgramPlace::Fenced,
            prefix: Some("{{ q }}".to_owned()),
            prelude: None,
            tests: None,
            entry_point: None,
            command: vec!["/bin/cat".to_owned()],
            file: Some("x".to_owned()),
            input: Some("{{ q }}".to_owned()),
            expected: Some("{{ q }}".to_owned()),
            cpu_seconds: 1,
            wall_seconds: 2,
            memory_mib: 64,
        },
        GraderTable::Judge {
            judge: "main".to_owned(),
            system: Some("{{ q }}".to_owned()),
            prompt: "{{ question }} {{ answer_a }} {{ answer_b }} {{ format }}".to_owned(),
            pairwise: true,
            reference: Some("{{ q }}".to_owned()),
            verdicts: Some([("A".to_owned(), 1.0), ("B".to_owned(), 0.0)].into()),
            scale: None,
            label: "BETTER".to_owned(),
            form: tidemill_domain::VerdictForm::Json,
            votes: 3,
            temperature: 0.5,
            max_tokens: 64,
        },
        GraderTable::F1 {
            words: tidemill_domain::Words::Drop,
            unanswerable: false,
        },
        GraderTable::Rouge {
            measure: tidemill_domain::RougeMeasure::Two,
            stem: true,
        },
        GraderTable::Bleu {
            tokenise: tidemill_domain::Tokenise::Characters,
        },
        GraderTable::Chrf { words: true },
        GraderTable::Instructions {
            instructions: "[\"punctuation:no_comma\"]".to_owned(),
            arguments: "{{ [{'num': none}] }}".to_owned(),
            loose: true,
        },
        GraderTable::JsonSchema {
            check: tidemill_domain::JsonCheck::Equal,
            schema: Some("{\"type\": \"number\"}".to_owned()),
            schema_file: None,
        },
        GraderTable::Command {
            command: vec!["python3".to_owned(), "grade.py".to_owned()],
            seconds: 5,
            material: BTreeMap::from([("anything".to_owned(), "{{ q }}".to_owned())]),
        },
    ]
}

#[test]
fn the_schema_is_the_published_one() {
    insta::assert_json_snapshot!(suite_schema());
}

#[test]
fn a_suite_with_every_field_satisfies_the_schema_and_loads() {
    let validator = jsonschema::validator_for(&suite_schema()).unwrap();
    for grader in graders() {
        let suite = full_suite(grader);
        let toml = toml::to_string(&suite).unwrap();
        let errors: Vec<String> = validator
            .iter_errors(&as_json(&toml))
            .map(|error| error.to_string())
            .collect();
        assert_eq!(errors, Vec::<String>::new(), "{toml}");
        let folder = Folder::new()
            .with("suite.toml", &toml)
            .with(
                "rows.jsonl",
                "{\"id\": 1, \"q\": \"q\", \"a\": 1, \"c\": [\"x\", \"y\"]}",
            )
            .with(
                "shots.jsonl",
                "{\"id\": 2, \"q\": \"q\", \"a\": 0, \"c\": [\"x\", \"y\"]}",
            );
        let loaded = folder.load().unwrap_or_else(|errors| panic!("{errors}\n{toml}"));
        // Every field is given, so one stands where it says nothing.
        let said: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        assert!(
            said.iter().all(|warning| warning.contains("defaults.system")),
            "{said:?}"
        );
        assert_eq!(loaded.manifest.benchmarks[0].settings.max_tokens, 7);
    }
}

#[test]
fn every_field_of_the_schema_is_known_to_the_reader() {
    let schema = suite_schema();
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let mut suite = as_json(&toml::to_string(&full_suite(graders().remove(0))).unwrap());
    assert_eq!(names(&suite), names(&schema["properties"]));
    let benchmark = suite["benchmark"][0].as_object_mut().unwrap();
    benchmark.insert("messages".to_owned(), Value::Null);
    for name in ["choices", "system", "few_shot_ids", "few_shot_messages"] {
        benchmark.insert(name.to_owned(), Value::Null);
    }
    assert_eq!(
        names(&suite["benchmark"][0]),
        names(&schema["$defs"]["BenchmarkTable"]["properties"])
    );
    assert_eq!(
        names(&suite["defaults"]),
        names(&schema["$defs"]["DefaultsTable"]["properties"])
    );
    assert_eq!(
        names(&suite["group"][0]),
        names(&schema["$defs"]["GroupTable"]["properties"])
    );
}

#[test]
fn a_task_with_every_field_satisfies_the_schema_and_loads_and_the_reader_knows_each() {
    let schema = suite_schema();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let toml = toml::to_string(&full_task()).unwrap();
    let suite = as_json(&toml);
    assert!(validator.is_valid(&suite), "{toml}");
    let loaded = task_folder(&toml)
        .load()
        .unwrap_or_else(|errors| panic!("{errors}\n{toml}"));
    assert_eq!(loaded.manifest.benchmarks[0].items, 2);
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(
        names(&suite["benchmark"][0]),
        names(&schema["$defs"]["TaskTable"]["properties"])
    );
}

#[test]
fn what_the_schema_refuses_of_a_task_is_refused() {
    let validator = jsonschema::validator_for(&suite_schema()).unwrap();
    let toml = |fields: &str| {
        format!("name = \"s\"\nversion = \"1\"\n[[benchmark]]\ntask = \"t.yaml\"\ndatasets = \"sets.toml\"\n{fields}\n")
    };
    for wrong in [
        "limit = 0",
        "few_shot = -1",
        "start_text = 3",
        "prompt = \"x\"",
        "name = \"t\"",
        "colour = \"red\"",
    ] {
        assert!(!validator.is_valid(&as_json(&toml(wrong))), "{wrong}");
        assert!(task_folder(&toml(wrong)).load().is_err(), "{wrong}");
    }
    assert!(validator.is_valid(&as_json(&toml(""))));
    assert!(task_folder(&toml("")).load().is_ok());
}

#[test]
fn what_the_schema_refuses_is_refused() {
    let validator = jsonschema::validator_for(&suite_schema()).unwrap();
    let wrong = [
        "colour = \"red\"",
        "messages = [{ role = \"user\", content = \"x\" }]",
        "samples = 0",
        "spare_samples = -1",
        "temperature = -0.5",
        "limit = 0",
        "stop = [\"\"]",
        "metrics = [\"pass@0\"]",
        "few_shot_choice = \"best\"",
        "reasoning = \"thoughts\"",
        "reasoning = { open = \"<r>\" }",
        "[benchmark.grader]\nkind = \"regex\"",
        "[benchmark.grader]\nkind = \"exact\"\ntake = \"last\"",
        "[benchmark.grader]\nkind = \"judge\"",
    ];
    let rows = "{\"q\": 1, \"a\": 2}";
    for fields in wrong {
        let toml = question_suite(fields);
        assert!(!validator.is_valid(&as_json(&toml)), "{fields}");
        assert!(
            Folder::new()
                .with("suite.toml", toml)
                .with("rows.jsonl", rows)
                .load()
                .is_err(),
            "{fields}"
        );
    }
    assert!(validator.is_valid(&as_json(&question_suite(""))));
}
