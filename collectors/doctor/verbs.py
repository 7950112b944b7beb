"""The two commands of the doctor: ``doctor`` and ``self-test``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from npulens.collectors.backends.probe import BACKENDS


def add(verbs: Any) -> None:
    """``doctor`` and ``self-test``."""
    doctor = verbs.add_parser("doctor", help="whether this machine can run, record and measure")
    doctor.set_defaults(run=_doctor)
    tested = verbs.add_parser("self-test", help="the whole way once, with evidence")
    tested.set_defaults(run=_self_test)
    tested.add_argument("-o", "--output", type=Path, required=True)
    tested.add_argument("--backend", choices=BACKENDS)


def _doctor(arguments: argparse.Namespace) -> int:
    from npulens.collectors.doctor.visit import visit

    return _answer(visit(Path.cwd()), "")


def _self_test(arguments: argparse.Namespace) -> int:
    from npulens.collectors.doctor.self_test import run

    return _answer(run(arguments.output, arguments.backend), "\n")


def _answer(found: dict[str, Any], lead: str) -> int:
    """The last line; a line of its own also after a job that ended without one."""
    print(lead + json.dumps(found), flush=True)
    return 0 if found["status"] == "usable" else 1
