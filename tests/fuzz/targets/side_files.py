"""The JSON files beside a trace: an input is the file's name on the first line, then the file."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from tests.fuzz import change
from tests.fuzz.reading import read
from tests.fuzz.targets.trace_view import events
from tests.text_export import GROUP, GROUP_HASH, KERNEL, L1, ROOT, at, write

NAMES = (
    "profiler_info_2.json", "profiler_info.json", "profiler_metadata.json", "communication.json",
    "communication_matrix.json",
)  # fmt: skip
_TRACE = json.dumps(events())
_SPANS = sum(event.get("ph") in ("X", "i") for event in events())
_INFO = {
    "config": {"common_config": {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"], "with_stack": True,
               "record_shapes": True, "profile_memory": True, "with_modules": False, "with_flops": False,
               "schedule": {"wait": 0, "warmup": 0, "active": 1, "repeat": 1, "skip_first": 0}},
               "experimental_config": {"_profiler_level": "Level1", "_aic_metrics": "PipeUtilization",
               "_l2_cache": False, "_msprof_tx": False, "_data_simplification": True, "_export_type": ["text"]}},
    "start_info": {"syscnt": 1, "freq": 100, "start_realtime": 1736408883000000000, "start_monotonic": 77},
    "end_info": {"collectionTimeEnd": 1736408884000000000, "MonotonicTimeEnd": 1000000077},
    "torch_npu_version": "2.1.0", "cann_version": "8.0.RC1", "rank_id": 2,
}  # fmt: skip
_META = {
    "parallel_group_info": {GROUP: {"group_name": "pp", "group_rank": 0, "global_ranks": [2, 6]}},
    "distributed_args": {"world_size": 8, "tensor_model_parallel_size": 4},
    "ENV_VARIABLES": {"ASCEND_GLOBAL_LOG_LEVEL": "", "HCCL_CONNECT_TIMEOUT": "3600"},
}
_OP = {
    "Communication Time Info": {"Start Timestamp(us)": float(at(6000)), "Elapse Time(ms)": 0.9, "Transit Time(ms)": 0.5,
                                "Wait Time(ms)": 0.4, "Synchronization Time(ms)": 0.1, "Idle Time(ms)": 0},
    "Communication Bandwidth Info": {"SDMA": {"Transit Size(MB)": 1.5, "Transit Time(ms)": 0.5, "Bandwidth(GB/s)": 3.0,
                                     "Large Packet Ratio": 1, "Size Distribution": {"0.5": [3, 0.5]}}},
}  # fmt: skip
_COMM = {"step3": {"p2p": {f"hcom_send__210_1_1@{GROUP_HASH}": _OP},
                   "collective": {f"hcom_allReduce__210_0_1@{GROUP_HASH}": _OP, "Total Op Info": _OP}}}  # fmt: skip
_LINK = {"Transport Type": "HCCS", "Transit Time(ms)": 0.5, "Transit Size(MB)": 1.5, "Bandwidth(GB/s)": 3.0,
         "Op Name": f"hcom_allReduce__210_0_1@{GROUP_HASH}"}  # fmt: skip
_MATRIX = {"step3": {"p2p": {}, "collective": {f"allreduce-top1@{GROUP_HASH}": {"0-1": _LINK, "1-0": _LINK}}}}


def seeds() -> list[bytes]:
    contents = (_INFO, _INFO, _META, _COMM, _MATRIX)
    return [f"{name}\n{json.dumps(content)}".encode() for name, content in zip(NAMES, contents, strict=True)]


def mutate(data: bytes, draw: Random) -> bytes:
    name, _, text = data.partition(b"\n")
    return name + b"\n" + change.json_text(text, draw)


def check(data: bytes, scratch: Path) -> None:
    first, _, text = data.partition(b"\n")
    name = first.decode("ascii", "replace")
    if name not in NAMES:
        name = NAMES[len(first) % len(NAMES)]
    root = write(scratch / ROOT, trace_view_json=_TRACE, kernel_details_csv=f"{L1}\n{KERNEL}\n")
    (root / name if name.startswith("profiler_") else root / "ASCEND_PROFILER_OUTPUT" / name).write_bytes(text)
    done = read([root], scratch)
    # A file beside the trace may be as broken as it likes: the trace's spans are all there.
    assert [part.rows["span"] for part in done.parts] == [_SPANS], "the spans have gone"
