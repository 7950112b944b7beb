"""``python -m npulens.collectors``: what runs on the machine with the device. Needs Python 3.9 and torch, nothing else
of ours.

The last line of standard output is the answer as JSON, or a channel of its own is; all else there is the job's.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import sys
import types
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

if not __package__:  # run as a folder, by an interpreter that need not have npulens: `python collectors doctor`
    _here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != _here]
    sys.modules["npulens"] = types.ModuleType("npulens")
    sys.modules["npulens"].__path__ = [os.path.dirname(_here)]

from npulens.collectors import limits, manifest, our_job, own_job, source_lines
from npulens.collectors.backends.probe import BACKENDS, Choice, Unavailable, choose
from npulens.collectors.bench import command as bench
from npulens.collectors.child import CannotStart
from npulens.collectors.collected import Collected, collected, gathered, notices
from npulens.collectors.doctor import verbs as doctor
from npulens.collectors.evidence import verbs as evidence
from npulens.collectors.generated import command as generated
from npulens.collectors.lab import command as lab
from npulens.collectors.lab.choice import command as lab_choice
from npulens.collectors.memcheck import command as memcheck
from npulens.collectors.profilers import analysed, dynamic_profile
from npulens.collectors.serving import collect as serving
from npulens.collectors.settings import EXPORTS, HOST_SYSTEM, LEVELS, Settings
from npulens.collectors.steps.period import By
from npulens.collectors.workloads.workload import NotHere

_SWITCHES = (
    "shapes", "stacks", "memory", "modules", "flops", "l2_cache", "mstx", "op_attr", "system_io", "interconnection",
    "simplify", "asynchronous", "native", "defer", "training",
)  # fmt: skip


_THEIRS = "a job of its owner's"
_SIZES = ("max_disk", "keep_free")
#: A shell's status of a process that a signal has ended is above this.
_SIGNALLED = 128


def main(argv: list[str] | None = None) -> int:
    """0: complete or partial, 1: nothing was recorded, 2: it could not begin. ``own`` ends as the job does."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (Unavailable, NotHere, OSError, ValueError) as error:
        said = {"kind": type(error).__name__.lower(), "message": str(error)}
        _say({"error": said}, getattr(arguments, "answer_to", None))
        return error.status if isinstance(error, CannotStart) else 2


def _own(arguments: argparse.Namespace) -> int:
    """Runs the job, once for each group of counters; a run that a signal ended is the last."""
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise ValueError("say what to run: collect -o DIR -- python train.py")
    By.parse(arguments.steps_by)
    parent = None
    if arguments.answer_to is not None:
        os.set_inheritable(arguments.answer_to, False)  # the job and what it leaves running never hold it
        parent = os.getppid()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # until the job runs an interrupt ends us, without a word
    choice, answers = _choice(arguments), []
    for home, settings in _passes(arguments, choice):
        found, status = own_job.run(command, home, choice.actual, settings, arguments.steps_by, arguments.armed, parent)
        answers.append(_told_of_own(home, command, choice, settings, found, status))
        if status > _SIGNALLED:
            break
    _answer(arguments.output, answers, arguments.answer_to)
    return next((int(each["exit_status"]) for each in answers if each["exit_status"]), 0)


def _told_of_own(
    home: Path, command: list[str], choice: Choice, settings: Settings, found: Collected, status: int
) -> dict[str, Any]:
    """What to answer of one run of a job. Where its disk is full the manifest is missing, and the answer says so."""
    more = {"exit_status": status, "notices": notices(found, settings.active), "others": found.others}
    if found.others or not home.exists():  # the last of them describes all; or it failed at once, and left nothing
        told = {"status": found.status, "reason": found.reason, **more, "traces": len(found.traces)}
        return {"backend": choice.actual, **told}
    try:
        return _told(home, _THEIRS, command, choice, settings, found, more)
    except OSError as error:
        reason = f"the manifest cannot be written: {error.strerror}"
        return {"backend": choice.actual, "status": "failed", "reason": reason, **more, "traces": 0}


