"""What the tools answer: figures whole, names of the trace on one line and shortened, the most worth first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from npulens.analysis.engine import Check
from npulens.analysis.finding import Evidence, Finding
from npulens.analysis.problems import shown
from npulens.analysis.settings import Settings
from npulens.analysis.timeline.detail import detail
from npulens.app import docs_of, run_check
from npulens.app.agents.budget import Piece, fitted
from npulens.app.agents.held import Held, Runs
from npulens.app.agents.who import Who
from npulens.app.aside import ask_process
from npulens.app.aside.ask_process import Refused
from npulens.app.searching import found as searched
from npulens.app.selection.chosen import Selection, ranges
from npulens.app.text import i18n, recording, wording
from npulens.ingest.errors import IngestError
from npulens.ingest.messages import Message, render, verbatim
from npulens.ingest.store import notes
from npulens.ingest.store import runs as stores
from npulens.ingest.store.query import MAX_ROWS
from npulens.ingest.store.runs import RunInfo

Json = dict[str, Any]
#: Letters of a run id, which name one in any store.
_ID = 12
_LONGEST = 160  # characters of a name from a trace
_SAID = 600  # characters of a sentence with such names in it
_FRAMES = 6
#: Windows whose span and code are looked up; finding them takes milliseconds each.
_LOOKED_UP = 20
_NEAR = 3  # windows that `why` shows
_DIGITS = 5  # of a share


@dataclass(frozen=True)
class Asked:
    """Who asks, in which language, and how long the answer may be."""

    who: Who
    lang: str
    budget: int


class Answers:
    """The tools over one store. ``dashboard`` is where links lead, ``project`` the project there that has the store."""

    def __init__(self, store: Path, settings: Settings, dashboard: str, project: str = "") -> None:
        self._store, self._settings, self._dashboard = store, settings, dashboard.rstrip("/")
        self._project = {"project": project} if project else {}
        self._runs = Runs(store, settings)

    def runs(self, asked: Asked, words: str = "") -> Json:
        """List the runs of the store, newest first. Every word has to fit a label, note, tag, format or id."""
        said = notes.about(self._store)
        seen = [run for run in stores.runs(self._store) if asked.who.sees(run.run_id)]
        chosen = searched(seen, said, words, lambda run: (run.label or "", "+".join(run.formats)))
        pieces = [Piece("runs", self._row(run, asked.lang), 0) for run in chosen]
        return fitted({"count": len(chosen), "runs": []}, pieces, asked.budget)

    def check(self, asked: Asked, run: str) -> Json:
        """Say where a run loses time. Each finding has its cause, ranks, largest window and ceiling of its saving.

        Findings come largest first. Ask `why` with a finding's id for advice and code, `evidence` for every window.
        """
        info = self._info(asked, run)
        with self._runs.asked(info.run_id) as held:
            said = self._runs.judged(held)
        ids = shown.finding_ids(said.findings)
        top = said.findings[0] if said.findings else None
        head = {
            **_named(info), "answer": _line(wording.answer(said, asked.lang), _SAID), "step_ns": said.step_ns,
            "steps": said.steps, "together_ns": said.together_ns, "quality": said.quality.score,
            "outcomes": {name: wording.count(said, name) for name in
                         ("found", "masked", "clean", "not_measured", "failed")},
            "link": self._link(info, _selection(ids[0], top)) if top else self._link(info, Selection()),
            "findings": [],
        }  # fmt: skip
        return fitted(head, [*self._said_of(info, said, asked.lang)], asked.budget)

    def why(self, asked: Asked, run: str, finding: str) -> Json:
        """Explain one finding: cause, what to do, its ceiling, its numbers, and the code at its largest moments.

        The name of a detector that found nothing is answered with the reason.
        """
        info = self._info(asked, run)
        with self._runs.asked(info.run_id) as held:
            said = self._runs.judged(held)
            one = _finding(said, finding)
            if one is None:
                return fitted({**_named(info), **_outcome(said, finding, asked.lang)}, (), asked.budget)
            windows = self._windows(info, held, finding, one)[:_NEAR]
        words = one.words[asked.lang]
        head = {
            **_named(info), **_finding_row(finding, one, asked.lang), "outcome": "found",
            "means": wording.cause(one, asked.lang), "advice": _line(words.advice, _SAID),
            "link": self._link(info, _selection(finding, one)),
        }  # fmt: skip
        pieces = [Piece("windows", window, 3) for window in windows]
        pieces += [Piece("numbers", {"name": name, "value": _value(value)}, 2) for name, value in one.numbers.items()]
        pieces += [Piece("method", text, 1) for text in self._method(one.detector, asked.lang)]
        return fitted(head, pieces, asked.budget)

    def evidence(self, asked: Asked, run: str, finding: str) -> Json:
        """List the windows of a finding, largest first, each with its span, code and link."""
        info = self._info(asked, run)
        with self._runs.asked(info.run_id) as held:
            one = _finding(self._runs.judged(held), finding)
            if one is None:
                raise IngestError("unknown_finding", Message("no_finding_is_called", {"name": f"{finding!r}"}))
            windows = self._windows(info, held, finding, one)
        head = {**_named(info), "finding": finding, "count": len(windows), "windows": []}
        return fitted(head, [Piece("windows", window, 0) for window in windows], asked.budget)

    def compare(self, asked: Asked, base: str, head: str) -> Json:
        """Compare a run with a baseline: regressed, improved, the same or cannot tell, and what the change is made of.

        Several runs of one side are given between commas.
        """
        from npulens.analysis.regression.compared import compared
        from npulens.analysis.regression.verdict import Rule
        from npulens.app import run_compare

        names = tuple(",".join(self._info(asked, part).run_id for part in side.split(",")) for side in (base, head))
        rule = Rule()
        halves = run_compare.halves(self._store, (names[0], names[1]), (None, None), (None, None), False)
        known = run_compare.drift(self._store, run_compare.ids(halves), None)
        found = compared(halves[0].runs, halves[1].runs, "kernel", rule, known.share, False)
        said, change = found.verdict, found.change
        top: Json = {
            "base": [run[:_ID] for run in run_compare.ids(halves)[0]],
            "head": [run[:_ID] for run in run_compare.ids(halves)[1]],
            "verdict": said.said, "answer": _line(run_compare.answer(found, asked.lang), _SAID), "metric": found.metric,
            "base_ns": change.base_ns, "head_ns": change.head_ns, "delta_ns": change.delta_ns,
            "delta_share": change.delta_share, "residual_ns": change.residual_ns,
            "interval": None if said.low is None or said.high is None else [said.low - 1, said.high - 1],
            "contributions": [],
        }  # fmt: skip
        moved = sorted((one for one in change.contributions if one.delta_ns), key=lambda one: -abs(one.delta_ns))
        pieces = [
            Piece("contributions", {"kind": one.kind, "what": _line(run_compare.called(one, asked.lang), _LONGEST),
                                    "delta_ns": one.delta_ns}, 2) for one in moved
        ]  # fmt: skip
        reasons = run_compare.reasons(found, asked.lang, run_compare.Asked(rule.margin, rule.alpha, known))
        pieces += [Piece("reasons", _line(text, _SAID), 3) for text in reasons]
        notes_of = run_compare.warnings(found, halves, asked.lang)
        pieces += [Piece("warnings", _line(one.text, _SAID), 1) for one in notes_of]
        return fitted(top, pieces, asked.budget)

    def sql(self, asked: Asked, run: str, query: str = "") -> Json:
        """Run one SELECT over the tables and views of a run. Without a query it lists them with their columns."""
        info = self._info(asked, run)
        if not query.strip():
            pieces = [
                Piece("relations", {"name": one.name, "kind": one.kind, "means": one.means,
                                    "columns": [column.name for column in one.columns]}, 0)
                for one in docs_of.relations()
            ]  # fmt: skip
            return fitted(_named(info), pieces, asked.budget)
        answer = ask_process.ended(self._store, info.run_id, query, lambda _: None)
        if isinstance(answer, Refused):
            key = f"sql.error_{answer.kind}"
            said = i18n.say(asked.lang, key) if i18n.known(key) else answer.message
            raise IngestError(answer.kind, verbatim(said))
        if answer.cut:
            raise IngestError("too_many_rows", Message("more_than_rows_add_limit", {"n": f"{MAX_ROWS:,}"}))
        rows = [Piece("rows", row, 0) for row in answer.rows]
        head = {**_named(info), "columns": list(answer.columns), "count": len(rows), "rows": []}
        return fitted(head, rows, asked.budget)

    def next_capture(self, asked: Asked, run: str) -> Json:
        """Say what a run did not record, and the profiler's settings that record it next time."""
        info = self._info(asked, run)
        with self._runs.asked(info.run_id) as held:
            said = self._runs.judged(held)
        recipe, lang = said.quality.collect, asked.lang
        head = {
            **_named(info), "quality": said.quality.score, "tool": recipe.tool, "steps": recipe.steps,
            "ranks": None if recipe.ranks is None else ranges(recipe.ranks),
            "answer": _line(wording.collect(said, lang), _SAID), "missing": [],
        }  # fmt: skip
        pieces = [Piece("code", recipe.code(lang), 2)]
        pieces += [
            Piece("missing", {
                "what": _line(wording.of(lang, one.what), _LONGEST), "why": _line(wording.why(one, lang), _SAID),
                "collect_with": None if one.collect_with is None else _line(render(one.collect_with, lang), _SAID),
            }, 0 if one.collect_with is None else 1)
            for one in said.quality.missing
        ]  # fmt: skip
        return fitted(head, pieces, asked.budget)

    # What the answers are made of.

    def _info(self, asked: Asked, name: str) -> RunInfo:
        """A run that whoever asks may see. Any other is not there, and is not counted among those of a beginning."""
        unknown = IngestError("unknown_run", Message("no_run_is_called_npulens", {"name": f"{name.strip()!r}"}))
        try:
            info = stores.resolve(self._store, name.strip())
        except IngestError as error:
            if asked.who.runs is None:
                raise
            raise unknown from error
        if not asked.who.sees(info.run_id):
            raise unknown
        return info

    def _row(self, run: RunInfo, lang: str) -> Json:
        return {
            "run": run.run_id[:_ID], "label": _line(run.label or "", _LONGEST) or None, "status": run.status,
            "formats": list(run.formats), "ranks": ranges(run.ranks), "world_size": run.world_size, "steps": run.steps,
            "dur_ns": run.dur_ns, "loaded_at": run.loaded_at, "link": self._link(run, Selection()),
        }  # fmt: skip

    def _said_of(self, info: RunInfo, said: Check, lang: str) -> list[Piece]:
        """Findings before everything else, then what weakens them, then what could not be measured."""
        ids = shown.finding_ids(said.findings)
        pieces = [Piece("findings", _finding_row(name, one, lang), 4)
                  for name, one in zip(ids, said.findings, strict=True)]  # fmt: skip
        doubts = [wording.of(lang, doubt.text) for doubt in said.quality.doubts]
        noticed = recording.noticed(stores.manifest(self._store, info.run_id), lang)
        pieces += [Piece("doubts", _line(text, _SAID), 3) for text in [*doubts, *noticed]]
        for outcome, worth in (("masked", 2), ("not_measured", 1)):
            pieces += [
                Piece(outcome, {"detector": one.detector, "reason": _line(wording.reason(one, lang), _SAID)}, worth)
                for one in said.outcomes if one.outcome == outcome
            ]  # fmt: skip
        return pieces

    def _method(self, detector: str, lang: str) -> list[str]:
        known = {each.name: each for each in run_check.ready(self._settings)}
        text = known[detector].documentation.get(lang, "") if detector in known else ""
        return [part.strip() for part in text.split("\n\n") if part.strip()]

    def _windows(self, info: RunInfo, held: Held, name: str, one: Finding) -> list[Json]:
        """The windows of a finding, the first of them with the span that lies in each and the code that issued it."""
        if name in held.windows:
            return held.windows[name]
        moments = shown.moments(one)
        rows = [self._window(info, name, moment) for moment in moments]
        for row, span in zip(rows, shown.spans_of(held.con, moments[:_LOOKED_UP]), strict=False):
            told = None if span is None else detail(held.con, span)
            if told is not None:
                row["span"] = {"id": told.id, "name": _line(told.name, _LONGEST), "kind": told.kind}
                code = shown.source(held.con, told.id)
                frames = [] if code is None else [code.place or code.line or "", *code.stack[:_FRAMES]]
                row["code"] = [_line(frame, _LONGEST) for frame in dict.fromkeys(frames) if frame]
        held.windows[name] = rows
        return rows

    def _window(self, info: RunInfo, finding: str, moment: Evidence) -> Json:
        window = (moment.ts_ns, moment.ts_ns + max(1, moment.dur_ns))
        link = self._link(info, Selection((moment.rank,), None, window, finding))
        return {
            "rank": moment.rank, "ts_ns": moment.ts_ns, "dur_ns": moment.dur_ns,
            "note": _line(moment.note, _LONGEST) or None, "link": link,
        }  # fmt: skip

    def _link(self, info: RunInfo, selection: Selection) -> str:
        """The first page of the dashboard with this selected."""
        return f"{self._dashboard}/?{urlencode(self._project | {'run': info.run_id} | selection.query(), safe=',')}"


