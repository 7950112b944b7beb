"""What is communication: by name, by the operator that launched it, by its stream; and what is left unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.capability import capabilities
from npulens.analysis.look import communication
from npulens.analysis.run import Run
from npulens.analysis.split import Row, breakdown
from npulens.ingest.readers.kineto import head
from npulens.ingest.store import runs
from npulens.ingest.tables import comm_facts
from tests.kineto_files import B200, TRACES, Event, Maker, document, ns, x

US = 1000

#: Names as traces and sources have them, with the kind of collective.
COMMUNICATION = {
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)": "allreduce",
    "void deep_ep::intranode::dispatch<8, 768>(int4*, float*, int*)": "alltoall",
    "void deep_ep::internode::combine<false, 8, __nv_bfloat16>(int4*, float*)": "alltoall",
    "void deep_ep::internode::notify_dispatch<false, 4>(int const*, int*, int)": "barrier",
    "void deep_ep::internode_ll::dispatch<true, false, 7168>(void*, void*)": "alltoall",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)": "allreduce",
    "void two_shot_all_reduce_kernel_inplace<c10::BFloat16, 16, 8>(c10::BFloat16**)": "allreduce",
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 4>(vllm::RankData*)": "allreduce",
    "void aiter::cross_device_reduce_2stage<half, 8>(aiter::RankData*)": "allreduce",
    "void quickreduce::allreduce_prototype_twoshot<AllReduceTwoshot<__half>, __half>(__half const*)": "allreduce",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<x>(y)": "allreduce",
    "void tensorrt_llm::kernels::mnnvl::oneshotAllreduceFusionKernel<8, x, true>(y)": "allreduce",
    "void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 2, true>(x)": "allreduce",
    "moeA2ADispatchKernel<8, false>(int const*)": "alltoall",
    "EpDispatchIntraNodeKernel_bf16": "alltoall",
    "nvshmemi_barrier_on_stream_kernel": "barrier",
    "hcom_allGather__586_0_1": "allgather",
    "LcclAllReduce": "allreduce",
}
COMPUTING = (
    "ampere_sgemm_128x64", "triton_poi_fused_all_gather_into_tensor_clone_0", "_moe_permute_all_to_all_kernel",
    "void at::native::elementwise_kernel<128, 4, all_reduce_like>", "void deep_ep::layout::get_dispatch_layout<256>()",
    "_deepep_permute_triton_kernel", "void at::native::vectorized_gather_kernel<16, long>(char*)",
)  # fmt: skip
UNKNOWN = ("my_all_reduce_kernel", "void fast::AllGatherRing<4>(int)", "custom_reduce_scatter", "sendrecv_v2")
#: Names of Ascend that compute and communicate at once.
FUSED = ("MatmulAllReduce", "aclnnAllGatherMatmul_AllGatherMatmul", "MatmulReduceScatter", "GroupedMatMulAllReduce",
         "AlltoAllAllGatherBatchMatMul", "BatchMatMulReduceScatterAlltoAll", "MatmulAllReduceAddRmsNorm",
         "DispatchFFNCombine")  # fmt: skip


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Maker]:
    maker = Maker(tmp_path)
    yield maker
    maker.close()


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Maker]:
    (tmp_path / "alone").mkdir()
    maker = Maker(tmp_path / "alone")
    yield maker
    maker.close()


def task(name: str, ts: float, dur: float, args: Event | None = None, cat: str = "kernel", tid: int = 7) -> Event:
    return x(cat, name, ts, dur, {"device": 0, "stream": tid, **(args or {})}, tid=tid, pid=0)


def launched(name: str, ts: float, dur: float, correlation: int, called: float, **place: int) -> list[Event]:
    """A kernel and the call that launched it."""
    return [
        x("cuda_runtime", "cudaLaunchKernel", called, 1, {"correlation": correlation}),
        task(name, ts, dur, {"correlation": correlation}, **place),
    ]


def loaded(path: Path, events: list[Event], world: int | None = None, backend: str = "nccl") -> Path:
    """The events in a store."""
    header = {} if world is None else {"distributedInfo": {"backend": backend, "rank": 0, "world_size": world}}
    path.mkdir(exist_ok=True)
    trace = path / "trace.json"
    trace.write_text(json.dumps({"schemaVersion": 1, **header, "traceEvents": events}))
    assert ingest.load(trace, path / "store").runs[0].run_id
    return path / "store"


def whole(where: Path) -> tuple[Row, Run]:
    con = runs.open_run(where, runs.runs(where)[0].run_id)
    views.install(con)
    (row,) = [row for row in breakdown(con) if row.step is None]
    return row, Run(con)


def test_names_of_libraries_are_communication(made: Maker) -> None:
    found = made([task(name, 10 * i, 5) for i, name in enumerate(COMMUNICATION)])
    assert found.rows("span", "kind") == [("comm_op",)] * len(COMMUNICATION)
    said = [kind for _, kind in found.rows("comm", "span_id, collective")]
    assert dict(zip(COMMUNICATION, said, strict=True)) == COMMUNICATION


def test_what_computes_is_not_mistaken_and_what_nothing_tells_is_unknown(made: Maker) -> None:
    found = made([task(name, 10 * i, 5) for i, name in enumerate((*COMPUTING, *UNKNOWN))])
    expected = [(name, "kernel") for name in COMPUTING] + [(name, "unknown") for name in UNKNOWN]
    assert [row[1:] for row in found.rows("span", "span_id, name, kind")] == expected
    assert len(found.rows("kernel", "span_id")) == len(COMPUTING), "what is unknown is no kernel"


def test_every_line_names_its_library_and_source() -> None:
    facts = comm_facts.facts()
    assert all(fact.library and fact.source and fact.match for fact in (*facts.kernel, *facts.operator))
    text = comm_facts.FILE.read_text("utf-8")
    assert text.count("{match = ") == len(facts.kernel) + len(facts.operator), "one line an entry"


def test_a_library_is_one_line(
    made: Maker, alone: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [task("void sunccastle::all_swap_k3<4>(int)", 0, 5), task("ampere_sgemm", 10, 5)]
    assert made(events).rows("span", "kind") == [("kernel",), ("kernel",)]
    line = "  {match = '\\bsunccastle::', library = \"Made up\", collective = \"alltoall\", source = \"a test\"},\n"
    more = tmp_path / "more.toml"
    more.write_text(comm_facts.FILE.read_text("utf-8").replace("kernel = [\n", "kernel = [\n" + line, 1))
    monkeypatch.setattr(comm_facts, "FILE", more)
    again = alone(events)
    assert again.rows("span", "span_id, kind") == [(0, "comm_op"), (1, "kernel")]
    assert again.rows("comm", "collective") == [("alltoall",)]


def test_a_decode_of_vllm_with_its_own_all_reduce(tmp_path: Path) -> None:
    """Launched plainly and replayed by a graph: 20 + 20 us of all-reduce, 5 of them beside a kernel of 30 us."""
    shaped = {"Input Dims": [[8, 2880], []], "Input type": ["c10::BFloat16", ""], "External id": 1}
    reduce = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)"
    row, run = whole(loaded(tmp_path, [
        x("cpu_op", "vllm::all_reduce", 0, 10, shaped), *launched(reduce, 20, 20, 1, 3),
        x("cuda_runtime", "cudaGraphLaunch", 50, 5, {"correlation": 2}),
        task("nvjet_tst", 100, 30, {"correlation": 2}), task(reduce, 125, 20, {"correlation": 2}, tid=8),
    ], world=8))  # fmt: skip
    assert (row.computing_ns, row.communication_ns, row.overlapped_ns) == (30 * US, 40 * US, 5 * US)
    assert (row.communication_not_overlapped_ns, row.idle_ns) == (35 * US, 60 * US)
    assert (row.unknown_ns, row.residual_ns) == (0, 0)
    found = run.con.execute("SELECT collective, bytes, dtype FROM comm ORDER BY span_id").fetchall()
    assert found == [("allreduce", 8 * 2880 * 2, "bfloat16"), ("allreduce", None, None)], "a graph says no shapes"


def test_the_operator_above_a_launch_tells_what_its_name_does_not(made: Maker) -> None:
    found = made([
        x("cpu_op", "sgl_kernel::all_reduce", 0, 30, {"External id": 1}),
        *launched("k17", 40, 5, 1, 3), *launched("void at::native::elementwise_kernel<4>", 50, 5, 2, 8),
        x("cpu_op", "aten::mul", 60, 10, {"External id": 2}),
        *launched("both", 70, 5, 3, 20), *launched("both", 80, 5, 4, 62),
    ])  # fmt: skip
    kinds = dict(found.rows("span", "name, kind", "name IN ('k17', 'both') OR name LIKE 'void%'"))
    assert kinds == {"k17": "comm_op", "void at::native::elementwise_kernel<4>": "kernel", "both": "kernel"}
    assert found.rows("comm", "collective") == [("allreduce",)], "the operator says what it is"


def test_group_and_size_come_from_the_operator(made: Maker) -> None:
    said = {"Process Group Name": "7", "dtype": "BFloat16", "In msg nelems": 100, "Out msg nelems": 800,
            "Collective name": "_allgather_base"}  # fmt: skip
    found = made([
        x("cpu_op", "c10d::_allgather_base_", 0, 30, {}), x("cpu_op", "record_param_comms", 2, 20, said),
        *launched("ncclKernel_AllGather_RING_LL", 40, 5, 1, 5),
    ])  # fmt: skip
    columns = "collective, group_name, count, dtype, bytes"
    assert found.rows("comm", columns) == [("allgather", "7", 800, "BFloat16", 1600)]


def test_a_stream_of_communication_alone_tells_a_name_that_speaks_of_it(made: Maker) -> None:
    found = made([
        task("my_all_reduce", 0, 5, tid=9), task("ncclDevKernel_AllGather", 10, 5, tid=9), task("gemm", 0, 5, tid=7),
        task("your_all_reduce", 10, 5, tid=7),
    ])  # fmt: skip
    assert [kind for _, kind in found.rows("span", "span_id, kind")] == ["comm_op", "comm_op", "kernel", "unknown"]


def test_what_is_unknown_is_a_part_of_its_own(tmp_path: Path) -> None:
    """A kernel at 0 to 10 us, unknown work at 5 to 20, a copy at 18 to 25, nothing to 30, a kernel to 31."""
    row, run = whole(loaded(tmp_path, [
        task("gemm", 0, 10), task("my_all_reduce_kernel", 5, 15, tid=8),
        task("Memcpy HtoD", 18, 7, cat="gpu_memcpy", tid=9), task("gemm", 30, 1),
        task("ncclDevKernel_AllReduce", 0, 4, tid=10),
    ]))  # fmt: skip
    assert (row.computing_ns, row.unknown_ns, row.unknown_not_overlapped_ns) == (11 * US, 15 * US, 8 * US)
    assert (row.copy_not_overlapped_ns, row.communication_not_overlapped_ns, row.idle_ns) == (7 * US, 0, 5 * US)
    assert row.residual_ns == 0
    kernels = run.con.execute("SELECT count(*) FROM kernel").fetchall()
    assert kernels == [(2,)]
    assert run.con.execute("SELECT part FROM device_work WHERE name LIKE 'my%'").fetchall() == [("unknown",)]


def test_a_fused_kernel_computes_and_communicates(tmp_path: Path) -> None:
    row, run = whole(loaded(tmp_path, [
        *(task(name, 10 * i, 8, cat="npu_kernel") for i, name in enumerate(FUSED)),
        task("MoeDistributeDispatchV2", 100, 6, cat="npu_kernel"), task("MatMulV2", 110, 4, cat="npu_kernel"),
    ], world=8))  # fmt: skip
    count = len(FUSED)
    assert (row.computing_ns, row.communication_ns, row.overlapped_ns) == (
        (8 * count + 4) * US, (8 * count + 6) * US, 8 * count * US)  # fmt: skip
    assert (row.communication_not_overlapped_ns, row.residual_ns) == (6 * US, 0), "what computes hides itself"
    kinds = dict(run.con.execute("SELECT name, collective FROM comm JOIN span USING (span_id)").fetchall())
    assert kinds["MatmulAllReduce"] == "allreduce" and kinds["MoeDistributeDispatchV2"] == "alltoall"
    collectives, kernels = run.con.execute("SELECT collectives, kernels FROM rank_step").fetchall()[0]
    assert (collectives, kernels) == (count + 1, count + 1)
    talking = run.activity(0).communication
    assert talking is not None and talking.total() == row.communication_ns


@pytest.mark.parametrize(("name", "world"), [("gemm", 64), ("strange_all_reduce", None)])
def test_none_told_in_a_job_of_several_ranks_is_not_measured(name: str, world: int | None, tmp_path: Path) -> None:
    row, run = whole(loaded(tmp_path, [task(name, 0, 10), task("gemm", 20, 10)], world))
    assert (row.communication_ns, row.communication_not_overlapped_ns, row.overlapped_ns) == (None, None, None)
    assert (row.idle_ns, row.copy_not_overlapped_ns, row.residual_ns) == (10 * US, 0, 0), "the work is all there"
    assert communication.summary(run.con) is None
    has = capabilities(run)
    assert has["collectives"].lacking == has["comm_tasks"].lacking == has["peer_waits"].lacking == (0,)
    assert has["collectives"].collect_with == "a line for the library in comm_facts.toml", "no setting would help"
    ((status, reason),) = run.con.execute(
        "SELECT status, reason FROM coverage WHERE table_name = 'comm'"
    ).fetchall()
    assert status == "absent" and "no communication ran" not in reason


def test_gloo_communicates_on_the_host(tmp_path: Path) -> None:
    """The device's idle time is known, and nothing is said to be without problems that nobody could look at."""
    row, run = whole(loaded(tmp_path, [task("gemm", 0, 10), task("gemm", 20, 10)], 4, "gloo"))
    assert (row.computing_ns, row.idle_ns, row.residual_ns) == (20 * US, 10 * US, 0)
    assert (row.communication_ns, row.communication_not_overlapped_ns) == (None, None), "not measured is not none"
    assert not run.activity(0).untold
    has = capabilities(run)["collectives"]
    assert has.lacking == (0,) and "with Gloo" in (has.why or "")
    assert has.collect_with == "torch.distributed.init_process_group(backend='nccl')"


