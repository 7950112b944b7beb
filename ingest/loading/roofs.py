"""The roofs of the machine, as the manifest of a recording carries them: checked, and put beside a rank's settings.

`npulens doctor --roofs` measures them, `npulens collect` copies them. What is not shaped as those two write it is
nobody's measurement and is left out. What a trace itself says under that name goes as well.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from npulens.ingest.tables.finish import Part

#: Under which name they stand in `rank.settings`.
KEY = "npulens_roofs"

_Name = Annotated[str, Meta(min_length=1, max_length=200)]
_Rate = Annotated[float, Meta(gt=0, le=1e30)]


class Roof(Struct, frozen=True):
    """One of them; in operations or bytes a second, a launch in ns."""

    kind: Literal["matmul", "memory", "launch"]
    name: _Name
    best: _Rate


class Roofs(Struct, frozen=True):
    """What analysis needs of a measurement; the rest stays in the manifest."""

    backend: Literal["npu", "cuda", "mps", "cpu"]
    device: _Name
    measured_at: _Name
    roofs: Annotated[list[Roof], Meta(max_length=100)]
    threads: Annotated[int, Meta(ge=1, le=1 << 20)] | None = None


def beside(part: Part, said: dict[str, Any]) -> Part:
    """The part with the roofs of its machine among its settings, where the manifest of its recording has any."""
    settings, found = _settings(part.facts.get("settings")), _checked(said.get("roofs"))
    if settings is None or (found is None and KEY not in settings):
        return part
    new = {name: value for name, value in settings.items() if name != KEY} | ({} if found is None else {KEY: found})
    return replace(part, facts=part.facts | {"settings": json.dumps(new, ensure_ascii=False)})


def _settings(told: object) -> dict[str, Any] | None:
    """What a reader told of them as an object; None where it is something else."""
    try:
        found = json.loads(told) if isinstance(told, str) else {} if told is None else told
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _checked(told: object) -> Any:
    try:
        return None if told is None else msgspec.to_builtins(msgspec.convert(told, Roofs))
    except msgspec.ValidationError:
        return None
