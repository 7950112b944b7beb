"""Archives: unpacked member by member, under names of our own, in a child process that may die.

`recognise` tells an archive by its first bytes, whatever it is called. `unpack` (here: what the child runs) streams it
into a directory of ours. A member's name never becomes a path. `tree` rebuilds a component only if it is plain, and
keeps what it was called in a mapping. Nothing is believed that an archive says about itself: sizes are counted on the
bytes that come out.
"""

from __future__ import annotations

from pathlib import Path

from npulens.ingest.archive import codec, tarball, zipped
from npulens.ingest.archive.kinds import BLOCK, Kind, is_tar, recognise, stem
from npulens.ingest.archive.tree import Budget, Tree, Unpacked
from npulens.ingest.errors import IngestError
from npulens.ingest.loading.quota import Quota
from npulens.ingest.messages import Message

__all__ = ["Kind", "Unpacked", "recognise", "stem", "unpack"]


def unpack(path: Path, kind: Kind, into: Path, quota: Quota, name: str) -> Unpacked:
    """Everything of an archive that is whole, below ``into``; ``name`` is what its file is called for people.

    Raises IngestError for an archive that is no capture's: a bomb, overlapping members, more than the quota.
    """
    into.mkdir()
    tree = Tree(into, Budget(quota, path.stat().st_size, into))
    if kind is Kind.zip:
        zipped.unpack(path, tree)
    elif kind is Kind.tar:
        tarball.unpack(codec.Bytes(codec.plain(path)), tree)
    else:
        data = codec.Bytes(codec.blocks(path, kind))
        if is_tar(data.peek(BLOCK)):
            tarball.unpack(data, tree)
        elif data.peek(1):
            tree.write((stem(name, kind),), data.rest())
        elif data.damage is not None:
            tree.damage = data.damage
        else:
            raise IngestError("empty", Message("file_nothing", {"kind": kind.value}))
    return tree.outcome()
