"""A PROF directory of msprof: its devices, whether it ended in order, and what its small files say.

It holds host/ and one device_N/ per device, each with raw data and small JSON files. The export lies in
mindstudio_profiler_output/, in old versions in device_N/timeline and device_N/summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from npulens.ingest.readers.ascend import small_json

NAME = re.compile(r"^PROF_\d+_\d+_[0-9A-Za-z]+$")
DEVICE = re.compile(r"^device_(\d{1,4})$")
EXPORT = "mindstudio_profiler_output"
#: Where versions before mindstudio_profiler_output put the export of a device.
OLD_EXPORT = ("timeline", "summary")
#: Of DeviceInfo in info.json: cores that hold the matrix unit, those that do not, and the clock of the first in MHz.
CHIP = ("ai_core_num", "aiv_num", "aic_frequency")
#: PROF directories of one folder that are looked at.
_SIBLINGS = 256
SMALL = re.compile(r"^(info\.json|start_info|end_info)(\.\d{1,4})?$")


@dataclass(frozen=True)
class About:
    """What the small files of one device say; clocks in ns."""

    host: str | None = None
    pid: int | None = None
    rank: int | None = None
    begin_unix: int | None = None
    begin_monotonic: int | None = None
    end_unix: int | None = None
    end_monotonic: int | None = None
    #: What info.json says of the device: how many cores it has, and their rated clock.
    chip: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True)
class Part:
    """One device of a PROF directory."""

    about: About
    device: int | None
    rank: int | None
    rank_source: str | None


def is_old_export(path: Path) -> bool:
    """Whether it is a device_N directory with the export of an old msprof."""
    return bool(DEVICE.match(path.name)) and any((path / name).is_dir() for name in OLD_EXPORT)


def find(root: Path, device: int | None) -> Part | None:
    """What is known of a device, or of the only one, of a PROF directory or an old export."""
    if is_old_export(root):
        prof, device = root.parent, int(root.name.removeprefix("device_"))
    elif NAME.match(root.name):
        prof, known = root, devices(root)
        device = known[0] if device is None and len(known) == 1 else device
    else:
        return None
    told = about(prof, device)
    return Part(told, device, *_rank(prof, device, told))


def clock(told: About) -> dict[str, int | None]:
    """The columns of the table clock that it fills."""
    return {
        "host_start_monotonic_ns": told.begin_monotonic,
        "collection_end_unix_ns": told.end_unix,
        "collection_end_monotonic_ns": told.end_monotonic,
    }


def _rank(prof: Path, device: int | None, told: About) -> tuple[int | None, str | None]:
    """RANK_ID of the job as info.json has it; without one, devices of one host side by side go by their numbers."""
    if device is None:
        return told.rank, "metadata" if told.rank is not None else None
    beside = [path for path in _children(prof.resolve().parent)[:_SIBLINGS] if NAME.match(path.name)]
    found = [(other, number) for other in beside for number in devices(other)][:_SIBLINGS]
    others = set(found) - {(prof.resolve(), device)}
    if told.rank is not None and told.rank not in {about(*other).rank for other in others}:
        return told.rank, "metadata"
    if any(number != device for _, number in others):
        return device, "device id"
    return None, None


def devices(prof: Path) -> tuple[int, ...]:
    """The devices that have a directory."""
    return tuple(sorted(int(found[1]) for path in _children(prof) if (found := DEVICE.match(path.name))))


def small_files(prof: Path) -> tuple[Path, ...]:
    """What `about` reads: to be hashed with the rest."""
    parts = [prof] if is_old_export(prof) else _parts(prof)
    return tuple(path for part in parts for path in _children(part) if SMALL.match(path.name) and path.is_file())


def about(prof: Path, device: int | None) -> About:
    """What the files of a device say, completed by those of the host."""
    places = [prof / "host"] if device is None else [prof / f"device_{device}", prof / "host"]
    info, start, end = (_told(places, stem) for stem in ("info.json", "start_info", "end_info"))
    rank = small_json.whole(info.get("rank_id"))
    return About(
        small_json.text(info.get("hostname")),
        small_json.whole(info.get("pid")),
        rank if rank is not None and 0 <= rank < 2**31 else None,
        _us(start.get("collectionTimeBegin")),
        small_json.whole(start.get("clockMonotonicRaw")),
        _us(end.get("collectionTimeEnd")),
        small_json.whole(end.get("clockMonotonicRaw")),
        _chip(info.get("DeviceInfo"), device),
    )


def _chip(told: object, device: int | None) -> dict[str, int | float]:
    """The positive numbers of `CHIP` that the entry of a device holds."""
    entries = [entry for entry in told[:_SIBLINGS] if isinstance(entry, dict)] if isinstance(told, list) else []
    entry = next((one for one in entries if small_json.whole(one.get("id")) == device), {})
    numbers = {name: small_json.number(entry.get(name)) for name in CHIP}
    return {name: value for name, value in numbers.items() if value is not None and 0 < value < 1e6}


def interrupted(prof: Path) -> bool:
    """Whether a part of it was started and never ended."""
    for part in _parts(prof):
        names = {path.name.partition(".")[0] for path in _children(part)}
        if "start_info" in names and "end_info" not in names:
            return True
    return False


def has_raw(prof: Path) -> bool:
    """Whether raw data lies here: without it there is nothing to export."""
    return any((part / "data").is_dir() or (part / "sqlite").is_dir() for part in _parts(prof))


def _parts(prof: Path) -> list[Path]:
    return [path for path in _children(prof) if path.name == "host" or DEVICE.match(path.name)]


def _children(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except OSError:
        return []


def _told(places: list[Path], stem: str) -> Mapping[str, object]:
    """The first of these files that can be read; a damaged one says nothing."""
    return next((found for path in _named(places, stem) if (found := small_json.read(path)[0])), {})


def _named(places: list[Path], stem: str) -> Iterator[Path]:
    for place in places:
        for path in _children(place):
            if path.name == stem or re.fullmatch(re.escape(stem) + r"\.\d{1,4}", path.name):
                yield path


def _us(value: object) -> int | None:
    """Microseconds as nanoseconds."""
    number = small_json.whole(value)
    return number * 1000 if number is not None and 0 <= number < 4 * 10**15 else None
