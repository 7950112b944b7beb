"""Parts of a serving run put together: requests, their events, iterations, members, and how clocks were joined.

The result is a part like that of a rank, which has no rows but these. What was recorded stays; who was in an iteration
that only counts is derived, and says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.messages import Message, joined
from npulens.ingest.readers.serving.found import SERVING, TABLES
from npulens.ingest.serving.annotations import Annotated, annotated
from npulens.ingest.serving.counts import Ints, Segment
from npulens.ingest.serving.iterations import Placed, expanded, place
from npulens.ingest.serving.requests import Merged, Pairing, Row, Told, merge
from npulens.ingest.serving.requests import table as request_table
from npulens.ingest.serving.times import NEVER, Answer, counted_back
from npulens.ingest.tables import schema
from npulens.ingest.tables.concatenate import arrow, pieces, shifted, write_all
from npulens.ingest.tables.finish import Part

#: Of a part that is a rank: the rank, its directory, and where its times begin.
Trace = tuple[int, Path, int]
#: Tables of a serving run.
OWN = (*TABLES, "clock_join")
_OF_RUN = ("run", "rank", "coverage")
_PHASES = ("prefill", "decode", "recompute")


@dataclass
class _Notes:
    """What is said of two of the tables."""

    iteration: list[Message]
    member: list[Message]


@dataclass
class _Iterations:
    """Rows of `iteration` as they come, and members that call them by their place."""

    tables: list[pa.Table]
    members: list[pa.Table]
    many: int = 0

    def add(self, rows: pa.Table) -> int:
        """More iterations; where they begin."""
        begin = self.many
        self.tables.append(rows)
        self.many += len(rows)
        return begin


def join(
    parts: Sequence[Part], traces: Sequence[Trace], out: Path, lone: Trace | None = None
) -> Part | None:  # fmt: skip
    """One part of all that tell of requests and iterations; None where nothing does.

    ``lone``: a rank beside which nothing else lies. What its annotations tell is written among its own tables.
    """
    told = [_told(part) for part in parts]
    engines = annotated(traces)
    if not told and not engines:
        return None
    merged = merge(told)
    events = _events(told, merged)
    tokens = _tokens(events)
    found, pairings, notes = _Iterations([], []), list(merged.pairings), _Notes([], [])
    _recorded(told, merged, found)
    used = _logs(told, merged, tokens, engines, found, pairings, notes)
    _marks([marks for at, marks in enumerate(engines) if at not in used], merged, found, pairings, notes)
    tables = {
        "request_event": events,
        "serving_sample": _plain("serving_sample", told, ("name", "ts_ns")),
        "stage": _plain("stage", told, ("ts_ns", "name")),
    }
    tables["iteration"], tables["member"] = _numbered(found)
    tables["clock_join"] = pa.Table.from_pylist([vars(one) for one in pairings], schema=arrow("clock_join"))
    edges = [edge for rows in tables.values() for edge in _edges(rows)]
    edges += [
        at for row in merged.rows if row["ts_ns"] is not None for at in (row["ts_ns"], row["ts_ns"] + row["dur_ns"])
    ]
    origin, end = min(edges, default=0), max(edges, default=0)
    if lone is not None:
        out, origin = lone[1], lone[2]
    tables = {name: shifted(rows, -origin) for name, rows in tables.items()}
    tables["request"] = request_table(merged.rows, origin)
    out.mkdir(parents=True, exist_ok=lone is not None)
    wanted = OWN if lone is not None else [name for name in schema.tables() if name not in _OF_RUN]
    write_all({name: tables.get(name, arrow(name).empty_table()) for name in wanted}, out)
    return _part(parts, tables, notes, out, (origin, end))


def _told(part: Part) -> Told:
    directory = Path(part.directory)
    tables = {
        name: pa.concat_tables([arrow(name).empty_table(), *pieces(name, [(directory, part.origin_ns)])])
        for name in TABLES
    }
    return Told(str(part.facts[SERVING]), str(part.facts.get("clock", "unix")), tables)


def _events(told: Sequence[Told], merged: Merged) -> pa.Table:
    """Events under the numbers of their requests, on the axis of the run."""
    rows = []
    for one, keys, shift in zip(told, merged.keys, merged.shifts, strict=True):
        table = shifted(one.tables["request_event"], shift)
        if len(table):
            local = np.asarray(table["request"].to_numpy(), np.int64)
            rows.append(table.set_column(0, arrow("request_event").field(0), pa.array(keys[local])))
    table = pa.concat_tables([arrow("request_event").empty_table(), *rows])
    return table.sort_by([("request", "ascending"), ("ts_ns", "ascending")])


def _tokens(events: pa.Table) -> dict[int, Ints]:
    """When its client got each token of a request."""
    came = events.filter(pc.equal(events["kind"], "token"))
    request = np.asarray(came["request"].to_numpy(), np.int64)
    stamps = np.asarray(came["ts_ns"].to_numpy(), np.int64)
    names, begins = np.unique(request, return_index=True)
    return dict(zip(names.tolist(), np.split(stamps, begins[1:]), strict=True)) if len(names) else {}


def _plain(name: str, told: Sequence[Told], order: tuple[str, ...]) -> pa.Table:
    """Rows of a table that stands for itself; what two files both say is there once."""
    rows = pa.concat_tables([arrow(name).empty_table(), *(one.tables[name] for one in told)])
    rows = rows.group_by(rows.column_names).aggregate([]).cast(arrow(name))
    return rows.sort_by([(column, "ascending") for column in order])


def _recorded(told: Sequence[Told], merged: Merged, found: _Iterations) -> None:
    """Iterations with times of their own, and the members that were recorded."""
    for one, keys in zip(told, merged.keys, strict=True):
        rows = one.tables["iteration"]
        if not len(rows) or one.source == "log":
            continue
        at = rows.schema.get_field_index("rank")
        begin = found.add(rows.set_column(at, rows.schema.field(at), pa.nulls(len(rows), pa.int32())))
        members = one.tables["member"]
        if len(members):
            local = [np.asarray(members[name].to_numpy(), np.int64) for name in ("iteration", "request")]
            moved = members.set_column(0, arrow("member").field(0), pa.array(local[0] + begin))
            found.members.append(moved.set_column(1, arrow("member").field(1), pa.array(keys[local[1]])))


def _logs(
    told: Sequence[Told], merged: Merged, tokens: Mapping[int, Ints], engines: Sequence[Sequence[Annotated]],
    found: _Iterations, pairings: list[Pairing], notes: _Notes,
) -> set[int]:  # fmt: skip
    """Iterations that logs count; which engines' annotations were found in them."""
    logs: dict[str | None, list[pa.Table]] = defaultdict(list)
    for one in told:
        rows = one.tables["iteration"] if one.source == "log" else arrow("iteration").empty_table()
        for engine in pc.unique(rows["engine"]).to_pylist():
            same = pc.is_null(rows["engine"]) if engine is None else pc.equal(rows["engine"], engine)
            logs[engine].append(rows.filter(same))
    used = set[int]()
    for engine, several in sorted(logs.items(), key=lambda item: str(item[0])):
        of_engine = [row for row in merged.rows if len(logs) == 1 or str(row["dp_rank"]) == engine]
        for log in several:
            placed = [place(log, of_engine, tokens, marks) for marks in engines] or [place(log, of_engine, tokens, ())]
            best = max(range(len(placed)), key=lambda at: len(placed[at].annotated))
            if placed[best].annotated:
                used.add(best)
                pairings.append(_sequence(placed[best], len(engines[best])))
            _log(placed[best], of_engine, found, pairings, notes)
            for mark in _left(engines, best, placed[best]):
                found.add(_marked([mark]))
    return used


