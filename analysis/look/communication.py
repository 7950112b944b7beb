"""Communication as its page shows it: by type and group, operator by operator, link by link, peer by peer.

Times of several operators of one rank are unions, never sums. Where several ranks are told in one number it is their
mean. What waits and transfers are is decided where every detector takes it from (analysis/ranks/comm_tasks.py).
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pandas as pd

from npulens.analysis.kept import ready

#: Names of the profiler's ranking of one operator kind (top1, middle, bottom2...); "total" adds all of them.
_RANKED = r"-(top|middle|bottom)\d*$"


@dataclass(frozen=True)
class Summary:
    """All communication of the capture, as means over the ranks that recorded it."""

    ranks: int
    operators: int
    whole_ns: int
    busy_ns: int
    exposed_ns: int | None
    only_waiting_ns: int | None  # of exposed_ns
    fused: int  # of the operators, kernels that compute at the same time


@dataclass(frozen=True)
class Kind:
    """Operators of one type in one group. Times are means over its ranks, each a union over the rank's operators."""

    collective: str
    group: str
    ranks: int
    operators: int
    bytes: int | None  # of one rank
    busy_ns: int
    exposed_ns: int | None
    transfer_ns: int | None  # None: no tasks were recorded
    only_waiting_ns: int | None
    late_launch_ns: int | None
    longest_ns: int


@dataclass(frozen=True)
class Group:
    """A communication group: its kind, its members, and which of them the run holds."""

    name: str
    kind: str | None
    members: tuple[int, ...]
    captured: tuple[int, ...]
    source: str


@dataclass(frozen=True)
class Moment:
    """A window that the timeline can show."""

    rank: int
    ts_ns: int
    dur_ns: int
    span_id: int | None
    name: str


@dataclass(frozen=True)
class Peer:
    """A peer that came last, as the ranks that waited for it saw it."""

    rank: int | None
    local: int | None  # within `group`, where the global rank is not known
    group: str | None
    captured: bool
    operators: int
    waiting: tuple[int, ...]  # ranks that waited
    wait_ns: int  # of the rank that waited most
    gain_ns: int  # of that, what the second latest peer does not explain
    how: str  # 'tasks', 'clock' or 'guessed'
    unsure_ns: int
    moments: tuple[Moment, ...]


def summary(con: duckdb.DuckDBPyConnection) -> Summary | None:
    """How much the run communicates; None where no rank recorded communication."""
    row = con.execute(
        "SELECT count(*), avg(dur_ns), avg(communication_ns), avg(communication_not_overlapped_ns), "
        "avg(only_waiting_ns), sum(collectives) FROM rank_step WHERE step IS NULL AND communication_ns IS NOT NULL"
    ).fetchone()
    if row is None or not row[0] or not row[5]:
        return None
    ranks, whole, busy, exposed, waiting, operators = row
    ((fused,),) = con.execute(
        "SELECT count(*) FROM comm JOIN span USING (span_id) WHERE kind = 'kernel' AND op_span_id = span_id"
    ).fetchall()
    return Summary(ranks, int(operators), round(whole), round(busy), _whole(exposed), _whole(waiting), int(fused))


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def kinds(con: duckdb.DuckDBPyConnection) -> tuple[Kind, ...]:
    """Every type of operator in every group, the one that takes longest first."""
    ready(con, ("comm_kind",))
    return tuple(Kind(*row) for row in con.execute("SELECT * FROM comm_kind").fetchall())


def groups(con: duckdb.DuckDBPyConnection) -> tuple[Group, ...]:
    """The groups of the job, the largest first."""
    rows = con.execute(
        "SELECT group_name, max(kind), list(rank ORDER BY coalesce(position, rank)), "
        "coalesce(list(rank ORDER BY rank) FILTER (captured), []), min(source) "
        "FROM group_member GROUP BY group_name ORDER BY count(*) DESC, group_name"
    ).fetchall()
    return tuple(Group(name, kind, tuple(all_), tuple(held), source) for name, kind, all_, held, source in rows)


def longest(con: duckdb.DuckDBPyConnection, rank: int | None, most: int) -> pd.DataFrame:
    """The longest operators of a rank, or of all: what each moves and where its time goes."""
    return con.execute(
        "SELECT span_id, rank, step, name, collective, group_name, bytes, ts_ns, dur_ns, transfer_ns, "
        "only_waiting_ns, late_launch_ns FROM collective WHERE ? IS NULL OR rank = ? "
        "ORDER BY dur_ns DESC, span_id LIMIT ?", [rank, rank, most],
    ).df()  # fmt: skip


