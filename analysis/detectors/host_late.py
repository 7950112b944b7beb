"""The device idles because the host has not issued work yet.

## What it measures
Every gap of the device until the next task was issued (enqueued, or launched where there is no task queue). What a
known cause owns is taken off: garbage collection, compiling, allocating, the profiler, synchronising calls, the data
loader. What is left is ordinary host work: Python, the framework's dispatch, the task queue's thread. The code is the
user's innermost frame at that time, from Python function events or call stacks; else an operator. Its share is the
time that the host really was in it while the device idled, in what it calls as well. What came before and after in the
same gap does not count.

Where ranks meet in collectives, all hosts may be slow, while only the last ones leave their devices idle. The other
devices wait in the collective meanwhile. So the run is also replayed without what all hosts did in gaps and waits. If
that gives back more than twice as much, the finding is of all ranks. Then it also says what the first ranks give alone.

## Why it costs
A device works through what was launched. The host may be slower than the device, or stop for a while when it has no
lead. Then the device waits for it, and everybody who waits for this device in a collective waits as well.

## What to do
Take the named code out of the step's way. Compute masks, metrics and logs less often or on the device, and replace
Python loops over tensors. Bind the process to cores of its NUMA node (torch_npu: CPU_AFFINITY_CONF=1), or use the task
queue's second level (TASK_QUEUE_ENABLE=2). Capture the step as a graph (torch.compile, torchair, NPUGraph; CUDA
graphs). Code that torch.compile made launches kernel by kernel, unless its mode is 'reduce-overhead'. Where graphs
launch most tasks already, take what is launched beside them into one whole graph. A module's frame around compiled code
checks its guards first: give it fewer to check.

## Limits of the method
Code is named where it has at least a tenth of the time. Code with a long call comes before code with many short ones.
Where no operator has a call with a tenth of the time, launching is slow all along. A call that is slow once may be
warm-up. That is said where its other calls are quick, or a kernel made at run time follows, with less confidence. Half
of the time may lie in stalls of at least 0.5 ms in several calls, operators or launches. Nothing is recorded in a
stall. Their other calls rest less than a twentieth of that. Then the thread was held up, not these calls. Where neither
Python nor an operator was recorded, the calls before and after are named. What goes on inside a framework's operator is
not told. Needs launch arrows. Which of several busy threads held the launch up is decided by what moved last. Host time
that a lead hid makes no gap and is not counted. A fix elsewhere that speeds the device up can uncover it.

## References
Issue time against launch time: the task queue of torch_npu (TASK_QUEUE_ENABLE in its documentation). HTA's "host wait"
judges a whole gap by one nanosecond; here it is apportioned.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.capability import explains
from npulens.analysis.device.family import family
from npulens.analysis.finding import Candidate, Confidence, Evidence, Value, Words
from npulens.analysis.idle.blame import GAPS, ONCE_SHARE, Blame, blames
from npulens.analysis.idle.culprit import names
from npulens.analysis.idle.first_use import captures, silences
from npulens.analysis.idle.graphed import frame_of, in_graphs
from npulens.analysis.idle.inside import OTHERS, Inside, Stall
from npulens.analysis.idle.long_calls import TIMES
from npulens.analysis.ranks.behind_waits import all_hosts
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns

NEEDS = ("kernels", "launches")

#: Frames of the framework that nobody can take out of a program; those that record and launch graphs, and the backward
#: pass as a whole.
_IN_FRAMEWORK = re.compile(r"(?:\S*/)?(?:torch|torch_npu|triton|functorch|mindspore)/\S+\.py\(\d+\): ")
_GRAPHS = re.compile(r"(?:^|/)torch(?:_npu)?/(?:cuda|npu)/graphs\.py\(\d+\): ")
_BACKWARD = re.compile(r"(?:^|/)torch/(?:autograd/\w+|_tensor)\.py\(\d+\): (?:_engine_run_backward|backward)\b")
#: Marks of what torch.compile made, while it runs.
_COMPILED = re.compile(r"Torch-Compiled Region|\bCompiledFxGraph\b|\bCompiledFunction\b")

#: What else the host was in while the device idled.
_BESIDES = "[[ Besides, the host was in {others}.]][[ For {between_share} of that time it was in no operator.]]"
_BESIDES_ZH = "[[此外主机还在：{others}。]][[其中 {between_share} 的时间主机不在任何算子中。]]"
_GRAPH = (
    "[[npu:  (torch.compile with torchair)]][[cuda: : CUDA graphs, torch.compile(mode='reduce-overhead')]]"
    "[[rocm: : HIP graphs, torch.compile(mode='reduce-overhead')]][[cpu:  (torch.compile)]]"
)
_GRAPH_ZH = (
    "[[npu: （torch.compile + torchair）]][[cuda: （CUDA graphs、torch.compile(mode='reduce-overhead')）]]"
    "[[rocm: （HIP graphs、torch.compile(mode='reduce-overhead')）]][[cpu: （torch.compile）]]"
)
_IN_CODE = (
    "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
    "{code_share} of that in {code}"
)
_IN_CODE_ZH = "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}"

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share})"
            "[[, {code_share} of that in {code}]]",
            "[[Take {code} out of the step's way: make it cheaper, do it less often[[npu|cuda|rocm: , on the device,]] "
            "or in another thread. ]]For dispatch that is slow everywhere: bind the process to cores of its own[[npu:  "
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
        "inside": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that in {code}",
            "Nothing recorded says what holds the host up inside {code}. It may be Python code (hooks, tensor "
            "subclasses), or a library that prepares for new shapes. [[To record more of it: {setting}. ]]"
            "If only the first runs are slow, later steps do not pay it: record those, schedule(wait=5, warmup=1, "
            "active=5). Where dispatch is slow everywhere, bind the process to cores of its own"
            "[[npu:  (CPU_AFFINITY_CONF=1)]][[cuda|rocm:  (numactl)]]. Or capture the step as a graph"
            "[[npu:  (torch.compile with torchair)]][[cuda: : CUDA graphs, torch.compile(mode='reduce-overhead')]]"
            "[[rocm: : HIP graphs, torch.compile(mode='reduce-overhead')]][[cpu:  (torch.compile)]].",
        ),
        "draws": Words(
            _IN_CODE,
            "{code} launches nothing there: the CPU draws the numbers. Create the tensor on the device (device=...), "
            "or draw it beforehand, in the workers of the data loader.",
        ),
        "holds": Words(
            _IN_CODE,
            "In one call of {code} the device idles for {call_ns}, while the host runs {count} operators there one "
            "by one. [[In {forward} this sends the module's buffers to all ranks: where they need not be alike, "
            "DDP(..., broadcast_buffers=False) leaves it out. ]]Let fewer and larger operators do it, or capture the "
            "step as a graph" + _GRAPH + ".",
        ),
        "besides": Words(
            _IN_CODE,
            "Its calls are many and short. The longest single call is another: in {largest} the device idles for "
            "{largest_ns}. Against many short calls, capture the step as a graph" + _GRAPH + ", or launch larger "
            "pieces of work.",
        ),
        "once": Words(
            _IN_CODE,
            "[[Nearly all of the time in {code} is a single call. Its other calls here ({other_calls}) take {other_ns} "
            "at most. ]]"
            "[[Nothing is recorded in it for {silent_ns}; then kernels such as {kernel} are first launched, through "
            "the driver. Fusers that compile while the job runs look like this. ]]It may well happen once: compare "
            "with later steps, schedule(wait=5, warmup=1, active=5).",
        ),
        "stalls": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{stall_share} of that while the host stands still",
            "The host stands still {stalls} times for {stall_ns} in all, the longest {longest_ns}. It does so in calls "
            "that otherwise rest {other_ns} at most, such as {stalled}. Nothing is recorded in that time: most likely "
            "the thread was taken off its core, or waited for another one. Look for what else runs on its cores: other "
            "processes and workers of the data loader. Look for threads that hold Python's lock (GIL), and for garbage "
            "collections. Bind the process to cores of its own[[npu:  (CPU_AFFINITY_CONF=1)]][[cuda|rocm:  (numactl)]],"
            " and leave others to the workers.",
        ),
        "between": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that between two calls: {code}",
            "What the host does between these calls was not recorded[[. To record it: {setting}]]. Take it out of "
            "the step's way: do it less often[[npu|cuda|rocm: , on the device,]] or in another thread. For dispatch "
            "that is slow everywhere: bind the process to cores of its own[[npu:  (CPU_AFFINITY_CONF=1)]]"
            "[[cuda|rocm:  (numactl)]].",
        ),
        "apart": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that between two calls: {code}",
            "The two follow each other many times, and no single gap there holds the device up: launching is slow all "
            "along. Capture the step as a graph"
            "[[npu:  (torch.compile with torchair)]][[cuda: : CUDA graphs, torch.compile(mode='reduce-overhead')]]"
            "[[rocm: : HIP graphs, torch.compile(mode='reduce-overhead')]][[cpu:  (torch.compile)]], or launch larger "
            "pieces of work. Bind the process to cores of its own[[npu:  (CPU_AFFINITY_CONF=1), set "
            "TASK_QUEUE_ENABLE=2]][[cuda|rocm:  (numactl)]].",
        ),
        "before": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that before {code}",
            "What the host does until then was not recorded[[. To record it: {setting}]]. Take it out of the step's "
            "way: do it less often[[npu|cuda|rocm: , on the device,]] or in another thread.",
        ),
        "after": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that after {code}",
            "What the host does from then on was not recorded[[. To record it: {setting}]]. Take it out of the step's "
            "way: do it less often[[npu|cuda|rocm: , on the device,]] or in another thread.",
        ),
        "compiled": Words(
            "Rank {ranks}: the host is late, the device idles {idle_ns} of each step ({idle_share}), "
            "{code_share} of that in {code}",
            "What torch.compile made there launches its kernels one by one. Let it record them as a graph"
            "[[npu:  (torchair, NPUGraph)]][[cuda|rocm: : torch.compile(mode='reduce-overhead')]]. Breaks of the graph "
            "and shapes that change prevent that. For dispatch that is slow everywhere: bind the process to cores of "
            "its own[[npu:  (CPU_AFFINITY_CONF=1)]][[cuda|rocm:  (numactl)]].",
        ),
        "graph": Words(
            _IN_CODE,
            "{code} records or launches a graph: that work is in a graph already. Where it is recorded, this is "
            "warm-up: judge the job by later steps, schedule(wait=5, warmup=1, active=5). If recording goes on there, "
            "shapes or addresses of the inputs change: pad them, and keep the inputs in place.",
        ),
        "backward": Words(
            _IN_CODE,
            "{code} is the whole backward pass, which cannot be left out. Let fewer and larger operators do it, or "
            "capture the step as a graph" + _GRAPH + ". For dispatch that is slow everywhere: bind the process to "
            "cores of its own[[npu:  (CPU_AFFINITY_CONF=1), set TASK_QUEUE_ENABLE=2]][[cuda|rocm:  (numactl)]].",
        ),
        "framework": Words(
            _IN_CODE,
            "{code} is a function of the framework: see which of your own lines calls it, and whether it must. For "
            "dispatch that is slow everywhere: bind the process to cores of its own[[npu:  "
            "(CPU_AFFINITY_CONF=1), set TASK_QUEUE_ENABLE=2]][[cuda|rocm:  (numactl)]]. Or capture the step as a graph"
            + _GRAPH + ".",
        ),
        "compiled graphed": Words(
            _IN_CODE,
            "What torch.compile made there launches graphs, and other work between them. Put what is launched beside "
            "the graphs into one whole graph. Each graph more is one launch more, and Python runs all between. For "
            "dispatch that is slow everywhere: bind the process to cores of its own"
            "[[npu:  (CPU_AFFINITY_CONF=1)]][[cuda|rocm:  (numactl)]].",
        ),
        "entry": Words(
            _IN_CODE,
            "{code} calls what torch.compile made, and the host is late before that code runs or after it. Most likely "
            "it checks the guards of the compiled code: TORCH_LOGS=guards lists them. Give it fewer inputs and "
            "attributes to check, or leave out guards that always hold (guard_filter_fn). A graph that is captured "
            "around {code} and replayed needs no such checks.",
        ),
        "model": Words(
            _IN_CODE,
            "{code} is part of the model and cannot be left out. Make it cheaper: fewer and larger operators, no "
            "Python loops over tensors, nothing computed there that could be kept. Or capture the step as a graph"
            + _GRAPH + ". For dispatch that is slow everywhere: bind the process to cores of its own"
            "[[npu:  (CPU_AFFINITY_CONF=1), set TASK_QUEUE_ENABLE=2]][[cuda|rocm:  (numactl)]].",
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
            "[[让 {code} 不再阻塞训练步：降低其开销或频率[[npu|cuda|rocm: 、放到设备上]]或移到另一线程。]]"
            "若下发处处都慢：绑核[[npu: （CPU_AFFINITY_CONF=1）、"
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
        "inside": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}",
            "采集数据说明不了主机在 {code} 中被什么拖住：可能是 Python 代码（钩子函数、张量子类），"
            "也可能是库在为新形状做准备。[[采集更多信息的方法：{setting}。]]"
            "若只有最初几次慢，后续步不会再付出，应采集后续步：schedule(wait=5, warmup=1, active=5)。"
            "若下发处处都慢：绑核[[npu: （CPU_AFFINITY_CONF=1）]][[cuda|rocm: （numactl）]]，"
            "或整图下发[[npu: （torch.compile + torchair）]]"
            "[[cuda: （CUDA graphs、torch.compile(mode='reduce-overhead')）]]"
            "[[rocm: （HIP graphs、torch.compile(mode='reduce-overhead')）]][[cpu: （torch.compile）]]。",
        ),
        "draws": Words(
            _IN_CODE_ZH,
            "{code} 没有下发任何任务：随机数由 CPU 生成。"
            "请直接在设备上创建张量（device=...），或提前在数据加载进程中生成。",
        ),
        "holds": Words(
            _IN_CODE_ZH,
            "{code} 的一次调用就使设备空闲 {call_ns}，主机在其中逐个执行 {count} 个算子。"
            "[[在 {forward} 中，这是在向各卡广播模块的 buffer：若各卡不需要一致，"
            "可用 DDP(..., broadcast_buffers=False) 去掉。]]"
            "请用更少、更大的算子完成，或整图下发" + _GRAPH_ZH + "。",
        ),
        "besides": Words(
            _IN_CODE_ZH,
            "它的调用次数多而每次都短。单次调用最长的是 {largest}，设备因此空闲 {largest_ns}。"
            "对大量短调用，请整图下发" + _GRAPH_ZH + "，或增大每次下发的工作量。",
        ),
        "once": Words(
            _IN_CODE_ZH,
            "[[{code} 中的时间绝大部分来自单独一次调用，采集到的其余 {other_calls} 次调用最长只用 {other_ns}。]]"
            "[[其间有 {silent_ns} 没有任何记录，随后经驱动接口首次启动 {kernel} 等算子；运行时编译的融合器正是这样。]]"
            "它很可能只发生一次，请与后续步比较：schedule(wait=5, warmup=1, active=5)。",
        ),
        "stalls": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {stall_share} 的时间主机处于停顿",
            "主机共停顿 {stalls} 次，合计 {stall_ns}，最长 {longest_ns}，停在 {stalled} 等平时至多停 {other_ns} "
            "的调用中。其间没有任何记录：很可能是线程被系统调度出去，或在等待别的线程。请排查是谁在占用这些核："
            "其他进程、数据加载的工作进程、持有 GIL 的 Python 线程、垃圾回收。请绑核[[npu: （CPU_AFFINITY_CONF=1）]]"
            "[[cuda|rocm: （numactl）]]，让进程独占一组核，工作进程放到其余核上。",
        ),
        "between": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），"
            "其中 {code_share} 在这两次调用之间：{code}",
            "主机在这两次调用之间做了什么没有采集到[[，采集方法：{setting}]]。请让它不再阻塞训练步：降低频率"
            "[[npu|cuda|rocm: 、放到设备上]]或移到另一线程。若下发处处都慢：绑核[[npu: （CPU_AFFINITY_CONF=1）]]"
            "[[cuda|rocm: （numactl）]]。",
        ),
        "apart": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），"
            "其中 {code_share} 在这两次调用之间：{code}",
            "这两次调用反复相继出现，没有哪一段空隙单独拖住设备，而是下发普遍偏慢。请整图下发"
            "[[npu: （torch.compile + torchair）]]"
            "[[cuda: （CUDA graphs、torch.compile(mode='reduce-overhead')）]]"
            "[[rocm: （HIP graphs、torch.compile(mode='reduce-overhead')）]][[cpu: （torch.compile）]]，"
            "或增大每次下发的工作量。绑核[[npu: （CPU_AFFINITY_CONF=1）、设 TASK_QUEUE_ENABLE=2]]"
            "[[cuda|rocm: （numactl）]]也有帮助。",
        ),
        "before": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code} 之前",
            "在此之前主机做了什么没有采集到[[，采集方法：{setting}]]。请让它不再阻塞训练步：降低频率"
            "[[npu|cuda|rocm: 、放到设备上]]或移到另一线程。",
        ),
        "after": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code} 之后",
            "此后主机做了什么没有采集到[[，采集方法：{setting}]]。请让它不再阻塞训练步：降低频率"
            "[[npu|cuda|rocm: 、放到设备上]]或移到另一线程。",
        ),
        "compiled": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}",
            "torch.compile 生成的代码在此逐个下发算子，请让它录制成图"
            "[[npu: （torchair、NPUGraph）]][[cuda|rocm: （torch.compile(mode='reduce-overhead')）]]；"
            "图中断和变化的形状会妨碍录制。若下发处处都慢：绑核"
            "[[npu: （CPU_AFFINITY_CONF=1）]][[cuda|rocm: （numactl）]]。",
        ),
        "graph": Words(
            _IN_CODE_ZH,
            "{code} 在录制或下发图，这部分任务已经在图中。若是在录制，则属于预热，应以后续步评判："
            "schedule(wait=5, warmup=1, active=5)。若之后仍在录制，说明输入的形状或地址在变："
            "请填充到固定形状，并让输入留在原处。",
        ),
        "backward": Words(
            _IN_CODE_ZH,
            "{code} 就是整个反向计算，无法省去。请用更少、更大的算子完成，或整图下发" + _GRAPH_ZH + "。"
            "若下发处处都慢：绑核[[npu: （CPU_AFFINITY_CONF=1）、设 TASK_QUEUE_ENABLE=2]][[cuda|rocm: （numactl）]]。",
        ),
        "framework": Words(
            _IN_CODE_ZH,
            "{code} 是框架的函数：请查看自己的哪行代码在调用它，能否降低频率。"
            "若下发处处都慢：绑核[[npu: （CPU_AFFINITY_CONF=1）、设 TASK_QUEUE_ENABLE=2]]"
            "[[cuda|rocm: （numactl）]]，或整图下发" + _GRAPH_ZH + "。",
        ),
        "compiled graphed": Words(
            _IN_CODE_ZH,
            "torch.compile 生成的代码在此下发多张图，图与图之间还有其他任务。请把图外下发的任务并入一张整图。"
            "每多一张图就多一次下发，图之间的部分还要由 Python 执行。若下发处处都慢：绑核"
            "[[npu: （CPU_AFFINITY_CONF=1）]][[cuda|rocm: （numactl）]]。",
        ),
        "entry": Words(
            _IN_CODE_ZH,
            "{code} 调用 torch.compile 生成的代码，而主机的时间花在那段代码运行之前或之后，很可能是在检查守卫条件："
            "TORCH_LOGS=guards 可列出它们。请减少要检查的输入和属性，或去掉总是成立的守卫条件（guard_filter_fn）。"
            "若在 {code} 外层捕获图并重放，就不再需要这些检查。",
        ),
        "model": Words(
            _IN_CODE_ZH,
            "{code} 是模型的一部分，无法省去。请降低其开销：用更少、更大的算子，不要用 Python 循环逐个处理张量，"
            "能保留的结果不要重复计算。也可以整图下发" + _GRAPH_ZH + "。"
            "若下发处处都慢：绑核[[npu: （CPU_AFFINITY_CONF=1）、设 TASK_QUEUE_ENABLE=2]][[cuda|rocm: （numactl）]]。",
        ),
        "warming": Words(
            "rank {ranks}：主机下发太晚，设备每步空闲 {idle_ns}（{idle_share}），其中 {code_share} 在 {code}",
            "torch.compile 生成的代码正要变成图：本次采集包含图的录制，属于预热，后续步会直接下发图。"
            "应以后续步评判：先跑若干步再采集，如 schedule(wait=5, warmup=1, active=5)。",
        ),
    },
}

#: Where the hosts of all ranks are slow.
_EVERYWHERE = "[[; hosts are slow on all {hosts} captured ranks]]"
_EVERYWHERE_ZH = "[[；已采集的全部 {hosts} 张卡主机都慢]]"
_ALL = (
    "[[ The saving needs faster hosts on all {hosts} captured ranks. Much of it makes no gap: devices wait in "
    "collectives meanwhile.]][[ Without the other ranks it is {alone_ns}: then their hosts hold the job up.]]"
)
_ALL_ZH = (
    "[[只有已采集的全部 {hosts} 张卡主机都变快，才能得到上述收益。大部分看不到空隙，因为设备此时在集合通信中等待。]]"
    "[[只改善 rank {ranks} 的主机可收回 {alone_ns}，此后由其他卡的主机拖住运行。]]"
)
for _lang, _where, _more in (("en", _EVERYWHERE, _ALL + _BESIDES), ("zh", _EVERYWHERE_ZH, _ALL_ZH + _BESIDES_ZH)):
    TEXT[_lang] = {name: Words(said.title + _where, said.advice + _more) for name, said in TEXT[_lang].items()}

#: What sentences on graphs say of a job whose work graphs launch already: which words, and what instead.
_WHOLE = {
    "en": ((f"apture the step as a graph{_GRAPH}", "what is launched beside the graphs into one whole graph"),
           "Graphs launch most of the device's work already. "),
    "zh": ((f"整图下发{_GRAPH_ZH}", "把图外下发的任务并入一张整图"), "设备的大部分任务已由图下发。"),
}  # fmt: skip
for _lang, ((_words, _instead), _first) in _WHOLE.items():
    for _name, _said in list(TEXT[_lang].items()):
        if _words in _said.advice:
            _advice = _said.advice
            for _old, _put in (("C", "Put "), ("c", "put "), ("", "")):
                _advice = _advice.replace(_old + _words, _put + _instead)
            TEXT[_lang][f"{_name} graphed"] = Words(_said.title, _first + _advice)

#: Sentences that hold of any code, so that the one with most of the time is named first.
_ANY_CODE = ("found", "besides", "scattered")
#: Sentences about what was not recorded.
_UNRECORDED = ("inside", "between", "before", "after")
#: Operators and autograd functions that the model is made of: most of them are needed where they are.
_OF_THE_MODEL = re.compile(r"^\w+::|^Optimizer\.|Backward\d*$|^_?[A-Z]\w*$")
LONG_NS = 500_000
#: A stall is so many times as long as any other call of its operator, and lies in one of so many operators.
_STALL_TIMES, _STALLED = 20, 2
#: DDP puts the buffers of a module into one tensor, sends it, and takes it apart, all in its forward.
_FLAT, _FORWARD = re.compile(r"^aten::(?:un)?flatten_dense_tensors$"), "DistributedDataParallel.forward"
_SENDS_BUFFERS = """
    SELECT 1 FROM span f JOIN span h ON h.rank = f.rank AND h.ts_ns >= f.ts_ns AND h.ts_ns < f.ts_ns + f.dur_ns
    JOIN link l ON l.src_span_id = h.span_id JOIN comm c ON c.span_id = l.dst_span_id AND c.collective = 'broadcast'
    WHERE f.rank = ? AND f.kind = 'annotation' AND f.name = ? AND f.ts_ns <= ? AND f.ts_ns + f.dur_ns >= ? LIMIT 1
