"""Every transfer of a collective operator, what its likes need, and what operators gain from faster ones.

A transfer is a task that moves data over a link: not a notification, not a copy inside the device's own memory. The
n-th transfers of an operator on all its planes run at once. So the longest of them is what the operator needs for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npulens.analysis.capability import capabilities, held, setting
from npulens.analysis.device.kernels import Floats
from npulens.analysis.device.kinds import Bools
from npulens.analysis.finding import Change, Evidence, NotMeasured
from npulens.analysis.intervals import EMPTY, Ints
from npulens.analysis.limits import COVERED
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.run import Run
from npulens.analysis.say import number

#: Level1 writes a notification by RDMA as a send of up to so many bytes.
_NOTIFICATION_BYTES = 8
_MOST = 20

_PACKETS = f"""
SELECT s.span_id, s.rank, c.op_span_id, s.ts_ns, s.dur_ns, c.bytes,
    coalesce(c.dst_rank, c.dst_local, -1) AS dst, coalesce(c.src_rank, c.src_local, -1) AS src,
    coalesce(c.plane, -1) AS plane, coalesce(c.task_type, s.name) AS what, coalesce(c.transport, '') AS transport,
    coalesce(c.link_type, c.transport, '') AS link
FROM comm c JOIN span s USING (span_id) JOIN comm_task t USING (span_id)
WHERE t.part = 'transfer' AND c.op_span_id IS NOT NULL AND c.bytes > {_NOTIFICATION_BYTES} AND s.dur_ns > 0
    AND NOT regexp_matches(coalesce(c.link_type, c.transport, ''), '^(ON_CHIP|LOCAL)$')
ORDER BY s.ts_ns, s.span_id
"""


@dataclass(frozen=True)
class Packets:
    """One row per transfer, by start."""

    span_id: Ints
    rank: Ints
    op: Ints  # row of its operator in `collectives(run)`
    ts: Ints
    dur: Ints
    bytes: Ints
    peer: Ints  # the other rank; -1: not recorded
    phase: Ints  # transfers of one operator that run at once share a number
    link: Ints  # of `links`: what it crosses
    what: Ints  # kind of task and link: only transfers of one kind are compared
    bare: Ints  # ns in which nothing is computed beside it
    links: tuple[str, ...]
    rdma: Bools

    def __len__(self) -> int:
        return len(self.span_id)

    @property
    def end(self) -> Ints:
        return self.ts + self.dur

    @property
    def rate(self) -> Floats:
        """Bytes per ns, which is GB/s."""
        return np.asarray(self.bytes / self.dur)

    @property
    def bare_ns(self) -> int:
        """Of the rank that has most: time in transfers with nothing computed beside them, each plane counted."""
        ranks, of = np.unique(self.rank, return_inverse=True)
        return int(np.bincount(of, self.bare, len(ranks)).max(initial=0))

    @property
    def size(self) -> Ints:
        """Size class: from a power of two up to the next."""
        return np.asarray(np.log2(np.maximum(self.bytes, 1)).astype(np.int64))


def packets(run: Run) -> Packets:
    """The run's transfers."""
    rows = run.columns(_PACKETS)
    op = run.get(collectives).at(np.asarray(rows["op_span_id"]).astype(np.int64))
    rows = {name: np.asarray(values)[op >= 0] for name, values in rows.items()}
    span, rank, ts, dur, size, dst, src, plane = (
        rows[name].astype(np.int64) for name in ("span_id", "rank", "ts_ns", "dur_ns", "bytes", "dst", "src", "plane")
    )
    op, crossed, transport = op[op >= 0], rows["link"].tolist(), rows["transport"].tolist()
    links, link = _codes(crossed)
    kinds, kind = _codes(rows["what"].tolist())
    pairs, pair = np.unique(kind * max(1, len(links)) + link, return_inverse=True)
    _, of_pair = _codes([f"{kinds[one // len(links)]}/{links[one % len(links)]}" for one in pairs.tolist()])
    what = of_pair[pair.ravel()]
    by_rdma = {text: "RDMA" in text.upper() for text in set(transport)}
    bare = dur.copy()
    for one in np.unique(rank).tolist():
        mine, computing = rank == one, run.activity(one).computing or EMPTY
        bare[mine] -= computing.within(ts[mine], ts[mine] + dur[mine])
    return Packets(
        span, rank, op, ts, dur, size, np.where(dst == rank, src, dst), _phases(op, plane), link, what, bare, links,
        np.array([by_rdma[text] for text in transport], np.bool_),
    )  # fmt: skip


