"""Databases of torch_npu: real captures against figures computed from them by hand, and all versions of the schema."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from torch_npu_db_files import DB, PRISTINE, RANKS, TRACES, Loaded, load, real


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
    spans = run.all(
        f"SELECT ts_ns + {run.part.origin_ns}, ts_ns + dur_ns + {run.part.origin_ns} FROM span WHERE kind IN {kinds}"
    )
    assert sorted(spans) == sorted(apis)


@real
@pytest.mark.shared
@pytest.mark.parametrize("rank", [name for name in RANKS if "level0" not in name])
def test_who_each_rank_waits_for(rank: str, loaded: Any) -> None:
    """Sums of Notify_Wait by operator and peer; the rank that everybody waits for was never captured."""
    waits: dict[tuple[str, int], int] = defaultdict(int)
    for operator, peer, nanoseconds in main_db(rank).execute(
        "SELECT o.value, i.dstRank, t.endNs - t.startNs "
        "FROM COMMUNICATION_TASK_INFO i JOIN TASK t USING (globalTaskId) "
        "JOIN STRING_IDS s ON s.id = i.taskType JOIN STRING_IDS o ON o.id = i.name WHERE s.value = 'Notify_Wait'"
    ):
        waits[operator, peer] += nanoseconds
    found = loaded(DB / rank).all(
        "SELECT o.name, dst_local, sum(t.dur_ns) FROM comm c JOIN span t USING (span_id) "
        "JOIN span o ON o.span_id = c.op_span_id WHERE task_type = 'Notify_Wait' GROUP BY ALL"
    )
    assert {(operator, peer): int(total) for operator, peer, total in found} == waits and len(waits) == 28
    (_, slowest), longest = max(waits.items(), key=lambda item: item[1])
    expected = {
        "level1/rank0": (6, 88.4),
        "level1/rank1": (6, 84.9),
        "level2/rank0": (4, 80.1),
        "level2/rank1": (4, 86.4),
    }
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
        linked = (
            f"SELECT count(DISTINCT dst_span_id) FROM link JOIN span ON dst_span_id = span_id WHERE route = '{route}'"
        )
        assert run.one(f"{linked} AND kind = 'kernel'") == 187
        assert run.one(f"{linked} AND kind = 'comm_op'") == 4
        assert run.one(f"{linked} AND kind = 'comm_task'") == 0
    queue = raw.execute(
        "SELECT count(*) FROM PYTORCH_API a JOIN STRING_IDS s ON s.id = a.name WHERE s.value = 'Enqueue'"
    )
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
        assert sorted(map(repr, old.all(f"FROM {table}"))) == sorted(map(repr, new.all(f"FROM {table}")))


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
    shapes, types = run.all(
        "SELECT input_shapes, input_dtypes FROM host_op JOIN span USING (span_id) WHERE name = 'aten::addmm'"
    )[0]
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
    assert (
        run.one("SELECT count(*) FROM comm_link")
        == 48
        == raw.execute("SELECT count(*) FROM CommAnalyzerMatrix").fetchone()[0]
    )


@real
@pytest.mark.shared
def test_coverage_says_what_level0_lacks_and_how_to_get_it(loaded: Any) -> None:
    low, high = loaded(DB / "level0/rank0_ascend_pt"), loaded(DB / "level1/rank0_ascend_pt")
    assert low.cover("pmu")["status"] == "absent" and "aic_metrics" in low.cover("pmu")["collect_with"]
    assert low.cover("comm")["status"] == "partial" and low.cover("comm")["collect_with"] == "profiler_level=Level1"
    assert (
        low.cover("comm_link")["status"] == "absent" and low.cover("kernel")["collect_with"] == "profiler_level=Level1"
    )
    assert low.all("SELECT DISTINCT op_type, block_num FROM kernel") == [(None, None)]
    assert set(low.all("SELECT DISTINCT core FROM kernel")) == {
        ("AI_CORE",),
        ("AI_VECTOR_CORE",),
        ("MIX_AIV",),
        ("STARS_COMMON",),
    }
    assert high.cover("pmu")["status"] == high.cover("comm")["status"] == "recorded"
    assert low.one("SELECT count(*) FROM span WHERE kind = 'comm_task'") == 296
    assert low.all("SELECT DISTINCT kind FROM track WHERE kind LIKE 'comm%'") == [("comm_group",)]
