"""``python -m npulens.collectors lab-choose``: a plan for a subject."""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import open_backend
from npulens.collectors.backends.probe import BACKENDS, choose
from npulens.collectors.doctor import roofs
from npulens.collectors.environment import environment
from npulens.collectors.harness.unprofiled import Profiled, refuse_profiled
from npulens.collectors.lab import judging, measuring, subject

RESULT = "choice.json"
SECONDS, MOST_SECONDS = 60.0, 1e6


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb and its options."""
    verb = verbs.add_parser("lab-choose", help="choose a plan for a subject")
    verb.set_defaults(run=_choose)
    verb.add_argument("subject", type=Path)
    verb.add_argument("--time", type=float, default=SECONDS)
    verb.add_argument("--pairs", type=int, default=measuring.PAIRS)
    verb.add_argument("--seconds", type=float, default=measuring.SECONDS)
    verb.add_argument("--allow-error", type=float)
    verb.add_argument("--gate", action="append", default=[])
    verb.add_argument("--own", action="append", type=Path, default=[])
    verb.add_argument("--backend", choices=BACKENDS)


def _choose(arguments: argparse.Namespace) -> int:
    from npulens.collectors.lab.choice import choosing

    if arguments.pairs < 2 or not 0 < arguments.seconds < 1e5 or not 0 < arguments.time < MOST_SECONDS:
        raise ValueError("pairs: two at least; time and seconds: more than none")
    try:
        refuse_profiled()
    except Profiled as error:
        raise ValueError(str(error)) from error
    warnings.simplefilter("ignore")  # torch warns of its own parts
    place = subject.only(arguments.subject)
    about = subject.about(place)
    choice = choose(arguments.backend or about.device.partition(":")[0])
    backend = open_backend(choice.actual)
    under = subject.on(subject.read(place), backend.device)
    settings = choosing.Settings(
        arguments.time,
        arguments.pairs,
        arguments.seconds,
        arguments.allow_error,
        tuple(arguments.own),
        tuple(arguments.gate),
        roofs.kept(choice),
    )
    told: dict[str, Any] = {
        "subject": str(place), "module": about.module, "engine": about.engine, "training": about.training,
        "gradients": about.gradients, "backend": choice.actual, "device": backend.properties().get("name"),
        "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "environment": environment(choice.capability.versions), "calls": about.calls,
        "dtype": next((str(each.dtype)[6:] for each in under.program.parameters() if each.dtype.is_floating_point),
                      "float32"),
        "shapes": [{"shapes": each.shapes, "calls": each.calls} for each in about.shapes],
        "method": {"time_s": settings.seconds, "pairs": settings.pairs, "seconds": settings.final_seconds},
    }  # fmt: skip
    try:
        found = choosing.Chooser(under, backend, settings).chosen()
    except judging.CannotRun as error:
        return _answered(place, {**told, "status": "failed", "reason": str(error)})
    return _answered(place, {**told, "status": "complete", "reason": None, **found})


def _answered(place: Path, answer: dict[str, Any]) -> int:
    """The result lies beside the subject; whoever reads it finds the old one or the new one."""
    half = place / f".{RESULT}.half"
    half.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    half.replace(place / RESULT)
    print("\n" + json.dumps(answer), flush=True)
    return 1 if answer["status"] == "failed" else 0