def _left(engines: Sequence[Sequence[Annotated]], best: int, placed: Placed) -> list[Annotated]:
    """Annotations of an engine that its log does not count: iterations without tokens."""
    if not placed.annotated:
        return []
    there = {(mark.rank, mark.step) for mark in placed.annotated.values()}
    return [mark for mark in engines[best] if (mark.rank, mark.step) not in there]


def _sequence(placed: Placed, marks: int) -> Pairing:
    apart = [abs(int(placed.rows["dur_ns"][at].as_py()) - mark.dur_ns) for at, mark in placed.annotated.items()]
    return Pairing("log", "annotation", len(apart), 0, min(apart), int(np.median(apart)), max(apart), "sequence")


def _log(
    placed: Placed, requests: Sequence[Row], found: _Iterations, pairings: list[Pairing], notes: _Notes
) -> None:  # fmt: skip
    rows, marks = placed.rows, placed.annotated
    there = placed.ts_ns < NEVER
    columns: dict[str, pa.Array] = {
        "ts_ns": pa.array(placed.ts_ns, mask=~there),
        "ts_error_ns": pa.array(placed.error_ns, mask=~there),
        "logged_ts_ns": pa.array(placed.logged_ns, mask=placed.logged_ns >= NEVER),
        "rank": pa.array([marks[at].rank if at in marks else None for at in range(len(rows))], pa.int32()),
        "step": pa.array([marks[at].step if at in marks else None for at in range(len(rows))], pa.int64()),
        "source": pa.array(["annotation, log" if at in marks else "log" for at in range(len(rows))]),
    }
    for name, column in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), arrow("iteration").field(name), column)
    begin = found.add(rows)
    if placed.lag_ns is not None:
        least, median, most = placed.lag_ns
        pairings.append(Pairing("token", "iteration", placed.tokens, 0, least, median, most, "tokens"))
        notes.iteration.append(Message("serving_times_of_tokens", {"error": f"{most / 1e6:.1f}"}))
    if not there.any():
        notes.iteration.append(Message("serving_without_clock"))
    if placed.replayed is None:
        if requests:
            notes.member.append(Message("serving_members_not_known", {"reason": Message("serving_counts_do_not_fit")}))
        return
    keys = np.array([requests[at]["request"] for at in placed.requests], np.int64)
    found.members.append(_members(placed.replayed.segments, keys, begin, "counts", placed.replayed.confidence))
    notes.member.append(_derived(placed.replayed.confidence))


