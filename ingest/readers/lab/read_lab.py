"""A result of ``npulens lab``: result.json beside a subject, and what its rewrites replaced in drawn/.

It is no trace. Each trial goes into ``summary``, one row with all it says as JSON, and so does each drawing. A trial
whose verdict its own figures contradict makes the whole result one that is not to be trusted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pyarrow as pa

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import peek
from npulens.ingest.messages import Message, verbatim
from npulens.ingest.readers import Claim
from npulens.ingest.readers.lab.trials import Drawing, Head, Program, Trial, contradiction
from npulens.ingest.tables import schema
from npulens.ingest.tables.draft import Draft

TITLE = "result of npulens lab"

NAME, FOLDER, ORIGINAL = "result.json", "drawn", "original"
_HEAD = re.compile(rb'^\s*\{\s*"subject"\s*:\s*"[^"]{0,4000}"\s*,\s*"module"\s*:')
#: Ours have some ten kilobytes, and drawings of thousands of nodes some megabytes.
_LARGEST, _LARGEST_DRAWING, _MOST_DRAWINGS = 8 << 20, 32 << 20, 200
_MOST_TRIALS = 1_000
_SUMMARY = pa.schema(
    [("source", pa.string()), ("name", pa.string()), ("category", pa.string()), ("count", pa.int64()),
     ("args", pa.string())]
)  # fmt: skip
_KEPT = ("run", "rank", "coverage", "device_time", "checked", "summary")
S = TypeVar("S")


def sniff(path: Path) -> Claim | None:
    """A subject's directory with a result, or that result."""
    result = path / NAME if peek.at(path).is_dir else path
    if result.name != NAME or result.is_symlink() or not result.is_file():
        return None
    with result.open("rb") as stream:
        if not _HEAD.match(stream.read(4_200)):
            return None
    folder = result.parent / FOLDER
    drawn: list[Path] = []
    if folder.is_dir() and not folder.is_symlink():
        drawn = sorted(each for each in folder.glob("*.json") if each.is_file() and not each.is_symlink())
    return Claim("lab", result.parent, (result, *drawn[:_MOST_DRAWINGS]))


def read(claim: Claim, draft: Draft) -> None:
    """Fill a draft with trials and drawings."""
    path = next(each for each in claim.files if each.name == NAME)
    head = _shaped(_json(path, _LARGEST), Head, path)
    trials = list(_trials(head, draft))
    if not trials and head.status != "failed":
        raise IngestError("empty", Message("lab_holds_no_trial"), str(claim.root))
    for trial in trials:
        if wrong := contradiction(trial):
            text = Message("lab_trial_not_trusted", {"name": trial.rewrite, "why": wrong})
            raise IngestError("contradiction", text, str(claim.root))
    if head.status != "complete":
        draft.partial(None, verbatim(head.reason) if head.reason else Message("lab_did_not_end"))
    rows = [_row("trial", each.rewrite, each.verdict, each) for each in trials]
    rows += _drawings(claim, {each.rewrite for each in trials}, draft)
    draft.table("lab_rows", rows, _SUMMARY)
    draft.provide("summary", "SELECT * FROM lab_rows")
    _facts(head, draft)
    for table in schema.tables():
        if table not in _KEPT:
            draft.absent(table, Message("lab_holds_no_trace"), "npulens lab SUBJECT --record REWRITE")


def _json(path: Path, most: int) -> Any:
    """JSON as Python writes it: a figure that is no number is None."""
    if path.stat().st_size > most:
        raise IngestError("too_large", Message("is_larger_than_mb", {"file": path.name, "n": most >> 20}), str(path))
    try:
        return json.loads(path.read_bytes(), parse_constant=lambda _: None)
    except (ValueError, RecursionError) as error:
        raise IngestError("damaged", Message("lab_cannot_be_read", {"error": _first(error)}), str(path)) from error


def _shaped(said: Any, shape: type[S], path: Path) -> S:
    try:
        return msgspec.convert(said, shape)
    except (msgspec.MsgspecError, RecursionError, ValueError) as error:
        raise IngestError("damaged", Message("lab_cannot_be_read", {"error": _first(error)}), str(path)) from error


def _first(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _trials(head: Head, draft: Draft) -> Iterator[Trial]:
    """Each rewrite once; what cannot be read is counted."""
    seen, lost = set[str](), max(0, len(head.trials) - _MOST_TRIALS)
    for said in head.trials[:_MOST_TRIALS]:
        try:
            trial = msgspec.convert(said, Trial)
        except (msgspec.MsgspecError, RecursionError, ValueError):
            lost += 1
            continue
        if trial.rewrite in seen:
            lost += 1
            continue
        seen.add(trial.rewrite)
        yield trial
    if lost:
        draft.drop("summary", Message("lab_trials_that_cannot"), lost)
        draft.partial(None, Message("lab_trials_cannot_be_read", {"n": lost}))


def _drawings(claim: Claim, tried: set[str], draft: Draft) -> list[dict[str, object]]:
    """The program, and what each rewrite that was tried did to it; a drawing that cannot be read is lost alone."""
    rows, lost = list[dict[str, object]](), 0
    for path in claim.files:
        if path.parent.name != FOLDER or (path.stem != ORIGINAL and path.stem not in tried):
            continue
        try:
            said = _json(path, _LARGEST_DRAWING)
            if path.stem == ORIGINAL:
                rows.append(_row("program", ORIGINAL, None, _shaped(said, Program, path)))
                continue
            drawing = _shaped(said, Drawing, path)
        except (IngestError, OSError):
            lost += 1
            continue
        if drawing.rewrite == path.stem:
            rows.append(_row("drawing", drawing.rewrite, None, drawing))
    if lost:
        draft.drop("summary", Message("lab_drawings_that_cannot"), lost)
        draft.partial(None, Message("lab_drawings_cannot_be_read", {"n": lost}))
    return rows


def _row(part: str, name: str, category: str | None, what: Trial | Program | Drawing) -> dict[str, object]:
    count = len(what.nodes) if isinstance(what, Program) else None
    return {"source": f"lab {part}", "name": name, "category": category, "count": count,
            "args": msgspec.json.encode(what).decode()}  # fmt: skip


def _facts(head: Head, draft: Draft) -> None:
    environment = head.environment
    draft.fact("backend", head.backend)
    draft.fact("device_name", head.device[:200] if head.device else None)
    draft.fact("versions", json.dumps(_object(environment.get("versions"))))
    draft.fact("environment", json.dumps(_object(environment.get("variables"))))
    told = {name: value for name, value in msgspec.to_builtins(head).items() if name not in ("trials", "environment")}
    rest = {key: value for key, value in environment.items() if key not in ("versions", "variables")}
    draft.fact("settings", json.dumps({**told, "environment": rest}, ensure_ascii=False))


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
