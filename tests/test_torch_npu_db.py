"""Databases of torch_npu: real captures against figures computed from them by hand, and all versions of the schema."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ingest.draft import Draft
from ingest.errors import IngestError
from ingest.finish import Part, finish
from ingest.readers import torch_npu_db

TRACES = Path(__file__).resolve().parents[2] / "shared" / "traces"
DB = TRACES / "Ascend+msinsight" / "test" / "data" / "pytorch" / "db"
RANKS = [f"{level}/rank{rank}_ascend_pt" for level in ("level0", "level1", "level2") for rank in (0, 1)]
PRISTINE = TRACES / "Ascend+msinsight@hist-84c4977b" / "test/data/pytorch/db/level1/rank0_ascend_pt"

real = pytest.mark.skipif(not DB.is_dir(), reason="the shared real captures are not here")


@dataclass(frozen=True)
class Loaded:
    """A rank's contract tables, and a connection that sees them."""

    part: Part
    con: duckdb.DuckDBPyConnection

    def all(self, query: str) -> list[tuple[Any, ...]]:
        return self.con.execute(query).fetchall()

    def one(self, query: str) -> Any:
        return self.all(query)[0][0]

    def cover(self, table: str) -> dict[str, Any]:
        return next(row for row in self.part.coverage if row["table"] == table)


def load(path: Path, scratch: Path) -> Loaded:
    claim = torch_npu_db.sniff(path)
    assert claim is not None
    draft = Draft(scratch / "draft", claim.facts.rank or 0)
    torch_npu_db.read(claim, draft)
    part = finish(draft, scratch / "tables")
    draft.close()
    con = duckdb.connect()
    for table in part.rows:
        con.execute(f"CREATE VIEW {table} AS FROM '{scratch / 'tables' / table}.parquet'")
    return Loaded(part, con)


