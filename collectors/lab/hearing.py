"""``npulens lab -- python serve.py``: somebody's job, unchanged, and the subjects that were heard in it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from npulens.collectors import child, notes
from npulens.collectors.lab import judging, subject
from npulens.collectors.lab.subject import HEARD, VARIABLE

_INJECT = Path(__file__).resolve().parent.parent / "inject"


def hear(
    command: Sequence[str], directory: Path, calls: int | None, max_disk: int | None, keep_free: int | None,
    parent: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Runs the command to its end; its exit status, the subjects it left, and what was not captured and why."""
    if subject.found(directory):
        raise FileExistsError(f"{directory} holds subjects already; name another directory")
    directory.mkdir(parents=True, exist_ok=True)
    told = {"directory": str(directory.resolve()), "calls": calls, "max_disk": max_disk, "keep_free": keep_free}
    places = [str(_INJECT), os.environ.get("PYTHONPATH", "")]
    more = {"PYTHONPATH": os.pathsep.join(filter(None, places)), VARIABLE: json.dumps(told)}
    status = child.run(list(command), {**os.environ, **more}, parent)
    return {"exit_status": status, **gathered(directory)}


def gathered(directory: Path) -> dict[str, Any]:
    """What all processes of the job said; each subject is run once, and compared with what the job itself got."""
    said = [module for one in notes.read(directory / HEARD) for module in one["modules"]]
    shutil.rmtree(directory / HEARD, ignore_errors=True)
    refused = [each for each in said if "refused" in each]
    subjects = []
    for each in said:
        if "place" not in each:
            continue
        place = Path(each["place"])
        try:
            read = subject.read(place)
            error, why = judging.replayed(read)
        except (subject.NoSubject, judging.CannotRun) as lost:
            shutil.rmtree(place, ignore_errors=True)
            refused.append({"module": each["module"], "calls": each["calls"], "refused": str(lost)})
            continue
        subject.amend(place, {"error_of_replay": error, "why_not_compared": why})
        subjects.append({**each, "engine": read.about.engine, "error_of_replay": error, "why_not_compared": why})
    if not subjects and not any(directory.iterdir()):
        directory.rmdir()
    status = "failed" if not subjects else "partial" if refused else "complete"
    return {"status": status, "subjects": subjects, "refused": refused}
