"""What the device did: every hardware task once, as a kernel, a copy, a wait or a part of a communication operator.

trace_view shows a communication task twice, on its stream and on its plane; kernel_details lists kernels and
communication operators again. Here each becomes one span.
"""

from __future__ import annotations

import pyarrow as pa

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend import helpers
from npulens.ingest.readers.ascend.helpers import core, nameless, schedules
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.text.trace_view import LATEST
from npulens.ingest.tables import comm_facts
from npulens.ingest.tables.draft import Draft

#: Ids of spans that only kernel_details has lie above those of any event.
_FROM_CSV = 1 << 38
#: The same of those that only communication.json has.
_FROM_JSON = 3 << 37
#: Two files stamp the same task at most this far apart: one of them rounds.
NEAR_NS = 1000
#: Tracks of spans that no lane shows.
_FIRST_TRACK = 1 << 18
_CSV_TRACK = pa.schema(
    [("track", pa.int64()), ("kind", pa.string()), ("name", pa.string()), ("process", pa.string()),
     ("stream", pa.int64()), ("group_name", pa.string()), ("sort", pa.int32())]
)  # fmt: skip

#: Old versions file what is no other type under Other; of those, operators have small letters in their name.
OPERATOR, SIGNAL = r"^\w*[a-z]", "^(Notify|Write|Event)"
_OTHER = (
    f"type = 'Other' AND regexp_matches(name, '{OPERATOR}') AND NOT regexp_matches(name, '{SIGNAL}') "
    f"AND NOT {nameless('name')}"
)
TYPES = "^(KERNEL|AI_|AICORE|AICPU|AIV|AIC$|MIX|DSA|VECTOR|CUBE|OPERATOR)"
COMPUTES = f"(regexp_matches(type, '{TYPES}', 'i') OR {_OTHER})"
#: Tasks that carry out a communication operator on the AI CPU or the vector cores count as communication.
CARRIES = "(AicpuKernel|AivKernel)$"
CARRIED = f"regexp_matches(name, '{CARRIES}')"
SETS, COPIES = "(^| )MEM_?SET", "(^| )(MEM_?CPY|PCIE_DMA|SDMA)"
_SETS = f"regexp_matches(type || ' ' || name, '{SETS}', 'i')"
_COPIES = f"regexp_matches(type || ' ' || name, '{COPIES}', 'i')"
#: Libraries whose communication is in kernels of its own, not in operators of HCCL.
OWN_KERNELS = ("CANN MC2", "LCCL")
_WAITS = "contains(lower(type || name), 'wait')"


def make(draft: Draft) -> None:
    """Make the views dev (tasks) and op (communication operators); ``kd``, ``lane`` and ``word`` must be there."""
    _tasks(draft)
    _plane_tasks(draft)
    _lane_operators(draft)
    _match_kernels(draft)
    _operators(draft)
    _sort(draft)
    _say(draft)


def provide(draft: Draft) -> None:
    """The kernel table, and tracks for the spans that only kernel_details has."""
    # Level0 writes a block count of 0 and no core for every kernel: neither was recorded.
    draft.provide(
        "kernel",
        f"""SELECT d.row AS span_id, k.op_type, coalesce({core("k.core")}, {core("nullif(d.type, '')")}) AS core,
            nullif(d.type, '') AS task_type, coalesce(d.stream, k.stream) AS stream,
            coalesce(d.task, k.task) AS task_id, coalesce(d.model, k.model) AS model_id,
            coalesce(d.context, k.context) AS context_id,
            CASE WHEN k.core IS NOT NULL OR k.block <> 0 THEN k.block END AS block_num, k.mix AS mix_block_num,
            k.op_state, k.hf32, k.input_shapes, k.input_dtypes, k.input_formats, k.output_shapes, k.output_dtypes,
            k.output_formats, k.wait AS wait_ns
        FROM dev d LEFT JOIN kd k ON k.row = d.kd WHERE d.kind IN ('kernel', 'memset')""",
        apart=True,
    )
    talking = "SELECT row AS span_id, stream, name FROM talking"
    draft.provide("comm", comm_facts.of(*OWN_KERNELS).operators(talking, "name"))
    found = draft.con.execute("""
        SELECT 'stream' AS kind, stream, NULL AS group_name,
            (SELECT min(track) FROM lane l WHERE l.kind = 'stream' AND l.stream = d.stream) AS track
        FROM dev_csv d GROUP BY stream
        UNION ALL
        SELECT 'comm_group', NULL, g.group_name,
            (SELECT min(track) FROM lane l WHERE l.kind = 'comm_group' AND l.group_name = g.group_name)
        FROM op_apart JOIN op_group g USING (row) GROUP BY g.group_name ORDER BY ALL""").fetchall()
    draft.table("csv_track", [_csv_track(at, *row) for at, row in enumerate(found)], _CSV_TRACK)
    draft.provide("track", f"SELECT * FROM csv_track WHERE track >= {_FIRST_TRACK}")


