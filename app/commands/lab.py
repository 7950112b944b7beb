"""The laboratory: hear a job's own module, try rewrites on it, say which of them are right and faster."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from npulens.analysis import rules
from npulens.app import run_buffer, run_check, run_choice, run_compat, run_laboratory, run_ledger
from npulens.app.console import filled, json_option, lang_option, print_json, store_option, table
from npulens.app.run_collectors import ask, run_job
from npulens.app.text import wording
from npulens.app.text.i18n import duration, known, say, size
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

_WIDEST = 110


@click.command("lab", context_settings={"ignore_unknown_options": True})
@click.argument("what", nargs=-1, type=click.UNPROCESSED)
@click.option("--try", "names", multiple=True, metavar="NAMES", help="Rewrites, with commas.  [all there are]")
@click.option(
    "--own", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="A file with a rewrite of your own; its name is the file's.",
)  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where subjects go; with --compat FILE.html.")
@click.option("--calls", type=click.IntRange(1), help="Write after so many calls, for a job that does not end.")
@click.option("--max-disk", metavar="SIZE", help="What all subjects may take, such as 500M or 2GB.")
@click.option("--keep-free", metavar="SIZE", help="What stays free on the disk.  [1 GiB]")
@click.option("--backend", type=click.Choice(["npu", "cuda", "mps", "cpu"]), help="[where it was captured]")
@click.option("--pairs", type=click.IntRange(2), help="Interleaved rounds of a comparison.  [10]")
@click.option("--seconds", type=click.FloatRange(0, 1e5, min_open=True), help="How long one comparison takes.  [8]")
@click.option(
    "--allow-error", type=click.FloatRange(0, 1, min_open=True), metavar="SHARE",
    help="Of a rewrite in a shorter type.  [what its rounding explains]",
)  # fmt: skip
@click.option(
    "--limit", type=click.FloatRange(0, 1e7, min_open=True), help="Seconds that one rewrite may take.  [1800]"
)
@click.option(
    "--run", "of_run", metavar="RUN", help="Show beside each rewrite what the findings of this run save at most."
)
@click.option(
    "--chip", "chips", multiple=True, metavar="NAME",
    help="Which chains of DIR fit into the unified buffer of this chip, such as Ascend910B3, or 'all'; "
    "with --choose: what would bound it there.",
)  # fmt: skip
@click.option("--choose", is_flag=True, help="Choose a plan: rewrites together, types, shapes and threads.")
@click.option("--time", "search", metavar="TIME", help="With --choose: how long it searches, such as 60s or 5m.  [60s]")
@click.option(
    "--gate", "gates", multiple=True, metavar="NAME|FILE",
    help="With --choose: top1, tokens, retrieval, perplexity, digits, or a file with score(program, batches).",
)  # fmt: skip
@click.option("--ledger", is_flag=True, help="What was predicted of every trial so far, and what was measured.")
@click.option(
    "--compat", multiple=True, metavar="RELEASE",
    help="What runs on an NPU with this torch_npu, such as 2.7.1; 'list' lists them.",
)  # fmt: skip
@click.option("--all", "every", is_flag=True, help="With --compat: also operators that need nothing.")
@click.option(
    "--record", metavar="NAME", help="Record the original and this rewrite under a profiler, as two runs of the store."
)
@click.option("--load/--no-load", "loads", default=True, help="Load the result into the store.")
@click.option("--times/--no-times", default=True, help="Also measure; without, only whether it is right.")
@store_option
@json_option
@lang_option
def command(
    what: tuple[str, ...], names: tuple[str, ...], own: tuple[Path, ...], output: Path | None, calls: int | None,
    max_disk: str | None, keep_free: str | None, backend: str | None, pairs: int | None, seconds: float | None,
    allow_error: float | None, limit: float | None, of_run: str | None, chips: tuple[str, ...], ledger: bool,
    times: bool, record: str | None, loads: bool, compat: tuple[str, ...], every: bool, store: Path, as_json: bool,
    choose: bool, search: str | None, gates: tuple[str, ...], lang: str,
) -> None:  # fmt: skip
    """Try rewrites on a job's own module, weights and batches: first whether they are right, then whether faster.

    \b
    npulens lab                              lists the rewrites
    npulens lab -o DIR -- python serve.py    hears the modules of a job of yours, which needs no change
    npulens lab DIR --try fold,sdpa          tries rewrites on what was heard
    npulens lab DIR --choose                 which rewrites together, in which types, for which shapes
    npulens lab DIR --record fold            records original and rewrite, to compare and to look at
    npulens lab RUN                          the rewrites that the findings of a run name
    npulens lab DIR --compat 2.7.1           what of it runs on an NPU with this torch_npu; RUN as well

    What is heard stays on this disk: the module as a program, its weights and a few batches.
    """
    place = Path(what[0]) if len(what) == 1 else None
    if compat:
        run_compat.command(what, compat, every, output, store, as_json, lang)
    elif ledger:
        told = ask(["lab-ledger"])
        print_json(told) if as_json else click.echo("\n".join(run_ledger.lines(told, lang)))
    elif not what:
        _list(as_json, lang)
    elif place is not None and place.is_dir() and choose:
        told = {"backend": backend, "pairs": pairs, "seconds": seconds, "allow-error": allow_error}
        run_choice.command(place, own, gates, chips, search, _given(told), as_json, lang)
    elif place is not None and place.is_dir() and chips:
        run_buffer.command(place, chips, as_json, lang)
    elif place is not None and place.is_dir() and record:
        run_laboratory.record(place, record, own, _given({"backend": backend}), output, store, as_json, lang)
    elif place is not None and place.is_dir():
        told = {"backend": backend, "pairs": pairs, "seconds": seconds, "allow-error": allow_error, "limit": limit}
        options = [word for name in names for word in ("--try", name)]
        options += [word for path in own for word in ("--own", str(path.absolute()))]
        # A run that is not there is told before anything is tried.
        findings = [] if of_run is None else run_ledger.findings(of_run, store)
        answer = ask(["lab-try", str(place.absolute()), *options, *_given(told), *([] if times else ["--no-times"])])
        if findings:
            answer = run_ledger.beside(answer, findings)
        if loads and answer["trials"]:
            answer = run_laboratory.loaded(answer, store, lang, as_json)
        print_json(answer) if as_json else click.echo("\n".join(lines(answer, lang)))
        sys.exit(1 if answer["status"] == "failed" else 0)
    elif place is not None and shutil.which(what[0]) is None:
        _offer(what[0], store, as_json, lang)
    else:
        _hear(what, output, _given({"calls": calls, "max-disk": max_disk, "keep-free": keep_free}), as_json, lang)


def _hear(what: tuple[str, ...], output: Path | None, limits: list[str], as_json: bool, lang: str) -> None:
    """Runs a job, and tells what was heard in it; ends as the job does."""
    home = (output or Path(f"subject-{time.strftime('%Y%m%d-%H%M%S')}")).absolute()
    answer = run_job(["-o", str(home), *limits, "--", *what], as_json, "lab-hear")
    if as_json:
        print_json(answer)
    else:
        for line in heard(answer, lang):
            click.echo(line, err=True)
    sys.exit(answer["exit_status"])


def _given(options: Mapping[str, object]) -> list[str]:
    return [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]


def _list(as_json: bool, lang: str) -> None:
    """The rewrites, and the first sentence of what each says of itself."""
    found = ask(["lab-rewrites"])["rewrites"]
    if as_json:
        print_json({"rewrites": found})
        return
    rows = [[each["rewrite"], each["what"].partition("\n\n")[0].replace("\n", " ")] for each in found]
    click.echo(table([say(lang, "lab.col_rewrite"), ""], rows, left=2))
    operators = [[rule.rewrites[0], rule.operator] for rule in rules.rules() if rule.operator]
    click.echo("\n" + say(lang, "lab.npu_operators") + "\n" + table([say(lang, "lab.col_rewrite"), ""], operators, 2))
    click.echo("\n" + say(lang, "lab.list_next"))


def heard(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """What was captured and where it lies, and what was not and why."""
    for each in answer["subjects"]:
        values = {"place": each["place"], "module": plain(each["module"]), "n": each["calls"], "engine": each["engine"]}
        yield say(lang, "lab.heard", values)
        name = f"not_replayed_{each['why_not_compared']}" if each["why_not_compared"] else "replayed"
        yield "  " + say(lang, f"lab.{name}", {"error": _error(each["error_of_replay"])})
    for each in answer["refused"]:
        told = {"module": plain(each["module"]), "n": each["calls"], "why": plain(each["refused"])}
        yield from filled(say(lang, "lab.not_heard", told), _WIDEST)
    if not answer["subjects"] and not answer["refused"]:
        yield say(lang, "lab.nothing_heard")
    for each in answer["subjects"]:
        yield say(lang, "lab.next", {"place": each["place"]})


def lines(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The trials for people: a row each, then the reasons."""
    mode = say(lang, "lab.mode_training" if answer["training"] else "lab.mode_eval")
    yield say(lang, "lab.head", {
        "module": plain(answer["module"]), "place": answer["subject"], "engine": answer["engine"], "mode": mode,
        "backend": answer["backend"], "device": answer["device"],
    })  # fmt: skip
    if answer["status"] == "failed":
        yield say(lang, "lab.failed", {"why": plain(answer["reason"])})
        return
    yield say(lang, "lab.shapes", {
        "n": answer["calls"], "shapes": len(answer["shapes"]), "error": _error(answer["error_of_original"]),
    })  # fmt: skip
    yield ""
    columns = ("rewrite", "verdict", "predicted", "time", "error", "allowed", "against", "peak", "places")
    yield table([say(lang, f"lab.col_{name}") for name in columns], [_row(each, lang) for each in answer["trials"]], 2)
    yield ""
    yield from filled(say(lang, "lab.columns"), _WIDEST)
    yield from run_ledger.calibrated(answer, lang)
    for trial in answer["trials"]:
        said = [*_reasons(trial, lang), *run_ledger.reasons(trial["predicted"], lang)]
        said += [run_ledger.ceiling(each, trial, lang) for each in answer.get("findings", ())
                 if each["rewrite"] == trial["rewrite"]]  # fmt: skip
        if said:
            yield ""
            yield trial["rewrite"]
            for sentence in said:
                yield from filled(sentence, _WIDEST, "  ")


