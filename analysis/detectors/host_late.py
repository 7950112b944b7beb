"""The device idles because the host has not issued work yet.

## What it measures
Every gap of the device until the next task was issued (enqueued, or launched where there is no task queue). What a
known cause owns is taken off: garbage collection, compiling, allocating, the profiler, synchronising calls, the data
loader. What is left is ordinary host work: Python, the framework's dispatch, the task queue's thread. The code is the
user's innermost frame at that time, from Python function events or call stacks.

## Why it costs
A device works through what was launched. The host may be slower than the device, or stop for a while when it has no
lead. Then the device waits for it, and everybody who waits for this device in a collective waits as well.

## What to do
Take the named code out of the step's way. Compute masks, metrics and logs less often or on the device, and replace
Python loops over tensors. Bind the process to cores of its NUMA node (torch_npu: CPU_AFFINITY_CONF=1), or use the task
queue's second level (TASK_QUEUE_ENABLE=2). Capture the step as a graph (torch.compile, torchair, NPUGraph; CUDA
graphs). Code that torch.compile made launches kernel by kernel, unless its mode is 'reduce-overhead'.

## Limits of the method
Code is named where it has at least a tenth of the time. Its time may lie in many gaps, none of which has a tenth of it
in a step. Then launching is slow all along, and no single call is to be taken away.
Needs launch arrows. Which of several busy threads held the launch up is decided by what moved last. Host time that a
lead hid makes no gap and is not counted. A fix elsewhere that speeds the device up can uncover it.

## References
Issue time against launch time: the task queue of torch_npu (TASK_QUEUE_ENABLE in its documentation). HTA's "host wait"
judges a whole gap by one nanosecond; here it is apportioned.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Words
from npulens.analysis.idle.blame import blames
from npulens.analysis.idle.first_use import captures
from npulens.analysis.run import Run

NEEDS = ("kernels", "launches")

#: Marks of what torch.compile made, while it runs.
_COMPILED = re.compile(r"Torch-Compiled Region|\bCompiledFxGraph\b|\bCompiledFunction\b")

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share})"
            "[[, {code_share} of that in {code}]]",
            "[[Take {code} out of the step's way: do it less often[[npu|cuda|rocm: , on the device,]] or in another "
            "thread. ]]For dispatch that is slow everywhere: bind the process to cores of its own[[npu:  "
            "(CPU_AFFINITY_CONF=1), set TASK_QUEUE_ENABLE=2]][[cuda|rocm:  (numactl)]]. Or capture the step as a graph"
            "[[npu:  (torch.compile with torchair)]][[cuda: : CUDA graphs, torch.compile(mode='reduce-overhead')]]"
            "[[rocm: : HIP graphs, torch.compile(mode='reduce-overhead')]][[cpu:  (torch.compile)]].",
        ),
        "scattered": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that in {code}",
            "No single call there holds the device up: launching is slow all along. Capture the step as a graph"
            "[[npu:  (torch.compile with torchair)]][[cuda: : CUDA graphs, torch.compile(mode='reduce-overhead')]]"
            "[[rocm: : HIP graphs, torch.compile(mode='reduce-overhead')]][[cpu:  (torch.compile)]], or launch larger "
            "pieces of work. Bind the process to cores of its own[[npu:  (CPU_AFFINITY_CONF=1), set "
            "TASK_QUEUE_ENABLE=2]][[cuda|rocm:  (numactl)]].",
        ),
        "between": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that in {code}",
            "What the host does between these calls was not recorded; with_stack=True would name it. Take it out of "
            "the step's way: do it less often[[npu|cuda|rocm: , on the device]], or in another thread. For dispatch "
            "that is slow everywhere: bind the process to cores of its own[[npu:  (CPU_AFFINITY_CONF=1)]]"
            "[[cuda|rocm:  (numactl)]].",
        ),
        "compiled": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that in {code}",
            "What torch.compile made there launches its kernels one by one. Let it record them as a graph"
            "[[npu:  (torchair, NPUGraph)]][[cuda|rocm: : torch.compile(mode='reduce-overhead')]]. Breaks of the graph "
            "and shapes that change prevent that. For dispatch that is slow everywhere: bind the process to cores of "
            "its own[[npu:  (CPU_AFFINITY_CONF=1)]][[cuda|rocm:  (numactl)]].",
        ),
        "warming": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that in {code}",
            "What torch.compile made there is about to be a graph: the capture holds its recording. This is warm-up, "
            "and later steps launch the graph. Judge the job by them: record after some steps, schedule(wait=5, "
            "warmup=1, active=5).",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}）[[，其中 {code_share} 在 {code}]]",
            "[[让 {code} 不再阻塞训练步：降低频率[[npu|cuda|rocm: 、放到设备上]]或移到另一线程。]]若下发处处都慢："
            "绑核[[npu: （CPU_AFFINITY_CONF=1）、"
            "设 TASK_QUEUE_ENABLE=2]][[cuda|rocm: （numactl）]]，或整图下发[[npu: （torch.compile + torchair）]]"
            "[[cuda: （CUDA graphs、torch.compile(mode='reduce-overhead')）]]"
            "[[rocm: （HIP graphs、torch.compile(mode='reduce-overhead')）]][[cpu: （torch.compile）]]。",
        ),
        "scattered": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}",
            "其中没有哪一次调用单独拖住设备，而是下发普遍偏慢。请整图下发[[npu: （torch.compile + torchair）]]"
            "[[cuda: （CUDA graphs、torch.compile(mode='reduce-overhead')）]]"
            "[[rocm: （HIP graphs、torch.compile(mode='reduce-overhead')）]][[cpu: （torch.compile）]]，"
            "或增大每次下发的工作量。绑核[[npu: （CPU_AFFINITY_CONF=1）、设 TASK_QUEUE_ENABLE=2]]"
            "[[cuda|rocm: （numactl）]]也有帮助。",
        ),
        "between": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}",
            "主机在这两次调用之间做了什么没有采集到，with_stack=True 可以给出名称。请让它不再阻塞训练步：降低频率"
            "[[npu|cuda|rocm: 、放到设备上]]或移到另一线程。若下发处处都慢：绑核[[npu: （CPU_AFFINITY_CONF=1）]]"
            "[[cuda|rocm: （numactl）]]。",
        ),
        "compiled": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}",
            "torch.compile 生成的代码在此逐个下发算子，请让它录制成图"
            "[[npu: （torchair、NPUGraph）]][[cuda|rocm: （torch.compile(mode='reduce-overhead')）]]；"
            "图中断和变化的形状会妨碍录制。若下发处处都慢：绑核"
            "[[npu: （CPU_AFFINITY_CONF=1）]][[cuda|rocm: （numactl）]]。",
        ),
        "warming": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}",
            "torch.compile 生成的代码正要变成图：本次采集包含图的录制，属于预热，后续步会直接下发图。"
            "应以后续步评判：先跑若干步再采集，如 schedule(wait=5, warmup=1, active=5)。",
        ),
    },
}


#: Operators that the model is made of. Of short ones no single call is in the way.
_OF_THE_MODEL = re.compile(r"^(aten|torch|autograd|cudnn|c10d)::|^Optimizer\.|Backward\d*$")
LONG_NS = 500_000
_BETWEEN = " -> "


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks whose hosts are late alike."""
    for found in blames(run, "host_late"):
        code, longest = str(found.numbers["code"]), max((one.dur_ns for one in found.evidence), default=0)
        of_the_model = _OF_THE_MODEL.search(code) is not None and longest < LONG_NS
        text = "scattered" if found.scattered or of_the_model else "between" if _BETWEEN in code else "found"
        if _COMPILED.search(str(found.numbers["code"])):
            recorded = {one.rank for one in run.get(captures).found}
            text = "warming" if recorded.intersection(found.ranks) else "compiled"
        yield Candidate(
            "host_late", text, found.numbers, found.evidence, found.change, measured_ns=found.measured_ns
        )  # fmt: skip
