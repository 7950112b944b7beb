"""What one load may use of the machine: disk, time, and how far an archive may swell.

A load that needs more is refused with a sentence and leaves nothing behind. The defaults are far above any honest
capture; `npulens load --max-disk/--max-time` and two environment variables (for a server's loads) move them.
"""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

GIB = 1 << 30
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_TIMES = {"": 1, "s": 1, "m": 60, "h": 3600}


@dataclass(frozen=True)
class Quota:
    """Limits of one load."""

    disk_bytes: int = 256 * GIB  # everything a load has in its staging directory at once
    time_s: float = 12 * 3600.0  # from the first look to the commit
    keep_free_bytes: int = GIB  # of the store's disk; on a small one a fiftieth of it
    unpacked_bytes: int = 64 * GIB  # what the archives of a load may come to
    unpacked_ratio: int = 200  # times its size that an archive may come to; honest traces reach 30 in gzip, 60 in xz
    ratio_from_bytes: int = 64 << 20  # below this much, the ratio does not matter
    members: int = 50_000  # files, directories and links of all archives of a load
    scraps: int = 5_000  # of one archive, unless they hold a thousand bytes in the mean, as a capture's do
    archives: int = 150  # so many of a load may be tiny: one more for every 10 kB of packed bytes

    @staticmethod
    def of(asked: Mapping[str, object]) -> Quota:
        """The defaults, the environment over them, and what was asked over both."""
        disk = asked.get("max_disk") or os.environ.get("NPULENS_MAX_DISK")
        time_s = asked.get("max_time") or os.environ.get("NPULENS_MAX_TIME")
        return Quota(
            disk_bytes=parse_bytes(str(disk)) if disk else Quota.disk_bytes,
            time_s=parse_seconds(str(time_s)) if time_s else Quota.time_s,
        )


def parse_bytes(text: str) -> int:
    """A size as people write it: 500M, 20G, 2.5T, or plain bytes."""
    return int(_number(text, _UNITS, Message("size_such_as_500m_20g"), r"(?:i?b)?"))


def parse_seconds(text: str) -> float:
    """A time as people write it: 90, 90s, 30m, 2h."""
    return _number(text, _TIMES, Message("time_such_as_90s_30m"), "")


def _number(text: str, units: Mapping[str, int], wanted: str, suffix: str) -> float:
    match = re.fullmatch(rf"(\d{{1,18}}(?:\.\d{{1,6}})?)\s*([{''.join(units)}]?){suffix}", text.strip().lower())
    if match is None or not float(match[1]):
        raise IngestError("bad_limit", Message("is_not", {"text": f"{text!r}", "wanted": wanted}))
    return float(match[1]) * units[match[2]]


#: Looking at the disk may take this part of a load: one of so many.
_PAUSE = 20


class OverQuota(IngestError):
    """The load as a whole has used up what it may: nothing of it goes on."""


class UsageWatch:
    """Measures during a load what it has used so far, and stops it above its quota."""

    def __init__(self, quota: Quota, staging: Path) -> None:
        self.quota, self._staging = quota, staging
        self._begun = self._looked = time.monotonic()
        self._pause = 1.0

    @property
    def left_s(self) -> float:
        """Seconds that are left of the load's time."""
        return max(0.0, self.quota.time_s - (time.monotonic() - self._begun))

    def look(self) -> None:
        """Raises when time, the disk or the load's share of it is used up; at most once a second."""
        now = time.monotonic()
        if now - self._begun > self.quota.time_s:
            raise OverQuota("too_slow", Message("load_took_longer_than_s", {"n": f"{self.quota.time_s:g}"}))
        if now - self._looked >= self._pause:
            self.measure()
            self._looked = time.monotonic()
            self._pause = max(1.0, _PAUSE * (self._looked - now))  # very many files take long to count

    def measure(self) -> None:
        """The same for the disk, now."""
        check_free(self._staging, self.quota)
        used = size_of(self._staging)
        if used > self.quota.disk_bytes:
            raise OverQuota("disk_quota", Message("load_needs_more_than_disk", {"size": amount(self.quota.disk_bytes)}))


def swollen(packed: int, times: int) -> IngestError:
    """The refusal of packed bytes that come to more than they honestly can."""
    return IngestError("archive_bomb", Message("that_unpack_to_more_than", {"size": amount(packed), "n": times}))


def check_free(place: Path, quota: Quota, needed: int = 0) -> None:
    """Raises when the disk of ``place`` would be left with less than has to stay free."""
    disk = shutil.disk_usage(place)
    keep = min(quota.keep_free_bytes, disk.total // 50)
    if disk.free - needed < keep:
        raise IngestError("disk_full", Message("store_s_disk_has_free", {"free": amount(disk.free)}))


def size_of(place: Path) -> int:
    """Bytes of the files below a directory that others are writing to."""
    total, pending = 0, [place]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    else:
                        total += entry.stat(follow_symlinks=False).st_size
        except FileNotFoundError:  # finished and gone meanwhile
            continue
    return total


def amount(size: int) -> str:
    """A number of bytes for people."""
    for unit, bytes_ in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= bytes_:
            return f"{size / bytes_:.1f} {unit}"
    return f"{size} bytes"
