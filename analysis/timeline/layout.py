"""What the timeline is made of: tracks in drawing order, counters, steps, and how sure the clocks of the ranks are."""

from __future__ import annotations

from collections import Counter as Counted
from dataclasses import dataclass, replace

import duckdb

from npulens.analysis.timeline import arrows

#: Kind of track -> the group it is drawn in; groups in drawing order.
GROUPS = {
    "host_thread": "host", "stream": "stream", "comm_group": "comm", "comm_plane": "comm", "profiler": "profiler",
    "other": "other",
}  # fmt: skip
#: Letters of a group's name that tell it from others: its number stands last.
_END = 12
_ORDER = ("host", "gaps", "stream", "comm", "profiler", "other")


@dataclass(frozen=True)
class Track:
    id: int
    rank: int
    group: str
    kind: str
    name: str
    process: str
    lanes: int
    spans: int
    begin: int
    end: int


@dataclass(frozen=True)
class Counter:
    id: int
    rank: int
    counter: str
    series: str
    least: float
    most: float
    points: int


@dataclass(frozen=True)
class Rank:
    rank: int
    device: str | None
    host: str | None


@dataclass(frozen=True)
class Layout:
    end: int  # just after the last span
    origin: int
    clock: str
    ranks: tuple[Rank, ...]
    tracks: tuple[Track, ...]
    counters: tuple[Counter, ...]
    steps: tuple[tuple[int, int, int, int], ...]  # rank, step, start, length
    routes: tuple[tuple[str, int], ...]  # how launch arrows were found, and how many


def gap_track(rank: int) -> int:
    """The number of the track that shows why a rank's device idled."""
    return -1 - rank


def layout(con: duckdb.DuckDBPyConnection, run: duckdb.DuckDBPyConnection) -> Layout:
    """The whole of it, from the level-of-detail file and the run's own tables."""
    origin, clock = run.execute("SELECT origin_ns, clock FROM run").fetchall()[0]
    ranks = run.execute("SELECT rank, device_name, host FROM rank ORDER BY rank").fetchall()
    # A counter may go on after all work.
    ((last,),) = run.execute("SELECT coalesce(max(last_ns), 0) FROM rank").fetchall()
    steps = run.execute("SELECT rank, step, ts_ns, dur_ns FROM step ORDER BY rank, ts_ns").fetchall()
    rows = con.execute(
        "SELECT track, rank, kind, name, process, lanes, spans, ts_ns, end_ns, sort FROM track "
        "ORDER BY rank, sort NULLS LAST, track"
    ).fetchall()
    tracks = _apart(run, [Track(row[0], row[1], GROUPS.get(row[2], "other"), *row[2:9]) for row in rows])
    tracks += [_gaps(rank, [track for track in tracks if track.rank == rank]) for rank, _, _ in ranks]
    counters = con.execute("SELECT id, rank, counter, series, least, most, points FROM counter ORDER BY id").fetchall()
    return Layout(
        max([track.end for track in tracks] + [ts + dur for _, _, ts, dur in steps] + [last, 1]), origin, clock,
        tuple(Rank(*row) for row in ranks),
        tuple(sorted((t for t in tracks if t.spans or t.group == "gaps"), key=_place)),
        tuple(Counter(*row) for row in counters), tuple(steps), arrows.routes(run),
    )  # fmt: skip


def _apart(run: duckdb.DuckDBPyConnection, tracks: list[Track]) -> list[Track]:
    """Planes of several groups are called alike; then the kind of their group stands behind, or the end of its name."""
    groups: dict[int, str] = dict(run.execute("SELECT track, group_name FROM track WHERE plane IS NOT NULL").fetchall())
    of_group = "SELECT group_name, any_value(kind) FROM parallel_group GROUP BY group_name"
    kinds: dict[str, str] = dict(run.execute(of_group).fetchall())
    alike = Counted((track.rank, track.name) for track in tracks if groups.get(track.id))
    return [
        replace(track, name=f"{track.name} · {kinds.get(group) or group[-_END:]}")
        if (group := groups.get(track.id)) and alike[track.rank, track.name] > 1 else track
        for track in tracks
    ]  # fmt: skip


def _gaps(rank: int, tracks: list[Track]) -> Track:
    """The gap track of a rank; how many pieces it holds is known only when they are."""
    device = [track for track in tracks if track.group in ("stream", "comm")]
    begin, end = min((t.begin for t in device), default=0), max((t.end for t in device), default=0)
    return Track(gap_track(rank), rank, "gaps", "gaps", "", "", 1, 0, begin, end)


def _place(track: Track) -> tuple[int, int]:
    return track.rank, _ORDER.index(track.group)
