"""One operator as `msprof op` measured it: an OPPROF_* directory of CSV files.

OpBasicInfo.csv says what ran, for how long and on how many cores; the other files hold hardware counters for every
block. The operator has a length and no time of day, so it stands at zero of a clock of its own. Files and columns are
those of the tool's manual and source, whatever else is there is kept verbatim. visualize_data.bin names the device, and
what was counted of each source line where the operator was recorded with its source.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, listed
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import cells, visualize_bin
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.visualize_bin import Told, lines, provide
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import literal

TITLE = "msprof op operator profile"

_FILE = re.compile(
    r"^(OpBasicInfo|PipeUtilization|ArithmeticUtilization|Memory|MemoryL0|MemoryUB|MemoryAccess|L2Cache"
    r"|ResourceConflictRatio)(_\w+)?\.csv$"
)
_DIRECTORY = re.compile(r"^OPPROF_")
_BASIC, _BIN = "OpBasicInfo", "visualize_data.bin"
#: What tells a block from another; everything else in a file of counters is one.
_BLOCK = ("block_id", "sub_block_id", "block id", "sub block id", "core id", "core_id")
#: What OpBasicInfo calls the type of an operator is the kind of core it runs on. Mixed ones count blocks of cubes.
_CORES = {"vector": "AI_VECTOR_CORE", "cube": "AI_CORE", "mix": "MIX_AIC", "aicpu": "AI_CPU"}
_NO_COUNTERS = "SELECT 1 AS span_id, '' AS metric, 0.0 AS value WHERE false"
#: Lengths beyond this are damage.
_LONGEST_NS = 2**60
_JOB = Message("torch_npu_profiler_profile_around")


def sniff(path: Path) -> Claim | None:
    """A directory of these files, or one of them on its own."""
    try:
        if (seen := peek.at(path)).is_dir:
            found = {name: path / file for file in sorted(seen.names) if (name := _name(path / file))}
            if _BASIC in found or (found and _DIRECTORY.match(path.name)):
                binary = path / _BIN
                beside = (binary,) if _BIN in seen.names and peek.at(binary).is_file else ()
                return Claim("opprof", path, tuple(sorted([*found.values(), *beside])))
        elif _name(path) == _BASIC:
            return Claim("opprof", path, (path,))
    except OSError:
        return None
    return None


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft with the one operator."""
    found = {name: file for file in claim.files if (name := _name(file))}
    binary = next((file for file in claim.files if file.name == _BIN), None)
    try:
        _read(claim.root, found, binary, draft)
    except duckdb.Error as error:
        raise IngestError("failed", Message("operator_s_files_give_no", {"error": error}), str(claim.root)) from error


def _name(path: Path) -> str | None:
    match = _FILE.match(path.name)
    return match[1] if match and path.is_file() and not path.is_symlink() else None


def _read(root: Path, found: Mapping[str, Path], binary: Path | None, draft: Draft) -> None:
    cells.macros(draft)
    basic = read_csv(found[_BASIC], draft, "basic") if _BASIC in found else None
    if basic is None:
        raise IngestError("empty", Message("no_opbasicinfo_csv_which_names"), str(root))
    if basic.damage:
        draft.partial("kernel", basic.damage)
    timed = f"{basic.said('Op Name')} IS NOT NULL AND {_duration(basic)} BETWEEN 0 AND {_LONGEST_NS}"
    operators = count(draft, f"SELECT count(*) FROM basic WHERE {timed}")
    if not basic.rows or not operators:
        raise IngestError("empty", Message("opbasicinfo_csv_holds_no_operator"), str(root))
    _facts(basic, draft)
    _sums(basic, draft, "OPPROF", basic.said("Op Name"), "NULL", _duration(basic))
    if operators == 1:
        draft.drop("kernel", Message("rows_without_name_or_duration", {"file": "OpBasicInfo.csv"}), basic.rows - 1)
        _operator(basic, draft, timed)
    else:
        draft.partial(None, Message("opbasicinfo_csv_names_operators_without", {"n": operators}))
    _counters(found, draft, attach=operators == 1)
    if binary is not None:
        _source(visualize_bin.read(binary), draft)
    _tell(root, draft, operators)


def _duration(basic: Csv) -> str:
    return basic.ns("Task Duration(us)", "Task Duration", "Duration(us)")


def _facts(basic: Csv, draft: Draft) -> None:
    draft.fact("backend", "npu")
    draft.fact("clock", "monotonic")
    query = f"SELECT {basic.whole('Device Id')}, {basic.whole('Pid')} FROM basic ORDER BY row LIMIT 1"
    device, pid = draft.con.execute(query).fetchall()[0]
    draft.fact("device_id", device if device is not None and 0 <= device < 2**31 else None)
    draft.fact("pid", pid)


