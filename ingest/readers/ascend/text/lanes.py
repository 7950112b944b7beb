"""Which lane of a trace is what: host thread, stream, communication group or plane, or the profiler's own split.

A lane is known by the name of its process, never by the bits of its pid, which change between versions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from npulens.ingest.tables.draft import Draft

#: Process name -> class of its lanes. Anything else is told by its label and by what its events carry.
_CLASSES = {
    "python": "host", "python gc": "gc", "cann": "cann", "ascend hardware": "hardware",
    "hccl": "comm", "communication": "comm", "overlap analysis": "overlap", "mstx": "mstx",
    "mindspore": "host", "step trace": "steps",
}  # fmt: skip
_KINDS = {
    "host": "host_thread", "cann": "host_thread", "gc": "host_thread", "hardware": "stream", "comm_group": "comm_group",
    "comm_plane": "comm_plane", "overlap": "profiler", "other": "other", "host_other": "host_thread",
    "mstx": "host_thread", "scope": "other", "steps": "profiler",
}  # fmt: skip
_GROUP = re.compile(r"^Group (.+) Communication$")
_PLANE = re.compile(r"^Plane (\d{1,9})$")
_STREAM = re.compile(r"^Stream (\d{1,18})$")
_IN_OP_NAME = re.compile(r"__(\d{3})_\d+_\d+$")
_NUMBER = re.compile(r"^\d{1,4}$")
_MAX_TRACKS = 1 << 19

_LANE = pa.schema(
    [
        ("lane", pa.int64()), ("track", pa.int64()), ("kind", pa.string()), ("class", pa.string()),
        ("name", pa.string()), ("process", pa.string()), ("pid", pa.string()), ("tid", pa.string()),
        ("stream", pa.int64()), ("group_name", pa.string()), ("plane", pa.int32()), ("sort", pa.int32()),
    ]
)  # fmt: skip

#: Columns of a track.
TRACK = ("track", "kind", "name", "process", "pid", "tid", "stream", "group_name", "plane", "sort")
TRACKS = pa.schema([_LANE.field(name) for name in TRACK])
_NAMES = """
CREATE TEMP TABLE named AS
SELECT p.text AS pid, t.text AS tid, w.text AS what, arg_max(coalesce(v.text, l.text), m.row) AS text,
    arg_max(m.sort, m.row) AS number
