"""What a run's own iterations say of its engine: how long an iteration takes, and what the scheduler may do.

The fit weighs absolute differences, so that a few slow iterations do not move it. An iteration or a gap far above its
fit is a stall. Limits of the scheduler are those that the run was seen at: nothing here is configuration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from npulens.analysis.intervals import Ints
from npulens.analysis.serving.replay import Floats, Model, Rest, Stall

#: An iteration that takes so many times its fit, and so many iterations of decoders more than it, is a stall.
STALL, STALL_MORE = 8.0, 10.0
#: The fit stands still where a round changes nothing by more than this share; some real engines take 60 rounds.
_ROUNDS, _STILL = 80, 1e-5
#: What the fit leaves over is kept by like length: at most so many parts, of at least so many iterations each.
_PARTS, _EACH = 24, 24


@dataclass(frozen=True)
class Columns:
    """The iterations of a run as columns, in order of time, engine by engine."""

    ts_ns: Ints
    dur_ns: Floats
    gap_ns: Floats  # until the next one of its engine, while there was work; 0: none, or not known
    context: Floats  # tokens of prompts, and those computed again
    decoders: Floats
    tokens: Floats  # of decoders as computed: padded where that is known
    eager: NDArray[np.bool_]  # decoders ran without a graph
    drafting: NDArray[np.bool_]  # drafted tokens were verified


def fitted(rows: Columns, together: bool = False) -> tuple[Model, Floats, NDArray[np.bool_]]:
    """The model without limits, what it says of every iteration, and which of them are stalls.

    Of engines that begin their iterations `together` only the one that has most to do tells how long its work takes.
    """
    leads = _leads(rows, rows.context + rows.tokens) if together else np.ones(len(rows.dur_ns), np.bool_)
    kept = leads & (rows.dur_ns > 0)
    plain = rows.context == 0
    typical = float(np.median(rows.dur_ns[plain])) if plain.any() else float(np.median(rows.dur_ns))
    columns = np.stack(
        [
            np.ones(len(rows.dur_ns)), rows.context > 0, rows.context, rows.tokens, rows.eager & plain,
            rows.drafting & (plain & (rows.decoders > 0) & ~rows.drafting).any(),
        ],
        axis=1,
    ).astype(np.float64)  # fmt: skip
    for _ in range(3):
        parts = _least(columns[kept], rows.dur_ns[kept])
        said = columns @ parts
        leads = _leads(rows, said) if together else leads
        kept = leads & ~((rows.dur_ns > STALL * said) & (rows.dur_ns - said > STALL_MORE * typical))
    stopped = rows.gap_ns > STALL_MORE * typical
    order = np.flatnonzero(kept)[np.argsort(said[kept], kind="stable")]
    stalls = [
        *_stalls(rows.ts_ns[leads & ~kept], (rows.dur_ns - said)[leads & ~kept]),
        *_stalls(rows.ts_ns[stopped] + rows.dur_ns[stopped], rows.gap_ns[stopped]),
    ]
    rows = replace(rows, gap_ns=np.where(stopped, 0.0, rows.gap_ns))
    base, context, context_token, decoder, eager, draft = (float(part) for part in parts)
    model = Model(
        base, context, context_token, decoder, eager_ns=eager, draft_ns=draft, together=together,
        stalls=tuple(sorted(stalls, key=lambda stall: stall.ts_ns)),
        rests=tuple(_rest(rows, said, part) for part in _parted(said, order)),
    )  # fmt: skip
    return model, said, leads & ~kept


def _stalls(ts_ns: Floats | Ints, more_ns: Floats) -> list[Stall]:
    return [Stall(int(ts), int(more)) for ts, more in zip(ts_ns, more_ns, strict=True)]


def _leads(rows: Columns, work: Floats) -> NDArray[np.bool_]:
    """Of iterations that begin at once the one with most work."""
    order = np.lexsort((work, rows.ts_ns))
    last = np.append(np.diff(rows.ts_ns[order]) > 0, True)
    leads = np.zeros(len(work), np.bool_)
    leads[order[last]] = True
    return leads


def _parted(said: Floats, order: Ints) -> list[Ints]:
    """The iterations in parts of like length; those that the fit says take the same stay together."""
    count = max(1, min(_PARTS, len(order) // _EACH))
    parts: list[Ints] = []
    begin = 0
    for part in range(1, count + 1):
        end = int(np.searchsorted(said[order], said[order][len(order) * part // count - 1], "right"))
        if end > begin:
            parts.append(order[begin:end])
            begin = end
    return parts


def _rest(rows: Columns, said: Floats, part: Ints) -> Rest:
    mine = part[np.argsort(rows.ts_ns[part], kind="stable")]
    more, gaps = (rows.dur_ns - said)[mine], rows.gap_ns[mine]
    return Rest(float(said[part].min()), tuple(rows.ts_ns[mine].tolist()), tuple(more.tolist()), tuple(gaps.tolist()))


def _least(columns: Floats, wanted: Floats) -> Floats:
    """The least absolute differences, with nothing below zero: reweighted squares."""
    weight, parts = np.ones(len(wanted)), np.zeros(columns.shape[1])
    used: NDArray[np.bool_] = np.asarray(columns.any(axis=0))
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)[:, None]
        while used.any():
            found = np.linalg.lstsq(columns[:, used] * root, wanted * root[:, 0], rcond=None)[0]
            if (found >= 0).all():
                break
            used[np.flatnonzero(used)[found < 0]] = False
        before, parts = parts, np.zeros(columns.shape[1])
        parts[used] = found
        if np.allclose(before, parts, rtol=_STILL, atol=0):
            break
        weight = 1 / np.maximum(np.abs(wanted - columns @ parts), 1e3)
    return parts
