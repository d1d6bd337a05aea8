//! Suites whose benchmarks task files of lm-evaluation-harness describe.

use crate::support::Folder;
use tidemill_domain::{Aggregation, Average, GroupMean, Member, MetricSource, Prompt, Reasoning};
use tidemill_tasks::Collected;

const SUITE: &str = "name = \"s\"\nversion = \"1\"\ntier = \"canary\"\n[[benchmark]]\n";
const ROWS: &str =
    "{\"q\": \"Is it? \", \"c\": [\"no\", \"yes\"], \"a\": 1}\n{\"q\": \"Or?\", \"c\": [\"ja\", \"nein\"], \"a\": 0}\n";
const CHOICES: &str = "task: t\ndataset_path: org/set\ndataset_name: small\ntest_split: test\noutput_type: multiple_choice\n\
    doc_to_text: \"{{q}}\"\ndoc_to_target: a\ndoc_to_choice: c\ntarget_delimiter: \"\"\n";
const MAPPING: &str = "[[dataset]]\npath = \"org/set\"\nname = \"small\"\nsplits.test = \"rows.jsonl\"\n";

fn folder(suite: &str) -> Folder {
    Folder::new()
        .with("suite.toml", format!("{SUITE}{suite}"))
        .with("rows.jsonl", ROWS)
        .with("sets.toml", MAPPING)
        .with("t.yaml", CHOICES)
}

#[test]
fn a_task_of_choices_becomes_items_that_are_scored_by_likelihood() {
    let folder = folder("task = \"t.yaml\"\ndatasets = \"sets.toml\"\n");
    let mut collected = Collected::default();
    let manifest = folder.load_into(&mut collected).unwrap().manifest;
    let benchmark = &manifest.benchmarks[0];
    assert_eq!(
        (benchmark.name.as_str(), benchmark.items, benchmark.is_likelihood()),
        ("t", 2, true)
    );
    assert_eq!(benchmark.reasoning, Reasoning::None);
    let metrics: Vec<_> = benchmark
        .metrics
        .iter()
        .map(|metric| (metric.name.as_str(), metric.aggregation))
        .collect();
    assert_eq!(metrics, [("acc", Aggregation::Mean), ("acc_norm", Aggregation::Mean)]);
    let item = collected.items(&manifest, 0).next().unwrap();
    // The space at the end of the prompt begins the continuations.
    assert_eq!(item.prompt, Prompt::Text("Is it?".to_owned()));
    assert_eq!(item.choices, [" no", " yes"]);
    assert_eq!((item.id.as_str(), item.correct_choice), ("0", Some(1)));
    assert_eq!(
        (item.material("choices"), item.material("gold")),
        (Some("[\"no\",\"yes\"]"), Some("1"))
    );
}

#[test]
fn a_task_of_texts_brings_its_settings_filters_and_metrics() {
    let task = "task: g\ndataset_path: json\ndataset_kwargs: {data_files: {dev: rows.jsonl}}\nvalidation_split: dev\ndoc_to_text: q\n\
        doc_to_target: \"{{c[a]}}\"\ngeneration_kwargs: {until: [\"\\n\", \"\"], max_gen_toks: 7, temperature: 0.5, top_p: 0.9}\n\
        filter_list:\n  - {name: x, filter: [{function: lowercase}, {function: take_first}]}\n\
        metric_list:\n  - {metric: exact_match, ignore_case: true}\n  - {metric: chrf}\n";
    let folder = folder("task = \"g.yaml\"\nlimit = 1\n").with("g.yaml", task);
    let mut collected = Collected::default();
    let manifest = folder.load_into(&mut collected).unwrap().manifest;
    let benchmark = &manifest.benchmarks[0];
    let settings = &benchmark.settings;
    assert_eq!(
        (settings.max_tokens, settings.temperature, settings.top_p),
        (7, 0.5, 0.9)
    );
    assert_eq!(
        (settings.stop.as_slice(), benchmark.items),
        (["\n".to_owned()].as_slice(), 1)
    );
    let metrics: Vec<_> = benchmark
        .metrics
        .iter()
        .map(|metric| (metric.name.as_str(), metric.aggregation))
        .collect();
    assert_eq!(
        metrics,
        [("exact_match,x", Aggregation::Mean), ("chrf,x", Aggregation::Chrf)]
    );
    let item = collected.items(&manifest, 0).next().unwrap();
    assert_eq!(
        (item.material("target"), item.targets.as_slice()),
        (Some("\"yes\""), ["yes".to_owned()].as_slice())
    );
}

