"""What each of the timeline's routes answers: the request's words checked, analysis asked, the answer's shape."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from npulens.analysis.idle.pieces import CODES
from npulens.analysis.timeline import counters, detail, find, gaps, path, summary, window
from npulens.analysis.timeline.gaps import Pieces
from npulens.analysis.timeline.ids import SPAN_BITS, TRACK_BITS
from npulens.analysis.timeline.layout import gap_track
from npulens.analysis.timeline.view import view
from npulens.analysis.timeline.window import Row
from npulens.app.timeline import asked, export, wire
from npulens.app.timeline.asked import Refused
from npulens.app.timeline.opened import Opened
from npulens.app.timeline.parts import as_detail, as_layout, as_summary, as_tile
from npulens.app.timeline.wire import shown

#: Pixels of the widest screen anybody has, twice.
MOST_PIXELS = 16_384
MOST_HITS = 1_000
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
    begin, end = asked.window(request.query_params)
    pixels = asked.whole(request.query_params, "px", 1, MOST_PIXELS)
    tracks = _tracks(run, request.query_params)
    derived = {run.path if track == path.TRACK else run.causes for track in tracks if track < 0}
    working = not all(one.done() for one in derived)
    with run.lod.cursor() as con:
        found = view(con, run.how, run.pieces(), begin, end, pixels, tracks, wire.LONGEST_NAME)
    return Response(
        as_tile(run, begin, end, found), 200, dict(ASK_AGAIN if working else KEEP), "application/octet-stream"
    )


def _counter(run: Opened, request: Request) -> Response:
    begin, end = asked.window(request.query_params)
    pixels = asked.whole(request.query_params, "px", 1, MOST_PIXELS)
    ids = asked.ids(request.query_params, "ids") or []
    if not {counter.id for counter in run.layout.counters}.issuperset(ids):
        raise Refused("unknown_counter", 404)
    with run.lod.cursor() as con:
        found = counters.series(con, ids, begin, end, pixels)
    return as_json({"series": [
        {"id": each.id, "t": each.t, "min": each.least, "max": each.most, "last": each.last} for each in found
    ]})  # fmt: skip


def _span(run: Opened, request: Request) -> Response:
    number = run.slots.back(asked.number(request.path_params["span"], "span"), SPAN_BITS)
    with run.run.cursor() as con:
        found = detail.detail(con, number)
    if found is None:
        raise Refused("unknown_span", 404)
    return as_json(as_detail(run, found))


def _gap(run: Opened, request: Request) -> Response:
    rank = asked.number(request.path_params["rank"], "rank")
    ordinal = asked.number(request.path_params["ordinal"], "ordinal")
    if not run.causes.done():
        raise Refused("preparing", 503)
    pieces = run.pieces().get(gap_track(rank))
    if pieces is None or not 0 <= ordinal < len(pieces.start):
        raise Refused("unknown_gap", 404)
    with run.run.cursor() as con:
        found = gaps.gap(con, pieces, ordinal)
    host = None
    if found.host:
        span, name, ts, dur = found.host
        host = {"id": run.slots.out(span, SPAN_BITS), "name": shown(name), "ts": ts, "dur": dur}
    return as_json({"rank": rank, "ts": found.ts, "dur": found.dur, "cause": found.cause, "host": host,
                    "line": shown(found.line) if found.line else None})  # fmt: skip


def _on_path(run: Opened, request: Request) -> Response:
    ordinal = asked.number(request.path_params["ordinal"], "ordinal")
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
    track = run.slots.back(asked.whole(query, "track"), TRACK_BITS)
    lane, ts = asked.whole(query, "lane", 0, 65_535), asked.whole(query, "ts")
    span = run.slots.back(asked.whole(query, "id"), SPAN_BITS) if "id" in query else None
    forward = asked.choice(query, "dir", ("next", "prev")) == "next"
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
    limit = asked.whole(query, "limit", 1, MOST_HITS, 200)
    with run.lod.cursor() as con:
        found = find.search(con, text, limit, asked.whole(query, "after", default=-asked.FAR))
    return as_json({"total": found.total, "total_ns": found.total_ns, "hits": [
        {"id": run.slots.out(hit.id, SPAN_BITS), "track": run.slots.out(hit.track, TRACK_BITS), "rank": hit.rank,
         "ts": hit.ts, "dur": hit.dur, "name": shown(hit.name)} for hit in found.hits
    ]})  # fmt: skip


def _summary(run: Opened, request: Request) -> Response:
    begin, end = asked.window(request.query_params)
    tracks = [track for track in _tracks(run, request.query_params) if track >= 0]
    with run.lod.cursor() as con:
        return as_json(as_summary(run, summary.summary(con, run.how, begin, end, tracks)))


def _export(run: Opened, request: Request) -> Response:
    query = request.query_params
    kind = asked.choice(query, "to", ("perfetto", "speedscope"))
    begin, end = asked.window(query, "end")
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
    named = asked.ids(query, "tracks")
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
}  # fmt: skip
