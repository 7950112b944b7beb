"""Databases of torch_npu (PyTorch), MindSpore, msprof and msmonitor: one schema in many versions.

The database of a rank is spooled table by table; what the tables mean is SQL over those spools. analysis.db beside
it holds the profiler's own sums.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from pathlib import Path

import duckdb
import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, joined
from npulens.ingest.readers import Claim, Facts
from npulens.ingest.readers.ascend import prof_dir, rankdir, shared
from npulens.ingest.readers.ascend.db import details, few, links, raw, series, spans
from npulens.ingest.readers.ascend.db import facts as db_facts
from npulens.ingest.readers.ascend.db.tables import ANALYSIS, KNOWN, MAIN
from npulens.ingest.readers.ascend.rankdir import double_hash
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.sqlite import SIDE_FILES, Database, is_sqlite, side_files
from npulens.ingest.tables.draft import Draft

TITLE = "torch_npu and msprof database"

_FORMAT = "torch_npu_db"
_NAMED = re.compile(r"^(ascend_(?:pytorch|mindspore)_profiler(?:_\d+)?|msprof_\d+|msmonitor_\d+_\d+_-?\d+)\.db$")
_RANK_IN_NAME = re.compile(r"^(?:ascend_(?:pytorch|mindspore)_profiler|msmonitor_\d+_\d+)_(\d{1,9})\.db$")
_ANALYSIS = "analysis.db"
#: Files that say the same as analysis.db, better.
_TEXT = ("trace_view.json", "step_trace_time.csv")


def sniff(path: Path) -> Claim | None:
    """A rank directory with a database, or a lone database."""
    try:
        if peek.at(path).is_dir:
            root = rankdir.rank_root(path)
            return _claim(root, _main_of(root), rankdir.output_dir(root) / _ANALYSIS) if root else None
        if path.name == _ANALYSIS or not _is_ours(path):
            return None
        if _are_several(path.parent, path.parent.stat().st_mtime_ns):  # databases of several ranks in one folder
            return _claim(path, path, None)
        return _claim(rankdir.rank_root(path.parent) or path.parent, path, path.with_name(_ANALYSIS))
    except OSError:
        return None


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft from the database of a rank, and analysis.db if it is there."""
    databases = [
        path for path in claim.files
        if path.suffix != ".json" and not path.name.endswith(SIDE_FILES) and not prof_dir.SMALL.match(path.name)
    ]  # fmt: skip
    analysis = next((path for path in databases if path.name == _ANALYSIS), None)
    main = next((path for path in databases if path.name != _ANALYSIS), None)
    if main is None and analysis is None:
        raise IngestError("empty", Message("no_database_to_read"), str(claim.root))
    if claim.device is None:
        draft.take_hold()
    try:
        told, rows = _spool_main(draft, main)
        if claim.device is not None:
            raw.keep_device(draft, MAIN, claim.device)
        rows |= _spool_analysis(draft, analysis, required=main is None)
        if not _at_once(draft, claim, told, rows):
            draft.let_go()
            _shape(draft, claim, told, rows)
    except duckdb.Error as error:
        raise IngestError(
            "failed", Message("its_tables_cannot_be_put", {"error": error}), str(main or analysis)
        ) from error


def _spool_main(draft: Draft, path: Path | None) -> tuple[dict[str, object], dict[str, int]]:
    if path is None:
        return {}, raw.spool(None, MAIN, draft, 0)
    with Database(path, draft.dir) as database:
        if not database.tables:
            raise IngestError("empty", Message("database_holds_no_tables_they"), str(path))
        if database.damage:
            draft.partial(None, database.damage)
        rows = raw.spool(database, MAIN, draft, path.stat().st_size)
        raw.count_unread(database, MAIN, draft)
        if not any(rows.values()):
            damage = [reason for cover in draft.covers.values() for reason in cover.partial]
            raise IngestError("empty", joined(damage or [Message("none_its_tables_holds_row")]), str(path))
        return db_facts.metadata(database), rows


def _spool_analysis(draft: Draft, path: Path | None, *, required: bool) -> dict[str, int]:
    """analysis.db; a damaged one takes nothing from the rank but itself."""
    if path is not None:
        try:
            with Database(path, draft.dir) as database:
                if database.damage:
                    draft.partial("profiler_step", database.damage)
                raw.count_unread(database, ANALYSIS, draft)
                return raw.spool(database, ANALYSIS, draft, path.stat().st_size)
        except IngestError as error:
            if required:
                raise
            for table in ("profiler_step", "comm_link"):
                draft.partial(table, error.said())
    return raw.spool(None, ANALYSIS, draft, 0)


