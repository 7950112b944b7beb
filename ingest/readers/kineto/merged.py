"""Several ranks in one file: mergers of traces put a label of the rank before the process of every event.

SGLang's merger writes ``[TP03-DP00] 4711``, older ones ``[TP03] 3`` or ``[TP0_EP0]...``. Each rank keeps its own
processes, threads, streams and numbers (correlation, External id, flows). The header is that of the first rank alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from npulens.ingest.errors import IngestError
from npulens.ingest.events.source import open_source
from npulens.ingest.messages import Message
from npulens.ingest.readers import Facts

#: Kinds of parallelism in the order in which ranks are usually counted: the last varies fastest.
_KINDS = ("RANK", "DP", "PP", "EP", "TP")
#: A kind whose number alone tells every rank of the file is the rank; these are asked first.
_ALONE = ("RANK", "TP", "EP", "DP", "PP")
_PART = r"(?:RANK|DP|PP|EP|TP)[-_ ]?\d{1,5}"
#: No kind has as many.
_EACH = 100_000
#: What a labelled process looks like, as a text.
LABELLED = rf"^\[(?i:{_PART}(?:[-_, ]+{_PART})*)\]"
_LABEL = re.compile(LABELLED)
_NUMBER = re.compile(r"(?i)(RANK|DP|PP|EP|TP)[-_ ]?(\d{1,5})")
_IN_FILE = re.compile(rb'"pid"\s*:\s*"(\[[^"\]]{1,80}\])')
#: How far a file is searched for labels, unpacked, and a labelled process at most: what a block's end may cut off.
_REACH, _BLOCK, _CUT = 16 << 30, 8 << 20, 160
#: More labels than this are no ranks of one host or job.
_MOST = 1024


def device(process: str) -> int | None:
    """The number of a labelled process's rank within its file: one number for one label, whatever others there are."""
    label = _LABEL.match(process)
    if label is None:
        return None
    of, number = _parts(label.group()), 0
    for kind in _KINDS:
        number = number * _EACH + of.get(kind, 0)
    return number


def ranks(path: Path, head: bytes, whole: Facts) -> tuple[tuple[int, Facts], ...]:
    """The ranks that the file holds, by their numbers within it, with the facts of each. None if it is of one rank."""
    if not any(_LABEL.match(text.decode("utf-8", "replace")) for text in _IN_FILE.findall(head)):
        return ()
    labels = [label for label in _labels(path) if _LABEL.match(label)]
    if len(labels) < 2:
        return ()
    numbers, source = _numbers({label: _parts(label) for label in labels})
    world = max(whole.world_size or 0, len(labels), *(number + 1 for number in numbers.values()))
    return tuple(
        (number, replace(whole, rank=rank, rank_source=source, world_size=world))
        for number, rank in sorted((device(label) or 0, rank) for label, rank in numbers.items())
    )


def _numbers(labels: Mapping[str, Mapping[str, int]]) -> tuple[dict[str, int], str]:
    """The rank of each label: a number of it that no two share, else its place in the usual order."""
    for kind in _ALONE:
        found = {label: of[kind] for label, of in labels.items() if kind in of}
        if len(set(found.values())) == len(labels):
            return found, "metadata"
    order = sorted(labels, key=lambda label: [labels[label].get(kind, 0) for kind in _KINDS])
    return {label: place for place, label in enumerate(order)}, "assumed"


def _parts(label: str) -> dict[str, int]:
    return {kind.upper(): int(number) for kind, number in _NUMBER.findall(label)}


def _labels(path: Path) -> Iterable[str]:
    """Every label before a process, in the order met; one pass over the file."""
    found: dict[bytes, None] = {}
    source, buffer, kept, seen = open_source(path), bytearray(_CUT + _BLOCK), 0, 0
    try:
        while seen < _REACH and len(found) <= _MOST:
            got = source.readinto(memoryview(buffer)[kept : kept + _BLOCK])
            if not got:
                break
            for match in _others(found).finditer(buffer, 0, kept + got):
                found[match.group(1)] = None
            cut = bytes(buffer[max(0, kept + got - _CUT) : kept + got])
            buffer[: len(cut)] = cut
            kept, seen = len(cut), seen + got
    finally:
        source.close()
    if len(found) > _MOST:
        raise IngestError("too_many_files", Message("it_names_more_than_ranks", {"n": _MOST}), str(path))
    return [label.decode("utf-8", "replace") for label in found]


def _others(known: Iterable[bytes]) -> re.Pattern[bytes]:
    """Finds labels that are not known yet, so that a block of events of one rank costs no Python per event."""
    but = b"|".join(map(re.escape, known))
    return re.compile(rb'"pid"\s*:\s*"' + (rb"(?!" + but + rb")" if but else b"") + rb"(\[[^\"\]]{1,80}\])")
