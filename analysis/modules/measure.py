"""What each module of a run costs: calls, time of the host and the device, memory, work and roof.

`modules(con)` gives a `Modules`. Its `rows` are the tree in the order in which it is drawn: a module, then what it
calls, by first call. A row has

    id, parent, depth   its place in `rows`, that of what calls it (-1: nothing does), and how deep it lies
    name, path, type    as its parent knows it, from the root, and its class
    calls, recomputed   calls in the forward and in the backward pass
    own, total          figures without the modules that it calls, and with them

The last rows may be no modules, as `place` says: `outside` is what no module did. `not_tied` is the part of the
backward pass whose module is not known.

The `own` of all rows sum to the run, to the nanosecond. `kernel_ns` is the time of its kernels, `kernels` their number.
`device_ns` is the time in which any kernel of a rank ran. All figures are of the whole run and all of its ranks.
`steps` and `ranks` say what to divide by.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from typing import Any

import duckdb
import msgspec
import numpy as np
import pyarrow as pa

from npulens.analysis import views
from npulens.analysis.device.kernels import Kernels, kernels
from npulens.analysis.idle.host_spans import NONE, hosts
from npulens.analysis.intervals import Ints
from npulens.analysis.modules.tree import (
    BACKWARD,
    FORWARD,
    NOT_TIED,
    OUTSIDE,
    RECOMPUTE,
    STACKS,
    Marked,
    Node,
    in_order,
    tree,
)
from npulens.analysis.regression.pieces import first_come, sources
from npulens.analysis.run import Run
from npulens.analysis.selection.pane import answered
from npulens.analysis.work.operators import operators

#: What records modules.
COLLECT_WITH = "npulens collect --modules"
#: What is kept of a large run.
KEPT = "module_sum"
_MEMORY = (
    "SELECT rank, ts_ns, bytes FROM memory_event WHERE rank BETWEEN ? AND ? AND bytes > 0 AND ts_ns IS NOT NULL"
)


@dataclass(frozen=True)
class Figures:
    """Whole numbers, so that they add up."""

    kernels: int
    kernel_ns: int  # time of kernels, each for itself
    device_ns: int  # time in which kernels ran; of two at the same time the one that began first has it
    forward_ns: int  # of device_ns
    backward_ns: int
    recompute_ns: int
    host_forward_ns: int  # time of the host within calls of the forward pass
    host_backward_ns: int  # within operators of the backward pass
    host_recompute_ns: int
    allocated_bytes: int  # asked of the allocator, whether or not it was given back; see Modules.memory
    flops: int  # of kernels whose operations and bytes are both known
    bytes: int
    known_ns: int  # kernel_ns of those
    roof_ns: int  # the least time of kernels whose every roof is known
    roofed_ns: int  # kernel_ns of those

    @property
    def intensity(self) -> float | None:
        """Operations for each byte."""
        return self.flops / self.bytes if self.bytes else None

    @property
    def share(self) -> float | None:
        """Of the roof, where it is known; above 1 the roof or the model is wrong, and it is None."""
        told = self.roof_ns / self.roofed_ns if self.roofed_ns else None
        return told if told is not None and told <= 1 else None

    @property
    def above(self) -> float | None:
        """What the share would be, where it is above 1."""
        told = self.roof_ns / self.roofed_ns if self.roofed_ns else None
        return told if told is not None and told > 1 else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "intensity": self.intensity, "share": self.share, "above": self.above}


NAMES = tuple(field.name for field in fields(Figures))
ZERO = Figures(*([0] * len(NAMES)))


@dataclass(frozen=True)
class Module:
    """One row."""

    id: int
    parent: int
    depth: int
    place: str  # 'module', 'outside', 'not_tied'
    type: str
    name: str
    path: str
    calls: int
    recomputed: int
    own: Figures
    total: Figures

    def as_dict(self) -> dict[str, Any]:
        plain = {field.name: getattr(self, field.name) for field in fields(self)[:-2]}
        return {**plain, "own": self.own.as_dict(), "total": self.total.as_dict()}


@dataclass(frozen=True)
class Modules:
    """The tree with its figures."""

    rows: tuple[Module, ...]
    # 'hooks' (npulens collect --modules), 'frames' (a profiler with Python frames), 'stacks' (of operators only: a row
    # is a place in the code, and calls are 0, not known); None: none of these
    source: str | None
    steps: int
    ranks: tuple[int, ...]
    memory: bool  # whether allocations were recorded
    whole: Figures  # of all rows
    collect_with: str | None  # what records modules, where none were

    def below(self, row: int) -> Iterable[Module]:
        """The modules that a row calls; -1: the top."""
        return (one for one in self.rows if one.parent == row)

    def as_dict(self) -> dict[str, Any]:
        return {
            "source": self.source, "steps": self.steps, "ranks": list(self.ranks), "memory": self.memory,
            "collect_with": self.collect_with, "whole": self.whole.as_dict(),
            "rows": [row.as_dict() for row in self.rows],
        }  # fmt: skip


def modules(con: duckdb.DuckDBPyConnection, ranks: tuple[int, ...] | None = None) -> Modules:
    """The modules of a run; of some ranks only, where they are given."""
    views.install(con)
    return of_run(Run.of(con), ranks)


def of_run(run: Run, ranks: tuple[int, ...] | None = None) -> Modules:
    """The same of a run that is open already, as it is kept of a large one."""
    if ranks is None and answered(run.con, KEPT):
        ((said,),) = run.con.execute(f"SELECT said FROM {KEPT}").fetchall()
        return msgspec.convert(json.loads(said), Modules)
    return _measured(run, ranks)


def answer(run: Run) -> pa.Table:
    """All modules as they are kept: one text."""
    return pa.table({"said": [json.dumps(asdict(_measured(run, None)))]})


def _measured(run: Run, ranks: tuple[int, ...] | None) -> Modules:
    grown = run.get(tree)
    chosen = tuple(rank for rank in run.ranks if ranks is None or rank in ranks)
    if grown.source is None:
        return Modules((), None, run.step_count, chosen, False, ZERO, COLLECT_WITH)
    sums = _Sums(len(grown.nodes))
    memory = False
    for rank in chosen:
        marked = grown.ranks[rank]
        sums.host(marked, grown.source != STACKS)
        sums.kernels(run, rank, marked)
        memory |= sums.memory(run, rank, marked)
    rows, whole = _rows(grown.nodes, sums)
    return Modules(rows, grown.source, run.step_count, chosen, memory, whole, None)


class _Sums:
    """Figures of every node, without those below it; the last two are `outside` and `not_tied`."""

    def __init__(self, nodes: int) -> None:
        self.own = {name: np.zeros(nodes + 2, np.int64) for name in NAMES}
        self.calls, self.recomputed = np.zeros(nodes + 2, np.int64), np.zeros(nodes + 2, np.int64)
        self.first = np.full(nodes + 2, np.iinfo(np.int64).max)  # when it was called first
        self.seen = np.zeros(nodes + 2, np.bool_)

    def _add(self, name: str, node: Ints, amounts: Ints) -> None:
        np.add.at(self.own[name], node, amounts)

    def host(self, marked: Marked, called: bool) -> None:
        """Calls, and the time of marks without the marks within them."""
        marks = np.flatnonzero(marked.near == np.arange(len(marked.near)))
        spans, around = marked.spans, marked.around(marks)
        own = np.zeros(len(marked.near), np.int64)
        own[marks] = spans.ends[marks] - spans.starts[marks]
        inner = around != NONE
        overlap = np.minimum(spans.ends[marks], spans.ends[around]) - spans.starts[marks]
        np.subtract.at(own, around[inner], overlap[inner])
        node, phase = marked.node[marks], marked.phase[marks]
        for code, name in ((FORWARD, "forward"), (BACKWARD, "backward"), (RECOMPUTE, "recompute")):
            these = phase == code
            self._add(f"host_{name}_ns", node[these], own[marks[these]])
        call = marked.call[marks]
        if called:
            np.add.at(self.calls, node[call & (phase == FORWARD)], 1)
            np.add.at(self.recomputed, node[call & (phase == RECOMPUTE)], 1)
        np.minimum.at(self.first, node[call], spans.starts[marks[call]])
        self.seen[node[call]] = True

    def kernels(self, run: Run, rank: int, marked: Marked) -> None:
        """Device time, and what the device was asked to do."""
        every, does = run.get(kernels), run.get(operators)
        mine = np.flatnonzero(every.rank == rank)
        if not len(mine):
            return
        node, phase = marked.of(_launched(run, rank, every, mine, marked))
        self._add("kernels", node, np.ones(len(mine), np.int64))
        self._add("kernel_ns", node, every.dur[mine])
        order = np.lexsort((-every.dur[mine], every.ts[mine]))
        ends = every.end[mine][order]
        owned = np.zeros(len(mine), np.int64)
        owned[order] = np.maximum(0, ends - first_come(every.ts[mine][order], ends))
        self._add("device_ns", node, owned)
        for code, name in ((FORWARD, "forward_ns"), (BACKWARD, "backward_ns"), (RECOMPUTE, "recompute_ns")):
            these = phase == code
            self._add(name, node[these], owned[these])
        known = [one.work.flops is not None and one.work.bytes is not None for one in does.every]
        roofed = [one.complete and one.roof_ns is not None for one in does.every]
        of, first = does.of[mine], does.first[mine]
        for name, told, amounts, once in (
            ("flops", known, [one.work.flops or 0 for one in does.every], True),
            ("bytes", known, [one.work.bytes or 0 for one in does.every], True),
            ("known_ns", known, None, False),
            ("roof_ns", roofed, [round(one.roof_ns or 0) for one in does.every], True),
            ("roofed_ns", roofed, None, False),
        ):
            rows = np.flatnonzero(np.array(told, np.bool_)[of] & (first if once else True))
            self._add(name, node[rows], every.dur[mine][rows] if amounts is None else _whole(amounts)[of[rows]])

    def memory(self, run: Run, rank: int, marked: Marked) -> bool:
        """What was allocated while a module was at work; whether that was recorded."""
        found = run.of_rank(_MEMORY, rank)
        if not len(found["ts_ns"]):
            return False
        threads = run.get(hosts).threads.get(rank)
        tracks = threads.tracks(threads.issuing) if threads is not None else []
        node, _ = marked.of(marked.spans.latest(tracks, found["ts_ns"].astype(np.int64)))
        self._add("allocated_bytes", node, found["bytes"].astype(np.int64))
        return True


def _whole(amounts: list[int]) -> Ints:
    """Amounts that may be hostile: what no column can hold is cut."""
    return np.array([min(one, 2**53) for one in amounts], np.int64)


def _launched(run: Run, rank: int, every: Kernels, mine: Ints, marked: Marked) -> Ints:
    """Where on the host each kernel was launched: as links say, else as the profiler says."""
    told = sources(run, rank, every.span_id[mine])
    told = np.where(told == NONE, every.host[mine], told)
    order, ids = in_order(marked.spans.ids)
    if not len(ids):
        return np.full(len(mine), NONE, np.int64)
    at = np.minimum(np.searchsorted(ids, told), len(ids) - 1)
    return np.where(ids[at] == told, order[at], NONE).astype(np.int64)


# ---- The tree as rows


def _rows(nodes: tuple[Node, ...], sums: _Sums) -> tuple[tuple[Module, ...], Figures]:
    total = {name: amounts.copy() for name, amounts in sums.own.items()}
    for node in range(len(nodes) - 1, -1, -1):  # parents come before their children
        parent = nodes[node].parent
        if parent != OUTSIDE:
            sums.seen[parent] |= sums.seen[node]
            sums.first[parent] = min(sums.first[parent], sums.first[node])
            for amounts in total.values():
                amounts[parent] += amounts[node]
    below: dict[int, list[int]] = {}
    for node in np.argsort(sums.first[: len(nodes)], kind="stable").tolist():
        if sums.seen[node]:
            below.setdefault(nodes[node].parent, []).append(node)
    found: list[Module] = []
    open_ = [(node, -1, 0) for node in reversed(below.get(OUTSIDE, []))]
    while open_:
        node, parent, depth = open_.pop()
        one, at = nodes[node], len(found)
        found.append(Module(
            at, parent, depth, "module", one.type, one.name, one.path, int(sums.calls[node]),
            int(sums.recomputed[node]), _figures(sums.own, node), _figures(total, node),
        ))  # fmt: skip
        open_ += [(child, at, depth + 1) for child in reversed(below.get(node, []))]
    for place, node in (("outside", OUTSIDE), ("not_tied", NOT_TIED)):
        own = _figures(sums.own, node)
        if own != ZERO:
            found.append(Module(len(found), -1, 0, place, "", place, place, 0, 0, own, own))
    return tuple(found), Figures(*(int(sums.own[name].sum()) for name in NAMES))


def _figures(amounts: dict[str, Ints], node: int) -> Figures:
    return Figures(*(int(amounts[name][node]) for name in NAMES))
