"""What a checker of memory accesses says, whoever it is: an access that is wrong, and where it stands in the source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: outside: beyond the memory of the tensor; beyond_view: within it, and beyond the part that was passed;
#: unaligned: at an address that is no multiple of the element; hint: the code promises a multiple that is none;
#: null: no address at all; other: what only a device's own tool knows.
KINDS = ("outside", "beyond_view", "unaligned", "hint", "null", "other")


@dataclass(frozen=True)
class Finding:
    """One place in the source whose accesses are wrong; what was not told is None."""

    kind: str
    access: str | None  # load, store, atomic
    kernel: str
    file: str | None
    line: int | None
    source: str | None = None
    called_from: tuple[str, ...] = ()  # file:line of the callers within the kernel, then of the launch
    tensor: str | None = None
    tensor_bytes: int | None = None
    element_bytes: int | None = None
    lanes: int | None = None  # how many accesses, over all programs
    programs: int | None = None
    program: tuple[int, ...] | None = None  # of the first
    lane: tuple[int, ...] | None = None
    offset_bytes: int | None = None  # from where the tensor begins; of the first
    lowest_bytes: int | None = None
    highest_bytes: int | None = None
    text: str | None = None  # the tool's own words

    def as_dict(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class Launch:
    """One launch that was looked at."""

    kernel: str
    grid: tuple[int, ...]
    file: str
    line: int


@dataclass(frozen=True)
class Report:
    """Everything that was checked, and what was found."""

    findings: tuple[Finding, ...]
    launches: tuple[Launch, ...] = ()
    accesses: int = 0  # lanes that read or wrote
    unknown: int = 0  # of them to memory of which nothing is known
    how: str = "interpreter"
    notes: tuple[str, ...] = field(default=())

    def as_dict(self) -> dict[str, Any]:
        told = dict(vars(self))
        told["findings"] = [each.as_dict() for each in self.findings]
        told["launches"] = [dict(vars(each)) for each in self.launches]
        return told
