"""The kinds of captures that a job is written as: what real profilers leave out, cut off or call otherwise.

A dialect changes what is recorded of a job, never what the job does, except where the job itself must be another one
for the capture to exist (graphs, a pair of ranks that send and receive). It goes with any scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from npulens.collectors.simulator import recorded as edits
from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.job import Job, RankRecord

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
    recorded: Recorded | None = None
    kineto: Recorded | None = None  # where a Kineto trace differs in another way
    hides: tuple[str, ...] = ()  # causes of which such a capture shows nothing
    unnamed: tuple[str, ...] = ()  # causes that it does not record: the host is late, and nobody says why
    present: tuple[str, ...] = ()  # causes that every capture of the dialect holds, planted or not
    instead: tuple[str, ...] = ()  # causes that are a right answer for a fault of the host, whose links are lost
    absent: tuple[str, ...] = ()  # causes that are a right answer for the lateness of a rank that was not captured

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
        recorded=edits.marks_of_910a,
        hides=("frequency_drop",),
    ),
    "unlinked": Dialect(
        "Of 85 % of the device's tasks nobody knows what launched them.",
        recorded=edits.without_launches,
        instead=("idle_unexplained",),
    ),
    "external_id": Dialect(
        "Operators end before the call that launches their kernel does, or before it begins: External id ties them.",
        ("kineto",),
        recorded=edits.operators_end_early,
    ),
    "p2p_bare": Dialect(
        "Two ranks send and receive; nothing says how long each waited in it.",
        ranks=2,
        pair=True,
        changes={"paired": True},
        recorded=edits.without_waits,
        absent=("pipeline_bubble",),
    ),
    "uneven_bytes": Dialect(
        "The same collective has another number of bytes on every rank.", ranks=2, recorded=edits.other_bytes
    ),
    "custom_comm": Dialect(
        "Communication by kernels that are no NCCL or HCCL operators, without a word on groups.",
        ranks=2,
        recorded=edits.fused_kernels,
        kineto=edits.own_kernels,
        hides=("retransmission", "slow_link", "small_packets"),
    ),
    "shifted_windows": Dialect(
        "Ranks start one collective apart, in the middle of a step; what was launched before has no launch.",
        ranks=2,
        changes={"ragged": True},
    ),
    "bare_list": Dialect(
        "Kineto of 2020: a list of events without an envelope, in whole microseconds.", ("kineto",), unnamed=("gc",)
    ),
    "renamed": Dialect("Files and directories have names that say nothing."),
    "merged": Dialect("Several ranks in one Kineto file.", ("kineto",), ranks=2),
    "first_step": Dialect(
        "The job has just begun: the first launch of its first step loads a library for 600 ms.",
        changes={"first_use_ns": FIRST_USE_NS, "first_step": 1},
        present=("first_use",),
    ),
    "graphs": Dialect("Kernels are nodes of replayed graphs, which alone are launched.", changes={"graphs": True}),
    "vllm": Dialect("Steps are execute_context_N(..)_generation_M(..) annotations.", recorded=edits.served),
    "no_steps": Dialect("Nothing marks the steps.", recorded=edits.without_steps, hides=("step_jitter",)),
}
