"""Everything a report says of one run, gathered once and handed to whichever writer is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from npulens.analysis.device.strip import Strip, strip
from npulens.analysis.discovery import Detector
from npulens.analysis.engine import Check
from npulens.analysis.engine import check as judge
from npulens.analysis.finding import Finding
from npulens.analysis.run import Run
from npulens.analysis.settings import Settings
from npulens.analysis.split import Row, breakdown
from npulens.app import run_check
from npulens.app.text.wording import run_name
from npulens.ingest.store import runs as stores
from npulens.ingest.store.runs import RunInfo

#: Ranks a finding's timeline draws; evidence of further ranks stays in its table.
MOST_RANKS = 6
#: A largest moment shorter than this share of the run is drawn once more from near.
NEAR_SHARE = 0.05


@dataclass(frozen=True)
class Scene:
    """Where a finding's evidence lies: whole ranks, and its largest moment from near."""

    whole: tuple[Strip, ...]
    near: Strip | None


@dataclass(frozen=True)
class Subject:
    """One run."""

    name: str
    info: RunInfo
    check: Check
    rows: tuple[Row, ...]
    scenes: tuple[Scene, ...]  # one a finding
    detectors: tuple[Detector, ...]
    limits: Mapping[str, Mapping[str, object]]  # those that npulens.toml overrides
    manifest: Mapping[str, Any]  # as the store holds it

    @property
    def known(self) -> dict[str, Detector]:
        return {detector.name: detector for detector in self.detectors}


def subject(store: Path, name: str, settings: Settings, opened: duckdb.DuckDBPyConnection | None = None) -> Subject:
    """Judge a run and gather what a report draws; `opened`: a connection to it that somebody holds."""
    info = stores.resolve(store, name)
    detectors = run_check.ready(settings)
    con = opened or stores.open_run(store, info.run_id)
    try:
        run, wholes = Run.of(con, settings.slo).hold(), dict[int, Strip]()
        check = judge(con, None, settings)
        scenes = tuple(_scene(run, finding, wholes) for finding in check.findings)
        rows = tuple(breakdown(con))
    finally:
        if opened is None:
            con.close()
    return Subject(
        run_name(info, "en"), info, check, rows, scenes, detectors, settings.limits,
        stores.manifest(store, info.run_id),
    )  # fmt: skip


def _scene(run: Run, finding: Finding, wholes: dict[int, Strip]) -> Scene:
    ranks = sorted(dict.fromkeys(e.rank for e in finding.evidence if e.rank in run.ranks).keys())[:MOST_RANKS]
    for rank in ranks:
        if rank not in wholes:
            wholes[rank] = strip(run, rank, *_window(run, rank))
    near = None
    if finding.evidence and ranks:
        first = finding.evidence[0]
        begin, end = _window(run, first.rank if first.rank in run.ranks else ranks[0])
        if 0 < first.dur_ns < NEAR_SHARE * (end - begin) and first.rank in run.ranks:
            near = strip(run, first.rank, first.ts_ns - first.dur_ns, first.ts_ns + 2 * first.dur_ns)
    return Scene(tuple(wholes[rank] for rank in ranks), near)


def _window(run: Run, rank: int) -> tuple[int, int]:
    """The same for every rank, so that their strips can be compared: the earliest begin to the latest end."""
    windows = [window for other in run.ranks if (window := run.window(other))]
    if not windows:
        return 0, 1
    return min(begin for begin, _ in windows), max(end for _, end in windows)
