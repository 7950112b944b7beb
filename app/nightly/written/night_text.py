"""A night in sentences; reports, messages and the page say the same ones. Nothing here is markup."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote, urlencode

from npulens.analysis.causes import CAUSES, GAP_ONLY
from npulens.analysis.regression.change_point import LEAST
from npulens.analysis.regression.common_factor import ALIKE
from npulens.analysis.say import share
from npulens.app.nightly.events import Event, events
from npulens.app.nightly.night import TOLD, Commits, Night, Row, Said, Share, Task, Verdict, by_kernel
from npulens.app.nightly.written import figures
from npulens.app.text.i18n import known, say
from npulens.app.text.wording import of, plain
from npulens.ingest.messages import render, restored


def named(night: Night) -> dict[str, object]:
    """What a title is filled with."""
    return {"name": night.name, "label": night.label}


def headline(night: Night, lang: str) -> str:
    """The one sentence to take away: the gravest thing, and whatever else must not be missed."""
    outcome, found = night.outcome, events(night)
    of = {word: [event for event in found if event.verdict == word] for word in TOLD}
    lead = [event for event in found if event.verdict == outcome]
    nothing = outcome == "broken" and not night.rows
    first = "unmeasured" if nothing else outcome
    young = {"young": len(night.young), "all": len(night.rows), "least": LEAST}
    said = [say(lang, f"nightly.headline_{first}", {**_many(lead, lang), **young})]
    if len(lead) == 1:
        said.append(say(lang, "nightly.headline_named", {"event": event_named(lead[0], lang)}))
    for word in ("open", "likely", "fixed"):
        if of[word] and word != outcome:
            said.append(say(lang, f"nightly.headline_and_{word}", _many(of[word], lang)))
    if night.broken and outcome != "broken":
        said.append(say(lang, "nightly.headline_and_broken"))
    if night.young and outcome == "quiet":
        said.append(say(lang, "nightly.headline_young", {"n": len(night.young)}))
    if slowed := night.slowed:
        values = {"n": len(slowed), "night": max(row.since or "" for row in slowed)}
        said.append(say(lang, "nightly.headline_since_machine", values))
    if night.outside:
        said.append(say(lang, "nightly.headline_outside", {"n": len(night.outside)}))
    return "".join(said)


def _many(found: Sequence[Event], lang: str) -> dict[str, object]:
    """How many events there are, and of how many tasks."""
    tasks = len({task for event in found for task in event.tasks})
    return {"n": len(found), "tasks": say(lang, "nightly.tasks_many", {"n": tasks})}


#: Tasks of an event that are named; of more it is said how many.
_NAMED = 3


def event_named(event: Event, lang: str) -> str:
    """What, why and by how much: everything, driver 24.1.0 → 24.1.1, +5.0 %."""
    comma = "，" if lang == "zh" else ", "
    if event.everything:
        what = say(lang, "nightly.event_everything")
    elif len(event.tasks) > _NAMED:
        what = say(lang, "nightly.tasks_many", {"n": len(event.tasks)})
    else:
        what = comma.join(event.tasks)
    if len(event.tasks) == 1:
        what = f"{what} · {figures.metric(lang, event.lead.metric)}"
    why = [f"{hint.name} {hint.before or '–'} → {hint.after or '–'}" for hint in event.hints[:1]]
    return plain(comma.join([what, *why, event_change(event)]))


def event_change(event: Event) -> str:
    """By how much the tasks of an event changed: one figure, or the least and the most."""
    if event.factors is None:
        return figures.change(None)
    least, most = (figures.change(factor) for factor in event.factors)
    return least if least == most else f"{least} … {most}"


def event_cells(event: Event, lang: str) -> tuple[str, ...]:
    """An event in one line of a table: verdict, what it is, how many metrics, change, since."""
    return (tagged(event.lead, lang), event_named(event, lang), str(len(event.rows)), event_change(event),
            event.lead.since or "")  # fmt: skip


def event_lines(event: Event, lang: str) -> list[str]:
    """The metrics of an event that say what happened, and how many more moved with them."""
    named = event.named
    lines = [one_line(row, lang, row in event.leads) for row in named]
    more = len(event.rows) - len(named)
    return [*lines, say(lang, "nightly.more_metrics", {"n": more})] if more else lines


def one_line(row: Row, lang: str, placed: bool) -> str:
    """A metric of an event: what it is, the change with its interval, the values, how sure it is, and on what."""
    between = figures.interval(row)
    change = f"{figures.change(row.ratio)} ({between})" if between else figures.change(row.ratio)
    facts = (change, was(row, lang), tagged(row, lang), row.where if placed else "")
    return f"{row.task}, {figures.metric(lang, row.metric)}: " + " · ".join(fact for fact in facts if fact)


def event_why(event: Event, lang: str) -> list[str]:
    """What is known of an event, each sentence once; of a part only what its step does not say."""
    found = why(event.lead, lang)
    seen = set(found)
    for row in event.rows:
        for sentence in why(row, lang) if row in event.leads else _of_part(row, lang):
            if sentence not in seen:
                seen.add(sentence)
                found.append(f"{row.task}: {sentence}")
    return found


def _of_part(row: Row, lang: str) -> list[str]:
    """What would settle the matter, and what it is of a step that does not show it."""
    settles = [said(row.settles, lang)] if row.settles is not None else []
    hidden = None if row.step in _SURE else in_step(row, lang)
    return settles if hidden is None else [*settles, hidden]


def event_commands(event: Event, lang: str) -> list[tuple[str, str]]:
    """What to run for each task of an event."""
    return list(dict.fromkeys(one for row in event.leads for one in commands(row, lang)))


def beside(event: Event, row: Row, lang: str) -> str | None:
    """Of a row that is one of several of an event, which event that is."""
    if len(event.rows) == 1:
        return None
    return say(lang, "nightly.event_of", {"event": event_named(event, lang), "n": len(event.rows)})


def counts(night: Night, lang: str) -> str:
    """How many metrics ended how."""
    many: dict[str, int] = {verdict: len(night.of(verdict)) for verdict in TOLD}
    for verdict in ("same", "ambiguous", "young", "accepted"):
        many[verdict] = sum(row.verdict == verdict for row in night.rows)
    many["known"] = len(night.rows) - sum(many.values())
    said = [say(lang, f"nightly.count_{word}", {"n": n}) for word, n in many.items() if n]
    if not said:
        return say(lang, "nightly.counts_none")
    return say(lang, "nightly.counts", {"n": len(night.rows), "all": ("，" if lang == "zh" else ", ").join(said)})


def said(sentence: Said, lang: str) -> str:
    """A sentence; names in it come from strangers, and its reason may be a message that speaks both languages."""
    values = sentence.values
    if "said" in values:
        values = {**values, "reason": render(restored(values["reason"], values["said"]), lang)}
    return plain(say(lang, f"nightly.{sentence.key}", values))


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
    if row.commits is not None:
        found.append(commits(row.commits, lang))
    if row.slope is not None:
        found.append(say(lang, "nightly.climbs", {"slope": figures.change(1 + row.slope), "night": row.since or "–"}))
    if row.settles is not None:
        found.append(said(row.settles, lang))
    if (sentence := in_step(row, lang)) is not None:
        found.append(sentence)
    if row.parts:
        first = by_kernel(row.parts)[0]
        values = {"what": part(first[0], lang), "length": figures.signed(sum(one.delta_ns for one in first))}
        found.append(say(lang, "nightly.first_part", values))
    if row.owner:
        found.append(say(lang, "nightly.owned", {"owner": plain(row.owner)}))
    return found


def commits(between: Commits, lang: str) -> str:
    """Subject and author of the commit; they are text from strangers."""
    values = {"old": between.old, "new": between.new, "n": between.between, "subject": plain(between.subject),
              "author": plain(between.author)}  # fmt: skip
    return say(lang, "nightly.commit_many" if between.between > 1 else "nightly.commit_one", values)


def commands(row: Row, lang: str) -> list[tuple[str, str]]:
    """What to run, each with the words before it."""
    both = (("nightly.confirm", row.confirm), ("nightly.next", row.next))
    return [(say(lang, key), command) for key, command in both if command]


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
    """The name of a part of a change without its shapes; causes of gaps and directions of copies in words."""
    causes = {**CAUSES, **GAP_ONLY}
    if share.kind == "gap" and share.what in causes:
        return of(lang, causes[share.what])
    if share.kind == "request":
        return say(lang, f"serving.kind_{share.what}")
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
