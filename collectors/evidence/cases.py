"""Every workload, variant and type at its small size, and a handful of the values that each gave.

The values stand at positions that follow from the size alone, so whoever has the seed can compute what should be there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from typing import Any

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.harness.numerics import compare, tolerance
from npulens.collectors.workloads.workload import NotHere, names, workload

#: Of each output of a step so many values are kept.
VALUES = 8


def cases(backend: str, seed: int, values: bool = False) -> Iterator[dict[str, Any]]:
    """One entry each; ``outcome`` is run, wrong or not here."""
    device = open_backend(backend)
    modes = device.properties()
    for name in names():
        found = workload(name)
        truth = _truth(name, seed)
        for variant in found.VARIANTS:
            for dtype in found.DTYPES:
                about = {"workload": name, "variant": variant, "dtype": dtype}
                print(f"{name} {variant} {dtype}", file=sys.stderr, flush=True)
                try:
                    made = found.build(variant, found.SHAPES["small"], dtype, device.device, seed).step()
                    device.synchronize()
                except (NotHere, RuntimeError) as why:
                    reason = (str(why).splitlines() or [type(why).__name__])[0]
                    yield {**about, "outcome": "not here", "reason": reason}
                    continue
                allowed = tolerance(dtype, modes)
                told = compare(made, truth, dtype, allowed)
                error = None if told.relative_error is None else float(f"{told.relative_error:.1e}")
                outcome = "run" if told.ok else "wrong"
                more = {"allowed": allowed, "values": some(made)} if values else {}
                yield {**about, "outcome": outcome, "reason": told.why, "relative_error": error, **more}


def some(output: Any) -> list[list[float]]:
    """The values of each output at fixed positions, the first and the last among them."""
    return [[float(flat[at]) for at in positions(len(flat))] for flat in _flat(output)]


def positions(count: int) -> list[int]:
    """Evenly spread over so many values."""
    wanted = min(VALUES, count)
    return [(count - 1) * place // max(1, wanted - 1) for place in range(wanted)]


def truths(seed: int) -> dict[str, list[dict[str, Any]]]:
    """What every workload gives in float64 on a processor: the same values, and the mean size of all of them."""
    found = {}
    for name in names():
        outputs = _flat(_truth(name, seed))
        found[name] = [
            {"values": [float(flat[at]) for at in positions(len(flat))],
             "size": float(flat.norm()) / math.sqrt(max(1, len(flat)))}
            for flat in outputs
        ]  # fmt: skip
    return found


def _truth(name: str, seed: int) -> Any:
    found = workload(name)
    return found.build("reference", found.SHAPES["small"], "float64", "cpu", seed).step()


def _flat(output: Any) -> list[Any]:
    import torch

    several = list(output) if isinstance(output, (tuple, list)) else [output]
    return [each.detach().to("cpu", torch.float64).reshape(-1) for each in several]