def _env(arguments: argparse.Namespace) -> int:
    """Prints the variables that record a job which something else starts: for a shell, or as JSON."""
    By.parse(arguments.steps_by)
    settings, backend = _settings(arguments, arguments.metrics), arguments.backend or "auto"
    variables = own_job.environment(arguments.output, backend, settings, arguments.steps_by, arguments.armed)
    if arguments.json:
        _say({"status": "told", "variables": variables}, None)
    else:
        for name, value in variables.items():
            print(f"export {name}={shlex.quote(value)}")
    return 0


def _ours(arguments: argparse.Namespace) -> int:
    name = arguments.workload
    variant, sizes, dtype = our_job.chosen(name, arguments.variant, arguments.shape, arguments.dtype)
    choice, answers = _choice(arguments), []
    told = {"workload": name, "variant": variant, "shape": sizes, "dtype": dtype, "seed": arguments.seed}
    command = ["npulens", "collect", name, "--variant", variant, "--dtype", dtype, "--seed", str(arguments.seed)]
    command += ["--shape", ",".join(f"{size}={value}" for size, value in sizes.items())]
    for home, settings in _passes(arguments, choice):
        found = our_job.run(name, variant, sizes, dtype, choice.actual, settings, home, arguments.seed)
        answers.append(_told(home, f"workload {name}", command, choice, settings, found, told))
    return 1 if _answer(arguments.output, answers)["status"] == "failed" else 0


def _workloads(arguments: argparse.Namespace) -> int:
    print(json.dumps({"status": "listed", "workloads": list(our_job.listed())}))
    return 0


def _choice(arguments: argparse.Namespace) -> Choice:
    """The backend; why it is not a better one is said before anything runs."""
    choice = choose(arguments.backend)
    if choice.reason:
        print(f"npulens: recording on {choice.actual} ({choice.reason})", file=sys.stderr, flush=True)
    return choice


def _passes(arguments: argparse.Namespace, choice: Choice) -> list[tuple[Path, Settings]]:
    """The job runs once for each group of AI core counters, into a directory of that name where there are several."""
    groups = (arguments.metrics or Settings().metrics).split(",")
    if len(groups) > 1 and choice.actual != "npu":
        raise ValueError("groups of AI core counters are an NPU's: name one, or none")
    homes = [arguments.output / group if len(groups) > 1 else arguments.output for group in groups]
    return [(home, _settings(arguments, group)) for home, group in zip(homes, groups)]


