"""Whether HEAD is slower than BASE, whether that is real, and what moved."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from npulens.analysis.serving.slo import Slo
from npulens.app.commands._capture import runs_of
from npulens.app.console import json_option, lang_option, print_json, slo_option, store_option
from npulens.app.settings.of_checks import in_force
from npulens.app.text.i18n import say
from npulens.app.text.number_lists import NoNumbers, numbers
from npulens.ingest.errors import IngestError

LEVELS = ("kernel", "operator", "module")


class Numbers(click.ParamType[object]):
    """0-7 or 1,4 for both sides, 0:1 where they differ."""

    name = "numbers"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None]:
        if isinstance(value, tuple):
            return value
        sides = str(value).split(":")
        if len(sides) > 2:
            self.fail(f"{value!r} has more than two sides", param, ctx)
        found = [self._one(side, param, ctx) for side in sides]
        return found[0], found[-1]

    def _one(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        try:
            return numbers(text)
        except NoNumbers:
            self.fail(f"{text!r} is no list of numbers: write 3, 0-7 or 1,4", param, ctx)


@click.command("compare")
@click.argument("base")
@click.argument("head")
@click.option("--ranks", type=Numbers(), default=(None, None), metavar="R[:R]",
              help="Only these ranks: 0-7 or 1,4; 0:1 compares rank 0 of BASE with rank 1 of HEAD.")  # fmt: skip
@click.option("--steps", type=Numbers(), default=(None, None), metavar="S[:S]", help="Only these steps, written alike.")
@click.option("--by", type=click.Choice(LEVELS), default="kernel", help="What kernels are added up by.")
@click.option("--keep-warm-up", is_flag=True, help="Leading steps much longer than those after them stay in.")
@click.option("--in-turns", is_flag=True, help="The n-th runs of both lists were recorded next to each other.")
@click.option("--margin", type=click.FloatRange(0, 1, min_open=True), default=0.005, show_default=True,
              help="Within this share of each other two times are the same.")  # fmt: skip
@click.option("--drift", type=click.FloatRange(0, 1), default=None, metavar="SHARE",
              help="By how much captures of the same job differ (standard deviation); else as the history of the job "
                   "says. 0 leaves it out.")  # fmt: skip
@click.option("--top", type=click.IntRange(1), default=12, show_default=True, help="Contributions to print.")
@click.option("--fail-on-regression", is_flag=True, help="Exit with 1 if the verdict is regressed.")
@slo_option
@click.option("--training", is_flag=True, help="From which step on two trainings part: collect --training.")
@store_option
@json_option
@lang_option
def command(
    base: str, head: str, ranks: tuple[tuple[int, ...] | None, tuple[int, ...] | None],
    steps: tuple[tuple[int, ...] | None, tuple[int, ...] | None], by: str, keep_warm_up: bool, in_turns: bool,
    margin: float, drift: float | None, top: int, fail_on_regression: bool, slo: Slo | None, training: bool,
    store: Path, as_json: bool, lang: str,
) -> None:  # fmt: skip
    """Compare HEAD with BASE: regressed, improved, the same or cannot tell; and what the change is made of.

    Each is a run id, a unique beginning of one, a label, or the path of a capture, which is loaded first. Several
    between commas are several captures of one thing.
    Of serving runs it compares percentiles of TTFT and TPOT, goodput, and iterations by class. Exits with 1 if
    --fail-on-regression and regressed, with 2 on an error.
    """
    from npulens.analysis.regression.compared import compared
    from npulens.analysis.regression.verdict import Rule
    from npulens.app import run_compare, run_compare_requests, run_training

    if training:
        for line in run_training.command(store, (base, head), as_json, lang):
            click.echo(line)
        return
    base, head = (runs_of(store, names, lang) for names in (base, head))
    rule = Rule(margin=margin)
    whole = ranks == (None, None) and steps == (None, None)
    slo = slo or in_force(None).slo
    of_requests = run_compare_requests.judged(store, (base, head), slo, rule, drift, in_turns) if whole else None
    try:
        halves = run_compare.halves(store, (base, head), ranks, steps, keep_warm_up)
    except IngestError as error:
        if of_requests is None or error.kind != "nothing_to_compare":
            raise
        halves = None
    said = [of_requests.said] if of_requests is not None else []
    told: dict[str, Any] = {}
    text: list[str] = []
    if of_requests is not None:
        told["requests"] = run_compare_requests.as_dict(of_requests)
        text += run_compare_requests.lines(of_requests, (base, head), lang, rule)
    if halves is not None:
        known = run_compare.drift(store, run_compare.ids(halves), drift)
        found = compared(halves[0].runs, halves[1].runs, by, rule, known.share, in_turns)
        asked = run_compare.Asked(margin, rule.alpha, known)
        said.append(found.verdict.said)
        told = {**run_compare.as_dict(found, halves, lang, asked), **told}
        text += ["", *run_compare.lines(found, halves, lang, top, asked)] if text else run_compare.lines(
            found, halves, lang, top, asked)  # fmt: skip
    if halves is not None and run_compare.same_runs(halves) and ranks[0] == ranks[1] and steps[0] == steps[1]:
        text = [say(lang, "compare.note_same"), "", *text]
    if as_json:
        print_json(told)
    else:
        click.echo("\n".join(text))
    if fail_on_regression and "regressed" in said:
        sys.exit(1)
