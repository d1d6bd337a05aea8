#!/usr/bin/env python3
"""What Tidemill itself costs: one evaluation of many items against an engine that answers at once.

Prints CPU per item over all processes of the command (broker included, engine apart), items per second of the whole
command, the time from the command to its first request, and the peak memory of each process. Every run is fresh: the
broker is started by the command. Needs `make build` and the fake engine; `make bench-resume` sees to both.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]

SUITE = """
name = "bench"
version = "1"

[[benchmark]]
name = "sums"
data = "items.jsonl"
id = "id"
prompt = "Q: {{{{ question }}}}\\nA:"
target = "{{{{ answer }}}}"
max_tokens = {cap}
[benchmark.grader]
kind = "exact"
"""


def built(programs, make):
    """The programs' folder, which must hold what is measured and the fake engine."""
    for name in ("tidemill", "tidemill-fake-engine"):
        if not (programs / name).exists():
            raise SystemExit(f"{programs / name} is not built: run `make {make}`, which builds what this needs")
    return programs


def write_suite(folder, items, cap=16):
    (folder / "suite.toml").write_text(SUITE.format(cap=cap))
    with open(folder / "items.jsonl", "w") as data:
        for index in range(items):
            question = f"What is {index} plus {index % 97}, said as briefly as you can?"
            data.write(json.dumps({"id": index, "question": question, "answer": str(index % 5)}) + "\n")


def start_engine(program):
    engine = subprocess.Popen([program, "--text", " 4"], stdout=subprocess.PIPE, text=True)
    return engine, engine.stdout.readline().strip()


def stats(url):
    with urllib.request.urlopen(f"{url}/stats") as answer:
        return json.load(answer)


class Watch(threading.Thread):
    """Looks at the engine until the first request, and at the command's processes for their peak memory."""

    def __init__(self, url, pid, begun):
        super().__init__(daemon=True)
        self.url, self.pid, self.begun = url, pid, begun
        self.first_request, self.peaks, self.stop = None, {}, False

    def run(self):
        while not self.stop:
            if self.first_request is None:
                if stats(self.url)["requests"] > 0:
                    self.first_request = time.monotonic() - self.begun
                time.sleep(0.005)
            else:
                time.sleep(0.05)
            for pid in [self.pid, *children(self.pid)]:
                self.look(pid)

    def look(self, pid):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        if "VmHWM" in fields:
            self.peaks[fields["Name"]] = int(fields["VmHWM"].split()[0]) / 1024


def children(pid):
    try:
        tasks = pathlib.Path(f"/proc/{pid}/task").iterdir()
        return {int(child) for task in tasks for child in (task / "children").read_text().split()}
    except OSError:
        return set()


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def evaluate(program, folder, url, items):
    command = [program, "evaluate", "--suite", folder / "suite.toml", "--endpoint", url, "--model", "fake"]
    command += ["--data-dir", folder / "data", "--json"]
    before, begun = cpu_seconds(), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = Watch(url, process.pid, begun)
    watch.start()
    output, log = process.communicate()
    seconds = time.monotonic() - begun
    watch.stop = True
    watch.join()
    if process.returncode != 0:
        raise SystemExit(f"evaluate ended with {process.returncode}: {log}")
    result = json.loads(output)
    [benchmark] = result["benchmarks"]
    assert benchmark["samples"] == items and benchmark["outcomes"]["missing"] == 0, benchmark
    return result, seconds, cpu_seconds() - before, watch


def span(result):
    """Seconds from the first request to the last completion."""
    times = [result["timeline"][stage].rstrip("Z")[:26] for stage in ("first_request", "last_completion")]
    first, last = (time.mktime(time.strptime(t[:19], "%Y-%m-%dT%H:%M:%S")) + float("0." + (t[20:] or "0")) for t in times)
    return last - first


# What we aim at, on two cores with 20,000 items.
FIRST_REQUEST_SECONDS = 0.5
CPU_MILLISECONDS_PER_ITEM = 0.25


def row(name, value, aim=None, of=None):
    ratio = f"{of / aim:6.2f} of the aim" if aim else ""
    print(f"{name:52} {value:32} {ratio}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--items", type=int, default=20_000)
    arguments.add_argument("--target", default=os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), type=pathlib.Path)
    arguments = arguments.parse_args()
    programs = built(arguments.target / "release", "bench-resume")
    engine, url = start_engine(programs / "tidemill-fake-engine")
    try:
        with tempfile.TemporaryDirectory(prefix="tidemill-bench-") as folder:
            folder = pathlib.Path(folder)
            write_suite(folder, arguments.items)
            result, seconds, cpu, watch = evaluate(programs / "tidemill", folder, url, arguments.items)
            again, again_seconds, again_cpu, _ = evaluate(programs / "tidemill", folder, url, arguments.items)
            assert again == result, "the second run says something else"
    finally:
        engine.kill()
        engine.wait()
    cpu_each = 1000 * cpu / arguments.items
    row("items", str(arguments.items))
    row("requests the engine saw", str(result["benchmarks"][0]["requests"]))
    row("command to first request (broker started)", f"{watch.first_request:.3f} s", FIRST_REQUEST_SECONDS, watch.first_request)
    row("whole command", f"{seconds:.2f} s = {arguments.items / seconds:.0f} items/s")
    row("first request to last completion", f"{span(result):.2f} s = {arguments.items / span(result):.0f} items/s")
    row("whole command over first request to last completion", f"{seconds / span(result):.2f}")
    row("CPU per item, command and broker", f"{cpu_each:.3f} ms", CPU_MILLISECONDS_PER_ITEM, cpu_each)
    row("the same command again, from what is stored", f"{again_seconds:.2f} s, {1000 * again_cpu / arguments.items:.4f} ms CPU an item")
    for name, peak in sorted(watch.peaks.items()):
        row(f"peak memory of {name}", f"{peak:.0f} MiB")


if __name__ == "__main__":
    main()
