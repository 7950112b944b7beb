"""Which parts of communication nothing is computed beside: transfers of collectives, and waits of a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.finding import Change, Evidence
from npulens.analysis.idle.issue import tasks
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.ranks.collectives import POINT_TO_POINT, Collectives, collectives
from npulens.analysis.ranks.leaving import Held, held_up, over_ns
from npulens.analysis.ranks.stages import mutual
from npulens.analysis.ranks.waits import CLOCK, GUESSED, PEERS, TASKS, UNKNOWN, Waits, complete, waits
from npulens.analysis.run import Run

#: Windows a finding shows.
_MOST = 20

#: What communication is called that nothing names.
UNNAMED = "collective"
#: Does nothing but wait for the others. One that ends so shortly before another operator belongs to it: DeepEP lets
#: all ranks exchange how much they will send.
BARRIER, _PREPARES_NS = frozenset({"barrier"}), 1_000_000


@dataclass(frozen=True)
class Best:
    """The fastest of the largest operators: what waiting spoils least."""

    bytes: int
    ns: int  # what it takes, without the wait where its own parts tell that
    equal: int  # operators of its rank and group that move as much
    team: int
    told: bool  # it is known how long it waited


@dataclass(frozen=True)
class Exposed:
    """The exposed time of one kind of communication."""

    collective: str
    group: str | None  # kind of the group: dp, tp...
    longest_ns: int  # of the rank that has most, in the whole run
    worst: int  # that rank
    count: int  # operators of that rank
    median_bytes: int | None
    hidden_share: float | None
    change: Change
    mixed: bool  # waiting could not be told from transferring
    barrier_ns: int  # of `longest_ns`: in operators that do nothing but wait for the other members
    barriers_ns: int  # all that such operators of that rank took, in the whole run
    evidence: tuple[Evidence, ...]
    best: Best | None  # None: no size was recorded
    largest_ns: int  # of `longest_ns`: in the operator that has most
    #: What of it there is computing to hide behind, the rank that has most of it, and the change if so much is hidden.
    hideable_ns: int = 0
    hidden: Change = field(default_factory=Change)
    held_ns: int = 0  # of that rank: in these operators when their transfer was over
    untold_ns: int = 0  # with all that may have been transfer too, of the rank that has most


def exposed(run: Run) -> tuple[Exposed, ...]:
    """Transfers by kind of group and collective, the most costly first; of a pipeline's sends and receives those that
    are known."""
    operators, found = run.get(collectives), run.get(waits)
    known = ~operators.of_kinds(POINT_TO_POINT) | run.get(mutual) | ~np.isin(found.how, (UNKNOWN, GUESSED))
    rows = np.flatnonzero(known & (operators.end > operators.ts) & ~_from_before(run, operators))
    ready = found.arrival_ns - np.maximum(found.wait_ns, 0)
    before = np.where(found.how == UNKNOWN, operators.end, ready)
    after = np.where(found.how == UNKNOWN, operators.end, found.arrival_ns)
    over = np.maximum(run.get(over_ns), after)
    kinds, purpose = _kinds(run, operators), _purpose(operators)
    groups: dict[tuple[str, str], list[int]] = {}
    for row in rows.tolist():
        key = kinds.get(int(operators.team[row]), ""), operators.kinds[purpose[row]]
        groups.setdefault(key, []).append(row)
    pieces = ((operators.ts, before), (after, over))
    free = _free(run, operators, rows, pieces)
    every = [
        (_exposed(run, operators, found, np.array(mine, np.int64), pieces, kind or None, name or UNNAMED, free), mine)
        for (kind, name), mine in groups.items()
    ]
    held = run.get(held_up)
    told = [
        replace(one, held_ns=_held_ns(operators, held, one.worst, mine), untold_ns=_at_most(run, mine, pieces))
        for one, mine in every if one is not None
    ]  # fmt: skip
    return tuple(sorted(told, key=lambda one: -one.longest_ns))


def _free(run: Run, operators: Collectives, rows: Ints, pieces: Sequence[tuple[Ints, Ints]]) -> dict[int, int]:
    """Per rank how long it computes while it transfers nothing: only behind that can more be hidden."""
    found = {}
    for rank in np.unique(operators.rank[rows]).tolist():
        mine = rows[operators.rank[rows] == rank]
        moving = Intervals.union_of(
            np.concatenate([starts[mine] for starts, _ in pieces]), np.concatenate([ends[mine] for _, ends in pieces])
        )
        found[rank] = (run.activity(rank).surely_computing - moving).total()
    return found


@dataclass(frozen=True)
class Untold:
    """Of each operator the part in which it waited for its last member or transferred, and nobody can tell which."""

    start: Ints
    end: Ints  # the same as `start` where it is told


def untold(run: Run) -> Untold:
    """Nothing is such a part where an operator's own tasks or the clocks of all members tell."""
    operators, found = run.get(collectives), run.get(waits)
    both = complete(run, operators) | operators.of_kinds(POINT_TO_POINT)
    known = np.isin(found.how, (UNKNOWN, GUESSED)) | (found.how == CLOCK) & ~both
    since = np.where(found.how == CLOCK, found.arrival_ns, found.second_ns)  # the last of those that were captured
    start = np.where(found.how == UNKNOWN, operators.ts, since)
    return Untold(np.where(known, start, operators.end), operators.end)


