"""What pages ask of every task of a large run, computed in one pass and kept beside the run (ingest/store/kept.py).

`launched` is the launch of each device task with all that is asked of it. The view `launch` says which host call
launched a task, and `host_lead` how far ahead the host was. Asking both again for each number costs seconds, so what
is kept stands in for them (`instead`), row for row. `kernel_task` is every kernel with what it is grouped by. The
others are small answers to long questions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np

from npulens.analysis.device.kernels import LAUNCHED_BY, kernels, usual
from npulens.analysis.device.tail import usual_tail
from npulens.analysis.idle.host_names import special
from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.run import Run
from npulens.analysis.serving.parts import KEPT as REQUESTS
from npulens.analysis.serving.parts import sums
from npulens.analysis.views import there, views

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

#: What measurements ask for, by how their full name begins.
ASKED_BY = {
    "npulens.analysis.look.launch.": ("launched", "launch_pace", "sync_call"),
    "npulens.analysis.look.kernels.sequences": ("kernel_sequence",),
    "npulens.analysis.look.kernels.slow": ("slow_kernel",),
    "npulens.analysis.look.kernels.": ("kernel_task",),
    "npulens.analysis.look.kernel_detail.source": ("kernel_task", "kernel_source"),
    "npulens.analysis.look.kernel_detail.": ("kernel_task",),
    "npulens.analysis.look.efficiency.rates": ("kernel_operator", "operator_need"),
    "npulens.analysis.look.efficiency.efficiency": ("operator_row", "operator_sum"),
    "npulens.analysis.look.efficiency.whole": ("step_fall",),
    "npulens.analysis.modules.measure.of_run": ("module_sum",),
    "npulens.analysis.serving.look.": (REQUESTS,),
    "npulens.analysis.look.communication.kinds": ("comm_kind",),
    "npulens.analysis.look.communication.peers": ("late_peer",),
    "npulens.analysis.look.ranks.compared": ("late_peer", "rank_stand"),
    "npulens.analysis.look.ranks.pipeline": ("rank_stand", "comm_state"),
    "npulens.analysis.look.path.": ("critical_path",),
    "npulens.analysis.look.communication.": ("collective", "collective_plane", "peer_wait"),
}
#: What makes two kernels alike, level by level.
LEVELS = {
    "type": ("op", "core"),
    "shape": ("op", "core", "input_shapes", "input_dtypes", "output_shapes", "output_dtypes"),
    "name": ("name", "core"),
}

LAUNCHED = """
    WITH task AS MATERIALIZED (SELECT * FROM launch), before AS (
        SELECT span_id, max(end_ns) OVER (
            PARTITION BY track ORDER BY ts_ns, span_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS end_ns
        FROM (
            SELECT span_id, track, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE kind IN (
                'kernel', 'memset', 'memcpy', 'comm_op', 'comm_task', 'unknown', 'wait', 'device_other'
            )
        )
    ), free AS MATERIALIZED (
        SELECT task.*, CASE WHEN launch_id IS NOT NULL AND end_ns IS NOT NULL THEN least(ts_ns, end_ns) END AS free_ns
        FROM task JOIN before USING (span_id)
    ), way AS (
        SELECT link.dst_span_id AS span_id, min(link.route) AS route
        FROM link JOIN free ON free.span_id = link.dst_span_id AND free.launch_id = link.src_span_id
        GROUP BY link.dst_span_id
    ), call AS (
        SELECT span_id, name, dur_ns FROM span SEMI JOIN free ON free.launch_id = span.span_id
    ), arrow AS (
        SELECT dst_span_id, src_span_id FROM link SEMI JOIN (SELECT span_id FROM free WHERE free_ns < launch_ns) late
            ON late.span_id = link.dst_span_id
        WHERE route NOT IN ('fwdbwd', 'task_queue')
    ), framework AS (
        SELECT arrow.dst_span_id AS span_id, arg_max(op.name, (op.ts_ns, op.span_id)) AS operator
        FROM arrow
        JOIN (SELECT span_id, CASE WHEN kind = 'cpu_op' THEN span_id ELSE parent_id END AS op_id FROM span) around
            ON around.span_id = arrow.src_span_id
        JOIN (SELECT span_id, name, ts_ns FROM span WHERE kind = 'cpu_op') op ON op.span_id = around.op_id
        GROUP BY arrow.dst_span_id
    ), typed AS (SELECT span_id, op_type FROM kernel WHERE op_type IS NOT NULL)
    SELECT
        free.span_id, free.rank, free.step, free.track, free.kind, free.name, coalesce(typed.op_type, free.name) AS op,
        free.ts_ns, free.dur_ns, free.launch_id, free.launch_kind, free.launch_ns, free.latency_ns, free.negative,
        call.name AS call, call.dur_ns AS call_ns, way.route, free.free_ns,
        free.free_ns - free.launch_ns AS lead_ns,
        CASE WHEN free.free_ns < free.launch_ns THEN coalesce(framework.operator, call.name) END AS operator
    FROM free LEFT JOIN call ON call.span_id = free.launch_id LEFT JOIN way ON way.span_id = free.span_id
    LEFT JOIN framework ON framework.span_id = free.span_id LEFT JOIN typed ON typed.span_id = free.span_id
    ORDER BY free.rank, free.ts_ns, free.span_id
"""

#: The median time from one launch to the next, of the rank where it is shortest: what analysis/idle/launch_costs.py
#: calls ordinary. No row: no rank shows enough launches. `vague` is how near a link leads to the device.
PACE = """
    WITH work AS (
        SELECT span_id, rank FROM span
        WHERE kind IN ('kernel', 'memset', 'comm_op', 'memcpy', 'unknown') AND dur_ns > 0
    ), host AS (
        SELECT span_id, track, ts_ns, CASE kind WHEN 'runtime' THEN 0 WHEN 'dequeue' THEN 1 WHEN 'enqueue' THEN 1
            WHEN 'cpu_op' THEN 2 ELSE 3 END AS vague FROM span
    ), nearest AS (
        SELECT work.rank, link.dst_span_id, min((host.vague, -host.ts_ns, host.span_id, host.track)) AS source
        FROM link JOIN work ON work.span_id = link.dst_span_id JOIN host ON host.span_id = link.src_span_id
        WHERE link.route NOT IN ('fwdbwd', 'task_queue') GROUP BY work.rank, link.dst_span_id
    ), thread AS (
        SELECT track, coalesce(tid, 'track ' || track) AS name FROM track WHERE kind = 'host_thread'
    ), launch_at AS (
        SELECT nearest.rank, nearest.dst_span_id, -source[2] AS ts_ns, coalesce(thread.name, chr(0)) AS thread
        FROM nearest LEFT JOIN thread ON thread.track = source[4]
    ), queue AS (
        SELECT d.rank, d.track, coalesce(thread.name, chr(0)) AS thread, d.ts_ns, d.ts_ns + d.dur_ns AS end_ns,
            e.ts_ns AS enqueued_ns
        FROM link JOIN (SELECT * FROM span WHERE kind = 'dequeue') d ON d.span_id = link.dst_span_id
        JOIN span e ON e.span_id = link.src_span_id LEFT JOIN thread ON thread.track = d.track
        WHERE link.route = 'task_queue'
    ), served AS (
        SELECT l.rank, l.dst_span_id, l.ts_ns, q.track
        FROM launch_at l LEFT JOIN (SELECT DISTINCT rank, track, thread FROM queue) q USING (rank, thread)
    ), queued AS (
        SELECT s.rank, s.dst_span_id, s.ts_ns,
            arg_max(q.enqueued_ns, q.track) FILTER (s.ts_ns <= q.end_ns) AS enqueued_ns
        FROM served s ASOF LEFT JOIN queue q ON q.rank = s.rank AND q.track = s.track AND q.ts_ns <= s.ts_ns
        GROUP BY s.rank, s.dst_span_id, s.ts_ns
    ), issued AS (
        SELECT DISTINCT rank, least(ts_ns, coalesce(enqueued_ns, ts_ns)) AS ts_ns FROM queued
    ), between AS (
        SELECT rank, ts_ns - lag(ts_ns) OVER (PARTITION BY rank ORDER BY ts_ns) AS ns FROM issued
    ), of_rank AS (
        SELECT rank, quantile_cont(ns, 0.5) AS ns FROM between GROUP BY rank HAVING count(ns) >= 5
    )
    SELECT floor(min(ns))::BIGINT AS ordinary_ns FROM of_rank HAVING count(*) > 0
"""

#: Every kernel and memset with what it is grouped by, and the key of its group at every level; NULL is not recorded.
KERNELS = f"""
    WITH launched AS (
        SELECT l.span_id, host.name AS host_op, h.input_shapes AS shapes, h.input_dtypes AS dtypes
        FROM ({LAUNCHED_BY}) l JOIN span host ON host.span_id = l.host_id
        LEFT JOIN host_op h ON h.span_id = l.host_id
    ), task AS (
        SELECT
            s.span_id, s.rank, s.track, s.step, s.ts_ns, s.ts_ns + s.dur_ns AS end_ns, s.dur_ns, s.name,
            coalesce(k.op_type, s.name) AS op, k.core, coalesce(k.input_shapes, launched.shapes) AS input_shapes,
            coalesce(k.input_dtypes, launched.dtypes) AS input_dtypes, k.output_shapes, k.output_dtypes,
            k.block_num, k.grid, CASE WHEN k.op_type IS NULL THEN launched.host_op END AS host_op
        FROM span s LEFT JOIN kernel k USING (span_id) LEFT JOIN launched USING (span_id)
        WHERE s.kind IN ('kernel', 'memset')
    )
    SELECT *, {", ".join(f"hash({', '.join(columns)}) AS key_{level}" for level, columns in LEVELS.items())}
    FROM task ORDER BY rank, track, ts_ns, span_id
"""

#: Every kernel and memset that was launched by something known: the host operator, and the call below it.
SOURCES = """
    WITH task AS (SELECT span_id, rank, ts_ns, dur_ns FROM span WHERE kind IN ('kernel', 'memset')), source AS (
        SELECT
            link.dst_span_id AS span_id, call.span_id AS call_id, call.kind, call.name AS call,
            CASE WHEN call.kind = 'cpu_op' THEN call.span_id WHEN above.kind = 'cpu_op' THEN above.span_id END AS op_id
        FROM link SEMI JOIN task ON task.span_id = link.dst_span_id
        JOIN span call ON call.span_id = link.src_span_id
        LEFT JOIN (SELECT span_id, kind FROM span) above ON above.span_id = call.parent_id
        WHERE link.route NOT IN ('fwdbwd', 'task_queue')
    ), root AS (
        SELECT span_id, max(op_id) AS op_id, min(call) FILTER (kind <> 'cpu_op') AS call, min(call_id) AS call_id
        FROM source GROUP BY span_id
    )
    SELECT root.*, task.rank, task.ts_ns, task.dur_ns, op.name AS op, op.dur_ns AS host_ns
    FROM root JOIN task USING (span_id) LEFT JOIN (SELECT span_id, name, dur_ns FROM span WHERE kind = 'cpu_op') op
        ON op.span_id = root.op_id
    ORDER BY root.span_id
"""

#: Kernels that the table of slow ones holds.
MOST_SLOW = 2000


def slow_kernels(run: Run) -> pd.DataFrame:
    """Kernels that are outliers among their likes by the usual bounds, the worst first, each with its groups' keys."""
    import pandas as pd  # half a second that no question of what is kept already has to spend

    con = run.con
    every, excess, normal = run.get(kernels), run.get(usual_tail), run.get(usual)
    rows = np.flatnonzero(excess)
    rows = rows[np.argsort(-excess[rows], kind="stable")][:MOST_SLOW]
    found = pd.DataFrame({
        "span_id": every.span_id[rows], "rank": every.rank[rows], "ts_ns": every.ts[rows], "dur_ns": every.dur[rows],
        "usual_ns": np.nan_to_num(normal.median[rows]).round().astype(np.int64), "excess_ns": excess[rows],
    })  # fmt: skip
    ready(con, ("kernel_task",))
    keys = ", ".join(f"key_{level}" for level in LEVELS)
    told = con.execute(
        f"SELECT span_id, step, {keys} FROM kernel_task SEMI JOIN (SELECT unnest($ids::BIGINT[]) AS span_id) chosen "
        "USING (span_id)", {"ids": [int(one) for one in found["span_id"]]},
    ).fetchdf()  # fmt: skip
    return found.merge(told, on="span_id", how="left")


#: Rows of a table of calls.
MOST_CALLS = 200


def sync_calls(run: Run) -> pd.DataFrame:
    """Synchronising calls of the host, by name and rank, and for how long they blocked."""
    import pandas as pd

    rows, con, every = [], run.con, run.get(special)
    ids = np.concatenate([found.ids[found.of("sync_stall")] for found in every.values()] or [np.zeros(0, np.int64)])
    names = dict(con.execute(
        "SELECT span_id, name FROM span SEMI JOIN (SELECT unnest($ids::BIGINT[]) AS span_id) USING (span_id)",
        {"ids": ids.tolist()},
    ).fetchall())  # fmt: skip
    for rank, found in every.items():
        mine = found.of("sync_stall")
        called = np.array([names.get(int(one), "") for one in found.ids[mine]], dtype=object)
        for name in sorted(set(called.tolist())):
            at = np.flatnonzero(mine)[called == name]
            union = Intervals.union_of(found.starts[at], found.ends[at])
            longest = int(at[np.argmax(found.ends[at] - found.starts[at])])
            did = run.activity(rank)
            work = did.work() if did.computing is not None else EMPTY
            rows.append((
                name, rank, len(at), union.total(), (union & work).total(), int(found.ids[longest]),
                int(found.starts[longest]), int(found.ends[longest] - found.starts[longest]),
            ))  # fmt: skip
    columns = {
        "name": object, "rank": np.int64, "count": np.int64, "blocked_ns": np.int64, "working_ns": np.int64,
        "span_id": np.int64, "ts_ns": np.int64, "dur_ns": np.int64,
    }  # fmt: skip
    ordered = sorted(rows, key=lambda row: (-row[3], row[0], row[1]))
    return pd.DataFrame(ordered[:MOST_CALLS], columns=list(columns)).astype(columns)


def _of_ranks(name: str) -> Callable[[Run], pa.Table]:
    """An answer of analysis/ranks/answers.py, which is loaded when one is computed: most commands read what is kept."""

    def answer(run: Run) -> pa.Table:
        from npulens.analysis.ranks import answers as ranks

        every = {
            "comm_kind": ranks.kinds, "late_peer": ranks.late, "rank_stand": ranks.stands, "comm_state": ranks.states
        }  # fmt: skip
        return every[name](run)

    return answer


def _path(run: Run) -> pa.Table:
    """The critical path, loaded when it is computed for the same reason."""
    from npulens.analysis.look import path

    return path.answer(run)


ROOFS = "step_fall", "kernel_operator", "operator_need", "operator_row", "operator_sum"


def _modules(run: Run) -> pa.Table:
    """The modules of the run, likewise."""
    from npulens.analysis.modules import measure

    return measure.answer(run)


def _of_roofs(name: str) -> Callable[[Run], pa.Table]:
    """An answer about roofs, likewise."""

    def answer(run: Run) -> pa.Table:
        from npulens.analysis.look import efficiency

        every = {
            "step_fall": efficiency.answer, "kernel_operator": efficiency.operators_of_kernels,
            "operator_need": efficiency.needs, "operator_row": efficiency.operator_rows,
            "operator_sum": efficiency.operator_sums,
        }  # fmt: skip
        return every[name](run)

    return answer


#: What a run keeps: the name that pages ask, and what answers. Some are views that are much smaller than what they are
#: made of.
KEPT: dict[str, str | Callable[[Run], pd.DataFrame | pa.Table]] = {
    "launched": LAUNCHED, "launch_pace": PACE, "kernel_task": KERNELS, "kernel_source": SOURCES,
    "slow_kernel": slow_kernels, "sync_call": sync_calls, REQUESTS: lambda run: sums(run.con), "critical_path": _path,
    **{name: _of_ranks(name) for name in ("comm_kind", "late_peer", "rank_stand", "comm_state")},
    **{name: _of_roofs(name) for name in ROOFS}, "module_sum": _modules,
    **{name: f"SELECT * FROM {name}" for name in ("kernel_sequence", "collective", "collective_plane", "peer_wait")},
}  # fmt: skip


#: What is made in one go: whoever needs one of the others waits for no more than this.
TOGETHER = (
    ("comm_kind", "late_peer", "rank_stand", "comm_state", "collective", "collective_plane", "peer_wait"),
    ("launched", "launch_pace", "sync_call"), ("kernel_task", "kernel_source", "slow_kernel", "kernel_sequence"),
    (*ROOFS, "module_sum"), ("critical_path",), (REQUESTS,),
)  # fmt: skip


def asked(
    names: Iterable[str], derived: Run | None = None
) -> dict[str, str | Callable[[duckdb.DuckDBPyConnection], object]]:
    """How some of them are made, in the order of KEPT; those that a function makes share the facts of one run."""
    run = cache(Run)

    def of(answer: Callable[[Run], object]) -> Callable[[duckdb.DuckDBPyConnection], object]:
        return lambda con: answer(derived or run(con))

    wanted = set(names)
    return {name: how if isinstance(how, str) else of(how) for name, how in KEPT.items() if name in wanted}


def made_by(name: str) -> str:
    """All that one of them follows from: its statement and the views, or the text of the whole of analysis."""
    answer = KEPT[name]
    return "\0".join((answer, *(view.sql for view in views()))) if isinstance(answer, str) else _analysis()


@cache
def _analysis() -> str:
    """The text of the whole of analysis, as a hash."""
    sources = sorted(path for path in Path(__file__).parent.rglob("*") if path.suffix in (".py", ".sql", ".toml"))
    told = hashlib.blake2s()
    for path in sources:
        told.update(path.read_bytes())
    return told.hexdigest()


_INSTEAD = (
    "CREATE VIEW launch AS SELECT span_id, rank, step, track, kind, name, ts_ns, dur_ns, launch_id, launch_kind, "
    "launch_ns, latency_ns, negative FROM launched",
    "CREATE VIEW host_lead AS SELECT span_id, rank, step, track, ts_ns, launch_ns, free_ns, lead_ns FROM launched "
    "WHERE launch_id IS NOT NULL",
)


def wanted_by(measure: str) -> tuple[str, ...]:
    """What a measurement asks for, by its full name."""
    return next((names for begins, names in ASKED_BY.items() if measure.startswith(begins)), ())


def instead(con: duckdb.DuckDBPyConnection) -> None:
    """Makes the views that what is kept stands in for, on a connection that does not have them yet."""
    for statement in _INSTEAD:
        con.execute(statement)


def ready(con: duckdb.DuckDBPyConnection, names: Iterable[str]) -> None:
    """What is not kept is computed once for this connection and everything that it asks."""
    run = cache(Run)
    for name in set(names) - there(con):
        answer = KEPT[name]
        if isinstance(answer, str):
            con.execute(f"CREATE TEMP TABLE {name} AS {answer}")
        else:
            con.register("answer", answer(run(con)))
            con.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM answer")
            con.unregister("answer")
