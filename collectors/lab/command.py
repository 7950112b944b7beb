"""``python -m npulens.collectors lab-hear``, ``lab-try`` and ``lab-rewrites``: the laboratory's options."""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from npulens.collectors import limits
from npulens.collectors.backends.backend import open_backend
from npulens.collectors.backends.probe import BACKENDS, Unavailable, choose
from npulens.collectors.environment import environment
from npulens.collectors.evidence.run import program
from npulens.collectors.harness.unprofiled import Profiled, refuse_profiled
from npulens.collectors.lab import (
    chains,
    compat,
    graph,
    hearing,
    isolating,
    judging,
    ledger,
    measuring,
    recording,
    subject,
)  # fmt: skip
from npulens.collectors.lab.rewrites import rewrite
from npulens.collectors.lab.trial import Laboratory, Options

RESULT = "result.json"


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verbs and their options."""
    hear = verbs.add_parser("lab-hear", help="hear a job's own modules and batches")
    hear.set_defaults(run=_hear)
    hear.add_argument("-o", "--output", type=Path, required=True)
    hear.add_argument("--calls", type=int)
    hear.add_argument("--max-disk", metavar="SIZE")
    hear.add_argument("--keep-free", metavar="SIZE")
    hear.add_argument("--answer-to", type=int, metavar="FD")
    hear.add_argument("command", nargs=argparse.REMAINDER)
    attempt = verbs.add_parser("lab-try", help="try rewrites on a subject")
    attempt.set_defaults(run=_try)
    attempt.add_argument("--limit", type=float, default=isolating.LIMIT)
    work = verbs.add_parser("lab-work", help="the process in which lab-try tries them")
    work.set_defaults(run=_work)
    work.add_argument("--answer-to", type=int, metavar="FD", required=True)
    for verb in (attempt, work):
        verb.add_argument("subject", type=Path)
        verb.add_argument("--try", dest="names", action="append", default=[])
        verb.add_argument("--own", action="append", type=Path, default=[])
        verb.add_argument("--backend", choices=BACKENDS)
        verb.add_argument("--pairs", type=int, default=measuring.PAIRS)
        verb.add_argument("--seconds", type=float, default=measuring.SECONDS)
        verb.add_argument("--allow-error", type=float)
        verb.add_argument("--no-times", dest="times", action="store_false")
    chained = verbs.add_parser("lab-chains", help="chains of operators that one vector kernel could do")
    chained.set_defaults(run=_chains)
    chained.add_argument("subject", type=Path)
    verbs.add_parser("lab-ledger", help="what was predicted and what was measured").set_defaults(run=_ledger)
    record = verbs.add_parser("lab-record", help="record a subject's program and one rewrite of it")
    record.set_defaults(run=_record)
    record.add_argument("subject", type=Path)
    record.add_argument("--rewrite", required=True)
    record.add_argument("--own", action="append", type=Path, default=[])
    record.add_argument("--backend", choices=BACKENDS)
    record.add_argument("--steps", type=int, default=recording.STEPS)
    record.add_argument("-o", "--output", type=Path, required=True)
    verbs.add_parser("lab-rewrites", help="list the rewrites").set_defaults(run=_list)
    called = verbs.add_parser("lab-compat", help="the operators that a subject calls")
    called.set_defaults(run=_operators)
    called.add_argument("subject", type=Path)
    called.add_argument("--gradients", action="store_true", help="also where the job takes none")


def _hear(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise ValueError("say what to run: lab -o DIR -- python serve.py")
    if arguments.calls is not None and arguments.calls < 1:
        raise ValueError("calls: one at least")
    most, keep = (None if each is None else limits.size(each) for each in (arguments.max_disk, arguments.keep_free))
    parent = None
    if arguments.answer_to is not None:
        os.set_inheritable(arguments.answer_to, False)  # the job and what it leaves running never hold it
        parent = os.getppid()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    answer = hearing.hear(command, arguments.output, arguments.calls, most, keep, parent)
    if arguments.answer_to is None:
        print("\n" + json.dumps(answer), flush=True)
    else:
        with open(arguments.answer_to, "w", encoding="utf-8", closefd=False) as channel:
            channel.write(json.dumps(answer))
    return int(answer["exit_status"])


def _try(arguments: argparse.Namespace) -> int:
    """Every rewrite in a process that it may bring down: see isolating.py."""
    if arguments.pairs < 2 or not 0 < arguments.seconds < 1e5 or not 0 < arguments.limit < 1e7:
        raise ValueError("pairs: two at least; seconds and limit: more than none")
    try:
        refuse_profiled()
    except Profiled as error:
        raise ValueError(str(error)) from error
    place = _one(arguments.subject)
    names = _names(arguments.names, arguments.own)
    subject.about(place)
    given = {"backend": arguments.backend, "pairs": arguments.pairs, "seconds": arguments.seconds,
             "allow-error": arguments.allow_error}  # fmt: skip
    command = [*program(), "lab-work", str(place), *(word for path in arguments.own for word in
               ("--own", str(path)))]  # fmt: skip
    command += [word for name, value in given.items() if value is not None for word in (f"--{name}", str(value))]
    command += [] if arguments.times else ["--no-times"]

    kept = ledger.Ledger(place)

    def heard(told: dict[str, Any], trials: list[Any]) -> None:
        kept.add(told, trials[-1])
        _save(place, {**told, "status": "partial", "reason": None, "trials": trials})

    answer = isolating.supervised(command, names, arguments.limit, heard)
    if "kind" in answer:
        print("\n" + json.dumps({"error": {name: answer[name] for name in ("kind", "message")}}), flush=True)
        return 2
    return _answered(place, answer)


def _work(arguments: argparse.Namespace) -> int:
    """The worker of ``lab-try``: it says what it begins and what became of it."""
    worker = isolating.Worker(arguments.answer_to)
    warnings.simplefilter("ignore")  # torch warns of its own parts
    place: Path = arguments.subject
    try:
        about = subject.about(place)
        choice = choose(arguments.backend or about.device.partition(":")[0])
        backend = open_backend(choice.actual)
        under = _on(subject.read(place), backend.device)
    except (Unavailable, OSError, ValueError) as error:
        worker.say("error", {"kind": type(error).__name__.lower(), "message": str(error)})
        return 2
    options = Options(arguments.pairs, arguments.seconds, arguments.allow_error, arguments.times)
    told: dict[str, Any] = {
        "subject": str(place), "module": about.module, "engine": about.engine, "training": about.training,
        "gradients": about.gradients, "backend": choice.actual, "device": backend.properties().get("name"),
        "captured_on": about.device, "made_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "environment": environment(choice.capability.versions), "calls": about.calls,
        "shapes": [{"shapes": each.shapes, "calls": each.calls} for each in about.shapes],
        "method": {"pairs": options.pairs, "seconds": options.seconds, "fresh": judging.FRESH,
                   "redrawn": judging.REDRAWN, "times": judging.TIMES},
    }  # fmt: skip
    try:
        laboratory = Laboratory(under, backend, options)
    except judging.CannotRun as error:
        worker.say("failed", {**told, "status": "failed", "reason": str(error), "trials": []})
        return 1
    worker.say("told", {**told, "error_of_original": laboratory.error_of_original()})
    for name in arguments.names:
        worker.say("begin", name)
        worker.say("trial", laboratory.tried(name, arguments.own).as_dict())
        try:
            backend.synchronize()
        except RuntimeError:  # a device that failed once answers nothing more in this process
            return 1
    return 0


def _answered(place: Path, answer: dict[str, Any]) -> int:
    _save(place, answer)
    print("\n" + json.dumps(answer), flush=True)
    return 1 if answer["status"] == "failed" else 0


def _save(place: Path, answer: dict[str, Any]) -> None:
    """The result lies beside the subject; whoever reads it finds the old one or the new one."""
    half = place / f".{RESULT}.half"
    half.write_text(json.dumps(answer, indent=1) + "\n", encoding="utf-8")
    half.replace(place / RESULT)


def _one(place: Path) -> Path:
    """The subject that a directory is or holds."""
    found = subject.found(place)
    if not found:
        raise subject.NoSubject(f"{place} holds no subject: npulens lab -o DIR -- python serve.py makes one")
    if len(found) > 1:
        raise subject.NoSubject(f"{place} holds {len(found)} subjects; name one: {', '.join(map(str, found))}")
    return found[0]


def _names(asked: list[str], own: list[Path]) -> list[str]:
    """What is asked for, with commas or one by one; all that there are where nothing is."""
    given = [name for text in asked for name in text.split(",") if name]
    wanted = given or [*rewrite.names(), *(path.stem for path in own)]
    for name in wanted:
        if name not in rewrite.names() and name not in [path.stem for path in own]:
            raise ValueError(f"there is no rewrite {name!r}; there are: {', '.join(rewrite.names())}")
    return list(dict.fromkeys(wanted))


def _on(found: subject.Subject, device: str) -> subject.Subject:
    """The subject on the device where it is tried."""
    batches = tuple(tuple(each.to(device) for each in batch) for batch in found.batches)
    program = found.program.to(device)
    if graph.is_graph(program) and found.about.device != device:
        program = graph.on_device(program, device)
    return subject.Subject(found.place, found.about, program, batches, found.outputs)


def _chains(arguments: argparse.Namespace) -> int:
    """On the commonest shape."""
    place = _one(arguments.subject)
    found = subject.read(place)
    told = chains.told(found.program, found.batches[0])
    print(json.dumps({"status": "complete", "subject": str(place), "module": found.about.module, "chains": told}))
    return 0


def _ledger(_: argparse.Namespace) -> int:
    print(json.dumps(ledger.told(ledger.path())))
    return 0


def _operators(arguments: argparse.Namespace) -> int:
    """Which operators one call of a subject makes; it runs on the CPU, where their parts are told."""
    warnings.simplefilter("ignore")
    place = _one(arguments.subject)
    about = subject.about(place)
    gradients = about.gradients or arguments.gradients
    try:
        found = compat.operators(_on(subject.read(place), "cpu"), gradients)
    except judging.CannotRun as error:
        raise ValueError(str(error)) from error
    print("\n" + json.dumps({
        "status": "listed", "subject": str(place), "module": about.module, "engine": about.engine, "device": "cpu",
        "gradients": gradients, "torch": compat.release(), "operators": found,
    }), flush=True)  # fmt: skip
    return 0


def _record(arguments: argparse.Namespace) -> int:
    """Both under the recorder, one after the other."""
    warnings.simplefilter("ignore")
    if arguments.steps < 1:
        raise ValueError("steps: one at least")
    place = _one(arguments.subject)
    (name,) = _names([arguments.rewrite], arguments.own)[:1]
    choice = choose(arguments.backend or subject.about(place).device.partition(":")[0])
    backend = open_backend(choice.actual)
    under = _on(subject.read(place), backend.device)
    sides = recording.record(under, backend, choice, name, arguments.own, arguments.output, arguments.steps)
    print("\n" + json.dumps({"status": "recorded", "subject": str(place), "rewrite": name, "sides": sides}), flush=True)
    return 0


def _list(_: argparse.Namespace) -> int:
    print(json.dumps({"status": "listed", "rewrites": list(listed())}))
    return 0


def listed() -> Iterator[dict[str, str]]:
    """Every rewrite and what it says of itself; none is imported for that."""
    for name in rewrite.names():
        source = (Path(rewrite.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
        yield {"rewrite": name, "what": ast.get_docstring(ast.parse(source)) or ""}
