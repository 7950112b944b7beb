"""Rows of a night that one cause may have moved are one event. A new driver that slows 14 metrics is one thing to read.

Within a task, everything that moved the same way since the same night is one event: parts move with their step. Tasks
are one event where a condition changed for all of them in that night. One factor must lie in the interval of each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from npulens.app.nightly.night import ORDER, TOLD, Hint, Night, Row, Verdict

#: Verdicts that say the same thing with more or less certainty, or a night later.
_WORSE = ("regressed", "open", "likely")
#: Metrics of an event that are named.
_NAMED = 8


@dataclass(frozen=True)
class Event:
    """Rows that belong together, the gravest first, a step before its parts."""

    rows: tuple[Row, ...]
    leads: tuple[Row, ...]  # of each task the row that stands for it
    hints: tuple[Hint, ...]  # conditions that changed for every task of it
    everything: bool  # every row of the night is in it, and they are of several tasks

    @property
    def lead(self) -> Row:
        return self.rows[0]

    @property
    def named(self) -> tuple[Row, ...]:
        """The rows that say what happened: one a task, then those that moved unlike theirs, most of a step first."""
        leads = {row.task: row for row in self.leads}
        others = [row for row in self.rows if row not in self.leads and not _alike(row, leads[row.task])]
        others.sort(key=lambda row: -abs(_turned(row.ratio, row) or 0.0) * (1.0 if row.share is None else row.share))
        return (*self.leads, *others)[:_NAMED]

    @property
    def verdict(self) -> Verdict:
        """The gravest of its rows."""
        return self.lead.verdict

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(row.task for row in self.leads))

    @property
    def factors(self) -> tuple[float, float] | None:
        """The least and the most by which its tasks changed; turned to times where some are rates."""
        same = len({row.better for row in self.leads}) == 1
        found = [row.ratio if same or row.better == "lower" else 1 / row.ratio for row in self.leads if row.ratio]
        return (min(found), max(found)) if found else None


def events(night: Night) -> tuple[Event, ...]:
    """What the night is about, the gravest first. Every row it is about is in exactly one event."""
    of_tasks: dict[tuple[object, ...], list[Row]] = {}
    dated: dict[int, str | None] = {}
    for row in moved(night):
        # Metrics of one regression are one event, even where their histories date it a night apart.
        since = row.since if row.number is None else dated.setdefault(row.number, row.since)
        of_tasks.setdefault(_within(row, since), []).append(row)
    groups: list[list[list[Row]]] = []
    for rows in of_tasks.values():
        group = next((group for group in groups if _belongs(rows, group)), None)
        if group is None:
            groups.append([rows])
        else:
            group.append(rows)
    # Groups begin with their gravest row, because the rows were in that order.
    return tuple(_event(night, group) for group in groups)


def moved(night: Night) -> list[Row]:
    """The rows that this night is about, the gravest first."""
    told = [row for verdict in TOLD for row in night.of(verdict)]
    found = [*told, *(row for row in night.outside if row not in told)]
    # The step first: what it is made of moves with it.
    return sorted(found, key=lambda row: (
        ORDER.index(row.verdict), row.number or 0, _depth(row), -abs((row.ratio or 1) - 1),
    ))  # fmt: skip


def _depth(row: Row) -> int:
    """0 of a step, 1 of what is left of it without waits, 2 of anything else."""
    return 0 if row.metric in ("step", "step_ns") else 1 if row.metric.startswith("step") else 2


def _alike(row: Row, lead: Row) -> bool:
    """Whether one factor may lie in the intervals of both."""
    mine, its = _reach(row), _reach(lead)
    return mine is not None and its is not None and max(mine[0], its[0]) <= min(mine[1], its[1])


def _within(row: Row, since: str | None) -> tuple[object, ...]:
    """What rows of one task share if they are one event."""
    kind = "worse" if row.verdict in _WORSE else row.verdict
    return row.task, row.identity, kind, since, (_turned(row.ratio, row) or 0.0) > 0


def _belongs(rows: Sequence[Row], group: Sequence[Sequence[Row]]) -> bool:
    """Whether another task's rows have the cause of a group: verdict, night, condition, and one factor for all."""
    first, mine = group[0][0], rows[0]
    alike = first.since is not None and _within(first, first.since)[2:] == _within(mine, mine.since)[2:]
    if not alike or not _shared([*group, rows]):
        return False
    reaches = [_reach(one[0]) for one in (*group, rows)]
    known = [reach for reach in reaches if reach is not None]
    return len(known) == len(reaches) and max(low for low, _ in known) <= min(high for _, high in known)


def _shared(group: Sequence[Sequence[Row]]) -> tuple[Hint, ...]:
    """The conditions that changed alike for the leads of all tasks."""
    every = [{(hint.name, hint.before, hint.after) for hint in rows[0].hints} for rows in group]
    common = set.intersection(*every)
    return tuple(hint for hint in group[0][0].hints if (hint.name, hint.before, hint.after) in common)


def _turned(ratio: float | None, row: Row) -> float | None:
    """The logarithm of a ratio, turned so that more is worse."""
    if ratio is None or ratio <= 0 or not math.isfinite(ratio):
        return None
    return math.log(ratio) if row.better == "lower" else -math.log(ratio)


def _reach(row: Row) -> tuple[float, float] | None:
    """Where the factor of a row may lie: its interval, or its ratio give or take the noise. None if none is known."""
    low, high, middle = (_turned(ratio, row) for ratio in (row.low, row.high, row.ratio))
    if low is not None and high is not None:
        return min(low, high), max(low, high)
    if middle is not None and row.floor is not None:
        return middle - row.floor, middle + row.floor
    return None


def _event(night: Night, group: Sequence[Sequence[Row]]) -> Event:
    rows = tuple(row for one in group for row in one)
    several = len({row.task for row in rows}) > 1
    return Event(rows, tuple(one[0] for one in group), _shared(group), several and len(rows) == len(night.rows))
