"""Replays the requests of a run through a model of its engine: what an edit of the run gives back.

Requests come when they came. The scheduler is that of continuous batching: first in, first out, a budget of tokens,
slots and KV blocks. An iteration takes ``a + b * any context + c * context tokens + d * decoders``, fitted on the run's
own iterations (`analysis/serving/fitting.py`). What the fit leaves over is drawn again, from iterations of like length,
with a fixed seed. Stalls are no part of the fit; they stay where they were.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.serving.slo import Slo

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
#: A limit that was neither recorded nor seen.
UNLIMITED = 1 << 60
#: What an iteration takes beyond the fit is drawn from so many of like length before and after its moment.
_NEAR = 4
#: Small runs are the mean of several draws; one draw replays at least so many tokens of output.
_DRAWS, _TOKENS = 8, 100_000
_SEED = 22


@dataclass(frozen=True)
class Load:
    """The requests of a run in order of arrival; ns from the run's origin."""

    ids: tuple[str, ...]
    sent_ns: Ints
    prompt: Ints  # tokens
    cached: Ints  # tokens of the prompt that were not computed
    output: Ints  # tokens
    before_ns: Ints  # from sending to the engine, when the engine reads at once
    after_ns: Ints  # from the end of an iteration to who asked
    hold_ns: Ints  # between the first token and the next one, outside of this engine
    engine: Ints
    counted: Flags  # percentiles are of these


@dataclass(frozen=True)
class Stall:
    """From when to when an engine did nothing, whatever it had to do."""

    ts_ns: int
    dur_ns: int


@dataclass(frozen=True)
class Rest:
    """Iterations of like length in order of time: what each took beyond the fit, and what passed until the next."""

    from_ns: float  # iterations that the fit says take as long, or longer
    ts_ns: tuple[float, ...]
    rest_ns: tuple[float, ...]
    gap_ns: tuple[float, ...]


@dataclass(frozen=True)
class Model:
    """How long an iteration takes, and what the scheduler may put into one."""

    base_ns: float
    context_ns: float
    context_token_ns: float
    decoder_ns: float
    gap_ns: float | None = None  # between iterations, while there is work; None: as it was
    eager_ns: float = 0.0  # more for decoders of a number that has no graph
    eager: frozenset[int] = frozenset()
    padded: Mapping[int, int] = field(default_factory=dict)  # decoders -> the number that a graph pads them to
    gained: float = 1.0  # tokens that a decoder gets from an iteration
    drafted: float = 0.0  # tokens that are verified for each decoder beyond its own
    draft_ns: float = 0.0  # more for the mean iteration of decoders
    budget: int = UNLIMITED
    slots: int = UNLIMITED
    blocks: int = UNLIMITED
    block_tokens: int = 16
    together: bool = False  # engines begin each iteration together and wait for the slowest
    stalls: tuple[Stall, ...] = ()
    exports: tuple[Stall, ...] = ()  # a profiler wrote its trace: no edit takes them away
    rests: tuple[Rest, ...] = ()  # what iterations took beyond the fit, by what the fit says, ascending

    def iteration_ns(self, context: int, decoders: int) -> float:
        """What the fit says."""
        base = self.base_ns + (self.draft_ns + self.decoder_ns * self.drafted * decoders if decoders else 0.0)
        if context:
            return base + self.decoder_ns * decoders + self.context_ns + self.context_token_ns * context
        taken = base + self.decoder_ns * self.padded.get(decoders, decoders)
        return taken + self.eager_ns if decoders in self.eager else taken


