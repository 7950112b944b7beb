"""What this capture can and cannot answer, how far it can be trusted, and how to collect a better one.

The score is a weighted mean that anyone can do again by hand: every part has points and a share,
``score = round(100 * sum(points * share) / sum(points))`` over the parts that apply. Seventy points
are for what was recorded (the share is that of the captured ranks that have it), thirty for how far
it can be trusted. What the backend's profiler has no setting for does not count, nor does what a job
without collectives or with one rank cannot have; it is still listed as missing.

The points are a judgement: what most detectors need weighs most (device tasks, launch arrows,
steps, call stacks, and whom a collective waits for).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from npulens.analysis.capability import BY_NAME, Has, capabilities, on_npu
from npulens.analysis.collect import Recipe, recipe
from npulens.analysis.finding import Finding
from npulens.analysis.run import Run
from npulens.analysis.trust import Doubt, doubts, trust

Pair = tuple[str, str]

#: Capability -> its points. The others are listed when they are missing, and weigh nothing.
POINTS = {
    "kernels": 14, "launches": 10, "steps": 8, "peer_waits": 7, "python": 6, "host_ops": 4, "runtime_calls": 4,
    "kernel_types": 4, "kernel_shapes": 2, "kernel_counters": 2, "copies": 2, "copy_bytes": 2, "gc": 2, "memory": 2,
    "frequency": 1,
}  # fmt: skip
#: What only a job that communicates can have.
OF_A_JOB = ("peer_waits",)


@dataclass(frozen=True)
class Part:
    """One line of the score."""

    name: str
    text: Pair
    points: int
    share: float

    def as_dict(self, lang: str) -> dict[str, Any]:
        return {"name": self.name, "text": _in(lang, self.text), "points": self.points, "share": round(self.share, 4)}


@dataclass(frozen=True)
class Missing:
    """Something the capture does not hold."""

    name: str
    what: Pair
    why: Pair
    collect_with: str | None  # None: no setting records it
    ranks: tuple[int, ...]  # those that lack it; empty: what is missing belongs to no captured rank

    def as_dict(self, lang: str) -> dict[str, Any]:
        return {
            "what": _in(lang, self.what), "why": _in(lang, self.why), "collect_with": self.collect_with,
            "name": self.name, "ranks": list(self.ranks),
        }  # fmt: skip


@dataclass(frozen=True)
class Quality:
    """What `npulens check` says about the capture itself."""

    score: int
    parts: tuple[Part, ...]
    missing: tuple[Missing, ...]
    doubts: tuple[Doubt, ...]
    collect: Recipe

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        return {
            "score": self.score, "missing": [missing.as_dict(lang) for missing in self.missing],
            "doubts": [_in(lang, doubt.text) for doubt in self.doubts],
            "parts": [part.as_dict(lang) for part in self.parts], "collect": self.collect.as_dict(lang),
        }  # fmt: skip


def quality(run: Run, findings: Sequence[Finding] = ()) -> Quality:
    """The capture's own examination. The findings say which rank is worth capturing next."""
    has = run.get(capabilities)
    parts = (*_recorded(run, has), *(Part(*part) for part in run.get(trust)))
    missing = (*_ranks(run), *_lacking(has), *_few_steps(run))
    return Quality(
        score_of(parts), parts, missing, run.get(doubts),
        recipe(run, about(run), [entry.name for entry in missing], findings),
    )  # fmt: skip


def score_of(parts: Iterable[Part]) -> int:
    """The weighted mean of the shares, in percent; a capture to which nothing applies has none."""
    parts = tuple(parts)
    return round(100 * sum(p.points * p.share for p in parts) / max(1, sum(p.points for p in parts)))


def _recorded(run: Run, has: dict[str, Has]) -> Iterator[Part]:
    """What was recorded: the share of the captured ranks that have it."""
    npu, communicates = about(run)["npu"], talks(run)
    for name, points in POINTS.items():
        capability = BY_NAME[name]
        if (name in OF_A_JOB and not communicates) or (not npu and capability.torch is None):
            continue
        yield Part(name, capability.means, points, len(has[name].ranks) / max(1, len(run.ranks)))


def talks(run: Run) -> bool:
    """Whether this is a job of several ranks, as far as the capture tells."""
    if run.world_size is not None:
        return run.world_size > 1
    return bool(run.con.execute("SELECT 1 FROM span WHERE kind = 'comm_op' LIMIT 1").fetchall())


def about(run: Run) -> dict[str, Any]:
    """What the first rank says of the profiler that recorded it."""
    rows = run.con.execute("SELECT backend, formats, profiler_level, settings FROM rank ORDER BY rank LIMIT 1")
    for backend, formats, level, settings in rows.fetchall():
        return {"npu": on_npu(backend, formats), "backend": backend, "level": level, "settings": _object(settings)}
    return {"npu": True, "backend": None, "level": None, "settings": {}}


def _object(text: str | None) -> dict[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _lacking(has: dict[str, Has]) -> Iterator[Missing]:
    for name, found in has.items():
        if found.lacking and found.why and found.why_zh:
            why = (found.why, found.why_zh)
            yield Missing(name, found.capability.means, why, found.collect_with, found.lacking)


def _ranks(run: Run) -> Iterator[Missing]:
    """Ranks of the job that were not captured."""
    if not run.missing_ranks:
        return
    listed, world = _listed(run.missing_ranks), run.world_size
    few = "rank" if len(run.missing_ranks) == 1 else "ranks"
    yield Missing(
        "ranks", (f"{few} {listed} of {world}", f"{world} 个 rank 中的 {listed}"),
        ("not captured, or not loaded together with these", "未采集，或没有与现有数据一起加载"),
        f"npulens load --join ({few} {listed})", (),
    )  # fmt: skip


def _listed(ranks: Sequence[int]) -> str:
    """0, 2-7: neighbours joined, the first few of them."""
    runs: list[list[int]] = []
    for rank in sorted(ranks):
        if runs and rank == runs[-1][1] + 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    told = [str(first) if first == last else f"{first}-{last}" for first, last in runs]
    return ", ".join(told[:8]) + (", ..." if len(told) > 8 else "")


#: A mean over fewer steps than this is mostly noise; the profilers' own guides record about as many.
ENOUGH_STEPS = 5


def _few_steps(run: Run) -> Iterator[Missing]:
    steps = max([0, *(len(steps) for steps in run.steps.values())])
    if 0 < steps < ENOUGH_STEPS:
        counted = "one step" if steps == 1 else f"{steps} steps"
        yield Missing(
            "more_steps", (f"more than {counted}", f"多于 {steps} 个训练步"),
            (f"what {counted} show{'s' * (steps == 1)} may be chance", f"只有 {steps} 步，可能是偶然"),
            f"schedule(active={ENOUGH_STEPS})", (),
        )  # fmt: skip


def _in(lang: str, text: Pair) -> str:
    return text[1 if lang == "zh" else 0]
