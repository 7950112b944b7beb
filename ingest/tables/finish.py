"""Draft to tables: one rank's contract tables, written as Parquet.

Adds what is the same for every format: the rank, ids unique within the run, time from the origin, lanes and parents. It
assigns spans to steps and makes steps tile. Every table gets coverage, also one that no reader provided. The device's
work in each step is summed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from npulens.ingest.messages import Message, joined
from npulens.ingest.tables import checks, schema
from npulens.ingest.tables.concatenate import arrow, pack, shifted, write, write_all
from npulens.ingest.tables.device_time import device_time, of_work, untold
from npulens.ingest.tables.draft import Draft, copy, give_back, union
from npulens.ingest.tables.held import Work, in_track_order, worked
from npulens.ingest.tables.in_order import Spans, in_order, stretches
from npulens.ingest.tables.nest import Nest
from npulens.ingest.tables.runs import Ordered
from npulens.ingest.tables.sqltext import literal
from npulens.ingest.tables.steps import WORK, Steps, marks_in, marks_of, tile

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
#: Tables that are made of a draft's SELECTs and nothing else.
_OTHERS = tuple(name for name in schema.tables() if name not in (*_OF_RUN, *_DERIVED, "span", "step"))
#: Tables whose every row is of a span.
_OF_SPANS = [
    name for name, table in schema.tables().items() if any(c.name == "span_id" and c.required for c in table.columns)
]
_ENDS = ("src_rank", "dst_rank")
#: Columns of spans that may come as dictionaries, and their codes.
_CODES = {"kind": pa.int8(), "name": pa.int32()}
#: What readers find of a span.
_FOUND = ("span_id", "track", "kind", "name", "ts_ns", "dur_ns")
_BATCH = 20_480
#: Spans whose rows in one of the other tables are joined and sorted at once.
_STRETCH = 300_000
#: Stretches of which a table of few rows is joined at once: a join of 50,000 rows holds some 50 MB.
_WIDE = 4
#: Kinds of spans that are the host's alone: nothing of them is summed.
_HOST = {"cpu_op", "python", "annotation", "step_mark", "runtime", "enqueue", "dequeue", "gc", "host_other"}
#: What is summed of a device's work, and how much work is held for that.
_SUMMED, _MOST_WORK = ("span_id", "kind", "ts_ns", "dur_ns", "step"), 500_000


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
    wide: list[str] = field(default_factory=lambda: ["true"])  # the same: some stretches each
    held: dict[str, pa.Table] | None = None  # of a small rank: its spans as they were found, and its tables
    work: Work | None = None  # what its device did
    spans: Ordered | None = None  # where they come in order from its reader
    did: list[pa.RecordBatch] | None = None  # the device's work among them, if it is little
    steps: Steps = field(default_factory=Steps.none)  # from the rank's origin


def finish(draft: Draft, out: Path, *, packed: bool = False) -> Part:
    """Write the contract tables of a draft to ``out``. ``packed``: those of a small rank into one file."""
    out.mkdir(parents=True, exist_ok=True)
    work = _Writing(draft, out, held={} if draft.small else None)
    _materialise(work)
    if work.held is not None:
        _hold(work, work.held)
    _bounds(work)
    _write_steps(work)
    _write_spans(work)
    for table in _OTHERS:
        _write_table(work, table)
    if work.did is not None:
        work.work = _worked(work, work.did)
    draft.fact("peers", _peers(work))
    draft.fact("steps", _step_numbers(work))
    lost = draft.covers["span"].dropped
    if lost:  # events that were met and are not there: nobody should take the rest for the whole
        draft.partial(None, Message("events_are_lost", {"n": sum(lost.values()), "reasons": ", ".join(lost)}))
    hidden = _untold(work)
    warnings = _write_checked(work)
    coverage = [_coverage(work, table) for table in schema.tables() if table not in (*_OF_RUN, *_DERIVED)]
    _write_device_time(work, {row["table"] for row in coverage if row["status"] == "absent"}, hidden)
    if work.held is not None:
        (pack if packed else write_all)(work.held, out)
    return Part(
        draft.rank, str(out), work.origin_ns, work.end_ns, work.rows, coverage, dict(draft.facts),
        list(dict.fromkeys(draft.broken)), len(work.steps.number), warnings=warnings,
    )  # fmt: skip


def _materialise(work: _Writing) -> None:
    """Spans are asked for several times: make them once, in a file, where they take no memory from what is asked.

    Those of a small rank are asked for again only where its links come without their latency.
    """
    draft, selects = work.draft, work.draft.selects
    if work.held is not None and "span" in draft.given:
        work.held["span"] = pa.concat_tables(draft.given["span"]).combine_chunks()
        return
    if "span" not in selects:
        draft.make(
            "CREATE TEMP TABLE draft_span"
            "(span_id BIGINT, track BIGINT, kind VARCHAR, name VARCHAR, ts_ns BIGINT, dur_ns BIGINT)"
        )
        return
    late = "link" not in selects or "latency_ns" in draft.columns(union(selects["link"]))
    if draft.spans is not None and work.held is None and late:
        work.spans = draft.spans
        return
    made = (
        "SELECT span_id::BIGINT AS span_id, track::BIGINT AS track, kind, "
        "coalesce(name, '') AS name, ts_ns::BIGINT AS ts_ns, dur_ns::BIGINT AS dur_ns "
        f"FROM ({union(selects['span'])})"
    )
    if work.held is None or ("link" in selects and "latency_ns" not in draft.columns(union(selects["link"]))):
        draft.keep("draft_span", made)
        made = "FROM draft_span"
    if work.held is not None:
        work.held["span"] = _fetched(draft, "span", made)


def _hold(work: _Writing, held: dict[str, pa.Table]) -> None:
    """The other tables of a small rank in memory, with times as they were found."""
    if "span" not in held:
        held["span"] = pa.schema([field for field in arrow("span") if field.name in _FOUND]).empty_table()
    for table in _OTHERS:
        selects, given = work.draft.selects.get(table), work.draft.given.get(table)
        rows = []
        if selects:
            rows.append(_fetched(work.draft, table, _made(work, table, union(selects))).cast(arrow(table)))
        if given:
            rows.append(_shaped(table, given, work.draft.rank))
        held[table] = pa.concat_tables(rows) if rows else arrow(table).empty_table()


def _shaped(table: str, given: Sequence[pa.Table], rank: int) -> pa.Table:
    """A contract table of what a reader gave: as `_made` says it in SQL."""
    rows = pa.concat_tables(given, promote_options="default")
    have, columns = set(rows.column_names), list[pa.ChunkedArray | pa.Array]()
    offsets = dict.fromkeys(SPAN_IDS, rank << SPAN_BITS) | {"track": rank << TRACK_BITS}
    for field_ in arrow(table):
        if field_.name == "rank":
            columns.append(pa.array(np.full(len(rows), rank, np.int32)))
        elif field_.name not in have:
            columns.append(pa.nulls(len(rows), field_.type))
        else:
            column = rows[field_.name].cast(field_.type)
            offset = offsets.get(field_.name)
            columns.append(pc.add_checked(column, offset) if offset else column)
    made = pa.Table.from_arrays(columns, schema=arrow(table))
    order = _ORDER.get(table, "span_id" if "span_id" in have else "")
    if order == "span_id":  # as many numbers as rows: numpy is quicker
        return made.take(pa.array(np.argsort(made["span_id"].to_numpy(), kind="stable")))
    return made.sort_by([(name, "ascending") for name in order.split(", ")]) if order else made


def _fetched(draft: Draft, table: str, select: str) -> pa.Table:
    """The rows of a SELECT; a table on the way spares planning it twice."""
    draft.con.execute(f"CREATE OR REPLACE TEMP TABLE held_{table} AS {select}")
    return draft.con.table(f"held_{table}").to_arrow_table()


def _bounds(work: _Writing) -> None:
    """The earliest and latest stamp of any kind."""
    draft, edges = work.draft, list[tuple[Any, Any]]()
    edges += [_edges(rows) for table, given in draft.given.items() for rows in given if "ts_ns" in rows.column_names]
    for table, selects in draft.selects.items():
        if "ts_ns" not in schema.tables()[table].names():
            continue
        if work.held is not None and table in work.held:
            edges.append(_edges(work.held[table]))
            continue
        if table == "span" and work.spans is not None:
            edges.append(work.spans.bounds)
            continue
        select = "SELECT ts_ns, dur_ns FROM draft_span" if table == "span" else union(selects)
        length = "coalesce(dur_ns, 0)" if "dur_ns" in draft.columns(select) else "0"
        edges.append(draft.con.execute(f"SELECT min(ts_ns), max(ts_ns + {length}) FROM ({select})").fetchall()[0])
    begins, ends = ([edge[side] for edge in edges if edge[side] is not None] for side in (0, 1))
    if begins:
        work.origin_ns, work.end_ns = min(begins), max(ends)


def _edges(table: pa.Table) -> tuple[int | None, int | None]:
    """The earliest and the latest stamp of a table."""
    ends = table["ts_ns"]
    if "dur_ns" in table.column_names:
        ends = pc.add_checked(ends, pc.fill_null(table["dur_ns"], 0))
    return pc.min(table["ts_ns"]).as_py(), pc.max(ends).as_py()


def _write_steps(work: _Writing) -> None:
    draft, selects, given = work.draft, work.draft.selects.get("step"), work.draft.given.get("step")
    if not selects and not given:
        return _write_whole(work, "step", arrow("step").empty_table())

    def last(since_ns: int) -> int | None:
        if work.held is not None:
            return worked(work.held["span"], since_ns)
        if work.spans is not None:
            return work.spans.worked(since_ns)
        query = f"SELECT max(ts_ns + dur_ns) FROM draft_span WHERE kind IN {WORK} AND ts_ns >= ?"
        found: int | None = draft.con.execute(query, [since_ns]).fetchall()[0][0]
        return found

    if given:
        marks = marks_of(given)
    else:
        select = union(selects or ())
        marks = marks_in(draft.con, select, draft.columns(select))
    table, work.steps = tile(marks, draft.rank, work.origin_ns, last, draft.is_cut)
    if draft.is_cut and len(table) < len(marks):
        draft.partial("step", Message("steps_behind_the_cut", {"n": len(marks) - len(table)}))
    _write_whole(work, "step", table)


def _write_whole(work: _Writing, name: str, table: pa.Table) -> None:
    """A table that is there at once."""
    shape = arrow(name)
    table = table.select(shape.names).cast(shape)
    work.rows[name] = len(table)
    if work.held is not None:
        work.held[name] = table
    else:
        pq.write_table(table, work.out / f"{name}.parquet", compression="zstd")


def _sources(work: _Writing) -> dict[str, str]:
    """Where spans and comm were written."""
    return {name: f"read_parquet({literal(str(work.out / f'{name}.parquet'))})" for name in ("span", "comm")}


def _untold(work: _Writing) -> bool:
    """Whether the device's work is all there and none of it was told to be communication, which may have run."""
    draft, world = work.draft, work.draft.facts.get("world_size")
    ranks = world if isinstance(world, int) else 1
    if not draft.has("comm") or draft.covers["comm"].absent:
        return False
    if not (work.work.untold(ranks) if work.work else untold(draft.con, _sources(work), draft.rank, ranks)):
        return False
    if ranks > 1:
        draft.absent("comm", Message("job_has_ranks_and_none", {"ranks": ranks}))
    else:
        draft.absent("comm", Message("some_device_s_work_speaks"))
    return True


