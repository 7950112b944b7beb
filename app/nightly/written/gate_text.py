"""A gate in Markdown, for a comment beside the change, the summary of a CI step, and the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from npulens.app.nightly.by_commit import commits
from npulens.app.nightly.by_commit.gate import Gate
from npulens.app.nightly.events import moved
from npulens.app.nightly.night import Night, Row
from npulens.app.nightly.written import figures, night_text
from npulens.app.report.as_markdown import text
from npulens.app.text.i18n import say

#: Begins every comment, so that the next gate of the same change finds and replaces it.
MARK = "<!-- npulens gate -->"
#: Rows of a comment, and parts of a change in it.
_MOST, _PARTS = 20, 5
_STEP = "step_ns"


def write(gate: Gate, night: Night, langs: Sequence[str]) -> str:
    """The comment, in each language asked for."""
    return MARK + "\n" + "\n".join("\n".join(_whole(gate, night, lang)) for lang in langs)


def title(gate: Gate, night: Night, lang: str) -> str:
    values = {"name": night.name, "base": commits.short(gate.base), "head": commits.short(gate.head)}
    return say(lang, "commits.gate_title", values)


def headline(night: Night, lang: str) -> str:
    """The one sentence to take away."""
    regressed = len(night.of("regressed"))
    if not night.rows:
        return say(lang, "commits.gate_unmeasured")
    if not regressed:
        return say(lang, "commits.gate_broken" if night.broken else "commits.gate_passed")
    said = say(lang, "commits.gate_regressed", {"n": regressed})
    return said + (say(lang, "commits.gate_and_broken") if night.broken else "")


def heads(lang: str) -> list[str]:
    """What the columns are called."""
    mine = [say(lang, f"nightly.col_{name}") for name in ("verdict", "task", "metric", "change", "interval")]
    return [*mine, *(say(lang, f"commits.col_{name}") for name in ("base", "head", "pairs"))]


def cells(row: Row, lang: str) -> list[str]:
    """One metric, column by column."""
    return [
        night_text.tagged(row, lang), row.task, figures.metric(lang, row.metric), figures.change(row.ratio),
        figures.interval(row), figures.number(row.level, row.unit), figures.number(row.value, row.unit), str(row.n),
    ]  # fmt: skip


def shown(night: Night) -> list[Row]:
    """What moved, and the step of every task; all metrics of a task that has no step."""
    found = moved(night)
    stepped = {row.task for row in night.rows if row.metric == _STEP}
    mine = [row for row in night.rows if row.metric == _STEP or row.task not in stepped]
    return [*found, *(row for row in mine if row not in found)][:_MOST]


def besides(gate: Gate, night: Night, lang: str) -> list[str]:
    """What else is to be known: the rows that are not shown, what failed, what was left out."""
    found = []
    if more := len(night.rows) - len(shown(night)):
        found.append(say(lang, "commits.gate_more", {"n": more}))
    found += [*night_text.failures(night, lang), *night_text.notices(night, lang)]
    if gate.left_out:
        names = ("、" if lang == "zh" else ", ").join(gate.left_out)
        found.append(say(lang, "commits.gate_left_out", {"names": names}))
    return found


def parts(row: Row, lang: str) -> list[str]:
    """What the change of a step is made of, the largest first; together they are the change to the nanosecond."""
    if not row.parts or row.parts_ns is None:
        return []
    found = [f"{figures.signed(one.delta_ns)}: {night_text.part(one, lang)}" for one in row.parts[:_PARTS]]
    rest = row.rest_ns + sum(one.delta_ns for one in row.parts[_PARTS:])
    for key, ns in (("gate_rest", rest), ("gate_residual", row.residual_ns or 0)):
        if ns:
            found.append(f"{figures.signed(ns)}: {say(lang, f'commits.{key}')}")
    return [say(lang, "commits.gate_parts", {"change": figures.signed(row.parts_ns)}), *found]


def _whole(gate: Gate, night: Night, lang: str) -> Iterator[str]:
    yield f"## {text(title(gate, night, lang))}\n"
    yield f"**{text(headline(night, lang))}**\n"
    yield f"{text(night_text.counts(night, lang))}\n"
    rows = shown(night)
    if rows:
        yield "| " + " | ".join(text(head) for head in heads(lang)) + " |"
        yield "|:--|:--|:--|--:|:--|--:|--:|--:|"
        for row in rows:
            yield "| " + " | ".join(text(cell) for cell in cells(row, lang)) + " |"
        yield ""
    for row in rows:
        yield from _of_row(night, row, lang)
    yield from (f"- {text(sentence)}" for sentence in besides(gate, night, lang))
    yield ""


def _of_row(night: Night, row: Row, lang: str) -> Iterator[str]:
    for sentence in () if row.verdict == "same" else night_text.why(row, lang):
        yield f"- {text(f'{row.task}, {figures.metric(lang, row.metric)}: {sentence}')}"
    if made_of := parts(row, lang):
        yield f"- {text(made_of[0])}"
        yield from (f"  - {text(line)}" for line in made_of[1:])
    if row.run_id and row.base_run:
        link = night_text.link(night, "Compare", {"head": row.run_id, "base": row.base_run})
        if link:
            yield f"- [{text(say(lang, 'commits.gate_open'))}]({link})"
