"""Memory copies of a run: by direction and size, how fast against the link, and what of each is exposed.

A copy is exposed while its rank's device neither computes nor communicates. Sizes are the profiler's; where it says
none, nothing that follows from a size is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.device.abilities import UNNAMED, device
from npulens.analysis.idle.origin import Origin, origin
from npulens.analysis.intervals import EMPTY, Intervals, Ints
from npulens.analysis.run import Run
from npulens.analysis.selection.pane import cut_to, panes_of

#: Instances a table holds, and single points a chart draws; more are put into cells.
MOST_WORST, MOST_POINTS = 500, 2000
#: Cells of a decade of size and of bandwidth.
_CELLS = 4

_COPIES = """
    SELECT s.span_id, s.rank, s.step, s.track, s.ts_ns, s.dur_ns, s.name, coalesce(t.direction, '') AS direction,
        coalesce(t.bytes, -1) AS bytes, t.blocking, s.name ILIKE '%pageable%' AS pageable
    FROM span s LEFT JOIN transfer t USING (span_id) WHERE s.kind = 'memcpy' ORDER BY s.rank, s.ts_ns, s.span_id
"""


#: What copies of a direction go over. Within a device they read and write its memory.
LINKS = {"h2d": ("pcie",), "d2h": ("pcie",), "p2p": ("nvlink", "infinity_fabric", "hccs"), "d2d": ("memory",)}


@dataclass(frozen=True)
class Total:
    """Copies of one rank; times are unions, NULL is not recorded."""

    rank: int
    wall_ns: int | None
    copy_ns: int | None
    exposed_ns: int | None
    idle_ns: int | None


@dataclass(frozen=True)
class Way:
    """All copies in one direction, ranks together; times are unions of each rank, added."""

    direction: str  # '': not recorded
    count: int
    bytes: int | None
    busy_ns: int
    exposed_ns: int | None
    bytes_per_s: float | None  # of busy_ns
    best_bytes_per_s: float | None  # of the fastest copy
    link: str | None  # what these copies go over, as device_facts.toml calls it
    link_bytes_per_s: float | None  # what it can carry; None: not known
    blocking: int | None  # copies the host waited for; None: not recorded
    pageable: int  # copies whose name says that their memory was not pinned


@dataclass(frozen=True)
class Link:
    """What a rank's device can move; None is not known."""

    ranks: tuple[int, ...]
    device: str
    named: bool  # told by its name, not by what the capture shows of it
    links: tuple[tuple[str, float], ...]  # name, bytes per second and direction; 'memory' is its own
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Copies:
    """All measurements of the page."""

    totals: tuple[Total, ...]
    ways: tuple[Way, ...]
    worst: pd.DataFrame  # the most exposed copies, worst first
    count: int
    exposed_count: int  # copies of which some part is exposed
    links: tuple[Link, ...]
    groups: pd.DataFrame  # direction, from_bytes, count, ranks, bytes, busy, overlapped, exposed, bytes_per_s
    cloud: Cloud


def copies(con: duckdb.DuckDBPyConnection) -> Copies:
    """Totals, directions and the most exposed copies."""
    run = Run.of(con)
    found = con.execute(_COPIES).fetchdf()
    found["exposed_ns"] = exposed(run, found)
    shown = found[found["exposed_ns"] > 0].sort_values(["exposed_ns", "span_id"], ascending=[False, True])
    held = links(run)
    return Copies(
        totals(con), tuple(_way(run, held, str(way), mine) for way, mine in found.groupby("direction", sort=True)),
        _spoken(shown.head(MOST_WORST)), len(found), len(shown), held, _groups(run), cloud(con),
    )  # fmt: skip


def _told(run: Run) -> dict[int, Intervals]:
    """When each rank's device computes or communicates."""
    every = ((rank, run.activity(rank)) for rank in run.ranks)
    return {rank: (did.computing or EMPTY) | (did.communication or EMPTY) for rank, did in every}


def exposed(run: Run, found: pd.DataFrame) -> Ints:
    """What of each copy runs while its rank neither computes nor communicates."""
    begins, length = found["ts_ns"].to_numpy(np.int64), found["dur_ns"].to_numpy(np.int64)
    rank, shown = found["rank"].to_numpy(np.int64), np.zeros(len(found), np.int64)
    for one in np.unique(rank).tolist():
        mine, busy = rank == one, run.get(_told)[one]
        shown[mine] = length[mine] - busy.within(begins[mine], begins[mine] + length[mine])
    return shown


