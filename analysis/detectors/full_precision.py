"""Matrix work runs in full precision where the device has a faster one.

## What it measures

Matrix products and convolutions in fp32 that use none of the faster units. On CUDA and ROCm their kernels' names say so
(sgemm, scudnn, simt, SB of Tensile). On Ascend they are matrix operators with FLOAT inputs that are not marked as HF32.
How much faster the device's lower precisions are comes from analysis/device/device_facts.toml: TF32 where it is faster
than fp32, else bf16, else fp16. Where shapes and both roofs of a product are known, its time falls as its roof does.
What memory bounds gains only from half the bytes. On Ascend, where they give no peak for fp32, it is twice: half the
passes, and in bf16 half the bytes. Of a job on a CPU: operators with inputs in float64, which would take half as long
in float32.

## Why it costs

Tensor cores and cubes multiply TF32, HF32, bf16 and fp16 2 to 16 times as fast as fp32. Values of 16 bits need half the
memory traffic.

## What to do

CUDA: `torch.set_float32_matmul_precision("high")` and `torch.backends.cudnn.allow_tf32 = True`, or bf16 by
`torch.autocast`. Devices before Ampere have neither: fp16 by `torch.autocast`, with `torch.amp.GradScaler`. Ascend:
`torch.npu.matmul.allow_hf32 = True`, `torch.npu.conv.allow_hf32 = True`, or bf16 by
`torch.autocast("npu", dtype=torch.bfloat16)`. Compare accuracy before and after.

## Limits of the method

A ceiling. The kernel is taken to reach the same share of its new roof. Without shapes, or where a roof is not known, it
is the same share of the higher peak. Then it takes no less time than its tensors need at the memory's bandwidth, where
both are known. Fused attention in fp32 is not counted. Devices of which no faster
precision is known are not judged.

## References

PyTorch: "TensorFloat-32 on Ampere (and later) devices"; torch_npu: torch.npu.matmul.allow_hf32.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.abilities import UNNAMED, Device, device, title
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import Kernels, kernels
from npulens.analysis.device.kinds import TYPED, Bools, Kind
from npulens.analysis.device.tensors import largest
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import limit
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run, steady_ns
from npulens.analysis.work.operators import Operator, operators

NEEDS = ("kernels",)

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {count} matrix kernels of each step run in full precision (fp32)"
            "[[cuda|rocm:  without tensor cores]], {kernel_ns} of each step ({kernel_share}). Most on {type}",
            "[[cuda: Allow TF32: torch.set_float32_matmul_precision('high'), torch.backends.cudnn.allow_tf32 = True; "
            "or bf16 by torch.autocast('cuda', dtype=torch.bfloat16).]][[rocm: Use bf16: "
            "torch.autocast('cuda', dtype=torch.bfloat16).]][[npu: Allow HF32: torch.npu.matmul.allow_hf32 = True, "
            "torch.npu.conv.allow_hf32 = True; or bf16 by torch.autocast('npu', dtype=torch.bfloat16).]] On this "
            "device {faster} is {times} times as fast as fp32. Compare accuracy. Launched by {origin}.",
        ),
        "half": Words(
            "Rank {ranks}: {count} matrix kernels of each step run in full precision (fp32)"
            "[[cuda|rocm:  without tensor cores]], {kernel_ns} of each step ({kernel_share}). Most on {type}",
            "Use fp16[[cuda|rocm: : torch.autocast('cuda', dtype=torch.float16)]], in training with "
            "torch.amp.GradScaler. No other faster precision of this device is known; fp16 is {times} times as fast as "
            "fp32. Compare accuracy. Launched by {origin}.",
        ),
        "double": Words(
            "Rank {ranks}: {count} operators of each step compute in float64, {kernel_ns} of each step "
            "({kernel_share}). Most on {type}",
            "Make models and inputs float32: what comes from NumPy or Python is float64 until it is converted. A CPU "
            "computes and moves twice as many float32 as float64. Compare accuracy. Launched by {origin}.",
        ),
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步有 {count} 个矩阵算子使用全精度（fp32）[[cuda|rocm:，没有用到 tensor core]]，"
            "每步 {kernel_ns}（{kernel_share}）；主要是 {type}",
            "[[cuda: 启用 TF32：torch.set_float32_matmul_precision('high')、torch.backends.cudnn.allow_tf32 = True；"
            "或用 torch.autocast('cuda', dtype=torch.bfloat16) 转为 bf16。]][[rocm: 改用 bf16："
            "torch.autocast('cuda', dtype=torch.bfloat16)。]][[npu: 启用 HF32：torch.npu.matmul.allow_hf32 = True、"
            "torch.npu.conv.allow_hf32 = True；或用 torch.autocast('npu', dtype=torch.bfloat16) 转为 bf16。]]"
            "在该设备上 {faster} 的速度是 fp32 的 {times} 倍。请对比精度。由 {origin_zh} 下发。",
        ),
        "half": Words(
            "rank {ranks}：每步有 {count} 个矩阵算子使用全精度（fp32）[[cuda|rocm:，没有用到 tensor core]]，"
            "每步 {kernel_ns}（{kernel_share}）；主要是 {type}",
            "改用 fp16[[cuda|rocm: ：torch.autocast('cuda', dtype=torch.float16)]]，训练时配合 torch.amp.GradScaler。"
            "该设备没有其他已知的更快精度；fp16 的速度是 fp32 的 {times} 倍。请对比精度。由 {origin_zh} 下发。",
        ),
        "double": Words(
            "rank {ranks}：每步有 {count} 个算子以 float64 计算，每步 {kernel_ns}（{kernel_share}）；主要是 {type}",
            "模型与输入使用 float32：来自 NumPy 或 Python 的数据默认是 float64，需要转换。CPU 处理和搬运 float32 "
            "的速度是 float64 的两倍。请对比精度。由 {origin_zh} 下发。",
        ),
    },
}

#: Names of kernels that multiply in fp32 on ordinary cores.
_NAMED = re.compile(
    r"(?:^|_)(?:volta|turing|ampere|maxwell|pascal|hopper|blackwell|cudnn)\w*_(?:sgemm|scudnn)_|simt_sgemm|"
    r"xmma_\w*_f32f32_f32f32_f32_(?!\w*tf32)|implicit_convolve_sgemm<float|"
    r"cudnn::\w+::(?:dgrad|wgrad)\w*_engine<float|^Cijk_[A-Z][a-z]+_[A-Z][a-z]+_SB?_"
)
#: Operator types of Ascend that run on the cube.
_CUBE = re.compile(r"matmul|^conv[23]d|^gemm|batchmatmul|depthwiseconv", re.I)
#: On Ascend: half the passes of fp32. On a CPU: float32 against float64, twice as many in a register and from memory.
HALF = 2.0
#: A kernel takes this long whatever it multiplies.
LEAST_NS = 2_000


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """How much faster another precision must be."""

    times: float = limit(1.3, "times as fast as fp32", "below this the conversion costs what the faster units save")


@dataclass(frozen=True)
class _Faster:
    name: str
    times: float
    bytes_share: float  # of what fp32 moves
    peaks: tuple[str, ...] = ()  # as the tables of peaks call it, the first that is known


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every = run.get(kernels)
    if family(run) == "cpu":
        if len(every) and not any(every.kinds.column("input_dtypes").values):
            raise NotMeasured("types of operators were not recorded", "未采集算子的数据类型", "record_shapes=True")
        mine = np.flatnonzero(_double(every))
        for ranks, rows in by_rank(every.rank[mine], every.dur[mine]):
            yield _candidate(run, every, ranks, mine[rows], None, _Faster("fp32", HALF, 0.5), "double")
        return
    mine = np.flatnonzero(_full(every) & ~np.isin(every.span_id, _hf32(run)))
    least = limits.min_share * run.get(steady_ns)
    for ranks, rows in by_rank(every.rank[mine], every.dur[mine]):
        here = device(run, ranks[0])
        faster = _faster(here, family(run), limits.times)
        if faster is not None:
            text = "half" if faster.peaks == ("fp16",) else "found"
            yield _candidate(run, every, ranks, mine[rows], here, faster, text)
        elif int(every.dur[mine[rows]].sum()) >= least * len(ranks):
            name = title(run, ranks[0])
            chinese = "未知设备" if name == UNNAMED else name
            raise NotMeasured(
                f"fp32 matrix kernels run; no faster precision of {name} is known",
                f"有 fp32 矩阵算子在运行，但不知道 {chinese} 有没有更快的精度",
                "flops of the device in analysis/device/device_facts.toml",
            )


def full(kind: Kind) -> bool:
    """Whether a kernel multiplies in fp32, as far as its name or its type and inputs say."""
    if kind.memset:
        return False
    if kind.op is None and kind.core is not None:
        types = (kind.input_dtypes or "").strip('"').split(";")
        return _CUBE.search(kind.op_type or "") is not None and types[0] == "FLOAT" and not kind.on_aicpu
    return _says_so(kind.name)


@lru_cache(maxsize=65536)
def _says_so(name: str) -> bool:
    return _NAMED.search(name) is not None


def double(kind: Kind) -> bool:
    """Whether the largest of its inputs is of float64; a number beside tensors of float32 often is."""
    return largest(kind.input_shapes, kind.input_dtypes) in ("DOUBLE", "FLOAT64")


def _full(every: Kernels) -> Bools:
    return every.of(every.kinds.each(full, "memset", "core", *TYPED, "input_dtypes").flags())


def _double(every: Kernels) -> Bools:
    return every.of(every.kinds.each(double, "input_shapes", "input_dtypes").flags())


def claimed(run: Run) -> Bools:
    """Kernels that multiply in fp32 on a device that is known to have a faster precision, or on a CPU in float64."""
    every = run.get(kernels)
    if run.get(family) == "cpu":
        return _double(every)
    known = [rank for rank in run.ranks if _faster(device(run, rank), run.get(family), Limits.times) is not None]
    mine = _full(every) & np.isin(every.rank, known)
    return mine & ~np.isin(every.span_id, _hf32(run))


def _hf32(run: Run) -> Ints:
    """Kernels that the profiler marks as HF32."""
    found: Ints = run.columns("SELECT span_id FROM kernel WHERE hf32 = 'YES'")["span_id"].astype(np.int64)
    return found


def _faster(here: Device | None, of: str, least: float) -> _Faster | None:
    """The first of the device's faster precisions that keeps most digits."""
    peak = dict(here.flops) if here else {}
    if of == "npu":
        known = here is None or "fp16" in peak or not peak
        return _Faster("HF32 or bf16", HALF, 0.5, ("bf16", "fp16")) if known else None
    for name, share in (("tf32", 1.0), ("bf16", 0.5), ("fp16", 0.5)):
        if peak.get(name, 0.0) >= least * peak.get("fp32", float("inf")):
            return _Faster("TF32" if name == "tf32" else name, peak[name] / peak["fp32"], share, (name,))
    return None