def _at_once(draft: Draft, claim: Claim, told: dict[str, object], rows: dict[str, int]) -> bool:
    """Make the contract tables of arrays, where the database is small and usual."""
    if draft.raws is None or not draft.small:
        return False
    groups = db_facts.group_rows(claim.root, db_facts.groups(told))
    ranks = {name: listed for name, _, listed in groups}
    made = few.make(draft.raws, ranks, _STEP_COLUMNS, draft.rank) if len(ranks) == len(groups) else None
    if made is None:
        return False
    draft.give_up()
    made.found.say(draft)
    db_facts.describe(draft, claim, told, few.facts(made))
    db_facts.say_groups(draft, claim.root, groups, db_facts.groups(told))
    db_facts.cover(draft, claim.root, rows, few.counts(made))
    return True


def _shape(draft: Draft, claim: Claim, told: dict[str, object], rows: dict[str, int]) -> None:
    """From raw views to contract tables."""
    root = claim.root
    raw.macros(draft)
    spans.make(draft, rows)
    links.provide(draft)
    db_facts.describe(draft, claim, told, db_facts.in_tables(draft))
    groups = db_facts.groups(told)
    db_facts.say_groups(draft, root, db_facts.group_rows(root, groups), groups)
    provide(draft)
    details.provide(draft)
    series.provide(draft, rows)
    db_facts.cover(draft, root, rows, db_facts.counted(draft))


def _claim(root: Path, main: Path | None, analysis: Path | None) -> Claim | None:
    if analysis and not is_sqlite(analysis):
        analysis = None
    if main is None and (analysis is None or any(analysis.with_name(name).exists() for name in _TEXT)):
        return None
    databases = [path for path in (main, analysis) if path]
    small = rankdir.small_files(root)
    files = {*databases, *small, *(beside for path in databases for beside in side_files(path))}
    facts = rankdir.facts(root) if small or rankdir.rank_root(root) else Facts()
    return Claim(_FORMAT, root, tuple(sorted(files)), _facts(facts, main), _shared(root, main))


def _shared(root: Path, main: Path | None) -> shared.Shared:
    """The devices of an msprof database that is about several."""
    if main is None or not main.name.startswith("msprof_"):
        return ()
    try:
        with Database(main) as database:
            known = db_facts.devices(database)
    except IngestError:
        return ()
    return shared.of(root, tuple(known), known)


def _facts(facts: Facts, main: Path | None) -> Facts:
    """Facts of the directory, completed by those of the database."""
    if main is None:
        return facts
    if facts.rank is None and (named := _RANK_IN_NAME.match(main.name)):
        facts = replace(facts, rank=int(named[1]), rank_source="file name")
    try:
        with Database(main) as database:
            told, (begin, end) = db_facts.metadata(database), db_facts.window(database)
            rank = db_facts.rank_of(database) if facts.rank is None else None
            names = set(db_facts.groups(told)) or db_facts.group_names(database)
    except IngestError:
        return facts
    if rank is not None:
        facts = replace(facts, rank=rank, rank_source="database")
    return replace(
        facts,
        world_size=facts.world_size or db_facts.world_size(told),
        groups=tuple(sorted({*facts.groups, *(rankdir.double_hash(name) for name in names if len(name) < LONG)})),
        begin_ns=begin if facts.begin_ns is None else facts.begin_ns,
        end_ns=end if facts.end_ns is None else facts.end_ns,
    )


def _main_of(root: Path) -> Path | None:
    """The database of a rank directory: by its name, else by its tables. msprof puts it beside its output directory."""
    places = [rankdir.output_dir(root), root]
    if not (root / rankdir.OUTPUT).is_dir():
        places += sorted(path for path in root.glob("PROF_*") if path.is_dir())
    files = [path for place in places for path in sorted(place.iterdir()) if path.name != _ANALYSIS and path.is_file()]
    named = [path for path in files if _NAMED.match(path.name)]
    # msprof adds a database with every export; the one with the latest time says what those before it said
    newest = max((path for path in named if path.name.startswith("msprof_")), key=_stamp, default=None)
    main = next((path for path in named if not path.name.startswith("msprof_")), newest)
    return main or next(filter(_has_tables, files), None)


def _stamp(path: Path) -> tuple[int, str]:
    """Order of exports by the number in the name."""
    digits = path.stem.partition("_")[2]
    return len(digits), digits


def _is_ours(path: Path) -> bool:
    return (bool(_NAMED.match(path.name)) and path.is_file()) or _has_tables(path)


@lru_cache(64)
def _are_several(directory: Path, changed_ns: int) -> bool:
    """Whether a directory holds more than one of our databases; each of them asks."""
    return len(list(islice(filter(_is_ours, directory.iterdir()), 2))) > 1


def _has_tables(path: Path) -> bool:
    """Whether a file of any name is a database with our tables; those in its log count."""
    if not is_sqlite(path):
        return False
    try:
        with Database(path) as database:
            return not KNOWN.isdisjoint(database.tables)
    except IngestError:
        return False


