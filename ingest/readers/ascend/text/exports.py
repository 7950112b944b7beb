"""Which files of an export are read: every slice of every table, of one export, each thing once.

msprof appends numbers to its names: `_slice_N` where a table is long, and the time of the export at the end. Old
versions append device, model and iteration. Exported twice, a directory holds everything twice. A trace may be packed.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from npulens.ingest.messages import Message
from npulens.ingest.readers.ascend.text import csv_tables

_NAME = re.compile(
    r"^(?P<stem>[a-z][a-z0-9_]*?)(?:_slice_(?P<slice>\d{1,9}))?(?P<ids>(?:_\d{1,20})*)\.(?P<end>json|csv)"
    r"(?P<packed>\.gz)?$"
)
#: A number this long at the end of a name is the time of the export; shorter ones are ids.
_STAMP_DIGITS = 12
_TRACES, _KERNELS = ("trace_view.json", "msprof.json"), ("kernel_details.csv", "op_summary.csv", "task_time.csv")
COMMUNICATION = ("communication.json", "communication_matrix.json")


@dataclass(frozen=True)
class Name:
    """A file name of an export taken apart."""

    base: str
    slice: int | None
    ids: tuple[int, ...]
    stamp: int


@dataclass
class Chosen:
    """The files that are read, and why others are not."""

    trace: list[Path] = field(default_factory=list)
    kernels: list[Path] = field(default_factory=list)
    cores: list[Path] = field(default_factory=list)  # task_time.csv, for what op_summary.csv does not say
    tables: dict[str, list[Path]] = field(default_factory=dict)
    unread: list[Message] = field(default_factory=list)


def name(text: str) -> Name | None:
    """The parts of a name; None if no file of ours is called like that."""
    found = _NAME.match(text)
    if not found:
        return None
    base = f"{found['stem']}.{found['end']}"
    if base not in (_TRACES if found["packed"] else (*_TRACES, *_KERNELS, *csv_tables.NAMES, *COMMUNICATION)):
        return None
    ids = [number for number in found["ids"].split("_") if number]
    stamp = int(ids.pop()) if ids and len(ids[-1]) >= _STAMP_DIGITS else 0
    # msprof.json alone is no name of msprof, and numbers behind the names of torch_npu are copies of people.
    if base == "msprof.json" and not (ids or stamp) or base in (_TRACES[0], *COMMUNICATION) and (ids or stamp):
        return None
    return Name(base, None if found["slice"] is None else int(found["slice"]), tuple(map(int, ids)), stamp)


def devices(files: Iterable[Path]) -> tuple[int, ...]:
    """Devices that have files of their own: old versions begin the ids with the device."""
    named = (name(path.name) for path in files)
    return tuple(sorted({each.ids[0] for each in named if each and len(each.ids) > 1}))


def choose(files: Iterable[Path], device: int | None = None) -> Chosen:
    """Of the files of a claim those to be read, for one device or for all there are."""
    by_base: dict[str, list[tuple[Name, Path]]] = defaultdict(list)
    for path in files:
        named = name(path.name)
        if named and (device is None or len(named.ids) < 2 or named.ids[0] == device):
            by_base[named.base].append((named, path))
    chosen = Chosen()
    kept = {base: _newest(found, chosen) for base, found in sorted(by_base.items())}
    chosen.trace = _first(_TRACES, kept, chosen)
    # Every task, without what op_summary knows of kernels: needed only where no trace lists them.
    if not chosen.trace and not kept.get(_KERNELS[0]) and kept.get(_KERNELS[1]):
        chosen.cores = kept.pop(_KERNELS[2], [])
    chosen.kernels = _first(_KERNELS[:2] if chosen.trace else _KERNELS, kept, chosen)
    if chosen.trace and "task_time.csv" in kept:
        chosen.unread.append(Message("task_time_csv_lists_tasks"))
    chosen.tables = {base: paths for base, paths in kept.items() if base in csv_tables.NAMES}
    return chosen


def _newest(found: list[tuple[Name, Path]], chosen: Chosen) -> list[Path]:
    """One export of a table: for the same ids the newest, in slices or whole."""
    latest: dict[tuple[tuple[int, ...], int | None], tuple[Name, Path]] = {}
    for named, path in found:
        key = named.ids, named.slice
        if key not in latest or latest[key][0].stamp < named.stamp:
            latest[key] = named, path
    kept = []
    for ids in sorted({ids for ids, _ in latest}):
        whole = latest.get((ids, None))
        slices = [latest[key] for key in latest if key[0] == ids and key[1] is not None]
        if whole and slices and whole[0].stamp < max(named.stamp for named, _ in slices):
            whole = None
        kept += [whole] if whole else sorted(slices, key=lambda each: each[0].slice or 0)
    paths = [path for _, path in kept]
    older = sorted(path.name for _, path in found if path not in paths)
    chosen.unread += [Message("is_older_export_same", {"file": name}) for name in older]
    return paths


def _first(bases: Iterable[str], kept: dict[str, list[Path]], chosen: Chosen) -> list[Path]:
    """The first of several files that say the same."""
    there = [base for base in bases if kept.get(base)]
    for base in there[1:]:
        chosen.unread.append(Message("says_again_what_says", {"file": kept[base][0].name, "other": there[0]}))
    return kept[there[0]] if there else []