def waiting_at_most(run: Run) -> int:
    """How long a rank may have waited in collectives with nothing computed beside it, where the capture cannot tell."""
    operators, part = run.get(collectives), run.get(untold)
    rows = np.flatnonzero(~operators.of_kinds(POINT_TO_POINT) & (part.end > part.start))
    return _longest_ns(run, rows, ((part.start, part.end),))


def _at_most(run: Run, mine: list[int], pieces: Sequence[tuple[Ints, Ints]]) -> int:
    """The bare time of the rank that has most if all that is not told was transfer."""
    part = run.get(untold)
    return _longest_ns(run, np.array(mine, np.int64), (*pieces, (part.start, part.end)))


def _longest_ns(run: Run, rows: Ints, pieces: Sequence[tuple[Ints, Ints]]) -> int:
    """Of the rank that has most: what of these pieces of operators has no compute beside it."""
    operators, longest = run.get(collectives), 0
    for rank in np.unique(operators.rank[rows]).tolist():
        at, computing = rows[operators.rank[rows] == rank], run.activity(rank).computing
        if computing is None:
            continue
        union = Intervals.union_of(
            np.concatenate([starts[at] for starts, _ in pieces]), np.concatenate([ends[at] for _, ends in pieces])
        )
        longest = max(longest, (union - computing).total())
    return longest


def _held_ns(operators: Collectives, held: Held, rank: int, rows: list[int]) -> int:
    """How long the device of a rank was held up in these operators."""
    return int(held.ns[(operators.rank[held.rows] == rank) & np.isin(held.rows, rows)].sum())


def _purpose(operators: Collectives) -> Ints:
    """Kinds of operators; of a barrier the kind of the operator that it prepares, if it does any."""
    order = np.lexsort((operators.ts, operators.team, operators.rank))
    barrier = operators.of_kinds(BARRIER)[order]
    following = np.where(barrier, len(order), np.arange(len(order)))
    following = np.minimum.accumulate(following[::-1])[::-1]  # the next that is no barrier
    at = np.flatnonzero(barrier & (following < len(order)))
    one, next_ = order[at], order[following[at]]
    same = (operators.rank[one] == operators.rank[next_]) & (operators.team[one] == operators.team[next_])
    near = operators.ts[next_] - operators.end[one] <= _PREPARES_NS
    found = operators.kind.copy()
    found[one[same & near]] = operators.kind[next_[same & near]]
    return found


