"""The CSV files beside the trace: memory, steps, sums and caches, each to its table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from npulens.ingest.messages import Message, joined
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.ascend.stage import count, frames, one_line
from npulens.ingest.readers.ascend.text import strangers
from npulens.ingest.readers.ascend.text.trace_view import LATEST
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import literal, quoted

#: No file has as many rows.
_ROWS = 1 << 36
_DEVICE = "Device_id"


#: Files of a table with what was read of each; None: not even a header.
Slices = Sequence[tuple[Path, Csv | None]]


def read(paths: Mapping[str, Sequence[Path]], draft: Draft, device: int | None) -> dict[str, Slices]:
    """Read the slices of every table: the only one into the view of its name, several into one each."""
    found: dict[str, Slices] = {}
    for name, slices in paths.items():
        view = name.removesuffix(".csv")
        one = len(slices) == 1 and device is None
        found[name] = [(path, read_csv(path, draft, view if one else f"{view}_{at}")) for at, path in enumerate(slices)]
    return found


def _together(slices: Slices, draft: Draft, name: str, device: int | None) -> Csv | None:
    """The slices of a table as the view ``name``; None if none of them even holds a header."""
    files = [file for _, file in slices if file is not None]
    if (len(slices) == 1 and device is None) or not files:
        return files[0] if files else None
    damage = [
        Message("is_empty", {"file": path.name}) if file is None else file.damage
        for path, file in slices if file is None or file.damage is not None
    ]  # fmt: skip
    columns = tuple(dict.fromkeys(column for file in files for column in file.columns))
    selects = (
        f"SELECT * REPLACE (row + {at * _ROWS} AS row) FROM {quoted(file.name)}{_of(file, device)}"
        for at, file in enumerate(files)
    )
    draft.make(f"CREATE OR REPLACE VIEW {quoted(name)} AS {' UNION ALL BY NAME '.join(selects)}")
    whole = Csv(files[0].path, name, columns, sum(file.rows for file in files), sum(file.padded for file in files))
    return replace(whole, damage=joined([one for one in damage if one is not None]) if damage else None)


def _of(file: Csv, device: int | None) -> str:
    """The rows of a device, and those of none: the host's."""
    if device is None or not file.has(_DEVICE):
        return ""
    return f" WHERE coalesce({file.whole(_DEVICE)}, {device}) = {device}"


_STAMPED = f"ts_ns BETWEEN {-LATEST} AND {LATEST}"
_NO_ITERATION = "SELECT 0::BIGINT AS step, 0::BIGINT AS ts_ns, 0::BIGINT AS dur_ns, 0::BIGINT AS model WHERE false"
STEP_COLUMNS = {
    "computing_ns": "Computing",
    "communication_ns": "Communication",
    "communication_not_overlapped_ns": "Communication(Not Overlapped)",
    "overlapped_ns": "Overlapped",
    "free_ns": "Free",
    "stage_ns": "Stage",
    "bubble_ns": "Bubble",
    "communication_not_overlapped_exclude_receive_ns": "Communication(Not Overlapped and Exclude Receive)",
    "preparing_ns": "Preparing",
}


def _sizes(file: Csv, prefix: str, names: str) -> str:
    """Allocated, reserved and active bytes of a pool. ``names``: how our columns are called, with {} for which."""
    which = ("Allocated", "Reserved", "Active")
    return ", ".join(f"{file.bytes(f'{prefix} {one}')} AS {names.format(one.lower())}" for one in which)


def _memory_record(file: Csv) -> str:
    return f"""SELECT {file.said("Component")} AS component, {file.ns("Timestamp(us)")} AS ts_ns,
        {_sizes(file, "Total", "{}_bytes")}, {file.said("Stream Ptr")} AS stream_ptr,
        {file.said("Device Type", "Device")} AS device FROM {file.name}"""


def _operator_memory(file: Csv) -> str:
    start = file.ns("Allocation Time(us)")
    release, active = file.ns("Release Time(us)"), file.ns("Active Release Time(us)")
    return f"""SELECT {start} AS ts_ns, coalesce({file.ns("Duration(us)")}, TRY({release} - {start})) AS dur_ns,
        coalesce({file.ns("Active Duration(us)")}, TRY({active} - {start})) AS active_dur_ns,
        {file.said("Name")} AS name, {file.bytes("Size")} AS bytes, {_sizes(file, "Allocation Total", "{}_bytes")},
        {_sizes(file, "Release Total", "release_{}_bytes")}, {file.said("Stream Ptr")} AS stream_ptr,
        {file.said("Device Type", "Device")} AS device FROM {file.name}"""


