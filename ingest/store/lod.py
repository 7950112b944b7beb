"""The level-of-detail file: a run arranged for looking at it, at any zoom, within some milliseconds.

STORE/.timeline/<run_id>.<version>.duckdb holds what the run's Parquet holds, in another order. Spans lie by class of
length, then by start. A window then looks back no further than the longest span of a class. In every other order one
span as long as the capture means a full scan. What is shorter than a pixel is summed in advance, level after level of
buckets twice as long. The first level is the one at which a screen holds too many spans to sum them on the spot. What a
summary says of short spans is added up too, portion of time by portion. A run never changes, so neither does its file.
It is written aside, renamed once, and opened read-only by any number of processes. Its hash lies beside it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import duckdb

from npulens.ingest import objects
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import seal
from npulens.ingest.store.connection import LOCKED, proved
from npulens.ingest.tables import schema
from npulens.ingest.tables.sqltext import literal

FOLDER = ".timeline"  # below the store
VERSION = 2  # of the arrangement; another one is built anew
#: Below this many spans the timeline draws them all.
SMALLEST = 16_384
#: So many spans in a window of so many buckets are summed while somebody waits; levels begin where there are more.
AT_ONCE, SCREEN = 100_000, 2_048
#: The coarsest level still shows a capture in so many buckets.
BUCKETS = 250
#: Portions hold about so many spans; a run of fewer than SEVERAL of them has none. A level joins so many of the finer.
PORTION, SEVERAL, JOINED_BITS = 65_536, 4, 4
#: A cell's longest span and its name travel in one number: 38 bits of length, 25 of name.
NAME_BITS, COARSEST = 25, 38

#: Counters as the timeline shows them: what was sampled, and the pools of memory.
_POINTS = """
    SELECT rank, counter, series, ts_ns, value FROM {sample}
    UNION ALL SELECT rank, component, 'allocated_bytes', ts_ns, allocated_bytes::DOUBLE FROM {memory_sample}
    UNION ALL SELECT rank, component, 'reserved_bytes', ts_ns, reserved_bytes::DOUBLE FROM {memory_sample}
    UNION ALL SELECT rank, component, 'active_bytes', ts_ns, active_bytes::DOUBLE FROM {memory_sample}
"""


def place(store: Path, run_id: str) -> Path:
    """Where the file of a run lies, once it is built."""
    return store / FOLDER / f"{run_id}.{VERSION}.duckdb"


def open_lod(store: Path, run_id: str, threads: int = 2) -> duckdb.DuckDBPyConnection:
    """The file of a run for reading, built if it is not there yet."""
    there = (path for path in (place(store, run_id), place(home(store), run_id)) if seal.holds(path))
    path = next(there, None) or build(store, run_id)
    con = duckdb.connect(
        path, read_only=True, config={"threads": threads, "memory_limit": "512MB", "temp_directory": "", **LOCKED}
    )
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    return con


def build(store: Path, run_id: str) -> Path:
    """Arrange a run; where the file is. Several processes may ask at once: one builds, the others find it built."""
    objects.fetch(store, run_id)
    run = (store / run_id).resolve()
    if run != store.resolve() / run_id or not (run / "manifest.json").is_file():
        raise IngestError("unknown_run", Message("there_is_no_such_run"), str(run))
    target = place(home(store), run_id)
    try:
        with alone(target.with_suffix(".lock")):
            if not seal.holds(target):
                proved(store, run_id)
                sweep(target.parent, store)
                _write(run, target)
    except (OSError, duckdb.Error) as error:
        raise IngestError("write", Message("cannot_arrange_run_for_timeline", {"error": error}), str(target)) from error
    return target


def home(store: Path) -> Path:
    """The store; where nothing may be written to it, a directory of this user's own."""
    if os.access(store, os.W_OK):
        return store
    which = hashlib.blake2s(str(store.resolve()).encode(), digest_size=6).hexdigest()
    return Path(tempfile.gettempdir()) / f"npulens-{os.getuid()}-{which}"