@pytest.fixture(scope="session")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Loads a real capture once."""
    known: dict[Path, Loaded] = {}

    def get(path: Path) -> Loaded:
        if path not in known:
            known[path] = load(path, tmp_path_factory.mktemp("db"))
        return known[path]

    return get


def main_db(rank: str) -> sqlite3.Connection:
    path = next((DB / rank / "ASCEND_PROFILER_OUTPUT").glob("ascend_pytorch_profiler_*.db"))
    return sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)


def union(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged


def length(spans: Sequence[tuple[int, int]]) -> int:
    return sum(end - begin for begin, end in spans)


@real
@pytest.mark.shared
@pytest.mark.parametrize("rank", RANKS)
def test_spans_reproduce_the_profilers_split(rank: str, loaded: Any) -> None:
    """Unions of our spans equal StepTraceTime; free is the gaps strictly inside the first and last of both."""
    run = loaded(DB / rank)
    computing = union(run.all("SELECT ts_ns, ts_ns + dur_ns FROM span WHERE kind = 'kernel'"))
    communication = union(run.all("SELECT ts_ns, ts_ns + dur_ns FROM span WHERE kind = 'comm_op'"))
    both = union([*computing, *communication])
    exposed = length(both) - length(computing)
    found = {
        "computing": length(computing),
        "communication": length(communication),
        "communication_not_overlapped": exposed,
        "overlapped": length(communication) - exposed,
        "free": both[-1][1] - both[0][0] - length(both),
        "stage": both[-1][1] - both[0][0],
    }
    file = next((DB / rank / "ASCEND_PROFILER_OUTPUT").glob("ascend_pytorch_profiler_*.db"))
    known = json.loads((TRACES / "KNOWN_VALUES.json").read_text())[str(file.relative_to(TRACES))]["StepTraceTime"]
    assert found == {name: round(known[name] * 1000) for name in found}
    step = run.con.sql("SELECT * EXCLUDE (rank) FROM profiler_step").to_arrow_table().to_pylist()
    assert [row["step"] for row in step] == [50]
    assert {name: step[0][f"{name}_ns"] for name in found} == found


@real
@pytest.mark.shared
@pytest.mark.parametrize("rank", RANKS)
def test_every_row_is_accounted_for(rank: str, loaded: Any) -> None:
    run, raw = loaded(DB / rank), main_db(rank)
    rows = {t: raw.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in ("PYTORCH_API", "CANN_API", "TASK")}
    containers = raw.execute(
        "SELECT count(*) FROM TASK t WHERE contextId = 4294967295 AND EXISTS (SELECT 1 FROM TASK s WHERE "
        "s.streamId = t.streamId AND s.taskId = t.taskId AND s.contextId <> 4294967295)"
    ).fetchone()[0]
    assert containers == 17
    operators = raw.execute("SELECT count(*) FROM COMMUNICATION_OP").fetchone()[0]
    assert run.one("SELECT count(*) FROM span") == sum(rows.values()) - containers + operators
    assert run.one("SELECT count(*) FROM kernel") == 187 == run.one("SELECT count(*) FROM span WHERE kind = 'kernel'")
    assert run.one("SELECT count(*) - count(DISTINCT span_id) FROM span") == 0
    for table in ("kernel", "pmu", "transfer", "comm", "host_op", "stack", "arg"):
        assert run.one(f"SELECT count(*) FROM {table} ANTI JOIN span USING (span_id)") == 0
    assert run.part.facts["pid"] == raw.execute("SELECT globalPid FROM TASK LIMIT 1").fetchone()[0]
    assert not any(row["dropped"] for row in run.part.coverage) and run.part.reasons == []


@real
@pytest.mark.shared
def test_stamps_are_exact(loaded: Any) -> None:
    """No stamp passes through a float: every task of the file is there to the nanosecond."""
    rank = "level1/rank0_ascend_pt"
    run = loaded(DB / rank)
    expected = main_db(rank).execute(
        "SELECT startNs, endNs - startNs FROM TASK t WHERE globalTaskId IN (SELECT globalTaskId FROM COMPUTE_TASK_INFO)"
    )
    found = run.all(f"SELECT ts_ns + {run.part.origin_ns}, dur_ns FROM span WHERE kind = 'kernel'")
    assert sorted(found) == sorted(expected)
    apis = main_db(rank).execute("SELECT CAST(startNs AS INTEGER), CAST(endNs AS INTEGER) FROM PYTORCH_API").fetchall()
    kinds = "('cpu_op', 'python', 'enqueue', 'dequeue', 'step_mark')"
    spans = run.all(f"SELECT ts_ns + {run.part.origin_ns}, ts_ns + dur_ns + {run.part.origin_ns} FROM span WHERE kind IN {kinds}")
    assert sorted(spans) == sorted(apis)


@real
@pytest.mark.shared
@pytest.mark.parametrize("rank", [name for name in RANKS if "level0" not in name])
def test_who_each_rank_waits_for(rank: str, loaded: Any) -> None:
    """Sums of Notify_Wait by operator and peer; the rank that everybody waits for was never captured."""
    waits: dict[tuple[str, int], int] = defaultdict(int)
    for operator, peer, nanoseconds in main_db(rank).execute(
        "SELECT o.value, i.dstRank, t.endNs - t.startNs FROM COMMUNICATION_TASK_INFO i JOIN TASK t USING (globalTaskId) "
        "JOIN STRING_IDS s ON s.id = i.taskType JOIN STRING_IDS o ON o.id = i.name WHERE s.value = 'Notify_Wait'"
    ):
        waits[operator, peer] += nanoseconds
    found = loaded(DB / rank).all(
        "SELECT o.name, dst_local, sum(t.dur_ns) FROM comm c JOIN span t USING (span_id) "
        "JOIN span o ON o.span_id = c.op_span_id WHERE task_type = 'Notify_Wait' GROUP BY ALL"
    )
    assert {(operator, peer): int(total) for operator, peer, total in found} == waits and len(waits) == 28
    (_, slowest), longest = max(waits.items(), key=lambda item: item[1])
    expected = {"level1/rank0": (6, 88.4), "level1/rank1": (6, 84.9), "level2/rank0": (4, 80.1), "level2/rank1": (4, 86.4)}
    assert (slowest, round(longest / 1e6, 1)) == expected[rank.removesuffix("_ascend_pt")]


@real
@pytest.mark.shared
@pytest.mark.parametrize("rank", RANKS)
def test_every_kernel_is_launched_by_cann_and_by_pytorch(rank: str, loaded: Any) -> None:
    run, raw = loaded(DB / rank), main_db(rank)
    chains = raw.execute(
        "SELECT count(DISTINCT t.globalTaskId) FROM COMPUTE_TASK_INFO i JOIN TASK t USING (globalTaskId) "
        "JOIN CANN_API a ON a.connectionId = t.connectionId JOIN CONNECTION_IDS c ON c.connectionId = a.connectionId "
        "JOIN PYTORCH_API p ON p.connectionId = c.id WHERE p.type = 50001"
    ).fetchone()[0]
    assert chains == 187
    for route in ("host_to_device", "torch_to_npu"):
        linked = f"SELECT count(DISTINCT dst_span_id) FROM link JOIN span ON dst_span_id = span_id WHERE route = '{route}'"
        assert run.one(f"{linked} AND kind = 'kernel'") == 187
        assert run.one(f"{linked} AND kind = 'comm_op'") == 4
        assert run.one(f"{linked} AND kind = 'comm_task'") == 0
    queue = raw.execute("SELECT count(*) FROM PYTORCH_API a JOIN STRING_IDS s ON s.id = a.name WHERE s.value = 'Enqueue'")
    assert run.one("SELECT count(*) FROM link WHERE route = 'task_queue'") == queue.fetchone()[0]
    assert run.one("SELECT count(*) FROM link WHERE route = 'fwdbwd'") == 27


@real
@pytest.mark.shared
def test_the_collision_of_connection_ids_makes_no_links(loaded: Any) -> None:
    """In 2025 queue entries, forward-backward pairs and CANN calls share numbers; operators then come apart in time."""
    run = loaded(DB / "level2/rank0_ascend_pt")
    names = run.all(
        "SELECT s.name, count(*) FROM link l JOIN span s ON s.span_id = l.src_span_id WHERE route = 'torch_to_npu' "
        "AND (s.name LIKE 'Enqueue%' OR s.name LIKE 'Dequeue%') GROUP BY 1"
    )
    assert names == []
    assert run.one("SELECT min(latency_ns) > 0 FROM link WHERE route IN ('torch_to_npu', 'fwdbwd')")


@real
@pytest.mark.shared
def test_insights_marks_change_nothing(loaded: Any, tmp_path: Path) -> None:
    """The same database before and after MindStudio Insight added its columns and tables to it."""
    after = DB / "level1/rank0_ascend_pt"
    before = tmp_path / after.name
    shutil.copytree(after, before)
    for path in before.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    name = "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db"
    shutil.copyfile(PRISTINE / name, before / name)
    assert (before / name).read_bytes() != (after / name).read_bytes()
    old, new = load(before, tmp_path / "scratch"), loaded(after)
    assert old.part.rows == new.part.rows and old.part.facts == new.part.facts
    assert old.part.coverage == new.part.coverage
    for table in old.part.rows:
        if table != "mip":
            assert sorted(map(repr, old.all(f"FROM {table}"))) == sorted(map(repr, new.all(f"FROM {table}")))


@real
@pytest.mark.shared
def test_reading_leaves_no_trace_beside_the_files(tmp_path: Path) -> None:
    shutil.copytree(DB / "level0/rank0_ascend_pt", tmp_path / "rank0_ascend_pt")
    for path in (tmp_path / "rank0_ascend_pt").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)

    def state() -> dict[str, str]:
        files = sorted(p for p in (tmp_path / "rank0_ascend_pt").rglob("*") if p.is_file())
        return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}

    before = state()
    load(tmp_path / "rank0_ascend_pt", tmp_path / "scratch")
    assert state() == before and len(before) == 3


@real
@pytest.mark.shared
def test_details_of_operators_and_kernels(loaded: Any) -> None:
    run, raw = loaded(DB / "level1/rank0_ascend_pt"), main_db("level1/rank0_ascend_pt")
    strings = dict(raw.execute("SELECT id, value FROM STRING_IDS").fetchall())
    shapes = raw.execute("SELECT name, inputShapes, blockDim FROM COMPUTE_TASK_INFO").fetchall()
    expected = sorted((strings[n], strings[s].strip('"') or None, b) for n, s, b in shapes)
    found = run.all("SELECT name, coalesce(input_shapes, 'N/A'), block_num FROM kernel JOIN span USING (span_id)")
    assert sorted(found) == [(n, s or "N/A", b) for n, s, b in expected]
    ratio = raw.execute(
        "SELECT sum(p.value) FROM TASK_PMU_INFO p JOIN STRING_IDS s ON s.id = p.name WHERE s.value = 'aic_mac_ratio'"
    ).fetchone()[0]
    assert run.one("SELECT sum(value) FROM pmu WHERE metric = 'aic_mac_ratio'") == pytest.approx(ratio)
    total = raw.execute(
        "SELECT sum(p.value) FROM TASK_PMU_INFO p JOIN STRING_IDS s ON s.id = p.name WHERE s.value = 'aic_total_time'"
    ).fetchone()[0]
    assert run.one("SELECT sum(value) FROM pmu WHERE metric = 'aicore_time(us)'") == pytest.approx(total / 1000)
    shapes, types = run.all("SELECT input_shapes, input_dtypes FROM host_op JOIN span USING (span_id) WHERE name = 'aten::addmm'")[0]
    assert shapes == "4096;32,9216;9216,4096;;" and types == "float;float;float;Scalar;Scalar"
    chain = [
        strings[stack] for (stack,) in raw.execute(
            "SELECT stack FROM PYTORCH_CALLCHAINS WHERE id = (SELECT callchainId FROM PYTORCH_API a JOIN STRING_IDS s "
            "ON s.id = a.name WHERE s.value = 'ProfilerStep#50') ORDER BY stackDepth")
    ]  # fmt: skip
    marked = run.one("SELECT frames FROM stack JOIN span USING (span_id) WHERE kind = 'step_mark'")
    assert marked.split("\n") == chain and "__call__" in chain[0] and "<module>" in chain[-1]
    tracks = {row[0] for row in run.all("SELECT process || '/' || name FROM track")}
    assert {"Ascend Hardware/Stream 2", "Python/Thread 3136493", "CANN/Thread 3140046", "HCCL/Plane 7"} <= tracks
    assert {row[0].split("@")[0] for row in run.all("SELECT DISTINCT name FROM span WHERE kind = 'runtime'")} == {
        "AscendCL", "Node", "Hccl"}  # fmt: skip


@real
@pytest.mark.shared
def test_the_analysis_of_communication_reaches_its_operators(loaded: Any) -> None:
    run = loaded(DB / "level1/rank1_ascend_pt")
    path = DB / "level1/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/analysis.db"
    raw = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    times = raw.execute("SELECT hccl_op_name, transit_time, wait_time, idle_time FROM CommAnalyzerTime").fetchall()
    expected = sorted((name, *(round(value * 1e6) for value in values)) for name, *values in times)
    found = run.all(
        "SELECT name, transit_ns, wait_ns, idle_ns FROM comm JOIN span USING (span_id) WHERE kind = 'comm_op' "
        "AND transit_ns IS NOT NULL"
    )
    assert sorted(found) == expected and len(expected) == 4
    assert run.all("SELECT DISTINCT collective, dtype, algorithm FROM comm WHERE op_span_id = span_id") == [
        ("allreduce", "FP32", "MESH-RING")]  # fmt: skip
    assert sorted(run.all("SELECT bytes FROM comm WHERE op_span_id = span_id")) == sorted(
        (count * 4,) for (count,) in main_db("level1/rank1_ascend_pt").execute("SELECT count FROM COMMUNICATION_OP")
    )
    assert run.one("SELECT count(*) FROM comm WHERE op_span_id IS NULL") == 0
    assert run.one("SELECT count(*) FROM comm_link") == 48 == raw.execute("SELECT count(*) FROM CommAnalyzerMatrix").fetchone()[0]


@real
@pytest.mark.shared
def test_coverage_says_what_level0_lacks_and_how_to_get_it(loaded: Any) -> None:
    low, high = loaded(DB / "level0/rank0_ascend_pt"), loaded(DB / "level1/rank0_ascend_pt")
    assert low.cover("pmu")["status"] == "absent" and "aic_metrics" in low.cover("pmu")["collect_with"]
    assert low.cover("comm")["status"] == "partial" and low.cover("comm")["collect_with"] == "profiler_level=Level1"
    assert low.cover("comm_link")["status"] == "absent" and low.cover("kernel")["collect_with"] == "profiler_level=Level1"
    assert low.all("SELECT DISTINCT op_type, block_num FROM kernel") == [(None, None)]
    assert set(low.all("SELECT DISTINCT core FROM kernel")) == {("AI_CORE",), ("AI_VECTOR_CORE",), ("MIX_AIV",), ("STARS_COMMON",)}
    assert high.cover("pmu")["status"] == high.cover("comm")["status"] == "recorded"
    assert low.one("SELECT count(*) FROM span WHERE kind = 'comm_task'") == 296
    assert low.all("SELECT DISTINCT kind FROM track WHERE kind LIKE 'comm%'") == [("comm_group",)]


@real
@pytest.mark.shared
def test_facts_come_before_parsing() -> None:
    claims = [torch_npu_db.sniff(DB / rank) for rank in RANKS]
    assert all(claim is not None for claim in claims)
    facts = [claim.facts for claim in claims if claim]
    assert [fact.rank for fact in facts] == [0, 1] * 3
    assert len({fact.groups for fact in facts}) == 3 and all(len(fact.groups) == 1 for fact in facts)
    assert all(fact.begin_ns and fact.end_ns and fact.begin_ns < fact.end_ns for fact in facts)


@real
@pytest.mark.shared
def test_a_renamed_lone_database_is_known_by_its_tables(tmp_path: Path) -> None:
    path = tmp_path / "something.dat"
    shutil.copyfile(DB / "level0/rank1_ascend_pt/ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_1.db", path)
    claim = torch_npu_db.sniff(path)
    assert claim is not None and claim.root == tmp_path and claim.files == (path,)
    assert (claim.facts.rank, claim.facts.rank_source) == (1, "database")
    assert torch_npu_db.sniff(tmp_path) is None  # a directory of anything is not a rank


@real
@pytest.mark.shared
def test_a_truncated_database_gives_what_is_left(tmp_path: Path) -> None:
    """The list of tables lies in the first third of the file: without it there is nothing to go by, then ever more."""
    whole = (PRISTINE / "ASCEND_PROFILER_OUTPUT/ascend_pytorch_profiler_0.db").read_bytes()
    kept = []
    for tenth in (2, 5, 7, 9):
        path = tmp_path / f"cut{tenth}" / "ascend_pytorch_profiler_0.db"
        path.parent.mkdir()
        path.write_bytes(whole[: len(whole) * tenth // 10])
        if tenth == 2:
            with pytest.raises(IngestError, match="truncated: 37 of 189 pages"):
                load(path, tmp_path / "scratch")
            continue
        run = load(path, tmp_path / f"scratch{tenth}")
        assert "truncated" in run.part.reasons[0]
        kept.append(sum(run.part.rows.values()))
    assert kept == sorted(kept) and kept[-1] > kept[0] > 1000


# From here on databases made by hand.

TASK = "TASK(startNs, endNs, deviceId, connectionId, globalTaskId, globalPid, taskType, contextId, streamId, taskId, modelId)"
NONE = 4294967295


@dataclass
class Maker:
    """Writes a small database."""

    path: Path

    def __post_init__(self) -> None:
        self.con = sqlite3.connect(self.path, isolation_level=None)
        self.strings: dict[str, int] = {}
        self.table("STRING_IDS(id INTEGER, value TEXT)")

    def table(self, declaration: str, *rows: tuple[Any, ...]) -> None:
        """Texts become string ids, except those in a tuple."""
        name = declaration.partition("(")[0]
        self.con.execute(f"CREATE TABLE IF NOT EXISTS {declaration}")
        for row in rows:
            cells = [self.text(cell) if isinstance(cell, str) else cell for cell in row]
            cells = [cell[0] if isinstance(cell, tuple) else cell for cell in cells]
            self.con.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(cells))})", cells)

    def text(self, value: str) -> int:
        if value not in self.strings:
            self.strings[value] = len(self.strings) + 100
            self.con.execute("INSERT INTO STRING_IDS VALUES (?, ?)", (self.strings[value], value))
        return self.strings[value]

    def task(self, number: int, kind: str, begin: int, end: int, stream: int = 1, connection: int = NONE, context: int = NONE) -> None:
        base = 1_700_000_000_000_000_000
        self.table(TASK, (base + begin, base + end, 3, connection, number, 77, kind, context, stream, number, NONE))


@pytest.fixture
def maker(tmp_path: Path) -> Iterator[Maker]:
    (tmp_path / "in").mkdir()
    made = Maker(tmp_path / "in" / "ascend_pytorch_profiler_2.db")
    yield made
    made.con.close()


def test_the_newest_schema(maker: Maker, tmp_path: Path) -> None:
    """blockNum, MEMCPY_INFO, deviceId and rankSize in COMMUNICATION_OP, the profiler's own OVERLAP_ANALYSIS."""
    maker.task(1, "KERNEL_AIVEC", 100, 200, connection=11)
    maker.task(2, "MEMCPY_ASYNC", 300, 400, connection=12)
    maker.task(3, "Notify Wait", 500, 600, stream=4, connection=13)
    maker.task(4, "EVENT_WAIT", 700, 800)
    maker.table(
        "COMPUTE_TASK_INFO(name, globalTaskId, blockNum, mixBlockNum, taskType, opType, inputShapes, opState, gridDim, blockDim)",
        ("MatMul_1", 1, 24, 0, "AI_CORE", "MatMulV2", '"2,3;3,4"', "static", "N/A", "N/A"),
    )
    maker.table("MEMCPY_INFO(globalTaskId, size, memcpyOperation)", (2, 4096, 2))
    maker.table("CANN_API(startNs, endNs, type, globalTid, connectionId, name)", *(
        (1_700_000_000_000_000_000 + at, 1_700_000_000_000_000_050 + at, level, 77 << 32 | 5, connection, name)
        for at, level, connection, name in ((0, 10000, 11, "launch"), (60, 20000, 12, "aclrtMemcpy"), (120, 5500, 13, "x"))
    ))  # fmt: skip
    maker.table("ENUM_API_TYPE(id, name TEXT)", *((i, (n,)) for i, n in ((10000, "node"), (20000, "acl"), (5500, "communication"))))
    maker.table(
        "COMMUNICATION_OP(opName, startNs, endNs, connectionId, groupName, opId, relay, retry, dataType, algType, count, opType, "
        "deviceId, rankSize)",
        ("hcom_send__001_0_1", 1_700_000_000_000_000_500, 1_700_000_000_000_000_610, 13, "g", 9, 0, 1, 3, "MESH", 10, "N/A", 3, 4),
    )
    maker.table(
        "COMMUNICATION_TASK_INFO(name, globalTaskId, taskType, planeId, groupName, notifyId, rdmaType, srcRank, dstRank, "
        "transportType, size, dataType, linkType, opId, isMaster, bandwidth)",
        ("hcom_send__001_0_1", 3, "Notify_Wait", 2, "g", -1, 65534, 0, 1, 0, 512, 3, 1, 9, 1, 2.5e9),
    )
    for enum, name in (("DATA_TYPE", "FP16"), ("LINK_TYPE", "HCCS"), ("TRANSPORT_TYPE", "SDMA")):
        maker.table(f"ENUM_HCCL_{enum}(id, name TEXT)", (3 if name == "FP16" else 1 if name == "HCCS" else 0, (name,)))
    maker.table("OVERLAP_ANALYSIS(id, deviceId, startNs, endNs, type)", (1, 3, 1_700_000_000_000_000_100, 1_700_000_000_000_000_200, 0))
    maker.table("ENUM_OVERLAP_ANALYSIS_TYPE(id, name TEXT)", (0, ("COMPUTE",)))
    groups = {"g": {"group_name": "pp", "group_rank": 0, "global_ranks": [2, 6]}}
    maker.table("META_DATA(name TEXT, value TEXT)", (("parallel_group_info",), (json.dumps(groups),)),
                (("distributed_args",), ('{"world_size": 8}',)))  # fmt: skip
    maker.table("RANK_DEVICE_MAP(rankId, deviceId)", (2, 3))
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, name, ts_ns, dur_ns FROM span WHERE kind NOT IN ('runtime') ORDER BY kind") == [
        ("comm_op", "hcom_send__001_0_1", 500, 110),
        ("comm_task", "Notify_Wait", 500, 100),
        ("kernel", "MatMul_1", 100, 100),
        ("memcpy", "MEMCPY_ASYNC", 300, 100),
        ("profiler_split", "Computing", 100, 100),
        ("wait", "EVENT_WAIT", 700, 100),
    ]
    assert run.all("SELECT block_num, op_type, core, task_type, input_shapes, op_state, stream FROM kernel") == [
        (24, "MatMulV2", "AI_CORE", "KERNEL_AIVEC", "2,3;3,4", "static", 1)]  # fmt: skip
    assert run.all("SELECT direction, bytes, blocking FROM transfer") == [("d2h", 4096, True)]
    assert run.all(
        "SELECT collective, group_name, plane, src_rank, dst_rank, src_local, dst_local, bytes, dtype, link_type, transport, "
        "bandwidth_bytes_per_s, notify_id, retry FROM comm ORDER BY plane NULLS FIRST"
    ) == [
        ("send", "g", None, None, None, None, None, 20, "FP16", None, None, None, None, 1),
        ("send", "g", 2, 2, 6, 0, 1, 512, "FP16", "HCCS", "SDMA", 2.5e9, None, None),
    ]  # fmt: skip
    assert {row[0] for row in run.all("SELECT name FROM span WHERE kind = 'runtime'")} == {
        "Node@launch", "AscendCL@aclrtMemcpy", "Communication@x"}  # fmt: skip
    assert run.one("SELECT count(*) FROM link WHERE route = 'host_to_device'") == 3
    assert run.all("SELECT group_name, kind, ranks FROM parallel_group") == [("g", "pp", [2, 6])]
    assert run.part.facts["world_size"] == 8 and run.part.facts["device_id"] == 3 and run.part.rank == 2
    assert run.cover("pmu")["status"] == "absent"


