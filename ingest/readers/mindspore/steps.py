"""step_trace_raw_*_detail_time.csv: every step and its communication, in ticks of the device's counter.

The steps go on for as long as the job was profiled, the operators only until MindSpore's cap. A step whose operators
are missing would look idle. So only steps whose operators are there as a whole become steps. Every step's lengths are
kept as counters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.cells import Csv, read_csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.mindspore.timeline import LATEST_NS, TICK_NS
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.sqltext import literal

SOURCE = "step_trace"
#: Parts of a step: name, first and last point, and the column that holds the length.
_PARTS = (
    ("Iteration interval", "start_point", "fp_point", "iteration_interval"),
    ("Forward and backward", "fp_point", "bp_point", "fp_and_bp"),
    ("Tail", "bp_point", "end_point", "tail"),
)
_GATHER = re.compile(r"^(?P<name>.+)_start_point$")
_STREAM = re.compile(r"^stream_(\d{1,9})_")
_NO_STEPS = """SELECT NULL::BIGINT AS row, NULL::BIGINT AS step, NULL::BIGINT AS ts, NULL::BIGINT AS end_ts,
    NULL::BIGINT AS fp, NULL::BIGINT AS bp WHERE false"""
_NO_GATHERS = """SELECT NULL::BIGINT AS row, NULL::VARCHAR AS name, NULL::BIGINT AS stream, NULL::BIGINT AS ts,
    NULL::BIGINT AS dur WHERE false"""


@dataclass(frozen=True)
class Kept:
    """The window whose operators are there as a whole; an end that is None is open."""

    begin: int | None = None
    end: int | None = None

    def holds(self, ts: str) -> str:
        """SQL: whether a stamp lies within."""
        edges = [f"{ts} >= {self.begin}" if self.begin is not None else "", f"{ts} < {self.end}"
                 if self.end is not None else ""]  # fmt: skip
        return " AND ".join(filter(None, edges)) or "true"


def read(path: Path | None, draft: Draft) -> None:
    """Make the views ``steps`` and ``gathers`` (its communication), on the device's clock."""
    file = None if path is None else read_csv(path, draft, "steps_raw")
    if path is not None and file is None:
        draft.partial("step", Message("is_empty", {"file": path.name}))
    if file is None:
        return none(draft)
    if file.damage:
        draft.partial("step", file.damage)
    points = ", ".join(f"{_ns(file, column)} AS {name}" for name, column in (
        ("ts", "start_point"), ("end_ts", "end_point"), ("fp", "fp_point"), ("bp", "bp_point")))  # fmt: skip
    made = f"SELECT row, {file.said('step_num')} AS said, try_cast({file.cell('step_num')} AS BIGINT) AS step, {points}"
    draft.keep("steps_made", f"{made} FROM steps_raw")
    good = "step IS NOT NULL AND ts >= 0 AND end_ts >= ts"
    bad = f"SELECT count(*) FROM steps_made WHERE ({good}) IS NOT TRUE AND said IS DISTINCT FROM '-'"
    draft.drop("step", Message("rows_step_trace_without_number"), count(draft, bad))
    draft.con.execute(f"CREATE VIEW steps AS SELECT * FROM steps_made WHERE {good}")
    _gathers(file, draft)


def none(draft: Draft) -> None:
    """Leave ``steps`` and ``gathers`` without rows."""
    draft.con.execute(f"CREATE OR REPLACE VIEW steps AS {_NO_STEPS}")
    draft.con.execute(f"CREATE OR REPLACE VIEW gathers AS {_NO_GATHERS}")


def _ns(file: Csv, column: str) -> str:
    return _ticks(file.cell(column))


def _ticks(cell: str) -> str:
    """SQL: a cell's ticks in ns."""
    ns = f"TRY(try_cast({cell} AS BIGINT) * {TICK_NS})"
    return f"CASE WHEN {ns} <= {LATEST_NS} THEN {ns} END"


