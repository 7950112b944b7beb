"""Zip: member by member, as the directory lists them, or as they follow each other where the end is missing."""

from __future__ import annotations

import lzma
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

from npulens.ingest.archive import codec, names
from npulens.ingest.archive.tree import Damaged, Tree
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
            entries = listed(file, most)
        except Damaged as damage:
            entries, tree.damage = None, damage.said
        if entries is not None:
            _refuse_others({entry.name for entry in entries})
            for entry in entries:
                _member(file, entry, tree, walking=False)
            return
        tree.damage = tree.damage or Message("end_zip_archive_is_missing")
        file.seek(0)
        for entry in walked(file, most):
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
        skip_descriptor(file, entry)
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
    start, end = (entry.data, None) if walking else begin(file, entry)
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


# What a zip archive says about its members: the directory at its end, or the headers before each.
#
# Read here and not by the standard library. That believes the numbers it finds and makes an object for every entry
# before anybody can count them. In Python 3.11.7 it does not see that entries share their bytes.
_END, _END64, _LOCATOR64 = b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x07"
_CENTRAL, _LOCAL = struct.Struct("<4s4B4HL2L5H2L"), struct.Struct("<4s5H3L2H")
_MOST_DIRECTORY = 64 << 20
_NOT_HERE = 0xFFFFFFFF  # the number is in the zip64 field
_UNIX, _DOS = 3, 0
_ENCRYPTED, _SIZES_BEHIND, _UTF8 = 0x1, 0x8, 0x800


@dataclass(frozen=True)
class Entry:
    """A member. Sizes are what the archive claims; None where only the data itself can tell."""

    name: str
    raw_name: bytes
    flags: int
    method: int
    crc: int | None
    packed: int | None
    size: int | None
    offset: int  # of its local header
    data: int  # where its bytes begin; 0 until the local header was read
    end: int  # where the next thing begins, at the latest
    system: int = _DOS
    mode: int = 0

    @property
    def is_directory(self) -> bool:
        return self.name.endswith("/") or (self.system == _DOS and self.name.endswith("\\")) or stat.S_ISDIR(self.mode)

    @property
    def is_windows(self) -> bool:
        """Whether a backslash separates directories in its name."""
        return self.system == _DOS

    @property
    def special(self) -> str | None:
        """What a member is that is no file."""
        if stat.S_ISLNK(self.mode):
            return "a symbolic link"
        return (Message("device_or_pipe") if stat.S_IFMT(self.mode) not in (0, stat.S_IFREG, stat.S_IFDIR) else None)

    @property
    def is_encrypted(self) -> bool:
        return bool(self.flags & _ENCRYPTED)


