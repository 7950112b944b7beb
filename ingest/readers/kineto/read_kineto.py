"""Chrome traces of torch.profiler (Kineto), plain or gzipped, 2020 to 2026.

CUDA, ROCm, MTIA, XPU, CPU, and torch_npu through PrivateUse1 (ingest/readers/kineto/npu.py).

Events are read once, column-wise, into raw tables; what they mean is SQL over those. Stamps are microseconds
with up to three decimals, since 1970 or, from 2024 on, since ``baseTimeNanoseconds``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.events import Scan, scan
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message
from npulens.ingest.readers import Claim
from npulens.ingest.readers.kineto import cpu, few, head, merged
from npulens.ingest.readers.kineto.about import about
from npulens.ingest.readers.kineto.asked import Asked, InSql
from npulens.ingest.readers.kineto.columns import COLUMNS
from npulens.ingest.readers.kineto.links import link
from npulens.ingest.readers.kineto.raw import count
from npulens.ingest.readers.kineto.shape import shape
from npulens.ingest.readers.kineto.spools import Spools
from npulens.ingest.readers.kineto.tables import provide
from npulens.ingest.readers.kineto.witness import witness
from npulens.ingest.tables.draft import Draft, give_back
from npulens.ingest.tables.marks import ENGINE_STEP, PROFILER_STEP, engine_steps

TITLE = "torch.profiler trace (Kineto)"


def sniff(path: Path) -> Claim | None:
    """A file whose first bytes look like Kineto's."""
    begin = peek.head(path)
    text = begin.lstrip(head.BLANK)
    if not begin or (text and not text.startswith((b"{", b"[", head.GZIP))):
        return None
    first, last = head.peek(path)
    if not head.is_kineto(first):
        return None
    facts = head.facts(path, first, last)
    return Claim("kineto", path, (path,), facts, merged.ranks(path, first, last, facts))


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft from one trace file."""
    path = claim.files[0]
    draft.take_hold()
    mine = None if claim.device is None else merged.processes_of(path, claim.device)
    trace, spools = scan(path, COLUMNS), Spools(draft, mine)
    done, batch = 0, None
    for batch in trace:
        spools.add(batch)
        draft.advance(trace.file_bytes - done)
        done = trace.file_bytes
    spools.close()
    del batch
    give_back()
    if not spools.rows["span_raw"] + spools.rows["edge_raw"]:
        why = trace.truncated or Message("it_holds_no_events_with")
        raise IngestError("empty", Message("nothing_to_show_in_this", {"reason": why}), str(path))
    shift = _shift(draft, trace, spools.typical_ns)
    made = few.make(draft.raws, trace.header, shift, spools) if draft.raws is not None and draft.small else None
    if made is not None:
        _give(claim, draft, trace, spools, made)
    else:
        draft.let_go()
        _state(claim, draft, trace, spools, shift)
    _losses(draft, trace, spools)


def _give(claim: Claim, draft: Draft, trace: Scan, spools: Spools, made: few.Made) -> None:
    """Contract tables that were made of arrays."""
    draft.give_up()
    made.found.say(draft)
    if claim.device is not None:  # the header is of the first rank alone
        draft.fact("world_size", claim.facts.world_size)
    backend = about(draft, trace.header, made, False)
    cover(draft, spools, backend, 0, made)


def _state(claim: Claim, draft: Draft, trace: Scan, spools: Spools, shift: int) -> None:
    """Contract tables by statements."""
    spools.see()
    rows, asked = spools.rows, InSql(draft)
    on_cpu = 0 if rows["device_raw"] else cpu.tasks(draft, trace.header, spools.spans)
    shape(draft, spools.spans, paired=rows["edge_raw"] > 0, on_cpu=on_cpu > 0)
    unlinked = link(draft, flows=rows["flow_raw"] > 0, on_cpu=on_cpu > 0, spools=spools)
    if on_cpu:
        cpu.said(draft, trace.header)
    else:
        witness(draft)
    series(draft, shift, memory=rows["memory_raw"] > 0, counters=rows["count_raw"] + rows["count_rest_raw"] > 0)
    if claim.device is not None:  # the header is of the first rank alone
        draft.fact("world_size", claim.facts.world_size)
    backend = about(draft, trace.header, asked, on_cpu > 0)
    if spools.spans is not None:
        draft.spans = spools.spans.ordered(draft, shift)
        if draft.spans is None:
            spools.spans.whole(draft)
    provide(draft, shift, spools.seen, unlinked, backend, spools.calls)
    cover(draft, spools, backend, on_cpu, asked)


def _shift(draft: Draft, trace: Scan, typical_ns: int | None) -> int:
    """What to add to the file's stamps: nothing if they are wall clock already, else the base time."""
    if typical_ns is None or head.is_unix(typical_ns):
        draft.fact("clock", "unix")
        return 0
    base = trace.header.get("baseTimeNanoseconds")
    shift = base if isinstance(base, int) and not isinstance(base, bool) and abs(base) < 2**62 else 0
    told = head.is_unix(typical_ns + shift)
    draft.fact("clock", "unix" if told else "monotonic")
    return shift if told else 0


