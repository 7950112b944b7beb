"""``python -m npulens.collectors generate FILE.py:NAME``: a kernel of a function, judged, tuned and kept."""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.backends.probe import BACKENDS, choose
from npulens.collectors.environment import environment
from npulens.collectors.generated import function as functions
from npulens.collectors.generated import inductor, saved, tuning
from npulens.collectors.generated.function import Function
from npulens.collectors.generated.inductor import Choices, Made
from npulens.collectors.generated.tuning import DEFAULTS, Truths, Try
from npulens.collectors.harness.unprofiled import Profiled, refuse_profiled
from npulens.collectors.lab import judging, measuring


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb and its options."""
    made = verbs.add_parser("generate", help="make a kernel of a function of torch operators")
    made.set_defaults(run=_generate)
    made.add_argument("function", metavar="FILE.py:NAME")
    made.add_argument("-o", "--output", type=Path, required=True)
    made.add_argument("--input", dest="inputs", action="append", default=[], metavar="NAME=SIZES[:TYPE]")
    made.add_argument("--backend", choices=BACKENDS)
    made.add_argument("--tune", action="store_true")
    made.add_argument("--tries", type=int, default=tuning.TRIES)
    made.add_argument("--pairs", type=int, default=measuring.PAIRS)
    made.add_argument("--seconds", type=float, default=measuring.SECONDS)


def _generate(arguments: argparse.Namespace) -> int:
    if arguments.pairs < 2 or not 0 < arguments.seconds < 1e5 or not 2 <= arguments.tries <= 1000:
        raise ValueError("pairs: two at least; seconds: more than none; tries: from 2 to 1000")
    try:
        refuse_profiled()
    except Profiled as error:
        raise ValueError(str(error)) from error
    warnings.simplefilter("ignore")  # torch warns of its own parts
    path, name = functions.named(arguments.function)
    choice = choose(arguments.backend)
    backend = open_backend(choice.actual)
    inductor.needs(backend.device)
    found = functions.read(path, name, arguments.inputs, backend.device)
    told: dict[str, Any] = {
        "backend": backend.name, "machine": saved.machine(backend), "made_at": _now(),
        "environment": environment(choice.capability.versions),
        "shapes": {key: list(value.shape) for key, value in zip(found.names(), found.batch())},
        "dtype": _type(found),
    }  # fmt: skip
    try:
        answer = _made(found, backend, arguments, told)
    except judging.CannotRun as error:
        raise ValueError(str(error)) from error
    except inductor.DoesNotCompile as error:
        raise ValueError(f"Inductor makes no kernel of {name}: {error}") from error
    print("\n" + json.dumps({"directory": str(arguments.output), "function": name, **answer}), flush=True)
    return 1 if answer["status"] == "failed" else 0


def _made(found: Function, backend: Backend, arguments: argparse.Namespace, told: dict[str, Any]) -> dict[str, Any]:
    short = bool(backend.properties().get("short_products")) and backend.name != "cpu"
    truths = Truths(found, short)
    _say(f"{found.name} by the defaults")
    made = inductor.made(found, DEFAULTS)
    errors = truths.errors(made.call)
    evidence: dict[str, Any] = {
        **told, "operators": inductor.before(found), "error_of_original": truths.of_original(),
        "errors": errors.as_dict(), "tuning": None,
    }  # fmt: skip
    kept = made
    if arguments.tune:
        kept, evidence["tuning"] = _tuned(found, backend, truths, made, arguments)
        evidence["errors"] = (errors if kept is made else truths.errors(kept.call)).as_dict()
    evidence.update(generated=kept.generated, library=kept.library, kernels=list(kept.sources()),
                    compile_s=round(kept.seconds, 3))  # fmt: skip
    if not evidence["errors"]["ok"]:  # it is not kept: nobody should run it
        return {"status": "failed", "reason": f"what Inductor made is wrong: {errors.why}", **evidence}
    saved.write(arguments.output, found, kept, evidence)
    told_of_it = {"choices": kept.choices.told(), "code_sha256": kept.digest(), "sources": kept.sources()}
    return {"status": "complete", "reason": None, **evidence, **told_of_it}


def _tuned(
    found: Function, backend: Backend, truths: Truths, defaults: Made, arguments: argparse.Namespace
) -> tuple[Made, dict[str, Any]]:
    """The choices that are kept, and how that came about."""
    every = list(tuning.space(found, backend.device, tuning.cores()))
    tries: list[Try] = []
    left: dict[int, Made] = {}
    for place, choices in enumerate(tuning.drawn(every, arguments.tries)):
        _say(f"{place + 1} of {min(arguments.tries, len(every))}: {_words(choices)}")
        told, made = tuning.tried(found, truths, choices)
        tries.append(told)
        if made is not None:
            left[place] = made
    if not left:
        return defaults, {"space": len(every), "tries": [each.as_dict() for each in tries], "winner": None,
                          "against": {}, "kept": "defaults"}  # fmt: skip
    best, medians = tuning.halved(found, backend, left)
    tries = [Try(**{**vars(each), "rounds": tuple(medians.get(place, ()))}) for place, each in enumerate(tries)]
    winner, again = left[best].choices, {}
    others = {"written": lambda: found.call, "defaults": lambda: inductor.made(found, DEFAULTS).call}
    if winner == DEFAULTS:
        del others["defaults"]
    for name, base in others.items():
        _say(f"{_words(winner)} against {name}")
        again[name] = tuning.against(
            found, backend, base, lambda: inductor.made(found, winner).call, arguments.pairs, arguments.seconds
        )
    proved = "defaults" in again and again["defaults"].said == measuring.FASTER
    told_of_it = {
        "space": len(every), "tries": [each.as_dict() for each in tries], "winner": winner.told(),
        "against": {name: each.as_dict() for name, each in again.items()}, "kept": "winner" if proved else "defaults",
        "method": {"tries": arguments.tries, "turns": tuning.TURNS, "pairs": arguments.pairs,
                   "seconds": arguments.seconds},
    }  # fmt: skip
    if proved:
        return inductor.made(found, winner), told_of_it
    return (inductor.made(found, DEFAULTS) if winner != DEFAULTS else defaults), told_of_it


def _type(found: Function) -> str:
    kinds = [str(each.dtype).replace("torch.", "") for each in found.batch() if each.is_floating_point()]
    return kinds[0] if kinds else "float32"


def _words(choices: Choices) -> str:
    return ", ".join(f"{name}={value}" for name, value in choices.told().items()) or "the defaults"


def _say(what: str) -> None:
    print(f"npulens: {what} ...", file=sys.stderr, flush=True)


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