"""
#: One gap with this share of all that the host is late is a single call in the way, however short.
_LARGE = 0.1
#: How a code is spelled that has no name but those of the calls before and after it.
_BETWEEN, _START, _END = " -> ", "... -> ", " -> ..."


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate for each group of ranks whose hosts are late alike; only one where the hosts of all ranks are."""
    for place, found in enumerate(blames(run, "host_late")):
        least = limits.min_share * run.get(steady_ns)
        seen = place == 0 and found.measured_ns >= least and run.get(family) != "cpu"
        job = all_hosts(run, found) if seen else None
        if job is None or job.saved_ns < least:
            yield _candidate(run, found)
            continue
        alone = job.alone_ns // run.step_count if len(found.ranks) < len(run.ranks) else None
        only = _candidate(run, found)
        numbers = {**only.numbers, "hosts": len(run.ranks), "alone_ns": alone}
        yield replace(only, numbers=numbers, change=job.change, measured_ns=job.measured_ns)
        return


def _candidate(run: Run, found: Blame) -> Candidate:
    """What is said of ranks whose hosts are late alike."""
    once, sure = _once(run, found)
    stalls = () if "silent_ns" in once else _stalls(found)
    text = "stalls" if stalls else "once" if once else _text(run, found)
    numbers: dict[str, Value] = {**found.numbers, **(_stood(found, stalls) if stalls else once)}
    if found.inside is not None and found.inside.code and not stalls:
        numbers |= found.inside.besides
        if text in _ANY_CODE:
            numbers |= _largest(found.inside)
        if run.get(family) == "cpu":
            numbers["between_share"] = None  # all of it: the title says so
    if text == "before":
        numbers["code"] = str(numbers["code"]).removeprefix(_START)
    if text in _UNRECORDED and (settings := explains(run)):
        numbers["setting"] = settings
    if text == "holds":
        numbers |= _held(run, found)
    if text == "besides" and found.inside and found.inside.largest:
        numbers |= {"largest": found.inside.largest.name, "largest_ns": found.inside.largest.ns}
    shows = (*(Evidence(one.rank, one.start, one.ns, one.span, one.name) for one in stalls[:GAPS]), *found.evidence)
    text = _as_launched(run, found, text, str(numbers["code"]))
    return Candidate("host_late", text, numbers, shows, found.change, sure, measured_ns=found.measured_ns)


