"""Take in captures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

import ingest
from app.console import json_option, print_json, redact_option, store_option, table


@click.command("load")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--label", help="A name for the run; RUN in other commands may be this name.")
@click.option("--join", metavar="RUN", help="Put the ranks loaded here together with those of RUN into a new run.")
@redact_option
@click.option("--progress-json", is_flag=True, hidden=True, help="Progress as JSON lines on stderr.")
@store_option
@json_option
def command(
    paths: tuple[Path, ...], label: str | None, join: str | None, redact: bool, progress_json: bool, store: Path,
    as_json: bool,
) -> None:  # fmt: skip
    """Load files and directories that a profiler left.

    PATH is a torch_npu directory (*_ascend_pt), a directory of many ranks, a trace_view.json, an
    ascend_pytorch_profiler*.db, or a Kineto trace (.json, .json.gz) of torch.profiler. Loading the
    same files again changes nothing. Exits with 2 if any capture was refused.
    """
    progress = _as_lines if progress_json else _Bar().show if sys.stderr.isatty() else None
    report = ingest.load(paths, store, label=label, join=join, redact=redact, progress=progress)
    if as_json:
        print_json({"runs": [run.as_dict() for run in report.runs]})
    else:
        _print(report)
    if any(run.run_id is None for run in report.runs):
        sys.exit(2)


def _print(report: ingest.LoadReport) -> None:
    kept = [run for run in report.runs if run.run_id is not None]
    if kept:
        rows = [
            [run.run_id or "", run.label or "", run.stored or "", run.status, ",".join(map(str, run.ranks)),
             "+".join(run.formats), f"{run.events:,}", f"{run.seconds:.1f} s"]
            for run in kept
        ]  # fmt: skip
        click.echo(table(["run", "label", "stored", "status", "ranks", "formats", "rows", "took"], rows, left=6))
    for run in kept:
        if run.reason:
            click.echo(f"{run.run_id} is partial: {run.reason}")
    for run in report.runs:
        if run.run_id is None:
            click.echo(f"refused: {run.reason}", err=True)
    if not report.runs:
        click.echo("nothing to load")


def _as_lines(progress: ingest.Progress) -> None:
    line = {
        "stage": progress.stage,
        "done_bytes": progress.done_bytes,
        "total_bytes": progress.total_bytes,
        "rows": progress.rows,
        "text": progress.text,
    }
    click.echo(json.dumps(line), err=True)


class _Bar:
    """One line on a terminal that says what is being done and how far it is."""

    def __init__(self) -> None:
        self._shown = ""

    def show(self, progress: ingest.Progress) -> None:
        share = progress.done_bytes / progress.total_bytes if progress.total_bytes else 0.0
        bar = "#" * round(share * 30)
        line = f"[{bar:<30}] {share:4.0%} {progress.stage}: {progress.text}"[:100]
        if line != self._shown:
            click.echo(f"\r{line:<100}", nl=False, err=True)
            self._shown = line
        if progress.total_bytes and progress.done_bytes >= progress.total_bytes:
            click.echo("\r" + " " * 100 + "\r", nl=False, err=True)
