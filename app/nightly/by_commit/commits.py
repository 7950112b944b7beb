"""Commits of the repository a task lives in, and a task with two of them as its sides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace

from npulens.app.nightly.config import Job, Side, Workload
from npulens.app.nightly.repository import printed, sha
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message

#: Name, author, day and subject of a commit, with a character between them that none of them has.
_FORMAT = "%H%x1f%an%x1f%as%x1f%s"


@dataclass(frozen=True)
class Commit:
    """A commit as people know it."""

    sha: str
    author: str
    date: str
    subject: str

    @property
    def short(self) -> str:
        return short(self.sha)


def short(name: str) -> str:
    """Enough of a commit's name to find it by."""
    return name[:12]


def full(directory: Path, name: str) -> str:
    """The full name of a commit; raises where there is none."""
    found = sha(directory, name)
    if found is None:
        raise IngestError("no_commit", Message("is_no_commit_here", {"commit": repr(name), "path": directory}))
    return found


def fork(directory: Path, base: str, head: str) -> str:
    """The last commit that both have. What head is compared with: base may have moved on since."""
    found = printed(directory, "merge-base", base, head)
    if found is None:
        values = {"base": short(base), "head": short(head), "path": directory}
        raise IngestError("no_commit", Message("no_common_commit", values))
    return found.strip()


def before(directory: Path, good: str, bad: str) -> bool:
    """Whether bad holds everything that good does."""
    return printed(directory, "merge-base", "--is-ancestor", good, bad) is not None


def between(directory: Path, good: str, bad: str) -> list[Commit]:
    """The commits after good up to bad, the oldest first; of a merge only the merge, as the branch saw them."""
    said = printed(directory, "log", "--first-parent", "--reverse", f"--format={_FORMAT}", f"{good}..{bad}") or ""
    return [Commit(*line.split("\x1f", 3)) for line in said.split("\n") if line]


def sided(task: Job | Workload, base: str, head: str, rounds: int) -> Job | Workload:
    """A task with two commits as its sides, run with the interpreter and the variables of its head.

    Fewer than ten pairs can never say anything, whatever the configuration asks for in its nights.
    """
    from npulens.analysis.regression.verdict import PAIRS  # with scipy: half a second that only measuring has to spend

    of = task.head
    sides = [Side(of.python, commit, of.env) for commit in (base, head)]
    return replace(task, base=sides[0], head=sides[1], rounds=max(PAIRS, task.rounds or rounds))
