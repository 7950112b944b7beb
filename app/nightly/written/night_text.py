"""A night in sentences; reports, messages and the page say the same ones. Nothing here is markup."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.regression.change_point import LEAST
from npulens.analysis.regression.common_factor import ALIKE
from npulens.analysis.say import share
from npulens.app.nightly.night import ORDER, Night, Row, Said, Share, Task, Verdict
from npulens.app.nightly.written import figures
from npulens.app.text.i18n import known, say
from npulens.app.text.wording import of, plain

#: What a night is about.
_TOLD: tuple[Verdict, ...] = ("regressed", "open", "likely", "machine", "fixed", "improved")


def named(night: Night) -> dict[str, object]:
    """What a title is filled with."""
    return {"name": night.name, "label": night.label}


def headline(night: Night, lang: str) -> str:
    """The one sentence to take away: the gravest thing, and whatever else must not be missed."""
    outcome = night.outcome
    many: dict[str, int] = {word: len(night.of(word)) for word in _TOLD}
    lead: dict[str, object] = {"n": many.get(outcome, 0), "least": LEAST}
    nothing = outcome == "broken" and not night.rows
    said = [say(lang, f"nightly.headline_{'unmeasured' if nothing else outcome}", lead)]
    for word in ("open", "likely", "fixed"):
        if many[word] and word != outcome:
            said.append(say(lang, f"nightly.headline_and_{word}", {"n": many[word]}))
    if night.broken and outcome != "broken":
        said.append(say(lang, "nightly.headline_and_broken"))
    if night.outside:
        said.append(say(lang, "nightly.headline_outside", {"n": len(night.outside)}))
    return "".join(said)


def counts(night: Night, lang: str) -> str:
    """How many metrics ended how."""
    many: dict[str, int] = {verdict: len(night.of(verdict)) for verdict in _TOLD}
    for verdict in ("same", "ambiguous", "young", "accepted"):
        many[verdict] = sum(row.verdict == verdict for row in night.rows)
    many["known"] = len(night.rows) - sum(many.values())
    said = [say(lang, f"nightly.count_{word}", {"n": n}) for word, n in many.items() if n]
    if not said:
        return say(lang, "nightly.counts_none")
    return say(lang, "nightly.counts", {"n": len(night.rows), "all": ("，" if lang == "zh" else ", ").join(said)})


def moved(night: Night) -> list[Row]:
    """The rows that this night is about, the gravest first."""
    found = [*(row for verdict in _TOLD for row in night.of(verdict)), *night.outside]
    # The step first: what it is made of moves with it.
    return sorted(found, key=lambda row: (
        ORDER.index(row.verdict), row.number or 0, not row.metric.startswith("step"), -abs((row.ratio or 1) - 1),
    ))  # fmt: skip


def said(sentence: Said, lang: str) -> str:
    """A sentence; names in it come from strangers."""
    return plain(say(lang, f"nightly.{sentence.key}", sentence.values))


def notices(night: Night, lang: str) -> list[str]:
    return [said(notice, lang) for notice in night.notices]


def failures(night: Night, lang: str) -> list[str]:
    """The tasks that are not done, and why."""
    return [failure(task, lang) for task in night.tasks if task.status != "done"]


def failure(task: Task, lang: str) -> str:
    status = say(lang, f"nightly.status_{task.status}")
    why = f": {said(task.reason, lang)}" if task.reason else ""
    return f"{task.name}: {status} ({task.done}/{task.planned}){why}"


def why(row: Row, lang: str) -> list[str]:
    """What changed in the same night, or what would settle the matter."""
    found = [say(lang, "nightly.machine_means")] if row.verdict == "machine" and row.hints else []
    if row.verdict == "machine" and not row.hints:
        found.append(say(lang, "nightly.machine_pairs"))
    for hint in row.hints:
        values = {"name": hint.name, "before": hint.before or "–", "after": hint.after or "–"}
        found.append(say(lang, "nightly.hint_machine" if hint.machine else "nightly.hint", values))
    if row.slope is not None:
        found.append(say(lang, "nightly.climbs", {"slope": figures.change(1 + row.slope), "night": row.since or "–"}))
    if row.settles is not None:
        found.append(said(row.settles, lang))
    if (sentence := in_step(row, lang)) is not None:
        found.append(sentence)
    if row.parts:
        first = row.parts[0]
        values = {"what": part(first, lang), "length": figures.signed(first.delta_ns)}
        found.append(say(lang, "nightly.first_part", values))
    if row.owner:
        found.append(say(lang, "nightly.owned", {"owner": plain(row.owner)}))
    return found


#: Of a part that moved, how sure that is.
_SURE: dict[Verdict, str] = {
    "regressed": "sure", "open": "sure", "improved": "sure", "fixed": "sure", "machine": "sure", "likely": "likely",
}  # fmt: skip


def in_step(row: Row, lang: str) -> str | None:
    """What a part that moved is of its step, and whether the step shows it."""
    if row.share is None or row.step is None or row.ratio is None or row.verdict not in _SURE:
        return None
    step = "too" if row.step in _SURE else "same" if row.step in ("same", "accepted") else "cannot_tell"
    return say(lang, f"nightly.part_{_SURE[row.verdict]}", {
        "metric": figures.metric(lang, row.metric), "change": figures.change(row.ratio), "share": share(row.share),
        "step": say(lang, f"nightly.step_{step}"),
    })  # fmt: skip


def tagged(row: Row, lang: str) -> str:
    """The verdict, with the number to accept or own the regression by."""
    verdict = say(lang, f"nightly.verdict_{row.verdict}")
    return f"{verdict} #{row.number}" if row.number else verdict


def part(share: Share, lang: str) -> str:
    """The name of a part of a change; causes of gaps and directions of copies in words."""
    causes = {**CAUSES, **GAP_ONLY}
    if share.kind == "gap" and share.what in causes:
        return of(lang, causes[share.what])
    key = f"verdict.{share.what}"
    named = share.kind in ("gap", "copy") or share.what == ALIKE
    return say(lang, key) if named and known(key) else plain(share.what)


def was(row: Row, lang: str) -> str:
    """Before and now in one sentence."""
    values = {"before": figures.number(row.level, row.unit), "now": figures.number(row.value, row.unit)}
    return say(lang, "nightly.against_base" if row.by == "pairs" else "nightly.was", values)


def judged_by(row: Row, lang: str) -> str:
    return say(lang, f"nightly.by_{row.by}", {"n": row.n})


def link(night: Night, page: str, query: Mapping[str, str]) -> str:
    """A page of the dashboard; empty where the configuration names none."""
    if not night.dashboard.startswith(("http://", "https://")):
        return ""
    return f"{quote(night.dashboard.rstrip('/'), safe=':/@[]?&=%~')}/{page}?{urlencode(query)}"
