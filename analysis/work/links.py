"""What collectives send over links, how fast, and how near that comes to what the link can carry.

`links(run)` gives one `Moved` per collective, group and size. What a rank sends is counted from the hardware's own
transfers where they were recorded. Else it is what a ring sends. Where a profiler of Ascend records no transfers, only
an all-reduce has a size that means one thing: of the others nobody says whether it is a part or the whole.

The time is that after the last rank has come, of the calls for which that is known (analysis/ranks/waits.py). Where it
is known of none it is the whole time of the operator, and the rate is at least so much.

The link is the one that transfers name. Else it is the fastest one that the device has, for a group that fits into one
machine; then it is `assumed`. Of a larger group nobody says which links it crosses.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np

from npulens.analysis import views
from npulens.analysis.device.abilities import device
from npulens.analysis.device.family import family
from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.collectives import POINT_TO_POINT, Collectives, collectives
from npulens.analysis.ranks.leaving import over_ns
from npulens.analysis.ranks.packets import Packets, packets
from npulens.analysis.ranks.waits import GUESSED, UNKNOWN, waits
from npulens.analysis.run import Run
from npulens.analysis.work.models import link_bytes

#: Devices of one machine, which their fastest links connect.
ONE_MACHINE = 8
#: What tasks call a link -> its name among the facts of devices.
_LINKS = {"HCCS": "hccs", "PCIE": "pcie", "ROCE": "roce", "RDMA": "roce"}
#: Nothing is moved, or how much differs by rank.
_UNSIZED = frozenset({"barrier", "alltoallv", "alltoallvc", "allgatherv", "reducescatterv"})


@dataclass(frozen=True)
class Moved:
    """Collectives of one kind, group and size. Bytes are those of a call and a rank; None is not known."""

    collective: str
    group: str
    kind: str | None  # of the group: dp, tp...
    ranks: int | None  # of the group
    device: str | None
    bytes: int | None  # as the profiler gives it: the whole of what is reduced or gathered
    calls: int  # of all captured ranks
    ns: int  # of all calls, waits included
    sent: int | None  # by each rank
    counted: bool  # by the hardware's transfers, not by the algorithm
    transfers_ns: int | None  # of all calls of which that is known: after the last rank had come
    bytes_per_s: float | None  # at least so much where no wait is known
    link: str | None
    assumed: bool  # nothing says that this is the link
    link_bytes_per_s: float | None
    reason: str | None  # why it is not known what was sent: 'size', 'group' or 'algorithm'

    @property
    def least(self) -> bool:
        """Whether the time holds waits, so that rate and share are at least so much."""
        return self.transfers_ns is None

    @property
    def share(self) -> float | None:
        """Of what the link carries; None where that is more than all of it."""
        told = self._told
        return told if told is not None and told <= 1 else None

    @property
    def above(self) -> float | None:
        """What the share would be, where it is above 1: another link, or the algorithm sends less."""
        told = self._told
        return told if told is not None and told > 1 else None

    @property
    def _told(self) -> float | None:
        if self.bytes_per_s is None or self.link_bytes_per_s is None:
            return None
        return self.bytes_per_s / self.link_bytes_per_s

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "least": self.least, "share": self.share, "above": self.above}


def of_links(con: duckdb.DuckDBPyConnection) -> tuple[Moved, ...]:
    """What the collectives of a run send."""
    views.install(con)
    return Run.of(con).get(links)


def links(run: Run) -> tuple[Moved, ...]:
    """Those that took most of the time first."""
    operators = run.get(collectives)
    if not len(operators):
        return ()
    moved, sums = run.get(packets), np.zeros(len(operators), np.int64)
    np.add.at(sums, moved.op, moved.bytes)
    kinds, sizes = _kinds(run), _sizes(run, operators)
    crossed = _crossed(operators, moved)
    sized = np.where(operators.of_kinds(_UNSIZED), -1, operators.bytes)
    key = np.stack((operators.kind, operators.team, sized))
    _, where = np.unique(key, axis=1, return_inverse=True)
    order = np.argsort(where.ravel(), kind="stable")
    edges = np.flatnonzero(np.diff(where.ravel()[order])) + 1
    found = [_moved(run, operators, rows, sums, kinds, sizes, crossed) for rows in np.split(order, edges)]
    return tuple(sorted(found, key=lambda one: -one.ns))


def _moved(
    run: Run, operators: Collectives, rows: Ints, sums: Ints, kinds: Mapping[str, str], sizes: Mapping[int, int],
    crossed: Mapping[int, str],
) -> Moved:  # fmt: skip
    first = int(rows[0])
    collective, team = operators.kinds[operators.kind[first]], int(operators.team[first])
    unsized = collective in _UNSIZED or operators.bytes[first] < 0
    size = None if unsized else int(operators.bytes[first])
    ranks = 2 if collective in POINT_TO_POINT else sizes.get(team)
    counted = bool((sums[rows] > 0).all())
    if counted:
        sent: int | None = int(np.median(sums[rows]))
        reason = None
    else:
        sent, reason = _by_algorithm(collective, size, ranks, run.get(family))
    here = device(run, int(operators.rank[first]))
    known, took = _times(run, operators, rows)
    spent = int(took.sum())
    link, assumed = crossed.get(team), False
    carried = dict(here.links) if here is not None else {}
    if link is None and carried and ranks is not None and ranks <= ONE_MACHINE and collective not in POINT_TO_POINT:
        link, assumed = max(carried, key=lambda name: carried[name]), True
    return Moved(
        collective, operators.teams[team], kinds.get(operators.teams[team]), ranks,
        None if here is None else here.name, size, len(rows), int((operators.end - operators.ts)[rows].sum()),
        sent, counted, spent if known else None,
        sent * len(took) * 1e9 / spent if sent and spent else None,
        link, assumed, carried.get(link or ""), reason,
    )  # fmt: skip


def _by_algorithm(collective: str, size: int | None, ranks: int | None, backend: str) -> tuple[int | None, str | None]:
    """What a rank sends at least, or why nobody knows."""
    if size is None or (backend == "npu" and collective not in ("allreduce", *POINT_TO_POINT)):
        return None, "size"
    if ranks is None:
        return None, "group"
    sent = link_bytes(collective, size, ranks)
    return sent, "algorithm" if sent is None else None


def _times(run: Run, operators: Collectives, rows: Ints) -> tuple[bool, Ints]:
    """Of each call how long it took from when the last rank had come until its transfer was over.

    Of all of them whole where that is known of none.
    """
    found = run.get(waits)
    told = rows[~np.isin(found.how[rows], (UNKNOWN, GUESSED))]
    if len(told):
        over = run.get(over_ns)[told]
        return True, over - np.clip(found.arrival_ns[told], operators.ts[told], over)
    return False, operators.end[rows] - operators.ts[rows]


def _kinds(run: Run) -> Mapping[str, str]:
    rows = run.con.execute(
        "SELECT group_name, min(kind) FROM parallel_group WHERE kind IS NOT NULL GROUP BY group_name"
    ).fetchall()
    return dict(rows)


def _sizes(run: Run, operators: Collectives) -> dict[int, int]:
    """How many ranks each group has: as it is listed, else as its transfers and waits name their peers."""
    found = {team: len(ranks) for team, ranks in operators.members.items()}
    seen = run.columns(
        "SELECT op_span_id, max(greatest(coalesce(dst_local, -1), coalesce(src_local, -1))) AS last FROM comm "
        "WHERE op_span_id IS NOT NULL AND op_span_id <> span_id GROUP BY 1 HAVING last >= 1"
    )
    op = operators.at(seen["op_span_id"].astype(np.int64))
    for team, last in zip(operators.team[op[op >= 0]].tolist(), seen["last"][op >= 0].tolist(), strict=True):
        if team not in operators.members:
            found[team] = max(found.get(team, 0), int(last) + 1)
    return found


def _crossed(operators: Collectives, moved: Packets) -> dict[int, str]:
    """The link of each group, where all of its transfers cross one kind that has a name among the facts."""
    seen: dict[int, set[str]] = {}
    for team, link in np.unique(np.stack((operators.team[moved.op], moved.link)), axis=1).T.tolist():
        seen.setdefault(team, set()).add(moved.links[link].upper())
    return {team: _LINKS[next(iter(names))] for team, names in seen.items() if len(names) == 1 and names <= set(_LINKS)}