def _derived(confidence: float) -> Message:
    return Message("serving_members_derived", {"share": f"{100 * confidence:.1f}"})


def _marks(
    engines: Sequence[Sequence[Annotated]], merged: Merged, found: _Iterations, pairings: list[Pairing],
    notes: _Notes,
) -> None:  # fmt: skip
    """Iterations of traces that no log counts; their members are counted back from last tokens."""
    for marks in engines:
        marks = sorted(marks, key=lambda mark: mark.ts_ns)
        begin = found.add(_marked(marks))
        known = [row for row in merged.rows if row["first_token_ts_ns"] is not None
                 and row["last_token_ts_ns"] is not None and row["output_tokens"]]  # fmt: skip
        if len(engines) > 1 or not known or any(None in mark.counts for mark in marks):
            continue
        answers = [Answer(row["first_token_ts_ns"], row["last_token_ts_ns"], row["output_tokens"]) for row in known]
        end, generating, context = (
            np.array(values, np.int64)
            for values in zip(
                *((mark.ts_ns + mark.dur_ns, mark.gen_requests, mark.ctx_requests) for mark in marks), strict=True
            )
        )
        back = counted_back(answers, end, generating, context)
        if back is None or back.confidence < 0.5:
            notes.member.append(Message("serving_members_not_known", {"reason": Message("serving_counts_do_not_fit")}))
            continue
        keys = np.array([row["request"] for row in known], np.int64)
        found.members.append(_members(back.segments, keys, begin, "times", back.confidence))
        pairings.append(
            Pairing("otlp", "annotation", len(known), -back.delay_ns, 0, back.delay_ns, back.delay_ns, "unix")
        )
        notes.member.append(_derived(back.confidence))


def _marked(marks: Sequence[Annotated]) -> pa.Table:
    """Iterations as a trace tells them."""
    rows = [
        {"source": "annotation", "rank": mark.rank, "step": mark.step, "ts_ns": mark.ts_ns, "dur_ns": mark.dur_ns,
         "ts_error_ns": 0, "class": mark.kind, "ctx_requests": mark.ctx_requests, "ctx_tokens": mark.ctx_tokens,
         "gen_requests": mark.gen_requests, "gen_tokens": mark.gen_tokens, "iteration": 0}
        for mark in marks
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, schema=arrow("iteration"))