def _write_device_time(work: _Writing, absent: set[str], untold: bool) -> None:
    """Sums over what has been written. What a job communicates on its host was not measured, and is no device work."""
    draft = work.draft
    if draft.facts.get("talks_on_host"):
        absent, untold = absent - {"comm"}, untold or "comm" in absent
    if work.work is not None:
        sums = of_work(work.work, draft.rank, work.steps, absent, untold=untold)
        return _write_whole(work, "device_time", sums)

    def kept(select: str) -> str:
        draft.keep("moment", select)
        return "moment"

    _write_whole(work, "device_time", device_time(
        draft.con, _sources(work), draft.rank, work.steps, absent, kept, untold=untold,
    ))  # fmt: skip


def _write_checked(work: _Writing) -> list[Message]:
    """Compare what the profiler summed with what was written; what disagrees, in sentences."""
    draft = work.draft
    if work.held is not None:
        steps = work.held["step"]
        begins = pc.coalesce(steps["device_ts_ns"], steps["ts_ns"]).to_pylist()
        order = sorted(zip(begins, steps["step"].to_pylist(), strict=True))
        told = [*checks.of_held(work.held), *draft.said]
        return _say_checked(work, checks.check_held(told, [(step, begin) for begin, step in order], work.held))
    tables = ("span", "comm", "kernel", "profiler_step", "summary")
    sources = {name: f"read_parquet({literal(str(work.out / f'{name}.parquet'))})" for name in tables}

    def kept(select: str) -> str:
        draft.keep("checked_span", select)
        return "checked_span"

    split = sources
    if work.spans is not None and "profiler_split" not in work.spans.words.to_pylist():
        split = sources | {"span": "(SELECT '' AS kind, '' AS name, 0 AS dur_ns WHERE false)"}
    told = [*checks.of_tables(draft.con, split), *draft.said]
    begins = draft.con.execute(
        f"SELECT step, coalesce(device_ts_ns, ts_ns) FROM read_parquet({literal(str(work.out / 'step.parquet'))}) "
        "ORDER BY 2, 1"
    ).fetchall()
    return _say_checked(work, checks.check(draft.con, sources, draft.rank, told, begins, kept))


