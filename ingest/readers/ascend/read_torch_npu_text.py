"""torch_npu and msprof text exports: trace_view.json and the CSV and JSON files beside it.

The trace gives the spans; kernel_details says what the kernels were, communication.json how the profiler
analysed its operators. Any of the files may be missing: each gives what it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, at_level, joined, listed
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import cells, completeness, device, prof_dir, rankdir, shared
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.text import comm, comm_json, csv_tables, exports, host, lanes, links, strangers
from npulens.ingest.readers.ascend.text.trace_view import LATEST, Pass, read_trace
from npulens.ingest.tables import checks
from npulens.ingest.tables.draft import Draft, give_back
from npulens.ingest.tables.sqltext import literal

_WITH_LANE = ("x_host", "x_hardware", "x_comm", "flow")
_WITH_PID = ("meta", "counter", "counter_rest")


def settle(draft: Draft, files: int, device: int | None) -> None:
    """Replace the views of the raw tables where there are several files or devices; else they are right as they are."""
    if files < 2 and device is None:
        return
    lanes = " UNION ".join(f"SELECT lane FROM {name}" for name in _WITH_LANE)
    draft.make(f"""
        CREATE TEMP TABLE same_lane AS SELECT lane, first FROM (
            SELECT lane, min(lane) OVER (PARTITION BY p.text, t.text) AS first FROM ({lanes})
            LEFT JOIN str p ON p.code = lane >> 32 LEFT JOIN str t ON t.code = lane & 4294967295)
        WHERE lane <> first""")
    draft.make(f"""
        CREATE TEMP TABLE foreign_pid AS
        WITH labelled AS (
            SELECT p.text AS pid, l.text AS label FROM meta m JOIN str p ON p.code = m.pid
            JOIN str w ON w.code = m.name AND w.text = 'process_labels' JOIN str l ON l.code = m.labels)
        SELECT code::BIGINT AS code FROM str WHERE {device is not None} AND text IN (
            SELECT pid FROM labelled WHERE regexp_full_match(label, 'NPU \\d+') AND label <> 'NPU {device}'
            AND pid NOT IN (SELECT pid FROM labelled WHERE label = 'NPU {device}'))""")
    for name in _WITH_LANE:
        draft.make(f"""
            CREATE OR REPLACE VIEW {name} AS SELECT r.* REPLACE (coalesce(s.first, r.lane) AS lane)
            FROM {draft.raw[name]} r LEFT JOIN same_lane s ON s.lane = r.lane
            WHERE (r.lane >> 32) NOT IN (SELECT code FROM foreign_pid)""")
    for name in _WITH_PID:
        ours = "pid NOT IN (SELECT code FROM foreign_pid)"
        draft.make(f"CREATE OR REPLACE VIEW {name} AS FROM {draft.raw[name]} WHERE {ours}")


def say_shared(draft: Draft, device: int, beside: Sequence[int], root: Path) -> None:
    """What a rank that shares its export says of it; a device of which the export has nothing is no rank."""
    if not count(draft, "SELECT (SELECT count(*) FROM x_hardware) + (SELECT count(*) FROM x_comm) + count(*) FROM kd"):
        raise IngestError("empty", Message("export_holds_nothing_device", {"device": device}), str(root))
    listed = ", ".join(map(str, beside))
    draft.note("span", Message("one_process_drove_devices_its", {"devices": listed}))
    draft.fact("device_id", device)


TITLE = "torch_npu text export"


def sniff(path: Path) -> Claim | None:
    """A rank directory, its output directory, or one of our files on its own."""
    seen = peek.at(path)
    if seen.is_file:
        return _claim(path.parent, [path]) if _is_ours(path.name) and path.suffix != ".gz" else None
    if not seen.is_dir:
        return None
    root = rankdir.rank_root(path) or path
    return _claim(root, [file for directory in rankdir.output_dirs(root) for file in _listed(directory)])


def read(claim: Claim, draft: Draft) -> None:
    """Fill the draft from whatever of the files there is."""
    try:
        _read(claim, draft)
    except duckdb.Error as error:
        raise IngestError(
            "failed", Message("text_export_gives_no_tables", {"error": error}), str(claim.root)
        ) from error


def _read(claim: Claim, draft: Draft) -> None:
    if not any(path.stat().st_size for path in claim.files if _is_ours(path.name)):
        raise IngestError(
            "empty", joined([Message("its_files_hold_no_bytes"), completeness.again(claim.root)]), str(claim.root)
        )
    one = claim.device
    if one is not None and not claim.shared:
        raise IngestError("shared", Message("text_does_not_say_which"), str(claim.root))
    chosen = exports.choose(claim.files, one)
    rankdir.describe(claim.root, draft, one)
    known = rankdir.groups_of(claim.root)
    groups = {number: name for number, (name, _) in known.items()}
    groups |= {number: groups.get(number, number) for number in rankdir.facts(claim.root).groups}
    cells.macros(draft)
    done = read_trace(chosen.trace, draft)
    settle(draft, len(chosen.trace), one)
    give_back()
    metrics = read_kernels(chosen.kernels, draft, one)
    strangers.kernels(draft, chosen.kernels)
    if one is not None:
        say_shared(draft, one, claim.beside, claim.root)
    lane_rows = lanes.name_lanes(draft, groups)
    comm_json.read_operators(_find(claim, exports.COMMUNICATION[0]), draft)
    device.make(draft)
    comm.provide(draft, groups, dict(known.values()))
    comm_json.read_matrix(_find(claim, exports.COMMUNICATION[1]), draft, groups)
    device.provide(draft)
    links.provide(draft, several=len(chosen.trace) > 1)
    csv_tables.provide(chosen.tables, draft, one)
    host.provide(draft)
    _samples(draft)
    draft.make("CREATE VIEW kernel_span AS SELECT row AS span_id, kd FROM dev WHERE kd IS NOT NULL")
    if metrics:
        draft.provide("pmu", pmu(metrics, "kernel_span"))
    _said(draft)
    facts(claim.root, draft)
    tell(claim, draft, done, lane_rows)
    unread(claim, chosen.unread, draft)


def _is_ours(name: str) -> bool:
    return exports.name(name) is not None


def _listed(directory: Path) -> list[Path]:
    try:
        ours = (directory / name for name in peek.at(directory).names if _is_ours(name))
        return sorted(path for path in ours if path.is_file())
    except OSError:
        return []


def _claim(root: Path, files: list[Path]) -> Claim | None:
    if root.name in (rankdir.OUTPUT, rankdir.MSPROF_OUTPUT):
        root = root.parent
    if not files:
        return None
    every = tuple(sorted({*files, *rankdir.small_files(root)}))
    return Claim("torch_npu_text", root, every, rankdir.facts(root), shared.by_text(root, files))


def _find(claim: Claim, name: str) -> Path | None:
    return next((path for path in claim.files if path.name == name), None)


def _said(draft: Draft) -> None:
    """Sums that follow from whole files and that no table keeps."""
    for source, quantity, table, query in (
        (
            "kernel_details.csv",
            checks.KERNELS,
            "kernel",
            "SELECT sum(dur) FROM kd WHERE NOT comm AND NOT is_task "
            "AND row NOT IN (SELECT kd FROM dev WHERE kind = 'device_other' AND kd IS NOT NULL)",
        ),
        ("communication.json", checks.OPERATORS, "comm", "SELECT sum(elapsed_ns) FROM op_analysed"),
    ):
        total = draft.con.execute(f"SELECT ({query})::BIGINT").fetchall()[0][0]
        if total is not None:
            draft.said.append(checks.FileSum(source, table, quantity, None, total))


def _samples(draft: Draft) -> None:
    """Counters. Those of an accelerator are told apart by its number."""
    accelerator = "'Acc PMU ' || c.accelerator || '/' || replace(n.text, 'band_width', 'bandwidth')"
    name = f"CASE WHEN c.accelerator IS NULL THEN n.text ELSE {accelerator} END"
    draft.provide(
        "sample",
        f"SELECT {name} AS counter, c.series, c.ts AS ts_ns, c.value FROM counter c JOIN str n ON n.code = c.name",
    )
    draft.provide(
        "sample",
        """SELECT n.text AS counter, s.key AS series, s.ts AS ts_ns, finite(try_cast(s.value AS DOUBLE)) AS value
        FROM (SELECT name, ts, unnest(json_keys(rest)) AS key, unnest(json_extract_string(rest, '$.*')) AS value
              FROM counter_rest WHERE json_valid(rest)) s JOIN str n ON n.code = s.name
        WHERE finite(try_cast(s.value AS DOUBLE)) IS NOT NULL""",
    )


# kernel_details.csv and op_summary: what each device task was, under every set of columns a version wrote.
# The names of kernel_details, of op_summary, and of task_time.
_START = ("Start Time(us)", "Task Start Time(us)", "task_start(us)")
_DURATION = ("Duration(us)", "Task Duration(us)", "task_time(us)")
_WAIT = ("Wait Time(us)", "Task Wait Time(us)")
_NAME = ("Name", "Op Name", "kernel_name")
_TYPE = ("Type", "OP Type")
_CORE = ("Accelerator Core", "Task Type", "kernel_type")
_STREAM, _TASK = ("Stream ID", "stream_id"), ("Task ID", "task_id")
_BLOCK = ("Block Num", "Block Dim")
_MIX = ("Mix Block Num", "Mix Block Dim")
_TENSORS = {
    f"{side.lower()}_{what}": f"{side} {title}"
    for side in ("Input", "Output")
    for what, title in (("shapes", "Shapes"), ("dtypes", "Data Types"), ("formats", "Formats"))
}
_PLAIN = ("Step Id", "Device_id", "Model ID", *_STREAM, *_TASK, "OP State", "HF32 Eligible", "Context ID")
#: Columns that are no measurement of a core.
_NOT_PMU = (
    *_START, *_DURATION, *_WAIT, *_NAME, *_TYPE, *_CORE, *_BLOCK, *_MIX, *_PLAIN, *_TENSORS.values(),
    "Model Name", "Infer ID", "Iteration ID", "Index ID", "Op ID", "Thread ID", "Batch ID",
    "task_stop(us)",
)  # fmt: skip


def read_kernels(paths: Sequence[Path], draft: Draft, device: int | None = None) -> tuple[str, ...]:
    """Make the view ``kd``, one row per line of the files, and name the measurements it has as ``pmu_N``.

    ``device``: of files about several devices the one that is meant.
    """
    files: list[Csv] = []
    for at, path in enumerate(paths):
        if found := read_csv(path, draft, f"kernel_csv_{at}"):
            files.append(found)
        else:
            draft.partial("kernel", Message("is_empty", {"file": path.name}))
    metrics = tuple(dict.fromkeys(name for file in files for name in file.others(*_NOT_PMU)))
    for file in files:
        if file.damage:
            draft.partial("kernel", file.damage)
        if file.padded:
            draft.note("kernel", Message("rows_have_too_few_or", {"n": file.padded, "file": file.path.name}))
    selects = [_select(file, metrics, at) for at, file in enumerate(files)] or [_nothing()]
    draft.keep("kd_all", " UNION ALL BY NAME ".join(selects))
    whole = f"ts BETWEEN {-LATEST} AND {LATEST} AND dur BETWEEN 0 AND {LATEST} AND name IS NOT NULL"
    ours = "true" if device is None else f"coalesce(device, {device}) = {device}"
    broken = count(draft, f"SELECT count(*) FROM kd_all WHERE {ours} AND ({whole}) IS NOT TRUE")
    draft.drop("kernel", Message("row_without_name_start_or"), broken)
    draft.make(f"CREATE VIEW kd AS FROM kd_all WHERE {ours} AND {whole}")
    return metrics


def pmu(metrics: Sequence[str], spans: str) -> str:
    """SQL of the pmu table for rows of ``spans`` (span_id, kd)."""
    names = ", ".join(literal(name) for name in metrics)
    values = ", ".join(f"pmu_{at}" for at in range(len(metrics)))
    return (
        f"SELECT * FROM (SELECT s.span_id, unnest([{names}]) AS metric, unnest([{values}]) AS value "
        f"FROM {spans} s JOIN kd k ON k.row = s.kd) WHERE value IS NOT NULL"
    )


def _select(file: Csv, metrics: Sequence[str], at: int) -> str:
    name, core = file.said(*_NAME), file.said(*_CORE)
    columns = {
        "row": f"row + {at << 36}",
        "ts": file.ns(*_START),
        "dur": file.ns(*_DURATION),
        "name": name,
        "step": file.whole("Step Id"),
        "device": file.whole("Device_id"),
        "model": file.whole("Model ID"),
        "task": file.whole(*_TASK),
        "stream": file.whole(*_STREAM),
        "context": file.whole("Context ID"),
        # task_time lists every task, op_summary and kernel_details operators only
        "is_task": "true" if file.has("kernel_type") else "false",
        "op_type": file.said(*_TYPE),
        "core": core,
        "comm": f"coalesce(upper({core}) IN ('HCCL', 'COMMUNICATION'), starts_with({name}, 'hcom_'), false)",
        "op_state": file.said("OP State"),
        "hf32": file.said("HF32 Eligible"),
        "block": file.whole(*_BLOCK),
        "mix": file.whole(*_MIX),
        "wait": file.ns(*_WAIT),
        **{ours: f"nullif(trim({file.said(theirs)}, '\"'), '')" for ours, theirs in _TENSORS.items()},
        **{f"pmu_{n}": f"approx({file.cell(metric)})" for n, metric in enumerate(metrics)},
    }
    listed = ", ".join(f"{expression} AS {ours}" for ours, expression in columns.items())
    return f"SELECT {listed} FROM {file.name}"


def _nothing() -> str:
    """No rows, with every column."""
    return _select(Csv(Path(), "(SELECT 0::BIGINT AS row WHERE false)", ()), (), 0)


# What a text export holds of the rank it is of, what it lost, what it lacks and which setting records that.
_TRACE = re.compile(r"^(trace_view|msprof).*\.json(\.gz)?$")
#: Stamps before 2001 are no wall clock.
_WALL_CLOCK_NS = 10**18
#: What msprof appends to the names of its files.
_NUMBERS = re.compile(r"(_slice)?(_\d+)+(?=\.)")
#: Names of passed over files that are listed.
_LISTED = 20
_STATISTICS = ("op_statistic.csv", "api_statistic.csv", "operator_details.csv")
_LEVEL1 = "profiler_level=Level1"
_DEVICE = "activities=[CPU, NPU]"


def facts(root: Path, draft: Draft) -> None:
    """Columns of ``rank`` that only the files themselves can tell."""
    both = "SELECT min(ts) AS ts FROM x UNION ALL SELECT min(ts) FROM kd UNION ALL SELECT min(ts) FROM op_json"
    first = draft.con.execute(f"SELECT min(ts) FROM ({both})").fetchall()[0][0]
    if first is not None:
        draft.fact("clock", "unix" if first >= _WALL_CLOCK_NS else "monotonic")
    devices = draft.con.execute("SELECT DISTINCT device FROM kd WHERE device BETWEEN 0 AND 2147483647").fetchall()
    if len(devices) == 1:
        draft.fact("device_id", devices[0][0])
    named = rankdir.worker(root)
    if named and draft.facts.get("pid") in (None, named[1]):
        draft.fact("host", named[0])


def tell(claim: Claim, draft: Draft, done: Pass, lanes: Sequence[Mapping[str, object]]) -> None:
    """Coverage of everything the files of a claim gave."""
    for reason, number in done.lost.items():
        draft.drop("span", reason, number)
    for reason in done.damage:
        draft.partial("span", reason)
        draft.partial(None, reason)
    if done.repeated:
        draft.note("arg", Message("arguments_that_repeat_span_s", {"n": done.repeated}))
    unnamed = sorted({str(lane["pid"]) for lane in lanes if lane["unnamed"]})
    if unnamed:
        listed = ", ".join(unnamed[:5])
        draft.note("track", Message("trace_names_no_process_for", {"pids": listed}))
    _absent(claim, draft)


def unread(claim: Claim, reasons: Sequence[str], draft: Draft) -> None:
    """Files of the export that are passed over, and why."""
    for reason in reasons:
        draft.note("arg", Message("not_read", {"reason": reason}))
    if not claim.root.is_dir():
        return
    others = {
        _NUMBERS.sub("", path.name)
        for directory in {path.parent for path in claim.files}
        for path in directory.iterdir()
        if path.suffix in (".csv", ".json") and path not in claim.files
    }
    if others:
        draft.note("arg", Message("not_read_no_table_holds", {"files": listed(sorted(others), _LISTED)}))


def _absent(claim: Claim, draft: Draft) -> None:
    """Every table that has nothing says why, and what would record it."""
    level = rankdir.level(claim.root)
    has_trace = any(_TRACE.match(path.name) for path in claim.files)
    no_trace = None if has_trace else Message("there_is_no_trace_view")
    framework = (Message("msprof_records_no_operators_framework") if prof_dir.NAME.match(claim.root.name) else None)
    recorded = (
        ("kernel", "dev WHERE kind IN ('kernel', 'memset')", Message("no_device_tasks_were_recorded"), _DEVICE),
        ("host_op", "x_host WHERE sequence IS NOT NULL OR connection IS NOT NULL OR correlation IS NOT NULL",
         framework or no_trace or Message("no_operators_were_recorded"), _DEVICE),
        ("link", "arrow WHERE src <> dst", no_trace or at_level(level, "no_cann_calls_were_recorded"), _LEVEL1),
        ("stack", "(SELECT stack FROM x_host UNION ALL SELECT frames FROM detail) s(f) WHERE f IS NOT NULL",
         framework or no_trace or Message("no_call_stacks_were_recorded"), "with_stack=True"),
        ("sample", "(SELECT name FROM counter UNION ALL SELECT name FROM counter_rest)",
         no_trace or Message("no_counters_were_recorded"), _DEVICE),
        ("clock", "rankdir_clock", Message("profiler_info_says_nothing_about"), None),
    )  # fmt: skip
    asked = ", ".join(f"EXISTS (FROM {rows})" for _, rows, _, _ in recorded)
    found = draft.con.execute(f"SELECT {asked}").fetchall()[0]
    for (table, _, reason, setting), there in zip(recorded, found, strict=True):
        if not there:
            draft.absent(table, reason, setting)
    if no_trace:
        draft.absent("transfer", Message("and_no_other_file_names", {"reason": no_trace}), None)
    names = {named.base for path in claim.files if (named := exports.name(path.name))}
    for table, wanted, reason, setting in (
        (
            "memory_sample",
            ("memory_record.csv", "npu_module_mem.csv"),
            Message("no_memory_was_recorded"),
            "profile_memory=True",
        ),
        ("memory_event", ("operator_memory.csv",), Message("no_memory_was_recorded"), "profile_memory=True"),
        ("l2_cache", ("l2_cache.csv",), Message("no_l2_cache_rates_were"), "l2_cache=True"),
        (
            "comm_link",
            ("communication_matrix.json",),
            at_level(level, "no_bandwidth_between_ranks_was"),
            _LEVEL1,
        ),
        (
            "profiler_step",
            ("step_trace_time.csv",),
            Message("no_step_trace_time_csv"),
            "schedule(...) and prof.step()",
        ),
        ("summary", _STATISTICS, at_level(level, "no_statistics_were_exported"), _LEVEL1),
    ):
        if names.isdisjoint(wanted):
            draft.absent(table, reason, setting)
    if "pmu" not in draft.selects:
        draft.absent(
            "pmu", at_level(level, "no_ai_core_counters_were"), f"{_LEVEL1}, aic_metrics=PipeUtilization"
        )
