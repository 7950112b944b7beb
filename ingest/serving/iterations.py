"""Iterations that a log counts, given their times and their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.serving.annotations import Annotated
from npulens.ingest.serving.counts import DECODE, Counts, Ints, Replayed, Segment, Wanted, replay
from npulens.ingest.serving.requests import Row
from npulens.ingest.serving.times import NEVER, ends

#: Clocks of zones lie so many ns apart, or a whole number of times that.
_ZONE_NS = 15 * 60 * 10**9
_SECOND = 10**9
#: So long after its arrival a first request has begun.
_LATE_NS = 60 * _SECOND
#: Annotations that are looked for in a log, and how many of them must be found.
_LOOKED_FOR, _FOUND = 256, 0.9
#: Share of tokens that came within the error of a placed iteration.
_WITHIN = 0.9


@dataclass(frozen=True)
class Placed:
    """A log's iterations in order; stamps since 1970, NEVER where nothing tells."""

    rows: pa.Table
    ts_ns: Ints
    error_ns: Ints
    logged_ns: Ints  # NEVER: not told
    annotated: Mapping[int, Annotated]  # row -> the annotation that is of the same iteration
    replayed: Replayed | None
    requests: tuple[int, ...]  # the requests that the replay numbers
    lag_ns: tuple[int, int, int] | None  # from the end of an iteration to its tokens: least, median, nine of ten
    tokens: int


def place(
    log: pa.Table, requests: Sequence[Row], tokens: Mapping[int, Ints], marks: Sequence[Annotated]
) -> Placed:  # fmt: skip
    """Where the iterations of one engine's log lie, and who was in them."""
    rows = _once(log)
    columns = {name: np.asarray(pc.fill_null(rows[name], 0).to_numpy(), np.int64) for name in (
        "ctx_requests", "ctx_tokens", "gen_requests", "gen_tokens", "dur_ns")}  # fmt: skip
    counts = Counts(*(columns[name] for name in ("ctx_requests", "ctx_tokens", "gen_requests", "gen_tokens")))
    logged = np.asarray(pc.fill_null(rows["logged_ts_ns"], NEVER).to_numpy(), np.int64)
    order, replayed = _replayed(requests, counts, logged)
    annotated = _matched(counts, marks)
    shift = _shift(logged, replayed, [requests[at] for at in order], annotated)
    logged = np.where((logged >= NEVER) | (shift is None), NEVER, logged + (shift or 0))
    before = np.where(logged >= NEVER, NEVER, logged + _SECOND)
    known = np.full(len(rows), NEVER)
    for at, mark in annotated.items():
        known[at] = mark.ts_ns + mark.dur_ns
    which, came = _tokens(replayed, [requests[at] for at in order], tokens)
    np.minimum.at(before, which, came)
    end = ends(columns["dur_ns"], before, known)
    strange = np.ones(len(rows), bool)
    strange[which] = False
    if replayed is not None:
        outside = np.ones(len(rows), bool)
        outside[replayed.begin : replayed.end] = False
        early = outside & (known >= NEVER) & (logged < NEVER)
        end = ends(columns["dur_ns"], np.where(early, np.maximum(end, logged), end), known)
    lag = _lag(came - end[which], known[which] >= NEVER)
    error = np.where(strange, _SECOND, 0 if lag is None else lag[2])
    for at, mark in annotated.items():
        error[at] = abs(int(columns["dur_ns"][at]) - mark.dur_ns)
    ts = np.where(end >= NEVER, NEVER, end - columns["dur_ns"])
    return Placed(rows, ts, error, logged, annotated, replayed, tuple(order), lag, len(came))


def _replayed(requests: Sequence[Row], counts: Counts, logged: Ints) -> tuple[list[int], Replayed | None]:
    """Requests in order, and the log with them as members.

    Where they do not fit, those that a client sent may: a server also exports spans of requests before the log.
    """
    order = _in_order(requests)
    sent = [at for at in order if requests[at]["send_ts_ns"] is not None]
    for mine in [order, sent] if len(sent) < len(order) else [order]:
        wanted = [Wanted(_computed(requests[at]), requests[at]["output_tokens"]) for at in mine]
        replayed = replay(wanted, counts, _starts(counts, logged, requests[mine[0]]) if mine else None)
        if replayed is not None:
            return mine, replayed
    return order, None


def _computed(row: Row) -> int:
    """Tokens of a prompt that an iteration worked on: without those that were cached."""
    return max(1, int(row["prompt_tokens"]) - int(row["cached_tokens"] or 0))


def _once(log: pa.Table) -> pa.Table:
    """Each number once, in order: neighbouring logs may share lines."""
    numbers = np.asarray(log["number"].to_numpy(), np.int64)
    first = np.sort(np.unique(numbers, return_index=True)[1])
    if len(first) == len(numbers) or np.any(np.diff(numbers[first]) < 0):
        return log  # an engine that began again counts from 0 again: all are kept
    return log.take(pa.array(first))


def _in_order(requests: Sequence[Row]) -> list[int]:
    """Requests of known lengths, as they arrived."""
    known = [
        at for at, row in enumerate(requests)
        if row["prompt_tokens"] and row["output_tokens"] and _arrival(row) is not None
    ]  # fmt: skip
    return sorted(known, key=lambda at: (_arrival(requests[at]) or 0, at))


