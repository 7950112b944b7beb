"""A scripted client of `npulens mcp` over planted faults: is each named with its rank, window and ceiling, how briefly.

    python -m tests.agents.score [--cases 500] [--dialect NAME,NAME] [--seed N] [--tokens 2000] [--only NAME,NAME]

Captures are made as `python -m tests.score` makes them, and loaded into one store. The official client then asks about
each over stdio: `check`, and `evidence` of the first finding with the tokens that are left. What it was answered is
scored by the rules of analysis/scoring.py, and by nothing else that the run holds. A fault is told if an answer has its
cause, rank and window, and a ceiling (`saving_most_ns`) that is no more than a fifth below what the fault costs. Beside
it stands how often `saving_ns` alone is no further below, and how often the ceiling is more than a fifth above. Each
question is asked twice; the second answer is the warm one. --only takes cases by the names that are printed: a name
holds the dialect, the faults and the seed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import anyio
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

from npulens import ingest
from npulens.analysis.scoring import TOLD, Case, Rate, scored
from npulens.analysis.scoring import Planted as Fault
from npulens.app.agents.budget import LEAST, tokens
from npulens.app.selection.chosen import read
from npulens.collectors.planting.plant import plan, write
from npulens.collectors.simulator.dialect import DIALECTS
from tests.score.__main__ import Task, tasks


@dataclass(frozen=True)
class Planted:
    """A capture in the store, and the truth about it."""

    task: Task
    run: str
    truth: Mapping[str, Any]


@dataclass(frozen=True)
class Told:
    """What the client was answered about one capture."""

    case: Case  # by the ceilings
    least: Case  # by what the capture tells of each saving
    tokens: int
    texts: tuple[str, ...]
    warm_ms: tuple[float, ...]


def planted(todo: Sequence[Task], store: Path, jobs: int) -> list[Planted]:
    """Every capture that can be made, loaded."""
    found = []
    with ProcessPoolExecutor(jobs) as pool:
        for number, one in enumerate(pool.map(_loaded, todo, [store] * len(todo)), 1):
            if one is not None:
                found.append(one)
            if number % 20 == 0:
                print(f"{number} of {len(todo)} loaded", file=sys.stderr, flush=True)
    return found


def _loaded(task: Task, store: Path) -> Planted | None:
    with tempfile.TemporaryDirectory(prefix="npulens-agents-") as scratch:
        home = Path(scratch) / task.name
        home.mkdir()
        try:
            truth = write(plan(task.names, task.seed, task.options), home)
        except ValueError:
            return None  # no job has all these faults
        captures = [path for path in sorted(home.iterdir()) if path.name != "truth.json"]
        run, *others = [run for run in ingest.load(captures, store, label=task.name).runs if run.run_id is not None]
    if others:  # ranks without a common group whose clocks lie too far apart; the client asks about one of them
        print(f"{1 + len(others)} runs: {task.name}", file=sys.stderr, flush=True)
    return Planted(task, str(run.run_id), truth)


def called(name: str) -> Task:
    """The case of that name."""
    dialect, names, seed = name.split("-")
    faults = tuple(names.split("+"))
    return Task("single" if len(faults) == 1 else "combined", faults, int(seed), dialect)


async def asked(client: Client, one: Planted, most: int) -> Told:
    """Two questions: the check, and the windows of its first finding."""
    warm = []
    first = {"run": one.run, "budget": most * 2 // 3}
    check, text = await _answer(client, "check", first)
    warm.append(await _warm(client, "check", first))
    texts, windows = [text], []
    left = most - tokens(text)
    if check["findings"] and left >= LEAST:
        more = {"run": one.run, "finding": check["findings"][0]["id"], "budget": left}
        answer, text = await _answer(client, "evidence", more)
        warm.append(await _warm(client, "evidence", more))
        texts.append(text)
        windows = answer["windows"]
    case, least = (
        scored(one.task.name, one.truth, as_check(check, windows, key)) for key in ("saving_most_ns", "saving_ns")
    )
    return Told(case, least, sum(map(tokens, texts)), tuple(texts), tuple(warm))


async def _answer(client: Client, tool: str, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
    said = await client.call_tool(tool, given)
    text = said.content[0].text
    if said.is_error:
        raise SystemExit(f"{tool} {given}: {text}")
    return json.loads(text), text


async def _warm(client: Client, tool: str, given: dict[str, Any]) -> float:
    begun = time.perf_counter()
    await client.call_tool(tool, given)
    return 1e3 * (time.perf_counter() - begun)


def as_check(check: Mapping[str, Any], windows: Sequence[Mapping[str, Any]], saving: str) -> dict[str, Any]:
    """What the client knows, in the form that is scored: a finding's rank, its saving, and the windows it was shown."""
    findings = []
    for place, one in enumerate(check["findings"]):
        ranks = read({"ranks": one["ranks"]}).ranks
        seen = [one["window"]] if one["window"] else []
        findings.append({
            **one, "detector": one["id"], "saving_ns": one[saving],
            "evidence": [*seen, *(windows if place == 0 else [])],
            "numbers": {"rank": ranks[0]} if len(ranks) == 1 else {},
        })  # fmt: skip
    return {"findings": findings, "steps": check["steps"], "outcomes": []}


