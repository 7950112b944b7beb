"""Every workload, variant and type on this machine at its small size: what ran, and how right it was.

    python -m npulens.collectors.evidence -o docs/evidence/cpu.json
    python -m npulens.collectors.evidence --backend npu -o docs/evidence/npu.json

docs/workloads.md is made of these files: what none of them says has not run. On a CPU the Triton kernels are
interpreted, which shows that they are right and nothing about their speed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npulens.collectors import kernels
from npulens.collectors.backends.backend import open_backend
from npulens.collectors.backends.probe import BACKENDS, choose
from npulens.collectors.harness.numerics import compare, tolerance
from npulens.collectors.workloads.workload import NotHere, names, workload

SEED = 3


def cases(backend: str) -> Iterator[dict[str, Any]]:
    """One entry each; ``outcome`` is run, wrong or not here."""
    device = open_backend(backend)
    modes = device.properties()
    for name in names():
        found = workload(name)
        truth = found.build("reference", found.SHAPES["small"], "float64", "cpu", SEED).step()
        for variant in found.VARIANTS:
            for dtype in found.DTYPES:
                about = {"workload": name, "variant": variant, "dtype": dtype}
                print(f"{name} {variant} {dtype}", file=sys.stderr, flush=True)
                try:
                    made = found.build(variant, found.SHAPES["small"], dtype, device.device, SEED).step()
                    device.synchronize()
                except (NotHere, RuntimeError) as why:
                    reason = (str(why).splitlines() or [type(why).__name__])[0]
                    yield {**about, "outcome": "not here", "reason": reason}
                    continue
                told = compare(made, truth, dtype, tolerance(dtype, modes))
                error = None if told.relative_error is None else float(f"{told.relative_error:.1e}")
                yield {**about, "outcome": "run" if told.ok else "wrong", "reason": told.why, "relative_error": error}


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs every workload once and writes down what became of it.")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--backend", choices=BACKENDS)
    arguments = parser.parse_args()
    choice = choose(arguments.backend)
    if choice.actual == "cpu":
        os.environ.setdefault(kernels.INTERPRET, "1")
    told = {
        "backend": choice.actual, "device": choice.capability.device, "versions": choice.capability.versions,
        "made_at": time.strftime("%Y-%m-%d", time.gmtime()),
    }  # fmt: skip
    lines = ",\n  ".join(json.dumps(each) for each in cases(choice.actual))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps(told)[1:-1]
    arguments.output.write_text(f'{{{head}, "cases": [\n  {lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
