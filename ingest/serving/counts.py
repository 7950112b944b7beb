"""Who was in which iteration, from an engine's counts alone: no clock is needed.

An engine takes requests in order of arrival. Its log says how many prompts and tokens each iteration worked on, and how
many requests generated. With the lengths of prompts and answers that decides who they were, and every later count
checks it. Preempted requests leave from the end and come back first, with all their tokens at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

PREFILL, DECODE, RECOMPUTE = 0, 1, 2
#: Of those that wait, so many more than begin are looked at: a long prompt may reach the engine after a later one.
_AHEAD = 6
#: Requests that begin in one iteration and are looked for in any order; more are taken in order.
_ANY_ORDER = 6
#: Where the log begins within a run, so many places are tried, each over so many iterations.
_PLACES, _TRIED = 60, 300
#: Answers of engines that speculate end earlier than they count. Of such iterations there may be so many.
_MOST_SPECULATED = 0.2
#: Below this share of iterations that fit, nothing is known.
LEAST_FIT = 0.5


@dataclass(frozen=True)
class Wanted:
    """A request as an engine plans it; those are in order of arrival."""

    prompt: int
    output: int


@dataclass(frozen=True)
class Counts:
    """What an engine says of each of its iterations."""

    ctx_requests: Ints
    ctx_tokens: Ints
    gen_requests: Ints
    gen_tokens: Ints

    def __len__(self) -> int:
        return len(self.ctx_requests)

    @property
    def budget(self) -> int:
        """Most tokens of an iteration."""
        return int((self.ctx_tokens + self.gen_tokens).max(initial=0))


@dataclass(frozen=True)
class Segment:
    """A request in successive iterations; decoding brings one token in each, from ``token`` on."""

    request: int
    phase: int
    first: int
    last: int
    tokens: int | None  # of the request that were worked on; None: one in each iteration
    token: int | None  # the first output token that comes of it; None: none


@dataclass
class Replayed:
    """What came of a replay; ``agrees`` is of the iterations from ``begin`` to ``end``."""

    begin: int
    end: int
    segments: list[Segment]
    agrees: NDArray[np.bool_]
    placed: int  # requests that found their prefill

    @property
    def confidence(self) -> float:
        """Share of the iterations whose counts are all explained."""
        return float(self.agrees.mean()) if len(self.agrees) else 0.0


def replay(wanted: Sequence[Wanted], counts: Counts, starts: Sequence[int] | None = None) -> Replayed | None:
    """The members of a log's iterations. None where counts and requests do not fit together.

    ``starts``: iterations in which the first request may have begun.
    """
    if not wanted or not len(counts):
        return None
    extra = (counts.gen_tokens > counts.gen_requests) & (counts.gen_requests > 0)
    if extra.sum() > _MOST_SPECULATED * max(1, int((counts.gen_requests > 0).sum())):
        return None
    begins = (np.flatnonzero(counts.ctx_requests > 0).tolist() if starts is None else list(starts))[:_PLACES]
    if not begins:
        return None

    def score(begin: int, until: int) -> tuple[int, int]:
        tried = _Replay(wanted, counts, begin).run(until)
        return tried.fits, sum(tried.agrees)

    best = max(begins, key=lambda begin: score(begin, begin + _TRIED))
    near = sorted(
        begin for begin in begins if best - _TRIED < begin <= best
    )  # a prompt may begin before its last piece
    best = max(near, key=lambda begin: score(begin, best + _TRIED))
    done = _Replay(wanted, counts, best).run(len(counts)).result()
    return done if done.confidence >= LEAST_FIT and done.placed else None


@dataclass
class _Running:
    """A request that decodes since an iteration, with the token that came first then."""

    since: int
    token: int


class _Replay:
    """An engine that does what the counts say."""

    def __init__(self, wanted: Sequence[Wanted], counts: Counts, begin: int) -> None:
        self._wanted, self._counts, self._begin = wanted, counts, begin
        self._budget = counts.budget
        self._waiting = list(range(len(wanted)))
        self._left: dict[int, int] = {}  # prompts that are worked on: tokens that are left
        self._running: dict[int, _Running] = {}
        self._ends: dict[int, list[int]] = {}  # iteration -> whose last token comes in it
        self._out: list[tuple[int, int, int, int]] = []  # preempted: request, tokens left, tokens it has, since when
        self._strangers = int(counts.gen_requests[begin])  # that decode and are none of ours
        self._segments: list[Segment] = []
        self.agrees: list[bool] = []
        self.fits = self._placed = 0
        self._until = begin

    def run(self, until: int) -> _Replay:
        """Iterations up to one; it ends with the last request."""
        for at in range(self._begin, min(until, len(self._counts))):
            if not (self._waiting or self._left or self._running or self._out):
                break
            self._iteration(at)
            self._until = at + 1
        return self

    def result(self) -> Replayed:
        """What was found; those that still run end with the log."""
        for request in list(self._running):
            self._stop(request, self._until)
        return Replayed(self._begin, self._until, self._segments, np.array(self.agrees, bool), self._placed)

    def _iteration(self, at: int) -> None:
        generating = int(self._counts.gen_requests[at])
        tokens = int(self._counts.gen_tokens[at])
        context = int(self._counts.ctx_requests[at])
        worked = int(self._counts.ctx_tokens[at])
        full = worked + tokens >= self._budget
        known = self._strangers == 0
        more = generating - len(self._running) - self._strangers
        for _ in range(-more):
            if self._strangers:
                self._strangers -= 1
            elif self._running:
                known = False  # until it comes back with all of its tokens
                self._preempt(at)
        back = self._back(at, more, tokens - (generating - max(0, more)), full) if more > 0 else 0
        self._strangers += max(0, more) - back if more > 0 else 0
        known &= self._strangers == 0
        if context:
            known &= self._prompts(at, context, worked, full)
        self.agrees.append(known)
        for request in self._ends.pop(at, ()):
            if request in self._running:
                self._stop(request, at + 1)

    def _begins(self, request: int, at: int, token: int) -> None:
        """It decodes from an iteration on."""
        left = self._wanted[request].output - token
        if left > 0:
            self._running[request] = _Running(at, token)
            self._ends.setdefault(at + left - 1, []).append(request)

    def _stop(self, request: int, until: int) -> int:
        """It decodes no longer; the next token it would have."""
        run = self._running.pop(request)
        if until > run.since:
            self._segments.append(Segment(request, DECODE, run.since, until - 1, None, run.token))
        return run.token + until - run.since

    def _preempt(self, at: int) -> None:
        """The last that began leaves, and will be the first to come back."""
        request = next(reversed(self._running))
        end = self._running[request].since + self._wanted[request].output - self._running[request].token - 1
        self._ends.get(end, []).remove(request)
        has = self._stop(request, at)
        self._out.insert(0, (request, self._wanted[request].prompt + has, has, at))

    def _back(self, at: int, more: int, tokens: int, full: bool) -> int:
        """Preempted requests that come back, each with all of its tokens or what the budget leaves of them."""
        came = 0
        while came < more and self._out:
            request, left, has, since = self._out.pop(0)
            last = came + 1 == more or not self._out
            work = min(left, max(0, tokens))
            tokens -= work
            if work < left and full and last:
                self._segments.append(Segment(request, RECOMPUTE, at, at, work, None))
                self._out.insert(0, (request, left - work, has, since))
                return came + 1
            self._segments.append(Segment(request, RECOMPUTE, at, at, work, has))
            if work == left and self._begin <= since:
                self.agrees[since - self._begin] = self._strangers == 0
            self._begins(request, at + 1, has + 1)
            came += 1
        return came

    def _prompts(self, at: int, context: int, tokens: int, full: bool) -> bool:
        """Prompts that are worked on: those that had begun, then new ones."""
        for request in list(self._left)[:context]:
            work = min(self._left[request], tokens)
            tokens -= work
            context -= 1
            self._work(request, at, work)
        if not context:
            return tokens == 0
        chosen = self._chosen(context, tokens, full)
        if chosen is None:
            self._strangers += context
            self.fits -= 1
            return False
        self.fits += 1 - (chosen[-1] + 1 - context)
        self._placed += context
        for request in [self._waiting[place] for place in chosen]:
            self._waiting.remove(request)
            self._left[request] = self._wanted[request].prompt
            work = min(self._left[request], tokens)
            tokens -= work
            if not full:
                self._left[request] = work  # the rest was in the cache
            self._work(request, at, work)
        return True

    def _work(self, request: int, at: int, tokens: int) -> None:
        self._left[request] -= tokens
        done = self._left[request] == 0
        self._segments.append(Segment(request, PREFILL, at, at, tokens, 0 if done else None))
        if done:
            del self._left[request]
            self._begins(request, at + 1, 1)

    def _chosen(self, many: int, tokens: int, full: bool) -> tuple[int, ...] | None:
        """Places in the queue of those that begin: the first whose prompts give the tokens that were counted."""
        if many > len(self._waiting):
            return None
        prompts = [self._wanted[request].prompt for request in self._waiting[: many + _AHEAD]]
        first = tuple(range(many))
        orders = combinations(range(len(prompts)), many) if many <= _ANY_ORDER else iter([first])
        for places in orders:
            total = sum(prompts[place] for place in places)
            if total == tokens or (full and total - prompts[places[-1]] < tokens <= total):
                return places
        cached = sum(prompts[place] for place in first) > tokens >= many  # the prefix cache had a part of them
        return first if cached and not full else None
