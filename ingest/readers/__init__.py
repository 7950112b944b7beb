"""Formats, a folder a family. A file called read_<format>.py in one of them is a reader, and is found by that name.

A reader says which files are its own (`sniff`, cheap) and turns them into a draft of the
contract tables (`read`). It knows a format and has no opinions.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol, cast

from npulens.ingest.tables.draft import Draft

_READS = "read_"


@dataclass(frozen=True)
class Facts:
    """What can be told about a rank before its files are parsed."""

    rank: int | None = None
    rank_source: str | None = None
    world_size: int | None = None
    groups: tuple[str, ...] = ()
    begin_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True)
class Claim:
    """One format's files of one rank, or of several devices that share them, each with its facts."""

    format: str
    root: Path
    files: tuple[Path, ...]
    facts: Facts = Facts()
    shared: tuple[tuple[int, Facts], ...] = ()
    device: int | None = None

    @property
    def beside(self) -> tuple[int, ...]:
        """The devices that share the files."""
        return tuple(device for device, _ in self.shared)

    def with_files(self, other: Claim) -> Claim:
        """The claim with what another of the same rank and format found: files named one by one are one capture."""
        return replace(self, files=tuple(sorted({*self.files, *other.files})))

    def of(self, device: int) -> Claim:
        """The claim for one of the devices; a file that tells none apart cannot say whose rank it names."""
        of_all = replace(self.facts, rank=None, rank_source=None)
        return replace(self, device=device, facts=dict(self.shared).get(device, of_all))


class Reader(Protocol):
    """What a module of this package offers."""

    TITLE: str

    def sniff(self, path: Path) -> Claim | tuple[Claim, ...] | None: ...  # several: one file speaks of several ranks

    def read(self, claim: Claim, draft: Draft) -> None: ...


@cache
def readers() -> Mapping[str, Reader]:
    """Every reader by name; one that does not keep the protocol stops the program with its name."""
    found: dict[str, Reader] = {}
    families = [module.name for module in pkgutil.iter_modules(__path__) if module.ispkg]
    for family in families:
        for module in pkgutil.iter_modules([str(Path(__file__).with_name(family))]):
            if not module.name.startswith(_READS):
                continue
            reader = importlib.import_module(f"{__name__}.{family}.{module.name}")
            for wanted in ("TITLE", "sniff", "read"):
                if not hasattr(reader, wanted):
                    raise TypeError(f"{reader.__file__}: a reader needs {wanted}")
            found[module.name.removeprefix(_READS)] = cast(Reader, reader)
    return dict(sorted(found.items()))
