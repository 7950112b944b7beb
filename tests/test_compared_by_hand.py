"""Real pairs of captures compared once more with nothing but json and csv: the figures of docs/compared.md.

Every stretch between two edges of anything is given to whoever runs in it, one stretch after the other: another way to
the same sums as that of analysis/regression/pieces.py.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.regression.change import change
from npulens.analysis.regression.pieces import Measured, measure
from npulens.analysis.views import install
from npulens.ingest.store import runs as stores

#: kind, name, begin, end in ns
Work = tuple[str, str, int, int]
V100 = ("pytorch+kineto@hist-d3fb4076/tb_plugin/samples/resnet50_num_workers_0/worker0.pt.trace.json.gz",
        "pytorch+kineto@hist-234cf25d/tb_plugin/samples/resnet50_num_workers_4/worker0.1623212756351.pt.trace.json.gz")
NSFW = tuple(f"AMD-AGI+TraceLens/tests/traces/{name}/Falconsai_nsfw_image_detection__1016002.json.gz"
             for name in ("h100", "mi300"))  # fmt: skip
ASCEND = tuple(f"Ascend+msinsight/test/data/pytorch/text/{level}" for level in ("level1", "level2"))
KINDS = {"kernel": "kernel", "gpu_memset": "kernel", "gpu_memcpy": "copy"}


@dataclass(frozen=True)
class ByHand:
    """Steps as (begin, end), and time by kind and name of all steps together."""

    steps: list[tuple[int, int]]
    owned: Counter[tuple[str, str]]

    @property
    def mean_ns(self) -> int:
        return sum(end - begin for begin, end in self.steps) // len(self.steps)

    def per_step(self, kind: str, name: str = "") -> float:
        return sum(ns for (k, n), ns in self.owned.items() if k == kind and (not name or n == name)) / len(self.steps)


def ns(text: str) -> int:
    return int(Decimal(text) * 1000)


def owned(work: Sequence[Work], begin: int, end: int) -> Counter[tuple[str, str]]:
    """Who owns each stretch of a window: of kernels running the one that began first (the longer of two), else of
    collectives, else of copies, else nobody."""
    inside = sorted((one for one in work if one[2] < end and one[3] > begin), key=lambda one: one[2])
    edges = sorted({begin, end, *(max(begin, one[2]) for one in inside), *(min(end, one[3]) for one in inside)})
    found: Counter[tuple[str, str]] = Counter()
    running: list[Work] = []
    come = 0
    for here, after in zip(edges, edges[1:], strict=False):
        while come < len(inside) and inside[come][2] <= here:
            running.append(inside[come])
            come += 1
        running = [one for one in running if one[3] > here]
        first = next((min(mine, key=lambda one: (one[2], -one[3])) for kind in ("kernel", "communication", "copy")
                      if (mine := [one for one in running if one[0] == kind])), None)  # fmt: skip
        found[first[:2] if first else ("gap", "")] += after - here
    return found


def kineto(path: Path) -> ByHand:
    """Steps run from one ProfilerStep to the next, the last to its end or that of the last device span."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        events = json.load(file, parse_float=str, parse_int=str)["traceEvents"]
    work: list[Work] = []
    marks: list[tuple[int, int]] = []
    for event in events:
        if event.get("ph") != "X":
            continue
        begin = ns(event["ts"])
        end = begin + ns(event["dur"])
        if (kind := KINDS.get(event.get("cat", "").lower())) or event.get("cat") in ("Kernel", "Memcpy", "Memset"):
            work.append((kind or {"Memcpy": "copy"}.get(event["cat"], "kernel"), event["name"], begin, end))
        elif event["name"].startswith("ProfilerStep#") and event.get("cat", "").lower() in (
            "user_annotation", "operator", "cpu_op"
        ):  # fmt: skip
            marks.append((begin, end))
    marks.sort()
    last = max(marks[-1][1], max(one[3] for one in work))
    steps = [(begin, after) for (begin, _), (after, _) in zip(marks, [*marks[1:], (last, 0)], strict=True)]
    return ByHand(steps, sum((owned(work, *step) for step in steps), Counter()))


def ascend(path: Path) -> ByHand:
    """Kernels and collectives of kernel_details.csv, copies and steps of trace_view.json; both ranks."""
    found, steps = Counter[tuple[str, str]](), []
    for folder in sorted(path.glob("*_ascend_pt/ASCEND_PROFILER_OUTPUT")):
        work: list[Work] = []
        with (folder / "kernel_details.csv").open(newline="") as file:
            for row in csv.DictReader(file):
                begin, length = ns(row["Start Time(us)"].strip()), ns(row["Duration(us)"].strip())
                kind = "communication" if row["Accelerator Core"] == "HCCL" else "kernel"
                work.append((kind, row["Type"], begin, begin + length))
        events: list[dict[str, Any]] = json.loads((folder / "trace_view.json").read_text(), parse_float=str,
                                                  parse_int=str)  # fmt: skip
        for event in events:
            if event["ph"] == "X" and event["name"] == "MEMCPY_ASYNC":
                begin = ns(event["ts"])
                work.append(("copy", event["name"], begin, begin + ns(event["dur"])))
        mark = next(event for event in events if event["name"].startswith("ProfilerStep#"))
        begin = ns(mark["ts"])
        step = begin, max(begin + ns(mark["dur"]), max(one[3] for one in work))
        steps.append(step)
        found += owned(work, *step)
    return ByHand(steps, found)


def ours(path: Path, store: Path) -> Measured:
    run = ingest.load(path, store).runs[0]
    con = stores.open_run(store, str(run.run_id))
    install(con)
    return measure(con)


@pytest.mark.shared
@pytest.mark.parametrize(("pair", "by_hand", "off"), [(V100, kineto, 1), (NSFW, kineto, 1), (ASCEND, ascend, 100)],
                         ids=["v100", "nsfw", "ascend"])  # fmt: skip
def test_real_pairs_by_hand(
    pair: tuple[str, str], by_hand: Any, off: int, shared_traces: Path, store_dir: Path
) -> None:
    """``off``: kernel_details.csv and trace_view.json differ by a nanosecond here and there."""
    hands = [by_hand(shared_traces / part) for part in pair]
    found = change(*([ours(shared_traces / part, store_dir)] for part in pair))
    assert [found.base_ns, found.head_ns] == [hand.mean_ns for hand in hands] and found.residual_ns == 0
    for kind in ("kernel", "communication", "copy", "gap"):
        assert all(abs(a - hand.per_step(kind)) <= off for a, hand in zip(found.of(kind), hands, strict=True)), kind
    names = [{name for kind, name in hand.owned if kind == "kernel"} for hand in hands]
    told = Counter[str]()
    for one in found.contributions:
        if one.kind == "kernel" and one.what in names[1] and not one.before:
            told[one.what] += one.head_ns
    assert told
    for name, length in told.items():
        assert abs(length - hands[1].per_step("kernel", name)) <= 60 + off, name  # a ns for each of its shapes
