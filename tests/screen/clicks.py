"""From the workspace to the moment of a planted fault: how many clicks, and whether the selected span lies in it.

    python -m tests.screen.clicks [--only NAME,NAME] [--seed N] [--seeds 8] [--keep DIR] [--write]

Each fault of collectors/scenarios is planted alone into a simulated job, and each of collectors/serving into a serving
engine or a job with rollouts (planted_serving.py). All of them are loaded first, then opened one
after the other in one Chromium. The problem of that fault is clicked in the list, unless it is the chosen one already,
then the first of its moments. What the timeline has selected by then, a span or a piece of idle time, is held against
the truth: the share of it within the fault's windows on its rank. Where only requests or stages were recorded, the
moment that the picture marks is what is selected. A fault that its detector does not report, or whose capture shows
another cause, is planted again from the next seed. `--write` puts the table into docs/clicks.md.
"""

from __future__ import annotations

import argparse
import random
import re
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
from npulens.analysis import views
from npulens.analysis.engine import check
from npulens.analysis.finding import Evidence
from npulens.analysis.intervals import Intervals
from npulens.analysis.problems.shown import finding_ids, moments
from npulens.analysis.timeline.gaps import causes
from npulens.app.pages.workspace import chosen as chosen_moment
from npulens.collectors.planting.plant import plan, scenarios, write
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs
from tests.bench.shots import ROOT, _browser, _served
from tests.screen import planted_serving

#: Of the selected span, what has to lie in the fault's windows; clicks that may be needed.
OVERLAP, CLICKS = 0.5, 2
HOOK = "window.__npulens_timeline"
PAGE = ROOT / "docs" / "clicks.md"
_PATIENCE_MS, _SELECTED_MS = 120_000, 30_000
_GAP = re.compile(r"gap\.(\d+)\.(\d+)")


@dataclass(frozen=True)
class Case:
    """A job with one fault: where it was loaded to, which problem of the list is that fault, what was tried."""

    name: str
    run: str
    problem: str
    place: int  # of the problem in the list
    fault: Mapping[str, Any]
    share: float  # of the step, or of a measure of requests, that the fault costs
    tries: int
    moment: Evidence | None = None  # the first, where no span can be selected


@dataclass(frozen=True)
class Shown:
    """What a visitor came to see."""

    case: Case
    clicks: int
    span: str
    share: float | None  # of the span within the fault's windows; None: no span was selected
    seconds: float

    @property
    def right(self) -> bool:
        return self.clicks <= CLICKS and self.share is not None and self.share >= OVERLAP


def main() -> None:
    asked = _asked()
    names = asked.only.split(",") if asked.only else [*sorted(scenarios()), *planted_serving.NAMES]
    with tempfile.TemporaryDirectory() as made:
        place = asked.keep or Path(made)
        made_by = {name: _serving if name in planted_serving.NAMES else _case for name in names}
        cases = {name: made_by[name](name, asked.seed, asked.seeds, place) for name in names}
        shown: dict[str, Shown] = {}
        with _served(place / "store") as url, _browser() as browser:
            for name, case in cases.items():
                if isinstance(case, Case):
                    shown[name] = _visited(browser, url, place / "store", case)
                print(_line(name, shown.get(name), case), flush=True)
    found = list(shown.values())
    said = (f"{sum(one.right for one in found)} of {len(found)} reported faults within {CLICKS} clicks "
            f"and {100 * OVERLAP:.0f} %; {len(names) - len(found)} not reported.")  # fmt: skip
    print(said)
    if asked.write:
        lines = [_line(name, shown.get(name), case) for name, case in cases.items()]
        PAGE.write_text(_page(asked.seed, said, lines), encoding="utf-8")
    sys.exit(0 if all(one.right for one in found) else 1)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.screen.clicks", description="Clicks to a planted fault.")
    parser.add_argument("--only", help="scenarios with commas between them; all if not given")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=8, help="tries before a fault counts as not reported")
    parser.add_argument("--keep", type=Path, help="where captures and the store go, instead of a temporary directory")
    parser.add_argument("--write", action="store_true", help="writes the table into docs/clicks.md")
    return parser.parse_args()


def _case(name: str, seed: int, tries: int, place: Path) -> Case | str:
    """The first seed from which the fault is reported, or what became of the last one."""
    draw, why = random.Random(f"{name} {seed}"), ""
    for tried in range(1, tries + 1):
        chosen = draw.randrange(1 << 31)
        try:
            truth = write(plan([name], chosen), place / "captures" / name)
        except ValueError as error:
            why = str(error)
            continue
        fault = truth["faults"][0]
        share = fault["gain_ns"] / truth["step_ns"]
        if fault["cause"] != name:
            why = f"the capture shows {fault['cause']}"
            continue
        try:
            report = ingest.load(place / "captures" / name / "capture", place / "store", label=f"{name}-{chosen}")
        except IngestError as error:
            why = str(error)
            continue
        run = str(report.runs[0].run_id)
        with runs.open_run(place / "store", run) as con:
            findings = check(con).findings
        keys = [key for key, one in zip(finding_ids(findings), findings, strict=True) if one.cause == name]
        if keys:
            return Case(name, run, keys[0], finding_ids(findings).index(keys[0]), fault, share, tried)
        why = f"{100 * share:.1f} % of the step; found: {', '.join(one.cause for one in findings) or 'nothing'}"
    return why


