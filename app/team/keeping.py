"""How long a project keeps its runs, how much it may hold, and how much it holds."""

from __future__ import annotations

import time
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
    """Bytes of the runs in a project's store."""
    return sum(run.bytes for run in runs.runs(project.store))


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
    stored = {project.name: runs.runs(project.store) for project in team.projects.values()}
    labels = {name: metrics.label("project", name) for name in stored}
    return {
        "runs": ("Runs of a project.", {labels[name]: float(len(each)) for name, each in stored.items()}),
        "stored_bytes": (
            "Bytes of a project's runs.",
            {labels[name]: float(sum(run.bytes for run in each)) for name, each in stored.items()},
        ),
        "quota_bytes": (
            "Bytes that a project may hold.",
            {labels[name]: float(quota) for name in stored if (quota := team.projects[name].quota) is not None},
        ),
    }
