"""Which parts of communication nothing is computed beside: transfers of collectives, and waits of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from npulens.analysis.finding import Change, Evidence
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.ranks.collectives import POINT_TO_POINT, Collectives, collectives
from npulens.analysis.ranks.stages import mutual
from npulens.analysis.ranks.waits import GUESSED, UNKNOWN, Waits, waits
from npulens.analysis.run import Run

#: Windows a finding shows.
_MOST = 20


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
    evidence: tuple[Evidence, ...]


def exposed(run: Run) -> tuple[Exposed, ...]:
    """Transfers by kind of group and collective, the most costly first; of a pipeline's sends and receives those that
    are known."""
    operators, found = run.get(collectives), run.get(waits)
    told = ~operators.of_kinds(POINT_TO_POINT) | run.get(mutual) | ~np.isin(found.how, (UNKNOWN, GUESSED))
    rows = np.flatnonzero(told & (operators.end > operators.ts))
    ready = found.arrival_ns - np.maximum(found.wait_ns, 0)
    before = np.where(found.how == UNKNOWN, operators.end, ready)
    after = np.where(found.how == UNKNOWN, operators.end, found.arrival_ns)
    kinds = _kinds(run, operators)
    groups: dict[tuple[str, str], list[int]] = {}
    for row in rows.tolist():
        key = kinds.get(int(operators.team[row]), ""), operators.kinds[operators.kind[row]]
        groups.setdefault(key, []).append(row)
    pieces = ((operators.ts, before), (after, operators.end))
    every = [
        _exposed(run, operators, found, np.array(mine, np.int64), pieces, kind or None, name or "collective")
        for (kind, name), mine in groups.items()
    ]
    return tuple(sorted((one for one in every if one is not None), key=lambda one: -one.longest_ns))


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
    group: str | None, collective: str,
) -> Exposed | None:  # fmt: skip
    """What of these pieces of each operator, from start to end, has no compute beside it."""
    totals: dict[int, int] = {}
    whole: dict[int, int] = {}
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
    worst = max(totals, key=lambda rank: totals[rank], default=None)
    if worst is None or totals[worst] <= 0:
        return None
    sized = operators.bytes[rows][operators.bytes[rows] >= 0]
    unknown = np.isin(found.how[rows], (UNKNOWN, GUESSED))
    some = spans_ns > 0
    return Exposed(
        collective, group, totals[worst], worst, int((operators.rank[rows] == worst).sum()),
        int(np.median(sized)) if len(sized) else None, 1 - totals[worst] / whole[worst] if whole[worst] else None,
        Change(tasks=operators.span_id[rows][some], task_ns=spans_ns[some]),
        bool(2 * spans_ns[unknown].sum() > spans_ns.sum()), shown(operators, rows, spans_ns),
    )  # fmt: skip


def shown(operators: Collectives, rows: Ints, spans_ns: Ints) -> tuple[Evidence, ...]:
    """The operators that lose most."""
    largest = np.argsort(-spans_ns, kind="stable")[:_MOST]
    return tuple(
        Evidence(
            int(operators.rank[row]), int(operators.ts[row]), int(operators.end[row] - operators.ts[row]),
            int(operators.span_id[row]), str(operators.name[row]),
        )
        for row, ns in zip(rows[largest].tolist(), spans_ns[largest].tolist(), strict=True) if ns > 0
    )  # fmt: skip


def _kinds(run: Run, operators: Collectives) -> dict[int, str]:
    """Kind of each group (dp, tp...), where the capture lists it."""
    listed = dict(
        run.con.execute(
            "SELECT group_name, min(kind) FROM parallel_group WHERE kind IS NOT NULL GROUP BY group_name ORDER BY ALL"
        ).fetchall()
    )
    return {team: listed[name] for team, name in enumerate(operators.teams) if name in listed}
