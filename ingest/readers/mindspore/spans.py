"""Operators and communication of MindSpore's timeline: spans, tracks, kernels and collectives."""

from __future__ import annotations

from pathlib import Path

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.cells import read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.mindspore import steps
from npulens.ingest.readers.mindspore.steps import Kept
from npulens.ingest.tables.draft import Draft

#: MindSpore numbers lanes that are no streams: processes of the AI CPU, of communication and of the host, and threads
#: of its own overlap analysis, of steps, of scopes and of host operators.
_KIND = r"""CASE
    WHEN tid IN ('7997', '7998', '7999', '8000', '8001', '8002') OR thread IN (
        'Merged Computation Op', 'Pure Communication Op', 'Merged Communication Op', 'Free Time', 'Receive Alone',
        'AllReduce Alone') THEN 'profiler_split'
    WHEN tid IN ('100000', '100001') OR thread IN ('Steps', 'Scope Name') THEN 'device_annotation'
    WHEN pid = '11000' OR tid = '100003' OR lower(thread) LIKE 'hostcpu%' THEN 'host_other'
    WHEN pid = '10000' OR lower(process) LIKE '%communication%' OR lower(process) LIKE '%hccl%'
        OR regexp_matches(name, '^(hcom_|stream_\d+_parallel_)') THEN 'comm_op'
    WHEN type = 'StreamRecv' THEN 'wait'
    WHEN type IN ('StreamSend', 'StreamSwitch', 'StreamActive') THEN 'device_other'
    ELSE 'kernel' END"""

_EVENTS = """
WITH process AS (
    SELECT pid, any_value(v.text) AS process FROM meta_raw m JOIN text_raw n ON n.code = m.name
    JOIN text_raw v ON v.code = m.value WHERE n.text = 'process_name' GROUP BY pid
), thread AS (
    SELECT pid, tid, any_value(v.text) AS thread FROM meta_raw m JOIN text_raw n ON n.code = m.name
    JOIN text_raw v ON v.code = m.value WHERE n.text = 'thread_name' GROUP BY pid, tid
)
SELECT e.row, e.ts + {zero} AS ts, e.dur, coalesce(n.text, '') AS name, coalesce(p.text, '') AS pid,
    coalesce(t.text, '') AS tid, k.text AS type, f.text AS fullname, process, thread
FROM event_raw e LEFT JOIN text_raw n ON n.code = e.name LEFT JOIN text_raw p ON p.code = e.pid
    LEFT JOIN text_raw t ON t.code = e.tid LEFT JOIN text_raw k ON k.code = e.type
    LEFT JOIN text_raw f ON f.code = e.fullname
    LEFT JOIN process ON process.pid = e.pid LEFT JOIN thread ON thread.pid = e.pid AND thread.tid = e.tid
"""

#: Tensors of an operator: input_0 and so on, each an object of shape, format and data type.
_TENSORS = {
    f"{ours}_{column}": (ours, key)
    for ours in ("input", "output")
    for column, key in (("shapes", "shape"), ("dtypes", "data_type"), ("formats", "format"))
}
_SHORT = "regexp_extract(fullname, '[^/]*$')"


def make(draft: Draft, least_tick_ns: int | None) -> None:
    """Make ``op``: every interval of the device with its kind."""
    earliest = draft.con.execute("SELECT min(ts) FROM calls").fetchall()[0][0]
    zero = least_tick_ns if earliest is None else int(earliest)
    if earliest is not None and least_tick_ns not in (None, earliest):
        draft.note("span", Message("min_cycle_counter_is_not"))
    unplaced = zero is None and count(draft, "SELECT count(*) FROM event_raw") > 0
    if unplaced and count(draft, "SELECT count(*) FROM steps"):
        lost = count(draft, "SELECT count(*) FROM steps")
        draft.drop("step", Message("steps_without_place_no_min"), lost)
        steps.none(draft)
    draft.keep("event", _EVENTS.format(zero=zero or 0))
    draft.keep("op_display", f"SELECT row, ts, dur, name, pid, tid, type, fullname, {_KIND} AS kind FROM event")
    others = f"""SELECT NULL::BIGINT AS row, ts, dur, {_SHORT} AS name, '' AS pid, coalesce(stream::VARCHAR, '') AS tid,
        NULL::VARCHAR AS type, fullname, 'kernel' AS kind FROM calls c
        ANTI JOIN op_display d ON d.ts = c.ts AND d.name = {_SHORT.replace("fullname", "c.fullname")}
        UNION ALL
        SELECT NULL, ts, dur, name, '10000', coalesce(stream::VARCHAR, ''), NULL, NULL, 'comm_op' FROM gathers g
        ANTI JOIN op_display d ON d.ts = g.ts AND d.name = g.name"""
    every = f"SELECT * FROM op_display UNION ALL {others}"
    draft.keep("op", f"SELECT row_number() OVER (ORDER BY ts, pid, tid, name, dur, row) AS span_id, * FROM ({every})")


def provide(draft: Draft, framework: Path | None, kept: Kept) -> None:
    """Provide spans, tracks, kernels, collectives and arguments of the window that is kept."""
    lost = count(draft, f"SELECT count(*) FROM op WHERE NOT ({kept.holds('ts')})")
    draft.drop("span", Message("operators_and_communication_steps_whose"), lost)
    _lanes(draft, kept)
    if count(draft, "SELECT count(*) FROM placed"):
        draft.provide("span", "SELECT span_id, track, kind, name, ts AS ts_ns, dur AS dur_ns FROM placed")
        draft.provide("track", "SELECT DISTINCT track, lane_kind AS kind, lane AS name, process, pid, tid, stream, "
                               "track AS sort FROM placed")  # fmt: skip
    if count(draft, "SELECT count(*) FROM placed WHERE kind = 'kernel'"):
        draft.provide("kernel", _kernels(draft, framework))
    elif count(draft, "SELECT count(*) FROM calls") + count(draft, "SELECT count(*) FROM event") == 0:
        pass  # the reader says which file is missing
    else:
        draft.absent("kernel", Message("timeline_holds_no_operators"), None)
    draft.provide(
        "comm",
        "SELECT span_id, span_id AS op_span_id, stream FROM placed WHERE kind = 'comm_op'",
    )
    draft.provide("arg", _arguments())


