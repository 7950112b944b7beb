"""Several ranks in one file: mergers of traces put a label of the rank before the process of every event.

SGLang's merger writes ``[TP03-DP00] 4711``, older ones ``[TP03] 3`` or ``[TP0_EP0]...``. Each rank keeps its own
processes, threads, streams and numbers (correlation, External id, flows). The header is that of the first rank alone.
Files of TraceFuse have no labels; fused.py knows their ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from npulens.ingest.errors import IngestError
from npulens.ingest.events.source import open_source
from npulens.ingest.messages import Message
from npulens.ingest.readers import Facts
from npulens.ingest.readers.kineto import fused

#: Kinds of parallelism in the order in which ranks are usually counted: the last varies fastest.
_KINDS = ("RANK", "DP", "PP", "EP", "TP")
#: A kind whose number alone tells every rank of the file is the rank; these are asked first.
_ALONE = ("RANK", "TP", "EP", "DP", "PP")
_PART = r"(?:RANK|DP|PP|EP|TP)[-_ ]?\d{1,5}"
#: No kind has as many.
_EACH = 100_000
#: What a labelled process looks like, as a text.
_LABELLED = rf"^\[(?i:{_PART}(?:[-_, ]+{_PART})*)\]"
_LABEL = re.compile(_LABELLED)
_NUMBER = re.compile(r"(?i)(RANK|DP|PP|EP|TP)[-_ ]?(\d{1,5})")
_IN_FILE = re.compile(rb'"pid"\s*:\s*"(\[[^"\]]{1,80}\])')
#: How far a file is searched for labels, unpacked, and a labelled process at most: what a block's end may cut off.
_REACH, _BLOCK, _CUT = 16 << 30, 8 << 20, 160
#: More labels than this are no ranks of one host or job.
_MOST = 1024


#: Which texts are processes of one rank.
Mine = Callable[[pa.Array], NDArray[np.bool_]]


def processes_of(path: Path, device: int) -> Mine:
    """Tells the processes of one of the file's ranks, by its number within it."""
    if device >= 0:
        return partial(_labelled, device)
    ranks = fused.processes(path)
    own = [process for process, rank in ranks.items() if _fused(rank) == device]
    return partial(_named, pa.array(own, type=pa.string()))


def _named(own: pa.Array, texts: pa.Array) -> NDArray[np.bool_]:
    mine: NDArray[np.bool_] = pc.is_in(texts, value_set=own).to_numpy(zero_copy_only=False)
    return mine


def _labelled(device: int, texts: pa.Array) -> NDArray[np.bool_]:
    mine: NDArray[np.bool_] = pc.match_substring_regex(texts, _LABELLED).to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(mine):
        mine[at] = _number(texts[int(at)].as_py()) == device
    return mine


def _fused(rank: int) -> int:
    """The number within a file of TraceFuse: below those of labels."""
    return -1 - rank


def _number(process: str) -> int | None:
    """The number of a labelled process's rank within its file: one number for one label, whatever others there are."""
    label = _LABEL.match(process)
    if label is None:
        return None
    of, number = _parts(label.group()), 0
    for kind in _KINDS:
        number = number * _EACH + of.get(kind, 0)
    return number


def ranks(path: Path, head: bytes, tail: bytes, whole: Facts) -> tuple[tuple[int, Facts], ...]:
    """The ranks that the file holds, by their numbers within it, with the facts of each. None if it is of one rank."""
    if any(_LABEL.match(text.decode("utf-8", "replace")) for text in _IN_FILE.findall(head)):
        labels = [label for label in _labels(path) if _LABEL.match(label)]
        numbers, source = _numbers({label: _parts(label) for label in labels})
        return _facts(whole, {_number(label) or 0: rank for label, rank in numbers.items()}, source)
    if fused.is_fused(head, tail):
        told = {_fused(rank): rank for rank in fused.processes(path).values()}
        return _facts(whole, told if len(told) <= _MOST else {}, "metadata")
    return ()


def _facts(whole: Facts, numbers: Mapping[int, int], source: str) -> tuple[tuple[int, Facts], ...]:
    if len(numbers) < 2:
        return ()
    world = max(whole.world_size or 0, len(numbers), *(rank + 1 for rank in numbers.values()))
    each = (replace(whole, rank=rank, rank_source=source, world_size=world) for rank in numbers.values())
    return tuple(sorted(zip(numbers, each, strict=True), key=lambda one: one[0]))


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
