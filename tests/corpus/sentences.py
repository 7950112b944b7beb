"""Holds the sentences of the judged corpus against what npulens says of a capture.

A file of docs/judged/ maps a capture's path to `facts`. Each has an `id`, what it means, whether it must or must not
hold (`kind`), how its figure was derived from the raw file, and one test:

* `finding`: `cause` (one, several, or "a|b"), `rank`, `place` (1 is first), `min_share`, `max_share`, `saving_ns`
  [low, high], `text` (its sentences hold it, in any case), `each_run` (of every run);
* `outcome`: the outcome of `detector` is none of `not` (a detector that does not exist fails), or one of `is`;
* `split`, `profiler`: fields of the row of `breakdown` of `rank` and `step`, each within [low, high];
* `runs`: `count` of the runs of a load and their `ranks`;
* `sql`: `query` gives one number within `range`;
* `text`: what check says in English holds one of `with`, or none of `without`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from npulens import ingest
from npulens.analysis import engine
from npulens.analysis.split import breakdown
from npulens.app.text import wording
from npulens.ingest.store import runs as store

Json = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """Everything npulens says of one run."""

    store: Path
    run_id: str

    @cached_property
    def check(self) -> Json:
        con = store.open_run(self.store, self.run_id)
        try:
            return wording.as_dict(engine.check(con), "en")
        finally:
            con.close()

    @cached_property
    def rows(self) -> list[Json]:
        con = store.open_run(self.store, self.run_id)
        try:
            return [row.as_dict() for row in breakdown(con)]
        finally:
            con.close()

    def number(self, query: str) -> float:
        con = store.open_run(self.store, self.run_id)
        try:
            ((value,),) = con.execute(query).fetchall()
            return float(value)
        finally:
            con.close()

    @cached_property
    def ranks(self) -> list[int]:
        con = store.open_run(self.store, self.run_id)
        try:
            return [rank for (rank,) in con.execute("SELECT rank FROM rank ORDER BY rank").fetchall()]
        finally:
            con.close()


def load(capture: Path, into: Path) -> list[Said]:
    """Loads a capture into an empty store."""
    return said(into, ingest.load(capture, store=into))


def said(place: Path, report: ingest.LoadReport) -> list[Said]:
    """What a load brought into a store."""
    return [Said(place, run.run_id) for run in report.runs if run.run_id is not None]


def corpus(place: Path) -> dict[str, list[Json]]:
    """Every capture of the files in a folder with its sentences; one file may add to another's capture."""
    found: dict[str, list[Json]] = {}
    for path in sorted(place.glob("*.json")):
        for capture, entry in json.loads(path.read_text("utf-8")).items():
            found.setdefault(capture, []).extend(entry["facts"])
    return found


def holds(fact: Json, runs: list[Said]) -> bool:
    """Whether what npulens says of these runs is what the sentence asks for."""
    ((what, test),) = fact["test"].items()
    if what == "runs":
        return _runs(test, runs)
    every = bool(test.get("each_run"))
    found = [_TESTS[what](test, run) for run in runs]
    met = bool(found) and (all(found) if every or what in ("outcome", "text") else any(found))
    return met if fact["kind"] == "must" else not any(found)


def _runs(test: Json, runs: list[Said]) -> bool:
    ranks = test["ranks"]
    wanted = ranks if ranks and isinstance(ranks[0], list) else [ranks]
    return len(runs) == test["count"] and sorted(run.ranks for run in runs) == sorted(wanted)


def _causes(cause: str | list[str]) -> set[str]:
    return set(cause.split("|")) if isinstance(cause, str) else set(cause)


def _finding(test: Json, run: Said) -> bool:
    findings = run.check["findings"]
    if place := test.get("place"):
        findings = findings[place - 1 : place]
    return any(_fits(test, finding) for finding in findings)


def _fits(test: Json, finding: Json) -> bool:
    low, high = test.get("saving_ns", (0, float("inf")))
    said = f"{finding['title']} {finding['advice']} {json.dumps(finding['numbers'])}".lower()
    return (
        finding["cause"] in _causes(test["cause"])
        and test.get("min_share", 0) <= finding["saving_share"] <= test.get("max_share", float("inf"))
        and low <= finding["saving_ns"] <= high
        and test.get("text", "").lower() in said
        and ("rank" not in test or _speaks_of(finding, test["rank"]))
    )


def _speaks_of(finding: Json, rank: int) -> bool:
    """The rank that a finding blames; without a peer, one that its evidence lies on."""
    numbers = finding["numbers"]
    if numbers.get("peer") is not None:
        return bool(numbers["peer"] == rank)
    return rank in {evidence["rank"] for evidence in finding["evidence"]}


def _outcome(test: Json, run: Said) -> bool:
    ended = [each["outcome"] for each in run.check["outcomes"] if each["detector"] == test["detector"]]
    if not ended:
        return False
    return ended[0] in test["is"] if "is" in test else ended[0] not in test["not"]


def _split(test: Json, run: Said, part: str | None = None) -> bool:
    rows = [row for row in run.rows if row["rank"] == test["rank"] and row["step"] == test["step"]]
    if len(rows) != 1:
        return False
    row = rows[0] if part is None else rows[0][part] or {}
    ranges = {name: bounds for name, bounds in test.items() if name not in ("rank", "step")}
    return all(row.get(name) is not None and low <= row[name] <= high for name, (low, high) in ranges.items())


def _profiler(test: Json, run: Said) -> bool:
    return _split(test, run, "profiler")


def _sql(test: Json, run: Said) -> bool:
    low, high = test["range"]
    return bool(low <= run.number(test["query"]) <= high)


def _text(test: Json, run: Said) -> bool:
    if "without" in test:
        said = json.dumps(run.check, ensure_ascii=False)
        return not any(word in said for word in test["without"])
    # Names of detectors are not sentences.
    told = [f"{finding['title']} {finding['advice']} {finding['numbers']}" for finding in run.check["findings"]]
    told += [outcome["reason"] for outcome in run.check["outcomes"]] + run.check["quality"]["doubts"]
    return any(word.lower() in " ".join(told).lower() for word in test["with"])


_TESTS = {
    "finding": _finding, "outcome": _outcome, "split": _split, "profiler": _profiler, "sql": _sql, "text": _text,
}  # fmt: skip
