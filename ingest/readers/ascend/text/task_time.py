"""task_time.csv beside op_summary: the one lists every task of the device, the other says what the kernels were.

A task is a kernel of op_summary if device, stream and number agree and their times meet. op_summary may stamp a kernel
a little later than its task. Any other task is one of its own.
"""

from __future__ import annotations

from collections.abc import Sequence

from npulens.ingest.readers.ascend import device
from npulens.ingest.readers.ascend.cells import Csv
from npulens.ingest.readers.ascend.stage import count
from npulens.ingest.readers.ascend.text import columns
from npulens.ingest.tables.draft import Draft

_DEVICE = "Device_id"


def with_cores(every: str, files: Sequence[Csv]) -> str:
    """Rows of kernels; a core that they do not say is that of the one task with their stream, number and start."""
    if not files:
        return every
    tasks = " UNION ALL ".join(
        f"SELECT {file.whole(_DEVICE)} AS device, {file.whole(*columns.STREAM)} AS stream, "
        f"{file.whole(*columns.TASK)} AS task, {file.ns(*columns.START)} AS ts, {file.said(*columns.CORE)} AS core "
        f"FROM {file.name}" for file in files
    )  # fmt: skip
    return f"""SELECT k.* REPLACE (coalesce(k.core, t.core) AS core) FROM ({every}) k LEFT JOIN (
        SELECT device, stream, task, ts, min(core) AS core FROM ({tasks}) GROUP BY ALL HAVING count(DISTINCT core) = 1
        ) t ON t.device IS NOT DISTINCT FROM k.device AND t.stream = k.stream AND t.task = k.task AND t.ts = k.ts"""


def others(draft: Draft, whole: str, by_device: bool) -> str:
    """SQL: the tasks of the view task_told that are no kernel of the view kd_told.

    ``whole``: what a row must have. ``by_device``: both files say the device. A kernel that is no task may be
    any of the tasks that compute: none of them is taken then. The view task_doubt holds it, and whatever else leaves
    open which copies there were.
    """
    key = f"{'coalesce(device, -1)' if by_device else '0'} AS on_device, stream, task"
    draft.keep("kd_asked", f"SELECT row, {key}, ts, ts + dur AS till, comm FROM kd_told WHERE {whole}")
    draft.keep(
        "task_asked",
        f"""SELECT row, {key}, ts, ts + dur AS till, coalesce(core, '') AS type, name FROM task_told WHERE {whole}""",
    )
    draft.keep("task_same", _met("task_asked", "kd_asked"))
    draft.keep("kd_same", _met("kd_asked", "task_asked"))
    draft.keep(
        "task_else",
        f"""SELECT t.row, {device.COMPUTES} AS computes, {device.CARRIED} AS carries,
            regexp_matches(type || ' ' || name, '{device.COPIES}', 'i') AS copies, t.ts <= o.till AS talks
        FROM (SELECT * FROM task_asked WHERE row NOT IN (SELECT row FROM task_same)) t
        ASOF LEFT JOIN ({_so_far("kd_asked WHERE comm", "on_device")}) o
            ON o.on_device = t.on_device AND t.ts >= o.ts""",
    )
    lost = "SELECT row FROM kd_asked WHERE NOT comm AND row NOT IN (SELECT row FROM kd_same)"
    draft.keep("kd_lost", lost)
    draft.make(
        "CREATE OR REPLACE VIEW task_doubt AS FROM kd_lost UNION ALL SELECT row FROM task_else WHERE talks AND copies"
    )
    # What begins in an operator of communication may be a part of it, as any copy, wait or reduction is.
    alone = "SELECT row FROM task_else WHERE NOT coalesce(talks AND (carries OR NOT computes), false)"
    if count(draft, "SELECT count(*) FROM kd_lost"):
        alone += " AND NOT computes"
    return f"SELECT * FROM task_told WHERE row IN ({alone})"


def _so_far(rows: str, key: str) -> str:
    """SQL: of each row of a key how far all reach that began no later."""
    return f"SELECT {key}, ts, max(till) OVER (PARTITION BY {key} ORDER BY ts) AS till FROM {rows}"


def _met(mine: str, theirs: str) -> str:
    """SQL: the rows of one view that meet a row of the other with their device, stream and number."""
    key = "on_device, stream, task"
    return f"""SELECT m.row FROM {mine} m ASOF JOIN ({_so_far(theirs, key)}) t
        ON t.on_device = m.on_device AND t.stream = m.stream AND t.task = m.task AND m.till + {device.NEAR_NS} >= t.ts
        WHERE t.till + {device.NEAR_NS} >= m.ts"""


def names_copies(draft: Draft) -> bool:
    """Whether all tasks of the device are listed, so that a copy that is not there was none.

    The list shows it by tasks that are no kernels. A copy within an operator of communication may be its part.
    """
    listed = count(draft, "SELECT count(*) FROM dev JOIN kd ON kd.row = dev.kd WHERE is_task AND kind <> 'kernel'")
    return bool(listed) and not count(
        draft,
        """SELECT (SELECT count(*) FROM task_doubt) + (SELECT count(*) FROM dev WHERE kind = 'memcpy'
            AND EXISTS (FROM kd k WHERE k.comm AND dev.ts BETWEEN k.ts AND k.ts + k.dur))""",
    )
