"""Forms of torch.profiler's files that differ from what today's version writes, on real captures and tiled ones."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from npulens import ingest
from npulens.analysis.device.kernels import identity, kernels
from npulens.analysis.idle.culprit import codes
from npulens.analysis.idle.host_spans import hosts
from npulens.analysis.idle.pieces import idle
from npulens.analysis.run import Run
from npulens.analysis.views import install
from npulens.ingest.readers import Facts, readers
from npulens.ingest.readers.kineto import read_kineto, read_memory_timeline
from npulens.ingest.store import runs
from tests.kineto_files import REAL, TRACES, Event, Maker, clipped, length, merged, ns, task, x

SECOND = TRACES.parent / "traces_2"
OWNERS = ("AMD-AGI+", "facebookresearch+", "pytorch+", "pytorch-labs+", "luatil+", "harryjmoss+")
BARE = SECOND / "pytorch+kineto@hist-7bd25bd0/tb_plugin/samples/resnet50_num_workers_4/worker0.pt.trace.json.gz"
SMALL = TRACES / "AMD-AGI+TraceLens/tests/traces/h100/gaunernst_bert-small-uncased__1016001.json.gz"
#: Every table but what holds names of files.
SUMS = ("span", "kernel", "transfer", "comm", "link", "host_op", "step", "device_time", "memory_event", "sample", "arg")


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    yield maker
    maker.close()


def second() -> list[Path]:
    files = [p for owner in OWNERS for p in sorted(SECOND.glob(f"{owner}*/**/*")) if p.is_file()]
    return [p for p in files if p.name.endswith((".json", ".json.gz"))]


def content(path: Path) -> bytes:
    raw = path.read_bytes()
    return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw


def loaded(path: Path, place: Path) -> duckdb.DuckDBPyConnection:
    (run,) = ingest.load(path, place).runs
    assert run.run_id, run.reason
    return runs.open_run(place, run.run_id)


def sums(con: duckdb.DuckDBPyConnection, rank: int) -> dict[str, Any]:
    """What a rank's tables hold, without ids and ranks."""
    found: dict[str, Any] = {}
    for table in SUMS:
        names = [row[0] for row in con.execute(f"DESCRIBE {table}").fetchall()]
        kept = [n for n in names if n not in ("rank", "track", "parent_id") and not n.endswith("span_id")]
        found[table] = con.execute(
            f"SELECT count(*), sum(hash({', '.join(kept)})::HUGEINT) FROM {table} WHERE rank = ?", [rank]
        ).fetchall()
    return found