def _csv_track(at: int, kind: str, stream: int | None, group: str | None, track: int | None) -> dict[str, object]:
    """The track of a stream or group; one of its own where the trace has no lane for it."""
    if kind == "stream":
        name, process = "Stream ?" if stream is None else f"Stream {stream}", "Ascend Hardware"
    else:
        name, process = "Communication" if group is None else f"Group {group} Communication", "Communication"
    number = _FIRST_TRACK + at if track is None else track
    return {
        "track": number, "kind": kind, "name": name, "process": process, "stream": stream, "group_name": group,
        "sort": number,
    }  # fmt: skip


def _texts(*columns: tuple[str, str]) -> str:
    """Joins that bring the texts of columns of x that hold codes: (column, name of the join)."""
    return " ".join(f"LEFT JOIN word {name} ON {name}.code = x.{column}" for column, name in columns)


def _tasks(draft: Draft) -> None:
    """The view hw: tasks of the streams."""
    draft.keep(
        "hw",
        f"""SELECT x.row, l.track, x.ts, x.dur, coalesce(n.text, '') AS name, coalesce(k.text, '') AS type,
            coalesce(x.stream, x.old_stream, l.stream) AS stream, x.task, nullif(x.context, 4294967295) AS context,
            nullif(x.model, 4294967295) AS model, x.batch, coalesce(x.bytes, x.old_bytes) AS bytes, x.bandwidth,
            coalesce(d.text, o.text) AS direction, nullif(x.connection, 4294967295) AS connection
        FROM x JOIN lane l ON l.lane = x.lane AND l.class = 'hardware'
        {_texts(("name", "n"), ("task_type", "k"), ("direction", "d"), ("old_direction", "o"))}""",
    )


def _plane_tasks(draft: Draft) -> None:
    """The views plane, tasks of the communication planes, and merged: those that hw holds too.

    They are the same task if stream, task, context and start agree.
    """
    draft.keep(
        "plane",
        f"""SELECT x.row, l.track, l.group_name, l.plane, x.ts, x.dur, coalesce(n.text, '') AS name, k.text AS type,
            x.stream, x.task, nullif(x.context, 4294967295) AS context, x.src, x.dst, w.text AS notify,
            t.text AS transport, y.text AS link_type, x.bytes, d.text AS dtype, x.bandwidth
        FROM x JOIN lane l ON l.lane = x.lane AND l.class = 'comm_plane'
        {_texts(("name", "n"), ("task_type", "k"), ("notify", "w"), ("transport", "t"), ("link_type", "y"),
                ("dtype", "d"))}""",
    )  # fmt: skip
    draft.keep(
        "merged",
        """SELECT h.row AS hw, min(p.row) AS plane FROM hw h JOIN plane p ON p.stream = h.stream AND p.task = h.task
            AND p.ts = h.ts AND (p.context = h.context OR p.context IS NULL OR h.context IS NULL)
        GROUP BY h.row""",
    )


