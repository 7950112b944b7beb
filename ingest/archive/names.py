"""Names of members: which of them may name a file of ours, and what the others are called here instead.

Readers tell captures by names (`profiler_info_3.json`, `*_ascend_pt`, `PROF_...`), so a plain component keeps its name.
Any other gets one of ours, of the same length where it can be, every foreign character a `_`. What it was called is
kept for people, labels and the run's id.
"""

from __future__ import annotations

import re

from npulens.ingest.messages import Message

#: Longest component that keeps its name, and how much of the two ends of a longer one is kept.
MOST, _HEAD, _TAIL = 120, 50, 69
#: Deepest and longest path of a member that is looked at.
MOST_PARTS, MOST_PATH = 32, 4096

_PLAIN = re.compile(r"[A-Za-z0-9_=+@%-][A-Za-z0-9_.=+@%-]{0,119}")
_FOREIGN = re.compile(r"[^A-Za-z0-9_.=+@%-]")


class Unsafe(Exception):
    """Why a member's name is not followed."""

    def __init__(self, said: Message) -> None:
        super().__init__(said)
        self.said = said


def own(name: str) -> str:
    """The name itself if it is plain, else one of ours."""
    if _PLAIN.fullmatch(name):
        return name
    made = _FOREIGN.sub("_", name)
    if len(made) > MOST:
        made = f"{made[:_HEAD]}_{made[-_TAIL:]}"
    return "_" + made[1:] if made.startswith(".") else made


def own_again(name: str, number: int) -> str:
    """The same for a name that another component of the directory has, in this spelling or another."""
    return f"c{number}_{own(name)[-(MOST - 12) :]}"


def parts(name: str, *, windows: bool = False) -> tuple[str, ...]:
    """The components of a member's name; () for the archive's own root. Raises Unsafe."""
    if windows:
        name = name.replace("\\", "/")
    if len(name) > MOST_PATH:
        raise Unsafe(Message("its_name_has_characters", {"n": f"{len(name):,}"}))
    if "\0" in name:
        raise Unsafe(Message("its_name_holds_nul"))
    found = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in found:
        raise Unsafe(Message("its_name_leads_out_archive"))
    if len(found) > MOST_PARTS:
        raise Unsafe(Message("it_lies_directories_deep", {"n": len(found)}))
    return found


def text(raw: bytes, *, utf8: bool) -> str:
    """A name's characters. Old zip programs do not say the encoding: UTF-8 if it is, else the Chinese Windows one."""
    for encoding in ("utf-8",) if utf8 else ("utf-8", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("utf-8", "surrogateescape")
