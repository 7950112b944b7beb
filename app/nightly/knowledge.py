"""Which changes were told already: each is news once, and dated as it was told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Literal

import msgspec

from npulens.app.nightly import place
from npulens.app.nightly.night import Night

NAME = "known.json"


class Told(msgspec.Struct, frozen=True):
    """A change of a series, and the night that said so."""

    identity: str
    metric: str
    at_ns: int  # of the first night of the new level; of the night that said so, where pairs did
    more: bool
    night: str
    by: Literal["pairs", "history"]
    sure: bool = True  # what is likely is told again until it is sure


@dataclass(frozen=True)
class Known:
    """Everything that was told before tonight."""

    changes: tuple[Told, ...]

    def told(self, identity: str, metric: str, near: Sequence[int], more: bool) -> bool:
        """Whether a change in this direction was told for one of these moments: a date moves as nights are added."""
        return any(each.sure for each in self._near(identity, metric, near, more))

    def doubted(self, identity: str, metric: str, near: Sequence[int], more: bool) -> bool:
        """Whether it was told as likely."""
        return any(not each.sure for each in self._near(identity, metric, near, more))

    def _near(self, identity: str, metric: str, near: Sequence[int], more: bool) -> list[Told]:
        return [
            each for each in self.changes
            if (each.identity, each.metric, each.more) == (identity, metric, more) and each.at_ns in near
        ]  # fmt: skip

    def streak(self, identity: str, metric: str, more: bool, moments: Sequence[int]) -> int | None:
        """The first of the nights in a row, back from the last of ``moments``, whose pairs said the same."""
        said = {
            each.at_ns for each in self.changes
            if (each.identity, each.metric, each.more, each.by) == (identity, metric, more, "pairs")
        }  # fmt: skip
        row = list(takewhile(lambda at_ns: at_ns in said, reversed(moments)))
        return row[-1] if row else None


def known(home: Path, tonight: str) -> Known:
    """What the nights before tonight told; a night that is made again tells its own anew."""
    try:
        every = msgspec.json.decode((home / NAME).read_bytes(), type=list[Told])
    except (OSError, msgspec.MsgspecError):
        every = []
    return Known(tuple(each for each in every if each.night != tonight))


def tell(home: Path, before: Known, night: Night) -> None:
    """Keeps what tonight tells: a change that pairs show is no news when the history shows it too."""
    told = list(before.changes)
    for row in night.rows:
        at_ns = night.at_ns if row.by == "pairs" else row.since_ns
        if at_ns is None or not (row.fresh or (row.by == "pairs" and row.verdict in ("regressed", "improved"))):
            continue
        sure, more = row.verdict != "likely", (row.ratio or 1.0) > 1
        if sure or not before.doubted(row.identity, row.metric, (at_ns,), more):
            told.append(Told(row.identity, row.metric, at_ns, more, night.label, row.by, sure))
    place.write(home / NAME, json.dumps([msgspec.to_builtins(each) for each in told], indent=1))