def _lane_operators(draft: Draft) -> None:
    """The views op_lane, operators of the communication lanes, and lap, the intervals of the profiler's own split."""
    draft.keep(
        "lap",
        """SELECT l.name AS lane, x.ts, x.ts + x.dur AS till
        FROM x JOIN lane l ON l.lane = x.lane AND l.class = 'overlap' WHERE l.name IN ('Computing', 'Communication')""",
    )
    draft.keep(
        "op_lane",
        f"""SELECT x.row, l.track, l.group_name, x.ts, {_settled("x")} AS dur, coalesce(n.text, '') AS name,
            nullif(x.connection, 4294967295) AS connection, d.text AS dtype, a.text AS algorithm, x.count,
            r.text AS relay, y.text AS retry
        FROM x JOIN lane l ON l.lane = x.lane AND l.class = 'comm_group'
        ASOF LEFT JOIN (SELECT *, 'comm_group' AS class FROM lap WHERE lane = 'Communication') p
            ON p.class = l.class AND x.ts >= p.ts
        {_texts(("name", "n"), ("op_dtype", "d"), ("algorithm", "a"), ("relay", "r"), ("retry", "y"))}""",
    )


def _settled(span: str) -> str:
    """SQL: the duration of a span that ends where the interval ``p`` of the profiler's split ends.

    The split holds whole ns. Start and duration of a task are rounded each on its own, so its end may be 1 ns off.
    """
    ends = f"abs({span}.ts + {span}.dur - p.till) <= 1 AND p.till >= {span}.ts"
    return f"CASE WHEN {ends} THEN p.till - {span}.ts ELSE {span}.dur END"


def _match_kernels(draft: Draft) -> None:
    """The view matched: the line of kernel_details of a task.

    Start and name agree; where a version rounds stamps, stream, task and name agree and the start is near.
    """
    draft.keep(
        "met",
        """SELECT h.row AS hw, min(k.row) AS kd FROM hw h JOIN kd k ON k.ts = h.ts AND k.name = h.name AND NOT k.comm
            AND (k.stream IS NULL OR k.stream = h.stream)
        GROUP BY h.row""",
    )
    draft.keep("kd_left", "SELECT * FROM kd WHERE NOT comm AND row NOT IN (SELECT kd FROM met)")
    draft.keep(
        "near",
        f"""SELECT hw, min(kd) AS kd FROM (
            SELECT h.row AS hw, k.row AS kd FROM kd_left k JOIN hw h ON h.stream = k.stream AND h.task = k.task
                AND h.name = k.name AND abs(h.ts - k.ts) <= {NEAR_NS}
            UNION ALL SELECT h.row, k.row FROM kd_left k JOIN hw h ON h.stream = k.stream AND h.ts = k.ts)
        WHERE hw NOT IN (SELECT hw FROM met) GROUP BY hw""",
    )
    draft.make("CREATE VIEW matched AS FROM met UNION ALL FROM near")


