"""Which of thousands of ranks wait, which are waited for, and which links are slow, from summaries of their steps.

A collective begins on a rank when the rank comes to it, and all leave it together. So on the last to come it is
shortest, and what it takes longer on another rank, that rank waited. No clocks are compared in this. Collectives are
matched as everywhere (analysis/ranks/collectives.py): within a group and step, where the ranks ran the same sequence.

Of a rank that came last counts how much later than the last but one it came. For a host the last but one is of another
host: devices of one host are often late together. Computing may hide a part of it, so it is no saving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.clock import APART_NS
from npulens.analysis.ranks.waits import union_by

Floats = NDArray[np.float64]

#: Links of one kind, task and size that tell what is usual; a slow one is that many times slower, in so many of its
#: transfers. As the detector `slow_link` has them.
_LINKS, _SLOWER, _COUNT, _PART = 3, 1.3, 5, 0.75
_FAR = np.iinfo(np.int64).max


@dataclass(frozen=True)
class RankRow:
    """One rank; times are means of a step. What is None was not recorded."""

    rank: int
    host: str | None
    waits_ns: int | None  # in collectives, for captured ranks to come
    tasks_wait_ns: int | None  # in which its communication tasks only wait, for anybody, and nothing computes
    waited_for_ns: int | None  # how much later than the last but one it came, where it came last
    last_times: int  # collectives, or neighbours of them together, in which it clearly came last
    lost_ns: int  # what all others together waited in those
    computing_ns: int | None
    idle_ns: int | None
    computing_more_ns: int | None  # than the median rank
    idle_more_ns: int | None


@dataclass(frozen=True)
class HostRow:
    """The ranks of one host; times are means of a step."""

    host: str
    ranks: int
    waits_ns: int | None  # of its ranks, the mean
    waited_for_ns: int | None  # how much later than the last rank of another host its ranks came


@dataclass(frozen=True)
class GroupRow:
    """One communication group; times are means of a step."""

    group: str
    kind: str | None
    captured: int  # ranks of it that the run holds
    size: int | None  # ranks that it has
    collectives: int  # of a step
    waits_ns: int  # of its ranks, the mean; its collectives added up
    last: int | None  # the rank that it waits for most
    waited_for_ns: int  # how much later than the last but one that rank came


@dataclass(frozen=True)
class LinkRow:
    """One direction between two ranks over one kind of link."""

    rank: int
    peer: int
    host: str | None
    peer_host: str | None
    link: str
    count: int  # transfers that can be compared
    rate_bytes_per_s: float
    usual_bytes_per_s: float
    times: float  # slower than its likes
    slow: bool  # three of four of its transfers, of 5 at least, are 1.3 times slower


@dataclass(frozen=True)
class Fleet:
    """What summaries of all ranks say together. Rows come with the worst first."""

    ranks: int
    hosts: int  # that are named
    steps: int
    step_ns: int | None  # the median of all ranks and steps
    matched_share: float | None  # of the time in collectives, the part whose waits could be told; None: there is none
    groups_in_part: int  # of which not every rank was captured: for the others nobody is seen to wait
    waiting: tuple[RankRow, ...]
    waited_for: tuple[RankRow, ...]
    by_host: tuple[HostRow, ...]
    by_group: tuple[GroupRow, ...]
    links: tuple[LinkRow, ...]
    links_compared: int
    links_slow: int

    def as_dict(self) -> dict[str, Any]:
        """The keys that `npulens fleet --json` promises."""
        return asdict(self)


@dataclass(frozen=True)
class _Steps:
    """One row per rank: sums over its steps."""

    ranks: Ints  # ascending
    host: NDArray[Any]  # its name, or None
    steps: Ints
    computing: Floats  # means of a step; NaN: not recorded
    idle: Floats
    only_waiting: Floats
    step_ns: int | None

    def __len__(self) -> int:
        return len(self.ranks)


@dataclass(frozen=True)
class _Cells:
    """One row per rank and collective (or neighbours of them together) that several ranks ran."""

    rank: Ints  # place in _Steps
    instance: Ints
    team: Ints
    dur: Ints
    begin: Ints  # on the rank's own clock
    unsure: Ints  # differences up to this say nothing

    def __len__(self) -> int:
        return len(self.rank)


@dataclass(frozen=True)
class _Teams:
    """The groups: what each is called, and what is known of it."""

    names: list[str]
    kinds: list[str | None]
    sizes: list[int | None]
    captured: Ints
    collectives: Floats


def fleet(con: duckdb.DuckDBPyConnection, top: int = 10) -> Fleet:
    """The fleet view; ``con`` holds the three tables of a summary (analysis/fleet/summary.py)."""
    steps = _steps(con)
    cells, teams, share = _cells(con, steps)
    host_code = (
        np.unique([str(name or "") for name in steps.host], return_inverse=True)[1] if len(steps) else steps.ranks
    )
    named = np.array([name is not None for name in steps.host], np.bool_)
    waits, late = _waits(cells, len(steps)), _late(cells, cells.rank, len(steps))
    rows = _rank_rows(steps, waits, late, share is not None)
    by_host = _host_rows(steps, cells, waits, host_code.astype(np.int64), named, share is not None)
    links, compared, slow = _links(con, steps, top)
    return Fleet(
        len(steps), len({name for name in steps.host if name is not None}), int(steps.steps.max(initial=0)),
        steps.step_ns, share,
        sum(size is not None and size > here for size, here in zip(teams.sizes, teams.captured.tolist(), strict=True)),
        tuple(sorted((row for row in rows if _waiting(row)), key=lambda row: (-_waiting(row), row.rank))[:top]),
        tuple(
            sorted(
                (row for row in rows if row.waited_for_ns), key=lambda row: (-(row.waited_for_ns or 0), row.rank)
            )[:top]
        ),
        tuple(sorted(by_host, key=lambda row: (-(row.waited_for_ns or 0), -(row.waits_ns or 0), row.host))[:top]),
        tuple(_group_rows(steps, cells, teams)[:top]), tuple(links), compared, slow,
    )  # fmt: skip


def _steps(con: duckdb.DuckDBPyConnection) -> _Steps:
    rows = con.execute(
        "SELECT rank, any_value(host), count(*), avg(computing_ns), avg(idle_ns), avg(only_waiting_ns) "
        "FROM fleet_rank GROUP BY rank ORDER BY rank"
    ).fetchall()
    middle = con.execute("SELECT median(dur_ns) FROM fleet_rank").fetchall()[0][0]
    computing, idle, waiting = (
        np.array([np.nan if row[at] is None else row[at] for row in rows], np.float64) for at in (3, 4, 5)
    )
    host = np.empty(len(rows), object)
    host[:] = [row[1] for row in rows]
    return _Steps(
        np.array([row[0] for row in rows], np.int64), host, np.array([row[2] for row in rows], np.int64),
        computing, idle, waiting, None if middle is None else round(middle),
    )  # fmt: skip


def _cells(con: duckdb.DuckDBPyConnection, steps: _Steps) -> tuple[_Cells, _Teams, float | None]:
    """The collectives that several ranks ran in the same sequence; the share of their time that these are."""
    blocks = con.execute(
        "SELECT rank, step, team, kind, size, members, count, sequence, len(durs) AS cells, "
        "list_sum(durs)::BIGINT AS dur_ns FROM fleet_team ORDER BY rank, step, team"
    ).fetchnumpy()  # fmt: skip
    each = con.execute(
        "SELECT unnest(durs) AS dur, unnest(begins) AS begin FROM (FROM fleet_team ORDER BY rank, step, team)"
    ).fetchnumpy()
    dur, begins = (np.asarray(each[name]).astype(np.int64) for name in ("dur", "begin"))
    count = len(blocks["rank"])
    rank, step, cells, many = (np.asarray(blocks[name]).astype(np.int64) for name in ("rank", "step", "cells", "count"))
    team, teams = _teams(blocks, rank)
    kept = _common(team, step, many, np.ma.getdata(blocks["sequence"]).astype(np.uint64), rank)
    total = float(np.asarray(blocks["dur_ns"]).astype(np.float64).sum())
    begin = np.concatenate((np.zeros(1, np.int64), np.cumsum(cells)[:-1])) if count else cells
    # A block of a group and step: its instances are numbered from where the block before ends.
    _, pair = np.unique(team * (1 << 40) + (step + 1), return_inverse=True) if count else (None, cells)
    most = np.zeros(int(pair.max(initial=-1)) + 1, np.int64)
    np.maximum.at(most, pair[kept], cells[kept])
    first = np.concatenate((np.zeros(1, np.int64), np.cumsum(most)))[:-1] if len(most) else most
    rows = np.flatnonzero(kept)
    within = np.arange(int(cells[rows].sum())) - np.repeat(np.cumsum(cells[rows]) - cells[rows], cells[rows])
    at = np.repeat(begin[rows], cells[rows]) + within
    place = np.searchsorted(steps.ranks, rank[rows]) if len(rows) else rows
    known = np.isin(rank[rows], steps.ranks)
    per = np.maximum(1, -(-many[rows] // np.maximum(1, cells[rows])))
    own = np.repeat(known, cells[rows])
    found = _Cells(
        np.repeat(place, cells[rows])[own], (np.repeat(first[pair[rows]], cells[rows]) + within)[own],
        np.repeat(team[rows], cells[rows])[own], dur[at][own], begins[at][own],
        np.repeat(per * APART_NS, cells[rows])[own],
    )  # fmt: skip
    share = float(np.asarray(blocks["dur_ns"]).astype(np.float64)[kept].sum()) / total if total else None
    return found, teams, share


def _teams(blocks: dict[str, Any], rank: Ints) -> tuple[Ints, _Teams]:
    """Groups; two of one name (numbered anew on other ranks) are two where their recorded members differ."""
    names = np.asarray(blocks["team"]).astype(str)
    told = ~np.ma.getmaskarray(blocks["members"])
    members = np.where(told, np.ma.getdata(blocks["members"]).astype(np.uint64), 0).astype(np.uint64)
    lists: dict[str, set[int]] = {}
    for name, own in {(str(name), int(own)) for name, own in zip(names[told], members[told], strict=True)}:
        lists.setdefault(name, set()).add(own)
    codes: dict[tuple[str, int], int] = {}
    known, name_of = np.unique(names, return_inverse=True)
    owns, own_of = np.unique(members, return_inverse=True)
    pairs, which = np.unique(name_of.astype(np.int64) * max(1, len(owns)) + own_of, return_inverse=True)
    chosen = np.zeros(len(pairs), np.int64)
    for index, pair in enumerate(pairs.tolist()):
        name, own = str(known[pair // len(owns)]), owns[pair % len(owns)]
        several = lists.get(name, set())
        chosen[index] = codes.setdefault((name, next(iter(several)) if len(several) == 1 else int(own)), len(codes))
    team = chosen[which]
    first = np.unique(team, return_index=True)[1]
    kind, size = (np.ma.asarray(blocks[name])[first] for name in ("kind", "size"))
    of_rank = np.unique(team * (1 << 32) + rank) >> 32
    many = np.bincount(team, np.asarray(blocks["count"]).astype(np.float64), len(codes))
    return team, _Teams(
        [name for name, _ in codes], [None if one is np.ma.masked or one is None else str(one) for one in kind],
        [None if one is np.ma.masked else int(one) for one in size],
        np.bincount(of_rank, minlength=len(codes)).astype(np.int64),
        many / np.maximum(1, np.bincount(team, minlength=len(codes))),
    )  # fmt: skip


def _common(team: Ints, step: Ints, count: Ints, sequence: NDArray[np.uint64], rank: Ints) -> NDArray[np.bool_]:
    """Blocks of the sequence that most ranks of their group and step ran, where those are several."""
    kept = np.zeros(len(team), np.bool_)
    stepped = bool((step >= 0).any())
    order = np.lexsort((rank, sequence, count, step, team))
    edges = [team[order], step[order], count[order], sequence[order]]
    new = np.ones(len(order), np.bool_)
    new[1:] = np.logical_or.reduce([part[1:] != part[:-1] for part in edges])
    starts = np.flatnonzero(new)
    size = np.diff(np.append(starts, len(order)))
    best: dict[tuple[int, int], int] = {}
    for index, start in enumerate(starts.tolist()):
        row = order[start]
        if step[row] < 0 and stepped:  # before the first step nobody knows what was missed
            continue
        key = (int(team[row]), int(step[row]))
        if key not in best or (size[index], count[row]) > (size[best[key]], count[order[starts[best[key]]]]):
            best[key] = index
    for index in best.values():
        if size[index] > 1:
            kept[order[starts[index] : starts[index] + size[index]]] = True
    return kept


@dataclass(frozen=True)
class _Last:
    """One row per instance of a collective; who is a rank, or a host."""

    row: Ints  # of its cell that is shortest: that rank came last
    who: Ints
    gain: Ints  # how much later than the last of anybody else, where that can be told; else 0


def _last(cells: _Cells, who: Ints) -> _Last:
    """Who came last to each collective."""
    order = np.lexsort((who, cells.dur, cells.instance))
    there, first = np.unique(cells.instance[order], return_index=True)
    place = np.searchsorted(there, cells.instance)
    row = order[first]
    others = order[who[order] != who[row][place[order]]]
    second = cells.dur[row].copy()
    met, at = np.unique(place[others], return_index=True)
    second[met] = cells.dur[others][at]
    gain = second - cells.dur[row]
    return _Last(row, who[row], np.where(gain > cells.unsure[row], gain, 0))


def _waited(cells: _Cells) -> Ints:
    """What each cell was longer than the shortest of its instance."""
    least = np.full(int(cells.instance.max(initial=-1)) + 1, _FAR)
    np.minimum.at(least, cells.instance, cells.dur)
    more = cells.dur - least[cells.instance]
    return np.where(more > cells.unsure, more, 0)


def _waits(cells: _Cells, ranks: int) -> Ints:
    """How long each rank waited: collectives may run at once, so this is a union."""
    return union_by(cells.rank, cells.begin, cells.begin + _waited(cells), ranks)


@dataclass(frozen=True)
class _Late:
    """Per rank or host."""

    gain: Ints  # how much later than the last but one it came: a union on its own clock
    times: Ints
    lost: Floats  # what all others waited in those


def _late(cells: _Cells, who: Ints, several: int) -> _Late:
    """Who came last, rank by rank or host by host."""
    last = _last(cells, who)
    clear = np.flatnonzero(last.gain)
    whose, begin = last.who[clear], cells.begin[last.row[clear]]
    all_lost = np.bincount(cells.instance, _waited(cells)) if len(cells) else np.zeros(0)
    lost = all_lost[cells.instance[last.row[clear]]]
    return _Late(
        union_by(whose, begin - last.gain[clear], begin, several),
        np.bincount(whose, minlength=several).astype(np.int64),
        np.bincount(whose, lost, several).astype(np.float64),
    )


def _mean(total: float, steps: int) -> int:
    return round(total / max(1, steps))


def _maybe(value: float) -> int | None:
    return None if np.isnan(value) else round(value)


def _waiting(row: RankRow) -> int:
    return max(row.waits_ns or 0, row.tasks_wait_ns or 0)


def _rank_rows(steps: _Steps, waits: Ints, late: _Late, told: bool) -> list[RankRow]:
    middle = [
        float(np.nanmedian(part)) if (~np.isnan(part)).any() else np.nan for part in (steps.computing, steps.idle)
    ]
    return [
        RankRow(
            int(rank), steps.host[at], _mean(int(waits[at]), int(steps.steps[at])) if told else None,
            _maybe(steps.only_waiting[at]),
            _mean(int(late.gain[at]), int(steps.steps[at])) if told else None, int(late.times[at]),
            _mean(late.lost[at], int(steps.steps[at])), _maybe(steps.computing[at]), _maybe(steps.idle[at]),
            _maybe(steps.computing[at] - middle[0]), _maybe(steps.idle[at] - middle[1]),
        )
        for at, rank in enumerate(steps.ranks.tolist())
    ]  # fmt: skip


def _host_rows(
    steps: _Steps, cells: _Cells, waits: Ints, code: Ints, named: NDArray[np.bool_], told: bool
) -> list[HostRow]:  # fmt: skip
    hosts = int(code.max(initial=-1)) + 1
    late = _late(cells, code[cells.rank] if len(cells) else cells.rank, hosts)
    found = []
    for host in np.unique(code[named]).tolist():
        mine = np.flatnonzero(code == host)
        many = int(steps.steps[mine].max())
        found.append(
            HostRow(
                str(steps.host[mine[0]]),
                len(mine),
                _mean(float(waits[mine].mean()), many) if told else None,
                _mean(int(late.gain[host]), many) if told else None,
            )  # fmt: skip
        )
    return found


def _group_rows(steps: _Steps, cells: _Cells, teams: _Teams) -> list[GroupRow]:
    last = _last(cells, cells.rank)
    waited = np.bincount(cells.team, _waited(cells), len(teams.names))
    pair, which = np.unique(cells.team[last.row] * (1 << 32) + last.who, return_inverse=True)
    summed = np.bincount(which, last.gain, len(pair))
    many = int(steps.steps.max(initial=1))
    found = []
    for team in np.unique(cells.team).tolist():
        mine = np.flatnonzero(pair >> 32 == team)
        best = mine[int(np.argmax(summed[mine]))]
        ranks = len(np.unique(cells.rank[cells.team == team]))
        found.append(
            GroupRow(
                teams.names[team],
                teams.kinds[team],
                int(teams.captured[team]),
                teams.sizes[team],
                round(float(teams.collectives[team])),
                _mean(waited[team] / ranks, many),
                int(steps.ranks[pair[best] & 0xFFFFFFFF]) if summed[best] else None,
                _mean(float(summed[best]), many),
            )  # fmt: skip
        )
    return sorted(found, key=lambda row: (-row.waits_ns, row.group))


def _links(con: duckdb.DuckDBPyConnection, steps: _Steps, top: int) -> tuple[Sequence[LinkRow], int, int]:
    """The slowest links, how many could be compared with their likes, and how many of those are slow."""
    rows = con.execute(
        f"""
        WITH usual AS (
            SELECT link, what, size, median(rate) AS usual FROM fleet_link
            GROUP BY ALL HAVING count(DISTINCT (rank, peer)) >= {_LINKS}
        ), compared AS (
            SELECT rank, peer, link, sum(count)::BIGINT AS count, sum(bytes) * 1e9 / sum(dur_ns) AS rate,
                sum(count * usual / rate) / sum(count) AS times,
                sum(count) FILTER (usual / rate >= {_SLOWER}) / sum(count) AS part
            FROM fleet_link JOIN usual USING (link, what, size) GROUP BY ALL
        )
        SELECT *, times >= {_SLOWER} AND part >= {_PART} AND count >= {_COUNT} AS slow, count(*) OVER () AS compared,
            count(*) FILTER (times >= {_SLOWER} AND part >= {_PART} AND count >= {_COUNT}) OVER () AS several
        FROM compared ORDER BY slow DESC, times DESC, rank, peer, link LIMIT {int(top)}
        """
    ).fetchall()  # fmt: skip
    hosts = dict(zip(steps.ranks.tolist(), steps.host.tolist(), strict=True))
    found = [
        LinkRow(
            rank, peer, hosts.get(rank), hosts.get(peer), link, count, float(rate), float(rate * times), float(times),
            bool(slow),
        )
        for rank, peer, link, count, rate, times, part, slow, _, _ in rows
    ]  # fmt: skip
    return found, int(rows[0][8]) if rows else 0, int(rows[0][9]) if rows else 0
