"""The kinds of captures that a job is written as: what real profilers leave out, cut off or call otherwise.

A dialect changes what is recorded of a job, never what the job does. The exception is where the capture could not exist
otherwise (graphs, a pair of ranks that send and receive). It goes with any scenario.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.job import (
    NONE_ID,
    UNKNOWN,
    CommOp,
    CommTask,
    Copy,
    HostOp,
    Job,
    Kernel,
    Link,
    RankRecord,
    Runtime,
    Span,
    Task,
    Track,
)
from npulens.collectors.simulator.kernels import EMPTY, tensors
from npulens.collectors.simulator.pmu import block_num

# What a profiler of another kind would have recorded of a rank: each function takes a record and gives another.
#
# Times stay as they are. What changes is which launch, operator, size or name is known of a span.
MARK_NS = 10
CORES_OF_910A = 32
UNLINKED = 0.85
HELPERS = 11  # the first of the streams on which HCCL does the rest of a collective
SCHEDULER = 40  # the stream of the AI CPU that drives a fused kernel
#: By the collectives that torch and the runtime name on the host.
P2P = ("send", "receive", "batchsendrecv")


def rebuilt(record: RankRecord, spans: Iterable[Span], loose: frozenset[int] = frozenset()) -> RankRecord:
    """The record with other spans; links of spans that are gone go, and all links to the ``loose`` ones."""
    found = tuple(sorted(spans, key=lambda span: (span.ts_ns, -span.dur_ns, span.id)))
    by_id = {span.id: span for span in found}

    def kept(link: Link) -> bool:
        return link.src in by_id and link.dst in by_id and link.dst not in loose

    return replace(record, spans=found, links=tuple(filter(kept, record.links)), by_id=by_id)


def each(record: RankRecord, change: Callable[[Span], Span]) -> RankRecord:
    return rebuilt(record, map(change, record.spans))


# -- 910a --------------------------------------------------------------------------------------------------------------


def marks_of_910a(job: Job, record: RankRecord) -> RankRecord:
    """Events are marks of 10 ns at their end; events and copies have no launch; all cores are AI_CORE.

    Of a collective the first two planes are on its stream. The others, and the second once more, are tasks of helper
    streams without name and launch. The clock is not sampled.
    """
    spans: list[Span] = []
    loose: set[int] = set()
    tracks = {key: track for key, track in record.tracks.items() if (track.plane or 0) < 2}
    number = max(record.by_id, default=0)
    for span in record.spans:
        detail = span.detail
        if isinstance(detail, Task) and span.name.startswith("EVENT_"):
            marked = span._replace(ts_ns=span.end_ns - MARK_NS, dur_ns=MARK_NS)
            span = marked._replace(detail=detail._replace(connection=UNKNOWN))
            loose.add(span.id)
        elif isinstance(detail, Copy):
            span = span._replace(detail=detail._replace(connection=UNKNOWN))
            loose.add(span.id)
        elif isinstance(detail, Kernel) and detail.core != "AI_CPU":
            full = block_num(detail.core)[0]
            cores = -(-detail.block_num * CORES_OF_910A // full) if full else CORES_OF_910A
            span = span._replace(detail=detail._replace(core="AI_CORE", block_num=cores, mix_block_num=0))
        elif isinstance(detail, CommTask) and detail.plane:
            number += 1
            stream = HELPERS + detail.plane - 1
            tracks.setdefault(f"stream {stream}", Track(f"stream {stream}", "stream", stream))
            helper = Task(stream, number % 65_535, UNKNOWN, "Other")
            spans.append(span._replace(id=number, track=f"stream {stream}", kind="device_other", name="Other",
                                       detail=helper))  # fmt: skip
            if detail.plane > 1:
                continue
        spans.append(span)
    samples = tuple(sample for sample in record.samples if sample.series != "MHz")
    return replace(rebuilt(record, spans, frozenset(loose)), tracks=tracks, samples=samples)


# -- launches ----------------------------------------------------------------------------------------------------------


def without_launches(job: Job, record: RankRecord) -> RankRecord:
    """Most tasks of the device lose what launched them."""
    draw = random.Random(f"{job.config.seed}/{record.rank}/unlinked")
    device = [span for span in record.spans if isinstance(span.detail, Kernel | Copy | Task | CommOp)]
    loose = frozenset(span.id for span in device if draw.random() < UNLINKED)

    def change(span: Span) -> Span:
        detail = span.detail
        if isinstance(detail, CommTask) and detail.op in loose:
            return span._replace(detail=detail._replace(connection=UNKNOWN))
        if span.id in loose and isinstance(detail, Kernel | Copy | Task | CommOp):
            return span._replace(detail=detail._replace(connection=UNKNOWN))
        return span

    return rebuilt(record, map(change, record.spans), loose)


def operators_end_early(job: Job, record: RankRecord) -> RankRecord:
    """An operator ends in the middle of the last call that launches for it, or, every other one, before that call."""
    calls: dict[str, list[Span]] = {}
    launching = {link.src for link in record.links if link.route == "host_to_device"}
    for span in record.of("runtime"):
        if span.id in launching:
            calls.setdefault(span.track, []).append(span)
    last: dict[int, Span] = {}
    opened: dict[str, list[Span]] = {}
    waiting = {track: iter(found) for track, found in calls.items()}
    heads = {track: next(found, None) for track, found in waiting.items()}

    def close(track: str, before: int) -> None:
        while (head := heads.get(track)) is not None and head.ts_ns < before:
            for operator in opened.get(track, ()):
                if head.ts_ns < operator.end_ns:
                    last[operator.id] = head
            heads[track] = next(waiting[track], None)

    for span in record.of("cpu_op"):
        close(span.track, span.ts_ns)
        opened[span.track] = [one for one in opened.get(span.track, ()) if one.end_ns > span.ts_ns] + [span]
    for track in list(heads):
        close(track, record.end_ns)

    def change(span: Span) -> Span:
        call = last.get(span.id)
        if call is None:
            return span
        inside = call.dur_ns // 2 if call.id % 2 else -200
        return span._replace(dur_ns=max(call.ts_ns + inside - span.ts_ns, 100))

    return each(record, change)


# -- communication -----------------------------------------------------------------------------------------------------


def without_waits(job: Job, record: RankRecord) -> RankRecord:
    """Tasks of sends and receives are not in the trace; the profiler's own sums still know them."""
    apart = {span.id for span in record.of("comm_op") if isinstance(span.detail, CommOp) and _p2p(span.detail)}
    return each(record, lambda span: span._replace(kind="unseen") if _of(span, apart) else span)