def page(told: Sequence[Told], most: int) -> str:
    """The figures, in lines."""
    faults = [fault for one in told for fault in one.case.planted]
    small = [one for one in told if one.tokens <= most]
    fit = {one.case.name for one in small}
    hit = [fault for fault in faults if fault.hit and fault.case in fit]
    full = [fault for fault in hit if _enough(fault)]
    least = [fault for one in told for fault in one.least.planted if fault.hit and fault.case in fit and _enough(fault)]
    high = [fault for fault in hit if (fault.saving_ns or 0) > (1 + TOLD) * fault.gain_ns]
    first = [fault for fault in faults if fault.largest]
    warm = sorted(ms for one in told for ms in one.warm_ms)
    sizes = sorted(one.tokens for one in told)
    rows = [
        ("captures", str(len(told))),
        ("cause, rank and window", _rate(len(hit), len(faults))),
        ("and the ceiling", _rate(len(full), len(faults))),
        ("and what the capture tells of it", _rate(len(least), len(faults))),
        ("a ceiling more than a fifth too high", _rate(len(high), len(faults))),
        ("the first finding is the largest fault", _rate(sum(fault.first for fault in first), len(first))),
        ("tokens of both answers", f"median {median(sizes):.0f}, most {sizes[-1]}, within {most}: {len(small)}"),
        (
            "warm answer",
            f"median {median(warm):.0f} ms, P95 {warm[int(0.95 * len(warm))]:.0f} ms, most {warm[-1]:.0f} ms",
        ),
    ]
    missed = [f"missed: {fault.cause} {fault.gain_ns / fault.step_ns:.1%} in {fault.case}"
              for fault in faults if fault not in hit]  # fmt: skip
    wrong = [
        f"ceiling {where}: {fault.cause} {fault.gain_ns / fault.step_ns:.1%} as "
        f"{(fault.saving_ns or 0) / fault.step_ns:.1%} in {fault.case}"
        for where, some in (("below", [fault for fault in hit if fault not in full]), ("above", high))
        for fault in some
    ]  # fmt: skip
    return "\n".join([*(f"{name:<40} {value}" for name, value in rows), *missed, *wrong])


def _enough(fault: Fault) -> bool:
    return fault.saving_ns is not None and fault.saving_ns >= (1 - TOLD) * fault.gain_ns


def _rate(good: int, of: int) -> str:
    rate = Rate(good, of)
    sure = rate.interval()
    return "none" if sure is None else f"{good} of {of}: {good / of:.3f} [{sure[0]:.3f}, {sure[1]:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=500, help="a fifth of them are clean jobs")
    parser.add_argument("--dialect", default=",".join(DIALECTS), help="these dialects only, with commas")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only", help="these cases only, with commas")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=2_000, help="of both answers together")
    parser.add_argument("--texts", type=Path, help="write what was answered here, one answer a line")
    options = parser.parse_args()
    if options.only:
        todo = [called(name) for name in options.only.split(",")]
    else:
        todo = [task for task in tasks(options.cases, options.seed, False, options.dialect.split(",")) if task.names]
    with tempfile.TemporaryDirectory(prefix="npulens-agents-store-") as place:
        store = Path(place)
        there = planted(todo, store, options.jobs)
        words = ["-m", "npulens.app.cli", "mcp", "--store", str(store)]
        started = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

        async def talk() -> list[Told]:
            async with Client(started) as client:
                return [await asked(client, one, options.tokens) for one in there]

        told = anyio.run(talk)
    print(f"seed {options.seed}")
    print(page(told, options.tokens))
    if options.texts is not None:
        options.texts.write_text("".join(text + "\n" for one in told for text in one.texts), "utf-8")


if __name__ == "__main__":
    main()