def _lanes(draft: Draft, kept: Kept) -> None:
    """The view ``placed``: what is kept, each on its track; the parts of steps lie on one of their own."""
    shown = f"""SELECT span_id, row, ts, dur, name, pid, tid, type, fullname, kind FROM op WHERE {kept.holds("ts")}
        UNION ALL SELECT (SELECT coalesce(max(span_id), 0) FROM op) + row_number() OVER (ORDER BY ts, name), NULL, ts,
        dur, name, 'step trace', '', NULL, NULL, 'device_annotation' FROM ({steps.parts(kept)}) WHERE dur IS NOT NULL"""
    draft.keep(
        "placed",
        f"""SELECT *, dense_rank() OVER (ORDER BY lane_kind DESC, process, try_cast(tid AS BIGINT), pid, tid) AS track
        FROM (SELECT *, CASE WHEN kind = 'profiler_split' THEN 'profiler' WHEN kind = 'host_other' THEN 'host_thread'
            WHEN kind = 'device_annotation' THEN 'other' ELSE 'stream' END AS lane_kind,
            CASE WHEN pid = 'step trace' THEN 'Step trace' WHEN kind = 'device_annotation' THEN 'Scopes and steps'
                WHEN kind = 'host_other' THEN 'Host operators' ELSE 'Stream ' || tid END AS lane,
            CASE kind WHEN 'comm_op' THEN 'Communication' WHEN 'host_other' THEN 'Host'
                WHEN 'device_annotation' THEN 'Step trace' WHEN 'profiler_split' THEN 'Overlap analysis'
                ELSE 'Operators' END AS process,
            CASE WHEN kind IN ('kernel', 'comm_op', 'wait', 'device_other') THEN try_cast(tid AS BIGINT) END AS stream
        FROM ({shown}))""",
    )


def _tensor(of: str, key: str) -> str:
    """SQL: one property of every tensor of an operator, separated by semicolons."""
    value = f"coalesce(json_extract_string(r.rest, '$.' || k || '.{key}'), '')"
    listed = f"list_filter(json_keys(r.rest), lambda k: regexp_full_match(k, '{of}_\\d{{1,4}}'))"
    texts = f"list_transform({listed}, lambda k: regexp_replace({value}, '[\\[\\]\" ]', '', 'g'))"
    return f"CASE WHEN json_valid(r.rest) THEN nullif(array_to_string({texts}, ';'), '') END"


def _kernels(draft: Draft, framework: Path | None) -> str:
    tensors = ", ".join(f"{_tensor(of, key)} AS {column}" for column, (of, key) in _TENSORS.items())
    _framework(draft, framework)
    return f"""SELECT p.span_id, coalesce(p.type, f.type) AS op_type,
        CASE WHEN p.pid = '9000' THEN 'AI_CPU' END AS core, p.stream, f.task_id, f.block_num, {tensors}
        FROM placed p LEFT JOIN rest_raw r USING (row) LEFT JOIN named f ON f.fullname = p.fullname
        WHERE p.kind = 'kernel'"""


def _framework(draft: Draft, path: Path | None) -> None:
    """The view ``named``: what framework_raw says of an operator, where it names it once."""
    file = None if path is None else read_csv(path, draft, "framework_raw")
    if path is None or file is None:
        draft.con.execute(
            "CREATE VIEW named AS SELECT NULL::VARCHAR AS fullname, NULL::VARCHAR AS type, NULL::BIGINT AS task_id, "
            "NULL::BIGINT AS block_num WHERE false"
        )
        return
    if file.damage:
        draft.partial("kernel", file.damage)
    rows = draft.keep(
        "named",
        f"""SELECT fullname, any_value(type) AS type, any_value(task_id) AS task_id, any_value(block_num) AS block_num
        FROM (SELECT {file.said("full_kernel_name", "op_name")} AS fullname, {file.said("kernel_type")} AS type,
            {file.whole("task_id")} AS task_id, {file.whole("block_dim")} AS block_num FROM framework_raw)
        WHERE fullname IS NOT NULL GROUP BY fullname HAVING count(*) = 1""",
    )
    unmet = count(draft, "SELECT count(*) FROM named ANTI JOIN placed USING (fullname)")
    if unmet:
        draft.note("kernel", Message("operators_that_names_did_not", {"n": unmet, "all": rows, "file": path.name}))


def _arguments() -> str:
    """The scope of an operator, and whatever else its event carried that no column holds."""
    spare = "len(list_filter(json_keys(rest), lambda k: NOT regexp_full_match(k, '(input|output)_\\d{1,4}'))) > 0"
    other = f"CASE WHEN json_valid(rest) AND {spare} THEN rest END"
    told = "CASE WHEN p.fullname IS NOT NULL THEN json_object('fullname', p.fullname)::VARCHAR END"
    return f"""SELECT span_id, coalesce(CASE WHEN told IS NOT NULL AND other IS NOT NULL
            THEN json_merge_patch(told, other)::VARCHAR END, told, other) AS args
        FROM (SELECT p.span_id, {told} AS told, {other} AS other FROM placed p LEFT JOIN rest_raw r USING (row))
        WHERE told IS NOT NULL OR other IS NOT NULL"""
