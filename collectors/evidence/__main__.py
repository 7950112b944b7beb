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
import time
from pathlib import Path

from npulens.collectors import kernels
from npulens.collectors.backends.probe import BACKENDS, choose
from npulens.collectors.evidence.cases import cases

SEED = 3


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
    lines = ",\n  ".join(json.dumps(each) for each in cases(choice.actual, SEED))
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    head = json.dumps(told)[1:-1]
    arguments.output.write_text(f'{{{head}, "cases": [\n  {lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
