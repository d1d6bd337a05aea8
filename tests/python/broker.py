"""A real nats-server for the tests of this folder."""

import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


def program():
    fetched = ROOT / ".tools/bin/nats-server"
    found = os.environ.get("TIDEMILL_NATS_SERVER") or (fetched if fetched.exists() else shutil.which("nats-server"))
    if not found:
        raise RuntimeError("no nats-server found: run ops/get-nats-server, or name one in TIDEMILL_NATS_SERVER")
    return found


class Broker:
    """Runs with JetStream on a free loopback port from `with` to its end."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="tidemill-broker-")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        command = [program(), "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", self.folder.name]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait_until_ready(self):
        deadline = time.monotonic() + 20
        while True:
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                    if connection.recv(5) == b"INFO ":
                        return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"nats-server did not start: exit status {self.process.poll()}")
            time.sleep(0.01)

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()
