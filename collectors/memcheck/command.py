"""``python -m npulens.collectors memcheck``: kernels under the checker, a device's own tool, or a report of one."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from npulens.collectors.memcheck import device, running


def add(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The verb and its options."""
    check = verbs.add_parser("memcheck", help="check the memory accesses of Triton kernels")
    check.set_defaults(run=_check)
    check.add_argument("target", nargs="?", metavar="FILE.py[:NAME]")
    check.add_argument("--on-device", action="store_true")
    check.add_argument("--read", type=Path, metavar="REPORT")
    check.add_argument("arguments", nargs=argparse.REMAINDER)


def _check(arguments: argparse.Namespace) -> int:
    words = arguments.arguments[1:] if arguments.arguments[:1] == ["--"] else arguments.arguments
    if arguments.read is not None:
        report = device.read(arguments.read)
    elif arguments.on_device:
        if arguments.target is None:
            raise ValueError("say which script is to run on the device: npulens memcheck --on-device FILE.py")
        report = device.ran(arguments.target, words)
    else:
        report = running.checked(arguments.target, words)
    status = "found" if report.findings else "partial" if report.notes else "clean"
    answer: dict[str, Any] = {"status": status, "target": arguments.target, **report.as_dict()}
    print("\n" + json.dumps(answer), flush=True)
    return 0