def _of_roof(one: Operator, faster: _Faster) -> float | None:
    """The roof in the faster precision, as a share of that in fp32; None where one of them is not known."""
    if one.roofs is None or one.least is None or not one.complete or one.share is None or not one.work.matrix:
        return None
    peak = next((name for name in faster.peaks if name in one.roofs.matrix), None)
    least = one.roofs.least_ns(replace(one.work, bytes=round((one.work.bytes or 0) * faster.bytes_share)), peak)
    if peak is None or not least.complete or least.ns is None or one.least.ns is None:
        return None
    return min(1.0, least.ns / one.least.ns)


def _candidate(
    run: Run, every: Kernels, ranks: tuple[int, ...], rows: Ints, here: Device | None, faster: _Faster,
    text: str = "found",
) -> Candidate:  # fmt: skip
    bandwidth = here.memory_bytes_per_s if here else None
    moved = np.maximum(every.kinds.bytes, 0)[every.kind[rows]]
    roof = moved * faster.bytes_share * 1e9 / bandwidth if bandwidth else np.zeros(len(rows))
    spent, done = every.dur[rows], run.get(operators)
    met, which = np.unique(done.of[rows], return_inverse=True)
    share = np.array([_of_roof(done.every[one], faster) or np.nan for one in met])[which.ravel()]
    left = np.where(np.isfinite(share), spent * share, np.maximum(spent / faster.times, roof))
    left = np.maximum(left, LEAST_NS).astype(np.int64)
    cut = np.maximum(spent - left, 0)
    order = rows[np.argsort(-spent, kind="stable")]
    per_kind = np.bincount(every.kind[rows], spent)
    most = every.kinds[int(np.argmax(per_kind))]
    biggest = order[every.kind[order] == np.argmax(per_kind)]
    first = np.concatenate((biggest, order[every.kind[order] != np.argmax(per_kind)]))[:20]
    per, worst = run.step_count * len(ranks), max(int(spent[every.rank[rows] == rank].sum()) for rank in ranks)
    return Candidate(
        "full_precision", text,
        {
            "ranks": said(ranks), "count": -(-len(rows) // per), "kernel_ns": int(spent.sum()) // per,
            "kernel_share": of_run(run, worst), "type": most.type, "faster": faster.name,
            "times": round(faster.times, 1),
            **origins(run, int(every.span_id[first[0]])),
        },
        tuple(Evidence(int(every.rank[row]), int(every.ts[row]), int(every.dur[row]), int(every.span_id[row]),
                       every.kinds[every.kind[row]].name) for row in first),
        Change(tasks=every.span_id[rows], task_ns=cut), "medium", measured_ns=worst,
    )  # fmt: skip
