"""Draft to tables: one rank's contract tables, written as Parquet.

Adds what is the same for every format: the rank, ids unique within the run, time from the origin, lanes and parents. It
assigns spans to steps and makes steps tile. Every table gets coverage, also one that no reader provided. The device's
work in each step is summed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from npulens.ingest.messages import Message, joined
from npulens.ingest.tables import checks, schema
from npulens.ingest.tables.concatenate import arrow, concatenate
from npulens.ingest.tables.device_time import device_time, untold
from npulens.ingest.tables.draft import Draft, columns, copy, give_back, union
from npulens.ingest.tables.in_order import Spans, in_order, stretches
from npulens.ingest.tables.nest import Nest
from npulens.ingest.tables.sqltext import literal
from npulens.ingest.tables.steps import Steps, tile

#: Columns that carry a span id, and how far ranks and their ids and tracks lie apart.
SPAN_IDS = ("span_id", "parent_id", "src_span_id", "dst_span_id", "op_span_id")
SPAN_BITS, TRACK_BITS = 44, 22
#: Tables that follow from others.
_DERIVED = ("device_time", "checked")
#: Tables that the run, not a rank's draft, provides.
_OF_RUN = ("run", "rank", "coverage")
_ORDER = {
    "link": "",
    "arg": "",
    "host_op": "",
    "stack": "",
    "pmu": "",
    "sample": "counter, series, ts_ns",
    "track": "track",
    "step": "ts_ns",
}
#: Tables whose every row is of a span.
_OF_SPANS = [
    name for name, table in schema.tables().items() if any(c.name == "span_id" and c.required for c in table.columns)
]
_BATCH = 20_480
#: Spans whose rows in one of the other tables are joined and sorted at once.
_STRETCH = 300_000


@dataclass(frozen=True)
class Part:
    """What became of one rank."""

    rank: int
    directory: str
    origin_ns: int
    end_ns: int
    rows: dict[str, int]
    coverage: list[dict[str, Any]]
    facts: dict[str, Any]
    reasons: list[Message]
    steps: int = 0
    seconds: float = 0.0
    warnings: list[Message] = field(default_factory=list)  # where the profiler's own sums disagree with what was read

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def stamped(self) -> bool:
        """Whether anything of it has a time: sums alone lie nowhere."""
        return bool(self.origin_ns or self.end_ns)


@dataclass
class _Writing:
    draft: Draft
    out: Path
    origin_ns: int = 0
    end_ns: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    parts: list[str] = field(default_factory=lambda: ["true"])  # conditions on the ids of spans: a stretch each
    columns: dict[str, set[str]] = field(default_factory=dict)  # those that a table's SELECTs give, where known
    steps: Steps = field(default_factory=Steps.none)  # from the rank's origin


def finish(draft: Draft, out: Path) -> Part:
    """Write the contract tables of a draft to ``out``."""
    out.mkdir(parents=True, exist_ok=True)
    work = _Writing(draft, out)
    _materialise(work)
    _bounds(work)
    _write_steps(work)
    _write_spans(work)
    for table in schema.tables():
        if table not in (*_OF_RUN, *_DERIVED, "span", "step"):
            _write_table(work, table)
    draft.fact("peers", _peers(work))
    draft.fact("steps", _step_numbers(work))
    lost = draft.covers["span"].dropped
    if lost:  # events that were met and are not there: nobody should take the rest for the whole
        draft.partial(None, Message("events_are_lost", {"n": sum(lost.values()), "reasons": ", ".join(lost)}))
    hidden = _untold(work)
    warnings = _write_checked(work)
    coverage = [_coverage(work, table) for table in schema.tables() if table not in (*_OF_RUN, *_DERIVED)]
    _write_device_time(work, {row["table"] for row in coverage if row["status"] == "absent"}, hidden)
    return Part(
        draft.rank, str(out), work.origin_ns, work.end_ns, work.rows, coverage, dict(draft.facts),
        list(dict.fromkeys(draft.broken)), len(work.steps.number), warnings=warnings,
    )  # fmt: skip


def _materialise(work: _Writing) -> None:
    """Spans are asked for several times: make them once, in a file, where they take no memory from what is asked."""
    draft, selects = work.draft, work.draft.selects
    if "span" in selects:
        draft.keep(
            "draft_span",
            "SELECT span_id::BIGINT AS span_id, track::BIGINT AS track, kind, "
            "coalesce(name, '') AS name, ts_ns::BIGINT AS ts_ns, dur_ns::BIGINT AS dur_ns "
            f"FROM ({union(selects['span'])})",
        )
    else:
        draft.con.execute(
            "CREATE TEMP TABLE draft_span"
            "(span_id BIGINT, track BIGINT, kind VARCHAR, name VARCHAR, ts_ns BIGINT, dur_ns BIGINT)"
        )


def _bounds(work: _Writing) -> None:
    """The earliest and latest stamp of any kind."""
    con, edges = work.draft.con, []
    for table, selects in work.draft.selects.items():
        names = schema.tables()[table].names()
        select = "SELECT ts_ns, dur_ns FROM draft_span" if table == "span" else union(selects)
        if "ts_ns" not in names:
            continue
        work.columns[table] = columns(con, select)
        length = "coalesce(dur_ns, 0)" if "dur_ns" in work.columns[table] else "0"
        edges.append(con.execute(f"SELECT min(ts_ns), max(ts_ns + {length}) FROM ({select})").fetchall()[0])
    found = [edge for edge in edges if edge[0] is not None]
    if found:
        work.origin_ns, work.end_ns = min(edge[0] for edge in found), max(edge[1] for edge in found)


def _write_steps(work: _Writing) -> None:
    draft, selects = work.draft, work.draft.selects.get("step")
    if not selects:
        return _write_whole(work, "step", arrow("step").empty_table())
    table, work.steps = tile(draft.con, union(selects), draft.rank, work.origin_ns)
    _write_whole(work, "step", table)


def _write_whole(work: _Writing, name: str, table: pa.Table) -> None:
    """A table that is there at once."""
    shape = arrow(name)
    pq.write_table(table.select(shape.names).cast(shape), work.out / f"{name}.parquet", compression="zstd")
    work.rows[name] = len(table)


def _sources(work: _Writing) -> dict[str, str]:
    """Where spans and comm were written."""
    return {name: f"read_parquet({literal(str(work.out / f'{name}.parquet'))})" for name in ("span", "comm")}


def _untold(work: _Writing) -> bool:
    """Whether the device's work is all there and none of it was told to be communication, which may have run."""
    draft, world = work.draft, work.draft.facts.get("world_size")
    ranks = world if isinstance(world, int) else 1
    if (
        "comm" not in draft.selects
        or draft.covers["comm"].absent
        or not untold(draft.con, _sources(work), draft.rank, ranks)
    ):
        return False
    if ranks > 1:
        draft.absent("comm", Message("job_has_ranks_and_none", {"ranks": ranks}))
    else:
        draft.absent("comm", Message("some_device_s_work_speaks"))
    return True


