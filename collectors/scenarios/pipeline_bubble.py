"""A pipeline stage waits for its neighbour: while the pipeline fills and empties, stages have nothing to compute.

Planted as a pipeline of few micro batches instead of stages that have everything they need at hand. A step of m micro
batches in p stages takes (m + p - 1) / m of the time. It shows as hcom_send, hcom_receive and hcom_batchSendRecv that
wait for the other side. The profiler's own Bubble counts hcom_receive only.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

from npulens.collectors.planting.fault import Fault, SimConfig, Window
from npulens.collectors.simulator.job import CommTask, Job, RankRecord

CAUSE = "pipeline_bubble"
ALSO = ("comm_exposed", "late_rank")
RANKS = 2
ORDER = -1  # other faults are planted in the script of a stage

MICRO = {2: (4, 6, 8), 4: (8, 12, 16)}
LEAST_NS = 100_000  # shorter waits are no bubble


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """As many layers and tokens as can be divided among stages and micro batches."""
    ranks = 2 if config.ranks < 4 else 4
    tokens = draw.choice((3_072, 4_608)) * 4 // ranks
    return replace(config, ranks=ranks, layers=ranks, hidden=5120, tokens=tokens, steps=min(config.steps, 3))


def plant(draw: random.Random, config: SimConfig) -> Fault:
    stages = draw.choice([number for number in (2, 4) if config.ranks % number == 0])
    changes = {"pipeline": stages, "micro_batches": draw.choice(MICRO[stages])}
    return Fault(CAUSE, ALSO, changes=changes, stays={**changes, "coupled": False}, find=bubbles)


def bubbles(job: Job, without: Job) -> Sequence[Window]:
    """What each rank waits for its neighbours."""
    return [window for record in job.ranks for window in _waits(record)]


def _waits(record: RankRecord) -> Iterator[Window]:
    """Waits in what passes between stages."""
    for span in record.of("comm_task"):
        detail = span.detail
        assert isinstance(detail, CommTask)
        between = "allReduce" not in record.by_id[detail.op].name
        if between and detail.task_type == "Notify_Wait" and span.dur_ns >= LEAST_NS:
            yield Window(record.rank, span.ts_ns, span.dur_ns)
