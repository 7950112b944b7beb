"""Which kernels compute again what the forward pass had computed, as activation checkpointing makes them.

MFU leaves their work out, HFU counts it. Only evidence tells them, per kernel, from the operator that launched it:

- Within a node of the backward pass (`autograd::engine::evaluate_function`, `...Backward0`), what
  `CheckpointFunctionBackward` runs itself is computed again.
- So is what lies between the first and the last forward operator (`aten::linear`, `aten::layer_norm`, ...) of another
  node. A node's own gradients never call those; a checkpoint that reruns a block when a saved tensor is unpacked does.
- What torch.compile puts into one node (`CompiledFunctionBackward`) cannot be told, and neither can a kernel whose
  launching operator was not recorded.

Where a rank's host operators hold no backward pass at all, or its steps are those of a serving engine, nothing is
computed again.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.device.kernels import NO_HOST, Kernels, kernels
from npulens.analysis.intervals import Ints
from npulens.analysis.run import Run
from npulens.analysis.work.operators import operators

NEW, AGAIN, UNTOLD = range(3)
#: Operators that only a forward pass calls.
FORWARD = (
    "linear", "conv1d", "conv2d", "conv3d", "layer_norm", "group_norm", "batch_norm", "rms_norm", "embedding",
    "scaled_dot_product_attention", "dropout",
)  # fmt: skip
_NODE = r"^(autograd::engine::evaluate_function: .*|[A-Za-z_]\w*Backward\d*)$"
_CHECKPOINT, _COMPILED = "CheckpointFunctionBackward", "CompiledFunctionBackward"
# A node within its evaluate_function is the inner one of the two: that of the checkpoint runs what it reruns itself.
_NODES = f"""
    SELECT rank, track, ts_ns, ts_ns + dur_ns AS end_ns, depth, name = '{_CHECKPOINT}' AS again,
        contains(name, '{_COMPILED}') AS compiled
    FROM span WHERE kind = 'cpu_op' AND contains(name, 'Backward') AND regexp_matches(name, '{_NODE}')
    ORDER BY track, ts_ns, depth
"""
_FORWARD = f"""
    SELECT track, ts_ns, ts_ns + dur_ns AS end_ns FROM span
    WHERE kind = 'cpu_op' AND name IN ({", ".join(f"'aten::{name}'" for name in FORWARD)})
"""
_LINKED = """
    SELECT l.dst_span_id AS span_id, arg_max(s.track, s.ts_ns) AS track, max(s.ts_ns) AS ts_ns
    FROM link l JOIN span s ON s.span_id = l.src_span_id
    WHERE s.kind = 'cpu_op' AND l.route <> 'fwdbwd' GROUP BY 1 ORDER BY 1
"""


def recomputed(run: Run) -> NDArray[np.int8]:
    """Per kernel: NEW, AGAIN or UNTOLD. Asked only of those that multiply matrices, the others are NEW."""
    every, found = run.get(kernels), run.get(operators)
    told = np.full(len(every), NEW, np.int8)
    served = [rank for rank in run.ranks if any(step.phase is not None for step in run.steps[rank])]
    multiply = np.array([bool(one.work.matrix) for one in found.every], np.bool_)
    rows = np.flatnonzero(multiply[found.of] & ~np.isin(every.rank, served)) if len(every) else np.zeros(0, np.int64)
    track, ts = _begun(run, every, rows)
    there = track != NO_HOST
    told[rows[~there]] = UNTOLD
    told[rows[there]] = _nodes(run).told(track[there], ts[there])
    return told


def _begun(run: Run, every: Kernels, rows: Ints) -> tuple[Ints, Ints]:
    """Where and when the host operator began that launched each; on Ascend the link from torch's operator says it."""
    track, ts = every.host_track[rows], every.host_ts[rows]
    missing = np.flatnonzero(every.host[rows] == NO_HOST)
    linked = run.columns(_LINKED) if len(missing) else {}
    if len(linked.get("span_id", ())):
        ids, tracks, begins = (linked[name].astype(np.int64) for name in ("span_id", "track", "ts_ns"))
        at = np.minimum(np.searchsorted(ids, every.span_id[rows[missing]]), len(ids) - 1)
        found = ids[at] == every.span_id[rows[missing]]
        track[missing] = np.where(found, tracks[at], NO_HOST)
        ts[missing] = np.where(found, begins[at], NO_HOST)
    return track, ts


@dataclass(frozen=True)
class _Nodes:
    """The nodes of the backward pass, by track and start, each with the node around it and what it reruns."""

    track: Ints
    begin: Ints
    end: Ints
    around: Ints  # -1: none
    from_ns: Ints  # what starts between these is computed again
    until_ns: Ints
    compiled: NDArray[np.bool_]

    def innermost(self, track: Ints, at: Ints) -> Ints:
        """The last node that runs at a moment of a track; -1 where none does."""
        found = _last_before(self.track, self.begin, track, at)
        while True:
            over = np.flatnonzero(found >= 0)
            over = over[(self.track[found[over]] != track[over]) | (self.end[found[over]] <= at[over])]
            if not len(over):
                return found
            found[over] = np.where(self.track[found[over]] == track[over], self.around[found[over]], -1)

    def told(self, track: Ints, at: Ints) -> NDArray[np.int8]:
        """What operators are that start at these moments."""
        node = self.innermost(track, at)
        inside = np.flatnonzero(node >= 0)
        of = node[inside]
        again = (at[inside] >= self.from_ns[of]) & (at[inside] < self.until_ns[of])
        found = np.full(len(at), NEW, np.int8)
        found[inside] = np.where(again, AGAIN, np.where(self.compiled[of], UNTOLD, NEW))
        return found


def _nodes(run: Run) -> _Nodes:
    rows = run.columns(_NODES)
    track, begin, end, depth = (rows[name].astype(np.int64) for name in ("track", "ts_ns", "end_ns", "depth"))
    again = rows["again"].astype(np.bool_)
    none = np.iinfo(np.int64).max
    bare = _Nodes(
        track, begin, end, _around(track, begin, depth), np.where(again, begin, none), np.where(again, end, -none),
        rows["compiled"].astype(np.bool_),
    )  # fmt: skip
    if not len(track):
        return bare
    forward = run.columns(_FORWARD)
    starts = forward["ts_ns"].astype(np.int64)
    node = bare.innermost(forward["track"].astype(np.int64), starts)
    inside = node >= 0
    np.minimum.at(bare.from_ns, node[inside], starts[inside])
    np.maximum.at(bare.until_ns, node[inside], forward["end_ns"].astype(np.int64)[inside])
    return bare


def _last_before(track: Ints, begin: Ints, of: Ints, at: Ints) -> Ints:
    """The last of sorted (track, begin) that is no later than each (of, at); -1 where there is none."""
    order = np.lexsort((np.concatenate((np.zeros(len(track)), np.ones(len(of)))), np.concatenate((begin, at)),
                        np.concatenate((track, of))))  # fmt: skip
    before = np.cumsum(order < len(track)) - 1
    found = np.empty(len(order), np.int64)
    found[order] = before
    return found[len(track) :]


def _around(track: Ints, begin: Ints, depth: Ints) -> Ints:
    """The node around each: the last one before it on its track that lies less deep."""
    found, open_ = np.full(len(track), -1, np.int64), list[int]()
    levels, lanes = depth.tolist(), track.tolist()
    for at, level in enumerate(levels):
        while open_ and (lanes[open_[-1]] != lanes[at] or levels[open_[-1]] >= level):
            open_.pop()
        found[at] = open_[-1] if open_ else -1
        open_.append(at)
    return found