def _row(trial: Mapping[str, Any], lang: str) -> list[str]:
    errors, speed = trial["errors"] or {}, trial["speed"]
    time_of = "-" if speed is None else f"{speed['ratio']:.3f} [{speed['low']:.3f}, {speed['high']:.3f}]"
    peaks = (trial["peak_bytes"], trial["peak_bytes_of_original"])
    peak = "-" if None in peaks else " / ".join(size(each) for each in peaks if each is not None)
    return [
        trial["rewrite"], say(lang, f"lab.verdict_{trial['verdict']}"), run_ledger.guessed(trial["predicted"], lang),
        time_of, _error(errors.get("of_rewrite")),
        _error(errors.get("allowed")), _error(errors.get("against_original")), peak, str(trial["changed"] or "-"),
    ]  # fmt: skip


def _reasons(trial: Mapping[str, Any], lang: str) -> Iterator[str]:
    if trial["why"] is not None:
        yield _why(trial["why"]["name"], trial["why"]["values"], lang)
    if trial["dtype"] is not None and trial["speed"] is not None:
        yield say(lang, "lab.precision", {"dtype": trial["dtype"]})
    for name, count in trial["left"].items():
        yield say(lang, "lab.left", {"n": count, "why": _why(name, {}, lang)})


def _why(name: str, values: Mapping[str, Any], lang: str) -> str:
    """A reason in words; a rewrite of somebody's own brings a name that nobody here knows, and it is shown."""
    told = {key: plain(str(value)) for key, value in values.items()}
    if "where" in told:
        told["where"] = say(lang, f"lab.where_{values['where']}")
    return say(lang, f"lab.why_{name}", told) if known(f"lab.why_{name}") else plain(name)


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:.1e}"


