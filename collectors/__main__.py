"""``python -m collectors``: what runs on the machine with the device. Needs Python 3.9 and torch, nothing else of ours.

The last line of standard output is the answer as JSON; everything before it is the job's own.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path

from collectors import manifest, own_job
from collectors.backends.probe import BACKENDS, Unavailable, choose
from collectors.settings import EXPORTS, LEVELS, Settings


def main(argv: list[str] | None = None) -> int:
    """0: complete or partial, 1: nothing was recorded, 2: it could not begin, 3: the job itself failed."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except (Unavailable, OSError, ValueError) as error:
        print(json.dumps({"error": {"kind": type(error).__name__.lower(), "message": str(error)}}))
        return 2


def _own(arguments: argparse.Namespace) -> int:
    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise ValueError("say what to run: collect -o DIR -- python train.py")
    choice, settings = choose(arguments.backend), _settings(arguments)
    if choice.reason:
        print(f"npulens: recording on {choice.actual} ({choice.reason})", file=sys.stderr, flush=True)
    found, status = own_job.run(command, arguments.output, choice.actual, settings, arguments.steps_by, arguments.armed)
    told = {"status": found.status, "reason": found.reason, "exit_status": status}
    manifest.write(
        arguments.output, "a job of its owner's", command, choice,
        {**told, "settings": asdict(settings), "traces": [asdict(trace) for trace in found.traces],
         "processes": list(found.processes)},
    )  # fmt: skip
    answer = {"directory": str(arguments.output), "backend": choice.actual, **told, "traces": len(found.traces)}
    print("\n" + json.dumps(answer), flush=True)
    return 3 if status else 1 if found.status == "failed" else 0


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
