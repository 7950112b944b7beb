"""Runs the detectors for the app, with the settings of npulens.toml; a mistake in them is one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Lock

from npulens.analysis.discovery import Detector, detectors
from npulens.analysis.engine import Check, Outcome, check, chosen, judged
from npulens.analysis.finding import Finding
from npulens.analysis.limits import overridden
from npulens.analysis.run import Run
from npulens.analysis.settings import DEFAULT, FILE, Settings
from npulens.analysis.views import hold_small, install
from npulens.app.settings.of_checks import in_force
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import verbatim
from npulens.ingest.store import runs as stores

#: What a user's own detector may raise while it is imported.
_BROKEN = (ValueError, ImportError, SyntaxError, NameError, TypeError, AttributeError)


def ready(chosen_settings: Settings, only: Iterable[str] | None = None) -> tuple[Detector, ...]:
    """The detectors that would run; a mistake in the settings or a name that none has is said before anything runs."""
    try:
        every = detectors(Settings(chosen_settings.limits, (), chosen_settings.folder))
        known = {detector.name: detector for detector in every}
        if unknown := {*chosen_settings.limits, *chosen_settings.off} - known.keys():
            raise ValueError(
                f"{FILE}: there is no detector {', '.join(sorted(unknown))}; there are {', '.join(known) or 'none'}"
            )
        for name, values in chosen_settings.limits.items():
            overridden(known[name].limits(), values, f"{FILE}: limits.{name}")
        return chosen(detectors(chosen_settings), only)
    except _BROKEN as error:
        raise IngestError(
            "settings", verbatim(f"{type(error).__name__}: {error}" if _foreign(error) else error)
        ) from error


def _foreign(error: BaseException) -> bool:
    """Errors that are not our own sentences carry their kind."""
    return not isinstance(error, ValueError) or isinstance(error, UnicodeError)


def judge(store: Path, run_id: str, only: Iterable[str] | None = None, use: Settings = DEFAULT) -> Check:
    """What the detectors say of a run."""
    names = [detector.name for detector in ready(use, only)]
    con = stores.open_run(store, run_id)
    try:
        hold_small(con)
        return check(con, None if only is None else names, use)
    finally:
        con.close()


@dataclass(frozen=True)
class HeldRun:
    """An open run with its derived facts, so that one detector can run again at once with other limits."""

    run: Run
    lock: Lock = field(default_factory=Lock)

    def judge(
        self, detector: Detector, changed: Mapping[str, float], use: Settings
    ) -> tuple[tuple[Finding, ...], Outcome]:
        """What a detector says with some of its limits moved; one visitor after the other."""
        limits = {**use.limits, detector.name: {**use.limits_of(detector.name), **changed}}
        with self.lock:
            findings, outcome = judged(self.run, detector, replace(use, limits=limits))
        return tuple(findings), outcome

    def close(self) -> None:
        self.run.con.close()


def hold(store: Path, run_id: str) -> HeldRun:
    """Opens a run and keeps its connection."""
    con = stores.open_run(store, run_id)
    install(con)
    return HeldRun(Run(con, in_force(None).slo))
