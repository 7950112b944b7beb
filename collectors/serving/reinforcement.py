"""Steps of reinforcement learning without a device: who generates, scores, trains, and when; and faults for them.

Replicas generate the answers of a step, then log probabilities are computed, the policy is trained, and the replicas
get its new weights. Between two of these the controller works.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

#: When a job begins, in ms since 1970.
_BEGIN_MS = 1_795_000_000_000
_S = 1_000_000_000


@dataclass(frozen=True)
class Job:
    """What every step holds; a step's own scatter is drawn."""

    steps: int
    replicas: int
    tokens: int  # of all answers of a step
    token_ns: float  # of a replica
    uneven: float  # how much more the replica with the longest answers gets than its share, as a share of it
    log_prob_ns: float
    update_ns: float
    weights_ns: float
    controller_ns: float  # before the answers are scored
    between_ns: float  # between two other stages
    scatter: float


@dataclass(frozen=True)
class Stage:
    """What one role did, and when."""

    step: int
    role: str  # as verl calls it
    ts_ns: int
    dur_ns: int
    replica: int | None = None


def job(draw: random.Random) -> Job:
    """A job without a fault."""
    replicas, rollout = draw.randint(2, 8), draw.uniform(8, 40) * _S
    tokens = draw.randint(50_000, 400_000)
    return Job(
        steps=draw.randint(3, 8), replicas=replicas, tokens=tokens, token_ns=rollout * replicas / tokens,
        uneven=draw.uniform(0.0, 0.02), log_prob_ns=rollout * draw.uniform(0.1, 0.3),
        update_ns=rollout * draw.uniform(0.3, 0.8), weights_ns=rollout * draw.uniform(0.005, 0.02),
        controller_ns=rollout * draw.uniform(0.001, 0.005), between_ns=rollout * draw.uniform(0.001, 0.004),
        scatter=draw.uniform(0.002, 0.01),
    )  # fmt: skip


def rollout_tail(draw: random.Random, clean: Job) -> tuple[Job, Job]:
    return replace(clean, uneven=draw.uniform(0.4, min(1.5, 0.9 * (clean.replicas - 1)))), clean


def weight_sync(draw: random.Random, clean: Job) -> tuple[Job, Job]:
    step_ns = clean.tokens * clean.token_ns / clean.replicas + clean.log_prob_ns + clean.update_ns
    return replace(clean, weights_ns=step_ns * draw.uniform(0.12, 0.6)), replace(clean, weights_ns=step_ns * 0.002)


def role_idle(draw: random.Random, clean: Job) -> tuple[Job, Job]:
    step_ns = clean.tokens * clean.token_ns / clean.replicas + clean.log_prob_ns + clean.update_ns
    return replace(clean, controller_ns=step_ns * draw.uniform(0.12, 0.6)), clean


JOB_PLANTS: dict[str, Callable[[random.Random, Job], tuple[Job, Job]]] = {
    plant.__name__: plant for plant in (rollout_tail, weight_sync, role_idle)
}


def stages(of: Job, seed: int) -> tuple[Stage, ...]:
    """All steps, one behind the other."""
    draw, now, found = random.Random(seed), 0, []

    def length(ns: float) -> int:
        return int(ns * draw.lognormvariate(0.0, of.scatter))

    for step in range(1, of.steps + 1):
        late = draw.randrange(of.replicas)
        mean = of.tokens / of.replicas
        less = of.uneven / max(1, of.replicas - 1)
        ends = []
        for replica in range(of.replicas):
            tokens = mean * (1 + (of.uneven if replica == late else -less))
            found.append(
                Stage(step, f"agent_loop_rollout_replica_{replica}", now, length(tokens * of.token_ns), replica)
            )
            ends.append(now + found[-1].dur_ns)
        now = max(ends) + length(of.controller_ns)
        for role, ns in (
            ("actor_compute_log_prob", of.log_prob_ns),
            ("actor_update", of.update_ns),
            ("update_weights", of.weights_ns),
        ):
            found.append(Stage(step, role, now, length(ns)))
            now += found[-1].dur_ns + length(of.between_ns)
    return tuple(found)


def step_ns(found: tuple[Stage, ...]) -> float:
    """The mean step, from its first stage to the end of its last."""
    steps = {one.step for one in found}
    whole = 0
    for step in steps:
        mine = [one for one in found if one.step == step]
        whole += max(one.ts_ns + one.dur_ns for one in mine) - min(one.ts_ns for one in mine)
    return whole / len(steps)


def spans(found: tuple[Stage, ...]) -> list[dict[str, Any]]:
    """As RL-Insight keeps the spans of verl's roles: ms since 1970."""
    return [
        {"name": one.role, "role": one.role, "step": one.step, "rank_id": 0,
         "start_time_ms": _BEGIN_MS + one.ts_ns / 1e6, "end_time_ms": _BEGIN_MS + (one.ts_ns + one.dur_ns) / 1e6}
        for one in found
    ]  # fmt: skip
