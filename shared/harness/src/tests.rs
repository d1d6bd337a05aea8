//! The fixtures against what lm-evaluation-harness 0.4.13 itself makes of them (`ops/parity/golden.py` writes it).

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

use crate::filter::Chosen;
use crate::grading::{Grading, Target};
use crate::metric::{Gold, Likelihoods, Measured};
use crate::request::{Asker, Request, ShotSource};
use crate::rows::{Row, conform};
use crate::{Entry, Index, Task};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

fn json_of(name: &str) -> Json {
    serde_json::from_str(&std::fs::read_to_string(fixtures().join(name)).unwrap()).unwrap()
}

fn rows(split: &str) -> Vec<Row> {
    let name = if split == "train" {
        "tasks/shots.jsonl"
    } else {
        "tasks/rows.jsonl"
    };
    let text = std::fs::read_to_string(fixtures().join(name)).unwrap();
    conform(text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

fn task(name: &str) -> Task {
    let entry = Entry::read(&fixtures().join("tasks").join(format!("{name}.yaml"))).unwrap();
    entry.task(None).unwrap()
}

fn asked(task: &Task) -> Json {
    let evaluated = task.kept(rows(task.evaluated_split()), false).unwrap();
    let pool = match task.shot_source() {
        ShotSource::Samples(samples) => samples.to_vec(),
        ShotSource::Split(split) => task.kept(rows(split), true).unwrap(),
    };
    let mut asker = Asker::new(task, &evaluated[0], pool).unwrap();
    let texts = |row| match asker.ask(row).unwrap().request {
        Request::Generate { prompt } => json!([[prompt]]),
        Request::Choices { pairs, .. } => json!(pairs),
        Request::Continue { context, continuation } => json!([[context, continuation]]),
        Request::Whole { text } => json!([[text]]),
    };
    evaluated.iter().map(texts).collect()
}

#[test]
fn requests_are_those_of_lm_evaluation_harness_byte_for_byte() {
    let expected = json_of("requests.json");
    let expected = expected.as_object().unwrap();
    assert_eq!(expected.len(), 8);
    for (name, wanted) in expected {
        assert_eq!(&asked(&task(name)), wanted, "{name}");
    }
}

#[test]
fn filters_and_exact_match_are_those_of_lm_evaluation_harness() {
    let cases = json_of("grades.json");
    let row = cases["row"].as_object().unwrap();
    let (metrics, targets) = (
        cases["metrics"].as_array().unwrap(),
        cases["targets"].as_array().unwrap(),
    );
    let mut compared = 0;
    for case in cases["cases"].as_array().unwrap() {
        let answer = case["answer"].as_str().unwrap();
        for (at, metric) in metrics.iter().enumerate() {
            let mut metric = metric.clone();
            metric["metric"] = "exact_match".into();
            let filters = json!([{"name": "f", "filter": case["filter"]}]);
            let text = json!({"filter_list": filters, "metric_list": [metric]}).to_string();
            let grading = Grading::parse(&text).unwrap();
            // What is written travels as it was read.
            assert_eq!(Grading::parse(&grading.text()).unwrap(), grading);
            for (place, value) in targets.iter().enumerate() {
                let target = Target {
                    value,
                    is_list: value.is_array(),
                    row,
                };
                let graded = grading.of_answer(answer, target);
                let wanted = case["scores"][at][place].as_f64();
                let found = graded.as_ref().ok().and_then(|(values, _)| match values[0] {
                    Measured::Value(value) => Some(value),
                    _ => None,
                });
                // JSON is read to within the last digit.
                let is_same = match (found, wanted) {
                    (Some(found), Some(wanted)) => (found - wanted).abs() < 1e-12,
                    (found, wanted) => found == wanted,
                };
                assert!(is_same, "{case} {metric} {value}: {graded:?}");
                if let Ok((_, filtered)) = graded {
                    assert_eq!(filtered, case["filtered"], "{case}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 5_000, "{compared}");
}

/// One answer at a time, then the vote, gives what the chain gives over all answers at once.
#[test]
fn a_vote_over_samples_that_were_graded_alone_is_that_of_the_whole_list() {
    let digits = json!({"function": "regex", "regex_pattern": "(\\d+)"});
    let (vote, first) = (json!({"function": "majority_vote"}), json!({"function": "take_first"}));
    let two = json!({"function": "take_first_k", "k": 2});
    let lower = json!({"function": "lowercase"});
    let row = Row::new();
    let mut votes = 0;
    for chain in [
        vec![&first],
        vec![&digits, &first, &lower],
        vec![&vote],
        vec![&lower, &vote, &first],
        vec![&digits, &vote, &first, &lower],
        vec![&two, &digits, &vote, &first],
        vec![&digits, &two, &vote],
    ] {
        let text = json!({"repeats": 4, "filter_list": [{"name": "f", "filter": chain}]}).to_string();
        let grading = Grading::parse(&text).unwrap();
        assert_eq!(Grading::parse(&grading.text()).unwrap(), grading);
        let pipeline = &grading.pipelines[0];
        for answers in [
            ["A 7", "a 7", "9", "9"],
            ["9", "A 7", "a 7", "a 7"],
            ["", "x", "X", "1"],
            ["b", "a", "a", "b"],
        ] {
            let winner = match pipeline.chosen(4).unwrap() {
                Chosen::First => 0,
                Chosen::Voted(heard) => {
                    let cast: Vec<Json> = answers[..heard as usize]
                        .iter()
                        .map(|answer| pipeline.vote(answer, &row).unwrap().unwrap())
                        .collect();
                    let count = |vote: &Json| cast.iter().filter(|other| *other == vote).count();
                    let most = cast.iter().map(count).max().unwrap();
                    votes += 1;
                    cast.iter().position(|vote| count(vote) == most).unwrap()
                }
            };
            let whole = pipeline.apply(&answers.map(str::to_owned), &row).unwrap();
            assert_eq!(
                pipeline.apply_to_one(answers[winner], &row).unwrap(),
                whole,
                "{text} {answers:?}"
            );
        }
    }
    assert_eq!(votes, 20);
}

#[test]
fn a_chain_that_leaves_several_answers_or_needs_more_says_so() {
    let chosen = |filter: Json, repeats| {
        let text = json!({"filter_list": [{"name": "f", "filter": filter}]}).to_string();
        Grading::parse(&text).unwrap().pipelines[0].chosen(repeats)
    };
    let first_k = |k: u32| json!({"function": "take_first_k", "k": k});
    let lower = json!({"function": "lowercase"});
    assert_eq!(chosen(json!([lower]), 1), Ok(Chosen::First));
    assert_eq!(chosen(json!([first_k(1)]), 3), Ok(Chosen::First));
    assert_eq!(
        chosen(json!([lower]), 3),
        Err("leaves 3 answers of a row; end it by take_first or majority_vote".to_owned())
    );
    let vote = json!({"function": "majority_vote"});
    assert_eq!(chosen(json!([first_k(3), vote]), 3), Ok(Chosen::Voted(3)));
    assert_eq!(
        chosen(json!([first_k(4), vote]), 3),
        Err("take_first_k of 4 does not fit 3 answers of a row".to_owned())
    );
}

#[test]
fn choices_are_measured_as_in_lm_evaluation_harness() {
    let task = task("choices");
    let choices = ["ab".to_owned(), "é".to_owned(), "abcd".to_owned()];
    let gold = Gold {
        indices: vec![2],
        is_list: false,
    };
    let likelihoods = Likelihoods {
        sums: &[-2.0, -1.5, -2.4],
        are_greedy: &[false, false, true],
        unconditional: &[],
    };
    let values = task.grading().of_choices(&choices, &gold, &likelihoods);
    // Per character -1, -1.5, -0.6; per byte -1, -0.75, -0.6.
    let value = |at: usize| match values[at] {
        Some(Measured::Value(value)) => value,
        ref other => panic!("{other:?}"),
    };
    assert_eq!([value(0), value(1), value(2), value(3)], [0.0, 1.0, 1.0, 1.0]);
    let powers = [-2.0_f64, -1.5, -2.4].map(f64::exp);
    let total: f64 = powers.iter().sum();
    let brier = (powers[0] / total).powi(2) + (powers[1] / total).powi(2) + (powers[2] / total - 1.0).powi(2);
    assert!((value(4) - brier).abs() < 1e-12);
    assert_eq!(values[5], Some(Measured::Labels { truth: 2, predicted: 1 }));
}

#[test]
fn what_is_asked_for_in_vain_is_refused_by_its_key_and_line() {
    let folder = tempfile::tempdir().unwrap();
    let refusals = |text: &str| {
        let path = folder.path().join("t.yaml");
        std::fs::write(&path, text).unwrap();
        let refusals = Entry::read(&path).unwrap().task(None).unwrap_err();
        refusals
            .iter()
            .map(|refusal| format!("{}:{}", refusal.place.line, refusal.cause()))
            .collect::<Vec<_>>()
    };
    let base = "task: t\ndataset_path: x\ntest_split: test\ndoc_to_text: a\ndoc_to_target: b\n";
    for (more, wanted) in [
        ("process_docs: !function utils.f", "6:process_docs"),
        ("process_results: !function utils.f", "6:process_results"),
        ("doc_to_choice: !function utils.f", "6:doc_to_choice"),
        ("spelt_wrong: 1", "6:spelt_wrong"),
        ("output_type: guess", "6:output_type"),
        ("metric_list: []", "6:metric_list"),
        ("filter_list: []", "6:filter_list"),
        ("metric_list:\n  - metric: rouge", "7:metric_list.metric"),
        (
            "metric_list:\n  - metric: exact_match\n    aggregation: f1",
            "8:metric_list.aggregation",
        ),
        (
            "metric_list:\n  - metric: exact_match\n    ignore: 1",
            "8:metric_list.ignore",
        ),
        (
            "filter_list:\n  - name: a\n    filter:\n      - function: custom\n        filter_fn: !function utils.f",
            "9:filter_list.filter.function",
        ),
        (
            "filter_list:\n  - name: a\n    filter:\n      - function: regex\n        regex_pattern: \"(\"",
            "10:filter_list.filter.regex_pattern",
        ),
        ("doc_to_image: x", "6:doc_to_image"),
        ("generation_kwargs: {num_beams: 4}", "6:generation_kwargs.num_beams"),
        ("generation_kwargs:\n  typical_p: 1", "7:generation_kwargs.typical_p"),
        ("fewshot_config:\n  sampler: balanced", "7:fewshot_config.sampler"),
        (
            "fewshot_config: {samples: !function utils.f}",
            "6:fewshot_config.samples",
        ),
        ("description: \"{{ open\"", "6:description"),
        ("unsafe_code: true", "6:unsafe_code"),
    ] {
        assert_eq!(refusals(&format!("{base}{more}\n")), [wanted], "{more}");
    }
    let arrow = base.replace(
        "dataset_path: x",
        "dataset_path: arrow\ndataset_kwargs: {data_files: a.arrow}",
    );
    assert_eq!(refusals(&arrow)[0], "2:dataset_path");
    // All of it at once.
    assert_eq!(
        refusals(&format!("{base}use_prompt: p\nnum_fewshot: many\n")),
        ["6:use_prompt", "7:num_fewshot"]
    );
}

const BASE: &str = "task: t\ndataset_path: x\ntest_split: test\ndoc_to_text: a\ndoc_to_target: b\n";

/// What a file of these keys and this module beside it gives.
fn read(keys: &str, module: &str) -> Result<Task, Vec<crate::Refusal>> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("t.yaml"), keys).unwrap();
    std::fs::write(folder.path().join("utils.py"), module).unwrap();
    Entry::read(&folder.path().join("t.yaml")).unwrap().task(None)
}

/// The keys that are refused beside those that every task needs.
fn refused(more: &str) -> Vec<String> {
    let refusals = read(&format!("{BASE}{more}\n"), "").err().unwrap_or_default();
    refusals.iter().map(crate::Refusal::cause).collect()
}

#[test]
fn a_function_of_another_shape_is_not_taken_for_the_one_it_was() {
    let keys = format!("{BASE}process_docs: !function utils.process_sea_law\n");
    let module = std::fs::read_to_string(fixtures().join("tasks/utils.py")).unwrap();
    assert!(read(&keys, &module).is_ok());
    for changed in [
        module.replace("== topic", "!= topic"),
        module.replace("return dataset.filter", "return dataset.map"),
        module.replace(".lower()", ".upper()"),
        module.replace("\"Sea & Law\"", "\"Sea\""),
        module.replace("\"Sea & Law\"", "\"Sea  & Law\""),
        module.replace("== topic)", "== topic).select(range(1))"),
        module.replace("def process_docs", "@cached\ndef process_docs"),
        module.replace(
            "process_functions =",
            "TOPICS.append(\"Sea & Law\")\nprocess_functions =",
        ),
        format!("{module}\n\ndef process_docs(dataset, topic):\n    return dataset\n"),
        format!("{module}\nprocess_sea_law = print\n"),
        format!("{module}\npartial = print\n"),
    ] {
        assert_eq!(read(&keys, &changed).unwrap_err()[0].key, "process_docs", "{changed}");
    }
}

#[test]
fn functions_are_known_from_their_first_letter_to_their_last() {
    let lookup = "def f(doc):\n    m = {0: \"a  b\", \"0\": \"c\"}\n    return m[doc[\"k\"]]\n";
    let literal = "import ast\n\n\ndef f(doc):  # a list\n    c = ast.literal_eval(doc[\"k\"])\n    return c\n";
    let format =
        "def f(doc):\n    output = \"\"\"{q}  \n{q}\"\"\"\n    text = output.format(q=doc[\"k\"])\n    return text\n";
    let full = "def f(dataset):\n    return dataset.filter(lambda d: len(d[\"k\"]) > 0)\n";
    let bound = "from functools import partial\n\n\ndef g(dataset, c):\n    return dataset.filter(lambda d: d[\"k\"] == c)\n\n\nf = partial(g, c=\"X  Y\")\n";
    let micro = "from sklearn.metrics import f1_score\n\n\ndef f(items):\n    unzipped_list = list(zip(*items))\n    \
        golds = unzipped_list[0]\n    preds = unzipped_list[1]\n    fscore = f1_score(golds, preds, average=\"micro\")\n    return fscore\n";
    let end = |module: &str, more: &str| format!("{}{more}\n", module.trim_end());
    let cases = [
        (
            "doc_to_target: !function utils.f",
            lookup,
            vec![" if doc[\"ok\"] else \"x\"", " + \"!\"", "\n    # b\n    print()"],
        ),
        (
            "doc_to_target: !function utils.f",
            literal,
            vec!["[:2]", "\n\n\nast.literal_eval = print"],
        ),
        (
            "doc_to_text: !function utils.f",
            format,
            vec![".strip()", "\n\n\nprint(f)\nf = print"],
        ),
        (
            "process_docs: !function utils.f",
            full,
            vec![
                ".map(print)",
                ".select(range(2))",
                " if False else dataset",
                "\n\n\nlen = print",
            ],
        ),
        (
            "process_docs: !function utils.f",
            bound,
            vec![".g", "\n\n\ndef h():\n    global f", "\nglobals()[\"g\"] = print"],
        ),
        (
            "metric_list: [{metric: f1, aggregation: !function utils.f}]\noutput_type: multiple_choice\ndoc_to_choice: c",
            micro,
            vec![" * 100", "\n\n\nf1_score = print"],
        ),
    ];
    for (key, module, changes) in cases {
        let name = key.split(':').next().unwrap();
        let keys = BASE.lines().filter(|line| !line.starts_with(&format!("{name}:")));
        let keys = format!("{}\n{key}\n", keys.collect::<Vec<_>>().join("\n"));
        assert!(read(&keys, module).is_ok(), "{module}");
        let twice = format!("{module}\n\n{module}");
        for changed in changes.iter().map(|more| end(module, more)).chain([twice]) {
            assert!(read(&keys, &changed).is_err(), "{changed}");
        }
    }
    let keys = BASE.replace("doc_to_target: b", "doc_to_target: !function utils.f");
    let shadowed = lookup.replace("m = {", "doc = {").replace("m[doc", "doc[doc");
    assert!(read(&keys, &shadowed).is_err());
    let crate::task::Field::Native(rule) = read(&keys, lookup).unwrap().target else {
        panic!("no rule");
    };
    let of = |value: Json| rule.apply(json!({"k": value}).as_object().unwrap()).ok();
    assert_eq!(
        [of(json!(0)), of(json!(false)), of(json!("0")), of(json!("1"))],
        [Some(json!("a  b")), Some(json!("a  b")), Some(json!("c")), None]
    );
}

#[test]
fn of_two_chains_of_one_name_the_last_counts() {
    let text = "filter_list:\n  - {name: x, filter: [{function: lowercase}, {function: take_first}]}\n  \
        - {name: y, filter: [{function: take_first}]}\n  - {name: x, filter: [{function: uppercase}, {function: take_first}]}\n";
    let task = read(&format!("{BASE}{text}"), "").unwrap();
    let names: Vec<_> = task.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
    assert_eq!(names, ["x", "y"]);
    assert_eq!(
        task.pipelines[0].apply(&["aB".to_owned()], &Row::new()),
        Ok(json!("AB"))
    );
}

/// The value of `exact_match` behind one `map`.
fn mapped(map: &str, answer: &str, target: Json) -> Result<f64, String> {
    let text = format!("{BASE}filter_list: [{{name: x, filter: [{map}, {{function: take_first}}]}}]\n");
    let grading = read(&text, "").unwrap().grading();
    // What is written travels as it was read.
    assert_eq!(Grading::parse(&grading.text()).unwrap(), grading);
    let row = Row::new();
    let target = Target {
        value: &target,
        is_list: false,
        row: &row,
    };
    let (values, _) = grading.of_answer(answer, target)?;
    match values[0] {
        Measured::Value(value) => Ok(value),
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn maps_take_keys_and_give_values_of_every_kind_as_in_python() {
    let chained = "{function: map, mapping_dict: {\"5\": 1, ten: 2.5, x: null, b: 1.0e+20}, default_value: 3}, \
        {function: map, mapping_dict: {1: \"5\", 2.5: \"10\", 3: n, null: none, 1.0e+20: big}, default_value: bad}";
    for (answer, target) in [("5", "5"), ("ten", "10"), ("y", "n"), ("x", "none"), ("b", "big")] {
        assert_eq!(mapped(chained, answer, json!(target)), Ok(1.0), "{answer}");
        assert_eq!(mapped(chained, answer, json!("other")), Ok(0.0), "{answer}");
    }
    let of = |to: &str| format!("{{function: map, mapping_dict: {{\"yes\": {to}}}, default_value: false}}");
    for (to, target, wanted) in [
        ("true", json!(true), 1.0),
        ("true", json!(false), 0.0),
        // `bool` of a text that is not empty.
        ("true", json!("False"), 1.0),
        ("true", json!(""), 0.0),
        ("5", json!(5.0), 1.0),
        ("5", json!(5.9), 1.0),
        ("5", json!("5"), 1.0),
        ("5", json!(6.0), 0.0),
        ("1", json!(true), 1.0),
        ("2.5", json!("2.5"), 1.0),
        ("2.5", json!(2), 0.0),
        ("null", json!(null), 1.0),
    ] {
        assert_eq!(mapped(&of(to), "yes", target.clone()), Ok(wanted), "{to} {target}");
    }
    for (to, target) in [
        ("5", json!("x")),
        ("5", json!("5.0")),
        ("null", json!("x")),
        ("2.5", json!(null)),
    ] {
        assert!(mapped(&of(to), "yes", target.clone()).is_err(), "{to} {target}");
    }
}

#[test]
fn values_that_would_be_dropped_are_refused() {
    let filter = |step: &str| format!("filter_list: [{{name: x, filter: [{step}, {{function: take_first}}]}}]");
    let metric = |more: &str| format!("metric_list: [{{metric: exact_match, {more}}}]");
    for (more, key) in [
        (metric("regexes_to_ignore: [\",\", 5]"), "metric_list.regexes_to_ignore"),
        (metric("regexes_to_ignore: 5"), "metric_list.regexes_to_ignore"),
        (metric("higher_is_better: \"no\""), "metric_list.higher_is_better"),
        (
            filter("{function: map, mapping_dict: [a, b]}"),
            "filter_list.filter.mapping_dict",
        ),
        (
            filter("{function: map, mapping_dict: {a: !function utils.f}}"),
            "filter_list.filter.mapping_dict",
        ),
        (filter("{function: map, default_value: .nan}"), "filter_list"),
        (filter("{function: take_first_k}"), "filter_list.filter.k"),
        (filter("{function: take_first_k, k: null}"), "filter_list.filter.k"),
        (filter("{function: regex, fallback: .inf}"), "filter_list"),
        (
            filter("{function: regex, regex_pattern: 5}"),
            "filter_list.filter.regex_pattern",
        ),
        (
            filter("{function: regex, group_select: null}"),
            "filter_list.filter.group_select",
        ),
        (
            filter("{function: regex, regex_pattern: \"(?<n>a)\"}"),
            "filter_list.filter.regex_pattern",
        ),
        (
            "generation_kwargs: {temperature: .nan}".to_owned(),
            "generation_kwargs.temperature",
        ),
        (
            "generation_kwargs: {temperature: .inf}".to_owned(),
            "generation_kwargs.temperature",
        ),
        (
            "generation_kwargs: {temperature: -1}".to_owned(),
            "generation_kwargs.temperature",
        ),
        ("generation_kwargs: {top_p: 7}".to_owned(), "generation_kwargs.top_p"),
        ("generation_kwargs: {top_p: .nan}".to_owned(), "generation_kwargs.top_p"),
        ("repeats: 0".to_owned(), "repeats"),
        ("repeats: 4294967296".to_owned(), "repeats"),
    ] {
        assert_eq!(refused(&more), [key], "{more}");
    }
    for more in [
        metric("regexes_to_ignore: null, higher_is_better: false"),
        filter("{function: map, mapping_dict: null}"),
        filter("{function: regex, fallback: null}"),
        "generation_kwargs: {temperature: 0, top_p: 1}".to_owned(),
        "metadata: {version: .inf}".to_owned(),
        "repeats: 4294967295".to_owned(),
    ] {
        assert_eq!(refused(&more), Vec::<String>::new(), "{more}");
    }
}

#[test]
fn chains_that_fail_at_every_answer_are_refused() {
    let lower = "filter_list: [{name: x, filter: [{function: lowercase}]}]\n";
    let map = "filter_list: [{name: x, filter: [{function: map, mapping_dict: {a: b}}, {function: take_first}]}]\n";
    let texts = map.replace("{a: b}", "{a: b}, default_value: c");
    let choices = "doc_to_choice: c\n";
    for (more, is_refused) in [
        (format!("{lower}metric_list: [{{metric: chrf}}]"), true),
        (
            format!("{lower}metric_list: [{{metric: exact_match, regexes_to_ignore: [a]}}]"),
            true,
        ),
        (format!("{map}{choices}"), true),
        (format!("{lower}metric_list: [{{metric: exact_match}}]"), false),
        (format!("{texts}metric_list: [{{metric: chrf}}]"), false),
        (format!("{texts}{choices}"), false),
        (map.to_owned(), false),
    ] {
        let wanted = if is_refused { vec!["filter_list"] } else { vec![] };
        assert_eq!(refused(&more), wanted, "{more}");
    }
}

/// What is said of the first of some rows.
fn first_asked(more: &str, row: Json) -> Result<crate::request::Asked, String> {
    let base = BASE.replace("doc_to_text: a\ndoc_to_target: b\n", "doc_to_text: q\n");
    let task = read(&format!("{base}{more}\n"), "").unwrap();
    let row = row.as_object().unwrap();
    let asked = Asker::new(&task, row, Vec::new())?.ask(row);
    asked.map_err(|unasked| unasked.to_string())
}

#[test]
fn rows_that_no_answer_gets_right_or_no_metric_is_taken_of_are_refused() {
    let choices = "output_type: multiple_choice\ndoc_to_choice: [\"x\", \"y\", \"z\"]\n";
    let row = || json!({"q": "?", "k": 2, "o": 1, "l": [0, 1], "e": [], "t": ["a"], "f": 0.0, "g": [1.0]});
    let letters = "filter_list: [{name: x, filter: [{function: take_first}, {function: lowercase}]}]\n";
    let changing = "metric_list: [{metric: exact_match, ignore_numbers: true}]";
    for (more, part) in [
        ("doc_to_target: \"[]\"".to_owned(), "is an empty list"),
        ("doc_to_target: e".to_owned(), "is an empty list"),
        (format!("{choices}doc_to_target: \"[]\""), "is an empty list"),
        (format!("{choices}doc_to_target: e"), "is an empty list"),
        (
            format!("{choices}doc_to_target: k\nmetric_list: [{{metric: f1}}]"),
            "f1 is that of choice 1 against choice 0, and choice 2 is right here",
        ),
        (
            format!("{choices}doc_to_target: l\nmetric_list: [{{metric: acc}}, {{metric: f1}}]"),
            "f1 is not defined",
        ),
        (
            format!("{choices}doc_to_target: l\nmetric_list: [{{metric: brier_score}}]"),
            "brier_score is not defined",
        ),
        (
            "doc_to_target: t\nmetric_list: [{metric: exact_match}, {metric: chrf}]".to_owned(),
            "chrf is not defined for a doc_to_target that is a list",
        ),
        (format!("{choices}doc_to_target: f"), "is 0.0, which is no index"),
        (format!("{choices}doc_to_target: g"), "is 1.0, which is no index"),
        (
            format!("doc_to_target: k\n{letters}{changing}"),
            "exact_match of what filter_list x leaves fails for every answer: 2 and \"a\" are no texts",
        ),
        (format!("doc_to_target: l\n{changing}"), "fails for every answer"),
        (
            format!("doc_to_target: \"[1, 'b']\"\n{changing}"),
            "fails for every answer",
        ),
        (
            "doc_to_target: t\nmetric_list: [{metric: bleu}]".to_owned(),
            "bleu is not defined",
        ),
    ] {
        let said = first_asked(&more, row()).unwrap_err();
        assert!(said.contains(part), "{more}: {said}");
    }
    for more in [
        "doc_to_target: t".to_owned(),
        format!("doc_to_target: k\n{letters}"),
        format!("doc_to_target: k\n{changing}"),
        format!("doc_to_target: t\n{letters}{changing}"),
        format!("{choices}doc_to_target: o\nmetric_list: [{{metric: f1}}]"),
        format!("{choices}doc_to_target: k\nmetric_list: [{{metric: mcc}}]"),
        format!("{choices}doc_to_target: l\nmetric_list: [{{metric: acc}}]"),
    ] {
        assert!(first_asked(&more, row()).is_ok(), "{more}");
    }
}

#[test]
fn of_two_parts_of_one_name_in_a_group_the_last_counts() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let base = "dataset_path: x\ntest_split: test\ndoc_to_text: a\ndoc_to_target: b\n";
    write("a.yaml", &format!("task: a\n{base}"));
    write("b.yaml", &format!("task: b\n{base}"));
    write("g.yaml", "group: g\ntask: [a, b, a, {task: a, num_fewshot: 1}]\n");
    write("self.yaml", "group: self\ntask: [self, self, other]\n");
    write("other.yaml", "group: other\ntask: [a, self]\n");
    write(
        "bad.yaml",
        "group: bad\ntask: [a]\naggregate_metric_list:\n  - {metric: exact_match, weight_by_size: \"no\"}\n  \
         - {metric: exact_match, filter_list: [none, 5]}\n",
    );
    let index = Index::build(folder.path()).unwrap();
    let group = |name: &str| index.group(index.get(name).unwrap());
    let of_g = group("g").unwrap();
    let tasks: Vec<_> = of_g
        .tasks()
        .into_iter()
        .map(|task| (task.name.as_str(), task.num_fewshot))
        .collect();
    assert_eq!(tasks, [("a", Some(1)), ("b", None)]);
    let said = |name: &str| -> Vec<String> {
        let refusals = group(name).unwrap_err();
        refusals
            .iter()
            .map(|refusal| format!("{} {}", refusal.key, refusal.reason))
            .collect()
    };
    assert_eq!(
        said("self"),
        [
            "task group self is in itself",
            "task group self is in itself",
            "task group self is in itself"
        ]
    );
    assert_eq!(
        said("bad"),
        [
            "aggregate_metric_list.weight_by_size takes true or false",
            "aggregate_metric_list.filter_list takes a name or a list of names"
        ]
    );
}

#[test]
fn groups_hold_tasks_tags_and_groups_with_their_overrides() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let base = "dataset_path: x\ntest_split: test\ndoc_to_text: a\ndoc_to_target: b\n";
    write("a.yaml", &format!("task: a\ntag: [letters]\n{base}"));
    write("b.yaml", &format!("task: b\ntag: letters\n{base}"));
    write("c.yaml", &format!("task: c\n{base}num_fewshot: 1\n"));
    write("inner.yaml", "group: inner\ntask: [letters]\n");
    let group = "group: outer\ngroup_alias: Outer\ntask:\n  - inner\n  - {task: c, num_fewshot: 4}\n  - group: own\n    task: [c]\n    \
        aggregate_metric_list: [{metric: exact_match, weight_by_size: false}]\naggregate_metric_list:\n  - metric: exact_match\n    \
        filter_list: none\n";
    write("outer.yaml", group);
    let index = Index::build(folder.path()).unwrap();
    let group = index.group(index.get("outer").unwrap()).unwrap();
    let tasks: Vec<_> = group
        .tasks()
        .into_iter()
        .map(|task| (task.name.as_str(), task.num_fewshot))
        .collect();
    assert_eq!(tasks, [("a", None), ("b", None), ("c", Some(4)), ("c", Some(1))]);
    assert_eq!(
        group.aggregates[0].filters.as_deref(),
        Some(["none".to_owned()].as_slice())
    );
    assert!(group.aggregates[0].weight_by_size);
    let crate::Child::Group(own) = &group.children[2] else {
        panic!("{:?}", group.children[2]);
    };
    assert_eq!(
        (own.name.as_str(), own.aggregates[0].weight_by_size),
        ("outer::own", false)
    );

    write("broken.yaml", "group: broken\ntask: [a, missing]\n");
    let index = Index::build(folder.path()).unwrap();
    let refusals = index.group(index.get("broken").unwrap()).unwrap_err();
    assert!(
        refusals[0]
            .to_string()
            .ends_with("broken.yaml:2: task: missing is no task, group or tag in these folders")
    );
}

#[test]
fn the_load_table_counts_what_loads_and_names_what_does_not() {
    let table = crate::load_table::LoadTable::of(&fixtures().join("tasks")).unwrap();
    let tasks = table.kinds["tasks"];
    assert_eq!((tasks.total, tasks.loaded), (8, 8));
    assert_eq!(table.native["filter-equal"], 1);
    assert!(table.markdown().contains("| tasks | 8 | 8 | 100.0 % |"));
}
