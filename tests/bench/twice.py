"""The same thing compared with itself, many times, on a machine that is busy or not.

    python -m tests.bench.twice                          200 comparisons of conv_bn_relu's baseline with itself
    python -m tests.bench.twice --busy 2                 the same beside two processes that never rest
    python -m tests.bench.twice --busy 2 --runs 5 --variant folded      a variant that does less, for comparison

Every comparison has its own control, as in ``npulens bench``. Of equal things at most one in a hundred may be called
different.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.backends.probe import Capability, Choice
from npulens.collectors.bench import pairs
from npulens.collectors.bench.options import Options
from npulens.collectors.bench.result import Result
from npulens.collectors.bench.session import Session
from npulens.collectors.bench.subject import subject
from npulens.collectors.harness.controlled import Controlled
from npulens.collectors.harness.versus import PAIRS
from npulens.collectors.harness.watch import DeviceWatch

_NEVER_RESTS = "while True: pass"
_HERE = Choice(None, "cpu", (Capability("cpu", True),))


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Processes beside ours that take all the time they are given."""
    running = [subprocess.Popen([sys.executable, "-c", _NEVER_RESTS]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


def comparisons(workload: str, variant: str | None, runs: int, count: int, seconds: float) -> Iterator[Controlled]:
    """As ``npulens bench`` makes them; without a variant it is the baseline once more."""
    backend, asked = open_backend("cpu"), Options(workload, pairs=count)
    under = subject(asked, backend)
    dtype = under.timed[0]
    with tempfile.TemporaryDirectory() as folder:
        session = Session(asked, under, backend, Result(Path(folder), [], _HERE, {}), DeviceWatch(backend))
        session.ran[dtype] = dict.fromkeys(under.variants, True)
        base = session.baseline(dtype) or under.variants[0]
        for _ in range(runs):
            yield pairs.compare(session, base, variant or base, dtype, seconds)


def told(found: Controlled) -> str:
    """The verdict that is given: withheld, or what the chosen clock says."""
    return f"withheld ({found.withheld})" if found.withheld else found.found[found.clock].said


def table(found: Sequence[Controlled]) -> Iterator[str]:
    """What was said, by which clock, and what each clock alone would have said."""
    yield f"{'verdicts':<12} " + ", ".join(f"{said} {n}" for said, n in Counter(map(told, found)).most_common())
    yield f"{'by':<12} " + ", ".join(f"{clock} {n}" for clock, n in Counter(each.clock for each in found).most_common())
    for clock in ("host", "cpu"):
        mine = [each.found[clock] for each in found if clock in each.found]
        widths = sorted(verdict.high / verdict.low for verdict in mine)
        ratios = sorted(verdict.ratio for verdict in mine)
        said = Counter(verdict.said for verdict in mine)
        if mine:
            middle = f"middle ratio {ratios[len(mine) // 2]:.3f}, interval high / low {widths[len(mine) // 2]:.3f}"
            yield f"{clock + ' alone':<12} {', '.join(f'{each} {n}' for each, n in said.most_common())}; {middle}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares a thing with itself, many times.")
    parser.add_argument("--workload", default="conv_bn_relu")
    parser.add_argument("--variant", help="another variant instead of the baseline once more")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one comparison")
    parser.add_argument("--busy", type=int, default=0, help="processes beside it that never rest")
    asked = parser.parse_args()
    begun, found = time.monotonic(), list[Controlled]()
    with busy(asked.busy):
        for each in comparisons(asked.workload, asked.variant, asked.runs, asked.pairs, asked.seconds):
            found.append(each)
            verdict = each.found[each.clock]
            if asked.runs <= 10:
                print(f"{told(each)} by {each.clock}: {verdict.ratio:.3f} [{verdict.low:.3f}, {verdict.high:.3f}]")
    who = asked.variant or "the baseline"
    print(f"{asked.workload}, {who} against the baseline, {len(found)} times, {asked.pairs} pairs each, beside "
          f"{asked.busy} busy processes, {time.monotonic() - begun:.0f} s")  # fmt: skip
    print("\n".join(table(found)))
    different = sum(told(each) == "different" for each in found)
    return int(asked.variant is None and different > 0.01 * len(found))


if __name__ == "__main__":
    sys.exit(main())