def _codes(texts: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """The texts that there are, sorted, and the place of each. They are few: sorting all of them takes far longer."""
    names = sorted(set(texts))
    place = {name: at for at, name in enumerate(names)}
    return tuple(names), np.array([place[text] for text in texts], np.int64)


def _phases(op: Ints, plane: Ints) -> Ints:
    """A number per operator and place on its plane; rows come by start."""
    if not len(op):
        return op
    order = np.lexsort((np.arange(len(op)), plane, op))
    first = np.concatenate(([True], (np.diff(op[order]) != 0) | (np.diff(plane[order]) != 0)))
    begin = np.flatnonzero(first)
    place = np.empty(len(op), np.int64)
    place[order] = np.arange(len(op)) - begin[np.cumsum(first) - 1]
    _, phase = np.unique(op * (int(place.max()) + 1) + place, return_inverse=True)
    return np.asarray(phase).astype(np.int64)


@dataclass(frozen=True)
class Lacking:
    """Why packets are not known, or too few of them."""

    why: NotMeasured
    some: bool  # some are


def lacking(run: Run) -> Lacking | None:
    """None: the parts of nearly all collectives were recorded, with their peers."""
    for need in ("comm_tasks", "peer_waits"):
        has, share = run.get(capabilities)[need], held(run, need)
        en, zh = has.capability.means
        if has.status == "absent":
            return Lacking(NotMeasured(f"{en}: {has.why}", f"{zh}：{has.why_zh}", has.collect_with), False)
        if share < COVERED:
            told = number("_share", share)
            why = f"{en}: known for only {told} of the time they are about", f"{zh}：只覆盖相关时间的 {told}"
            return Lacking(NotMeasured(*why, has.collect_with or setting(run, need)), True)
    return None


@dataclass(frozen=True)
class Faster:
    """What operators would be shorter if some transfers were."""

    change: Change
    lost_ns: int  # with nothing computed beside it, of the rank that loses most, in the whole run
    whole_ns: int  # the same, hidden or not
    rank: int


def faster(run: Run, found: Packets, less: Ints) -> Faster:
    """With each transfer shorter by so much: the longest of each phase decides, and only what is bare is lost."""
    operators = run.get(collectives)
    phases = int(found.phase.max(initial=-1)) + 1
    before, after, owner = (np.zeros(phases, np.int64) for _ in range(3))
    np.maximum.at(before, found.phase, found.dur)
    np.maximum.at(after, found.phase, found.dur - np.clip(less, 0, found.dur))
    owner[found.phase] = found.op
    gain = np.zeros(len(operators), np.int64)
    np.add.at(gain, owner, before - after)
    rows = np.flatnonzero(gain)
    bare = np.zeros(len(rows), np.int64)
    for rank in np.unique(operators.rank[rows]).tolist():
        mine, computing = operators.rank[rows] == rank, run.activity(rank).computing or EMPTY
        at = rows[mine]
        length = operators.end[at] - operators.ts[at]
        bare[mine] = np.minimum(gain[at], length - computing.within(operators.ts[at], operators.end[at]))
    if not len(rows):
        return Faster(Change(), 0, 0, int(found.rank.min(initial=np.iinfo(np.int32).max)))
    ranks, of = np.unique(operators.rank[rows], return_inverse=True)
    totals = np.zeros((2, len(ranks)), np.int64)
    np.add.at(totals[0], of, bare)
    np.add.at(totals[1], of, gain[rows])
    worst = int(totals[0].argmax())
    change = Change(tasks=operators.span_id[rows], task_ns=bare)
    return Faster(change, int(totals[0, worst]), int(totals[1].max()), int(ranks[worst]))


def shown(found: Packets, rows: Ints, weight: Ints) -> tuple[Evidence, ...]:
    """The transfers that lose most."""
    return tuple(
        Evidence(int(found.rank[row]), int(found.ts[row]), int(found.dur[row]), int(found.span_id[row]),
                 f"{found.links[int(found.link[row])]} {found.bytes[row]} B")
        for row in rows[np.argsort(-weight[rows], kind="stable")][:_MOST].tolist()
    )  # fmt: skip


def medians(values: Floats, group: Ints, wanted: Bools) -> Floats:
    """Of each row's group the median over the wanted rows; NaN where there is none."""
    if not len(values):
        return values
    _, where = np.unique(group, return_inverse=True)
    order = np.flatnonzero(wanted)
    order = order[np.lexsort((values[order], where[order]))]
    count = np.bincount(where[order], minlength=int(where.max()) + 1)
    ends = np.cumsum(count)
    low, high = ends - count + (count - 1) // 2, ends - count + count // 2
    known = count > 0
    found = np.full(len(count), np.nan)
    ranked = values[order]
    found[known] = (ranked[low[known]] + ranked[high[known]]) / 2
    return np.asarray(found[where])