@contextmanager
def alone(guard: Path) -> Iterator[None]:
    guard.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with guard.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def sweep(folder: Path, store: Path) -> None:
    """Remove the files of runs that are gone, and what a killed build left."""
    for entry in folder.iterdir():
        run_id, _, rest = entry.name.partition(".")
        gone = not (store / run_id / "manifest.json").is_file()
        if rest and (gone or not rest.startswith((f"{VERSION}.duckdb", f"{VERSION}.lock"))) and _idle(entry):
            if entry.is_dir():
                shutil.rmtree(entry, ignore_errors=True)
            else:
                entry.unlink(missing_ok=True)


def _idle(entry: Path) -> bool:
    """Nobody is writing it: whoever builds holds the lock beside it."""
    guard = entry.parent / f"{entry.name.split('.')[0]}.{VERSION}.lock"
    with suppress(FileNotFoundError), guard.open("r+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _write(run: Path, target: Path) -> None:
    aside = target.with_name(f"{target.stem}.{secrets.token_hex(4)}.part")
    spill = aside.with_suffix(".spill")
    try:
        with duckdb.connect(
            aside, config={"threads": 2, "memory_limit": "1GB", "temp_directory": str(spill), **LOCKED}
        ) as con:
            con.execute("SET enable_progress_bar = false")
            _arrange(con, {name: f"read_parquet({literal(str(run / f'{name}.parquet'))})" for name in schema.tables()})
        seal.sign(aside, target)
        aside.rename(target)
    finally:
        aside.unlink(missing_ok=True)
        aside.with_name(aside.name + ".wal").unlink(missing_ok=True)
        shutil.rmtree(spill, ignore_errors=True)


def _arrange(con: duckdb.DuckDBPyConnection, of: dict[str, str]) -> None:
    """Every table of the file."""
    span = of["span"]
    con.execute(f"CREATE TABLE name AS SELECT (row_number() OVER (ORDER BY name) - 1)::INTEGER AS id, name AS text "
                f"FROM (SELECT DISTINCT name FROM {span})")  # fmt: skip
    con.execute(f"CREATE TABLE kind AS SELECT (row_number() OVER (ORDER BY kind) - 1)::UTINYINT AS id, kind AS text "
                f"FROM (SELECT DISTINCT kind FROM {span})")  # fmt: skip
    con.execute(
        "CREATE TABLE span AS SELECT (floor(log2(greatest(dur_ns, 1))) // 2)::UTINYINT AS class, ts_ns, dur_ns, track, "
        f"depth::USMALLINT AS depth, name.id AS name, kind.id AS kind, span_id, parent_id FROM {span} AS raw "
        "JOIN name ON name.text = raw.name JOIN kind ON kind.text = raw.kind ORDER BY class, ts_ns, span_id"
    )
    con.execute("CREATE TABLE class AS SELECT class, min(dur_ns) AS shortest_ns, max(dur_ns) AS longest_ns, "
                "count(*) AS spans FROM span GROUP BY class ORDER BY class")  # fmt: skip
    con.execute(
        "CREATE TABLE track AS SELECT t.track, t.rank, t.kind, t.name, coalesce(t.process, '') AS process, t.sort, "
        "s.spans, s.lanes, s.ts_ns, s.end_ns FROM (SELECT track, count(*) AS spans, max(depth) + 1 AS lanes, "
        f"min(ts_ns) AS ts_ns, max(ts_ns + greatest(dur_ns, 1)) AS end_ns FROM span GROUP BY track) s "
        f"JOIN {of['track']} t USING (track) ORDER BY t.rank, t.track"
    )
    points = _POINTS.format(**of)
    con.execute(
        "CREATE TABLE counter AS SELECT (row_number() OVER (ORDER BY rank, counter, series))::INTEGER AS id, rank, "
        "counter, series, min(value) AS least, max(value) AS most, count(*) AS points "
        f"FROM ({points}) WHERE value IS NOT NULL AND isfinite(value) GROUP BY rank, counter, series"
    )
    con.execute(
        f"CREATE TABLE point AS SELECT id, ts_ns, value FROM ({points}) JOIN counter USING (rank, counter, series) "
        "WHERE value IS NOT NULL AND isfinite(value) ORDER BY id, ts_ns, value"
    )
    _sum_up(con)
    _add_up(con)


def _sum_up(con: duckdb.DuckDBPyConnection) -> None:
    """The levels: a row per bucket, track and lane for the spans shorter than the bucket."""
    con.execute(
        "CREATE TABLE cell(level UTINYINT, bucket BIGINT, track BIGINT, depth USMALLINT, spans UINTEGER, "
        "busy_ns BIGINT, longest BIGINT)"
    )
    finer: int | None = None
    for level in _levels(con):
        shorter = "" if finer is None else f" AND dur_ns >= {1 << finer}"
        fresh = (
            f"SELECT ts_ns >> {level} AS bucket, track, depth, 1 AS spans, dur_ns AS busy_ns, "
            f"(dur_ns << {NAME_BITS}) | name AS longest FROM span WHERE dur_ns < {1 << level}{shorter}"
        )
        if finer is not None:
            summed = "bucket >> 1, track, depth, spans, busy_ns, longest"
            fresh += f" UNION ALL SELECT {summed} FROM cell WHERE level = {finer}"
        con.execute(
            f"INSERT INTO cell SELECT {level}, bucket, track, depth, sum(spans), sum(busy_ns), max(longest) "
            f"FROM ({fresh}) GROUP BY bucket, track, depth ORDER BY bucket, track, depth"
        )
        finer = level


def _levels(con: duckdb.DuckDBPyConnection) -> range:
    """Exponents of the buckets worth summing up."""
    spans, length, names = con.execute(
        "SELECT count(*), coalesce(max(ts_ns + dur_ns) - min(ts_ns), 0), coalesce(max(name), 0) FROM span"
    ).fetchall()[0]
    if spans < SMALLEST or length <= 0 or names >= 1 << NAME_BITS:
        return range(0)
    first = (AT_ONCE * length // (SCREEN * spans)).bit_length()
    last = min((length // BUCKETS).bit_length(), COARSEST)
    return range(first, last + 1)


def _add_up(con: duckdb.DuckDBPyConnection) -> None:
    """What summaries are made of. Per portion: `total` of the spans shorter than it, and how `busy` each track is.

    Of the longer spans `own` holds what is left without their children.
    """
    con.execute(
        "CREATE TABLE total(level UTINYINT, portion BIGINT, track BIGINT, name INTEGER, kind UTINYINT, spans BIGINT, "
        "total_ns BIGINT, self_ns BIGINT, least_ns BIGINT, most_ns BIGINT)"
    )
    con.execute("CREATE TABLE busy(portion BIGINT, track BIGINT, busy_ns BIGINT)")
    con.execute("CREATE TABLE own(span_id BIGINT, self_ns BIGINT)")
    con.execute("CREATE TABLE portion(bits UTINYINT)")
    spans, first, last = con.execute("SELECT count(*), min(ts_ns), max(ts_ns + dur_ns) FROM span").fetchall()[0]
    if spans < SEVERAL * PORTION or first < 0 or last <= 0:
        return
    bits = max(1, (last * PORTION // spans).bit_length() - 1)
    con.execute(f"INSERT INTO portion VALUES ({bits})")
    _covered(con)
    own = "dur_ns - coalesce(covered_ns, 0)"
    con.execute(
        f"INSERT INTO total SELECT 0, ts_ns >> {bits} AS portion, track, name, kind, count(*), sum(dur_ns), "
        f"sum({own}), min(dur_ns), max(dur_ns) FROM span LEFT JOIN covered ON covered.parent_id = span.span_id "
        f"WHERE dur_ns < {1 << bits} GROUP BY ts_ns >> {bits}, track, name, kind ORDER BY portion"
    )
    for level in range(1, -(-(last >> bits).bit_length() // JOINED_BITS) + 1):
        con.execute(
            f"INSERT INTO total SELECT {level}, portion >> {JOINED_BITS} AS portion, track, name, kind, sum(spans), "
            f"sum(total_ns), sum(self_ns), min(least_ns), max(most_ns) FROM total WHERE level = {level - 1} "
            f"GROUP BY portion >> {JOINED_BITS}, track, name, kind ORDER BY portion"
        )
    con.execute(
        f"INSERT INTO own SELECT span_id, {own} FROM span LEFT JOIN covered ON covered.parent_id = span.span_id "
        f"WHERE dur_ns >= {1 << bits} ORDER BY span_id"
    )
    con.execute("DROP TABLE covered")
    _busy(con, bits)


def _covered(con: duckdb.DuckDBPyConnection) -> None:
    """Of every span that has children, how much of it they cover. Those of one lane never overlap."""
    con.execute(
        "CREATE TEMP TABLE covered AS SELECT parent_id, sum(dur_ns)::BIGINT AS covered_ns, min(depth) <> max(depth) AS "
        "mixed FROM span WHERE parent_id IS NOT NULL GROUP BY parent_id"
    )
    con.execute(
        "UPDATE covered SET covered_ns = united.covered_ns FROM (SELECT parent_id, sum(greatest(0, ts_ns + dur_ns - "
        "greatest(ts_ns, coalesce(reach, ts_ns))))::BIGINT AS covered_ns FROM (SELECT parent_id, ts_ns, dur_ns, "
        "max(ts_ns + dur_ns) OVER (PARTITION BY parent_id ORDER BY ts_ns, dur_ns ROWS BETWEEN UNBOUNDED PRECEDING AND "
        "1 PRECEDING) AS reach FROM span SEMI JOIN (FROM covered WHERE mixed) AS few USING (parent_id)) "
        "GROUP BY parent_id) AS united WHERE united.parent_id = covered.parent_id"
    )


def _busy(con: duckdb.DuckDBPyConnection, bits: int) -> None:
    """Per portion and track the time in which anything runs. What lies below a span of its track adds nothing."""
    top = "FROM span WHERE parent_id IS NULL"
    con.execute(f"CREATE TEMP TABLE plain AS SELECT track {top} GROUP BY track HAVING max(depth) = 0")
    alone = "SELECT track, ts_ns, ts_ns + dur_ns AS end_ns, NULL::BIGINT AS reach"
    piece = (
        f"SELECT track, least(end_ns, greatest(ts_ns, coalesce(reach, ts_ns))) AS begin_ns, end_ns FROM ("
        f"{alone} {top} AND track IN (FROM plain) UNION ALL SELECT track, ts_ns, ts_ns + dur_ns, max(ts_ns + dur_ns) "
        "OVER (PARTITION BY track ORDER BY ts_ns, dur_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) "
        f"{top} AND track NOT IN (FROM plain))"
    )
    last = f"greatest(begin_ns, end_ns - 1) >> {bits}"
    con.execute(
        f"INSERT INTO busy WITH piece AS MATERIALIZED ({piece}) SELECT portion, track, sum(ns)::BIGINT FROM (SELECT "
        f"begin_ns >> {bits} AS portion, track, end_ns - begin_ns AS ns FROM piece WHERE begin_ns >> {bits} = {last} "
        f"UNION ALL SELECT portion, track, least(end_ns, (portion + 1) << {bits}) - greatest(begin_ns, portion << "
        f"{bits}) FROM (SELECT *, unnest(range(begin_ns >> {bits}, ({last}) + 1)) AS portion FROM piece "
        f"WHERE begin_ns >> {bits} <> {last})) GROUP BY portion, track ORDER BY portion, track"
    )
    con.execute("DROP TABLE plain")
