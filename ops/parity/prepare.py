"""Writes what both programs read: rows, the harness's copies of the tasks, and the suite."""

import json
import pathlib

import yaml

from tasks import FEWER, GROUPS, OWN, REAL, ROWS, sums

VENV = pathlib.Path(__file__).resolve().parents[2] / ".tools" / "parity"
# The checkpoint's start token, which stands before a text that follows nothing.
START = "<|bos|>"


def splits_of(config):
    named = [config.get(key) for key in ("training_split", "validation_split", "test_split", "fewshot_split")]
    return sorted({split for split in named if split})


def prepare(folder):
    """Writes rows, the harness's copies of the tasks, and the suite. Gives all tasks, and what the harness is to be asked for."""
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
    in_groups = [task for body in GROUPS.values() for task in yaml.safe_load(body)["task"]]
    for name, body in OWN.items():
        files = {split: rows(folder, f"{name}-{split}", sums) for split in ("train", "test")}
        head = [f"task: {name}", "dataset_path: json", f"dataset_kwargs: {json.dumps({'data_files': files})}"]
        head += ["training_split: train", "test_split: test"]
        file = write(folder, name, head, body)
        if name not in in_groups:
            benchmarks.append({"task": file})
    benchmarks += [{"task": write(folder, name, [f"group: {name}"], body)} for name, body in GROUPS.items()]
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
        suite += f"start_text = {json.dumps(START)}\n"
        if "few_shot" in benchmark:
            suite += f"few_shot = {benchmark['few_shot']}\n"
    (folder / "suite.toml").write_text(suite)
    return list(REAL) + list(OWN), [task for task in [*REAL, *OWN] if task not in in_groups] + list(GROUPS)


def write(folder, name, head, body):
    lines = [line[8:] for line in body.strip("\n").splitlines()]
    path = folder / "harness" / f"{name}.yaml"
    path.write_text("\n".join(head + lines) + "\n")
    return str(path)


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
    count = FEWER.get(name.rpartition("-")[0], ROWS)
    path.write_text("".join(json.dumps(make(index)) + "\n" for index in range(count)))
    return str(path)
