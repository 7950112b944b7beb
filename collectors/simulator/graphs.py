"""Replayed graphs: what a script launches between two things that no graph can hold becomes one launch.

Operators, Python frames and allocations around such launches are gone with them, as in a replay. Copies, collectives
and whatever a fault added are no part of a graph: they end one, and the next begins behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from npulens.collectors.simulator.items import Allocate, Close, Item, Launch, Open, Release, Replay, Signal, Work

_WRAPPERS = ("cpu_op", "python", "annotation")


def graphed(items: Sequence[tuple[Item, str]]) -> list[tuple[Item, str]]:
    """The items of a step, each with its fault, with the launches gathered into graphs."""
    empty = _empty([item for item, _ in items])
    found: list[tuple[Item, str]] = []
    held: list[tuple[Launch, str]] = []
    for index, (item, fault) in enumerate(items):
        if isinstance(item, Launch) and _captured(item):
            held.append((item, fault))
        elif index not in empty and not _inside(item):
            found += _replay(held)
            held = []
            found.append((replace(item, key="", backward=False) if isinstance(item, Open) else item, fault))
    return [*found, *_replay(held)]


def _replay(held: list[tuple[Launch, str]]) -> Iterator[tuple[Replay, str]]:
    if held:
        yield Replay(tuple(held), place=held[0][0].place), ""


def _captured(launch: Launch) -> bool:
    """Whether a graph holds the launch: the script's own are, if nothing has to be compiled."""
    return launch.place >= 0 and not launch.compile_ns


def _inside(item: Item) -> bool:
    """What a graph does by itself: its memory, the order of its own streams, and the Python of its modules."""
    if item.place < 0:
        return False
    if isinstance(item, Work):
        return item.what == "python"
    return isinstance(item, Allocate | Release) or (isinstance(item, Signal) and item.source == "random")


def _empty(items: Sequence[Item]) -> set[int]:
    """Where the script's own frames and operators open and close that hold nothing but launches."""
    found: set[int] = set()
    opened: list[list[int]] = []  # of each open one: where it opened, and whether something else is inside
    for index, item in enumerate(items):
        if isinstance(item, Open):
            own = item.place >= 0 and item.what in _WRAPPERS and item.call is None
            opened.append([index, not own])
        elif isinstance(item, Close):
            start, kept = opened.pop()
            if not kept:
                found |= {start, index}
            elif opened:
                opened[-1][1] = True
        elif opened and not (_inside(item) or (isinstance(item, Launch) and _captured(item))):
            opened[-1][1] = True
    return found
