"""An archive of evidence, opened as what a stranger sent: unpacked in limits, and nothing in it believed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.analysis.proof.verdict import Verdict, judged
from npulens.ingest.archive import Kind, recognise
from npulens.ingest.archive.opener import Opener
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import GIB, Quota
from npulens.ingest.messages import Message, one_line

MANIFEST, VERSION = "evidence.json", 1
#: Far above what fifteen minutes of small workloads leave.
_QUOTA = Quota(unpacked_bytes=8 * GIB, members=20_000, time_s=1800.0)
#: Bytes of JSON that are read into memory at once.
_MOST_JSON = 256 << 20
_NAME = re.compile(r"[a-z0-9_]{1,64}")
_MOMENT = {"wall_ns": int, "monotonic_ns": int}
#: What a manifest and a truth hold at least; a list of one stands for any number of such.
_SHAPE: dict[str, Any] = {
    "evidence": int, "challenge": str, "backend": str, "stub": bool, "begun": _MOMENT, "ended": _MOMENT,
    "parts": [{"part": str, "outcome": str}], "recordings": [[str]], "files": dict,
}  # fmt: skip
TRUTH_SHAPE: dict[str, Any] = {"pid": int, "backend": str, "begun": _MOMENT, "ended": _MOMENT, "steps": [[int]]}
CASE_SHAPE: dict[str, Any] = {"workload": str, "variant": str, "dtype": str, "outcome": str}
RAN_SHAPE: dict[str, Any] = {"allowed": float, "values": [[float]]}


@dataclass(frozen=True)
class Opened:
    """The unpacked archive: its manifest, its files by the names they have in it, and whether they are those listed."""

    root: Path
    manifest: Mapping[str, Any]
    files: Mapping[str, Path]
    verdicts: tuple[Verdict, ...]


def opened(path: Path, scratch: Path) -> Opened:
    """Unpacks and compares. Raises IngestError for what is no such archive."""
    if not path.is_file() or recognise(path) is not Kind.zip:
        raise IngestError("no_evidence", Message("evidence_is_no_zip"), str(path))
    opener = Opener(scratch / "unpacked", _QUOTA)
    root = opener.open(path, Kind.zip)
    found = opener.opened[root].found
    outside = opener.origin(root)
    files = {
        opener.origin(each).relative_to(outside).as_posix(): each for each in sorted(root.rglob("*")) if each.is_file()
    }
    manifest = _manifest(files, path)
    lost = [(name, str(why)) for _, name, why in found.lost] + [(name, str(why)) for name, why in found.skipped]
    if found.damage is not None:
        lost.insert(0, (path.name, str(found.damage)))
    seen = {"n": found.members, "lost": len(lost), "first": one_line(": ".join(lost[0]), 200) if lost else "–"}
    whole = judged("whole", "", bool(lost), "whole", seen)
    return Opened(root, manifest, files, (whole, _listed(manifest["files"], files)))


def _manifest(files: Mapping[str, Path], path: Path) -> Mapping[str, Any]:
    told = read_json(files[MANIFEST]) if MANIFEST in files else None
    if not fits(told, _SHAPE) or not isinstance(told, dict):
        raise IngestError("no_evidence", Message("evidence_has_no_manifest", {"name": MANIFEST}), str(path))
    if told["evidence"] != VERSION:
        said = Message("evidence_of_other_version", {"found": told["evidence"], "known": VERSION})
        raise IngestError("no_evidence", said, str(path))
    return told


def _listed(told: Mapping[str, Any], files: Mapping[str, Path]) -> Verdict:
    """Every file by its size and digest; nothing missing, nothing more."""
    there = {name: path for name, path in files.items() if name != MANIFEST}
    missing, extra = sorted(told.keys() - there.keys()), sorted(there.keys() - told.keys())
    changed = sorted(name for name in told.keys() & there.keys() if told[name] != [*_digest(there[name])])
    first = next(iter([*missing, *extra, *changed]), "–")
    seen = {"n": len(told), "missing": len(missing), "extra": len(extra), "changed": len(changed),
            "first": one_line(first, 200)}  # fmt: skip
    return judged("files", "", bool(missing or extra or changed), "files", seen)


def _digest(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        return path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()


def read_json(path: Path) -> Any:
    """What a JSON file says; None for one that is too large or says nothing."""
    if path.stat().st_size > _MOST_JSON:
        return None
    try:
        return json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return None


def fits(value: Any, shape: Any) -> bool:
    """Whether JSON has a shape: a type, a list of such, or a dictionary with at least these."""
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(name in value and fits(value[name], of) for name, of in shape.items())
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(each, shape[0]) for each in value)
    if shape is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62
    if shape is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, shape)


def plain(name: str) -> bool:
    """Whether the name of a recording is one of ours."""
    return bool(_NAME.fullmatch(name))
