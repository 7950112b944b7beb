"""What the wheels of torch_npu and torch register, release by release: npu_operators.toml read.

The file is written by ``python -m tests.lab.registry`` from the wheels themselves. It says what is registered for dense
tensors. It says nothing of types, shapes and chips: a kernel may still refuse a call.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

#: A letter a release and overload. What each means stands at the head of the file.
ABSENT = "."
KERNELS = frozenset("kw")

_RELEASE = re.compile(r"(?:torch[-_]npu)?[-=_ ]*v?(\d+(?:\.\d+)+(?:\.post\d+)?)", re.IGNORECASE)


class UnknownRelease(ValueError):
    """A release that the file does not have."""

    def __init__(self, asked: str, near: str | None) -> None:
        super().__init__(asked)
        self.asked = asked
        self.near = near  # the newest one for the same torch


@dataclass(frozen=True)
class Release:
    """A release of torch_npu, the torch it goes with, and the two wheels that were read."""

    torch_npu: str
    torch: str
    forbids_host: bool  # whether TORCH_NPU_FALLBACK_CPU_DISABLE is known
    npu_wheel: str
    npu_sha256: str
    npu_packed: str
    torch_wheel: str
    torch_sha256: str
    torch_packed: str


@dataclass(frozen=True)
class Registry:
    """Every release, and a word of one letter a release for every overload."""

    releases: tuple[Release, ...]
    torch: Mapping[str, str]  # overloads of aten::
    own: Mapping[str, str]  # torch_npu's
    leads: Mapping[str, str]  # overloads that only call another one
    overloads: Mapping[str, tuple[str, ...]]  # of each name, torch's first

    def place(self, asked: str) -> int:
        """Which release somebody means by ``torch_npu-2.7.1``, ``torch_npu==2.7.1`` or ``2.7.1``."""
        found = _RELEASE.fullmatch(asked.strip())
        names = [release.torch_npu for release in self.releases]
        if found and found[1] in names:
            return names.index(found[1])
        torch = found[1].partition(".post")[0] if found else ""
        same = [release.torch_npu for release in self.releases if release.torch == torch]
        raise UnknownRelease(asked, same[-1] if same else None)

    def word(self, name: str) -> str:
        """The letters of an overload without its namespace; dots where no release has it."""
        return self.torch.get(name) or self.own.get(name) or ABSENT * len(self.releases)

    def forms(self, name: str, at: int) -> tuple[str, ...]:
        """The other overloads of the same operator that have a kernel in a release."""
        others = self.overloads.get(name.partition(".")[0], ())
        return tuple(each for each in others if each != name and self.word(each)[at] == "k")


@cache
def registry() -> Registry:
    """The file."""
    told = tomllib.loads((files("npulens.analysis.compat") / "npu_operators.toml").read_text("utf-8"))
    torch, own = _words(told["torch"]), _words(told["own"])
    overloads: dict[str, list[str]] = {}
    for name in (*torch, *own):
        overloads.setdefault(name.partition(".")[0], []).append(name)
    leads = dict(pair.split(">") for pair in told["leads"]["pairs"].split())
    return Registry(
        tuple(Release(**release) for release in told["releases"]), torch, own, leads,
        {name: tuple(each) for name, each in overloads.items()},
    )  # fmt: skip


def _words(section: Mapping[str, str]) -> dict[str, str]:
    return {name: word for word, names in section.items() for name in names.split()}
