"""Faults for a serving engine. Each changes a run in one way, so that the same run without it is the truth."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from npulens.collectors.serving.engine import Asked, Setup

MS = 1_000_000


@dataclass(frozen=True)
class Plan:
    """What is asked of which engine."""

    asked: tuple[Asked, ...]
    setup: Setup


Plant = Callable[[random.Random, Plan], tuple[Plan, Plan]]


def plan(draw: random.Random, count: int = 120) -> Plan:
    """A run without a fault: an engine of some speed, asked at random times for as much as it can do with ease."""
    speed = draw.uniform(0.3, 1.2)
    setup = Setup(
        base_ns=6.5e6 * speed, context_ns=1e6 * speed, context_token_ns=2.4e5 * speed * draw.uniform(0.3, 1.0),
        decoder_ns=4e5 * speed * draw.uniform(0.5, 1.2), scatter=draw.uniform(0.03, 0.12),
        gap_ns=5e5 * speed * draw.uniform(0.5, 1.5), front_ns=int(draw.uniform(1.5, 4) * MS),
    )  # fmt: skip
    prompt, output = draw.uniform(60, 120), draw.uniform(25, 60)
    alone = output * (setup.base_ns + setup.gap_ns) + prompt * setup.context_token_ns
    between = alone / draw.uniform(1.5, 3.0)  # so many requests are in the engine at a time
    at, asked = 0.0, []
    for number in range(count):
        at += draw.expovariate(1 / between)
        asked.append(Asked(
            f"r{number:04d}", int(at), max(8, int(prompt * draw.uniform(0.5, 1.5))),
            max(4, int(output * draw.uniform(0.5, 1.5))),
        ))  # fmt: skip
    return Plan(tuple(asked), setup)


def _span_ns(of: Plan) -> int:
    return of.asked[-1].send_ns


def _token_ns(of: Plan) -> float:
    return of.setup.base_ns + of.setup.gap_ns


def engine_stall(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    count = draw.randint(3, 7)
    long = draw.uniform(25, 60) * _token_ns(clean)
    each = _span_ns(clean) // (count + 1)
    stalls = tuple((int((place + draw.uniform(0.6, 1.4)) * each), int(long * draw.uniform(0.8, 1.2)))
                   for place in range(1, count + 1))  # fmt: skip
    return replace(clean, setup=replace(clean.setup, stalls=stalls)), clean


def prefill_interference(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    long = set(range(10, len(clean.asked), draw.randint(18, 30)))
    tokens = draw.randint(20, 40) * 100
    asked = tuple(replace(one, prompt=tokens + draw.randint(0, 200)) if at in long else one
                  for at, one in enumerate(clean.asked))  # fmt: skip
    return replace(clean, asked=asked), clean


def kv_pressure(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    crowd = draw.uniform(1.6, 2.2)
    asked = tuple(replace(one, send_ns=int(one.send_ns / crowd), output=one.output * 2) for one in clean.asked)
    most = max(one.prompt + one.output for one in asked)
    size = draw.choice((16, 32, 64))
    blocks = -(-most // size) * draw.randint(3, 5)
    roomy = replace(clean, asked=asked, setup=replace(clean.setup, block_tokens=size, blocks=1 << 14))
    return replace(roomy, setup=replace(roomy.setup, blocks=blocks)), roomy


def queueing(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    crowd = draw.uniform(1.5, 2.2)
    asked = tuple(replace(one, send_ns=int(one.send_ns / crowd)) for one in clean.asked)
    busy = replace(clean, asked=asked)
    return replace(busy, setup=replace(busy.setup, slots=draw.randint(3, 5))), busy


def frontend(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    each = _span_ns(clean) // draw.randint(5, 9)
    long = int(draw.uniform(30, 80) * _token_ns(clean))

    def held(one: Asked) -> int:
        into = one.send_ns % each
        return long - into if into < long else 0

    return replace(clean, asked=tuple(replace(one, front_ns=held(one)) for one in clean.asked)), clean


def iteration_gap(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    setup = replace(
        clean.setup, slow_gaps=draw.uniform(0.2, 0.5), slow_gap_ns=draw.uniform(0.8, 2.0) * _token_ns(clean)
    )
    return replace(clean, setup=setup), clean


def graph_miss(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    whole = replace(clean, setup=replace(clean.setup, graphs=tuple(range(1, 257))))
    first = draw.randint(1, 2)
    lacking = replace(
        whole.setup, graphs=tuple(range(first, 257, 2)), eager_ns=draw.uniform(0.8, 2.0) * _token_ns(clean)
    )
    return replace(whole, setup=lacking), whole


def graph_padding(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    # A token costs more here: padding is dear only where it does.
    dear = replace(clean.setup, decoder_ns=clean.setup.base_ns * draw.uniform(0.08, 0.15))
    return replace(clean, setup=replace(dear, stride=draw.choice((4, 6, 8)))), replace(clean, setup=dear)


def prefix_miss(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    prefix, share = draw.randint(3, 6) * 64, draw.uniform(0.2, 0.5)
    known = [replace(one, prompt=one.prompt + prefix, cached=prefix if at else 0) for at, one in enumerate(clean.asked)]
    missed = [replace(one, cached=0) if at and draw.random() < share else one for at, one in enumerate(known)]
    return replace(clean, asked=tuple(missed)), replace(clean, asked=tuple(known))


def speculation_loss(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    # A token costs more here, so that verifying more of them does.
    dear = replace(clean.setup, decoder_ns=clean.setup.base_ns * draw.uniform(0.05, 0.12))
    drafting = replace(
        dear, drafted=draw.randint(2, 5), drafts=draw.uniform(0.4, 0.9), accepted=draw.uniform(0.05, 0.35),
        draft_ns=draw.uniform(0.2, 0.5) * clean.setup.base_ns,
    )  # fmt: skip
    return replace(clean, setup=drafting), replace(clean, setup=dear)


def kv_transfer(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    long = draw.uniform(4, 15) * _token_ns(clean)
    moved = tuple(replace(one, transfer_ns=int(long * draw.uniform(0.5, 1.5))) for one in clean.asked)
    return replace(clean, asked=moved), clean


def dp_imbalance(draw: random.Random, clean: Plan) -> tuple[Plan, Plan]:
    engines, hot = draw.randint(2, 4), draw.uniform(0.6, 0.85)
    # Enough work that its distribution matters: a token costs more, and requests come closer together.
    setup = replace(clean.setup, engines=engines, decoder_ns=clean.setup.base_ns * draw.uniform(0.1, 0.2))
    close = [replace(one, send_ns=int(one.send_ns / engines)) for one in clean.asked]
    given = [0] * engines
    even: list[Asked] = []
    for one in close:
        engine = given.index(min(given))
        given[engine] += one.prompt + one.output
        even.append(replace(one, engine=engine))
    uneven = [replace(one, engine=0 if draw.random() < hot else draw.randrange(1, engines)) for one in close]
    return Plan(tuple(uneven), setup), Plan(tuple(even), setup)


#: cause -> how it is planted: the plan with it, and the same plan without.
PLANTS: dict[str, Plant] = {
    plant.__name__: plant
    for plant in (
        queueing, prefill_interference, iteration_gap, engine_stall, graph_miss, graph_padding, kv_pressure,
        prefix_miss, kv_transfer, dp_imbalance, frontend, speculation_loss,
    )
}  # fmt: skip
