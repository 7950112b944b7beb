"""`python -m tests.lab.again [-n COUNT]`: what tests.lab.ledger called faster, measured again another day.

Each subject has a process of its own, is captured anew with other weights and another batch, and measured alone. A
verdict is contradicted where the rewrite now takes no less time. Where the second measurement can tell nothing, it is
counted by itself: it neither confirms nor contradicts. Run it on a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.lab import ledger
from npulens.collectors.lab.trial import Laboratory, Options
from tests.lab.ledger import ROOT, captured

#: Of sixty verdicts so many may be contradicted, as a share.
MOST = 3 / 60


def once(name: str, rewrites: Sequence[str], seed: int, seconds: float) -> None:
    """A line of JSON for each rewrite."""
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as place:
        laboratory = Laboratory(captured(name, Path(place), seed), open_backend("cpu"), Options(seconds=seconds))
        for each in rewrites:
            trial = laboratory.tried(each)
            speed: dict[str, Any] = dict(trial.speed or {})
            line = {"rewrite": each, "verdict": trial.verdict, "why": (trial.why or {}).get("name"), **{
                key: speed.get(key) for key in ("ratio", "low", "high")}}  # fmt: skip
            print(json.dumps(line), flush=True)


def chosen(lines: Sequence[dict[str, Any]], count: int) -> dict[str, dict[str, float]]:
    """The verdicts to measure again, by subject: ``count`` of them, evenly over the ledger; the last line counts."""
    last = {(line["module"], line["rewrite"]): line for line in lines}
    faster = [line for line in last.values() if line["verdict"] == "faster"]
    if count < len(faster):
        faster = [faster[place * len(faster) // count] for place in range(count)]
    found: dict[str, dict[str, float]] = {}
    for line in faster:
        found.setdefault(line["module"], {})[line["rewrite"]] = line["ratio"]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("-n", "--count", type=int, default=60)
    parser.add_argument("--file", type=Path, default=ROOT / "build/ledger.jsonl")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--once", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.once:
        once(arguments.once[0], arguments.once[1:], arguments.seed, arguments.seconds)
        return 0
    counts: Counter[str] = Counter()
    contradicted = 0
    for name, rewrites in chosen(ledger.read(arguments.file)[0], arguments.count).items():
        options = [f"--seconds={arguments.seconds}", f"--seed={arguments.seed}"]
        command = [sys.executable, "-m", "tests.lab.again", *options, "--once", name, *rewrites]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        lines = {line["rewrite"]: line for line in map(json.loads, done.stdout.splitlines())}
        for rewrite, ratio in rewrites.items():
            line = lines.get(rewrite, {"verdict": "ended", "why": f"status {done.returncode}", "ratio": None})
            counts[line["verdict"]] += 1
            contradicted += line["ratio"] is None or line["ratio"] >= 1 or line["verdict"] in ("slower", "same")
            now = f"{line['ratio']:.3f} [{line['low']:.3f}, {line['high']:.3f}]" if line["ratio"] else "-"
            print(f"{name:16} {rewrite:14} {ratio:.3f}, again {now}: {line['verdict']} {line['why'] or ''}", flush=True)
    total = counts.total()
    print(f"{total} verdicts of faster measured again: {contradicted} contradicted, {counts['faster']} faster again, "
          f"{counts['cannot_tell']} cannot tell")  # fmt: skip
    return 0 if total and contradicted <= MOST * total else 1


if __name__ == "__main__":
    sys.exit(main())
