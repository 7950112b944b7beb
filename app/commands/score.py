"""Detectors against planted truth."""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.say import share
from npulens.analysis.scoring import Case, Rate, Score, score, scored
from npulens.app.console import json_option, print_json, table
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message
from npulens.ingest.store import runs as stores

TRUTH = "truth.json"


@click.command("score")
@click.argument("dirs", nargs=-1, required=True, metavar="DIR...", type=click.Path(path_type=Path))
@click.option("--jobs", default=2, show_default=True, help="Captures at a time.")
@json_option
def command(dirs: tuple[Path, ...], jobs: int, as_json: bool) -> None:
    """Load and check simulated captures and compare with what was planted in them.

    DIR is what `npulens simulate -o DIR` wrote: truth.json beside a capture; or a directory of such.
    """
    found = [case for directory in dirs for case in cases_under(directory)]
    if not found:
        raise IngestError("no_truth", Message("no_truth_here", {"file": TRUTH}), str(dirs[0]))
    with ProcessPoolExecutor(max(1, min(jobs, len(found)))) as pool:
        cases = list(pool.map(scored_case, found))
    if as_json:
        print_json(as_dict(cases))
        return
    causes = sorted({fault.cause for case in cases for fault in case.planted})
    dialects = sorted({case.dialect for case in cases})
    rows = [_cells("all", score(cases)), *(_cells(cause, score(cases, cause)) for cause in causes)]
    columns = ["cases", "recall", "precision", "top1", "saving error", "p90", "below gain", "quiet", "false clean"]
    click.echo(table(["cause", *columns], rows, 1))
    if dialects != ["plain"]:
        per = [_cells(name, score(case for case in cases if case.dialect == name)) for name in dialects]
        click.echo(table(["dialect", *columns], per, 1))
    for case in cases:
        for fault in case.planted:
            if not fault.hit:
                click.echo(f"missed: {fault.cause} of {share(fault.gain_ns / fault.step_ns)} in {case.name}")
            if fault.false_clean:
                click.echo(f"called clean: {fault.cause} of {share(fault.gain_ns / fault.step_ns)} in {case.name}")
        for said in case.said:
            if not said.hits:
                click.echo(f"wrong: {said.detector} says {said.cause} of {share(said.saving_share)} in {case.name}")


def cases_under(directory: Path) -> list[Path]:
    """Directories that hold a truth, this one or below."""
    return sorted(path.parent for path in directory.rglob(TRUTH))


def scored_case(directory: Path) -> Case:
    """One directory: loaded into a store of its own, checked, compared."""
    try:
        truth = json.loads((directory / TRUTH).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise IngestError(
            "bad_truth", Message("file_cannot_be_read", {"file": TRUTH, "error": error}), str(directory)
        ) from error
    captures = [path for path in sorted(directory.iterdir()) if path.name != TRUTH]
    with tempfile.TemporaryDirectory(prefix="npulens-score-") as store:
        report = ingest.load(captures, Path(store))
        runs = [run for run in report.runs if run.run_id is not None]
        if len(runs) != 1:
            raise IngestError("bad_case", Message("runs_were_loaded", {"n": len(runs)}), str(directory))
        said = check(stores.open_run(Path(store), str(runs[0].run_id))).as_dict()
    return scored(directory.name, truth, said)


def as_dict(cases: list[Case]) -> dict[str, Any]:
    """The keys that `npulens score --json` promises."""
    total = score(cases)
    return {
        "cases": len(cases), "recall": total.recall.share, "precision": total.precision.share,
        "top1": total.top1.share, "saving_error": total.saving_error, "savings_below_gain": total.below.share,
        "quiet": total.quiet.share, "saving_error_p90": total.saving_error_p90,
        "false_clean": total.false_clean.good, "rows": [asdict(case) for case in cases],
    }  # fmt: skip


def _cells(name: str, of: Score) -> list[str]:
    def rate(value: Rate) -> str:
        return "-" if value.share is None else f"{value.share:.3f} ({value.good}/{value.of})"

    errors = ("-" if error is None else f"{error:.3f}" for error in (of.saving_error, of.saving_error_p90))
    return [
        name, str(of.cases), rate(of.recall), rate(of.precision), rate(of.top1), *errors, rate(of.below),
        rate(of.quiet), rate(of.false_clean),
    ]  # fmt: skip