def _operator(basic: Csv, draft: Draft, timed: str) -> None:
    """The operator as a kernel at zero, and the clock it ran at."""
    row = f"FROM basic WHERE {timed}"
    kind = f"lower({basic.said('Op Type')})"
    cores = " ".join(f"WHEN {literal(word)} THEN {literal(core)}" for word, core in _CORES.items())
    draft.provide("track", "SELECT 1 AS track, 'stream' AS kind, 'Operator' AS name, 'msprof op' AS process, 0 AS sort")
    draft.provide(
        "span",
        f"""SELECT 1 AS span_id, 1 AS track, 'kernel' AS kind, {basic.said("Op Name")} AS name, 0::BIGINT AS ts_ns,
        {_duration(basic)} AS dur_ns {row}""",
    )
    draft.provide(
        "kernel",
        f"""SELECT 1 AS span_id, CASE WHEN CASE {kind} {cores} END IS NULL THEN {basic.said("Op Type")} END AS op_type,
        CASE WHEN {kind} = 'mix' AND ends_with({basic.said("Op Name")}, '_mix_aiv') THEN 'MIX_AIV'
            ELSE CASE {kind} {cores} END END AS core,
        {basic.whole("Block Dim", "Block Num")} AS block_num,
        {basic.whole("Mix Block Dim", "Mix Block Num")} AS mix_block_num {row}""",
    )
    if basic.has("Current Freq"):
        frequency = f"approx({basic.cell('Current Freq')})"
        draft.provide(
            "sample",
            f"""SELECT 'AI Core Freq' AS counter, 'MHz' AS series, 0::BIGINT AS ts_ns, {frequency} AS value {row}
            AND {frequency} IS NOT NULL""",
        )


def _counters(found: Mapping[str, Path], draft: Draft, *, attach: bool) -> None:
    """Every row of every file verbatim, and the mean of each counter over the blocks as the operator's."""
    known: set[str] = set()  # times and cycles stand in every file: the first that names a counter says it
    for name, path in found.items():
        if name == _BASIC:
            continue
        file = read_csv(path, draft, f"counters_{name}")
        if file is None:
            draft.partial("pmu", Message("is_empty", {"file": path.name}))
            continue
        if file.damage:
            draft.partial("pmu", file.damage)
        block = f"concat_ws(' ', {', '.join(file.said(column) for column in _BLOCK)})"
        _sums(file, draft, f"OPPROF {name}", literal(name), block, "NULL::BIGINT")
        if attach and file.rows:
            fresh = [column for column in file.others(*_BLOCK) if column not in known]
            known.update(fresh)
            means = " UNION ALL ".join(_mean(file, column) for column in fresh)
            draft.provide("pmu", f"SELECT * FROM ({means}) WHERE value IS NOT NULL" if fresh else _NO_COUNTERS)
            draft.note("pmu", Message("means_over_blocks_every_block", {"metric": name, "n": file.rows}))


def _mean(file: Csv, column: str) -> str:
    mean = f"avg(approx({file.cell(column)}))"
    return f"SELECT 1 AS span_id, {literal(column)} AS metric, {mean} AS value FROM {file.name}"


def _sums(file: Csv, draft: Draft, source: str, name: str, category: str, total: str) -> None:
    draft.provide(
        "summary",
        f"""SELECT {literal(source)} AS source, {name} AS name, nullif({category}, '') AS category,
        CASE WHEN {total} BETWEEN 0 AND {_LONGEST_NS} THEN {total} END AS total_ns,
        {file.rest(file.columns)} AS args FROM {file.name} WHERE {name} IS NOT NULL""",
    )


def _source(told: Told, draft: Draft) -> None:
    """The device's name and the counted source lines."""
    draft.fact("device_name", told.device)
    if told.damage:
        draft.partial("summary", told.damage)
    if rows := list(lines(told)):
        provide(rows, draft)


def _tell(root: Path, draft: Draft, operators: int) -> None:
    unread = (
        sorted(path.name for path in root.iterdir() if not _name(path) and path.name != _BIN) if root.is_dir() else []
    )
    if unread:
        draft.note("summary", Message("not_read", {"reason": listed(unread, 20)}))
    for table in ("comm", "transfer", "host_op", "link", "step", "stack", "memory_sample", "memory_event"):
        draft.absent(table, Message("operator_measured_alone_msprof_op"), _JOB)
    if "pmu" not in draft.selects:
        draft.absent("pmu", Message("no_file_counters_is_here"), "msprof op --aic-metrics=...")
    if operators == 1:
        draft.note("span", Message("operator_stands_at_zero_its"))
    else:
        draft.absent("span", Message("operators_without_time_day"), _JOB)
        draft.absent("kernel", Message("operators_without_time_day"), _JOB)