def _say_checked(work: _Writing, found: list[checks.Check]) -> list[Message]:
    draft = work.draft
    _write_whole(work, "checked", checks.rows(found, draft.rank, arrow("checked")))
    warnings = list(checks.sentences(found))
    for table, unexplained, text in warnings:
        (draft.partial if unexplained else draft.note)(table, text)
    return [text for _, _, text in warnings]


def _write_spans(work: _Writing) -> None:
    """Sort, nest and write; one batch in memory at a time."""
    shape, nest, rows = arrow("span"), Nest(), 0
    if work.held is not None:
        spans = in_track_order(work.held["span"]).combine_chunks().to_batches()
        _write_whole(work, "span", pa.Table.from_batches([_placed(work, batch, nest) for batch in spans], shape))
        work.work = Work(work.held["span"], work.held["comm"])
    elif work.spans is not None:
        _write_ordered(work, work.spans, nest)
    else:
        numeric = [f.name for f in shape if f.type != pa.string()]
        with pq.ParquetWriter(
            work.out / "span.parquet", shape, compression="lz4", use_dictionary=["kind", "name"],
            column_encoding=dict.fromkeys(numeric, "DELTA_BINARY_PACKED"), write_statistics=numeric,
        ) as writer:  # fmt: skip
            for batch in in_order(work.draft.con, Spans("draft_span", where="dur_ns >= 0"), _BATCH):
                writer.write_batch(_placed(work, batch, nest))
                rows += batch.num_rows
        work.rows["span"] = rows
        work.parts, work.wide = (
            list(stretches(work.draft.con, "draft_span", "span_id", max(1, rows), size))
            for size in (_STRETCH, _WIDE * _STRETCH)
        )
        if len(work.parts) > 1:
            give_back()
    if nest.crowded:
        work.draft.note("span", Message("spans_share_last_lane_crowded", {"n": nest.crowded}))


