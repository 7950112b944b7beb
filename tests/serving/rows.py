"""A run of the serving engine without a device as the tables that a load would make of its files."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from npulens.collectors.serving.engine import Recorded, Served
from npulens.collectors.serving.reinforcement import Stage
from npulens.collectors.serving.writers import speculated
from npulens.ingest.readers.serving.read_verl import role
from tests import tablecase


def connection(recorded: Recorded, traced: bool = True) -> duckdb.DuckDBPyConnection:
    """All that such an engine can record; untraced iterations are known to some ms only."""
    con = tablecase.connection({})
    tables = {
        "request": [_request(at, one, recorded) for at, one in enumerate(recorded.requests)],
        "request_event": [_moved(at, one) for at, one in enumerate(recorded.requests) if one.asked.transfer_ns],
        "iteration": list(_iterations(recorded, traced)), "member": list(_members(recorded)),
        "serving_sample": list(_samples(recorded)),
    }  # fmt: skip
    for table, rows in tables.items():
        if rows:
            con.register("rows", pa.Table.from_pylist(rows))
            con.execute(f"INSERT INTO {table} BY NAME SELECT * FROM rows")
            con.unregister("rows")
    return con


def job(found: tuple[Stage, ...]) -> duckdb.DuckDBPyConnection:
    """All that a profile of roles records."""
    rows = [
        {"ts_ns": one.ts_ns, "dur_ns": one.dur_ns, "name": one.role, "role": role(one.role), "replica": one.replica,
         "step": one.step, "source": "role spans"} for one in found
    ]  # fmt: skip
    con = tablecase.connection({})
    con.register("rows", pa.Table.from_pylist(rows))
    con.execute("INSERT INTO stage BY NAME SELECT * FROM rows")
    con.unregister("rows")
    return con


def _request(at: int, one: Served, recorded: Recorded) -> dict[str, Any]:
    asked, setup = one.asked, recorded.setup
    half = setup.front_ns // 2
    back = setup.front_ns - half
    first, last = one.tokens_ns[0], one.tokens_ns[-1]
    several = setup.engines > 1
    return {
        "request": at, "request_id": asked.name, "source": "client, otlp", "ts_ns": asked.send_ns,
        "dur_ns": last + back - asked.send_ns, "send_ts_ns": asked.send_ns, "client_first_ts_ns": first + back,
        "client_end_ts_ns": last + back, "arrival_ts_ns": asked.send_ns + half // 2, "queued_ts_ns": one.queued_ns,
        "scheduled_ts_ns": one.scheduled_ns, "first_token_ts_ns": first, "last_token_ts_ns": last,
        "queue_ns": one.scheduled_ns - one.queued_ns, "prefill_ns": first - one.scheduled_ns,
        "decode_ns": last - first, "prompt_tokens": asked.prompt,
        "cached_tokens": asked.cached if any(each.asked.cached for each in recorded.requests) else None,
        "output_tokens": len(one.tokens_ns), "finish": "length", "dp_rank": asked.engine if several else None,
    }  # fmt: skip


def _moved(at: int, one: Served) -> dict[str, Any]:
    return {
        "request": at, "ts_ns": one.asked.send_ns, "dur_ns": one.asked.transfer_ns, "kind": "transfer", "name": "pull",
    }  # fmt: skip


def _samples(recorded: Recorded) -> Any:
    if recorded.setup.drafted:
        for name, value in speculated(recorded.iterations).items():
            yield {"name": f"vllm:spec_decode_{name}_total", "value": float(value), "source": "prometheus"}


def _iterations(recorded: Recorded, traced: bool) -> Any:
    for key, one in enumerate(recorded.iterations):
        context, decoders = sum(tokens for _, tokens in one.context), len(one.decoders)
        again = sum(tokens for _, tokens in one.again)
        several = recorded.setup.engines > 1
        kind = ("mixed" if decoders or one.again else "prefill") if one.context else "decode"
        yield {
            "iteration": key, "source": "annotation, log" if traced else "log", "engine": str(one.engine),
            "dp_rank": one.engine if several else None, "number": one.number, "ts_ns": one.ts_ns,
            "dur_ns": one.dur_ns, "ts_error_ns": 0 if traced else one.dur_ns, "class": kind,
            "ctx_requests": len(one.context), "ctx_tokens": context, "gen_requests": decoders + len(one.again),
            "gen_tokens": decoders + one.drafted + again, "graph": one.graph, "padded_tokens": one.padded,
            "kv_used": round(one.kv_used, 3),
        }  # fmt: skip


def _members(recorded: Recorded) -> Any:
    for key, one in enumerate(recorded.iterations):
        for phase, found in (("prefill", one.context), ("recompute", one.again)):
            for request, tokens in found:
                yield {"iteration": key, "request": request, "phase": phase, "tokens": tokens, "how": "recorded",
                       "confidence": 1.0}  # fmt: skip
        for request in one.decoders:
            yield {"iteration": key, "request": request, "phase": "decode", "tokens": 1, "how": "recorded",
                   "confidence": 1.0}  # fmt: skip