def _step_trace_time(file: Csv) -> str:
    columns = ", ".join(f"{file.ns(theirs)} AS {ours}" for ours, theirs in STEP_COLUMNS.items())
    return f"SELECT {file.whole('Step')} AS step, {columns}, 'step_trace_time.csv' AS source FROM {file.name}"


def _op_statistic(file: Csv) -> str:
    rest = file.rest(file.others("OP Type", "Core Type", "Count", "Total Time(us)", "Min Time(us)", "Max Time(us)"))
    return f"""SELECT 'op_statistic' AS source, {file.said("OP Type")} AS name, {file.said("Core Type")} AS category,
        {file.whole("Count")} AS count, {file.ns("Total Time(us)")} AS total_ns, {file.ns("Min Time(us)")} AS min_ns,
        {file.ns("Max Time(us)")} AS max_ns, {rest} AS args FROM {file.name}"""


def _api_statistic(file: Csv) -> str:
    rest = file.rest(file.others("API Name", "Level", "Count", "Time(us)", "Min(us)", "Max(us)"))
    return f"""SELECT 'api_statistic' AS source, {file.said("API Name")} AS name, {file.said("Level")} AS category,
        {file.whole("Count")} AS count, {file.ns("Time(us)")} AS total_ns, {file.ns("Min(us)")} AS min_ns,
        {file.ns("Max(us)")} AS max_ns, {rest} AS args FROM {file.name}"""


def _communication_statistic(file: Csv) -> str:
    rest = file.rest(file.others("OP Type", "Count", "Total Time(us)", "Min Time(us)", "Max Time(us)"))
    return f"""SELECT 'communication_statistic' AS source, {file.said("OP Type")} AS name, NULL::VARCHAR AS category,
        {file.whole("Count")} AS count, {file.ns("Total Time(us)")} AS total_ns, {file.ns("Min Time(us)")} AS min_ns,
        {file.ns("Max Time(us)")} AS max_ns, {rest} AS args FROM {file.name}"""


def _listed(source: str, *names: str) -> Callable[[Csv], str]:
    """A file that lists things without times: their names, and everything else as it stands."""

    def select(file: Csv) -> str:
        rest = file.rest(file.others(*names))
        return f"""SELECT '{source}' AS source, {file.said(*names)} AS name, NULL::VARCHAR AS category,
            NULL::BIGINT AS count, NULL::BIGINT AS total_ns, NULL::BIGINT AS min_ns, NULL::BIGINT AS max_ns,
            {rest} AS args FROM {file.name}"""

    return select


def _step_trace(file: Csv) -> str:
    """Iterations of a training job as msprof marks them, in the words of the table step."""
    end, length = file.ns("Iteration End(us)"), file.ns("Iteration Time(us)")
    return f"""SELECT {file.whole("Iteration ID")} AS step, TRY({end} - {length}) AS ts_ns, {length} AS dur_ns,
        {file.whole("Model ID")} AS model FROM {file.name}"""


def _operator_details(file: Csv) -> str:
    """One row per call in the file; here one per operator, with the file's sums of the device in args."""
    own = file.ns("Host Self Duration(us)")
    sums = ", ".join(
        f"{literal(name)}, sum(exact({file.cell(name)})) FILTER (abs(exact({file.cell(name)})) < 1e15)::VARCHAR"
        for name in file.others("Name", "Input Shapes", "Call Stack", "Host Self Duration(us)")
    )
    args = f"json_object({sums})::VARCHAR" if sums else "NULL"
    return f"""SELECT 'operator_details' AS source, {file.said("Name")} AS name, NULL::VARCHAR AS category,
        count(*) AS count, try_cast(sum({own}) AS BIGINT) AS total_ns, min({own}) AS min_ns,
        max({own}) AS max_ns, {args} AS args FROM {file.name} GROUP BY ALL"""


def _l2_cache(file: Csv) -> str:
    return f"""SELECT {file.whole("Stream Id")} AS stream, {file.whole("Task Id")} AS task_id,
        {file.said("Op Name")} AS name, approx({file.cell("Hit Rate")}) AS hit_share,
        approx({file.cell("Victim Rate")}) AS victim_share FROM {file.name}"""


