"""Derived files of MindSpore's profiler before it wrote ascend_ms directories (1.x, MindInsight's input).

Operators and steps are read span by span where their files are there. What is only an average or a sum goes to
``summary``. Stamps are the device's own counter, whose zero nobody recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim, Facts
from npulens.ingest.readers.ascend import cells
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.mindspore import files, steps, timeline
from npulens.ingest.readers.mindspore.steps import Kept
from npulens.ingest.readers.mindspore.timeline import LATEST_NS, TICK_NS
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import literal

TITLE = "MindSpore derived files"

_RECORD = Message("mindspore_profiler_then_load_its")


def sniff(path: Path) -> Claim | None:
    """Any one of the files stands for all that describe its device."""
    if files.role(path.name) is None or not peek.at(path).is_file:
        return None
    found = files.beside(path)
    if not found:
        return None
    lead = next(iter(found.values()))
    told = files.role(lead.name)
    rank = told[1] if told else None
    facts = Facts(rank, None if rank is None else "file name")
    return Claim("mindspore", lead, tuple(sorted({path, *found.values()})), facts)


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft from whatever of the files there is."""
    found = {told[0]: path for path in claim.files if (told := files.role(path.name))}
    if set(found) <= {"points", "counter"}:
        raise IngestError(
            "empty", Message("mindspore_s_notes_about_capture"),
            str(claim.root),
        )  # fmt: skip
    try:
        _read(found, draft)
    except duckdb.Error as error:
        raise IngestError("failed", Message("mindspore_s_files_give_no", {"error": error}), str(claim.root)) from error


def _read(found: dict[str, Path], draft: Draft) -> None:
    cells.macros(draft)
    draft.fact("backend", "npu")
    draft.fact("clock", "monotonic")
    timeline.read_calls(found.get("calls"), draft)
    timeline.read_display(found.get("timeline"), draft)
    steps.read(found.get("steps"), draft)
    least_ns = least_tick(found.get("counter"), draft)
    make(draft, least_ns)
    kept = steps.whole(draft)
    provide_spans(draft, found.get("framework"), kept)
    steps.provide(draft, kept)
    provide(found, draft)
    settings(found, draft, least_ns)
    _tell(found, draft)


def _tell(found: dict[str, Path], draft: Draft) -> None:
    """What these files cannot hold, and what of them is not there."""
    for table in ("host_op", "stack", "link"):
        draft.absent(table, Message("mindspore_s_derived_files_hold_nothing"), _RECORD)
    draft.absent("transfer", Message("mindspore_s_derived_files_hold"), _RECORD)
    for table in ("sample", "memory_sample", "memory_event"):
        if table not in draft.selects:
            draft.absent(table, Message("not_in_mindspore_s_derived"), _RECORD)
    if not {"timeline", "calls"} & set(found):
        missing = Message("neither_timeline_display_nor_output")
        draft.absent("kernel", missing, _RECORD)
        if "steps" in found:
            draft.partial(None, Message("only_steps_and_their_communication", {"reason": missing}))
        else:
            draft.absent("span", missing, _RECORD)
            draft.absent("comm", Message("neither_timeline_nor_step_trace"), _RECORD)
            draft.partial(None, Message("only_sums_and_averages", {"reason": missing}))
    if "steps" not in found:
        draft.absent("step", Message("step_trace_raw_detail_time"), _RECORD)


# What MindSpore's files hold only as averages and sums, and as settings: rows of ``summary``, verbatim in ``args``.
_MS = 1_000_000
_SMALL, _LARGE = 1 << 16, 64 << 20
#: What versions call the column that holds an operator's name with its scope.
_FULL_NAMES = ("full_kernel_name", "full_op_name")
_ROW = pa.schema([("source", pa.string()), ("name", pa.string()), ("category", pa.string()), ("args", pa.string())])
_COUNTER = pa.schema([("device_start_count", pa.int64()), ("device_freq_mhz", pa.float64())])
_RULE = re.compile(r"^[-=\s]*(?:op compute time)?[-=\s]*$")
_GAP = re.compile(r"\s{2,}")


def least_tick(path: Path | None, draft: Draft) -> int | None:
    """min_cycle_counter: the counter's value at the timeline's zero, in ns."""
    if path is None:
        return None
    text = path.read_bytes()[:_SMALL].decode("utf-8", "replace").strip()
    match = re.fullmatch(r"(\d{1,17})(?:\.0+)?", text)
    draft.advance(path.stat().st_size)
    if match is None or int(match[1]) * TICK_NS > LATEST_NS:
        draft.partial("clock", Message("holds_no_number", {"file": path.name}))
        return None
    return int(match[1]) * TICK_NS


def provide(found: Mapping[str, Path], draft: Draft) -> None:
    """Provide the sums and averages of every file that is here."""
    for role, names, source in (
        ("types", ("kernel_type", "op_type"), "aicore_intermediate_type"),
        ("details", _FULL_NAMES, "aicore_intermediate_detail"),
        ("flops", _FULL_NAMES, "flops"),
        ("pipeline", ("op_type",), "minddata_pipeline"),
    ):
        if role in found:
            _table(found[role], role, names, source, draft)
    for role, source in (("op_times", "op_compute_time"), ("op_type_times", "op_compute_time_detail")):
        if role in found:
            draft.table(f"{role}_rows", list(_lines(found[role], source, draft)), _ROW)
            draft.provide("summary", f"SELECT * FROM {role}_rows")
    if "queues" in found:
        draft.table("queue_rows", list(_queues(found["queues"], draft)), _ROW)
        draft.provide("summary", "SELECT * FROM queue_rows")


