"""The regressions of a configuration: each stays in sight until it is measured as fixed, or somebody accepts it.

A regression is opened by the night that tells it. From then on every night measures what is left of it, against the
level before it. It is fixed when more than half of it is gone. By pairs that is when their whole interval says so and
base itself did not get slower. By the history it is when the level went back, or five nights in a row lie on the good
side. Everything else leaves it open: a night without a measurement, a wild night, a base that has the regression too.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from pathlib import Path
from statistics import median

import msgspec
from msgspec.structs import replace

from npulens.app.nightly import lock, place
from npulens.app.nightly.night import Regression, Row, Said, Verdict
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

NAME = "regressions.json"
#: What is left of a regression that counts as fixed, as a share of its logarithm.
_LEFT = 0.5
#: Nights in a row on the good side that say so without a step in the history.
_NIGHTS = 5
#: Nights of a level that say how large a regression is now. Of one that goes on night by night, the last few.
_LATELY, _CLIMBING = 14, 3


def read(home: Path) -> tuple[Regression, ...]:
    """Every regression that the nights of a configuration ever told."""
    path = home / NAME
    if not path.is_file():
        return ()
    try:
        return tuple(msgspec.json.decode(path.read_bytes(), type=list[Regression]))
    except (OSError, msgspec.MsgspecError) as error:
        raise IngestError("nightly", Message("regressions_are_damaged", {"error": error}), str(path)) from error


def write(home: Path, every: Sequence[Regression]) -> None:
    """Keeps them."""
    place.write(home / NAME, json.dumps([msgspec.to_builtins(each) for each in every], ensure_ascii=False, indent=1))


def before(every: Sequence[Regression], label: str) -> tuple[Regression, ...]:
    """As they were before a night: one that is made again tells its own anew."""
    return tuple(
        replace(each, state="open", closed="") if each.state == "fixed" and each.closed == label else each
        for each in every if each.opened != label
    )  # fmt: skip


def tonight(
    every: Sequence[Regression], rows: Sequence[Row], label: str, at_ns: int
) -> tuple[tuple[Regression, ...], tuple[Row, ...]]:
    """The regressions after a night, and its rows with what they say of each metric."""
    held, told = list(every), list[Row]()
    for row in rows:
        mine = [each for each in held if (each.identity, each.metric) == (row.identity, row.metric)]
        if row.verdict == "regressed" and (row.fresh or row.by == "pairs") and not _covered(row, mine):
            opened = _opened(row, label, at_ns, held)
            held.append(opened)
            told.append(replace(row, number=opened.number))
            continue
        now = {id(each): _measured(each, row, label) for each in mine if each.state == "open"}
        held = [now.get(id(each), each) for each in held]
        going = [now.get(id(each), each) for each in mine if each.state != "fixed"]
        if not going and _is_the_fix(row, mine):
            row = replace(row, verdict="fixed", fresh=False)
        told.append(_shown(row, going))
    names = {(row.identity, row.metric) for row in rows}
    missing = [each for each in held if each.state == "open" and (each.identity, each.metric) not in names]
    return tuple(held), (*told, *(_unmeasured(each) for each in missing))


def _covered(row: Row, mine: Sequence[Regression]) -> bool:
    """Whether a change that tonight shows is a regression that is known: pairs show it every night."""
    if row.by == "pairs":
        return any(each.state == "open" for each in mine)
    return any(each.state != "fixed" and (each.by == "pairs" or each.since == row.since) for each in mine)


def _is_the_fix(row: Row, mine: Sequence[Regression]) -> bool:
    """Whether an improvement of the history is a fix that an earlier night has told."""
    back = (each.closed for each in mine if each.state == "fixed")
    return row.verdict == "improved" and row.by == "history" and any((row.since or "") <= closed for closed in back)


def _opened(row: Row, label: str, at_ns: int, held: Sequence[Regression]) -> Regression:
    since = row.since or label
    same = [each.number for each in held if (each.task, each.opened) == (row.task, label)]
    number = same[0] if same else 1 + max((each.number for each in held), default=0)
    ratio = row.ratio or 1.0
    return Regression(
        number=number, task=row.task, identity=row.identity, metric=row.metric, unit=row.unit, better=row.better,
        by=row.by, level=row.level or row.value / ratio, told=ratio, ratio=ratio, since=since,
        since_ns=row.since_ns or at_ns, opened=label, seen=label, hints=row.hints, confirm=row.confirm,
        run_id=row.run_id, base_run=row.base_run, parts=row.parts, parts_ns=row.parts_ns, rest_ns=row.rest_ns,
        residual_ns=row.residual_ns, slope=row.slope,
    )  # fmt: skip


def _measured(each: Regression, row: Row, label: str) -> Regression:
    """What is left of a regression tonight."""
    ratio, fixed = _by_pairs(each, row) if row.by == "pairs" else _by_history(each, row)
    now = replace(each, ratio=ratio, seen=label)
    return replace(now, state="fixed", closed=label) if fixed and each.state == "open" else now


def _worse(each: Regression, ratio: float | None) -> float:
    """The logarithm of a ratio, turned so that more is worse; what cannot be taken has no end."""
    if ratio is None or ratio <= 0 or not math.isfinite(ratio):
        return math.inf
    return math.log(ratio) if each.better == "lower" else -math.log(ratio)


def _by_pairs(each: Regression, row: Row) -> tuple[float, bool]:
    if _base_has_it(each, row):
        return row.value / each.level if each.level > 0 else each.ratio, False
    edge = max(_worse(each, row.low), _worse(each, row.high))
    return row.ratio or each.ratio, edge < _LEFT * _worse(each, each.told)


def _base_has_it(each: Regression, row: Row) -> bool:
    """Whether tonight's pairs show no regression because base got worse by more than half of it since it was told."""
    half = _LEFT * _worse(each, each.told)
    base = row.level / each.level if row.level is not None and each.level > 0 else math.inf
    return _worse(each, base) >= half and _worse(each, row.ratio) < half


