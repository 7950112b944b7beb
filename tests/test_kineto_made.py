"""The Kineto reader on small traces made for one question each: links, kinds, time, steps, counters, memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kineto_files import Event, Loaded, Maker, flow, task, x


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    yield maker
    maker.close()


# --- links -----------------------------------------------------------------------------------------------------------


def test_one_graph_launch_starts_many_kernels(made: Maker) -> None:
    loaded = made([
        x("cuda_runtime", "cudaGraphLaunch", 10, 5, {"correlation": 9}),
        *(task(f"k{i}", 20 + i, 1, {"correlation": 9}) for i in range(3)),
    ])  # fmt: skip
    assert loaded.rows("link", "src_span_id, dst_span_id, route") == [(0, i, "correlation") for i in (1, 2, 3)]
    assert loaded.draft.covers["link"].expected == 3


def test_a_correlation_of_several_calls_links_the_first(made: Maker) -> None:
    loaded = made([
        x("mtia_runtime", "b", 12, 1, {"correlation": 9}), x("mtia_runtime", "a", 10, 1, {"correlation": 9}),
        task("k", 20, 1, {"correlation": 9}),
    ])  # fmt: skip
    assert loaded.rows("link", "src_span_id, dst_span_id") == [(1, 2)]


def test_flows_link_what_has_no_correlation_and_operators_the_rest(made: Maker) -> None:
    """Correlation 0 says nothing (ROCm writes it on communication kernels)."""
    loaded = made([
        x("cpu_op", "aten::mm", 9, 10, {"External id": 5}),
        x("cuda_runtime", "hipLaunchKernel", 10, 5, {"correlation": 0}),
        task("by flow", 20, 1, {"correlation": 0}),
        task("by operator", 30, 1, {"correlation": 0, "External id": 5}),
        task("alone", 40, 1, {"External id": 6}),
        flow("s", "ac2g", 77, 10), flow("f", "ac2g", 77, 20, tid=7, pid=0),
    ])  # fmt: skip
    assert loaded.rows("link", "src_span_id, dst_span_id, route") == [(0, 3, "external_id"), (1, 2, "ac2g")]
    assert loaded.draft.covers["link"].expected == 3
    assert json.loads(loaded.one("arg", "args", "span_id = 4")) == {"External id": 6}


@pytest.mark.parametrize("calls", [2, 1])
@pytest.mark.parametrize("many", [0, 30_000], ids=["few", "many"])
def test_a_task_from_before_the_recording_is_of_no_operator_that_took_its_number(
    calls: int, many: int, made: Maker
) -> None:
    """Its correlation is no call's, as that of most tasks is. Where a file tells no calls, the number is believed."""
    loaded = made([
        x("cpu_op", "aten::empty", 1, 2, {"External id": 4}), x("cpu_op", "aten::mm", 9, 30, {"External id": 5}),
        *(x("cuda_runtime", "launch", 10 + n, 1, {"correlation": 20 + n}) for n in range(calls)),
        task("before", 5, 1, {"correlation": 4, "External id": 4}),
        *(task("k", 50 + n, 1, {"correlation": 20 + n, "External id": 5}) for n in range(2)),
        *(x("cpu_op", "aten::view", 100 + n, 1) for n in range(many)),
    ])  # fmt: skip
    told = loaded.rows("link", "src_span_id, dst_span_id, route")
    first = 2 + calls
    by_call = [(2 + n, first + 1 + n, "correlation") for n in range(calls)]
    assert [row for row in told if row[2] == "correlation"] == by_call
    others = [row for row in told if row[2] != "correlation"]
    assert others == ([] if calls == 2 else [(0, first, "external_id"), (1, first + 2, "external_id")])
    assert loaded.one("kernel", "op_span_id", f"span_id = {first}") == (None if calls == 2 else 0)


@pytest.mark.parametrize("ends", [(77, 78), ("77", "78")])
def test_a_flow_has_one_id_however_it_is_spelt(made: Maker, ends: tuple[object, object]) -> None:
    """As a number or as a text."""
    loaded = made([
        x("cuda_runtime", "first", 10, 5, {"correlation": 0}), x("cuda_runtime", "second", 20, 5, {"correlation": 0}),
        task("a", 30, 1, {"correlation": 0}), task("b", 40, 1, {"correlation": 0}),
        flow("s", "ac2g", 77, 10), flow("s", "ac2g", 78, 20),
        flow("f", "ac2g", ends[1], 40, tid=7, pid=0), flow("f", "ac2g", ends[0], 30, tid=7, pid=0),
    ])  # fmt: skip
    assert loaded.rows("link", "src_span_id, dst_span_id, route") == [(0, 2, "ac2g"), (1, 3, "ac2g")]