# --- a bare list -----------------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.skipif(not BARE.is_file(), reason="no shared captures")
def test_a_bare_list_of_2020_has_the_split_of_its_events(tmp_path: Path) -> None:
    con = loaded(BARE, tmp_path)
    events = json.loads(content(BARE))
    assert isinstance(events, list)

    def of(*cats: str) -> list[tuple[int, int]]:
        return merged((e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") in cats)

    marks = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e["name"].startswith("ProfilerStep#"))
    work, computing = of("Kernel", "Memset", "Memcpy"), of("Kernel", "Memset")
    edges = [begin for begin, _ in marks] + [max(marks[-1][1], work[-1][1])]
    windows = [(edges[0], edges[-1]), *zip(edges, edges[1:], strict=False)]
    expected = []
    for begin, end in windows:
        busy, computes = (length(clipped(each, begin, end)) for each in (work, computing))
        expected.append(
            (1000 * (end - begin), 1000 * computes, 0, 1000 * (busy - computes), 1000 * (end - begin - busy))
        )
    found = con.execute(
        "SELECT dur_ns, computing_ns, communication_ns, copy_not_overlapped_ns, idle_ns FROM device_time "
        "ORDER BY step NULLS FIRST"
    ).fetchall()
    assert found == expected
    assert len(found) == 7 and found[0] == (1086381000, 649956000, 0, 21664000, 414761000)
    assert con.execute("SELECT rank, backend FROM rank").fetchall() == [(0, "cuda")]


# --- any name --------------------------------------------------------------------------------------------------------


@pytest.mark.shared
@pytest.mark.skipif(not REAL, reason="no shared captures")
def test_every_file_is_told_by_what_it_holds_whatever_its_name(tmp_path: Path) -> None:
    names, tried = random.Random(1), 0
    for path in [*REAL, *second()]:
        claim = read_kineto.sniff(path)
        assert claim is not None, path
        plain, raw = content(path), path.read_bytes()
        packed = gzip.compress(plain, 1) if raw == plain else raw
        for data, ending in ((plain, ""), (plain, ".json"), (packed, ""), (packed, ".bin"), (packed, ".gz")):
            renamed = tmp_path / f"{names.getrandbits(40):x}q{ending}"
            renamed.write_bytes(data)
            claims = {name: found for name, reader in readers().items() if (found := reader.sniff(renamed))}
            renamed.unlink()
            assert set(claims) == {"kineto"}, path
            got = claims["kineto"]
            assert not isinstance(got, tuple) and got.shared == claim.shared
            assert (got.facts.world_size, got.facts.groups) == (claim.facts.world_size, claim.facts.groups), path
            if claim.facts.rank_source == "metadata":
                assert got.facts.rank == claim.facts.rank, path
            tried += 1
    assert tried > 200


@pytest.mark.shared
@pytest.mark.skipif(not SMALL.is_file(), reason="no shared captures")
@pytest.mark.parametrize("name, packed", [("w0", False), ("w1", True), ("w2.json", False), ("w3.bin", True)])
def test_a_renamed_file_gives_the_same_tables(name: str, packed: bool, tmp_path: Path) -> None:
    renamed = tmp_path / name
    renamed.write_bytes(gzip.compress(content(SMALL)) if packed else content(SMALL))
    assert sums(loaded(renamed, tmp_path / "a"), 0) == sums(loaded(SMALL, tmp_path / "b"), 0)


def test_lists_of_others_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "x.json"
    event = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.5, "dur": 2, "pid": 1, "tid": 1, "args": {}}
    for events in ([event], [event, {**event, "args": {"correlation": 1}, "pid": "Ascend Hardware"}], [1, 2], [[1, 2]]):
        other.write_text(json.dumps(events))
        assert read_kineto.sniff(other) is None and read_memory_timeline.sniff(other) is None
    (refused,) = ingest.load(other, tmp_path / "store").runs
    assert refused.error and refused.error["kind"] == "unknown_json"


def test_a_trace_that_only_shares_the_version_is_left_alone(tmp_path: Path) -> None:
    """Tools for kernels write a schema's version before events of categories of their own."""
    other = tmp_path / "trace.json"
    event = {"name": "Line 21", "ph": "X", "ts": 18, "dur": 1, "pid": 0, "tid": 0}
    for category, count, wanted in (("Line 21", 20, False), ("cpu_op", 20, True), ("tomorrow", 1, True)):
        other.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [{**event, "cat": category}] * count}))
        assert (read_kineto.sniff(other) is not None) == wanted, category
    named = {"schemaVersion": 1, "deviceProperties": [], "traceEvents": [{**event, "cat": "tomorrow"}] * 20}
    other.write_text(json.dumps(named))
    assert read_kineto.sniff(other) is not None  # a category of a device that nobody here knows
    other.write_text(json.dumps({"schemaVersion": 1, "traceEvents": [{**event, "cat": "Line 21"}] * 20}))
    (refused,) = ingest.load(other, tmp_path / "store").runs
    assert "a Chrome trace of another program" in (refused.reason or "")


# --- several ranks in one file ---------------------------------------------------------------------------------------


def of_rank(number: int) -> dict[str, Any]:
    """The capture as rank ``number`` had written it: its own device, later, its kernels longer."""
    trace: dict[str, Any] = json.loads(content(SMALL))
    for event in trace["traceEvents"]:
        args = event.get("args", {})
        if "ts" in event:
            event["ts"] += 10 * number
        if event.get("cat") == "kernel":
            event["dur"] += number
        if "device" in args and event.get("cat", "").startswith(("kernel", "gpu_")):
            args["device"], event["pid"] = number, number
    return trace


