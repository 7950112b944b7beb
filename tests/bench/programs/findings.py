"""What `npulens check` says of every run of a store, one JSON line a run; of whichever tree is on the path.

PYTHONPATH=TREE python tests/bench/programs/findings.py STORE RUN_ID...
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np

from npulens.analysis.finding import Change
from npulens.app import run_check


def fingerprint(change: Change) -> str:
    """A hash of every number of a change."""
    parts: list[str] = []
    for name, value in sorted(vars(change).items()):
        arrays = [value] if isinstance(value, np.ndarray) else []
        for rank, windows in [] if arrays else sorted(value.items()):
            parts.append(f"{name} {rank}")
            arrays += [windows.starts, windows.ends]
        parts += [f"{name} {np.asarray(array).astype(np.int64).tolist()}" for array in arrays]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def main() -> None:
    store = Path(sys.argv[1])
    for run_id in sys.argv[2:]:
        began = time.process_time()
        check = run_check.judge(store, run_id)
        took = time.process_time() - began
        said = {lang: check.as_dict(lang) for lang in ("en", "zh")}
        changes = [fingerprint(finding.change) for finding in check.findings]
        print(json.dumps({"run_id": run_id, "cpu_s": took, "said": said, "changes": changes}), flush=True)


main()