def test_ends_of_an_autograd_flow_that_start_together_with_others(made: Maker) -> None:
    """Forward: the innermost with a sequence number; backward: the outermost with one."""
    loaded = made([
        x("cpu_op", "aten::conv2d", 10, 9, {"Sequence number": 3}),
        x("cpu_op", "aten::convolution", 10, 8, {"Sequence number": 3}),
        x("cpu_op", "aten::empty", 10, 1, {}),
        x("cpu_op", "evaluate", 50, 9, {"Sequence number": 3}, tid=2),
        x("cpu_op", "ConvBackward", 50, 8, {"Sequence number": 3}, tid=2),
        flow("s", "fwdbwd", 1, 10), flow("f", "fwdbwd", 1, 50, tid=2),
    ])  # fmt: skip
    assert loaded.rows("link", "src_span_id, dst_span_id, route") == [(1, 3, "fwdbwd")]


# --- kinds -----------------------------------------------------------------------------------------------------------

KINDS = [
    (task("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(x)", 1, 1), "comm_op"),
    (task("hcom_allReduce__586_0_1", 1, 1), "comm_op"),
    (task("custom_all_reduce", 1, 1, {"Collective name": "allreduce"}), "comm_op"),
    (task("ampere_sgemm", 1, 1), "kernel"),
    (task("Memset (Device)", 1, 1, cat="gpu_memset"), "memset"),
    (task("Memcpy HtoD", 1, 1, cat="gpu_memcpy"), "memcpy"),
    (task("Context Sync", 1, 1, cat="cuda_sync"), "wait"),
    (task("ProfilerStep#3", 1, 1, cat="gpu_user_annotation"), "device_annotation"),
    (task("made up", 1, 1, cat="tomorrow"), "device_other"),
    (x("tomorrow", "made up", 1, 1), "host_other"),
    (x("privateuse1_runtime", "aclrtLaunchKernel", 1, 1), "runtime"),
    (x("cuda_driver", "cuLaunchKernel", 1, 1), "runtime"),
    (x("user_annotation", "ProfilerStep#3", 1, 1), "step_mark"),
    (x("user_annotation", "ProfilerStep#3 and more", 1, 1), "annotation"),
    (x("cpu_op", "nccl:all_reduce", 1, 1), "cpu_op"),
    (x("python_function", "train.py(3): step", 1, 1), "python"),
    ({"ph": "i", "s": "t", "name": "mark", "pid": 1, "tid": 1, "ts": 5}, "host_other"),
]


@pytest.mark.parametrize(("event", "kind"), KINDS, ids=[e["name"][:24] for e, _ in KINDS])
def test_kind(event: Event, kind: str, made: Maker) -> None:
    assert made([event]).one("span", "kind") == kind


def test_backend_is_npu_for_privateuse1(made: Maker) -> None:
    loaded = made(
        [x("privateuse1_runtime", "aclnnAdd", 1, 1, {"correlation": 4}), task("Add", 3, 1, {"correlation": 4})]
    )
    assert loaded.draft.facts["backend"] == "npu"
    assert loaded.rows("link", "src_span_id, dst_span_id") == [(0, 1)]


COLLECTIVES = [
    ("_allgather_base", "allgather"),
    ("all_to_allv", "alltoall"),
    ("_reduce_scatter_base", "reducescatter"),
    ("recv", "receive"),
    ("send", "send"),
    ("all_reduce", "allreduce"),
    ("broadcast", "broadcast"),
    ("reduce", "reduce"),
    ("barrier", "barrier"),
]


@pytest.mark.parametrize(("said", "collective"), COLLECTIVES)
def test_collective_by_what_was_said(said: str, collective: str, made: Maker) -> None:
    args = {
        "Collective name": said,
        "dtype": "BFloat16",
        "In msg nelems": 3,
        "Out msg nelems": 24,
        "Process Group Name": "7",
        "Process Group Description": "mesh_tp",
        "Process Group Ranks": "[4, 5]",
        "Src Rank": 4,
    }
    loaded = made([task("ncclDevKernel_SendRecv(x)", 1, 1, args)])
    assert loaded.one("comm", "collective, count, bytes, group_name, src_rank") == (collective, 24, 48, "7", 4)
    assert loaded.one("parallel_group", "group_name, kind, ranks") == ("7", "tp", [4, 5])