def tiled(labels: list[str], place: Path) -> Path:
    """One file of all ranks as a merger writes it: labelled processes, the header of the first rank."""
    parts = [of_rank(number) for number in range(len(labels))]
    for label, part in zip(labels, parts, strict=True):
        for event in part["traceEvents"]:
            event["pid"] = f"{label} {event['pid']}"
    whole = {"traceEvents": [event for part in parts for event in part["traceEvents"]]}
    place.write_bytes(
        gzip.compress(json.dumps({**whole, **{k: v for k, v in parts[0].items() if k not in whole}}).encode())
    )
    return place


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[dict[str, Any]]]:
    """The sums of each rank loaded from a file of its own."""
    if not SMALL.is_file():
        pytest.skip("no shared captures")
    place, found = tmp_path_factory.mktemp("alone"), []
    for number in range(2):
        (place / f"{number}.json").write_text(json.dumps(of_rank(number)))
        found.append(sums(loaded(place / f"{number}.json", place / "store"), 0))
    yield found


@pytest.mark.shared
@pytest.mark.parametrize(
    "labels, ranks",
    [(["[TP00]", "[TP01]"], [0, 1]), (["[TP02]", "[TP05]"], [2, 5]), (["[TP0_EP0]", "[TP1_EP1]"], [0, 1]),
     (["[TP00-PP00]", "[TP00-PP01]"], [0, 1]), (["[TP01-DP00]", "[TP03-DP01]"], [1, 3])],
    ids=str,
)  # fmt: skip
def test_ranks_of_one_file_are_ranks_of_one_run(
    labels: list[str], ranks: list[int], alone: list[dict[str, Any]], tmp_path: Path
) -> None:
    """Equal correlations and External ids of two ranks never meet, nor do their clocks, threads and streams."""
    con = loaded(tiled(labels, tmp_path / "merged-1.trace.json.gz"), tmp_path / "store")
    assert [row[0] for row in con.execute("SELECT rank FROM rank ORDER BY rank").fetchall()] == ranks
    assert con.execute("SELECT world_size FROM run").fetchall() == [(max(ranks) + 1,)]
    assert [row[0] for row in con.execute("SELECT device_id FROM rank ORDER BY rank").fetchall()] == [0, 1]
    begin = con.execute("SELECT min(first_ns) FROM rank").fetchall()[0][0]
    assert begin == 0
    for rank, own in zip(ranks, alone, strict=True):
        mine = sums(con, rank)
        for table in set(SUMS) - {"span", "step", "device_time", "memory_event", "sample"}:  # stamps count from the run
            assert mine[table] == own[table], table
        assert mine["span"][0][0] == own["span"][0][0]
    longer = con.execute("SELECT rank, sum(dur_ns), count(*) FROM span WHERE kind = 'kernel' GROUP BY 1 ORDER BY 1")
    (_, first, kernels), (_, second_, _) = longer.fetchall()
    assert second_ - first == 1000 * kernels
    crossed = (
        "SELECT count(*) FROM link l JOIN span a ON a.span_id = src_span_id JOIN span b ON b.span_id = dst_span_id"
    )
    assert con.execute(f"{crossed} WHERE a.rank <> b.rank").fetchall() == [(0,)]


def test_labels_are_ranks_only_where_there_are_several(tmp_path: Path) -> None:
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1, "tid": 1, "args": {}}

    def facts(*pids: str) -> tuple[tuple[int, Facts], ...]:
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": [{**event, "pid": pid} for pid in pids]}))
        claim = read_kineto.sniff(path)
        assert claim is not None
        return claim.shared

    assert facts("[TP00] 1", "[TP00] 2") == ()
    assert facts("[python] 1", "[main] 2") == ()
    assert [f.rank for _, f in facts("[TP00] 1", "[python] 1", "[TP07] 1")] == [0, 7]
    both = facts("[TP00-PP00] 1", "[TP01-PP00] 1", "[TP00-PP01] 1", "[TP01-PP01] 1")
    assert sorted((f.rank, f.rank_source) for _, f in both) == [(rank, "assumed") for rank in range(4)]


# --- several ranks in one file of TraceFuse --------------------------------------------------------------------------


