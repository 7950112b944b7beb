"""Jobs with and without a recording, as a table: status, output, signals, own traces, and what a step was.

Twenty ask whether a job is harmed, the others what a step is where it is hard to tell.

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
from tests.transparent.jobs import JOBS, STEPS, Job


def main(words: list[str]) -> int:
    """Prints a line a job; the number of those that noticed something, or whose steps are others."""
    wrong = 0
    for jobs in (JOBS, STEPS):
        wanted = [job for job in jobs if not words or any(word in job.name for word in words)]
        if wanted:
            wrong += table(wanted)
    return wrong


def table(wanted: list[Job]) -> int:
    harmed = mistaken = 0
    print(f"{'job':<75}{'status':>7}{'bytes':>8}{'traces':>7}{'alone s':>9}{'recorded s':>11}  {'a step':<10} noticed")
    for job in wanted:
        place = Path(tempfile.mkdtemp(prefix="transparent-"))
        try:
            found = pair(job, place)
        finally:
            shutil.rmtree(place, ignore_errors=True)
        noticed, mistakes = found.differences(), found.wrong_steps()
        harmed, mistaken = harmed + bool(noticed), mistaken + bool(mistakes)
        status = "-" if found.recorded.status is None else str(found.recorded.status)
        step = "wrong" if mistakes else job.step.by if job.step else "-"
        print(f"{job.name:<75}{status:>7}{len(found.recorded.out):>8}{found.traces:>7}{found.plain.seconds:>9.1f}"
              f"{found.recorded.seconds:>11.1f}  {step:<10} {'; '.join(noticed + mistakes) or 'nothing'}",
              flush=True)  # fmt: skip
        if noticed or mistakes:
            print("    " + "\n    ".join(found.recorded.err.decode("utf-8", "replace").splitlines()[-6:]), flush=True)
    about = [job for job in wanted if job.step]
    right = f"{len(about) - mistaken} of {len(about)} with the right steps"
    print(f"{len(wanted) - harmed} of {len(wanted)} the same, {right}")
    return harmed + mistaken


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
