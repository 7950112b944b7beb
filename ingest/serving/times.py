"""When iterations were, and who was in them, from moments that are known.

An iteration of a log has a length and no time. It ended before the first of its tokens came out, and before the next
one began. An iteration of a trace has a time and no members: those are counted back from each request's last token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npulens.ingest.serving.counts import DECODE, PREFILL, Ints, Segment

NEVER = np.iinfo(np.int64).max // 4
#: From the end of an iteration to the moment that counts as its token's: what is tried, in ns.
_DELAYS = range(0, 20_000_001, 250_000)


def ends(lengths: Ints, before: Ints, known: Ints) -> Ints:
    """The latest end that each iteration may have had.

    ``before``: a moment that it ended before, or NEVER. ``known``: its end where it is recorded, or NEVER.
    """
    total = np.cumsum(lengths)
    least = np.minimum(before, known)
    latest = np.minimum.accumulate(np.where(least >= NEVER, NEVER, least - total)[::-1])[::-1]
    found = np.where(latest >= NEVER, NEVER, latest + total)
    return np.where(known < NEVER, known, found)


@dataclass(frozen=True)
class Answer:
    """The moments of a request's first and last token by its server, and how many there were."""

    first_ns: int
    last_ns: int
    tokens: int


@dataclass(frozen=True)
class CountedBack:
    segments: list[Segment]
    confidence: float  # share of the iterations in which as many requests generate as recorded
    delay_ns: int


def counted_back(answers: Sequence[Answer], end: Ints, generating: Ints, context: Ints) -> CountedBack | None:
    """The members of iterations whose ends are known, in order of time. None where nothing fits.

    A request generates in so many iterations before its last token as it has tokens after the first. The delay is the
    one with which most counts are met; of several it is the middle one.
    """
    if not len(end) or not answers:
        return None
    first, last, many = (
        np.array([getattr(one, name) for one in answers], np.int64) for name in ("first_ns", "last_ns", "tokens")
    )
    scores = [int((_decoders(*_windows(first, last, many, end, delay), len(end)) == generating).sum())
              for delay in _DELAYS]  # fmt: skip
    best = [delay for delay, score in zip(_DELAYS, scores, strict=True) if score == max(scores)]
    delay = best[len(best) // 2]
    begins, until = _windows(first, last, many, end, delay)
    segments = []
    for request, (begin, stop) in enumerate(zip(begins.tolist(), until.tolist(), strict=True)):
        if begin > stop:
            continue
        whole = stop - begin == many[request] - 2
        segments.append(Segment(request, DECODE, begin, stop, None, 1 if whole else None))
        if whole and begin and context[begin - 1]:
            segments.append(Segment(request, PREFILL, begin - 1, begin - 1, None, 0))
    return CountedBack(segments, max(scores) / len(end), delay)


def _windows(first: Ints, last: Ints, many: Ints, end: Ints, delay: int) -> tuple[Ints, Ints]:
    """The first and the last iteration in which each request generates; a later first is none."""
    after_first = np.searchsorted(end, first - delay, side="right")
    at_last = np.searchsorted(end, last - delay, side="right") - 1
    typical = int(np.median(np.diff(end))) if len(end) > 1 else 0
    ends_here = last - delay <= end[-1] + typical
    begins_here = first - delay >= end[0]
    begin = np.where(ends_here, np.maximum(0, at_last - many + 2), np.where(begins_here, after_first, 0))
    stop = np.where(ends_here, at_last, np.where(begins_here, after_first + many - 2, len(end) - 1))
    outside = (many < 2) | (last - delay < end[0]) | (first - delay > end[-1])
    return np.where(outside, 1, begin), np.where(outside, 0, np.minimum(stop, len(end) - 1))


def _decoders(begin: Ints, stop: Ints, size: int) -> Ints:
    """How many requests generate in each iteration."""
    there = begin <= stop
    change = np.bincount(begin[there], minlength=size + 1) - np.bincount(stop[there] + 1, minlength=size + 1)
    return np.asarray(np.cumsum(change[: size + 1])[:size], np.int64)
