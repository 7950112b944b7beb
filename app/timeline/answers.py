"""What each of the timeline's routes answers: the request's words checked, analysis asked, the answer's shape."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from itertools import chain
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.idle.pieces import CODES
from npulens.analysis.look.path import KINDS
from npulens.analysis.timeline import arrows, counters, detail, did, find, flame, gaps, path, summary, window
from npulens.analysis.timeline.detail import Detail
from npulens.analysis.timeline.find import Hit
from npulens.analysis.timeline.gaps import Pieces
from npulens.analysis.timeline.ids import SPAN_BITS, TRACK_BITS
from npulens.analysis.timeline.layout import Track, gap_track
from npulens.analysis.timeline.path import TRACK
from npulens.analysis.timeline.summary import Summary
from npulens.analysis.timeline.view import View, view
from npulens.analysis.timeline.wanted import NotUnderstood, Place, Text, Wanted, understood
from npulens.analysis.timeline.window import Row
from npulens.app.text.words.path import TEXT as PATH_TEXT
from npulens.app.timeline import export, request_values, wire
from npulens.app.timeline.opened import Opened
from npulens.app.timeline.request_values import Refused
from npulens.app.timeline.wire import Column, encoded, shown

#: Pixels of the widest screen anybody has, twice.
MOST_PIXELS = 16_384
MOST_HITS = 1_000
#: Spans of an area that are listed one by one.
MOST_LISTED = 500
#: Rows of the picture of all ranks.
MOST_ROWS = 1_024
#: Characters of a search.
LONGEST_TEXT = 500
#: Spans of one exported file: what the viewers still open.
MOST_EXPORTED = {"perfetto": 2_000_000, "speedscope": 500_000}
#: A run never changes, so what was answered once may be kept; not what is still being found out.
KEEP = {"Cache-Control": "private, max-age=86400, immutable"}
ASK_AGAIN = {"Cache-Control": "no-store"}

Answer = Callable[[Opened, Request], Response]


def as_json(said: object, headers: Mapping[str, str] = KEEP, status: int = 200) -> Response:
    """JSON in UTF-8; what no JSON number can say is null."""
    body = json.dumps(_finite(said), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(body.encode("utf-8", "replace"), status, dict(headers), "application/json")


def _finite(said: object) -> object:
    if isinstance(said, float):
        return said if math.isfinite(said) else None
    if isinstance(said, dict):
        return {key: _finite(value) for key, value in said.items()}
    return [_finite(value) for value in said] if isinstance(said, (list, tuple)) else said


def _layout(run: Opened, request: Request) -> Response:
    return as_json(as_layout(run), ASK_AGAIN)


def _tile(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    pixels = request_values.whole(request.query_params, "px", 1, MOST_PIXELS)
    tracks = _tracks(run, request.query_params)
    derived = {run.path if track == path.TRACK else run.causes for track in tracks if track < 0}
    working = not all(one.done() for one in derived)
    with run.lod.cursor() as con:
        found = view(con, run.how, run.pieces(), begin, end, pixels, tracks, wire.LONGEST_NAME)
    return Response(
        as_tile(run, begin, end, found), 200, dict(ASK_AGAIN if working else KEEP), "application/octet-stream"
    )


def _counter(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    pixels = request_values.whole(request.query_params, "px", 1, MOST_PIXELS)
    ids = request_values.ids(request.query_params, "ids") or []
    if not {counter.id for counter in run.layout.counters}.issuperset(ids):
        raise Refused("unknown_counter", 404)
    with run.lod.cursor() as con:
        found = counters.series(con, ids, begin, end, pixels)
    return as_json({"series": [
        {"id": each.id, "t": each.t, "min": each.least, "max": each.most, "last": each.last} for each in found
    ]})  # fmt: skip


def _span(run: Opened, request: Request) -> Response:
    number = run.slots.back(request_values.number(request.path_params["span"], "span"), SPAN_BITS)
    with run.run.cursor() as con:
        found = detail.detail(con, number)
    if found is None:
        raise Refused("unknown_span", 404)
    return as_json(as_detail(run, found))


def _gap(run: Opened, request: Request) -> Response:
    rank = request_values.number(request.path_params["rank"], "rank")
    text = request.path_params["ordinal"]
    at = request_values.number(text.removeprefix("@"), "ordinal")
    if not run.causes.done():
        raise Refused("preparing", 503)
    pieces = run.pieces().get(gap_track(rank))
    if pieces is None:
        raise Refused("unknown_gap", 404)
    ordinal, last = gaps.within(pieces, at, at + 1) if text.startswith("@") else (at, len(pieces.start))
    if not 0 <= ordinal < last:
        raise Refused("unknown_gap", 404)
    with run.run.cursor() as con:
        found = gaps.gap(con, pieces, ordinal)
    host = None
    if found.host:
        span, name, ts, dur = found.host
        host = {"id": run.slots.out(span, SPAN_BITS), "name": shown(name), "ts": ts, "dur": dur}
    return as_json({"id": ordinal, "rank": rank, "ts": found.ts, "dur": found.dur, "cause": found.cause, "host": host,
                    "line": shown(found.line) if found.line else None})  # fmt: skip


def _on_path(run: Opened, request: Request) -> Response:
    ordinal = request_values.number(request.path_params["ordinal"], "ordinal")
    if not run.path.done():
        raise Refused("preparing", 503)
    lane = run.lane()
    if lane is None or not 0 <= ordinal < len(lane.pieces.start):
        raise Refused("unknown_piece", 404)
    with run.run.cursor() as con:
        found = path.piece(con, lane, ordinal)
    span = None
    if found.span:
        number, rank, name, ts, dur = found.span
        span = {"id": run.slots.out(number, SPAN_BITS), "rank": rank, "name": shown(name), "ts": ts, "dur": dur}
    return as_json({"rank": found.rank, "ts": found.ts, "dur": found.dur, "whole": found.whole, "kind": found.kind,
                    "shift_ns": found.shift, "span": span})  # fmt: skip


def _near(run: Opened, request: Request) -> Response:
    query = request.query_params
    track = run.slots.back(request_values.whole(query, "track"), TRACK_BITS)
    lane, ts = request_values.whole(query, "lane", 0, 65_535), request_values.whole(query, "ts")
    span = run.slots.back(request_values.whole(query, "id"), SPAN_BITS) if "id" in query else None
    forward = request_values.choice(query, "dir", ("next", "prev")) == "next"
    if track not in _there(run):
        raise Refused("unknown_track", 404)
    if track < 0:
        pieces = run.pieces().get(track)
        found = None if pieces is None else gaps.near(pieces, ts, forward)
    else:
        with run.lod.cursor() as con:
            found = find.near(con, track, lane, ts, span, forward)
    if found is None:
        return as_json({"id": None})
    number = found[0] if track < 0 else run.slots.out(found[0], SPAN_BITS)
    return as_json({"id": number, "ts": found[1], "dur": found[2], "track": run.slots.out(track, TRACK_BITS)})


def _search(run: Opened, request: Request) -> Response:
    query = request.query_params
    text = query.get("q", "")
    if not 0 < len(text) <= LONGEST_TEXT:
        raise Refused("bad_q")
    limit = request_values.whole(query, "limit", 1, MOST_HITS, 200)
    after = request_values.whole(query, "after", default=-request_values.FAR)
    try:
        wanted = understood(text)
    except NotUnderstood as error:
        return as_json({"not_understood": shown(error.part)})
    if isinstance(wanted, Place):
        return as_json({"place": [wanted.begin, wanted.end]})
    with run.lod.cursor() as con:
        found = find.search(con, wanted, run.layout.steps, limit, after)
    return as_json({"wanted": as_wanted(wanted), "total": found.total, "total_ns": found.total_ns,
                    "hits": [as_hit(run, hit) for hit in found.hits]})  # fmt: skip


def as_wanted(wanted: Wanted) -> dict[str, Any]:
    """What was understood, for the canvas to tell hits from other spans."""

    def text(one: Text) -> dict[str, object]:
        return {"pieces": [shown(piece).lower() for piece in one.pieces], "whole": one.whole, "absent": one.absent}

    return {
        "names": [text(one) for one in wanted.names], "tracks": [text(one) for one in wanted.tracks],
        "kinds": [text(one) for one in wanted.kinds], "ranks": wanted.ranks, "steps": wanted.steps,
        "least": wanted.least_ns, "most": wanted.most_ns,
    }  # fmt: skip


def as_hit(run: Opened, hit: Hit) -> dict[str, Any]:
    """One span of a list."""
    return {"id": run.slots.out(hit.id, SPAN_BITS), "track": run.slots.out(hit.track, TRACK_BITS), "rank": hit.rank,
            "ts": hit.ts, "dur": hit.dur, "name": shown(hit.name)}  # fmt: skip


def _summary(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    tracks = _tracks(run, request.query_params)
    with run.lod.cursor() as con:
        said = as_summary(run, summary.summary(con, run.how, begin, end, [track for track in tracks if track >= 0]))
    said["rows"] += _idle_rows(run.pieces(), begin, end, tracks)
    return as_json(said, KEEP if run.causes.done() else ASK_AGAIN)


def _idle_rows(pieces: Mapping[int, Pieces], begin: int, end: int, tracks: list[int]) -> list[dict[str, Any]]:
    """Why devices idled, in the shape of the other rows."""
    return [
        {"track": track, "name": cause, "kind": "idle", "count": count, "total_ns": total, "self_ns": total,
         "min_ns": least, "max_ns": most, "mean_ns": total / count}
        for track in tracks
        if track in pieces and track != path.TRACK
        for cause, count, total, least, most in gaps.summed(pieces[track], begin, end)
    ]  # fmt: skip


def _slices(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    tracks = [track for track in _tracks(run, request.query_params) if track >= 0]
    with run.lod.cursor() as con:
        found = summary.longest(con, run.how, begin, end, tracks, MOST_LISTED + 1)
    return as_json({"slices": [as_hit(run, hit) for hit in found[:MOST_LISTED]], "cut": len(found) > MOST_LISTED})


def _flame(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    tracks = [track for track in _tracks(run, request.query_params) if track >= 0]
    with run.lod.cursor() as con:
        found = flame.flame(con, run.how, begin, end, tracks)
    if found is None:
        raise Refused("too_many", 413)
    return as_json({"spans": found.spans, "left_out": found.left_out, "frames": [
        {"parent": each.parent, "name": shown(each.name), "kind": each.kind, "count": each.count,
         "total_ns": each.total_ns, "self_ns": each.self_ns} for each in found.frames
    ]})  # fmt: skip


def _states(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    ranks = request_values.ids(request.query_params, "ranks") or []
    known = _known(run)
    return as_json({"states": [
        {"rank": rank, "role": role, "ns": ns} for rank, role, ns in did.spent(known, ranks, begin, end)
    ]})  # fmt: skip


def _known(run: Opened) -> Mapping[int, did.Did]:
    """What each rank did; Refused while that is being found out."""
    if not run.causes.done():
        raise Refused("preparing", 503)
    known = run.known()
    return known.did if known else {}


def _strip(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    pixels = request_values.whole(request.query_params, "px", 1, MOST_PIXELS // 4)
    rows = request_values.ranges(request.query_params, "rows")
    if len(rows) > MOST_ROWS:
        raise Refused("bad_rows")
    there = [rank.rank for rank in run.layout.ranks]
    ranks = [[rank for rank in there if low <= rank <= high] for low, high in rows]
    roles, found = did.shares(_known(run), ranks, begin, end, pixels)
    header: dict[str, object] = {"from": begin, "to": end, "px": pixels, "roles": roles, "rows": rows,
                                 "n_cells": found.size}  # fmt: skip
    body = encoded(header, (Column("c_share", "u8", (found * 255).round().clip(0, 255).ravel()),))
    return Response(body, 200, dict(KEEP), "application/octet-stream")


def _arrows(run: Opened, request: Request) -> Response:
    begin, end = request_values.window(request.query_params)
    tracks = [track for track in _tracks(run, request.query_params) if track >= 0]
    routes = [route for route in request.query_params.get("routes", "").split(",") if route]
    if not {route for route, _ in run.layout.routes}.issuperset(routes):
        raise Refused("bad_routes")
    with run.lod.cursor() as con, run.run.cursor() as tables:
        found = arrows.arrows(con, tables, run.how, begin, end, tracks, routes)
    if found is None:
        raise Refused("too_many", 413)

    def end_of(one: arrows.End) -> dict[str, object]:
        return {"id": run.slots.out(one.id, SPAN_BITS), "track": run.slots.out(one.track, TRACK_BITS),
                "lane": one.lane, "ts": one.ts, "dur": one.dur}  # fmt: skip

    return as_json({"cut": found.cut, "arrows": [
        {"source": end_of(each.source), "target": end_of(each.target), "route": each.route} for each in found.arrows
    ]})  # fmt: skip


def _export(run: Opened, request: Request) -> Response:
    query = request.query_params
    kind = request_values.choice(query, "to", ("perfetto", "speedscope"))
    begin, end = request_values.window(query, "end")
    tracks = _tracks(run, query)
    with run.lod.cursor() as con:
        spans = window.count(con, run.how, begin, end, tracks)
    if spans > MOST_EXPORTED[kind]:
        raise Refused("too_many", 413)
    name = f"npulens-{request.path_params['run_id'][:12]}-{kind}.json"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', **ASK_AGAIN}
    return StreamingResponse(_file(run, kind, begin, end, tracks, name), 200, headers, "application/json")


def _file(run: Opened, kind: str, begin: int, end: int, tracks: list[int], title: str) -> Iterator[bytes]:
    """The file in pieces of some kilobytes; the cursors live as long as somebody reads."""
    names = {track.id: (track.rank, f"{track.process} / {track.name}".strip(" /") or track.group)
             for track in run.layout.tracks}  # fmt: skip
    with run.lod.cursor() as con, run.run.cursor() as tables:
        rows = chain(_derived_rows(run.pieces(), begin, end, tracks), window.spans(con, run.how, begin, end, tracks))
        if kind == "perfetto":
            writer = export.Perfetto(begin, end, names)
            text = export.perfetto(writer, title, rows, lambda ids: window.links(tables, ids))
        else:
            text = export.speedscope(begin, end, names, title, rows)
        held: list[str] = []
        size = 0
        for piece in text:
            held.append(piece)
            size += len(piece)
            if size > 65_536:
                yield "".join(held).encode()
                held, size = [], 0
        yield "".join(held).encode()


def _derived_rows(pieces: Mapping[int, Pieces], begin: int, end: int, tracks: list[int]) -> Iterator[Row]:
    """Why devices idled; the critical path is no track of a rank, and files have no place for it."""
    for track in sorted(tracks):
        if track in pieces and track != path.TRACK:
            of = pieces[track]
            for at in range(*gaps.within(of, begin, end)):
                yield track, int(of.start[at]), int(of.end[at]), CODES[int(of.cause[at])], "idle", -1


def _there(run: Opened) -> set[int]:
    """Every track that can be asked for."""
    return {*(track.id for track in run.layout.tracks), path.TRACK}


def _tracks(run: Opened, query: Mapping[str, str]) -> list[int]:
    """The tracks a request names, as the store numbers them; every track where it names none."""
    named = request_values.ids(query, "tracks")
    if named is None:
        return sorted(track.id for track in run.layout.tracks)
    tracks = [run.slots.back(track, TRACK_BITS) for track in named]
    if not _there(run).issuperset(tracks):
        raise Refused("unknown_track", 404)
    return tracks


#: Path below the run -> what answers it.
ANSWERS: dict[str, Answer] = {
    "layout": _layout, "tile": _tile, "counter": _counter, "span/{span}": _span, "gap/{rank}/{ordinal}": _gap,
    "path/{ordinal}": _on_path, "near": _near, "search": _search, "summary": _summary, "export": _export,
    "slices": _slices, "flame": _flame, "states": _states, "strip": _strip, "arrows": _arrows,
}  # fmt: skip


# Answers in the shape the canvas reads: the layout as JSON, a view as a tile's bytes.
#: Characters of a text, and of the arguments, and frames of a stack, that the details of one span show.
LONGEST_DETAIL, LONGEST_ARGS, MOST_FRAMES = 4_096, 100_000, 512


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
        "routes": [list(route) for route in found.routes],
        "causes": {cause: list(text) for cause, text in {**CAUSES, **GAP_ONLY}.items()},
        "path_kinds": {kind: list(PATH_TEXT[f"kind_{kind}"]) for kind in KINDS},
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
        "from": track.begin, "to": track.end, "kind": track.kind,
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
        "name": shown(found.name, LONGEST_DETAIL), "kind": found.kind, "ts": found.ts, "dur": found.dur,
        "step": found.step, "depth": found.depth,
        "parent": None if found.parent is None else slots.out(found.parent, SPAN_BITS),
        "facts": [[key, _fact(run, key, value)] for key, value in found.facts],
        "pmu": [[shown(metric), value] for metric, value in found.pmu],
        "stack": None if found.stack is None else [shown(frame, LONGEST_DETAIL) for frame in found.stack[:MOST_FRAMES]],
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
        return shown(value, LONGEST_DETAIL)
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
