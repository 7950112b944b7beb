"""Tar, read forward once. Python's parser reads the headers; nothing of it touches the disk."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import IO, cast

from npulens.ingest.archive import codec, names
from npulens.ingest.archive.codec import Bytes
from npulens.ingest.archive.tree import Damaged, Tree
from npulens.ingest.messages import Message

#: Longest header: a path of 4 KB and some attributes need a thousandth of it.
_MOST_HEADER = 1 << 18
_BAD = (tarfile.TarError, ValueError, IndexError, KeyError, OverflowError, RecursionError)
_LINKS = {tarfile.SYMTYPE: "a symbolic link", tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device",
          tarfile.FIFOTYPE: "a pipe"}  # fmt: skip


def unpack(data: Bytes, tree: Tree) -> None:
    """Every member that is whole; what ends the archive early is the tree's damage."""
    forward = _Forward(data, tree)
    try:
        for info in _headers(forward):
            tree.budget.member(len(info.name))
            _member(info, data, tree)
        _end(forward, tree)
    except (*_BAD, Damaged) as error:
        tree.damage = data.damage or Message("tar_archive_is_damaged_at", {"n": f"{data.position:,}", "error": error})


def _headers(forward: _Forward) -> Iterator[tarfile.TarInfo]:
    """Header after header; the data between them is whoever's reads on."""
    archive = tarfile.TarFile(fileobj=cast("IO[bytes]", forward), mode="r", encoding="utf-8", errors="surrogateescape")
    while (info := archive.next()) is not None:
        vars(archive)["members"].clear()  # it would keep every header
        yield info


def _member(info: tarfile.TarInfo, data: Bytes, tree: Tree) -> None:
    try:
        parts = names.parts(info.name)
        target = names.parts(info.linkname) if info.islnk() else ()
    except names.Unsafe as why:
        return tree.lose(info.name, why.said)
    if info.sparse is not None:
        tree.lose(info.name, Message("sparse_file_which_is_not"))
    elif info.isdir():
        if tree.directory(parts) is None:
            tree.lose(info.name, Message("file_and_directory_have_same"))
    elif info.islnk():
        original = tree.file(target)
        if original is None or not parts:
            tree.lose(info.name, Message("hard_link_to_file_that"))
        elif original != tree.file(parts):
            tree.write(parts, codec.plain(original))
    elif info.isreg() and parts:
        tree.write(parts, _content(data, info.size))
    else:
        tree.skip(info.name, Message("which_is_not_followed", {"what": _LINKS.get(info.type, "no file")}))


def _content(data: Bytes, size: int) -> Iterator[bytes]:
    if size < 0:
        raise Damaged(Message("it_has_negative_size"))
    left = size
    while left:
        if not (block := data.some(min(left, 1 << 20))):
            raise Damaged(data.damage or Message("archive_is_cut_short"))
        left -= len(block)
        yield block


def _end(forward: _Forward, tree: Tree) -> None:
    """Why there is no further header: the mark of the end, or a damage that the parser takes for one."""
    data, last = forward.data, forward.last
    if data.damage is None and len(last) == tarfile.BLOCKSIZE and not last.strip(b"\0"):
        for block in data.rest():
            tree.budget.spend(len(block))
            if block.strip(b"\0"):
                tree.damage = Message("more_data_follows_end_mark")
                return
    elif data.damage is not None or len(last) < tarfile.BLOCKSIZE:
        tree.damage = data.damage or Message("tar_archive_is_cut_short")
    else:
        tree.damage = Message("tar_archive_is_damaged_before", {"n": f"{data.position:,}"})


class _Forward:
    """What Python's parser takes for a file: it may only go forward, and read no more than a header at once."""

    def __init__(self, data: Bytes, tree: Tree) -> None:
        self.data, self.last, self._tree = data, b"", tree

    def read(self, size: int) -> bytes:
        if not 0 <= size <= _MOST_HEADER:
            raise Damaged(Message("header_of_bytes", {"n": f"{size:,}"}))
        self.last = self.data.read(size)
        return self.last

    def tell(self) -> int:
        return self.data.position

    def seek(self, position: int) -> None:
        if position < self.data.position:
            raise Damaged(Message("member_negative_size"))
        self._tree.budget.spend(self.data.skip(position - self.data.position))