#: Operators that draw numbers; without a launch the CPU does it.
_RANDOM = re.compile(
    r"aten::(?:normal_|uniform_|random_|bernoulli_|exponential_|log_normal_|cauchy_|geometric_|rand|randn|randint|randperm"
    r"|multinomial)\b"
)


def _text(run: Run, found: Blame) -> str:
    """Which sentences say it."""
    code = str(found.numbers["code"])
    if _COMPILED.search(code):
        recorded = {one.rank for one in run.get(captures).found}
        return "warming" if recorded.intersection(found.ranks) else "compiled"
    if _GRAPHS.search(code):
        return "graph"
    inside = found.inside
    of_the_model, large = _OF_THE_MODEL.search(code) is not None, found.longest_ns >= LONG_NS
    small = found.longest_ns * run.step_count < _LARGE * found.measured_ns
    if code.startswith(_START):
        return "before"
    if _BETWEEN in code:
        short = found.scattered or (of_the_model and not large and small)
        return "apart" if short and not _long(found) else "between"
    if found.scattered or (of_the_model and not large and small):
        largest = inside.largest.ns if inside is not None and inside.largest is not None else 0
        return "besides" if largest * run.step_count >= _LARGE * found.measured_ns else "scattered"
    if inside is None or inside.call is None or 2 * inside.runtime[1] >= inside.ns:
        if _IN_FRAMEWORK.match(code):
            return "backward" if _BACKWARD.search(code) else "framework"
        return "found"  # a call of the runtime within the operator says itself what holds the host up
    if 2 * inside.own_ns < inside.ns and not inside.silent:
        return "holds" if of_the_model else "found"
    return "draws" if _RANDOM.search(code) and run.get(family) != "cpu" else "inside"