def _operators(draft: Draft) -> None:
    """The view op: operators of the lanes, and those that only kernel_details lists.

    Where there is neither, those of communication.json, whose stamps are floats of microseconds.
    """
    draft.keep(
        "op_kd",
        f"""SELECT k.row AS kd, o.row AS op FROM (SELECT * FROM kd WHERE comm) k
        ASOF JOIN op_lane o ON o.name = k.name AND k.ts + {NEAR_NS} >= o.ts WHERE o.ts >= k.ts - {NEAR_NS}""",
    )
    draft.keep(
        "op_csv",
        f"""SELECT {_FROM_CSV} + row AS row, NULL::BIGINT AS track, NULL::VARCHAR AS group_name, ts, dur, name,
            NULL::BIGINT AS connection, NULL::VARCHAR AS dtype, NULL::VARCHAR AS algorithm, NULL::BIGINT AS count,
            NULL::VARCHAR AS relay, NULL::VARCHAR AS retry
        FROM kd WHERE comm AND row NOT IN (SELECT kd FROM op_kd)""",
    )
    draft.keep(
        "op_json",
        f"""SELECT {_FROM_JSON} + row_number() OVER (ORDER BY start_ns, name) AS row, NULL::BIGINT AS track,
            NULL::VARCHAR AS group_name, start_ns AS ts, elapsed_ns AS dur, name, NULL::BIGINT AS connection,
            NULL::VARCHAR AS dtype, NULL::VARCHAR AS algorithm, NULL::BIGINT AS count, NULL::VARCHAR AS relay,
            NULL::VARCHAR AS retry
        FROM (SELECT DISTINCT name, start_ns, elapsed_ns FROM analysed
            WHERE start_ns BETWEEN 0 AND {LATEST} AND elapsed_ns BETWEEN 0 AND {LATEST})
        WHERE NOT EXISTS (FROM op_lane) AND NOT EXISTS (FROM kd) AND NOT EXISTS (FROM hw)""",
    )
    draft.make("CREATE VIEW op_apart AS FROM op_csv UNION ALL FROM op_json")
    draft.view("op", "FROM op_lane UNION ALL FROM op_apart")


def _helpers(draft: Draft) -> None:
    """The view helped: tasks of the streams that help communication operators."""
    helpers.find(
        draft,
        f"""SELECT h.row, h.stream, h.ts, h.ts + h.dur AS till, trim(type || ' ' || name) AS says,
            m.kd IS NOT NULL OR g.hw IS NOT NULL OR {COMPUTES} OR coalesce(connection, -1) >= 0 AS own
        FROM hw h LEFT JOIN matched m ON m.hw = h.row LEFT JOIN merged g ON g.hw = h.row""",
        "SELECT row, ts, ts + dur AS till, coalesce(group_name, '') AS named FROM op_lane",
    )


def _schedulers(draft: Draft) -> None:
    """The view scheduler: tasks of the AI CPU that only hand out the work of an operator. They poll until it is done.

    They are told by their entry point, or because the same call launched a task of the AI cores that runs meanwhile.
    """
    draft.keep(
        "scheduler",
        f"""SELECT h.row FROM hw h WHERE {schedules("h.name", "h.type")} UNION
        SELECT h.row FROM (SELECT * FROM hw WHERE regexp_matches(type, 'AI_?CPU', 'i') AND connection >= 0) h
        JOIN (SELECT connection, min(ts) AS ts, max(ts + dur) AS till FROM hw WHERE connection >= 0
            AND regexp_matches(type, '^(KERNEL_AI(CORE|VEC)|KERNEL_MIX|AI_CORE|AI_VECTOR|AICORE|AIC$|AIV|MIX)', 'i')
            GROUP BY connection) c
        ON c.connection = h.connection AND h.ts <= c.ts AND h.ts + h.dur >= c.till""",
    )


