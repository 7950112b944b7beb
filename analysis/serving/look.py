"""Requests of a serving run: percentiles taken apart, and one request with its pieces, iterations and queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import pandas as pd

from npulens.analysis.intervals import Intervals
from npulens.analysis.serving.exported import exports
from npulens.analysis.serving.parts import KINDS, Parts, Taken, goodput, parts, pieces_of, taken
from npulens.analysis.serving.recorded import Request
from npulens.analysis.serving.served import begun_ns
from npulens.analysis.serving.slo import USUAL, Slo

#: What is taken apart: (measure, percent).
PERCENTILES = tuple((measure, percent) for measure in ("ttft", "tpot") for percent in (50, 90, 99))
#: Requests that are drawn beside the chosen one, and iterations and samples that a window holds.
BESIDE, _MOST = 12, 4000
#: Kernels that are drawn.
_DRAWN = 1500
#: Fewer iterations than this tell of no usual length.
_FEW = 5


@dataclass(frozen=True)
class Requests:
    """All requests that ended."""

    count: int
    left_out: int  # open while a profiler wrote its trace
    export_ns: int
    good: int
    counted: int
    lost: Mapping[str, int]  # requests outside of the objectives, by the kind of part that grew most
    slo: Slo
    percentiles: tuple[Taken, ...]
    rows: pd.DataFrame  # key, id, ttft_ns, tpot_ns, whole_ns, prompt, output, excluded, most (its longest kind of part)


@dataclass(frozen=True)
class Around:
    """A request and what went on meanwhile."""

    begin_ns: int
    end_ns: int
    rank: int | None  # of the iterations, where a trace holds them
    pieces: pd.DataFrame  # request, id, kind, ts_ns, dur_ns, iteration
    iterations: pd.DataFrame  # key, ts_ns, dur_ns, kind, ctx_tokens, gen_requests, rank
    queue: pd.DataFrame  # ts_ns, waiting, running, kv_used
    kernels: pd.DataFrame  # name, kind, ts_ns, dur_ns; the longest of them


@dataclass(frozen=True)
class Inside:
    """An iteration, or a stretch that none holds, down to the kernels."""

    begin_ns: int
    dur_ns: int
    kind: str | None  # class of the iteration; None: between iterations
    ctx_tokens: int
    gen_requests: int
    busy_ns: int  # that some kernel ran
    kernels: pd.DataFrame  # name, count, dur_ns (added up), longest_ns, span_id (of the longest), ts_ns
    alike: int = 0  # other iterations of its class with as many tokens
    alike_ns: int = 0  # their median; 0: there are too few


def look(con: duckdb.DuckDBPyConnection, slo: Slo = USUAL) -> Requests | None:
    """None: the run holds no requests."""
    found = parts(con)
    if not found.requests:
        return None
    kept = goodput(found, slo.ttft_ns, slo.tpot_ns)
    told = tuple(one for one in (taken(found, *each) for each in PERCENTILES) if one is not None)
    stopped = sum(end - begin for begin, end in exports(con))
    return Requests(
        len(found.requests), int(found.excluded.sum()), stopped, kept.good, kept.of, kept.lost, slo, told, _rows(found)
    )


def _rows(found: Parts) -> pd.DataFrame:
    whole = found.ttft + found.after
    return pd.DataFrame({
        "key": [one.key for one in found.requests], "id": [one.id for one in found.requests],
        "ttft_ns": found.ttft_ns, "tpot_ns": found.tpot_ns, "whole_ns": whole.sum(axis=1),
        "prompt": pd.array([one.prompt_tokens for one in found.requests], "Int64"),
        "output": pd.array([one.output_tokens for one in found.requests], "Int64"), "excluded": found.excluded,
        "most": [KINDS[at] for at in whole.argmax(axis=1).tolist()],
    })  # fmt: skip


def near(rows: pd.DataFrame, measure: str, percent: int) -> pd.DataFrame:
    """Requests at a percentile and slower, the slowest first for P99; for lower ones those around it."""
    counted = rows[~rows["excluded"]].dropna(subset=[f"{measure}_ns"]).sort_values(f"{measure}_ns", ascending=False)
    if not len(counted):
        return counted
    value = float(np.percentile(counted[f"{measure}_ns"], percent))
    order = np.argsort(np.abs(counted[f"{measure}_ns"].to_numpy(np.float64) - value), kind="stable")
    return counted.iloc[np.sort(order[: BESIDE * 4])]


def around(con: duckdb.DuckDBPyConnection, key: int) -> Around | None:
    """A request, those that were open beside it, and the engine's iterations meanwhile."""
    every = parts(con).requests
    at = next((one for one in every if one.key == key), None)
    if at is None or at.begin_ns is None or at.done_ns is None:
        return None
    begin, end = at.begin_ns, at.done_ns
    others = [
        one for one in every
        if one.key != key and one.begin_ns is not None and one.done_ns is not None and one.begin_ns < end
        and one.done_ns > begin
    ]  # fmt: skip
    others.sort(key=lambda one: abs((one.begin_ns or 0) - begin))
    drawn = [at, *sorted(others[: BESIDE - 1], key=lambda one: one.begin_ns or 0)]
    of = pieces_of(con, [one.key for one in drawn])
    rows = [
        (one.key, one.id, piece.kind, piece.ts_ns, piece.dur_ns, piece.iteration)
        for one in drawn for piece in of[one.key]
    ]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["request", "id", "kind", "ts_ns", "dur_ns", "iteration"])
    frame["iteration"] = frame["iteration"].astype("Int64")
    margin = (end - begin) // 10
    steps = _iterations(con, begin - margin, end + margin)
    ranks = steps["rank"].dropna().tolist()
    rank = int(ranks[0]) if ranks else None
    return Around(begin, end, rank, frame, steps, _queue(every, steps), _kernels(con, begin, end, rank))


