"""A job whose hosts are all late, where only some of them leave their device idle.

In a collective every device waits for the last one. Its host alone makes a gap. The hosts of the others may be as
slow: what they take hides behind the wait. Once the last host is mended the next one takes its place. So the replay is
asked twice. Once the hosts of the ranks with gaps do nothing in them. Then no host does anything in gaps and waits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.finding import Change
from npulens.analysis.idle.blame import Blame
from npulens.analysis.idle.first_use import first_use
from npulens.analysis.idle.host_names import ANY_THREAD, special
from npulens.analysis.idle.host_spans import hosts
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import EMPTY, Intervals
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.waits import CLOCK, PEERS, TASKS, waits
from npulens.analysis.replay.draft import MIRROR
from npulens.analysis.replay.graph import graph
from npulens.analysis.replay.whatif import saved_ns
from npulens.analysis.run import Run

#: The hosts of all ranks are late if those whose devices idle give back at most this share of what all of them give.
MOST = 0.5


@dataclass(frozen=True)
class Job:
    """All hosts of a job together."""

    change: Change  # without what they did in gaps and in waits
    saved_ns: int  # so much shorter is the run
    alone_ns: int  # and so much with the change of the ranks that show it
    measured_ns: int  # gaps and waits of the rank that has most


def all_hosts(run: Run, found: Blame) -> Job | None:
    """The job whose hosts are all late; None: those that show it are the ones, or the others are not captured."""
    hidden = run.get(behind_waits)
    if len(run.ranks) < 2 or not hidden or (run.get(graph).settled.kind == MIRROR).any():
        return None
    gaps = run.get(idle)
    host = {rank: gaps.windows(rank, "host_late") | hidden.get(rank, EMPTY) for rank in run.ranks}
    if any(run.window(rank) is None or not len(windows.starts) for rank, windows in host.items()):
        return None
    change = Change(host=host)
    every, alone = saved_ns(run, change), saved_ns(run, found.change)
    if alone > MOST * every:
        return None
    return Job(change, every, alone, max(windows.total() for windows in host.values()))


def behind_waits(run: Run) -> dict[int, Intervals]:
    """Per rank: when its device did nothing but wait in a collective for others, without causes that have a name.

    Whether its host had a lead then does not count: it has that from the wait.
    """
    operators, found = run.get(collectives), run.get(waits)
    known = np.isin(found.how, (PEERS, TASKS, CLOCK)) & (found.wait_ns > 0)
    late = {}
    for rank in np.unique(operators.rank[known]).tolist():
        rows = np.flatnonzero(known & (operators.rank == rank))
        begins = np.maximum(found.arrival_ns[rows] - found.wait_ns[rows], operators.ts[rows])
        waited = Intervals.union_of(begins, np.minimum(found.arrival_ns[rows], operators.end[rows]))
        left = waited - (run.activity(rank).computing or EMPTY) - _of_other_causes(run, rank)
        if len(left.starts):
            late[rank] = left
    return late


def _of_other_causes(run: Run, rank: int) -> Intervals:
    """When the host was at something that is a cause of its own."""
    once, spans = run.get(first_use), run.get(special).get(rank)
    times = once[rank].times if rank in once else EMPTY
    if spans is None:
        return times
    threads = run.get(hosts).threads[rank]
    own = np.isin(spans.tracks, threads.tracks(threads.issuing | threads.queue)) | np.isin(spans.causes, ANY_THREAD)
    return times | Intervals.union_of(spans.starts[own], spans.ends[own])
