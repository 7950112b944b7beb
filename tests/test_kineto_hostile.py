"""The Kineto reader on identities, on hostile and foreign files, and on what was not recorded."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.readers.kineto import head, read_kineto
from npulens.ingest.tables.finish import finish
from tests.kineto_files import REAL, TRACES, Loaded, Maker, task, x


def needs_traces(test: Callable[..., None]) -> Callable[..., None]:
    missing = pytest.mark.skipif(not REAL, reason="the real captures (../shared/traces) are not here")
    return pytest.mark.shared(missing(test))  # type: ignore[no-any-return]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    yield maker
    maker.close()


# --- identity --------------------------------------------------------------------------------------------------------


def test_a_gpu_and_a_host_process_of_the_same_number_keep_their_tracks(made: Maker) -> None:
    """In a container the main process is often 1, and so is the second GPU."""
    loaded = made([x("cpu_op", "a", 1, 1, tid=7, pid=1), x("kernel", "k", 1, 1, {"stream": 7}, tid=7, pid=1)])
    assert loaded.rows("track", "kind, pid, tid, stream") == [("host_thread", "1", "7", None), ("stream", "1", "7", 7)]
    assert len({row[0] for row in loaded.rows("span", "track")}) == 2


def test_tracks_without_metadata_and_with_it_last(made: Maker) -> None:
    loaded = made([
        x("cpu_op", "a", 1, 1), x("Kernel", "k", 1, 1, {"stream": 7}, tid="stream 7", pid=0),
        x("cpu_op", "b", 2, 1, tid="1"),
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "ts": 0, "args": {"name": "early"}},
        {"ph": "M", "name": "thread_name", "pid": 100, "tid": 1, "ts": 0, "args": {"name": "late"}},
        {"ph": "M", "name": "process_name", "pid": 100, "tid": 0, "ts": 0, "args": {"name": "python"}},
    ])  # fmt: skip
    assert loaded.rows("track", "kind, name, process, stream") == [
        ("host_thread", "late", "python", None), ("stream", "stream 7", None, 7)]  # fmt: skip


NAMES = {
    "rank-34.Jul_15.pt.trace.json": 34,
    "rank0.json.gz": 0,
    "mtia_inference_rank_0.json.gz": 0,
    "sampled_rank-1.json": 1,
    "worker3.1623.pt.trace.json": 3,
    "worker-3_12.pt.trace.json": None,
    "rank1_of_rank4.json": None,
    "host_123.pt.trace.json": None,
    "local_rank0.json": None,
    "drank12.json": None,
    "rank7.rank7.json": 7,
}


@pytest.mark.parametrize(("name", "rank"), NAMES.items())
def test_rank_in_a_file_name(name: str, rank: int | None) -> None:
    assert head.rank_in_name(name) == rank


def test_metadata_wins_over_the_file_name(made: Maker) -> None:
    job = {
        "rank": 5,
        "world_size": 16,
        "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": list(range(16))}],
    }
    loaded = made([x("cpu_op", "a", 1, 1)], {"distributedInfo": job}, "rank-3.json")
    facts = loaded.claim.facts
    assert (facts.rank, facts.rank_source, facts.world_size, len(facts.groups)) == (5, "metadata", 16, 1)
    assert loaded.one("parallel_group", "group_name, kind, ranks") == ("0", "default_group", list(range(16)))


@needs_traces
def test_rank_and_world_of_real_files() -> None:
    claims = {p.name: read_kineto.sniff(p) for p in REAL}
    ranks = {name: claim.facts.rank for name, claim in claims.items() if claim}
    assert len(ranks) == len({p.name for p in REAL}), "a Kineto file was not recognised"
    assert ranks["rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"] == 34
    assert ranks["sampled_rank-1.json.gz"] == 1
    assert ranks["mtia_inference_rank_0.json.gz"] == 0
    assert ranks["worker0.1623212756351.pt.trace.json.gz"] == 0
    assert ranks["eager_trace.json.gz"] == 0
    assert ranks["gpu_only_trace.json.gz"] is None
    assert ranks["benchmark_result_924719_1679055439_trace.json.gz"] == 0  # distributedInfo behind the events
    cpu = claims["rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz"]
    assert cpu and cpu.facts.world_size == 300 and cpu.facts.groups


@needs_traces
def test_no_other_json_is_claimed() -> None:
    others = [p for p in TRACES.rglob("*.json*") if p.is_file() and p not in REAL]
    assert len(others) > 50
    assert [str(p) for p in others if read_kineto.sniff(p)] == []


# --- hostile ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_kept_is_counted(made: Maker) -> None:
    loaded = made([
        x("cpu_op", "kept", 1, 1), x("cpu_op", "backwards", 1, -1),
        {"ph": "X", "cat": "cpu_op", "name": "no end", "pid": 1, "tid": 1, "ts": 3},
        {"ph": "X", "cat": "cpu_op", "name": "no start", "pid": 1, "tid": 1, "dur": 3},
            {"ph": "b", "name": "async", "id": 1, "ts": 1},
    ])  # fmt: skip
    assert loaded.rows("span", "name") == [("kept",)]
    assert loaded.dropped() == {
        "negative duration": 1,
        "no duration": 1,
        "no time stamp": 1,
        "event of a kind unknown here (ph b)": 1,
    }


def test_a_cut_file_keeps_what_it_has_and_says_so(tmp_path: Path) -> None:
    events = [x("cpu_op", f"op{i}", i, 1) for i in range(50)]
    path = tmp_path / "cut.json"
    text = json.dumps({"schemaVersion": 1, "traceEvents": events})
    path.write_text(text[: text.index("op40")])
    loaded = Loaded(path, tmp_path / "draft")
    assert len(loaded.rows("span")) == 40
    assert loaded.draft.broken and loaded.draft.covers["span"].partial


@pytest.mark.parametrize("plain", ["0", "1"])
def test_a_file_with_text_missing_keeps_what_lies_behind(
    plain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the middle of op10 to the end of op12: all others are there, and nobody counts what is not."""
    monkeypatch.setenv("NPULENS_PLAIN", plain)
    events = [x("cpu_op", f"op{i}", i, 1) for i in range(10, 50)]
    path = tmp_path / "torn.json"
    text = json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "t"}, indent=2)
    begin, end = text.index("op10") + 2, text.index("}", text.index("op12")) + 2
    path.write_text(text[:begin] + "\n" + text[end:])
    behind = text.rindex("{", 0, text.index("op13"))
    size = 1 + behind - end + begin - text.rindex("{", 0, begin)
    loaded = Loaded(path, tmp_path / "draft")
    assert [row[0] for row in loaded.rows("span", "name")] == [f"op{i}" for i in range(13, 50)]
    assert loaded.dropped() == {}
    said = f"damaged places: 1, the first at byte {text.rindex('{', 0, begin)}, {size} bytes skipped"
    (broken,), (partial,) = loaded.draft.broken, loaded.draft.covers["span"].partial
    assert broken == partial and partial.startswith(said)


