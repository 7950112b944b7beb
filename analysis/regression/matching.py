"""Which kernels of base and head are the same work: by type, shape and element types; renamed, fused, split.

Both sides are told apart only as finely as both can. Where one recorded no types, kernels go by their names. Where one
recorded no shapes, or those of fewer kernels, shapes do not count. What then is left on one side only is looked for on
the other under a new name:

* at the same place, between the same neighbours in the order of its stream, with the same shapes. It must be so in at
  least half of the places where either of the two runs;
* several at the place of one, or one at the place of several: fused or split (analysis/regression/regrouped.py);
* else under the same operator and module with the same shapes, where both sides have just one such kernel.

Where shapes do not tell kernels apart, a new name at an old place may be other work. Shapes that both recorded have to
meet then. Else neither of the two may take more than `LONGER` times as long as the other. Nor may it be launched over
so many times the threads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from npulens.analysis.regression.pieces import Measured
from npulens.analysis.regression.regrouped import LONGER, Group, Key, Line, Mean, regrouped, stretches

#: Shapes tell kernels apart where the shares of kernels that have them differ by no more than this.
LIKE = 0.05
#: All copies together, where one side does not know their directions.
ANY_COPY = "memcpy"
#: What a text holds that says something.
SAYS = re.compile(r"\w|\[\[")
#: What may tell kernels of one name apart; in a key they follow the kind and the name.
SHAPED = ("shapes", "dtypes")
#: What people may ask the kernels to be added up by, finest first.
LEVELS = ("kernel", "operator", "module")


@dataclass(frozen=True)
class Named:
    """The rows of each side, all its runs together, with a column `key` that is the same for the same work.

    A further column `what` says what its own side calls it. Of work that has other names on the other side, `groups`
    has the names of both."""

    frames: tuple[pd.DataFrame, ...]
    groups: Mapping[Key, Group]


def named(sides: Sequence[Sequence[Measured]], level: str) -> Named:
    """Both sides, told apart as finely as both can be."""
    frames = [pd.concat([one.rows.assign(run=place) for place, one in enumerate(side)], ignore_index=True)
              for side in sides]  # fmt: skip
    fine = _fine(frames)
    coarse = _coarse(frames, fine)
    keyed = [frame.assign(key=_keys(frame, fine, *coarse)) for frame in frames]
    keyed = [frame.assign(what=[key[1] for key in frame["key"]]) for frame in keyed]
    if level != "kernel":
        return Named(tuple(_by(frame, level) for frame in keyed), {})
    groups: dict[Key, Group] = {}
    known: tuple[dict[Key, Key], dict[Key, Key]] = ({}, {})
    for members in _belonging(keyed, sides):
        key = members[1][0] if len(members[1]) == 1 else members[0][0]
        groups[key] = Group(*(tuple(each[1] for each in side) for side in members))
        for to, side in zip(known, members, strict=True):
            to.update(dict.fromkeys(side, key))
    return Named(tuple(
        frame.assign(key=[to.get(key, key) for key in frame["key"]]) for frame, to in zip(keyed, known, strict=True)
    ), groups)  # fmt: skip


def _fine(frames: Sequence[pd.DataFrame]) -> tuple[str, ...]:
    """The columns that tell kernels apart on both sides."""
    kernels = [frame[frame["kind"] == "kernel"] for frame in frames]
    typed = [bool((frame["op"] != frame["name"]).any()) for frame in kernels]
    told = [name for name in SHAPED if _alike(*(_share(frame, name) for frame in kernels))]
    return ("name" if typed[0] != typed[1] else "op", *told)


def _alike(base: float, head: float) -> bool:
    return min(base, head) > 0 and abs(base - head) <= LIKE


def _share(kernels: pd.DataFrame, name: str) -> float:
    """Of how many kernels a column says something."""
    said = int(kernels.loc[says(kernels[name]), "count"].sum())
    return said / max(1, int(kernels["count"].sum()))


def says(texts: pd.Series) -> pd.Series:
    """Which of them say something; Kineto writes [] for nothing, and [[]] for a tensor without sides."""
    return texts.str.contains(SAYS)


def _coarse(frames: Sequence[pd.DataFrame], fine: Sequence[str]) -> tuple[set[str], bool]:
    """Kernels whose shapes are not always known: they go by name alone. Whether copies go by direction."""
    blind: set[str] = set()
    kernels = pd.concat([frame[frame["kind"] == "kernel"] for frame in frames])
    for name in fine[1:]:
        known = says(kernels[name])
        blind |= set(kernels.loc[known, fine[0]]) & set(kernels.loc[~known, fine[0]])
    copies = [frame[frame["kind"] == "copy"] for frame in frames]
    directed = [not bool((frame["op"] == frame["name"]).any()) for frame in copies]
    return blind, all(directed) or not any(directed)


def _keys(frame: pd.DataFrame, fine: Sequence[str], blind: set[str], directed: bool) -> list[Key]:
    """Kind, name, shapes and element types of each; texts are empty where they do not tell kernels apart."""
    kernels = (frame["kind"] == "kernel").tolist()
    nothing = [""] * len(frame)
    texts = zip(frame[fine[0]], *(frame[name] if name in fine else nothing for name in SHAPED), strict=True)
    return [
        ((kind, text[0]) if text[0] in blind else (kind, *text)) if kernel
        else (kind, op) if directed or kind != "copy" else (kind, ANY_COPY)
        for kind, op, text, kernel in zip(frame["kind"], frame["op"], texts, kernels, strict=True)
    ]  # fmt: skip


def _by(frame: pd.DataFrame, level: str) -> pd.DataFrame:
    """Kernels added up by the operator or module that launched them; where none is known, by themselves."""
    kernels = (frame["kind"] == "kernel") & (frame[level] != "")
    what = frame["what"].where(~kernels, frame[level])
    return frame.assign(what=what, key=[(kind, name) for kind, name in zip(frame["kind"], what, strict=True)])


def _belonging(
    frames: Sequence[pd.DataFrame], sides: Sequence[Sequence[Measured]]
) -> Iterator[tuple[tuple[Key, ...], tuple[Key, ...]]]:
    """Kernels of base and of head that are the same work under other names."""
    kernels = [frame[frame["kind"] == "kernel"] for frame in frames]
    keys = [set(frame["key"]) for frame in kernels]
    both = keys[0] & keys[1]
    lines = [_line(side[0], frame) for side, frame in zip(sides, frames, strict=True)]
    works = [_works(frame) for frame in kernels]
    placed = dict(_placed(lines, both, works))
    yield from (((old,), (new,)) for old, new in placed.items())
    lines[0] = [None if key is None else placed.get(key, key) for key in lines[0]]
    means = [_means(frame, side) for frame, side in zip(kernels, sides, strict=True)]
    groups = list(regrouped(lines, both | set(placed.values()), means))
    yield from groups
    taken = [both | placed.keys(), both | set(placed.values())]
    for used, place in zip(taken, (0, 1), strict=True):
        used.update(key for pair in groups for key in pair[place])
    left = [frame[~frame["key"].isin(known)] for frame, known in zip(kernels, taken, strict=True)]
    alone = [_alone(frame) for frame in left]
    again = {key: alone[1][where] for where, key in alone[0].items()
             if where in alone[1] and _like(works[0][key], works[1][alone[1][where]])}  # fmt: skip
    twice = {key for key, often in Counter(again.values()).items() if often > 1}
    yield from (((old,), (new,)) for old, new in again.items() if new not in twice)


def _means(kernels: pd.DataFrame, side: Sequence[Measured]) -> dict[Key, Mean]:
    """Each kernel in the mean window of a side."""
    windows = max(1, sum(len(one.side.windows) for one in side))
    sums = kernels.groupby("key", sort=False)[["count", "ns"]].sum() / windows
    return {key: Mean(count, ns) for key, count, ns in zip(sums.index, sums["count"], sums["ns"], strict=True)}


@dataclass(frozen=True)
class Work:
    """What tells how much a kernel does: its shapes, the time of a run, the threads it is launched over."""

    shapes: frozenset[str]  # as far as they say something
    ns: float
    threads: float  # 0 where not all launches say them


def _works(kernels: pd.DataFrame) -> dict[Key, Work]:
    """The work of each kernel of a side."""
    shapes: dict[Key, set[str]] = {key: set() for key in kernels["key"]}
    known = says(kernels["shapes"])
    for key, text in zip(kernels.loc[known, "key"], kernels.loc[known, "shapes"], strict=True):
        shapes[key].add(text)
    frame = kernels[["key", "count", "whole_ns"]].assign(
        launched=kernels["count"].astype("float64") * kernels["threads"], untold=kernels["threads"] == 0)  # fmt: skip
    sums = frame.groupby("key", sort=False).sum()
    return {
        key: Work(frozenset(shapes[key]), ns / max(1, count), 0.0 if untold else launched / max(1, count))
        for key, count, ns, launched, untold in zip(
            sums.index, sums["count"], sums["whole_ns"], sums["launched"], sums["untold"], strict=True)
    }  # fmt: skip


def _like(base: Work, head: Work) -> bool:
    """Whether two kernels at one place may do the same work."""
    if base.shapes and head.shapes:
        return not base.shapes.isdisjoint(head.shapes)
    return all(max(pair) <= LONGER * min(pair) for pair in (
        (base.ns, head.ns), *([(base.threads, head.threads)] if base.threads and head.threads else [])))  # fmt: skip


def _line(run: Measured, frame: pd.DataFrame) -> list[Key | None]:
    """The keys of the kernels of a middling window in order; None between streams."""
    keys = frame["key"][frame["run"] == 0].tolist()
    return [None, *(None if place < 0 else keys[place] for place in run.sequence.tolist()), None]


def _placed(lines: Sequence[Line], both: set[Key], works: Sequence[Mapping[Key, Work]]) -> Iterator[tuple[Key, Key]]:
    """Pairs of names that stand at the same places."""
    spots = [Counter(_spots(line, both)) for line in lines]
    often = [Counter(key for key in line if key is not None and key not in both) for line in lines]
    there: dict[tuple[object, ...], list[tuple[Key, int]]] = {}
    for (key, *where), count in spots[1].items():
        there.setdefault((*where, key[2:]), []).append((key, count))
    votes: Counter[tuple[Key, Key]] = Counter()
    for (key, *where), count in spots[0].items():
        for other, as_often in there.get((*where, key[2:]), ()):
            if not _like(works[0][key], works[1][other]):
                continue
            votes[key, other] += min(count, as_often)
    done: tuple[set[Key], set[Key]] = (set(), set())
    for (old, new), count in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
        if old not in done[0] and new not in done[1] and 2 * count >= max(often[0][old], often[1][new]):
            done[0].add(old)
            done[1].add(new)
            yield old, new


def _spots(line: Line, both: set[Key]) -> Iterator[tuple[Key, Key | None, Key | None, int, int]]:
    """Every kernel that one side only has: itself, its neighbours that both have, its place between them."""
    for left, only, right in stretches(line, both):
        for place, key in enumerate(only):
            yield key, left, right, place, len(only)


def _alone(frame: pd.DataFrame) -> Mapping[tuple[str, ...], Key]:
    """(operator, module, shapes, element types) -> the one kernel that runs under them."""
    known = frame[frame["operator"] != ""]
    under = known.groupby(["operator", "module", "shapes", "dtypes"])["key"].agg(lambda keys: tuple(set(keys)))
    return {where: keys[0] for where, keys in under.items() if len(keys) == 1}