def _p2p(op: CommOp) -> bool:
    return op.collective in P2P


def _of(span: Span, operators: set[int]) -> bool:
    return isinstance(span.detail, CommTask) and span.detail.op in operators


def other_bytes(job: Job, record: RankRecord) -> RankRecord:
    """Each rank counts 0.3 % more bytes than the one before."""

    def more(size: int) -> int:
        return size * (1_000 + 3 * record.rank) // 1_000

    def change(span: Span) -> Span:
        detail = span.detail
        if isinstance(detail, CommOp):
            return span._replace(detail=detail._replace(bytes=more(detail.bytes), elements=more(detail.elements)))
        if isinstance(detail, CommTask):
            return span._replace(detail=detail._replace(bytes=more(detail.bytes)))
        if isinstance(detail, HostOp) and detail.call is not None:
            call = detail.call._replace(elements=more(detail.call.elements))
            return span._replace(detail=detail._replace(call=call))
        return span

    return each(record, change)


def fused_kernels(job: Job, record: RankRecord) -> RankRecord:
    """On Ascend an all-reduce is one kernel with the matrix product before it (MC2), which the AI CPU drives.

    Where transfers were planted it is LCCL's kernel, which does nothing else.
    """
    if any(fault.cause == "comm_exposed" for fault in job.config.faults):
        return _by_kernels(record, _Custom("LcclAllReduce", "LcclAllReduce", "LcclAllReduce"))
    name = "aclnnMatmulAllReduce_MatmulAllReduce_MatmulAllReduce"
    custom = _Custom(name, "MatmulAllReduce", "aclnnMatmulAllReduce", "npu::npu_mm_all_reduce_base", fused=True)
    return _by_kernels(record, custom)


def own_kernels(job: Job, record: RankRecord) -> RankRecord:
    """On CUDA an all-reduce is a kernel of DeepEP, of symmetric memory or of vLLM: one of them for the whole job."""
    name, operator = OWN_KERNELS[job.config.seed % len(OWN_KERNELS)]
    return _by_kernels(record, _Custom(name, name, "", operator))


#: As they are named in real traces -> the operator above; DeepEP is called without one.
OWN_KERNELS = (
    (
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*, float*, __nv_bfloat16 const*, "
        "float const*, __nv_bfloat16 const*, __nv_bfloat16 const*, int const*, int const*, int const*, int*, int, int, "
        "int, int, void**, int, int, int)",
        "",
    ),
    (
        "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*, unsigned long, "
        "unsigned int**, unsigned long, unsigned long)",
        "symm_mem::multimem_all_reduce_",
    ),
    (
        "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, "
        "__nv_bfloat16*, int, int)",
        "_C_custom_ar::all_reduce",
    ),
    (
        "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 4>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, "
        "__nv_bfloat16*, int, int)",
        "_C_custom_ar::all_reduce",
    ),
)


