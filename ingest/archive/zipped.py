"""Zip: member by member, as the directory lists them, or as they follow each other where the end is missing."""

from __future__ import annotations

import lzma
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from npulens.ingest.archive import codec, names, zip_headers
from npulens.ingest.archive.tree import Damaged, Tree
from npulens.ingest.archive.zip_headers import Entry
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

_METHODS = {0: "stored", 8: "deflate", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz"}
_DEFLATE64, _LZMA = 9, 14
#: Files that are zip archives inside and something else to everybody.
_OTHERS = (
    ("[Content_Types].xml", "unknown_format", Message("office_document_load_trace_itself")),
    ("META-INF/MANIFEST.MF", "unknown_format", Message("java_archive_no_capture")),
    ("AndroidManifest.xml", "unknown_format", Message("android_package_no_capture")),
)


def unpack(path: Path, tree: Tree) -> None:
    """Every member that is whole."""
    with path.open("rb") as file:
        most = tree.budget.left_members
        try:
            entries = zip_headers.listed(file, most)
        except Damaged as damage:
            entries, tree.damage = None, damage.said
        if entries is not None:
            _refuse_others({entry.name for entry in entries})
            for entry in entries:
                _member(file, entry, tree, walking=False)
            return
        tree.damage = tree.damage or Message("end_zip_archive_is_missing")
        file.seek(0)
        for entry in zip_headers.walked(file, most):
            if not _member(file, entry, tree, walking=True):
                return


def _refuse_others(present: set[str]) -> None:
    for name, kind, text in _OTHERS:
        if name in present:
            raise IngestError(kind, text)
    if any(name.endswith("/data.pkl") or name == "data.pkl" for name in present):
        text = Message("pytorch_checkpoint_torch_save_which")
        raise IngestError("pickle", text)


def _member(file: BinaryIO, entry: Entry, tree: Tree, *, walking: bool) -> bool:
    """One member; False if the next one cannot be found behind it."""
    tree.budget.member(len(entry.raw_name))
    try:
        parts = names.parts(entry.name, windows=entry.is_windows)
    except names.Unsafe as why:
        tree.lose(entry.name, why.said)
        return _skip(file, entry)
    if entry.special:
        tree.skip(entry.name, Message("which_is_not_followed", {"what": entry.special}))
        return _skip(file, entry)
    if entry.is_directory or not parts:
        if tree.directory(parts) is None:
            tree.lose(entry.name, Message("file_and_directory_have_same"))
        return _skip(file, entry)
    if why_not := _unreadable(entry):
        tree.lose(entry.name, why_not)
        return _skip(file, entry)
    lost = len(tree.lost)
    tree.write(parts, _content(file, entry, walking))
    if len(tree.lost) > lost:
        return _skip(file, entry)
    if walking:
        zip_headers.skip_descriptor(file, entry)
    return True


def _unreadable(entry: Entry) -> Message | None:
    if entry.is_encrypted:
        return Message("it_is_encrypted_unpack_it")
    if entry.method == _DEFLATE64:
        return Message("it_is_packed_with_deflate64")
    if entry.method not in _METHODS:
        return Message("it_is_packed_with_method", {"method": entry.method})
    if entry.packed is None and _METHODS[entry.method] != "deflate":
        return Message("its_length_stands_only_in")
    return None


def _skip(file: BinaryIO, entry: Entry) -> bool:
    """Move behind a member that is not read; False if nobody knows where it ends."""
    if entry.packed is None:
        return False
    size = os.fstat(file.fileno()).st_size
    if entry.data + entry.packed > size:
        return False
    file.seek(entry.data + entry.packed)
    return True


def _content(file: BinaryIO, entry: Entry, walking: bool) -> Iterator[bytes]:
    """The bytes of a member, checked against its length and checksum."""
    start, end = (entry.data, None) if walking else zip_headers.begin(file, entry)
    if walking and entry.packed is not None:
        end = entry.data + entry.packed
    window = _Window(file, start, end)
    size = crc = 0
    for block in _unpacked(_METHODS[entry.method], window):
        size += len(block)
        if entry.size is not None and size > entry.size:
            raise Damaged(Message("it_unpacks_to_more_than_bytes", {"n": f"{entry.size:,}"}))
        crc = zlib.crc32(block, crc)
        yield block
        if size == entry.size and entry.method == _LZMA:  # it need not have an end mark
            break
    if entry.size is not None and size != entry.size:
        raise Damaged(Message("it_unpacks_to_bytes_where", {"n": f"{size:,}", "claimed": f"{entry.size:,}"}))
    if entry.crc is not None and crc != entry.crc:
        raise Damaged(Message("its_checksum_does_not_fit"))
    if walking:
        file.seek(window.position if end is None else end)


def _unpacked(method: str, window: _Window) -> Iterator[bytes]:
    if method == "lzma":
        return codec.series(window.read, lambda: _lzma_of(window))
    if method == "deflate":
        return codec.deflate(window.read, window.give_back)
    return codec.unpacked(method, window.read)


def _lzma_of(window: _Window) -> lzma.LZMADecompressor:
    """The decoder for zip's own LZMA header: version, length of the properties, properties."""
    head = window.read(4)
    properties = window.read(int.from_bytes(head[2:4], "little")) if len(head) == 4 else b""
    if len(properties) != 5:
        raise Damaged(Message("its_lzma_header_is_damaged"))
    small, dictionary = properties[0], int.from_bytes(properties[1:5], "little")
    if dictionary > codec.XZ_MEMORY or small >= 9 * 5 * 5:
        raise Damaged(Message("its_lzma_header_asks_for"))
    filters = {
        "id": lzma.FILTER_LZMA1, "dict_size": dictionary, "lc": small % 9, "lp": small // 9 % 5, "pb": small // 45,
    }  # fmt: skip
    try:
        return lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=[filters])
    except lzma.LZMAError as error:  # more literal bits than there can be, say
        raise Damaged(Message("its_lzma_header_is_damaged")) from error


class _Window:
    """The packed bytes of one member, wherever others read the file meanwhile."""

    def __init__(self, file: BinaryIO, start: int, end: int | None) -> None:
        self._file, self.position, self._end = file, start, end

    def read(self, size: int) -> bytes:
        if self._end is not None:
            size = min(size, self._end - self.position)
        self._file.seek(self.position)
        found = self._file.read(size)
        self.position += len(found)
        return found

    def give_back(self, size: int) -> None:
        """What was read and belongs to the next member."""
        self.position -= size
