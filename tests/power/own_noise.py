"""python -m tests.power.own_noise [--rows N]: what a part shows that its step hides, on the kernels of real captures.

A session is STEPS steps drawn from a real capture in blocks of neighbours, all kernels of a step together, so their
noise and what they have in common is as recorded. Communication and the host are noise of the step: 2 % of it from
session to session and 2 % more from step to step. All kernels of a session also share a drift: the clock of a chip, its
heat. One capture cannot show that drift, so two are assumed: none, and 0.2 %.

Base and head are measured in ten pairs. Head has one kernel that costs 1 % of the step more, or nothing. Judged are all
metrics of the task together (analysis/regression/looks.py), and the step alone (analysis/regression/verdict.py). The
numbers of a session are those of analysis/regression/parts.py; a share of the sessions goes through it itself.

The last part is end to end: a real capture is warped in time, loaded and measured as a night does.
Exit code 1 if what is promised does not hold.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: E402 -- before numpy: many small products, no threads

import numpy as np  # noqa: E402

from npulens import ingest  # noqa: E402
from npulens.analysis.regression import jointly, looks, parts, verdict  # noqa: E402
from npulens.analysis.regression.families import OTHERS  # noqa: E402
from npulens.app.nightly import parts as nightly  # noqa: E402
from npulens.app.nightly.gathering.results import Result, Value  # noqa: E402
from npulens.app.nightly.gathering.runs import of_run  # noqa: E402
from npulens.ingest.store import runs  # noqa: E402
from tests.power.noise import Floats  # noqa: E402

TRACES = Path(__file__).resolve().parents[3] / "shared" / "traces_2"
#: Captures with steps enough to draw from.
CAPTURES = {
    "MindSpore, Ascend 910": "mindspore-ai+mindinsight",
    "PyTorch, A100": "facebookresearch+HolisticTraceAnalysis/tests/data/trace_diff/control",
}
#: A small one, whose steps and kernels are warped.
WARPED = "luatil+torch-profile/trace_05.json"
SEED, PAIRS, STEPS, BLOCK = 20_271_125, 10, 20, 2
WORTH, NOISE, DRIFTS = 0.01, 0.02, (0.0, 0.002)
#: Kernels below this share of the step are not made slower: 1 % of the step would more than double them.
LEAST = 0.01
MOST_FALSE, LEAST_POWER = 0.01, 0.95
#: Nights drawn at once, and sessions of each such lot that go through the product's own function.
LOT, CHECKED = 100, 3
#: Of the warped capture: by how much the kernel is slower, which is 1 % of the step, and how late the host is in a gap.
SLOWER, LATE_NS = 0.016, 3_000


@dataclass(frozen=True)
class Recorded:
    """The kernels of a capture: a row a family, a column a step, in ns."""

    title: str
    names: tuple[str, ...]  # the last: all others
    kernels: Floats
    rest_ns: float  # the median of a step less its kernels

    @property
    def step_ns(self) -> float:
        return float(np.median(self.kernels.sum(0))) + self.rest_ns

    @property
    def shares(self) -> Floats:
        """Of the step, each family."""
        return np.asarray(np.median(self.kernels, axis=1) / self.step_ns)

    @property
    def noise(self) -> tuple[float, float]:
        """The standard deviation of the computing of a step, and of the quietest large kernel, as shares."""
        spread = self.kernels.std(1, ddof=1) / self.kernels.mean(1)
        whole = self.kernels.sum(0)
        return float(whole.std(ddof=1) / whole.mean()), float(spread[self.shares >= LEAST].min())


def recorded(title: str, table: parts.Table) -> Recorded:
    """The families that a night would judge by name, and the others together."""
    metrics = {part.metric: Value(part.value, part.unit, share=part.share) for part in parts.told(table)}
    names = nightly.folded(metrics, nightly.chosen([metrics], [], ()))
    kept = [name.removeprefix(parts.KERNEL_NS) for name in names if name.startswith(parts.KERNEL_NS)]
    kept = [name for name in kept if name != OTHERS]
    steps = np.unique(table.windows.step, return_inverse=True)[1]

    def by_step(values: object) -> Floats:
        return np.asarray(np.bincount(steps, np.asarray(values, np.float64)) / np.bincount(steps))

    rows = [by_step(table.families[name]) for name in kept]
    rows.append(by_step(sum(ns for name, ns in table.families.items() if name not in kept)))
    kernels = np.array(rows)
    rest = float(np.median(by_step(table.windows.ns) - kernels.sum(0)))
    return Recorded(title, (*kept, OTHERS), kernels, rest)


def sessions(source: Recorded, rows: int, drift: float, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Kernels (night, session, family, step) and what else the steps hold (night, session, step), in ns."""
    of = source.kernels.shape[1]
    starts = rng.integers(0, of, (rows, 2 * PAIRS, STEPS // BLOCK, 1))
    drawn = ((starts + np.arange(BLOCK)) % of).reshape(rows, 2 * PAIRS, STEPS)
    kernels = np.moveaxis(source.kernels[:, drawn], 0, 2)
    kernels = kernels * np.exp(drift * rng.standard_normal((rows, 2 * PAIRS, 1, 1)))
    loud = rng.standard_normal((rows, 2 * PAIRS, 1)) + rng.standard_normal((rows, 2 * PAIRS, STEPS))
    return kernels, np.maximum(source.rest_ns + NOISE * source.step_ns * loud, 0.0)


def numbers(kernels: Floats, rest: Floats) -> Floats:
    """The metrics of each session: every family, computing, what else there is, the step."""
    computing = kernels.sum(2)
    each = np.concatenate((kernels, computing[:, :, None], rest[:, :, None], (computing + rest)[:, :, None]), axis=2)
    return np.asarray(np.median(each, axis=3))


def check(source: Recorded, kernels: Floats, rest: Floats, found: Floats) -> None:
    """The product gives the same numbers for the same steps."""
    steps = np.arange(STEPS)
    whole = np.rint(kernels).astype(np.int64)
    length = whole.sum(0) + np.rint(rest).astype(np.int64)
    windows = parts.Windows(np.zeros(STEPS, np.int64), steps, np.cumsum(length) - length, length)
    table = parts.Table(windows, dict(zip(source.names, whole, strict=True)), None, {}, {"step_net_ns": length})
    said = {part.metric: part.value for part in parts.told(table)}
    named = [name for name in source.names if parts.KERNEL_NS + name in said]
    assert named, "no kernel is large enough to be named"
    for name, value in zip(source.names, found, strict=False):
        if name in named and name != OTHERS:
            assert abs(said[parts.KERNEL_NS + name] - value) <= 1, (name, said[parts.KERNEL_NS + name], value)
    assert abs(said["step_net_ns"] - found[-1]) <= len(source.names)


@dataclass(frozen=True)
class Told:
    """What was said of some nights."""

    nights: int
    kernel: int  # the kernel that was made slower is told
    any: int  # any metric of the task is
    step: int  # the step is, judged alone


def told(source: Recorded, rows: int, drift: float, seed: int) -> tuple[Told, Told]:
    """Nights in which nothing changed, and the same nights with one kernel that costs WORTH of the step more."""
    rng = np.random.default_rng([seed, round(drift * 10_000), len(source.names)])
    large = np.flatnonzero(source.shares[:-1] >= LEAST)
    said = []
    for lot in range(0, rows, LOT):
        count = min(LOT, rows - lot)
        kernels, rest = sessions(source, count, drift, rng)
        which = rng.choice(large, count)
        calm = numbers(kernels, rest)
        for night, family in enumerate(which.tolist()):
            middle = float(np.median(source.kernels[family]))
            kernels[night, PAIRS:, family] *= 1 + WORTH * source.step_ns / middle
        slow = numbers(kernels, rest)
        for session in range(CHECKED):
            check(source, kernels[0, -1 - session], rest[0, -1 - session], slow[0, -1 - session])
        for night, family in enumerate(which.tolist()):
            said.append([_judged(found[night], family) for found in (calm, slow)])
    both = np.sum(said, axis=0).tolist()
    return Told(rows, *both[0]), Told(rows, *both[1])


def _judged(found: Floats, family: int) -> tuple[bool, bool, bool]:
    """Whether a night tells that kernel at its first look, any metric at all, and the step by itself."""
    logs = np.log(found[PAIRS:] / found[:PAIRS])
    step = np.arange(logs.shape[1]) == logs.shape[1] - 1
    p = looks.p_values(logs.T)[:, None]
    moved = looks.moved(p, step, 0, looks.jointly_at_first(list(logs.T), step, 0))[:, 0]
    alone = verdict.judge(logs[:, -1].tolist()).said in ("regressed", "improved")
    return bool(moved[family] and np.median(logs[:, family]) > 0), bool(moved.any()), alone


# A real capture warped in time: everything later moves, and nothing else changes.
@dataclass(frozen=True)
class Warp:
    """Stretches of time that are made longer: ``more`` ns are spread over each."""

    starts: Sequence[int]
    ends: Sequence[int]
    more: Sequence[int]

    def at(self, ns: int) -> int:
        """The new moment of an old one."""
        inside = (
            more * min(max(ns - start, 0), end - start) // (end - start)
            for start, end, more in zip(self.starts, self.ends, self.more, strict=True)
        )
        return ns + sum(inside)


def _ns(text: Decimal | int) -> int:
    return int(Decimal(text) * 1000)


def warped(events: Sequence[dict[str, object]], warp: Warp) -> str:
    """The capture with every stamp moved; stamps are written as decimal numbers."""
    edges = sorted({ns for event in events if "ts" in event for ns in _edges(event)})
    moved = {ns: warp.at(ns) for ns in edges}
    found = []
    for event in events:
        if "ts" not in event:
            found.append(event)
            continue
        start, end = (moved[ns] for ns in _edges(event))
        said = {"ts": f"@{start // 1000}.{start % 1000:03d}@"}
        if "dur" in event:
            said["dur"] = f"@{(end - start) // 1000}.{(end - start) % 1000:03d}@"
        found.append({**event, **said})
    return re.sub(r'"@([\d.]+)@"', r"\1", json.dumps(found, default=str))


def _edges(event: dict[str, object]) -> tuple[int, int]:
    start = _ns(event["ts"])  # type: ignore[arg-type]
    return start, start + _ns(event.get("dur", 0))  # type: ignore[arg-type]


@dataclass(frozen=True)
class EndToEnd:
    """Ten pairs of warped captures, loaded and measured."""

    p: float  # of the kernel that was made slower
    ratio: float  # head / base of it
    noise: float  # standard deviation of the step from session to session, as a share
    others: float  # the largest |log| of any other named kernel, which must be 0
    step: str  # the word of the step
    seconds: float


def end_to_end(capture: Path, kernel: str, rng: np.random.Generator, pairs: int = PAIRS) -> EndToEnd:
    """Head's kernel takes more, and the gaps of every session are longer by chance; both through loading and of_run."""
    document = json.loads(capture.read_text(), parse_float=Decimal)
    events = document["traceEvents"]
    mine = sorted(_edges(event) for event in events if event.get("cat") == "kernel" and event["name"] == kernel)
    busy = sorted(_edges(event) for event in events if str(event.get("cat")).startswith(("kernel", "gpu_mem")))
    gaps = [(end, start) for (_, end), (start, _) in zip(busy[:-1], busy[1:], strict=True) if start > end]
    began, said = time.process_time(), []
    for side in range(2 * pairs):
        slower = [(start, end, int((end - start) * SLOWER) if side >= pairs else 0) for start, end in mine]
        wait = abs(rng.standard_normal()) * LATE_NS
        idle = [(start, end, int(wait * rng.exponential())) for start, end in gaps]
        starts, ends, more = zip(*sorted(slower + idle), strict=True)
        said.append(_measured(warped(events, Warp(starts, ends, more)), document))
    names = nightly.chosen([one.metrics for one in said[pairs:]], [one.metrics for one in said[:pairs]], ())
    of = sorted(names & said[0].metrics.keys())
    target = parts.KERNEL_NS + kernel
    both = list(zip(said[:pairs], said[pairs:], strict=True))
    logs = {
        name: [math.log(head.metrics[name].value / base.metrics[name].value) for base, head in both]
        for name in (*of, "step_ns")
    }
    p = dict(zip(logs, jointly.together(list(logs.values())), strict=True))
    kernels = [name for name in of if name.startswith(parts.KERNEL_NS) and name != target]
    steps = np.log([one.metrics["step_ns"].value for one in said])
    return EndToEnd(
        p[target], math.exp(float(np.mean(logs[target]))), float(steps.std(ddof=1)),
        max(abs(log) for name in kernels for log in logs[name]), verdict.judge(logs["step_ns"]).said,
        (time.process_time() - began) / (2 * pairs),
    )  # fmt: skip


def _measured(events: str, document: dict[str, object]) -> Result:
    rest = {name: value for name, value in document.items() if name != "traceEvents"}
    with tempfile.TemporaryDirectory() as folder:
        path, store = Path(folder, "warped.pt.trace.json"), Path(folder, "store")
        path.write_text(json.dumps(rest, default=str)[:-1] + f', "traceEvents": {events}}}')
        (run,) = ingest.load(path, store).runs
        assert run.run_id is not None
        return of_run(store, run.run_id)


def tables() -> Iterator[tuple[str, parts.Table]]:
    for title, capture in CAPTURES.items():
        with tempfile.TemporaryDirectory() as folder:
            (run,) = [run for run in ingest.load(TRACES / capture, Path(folder)).runs if run.run_id]
            with runs.open_run(Path(folder), run.run_id or "") as con:
                yield title, parts.measure(con)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.power.own_noise")
    parser.add_argument("--rows", type=int, default=2_000, help="nights of each kind")
    rows = parser.parse_args().rows
    held = True
    for title, table in tables():
        source = recorded(title, table)
        whole, quiet = source.noise
        print(f"{title}: {source.kernels.shape[1]} steps of {source.step_ns / 1e6:.2f} ms, {len(source.names)} kernel "
              f"families; computing varies by {whole:.2%} from step to step, the quietest large family by {quiet:.2%}")
        for drift in DRIFTS:
            calm, slow = told(source, rows, drift, SEED)
            print(f"  kernels drift {drift:.1%}: told {slow.kernel / rows:.2%}, by the step alone "
                  f"{slow.step / rows:.2%}; alarms {calm.any / rows:.2%}, by the step alone {calm.step / rows:.2%}",
                  flush=True)  # fmt: skip
            held &= calm.any / rows <= MOST_FALSE and slow.kernel / rows >= LEAST_POWER
    found = end_to_end(TRACES / WARPED, "ampere_sgemm_128x64_tn", np.random.default_rng(SEED))
    print(f"end to end: {found}")
    exact = abs(found.ratio - 1 - SLOWER) < 1e-4 and found.others == 0
    return 0 if held and exact and found.p <= verdict.RULE.alpha else 1


if __name__ == "__main__":
    sys.exit(main())
