"""``python -m tests.nights.gate``: thirty commits, one of them 5 % slower. Is the gate red there, and nowhere else?

Each of the thirty goes through ``npulens gate`` against the one before it. Then ``npulens bisect`` looks for the
planted one between the first and the last.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from npulens.app.cli import main as npulens
from tests.nights import thirty, world
from tests.nights.thirty import COMMITS, PLANTED, Repository


@dataclass(frozen=True)
class Gate:
    """What one gate said."""

    number: int  # of the commit
    exit: int
    change: float
    low: float
    high: float
    pairs: int
    verdict: str


def gated(repository: Repository, store: Path, number: int) -> Gate:
    """The gate of a commit against the one before it."""
    base, head = repository.commits[number - 1], repository.commits[number]
    done = CliRunner().invoke(
        npulens, ["gate", str(repository.config), "--base", base, "--head", head, "--store", str(store), "--json"],
        catch_exceptions=False,
    )  # fmt: skip
    (row,) = json.loads(done.stdout)["rows"]
    return Gate(number, done.exit_code, row["ratio"] - 1, row["low"] - 1, row["high"] - 1, row["n"], row["verdict"])


def bisected(repository: Repository, store: Path) -> tuple[int, dict[str, Any]]:
    """The exit code and the answer of a search from the first commit to the last."""
    done = CliRunner().invoke(
        npulens, ["bisect", str(repository.config), "work", "--good", repository.commits[0],
                  "--bad", repository.commits[-1], "--store", str(store), "--json"], catch_exceptions=False,
    )  # fmt: skip
    return done.exit_code, json.loads(done.stdout)


def main() -> int:
    """0: the gate was red at the planted commit alone, and the search named it, with every seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.nights.gate", description=__doc__)
    parser.add_argument("--out", type=Path, default=world.ROOT / ".bench" / "gate")
    parser.add_argument("--seed", type=int, nargs="+", default=[1])
    parser.add_argument("--noise", type=float, default=thirty.NOISE, help="Standard deviation of a session, a share.")
    asked = parser.parse_args()
    wrong = 0
    for seed in asked.seed:
        wrong += _one(asked.out / str(seed), seed, asked.noise)
    return bool(wrong)


def _one(out: Path, seed: int, noise: float) -> int:
    """Everything with one seed; how much of it was wrong."""
    shutil.rmtree(out, ignore_errors=True)
    repository, store = thirty.thirty(out / "repository", seed, noise), out / "store"
    began = time.monotonic()
    gates = [gated(repository, store, number) for number in range(1, COMMITS)]
    spent = time.monotonic() - began
    for each in gates:
        mark = "  <- planted" if each.number == PLANTED else ""
        print(f"{each.number:2} exit {each.exit}  {each.change:+7.2%}  {each.low:+7.2%} … {each.high:+7.2%}  "
              f"{each.pairs:2} pairs  {each.verdict}{mark}")  # fmt: skip
    red = [each.number for each in gates if each.exit == 1]
    false, failed = [number for number in red if number != PLANTED], [each.number for each in gates if each.exit == 2]
    print(f"seed {seed}, noise {noise:.1%}: red {red}, planted {PLANTED}; {len(false)} false red of {len(gates) - 1}; "
          f"pairs {dict(sorted(Counter(each.pairs for each in gates).items()))}; {spent:.0f} s")  # fmt: skip
    began = time.monotonic()
    status, found = bisected(repository, store)
    named = [repository.commits.index(each["sha"]) for each in found["first_bad"]]
    sessions = 2 * sum(each["change"]["pairs"] for each in found["tried"])
    print(f"bisect: exit {status}, {found['outcome']}, commit {named} of {COMMITS - 1}, {len(found['tried'])} tried, "
          f"{sessions} sessions; {time.monotonic() - began:.0f} s")  # fmt: skip
    return (PLANTED not in red) + len(false) + len(failed) + (named != [PLANTED])


if __name__ == "__main__":
    sys.exit(main())
