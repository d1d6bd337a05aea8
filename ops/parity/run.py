#!/usr/bin/env python3
"""Runs the same tasks by lm-evaluation-harness and by Tidemill against one server, and compares them.

One embedded engine serves the demo's checkpoint. Every task (ops/parity/tasks.py) is asked by `lm_eval` (local-completions,
with its samples logged) and by `tidemill evaluate`. Compared are prompts byte by byte, the values of each row, and the
aggregates with their standard errors. A table goes to stdout, progress and what differs to stderr; 1 is the exit code where
something differs that EXPLAINED does not name, and where EXPLAINED names what does not differ. `make test-parity` builds what
this needs.
"""

import argparse
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter

try:
    from prepare import START, prepare
except ImportError as error:
    raise SystemExit(f"parity: {error}: run `make test-parity`, which installs what this needs") from None
from tasks import GROUPS, HEARD, ROWS, STORED

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECKPOINT = ROOT / "examples" / "demo" / "checkpoints" / "step-1200"
CONTEXT = 512

# How far figures may be apart, as a share of the harness's.
TOLERANCE = 1e-6
# Draws of the harness's bootstrap: its own 100,000 take half an hour for BLEU.
DRAWS = 1000
# Metrics whose standard error the harness draws at random or does not give, and how it makes one number of rows. Tidemill leaves
# out one row at a time (jackknife), and so does this, with the harness's own rows and function.
LEFT_OUT = {
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
    "f1": "f1",
    "mcc": "matthews_corrcoef",
    "brier_score": "brier_score",
    "bleu": "bleu",
    "chrf": "chrf",
}

# What differs and why, by task (or *), metric without its filters (or *), and what it is: prompt, row, value or error.
EXPLAINED = {
    ("*", metric, "error"): "the harness draws this error at random, 1,000 times; Tidemill's is the jackknife's, checked apart"
    for metric in ("perplexity", "f1", "mcc", "bleu", "chrf")
} | {
    ("own_group", "acc", "error"): "the harness takes rows of all tasks to have one variance; Tidemill adds up that of each task",
}


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


