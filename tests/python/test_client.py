"""The Python client against the real pipeline, and against messages that are wrong."""

import asyncio
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import jsonschema
import nats

from broker import ROOT, Broker
from client import SCHEMA, Goal, Invalid, checker, read
from fake_engine import FakeEngine

CLIENT = pathlib.Path(__file__).with_name("client.py")
ANNOUNCE = ROOT / "examples/trainer/announce.py"
TIDEMILL = os.environ.get("TIDEMILL_BIN", ROOT / "target/debug/tidemill")
TIMEOUT = 120

SUITE = """
name = "python"
version = "1"
tier = "in-training"

[[benchmark]]
name = "sums"
data = "sums.jsonl"
id = "id"
prompt = "Q: {{ a }} + {{ b }}\\nA:"
target = "{{ sum }}"
max_tokens = 8
[benchmark.grader]
kind = "exact"

[[benchmark]]
name = "spoken"
data = "sums.jsonl"
id = "id"
messages = [{ role = "user", content = "What is {{ a }} plus {{ b }}?" }]
target = "{{ sum }}"
max_tokens = 16
[benchmark.grader]
kind = "numeric"
"""

ROWS = [{"id": f"{a}-{b}", "a": a, "b": b, "sum": a + b} for a in range(8) for b in range(5)]


def knows(a, b):
    """Which sums the engine has learnt."""
    return (a + b) % 5 != 0


def answer(prompt, attempt):
    """Knows some sums, says others wrong, and is overloaded once for every seventh prompt."""
    numbers = re.search(r"(\d+) (?:\+|plus) (\d+)", prompt)
    if numbers is None:
        return "ok"
    a, b = map(int, numbers.groups())
    if (a * 5 + b) % 7 == 0 and attempt == 1:
        return 503, {"error": {"message": "overloaded", "type": "ServiceUnavailableError", "code": 503}}
    said = a + b if knows(a, b) else a + b + 1
    return f"The answer is {said}." if "plus" in prompt else str(said)


