"""One operator in the simulator of msprof op: a directory with a trace of every pipe, and CSV files core by core.

The simulator runs an operator without a device. `trace.json` holds every instruction on its pipe; `*_code_exe.csv` and
`*_instr_exe.csv` hold what each source line and each instruction took. The files do not name the operator. Their form
is that of the tool's source (gitcode.com/Ascend/msopprof, docs/en/user_guide and csrc/op_profiling).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import duckdb

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, listed
from npulens.ingest.readers import Claim
from npulens.ingest.readers.ascend import pipe_trace, visualize_bin
from npulens.ingest.readers.ascend.small_json import number, whole
from npulens.ingest.readers.ascend.visualize_bin import INSTRUCTIONS, LINES, Told, lines, provide
from npulens.ingest.tables.draft import Draft

TITLE = "msprof op simulator profile"

_CORE = re.compile(r"^core\d{1,4}\.(?:vec|cube)core\d{1,4}$")
_TABLE = re.compile(r"^(core\d{1,4}(?:\.(?:vec|cube)core\d{1,4})?)_(code|instr)_exe(?:_\d+)?\.csv$")
_TRACE, _BIN = "trace.json", "visualize_data.bin"
#: Columns of the two tables, as the tool writes them; `detail` comes last and may hold commas.
_CODE = ("code", "call_count", "cycles", "running_time(us)")
_INSTRUCTION = ("instr", "addr", "pipe", "call_count", "cycles", "running_time(us)", "detail")
#: Rows kept of each file.
_MOST = 100_000
_JOB = Message("torch_npu_profiler_profile_around")


def sniff(path: Path) -> Claim | None:
    """The directory `simulator`, or its trace on its own."""
    try:
        if (seen := peek.at(path)).is_dir:
            cores = sorted(path / name for name in seen.names if _CORE.match(name) and peek.at(path / name).is_dir)
            own = [path / name for name in (_TRACE, _BIN) if name in seen.names and peek.at(path / name).is_file]
            if cores and own:
                return Claim("opprof_simulator", path, tuple(sorted({*own, *_tables(cores)})))
        elif pipe_trace.MARK in peek.head(path) and b'"traceEvents"' in peek.head(path):
            return Claim("opprof_simulator", path, (path,))
    except OSError:
        return None
    return None


def _tables(cores: Sequence[Path]) -> Iterator[Path]:
    for core in cores:
        yield from (
            core / name for name in peek.at(core).names if _TABLE.match(name) and not (core / name).is_symlink()
        )


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft with the pipes of its cores and what its lines took."""
    try:
        _read(claim, draft)
    except duckdb.Error as error:
        why = Message("operator_s_files_give_no", {"error": error})
        raise IngestError("failed", why, str(claim.root)) from error


def _read(claim: Claim, draft: Draft) -> None:
    binary = next((file for file in claim.files if file.name == _BIN), None)
    told = Told() if binary is None else visualize_bin.read(binary)
    if told.damage:
        draft.partial("summary", told.damage)
    draft.fact("backend", "npu")
    draft.fact("clock", "monotonic")
    draft.fact("device_name", told.device)
    trace = next((file for file in claim.files if not _TABLE.match(file.name) and file.name != _BIN), None)
    spans = pipe_trace.read(trace, draft) if trace else 0
    rows = [row for file in claim.files if _TABLE.match(file.name) for row in _rows(file, told, draft)]
    if not any(row["source"] == LINES for row in rows):
        rows.extend(lines(told))
    if not spans and not rows:
        raise IngestError("empty", Message("nothing_to_show_in_this", {"reason": Message("no_instructions")}),
                          str(claim.root))  # fmt: skip
    provide(rows, draft)
    _tell(claim, draft, spans)


def _rows(file: Path, told: Told, draft: Draft) -> Iterator[dict[str, object]]:
    """The rows of one CSV file. The tool does not quote its last column, so commas beyond it belong to it."""
    match = _TABLE.match(file.name)
    assert match
    of_lines = match[2] == "code"
    columns, bad = (_CODE if of_lines else _INSTRUCTION), 0
    for at, cells in enumerate(_cells(file, len(columns), of_lines)):
        row = dict(zip(columns, cells, strict=False))
        name, count = row[columns[0]].strip(), whole(row.get("call_count"))
        if len(cells) < len(columns) or not name or count is None:
            bad += 1
            continue
        if at >= _MOST:
            draft.drop("summary", Message("rows_beyond", {"file": file.name, "n": _MOST}))
            continue
        took = number(row["running_time(us)"])
        args = {key: row[key] for key in columns if key not in (columns[0], "call_count", "running_time(us)")}
        if of_lines and (source := told.line(name)):
            args["source"] = source
        yield {
            "source": LINES if of_lines else INSTRUCTIONS, "name": name, "category": match[1], "count": count,
            "total_ns": None if took is None else round(took * 1000), "args": json.dumps(args, ensure_ascii=False),
        }  # fmt: skip
    draft.drop("summary", Message("rows_without_name_or_duration", {"file": file.name}), bad)
    draft.advance(file.stat().st_size)


def _cells(file: Path, width: int, of_lines: bool) -> Iterator[list[str]]:
    """The cells of every row but the header: a path comes first and may hold commas, a detail last."""
    try:
        with file.open(encoding="utf-8-sig", errors="replace", newline=None) as text:
            text.readline(1 << 16)
            while line := text.readline(1 << 16):
                whole_row = line.rstrip("\n")
                if of_lines and whole_row.strip():
                    yield whole_row.removesuffix(",").rsplit(",", width - 1)
                elif whole_row.strip():
                    yield whole_row.split(",", width - 1)
    except OSError as error:
        why = Message("file_cannot_be_read", {"file": file.name, "error": error.strerror})
        raise IngestError("unreadable", why, str(file)) from error


def _tell(claim: Claim, draft: Draft, spans: int) -> None:
    if claim.root.is_dir():
        known = {file.name for file in claim.files if file.parent == claim.root}
        unread = sorted(path.name for path in claim.root.iterdir() if path.name not in known and not path.is_dir())
        if unread:
            draft.note("summary", Message("not_read", {"reason": listed(unread, 20)}))
    for table in ("comm", "transfer", "host_op", "link", "step", "stack", "memory_sample", "memory_event"):
        draft.absent(table, Message("operator_simulated_alone"), _JOB)
    draft.absent("kernel", Message("simulator_names_no_operator"), _JOB)
    draft.absent("pmu", Message("simulator_counts_nothing"), "msprof op --aic-metrics=...")
    if spans:
        draft.note("span", Message("simulated_times"))
    else:
        draft.absent("span", Message("no_trace_of_the_pipes"), "msprof op simulator")
