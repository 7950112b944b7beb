"""Operators are compiled or tuned while the job runs.

## What it measures
Gaps of the device while the host compiles. Compiling is `aclopCompileAndExecute` and `opCompile` of CANN,
torch.compile's own marks, and frames of TorchDynamo, Inductor, Triton and TileLang. On CUDA and ROCm it is also the
loading of device code, also where the profiler files that as overhead. Which operators asked for it, and how often.

## Why it costs
An operator that CANN has no ready kernel for is prepared by the host at each new shape. That takes from 0.5 ms up to
seconds, and the device has nothing to do meanwhile.

## What to do
Ascend: `torch.npu.set_compile_mode(jit_compile=False)` (the binary kernels), static shapes or buckets of shapes,
operators with an aclnn form. Keep the compile cache on a local disk. torch.compile: `mark_dynamic` or padded shapes,
see TORCH_LOGS=recompiles. CUDA: warm up before the steps that count.

## Limits of the method
`aclopCompileAndExecute` also launches: calls that find their kernel in the cache are counted, too, they are the slow
way in any case. Compiling in the steps before the capture is not seen.

## References
CANN: aclopCompileAndExecute, aclrtSetCompileopt; torch_npu: set_compile_mode; msprof-analyze's "operator compile" rule.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Value, Words
from npulens.analysis.idle.blame import Blame, everywhere, moments
from npulens.analysis.idle.culprit import codes, names
from npulens.analysis.idle.host_names import PATTERNS, special
from npulens.analysis.idle.pieces import idle
from npulens.analysis.run import Run

NEEDS = ("kernels", "compiling")
_NAMED = 5  # operators that a sentence can hold
_LOOKED_UP = 200  # the longest pieces

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: operators are compiled while the job runs, the device idles {idle_ns} of each step "
            "({idle_share}); {calls} calls[[, for {operators}]]",
            "[[npu: torch.npu.set_compile_mode(jit_compile=False), shapes that repeat, and operators with an aclnn "
            "form. ]]torch.compile: padded or marked-dynamic shapes (TORCH_LOGS=recompiles). "
            "Warm up every shape before the steps that count.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：运行中编译算子，设备每步空闲 {idle_ns}（{idle_share}）；共 {calls} 次调用"
            "[[，涉及 {operators}]]",
            "[[npu: torch.npu.set_compile_mode(jit_compile=False)，固定或分档形状，改用有 aclnn 形式的算子。]]"
            "torch.compile：填充形状或标记动态维（TORCH_LOGS=recompiles）。正式步之前预热所有形状。",
        )
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that lose most."""
    spans, seen = run.get(special), everywhere(run, "compile")
    if seen is None:
        return
    found, change = seen
    calls = max(int(spans[rank].of("compile").sum()) for rank in found.ranks)
    numbers: dict[str, Value] = {**found.numbers, "calls": calls, "operators": _operators(run, found) or None}
    yield Candidate("compile", "found", numbers, found.evidence, change, measured_ns=found.measured_ns)


def _operators(run: Run, found: Blame) -> list[str]:
    """The operators that were compiled, most time first: the framework's, else what ran when they were ready."""
    pieces, spent = run.get(idle), Counter[str]()
    tasks = names(run, pieces.task[found.pieces[:_LOOKED_UP]])
    for rank in found.ranks:
        mine = found.pieces[:_LOOKED_UP][pieces.rank[found.pieces[:_LOOKED_UP]] == rank]
        for piece, code in zip(mine, codes(run, rank, moments(run, pieces, mine)), strict=True):
            own = code.op is not None and " -> " not in code.op and not re.search(PATTERNS["compile"], code.op)
            op = code.op if own else tasks.get(int(pieces.task[piece]))
            if op:
                spent[op] += int(pieces.end[piece] - pieces.start[piece])
    return [name for name, _ in spent.most_common(_NAMED)]