#[test]
fn repeats_are_samples_of_which_each_chain_takes_one() {
    let task = |metric: &str, first: &str| {
        format!(
            "task: g\ndataset_path: json\ndataset_kwargs: {{data_files: {{dev: rows.jsonl}}}}\nvalidation_split: dev\n\
             doc_to_text: q\ndoc_to_target: a\nrepeats: 5\ngeneration_kwargs: {{temperature: 0.5}}\nfilter_list:\n\
             \x20 - {{name: first, filter: [{{function: {first}}}]}}\n\
             \x20 - {{name: all, filter: [{{function: majority_vote}}, {{function: take_first}}]}}\n\
             \x20 - {{name: maj@3, filter: [{{function: take_first_k, k: 3}}, {{function: majority_vote}}, {{function: take_first}}]}}\n\
             metric_list:\n  - {{metric: {metric}}}\n"
        )
    };
    let folder = |metric, first| folder("task = \"g.yaml\"\n").with("g.yaml", task(metric, first));
    let manifest = folder("exact_match", "take_first").load().unwrap().manifest;
    assert_eq!(manifest.benchmarks[0].settings.samples, 5);
    let sources: Vec<_> = manifest.benchmarks[0]
        .metrics
        .iter()
        .map(|metric| metric.source)
        .collect();
    use MetricSource::{FirstMeasure, VotedMeasure};
    assert_eq!(sources, [FirstMeasure, VotedMeasure(5), VotedMeasure(3)]);
    for (metric, first, part) in [
        ("bleu", "take_first", "bleu of the answer that majority_vote takes"),
        (
            "exact_match",
            "lowercase",
            "filter_list: first leaves 5 answers of a row",
        ),
        (
            "exact_match",
            "take_first_k, k: 6",
            "take_first_k of 6 does not fit 5 answers",
        ),
    ] {
        let refused = folder(metric, first).errors();
        assert!(refused.contains(part), "{refused}");
    }
}

#[test]
fn a_group_becomes_benchmarks_and_a_mean() {
    let mapped = CHOICES.replace("task: t", "task: u") + "metric_list:\n  - {metric: acc}\n  - {metric: f1}\n";
    let group = "group: both\ntask: [t, u]\naggregate_metric_list:\n  - {metric: acc, weight_by_size: false}\n";
    let folder = folder("task = \"both.yaml\"\ndatasets = \"sets.toml\"\n")
        .with("u.yaml", mapped)
        .with("both.yaml", group);
    let manifest = folder.load().unwrap().manifest;
    let names: Vec<_> = manifest
        .benchmarks
        .iter()
        .map(|benchmark| benchmark.name.as_str())
        .collect();
    assert_eq!(names, ["t", "u"]);
    assert_eq!(
        manifest.benchmarks[1].metrics[1].aggregation,
        Aggregation::F1(Average::Binary)
    );
    let group = &manifest.groups[0];
    assert_eq!(
        (group.name.as_str(), group.mean, group.metric.as_deref()),
        ("both", GroupMean::Macro, Some("acc"))
    );
    let member = |benchmark| Member { benchmark, weight: 1.0 };
    assert_eq!(group.members, [member(0), member(1)]);
}

#[test]
fn a_text_that_is_an_index_gives_each_choice_a_context_of_its_own() {
    let task = "task: t\ndataset_path: org/set\ndataset_name: small\ntest_split: test\noutput_type: multiple_choice\n\
        doc_to_text: \"{{a}}\"\ndoc_to_target: \"{{q}}\"\ndoc_to_choice: \"{{['It is ' + c[0] + ' ', 'It is ' + c[1]]}}\"\n\
        target_delimiter: \"-\"\n";
    let items = folder("task = \"t.yaml\"\ndatasets = \"sets.toml\"\n")
        .with("t.yaml", task)
        .items();
    let item = &items[0];
    assert_eq!(item.contexts().unwrap(), ["It is no", "It is yes"]);
    assert_eq!(
        item.prompt,
        Prompt::of_contexts(vec!["It is no".to_owned(), "It is yes".to_owned()])
    );
    // The space at the end of a context begins what follows it.
    assert_eq!(item.choices, [" -Is it? ", "-Is it? "]);
    assert_eq!((item.correct_choice, item.material("gold")), (Some(1), Some("1")));
    assert_eq!(item.material("choices"), Some("[\"It is no \",\"It is yes\"]"));
}

