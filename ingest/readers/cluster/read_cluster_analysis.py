"""Sums of a whole cluster by msprof-analyze (cluster_analysis_output), and analysis.db where it lies alone.

They give each rank's step times and communication and no spans. So a run made of them has the profiler's own split and
nothing that could be drawn. One analysis is as many claims as it names ranks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, joined, verbatim
from npulens.ingest.readers import Claim, Facts
from npulens.ingest.readers.ascend import rankdir
from npulens.ingest.readers.cluster import columns, documents, files
from npulens.ingest.readers.sqlite import Database, Scan, Wanted, is_sqlite, side_files
from npulens.ingest.tables.draft import Draft

TITLE = "msprof-analyze cluster sums"

_NO_SPANS = Message("spans_were_not_recorded_here")
_HAVE = ("profiler_step", "summary", "comm_link", "parallel_group")


def sniff(path: Path) -> Claim | tuple[Claim, ...] | None:
    """Any one of the files stands for the analysis, and that for every rank it names."""
    told = files.role(path.name)
    if told is None or not path.is_file():
        return None
    if told == files.ANALYSIS and (rankdir.rank_root(path.parent) or not is_sqlite(path)):
        return None
    found = files.beside(path)
    if set(found) == {files.GROUPS}:  # rank directories have one of this name too
        return None
    lead = next(iter(found.values()))
    read = tuple(sorted({part for file in found.values() for part in (file, *_logs(file))}))
    ranks = files.ranks(found)
    claims = tuple(
        Claim("cluster_analysis", lead / f"rank {rank}", read, Facts(rank, "database" if found.keys() <= {
            files.DATABASE} else "metadata")) for rank in ranks
    )  # fmt: skip
    return claims or Claim("cluster_analysis", lead, read)


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft with what the analysis says of one rank."""
    found = {told: path for path in claim.files if (told := files.role(path.name))}
    whose = claim.facts.rank
    ranks = files.ranks(found)
    tables = Tables(draft, whose, lowest=whose is None or whose == ranks[0])
    for told, path in found.items():
        tables.read(told, path)
    tables.provide()
    if not any((tables.steps, tables.sums, tables.links)):
        why = [reason for cover in draft.covers.values() for reason in cover.partial]
        raise IngestError("empty", joined(why or [Message("cluster_analysis_without_row_that")]), str(claim.root))
    _tell(draft, tables)


def _logs(path: Path) -> tuple[Path, ...]:
    return side_files(path) if path.suffix == ".db" else ()


def _tell(draft: Draft, tables: Tables) -> None:
    """No spans, no stamps; and the unit that was taken."""
    draft.fact("backend", "npu")
    draft.fact("clock", "none")
    draft.partial(None, joined([Message("only_sums_of_a_cluster_analysis"), _NO_SPANS]))
    for table, cover in draft.covers.items():
        if table not in _HAVE and cover.absent is None:
            draft.absent(table, _NO_SPANS, Message("rank_directories"))
    if tables.steps:
        draft.note("profiler_step", Message("times_are_taken_as_us"))
    else:
        draft.absent("profiler_step", Message("analysis_holds_no_step_times"), "msprof-analyze cluster -m all")
    if not tables.links:
        draft.absent("comm_link", Message("no_communication_matrix_in_analysis"), "msprof-analyze cluster -m all")


