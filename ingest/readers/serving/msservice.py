"""Rows of msServiceProfiler (MindIE, vLLM-Ascend, SGLang on an NPU), whether they come from CSV or from a database.

Stamps are microseconds or milliseconds since 1970. `modelExec` is a submission, and its length is none of the device's.
An iteration ends when its requests leave the state RUNNING; where that is not recorded, it has a start and no length.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

import msgspec

from npulens.ingest.messages import Message
from npulens.ingest.readers.serving.found import Found, duration, real, stamp, text, whole

Cells = Mapping[str, str]

#: A line of a table that is longer is none: token ids of a batch of thousands fit.
LONGEST = 8 << 20
_US, _MS = 10**3, 10**6
#: What a name says that the request did, in MindIE's spans.
_EVENTS = {
    "encode": "front_end", "decode": "front_end", "httpreq": "state", "httpres": "state", "sendresponse": "state",
    "reqenqueue": "queue", "reqdequeue": "queue", "reqstate": "state", "decodeend": "state",
    "pullkvcache": "transfer", "preempt": "preempt", "recompute": "preempt",
}  # fmt: skip
_MESSAGE_ID = re.compile(r"^'?([\w.:-]{1,300})'?$")


class _Ids:
    """Requests by the id that rows call them by; one that was linked to another is the same."""

    def __init__(self, found: Found) -> None:
        self.rows: dict[str, dict[str, object]] = {}
        self._found, self._events = found, list[tuple[str, dict[str, object]]]()
        self._members = list[tuple[int, str, str, int | None]]()

    def of(self, rid: str) -> dict[str, object]:
        return self.rows.setdefault(rid, {"request_id": rid})

    def event(self, rid: str, row: dict[str, object]) -> None:
        self.of(rid)
        self._events.append((rid, row))

    def member(self, iteration: int, rid: str, phase: str, token: int | None) -> None:
        self.of(rid)
        self._members.append((iteration, rid, phase, token))

    def close(self, same: Mapping[str, str]) -> None:
        """Write what was found; ``same``: id -> the id that its request has."""
        keys: dict[str, int] = {}
        for rid in self.rows:
            home = same.get(rid, rid)
            if home not in keys:
                merged = {k: v for other in self.rows if same.get(other, other) == home
                          for k, v in self.rows[other].items() if v is not None}  # fmt: skip
                keys[home] = self._found.request({**merged, "request_id": home})
            keys[rid] = keys[home]
        for rid, row in self._events:
            self._found.add("request_event", {**row, "request": keys[rid]})
        for iteration, rid, phase, token in self._members:
            self._found.add("member", {"iteration": iteration, "request": keys[rid], "phase": phase, "token": token,
                                       "how": "recorded", "confidence": 1.0})  # fmt: skip


def spans(rows: Iterator[Cells], found: Found) -> None:
    """tx_data_df.csv: every span and mark, with its message."""
    ids, same, latest = _Ids(found), dict[str, str](), dict[str, int]()
    made, under_way = list[dict[str, object]](), dict[str, dict[str, object]]()
    for row in rows:
        begin, end = stamp(row.get("start_time", ""), _US), stamp(row.get("end_time", ""), _US)
        said = _literal(row.get("message", ""))
        if begin is None:
            found.lost(Message("serving_request_without_stamp"))
            continue
        name = row.get("name") or str(said.get("name", ""))
        length = max(0, (end or begin) - begin)
        if not name and "from" in said and "to" in said:
            same[_id(said["to"])] = _id(said["from"])
            continue
        listed = said.get("rid")
        if name.lower() == "modelexec" and isinstance(listed, list):
            made.append(_iteration(row, listed, begin, len(made), ids))
            under_way |= {_id(one.get("rid")): made[-1] for one in listed if isinstance(one, dict)}
            continue
        rids = [_id(listed)] if isinstance(listed, str | int) else []
        for rid in rids:
            _request_of(ids.of(rid), name.lower(), said, begin)
            if said.get("+RUNNING") == -1 and rid in under_way:
                _ended(under_way.pop(rid), ids.of(rid), begin)
            latest[rid] = max(latest.get(rid, 0), begin + length)
            ids.event(rid, {"ts_ns": begin, "dur_ns": length, "name": text(name),
                            "kind": _EVENTS.get(name.lower(), "span")})  # fmt: skip
        for key, value in said.items():
            figure = real(value)
            if isinstance(key, str) and key.startswith(("=", "+")) and figure is not None:
                found.sample(key, figure, begin)
    for rid, until in latest.items():
        first = ids.rows[rid].get("ts_ns")
        if isinstance(first, int):
            ids.rows[rid]["dur_ns"] = until - first
    for one in made:
        found.iteration(one)
    _join_ids(ids, same)
    ids.close(same)


def _ended(iteration: dict[str, object], request: dict[str, object], at: int) -> None:
    """A request has its token of an iteration; the last one ends that."""
    iteration["dur_ns"] = at - int(str(iteration["ts_ns"]))
    request["first_token_ts_ns"] = request.get("first_token_ts_ns") or at
    request["last_token_ts_ns"] = at


def _join_ids(ids: _Ids, same: dict[str, str]) -> None:
    """What linked ids say together: the earliest begin, the latest end."""
    for rid, home in same.items():
        if rid not in ids.rows or home not in ids.rows:
            continue
        one, other = ids.rows[home], ids.rows[rid]
        begins = [row["ts_ns"] for row in (one, other) if isinstance(row.get("ts_ns"), int)]
        ends = [int(str(row["ts_ns"])) + int(str(row["dur_ns"])) for row in (one, other)
                if row.get("ts_ns") is not None and row.get("dur_ns") is not None]  # fmt: skip
        if begins and ends:
            first = min(int(str(at)) for at in begins)
            other["ts_ns"] = one["ts_ns"] = first
            other["dur_ns"] = one["dur_ns"] = max(ends) - first


def _request_of(row: dict[str, object], name: str, said: Mapping[str, object], at: int) -> None:
    row["ts_ns"] = min(at, int(str(row.get("ts_ns", at))))
    if name == "httpreq":
        row["arrival_ts_ns"] = at
    elif name == "httpres":
        row["end_ts_ns"] = at
    elif name == "reqenqueue":
        row["queued_ts_ns"] = row.get("queued_ts_ns") or at
    elif name == "reqdequeue":
        row["scheduled_ts_ns"] = row.get("scheduled_ts_ns") or at
    row["prompt_tokens"] = whole(said.get("=recvTokenSize")) or row.get("prompt_tokens")
    row["output_tokens"] = whole(said.get("=replyTokenSize")) or row.get("output_tokens")


def _iteration(row: Cells, listed: list[object], at: int, number: int, ids: _Ids) -> dict[str, object]:
    """The submission of a batch: which requests, and which of their tokens."""
    members = [(_id(one.get("rid")), whole(one.get("iter"))) for one in listed if isinstance(one, dict)]
    kind = row.get("batch_type", "").lower()
    size = len(members)
    decode = kind == "decode" or (not kind and all(token for _, token in members))
    for rid, token in members:
        ids.member(number, rid, "decode" if decode or token else "prefill", token)
    return {
        "source": "batch", "engine": row.get("pid") or None, "ts_ns": at, "ts_error_ns": 0, "number": number,
        "class": "decode" if decode else "mixed" if kind == "mix" else "prefill",
        "ctx_requests": 0 if decode else size, "gen_requests": size if decode else 0,
        "gen_tokens": size if decode else 0,
    }  # fmt: skip


def requests(rows: Iterator[Cells], found: Found) -> None:
    """request.csv: one row a request."""
    for row in rows:
        begin = stamp(row.get("start_time(ms)", ""), _MS)
        if begin is None:
            found.lost(Message("serving_request_without_stamp"))
            continue
        length = duration(row.get("execution_time(ms)"), _MS)
        first = duration(row.get("first_token_latency(ms)"), _MS)
        prompt = whole(row.get("recv_token_size", ""))
        share = real(row.get("cache_hit_rate"))
        found.request({
            "request_id": _id(row.get("http_rid", "")), "ts_ns": begin, "dur_ns": length, "arrival_ts_ns": begin,
            "first_token_ts_ns": None if first is None else begin + first,
            "end_ts_ns": None if length is None else begin + length,
            "queue_ns": duration(row.get("queue_wait_time(ms)"), _MS), "prompt_tokens": prompt,
            "cached_tokens": None if share is None or prompt is None or not 0 <= share <= 1 else round(share * prompt),
            "output_tokens": whole(row.get("reply_token_size", "")),
        })  # fmt: skip


def batches(rows: Iterator[Cells], found: Found) -> None:
    """batch.csv: scheduling and execution of each batch, and who is in it."""
    ids = _Ids(found)
    for row in rows:
        if row.get("name", "") != "modelExec":
            continue
        at = stamp(row.get("start_time(ms)") or row.get("start_datetime"), _MS)
        listed = _literal_list(row.get("res_list", ""))
        kind = row.get("batch_type", "").lower()
        context, generating = whole(row.get("prefill_batch_size")), whole(row.get("decode_batch_size"))
        blocks, used = whole(row.get("total_blocks")), whole(row.get("used_blocks"))
        share = real(row.get("kvcache_usage_rate"))
        iteration = found.iteration({
            "source": "batch", "number": whole(row.get("prof_id")), "dp_rank": whole(row.get("dp_rank")), "ts_ns": at,
            "ts_error_ns": None if at is None else 0,
            "class": "decode" if kind == "decode" else "prefill" if kind == "prefill" else "mixed",
            "ctx_requests": context, "ctx_tokens": whole(row.get("prefill_scheduled_tokens")),
            "gen_requests": generating, "gen_tokens": whole(row.get("decode_scheduled_tokens")),
            "kv_used": share if share is not None else used / blocks if blocks and used is not None else None,
        })  # fmt: skip
        for one in listed:
            if isinstance(one, dict):
                token = whole(one.get("iter"))
                ids.member(iteration, _id(one.get("rid")), "decode" if token else "prefill", token)
    ids.close({})


def figures(rows: Iterator[Cells], found: Found) -> None:
    """request_status.csv and its like: figures over time."""
    for row in rows:
        at = stamp(row.get("time", ""), _US)
        for key, value in row.items():
            figure = real(value) if key.startswith(("=", "+")) and value else None
            if figure is not None:
                found.sample(key, figure, at)


def _id(value: object) -> str:
    said = str(value)
    if isinstance(value, str) and value.endswith(".0") and value[:-2].isdigit():
        said = value[:-2]
    match = _MESSAGE_ID.match(said)
    return match[1] if match else said[:300]


def _literal(written: str) -> dict[str, object]:
    """A message: JSON, or a Python dictionary of plain values."""
    found = _plain(written)
    return found if isinstance(found, dict) else {}


def _literal_list(written: str) -> list[object]:
    found = _plain(written)
    return found if isinstance(found, list) else []


def _plain(written: str) -> object:
    try:
        return msgspec.json.decode(written.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return ast.literal_eval(written) if len(written) < LONGEST else None
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
