"""What a step of a job is, told from the order in which its optimisers step and its outermost modules run.

The job's own rhythm decides: a step is one period of it. One optimiser: each of its steps, however many forwards come
before it. Several: one period of their order, as with a critic that steps five times for each step of a generator. Many
forwards without gradients and then optimiser steps, again and again: one rollout with its updates. Where parameters are
updated by hand: a backward, or what a scheduler counts. Where nothing is trained: a forward of the outermost module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

#: A forward that happens so often is a step; so many forwards without gradients in a row may be a rollout.
REPEATS = 2
#: With gradients it takes so many: if parameters are updated by hand, there is a backward among them.
WITH_GRADIENTS = 4
#: So many optimiser steps are waited for an optimiser that exists and never steps.
PATIENCE = 24
#: So many forwards or backwards are waited for an optimiser that exists to step.
ROLLOUT = 1000
#: How torch is told to compute gradients.
KINDS = ("backward", "grad")
_SLICE = re.compile(r"time:(\d+)(ms|s)")


@dataclass(frozen=True)
class By:
    """What somebody wants a step to be."""

    way: str = "auto"  # auto, optimizer, forward, count, time
    count: int = 1
    slice_ns: int = 0

    @staticmethod
    def parse(text: str) -> By:
        """``auto``, ``optimizer``, ``forward``, a number, ``time:200ms`` or ``time:2s``."""
        if text in ("auto", "optimizer", "forward"):
            return By(text)
        if text.isascii() and text.isdecimal() and 1 <= int(text) <= 1_000_000:
            return By("count", int(text))
        found = _SLICE.fullmatch(text)
        if found and len(found[1]) <= 6 and int(found[1]) > 0:
            return By("time", 1, int(found[1]) * (1_000_000 if found[2] == "ms" else 1_000_000_000))
        raise ValueError(f"{text!r} says no step; there are: auto, optimizer, forward, a number, time:200ms, time:2s")


@dataclass(frozen=True)
class Mark:
    """What ends a step: every so-many-th event of its owner."""

    kind: str  # optimizer, forward, rollout, backward, scheduler
    owner: int | None  # None: whoever it is
    every: int = 1


class Rhythm:
    """Hears of the events of a process until it knows its steps."""

    def __init__(self, by: By) -> None:
        self._by = by
        self._stepped: list[int] = []
        self._forwards: Counter[int] = Counter()
        self._rolled = 0  # forwards without gradients before the first optimiser step
        self._roller: int | None = None
        self._backwards: Counter[str] = Counter()
        self._scheduled = 0  # steps of schedulers with a backward before each
        self._since = 0  # backwards since the last of them

    def optimizer_stepped(self, key: int, known: Set[int]) -> Mark | None:
        """An optimiser has stepped; ``known`` are all that there are."""
        if self._by.way == "count":
            return Mark("optimizer", None, self._by.count)
        self._stepped.append(key)
        may_be_rollout = self._by.way == "auto" and self._rolled >= REPEATS and len(self._stepped) < self._rolled
        return None if may_be_rollout else optimizer_mark(self._stepped, known)

    def inference_begins(self) -> Mark | None:
        """An outermost forward without gradients begins: the second time after a rollout and updates it is a step."""
        if self._by.way == "auto" and self._rolled >= REPEATS and self._stepped and self._roller is not None:
            return Mark("rollout", self._roller)
        return None

    def forward_ended(self, key: int, gradients: bool, training: Callable[[], bool]) -> Mark | None:
        """An outermost forward has ended; ``training``: whether there is an optimiser that may step some time."""
        if self._by.way == "count":
            return None if training() else Mark("forward", None, self._by.count)
        if self._by.way == "optimizer" or (self._by.way == "auto" and self._stepped):
            return None
        self._forwards[key] += 1
        if not gradients:
            self._rolled += 1
            self._roller = key if self._roller is None else self._roller
        if self._forwards[key] < (WITH_GRADIENTS if gradients and self._by.way == "auto" else REPEATS):
            return None
        updated_by_hand = gradients and bool(self._backwards) and self._forwards[key] < ROLLOUT
        waits = updated_by_hand or (training() and (gradients or self._rolled < ROLLOUT))
        return None if waits and self._by.way == "auto" else Mark("forward", key)

    def backward_ended(self, kind: str, training: Callable[[], bool]) -> Mark | None:
        """An outermost backward has ended; ``kind``: by which of torch's two functions. An optimiser's steps tell more.

        A second one is a step where nobody else will end it: an optimiser that exists may do so yet.
        """
        if self._stepped:
            return None
        self._backwards[kind] += 1
        self._since += 1
        enough = self._backwards[kind] >= REPEATS and (sum(self._backwards.values()) >= ROLLOUT or not training())
        return Mark("backward", KINDS.index(kind)) if enough else None

    def scheduler_stepped(self) -> Mark | None:
        """A scheduler of the learning rate has stepped, where no step of its optimiser was heard of."""
        since, self._since = self._since, 0
        if self._stepped or not 0 < since <= PATIENCE:  # it also steps when it is made, and after an epoch
            return None
        self._scheduled += 1
        return Mark("scheduler", None) if self._scheduled >= REPEATS else None

    def forget_forwards(self) -> None:
        """Forwards were taken for steps, and then an optimiser stepped: they were none."""
        self._rolled, self._roller = 0, None


def optimizer_mark(stepped: Sequence[int], known: Set[int]) -> Mark | None:
    """The optimiser whose steps end a period; None while the order has not repeated itself."""
    for period in range(1, len(stepped)):
        pattern = stepped[:period]
        whole = len(stepped) > PATIENCE or known <= set(pattern)
        if whole and all(stepped[i] == stepped[i + period] for i in range(len(stepped) - period)):
            return _rarest(pattern)
    return None


def _rarest(pattern: Sequence[int]) -> Mark:
    """Of those that step least in a period, the one that comes last."""
    counts = Counter(pattern)
    least = min(counts.values())
    owner = next(key for key in reversed(pattern) if counts[key] == least)
    return Mark("optimizer", owner, least)
