"""Steps of reinforcement learning: rollout, scoring, training, weight update, and what passes between them.

Stages come from a profile of roles, or from the seconds that a step's log counts. A log has no windows: its steps lie
one behind the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from npulens.analysis.finding import Candidate, Change, Evidence, Gain, Value
from npulens.analysis.intervals import Intervals
from npulens.analysis.run import Run

#: Names of stages and roles that generate, and that bring weights to those who do.
_ROLLOUT = re.compile(r"rollout|generat|^gen\b|agent_loop", re.IGNORECASE)
_SYNC = re.compile(r"(update|sync|transfer|broadcast)[_ ]?weights?|weights?[_ ]?(update|sync|transfer)", re.IGNORECASE)
#: What a step's log calls its parts.
_STEP, _GEN, _UPDATE = "timing_s/step", "timing_s/gen", "timing_s/update_weights"
_SAMPLES = ("timing_s/agent_loop/generate_sequences/", "agent_loop/generate_sequences/")
#: The cause of each part of a step that is lost.
TAIL, SYNC, IDLE = "rollout_tail", "weight_sync", "role_idle"


@dataclass(frozen=True)
class Lost:
    """What one step loses to one cause."""

    ns: int
    ts_ns: int
    dur_ns: int  # of the window that shows it
    note: str = ""


@dataclass(frozen=True)
class RlStep:
    """One step: how long it took, and what of it is lost, by cause."""

    step: int | None
    dur_ns: int
    lost: Mapping[str, Lost]
    replicas: int | None  # that generate; None: not recorded


def rl_steps(run: Run) -> tuple[RlStep, ...]:
    """Every step, in order."""
    return tuple(_profiled(run)) or tuple(_logged(run))


def _profiled(run: Run) -> Iterator[RlStep]:
    rows = run.con.execute(
        "SELECT step, ts_ns, ts_ns + dur_ns, coalesce(name, ''), coalesce(role, ''), replica FROM stage "
        "WHERE ts_ns IS NOT NULL AND dur_ns >= 0 ORDER BY step NULLS FIRST, ts_ns"
    ).fetchall()
    for step in dict.fromkeys(row[0] for row in rows):
        mine = [row for row in rows if row[0] == step]
        begin, end = min(row[1] for row in mine), max(row[2] for row in mine)
        lost: dict[str, Lost] = {}
        rollouts = [row for row in mine if _ROLLOUT.search(row[3]) or _ROLLOUT.search(row[4])]
        ends: dict[str, int] = {}
        for row in rollouts:
            ends[str(row[5])] = max(ends.get(str(row[5]), 0), row[2])
        if len(ends) > 1:
            last, mean = max(ends.values()), int(np.mean(list(ends.values())))
            lost[TAIL] = Lost(last - mean, mean, last - mean, next(row[3] for row in rollouts if row[2] == last))
        syncs = [row for row in mine if row[4] == "weights" or _SYNC.search(row[3]) or _SYNC.search(row[4])]
        if syncs:
            together = _union(syncs)
            lost[SYNC] = Lost(together.total(), int(together.starts[0]), int(together.ends[0] - together.starts[0]))
        busy = _union(mine)
        gaps = busy.starts[1:] - busy.ends[:-1]
        if len(gaps):
            at = int(np.argmax(gaps))
            after = next((row[3] or row[4] for row in mine if row[1] == busy.starts[at + 1]), "")
            lost[IDLE] = Lost(int(gaps.sum()), int(busy.ends[at]), int(gaps[at]), after)
        elif len({row[3] for row in mine}) > 1:
            lost[IDLE] = Lost(0, begin, 0)
        yield RlStep(step, end - begin, lost, len(ends) or None)


def _union(rows: list[tuple[int | None, int, int, str, str, object]]) -> Intervals:
    return Intervals.union_of(
        np.array([row[1] for row in rows], np.int64), np.array([row[2] for row in rows], np.int64)
    )


def _logged(run: Run) -> Iterator[RlStep]:
    rows = run.con.execute(
        "SELECT step, name, value FROM serving_sample WHERE name LIKE 'timing_s/%' OR name LIKE 'agent_loop/%'"
    ).fetchall()
    by_step: dict[int | None, dict[str, float]] = {}
    for step, name, value in rows:
        by_step.setdefault(step, {})[name] = value
    for step in sorted(by_step, key=lambda one: -1 if one is None else one):
        said = by_step[step]
        if not said.get(_STEP):
            continue
        lost: dict[str, Lost] = {}
        most, mean = (next((said[name + end] for name in _SAMPLES if name + end in said), None)
                      for end in ("max", "mean"))  # fmt: skip
        if most is not None and mean is not None:
            lost[TAIL] = _seconds(most - mean)
        if _UPDATE in said:
            lost[SYNC] = _seconds(said[_UPDATE])
        if most is not None and _GEN in said and said[_GEN] > most:
            lost[IDLE] = _seconds(said[_GEN] - most)
        yield RlStep(step, round(said[_STEP] * 1e9), lost, None)


def _seconds(value: float) -> Lost:
    ns = max(0, round(value * 1e9))
    return Lost(ns, 0, ns)


def candidate(run: Run, cause: str) -> Candidate | None:
    """What all steps lose to a cause, as a share of the mean step; None: none of them holds such a part."""
    steps = [one for one in run.get(rl_steps) if one.dur_ns]
    told = [one for one in steps if cause in one.lost]
    if not told:
        return None
    mean = sum(one.dur_ns for one in told) / len(told)
    lost = sum(one.lost[cause].ns for one in told) / len(told)
    worst = max(told, key=lambda one: one.lost[cause].ns)
    numbers: dict[str, Value] = {
        "lost_ns": round(lost), "step_ns": round(mean), "lost_share": lost / mean, "steps": len(told),
        "worst": worst.step, "worst_ns": worst.lost[cause].ns, "what": worst.lost[cause].note or None,
        "replicas": worst.replicas,
    }  # fmt: skip
    evidence = tuple(
        Evidence(run.ranks[0], one.lost[cause].ts_ns, one.lost[cause].dur_ns, note=one.lost[cause].note)
        for one in sorted(told, key=lambda one: -one.lost[cause].ns)[:10]
    )
    return Candidate(
        cause, "found", numbers, evidence, Change(), gains=(Gain("rl_step", mean, max(0.0, mean - lost), 0.0),)
    )