def totals(con: duckdb.DuckDBPyConnection) -> tuple[Total, ...]:
    """The copies' part in the split of each rank."""
    rows = con.execute(
        "SELECT rank, dur_ns, copy_ns, copy_not_overlapped_ns, idle_ns FROM split WHERE step IS NULL ORDER BY rank"
    ).fetchall()
    return tuple(Total(*row) for row in rows)


def _way(run: Run, held: tuple[Link, ...], direction: str, mine: pd.DataFrame) -> Way:
    busy, shown, complete = 0, 0, True
    panes = panes_of(run.con)
    for rank, rows in mine.groupby("rank"):
        did = run.activity(int(rank))
        begins = rows["ts_ns"].to_numpy(np.int64)
        union = cut_to(Intervals.union_of(begins, begins + rows["dur_ns"].to_numpy(np.int64)), panes, int(rank))
        busy += union.total()
        complete &= did.computing is not None and did.communication is not None
        shown += union.total() - int(run.get(_told)[int(rank)].within(union.starts, union.ends).sum())
    sized = bool((mine["bytes"] >= 0).all())
    moved = int(mine["bytes"].sum()) if sized else None
    timed = mine[(mine["bytes"] > 0) & (mine["dur_ns"] > 0)]
    known = mine["blocking"].notna()
    link, speed = _link(held, direction)
    return Way(
        direction, len(mine), moved, busy, shown if complete else None,
        moved / busy * 1e9 if moved is not None and busy else None,
        float((timed["bytes"] / timed["dur_ns"]).max() * 1e9) if len(timed) else None, link, speed,
        int(mine["blocking"][known].astype(bool).sum()) if known.any() else None, int(mine["pageable"].sum()),
    )  # fmt: skip


def _link(held: tuple[Link, ...], direction: str) -> tuple[str | None, float | None]:
    """What copies of a direction go over, and what it carries where all devices agree."""
    wanted = LINKS.get(direction, ())
    found = {(name, speed) for one in held for name, speed in one.links if name in wanted}
    return found.pop() if len(found) == 1 else (None, None)


def _spoken(rows: pd.DataFrame) -> pd.DataFrame:
    """With sizes and speeds where they are known, as columns that may hold nothing."""
    size = rows["bytes"].where(rows["bytes"] >= 0).astype("Int64")
    speed = (size / rows["dur_ns"].where(rows["dur_ns"] > 0) * 1e9).astype("Float64")
    return rows.assign(bytes=size, bytes_per_s=speed).reset_index(drop=True)


def links(run: Run) -> tuple[Link, ...]:
    """What is known of the ranks' devices, ranks with equal devices together."""
    alike: dict[tuple[str, tuple[tuple[str, float], ...], tuple[str, ...]], list[int]] = {}
    for rank in run.ranks:
        here = device(run, rank)
        if here is not None:
            memory = {} if here.memory_bytes_per_s is None else {"memory": here.memory_bytes_per_s}
            key = (here.name, tuple(sorted({**here.links, **memory}.items())), here.sources)
            alike.setdefault(key, []).append(rank)
    return tuple(
        Link(tuple(ranks), name, name != UNNAMED, speeds, sources) for (name, speeds, sources), ranks in alike.items()
    )


