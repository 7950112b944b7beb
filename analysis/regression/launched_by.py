"""Which operator and which module of the script each kernel came from, as far as launches and frames were recorded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run

#: Operators that only wrap others: everything a compiled region or a wrapper launches would have one name.
WRAPPERS = ("Torch-Compiled Region", "CompiledFunction", "## Call CompiledFxGraph", "DistributedDataParallel")
#: How torch's profiler names a call of a module when it records modules.
MODULE = "nn.Module: "

_LAUNCHES = """
    SELECT l.dst_span_id AS task, arg_min(l.src_span_id, (
        CASE h.kind WHEN 'cpu_op' THEN 0 WHEN 'enqueue' THEN 1 WHEN 'runtime' THEN 2 ELSE 3 END, l.src_span_id
    )) AS source
    FROM link l JOIN span h ON h.span_id = l.src_span_id
    WHERE l.rank = ? AND l.route NOT IN ('fwdbwd', 'task_queue') GROUP BY 1 ORDER BY 1
"""
_NAMED = f"""
    SELECT span_id, CASE WHEN starts_with(name, '{MODULE}') THEN 2 WHEN kind <> 'cpu_op' THEN 0
        WHEN {" OR ".join(f"starts_with(name, '{name}')" for name in WRAPPERS)} THEN 0 ELSE 1 END AS what
    FROM span WHERE rank = ? AND kind IN ('cpu_op', 'python') ORDER BY span_id
"""
_OPERATOR, _MODULE = 1, 2


@dataclass(frozen=True)
class Launchers:
    """Per kernel: spans of the innermost operator, the outermost one and the innermost module; NONE where unknown."""

    inner: Ints
    outer: Ints
    module: Ints


def launchers(run: Run, rank: int, tasks: Ints) -> Launchers:
    """What launched the tasks of a rank."""
    nothing = np.full(len(tasks), NONE, np.int64)
    found = Launchers(nothing.copy(), nothing.copy(), nothing.copy())
    links = run.columns(_LAUNCHES, [rank])
    if not len(links["task"]) or not len(tasks):
        return found
    named = run.columns(_NAMED, [rank])
    spans = run.get(hosts).spans(rank)
    order = np.argsort(spans.ids, kind="stable")
    what = np.zeros(len(spans.ids), np.int8)
    what[order] = _looked_up(spans.ids[order], named["span_id"], named["what"], 0)
    source = _looked_up(tasks, links["task"], links["source"], NONE)
    at = _looked_up(source, spans.ids[order], order, NONE)
    _climb(found, at, what, spans.ids, spans.parent)
    return found


def _climb(found: Launchers, at: Ints, what: Any, ids: Ints, parent: Any) -> None:
    """From the launch up through everything that contains it, all kernels at once."""
    rows = np.flatnonzero(at != NONE)
    at = at[rows]
    while len(rows):
        here, name = what[at], ids[at]
        operator, module = here == _OPERATOR, here == _MODULE
        first = operator & (found.inner[rows] == NONE)
        found.inner[rows[first]] = name[first]
        found.outer[rows[operator]] = name[operator]
        first = module & (found.module[rows] == NONE)
        found.module[rows[first]] = name[first]
        at = parent[at].astype(np.int64)
        rows, at = rows[at != NONE], at[at != NONE]


def _looked_up(keys: Ints, known: Ints, values: Ints, missing: int) -> Ints:
    """The value of each key; ``known`` is sorted."""
    if not len(known):
        return np.full(len(keys), missing, np.int64)
    at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[at] == keys, values[at], missing).astype(np.int64)
