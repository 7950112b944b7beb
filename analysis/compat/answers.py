"""What becomes of each operator of a program on an NPU, and what to do where it would run on the host.

The dispatcher's own order is followed. A kernel of torch_npu's comes first. Without one, what torch makes of other
operators is followed to those, as they were seen to call each other. What is left runs on the host: torch_npu copies
its tensors there, warns once, and copies the result back.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

from npulens.analysis.compat.registry import ABSENT, KERNELS, Registry, Release, registry

#: How an operator ends, worst first.
STATUSES = ("absent", "fails", "host", "part_on_host", "unknown", "sometimes", "composite", "kernel")
#: Those that need nothing done.
FINE = ("composite", "kernel")
#: Ways that only another device has: what was seen to be called on a CPU or a GPU is not what an NPU would call.
_ELSEWHERE = re.compile(r"_for_cpu|_for_mps|mkldnn|onednn|cudnn|miopen|_mps$|mps_|xpu|_cuda|fbgemm|xnnpack")
_OUT = re.compile(r"(^|_)out\d?$|^grad_input$|^output$")


@dataclass(frozen=True)
class Seen:
    """An operator as it was seen: ``aten::add.Tensor``, or ``aten::add`` where only the name was recorded."""

    name: str
    calls: int  # that no other operator made
    dtypes: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # what it was seen to call
    where: str | None = None


@dataclass(frozen=True)
class Answer:
    """What becomes of one operator."""

    name: str
    calls: int
    dtypes: tuple[str, ...]
    where: str | None
    status: str  # one of STATUSES
    why: str | None  # of an unknown: library, unseen, elsewhere, overload, other_torch
    through: tuple[str, ...]  # the operators it is made of that decide: on the host, not told, or all of them
    later: str | None  # the next release in which it runs on the NPU, or is there at all
    earlier: str | None  # the last one before in which it did
    forms: tuple[str, ...]  # overloads of the same name with a kernel
    instead: tuple[str, ...]  # operators of torch_npu's own that compute the same


@dataclass(frozen=True)
class Compatibility:
    """A program and a release."""

    release: Release
    exact: bool  # whether overloads were recorded
    answers: tuple[Answer, ...]

    def count(self, status: str) -> int:
        """How many operators end so."""
        return sum(answer.status == status for answer in self.answers)

    def calls(self, status: str) -> int:
        """How many calls do."""
        return sum(answer.calls for answer in self.answers if answer.status == status)


@dataclass
class _Ends:
    """Where following an operator to those it is made of has led."""

    kernel: set[str] = field(default_factory=set)
    sometimes: set[str] = field(default_factory=set)
    host: set[str] = field(default_factory=set)
    fails: set[str] = field(default_factory=set)
    unknown: dict[str, str] = field(default_factory=dict)  # with the reason


@dataclass(frozen=True)
class _Judge:
    registry: Registry
    at: int
    seen: Mapping[str, Seen]
    exact: bool

    def letter(self, name: str) -> str:
        """The state of ``aten::x.y`` in this release; ``?`` for overloads of which some have a kernel, some nothing."""
        short = name.partition("::")[2]
        if self.exact or "." in short:
            return self.registry.word(short)[self.at]
        every = self.registry.overloads.get(short, ())
        plain = [each for each in every if not _OUT.search(each.partition(".")[2])] or every
        letters = {self.registry.word(each)[self.at] for each in plain} - {ABSENT}
        if not letters:
            return ABSENT
        if letters & {"f", "n"}:
            return letters.pop() if len(letters) == 1 else "?"
        return next(letter for letter in "kwmide" if letter in letters)

    def follow(self, name: str, ends: _Ends, above: frozenset[str]) -> None:
        """Adds where an operator leads."""
        space = name.partition("::")[0]
        if space not in ("aten", "npu"):
            ends.unknown[name] = "library"
            return
        letter = self.letter(name)
        if letter == "k":
            ends.kernel.add(name)
        elif letter == "w":
            ends.sometimes.add(name)
        elif _ELSEWHERE.search(name):
            ends.unknown[name] = "elsewhere"
        elif letter == "f":
            ends.host.add(name)
        elif letter == "n" and self.exact and len(above) == 1:  # the program itself asks for it
            ends.fails.add(name)
        elif letter == "n":
            ends.unknown[name] = "elsewhere"
        elif letter == ABSENT:
            ends.unknown[name] = "other_torch"
        elif letter == "?":
            ends.unknown[name] = "overload"
        elif letter == "m":
            ends.unknown[name] = "unseen"
        else:
            self._parts(name, letter, ends, above)

    def _parts(self, name: str, letter: str, ends: _Ends, above: frozenset[str]) -> None:
        lead = self.registry.leads.get(name.partition("::")[2])
        seen = self.seen.get(name)
        if lead is not None and (letter == "d" or seen is None):
            parts: tuple[str, ...] = (f"aten::{lead}",)
        elif seen is None:
            ends.unknown[name] = "unseen"
            return
        else:
            parts = seen.parts
        for part in parts:
            if part not in above:
                self.follow(part, ends, above | {part})

    def ending(self, name: str) -> tuple[str, str | None, tuple[str, ...]]:
        """Status, reason and the operators that decide."""
        ends = _Ends()
        self.follow(name, ends, frozenset({name}))
        return self._status(name, ends)

    def answer(self, seen: Seen) -> Answer:
        """What becomes of an operator that a program calls."""
        status, why, through = self.ending(seen.name)
        shorts = [each.partition("::")[2] for each in (seen.name, *through)]
        done = status in FINE
        return Answer(
            seen.name, seen.calls, seen.dtypes, seen.where, status, why, through,
            None if done else self._release(seen.name, status, range(self.at + 1, len(self.registry.releases))),
            None if done else self._release(seen.name, status, range(self.at - 1, -1, -1)),
            self.registry.forms(shorts[0], self.at) if status in ("host", "fails") and self.exact else (),
            () if done else self._instead(shorts),
        )  # fmt: skip

    def _release(self, name: str, status: str, places: Iterable[int]) -> str | None:
        """The first of these releases in which it is well, or in which it is there at all."""
        for at in places:
            other = _Judge(self.registry, at, self.seen, self.exact).ending(name)[0]
            if other in FINE or (status == "absent" and other != "absent"):
                return self.registry.releases[at].torch_npu
        return None

    def _status(self, name: str, ends: _Ends) -> tuple[str, str | None, tuple[str, ...]]:
        if name in ends.unknown and ends.unknown[name] == "other_torch":
            return "absent", None, ()
        if name in ends.fails:
            return "fails", None, ()
        if name in ends.host:
            return "host", None, ()
        if ends.host:
            return "part_on_host", None, tuple(sorted(ends.host))
        if ends.unknown:
            told = tuple(sorted(each for each in ends.unknown if each != name))
            return "unknown", ends.unknown.get(name) or ends.unknown[told[0]], told
        if ends.sometimes:
            return "sometimes", None, tuple(sorted(ends.sometimes - {name}))
        if ends.kernel == {name}:
            return "kernel", None, ()
        return "composite", None, tuple(sorted(ends.kernel))

    def _instead(self, shorts: Iterable[str]) -> tuple[str, ...]:
        """What torch_npu has for the same, where this release has it."""
        found: dict[str, None] = {}
        for short in shorts:
            for own in _alternatives().get(short.partition(".")[0], ()):
                if any(self.registry.word(each)[self.at] in KERNELS for each in self.registry.overloads.get(own, ())):
                    found[own] = None
        return tuple(found)


@cache
def _alternatives() -> dict[str, tuple[str, ...]]:
    told = tomllib.loads((files("npulens.analysis.compat") / "alternatives.toml").read_text("utf-8"))
    return {name: tuple(each) for name, each in told["instead"].items()}


def compatibility(seen: Iterable[Seen], release: str, exact: bool) -> Compatibility:
    """What becomes of every operator that was called by nobody but the program itself; the worst first."""
    every = {each.name: each for each in seen}
    found = registry()
    judge = _Judge(found, found.place(release), every, exact)
    answers = [judge.answer(each) for each in every.values() if each.calls]
    answers.sort(key=lambda answer: (STATUSES.index(answer.status), -answer.calls, answer.name))
    return Compatibility(found.releases[judge.at], exact, tuple(answers))
