"""Matrix work runs in full precision where the device has a faster one.

## What it measures

Matrix products and convolutions in fp32 that use none of the faster units. On CUDA and ROCm their kernels' names say so
(sgemm, scudnn, simt, SB of Tensile). On Ascend they are matrix operators with FLOAT inputs that are not marked as HF32.
The names of other devices' kernels are not known. There the operators that launched them count, by their inputs. How
much faster a lower precision is comes from analysis/device/device_facts.toml. It is TF32 on CUDA where that is faster
than fp32, else bf16, else fp16. Where shapes and both roofs of a product are known, its time falls as its roof
does. What memory bounds gains only from half the bytes. On Ascend, where they give no peak for fp32, it is twice: half
the passes, and in bf16 half the bytes. Of a job on a CPU: operators with inputs in float64, which would take half as
long in float32.

## Why it costs

Tensor cores and cubes multiply TF32, HF32, bf16 and fp16 2 to 16 times as fast as fp32. Values of 16 bits need half the
memory traffic.

## What to do

CUDA: `torch.set_float32_matmul_precision("high")` and `torch.backends.cudnn.allow_tf32 = True`, or bf16 by
`torch.autocast`. On many GeForce cards TF32 is no faster than fp32, and only bf16 helps. Devices before Ampere have
neither: fp16 by `torch.autocast`, with `torch.amp.GradScaler`. Ascend: `torch.npu.matmul.allow_hf32 = True`,
`torch.npu.conv.allow_hf32 = True`, or bf16 by `torch.autocast("npu", dtype=torch.bfloat16)`. Compare accuracy before
and after.

## Limits of the method

A ceiling. The kernel is taken to reach the same share of its new roof. Without shapes, or where a roof is not known, it
is the same share of the higher peak. Then it takes no less time than its tensors need at the memory's bandwidth, where
both are known. Fused attention in fp32 is not counted. Devices of which no faster
precision is known are not judged. On Ascend, operators or inputs without a recorded type may be matrix work in fp32.
Where they take too much of the time, nothing is said. On other devices that holds for kernels of one's own that
multiply by their names and do not name a precision.

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
from npulens.analysis.capability import setting
from npulens.analysis.device.abilities import CUBE, UNNAMED, Device, device, named_by, title
from npulens.analysis.device.family import family
from npulens.analysis.device.kernels import Kernels, kernels
from npulens.analysis.device.kinds import TYPED, Bools, Kind, shortened
from npulens.analysis.device.tail import without_tail
from npulens.analysis.device.tensors import largest
from npulens.analysis.finding import Candidate, Change, Evidence, NotMeasured, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.idle.origin import origins
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import COVERED, limit
from npulens.analysis.run import Run
from npulens.analysis.say import number
from npulens.analysis.steady import of_run, steady_ns
from npulens.analysis.work.judged import enough, most_of_a_rank, some
from npulens.analysis.work.operators import Operator, operators
from npulens.ingest.messages import Message

NEEDS = ("kernels",)

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: {count} matrix kernels of each step run in full precision (fp32)"
            "[[cuda|rocm:  without tensor cores]], {kernel_ns} of each step ({kernel_share}). Most on {type}",
            "[[cuda: Allow TF32: torch.set_float32_matmul_precision('high'), torch.backends.cudnn.allow_tf32 = True; "
            "or bf16 by torch.autocast('cuda', dtype=torch.bfloat16).]]"
            "[[npu: Allow HF32: torch.npu.matmul.allow_hf32 = True, "
            "torch.npu.conv.allow_hf32 = True; or bf16 by torch.autocast('npu', dtype=torch.bfloat16).]] On this "
            "device {faster} is {times} times as fast as fp32. Compare accuracy. Launched by {origin}.",
        ),
        "bf16": Words(
            "Rank {ranks}: {count} matrix kernels of each step run in full precision (fp32)"
            "[[cuda|rocm:  without tensor cores]], {kernel_ns} of each step ({kernel_share}). Most on {type}",
            "Use bf16[[cuda|rocm: : torch.autocast('cuda', dtype=torch.bfloat16)]]. On this device bf16 is {times} "
            "times as fast as fp32[[cuda: [[; TF32 is only {tf32_times} times as fast]]]]. Compare accuracy. "
            "Launched by {origin}.",
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
            "或用 torch.autocast('cuda', dtype=torch.bfloat16) 转为 bf16。]]"
            "[[npu: 启用 HF32：torch.npu.matmul.allow_hf32 = True、torch.npu.conv.allow_hf32 = True；"
            "或用 torch.autocast('npu', dtype=torch.bfloat16) 转为 bf16。]]"
            "在该设备上 {faster} 的速度是 fp32 的 {times} 倍。请对比精度。由 {origin_zh} 下发。",
        ),
        "bf16": Words(
            "rank {ranks}：每步有 {count} 个矩阵算子使用全精度（fp32）[[cuda|rocm:，没有用到 tensor core]]，"
            "每步 {kernel_ns}（{kernel_share}）；主要是 {type}",
            "改用 bf16[[cuda|rocm: ：torch.autocast('cuda', dtype=torch.bfloat16)]]。在该设备上 bf16 的速度是 fp32 的 "
            "{times} 倍[[cuda: [[，TF32 只有 {tf32_times} 倍]]]]。请对比精度。由 {origin_zh} 下发。",
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
    r"xmma_\w*_f32f32_f32f32_f32_(?!\w*tf32)|(?:implicit|explicit|precomputed)_convolve_sgemm(?:<float|If)|"
    r"(?:^|\s|::|\d)(?:dgrad|wgrad)\w*_engine(?:<float|If)|^Cijk_[A-Z][a-z]+_[A-Z][a-z]+_SB?_"
)
#: Names of kernels that multiply, of CUDA and ROCm, and words in them that tell in which precision.
_MULTIPLIES = re.compile(r"matmul|gemm|(?:^|_)b?mm(?:_|\d|$)|^triton_tem_", re.I)
_TELLS = re.compile(
    r"fp?16|fp?8|[bt]f(?:16|32)|half|bfloat|f64|double|e[45]m[23]|fp4|int[48]|[iuws][48](?![\d.])|[hs]\d{3,5}gemm|"
    r"(?<![a-z])[hdzci]+gemm|s1688|s16816|h1688|h16816|[hs]884|imma|tensorop|cijk|nvjet",
    re.I,
)
#: Operator types of Ascend that run on the cube.
_CUBE = re.compile(r"matmul|^conv[23]d|^gemm|batchmatmul|depthwiseconv", re.I)
#: The end of an aclnn kernel's name that is an operator type.
_LAST = re.compile(r"[^_]*$")
#: A type, or a core, that is none.
_NONE = (None, "", "N/A")
#: Cores without a cube.
_NO_CUBE = ("AI_VECTOR_CORE", "KERNEL_AIVEC", "VECTOR_CORE")
#: Precisions that have sentences of their own.
_SAYS = {"fp16": "half", "bf16": "bf16"}
#: Devices whose kernels say by their names or types in which precision they multiply.
_TELLING = ("npu", "cuda", "rocm")
#: Families of operators that run on matrix units, without fused attention.
_MATRIX = ("matmul", "convolution")
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
    some(every.of(~every.kinds.memset))
    if family(run) == "cpu":
        if not any(every.kinds.column("input_dtypes").values):
            raise NotMeasured("types of operators were not recorded", "未采集算子的数据类型", "record_shapes=True")
        mine = np.flatnonzero(_double(every))
        for ranks, rows in by_rank(every.rank[mine], every.dur[mine]):
            yield _candidate(run, every, ranks, mine[rows], None, _Faster("fp32", HALF, 0.5), "double")
        return
    mine = np.flatnonzero(_full(run, every) & ~np.isin(every.span_id, _hf32(run)))
    least = limits.min_share * run.get(steady_ns)
    if run.get(family) == "npu" and most_of_a_rank(every.rank[mine], every.dur[mine]) < least:
        _told(run, every, mine, limits.min_share)
    for ranks, rows in by_rank(every.rank[mine], every.dur[mine]):
        here = device(run, ranks[0])
        faster = _faster(here, family(run), limits.times)
        if faster is not None:
            text = _SAYS.get(faster.name, "found")
            yield _candidate(run, every, ranks, mine[rows], here, faster, text)
        elif int(every.dur[mine[rows]].sum()) >= least * len(ranks):
            name = title(run, ranks[0])
            chinese = "未知设备" if name == UNNAMED else name
            raise NotMeasured(
                f"fp32 matrix kernels run; no faster precision of {name} is known",
                f"有 fp32 矩阵算子在运行，但不知道 {chinese} 有没有更快的精度",
                named_by(run) or "flops of the device in analysis/device/device_facts.toml",
            )
    if run.get(family) in ("cuda", "rocm") and most_of_a_rank(every.rank[mine], every.dur[mine]) < least:
        _named(run, every, mine, limits.min_share)
    if run.get(family) not in _TELLING:
        told = every.of(~every.kinds.memset) & ~_untold(run)
        what = ("kernels whose precision is told", "能得知精度的算子")
        enough(run, every.of(~every.kinds.memset), told, limits.min_share, what)


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


def _full(run: Run, every: Kernels) -> Bools:
    named = every.of(every.kinds.each(full, "memset", "core", *TYPED, "input_dtypes").flags())
    if run.get(family) in _TELLING:
        return named
    done = run.get(operators)
    own = done.every.columns
    matrix = own.work.each(lambda one: one.family in _MATRIX).flags()
    fp32 = own.precision.map(lambda one: one == "fp32").flags()
    return named | ((matrix & fp32)[done.of] & every.of(~every.kinds.memset))


def _told(run: Run, every: Kernels, mine: Ints, min_share: float) -> None:
    """Raises where the precision of too many kernels of an NPU is not known: any of them may multiply in fp32."""
    kinds = every.kinds
    about = every.of(~kinds.memset & ~kinds.each(lambda kind: kind.on_aicpu, "core").flags())
    typed = kinds.each(_typed, "core", "op_type", "op", "input_dtypes").flags()
    left = about & ~every.of(kinds.each(judged, "core", *TYPED, "input_dtypes").flags()) & _may_multiply(run)
    left &= ~_cube_rests(run)
    left[mine] = False
    if not every.of(typed)[about].any():
        left = about
    known = 1 - int(every.dur[left].sum()) / max(1, int(every.dur[about].sum()))
    if known < COVERED and most_of_a_rank(every.rank[left], every.dur[left]) >= min_share * run.get(steady_ns):
        said_ = number("_share", known)
        raise NotMeasured(
            f"kernels whose type and inputs were recorded have only {said_} of the time: any other may multiply in "
            "fp32",
            f"记录了算子类型和输入数据类型的 kernel 只占 {said_} 的时间，其余的都可能是 fp32 矩阵算子",
            setting(run, "kernel_shapes"),
        )


def _named(run: Run, every: Kernels, mine: Ints, min_share: float) -> None:
    """Raises where kernels that multiply by their names have too much of the time and nothing tells in what."""
    typed = run.get(operators).every.columns.precision.map(lambda one: one is not None).flags()
    left = every.of(every.kinds.each(silent, "name", "memset").flags()) & ~typed[run.get(operators).of]
    left[mine] = False
    whole, lost = int(every.dur.sum()), int(every.dur[left].sum())
    if lost <= (1 - COVERED) * whole:
        return
    if most_of_a_rank(every.rank[left], every.dur[left]) < min_share * run.get(steady_ns):
        return
    first = shortened(every.kinds[int(every.kind[left][int(np.argmax(every.dur[left]))])].name)
    share = number("_share", lost / whole)
    raise NotMeasured(
        f"in which precision kernels with {share} of the time multiply, such as {first}: their names do not tell",
        f"占 {share} 时间的矩阵算子（如 {first}）无法从名称得知其精度", Message("kernel_named"),
    )  # fmt: skip


def silent(kind: Kind) -> bool:
    """Whether a kernel multiplies by its name, and the name does not tell in which precision."""
    name = kind.name.split("(")[0]
    return not kind.memset and _MULTIPLIES.search(name.split("<")[0]) is not None and _TELLS.search(name) is None


def _typed(kind: Kind) -> bool:
    return kind.op is not None or kind.core in _NO_CUBE or not {kind.op_type, kind.input_dtypes}.issubset(_NONE)


def judged(kind: Kind) -> bool:
    """Whether what was recorded of a kernel of an NPU says that it does not multiply, or in which precision."""
    name = kind.op_type if kind.op_type not in _NONE else None
    if kind.core in _NO_CUBE:
        return True
    if name is None:
        last = _LAST.search(kind.name)
        return kind.op is None and kind.name.startswith("aclnn") and not _matrix(last[0] if last else "")
    if kind.core in CUBE and kind.input_dtypes in _NONE and kind.name == name:
        return False  # a kernel of one's own, called by its own name, on a core that can multiply
    return not _matrix(name) or (kind.core not in _NONE and (kind.input_dtypes or "").split(";")[0] not in _NONE)


def _matrix(name: str) -> bool:
    return _CUBE.search(name) is not None


def _cube_rests(run: Run) -> Bools:
    """Kernels whose counters say that the cube did nothing: they tell of the scalar unit, and of no cube."""
    done = run.get(operators)
    rests = np.zeros(len(done.every), np.bool_)
    for at, pipes in done.every.columns.pipes.items():
        rests[at] = any(one.endswith("scalar") for one in pipes) and not any(
            one.endswith(("mac", "cube")) for one in pipes
        )
    return rests[done.of]


def _may_multiply(run: Run) -> Bools:
    """Kernels that the operator that launched them does not tell to be anything but a matrix product."""
    done = run.get(operators)
    other = done.every.columns.work.each(lambda one: one.family not in ("unknown", *_MATRIX)).flags()
    launched = run.get(kernels).kinds.there("op")
    return ~(other[done.of] & run.get(kernels).of(launched))


def _untold(run: Run) -> Bools:
    """Kernels that nothing says the precision of: what they compute, or the types of their inputs, is not known."""
    done = run.get(operators)
    own = done.every.columns
    unknown = own.work.each(lambda one: one.family == "unknown" or one.family in _MATRIX and one.dtype is None)
    return unknown.flags()[done.of]


def _double(every: Kernels) -> Bools:
    return every.of(every.kinds.each(double, "input_shapes", "input_dtypes").flags())


def claimed(run: Run) -> Bools:
    """Kernels that multiply in fp32 on a device that is known to have a faster precision, or on a CPU in float64."""
    every = run.get(kernels)
    if run.get(family) == "cpu":
        return _double(every)
    known = [rank for rank in run.ranks if _faster(device(run, rank), run.get(family), Limits.times) is not None]
    mine = _full(run, every) & np.isin(every.rank, known)
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
    tf32 = (("tf32", 1.0),) if of != "rocm" else ()  # on ROCm it is behind HIPBLASLT_ALLOW_TF32
    for name, share in (*tf32, ("bf16", 0.5), ("fp16", 0.5)):
        if peak.get(name, 0.0) >= least * peak.get("fp32", float("inf")):
            return _Faster("TF32" if name == "tf32" else name, peak[name] / peak["fp32"], share, (name,))
    return None


def _times(here: Device | None, name: str) -> float | None:
    """How many times as fast as fp32 a precision is; None where it is no faster, or not known."""
    peak = dict(here.flops) if here else {}
    times = round(peak[name] / peak["fp32"], 1) if name in peak and "fp32" in peak else 0.0
    return times if times > 1 else None


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
    spent, done = run.get(without_tail)[rows], run.get(operators)
    met, which = np.unique(done.of[rows], return_inverse=True)
    share = np.array([_of_roof(done.every[one], faster) or np.nan for one in met])[which.ravel()]
    left = np.where(np.isfinite(share), spent * share, np.maximum(spent / faster.times, roof))
    left = np.maximum(left, LEAST_NS).astype(np.int64)
    cut = np.maximum(spent - left, 0)
    order = rows[np.argsort(-spent, kind="stable")]
    names, of_row = np.unique(np.array(every.kinds.types.values, np.str_), return_inverse=True)
    type_of = of_row.ravel()[every.kinds.types.code]
    most = int(np.argmax(np.bincount(type_of[every.kind[rows]], spent)))  # one operator launches kernels of many names
    mine = type_of[every.kind[order]] == most
    first = np.concatenate((order[mine], order[~mine]))[:20]
    ns, per = every.dur[rows], run.step_count * len(ranks)
    worst = max(int(ns[every.rank[rows] == rank].sum()) for rank in ranks)
    return Candidate(
        "full_precision", text,
        {
            "ranks": said(ranks), "count": -(-len(rows) // per), "kernel_ns": int(ns.sum()) // per,
            "kernel_share": of_run(run, worst), "type": str(names[most]), "faster": faster.name,
            "times": round(faster.times, 1), "tf32_times": _times(here, "tf32"),
            **origins(run, int(every.span_id[first[0]])),
        },
        tuple(Evidence(int(every.rank[row]), int(every.ts[row]), int(every.dur[row]), int(every.span_id[row]),
                       every.kinds[every.kind[row]].name) for row in first),
        Change(tasks=every.span_id[rows], task_ns=cut), "medium", measured_ns=most_of_a_rank(every.rank[rows], cut),
    )  # fmt: skip
