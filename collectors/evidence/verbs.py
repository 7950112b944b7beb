"""The commands of the evidence: all of it, one part, one rank, and what a challenge expects."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from npulens.collectors.backends.probe import BACKENDS
from npulens.collectors.evidence import drawn


def add(verbs: Any) -> None:
    """``evidence`` and what it starts; ``evidence-expected``."""
    whole = verbs.add_parser("evidence", help="what proves that this device did what it says")
    whole.set_defaults(run=_run)
    whole.add_argument("-o", "--output", type=Path, required=True)
    whole.add_argument("--backend", choices=BACKENDS)
    whole.add_argument("--minutes", type=float, default=15.0)
    whole.add_argument("--ranks", type=int, default=2)
    whole.add_argument("--challenge")
    whole.add_argument("--part", action="append", default=[])
    for name, function in (("evidence-part", _part), ("evidence-rank", _rank)):
        one = verbs.add_parser(name)
        one.set_defaults(run=function)
        if function is _part:
            one.add_argument("part")
        one.add_argument("-o", "--output", type=Path, required=True)
        one.add_argument("--backend", choices=BACKENDS, required=True)
        one.add_argument("--challenge", required=True)
    expected = verbs.add_parser("evidence-expected", help="what a challenge decides")
    expected.set_defaults(run=_expected)
    expected.add_argument("--challenge", required=True)
    expected.add_argument("--values", action="store_true", help="also what the workloads compute; wants torch")


def _run(arguments: argparse.Namespace) -> int:
    from npulens.collectors.evidence.parts import ORDER
    from npulens.collectors.evidence.run import run

    unknown = [part for part in arguments.part if part not in ORDER]
    if unknown:
        raise ValueError(f"there is no part {unknown[0]!r}; there are: {', '.join(ORDER)}")
    told = run(
        arguments.output, arguments.backend, arguments.minutes, arguments.ranks, arguments.challenge, arguments.part
    )
    print("\n" + json.dumps({"status": "run", "manifest": told}), flush=True)
    return 0


def _part(arguments: argparse.Namespace) -> int:
    from npulens.collectors.evidence.parts import FAILURES, PARTS, Asked, first_line
    from npulens.collectors.workloads.workload import NotHere

    asked = Asked(arguments.output.resolve(), arguments.backend, drawn.plan(arguments.challenge))
    outcome, reason, left_out = "run", None, []
    try:
        left_out = PARTS[arguments.part](asked) or []
    except NotHere as error:
        outcome, reason = "not here", first_line(error)
    except FAILURES as error:
        outcome, reason = "failed", first_line(error)
    told = {"part": arguments.part, "outcome": outcome, "reason": reason, "left_out": left_out}
    print("\n" + json.dumps(told), flush=True)
    return 0


def _rank(arguments: argparse.Namespace) -> int:
    from npulens.collectors.evidence.ranks import reduce

    reduce(arguments.output.resolve() / "recordings" / "ranks", arguments.backend, drawn.plan(arguments.challenge))
    return 0


def _expected(arguments: argparse.Namespace) -> int:
    told: dict[str, Any] = {"plan": drawn.plan(drawn.word(arguments.challenge)), "truths": None, "reason": None}
    if arguments.values:
        try:
            from npulens.collectors.evidence.cases import truths

            told["truths"] = truths(told["plan"]["seed"])
        except ImportError as error:
            told["reason"] = str(error)
    print("\n" + json.dumps({"status": "expected", **told}), flush=True)
    return 0
