"""The choices that suit one function on one machine: tried by successive halving, and the winner measured afresh.

Every candidate is compiled and compared with float64 first; a wrong one is never timed. Then all that are left take
turns, and the slower half goes, until one is left. The least of many noisy times is flattering, so that nothing of them
is believed: the winner is made anew and measured in pairs against the defaults and against the function as it is
written, beside a control of the baseline against itself. Choices that are not faster than the defaults are not kept.
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.generated import inductor
from npulens.collectors.generated.function import Function
from npulens.collectors.generated.inductor import LOOPS, Choices, Made
from npulens.collectors.harness.controlled import AGAIN, BASE, OTHER, Block, blocks, rounds, verdict
from npulens.collectors.harness.latency import Load, bite
from npulens.collectors.lab import judging, measuring
from npulens.collectors.lab.judging import Errors, Truth

TRIES = 12
#: Turns of the first round; each later round has twice as many.
TURNS = 3
#: A product of more multiplications is left to the library: as loops it would take seconds.
MOST_IN_LOOPS = 2**28
DEFAULTS = Choices()
Make = Callable[[], Callable[..., Any]]


@dataclass(frozen=True)
class Try:
    """What became of one candidate."""

    choices: Choices
    errors: Errors | None
    why: str | None  # it does not compile, or is wrong
    generated: int | None
    library: int | None
    compile_s: float | None
    rounds: tuple[int, ...] = ()  # the lower quartile of its calls in each round it was in, in ns

    def as_dict(self) -> dict[str, Any]:
        errors = None if self.errors is None else self.errors.as_dict()
        return {**vars(self), "choices": self.choices.told(), "errors": errors, "rounds": list(self.rounds)}


@dataclass(frozen=True)
class Against:
    """The winner's pairs against one other; ``ratio`` below 1 means that the winner takes less time."""

    said: str  # faster, slower, same, cannot_tell
    why: str | None
    ratio: float
    low: float
    high: float
    pairs: int
    pairs_needed: int | None
    control_low: float
    control_high: float
    base_ns: int
    ns: int

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


class Truths:
    """What float64 says of the function: on its own inputs, and on fresh ones of the same shapes."""

    def __init__(self, function: Function, short: bool) -> None:
        self._function, self._short = function, short
        batch = function.batch()
        self._keeps(batch)
        drawn = [("captured", batch), *(("fresh", each) for each in judging.fresh([batch], 0))]
        self._truths = [found for where, each in drawn if (found := self._truth(where, each)) is not None]

    def _keeps(self, batch: Sequence[Any]) -> None:
        """Measured again and again, a function has to leave its inputs as they are."""
        import torch

        given = [each.clone() for each in batch]
        try:
            with torch.no_grad():
                self._function.model(self._function.call)(given)
        except judging.FAILURES as error:
            raise judging.CannotRun(f"{self._function.name} does not run: {judging.first_line(error)}") from error
        for name, mine, its in zip(self._function.names(), given, batch):
            if mine.shape != its.shape or not torch.equal(mine.nan_to_num(), its.nan_to_num()):
                raise judging.CannotRun(
                    f"{self._function.name} writes into its input {name}: return the result instead"
                )

    def _truth(self, where: str, batch: Sequence[Any]) -> Truth | None:
        import torch

        model = self._function.model(self._function.call)
        wide = tuple(each.double() if each.is_floating_point() else each for each in batch)
        try:
            exact, own = judging.run(model, wide, False), judging.run(model, batch, False)
            again = judging.run(model, batch, False)
        except judging.FAILURES as error:
            raise judging.CannotRun(f"{self._function.name} does not run: {judging.first_line(error)}") from error
        if not all(isinstance(each, torch.Tensor) for each in own.results) or not own.results:
            raise judging.CannotRun(f"{self._function.name} has to return a tensor, or a tuple of them")
        if any(not torch.equal(one, two) for one, two in zip(own.results, again.results) if one.isfinite().all()):
            raise judging.CannotRun(f"{self._function.name} draws random numbers, so no two runs can be compared")
        if not all(bool(each.isfinite().all()) for each in (*exact.results, *own.results)):
            if where == "captured":
                raise judging.CannotRun(f"what {self._function.name} gives for its inputs is not finite")
            return None
        return Truth(where, None, tuple(batch), exact, own)

    def errors(self, call: Callable[..., Any]) -> Errors:
        """How far a compiled function is from float64, and whether rounding explains it."""
        model = self._function.model(call)
        return judging.judged(lambda _: model, self._truths, False, None, self._short)

    def of_original(self) -> float:
        return max(judging.error_of(each) for each in self._truths)