def _gathers(file: Csv, draft: Draft) -> None:
    """One row for every pair of columns that begins and ends something, and every step.

    A file has hundreds of such pairs. So one SELECT lays them below each other, whatever their number.
    """
    pairs = [match["name"] for column in file.columns if (match := _GATHER.match(column))
             and file.has(f"{match['name']}_end_point")]  # fmt: skip
    if not pairs:
        draft.con.execute(f"CREATE VIEW gathers AS {_NO_GATHERS}")
        return
    names, streams = ", ".join(map(literal, pairs)), ", ".join(map(_stream, pairs))
    begins, ends = (", ".join(file.cell(f"{name}_{point}") for name in pairs) for point in ("start_point", "end_point"))
    laid = f"""SELECT row, unnest([{names}]) AS name, unnest([{streams}]::BIGINT[]) AS stream,
        unnest([{begins}]) AS begin_cell, unnest([{ends}]) AS end_cell FROM steps_raw SEMI JOIN steps USING (row)"""
    draft.keep(
        "gathers",
        f"""SELECT row, name, stream, ts, end_ts - ts AS dur FROM (
            SELECT row, name, stream, {_ticks("begin_cell")} AS ts, {_ticks("end_cell")} AS end_ts FROM ({laid}))
        WHERE ts >= 0 AND end_ts >= ts""",
    )
    lost = f"SELECT count(*) * {len(pairs)} - (SELECT count(*) FROM gathers) FROM steps"
    draft.drop("span", Message("communication_step_trace_without_beginning"), count(draft, lost))


def _stream(name: str) -> str:
    return match[1] if (match := _STREAM.match(name)) else "NULL"


def whole(draft: Draft) -> Kept:
    """Which steps have all their operators: none before the first operator, none after the last, no step cut by one."""
    first, last = draft.con.execute("SELECT min(ts), max(ts) FROM op WHERE kind = 'kernel'").fetchall()[0]
    if first is None:
        return Kept()
    cut = "SELECT {} FROM steps WHERE {}"
    before = count(draft, cut.format("count(*)", f"end_ts <= {first}"))
    after = count(draft, cut.format("count(*)", f"ts > {last}"))
    begin = draft.con.execute(cut.format("min(end_ts)", f"end_ts > {first}")).fetchall()[0][0] if before else None
    end = draft.con.execute(cut.format("max(ts)", f"ts <= {last}")).fetchall()[0][0] if after else None
    if after and end is None:
        end = last + 1
    return Kept(begin, end)


def provide(draft: Draft, kept: Kept) -> None:
    """Provide the steps, their parts as annotations, and every length as a counter."""
    if not count(draft, "SELECT count(*) FROM steps"):
        return
    inside = f"{kept.holds('ts')} AND {'end_ts <= ' + str(kept.end) if kept.end is not None else 'true'}"
    outside = count(draft, f"SELECT count(*) FROM steps WHERE NOT ({inside})")
    draft.drop("step", Message("steps_whose_operators_files_do"), outside)
    draft.provide(
        "step",
        f"""SELECT step, ts AS ts_ns, end_ts - ts AS host_dur_ns, ts AS device_ts_ns, end_ts - ts AS device_dur_ns,
        '{SOURCE}' AS source FROM steps WHERE {inside}""",
    )
    lengths = ((length, _part(a, b)) for _, a, b, length in _PARTS)
    selects = [f"SELECT ts, step, '{length}' AS series, {part} AS value FROM steps" for length, part in lengths]
    selects += [
        "SELECT ts, step, 'total' AS series, end_ts - ts AS value FROM steps",
        "SELECT s.ts, s.step, g.name AS series, g.dur AS value FROM gathers g JOIN steps s USING (row)",
    ]
    draft.keep("lengths", " UNION ALL ".join(selects))
    draft.provide(
        "sample",
        "SELECT 'Step trace' AS counter, series || ' (ns)' AS series, ts AS ts_ns, value::DOUBLE AS value "
        "FROM lengths WHERE value IS NOT NULL",
    )
    draft.provide(
        "summary",
        f"""SELECT '{SOURCE}' AS source, series AS name, count(value) AS count, sum(value)::BIGINT AS total_ns,
        min(value) AS min_ns, max(value) AS max_ns FROM lengths WHERE value IS NOT NULL GROUP BY series""",
    )


def _part(begin: str, end: str) -> str:
    names = {"start_point": "ts", "end_point": "end_ts", "fp_point": "fp", "bp_point": "bp"}
    first, last = names[begin], names[end]
    return f"CASE WHEN {last} >= {first} THEN {last} - {first} END"


def parts(kept: Kept) -> str:
    """SQL: the parts of the steps that are kept, as named intervals."""
    return " UNION ALL ".join(
        f"SELECT '{name}' AS name, {ts} AS ts, {_part(a, b)} AS dur FROM steps WHERE {kept.holds('ts')}"
        for name, a, b, _ in _PARTS for ts in [{"start_point": "ts", "fp_point": "fp", "bp_point": "bp"}[a]]
    )  # fmt: skip
