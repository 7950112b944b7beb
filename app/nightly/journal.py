"""What was done in a night, a line a fact, so that a killed night goes on where it stopped.

A line is on the disk before the next step begins. The last line of a night that died may be half a line. It is left
out, counted, and its step is done again.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

NAME = "journal.jsonl"


@dataclass
class Journal:
    """The facts of one night, in the order they became known."""

    path: Path
    facts: list[dict[str, Any]] = field(default_factory=list)
    torn: int = 0
    whole_bytes: int | None = None  # where the half line at its end begins

    def add(self, fact: dict[str, Any], safe: bool = True) -> None:
        """Writes a fact down, ``safe`` from a loss of power too. OSError where the disk has no room for all of it."""
        line = (json.dumps(fact, ensure_ascii=False) + "\n").encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            before = os.fstat(handle).st_size
            try:
                written = os.write(handle, line)
                if written < len(line):  # the disk took a part: the rest says why
                    os.write(handle, line[written:])
                if safe:
                    os.fsync(handle)
            except OSError:
                os.ftruncate(handle, before)
                raise
        finally:
            os.close(handle)
        self.facts.append(fact)

    def of(self, what: str) -> list[dict[str, Any]]:
        """The facts of one kind."""
        return [fact for fact in self.facts if fact.get("what") == what]

    def done(self) -> dict[str, dict[str, Any]]:
        """The last result of every step that has one."""
        return {str(fact["step"]): fact for fact in self.of("step")}

    def interrupted(self) -> list[str]:
        """Steps that were begun and have no result: the night died in them."""
        done = self.done()
        begun = dict.fromkeys(str(fact["step"]) for fact in self.of("begin"))
        return [step for step in begun if step not in done]


class Moment(msgspec.Struct, frozen=True):
    """Of a fact only what it is and when: all that is asked of the nights before, which are many."""

    what: str
    at_ns: int | None = None
    clock_ns: int = 0


_MOMENT = msgspec.json.Decoder(Moment)


def opened(folder: Path) -> Journal:
    """The journal of a night to go on with: half a line at its end is cut off. Only for who holds the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    journal = read(folder)
    if journal.whole_bytes is not None:
        os.truncate(journal.path, journal.whole_bytes)
    return journal


def read(folder: Path) -> Journal:
    """The journal of a night, with what a night before this process wrote into it."""
    journal = Journal(folder / NAME)
    if not journal.path.is_file():
        return journal
    raw = journal.path.read_bytes()
    whole = _whole(raw)
    journal.torn = int(len(whole) < len(raw))
    journal.whole_bytes = len(whole) if journal.torn else None
    for line in whole.splitlines():
        try:
            fact = json.loads(line)
        except ValueError:
            fact = None
        if isinstance(fact, dict) and "what" in fact:
            journal.facts.append(fact)
        else:
            journal.torn += 1
    return journal


def moments(folder: Path) -> list[Moment]:
    """The facts of one night at a glance, without what was measured; what ``read`` leaves out is left out."""
    path, found = folder / NAME, list[Moment]()
    for line in _whole(path.read_bytes()).splitlines() if path.is_file() else ():
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            found.append(_MOMENT.decode(line))
    return found


def _whole(raw: bytes) -> bytes:
    """Without half a line at the end."""
    return raw[: raw.rfind(b"\n") + 1]
