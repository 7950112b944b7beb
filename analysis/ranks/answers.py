"""What pages ask of ranks and what they say to each other, as tables: of a large run they are kept (analysis/kept.py).

Each is a small answer that follows from every collective and its tasks, which take seconds to read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.ranks.clock import clock
from npulens.analysis.ranks.collectives import POINT_TO_POINT, Collectives, collectives
from npulens.analysis.ranks.comm_tasks import TRANSFER, WAIT, CommTasks, comm_tasks
from npulens.analysis.ranks.lateness import late_peers, witnessed
from npulens.analysis.ranks.work import work
from npulens.analysis.run import Run
from npulens.analysis.selection.pane import cut_to, panes_of

#: Moments of a late peer that are shown.
_MOMENTS = 10

_KIND = pa.schema([
    ("collective", pa.string()), ("team", pa.string()), ("ranks", pa.int64()), ("operators", pa.int64()),
    ("bytes", pa.int64()), ("busy_ns", pa.int64()), ("exposed_ns", pa.int64()), ("transfer_ns", pa.int64()),
    ("only_waiting_ns", pa.int64()), ("late_launch_ns", pa.int64()), ("longest_ns", pa.int64()),
])  # fmt: skip


def kinds(run: Run) -> pa.Table:
    """Every type of operator in every group, the one that takes longest first. Times are means over its ranks."""
    operators, tasks = run.get(collectives), run.get(comm_tasks)
    if not len(operators):
        return _KIND.empty_table()
    panes = panes_of(run.con)
    late = _late_launches(run, operators)
    codes, which = np.unique(np.stack((operators.kind, operators.team)), axis=1, return_inverse=True)
    kind = which.ravel()
    own = _by_kind_and_rank(kind, operators.rank)
    inside = _by_kind_and_rank(kind[tasks.op], operators.rank[tasks.op])
    rows = []
    for code, (name, group) in enumerate(codes.T.tolist()):
        cuts = [
            _cut(run, operators, mine, tasks, inside.get((of, rank)), panes)
            for (of, rank), mine in own.items() if of == code
        ]  # fmt: skip
        named = {"collective": operators.kinds[name], "team": operators.teams[group]}
        rows.append({**named, **_summed(operators, np.flatnonzero(kind == code), late, cuts)})
    return pa.Table.from_pylist(sorted(rows, key=lambda row: -row["busy_ns"]), _KIND)


def _late_launches(run: Run, operators: Collectives) -> dict[int, int]:
    """How long the device had been out of work when the host launched an operator; only where that is known."""
    rows = run.con.execute("SELECT span_id, late_launch_ns FROM collective WHERE late_launch_ns IS NOT NULL")
    return dict(rows.fetchall())


def _by_kind_and_rank(kind: Ints, rank: Ints) -> dict[tuple[int, int], Ints]:
    """Rows of each kind on each rank."""
    order = np.lexsort((rank, kind))
    edges = np.flatnonzero((np.diff(kind[order]) != 0) | (np.diff(rank[order]) != 0)) + 1
    parts = np.split(order, edges) if len(order) else []
    return {(int(kind[rows[0]]), int(rank[rows[0]])): rows for rows in parts}


def _cut(
    run: Run, operators: Collectives, rows: Ints, tasks: CommTasks, parts: Ints | None, panes: Mapping[int, Intervals]
) -> dict[str, int | None]:  # fmt: skip
    """What operators of one type did on one rank; None: not recorded."""
    rank = int(operators.rank[rows[0]])
    busy = cut_to(Intervals.union_of(operators.ts[rows], operators.end[rows]), panes, rank)
    computing = run.activity(rank).computing
    found: dict[str, int | None] = {
        "busy_ns": busy.total(), "exposed_ns": None if computing is None else (busy - computing).total(),
        "transfer_ns": None, "only_waiting_ns": None,
    }  # fmt: skip
    if parts is None:
        return found
    moving, waiting = (cut_to(_when(tasks, parts, what), panes, rank) for what in (TRANSFER, WAIT))
    return {**found, "transfer_ns": moving.total(), "only_waiting_ns": (waiting - moving).total()}


def _when(tasks: CommTasks, rows: Ints, what: int) -> Intervals:
    some = rows[tasks.what[rows] == what]
    return Intervals.union_of(tasks.ts[some], tasks.end[some])


def _summed(
    operators: Collectives, rows: Ints, late: Mapping[int, int], cuts: Sequence[Mapping[str, int | None]]
) -> dict[str, int | None]:  # fmt: skip
    size = operators.bytes[rows]
    launched = [late[span] for span in operators.span_id[rows].tolist() if span in late]
    return {
        "ranks": len(cuts), "operators": len(rows),
        "bytes": int(size.sum()) // len(cuts) if (size >= 0).all() else None,
        **{name: _mean([cut[name] for cut in cuts]) for name in cuts[0]},
        "late_launch_ns": round(sum(launched) / len(cuts)) if launched else None,
        "longest_ns": int((operators.end[rows] - operators.ts[rows]).max()),
    }  # fmt: skip


def _mean(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known)) if known else None


_MOMENT = pa.struct([
    ("rank", pa.int64()), ("ts_ns", pa.int64()), ("dur_ns", pa.int64()), ("span_id", pa.int64()), ("name", pa.string()),
])  # fmt: skip
_LATE = pa.schema([
    ("place", pa.int64()), ("rank", pa.int64()), ("local", pa.int64()), ("team", pa.string()),
    ("captured", pa.bool_()), ("operators", pa.int64()), ("waiting", pa.list_(pa.int64())), ("wait_ns", pa.int64()),
    ("gain_ns", pa.int64()), ("how", pa.string()), ("unsure_ns", pa.int64()), ("moments", pa.list_(_MOMENT)),
])  # fmt: skip


def late(run: Run) -> pa.Table:
    """Who came last to collectives, the one that cost most first."""
    rows = [
        {
            "place": place, "rank": one.rank, "local": one.local, "team": one.team, "captured": one.rank in run.ranks,
            "operators": len(one.rows), "waiting": sorted(one.waited), "wait_ns": one.wait_ns, "gain_ns": one.gain_ns,
            "how": "guessed" if one.guessed else "clock" if one.clocked else "tasks", "unsure_ns": one.unsure_ns,
            "moments": [
                {"rank": at.rank, "ts_ns": at.ts_ns, "dur_ns": at.dur_ns, "span_id": at.span_id, "name": at.note}
                for at in witnessed(run, one, _MOMENTS)
            ],
        }
        for place, one in enumerate(run.get(late_peers))
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, _LATE)


_STAND = pa.schema([
    ("rank", pa.int64()), ("reference", pa.bool_()), ("offset_ns", pa.int64()), ("uncertainty_ns", pa.int64()),
    ("kernels_ns", pa.int64()), ("kernel", pa.string()), ("kernel_ns", pa.int64()), ("tasks", pa.int64()),
    ("paired", pa.bool_()),
])  # fmt: skip


def stands(run: Run) -> pa.Table:
    """Every rank: its clock, its kernels beside those of the median rank, the tasks of its operators.

    `paired`: the job has sends and receives.
    """
    time, more = run.get(clock), _more_work(run)
    operators, tasks = run.get(collectives), run.get(comm_tasks)
    paired = bool(operators.of_kinds(POINT_TO_POINT).any())
    held = dict(zip(*np.unique(operators.rank[tasks.op], return_counts=True), strict=True))
    rows = [
        {
            "rank": rank, "reference": rank == time.reference,
            "offset_ns": time.offset_ns(rank) if rank in time.offsets else None,
            "uncertainty_ns": time.uncertainty_ns(rank), "tasks": held.get(rank, 0), "paired": paired,
            **dict(zip(("kernels_ns", "kernel", "kernel_ns"), more.get(rank, (0, "", 0)), strict=True)),
        }
        for rank in run.ranks
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, _STAND)


def _more_work(run: Run) -> dict[int, tuple[int, str, int]]:
    """Per rank: kernel time beyond the median rank's, and the kernel that differs most."""
    done = run.get(work)
    if not len(done.names):
        return {}
    apart = done.ns - np.median(done.ns, axis=0).astype(np.int64)
    worst = np.argmax(np.abs(apart), axis=1)
    return {
        rank: (int(apart[row].sum()), done.names[worst[row]], int(apart[row, worst[row]]))
        for row, rank in enumerate(done.ranks)
    }


def states(run: Run) -> pa.Table:
    """When each rank's operators wait and when they move data, where their tasks were recorded: disjoint intervals."""
    columns = [np.concatenate([np.zeros(0, np.int64), *part]) for part in zip(*_states(run), strict=True)]
    names = ("rank", "what", "ts_ns", "end_ns")
    return pa.table(dict(zip(names, columns or [np.zeros(0, np.int64)] * len(names), strict=True)))


def _states(run: Run) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    operators, tasks = run.get(collectives), run.get(comm_tasks)
    rank = operators.rank[tasks.op]
    order = np.argsort(rank, kind="stable")
    edges = np.flatnonzero(np.diff(rank[order])) + 1
    for rows in np.split(order, edges) if len(order) else ():
        for what in (WAIT, TRANSFER):
            found = _when(tasks, rows, what)
            same = np.ones(len(found.starts), np.int64)
            yield same * rank[rows[0]], same * what, found.starts, found.ends
