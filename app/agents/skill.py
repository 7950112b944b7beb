"""What an agent is told before it asks: SKILL.md, beside this file."""

from __future__ import annotations

from importlib.resources import files

from npulens.app import agents


def whole() -> str:
    """The file, as agents' skill folders want it."""
    return (files(agents) / "SKILL.md").read_text("utf-8")


def text() -> str:
    """Its text without the lines for the folder's index."""
    return whole().split("---\n", 2)[2].strip()
