"""What a variant has to do, counted from its shapes, and how fast it did it.

Its share of a peak is not given, because no peak was measured: operations per second, bytes per second and their
ratio say as much without supposing one.
"""

from __future__ import annotations

from typing import Any

from npulens.collectors.workloads.workload import Case


def model(case: Case, ns: float | None) -> dict[str, Any]:
    """Operations and bytes of a step, their ratio, and the rates at ``ns`` a step; None where it is not counted."""
    flops, moved = case.flops, case.bytes
    return {
        "flops": flops, "bytes": moved, "kernels": case.kernels,
        "flops_per_byte": flops / moved if flops is not None and moved else None,
        "flops_per_s": flops * 1e9 / ns if flops is not None and ns else None,
        "bytes_per_s": moved * 1e9 / ns if moved is not None and ns else None,
    }  # fmt: skip
