"""What a data loader's process does until a batch is there: whether it has workers, and in which code it makes samples.

PyTorch marks the iterator that a call belongs to. Without workers the dataset is read within the call, so that the
Python frames in it tell where the time goes. Of those the innermost one counts that has much of it: what is around it
only calls it. Frames of the framework and of the standard library tell nothing that somebody can change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npulens.analysis.idle.blame import Blame
from npulens.analysis.idle.culprit import OWN, PACKAGE, code_of, names, whose
from npulens.analysis.idle.host_names import HOST_KINDS, span_kinds, special
from npulens.analysis.idle.host_names import names as names_of_kinds
from npulens.analysis.idle.host_spans import NONE
from npulens.analysis.idle.pieces import idle
from npulens.analysis.idle.within import Marks, Stretches, largest, stretches
from npulens.analysis.run import Run

#: A frame with this share of the time that the device waits for batches is worth naming.
MUCH = 0.4
#: So many frames are looked at, and pieces of waiting: the longest.
_FRAMES, _CALLS = 20_000, 1_000
_PYTHON = HOST_KINDS.index("python")

#: The iterator without workers, and the reading of a dataset, which others do in their workers.
_ALONE = r"SingleProcessDataLoaderIter|(?:^|/)torch/utils/data/_utils/fetch\.py\(\d+\): fetch$"
_WORKERS = r"MultiProcessingDataLoaderIter"
_KINDS_OF_CALLS = """
    WITH call AS (SELECT track, ts_ns, ts_ns + dur_ns AS end_ns FROM span WHERE list_contains($1, span_id)),
    named AS (
        SELECT kind, name, regexp_matches(name, $2) AS alone FROM {names}
        WHERE kind IN ('python', 'annotation', 'cpu_op') AND (alone OR regexp_matches(name, $3))
    )
    SELECT count(*) > 0 AND bool_and(alone) FROM span s JOIN named USING (kind, name) JOIN call c
    ON c.track = s.track AND s.ts_ns < c.end_ns AND s.ts_ns + s.dur_ns > c.ts_ns
"""


def in_process(run: Run, found: Blame) -> bool:
    """Whether of the calls that are waited for most all that say who hands the batches over say that no worker does."""
    calls = np.unique(run.get(idle).host[found.pieces[:_CALLS]]).tolist()
    sql = _KINDS_OF_CALLS.format(names=run.get(names_of_kinds))
    ((alone,),) = run.con.execute(sql, [calls, _ALONE, _WORKERS]).fetchall()
    return bool(alone)


@dataclass(frozen=True)
class Making:
    """The code in which most of the waiting for batches goes by."""

    code: str
    share: float  # of the time that the device waits for batches
    caller: str | None  # a package's function: the innermost one of other code around it


@dataclass(frozen=True)
class _Frame:
    name: str
    mask: Marks  # of the stretches
    ns: int
    depth: int

    def lies_in(self, other: _Frame) -> bool:
        return bool((other.mask | ~self.mask).all())


def making(run: Run, found: Blame) -> Making | None:
    """The innermost frame within the loader's calls that has much of the time; None: nothing recorded says any."""
    if "python" not in run.get(span_kinds):
        return None
    pieces = run.get(idle)
    mine = found.pieces[np.isin(pieces.rank[found.pieces], found.ranks)]
    waiting = stretches(run, pieces.rank[mine], pieces.start[mine], pieces.end[mine])
    whole = int(waiting.ns.sum())
    frames = [one for one in _frames(run, waiting) if one.ns >= MUCH * whole]
    leaves: list[_Frame] = []
    for one in sorted(frames, key=lambda one: (-one.depth, one.name)):
        if not any(leaf.lies_in(one) for leaf in leaves):
            leaves.append(one)
    if not leaves:
        return None
    best = max(leaves, key=lambda one: (one.ns, one.depth, one.name))
    around = [
        one for one in frames
        if one.depth < best.depth and best.lies_in(one) and _package(one.name) != _package(best.name)
    ]  # fmt: skip
    caller = max(around, key=lambda one: (one.depth, one.name), default=None)
    outside = caller is not None and whose(best.name) == PACKAGE
    return Making(_told(best.name), best.ns / max(1, whole), _told(caller.name) if caller and outside else None)


def _frames(run: Run, waiting: Stretches) -> list[_Frame]:
    """Functions that a loader's calls run and that may have much of the time, with what they have."""
    known = [run.get(special)[rank] for rank in waiting.ranks.tolist()]
    loads = np.concatenate([np.zeros(0, np.int64), *(some.ids[some.of("dataloader")] for some in known)])
    calls = waiting.of_ids(np.sort(loads))
    at = np.flatnonzero((waiting.kinds == _PYTHON) & (waiting.whole > 0))
    at = np.sort(at[largest(waiting.of_span[at], waiting.whole[at], _FRAMES)])
    at = at[waiting.around(at, calls) != NONE]
    name, of_name = names(run, waiting.ids[at]), dict[str, list[int]]()
    for place, span in zip(at.tolist(), waiting.ids[at].tolist(), strict=True):
        if whose(name[span]) in (OWN, PACKAGE):
            of_name.setdefault(name[span], []).append(place)
    whole, found = int(waiting.ns.sum()), []
    for text, places in of_name.items():
        if int(waiting.whole[places].sum()) < MUCH * whole:
            continue
        marks = np.zeros(len(waiting.ids), np.bool_)
        marks[places] = True
        mask = waiting.within(marks) != NONE  # one that calls itself counts once
        _, first = np.unique(waiting.of_span[places], return_index=True)
        depth = max(_depth(waiting, places[one]) for one in first.tolist())
        found.append(_Frame(text, mask, int(waiting.ns[mask].sum()), depth))
    return found


def _depth(waiting: Stretches, place: int) -> int:
    """How many spans are around a span."""
    depth = 0
    while (place := int(waiting.parent[place])) != NONE:
        depth += 1
    return depth


def _package(frame: str) -> str:
    return _told(frame).partition("/")[0].partition("(")[0]


def _told(frame: str) -> str:
    return code_of([("python", frame, None)]).frame or frame
