"""Every page of the dashboard, and how a script opens one and waits until it has said what it has to say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: By their address.
LENSES = (
    "Workspace", "Timeline", "Kernels", "Launch", "Copies", "Communication", "Memory", "Counters", "Efficiency",
    "Parallel", "Flame", "Requests", "Compare", "Runs", "History", "Nights", "Bench", "Laboratory", "Compatibility",
    "Sql", "Learn",
)  # fmt: skip
_RESTS = "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"


def opened(page: Any, url: str, lens: str, run: str, lang: str = "en", query: str = "") -> None:
    """Goes there; a script may begin again by itself, so the page has to rest three times."""
    page.goto(f"{url}/{'' if lens == 'Workspace' else lens}?run={run}&lang={lang}{query}")
    page.locator(".st-key-brand").wait_for(timeout=60_000)
    for _ in range(3):
        page.wait_for_timeout(500)
        page.wait_for_function(_RESTS, timeout=120_000)
    if lens == "Workspace":
        page.locator(".st-key-answer").first.wait_for(timeout=120_000)
    page.wait_for_timeout(700)
