"""What a file did not record, and the torch.profiler setting that records it."""

from __future__ import annotations

from collections.abc import Iterator

from npulens.ingest.messages import Message
from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.readers.kineto.spools import Spools
from npulens.ingest.tables.draft import Draft, union

_PROFILE = "torch.profiler.profile"
_ACTIVITY = {"npu": "NPU", "xpu": "XPU", "mtia": "MTIA"}  # CUDA otherwise: ROCm is CUDA to PyTorch
_METRICS = f"{_PROFILE}(experimental_config=_ExperimentalConfig(profiler_metrics=[...]))"

#: What only torch_npu's own profiler records of an NPU.
_ASCEND = "torch_npu.profiler.profile(experimental_config=_ExperimentalConfig({}))"
_SUSPECTED = "SELECT count(*) FROM sort WHERE kind = 'unknown'"
_SIZED = "SELECT count(*) FROM ({}) WHERE bytes IS NOT NULL AND group_name IS NOT NULL"

#: Calls that begin the capture of a graph, of CUDA, ROCm and CANN.
_CAPTURES = r"""SELECT count(*) FROM ev JOIN sort s USING (shape) WHERE s.kind = 'runtime'
    AND regexp_matches(s.text, '^((cuda|hip|cu)StreamBeginCapture\w*|aclmdlRICaptureBegin)$')"""

Lack = tuple[str, Message, str | None]


def cover(draft: Draft, spools: Spools, backend: str) -> None:
    """Say of each table that is empty, or lacks what it is for, why."""
    activities = f"{_PROFILE}(activities=[ProfilerActivity.CPU, ProfilerActivity.{_ACTIVITY.get(backend, 'CUDA')}])"
    for table, why, setting in (*_device(draft, spools, activities, backend == "npu"), *_host(draft, spools)):
        draft.absent(table, why, setting)
    _graphs(draft)
    for table in ("l2_cache", "comm_link", "profiler_step", "summary", "clock"):
        draft.absent(table, Message("torch_profiler_does_not_write"))
    if spools.rows["memory_raw"] and "Addr" not in spools.seen:
        draft.note("memory_event", Message("file_gives_no_addresses_allocations"))
    if spools.unheld:
        draft.note("arg", Message("memory_and_metadata_events_which", {"n": spools.unheld}))
    suspected = count(draft, "SELECT count(*) FROM task WHERE kind = 'unknown'")
    if suspected:
        draft.note("comm", Message("device_tasks_speak_communication_and", {"suspected": suspected}))
    for table, key in (("host_op", "Input Dims"), ("comm", "Collective name")):
        cover = draft.covers[table]
        if cover.absent and not spools.seen & {key, key.lower().capitalize()}:
            draft.partial(table, cover.absent)


def _graphs(draft: Draft) -> None:
    """Launches within the capture of a graph run nothing: a file may hold thousands of them and no device work."""
    times = count(draft, _CAPTURES)
    if times:
        draft.note("kernel", Message("host_records_graph_times_what", {"n": times}))


def _device(draft: Draft, spools: Spools, activities: str, npu: bool) -> Iterator[Lack]:
    if not spools.rows["device_raw"]:
        yield from (
            (table, Message("no_device_activity_in_file"), activities) for table in ("kernel", "transfer", "comm")
        )
        if not spools.rows["flow_raw"]:
            yield "link", Message("no_device_activity_in_file"), activities
    elif not count(draft, "SELECT count(*) FROM task WHERE kind = 'comm_op' OR fused"):
        if draft.facts.get("world_size", 1) == 1 and not count(draft, _SUSPECTED):
            draft.note("comm", Message("no_communication_ran_on_device"))  # recorded, and none
    elif "Collective name" not in spools.seen and not (
        npu and count(draft, _SIZED.format(union(draft.selects["comm"])))
    ):
        setting = (_ASCEND.format("profiler_level=Level1") if npu else Message("pytorch_or_later", {"version": "2.4"}))
        yield "comm", Message("sizes_and_groups_collectives_were"), setting
    if not spools.rows["count_raw"] + spools.rows["count_rest_raw"]:
        yield "sample", Message("file_has_no_counters"), None
    if not count(draft, "SELECT count(*) FROM sort WHERE cat = 'cuda_profiler_range'"):
        setting = _ASCEND.format("aic_metrics=PipeUtilization") if npu else _METRICS
        yield "pmu", Message("no_hardware_metrics_in_file"), setting


def _host(draft: Draft, spools: Spools) -> Iterator[Lack]:
    if not spools.seen & {"Input Dims", "Input dims"}:
        yield "host_op", Message("input_shapes_were_not_recorded"), f"{_PROFILE}(record_shapes=True)"
    if not spools.rows["memory_raw"]:
        for table in ("memory_event", "memory_sample"):
            yield table, Message("memory_was_not_recorded"), f"{_PROFILE}(profile_memory=True)"
    elif "Total Allocated" not in spools.seen:
        yield (
            "memory_sample", Message("totals_pools_were_not_recorded"), Message("pytorch_or_later", {"version": "1.10"})
        )
    if "Call stack" not in spools.seen:
        if count(draft, "SELECT count(*) FROM sort WHERE kind = 'python'"):
            yield "stack", Message("python_frames_are_spans_kind"), None
        else:
            yield "stack", Message("python_frames_were_not_recorded"), f"{_PROFILE}(with_stack=True)"
    if not count(draft, "SELECT count(*) FROM steps"):
        yield (
            "step",
            Message("no_step_was_marked"),
            Message("and_prof_step_after_every", {"setting": f"{_PROFILE}(schedule=...)"}),
        )