def _told(
    directory: Path, what: str, command: list[str], choice: Choice, settings: Settings, found: Collected,
    more: dict[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Writes the manifest of one run of the job; what to answer about it."""
    told = {"status": found.status, "reason": found.reason, **more}
    traces = [asdict(trace) for trace in found.traces]
    recorded: dict[str, Any] = {"settings": asdict(settings), "traces": traces, "processes": list(found.processes)}
    if settings.stacks and (sources := source_lines.of([each.path for each in found.traces], command, Path.cwd())):
        recorded["sources"] = sources
    manifest.write(directory, what, command, choice, {**told, **recorded})
    return {"backend": choice.actual, **told, "traces": len(traces)}


def _answer(directory: Path, answers: list[dict[str, Any]], to: int | None = None) -> dict[str, Any]:
    """The worst of all runs speaks for them."""
    worst = max(answers, key=lambda each: ("deferred", "complete", "partial", "failed").index(each["status"]))
    answer = {"directory": str(directory), **worst, "traces": sum(each["traces"] for each in answers)}
    _say(answer, to)
    return answer


def _say(answer: dict[str, Any], to: int | None) -> None:
    """The answer: on a channel of its own, or as the last line of standard output."""
    if to is None:
        print("\n" + json.dumps(answer), flush=True)
        return
    with open(to, "w", encoding="utf-8", closefd=False) as channel:
        channel.write(json.dumps(answer))


def _begin(arguments: argparse.Namespace) -> int:
    if arguments.watched is not None:
        dynamic_profile.begin(arguments.watched, _settings(arguments, arguments.metrics), arguments.output)
    else:
        own_job.begin(arguments.output)
    print(json.dumps({"directory": str(arguments.output), "status": "begun"}))
    return 0


def _analyse(arguments: argparse.Namespace) -> int:
    """Analyses what a deferred recording left, here or where it was copied to, and judges what came together."""
    home = arguments.output
    if not home.is_dir():
        raise FileNotFoundError(f"{home} is no directory of a recording")
    count, told, said = analysed.analyse(home), manifest.read(home), gathered(home)
    if said:  # nobody has judged it yet
        told = {"what": _THEIRS, "evidence": said[0]["backend"], "settings": {"active": said[0]["active"]}}
    wanted = told.get("settings", {}).get("active", 0)
    wanted = wanted if isinstance(wanted, int) else 0
    found = collected(home, told.get("evidence", "npu"), wanted, processes=said)
    said_of_it = notices(found, wanted)
    answer = {"status": found.status, "reason": found.reason, "analysed": count, "notices": said_of_it}
    if told:
        more = {"processes": said, "notices": said_of_it} if said else {}
        traces = [asdict(trace) for trace in found.traces]
        manifest.amend(home, {**told, "status": found.status, "reason": found.reason, "traces": traces, **more})
    _say({"directory": str(home), **answer, "traces": len(found.traces)}, None)
    return 1 if found.status == "failed" else 0


def _settings(arguments: argparse.Namespace, metrics: str | None = None) -> Settings:
    asked = {name: getattr(arguments, name, None) for name in vars(Settings())}
    given: dict[str, Any] = {name: value for name, value in asked.items() if value is not None}
    given.update({} if metrics is None else {"metrics": metrics})
    given.update({name: limits.size(given[name]) for name in _SIZES if name in given})
    fixed: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    return replace(Settings(), **fixed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="npulens.collectors", description="Runs and records on this machine.")
    verbs = parser.add_subparsers(required=True)
    own = verbs.add_parser("own", help="record a job of yours")
    own.set_defaults(run=_own)
    env = verbs.add_parser("env", help="print the environment of a job that something else starts")
    env.set_defaults(run=_env)
    env.add_argument("--json", action="store_true")
    for each in (own, env):
        each.add_argument("-o", "--output", type=Path, required=True)
        each.add_argument("--backend", choices=BACKENDS)
        each.add_argument("--steps-by", default="auto", help="auto, optimizer, forward, a number of them, time:200ms")
        each.add_argument("--armed", action="store_true")
        _add_settings(each)
    own.add_argument("--answer-to", type=int, metavar="FD", help="a channel for the answer, instead of standard output")
    own.add_argument("command", nargs=argparse.REMAINDER)
    ours = verbs.add_parser("workload", help="record one of ours")
    ours.set_defaults(run=_ours)
    ours.add_argument("workload")
    ours.add_argument("-o", "--output", type=Path, required=True)
    ours.add_argument("--backend", choices=BACKENDS)
    for name in ("variant", "dtype", "shape"):
        ours.add_argument(f"--{name}")
    ours.add_argument("--seed", type=int, default=0)
    _add_settings(ours)
    verbs.add_parser("workloads", help="list ours").set_defaults(run=_workloads)
    begin = verbs.add_parser("begin", help="begin the recording of an armed job")
    begin.set_defaults(run=_begin)
    begin.add_argument("-o", "--output", type=Path, required=True)
    begin.add_argument("--watched", type=Path, help="what the job was given as PROF_CONFIG_PATH")
    _add_settings(begin)
    later = verbs.add_parser("analyse", help="analyse what a deferred recording left")
    later.set_defaults(run=_analyse)
    later.add_argument("-o", "--output", type=Path, required=True)
    bench.add(verbs)
    doctor.add(verbs)
    evidence.add(verbs)
    lab.add(verbs)
    lab_choice.add(verbs)
    generated.add(verbs)
    memcheck.add(verbs)
    serving.add(verbs)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for name in ("wait", "warmup", "active"):
        parser.add_argument(f"--{name}", type=int)
    for name in _SWITCHES:
        parser.add_argument(f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--level", choices=LEVELS)
    parser.add_argument("--metrics", help="a group of AI core counters, or several with commas: one run for each")
    parser.add_argument("--export", action="append", choices=EXPORTS)
    parser.add_argument("--host-system", action="append", choices=HOST_SYSTEM)
    parser.add_argument("--gc-threshold-ms", type=float)
    for name in _SIZES:
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="SIZE")
    for name in ("mstx_only", "mstx_without"):
        parser.add_argument(f"--{name.replace('_', '-')}", action="append", metavar="DOMAIN")


if __name__ == "__main__":
    sys.exit(main())
