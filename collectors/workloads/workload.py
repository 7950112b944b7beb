"""What a workload is: one module of this folder, found by its name.

Its docstring says what it computes and which cause it shows, and it holds

    SHOWS     causes that a profile of it is meant to show
    SHAPES    name -> sizes; "small" is there and takes well under a second on a CPU, the others are the seeds'
    DTYPES    what it can be built in, "float32" first
    VARIANTS  "reference" first: the plainest code that is right; what is compared comes after it
    BATCH     the size that is the batch, or None
    build(variant, shape, dtype, device, seed) -> Case

The same seed gives every variant, type and device the same numbers. They are drawn on the CPU in float64 and then
converted. So ``build("reference", shape, "float64", "cpu", seed).step()`` is the truth for all of them. A variant that
this machine cannot run raises ``NotHere`` with the reason.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol, cast

from npulens.collectors import workloads


class NotHere(Exception):
    """This variant cannot run on this machine: the reason, and what it would take."""


@dataclass(frozen=True)
class Case:
    """One workload, ready to run. ``step`` does one step and returns its output: a tensor or a tuple of them."""

    step: Callable[[], Any]
    flops: int | None  # of one step, counted from the shapes
    bytes: int | None  # the least that one step of this variant must move to and from memory
    kernels: int | None = None  # launches of one step, where the variant fixes it


class Workload(Protocol):
    """A module of this folder."""

    __doc__: str | None
    __name__: str
    SHOWS: tuple[str, ...]
    SHAPES: Mapping[str, Mapping[str, int]]
    DTYPES: tuple[str, ...]
    VARIANTS: tuple[str, ...]
    BATCH: str | None

    def build(self, variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case: ...


_HELD = ("SHOWS", "SHAPES", "DTYPES", "VARIANTS", "BATCH", "build", "__doc__")


def names() -> list[str]:
    """Every workload; a name that begins with an underscore, and this file, are none."""
    found = (module.name for module in pkgutil.iter_modules(workloads.__path__))
    return sorted(name for name in found if not name.startswith("_") and name != "workload")


def workload(name: str) -> Workload:
    """The workload of that name, looked at before it is used."""
    if name not in names():
        raise ValueError(f"there is no workload {name!r}; there are: {', '.join(names())}")
    module: ModuleType = importlib.import_module(f"{workloads.__name__}.{name}")
    lacking = [each for each in _HELD if getattr(module, each, None) is None and each != "BATCH"]
    if lacking:
        raise TypeError(f"{module.__file__} lacks {', '.join(lacking)}")
    found = cast(Workload, module)
    if "small" not in found.SHAPES or found.VARIANTS[0] != "reference" or found.DTYPES[0] != "float32":
        raise TypeError(f"{module.__file__}: SHAPES needs 'small', VARIANTS begins 'reference', DTYPES 'float32'")
    return found
