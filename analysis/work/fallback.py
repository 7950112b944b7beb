"""Convolutions that a CPU computed with the framework's own code, which is there for builds without a library.

`aten::_slow_conv2d_forward` and its like copy all patches of the input out, then multiply. They run where a build has
no oneDNN, or where it does not take the inputs. The operator that is called is an ordinary `aten::conv2d`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.device.kernels import Floats, Kernels, kernels
from npulens.analysis.device.kinds import Bools
from npulens.analysis.idle.host_names import names
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run
from npulens.analysis.work.operators import operators

_SLOW = r"^aten::_?(?:slow|thnn)_conv(?:_transpose|_dilated)?[23]d(?:_forward|_backward)?$"
_FALLBACKS = """
    WITH slow AS (
        SELECT track, ts_ns, dur_ns, name, coalesce(lead(ts_ns) OVER within >= ts_ns + dur_ns, true) AS innermost
        FROM span WHERE kind = 'cpu_op' AND list_contains(?, name)
        WINDOW within AS (PARTITION BY track ORDER BY ts_ns, dur_ns DESC, span_id)
    )
    SELECT l.dst_span_id AS task, arg_max(f.name, f.dur_ns) AS name, sum(f.dur_ns)::BIGINT AS ns
    FROM link l JOIN span s ON s.span_id = l.src_span_id JOIN slow f ON f.innermost AND f.track = s.track
        AND f.ts_ns >= s.ts_ns AND f.ts_ns + f.dur_ns <= s.ts_ns + s.dur_ns
    WHERE l.route = 'itself' GROUP BY task ORDER BY task
"""
#: A product with fewer operations says nothing of how fast products are here.
_LEAST = 10_000_000


@dataclass(frozen=True)
class Fallbacks:
    """Tasks of a CPU with such an operator in them."""

    rows: Ints  # places in kernels(run)
    name: tuple[str, ...]  # of each the operator with most time
    ns: Ints  # how long they are in them
    least_ns: Ints | None  # what their work takes at the rate of the best other product; None: not known
    best: str | None  # that product


def fallbacks(run: Run) -> Fallbacks | None:
    """None where there is none."""
    table = run.get(names)
    slow = [name for (name,) in run.con.execute(
        f"SELECT name FROM {table} WHERE kind = 'cpu_op' AND regexp_matches(name, ?) ORDER BY 1", [_SLOW]
    ).fetchall()]  # fmt: skip
    every = run.get(kernels)
    if not slow or not len(every):
        return None
    found = run.columns(_FALLBACKS, [slow])
    order = np.argsort(every.span_id)
    place = np.searchsorted(every.span_id, found["task"].astype(np.int64), sorter=order)
    rows = order[np.minimum(place, len(order) - 1)].astype(np.int64)
    known = every.span_id[rows] == found["task"]
    rows, ns = rows[known], found["ns"].astype(np.int64)[known]
    least, best = _least(run, every, rows, ns)
    return Fallbacks(rows, tuple(found["name"][known].tolist()), ns, least, best) if len(rows) else None


def _least(run: Run, every: Kernels, rows: Ints, ns: Ints) -> tuple[Ints | None, str | None]:
    """What the work of some tasks takes at the rate of the best product besides, if that is faster than they are."""
    done = run.get(operators)
    work: Floats = done.every.columns.work.floats[done.of, 0]
    others: Bools = np.isfinite(work) & (work >= _LEAST) & (every.dur > 0)
    others[rows] = False
    own = work[rows]
    if not others.any() or not np.isfinite(own).all():
        return None, None
    rate = np.where(others, work / np.maximum(every.dur, 1), 0.0)
    at = int(np.argmax(rate))
    if rate[at] * int(ns.sum()) <= own.sum():
        return None, None
    return np.ceil(own / rate[at]).astype(np.int64), done.names[int(done.of[at])]
