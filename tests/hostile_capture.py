"""Kineto captures whose every name tries to be markup: a small one with a split that is easy to work out by hand, and
one with every kind of name in every place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.hostile_names import NAMES

MARKUP = '<script>window.pwned=1</script><img src=x onerror="window.pwned=1">![x](http://evil.invalid/beacon.png)'

#: Step 1 lasts from its mark at 1000 us to the next at 1100 us.
#: kernel 1010-1040, NCCL 1030-1050 (10 us beyond the kernel), copy 1060-1070, nothing for the other 50 us.
STEP_1_NS = {"computing": 30_000, "communication": 10_000, "copy": 10_000, "idle": 50_000}
STEP_1_LENGTH_NS = 100_000


def write(path: Path) -> Path:
    """The capture as torch.profiler would write it."""
    path.write_text(json.dumps({
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": MARKUP}],
        "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 4},
        "host_name": MARKUP,
        "traceEvents": [
            _event("user_annotation", "ProfilerStep#1", 1000, 100, 1, 1),
            _event("cpu_op", MARKUP, 1001, 5, 1, 1, {"External id": 1}),
            _event("user_annotation", "ProfilerStep#2", 1100, 50, 1, 1),
            _event("kernel", MARKUP, 1010, 30, 0, 7, {"stream": 7, "device": 0}),
            _event("kernel", "ncclDevKernel_AllReduce_" + MARKUP, 1030, 20, 0, 8, {"stream": 8, "device": 0}),
            _event("gpu_memcpy", "Memcpy HtoD " + MARKUP, 1060, 10, 0, 7, {"stream": 7, "device": 0, "bytes": 64}),
            _event("kernel", MARKUP, 1110, 20, 0, 7, {"stream": 7, "device": 0}),
        ],
    }), "utf-8")  # fmt: skip
    return path


def write_everywhere(folder: Path, ranks: int = 2) -> Path:
    """A job of some ranks: for every kind of name a stack, an operator, a kernel, a collective, a copy, an allocation
    and a counter that carry it, each as name, as value and as key of an argument, and as whatever a file says of
    itself. One step a kind."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        events: list[dict[str, object]] = []
        for place, text in enumerate(NAMES.values()):
            events += _everything(place, text, rank)
        (folder / f"rank{rank}.pt.trace.json").write_text(json.dumps({
            "schemaVersion": 1,
            "deviceProperties": [{"id": 0, "name": NAMES["plotly"], "x": NAMES["img"]}],
            "distributedInfo": {
                "backend": "nccl", "rank": rank, "world_size": ranks,
                "pg_config": [
                    {"pg_name": text, "pg_desc": text, "backend_config": text, "pg_size": ranks,
                     "ranks": list(range(ranks))}
                    for text in NAMES.values()
                ],
            },
            "host_name": NAMES["img"], "traceName": NAMES["script"], "nccl_version": NAMES["markdown_image"],
            "record_shapes": 1, "with_stack": 1, "with_modules": 1, "profile_memory": 1,
            **{text: text for text in NAMES.values()},
            "traceEvents": events,
        }), "utf-8")  # fmt: skip
    return folder


def _everything(place: int, text: str, rank: int) -> list[dict[str, object]]:
    """What one kind of name does in its step of 1000 us."""
    at, first = 1000 + 1000 * place, 4 * place + 1
    shapes = {"Input Dims": [[4, place + 1], text], "Input type": [text, text], "Concrete Inputs": [text]}
    group = {"Process Group Name": text, "Process Group Description": text, "Collective name": f"allreduce{text}",
             "dtype": text, "Group size": 2, "In msg nelems": 64, "Out msg nelems": 64}  # fmt: skip
    device: dict[str, object] = {"stream": 7, "device": 0, text: text}
    beside: dict[str, object] = {**device, "stream": 8}
    python: dict[str, object] = {"Python id": 2 * place, "Python parent id": None, text: text}
    return [
        _event("user_annotation", f"ProfilerStep#{place}", at, 1000, 1, 1),
        _event("user_annotation", text, at + 1, 900, 1, 1),
        _event("python_function", f"{text}.py(7): {text}", at + 2, 800, 1, 1, python),
        _event("python_function", f"nn.Module: {text}_0", at + 3, 700, 1, 1,
               {"Python id": 2 * place + 1, "Python parent id": 2 * place, "Python module id": place}),
        _event("cpu_op", text, at + 10, 300, 1, 1, {"External id": first, **shapes, text: text, "Call stack": text}),
        *(_event("cuda_runtime", call, at + 20 + 100 * n, 20, 1, 1, {"External id": first, "correlation": first + n,
                 text: text}) for n, call in enumerate(("cudaLaunchKernel", "cudaLaunchKernelExC", "cudaMemcpyAsync"))),
        _event("kernel", text, at + 60, 200, 0, 7, {**device, "correlation": first, "External id": first}),
        _event("kernel", f"ncclDevKernel_AllReduce_{text}", at + 200 + 40 * rank, 200, 0, 8,
               {**beside, **group, "correlation": first + 1}),
        _event("gpu_memcpy", f"Memcpy HtoD {text}", at + 300, 50, 0, 7,
               {**device, "bytes": 64 << (place % 20), "correlation": first + 2, "memory bandwidth (GB/s)": text}),
        _event("gpu_user_annotation", text, at + 60, 200, 0, 7, {}),
        _event("made up by " + text, text, at + 500, 5, 1, 1, {text: [text, {text: text}]}),
        {"ph": "C", "name": text, "pid": 0, "tid": 7, "ts": at + 60, "args": {text: place, "x": text}},
        {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": at + 12,
         "args": {"Total Reserved": 10**9, "Total Allocated": 10**8, "Bytes": 2048, "Addr": place, "Device Id": 0,
                  "Device Type": 1, text: text}},
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 100 + place, "args": {"name": text}},
        _event("cpu_op", text, at + 30, 30, 1, 100 + place),
        {"ph": "M", "name": "process_name", "pid": 0 if place % 2 else 1, "tid": 0, "args": {"name": text}},
        {"ph": "M", "name": "process_labels", "pid": 0 if place % 2 else 1, "tid": 0, "args": {"labels": text}},
    ]  # fmt: skip


def _event(
    cat: str, name: str, ts: int, dur: int, pid: int, tid: int, args: dict[str, Any] | None = None
) -> dict[str, object]:
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": pid, "tid": tid, "args": args or {}}