#[test]
fn a_likelihood_after_nothing_begins_with_the_start_text() {
    let task = CHOICES.replace("{{q}}", "");
    let items = |suite: &str| folder(suite).with("t.yaml", &task).items();
    let plain = items("task = \"t.yaml\"\ndatasets = \"sets.toml\"\n");
    assert_eq!(
        (&plain[0].prompt, plain[0].choices[0].as_str()),
        (&Prompt::Text(String::new()), "no")
    );
    let started = items("task = \"t.yaml\"\ndatasets = \"sets.toml\"\nstart_text = \"<s>\"\n");
    assert_eq!(started[0].prompt, Prompt::Text("<s>".to_owned()));
}

#[test]
fn what_a_task_cannot_have_is_named_with_its_file_line_and_key() {
    let errors = |suite: &str, more: &str| folder(suite).with("t.yaml", format!("{CHOICES}{more}")).errors();
    let mapped = "task = \"t.yaml\"\ndatasets = \"sets.toml\"\n";
    for (suite, more, part) in [
        (
            "task = \"t.yaml\"\n",
            "",
            "\"org/set\" is on the hub, which is not reached from here",
        ),
        ("task = \"none.yaml\"\n", "", "none.yaml does not exist"),
        (
            "task = \"t.yaml\"\nprompt = \"x\"\n",
            "",
            "prompt cannot stand beside task",
        ),
        (
            mapped,
            "process_docs: !function utils.f\n",
            "t.yaml:10: process_docs: changes rows by the Python function utils.f",
        ),
        (
            mapped,
            "num_fewshot: 9\n",
            "9 examples are wanted before each row, and 2 rows are there to choose from in rows.jsonl: test",
        ),
        (mapped, "description: \"{{ absent }}\"\n", "row 1: description: "),
        (
            mapped,
            "validation_split: dev\nfewshot_split: dev\nnum_fewshot: 1\n",
            "has no split \"dev\"",
        ),
    ] {
        let said = errors(suite, more);
        assert!(said.contains(part), "{suite}{more}: {said}");
    }
}

#[test]
fn an_error_of_a_row_names_its_file_its_line_there_what_is_wrong_and_where_to_mend_it() {
    let suite = "task = \"t.yaml\"\ndatasets = \"sets.toml\"\n";
    let rows = |rows: [i64; 3]| {
        let row = |answer: i64| format!("{{\"q\": \"Is it?\", \"c\": [\"no\", \"yes\"], \"a\": {answer}}}\n");
        rows.map(row)
    };
    let [good, bad, other] = rows([1, 5, 0]);
    // Of a file with an empty line, and with a row that is left out before.
    let kept = "process_docs: !function utils.f\n";
    let utils = "def f(dataset):\n    return dataset.filter(lambda x: len(x[\"c\"]) > 0)\n";
    let left_out = good.replace("[\"no\", \"yes\"]", "[]");
    let errors = |data: String, more: &str| {
        let with = folder(suite).with("rows.jsonl", data).with("utils.py", utils);
        with.with("t.yaml", format!("{CHOICES}{more}")).errors()
    };
    let said = errors(format!("{left_out}\n{good}{bad}{other}"), kept);
    let expected = "suite.toml:4: benchmark 1: field task t: rows.jsonl: test row 4: doc_to_target: is 5, outside of 2 choices, which count \
                    from 0; mend the row, or what t.yaml makes of it";
    assert_eq!(said, expected);
    // An example is at fault: it is said once, at its own place, however many rows it stands before.
    let shots = MAPPING.to_owned() + "splits.dev = \"shots.jsonl\"\n";
    let said = folder(suite)
        .with("sets.toml", shots)
        .with("shots.jsonl", format!("{good}{bad}"))
        .with("t.yaml", format!("{CHOICES}fewshot_split: dev\nnum_fewshot: 2\n"))
        .errors();
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(
        said.contains("field task t: shots.jsonl: dev row 2: doc_to_target: is 5"),
        "{said}"
    );
}

