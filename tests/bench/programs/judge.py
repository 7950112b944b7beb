"""`npulens check` of a run, in this process; a detector that fails makes the whole thing fail: no figure hides it."""

from __future__ import annotations

import sys
from pathlib import Path

from npulens.app import run_check
from npulens.ingest.store import runs as stores


def main() -> None:
    store, name = Path(sys.argv[1]), sys.argv[2]
    check = run_check.judge(store, stores.resolve(store, name).run_id)
    failed = [outcome for outcome in check.outcomes if outcome.outcome == "failed"]
    print(f"{len(check.findings)} findings of {len(check.outcomes)} detectors")
    if failed:
        sys.exit("; ".join(f"{outcome.detector}: {outcome.reason}" for outcome in failed))


main()