def fused(rank: int, kernel_us: int) -> list[Event]:
    """A launch and its kernel as TraceFuse writes those of a rank: process 50 and device 1, renumbered by thousands."""
    host, device, correlation = 1000 * rank + 50, 1000 * rank + 1, 100 * rank + 7
    flow = {"cat": "ac2g", "name": "ac2g", "id": correlation}
    events: list[Event] = [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": host, "tid": 50, "ts": 10, "dur": 9,
         "args": {"External id": 4, "pid_raw": 50}},
        {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": host, "tid": 50, "ts": 12, "dur": 2,
         "args": {"External id": 4, "correlation": correlation, "pid_raw": 50}},
        {"ph": "s", "pid": host, "tid": 50, "ts": 12, "args": {"pid_raw": 50}, **flow},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 3, "ts": 20, "dur": kernel_us,
         "args": {"External id": 4, "correlation": correlation, "device": 1, "stream": 3, "pid_raw": 1}},
        {"ph": "f", "bp": "e", "pid": device, "tid": 3, "ts": 20, "args": {"pid_raw": 1}, **flow},
        {"ph": "i", "name": "Record Window End", "pid": "Traces", "tid": "Trace", "ts": 90, "args": {"pid_raw": ""}},
    ]  # fmt: skip
    return [{**event, "args": {**event["args"], "rank": rank}} for event in events]


def called(rank: int) -> list[Event]:
    """Names of its processes, which tell no rank but in the name."""
    sides = ((1000 * rank + 1, "GPU"), (1000 * rank + 50, "CPU"))
    return [{"args": {"name": f"RANK {rank} - {side}"}, "name": "process_name", "ph": "M", "pid": pid, "tid": 0}
            for pid, side in sides]  # fmt: skip


@pytest.mark.parametrize("named", [True, False])
def test_ranks_of_one_file_of_tracefuse_are_ranks_of_one_run(named: bool, tmp_path: Path) -> None:
    """Ranks 3 and 5 run kernels of 10 and 40 us; each has one link, within it, though External ids are equal."""
    names = called(3) + called(5) if named else []
    path = tmp_path / "merged_all_events.json.gz"
    text = json.dumps({"traceEvents": fused(3, 10) + fused(5, 40) + names}, indent=4)
    path.write_bytes(gzip.compress(text.encode()))
    con = loaded(path, tmp_path / "store")
    assert con.execute("SELECT rank, rank_source FROM rank ORDER BY rank").fetchall() == [
        (3, "metadata"), (5, "metadata")]  # fmt: skip
    assert con.execute("SELECT world_size FROM run").fetchall() == [(6,)]
    kernels = "SELECT rank, count(*), sum(dur_ns) FROM span WHERE kind = 'kernel' GROUP BY 1 ORDER BY 1"
    assert con.execute(kernels).fetchall() == [(3, 1, 10_000), (5, 1, 40_000)]
    ends = "JOIN span a ON a.span_id = src_span_id JOIN span b ON b.span_id = dst_span_id"
    assert con.execute(f"SELECT a.rank, b.rank FROM link l {ends} ORDER BY 1").fetchall() == [(3, 3), (5, 5)]


def test_a_file_of_tracefuse_that_leaves_a_rank_open_is_not_taken_apart(tmp_path: Path) -> None:
    def ranks(*events: Event) -> list[int]:
        path = tmp_path / "t.json"
        path.write_text(json.dumps({"traceEvents": list(events)}))
        claim = read_kineto.sniff(path)
        assert claim is not None
        return sorted(facts.rank or 0 for _, facts in claim.shared)

    both = fused(0, 1) + fused(1, 1)
    assert ranks(*both, *called(0), *called(1)) == [0, 1]
    assert ranks(*fused(1, 1), *called(1)) == []
    assert ranks(*both, {**called(0)[0], "pid": 1001}) == []
    assert ranks(*both, {**both[0], "args": {"rank": 1}}) == []
    assert ranks(*both, x("cpu_op", "aten::mm", 1, 1)) == []
    assert ranks(*both, *fused(-2, 1)) == ranks(*both, *fused(1_000_000, 1)) == []


# --- memory timelines ------------------------------------------------------------------------------------------------

