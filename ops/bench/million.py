#!/usr/bin/env python3
"""One evaluation of very many items by separate processes, killed all at once on the way: memory, rate and restart time.

Starts nats-server, loader, generator, grader and aggregator as processes of their own, and an engine that answers at once.
Announces one suite, kills -9 everything but the engine at a share of the items, starts it again, and waits for the result;
then asks for the same evaluation once more. Prints the peak memory of every process (VmHWM over its lives), items per
second, CPU per item, and how long rendering and restarting took. `make bench-million` builds what it needs.
"""

import argparse
import gzip
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request

from evaluate import built

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = ["loader", "generator", "grader", "aggregator"]
TICKS = os.sysconf("SC_CLK_TCK")

SUITE = """
name = "million"
version = "1"

[[benchmark]]
name = "sums"
data = "items.jsonl.gz"
id = "id"
prompt = "{{ context }}\\nQ: {{ question }}\\nA:"
target = "{{ answer }}"
cluster = "document"
max_tokens = 16
[benchmark.grader]
kind = "exact"
"""


def write_suite(folder, items, prompt_bytes):
    """Items whose prompts are about so long; ten neighbours share a document."""
    (folder / "suite.toml").write_text(SUITE)
    words = [f"{random.Random(7).getrandbits(40):x}"[: 3 + n % 8] for n in range(997)]
    rng = random.Random(1)
    with gzip.open(folder / "items.jsonl.gz", "wt", compresslevel=1) as data:
        for index in range(items):
            if index % 10 == 0:
                context = " ".join(rng.choices(words, k=max(1, prompt_bytes // 7)))
            row = {"id": index, "document": f"d{index // 10}", "context": context}
            row |= {"question": f"What is {index} plus {index % 97}?", "answer": str(index % 5)}
            data.write(json.dumps(row) + "\n")


class Process:
    """A role over all its lives: what it used, and where it is now."""

    def __init__(self, name, command, environment, log):
        self.name, self.command, self.environment, self.log = name, command, environment, log
        self.peak, self.cpu, self.child = 0, 0.0, None

    def start(self):
        out = open(self.log, "ab")
        self.child = subprocess.Popen(self.command, env=self.environment, stdout=out, stderr=out, stdin=subprocess.DEVNULL)

    def look(self):
        """Peak memory in MiB and CPU seconds of this life."""
        folder = pathlib.Path(f"/proc/{self.child.pid}")
        try:
            status, stat = (folder / "status").read_text(), (folder / "stat").read_text()
        except OSError:
            return
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        self.peak = max(self.peak, int(fields.get("VmHWM", "0 kB").split()[0]) / 1024)
        used = stat.rsplit(")", 1)[1].split()
        self.life = (int(used[11]) + int(used[12])) / TICKS

    def kill(self):
        self.look()
        self.cpu += self.life
        self.child.send_signal(signal.SIGKILL)
        self.child.wait()


class Watch(threading.Thread):
    """Looks at all processes now and then: the peak of a life is lost with it."""

    def __init__(self, processes):
        super().__init__(daemon=True)
        self.processes, self.paused, self.stop = processes, threading.Lock(), False

    def run(self):
        while not self.stop:
            with self.paused:
                for process in self.processes:
                    if process.child.poll() is None:
                        process.look()
            time.sleep(0.2)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)


def requests(engine):
    return read(f"{engine}/stats")["requests"]


def messages(monitor):
    """Messages of each stream; nothing while the broker is away."""
    try:
        accounts = read(f"{monitor}/jsz?accounts=1&streams=1")["account_details"]
    except (OSError, KeyError):
        return {}
    return {s["name"]: s["state"] for account in accounts for s in account.get("stream_detail", [])}


def wait(what, reached, patience, alive):
    begun = time.monotonic()
    while not reached():
        for process in alive:
            if process.child.poll() is not None:
                raise SystemExit(f"{process.name} ended while waiting for {what}: {process.log}")
        if time.monotonic() - begun > patience:
            raise SystemExit(f"gave up waiting for {what} after {patience} s")
        time.sleep(0.01 if patience <= 1800 else 0.2)
    return time.monotonic() - begun


def seconds(timestamp):
    head, _, fraction = timestamp.rstrip("Z").partition(".")
    return time.mktime(time.strptime(head, "%Y-%m-%dT%H:%M:%S")) + float("0." + (fraction or "0"))


def row(name, value, bound=None, of=None):
    print(f"{name:56} {value:36} {f'{of / bound:5.2f} of {bound}' if bound else ''}", flush=True)


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--items", type=int, default=1_000_000)
    arguments.add_argument("--prompt-bytes", type=int, default=1_000)
    arguments.add_argument("--kill-at", type=float, default=0.6)
    arguments.add_argument("--memory-bound", type=int, default=400, help="MiB for each of our processes; above it the exit code is 1")
    arguments.add_argument("--profile", default="release", choices=["debug", "release"])
    arguments.add_argument("--target", default=os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), type=pathlib.Path)
    arguments.add_argument("--scratch", default=None, type=pathlib.Path, help="where data, objects and the broker's store go")
    arguments.add_argument("--keep", action="store_true", help="keep the scratch folder")
    arguments = arguments.parse_args()
    built(arguments.target / arguments.profile, "bench-million")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-million-", dir=arguments.scratch))
    programs, engine = arguments.target / arguments.profile, None
    processes = []
    try:
        begun = time.monotonic()
        write_suite(folder, arguments.items, arguments.prompt_bytes)
        row("items", f"{arguments.items}, prompts of about {arguments.prompt_bytes} bytes")
        row("writing the data (not part of the run)", f"{time.monotonic() - begun:.1f} s")
        engine = subprocess.Popen([programs / "tidemill-fake-engine", "--text", " 4"], stdout=subprocess.PIPE, text=True)
        failed = run(arguments, folder, programs / "tidemill", engine.stdout.readline().strip(), processes)
    finally:
        for process in processes:
            if process.child is not None and process.child.poll() is None:
                process.child.kill()
                process.child.wait()
        if engine:
            engine.kill()
            engine.wait()
        if arguments.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(1 if failed else 0)


def start_processes(folder, program, processes):
    port, monitor = free_port(), free_port()
    server = os.environ.get("TIDEMILL_NATS_SERVER", ROOT / ".tools/bin/nats-server")
    command = [server, "-js", "-sd", folder / "broker", "-a", "127.0.0.1", "-p", str(port), "-m", str(monitor)]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TIDEMILL_") and k != "NATS_URL"}
    place = ["--nats", f"nats://127.0.0.1:{port}", "--data-dir", folder / "data"]
    processes.append(Process("nats-server", command, environment, folder / "nats-server.log"))
    processes[0].start()
    monitor = f"http://127.0.0.1:{monitor}"
    wait("the broker", lambda: is_open(port), 60, processes)
    subprocess.run([program, "streams", "apply", *place], check=True, env=environment, stdout=subprocess.DEVNULL)
    for role in ROLES:
        processes.append(Process(role, [program, role, *place], environment, folder / f"{role}.log"))
        processes[-1].start()
    return place, environment, port, monitor


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def run(arguments, folder, program, engine, processes):
    items = arguments.items
    place, environment, port, monitor = start_processes(folder, program, processes)
    watch = Watch(processes)
    watch.start()
    source = ["--suite", folder / "suite.toml", "--endpoint", engine, "--model", "fake", "--run", "bench", "--step", "1"]
    begun = time.monotonic()
    subprocess.run([program, "announce", *source, *place], check=True, env=environment, stdout=subprocess.DEVNULL)
    first = wait("the first request", lambda: requests(engine) > 0, 1800, processes)
    row("announcement to first request", f"{first:.2f} s")
    killed_at = int(items * arguments.kill_at)
    wait("the kill", lambda: requests(engine) >= killed_at, 7200, processes)
    with watch.paused:
        killed = time.monotonic()
        for process in processes:
            process.kill()
        time.sleep(0.5)
        asked = requests(engine)
        restarted = time.monotonic()
        processes[0].start()
        wait("the broker", lambda: is_open(port), 300, processes[:1])
        broker = time.monotonic() - restarted
        for process in processes[1:]:
            process.start()
    row("killed -9: everything but the engine", f"at {asked} requests")
    row("restart: the broker takes connections after", f"{broker:.2f} s")
    again = broker + wait("the first request after the restart", lambda: requests(engine) > asked, 1800, processes)
    row("restart: first new request after", f"{again:.2f} s")
    counts = lambda: {name: state["messages"] for name, state in messages(monitor).items()}
    wait("all completions", lambda: counts().get("DONE", 0) >= items, 7200, processes)
    wait("all grades", lambda: counts().get("GRADE", 0) >= items, 7200, processes)
    result = final(program, place, environment, items, processes)
    total = time.monotonic() - begun
    watch.stop = True
    watch.join()
    return report(arguments, folder, program, engine, processes, place, environment, monitor, result, total, source)


def final(program, place, environment, items, processes):
    """The ended evaluation, as `tidemill results` shows it."""
    begun = time.monotonic()
    while time.monotonic() - begun < 600:
        shown = subprocess.run([program, "results", "--json", *place], env=environment, capture_output=True, text=True)
        ended = [r for r in json.loads(shown.stdout or "[]") if r.get("state") in ("final", "invalid")]
        if ended:
            [benchmark] = ended[0]["benchmarks"]
            assert benchmark["samples"] == items and benchmark["outcomes"]["missing"] == 0, ended[0]
            assert ended[0]["state"] == "final", ended[0]
            return ended[0]
        time.sleep(0.2)
    raise SystemExit("the evaluation did not end")


def report(arguments, folder, program, engine, processes, place, environment, monitor, result, total, source):
    items, asked = arguments.items, requests(engine)
    line = result["timeline"]
    row("seen to queued (rendering into blocks)", f"{seconds(line['queued']) - seconds(line['seen']):.2f} s")
    row("announcement to final result, kill included", f"{total:.1f} s = {items / total:.0f} items/s")
    row("requests beyond one an item", f"{asked - items} (in flight at the kill)")
    for process in processes:
        process.look()
        process.cpu += process.life
    before = requests(engine)
    begun = time.monotonic()
    command = [program, "evaluate", *source, *place, "--json"]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    row("the same evaluation again, from what is stored", f"{time.monotonic() - begun:.2f} s, {requests(engine) - before} requests")
    for name, state in messages(monitor).items():
        if name in ("DONE", "GRADE"):
            row(f"{name} in the broker", f"{state['messages']} messages, {state['bytes'] / 2**20:.0f} MiB")
    objects = sum(f.stat().st_size for f in (folder / "data").rglob("*") if f.is_file())
    row("objects and the rest of the data folder", f"{objects / 2**20:.0f} MiB")
    failed = False
    for process in processes:
        ours = process.name in ROLES
        bound = arguments.memory_bound if ours else None
        failed |= ours and process.peak > arguments.memory_bound
        name = f"{process.name}: peak memory; CPU an item"
        row(name, f"{process.peak:.0f} MiB; {1000 * process.cpu / items:.4f} ms", bound, process.peak)
    row("CPU an item, all of them", f"{1000 * sum(p.cpu for p in processes) / items:.3f} ms")
    return failed


if __name__ == "__main__":
    main()