def _losses(draft: Draft, trace: Scan, spools: Spools) -> None:
    """Account for everything that was met and is in no table."""
    for reason, times in spools.lost.items():
        draft.drop("span", reason, times)
    if spools.rows["edge_raw"]:
        alone = "SELECT count(*) FROM unpaired ANTI JOIN edge ON edge.end_row = unpaired.row"
        draft.drop("span", Message("begin_or_end_without_its"), count(draft, alone))
    if trace.truncated:
        draft.cut(trace.truncated)


# Steps, memory and counters: what Kineto marks in time rather than as spans.
#: c10::DeviceType, as "[memory]" events number it.
_DEVICE_TYPE = """CASE device_type
    WHEN 0 THEN 'cpu' WHEN 1 THEN 'cuda' WHEN 6 THEN 'hip' WHEN 12 THEN 'xpu' WHEN 13 THEN 'mps'
    WHEN 15 THEN 'hpu' WHEN 19 THEN 'mtia' WHEN 20 THEN 'npu' ELSE 'device type ' || device_type END"""

#: Marks of one step on several threads: the one of the thread that was in steps longest.
#: Device annotations of one step lie on several streams: from the first start to the last end.
_STEPS = f"""
WITH mark AS (
    SELECT try_cast(regexp_extract(s.text, '(\\d+)$', 1) AS BIGINT) AS step, e.ts, e.dur, s.device, l.track
    FROM marked e JOIN sort s USING (shape) JOIN lane l USING (lane)
    WHERE s.kind IN ('step_mark', 'device_annotation') AND regexp_matches(s.text, '{PROFILER_STEP}')
), host AS (
    SELECT step, ts, dur FROM (SELECT *, sum(dur) OVER (PARTITION BY track) AS total FROM mark WHERE NOT device)
    QUALIFY row_number() OVER (PARTITION BY step ORDER BY total DESC, dur DESC, ts) = 1
), device AS (
    SELECT step, min(ts) AS ts, max(ts + dur) - min(ts) AS dur FROM mark WHERE device GROUP BY step
)
SELECT coalesce(h.step, d.step) AS step, coalesce(h.ts, d.ts) + {{shift}} AS ts_ns, h.dur AS host_dur_ns,
    d.ts + {{shift}} AS device_ts_ns, d.dur AS device_dur_ns,
    CASE WHEN h.step IS NULL THEN 'device annotation' ELSE 'ProfilerStep' END AS source
FROM host h FULL JOIN device d ON d.step = h.step WHERE coalesce(h.step, d.step) IS NOT NULL
"""

#: Annotations of a serving engine; those of the device share the External id of the host's.
_ENGINE_MARKS = f"""
SELECT e.row, e.ts + {{shift}} AS ts, e.dur, s.device, l.track, s.text, coalesce(h.external_id, d.external_id) AS id
FROM marked e JOIN sort s USING (shape) JOIN lane l USING (lane)
    LEFT JOIN host_raw h ON h.row = e.row LEFT JOIN device_raw d ON d.row = e.row
WHERE s.kind IN ('step_mark', 'device_annotation') AND regexp_matches(s.text, '{ENGINE_STEP}')
"""

#: An allocation ends where the same address of the same device is next released. 2021 traces give no address.
_BLOCKS = f"""
WITH m AS (
    SELECT *, {_DEVICE_TYPE} || CASE WHEN device_id >= 0 THEN ':' || device_id ELSE '' END AS device FROM memory_raw
), w AS (
    SELECT *, lead(bytes) OVER t AS next_bytes, lead(ts) OVER t AS next_ts, lead(allocated) OVER t AS next_allocated,
        lead(reserved) OVER t AS next_reserved, lag(bytes) OVER t AS last_bytes
    FROM m WINDOW t AS (PARTITION BY device, address ORDER BY ts, row)
), p AS (
    SELECT *, address IS NOT NULL AND bytes > 0 AND coalesce(next_bytes = -(bytes::HUGEINT), false) AS closed,
        address IS NOT NULL AND bytes < 0 AND coalesce(last_bytes = -(bytes::HUGEINT), false) AS closes FROM w
)
SELECT ts + {{shift}} AS ts_ns, CASE WHEN closed THEN next_ts - ts END AS dur_ns, bytes, address::VARCHAR AS address,
    allocated AS allocated_bytes, reserved AS reserved_bytes, device,
    CASE WHEN closed THEN next_allocated END AS release_allocated_bytes,
    CASE WHEN closed THEN next_reserved END AS release_reserved_bytes
FROM p WHERE NOT closes
"""