class _Custom(NamedTuple):
    """A kernel that communicates: its name, its type, the call and the operator that launch it."""

    name: str
    op_type: str
    api: str
    operator: str = ""
    fused: bool = False


def _by_kernels(record: RankRecord, custom: _Custom) -> RankRecord:
    """All-reduces as kernels, without operator, group and tasks. What sends and receives stays as it is."""
    reduced = {span.id for span in record.of("comm_op") if isinstance(span.detail, CommOp) and not _p2p(span.detail)}
    names = {"HcclAllreduce": custom.api, "Dequeue@HcclAllreduce": f"Dequeue@{custom.api}"} if custom.api else {}
    ids = iter(range(max(record.by_id, default=0) + 1, 1 << 62))

    def changed() -> Iterator[Span]:
        for span in record.spans:
            detail = span.detail
            if isinstance(detail, CommOp) and span.id in reduced:
                yield _kernel(span, detail, custom)
                if custom.fused:
                    yield _driver(span, detail, custom, next(ids))
            elif isinstance(detail, HostOp) and span.name == "c10d::allreduce_":
                if custom.operator:
                    yield span._replace(name=custom.operator)
            elif isinstance(detail, Runtime) and detail.item == "hcom_allReduce_":
                item = custom.name if detail.level == "node" else custom.api or detail.item
                yield span._replace(name=item, detail=detail._replace(item=item))
            elif not (_of(span, reduced) or (isinstance(detail, HostOp) and _reduces(detail))):
                yield span._replace(name=names.get(span.name, span.name))

    apart = {span.track for span in record.of("comm_op") if span.id not in reduced}
    tracks = {key: track for key, track in record.tracks.items() if not track.group or f"group {track.group}" in apart}
    if custom.fused and reduced:
        tracks[f"stream {SCHEDULER}"] = Track(f"stream {SCHEDULER}", "stream", SCHEDULER)
    return replace(rebuilt(record, changed()), tracks=tracks)


def _reduces(op: HostOp) -> bool:
    return op.call is not None and op.call.collective == "allreduce"


