"""A run made of nothing but table rows, for tests of the analysis: no files, no reader.

A case is a mapping, as tests/cases/*.yaml writes it. Times are microseconds (whole or with
decimals), everything else is as in ingest/tables/schema.sql:

    spans:
      - {id: 1, kind: step_mark, name: "ProfilerStep#1", at: 0, for: 1000}
      - {id: 2, kind: runtime, name: "Node@launch", at: 10, for: 5}
      - {id: 3, kind: kernel, name: matmul, at: 30, for: 50, by: 2, kernel: {op_type: MatMulV2}}

`rank` is 0 and `track` follows from the kind (host kinds on thread "main", device kinds on stream
"s0") unless given; `step`, `parent_id` and `depth` are found; `by` is the id of the host span that
launched it (`route` says how, host_to_device unless given). Side tables lie under the table's name.
A serving engine: `serving: {every: 200000, times: 12, requests: [...], iterations: [...]}` says so often the same. What
has `in: [3, 6]` is said in these times only, what has `but: [5]` in all others (from 0). A request has `id`, `at`,
`queued`, `scheduled`, `first`, `last` (in the engine; a client is 1 ms away on both sides), `prompt`, `output`,
`cached`, `transfer`. An iteration has `at`, `for`, `ctx` (tokens), `gen` (requests), `of` (ids whose prompt it
computes), `kv`, `graph`, `padded`, `dp`; with `times` it is said so often, one behind the other, `gap` apart.
Other tables: `tables: {sample: [{rank: 0, counter: ..., at: 5, value: 1800}]}`, `run: {...}`,
`rank: {0: {...}}`. Tables in `absent` are marked as not recorded; the others count as recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
import numpy as np

from npulens.ingest.tables import schema
from npulens.ingest.tables.device_time import device_time
from npulens.ingest.tables.steps import Steps

HOST_KINDS = {
    "cpu_op", "python", "annotation", "step_mark", "runtime", "enqueue", "dequeue", "gc", "host_other",
}  # fmt: skip
SIDE_TABLES = ("kernel", "transfer", "comm", "host_op", "stack", "arg")
#: Tables whose rows belong to no rank.
OF_THE_RUN = ("parallel_group", "stage", "serving_sample")
TRACK_KINDS = {"comm_op": "comm_group", "comm_task": "comm_plane"}
NOT_NULL = {"run": {"run_id": "case", "schema_version": schema.version(), "origin_ns": 0, "clock": "unix",
                    "status": "complete", "formats": ["torch_npu_text"]},
            "rank": {"rank_source": "assumed", "path": "", "formats": ["torch_npu_text"], "status": "complete",
                     "events": 0, "dropped": 0, "backend": "npu"}}  # fmt: skip


def connection(case: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    """The case as a connection with every table of the contract."""
    con = duckdb.connect(":memory:", config={"threads": 1})
    con.execute(schema.SCHEMA_FILE.read_text("utf-8"))
    spans = [dict(span) for span in case.get("spans", ())]
    ranks = sorted({span.get("rank", 0) for span in spans} | set(case.get("rank", {})) or {0})
    _insert(con, "run", [{**NOT_NULL["run"], **case.get("run", {})}])
    _insert(con, "rank", [{"rank": r, **NOT_NULL["rank"], **case.get("rank", {}).get(r, {})} for r in ranks])
    _insert(con, "step", list(_steps(spans, case)))
    tracks: dict[tuple[int, str, str], int] = {}
    steps = con.execute("SELECT rank, step, ts_ns, ts_ns + dur_ns FROM step").fetchall()
    _insert(con, "span", list(_spans(spans, tracks, steps)))
    _insert(con, "track", [
        {"track": number, "rank": rank, "kind": kind, "name": name, "stream": _stream(kind, name)}
        for (rank, kind, name), number in tracks.items()
    ])  # fmt: skip
    for table in SIDE_TABLES:
        rows = [{"span_id": s["id"], "rank": s.get("rank", 0), **_ns(s[table])} for s in spans if table in s]
        _insert(con, table, rows)
    by_id = {span["id"]: span for span in spans}
    _insert(con, "link", [
        {"rank": s.get("rank", 0), "src_span_id": source, "dst_span_id": s["id"],
         "route": s.get("route", "host_to_device"), "latency_ns": _int(s["at"]) - _int(by_id[source]["at"])}
        for s in spans for source in _many(s.get("by"))
    ])  # fmt: skip
    for table, rows in case.get("tables", {}).items():
        _insert(con, table, [{**({} if table in OF_THE_RUN else {"rank": 0}), **_ns(row)} for row in rows])
    _serve(con, case.get("serving"))
    absent = set(case.get("absent", ()))
    _insert(con, "coverage", [
        {"rank": rank, "table_name": table, "status": "absent" if table in absent else "recorded", "rows": 0,
         "dropped": 0, "reason": "left out" if table in absent else None}
        for rank in ranks for table in schema.tables()
    ])  # fmt: skip
    sum_up(con)
    return con


#: A client is so far away.
_AWAY_NS = 1_000_000


def _serve(con: duckdb.DuckDBPyConnection, said: Mapping[str, Any] | None) -> None:
    """Requests, their transfers, iterations and who was in them."""
    if said is None:
        return
    keys: dict[tuple[int, str], int] = {}
    number = 0
    for time in range(said["times"]):
        shift = time * said["every"]
        here = [
            [each for each in said[part] if time in each.get("in", [time]) and time not in each.get("but", [])]
            for part in ("requests", "iterations")
        ]
        for one in here[0]:
            keys[time, one["id"]] = len(keys)
            _insert(con, "request", [_request(len(keys) - 1, f"{one['id']}{time}", one, shift)])
            if "transfer" in one:
                _insert(con, "request_event", [{
                    "request": len(keys) - 1, "ts_ns": _int(one["at"] + shift), "dur_ns": _int(one["transfer"]),
                    "kind": "transfer",
                }])  # fmt: skip
        for one in here[1]:
            for repeat in range(one.get("times", 1)):
                at = one["at"] + shift + repeat * (one["for"] + one.get("gap", 0))
                _insert(con, "iteration", [_iteration(number, one, at)])
                _insert(con, "member", [
                    {"iteration": number, "request": keys[time, name], "phase": "prefill", "how": "recorded",
                     "confidence": 1.0} for name in one.get("of", ())
                ])  # fmt: skip
                number += 1


def _request(key: int, name: str, one: Mapping[str, Any], shift: int) -> dict[str, Any]:
    at, queued, scheduled, first, last = (
        _int(one[moment] + shift) for moment in ("at", "queued", "scheduled", "first", "last")
    )
    return {
        "request": key, "request_id": name, "source": "client, otlp", "ts_ns": at, "dur_ns": last + _AWAY_NS - at,
        "send_ts_ns": at, "client_first_ts_ns": first + _AWAY_NS, "client_end_ts_ns": last + _AWAY_NS,
        "queued_ts_ns": queued, "scheduled_ts_ns": scheduled, "first_token_ts_ns": first, "last_token_ts_ns": last,
        "queue_ns": scheduled - queued, "prefill_ns": first - scheduled, "decode_ns": last - first,
        "prompt_tokens": one["prompt"], "output_tokens": one["output"], "cached_tokens": one.get("cached"),
        "dp_rank": one.get("dp"),
    }  # fmt: skip


def _iteration(key: int, one: Mapping[str, Any], at: int) -> dict[str, Any]:
    return {
        "iteration": key, "source": "log", "number": key, "ts_ns": _int(at), "dur_ns": _int(one["for"]),
        "ts_error_ns": 0, "ctx_requests": len(one.get("of", ())), "ctx_tokens": one.get("ctx", 0),
        "gen_requests": one.get("gen", 0), "gen_tokens": one.get("gen_tokens", one.get("gen", 0)),
        "kv_used": one.get("kv"), "graph": one.get("graph"), "padded_tokens": one.get("padded"),
        "dp_rank": one.get("dp"),
    }  # fmt: skip


def sum_up(con: duckdb.DuckDBPyConnection) -> None:
    """Fill device_time from the other tables, as a load does."""
    con.execute("DELETE FROM device_time")
    for (rank,) in con.execute("SELECT rank FROM rank").fetchall():
        windows = con.execute(
            "SELECT step, ts_ns, ts_ns + dur_ns, ts_ns + coalesce(host_dur_ns, dur_ns) FROM step WHERE rank = ?", [rank]
        ).fetchall()
        steps = Steps(*np.array(windows, np.int64).reshape(-1, 4).T)
        lost = con.execute("SELECT table_name FROM coverage WHERE rank = ? AND status = 'absent'", [rank]).fetchall()
        names = {"span": "span", "comm": "comm"}
        _insert(con, "device_time", device_time(con, names, rank, steps, {name for (name,) in lost}).to_pylist())


def _many(by: Any) -> Iterable[int]:
    return () if by is None else by if isinstance(by, list) else (by,)


def _int(us: float) -> int:
    return round(us * 1000)


def _ns(row: Mapping[str, Any]) -> dict[str, Any]:
    """`at` and `for` in microseconds as ts_ns and dur_ns."""
    names = {"at": "ts_ns", "for": "dur_ns"}
    return {names.get(name, name): _int(value) if name in names else value for name, value in row.items()}


def _steps(spans: list[dict[str, Any]], case: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The windows of step marks: each runs to the next, the last to the later of its end and its device work."""
    if "step" in case.get("tables", {}):
        return
    for rank in {span.get("rank", 0) for span in spans}:
        mine = [span for span in spans if span.get("rank", 0) == rank]
        marks = sorted((s for s in mine if s["kind"] == "step_mark"), key=lambda s: s["at"])
        device = [_int(s["at"]) + _int(s["for"]) for s in mine if s["kind"] not in HOST_KINDS]
        for number, mark in enumerate(marks):
            start, host = _int(mark["at"]), _int(mark["for"])
            last = max([start + host, *device])
            end = _int(marks[number + 1]["at"]) if number + 1 < len(marks) else last
            yield {
                "rank": rank, "step": int(mark["name"].rsplit("#")[-1]), "ts_ns": start, "dur_ns": end - start,
                "host_dur_ns": host, "source": "ProfilerStep",
            }  # fmt: skip