def at(con: duckdb.DuckDBPyConnection, ts_ns: int, dur_ns: int, name: str) -> Around | None:
    """The request that a moment is of by its name, or of those open then the one that it takes most of."""
    every = [one for one in parts(con).requests if one.begin_ns is not None and one.done_ns is not None]
    lives = [(one.begin_ns or 0, one.done_ns or 0, one) for one in every]
    held = [life for life in lives if life[0] < ts_ns + max(dur_ns, 1) and life[1] > ts_ns]
    if not held:
        return None
    within = [life for life in held if life[2].id == name] or held
    most = max(within, key=lambda life: (min(life[1], ts_ns + dur_ns) - max(life[0], ts_ns), life[0] - life[1]))
    return around(con, most[2].key)


_WORK = "kind IN ('kernel', 'memset', 'memcpy', 'comm_op', 'comm_task', 'unknown') AND rank = $rank AND dur_ns > 0"


def _kernels(con: duckdb.DuckDBPyConnection, begin: int, end: int, rank: int | None) -> pd.DataFrame:
    return con.execute(
        f"SELECT name, kind, ts_ns, dur_ns FROM span WHERE {_WORK} AND ts_ns < $until AND ts_ns + dur_ns > $since "
        "ORDER BY dur_ns DESC, span_id LIMIT $most",
        {"rank": -1 if rank is None else rank, "since": begin, "until": end, "most": _DRAWN},
    ).fetchdf()


