"""torch_npu and msprof text exports: trace_view.json and the CSV and JSON files beside it.

The trace gives the spans; kernel_details says what the kernels were, communication.json how the profiler
analysed its operators. Any of the files may be missing: each gives what it has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, at_level, joined, listed
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import cells, completeness, device, prof_dir, rankdir, shared
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.text import (
    columns,
    comm,
    comm_json,
    csv_tables,
    exports,
    few,
    host,
    links,
    strangers,
    task_time,
)
from npulens.ingest.readers.ascend.text import lanes as text_lanes
from npulens.ingest.readers.ascend.text.trace_view import LATEST, Pass, read_trace, see
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
    if one is None and len(chosen.trace) == 1:
        draft.take_hold()
    export = _spool(claim, chosen, draft)
    made, matrix = _at_once(export, draft), (draft.raws or {}).get("matrix")
    if made is None:
        draft.let_go()
    else:
        draft.give_up()
    clock = rankdir.describe(claim.root, draft, one, claim.files)
    if made is None:
        lanes, there = _state(claim, chosen, export, draft)
    else:
        lanes, there = _give(claim.root, export, made, matrix, draft)
    tell(claim, draft, export.done, lanes, [*there, clock])
    unread(claim, chosen.unread, draft)


#: Lanes, and whether there are kernels, operators, links, stacks, counters.
Told = tuple[Sequence[Mapping[str, object]], Sequence[bool]]


def _state(claim: Claim, chosen: exports.Chosen, export: Export, draft: Draft) -> Told:
    """Contract tables by statements."""
    one = claim.device
    cells.macros(draft)
    see(draft)
    settle(draft, len(chosen.trace), one)
    give_back()
    metrics = make_kernels(export.kernels, draft, one, export.cores)
    strangers.kernels(draft, chosen.kernels)
    if one is not None:
        say_shared(draft, one, claim.beside, claim.root)
    lane_rows = text_lanes.name_lanes(draft, export.groups)
    device.make(draft)
    comm.provide(draft, export.groups, export.ranks)
    if export.matrix:
        draft.provide("comm_link", "SELECT * FROM matrix")
    device.provide(draft)
    links.provide(draft, several=len(chosen.trace) > 1, traced=export.done.traced)
    csv_tables.provide(export.tables, draft, one)
    host.provide(draft)
    if export.done.traced is not None:
        export.done.traced.provide(draft)
    _samples(draft)
    draft.make("CREATE VIEW kernel_span AS SELECT row AS span_id, kd FROM dev WHERE kd IS NOT NULL")
    if metrics:
        draft.provide("pmu", pmu(metrics, "kernel_span"))
    _said(draft, sums(draft))
    facts(claim.root, draft, first_stamp(draft), devices(draft))
    return lane_rows, recorded(draft)


def _at_once(export: Export, draft: Draft) -> few.Made | None:
    """What is made of arrays, where the export is small and usual."""
    files = [file for _, file in export.kernels if file is not None]
    tables = {name: slices[0][1] for name, slices in export.tables.items() if len(slices) == 1}
    if draft.raws is None or not draft.small:
        return None
    if len(tables) < len(export.tables) or len(files) < len(export.kernels):
        return None
    there = {name: file for name, file in tables.items() if file is not None}
    groups = few.Groups(export.groups, export.ranks)
    return few.make(draft.raws, files, measured(files), there, groups, draft.rank)


def _give(root: Path, export: Export, made: few.Made, matrix: pa.Table | None, draft: Draft) -> Told:
    """Contract tables that were made of arrays."""
    say_kernels(export.kernels, draft)
    for key, value in text_lanes.facts(made.named):
        draft.fact(key, value)
    if export.matrix and matrix is not None:
        draft.give("comm_link", "matrix", matrix)
    for name, slices in export.tables.items():
        csv_tables.say(name, slices, draft)
    made.found.say(draft)
    _said(draft, made.sums)
    facts(root, draft, made.first, made.devices)
    return made.lanes.rows, made.recorded


@dataclass(frozen=True)
class Export:
    """What was read of an export, before anything is made of it."""

    done: Pass
    kernels: csv_tables.Slices
    tables: Mapping[str, csv_tables.Slices]
    matrix: bool  # whether there is a file of bandwidths between ranks
    groups: Mapping[str, str]  # hash of a group -> its name
    ranks: Mapping[str, tuple[int, ...]]  # name of a group -> its ranks
    cores: csv_tables.Slices = ()  # every task with its kind of core


def _spool(claim: Claim, chosen: exports.Chosen, draft: Draft) -> Export:
    """Read every file of an export into raw tables."""
    known = rankdir.groups_of(claim.root)
    groups = {number: name for number, (name, _) in known.items()}
    groups |= {number: groups.get(number, number) for number in rankdir.facts(claim.root).groups}
    alone = "operator_details.csv" not in chosen.tables
    done = read_trace(chosen.trace, draft, whole=claim.device is None, alone=alone)
    kernels = [(path, read_csv(path, draft, f"kernel_csv_{at}")) for at, path in enumerate(chosen.kernels)]
    comm_json.read_operators(_find(claim, exports.COMMUNICATION[0]), draft)
    matrix = _find(claim, exports.COMMUNICATION[1])
    comm_json.read_matrix(matrix, draft, groups)
    tables = csv_tables.read(chosen.tables, draft, claim.device)
    cores = [(path, read_csv(path, draft, f"core_csv_{at}")) for at, path in enumerate(chosen.cores)]
    return Export(done, kernels, tables, matrix is not None, groups, dict(known.values()), cores)


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


def sums(draft: Draft) -> tuple[int | None, int | None]:
    """What kernel_details and communication.json come to."""
    kernels = (
        "SELECT sum(dur) FROM kd WHERE NOT comm AND NOT is_task "
        "AND row NOT IN (SELECT kd FROM dev WHERE kind = 'device_other' AND kd IS NOT NULL)"
    )
    query = f"SELECT ({kernels})::BIGINT, (SELECT sum(elapsed_ns) FROM op_analysed)::BIGINT"
    found: tuple[int | None, int | None] = draft.con.execute(query).fetchall()[0]
    return found


def _said(draft: Draft, told: tuple[int | None, int | None]) -> None:
    """Sums that follow from whole files and that no table keeps."""
    sources = (("kernel_details.csv", checks.KERNELS, "kernel"), ("communication.json", checks.OPERATORS, "comm"))
    for (source, quantity, table), total in zip(sources, told, strict=True):
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


def measured(files: Sequence[Csv]) -> tuple[str, ...]:
    """The measurements of cores that files have."""
    return tuple(dict.fromkeys(name for file in files for name in file.others(*columns.NOT_PMU)))


def say_kernels(slices: csv_tables.Slices, draft: Draft) -> None:
    """What of the files could not be read as it ought to be."""
    for path, file in slices:
        if file is None:
            draft.partial("kernel", Message("is_empty", {"file": path.name}))
    for _, file in slices:
        if file is not None:
            csv_tables.tell(file, "kernel", draft)


def make_kernels(
    slices: csv_tables.Slices, draft: Draft, device: int | None = None, cores: csv_tables.Slices = ()
) -> tuple[str, ...]:
    """Make the view ``kd``, one row per line of the files, and name the measurements it has as ``pmu_N``.

    ``device``: of files about several devices the one that is meant. ``cores``: what lists every task beside them: it
    says cores that they do not say, and tasks that are no kernels.
    """
    say_kernels(slices, draft)
    say_kernels(cores, draft)
    files = [file for _, file in slices if file is not None]
    metrics = measured(files)
    selects = [_select(file, metrics, at) for at, file in enumerate(files)] or [_nothing()]
    whole = f"ts BETWEEN {-LATEST} AND {LATEST} AND dur BETWEEN 0 AND {LATEST} AND name IS NOT NULL"
    ours = "true" if device is None else f"coalesce(device, {device}) = {device}"
    tasks = [file for _, file in cores if file is not None]
    every = task_time.with_cores(" UNION ALL BY NAME ".join(selects), tasks)
    draft.make("CREATE VIEW task_doubt AS SELECT 0::BIGINT AS row WHERE false")
    draft.keep("kd_all", _with_tasks(draft, every, files, tasks, f"{ours} AND NOT rounded AND {whole}"))
    _sum_rounded(draft, ours)
    broken = count(draft, f"SELECT count(*) FROM kd_all WHERE {ours} AND NOT rounded AND ({whole}) IS NOT TRUE")
    draft.drop("kernel", Message("row_without_name_start_or"), broken)
    draft.make(f"CREATE VIEW kd AS FROM kd_all WHERE {ours} AND NOT rounded AND {whole}")
    return metrics


def _with_tasks(draft: Draft, every: str, files: Sequence[Csv], tasks: Sequence[Csv], whole: str) -> str:
    """Rows of kernels, and those of the other tasks where a file lists all of them; what is damaged lists some."""
    if not tasks or any(file.damage for file in tasks):
        return every
    draft.keep("kd_told", every)
    if count(draft, "SELECT count(*) FROM kd_told WHERE rounded"):
        return "FROM kd_told"
    draft.keep(
        "task_told",
        " UNION ALL BY NAME ".join(_select(file, (), at) for at, file in enumerate(tasks, len(files))),
    )
    by_device = all(file.has("Device_id") for file in (*files, *tasks))
    return f"FROM kd_told UNION ALL BY NAME {task_time.others(draft, whole, by_device)}"


def _sum_rounded(draft: Draft, ours: str) -> None:
    """Rows whose start lost its digits say nothing of when: of them only the sums are kept."""
    lost = count(draft, f"SELECT count(*) FROM kd_all WHERE {ours} AND rounded")
    if not lost:
        return
    draft.drop("kernel", Message("start_times_were_rounded"), lost)
    draft.partial(None, Message("start_times_were_rounded"))
    draft.provide(
        "summary",
        f"""SELECT 'kernel_details' AS source, coalesce(op_type, name) AS name, core AS category, count(*) AS count,
        sum(dur)::BIGINT AS total_ns, min(dur) AS min_ns, max(dur) AS max_ns, NULL::VARCHAR AS args
        FROM kd_all WHERE {ours} AND rounded AND dur BETWEEN 0 AND {LATEST} AND NOT comm
        AND coalesce(op_type, name) IS NOT NULL GROUP BY ALL""",
    )


def pmu(metrics: Sequence[str], spans: str) -> str:
    """SQL of the pmu table for rows of ``spans`` (span_id, kd)."""
    names = ", ".join(literal(name) for name in metrics)
    values = ", ".join(f"pmu_{at}" for at in range(len(metrics)))
    return (
        f"SELECT * FROM (SELECT s.span_id, unnest([{names}]) AS metric, unnest([{values}]) AS value "
        f"FROM {spans} s JOIN kd k ON k.row = s.kd) WHERE value IS NOT NULL"
    )


def _select(file: Csv, metrics: Sequence[str], at: int) -> str:
    name, core = file.said(*columns.NAME), file.said(*columns.CORE)
    if file.has("kernel_type"):  # task_time names kernels only; other tasks have their kind
        name = f"coalesce({name}, {core})"
    made = {
        "row": f"row + {at << 36}",
        "ts": file.ns(*columns.START),
        "dur": file.ns(*columns.DURATION),
        "rounded": f"regexp_matches(coalesce({file.cell(*columns.START)}, ''), '{columns.ROUNDED}')",
        "name": name,
        "step": file.whole("Step Id"),
        "device": file.whole("Device_id"),
        "model": file.whole("Model ID"),
        "task": file.whole(*columns.TASK),
        "stream": file.whole(*columns.STREAM),
        "context": file.whole("Context ID"),
        # task_time lists every task, op_summary and kernel_details operators only
        "is_task": "true" if file.has("kernel_type") else "false",
        "op_type": file.said(*columns.TYPE),
        "core": core,
        "comm": f"coalesce(upper({core}) IN ('HCCL', 'COMMUNICATION'), starts_with({name}, 'hcom_'), false)",
        "op_state": file.said("OP State"),
        "hf32": file.said("HF32 Eligible"),
        "block": file.whole(*columns.BLOCK),
        "mix": file.whole(*columns.MIX),
        "wait": file.ns(*columns.WAIT),
        **{ours: f"nullif(trim({file.said(theirs)}, '\"'), '')" for ours, theirs in columns.TENSORS.items()},
        **{f"pmu_{n}": f"approx({file.cell(metric)})" for n, metric in enumerate(metrics)},
    }
    listed = ", ".join(f"{expression} AS {ours}" for ours, expression in made.items())
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


def first_stamp(draft: Draft) -> int | None:
    """The earliest stamp of any file."""
    both = "SELECT min(ts) AS ts FROM x UNION ALL SELECT min(ts) FROM kd UNION ALL SELECT min(ts) FROM op_json"
    first: int | None = draft.con.execute(f"SELECT min(ts) FROM ({both})").fetchall()[0][0]
    return first


def devices(draft: Draft) -> list[int]:
    """The devices that kernel_details is about."""
    found = draft.con.execute("SELECT DISTINCT device FROM kd WHERE device BETWEEN 0 AND 2147483647").fetchall()
    return [device for (device,) in found]


def facts(root: Path, draft: Draft, first: int | None, about: Sequence[int]) -> None:
    """Columns of ``rank`` that only the files themselves can tell: by the first stamp and the devices."""
    if first is not None:
        draft.fact("clock", "unix" if first >= _WALL_CLOCK_NS else "monotonic")
    if len(about) == 1:
        draft.fact("device_id", about[0])
    named = rankdir.worker(root)
    if named and draft.facts.get("pid") in (None, named[1]):
        draft.fact("host", named[0])


def tell(claim: Claim, draft: Draft, done: Pass, lanes: Sequence[Mapping[str, object]], there: Sequence[bool]) -> None:
    """Coverage of everything the files of a claim gave. ``there``: as `recorded`, and a clock."""
    for reason, number in done.lost.items():
        draft.drop("span", reason, number)
    for reason in done.damage:
        draft.cut(reason)
    if done.repeated:
        draft.note("arg", Message("arguments_that_repeat_span_s", {"n": done.repeated}))
    unnamed = sorted({str(lane["pid"]) for lane in lanes if lane["unnamed"]})
    if unnamed:
        listed = ", ".join(unnamed[:5])
        draft.note("track", Message("trace_names_no_process_for", {"pids": listed}))
    _absent(claim, draft, there)


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


def recorded(draft: Draft) -> Sequence[bool]:
    """Whether there are kernels, operators, links, stacks, counters."""
    rows = (
        "dev WHERE kind IN ('kernel', 'memset')",
        "x_host WHERE sequence IS NOT NULL OR connection IS NOT NULL OR correlation IS NOT NULL",
        "arrow WHERE src <> dst",
        "(SELECT stack FROM x_host UNION ALL SELECT frames FROM detail) s(f) WHERE f IS NOT NULL",
        "(SELECT name FROM counter UNION ALL SELECT name FROM counter_rest)",
    )
    found: tuple[bool, ...] = draft.con.execute(f"SELECT {', '.join(f'EXISTS (FROM {of})' for of in rows)}").fetchall()[
        0
    ]
    return found


def _absent(claim: Claim, draft: Draft, there: Sequence[bool]) -> None:
    """Every table that has nothing says why, and what would record it."""
    level = rankdir.level(claim.root)
    has_trace = any(_TRACE.match(path.name) for path in claim.files)
    by_msprof = prof_dir.NAME.match(claim.root.name) or rankdir.by_msprof(path.name for path in claim.files)
    no_trace = None if has_trace else Message("there_is_no_msprof_json" if by_msprof else "there_is_no_trace_view")
    framework = Message("msprof_records_no_operators_framework") if by_msprof else None
    lacking = (
        ("kernel", Message("no_device_tasks_were_recorded"), _DEVICE),
        ("host_op", framework or no_trace or Message("no_operators_were_recorded"), _DEVICE),
        ("link", no_trace or at_level(level, "no_cann_calls_were_recorded"), _LEVEL1),
        ("stack", framework or no_trace or Message("no_call_stacks_were_recorded"), "with_stack=True"),
        ("sample", no_trace or Message("no_counters_were_recorded"), _DEVICE),
        ("clock", Message("profiler_info_says_nothing_about"), None),
    )
    for (table, reason, setting), found in zip(lacking, there, strict=True):
        if not found:
            draft.absent(table, reason, setting)
    if no_trace and not task_time.names_copies(draft):
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
    if not draft.has("pmu"):
        draft.absent("pmu", at_level(level, "no_ai_core_counters_were"), f"{_LEVEL1}, aic_metrics=PipeUtilization")
