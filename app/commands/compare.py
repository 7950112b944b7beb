"""Whether HEAD is slower than BASE, whether that is real, and what moved."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from npulens.app.console import json_option, lang_option, print_json, store_option
from npulens.app.text.number_lists import NoNumbers, numbers

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
@click.option("--training", is_flag=True, help="From which step on two trainings part: collect --training.")
@store_option
@json_option
@lang_option
def command(
    base: str, head: str, ranks: tuple[tuple[int, ...] | None, tuple[int, ...] | None],
    steps: tuple[tuple[int, ...] | None, tuple[int, ...] | None], by: str, keep_warm_up: bool, in_turns: bool,
    margin: float, drift: float | None, top: int, fail_on_regression: bool, training: bool, store: Path, as_json: bool,
    lang: str,
) -> None:  # fmt: skip
    """Compare HEAD with BASE: regressed, improved, the same or cannot tell; and what the change is made of.

    Each is a run id, a unique beginning of one, or a label; several between commas are several captures of one thing.
    Exits with 1 if --fail-on-regression and regressed, with 2 on an error.
    """
    from npulens.analysis.regression.compared import compared
    from npulens.analysis.regression.verdict import Rule
    from npulens.app import run_compare, run_training

    if training:
        for line in run_training.command(store, (base, head), as_json, lang):
            click.echo(line)
        return
    rule = Rule(margin=margin)
    halves = run_compare.halves(store, (base, head), ranks, steps, keep_warm_up)
    known = run_compare.drift(store, run_compare.ids(halves), drift)
    found = compared(halves[0].runs, halves[1].runs, by, rule, known.share, in_turns)
    asked = run_compare.Asked(margin, rule.alpha, known)
    if as_json:
        print_json(run_compare.as_dict(found, halves, lang, asked))
    else:
        for line in run_compare.lines(found, halves, lang, top, asked):
            click.echo(line)
    if fail_on_regression and found.verdict.said == "regressed":
        sys.exit(1)
