"""The tree of a run's modules, and to which of them every span of the host belongs.

A module's call is a span named "nn.Module: ...". `npulens collect --modules` writes "nn.Module: Linear
(layers.0.mlp.up)". A profiler that records Python frames writes "nn.Module: Linear_3". Where the first kind was
recorded, the second is left out. Where neither was, the stacks of operators tell which modules each was called from. A
frame that torch's `_call_impl` called is a module's. Then a node is a place in the code, and calls are not known.

A node of the tree is a module in one place. What is called in two places has two nodes.

An operator of the backward pass belongs to the module of the operator that it is the gradient of. The profiler's
arrows (fwdbwd) or the autograd sequence numbers tell that one. What accumulates gradients has none, and is not tied.
A module that runs within the backward pass is computed again. It belongs to the node of the forward pass that has its
name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from npulens.analysis.idle.host_spans import NONE, HostSpans, hosts
from npulens.analysis.intervals import Ints
from npulens.analysis.modules.names import MODULE, spoken
from npulens.analysis.run import Run

#: Where a span is that belongs to no module, and where a gradient is whose forward operator is not known.
OUTSIDE, NOT_TIED = -1, -2
FORWARD, BACKWARD, RECOMPUTE = 0, 1, 2
HOOKS, FRAMES, STACKS = "hooks", "frames", "stacks"
_PLAIN, _CALL, _GRADIENT = 0, 1, 2
#: A frame that calls a module's forward function; frames are written innermost first.
_CALLER = re.compile(r"torch/nn/modules/module\.py\(\d+\): (?:_call_impl|__call__)$")
_FRAME = re.compile(r"(?:.*[/\\])?(.+)\.py\((\d+)\): .*", re.DOTALL)
_ENGINE = "autograd::engine::evaluate_function"

_SOURCES = rf"""
    SELECT count(*) FILTER (regexp_full_match(name, '.* \(\S*\)')), count(*) FROM span
    WHERE starts_with(name, '{MODULE}')
"""
_MARKS = rf"""
    SELECT s.rank, s.span_id, s.call, hash(s.name) AS code, coalesce(h.sequence, -1) AS sequence,
        coalesce(h.fwd_thread, 0) AS thread
    FROM (
        SELECT rank, span_id, name, starts_with(name, '{MODULE}') AS call, starts_with(name, '{_ENGINE}') AS engine
        FROM span WHERE rank BETWEEN $1 AND $2
    ) s LEFT JOIN (SELECT span_id, sequence, fwd_thread FROM host_op WHERE rank BETWEEN $1 AND $2 AND sequence >= 0) h
        ON h.span_id = s.span_id
    WHERE CASE WHEN s.call THEN $3 <> '{HOOKS}' OR regexp_full_match(s.name, '.* \(\S*\)') ELSE s.engine
        OR h.fwd_thread > 0
        OR s.span_id IN (SELECT dst_span_id FROM link WHERE route = 'fwdbwd' AND rank BETWEEN $1 AND $2) END
"""
# The same where only stacks of operators are known.
_STACKED = "contains(frames, 'torch/nn/modules/module.py(')"
_MARKS_OF_STACKS = f"""
    SELECT s.rank, s.span_id, t.code IS NOT NULL AND NOT s.engine AND coalesce(h.fwd_thread, 0) = 0 AS call,
        coalesce(t.code, 0) AS code, coalesce(h.sequence, -1) AS sequence, coalesce(h.fwd_thread, 0) AS thread
    FROM (SELECT rank, span_id, starts_with(name, '{_ENGINE}') AS engine FROM span WHERE rank BETWEEN $1 AND $2) s
    LEFT JOIN (SELECT span_id, hash(frames) AS code FROM stack WHERE rank BETWEEN $1 AND $2 AND {_STACKED}) t
        ON t.span_id = s.span_id
    LEFT JOIN (SELECT span_id, sequence, fwd_thread FROM host_op WHERE rank BETWEEN $1 AND $2 AND sequence >= 0) h
        ON h.span_id = s.span_id
    WHERE $3 = '{STACKS}' AND (s.engine OR h.fwd_thread > 0 OR t.code IS NOT NULL
        OR s.span_id IN (SELECT dst_span_id FROM link WHERE route = 'fwdbwd' AND rank BETWEEN $1 AND $2))
