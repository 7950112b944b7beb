"""Loads hostile files and judges what became of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from npulens.ingest.messages import loaded
from tests.hostile.planted import Kind, Planted

ROOT = Path(__file__).resolve().parents[2]
#: What one load may use: processor time, because wall time is the machine's, and memory of any of its processes.
MOST_S, MOST_RSS = 5.0, 512 << 20
#: An answer and a refusal are for people: this long at most.
MOST_ANSWER, MOST_MESSAGE = 1 << 20, 5000
#: Refusals that are defects of ours by another name.
DEFECTS = ("defect", "crashed", "failed")


@dataclass
class Outcome:
    """How one file ended."""

    kind: str
    number: int
    how: str = ""  # complete, partial or refused
    wall_s: float = 0.0
    cpu_s: float = 0.0
    rss: int = 0
    wrong: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.kind} {self.number}: {self.how}; " + "; ".join(self.wrong)


class Runner:
    """A helper process and a place to work in."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._helper = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.helper"], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        assert self._helper.stdin is not None and self._helper.stdout is not None
        self._helper.stdin.close()
        self._helper.wait(10)
        self._helper.stdout.close()

    def run(self, kinds: Iterable[Kind], sparse: bool) -> Iterator[Outcome]:
        """Load every file of the kinds, or every 60th."""
        for kind in kinds:
            for number in kind.numbers(sparse):
                yield self.one(kind, number)

    def one(self, kind: Kind, number: int) -> Outcome:
        place = self._scratch / "file"
        place.mkdir()
        try:
            return self.load(kind.name, number, kind.make(place, kind.dice(number), number))
        finally:
            shutil.rmtree(place)

    def load(self, kind: str, number: int, planted: Planted) -> Outcome:
        outcome, here = Outcome(kind, number), self._scratch / "load"
        here.mkdir()
        try:
            request = {"paths": [str(planted.path)], "store": str(here / "store"), "label": None, "join": None}
            used = self._ask({"scratch": str(here), "request": request})
            outcome.wall_s, outcome.cpu_s, outcome.rss = used["wall_s"], used["cpu_s"], used["rss"]
            _judge_use(used, outcome)
            if not used["hung"]:
                _judge_answer(here, planted, outcome)
        finally:
            shutil.rmtree(here)
        return outcome

    def _ask(self, asked: dict[str, Any]) -> dict[str, Any]:
        assert self._helper.stdin is not None and self._helper.stdout is not None
        self._helper.stdin.write(json.dumps(asked) + "\n")
        self._helper.stdin.flush()
        return dict(json.loads(self._helper.stdout.readline()))


def _judge_use(used: dict[str, Any], outcome: Outcome) -> None:
    if used["hung"]:
        outcome.wrong.append(f"hung for {used['wall_s']:.0f} s")
    if used["status"]:
        outcome.wrong.append(f"the loading process ended with status {used['status']}")
    if used["cpu_s"] > MOST_S:
        outcome.wrong.append(f"{used['cpu_s']:.1f} s of processor time")
    if used["rss"] > MOST_RSS:
        outcome.wrong.append(f"{used['rss'] >> 20} MB of memory")


def _judge_answer(here: Path, planted: Planted, outcome: Outcome) -> None:
    wrong = outcome.wrong
    complaint = (here / "complaint").read_text("utf-8", "replace")
    if complaint:
        wrong.append(f"it complained: {complaint.strip()[-600:]}")
    raw = (here / "answer").read_bytes()
    lines = raw.splitlines()
    answer = loaded(lines[-1]) if lines else {}
    if len(raw) > MOST_ANSWER:
        wrong.append(f"an answer of {len(raw)} bytes")
    if "error" in answer:
        answer = {"result": [{"status": "refused", "run_id": None, "error": answer["error"]}]}
    if not answer.get("result"):
        wrong.append("no answer")
        return
    entries = answer["result"]
    _judge_store(here / "store", entries, wrong)
    for entry in entries:
        _judge_words(entry, wrong)
    said = {entry["status"] for entry in entries}
    outcome.how = next(how for how in ("partial", "complete", "refused") if how in said)
    wrong.extend(_differences(planted, outcome.how, entries))


def _judge_store(store: Path, entries: list[dict[str, Any]], wrong: list[str]) -> None:
    """Nothing half, nothing left over."""
    if store.is_dir():
        left = [path.name for path in (store / ".staging").iterdir()]
        kept = {path.parent.name for path in store.glob("*/manifest.json")}
        if left:
            wrong.append(f"left in staging: {left}")
        if kept != {entry["run_id"] for entry in entries if entry["run_id"]}:
            wrong.append(f"the store holds {sorted(kept)}")


def _judge_words(entry: dict[str, Any], wrong: list[str]) -> None:
    """Whatever a file is called or holds, what is said of it is a sentence of one line."""
    error = entry.get("error")
    texts = [error["message"] if error else entry["reason"], *(row["reason"] for row in entry.get("coverage", ()))]
    if error and error["kind"] in DEFECTS:
        wrong.append(f"refused as {error['kind']}: {error['message'][:400]}")
    for text in texts:
        if text is not None and (not text.strip() or len(text) > MOST_MESSAGE or not text.isprintable()):
            wrong.append(f"not a sentence: {text[:200]!r}, {len(text)} long")


def _differences(planted: Planted, how: str, entries: list[dict[str, Any]]) -> Iterator[str]:
    """Where the outcome is not what an independent count says."""
    cover = [row for entry in entries for row in entry.get("coverage", ())]
    rows: Counter[str] = Counter()
    dropped: Counter[str] = Counter()
    for row in cover:
        rows[row["table"]] += row["rows"] or 0
        dropped[row["table"]] += row["dropped"] or 0
    refusals = {entry["error"]["kind"] for entry in entries if entry.get("error")}
    if planted.status and how not in planted.status:
        yield f"{how}, not {' or '.join(planted.status)}; refused as {sorted(refusals)}"
    if planted.refused_as and not refusals & set(planted.refused_as):
        yield f"refused as {sorted(refusals)}, not as {planted.refused_as}"
    for table, count in planted.rows.items():
        if rows[table] != count:
            yield f"{rows[table]} rows in {table}, not {count}"
    for table, count in planted.dropped.items():
        if dropped[table] != count:
            yield f"{dropped[table]} dropped from {table}, not {count}"
    for table, count in planted.met.items():
        if rows[table] + dropped[table] != count:
            yield f"{rows[table]} kept and {dropped[table]} dropped in {table}, of {count}"
    for table, count in planted.least.items():
        if not count - dropped[table] <= rows[table] <= count:
            yield f"{rows[table]} kept and {dropped[table]} dropped in {table}, of {count} and their cells"
