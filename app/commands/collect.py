"""Record a job or a workload, load it, check it."""

from __future__ import annotations

import functools
import shlex
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from npulens import ingest
from npulens.app import run_check
from npulens.app.commands import _collect_serve, check, load
from npulens.app.console import json_option, lang_option, print_json, store_option, table
from npulens.app.run_collectors import ask, run_job
from npulens.app.text.i18n import say
from npulens.app.text.recording import said

_KEY = "npulens.collect.settings"
#: Where there is nothing to load, or not yet.
_UNREADABLE = ("failed", "deferred")


def _passed_on(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Keeps a setting as the collectors spell it: as here."""
    kept = context.meta.setdefault(_KEY, [])
    if isinstance(value, bool):
        kept.append((option.opts if value else option.secondary_opts)[0])
    elif value is not None:
        for each in value if isinstance(value, tuple) else (value,):
            kept.extend((option.opts[0], str(each)))


_setting = functools.partial(click.option, expose_value=False, callback=_passed_on)


class _Collect(click.Command):
    """`collect serve` has options of its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args[:1] != ["serve"]:
            return super().parse_args(ctx, args)
        ctx.command, ctx.info_name, ctx.ignore_unknown_options = _collect_serve.command, "collect serve", False
        return _collect_serve.command.parse_args(ctx, args[1:])


@click.command("collect", cls=_Collect, context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the profile goes  [./npulens-TIME]")
@click.option("--backend", type=click.Choice(["npu", "cuda", "mps", "cpu"]), help="[the first that is there]")
@click.option("--variant", help="Of a workload of ours.  [unfused]")
@click.option("--dtype", help="Of a workload of ours.  [float32]")
@click.option("--shape", help="Of a workload of ours: a name, sizes, or both, as in vit,rows=512.")
@click.option("--seed", type=int, help="Of a workload of ours.  [0]")
@_setting("--wait", type=click.IntRange(0), help="Steps before the profiler starts.  [1]")
@_setting("--warmup", type=click.IntRange(0), help="Steps whose records are thrown away.  [1]")
@_setting("--active", type=click.IntRange(1), help="Steps that are recorded.  [3]")
@click.option("--steps-by", help="A step: auto, optimizer, forward, a number of them, or time:200ms.  [auto]")
@_setting("--level", help="torch_npu's profiler level.  [Level1]")
@_setting("--metrics", help="torch_npu's groups of AI core counters: one run for each.  [PipeUtilization]")
@_setting("--stacks/--no-stacks", default=None, help="Record call stacks.")
@_setting("--memory/--no-memory", default=None, help="Record memory.")
@_setting("--modules/--no-modules", default=None, help="Record calls of modules by name, for npulens modules.")
@_setting("--training/--no-training", default=None, help="Record loss, gradient norm and loss scale of every step.")
@_setting("--shapes/--no-shapes", default=None, help="Record shapes.")
@_setting("--l2-cache/--no-l2-cache", default=None, help="Record the L2 cache; torch_npu only.")
@_setting("--mstx/--no-mstx", default=None, help="Record the job's own marks; torch_npu only.")
@_setting("--gc-threshold-ms", type=click.FloatRange(0), help="Record garbage collections from here; torch_npu only.")
@_setting("--export", multiple=True, type=click.Choice(["text", "db"]), help="What torch_npu writes.  [text]")
@_setting("--max-disk", metavar="SIZE", help="The recording ends when it comes to this, such as 500M or 2GB.")
@_setting("--keep-free", metavar="SIZE", help="It ends when less of the disk would be free.  [1 GiB or 2 %]")
@_setting("--defer/--no-defer", default=None, help="Analyse nothing while the job runs.")
@click.option("--analyse", type=click.Path(path_type=Path), help="Analyse and judge what --defer or --env left.")
@click.option("--armed", is_flag=True, help="Begin when `npulens collect --begin -o DIR` says so.")
@click.option("--env", is_flag=True, help="Print the environment that records a job which something else starts.")
@click.option("--begin", is_flag=True, help="Begin the recording of a job that runs already.")
@click.option("--watched", type=click.Path(path_type=Path), help="With --begin: the job's own PROF_CONFIG_PATH; NPU.")
@click.option("--load/--no-load", "loads", default=True, help="Load the result into the store.")
@store_option
@json_option
@lang_option
@click.pass_context
def command(
    context: click.Context, command: tuple[str, ...], output: Path | None, backend: str | None, variant: str | None,
    dtype: str | None, shape: str | None, seed: int | None, steps_by: str | None, armed: bool, env: bool, begin: bool,
    watched: Path | None, analyse: Path | None, loads: bool, store: Path, as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Record COMMAND, or a workload of ours, with a profiler around a few of its steps; load what it left, check it.

    \b
    npulens collect                          lists the workloads
    npulens collect train_step               records one
    npulens collect -- python train.py ...   records a job of yours
    npulens collect serve --url URL ...      sends a load to a serving engine

    Your job needs no change. A step is one period of its optimisers, a rollout with its updates, or, where nothing is
    trained, a call of the outermost module. Several processes (torchrun) give several ranks.
    """
    about = {"variant": variant, "dtype": dtype, "shape": shape, "seed": seed}
    ours = bool(command) and "/" not in command[0] and shutil.which(command[0]) is None
    home = (output or Path(f"{command[0] if ours else 'npulens'}-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    options = ["-o", str(home), *context.meta.get(_KEY, [])]
    if analyse is not None:
        _show(ask(["analyse", "-o", str(analyse.absolute())]), analyse.absolute(), loads, store, as_json, lang)
    elif env:
        told = ask(["env", "--json", *options, *_of_theirs(armed, steps_by, backend)])["variables"]
        _export(told, as_json)
    elif begin:
        answer = ask(["begin", *options, *_given({"watched": watched})])
        print_json(answer) if as_json else click.echo("the recording begins at the next step")
    elif not command:
        _list(as_json)
    elif ours:
        if len(command) > 1:
            raise click.UsageError(f"{command[0]} is no program here, and as a workload it takes no {command[1]}")
        if armed or steps_by:
            raise click.UsageError("--armed and --steps-by are for jobs of yours: npulens collect -- python train.py")
        answer = ask(["workload", command[0], *options, *_given({**about, "backend": backend})])
        _show(answer, home, loads, store, as_json, lang)
    else:
        if any(value is not None for value in about.values()):
            raise click.UsageError("--variant, --dtype, --shape and --seed are for our workloads; what belongs to your "
                                   "command comes after a --")  # fmt: skip
        options += _of_theirs(armed, steps_by, backend)
        answer = run_job([*options, "--", *command], as_json)
        _show(answer, home, loads, store, as_json, lang, err=not as_json)


def _of_theirs(armed: bool, steps_by: str | None, backend: str | None) -> list[str]:
    """Options of a job that is not ours."""
    return [*(["--armed"] if armed else []), *_given({"steps-by": steps_by, "backend": backend})]


def _export(variables: Mapping[str, str], as_json: bool) -> None:
    """Variables for a shell to evaluate, or as an object for what starts processes."""
    if as_json:
        print_json(variables)
        return
    for name, value in variables.items():
        click.echo(f"export {name}={shlex.quote(value)}")


def _given(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]


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


def _show(
    answer: dict[str, Any], home: Path, loads: bool, store: Path, as_json: bool, lang: str, err: bool = False
) -> None:
    """What became of it, what the store says of it, and what `check` says.

    Ends with the status of all that; after a job of its owner's, whose stdout is not ours (``err``), with the job's.
    """
    loads = loads and answer["status"] not in _UNREADABLE and not answer.get("others")  # the last one loads them all
    report = ingest.load(home, store, label=home.name) if loads else None
    if as_json:
        print_json(answer | ({"runs": [run.as_dict() for run in report.runs]} if report else {}))
    else:
        click.echo(f"{home}: {answer['status']}" + (f" ({answer['reason']})" if answer["reason"] else ""), err=err)
        if answer["status"] == "deferred":
            click.echo(say(lang, "collect.deferred", {"home": str(home)}), err=err)
        for notice in answer.get("notices", ()):
            click.echo(said(notice, lang), err=err)
        if report is not None:
            load.show(report, err)
            for run in report.runs:
                if run.run_id:
                    for line in ["", *check.lines(run_check.judge(store, run.run_id), lang, home.name)]:
                        click.echo(line, err=err)
    sys.exit(answer.get("exit_status", 1 if answer["status"] == "failed" else 0))
