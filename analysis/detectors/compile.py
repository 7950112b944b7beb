"""Operators are compiled or tuned while the job runs.

## What it measures
Gaps of the device while the host compiles. Compiling is `aclopCompileAndExecute` and `opCompile` of CANN,
torch.compile's own marks, and frames of TorchDynamo, Inductor, Triton and TileLang. On CUDA and ROCm it is also a
program's call that loads a module. Loading that the runtime does by itself is first use (first_use). Which operators
asked for it, and how often; calls within such a call are not counted.

## Why it costs
An operator that CANN has no ready kernel for is prepared by the host at each new shape. That takes from 0.5 ms up to
seconds, and the device has nothing to do meanwhile.

## What to do
Ascend: `torch.npu.set_compile_mode(jit_compile=False)` (the binary kernels), static shapes or buckets of shapes,
operators with an aclnn form. Keep the compile cache on a local disk. torch.compile: `mark_dynamic` or padded shapes,
see TORCH_LOGS=recompiles. CUDA: warm up before the steps that count. A single compilation is no matter of shapes: warm
up before it is recorded, and keep the caches between runs.

## Limits of the method
`aclopCompileAndExecute` also launches: calls that find their kernel in the cache are counted, too, they are the slow
way in any case. A launch in it that takes 1 ms or more loads something, and is not counted. Compiling in the steps
before the capture is not seen. A fuser leaves no mark: a long rest within an operator, before the driver first launches
a kernel, may be one. Then nothing is claimed, and it is not measured.

## References
CANN: aclopCompileAndExecute, aclrtSetCompileopt; torch_npu: set_compile_mode; msprof-analyze's "operator compile" rule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, NotMeasured, Value, Words
from npulens.analysis.idle.blame import Blame, everywhere, moments
from npulens.analysis.idle.culprit import codes, names
from npulens.analysis.idle.first_use import silences, untold
from npulens.analysis.idle.host_names import PATTERNS, Special, special
from npulens.analysis.idle.issue import COPY, tasks
from npulens.analysis.idle.pieces import Idle, idle
from npulens.analysis.run import Run
from npulens.analysis.say import ONCE

NEEDS = ("kernels", "compiling")
_NAMED = 5  # operators that a sentence can hold
_LOOKED_UP = 200  # the longest pieces
#: Kernels that are made at run time, by their names.
_MADE = re.compile(r"^(?:triton_|nvfuser_|CudaCodeGen::|kernel_cutlass_)")

_TITLE = (
    "Rank {ranks}: operators are compiled while the job runs, the device idles {idle_ns} of each step "
    "({idle_share}); {calls} calls[[, for {operators}]]"
)
_TITLE_ZH = (
    "rank {ranks}：运行中编译算子，设备每步空闲 {idle_ns}（{idle_share}）；共 {calls} 次调用[[，涉及 {operators}]]"
)
_SHAPES = (
    "[[npu: torch.npu.set_compile_mode(jit_compile=False), shapes that repeat, and operators with an aclnn "
    "form. ]]torch.compile: padded or marked-dynamic shapes (TORCH_LOGS=recompiles). "
    "Warm up every shape before the steps that count."
)
_SHAPES_ZH = (
    "[[npu: torch.npu.set_compile_mode(jit_compile=False)，固定或分档形状，改用有 aclnn 形式的算子。]]"
    "torch.compile：填充形状或标记动态维（TORCH_LOGS=recompiles）。正式步之前预热所有形状。"
)
_SINGLE = _TITLE.replace("{calls} calls", "{calls} call")

TEXT = {
    "en": {
        "found": Words(_TITLE, _SHAPES),
        "single": Words(_SINGLE, _SHAPES),
        "once": Words(
            _SINGLE,
            "It happened once here. Run the model a few times before the steps that count, and record after that: "
            "schedule(wait=5, warmup=1, active=5). Keep the caches of compiled code between runs: "
            "TORCHINDUCTOR_CACHE_DIR and TRITON_CACHE_DIR[[npu: , ACL_OP_COMPILER_CACHE_DIR]] on a local disk.",
        ),
    },
    "zh": {
        "found": Words(_TITLE_ZH, _SHAPES_ZH),
        "single": Words(_TITLE_ZH, _SHAPES_ZH),
        "once": Words(
            _TITLE_ZH,
            "本次采集中只编译了一次。请在正式步之前先把模型跑几遍，之后再采集：schedule(wait=5, warmup=1, active=5)。"
            "编译缓存（TORCHINDUCTOR_CACHE_DIR、TRITON_CACHE_DIR[[npu: 、ACL_OP_COMPILER_CACHE_DIR]]）"
            "请放在本地盘，并在多次运行之间保留。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that lose most."""
    spans, seen = run.get(special), everywhere(run, "compile")
    silent = sum(one.end - one.begin for one in run.get(silences))
    if silent >= limits.min_share * run.wall_ns and (seen is None or seen[0].measured_ns < silent):
        raise NotMeasured(*untold(silent))
    if seen is None:
        return
    found, change = seen
    calls = max(_calls(spans[rank]) for rank in found.ranks)
    numbers: dict[str, Value] = {**found.numbers, "calls": calls, "operators": _operators(run, found) or None}
    once = calls == 1 and all(len(run.steps[rank]) != 1 for rank in found.ranks)  # one step tells nothing of others
    if once:
        share = found.measured_ns / run.wall_ns if run.wall_ns else 0.0
        numbers |= {"idle_ns": found.measured_ns, "idle_share": share, "per": ONCE}
    text = "once" if once else "single" if calls == 1 else "found"
    yield Candidate("compile", text, numbers, found.evidence, change, measured_ns=found.measured_ns)


def _calls(spans: Special) -> int:
    """Calls that compile, those within another of their thread left out."""
    mine = spans.of("compile")
    found = 0
    for track in np.unique(spans.tracks[mine]).tolist():
        of = mine & (spans.tracks == track)
        reach = np.maximum.accumulate(spans.ends[of])
        found += 1 + int((spans.starts[of][1:] >= reach[:-1]).sum())
    return found


def _launched_within(run: Run, pieces: Idle, piece: int) -> bool:
    """Whether the task that ends a gap was launched by the runtime call that compiled: CANN has one for both."""
    host, rank = int(pieces.host[piece]), int(pieces.rank[piece])
    rows = run.con.execute(
        "SELECT ts_ns, ts_ns + dur_ns FROM span WHERE span_id = ? AND kind = 'runtime'", [host]
    ).fetchall()
    did = run.get(tasks)[rank]
    at = np.flatnonzero((did.ids == pieces.task[piece]) & did.linked & (did.kinds != COPY))
    return any(begin <= int(did.source_start[at[0]]) <= end for begin, end in rows if len(at))


def _operators(run: Run, found: Blame) -> list[str]:
    """The operators that were compiled, most time first: the framework's, else what ran when they were ready."""
    pieces, spent = run.get(idle), Counter[str]()
    ran = names(run, pieces.task[found.pieces[:_LOOKED_UP]])
    for rank in found.ranks:
        mine = found.pieces[:_LOOKED_UP][pieces.rank[found.pieces[:_LOOKED_UP]] == rank]
        for piece, code in zip(mine, codes(run, rank, moments(run, pieces, mine)), strict=True):
            own = code.op is not None and " -> " not in code.op and not re.search(PATTERNS["compile"], code.op)
            op = code.op if own else ran.get(int(pieces.task[piece]))
            if op and (own or _MADE.search(op) or _launched_within(run, pieces, int(piece))):
                spent[op] += int(pieces.end[piece] - pieces.start[piece])
    return [name for name, _ in spent.most_common(_NAMED)]