def harness(folder, url, tasks, stored):
    """Results and logged samples of `lm_eval`, by task. `stored` holds answers by task and row, where it is to ask no server."""
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
    os.environ |= {"TOKENIZERS_PARALLELISM": "false", "DISABLE_MULTIPROC": "1"}
    with open(folder / "lm_eval.log", "w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        from lm_eval import simple_evaluate
        from lm_eval.api.model import LM
        from lm_eval.tasks import TaskManager

        class Stored(LM):
            """Answers with what was stored: of a row's answers one after the other."""

            def generate_until(self, requests, disable_tqdm=False):
                given = Counter()
                answers = []
                for request in requests:
                    of_row = (request.task_name, request.doc_id)
                    answers.append(stored[request.task_name][request.doc_id][given[of_row]])
                    given[of_row] += 1
                return answers

            def loglikelihood(self, requests, disable_tqdm=False):
                raise NotImplementedError

            loglikelihood_rolling = loglikelihood

        server = {
            "model": "demo",
            "base_url": f"{url}/v1/completions",
            "tokenizer": str(CHECKPOINT),
            "tokenizer_backend": "huggingface",
            "num_concurrent": 1,
            "max_length": CONTEXT,
        }
        results, samples = {}, {}
        for model, arguments, own in [
            ("local-completions", server, [task for task in tasks if task not in stored]),
            (Stored(), None, list(stored)),
        ]:
            result = simple_evaluate(
                model=model,
                model_args=arguments,
                tasks=own,
                task_manager=TaskManager(include_path=str(folder / "harness"), include_defaults=False),
                bootstrap_iters=DRAWS,
                log_samples=True,
            )
            results |= result["results"] | result.get("groups", {})
            samples |= result["samples"]
    # Arrays as lists, functions as their names.
    plain = lambda value: value.tolist() if hasattr(value, "tolist") else str(value)  # noqa: E731
    return results, json.loads(json.dumps(samples, default=plain))


def tidemill(program, folder, url):
    """Results by task, results of groups, and the samples of each row by task and row."""
    data = ["--data-dir", folder / "data"]
    command = [program, "evaluate", "--suite", folder / "suite.toml", "--endpoint", url, "--model", "demo"]
    command += ["--run", "parity", "--step", "1", "--json", *data]
    result = json.loads(run(command, folder / "tidemill.log", cwd=folder))
    items = run([program, "items", result["evaluation"], "--json", *data], folder / "items.log", cwd=folder)
    rows = {}
    for line in items.splitlines():
        item = json.loads(line)
        rows.setdefault(item["benchmark"], {}).setdefault(int(item["item"]), []).append(item)
    for task in rows.values():
        for samples in task.values():
            samples.sort(key=lambda item: item["sample"])
    return {one["name"]: one for one in result["benchmarks"]}, result["groups"], rows


def run(command, log, **more):
    # The broker is where make puts it.
    path = os.pathsep.join([str(ROOT / ".tools" / "bin"), os.environ["PATH"]])
    more |= {"stdout": subprocess.PIPE, "text": True, "env": os.environ | {"PATH": path}}
    with open(log, "w") as errors:
        done = subprocess.run([str(part) for part in command], stderr=errors, **more)
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
    prompt = item["prompt"].removeprefix(START)
    return [prompt + choice for choice in item["choices"]] or [prompt]


def value_of_row(samples, name):
    """What a row adds to a metric: of several answers, what the first adds or the one that most vote for."""
    measures = [(sample["measures"] or {}).get(name) for sample in samples]
    if not isinstance(measures[0], dict) or "vote" not in measures[0]:
        return measures[0]["value"] if isinstance(measures[0], dict) and "value" in measures[0] else measures[0]
    heard = measures[: HEARD[name.partition(",")[2]]]
    winner = Counter(one["vote"] for one in heard).most_common(1)[0][0]
    return next(one["value"] for one in heard if one["vote"] == winner)


def value_of_sample(metric, value):
    """The same in the harness's log, which holds some values as what they are made of."""
    if metric == "brier_score":
        right, probabilities = value
        return sum((one - (place == right)) ** 2 for place, one in enumerate(probabilities))
    # A log-likelihood and its weight.
    if "perplexity" in metric or metric == "bits_per_byte":
        return value[0] if isinstance(value, list) else value
    return value


def left_out(metric, values):
    """The standard error by leaving out one row at a time, of the harness's values by the harness's function."""
    from lm_eval.api.registry import get_aggregation

    figure = get_aggregation(LEFT_OUT[metric])
    figures = [figure(values[:place] + values[place + 1 :]) for place in range(len(values))]
    mean = sum(figures) / len(figures)
    return (sum((one - mean) ** 2 for one in figures) * (len(figures) - 1) / len(figures)) ** 0.5


def same(own, theirs):
    """Whether two numbers are the same; None where one of them is no number."""
    if not isinstance(own, (int, float)) or not isinstance(theirs, (int, float)):
        return None
    return abs(own - theirs) <= TOLERANCE * max(1, abs(theirs))


def answered_by_harness(sample):
    """The texts of a row's answers, or the log-likelihoods of its continuations."""
    responses = sample["resps"]
    if isinstance(responses[0][0], str):
        return responses[0]
    return [one[0][0] if isinstance(one[0], list) else one[0] for one in responses]


def answered_by_tidemill(samples):
    return samples[0]["choice_log_probabilities"] or [sample["completion"] for sample in samples]


def alike(own, theirs):
    return len(own) == len(theirs) and all(
        same(*pair) if isinstance(pair[0], float) else pair[0] == pair[1] for pair in zip(own, theirs)
    )


class Comparison:
    """What was compared of one task or group, and what differs."""

    def __init__(self, task):
        self.task, self.rows = task, 0
        # What differs: the metric, which of prompt, answer, row, value and error it is, and a sentence.
        self.faults = []
        self.prompts, self.answers, self.values, self.metrics = 0, 0, 0, []

    def of_task(self, results, samples, result, items):
        self.rows = len({sample["doc_id"] for sample in samples})
        for sample in samples:
            self.row(sample, items.get(sample["doc_id"]))
        if len(items) != self.rows:
            self.faults.append(("", "row", f"there are {len(items)} rows, of the harness {self.rows}"))
        for metric in result["metrics"]:
            self.metric(metric, results, samples)
        # `alias`, `sample_len` and the like are no figures.
        theirs = {key for key in results if "," in key and "_stderr" not in key}
        own = {"{},{}".format(*(metric["name"].split(",") + ["none"])[:2]) for metric in result["metrics"]}
        for key in sorted(theirs ^ own):
            self.faults.append((key.partition(",")[0], "value", f"{key} is given by one side alone"))
        return self

    def of_group(self, results, groups):
        self.rows = max(group["items"] for group in groups)
        for group in groups:
            figure = {"name": group["metric"], "value": group["value"], "standard_error": group["standard_error"]}
            self.metric(figure, results, None)
        return self

    def row(self, sample, own):
        number = sample["doc_id"]
        if own is None:
            self.faults.append(("", "row", f"row {number} is missing"))
            return
        asked, theirs = asked_by_tidemill(own[0]), asked_by_harness(sample)
        if asked == theirs:
            self.prompts += 1
        else:
            self.faults.append(("", "prompt", f"row {number}: asked {asked!r}, the harness {theirs!r}"))
        answered, theirs = answered_by_tidemill(own), answered_by_harness(sample)
        if alike(answered, theirs):
            self.answers += 1
        else:
            self.faults.append(("", "answer", f"row {number}: answered {answered!r}, the harness got {theirs!r}"))
        for metric in sample["metrics"]:
            name = metric if sample["filter"] == "none" else f"{metric},{sample['filter']}"
            value = value_of_row(own, name)
            equal = same(value, value_of_sample(metric, sample[metric]))
            self.values += equal is True
            # Texts and labels have no value of one row.
            if equal is False or value is None:
                self.faults.append((metric, "row", f"row {number}: {name} is {value}, the harness {sample[metric]}"))

    def metric(self, metric, results, samples):
        name, _, filters = metric["name"].partition(",")
        theirs = results.get(f"{name},{filters or 'none'}")
        error = results.get(f"{name}_stderr,{filters or 'none'}")
        own, own_error = metric["value"], metric["standard_error"]
        if not same(own, theirs):
            self.faults.append((name, "value", f"{metric['name']} is {own}, the harness {theirs}"))
        if not isinstance(error, (int, float)):
            error = None
        elif not same(own_error, error):
            self.faults.append((name, "error", f"the error of {metric['name']} is {own_error}, the harness {error}"))
        kept = None
        if samples and name in LEFT_OUT:
            kept = left_out(name, [sample[name] for sample in samples if sample["filter"] == (filters or "none")])
            if not same(own_error, kept):
                self.faults.append((name, "left out", f"the error of {metric['name']} is {own_error}, left out {kept}"))
        self.metrics.append((metric["name"], own, own_error, theirs, error, kept))

    def verdicts(self):
        """Prompts, rows, and a line for each metric, as the table shows them."""
        differ = lambda what, metric="": any(  # noqa: E731
            fault[1] == what and fault[0] in ("", metric) for fault in self.faults
        )
        of_rows = lambda *arguments: "differ" if differ(*arguments) else "same" if self.prompts else "-"  # noqa: E731
        for name, own, own_error, theirs, error, kept in self.metrics:
            metric = name.partition(",")[0]
            yield {
                "task": self.task,
                "rows": self.rows,
                "prompts": of_rows("prompt"),
                "answers": of_rows("answer"),
                "row values": of_rows("row", metric),
                "metric": name,
                "Tidemill": own,
                "its error": own_error,
                "lm-eval": theirs,
                "error there": error,
                "one left out": kept,
                "values": "differ" if differ("value", metric) else "same",
                "errors": self.errors(metric, error, kept, differ),
            }

    def errors(self, metric, error, kept, differ):
        if kept is not None:
            return "differ" if differ("left out", metric) else "same, one left out"
        if not differ("error", metric):
            return "-" if error is None else "same"
        return "explained" if why(self.task, metric, "error") else "differ"


def why(task, metric, what):
    """The key of EXPLAINED that names a difference."""
    keys = [(task, metric, what), ("*", metric, what), (task, "*", what), ("*", "*", what)]
    return next((key for key in keys if key in EXPLAINED), None)


def shown(cell):
    return f"{cell:.6g}" if isinstance(cell, float) else "-" if cell is None else str(cell)


def table(lines):
    columns = list(lines[0])
    print("| " + " | ".join(columns) + " |")
    is_number = lambda name: any(isinstance(line[name], (int, float)) for line in lines)  # noqa: E731
    print("| " + " | ".join("---:" if is_number(name) else "---" for name in columns) + " |")
    for line in lines:
        print("| " + " | ".join(shown(line[name]) for name in columns) + " |")


def judged(comparisons):
    """How many differences each key of EXPLAINED names, and the sentences of those that none names."""
    named, unnamed = Counter(), []
    for comparison in comparisons:
        for metric, what, sentence in comparison.faults:
            key = why(comparison.task, metric, what)
            named[key] += key is not None
            if key is None:
                unnamed.append(f"{comparison.task}: {sentence}")
    unnamed += [f"EXPLAINED names {key}, which is the same" for key in EXPLAINED if not named[key]]
    return {key: count for key, count in named.items() if key}, unnamed


def both(program, folder):
    tasks, asked = prepare(folder)
    with open(folder / "engine.log", "w") as log:
        engine, url = serve(program, log)
        try:
            print(f"parity: {len(tasks)} tasks of {ROWS} rows by Tidemill", file=sys.stderr)
            own, groups, rows = tidemill(program, folder, url)
            stored = {
                task: {row: [sample["completion"] for sample in samples] for row, samples in rows[task].items()}
                for task in STORED
            }
            print("parity: the same by lm-evaluation-harness", file=sys.stderr)
            results, samples = harness(folder, url, asked, stored)
        finally:
            engine.terminate()
            engine.wait()
    comparisons = [
        Comparison(task).of_task(results[task], samples[task], own[task], rows.get(task, {})) for task in tasks
    ]
    for name in GROUPS:
        figures = [group for group in groups if group["name"].split()[0] == name]
        comparisons.append(Comparison(name).of_group(results[name], figures))
    return comparisons


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True)
    parser.add_argument("--keep", help="leave logs and results in this folder, which must not exist")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    arguments = parser.parse_args()
    program = str(pathlib.Path(arguments.program).resolve())
    if not os.path.exists(program):
        sys.exit(f"parity: {program} is not built: run `make test-parity`, which builds what this needs")
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(arguments.keep or pathlib.Path(temporary) / "parity").resolve()
        folder.mkdir(parents=True)
        comparisons = both(program, folder)
    lines = [line for comparison in comparisons for line in comparison.verdicts()]
    named, unnamed = judged(comparisons)
    if arguments.json:
        explained = [{"of": key, "times": count, "why": EXPLAINED[key]} for key, count in named.items()]
        print(json.dumps({"figures": lines, "explained": explained, "unexplained": unnamed}, indent=1))
    else:
        table(lines)
        prompts, answers, values = (
            sum(getattr(one, what) for one in comparisons) for what in ("prompts", "answers", "values")
        )
        print(f"\n{len(comparisons) - len(GROUPS)} tasks. Counted for each chain of filters, these are the same:")
        print(f"the prompts of {prompts} rows, the answers of {answers}, and {values} values.\n")
        for key, count in named.items():
            print(f"- {' '.join(key)} ({count}): {EXPLAINED[key]}")
    for sentence in unnamed[:40]:
        print(f"differs: {sentence}", file=sys.stderr)
    print(f"parity: {len(unnamed)} differences that are not explained", file=sys.stderr)
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main())
