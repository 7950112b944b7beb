"""Collectives transfer while nothing is computed beside them.

## What it measures
Of every collective operator the time in which it transfers, from the moment its last member came to its end. From
Level1 on that moment is exact; at Level0 several ranks' starts tell it too. What of that no kernel runs beside, on any
stream, is exposed. It is told per kind of group and collective. Where waiting cannot be told from transferring, the
whole operator counts and the finding says so.

## Why it costs
The device's cores stand still while data travels that could have travelled during compute.

## What to do
Start transfers earlier (buckets during the backward pass), make them smaller, or let them run beside independent work.
The advice names the switches.

## Limits of the method
Waiting for a late peer is not counted here (see late_rank), neither are sends and receives (see
pipeline_bubble). Hidden transfers compete with compute for memory bandwidth, so a little of the
saving is lost again.

## References
torch.nn.parallel.DistributedDataParallel (bucket_cap_mb); Megatron-LM --overlap-grad-reduce,
--overlap-param-gather; HCCL_BUFFSIZE (CANN environment variables: 200 MB unless set; larger
operators are cut into rounds); docs/views.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Words
from npulens.analysis.ranks.exposure import Exposed, exposed
from npulens.analysis.run import Run
from npulens.analysis.steady import of_step

NEEDS = ("collectives", "kernels")

_HEAD = "{collective} transfers{beside} are not hidden behind compute for {exposed_ns} of each step ({exposed_share})"
_HEAD_ZH = "{collective} 传输{beside_zh}每步有 {exposed_ns}（{exposed_share}）未被计算掩盖"
_SIZES = " Operators a step: {count}[[, {median_bytes} each]]; {hidden_share} of their transfer is hidden today."
_SIZES_ZH = "每步 {count} 个算子[[，每个 {median_bytes}]]；目前传输中有 {hidden_share} 被掩盖。"
TEXT = {
    "en": {
        "reduce": Words(
            _HEAD,
            "Reduce gradients while the backward pass still runs. DistributedDataParallel does so with buckets "
            "(bucket_cap_mb: smaller ones start earlier), Megatron[[npu:  and MindSpeed]] with --overlap-grad-reduce. "
            "Do not wait for a bucket before the next one is computed; under gradient accumulation use no_sync()."
            "[[npu:  Set HCCL_BUFFSIZE (MB) above the size of an operator.]]" + _SIZES,
        ),
        "other": Words(
            _HEAD,
            "Start it before its result is needed and compute something else meanwhile. Prefetch parameters "
            "(--overlap-param-gather, FSDP's forward_prefetch), overlap tensor parallel communication with matmuls, or "
            "let fewer ranks share a layer.[[npu:  Set HCCL_BUFFSIZE (MB) above the size of an operator.]]" + _SIZES,
        ),
        "whole": Words(
            "{collective} operators{beside} run without compute beside them for {exposed_ns} of each step "
            "({exposed_share}). How much of it is waiting for other ranks was not recorded",
            "Record every rank[[npu: , or the parts of collectives (profiler_level=Level1),]] to tell transfer "
            "from waiting. If it is transfer, start it during the backward pass (bucket_cap_mb, "
            "--overlap-grad-reduce)."
            + _SIZES,
        ),
    },
    "zh": {
        "reduce": Words(
            _HEAD_ZH,
            "请在反向计算进行时就规约梯度：DistributedDataParallel 用分桶实现（bucket_cap_mb 越小开始越早），Megatron"
            "[[npu:  与 MindSpeed]] 用 --overlap-grad-reduce。不要等一个桶完成才计算下一个，梯度累积时用 no_sync()。"
            "[[npu: 请将 HCCL_BUFFSIZE（MB）设为大于单个算子的数据量。]]" + _SIZES_ZH,
        ),
        "other": Words(
            _HEAD_ZH,
            "请在需要结果之前启动通信并同时计算其他内容。"
            "可预取参数（--overlap-param-gather、FSDP 的 forward_prefetch）、"
            "将张量并行通信与矩阵乘重叠，或减少共享一层的卡数。[[npu: 请将 HCCL_BUFFSIZE"
            "（MB）设为大于单个算子的数据量。]]"
            + _SIZES_ZH,
        ),
        "whole": Words(
            "{collective} 算子{beside_zh}每步有 {exposed_ns}（{exposed_share}）运行时没有计算；"
            "其中多少是在等其他卡，未采集",
            "请采集所有卡[[npu: ，或采集集合通信的内部任务（profiler_level=Level1）]]，"
            "以区分传输与等待。"
            "若是传输，"
            "请在反向计算期间启动（bucket_cap_mb、--overlap-grad-reduce）。" + _SIZES_ZH,
        ),
    },
}  # fmt: skip
_REDUCING = ("allreduce", "reducescatter")


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When exposed transfers are worth telling."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate per kind of group and collective."""
    for found in run.get(exposed):
        yield _candidate(run, found)


def _candidate(run: Run, found: Exposed) -> Candidate:
    step = found.longest_ns // run.step_count
    numbers = {
        "collective": found.collective, "group": found.group, "beside": f" ({found.group})" if found.group else "",
        "beside_zh": f"（{found.group}）" if found.group else "", "exposed_ns": step,
        "exposed_share": of_step(run, step), "count": found.count // run.step_count,
        "median_bytes": found.median_bytes, "hidden_share": found.hidden_share,
    }  # fmt: skip
    text = "whole" if found.mixed else "reduce" if found.collective in _REDUCING else "other"
    return Candidate(
        "comm_exposed", text, numbers, found.evidence, found.change,
        "low" if found.mixed else "high", found.longest_ns, found.longest_ns,
    )  # fmt: skip
