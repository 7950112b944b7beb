"""From the workspace to the moment of a planted fault: how many clicks, and whether the selected span lies in it.

    python -m tests.screen.clicks [--only NAME,NAME] [--seed N] [--seeds 6] [--keep DIR]

Each fault of collectors/scenarios is planted alone into a simulated job, which is loaded and opened in Chromium. The
problem of that fault is clicked in the list, unless it is the chosen one already, then the first of its moments. The
span that the timeline has selected by then is held against the truth: the share of the span within the fault's windows
on its rank. A fault that its detector does not report is planted again from the next seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import TimeoutError

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.finding import Finding
from npulens.analysis.intervals import Intervals
from npulens.analysis.problems.shown import finding_ids
from npulens.collectors.planting.plant import plan, scenarios, write
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs
from tests.bench.shots import _browser, _served

#: Of the selected span, what has to lie in the fault's windows; clicks that may be needed.
OVERLAP, CLICKS = 0.5, 2
HOOK = "window.__npulens_timeline"
_PATIENCE_MS, _SELECTED_MS = 120_000, 30_000


@dataclass(frozen=True)
class Case:
    """A job with one fault: where it was loaded to, and which problem of the list is that fault."""

    name: str
    run: str
    problem: str
    fault: Mapping[str, Any]


@dataclass(frozen=True)
class Shown:
    """What a visitor came to see."""

    name: str
    clicks: int
    span: str
    share: float | None  # of the span within the fault's windows; None: no span was selected

    @property
    def right(self) -> bool:
        return self.clicks <= CLICKS and self.share is not None and self.share >= OVERLAP


def main() -> None:
    asked = _asked()
    names = asked.only.split(",") if asked.only else sorted(scenarios())
    with tempfile.TemporaryDirectory() as made:
        place = asked.keep or Path(made)
        print("| fault | clicks | selected | within the fault | |\n|---|--:|---|--:|---|", flush=True)
        found: list[Shown] = []
        with _served(place / "store") as url, _browser() as browser:
            for name in names:
                case = _case(name, asked.seed, asked.seeds, place)
                shown = None if case is None else _visited(browser, url, place / "store", case)
                found += [] if shown is None else [shown]
                print(_line(name, shown), flush=True)
    print(f"{sum(one.right for one in found)} of {len(found)} reported faults within {CLICKS} clicks "
          f"and {100 * OVERLAP:.0f} %; {len(names) - len(found)} not reported")  # fmt: skip
    sys.exit(0 if all(one.right for one in found) else 1)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.screen.clicks", description="Clicks to a planted fault.")
    parser.add_argument("--only", help="scenarios with commas between them; all if not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=6, help="tries before a fault counts as not reported")
    parser.add_argument("--keep", type=Path, help="where captures and the store go, instead of a temporary directory")
    return parser.parse_args()


def _case(name: str, seed: int, tries: int, place: Path) -> Case | None:
    """The first seed from which the fault is reported."""
    draw = random.Random(f"{name} {seed}")
    for _ in range(tries):
        chosen = draw.randrange(1 << 31)
        try:
            truth = write(plan([name], chosen), place / "captures" / name)
            report = ingest.load(place / "captures" / name / "capture", place / "store", label=f"{name}-{chosen}")
        except (ValueError, IngestError):
            continue
        run, fault = str(report.runs[0].run_id), truth["faults"][0]
        with runs.open_run(place / "store", run) as con:
            findings = check(con).findings
        wanted = [key for key, one in zip(finding_ids(findings), findings, strict=True) if _is(one, fault)]
        if wanted:
            return Case(name, run, wanted[0], fault)
    return None


def _is(finding: Finding, fault: Mapping[str, Any]) -> bool:
    return finding.cause == fault["cause"]


def _visited(browser: Any, url: str, store: Path, case: Case) -> Shown:
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US", reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(_PATIENCE_MS)
    try:
        page.goto(f"{url}/?lang=en&run={case.run}")
        page.locator(".st-key-answer").first.wait_for()
        row = page.locator(f'.picker .row[data-key="{case.problem}"]')
        row.wait_for()
        clicks = 0
        if row.get_attribute("aria-pressed") != "true":
            row.click()
            clicks += 1
            page.locator(f'.picker .row[data-key="{case.problem}"][aria-pressed=true]').wait_for()
            _still(page)
        page.locator('[class*="st-key-moments_"] .row[data-key="0"]').click()
        clicks += 1
        try:
            page.wait_for_function(f"{HOOK}?.state?.span", timeout=_SELECTED_MS)
        except TimeoutError:
            return Shown(case.name, clicks, "no span", None)
        span = int(page.evaluate(f"{HOOK}.state.span"))
    finally:
        context.close()
    with runs.open_run(store, case.run) as con:
        found = con.execute("SELECT rank, ts_ns, dur_ns, name FROM span WHERE span_id = ?", [span]).fetchone()
    assert found is not None, "the timeline has selected a span that the run does not hold"
    rank, ts, dur, name = found
    return Shown(case.name, clicks, f"rank {rank} {name[:40]}", _inside(rank, ts, max(dur, 1), case.fault["windows"]))


def _still(page: Any) -> None:
    """Until the page has been drawn."""
    time.sleep(0.3)
    page.wait_for_function("document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'")


def _inside(rank: int, ts: int, dur: int, windows: Sequence[Mapping[str, int]]) -> float:
    mine = [window for window in windows if window["rank"] == rank]
    starts = np.array([max(window["ts_ns"], ts) for window in mine], np.int64)
    ends = np.array([min(window["ts_ns"] + window["dur_ns"], ts + dur) for window in mine], np.int64)
    held = ends > starts
    union = Intervals.union_of(starts[held], ends[held])
    return float((union.ends - union.starts).sum()) / dur


def _line(name: str, one: Shown | None) -> str:
    if one is None:
        return f"| {name} | | not reported | | |"
    share = "no span" if one.share is None else f"{100 * one.share:.0f} %"
    said = json.dumps(one.span)[1:-1]
    return f"| {name} | {one.clicks} | {said} | {share} | {'yes' if one.right else 'NO'} |"


if __name__ == "__main__":
    main()