def _offer(run: str, store: Path, as_json: bool, lang: str) -> None:
    """The findings of a run that a rewrite may help with."""
    found = stores.resolve(store, run)
    check = run_check.judge(store, found.run_id)
    named_by = [(finding, rules.rewrites_of(finding.detector, finding.numbers)) for finding in check.findings]
    offers = [(finding, named) for finding, named in named_by if named]
    if as_json:
        print_json({"run_id": found.run_id, "offers": [
            {"detector": finding.detector, "saving_ns": finding.saving_ns, "title": finding.words[lang].title,
             "rewrites": named} for finding, named in offers
        ]})  # fmt: skip
        return
    if not offers:
        click.echo(say(lang, "lab.offers_none", {"run": run}))
        return
    click.echo(say(lang, "lab.offers", {"run": run, "n": len(offers)}))
    every: list[str] = []
    for finding, named in offers:
        title = wording.plain(finding.words[lang].title)
        told = say(lang, "lab.offer", {"saving": duration(finding.saving_ns), "title": title})
        there = say(lang, "lab.offer_rewrites", {"rewrites": ", ".join(named)})
        click.echo("\n" + "\n".join([*filled(f"{finding.detector}: {told}", _WIDEST), f"  {there}"]))
        every += [name for name in named if name not in every]
    click.echo("\n" + say(lang, "lab.offer_next", {"rewrites": ",".join(every)}))
