"""The selection: ranks, steps, a window of time, a problem and a span of one run, and how an address spells it.

Every page reads it from the address, so a link holds it to the nanosecond. It belongs to the run of that address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

#: The words of an address. `rank`, `step` and the timeline's `area` are read where one of them is missing.
WORDS = ("ranks", "steps", "window", "problem", "span")
_LONGEST = 200  # characters of a problem's name
_MOST = 2**62  # ns: no capture is longer
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_MOST_RANKS = 100_000


@dataclass(frozen=True)
class Selection:
    """What of a run is looked at; a part that is not chosen means all of it."""

    ranks: tuple[int, ...] = ()
    steps: tuple[int, int] | None = None  # the first and the last recorded step
    window: tuple[int, int] | None = None  # from here to before there, in ns from run.origin_ns
    problem: str | None = None  # the id of a finding
    span: int | None = None

    @property
    def narrows(self) -> bool:
        """Whether less than the whole run is measured."""
        return bool(self.ranks) or self.steps is not None or self.window is not None

    @property
    def empty(self) -> bool:
        """Whether nothing is chosen at all."""
        return self == Selection()

    def query(self) -> dict[str, str]:
        """The words of an address; a part that is not chosen has none."""
        told = {
            "ranks": ranges(self.ranks),
            "steps": "" if self.steps is None else "-".join(str(one) for one in dict.fromkeys(self.steps)),
            "window": "" if self.window is None else f"{self.window[0]}-{self.window[1]}",
            "problem": self.problem or "", "span": "" if self.span is None else str(self.span),
        }  # fmt: skip
        return {word: text for word, text in told.items() if text}


def read(query: Mapping[str, str]) -> Selection:
    """The selection that an address spells. What cannot be read counts as not chosen.

    Beside `from` and `to` a `rank` says where the timeline looks, and selects nothing.
    """
    problem, span = query.get("problem", ""), query.get("span", "")
    ranks = query.get("ranks") or ("" if query.get("from") else query.get("rank", ""))
    return Selection(
        _ranks(ranks), _steps(query.get("steps") or query.get("step", "")),
        _window(query.get("window") or query.get("area", "")),
        problem if problem and len(problem) <= _LONGEST else None,
        int(span) if re.fullmatch(r"\d{1,18}", span) else None,
    )  # fmt: skip


def stale(query: Mapping[str, str], told: Mapping[str, str]) -> tuple[str, ...]:
    """Words of an address that say something else than the words of a selection."""
    gone = [word for word in WORDS if word in query and word not in told]
    if "span" in gone and read({"span": query["span"]}).span is None:
        gone.remove("span")  # a gap or a path of the timeline, which is no span of the run
    if "area" in query and read({"area": query["area"]}).window != read(told).window:
        gone.append("area")
    if "from" not in query and "rank" in query:
        gone.append("rank")
    return (*gone, *(["step"] if "step" in query else []))


def _ranks(text: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in text.split(",") if text else ():
        told = _RANGE.fullmatch(part.strip())
        if told is None:
            return ()
        first, last = int(told[1]), int(told[2] or told[1])
        if last - first >= _MOST_RANKS:
            return ()
        found.update(range(first, last + 1))
    return tuple(sorted(found)) if len(found) <= _MOST_RANKS else ()


def _steps(text: str) -> tuple[int, int] | None:
    told = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", text.strip())
    if told is None:
        return None
    first, last = int(told[1]), int(told[2] or told[1])
    return (first, last) if first <= last else (last, first)


def _window(text: str) -> tuple[int, int] | None:
    """`FROM-TO`; an area of the timeline (`FROM,TO,track...`) is one too."""
    told = re.match(r"(\d{1,19})(?:-|,)(\d{1,19})(?:,|$)", text.strip())
    if told is None:
        return None
    begin, end = int(told[1]), int(told[2])
    return (begin, end) if begin < end <= _MOST else None


def ranges(numbers: Iterable[int]) -> str:
    """Numbers with neighbours joined, as an address has them: 0,2-7."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
