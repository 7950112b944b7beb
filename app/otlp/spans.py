"""What becomes a span: a run, its ranks, their steps with their split, and the windows of what was found; a night."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from npulens.analysis.engine import Check
from npulens.analysis.problems.shown import finding_ids, moments
from npulens.analysis.split import Row
from npulens.app.nightly import journal, night
from npulens.app.text import wording
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store.runs import RunInfo

Value = str | int | float | bool


@dataclass(frozen=True)
class Span:
    """One span. Ids are made of names, so that sending a thing twice makes the same spans."""

    trace: bytes
    name: str
    key: str  # what the id is made of, within the trace
    parent: str | None
    begin_ns: int
    end_ns: int
    about: Mapping[str, Value] = field(default_factory=dict)
    rank: int | None = None
    events: tuple[tuple[str, int, Mapping[str, Value]], ...] = ()

    @property
    def id(self) -> bytes:
        return span_id(self.trace, self.key)


def span_id(trace: bytes, key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=8, key=trace).digest()


def _trace(kind: str, name: str) -> bytes:
    return hashlib.blake2b(f"{kind} {name}".encode(), digest_size=16).digest()


def of_run(run: RunInfo, rows: list[Row], check: Check) -> Iterator[Span]:
    """The run, each rank, each step of it with its split, and below the ranks every window of a finding."""
    trace, zero = _trace("run", run.run_id), run.origin_ns
    about = _known({
        "npulens.run_id": run.run_id, "npulens.label": run.label, "npulens.formats": "+".join(run.formats),
        "npulens.status": run.status, "npulens.answer": wording.plain(wording.answer(check, "en")),
        "npulens.step_ns": check.step_ns, "npulens.quality": check.quality.score,
    })  # fmt: skip
    timed = [(row, row.start_ns, row.dur_ns) for row in rows if row.start_ns is not None and row.dur_ns is not None]
    first = min((start for _, start, _ in timed), default=0)
    last = max((start + dur for _, start, dur in timed), default=run.dur_ns or 0)
    yield Span(trace, wording.plain(wording.run_name(run, "en")), "run", None, zero + first, zero + last, about)
    for row, start, dur in timed:
        whole = row.step is None
        name, key = ("rank", f"rank {row.rank}") if whole else ("step", f"rank {row.rank} step {row.step}")
        number = {} if whole else {"npulens.step": row.step}
        split = {f"npulens.{part}": value for part, value in vars(row).items()
                 if part.endswith("_ns") and part not in ("start_ns", "dur_ns")}  # fmt: skip
        yield Span(
            trace, f"{name} {row.rank if whole else row.step}", key, "run" if whole else f"rank {row.rank}",
            zero + start, zero + start + dur, _known({"npulens.rank": row.rank, **number, **split}), row.rank,
        )  # fmt: skip
    ranks = {row.rank for row, _, _ in timed if row.step is None}
    for name, finding in zip(finding_ids(check.findings), check.findings, strict=True):
        said: dict[str, Value | None] = {
            "npulens.finding": name, "npulens.cause": finding.cause, "npulens.saving_ns": finding.saving_ns,
            "npulens.measure": finding.measure, "npulens.title": wording.plain(finding.words["en"].title),
        }  # fmt: skip
        for place, one in enumerate(moments(finding)):
            parent = f"rank {one.rank}" if one.rank in ranks else "run"
            note = {"npulens.note": wording.plain(one.note) or None, "npulens.rank": one.rank}
            yield Span(
                trace, finding.cause, f"finding {name} {place}", parent, zero + one.ts_ns,
                zero + one.ts_ns + one.dur_ns, _known({**said, **note}), one.rank,
            )  # fmt: skip


def of_night(folder: Path) -> Iterator[Span]:
    """A night and its steps, as its journal says when each began and ended; what it told is events of the night."""
    facts = journal.read(folder)
    told = night.read(folder)
    stamps = [int(fact["clock_ns"]) for fact in facts.facts if "clock_ns" in fact]
    if not stamps:
        raise IngestError("no_night", Message("folder_holds_no_night"), str(folder))
    trace = _trace("night", f"{folder.parent.name}/{folder.name}")
    begin, end = min(stamps), max(stamps)
    about: dict[str, Value | None] = {"npulens.night": folder.name}
    events: tuple[tuple[str, int, Mapping[str, Value]], ...] = ()
    if told is not None:
        about |= {"npulens.outcome": told.outcome, "npulens.exit": told.status, "npulens.config": told.name}
        at = max(end, _ns(told.ended))
        events = tuple((row.verdict, at, _row(row)) for row in told.rows)
    yield Span(trace, f"night {folder.name}", "night", None, begin, end, _known(about), events=events)
    begun: dict[str, int] = {}
    for fact in facts.facts:
        if fact["what"] == "begin":
            begun[str(fact["step"])] = int(fact["clock_ns"])
        elif fact["what"] == "step" and (start := begun.pop(str(fact["step"]), None)) is not None:
            done: dict[str, Value | None] = {"npulens.ok": bool(fact.get("ok"))}
            yield Span(trace, str(fact["step"]), f"{fact['step']} {start}", "night", start,
                       max(start, int(fact["clock_ns"])), _known(done))  # fmt: skip


def _row(row: night.Row) -> dict[str, Value]:
    return _known({
        "npulens.task": row.task, "npulens.metric": row.metric, "npulens.value": row.value, "npulens.ratio": row.ratio,
        "npulens.run_id": row.run_id,
    })  # fmt: skip


def _ns(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp()) * 10**9


def _known(values: Mapping[str, Any]) -> dict[str, Value]:
    """Without what was not recorded."""
    return {name: value for name, value in values.items() if value is not None}
