"""What the benchmarks share: the simulated engine as a process, suites for it, and evaluations in one process or in many."""

import json
import os
import pathlib
import random
import socket
import subprocess
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Words that are one token each of the simulated engine.
WORDS = "the of and to a in is that it we so as with for then first next let us take sum from both sides gives which means".split()

BENCHMARK = """
[[benchmark]]
name = "{name}"
data = "{name}.jsonl"
id = "id"
prompt = "{{{{ context }}}}Q: {{{{ question }}}} [target: {{{{ answer }}}}]\\nA:"
target = "{{{{ answer }}}}"
max_tokens = {cap}
[benchmark.grader]
kind = "numeric"
"""


def write_suite(folder, name, items, cap=16_000, prefixes=0, prefix_tokens=0, seed=1):
    """A suite of one benchmark. With prefixes, each item's prompt begins with one of them, in turn."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    contexts = [" ".join(rng.choices(WORDS, k=prefix_tokens)) + "\n\n" for _ in range(prefixes)] or [""]
    path = folder / f"{name}.toml"
    path.write_text(f'name = "{name}"\nversion = "1"\n' + BENCHMARK.format(name=name, cap=cap))
    with open(folder / f"{name}.jsonl", "w") as data:
        for index in range(items):
            row = {"id": index, "context": contexts[index % len(contexts)], "answer": str(index % 97)}
            data.write(json.dumps(row | {"question": f"What is item {index} of seed {seed}?"}) + "\n")
    return path


def environment():
    return {k: v for k, v in os.environ.items() if not k.startswith("TIDEMILL_") and k != "NATS_URL"}


def toml(settings):
    """A dictionary as TOML: values first, then tables."""
    value = lambda v: json.dumps(v)
    lines = [f"{key} = {value(v)}" for key, v in settings.items() if not isinstance(v, dict)]
    for table, inner in settings.items():
        if isinstance(inner, dict):
            lines += [f"[{table}]"] + [f"{key} = {value(v)}" for key, v in inner.items()]
    return "\n".join(lines) + "\n"


class Engine:
    """`tidemill engine --simulate` with these settings, one address a replica."""

    def __init__(self, program, folder, **settings):
        settings.setdefault("stream_interval", 64)
        self.settings = settings
        folder.mkdir(parents=True, exist_ok=True)
        file = folder / "engine.toml"
        file.write_text(toml(settings))
        command = [program, "engine", "--simulate", file]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
        self.urls = [self.process.stdout.readline().strip() for _ in range(settings.get("replicas", 1))]
        if not all(self.urls):
            raise SystemExit(f"the simulated engine did not start: {file}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.urls[-1] + path, data=data, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)

    def report(self):
        return self.ask("GET", "/simulate/report")

    def later(self, seconds, faults):
        """Sets faults so many wall seconds after the first work arrived. `ended` of what is returned says how that went."""

        def wait():
            while not self.is_working():
                time.sleep(0.02)
            time.sleep(seconds)
            self.ask("POST", "/simulate/faults", {"faults": faults})

        return Later(wait)

    def is_working(self):
        with urllib.request.urlopen(self.urls[-1] + "/metrics", timeout=60) as answer:
            lines = answer.read().decode().splitlines()
        return any(line.startswith("vllm:num_requests_running") and float(line.split()[-1]) > 8 for line in lines)


class Later(threading.Thread):
    """Something that is done beside a run."""

    def __init__(self, work):
        super().__init__(daemon=True)
        self.work, self.failure = work, None
        self.start()

    def run(self):
        try:
            self.work()
        except BaseException as failure:
            self.failure = failure

    def ended(self):
        """Raises what it failed with, or that it never came to it."""
        self.join(timeout=1)
        if self.failure:
            raise self.failure
        if self.is_alive():
            raise SystemExit("the run was over before anything went wrong in it")


def seconds(timestamp):
    """A timestamp of a result in seconds; only differences mean anything."""
    head, _, fraction = timestamp.rstrip("Z").partition(".")
    return time.mktime(time.strptime(head, "%Y-%m-%dT%H:%M:%S")) + float("0." + (fraction or "0"))


def utc_now():
    """Now, as `seconds` says it of a timestamp."""
    whole, fraction = divmod(time.time(), 1)
    return seconds(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole)) + f"{fraction:.6f}"[1:])


def checked(result, items):
    """The result, if it is whole."""
    [benchmark] = result["benchmarks"]
    if benchmark["samples"] != items or benchmark["outcomes"]["missing"] != 0 or result["state"] != "final":
        raise SystemExit(f"the evaluation is not whole: {json.dumps(result)}")
    return result


class Alone:
    """Each evaluation by `tidemill evaluate`: all services and the broker of one data folder, in one process and its child."""

    def __init__(self, program, folder, config=None):
        self.program, self.folder = program, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.place = ["--data-dir", folder / "data"]
        if config:
            (folder / "tidemill.toml").write_text(toml(config))
            self.place += ["--config", folder / "tidemill.toml"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def evaluate(self, suite, engine, step, items):
        command = [self.program, "evaluate", *source(suite, engine, step), *self.place, "--json"]
        ran = subprocess.run(command, env=environment(), capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"evaluate ended with {ran.returncode}: {ran.stderr}")
        return checked(json.loads(ran.stdout), items)


class Fleet:
    """Every service as a process of its own, with a broker, and so many generators."""

    def __init__(self, program, folder, generators, config=None):
        self.program, self.folder, self.processes = program, folder, []
        folder.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.place = ["--nats", f"nats://127.0.0.1:{port}", "--data-dir", folder / "data"]
        if config:
            (folder / "tidemill.toml").write_text(toml(config))
            self.place += ["--config", folder / "tidemill.toml"]
        server = os.environ.get("TIDEMILL_NATS_SERVER", ROOT / ".tools/bin/nats-server")
        # Without a size of its own a server offers a share of the free disk, which the streams' bounds may exceed.
        file = folder / "nats.conf"
        file.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{ store_dir: "{folder / "broker"}", max_file_store: 64GB }}\n')
        try:
            self.start_all([server, "-c", file], port, generators)
        except BaseException:
            # Nobody else would end what runs already.
            self.__exit__()
            raise

    def start_all(self, server, port, generators):
        program = self.program
        self.start("nats-server", server)
        while not is_open(port):
            self.look()
            time.sleep(0.02)
        applied = subprocess.run([program, "streams", "apply", *self.place], env=environment(), capture_output=True, text=True)
        if applied.returncode != 0:
            raise SystemExit(f"streams apply ended with {applied.returncode}: {applied.stderr}")
        for role in ["loader", *["generator"] * generators, "grader", "aggregator"]:
            self.start(role, [program, role, *self.place])

    def start(self, name, command):
        out = open(self.folder / f"{name}-{len(self.processes)}.log", "ab")
        process = subprocess.Popen(command, env=environment(), stdout=out, stderr=out, stdin=subprocess.DEVNULL)
        self.processes.append((name, process))

    def look(self):
        for name, process in self.processes:
            if process.poll() is not None:
                raise SystemExit(f"{name} ended with {process.returncode}: see {self.folder}")

    def process(self, name):
        return next(process for known, process in self.processes if known == name)

    def signal(self, name, number):
        self.process(name).send_signal(number)

    def cpu(self, name):
        """Seconds of CPU that a process has spent so far."""
        fields = pathlib.Path(f"/proc/{self.process(name).pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def doctor(self):
        """What the doctor finds, by the name of the check."""
        ran = subprocess.run([self.program, "doctor", "--json", *self.place], env=environment(), capture_output=True, text=True)
        return {finding["check"]: finding for finding in json.loads(ran.stdout)}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _, process in reversed(self.processes):
            process.kill()
            process.wait()

    def evaluate(self, suite, engine, step, items):
        command = [self.program, "announce", *source(suite, engine, step), *self.place]
        ran = subprocess.run(command, env=environment(), capture_output=True, text=True)
        if ran.returncode != 0:
            raise SystemExit(f"announce ended with {ran.returncode}: {ran.stderr}")
        while True:
            self.look()
            shown = subprocess.run(
                [self.program, "results", "--json", *self.place], env=environment(), capture_output=True, text=True
            )
            ended = [r for r in json.loads(shown.stdout or "[]") if r["step"] == step and r["state"] in ("final", "invalid")]
            if ended:
                return checked(ended[0], items)
            time.sleep(0.3)


def source(suite, engine, step):
    endpoints = [argument for url in engine.urls for argument in ("--endpoint", url)]
    return ["--suite", suite, *endpoints, "--model", getattr(engine, "model", "simulated"), "--run", "bench", "--step", str(step)]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
