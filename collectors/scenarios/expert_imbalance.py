"""The experts of one rank get more tokens than those of the others, in every layer.

Planted in a job whose two large products of a layer are grouped ones, for the experts of the rank. One rank takes over
tokens of all others. There they take longer and have other shapes (from Level1 on), and the rank comes late to the next
collective.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from npulens.collectors.planting.fault import Fault, SimConfig
from npulens.collectors.scenarios.imbalance import grown
from npulens.collectors.simulator.items import Item

CAUSE = "expert_imbalance"
ALSO = ("imbalance", "late_rank")
RANKS = 2


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """A job with experts."""
    return replace(config, experts=True)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    rank, percent = draw.randrange(config.ranks), draw.randint(20, 60)
    more = config.tokens * percent // 100

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        tokens = config.tokens + more if at == rank else config.tokens - more // (config.ranks - 1)
        return grown(items, config.tokens, tokens, "GroupedMatmul")

    return Fault(CAUSE, ALSO, rank, edit=edit)
