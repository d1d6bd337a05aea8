"""Checks docker-compose.yml against the rest of the repository: what a schema check alone cannot see.

Run by `make ops-test`. Set TIDEMILL_BIN to also ask the program for its commands.
"""

import os
import pathlib
import re
import subprocess
import tomllib
import unittest

try:
    import yaml
except ImportError as error:
    raise SystemExit(f"compose: {error}: run `make ops-test`, which installs what this needs") from None

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROLES = {"loader", "generator", "grader", "aggregator", "engine"}
SERVICES = {"loader", "generator", "grader", "aggregator"}
ENVIRONMENT = re.compile(r"\$\{([A-Z_]+)(:-([^}]*))?\}")


def seconds(text):
    number, unit = re.fullmatch(r"(\d+)(s|m)", text).groups()
    return int(number) * {"s": 1, "m": 60}[unit]


class Compose(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.text = (ROOT / "docker-compose.yml").read_text()
        cls.compose = yaml.safe_load(cls.text)
        cls.services = cls.compose["services"]
        cls.ours = {name: s for name, s in cls.services.items() if s["image"].startswith("tidemill:")}
        cls.config = tomllib.loads((ROOT / "ops/compose/tidemill.toml").read_text())

    def test_every_service_of_the_pipeline_is_there_once(self):
        commands = {name: s["command"] for name, s in self.ours.items()}
        self.assertEqual(SERVICES | {"streams"}, set(commands))
        for name in SERVICES:
            self.assertEqual(name, commands[name][0])
        self.assertEqual(["streams", "apply"], commands["streams"])

    def test_commands_are_commands_of_the_program(self):
        program = os.environ.get("TIDEMILL_BIN")
        if not program:
            self.skipTest("TIDEMILL_BIN is not set")
        known = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
        for command in ROLES | {s["command"][0] for s in self.ours.values()}:
            self.assertRegex(known, rf"(?m)^  {command}\b")

    def test_streams_exist_before_any_service_starts(self):
        self.assertEqual("service_healthy", self.services["streams"]["depends_on"]["broker"]["condition"])
        for name in SERVICES:
            self.assertEqual("service_completed_successfully", self.ours[name]["depends_on"]["streams"]["condition"])

    def test_services_agree_on_broker_and_store(self):
        for variable in ("NATS_URL", "TIDEMILL_STORE", "TIDEMILL_CONFIG"):
            self.assertEqual(1, len({s["environment"][variable] for s in self.ours.values()}), variable)
        for service in self.ours.values():
            self.assertIn("data:/var/lib/tidemill", service["volumes"])

    def test_services_may_drain_before_they_are_killed(self):
        grace = seconds(self.config["service"]["shutdown_grace"])
        for name in SERVICES:
            self.assertGreater(seconds(self.ours[name]["stop_grace_period"]), grace, name)

    def test_health_is_asked_where_the_service_listens(self):
        for name in SERVICES:
            command = self.ours[name]["command"]
            listens = command[command.index("--admin") + 1].rsplit(":", 1)[1]
            self.assertEqual(listens, str(self.ours[name]["environment"]["ADMIN_PORT"]), name)

    def test_a_shared_network_has_one_listener_a_port(self):
        groups = {}
        for name in SERVICES:
            network = self.ours[name].get("network_mode", f"service:{name}")
            groups.setdefault(network, []).append(self.ours[name]["environment"]["ADMIN_PORT"])
        for network, ports in groups.items():
            self.assertEqual(len(ports), len(set(ports)), network)

    def test_ports_are_open_to_this_host_alone(self):
        for name, service in self.services.items():
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), f"{name}: {port}")

    def test_broker_is_recent_enough_and_keeps_its_store(self):
        broker = self.services["broker"]
        major, minor = map(int, re.match(r"nats:(\d+)\.(\d+)", broker["image"]).groups())
        self.assertGreaterEqual((major, minor), (2, 12))
        store = broker["command"][broker["command"].index("--store_dir") + 1]
        self.assertIn(f"broker:{store}", broker["volumes"])

    def test_volumes_and_mounted_files_exist(self):
        for name, service in self.services.items():
            for volume in service.get("volumes", []):
                source = ENVIRONMENT.sub(lambda match: match[3] or "", volume).split(":")[0]
                if source.startswith("./"):
                    self.assertTrue((ROOT / source).exists(), f"{name}: {source}")
                else:
                    self.assertIn(source, self.compose["volumes"], name)

    def test_image_is_built_from_a_file_that_is_there_and_runs_without_root(self):
        build = self.services["streams"]["build"]
        dockerfile = (ROOT / build["dockerfile"]).read_text()
        users = re.findall(r"(?m)^USER (\S+)$", dockerfile)
        self.assertTrue(users and users[-1] not in ("root", "0"))
        minimum = re.search(r'rust-version = "(\d+)\.(\d+)', (ROOT / "Cargo.toml").read_text()).groups()
        image = re.search(r"FROM rust:(\d+)\.(\d+)", dockerfile).groups()
        self.assertGreaterEqual(tuple(map(int, image)), tuple(map(int, minimum)))


if __name__ == "__main__":
    unittest.main()
