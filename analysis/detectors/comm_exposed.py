"""Collectives transfer while nothing is computed beside them.

## What it measures
Of every collective operator the time in which it transfers, from the moment its last member came to its end. From
Level1 on that moment is exact; at Level0 several ranks' starts tell it too. What of that no kernel runs beside, on any
stream, is exposed. It is told per kind of group and collective. Where waiting cannot be told from transferring, the
whole operator counts and the finding says so. A member that was not captured may always come last: where only the
starts of the others are known, the same holds. The saving then has an upper end: all that may have been transfer. What
a member takes after all others have left is no transfer: slow_tail tells it.

Where sizes were recorded, the finding says how fast the largest operators are: by the shortest of equal ones, which
waits least. PCIe within a node moves 10 GB/s on the bus. Where 3 equal ones of 4 MiB or more move less, that is said.

## Why it costs
The device's cores stand still while data travels that could have travelled during compute.

## What to do
Start transfers earlier (buckets during the backward pass), make them smaller, or let them run beside independent work.
The advice names the switches. A slow one within a node may lack peer-to-peer access (NCCL_P2P_DISABLE).

## Limits of the method
Waiting for a late peer is not counted here where it is known (see late_rank), neither are sends and receives (see
pipeline_bubble). A barrier that prepares another operator counts with that one. Hidden transfers compete with compute
for memory bandwidth, so a little of the saving is lost again. Nothing is hidden behind more computing than there is.
So the saving is at most what a rank computes while it transfers nothing. Where that is next to nothing, it is what
moving nothing at all would give back. Where waits were not recorded, a rate is the least that
the link moves: equal operators may all have waited. Whether ranks share a node is known only where all of them were
captured.

## References
torch.nn.parallel.DistributedDataParallel (bucket_cap_mb). Megatron-LM --overlap-grad-reduce, --overlap-param-gather,
--tp-comm-overlap, --moe-shared-expert-overlap, --overlap-moe-expert-parallel-comm. MindSpeed --use-ascend-mc2,
--moe-alltoall-overlap-comm. HCCL_BUFFSIZE (CANN environment variables: 200 MB unless set; larger operators are cut
into rounds). nccl-tests (PERFORMANCE.md): bandwidth on the
bus. docs/views.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import duckdb

from npulens.analysis import limits as limits_
from npulens.analysis.device.family import family
from npulens.analysis.finding import Candidate, NotMeasured, Value, Words
from npulens.analysis.idle.host_names import names
from npulens.analysis.limits import limit
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.exposure import BARRIER, UNNAMED, Best, Exposed, exposed
from npulens.analysis.run import Run
from npulens.analysis.say import number
from npulens.analysis.steady import of_step, steady_ns

NEEDS = ("collectives", "kernels")

_HEAD = "{collective} transfers{beside} are not hidden behind compute for {exposed_ns} of each step ({exposed_share})"
_HEAD_ZH = "{collective_zh}传输{beside_zh}每步有 {exposed_ns}（{exposed_share}）未被计算掩盖"
#: Where less is computed than is exposed, the advice begins so.
_LESS = (
    "[[Hiding gives back {room_ns} of each step at most: a rank computes no longer while it transfers nothing. Move "
    "less first: only what is needed, in a smaller type, among fewer ranks. ]]"
    "[[Only {scant_ns} of each step is computed while nothing is transferred: there is nothing to hide it behind. Move "
    "less: only what is needed, in a smaller type, among fewer ranks. ]]"
)
_LESS_ZH = (
    "[[掩盖至多每步收回 {room_ns}：没有传输时的计算只有这么多。请先减少传输量：只传需要的内容，用更小的数据类型，"
    "减少参与的卡数。]]"
    "[[没有传输时每步只有 {scant_ns} 的计算，无从掩盖。请减少传输量：只传需要的内容，用更小的数据类型，"
    "减少参与的卡数。]]"
)
#: What says whether the devices of a node reach each other; RCCL reads NCCL's variables.
_TOOLS = {
    "cuda": "NCCL_P2P_DISABLE, nvidia-smi topo -m", "rocm": "NCCL_P2P_DISABLE, rocm-smi --showtopo",
}  # fmt: skip
_PACE = ("largest_bytes", "shortest_ns", "rate_bytes_per_s", "equal", "members", "node_ranks", "tools")
_ACCESS = " Check peer-to-peer access: {tools}."
_SIZES = (
    " Operators a step: {count}[[, {median_bytes} each]]; {hidden_share} of their transfer is hidden today."
    "[[ One of them alone takes {one_ns}: look there first.]]"
    "[[ Another {held_ns} of each step in them is no transfer (see slow_tail): the other members had left.]]"
    "[[ The largest moves {largest_bytes} in {shortest_ns} or more: {rate_bytes_per_s}"
    "[[, the best of {equal} alike]].]]"
    "[[ If its {members} ranks share a node and none is always late, PCIe alone moves more." + _ACCESS + "]]"
    "[[ Its {node_ranks} ranks share a node, where PCIe alone moves more." + _ACCESS + "]]"
)
_ACCESS_ZH = "请检查卡间点对点访问：{tools}。"
_SIZES_ZH = (
    "每步 {count} 个算子[[，每个 {median_bytes}]]；目前传输中有 {hidden_share} 被掩盖。"
    "[[其中单独一个就占 {one_ns}，请先看它。]]"
    "[[这些算子每步另有 {held_ns} 不是传输（见 slow_tail）：其他成员已经结束。]]"
    "[[最大的每次传输 {largest_bytes}，至少用 {shortest_ns}，即 {rate_bytes_per_s}"
    "[[（{equal} 个相同算子中最快的一次）]]。]]"
    "[[若通信域的 {members} 张卡在同一节点内，且没有哪张卡总是迟到，那么连 PCIe 都比这快。" + _ACCESS_ZH + "]]"
    "[[通信域的 {node_ranks} 张卡在同一节点内，连 PCIe 都比这快。" + _ACCESS_ZH + "]]"
)
_KNOWN = "[[, except for {barrier_ns} in kernels that only wait]]"
_KNOWN_ZH = "[[，仅知其中 {barrier_ns} 为只做等待的 kernel]]"
_WAITING = "[[ Kernels that only wait for other ranks take {barriers_ns} of each step, hidden or not.]]"
_WAITING_ZH = "[[只等待其他卡的 kernel 每步共占 {barriers_ns}（含被掩盖的部分）。]]"
TEXT = {
    "en": {
        "reduce": Words(
            _HEAD,
            _LESS + "Reduce gradients while the backward pass still runs. DistributedDataParallel does so with buckets "
            "(bucket_cap_mb: smaller ones start earlier), Megatron[[npu:  and MindSpeed]] with --overlap-grad-reduce. "
            "Do not wait for a bucket before the next one is computed; under gradient accumulation use no_sync()."
            "[[npu:  Set HCCL_BUFFSIZE (MB) above the size of an operator.]]" + _SIZES,
        ),
        "tensor": Words(
            _HEAD,
            _LESS + "Overlap it with the matmuls whose parts it carries.[[npu:  MindSpeed's --use-ascend-mc2 fuses "
            "both and needs --sequence-parallel.]][[cuda|rocm:  Megatron does so with --tp-comm-overlap and "
            "--sequence-parallel.]] Keep a tensor parallel group within one node, or let fewer ranks share a layer."
            + _SIZES,
        ),
        "expert": Words(
            _HEAD,
            _LESS + "Compute what needs no tokens of other ranks meanwhile: the shared expert (Megatron's "
            "--moe-shared-expert-overlap), or another micro-batch[[cuda|rocm:  "
            "(--overlap-moe-expert-parallel-comm)]].[[npu:  MindSpeed does so with --moe-alltoall-overlap-comm.]] Keep "
            "an expert parallel group within one node where that is possible." + _SIZES,
        ),
        "other": Words(
            _HEAD,
            _LESS + "Start it before its result is needed and compute something else meanwhile. Prefetch parameters "
            "(--overlap-param-gather, FSDP's forward_prefetch), overlap tensor parallel communication with matmuls, or "
            "let fewer ranks share a layer.[[npu:  Set HCCL_BUFFSIZE (MB) above the size of an operator.]]" + _SIZES,
        ),
        "whole": Words(
            "{collective} operators{beside} run without compute beside them for {exposed_ns} of each step "
            "({exposed_share}). How much of it is waiting for other ranks was not recorded" + _KNOWN,
            "Record every rank[[npu: , or the parts of collectives (profiler_level=Level1),]] to tell transfer "
            "from waiting. If it is transfer, start it during the backward pass (bucket_cap_mb, "
            "--overlap-grad-reduce)."
            + _WAITING + _SIZES,
        ),
        "whole_other": Words(
            "{collective} operators{beside} run without compute beside them for {exposed_ns} of each step "
            "({exposed_share}). How much of it is waiting for other ranks was not recorded" + _KNOWN,
            "Record every rank[[npu: , or the parts of collectives (profiler_level=Level1),]] to tell transfer "
            "from waiting. If it is transfer, start it before its result is needed and compute something else "
            "meanwhile." + _WAITING + _SIZES,
        ),
        "barrier": Words(
            "{collective} operators{beside} run without compute beside them for {exposed_ns} of each step "
            "({exposed_share}). They do nothing but wait for other ranks",
            "Take out barriers that nothing needs. Record every rank to tell who comes last." + _SIZES,
        ),
    },
    "zh": {
        "reduce": Words(
            _HEAD_ZH,
            _LESS_ZH + "请在反向计算进行时就规约梯度：DistributedDataParallel 用分桶实现（bucket_cap_mb 越小开始越早）"
            "，Megatron[[npu:  与 MindSpeed]] 用 --overlap-grad-reduce。不要等一个桶完成才计算下一个，"
            "梯度累积时用 no_sync()。"
            "[[npu: 请将 HCCL_BUFFSIZE（MB）设为大于单个算子的数据量。]]" + _SIZES_ZH,
        ),
        "tensor": Words(
            _HEAD_ZH,
            _LESS_ZH + "请让通信与其对应的矩阵乘重叠。[[npu: MindSpeed 的 --use-ascend-mc2 将二者融合，需同时开启 "
            "--sequence-parallel。]][[cuda|rocm: Megatron 可用 --tp-comm-overlap 与 --sequence-parallel。]]"
            "请让张量并行组位于同一节点内，或减少共享一层的卡数。" + _SIZES_ZH,
        ),
        "expert": Words(
            _HEAD_ZH,
            _LESS_ZH + "请同时计算不依赖其他卡 token 的部分：共享专家（Megatron 的 --moe-shared-expert-overlap），"
            "或另一个 micro-batch[[cuda|rocm: （--overlap-moe-expert-parallel-comm）]]。"
            "[[npu: MindSpeed 用 --moe-alltoall-overlap-comm 实现。]]请尽量让专家并行组位于同一节点内。" + _SIZES_ZH,
        ),
        "other": Words(
            _HEAD_ZH,
            _LESS_ZH + "请在需要结果之前启动通信并同时计算其他内容。"
            "可预取参数（--overlap-param-gather、FSDP 的 forward_prefetch）、"
            "将张量并行通信与矩阵乘重叠，或减少共享一层的卡数。[[npu: 请将 HCCL_BUFFSIZE"
            "（MB）设为大于单个算子的数据量。]]"
            + _SIZES_ZH,
        ),
        "whole": Words(
            "{collective_zh}算子{beside_zh}每步有 {exposed_ns}（{exposed_share}）运行时没有计算；"
            "其中多少是在等其他卡，未采集" + _KNOWN_ZH,
            "请采集所有卡[[npu: ，或采集集合通信的内部任务（profiler_level=Level1）]]，"
            "以区分传输与等待。"
            "若是传输，"
            "请在反向计算期间启动（bucket_cap_mb、--overlap-grad-reduce）。" + _WAITING_ZH + _SIZES_ZH,
        ),
        "whole_other": Words(
            "{collective_zh}算子{beside_zh}每步有 {exposed_ns}（{exposed_share}）运行时没有计算；"
            "其中多少是在等其他卡，未采集" + _KNOWN_ZH,
            "请采集所有卡[[npu: ，或采集集合通信的内部任务（profiler_level=Level1）]]，"
            "以区分传输与等待。若是传输，请在需要结果之前启动，并同时计算其他内容。" + _WAITING_ZH + _SIZES_ZH,
        ),
        "barrier": Words(
            "{collective_zh}算子{beside_zh}每步有 {exposed_ns}（{exposed_share}）运行时没有计算；它们只用于等待其他卡",
            "请去掉不必要的同步。要知道哪张卡最后到达，请采集所有卡。" + _SIZES_ZH,
        ),
    },
}  # fmt: skip
_REDUCING = ("allreduce", "reducescatter")
#: Names of a backward pass, of gradients and of optimisers.
_TRAINS = r"[Bb]ackward|AccumulateGrad|Grad(?:V\d)?(?:$|_)|[Oo]ptimi[sz]er|[Aa]dam|\b[Ss][Gg][Dd]\b"
#: What communication of a kind of group is for, where that decides what helps.
_OF_GROUPS = {"tp": "tensor", "ep": "expert"}


#: Smaller operators are bound by latency: their rate says little of a link.
_SIZED = 2**20
#: What goes over the bus for each byte of an operator, of a group of n ranks (nccl-tests).
_ON_BUS: dict[str, Callable[[int], float]] = {
    "allreduce": lambda n: 2 * (n - 1) / n, "allgather": lambda n: (n - 1) / n, "reducescatter": lambda n: (n - 1) / n,
}  # fmt: skip


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When exposed transfers are worth telling, and when they are slower than any link within a node."""

    slow_bytes_per_s: float = limit(10e9, "bytes/s on the bus", "16 lanes of PCIe 3.0 move 12 GB/s in practice")
    slow_from_bytes: float = limit(4 * 2**20, "bytes", "smaller operators are bound by latency")
    slow_count: float = limit(3, "equal operators", "of fewer each may have waited")
    node_ranks: float = limit(16, "ranks", "nodes of more devices are rare")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate per kind of group and collective."""
    told = run.get(exposed)
    fused = of_step(run, run.get(_fused_ns) // run.step_count)
    seen = of_step(run, max((found.longest_ns for found in told), default=0) // run.step_count)
    if seen < limits.min_share <= fused:
        raise NotMeasured(
            f"kernels that compute and communicate at once take {number('_share', fused)} of the step: what of it is "
            "transfer was not recorded",
            f"边计算边通信的融合 kernel 占步长的 {number('_share', fused)}：其中多少是传输未采集", None,
        )  # fmt: skip
    for found in told:
        yield _candidate(run, found, limits)


def _fused_ns(run: Run) -> int:
    """How long the rank that has most of it computes and communicates in the same kernels."""
    return max((run.activity(rank).mixed.total() for rank in run.ranks), default=0)


def _trains(run: Run) -> bool:
    """Whether gradients may be reduced: not where the host was recorded and nothing speaks of a backward pass."""
    ((host, named),) = run.con.execute(
        f"SELECT count(*) FILTER (kind = 'cpu_op'), count(*) FILTER (kind <> 'python' AND regexp_matches(name, ?)) "
        f"FROM {run.get(names)}", [_TRAINS],
    ).fetchall()  # fmt: skip
    return not host or named > 0


def _one(found: Exposed, steps: int) -> int | None:
    """The longest transfer, where most of the time is in it although there are several operators."""
    return found.largest_ns if found.count > steps and 2 * found.largest_ns > found.longest_ns else None


def _pace(run: Run, found: Exposed, limits: Limits) -> dict[str, Value]:
    """How fast the largest operators are, and whether that is less than any link within a node moves."""
    best = found.best
    if best is None or best.bytes < _SIZED:
        return dict.fromkeys(_PACE)
    rate = best.bytes / best.ns * 1e9
    slow = _slow_within_node(run, found.collective, best, rate, limits)
    return {
        "largest_bytes": best.bytes, "shortest_ns": best.ns, "rate_bytes_per_s": rate,
        "equal": best.equal if best.equal > 1 else None, "members": None, "node_ranks": None, "tools": None,
        **slow,
    }  # fmt: skip


def _slow_within_node(run: Run, collective: str, best: Best, rate: float, limits: Limits) -> dict[str, Value]:
    """The ranks of a group that is this slow, where they share a node for certain, and where they may."""
    members = run.get(collectives).members.get(best.team, ())
    count = len(members)
    if collective not in _ON_BUS or not 2 <= count <= limits.node_ranks or best.bytes < limits.slow_from_bytes:
        return {}
    if best.equal < limits.slow_count or rate * _ON_BUS[collective](count) >= limits.slow_bytes_per_s:
        return {}
    hosts: dict[int, str | None] = dict(run.con.execute("SELECT rank, host FROM rank").fetchall())
    known = {hosts.get(rank) for rank in members}
    if len(known - {None}) > 1 or run.get(family) not in _TOOLS:
        return {}
    tools = _TOOLS[run.get(family)]
    return {"node_ranks" if best.told and None not in known else "members": count, "tools": tools}


def _candidate(run: Run, found: Exposed, limits: Limits) -> Candidate:
    step = found.longest_ns // run.step_count
    numbers: dict[str, Value] = {
        "collective": found.collective,
        "collective_zh": "集合通信" if found.collective == UNNAMED else f"{found.collective} ",
        "group": found.group, "beside": f" ({found.group})" if found.group else "",
        "beside_zh": f"（{found.group}）" if found.group else "", "exposed_ns": step,
        "exposed_share": of_step(run, step), "count": found.count // run.step_count,
        "median_bytes": found.median_bytes, "hidden_share": found.hidden_share, "one_ns": _one(found, run.step_count),
        "room_ns": None, "scant_ns": None, "held_ns": found.held_ns // run.step_count or None,
        "barrier_ns": found.barrier_ns // run.step_count or None,
        "barriers_ns": found.barriers_ns // run.step_count or None,
        **_pace(run, found, limits),
    }  # fmt: skip
    gradients = found.collective in _REDUCING and run.get(_trains)
    usual, mixed = ("reduce", "whole") if gradients else ("other", "whole_other")
    if found.collective in BARRIER:
        mixed = "barrier"
    text = mixed if found.mixed else _OF_GROUPS.get(found.group or "", usual)
    change, most = found.change, found.longest_ns
    if not found.mixed and found.hideable_ns < found.longest_ns:
        room = found.hideable_ns >= limits.min_share * run.get(steady_ns)
        numbers["room_ns" if room else "scant_ns"] = found.hideable_ns // run.step_count
        change, most = (found.hidden, found.hideable_ns) if room else (change, most)
    return Candidate(
        "comm_exposed", text, numbers, found.evidence, change,
        "low" if found.mixed else "high", most, found.longest_ns, most_ns=found.untold_ns if found.mixed else None,
    )  # fmt: skip