def _write_device_time(work: _Writing, absent: set[str], untold: bool) -> None:
    """Sums over what has been written."""
    draft = work.draft

    def kept(select: str) -> str:
        draft.keep("moment", select)
        return "moment"

    _write_whole(work, "device_time", device_time(
        draft.con, _sources(work), draft.rank, work.steps, absent, kept, untold=untold,
    ))  # fmt: skip


def _write_checked(work: _Writing) -> list[Message]:
    """Compare what the profiler summed with what was written; what disagrees, in sentences."""
    draft = work.draft
    tables = ("span", "comm", "kernel", "profiler_step", "summary")
    sources = {name: f"read_parquet({literal(str(work.out / f'{name}.parquet'))})" for name in tables}

    def kept(select: str) -> str:
        draft.keep("checked_span", select)
        return "checked_span"

    told = [*checks.of_tables(draft.con, sources), *draft.said]
    begins = draft.con.execute(
        f"SELECT step, coalesce(device_ts_ns, ts_ns) FROM read_parquet({literal(str(work.out / 'step.parquet'))}) "
        "ORDER BY 2, 1"
    ).fetchall()
    found = checks.check(draft.con, sources, draft.rank, told, begins, kept)
    _write_whole(work, "checked", checks.rows(found, draft.rank, arrow("checked")))
    warnings = list(checks.sentences(found))
    for table, unexplained, text in warnings:
        (draft.partial if unexplained else draft.note)(table, text)
    return [text for _, _, text in warnings]


def _write_spans(work: _Writing) -> None:
    """Sort, nest and write; one batch in memory at a time."""
    shape = arrow("span")
    rank, nest, rows = work.draft.rank, Nest(), 0
    numeric = [f.name for f in shape if f.type != pa.string()]
    with pq.ParquetWriter(
        work.out / "span.parquet", shape, compression="lz4", use_dictionary=["kind", "name"],
        column_encoding=dict.fromkeys(numeric, "DELTA_BINARY_PACKED"), write_statistics=numeric,
    ) as writer:  # fmt: skip
        for batch in in_order(work.draft.con, Spans("draft_span", where="dur_ns >= 0"), _BATCH):
            numbers = [batch.column(name) for name in ("span_id", "track", "ts_ns", "dur_ns")]
            span_id, track, ts, dur = (np.ascontiguousarray(column.to_numpy(False)) for column in numbers)
            depth, parent = nest.place(track, ts, dur, span_id)
            since = ts - work.origin_ns
            step, outside = work.steps.of(since)
            offset = rank << SPAN_BITS
            arrays = [
                pa.array(span_id + offset), pa.array(np.full(len(ts), rank, np.int32)),
                pa.array(track + (rank << TRACK_BITS)), batch.column("kind"), batch.column("name"),
                pa.array(since), pa.array(dur), pa.array(step, mask=outside),
                pa.array(parent + offset, mask=parent < 0), pa.array(depth),
            ]  # fmt: skip
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=shape))
            rows += len(ts)
    work.rows["span"] = rows
    work.parts = list(stretches(work.draft.con, "draft_span", "span_id", max(1, rows), _STRETCH))
    if len(work.parts) > 1:
        give_back()
    if nest.crowded:
        work.draft.note("span", Message("spans_share_last_lane_crowded", {"n": nest.crowded}))


