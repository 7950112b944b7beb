"""Which kernels of base and head are the same work: by type, shape and element types; renamed, new or gone.

Both sides are told apart only as finely as both can: where one recorded no types, kernels go by their names, where one
recorded no shapes, or those of fewer kernels, shapes do not count. What then is left on one side only is looked for on
the other under a new name:

* at the same place: between the same neighbours in the order of its stream, with the same shapes, in at least half of
  the places where either of the two runs;
* else under the same operator and module with the same shapes, where both sides have just one such kernel.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from npulens.analysis.regression.pieces import Measured

Key = tuple[str, ...]
#: Shapes tell kernels apart where the shares of kernels that have them differ by no more than this.
LIKE = 0.05
#: All copies together, where one side does not know their directions.
ANY_COPY = "memcpy"
#: What people may ask the kernels to be added up by, finest first.
LEVELS = ("kernel", "operator", "module")


def named(sides: Sequence[Sequence[Measured]], level: str) -> list[pd.DataFrame]:
    """The rows of each side, all its runs together, with a column `key` that is the same for the same work.

    Further columns: `what` to call it, `before` where the other side calls it otherwise."""
    frames = [pd.concat([one.rows.assign(run=place) for place, one in enumerate(side)], ignore_index=True)
              for side in sides]  # fmt: skip
    fine = _fine(frames)
    coarse = _coarse(frames, fine)
    keyed = [frame.assign(key=_keys(frame, fine, *coarse), before="") for frame in frames]
    keyed = [frame.assign(what=[key[1] for key in frame["key"]]) for frame in keyed]
    if level == "kernel":
        again = renamed(keyed, [side[0] for side in sides])
        base = keyed[0]
        keyed[0] = base.assign(key=[again.get(key, key) for key in base["key"]])
        old = {new: gone[1] for gone, new in again.items()}
        keyed[1]["before"] = [old.get(key, "") for key in keyed[1]["key"]]
        return keyed
    return [_by(frame, level) for frame in keyed]


def _fine(frames: Sequence[pd.DataFrame]) -> tuple[str, ...]:
    """The columns that tell kernels apart on both sides."""
    kernels = [frame[frame["kind"] == "kernel"] for frame in frames]
    typed = [bool((frame["op"] != frame["name"]).any()) for frame in kernels]
    told = [name for name in ("shapes", "dtypes") if _alike(*(_share(frame, name) for frame in kernels))]
    return ("name" if typed[0] != typed[1] else "op", *told)


def _alike(base: float, head: float) -> bool:
    return min(base, head) > 0 and abs(base - head) <= LIKE


def _share(kernels: pd.DataFrame, name: str) -> float:
    """Of how many kernels a column says something."""
    said = int(kernels.loc[_says(kernels[name]), "count"].sum())
    return said / max(1, int(kernels["count"].sum()))


def _says(texts: pd.Series) -> pd.Series:
    """Which of them say something; Kineto writes [] for nothing."""
    return texts.str.contains(r"\w", regex=True)


def _coarse(frames: Sequence[pd.DataFrame], fine: Sequence[str]) -> tuple[set[str], bool]:
    """Kernels whose shapes are not always known: they go by name alone. Whether copies go by direction."""
    blind: set[str] = set()
    kernels = pd.concat([frame[frame["kind"] == "kernel"] for frame in frames])
    for name in fine[1:]:
        says = _says(kernels[name])
        blind |= set(kernels.loc[says, fine[0]]) & set(kernels.loc[~says, fine[0]])
    copies = [frame[frame["kind"] == "copy"] for frame in frames]
    directed = [not bool((frame["op"] == frame["name"]).any()) for frame in copies]
    return blind, all(directed) or not any(directed)


def _keys(frame: pd.DataFrame, fine: Sequence[str], blind: set[str], directed: bool) -> list[Key]:
    kernels = (frame["kind"] == "kernel").tolist()
    texts = zip(*(frame[name] for name in fine), strict=True)
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


def renamed(frames: Sequence[pd.DataFrame], runs: Sequence[Measured]) -> dict[Key, Key]:
    """key on base -> key on head, of kernels that have another name there."""
    kernels = [frame[frame["kind"] == "kernel"] for frame in frames]
    keys = [set(frame["key"]) for frame in kernels]
    both = keys[0] & keys[1]
    found = dict(_placed([_line(run, frame) for run, frame in zip(runs, frames, strict=True)], both))
    taken = [both | found.keys(), both | set(found.values())]
    left = [frame[~frame["key"].isin(known)] for frame, known in zip(kernels, taken, strict=True)]
    alone = [_alone(frame) for frame in left]
    again = {key: alone[1][where] for where, key in alone[0].items() if where in alone[1]}
    twice = {key for key, often in Counter(again.values()).items() if often > 1}
    return found | {old: new for old, new in again.items() if new not in twice}


def _line(run: Measured, frame: pd.DataFrame) -> list[Key | None]:
    """The keys of the kernels of a middling window in order; None between streams."""
    keys = frame["key"][frame["run"] == 0].tolist()
    return [None, *(None if place < 0 else keys[place] for place in run.sequence.tolist()), None]


def _placed(lines: Sequence[list[Key | None]], both: set[Key]) -> Iterator[tuple[Key, Key]]:
    """Pairs of names that stand at the same places."""
    spots = [Counter(_spots(line, both)) for line in lines]
    often = [Counter(key for key in line if key is not None and key not in both) for line in lines]
    there: dict[tuple[object, ...], list[tuple[Key, int]]] = {}
    for (key, *where), count in spots[1].items():
        there.setdefault((*where, key[2:]), []).append((key, count))
    votes: Counter[tuple[Key, Key]] = Counter()
    for (key, *where), count in spots[0].items():
        for other, as_often in there.get((*where, key[2:]), ()):
            votes[key, other] += min(count, as_often)
    done: tuple[set[Key], set[Key]] = (set(), set())
    for (old, new), count in sorted(votes.items(), key=lambda item: (-item[1], item[0])):
        if old not in done[0] and new not in done[1] and 2 * count >= max(often[0][old], often[1][new]):
            done[0].add(old)
            done[1].add(new)
            yield old, new


def _spots(line: Sequence[Key | None], both: set[Key]) -> Iterator[tuple[Key, Key | None, Key | None, int, int]]:
    """Every kernel that one side only has: itself, its neighbours that both have, its place between them."""
    first = 0
    while first < len(line):
        last = first
        while last < len(line) and (here := line[last]) is not None and here not in both:
            last += 1
        for place in range(first, last):
            key = line[place]
            assert key is not None
            yield key, line[first - 1], line[last], place - first, last - first
        first = last + 1


def _alone(frame: pd.DataFrame) -> Mapping[tuple[str, ...], Key]:
    """(operator, module, shapes, element types) -> the one kernel that runs under them."""
    known = frame[frame["operator"] != ""]
    under = known.groupby(["operator", "module", "shapes", "dtypes"])["key"].agg(lambda keys: tuple(set(keys)))
    return {where: keys[0] for where, keys in under.items() if len(keys) == 1}
