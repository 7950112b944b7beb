"""npulens and its rivals on the same files, in one run, each in a process of its own.

    python -m tests.bench [--events N] [--repeat N] [--only PART] [--no-rivals] [--big]

Prints Markdown. CPU seconds are user and system time of everything a contender starts; the last column is that
divided by npulens' on the same file. A figure is the median of --repeat rounds, taken in turns; rivals run once and
are stopped at --limit seconds. --big (or BENCH_BIG=1) adds a file ten times as large to the memory table.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from tests.bench import captures, judging, rivals, tiles
from tests.bench.captures import CACHE, ROOT, size
from tests.bench.measure import Cost, measure

MB = 1e6
PROGRAMS = "tests.bench.programs"


@dataclass(frozen=True)
class Contender:
    name: str
    commands: Callable[[], list[list[str]]]  # run one after the other; built late, because a rival installs itself
    parses: int = 1  # how often it reads the file
    once: bool = False  # too slow to repeat


@dataclass(frozen=True)
class Result:
    contender: Contender
    costs: list[Cost]

    def median(self, field: str) -> float:
        return statistics.median(getattr(cost, field) for cost in self.costs)

    @property
    def failure(self) -> str | None:
        return next((cost.failure for cost in self.costs if cost.failure), None)


#: What traceinsight's kernel breakdown and launch statistics say, from our tables.
KERNELS = "SELECT name, count(*), sum(dur_ns) FROM span WHERE kind = 'kernel' GROUP BY name ORDER BY 3 DESC"
LAUNCHES = "SELECT route, count(*), min(latency_ns), median(latency_ns), max(latency_ns) FROM link GROUP BY route"


def npulens(name: str, path: Path, *questions: str) -> Contender:
    """Load a path into an empty store, then ask: 'breakdown', or a SELECT."""
    store = ["--store", str(CACHE / "store")]
    tool = [sys.executable, "-m", "npulens.app.cli"]
    commands = [[*tool, "load", str(path), *store, "--label", "bench", "--json"]]
    for question in questions:
        verb = ["breakdown", "bench"] if question == "breakdown" else ["sql", "bench", question]
        commands.append([*tool, *verb, *store, "--json"])
    return Contender(name, lambda: commands)


def program(name: str, module: str, trace: Path) -> Contender:
    return Contender(name, lambda: [[sys.executable, "-m", f"{PROGRAMS}.{module}", str(trace)]])


def limits(trace: Path) -> list[Contender]:
    return [
        program("json + pandas, the split only", "json_pandas", trace),
        program("limit: msgspec decodes the file", "decode", trace),
        program("limit: our scanner, nothing kept", "scan", trace),
    ]


def run(contenders: list[Contender], repeat: int, limit_s: float) -> list[Result]:
    """Rounds in turns, so that a slow minute of the machine falls on everyone."""
    results = [Result(contender, []) for contender in contenders]
    for turn in range(repeat):
        for result in results:
            if (turn and result.contender.once) or result.failure:
                continue
            shutil.rmtree(CACHE / "store", ignore_errors=True)
            log = CACHE / "logs" / (re.sub(r"[^\w.=]+", "-", result.contender.name) + ".txt")
            print(f"round {turn + 1}: {result.contender.name}", file=sys.stderr, flush=True)
            result.costs.append(one(result.contender, log, limit_s))
    shutil.rmtree(CACHE / "store", ignore_errors=True)
    return results


def one(contender: Contender, log: Path, limit_s: float) -> Cost:
    try:
        commands = contender.commands()
    except subprocess.CalledProcessError:
        return Cost(0.0, 0.0, 0, 0, "could not be installed")
    total = Cost(0.0, 0.0, 0, 0, None)
    for command in commands:
        total += measure(command, log, ROOT, limit_s)
        if total.failure:
            break
    return total


def table(title: str, data_bytes: int, results: list[Result]) -> None:
    """One Markdown table; the first contender is the measure of the last column."""
    print(f"\n## {title} ({data_bytes / MB:,.0f} MB)\n")
    print("| | CPU s | wall s | MB per CPU s | peak MB, tree | largest process MB | CPU, npulens = 1 |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    ours = results[0].median("cpu_s")
    for result in results:
        cpu, failure = result.median("cpu_s"), result.failure
        name = result.contender.name + (f" ({result.contender.parses} parses)" if result.contender.parses > 1 else "")
        name += f": **{failure}**" if failure else ""
        rate = "" if failure or not cpu else f"{result.contender.parses * data_bytes / MB / cpu:,.0f}"
        ratio = f"{'> ' if failure else ''}{cpu / ours:.2f}" if ours and cpu else ""
        memory = f"{result.median('tree_bytes') / MB:,.0f} | {result.median('process_bytes') / MB:,.0f}"
        print(f"| {name} | {cpu:.2f} | {result.median('wall_s'):.2f} | {rate} | {memory} | {ratio} |")
        if result.contender.parses > 1 and ours and cpu:
            per = cpu / result.contender.parses
            print(f"| … per parse | {per:.2f} | | | | | {'> ' if failure else ''}{per / ours:.2f} |")
    sys.stdout.flush()


def npu_part(options: argparse.Namespace) -> None:
    rank = captures.npu(options.events)
    trace = rank / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    contenders = [npulens("npulens load + breakdown", rank, "breakdown"), *limits(trace)]
    if not options.no_rivals:
        compare = Contender(rivals.MSPROF_ANALYZE + " compare", lambda: [rivals.msprof_compare(rank)], 2, once=True)
        contenders.append(compare)
    results = run(contenders, options.repeat, options.limit)
    table(f"torch_npu, trace_view.json, {options.events:,} events", size(trace), results)


def kineto_part(options: argparse.Namespace) -> None:
    trace, packed = captures.kineto(options.events), captures.kineto_gz(options.events)
    contenders = [
        npulens("npulens load + split, kernels, launches", trace, "breakdown", KERNELS, LAUNCHES),
        npulens("npulens, the same from .json.gz", packed, "breakdown", KERNELS, LAUNCHES),
        npulens("npulens load", trace),
        *limits(trace),
    ]
    if not options.no_rivals:
        name = rivals.TRACEINSIGHT + " load + split, overlap, idle causes, kernels, launches"
        contenders.append(Contender(name, lambda: [rivals.traceinsight(trace)], once=True))
    results = run(contenders, options.repeat, options.limit)
    table(f"Kineto, {options.events:,} events", size(trace), results)


def ranks_part(options: argparse.Namespace) -> None:
    one_rank, two_ranks = captures.npu(options.events), captures.npu_two(options.events)
    contenders = [npulens("npulens load, 1 rank", one_rank), npulens("npulens load, 2 ranks", two_ranks)]
    results = run(contenders, options.repeat, options.limit)
    print(f"\n## Ranks side by side, {options.events:,} events each\n")
    print("| | MB | CPU s | wall s | CPU per wall |\n|---|--:|--:|--:|--:|")
    for result, path in zip(results, (one_rank, two_ranks), strict=True):
        cpu, wall = result.median("cpu_s"), result.median("wall_s")
        note = f": **{result.failure}**" if result.failure else ""
        print(f"| {result.contender.name}{note} | {size(path) / MB:,.0f} | {cpu:.2f} | {wall:.2f} | {cpu / wall:.2f} |")


def memory_part(options: argparse.Namespace) -> None:
    sizes = [options.events, 10 * options.events] if options.big else [options.events]
    paths = [captures.npu(events) for events in sizes]
    loads = [npulens(f"npulens load, {events:,} events", path) for path, events in zip(paths, sizes, strict=True)]
    results = run(loads, 1, options.limit)
    print("\n## Memory does not follow the file\n")
    print("| | MB | peak MB, tree | largest process MB | CPU s | wall s |\n|---|--:|--:|--:|--:|--:|")
    for result, path in zip(results, paths, strict=True):
        cost = result.costs[0]
        note = f": **{cost.failure}**" if cost.failure else ""
        print(f"| {result.contender.name}{note} | {size(path) / MB:,.0f} | {cost.tree_bytes / MB:,.0f} "
              f"| {cost.process_bytes / MB:,.0f} | {cost.cpu_s:.2f} | {cost.wall_s:.2f} |")  # fmt: skip
    if not options.big:
        print("\n(BENCH_BIG=1 adds a file ten times as large: minutes to make, a few GB in .bench.)")


def check_part(options: argparse.Namespace) -> None:
    sizes = [options.events, 10 * options.events] if options.big else [options.events]
    for events in sizes:
        rank, trace = captures.npu(events), captures.kineto(events)
        contenders = [
            Contender("npulens check, torch_npu", lambda path=rank, n=events: [judging.loaded(path, f"npu-{n}")]),
            Contender("npulens check, Kineto", lambda path=trace, n=events: [judging.loaded(path, f"kineto-{n}")]),
        ]
        if not options.no_rivals and events == options.events:
            name = f"{rivals.MSPROF_ANALYZE} advisor all, torch_npu"
            contenders.append(Contender(name, lambda path=rank: [judging.advisor(path)], once=True))
            name = f"{rivals.TRACEINSIGHT} split, overlap, idle causes, kernels, launches, Kineto"
            contenders.append(Contender(name, lambda path=trace: [rivals.traceinsight(path)], once=True))
        results = run(contenders, options.repeat, options.limit)
        table(f"Findings of {events:,} events, loaded before (rivals read the file)", size(rank), results)


def tiles_part(options: argparse.Namespace) -> None:
    tiles.part(10 * options.events if options.big else options.events)


PARTS = {
    "npu": npu_part, "kineto": kineto_part, "ranks": ranks_part, "memory": memory_part, "check": check_part,
    "tiles": tiles_part,
}  # fmt: skip


def machine() -> Iterator[str]:
    """What the figures were taken on."""
    cpu = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.processor())  # fmt: skip
    yield f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("duckdb", "pyarrow", "pandas", "msgspec"))
    yield f"Python {platform.python_version()}, {versions}"
    compiled = ("npulens.ingest.events._scan", "npulens.ingest.tables._nest")
    native = [name for name in compiled if importlib.util.find_spec(name)]
    yield f"compiled: {', '.join(native) or 'nothing; these are the figures of the Python twins'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the median counts")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds one command may take")
    parser.add_argument("--only", choices=PARTS, action="append", help="one part; may be given again")
    parser.add_argument("--no-rivals", action="store_true")
    parser.add_argument("--big", action="store_true", default=os.environ.get("BENCH_BIG") == "1")
    options = parser.parse_args()
    print(f"# npulens benchmark, {options.events:,} events\n")
    print("\n".join(f"- {line}" for line in machine()), flush=True)
    for part in options.only or PARTS:
        PARTS[part](options)


if __name__ == "__main__":
    main()