def _write_ordered(work: _Writing, spans: Ordered, nest: Nest) -> None:
    """The same of spans that come in order; kinds and names come as dictionaries."""
    shape = pa.schema([
        pa.field(field.name, pa.dictionary(_CODES[field.name], pa.string()), nullable=False)
        if field.name in _CODES else field for field in arrow("span")
    ])  # fmt: skip
    numeric = [field.name for field in shape if field.name not in _CODES]
    beside = np.array([kind not in _HOST for kind in spans.words.to_pylist()], bool)
    did: list[pa.RecordBatch] = []
    many = 0
    with pq.ParquetWriter(
        work.out / "span.parquet", shape, compression="lz4", use_dictionary=list(_CODES), store_schema=False,
        column_encoding=dict.fromkeys(numeric, "DELTA_BINARY_PACKED"), write_statistics=numeric,
    ) as writer:  # fmt: skip
        for batch in spans.batches(_BATCH):
            placed = _placed(work, batch, nest, shape)
            writer.write_batch(placed)
            works = beside[batch.column("kind").indices.to_numpy()]
            many += int(works.sum())
            if many <= _MOST_WORK:
                did.append(placed.select(_SUMMED).filter(pa.array(works)))
    work.did = did if many <= _MOST_WORK else None
    work.rows["span"] = spans.rows
    work.parts, work.wide = spans.stretches("span_id"), spans.stretches("span_id", _WIDE)
    spans.runs.close()
    if len(work.parts) > 1:
        give_back()


def _worked(work: _Writing, did: list[pa.RecordBatch]) -> Work:
    """What the device did, of spans and communication that are written."""
    spans = pa.Table.from_batches(did)
    kind = spans.schema.get_field_index("kind")
    comm = pq.read_table(work.out / "comm.parquet", columns=["span_id", "op_span_id", "task_type"])
    return Work(spans.set_column(kind, "kind", spans["kind"].cast(pa.string())), comm)


