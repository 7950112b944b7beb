"""What is said of one night. A report, a message, a page or an exit code is made from it and nothing else."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, stored

NAME = "night.json"
Status = Literal["done", "part", "failed", "unreached", "unmeasured"]
Verdict = Literal[
    "regressed", "open", "likely", "machine", "improved", "fixed", "ambiguous", "young", "accepted", "same"
]
#: What a reader wants to see first.
ORDER: tuple[Verdict, ...] = (
    "regressed", "open", "likely", "machine", "fixed", "improved", "ambiguous", "young", "accepted", "same",
)  # fmt: skip
#: What a night is about; the other verdicts are in the table.
TOLD: tuple[Verdict, ...] = ("regressed", "open", "likely", "machine", "fixed", "improved")
Outcome = Literal["regressed", "open", "broken", "likely", "machine", "improved", "fixed", "learning", "quiet"]
#: What else a night may be about, where nothing regressed and nothing failed.
_NO_ALARM: tuple[Literal["likely", "machine", "improved", "fixed"], ...] = ("likely", "machine", "improved", "fixed")
#: Of a night that lies outside the band of those before it, and may be the first of a new level.
OUTSIDE = "settles_band"
#: Of a dated change that chance may have brought: it stays news until it is sure.
MAYBE_CHANCE = "settles_many"


class Said(msgspec.Struct, frozen=True):
    """A sentence of app/nightly/words.py and what is filled in."""

    key: str
    values: dict[str, Any] = {}


def because(key: str, reason: object, values: Mapping[str, object] = {}) -> Said:
    """A sentence with a reason: its English, and beside it the message that it is, where it is one."""
    why = reason.said() if isinstance(reason, IngestError) else reason
    data = {"said": stored(why)} if isinstance(why, Message) else {}
    return Said(key, {**values, "reason": str(why or "-"), **data})


class Share(msgspec.Struct, frozen=True):
    """A part of a change of the step: a kernel, a kind of gap, a copy, a transfer."""

    kind: str
    what: str
    delta_ns: int
    shapes: str = ""  # of a kernel


class Hint(msgspec.Struct, frozen=True):
    """A condition that changed where the series did, and whether it is one of the machine."""

    name: str
    before: str
    after: str
    machine: bool
    score: float  # how well the condition and the series change together, 0 to 1


class Commits(msgspec.Struct, frozen=True):
    """The commits between two that a change lies between, and who wrote the last of them."""

    old: str
    new: str
    subject: str
    author: str
    between: int  # after old up to new; 0 where new does not follow old


class Spot(msgspec.Struct, frozen=True):
    """A night of a series."""

    night: str
    value: float
    usable: bool = True


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """A regression that was told. It stays in every night until it is measured as fixed, or accepted."""

    number: int  # the metrics of one task that moved in one night share it
    task: str
    identity: str
    metric: str
    unit: str
    better: Literal["lower", "higher"]
    by: Literal["pairs", "history"]
    level: float  # before it
    told: float  # the ratio to it when it was told
    ratio: float  # the ratio to it now
    since: str  # the first night of the new level
    since_ns: int
    opened: str  # the night that told it
    seen: str  # the last night that measured it
    state: Literal["open", "accepted", "fixed"] = "open"
    closed: str = ""  # the night that measured it as fixed, the day on which it was accepted
    who: str = ""  # who accepted or muted it, why, and until which day
    why: str = ""
    until: str = ""
    owner: str = ""
    muted: bool = False  # in the table and in no headline, message or exit status
    hints: tuple[Hint, ...] = ()
    confirm: str = ""
    run_id: str | None = None
    base_run: str | None = None
    parts: tuple[Share, ...] = ()
    parts_ns: int | None = None
    rest_ns: int = 0
    residual_ns: int | None = None
    slope: float | None = None  # of one that goes on night by night: a share of the level a night


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of one thing: what it was tonight, and what that means."""

    task: str
    identity: str
    where: str  # hardware, shapes and configuration for people
    metric: str
    unit: str
    better: Literal["lower", "higher"]
    value: float
    verdict: Verdict
    by: Literal["pairs", "history"]
    fresh: bool = False  # tonight is the first night that says so
    since: str | None = None  # the first night of the new level
    since_ns: int | None = None  # and its moment
    ratio: float | None = None  # after / before
    low: float | None = None
    high: float | None = None
    p: float | None = None
    n: int = 0
    level: float | None = None  # what it is compared with
    floor: float | None = None  # noise of this metric here, as a share
    method: str = ""
    settles: Said | None = None
    hints: tuple[Hint, ...] = ()
    confirm: str = ""  # the command that would tell
    next: str = ""  # the command that leads on from there, or where nothing would tell
    commits: Commits | None = None
    parts: tuple[Share, ...] = ()  # with rest_ns and residual_ns they sum to parts_ns
    parts_ns: int | None = None  # by how much the step of run_id is longer than that of base_run
    rest_ns: int = 0
    residual_ns: int | None = None
    run_id: str | None = None
    base_run: str | None = None
    series: tuple[Spot, ...] = ()
    changes: tuple[str, ...] = ()  # nights at which its level changed
    number: int | None = None  # of the regression it belongs to
    owner: str = ""
    muted: bool = False
    share: float | None = None  # of the step, where it is a part of one
    step: Verdict | None = None  # and what is said of that step
    slope: float | None = None  # of a change that goes on night by night: a share of the level a night
    standing: Verdict | None = None  # what tonight alone says, where an open regression says more


