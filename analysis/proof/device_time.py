"""A step by the device's own events, without a profiler, against its kernels in a recording.

The device cannot be through a step before its kernels have run, and with kernels long enough it is through soon after.
The self-test allows 10 % between the two clocks; on a real NPU that was never measured.
"""

from __future__ import annotations

import statistics

import duckdb

from npulens.analysis.proof.verdict import Verdict, absent, judged

#: Events may say so much less than the kernels' sum in time, and so much more than from the first to the last of them.
LESS, MORE = 0.90, 1.25


def against_kernels(con: duckdb.DuckDBPyConnection, about: str, event_ns: int, backend: str) -> Verdict:
    """The median step of a recording against what the events said."""
    if backend == "cpu":
        return absent("events", about, "events_cpu")
    steps = con.execute(
        """SELECT sum(end_ns - ts_ns), max(end_ns) - min(ts_ns) FROM device_work
        WHERE step IS NOT NULL AND part IN ('computing', 'both') GROUP BY rank, step"""
    ).fetchall()
    if not steps:
        return absent("events", about, "events_untold")
    busy, span = (int(statistics.median(row[at] for row in steps)) for at in (0, 1))
    wrong = event_ns < LESS * busy or event_ns > MORE * span
    seen = {"event_us": round(event_ns / 1e3, 1), "busy_us": round(busy / 1e3, 1), "span_us": round(span / 1e3, 1),
            "less": LESS, "more": MORE}  # fmt: skip
    return judged("events", about, wrong, "events", seen)
