#!/usr/bin/env python3
"""Runs the same tasks by lm-evaluation-harness and by Tidemill against one server, and compares them.

One embedded engine serves the demo's checkpoint. Every task is asked by `lm_eval` (local-completions, --log_samples) and by
`tidemill evaluate`; then prompts are compared byte by byte, the values of each row, and the aggregates with their standard
errors. Prints a table; exits 1 where something differs that is not explained in EXPLAINED. `make test-parity` builds what this
needs.
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
VENV = ROOT / ".tools" / "parity"
CHECKPOINT = ROOT / "examples" / "demo" / "checkpoints" / "step-1200"
ROWS = 16
CONTEXT = 512

# Why an aggregate's standard error may differ: the harness draws its bootstrap by other random numbers, or gives none.
TOLERANCE = 1e-6
ERROR_TOLERANCE = 0.35

RANDOM = random.Random(11)
WORDS = "one two three four apples pears sums more less left".split()


def words(count):
    return " ".join(RANDOM.choice(WORDS) for _ in range(count))


def letters(index):
    return {
        "question": f"{index} + {index % 5} = ?",
        "choices": {"text": [str(index + index % 5 + off) for off in (1, 0, 2, 11)], "label": list("ABCD")},
        "answerKey": "BBBB"[index % 4],
    }


def knowledge(index):
    return {
        "question": f" {words(3)}? ",
        "choices": [words(1) for _ in range(4)],
        "answer": index % 4,
        "subject": "anatomy",
    }


# Tasks of the package over rows made here: the file, its splits' rows, and the examples asked for.
REAL = {
    "arc_easy": ("arc/arc_easy.yaml", letters, 2),
    "boolq": (
        "super_glue/boolq/default.yaml",
        lambda index: {"passage": words(5), "question": words(3), "label": index % 2},
        1,
    ),
    "sciq": (
        "sciq/sciq.yaml",
        lambda index: {
            "support": "  " + words(4),
            "question": words(3) + "?",
            "distractor1": words(1),
            "distractor2": words(2),
            "distractor3": "x",
            "correct_answer": words(1),
        },
        0,
    ),
    "blimp_adjunct_island": (
        "blimp/adjunct_island.yaml",
        lambda index: {"sentence_good": words(4), "sentence_bad": words(4)},
        0,
    ),
    "mmlu_anatomy": ("mmlu/default/mmlu_anatomy.yaml", knowledge, 1),
    "global_mmlu_full_de_anatomy": (
        "global_mmlu/full/de/global_mmlu_full_de_anatomy.yaml",
        lambda index: {
            "subject": ["anatomy", "law"][index % 4 == 3],
            "question": words(3),
            **{f"option_{letter}": words(1) for letter in "abcd"},
            "answer": "ABCD"[index % 4],
        },
        0,
    ),
    "cola": ("glue/cola/default.yaml", lambda index: {"sentence": words(4), "label": index % 2}, 1),
    "gsm8k": (
        "gsm8k/gsm8k.yaml",
        lambda index: {"question": f"{index} + 3", "answer": f"{words(2)}\n#### {index + 3}"},
        2,
    ),
    "nq_open": (
        "nq_open/nq_open.yaml",
        lambda index: {"question": f"{index} + 4", "answer": [str(index + 4), words(1)]},
        1,
    ),
    "triviaqa": (
        "triviaqa/default.yaml",
        lambda index: {"question": f"{index} - 1", "answer": {"aliases": [str(index - 1), "none"], "value": "x"}},
        2,
    ),
    "lambada_openai": ("lambada/lambada_openai.yaml", lambda index: {"text": words(6)}, 0),
    "pile_arxiv": ("pile/pile_arxiv.yaml", lambda index: {"text": words(12 + index)}, 0),
}

# Tasks of our own, for what those do not ask for.
OWN = {
    "own_regex": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}}"
        generation_kwargs: {until: ["\\n"], max_gen_toks: 12, do_sample: false}
        num_fewshot: 2
        fewshot_split: train
        filter_list:
          - {name: strict, filter: [{function: regex, regex_pattern: "^\\\\s*(-?\\\\d+)$"}, {function: take_first}]}
          - {name: loose, filter: [{function: regex, regex_pattern: "(-?\\\\d+)", group_select: -1}, {function: take_first}]}
        metric_list:
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
    """,
    "own_texts": """
        output_type: generate_until
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: "{{answer}} and more"
        generation_kwargs: {until: [], max_gen_toks: 16}
        metric_list:
          - {metric: bleu, aggregation: bleu, higher_is_better: true}
          - {metric: chrf, aggregation: chrf, higher_is_better: true}
    """,
    "own_choices": """
        output_type: multiple_choice
        description: "Sums.\\n\\n"
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_choice: "{{[answer, wrong, wrong ~ '0']}}"
        doc_to_target: 0
        num_fewshot: 3
        metric_list:
          - {metric: acc, aggregation: mean, higher_is_better: true}
          - {metric: acc_norm, aggregation: mean, higher_is_better: true}
          - {metric: acc_bytes, aggregation: mean, higher_is_better: true}
          - {metric: exact_match, aggregation: mean, higher_is_better: true}
          - {metric: brier_score, aggregation: brier_score, higher_is_better: false}
          - {metric: f1, aggregation: f1, higher_is_better: true}
    """,
    "own_target": """
        output_type: loglikelihood
        doc_to_text: "Q: {{question}}\\nA:"
        doc_to_target: " {{answer}}"
        num_fewshot: 1
        metric_list:
          - {metric: acc, aggregation: mean, higher_is_better: true}
          - {metric: perplexity, aggregation: perplexity, higher_is_better: false}
    """,
}


