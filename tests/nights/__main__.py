"""``make nights``: sixty nights of a simulated lab through the real command, and whether it said what happened."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

from tests.nights import sixty, world


def main() -> int:
    """0: everything was found and dated within a night, and nothing else was said."""
    parser = argparse.ArgumentParser(prog="python -m tests.nights", description=__doc__)
    parser.add_argument("--out", type=Path, default=world.ROOT / ".bench" / "nights")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--quick", action="store_true", help="without the task of captures and the one of pairs")
    asked = parser.parse_args()
    shutil.rmtree(asked.out, ignore_errors=True)
    asked.out.mkdir(parents=True)
    began, whole = time.monotonic(), not asked.quick
    store = sixty.run(asked.out, asked.seed, captures=whole, pairs=whole, rounds=10 if whole else 2)
    print(sixty.table(store))
    missed, extra = sixty.compared(sixty.calls(store), sixty.expected(whole, whole))
    print(f"{world.NIGHTS} nights in {time.monotonic() - began:.0f} s; reports: {store / '.nights' / 'lab'}")
    for text in missed:
        print(f"MISSED: {text}")
    for call in extra:
        print(f"NOT DONE, AND SAID: {call}")
    return bool(missed or extra)


if __name__ == "__main__":
    sys.exit(main())
