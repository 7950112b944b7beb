"""The workload under test: which variants, types and shape, and cases of them on the chosen device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.bench.options import Options
from npulens.collectors.generated.saved import NAME, AsWorkload
from npulens.collectors.our_job import sizes
from npulens.collectors.workloads.workload import Case, Workload, workload

#: Whom the others are measured against, where a workload has it.
BASELINE = "unfused"


@dataclass(frozen=True)
class Subject:
    """One workload at one shape."""

    name: str
    work: Workload
    shape_name: str
    shape: Mapping[str, int]
    variants: tuple[str, ...]
    dtypes: tuple[str, ...]  # whose numerics are looked at
    timed: tuple[str, ...]  # whose times are taken
    seed: int
    backend: Backend

    def build(self, variant: str, dtype: str, shape: Mapping[str, int] | None = None, seed: int | None = None) -> Case:
        """A case on the device."""
        return self.work.build(
            variant, self.shape if shape is None else shape, dtype, self.backend.device,
            self.seed if seed is None else seed,
        )  # fmt: skip

    def truth(self, shape: Mapping[str, int] | None = None) -> Any:
        """What the plainest code says in float64 on the processor."""
        return self.work.build("reference", self.shape if shape is None else shape, "float64", "cpu", self.seed).step()


def asked_for(options: Options) -> Workload:
    """The workload of the options; a name that is not there is refused with those that are, before any device is.

    The directory of a kernel that was made of somebody's function is a workload too.
    """
    place = Path(options.workload)
    work: Workload = AsWorkload(place) if (place / NAME).is_file() else workload(options.workload)
    _known("variant", options.variants, work.VARIANTS)
    _known("type", options.dtypes, work.DTYPES)
    sizes(work, options.shape)
    return work


def subject(options: Options, backend: Backend) -> Subject:
    """What the options ask for, on this device."""
    work = asked_for(options)
    if isinstance(work, AsWorkload):
        work.opened(backend)
    shape = options.shape or _usual(work, backend)
    variants, dtypes = options.variants or tuple(work.VARIANTS), options.dtypes or tuple(work.DTYPES)
    return Subject(
        work.__name__.rpartition(".")[2], work, shape, sizes(work, shape), variants, dtypes,
        dtypes if options.dtypes else dtypes[:1], options.seed, backend,
    )  # fmt: skip


def _usual(work: Workload, backend: Backend) -> str:
    """The small shape on a processor; on a device the first of the others: small is over before it is launched."""
    others = [name for name in work.SHAPES if not name.startswith(("small", "one"))]
    return others[0] if others and backend.name != "cpu" else "small"


def _known(what: str, asked: tuple[str, ...], there: tuple[str, ...]) -> None:
    for name in asked:
        if name not in there:
            raise ValueError(f"there is no {what} {name!r}; there are: {', '.join(there)}")