def planes(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """What each plane did, as a mean over ranks; operators of one plane follow each other, so they may be added."""
    return con.execute(
        "WITH own AS (SELECT rank, plane, sum(tasks) AS tasks, sum(bytes) AS bytes, sum(transfer_ns) AS transfer_ns, "
        "sum(only_waiting_ns) AS only_waiting_ns FROM collective_plane GROUP BY ALL) "
        "SELECT plane, count(*) AS ranks, sum(tasks)::BIGINT AS tasks, avg(bytes) AS bytes, "
        "avg(transfer_ns) AS transfer_ns, avg(only_waiting_ns) AS only_waiting_ns "
        "FROM own GROUP BY plane ORDER BY plane NULLS LAST"
    ).df()


def links(con: duckdb.DuckDBPyConnection, source: str) -> pd.DataFrame:
    """What went over each link: src, dst, transport, bytes, transit_ns, bandwidth in bytes per second.

    'tasks': the transfers that name both ranks, their time as a union. 'summary': the profiler's own matrix, its rows
    for "all of a kind" where it has them. Its rank numbers are as written and may count within a group.
    """
    if source == "summary":
        return con.execute(
            "WITH kept AS (SELECT * FROM comm_link WHERE NOT regexp_matches(coalesce(collective, ''), ?)) "
            "SELECT src_rank AS src, dst_rank AS dst, string_agg(DISTINCT transport, ', ') AS transport, "
            "sum(bytes)::BIGINT AS bytes, sum(transit_ns)::BIGINT AS transit_ns, "
            "sum(bytes) / nullif(sum(transit_ns), 0) * 1e9 AS bytes_per_s FROM kept "
            "WHERE src_rank IS NOT NULL AND dst_rank IS NOT NULL GROUP BY ALL ORDER BY ALL", [_RANKED],
        ).df()  # fmt: skip
    return con.execute(
        "WITH move AS (SELECT t.rank, c.src_rank AS src, c.dst_rank AS dst, c.transport, t.bytes, t.ts_ns, t.end_ns "
        "FROM comm_task t JOIN comm c USING (span_id) WHERE t.part = 'transfer' AND c.src_rank IS NOT NULL "
        "AND c.dst_rank IS NOT NULL AND t.bytes IS NOT NULL), "
        "free AS (SELECT *, greatest(0, end_ns - greatest(ts_ns, coalesce(max(end_ns) OVER before, ts_ns))) AS more_ns "
        "FROM move WINDOW before AS (PARTITION BY rank, src, dst ORDER BY ts_ns, end_ns "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) "
        "SELECT src, dst, string_agg(DISTINCT transport, ', ') AS transport, sum(bytes)::BIGINT AS bytes, "
        "sum(more_ns)::BIGINT AS transit_ns, sum(bytes) / nullif(sum(more_ns), 0) * 1e9 AS bytes_per_s "
        "FROM free GROUP BY src, dst ORDER BY src, dst"
    ).df()


def peers(con: duckdb.DuckDBPyConnection) -> tuple[Peer, ...]:
    """Who came last to collectives, the one that cost most first."""
    ready(con, ("late_peer",))
    rows = con.execute("SELECT * EXCLUDE (place) FROM late_peer ORDER BY place").fetchall()
    return tuple(
        Peer(
            rank, local, team, captured, operators, tuple(waiting), wait, gain, how, unsure,
            tuple(Moment(**moment) for moment in moments),
        )
        for rank, local, team, captured, operators, waiting, wait, gain, how, unsure, moments in rows
    )  # fmt: skip


def peer_waits(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """rank, peer, captured, waits, wait_ns, longest_ns: how long each rank's operators waited for each peer.

    Every wait for a peer is in here, also one that runs beside a longer wait for somebody else.
    """
    return con.execute(
        "SELECT rank, peer, any_value(captured) AS captured, sum(waits)::BIGINT AS waits, "
        "sum(wait_ns)::BIGINT AS wait_ns, max(longest_ns) AS longest_ns FROM peer_wait "
        "WHERE peer IS NOT NULL GROUP BY rank, peer ORDER BY rank, peer"
    ).df()


def in_blocks(rows: pd.DataFrame, most: int) -> tuple[pd.DataFrame, int]:
    """The links between blocks of ranks, so that at most `most` rows and columns are drawn; and ranks a block."""
    top = int(max(rows["src"].max(), rows["dst"].max())) + 1 if len(rows) else 0
    each = max(1, -(-top // most))
    if each == 1:
        return rows, 1
    blocks = rows.assign(src=rows["src"] // each * each, dst=rows["dst"] // each * each)
    added = blocks.groupby(["src", "dst"], as_index=False).agg(
        {"transport": lambda names: ", ".join(sorted({str(name) for name in names if name})), "bytes": "sum",
         "transit_ns": "sum"}
    )  # fmt: skip
    return added.assign(bytes_per_s=added["bytes"] / added["transit_ns"].where(added["transit_ns"] > 0) * 1e9), each