def _long(found: Blame) -> bool:
    """Whether half of the time of the named code lies in long gaps: each of them holds the device up, however many."""
    ns = found.inside.by_piece if found.inside else np.zeros(0, np.int64)
    return 2 * int(ns[ns >= LONG_NS].sum()) >= max(1, int(ns.sum()))


def _as_launched(run: Run, found: Blame, text: str, code: str) -> str:
    """The sentences for a job that launches graphs already, and for frames that nobody can take out of the step."""
    graphed = in_graphs(run, found.ranks)
    place = frame_of(run, code, found.host) if text in _ANY_CODE else ""
    if place in ("entry", "model"):
        text = place
    elif place == "made" and graphed:
        text = "compiled"
    return f"{text} graphed" if graphed and f"{text} graphed" in TEXT["en"] else text


def _largest(found: Inside) -> dict[str, Value]:
    """Where other code has more of the time than the one that stands out, that comes first and the one behind it.

    Code stands out by its calls; what lies in frames of Python alone is summed up apart.
    """
    if not found.others or found.others[0][1] <= found.ns:
        return {}
    (code, ns), *rest = found.others
    behind = sorted([(found.code, found.ns), *rest], key=lambda one: -one[1])
    return {"code": code, "code_share": ns / max(1, found.whole_ns), **replace(found, others=tuple(behind)).besides}


