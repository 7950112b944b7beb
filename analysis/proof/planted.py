"""Planted faults: named by our own analysis, and in the capture to the nanosecond or the byte.

A sleep takes at least as long as was asked for, and what encloses it at least as long as the sleep. So that lower bound
is exact, but for the rates of two clocks. Above it, a busy machine wakes a sleeper late, and the loader works too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence

import numpy as np

from npulens.analysis.idle.pieces import idle
from npulens.analysis.proof.verdict import Verdict, absent, judged
from npulens.analysis.run import Run

#: Share of a planted sleep for which the device idles in every step: at its beginning it may still be at work. And what
#: may be there besides in most steps: a busy machine takes the processor away now and then, for 10 to 30 ms.
LEAST, MORE, MORE_NS = 0.9, 1.1, 10_000_000
#: Two clocks of one machine run alike to this share.
RATE = 0.999
#: Every planted copy is at least so large; what is smaller is the job's own.
COPY_BYTES = 1 << 20
#: Bytes of a number, by the name of its type.
_WIDTH = {"float": 4}


def sleeps(
    run: Run, about: str, cause: str, slept: Sequence[int], wanted: Sequence[int], causes: Collection[str],
    name: str | None,
) -> list[Verdict]:  # fmt: skip
    """Idle time of the cause in every step, the span that holds the sleep if there is one, and the finding."""
    rank = run.ranks[0]
    steps = run.steps[rank]
    early = sum(took < asked for took, asked in zip(slept, wanted, strict=False))
    if len(steps) != len(slept) or len(slept) != len(wanted) or early:
        told = {"steps": len(steps), "told": len(slept), "early": early}
        return [judged("planted", about, True, "planted_told", told)]
    idled = run.get(idle).windows(rank, cause)
    begins, ends = (np.array([getattr(step, edge) for step in steps], np.int64) for edge in ("ts_ns", "end_ns"))
    found = [int(ns) for ns in idled.within(begins, ends)]
    less, more = _off(found, slept, LEAST)
    off = max(less, more if 2 * more >= len(slept) else 0)
    seen = {"cause": cause, "planted_ns": sum(slept), "found_ns": sum(found), "steps": len(steps), "off": off}
    verdicts = [judged("planted", about, bool(off), "planted_slept", seen)]
    if name is not None:
        verdicts.append(_spans(run, about, name, slept))
    verdicts.append(named(about, (cause,), causes))
    return verdicts


def _spans(run: Run, about: str, name: str, slept: Sequence[int]) -> Verdict:
    """The spans of that name, one a step."""
    found = [
        int(ns)
        for (ns,) in run.con.execute(
            "SELECT dur_ns FROM span WHERE name = ? AND kind <> 'device_annotation' ORDER BY ts_ns", [name]
        ).fetchall()
    ]
    less, more = _off(found, slept, RATE)
    off = len(found) != len(slept) or less > 0 or 2 * more >= len(slept)
    seen = {"name": name, "planted_ns": sum(slept), "found_ns": sum(found), "spans": len(found)}
    return judged("planted_span", about, off, "planted_span", seen)


def _off(found: Sequence[int], slept: Sequence[int], least: float) -> tuple[int, int]:
    """Of how many sleeps too little is there, and of how many too much."""
    pairs = list(zip(found, slept, strict=False))
    less = sum(ns < least * took for ns, took in pairs)
    return less, sum(ns > MORE * took + MORE_NS for ns, took in pairs)


def named(about: str, wanted: Collection[str], causes: Collection[str]) -> Verdict:
    """Whether our own analysis names what was planted."""
    hit = [cause for cause in causes if cause in wanted]
    seen = {"wanted": "/".join(wanted), "found": ", ".join(causes) or "–"}
    return judged("named", about, not hit, "named", seen)


def copies(run: Run, about: str, wanted: Sequence[Sequence[int]]) -> Verdict:
    """The copies of every step, by their bytes: to the device, or the clones of tensors on a CPU."""
    told = [size for sizes in wanted for size in sizes]
    found = [
        int(size)
        for (size,) in run.con.execute(
            """SELECT bytes FROM transfer JOIN span USING (span_id)
            WHERE direction = 'h2d' AND bytes >= ? AND step IS NOT NULL ORDER BY ts_ns""",
            [COPY_BYTES],
        ).fetchall()
    ]
    if not found:
        found = [size for size in _clones(run) if size >= COPY_BYTES]
    recorded = run.con.execute(
        "SELECT count(*) FROM coverage WHERE table_name = 'transfer' AND status = 'recorded'"
    ).fetchall()[0][0]
    if not found and not recorded and run.con.execute("SELECT backend FROM rank").fetchall() != [("cpu",)]:
        return absent("copied", about, "copied_untold")
    seen = {"planted_bytes": sum(told), "found_bytes": sum(found), "planted": len(told), "found": len(found)}
    return judged("copied", about, found != told, "copied", seen)


def _clones(run: Run) -> list[int]:
    """Bytes of every clone on a CPU, in order: its input's shape and type say them."""
    found = []
    for shapes, kinds in run.con.execute(
        """SELECT input_shapes, input_dtypes FROM host_op JOIN span USING (span_id)
        WHERE name = 'aten::clone' AND step IS NOT NULL AND input_shapes IS NOT NULL ORDER BY ts_ns"""
    ).fetchall():
        first, kind = json.loads(shapes)[:1], json.loads(kinds or "[]")[:1]
        if first and kind and kind[0] in _WIDTH:
            found.append(math.prod(first[0]) * _WIDTH[kind[0]])
    return found


def reduced(run: Run, about: str, wanted: Sequence[Sequence[int]]) -> list[Verdict]:
    """The all-reduces of every rank, by their number and, where recorded, their bytes."""
    told = [size for sizes in wanted for size in sizes]
    verdicts = []
    for rank in run.ranks:
        rows = run.con.execute(
            """SELECT bytes, count, dtype FROM comm JOIN span USING (rank, span_id)
            WHERE rank = ? AND op_span_id = span_id AND collective = 'allreduce' AND step IS NOT NULL ORDER BY ts_ns""",
            [rank],
        ).fetchall()
        sizes = [size for size, _, _ in rows]
        known = bool(rows) and all(size is not None for size in sizes)
        seen = {"rank": rank, "planted": len(told), "found": len(rows), "planted_bytes": sum(told),
                "found_bytes": sum(sizes) if known else None}  # fmt: skip
        verdicts.append(judged("reduced", about, len(rows) != len(told) or (known and sizes != told), "reduced", seen))
    return verdicts
