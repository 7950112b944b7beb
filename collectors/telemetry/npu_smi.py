"""What ``npu-smi info`` prints, for every product that has a table of its own.

A device takes two rows. What their last cell holds stands in the header. The AI cards of the 310 family have no HBM.
910_93 prints a physical id and leaves the power of the second die out. Newer drivers add a column to the processes.
Layouts: the source of npu-smi, github.com/Ascend/driver, npu_smi print functions, and its manual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_BUS = re.compile(r"[0-9A-Fa-f]{4}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f]|NA")
_NAMED = re.compile(r"\S+\([^)]*\)")
_VALUE = re.compile(r"\d+\s*/\s*\d+|\S+")
#: What the tool says instead of a table.
_COMPLAINT = re.compile(
    r"fail|error|cannot|not support|no NPU card|not found|WARNING|denied|not on PATH", re.IGNORECASE
)


@dataclass(frozen=True)
class Chip:
    """One device; what its row does not tell is None."""

    npu: int
    chip: int
    name: str
    health: str
    physical: int | None = None
    bus: str | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    busy_percent: float | None = None
    memory_used_mb: int | None = None
    memory_total_mb: int | None = None


@dataclass(frozen=True)
class Process:
    """A process that holds a device, by the host's number and, where told, by the container's."""

    npu: int
    chip: int
    pid: int
    name: str
    memory_mb: int | None
    pid_in_container: int | None = None


@dataclass(frozen=True)
class Info:
    """The whole answer of ``npu-smi info``."""

    tool: str | None
    driver: str | None
    chips: tuple[Chip, ...]
    processes: tuple[Process, ...]
    complaints: tuple[str, ...]


def info(text: str) -> Info:
    """Reads the table; rows that were cut off are left out and complained about."""
    title = re.search(r"npu-smi\s+(\S+)\s+Version:\s*(\S+)", text)
    complaints = [line.strip() for line in text.splitlines() if not _row(line) and _COMPLAINT.search(line)]
    chips: list[Chip | None] = []
    processes: list[Process | None] = []
    header: list[str] = []
    names: list[list[str]] = []  # what the last cells of a device's two rows hold; none: processes
    upper: list[str] | None = None
    for cells in filter(None, map(_row, text.splitlines())):
        if cells[-1].startswith(("Power", "AICore", "NPU Util")):
            names, header = [*names, _NAMED.findall(cells[-1])], cells
        elif "Process id" in cells:
            names, header = [], cells
        elif len(cells) != len(header) or len(cells) < 3:
            continue  # a line of its own, or one that was cut at a bar
        elif not names:
            processes.append(_process(cells))
        elif upper is not None and _BUS.fullmatch(cells[-2]):
            chips.append(_chip(upper, cells, names))
            upper = None
        else:
            upper = cells
    if upper is not None or re.search(r"\n\|[^\n]*[^|\s]\s*\Z", text):
        complaints.append("the table is cut off")
    tool, driver = (title[1], title[2]) if title else (None, None)
    return Info(tool, driver, tuple(filter(None, chips)), tuple(filter(None, processes)), tuple(complaints))


def _row(line: str) -> list[str] | None:
    """The cells of a row that is whole."""
    line = line.strip()
    if len(line) < 2 or line[0] != "|" or line[-1] != "|":
        return None
    return [cell.strip() for cell in line[1:-1].split("|")]


def _chip(upper: list[str], lower: list[str], names: list[list[str]]) -> Chip | None:
    npu, _, name = " ".join(upper[:-2]).partition(" ")
    chip, _, physical = " ".join(lower[:-2]).strip().partition(" ")
    card, number = _whole(npu), _whole(chip or "0")
    if card is None or number is None or len(names) < 2:
        return None
    told = {**_told(upper[-1], names[0]), **_told(lower[-1], names[1])}
    pools = [_pair(told.get("HBM-Usage(MB)")), _pair(told.get("Memory-Usage(MB)"))]
    used, total = next((pool for pool in pools if pool[1]), (None, None))
    return Chip(
        card, number, name.strip(), upper[-2], _whole(physical.strip()), None if lower[-2] == "NA" else lower[-2],
        _number(told.get("Power(W)")), _number(told.get("Temp(C)")),
        _number(told.get("AICore(%)", told.get("Util(%)"))), used, total,
    )  # fmt: skip


def _process(cells: list[str]) -> Process | None:
    npu, _, chip = cells[0].partition(" ")
    card, number, pid = _whole(npu), _whole(chip.strip() or "0"), _whole(cells[1])
    if card is None or number is None or pid is None or len(cells) < 4:
        return None
    return Process(card, number, pid, cells[2], _whole(cells[3]), _whole(cells[4]) if len(cells) > 4 else None)


def _told(cell: str, names: list[str]) -> dict[str, str]:
    return dict(zip(names, _VALUE.findall(cell)))


def _pair(text: str | None) -> tuple[int | None, int | None]:
    found = re.fullmatch(r"([0-9]+)\s*/\s*([0-9]+)", text or "")
    return (int(found[1]), int(found[2])) if found else (None, None)


def _whole(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]+", text) else None


def _number(text: str | None) -> float | None:
    """None for what a device does not tell: NA and -."""
    return float(text) if text and re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", text) else None


def chips(text: str) -> dict[int, dict[str, str]]:
    """``-t common``, ``-t usages``, ``-t board``: key and value for every chip of a card.

    The number of a chip stands before its values or after them; a controller beside the chips has none.
    """
    blocks = list(_blocks(text))
    numbered = {number: block for block in blocks if (number := _whole(block.get("Chip ID", ""))) is not None}
    if numbered:
        return numbered
    only: dict[str, str] = {}
    for block in blocks:
        if block.get("Chip Name", "").lower() != "mcu":
            only.update(block)
    return {0: only} if only else {}


def _blocks(text: str) -> Iterator[dict[str, str]]:
    """Runs of lines between blank ones; a key that comes again begins another run."""
    block: dict[str, str] = {}
    for line in [*text.splitlines(), ""]:
        key, colon, value = (part.strip() for part in line.replace("\uff1a", ":").partition(" :"))
        if not colon and line.strip():
            continue
        if block and (not colon or key in block):
            yield block
            block = {}
        if colon:
            block[key] = value
    if block:
        yield block


def value(block: dict[str, str], *keys: str) -> float | None:
    """The first of the keys that is there with a number."""
    return next((found for key in keys if (found := _number(block.get(key))) is not None), None)


def logical(text: str) -> dict[int, tuple[int, int]]:
    """``npu-smi info -m``: the number that CANN uses -> card and chip, as the other commands want them."""
    found: dict[int, tuple[int, int]] = {}
    for line in text.splitlines():
        row = re.match(r"\s*([0-9]+)\s+([0-9]+)\s+([0-9]+)\s+\S", line)
        if row:
            found[int(row[3])] = int(row[1]), int(row[2])
    return found


@dataclass(frozen=True)
class Neighbours:
    """How one device reaches the others, and the cores that are near to it."""

    links: dict[str, str]
    cores: str | None


def topology(text: str) -> dict[str, Neighbours]:
    """``npu-smi info -t topo``; a row that was cut off is left out."""
    found: dict[str, Neighbours] = {}
    header: list[str] = []
    for line in text.splitlines():
        cells = line.split()
        if len(cells) > 1 and cells[-2:] == ["CPU", "Affinity"]:
            header = cells[:-2]
        elif cells and cells[0] in header and len(cells) > len(header):
            links = {name: link for name, link in zip(header, cells[1:]) if name != cells[0]}
            found[cells[0]] = Neighbours(links, cells[len(header) + 1] if len(cells) > len(header) + 1 else None)
    return found