def _once(run: Run, found: Blame) -> tuple[dict[str, Value], Confidence]:
    """What speaks for a single call that does not come back, and how sure that leaves the finding."""
    inside = found.inside
    if inside is None or inside.call is None:
        return {}, "high"
    call = inside.call
    ((count, longest),) = run.con.execute(
        "SELECT count(*), max(s.dur_ns) FROM span s JOIN span c ON c.span_id = ? AND s.rank = c.rank "
        "AND s.kind = c.kind AND s.name = c.name AND s.span_id <> c.span_id", [call.span],
    ).fetchall()  # fmt: skip
    if inside.call.ns >= ONCE_SHARE * inside.ns and count and longest * TIMES <= call.end - call.start:
        return {"other_calls": count, "other_ns": longest}, "medium"
    of = names(run, np.array([one.operator for one in run.get(silences)], np.int64))
    rests = [one for one in run.get(silences) if one.rank in found.ranks and of[one.operator] == call.name]
    silent = sum(one.end - one.begin for one in rests)
    if not rests or 2 * silent < inside.ns:
        return {}, "high"
    longest_rest = max(rests, key=lambda one: one.end - one.begin)
    return {"silent_ns": silent, "kernel": longest_rest.kernel}, "low"


def _stalls(found: Blame) -> tuple[Stall, ...]:
    """Where the host's thread was held up: long stalls of several operators with half of the time, none alone."""
    inside = found.inside
    if inside is None:
        return ()
    stalls = tuple(one for one in inside.stalls if one.ns > _STALL_TIMES * one.usual_ns)
    if len({one.name for one in stalls}) < _STALLED or 2 * stalls[0].ns >= inside.whole_ns:
        return ()
    return stalls if 2 * sum(one.ns for one in stalls) >= inside.whole_ns else ()


