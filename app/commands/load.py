"""Take in captures."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

import click

from npulens import ingest
from npulens.app.console import json_option, lang_option, print_json, redact_option, store_option, table
from npulens.app.text.i18n import ranges, say
from npulens.ingest import objects
from npulens.ingest.messages import Message, listed, render


@click.command("load")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--label", help="A name for the run; RUN in other commands may be this name.")
@click.option("--join", metavar="RUN", help="Put what is loaded here together with RUN into a new run.")
@click.option(
    "--max-disk",
    metavar="SIZE",
    help="Disk the load may use while it works, such as 500M or 20G (default: NPULENS_MAX_DISK, else 256 GiB).",
)
@click.option(
    "--max-time",
    metavar="TIME",
    help="How long it may take, such as 90s, 30m or 2h (default: NPULENS_MAX_TIME, else 12 h).",
)
@click.option(
    "--engine", default="local", show_default=True, metavar="ENGINE",
    help="Who reads the ranks: local, ray (the Ray cluster of this machine) or ray://HEAD.",
)  # fmt: skip
@click.option(
    "--raw", metavar="SIZE",
    help="What the captures kept in the store may take, such as 50G, or off (default: NPULENS_RAW, else 50G).",
)  # fmt: skip
@click.option("--files", "show_files", is_flag=True, help="Also list what became of every file.")
@redact_option
@click.option("--called", hidden=True, help="What PATH is called where it came from.")
@click.option("--progress-json", is_flag=True, hidden=True, help="Progress as JSON lines on stderr.")
@store_option
@lang_option
@json_option
def command(
    paths: tuple[Path, ...], label: str | None, join: str | None, max_disk: str | None, max_time: str | None,
    engine: str, raw: str | None, show_files: bool, redact: bool, called: str | None, progress_json: bool, store: Path,
    lang: str, as_json: bool,
) -> None:  # fmt: skip
    """Load files, directories and archives that a profiler left.

    \b
    PATH is any of these, or a directory or an archive that holds some:
      *_ascend_pt             what torch_npu's profiler wrote, analysed (text, database or both)
      *_ascend_ms             the same of MindSpore, and the tables derived from it
      PROF_*                  msprof data with its export (msprof_*.json, op_summary_*.csv, msprof_*.db)
      trace_view.json, kernel_details.csv, communication.json ...  single files of them
      ascend_pytorch_profiler*.db, ascend_mindspore_profiler*.db, msmonitor_*.db
      cluster_analysis_output what msprof-analyze wrote of a cluster
      OPPROF_*                one operator, measured by msprof op or simulated
      manifest.json           a benchmark of npulens bench, with its samples.json
      result.json             trials of npulens lab, with drawn/ beside it
      *.pt.trace.json(.gz)    Kineto traces of torch.profiler and MSPTI: NPU, CUDA, ROCm, XPU, CPU
      *memory-timeline.json(.gz) what torch.profiler's export_memory_timeline wrote
      training_*.jsonl        loss and gradients of every step, from npulens collect --training
      .zip .tar .tar.gz .tar.xz .tar.zst .tar.bz2, and .gz .xz .zst .bz2 of one file; one within another

    Files may have any name: what they begin with tells what they are.
    Loading the same files again changes nothing, and a capture has one id however it is packed.
    Exits with 2 if any capture was refused; --files says what became of each file.
    """
    progress = _as_lines if progress_json else Bar().show if sys.stderr.isatty() else None
    report = ingest.load(
        paths, store, label=label, join=join, max_disk=max_disk, max_time=max_time, redact=redact, engine=engine,
        called=called, raw=raw, progress=progress,
    )  # fmt: skip
    _summaries(store, report)
    _requests(store, report)
    if as_json:
        files = [dataclasses.asdict(each) for each in report.files]
        print_json({"runs": [run.as_dict() for run in report.runs], "files": files})
    else:
        show(report, lang=lang)
        if show_files:
            _print_files(report.files, lang)
        elif names := _tables_not_read(report.files):
            click.echo(say(lang, "upload.said_not_read", {"files": render(listed(names, _NAMED), lang)}))
    if any(run.run_id is None for run in report.runs):
        sys.exit(2)


def _summaries(store: Path, report: ingest.LoadReport) -> None:
    """Of many ranks in a bucket: the summary for `npulens fleet`, computed where the tables are."""
    if objects.of(store) is None:
        return
    from npulens.app import run_fleet

    for run in report.runs:
        if run.run_id is not None and len(run.ranks) >= run_fleet.MANY:
            with suppress(ingest.IngestError):  # else it is computed when it is asked for
                run_fleet.summary(store, run.run_id)


def _requests(store: Path, report: ingest.LoadReport) -> None:
    """Of a large serving run: what its requests are made of, so that the first question is answered at once."""
    for run in report.runs:
        if run.run_id is not None and any(
            row["table"] == "request" and row["status"] == "recorded" for row in run.coverage
        ):  # fmt: skip
            from npulens.app import run_open

            run_open.keep_requests(store, run.run_id)


def show(report: ingest.LoadReport, err: bool = False, lang: str = "en") -> None:
    """What became of each capture."""
    kept = [run for run in report.runs if run.run_id is not None]
    if kept:
        rows = [
            [run.run_id or "", run.label or "", run.stored or "", run.status, ranges(run.ranks),
             "+".join(run.formats), f"{run.events:,}", f"{run.seconds:.1f} s"]
            for run in kept
        ]  # fmt: skip
        header = ["run", "label", "stored", "status", "ranks", "formats", "rows", "took"]
        click.echo(table(header, rows, left=6), err=err)
    odd(report, err, lang)
    if not report.runs:
        click.echo(say(lang, "upload.said_nothing"), err=err)


def odd(report: ingest.LoadReport, err: bool = True, lang: str = "en") -> None:
    """What is incomplete, doubtful or refused; a refusal always goes to standard error."""
    for run in report.runs:
        if run.run_id is not None and run.reason:
            click.echo(_said("partial", lang, run.run_id, run.reason), err=err)
        for warning in run.warnings:
            click.echo(_said("warning", lang, run.run_id, warning), err=err)
    for reason in _refused([run.reason for run in report.runs if run.run_id is None]):
        click.echo(_said("refused", lang, None, reason), err=True)


def _said(what: str, lang: str, run: str | None, reason: str | None) -> str:
    return say(lang, f"upload.said_{what}", {"run": run, "reason": None if reason is None else render(reason, lang)})


#: Of files that are refused alike so many are named, and more than two are one line.
_ALIKE, _APART = 3, 2


def _refused(reasons: Sequence[str | None]) -> Iterator[str | None]:
    """What was refused and why, in its order: files of which the same is said are one line."""
    of_files = [reason for reason in reasons if isinstance(reason, Message) and reason.key == "in_path"]
    alike: dict[str, list[str]] = {}
    for reason in of_files:
        alike.setdefault(str(reason.values["said"]), []).append(str(reason.values["path"]))
    for each in reasons:
        paths = alike[str(each.values["said"])] if isinstance(each, Message) and each.key == "in_path" else []
        if not isinstance(each, Message) or len(paths) <= _APART:
            yield each
        elif paths[0] == each.values["path"]:
            yield Message("in_path", {**each.values, "path": listed(_within(paths), _ALIKE)})


def _within(paths: Sequence[str]) -> list[str]:
    """The first path, and the others as they are called in its directory."""
    above = f"{PurePath(paths[0]).parent}/"
    return [paths[0], *(path.removeprefix(above) for path in paths[1:])]


#: Names of tables that were not read, without --files.
_NAMED = 5


def _tables_not_read(files: Sequence[ingest.FileFate]) -> list[str]:
    """Names of tables beside what was read that no reader knows."""
    unknown = {str(Message("table_that_npulens_does_not")), str(Message("json_that_npulens_does_not"))}
    return sorted({_plain(Path(each.path).name) for each in files if each.fate == "beside" and each.reason in unknown})


def _print_files(files: Sequence[ingest.FileFate], lang: str) -> None:
    """The ledger; names in it come from strangers."""
    rows = [
        [_plain(each.path), each.fate, each.run_id or "", _plain(render(each.reason or "", lang))] for each in files
    ]
    click.echo(table(["file", "fate", "run", "reason"], rows, left=4))


def _plain(text: str) -> str:
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def _as_lines(progress: ingest.Progress) -> None:
    line = {
        "stage": progress.stage,
        "done_bytes": progress.done_bytes,
        "total_bytes": progress.total_bytes,
        "rows": progress.rows,
        "text": progress.text,
    }
    click.echo(json.dumps(line), err=True)


class Bar:
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