# One rank's part of a cluster analysis, as contract tables.
_US, _MS, _MB, _GB = 1_000, 1_000_000, 1_000_000, 1_000_000_000
_STEPS = pa.schema([("step", pa.int64()), *((name, pa.int64()) for name in columns.TIMES), ("source", pa.string())])
_SUMS = pa.schema(
    [("source", pa.string()), ("name", pa.string()), ("category", pa.string()), ("count", pa.int64()),
     ("total_ns", pa.int64()), ("args", pa.string())]
)  # fmt: skip
_LINKS = pa.schema(
    [("step", pa.string()), ("scope", pa.string()), ("collective", pa.string()), ("group_name", pa.string()),
     ("op_name", pa.string()), ("src_rank", pa.int32()), ("dst_rank", pa.int32()), ("transport", pa.string()),
     ("bytes", pa.int64()), ("transit_ns", pa.int64()), ("bandwidth_bytes_per_s", pa.float64())]
)  # fmt: skip
_GROUPS = pa.schema(
    [("group_name", pa.string()), ("kind", pa.string()), ("ranks", pa.list_(pa.int32())), ("source", pa.string())]
)
#: Tables of the databases: ours, theirs with the names that versions gave them.
_TIME_TABLES = ("CommAnalyzerTime", "ClusterCommAnalyzerTime", "ClusterCommunicationTime")
_MATRIX_TABLES = ("CommAnalyzerMatrix", "ClusterCommAnalyzerMatrix", "ClusterCommunicationMatrix")
_TIME_COLUMNS = (
    "rank_id|rank:s step:s type:s hccl_op_name|op_name:s group_name|rank_set:s elapse_time|elapsed_time:f "
    "transit_time:f wait_time:f synchronization_time:f idle_time:f start_timestamp:f"
)
_MATRIX_COLUMNS = (
    "step:s type:s hccl_op_name:s group_name|rank_set:s op_name:s src_rank:s dst_rank:s transport_type:s "
    "transit_size:f transit_time:f bandwidth:f"
)
_Rows = list[dict[str, Any]]


