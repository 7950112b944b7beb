"""Host time that would not be spent, and whose it is where a queue's thread launches for the script's.

A change says when host time would not be spent, not by whom. Without an operator neither the script
nor the queue has anything to do for it, so a window counts for both: what one waits for lies before
what the other does, and no moment is given back twice. Only what lies within the work of the queue
and begins or ends with one of its spans is the queue's alone, and so is, where no span tells, what
lies there while everything waits for the queue.
"""

from __future__ import annotations

import numpy as np

from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.run import Run

_EDGES = """
WITH queue AS (
    SELECT DISTINCT coalesce(t.tid, 'track ' || t.track) AS tid FROM span s JOIN track t USING (track)
    WHERE s.rank = $rank AND s.kind = 'dequeue'
)
SELECT s.ts_ns AS ts, s.ts_ns + s.dur_ns AS "end", coalesce(t.tid, 'track ' || t.track) IN (FROM queue) AS queued
FROM span s JOIN track t USING (track)
WHERE s.rank = $rank AND t.kind = 'host_thread' AND s.dur_ns > 0
    AND (s.ts_ns IN (SELECT unnest($starts)) OR s.ts_ns + s.dur_ns IN (SELECT unnest($ends)))
"""


def of_script(run: Run, rank: int, windows: Intervals, queue: Intervals, backlog: Intervals) -> Intervals:
    """The windows less those that are the queue's alone. `queue`: when it worked, `backlog`: when all waited for it."""
    asked = np.flatnonzero(queue.within(windows.starts, windows.ends) == windows.ends - windows.starts)
    if not len(queue.starts) or not len(asked):
        return windows
    votes = _votes(run, rank, windows.starts[asked], windows.ends[asked])

    def those(of: Ints) -> Intervals:
        return Intervals(windows.starts[of], windows.ends[of])

    return windows - those(asked[votes > 0]) - (those(asked[votes == 0]) & backlog)


def _votes(run: Run, rank: int, starts: Ints, ends: Ints) -> Ints:
    """How many edges of spans say that each window is the queue's, less those that say it is not."""
    rows = run.con.execute(_EDGES, {"rank": rank, "starts": starts.tolist(), "ends": ends.tolist()}).fetchnumpy()
    ts, end = (np.ma.getdata(rows[name]).astype(np.int64) for name in ("ts", "end"))
    vote = np.where(np.ma.getdata(rows["queued"]).astype(np.bool_), 1, -1)
    votes = np.zeros(len(starts), np.int64)
    for edges, moments in ((ts, starts), (end, ends)):
        for says in (1, -1):
            votes += says * np.isin(moments, edges[vote == says])
    return votes