@dataclass(frozen=True)
class Edit:
    """What would be different: of requests by their place in the load, of stalls by theirs, and of the model."""

    prompts: Mapping[int, int] = field(default_factory=dict)
    cached: Mapping[int, int] = field(default_factory=dict)
    before_ns: Mapping[int, int] = field(default_factory=dict)
    hold_ns: Mapping[int, int] = field(default_factory=dict)
    engine: Mapping[int, int] = field(default_factory=dict)
    stalls: frozenset[int] = frozenset()
    model: Mapping[str, Any] = field(default_factory=dict)  # fields of Model

    def __or__(self, other: Edit) -> Edit:
        """Both; what `self` says of the same goes first."""
        return Edit(
            {**other.prompts, **self.prompts}, {**other.cached, **self.cached},
            {**other.before_ns, **self.before_ns}, {**other.hold_ns, **self.hold_ns},
            {**other.engine, **self.engine}, self.stalls | other.stalls, {**other.model, **self.model},
        )  # fmt: skip


@dataclass(frozen=True)
class Times:
    """What each request took; ns from sending."""

    ttft_ns: Floats
    tpot_ns: Floats
    recomputed: int  # tokens
    preemptions: int


@dataclass(frozen=True)
class Measures:
    """What is said of all requests together."""

    requests: int
    ttft_mean_ns: float
    ttft_p50_ns: float
    ttft_p99_ns: float
    tpot_mean_ns: float
    tpot_p50_ns: float
    tpot_p99_ns: float
    good: float  # requests within the objectives


def measures(ttft_ns: Floats, tpot_ns: Floats, output: Ints, slo: Slo) -> Measures:
    """Percentiles are interpolated between neighbours. A single token has no TPOT, and is good at any."""
    several = tpot_ns[output > 1]
    good = (ttft_ns <= slo.ttft_ns) & ((tpot_ns <= slo.tpot_ns) | (output < 2))
    t50, t99 = np.percentile(ttft_ns, [50, 99]) if len(ttft_ns) else (0.0, 0.0)
    o50, o99 = np.percentile(several, [50, 99]) if len(several) else (0.0, 0.0)
    return Measures(
        len(ttft_ns), _mean(ttft_ns), float(t50), float(t99), _mean(several), float(o50), float(o99), float(good.sum())
    )


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else 0.0


