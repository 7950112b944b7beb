"""Which parts of a step a night judges by name, and what share of the step each has.

Every session names its largest kernels by itself (analysis/regression/parts.py). A kernel just below the last place
would be named in one session and among the others in the next. Then the sum of the others would jump. So a night
chooses its names once, for all sessions of both sides. Those the nights before had come first, then the largest. What
is not chosen joins the others in every session alike.

A kernel under a new name is in every session of one side and in none of the other. It joins nothing: the side that
has it names it, and `computing` compares what both sides took.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from statistics import median

from msgspec.structs import replace

from npulens.analysis.regression.families import OTHERS
from npulens.analysis.regression.parts import KERNEL_CYCLES, KERNEL_NS, LEAST_SHARE, MODULE_NS
from npulens.app.nightly.gathering.results import Value
from npulens.app.nightly.night import Row

#: Parts that are judged by name: each is a chance of a false alarm, and of 24 kernels the last is small.
MOST = {KERNEL_NS: 24, KERNEL_CYCLES: 24, MODULE_NS: 8}
#: A name that one side lacks is another name if it has this share of the step. Below, it has fallen among the others.
_CLEAR = 2 * LEAST_SHARE
#: The metric of a task that its other metrics are parts of.
_STEP = "step_ns"

Metrics = Mapping[str, Value]


def chosen(head: Sequence[Metrics], base: Sequence[Metrics], known: Collection[str]) -> frozenset[str]:
    """The names that are judged tonight, and those that only base has."""
    found: set[str] = set()
    for prefix, most in MOST.items():
        sides = [[each for each in side if any(name.startswith(prefix) for name in each)] for side in (head, base)]
        names = {name for side in sides for each in side for name in each if name.startswith(prefix)}
        size = {name: _share(name, [*sides[0], *sides[1]]) for name in names - {prefix + OTHERS}}
        whole = [name for name in size if all(_in_all(name, side) for side in sides)]
        order = sorted(whole, key=lambda name: (name not in known, -size[name], name))
        found.update(order[:most])
        found.update(name for name in size if size[name] >= _CLEAR and _one_sided(name, sides[0], sides[1]))
    return frozenset(found)


def folded(metrics: Metrics, names: Collection[str]) -> dict[str, Value]:
    """The metrics of a session with every part that was not chosen among the others."""
    found = dict(metrics)
    for prefix in MOST:
        loose = [name for name in metrics if name.startswith(prefix) and name not in names and name != prefix + OTHERS]
        values = [found.pop(name) for name in loose]
        if not values or prefix == MODULE_NS:  # modules do not sum to anything
            continue
        rest = found.get(prefix + OTHERS, Value(0.0, values[0].unit, share=0.0))
        found[prefix + OTHERS] = replace(
            rest, value=rest.value + sum(each.value for each in values), error=None,
            share=(rest.share or 0.0) + sum(each.share or 0.0 for each in values),
        )  # fmt: skip
    return found


def _share(name: str, sessions: Sequence[Metrics]) -> float:
    return median(each[name].share or 0.0 for each in sessions if name in each)


def _in_all(name: str, side: Sequence[Metrics]) -> bool:
    return all(name in each for each in side)


def _one_sided(name: str, head: Sequence[Metrics], base: Sequence[Metrics]) -> bool:
    """Whether all sessions of one side have it, and none of the other."""
    return any(
        bool(one and other) and _in_all(name, one) and not any(name in each for each in other)
        for one, other in ((head, base), (base, head))
    )


def beside_step(rows: Sequence[Row], shares: Mapping[tuple[str, str], float]) -> tuple[Row, ...]:
    """The rows with the share of the step that each part has, and what is said of the step itself.

    ``shares``: of an identity and a metric, as the sessions measured them.
    """
    steps = {row.identity: row for row in rows if row.metric == _STEP}
    return tuple(_beside(row, steps.get(row.identity), shares.get((row.identity, row.metric))) for row in rows)


def _beside(row: Row, step: Row | None, share: float | None) -> Row:
    if step is None or row.metric == _STEP:
        return row
    if share is None and row.unit == step.unit == "ns" and step.value > 0:
        share = row.value / step.value
    return row if share is None else replace(row, share=share, step=step.verdict)