_POOLS = f"""
SELECT 'PyTorch' AS component, ts + {{shift}} AS ts_ns, allocated AS allocated_bytes, reserved AS reserved_bytes,
    {_DEVICE_TYPE} || CASE WHEN device_id >= 0 THEN ':' || device_id ELSE '' END AS device
FROM memory_raw WHERE allocated IS NOT NULL OR reserved IS NOT NULL
"""

_COUNTS = """
WITH value AS (
    SELECT ts, name, key, value FROM count_raw
    UNION ALL
    SELECT r.ts, r.name, j.key, try_cast(j.value ->> '$' AS DOUBLE) FROM count_rest_raw r, json_each(r.rest) j
)
SELECT n.text AS counter, v.key AS series, v.ts + {shift} AS ts_ns, v.value
FROM value v JOIN strings n ON n.code = v.name WHERE isfinite(v.value)
"""

#: CUPTI's range profiler writes the metrics of each range as arguments.
_METRICS = """
SELECT r.row AS span_id, j.key AS metric, try_cast(j.value ->> '$' AS DOUBLE) AS value
FROM device_raw d JOIN sort s USING (shape) JOIN device_rest_raw r ON r.row = d.row, json_each(r.rest) j
WHERE s.cat = 'cuda_profiler_range' AND isfinite(try_cast(j.value ->> '$' AS DOUBLE))
"""


def series(draft: Draft, shift_ns: int, *, memory: bool, counters: bool) -> None:
    """Provide step, and memory, counters and metrics where there are any."""
    if count(draft, "SELECT count(*) FROM sort WHERE cat = 'cuda_profiler_range'"):
        draft.provide("pmu", _METRICS)
    if not draft.keep("steps", _STEPS.format(shift=shift_ns)):
        draft.keep("steps", engine_steps(_ENGINE_MARKS.format(shift=shift_ns)))
    draft.provide("step", "FROM steps")
    if memory:
        draft.keep("blocks", _BLOCKS.format(shift=shift_ns))
        draft.provide("memory_event", "FROM blocks")
        if count(draft, "SELECT count(*) FROM memory_raw WHERE allocated IS NOT NULL OR reserved IS NOT NULL"):
            draft.provide("memory_sample", _POOLS.format(shift=shift_ns))
    if counters:
        draft.keep("counted", _COUNTS.format(shift=shift_ns))
        draft.provide("sample", "FROM counted")


# What a file did not record, and the torch.profiler setting that records it.
_PROFILE = "torch.profiler.profile"
_ACTIVITY = {"npu": "NPU", "xpu": "XPU", "mtia": "MTIA"}  # CUDA otherwise: ROCm is CUDA to PyTorch
_COVERAGE_METRICS = f"{_PROFILE}(experimental_config=_ExperimentalConfig(profiler_metrics=[...]))"

#: What only torch_npu's own profiler records of an NPU.
_ASCEND = "torch_npu.profiler.profile(experimental_config=_ExperimentalConfig({}))"
#: Categories of the host's calls: without them, communication alone is what somebody kept of a trace.
_OF_THE_HOST = {
    "cpu_op", "operator", "python_function", "cuda_runtime", "cuda_driver", "runtime", "privateuse1_runtime",
}  # fmt: skip
Lack = tuple[str, Message, str | None]


def cover(draft: Draft, spools: Spools, backend: str, on_cpu: int, asked: Asked) -> None:
    """Say of each table that is empty, or lacks what it is for, why."""
    activities = f"{_PROFILE}(activities=[ProfilerActivity.CPU, ProfilerActivity.{_ACTIVITY.get(backend, 'CUDA')}])"
    device = _cpu(draft, on_cpu) if on_cpu else _device(draft, spools, activities, backend == "npu", asked)
    for table, why, setting in (*device, *_unmeasured(spools, backend == "npu", asked), *_host(draft, spools, asked)):
        draft.absent(table, why, setting)
    if times := asked.captures():  # launches within it run nothing: there may be thousands, and no device work
        draft.note("kernel", Message("host_records_graph_times_what", {"n": times}))
    for table in ("l2_cache", "comm_link", "profiler_step", "summary", "clock"):
        draft.absent(table, Message("torch_profiler_does_not_write"))
    if spools.rows["memory_raw"] and "Addr" not in spools.seen:
        draft.note("memory_event", Message("file_gives_no_addresses_allocations"))
    if spools.unheld:
        draft.note("arg", Message("memory_and_metadata_events_which", {"n": spools.unheld}))
    if suspected := asked.unknown():
        draft.note("comm", Message("device_tasks_speak_communication_and", {"suspected": suspected}))
    for table, key in (("host_op", "Input Dims"), ("comm", "Collective name")):
        cover = draft.covers[table]
        if cover.absent and not spools.seen & {key, key.lower().capitalize()}:
            draft.partial(table, cover.absent)