@pytest.mark.parametrize(("said", "ranks", "source"), [
    (["[2, 3]"], [2, 3], "communication kernels"),
    (["[1, 0]"], [0, 1], "distributedInfo"),
    (["[0, 1, ..., 3]"], [0, 1], "distributedInfo"),  # not told in full
    (["[2, 3]", "[4, 5]"], [0, 1], "distributedInfo"),
])  # fmt: skip
def test_groups_that_kernels_name_otherwise_than_the_header_of_another_rank(
    said: list[str], ranks: list[int], source: str, made: Maker
) -> None:
    """The header of a file of several ranks is rank 0's, whose group "0" is another one than this rank's."""
    job = {"backend": "nccl", "rank": 0, "world_size": 4,
           "pg_config": [{"pg_name": "0", "pg_desc": "pp0", "ranks": [0, 1]}]}  # fmt: skip
    tasks = [task("ncclDevKernel_SendRecv(x)", 1 + 10 * at, 1, {"Process Group Name": "0", "Process Group Ranks": one})
             for at, one in enumerate(said)]  # fmt: skip
    loaded = made(tasks, {"distributedInfo": job})
    assert loaded.one("parallel_group", "group_name, ranks, source") == ("0", ranks, source)


def test_collective_by_the_name_of_the_kernel(made: Maker) -> None:
    names = {"ncclDevKernel_ReduceScatter_Sum_f32_RING_SIMPLE(x)": "reducescatter", "ncclKernel_AllToAll": "alltoall",
             "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(x)": "sendrecv", "hcom_batchSendRecv__1_0": "batchsendrecv",
             "hcom_receive__1_0": "receive"}  # fmt: skip
    loaded = made([task(name, i, 1) for i, name in enumerate(names)])
    assert [row[1] for row in loaded.rows("comm", "span_id, collective")] == list(names.values())
    assert loaded.rows("comm", "bytes") == [(None,)] * len(names)


TRANSFERS = [
    ("Memcpy HtoD (Pageable -> Device)", "cudaMemcpyAsync", "h2d", True),
    ("Memcpy DtoH (Device -> Pinned)", "cudaMemcpyAsync", "d2h", False),
    ("Memcpy DtoD (Device -> Device)", None, "d2d", None),
    ("CopyHostToDevice", "hipMemcpyWithStream", "h2d", True),
    ("Memcpy PtoP (Device -> Device)", "cudaMemcpy", "p2p", True),
    ("something", None, None, None),
]


@pytest.mark.parametrize(("name", "call", "direction", "blocking"), TRANSFERS, ids=[t[0] for t in TRANSFERS])
def test_transfer(name: str, call: str | None, direction: str | None, blocking: bool | None, made: Maker) -> None:
    calls = [x("cuda_runtime", call, 1, 1, {"correlation": 3})] if call else []
    loaded = made(
        [*calls, task(name, 5, 2, {"correlation": 3, "bytes": 64, "memory bandwidth (GB/s)": 0.5}, cat="gpu_memcpy")]
    )
    assert loaded.one("transfer", "direction, bytes, bandwidth_bytes_per_s, blocking") == (direction, 64, 5e8, blocking)


# --- time ------------------------------------------------------------------------------------------------------------


def test_stamps_count_from_the_base_time_even_if_it_comes_last(tmp_path: Path) -> None:
    text = '{"traceEvents": [%s], "baseTimeNanoseconds": 1767189312000000000}'
    event = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1365627862757.064,"dur":0.001}'
    path = tmp_path / "rank3.json"
    path.write_text(text % event)
    loaded = Loaded(path, tmp_path / "draft")
    assert loaded.one("span", "ts_ns, dur_ns") == (1767189312000000000 + 1365627862757064, 1)
    assert loaded.draft.facts["clock"] == "unix"
    assert loaded.claim.facts.begin_ns == 1767189312000000000 + 1365627862757064
    assert (loaded.claim.facts.rank, loaded.claim.facts.rank_source) == (3, "file name")


def test_stamps_without_a_known_zero_stay_as_they_are(made: Maker) -> None:
    loaded = made([x("cpu_op", "a", 12, 1)])
    assert loaded.one("span", "ts_ns") == 12_000
    assert loaded.draft.facts["clock"] == "monotonic"


def test_wall_clock_stamps_ignore_the_base(made: Maker) -> None:
    loaded = made([x("cpu_op", "a", 1700000000000000, 1)], {"baseTimeNanoseconds": 1690000000000000000})
    assert loaded.one("span", "ts_ns") == 1700000000000000000


# --- steps, instants, pairs, counters, memory ------------------------------------------------------------------------


