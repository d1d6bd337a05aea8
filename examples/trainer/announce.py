"""Announce a complete checkpoint to Tidemill from a Python training loop (needs nats-py)."""

import datetime
import json
import pathlib

import nats


async def announce(path, run, step, suites, server="nats://127.0.0.1:4222", team="default"):
    """Publish the event and wait until the broker has stored it.

    `run` holds no dot, star, angle or space; `suites` are names that the loader knows, or paths of suite files.
    """
    written_at = datetime.datetime.now(datetime.timezone.utc).isoformat()
    event = {"schema": 1, "run": run, "step": step, "uri": pathlib.Path(path).resolve().as_uri(), "written_at": written_at}
    event |= {"team": team, "suites": list(suites)}
    client = await nats.connect(server, connect_timeout=2, max_reconnect_attempts=1)
    try:
        await client.jetstream().publish(f"tm.checkpoint.{run}.written", json.dumps(event).encode(), timeout=5)
    finally:
        await client.close()