def _write_table(work: _Writing, table: str) -> None:
    """One of the other tables, written by DuckDB."""
    con, rank = work.draft.con, work.draft.rank
    selects = work.draft.selects.get(table)
    if not selects:
        return _write_whole(work, table, arrow(table).empty_table())
    source = union(selects)
    have = work.columns.get(table) or columns(con, source)
    made = []
    for column in schema.tables()[table].columns:
        name = column.name
        if name == "rank":
            value = str(rank)
        elif name not in have:
            value = "NULL"
        elif name in SPAN_IDS:
            value = f"{name} + {rank << SPAN_BITS}"
        elif name == "track":
            value = f"{name} + {rank << TRACK_BITS}"
        elif name == "ts_ns" or name.endswith("_ts_ns"):
            value = f"{name} - {work.origin_ns}"
        else:
            value = name
        made.append(f"CAST({value} AS {column.type}) AS {name}")
    if table == "link" and "latency_ns" not in have:
        source, made[-1] = _with_latency(source), "CAST(latency_ns AS BIGINT) AS latency_ns"
    order = _ORDER.get(table, "span_id" if "span_id" in have else "")
    apart = table in work.draft.apart
    if order == "span_id" and not apart and table in _OF_SPANS and len(work.parts) > 1:
        work.draft.keep(f"made_{table}", source)  # joined at once, then sorted a stretch at a time
        source, apart = f"FROM made_{table}", True
    select, then = f"SELECT {', '.join(made)}", f"ORDER BY {order}" if order else ""

    def write(part: str, home: Path) -> int:
        rows = copy(f"{select} FROM (FROM ({source}) WHERE {part}) {then}", home / f"{table}.parquet")
        return int(con.execute(rows).fetchall()[0][0])

    work.rows[table] = _write_apart(work, table, write) if apart else write("true", work.out)


def _write_apart(work: _Writing, table: str, write: Callable[[str, Path], int]) -> int:
    """A table a stretch of spans after the other, put one behind the other; the number of rows."""
    parts = work.parts
    if len(parts) == 1:
        return write("true", work.out)
    rows, homes = 0, [work.draft.dir / f"{table}_{number}" for number in range(len(parts))]
    for home, part in zip(homes, parts, strict=True):
        home.mkdir()
        rows += write(part, home)
    concatenate(table, [(home, 0) for home in homes], work.out / f"{table}.parquet")
    for home in homes:
        shutil.rmtree(home)
    give_back()
    return rows


def _peers(work: _Writing) -> int | None:
    """How many ranks there must be, for this one to have communicated with the highest it names."""
    highest = [
        work.draft.con.execute(
            f"SELECT max(greatest(src_rank, dst_rank)) FROM read_parquet({literal(str(work.out / f'{table}.parquet'))})"
        ).fetchall()[0][0]
        for table in ("comm", "comm_link")
        if work.rows[table]
    ]
    return max((rank for rank in highest if rank is not None), default=None)


def _step_numbers(work: _Writing) -> list[int] | None:
    """The first and the last number of its steps, by its marks or as the profiler's split has them."""
    files = ", ".join(literal(str(work.out / f"{table}.parquet")) for table in ("step", "profiler_step"))
    query = f"SELECT min(step), max(step) FROM read_parquet([{files}], union_by_name = true)"
    first, last = work.draft.con.execute(query).fetchall()[0]
    return None if first is None else [first, last]


def _with_latency(source: str) -> str:
    return (
        f"SELECT l.*, d.ts_ns - s.ts_ns AS latency_ns FROM ({source}) l "
        "JOIN draft_span s ON s.span_id = l.src_span_id JOIN draft_span d ON d.span_id = l.dst_span_id"
    )


def _coverage(work: _Writing, table: str) -> dict[str, Any]:
    cover, rows = work.draft.covers[table], work.rows.get(table, 0)
    dropped = sum(cover.dropped.values())
    reasons = [Message("dropped", {"n": count, "reason": reason}) for reason, count in cover.dropped.items()]
    reasons = [*cover.partial, *reasons, *cover.notes]
    if cover.absent is not None:
        reasons.insert(0, cover.absent)
    lacking = cover.expected is not None and rows < cover.expected
    if lacking:
        reasons.append(Message("expected", {"rows": rows, "expected": cover.expected}))
    recorded = rows > 0 or (table in work.draft.selects and cover.absent is None)
    status = "absent" if not recorded else "partial" if cover.partial or dropped or lacking else "recorded"
    if status == "absent" and not reasons:
        reasons.append(Message("this_format_does_not_carry"))
    return {
        "table": table, "status": status, "rows": rows, "expected": cover.expected, "dropped": dropped,
        "reason": joined(dict.fromkeys(reasons)) if reasons else None, "collect_with": cover.collect_with,
    }  # fmt: skip