#[test]
fn rows_of_choices_that_no_answer_or_every_answer_gets_right_are_refused() {
    let suite = "task = \"t.yaml\"\ndatasets = \"sets.toml\"\n";
    let errors = |from: &str, to: &str| folder(suite).with("t.yaml", CHOICES.replace(from, to)).errors();
    let target = "doc_to_target: a";
    for (from, to, part) in [
        (
            target,
            "doc_to_target: \"{{a + 5}}\"",
            "row 1: doc_to_target: is 6, outside of 2 choices",
        ),
        (
            target,
            "doc_to_target: \"{{a + 1}}\"",
            "row 1: doc_to_target: is 2, outside of 2 choices",
        ),
        (
            target,
            "doc_to_target: \"vielleicht\"",
            "doc_to_target: is \"vielleicht\", which is none of the 2 choices",
        ),
        (
            "doc_to_choice: c",
            "doc_to_choice: [\"x\"]",
            "row 1: doc_to_choice: is one choice",
        ),
        (
            "{{q}}",
            "{% for i in range(9999) %}{% for j in range(9999) %}{{ q }}{% endfor %}{% endfor %}",
            "steps",
        ),
    ] {
        let said = errors(from, to);
        assert!(said.contains(part) && said.contains("task t"), "{to}: {said}");
    }
    for target in [
        "doc_to_target: \"{{a}}\"",
        "doc_to_target: \"{{c[a]}}\"",
        "doc_to_target: \"{{[a]}}\"",
    ] {
        let known = folder(suite).with("t.yaml", CHOICES.replace("doc_to_target: a", target));
        assert_eq!(known.load().unwrap().manifest.benchmarks[0].items, 2, "{target}");
    }
}

#[test]
fn a_mean_of_a_metric_that_no_task_has_is_refused() {
    let group = |aggregate: &str| {
        let group = format!("group: both\ntask: [t]\naggregate_metric_list:\n  - {aggregate}\n");
        folder("task = \"both.yaml\"\ndatasets = \"sets.toml\"\n").with("both.yaml", group)
    };
    for (aggregate, key) in [
        (
            "{metric: exact_match}",
            "aggregate_metric_list.metric: no task of the group has the metric exact_match",
        ),
        (
            "{metric: acc, filter_list: strict}",
            "aggregate_metric_list.filter_list: no task of the group has acc",
        ),
    ] {
        let said = group(aggregate).errors();
        assert!(said.contains(key), "{aggregate}: {said}");
    }
    for aggregate in ["{metric: acc}", "{metric: acc_norm, filter_list: [none]}"] {
        assert_eq!(group(aggregate).load().unwrap().manifest.groups.len(), 1, "{aggregate}");
    }
}

const TEXTS: &str = "task: g\ndataset_path: json\ndataset_kwargs: {data_files: {dev: rows.jsonl}}\nvalidation_split: dev\n\
    doc_to_text: q\ndoc_to_target: \"{{c[a]}}\"\n";

#[test]
fn chains_that_need_more_answers_than_there_are_and_nul_characters_are_refused() {
    let errors = |task: &str| folder("task = \"g.yaml\"\n").with("g.yaml", task).errors();
    let choices = TEXTS.replace(
        "doc_to_target: \"{{c[a]}}\"",
        "doc_to_target: a\noutput_type: multiple_choice",
    );
    for (task, part) in [
        (
            format!(
                "{TEXTS}filter_list: [{{name: x, filter: [{{function: take_first_k, k: 5}}, {{function: take_first}}]}}]\n"
            ),
            "filter_list: x take_first_k of 5 does not fit 1 answers of a row",
        ),
        (
            TEXTS.replace("doc_to_text: q", "doc_to_text: \"{{q}}\\0\""),
            "row 1: the prompt holds a NUL character",
        ),
        (
            format!("{TEXTS}generation_kwargs: {{until: [\"a\\0b\"]}}\n"),
            "generation_kwargs.until: holds a NUL character",
        ),
        (
            format!("{choices}doc_to_choice: [\"x\", \"y\\0\"]\n"),
            "row 1: the continuation of choice 1 holds a NUL character",
        ),
    ] {
        let said = errors(&task);
        assert!(said.contains(part), "{task}: {said}");
    }
}