def sums(index):
    left, right = 11 + 3 * index, index % 9 + 1
    return {"question": f"{left} + {right}", "answer": str(left + right), "wrong": str(left + right + 10 * (index % 3))}


def splits_of(config):
    named = [config.get(key) for key in ("training_split", "validation_split", "test_split", "fewshot_split")]
    return sorted({split for split in named if split})


def prepare(folder):
    """Writes rows, the harness's copies of the tasks, and the suite."""
    package = next((VENV / "lib").glob("python*/site-packages/lm_eval"))
    (folder / "harness").mkdir()
    benchmarks, mapping = [], []
    for name, (file, make, shots) in REAL.items():
        path = package / "tasks" / file
        config = resolved(path)
        files = {split: rows(folder, f"{name}-{split}", make) for split in splits_of(config)}
        copy = {"include": str(path), "dataset_path": "json", "dataset_name": None, "task": name, "tag": None}
        copy |= {"dataset_kwargs": {"data_files": files}, "num_fewshot": shots}
        (folder / "harness" / f"{name}.yaml").write_text(yaml.safe_dump(copy))
        benchmarks.append({"task": str(path), "few_shot": shots})
        known = {"path": config["dataset_path"], "splits": files}
        mapping.append(known | ({"name": config["dataset_name"]} if config.get("dataset_name") else {}))
    for name, body in OWN.items():
        files = {split: rows(folder, f"{name}-{split}", sums) for split in ("train", "test")}
        lines = [line[8:] for line in body.strip("\n").splitlines()]
        head = [f"task: {name}", "dataset_path: json", f"dataset_kwargs: {json.dumps({'data_files': files})}"]
        head += ["training_split: train", "test_split: test"]
        (folder / "harness" / f"{name}.yaml").write_text("\n".join(head + lines) + "\n")
        benchmarks.append({"task": str(folder / "harness" / f"{name}.yaml")})
    datasets = "".join(
        f"[[dataset]]\npath = {json.dumps(known['path'])}\n"
        + (f"name = {json.dumps(known['name'])}\n" if "name" in known else "")
        + "".join(f"splits.{split} = {json.dumps(file)}\n" for split, file in known["splits"].items())
        for known in mapping
    )
    (folder / "datasets.toml").write_text(datasets)
    suite = 'name = "parity"\nversion = "1"\ntier = "canary"\n'
    for benchmark in benchmarks:
        suite += f"\n[[benchmark]]\ntask = {json.dumps(benchmark['task'])}\ndatasets = \"datasets.toml\"\n"
        suite += 'start_text = "<|bos|>"\n'
        if "few_shot" in benchmark:
            suite += f"few_shot = {benchmark['few_shot']}\n"
    (folder / "suite.toml").write_text(suite)
    return list(REAL) + list(OWN)


