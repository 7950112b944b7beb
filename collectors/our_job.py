"""``npulens collect train_step``: one of our workloads, a few steps of it, with a profiler around them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.collected import Collected, collected
from npulens.collectors.manifest import NAME
from npulens.collectors.recorder import Recorder
from npulens.collectors.settings import Settings
from npulens.collectors.workloads.workload import Case, NotHere, Workload, names, workload


def run(
    name: str, variant: str, sizes: Mapping[str, int], dtype: str, backend: str, settings: Settings, directory: Path,
    seed: int = 0,
) -> Collected:  # fmt: skip
    """Records the steps that the settings want; what it left."""
    if (directory / NAME).exists():
        raise FileExistsError(f"{directory} holds a result already; name another directory")
    try:
        case = workload(name).build(variant, sizes, dtype, open_backend(backend).device, seed)
        begun = time.time_ns()
        _recorded(case, Recorder(directory, replace(settings, defer=False), backend))
    except RuntimeError as error:  # torch's own: no memory, no such operator for this type on this device
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise NotHere(f"{name} {variant} {dtype} does not run on {backend}: {reason}") from error
    return collected(directory, backend, settings.active, begun)


def _recorded(case: Case, recorder: Recorder) -> None:
    recorder.start()
    try:
        while recorder.state == "recording":
            case.step()
            recorder.step()
    finally:
        recorder.stop()


def chosen(name: str, variant: str | None, shape: str | None, dtype: str | None) -> tuple[str, dict[str, int], str]:
    """Variant, sizes and type; what was not asked for is the plain code at the first of the seeds' shapes."""
    found = workload(name)
    plain = found.VARIANTS[1] if "unfused" in found.VARIANTS else found.VARIANTS[0]
    for wanted, known, what in ((variant, found.VARIANTS, "variants"), (dtype, found.DTYPES, "types")):
        if wanted is not None and wanted not in known:
            raise ValueError(f"{name} has no {wanted!r} among its {what}: {', '.join(known)}")
    return variant or plain, sizes(found, shape), dtype or found.DTYPES[0]


def sizes(found: Workload, shape: str | None) -> dict[str, int]:
    """``vit``, ``rows=512``, or both: a shape by its name, and sizes that differ from it."""
    name, _, rest = (shape or "").partition(",")
    if "=" in name:
        name, rest = "", str(shape)
    name = name or next(iter([each for each in found.SHAPES if not each.startswith(("small", "one"))]), "small")
    if name not in found.SHAPES:
        raise ValueError(f"there is no shape {name!r}; there are: {', '.join(found.SHAPES)}, or sizes: batch=4")
    made = dict(found.SHAPES[name])
    for part in filter(None, rest.split(",")):
        told = re.fullmatch(r"(\w+)=([0-9]{1,9})", part)
        if not told or told[1] not in made:
            raise ValueError(f"{part!r} is no size; there are: {', '.join(made)}, as in {next(iter(made))}=4")
        if int(told[2]) < 1 and made[told[1]] > 0:
            raise ValueError(f"{told[1]} is 1 at least")
        made[told[1]] = int(told[2])
    return made


def listed() -> Iterator[dict[str, Any]]:
    """What there is to run, without running it."""
    for name in names():
        found = workload(name)
        yield {
            "workload": name, "what": (found.__doc__ or "").partition(".")[0].partition(":")[0].replace("\n", " "),
            "shows": list(found.SHOWS), "variants": list(found.VARIANTS), "dtypes": list(found.DTYPES),
            "shapes": {shape: dict(made) for shape, made in found.SHAPES.items()},
        }  # fmt: skip
