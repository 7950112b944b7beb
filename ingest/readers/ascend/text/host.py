"""Spans of every lane, and what the host called: operators, stacks, arguments, steps, copies."""

from __future__ import annotations

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.stage import count, frames
from npulens.ingest.tables.draft import Draft, union
from npulens.ingest.tables.marks import ENGINE_STEP, PROFILER_STEP, STEP_MARK, engine_steps

DEVICE = "('hardware', 'comm_group', 'comm_plane')"
#: Categories of events that can mark a step.
MARKED = ("cpu_op", "user_annotation")
KIND = f"""CASE l.class WHEN 'cann' THEN 'runtime' WHEN 'gc' THEN 'gc' WHEN 'overlap' THEN 'profiler_split'
    WHEN 'other' THEN 'device_other' WHEN 'mstx' THEN 'annotation'
    WHEN 'scope' THEN 'device_annotation' WHEN 'steps' THEN 'device_annotation'
    ELSE CASE WHEN coalesce(c.text, 'cpu_op') IN {MARKED} AND regexp_matches(n.text, '{STEP_MARK}')
            THEN 'step_mark'
        WHEN c.text = 'user_annotation' THEN 'annotation' WHEN c.text = 'python_function' THEN 'python'
        WHEN c.text IN ('cpu_op', 'enqueue', 'dequeue') THEN c.text ELSE 'host_other' END END"""
#: Spans of the host's lanes.
SPANS = f"""SELECT x.row AS span_id, l.track, {KIND} AS kind, n.text AS name, x.ts AS ts_ns, x.dur AS dur_ns
    FROM x JOIN lane l ON l.lane = x.lane AND l.class NOT IN {DEVICE}
    LEFT JOIN word n ON n.code = x.name LEFT JOIN word c ON c.code = x.cat"""
WAYS = {"host%to%device": "h2d", "device%to%host": "d2h", "device%to%device": "d2d", "host%to%host": "h2h"}


def provide(draft: Draft) -> None:
    """Provide span, host_op, stack, arg, transfer and step from the views of one trace."""
    _spans(draft)
    _operators(draft)
    _arguments(draft)
    _steps(draft)
    _transfers(draft)


def _spans(draft: Draft) -> None:
    draft.provide("span", SPANS)
    draft.provide(
        "span",
        """SELECT d.row AS span_id, coalesce(d.track, t.track) AS track, d.kind, d.name, d.ts AS ts_ns, d.dur AS dur_ns
        FROM dev d LEFT JOIN csv_track t ON t.kind = 'stream' AND t.stream IS NOT DISTINCT FROM d.stream""",
    )
    draft.provide(
        "span",
        """SELECT o.row AS span_id, coalesce(o.track, t.track) AS track, 'comm_op' AS kind, o.name, o.ts AS ts_ns,
            o.dur AS dur_ns
        FROM op o LEFT JOIN op_group g USING (row)
        LEFT JOIN csv_track t ON t.kind = 'comm_group' AND t.group_name IS NOT DISTINCT FROM g.group_name""",
    )


def _operators(draft: Draft) -> None:
    """Shapes, sequence numbers and stacks of host operators, queue entries and CANN calls."""
    anything = ("x.sequence", "x.correlation", "x.connection", "x.dims", "x.dtypes", "x.external", "o.shapes")
    if "host_op" not in draft.ready:
        draft.provide(
            "host_op",
            f"""SELECT x.row AS span_id, coalesce(x.dims, o.shapes) AS input_shapes, x.dtypes AS input_dtypes,
                x.sequence, x.fwd_thread, x.external AS external_id,
                coalesce(x.correlation, nullif(x.connection, 4294967295)) AS correlation
            FROM x_host x LEFT JOIN detail o ON o.span_id = x.row
            WHERE {" OR ".join(f"{column} IS NOT NULL" for column in anything)}""",
        )
    once = _once(frames("text"), "stack")
    draft.provide(
        "stack",
        f"""SELECT x.row AS span_id, s.text AS frames FROM x_host x JOIN ({once}) s ON s.code = x.stack
        WHERE s.text <> ''""",
    )
    draft.provide(
        "stack",
        """SELECT o.span_id, o.frames FROM detail o JOIN x_host x ON x.row = o.span_id
        WHERE o.frames IS NOT NULL AND x.stack IS NULL""",
    )


def _once(change: str, column: str) -> str:
    """The texts behind the codes of a column, each changed once and not once for every row."""
    return f"SELECT code, {change} AS text FROM str WHERE code IN (SELECT DISTINCT {column} FROM x_host)"


def _arguments(draft: Draft) -> None:
    """What no column holds: the keys nobody promoted, and a task's own numbers where no table keeps them."""
    draft.provide(
        "arg",
        """SELECT row AS span_id, rest AS args FROM rest WHERE row NOT IN (SELECT hw FROM merged)
        AND row NOT IN (SELECT row FROM op_analysed WHERE bandwidth IS NOT NULL)""",
    )
    draft.provide(
        "arg",
        """SELECT row AS span_id, json_object('Task Type', type, 'Task Id', task, 'Batch Id', batch)::VARCHAR AS args
        FROM dev_trace WHERE (kind IN ('memcpy', 'wait', 'device_other') OR batch > 0)
        AND row NOT IN (SELECT row FROM rest)""",
    )