def resolved(path):
    """A task file with what it includes; functions as their names."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.add_constructor("!function", lambda loader, node: node.value)
    config = yaml.load(path.read_text(), Loader)  # noqa: S506
    includes = config.pop("include", [])
    merged = {}
    for include in includes if isinstance(includes, list) else [includes]:
        merged |= resolved(path.parent / include)
    return merged | config


def rows(folder, name, make):
    path = folder / f"{name}.jsonl"
    path.write_text("".join(json.dumps(make(index)) + "\n" for index in range(ROWS)))
    return str(path)


def serve(program, log):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "engine", "--checkpoint", CHECKPOINT, "--port", str(port), "--served-model-name", "demo"]
    engine = subprocess.Popen(command, stderr=log, stdout=log)
    url = f"http://127.0.0.1:{port}"
    for _ in range(300):
        try:
            urllib.request.urlopen(f"{url}/v1/models", timeout=1).read()
            return engine, url
        except OSError:
            time.sleep(0.1)
    engine.kill()
    raise SystemExit("the engine did not start; see engine.log")


def harness(folder, url, tasks):
    """What `lm_eval run --log_samples` gives, with fewer draws for the standard errors: its 100,000 of BLEU take half an hour."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "DISABLE_MULTIPROC": "1"}
    with open(folder / "lm_eval.log", "w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        from lm_eval import simple_evaluate
        from lm_eval.tasks import TaskManager

        result = simple_evaluate(
            model="local-completions",
            model_args={
                "model": "demo",
                "base_url": f"{url}/v1/completions",
                "tokenizer": str(CHECKPOINT),
                "tokenizer_backend": "huggingface",
                "num_concurrent": 1,
                "max_length": CONTEXT,
            },
            tasks=tasks,
            task_manager=TaskManager(include_path=str(folder / "harness"), include_defaults=False),
            bootstrap_iters=1000,
            log_samples=True,
        )
    # Arrays as lists, functions as their names.
    plain = lambda value: value.tolist() if hasattr(value, "tolist") else str(value)  # noqa: E731
    samples = json.loads(json.dumps(result["samples"], default=plain))
    return result["results"], samples


def tidemill(program, folder, url):
    data = ["--data-dir", folder / "data"]
    command = [program, "evaluate", "--suite", folder / "suite.toml", "--endpoint", url, "--model", "demo"]
    command += ["--run", "parity", "--step", "1", "--json", *data]
    result = json.loads(run(command, folder / "tidemill.log", cwd=folder))
    items = run([program, "items", result["evaluation"], "--json", *data], folder / "items.log", cwd=folder)
    by_benchmark = {}
    for line in items.splitlines():
        item = json.loads(line)
        by_benchmark.setdefault(item["benchmark"], {})[item["item"]] = item
    return {one["name"]: one for one in result["benchmarks"]}, by_benchmark


def run(command, log, **more):
    with open(log, "w") as errors:
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=errors, text=True, **more)
    # 1 stands for an evaluation with too many failures, which the comparison shows.
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command[0]} ended {done.returncode}:\n{pathlib.Path(log).read_text()[-2000:]}")
    return done.stdout


