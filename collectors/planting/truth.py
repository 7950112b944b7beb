"""What the planted faults cost and where they act, measured on the job itself.

A fault's gain is the job's time with all faults minus the time without this one, from the same seed. Both jobs do the
same work: what a fault says that stays of it is in the job without it. Its windows are
the moments of its acts on captured ranks. They are also the waits it makes on the other ranks of a collective.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from npulens.collectors.planting.fault import Capture, Fault, SimConfig, Window
from npulens.collectors.simulator.dialect import DIALECTS
from npulens.collectors.simulator.job import CommOp, Job, RankRecord, Span
from npulens.collectors.simulator.simulate import simulate

NEAR_NS = 20_000  # acts no further apart are one window
WAIT_SHARE = 0.005  # waits of others that grow by less of the step are no trace of the fault
ONE_WAIT_NS = 20_000
WORK = ("kernel", "memset", "memcpy", "comm_op")  # of the device; waits for events are none


@dataclass(frozen=True)
class Truth:
    fault: Fault
    gain_ns: int  # of the mean step
    also: tuple[str, ...]
    windows: tuple[Window, ...]


def configured(config: SimConfig, faults: Sequence[Fault]) -> SimConfig:
    """The healthy configuration with faults planted in it."""
    for fault in faults:
        config = replace(config, **fault.changes)
    return replace(config, faults=tuple(faults))


def without(config: SimConfig, faults: Sequence[Fault], gone: Sequence[Fault]) -> SimConfig:
    """The configuration with these faults and without those that are gone, apart from what stays of them."""
    stays = {name: value for fault in gone for name, value in fault.stays.items()}
    return replace(configured(config, faults), **stays)


def truths(config: SimConfig, faults: Sequence[Fault], job: Job, capture: Capture) -> list[Truth]:
    """One for each fault; ``job`` is the one with all of them."""
    found = []
    for fault in faults:
        twin = simulate(without(config, [other for other in faults if other is not fault], [fault]))
        gain = (seen(job, capture.ranks) - seen(twin, capture.ranks)) // config.steps
        windows = list(_acts(job, fault, capture.ranks))
        windows += fault.find(job, twin) if fault.find is not None else ()
        waits = list(_waits(job, twin, capture.ranks))
        also = fault.also
        if sum(window.dur_ns for window in waits) > WAIT_SHARE * wall(job, capture.ranks):
            windows += waits
            also = (*also, *(() if "late_rank" in (fault.cause, *also) else ("late_rank",)))
        found.append(Truth(fault, gain, also, tuple(_merged(w for w in windows if w.rank in capture.ranks))))
    return found


def wall(job: Job, ranks: Iterable[int]) -> int:
    """The longest of the captured ranks, from the start of its first step to the end of its last."""
    return max(end - start for start, end in (window(job.ranks[rank]) for rank in ranks))


def window(record: RankRecord) -> tuple[int, int]:
    work = [s.end_ns for s in record.spans if not s.track.startswith("thread") and s.kind != "device_other"]
    return record.steps[0].ts_ns, max(record.steps[-1].end_ns, *work)


def seen(job: Job, ranks: Iterable[int]) -> int:
    """The same as the capture shows it. Without marks that is from the first work of a device to the last."""
    if DIALECTS[job.config.dialect].stepped:
        return wall(job, ranks)
    work = [job.ranks[rank].of(*WORK) for rank in ranks]
    return max(max(span.end_ns for span in spans) - min(span.ts_ns for span in spans) for spans in work)


def _acts(job: Job, fault: Fault, ranks: Iterable[int]) -> Iterator[Window]:
    for rank in ranks:
        for act in job.ranks[rank].acts:
            if act.fault == fault.cause:
                yield Window(rank, act.ts_ns, act.dur_ns)


def _waits(job: Job, without: Job, ranks: Iterable[int]) -> Iterator[Window]:
    """Collectives that a captured rank now waits longer in for its last peer."""
    before, after = lateness(without), lateness(job)
    for rank in ranks:
        for span in job.ranks[rank].of("comm_op"):
            key = called(span), rank
            grown = after[key] - before.get(key, after[key])
            if grown > ONE_WAIT_NS:
                yield Window(rank, span.ts_ns, min(grown, span.dur_ns))


def lateness(job: Job) -> dict[tuple[tuple[str, str], int], int]:
    """By how much the last rank came later than this one to each collective, in true time."""
    arrivals: dict[tuple[str, str], dict[int, int]] = {}
    for record in job.ranks:
        for span in record.of("comm_op"):
            arrivals.setdefault(called(span), {})[record.rank] = span.ts_ns - job.config.offset(record.rank)
    return {(key, rank): max(all_.values()) - ts for key, all_ in arrivals.items() for rank, ts in all_.items()}


def called(span: Span) -> tuple[str, str]:
    """Which collective of which group it is, on all of its ranks; what one sends another receives."""
    assert isinstance(span.detail, CommOp)
    return span.detail.group, span.name.partition("__")[2]


def _merged(windows: Iterable[Window]) -> Iterator[Window]:
    last: Window | None = None
    for one in sorted(windows):
        if last is not None and one.rank == last.rank and one.ts_ns <= last.ts_ns + last.dur_ns + NEAR_NS:
            last = last._replace(dur_ns=max(last.dur_ns, one.ts_ns + one.dur_ns - last.ts_ns))
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last