"""
_NAMES = f"SELECT DISTINCT hash(name), name FROM span WHERE starts_with(name, '{MODULE}')"
_NAMES_OF_STACKS = f"SELECT DISTINCT hash(frames), frames FROM stack WHERE {_STACKED}"
_ARROWS = "SELECT rank, src_span_id, dst_span_id FROM link WHERE route = 'fwdbwd' AND rank BETWEEN ? AND ?"
# Of the operators with one number the last one made the node of the graph. Threads count for themselves: where two
# have the same number it is not told which one is meant.
_NUMBERS = """
    SELECT h.sequence, arg_max(h.span_id, (s.ts_ns, h.span_id)) AS span_id FROM host_op h JOIN span s USING (span_id)
    WHERE h.rank = ? AND h.sequence >= 0 AND coalesce(h.fwd_thread, 0) = 0
    GROUP BY h.sequence HAVING count(DISTINCT s.track) = 1 ORDER BY h.sequence
"""


@dataclass(frozen=True)
class Node:
    """A module in one place."""

    parent: int  # OUTSIDE: nothing calls it
    type: str  # its class
    name: str  # as its parent knows it
    path: str  # from the root


@dataclass(frozen=True)
class Marked:
    """The host of one rank. Calls of modules and operators of the backward pass are its marks."""

    spans: HostSpans
    near: Ints  # per span: the innermost mark that it is or lies in, as a place in `spans`, or NONE
    call: Any  # per span: whether it is a module's call
    node: Ints  # per mark: its node, OUTSIDE or NOT_TIED
    phase: Ints  # per mark

    def around(self, marks: Ints) -> Ints:
        """The mark that each mark lies in."""
        parent = self.spans.parent[marks].astype(np.int64)
        return np.where(parent == NONE, NONE, self.near[parent])

    def of(self, places: Ints) -> tuple[Ints, Ints]:
        """Node and phase of spans of the host; NONE is outside."""
        near = np.where(places == NONE, NONE, self.near[places]) if len(self.near) else np.full(len(places), NONE)
        if not len(self.near):
            return np.full(len(places), OUTSIDE, np.int64), np.zeros(len(places), np.int64)
        known = near != NONE
        return np.where(known, self.node[near], OUTSIDE), np.where(known, self.phase[near], FORWARD)


@dataclass(frozen=True)
class Tree:
    """The modules of a run, parents before their children."""

    nodes: tuple[Node, ...]
    ranks: dict[int, Marked]
    source: str | None  # HOOKS, FRAMES, STACKS; None: no module was recorded


def tree(run: Run) -> Tree:
    """The modules of a run."""
    hooked, calls = run.con.execute(_SOURCES).fetchall()[0]
    source = HOOKS if hooked else FRAMES if calls else STACKS
    names = run.con.execute(_NAMES_OF_STACKS if source == STACKS else _NAMES).fetchall()
    grown = _Growing({code: _modules_of(text) if source == STACKS else (text,) for code, text in names})
    if not any(grown.names):
        return Tree((), {}, None)
    ranks = {rank: _Rank(run, rank, source, grown).marked() for rank in run.ranks}
    return Tree(tuple(grown.nodes), ranks, source)


def _modules_of(frames: str) -> tuple[str, ...]:
    """The frames of a stack that are modules', outermost first."""
    lines = frames.split("\n")
    return tuple(line for line, by in zip(lines[-2::-1], lines[:0:-1], strict=True) if _CALLER.search(by))


class _Growing:
    """Nodes in the making, the same for all ranks."""

    def __init__(self, names: dict[int, tuple[str, ...]]) -> None:
        self._codes = np.array(sorted(names), np.uint64)
        self.names = [names[code] for code in sorted(names)]  # of a span one, of a stack all its modules
        self._known: dict[tuple[int, str], int] = {}
        self._called: dict[str, list[int]] = {}  # by name: nodes in the order in which they were met
        self.nodes: list[Node] = []

    def numbers(self, codes: Any) -> Ints:
        """Which name each code is; what is no module gets any."""
        return np.asarray(np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1), np.int64)

    def node(self, parent: int, number: int) -> int:
        """The module of a name below another one."""
        for text in self.names[number]:
            parent = self._node(parent, text)
        return parent

    def again(self, number: int, tied: int) -> int:
        """The node of the forward pass that is computed again within the backward pass of another one."""
        node = OUTSIDE
        for text in self.names[number]:
            known = self._called.get(text, []) if node == OUTSIDE else []
            if len(known) > 1:
                above = set(self._above(tied))
                known = [one for one in known if one in above or self.nodes[one].parent == tied] or known
            node = known[0] if known else self._node(node, text)
        return node

    def _node(self, parent: int, text: str) -> int:
        found = self._known.get((parent, text))
        if found is None:
            found = self._known[parent, text] = len(self.nodes)
            self._called.setdefault(text, []).append(found)
            self.nodes.append(self._made(parent, text))
        return found

    def _above(self, node: int) -> Sequence[int]:
        found = []
        while node >= 0:
            found.append(node)
            node = self.nodes[node].parent
        return found

    def _made(self, parent: int, text: str) -> Node:
        above = self.nodes[parent].path if parent >= 0 else ""
        if not text.startswith(MODULE):
            told = _FRAME.fullmatch(text)
            kind, name = (told[1], f"{told[1]}.py({told[2]})") if told else (text, text)
            return Node(parent, kind, name, f"{above}/{name}" if above else name)
        kind, dotted = spoken(text)
        if dotted is None:
            name = text.removeprefix(MODULE)
            return Node(parent, kind, name, f"{above}/{name}" if above else name)
        if not dotted or dotted.startswith("."):  # a root, or a module that its root does not know
            return Node(parent, kind, kind, f"{above}/{kind}" if above else kind + dotted[1:])
        shorter = dotted.removeprefix(f"{above}.") if parent >= 0 else dotted
        return Node(parent, kind, shorter, dotted)


