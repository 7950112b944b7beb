"""Answers in the shape the canvas reads: the layout as JSON, a view as a tile's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.look.path import KINDS
from npulens.analysis.timeline.detail import Detail
from npulens.analysis.timeline.gaps import Pieces
from npulens.analysis.timeline.ids import SPAN_BITS, TRACK_BITS
from npulens.analysis.timeline.layout import Track
from npulens.analysis.timeline.path import TRACK
from npulens.analysis.timeline.summary import Summary
from npulens.analysis.timeline.view import View
from npulens.app.text.words.path import TEXT
from npulens.app.timeline.opened import Opened
from npulens.app.timeline.wire import Column, encoded, shown

#: Characters of a text, and of the arguments, and frames of a stack, that the details of one span show.
LONGEST_TEXT, LONGEST_ARGS, MOST_FRAMES = 4_096, 100_000, 512


def as_layout(run: Opened) -> dict[str, Any]:
    """Everything but the spans. Clocks and gaps say "working" until they are known."""
    found, known, pieces = run.layout, run.known(), run.pieces()
    clock = known.clock if known else None
    return {
        "from": 0, "to": found.end, "origin": str(found.origin), "clock": found.clock,
        "causes_state": state(run.causes), "path_state": state(run.path),
        "ranks": [
            {"rank": rank.rank, "device": shown(rank.device or ""), "host": shown(rank.host or ""),
             "shift_ns": clock.offsets[rank.rank].ns if clock and rank.rank in clock.offsets else None,
             "uncertainty_ns": clock.uncertainty_ns(rank.rank) if clock else None}
            for rank in found.ranks
        ],
        "tracks": [
            *_path(pieces),
            *(
                _track(run, track, len(pieces[track.id].start) if track.id in pieces else None)
                for track in found.tracks
                if track.group != "gaps" or known is None or track.id in pieces
            ),
        ],
        "counters": [
            {"id": each.id, "rank": each.rank, "counter": shown(each.counter), "series": shown(each.series),
             "min": each.least, "max": each.most, "points": each.points}
            for each in found.counters
        ],
        "steps": [{"rank": rank, "step": step, "ts": ts, "dur": dur} for rank, step, ts, dur in found.steps],
        "causes": {cause: list(text) for cause, text in {**CAUSES, **GAP_ONLY}.items()},
        "path_kinds": {kind: list(TEXT[f"kind_{kind}"]) for kind in KINDS},
    }  # fmt: skip


def state(future: Future[Any]) -> str:
    """Whether something is known by now: "working", "done" or "failed"."""
    if not future.done():
        return "working"
    return "done" if future.exception() is None else "failed"


def _path(pieces: Mapping[int, Pieces]) -> list[dict[str, Any]]:
    """The lane of the critical path, which belongs to no rank."""
    if TRACK not in pieces:
        return []
    of = pieces[TRACK]
    return [{
        "id": TRACK, "rank": None, "group": "path", "name": "", "process": "", "lanes": 1, "spans": len(of.start),
        "from": int(of.start[0]), "to": int(of.end[-1]),
    }]  # fmt: skip


def _track(run: Opened, track: Track, pieces: int | None) -> dict[str, Any]:
    return {
        "id": run.slots.out(track.id, TRACK_BITS), "rank": track.rank, "group": track.group, "name": shown(track.name),
        "process": shown(track.process), "lanes": track.lanes, "spans": track.spans if pieces is None else pieces,
        "from": track.begin, "to": track.end,
    }  # fmt: skip


def as_tile(run: Opened, begin: int, end: int, found: View) -> bytes:
    """The bytes of a tile."""
    spans, cells, slots = found.spans, found.cells, run.slots
    tracks = [slots.out(part.track, TRACK_BITS) for part in (spans, cells)]
    header: dict[str, object] = {
        "from": begin, "to": end, "bucket_ns": found.bucket_ns, "names": [shown(name) for name in found.names],
        "kinds": found.kinds, "n_spans": len(spans.ts), "n_cells": len(cells.ts), "causes": state(run.causes),
    }  # fmt: skip
    return encoded(header, (
        Column("s_ts", "f64", spans.ts), Column("s_dur", "f64", spans.dur),
        Column("s_id", "f64", slots.out(spans.id, SPAN_BITS)), Column("s_track", "i32", tracks[0]),
        Column("s_lane", "u16", spans.lane), Column("s_name", "u32", spans.name), Column("s_kind", "u8", spans.kind),
        Column("c_ts", "f64", cells.ts), Column("c_track", "i32", tracks[1]),
        Column("c_lane", "u16", cells.lane), Column("c_n", "u32", cells.spans),
        Column("c_busy", "f32", (cells.busy / max(found.bucket_ns, 1)).clip(0, 1)),
        Column("c_longest", "f64", cells.longest), Column("c_name", "u32", cells.name),
    ))  # fmt: skip


def as_detail(run: Opened, found: Detail) -> dict[str, Any]:
    """One span. Texts longer than a screen are cut and end in "…"."""
    slots = run.slots
    return {
        "id": slots.out(found.id, SPAN_BITS), "rank": found.rank, "track": slots.out(found.track, TRACK_BITS),
        "name": shown(found.name, LONGEST_TEXT), "kind": found.kind, "ts": found.ts, "dur": found.dur,
        "step": found.step, "depth": found.depth,
        "parent": None if found.parent is None else slots.out(found.parent, SPAN_BITS),
        "facts": [[key, _fact(run, key, value)] for key, value in found.facts],
        "pmu": [[shown(metric), value] for metric, value in found.pmu],
        "stack": None if found.stack is None else [shown(frame, LONGEST_TEXT) for frame in found.stack[:MOST_FRAMES]],
        "args": None if found.args is None else _cut(found.args),
        "links": [
            {"id": slots.out(link.id, SPAN_BITS), "track": slots.out(link.track, TRACK_BITS), "rank": link.rank,
             "ts": link.ts, "dur": link.dur, "name": shown(link.name), "route": link.route, "out": link.out}
            for link in found.links
        ],
        "not_recorded": [list(pair) for pair in found.not_recorded],
    }  # fmt: skip


def _fact(run: Opened, key: str, value: object) -> object:
    """A column's value; a number that JavaScript would round is text."""
    if isinstance(value, str):
        return shown(value, LONGEST_TEXT)
    if isinstance(value, int) and key.endswith("span_id"):
        return run.slots.out(value, SPAN_BITS)
    return str(value) if isinstance(value, int) and abs(value) >= 2**53 else value


def _cut(args: str) -> str:
    """Arguments as written, but for their length."""
    return args if len(args) <= LONGEST_ARGS else args[: LONGEST_ARGS - 1] + "…"


def as_summary(run: Opened, found: Summary) -> dict[str, Any]:
    """The rows of a selection."""
    return {
        "rows": [
            {"track": run.slots.out(row.track, TRACK_BITS), "name": shown(row.name), "kind": row.kind,
             "count": row.count, "total_ns": row.total_ns, "self_ns": row.self_ns, "min_ns": row.min_ns,
             "max_ns": row.max_ns, "mean_ns": row.mean_ns}
            for row in found.rows
        ],
        "busy": [{"track": run.slots.out(track, TRACK_BITS), "busy_ns": ns} for track, ns in found.busy],
        "cut": found.cut,
    }  # fmt: skip