def _stream(kind: str, name: str) -> int | None:
    return int(name[1:]) if kind == "stream" and name[1:].isdigit() else None


def _spans(
    spans: list[dict[str, Any]], tracks: dict[tuple[int, str, str], int], steps: list[tuple[int, int, int, int]]
) -> Iterable[dict[str, Any]]:
    lanes: dict[int, list[tuple[int, int, int]]] = {}
    for span in sorted(spans, key=lambda s: (s["at"], -s["for"])):
        rank, kind, at, length = span.get("rank", 0), span["kind"], _int(span["at"]), _int(span["for"])
        host = kind in HOST_KINDS
        where = "host_thread" if host else TRACK_KINDS.get(kind, "stream")
        track = tracks.setdefault((rank, where, span.get("track", "main" if host else "s0")), len(tracks))
        above = [open_ for open_ in lanes.get(track, []) if open_[0] <= at and at + length <= open_[1]]
        lanes.setdefault(track, []).append((at, at + length, span["id"]))
        step = next((s for r, s, begin, end in steps if r == rank and begin <= at < end), None)
        yield {
            "span_id": span["id"], "rank": rank, "track": track, "kind": kind, "name": span["name"], "ts_ns": at,
            "dur_ns": length, "step": step, "parent_id": above[-1][2] if above else None, "depth": len(above),
        }  # fmt: skip


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        columns = ", ".join(row)
        con.execute(f"INSERT INTO {table} ({columns}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