class Tables:
    """What was met of one rank; ``lowest`` tells that it also speaks for what belongs to no rank."""

    def __init__(self, draft: Draft, rank: int | None, lowest: bool) -> None:
        self._draft, self._rank, self._lowest = draft, rank, lowest
        self.steps: _Rows = []
        self.sums: _Rows = []
        self.links: _Rows = []
        self.groups: _Rows = []
        self._known: set[int | None] = set()

    def read(self, told: str, path: Path) -> None:
        """Take in one file; a damaged one takes nothing but itself."""
        readers: Mapping[str, Callable[[Path], None]] = {
            files.STEPS: self._csv, files.SUMMARY: self._csv, files.COMMUNICATION: self._operators,
            files.MATRIX: self._pairs, files.GROUPS: self._groups, files.DATABASE: self._database,
            files.ANALYSIS: self._database,
        }  # fmt: skip
        into = {files.COMMUNICATION: "summary", files.MATRIX: "comm_link", files.GROUPS: "parallel_group"}
        try:
            readers[told](path)
        except (IngestError, OSError) as error:
            said = error.said() if isinstance(error, IngestError) else verbatim(error)
            self._draft.partial(into.get(told, "profiler_step"), said)
        self._draft.advance(path.stat().st_size)

    def provide(self) -> None:
        """Say what becomes of it."""
        for table, rows, shape in (
            ("profiler_step", self.steps, _STEPS), ("summary", self.sums, _SUMS), ("comm_link", self.links, _LINKS),
            ("parallel_group", self.groups, _GROUPS),
        ):  # fmt: skip
            self._draft.table(f"{table}_rows", rows, shape)
            if rows:
                self._draft.provide(table, f"SELECT * FROM {table}_rows")

    def _csv(self, path: Path) -> None:
        for row in files.rows(path):
            self._step(dict(row), path.name)

    def _step(self, row: Mapping[str, str | None], source: str) -> None:
        """One row of step times, if it is this rank's; stages and ranks nobody names are counted once."""
        whose = columns.rank_of(row)
        if whose != self._rank or (whose is None and "rank" in row):
            if whose is None and self._lowest and any(row.values()):
                stage = (row.get("type") or "").strip().lower() == "stage"
                reason = (Message("rows_whole_stage_which_are") if stage else Message("rows_without_rank"))
                self._draft.drop("profiler_step", reason)
            return
        times = {name: columns.ns(row.get(name)) for name in columns.TIMES}
        if all(value is None for value in times.values()):
            self._draft.drop("profiler_step", Message("rows_without_single_time"))
            return
        step = columns.step_of(row)
        if source.startswith(("cluster_time_summary", "ClusterTimeSummary")) and step in self._known:
            return  # the step table says the same of this step, and more
        self._known.add(step)
        self.steps.append({"step": step, **times, "source": source})

    def _operators(self, path: Path) -> None:
        for operator in documents.operators(path):
            if operator.rank != self._rank:
                continue
            times = operator.told.get("Communication Time Info")
            elapsed = times.get("Elapse Time(ms)") if isinstance(times, dict) else None
            args = {"step": operator.place.step, **operator.told}
            self._sum(operator.place, documents.scaled(elapsed, _MS), args)

    def _sum(self, place: documents.Place, total_ns: int | None, args: Mapping[str, object]) -> None:
        total = place.name.startswith("Total")
        self.sums.append(
            {"source": "cluster_communication", "name": place.name, "category": place.group,
             "count": None if total else 1, "total_ns": total_ns, "args": json.dumps(args, default=str)}
        )  # fmt: skip

    def _pairs(self, path: Path) -> None:
        """A pair belongs to the rank that sends, so that it is there once."""
        for pair in documents.pairs(path):
            if pair.src != self._rank:
                continue
            told, place = pair.told, pair.place
            bandwidth = documents.scaled(told.get("Bandwidth(GB/s)"), _GB)
            self.links.append(
                {"step": place.step, "scope": place.scope, "collective": place.name.partition("@")[0],
                 "group_name": place.group, "op_name": _text(told.get("Op Name")), "src_rank": pair.src,
                 "dst_rank": pair.dst, "transport": _text(told.get("Transport Type")),
                 "bytes": documents.scaled(told.get("Transit Size(MB)"), _MB),
                 "transit_ns": documents.scaled(told.get("Transit Time(ms)"), _MS),
                 "bandwidth_bytes_per_s": None if bandwidth is None else float(bandwidth)}
            )  # fmt: skip

    def _groups(self, path: Path) -> None:
        seen = set()
        for group in documents.groups(path):
            if self._rank in group.ranks and (group.name, group.ranks) not in seen:
                seen.add((group.name, group.ranks))
                self.groups.append(
                    {"group_name": group.name, "kind": group.kind, "ranks": list(group.ranks),
                     "source": f"{path.name} ({group.scope})"}
                )  # fmt: skip

    def _database(self, path: Path) -> None:
        with Database(path, self._draft.dir) as database:
            if database.damage:
                self._draft.partial("profiler_step", database.damage)
            for table, rows in columns.step_tables(database):
                for row in rows:
                    self._step(row, table)
            self._database_times(database)
            self._database_matrix(database)

    def _database_times(self, database: Database) -> None:
        for row in _scan(database, _TIME_TABLES, _TIME_COLUMNS, self._draft, "summary"):
            if columns.whole(row["rank_id"]) != self._rank:
                continue
            place = documents.Place(row["group_name"], row["step"], row["type"], row["hccl_op_name"] or "")
            args = {f"{name}(ms)": row[name] for name in (
                "transit_time", "wait_time", "synchronization_time", "idle_time")}  # fmt: skip
            told = {"step": row["step"], "start_timestamp(us)": row["start_timestamp"], **args}
            self._sum(place, documents.scaled(str(row["elapse_time"]), _MS), told)

    def _database_matrix(self, database: Database) -> None:
        for row in _scan(database, _MATRIX_TABLES, _MATRIX_COLUMNS, self._draft, "comm_link"):
            src, dst = columns.whole(row["src_rank"]), columns.whole(row["dst_rank"])
            if self._rank is not None and src != self._rank:
                continue
            bandwidth = row["bandwidth"]
            self.links.append(
                {"step": row["step"], "scope": row["type"], "collective": row["hccl_op_name"],
                 "group_name": row["group_name"], "op_name": row["op_name"], "src_rank": src, "dst_rank": dst,
                 "transport": row["transport_type"], "bytes": documents.scaled(str(row["transit_size"]), _MB),
                 "transit_ns": documents.scaled(str(row["transit_time"]), _MS),
                 "bandwidth_bytes_per_s": None if bandwidth is None else bandwidth * _GB}
            )  # fmt: skip


def _scan(database: Database, tables: tuple[str, ...], spec: str, draft: Draft, into: str) -> _Rows:
    """The rows of the first of these tables that is there."""
    wanted = [Wanted(names.split("|")[0], kind, tuple(names.split("|")))
              for names, _, kind in (word.partition(":") for word in spec.split())]  # fmt: skip
    table = next((name for name in tables if name in database.tables), None)
    if table is None:
        return []
    result = Scan()
    rows = [row for batch in database.scan(table, wanted, result) for row in batch.to_pylist()]
    if result.damage:
        draft.partial(into, result.damage)
    return rows


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", "N/A") else None
