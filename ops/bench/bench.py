#!/usr/bin/env python3
"""How full engines are kept, and what that costs: one table of ratios, one run each, every seed stated.

Each figure is explained in docs/performance.md. Needs `make build` and the fake engine; `make bench` sees to both. Nothing
else should run on the machine meanwhile: engine, broker and services share its cores.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import tempfile
import time

import evaluate as zero_latency
from simulated import ROOT, Alone, Engine, Fleet, Later, seconds, utc_now, write_suite

SEED = 1
# Checkpoint seeds: the first is measured without history, the second with that of the first.
CHECKPOINTS = (1, 2)
# Virtual seconds in one of the wall's, by replicas: slow enough that the generator's cores are not what is measured.
SPEEDS = {1: 5.0, 2: 4.0, 4: 2.5, 8: 1.5}
# A cap above `[generator] stream_above`: answers to requests with it are streamed.
STREAMED_CAP = 128
ONE_SLOWLY = f"{SPEEDS[8]:g} virtual seconds in one as with 8 replicas"


@dataclasses.dataclass
class Row:
    """One figure. The aim is a bound from above, or from below where `least` is set."""

    name: str
    value: float
    unit: str = ""
    aim: float | None = None
    least: bool = False

    def holds(self):
        if self.aim is None:
            return None
        return self.value >= self.aim if self.least else self.value <= self.aim

    def text(self):
        digits = 0 if self.unit in ("items", "requests", "tokens", "MiB") else 3
        said = {None: "", True: "holds", False: "does not hold"}[self.holds()]
        aim = "" if self.aim is None else f"{'>=' if self.least else '<='} {self.aim:g}"
        return f"{self.name:86} {self.value:10.{digits}f} {self.unit:9} {aim:9} {said}"


class Bench:
    def __init__(self, arguments, folder):
        self.arguments, self.folder, self.rows, self.runs = arguments, folder, [], 0
        self.programs = arguments.target / arguments.profile
        self.program = self.programs / "tidemill"
        self.known, self.repeats, self.tails = {}, [], []

    def row(self, *fields, **more):
        self.rows.append(Row(*fields, **more))
        if not self.arguments.json:
            print(self.rows[-1].text(), flush=True)

    def scratch(self):
        self.runs += 1
        return self.folder / f"run-{self.runs}"

    def items(self, replicas):
        return (300 if self.arguments.quick else self.arguments.items) * replicas

    def simulated(self, replicas, **settings):
        return Engine(self.program, self.scratch(), **{"replicas": replicas, "speed": SPEEDS[replicas]} | settings)

    # Scenarios, in the order of the table.

    def cpu(self):
        """An engine that answers at once: what an item costs, and what is around the requests."""
        items = 2_000 if self.arguments.quick else 20_000
        engine, url = zero_latency.start_engine(self.programs / "tidemill-fake-engine")
        try:
            _, _, _, half = self.at_once(url, items // 2)
            result, wall, cpu, watch = self.at_once(url, items)
            _, _, streamed, _ = self.at_once(url, items, cap=STREAMED_CAP)
        finally:
            engine.kill()
            engine.wait()
        self.row("items, zero-latency engine", items, "items")
        self.row("CPU per item, plain answers, all processes, broker included", 1000 * cpu / items, "ms", 0.25)
        self.row("CPU per item, streamed answers, all processes, broker included", 1000 * streamed / items, "ms")
        self.row("whole command over first request to last completion", wall / zero_latency.span(result), "", 1.05)
        self.row("last grade to final result", tail(result), "s", 0.3)
        for name, peak in sorted(watch.peaks.items()):
            self.row(f"peak memory of {name}", peak, "MiB")
        self.row(f"peak memory of tidemill: {items} items over {items // 2}", watch.peaks["tidemill"] / half.peaks["tidemill"])

    def at_once(self, url, items, **suite):
        folder = self.scratch()
        folder.mkdir(parents=True)
        zero_latency.write_suite(folder, items, **suite)
        return zero_latency.evaluate(self.program, folder, url, items)

    def makespan(self):
        """Replicas x generators x history: what the work took over what it could have taken."""
        for generators in (1, 2):
            for replicas in (1, 2) if self.arguments.quick else (1, 2, 4, 8):
                self.pair(replicas, generators)
        self.pair(1, 1, "lengths as before", answers={"correlation": 1.0})
        if not self.arguments.quick:
            self.scaling()
        self.row("all of these: requests beyond one an item", sum(self.repeats), "requests")
        self.row("all of these: last grade to final result, the longest", max(self.tails), "s", 0.3)

    def pair(self, replicas, generators, other=None, **settings):
        """One checkpoint without history, then the next one of the same run; of `other` settings the second alone is told."""
        items = self.items(replicas)
        suite = write_suite(self.scratch(), "tail", items, seed=SEED)
        with self.place(generators) as place:
            for step, checkpoint in enumerate(CHECKPOINTS, 1):
                earlier = {"earlier": CHECKPOINTS[0]} if step > 1 else {}
                with self.simulated(replicas, checkpoint=checkpoint, **earlier, **settings) as engine:
                    result = place.evaluate(suite, engine, step, items)
                    report = engine.report()
                which = f"{count(replicas, 'replica')}, {count(generators, 'generator')}"
                if other is None:
                    self.known[replicas, generators, step] = report
                    self.makespan_rows(which, step, report, result)
                elif step > 1:
                    self.known[replicas, generators, other] = report
                    self.makespan_rows(f"{which}, {other}", step, report, result)

    def makespan_rows(self, which, step, report, result):
        bounds = report["bounds"]
        if step == 1:
            self.row(f"{which}, no history: makespan / first-come bound", report["span"] / bounds["first_come"], "", 1.01)
            self.row(f"{which}, no history: makespan / longest-first bound", report["span"] / bounds["longest_first"])
            self.row(f"{which}, no history: sequences running / first-come's", report["mean_running"] / bounds["first_come_in_flight"])
        else:
            self.row(f"{which}, history: makespan / longest-first bound", report["span"] / bounds["longest_first"], "", 1.02)
            self.row(f"{which}, history: makespan / longest-first by the earlier lengths", report["span"] / bounds["by_history"])
            self.row(f"{which}, history: sequences running / longest-first's", report["mean_running"] / bounds["longest_first_in_flight"])
            self.row(f"{which}, history: longest-first bound / longest answer alone", bounds["longest_first"] / bounds["longest_alone"])
        self.repeats.append(report["requests"] - report["distinct_prompts"])
        self.tails.append(tail(result))

    def scaling(self):
        """How much of eight times one replica's efficiency eight have; the bounds take the tail out of it. At one speed: whatever
        takes a fixed time of the wall is as much of both."""
        self.pair(1, 1, ONE_SLOWLY, speed=SPEEDS[8])
        one = self.efficiency(self.known[1, 1, ONE_SLOWLY])
        for generators in (1, 2):
            eight = self.efficiency(self.known[8, generators, 2])
            self.row(f"8 replicas over linear, {count(generators, 'generator')}, history", eight / one, "", 0.98, least=True)

    def efficiency(self, report):
        return report["bounds"]["longest_first"] / report["span"]

    def place(self, generators, config=None):
        if generators == 1:
            return Alone(self.program, self.scratch(), config)
        return Fleet(self.program, self.scratch(), generators, config)

    def plain(self, replicas, items, config=None, faults=None, at=0.0, **settings):
        """One evaluation: the engine's report and the result."""
        suite = write_suite(self.scratch(), "tail", items, seed=SEED)
        with self.place(1, config) as place, self.simulated(replicas, checkpoint=CHECKPOINTS[0], **settings) as engine:
            thread = engine.later(at, faults) if faults else None
            result = place.evaluate(suite, engine, 1, items)
            if thread:
                thread.ended()
            return engine.report(), result

    def batch(self):
        """Of few items most would be in flight before anything can go wrong, so the batch is small then."""
        return {"max_num_seqs": 32} if self.arguments.quick else {}

    def at(self):
        """Wall seconds after the first requests at which something goes wrong."""
        return 0.3 if self.arguments.quick else 1.0

    def grader(self):
        """Grades that block a thread for 50 ms, and grades that do not."""
        items = self.items(1)
        free, _ = self.plain(1, items)
        # As many threads as such grades need to keep up with the answers, and room for what they have in hand.
        slow, result = self.plain(1, items, config={"grader": {"delay": "50ms", "threads": 200, "max_in_flight": 1024}})
        self.row("a grader that blocks 50 ms: makespan over that without", slow["span"] / free["span"], "", 1.01)
        self.row("a grader that blocks 50 ms: last completion to last grade", behind(result), "s")
        self.row("a grader that blocks 50 ms: last grade to final result", tail(result), "s", 0.3)

    def grades(self):
        """Exact grades of one grader that goes on before a stream that is full of completions."""
        items = 2_000 if self.arguments.quick else 20_000
        process, url = zero_latency.start_engine(self.programs / "tidemill-fake-engine")
        folder = self.scratch()
        folder.mkdir(parents=True)
        zero_latency.write_suite(folder, items)
        engine = argparse.Namespace(urls=[url], model="fake")
        try:
            with Fleet(self.program, self.scratch(), 1) as fleet:
                fleet.signal("grader", signal.SIGSTOP)
                begun = {}

                def go_on():
                    while fleet.doctor()["DONE"]["figures"]["messages"] < items:
                        time.sleep(0.2)
                    begun.update(at=utc_now(), grader=fleet.cpu("grader"), broker=fleet.cpu("nats-server"))
                    fleet.signal("grader", signal.SIGCONT)

                thread = Later(go_on)
                result = fleet.evaluate(folder / "suite.toml", engine, 1, items)
                thread.ended()
                spent = {name: fleet.cpu(of) - begun[name] for name, of in [("grader", "grader"), ("broker", "nats-server")]}
        finally:
            process.kill()
            process.wait()
        took = seconds(result["timeline"]["last_grade"]) - begun["at"]
        must(took > 0, "the grades were made before the grader went on")
        self.row("one grader, exact, a full stream: grades a second", items / took, "1/s")
        for name, cpu in spent.items():
            self.row(f"one grader, exact, a full stream: CPU per item, {name}", 1000 * cpu / items, "ms")

    def overload(self):
        """One second in which every request gets 429 with Retry-After: 1."""
        items, speed = self.items(1), SPEEDS[1]
        undisturbed, _ = self.plain(1, items, engine=self.batch())
        episode = [{"kind": "overloaded", "retry_after": "1s", "for": "1s"}]
        report, _ = self.plain(1, items, faults=episode, at=self.at(), engine=self.batch())
        refused = sum(times for kind, times in report["faults"] if kind == "overloaded")
        must(refused > 0, "no request was refused")
        self.row("429 for one second: makespan over the undisturbed one and that second", report["span"] / (undisturbed["span"] + speed))
        self.row("429 for one second: requests refused", refused, "requests")
        self.row("429 for one second: requests sent before they were due", report["early"], "requests", 0)

    def death(self):
        """One of two replicas dies for two seconds, and comes back empty."""
        items = self.items(2)
        undisturbed, _ = self.plain(2, items, engine=self.batch())
        died = [{"kind": "die", "replica": 0, "for": "2s"}]
        report, _ = self.plain(2, items, faults=died, at=self.at(), engine=self.batch())
        must(report["deaths"] == 1, f"{report['deaths']} replicas died instead of one")
        # While one of two is away half of the work of that time is not done.
        lost = SPEEDS[2] * 2 / 2
        self.row("a replica dead for 2 s: makespan over the undisturbed one and half of that time", report["span"] / (undisturbed["span"] + lost))
        self.row("a replica dead for 2 s: answers continued from saved tokens", report["continued"], "requests")
        wasted = report["generated_tokens"] / report["job_tokens"] - 1
        self.row("a replica dead for 2 s: tokens generated twice, share", wasted)
        self.row("a replica dead for 2 s: continuations of other weights", report["foreign"], "requests", 0)

    def prefix(self):
        """64 long prefixes over four replicas, each of whose caches holds a third of them."""
        replicas, items = 4, 400 if self.arguments.quick else 4_000
        engine = {"max_num_seqs": 64, "kv_blocks": 2_048, "max_model_len": 4_096, "prefill_per_token": "20us"}
        answers = {"median_tokens": 40.0, "tail_share": 0.0}
        spans = {}
        for affinity in (True, False):
            suite = write_suite(self.scratch(), "prefixes", items, cap=512, prefixes=64, prefix_tokens=1_500, seed=SEED)
            config = {"generator": {"prefix_affinity": affinity}}
            with self.place(1, config) as place, self.simulated(replicas, engine=engine, answers=answers) as simulated:
                place.evaluate(suite, simulated, 1, items)
                report = simulated.report()
            spans[affinity] = report["span"]
            with_it = "with" if affinity else "without"
            self.row(f"64 prefixes, 4 replicas, {with_it} affinity: hit tokens / possible", report["prefix_hits"] / report["prefix_possible"])
        self.row("64 prefixes, 4 replicas: makespan with affinity over without", spans[True] / spans[False])


