"""The contract tables of a small database, made of arrays instead of statements.

A statement takes a millisecond to plan, whatever the size of its rows, and a rank needs a hundred. What the arrays are
not made for is left to the statements: they read databases of any size. Both say the same of the same database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from npulens.ingest.readers.ascend.db.few import analysis, details, links, series, spans
from npulens.ingest.readers.ascend.db.few.spans import All, of_kind, told
from npulens.ingest.readers.ascend.db.series import COUNTERS
from npulens.ingest.readers.ascend.db.tasks import TASK
from npulens.ingest.tables.arrays import Found, Rows, Unusual
from npulens.ingest.tables.steps import Ints

#: Tables that are left to the statements.
_OTHERS = ("MSTX_EVENTS", *sorted({table for table, *_ in COUNTERS} - set(series.COUNTED)))


def make(
    tables: Mapping[str, pa.Table], groups: Mapping[str, Sequence[int]], steps: Sequence[tuple[str, str]], rank: int
) -> All | None:
    """What is found in the raw tables of a database; None: the statements have to read it.

    ``groups``: the ranks of each group of communication. ``steps``: the columns of the profiler's split.
    """
    raws = {name.removeprefix("raw_"): Rows(table) for name, table in tables.items()}
    if any(len(raws[name]) for name in _OTHERS):
        return None
    try:
        made = spans.make(raws, Found())
        connected, copies = links.make(made)
        analysed = analysis.make(made, steps)
        details.make(made, connected, copies, analysed, groups, rank)
        series.make(made)
    except Unusual:
        return None
    return made


def facts(made: All) -> list[tuple[str, object]]:
    """What the tables say about their rank."""
    raws = made.raws
    ids = raws["NPU_INFO"].ints("id")
    names = [name for name, id_ in zip(raws["NPU_INFO"].texts("name").list, ids.tolist(), strict=True) if id_ >= 0]
    known = {name for name in names if name is not None}
    hosts = [host or uid for host, uid in zip(*(raws["HOST_INFO"].texts(name).list for name in ("hostName", "hostUid")),
                                              strict=True)]  # fmt: skip
    devices = np.concatenate([raws[table].ints("deviceId") for table in ("RANK_DEVICE_MAP", "TASK")])
    threads = made.api.x[made.api.x > 0]
    pids = raws["TASK"].ints("globalPid")
    return [
        ("device_id", _only(devices[(devices >= 0) & (devices < 2**31)])),
        ("device_name", known.pop() if len(known) == 1 else None),
        ("host", min((host for host in hosts if host is not None), default=None)),
        ("pid", _only(pids[pids > 0])), ("pid", _only(threads >> 32)),
    ]  # fmt: skip


def _only(values: Ints) -> int | None:
    """A number that all of them are."""
    known = np.unique(values)
    return int(known[0]) if len(known) == 1 else None


def counts(made: All) -> tuple[int, int, int, int, int, int]:
    """Communication tasks without a plane, copies, operators, those with shapes, kernels, those with types."""
    tasks = made.tasks
    on_stream = of_kind(tasks.kind, "comm_task") & (tasks.source == TASK) & ~tasks.helps
    found = (
        on_stream, of_kind(tasks.kind, "memcpy"), of_kind(made.api.kind, "cpu_op"),
        made.raws["PYTORCH_API"].texts("inputShapes").there, of_kind(tasks.kind, "kernel"),
        told(made.raws["COMPUTE_TASK_INFO"].texts("opType")).there,
    )  # fmt: skip
    one, two, three, four, five, six = (int(rows.sum()) for rows in found)
    return one, two, three, four, five, six
