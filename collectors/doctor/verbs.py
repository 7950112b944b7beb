"""The commands of the doctor: ``doctor``, ``roofs`` and ``self-test``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from npulens.collectors.backends.probe import BACKENDS


def add(verbs: Any) -> None:
    """``doctor``, ``roofs`` and ``self-test``."""
    doctor = verbs.add_parser("doctor", help="whether this machine can run, record and measure")
    doctor.set_defaults(run=_doctor)
    roofs = verbs.add_parser("roofs", help="how fast torch multiplies, moves and starts operators here")
    roofs.set_defaults(run=_roofs)
    roofs.add_argument("--backend", choices=BACKENDS)
    tested = verbs.add_parser("self-test", help="the whole way once, with evidence")
    tested.set_defaults(run=_self_test)
    tested.add_argument("-o", "--output", type=Path, required=True)
    tested.add_argument("--backend", choices=BACKENDS)


def _doctor(arguments: argparse.Namespace) -> int:
    from npulens.collectors.doctor.visit import visit

    return _answer(visit(Path.cwd()), "")


def _roofs(arguments: argparse.Namespace) -> int:
    """Measures, and keeps what came out for `collect`."""
    from npulens.collectors.backends.backend import open_backend
    from npulens.collectors.backends.probe import choose
    from npulens.collectors.bench import text
    from npulens.collectors.doctor.roofs import keep, measure
    from npulens.collectors.harness.unprofiled import Profiled
    from npulens.collectors.telemetry import machine
    from npulens.collectors.telemetry.processor import our_cores

    choice = choose(arguments.backend)
    if choice.reason:
        print(f"npulens: measuring on {choice.actual} ({choice.reason})", file=sys.stderr, flush=True)
    load = machine.load()
    if load is not None and (warning := text.busy(load, len(our_cores()))):
        print(warning, file=sys.stderr, flush=True)
    try:
        found = measure(open_backend(choice.actual), choice)
    except (Profiled, RuntimeError) as error:  # RuntimeError: torch's own, as where memory is out
        raise ValueError(f"the roofs cannot be measured: {text.first_line(error)}") from error
    try:
        place: str | None = str(keep(choice, found))
    except (OSError, RuntimeError) as error:  # RuntimeError: this user has no home
        place = None
        print(f"npulens: the roofs cannot be kept: {error}", file=sys.stderr, flush=True)
    print("\n" + json.dumps({"status": "measured", **found, "kept": place}), flush=True)
    return 0


def _self_test(arguments: argparse.Namespace) -> int:
    from npulens.collectors.doctor.self_test import run

    return _answer(run(arguments.output, arguments.backend), "\n")


def _answer(found: dict[str, Any], lead: str) -> int:
    """The last line; a line of its own also after a job that ended without one."""
    print(lead + json.dumps(found), flush=True)
    return 0 if found["status"] == "usable" else 1
