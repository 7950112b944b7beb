"""What a night does, in which order: round by round through all tasks, base and head in turns.

Round by round, so that a budget that runs out costs every task its last pairs and none its all; base first in one
round and head first in the next, so that whatever drifts during a night meets both alike.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from npulens.app.nightly.config import Config, Job, Side, Watch, Workload

#: Sessions of a task that has nothing to be compared with in the same night.
ALONE = 3


@dataclass(frozen=True)
class Step:
    """One session of one side of one task."""

    task: Workload | Job | Watch
    round: int
    side: str  # base, head

    @property
    def name(self) -> str:
        return f"{self.task.title}/{self.round:03d}/{self.side}"

    @property
    def of(self) -> Side:
        """What is measured; a watched folder has no sides."""
        if isinstance(self.task, Watch) or self.side == "head":
            return Side() if isinstance(self.task, Watch) else self.task.head
        return self.task.base or Side()


def rounds(task: Workload | Job | Watch, default: int) -> int:
    """Sessions a side."""
    if isinstance(task, Watch):
        return 1
    if task.rounds is not None:
        return task.rounds
    return default if task.base is not None else ALONE


def planned(config: Config) -> list[Step]:
    """Every step of a night, in order."""
    return list(_turns({task.title: (task, range(rounds(task, config.night.rounds))) for task in config.tasks}))


def again(config: Config, suspects: Collection[str]) -> list[Step]:
    """As many fresh rounds of what seems to have moved: chance does not move the same thing twice."""
    moved = [(task, rounds(task, config.night.rounds)) for task in config.tasks if task.title in suspects]
    return list(_turns({task.title: (task, range(turns, 2 * turns)) for task, turns in moved}))


def _turns(wanted: Mapping[str, tuple[Workload | Job | Watch, range]]) -> Iterator[Step]:
    for turn in sorted({turn for _, turns in wanted.values() for turn in turns}):
        for task, turns in wanted.values():
            if turn in turns:
                both = not isinstance(task, Watch) and task.base is not None
                sides = ("base", "head") if both else ("head",)
                yield from (Step(task, turn, side) for side in (sides if turn % 2 == 0 else sides[::-1]))