def _from_before(run: Run, operators: Collectives) -> NDArray[np.bool_]:
    """Which operators were launched before the recording: without a launch, and over before the first that has one.

    They are of a step that was not recorded. Where most have no launch, launches were not recorded.
    """
    before = np.zeros(len(operators), np.bool_)
    for rank, did in run.get(tasks).items():
        mine = np.flatnonzero(operators.rank == rank)
        if not len(mine) or not len(did.ids):
            continue
        order = np.argsort(did.ids, kind="stable")
        at = order[np.minimum(np.searchsorted(did.ids, operators.span_id[mine], sorter=order), len(order) - 1)]
        here = did.ids[at] == operators.span_id[mine]
        linked, own = here & did.linked[at], here & ~did.linked[at] & ~did.node[at]
        if 2 * int(linked.sum()) > len(mine):
            before[mine] = own & (operators.end[mine] <= operators.ts[mine][linked].min())
    return before


def between_stages(run: Run) -> Exposed | None:
    """Waits in sends, receives and batches of both, by rank; of those whose wait nobody knows all of it, transfers
    included. None: there are none, or none exposed."""
    operators, found = run.get(collectives), run.get(waits)
    rows = np.flatnonzero(operators.of_kinds(POINT_TO_POINT) & ~run.get(mutual) & (operators.end > operators.ts))
    if not len(rows):
        return None
    known, began = ~np.isin(found.how, (UNKNOWN, GUESSED)), found.arrival_ns - np.maximum(found.wait_ns, 0)
    start, end = np.where(known, began, operators.ts), np.where(known, found.arrival_ns, operators.end)
    whole = _exposed(run, operators, found, rows, ((start, end),), None, "pipeline")
    if whole is None:
        return None
    waited = rows[(found.how[rows] != UNKNOWN) & (found.wait_ns[rows] > 0)]
    waiting = np.zeros(len(waited), np.int64)
    for rank in np.unique(operators.rank[waited]).tolist():
        mine = operators.rank[waited] == rank
        at, computing = waited[mine], run.activity(rank).computing or EMPTY
        waiting[mine] = found.wait_ns[at] - computing.within(began[at], found.arrival_ns[at])
    change = whole.change | Change(peers=operators.span_id[waited], peer_ns=waiting)
    return replace(whole, change=change, mixed=False)


def _exposed(
    run: Run, operators: Collectives, found: Waits, rows: Ints, pieces: Sequence[tuple[Ints, Ints]],
    group: str | None, collective: str, free: Mapping[int, int] | None = None,
) -> Exposed | None:  # fmt: skip
    """What of these pieces of each operator, from start to end, has no compute beside it."""
    totals: dict[int, int] = {}
    whole: dict[int, int] = {}
    waiting: dict[int, tuple[int, int]] = {}
    barrier = operators.of_kinds(BARRIER)
    spans_ns = np.zeros(len(rows), np.int64)
    for rank in np.unique(operators.rank[rows]).tolist():
        mine = np.flatnonzero(operators.rank[rows] == rank)
        at, computing = rows[mine], run.activity(rank).computing
        if computing is None:  # beside what these run was not recorded
            continue
        for starts, ends in pieces:
            spans_ns[mine] += (ends[at] - starts[at]) - computing.within(starts[at], ends[at])
        union = Intervals.union_of(
            np.concatenate([starts[at] for starts, _ in pieces]), np.concatenate([ends[at] for _, ends in pieces])
        )
        whole[rank], totals[rank] = union.total(), (union - computing).total()
        only = Intervals.union_of(operators.ts[at[barrier[at]]], operators.end[at[barrier[at]]])
        waiting[rank] = (union & only - computing).total(), only.total()
    worst = max(totals, key=lambda rank: totals[rank], default=None)
    if worst is None or totals[worst] <= 0:
        return None
    hideable = {rank: min(ns, ns if free is None else free[rank]) for rank, ns in totals.items()}
    within = np.zeros(len(rows))  # what of each operator's time can be hidden
    for rank, ns in hideable.items():
        within[operators.rank[rows] == rank] = ns / totals[rank] if totals[rank] else 0.0
    hidden = np.floor(spans_ns * within).astype(np.int64)
    sized = operators.bytes[rows][operators.bytes[rows] >= 0]
    both = complete(run, operators) | operators.of_kinds(POINT_TO_POINT)
    unknown = (np.isin(found.how, (UNKNOWN, GUESSED)) | (found.how == CLOCK) & ~both)[rows]
    some, counted = spans_ns > 0, operators.rank[rows] == worst
    if collective not in BARRIER:
        counted &= ~barrier[rows]
    return Exposed(
        collective, group, totals[worst], worst, int(counted.sum()),
        int(np.median(sized)) if len(sized) else None, 1 - totals[worst] / whole[worst] if whole[worst] else None,
        Change(tasks=operators.span_id[rows][some], task_ns=spans_ns[some]),
        bool(2 * spans_ns[unknown].sum() > spans_ns.sum()), *waiting[worst],
        tuple(_bare(run, one) for one in shown(operators, rows, spans_ns, _window(rows, pieces))),
        _best(operators, found, rows, unknown),
        int(spans_ns[operators.rank[rows] == worst].max(initial=0)), max(hideable.values()),
        Change(tasks=operators.span_id[rows][hidden > 0], task_ns=hidden[hidden > 0]),
    )  # fmt: skip