def test_a_step_marked_on_two_threads_is_the_main_threads(made: Maker) -> None:
    loaded = made([
        x("user_annotation", "ProfilerStep#1", 0, 100), x("user_annotation", "ProfilerStep#2", 100, 100),
        x("user_annotation", "ProfilerStep#1", 40, 150, tid=2),
        task("ProfilerStep#1", 50, 60, cat="gpu_user_annotation"),
        x("gpu_user_annotation", "ProfilerStep#1", 60, 90, tid=8, pid=0),
        task("ProfilerStep#4", 400, 5, cat="gpu_user_annotation"),
    ])  # fmt: skip
    assert loaded.rows("step", "step, ts_ns, host_dur_ns, device_ts_ns, device_dur_ns, source") == [
        (1, 0, 100_000, 50_000, 100_000, "ProfilerStep"), (2, 100_000, 100_000, None, None, "ProfilerStep"),
        (4, 400_000, None, 400_000, 5_000, "device annotation"),
    ]  # fmt: skip


def test_begin_and_end_pair_by_nesting(made: Maker) -> None:
    def edge(ph: str, ts: int, name: str, tid: int = 1) -> Event:
        return {"ph": ph, "name": name, "cat": "cpu_op", "pid": 1, "tid": tid, "ts": ts, "args": {"n": ts}}

    loaded = made([
        edge("E", 1, "stray end"), edge("B", 2, "outer"), edge("B", 3, "inner"), edge("E", 5, "inner"),
        edge("E", 9, "outer"),
        edge("B", 10, "left open"), edge("B", 4, "other thread", 2), edge("E", 6, "other thread", 2),
    ])  # fmt: skip
    assert sorted(loaded.rows("span", "name, ts_ns, dur_ns")) == [
        ("inner", 3000, 2000), ("other thread", 4000, 2000), ("outer", 2000, 7000)]  # fmt: skip
    assert loaded.dropped() == {"begin or end without its partner": 2}
    assert {row[0] for row in loaded.rows("arg", "span_id")} == {row[0] for row in loaded.rows("span", "span_id")}


def test_counters_are_samples(made: Maker) -> None:
    count = {
        "ph": "C",
        "name": "HBM",
        "pid": 0,
        "tid": 0,
        "ts": 7,
        "args": {"MHz": 1800, "bytes": 5, "text": "no", 'a "b"': 1.5},
    }
    loaded = made([count, x("cpu_op", "a", 1, 1)])
    assert sorted(loaded.rows("sample", "counter, series, ts_ns, value")) == [
        ("HBM", "MHz", 7000, 1800.0), ("HBM", 'a "b"', 7000, 1.5), ("HBM", "bytes", 7000, 5.0)]  # fmt: skip


def test_memory_pairs_by_address_and_keeps_what_has_no_partner(made: Maker) -> None:
    def memory(ts: int, size: int, address: int, total: int) -> Event:
        args = {
            "Bytes": size,
            "Addr": address,
            "Total Allocated": total,
            "Total Reserved": 99,
            "Device Type": 1,
            "Device Id": 0,
        }
        return {
            "ph": "i",
            "s": "t",
            "name": "[memory]",
            "cat": "cpu_instant_event",
            "pid": 1,
            "tid": 1,
            "ts": ts,
            "args": args,
        }

    loaded = made(
        [x("cpu_op", "a", 1, 1), memory(2, -8, 1, 0), memory(3, 8, 1, 8), memory(5, -8, 1, 0), memory(6, 4, 1, 4)]
    )
    columns = "ts_ns, dur_ns, bytes, allocated_bytes, release_allocated_bytes, device"
    assert loaded.rows("memory_event", columns) == [
        (2000, None, -8, 0, None, "cuda:0"), (3000, 2000, 8, 8, 0, "cuda:0"),
            (6000, None, 4, 4, None, "cuda:0")]  # fmt: skip
    assert loaded.rows("memory_sample", "ts_ns, allocated_bytes, reserved_bytes") == [
        (2000, 0, 99), (3000, 8, 99), (5000, 0, 99), (6000, 4, 99)]  # fmt: skip


def test_a_file_with_nothing_but_communication_says_so(made: Maker) -> None:
    """Somebody kept the collectives of a trace alone: that the device idles between them was not recorded."""
    moved = {"device": 0, "stream": 7, "Collective name": "allreduce", "In msg nelems": 8, "dtype": "Float"}
    got = made([x("kernel", "ncclDevKernel_AllReduce_Sum_f32", at, 9, {**moved, "correlation": at}, pid=0, tid=7)
                for at in (10, 40, 70)])  # fmt: skip
    assert "only communication" in str(got.draft.covers["kernel"].absent)
    with_calls = made([
        x("cuda_runtime", "cudaLaunchKernel", 1, 2, {"correlation": 10}),
        x("kernel", "ncclDevKernel_AllReduce_Sum_f32", 10, 9, {**moved, "correlation": 10}, pid=0, tid=7),
    ])  # fmt: skip
    assert with_calls.draft.covers["kernel"].absent is None
