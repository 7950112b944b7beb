"""Experts on different ranks get unequal numbers of tokens, and everybody waits for the busiest.

## What it measures
The kernels that multiply for several experts at once (GroupedMatmul, grouped GEMM, fused experts), layer by layer. The
n-th of a step is compared on each captured rank of an expert parallel group. What the busiest rank needs above the mean
of the group is lost in every layer. Where shapes were recorded and all ranks have the same ones, tokens are equal, and
a difference has another cause.

## Why it costs
The results come back in one all-to-all (combine), which waits for the last rank. So in each layer all ranks
need the time of the busiest one.

## What to do
Balance the router: a larger auxiliary loss or an expert bias, a capacity factor that drops or moves the
excess. At inference place experts anew by their load, with copies of the hot ones.

## Limits of the method
Captured ranks only: another rank may be busier still. The saving is against their mean. At most it is what it would be
if the others had as little work as the least busy of them. A group of which one rank was captured cannot be judged.
Neither its share of the tokens nor the others' is known.

## References
Megatron-LM and MindSpeed: --moe-aux-loss-coeff, --moe-router-enable-expert-bias,
--moe-expert-capacity-factor; DeepSeek-V3 (arXiv:2412.19437), sections 2.1.2 and 3.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.device.kernels import Kernels, evidence, kernels
from npulens.analysis.device.kinds import Bools
from npulens.analysis.finding import Candidate, Change, NotMeasured, Value, Words
from npulens.analysis.intervals import Ints
from npulens.analysis.limits import limit
from npulens.analysis.ranks.collectives import collectives
from npulens.analysis.ranks.experts import of_experts
from npulens.analysis.ranks.stages import pipelines
from npulens.analysis.run import Run
from npulens.analysis.steady import of_run

NEEDS = ("kernels",)
_ALL_TO_ALL = frozenset({"alltoall", "alltoallv", "alltoallvc", "dispatch", "combine"})

TEXT = {
    "en": {
        "found": Words(
            "Experts get unequal numbers of tokens. Rank {rank} computes {most_ns} of each step in them, the mean of "
            "{count} ranks is {mean_ns}. The busiest rank of each layer costs {lost_ns} ({lost_share})",
            "The worst layer needs {worst_share} more on its busiest rank than on average. Balance the router: "
            "--moe-aux-loss-coeff, --moe-router-enable-expert-bias, --moe-expert-capacity-factor. At inference place "
            "experts anew by their load and give hot ones a copy.[[ Only {count} of {members} ranks of the group were "
            "captured; profile all of them.]]",
        ),
    },
    "zh": {
        "found": Words(
            "各专家分到的 token 数不均：rank {rank} 每步的专家计算为 {most_ns}，{count} 张卡平均为 {mean_ns}；"
            "逐层按最忙的卡计，每步损失 {lost_ns}（{lost_share}）",
            "最不均的一层，最忙的卡比平均多 {worst_share}。请均衡路由：--moe-aux-loss-coeff、"
            "--moe-router-enable-expert-bias、--moe-expert-capacity-factor。推理时按负载重新放置专家，"
            "并为热点专家增加副本。[[该通信域的 {members} 张卡只采集了 {count} 张，请全部采集。]]",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """When experts are unequal."""

    least_more: float = limit(
        0.05, "share of the group's mean", "tiles of 128 tokens: equal shares still differ by some"
    )


@dataclass(frozen=True)
class _Load:
    """The expert kernels of one group: rows of `kernels(run)`, and which layer of which step each belongs to."""

    rows: Ints
    layer: Ints
    ranks: tuple[int, ...]
    own: Ints  # rank x layer, ns
    mean: Ints  # by layer

    @property
    def lost_ns(self) -> int:
        return int((self.own.max(axis=0) - self.mean).sum())

    def most_ns(self, absent: int) -> int:
        """The same if so many more ranks share these experts, each as idle as the least busy of the captured ones."""
        most, shared = self.own.max(axis=0), len(self.ranks) + absent
        mean = (self.own.sum(axis=0) + absent * self.own.min(axis=0)) / shared
        return int(np.where(self.mean < most, most - mean, 0).sum())


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate per group of ranks that share experts."""
    every = run.get(kernels)
    expert = every.kinds.each(lambda kind: of_experts(f"{kind.name} {kind.op_type or ''}"), "name", "op_type")
    rows = np.flatnonzero(every.of(expert.flags()))
    ranks = np.unique(every.rank[rows]).tolist()
    if not ranks or (len(ranks) == 1 and run.least_world == 1 and not len(run.get(collectives))):
        return
    groups = [(members, here) for members in _groups(run, ranks) if len(here := sorted(set(members) & set(ranks))) > 1]
    if not groups:
        raise NotMeasured(
            "only one rank of the group that shares experts was captured", "共享专家的通信域只采集了一张卡",
            "a profile of every rank of the expert parallel group",
        )  # fmt: skip
    for members, here in groups:
        load = _load(every, rows, tuple(here))
        if load.lost_ns > limits.least_more * load.mean.sum():
            yield _candidate(run, every, load, len(members), _absent(run, members, here))


