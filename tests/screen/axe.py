"""axe-core over every page in both themes: what a screen reader, a keyboard or weak eyes cannot use.

    python -m tests.screen.axe [CAPTURE ...] [--page NAME ...] [--lang en zh]

Each page of each capture is opened in Chromium, at 1440 pixels, light and dark. A line a page says how many findings
of axe-core were critical or serious, moderate, and minor; below it stands what each of them is. Ends with 1 where a
finding is moderate or worse. Without captures, the sample late_rank is looked at.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.bench.shots import _browser, _load, _served
from tests.screen.pages import LENSES, ROOT, opened

SEVERE, LESS = ("critical", "serious"), "moderate"
_ASK = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations.map(
    (one) => ({rule: one.id, impact: one.impact, places: one.nodes.map((node) => node.html.slice(0, 120))}))"""


@dataclass(frozen=True)
class Violation:
    """A rule of axe-core that a page breaks, and where."""

    rule: str
    impact: str
    places: tuple[str, ...]


def script() -> str | None:
    """axe-core itself, as a package of the tests brings it; None where that is not installed."""
    found = find_spec("axe_playwright_python")
    return None if found is None else Path(str(found.origin)).with_name("axe.min.js").read_text("utf-8")


def violations(page: Any, axe: str) -> list[Violation]:
    """What the page that is open breaks."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe + "; 0")
    return [Violation(one["rule"], str(one["impact"]), tuple(one["places"])) for one in page.evaluate(_ASK)]


def main() -> None:
    asked = _asked()
    axe = script()
    if axe is None:
        sys.exit("axe-core is not installed: pip install axe-playwright-python")
    wrong = 0
    print("| capture | page | theme | serious | moderate | minor |\n|---|---|---|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory() as made:
        store = Path(made) / "store"
        runs = {path.name: _load(path, store) for path in asked.captures}
        with _served(store) as url, _browser() as browser:
            for theme in ("light", "dark"):
                context = browser.new_context(
                    viewport={"width": 1440, "height": 900}, color_scheme=theme, reduced_motion="reduce",
                )  # fmt: skip
                page = context.new_page()
                for name, run in runs.items():
                    for lens in asked.page:
                        for lang in asked.lang:
                            opened(page, url, lens, run, lang)
                            wrong += _told(violations(page, axe), f"{name} | {lens} ({lang}) | {theme}")
                context.close()
    sys.exit(1 if wrong else 0)


def _asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.screen.axe", description="axe-core over every page.")
    parser.add_argument("captures", nargs="*", type=Path, default=[ROOT / "sample_traces" / "late_rank"])
    parser.add_argument("--page", nargs="+", default=LENSES, choices=LENSES)
    parser.add_argument("--lang", nargs="+", default=("en",), choices=("en", "zh"))
    return parser.parse_args()


def _told(found: list[Violation], where: str) -> int:
    """Prints the line of a page; how many findings are moderate or worse."""
    severe = [one for one in found if one.impact in SEVERE]
    less = [one for one in found if one.impact == LESS]
    print(f"| {where} | {len(severe)} | {len(less)} | {len(found) - len(severe) - len(less)} |", flush=True)
    for one in found:
        print(f"  {one.impact} {one.rule}: {one.places[0] if one.places else ''}", flush=True)
    return len(severe) + len(less)


if __name__ == "__main__":
    main()
