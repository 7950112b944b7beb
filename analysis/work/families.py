"""Which work a name stands for: what families.toml says of it, and the answer that a model gives."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from npulens.analysis.work.call import Call

FAMILIES_FILE = Path(__file__).with_name("families.toml")
#: Endings of CANN types and of torch's names that leave the work as it is, in the order in which they are tried.
_ENDINGS = (r"_$", r"V\d+$", r"D$", r"V\d+$")
_TRITON = re.compile(r"triton_(?:poi|red|per|tem|for)_")


@dataclass(frozen=True)
class Work:
    """What a call has to do at least; None is not known, `reason` says why."""

    family: str
    matrix: int | None  # operations of the matrix units
    vector: int | None  # operations of the other units
    bytes: int | None
    dtype: str | None = None  # in which the matrix units compute, as the tables of peaks call it
    reason: str | None = None

    @property
    def flops(self) -> int | None:
        return None if self.matrix is None or self.vector is None else self.matrix + self.vector


@dataclass(frozen=True)
class Spec:
    """What families.toml says of a name."""

    family: str
    model: str
    args: tuple[str, ...]
    options: Mapping[str, Any]

    @property
    def ops(self) -> int:
        return int(self.options.get("ops", 0))


Model = Callable[[Call, Spec], Work]


@cache
def specs() -> Mapping[str, Spec]:
    """Every name of the file."""
    found = {}
    for op in tomllib.loads(FAMILIES_FILE.read_text("utf-8"))["op"]:
        spec = Spec(op["family"], op["model"], tuple(op.get("args", "").split()), op)
        found.update({op.get("prefix", "") + name: spec for name in op["names"]})
    return found


@cache
def spec_of(name: str) -> Spec | None:
    """What is known of a name: of the whole of it, else without the endings that leave the work as it is."""
    known = specs()
    short = re.sub(r"^aclnn", "", name)
    for ending in (None, *_ENDINGS):
        short = short if ending is None else re.sub(ending, "", short)
        if short in known:
            return known[short]
    return Spec("fused", "once", (), {}) if _TRITON.match(name) else None
