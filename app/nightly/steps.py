"""What a night does, in which order: round by round through all tasks, base and head one after the other.

Round by round, so that a budget that runs out costs every task its last pairs and none its all. A coin says which side
comes first in a round. Whatever drifts or swings during a night then meets both sides by chance alone. Chance is what
the test of the pairs reckons with. In fixed turns (A B B A) a season or a memory of the machine could keep step with
the turns. Noise that remembers (AR 0.6) then gave 1.5 % of false alarms and 0.8 % with the coin, each of 8,000 nights.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from random import Random

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


def planned(config: Config, night: str) -> list[Step]:
    """Every step of a night, in order; the coins of a night are the same when it is gone on with."""
    return list(_turns({task.title: (task, range(rounds(task, config.night.rounds))) for task in config.tasks}, night))


def more(config: Config, tasks: Collection[str], between: tuple[int, int], night: str) -> list[Step]:
    """The rounds between one look at some tasks and the next, both as multiples of the task's rounds."""
    turns = {task.title: (task, rounds(task, config.night.rounds)) for task in config.tasks if task.title in tasks}
    return list(_turns({
        title: (task, range(between[0] * each, between[1] * each)) for title, (task, each) in turns.items()
    }, night))  # fmt: skip


def _turns(wanted: Mapping[str, tuple[Workload | Job | Watch, range]], night: str) -> Iterator[Step]:
    for turn in sorted({turn for _, turns in wanted.values() for turn in turns}):
        for task, turns in wanted.values():
            if turn in turns:
                both = not isinstance(task, Watch) and task.base is not None
                sides = ("base", "head") if both else ("head",)
                coin = Random(f"{night}/{task.title}/{turn}").random() < 0.5
                yield from (Step(task, turn, side) for side in (sides if coin else sides[::-1]))
