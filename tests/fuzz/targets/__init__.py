"""One module = one target: `seeds()` gives files to start from, `check(data, scratch)` reads one and judges it.

`check` returns when the bytes were read or refused in a sentence (IngestError), and raises when anything else came of
them: an exception of another type, a broken promise (AssertionError). `mutate(data, draw)` is optional: a change that
keeps the format's grammar, beside the fuzzer's own changes of bytes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Protocol, cast


class Target(Protocol):
    """What a module of this package offers."""

    def seeds(self) -> Sequence[bytes]: ...

    def check(self, data: bytes, scratch: Path) -> None: ...

    def mutate(self, data: bytes, draw: Random) -> bytes: ...


def names() -> list[str]:
    """Every target."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def target(name: str) -> Target:
    return cast(Target, importlib.import_module(f"{__name__}.{name}"))
