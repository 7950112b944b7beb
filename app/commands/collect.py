"""Profile a job."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

import ingest
from app.collecting import ask
from app.commands import load
from app.console import json_option, print_json, store_option

_LONG = ("level", "metrics", "wait", "warmup", "active", "steps_by", "backend")
_SWITCHES = ("stacks", "memory", "modules", "shapes")


@click.command("collect", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the profile goes  [./npulens-TIME]")
@click.option("--backend", type=click.Choice(["npu", "cuda", "mps", "cpu"]), help="[the first that is there]")
@click.option("--wait", type=click.IntRange(0), help="Steps before the profiler starts.  [1]")
@click.option("--warmup", type=click.IntRange(0), help="Steps whose records are thrown away.  [1]")
@click.option("--active", type=click.IntRange(1), help="Steps that are recorded.  [3]")
@click.option("--steps-by", type=click.Choice(["auto", "optimizer", "forward"]), help="What a step is.  [auto]")
@click.option("--level", help="torch_npu's profiler level.  [Level1]")
@click.option("--metrics", help="torch_npu's group of AI core counters.  [PipeUtilization]")
@click.option("--stacks/--no-stacks", default=None, help="Record call stacks.")
@click.option("--memory/--no-memory", default=None, help="Record memory.")
@click.option("--modules/--no-modules", default=None, help="Record module names.")
@click.option("--shapes/--no-shapes", default=None, help="Record shapes.")
@click.option("--armed", is_flag=True, help="Begin when `npulens collect --begin -o DIR` says so.")
@click.option("--begin", is_flag=True, help="Begin the recording of an armed job that runs already.")
@click.option("--load/--no-load", "loads", default=True, help="Load the result into the store.")
@store_option
@json_option
def command(
    command: tuple[str, ...], output: Path | None, backend: str | None, wait: int | None, warmup: int | None,
    active: int | None, steps_by: str | None, level: str | None, metrics: str | None, stacks: bool | None,
    memory: bool | None, modules: bool | None, shapes: bool | None, armed: bool, begin: bool, loads: bool,
    store: Path, as_json: bool,
) -> None:  # fmt: skip
    """Run COMMAND with a profiler around a few of its steps, and load what it left.

    `npulens collect -- python train.py` needs no change to the job. A step is a step of its first
    optimiser, or, where nothing is trained, a call of the outermost module. Several processes
    (torchrun) give several ranks.
    """
    home = (output or Path(f"npulens-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    given = {
        "backend": backend, "wait": wait, "warmup": warmup, "active": active, "steps_by": steps_by, "level": level,
        "metrics": metrics, "stacks": stacks, "memory": memory, "modules": modules, "shapes": shapes,
    }  # fmt: skip
    if begin:
        answer = ask(["begin", "-o", str(home)])
        print_json(answer) if as_json else click.echo("the recording begins at the next step")
        return
    if not command:
        raise click.UsageError("say what to run: npulens collect -- python train.py")
    options = ["--armed"] if armed else []
    answer = ask(["own", "-o", str(home), *options, *_options(given), "--", *command])
    report = _loaded(home, store) if loads and answer["status"] != "failed" else None
    if as_json:
        print_json(answer | ({"runs": [run.as_dict() for run in report.runs]} if report else {}))
    else:
        click.echo(f"{home}: {answer['status']}" + (f" ({answer['reason']})" if answer["reason"] else ""))
        if report is not None:
            load.show(report)
    sys.exit(1 if answer["status"] == "failed" else 3 if answer["exit_status"] else 0)


def _options(given: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for name in _LONG:
        options += [f"--{name.replace('_', '-')}", str(given[name])] if given[name] is not None else []
    for name in _SWITCHES:
        options += [f"--{'' if given[name] else 'no-'}{name}"] if given[name] is not None else []
    return options


def _loaded(home: Path, store: Path) -> ingest.LoadReport:
    return ingest.load(home, store, label=home.name)
