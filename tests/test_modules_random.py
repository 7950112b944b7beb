"""Modules of runs at random beside the rules of docs/modules.md, written down once more, one span after the other."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from npulens.analysis.modules.measure import Modules, modules
from tests.tablecase import connection

Span = dict[str, Any]
_THREADS = {"main": ("call", "call", "plain"), "autograd": ("call", "call", "plain", "gradient", "engine")}


class Made:
    """Nested calls and operators on two threads, gradients with arrows, numbers or neither, and their kernels."""

    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self.spans: dict[int, Span] = {}
        self.above: dict[int, int | None] = {}
        self._grow("main", 0, 400, None)
        self._grow("autograd", 500, 1000, None)
        self.plain = [each for each in self.spans.values() if each["what"] == "plain"]
        self.gradients = [each for each in self.spans.values() if each["what"] == "gradient"]
        forward = [each["id"] for each in self.plain if each["track"] == "main"]
        for span in self.spans.values():
            if span["what"] in ("gradient", "engine") and forward and self._dice.random() < 0.4:
                span["by"], span["route"] = self._dice.choice(forward), "fwdbwd"
        self.kernels = [
            {"id": 1000 + n, "kind": "kernel", "name": "k", "at": 2000 + 10 * n, "for": self._dice.randint(0, 9),
             "kernel": {}, "by": span["id"]} for n, span in enumerate(self.plain)
        ]  # fmt: skip

    def _grow(self, track: str, begin: int, end: int, above: int | None) -> None:
        at = begin
        while end - at > 4 and self._dice.random() < 0.9:
            first = at + self._dice.randint(0, 2)
            last = self._dice.randint(first + 2, end)
            number = len(self.spans) + 1
            self.spans[number] = {"id": number, "at": first, "for": last - first, "track": track, **self._one(track)}
            self.above[number] = above
            self._grow(track, first + 1, last - 1, number)
            at = last + 1

    def _one(self, track: str) -> Span:
        what = self._dice.choice(_THREADS[track])
        if what == "call":
            name = f"nn.Module: {self._dice.choice('ABC')}_{self._dice.randint(0, 1)}"
            return {"what": what, "kind": "python", "name": name}
        names = {"plain": "aten::x", "gradient": "XBackward0", "engine": "autograd::engine::evaluate_function: X"}
        told = {"sequence": self._dice.randint(0, 12), "fwd_thread": int(what == "gradient")}
        numbered = what == "gradient" or (what == "plain" and self._dice.random() < 0.5)
        return {"what": what, "kind": "cpu_op", "name": names[what], **({"host_op": told} if numbered else {})}

    def case(self) -> list[Span]:
        rows = [*self.spans.values(), *self.kernels]
        return [{name: value for name, value in row.items() if name != "what"} for row in rows]

    def marks(self, span: int | None) -> list[int]:
        """Calls and gradients around a span, itself first."""
        found = []
        while span is not None:
            found += [span] if self.spans[span]["what"] != "plain" else []
            span = self.above[span]
        return found

    def tied(self) -> dict[int, int]:
        """The forward operator of each gradient."""
        arrows = {span["id"]: span["by"] for span in self.spans.values() if "by" in span}
        by_number = {span["host_op"]["sequence"]: arrows[span["id"]] for span in self.gradients if span["id"] in arrows}
        found = dict(arrows)
        for span in self.gradients:
            number = span["host_op"]["sequence"]
            source = arrows.get(span["id"], by_number.get(number, self._numbered(number, span["at"])))
            if source is not None:
                found[span["id"]] = source
        for span in self.gradients:  # the engine's own span has what the last gradient within it has
            for outer in self.marks(self.above[span["id"]])[:1]:
                if span["id"] in found and self.spans[outer]["what"] == "engine" and outer not in arrows:
                    found[outer] = found[span["id"]]
        return found

    def _numbered(self, number: int, before: int) -> int | None:
        """The last operator of a number, unless two threads used it."""
        same = [each for each in self.plain if each.get("host_op", {}).get("sequence") == number]
        if len({each["track"] for each in same}) != 1:
            return None
        last = max(same, key=lambda each: (each["at"], each["id"]))
        return int(last["id"]) if last["at"] <= before else None

    def wanted(self) -> Counter[str]:
        """Device time by where it belongs."""
        tied, found = self.tied(), Counter[str]()
        for kernel in self.kernels:
            found[self._place(self.marks(kernel["by"]), tied)] += kernel["for"] * 1000
        return found

    def _place(self, around: list[int], tied: dict[int, int]) -> str:
        if not around:
            return "outside"
        whats = [self.spans[each]["what"] for each in around]
        if whats[0] == "call":
            return "forward" if set(whats) == {"call"} else "again"
        if around[0] not in tied:
            return "not_tied"
        above = self.marks(tied[around[0]])
        if not above:
            return "outside, backward"
        return "backward" if self.spans[above[0]]["what"] == "call" else "not_tied"


def told(found: Modules) -> dict[str, int]:
    """The same of what was measured."""
    places = ("module", "outside", "not_tied")
    placed = {place: [one.own for one in found.rows if one.place == place] for place in places}
    return {
        "forward": sum(own.forward_ns for own in placed["module"]),
        "backward": sum(own.backward_ns for own in placed["module"]),
        "again": sum(own.recompute_ns for own in placed["module"]),
        "outside": sum(own.forward_ns for own in placed["outside"]),
        "outside, backward": sum(own.backward_ns for own in placed["outside"]),
        "not_tied": sum(own.device_ns for own in placed["not_tied"]),
    }


@pytest.mark.parametrize("seed", range(20))
def test_every_kernel_is_where_the_rules_say(seed: int) -> None:
    made = Made(seed)
    always = {"id": 900, "kind": "python", "name": "nn.Module: Last_0", "at": 450, "for": 5}
    found = modules(connection({"spans": [*made.case(), always]}))
    wanted = made.wanted()
    assert found.source is not None and told(found) == {name: wanted[name] for name in told(found)}
