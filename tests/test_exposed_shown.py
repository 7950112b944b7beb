"""Where a moment of exposed communication lies, by hand: only where nothing is computed beside it."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.ranks.exposure import exposed
from npulens.analysis.run import Run
from tests.tablecase import connection

US = 1_000


@pytest.mark.parametrize(
    ("kernels", "shown"),
    [
        ([(0, 900)], (900, 100)),  # the sliver behind it
        ([(400, 100)], (0, 1000)),  # exposed before and behind a short one: most of what lies between
        ([(100, 300), (450, 500)], (0, 100)),  # 100 + 50 + 50 of 1000: the longest stretch
        ([(0, 1000)], None),
    ],
)
def test_what_nothing_is_computed_beside(kernels: list[tuple[int, int]], shown: tuple[int, int] | None) -> None:
    """One all-reduce of a single rank from 0 to 1000 us, and kernels beside it."""
    spans: list[dict[str, Any]] = [
        {"id": 1, "rank": 0, "kind": "comm_op", "name": "allreduce_0", "at": 0, "for": 1000, "track": "s1",
         "comm": {"op_span_id": 1, "collective": "allreduce", "group_name": "g", "bytes": 64}},
    ]  # fmt: skip
    spans += [
        {"id": 2 + n, "rank": 0, "kind": "kernel", "name": "mm", "at": at, "for": length,
         "kernel": {"op_type": "mm", "input_shapes": "4,4"}}
        for n, (at, length) in enumerate(kernels)
    ]  # fmt: skip
    found = exposed(Run(connection({"spans": spans, "run": {"world_size": 1}})))
    where = [(one.ts_ns // US, one.dur_ns // US) for each in found for one in each.evidence]
    assert where == ([] if shown is None else [shown])
    for each in found:
        assert each.longest_ns == (1000 - sum(length for _, length in kernels)) * US