class Task(msgspec.Struct, frozen=True):
    """What became of one task of the configuration."""

    name: str
    kind: str
    status: Status
    done: int
    planned: int
    seconds: float
    reason: Said | None = None


class Night(msgspec.Struct, frozen=True, kw_only=True):
    """One night of one configuration."""

    name: str
    label: str
    at_ns: int
    began: str
    ended: str
    seconds: float
    budget_s: float
    tasks: tuple[Task, ...]
    rows: tuple[Row, ...]
    notices: tuple[Said, ...] = ()
    dashboard: str = ""
    made_by: str = ""

    def of(self, verdict: Verdict) -> list[Row]:
        """The rows with a verdict that tonight is about: pairs say it every night, history once."""
        stays = verdict in ("open", "likely")
        pairs = verdict in ("regressed", "improved")
        return [
            row for row in self.rows
            if row.verdict == verdict and not row.muted and (row.fresh or stays or (pairs and row.by == "pairs"))
        ]  # fmt: skip

    @property
    def outside(self) -> list[Row]:
        """The rows that may be the first night of a change."""
        return [row for row in self.rows if row.settles is not None and row.settles.key == OUTSIDE]

    @property
    def young(self) -> list[Row]:
        """The rows whose noise nobody knows yet."""
        return [row for row in self.rows if row.verdict == "young"]

    @property
    def slowed(self) -> list[Row]:
        """The rows that the machine made worse in an earlier night, and that are worse still."""
        return [
            row for row in self.rows
            if row.verdict == "machine" and not row.fresh and row.since is not None and row.number is None
            and row.ratio is not None and (row.ratio > 1) == (row.better == "lower")
        ]  # fmt: skip

    @property
    def broken(self) -> bool:
        """Whether the night itself failed in part, or did not measure a task."""
        return any(task.status != "done" for task in self.tasks) or any(
            said.key.startswith("lost_") for said in self.notices
        )

    @property
    def outcome(self) -> Outcome:
        """One word for the calendar; the gravest counts."""
        if self.of("regressed"):
            return "regressed"
        if self.of("open"):
            return "open"
        if self.broken:
            return "broken"
        for verdict in _NO_ALARM:
            if self.of(verdict):
                return verdict
        return "learning" if 2 * len(self.young) > len(self.rows) else "quiet"

    @property
    def status(self) -> int:
        """The exit code: 1 a regression is new or open, 2 the night failed in part, 0 neither."""
        return 1 if self.outcome in ("regressed", "open") else 2 if self.broken else 0


def by_kernel(shares: Sequence[Share]) -> list[list[Share]]:
    """Parts of a change that are one kernel by several shapes, together; what moved most in sum comes first."""
    found: dict[tuple[str, str], list[Share]] = {}
    for one in shares:
        found.setdefault((one.kind, one.what), []).append(one)
    return sorted(found.values(), key=lambda kernel: -abs(sum(one.delta_ns for one in kernel)))


def as_dict(night: Night) -> dict[str, Any]:
    """What JSON says of a night; the keys are for anyone's scripts."""
    said: dict[str, Any] = msgspec.to_builtins(night)
    return {"outcome": night.outcome, "exit": night.status} | said


def read(folder: Path) -> Night | None:
    """The night a folder holds; None where none was finished."""
    try:
        said: Mapping[str, Any] = json.loads((folder / NAME).read_text("utf-8"))
        return msgspec.convert({key: value for key, value in said.items() if key not in ("outcome", "exit")}, Night)
    except (OSError, ValueError, msgspec.ValidationError):
        return None
