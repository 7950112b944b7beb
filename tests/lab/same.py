"""`python -m tests.lab.same [-n TIMES]`: the original against a copy of itself, through the laboratory as a rewrite is.

Each time has fresh copies. At most one in a hundred may be called faster or slower.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.lab.trial import Laboratory, Options
from tests.lab import wrong

REWRITE = '''"""The program as it is."""

from npulens.collectors.lab.rewrites.rewrite import Rewritten


def apply(program, asked):
    return Rewritten(program, 1)
'''


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", "--times", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=0.5)
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        own = Path(place) / "same.py"
        own.write_text(REWRITE)
        laboratories = []
        for name, (module, batch) in wrong.models().items():
            found = wrong.captured(module, batch, Path(place) / name)
            laboratories.append((name, Laboratory(found, open_backend("cpu"), Options(seconds=arguments.seconds))))
        for time in range(arguments.times):
            name, laboratory = laboratories[time % len(laboratories)]
            trial = laboratory.tried("same", [own])
            counts[trial.verdict] += 1
            if trial.verdict in ("faster", "slower"):
                print(f"{name}: {trial.verdict}, {trial.speed}", flush=True)
    print(f"{arguments.times} times against itself: {dict(counts)}")
    return 1 if counts["faster"] + counts["slower"] > arguments.times / 100 or counts["refused"] else 0


if __name__ == "__main__":
    sys.exit(main())
