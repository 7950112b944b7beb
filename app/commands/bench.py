"""Measure a workload."""

from __future__ import annotations

import csv
import io
import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from npulens import ingest
from npulens.analysis.look import bench as look
from npulens.app.commands import load
from npulens.app.console import json_option, print_json, store_option
from npulens.app.run_collectors import ask
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores

_VALUES = ("shape", "backend", "seed", "pairs", "time_budget", "in_flight", "slo_ms", "concurrency")
_SWITCHES = ("cold", "throughput", "batch_curve", "sweep", "quick")


@click.command("bench")
@click.argument("workload")
@click.option("--variant", multiple=True, help="Only this variant; may be given several times.  [all]")
@click.option("--dtype", multiple=True, help="Only this type.  [numerics of all, times of the first]")
@click.option("--shape", help="A name, sizes, or both, as in vit,rows=512.  [small on a CPU]")
@click.option("--backend", type=click.Choice(["npu", "cuda", "mps", "cpu"]), help="[the first that is there]")
@click.option("--seed", type=click.IntRange(0), help="Of the numbers that are computed with.  [0]")
@click.option("--pairs", type=click.IntRange(2), help="Interleaved pairs of a comparison.  [10]")
@click.option(
    "--time-budget",
    type=click.FloatRange(0, min_open=True),
    metavar="SECONDS",
    help="How long it may measure, compiling not counted.  [120]",
)
@click.option("--cold", is_flag=True, help="Also with caches that hold nothing of the inputs.")
@click.option("--throughput", is_flag=True, help="Also steps per second with a bounded queue.")
@click.option("--in-flight", type=click.IntRange(1), help="Bound of that queue.  [8]")
@click.option("--batch-curve", is_flag=True, help="Also batches 1, 2, 4 ... until memory or time is out.")
@click.option("--slo-ms", type=click.FloatRange(0, min_open=True), help="Latency objective at P99 of the batch curve.")
@click.option("--concurrency", type=click.IntRange(2), metavar="N", help="Also N streams, threads, processes at once.")
@click.option("--sweep", is_flag=True, help="Also every shape, and the extremes that kernels forget.")
@click.option("--quick", is_flag=True, help="Seconds instead of minutes: to see that it works, not to tell much.")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Where the result goes: a directory [./bench-WORKLOAD-TIME]; also FILE.json, FILE.csv, FILE.html.",
)
@click.option("--load/--no-load", "loads", default=True, help="Load the result into the store.")
@store_option
@json_option
def command(
    workload: str, variant: tuple[str, ...], dtype: tuple[str, ...], shape: str | None, backend: str | None,
    seed: int | None, pairs: int | None, time_budget: float | None, cold: bool, throughput: bool,
    in_flight: int | None, batch_curve: bool, slo_ms: float | None, concurrency: int | None, sweep: bool, quick: bool,
    outputs: tuple[Path, ...], loads: bool, store: Path, as_json: bool,
) -> None:  # fmt: skip
    """Measure WORKLOAD: is every variant right, how long does it take, which is faster.

    WORKLOAD is one of ours, or the directory of a kernel that `npulens compile` made.
    Numerics against float64 come first; a variant that is wrong gets no speed-up. Percentiles are of
    all samples, with their intervals. Variants are compared in interleaved pairs, beside a control of
    the baseline against itself. An interrupt keeps what was measured until then.
    """
    files = [path for path in outputs if path.suffix.lower() in WRITERS]
    places = [path for path in outputs if path not in files]
    if len(places) > 1:
        raise click.UsageError(f"one directory, not {len(places)}: {', '.join(map(str, places))}")
    if files and not loads:
        raise click.UsageError("a file is made from the loaded result: leave --no-load away")
    home = (places[0] if places else Path(f"bench-{Path(workload).name}-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    given: dict[str, Any] = {
        "shape": shape, "backend": backend, "seed": seed, "pairs": pairs, "time_budget": time_budget, "cold": cold,
        "throughput": throughput, "in_flight": in_flight, "batch_curve": batch_curve, "slo_ms": slo_ms,
        "concurrency": concurrency, "sweep": sweep, "quick": quick,
    }  # fmt: skip
    answer = ask(["bench", workload, "-o", str(home), *_options(given, variant, dtype)], quiet_out=as_json)
    report = ingest.load(home, store, label=home.name) if loads else None
    run_id = next((run.run_id for run in report.runs if run.run_id), None) if report else None
    if files and run_id is None:
        raise IngestError("failed", Message("result_could_not_be_loaded"))
    for path in files:
        write_bench_file(store, str(run_id), path)
    if as_json:
        print_json(answer | ({"runs": [run.as_dict() for run in report.runs]} if report else {}))
    else:
        _where(answer, home, files, report)
    sys.exit(1 if answer["status"] == "failed" else 3 if answer["status"] == "partial" else 0)


def _options(given: dict[str, Any], variants: tuple[str, ...], dtypes: tuple[str, ...]) -> list[str]:
    options: list[str] = []
    for name in _VALUES:
        options += [f"--{name.replace('_', '-')}", str(given[name])] if given[name] is not None else []
    options += [f"--{name.replace('_', '-')}" for name in _SWITCHES if given[name]]
    for name in variants:
        options += ["--variant", name]
    for name in dtypes:
        options += ["--dtype", name]
    return options


def _where(answer: dict[str, Any], home: Path, files: list[Path], report: ingest.LoadReport | None) -> None:
    """Where the result lies, and how it ended."""
    click.echo(f"{home}: {answer['status']}" + (f" ({answer['reason']})" if answer["reason"] else ""))
    for path in files:
        click.echo(str(path))
    if report is not None:
        load.show(report)


# A loaded benchmark as a file: JSON, CSV or HTML, as its name says.
WRITERS = (".json", ".csv", ".html", ".htm")


def write_bench_file(store: Path, run_id: str, target: Path) -> None:
    """The benchmark of a run, written to ``target``."""
    con = stores.open_run(store, run_id)
    with con:
        found = look.bench(con)
        if found is None:
            raise IngestError("not_bench", Message("run_is_a_trace", {"run": run_id}))
        suffix = target.suffix.lower()
        if suffix == ".json":
            text = json.dumps({"about": found.about, "device": found.device, "versions": found.versions,
                               "figures": found.figures}, ensure_ascii=False, indent=1)  # fmt: skip
        elif suffix == ".csv":
            text = as_csv(found)
        else:
            text = import_module("npulens.app.report.bench_as_html").write(found, con)
    try:
        target.write_text(text, "utf-8")
    except OSError as error:
        raise IngestError(
            "report", Message("cannot_write_the_report", {"error": error.strerror}), str(target)
        ) from error


def as_csv(found: look.Bench) -> str:
    """One row a number, so that any program can read it: part, case, name, value."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("part", "variant", "dtype", "shape", "of", "name", "value"))
    for figure in found.figures:
        of = " ".join(str(figure[key]) for key in ("cache", "clock", "base", "kind", "workers") if key in figure)
        for name, value in _numbers(figure):
            writer.writerow((figure["part"], figure["variant"], figure["dtype"], figure["shape"], of, name, value))
    return out.getvalue()


def _numbers(figure: look.Figure, before: str = "") -> list[tuple[str, object]]:
    """Every number and verdict of a figure under a name of its own."""
    rows: list[tuple[str, object]] = []
    for name, value in figure.items():
        if isinstance(value, dict):
            rows += _numbers(value, f"{before}{name}.")
        elif name == "quantiles" and isinstance(value, list):
            for each in value:
                rows += [(f"P{100 * each['level']:g}.{end}", each[end]) for end in ("value", "low", "high")]
        elif name == "points" and isinstance(value, list):
            for each in value:
                rows += _numbers(each, f"batch {each['batch']}.")
        elif isinstance(value, int | float) or name in ("said", "state", "why", "refused", "withheld", "stopped"):
            rows.append((before + name, "" if value is None else value))
    return rows
