"""How fast collectives are as a whole: exact from their sizes and times, whatever is known of links and waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from npulens.analysis.engine import Check, check
from tests.tablecase import connection

MIB = 2**20
#: What a step takes beside its all-reduce, in us.
BESIDE = 1030


def said(
    takes: Sequence[int], size: int | None = 16 * MIB, hosts: Sequence[str | None] = (None,), world: int = 8,
    backend: str = "cuda", only: str = "comm_exposed", partial: str | None = None,
) -> Check:  # fmt: skip
    """Steps of a kernel of 1 ms, then an all-reduce that takes so many us on every captured rank; the host waits."""
    spans: list[dict[str, Any]] = []
    for rank in range(len(hosts)):
        for step, ns in enumerate(takes):
            at, one = sum(takes[:step]) + step * BESIDE, 1000 * rank + 10 * (step + 1)
            track = {"rank": rank}
            spans += [
                {"id": one, "kind": "step_mark", "name": f"ProfilerStep#{step}", "at": at,
                 "for": ns + BESIDE, **track},
                {"id": one + 1, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 5, "for": 5, **track},
                {"id": one + 2, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 15, "for": 5, **track},
                {"id": one + 5, "kind": "runtime", "name": "cudaDeviceSynchronize", "at": at + 25,
                 "for": ns + BESIDE - 30, **track},
                {"id": one + 3, "kind": "kernel", "name": "gemm", "at": at + 20, "for": 1000, "by": one + 1,
                 "route": "correlation", "kernel": {}, **track},
                {"id": one + 4, "kind": "comm_op", "name": "ncclDevKernel_AllReduce", "track": "s1", "at": at + 1020,
                 "for": ns, "by": one + 2, "route": "correlation", **track,
                 "comm": {"op_span_id": one + 4, "collective": "allreduce", "group_name": "g", "bytes": size}},
            ]  # fmt: skip
    about = {"backend": backend, "formats": ["kineto"]}
    missing = list(range(len(hosts), world))
    groups = [
        {"rank": rank, "group_name": "g", "kind": "dp", "ranks": list(range(world)), "source": "distributedInfo"}
        for rank in range(len(hosts))
    ]
    con = connection({
        "run": {"world_size": world, "missing_ranks": missing, "formats": ["kineto"]}, "spans": spans,
        "rank": {rank: {**about, "host": host} for rank, host in enumerate(hosts)},
        "tables": {"parallel_group": groups},
    })  # fmt: skip
    if partial is not None:
        con.execute(
            "UPDATE coverage SET status = 'partial', reason = 'no sizes', collect_with = ? WHERE table_name = 'comm'",
            [partial],
        )
    return check(con, only=[only])


def advice(*given: Any, **more: Any) -> str:
    (found,) = said(*given, **more).findings
    return found.words["en"].advice


def test_the_shortest_of_equal_ones_tells_the_rate() -> None:
    """16 MiB in 8 ms are 2.1 GB/s; 14/8 of it on the bus are 3.7."""
    (found,) = said((9000, 8000, 8500)).findings
    assert (
        "The largest moves 16.0 MiB in 8.00 ms or more: 2.1 GB/s, the best of 3 alike. If its 8 ranks share a node and "
        "none is always late, PCIe alone moves more. Check peer-to-peer access: NCCL_P2P_DISABLE, nvidia-smi topo -m."
    ) in found.words["en"].advice
    assert "16.0 MiB，至少用 8.00 ms，即 2.1 GB/s（3 个相同算子中最快的一次）" in found.words["zh"].advice
    assert "rocm-smi --showtopo" in advice((9000, 8000, 8500), backend="rocm")


@pytest.mark.parametrize(
    ("given", "rate"),
    [
        pytest.param({"takes": (9000, 8000)}, "2.1 GB/s", id="both may have waited"),
        pytest.param({"takes": (2900, 2800, 2850)}, "5.99 GB/s", id="10.5 GB/s on the bus"),
        pytest.param({"takes": (900, 800, 850), "size": 2 * MIB}, "2.62 GB/s", id="too small to tell"),
        pytest.param({"takes": (9000, 8000, 8500), "world": 32}, "2.1 GB/s", id="too many for a node"),
        pytest.param({"takes": (9000, 8000, 8500), "backend": "npu"}, "2.1 GB/s", id="of another family"),
        pytest.param({"takes": (9000, 8000, 8500), "hosts": ("a", "b"), "world": 2}, "2.1 GB/s", id="two nodes"),
    ],
)  # fmt: skip
def test_a_slow_link_is_not_claimed_where_it_is_none(given: dict[str, Any], rate: str) -> None:
    words = advice(**given)
    assert f": {rate}" in words and "PCIe" not in words


def test_ranks_of_one_node_are_told_so() -> None:
    """All members were captured on one host, and come together: nobody waits."""
    words = advice((9000, 8000, 8500, 8200, 8600), hosts=("a", "a"), world=2)
    assert "Its 2 ranks share a node, where PCIe alone moves more." in words


def test_no_rate_without_a_size() -> None:
    assert "The largest" not in advice((9000, 8000, 8500), size=None)


def test_that_links_are_unknown_does_not_hide_what_is_known() -> None:
    (outcome,) = said((9000, 8000, 8500), only="slow_link").outcomes
    assert outcome.outcome == "not_measured" and outcome.collect_with is None
    assert "the largest allreduce moves 16.0 MiB in 8.00 ms or more: 2.1 GB/s" in outcome.reason
    assert "至少用 8.00 ms" in outcome.reason_zh


def test_what_records_sizes_does_not_record_links() -> None:
    (outcome,) = said((9000, 8000, 8500), size=None, only="slow_link", partial="PyTorch 2.4 or later").outcomes
    assert outcome.outcome == "not_measured" and outcome.collect_with is None
    assert outcome.reason.endswith("torch.profiler does not record it")
