"""The time of a kernel against the cycles that its cores counted.

An AI core counts cycles, and the profiler derives its time from them: cycles = time x clock x blocks. So every kernel
gives the clock, and it is one clock. A kernel cannot be over before its cores are done. In real captures,
these give one clock to 1 %: 1,270 of 1,278 counted cores of 910B at 1.8 GHz, 3,971 of 3,971 at 1.65 GHz, and 546 of
548 of 910A at 1 GHz. All of them end within their kernel. Cores busy for
less than 2 us are left out: their time has three digits.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from npulens.analysis.proof.verdict import Verdict, absent, judged

_SIDES = (
    ("aic", "aicore_time(us)", "aic_total_cycles"), ("aiv", "aiv_time(us)", "aiv_total_cycles"),
    ("all", "aicore_time(us)", "total_cycles"),
)  # fmt: skip
_LEAST_NS, _LEAST_KERNELS = 2_000, 8
#: Share of counted cores that give the clock of most, and by how much they may differ from it.
SAME, WITHIN = 0.97, 0.01
#: Share of cores that are done before their kernel is, give or take a hundredth of it.
INSIDE, OVER = 0.97, 1.02


@dataclass(frozen=True)
class Core:
    """What one kind of core counted of one kernel."""

    dur_ns: int
    core_ns: float
    mhz: float


def cores(con: duckdb.DuckDBPyConnection) -> list[Core]:
    """Every counted core of every kernel that has both time and cycles."""
    kernels: dict[int, tuple[int, str, int, int]] = {}
    counted: dict[int, dict[str, float]] = {}
    for span, metric, value, ns, core, blocks, mix in con.execute(
        """SELECT span_id, metric, value, dur_ns, coalesce(core, ''), coalesce(block_num, 0), coalesce(mix_block_num, 0)
        FROM pmu JOIN span USING (span_id) JOIN kernel USING (span_id)"""
    ).fetchall():
        kernels[span] = (ns, core, blocks, mix)
        counted.setdefault(span, {})[metric] = value
    return list(_cores(kernels, counted))


def _cores(
    kernels: Mapping[int, tuple[int, str, int, int]], counted: Mapping[int, Mapping[str, float]]
) -> Iterable[Core]:  # fmt: skip
    for span, (ns, core, blocks, mix) in kernels.items():
        for side, time, cycles in _SIDES:
            core_ns, count = 1000 * counted[span].get(time, 0.0), counted[span].get(cycles, 0.0)
            main = side == "all" or core in ("AI_CORE", "AI_VECTOR_CORE") or core == f"MIX_{side.upper()}"
            split = blocks if main else mix
            if core_ns >= _LEAST_NS and count > 0 and split:
                yield Core(ns, core_ns, 1000 * count / core_ns / split)


def one_clock(about: str, found: list[Core]) -> Verdict:
    """Whether the cores agree on a clock and on being done in time."""
    if len(found) < _LEAST_KERNELS:
        return absent("cycles", about, "cycles_untold", {"n": len(found)})
    mhz = statistics.median(core.mhz for core in found)
    same = sum(abs(core.mhz / mhz - 1) <= WITHIN for core in found) / len(found)
    inside = sum(core.core_ns <= OVER * core.dur_ns for core in found) / len(found)
    seen = {"n": len(found), "mhz": round(mhz), "same": round(same, 3), "inside": round(inside, 3), "least": SAME}
    return judged("cycles", about, same < SAME or inside < INSIDE, "cycles_agree", seen)