def _device(draft: Draft, spools: Spools, activities: str, npu: bool, asked: Asked) -> Iterator[Lack]:
    if not asked.works():
        why, setting = Message("no_device_activity_in_file"), activities
        if call := asked.launching():
            why = Message("device_work_was_launched_but", {"call": call})
            tracer = "roctracer" if str(call).startswith("hip") else "CUPTI"
            setting = Message("activities_or_driver", {"setting": activities, "tracer": tracer})
        yield from ((table, why, setting) for table in ("kernel", "transfer", "comm"))
        if not spools.rows["flow_raw"]:
            yield "link", why, setting
    elif not asked.cats() & _OF_THE_HOST and not asked.computes():
        yield "kernel", Message("computing_unrecorded"), activities
    elif not asked.talks():
        if draft.facts.get("talks_on_host") and not asked.suspected():
            setting = f"torch.distributed.init_process_group(backend='{'hccl' if npu else 'nccl'}')"
            yield "comm", Message("gloo_communicates_on_host"), setting
        elif draft.facts.get("world_size", 1) == 1 and not asked.suspected():
            draft.note("comm", Message("no_communication_ran_on_device"))  # recorded, and none
    elif "Collective name" not in spools.seen and not (npu and asked.sized()):
        setting = (_ASCEND.format("profiler_level=Level1") if npu else Message("pytorch_or_later", {"version": "2.4"}))
        yield "comm", Message("sizes_and_groups_collectives_were"), setting


def _cpu(draft: Draft, tasks: int) -> Iterator[Lack]:
    """Of a job on a CPU its operators are the device's work: nothing is copied between host and device."""
    if count(draft, "SELECT count(*) FROM task WHERE kind = 'kernel'"):
        draft.note("kernel", Message("cpu_is_the_device", {"n": tasks}))
    else:
        yield "kernel", Message("cpu_computing_unrecorded"), f"{_PROFILE}(activities=[ProfilerActivity.CPU, ...])"
    draft.note("transfer", Message("cpu_copies_nothing"))
    if count(draft, "SELECT count(*) FROM task WHERE kind = 'comm_op'"):
        return
    if draft.facts.get("world_size", 1) == 1:
        draft.note("comm", Message("no_communication_ran_on_device"))
    else:
        yield "comm", Message("no_collective_of_gloo"), None


def _unmeasured(spools: Spools, npu: bool, asked: Asked) -> Iterator[Lack]:
    if not spools.rows["count_raw"] + spools.rows["count_rest_raw"]:
        yield "sample", Message("file_has_no_counters"), None
    if not asked.ranges():
        setting = _ASCEND.format("aic_metrics=PipeUtilization") if npu else _COVERAGE_METRICS
        yield "pmu", Message("no_hardware_metrics_in_file"), setting


def _unless_on(draft: Draft, setting: str, why: Message) -> tuple[Message, str | None]:
    """Why a table lacks something, and the setting that records it unless that was on."""
    wanted = f"{_PROFILE}({setting}=True)"
    if json.loads(str(draft.facts.get("settings") or "{}")).get(setting) in (1, True):
        return Message("setting_was_on", {"setting": wanted}), None
    return why, wanted


def _host(draft: Draft, spools: Spools, asked: Asked) -> Iterator[Lack]:
    if not asked.cats() & {"cpu_op", "operator"}:
        yield "host_op", Message("no_operators_were_recorded"), f"{_PROFILE}(activities=[ProfilerActivity.CPU, ...])"
    elif not spools.seen & {"Input Dims", "Input dims"}:
        yield "host_op", *_unless_on(draft, "record_shapes", Message("input_shapes_were_not_recorded"))
    if not spools.rows["memory_raw"]:
        for table in ("memory_event", "memory_sample"):
            yield table, *_unless_on(draft, "profile_memory", Message("memory_was_not_recorded"))
    elif "Total Allocated" not in spools.seen:
        yield (
            "memory_sample", Message("totals_pools_were_not_recorded"), Message("pytorch_or_later", {"version": "1.10"})
        )
    if "Call stack" not in spools.seen:
        if asked.frames():
            yield "stack", Message("python_frames_are_spans_kind"), None
        else:
            yield "stack", *_unless_on(draft, "with_stack", Message("python_frames_were_not_recorded"))
    if not asked.steps():
        yield (
            "step",
            Message("no_step_was_marked"),
            Message("and_prof_step_after_every", {"setting": f"{_PROFILE}(schedule=...)"}),
        )