def _kernel(span: Span, op: CommOp, custom: _Custom) -> Span:
    shape = (max(op.elements // 4_096, 1), 4_096)
    sides = tensors(shape, (4_096, 4_096)) if custom.fused else tensors(shape)
    core, mixed = ("MIX_AIC", 48) if custom.fused else ("AI_VECTOR_CORE", 0)
    detail = Kernel(op.stream, op.task, op.connection, custom.op_type, core, 24, mixed, "NO", sides, tensors(shape), (),
                    0.5, NONE_ID)  # fmt: skip
    return span._replace(track=f"stream {op.stream}", kind="kernel", name=custom.name, detail=detail)


def _driver(span: Span, op: CommOp, custom: _Custom, number: int) -> Span:
    """What drives a fused kernel on the AI CPU beside it."""
    kernel = _kernel(span, op, custom).detail
    assert isinstance(kernel, Kernel)
    kind = f"{custom.op_type}Aicpu"
    detail = kernel._replace(stream=SCHEDULER, connection=UNKNOWN, op_type=kind, core="AI_CPU", block_num=1,
                             mix_block_num=0, inputs=EMPTY, outputs=EMPTY)  # fmt: skip
    return Span(number, f"stream {SCHEDULER}", "kernel", kind, span.ts_ns, span.dur_ns, span.step, detail)


# -- steps -------------------------------------------------------------------------------------------------------------


def without_steps(job: Job, record: RankRecord) -> RankRecord:
    """The script never called the profiler's step()."""
    spans = [span for span in record.spans if span.kind != "step_mark"]
    return replace(rebuilt(record, [span._replace(step=None) for span in spans]), steps=())


def served(job: Job, record: RankRecord) -> RankRecord:
    """vLLM marks what its worker runs: a prefill of one request, then decode steps of a batch, in turn."""

    def change(span: Span) -> Span:
        if span.kind != "step_mark":
            return span._replace(step=None)
        number = int(span.name.partition("#")[2]) - job.config.first_step
        tokens = job.config.tokens
        prefill = f"execute_context_1({tokens}_{tokens * tokens})_generation_0(0)"
        name = "execute_context_0(0)_generation_64(64)" if number % 3 else prefill
        return span._replace(kind="annotation", name=name, step=None)

    return replace(each(record, change), steps=())


FIRST_USE_NS = 600_000_000
ALL = ("text", "db", "kineto")
Recorded = Callable[[Job, RankRecord], RankRecord]


@dataclass(frozen=True)
class Dialect:
    what: str
    formats: tuple[str, ...] = ALL
    ranks: int = 1  # the fewest that the job must have
    pair: bool = False  # and it has two where it is no pipeline
    changes: Mapping[str, Any] = field(default_factory=dict)  # of the job's configuration
    stepped: bool = True  # False: nothing says when the first step began, before the device had work
    recorded: Recorded | None = None
    kineto: Recorded | None = None  # where a Kineto trace differs in another way
    hides: tuple[str, ...] = ()  # causes of which such a capture shows nothing
    hides_in_kineto: tuple[str, ...] = ()  # and those of which it shows nothing in a Kineto trace only
    unnamed: tuple[str, ...] = ()  # causes that it does not record: the host is late, and nobody says why
    present: tuple[str, ...] = ()  # causes that every capture of the dialect holds, planted or not
    instead: tuple[str, ...] = ()  # causes that are a right answer for a fault of the host, whose links are lost
    absent: tuple[str, ...] = ()  # causes that are a right answer for the lateness of a rank that was not captured

    def formats_of(self, causes: Collection[str]) -> tuple[str, ...]:
        """The formats whose captures show all these causes."""
        if not set(causes).isdisjoint({*self.hides, *self.present}):
            return ()
        in_kineto = set(causes).isdisjoint(self.hides_in_kineto)
        return tuple(each for each in self.formats if in_kineto or each != "kineto")

    def configured(self, name: str, config: SimConfig) -> SimConfig:
        ranks = max(config.ranks, self.ranks)
        return replace(config, dialect=name, **{"ranks": 2 if self.pair else ranks, **self.changes})

    def written(self, job: Job, kind: str) -> Job:
        """The job as the profiler recorded it that writes this format."""
        recorded = self.kineto if kind == "kineto" and self.kineto is not None else self.recorded
        if recorded is None:
            return job
        return replace(job, ranks=tuple(recorded(job, record) for record in job.ranks))


DIALECTS: dict[str, Dialect] = {
    "plain": Dialect("What today's profilers write of a healthy installation."),
    "910a": Dialect(
        "Old Ascend: waits are marks stamped when satisfied, copies and events have no launch, helpers are 'Other'.",
        ("text", "db"),
        recorded=marks_of_910a,
        hides=("frequency_drop", "low_efficiency"),  # its cube knows no bfloat16, so it has no peak for it
    ),
    "unlinked": Dialect(
        "Of 85 % of the device's tasks nobody knows what launched them.",
        recorded=without_launches,
        hides_in_kineto=("low_efficiency",),  # there the launch alone leads to the shapes
        instead=("idle_unexplained",),
    ),
    "external_id": Dialect(
        "Operators end before the call that launches their kernel does, or before it begins: External id ties them.",
        ("kineto",),
        recorded=operators_end_early,
    ),
    "p2p_bare": Dialect(
        "Two ranks send and receive; nothing says how long each waited in it.",
        ranks=2,
        pair=True,
        changes={"paired": True},
        recorded=without_waits,
        absent=("pipeline_bubble",),
    ),
    "uneven_bytes": Dialect(
        "The same collective has another number of bytes on every rank.", ranks=2, recorded=other_bytes
    ),
    "custom_comm": Dialect(
        "Communication by kernels that are no NCCL or HCCL operators, without a word on groups.",
        ranks=2,
        recorded=fused_kernels,
        kineto=own_kernels,
        hides=("retransmission", "slow_link", "small_packets"),
    ),
    "shifted_windows": Dialect(
        "Ranks start one collective apart, in the middle of a step; what was launched before has no launch.",
        ranks=2,
        changes={"ragged": True},
    ),
    "bare_list": Dialect(
        "Kineto of 2020: a list of events without an envelope, in whole microseconds.",
        ("kineto",),
        hides=("low_efficiency",),  # the envelope holds the name of the device
        unnamed=("gc",),
    ),
    "renamed": Dialect("Files and directories have names that say nothing."),
    "merged": Dialect("Several ranks in one Kineto file.", ("kineto",), ranks=2),
    "first_step": Dialect(
        "The job has just begun: the first launch of its first step loads a library for 600 ms.",
        changes={"first_use_ns": FIRST_USE_NS, "first_step": 1},
        present=("first_use",),
    ),
    "graphs": Dialect(
        "Kernels are nodes of replayed graphs, which alone are launched.",
        changes={"graphs": True},
        hides_in_kineto=("low_efficiency",),  # nor do nodes of graphs lead to shapes there
    ),
    "vllm": Dialect("Steps are execute_context_N(..)_generation_M(..) annotations.", recorded=served),
    "no_steps": Dialect("Nothing marks the steps.", stepped=False, recorded=without_steps, hides=("step_jitter",)),
}