@pytest.mark.parametrize(
    "events", [[], [{"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "x"}}], ["no", 1, None]]
)
def test_a_trace_without_spans_is_refused_in_words(events: list[Any], made: Maker) -> None:
    with pytest.raises(IngestError) as refused:
        made(events)
    assert "nothing to show" in str(refused.value)


def test_numbers_at_the_edge_of_64_bits_break_nothing(made: Maker, tmp_path: Path) -> None:
    edge = {"Bytes": 1 - 2**63, "Addr": 2**63 - 1, "Total Allocated": 2**63 - 1, "Device Type": 1, "Device Id": 0}
    comm = {
        "Collective name": "allreduce",
        "dtype": "Long",
        "In msg nelems": 2**62,
        "Out msg nelems": 1,
        "stream": 2**63 - 1,
    }
    loaded = made(
        [
            x("cpu_op", "kept", 1, 1),
            x("cpu_op", "far", 9.2e15, 1),
            x("cpu_op", "long", 2, 9.2e15),
            x("cpu_op", "ProfilerStep#99999999999999999999", 3, 1),
            task("nccl", 4, 1, comm),
            *({"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5 + i, "args": edge} for i in range(2)),
        ],
        {"baseTimeNanoseconds": 1767189312000000000},
    )
    assert sorted(row[0] for row in loaded.rows("span", "name")) == [
        "ProfilerStep#99999999999999999999",
        "kept",
        "nccl",
    ]
    assert loaded.one("span", "ts_ns", "name = 'kept'") == 1767189312000001000
    assert loaded.dropped() == {"time out of range": 1, "duration out of range": 1}
    assert loaded.one("comm", "count, bytes") == (2**62, None)
    assert finish(loaded.draft, tmp_path / "out").rows["memory_event"] == 2


def test_odd_types_lose_no_event(made: Maker) -> None:
    odd = {
        "stream": "0x0",
        "correlation": "12",
        "grid": "no list",
        "Collective name": 5,
        "External id": 2**70,
        "bytes": None,
        "device": [1],
    }
    loaded = made([
        {"ph": "X", "name": None, "cat": "kernel", "pid": None, "tid": {"a": 1}, "ts": "5.5", "dur": "1", "args": odd},
        x("cpu_op", "it's \"quoted\" \u2028 '; DROP TABLE span; --", 2, 1, odd),
    ])  # fmt: skip
    assert len(loaded.rows("span")) + sum(loaded.dropped().values()) == 2
    for text in (row[0] for row in loaded.rows("arg", "args")):
        assert isinstance(json.loads(text), dict)


def test_arguments_no_column_holds_come_back(made: Maker) -> None:
    call = {"grid": [1, 2, 3], "block": "[4,5,6]", "bytes": 9, "Ev Idx": 4, "correlation": 1}
    comm = {"grid": [8, 1, 1], "registers per thread": 96, "Collective name": "allreduce", "correlation": 1}
    loaded = made(
        [
            x("cuda_runtime", "hipLaunchKernel", 1, 1, call),
            task("k", 2, 1, {"correlation": 1}),
            task("nccl", 4, 1, comm),
        ]
    )
    assert loaded.one("kernel", "grid, block") == ("[1,2,3]", "[4,5,6]")
    first, second = (json.loads(loaded.one("arg", "args", f"span_id = {i}")) for i in (0, 2))
    assert first == {"grid": [1, 2, 3], "block": [4, 5, 6], "bytes": 9, "Ev Idx": 4}
    assert second == {"grid": [8, 1, 1], "registers per thread": 96, "Collective name": "allreduce"}


OPERATOR = b'{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":"1736408883688177.930","dur":1}'
NOT_OURS = {
    "array": b"[" + OPERATOR + b"]",
    "ascend in an object": b'{"traceEvents":[' + OPERATOR + b"]}",
    "another tracer": b'{"traceEvents":[' + OPERATOR.replace(b"cpu_op", b"FEE") + b'],"displayTimeUnit":"ms"}',
    "execution trace": b'{"schema":"1.1.1-chakra.0.0.4","pid":1,"nodes":[]}',
    "image manifest": b'{"schemaVersion": 2, "mediaType": "x", "config": {}}',
    "rocprofiler": b'{"rocprofiler-sdk-tool":[{"metadata":{"pid":1}}]}',
    "nothing": b"",
    "text": b"hello",
    "broken gzip": b"\x1f\x8b\x08\x00garbage",
    "gzip of text": gzip.compress(b"hello"),
}


@pytest.mark.parametrize("content", NOT_OURS.values(), ids=NOT_OURS.keys())
def test_other_files_are_not_claimed(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    assert read_kineto.sniff(path) is None
    assert read_kineto.sniff(tmp_path) is None


# --- coverage --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call", ["cudaLaunchKernel", "cuLaunchKernelEx", "hipExtModuleLaunchKernel", "cudaGraphLaunch"]
)
def test_launched_work_that_nobody_recorded_is_no_missing_setting_alone(call: str, made: Maker) -> None:
    """PyTorch records such calls with the host's activities too, so either may be why."""
    calls = [x("cuda_runtime", name, 2, 1, {"correlation": 1}) for name in (call, "cudaEventRecord")]
    covers = made([x("cpu_op", "a", 1, 1), *calls]).draft.covers
    why = f"device work was launched ({call} was recorded), but none of that work is in the file"
    for table in ("kernel", "transfer", "comm", "link"):
        assert covers[table].absent == why
        setting = covers[table].collect_with or ""
        tracer = "roctracer" if call.startswith("hip") else "CUPTI"
        assert "ProfilerActivity.CUDA])" in setting and f"if this was set, {tracer} gave nothing" in setting
    waits = [x("cuda_sync", "Stream Synchronize", 4, 2, {"device": 0, "stream": 7, "correlation": 1}, pid=0, tid=7)]
    only = made([x("cpu_op", "a", 1, 1), *calls, *waits], name="waits.json").draft.covers
    assert [only[table].absent for table in ("kernel", "transfer", "comm")] == [why] * 3  # marks of waits are no work
    asked = made([x("cpu_op", "a", 1, 1), x("cuda_runtime", "cudaEventRecord", 2, 1)], name="asked.json").draft.covers
    assert asked["kernel"].absent == "no device activity in the file"


def test_coverage_names_the_setting_that_records_what_is_missing(made: Maker) -> None:
    covers = made([x("cpu_op", "a", 1, 1)]).draft.covers
    wanted = {
        "kernel": "ProfilerActivity",
        "host_op": "record_shapes=True",
        "memory_event": "profile_memory=True",
        "stack": "with_stack=True",
        "step": "prof.step()",
    }
    for table, setting in wanted.items():
        assert setting in (covers[table].collect_with or ""), table