def inside(con: duckdb.DuckDBPyConnection, ts_ns: int, dur_ns: int, iteration: int | None, rank: int) -> Inside:
    """What ran in the iteration of a part, or in the part where none holds it. A rank of -1: none was profiled."""
    kind, tokens, decoders = None, 0, 0
    if iteration is not None:
        ts_ns, dur_ns, kind, tokens, decoders = con.execute(
            "SELECT ts_ns, dur_ns, coalesce(class, 'decode'), coalesce(ctx_tokens, 0), coalesce(gen_requests, 0) "
            "FROM iteration WHERE iteration = $key", {"key": iteration},
        ).fetchall()[0]  # fmt: skip
    within = {"rank": rank, "since": ts_ns, "until": ts_ns + (dur_ns or 0)}
    cut = "greatest(ts_ns, $since) AS b, least(ts_ns + dur_ns, $until) AS e"
    kernels = con.execute(
        f"SELECT name, count(*) AS count, sum(e - b)::BIGINT AS dur_ns, max(e - b) AS longest_ns, "
        f"arg_max(span_id, (e - b, -span_id)) AS span_id, arg_max(ts_ns, (e - b, -span_id)) AS ts_ns FROM (SELECT *, "
        f"{cut} FROM span WHERE {_WORK} AND ts_ns < $until AND ts_ns + dur_ns > $since) GROUP BY name "
        "ORDER BY dur_ns DESC, name LIMIT 50", within,
    ).fetchdf()  # fmt: skip
    edges = con.execute(
        f"SELECT {cut} FROM span WHERE {_WORK} AND ts_ns < $until AND ts_ns + dur_ns > $since", within
    ).fetchnumpy()
    busy = Intervals.union_of(np.asarray(edges["b"], np.int64), np.asarray(edges["e"], np.int64)).total()
    alike, alike_ns = (0, 0) if iteration is None else _alike(con, iteration)
    return Inside(ts_ns, dur_ns or 0, kind, tokens, decoders, busy, kernels, alike, alike_ns)


def _alike(con: duckdb.DuckDBPyConnection, iteration: int) -> tuple[int, int]:
    """How many other iterations of the class have as many prompt tokens, or decoders where it has none; their median.

    As many: within a tenth. Of fewer than some nothing is said.
    """
    ((many, median),) = con.execute(
        "SELECT count(*), median(other.dur_ns) FROM iteration AS it JOIN iteration AS other ON "
        "coalesce(other.class, 'decode') = coalesce(it.class, 'decode') AND other.iteration <> it.iteration "
        "AND abs(coalesce(nullif(other.ctx_tokens, 0), other.gen_requests) - coalesce(nullif(it.ctx_tokens, 0), "
        "it.gen_requests)) <= 0.1 * coalesce(nullif(it.ctx_tokens, 0), it.gen_requests) "
        "WHERE it.iteration = $key AND other.dur_ns > 0", {"key": iteration},
    ).fetchall()  # fmt: skip
    return (many, round(median)) if many >= _FEW else (0, 0)


def _iterations(con: duckdb.DuckDBPyConnection, begin: int, end: int) -> pd.DataFrame:
    rows = con.execute(
        "SELECT iteration, ts_ns, dur_ns, coalesce(class, 'decode'), coalesce(ctx_tokens, 0), "
        "coalesce(gen_requests, 0), coalesce(ctx_requests, 0), rank, kv_used FROM iteration "
        "WHERE dur_ns > 0 AND ts_ns < $until AND ts_ns + dur_ns > $since ORDER BY engine, dp_rank, ts_ns, iteration",
        {"since": begin, "until": end},
    ).fetchall()
    frame = pd.DataFrame(rows, columns=[
        "key", "ts_ns", "dur_ns", "kind", "ctx_tokens", "gen_requests", "ctx_requests", "rank", "kv_used",
    ])  # fmt: skip
    if len(frame) > _MOST:  # the longest are seen at any width
        frame = frame.nlargest(_MOST, "dur_ns").sort_values("ts_ns")
    return frame.reset_index(drop=True)


def _queue(every: Sequence[Request], steps: pd.DataFrame) -> pd.DataFrame:
    """Who waits and who runs when each iteration begins."""
    waits = [(begun - one.queue_ns, begun) for one in every if one.queue_ns and (begun := begun_ns(one)) is not None]
    begins, ends = (np.sort(np.array([wait[side] for wait in waits], np.int64)) for side in (0, 1))
    ts = steps["ts_ns"].to_numpy(np.int64)
    waiting = np.searchsorted(begins, ts, "right") - np.searchsorted(ends, ts, "right")
    return pd.DataFrame({
        "ts_ns": ts, "waiting": waiting, "running": (steps["ctx_requests"] + steps["gen_requests"]).to_numpy(np.int64),
        "kv_used": steps["kv_used"].astype("Float64"),
    })  # fmt: skip
