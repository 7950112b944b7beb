"""The tasks of collective operators: waits, notifications and transfers, with the same names for all profiler levels.

Level1 and above name them Notify_Wait, Notify_Record, Memcpy, Reduce_Inline, RDMASend with the peer. Level0 shows the
hardware's own tasks (Notify Wait, Write Value, SDMA) without it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.idle.host_names import span_kinds
from npulens.analysis.intervals import Ints
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.run import Run

WAIT, TELL, TRANSFER = 0, 1, 2
#: A notification by RDMA is a send of a few bytes.
_NOTIFICATION_BYTES = 8

# What a part is follows from its name and type, of which there are few: they are matched once, not for every part.
_TASKS = f"""
WITH part AS MATERIALIZED (
    SELECT s.span_id, c.op_span_id, s.ts_ns, s.dur_ns, s.name, s.name || ' ' || coalesce(c.task_type, '') AS said,
        coalesce(c.src_local, c.src_rank, -1) AS src, coalesce(c.dst_local, c.dst_rank, -1) AS dst,
        coalesce(CASE WHEN c.dst_rank = s.rank AND c.src_rank <> s.rank THEN c.src_rank ELSE c.dst_rank END, -1)
            AS peer, c.bytes
    FROM comm c JOIN span s USING (span_id)
    WHERE s.kind = 'comm_task' AND c.op_span_id IS NOT NULL
        AND coalesce(c.task_type, s.name) <> 'Other'  -- helpers of old versions: what they do is not recorded
), told AS MATERIALIZED (
    SELECT name, said, CASE WHEN regexp_matches(said, 'notify.?wait', 'i') THEN {WAIT}
        WHEN regexp_matches(said, 'notify.?record|write.?value', 'i') THEN {TELL} ELSE {TRANSFER} END AS what,
        name ILIKE '%RDMASend%' AS sends
    FROM (SELECT DISTINCT name, said FROM part)
)
SELECT span_id, op_span_id, ts_ns, dur_ns,
    CASE WHEN what = {TRANSFER} AND sends AND bytes <= {_NOTIFICATION_BYTES} THEN {TELL} ELSE what END AS what,
    src, dst, peer, coalesce(bytes, -1) AS bytes
FROM part JOIN told USING (name, said) ORDER BY ts_ns, span_id
"""


@dataclass(frozen=True)
class CommTasks:
    """One row per part, by start; `op` is the row of its operator in `collectives(run)`."""

    op: Ints
    ts: Ints
    end: Ints
    what: Ints
    src: Ints  # rank within the group (global where only that is known); -1: not recorded
    dst: Ints
    peer: Ints  # global rank of the other side; -1: not recorded
    bytes: Ints
    meeting: NDArray[np.bool_]  # a wait for the peers to come, not for their transfers

    def __len__(self) -> int:
        return len(self.op)


def comm_tasks(run: Run) -> CommTasks:
    """The parts of the run's collective operators."""
    none = dict.fromkeys(("op_span_id", "ts_ns", "dur_ns", "what", "src", "dst", "peer", "bytes"), np.zeros(0))
    told = run.columns(_TASKS) if "comm_task" in run.get(span_kinds) else none
    rows = {name: np.asarray(values).astype(np.int64) for name, values in told.items()}
    operators = run.get(collectives)
    op = operators.at(rows["op_span_id"])
    keep = op >= 0
    rows = {name: values[keep] for name, values in rows.items()}
    op, ts, what, dst = op[keep], rows["ts_ns"], rows["what"], rows["dst"]
    return CommTasks(
        op, ts, ts + rows["dur_ns"], what, rows["src"], dst, rows["peer"], rows["bytes"],
        _meeting(len(operators), op, ts, what, dst),
    )  # fmt: skip


def _meeting(operators: int, op: Ints, ts: Ints, what: Ints, dst: Ints) -> NDArray[np.bool_]:
    """Waits for arrival: all before the first transfer that follows a wait, and the first for each peer.

    What comes later waits until a peer has read or sent its part: that is transfer, not lateness.
    """
    far = np.iinfo(np.int64).max
    wait = what == WAIT
    begun = np.full(operators, far)
    np.minimum.at(begun, op[wait], ts[wait])
    moving = (what == TRANSFER) & (ts > begun[op])
    gate = np.full(operators, far)
    np.minimum.at(gate, op[moving], ts[moving])
    known = np.flatnonzero(wait & (dst >= 0))
    order = known[np.lexsort((ts[known], dst[known], op[known]))]
    new = np.ones(len(order), np.bool_)
    new[1:] = (op[order][1:] != op[order][:-1]) | (dst[order][1:] != dst[order][:-1])
    found = wait & (ts < gate[op])
    found[order[new]] = True
    return np.asarray(found)
