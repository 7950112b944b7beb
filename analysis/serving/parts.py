"""What each request's time is made of: pieces that follow each other, every ns once, each with its iteration.

A request is sent, passes the front end and waits in the queue. Its prompt is worked on, then it generates. While it
generates, an iteration takes what a usual one of generating requests alone takes. What it takes beyond
that is the prompts of others, a longer batch, or a stall. Between its iterations there are gaps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.serving.exported import exports, hurt
from npulens.analysis.serving.recorded import (
    DECODE,
    PREFILL,
    RECOMPUTE,
    Members,
    Request,
    members,
    requests,
)

if TYPE_CHECKING:
    import pandas as pd

#: Kinds of pieces, in the order of a request's way.
KINDS = (
    "send", "front_end_in", "queue_slots", "queue_kv", "queue_budget", "queue", "own_prefill", "between_chunks",
    "decode", "others_prefill", "longer_batch", "stall", "gap", "preempted", "recompute", "export", "front_end_out",
    "unexplained",
)  # fmt: skip
_AT = {kind: place for place, kind in enumerate(KINDS)}
#: An iteration is a stall where it takes so many times a usual one beyond what its tokens explain.
_STALL = 10
#: KV use from which on a request waits for blocks, and how near counts of tokens and requests come to a limit.
_KV_FULL, _NEAR = 0.9, 0.98
#: Iterations in which requests wait at a limit that make it one.
_AGAIN = 10
#: Share of the requests around a percentile over which parts are averaged.
_AROUND = 0.025


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a request's time, from the run's origin."""

    kind: str
    ts_ns: int
    dur_ns: int
    iteration: int | None


@dataclass(frozen=True)
class Parts:
    """Requests that ended, with what their times are made of: a row each, a column for each of KINDS."""

    requests: tuple[Request, ...]
    whole: Ints  # from sending to the end
    ttft: Ints  # to the first token
    after: Ints  # from the first token to the end
    excluded: NDArray[np.bool_]  # open while a profiler wrote its trace

    @property
    def tpot_ns(self) -> NDArray[np.float64]:
        """Mean time of a token after the first; NaN where there is none."""
        many = np.array([max(0, (one.output_tokens or 0) - 1) for one in self.requests], np.float64)
        total = self.after.sum(axis=1)
        return np.asarray(np.divide(total, many, out=np.full(len(many), np.nan), where=many > 0), np.float64)

    @property
    def ttft_ns(self) -> Ints:
        return np.asarray(self.ttft.sum(axis=1), np.int64)


@dataclass(frozen=True)
class Taken:
    """A percentile taken apart: the mean parts of the requests around it."""

    measure: str  # 'ttft' or 'tpot'
    percent: int
    value_ns: float
    of: int  # requests whose parts are averaged
    parts: dict[str, float]


#: Pieces of requests: place of the request, kind, begin, length, place of the iteration (-1: none).
_Marks = tuple[Ints, Ints, Ints, Ints, Ints]


@dataclass
class _Axis:
    """Iterations of each engine one after the other, without overlap, and how one is divided for who decodes in it."""

    key: Ints
    engine: Ints
    begin: Ints
    end: Ints
    usual: Ints  # of its length, what a decoder would have had anyway
    prompts: Ints  # what prompts of others add
    stall: Ints
    export: NDArray[np.bool_]
    tokens: Ints
    running: Ints  # requests in it
    kv: NDArray[np.float64]  # share of the KV cache in use


#: The table that holds sums of a large run once they were made (analysis/kept.py).
KEPT = "request_part"


def parts(con: duckdb.DuckDBPyConnection) -> Parts:
    """What every request's time is made of."""
    there = con.execute(
        "SELECT 1 FROM duckdb_views() WHERE view_name = $name UNION ALL "
        "SELECT 1 FROM duckdb_tables() WHERE table_name = $name", {"name": KEPT},
    ).fetchall()  # fmt: skip
    if not there:
        return _Apart(con).parts()
    found = {
        name: np.asarray(column) for name, column in con.execute(f"FROM {KEPT} ORDER BY place").fetchnumpy().items()
    }
    whole, ttft = (_ints(np.stack([found[f"{of}_{kind}"] for kind in KINDS], axis=1)) for of in ("whole", "ttft"))
    return Parts(_ended(con), whole, ttft, whole - ttft, found["excluded"].astype(bool))


