"""The history of a store, judged: what the History page, `npulens history` and the nightly report say of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from npulens.analysis.regression.covariates import Suspect, suspects_of
from npulens.analysis.regression.discoveries import discoveries
from npulens.analysis.regression.floor import Floor, noise_floor
from npulens.analysis.regression.series import LIMITS, Change, Limits, SeriesVerdict, judge_all
from npulens.analysis.serving.slo import USUAL
from npulens.app.nightly.confirm import confirm
from npulens.app.text import i18n
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.earlier import formats
from npulens.ingest.store import history, history_run, runs
from npulens.ingest.store.history import Identity, Point

#: Whoever has it has the figures of requests.
GOODPUT = "goodput"


@dataclass(frozen=True)
class Judged:
    """One metric of one identity: its points, what is said of those that are usable, and its noise floor."""

    identity: Identity
    metric: str
    points: tuple[Point, ...]  # all of them, the oldest first
    verdict: SeriesVerdict  # its indices count the usable ones
    stands: bool  # whether a fresh change survives that many metrics were looked at
    floor: Floor | None = None  # from base against base; None: too few nights measured that

    @cached_property
    def used(self) -> tuple[Point, ...]:
        """The points that the verdict speaks of."""
        return tuple(point for point in self.points if point.usable)

    @property
    def unit(self) -> str:
        return self.points[-1].unit

    @property
    def better(self) -> str:
        return self.points[-1].better

    def worse(self, change: Change) -> bool:
        """Whether a change is one for the worse."""
        return (change.ratio > 1) == (self.better == "lower")

    def suspects(self, number: int) -> list[Suspect]:
        """The conditions that changed with one of the changes."""
        return suspects_of([point.covariates for point in self.used], self.verdict.changes, number)

    def sides(self, number: int) -> tuple[str, str] | None:
        """The runs nearest to a change on either side of it, to be compared; None where there are none."""
        change = self.verdict.changes[number]
        before = [point.run_id for point in self.used[: change.first] if point.run_id]
        after = [point.run_id for point in self.used[change.last :] if point.run_id]
        return (before[-1], after[0]) if before and after else None


def catch_up(store: Path) -> None:
    """Bring every run of the store into the history that is not there yet, and what its requests took."""
    history_run.catch_up(store)
    serving = [run for run in runs.runs(store) if not formats().isdisjoint(run.formats)]
    told = history.having(store, GOODPUT) if serving else set()
    for run in serving:
        if run.run_id not in told and (figures := _of_requests(store, run.run_id)):
            found = history_run.numbers(store, run, figures=figures)
            if found is not None:
                history.add(store, *found)


def _of_requests(store: Path, run_id: str) -> list[history_run.Figure]:
    """Percentiles and goodput, by the usual objectives: night after night by the same."""
    from npulens.analysis.serving import compared  # with scipy: half a second

    try:
        with runs.open_run(store, run_id) as con:
            found = compared.side(con)
    except IngestError:  # it cannot be opened, and other pages say so
        return []
    if found is None:
        return []
    values = zip(compared.NAMES, found.values(USUAL).tolist(), strict=True)
    return [
        (name, "%", "higher", 100 * value) if name == GOODPUT else (f"{name}_ns", "ns", "lower", value)
        for name, value in values if not math.isnan(value)
    ]  # fmt: skip


def judged(
    store: Path, identity_key: str | None = None, metric: str | None = None, limits: Limits = LIMITS
) -> list[Judged]:
    """Every series of a store, or of an identity, or one of them, in the order of their names."""
    everything = history.everything(store, identity_key, metric)
    known = history.keyed(store)
    measured = {of: points for of, points in everything.items() if not of[1].endswith(history.AA) and of[0] in known}
    usable = [[point for point in points if point.usable] for points in measured.values()]
    verdicts = judge_all(
        [[point.value for point in points] for points in usable], limits,
        [points[-1].better for points in measured.values()],
    )  # fmt: skip
    fresh = [said.changes[-1].p if said.verdict in ("regressed", "improved") else 1.0 for said in verdicts]
    found = [
        Judged(known[key], name, tuple(points), said, stands, _floor(everything, key, name))
        for ((key, name), points), said, stands in zip(measured.items(), verdicts, discoveries(fresh), strict=True)
    ]
    return sorted(found, key=lambda each: (each.identity.texts, each.metric))


def _floor(everything: Mapping[tuple[str, str], list[Point]], key: str, name: str) -> Floor | None:
    equal = everything.get((key, name + history.AA), ())
    return noise_floor([point.value for point in equal if point.usable])


def confirming(found: Sequence[Suspect], workload: str) -> str:
    """The command that measures before against after of the first suspect a command can set; empty without one."""
    return confirm(found, workload or "TASK", "CONFIG")


def percent(ratio: float) -> str:
    """A change of level with its sign: +5.1 %."""
    return f"{100 * (ratio - 1):+.1f} %" if math.isfinite(ratio) else "+∞"


def amount(value: float | None, unit: str) -> str:
    """A value as people read it."""
    if value is None:
        return "-"
    if unit == "ns":
        return i18n.duration(round(value))
    return i18n.size(round(value)) if unit == "bytes" else i18n.digits(value) + ("" if unit == "count" else f" {unit}")