#: (ns, action, bytes, category): two tensors from before, then made, versioned, released.
CHANGES = [
    [-1, 1, 4096, 0], [-1, 1, 100, 7], [1_790_000_000_000_000_123, 2, 50, 3], [1_790_000_000_000_000_123, 2, 6, 4],
    [1_790_000_000_000_005_000, 3, -50, 3], [1_790_000_000_000_005_000, 3, 50, 5],
    [1_790_000_000_000_009_000, 4, -50, 5],
]  # fmt: skip
TIMES = [1_790_000_000_000_000, 1_790_000_000_000_005, 1_790_000_000_000_009]
ROWS = [[0, 4096, 0, 0, 50, 6, 0, 0, 100], [0, 4096, 0, 0, 0, 6, 50, 0, 100], [0, 4096, 0, 0, 0, 6, 0, 0, 100]]


@pytest.mark.parametrize(
    "name, packed", [("any", False), ("x.json", False), ("y", True), ("z-memory-timeline.json.gz", True)]
)
@pytest.mark.parametrize("form", ["raw", "sums"])
def test_memory_timelines(form: str, name: str, packed: bool, tmp_path: Path) -> None:
    text = json.dumps(CHANGES if form == "raw" else [TIMES, ROWS]).encode()
    (tmp_path / name).write_bytes(gzip.compress(text) if packed else text)
    con = loaded(tmp_path / name, tmp_path / "store")
    held = con.execute("SELECT ts_ns, component, allocated_bytes FROM memory_sample ORDER BY ts_ns").fetchall()
    begin = 123 if form == "raw" else 0
    assert held == [(0, "PyTorch", 4252), (5000 - begin, "PyTorch", 4252), (9000 - begin, "PyTorch", 4202)]
    series = "SELECT series, list(value ORDER BY ts_ns) FROM sample GROUP BY 1"
    assert dict(con.execute(series).fetchall()) | {} == {
        "parameter": [4096.0] * 3, "optimizer state": [0.0] * 3, "input": [0.0] * 3, "temporary": [50.0, 0.0, 0.0],
        "activation": [6.0] * 3, "gradient": [0.0, 50.0, 0.0], "autograd detail": [0.0] * 3, "unknown": [100.0] * 3,
    }  # fmt: skip


def test_a_long_memory_timeline_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_memory_timeline, "_BLOCK", 37)
    from npulens.ingest.tables.draft import Draft

    for form, text in (("raw", json.dumps(CHANGES)), ("sums", json.dumps([TIMES, ROWS]))):
        path = tmp_path / form
        path.write_text(text)
        claim = read_memory_timeline.sniff(path)
        assert claim is not None
        draft = Draft(tmp_path / f"draft_{form}", 0)
        read_memory_timeline.read(claim, draft)
        (last,) = draft.con.execute("SELECT allocated_bytes FROM total_raw ORDER BY ts_ns DESC LIMIT 1").fetchall()
        assert last == (4202,)
        draft.close()


def test_a_damaged_memory_timeline_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text("[[1790000000000000, 1790000000000001], [[0, nan]]]")
    (run,) = ingest.load(path, tmp_path / "store").runs
    assert run.run_id is None and run.error and run.error["kind"] == "damaged"
    assert "memory timeline" in str(run.reason)


# --- operators of kernels --------------------------------------------------------------------------------------------


def op(name: str, ts: float, dur: float, number: int, dims: list[list[int]]) -> Event:
    kinds = {"External id": number, "Input Dims": dims, "Input type": ["float"] * len(dims)}
    return x("cpu_op", name, ts, dur, kinds)


def launch(ts: float, dur: float, number: int, name: str = "cudaLaunchKernel") -> Event:
    return x("cuda_runtime", name, ts, dur, {"correlation": number, "External id": number})


def kernel(ts: float, number: int, **more: Any) -> Event:
    return task("k", ts, 3, {"correlation": number, "External id": number, **more})


