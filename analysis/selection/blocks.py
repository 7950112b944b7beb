"""Steps of one capture in blocks. Those who only cut do not load what judges them (analysis/regression/verdict.py)."""

from __future__ import annotations

import numpy as np

from npulens.analysis.intervals import Ints

#: Steps of one capture become at most so many blocks.
BLOCKS = 10


def edges_of(steps: int) -> Ints:
    """Where blocks of consecutive steps begin, and the end: at most BLOCKS of them, as equal in number as can be."""
    return np.linspace(0, steps, min(BLOCKS, steps) + 1).astype(np.int64)
