"""A directory in one archive, without the people, machines and places in its files."""

from __future__ import annotations

import getpass
import gzip
import hashlib
import json
import re
import socket
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.ingest.store.redact import Redactor
from npulens.ingest.store.redact_database import redacted_database

#: What a driver tells that names one piece of hardware.
_SERIAL = re.compile(r"((?:Serial Number|[VND]*Die ID|UUID|Board Part Number)\s*:\s*)\S[^\n]*")
#: A host of any name, be it a word of every day.
_HOST = re.compile(r'("host_?name"\s*:\s*")([^"]+)"', re.IGNORECASE)
_TEXTS = (".json", ".jsonl", ".txt", ".csv", ".py", ".log", "")
_SQLITE = b"SQLite format 3\0"
#: Where the profiler of CANN keeps what the device wrote.
_RAW = "PROF_"


@dataclass(frozen=True)
class Packed:
    """A file as it lies in an archive, or why it does not."""

    name: str
    data: bytes | None
    reason: str | None = None

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.data or b"").hexdigest()


def pack(place: Path, report: Mapping[str, Any], target: Path, redact: bool) -> Path:
    """Everything below a directory and the report, in one archive with the digest of each file."""
    archive = target / name_of("npulens", str(report["backend"]), redact)
    redactor = Redactor([socket.gethostname()], [getpass.getuser()]) if redact else None
    whole = {"report.json": json.dumps(report, indent=2, ensure_ascii=False).encode()}
    files = sorted([*_made(whole, redactor), *packed(place, redactor)], key=lambda each: each.name)
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for each in files:
            if each.data is not None:
                out.writestr(each.name, each.data)
        out.writestr("sha256.txt", "".join(f"{each.digest}  {each.name}\n" for each in files if each.data is not None))
        if any(each.data is None for each in files):
            out.writestr(
                "left_out.txt", "".join(f"{each.name}: {each.reason}\n" for each in files if each.data is None)
            )
    return archive


def pack_evidence(place: Path, told: Mapping[str, Any], target: Path, redact: bool, manifest: str) -> Path:
    """The same with a manifest in front, which has size and digest of every file; raw data of a device is kept."""
    archive = target / name_of("npulens-evidence", str(told["backend"]), redact)
    redactor = Redactor([socket.gethostname()], [getpass.getuser()]) if redact else None
    said = dict(told) if redactor is None else {**redactor.value(dict(told)), "challenge": told["challenge"]}
    listed: dict[str, list[object]] = {}
    left_out: dict[str, str | None] = {}
    with tempfile.TemporaryDirectory(prefix="npulens-") as scratch:
        ready = Path(scratch)
        for each in packed(place, redactor, raw=True):  # one file in memory at a time: raw data is large
            if each.data is None:
                left_out[each.name] = each.reason
                continue
            (ready / str(len(listed))).write_bytes(each.data)
            listed[each.name] = [len(each.data), each.digest]
        whole = {**said, "redacted": redact, "files": listed, "left_out": left_out}
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
            out.writestr(manifest, json.dumps(whole, indent=1, ensure_ascii=False))
            for number, name in enumerate(listed):
                out.write(ready / str(number), name)
    return archive


def name_of(lead: str, backend: str, redact: bool) -> str:
    """What an archive is called."""
    host = "host" if redact else socket.gethostname()
    return f"{lead}-{host}-{backend}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}.zip"


def packed(place: Path, redactor: Redactor | None, raw: bool = False) -> Iterator[Packed]:
    """Every file below a directory as it may leave this machine, in the order of their names."""
    for path in sorted(place.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield _packed(path.relative_to(place).as_posix(), path.read_bytes(), redactor, raw)


def _made(files: Mapping[str, bytes], redactor: Redactor | None) -> Iterator[Packed]:
    for name, data in files.items():
        yield _packed(name, data, redactor, raw=False)


def _packed(name: str, data: bytes, redactor: Redactor | None, raw: bool) -> Packed:
    if redactor is None:
        return Packed(name, data)
    told = redacted(name, data, redactor)
    if told is None and raw and data.startswith(_SQLITE):
        told = redacted_database(data, redactor)
    elif told is None and raw and _RAW in name:
        told = None if b"\0" in data else redacted(f"{name}.txt", data, redactor)  # info.json.0, start_info.0
        told = without_names(data) if told is None else told
    shown = name.replace(socket.gethostname(), "host")
    return Packed(shown, told) if told is not None else Packed(shown, None, "cannot be redacted")


def redacted(name: str, data: bytes, redactor: Redactor) -> bytes | None:
    """A file without hosts, users, paths and serial numbers; None for what is no text."""
    if name.endswith(".gz"):
        inner = redacted(name.removesuffix(".gz"), gzip.decompress(data), redactor)
        return None if inner is None else gzip.compress(inner, mtime=0)
    if Path(name).suffix not in _TEXTS:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    named = _HOST.sub(lambda found: f'{found[1]}{redactor.host(found[2])}"', _SERIAL.sub(r"\1-", text))
    return redactor.text(named).encode()


def without_names(data: bytes) -> bytes:
    """Raw data whose meaning only CANN knows: the names of this machine and its user are overwritten, byte for byte."""
    for name in (socket.gethostname(), getpass.getuser(), str(Path.home())):
        if len(name) > 2 and name != "root" and name != "/root":
            data = data.replace(name.encode(), b"x" * len(name.encode()))
    return data
