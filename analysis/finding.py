"""What a detector says, and what a fix of it would change.

A detector judges; it never computes its own saving. It names the `Change` that a fix would make, and the engine replays
the run with that change (analysis/replay/whatif.py). So every saving is measured in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from npulens.analysis.intervals import Intervals, Ints
from npulens.analysis.serving.replay import Edit

Confidence = Literal["high", "medium", "low"]
#: A number in a finding. The name's ending is its unit: _ns, _bytes, _share, _bytes_per_s, else a count.
Value = int | float | str | None | list[int] | list[str]

#: The measure of a saving that is of the mean step.
STEP = "step"
#: From which share of the step on a finding is called so.
SEVERITIES = ((0.10, "high"), (0.03, "medium"), (0.0, "low"))


@dataclass(frozen=True)
class Evidence:
    """A time window that any page can draw."""

    rank: int
    ts_ns: int
    dur_ns: int
    span_id: int | None = None
    note: str = ""  # names from the trace; never a sentence, so that it needs no translation


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True)
class Change:
    """What would be different if the cause were gone. Everything else stays as it was recorded.

    `host`: rank -> host time that would not be spent. `tasks`: device spans (kernels, copies,
    collectives) and how much shorter each would be. `delays`: device spans and how much earlier
    each could start than its launch latency or its unexplained delay let it. `syncs`: host spans
    that would not wait for the device any more. `peers`: collective operators and how much
    earlier their latest peer would come. `cut`: rank -> time that its whole timeline, host and
    device alike, would lose, whatever it did then.
    """

    host: Mapping[int, Intervals] = field(default_factory=dict)
    tasks: Ints = field(default_factory=_none)
    task_ns: Ints = field(default_factory=_none)
    delays: Ints = field(default_factory=_none)
    delay_ns: Ints = field(default_factory=_none)
    syncs: Ints = field(default_factory=_none)
    peers: Ints = field(default_factory=_none)
    peer_ns: Ints = field(default_factory=_none)
    cut: Mapping[int, Intervals] = field(default_factory=dict)

    def __or__(self, other: Change) -> Change:
        """Both fixes at once; where both shorten the same span, the greater counts."""
        return together((self, other))


def together(changes: Sequence[Change]) -> Change:
    """All fixes at once; where several shorten the same span, the greatest counts."""
    if len(changes) < 2:
        return changes[0] if changes else Change()
    return Change(
        _all([one.host for one in changes]),
        *_greatest([(one.tasks, one.task_ns) for one in changes]),
        *_greatest([(one.delays, one.delay_ns) for one in changes]),
        np.unique(np.concatenate([one.syncs for one in changes])),
        *_greatest([(one.peers, one.peer_ns) for one in changes]),
        _all([one.cut for one in changes]),
    )


def _all(every: Sequence[Mapping[int, Intervals]]) -> dict[int, Intervals]:
    """Per rank the union of its windows."""
    of: dict[int, list[Intervals]] = {}
    for one in every:
        for rank, windows in one.items():
            of.setdefault(rank, []).append(windows)
    return {
        rank: Intervals.union_of(
            np.concatenate([one.starts for one in mine]), np.concatenate([one.ends for one in mine])
        )
        for rank, mine in of.items()
    }


def _greatest(every: Sequence[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    """Each span once, with the most that it is shortened by."""
    spans, where = np.unique(np.concatenate([ids for ids, _ in every]), return_inverse=True)
    most = np.zeros(len(spans), np.int64)
    np.maximum.at(most, where, np.concatenate([ns for _, ns in every]))
    return spans.astype(np.int64), most


@dataclass(frozen=True)
class Gain:
    """What a fix does to one measure of serving or of a step of reinforcement learning."""

    measure: str  # of analysis/serving/words.py
    before: float  # as recorded: ns, or requests for goodput
    after: float
    error: float  # by which share a replay of what was misses it; 0 where nothing was replayed
    of: int | None = None  # goodput: all requests

    @property
    def share(self) -> float:
        return (self.before - self.after) / self.before if self.before else 0.0


@dataclass(frozen=True)
class Candidate:
    """One thing a detector noticed. The engine measures it and drops what is below the limit."""

    cause: str  # of analysis/causes.py
    text: str  # key of the detector's TEXT: which sentences say it
    #: What the sentences mention, and more for those who look closer. "per": ONCE says that it happened once.
    numbers: Mapping[str, Value]
    evidence: tuple[Evidence, ...]  # the largest first; at least one
    change: Change
    confidence: Confidence = "high"
    ceiling_ns: int | None = None  # of the whole run: the saving is never more, whatever the replay says
    #: What was seen lost, in the whole run, however little a fix gives back. A large one is never clean: it is masked.
    measured_ns: int | None = None
    #: Where a capture tells only a part of what is lost to it: all that may be, in the whole run.
    most_ns: int | None = None
    #: False where no replay can tell what a fix gives back: the saving is the ceiling itself.
    replayed: bool = True
    #: Of serving: what would be different, for the replay of requests (analysis/serving/replay.py).
    edit: Edit | None = None
    #: What no replay has to find out: the lead first.
    gains: tuple[Gain, ...] = ()


@dataclass(frozen=True)
class Words:
    """The sentences of one finding; {name} stands for a number, written with its unit."""

    title: str
    advice: str

    def advising(self, lang: str, sentence: str) -> Words:
        """With one more sentence of advice; in Chinese no blank is between two."""
        blank = " " if self.advice and lang != "zh" else ""
        return replace(self, advice=f"{self.advice}{blank}{sentence}")


class NotMeasured(Exception):
    """A detector found out while running that the capture cannot say: why, and what would record it, if anything.

    ``recordable``: whether it is a matter of what was recorded at all.
    """

    def __init__(self, why: str, why_zh: str, collect_with: str | None, recordable: bool = True) -> None:
        super().__init__(why)
        self.why, self.why_zh, self.collect_with, self.recordable = why, why_zh, collect_with, recordable


def severity(share: float) -> str:
    return next(name for least, name in SEVERITIES if share >= least)


@dataclass(frozen=True)
class Finding:
    """A candidate that was measured and is worth reading about."""

    detector: str
    cause: str
    severity: str
    words: dict[str, Words]  # by language, with their numbers filled in
    saving_ns: int  # of its measure, what the capture tells
    saving_most_ns: int  # the ceiling: more than that where part of the run cannot move, or not all was recorded
    saving_share: float
    confidence: Confidence
    numbers: dict[str, Value]
    evidence: tuple[Evidence, ...]
    change: Change
    #: What the saving is of: the mean step, or the measure that comes first among the gains.
    measure: str = STEP
    gains: tuple[Gain, ...] = ()
    edit: Edit | None = None
    text: str = ""  # which of the detector's sentences say it
    replayed: bool = True  # False: no change of the run is known, and the saving is all that was seen lost

    def with_saving(self, saving_ns: int) -> Finding:
        """The same with less to save: the rest is told by others."""
        share = self.saving_share * saving_ns / self.saving_ns
        return replace(
            self, saving_ns=saving_ns, saving_most_ns=max(saving_ns, self.saving_most_ns), saving_share=share,
            severity=severity(share),
        )  # fmt: skip

    def as_dict(self, lang: str = "en") -> dict[str, Any]:
        """The keys that `npulens check --json` promises."""
        words = self.words[lang]
        return {
            "detector": self.detector, "cause": self.cause, "severity": self.severity,
            "title": words.title, "advice": words.advice, "saving_ns": self.saving_ns,
            "saving_most_ns": self.saving_most_ns, "saving_share": self.saving_share, "confidence": self.confidence,
            "numbers": self.numbers, "measure": self.measure, "gains": [vars(gain) for gain in self.gains],
            "evidence": [vars(evidence) for evidence in self.evidence],
        }  # fmt: skip