def test_an_early_schema(maker: Maker, tmp_path: Path) -> None:
    """The table API, no COMPUTE_TASK_INFO, SESSION_TIME_INFO with three columns, no enums."""
    maker.task(1, "KERNEL_AICORE", 10, 20, connection=5)
    maker.task(2, "PLACE_HOLDER_SQE", 30, 40)
    maker.table("API(startNs, endNs, type, globalTid, connectionId, name)", (1_700_000_000_000_000_001, 1_700_000_000_000_000_005, 10000, 1, 5, "launch"))
    maker.table("SESSION_TIME_INFO(startTimeNs, endTimeNs, baseTimeNs)", (1_700_000_000_000_000_000, 1_700_000_001_000_000_000, 1))
    claim = torch_npu_db.sniff(maker.path)
    assert claim is not None and claim.facts.begin_ns == 1_700_000_000_000_000_000
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, name FROM span ORDER BY ts_ns") == [
        ("runtime", "Node@launch"), ("kernel", "KERNEL_AICORE"), ("device_other", "PLACE_HOLDER_SQE")]  # fmt: skip
    assert run.one("SELECT count(*) FROM link") == 1


def test_communication_tasks_without_their_table(maker: Maker, tmp_path: Path) -> None:
    """Below level 1 copies and waits of an operator are told by its connection; its container is not a kernel."""
    maker.task(1, "AI_CORE", 0, 100, connection=7)
    maker.table(TASK, (1_700_000_000_000_000_010, 1_700_000_000_000_000_020, 3, 7, 2, 77, "SDMA", 0, 1, 1, NONE))
    maker.task(3, "SDMA", 200, 210)
    maker.table("COMMUNICATION_OP(opName, startNs, endNs, connectionId, groupName, opId)",
                ("hcom_allGather__1_0_1", 1_700_000_000_000_000_000, 1_700_000_000_000_000_100, 7, "g", 1))  # fmt: skip
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, dur_ns FROM span ORDER BY ALL") == [("comm_op", 100), ("comm_task", 10), ("memcpy", 10)]