class _Rank:
    """The marks of one rank."""

    def __init__(self, run: Run, rank: int, source: str, grown: _Growing) -> None:
        self._grown, self._spans, self._stacked = grown, run.get(hosts).spans(rank), source == STACKS
        self._order, self._ids = in_order(self._spans.ids)
        rows = run.of_rank(_MARKS_OF_STACKS if self._stacked else _MARKS, rank, source)
        place = self.places(rows["span_id"])
        keep = np.flatnonzero(place != NONE)
        keep = keep[np.argsort(place[keep], kind="stable")]
        self._marks: Ints = place[keep]  # in the order of the host's spans: a mark comes after what it lies in
        self._call = rows["call"][keep].astype(np.bool_)
        self._number = grown.numbers(rows["code"][keep].astype(np.uint64))
        self._key = np.stack((rows["thread"][keep], rows["sequence"][keep])).astype(np.int64)
        self._near = _nearest(self._spans, self._marks)
        mark_of = np.full(len(self._near) + 1, NONE, np.int64)  # place of a span -> which mark it is
        mark_of[self._marks] = np.arange(len(self._marks))
        self._mark_of = mark_of
        parent = self._spans.parent[self._marks].astype(np.int64)
        self._around = mark_of[np.where(parent == NONE, NONE, self._near[parent])]
        self._tied = self._ties(run, rank)

    def places(self, ids: Ints) -> Ints:
        """Where spans are on the host."""
        if not len(self._ids):
            return np.full(len(ids), NONE, np.int64)
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        return np.where(self._ids[at] == ids, self._order[at], NONE).astype(np.int64)

    def marked(self) -> Marked:
        """Every mark with its node and its phase."""
        count = len(self._marks)
        node, phase = np.full(count, NOT_TIED, np.int64), np.full(count, BACKWARD, np.int64)
        calls = np.flatnonzero(self._call)
        around = self._around[calls]
        tops = calls[around == NONE]
        self._grow(node, phase, tops, np.full(len(tops), OUTSIDE), FORWARD)
        within = calls[(around != NONE) & ~self._call[around]]
        if len(within):
            tied = self._forward_of(self._around[within], node)
            pairs, where = np.unique(self._pair(tied, within), return_inverse=True)
            again = [self._grown.again(number, above) for above, number in self._apart(pairs)]
            node[within], phase[within] = np.array(again, np.int64)[where.ravel()], RECOMPUTE
            below = self._called_by(within)
            self._grow(node, phase, below, node[self._around[below]], RECOMPUTE)
        gradients = np.flatnonzero(~self._call)
        node[gradients] = self._forward_of(gradients, node)
        whole = np.full(len(self._near), OUTSIDE, np.int64), np.zeros(len(self._near), np.int64)
        call = np.zeros(len(self._near), np.bool_)
        whole[0][self._marks], whole[1][self._marks], call[self._marks] = node, phase, self._call
        return Marked(self._spans, self._near, call, *whole)

    def _grow(self, node: Ints, phase: Ints, tops: Ints, parents: Ints, as_: int) -> None:
        """Gives calls their nodes below those of their parents, and then level by level all that they call."""
        while len(tops):
            if self._stacked:  # a stack is whole; again is told by the first of its modules
                parents = np.full(len(tops), OUTSIDE, np.int64)
            pairs, where = np.unique(self._pair(parents, tops), return_inverse=True)
            again = self._stacked and as_ == RECOMPUTE
            found = [
                self._grown.again(number, above) if again else self._grown.node(above, number)
                for above, number in self._apart(pairs)
            ]
            node[tops], phase[tops] = np.array(found, np.int64)[where.ravel()], as_
            tops = self._called_by(tops)
            parents = node[self._around[tops]]

    def _pair(self, above: Ints, calls: Ints) -> Ints:
        """Nodes and the names of calls as one number."""
        return (above - NOT_TIED) * len(self._grown.names) + self._number[calls]

    def _apart(self, pairs: Ints) -> list[tuple[int, int]]:
        above, number = np.divmod(pairs, len(self._grown.names))
        return list(zip((above + NOT_TIED).tolist(), number.tolist(), strict=True))

    def _called_by(self, these: Ints) -> Ints:
        """The calls just below these."""
        inside = np.zeros(len(self._marks) + 1, np.bool_)
        inside[these] = True
        return np.flatnonzero(self._call & inside[self._around])

    def _forward_of(self, gradients: Ints, node: Ints) -> Ints:
        """The nodes whose gradients these marks compute."""
        forward = self._tied[gradients]
        mark = self._mark_of[np.where(forward == NONE, NONE, self._near[forward])]
        inside = (mark != NONE) & self._call[mark]
        found = np.where(inside, node[mark], np.where((forward != NONE) & (mark == NONE), OUTSIDE, NOT_TIED))
        return np.asarray(found, np.int64)

    def _ties(self, run: Run, rank: int) -> Ints:
        """Per mark the place of the forward operator that it is the gradient of, or NONE."""
        tied = np.full(len(self._marks), NONE, np.int64)
        if not len(tied):
            return tied
        arrows = run.of_rank(_ARROWS, rank)
        source, mark = self.places(arrows["src_span_id"]), self._mark_of[self.places(arrows["dst_span_id"])]
        there = (source != NONE) & (mark != NONE)
        tied[mark[there]] = source[there]
        numbered = ~self._call & (self._key[0] > 0) & (self._key[1] >= 0)
        key = np.zeros(len(tied), np.int64)
        if numbered.any():
            key[numbered] = np.unique(self._key[:, numbered], axis=1, return_inverse=True)[1].ravel()
        by_key = np.full(int(key.max()) + 1, NONE, np.int64)
        told = np.flatnonzero(numbered & (tied != NONE))
        by_key[key[told]] = tied[told]
        open_ = np.flatnonzero(numbered & (tied == NONE))
        tied[open_] = by_key[key[open_]]
        open_ = open_[tied[open_] == NONE]
        if len(open_):
            tied[open_] = self._by_number(run, rank, open_)
        # The engine's own span has no number where torch_npu writes it: the operator within it has.
        inner = np.flatnonzero(numbered & (tied != NONE) & (self._around != NONE))
        outer = self._around[inner]
        empty = ~self._call[outer] & (tied[outer] == NONE) & ~numbered[outer]
        tied[outer[empty]] = tied[inner[empty]]
        return tied

    def _by_number(self, run: Run, rank: int, these: Ints) -> Ints:
        told = run.columns(_NUMBERS, [rank])
        if not len(told["sequence"]):
            return np.full(len(these), NONE, np.int64)
        wanted = self._key[1][these]
        at = np.minimum(np.searchsorted(told["sequence"], wanted), len(told["sequence"]) - 1)
        place = np.where(told["sequence"][at] == wanted, self.places(told["span_id"][at]), NONE)
        earlier = (place != NONE) & (self._spans.starts[place] <= self._spans.starts[self._marks[these]])
        return np.where(earlier, place, NONE).astype(np.int64)


def in_order(ids: Ints) -> tuple[Ints, Ints]:
    """Where each span is, and its id, in the order of ids."""
    order = np.arange(len(ids)) if (np.diff(ids) > 0).all() else np.argsort(ids, kind="stable")
    return order, ids[order]


def _nearest(spans: HostSpans, marks: Ints) -> Ints:
    """Per span the innermost mark that it is or lies in, as a place, or NONE. Each look doubles how far it goes."""
    count = len(spans.ids)
    up = np.where(spans.parent == NONE, count, spans.parent).astype(np.int64)
    up = np.append(up, count)
    up[marks] = marks
    while True:
        further = up[up]
        if (further == up).all():
            break
        up = further
    found = up[:count]
    return np.where(found == count, NONE, found)