SCENARIOS = ["cpu", "makespan", "grader", "grades", "overload", "death", "prefix"]


def count(number, noun):
    return f"{number} {noun}{'s' if number > 1 else ''}"


def must(holds, complaint):
    """A scenario that did not happen measured nothing."""
    if not holds:
        raise SystemExit(f"nothing was measured: {complaint}")


def tail(result):
    return seconds(result["timeline"]["visible"]) - seconds(result["timeline"]["last_grade"])


def behind(result):
    return seconds(result["timeline"]["last_grade"]) - seconds(result["timeline"]["last_completion"])


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--only", action="append", choices=SCENARIOS, help="this scenario; several times for several")
    arguments.add_argument("--quick", action="store_true", help="few items: whether it works, not how well")
    arguments.add_argument("--items", type=int, default=2_000, help="items a replica in the makespan scenarios")
    arguments.add_argument("--json", action="store_true", help="the table as JSON, at the end")
    arguments.add_argument("--profile", default="release", choices=["debug", "release"])
    arguments.add_argument("--target", default=os.environ.get("CARGO_TARGET_DIR", ROOT / "target"), type=pathlib.Path)
    arguments.add_argument("--keep", action="store_true", help="keep the scratch folder")
    arguments = arguments.parse_args()
    zero_latency.built(arguments.target / arguments.profile, "bench")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-bench-"))
    bench, begun = Bench(arguments, folder), time.monotonic()
    try:
        for scenario in arguments.only or SCENARIOS:
            getattr(bench, scenario)()
        bench.row("the benchmarks themselves", time.monotonic() - begun, "s")
    finally:
        if arguments.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if arguments.json:
        rows = [dataclasses.asdict(row) | {"holds": row.holds()} for row in bench.rows]
        print(json.dumps({"seed": SEED, "checkpoints": CHECKPOINTS, "quick": arguments.quick, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
