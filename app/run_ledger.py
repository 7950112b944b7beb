"""What theory said of rewrites and what was measured, in words: of the trials of one subject, and of the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from npulens.analysis import rules
from npulens.app import run_check
from npulens.app.console import filled, table
from npulens.app.text.i18n import duration, known, say, size
from npulens.app.text.wording import plain
from npulens.ingest.store import runs as stores

_WIDEST = 110
_COLUMNS = ("subject", "rewrite", "predicted", "claimed", "measured", "verdict")


def guessed(said: Mapping[str, Any] | None, lang: str) -> str:
    """The predicted time as a multiple of the original's; in brackets where it is too small to claim."""
    if said is None or said["guess"] is None:
        return say(lang, "lab.not_predicted")
    mid = f"{said['guess']['mid']:.3f}"
    return mid if said["claimed"] else f"({mid})"


def reasons(said: Mapping[str, Any] | None, lang: str) -> Iterator[str]:
    """What the prediction was made from, or why there is none."""
    if said is None:
        return
    if said["guess"] is None:
        name, values = f"lab.why_{said['why']['name']}", said["why"]["values"]
        told = {key: plain(str(value)) for key, value in values.items()}
        why = say(lang, name, told) if known(name) else plain(said["why"]["name"])
        yield say(lang, "lab.theory_none", {"why": why})
        return
    guess, before, after = said["guess"], said["before"], said["after"]
    yield say(lang, "lab.theory_work", {
        "launches": f"{before['launches']:,}", "launches_after": f"{after['launches']:,}",
        "flops": f"{before['flops']:.3g}", "flops_after": f"{after['flops']:.3g}",
        "moved": size(before["moved"]), "moved_after": size(after["moved"]),
    })  # fmt: skip
    name = "theory_claimed" if said["claimed"] else "theory_small"
    values = {"mid": f"{guess['mid']:.3f}", "low": f"{guess['low']:.3f}", "high": f"{guess['high']:.3f}"}
    yield say(lang, f"lab.{name}", values)
    if said["by_class"] is not None:
        yield say(lang, "lab.theory_by_class", {"mid": f"{said['by_class']['mid']:.3f}"})
    elif said["unpriced"]:
        yield say(lang, "lab.theory_no_class", {"names": plain(", ".join(said["unpriced"][:6]))})


def calibrated(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """How far off the prices by class are, left-out points of the grid being priced by the others."""
    found = next((trial["predicted"]["class_errors"] for trial in answer["trials"]
                  if (trial.get("predicted") or {}).get("class_errors")), None)  # fmt: skip
    if found:
        told = ", ".join(f"{name} {error:.0%}" for name, error in sorted(found.items()))
        yield from filled(say(lang, "lab.theory_classes", {"errors": told}), _WIDEST)


def ceiling(finding: Mapping[str, Any], trial: Mapping[str, Any], lang: str) -> str:
    """What a finding gives back at most, beside what was measured."""
    values = {"detector": finding["detector"], "saving": duration(finding["saving_ns"])}
    if trial["speed"] is None:
        return say(lang, "lab.ceiling", values)
    gain = f"{1 - trial['speed']['ratio']:+.1%}"
    return say(lang, "lab.ceiling_measured", {**values, "gain": gain})


def lines(answer: Mapping[str, Any], lang: str) -> Iterator[str]:
    """The ledger for people."""
    if not answer["lines"]:
        yield say(lang, "lab.ledger_empty", {"path": answer["path"]})
        return
    rows = [_row(line, lang) for line in answer["lines"]]
    yield table([say(lang, f"lab.ledger_{name}") for name in _COLUMNS], rows, 2)
    yield ""
    for way in ("predicted", "by_class"):
        told = answer["scores"][way]
        yield from filled(say(lang, f"lab.ledger_score_{way}", told), _WIDEST)
    yield say(lang, "lab.ledger_where", {"path": answer["path"]})
    if answer["lost"]:
        yield say(lang, "lab.ledger_lost", {"n": answer["lost"]})


def _row(line: Mapping[str, Any], lang: str) -> list[str]:
    guess = line["predicted"]
    told = "-" if guess is None else f"{guess['mid']:.3f} [{guess['low']:.3f}, {guess['high']:.3f}]"
    return [
        plain(line["module"]), plain(line["rewrite"]), told, say(lang, "lab.yes") if line["claimed"] else "-",
        f"{line['ratio']:.3f} [{line['low']:.3f}, {line['high']:.3f}]", say(lang, f"lab.verdict_{line['verdict']}"),
    ]  # fmt: skip


def findings(run: str, store: Path) -> list[dict[str, Any]]:
    """A row for each rewrite that a finding of a run names; the saving is a ceiling."""
    found = stores.resolve(store, run)
    return [
        {"rewrite": name, "detector": finding.detector, "saving_ns": finding.saving_ns, "run_id": found.run_id,
         "titles": {lang: words.title for lang, words in finding.words.items()}}
        for finding in run_check.judge(store, found.run_id).findings
        for name in rules.rewrites_of(finding.detector, finding.numbers)
    ]  # fmt: skip


def beside(answer: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
    """The answer with what a run's findings save at most; the result on disk says it as well."""
    told = {**answer, "findings": found}
    path = Path(answer["subject"]) / "result.json"
    half = path.with_name(f".{path.name}.of_run")
    half.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    half.replace(path)
    return told
