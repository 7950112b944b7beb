"""Order and freshness: every clock that an archive holds tells of the same stretch of time.

A recording lies within the run, after the one before it, and its stamps lie within it. The clock that counts from the
start of the machine is as far from the wall clock everywhere. One process has one number, in the trace as in the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb

from npulens.analysis.proof.verdict import Verdict, absent, judged

#: A profiler's stamps are drawn from another clock than the job's own; it is set to the wall clock once. In 25
#: recordings on a CPU all lay within the recording. An NPU's are not known.
STAMP_NS = 50_000_000
#: The wall clock is slewed while a run lasts: by 0.5 ms a second at most, and it is rarely set.
APART_NS = 500_000_000
#: CANN may read the clock that is never slewed, and Python reads the one that is: since the start of the machine they
#: drift apart, by a thousandth at most.
RAW_NS, RAW_RATE = 1_000_000_000, 0.001


@dataclass(frozen=True)
class Moment:
    """The wall clock and the one that counts from the start of the machine."""

    wall_ns: int
    monotonic_ns: int


@dataclass(frozen=True)
class Recorded:
    """What one process says of one recording, and what its capture says."""

    name: str
    part: str
    pid: int
    begun: Moment
    ended: Moment
    first_ns: int | None  # of the capture, since 1970
    last_ns: int | None
    traced_pid: int | None
    started: tuple[int, ...] = ()  # the profiler's own readings of the monotonic clock


def extent(con: duckdb.DuckDBPyConnection, rank: int) -> tuple[int | None, int | None, int | None]:
    """First and last stamp of a rank since 1970, and the process that its capture names."""
    first, last, pid = con.execute(
        "SELECT origin_ns + first_ns, origin_ns + last_ns, pid FROM run, rank WHERE rank = ?", [rank]
    ).fetchall()[0]
    return first, last, pid


def within(one: Recorded) -> Verdict:
    """Whether a capture's stamps are those of its recording, made by the process that says so."""
    if one.first_ns is None or one.last_ns is None:
        return absent("stamps", one.name, "stamps_untold")
    before, after = one.begun.wall_ns - one.first_ns, one.last_ns - one.ended.wall_ns
    least, most = one.begun.monotonic_ns, one.ended.monotonic_ns
    strange = [at for at in one.started if not least - _raw(least) <= at <= most + _raw(most)]
    off = max(before, after)
    other = one.traced_pid is not None and one.traced_pid != one.pid
    seen = {"off_ms": round(max(0, off) / 1e6, 3), "within_ms": STAMP_NS / 1e6, "pid": one.traced_pid, "told": one.pid}
    if other:
        return judged("stamps", one.name, True, "stamps_process", seen)
    return judged("stamps", one.name, off > STAMP_NS or bool(strange), "stamps", seen)


def _raw(at_ns: int) -> int:
    """How far a clock that is never slewed may be from one that is."""
    return RAW_NS + int(at_ns * RAW_RATE)


def in_order(begun: Moment, ended: Moment, recorded: Sequence[Recorded]) -> Verdict:
    """Whether all recordings lie within the run, one after another, by both clocks. Ranks of one recording overlap."""
    if not recorded:
        return absent("order", "", "order_untold")
    apart = begun.wall_ns - begun.monotonic_ns
    moments = [ended, *(moment for one in recorded for moment in (one.begun, one.ended))]
    drift = max(abs(moment.wall_ns - moment.monotonic_ns - apart) for moment in moments)
    wrong: list[str] = []
    for edge in ("wall_ns", "monotonic_ns"):
        before, last, name = getattr(begun, edge), getattr(begun, edge), ""
        for one in recorded:
            first, end = getattr(one.begun, edge), getattr(one.ended, edge)
            if one.name != name:
                before = last
            if before <= first <= end <= getattr(ended, edge):
                last, name = max(last, end), one.name
            else:
                wrong.append(one.name)
    seen = {"n": len(recorded), "drift_ms": round(drift / 1e6, 3), "most_ms": APART_NS / 1e6,
            "wrong": ", ".join(dict.fromkeys(wrong)) or "–"}  # fmt: skip
    return judged("order", "", bool(wrong) or drift > APART_NS, "order", seen)


def same_process(recorded: Sequence[Recorded]) -> Verdict:
    """Whether recordings of one part were made by one process, as that part says."""
    pids: dict[str, set[int]] = {}
    for one in recorded:
        pids.setdefault(one.part, set()).add(one.pid)
    several = sorted(part for part, found in pids.items() if len(found) > 1 and part != "ranks")
    seen = {"n": len(pids), "several": ", ".join(several) or "–"}
    return judged("process", "", bool(several), "process", seen)
