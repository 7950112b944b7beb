"""What npulens says of every capture of the judged corpus: `python -m tests.corpus [--only PART] [--folder DIR]`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.corpus.sentences import Json, Said, corpus, holds, load

ROOT = Path(__file__).resolve().parents[2]
JUDGED = ROOT / "docs" / "judged"
SHARED = (ROOT.parent / "shared" / "traces", ROOT.parent / "shared" / "traces_2")


def place(capture: str) -> Path | None:
    """Where a capture lies; None: not here."""
    return next((top / capture for top in SHARED if (top / capture).exists()), None)


def judge(capture: str, facts: list[Json], show: bool = False) -> tuple[list[bool], list[str]]:
    """Whether each sentence holds, and what was said, for people."""
    path = place(capture)
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        return judged(load(path, Path(folder)), facts, show)


def judged(runs: list[Said], facts: list[Json], show: bool) -> tuple[list[bool], list[str]]:
    """The same of what is loaded."""
    return [holds(fact, runs) for fact in facts], list(_lines(runs)) if show else []


def _lines(runs: list[Said]) -> list[str]:
    lines = []
    for run in runs:
        said = run.check
        lines.append(f"  run of ranks {run.ranks}, step {said['step_ns'] / 1e6:.3f} ms")
        for number, finding in enumerate(said["findings"], 1):
            share = 100 * finding["saving_share"]
            lines.append(f"    {number}. {share:5.1f} % {finding['detector']}: {finding['title']}")
        for outcome in ("masked", "clean", "not_measured", "failed"):
            names = [each["detector"] for each in said["outcomes"] if each["outcome"] == outcome]
            if names:
                lines.append(f"    {outcome}: {', '.join(names)}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="captures whose path holds this")
    parser.add_argument("--folder", type=Path, default=JUDGED)
    parser.add_argument("--show", action="store_true", help="also what was said")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    every = {name: facts for name, facts in corpus(asked.folder).items() if asked.only in name and place(name)}
    good = total = 0
    with ProcessPoolExecutor(asked.jobs) as pool:
        answers = pool.map(judge, every, every.values(), [asked.show] * len(every))
        for (name, facts), (held, lines) in zip(every.items(), answers, strict=True):
            good, total = good + sum(held), total + len(held)
            print(f"{sum(held)}/{len(held)}  {name}", flush=True)
            for fact, met in zip(facts, held, strict=True):
                if not met:
                    print(f"      MISSED {fact['id']} ({fact['kind']}): {fact['what']}")
            for line in lines:
                print(line)
    print(f"{good} of {total} sentences hold ({100 * good / max(1, total):.1f} %) on {len(every)} captures")
    return 0


if __name__ == "__main__":
    sys.exit(main())
