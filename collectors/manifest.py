"""One file beside every result: what was run, on what, how, and how far its figures can be believed."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from npulens.collectors.backends.probe import Choice
from npulens.collectors.doctor.roofs import kept
from npulens.collectors.environment import environment

NAME = "manifest.json"


def write(directory: Path, what: str, command: list[str], choice: Choice, told: Mapping[str, Any]) -> Path:
    """Writes the manifest; ``told`` is what is particular to this result. Roofs are those that were measured before."""
    capability = choice.capability
    said = {
        "what": what,
        "evidence": choice.actual,
        "command": command,
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "backend": {
            "requested": choice.requested, "actual": choice.actual, "reason": choice.reason,
            "device": capability.device, "count": capability.count,
        },
        "environment": environment(capability.versions),
        **told,
    }  # fmt: skip
    roofs = kept(choice)
    if roofs is not None:
        said["roofs"] = roofs
    return _put(directory, said)


def read(directory: Path) -> dict[str, Any]:
    """What a manifest says; nothing without one that can be read."""
    try:
        said = json.loads((directory / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) else {}


def amend(directory: Path, told: Mapping[str, Any]) -> Path:
    """Says anew what has changed since."""
    return _put(directory, {**read(directory), **told})


def _put(directory: Path, said: Mapping[str, Any]) -> Path:
    path = directory / NAME
    half = directory / f".{NAME}.half"
    half.write_text(json.dumps(said, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    half.replace(path)  # whoever reads it finds the old one or the new one
    return path