def sums(con: duckdb.DuckDBPyConnection) -> pd.DataFrame:
    """The same as a table: a row for each request, in their order."""
    import pandas as pd  # half a second that no question of one run has to spend

    found = _Apart(con).parts()
    columns: dict[str, Any] = {"place": np.arange(len(found.requests)), "excluded": found.excluded}
    for of, table in (("whole", found.whole), ("ttft", found.ttft)):
        columns |= {f"{of}_{kind}": table[:, at] for at, kind in enumerate(KINDS)}
    return pd.DataFrame(columns)


def _ended(con: duckdb.DuckDBPyConnection) -> tuple[Request, ...]:
    return tuple(
        one for one in requests(con) if one.begin_ns is not None and one.done_ns is not None and one.ttft_ns is not None
    )


def pieces(con: duckdb.DuckDBPyConnection, key: int) -> tuple[Piece, ...]:
    """The pieces of one request in order of time."""
    return pieces_of(con, (key,))[key]


def pieces_of(con: duckdb.DuckDBPyConnection, keys: Iterable[int]) -> dict[int, tuple[Piece, ...]]:
    """The pieces of some requests, each in order of time; none of a request that did not end."""
    return _Apart(con).pieces(tuple(keys))


def taken(found: Parts, measure: str, percent: int) -> Taken | None:
    """A percentile of TTFT or TPOT taken apart; requests that an export hurt are left out."""
    values = found.ttft_ns.astype(np.float64) if measure == "ttft" else found.tpot_ns
    table = found.ttft if measure == "ttft" else found.after
    there = np.flatnonzero(~found.excluded & ~np.isnan(values))
    if not len(there):
        return None
    order = there[np.argsort(values[there], kind="stable")]
    value = float(np.percentile(values[there], percent))
    half = max(1, round(_AROUND * len(order)))
    at = min(len(order) - 1, round(percent / 100 * (len(order) - 1)))
    near = order[max(0, at - half + 1) : at + half]
    divided = np.ones(len(near))
    if measure == "tpot":
        divided = np.array([max(1, (found.requests[one].output_tokens or 0) - 1) for one in near], np.float64)
    mean = (table[near] / divided[:, None]).mean(axis=0)
    parts_ = {kind: float(ns) for kind, ns in zip(KINDS, mean, strict=True) if ns}
    return Taken(measure, percent, value, len(near), parts_)


@dataclass(frozen=True)
class Goodput:
    """How many requests kept their objectives, and what the others lost them by."""

    good: int
    of: int
    lost: dict[str, int]  # kind of part that grew most -> requests


def goodput(found: Parts, ttft_ns: float, tpot_ns: float) -> Goodput:
    """Requests within both objectives. Another one is lost by the part that is most above what those have of it."""
    counted = ~found.excluded
    ttft, tpot = found.ttft_ns, np.nan_to_num(found.tpot_ns)
    good = counted & (ttft <= ttft_ns) & (tpot <= tpot_ns)
    many = np.array([max(1, (one.output_tokens or 0) - 1) for one in found.requests], np.float64)
    late, slow = counted & ~good & (ttft > ttft_ns), counted & ~good & (ttft <= ttft_ns)
    kinds = np.zeros(len(KINDS), np.int64)
    for rows, table in ((late, found.ttft), (slow, found.after / many[:, None])):
        usual = np.median(table[good], axis=0) if good.any() else np.zeros(len(KINDS))
        kinds += np.bincount((table[rows] - usual).argmax(axis=1), minlength=len(KINDS)) if rows.any() else 0
    lost = {kind: count for kind, count in zip(KINDS, kinds.tolist(), strict=True) if count}
    return Goodput(int(good.sum()), int(counted.sum()), dict(sorted(lost.items(), key=lambda item: -item[1])))


def _ints(values: NDArray[Any]) -> Ints:
    return np.asarray(values, np.int64)


