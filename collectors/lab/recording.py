"""A subject's program and one rewrite of it, each recorded by the recorder that records jobs.

Both get the same batches in the job's own proportions, the same number of steps and the same warm-up. A step is one
call. Each is a recording of its own, in a directory of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from npulens.collectors import manifest
from npulens.collectors.backends.backend import Backend
from npulens.collectors.backends.probe import Choice
from npulens.collectors.collected import collected
from npulens.collectors.lab import graph, judging, measuring
from npulens.collectors.lab.rewrites.rewrite import Asked, DoesNotApply, rewrite
from npulens.collectors.lab.subject import Subject
from npulens.collectors.recorder import Recorder
from npulens.collectors.settings import Settings

ORIGINAL = "original"
#: Calls before the recording: compilers write their code in them, and caches fill.
_BEFORE = 2
STEPS = 20


def record(
    subject: Subject, backend: Backend, choice: Choice, name: str, own: Sequence[Path], home: Path, steps: int
) -> list[dict[str, Any]]:
    """Records both; where each lies, and whether it worked."""
    about = subject.about
    asked = Asked(about.training, about.gradients, about.dynamic, backend.device, graph.is_graph(subject.program))
    try:
        made = rewrite(name, own).apply(graph.copied(subject.program), asked)
    except DoesNotApply as reason:
        raise ValueError(f"{name} does not apply to this subject: {reason.name}") from reason
    except judging.FAILURES as error:
        raise ValueError(f"{name} fails: {judging.first_line(error)}") from error
    sides = {ORIGINAL: graph.copied(subject.program), name: made.model}
    return [_recorded(subject, backend, choice, side, model, home / side, steps) for side, model in sides.items()]


def _recorded(
    subject: Subject, backend: Backend, choice: Choice, side: str, model: Any, home: Path, steps: int
) -> dict[str, Any]:
    if (home / manifest.NAME).exists():
        raise FileExistsError(f"{home} holds a recording already; name another directory with -o")
    batches, gradients = measuring.mix(subject), subject.about.gradients
    settings = Settings(wait=1, warmup=1, active=steps)
    try:
        for _ in range(_BEFORE):
            for batch in subject.batches:
                measuring.step(model, batch, gradients, model)()
        backend.synchronize()
        recorder = Recorder(home, settings, choice.actual)
        recorder.start()
        try:
            while recorder.state == "recording":
                measuring.step(model, batches[recorder.steps % len(batches)], gradients, model)()
                backend.synchronize()
                recorder.step()
        finally:
            recorder.stop()
    except judging.FAILURES as error:
        raise ValueError(f"{side} fails: {judging.first_line(error)}") from error
    found = collected(home, choice.actual, steps)
    command = ["npulens", "lab", str(subject.place), "--record", side]
    manifest.write(home, f"subject {subject.place.name} {side}", command, choice, {
        "status": found.status, "reason": found.reason, "settings": asdict(settings),
        "traces": [asdict(trace) for trace in found.traces], "processes": list(found.processes),
    })  # fmt: skip
    return {"side": side, "place": str(home), "status": found.status, "reason": found.reason}
