"""How long a project keeps its runs, how much it may hold, and how much it holds."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from npulens.app.team import metrics, who
from npulens.app.team.config import Project, Team
from npulens.app.team.who import Visitor
from npulens.ingest.errors import IngestError
from npulens.ingest.store import book, notes, runs

#: Seconds between two looks at what is kept too long.
EVERY_S = 3600
#: A run with this tag is kept however old it is.
KEEP = "keep"
_SERVER = Visitor("npulens", {}, "server")


def held(project: Project) -> int:
    """Bytes that a project's store takes on the disk, deleted runs that can be had back included."""
    total = 0
    for folder, _, names in os.walk(project.store):
        for name in names:
            with suppress(FileNotFoundError):  # gone while we look
                total += os.stat(os.path.join(folder, name), follow_symlinks=False).st_size
    return total


def room(project: Project, more: int) -> bool:
    """Whether a capture of so many bytes may come."""
    return project.quota is None or held(project) + more <= project.quota


def tidy(team: Team, now: float | None = None) -> int:
    """Deletes runs that a project no longer keeps, and forgets old lines of the audit; how many runs."""
    now = time.time() if now is None else now
    gone = sum(_tidied(team, project, now) for project in team.projects.values())
    book.forget(team.home, now - team.audit_days * 86_400)
    return gone


def _tidied(team: Team, project: Project, now: float) -> int:
    if project.keep_days is None or not project.store.is_dir():
        return 0
    oldest = datetime.fromtimestamp(now, UTC) - timedelta(days=project.keep_days)
    kept = {run_id for run_id, said in notes.about(project.store).items() if KEEP in said.tags}
    gone = 0
    for run in runs.runs(project.store):
        if run.run_id not in kept and datetime.fromisoformat(run.loaded_at) < oldest:
            try:
                runs.remove(project.store, run.run_id)
            except IngestError:  # somebody was faster
                continue
            who.note(team, _SERVER, who.Act.DELETE.word, project.name, f"{run.run_id}: {project.keep_days} days", True)
            gone += 1
    return gone


def gauges(team: Team) -> dict[str, tuple[str, dict[str, float]]]:
    """What the projects hold, for the metrics."""
    projects = team.projects.values()
    labels = {project.name: metrics.label("project", project.name) for project in projects}
    return {
        "runs": (
            "Runs of a project.",
            {labels[project.name]: float(len(runs.runs(project.store))) for project in projects},
        ),
        "stored_bytes": (
            "Bytes of a project's store.", {labels[project.name]: float(held(project)) for project in projects},
        ),
        "quota_bytes": (
            "Bytes that a project may hold.",
            {labels[project.name]: float(project.quota) for project in projects if project.quota is not None},
        ),
    }  # fmt: skip
