"""Writes a simulated job as torch_npu writes it with export type text: one directory per rank."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from npulens.collectors.simulator.job import Group, Job, RankRecord
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.comm_files import analyse, communication, communication_matrix
from npulens.collectors.writers.json_text import write_joined
from npulens.collectors.writers.torch_npu_csv import write_tables
from npulens.collectors.writers.trace_device import DeviceView
from npulens.collectors.writers.trace_host import HostView

_VARIABLES = {
    "ASCEND_GLOBAL_LOG_LEVEL": "3",
    "HCCL_RDMA_TC": "",
    "HCCL_RDMA_SL": "",
    "ACLNN_CACHE_LIMIT": "",
    "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True",
    "ASCEND_LAUNCH_BLOCKING": "0",
}


def write_text(
    job: Job, directory: Path, options: AscendOptions | None = None, ranks: Iterable[int] | None = None
) -> list[Path]:
    """Writes the chosen ranks (all where none are named) and returns their directories."""
    options = options or AscendOptions()
    return [write_text_rank(job, record, directory, options, ("text",)) for record in chosen(job, ranks)]


def chosen(job: Job, ranks: Iterable[int] | None) -> list[RankRecord]:
    wanted = set(range(len(job.ranks)) if ranks is None else ranks)
    return [record for record in job.ranks if record.rank in wanted]


def rank_directory(
    job: Job, record: RankRecord, directory: Path, options: AscendOptions, exports: tuple[str, ...]
) -> Path:
    """Makes the directory that both exports share, with what the profiler says of itself; returns its output part."""
    root = directory / f"{record.host}_{record.pid}_{_date(job.config.start_ns)}_ascend_pt"
    output = root / "ASCEND_PROFILER_OUTPUT"
    output.mkdir(parents=True, exist_ok=True)
    dump(root / f"profiler_info_{record.rank}.json", _info(job, record, options, list(exports)), indent=4)
    if not options.first:
        dump(root / "profiler_metadata.json", metadata(job, record), indent=4)
    return output


def dump(path: Path, content: Any, indent: int | None = None) -> None:
    path.write_text(json.dumps(content, indent=indent), encoding="utf-8")


def _date(ns: int) -> str:
    """The stamp in directory names, UTC: a job looks the same wherever it is simulated."""
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y%m%d%H%M%S") + f"{ns // 10**6 % 1000:03d}"


def metadata(job: Job, record: RankRecord) -> dict[str, Any]:
    return {
        "distributed_args": {
            "world_size": job.config.ranks,
            "tensor_model_parallel_size": job.config.tensor_parallel,
            "pipeline_model_parallel_size": job.config.pipeline,
            "data_parallel_size": job.config.ranks // (job.config.tensor_parallel * job.config.pipeline),
            "rank": record.rank,
        },
        "parallel_group_info": {group.name: _group(group, record.rank) for group in told(job, record)},
        "ENV_VARIABLES": {**_VARIABLES, **dict(job.config.environment)},
    }


def told(job: Job, record: RankRecord) -> list[Group]:
    """The groups of a rank that the profiler knows of: those that operators of theirs were recorded of."""
    known = {track.group for track in record.tracks.values()}
    mine = job.groups_of(record.rank)
    return [group for group in mine if group.name in known] if job.config.dialect == "custom_comm" else mine


def _group(group: Group, rank: int) -> dict[str, Any]:
    kind = group.kind.rstrip("0123456789")  # pairs of stages are numbered
    return {"group_name": kind, "group_rank": group.ranks.index(rank), "global_ranks": list(group.ranks)}


def _info(job: Job, record: RankRecord, options: AscendOptions, exports: list[str]) -> dict[str, Any]:
    config = job.config
    common = {
        "activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"],
        "schedule": {"wait": 0, "active": config.steps, "warmup": 1, "repeat": 1, "skip_first": config.first_step - 1},
        "record_shapes": config.shapes,
        "profile_memory": config.memory,
        "with_stack": config.frames,
        "with_flops": False,
        "with_modules": config.frames,
    }
    experimental = {
        "_profiler_level": options.level,
        "_aic_metrics": "ACL_AICORE_PIPE_UTILIZATION" if options.api else "ACL_AICORE_NONE",
        "_l2_cache": config.l2_cache,
        "_msprof_tx": False,
        "_data_simplification": True,
        "record_op_args": False,
        "_export_type": exports[0] if options.old and len(exports) == 1 else exports,
        "_op_attr": False,
        "_gc_detect_threshold": config.gc_threshold_ms,
    }
    boot = config.start_ns - 86_400 * 10**9 + config.offset(record.rank)  # the monotonic clock counts from here
    info: dict[str, Any] = {
        "config": {"common_config": common, "experimental_config": experimental},
        "start_info": {
            "syscnt_enable": True,
            "freq": 100,
            "start_cnt": (record.begin_ns - boot) // 10 + 2_147_483_648,
            "start_monotonic": record.begin_ns - boot,
        },
        "end_info": {"collectionTimeEnd": record.end_ns, "MonotonicTimeEnd": record.end_ns - boot},
        "rank_id": record.rank,
    }
    if not options.old:
        info |= {"torch_npu_version": "2.7.1", "cann_version": "8.3.RC1"}
    return info


def trace_events(record: RankRecord, options: AscendOptions) -> Iterator[str]:
    """trace_view.json in the order of the tool: framework, device by time, then the arrows between the two."""
    host, device = HostView(record), DeviceView(record, options)
    yield from host.events()
    yield from device.metadata()
    yield from device.events()
    yield from device.arrows()


def write_text_rank(
    job: Job, record: RankRecord, directory: Path, options: AscendOptions, exports: tuple[str, ...]
) -> Path:
    output = rank_directory(job, record, directory, options, exports)
    with (output / "trace_view.json").open("w", encoding="utf-8") as file:
        file.write("[")
        write_joined(file, trace_events(record, options), ", ")
        file.write("]")
    write_tables(record, output, options)
    if options.api and job.groups_of(record.rank):
        analyses = analyse(record, {group.name: group.hash for group in job.groups})
        dump(output / "communication.json", communication(analyses))
        dump(output / "communication_matrix.json", communication_matrix(analyses))
    return output.parent