def _window(rows: Ints, pieces: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Where each operator's pieces lie: all of them where they touch, else the longest."""
    start, end = pieces[0][0][rows], pieces[0][1][rows]
    for starts, ends in pieces[1:]:
        next_, until = starts[rows], ends[rows]
        touch, longer = next_ <= end, until - next_ > end - start
        start = np.where(touch, np.minimum(start, next_), np.where(longer, next_, start))
        end = np.where(touch, np.maximum(end, until), np.where(longer, until, end))
    return start, end


def _bare(run: Run, whole: Evidence) -> Evidence:
    """Only where nothing is computed beside it. From first to last if that is most of what lies between.

    Else the longest stretch.
    """
    computing = run.activity(whole.rank).computing or EMPTY
    left = computing.gaps(whole.ts_ns, whole.ts_ns + whole.dur_ns)
    if not len(left.starts):
        return whole
    begin, end = int(left.starts[0]), int(left.ends[-1])
    if 2 * left.total() < end - begin:
        longest = int(np.argmax(left.ends - left.starts))
        begin, end = int(left.starts[longest]), int(left.ends[longest])
    return replace(whole, ts_ns=begin, dur_ns=end - begin)


def _best(operators: Collectives, found: Waits, rows: Ints, unknown: NDArray[np.bool_]) -> Best | None:
    """The fastest of the largest of these operators; a wait that follows from clocks is too uncertain to take off."""
    sure = np.isin(found.how[rows], (PEERS, TASKS))
    took = operators.end[rows] - operators.ts[rows] - np.where(sure, np.maximum(found.wait_ns[rows], 0), 0)
    size = operators.bytes[rows]
    most = np.flatnonzero((size > 0) & (size == size.max(initial=0)) & (took > 0))
    if not len(most):
        return None
    one = most[np.argmin(took[most])]
    team, rank = operators.team[rows], operators.rank[rows]
    same = (team[most] == team[one]) & (rank[most] == rank[one])
    return Best(int(size[one]), int(took[one]), int(same.sum()), int(team[one]), not unknown[one])


def shown(
    operators: Collectives, rows: Ints, spans_ns: Ints, window: tuple[Ints, Ints] | None = None
) -> tuple[Evidence, ...]:
    """The operators that lose most; `window`: where in each of them, if not all of it is meant."""
    largest = np.argsort(-spans_ns, kind="stable")[:_MOST]
    start, end = (operators.ts[rows], operators.end[rows]) if window is None else window
    return tuple(
        Evidence(
            int(operators.rank[rows[at]]), int(start[at]), int(end[at] - start[at]), int(operators.span_id[rows[at]]),
            str(operators.name[rows[at]]),
        )
        for at in largest.tolist() if spans_ns[at] > 0
    )  # fmt: skip


def _kinds(run: Run, operators: Collectives) -> dict[int, str]:
    """Kind of each group (dp, tp...), where the capture lists it."""
    listed = dict(
        run.con.execute(
            "SELECT group_name, min(kind) FROM parallel_group WHERE kind IS NOT NULL GROUP BY group_name ORDER BY ALL"
        ).fetchall()
    )
    return {team: listed[name] for team, name in enumerate(operators.teams) if name in listed}