def replayed(load: Load, model: Model, edit: Edit, slo: Slo) -> Measures:
    """The measures with the edit: the mean of several draws where the run is small."""
    load, model = _edited(load, model, edit)
    draws = max(1, min(_DRAWS, _TOKENS // max(1, int(load.output.sum()))))
    counted = load.counted
    found = []
    for draw in range(draws):
        times = simulated(load, model, np.random.default_rng([_SEED, draw]))
        found.append(measures(times.ttft_ns[counted], times.tpot_ns[counted], load.output[counted], slo))
    means = [float(np.mean([getattr(one, name) for one in found])) for name in list(vars(found[0]))[1:]]
    return Measures(found[0].requests, *means)


def _edited(load: Load, model: Model, edit: Edit) -> tuple[Load, Model]:
    columns = {
        "prompt": edit.prompts, "cached": edit.cached, "before_ns": edit.before_ns, "hold_ns": edit.hold_ns,
        "engine": edit.engine,
    }  # fmt: skip
    changed = {}
    for name, values in columns.items():
        if values:
            column = getattr(load, name).copy()
            column[list(values)] = list(values.values())
            changed[name] = column
    stalls = tuple(stall for place, stall in enumerate(model.stalls) if place not in edit.stalls)
    return replace(load, **changed), replace(model, stalls=stalls, **edit.model)


def simulated(load: Load, model: Model, rng: np.random.Generator) -> Times:
    """One replay."""
    ttft, last = np.zeros(len(load.ids)), np.zeros(len(load.ids))
    engines = [
        _Engine(load, model, np.flatnonzero(load.engine == engine).tolist()) for engine in np.unique(load.engine)
    ]
    for group in [engines] if model.together else [[engine] for engine in engines]:
        _run(group, model, rng)
    for engine in engines:
        for place, ns in engine.first.items():
            ttft[place] = ns - load.sent_ns[place] + load.after_ns[place]
        for place, ns in engine.last.items():
            last[place] = ns - load.sent_ns[place] + load.after_ns[place]
    held = np.where(load.output > 1, load.hold_ns, 0)
    tpot = np.where(load.output > 1, (last + held - ttft) / np.maximum(load.output - 1, 1), 0.0)
    return Times(ttft, tpot, sum(one.recomputed for one in engines), sum(one.preemptions for one in engines))


def _run(engines: list[_Engine], model: Model, rng: np.random.Generator) -> None:
    """Iterations until every request is done. Engines of one group begin each of theirs together."""
    now, stalls = 0.0, deque(sorted((one.ts_ns, one.dur_ns) for one in (*model.stalls, *model.exports)))
    begins, drawn = [one.from_ns for one in model.rests], list[float]()
    while any(engine.busy() for engine in engines):
        if not any(engine.ready(now) for engine in engines):
            now = max(now, min(engine.next_ns() for engine in engines if engine.busy()))
        while stalls and stalls[0][0] + stalls[0][1] <= now:
            stalls.popleft()
        if stalls and stalls[0][0] <= now:  # it is over before anything begins
            now = float(sum(stalls.popleft()))
        works = [engine.schedule(now) for engine in engines]
        if not any(context or decoders for context, decoders in works):
            for engine in engines:
                engine.give_up(now)
            continue
        taken, gap = 0.0, model.gap_ns or 0.0
        for context, decoders in works:
            said = model.iteration_ns(context, decoders)
            if begins:
                if not drawn:
                    drawn = rng.random(4096).tolist()
                like = model.rests[max(0, bisect_right(begins, said) - 1)]
                place = bisect_left(like.ts_ns, now) - _NEAR + int(drawn.pop() * 2 * _NEAR)
                place = max(0, min(len(like.ts_ns) - 1, place))
                said = max(said / 4, said + like.rest_ns[place])
                gap = like.gap_ns[place] if model.gap_ns is None else gap
            taken = max(taken, said)
        end = now + taken
        while stalls and stalls[0][0] < end:
            end += stalls.popleft()[1]
        for engine in engines:
            engine.end(end)
        now = end + gap


class _Engine:
    """The scheduler of one engine. Decoders are counted, not walked through: only what changes costs time."""

    def __init__(self, load: Load, model: Model, places: list[int]) -> None:
        order = sorted(places, key=lambda place: load.sent_ns[place] + load.before_ns[place])
        self.coming = deque((float(load.sent_ns[place] + load.before_ns[place]), place) for place in order)
        self.model, self.size = model, model.block_tokens
        self.prompt, self.output, self.cached = load.prompt.tolist(), load.output.tolist(), load.cached.tolist()
        self.waiting: deque[int] = deque()
        self.running: dict[int, int] = {}  # place -> blocks it had when it began to decode, in the order of admission
        self.todo: dict[int, int] = {}  # context tokens left
        self.begun: dict[int, tuple[int, int, int]] = {}  # decoders: iteration, tokens then, outputs then
        self.made: dict[int, int] = {}  # outputs of those that were preempted
        self.freed: dict[int, tuple[int, int, int]] = {}  # preempted: blocks, blocks given out then, free then
        self.finishing: list[tuple[int, int, int]] = []  # iteration, place, iteration it began
        self.crossing = [0] * self.size  # decoders that need a block in iterations of this number
        self.number = self.used = self.given = self.recomputed = self.preemptions = 0
        self.done: list[int] = []  # whose context ends in this iteration
        self.first: dict[int, float] = {}
        self.last: dict[int, float] = {}

    def busy(self) -> bool:
        return bool(self.coming or self.waiting or self.running)

    def ready(self, now: float) -> bool:
        return bool(self.waiting or self.running or (self.coming and self.coming[0][0] <= now))

    def next_ns(self) -> float:
        return self.coming[0][0] if self.coming else 0.0

    def give_up(self, now: float) -> None:
        """Nothing fits: what asks for more than there is ends without a token, so that the others go on."""
        if self.waiting:
            place = self.waiting.popleft()
            self.first.setdefault(place, now)
            self.last[place] = now

    def schedule(self, now: float) -> tuple[int, int]:
        """What the next iteration computes: context tokens, decoders."""
        while self.coming and self.coming[0][0] <= now:
            self.waiting.append(self.coming.popleft()[1])
        self.number += 1
        model, before = self.model, self.preemptions
        while self.begun and self.used + self.crossing[self.number % self.size] > model.blocks:
            self._preempt()
        need = self.crossing[self.number % self.size]
        self.used, self.given = self.used + need, self.given + need
        decoders = len(self.begun)
        budget, context = model.budget - decoders, 0
        for place in list(self.todo):
            took = self._compute(place, budget)
            budget, context = budget - took, context + took
        if self.preemptions == before:
            while self.waiting and len(self.running) < model.slots and budget > 0:
                if not (took := self._admit(budget)):
                    break
                budget, context = budget - took, context + took
        return context, decoders

    def _preempt(self) -> None:
        """The last that was admitted gives its blocks back and waits at the front."""
        place, _ = self.running.popitem()
        if place in self.begun:
            iteration, tokens, made = self.begun.pop(place)
            more = int((self.number - iteration) * self.model.gained)
            self.made[place], held = made + more, -(-(tokens + more) // self.size)
            self.crossing[(iteration - tokens) % self.size] -= 1
        else:
            held = -(-(self._whole(place) - self.todo.pop(place)) // self.size)
        self.freed[place] = (held, self.given, self.model.blocks - self.used)
        self.used -= held
        self.waiting.appendleft(place)
        self.preemptions += 1

    def _whole(self, place: int) -> int:
        made: int = self.prompt[place] + self.made.get(place, 0)
        return made

    def _admit(self, budget: int) -> int:
        place = self.waiting[0]
        whole, found = self._whole(place), self.cached[place]
        if place in self.freed:  # its blocks lie at the end of the free ones; its last are given out first
            held, given, free = self.freed[place]
            left = held - max(0, self.given - given - free)
            found = max(0, min(whole // self.size, left)) * self.size
        found = min(found, whole - 1)
        took = min(whole - found, budget)
        need = -(-(found + took) // self.size)
        if self.used + need > self.model.blocks:
            return 0
        self.waiting.popleft()
        if self.freed.pop(place, None):
            self.recomputed += whole - found
        self.used, self.given = self.used + need, self.given + need - found // self.size
        self.running[place] = need
        self.todo[place] = whole - found
        self._computed(place, took)
        return int(took)

    def _compute(self, place: int, budget: int) -> int:
        left = self.todo[place]
        took = min(left, max(0, budget))
        done = self._whole(place) - left
        need = -(-(done + took) // self.size) - -(-done // self.size)
        if self.used + need > self.model.blocks:
            return 0
        self.used, self.given = self.used + need, self.given + need
        self._computed(place, took)
        return took

    def _computed(self, place: int, took: int) -> None:
        self.todo[place] -= took
        if not self.todo[place]:
            del self.todo[place]
            self.done.append(place)

    def end(self, now: float) -> None:
        """The iteration is over: tokens leave."""
        while self.finishing and self.finishing[0][0] <= self.number:
            _, place, iteration = heapq.heappop(self.finishing)
            if place in self.begun and self.begun[place][0] == iteration:
                self._leave(place, now)
        for place in self.done:
            tokens, made = self._whole(place), self.made.get(place, 0) + 1
            self.first.setdefault(place, now)
            begin = self.number + 1
            self.begun[place] = (begin, tokens, made)
            self.crossing[(begin - tokens) % self.size] += 1
            if made >= self.output[place]:
                self._leave(place, now)
            else:
                rounds = -(-(self.output[place] - made) // self.model.gained)
                heapq.heappush(self.finishing, (self.number + int(rounds), place, begin))
        self.done.clear()

    def _leave(self, place: int, now: float) -> None:
        iteration, tokens, _ = self.begun.pop(place)
        self.crossing[(iteration - tokens) % self.size] -= 1
        self.used -= -(-(tokens + self.number + 1 - iteration) // self.size)
        del self.running[place]
        self.last[place] = now