#[test]
fn files_of_one_configuration_win_over_those_of_any() {
    let any = "[[dataset]]\npath = \"org/set\"\nsplits.test = \"other.jsonl\"\n";
    let suite = "task = \"t.yaml\"\ndatasets = \"sets.toml\"\n";
    let with = |sets: String| {
        folder(suite)
            .with("other.jsonl", "{\"q\": \"No.\", \"c\": [\"a\", \"b\"], \"a\": 0}\n")
            .with("sets.toml", sets)
    };
    for sets in [format!("{any}{MAPPING}"), format!("{MAPPING}{any}")] {
        assert_eq!(with(sets).load().unwrap().manifest.benchmarks[0].items, 2);
    }
    assert_eq!(with(any.to_owned()).load().unwrap().manifest.benchmarks[0].items, 1);
    let said = with(format!("{MAPPING}{MAPPING}")).errors();
    assert!(
        said.contains("path \"org/set\", name \"small\" is there twice"),
        "{said}"
    );
}

#[test]
fn groups_of_the_suite_name_benchmarks_of_task_files() {
    let suite = |group: &str| format!("task = \"t.yaml\"\ndatasets = \"sets.toml\"\n[[group]]\n{group}\n");
    let named = folder(&suite("name = \"all\"\nbenchmarks = [\"t*\"]\nmetric = \"acc\""))
        .load()
        .unwrap();
    assert_eq!(
        named.manifest.groups[0].members,
        [Member {
            benchmark: 0,
            weight: 1.0
        }]
    );
    for (group, part) in [
        (
            "name = \"all\"\nbenchmarks = [\"u\"]",
            "names no benchmark of the suite",
        ),
        (
            "name = \"t\"\nbenchmarks = [\"t\"]",
            "\"t\" is the name of a benchmark already",
        ),
        (
            "name = \"all\"\nbenchmarks = [\"t\"]\nmetric = \"f1\"",
            "benchmark \"t\" has no metric \"f1\"",
        ),
    ] {
        let said = folder(&suite(group)).errors();
        assert!(said.contains(part), "{group}: {said}");
    }
    // Of a task that could not be read no name is known, and nothing is said of those that are missing.
    let said = folder(&suite("name = \"all\"\nbenchmarks = [\"t\"]"))
        .with("t.yaml", "task: t\n")
        .errors();
    assert!(!said.contains("names no benchmark"), "{said}");
}

#[test]
fn a_task_in_several_groups_counts_as_often_and_of_two_means_of_a_metric_the_last_counts() {
    let folder = folder("task = \"outer.yaml\"\ndatasets = \"sets.toml\"\n")
        .with("u.yaml", CHOICES.replace("task: t", "task: u"))
        .with("a.yaml", "group: a\ntask: [t, t, u]\naggregate_metric_list: [{metric: acc}]\n")
        .with("b.yaml", "group: b\ntask: [{task: t, num_fewshot: 1}]\n")
        .with(
            "outer.yaml",
            "group: outer\ntask: [a, b]\naggregate_metric_list:\n  - {metric: acc}\n  - {metric: acc, weight_by_size: false}\n",
        );
    let loaded = folder.load().unwrap();
    let groups: Vec<_> = loaded
        .manifest
        .groups
        .iter()
        .map(|group| (group.name.as_str(), group.mean))
        .collect();
    assert_eq!(groups, [("outer", GroupMean::Macro), ("a", GroupMean::Micro)]);
    let member = |benchmark, weight| Member { benchmark, weight };
    assert_eq!(loaded.manifest.groups[0].members, [member(0, 2.0), member(1, 1.0)]);
    assert_eq!(loaded.manifest.groups[1].members, [member(0, 1.0), member(1, 1.0)]);
    let warning = loaded
        .warnings
        .iter()
        .any(|warning| warning.message.contains("several groups with different settings"));
    assert!(warning, "{:?}", loaded.warnings);
}