#: File -> its table, how it becomes it, what a row must have.
_FILES: dict[str, tuple[str, Callable[[Csv], str], str]] = {
    "memory_record.csv": ("memory_sample", _memory_record, f"component IS NOT NULL AND {_STAMPED}"),
    "npu_module_mem.csv": ("memory_sample", _memory_record, f"component IS NOT NULL AND {_STAMPED}"),
    "operator_memory.csv": ("memory_event", _operator_memory, f"bytes IS NOT NULL AND coalesce({_STAMPED}, true)"),
    "step_trace_time.csv": (
        "profiler_step",
        _step_trace_time,
        "computing_ns IS NOT NULL OR communication_ns IS NOT NULL",
    ),
    "op_statistic.csv": ("summary", _op_statistic, "name IS NOT NULL"),
    "api_statistic.csv": ("summary", _api_statistic, "name IS NOT NULL"),
    "operator_details.csv": ("summary", _operator_details, "name IS NOT NULL"),
    "communication_statistic.csv": ("summary", _communication_statistic, "name IS NOT NULL"),
    "fusion_op.csv": ("summary", _listed("fusion_op", "Fusion Op"), "name IS NOT NULL"),
    "static_op_mem.csv": ("summary", _listed("static_op_mem", "Op Name", "Name"), "name IS NOT NULL"),
    "step_trace.csv": ("step", _step_trace, f"step IS NOT NULL AND {_STAMPED} AND dur_ns BETWEEN 0 AND {LATEST}"),
    "l2_cache.csv": ("l2_cache", _l2_cache, "name IS NOT NULL"),
}
NAMES = tuple(_FILES)
#: Tables whose rows have a time of their own.
_TIMED = ("memory_sample", "memory_event")


def provide(tables: Mapping[str, Slices], draft: Draft, device: int | None = None) -> None:
    """Provide the tables of what was read."""
    draft.make("CREATE VIEW detail AS SELECT 0 AS span_id, '' AS frames, '' AS shapes WHERE false")
    draft.make(f"CREATE VIEW iteration AS {_NO_ITERATION}")
    mine = strangers.window(draft) if any(_FILES[name][0] in _TIMED for name in tables) else None
    for name, slices in tables.items():
        table, select, wanted = _FILES[name]
        file = _together(slices, draft, name.removesuffix(".csv"), device)
        if file is None:
            draft.partial(table, Message("is_empty", {"file": slices[0][0].name}))
            continue
        tell(file, table, draft)
        view = f"{file.name}_rows"
        draft.keep(view, select(file))
        if table in _TIMED and strangers.table(draft, mine, view, table, name):
            continue
        lost = count(draft, f"SELECT count(*) FROM {view} WHERE ({wanted}) IS NOT TRUE")
        draft.drop(table, Message("rows_that_lack_what_names", {"file": name}), lost)
        if table == "l2_cache":
            _match_l2(draft)
        elif table == "step":
            draft.make(f"CREATE OR REPLACE VIEW iteration AS SELECT * FROM {view} WHERE {wanted}")
        else:
            draft.provide(table, f"SELECT * FROM {view} WHERE {wanted}")
        if name == "operator_details.csv":
            _details(file, draft)


def say(name: str, slices: Slices, draft: Draft) -> None:
    """What of the only slice of a table could not be read as it ought to be."""
    table, (path, file) = _FILES[name][0], slices[0]
    if file is None:
        draft.partial(table, Message("is_empty", {"file": path.name}))
    else:
        tell(file, table, draft)


def tell(file: Csv, table: str, draft: Draft) -> None:
    """What of a file could not be read as it ought to be."""
    if file.damage:
        draft.partial(table, file.damage)
    if file.padded:
        draft.note(table, Message("rows_have_too_few_or", {"n": file.padded, "file": file.path.name}))


def _match_l2(draft: Draft) -> None:
    """The kernel of each row. Task ids come round again, so a row is matched only if one kernel fits it."""
    draft.provide(
        "l2_cache",
        """SELECT r.*, k.span_id FROM l2_cache_rows r LEFT JOIN (
            SELECT stream, task AS task_id, name, min(row) AS span_id FROM dev WHERE kind = 'kernel'
            GROUP BY stream, task, name HAVING count(*) = 1) k
        ON k.stream = r.stream AND k.task_id = r.task_id AND k.name = r.name WHERE r.name IS NOT NULL""",
    )


def _details(file: Csv, draft: Draft) -> None:
    """The view ``detail``, stack and shapes of calls. The n-th row of a name is its n-th call, if both are as many."""
    nth = "row_number() OVER (PARTITION BY name ORDER BY {0}) AS nth, count(*) OVER (PARTITION BY name) AS calls"
    rows = f"""SELECT *, {nth.format("row")} FROM (
        SELECT row, {file.said("Name")} AS name, {frames(file.said("Call Stack"))} AS frames,
            {one_line(file.said("Input Shapes"))} AS shapes FROM {file.name})"""
    calls = f"""SELECT *, {nth.format("ts, span_id")} FROM (
        SELECT x.row AS span_id, x.ts, n.text AS name FROM x_host x JOIN word n ON n.code = x.name
        JOIN word c ON c.code = x.cat AND c.text = 'cpu_op')"""
    both = f"({rows}) d JOIN ({calls}) c USING (name, nth, calls)"
    draft.keep("detail", f"SELECT c.span_id, d.frames, d.shapes FROM {both}")
