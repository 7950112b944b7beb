"""The host waits for the device, so that afterwards the device waits for the host.

## What it measures
Gaps of the device that a synchronising call made: `.item()`, stream, device and event synchronise, blocking copies.
Counted is the call's way back: the device is done, the call has not returned. Then comes what the host needs until it
issues again. It counts as far as the gap would not be there if nothing were read in the middle of a step. For that the
run is replayed without these calls, their copies and the operators around them.

## Why it costs
While a call blocks, the host loses the lead that hides its own work. After the call the device has nothing to do until
the next launch has made its way.

## What to do
Keep the value on the device (`torch.where` instead of `if`, `clip_grad_norm_` without `.item()`). Read the loss every
so many steps; copy with non_blocking=True and read one step later. On Ascend check ASCEND_LAUNCH_BLOCKING=0; on CUDA,
CUDA_LAUNCH_BLOCKING=0.

## Limits of the method
Where no runtime calls are recorded (Level0), `aten::_local_scalar_dense` and copies that last until they are done stand
for the calls. The last read of a step is taken for the loss, which is normal, unless half of the step's launches follow
it. Where no steps are marked, the read at which the host's loop turns is that last one. It is the rarest of the kinds
of reads that keep the host longest. Nearly every kernel that recurs must run between two of them. A run that shows no
such loop counts as one step. A call around a copy longer than 20 us waits for the copy (see copy_exposed). So does a
blocking copy in which the device idles, where the device recorded no copies. Where reads in the middle of steps hold
nothing up, the calls at the ends count. Of these it is the time in which the host sat in them and the device idled.

## References
PyTorch performance tuning guide, "Avoid unnecessary CPU-GPU synchronization"; aclrtSynchronizeStream in CANN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Evidence, Value, Words
from npulens.analysis.idle.blame import blame, similar_ranks
from npulens.analysis.idle.copy_calls import copy_calls
from npulens.analysis.idle.culprit import spoken
from npulens.analysis.idle.device_reads import reads
from npulens.analysis.idle.host_names import special
from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.pieces import idle
from npulens.analysis.intervals import Ints, distinct
from npulens.analysis.replay import whatif
from npulens.analysis.run import Run
from npulens.analysis.steady import steady_ns

NEEDS = ("kernels", "launches")

#: Evidence: so many of the longest calls.
_LONGEST = 3

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: synchronising calls ({calls} in each step) drain the device, which then idles {idle_ns} "
            "({idle_share})[[; {code_share} of that because of {code}]]",
            "Leave out what synchronises[[ ({code})]]. Keep values on the device, or read them every so many steps, "
            "or copy with non_blocking=True and look one step later."
            "[[npu:  Check that ASCEND_LAUNCH_BLOCKING is not set.]]"
            "[[cuda:  Check that CUDA_LAUNCH_BLOCKING is not set.]]"
            "[[rocm:  Check that HIP_LAUNCH_BLOCKING is not set.]]",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步 {calls} 次同步调用排空队列，"
            "设备随后空闲 {idle_ns}（{idle_share}）[[，其中 {code_share} 由 {code} 引起]]",
            "去掉引起同步的操作[[（{code}）]]：把值留在设备上、隔若干步再读，或用 non_blocking=True 拷贝后下一步再看。"
            "[[npu: 确认没有设置 ASCEND_LAUNCH_BLOCKING。]][[cuda: 确认没有设置 CUDA_LAUNCH_BLOCKING。]]"
            "[[rocm: 确认没有设置 HIP_LAUNCH_BLOCKING。]]",
        )
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that are drained most."""
    pieces, midway = run.get(idle), run.get(reads)
    mine = pieces.pick("sync_stall") & ~run.get(copy_calls).pieces
    ranks = next(similar_ranks({rank: ns for rank, ns in pieces.totals(mine).items() if ns}), None)
    if ranks is None:
        return
    found = blame(run, pieces, ranks, mine)
    calls = distinct(pieces.host[found.pieces])
    calls = calls[calls != NONE]
    per_rank = max(
        _outermost(run, rank, pieces.host[of][mine[of]]) for rank in found.ranks for of in (pieces.on(rank),)
    )  # fmt: skip
    numbers: dict[str, Value] = {**found.numbers, "calls": max(1, round(per_rank / run.step_count))}
    # Reads at the end of a step are normal. Of them only the idle time counts in which the host sat in the call. So it
    # does where reads in the middle of a step hold nothing up, and others do.
    change, ceiling = midway.change, None
    if not midway.calls or whatif.saved_ns(run, change) < limits.min_share * run.get(steady_ns):
        change, ceiling = Change(syncs=calls), found.measured_ns
    shows = tuple(dict.fromkeys((*found.evidence[:2], *_longest(run, calls), *found.evidence[2:])))
    yield Candidate(
        "sync_stall", "found", numbers, shows, change, ceiling_ns=ceiling, measured_ns=found.measured_ns
    )  # fmt: skip


def _longest(run: Run, calls: Ints) -> list[Evidence]:
    """The calls in which the host waits longest: there it loses its lead, however far behind the gaps lie."""
    rows = run.con.execute(
        "SELECT rank, ts_ns, dur_ns, span_id, name FROM span WHERE list_contains(?, span_id) "
        f"ORDER BY dur_ns DESC, span_id LIMIT {_LONGEST}", [calls.tolist()],
    ).fetchall()  # fmt: skip
    return [Evidence(rank, begin, length, span, spoken(name)) for rank, begin, length, span, name in rows]


def _outermost(run: Run, rank: int, calls: Ints) -> int:
    """How many calls these are; one that is recorded on two levels, one inside the other, is one."""
    spans = run.get(special)[rank]
    mine = np.isin(spans.ids, calls)
    starts, ends = spans.starts[mine], spans.ends[mine]
    order = np.lexsort((-ends, starts))
    reach = np.maximum.accumulate(ends[order])
    return int((ends[order][1:] > reach[:-1]).sum()) + bool(len(order))