#: The tools by name. A method's docstring is what an agent reads of it.
TOOLS: dict[str, Callable[..., Json]] = {
    "runs": Answers.runs, "check": Answers.check, "why": Answers.why, "evidence": Answers.evidence,
    "compare": Answers.compare, "sql": Answers.sql, "next_capture": Answers.next_capture,
}  # fmt: skip


def _named(info: RunInfo) -> Json:
    return {"run": info.run_id[:_ID], "label": _line(info.label or "", _LONGEST) or None}


def _line(text: str, longest: int) -> str:
    """On one line, without characters that act, and no longer than this."""
    said = wording.plain(text)
    return said if len(said) <= longest else said[: longest - 1] + "…"


def _value(value: object) -> object:
    return _line(value, _SAID) if isinstance(value, str) else value


def _finding(said: Check, name: str) -> Finding | None:
    return dict(zip(shown.finding_ids(said.findings), said.findings, strict=True)).get(name)


def _outcome(said: Check, name: str, lang: str) -> Json:
    """How the detector of a name ended, where that is no finding."""
    ended = next((one for one in said.outcomes if one.detector == name), None)
    if ended is None:
        raise IngestError("unknown_finding", Message("no_finding_is_called", {"name": f"{name!r}"}))
    setting = None if ended.collect_with is None else _line(render(ended.collect_with, lang), _SAID)
    reason = _line(wording.reason(ended, lang), _SAID)
    return {"id": name, "outcome": ended.outcome, "reason": reason, "collect_with": setting}


def _finding_row(name: str, one: Finding, lang: str) -> Json:
    """The answer in small: the cause, whose, when, and at most how much."""
    first = one.evidence[0] if one.evidence else None
    return {
        "id": name, "cause": one.cause, "title": _line(one.words[lang].title, _SAID),
        "ranks": ranges(shown.ranks_of(one)),
        "window": first and {"rank": first.rank, "ts_ns": first.ts_ns, "dur_ns": first.dur_ns},
        "saving_ns": one.saving_ns, "saving_most_ns": one.saving_most_ns,
        "saving_share": round(one.saving_share, _DIGITS), "measure": one.measure,
        "severity": one.severity, "confidence": one.confidence,
    }  # fmt: skip


def _selection(name: str, one: Finding) -> Selection:
    """The finding, its ranks, and its largest window."""
    first = one.evidence[0] if one.evidence else None
    window = None if first is None else (first.ts_ns, first.ts_ns + max(1, first.dur_ns))
    return Selection(() if first is None else (first.rank,), None, window, name)
