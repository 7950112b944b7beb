"""What was stored, and proof that it is still that.

The manifest of a run carries size and BLAKE3 of every file beside it (`stored`). On its first line stands the BLAKE3 of
all its other lines (`seal`). So one flipped bit anywhere in a run is told before an answer is made of it. Sizes are
compared whenever a run is opened. Hashes are compared once a process, and again where a file has changed since.
Documents of ours beside the runs are sealed in the same way.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from blake3 import blake3

from npulens.ingest.messages import dumped, loaded

MANIFEST = "manifest.json"
#: The keys that only a sealed document has: its first line, and in a manifest the files of its run.
SEAL, STORED = "seal", "stored"
_FIRST = re.compile(rb'\{\n "seal": "([0-9a-f]{64})",\n')
#: Files whose hash was looked at by this process, as they were then: inode, size, time of change. Threads share it: a
#: list of a plain dict is made in one step, that of an OrderedDict asks each path for its hash.
_LOOKED_AT: dict[Path, tuple[tuple[int, int, int], str]] = {}
_MOST = 1 << 14  # of so many files: runs come and go


class Broken(ValueError):
    """A document that is not what was written."""


def hash_of(path: Path) -> str:
    """The BLAKE3 of a file."""
    digest, buffer = blake3(), bytearray(1 << 20)
    with path.open("rb", buffering=0) as stream:
        while size := stream.readinto(buffer):
            digest.update(memoryview(buffer)[:size])
    return digest.hexdigest()


def hash_once(path: Path) -> str:
    """The same; `is_still` can be asked of it afterwards."""
    if (found := _digest(path)) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    return found


def is_still(path: Path, digest: str) -> bool:
    """Whether a file is what it was when it was hashed, as far as its size and its time say."""
    known = _LOOKED_AT.get(path)
    return known is not None and known[1] == digest and known[0] == _state(path)


def sealed(document: Mapping[str, Any]) -> str:
    """A document as text whose first line proves the others."""
    body = dumped({name: value for name, value in document.items() if name != SEAL}, indent=1)
    return f'{{\n "{SEAL}": "{blake3(body.encode()).hexdigest()}",\n{body.removeprefix("{").lstrip(chr(10))}'


def opened(content: bytes) -> dict[str, Any]:
    """The document; Broken where it is none or its seal does not hold. Older ones have no seal: they pass."""
    first = _FIRST.match(content)
    if first and blake3(b"{\n" + content[first.end() :]).hexdigest() != first[1].decode():
        raise Broken
    try:
        found = loaded(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise Broken from error
    if not isinstance(found, dict) or (not first and found.keys() & {SEAL, STORED}):
        raise Broken
    return found


def is_sealed(document: Mapping[str, Any]) -> bool:
    return SEAL in document


def close(directory: Path, document: Mapping[str, Any]) -> None:
    """Write the manifest of a run that is not yet visible, with what lies beside it."""
    files = sorted(path for path in directory.iterdir() if path.suffix == ".parquet")
    with ThreadPoolExecutor(2) as pool:
        digests = pool.map(hash_of, files)
        sums = {path.name: [path.stat().st_size, digest] for path, digest in zip(files, digests, strict=True)}
    (directory / MANIFEST).write_text(sealed({**document, STORED: sums}), "utf-8")


def short(directory: Path, document: Mapping[str, Any]) -> list[str]:
    """Files of a run that are missing or have another size than was stored."""
    return [name for name, (size, _) in _sums(document).items() if _size(directory / name) != size]


def broken(directory: Path, document: Mapping[str, Any], again: bool = False) -> list[str]:
    """Files of a run that are not what was stored. ``again``: those that this process has looked at, too."""
    sums = _sums(document)
    lacking = set(short(directory, document))
    if again:
        for name in sums:
            _LOOKED_AT.pop(directory / name, None)
    whole = [name for name in sums if name not in lacking]
    with ThreadPoolExecutor(2) as pool:
        digests = dict(zip(whole, pool.map(lambda name: _digest(directory / name), whole), strict=True))
    return [name for name, (_, digest) in sums.items() if digests.get(name) != digest]


def sign(content: Path, path: Path) -> None:
    """Write beside ``path`` the hash of what will lie there."""
    path.with_name(f"{path.name}.sum").write_text(hash_of(content), "ascii")


def holds(path: Path) -> bool:
    """Whether a file that was signed is still what it was."""
    try:
        return path.with_name(f"{path.name}.sum").read_bytes() == (_digest(path) or "").encode()
    except OSError:
        return False


def forget(path: Path) -> None:
    """Look at a file again when it is asked for."""
    _LOOKED_AT.pop(path, None)


def forget_gone() -> None:
    """Nothing is known any more of files that are not there."""
    for path in list(_LOOKED_AT):
        if not os.path.exists(path):  # nor if it may not be read
            _LOOKED_AT.pop(path, None)


def _sums(document: Mapping[str, Any]) -> dict[str, tuple[int, str]]:
    return {str(name): (int(size), str(digest)) for name, (size, digest) in document.get(STORED, {}).items()}


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return None


def _state(path: Path) -> tuple[int, int, int]:
    now = path.stat()
    return now.st_ino, now.st_size, now.st_mtime_ns


def _digest(path: Path) -> str | None:
    try:
        state = _state(path)
        known = _LOOKED_AT.get(path)
        if known is None or known[0] != state:
            known = _LOOKED_AT[path] = state, hash_of(path)
            if len(_LOOKED_AT) > _MOST:
                _LOOKED_AT.pop(list(_LOOKED_AT)[0], None)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return known[1]