FROM meta m JOIN word p ON p.code = m.pid JOIN word w ON w.code = m.name LEFT JOIN word t ON t.code = m.tid
LEFT JOIN word v ON v.code = m.value LEFT JOIN word l ON l.code = m.labels
GROUP BY ALL
"""
_LANES = """
SELECT l.*, coalesce(p.text, '') AS pid, coalesce(t.text, '') AS tid FROM (
    SELECT lane, bool_or(shape = 'hardware') AS hardware, bool_or(shape = 'comm') AS comm,
        bool_or(cat >= 0) AS framework, min(name) AS name_code
    FROM x GROUP BY lane
) l LEFT JOIN str p ON p.code = lane >> 32 LEFT JOIN str t ON t.code = lane & 4294967295
"""


@dataclass(frozen=True)
class Process:
    """What the metadata events say about a pid."""

    name: str | None = None
    labels: str = ""
    sort: int | None = None


class Named(NamedTuple):
    """What metadata events say: a name, a label or a place of a process or a thread."""

    pid: str
    tid: str | None
    what: str
    text: str | None
    number: int | None


class Seen(NamedTuple):
    """A lane that has spans: what its events carry, and the code of one of their names."""

    lane: int | None
    pid: str
    tid: str
    hardware: bool
    comm: bool
    framework: bool
    name_code: int | None


def name_lanes(draft: Draft, groups: Mapping[str, str]) -> list[dict[str, Any]]:
    """Make the view ``lane``, one row per (pid, tid) that has spans, and provide their tracks.

    ``groups``: every hash of a communication group that is known, and the group's name.
    """
    draft.make(_NAMES)
    named = [Named(*row) for row in draft.con.execute("SELECT pid, tid, what, text, number FROM named").fetchall()]
    seen = [Seen(**row) for row in draft.con.sql(_LANES).to_arrow_table().to_pylist()]

    def words(codes: Sequence[int | None]) -> dict[int, str]:
        query = "SELECT code, text FROM word WHERE code IN (SELECT unnest(?))"
        return dict(draft.con.execute(query, [codes]).fetchall())

    lanes = lanes_of(named, seen, groups, words)
    draft.table("lane", [{key: lane[key] for key in _LANE.names} for lane in lanes], _LANE)
    draft.provide("track", f"SELECT DISTINCT ON (track) {', '.join(TRACK)} FROM lane")
    for key, value in facts(named):
        draft.fact(key, value)
    return lanes


def lanes_of(
    named: Sequence[Named], seen: Sequence[Seen], groups: Mapping[str, str],
    words: Callable[[Sequence[int | None]], Mapping[int, str]],
) -> list[dict[str, Any]]:  # fmt: skip
    """The lanes in the order in which the profiler shows them. ``words`` gives the texts of codes."""
    processes, threads, sorts = _processes(named), _threads(named, "thread_name"), _threads(named, "thread_sort_index")
    found = [*(lane._asdict() for lane in seen), *_idle(seen, threads)]
    lanes = [_lane(row, processes.get(row["pid"], Process()), threads.get((row["pid"], row["tid"]))) for row in found]
    for lane in lanes:
        place = sorts.get((lane["pid"], lane["tid"]), _int(lane["tid"]))
        lane["order"] = (lane["order"], place if place is not None else 1 << 62, lane["tid"])
    lanes.sort(key=lambda lane: (lane["order"], lane["pid"]))
    _name_groups(lanes, groups, words([lane["name_code"] for lane in lanes]))
    lanes = [lane for lane in lanes if lane["lane"] is not None]
    _number(lanes)
    return lanes


def facts(named: Sequence[Named]) -> list[tuple[str, object]]:
    """What the names of processes say of the rank."""
    processes = _processes(named)
    device = next((int(p.labels[4:]) for p in processes.values() if re.fullmatch(r"NPU \d{1,9}", p.labels)), None)
    pid = next((_int(pid) for pid, p in processes.items() if p.name == "Python"), None)
    return [("device_id", device), ("pid", pid)]


def group_name(raw: str | None, op_name: str | None, groups: Mapping[str, str]) -> str | None:
    """The name of a communication group, the same on every rank.

    Old versions number the groups of a rank; the operators then carry the last three digits of the group's hash.
    """
    if raw and not _NUMBER.match(raw):
        return groups.get(raw, raw)
    digits = _IN_OP_NAME.search(op_name or "")
    if not digits:
        return raw
    fitting = {name for known, name in groups.items() if known.endswith(digits[1])}
    return fitting.pop() if len(fitting) == 1 else digits[1]


def _threads(named: Sequence[Named], what: str) -> dict[tuple[str, str], Any]:
    of = [(one, one.number if what == "thread_sort_index" else one.text) for one in named if one.what == what]
    return {(one.pid, one.tid or ""): value for one, value in of if value is not None}


def _processes(named: Sequence[Named]) -> dict[str, Process]:
    found: dict[str, Process] = {}
    order = sorted(named, key=lambda one: (
        one.pid, one.what, one.text is None, one.text or "", one.number is None, one.number or 0))  # fmt: skip
    for pid, _, what, text, number in order:
        known = found.get(pid, Process())
        if what == "process_name" and text:
            known = Process(text, known.labels, known.sort)
        elif what == "process_labels" and text:
            known = Process(known.name, text, known.sort)
        elif what == "process_sort_index" and number is not None:
            known = Process(known.name, known.labels, number)
        found[pid] = known
    return found


def _lane(row: dict[str, Any], process: Process, thread: str | None) -> dict[str, Any]:
    """One lane: its class, and what its thread's name says."""
    known = _CLASSES.get((process.name or "").strip().lower())
    kind = known or _guess(row, process)
    group, plane = _GROUP.match(thread or ""), _PLANE.match(thread or "")
    stream = None
    if kind == "comm":
        kind = "comm_group" if group or (thread or "").startswith("Communication") else "comm_plane"
    elif kind == "hardware":
        named = _STREAM.match(thread or "")
        stream = int(named[1]) if named else _int(row["tid"]) if not thread else None
        kind = "hardware" if stream is not None else "steps" if (thread or "").startswith("Step Trace") else "other"
    return {
        **row, "class": kind, "kind": _KINDS[kind], "name": thread or f"Thread {row['tid']}", "process": process.name,
        "stream": stream, "group_name": group[1] if group else None, "plane": int(plane[1]) if plane else None,
        "order": process.sort if process.sort is not None else 1 << 30, "unnamed": process.name is None,
    } | ({"name": thread or f"Stream {stream}"} if kind == "hardware" else {})  # fmt: skip


def _guess(row: Mapping[str, Any], process: Process) -> str:
    """The class of a lane whose process has no name we know: by what its events carry, then by its label."""
    if row["hardware"]:
        return "hardware"
    if row["comm"]:
        return "comm"
    if row["framework"]:
        return "host"
    if process.name is None:
        return "cann"
    if not process.labels.startswith("NPU"):
        return "host_other"
    # the scopes of MindSpore name what runs below them; other lanes of the device are work of its own
    return "scope" if process.name.strip().lower() == "scope layer" else "other"


def _idle(seen: Sequence[Seen], threads: Mapping[tuple[str, str], Any]) -> list[dict[str, Any]]:
    """Lanes of communication groups that have no spans: their planes may have."""
    busy = {(lane.pid, lane.tid) for lane in seen}
    return [
        Seen(None, pid, tid, hardware=False, comm=True, framework=False, name_code=None)._asdict()
        for (pid, tid), name in threads.items()
        if (pid, tid) not in busy and _GROUP.match(name)
    ]


def _name_groups(lanes: Sequence[dict[str, Any]], groups: Mapping[str, str], texts: Mapping[int, str]) -> None:
    """A plane belongs to the group listed above it; a group is named by hash, by number or by name."""
    current: dict[str, str | None] = {}
    for lane in lanes:
        if lane["class"] == "comm_group":
            raw = lane["group_name"]
            named = group_name(raw, texts.get(lane["name_code"]), groups) if raw else None
            current[lane["pid"]] = lane["group_name"] = named
            lane["name"] = f"Group {named} Communication" if named else lane["name"]
        elif lane["class"] == "comm_plane":
            lane["group_name"] = current.get(lane["pid"])


def _number(lanes: Sequence[dict[str, Any]]) -> None:
    """Number the tracks; two codes of one (pid, tid) are one track, and a hostile file has a last track."""
    tracks: dict[tuple[str, str], int] = {}
    for lane in lanes:
        track = tracks.setdefault((lane["pid"], lane["tid"]), len(tracks))
        lane["track"] = lane["sort"] = min(track, _MAX_TRACKS)


def _int(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,18}", text) else None
