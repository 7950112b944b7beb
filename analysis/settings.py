"""npulens.toml: limits to override, detectors to leave out, and where a user's own lie.

    [limits.sync_stall]
    min_share = 0.005

    [detectors]
    off = ["step_jitter"]
    folder = "our_detectors"

    [serving]
    slo = "ttft=200,tpot=25"
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from npulens.analysis.serving.slo import USUAL, Slo, objectives

FILE = "npulens.toml"


@dataclass(frozen=True)
class Settings:
    """What npulens.toml says."""

    limits: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    off: tuple[str, ...] = ()
    folder: Path | None = None
    slo: Slo = USUAL  # what requests may take

    def limits_of(self, detector: str) -> Mapping[str, Any]:
        return self.limits.get(detector, {})


DEFAULT = Settings()


def read_settings(path: Path) -> Settings:
    """The settings in a file; what is not understood is an error that says where."""
    try:
        found = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: {error}") from error
    if unknown := found.keys() - {"limits", "detectors", "serving", "store"}:  # store is app/settings/of_store.py's
        raise ValueError(
            f"{path}: unknown section {', '.join(sorted(unknown))}; there are limits, detectors, serving and store"
        )
    limits, own = found.get("limits", {}), found.get("detectors", {})
    if not isinstance(limits, dict) or not all(isinstance(values, dict) for values in limits.values()):
        raise ValueError(f"{path}: limits belong to a detector: [limits.sync_stall]")
    if not isinstance(own, dict) or own.keys() - {"off", "folder"}:
        raise ValueError(f"{path}: [detectors] holds off and folder")
    off, folder = own.get("off", []), own.get("folder")
    if not isinstance(off, list) or not all(isinstance(name, str) for name in off):
        raise ValueError(f"{path}: off is a list of names of detectors")
    if folder is not None and not isinstance(folder, str):
        raise ValueError(f"{path}: folder is a path")
    return Settings(
        limits, tuple(off), None if folder is None else (path.parent / folder).resolve(),
        _slo(path, found.get("serving", {})),
    )  # fmt: skip


def _slo(path: Path, section: Any) -> Slo:
    if not isinstance(section, dict) or section.keys() - {"slo"} or not isinstance(section.get("slo", ""), str):
        raise ValueError(f'{path}: [serving] holds slo: slo = "ttft=200,tpot=25"')
    try:
        return objectives(section["slo"]) if "slo" in section else USUAL
    except ValueError as error:
        raise ValueError(f"{path}: serving.slo: {error}") from error
