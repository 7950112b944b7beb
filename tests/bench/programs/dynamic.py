"""A Kineto trace whose shapes hardly repeat, as of a server that takes requests of any length.

    python -m tests.bench.programs.dynamic FILE EVENTS

A worst case for whatever is done once for each kind of kernel: nearly every kernel is a kind of its own. Two host
threads with Python frames and operators launch kernels on one stream, collectives on another and copies on a third.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

OPERATORS = (
    "aten::linear", "aten::addmm", "aten::t", "aten::matmul", "aten::mm", "aten::native_layer_norm", "aten::view",
    "aten::_softmax", "aten::add", "aten::mul", "aten::gelu", "aten::cat", "aten::copy_", "aten::to", "aten::_to_copy",
    "aten::index_select", "aten::sum", "aten::bmm", "AddmmBackward0", "Optimizer.step#AdamW.step",
)  # fmt: skip
KERNELS = (
    "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16> >(int)",
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float)",
    "void (anonymous namespace)::softmax_warp_forward<c10::BFloat16, c10::BFloat16, float, 10, false, false>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t<float> > >(int)",
    "void flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4, false, false> >(Flash_fwd_params)",
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>, float, float>(int, int volatile*)",
)
COLLECTIVE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevComm*, unsigned long, ncclWork*)"
FRAMES = (
    "torch/nn/modules/module.py(1501): _call_impl", "torch/nn/modules/linear.py(113): forward", "serve.py(88): batch",
    "model.py(388): forward", "serve.py(212): step", "<built-in method linear of type object at 0x7f8b6c0d7a20>",
)  # fmt: skip
TYPES = ("c10::BFloat16", "float", "long int")
STREAMS = (7, 20, 24)
STEPS, PROCESS, THREADS = 10, 4200, (4200, 4301)
HEAD = {
    "schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 8}, "displayTimeUnit": "ms",
    "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "totalGlobalMem": 85031714816,
                          "computeMajor": 8, "computeMinor": 0, "numSms": 108}],
    "baseTimeNanoseconds": 1699529622000000000,
}  # fmt: skip


def events(count: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    """So many events, the last launch finished; times in us."""
    now = 5_832_917_384_000.0
    free, number, made, step, began = dict.fromkeys(STREAMS, now), 0, 0, 0, now
    for stream in STREAMS:
        yield {"ph": "M", "name": "thread_name", "pid": 0, "tid": stream, "args": {"name": f"stream {stream}"}}
    while made < count:
        if made >= step * count // STEPS:
            if step:
                yield _span("user_annotation", f"ProfilerStep#{step}", THREADS[0], began, now - began, {})
            step, began = step + 1, now + 1
        number += 1
        for one in _launch(now, number, draw, free):
            made += 1
            yield one
        now += 70 + draw.randrange(20_000) / 1000 + (draw.randrange(500) == 0) * (2000 + draw.randrange(3000))


def _launch(now: float, number: int, draw: random.Random, free: dict[int, float]) -> Iterator[dict[str, Any]]:
    """Frames, the operators in them, the call that launches and what it launches."""
    thread, pick = draw.choice(THREADS), draw.randrange(100)
    stream = STREAMS[0] if pick < 85 else STREAMS[1] if pick < 93 else STREAMS[2]
    for depth in range(1 + draw.randrange(3)):
        yield _span("python_function", draw.choice(FRAMES), thread, now + 0.1 * depth, 60 - 0.5 * depth, {})
    for depth in range(1 + draw.randrange(4)):
        rows, inner = draw.randrange(1, 4096), draw.randrange(1, 8192)
        told = {
            "External id": number, "Input type": [draw.choice(TYPES) for _ in range(3)],
            "Input Dims": [[rows, 768], [inner, draw.randrange(1, 4096)], [768]], "Concrete Inputs": ["", "", ""],
        }  # fmt: skip
        yield _span("cpu_op", draw.choice(OPERATORS), thread, now + 1 + 1.3 * depth, 40 - 4.1 * depth, told)
    called, took = now + 15 + draw.randrange(4000) / 1000, 3 + draw.randrange(5000) / 1000
    copies = stream == STREAMS[2]
    ties = {"External id": number, "correlation": number}
    yield _span("cuda_runtime", "cudaMemcpyAsync" if copies else "cudaLaunchKernel", thread, called, took, ties)
    arrow = {"cat": "ac2g", "name": "ac2g", "id": number}
    yield {"ph": "s", **arrow, "pid": PROCESS, "tid": thread, "ts": round(called, 3)}
    start = max(called + took + draw.randrange(3000) / 1000, free[stream] + 0.9)
    length = 5 + draw.randrange(60_000) / 1000 if stream == STREAMS[0] else 20 + draw.randrange(300_000) / 1000
    free[stream] = start + length
    place = {**ties, "device": 0, "context": 1, "stream": stream}
    if copies:
        told = {**place, "bytes": draw.randrange(1 << 24)}
        yield _span("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", stream, start, length, told, 0)
    else:
        told = {**place, "grid": [draw.randrange(1, 4096), draw.randrange(1, 17), 1],
                "block": [128 * draw.randrange(1, 9), 1, 1]}  # fmt: skip
        name = COLLECTIVE if stream == STREAMS[1] else draw.choice(KERNELS)
        yield _span("kernel", name, stream, start, length, told, 0)
    yield {"ph": "f", "bp": "e", **arrow, "pid": 0, "tid": stream, "ts": round(start, 3)}


def _span(
    cat: str, name: str, tid: int, ts: float, dur: float, args: dict[str, Any], pid: int = PROCESS
) -> dict[str, Any]:
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": round(ts, 3), "dur": round(dur, 3),
            "args": args}  # fmt: skip


def write(out: TextIO, count: int, seed: int = 0) -> None:
    """The file, an event a line."""
    out.write(json.dumps(HEAD)[:-1] + ', "traceEvents": [\n')
    for place, event in enumerate(events(count, random.Random(seed))):
        out.write((",\n" if place else "") + json.dumps(event))
    out.write("\n]}\n")


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w") as file:
        write(file, int(sys.argv[2]))