def _members(segments: Sequence[Segment], keys: Ints, begin: int, how: str, confidence: float) -> pa.Table:
    rows = expanded(segments)
    many = len(rows["iteration"])
    return pa.table(
        {
            "iteration": pa.array(rows["iteration"] + begin),
            "request": pa.array(keys[rows["request"]] if many else rows["request"]),
            "phase": pa.DictionaryArray.from_arrays(pa.array(rows["phase"]), pa.array(_PHASES)).cast(pa.string()),
            "tokens": pa.array(rows["tokens"], mask=rows["tokens"] < 0),
            "token": pa.array(rows["token"], mask=rows["token"] < 0),
            "how": pa.repeat(pa.scalar(how), many),
            "confidence": pa.repeat(pa.scalar(confidence), many),
        }
    ).cast(arrow("member"))


def _numbered(found: _Iterations) -> tuple[pa.Table, pa.Table]:
    """Iterations in order of engine and time, and members under their numbers."""
    rows = pa.concat_tables([arrow("iteration").empty_table(), *found.tables]).combine_chunks()
    ts = np.asarray(pc.fill_null(rows["ts_ns"], NEVER).to_numpy(), np.int64)
    engine = np.asarray(pc.fill_null(rows["engine"], "").dictionary_encode().combine_chunks().indices.to_numpy())
    if len(set(rows["engine"].to_pylist())) <= 2:  # a log and a trace of one engine call it by different names
        engine = np.zeros(len(rows), np.int64)
    order = np.lexsort((np.arange(len(rows)), ts, engine))
    place = np.empty(len(rows), np.int64)
    place[order] = np.arange(len(rows))
    rows = rows.take(pa.array(order))
    rows = rows.set_column(0, arrow("iteration").field(0), pa.array(np.arange(len(rows))))
    members = pa.concat_tables([arrow("member").empty_table(), *found.members]).combine_chunks()
    iteration = place[np.asarray(members["iteration"].to_numpy(), np.int64)]
    members = members.set_column(0, arrow("member").field(0), pa.array(iteration))
    request = np.asarray(members["request"].to_numpy(), np.int64)
    return rows, members.take(pa.array(np.lexsort((request, iteration))))


def _edges(rows: pa.Table) -> list[int]:
    if "ts_ns" not in rows.column_names or not len(rows):
        return []
    length = pc.fill_null(rows["dur_ns"], 0) if "dur_ns" in rows.column_names else 0
    found = [pc.min(rows["ts_ns"]).as_py(), pc.max(pc.add(rows["ts_ns"], length)).as_py()]
    return [at for at in found if at is not None]


def _part(
    parts: Sequence[Part], tables: Mapping[str, pa.Table], notes: _Notes, out: Path, edges: tuple[int, int]
) -> Part:  # fmt: skip
    rows = {name: len(table) for name, table in tables.items()}
    said = {row["table"]: row for part in parts[:1] for row in part.coverage if row["table"] not in OWN}
    coverage = [*said.values(), *(_coverage(name, rows.get(name, 0), parts, notes) for name in OWN)]
    clocks = [str(part.facts.get("clock", "unix")) for part in parts]
    clock = next((one for one in ("unix", "monotonic") if one in clocks), "unix" if not parts else "none")
    reasons = list(dict.fromkeys(reason for part in parts for reason in part.reasons))
    return Part(0, str(out), *edges, rows, coverage, {"clock": clock, SERVING: True}, reasons)


def _coverage(name: str, rows: int, parts: Sequence[Part], notes: _Notes) -> dict[str, Any]:
    own = [row for part in parts for row in part.coverage if row["table"] == name]
    dropped = sum(row["dropped"] for row in own)
    reasons = [row["reason"] for row in own if row["dropped"] and row["reason"]]
    reasons += {"iteration": notes.iteration, "member": notes.member}.get(name, [])
    status = "absent" if not rows else "partial" if dropped else "recorded"
    if status == "absent" and not reasons:
        reasons.append(Message("this_format_does_not_carry"))
    return {
        "table": name, "status": status, "rows": rows, "expected": None, "dropped": dropped,
        "reason": joined(dict.fromkeys(reasons)) if reasons else None, "collect_with": None,
    }  # fmt: skip
