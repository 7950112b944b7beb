"""Profile a job."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click

import ingest
from app.commands import load
from app.console import json_option, print_json, store_option
from ingest.errors import IngestError

ROOT = Path(__file__).resolve().parent.parent.parent
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
        answer = _ask(["begin", "-o", str(home)])
        print_json(answer) if as_json else click.echo("the recording begins at the next step")
        return
    if not command:
        raise click.UsageError("say what to run: npulens collect -- python train.py")
    options = ["--armed"] if armed else []
    answer = _ask(["own", "-o", str(home), *options, *_options(given), "--", *command])
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


def _ask(arguments: list[str]) -> dict[str, Any]:
    """Lets the collectors work in a process of their own; what the job prints goes through."""
    script = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from collectors.__main__ import main; sys.exit(main())"
    answer: dict[str, Any] = {}
    with subprocess.Popen([sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.startswith(b'{"'):
                try:
                    answer = json.loads(line)
                    continue
                except ValueError:
                    pass  # a line of the job's own that only looks like an answer
            click.echo(line, nl=False, err=True)
    if "error" in answer:
        raise IngestError(answer["error"]["kind"], answer["error"]["message"])
    if "status" not in answer:
        raise IngestError("failed", f"the collector ended with status {child.returncode} and no answer")
    return answer


def _loaded(home: Path, store: Path) -> ingest.LoadReport:
    return ingest.load(home, store, label=home.name)
