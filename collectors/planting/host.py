"""What faults of the host have in common: a Python function that takes its time."""

from __future__ import annotations

from collections.abc import Sequence

from npulens.collectors.simulator.config import SimConfig
from npulens.collectors.simulator.items import Close, Item, Open, Work


def frame(config: SimConfig, name: str, ns: int, inside: Sequence[Item] = ()) -> list[Item]:
    """A function named as the tracer names it, or only its time where Python functions are not traced."""
    if not config.frames:
        return [*inside, Work("python", name, ns)]
    return [Open("python", name, 2_000), *inside, Work("python", name, ns), Close(1_000)]