class _Apart:
    """The tables of a run as columns, asked once."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._requests = _ended(con)
        lost = hurt(con)
        self._excluded = np.array([one.key in lost for one in self._requests], bool)
        self._windows = exports(con)
        self._axis = _axis(con, self._windows)
        self._begin = np.array([one.begin_ns for one in self._requests], np.int64)
        self._done = np.array([one.done_ns for one in self._requests], np.int64)
        self._first = self._begin + np.array([one.ttft_ns for one in self._requests], np.int64)
        self._arrival = np.clip(
            np.array([one.begin_ns if one.arrival_ns is None else one.arrival_ns for one in self._requests], np.int64),
            self._begin, self._done,
        )  # fmt: skip
        self._place_members(members(con))

    def _place_members(self, said: Members) -> None:
        """Members by request and time, with the window that each has of its iteration."""
        place = {one.key: at for at, one in enumerate(self._requests)}
        most = max((int(said.request.max(initial=-1)), *place)) + 1 if place else int(said.request.max(initial=-1)) + 1
        of = np.full(most + 1, -1)
        for key, at in place.items():
            of[key] = at
        row = of[said.request] if len(said.request) else np.zeros(0, np.int64)
        home = np.full(int(max(said.iteration.max(initial=-1), self._axis.key.max(initial=-1))) + 1, -1)
        home[self._axis.key] = np.arange(len(self._axis.key))
        index = home[said.iteration]
        known = (row >= 0) & (index >= 0)
        row, index, phase, token = (column[known] for column in (row, index, said.phase, said.token))
        # Members come in order of time, so a stable sort by request is enough; of few requests it is a quick one.
        few = len(self._requests) < 1 << 16
        order = np.argsort(row.astype(np.uint16) if few else row, kind="stable")
        self._row, self._at, self._phase, self._token = row[order], index[order], phase[order], token[order]
        begin, end = self._axis.begin[self._at], self._axis.end[self._at]
        self._from = np.clip(begin, self._arrival[self._row], self._done[self._row])
        self._until = np.clip(end, self._from, self._done[self._row])

    def _marks(self) -> list[_Marks]:
        """Pieces of requests that are in iterations: request, kind, begin, length, place of the iteration."""
        row, at, phase = self._row, self._at, self._phase
        axis, length = self._axis, self._until - self._from
        found: list[_Marks] = []

        def add(which: NDArray[np.bool_], kind: str, begin: Ints, ns: Ints) -> None:
            some = which & (ns > 0)
            kinds = np.full(int(some.sum()), _AT[kind], np.int64)
            found.append((_ints(row[some]), kinds, _ints(begin[some]), _ints(ns[some]), _ints(at[some])))

        out = axis.export[at] if len(at) else np.zeros(0, bool)
        add(out, "export", self._from, length)
        stall = np.where(out, 0, np.minimum(length, axis.stall[at])) if len(at) else length
        rest = np.where(out, 0, length - stall)
        add(~out, "stall", self._until - stall, stall)
        add(phase == PREFILL, "own_prefill", self._from, rest)
        add(phase == RECOMPUTE, "recompute", self._from, rest)
        usual = np.minimum(rest, axis.usual[at]) if len(at) else rest
        prompts = np.minimum(rest - usual, axis.prompts[at]) if len(at) else rest
        decodes = phase == DECODE
        add(decodes, "decode", self._from, usual)
        add(decodes, "others_prefill", self._from + usual, prompts)
        add(decodes, "longer_batch", self._from + usual + prompts, rest - usual - prompts)
        if len(row) > 1:
            found += self._between()
        return found

    def _between(self) -> list[_Marks]:
        """What lies between two iterations of one request."""
        same = self._row[1:] == self._row[:-1]
        begin, end = self._until[:-1], self._from[1:]
        ns = np.where(same, end - begin, 0)
        next_ = self._at[1:] == self._at[:-1] + 1
        chunk = self._phase[1:] == PREFILL
        kind = np.where(next_, _AT["gap"], np.where(chunk, _AT["between_chunks"], _AT["preempted"]))
        stopped = np.zeros(len(ns), bool)
        for since, until in self._windows:
            stopped |= (begin < until) & (end > since) & next_
        kind = np.where(stopped, _AT["export"], kind)
        some = ns > 0
        columns = [_ints(values[some]) for values in (self._row[1:], kind, begin, ns, self._at[1:])]
        return [(columns[0], columns[1], columns[2], columns[3], columns[4])]

    def _edges(self) -> tuple[Ints, Ints, Ints]:
        """Of each request: begin of its first iteration, end of that with its first token, end of its last."""
        size = len(self._requests)
        first, last = self._done.copy(), self._arrival.copy()
        token = np.full(size, -1)
        np.minimum.at(first, self._row, self._from)
        np.maximum.at(last, self._row, self._until)
        some = self._token == 0
        token[self._row[some]] = self._until[some]
        return first, token, last

    def _waits(self, first: Ints) -> list[_Marks]:
        """From arrival to the first iteration: while others run it waits, else it is in the front end."""
        axis, found = self._axis, list[_Marks]()
        there = np.zeros(len(self._requests), bool)
        there[self._row] = True
        waits = np.flatnonzero(there & (first > self._arrival))
        begun = np.searchsorted(np.sort(self._arrival[waits]), axis.begin, "right")
        why = _why(axis, begun > np.searchsorted(np.sort(first[waits]), axis.end, "left"))
        engine = np.zeros(len(there), np.int64)
        engine[self._row[::-1]] = axis.engine[self._at[::-1]]
        for at in waits.tolist():
            since, until = int(self._arrival[at]), int(first[at])
            own = np.searchsorted(axis.engine, (engine[at], engine[at] + 1))
            low, high = int(own[0]), int(own[1])
            low, high = (
                low + int(np.searchsorted(axis.end[low:high], since, "right")),
                low + int(np.searchsorted(axis.begin[low:high], until, "left")),
            )
            begin = np.clip(axis.begin[low:high], since, until)
            end = np.clip(axis.end[low:high], since, until)
            held = axis.stall[low:high] * 2 > axis.end[low:high] - axis.begin[low:high]
            kind = np.where(held, _AT["stall"], why[low:high])
            kind = np.where(axis.export[low:high], _AT["export"], kind)
            free_from, free_until = np.append(since, end), np.append(begin, until)
            many = len(free_from)
            found.append((np.full(len(begin), at), kind, begin, end - begin, np.arange(low, high)))
            found.append((np.full(many, at), np.full(many, _AT["front_end_in"]), free_from, free_until - free_from,
                          np.full(many, -1)))  # fmt: skip
        return found

    def _all(self) -> tuple[list[_Marks], Ints, Ints]:
        """Every piece of every request, and the ends of the first token's and the last iteration."""
        first, token, last = self._edges()
        found = [*self._marks(), *self._waits(first)]
        every = np.arange(len(self._requests))
        nowhere = np.full(len(every), -1)
        found.append((every, np.full(len(every), _AT["send"]), self._begin, self._arrival - self._begin, nowhere))
        there = np.zeros(len(every), bool)
        there[self._row] = True
        found.append((every[there], np.full(int(there.sum()), _AT["front_end_out"]), last[there],
                      (self._done - last)[there], nowhere[there]))  # fmt: skip
        found += [self._said(at) for at in np.flatnonzero(~there).tolist()]
        return found, token, last

    def _said(self, at: int) -> _Marks:
        """What the engine says of a request whose iterations are not known; what it leaves open is unexplained."""
        one = self._requests[at]
        now, until = int(self._arrival[at]), int(self._done[at])
        lengths = [("queue", one.queue_ns), ("own_prefill", one.prefill_ns), ("decode", one.decode_ns)]
        known = sum(ns for _, ns in lengths[:2] if ns is not None)
        front = None
        if one.queue_ns is not None and one.prefill_ns is not None and one.first_token_ns is not None:
            front = one.first_token_ns - int(self._arrival[at]) - known
        kinds, begins, ns_s = list[int](), list[int](), list[int]()
        for kind, ns in [("front_end_in", front), *lengths]:
            ns = 0 if ns is None else max(0, min(ns, until - now))
            kinds.append(_AT[kind])
            begins.append(now)
            ns_s.append(ns)
            now += ns
        kinds.append(_AT["front_end_out" if one.decode_ns is not None else "unexplained"])
        begins.append(now)
        ns_s.append(until - now)
        told = ([at] * len(kinds), kinds, begins, ns_s, [-1] * len(kinds))
        columns = [np.array(values, np.int64) for values in told]
        return columns[0], columns[1], columns[2], columns[3], columns[4]

    def parts(self) -> Parts:
        """Sums by request and kind."""
        found, token, _ = self._all()
        size = len(self._requests)
        whole = np.zeros((size, len(KINDS)), np.int64)
        ttft = np.zeros_like(whole)
        cut = np.where(token >= 0, np.minimum(token, self._first), self._first)
        row, kind, begin, ns = (np.concatenate([piece[column] for piece in found]) for column in range(4))
        for table, of in ((whole, ns), (ttft, np.clip(cut[row] - begin, 0, ns))):
            # What is added up is whole ns of less than 2^53, so it stays exact as a float.
            table += np.bincount(row * len(KINDS) + kind, of, whole.size).astype(np.int64).reshape(whole.shape)
        rest = (self._done - self._begin) - whole.sum(axis=1)
        whole[:, _AT["unexplained"]] += rest
        ttft[:, _AT["front_end_out"]] += (self._first - self._begin) - ttft.sum(axis=1)
        return Parts(self._requests, whole, ttft, whole - ttft, self._excluded)

    def pieces(self, keys: tuple[int, ...]) -> dict[int, tuple[Piece, ...]]:
        """All pieces of some requests; they tile their times."""
        wanted = {at: one.key for at, one in enumerate(self._requests) if one.key in keys}
        found: dict[int, list[Piece]] = {key: [] for key in keys}
        places = np.array(list(wanted), np.int64)
        for row, kind, begin, ns, place in self._all()[0]:
            for one in np.flatnonzero(np.isin(row, places) & (ns > 0)).tolist():
                iteration = None if place[one] < 0 else int(self._axis.key[place[one]])
                found[wanted[int(row[one])]].append(
                    Piece(KINDS[int(kind[one])], int(begin[one]), int(ns[one]), iteration)
                )
        return {key: tuple(sorted(several, key=lambda piece: piece.ts_ns)) for key, several in found.items()}


