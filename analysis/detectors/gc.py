"""Python collects garbage while the device waits.

## What it measures
Gaps of the device during Python's garbage collections (the profiler's GC lane). The thread does not matter: a
collection holds the interpreter's lock.

## Why it costs
A collection of the oldest generation walks every object of the process. It stops the host for tens of ms, at moments
that differ from rank to rank. In a distributed job every rank waits for each of them.

## What to do
`gc.collect()` and `gc.freeze()` after start-up, then `gc.disable()` or a higher threshold (`gc.set_threshold`). Add a
`gc.collect()` by hand every so many steps, on all ranks in the same step.

## Limits of the method
Collections are only recorded when the profiler was asked to (gc_detect_threshold); shorter ones than its threshold are
not there.

## References
torch_npu _ExperimentalConfig(gc_detect_threshold); Python's gc module documentation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Words
from npulens.analysis.idle.blame import everywhere
from npulens.analysis.idle.host_names import special
from npulens.analysis.run import Run

NEEDS = ("kernels", "gc")

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: Python's garbage collector stops the host, the device idles {idle_ns} of each step "
            "({idle_share}); {collections} collections, the longest {longest_ns}",
            "After start-up call gc.collect(); gc.freeze(), then gc.disable() or gc.set_threshold(100_000, 50, 1000). "
            "Collect by hand every few hundred steps, in the same step on all ranks.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：Python 垃圾回收使主机停顿，设备每步空闲 {idle_ns}（{idle_share}）；"
            "共 {collections} 次回收，最长 {longest_ns}",
            "启动后调用 gc.collect(); gc.freeze()，再 gc.disable() 或 gc.set_threshold(100_000, 50, 1000)，"
            "每隔几百步在所有卡的同一步手动回收。",
        )
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that lose most."""
    spans, seen = run.get(special), everywhere(run, "gc")
    if seen is None:
        return
    found, change = seen
    lengths = np.concatenate([spans[r].ends[spans[r].of("gc")] - spans[r].starts[spans[r].of("gc")]
                              for r in found.ranks])  # fmt: skip
    numbers = {**found.numbers, "collections": len(lengths), "longest_ns": int(lengths.max())}
    yield Candidate("gc", "found", numbers, found.evidence, change, measured_ns=found.measured_ns)