def space(function: Function, device: str, threads: int) -> Iterator[Choices]:
    """Every combination of choices; the defaults are the first."""
    if device.partition(":")[0] == "cpu":
        widths = [None, *inductor.vector_bits()[1:], *([1] if inductor.vector_bits() else [])]
        options: dict[str, list[Any]] = {
            "cpp.simdlen": widths, "cpp.threads": [None, *({1, max(1, threads // 2)} - {threads})],
            "cpp.min_chunk_size": [None, 64, 8192], "cpp.enable_loop_tail_vec": [None, False],
            "cpp_wrapper": [None, True],
        }  # fmt: skip
        few = 0 < inductor.products(function) <= MOST_IN_LOOPS
        products = [inductor.LIBRARY, *([LOOPS] if few else [])]
    else:
        options = {
            "max_autotune": [None, True], "coordinate_descent_tuning": [None, True],
            "triton.native_matmul": [None, True], "triton.persistent_reductions": [None, False],
            "epilogue_fusion": [None, False],
        }  # fmt: skip
        products = [inductor.LIBRARY]
    for product in products:
        for values in itertools.product(*options.values()):
            yield Choices({name: value for name, value in zip(options, values) if value is not None}, product)


def drawn(every: Sequence[Choices], tries: int, seed: int = 0) -> list[Choices]:
    """So many candidates: the defaults, then what differs from them in one choice, then any others."""
    ordered = sorted(every[1:], key=lambda each: len(each.told()))
    single = [each for each in ordered if len(each.told()) == 1]
    others = [each for each in ordered if len(each.told()) > 1]
    numbers = random.Random(seed)
    numbers.shuffle(others)
    half = max(1, (tries - 1) // 2) if len(single) >= tries else len(single)
    return [every[0], *numbers.sample(single, min(half, len(single))), *others][:tries]


def tried(function: Function, truths: Truths, choices: Choices) -> tuple[Try, Made | None]:
    """One candidate compiled and judged; what cannot be used says why."""
    try:
        made = inductor.made(function, choices)
    except inductor.DoesNotCompile as error:
        return Try(choices, None, f"it does not compile: {error}", None, None, None), None
    errors = truths.errors(made.call)
    told = Try(choices, errors, errors.why, made.generated, made.library, round(made.seconds, 3))
    return told, made if errors.ok else None


def halved(
    function: Function, backend: Backend, left: Mapping[int, Made], seed: int = 0
) -> tuple[int, dict[int, list[int]]]:
    """The fastest of the candidates and what each took in every round it was in, by the candidates' places.

    The lower quartile of its calls counts: whatever else runs on the machine only makes a call longer.
    """
    numbers, turns = random.Random(seed), TURNS
    loads = {place: _load(function, made.call) for place, made in left.items()}
    levels: dict[int, list[int]] = {place: [] for place in left}
    taken: dict[int, list[int]] = {place: [] for place in left}
    places = list(left)
    while len(places) > 1:
        for _ in range(turns):
            numbers.shuffle(places)
            for place in places:
                taken[place] += bite(backend, loads[place], "host")
        for place in places:
            levels[place].append(round(statistics.quantiles(taken[place], n=4)[0]))
        places = sorted(places, key=lambda place: levels[place][-1])[: len(places) // 2]
        turns *= 2
    return places[0], levels


def against(
    function: Function, backend: Backend, base: Make, winner: Make, pairs: int, seconds: float
) -> Against:  # fmt: skip
    """Fresh pairs; ``base`` and ``winner`` make a function anew."""
    loads = {BASE: _load(function, base()), OTHER: _load(function, winner()), AGAIN: _load(function, base())}
    sides = {side: _bites(backend, load) for side, load in loads.items()}
    each, taken = seconds / (pairs + 1), list[Block]()
    list(blocks(sides, "host", "".join(sides), each))
    for order in rounds(pairs):
        taken += blocks(sides, "host", order, each)
    found = verdict(taken)
    said, why = measuring.said(found)
    other, control = found.found["host"], found.control["host"]
    levels = {side: [statistics.median(block.ns) for block in taken if block.side == side] for side in (BASE, OTHER)}
    return Against(
        said, why, other.ratio, other.low, other.high, other.pairs, other.pairs_needed, control.low, control.high,
        round(statistics.median(levels[BASE])), round(statistics.median(levels[OTHER])),
    )  # fmt: skip


def _bites(backend: Backend, load: Load) -> Callable[[str], list[int]]:
    return lambda clock: bite(backend, load, clock)


def _load(function: Function, call: Callable[..., Any]) -> Load:
    """The function on its own inputs, without gradients and without copies of them."""
    import torch

    values = list(function.values.values())

    def step() -> Any:
        with torch.no_grad():
            return call(*values)

    return Load([step])


def cores() -> int:
    """On how many threads torch computes here."""
    import torch

    return int(torch.get_num_threads())