def _placed(work: _Writing, batch: pa.RecordBatch, nest: Nest, shape: pa.Schema | None = None) -> pa.RecordBatch:
    """Spans as they are stored: with their lane, their parent and their step."""
    rank = work.draft.rank
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
    return pa.RecordBatch.from_arrays(arrays, schema=shape or arrow("span"))


def _write_table(work: _Writing, table: str) -> None:
    """One of the other tables, written by DuckDB unless it is held."""
    selects = work.draft.selects.get(table)
    if work.held is not None:
        return _write_whole(work, table, shifted(work.held[table], -work.origin_ns))
    if table in work.draft.ready:
        return _write_ready(work, table)
    if not selects:
        return _write_whole(work, table, arrow(table).empty_table())
    source = union(selects)
    apart = table in work.draft.apart
    if len(work.parts) > 1 and not apart and table in _OF_SPANS and table not in _ORDER:
        # Joined some stretches at a time, then sorted, if need be one at a time.
        rows = work.draft.keep(f"made_{table}", f"FROM ({source}) WHERE {{part}}", work.wide)
        source, apart = f"FROM made_{table}", rows > _STRETCH

    out = work.out / f"{table}.parquet"
    if apart and len(work.parts) > 1:
        work.rows[table] = write(table, _stretches(work, table, source, work.parts), out)
        give_back()
    else:
        written = work.draft.con.execute(copy(_made(work, table, source), out)).fetchall()
        work.rows[table] = int(written[0][0])


def _write_ready(work: _Writing, table: str) -> None:
    """What the reader has written; what it provides besides comes behind that."""
    ready, selects = work.draft.ready[table], work.draft.selects.get(table)
    parts = ["true"] if ready.few else work.parts
    for rows in _stretches(work, table, union(selects), parts) if selects else ():
        ready.append(rows)
    ready.close()
    work.rows[table] = ready.rows
    ready.path.replace(work.out / f"{table}.parquet")


def _made(work: _Writing, table: str, source: str) -> str:
    """A contract table as one SELECT over what a reader provided for it."""
    rank = work.draft.rank
    have = work.draft.columns(union(work.draft.selects[table]))
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
        elif (name == "ts_ns" or name.endswith("_ts_ns")) and work.held is None:
            value = f"{name} - {work.origin_ns}"
        else:
            value = name
        made.append(f"CAST({value} AS {column.type}) AS {name}")
    if table == "link" and "latency_ns" not in have:
        source, made[-1] = _with_latency(source), "CAST(latency_ns AS BIGINT) AS latency_ns"
    order = _ORDER.get(table, "span_id" if "span_id" in have else "")
    return f"SELECT {', '.join(made)} FROM ({source})" + (f" ORDER BY {order}" if order else "")


def _stretches(work: _Writing, table: str, source: str, parts: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of a table, a stretch of spans after the other."""
    for part in parts:
        select = _made(work, table, f"FROM ({source}) WHERE {part}")
        for batch in work.draft.con.sql(select).to_arrow_reader(_BATCH):
            yield pa.Table.from_batches([batch]).cast(arrow(table))


def _peers(work: _Writing) -> int | None:
    """How many ranks there must be, for this one to have communicated with the highest it names."""
    if work.held is not None:
        told = [pc.max(work.held[table][end]).as_py() for table in ("comm", "comm_link") for end in _ENDS]
        return max((rank for rank in told if rank is not None), default=None)
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
    if work.held is not None:
        numbers = [n for table in ("step", "profiler_step") for n in work.held[table]["step"].to_pylist()]
        known = [number for number in numbers if number is not None]
        return [min(known), max(known)] if known else None
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
    recorded = rows > 0 or (work.draft.has(table) and cover.absent is None)
    status = "absent" if not recorded else "partial" if cover.partial or dropped or lacking else "recorded"
    if status == "absent" and not reasons:
        reasons.append(Message("this_format_does_not_carry"))
    return {
        "table": table, "status": status, "rows": rows, "expected": cover.expected, "dropped": dropped,
        "reason": joined(dict.fromkeys(reasons)) if reasons else None, "collect_with": cover.collect_with,
    }  # fmt: skip
