"""A result of the laboratory: its trials, and what each rewrite replaced, place by place."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

import duckdb

Trial = Mapping[str, Any]
#: Nodes of a place that are drawn, modules that are told apart, and kinds of places that are offered.
MOST_NODES, MOST_MODULES, MOST_KINDS = 36, 24, 200
#: Nodes that are drawn beside each other.
MOST_BESIDE = 5
#: What became of a node, as it is drawn.
KEPT, GONE, CHANGED, NEW = "kept", "gone", "changed", "new"


@dataclass(frozen=True)
class Drawing:
    """What one rewrite did to the program, and what to paste to get it."""

    paste: str | None
    difference: str | None
    sources: tuple[Mapping[str, Any], ...]
    count: tuple[int, int]  # nodes before and after
    left_out: int  # nodes that are not in the file
    before: Mapping[str, Mapping[str, Any]] = field(repr=False)
    after: Mapping[str, Mapping[str, Any]] = field(repr=False)
    states: Mapping[str, str] = field(repr=False)  # of every node that is not kept

    @property
    def replaced(self) -> bool:
        """Whether any node is another one."""
        return bool(self.states)


@dataclass(frozen=True)
class Result:
    """What was tried on which module."""

    about: Mapping[str, Any]
    device: str | None
    versions: Mapping[str, Any]
    trials: tuple[Trial, ...]
    drawings: Mapping[str, Drawing]

    def finding(self, rewrite: str) -> Mapping[str, Any] | None:
        """The finding that named a rewrite: of several the one with the largest saving."""
        named = [each for each in self.about.get("findings") or () if each["rewrite"] == rewrite]
        return max(named, key=lambda each: each["saving_ns"] or 0, default=None)


@dataclass(frozen=True)
class Box:
    """A node where it is drawn: ``row`` counts down from what comes in, ``column`` from the left."""

    name: str
    op: str
    module: str
    value: str
    state: str
    row: float
    column: float


@dataclass(frozen=True)
class Side:
    """The neighbourhood of one place in one of both programs."""

    boxes: tuple[Box, ...]
    lines: tuple[tuple[str, str], ...]
    left_out: int


@dataclass(frozen=True)
class Place:
    """Places that look alike: the first of them drawn, and the modules of all."""

    before: Side
    after: Side
    modules: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """A module with what became of its nodes."""

    module: str
    kept: int
    gone: int
    changed: int
    new: int


def laboratory(con: duckdb.DuckDBPyConnection) -> Result | None:
    """The result that a run is; None for anything else."""
    rows = con.execute("SELECT source, name, args FROM summary WHERE starts_with(source, 'lab ')").fetchall()
    found = con.execute("SELECT settings, device_name, versions FROM rank ORDER BY rank LIMIT 1").fetchall()
    settings, device, versions = found[0] if found else (None, None, None)
    about = _object(settings)
    if not rows and not ("engine" in about and "subject" in about):
        return None
    said = {(source, name): json.loads(args) for source, name, args in rows}
    program = next((each for (source, _), each in said.items() if source == "lab program"), None)
    drawings = {
        name: _drawing(each, each.get("original") or program)
        for (source, name), each in said.items() if source == "lab drawing"
    }  # fmt: skip
    trials = tuple(each for (source, _), each in said.items() if source == "lab trial")
    return Result(about, device, _object(versions), trials, drawings)


def _object(text: str | None) -> dict[str, Any]:
    found = json.loads(text or "{}")
    return found if isinstance(found, dict) else {}


def _drawing(said: Mapping[str, Any], program: Mapping[str, Any] | None) -> Drawing:
    changes = said.get("changes")
    if changes is None or program is None:
        return Drawing(said.get("paste"), None, (), (0, 0), 0, {}, {}, {})
    before = {each["name"]: each for each in program["nodes"]}
    gone, marked = set(changes["gone"]), {each["name"]: each for each in changes["nodes"]}
    after = {name: each for name, each in before.items() if name not in gone} | marked
    states = dict.fromkeys((name for name in before if name in gone), GONE)
    states |= {name: each["state"] for name, each in marked.items() if each["state"] in (NEW, CHANGED)}
    count = int(program["count"])
    added = sum(each["state"] == NEW for each in marked.values())
    return Drawing(
        said.get("paste"), changes.get("difference"), tuple(changes.get("sources") or ()),
        (count, count - len(gone) + added), int(program["left_out"]) + int(changes["left_out"]), before, after, states,
    )  # fmt: skip


def parts(drawing: Drawing, most: int = MOST_MODULES) -> list[Part]:
    """The program by modules, as deep as leaves no more than ``most`` of them."""
    paths = {each["module"] for each in (*drawing.before.values(), *drawing.after.values())}
    deepest = max((len(path.split(".")) for path in paths), default=1)
    depth = next((deep for deep in range(deepest, 0, -1) if len({_folded(path, deep) for path in paths}) <= most), 1)
    counts: dict[str, dict[str, int]] = {}
    for name, node in {**drawing.before, **drawing.after}.items():
        state = drawing.states.get(name, KEPT)
        told = counts.setdefault(_folded(node["module"], depth), dict.fromkeys((KEPT, GONE, CHANGED, NEW), 0))
        told[state] += 1
    found = [Part(module, **told) for module, told in counts.items()]
    if len(found) <= most:
        return found
    ranked = sorted(found, key=lambda each: each.gone + each.changed + each.new, reverse=True)
    rest = ranked[most - 1 :]
    others = [sum(getattr(each, name) for each in rest) for name in (KEPT, GONE, CHANGED, NEW)]
    return [*(each for each in found if each in ranked[: most - 1]), Part("…", *others)]


def _folded(path: str, depth: int) -> str:
    return ".".join(path.split(".")[:depth])


def places(drawing: Drawing) -> list[Place]:
    """Every kind of place that was replaced, the commonest first."""
    alike: dict[object, list[tuple[list[str], list[str]]]] = {}
    for before, after in _places(drawing):
        sign = (_sign(drawing.before, before, drawing), _sign(drawing.after, after, drawing))
        alike.setdefault(sign, []).append((before, after))
    ordered = sorted(alike.values(), key=len, reverse=True)[:MOST_KINDS]
    return [
        Place(
            _side(drawing, drawing.before, kind[0][0]), _side(drawing, drawing.after, kind[0][1]),
            tuple(_where(drawing, *each) for each in kind),
        )
        for kind in ordered
    ]  # fmt: skip


class _Groups:
    """Nodes of both programs that belong together: (side, name) in disjoint sets."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str], tuple[str, str]] = {}

    def top(self, one: tuple[str, str]) -> tuple[str, str]:
        while self._above.setdefault(one, one) != one:
            self._above[one] = self._above[self._above[one]]
            one = self._above[one]
        return one

    def join(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        self._above[self.top(one)] = self.top(other)


def _places(drawing: Drawing) -> list[tuple[list[str], list[str]]]:
    """Replaced nodes that belong together: (before, after), in the order of the program."""
    groups = _Groups()
    marked = {
        "before": [name for name in drawing.before if drawing.states.get(name) in (GONE, CHANGED)],
        "after": [name for name in drawing.after if drawing.states.get(name) in (NEW, CHANGED)],
    }
    for side, nodes in (("before", drawing.before), ("after", drawing.after)):
        inside = set(marked[side])
        for name in marked[side]:
            for other in inside.intersection(nodes[name]["inputs"]):
                groups.join((side, name), (side, other))
    _joined(drawing, groups)
    found: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for place, side in enumerate(("before", "after")):
        for name in marked[side]:
            found.setdefault(groups.top((side, name)), ([], []))[place].append(name)
    return list(found.values())


def _joined(drawing: Drawing, groups: _Groups) -> None:
    """What was changed is the same node in both; who reads new nodes read the old ones that they stand for."""
    for name, node in drawing.after.items():
        if name not in drawing.before:
            continue
        if drawing.states.get(name) == CHANGED:
            groups.join(("before", name), ("after", name))
        was = [each for each in drawing.before[name]["inputs"] if drawing.states.get(each) in (GONE, CHANGED)]
        now = [each for each in node["inputs"] if drawing.states.get(each) in (NEW, CHANGED)]
        for one in was:
            for other in now:
                groups.join(("before", one), ("after", other))


def _sign(nodes: Mapping[str, Mapping[str, Any]], names: Sequence[str], drawing: Drawing) -> object:
    """What two places have in common that look alike: operators and how they hang together."""
    index = {name: place for place, name in enumerate(names)}
    return tuple(
        (nodes[name]["op"], drawing.states.get(name), tuple(index.get(each, -1) for each in nodes[name]["inputs"]))
        for name in names
    )


def _where(drawing: Drawing, before: Sequence[str], after: Sequence[str]) -> str:
    """The module that holds a place: what the paths of its nodes have in common."""
    paths = [drawing.before[name]["module"].split(".") for name in before]
    paths = paths or [drawing.after[name]["module"].split(".") for name in after]
    shared = []
    for words in zip(*paths, strict=False):
        if len(set(words)) > 1:
            break
        shared.append(words[0])
    return ".".join(shared)


def _side(drawing: Drawing, nodes: Mapping[str, Mapping[str, Any]], marked: Sequence[str]) -> Side:
    """The replaced nodes and those beside them, in layers."""
    chosen = list(marked[:MOST_NODES])
    inside = set(chosen)
    beside = [each for name in chosen for each in nodes[name]["inputs"] if each in nodes]
    beside += [name for name, node in nodes.items() if not inside.isdisjoint(node["inputs"])]
    room = max(0, MOST_NODES - len(chosen))
    wanted = {*chosen, *list(dict.fromkeys(each for each in beside if each not in inside))[:room]}
    order = _sorted(nodes, wanted)
    lines = tuple((each, name) for name in order for each in dict.fromkeys(nodes[name]["inputs"]) if each in wanted)
    boxes = tuple(
        Box(name, nodes[name]["op"], nodes[name]["module"], nodes[name]["value"], drawing.states.get(name, KEPT), *at)
        for name, at in _laid(order, lines).items()
    )  # fmt: skip
    return Side(boxes, lines, len({*marked, *beside}) - len(wanted))


def _sorted(nodes: Mapping[str, Mapping[str, Any]], wanted: Iterable[str]) -> list[str]:
    """Names so that what is read comes before who reads it; what a stranger's file closes to a circle stays put."""
    left, done = list(wanted), list[str]()
    while left:
        ready = [name for name in left if not any(each in left and each != name for each in nodes[name]["inputs"])]
        ready = ready or left[:1]
        done += ready
        left = [name for name in left if name not in ready]
    return done


def _laid(order: Sequence[str], lines: Sequence[tuple[str, str]]) -> dict[str, tuple[float, float]]:
    """Row and column of each: rows by the longest way from what comes in, columns near those above."""
    rows: dict[str, int] = {}
    above: dict[str, list[str]] = {name: [] for name in order}
    for one, other in lines:
        above[other].append(one)
    for name in order:
        rows[name] = max((rows[each] + 1 for each in above[name] if each in rows), default=0)
    below: dict[str, list[str]] = {name: [] for name in order}
    for one, other in lines:
        below[one].append(other)
    for name in order:  # what only comes in stands right above the first that reads it
        if not above[name] and below[name]:
            rows[name] = max(0, min(rows[each] for each in below[name]) - 1)
    columns: dict[str, float] = {}
    lines_down: dict[str, int] = {}
    down = 0
    for row in sorted(set(rows.values())):
        mine = [name for name in order if rows[name] == row]
        wish = {name: _mean([columns[each] for each in above[name] if each in columns]) for name in mine}
        mine.sort(key=lambda name: wish[name])
        for first in range(0, len(mine), MOST_BESIDE):  # a row that is too wide becomes several
            part = mine[first : first + MOST_BESIDE]
            columns.update({name: place - (len(part) - 1) / 2 for place, name in enumerate(part)})
            lines_down.update(dict.fromkeys(part, down))
            down += 1
    return {name: (float(lines_down[name]), columns[name]) for name in order}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


#: The side of a recording that is not rewritten.
ORIGINAL = "original"


def recorded_as(subject: str, side: str) -> str:
    """The label of a recording of a subject: its directory's name, and what was recorded."""
    return f"{PurePath(subject).name} {side}"
