"""Which kernels a transfer slows down, and by how much: by hand, on numbers alone."""

from __future__ import annotations

import numpy as np
import pytest

from npulens.analysis.detectors.contention import Limits, _of_any_rank

#: Kernels as (rank, ns, share of it beside a transfer).
Kernels = list[tuple[int, int, float]]
ALONE, BESIDE = [(0, 100, 0.0)] * 5, [(0, 150, 0.9)] * 5


def told(kernels: Kernels) -> tuple[list[int], list[bool]]:
    """What each takes too long, and whether it could be compared; all of them are of one kind."""
    rank, ns, share = (np.array(column) for column in zip(*kernels, strict=True))
    found = _of_any_rank(ns.astype(np.int64), np.zeros(len(ns), np.int64), rank, share.astype(np.float64), Limits())
    return found.less.tolist(), found.compared.tolist()


@pytest.mark.parametrize(("more", "less"), [
    ((0, 105, 0.1), 5),  # a short meeting takes its part
    ((0, 99, 0.1), 0),
    ((0, 150, 0.3), 50),
    ((0, 150, 0.0), 0),  # what is slow alone is slow for another reason
])  # fmt: skip
def test_all_that_a_transfer_takes_counts(more: tuple[int, int, float], less: int) -> None:
    assert told([*ALONE, *BESIDE, more])[0] == [0] * 5 + [50] * 5 + [less]


def test_where_nothing_is_slower_a_short_meeting_says_nothing() -> None:
    assert not any(told([*ALONE, *[(0, 101, 0.9)] * 5, (0, 150, 0.1)])[0])


def test_transfers_that_never_cover_a_kernel_slow_it_all_the_same() -> None:
    """A third beside a transfer that makes all of it half as fast: 100 becomes 100 + 17."""
    assert told([*ALONE, *[(0, 117, 0.33)] * 5])[0] == [0] * 5 + [17] * 5


def test_ranks_of_few_kernels_are_compared_together() -> None:
    few: Kernels = [(rank, *one) for rank in (0, 1) for one in ((100, 0.0), (150, 0.9)) for _ in range(3)]
    less, compared = told(few)
    assert less == [50 * (ns == 150) for _, ns, _ in few] and all(compared)
    assert not any(told(few[:6])[1])


@pytest.mark.parametrize("its_own", [[], [(1, 130, 0.0)] * 2])
def test_a_rank_that_is_slower_alone_or_never_alone_is_not_compared_with_others(its_own: Kernels) -> None:
    less, compared = told([*ALONE, *its_own, *[(1, 150, 0.9)] * 5])
    assert not any(less)
    assert not any(compared[-5:])
