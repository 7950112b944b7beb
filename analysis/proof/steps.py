"""The steps of a recording: where the job itself says they were, and alike.

Whoever recorded read the wall clock before and after each step. The profiler's mark of a step encloses both, and ends
before the next one begins. The same step made again calls the same operators and launches the same kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import duckdb

from npulens.analysis.proof.verdict import Verdict, absent, judged

#: How far the profiler's mark of a step may lie from where the job says it was. In 25 recordings on a busy
#: CPU every mark enclosed its step. A profiler that sets its clock once may be off.
MARK_NS = 5_000_000


def where_they_were(
    con: duckdb.DuckDBPyConnection, about: str, rank: int, steps: Sequence[Sequence[int]]
) -> Verdict:  # fmt: skip
    """The marks against the job's own readings of the clock."""
    found = con.execute(
        """SELECT ts_ns + (SELECT origin_ns FROM run), coalesce(host_dur_ns, dur_ns) FROM step
        WHERE rank = ? ORDER BY ts_ns""",
        [rank],
    ).fetchall()
    if not steps:
        return absent("steps", about, "steps_untold")
    seen: dict[str, object] = {"n": len(found), "told": len(steps), "within_ms": MARK_NS / 1e6, "off_ms": None}
    if len(found) != len(steps):
        return judged("steps", about, True, "steps_where", seen)
    off = 0
    for place, ((ts, ns), (begun, ended)) in enumerate(zip(found, steps, strict=True)):
        off = max(off, ts - begun, ended - (ts + ns))
        if place + 1 < len(steps):
            off = max(off, ts + ns - steps[place + 1][0])
    seen["off_ms"] = round(off / 1e6, 3)
    return judged("steps", about, off > MARK_NS, "steps_where", seen)


def alike(con: duckdb.DuckDBPyConnection, about: str, rank: int) -> Verdict:
    """Every recorded step does the same."""
    work: dict[int, Counter[tuple[str, str]]] = {}
    for step, kind, name, count in con.execute(
        """SELECT step, kind, name, count(*) FROM span
        WHERE rank = ? AND step IS NOT NULL AND kind IN ('cpu_op', 'kernel', 'memcpy', 'memset') GROUP BY ALL""",
        [rank],
    ).fetchall():
        work.setdefault(step, Counter())[(kind, name)] = count
    if len(work) < 2:
        return absent("repeated", about, "repeated_untold")
    usual = Counter(frozenset(of.items()) for of in work.values()).most_common(1)[0][0]
    unlike = {step: Counter(dict(usual)) for step, of in work.items() if frozenset(of.items()) != usual}
    step = min(unlike) if unlike else None
    seen: dict[str, object] = {"n": sum(dict(usual).values()), "steps": len(work), "unlike": len(unlike), "step": step}
    if step is not None:
        more, less = work[step] - unlike[step], unlike[step] - work[step]
        seen["name"] = next(iter((less or more).keys()))[1]
    return judged("repeated", about, bool(unlike), "repeated_alike", seen)