# analysis.db: the profiler's own sums of communication and of steps.
#
# Its manuals say ms for all times; the step times are in fact us (they equal those of step_trace_time.csv).
#: A longer name is not that of a group.
LONG = 4096
_MS, _US, _MB, _GB = 1_000_000, 1_000, 1_000_000, 1_000_000_000
_STEP_COLUMNS = (
    ("computing", "computing_ns"),
    ("communication", "communication_ns"),
    ("communication_not_overlapped", "communication_not_overlapped_ns"),
    ("overlapped", "overlapped_ns"),
    ("free", "free_ns"),
    ("stage", "stage_ns"),
    ("bubble", "bubble_ns"),
    ("communication_not_overlapped_and_exclude_receive", "communication_not_overlapped_exclude_receive_ns"),
    ("preparing", "preparing_ns"),
)


def provide(draft: Draft) -> None:
    """comm_link, profiler_step, and db_comm_time: the analysis of each communication operator."""
    _group_names(draft)
    _match(draft)
    draft.provide(
        "comm_link",
        f"""SELECT m.step, m.type AS scope, m.hccl_op_name AS collective, coalesce(g.name, m.group_name) AS group_name,
        told(m.op_name) AS op_name, small(m.src_rank) AS src_rank, small(m.dst_rank) AS dst_rank,
        told(m.transport_type) AS transport, times(m.transit_size, {_MB}) AS bytes,
        times(m.transit_time, {_MS}) AS transit_ns, m.bandwidth * {_GB} AS bandwidth_bytes_per_s
        FROM raw_CommAnalyzerMatrix m LEFT JOIN db_group_hash g ON g.hash = m.group_name""",
    )
    columns = ", ".join(f"times({theirs}, {_US}) AS {ours}" for theirs, ours in _STEP_COLUMNS)
    draft.provide(
        "profiler_step",
        f"SELECT TRY_CAST(regexp_extract(step, '(\\d+)$', 1) AS BIGINT) AS step, {columns}, 'StepTraceTime' AS source "
        "FROM raw_StepTraceTime",
    )


def _group_names(draft: Draft) -> None:
    """Groups go by a number that is computed from their name."""
    names = draft.con.execute("SELECT DISTINCT group_name FROM db_comm_op WHERE group_name IS NOT NULL").fetchall()
    rows = [{"hash": double_hash(name), "name": name} for (name,) in names if len(name) < LONG]
    draft.table("db_group_hash", rows, pa.schema([("hash", pa.string()), ("name", pa.string())]))


def _match(draft: Draft) -> None:
    """To each analysed operator its span: the same name and group, and where a name repeats, the nearest start."""
    draft.keep(
        "db_analysed",
        f"""SELECT DISTINCT ON (t.row) t.row AS analysis, o.row, o.span_id, t.hccl_op_name, t.group_name, t.step,
        times(t.transit_time, {_MS}) AS transit_ns, times(t.wait_time, {_MS}) AS wait_ns,
        times(t.synchronization_time, {_MS}) AS synchronization_ns, times(t.idle_time, {_MS}) AS idle_ns
        FROM raw_CommAnalyzerTime t LEFT JOIN db_group_hash g ON g.hash = t.group_name
        JOIN db_comm_op o ON o.name = t.hccl_op_name AND o.end_ns >= o.ts_ns
            AND (o.group_name = g.name OR g.name IS NULL)
        ORDER BY t.row, abs(times(t.start_timestamp, {_US}) - o.ts_ns), o.row""",
    )
    draft.view(
        "db_comm_time",
        "SELECT * FROM db_analysed WHERE analysis IN (SELECT min(analysis) FROM db_analysed GROUP BY row)",
    )
    unmatched = (
        "SELECT count(*) FROM raw_CommAnalyzerTime WHERE hccl_op_name NOT LIKE 'Total%' "
        "AND row NOT IN (SELECT analysis FROM db_comm_time)"
    )
    draft.drop("comm", Message("analyses_operators_that_communication_op"), count(draft, unmatched))
    draft.provide(
        "arg",
        """SELECT a.span_id, json_object('Communication Bandwidth Info', json_group_array(json_object(
            'transport_type', b.transport_type, 'transit_size', b.transit_size, 'transit_time', b.transit_time,
            'bandwidth', b.bandwidth, 'large_packet_ratio', b.large_packet_ratio, 'package_size', b.package_size,
            'count', b.count, 'total_duration', b.total_duration)))::VARCHAR AS args
        FROM raw_CommAnalyzerBandwidth b JOIN db_comm_time a ON b.hccl_op_name = a.hccl_op_name
            AND b.group_name IS NOT DISTINCT FROM a.group_name AND b.step IS NOT DISTINCT FROM a.step
        GROUP BY a.span_id""",
    )
