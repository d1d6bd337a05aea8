"""Checks the example configuration of three brokers with the server itself, and against the rest of the repository.

Run by `make ops-test`.
"""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = ROOT / ".tools/bin/nats-server"
NODES = sorted((ROOT / "ops/nats").glob("node-*.conf"))
COMMON = (ROOT / "ops/nats/common.conf").read_text()


class Nats(unittest.TestCase):
    def test_the_server_accepts_each_file(self):
        self.assertEqual(3, len(NODES))
        for node in NODES:
            said = subprocess.run([SERVER, "-t", "--config", node], capture_output=True, text=True, check=False)
            self.assertEqual(0, said.returncode, said.stderr)

    def test_every_server_is_named_once_and_routed_to(self):
        names = [re.search(r"server_name: (\S+)", node.read_text())[1] for node in NODES]
        self.assertEqual(3, len(set(names)))
        self.assertEqual(sorted(names), sorted(re.findall(r"nats://([\w-]+):6222", COMMON)))

    def test_the_store_holds_what_the_streams_may(self):
        units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
        pages = (ROOT / "streams/STREAMS.md").read_text()
        limits = re.findall(r"(\d+) (KiB|MiB|GiB)", pages)
        self.assertTrue(limits)
        total = sum(int(number) * units[unit] for number, unit in limits)
        room = int(re.search(r"max_file_store: (\d+)GB", COMMON)[1]) * 10**9
        self.assertGreater(room, total)


if __name__ == "__main__":
    unittest.main()