def _arrival(row: Row) -> int | None:
    found = row["arrival_ts_ns"] if row["arrival_ts_ns"] is not None else row["send_ts_ns"]
    return None if found is None else int(found)


def _starts(counts: Counts, logged: Ints, first: Row) -> list[int]:
    """Iterations with a prompt that may be the first request's, the likeliest first.

    Whatever the zone, minutes and seconds fit; a prompt as long as its own fits better.
    """
    begins, arrival = np.flatnonzero(counts.ctx_requests > 0), _arrival(first)
    if arrival is not None and (logged[begins] < NEVER).all():
        near = begins[(logged[begins] + _SECOND - arrival) % _ZONE_NS <= _LATE_NS]
        begins = near if len(near) else begins
    exact = counts.ctx_tokens[begins] == _computed(first)
    return [*begins[exact].tolist(), *begins[~exact].tolist()]


def _matched(counts: Counts, marks: Sequence[Annotated]) -> dict[int, Annotated]:
    """Rows of a log that annotations are of, by the sequence of their counts. The log leaves empty iterations out."""
    full = [mark for mark in marks if any(mark.counts) and None not in mark.counts]
    if not full or not len(counts):
        return {}
    ours = np.stack([counts.ctx_requests, counts.ctx_tokens, counts.gen_requests, counts.gen_tokens], 1)
    theirs = np.array([mark.counts for mark in full], np.int64)
    looked = min(len(theirs), len(ours), _LOOKED_FOR)
    score = np.zeros(len(ours), np.int64)
    for at in range(looked):
        same = (ours == theirs[at]).all(axis=1)
        score[: len(ours) - at] += same[at:]
    begin = int(score.argmax())
    many = min(len(theirs), len(ours) - begin)
    same = (ours[begin : begin + many] == theirs[:many]).all(axis=1)
    if same.mean() < _FOUND:
        return {}
    return {begin + at: full[at] for at in np.flatnonzero(same).tolist()}


def _shift(
    logged: Ints, replayed: Replayed | None, requests: Sequence[Row], annotated: Mapping[int, Annotated]
) -> int | None:
    """What makes a log's stamps those of 1970: whole quarters of an hour, for neither year nor zone is told."""
    apart = [mark.ts_ns + mark.dur_ns - int(logged[at]) for at, mark in annotated.items() if logged[at] < NEVER]
    if replayed is not None and not apart:
        begins = {part.request: part.first for part in replayed.segments if part.token == 0}
        apart = [
            at - int(logged[begin]) for request, begin in begins.items()
            if logged[begin] < NEVER and (at := _arrival(requests[request])) is not None
        ]  # fmt: skip
    if not apart:
        return None
    return round(float(np.median(np.array(apart, np.float64))) / _ZONE_NS) * _ZONE_NS


def _tokens(
    replayed: Replayed | None, requests: Sequence[Row], tokens: Mapping[int, Ints]
) -> tuple[Ints, Ints]:  # fmt: skip
    """Iterations, and moments by which a token of theirs was out."""
    which, came = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for part in replayed.segments if replayed is not None else ():
        if part.token is None:
            continue
        row = requests[part.request]
        first, last = part.token, part.token + part.last - part.first
        at_client = tokens.get(row["request"])
        if at_client is not None and len(at_client) == row["output_tokens"]:
            which.append(np.arange(part.first, part.last + 1))
            came.append(at_client[first : last + 1])
        edges = [(0, "first_token_ts_ns"), (0, "client_first_ts_ns"), (row["output_tokens"] - 1, "last_token_ts_ns")]
        for token, name in edges:
            if first <= token <= last and row[name] is not None:
                which.append(np.array([part.first + token - first]))
                came.append(np.array([row[name]], np.int64))
    return np.concatenate(which), np.concatenate(came)


def _lag(lag: Ints, placed: NDArray[np.bool_]) -> tuple[int, int, int] | None:
    """From the end of placed iterations to their tokens; where all are recorded, from those."""
    lag = lag[placed] if placed.any() else lag
    return (int(lag.min()), int(np.median(lag)), int(np.quantile(lag, _WITHIN))) if len(lag) else None


def expanded(segments: Sequence[Segment]) -> dict[str, Ints]:
    """A row for each iteration of each segment: iteration, request, phase, tokens, token (-1: none)."""
    if not segments:
        return {name: np.zeros(0, np.int64) for name in ("iteration", "request", "phase", "tokens", "token")}
    first, last, request, phase, tokens, token = (
        np.array([-1 if (value := getattr(part, name)) is None else value for part in segments], np.int64)
        for name in ("first", "last", "request", "phase", "tokens", "token")
    )
    many = last - first + 1
    within = np.arange(many.sum()) - np.repeat(np.cumsum(many) - many, many)
    token = np.repeat(token, many)
    return {
        "iteration": np.repeat(first, many) + within,
        "request": np.repeat(request, many),
        "phase": np.repeat(phase, many),
        "tokens": np.repeat(np.where((tokens < 0) & (phase == DECODE), 1, tokens), many),
        "token": np.where(token < 0, -1, token + within),
    }
