"""Files that npulens does not read, called by their name, each with what to do about it."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from ingest.ascend.states import outermost, state
from ingest.errors import IngestError
from ingest.mindspore import raw as mindspore_raw

#: Files of these endings look like captures; others beside a capture (logs, notes) are passed over in silence.
_LOOKS = re.compile(
    r"\.(json|json\.gz|gz|db|dat|sqlite|nsys-rep|qdrep|pb|xplane\.pb|zip|tar|tgz|pickle|pkl|bin)$", re.I
)
#: Files that stand beside captures and describe them.
_BESIDE = ("manifest.json", "truth.json")
_MAGIC = (
    (b"PK\x03\x04", "zip_archive", "a zip archive; unpack it and load the directory"),
    (b"SQLite format 3\0", "unknown_database", "an SQLite database without profiler tables that npulens knows"),
    (
        b"\x80\x04\x95",
        "pickle",
        "a Python pickle (a memory snapshot?), which is never opened: loading one can run code",
    ),
    (b"\x80\x02", "pickle", "a Python pickle, which is never opened: loading one can run code"),
    (b"QDSTRM", "nsight_systems", "an Nsight Systems stream; export it with `nsys export --type sqlite`"),
)
#: Refusals listed one by one for one path; the rest is summed up.
_LISTED = 20


def name_all(path: Path, unclaimed: list[Path], claimed: Collection[Path], nothing_else: bool) -> list[IngestError]:
    """Refusals for what a walk found and nobody claimed; a directory that holds a capture is no raw one."""
    bare = [e for e in unclaimed if e.is_dir() and not any(e == root or e in root.parents for root in claimed)]
    states = outermost(error for entry in bare if (error := _raw_state(entry)))
    raw = [Path(error.path) for error in states if error.path]
    files = [e for e in unclaimed if e.is_file() and not any(r == e or r in e.parents for r in raw)]
    if not nothing_else:
        files = [entry for entry in files if _LOOKS.search(entry.name) and entry.name not in _BESIDE]
    found = states + [_name_file(entry) for entry in files[:_LISTED]]
    if len(files) > _LISTED:
        found.append(
            IngestError("unknown_format", f"{len(files) - _LISTED} more files are no capture npulens knows", str(path))
        )
    if nothing_else and not found:
        found.append(IngestError("empty", "nothing to load here: no file of any profiler", str(path)))
    return found


def _raw_state(entry: Path) -> IngestError | None:
    """Directories that hold raw data somebody has yet to parse, or nothing of a capture at all."""
    return state(entry) or mindspore_raw.directory(entry, {child.name for child in entry.iterdir()})


def _name_file(entry: Path) -> IngestError:
    head = b""
    try:
        with entry.open("rb") as stream:
            head = stream.read(4096)
    except OSError as error:
        return IngestError("unreadable", f"cannot be read: {error.strerror}", str(entry))
    if raw := mindspore_raw.file(entry):
        return raw
    if not head:
        return IngestError("empty", "the file is empty", str(entry))
    for magic, kind, text in _MAGIC:
        if head.startswith(magic):
            return IngestError(kind, text, str(entry))
    if entry.name.endswith((".nsys-rep", ".qdrep")):
        return IngestError(
            "nsight_systems", "an Nsight Systems report; export it with `nsys export --type sqlite`", str(entry)
        )
    if entry.name.endswith(".xplane.pb"):
        return IngestError("xplane", "an XLA profile (xplane.pb), which npulens does not read yet", str(entry))
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return IngestError(
            "utf16", "UTF-16 text; profilers write UTF-8, convert it with `iconv -f UTF-16 -t UTF-8`", str(entry)
        )
    if head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return IngestError("unknown_json", "JSON, but no trace of torch_npu, msprof or torch.profiler", str(entry))
    return IngestError(
        "unknown_format", "no capture that npulens knows; see `npulens load --help` for the formats", str(entry)
    )
