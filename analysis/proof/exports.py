"""Two exports of one recording: the same work, by the same names, at the same nanoseconds.

torch_npu writes text and a database. Of torch.profiler the trace is one export, and its events as they were read from
memory are the other. Nothing is rounded on the way of the latter: they are equal to the nanosecond. Text of
torch_npu has microseconds with three digits, made from a float. No public capture has both of its exports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import duckdb

from npulens.analysis.proof.verdict import Verdict, absent, judged

#: What the text export of torch_npu may differ from the database.
ASCEND_NS = 1
#: Lanes that the reader makes of operators on a CPU, and the frame that Kineto draws around everything.
_MADE = "('kernel', 'memset', 'memcpy', 'comm_op', 'comm_task', 'unknown', 'wait')"
#: What both exports of a recording with a device surely have.
_BOTH = "('cpu_op', 'kernel', 'memset', 'memcpy')"
_OURS = "'PyTorch Profiler (0)'"
Event = tuple[str, int, int]


def traced(con: duckdb.DuckDBPyConnection, rank: int) -> list[Event]:
    """Name, start and length of every span that a Kineto trace holds; on a CPU the device's spans are the host's."""
    return [
        (str(name), int(ts), int(ns))
        for name, ts, ns in con.execute(
            f"""SELECT name, ts_ns + (SELECT origin_ns FROM run), dur_ns FROM span
            WHERE rank = ? AND dur_ns > 0 AND CASE (SELECT backend FROM rank r WHERE r.rank = ?)
            WHEN 'cpu' THEN name <> {_OURS} AND kind NOT IN {_MADE} ELSE kind IN {_BOTH} END""",
            [rank, rank],
        ).fetchall()
    ]


def computed(con: duckdb.DuckDBPyConnection) -> list[Event]:
    """The same of the kernels of a device."""
    return [
        (str(name), int(ts), int(ns))
        for name, ts, ns in con.execute(
            "SELECT name, ts_ns + (SELECT origin_ns FROM run), dur_ns FROM span JOIN kernel USING (span_id)"
        ).fetchall()
    ]


def alike(about: str, one: Sequence[Event], other: Sequence[Event], within_ns: int = 0, whole: bool = True) -> Verdict:
    """Whether two exports hold the same events; without ``whole`` only names that the first has are looked at."""
    if not one and not other:
        return absent("exports", about, "exports_empty")
    mine, theirs = _by_name(one), _by_name(other)
    differ, first = 0, None
    for name in sorted(mine.keys() | theirs.keys() if whole else mine.keys()):
        a, b = mine.get(name, []), theirs.get(name, [])
        off = abs(len(a) - len(b)) + sum(
            abs(x[0] - y[0]) > within_ns or abs(x[1] - y[1]) > within_ns for x, y in zip(a, b, strict=False)
        )
        differ += off
        first = first or (name if off else None)
    seen = {"n": len(one), "other": len(other), "differ": differ, "within_ns": within_ns, "name": first}
    return judged("exports", about, bool(differ), "exports_alike", seen)


def _by_name(events: Iterable[Event]) -> dict[str, list[tuple[int, int]]]:
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, ts, ns in events:
        found[name].append((ts, ns))
    for times in found.values():
        times.sort()
    return found
