"""Lanes and parents: the rules of nest.py checked pair by pair, and the C twin against Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npulens.ingest.tables import nest

rows = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 80), st.sampled_from([0, 1, 2, 5, 9, 30, 70])), max_size=40)


def arrays(found: list[tuple[int, int, int]]) -> list[np.ndarray]:
    ordered = sorted(found, key=lambda r: (r[0], r[1], -r[2]))
    columns = [np.array(c, np.int64) for c in zip(*ordered, strict=True)] if ordered else [np.zeros(0, np.int64)] * 3
    return [*columns, np.arange(len(ordered), dtype=np.int64)]


@settings(max_examples=300, deadline=None)
@given(rows, st.integers(0, 40))
def test_spans_of_a_lane_never_overlap_and_children_lie_below(found: list[tuple[int, int, int]], cut: int) -> None:
    track, start, dur, ids = arrays(found)
    depth, parent = nest.Nest().place(track, start, dur, ids)
    end = start + dur
    for i in range(len(ids)):
        for j in range(i):
            if track[i] == track[j] and depth[i] == depth[j]:
                assert end[j] <= start[i], "two spans of one lane overlap"
        above = [
            j for j in range(len(ids))
            if j < i and track[j] == track[i] and start[j] <= start[i] and end[j] > start[i] and end[j] >= end[i]
        ]  # fmt: skip
        if parent[i] < 0:
            assert not above
        else:
            assert parent[i] in above and depth[parent[i]] < depth[i]
            assert start[parent[i]] == max(start[j] for j in above), "not the innermost"
    again = nest.Nest()
    halves = [
        again.place(*(a[:cut] for a in (track, start, dur, ids))),
        again.place(*(a[cut:] for a in (track, start, dur, ids))),
    ]
    assert np.concatenate([half[0] for half in halves]).tolist() == depth.tolist()
    assert np.concatenate([half[1] for half in halves]).tolist() == parent.tolist()


@settings(max_examples=200, deadline=None)
@given(rows)
def test_the_c_twin_is_the_same(found: list[tuple[int, int, int]]) -> None:
    if nest._native is None:
        pytest.skip("built without the C extension")
    columns = arrays(found)
    fast = nest.Nest().place(*columns)
    native, nest._native = nest._native, None
    try:
        slow = nest.Nest().place(*columns)
    finally:
        nest._native = native
    assert fast[0].tolist() == slow[0].tolist() and fast[1].tolist() == slow[1].tolist()


def test_a_crowded_track_is_bounded_and_counted() -> None:
    many = nest.LANES + 50
    start = np.arange(many, dtype=np.int64)
    lanes = nest.Nest()
    depth, _ = lanes.place(np.zeros(many, np.int64), start, np.full(many, 10**6, np.int64) + start, start)
    assert depth.max() == nest.LANES - 1
    assert lanes.crowded == 50
