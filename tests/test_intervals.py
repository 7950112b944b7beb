"""Interval sets against a brute-force reference: every nanosecond of a small range, one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from npulens.analysis.intervals import Intervals, distinct

RANGE = 60
spans = st.lists(st.tuples(st.integers(0, RANGE), st.integers(0, 12)), max_size=14)


def made(rows: list[tuple[int, int]]) -> Intervals:
    starts = np.array([start for start, _ in rows], np.int64)
    return Intervals.union_of(starts, starts + np.array([dur for _, dur in rows], np.int64))


def moments(rows: list[tuple[int, int]]) -> set[int]:
    return {moment for start, dur in rows for moment in range(start, start + dur)}


def listed(intervals: Intervals) -> set[int]:
    return {m for s, e in zip(intervals.starts.tolist(), intervals.ends.tolist(), strict=True) for m in range(s, e)}


@given(spans, spans)
def test_union_intersection_and_difference_moment_by_moment(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    x, y = made(a), made(b)
    assert listed(x | y) == moments(a) | moments(b)
    assert listed(x & y) == moments(a) & moments(b)
    assert listed(x - y) == moments(a) - moments(b)


@given(spans)
def test_a_union_is_sorted_disjoint_and_touches_nothing(rows: list[tuple[int, int]]) -> None:
    union = made(rows)
    assert (union.ends > union.starts).all()
    assert (union.starts[1:] > union.ends[:-1]).all()
    assert union.total() == len(moments(rows))


@given(spans, st.lists(st.tuples(st.integers(-5, RANGE + 20), st.integers(0, 30)), min_size=1, max_size=5))
def test_windows_and_gaps(rows: list[tuple[int, int]], windows: list[tuple[int, int]]) -> None:
    union, covered = made(rows), moments(rows)
    begins = np.array([begin for begin, _ in windows], np.int64)
    ends = begins + np.array([dur for _, dur in windows], np.int64)
    expected = [len(covered & set(range(b, e))) for b, e in zip(begins.tolist(), ends.tolist(), strict=True)]
    assert union.within(begins, ends).tolist() == expected
    begin, end = int(begins[0]), int(ends[0])
    assert listed(union.gaps(begin, end)) == set(range(begin, end)) - covered


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3), max_size=20))
def test_distinct_values_are_those_of_a_set_in_order(values: list[int]) -> None:
    there = np.array(values, np.int64)
    assert distinct(there).tolist() == sorted(set(values))
    assert there.tolist() == values  # they stay as they are