def start_client(broker, *arguments):
    command = [sys.executable, CLIENT, "--nats", broker.url, "--timeout", str(TIMEOUT), *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    try:
        stdout, stderr = process.communicate(timeout=TIMEOUT + 10)
    finally:
        process.kill()
    return process.returncode, [json.loads(line) for line in stdout.splitlines()], stderr


class Pipeline(unittest.TestCase):
    """One evaluation, followed while it runs and read again afterwards."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="tidemill-python-") as folder, Broker() as broker, FakeEngine(answer) as engine:
            cls.run_evaluation(pathlib.Path(folder), broker, engine)

    @classmethod
    def run_evaluation(cls, folder, broker, engine):
        (folder / "suite.toml").write_text(SUITE)
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
        follower = start_client(broker)
        try:
            cls.evaluate(folder, broker, engine)
            reader = start_client(broker, "--until-final", cls.result["evaluation"], "--benchmarks", "2")
            cls.status, cls.messages, cls.stderr = finish(reader)
        finally:
            # It follows without an end; what it printed by now it saw while the evaluation ran, or as it ended.
            follower.terminate()
            live, cls.live_errors = follower.communicate()
        cls.live = [json.loads(line) for line in live.splitlines()]

    @classmethod
    def evaluate(cls, folder, broker, engine):
        command = [TIDEMILL, "evaluate", "--suite", folder / "suite.toml", "--endpoint", engine.url, "--model", engine.model]
        command += ["--run", "python", "--step", "7", "--nats", broker.url, "--data-dir", folder / "data", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
        if done.returncode != 0:
            raise AssertionError(f"evaluate ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
        cls.result = json.loads(done.stdout)
        cls.engine_requests = engine.requests

    def final(self, benchmark):
        finals = [m for m in self.messages if not m["provisional"] and m["evaluation"] == self.result["evaluation"]]
        [found] = [b for m in finals for b in m["benchmarks"] if b["name"] == benchmark]
        return found

    def test_every_message_is_valid_and_the_final_ones_are_there(self):
        self.assertEqual(0, self.status, self.stderr)
        self.assertEqual("", self.live_errors)

    def test_means_are_what_the_engine_answered(self):
        right = sum(knows(row["a"], row["b"]) for row in ROWS)
        for name in ("sums", "spoken"):
            benchmark = self.final(name)
            self.assertEqual(len(ROWS), benchmark["items"], name)
            self.assertEqual(1.0, benchmark["coverage"], name)
            self.assertAlmostEqual(right / len(ROWS), benchmark["mean"], places=9, msg=name)
            self.assertEqual(right, benchmark["outcomes"]["correct"], name)
            self.assertEqual(len(ROWS) - right, benchmark["outcomes"]["incorrect"], name)

    def test_an_overloaded_engine_costs_requests_and_no_score(self):
        for name in ("sums", "spoken"):
            self.assertEqual(0, self.final(name)["outcomes"]["engine_error"], name)
        self.assertGreater(self.engine_requests, 2 * len(ROWS))

    def test_stream_and_command_say_the_same(self):
        self.assertEqual("final", self.result["state"])
        self.assertEqual(("python", 7), (self.result["run"], self.result["step"]))
        for benchmark in self.result["benchmarks"]:
            self.assertEqual(benchmark, self.final(benchmark["name"]))

    def test_a_follower_saw_the_final_results_as_they_came(self):
        finals = {b["name"] for m in self.live if not m["provisional"] for b in m["benchmarks"]}
        self.assertEqual({"sums", "spoken"}, finals)


class WrongMessages(unittest.TestCase):
    """What the client says about messages that no aggregator of ours would write."""

    def publish(self, broker, data):
        async def run():
            client = await nats.connect(broker.url)
            jetstream = client.jetstream()
            await jetstream.add_stream(name="RESULT", subjects=["tm.result.>"])
            await jetstream.publish("tm.result.team.run.suite.sums", data)
            await client.close()

        asyncio.run(run())

    def test_a_message_that_breaks_the_schema_ends_the_client_with_the_reasons(self):
        with Broker() as broker:
            self.publish(broker, b'{"evaluation": 3}')
            status, messages, stderr = finish(start_client(broker, "--count", "1"))
        self.assertEqual((1, []), (status, messages))
        self.assertIn("tm.result.team.run.suite.sums", stderr)
        self.assertIn("'provisional' is a required property", stderr)
        self.assertIn("$.evaluation: 3 is not of type 'string'", stderr)

    def test_a_message_that_is_no_json_ends_the_client(self):
        with Broker() as broker:
            self.publish(broker, b"mean=0.8")
            status, _, stderr = finish(start_client(broker, "--count", "1"))
        self.assertEqual(1, status)
        self.assertIn("not JSON", stderr)

    def test_silence_and_no_broker_are_no_success(self):
        with Broker() as broker:
            waiting = [sys.executable, CLIENT, "--nats", broker.url, "--count", "1", "--timeout", "0.5"]
            self.assertEqual(2, subprocess.run(waiting, capture_output=True).returncode)
        gone = subprocess.run([sys.executable, CLIENT, "--nats", broker.url], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual(2, gone.returncode)
        self.assertIn(broker.url, gone.stderr)


class Started(unittest.TestCase):
    """Scripts that a user starts, where something is missing: one line that says what to do, and no traceback."""

    def refused(self, *command):
        ran = subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=TIMEOUT)
        self.assertEqual((2, "", 1), (ran.returncode, ran.stdout, ran.stderr.count("\n")), ran.stderr)
        return ran.stderr

    def test_no_broker_is_one_line_that_says_what_to_do(self):
        with Broker() as broker:
            pass
        announced = [ANNOUNCE, "/checkpoint", "--run", "r", "--step", "1"]
        for command in ([CLIENT], announced):
            said = self.refused(*command, "--nats", broker.url)
            self.assertIn(f"no broker answers at {broker.url}: start one with `tidemill up`", said)

    def test_a_run_is_one_token_and_a_suite_file_is_named_in_full(self):
        sys.path.insert(0, str(ANNOUNCE.parent))
        self.addCleanup(sys.path.remove, str(ANNOUNCE.parent))
        from announce import located, token

        self.assertEqual(token("a.b *>%é"), "a%2Eb%20%2A%3E%25é")
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder).resolve() / "suite.toml"
            file.touch()
            self.assertEqual(located(os.path.relpath(file)), str(file))
        self.assertEqual(located("smoke"), "smoke")

    def test_a_broker_without_streams_takes_no_announcement(self):
        with Broker() as broker:
            said = self.refused(ANNOUNCE, "/checkpoint", "--run", "r", "--step", "1", "--nats", broker.url)
        self.assertIn("`tidemill streams apply`", said)

    def test_what_is_not_built_or_not_installed_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            for script in ("bench.py", "evaluate.py", "million.py"):
                command = [sys.executable, ROOT / "ops/bench" / script, "--target", folder]
                ran = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
                self.assertEqual((1, 1), (ran.returncode, ran.stderr.count("\n")), ran.stderr)
                self.assertRegex(ran.stderr, r"/release/tidemill.* is not built: run `make bench")


class Reading(unittest.TestCase):
    def test_the_published_schema_is_a_schema(self):
        jsonschema.Draft202012Validator.check_schema(json.loads(SCHEMA.read_text()))

    def test_an_empty_object_is_refused(self):
        with self.assertRaises(Invalid):
            read(checker(SCHEMA), "tm.result.x", b"{}")

    def test_only_final_benchmarks_of_the_evaluation_count(self):
        def message(evaluation, name, provisional):
            return {"evaluation": evaluation, "provisional": provisional, "benchmarks": [{"name": name}]}

        goal = Goal(evaluation="e", benchmarks=2)
        self.assertFalse(goal.reached(message("e", "a", False)))
        self.assertFalse(goal.reached(message("e", "a", False)))
        self.assertFalse(goal.reached(message("e", "b", True)))
        self.assertFalse(goal.reached(message("other", "b", False)))
        self.assertTrue(goal.reached(message("e", "b", False)))


if __name__ == "__main__":
    unittest.main()