def listed(file: BinaryIO, most: int) -> list[Entry] | None:
    """The members by the directory at the end of the archive; None if it has none. Raises Damaged."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 66_000))
    tail = file.read()
    at = tail.rfind(_END)
    if at < 0 or len(tail) - at < 22:
        return None
    disk, begins, _, count, length, offset, _ = struct.unpack("<4H2LH", tail[at + 4 : at + 22])
    end = size - len(tail) + at
    if at >= 20 and tail[at - 20 :].startswith(_LOCATOR64):
        count, length, offset, end = _zip64(file, tail[at - 20 : at], end)
    elif disk or begins:
        raise IngestError("multi_volume", Message("one_several_parts_zip_archive"))
    if count > most or length > _MOST_DIRECTORY:
        raise IngestError(
            "too_many_files", Message("archive_files_more_than_load", {"n": f"{count:,}", "most": f"{most:,}"})
        )
    begin = end - length  # what stands before the archive (a program that unpacks itself) shifts every offset
    shift = begin - offset
    if begin < 0 or shift < 0:
        raise Damaged(Message("directory_zip_archive_lies_outside"))
    file.seek(begin)
    return _bounded(list(_central(file.read(length), shift, most)), begin)


def walked(file: BinaryIO, most: int) -> Iterator[Entry]:
    """The members of an archive without a directory, from one local header to the next.

    Whoever reads a member has to leave the file where the member's bytes ended.
    """
    for _ in range(most):
        offset = file.tell()
        head = file.read(_LOCAL.size)
        if not head.startswith(b"PK\x03\x04") or len(head) < _LOCAL.size:
            return
        _, _, flags, method, _, _, crc, packed, size, name_length, extra_length = _LOCAL.unpack(head)
        raw, extra = file.read(name_length), file.read(extra_length)
        if flags & _SIZES_BEHIND:
            crc, packed, size = None, None, None
        else:
            size, packed, _ = _sizes(extra, size, packed, 0)
        name = _name(raw, extra, flags)
        yield Entry(name, raw, flags, method, crc, packed, size, offset, file.tell(), 1 << 62)
    raise IngestError("too_many_files", Message("archive_more_than_files_load", {"n": f"{most:,}"}))


def skip_descriptor(file: BinaryIO, entry: Entry) -> None:
    """Move over the sizes that stand behind a member."""
    if not entry.flags & _SIZES_BEHIND:
        return
    at = file.tell()
    found = file.read(32)
    for length in (16, 12, 24, 20):  # with and without a signature, 4 or 8 bytes a size
        if found[length : length + 4] in (b"PK\x03\x04", b"PK\x01\x02"):
            file.seek(at + length)
            return
    file.seek(at + 16)


def begin(file: BinaryIO, entry: Entry) -> tuple[int, int]:
    """Where the bytes of a listed member begin and end, as its own header says. Raises Damaged."""
    file.seek(entry.offset)
    head = file.read(_LOCAL.size)
    if not head.startswith(b"PK\x03\x04") or len(head) < _LOCAL.size:
        raise Damaged(Message("its_header_is_not_where"))
    found = _LOCAL.unpack(head)
    if file.read(found[9]) != entry.raw_name:
        raise Damaged(Message("its_header_names_another_file"))
    data = entry.offset + _LOCAL.size + found[9] + found[10]
    if data + (entry.packed or 0) > entry.end:
        raise overlapping()
    return data, data + (entry.packed or 0)


def overlapping() -> IngestError:
    """The refusal of members that share bytes."""
    return IngestError("archive_bomb", Message("members_archive_share_their_bytes"))


def _zip64(file: BinaryIO, locator: bytes, end: int) -> tuple[int, int, int, int]:
    """Count, length and offset of the directory, and where it ends, of an archive with 64-bit numbers."""
    (at,) = struct.unpack("<Q", locator[8:16])
    for place in (at, end - 20 - 56):  # as told, or where it has to be if something stands before the archive
        if not 0 <= place <= end - 76:
            continue
        file.seek(place)
        record = file.read(56)
        if record.startswith(_END64):
            count, length, offset = struct.unpack("<3Q", record[32:56])
            return count, length, offset, place
    raise Damaged(Message("64_bit_directory_zip_archive"))


def _central(data: bytes, shift: int, most: int) -> Iterator[Entry]:
    """The entries of the directory, however many it claims to have."""
    at = number = 0
    while at + _CENTRAL.size <= len(data):
        (
            magic, _, system, _, _, flags, method, _, _, crc, packed, size,
            name_length, extra_length, comment_length, _, _, attributes, offset,
        ) = _CENTRAL.unpack_from(data, at)  # fmt: skip
        if magic != b"PK\x01\x02":
            break
        number += 1
        if number > most:
            raise IngestError("too_many_files", Message("archive_more_than_files_load", {"n": f"{most:,}"}))
        at += _CENTRAL.size
        raw, extra = data[at : at + name_length], data[at + name_length : at + name_length + extra_length]
        at += name_length + extra_length + comment_length
        size, packed, offset = _sizes(extra, size, packed, offset)
        mode = attributes >> 16 if system == _UNIX else 0
        name = _name(raw, extra, flags)
        yield Entry(name, raw, flags, method, crc, packed, size, offset + shift, 0, 0, system, mode)
    if at != len(data):
        raise Damaged(Message("directory_zip_archive_is_damaged"))


def _sizes(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """The three numbers, taken from the zip64 field where they say so."""
    field = _extra(extra, 1)
    numbers = [int.from_bytes(field[i : i + 8], "little") for i in range(0, len(field) - 7, 8)]
    found = [numbers.pop(0) if told == _NOT_HERE and numbers else told for told in (size, packed, offset)]
    return found[0], found[1], found[2]


def _extra(extra: bytes, wanted: int) -> bytes:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == wanted:
            return extra[at + 4 : at + 4 + length]
        at += 4 + length
    return b""


def _name(raw: bytes, extra: bytes, flags: int) -> str:
    """A member's name: as UTF-8 if it says so, else the UTF-8 twin beside it, else as it looks."""
    twin = _extra(extra, 0x7075)
    if not flags & _UTF8 and len(twin) > 5 and twin[1:5] == zlib.crc32(raw).to_bytes(4, "little"):
        raw, flags = twin[5:], _UTF8
    return names.text(raw, utf8=bool(flags & _UTF8))


def _bounded(entries: list[Entry], directory: int) -> list[Entry]:
    """Entries with their end: the next one's beginning. Those that reach into another are an attack."""
    order = sorted(entries, key=lambda entry: entry.offset)
    ends = {first.offset: second.offset for first, second in pairwise(order)}
    if len({entry.offset for entry in entries}) < len(entries):
        raise overlapping()
    found = []
    for entry in entries:
        end = ends.get(entry.offset, directory)
        least = entry.offset + _LOCAL.size + len(entry.raw_name) + (entry.packed or 0)
        if least > directory:
            raise Damaged(Message("member_zip_archive_lies_outside"))
        if least > end:
            raise overlapping()
        found.append(replace(entry, end=end))
    return found