def groups(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """The view transfer_group, its ranks together: each number added, NULL where one of them is."""
    return _groups(Run.of(con))


#: Copies of each rank by direction and size class, as the view transfer_group has them.
_CLASSED = """
    SELECT
        s.rank, t.direction, t.bytes, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns,
        CASE WHEN t.bytes > 0 THEN (1::BIGINT << (length(bin(t.bytes)) - 1)) WHEN t.bytes = 0 THEN 0 END AS from_bytes
    FROM span s LEFT JOIN transfer t USING (span_id) WHERE s.kind = 'memcpy'
"""


def _groups(run: Run) -> pd.DataFrame:
    named = run.con.execute(
        f"SELECT rank, direction, from_bytes, count(*), sum(bytes)::BIGINT FROM ({_CLASSED}) "
        "GROUP BY rank, direction, from_bytes ORDER BY rank, direction, from_bytes"
    ).fetchall()
    found = run.columns(
        "SELECT dense_rank() OVER (ORDER BY rank, direction, from_bytes) - 1 AS number, ts_ns, end_ns "
        f"FROM ({_CLASSED}) ORDER BY number"
    )
    edges = np.searchsorted(found["number"], np.arange(len(named) + 1))
    rows: list[tuple[object, ...]] = []
    panes = panes_of(run.con)
    for at, (rank, direction, size, count, moved) in enumerate(named):
        mine, did = slice(edges[at], edges[at + 1]), run.activity(rank)
        begins, ends = (found[name][mine].astype(np.int64) for name in ("ts_ns", "end_ns"))
        union = cut_to(Intervals.union_of(begins, ends), panes, rank)
        known = did.computing is not None and (did.communication is not None or did.complete)
        over = int(run.get(_told)[rank].within(union.starts, union.ends).sum()) if known else None
        shown = None if over is None else union.total() - over
        rows.append((direction, size, count, moved, union.total(), over, shown))
    names = ("direction", "size", "count", "moved", "busy", "over", "shown")
    return run.con.execute("""
        WITH own AS (
            SELECT
                unnest($direction::VARCHAR[]) AS direction, unnest($size::BIGINT[]) AS from_bytes,
                unnest($count::BIGINT[]) AS count, unnest($moved::BIGINT[]) AS bytes,
                unnest($busy::BIGINT[]) AS busy_ns,
                unnest($over::BIGINT[]) AS overlapped_ns, unnest($shown::BIGINT[]) AS exposed_ns
        ), added AS (
            SELECT
                direction, from_bytes, sum(count)::BIGINT AS count, count(*) AS ranks,
                CASE WHEN count(bytes) = count(*) THEN sum(bytes)::BIGINT END AS bytes, sum(busy_ns)::BIGINT AS busy_ns,
                CASE WHEN count(overlapped_ns) = count(*) THEN sum(overlapped_ns)::BIGINT END AS overlapped_ns,
                CASE WHEN count(exposed_ns) = count(*) THEN sum(exposed_ns)::BIGINT END AS exposed_ns
            FROM own GROUP BY direction, from_bytes
        )
        SELECT *, CASE WHEN busy_ns > 0 THEN bytes * 1e9 / busy_ns END AS bytes_per_s FROM added
        ORDER BY busy_ns DESC, direction, from_bytes
        """, {name: [row[at] for row in rows] for at, name in enumerate(names)}).fetchdf()  # fmt: skip


@dataclass(frozen=True)
class Cloud:
    """Copies by size and speed: single ones, or cells with how many they hold."""

    points: pd.DataFrame  # direction, bytes, bytes_per_s, count, dur_ns (of the point; of a cell: added)
    cells: bool
    count: int  # copies with a size and a length
    without: int  # copies without


def cloud(con: duckdb.DuckDBPyConnection) -> Cloud:
    """Every copy whose size and length are known; more than `MOST_POINTS` are put into cells of a quarter decade."""
    count, every = con.execute(
        "SELECT count(*) FILTER (t.bytes > 0 AND s.dur_ns > 0), count(*) "
        "FROM span s LEFT JOIN transfer t USING (span_id) WHERE s.kind = 'memcpy'"
    ).fetchall()[0]
    cells = count > MOST_POINTS
    size, speed = "t.bytes", "t.bytes * 1e9 / s.dur_ns"
    where = [f"round(log10({value}) * {_CELLS})" if cells else value for value in (size, speed)]
    points = con.execute(f"""
        SELECT
            coalesce(t.direction, '') AS direction, median({size}) AS bytes, median({speed}) AS bytes_per_s,
            count(*) AS count, sum(s.dur_ns)::BIGINT AS dur_ns
        FROM span s JOIN transfer t USING (span_id) WHERE s.kind = 'memcpy' AND t.bytes > 0 AND s.dur_ns > 0
        GROUP BY coalesce(t.direction, ''), {", ".join(where)} ORDER BY ALL""").fetchdf()
    return Cloud(points, cells, count, every - count)


def origin_of(con: duckdb.DuckDBPyConnection, span_id: int) -> Origin:
    """The operator and the line of code that a copy comes from."""
    return origin(Run.of(con), span_id)
