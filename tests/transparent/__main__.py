"""Twenty jobs with and without a recording, as a table: status, output, signals, own traces.

    python -m tests.transparent            # all of them
    python -m tests.transparent fork TERM  # those whose name holds one of the words

One job needs a small disk of its own and may mount one only as root.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from tests.transparent.compare import pair
from tests.transparent.jobs import JOBS


def main(words: list[str]) -> int:
    """Prints a line a job; the number of those that noticed something."""
    wrong, wanted = 0, [job for job in JOBS if not words or any(word in job.name for word in words)]
    print(f"{'job':<75}{'status':>7}{'bytes':>8}{'traces':>7}{'alone s':>9}{'recorded s':>11}  noticed")
    for job in wanted:
        place = Path(tempfile.mkdtemp(prefix="transparent-"))
        try:
            found = pair(job, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        noticed = found.differences()
        wrong += bool(noticed)
        status = "-" if found.recorded.status is None else str(found.recorded.status)
        print(f"{job.name:<75}{status:>7}{len(found.recorded.out):>8}{found.traces:>7}{found.plain.seconds:>9.1f}"
              f"{found.recorded.seconds:>11.1f}  {'; '.join(noticed) or 'nothing'}", flush=True)  # fmt: skip
        if noticed:
            print("    " + "\n    ".join(found.recorded.err.decode("utf-8", "replace").splitlines()[-6:]), flush=True)
    print(f"{len(wanted) - wrong} of {len(wanted)} the same")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
