"""docs/power.md from the cells."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tests.power.cells import EFFECTS, Cell
from tests.power.measured import OTAVA, RUPTURES
from tests.power.noise import KINDS
from tests.power.pairs import PairCell, table
from tests.power.told import Alarms
from tests.power.told import table as by_level

HISTORY = "npulens, history"
HEAD = f"""# How often the gate cries wolf, and what it sees

Written by `make power` (`python -m tests.power`); nothing here is typed by hand. Nights are simulated. The level
of a night differs from the next one's by 2 %, a sample from the next by 1 %. There are ten samples a side and night.
Sixteen kinds of noise shape the nights (of the pairs: the runs within a night, of 2 % each):

{{kinds}}

* **Pairs**: base and head within one night, a coin saying which comes first. `analysis/regression/looks.py` judges
  them after 10 pairs, and after 20 and 40 where a doubt is left. An alarm is `regressed`, or
  `improved` too where nothing changed. Their table is a task-night's, and is beside the rules of two nights.
* **npulens, history**: the nights' medians through `judge_series`; an alarm is any change that it reports. The change
  is planted so that a third of the nights, at least two, come after it.
* **7 % and 5 % of two nights, rank test of two nights**: the medians, or Mann and Whitney's p < 0.01 on the samples.
  The night of the change stands against the night before.
* **Otava** ({OTAVA}) at the defaults of its code. **ruptures** ({RUPTURES}) with PELT, squared error and a
  penalty of 3 variances times log n, for it has no default. Both on the same medians, in an environment of their own.

"False alarms" are of 100 metric-nights without any change; "at 3 %" is how many of 100 changes of 3 % were spoken of.
"Dated" is, of the changes of 5 % that were found, the share dated within one night. Behind ± stands the Monte-Carlo
error, two standard deviations. Of the other columns it is at most {{most}} for ours and {{most_theirs}} for Otava and
ruptures.
"""


def page(
    cells: Sequence[Cell], of_pairs: Sequence[PairCell], quiet: Sequence[Alarms], said: Sequence[str]
) -> str:
    """The whole page."""
    ours = next(cell.n for cell in cells if cell.rule == HISTORY)
    theirs = min((cell.n for cell in cells), default=ours)
    kinds = "\n".join(f"* {name}: {(make.__doc__ or '').strip()}" for name, make in KINDS.items())
    head = HEAD.format(kinds=kinds, most=f"{100 / math.sqrt(ours):.1f}", most_theirs=f"{100 / math.sqrt(theirs):.1f}")
    parts = [head, "## What was asked, and what came out\n", *(f"* {line}" for line in said), ""]
    parts += ["", "## Pairs of one night\n", *table(of_pairs), ""]
    parts += ["## Alarms as nights tell them\n", "Of metric-nights without a change, by noise and its size; "
              "each change counts on the night that tells it.\n", *by_level(quiet), ""]
    parts += ["## The worst of the sixteen\n", *_worst(cells)]
    for kind in KINDS:
        parts += ["", f"## {kind[0].upper()}{kind[1:]}\n", *_table([cell for cell in cells if cell.noise == kind])]
    parts += ["", f"Repetitions: {ours:,} a cell, {theirs:,} of Otava and ruptures."]
    return "\n".join(parts) + "\n"


def _table(cells: Sequence[Cell]) -> list[str]:
    lines = [_row(["rule", "nights", "false alarms", *(f"at {effect:.0%}" for effect in EFFECTS[1:]), "dated"])]
    lines.append(_row(["---", "--:", "--:", *("--:" for _ in EFFECTS[1:]), "--:"]))
    rules = dict.fromkeys((cell.rule, cell.nights) for cell in sorted(cells, key=_order))
    for rule, nights in rules:
        of = {cell.effect: cell for cell in cells if (cell.rule, cell.nights) == (rule, nights)}
        shown = "2" if "two nights" in rule else str(nights)
        lines.append(_row([rule, shown, false_alarms(of[0.0]),
                           *(f"{of[effect].rate:.0%}" for effect in EFFECTS[1:]), _dated(of[0.05])]))  # fmt: skip
    return lines


def _worst(cells: Sequence[Cell]) -> list[str]:
    """Of each rule, the noise and the number of nights in which it cries wolf most, and what it sees at its worst."""
    lines = [_row(["rule", "most false alarms", "with", "least seen of 3 %", "of 5 %", "of 10 %"])]
    lines.append(_row(["---", "--:", "---", "--:", "--:", "--:"]))
    for rule in dict.fromkeys(cell.rule for cell in sorted(cells, key=_order)):
        of = [cell for cell in cells if cell.rule == rule]
        most = max((cell for cell in of if not cell.effect), key=lambda cell: cell.rate)
        least = [min(cell.rate for cell in of if cell.effect == effect) for effect in (0.03, 0.05, 0.10)]
        where = most.noise if "two" in rule else f"{most.noise}, {most.nights} nights"
        lines.append(_row([rule, false_alarms(most), where, *(f"{each:.0%}" for each in least)]))
    return lines


def _order(cell: Cell) -> tuple[int, str, int]:
    place = 0 if cell.rule == HISTORY else 1 + ("two nights" not in cell.rule)
    return place, cell.rule, cell.nights


def false_alarms(cell: Cell) -> str:
    """Of 100 nights, with the error of having simulated only so many."""
    return f"{100 * cell.rate:.2f} ± {200 * math.sqrt(cell.rate * (1 - cell.rate) / cell.n):.2f}"


def _dated(cell: Cell) -> str:
    return "-" if cell.dated is None or not cell.alarms else f"{cell.dated / cell.alarms:.0%}"


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"
