"""Record a job or a workload, load it, check it."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import click

import ingest
from app import judging
from app.collecting import ask
from app.commands import check, load
from app.console import json_option, lang_option, print_json, store_option, table

_OURS = ("variant", "dtype", "shape", "seed")
_LONG = ("level", "metrics", "wait", "warmup", "active", "steps_by", "backend")
_SWITCHES = ("stacks", "memory", "modules", "shapes")


@click.command("collect", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the profile goes  [./npulens-TIME]")
@click.option("--backend", type=click.Choice(["npu", "cuda", "mps", "cpu"]), help="[the first that is there]")
@click.option("--variant", help="Of a workload of ours.  [unfused]")
@click.option("--dtype", help="Of a workload of ours.  [float32]")
@click.option("--shape", help="Of a workload of ours: a name, sizes, or both, as in vit,rows=512.")
@click.option("--seed", type=int, help="Of a workload of ours.  [0]")
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
@lang_option
def command(
    command: tuple[str, ...], output: Path | None, backend: str | None, variant: str | None, dtype: str | None,
    shape: str | None, seed: int | None, wait: int | None, warmup: int | None, active: int | None,
    steps_by: str | None, level: str | None, metrics: str | None, stacks: bool | None, memory: bool | None,
    modules: bool | None, shapes: bool | None, armed: bool, begin: bool, loads: bool, store: Path, as_json: bool,
    lang: str,
) -> None:  # fmt: skip
    """Record COMMAND, or a workload of ours, with a profiler around a few of its steps; load what it left, check it.

    \b
    npulens collect                          lists the workloads
    npulens collect train_step               records one
    npulens collect -- python train.py ...   records a job of yours

    Your job needs no change. A step is a step of its first optimiser, or, where nothing is trained, a call of the
    outermost module. Several processes (torchrun) give several ranks.
    """
    given = {
        "variant": variant, "dtype": dtype, "shape": shape, "seed": seed, "level": level, "metrics": metrics,
        "wait": wait, "warmup": warmup, "active": active, "steps_by": steps_by, "backend": backend, "stacks": stacks,
        "memory": memory, "modules": modules, "shapes": shapes,
    }  # fmt: skip
    ours = len(command) == 1 and "/" not in command[0] and shutil.which(command[0]) is None
    home = (output or Path(f"{command[0] if ours else 'npulens'}-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    if begin:
        answer = ask(["begin", "-o", str(home)])
        print_json(answer) if as_json else click.echo("the recording begins at the next step")
    elif not command:
        _list(as_json)
    elif ours:
        if armed or steps_by:
            raise click.UsageError("--armed and --steps-by are for jobs of yours: npulens collect -- python train.py")
        _show(ask(["workload", command[0], "-o", str(home), *_options(given)]), home, loads, store, as_json, lang)
    else:
        if any(given[name] is not None for name in _OURS):
            raise click.UsageError("--variant, --dtype, --shape and --seed are for our workloads; what belongs to your "
                                   "command comes after a --")  # fmt: skip
        options = [*(["--armed"] if armed else []), *_options(given)]
        _show(ask(["own", "-o", str(home), *options, "--", *command]), home, loads, store, as_json, lang)


def _list(as_json: bool) -> None:
    """Our workloads, and what each is there to show."""
    found = ask(["workloads"])["workloads"]
    if as_json:
        print_json({"workloads": found})
        return
    rows = [[each["workload"], ", ".join(each["shows"]), ", ".join(each["variants"]), ", ".join(each["shapes"])]
            for each in found]  # fmt: skip
    click.echo(table(["workload", "shows", "variants", "shapes"], rows, left=4))
    click.echo("\nnpulens collect WORKLOAD records one, npulens collect -- python train.py a job of yours.")


def _show(answer: dict[str, Any], home: Path, loads: bool, store: Path, as_json: bool, lang: str) -> None:
    """What became of it, what the store says of it, and what `check` says; ends with the status of all that."""
    report = ingest.load(home, store, label=home.name) if loads and answer["status"] != "failed" else None
    if as_json:
        print_json(answer | ({"runs": [run.as_dict() for run in report.runs]} if report else {}))
    else:
        click.echo(f"{home}: {answer['status']}" + (f" ({answer['reason']})" if answer["reason"] else ""))
        if report is not None:
            load.show(report)
            for run in report.runs:
                for line in ["", *check.lines(judging.judge(store, run.run_id), lang, home.name)] if run.run_id else []:
                    click.echo(line)
    sys.exit(1 if answer["status"] == "failed" else 3 if answer.get("exit_status") else 0)


def _options(given: dict[str, Any]) -> list[str]:
    options: list[str] = []
    for name in (*_OURS, *_LONG):
        options += [f"--{name.replace('_', '-')}", str(given[name])] if given[name] is not None else []
    for name in _SWITCHES:
        options += [f"--{'' if given[name] else 'no-'}{name}"] if given[name] is not None else []
    return options
