"""A serving run as its detectors see it: requests, iterations, a model fitted on them, and how far to believe it.

The replay first gives the run as it was. By which share it misses a measure is the interval of every saving of that
measure. Above `BELIEVED` nothing is said of what a fix gives back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from npulens.analysis.finding import Evidence, Gain, NotMeasured
from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run
from npulens.analysis.serving.exported import exports, hurt
from npulens.analysis.serving.fitting import STALL_MORE, Columns, fitted
from npulens.analysis.serving.recorded import Iteration, Request, iterations, members, requests
from npulens.analysis.serving.replay import (
    UNLIMITED,
    Edit,
    Flags,
    Floats,
    Load,
    Measures,
    Model,
    Stall,
    measures,
    replayed,
)
from npulens.analysis.serving.slo import Slo

#: A replay that misses a measure by more than this share says nothing of it.
BELIEVED = 0.2
#: Measures of time, in the order in which equal savings are told.
TIMES = ("ttft_p99", "tpot_p99", "ttft_p50", "tpot_p50")
GOODPUT = "goodput"
#: Iterations at a limit that make it one, and how near they come.
_AT_LIMIT, _NEAR = 3, 0.98
#: KV use from which on blocks are short.
KV_FULL = 0.9
#: A number of blocks up to which the use tells single blocks, as it is logged.
_COUNTED = 400
#: An iteration of so many usual ones is long.
_LONG = 4
#: Windows that a finding shows.
_SHOWN = 20
#: Stamps of iterations that are less exact than this share of an iteration do not tell single gaps.
_EXACT = 0.05


@dataclass(frozen=True)
class Served:
    """What everything about a serving run is derived from."""

    requests: tuple[Request, ...]  # of the load, in its order
    iterations: tuple[Iteration, ...]  # with a duration, in the order of `rows`
    rows: Columns
    said_ns: Floats  # of each iteration, as the fit says
    stalled: Flags  # iterations that are stalls
    load: Load
    model: Model
    ttft_ns: Floats
    tpot_ns: Floats
    late_ns: Ints  # by the front end, beyond its floor
    floor_ns: int  # of the front end, both ways
    waiting: Ints  # requests that wait when an iteration begins
    slo: Slo
    real: Measures
    base: Measures  # the replay of the run as it was

    def error(self, measure: str) -> float:
        """By which share the replay misses a measure; of goodput, by which share of all requests."""
        if measure == GOODPUT:
            return abs(self.base.good - self.real.good) / max(1, self.real.requests)
        real, base = (getattr(one, f"{measure}_ns") for one in (self.real, self.base))
        return abs(base - real) / real if real else 1.0

    def gains(self, edit: Edit) -> tuple[Gain, ...]:
        """What an edit does to every measure that the replay can be believed of; the greatest share first."""
        after = replayed(self.load, self.model, edit, self.slo)
        found = []
        for name in TIMES:
            real, base, then = (getattr(one, f"{name}_ns") for one in (self.real, self.base, after))
            if real and base and self.error(name) <= BELIEVED:
                found.append(Gain(name, real, real * min(1.0, then / base), self.error(name)))
        found.sort(key=lambda gain: -round(gain.share, 2))
        count = self.real.requests
        if self.error(GOODPUT) <= BELIEVED:
            good = min(float(count), max(self.real.good, self.real.good + after.good - self.base.good))
            found.append(Gain(GOODPUT, self.real.good, good, self.error(GOODPUT), count))
        return tuple(found)


@dataclass(frozen=True)
class Summary:
    """What is said of a serving run whatever is found in it."""

    real: Measures
    slo: Slo
    left_out: int  # requests that a profiler's export hurt
    export_ns: int
    error: float  # the most by which a replay of the run as it was misses a percentile

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self.real), "slo": vars(self.slo), "left_out": self.left_out, "export_ns": self.export_ns,
                "replay_error_share": self.error}  # fmt: skip


def summary(run: Run) -> Summary | None:
    """None: the run does not hold enough requests and iterations."""
    found = run.get(served)
    if found is None:
        return None
    stopped = sum(end - begin for begin, end in exports(run.con))
    error = max(found.error(name) for name in TIMES)
    return Summary(found.real, found.slo, int((~found.load.counted).sum()), stopped, error)


def served(run: Run) -> Served | None:
    """None: there are not enough requests and iterations."""
    every = [one for one in requests(run.con) if one.ttft_ns is not None and one.output_tokens and one.prompt_tokens]
    every.sort(key=lambda one: one.begin_ns or 0)
    timed = [one for one in iterations(run.con) if one.dur_ns and one.ts_ns is not None]
    timed.sort(key=lambda one: (one.engine or "", one.dp_rank or 0, one.ts_ns or 0))
    outside = exports(run.con)
    timed = [one for one in timed if not any(begin < (one.ts_ns or 0) + (one.dur_ns or 0) and (one.ts_ns or 0) < end
                                             for begin, end in outside)]  # fmt: skip
    if len(every) < 2 or len(timed) < 8:
        return None
    speculates = run.get(speculation)
    rows = _columns(timed, speculates is not None)
    together = len({one.dp_rank for one in timed if one.dp_rank is not None}) > 1
    model, said, stalled = fitted(rows, together)
    if speculates is not None and rows.drafting.any():
        model = _speculating(model, rows, speculates)
    ttft = np.array([float(one.ttft_ns or 0) for one in every])
    tpot = np.array([float(one.tpot_ns or 0.0) for one in every])
    holds = _holds(run, every)
    floor, late = _front(every, rows, holds, outside)
    lost = hurt(run.con)
    load = _load(every, floor, late, np.array([one.key not in lost for one in every]), holds)
    waiting = _waiting(every, rows)
    model = replace(
        _limited(model, timed, rows, every, waiting), exports=tuple(Stall(begin, end - begin) for begin, end in outside)
    )
    slo = run.slo
    counted = load.counted
    real = measures(ttft[counted], tpot[counted], load.output[counted], slo)
    base = replayed(load, model, Edit(), slo)
    return Served(
        tuple(every), tuple(timed), rows, said, stalled, load, model, ttft, tpot, late, floor, waiting, slo, real, base
    )  # fmt: skip


@dataclass(frozen=True)
class Speculation:
    """How much of what was drafted was right: a share of its tokens, or the tokens that a decoder got at once."""

    share: float | None
    length: float | None


def speculation(run: Run) -> Speculation | None:
    """None: nothing was drafted, or nothing says how much of it was right."""
    counted = dict(run.con.execute(
        "SELECT kind, sum(many) FROM (SELECT name LIKE '%accepted_tokens%' AS kind, "
        "max(value) - CASE WHEN count(DISTINCT ts_ns) > 1 THEN min(value) ELSE 0 END AS many "
        "FROM serving_sample WHERE regexp_matches(name, 'spec_decode_num_(draft|accepted)_tokens(_total)?$') "
        "GROUP BY name, labels) GROUP BY kind"
    ).fetchall())  # fmt: skip
    if counted.get(False):
        return Speculation(min(1.0, counted.get(True, 0.0) / counted[False]), None)
    (length,) = run.con.execute(
        "SELECT avg(value) FROM serving_sample WHERE name LIKE '%spec_accept_length' AND value > 0"
    ).fetchone() or (None,)  # fmt: skip
    return None if length is None else Speculation(None, max(1.0, length))


def _speculating(model: Model, rows: Columns, said: Speculation) -> Model:
    """The model with the mean iteration of decoders: those with drafts and those without."""
    mine = rows.decoders > 0
    drafted = float((rows.tokens - rows.decoders)[mine & rows.drafting].sum() / rows.decoders[mine].sum())
    gained = said.length if said.share is None else 1 + said.share * drafted
    return replace(
        model, drafted=drafted, gained=gained or 1.0, draft_ns=model.draft_ns * float(rows.drafting[mine].mean())
    )


def _columns(timed: Sequence[Iteration], speculates: bool) -> Columns:
    def column(name: str) -> Floats:
        return np.array([float(getattr(one, name) or 0) for one in timed])

    ts, dur = column("ts_ns"), column("dur_ns")
    generation, computed = column("gen_requests"), column("gen_tokens")
    beyond = np.maximum(0.0, computed - generation)
    again = np.zeros(len(beyond)) if speculates else beyond
    drafting = (beyond > 0) & speculates
    same = np.array([(one.engine, one.dp_rank) == (two.engine, two.dp_rank)
                     for one, two in zip(timed[1:], timed[:-1], strict=True)] + [False])  # fmt: skip
    gap = np.append(ts[1:] - (ts + dur)[:-1], 0.0)
    error = column("ts_error_ns")
    followed = same & (np.append(generation[1:], 0.0) > 0)  # decoders go on: there was work
    usual = float(np.median(dur))
    if float(np.median(error)) > _EXACT * usual:  # single gaps are not known, their mean is
        some = followed & (np.abs(gap) < STALL_MORE * usual)
        gap = np.full(len(gap), max(0.0, float(gap[some].mean())) if some.any() else 0.0)
    gap = np.where(followed, np.maximum(gap, 0.0), 0.0)
    padded = np.array([float(one.padded_tokens or one.gen_requests or 0) for one in timed])
    known = {one.graph for one in timed if one.graph}
    eager = np.array([len(known) > 1 and (one.graph or "").lower() in EAGER for one in timed])
    return Columns(
        ts.astype(np.int64), dur, gap, column("ctx_tokens") + again, generation,
        np.where(drafting, computed, np.where(column("ctx_tokens") > 0, generation, np.maximum(padded, generation))),
        eager, drafting,
    )  # fmt: skip


#: How files name an iteration that did not replay a graph.
EAGER = frozenset({"none", "eager", "false", "0"})


def _front(
    every: Sequence[Request], rows: Columns, holds: Ints, outside: Sequence[tuple[int, int]]
) -> tuple[int, Ints]:
    """The floor of what lies outside the engine, and by how much each request is above it.

    The engine reads requests between iterations. What is left of the one under way is not the front end's. Nor are long
    iterations and exports of a profiler that it met, wherever their stamps lie.
    """
    known = np.array([one.queue_ns is not None and one.prefill_ns is not None for one in every])
    if not known.any():
        return 0, np.zeros(len(every), np.int64)
    front = np.array([float((one.ttft_ns or 0) - (one.queue_ns or 0) - (one.prefill_ns or 0)) for one in every])
    front = np.where(known, np.maximum(front - holds, 0.0), 0.0)
    floor = float(np.percentile(front[known], 10))
    begin = np.array([float(one.begin_ns or 0) for one in every]) + holds + floor / 2
    order = np.argsort(rows.ts_ns, kind="stable")
    ts, end = rows.ts_ns[order].astype(np.float64), (rows.ts_ns + rows.dur_ns)[order]
    # A request that came into an iteration is read after it. What is left of that iteration is not the front end's.
    read = begin + front - floor
    near = float(np.median(rows.dur_ns))
    place = np.clip(np.searchsorted(ts, read - near / 2, "left") - 1, 0, len(ts) - 1)
    flight = np.where(end[place] > begin, np.minimum(read, end[place]) - np.maximum(begin, ts[place]), 0.0)
    long = rows.dur_ns > _LONG * near
    shut = Intervals.union_of(
        np.append(rows.ts_ns[long], np.array([one for one, _ in outside], np.int64)),
        np.append((rows.ts_ns + rows.dur_ns)[long], [one for _, one in outside]).astype(np.int64),
    )
    met = np.subtract(_covered(shut, read.astype(np.float64)), _covered(shut, begin.astype(np.float64)))
    late = np.maximum(0.0, front - floor - np.maximum(np.maximum(0.0, flight), met))
    late[late < 2 * near] = 0.0
    return int(floor), np.where(known, late, 0.0).astype(np.int64)


def _covered(windows: Intervals, at: Floats) -> Floats:
    """How much of some windows lies before each moment."""
    before = np.append(0, np.cumsum(windows.ends - windows.starts)).astype(np.float64)
    place = np.searchsorted(windows.starts, at, "right")
    last = np.maximum(place - 1, 0)
    if not len(windows.starts):
        return np.zeros(len(at))
    within = np.clip(at - windows.starts[last], 0, windows.ends[last] - windows.starts[last])
    return np.asarray(np.where(place > 0, before[last] + within, 0.0))


def _load(every: Sequence[Request], floor: int, late: Ints, counted: Flags, holds: Ints) -> Load:
    def column(name: str) -> Ints:
        return np.array([getattr(one, name) or 0 for one in every], np.int64)

    engines = {name: place for place, name in enumerate(sorted({_engine(one) for one in every}))}
    return Load(
        tuple(one.id for one in every), column("begin_ns"), column("prompt_tokens"), column("cached_tokens"),
        column("output_tokens"), floor // 2 + late + holds, np.full(len(every), floor - floor // 2, np.int64),
        np.zeros(len(every), np.int64), np.array([engines[_engine(one)] for one in every], np.int64), counted,
    )  # fmt: skip


def _engine(one: Request) -> tuple[str, int]:
    return one.engine or "", one.dp_rank or 0


def transfers(run: Run) -> dict[int, int]:
    """By request the ns that transfers of its cache take before its first token."""
    found = run.con.execute(
        "SELECT e.request, sum(e.dur_ns)::BIGINT FROM request_event e JOIN request r USING (request) "
        "WHERE e.kind = 'transfer' AND e.dur_ns > 0 "
        "AND e.ts_ns < coalesce(r.scheduled_ts_ns, r.first_token_ts_ns, r.client_first_ts_ns) GROUP BY e.request"
    ).fetchall()
    return dict(found)


def _holds(run: Run, every: Sequence[Request]) -> Ints:
    """What a transfer of its cache holds up each request before the engine can begin with it."""
    moved = run.get(transfers)
    return np.array([moved.get(one.key, 0) for one in every], np.int64)


def begun_ns(one: Request) -> int | None:
    """When the engine began with a request: as stamped, else so long before its first token as its prefill took."""
    if one.scheduled_ns is not None:
        return one.scheduled_ns
    if one.first_token_ns is None or one.prefill_ns is None:
        return None
    return one.first_token_ns - one.prefill_ns


def _waiting(every: Sequence[Request], rows: Columns) -> Ints:
    """Requests in the queue when each iteration begins."""
    known = [(begun - one.queue_ns, begun) for one in every if one.queue_ns and (begun := begun_ns(one)) is not None]
    if not known:
        return np.zeros(len(rows.ts_ns), np.int64)
    begins, ends = (np.sort(np.array(side, np.int64)) for side in zip(*known, strict=True))
    return np.asarray(np.searchsorted(begins, rows.ts_ns, "right") - np.searchsorted(ends, rows.ts_ns, "right"))


def _limited(model: Model, timed: Sequence[Iteration], rows: Columns, every: Sequence[Request], waiting: Ints) -> Model:
    """The model with the limits that the run was seen at, and what its graphs do."""
    tokens = np.array([float((one.ctx_tokens or 0) + (one.gen_requests or 0)) for one in timed])
    running = np.array([float((one.ctx_requests or 0) + (one.gen_requests or 0)) for one in timed])
    most = float(tokens.max())
    longest = max(one.prompt_tokens or 0 for one in every)
    at_budget = (tokens >= _NEAR * most) & ((waiting > 0) | (longest > most))
    budget = int(most) if at_budget.sum() >= _AT_LIMIT and longest > running.max() else UNLIMITED
    used = np.array([float(one.kv_used or 0.0) for one in timed])
    full = used >= KV_FULL * max(1e-9, float(used.max())) if used.max() >= KV_FULL else np.zeros(len(used), np.bool_)
    at_slots = (running >= running.max()) & (waiting > 0) & ~full & (tokens < _NEAR * budget)
    slots = int(running.max()) if at_slots.sum() >= _AT_LIMIT else UNLIMITED
    blocks, size = _blocks(rows, used, every) if used.max() >= KV_FULL else (UNLIMITED, 16)
    plain = rows.context == 0
    lone = np.unique(rows.decoders[rows.eager & plain]).astype(int).tolist()
    pads = plain & ~rows.drafting
    padded = {int(n): int(t) for n, t in zip(rows.decoders[pads], rows.tokens[pads], strict=True) if t > n}
    return replace(
        model, budget=budget, slots=slots, blocks=blocks, block_tokens=size, eager=frozenset(lone), padded=padded
    )


def _blocks(rows: Columns, used: Floats, every: Sequence[Request]) -> tuple[int, int]:
    """How many blocks there are and how many tokens one holds, from the use as it was logged and who was there."""
    tokens, there = _held(every, rows)
    levels = np.unique(np.round(used[used > 0], 4))
    steps = np.diff(np.append(0.0, levels))
    step = float(np.median(steps[steps > 1e-3])) if (steps > 1e-3).any() else 0.0
    partly = (used > 0.3) & (there > 0)
    if not partly.any():
        return UNLIMITED, 16
    if step > 1 / _COUNTED:
        count = round(1 / step)
        each = np.median(tokens[partly] / np.maximum(0.5, used[partly] * count - there[partly] / 2))
        return count, 1 << int(np.clip(round(float(np.log2(max(1.0, each)))), 3, 10))
    whole = float(np.median((tokens[partly] + 8 * there[partly]) / used[partly]))
    return max(1, round(whole / 16)), 16


def _held(every: Sequence[Request], rows: Columns) -> tuple[Floats, Floats]:
    """Tokens of the requests that run when each iteration begins, and how many they are."""
    tokens, there = np.zeros(len(rows.ts_ns)), np.zeros(len(rows.ts_ns))
    order = np.argsort(rows.ts_ns, kind="stable")
    ts = rows.ts_ns[order]
    for one in every:
        first, last = one.first_token_ns or one.client_first_ns, one.last_token_ns or one.client_end_ns
        if first is None or last is None or last <= first:
            continue
        begin, end = np.searchsorted(ts, [first, last])
        made = (ts[begin:end] - first) / (last - first) * (one.output_tokens or 0)
        tokens[order[begin:end]] += (one.prompt_tokens or 0) + made
        there[order[begin:end]] += 1
    return tokens, there


@dataclass(frozen=True)
class Prefills:
    """Which iterations computed how much of which prompt; places of `Served.requests` and `Served.iterations`."""

    request: Ints
    iteration: Ints


def prefills(run: Run) -> Prefills:
    """From the members of iterations; of those that are not known, from when a request's own prefill was."""
    found = run.get(served)
    assert found is not None
    place = {one.key: at for at, one in enumerate(found.requests)}
    row = {one.key: at for at, one in enumerate(found.iterations)}
    said = members(run.con)
    pairs = [
        (place[request], row[iteration])
        for iteration, request, phase in zip(
            said.iteration.tolist(), said.request.tolist(), said.phase.tolist(), strict=True
        )
        if phase == 0 and request in place and iteration in row
    ]
    if not pairs:
        return Prefills(np.zeros(0, np.int64), np.zeros(0, np.int64))
    requests_, iterations_ = zip(*pairs, strict=True)
    return Prefills(np.array(requests_, np.int64), np.array(iterations_, np.int64))


def enough(run: Run) -> Served:
    """The same for a detector: without it, it cannot say."""
    found = run.get(served)
    if found is None:
        raise NotMeasured(
            "fewer than two finished requests, or fewer than eight iterations with a time",
            "已完成的请求不足两个，或带时间的迭代不足八次",
            "--otlp-traces-endpoint URL, --enable-logging-iteration-details",
        )
    return found


def windows(run: Run, found: Served, rows: Ints, weight: Floats) -> tuple[Evidence, ...]:
    """Iterations as evidence, the heaviest first."""
    heavy = rows[np.argsort(-weight, kind="stable")][:_SHOWN].tolist()
    return tuple(Evidence(run.ranks[0], int(found.rows.ts_ns[row]), int(found.rows.dur_ns[row])) for row in heavy)


def spans(run: Run, found: Served, places: Ints, weight: Floats) -> tuple[Evidence, ...]:
    """Requests as evidence, from sending to the first token, the heaviest first; their ids beside them."""
    heavy = places[np.argsort(-weight, kind="stable")][:_SHOWN].tolist()
    return tuple(
        Evidence(run.ranks[0], int(found.load.sent_ns[at]), int(found.ttft_ns[at]), note=found.load.ids[at])
        for at in heavy
    )