def asked_by_harness(sample):
    """The texts of a row's requests, context and continuation joined."""
    arguments = sample["arguments"]
    requests = [list(one.values()) for one in arguments.values()] if isinstance(arguments, dict) else arguments
    return ["".join(text for text in request if isinstance(text, str)) for request in requests]


def asked_by_tidemill(item):
    prompt = item["prompt"].removeprefix("<|bos|>")
    return [prompt + choice for choice in item["choices"]] or [prompt]


def value_of(measured):
    return measured["value"] if isinstance(measured, dict) and "value" in measured else measured


def same(own, theirs):
    if isinstance(theirs, list) and len(theirs) == 2 and isinstance(theirs[0], (int, float)):
        theirs = theirs[0]
    if not isinstance(own, (int, float)) or not isinstance(theirs, (int, float)):
        return None
    return abs(own - theirs) <= TOLERANCE * max(1, abs(theirs))


def compare(task, results, samples, result, items):
    """The differences of one task, and its line."""
    faults, compared = [], 0
    metrics = {}
    for sample in samples:
        item = items.get(str(sample["doc_id"]))
        if item is None:
            faults.append(f"row {sample['doc_id']} is missing")
            continue
        own, theirs = asked_by_tidemill(item), asked_by_harness(sample)
        if own != theirs:
            faults.append(f"row {sample['doc_id']}: asked {own!r}, the harness {theirs!r}")
        measures = item["measures"] or {}
        for metric in sample["metrics"]:
            name = metric if sample["filter"] == "none" else f"{metric},{sample['filter']}"
            equal = same(value_of(measures.get(name)), sample[metric])
            if equal is False or name not in measures:
                faults.append(f"row {sample['doc_id']}: {name} is {measures.get(name)}, the harness {sample[metric]}")
            compared += equal is not None
    lines = []
    for metric in result["metrics"]:
        name, _, filters = metric["name"].partition(",")
        key = f"{name},{filters or 'none'}"
        theirs, error = results.get(key), results.get(f"{name}_stderr,{filters or 'none'}")
        if not same(metric["value"], theirs):
            faults.append(f"{metric['name']} is {metric['value']}, the harness {theirs}")
        own_error = metric["standard_error"]
        if isinstance(error, (int, float)) and isinstance(own_error, (int, float)):
            if abs(own_error - error) > ERROR_TOLERANCE * max(error, 1e-9) and abs(own_error - error) > 1e-6:
                faults.append(f"standard error of {metric['name']} is {own_error}, the harness {error}")
        metrics[metric["name"]] = (metric["value"], own_error, theirs, error)
        lines.append(metric["name"])
    return faults, compared, metrics


def shown(number):
    return f"{number:.6g}" if isinstance(number, (int, float)) else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--keep", help="leave logs and results in this folder")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.keep or temporary).resolve()
        folder.mkdir(exist_ok=True)
        tasks = prepare(folder)
        with open(folder / "engine.log", "w") as log:
            engine, url = serve(program, log)
            try:
                results, samples = harness(folder, url, tasks)
                own, items = tidemill(program, folder, url)
            finally:
                engine.terminate()
                engine.wait()
    print("| task | rows | prompts | row values | metric | Tidemill | its error | lm-eval | its error |")
    print("| --- | ---: | --- | --- | --- | ---: | ---: | ---: | ---: |")
    failed = False
    for task in tasks:
        faults, compared, metrics = compare(task, results[task], samples[task], own[task], items.get(task, {}))
        prompts = "differ" if any(": asked " in fault for fault in faults) else "same"
        values = "differ" if any("row " in fault and ": asked " not in fault for fault in faults) else f"{compared} same"
        for metric, (value, error, theirs, their_error) in metrics.items():
            cells = [task, str(len(samples[task])), prompts, values, metric]
            cells += [shown(value), shown(error), shown(theirs), shown(their_error)]
            print("| " + " | ".join(cells) + " |")
        for fault in faults[:5]:
            print(f"{task}: {fault}", file=sys.stderr)
        failed |= bool(faults)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
