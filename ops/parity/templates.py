"""Renders every template of lm-evaluation-harness's task files over made-up rows, by the harness itself and by Tidemill.

    .tools/parity/bin/python ops/parity/templates.py --program target/debug/examples/harness [--rows 9] [--seed 1] [--show 20]

A rendering is the same when both give the same text, or both refuse. Exits with 1 where both give a text and not the same.
"""

import argparse
import json
import logging
import pathlib
import random
import subprocess
import sys

logging.disable(logging.WARNING)

try:
    import lm_eval
    import yaml
    from jinja2 import TemplateSyntaxError, meta, nodes
    from lm_eval.utils import env
except ImportError as error:
    sys.exit(f"templates: {error}: run `make test-parity` once, which installs what this needs")

TEXTS = [
    "it's <b> \"q\" & more", "  before and after ", "é中文", "A", "0", "1", "a line\nanother\n", "", "B) two", "['x', 'y']",
    "Hello World. It is.", "a\u2028b", "C", "word", "True", "2020-01-01", "x_y", "a/b\\n", "3.5", "D",
]
# What templates call on a value, and no field of it.
METHODS = {"strip", "split", "index", "join", "lower", "upper", "keys", "items", "values", "format", "replace", "index0"}


class Loader(yaml.CSafeLoader):
    """Reads `!function` as nothing: functions are no templates."""


Loader.add_multi_constructor("!", lambda *_: None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True, help="the example `harness` of shared/harness")
    parser.add_argument("--rows", type=int, default=9, help="rows a template")
    parser.add_argument("--seed", type=int, default=1, help="of the rows")
    parser.add_argument("--show", type=int, default=20, help="most differences shown")
    arguments = parser.parse_args()
    templates = sorted(templates_of_package())
    cases = [(template, row) for template in templates for row in rows(template, arguments)]
    theirs, ours = [rendered(*case) for case in cases], rendered_here(arguments.program, cases)
    differences = [each for each in zip(cases, theirs, ours, strict=True) if each[1] != each[2][0]]
    for (template, row), there, (here, why) in differences[: arguments.show]:
        print(f"{template!r} over {json.dumps(row)}\n  harness: {there!r}\n  here:    {here!r} {why or ''}", file=sys.stderr)
    refused = sum(there is None for there in theirs)
    only = [sum(side[place] is None for side in sides(differences)) for place in (0, 1)]
    print(f"{len(templates)} templates, {len(cases)} renderings, {refused} of which the harness refuses")
    other = len(differences) - sum(only)
    print(f"{len(cases) - len(differences)} the same, {other} not; {only[0]} stop in the harness alone, {only[1]} here alone")
    return 1 if other else 0


def sides(differences):
    return [(there, here) for _, there, (here, _) in differences]


def templates_of_package():
    folder = pathlib.Path(lm_eval.__file__).parent / "tasks"
    for file in sorted([*folder.rglob("*.yaml"), *folder.rglob("*_yaml")]):
        try:
            yield from templates_of(yaml.load(file.read_text(), Loader))
        except yaml.YAMLError:
            continue


def templates_of(value):
    """Every text in a configuration that holds Jinja."""
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from templates_of(inner)


def rows(template, arguments):
    """Rows that hold what the template names, drawn by the template and the seed."""
    try:
        tree = env.parse(template)
    except TemplateSyntaxError:
        return [{}]
    names = sorted(meta.find_undeclared_variables(tree) - {"range", "dict", "namespace"})
    fields = sorted(set(fields_of(tree)) - METHODS)
    draw = random.Random(f"{arguments.seed} {template}")
    return [{name: value(draw, fields) for name in names} for _ in range(arguments.rows)]


def fields_of(tree):
    for node in tree.find_all(nodes.Getattr):
        yield node.attr
    for node in tree.find_all(nodes.Getitem):
        if isinstance(node.arg, nodes.Const) and isinstance(node.arg.value, str):
            yield node.arg.value


def value(draw, fields, depth=0):
    """Mostly texts and lists of them, as rows hold; where the template looks into values, also what has these fields."""
    if fields and depth < 2 and draw.random() < 0.5:
        def inner():
            return {field: value(draw, fields, depth + 1) for field in fields}

        return inner() if draw.random() < 0.7 else [inner(), inner()]
    kind = draw.random()
    if kind < 0.5:
        return draw.choice(TEXTS)
    if kind < 0.8:
        return [draw.choice(TEXTS) for _ in range(draw.choice([1, 2, 4, 5]))]
    return draw.choice([0, 1, 2, 3, -1, 0.5, 2.0, 1e-7, 1e16, None, True, False, [0, 1, 2, 3], 12345678901234567890])


def rendered(template, row):
    """By the harness's own environment; None where it stops."""
    try:
        return env.from_string(template).render(**row)
    except Exception:  # whatever it is, the harness stops there
        return None


def rendered_here(program, cases):
    lines = "".join(json.dumps(case) + "\n" for case in cases)
    done = subprocess.run([program, "render"], input=lines, capture_output=True, text=True, check=True)
    told = [json.loads(line) for line in done.stdout.split("\n") if line]
    return [(one.get("text"), one.get("error")) for one in told]


if __name__ == "__main__":
    sys.exit(main())
