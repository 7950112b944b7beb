"""A capture with planted faults, and what they cost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from npulens.analysis.say import share
from npulens.app.console import json_option, milliseconds, print_json
from npulens.ingest.errors import IngestError


@click.command("simulate")
@click.argument("scenario", required=False)
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Gets capture/ and truth.json.")
@click.option("--seed", type=int, default=0, show_default=True, help="Decides everything that no option does.")
@click.option("--clean", is_flag=True, help="The same job without the faults.")
@click.option("--ranks", type=click.IntRange(1, 64), help="Ranks of the job.")
@click.option("--steps", type=click.IntRange(1, 1000), help="Steps that are captured.")
@click.option("--level", type=click.IntRange(0, 2), help="Level of the profiler.")
@click.option("--format", "kind", type=click.Choice(["text", "db", "kineto"]), help="What the profiler writes.")
@click.option("--missing-ranks", type=click.IntRange(0, 63), help="Ranks that are not captured.")
@click.option("--skew", type=click.IntRange(0), help="Difference between the clocks of two ranks, in us.")
@click.option("--dialect", help="The kind of capture, e.g. 910a; --list says which there are.")
@click.option("--replicate", type=click.IntRange(1), help="The steps, so many times over: text and kineto only.")
@click.option("--list", "listed", is_flag=True, help="What can be planted, and in which dialects.")
@json_option
def command(
    scenario: str | None, output: Path | None, seed: int, clean: bool, ranks: int | None, steps: int | None,
    level: int | None, kind: str | None, missing_ranks: int | None, skew: int | None, dialect: str | None,
    replicate: int | None, listed: bool, as_json: bool,
) -> None:  # fmt: skip
    """Write a capture with the faults SCENARIO[,SCENARIO...] planted in it, and the truth beside it.

    Without SCENARIO, or with 'clean', it is a healthy job.
    """
    named: dict[str, Any] = {
        "--ranks": ranks, "--steps": steps, "--level": level, "--format": kind, "--missing-ranks": missing_ranks,
        "--skew": skew, "--dialect": dialect, "--replicate": replicate,
        "--output": None if output is None else output.absolute(),
    }  # fmt: skip
    arguments = [scenario or "clean", "--seed", str(seed), *(["--clean"] if clean else [])]
    for option, value in named.items():
        arguments += [] if value is None else [option, str(value)]
    answer = _ask(["--list"] if listed else arguments)
    if as_json:
        print_json(answer)
    elif listed:
        width = max(len(row["name"]) for kind in answer.values() for row in kind)
        for row in answer["scenarios"]:
            click.echo(f"{row['name']:{width}}  {row['what']}")
        click.echo("\nDialects, of any scenario:")
        for row in answer["dialects"]:
            click.echo(f"{row['name']:{width}}  {row['what']}")
    else:
        faults = ", ".join(f"{f['cause']} {share(f['gain_ns'] / answer['step_ns'])}" for f in answer["faults"])
        captured, world = len(answer["capture"]["ranks"]), answer["world"]
        whose = f"{captured} of {world} ranks captured" + ("" if ranks in (None, world) else f", not {ranks} as asked")
        click.echo(f"{output}: step {milliseconds(answer['step_ns'])} ms, {faults or 'clean'}; {whose}")


def _ask(arguments: list[str]) -> dict[str, Any]:
    """The collectors run as a process: nothing imports them."""
    command = [sys.executable, "-P", "-m", "npulens.collectors.planting", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        answer = {"error": {"kind": "failed", "message": f"the simulator ended with {done.returncode}"}}
    if "error" in answer:
        raise IngestError(answer["error"]["kind"], answer["error"]["message"])
    return answer
