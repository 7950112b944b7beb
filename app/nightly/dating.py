"""Which night this is. Its name is a date; its place among the others never depends on the clock alone.

A clock that was set back would put a new night before old ones. Or that night would look as if it were done already. So
nights follow each other in the order in which they were run, and the report says where the clock disagrees.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from npulens.app.nightly import journal, place
from npulens.app.nightly.journal import Journal
from npulens.app.nightly.night import Said


@dataclass(frozen=True)
class Which:
    """The night to work on."""

    label: str
    at_ns: int
    state: str  # new, resumed, finished
    notices: tuple[Said, ...]


@dataclass(frozen=True)
class _Known:
    label: str
    at_ns: int
    seen_ns: int  # what the clock said last in it
    finished: bool


def which(home: Path, asked: date | None, again: bool = False) -> Which:
    """Tonight, by the clock or as asked; ``again`` makes a further one of a date that is done."""
    now = time.time_ns()
    known = [found for label in place.labels(home) if (found := _known(home / label))]
    last = max(known, key=lambda each: each.at_ns, default=None)
    back = last is not None and asked is None and now < last.seen_ns
    label = (asked or datetime.now().date()).isoformat()
    at_ns = _midnight(asked) if asked else max(now, last.at_ns + 1 if last else 0)
    held = {each.label: each for each in known}
    notices: list[Said] = []
    if back and last is not None:
        notices.append(Said("clock_back", {"clock": _moment(now), "last": last.label, "seen": _moment(last.seen_ns)}))
    if not back and not again and label in held:
        mine = held[label]
        if mine.finished:
            return Which(label, mine.at_ns, "finished", ())
        return Which(label, mine.at_ns, "resumed", (*_lost(known, label, home), *notices))
    notices = [*_lost(known, label, home), *notices]
    free = (name for i in range(1, 10_000) if (name := label if i == 1 else f"{label}.{i}") not in held)
    name = next(free)
    if name != label and asked:
        at_ns = max(each.at_ns for each in known if each.label.startswith(label)) + 1
    return Which(name, at_ns, "new", tuple(notices))


def _known(folder: Path) -> _Known | None:
    """What the journal of a night says; None where it says nothing."""
    facts = journal.moments(folder)
    begun = next((fact.at_ns for fact in facts if fact.what == "night"), None)
    if begun is None:
        return None
    seen = max(fact.clock_ns for fact in facts)
    return _Known(folder.name, begun, seen, any(fact.what == "end" for fact in facts))


def _lost(known: list[_Known], label: str, home: Path) -> list[Said]:
    """Nights that died and were not gone on with, said once: by the first night after them."""
    said = []
    for each in sorted(known, key=lambda each: each.at_ns):
        if each.finished or each.label == label:
            continue
        facts = journal.opened(home / each.label)
        planned = sum(int(fact.get("steps", 0)) for fact in facts.of("night")[:1])
        said.append(Said("lost_night", {"night": each.label, "done": len(facts.done()), "planned": planned}))
        facts.add({"what": "end", "clock_ns": time.time_ns(), "given_up": True})
    return said


def begin(folder: Path, tonight: Which, steps: int) -> Journal:
    """The journal of tonight, begun or gone on with."""
    facts = journal.opened(folder)
    if not facts.of("night"):
        facts.add({"what": "night", "label": tonight.label, "at_ns": tonight.at_ns, "clock_ns": time.time_ns(),
                   "steps": steps})  # fmt: skip
    return facts


def _midnight(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 10**9


def _moment(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M} UTC"
