"""The score as a page of Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from npulens.analysis.scoring import Case, Rate, Score, score
from npulens.collectors.simulator.dialect import DIALECTS

if TYPE_CHECKING:
    from tests.score.__main__ import Result
    from tests.score.beside import Beside

HEADER = (
    "| | cases | recall | top 1 | precision | saving error, median | p90 | savings below the gain | clean without "
    "alarm | false clean |"
)
RULE = "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"


def page(found: Sequence[Result], beside: Beside | None, seed: int, seconds: float) -> str:
    cases = [result.case for result in found if result.case is not None]
    kinds: dict[str, list[Case]] = {"single": [], "combined": [], "clean": []}
    for result in found:
        if result.case is not None:
            kinds[result.task.kind].append(result.case)
    singles = kinds["single"]
    causes = sorted({fault.cause for case in cases for fault in case.planted})
    dialects = list(dict.fromkeys(result.task.dialect for result in found))
    dialects.sort(key=list(DIALECTS).index)
    total, clean = score(cases), score(kinds["clean"])
    out = [
        "# Accuracy", "",
        "Written by `python -m tests.score --write` from captures with planted faults, simulated from a seed. "
        "Recall, precision, top 1 and the saving's error are defined in `analysis/scoring.py`; the interval behind a "
        "share is Wilson's at 95 %. Simulated jobs are not real ones: this measures the detectors, not the world.", "",
        f"Seed {seed}: {len(cases)} captures ({len(singles)} with one fault, {len(kinds['combined'])} with two or "
        f"three, {len(kinds['clean'])} clean) in {seconds:.0f} s.", "",
        HEADER, RULE,
        _row("**all**", total), _row("one fault", score(singles)), _row("two or three", score(kinds["combined"])), "",
        f"Clean captures without a finding at or above 1 % of the step: {_rate(clean.quiet)}. False clean: faults "
        "above the limit of the detector of their cause, which ended with `clean`.", "",
        "## By dialect", "",
        "The kinds of captures that the same jobs are written as; a capture that cannot be read counts as failed.", "",
        HEADER.replace("| | cases", "| | failed | cases"), RULE + "--:|",
        *(_of_dialect(dialect, found) for dialect in dialects), "",
        *(f"- `{dialect}`: {DIALECTS[dialect].what}" for dialect in dialects), "",
        "## By cause", "",
        "Faults of this cause as the capture shows it, single and combined; precision of the findings that blame it.",
        "", HEADER, RULE,
        *(_row(f"`{cause}`", score(cases, cause)) for cause in causes),
    ]  # fmt: skip
    wrong = _wrong(cases)
    if wrong:
        out += ["", "## Findings that hit nothing planted", "", "| blamed | planted | times |", "|---|---|--:|"]
        out += [f"| `{blamed}` | {planted or 'nothing'} | {count} |" for (blamed, planted), count in wrong]
    if beside is not None:
        out += ["", *beside.lines()]
    return "\n".join(out) + "\n"


def _of_dialect(dialect: str, found: Sequence[Result]) -> str:
    mine = [result for result in found if result.task.dialect == dialect]
    cases = [result.case for result in mine if result.case is not None]
    row = _row(f"`{dialect}`", score(cases)).split("|")
    row.insert(2, f" {len(mine) - len(cases)} ")
    return "|".join(row)


def _row(name: str, of: Score) -> str:
    errors = ("" if error is None else f"{error:.1%}" for error in (of.saving_error, of.saving_error_p90))
    cells = [name, str(of.cases), _rate(of.recall), _rate(of.top1), _rate(of.precision), *errors, _rate(of.below)]
    cells += [_rate(of.quiet), f"{of.false_clean.good}" if of.false_clean.of else ""]
    return "| " + " | ".join(cells) + " |"


def _rate(rate: Rate) -> str:
    interval = rate.interval()
    if rate.share is None or interval is None:
        return ""
    return f"{rate.share:.3f} ({interval[0]:.2f}-{interval[1]:.2f}, {rate.good}/{rate.of})"


def _wrong(cases: Sequence[Case]) -> list[tuple[tuple[str, str], int]]:
    counts: dict[tuple[str, str], int] = {}
    for case in cases:
        planted = ", ".join(f"`{fault.cause}`" for fault in case.planted)
        for said in case.said:
            if not said.hits:
                counts[said.cause, planted] = counts.get((said.cause, planted), 0) + 1
    return sorted(counts.items(), key=lambda item: -item[1])