def _absent(run: Run, members: tuple[int, ...], here: list[int]) -> int:
    """How many ranks may share these experts without having been captured; where only captured ones are known, any."""
    others = set(members) - set(here)
    return len(others or set(run.missing_ranks or ()) - set(here))


def _groups(run: Run, ranks: list[int]) -> list[tuple[int, ...]]:
    """Which ranks share experts: as listed, else those that exchange all to all, else those of one stage."""
    listed = run.con.execute(
        "SELECT DISTINCT ranks FROM parallel_group WHERE regexp_matches(lower(kind), '^(ep|exp|expert)([^a-z]|$)') "
        "AND len(ranks) > 1 ORDER BY ALL"
    ).fetchall()
    if listed:
        return [tuple(one) for (one,) in listed]
    operators = run.get(collectives)
    teams = np.unique(operators.team[operators.of_kinds(_ALL_TO_ALL)]).tolist()
    if seen := {operators.members.get(team, tuple(np.unique(operators.rank[operators.team == team]).tolist()))
                for team in teams}:  # fmt: skip
        return sorted(seen)
    place = {rank: number for one in run.get(pipelines) for number, rank in enumerate(one.ranks)}
    stages: dict[int, list[int]] = {}
    for rank in ranks:
        stages.setdefault(place.get(rank, -1), []).append(rank)
    return [tuple(one) for one in stages.values()]


def _load(every: Kernels, rows: Ints, ranks: tuple[int, ...]) -> _Load:
    """The group's kernels by layer; where ranks ran unequal numbers of them in a step, the step is one layer."""
    rows = rows[np.isin(every.rank[rows], ranks)]
    rows = rows[np.lexsort((every.ts[rows], every.step[rows], every.rank[rows]))]
    steps, step = np.unique(every.step[rows], return_inverse=True)
    rank = np.searchsorted(np.array(ranks), every.rank[rows])
    block = rank * len(steps) + step
    count = np.bincount(block, minlength=len(ranks) * len(steps)).reshape(len(ranks), -1)
    first = np.cumsum(count.ravel()) - count.ravel()
    even = (count == count[0]).all(axis=0)
    place = np.where(even[step], np.arange(len(rows)) - first[block], 0)
    _, layer = np.unique(step * (int(place.max(initial=0)) + 1) + place, return_inverse=True)
    own = np.zeros((len(ranks), int(layer.max(initial=-1)) + 1), np.int64)
    np.add.at(own, (rank, layer), every.dur[rows])
    alike = _alike(every, rows, layer)
    mean = np.where(alike, own.max(axis=0), own.mean(axis=0).astype(np.int64))
    return _Load(rows, layer, ranks, own, mean)


def _alike(every: Kernels, rows: Ints, layer: Ints) -> Bools:
    """Layers in which every rank has the same shapes."""
    shaped = every.of(every.kinds.column("input_shapes").map(bool).flags())[rows]
    differs = np.zeros(int(layer.max(initial=-1)) + 1, np.bool_)
    some = np.zeros(len(differs), np.int64)
    some[layer] = every.kind[rows]
    differs[layer[(some[layer] != every.kind[rows]) | ~shaped]] = True
    return np.asarray(~differs)


def _candidate(run: Run, every: Kernels, load: _Load, members: int, absent: int) -> Candidate:
    steps, total = run.step_count, load.own.sum(axis=1)
    rank = np.searchsorted(np.array(load.ranks), every.rank[load.rows])
    own, mean = load.own[rank, load.layer], load.mean[load.layer]
    less = np.rint(every.dur[load.rows] * np.clip(1 - mean / np.maximum(own, 1), 0, 1)).astype(np.int64)
    more = load.own.max(axis=0) / np.maximum(load.mean, 1) - 1
    numbers: dict[str, Value] = {
        "rank": load.ranks[int(total.argmax())], "most_ns": int(total.max()) // steps, "count": len(load.ranks),
        "mean_ns": int(total.mean()) // steps, "lost_ns": load.lost_ns // steps,
        "lost_share": of_run(run, load.lost_ns), "worst_share": float(more.max()),
        "members": members if members > len(load.ranks) else None, "layers": len(load.mean),
    }  # fmt: skip
    some = less > 0
    change = Change(tasks=every.span_id[load.rows[some]], task_ns=less[some])
    return Candidate(
        "expert_imbalance", "found", numbers, evidence(every, load.rows[some], less[some]), change,
        "high" if members == len(load.ranks) else "medium", load.lost_ns, load.lost_ns,
        most_ns=load.most_ns(absent) if absent else None,
    )  # fmt: skip