def written(events: list[Event], place: Path) -> Run:
    (place / "t.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
    con = loaded(place / "t.json", place / "store")
    return Run(con)


def test_a_call_that_ends_after_its_operator_has_the_operators_shapes(tmp_path: Path) -> None:
    """By containment the second call has no operator and the third that of the outer one; External id knows better."""
    run = written([
        op("aten::add", 0, 10, 1, [[8, 8]]), launch(2, 3, 1), kernel(20, 1),
        op("aten::mul", 30, 10, 2, [[4, 4]]), launch(38, 5, 2), kernel(50, 2),
        x("python_function", "f", 60, 20), launch(62, 5, 3), op("aten::mm", 58, 30, 3, [[2, 2], [2, 2]]), kernel(90, 3),
        x("cuda_runtime", "cudaGraphLaunch", 100, 5, {"correlation": 4, "External id": 4}),
        op("CompiledFunction", 99, 5, 4, [[1, 1]]), kernel(110, 4), kernel(120, 4),
    ], tmp_path)  # fmt: skip
    every = run.get(kernels)
    said = [(every.kinds[kind].op, every.kinds[kind].input_shapes) for kind in every.kind]
    assert said == [
        ("aten::add", "[[8,8]]"), ("aten::mul", "[[4,4]]"), ("aten::mm", "[[2,2],[2,2]]"), (None, None), (None, None)
    ]  # fmt: skip


def test_external_ids_that_rarely_name_an_operator_name_none(tmp_path: Path) -> None:
    """HTA's alexnet: tasks have numbers of their own, one of 82 is an operator's by chance."""
    run = written([
        op("aten::add", 0, 10, 7, []), x("cuda_runtime", "cudaLaunchKernel", 12, 1, {"correlation": 1}),
        *(kernel(20 + 10 * n, n, **{"External id": 6 + n}) for n in range(1, 4)),
    ], tmp_path)  # fmt: skip
    assert run.con.execute("SELECT count(op_span_id) FROM kernel").fetchall() == [(0,)]


def test_without_shapes_name_grid_and_block_tell_the_work(tmp_path: Path) -> None:
    """Unless they take unlike: then it is not known."""
    sizes = [
        ([1, 1, 1], [64, 1, 1], 3),
        ([2, 1, 1], [64, 1, 1], 3),
        ([1, 1, 1], [128, 1, 1], 3),
        ([9, 1, 1], [9, 1, 1], 3),
    ]
    sizes += [([1, 1, 1], [64, 1, 1], 3.2), ([9, 1, 1], [9, 1, 1], 9)]
    run = written([
        event for n, (grid, block, dur) in enumerate(sizes, 1)
        for event in (launch(20 * n, 2, n), {**kernel(20 * n + 3, n, grid=grid, block=block), "dur": dur})
    ], tmp_path)  # fmt: skip
    first, wider, other, unlike, again, unlike_too = run.get(identity).tolist()
    assert first == again and len({first, wider, other}) == 3 and first >= 0
    assert unlike == unlike_too == -1


def test_without_anything_the_place_in_the_step_tells_it(tmp_path: Path) -> None:
    run = written([launch(10, 2, 1), kernel(20, 1), launch(30, 2, 2), kernel(40, 2)], tmp_path)
    assert run.get(identity).tolist() == [-1, -1]


# --- steps of serving engines ----------------------------------------------------------------------------------------

SERVED = TRACES.parent / "traces_serving/made+vllm-0.32.0-cpu/E_profiled/rank0.pt.trace.json.gz"


@pytest.mark.shared
@pytest.mark.skipif(not SERVED.is_file(), reason="no shared captures")
def test_iterations_of_vllm_are_steps_with_prefill_and_decode_apart(tmp_path: Path) -> None:
    con = loaded(SERVED, tmp_path)
    marks = [e for e in json.loads(content(SERVED))["traceEvents"] if str(e.get("name")).startswith("execute_context_")]
    expected = []
    for number, event in enumerate(sorted(marks, key=lambda e: Decimal(str(e["ts"])))):
        context, generation = event["name"].removeprefix("execute_context_").split("_generation_")
        requests = int(context.split("(")[0]) > 0, int(generation.split("(")[0]) > 0
        phase = {(True, True): "mixed", (True, False): "prefill", (False, True): "decode"}.get(requests)
        expected.append((number, phase, ns(Decimal(str(event["dur"])))))
    assert len(expected) == 120 and {phase for _, phase, _ in expected} == {"prefill", "decode", "mixed", None}
    assert con.execute("SELECT step, phase, host_dur_ns FROM step ORDER BY ts_ns").fetchall() == expected
    assert con.execute("SELECT count(*) FROM span WHERE kind = 'step_mark'").fetchall() == [(120,)]


ENGINES = [
    ("step[DECODE bs=32]", "decode"), ("step[EXTEND bs=1 toks=107]", "prefill"), ("step[MIXED bs=2]", "mixed"),
    ("step[TARGET_VERIFY bs=2]", "decode"), ("step[IDLE]", None), ("execute_context_0(0)_generation_8(8)", "decode"),
    ("execute_context_1(888_888)_generation_0(0)", "prefill"), ("execute_context_2(9)_generation_3(3)", "mixed"),
    ("execute_7_context_9(sq4sk4)", "prefill"), ("execute_model", None),
]  # fmt: skip


@pytest.mark.parametrize("name, phase", ENGINES)
def test_annotations_of_engines(name: str, phase: str | None, made: Maker) -> None:
    """The device's annotation of the same External id on two streams is one stretch; one within another is no step."""
    marks = [x("user_annotation", name, ts, 8, {"External id": ts}) for ts in (10, 30)]
    inner = x("user_annotation", name, 12, 3, {"External id": 99})
    device = [
        {**task(name, ts + late, 5, {"External id": ts}, cat="gpu_user_annotation"), "tid": stream}
        for ts in (10, 30) for stream, late in ((7, 2), (8, 6))
    ]  # fmt: skip
    steps = made([*marks, inner, *device]).rows("step", "step, ts_ns, host_dur_ns, device_ts_ns, device_dur_ns, phase")
    assert steps == [(0, 10000, 8000, 12000, 9000, phase), (1, 30000, 8000, 32000, 9000, phase)]


def test_the_finest_marks_are_the_steps(made: Maker) -> None:
    whole, name = x("user_annotation", "execute_model", 0, 100), "execute_context_0(0)_generation_8(8)"
    parts = [x("user_annotation", name, ts, 8) for ts in (10, 30)]
    assert made([whole, *parts]).rows("step", "step, ts_ns, phase") == [(0, 10000, "decode"), (1, 30000, "decode")]


def test_steps_of_the_profiler_come_before_those_of_an_engine(made: Maker) -> None:
    marks = [x("user_annotation", "ProfilerStep#4", 0, 50), x("user_annotation", "step[DECODE bs=1]", 10, 8)]
    assert made(marks).rows("step", "step, ts_ns, source") == [(4, 0, "ProfilerStep")]


def test_a_device_without_its_host_has_the_steps_of_its_annotations(made: Maker) -> None:
    device = [
        {**task("step[DECODE bs=1]", ts, 5, {"External id": ts}, cat="gpu_user_annotation"), "tid": stream}
        for ts in (10, 30) for stream in (7, 8)
    ]  # fmt: skip
    steps = made(device).rows("step", "step, ts_ns, host_dur_ns, device_dur_ns, phase, source")
    assert steps == [(n, ts, None, 5000, "decode", "device annotation") for n, ts in enumerate((10000, 30000))]


# --- annotations -----------------------------------------------------------------------------------------------------


def test_a_sleep_inside_an_annotation_is_the_hosts_and_is_named(tmp_path: Path) -> None:
    """Nothing is recorded below the annotation, and the device idles 989 us."""
    run = written([
        op("aten::add", 0, 5, 1, [[8]]), launch(1, 2, 1), kernel(5, 1),
        x("user_annotation", "# running sparse arch", 10, 1000),
        op("aten::add", 990, 10, 2, [[8]]), launch(992, 2, 2), kernel(998, 2),
    ], tmp_path)  # fmt: skip
    spans = run.get(hosts).spans(0)
    (named,) = run.con.execute("SELECT span_id FROM span WHERE kind = 'annotation'").fetchall()
    assert spans.ids[spans.latest(list(run.get(hosts).threads[0].of_track), np.array([500_000]))].tolist() == list(
        named
    )
    assert [str(code) for code in codes(run, 0, np.array([500_000]))] == ["# running sparse arch"]
    install(run.con)
    found = run.get(idle)
    late = found.pick("host_late")
    assert (found.end - found.start)[late].sum() > 900_000 and set(found.host[late].tolist()) == set(named)
