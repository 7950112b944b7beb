"""One question to a stored run, asked once in a fresh process: what it costs beyond starting Python.

    python -m tests.bench.programs.answer STORE RUN QUESTION

Prints CPU seconds of all threads, wall seconds and what was found, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

from npulens.analysis import split, views
from npulens.analysis.look import efficiency as efficient
from npulens.analysis.look import ranks
from npulens.analysis.modules.measure import of_run as modules
from npulens.analysis.run import Run
from npulens.analysis.timeline.view import view
from npulens.app import run_check
from npulens.app.timeline import opened, wire
from npulens.ingest.store import lod
from npulens.ingest.store import runs as stores


def breakdown(store: Path, run_id: str) -> str:
    rows = split.breakdown(stores.open_run(store, run_id))
    off = sum(row.residual_ns not in (None, 0) for row in rows)
    return f"{len(rows):,} rows, {off} with a residual"


def grid(store: Path, run_id: str) -> str:
    con = stores.open_run(store, run_id)
    views.install(con)
    found = ranks.grids(con)["dur"]
    return f"{len(found.ranks):,} ranks x {len(found.steps)} steps"


def standing(store: Path, run_id: str) -> str:
    con = stores.open_run(store, run_id)
    views.install(con)
    found = ranks.compared(con)
    late = found.stands[0]
    return f"rank {late.rank}, waited for {late.waited_ns / 1e6:.1f} ms"


def efficiency(store: Path, run_id: str) -> str:
    con = stores.open_run(store, run_id)
    views.install(con)
    return f"{efficient.efficiency(Run(con)).count:,} operators"


def waterfall(store: Path, run_id: str) -> str:
    """What the page Efficiency shows after its operators, together with them."""
    con = stores.open_run(store, run_id)
    views.install(con)
    run = Run(con)
    efficient.efficiency(run)
    return f"{len(efficient.whole(run).falls):,} waterfalls, {len(modules(run).rows):,} modules"


def runs(store: Path, run_id: str) -> str:
    return f"{len(stores.runs(store))} runs"


def check(store: Path, run_id: str) -> str:
    said = run_check.judge(store, run_id)
    failed = ", ".join(f"{one.detector}: {one.reason}" for one in said.outcomes if one.outcome == "failed")
    return f"{len(said.findings)} findings of {len(said.outcomes)} detectors" + (f"; FAILED {failed}" if failed else "")


def arrange(store: Path, run_id: str) -> str:
    """The timeline's file, which is built when a run is first looked at."""
    return f"{lod.build(store, run_id).stat().st_size / 1e6:,.0f} MB"


def tile(store: Path, run_id: str) -> str:
    """The first picture of the timeline: the whole run on forty of its tracks."""
    run = opened.opened(store, run_id)
    chosen = [track.id for track in run.layout.tracks][:40]
    with run.lod.cursor() as con:
        found = view(con, run.how, {}, 0, run.layout.end, 2_000, chosen, wire.LONGEST_NAME)
    return f"{len(found.spans.ts) + len(found.cells.ts):,} marks, {len(run.layout.tracks):,} tracks"


QUESTIONS: dict[str, Callable[[Path, str], str]] = {
    "breakdown": breakdown, "grid": grid, "standing": standing, "runs": runs, "check": check, "arrange": arrange,
    "tile": tile, "efficiency": efficiency, "waterfall": waterfall,
}  # fmt: skip


def main() -> None:
    store, name, question = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    run_id = stores.resolve(store, name).run_id
    used, begin = _cpu(), time.monotonic()
    found = QUESTIONS[question](store, run_id)
    print(json.dumps({"cpu_s": _cpu() - used, "wall_s": time.monotonic() - begin, "found": found}))


def _cpu() -> float:
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


if __name__ == "__main__":
    main()
