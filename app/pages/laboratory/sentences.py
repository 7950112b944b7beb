"""What a result of the laboratory says, as sentences and rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any

from npulens.analysis.look.laboratory import Result, Trial
from npulens.app.text import i18n, wording
from npulens.app.text.i18n import known, say

COLUMNS = ("rewrite", "verdict", "time", "predicted", "error", "against", "peak", "finding", "why")
ABSENT = "–"


def headline(found: Result, lang: str) -> str:
    """The fastest of those that are right and faster, or that none is."""
    faster = [each for each in found.trials if each["verdict"] == "faster"]
    if not found.trials:
        return say(lang, "laboratory.nothing_tried", {"why": found.about.get("reason") or ABSENT})
    if not faster:
        refused = sum(each["verdict"] == "refused" for each in found.trials)
        told = [say(lang, "laboratory.none_faster", {"n": len(found.trials)})]
        told += [say(lang, "laboratory.refused", {"n": refused})] if refused else []
        return (" " if lang == "en" else "").join(told)
    best = min(faster, key=lambda each: float(each["speed"]["ratio"]))
    speed = best["speed"]
    return say(lang, "laboratory.fastest", {
        "rewrite": best["rewrite"], "times": f"{1 / speed['ratio']:.2f}", "ratio": ratio(speed),
        "interval": interval(speed), "error": error((best.get("errors") or {}).get("of_rewrite")), "n": len(faster),
        "of": len(found.trials),
    })  # fmt: skip


def what(found: Result, lang: str) -> str:
    """The module, how it was captured, and where it was tried."""
    told = found.about
    mode = say(lang, "lab.mode_training" if told.get("training") else "lab.mode_eval")
    return say(lang, "laboratory.what", {
        "module": told.get("module"), "engine": told.get("engine"), "mode": mode, "backend": told.get("backend"),
        "device": found.device or say(lang, "bench.unknown"), "error": error(told.get("error_of_original")),
        "evidence": say(lang, f"bench.evidence_{told.get('backend')}"),
    })  # fmt: skip


def row(found: Result, trial: Trial, lang: str) -> tuple[str, ...]:
    """The cells of one rewrite, as ``COLUMNS``."""
    errors, speed = trial.get("errors") or {}, trial.get("speed")
    peaks = (trial.get("peak_bytes"), trial.get("peak_bytes_of_original"))
    short = " · ".join(reasons(trial, lang))
    return (
        trial["rewrite"], say(lang, f"lab.verdict_{trial['verdict']}"),
        ABSENT if speed is None else f"{ratio(speed)} {interval(speed)}", predicted(trial, lang),
        f"{error(errors.get('of_rewrite'))} / {error(errors.get('allowed'))}" if errors else ABSENT,
        error(errors.get("against_original")) if errors else ABSENT,
        ABSENT if None in peaks else " / ".join(i18n.size(int(each)) for each in peaks if each is not None),
        finding(found, trial["rewrite"], lang), short or ABSENT,
    )  # fmt: skip


def finding(found: Result, rewrite: str, lang: str) -> str:
    """The finding that named a rewrite, and its ceiling."""
    named = found.finding(rewrite)
    if named is None:
        return ABSENT
    title = named["titles"].get(lang) or named["titles"].get("en") or named["detector"]
    saving = say(lang, "laboratory.ceiling", {"saving": i18n.duration(named["saving_ns"])})
    return f"{named['detector']}: {title} {saving}"


def predicted(trial: Trial, lang: str) -> str:
    """The ratio that theory gave before anything was timed, or that it gave none."""
    told = trial.get("predicted")
    if not told or not told.get("guess"):
        return say(lang, "laboratory.not_predicted")
    guess = told["guess"]
    text = f"{guess['mid']:.3f} [{guess['low']:.3f}, {guess['high']:.3f}]"
    return text if told.get("claimed") else say(lang, "laboratory.not_claimed", {"guess": text})


def reasons(trial: Trial, lang: str) -> list[str]:
    """Why the verdict is what it is, and what was left as it was."""
    found = []
    if trial.get("why"):
        found.append(why(trial["why"]["name"], trial["why"]["values"], lang))
    if trial.get("dtype") and trial.get("speed"):
        found.append(say(lang, "lab.precision", {"dtype": trial["dtype"]}))
    for name, count in (trial.get("left") or {}).items():
        found.append(say(lang, "lab.left", {"n": count, "why": why(name, {}, lang)}))
    return found


def why(name: str, values: Mapping[str, Any], lang: str) -> str:
    """A reason in words. A rewrite of somebody's own, or a stranger's file, brings names that nobody here knows."""
    told = {key: str(value) for key, value in values.items()}
    if known(f"lab.where_{told.get('where')}"):
        told["where"] = say(lang, f"lab.where_{told['where']}")
    if not known(f"lab.why_{name}"):
        return name
    try:
        return say(lang, f"lab.why_{name}", told)
    except KeyError:  # values that this reason does not have
        return name


def ratio(speed: Mapping[str, Any]) -> str:
    return f"{speed['ratio']:.3f}"


def interval(speed: Mapping[str, Any]) -> str:
    return f"[{speed['low']:.3f}, {speed['high']:.3f}]"


def error(value: float | None) -> str:
    return ABSENT if value is None else f"{value:.1e}"


def lines(text: str) -> str:
    """Code without characters that act on a terminal or turn it around."""
    return "\n".join(wording.plain(line) for line in text.splitlines())


def about(found: Result, lang: str) -> list[tuple[str, str]]:
    """What it was tried on and how, as pairs of a name and a value."""
    told = found.about
    environment = _mapping(told.get("environment"))
    cpu = _mapping(environment.get("cpu"))
    shapes = "; ".join(
        f"{each['calls']} × ({', '.join(' × '.join(map(str, one)) or 'scalar' for one in each['shapes'])})"
        for each in told.get("shapes") or ()
    )
    pairs = {
        "subject": PurePosixPath(str(told.get("subject"))).name, "shapes": shapes, "calls": told.get("calls"),
        "made_at": told.get("made_at"), "device": found.device,
        "versions": ", ".join(f"{name} {value}" for name, value in found.versions.items()),
        "python": environment.get("python"), "platform": environment.get("platform"), "cpu": cpu.get("model"),
        "cores": cpu.get("cores"), "load": cpu.get("load"),
        "method": ", ".join(f"{name} {value}" for name, value in _mapping(told.get("method")).items()),
    }  # fmt: skip
    return [(say(lang, f"laboratory.about_{name}"), ABSENT if value in (None, "", []) else str(value))
            for name, value in pairs.items()]  # fmt: skip


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
