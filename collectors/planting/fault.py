"""What a scenario plants: a change of single durations, of the script, or of the job's configuration.

A scenario is a file of ``collectors/scenarios`` with

* ``CAUSE``: what it plants, a word of ``analysis/causes.py``; the file has the same name;
* ``ALSO``: causes that legitimately show as well, wherever it is planted;
* ``plant(draw, config) -> Fault``: draws every parameter from ``draw`` and nothing from anywhere else, so that the same
  seed plants the same fault;
* where they are needed: RANKS (the fewest that the job must have), LEVELS and FORMATS (of captures that can show it).
  ORDER is -1 if it changes the script that others are planted in. It is 1 if it is planted last, in the job with all
  the others. ``suit(draw, config) -> config`` says what else the job must be for it to be possible; no fault yet.

What the fault changes is found by itself. The moments of its cost changes and of the items it added are the windows of
the truth. ``find`` adds to that where a fault shows elsewhere, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from npulens.collectors.simulator.config import Cost, Edit, Perturb, SimConfig
from npulens.collectors.simulator.items import Item
from npulens.collectors.simulator.job import Job

__all__ = ["Capture", "Cost", "Edit", "Fault", "Item", "Perturb", "SimConfig", "Window"]


class Window(NamedTuple):
    """A moment on the clock of its rank, in ns since 1970."""

    rank: int
    ts_ns: int
    dur_ns: int


@dataclass(frozen=True)
class Capture:
    """What the profiler was told to write, and what of it is left."""

    format: str = "text"  # 'text', 'db' or 'kineto'
    level: int = 1
    ranks: tuple[int, ...] = (0,)
    dropped: tuple[str, ...] = ()  # files taken away, by name


@dataclass(frozen=True)
class Fault:
    cause: str
    also: tuple[str, ...] = ()
    rank: int | None = None  # the rank it is planted on; None for all
    captured: bool = True  # False: a capture without that rank, unless another fault needs it
    own: str = ""  # of a late rank: the cause that shows where the rank itself was captured
    perturb: Perturb | None = None  # changes single durations; draws no numbers
    edit: Edit | None = None  # changes the items of a rank and step; what it adds has no place
    changes: Mapping[str, Any] = field(default_factory=dict)  # fields of the configuration
    stays: Mapping[str, Any] = field(default_factory=dict)  # of these in the job without it, for the same work
    seen: Callable[[Capture], str] | None = None  # the cause as a capture shows it, where not every one can
    find: Callable[[Job, Job], Sequence[Window]] | None = None  # more windows, from the job with and without it
