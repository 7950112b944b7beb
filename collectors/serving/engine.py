"""Continuous batching in virtual time: what a serving engine would do with requests, token by token.

An iteration computes one token of every decoder and pieces of prompts, up to a budget of tokens. Requests are taken
first in, first out, while there are slots and KV blocks. Without a free block the last one that was taken is thrown out
and comes back first. A freed block keeps what it holds until it is given out again, the longest free first.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field

DECODE, PREFILL, RECOMPUTE = "decode", "prefill", "recompute"


@dataclass(frozen=True)
class Asked:
    """A request as a client sends it."""

    name: str
    send_ns: int
    prompt: int
    output: int
    cached: int = 0  # tokens of the prompt that the prefix cache holds
    front_ns: int = 0  # the front end holds it up, beside what it always takes
    transfer_ns: int = 0  # its cache comes from elsewhere before the engine can begin
    engine: int = 0


@dataclass(frozen=True)
class Setup:
    """The engine: what an iteration takes, and what the scheduler may do."""

    base_ns: float = 6.5e6
    context_ns: float = 1.0e6
    context_token_ns: float = 2.6e5
    decoder_ns: float = 5.0e5
    scatter: float = 0.08  # of an iteration, as the sigma of a normal distribution of its logarithm
    gap_ns: float = 6.0e5
    front_ns: int = 2_500_000
    budget: int = 512
    slots: int = 64
    blocks: int = 512
    block_tokens: int = 128
    engines: int = 1  # that begin each iteration together
    graphs: tuple[int, ...] = ()  # numbers of decoders that have a graph; none: graphs are not used
    eager_ns: float = 0.0  # more for an iteration of decoders without a graph
    stride: int = 1  # a graph pads the number of decoders to a multiple of this
    drafted: int = 0  # tokens that are drafted for a decoder and verified with its own
    drafts: float = 1.0  # how likely a decoder gets a draft
    accepted: float = 0.0  # how likely a drafted token is accepted, if those before it are
    draft_ns: float = 0.0  # what drafting takes in an iteration with drafts
    slow_gaps: float = 0.0  # share of the gaps that are longer
    slow_gap_ns: float = 0.0
    stalls: tuple[tuple[int, int], ...] = ()  # (from, for)


@dataclass
class Served:
    """A request, and what became of it."""

    asked: Asked
    queued_ns: int = 0
    scheduled_ns: int = 0
    preemptions: int = 0
    tokens_ns: list[int] = field(default_factory=list)  # in the engine
    computed: int = 0
    blocks: int = 0

    @property
    def whole(self) -> int:
        """Tokens that have to be computed before the next one comes."""
        return self.asked.prompt + len(self.tokens_ns)


@dataclass(frozen=True)
class Iteration:
    """One forward pass of one engine."""

    engine: int
    number: int
    ts_ns: int
    dur_ns: int
    context: tuple[tuple[int, int], ...]  # (request, tokens of its prompt)
    again: tuple[tuple[int, int], ...]  # (request, tokens computed again)
    decoders: tuple[int, ...]
    graph: str | None
    padded: int | None
    kv_used: float
    drafts: int = 0  # decoders that had a draft
    drafted: int = 0  # tokens of all drafts
    accepted: int = 0  # those that were right


@dataclass(frozen=True)
class Recorded:
    """What a run left: requests in the order they were sent, iterations in the order of time."""

    setup: Setup
    requests: tuple[Served, ...]
    iterations: tuple[Iteration, ...]


class Scheduler:
    """One engine's queue, slots and blocks."""

    def __init__(self, setup: Setup, every: list[Served], mine: list[int]) -> None:
        self.setup, self.every = setup, every
        half = setup.front_ns // 2
        ready = [(every[at].asked.send_ns + half + every[at].asked.front_ns, at) for at in mine]
        self.coming: deque[tuple[int, int]] = deque(sorted(ready))
        self.moving: list[tuple[int, int]] = []
        self.waiting: deque[int] = deque()
        self.running: list[int] = []
        self.free: deque[tuple[int, int]] = deque((-1, block) for block in range(setup.blocks))
        self.number = 0
        self.more: dict[int, int] = {}  # decoders with a draft in this iteration: tokens of it that are accepted
        self._draw = random.Random(setup.drafted)

    def work(self) -> bool:
        return bool(self.waiting or self.running)

    def next_ns(self) -> int | None:
        times = [self.coming[0][0]] if self.coming else []
        times += [ns for ns, _ in self.moving]
        return min(times) if times else None

    def read(self, now: int) -> None:
        """Requests that came; a transfer of their cache has to be over first."""
        while self.coming and self.coming[0][0] <= now:
            ns, at = self.coming.popleft()
            self.moving.append((ns + self.every[at].asked.transfer_ns, at))
        arrived = sorted(each for each in self.moving if each[0] <= now)
        self.moving = [each for each in self.moving if each[0] > now]
        for _, at in arrived:
            self.every[at].queued_ns = now
            self.waiting.append(at)

    def take(self, at: int, tokens: int) -> bool:
        """Blocks for so many more tokens of a request; False: there are not enough."""
        one = self.every[at]
        need = -(-(one.computed + tokens) // self.setup.block_tokens) - one.blocks
        if need > len(self.free):
            return False
        for _ in range(need):
            self.free.popleft()
        one.blocks += max(0, need)
        return True

    def give(self, at: int) -> None:
        """All blocks of a request are free, its last ones first."""
        one = self.every[at]
        self.free.extend((at, block) for block in reversed(range(one.blocks)))
        one.blocks = one.computed = 0

    def preempt(self) -> None:
        at = self.running.pop()
        self.every[at].preemptions += 1
        self.give(at)
        self.waiting.appendleft(at)

    def found(self, at: int) -> int:
        """Tokens of a request that free blocks still hold; they are taken out of the free ones."""
        one = self.every[at]
        if not one.preemptions:
            return min(one.asked.cached, one.whole - 1)
        held: set[int] = {block for owner, block in self.free if owner == at}
        count = 0
        while count in held and (count + 1) * self.setup.block_tokens < one.whole:
            count += 1
        self.free = deque(each for each in self.free if each[0] != at or each[1] >= count)
        one.blocks = count
        return count * self.setup.block_tokens

    def schedule(self, now: int) -> tuple[list[int], list[tuple[int, int]]]:
        """Decoders, and requests with the tokens of their context that are computed."""
        budget, preempted = self.setup.budget, False
        decoders: list[int] = []
        context: list[tuple[int, int]] = []
        place = 0
        while place < len(self.running):
            at = self.running[place]
            left = self.every[at].whole - self.every[at].computed
            tokens = min(left, budget)
            if tokens <= 0:
                place += 1
                continue
            while not self.take(at, tokens):
                preempted = True
                self.preempt()
                if at not in self.running:
                    break
            else:
                (decoders if left == 1 and self.every[at].tokens_ns else []).append(at)
                if not (left == 1 and self.every[at].tokens_ns):
                    context.append((at, tokens))
                budget -= tokens
                place += 1
        while not preempted and self.waiting and len(self.running) < self.setup.slots and budget > 0:
            at = self.waiting[0]
            one = self.every[at]
            one.computed = self.found(at)
            tokens = min(one.whole - one.computed, budget)
            if not self.take(at, tokens):
                kept = one.blocks
                self.free.extend((at, block) for block in reversed(range(kept)))
                one.blocks = one.computed = 0
                break
            self.waiting.popleft()
            self.running.append(at)
            one.scheduled_ns = one.scheduled_ns or now
            context.append((at, tokens))
            budget -= tokens
        drafting = self.setup.drafted > 0
        self.more = {at: self._accepted() for at in decoders if drafting and self._draw.random() < self.setup.drafts}
        return decoders, context

    def _accepted(self) -> int:
        """The drafted tokens of a decoder up to the first that is wrong."""
        many = 0
        while many < self.setup.drafted and self._draw.random() < self.setup.accepted:
            many += 1
        return many

    def iteration(
        self, place: int, window: tuple[int, int], decoders: list[int], context: list[tuple[int, int]],
        graph: tuple[str | None, int | None],
    ) -> Iteration:  # fmt: skip
        """What is recorded of an iteration, before it ends."""
        self.number += 1
        fresh = tuple((at, tokens) for at, tokens in context if not self.every[at].tokens_ns)
        again = tuple((at, tokens) for at, tokens in context if self.every[at].tokens_ns)
        used = 1 - len(self.free) / self.setup.blocks
        return Iteration(
            place, self.number, *window, fresh, again, tuple(decoders), *graph, used,
            len(self.more), len(self.more) * self.setup.drafted, sum(self.more.values()),
        )  # fmt: skip

    def end(self, now: int, decoders: list[int], context: list[tuple[int, int]]) -> None:
        for at, tokens in [*((at, 1) for at in decoders), *context]:
            one = self.every[at]
            one.computed += tokens
            if one.computed == one.whole:
                more = min(self.more.get(at, 0), one.asked.output - len(one.tokens_ns) - 1)
                one.tokens_ns += [now] * (1 + more)
                one.computed += more
                if len(one.tokens_ns) >= one.asked.output:
                    self.running.remove(at)
                    self.give(at)


def iteration_ns(setup: Setup, context: int, decoders: int, drafts: int = 0) -> tuple[float, str | None, int | None]:
    """How long an iteration takes without scatter; with graphs how it ran and the tokens that it was padded to."""
    padded = -(-decoders // setup.stride) * setup.stride if not context else decoders
    ns = setup.base_ns + setup.decoder_ns * (padded + drafts * setup.drafted) + (setup.draft_ns if drafts else 0.0)
    if context:
        ns += setup.context_ns + setup.context_token_ns * context
        return ns, "eager" if setup.graphs else None, padded if setup.stride > 1 else None
    if not setup.graphs:
        return ns, None, padded if setup.stride > 1 else None
    known = decoders in setup.graphs
    return ns + (0.0 if known else setup.eager_ns), "full" if known else "eager", padded if setup.stride > 1 else None


def run(asked: list[Asked], setup: Setup, seed: int) -> Recorded:
    """All requests, to the end."""
    draw = random.Random(seed)
    every = [Served(one) for one in sorted(asked, key=lambda one: (one.send_ns, one.name))]
    engines = [
        Scheduler(setup, every, [at for at, one in enumerate(every) if one.asked.engine == engine])
        for engine in range(setup.engines)
    ]
    stalls = deque(sorted(setup.stalls))
    iterations: list[Iteration] = []
    now = 0
    while True:
        for engine in engines:
            engine.read(now)
        if not any(engine.work() for engine in engines):
            ahead = [ns for ns in (engine.next_ns() for engine in engines) if ns is not None]
            if not ahead:
                break
            now = max(now, min(ahead))
            continue
        while stalls and sum(stalls[0]) <= now:
            stalls.popleft()
        if stalls and stalls[0][0] <= now:
            now = sum(stalls.popleft())
            continue
        now = _iterate(engines, setup, draw, now, stalls, iterations)
    return Recorded(setup, tuple(every), tuple(iterations))


def _iterate(
    engines: list[Scheduler], setup: Setup, draw: random.Random, now: int, stalls: deque[tuple[int, int]],
    iterations: list[Iteration],
) -> int:  # fmt: skip
    """One iteration of all engines; when the next one can begin."""
    works = [engine.schedule(now) for engine in engines]
    if not any(decoders or context for decoders, context in works):
        raise ValueError("a request asks for more KV blocks than there are")
    taken: list[tuple[float, str | None, int | None]] = []
    for engine, (decoders, context) in zip(engines, works):
        ns, graph, padded = iteration_ns(setup, sum(tokens for _, tokens in context), len(decoders), len(engine.more))
        taken.append((ns * draw.lognormvariate(0.0, setup.scatter), graph, padded))
    length = int(max(ns for ns, _, _ in taken))
    while stalls and stalls[0][0] < now + length:
        length += stalls.popleft()[1]
    for place, (engine, (decoders, context), (_, graph, padded)) in enumerate(zip(engines, works, taken)):
        if not decoders and not context:
            continue
        iterations.append(engine.iteration(place, (now, length), decoders, context, (graph, padded)))
        engine.end(now + length, decoders, context)
    gap = setup.gap_ns * draw.lognormvariate(0.0, 0.2)
    if draw.random() < setup.slow_gaps:
        gap += setup.slow_gap_ns * draw.uniform(0.7, 1.3)
    return now + length + int(gap)
