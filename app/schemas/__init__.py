"""The JSON Schema of every document that commands print with --json, and of every answer to an agent.

A file is `<name>.v<version>.json`. A key that goes or changes its meaning makes a new version; a new key does not.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

_HERE = files("npulens.app.schemas")


@cache
def names() -> dict[str, int]:
    """Every schema, `agents/` before those of agents' answers, and its newest version."""
    found: dict[str, int] = {}
    for folder, prefix in ((_HERE, ""), (_HERE / "agents", "agents/")):
        for entry in folder.iterdir():
            name, version, ending = (entry.name.split(".") + ["", ""])[:3]
            if ending == "json":
                found[prefix + name] = max(int(version[1:]), found.get(prefix + name, 0))
    return dict(sorted(found.items()))


def schema(name: str, version: int | None = None) -> dict[str, Any]:
    """A schema, the newest version of it unless another is asked for."""
    folder, _, own = name.rpartition("/")
    place = _HERE / folder if folder else _HERE
    text = (place / f"{own}.v{version or names()[name]}.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)
    return found
