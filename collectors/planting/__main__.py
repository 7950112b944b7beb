"""``python -m npulens.collectors.planting``: what `npulens simulate` starts as a process of its own."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from npulens.collectors.planting.plant import LEVELS, Case, Options, emptied, plan, say, scenarios, truth_of, write
from npulens.collectors.simulator.dialect import DIALECTS
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.bench_trace import lap_ns, replicate_kineto, replicate_text
from npulens.collectors.writers.torch_npu_csv import write_kernels
from npulens.collectors.writers.torch_npu_text import rank_directory


def main(arguments: list[str] | None = None) -> int:
    asked = _parser().parse_args(arguments)
    known = scenarios()
    if asked.list:
        listed = {"scenarios": [{"name": name, "what": _what(known[name].__doc__)} for name in known]}
        print(json.dumps(listed | {"dialects": [{"name": name, "what": d.what} for name, d in DIALECTS.items()]}))
        return 0
    names = [name for name in asked.scenario.split(",") if name and name != "clean"]
    unknown = [name for name in names if name not in known]
    if unknown:
        return _refuse("no_scenario", f"no scenario {unknown[0]}: there are {', '.join(known)}")
    if asked.dialect not in DIALECTS:
        return _refuse("no_dialect", f"no dialect {asked.dialect}: there are {', '.join(DIALECTS)}")
    if len(set(names)) < len(names):
        return _refuse("twice", "a scenario can be planted once")
    if asked.output is None:
        return _refuse("no_output", "say with -o where the capture goes")
    skew = None if asked.skew is None else asked.skew * 1000
    options = Options(
        asked.ranks, asked.steps, asked.level, asked.format, asked.missing_ranks, skew, asked.clean, asked.dialect
    )
    try:
        case = plan(names, asked.seed, options)
        truth = replicate(case, asked.output, asked.replicate) if asked.replicate else write(case, asked.output)
    except ValueError as error:
        return _refuse("impossible", str(error))
    print(json.dumps({**truth, "world": case.config.ranks}))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m npulens.collectors.planting", description=__doc__)
    parser.add_argument("scenario", nargs="?", default="clean", help="names with commas between them; 'clean' for none")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--clean", action="store_true")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--steps", type=int)
    parser.add_argument("--level", type=int, choices=(0, 1, 2))
    parser.add_argument("--format", choices=("text", "db", "kineto"))
    parser.add_argument("--missing-ranks", type=int)
    parser.add_argument("--skew", type=int)
    parser.add_argument("--dialect", default="plain")
    parser.add_argument("--replicate", type=int, default=0)
    parser.add_argument("-o", "--output", type=Path)
    return parser


def _what(doc: str | None) -> str:
    return (doc or "").strip().partition("\n")[0]


def _refuse(kind: str, message: str) -> int:
    print(json.dumps({"error": {"kind": kind, "message": message}}))
    return 2


# A case made long: its steps laid end to end, for captures of ten million spans and more.
#
# What is one stream of events or rows can be laid end to end: trace_view.json with kernel_details.csv, and Kineto
# traces. The other tables beside a trace_view.json are left out; the capture says itself that they are missing.
def replicate(case: Case, directory: Path, laps: int) -> dict[str, Any]:
    """As ``write``, with every step ``laps`` times; the gain of a fault is the same in each lap."""
    capture, home = case.capture, emptied(directory)
    if capture.format == "db":
        raise ValueError("a database cannot be replicated: choose text or kineto")
    options = AscendOptions(LEVELS[capture.level])  # type: ignore[arg-type]
    for rank in capture.ranks:
        record = case.job.ranks[rank]
        if capture.format == "kineto":
            replicate_kineto(home / f"rank{rank}.pt.trace.json", case.job, record, lambda names, events: laps)
        else:
            output = rank_directory(case.job, record, home, options, ("text",))
            replicate_text(output / "trace_view.json", case.job, record, options, lambda names, events: laps)
            write_kernels(record, output, options, laps, lap_ns(case.job), case.config.steps)
    truth, stride = truth_of(case), lap_ns(case.job)
    for fault in truth["faults"]:
        fault["windows"] = [
            {**window, "ts_ns": window["ts_ns"] + lap * stride} for lap in range(laps) for window in fault["windows"]
        ]
    return say(directory, truth)


if __name__ == "__main__":
    sys.exit(main())
