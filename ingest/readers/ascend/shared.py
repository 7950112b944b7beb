"""Devices that share the files of one msprof export: each is a rank of its own.

msprof profiles a process, and one process can drive several devices. What keeps a device busy is asked per device, so
one rank per device is what a person expects. They are told apart only where the files themselves can be. That is by the
labels of a trace, by Device_id, or by deviceId of a database.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from npulens.ingest.readers import Facts
from npulens.ingest.readers.ascend import prof_dir, rankdir
from npulens.ingest.readers.ascend.text import exports

Shared = tuple[tuple[int, Facts], ...]

_LABEL = re.compile(rb'"labels"\s*:\s*"NPU ?(\d{0,4})"')
#: No host has more; a file that names more is not parsed once for each.
MOST_DEVICES, _LAST_DEVICE = 64, 9999
#: Enough of a trace to meet the label of its first device, and of a table to meet its devices.
_HEAD_BYTES = 1 << 18


def by_text(root: Path, files: Sequence[Path]) -> Shared:
    """The devices of a text export; none where there is one, or where it does not tell them apart."""
    if rankdir.info_file(root) or prof_dir.is_old_export(root):
        return ()  # torch_npu and MindSpore profile one device a process; old exports lie in a directory per device
    if len(named := exports.devices(files)) > 1:
        return of(root, named)
    chosen = exports.choose(files)
    if not chosen.trace and not chosen.kernels:
        return ()
    labels = {label for path in chosen.trace for label in _LABEL.findall(_head(path))}
    if chosen.trace and labels <= {b""}:
        return ()
    found = {int(label) for label in labels if label} | {one for path in chosen.kernels for one in _listed(path)}
    here = prof_dir.devices(root)
    # The beginning of a file need not show every device; where numbers differ, the files have the word.
    return () if len(here) == 1 else of(root, here if found <= set(here) else tuple(found))


def of(root: Path, devices: Sequence[int], named: Mapping[int, int | None] | None = None) -> Shared:
    """Each of several devices with its facts. ``named``: ranks that the export itself gives them."""
    known = sorted(set(devices))
    if not 2 <= len(known) <= MOST_DEVICES or known[-1] > _LAST_DEVICE:
        return ()
    facts = {device: rankdir.facts(root, device) for device in known}
    told = [(named or {}).get(device) for device in known]
    if None not in told and len(set(told)) == len(known):
        facts = {d: replace(facts[d], rank=rank, rank_source="database") for d, rank in zip(known, told, strict=True)}
    ranks = {each.rank for each in facts.values()}
    if None in ranks or len(ranks) < len(known):  # nothing numbers them, or not each its own
        facts = {device: replace(each, rank=device, rank_source="device id") for device, each in facts.items()}
    return tuple(facts.items())


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError:
        return b""


def _listed(path: Path) -> set[int]:
    """Device_id of the first rows of a table."""
    rows = csv.DictReader(_head(path).decode("utf-8-sig", "replace").splitlines()[:-1])
    try:
        return {int(cell) for row in rows if isinstance(cell := row.get("Device_id"), str) and cell.strip().isdecimal()}
    except (csv.Error, ValueError):
        return set()