def _steps(draft: Draft) -> None:
    """Steps by the profiler's marks, else by a serving engine's; without any, by the device's own iterations, else by
    what kernel_details says."""
    draft.keep(
        "step_device",
        """SELECT step, min(ts) AS device_ts_ns, max(ts + dur) - min(ts) AS device_dur_ns FROM kd
        WHERE step IS NOT NULL GROUP BY step""",
    )
    draft.keep(
        "step_mark",
        f"""SELECT step, min(ts) AS ts_ns, arg_min(dur, ts) AS host_dur_ns FROM (
            SELECT try_cast(regexp_extract(w.text, '\\d+$') AS BIGINT) AS step, x.ts, x.dur
            FROM x_host x JOIN word w ON w.code = x.name AND regexp_matches(w.text, '{PROFILER_STEP}')
            JOIN lane l ON l.lane = x.lane AND l.class IN ('host', 'host_other'))
        WHERE step IS NOT NULL GROUP BY step""",
    )
    draft.keep(
        "step_engine",
        engine_steps(
            f"""SELECT x.row, w.text, x.ts, x.dur, false AS device, x.lane AS track, NULL::BIGINT AS id
            FROM x_host x JOIN word w ON w.code = x.name AND regexp_matches(w.text, '{ENGINE_STEP}')
            JOIN lane l ON l.lane = x.lane AND l.class IN ('host', 'host_other')
            LEFT JOIN word c ON c.code = x.cat WHERE coalesce(c.text, 'cpu_op') IN {MARKED}"""
        ),
    )
    _iterations(draft)
    if count(draft, "SELECT count(*) FROM step_mark"):
        draft.provide(
            "step",
            """SELECT m.*, d.device_ts_ns, d.device_dur_ns, 'ProfilerStep' AS source
            FROM step_mark m LEFT JOIN step_device d USING (step)""",
        )
    elif count(draft, "SELECT count(*) FROM step_engine"):
        draft.provide("step", "FROM step_engine")
    elif count(draft, "SELECT count(*) FROM step_iteration"):
        draft.provide("step", "SELECT *, device_ts_ns AS ts_ns, 'step_trace' AS source FROM step_iteration")
        draft.note("step", Message("no_profilerstep_marks_iterations"))
    elif count(draft, "SELECT count(*) FROM step_device"):
        draft.provide("step", "SELECT *, device_ts_ns AS ts_ns, 'kernel_details' AS source FROM step_device")
        draft.note("step", Message("no_profilerstep_marks_windows"))
    elif draft.has("profiler_step") and count(
        draft, f"SELECT count(step) FROM ({union(draft.selects['profiler_step'])})"
    ):
        draft.absent("step", Message("steps_are_listed_without_times"), Message("setting_whole_export"))
    else:
        setting = Message("after_each_step", {"setting": "prof.step()"})
        draft.absent("step", Message("nothing_marks_steps"), setting)


def _iterations(draft: Draft) -> None:
    """The view step_iteration: those of the trace, else of step_trace; of several models the one with most of them."""
    draft.keep(
        "iterated",
        """SELECT l.tid || l.pid AS model, try_cast(regexp_extract(n.text, '\\d+$') AS BIGINT) AS step, x.ts AS ts_ns,
            x.dur AS dur_ns
        FROM x JOIN lane l ON l.lane = x.lane AND l.class = 'steps' JOIN word n ON n.code = x.name
        WHERE regexp_full_match(n.text, 'Iteration \\d+')""",
    )
    found = "iterated" if count(draft, "SELECT count(*) FROM iterated") else "iteration"
    model = f"SELECT model FROM {found} GROUP BY model ORDER BY count(*) DESC, model LIMIT 1"
    draft.keep(
        "step_iteration",
        f"""SELECT step, min(ts_ns) AS device_ts_ns, arg_min(dur_ns, ts_ns) AS device_dur_ns FROM {found}
        WHERE step IS NOT NULL AND model IS NOT DISTINCT FROM ({model}) GROUP BY step""",
    )


def _transfers(draft: Draft) -> None:
    """Copies: way and size as the task says (Level2), else the way by which the call or queue entry above is named."""
    draft.keep(
        "copied",
        """SELECT a.dst AS row, x.ts, n.text AS name, l.tid
        FROM arrow a JOIN dev d ON d.row = a.dst AND d.kind = 'memcpy'
        JOIN x_host x ON x.row = a.src JOIN lane l ON l.lane = x.lane LEFT JOIN word n ON n.code = x.name
        WHERE a.route = (SELECT any_value(route) FROM route WHERE name = 'host_to_device')""",
    )
    draft.keep(
        "queued",
        """SELECT l.tid, x.ts, x.ts + x.dur AS till, n.text AS name
        FROM x_host x JOIN word c ON c.code = x.cat AND c.text = 'dequeue'
        JOIN lane l ON l.lane = x.lane JOIN word n ON n.code = x.name""",
    )
    draft.keep(
        "copy_call",
        """SELECT row, any_value(c.name) AS call, any_value(CASE WHEN c.ts <= q.till THEN q.name END) AS entry
        FROM copied c ASOF LEFT JOIN queued q ON q.tid = c.tid AND c.ts >= q.ts GROUP BY row""",
    )
    way = "CASE " + " ".join(
        f"WHEN {text} ILIKE '%{pattern}%' THEN '{short}'"
        for text in ("d.direction", "c.call", "c.entry")
        for pattern, short in WAYS.items()
    )
    draft.provide(
        "transfer",
        f"""SELECT d.row AS span_id, {way} END AS direction, CASE WHEN d.bytes >= 0 THEN d.bytes END AS bytes,
            finite(d.bandwidth) * 1000000000 AS bandwidth_bytes_per_s,
            CASE WHEN c.call ILIKE '%@aclrtMemcpy%Async%' THEN false WHEN c.call ILIKE '%@aclrtMemcpy%' THEN true END
            AS blocking
        FROM dev d LEFT JOIN copy_call c USING (row) WHERE d.kind = 'memcpy'""",
    )