def _sort(draft: Draft) -> None:
    """The view dev: every task that is not shown on a plane, with its kind and the operator it belongs to."""
    _helpers(draft)
    _schedulers(draft)
    draft.keep(
        "in_op",
        """SELECT h.row AS hw, o.row AS op FROM
        (SELECT * FROM hw WHERE connection IN (SELECT connection FROM op_lane) AND row NOT IN (SELECT hw FROM merged)) h
        ASOF JOIN (SELECT * FROM op_lane WHERE connection IS NOT NULL) o ON o.connection = h.connection AND h.ts >= o.ts
        WHERE h.ts <= o.ts + o.dur AND h.row NOT IN (SELECT row FROM helped) UNION ALL FROM helped""",
    )
    draft.keep(
        "dev_kind",
        f"""SELECT h.*, m.kd, i.op, CASE WHEN h.row IN (SELECT row FROM scheduler) THEN 'device_other'
            WHEN m.kd IS NOT NULL THEN 'kernel'
            WHEN {COMPUTES} AND NOT {CARRIED} THEN 'kernel' WHEN i.hw IS NOT NULL THEN 'comm_task'
            WHEN {_SETS} THEN 'memset' WHEN {_COPIES} THEN 'memcpy' WHEN {_WAITS} THEN 'wait'
            ELSE 'device_other' END AS kind
        FROM hw h LEFT JOIN matched m ON m.hw = h.row LEFT JOIN in_op i ON i.hw = h.row
        WHERE h.row NOT IN (SELECT hw FROM merged)""",
    )
    draft.keep(
        "settled",
        f"""SELECT x.row, {_settled("x")} AS dur
        FROM (SELECT row, ts, dur, 'Computing' AS lane FROM dev_kind WHERE kind = 'kernel') x
        ASOF JOIN lap p ON p.lane = x.lane AND x.ts >= p.ts""",
    )
    draft.keep(
        "dev_trace",
        """SELECT x.* EXCLUDE (dur), coalesce(s.dur, x.dur) AS dur FROM dev_kind x LEFT JOIN settled s USING (row)""",
    )
    draft.keep(
        "dev_csv",
        f"""SELECT {_FROM_CSV} + row AS row, NULL::BIGINT AS track, ts, dur, name, type, stream, task, context,
            model, NULL::BIGINT AS batch, NULL::BIGINT AS bytes, NULL::DOUBLE AS bandwidth, NULL::VARCHAR AS direction,
            NULL::BIGINT AS connection, row AS kd, NULL::BIGINT AS op,
            CASE WHEN {schedules("name", "type")} THEN 'device_other'
                WHEN NOT is_task OR {COMPUTES} THEN 'kernel' WHEN {_SETS} THEN 'memset' WHEN {_COPIES} THEN 'memcpy'
                WHEN {_WAITS} THEN 'wait' ELSE 'device_other' END AS kind
        FROM (SELECT *, coalesce(core, '') AS type FROM kd_left) WHERE row NOT IN (SELECT kd FROM matched)""",
    )
    known = comm_facts.of(*OWN_KERNELS)
    text = "concat_ws(' ', k.op_type, x.name)"
    talks = f"x.kind = 'kernel' AND {known.known(text)}"
    draft.keep(
        "talking",
        f"""SELECT x.row, x.stream, {text} AS name, {known.fused(text)} AS fused
        FROM (FROM dev_trace UNION ALL BY NAME FROM dev_csv) x LEFT JOIN kd k ON k.row = x.kd WHERE {talks}""",
    )
    draft.view(
        "dev",
        """SELECT x.* EXCLUDE (kind),
            CASE WHEN x.row IN (SELECT row FROM talking WHERE NOT fused) THEN 'comm_op' ELSE x.kind END AS kind
        FROM (FROM dev_trace UNION ALL BY NAME FROM dev_csv) x""",
    )


def _say(draft: Draft) -> None:
    if polling := count(draft, "SELECT count(*) FROM dev WHERE row IN (SELECT row FROM scheduler)"):
        draft.note("kernel", Message("tasks_ai_cpu_only_schedule", {"n": polling}))
    if merged := count(draft, "SELECT count(*) FROM merged"):
        draft.note("span", Message("tasks_that_are_shown_on", {"n": merged}))
    only_csv = count(draft, "SELECT (SELECT count(*) FROM dev_csv) + (SELECT count(*) FROM op_csv)")
    if only_csv and count(draft, "SELECT count(*) FROM hw"):
        draft.note("span", Message("tasks_come_from_kernel_details", {"n": only_csv}))
    if only_json := count(draft, "SELECT count(*) FROM op_json"):
        draft.note("comm", Message("operators_come_from_communication_json", {"n": only_json}))
    alone = count(draft, "SELECT count(*) FROM dev WHERE kind = 'kernel' AND kd IS NULL")
    if alone and count(draft, "SELECT count(*) FROM kd"):
        draft.note("kernel", Message("kernels_trace_are_not_in", {"n": alone}))
