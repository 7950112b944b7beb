"""Faults of serving and of jobs with rollouts, each planted alone, with the times in which it costs something."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npulens.analysis.serving.served import TIMES
from npulens.collectors.serving.engine import Recorded, run
from npulens.collectors.serving.plants import PLANTS, plan
from npulens.collectors.serving.reinforcement import _BEGIN_MS, JOB_PLANTS, Stage, job, spans, stages, step_ns
from npulens.collectors.serving.writers import BEGIN_NS, write
from tests.serving.score import truth

NAMES = (*PLANTS, *JOB_PLANTS)
#: Told only with a trace of the engine's iterations beside the other files.
TRACED = ("iteration_gap", "speculation_loss")


@dataclass(frozen=True)
class Fault:
    """Where its files lie, its windows in ns since 1970, and the greatest share of a measure that it costs."""

    files: Path
    windows: tuple[tuple[int, int], ...]
    share: float


def planted(name: str, seed: int, place: Path) -> Fault:
    """The files of a run with one fault."""
    draw = random.Random(seed)
    if name in JOB_PLANTS:
        faulty, without = JOB_PLANTS[name](draw, job(draw))
        bad, good = stages(faulty, seed), stages(without, seed)
        place.mkdir(parents=True, exist_ok=True)
        (place / "spans.json").write_text(json.dumps(spans(bad)))
        begin = _BEGIN_MS * 10**6
        share = (step_ns(bad) - step_ns(good)) / step_ns(bad)
        return Fault(place, tuple((begin + since, begin + until) for since, until in _of_job(name, bad)), share)
    asked, usual = PLANTS[name](draw, plan(draw))
    hurt, whole = run(list(asked.asked), asked.setup, seed), run(list(usual.asked), usual.setup, seed)
    write(hurt, place, traced=name in TRACED)
    before, after = truth(hurt), truth(whole)
    costs = [1 - getattr(after, f"{one}_ns") / getattr(before, f"{one}_ns") for one in TIMES]
    windows = tuple((BEGIN_NS + since, BEGIN_NS + until) for since, until in _of_requests(name, hurt, whole))
    return Fault(place, windows, max(costs))


def _of_requests(name: str, bad: Recorded, good: Recorded) -> Iterator[tuple[int, int]]:
    """From what was planted and what the engine did, not from what npulens reads of it."""
    usual = {one.asked.name: one for one in good.requests}
    setup, begun = bad.setup, {}
    for step in bad.iterations:
        last = begun.get(step.engine)
        begun[step.engine] = step.ts_ns + step.dur_ns
        window = (step.ts_ns, step.ts_ns + step.dur_ns)
        if name == "iteration_gap" and last is not None and step.ts_ns - last > 2 * setup.gap_ns:
            yield last, step.ts_ns
        long = any(bad.requests[at].asked.prompt > usual[bad.requests[at].asked.name].asked.prompt
                   for at, _ in step.context)  # fmt: skip
        alone = bool(step.decoders) and not step.context and not step.again
        if (
            (name == "prefill_interference" and long)
            or (name == "kv_pressure" and step.again)
            or (name == "graph_miss" and alone and len(step.decoders) not in setup.graphs)
            or (name == "graph_padding" and (step.padded or 0) > len(step.decoders))
            or (name == "dp_imbalance" and step.engine == 0)
            or (name == "speculation_loss" and step.drafts)
        ):
            yield window
    if name == "engine_stall":
        yield from ((since, since + length) for since, length in setup.stalls)
    half = setup.front_ns // 2
    for one in bad.requests:
        sent, was = one.asked, usual[one.asked.name].asked
        if name == "queueing":
            yield one.queued_ns, one.scheduled_ns
        elif name == "prefix_miss" and sent.cached < was.cached:
            yield one.scheduled_ns, one.tokens_ns[0]
        elif name == "kv_transfer" and sent.transfer_ns:
            yield sent.send_ns + half + sent.front_ns, one.queued_ns
        elif name == "frontend" and sent.front_ns:
            yield sent.send_ns, sent.send_ns + half + sent.front_ns


def _of_job(name: str, bad: tuple[Stage, ...]) -> Iterator[tuple[int, int]]:
    for step in {one.step for one in bad}:
        mine = [one for one in bad if one.step == step]
        ends = sorted(one.ts_ns + one.dur_ns for one in mine if one.replica is not None)
        if name == "rollout_tail":  # the others are done
            yield ends[-2], ends[-1]
        elif name == "weight_sync":
            yield from ((one.ts_ns, one.ts_ns + one.dur_ns) for one in mine if one.role == "update_weights")
        else:
            yield ends[-1], next(one.ts_ns for one in mine if one.role == "actor_compute_log_prob")