_TIMED = """
SELECT iteration, dense_rank() OVER (ORDER BY engine, dp_rank) - 1 AS engine, ts_ns,
    coalesce(dur_ns, lead(ts_ns) OVER later - ts_ns, 0) AS dur_ns, coalesce(ctx_requests, 0) AS prompts,
    coalesce(ctx_tokens, 0) AS context, coalesce(gen_requests, 0) AS generating, coalesce(gen_tokens, 0) AS tokens,
    coalesce(kv_used, 0) AS kv
FROM iteration WHERE ts_ns IS NOT NULL WINDOW later AS (PARTITION BY engine, dp_rank ORDER BY ts_ns, iteration)
ORDER BY engine, dp_rank, ts_ns, iteration
"""


def _axis(con: duckdb.DuckDBPyConnection, windows: tuple[tuple[int, int], ...]) -> _Axis:
    """Iterations whose time is known, one engine after the other, each in order of time.

    Of an iteration of which only the submission was recorded, the length is the time to the next one.
    """
    rows = con.execute(_TIMED).fetchnumpy()
    kv = np.asarray(rows.pop("kv"), np.float64)
    every = {name: np.asarray(values, np.int64) for name, values in rows.items()}
    ts, dur, engine, prompts, generating = (
        every[name] for name in ("ts_ns", "dur_ns", "engine", "prompts", "generating")
    )
    until, begin = ts + dur, ts.copy()
    for one in np.unique(engine).tolist():
        own = engine == one
        until[own] = np.maximum.accumulate(until[own])
        begin[own] = np.maximum(ts[own], np.append(ts[own][:1], until[own][:-1]))
    length = until - begin
    alone = (prompts == 0) & (generating > 0)
    usual = int(np.median(dur[alone])) if alone.any() else 0
    worked = every["context"] + np.maximum(0, every["tokens"] - generating)
    some = worked > 0
    slope = float(np.median((dur[some] - usual) / worked[some])) if some.any() else 0.0
    said = usual + np.maximum(0.0, slope) * worked
    stalled = (dur - said > np.maximum(_STALL * usual, said)) & (usual > 0)
    stall = np.where(stalled, np.maximum(0, length - said.astype(np.int64)), 0)
    export = np.zeros(len(ts), bool)
    for since, end in windows:
        export |= (begin < end) & (until > since)
    return _Axis(
        every["iteration"], engine, begin, until, np.full(len(ts), usual), np.where(prompts > 0, length, 0), stall,
        export, every["context"] + every["tokens"], prompts + generating, kv,
    )  # fmt: skip


def _why(axis: _Axis, waiting: NDArray[np.bool_]) -> Ints:
    """What a request waits for while each iteration runs: a limit that was reached, else the iteration itself.

    A limit is one only where requests wait at it, again and again.
    """
    found = np.full(len(axis.key), _AT["queue"])
    for values, kind in ((axis.running, "queue_slots"), (axis.tokens, "queue_budget")):
        at_most = (values >= _NEAR * values.max(initial=0)) & waiting & (axis.running > 1)
        if at_most.sum() >= _AGAIN:
            found = np.where(at_most, _AT[kind], found)
    return np.where(axis.kv >= _KV_FULL, _AT["queue_kv"], found)