def _table(path: Path, role: str, names: tuple[str, ...], source: str, draft: Draft) -> None:
    """A CSV file whose rows say something of one name each."""
    file = read_csv(path, draft, f"{role}_raw")
    if file is None:
        draft.partial("summary", Message("is_empty", {"file": path.name}))
        return
    if file.damage:
        draft.partial("summary", file.damage)
    times = file.whole("execution_frequency")
    total = {
        "types": f"scaled({file.cell('total_time')}, {_MS})",
        # The mean of one execution; how often it ran older versions do not say.
        "details": f"scaled({file.cell('execution_time')}, {_MS}) * coalesce({times}, 1)",
    }.get(role, "NULL::BIGINT")
    name = file.column(*names) or names[0]
    taken = (name, *(("total_time", "execution_frequency") if role == "types" else ("execution_frequency",)))
    lost = f"SELECT count(*) FROM {file.name} WHERE {file.said(name)} IS NULL"
    draft.drop(
        "summary", Message("rows_without_name", {"file": path.name}), int(draft.con.execute(lost).fetchall()[0][0])
    )
    draft.provide("summary", _sums(file, source, name, times, total, taken))


def _sums(file: Csv, source: str, name: str, times: str, total: str, taken: tuple[str, ...]) -> str:
    return f"""SELECT {literal(source)} AS source, {file.said(name)} AS name, {times} AS count, {total} AS total_ns,
        {file.rest(file.others(*taken))} AS args FROM {file.name} WHERE {file.said(name)} IS NOT NULL"""


def _lines(path: Path, source: str, draft: Draft) -> Iterator[dict[str, str | None]]:
    """A table drawn with spaces: a title, a header, a rule, rows; a second table may follow."""
    header: list[str] = []
    before = ""
    with path.open(encoding="utf-8", errors="replace") as file:
        while line := file.readline(_SMALL):
            text = line.strip()
            if _RULE.match(text):
                header = _header(before, len(text.split())) if "-" in text else []
            elif header:
                cells = text.rsplit(maxsplit=len(header) - 1)
                if len(cells) == len(header):
                    args = dict(zip(header[1:], cells[1:], strict=True))
                    yield {"source": source, "name": cells[0].rstrip(), "args": json.dumps(args)}
                else:
                    draft.drop("summary", Message("lines_that_do_not_fit", {"file": path.name}))
            before = text
    draft.advance(path.stat().st_size)


def _header(text: str, columns: int) -> list[str]:
    """The names above a rule of so many dashes; those with spaces in them stand two spaces apart."""
    return next((cells for cells in (_GAP.split(text), text.split()) if len(cells) == columns and columns > 1), [])


def _queues(path: Path, draft: Draft) -> Iterator[dict[str, str | None]]:
    """pipeline_profiling: queue lengths of the input pipeline, sampled at a known interval but at no known time."""
    told = _json(path, draft)
    operators = told.get("op_info")
    for operator in operators if isinstance(operators, list) else []:
        if isinstance(operator, dict):
            args = {**operator, "sampling_interval": told.get("sampling_interval")}
            yield {"source": "pipeline_profiling", "name": str(operator.get("op_type")), "args": json.dumps(args)}
        else:
            draft.drop("summary", Message("entries_that_are_not_understood", {"file": path.name}))


def settings(found: Mapping[str, Path], draft: Draft, least_ns: int | None) -> None:
    """The points that bound forward and backward, and what is known of the device's counter."""
    if "points" in found:
        draft.fact("settings", json.dumps({"step_trace_points": _json(found["points"], draft)}, ensure_ascii=False))
    if least_ns is not None:
        rows = [{"device_start_count": least_ns // TICK_NS, "device_freq_mhz": 1000 / TICK_NS}]
        draft.table("counter_row", rows, _COUNTER)
        draft.provide("clock", "SELECT * FROM counter_row")


def _json(path: Path, draft: Draft) -> Mapping[str, object]:
    try:
        if path.stat().st_size > _LARGE:
            draft.partial("summary", Message("is_larger_than_mb_and", {"file": path.name, "n": _LARGE >> 20}))
            return {}
        told = msgspec.json.decode(path.read_bytes())
    except (msgspec.MsgspecError, RecursionError, OSError) as error:
        draft.partial("summary", Message("file_cannot_be_read", {"file": path.name, "error": error}))
        return {}
    draft.advance(path.stat().st_size)
    if not isinstance(told, dict):
        draft.partial("summary", Message("holds_no_json_object", {"file": path.name}))
        return {}
    return told


# Operators and communication of MindSpore's timeline: spans, tracks, kernels and collectives.
#: MindSpore numbers lanes that are no streams. They are processes of the AI CPU, of communication and of the host. They
#: are also threads of its own overlap analysis, of steps, of scopes and of host operators.
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
#: What an operator of communication does: stream_11_0_Receive-op2068, AllReduce-op8. Others do not say
#: (stream_7_parallel_0). The number is that of the operator in its graph, no group's.
_COLLECTIVE = r"""nullif(lower(regexp_extract(name, '^(?:stream_\d+_\d+_)?([A-Za-z]+)-op\d+$', 1)), '')"""
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


def provide_spans(draft: Draft, framework: Path | None, kept: Kept) -> None:
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
        f"SELECT span_id, span_id AS op_span_id, {_COLLECTIVE} AS collective, stream FROM placed "
        "WHERE kind = 'comm_op'",
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
        FROM (SELECT {file.said(*_FULL_NAMES, "op_name")} AS fullname, {file.said("kernel_type", "op_type")} AS type,
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
