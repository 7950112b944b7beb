"""Slow kernels that lie close together are told as one stretch, with its share of what they take too long."""

from __future__ import annotations

import pytest

from npulens.analysis.engine import check
from tests.tablecase import connection


def title(slow: list[int]) -> str:
    """A hundred kernels of 100 us one behind the other; those at some places take 300 us."""
    spans, at = [], 0
    for place in range(100):
        took = 300 if place in slow else 100
        spans.append({
            "id": 10 + place, "kind": "kernel", "name": "aten::mm", "at": at, "for": took,
            "kernel": {"op_type": "MatMulV2", "input_shapes": "64,64;64,64", "input_dtypes": "FLOAT;FLOAT"},
        })  # fmt: skip
        at += took
    (finding,) = check(connection({"spans": spans}), only=["slow_tail"]).findings
    return finding.words["en"].title


def test_most_of_the_excess_in_a_short_stretch_is_told() -> None:
    """Two early ones, and eight in a row from the 81st on: 1.6 of 2.0 ms, in 2.4 of 12 ms, from 8.4 ms on."""
    said = title([5, 40, *range(80, 88)])
    assert ", 80.0 % of that in one stretch of 2.40 ms from 8.40 ms on. Worst " in said


@pytest.mark.parametrize("slow", [
    [*range(80, 87)],  # seven are few
    [*range(5, 95, 9)],  # all over the time
    [5, 20, 40, *range(80, 88)],  # 8 of 11: less than three quarters
])  # fmt: skip
def test_otherwise_nothing_is_said_of_it(slow: list[int]) -> None:
    assert "stretch" not in title(slow)
