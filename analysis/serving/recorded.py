"""What was recorded of a serving run, as a load joined it: requests, iterations, and who was in which."""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints

#: Phases of a member, by their number.
PREFILL, DECODE, RECOMPUTE = range(3)


@dataclass(frozen=True, slots=True)
class Request:
    """A row of `request`; ns from the run's origin. None: not recorded."""

    key: int
    id: str
    source: str
    engine: str | None
    dp_rank: int | None
    send_ns: int | None
    client_first_ns: int | None
    client_end_ns: int | None
    arrival_ns: int | None
    queued_ns: int | None
    scheduled_ns: int | None
    first_token_ns: int | None
    last_token_ns: int | None
    end_ns: int | None
    queue_ns: int | None
    prefill_ns: int | None
    decode_ns: int | None
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None
    max_tokens: int | None
    finish: str | None
    error: str | None

    @property
    def begin_ns(self) -> int | None:
        """When the client sent it, else when the server took it."""
        return self.send_ns if self.send_ns is not None else self.arrival_ns

    @property
    def done_ns(self) -> int | None:
        """When its last token was there: with the client, else with the server."""
        return self.client_end_ns if self.client_end_ns is not None else self.last_token_ns

    @property
    def ttft_ns(self) -> int | None:
        """From the client's sending to its first token, else the same of the server."""
        if self.send_ns is not None and self.client_first_ns is not None:
            return self.client_first_ns - self.send_ns
        if self.arrival_ns is not None and self.first_token_ns is not None:
            return self.first_token_ns - self.arrival_ns
        return None

    @property
    def e2e_ns(self) -> int | None:
        return None if self.begin_ns is None or self.done_ns is None else self.done_ns - self.begin_ns

    @property
    def tpot_ns(self) -> float | None:
        """The mean time of a token after the first; of one token there is none."""
        if self.output_tokens is None or self.output_tokens < 2 or self.e2e_ns is None or self.ttft_ns is None:
            return None
        return (self.e2e_ns - self.ttft_ns) / (self.output_tokens - 1)


@dataclass(frozen=True, slots=True)
class Iteration:
    """A row of `iteration`; ns from the run's origin."""

    key: int
    source: str
    engine: str | None
    dp_rank: int | None
    number: int | None
    rank: int | None
    step: int | None
    ts_ns: int | None
    dur_ns: int | None
    ts_error_ns: int | None
    kind: str | None
    ctx_requests: int | None
    ctx_tokens: int | None
    gen_requests: int | None
    gen_tokens: int | None
    graph: str | None
    padded_tokens: int | None
    kv_used: float | None
    running: int | None
    waiting: int | None

    @property
    def end_ns(self) -> int | None:
        return None if self.ts_ns is None or self.dur_ns is None else self.ts_ns + self.dur_ns


@dataclass(frozen=True)
class Members:
    """Which request was in which iteration, as columns."""

    iteration: Ints
    request: Ints
    phase: NDArray[np.int8]
    token: Ints  # the output token that came of it; -1: none, or not known
    tokens: Ints  # -1: not known
    how: str
    confidence: float


def requests(con: duckdb.DuckDBPyConnection) -> tuple[Request, ...]:
    """All of them, in order of arrival."""
    rows = con.execute(
        "SELECT request, request_id, source, engine, dp_rank, send_ts_ns, client_first_ts_ns, client_end_ts_ns, "
        "arrival_ts_ns, queued_ts_ns, scheduled_ts_ns, first_token_ts_ns, last_token_ts_ns, end_ts_ns, queue_ns, "
        "prefill_ns, decode_ns, prompt_tokens, cached_tokens, output_tokens, max_tokens, finish, error FROM request "
        "ORDER BY coalesce(send_ts_ns, arrival_ts_ns), request"
    ).fetchall()
    return tuple(Request(*row) for row in rows)


def iterations(con: duckdb.DuckDBPyConnection) -> tuple[Iteration, ...]:
    """All of them, in order of engine and time."""
    rows = con.execute(
        "SELECT iteration, source, engine, dp_rank, number, rank, step, ts_ns, dur_ns, ts_error_ns, class, "
        "ctx_requests, ctx_tokens, gen_requests, gen_tokens, graph, padded_tokens, kv_used, running, waiting "
        "FROM iteration ORDER BY engine, dp_rank, ts_ns, number, iteration"
    ).fetchall()
    return tuple(Iteration(*row) for row in rows)


def members(con: duckdb.DuckDBPyConnection) -> Members:
    """All of them, in order of iteration: so they are stored."""
    found = con.execute(
        "SELECT iteration, request, (CASE phase WHEN 'prefill' THEN 0 WHEN 'decode' THEN 1 ELSE 2 END)::TINYINT AS "
        "phase, coalesce(token, -1)::BIGINT AS token, coalesce(tokens, -1)::BIGINT AS tokens FROM member "
    ).fetchnumpy()
    how, confidence = known(con) or ("recorded", 1.0)
    columns = {name: np.asarray(values) for name, values in found.items()}
    return Members(
        columns["iteration"], columns["request"], columns["phase"], columns["token"], columns["tokens"], how,
        confidence,
    )  # fmt: skip


def known(con: duckdb.DuckDBPyConnection) -> tuple[str, float] | None:
    """How most members are known, and how surely; None: there are none."""
    rows = con.execute("SELECT how, min(confidence) FROM member GROUP BY how ORDER BY count(*) DESC LIMIT 1").fetchall()
    return (str(rows[0][0]), float(rows[0][1])) if rows else None


def tokens(con: duckdb.DuckDBPyConnection) -> dict[int, Ints]:
    """When the client got each token, by request; empty: not recorded."""
    found = con.execute(
        "SELECT request, ts_ns FROM request_event WHERE kind = 'token' ORDER BY request, ts_ns"
    ).fetchnumpy()
    request, ts = np.asarray(found["request"]), np.asarray(found["ts_ns"])
    keys, begins = np.unique(request, return_index=True)
    return dict(zip(keys.tolist(), np.split(ts, begins[1:]), strict=True)) if len(keys) else {}


@dataclass(frozen=True, slots=True)
class Clock:
    """How the clocks of two sources were joined: delays from the target's stamps to the source's, or an interval."""

    source: str
    target: str
    pairs: int
    offset_ns: int | None
    low_ns: int | None
    median_ns: int | None
    high_ns: int | None
    how: str


def clocks(con: duckdb.DuckDBPyConnection) -> tuple[Clock, ...]:
    """Every pair of sources."""
    rows = con.execute(
        "SELECT source, target, pairs, offset_ns, low_ns, median_ns, high_ns, how FROM clock_join ORDER BY ALL"
    ).fetchall()
    return tuple(Clock(*row) for row in rows)