@pytest.mark.parametrize(
    ("backend", "groups", "on_host"),
    [
        ("gloo", [], True), ("gloo", ["cpu:gloo,cuda:gloo"], True), ("nccl", [], False), ("undefined", [], False),
        ("gloo", ["cpu:gloo,cuda:nccl"], False), ("cpu:gloo,cuda:nccl", [], False), (None, ["cpu:gloo"], True),
        (None, [], False),
    ],
)  # fmt: skip
def test_only_where_all_groups_are_of_gloo(backend: str | None, groups: list[str], on_host: bool) -> None:
    listed = [{"pg_name": str(place), "backend_config": one} for place, one in enumerate(groups)]
    assert head.on_host({"backend": backend, "pg_config": listed}) is on_host


def test_a_job_of_one_rank_had_none(tmp_path: Path) -> None:
    row, run = whole(loaded(tmp_path, [task("gemm", 0, 10)], 1))
    assert (row.communication_ns, row.residual_ns) == (0, 0)
    assert not capabilities(run)["collectives"].lacking


@pytest.mark.skipif(not (TRACES / B200).exists(), reason="the shared captures are not here")
def test_the_multimem_kernels_of_a_b200_are_communication(tmp_path: Path) -> None:
    events = [e for e in document(B200)["traceEvents"] if "multimem_all_reduce" in e["name"] and e["cat"] == "kernel"]
    total = sum(ns(e["dur"]) for e in events)
    assert (len(events), total) == (73, 2_119_548)
    assert ingest.load(TRACES / B200, tmp_path).runs[0].run_id
    _, run = whole(tmp_path)
    found = run.con.execute(
        "SELECT count(*), sum(dur_ns)::BIGINT, min(bytes), max(bytes) FROM span JOIN comm USING (span_id) "
        "WHERE kind = 'comm_op' AND collective = 'allreduce'"
    ).fetchall()
    assert found == [(73, total, 888 * 2880 * 2, 5_455_872)]
