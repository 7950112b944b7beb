"""Signs of a simulator: what no real device and no real host does.

Each is a statistic with a threshold that lies far from everything measured on real captures: 24 ranks of Ascend 910A
and 910B, 2024 to 2025, and 50 traces of NVIDIA, AMD and MTIA devices and of CPUs. The figures stand at each threshold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import duckdb
import numpy as np

from npulens.analysis.proof.cycles import Core
from npulens.analysis.proof.verdict import Verdict, absent, judged

#: A repeated call of the host never takes the same time: the median of the spreads (standard deviation by mean) of all
#: operators with 20 calls of 1 to 200 us. Real: 0.089 at the least, 0.5 to 1.8 on hosts of NPUs. A simulator: 0.012.
JITTER, _CALLS, _CALL_NS = 0.03, 20, (1_000, 200_000)
#: An NPU's stamps are those of its counter, of 10 or 20 ns: so many of the durations are multiples of 10 ns, give or
#: take 1. Real: 0.84 to 1.00. Durations drawn to the nanosecond: 0.30.
GRID_NS, ON_GRID = 10, 0.6
#: No repeated kernel always takes the same nanoseconds: share of those with 8 calls and 2 us that do. Real, where
#: stamps are finer than a microsecond: none of 590.
EQUAL, _KERNELS, _KERNEL_NS = 0.05, 8, 2_000
#: How long a core is busy within its kernel differs from kernel to kernel: the distance of the 5th and the 95th
#: hundredth. Real: 0.20 at the least. A simulator: 0.00.
SPREAD = 0.05


def jitter(captures: Sequence[duckdb.DuckDBPyConnection]) -> Verdict:
    """The host's calls, of all recordings together."""
    spreads = []
    for con in captures:
        calls = defaultdict(list)
        for rank, name, ns in con.execute("SELECT rank, name, dur_ns FROM span WHERE kind = 'cpu_op'").fetchall():
            calls[rank, name].append(ns)
        for times in calls.values():
            if len(times) >= _CALLS and _CALL_NS[0] <= np.median(times) <= _CALL_NS[1]:
                spreads.append(float(np.std(times) / np.mean(times)))
    if len(spreads) < 3:
        return absent("jitter", "", "jitter_untold", {"n": len(spreads)})
    middle = float(np.median(spreads))
    return judged(
        "jitter", "", middle < JITTER, "jitter", {"n": len(spreads), "spread": round(middle, 3), "least": JITTER}
    )


def grid(captures: Sequence[duckdb.DuckDBPyConnection]) -> Verdict:
    """The durations of an NPU's kernels."""
    times = np.array([ns for con in captures for ns in _durations(con)], np.int64)
    if len(times) < 3 * _KERNELS:
        return absent("grid", "", "grid_untold", {"n": len(times)})
    off = times % GRID_NS
    share = float(((off <= 1) | (off >= GRID_NS - 1)).mean())
    seen = {"n": len(times), "share": round(share, 3), "ns": GRID_NS, "least": ON_GRID}
    return judged("grid", "", share < ON_GRID, "grid", seen)


def equal(captures: Sequence[duckdb.DuckDBPyConnection]) -> Verdict:
    """Kernels that always take the same time."""
    same = many = 0
    for con in captures:
        groups = defaultdict(list)
        for *kernel, ns in con.execute(
            "SELECT rank, name, op_type, input_shapes, grid, dur_ns FROM kernel JOIN span USING (rank, span_id)"
        ).fetchall():
            groups[tuple(kernel)].append(ns)
        if all(ns % 1000 == 0 for times in groups.values() for ns in times):
            continue  # stamps of whole microseconds repeat by themselves
        for times in groups.values():
            if len(times) >= _KERNELS and np.median(times) >= _KERNEL_NS:
                many += 1
                same += len(set(times)) == 1
    if many < 3:
        return absent("equal", "", "equal_untold", {"n": many})
    return judged("equal", "", same / many > EQUAL, "equal", {"n": many, "same": same, "most": EQUAL})


def busy_cores(found: Sequence[Core]) -> Verdict:
    """What part of their kernels the cores are busy."""
    if len(found) < 3 * _KERNELS:
        return absent("busy_cores", "", "busy_cores_untold", {"n": len(found)})
    low, high = np.quantile([core.core_ns / core.dur_ns for core in found], [0.05, 0.95])
    seen = {"n": len(found), "low": round(float(low), 3), "high": round(float(high), 3), "least": SPREAD}
    return judged("busy_cores", "", bool(high - low < SPREAD), "busy_cores", seen)


def _durations(con: duckdb.DuckDBPyConnection) -> list[int]:
    return [ns for (ns,) in con.execute("SELECT dur_ns FROM kernel JOIN span USING (span_id)").fetchall()]
