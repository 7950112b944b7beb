"""Load every hostile file, or some, and print what became of them; the exit status counts those that went wrong.

    python -m tests.hostile                      all
    python -m tests.hostile --sparse             every 60th
    python -m tests.hostile "kineto cut" 17      one kind, one file
    python -m tests.hostile --write kineto       these kinds, into docs/hostile.md
"""

from __future__ import annotations

import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.hostile.kinds import KINDS
from tests.hostile.page import rows, table, write
from tests.hostile.runner import Outcome, Runner


def main(words: list[str]) -> int:
    sparse = "--sparse" in words
    names = [word for word in words if not word.startswith("-") and not word.isdecimal()]
    numbers = [int(word) for word in words if word.isdecimal()]
    kinds = [kind for kind in KINDS if not names or any(kind.name.startswith(name) for name in names)]
    outcomes: list[Outcome] = []
    interrupted = suppress(KeyboardInterrupt)  # what has been loaded is still worth a table
    with tempfile.TemporaryDirectory() as scratch, Runner(Path(scratch)) as runner, interrupted:
        asked = (runner.one(kind, number) for kind in kinds for number in numbers)
        for outcome in asked if numbers else runner.run(kinds, sparse):
            outcomes.append(outcome)
            if outcome.wrong or numbers:
                print(outcome, file=sys.stderr, flush=True)
    print(table(rows(outcomes)), end="")
    if "--write" in words:
        write(rows(outcomes), [kind.name for kind in KINDS])
    return min(100, sum(bool(outcome.wrong) for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
