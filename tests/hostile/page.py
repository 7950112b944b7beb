"""What became of hostile files as a table of Markdown: a line for each kind, and docs/hostile.md that keeps it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.hostile.runner import Outcome

PAGE = Path(__file__).resolve().parents[2] / "docs" / "hostile.md"
HEAD = ("| kind | files | complete | partial | refused | wrong | most seconds | most MB |",
        "|---|---:|---:|---:|---:|---:|---:|---:|")  # fmt: skip
ALL = "**all**"
_TABLE = re.compile(r"(?<=<!-- kinds -->\n).*(?=<!-- /kinds -->)", re.DOTALL)

Row = tuple[float, ...]


def rows(outcomes: Iterable[Outcome]) -> dict[str, Row]:
    """Kind -> files, complete, partial, refused, wrong, most processor seconds, most MB of a process."""
    kinds: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        kinds.setdefault(outcome.kind, []).append(outcome)
    found: dict[str, Row] = {}
    for kind, of in kinds.items():
        how = Counter(one.how for one in of)
        counts = (len(of), how["complete"], how["partial"], how["refused"], sum(bool(one.wrong) for one in of))
        found[kind] = (*counts, max(one.cpu_s for one in of), max(one.rss for one in of) >> 20)
    return found


def table(of: dict[str, Row]) -> str:
    """The lines of the kinds and of them all."""
    columns = list(zip(*of.values(), strict=True))
    everything = (*map(sum, columns[:5]), *map(max, columns[5:]))
    lines = [f"| {kind} | " + " | ".join(map(str, row[:5])) + f" | {row[5]:.1f} | {row[6]} |"
             for kind, row in [*of.items(), (ALL, everything)]]  # fmt: skip
    return "\n".join([*HEAD, *lines, ""])


def read(text: str) -> dict[str, Row]:
    """The rows of a printed table."""
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()[2:] if line]
    return {kind: (*map(int, told[:5]), float(told[5]), int(told[6])) for kind, *told in cells if kind != ALL}


def write(new: dict[str, Row], order: Iterable[str]) -> None:
    """Put these kinds into the page; the others stay as they were measured."""
    text = PAGE.read_text()
    old = _TABLE.search(text)
    known = (read(old[0]) if old else {}) | new
    PAGE.write_text(_TABLE.sub(lambda _: table({kind: known[kind] for kind in order if kind in known}), text))