#[test]
fn shared_settings_that_a_task_does_not_take_are_warned_of() {
    let defaults = "task = \"t.yaml\"\ndatasets = \"sets.toml\"\n[defaults]\nmax_tokens = 5\nseed = 7\n";
    let said = folder(defaults).warnings();
    for key in ["max_tokens", "seed"] {
        let wanted = format!("defaults.{key}: has no effect here: each benchmark has a task");
        assert!(said.contains(&wanted), "{said}");
    }
    let data = "[[benchmark]]\nname = \"d\"\ndata = \"rows.jsonl\"\nprompt = \"{{ q }}\"\ntarget = \"{{ a }}\"\n\
        [benchmark.grader]\nkind = \"exact\"\n";
    let said = folder(&format!("{defaults}{data}")).warnings();
    assert!(
        said.contains("defaults.seed: has no effect on the benchmarks that have a task"),
        "{said}"
    );
    assert_eq!(folder("task = \"t.yaml\"\ndatasets = \"sets.toml\"\n").warnings(), "");
}

#[test]
fn examples_from_the_evaluated_rows_are_warned_of_and_too_few_are_an_error_of_the_task() {
    let suite = "task = \"t.yaml\"\ndatasets = \"sets.toml\"\n";
    let with = |more: &str, shots: &str| {
        folder(&format!("{suite}{shots}"))
            .with("sets.toml", MAPPING.to_owned() + "splits.dev = \"rows.jsonl\"\n")
            .with("t.yaml", format!("{CHOICES}{more}"))
    };
    let warnings = |more: &str, shots: &str| with(more, shots).warnings();
    for (more, shots) in [("num_fewshot: 1\n", ""), ("", "few_shot = 1\n")] {
        let said = warnings(more, shots);
        assert!(
            said.contains("field task t: no split is named for the examples before each row")
                && said.contains("a row's own answer may stand in its prompt"),
            "{said}"
        );
    }
    for more in [
        "num_fewshot: 1\nfewshot_split: dev\n",
        "num_fewshot: 1\ntraining_split: dev\n",
        "num_fewshot: 0\n",
    ] {
        assert_eq!(warnings(more, ""), "", "{more}");
    }
    let said = with("fewshot_split: dev\n", "few_shot = 3\n").errors();
    assert_eq!(
        said,
        "suite.toml:4: benchmark 1: field task t: 3 examples are wanted before each row, and 2 rows are there to choose from in \
         rows.jsonl: dev; lower few_shot of the suite, or num_fewshot of t.yaml"
    );
}

#[test]
fn a_task_without_a_name_or_rows_is_said_so_in_words() {
    let suite = "task = \"t.yaml\"\ndatasets = \"sets.toml\"\n";
    let said = folder(suite)
        .with("t.yaml", CHOICES.replace("task: t", "task: null"))
        .errors();
    assert!(said.contains("field task of t.yaml: a benchmark name"), "{said}");
    let none = MAPPING.replace("\"rows.jsonl\"", "[]");
    let said = folder(suite).with("sets.toml", none).errors();
    assert!(said.contains("no rows are left of split \"test\""), "{said}");
}

#[test]
fn integers_of_each_format_are_those_of_the_harness() {
    let task = |name: &str, file: &str| {
        format!(
            "task: {name}\ndataset_path: {name}\ndataset_kwargs: {{data_files: {{test: {file}}}}}\ntest_split: test\n\
             doc_to_text: \"{{{{big}}}}\"\ndoc_to_target: big\n"
        )
    };
    for (name, file, rows, text) in [
        ("csv", "r.csv", "big\n12345678901234567890\n", "12345678901234567890"),
        (
            "json",
            "r.jsonl",
            "{\"big\": 12345678901234567890}\n",
            "1.2345678901234567e+19",
        ),
        (
            "json",
            "r.json",
            "[{\"big\": 12345678901234567890}]\n",
            "1.2345678901234567e+19",
        ),
    ] {
        let folder = folder("task = \"n.yaml\"\n")
            .with("n.yaml", task(name, file))
            .with(file, rows);
        let mut collected = Collected::default();
        let manifest = folder.load_into(&mut collected).unwrap().manifest;
        let item = collected.items(&manifest, 0).next().unwrap();
        assert_eq!(
            (item.prompt.clone(), item.targets.clone()),
            (Prompt::Text(text.to_owned()), vec![text.to_owned()]),
            "{file}"
        );
    }
}
