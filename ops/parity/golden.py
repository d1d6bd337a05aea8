"""Writes what lm-evaluation-harness itself makes of the fixtures of shared/harness: run in a venv with lm-eval 0.4.13.

    python ops/parity/golden.py shared/harness/fixtures
"""

import json
import logging
import math
import os
import pathlib
import sys

logging.disable(logging.WARNING)

try:
    from lm_eval.api.instance import Instance
    from lm_eval.api.task import ConfigurableTask
    from lm_eval.filters import build_filter_ensemble
    from lm_eval.tasks._yaml_loader import load_yaml
except ImportError as error:
    sys.exit(f"golden: {error}: run `make test-parity` once, which installs what this needs")
if len(sys.argv) != 2:
    sys.exit("golden: name the folder of the fixtures: shared/harness/fixtures, as `make harness-golden` does")

FOLDER = pathlib.Path(sys.argv[1]).resolve()


def task(config):
    made = ConfigurableTask(config=config)
    if made.config.num_fewshot is None:
        made.set_config("num_fewshot", 0)
    made.set_fewshot_seed(1234)
    return made


def requests(path):
    config = load_yaml(path)
    for key in ("tag", "group", "task_list"):
        config.pop(key, None)
    made = task(config)
    made.build_all_requests(limit=None, rank=0, world_size=1)
    by_row = {}
    for instance in made.instances:
        texts = [text for text in instance.args if isinstance(text, str)]
        by_row.setdefault(instance.doc_id, []).append((instance.idx, texts))
    return [[texts for _, texts in sorted(by_row[row])] for row in sorted(by_row)]


ANSWERS = [
    "The answer is 42.",
    "#### -1,234.50 and #### 7",
    "  Paris  ",
    "(B) because",
    "I say: C",
    "Guilty of Romance is it",
    "ÉCOLE $5",
    "",
    "a\nthe answer is Yes.\n",
    "abc\u0000",
]
DOC = {"choices": ["Guilty", "Guilty of Romance", "None of: these!"]}


def step(function, **arguments):
    return {"function": function, **arguments}


FIRST = step("take_first")
CHAINS = [
    [FIRST],
    [step("regex"), FIRST],
    [step("regex", regex_pattern=r"(-?[$0-9.,]{2,})|(-?[0-9]+)", group_select=-1), FIRST],
    [step("regex", regex_pattern=r"(?<=answer is )(.*)(?=.)", fallback="none"), FIRST],
    [step("remove_whitespace"), step("lowercase"), FIRST],
    [step("uppercase"), FIRST],
    [step("remove_whitespace"), step("map", mapping_dict={"Paris": "1"}, default_value="0"), FIRST],
    [step("multi_choice_regex", regex_pattern=r"(\([A-Z]\))", ignore_case=True, ignore_punctuation=True), FIRST],
    [step("multi_choice_regex", regex_pattern=r"x(y)z", group_select=-1, regexes_to_ignore=["of"]), FIRST],
    [FIRST, step("remove_whitespace")],
    [step("majority_vote"), FIRST],
    [step("take_first_k", k=1)],
]
METRICS = [
    {},
    {"ignore_case": True},
    {"ignore_punctuation": True, "ignore_case": True},
    {"ignore_numbers": True},
    {"regexes_to_ignore": [",", r"\$", "(?s).*#### ", r"\.$"]},
]
TARGETS = ["42", "-1,234.50", "paris", "(B)", "école ", "", "Yes", "abc", 42, ["Paris", "7"]]


def grades():
    """Every chain on every answer, and every metric on what it leaves, against every target."""
    made = []
    for chain in CHAINS:
        for answer in ANSWERS:
            instance = Instance("generate_until", DOC, ("", {}), 0, ("t", 0, 1))
            instance.resps = [answer]
            case = {"filter": chain, "answer": answer}
            steps = [(one["function"], {k: v for k, v in one.items() if k != "function"}) for one in chain]
            try:
                build_filter_ensemble("f", steps).apply([instance])
            except Exception:
                made.append({**case, "fails": True})
                continue
            filtered = instance.filtered_resps["f"]
            made.append({**case, "filtered": filtered, "scores": [score(filtered, m) for m in METRICS]})
    return made


def score(filtered, options):
    return [one(filtered, options, target) for target in TARGETS]


def one(filtered, options, target):
    config = {
        "task": "t",
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(FOLDER / "tasks/rows.jsonl")}},
        "test_split": "test",
        "doc_to_text": "question",
        "doc_to_target": ["x"] if isinstance(target, list) else "reply",
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True, **options}],
    }
    key = json.dumps(config, sort_keys=True)
    if key not in TASKS:
        TASKS[key] = task(config)
    made = TASKS[key]
    made.doc_to_target = lambda doc: target
    try:
        value = float(made.process_results({}, [filtered])["exact_match"])
        # The mean of nothing is no number.
        return None if math.isnan(value) else value
    except Exception:
        return None


TASKS = {}

if __name__ == "__main__":
    os.chdir(FOLDER / "tasks")
    names = sorted(path for path in pathlib.Path(".").glob("*.yaml") if not path.name.startswith("_"))
    expected = {path.stem: requests(path) for path in names}
    (FOLDER / "requests.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    cases = {"row": DOC, "metrics": METRICS, "targets": TARGETS, "cases": grades()}
    (FOLDER / "grades.json").write_text(json.dumps(cases, ensure_ascii=False) + "\n")
