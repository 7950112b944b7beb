"""Groups ranks that show something to a similar degree: each group becomes one finding."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from npulens.analysis.idle.blame import similar_ranks
from npulens.analysis.intervals import Ints


def by_rank(rank: Ints, weight: Ints) -> Iterator[tuple[tuple[int, ...], Ints]]:
    """Groups of ranks with similar totals of weight, the worst first, each with the places of its rows."""
    totals = {int(one): int(weight[rank == one].sum()) for one in np.unique(rank)}
    for ranks in similar_ranks({one: total for one, total in totals.items() if total > 0}):
        yield ranks, np.flatnonzero(np.isin(rank, ranks))
