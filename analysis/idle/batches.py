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
from npulens.analysis.idle.within import Marks, Stretches, marked, stretches
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
    masks: tuple[Marks, ...]  # of each rank's stretches
    ns: int
    depth: int

    def lies_in(self, other: _Frame) -> bool:
        return all(bool((of | ~mine).all()) for mine, of in zip(self.masks, other.masks, strict=True))


def making(run: Run, found: Blame) -> Making | None:
    """The innermost frame within the loader's calls that has much of the time; None: nothing recorded says any."""
    if "python" not in run.get(span_kinds):
        return None
    pieces, cuts = run.get(idle), []
    for rank in found.ranks:
        mine = found.pieces[pieces.rank[found.pieces] == rank]
        if len(mine):
            cuts.append(stretches(run, rank, pieces.start[mine], pieces.end[mine]))
    whole = sum(int(cut.ns.sum()) for cut in cuts)
    frames = [one for one in _frames(run, cuts) if one.ns >= MUCH * whole]
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


def _frames(run: Run, cuts: list[Stretches]) -> list[_Frame]:
    """Functions that a loader's calls run and that may have much of the time, with what they have."""
    inside, of_name = [], dict[str, list[list[int]]]()
    for cut in cuts:
        known = run.get(special)[cut.rank]
        calls = marked(cut.spans, np.sort(known.ids[known.of("dataloader")]))
        at = np.flatnonzero((cut.spans.kinds == _PYTHON) & (cut.whole > 0))
        at = np.sort(at[np.argsort(-cut.whole[at], kind="stable")[:_FRAMES]])
        at = at[cut.around(at, calls) != NONE]
        inside.append(at)
    name = names(run, np.concatenate([cut.spans.ids[at] for cut, at in zip(cuts, inside, strict=True)])) if cuts else {}
    for number, (cut, at) in enumerate(zip(cuts, inside, strict=True)):
        for place, span in zip(at.tolist(), cut.spans.ids[at].tolist(), strict=True):
            text = name[span]
            if whose(text) in (OWN, PACKAGE):
                of_name.setdefault(text, [[] for _ in cuts])[number].append(place)
    whole, found = sum(int(cut.ns.sum()) for cut in cuts), []
    for text, places in of_name.items():
        if sum(int(cut.whole[of].sum()) for cut, of in zip(cuts, places, strict=True)) < MUCH * whole:
            continue
        masks, ns, depth = [], 0, 0
        for cut, of in zip(cuts, places, strict=True):
            marks = np.zeros(len(cut.spans.ids), np.bool_)
            marks[of] = True
            masks.append(cut.within(marks) != NONE)  # one that calls itself counts once
            ns += int(cut.ns[masks[-1]].sum())
            depth = max([depth, *(_depth(cut, place) for place in of[:1])])
        found.append(_Frame(text, tuple(masks), ns, depth))
    return found


def _depth(cut: Stretches, place: int) -> int:
    """How many spans are around a span."""
    depth = 0
    while (place := int(cut.spans.parent[place])) != NONE:
        depth += 1
    return depth


def _package(frame: str) -> str:
    return _told(frame).partition("/")[0].partition("(")[0]


def _told(frame: str) -> str:
    return code_of([("python", frame, None)]).frame or frame