def test_hostile_values_do_no_harm(maker: Maker, tmp_path: Path) -> None:
    big = 9223372036854775807
    maker.task(1, "KERNEL_AIVEC", 0, 10)
    maker.task(1, "KERNEL_AIVEC", 20, 30)  # the same id twice
    maker.table(
        TASK,
        (-big, big, 0, 1, 2, 3, "x", 4, 5, 6, 7),
        (("not a number",), 1, 0, 1, 3, 3, "x", 4, 5, 6, 7),
        (1_700_000_000_000_000_009, 1_700_000_000_000_000_001, 0, 1, 4, 3, "x", 4, 5, 6, 7),
        (1_700_000_000_000_000_040, 1_700_000_000_000_000_050, big, big, big, big, -1, big, big, big, big),
    )
    maker.table("COMPUTE_TASK_INFO(name, globalTaskId, blockDim)", ("a", 1, big), ("b", 1, big), (None, None, None))
    maker.table("COMMUNICATION_OP(opName, startNs, endNs, groupName, opId, count, dataType, relay)",
                (None, 1_700_000_000_000_000_000, 1_700_000_000_000_000_001, -5, 1, big, 4, big), (1, big, big, 1, 1, 1, 1, 1))  # fmt: skip
    maker.table("ENUM_HCCL_DATA_TYPE(id, name TEXT)", (4, ("FP64",)), (4, ("FP32",)))
    maker.table("TASK_PMU_INFO(globalTaskId, name, value)", (1, "m", 9e999), (1, "m", 0.5), (555, "m", 1.0))
    maker.table("PYTORCH_API(startNs, endNs, globalTid, name, type, connectionId)", (("1700000000000000001",), ("1700000000000000002",), -1, "op", 50001, 1))
    maker.table("NPU_MEM(type, ddr, hbm, timestampNs, deviceId)", ("app", big, big, 1_700_000_000_000_000_000, 0))
    maker.table("OP_MEMORY(name, size, allocationTime, releaseTime)", ("a", big, -big, big), ("a", 1, 1_700_000_000_000_000_001, None))
    maker.table("META_DATA(name TEXT, value TEXT)", (("parallel_group_info",), ("{" * 5000,)), (("distributed_args",), ('{"world_size": 1e999}',)))
    maker.table("WHO_KNOWS(a)", (1,), (2,))
    run = load(maker.path, tmp_path / "out")
    assert run.one("SELECT count(*) FROM span WHERE kind = 'kernel'") == 2
    assert run.one("SELECT count(*) FROM kernel") == 2 and run.one("SELECT max(block_num) FROM kernel") is None
    assert run.all("SELECT value FROM pmu") == [(0.5,), (0.5,)]
    reasons = run.cover("span")["reason"]
    assert "3 dropped: rows without a start and an end" in reasons and "1 dropped: rows that end before they start" in reasons
    assert "TASK.startNs" in reasons
    assert "2 dropped: rows of the table WHO_KNOWS" in run.cover("arg")["reason"]
    assert "COMMUNICATION" not in (run.part.reasons or [""])[0]


