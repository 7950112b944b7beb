"""``python -m collectors``: what runs on the machine with the device. Needs Python 3.9 and torch, nothing else of ours.

The last line of standard output is the answer as JSON; everything before it is the job's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from collectors import manifest, our_job, own_job
from collectors.backends.probe import BACKENDS, Choice, Unavailable, choose
from collectors.collected import Collected
from collectors.settings import EXPORTS, LEVELS, Settings
from collectors.workloads.workload import NotHere


def main(argv: list[str] | None = None) -> int:
    """0: complete or partial, 1: nothing was recorded, 2: it could not begin, 3: the job itself failed."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (Unavailable, NotHere, OSError, ValueError) as error:
        print(json.dumps({"error": {"kind": type(error).__name__.lower(), "message": str(error)}}))
        return 2


def _own(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise ValueError("say what to run: collect -o DIR -- python train.py")
    choice, settings = _choice(arguments), _settings(arguments)
    found, status = own_job.run(command, arguments.output, choice.actual, settings, arguments.steps_by, arguments.armed)
    _told(arguments.output, "a job of its owner's", command, choice, settings, found, {"exit_status": status})
    return 3 if status else 1 if found.status == "failed" else 0


def _ours(arguments: argparse.Namespace) -> int:
    name, settings = arguments.workload, _settings(arguments)
    variant, sizes, dtype = our_job.chosen(name, arguments.variant, arguments.shape, arguments.dtype)
    choice = _choice(arguments)
    found = our_job.run(name, variant, sizes, dtype, choice.actual, settings, arguments.output, arguments.seed)
    told = {"workload": name, "variant": variant, "shape": sizes, "dtype": dtype, "seed": arguments.seed}
    command = ["npulens", "collect", name, "--variant", variant, "--dtype", dtype, "--seed", str(arguments.seed)]
    command += ["--shape", ",".join(f"{size}={value}" for size, value in sizes.items())]
    _told(arguments.output, f"workload {name}", command, choice, settings, found, told)
    return 1 if found.status == "failed" else 0


def _workloads(arguments: argparse.Namespace) -> int:
    print(json.dumps({"status": "listed", "workloads": list(our_job.listed())}))
    return 0


def _choice(arguments: argparse.Namespace) -> Choice:
    """The backend; why it is not a better one is said before anything runs."""
    choice = choose(arguments.backend)
    if choice.reason:
        print(f"npulens: recording on {choice.actual} ({choice.reason})", file=sys.stderr, flush=True)
    return choice


def _told(
    directory: Path, what: str, command: list[str], choice: Choice, settings: Settings, found: Collected,
    more: dict[str, object],
) -> None:  # fmt: skip
    """The manifest, and the answer."""
    told = {"status": found.status, "reason": found.reason, **more}
    traces = [asdict(trace) for trace in found.traces]
    recorded = {"settings": asdict(settings), "traces": traces, "processes": list(found.processes)}
    manifest.write(directory, what, command, choice, {**told, **recorded})
    answer = {"directory": str(directory), "backend": choice.actual, **told, "traces": len(traces)}
    print("\n" + json.dumps(answer), flush=True)


def _begin(arguments: argparse.Namespace) -> int:
    own_job.begin(arguments.output)
    print(json.dumps({"directory": str(arguments.output), "status": "begun"}))
    return 0


def _doctor(arguments: argparse.Namespace) -> int:
    from collectors.doctor.visit import visit

    found = visit(Path.cwd())
    print(json.dumps(found), flush=True)
    return 0 if found["status"] == "usable" else 1


def _settings(arguments: argparse.Namespace) -> Settings:
    given = {name: getattr(arguments, name) for name in vars(Settings()) if getattr(arguments, name, None) is not None}
    return replace(Settings(), **{name: tuple(v) if isinstance(v, list) else v for name, v in given.items()})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m collectors", description="Runs and records on this machine.")
    verbs = parser.add_subparsers(required=True)
    own = verbs.add_parser("own", help="record a job of yours")
    own.set_defaults(run=_own)
    own.add_argument("-o", "--output", type=Path, required=True)
    own.add_argument("--backend", choices=BACKENDS)
    own.add_argument("--steps-by", choices=("auto", "optimizer", "forward"), default="auto")
    own.add_argument("--armed", action="store_true")
    _add_settings(own)
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
    doctor = verbs.add_parser("doctor", help="whether this machine can run, record and measure")
    doctor.set_defaults(run=_doctor)
    return parser


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for name in ("wait", "warmup", "active"):
        parser.add_argument(f"--{name}", type=int)
    for name in ("shapes", "stacks", "memory", "modules", "flops", "l2_cache", "mstx"):
        parser.add_argument(f"--{name.replace('_', '-')}", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--level", choices=LEVELS)
    parser.add_argument("--metrics")
    parser.add_argument("--export", action="append", choices=EXPORTS)


if __name__ == "__main__":
    sys.exit(main())
