"""What a reader of a changed metric does next: the commits it lies between, and the command to run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from npulens.analysis.regression.covariates import is_commit
from npulens.app.nightly.config import Config, Job, Watch, Workload
from npulens.app.nightly.night import TOLD, Commits, Row
from npulens.app.nightly.repository import printed, sha

#: A name of a commit that means the same one tomorrow; branches move.
_SHA = re.compile(r"[0-9a-f]{7,64}")
#: Enough of a commit's name to find it by.
_SHORT = 12
_WORSE = ("regressed", "open", "likely")
Measurable = Job | Workload


def advised(config: Config, path: Path, rows: Sequence[Row]) -> tuple[Row, ...]:
    """The rows with what to do about those that moved; ``path`` is the configuration's."""
    tasks = {task.title: task for task in config.tasks}
    known: dict[tuple[Path, str, str], Commits | None] = {}
    return tuple(_advised(row, tasks.get(row.task), path, known) for row in rows)


def _advised(
    row: Row, task: Measurable | Watch | None, path: Path, known: dict[tuple[Path, str, str], Commits | None]
) -> Row:
    if row.verdict not in TOLD:
        return row
    directory = path.parent / task.directory if isinstance(task, Measurable) else path.parent
    commits = None
    if (names := _names(row, task)) is not None:
        key = (directory, *names)
        if key not in known:
            known[key] = commits_between(*key)
        commits = known[key]
    return replace(row, commits=commits, next=_next(row, task, path, commits))


def _names(row: Row, task: Measurable | Watch | None) -> tuple[str, str] | None:
    """The commits that a change lies between: those of a condition, or those of base and head."""
    for hint in row.hints:
        if is_commit(hint.name) and _SHA.fullmatch(hint.before) and _SHA.fullmatch(hint.after):
            return hint.before, hint.after
    if row.by == "pairs" and isinstance(task, Measurable) and task.base and task.base.commit and task.head.commit:
        return task.base.commit, task.head.commit
    return None


def commits_between(directory: Path, old: str, new: str) -> Commits | None:
    """What the repository of a directory knows of two commits; None where it does not know both."""
    first, last = sha(directory, old), sha(directory, new)
    if first is None or last is None:
        return None
    said = printed(directory, "log", "-1", "--format=%s%x1f%an", last)
    many = printed(directory, "rev-list", "--count", f"{first}..{last}")
    if said is None or many is None:
        return None
    subject, _, author = said.strip("\n").partition("\x1f")
    follows = printed(directory, "merge-base", "--is-ancestor", first, last) is not None
    return Commits(first[:_SHORT], last[:_SHORT], subject, author, int(many) if follows else 0)


def _next(row: Row, task: Measurable | Watch | None, path: Path, commits: Commits | None) -> str:
    """Of several commits the search for the one, else the two runs side by side, else the same task once more."""
    words: tuple[str, ...] = ()
    if isinstance(task, Measurable) and row.verdict in _WORSE and commits is not None and commits.between > 1:
        words = ("bisect", str(path), row.task, "--good", commits.old, "--bad", commits.new)
    elif row.run_id and row.base_run:
        words = ("compare", row.base_run, row.run_id)
    elif row.confirm:
        return ""
    elif isinstance(task, Measurable):
        words = ("nightly", str(path), "--only", row.task)
    elif row.run_id:
        words = ("check", row.run_id)
    return f"npulens {shlex.join(words)}" if words else ""