def test_a_view_named_task_acts_as_if_absent(maker: Maker, tmp_path: Path) -> None:
    maker.con.execute("CREATE VIEW TASK AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x AS startNs FROM c")
    maker.table("PYTORCH_API(startNs, endNs, globalTid, name, type)", (1_700_000_000_000_000_001, 1_700_000_000_000_000_002, 1, "op", 50001))
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT kind, name FROM span") == [("cpu_op", "op")]
    assert run.cover("kernel")["status"] == "absent"


def test_annotations_garbage_collection_and_memory(maker: Maker, tmp_path: Path) -> None:
    t = 1_700_000_000_000_000_000
    maker.table("MSTX_EVENTS(startNs, endNs, eventType, rangeId, category, message, globalTid, endGlobalTid, domainId, connectionId)",
                (t, t + 50, 1, 0, 0, "forward", 77 << 32 | 9, 0, "default", 4000000000))  # fmt: skip
    maker.task(8, "MsTx", 20, 60, connection=4000000000)
    maker.table("GC_RECORD(startNs, endNs, globalTid)", (t + 5, t + 9, 77 << 32 | 9))
    maker.table("STEP_TIME(id, startNs, endNs)", (1, t, t + 40), (2, t + 40, t + 90))
    maker.table("NPU_OP_MEM(operatorName, addr, type, size, timestampNs, totalAllocate, totalReserve, component, deviceId)",
                ("a", 1, "allocate", 100, t, 100, 200, "GE", 0), ("a", 1, "release", 100, t + 5, 0, 200, "GE", 0))  # fmt: skip
    maker.table("MEMORY_RECORD(component, timestamp, totalAllocated, totalReserved, totalActive, streamPtr, deviceId)",
                ("PTA", t, 1, 2, 3, None, 0), ("WORKSPACE", t, 4, 5, 6, 99, 0))  # fmt: skip
    maker.table("HCCS(deviceId, timestampNs, txThroughput, rxThroughput)", (0, t, 1048576, 3145728))
    run = load(maker.path, tmp_path / "out")
    assert run.all("SELECT s.kind, s.name, process FROM span s JOIN track USING (track) ORDER BY 1") == [
        ("annotation", "forward", "MSTX"), ("device_annotation", "MsTx", "Ascend Hardware"), ("gc", "GC", "Python GC")]  # fmt: skip
    assert run.all("SELECT route FROM link") == [("connection_id",)]
    assert run.all("SELECT step, ts_ns, dur_ns, host_dur_ns, source FROM step") == [
        (1, 0, 40, 40, "STEP_TIME"), (2, 40, 50, 50, "STEP_TIME")]  # fmt: skip
    assert run.all("SELECT ts_ns, bytes, address FROM memory_event ORDER BY ts_ns") == [(0, 100, "1"), (5, -100, "1")]
    assert run.all("SELECT component, reserved_bytes, stream_ptr FROM memory_sample ORDER BY 1") == [
        ("PTA", 2, None), ("WORKSPACE", 5, "99")]  # fmt: skip
    assert run.all("SELECT counter, series, value FROM sample ORDER BY 1") == [
        ("HCCS/Rx", "Rx(MB/s)", 3.0), ("HCCS/Tx", "Tx(MB/s)", 1.0)]  # fmt: skip


@pytest.mark.parametrize("content", ["nothing", "no tables", "empty tables"])
def test_an_empty_database_is_refused_with_a_sentence(tmp_path: Path, content: str) -> None:
    path = tmp_path / "ascend_pytorch_profiler_0.db"
    if content == "nothing":
        path.write_bytes(b"")
    else:
        con = sqlite3.connect(path)
        con.execute("CREATE TABLE TASK(startNs)")
        if content == "no tables":
            con.execute("DROP TABLE TASK")
        con.commit()
        con.close()
    claim = torch_npu_db.sniff(path)
    assert claim is not None
    with pytest.raises(IngestError) as refused:
        torch_npu_db.read(claim, Draft(tmp_path / "draft", 0))
    assert str(path) in str(refused.value)


def test_other_files_are_not_claimed(tmp_path: Path) -> None:
    (tmp_path / "notes.db").write_bytes(b"hello")
    con = sqlite3.connect(tmp_path / "other.db")
    con.execute("CREATE TABLE slice(id)")
    con.commit()
    con.close()
    assert torch_npu_db.sniff(tmp_path / "notes.db") is None
    assert torch_npu_db.sniff(tmp_path / "other.db") is None
    assert torch_npu_db.sniff(tmp_path) is None
