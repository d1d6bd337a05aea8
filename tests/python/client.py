#!/usr/bin/env python3
"""Follows the RESULT stream as an analyst would, and checks every message against the published JSON Schema.

    client.py --nats nats://127.0.0.1:4222                            follow until interrupted
    client.py --count 10 --timeout 60                                 until ten messages have come
    client.py --until-final EVALUATION --benchmarks 2 --timeout 60    until two benchmarks of it are final

Each message is one line of JSON on stdout; everything else goes to stderr. Exit status: 0 done, 1 a message is not what the
schema says, 2 the time is up or the broker cannot be reached.
"""

import argparse
import asyncio
import json
import os
import pathlib
import sys

try:
    import jsonschema
    import nats
    import nats.errors
    import nats.js.errors
except ImportError as error:
    if __name__ != "__main__":
        raise
    requirements = pathlib.Path(__file__).with_name("requirements.txt")
    raise SystemExit(f"client: {error}: python3 -m pip install --requirement {requirements}") from None

SCHEMA = pathlib.Path(__file__).resolve().parents[2] / "streams/schemas/result.json"


class Invalid(Exception):
    """A message that is not what the schema says."""


class Goal:
    """Knows when enough has been seen."""

    def __init__(self, count=None, evaluation=None, benchmarks=1):
        self.count, self.evaluation, self.benchmarks = count, evaluation, benchmarks
        self.seen, self.final = 0, set()

    def reached(self, message):
        self.seen += 1
        if message["evaluation"] == self.evaluation and not message["provisional"]:
            self.final |= {benchmark["name"] for benchmark in message["benchmarks"]}
        if self.evaluation is not None:
            return len(self.final) >= self.benchmarks
        return self.count is not None and self.seen >= self.count


def checker(path):
    schema = json.loads(pathlib.Path(path).read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def read(validator, subject, data):
    """The message, or Invalid with every reason."""
    try:
        message = json.loads(data)
    except ValueError as error:
        raise Invalid(f"{subject}: not JSON: {error}") from error
    faults = [f"{fault.json_path}: {fault.message}" for fault in validator.iter_errors(message)]
    if faults:
        raise Invalid(f"{subject}: not what the schema says:\n  " + "\n  ".join(faults))
    return message


async def subscribe(jetstream, subject, stream):
    """An ordered consumer from the first message on; waits for the stream to be created."""
    while True:
        try:
            return await jetstream.subscribe(subject, stream=stream, ordered_consumer=True)
        except nats.js.errors.NotFoundError:
            await asyncio.sleep(0.1)


async def ignore(_):
    """Without a callback nats-py prints a traceback for each try to connect."""


async def follow(options):
    validator = checker(options.schema)
    goal = Goal(options.count, options.until_final, options.benchmarks)
    tries = {"connect_timeout": 5, "reconnect_time_wait": 0.25, "max_reconnect_attempts": 20}
    client = await nats.connect(options.nats, error_cb=ignore, **tries)
    try:
        subscription = await subscribe(client.jetstream(), options.subject, options.stream)
        async for delivery in subscription.messages:
            message = read(validator, delivery.subject, delivery.data)
            print(json.dumps(message), flush=True)
            if goal.reached(message):
                return
    finally:
        await client.close()


def arguments(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nats", default=os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), help="broker address")
    parser.add_argument("--stream", default="RESULT")
    parser.add_argument("--subject", default="tm.result.>")
    parser.add_argument("--schema", default=SCHEMA, help="JSON Schema of the messages")
    parser.add_argument("--count", type=int, help="end after so many messages")
    parser.add_argument("--until-final", metavar="EVALUATION", help="end when this evaluation is final")
    parser.add_argument("--benchmarks", type=int, default=1, help="benchmarks that must be final")
    parser.add_argument("--timeout", type=float, help="seconds before giving up")
    return parser.parse_args(argv)


def main(argv=None):
    options = arguments(argv)
    try:
        asyncio.run(asyncio.wait_for(follow(options), options.timeout))
    except Invalid as invalid:
        print(f"client: {invalid}", file=sys.stderr)
        return 1
    except asyncio.TimeoutError:
        print(f"client: not done within {options.timeout} s", file=sys.stderr)
        return 2
    except nats.errors.NoServersError:
        what = "start one with `tidemill up`, and give the address that it prints (NATS_URL, --nats)"
        print(f"client: no broker answers at {options.nats}: {what}", file=sys.stderr)
        return 2
    except (OSError, nats.errors.Error) as error:
        print(f"client: {options.nats}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
