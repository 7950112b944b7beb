"""An answer within a budget of tokens: what is worth most goes in first, whole, and what stays out is counted.

How many tokens a text is depends on the model that reads it. The count here is meant to be no less than any needs.
Some read digits one by one, and names in short pieces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

#: An answer may not be asked to be smaller: its head would not fit.
LEAST = 300
DEFAULT = 1_500
MOST = 100_000
#: Characters that one token holds at least, of a word and of neighbouring marks.
_LETTERS, _MARKS = 4, 2
_PARTS = re.compile(r"([A-Za-z]+)|([!-/:-@\[-`{-~]+)|([^ ])")


@dataclass(frozen=True)
class Piece:
    """One entry of a list of the answer. ``worth``: larger ones go in first; of equal ones the earlier."""

    place: str
    value: Any
    worth: float


def compact(value: object) -> str:
    """JSON as it is sent: without spaces that say nothing."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def tokens(text: str) -> int:
    """No fewer than a model reads it as. What is beyond ASCII may be read in two parts."""
    count = 0
    for word, marks, one in _PARTS.findall(text):
        count += -(-len(word) // _LETTERS) - (-len(marks) // _MARKS) + (len(one) if one.isascii() else 2)
    return count


def fitted(head: Mapping[str, Any], pieces: Sequence[Piece], budget: int) -> dict[str, Any]:
    """The head with the pieces that fit. The list of a place ends where its first piece does not fit.

    ``left_out`` says how many of each list are missing, and which budget would hold all of them.
    """
    places = list(dict.fromkeys(piece.place for piece in pieces))
    whole = _put(head, pieces, places)
    needed = tokens(compact(whole))
    if needed <= budget:
        return whole
    room = budget - tokens(compact(_left_out(_put(head, (), places), pieces, needed)))
    chosen: set[int] = set()
    ended: set[str] = set()
    for number in sorted(range(len(pieces)), key=lambda number: -pieces[number].worth):
        piece = pieces[number]
        cost = tokens(compact(piece.value)) + 1
        if piece.place in ended or cost > room:
            ended.add(piece.place)
            continue
        chosen.add(number)
        room -= cost
    kept = [piece for number, piece in enumerate(pieces) if number in chosen]
    out = [piece for number, piece in enumerate(pieces) if number not in chosen]
    return _left_out(_put(head, kept, places), out, needed)


def _put(head: Mapping[str, Any], pieces: Iterable[Piece], places: Iterable[str]) -> dict[str, Any]:
    answer: dict[str, Any] = {**head, **{place: [] for place in places}}
    for piece in pieces:
        answer[piece.place].append(piece.value)
    return answer


def _left_out(answer: dict[str, Any], out: Sequence[Piece], needed: int) -> dict[str, Any]:
    counts: dict[str, int] = {}
    for piece in out:
        counts[piece.place] = counts.get(piece.place, 0) + 1
    return {**answer, "left_out": {"counts": counts, "budget_for_all": needed}}