def _by_history(each: Regression, row: Row) -> tuple[float, bool]:
    usable = [spot for spot in row.series if spot.usable]
    nights = [spot.night for spot in usable]
    since, opened = (nights.index(night) if night in nights else 0 for night in (each.since, each.opened))
    steps = [nights.index(night) for night in row.changes if night in nights]
    last = max((step for step in steps if step > since), default=None)
    lately = _LATELY if each.slope is None or last is not None else _CLIMBING
    level = [spot.value for spot in usable[since if last is None else last :]][-lately:]
    if not level or each.level <= 0:
        return each.ratio, False
    half = _LEFT * _worse(each, each.told)
    ratio = median(level) / each.level
    after = [spot.value for spot in usable[opened + 1 :]][-_NIGHTS:]
    if len(after) == _NIGHTS and all(_worse(each, value / each.level) < half for value in after):
        return median(after) / each.level, True
    return ratio, last is not None and _worse(each, ratio) < half


def _shown(row: Row, mine: Sequence[Regression]) -> Row:
    """Tonight's row with what is known of the metric; the gravest of several regressions leads."""
    first = min(mine, key=lambda each: (("open", "fixed", "accepted").index(each.state), each.number), default=None)
    if first is None:
        return row
    if first.state == "open" and row.verdict == "regressed" and row.fresh:
        return replace(row, number=first.number, owner=first.owner, muted=first.muted)
    words: Mapping[str, Verdict] = {"open": "open", "fixed": "fixed", "accepted": "accepted"}
    lost = row.by == "pairs" and first.state == "open" and _base_has_it(first, row)
    paired = row.by == "pairs" and not lost
    if first.state == "accepted" and row.fresh and row.verdict in ("regressed", "improved", "machine", "likely"):
        return row
    return replace(
        row, verdict=words[first.state], fresh=first.state == "fixed", standing=row.verdict, number=first.number,
        owner=first.owner, muted=first.muted, ratio=first.ratio, level=row.level if paired else first.level,
        since=first.since, since_ns=first.since_ns, hints=first.hints, confirm=first.confirm, base_run=first.base_run,
        low=row.low if paired else None, high=row.high if paired else None,
        settles=Said("settles_base_has_it", {}) if lost else None, parts=first.parts, parts_ns=first.parts_ns,
        rest_ns=first.rest_ns, residual_ns=first.residual_ns,
        slope=first.slope,
    )  # fmt: skip


def _unmeasured(each: Regression) -> Row:
    """An open regression of what was not measured tonight."""
    return Row(
        task=each.task, identity=each.identity, where="", metric=each.metric, unit=each.unit, better=each.better,
        value=each.level * each.ratio, verdict="open", by=each.by, since=each.since, since_ns=each.since_ns,
        ratio=each.ratio, level=each.level, settles=Said("settles_unmeasured", {"night": each.seen}),
        hints=each.hints, confirm=each.confirm, run_id=each.run_id, base_run=each.base_run, parts=each.parts,
        parts_ns=each.parts_ns, rest_ns=each.rest_ns, residual_ns=each.residual_ns, number=each.number,
        owner=each.owner, muted=each.muted, slope=each.slope,
    )  # fmt: skip


def expired(every: Sequence[Regression], today: date) -> tuple[Regression, ...]:
    """Those accepted or muted until a day that is over are open, and heard, again."""
    return tuple(
        replace(each, state="open" if each.state == "accepted" else each.state, muted=False, until="", closed="")
        if each.until and each.state != "fixed" and date.fromisoformat(each.until) < today else each
        for each in every
    )  # fmt: skip


def decide(home: Path, number: int, change: Callable[[Regression], Regression]) -> None:
    """Changes the ones of a number, while no night is being made."""
    with lock.held(home, "regressions", f"{datetime.now():%Y-%m-%d %H:%M:%S}"):
        every = read(home)
        if not any(each.number == number for each in every):
            many = ", ".join(str(known) for known in sorted({each.number for each in every})) or "-"
            raise IngestError("nightly", Message("no_such_regression", {"number": number, "known": many}))
        write(home, [change(each) if each.number == number else each for each in every])


def accepted(each: Regression, who: str, why: str, until: str) -> Regression:
    """Its level is the new baseline; a fixed one stays fixed."""
    if each.state == "fixed":
        return each
    day = date.today().isoformat()
    return replace(each, state="accepted", closed=day, who=who, why=why, until=until, muted=False)


def muted(each: Regression, who: str, why: str, until: str) -> Regression:
    """In the table, and in no headline, message or exit status."""
    return replace(each, muted=each.state == "open", who=who, why=why, until=until)


def reopened(each: Regression) -> Regression:
    """As if nobody had decided anything."""
    state = "open" if each.state == "accepted" else each.state
    return replace(each, state=state, closed=each.closed if state == "fixed" else "", muted=False, who="", why="",
                   until="")  # fmt: skip
