"""Where the host's loop turns in a run whose steps nobody marked: at the read that each turn ends with.

A loop that reads its loss or its token waits there for all that it launched, then begins anew. Other reads lie within a
turn. They come more often, or keep the host for less, since they wait only for what was launched since the last one.
Reads are sorted into kinds by the kernels launched just before. The kind that marks a turn keeps the host about as long
as any, and comes most rarely. Between two of its reads nearly all recurring work must run; one of many layers is no
turn.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from npulens.analysis.idle.issue import Tasks
from npulens.analysis.intervals import Ints, combined
from npulens.analysis.run import Run

#: Kernels before a read that tell its kind.
_BEFORE = 4
#: A kind of reads that keeps the host at least this share of the longest waits for a turn's work.
_ABOUT_AS_LONG = 0.5
#: A turn runs at least this share of the kernels' names that recur; a layer lacks what comes before and after layers.
_WHOLE = 0.75


def turns(run: Run, did: Tasks, kernels: Ints, after: Ints, begins: Ints, ends: Ints) -> Ints:
    """When each turn ends: the end of its last call.

    `kernels` are places in `did` in the order in which they were issued. `after` is how many of them were issued when a
    call ended. Empty where no loop shows.
    """
    name = _names(run, did.ids[kernels])
    reads, of = np.unique(after, return_inverse=True)
    kept, until = np.zeros(len(reads), np.int64), np.zeros(len(reads), np.int64)
    np.maximum.at(kept, of, ends - begins)
    np.maximum.at(until, of, ends)
    padded = np.concatenate((np.full(_BEFORE, -1), name))
    before = np.stack([padded[reads + shift] for shift in range(_BEFORE)], axis=1)
    _, kind, count = np.unique(before, axis=0, return_inverse=True, return_counts=True)
    kind = kind.reshape(-1)
    waits = [(float(np.median(kept[kind == one])), int(count[one]), one) for one in np.flatnonzero(count > 1).tolist()]
    waits = sorted(wait for wait in waits if _is_turn(name, reads[kind == wait[2]]))
    if not waits:
        return until[:0]
    longest = waits[-1][0]
    of_turn = min((count, -ns, one) for ns, count, one in waits if ns >= _ABOUT_AS_LONG * longest)[2]
    found: Ints = until[kind == of_turn]
    return found


def _is_turn(name: Ints, at: Ints) -> bool:
    """Whether nearly all that recurs runs between two reads, in most cases."""
    codes, count = np.unique(name, return_counts=True)
    recurring = np.isin(name, codes[count > 1])
    every = int((count > 1).sum())
    if int(np.median(np.diff(at))) < _WHOLE * every:
        return False
    place = np.searchsorted(at, np.arange(len(name)), side="right")
    inside = recurring & (place > 0) & (place < len(at))
    _, first = np.unique(combined(place[inside], name[inside]), return_index=True)
    different = np.bincount(place[inside][first], minlength=len(at))[1 : len(at)]
    return bool(every) and float(np.median(different)) >= _WHOLE * every


def _names(run: Run, ids: Ints) -> Ints:
    """A number for the name of each kernel; collectives are numbered in their names, which says nothing."""
    rows = run.get(_numbered)
    found: Ints = rows["name"][np.searchsorted(rows["span_id"], ids)].astype(np.int64)
    return found


def _numbered(run: Run) -> dict[str, Any]:
    return run.columns(
        """
        SELECT span_id, dense_rank() OVER (
            ORDER BY CASE kind WHEN 'comm_op' THEN regexp_replace(name, '[0-9]+', '', 'g') ELSE name END) AS name
        FROM span WHERE kind IN ('kernel', 'memset', 'comm_op') ORDER BY span_id
        """
    )
