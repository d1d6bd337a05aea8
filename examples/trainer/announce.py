"""Announce a complete checkpoint to Tidemill from a Python training loop (needs nats-py).

    announce.py PATH --run llama --step 900 --suite smoke     the same from a shell; exit status 2 when no broker took it
"""

import argparse
import asyncio
import datetime
import json
import os
import pathlib
import sys

try:
    import nats
    import nats.errors
    import nats.js.errors
except ImportError as error:
    if __name__ != "__main__":
        raise
    raise SystemExit(f"announce: {error}: python3 -m pip install nats-py") from None


async def announce(path, run, step, suites, server="nats://127.0.0.1:4222", team="default"):
    """Publish the event and wait until the broker has stored it. ConnectionError says why it has not, and what to do.

    `suites` are names that the loader knows, or paths of suite files.
    """
    written_at = datetime.datetime.now(datetime.timezone.utc).isoformat()
    event = {"schema": 1, "run": run, "step": step, "uri": pathlib.Path(path).resolve().as_uri(), "written_at": written_at}
    event |= {"team": team, "suites": [located(suite) for suite in suites]}
    try:
        # Without a callback nats-py prints a traceback for each try.
        client = await nats.connect(server, connect_timeout=2, max_reconnect_attempts=1, error_cb=ignore)
    except nats.errors.NoServersError:
        raise ConnectionError(f"no broker answers at {server}: start one with `tidemill up`, and give the address that it prints (NATS_URL, --nats)") from None
    except (OSError, nats.errors.Error) as error:
        raise ConnectionError(f"the broker at {server} refuses the connection: {error}") from None
    try:
        await client.jetstream().publish(f"tm.checkpoint.{token(run)}.written", json.dumps(event).encode(), timeout=5)
    except nats.js.errors.NoStreamResponseError:
        raise ConnectionError(f"the broker at {server} has no stream for announcements: run `tidemill streams apply`") from None
    except nats.errors.Error as error:
        raise ConnectionError(f"the broker at {server} did not store the announcement: {error}") from None
    finally:
        await client.close()


def located(suite):
    """A file's whole path, since the loader looks from its own folder; a name as it is."""
    path = pathlib.Path(suite)
    return str(path.resolve()) if path.is_file() else suite


def token(name):
    """A name as one token of a subject."""
    special = lambda letter: letter in ".*>%" or letter.isspace() or ord(letter) < 32 or ord(letter) == 127
    encoded = ("".join(f"%{byte:02X}" for byte in letter.encode()) if special(letter) else letter for letter in name)
    return "".join(encoded)


async def ignore(_):
    pass


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", help="the checkpoint's folder")
    parser.add_argument("--run", required=True)
    parser.add_argument("--step", required=True, type=int)
    parser.add_argument("--suite", action="append", default=[], help="a name or a file; several times for several")
    parser.add_argument("--team", default="default")
    parser.add_argument("--nats", default=os.environ.get("NATS_URL", "nats://127.0.0.1:4222"), help="broker address")
    options = parser.parse_args(argv)
    try:
        asyncio.run(announce(options.path, options.run, options.step, options.suite, options.nats, options.team))
    except ConnectionError as error:
        print(f"announce: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