def _stood(found: Blame, stalls: tuple[Stall, ...]) -> dict[str, Value]:
    """The numbers of stalls."""
    spent = Counter[str]()
    for one in stalls:
        spent[one.name] += one.ns
    total = sum(spent.values())
    return {
        "stalls": len(stalls), "stall_ns": total, "longest_ns": stalls[0].ns,
        "stalled": [name for name, _ in spent.most_common(OTHERS)],
        "stall_share": total / found.inside.whole_ns if found.inside else None,
        "other_ns": max(one.usual_ns for one in stalls),
    }  # fmt: skip


def _held(run: Run, found: Blame) -> dict[str, Value]:
    """Of an operator that runs others: its longest call, and whether that is DDP sending buffers."""
    if found.inside is None or found.inside.call is None:
        return {}
    call = found.inside.call
    ((track, rank),) = run.con.execute("SELECT track, rank FROM span WHERE span_id = ?", [call.span]).fetchall()
    ((count,),) = run.con.execute(
        "SELECT count(*) FROM span WHERE track = ? AND kind = 'cpu_op' AND span_id <> ? AND ts_ns >= ? "
        "AND ts_ns + dur_ns <= ?", [track, call.span, call.start, call.end],
    ).fetchall()  # fmt: skip
    numbers: dict[str, Value] = {"call_ns": call.ns, "count": count}
    if _FLAT.search(call.name) and run.con.execute(_SENDS_BUFFERS, [rank, _FORWARD, call.start, call.end]).fetchall():
        numbers["forward"] = _FORWARD
    return numbers