def _serving(name: str, seed: int, tries: int, place: Path) -> Case | str:
    """The same of a serving engine, or of a job with rollouts."""
    draw, why = random.Random(f"{name} {seed}"), ""
    for tried in range(1, tries + 1):
        chosen = draw.randrange(1 << 31)
        fault = planted_serving.planted(name, chosen, place / "captures" / f"{name}-{chosen}")
        run = ingest.load(fault.files, place / "store", label=f"{name}-{chosen}").runs[0]
        with runs.open_run(place / "store", str(run.run_id)) as con:
            said = check(con)
            findings = said.findings
            origin = runs.manifest(place / "store", str(run.run_id))["origin_ns"]
        keys = [key for key, one in zip(finding_ids(findings), findings, strict=True) if one.cause == name]
        if keys:
            windows = [{"rank": 0, "ts_ns": since - origin, "dur_ns": until - since} for since, until in fault.windows]
            at = finding_ids(findings).index(keys[0])
            first = moments(findings[at])[0]
            return Case(name, str(run.run_id), keys[0], at, {"windows": windows}, fault.share, tried, first)
        outcome = next(one for one in said.outcomes if one.detector == name)
        why = outcome.reason if outcome.outcome == "not_measured" else f"{100 * fault.share:.1f} % of a measure"
    return why


def _visited(browser: Any, url: str, store: Path, case: Case) -> Shown:
    begin, clicks = time.perf_counter(), 0
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale="en-US", reduced_motion="reduce",
                                  bypass_csp=True)  # fmt: skip  # waiting evaluates texts
    page = context.new_page()
    page.set_default_timeout(_PATIENCE_MS)
    try:
        page.goto(f"{url}/?lang=en&run={case.run}")
        row = page.locator(f'.picker .row[data-key="{case.problem}"]')
        row.wait_for()
        _still(page)
        if row.get_attribute("aria-pressed") != "true":
            row.click()
            clicks += 1
            page.locator(f'.picker .row[data-key="{case.problem}"][aria-pressed=true]').wait_for()
            _still(page)
        page.locator('[class*="st-key-moments_"] .row[data-key="0"]').click()
        clicks += 1
        if case.moment is not None:
            return _marked(page, case, clicks, begin)
        try:
            page.wait_for_function(f"{HOOK}?.picked?.dur > 0", timeout=_SELECTED_MS)
        except TimeoutError:
            return Shown(case, clicks, "nothing", None, time.perf_counter() - begin)
        picked = str(page.evaluate(f"{HOOK}.state.span"))
    finally:
        context.close()
    seconds = time.perf_counter() - begin
    rank, ts, dur, name = _selected(store, case.run, picked)
    share = _inside(rank, ts, max(dur, 1), case.fault["windows"])
    return Shown(case, clicks, f"rank {rank} {name[:48]}", share, seconds)


def _marked(page: Any, case: Case, clicks: int, begin: float) -> Shown:
    """The picture shows the moment that was clicked, and the address says which that is."""
    assert case.moment is not None
    wanted = chosen_moment.place(case.moment)
    page.wait_for_url(f"**from={wanted['from']}**to={wanted['to']}**")
    _still(page)
    page.locator(".js-plotly-plot .shapelayer path").first.wait_for(state="attached")
    share = _inside(case.moment.rank, case.moment.ts_ns, max(case.moment.dur_ns, 1), case.fault["windows"])
    said = f"moment {case.moment.note}".strip()
    return Shown(case, clicks, said[:48], share, time.perf_counter() - begin)


def _selected(store: Path, run: str, picked: str) -> tuple[int, int, int, str]:
    """Rank, start, length and name of what the timeline has selected, by the run's own tables."""
    gap = _GAP.fullmatch(picked)
    with runs.open_run(store, run) as con:
        if gap is not None:
            views.install(con)
            pieces, at = causes(con).of_rank[int(gap[1])], int(gap[2])
            return int(gap[1]), int(pieces.start[at]), int(pieces.end[at] - pieces.start[at]), "(device idle)"
        found = con.execute("SELECT rank, ts_ns, dur_ns, name FROM span WHERE span_id = ?", [int(picked)]).fetchone()
    assert found is not None, "the timeline has selected a span that the run does not hold"
    rank, ts, dur, name = found
    return rank, ts, dur, name


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


def _line(name: str, one: Shown | None, case: Case | str) -> str:
    if one is None or isinstance(case, str):
        return f"| `{name}` | | | | | not reported: {case} | | |"
    share = "none" if one.share is None else f"{100 * one.share:.0f} %"
    said = re.sub(r"[|`\\\n]", " ", one.span)
    told = f"{100 * case.share:.1f} % | {case.place + 1} | {case.tries}"
    return f"| `{name}` | {told} | {one.clicks} | {said} | {share} | {'yes' if one.right else 'NO'} |"


def _page(seed: int, said: str, lines: Sequence[str]) -> str:
    heads = "| fault | costs | in the list | tries | clicks | selected | within the fault | |"
    about = """# From the first screen to the planted fault

Written by `python -m tests.screen.clicks --write`. Each fault that `collectors/scenarios` can plant is planted alone
into a simulated job, and each of `collectors/serving` into a serving engine or a job with rollouts. It is opened in
Chromium at its workspace. The problem is clicked if it is not the first, then the first of its moments. Then the
timeline has something selected: a span, or a piece of time in which the device was idle. Where no device was recorded
it is a moment of requests or stages that the picture marks. The table says how much of that lies in the windows of the
planted fault. At most two clicks and at least half count. A draw whose fault is too small for its detector, or whose
capture shows another cause, is drawn again: "tries". The cost is a share of the step, or of the measure of requests
that loses most. Simulated jobs are not real ones."""
    body = "\n".join(lines)
    return f"{about}\n\nSeed {seed}: {said}\n\n{heads}\n|---|--:|--:|--:|--:|---|--:|---|\n{body}\n"


if __name__ == "__main__":
    main()
