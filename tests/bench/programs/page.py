"""One measurement of a page, asked of a stored run in a fresh process: the first call and the ones after it.

    python -m tests.bench.programs.page STORE RUN NAME TIMES [plain]

Without NAME, prints the names of all of them; `plain`: nothing that is kept of the run is used. CPU seconds are those
of all threads; importing, opening the run and choosing what is asked for are not in them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

from npulens.analysis import split, views
from npulens.analysis.look import (
    bench,
    communication,
    compare,
    compat,
    copies,
    counters,
    efficiency,
    kernel_detail,
    kernel_inside,
    kernels,
    laboratory,
    launch,
    memory,
    path,
    rank_sums,
    ranks,
    sql_answers,
)
from npulens.analysis.look.kernels import Filter
from npulens.analysis.modules.measure import of_run as modules
from npulens.analysis.run import Run
from npulens.app import run_open
from npulens.ingest.store import runs as stores

Con = duckdb.DuckDBPyConnection
#: What a page asks first, chosen of the run itself: a rank, the group of kernels with most time, a counter.
EVERY = Filter()


def _rank(con: Con) -> int:
    """The rank with most spans, the first of several."""
    (found,) = con.execute("SELECT rank FROM span GROUP BY rank ORDER BY count(*) DESC, rank LIMIT 1").fetchall()[0]
    return int(found)


def _key(con: Con) -> int:
    return int(kernels.table(con, "type", EVERY).groups["key"].iloc[0])


def _curve(con: Con) -> tuple[int, tuple[tuple[str, str], ...], int, int]:
    rows = counters.series(con)
    mine = rows[rows["rank"] == rows["rank"].iloc[0]]
    names = tuple(zip(mine["counter"].head(6), mine["series"].head(6), strict=True))
    return int(mine["rank"].iloc[0]), names, int(mine["first_ns"].min()), int(mine["last_ns"].max())


def _pool(con: Con) -> tuple[int, str]:
    found = memory.pools(con)[0]
    return found.rank, found.name


def _copy(con: Con) -> int:
    return int(con.execute("SELECT min(span_id) FROM span WHERE kind = 'memcpy'").fetchall()[0][0])


def _of_pool(measure: Callable[[Con, int, str], object]) -> Callable[[Con], Callable[[Con], object]]:
    def chosen(con: Con) -> Callable[[Con], object]:
        rank, pool = _pool(con)
        return lambda asked: measure(asked, rank, pool)

    return chosen


def _of_rank(measure: Callable[[Con, int], object]) -> Callable[[Con], Callable[[Con], object]]:
    def chosen(con: Con) -> Callable[[Con], object]:
        rank = _rank(con)
        return lambda asked: measure(asked, rank)

    return chosen


def _of_group(measure: Callable[[Con, str, int, Filter], object]) -> Callable[[Con], Callable[[Con], object]]:
    def chosen(con: Con) -> Callable[[Con], object]:
        key = _key(con)
        return lambda asked: measure(asked, "type", key, EVERY)

    return chosen


def _of_run(measure: Callable[[Run], object]) -> Callable[[Con], Callable[[Con], object]]:
    return lambda con: lambda asked: measure(Run(asked))


def _plain(measure: Callable[[Con], object]) -> Callable[[Con], Callable[[Con], object]]:
    return lambda con: measure


def _points(con: Con) -> Callable[[Con], object]:
    rank, names, begin, end = _curve(con)
    return lambda asked: counters.points(asked, rank, names, begin, end)


def _busy(con: Con) -> Callable[[Con], object]:
    rank, _, begin, end = _curve(con)
    return lambda asked: counters.busy(asked, rank, begin, end)


def _origin(con: Con) -> Callable[[Con], object]:
    span = _copy(con)
    return lambda asked: copies.origin_of(asked, span)


def _moment(con: Con) -> Callable[[Con], object]:
    span = _copy(con)
    return lambda asked: sql_answers.moment(asked, span)


def _holders(con: Con) -> Callable[[Con], object]:
    rank, pool = _pool(con)
    peak = memory.peak(con, rank, pool)
    return lambda asked: memory.holders(asked, rank, peak.ts_ns if peak else 0)


def _instances(con: Con, level: str, key: int, what: Filter) -> object:
    return kernels.instances(con, level, key, what, "longest", 0, 50)


#: Every measurement that a page asks for, and with what it does at first.
ASKED: dict[str, Callable[[Con], Callable[[Con], object]]] = {
    "bench.bench": _plain(bench.bench),
    "communication.groups": _plain(communication.groups), "communication.kinds": _plain(communication.kinds),
    "communication.links summary": _plain(lambda con: communication.links(con, "summary")),
    "communication.links tasks": _plain(lambda con: communication.links(con, "tasks")),
    "communication.longest": _plain(lambda con: communication.longest(con, None, 200)),
    "communication.peer_waits": _plain(communication.peer_waits), "communication.peers": _plain(communication.peers),
    "communication.planes": _plain(communication.planes), "communication.summary": _plain(communication.summary),
    "compare.about": _plain(compare.about), "compat.called": _plain(compat.called),
    "copies.cloud": _plain(copies.cloud), "copies.copies": _plain(copies.copies),
    "copies.groups": _plain(copies.groups), "copies.origin_of": _origin, "copies.totals": _plain(copies.totals),
    "counters.busy": _busy, "counters.clocks": _plain(counters.clocks), "counters.points": _points,
    "counters.series": _plain(counters.series),
    "efficiency.efficiency": _of_run(efficiency.efficiency),
    "kernels.members": _plain(lambda con: kernels.members(con, "type", EVERY)),
    "efficiency.modules": _of_run(modules), "efficiency.rates": _plain(efficiency.rates),
    "efficiency.whole": _of_run(efficiency.whole),
    "kernel_detail.blocks": _of_group(kernel_detail.blocks), "kernel_detail.pipes": _of_group(kernel_detail.pipes),
    "kernel_detail.source": _of_group(kernel_detail.source),
    "kernel_inside.inside": _plain(kernel_inside.inside), "kernel_inside.there": _plain(kernel_inside.there),
    "kernels.choices": _plain(kernels.choices), "kernels.durations": _of_group(kernels.durations),
    "kernels.instances": _of_group(_instances),
    "kernels.sequences": _plain(lambda con: kernels.sequences(con, (), "", "gap")),
    "kernels.slow": _plain(kernels.slow),
    "kernels.table name": _plain(lambda con: kernels.table(con, "name", EVERY)),
    "kernels.table shape": _plain(lambda con: kernels.table(con, "shape", EVERY)),
    "kernels.table type": _plain(lambda con: kernels.table(con, "type", EVERY)),
    "laboratory.laboratory": _plain(laboratory.laboratory),
    "launch.headline": _plain(launch.headline), "launch.late": _plain(launch.late),
    "launch.latency": _plain(launch.latency), "launch.launches": _plain(launch.launches),
    "launch.lead": _of_rank(launch.lead), "launch.queue": _of_rank(launch.queue),
    "launch.short": _plain(launch.short), "launch.syncs": _plain(launch.syncs),
    "memory.curve": _of_pool(memory.curve), "memory.growth": _of_pool(memory.growth), "memory.holders": _holders,
    "memory.largest": _of_rank(lambda con, rank: memory.largest(con, rank, 50)),
    "memory.marks": _of_rank(memory.marks), "memory.peak": _of_pool(memory.peak), "memory.pools": _plain(memory.pools),
    "path.path": _plain(path.path), "rank_sums.only": _plain(rank_sums.only),
    "ranks.across": _plain(ranks.across), "ranks.compared": _plain(ranks.compared),
    "ranks.pipeline": _plain(lambda con: ranks.pipeline(con, None, 400)),
    "split.breakdown": _plain(split.breakdown), "sql_answers.column_types": _plain(sql_answers.column_types),
    "sql_answers.moment": _moment,
}  # fmt: skip


def _opened(store: Path, run_id: str) -> Con:
    if sys.argv[5:] != ["plain"]:
        return run_open.opened(store, run_id)
    con = stores.open_run(store, run_id)
    views.install(con)
    return con


def main() -> None:
    store, name = Path(sys.argv[1]), sys.argv[2]
    run_id = stores.resolve(store, name).run_id
    wanted = sys.argv[3] if len(sys.argv) > 3 else ""
    if not wanted:
        print(json.dumps(list(ASKED)))
        return
    aside = _opened(store, run_id)
    try:
        measure = ASKED[wanted](aside)
    except (IndexError, TypeError, KeyError) as error:  # the run has nothing of it
        print(json.dumps({"absent": f"{type(error).__name__}: {error}"}))
        return
    finally:
        aside.close()
    con = _opened(store, run_id)
    calls = []
    for _ in range(int(sys.argv[4])):
        cursor = con.cursor()
        used, begin = time.process_time(), time.perf_counter()
        measure(cursor)
        calls.append((time.process_time() - used, time.perf_counter() - begin))
        cursor.close()
    print(json.dumps({"calls": calls}))


if __name__ == "__main__":
    main()
