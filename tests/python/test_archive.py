"""The Parquet of an archived evaluation, read the way an analyst reads it."""

import json
import pathlib
import subprocess
import tempfile
import unittest

import pyarrow
import pyarrow.parquet

import test_client
from broker import Broker
from fake_engine import FakeEngine


def tidemill(*arguments):
    done = subprocess.run([test_client.TIDEMILL, *arguments], capture_output=True, text=True, timeout=test_client.TIMEOUT)
    if done.returncode != 0:
        raise AssertionError(f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


class Archive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="tidemill-python-") as folder:
            with Broker() as broker, FakeEngine(test_client.answer) as engine:
                cls.archive(pathlib.Path(folder), broker, engine)

    @classmethod
    def archive(cls, folder, broker, engine):
        # With all that a row may have: clusters, subsets, and a grader that measures something beside the score.
        suite = test_client.SUITE.replace('kind = "exact"', 'kind = "f1"')
        suite = suite.replace("max_tokens = 8\n", 'max_tokens = 8\ncluster = "a"\nsubset = "b"\n')
        (folder / "suite.toml").write_text(suite)
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in test_client.ROWS))
        here = ["--nats", broker.url, "--data-dir", folder / "data", "--json"]
        command = ["evaluate", "--suite", folder / "suite.toml", "--endpoint", engine.url, "--model", engine.model]
        cls.result = json.loads(tidemill(*command, "--run", "python", "--step", "7", *here))
        evaluation = cls.result["evaluation"]
        cls.items = [json.loads(line) for line in tidemill("items", evaluation, *here).splitlines()]
        archived = json.loads(tidemill("archive", "now", evaluation, "--purge", *here))
        # What the README tells analysts to write.
        place = folder / "data/objects" / archived["folder"]
        cls.table = pyarrow.parquet.read_table(place / "items")
        cls.provenance = json.loads((place / "provenance.json").read_text())

    def test_every_item_is_a_row_with_what_the_command_shows(self):
        rows = self.table.to_pylist()
        self.assertEqual(2 * len(test_client.ROWS), len(rows))
        same = "benchmark item sample completion reasoning extracted outcome score grader finish_reason truncated"
        same += " prompt_tokens completion_tokens attempts requests cached engine choices ending reason stop_reason"
        same += " cached_prompt_tokens continuations first_token_seconds cluster subset weight"
        same += " seed temperature max_tokens truncated_in_reasoning replaced_characters score_before_cut"
        for row, item in zip(rows, self.items, strict=True):
            for field in same.split():
                self.assertEqual(item[field], row[field], field)
            self.assertEqual([item["target"]], row["target"])
            self.assertEqual(item["measures"], json.loads(row["measures"]))
            if row["benchmark"] == "sums":
                self.assertEqual((row["cluster"], row["subset"]), tuple(row["item"].split("-")))
                self.assertEqual({"exact_match": row["score"]}, item["measures"])
            prompt = item["prompt"] if isinstance(item["prompt"], str) else json.loads(row["prompt"])
            self.assertEqual(item["prompt"], prompt)
            self.assertEqual(("python", 7), (row["run"], row["step"]))
            self.assertEqual(self.result["evaluation"], row["evaluation"])

    def test_types_are_those_that_a_data_frame_wants(self):
        schema = self.table.schema
        for field, kind in {
            "item": pyarrow.string(),
            "sample": pyarrow.int32(),
            "score": pyarrow.float64(),
            "truncated": pyarrow.bool_(),
            "prompt_tokens": pyarrow.int64(),
            "measures": pyarrow.string(),
            "continuations": pyarrow.int32(),
            "cached_prompt_tokens": pyarrow.int64(),
            "first_token_seconds": pyarrow.float64(),
            "cluster": pyarrow.string(),
            "subset": pyarrow.string(),
            "weight": pyarrow.float64(),
            "started": pyarrow.timestamp("us", tz="UTC"),
            "completion_message": pyarrow.binary(),
        }.items():
            self.assertEqual(kind, schema.field(field).type, field)
        self.assertTrue(pyarrow.types.is_list(schema.field("target").type))
        self.assertFalse(schema.field("outcome").nullable)
        for field in "measures continuations cached_prompt_tokens first_token_seconds cluster subset weight".split():
            self.assertTrue(schema.field(field).nullable, field)

    def test_means_come_out_of_the_rows(self):
        for benchmark in self.result["benchmarks"]:
            scores = [row["score"] for row in self.table.to_pylist() if row["benchmark"] == benchmark["name"]]
            self.assertAlmostEqual(benchmark["mean"], sum(scores) / len(scores), places=9)

    def test_the_provenance_names_versions_settings_and_counts(self):
        self.assertEqual(len(self.items), self.provenance["rows"])
        self.assertEqual({"f1@", "numeric@"}, {name.rstrip("0123456789") for name in self.provenance["versions"]["graders"]})
        self.assertEqual(["sums", "spoken"], [benchmark["name"] for benchmark in self.provenance["benchmarks"]])
        self.assertEqual(8, self.provenance["benchmarks"][0]["settings"]["max_tokens"])


if __name__ == "__main__":
    unittest.main()
