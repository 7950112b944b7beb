"""The launchers of docs/collecting.md, tried with two ranks on this machine, as a table.

    python -m tests.nodes [--python PYTHON] [WORD ...]

PYTHON is the job's interpreter: with torch, and with ray or vllm for those. With words, only the launchers whose name
holds one of them are run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from npulens import ingest
from tests.nodes.launchers import LAUNCHERS, Place, home, ranks


def main() -> int:
    """Prints a line a launcher; the number of those that went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.nodes")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    wanted = [each for each in LAUNCHERS if not arguments.words or any(w in each.name for w in arguments.words)]
    base, wrong = Path(tempfile.mkdtemp(prefix="nodes-")), 0
    print(f"{'launcher':<40}{'version':<14}{'ranks':<8}{'steps':<9}{'status':<11}{'loaded as':<22}job's output")
    for number, launcher in enumerate(wanted):
        version = launcher.version(arguments.python)
        if version is None:
            print(f"{launcher.name:<40}not here", flush=True)
            continue
        place = Place(home(base, number), arguments.python)
        ran = launcher.run(place)
        found, steps, states = ranks(place.out)
        report = ingest.load(place.out, place.home / "store")
        loaded = "; ".join(f"run of ranks {','.join(map(str, run.ranks))}" for run in report.runs)
        said = sum(line.startswith("rank ") for each in ran for line in each.stdout.splitlines())
        print(f"{launcher.name:<40}{version:<14}{','.join(map(str, found)):<8}{','.join(map(str, steps)):<9}"
              f"{','.join(sorted(states)):<11}{loaded:<22}{said} of {launcher.ranks} lines", flush=True)  # fmt: skip
        right = (list(range(launcher.ranks)), [3] * launcher.ranks, {"complete"}, launcher.ranks, 1)
        if (found, steps, states, said, len(report.runs)) != right:
            wrong += 1
            for each in ran:
                print(f"    ended with {each.returncode}\n    " + "\n    ".join(each.stderr.splitlines()[-8:]))
    return wrong


if __name__ == "__main__":
    sys.exit(main())
