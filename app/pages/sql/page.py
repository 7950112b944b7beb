"""One SELECT at a time over the chosen run, with the documented tables beside it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from npulens.analysis.look import sql_answers
from npulens.analysis.look.sql_answers import EXAMPLES
from npulens.app import context, docs_of
from npulens.app.aside import ask_process
from npulens.app.aside.ask_process import Answered, Asking, Refused
from npulens.app.context import Context
from npulens.app.panels import cells, link
from npulens.app.team.who import Act
from npulens.app.text import i18n, wording, written
from npulens.ingest.store.export import harmless
from npulens.ingest.store.query import LIMITS, MAX_ROWS

TITLE = "sql.title"
ICON = ":material/database:"
ORDER = 70
GROUP = "data"


def render(ctx: Context) -> None:
    """The editor left, the documentation right, the answer below both."""
    st.header(ctx.say("sql.title"), anchor=False)
    if ctx.run is None:
        st.text(ctx.say("sql.empty"))
        return
    st.text(ctx.say("sql.lead"))
    left, right = st.columns([3, 2], gap="medium")
    with right:
        show_tables(ctx)
    with left:
        asked = show_ask(ctx, ctx.run.run_id)
        st.caption(limits(ctx))
    if asked:
        show_answer(ctx, *asked)


# The documented tables and views, to look things up while writing a query.
def show_tables(ctx: Context) -> None:
    """Search over everything, or one table or view with what it holds."""
    st.subheader(ctx.say("sql.tables"), anchor=False, help=ctx.say("sql.tables_help"))
    wanted = st.text_input(ctx.say("sql.search"), key="sql_search", icon=":material/search:")
    names = [relation.name for relation in docs_of.relations()]
    within = st.selectbox(ctx.say("sql.one_of"), names, index=None, key=f"sql_within_{ctx.lang}",
                          placeholder=ctx.say("sql.everything"))  # fmt: skip
    for relation in docs_of.relations():
        if relation.name == within:
            st.text(written.meaning(relation.means, ctx.lang))
    found = docs_of.columns(wanted, within, context.measured(ctx, sql_answers.column_types), ctx.lang)
    if not found:
        st.text(ctx.say("sql.nothing_found"))
        return
    order = ("table", "name", "type", "means")
    heads = {name: ctx.say(f"sql.col_{name}") for name in order if name != "table" or within is None}
    shown = pd.DataFrame([vars(column) for column in found])
    cells.show(shown, heads, f"sql_columns_{ctx.lang}", ctx.say("sql.tables_help"))


# The editor, its examples, and the one query that is asked. The link keeps the query.
_STYLE = "<style>.st-key-sql_text textarea { font-family: var(--st-code-font, monospace); font-size: 0.9rem; }</style>"
_LINK_LETTERS = 6_000  # of a query that a link still holds


def show_ask(ctx: Context, run_id: str) -> tuple[str, Answered | Refused] | None:
    """The query that was asked last and how it ended; None before the first."""
    if "sql_text" not in st.session_state:
        st.session_state["sql_text"] = st.query_params.get("sql") or st.session_state.get("sql_kept", "")
    st.html(_STYLE)
    st.text(ctx.say("sql.examples"))
    with st.container(horizontal=True, gap="small"):
        for name, query in EXAMPLES:
            st.button(ctx.say(f"sql.example_{name}"), key=f"sql_example_{name}", on_click=_take, args=(query,))
    with st.form("sql_form", border=False):
        st.text_area(ctx.say("sql.query"), key="sql_text", height=220, help=ctx.say("sql.query_help"),
                     placeholder="SELECT …")  # fmt: skip
        pressed = st.form_submit_button(ctx.say("sql.run"), type="primary", icon=":material/play_arrow:")
    text = str(st.session_state["sql_text"])
    clicked = st.session_state.pop("sql_clicked", False)
    if not text.strip():
        return None
    before = st.session_state.get("sql_asked")
    if not pressed and not clicked and before and before[0] == run_id:
        return str(before[1]), before[2]
    _keep(ctx, text)
    place = st.empty()
    store = ctx.to(Act.ASK, f"{run_id}: {text}")
    outcome = ask_process.ended(store, run_id, text, lambda query: _tell(ctx, place, query))
    place.empty()
    st.session_state["sql_asked"] = (run_id, text, outcome)
    return text, outcome


def _take(query: str) -> None:
    """An example is put into the editor and asked."""
    st.session_state["sql_text"] = query
    st.session_state["sql_clicked"] = True


def _keep(ctx: Context, text: str) -> None:
    st.session_state["sql_kept"] = text
    if len(text) <= _LINK_LETTERS:
        st.query_params["sql"] = text
    else:
        st.query_params.pop("sql", None)
        st.text(ctx.say("sql.link_long"))


def _tell(ctx: Context, place: st.delta_generator.DeltaGenerator, query: Asking) -> None:
    """How long it has been; that this draws is also what lets the visitor stop it."""
    key = "sql.working" if query.process else "sql.waiting"
    place.text(ctx.say(key, {"seconds": f"{query.seconds:.0f}"}))


# What a query answered: a table, downloads, and the moment of a chosen row. Or why not, and where.
SHOWN = 10_000  # rows a browser is given
_SAFE = 2**53  # larger whole numbers lose digits in a browser; they are shown as text


def show_answer(ctx: Context, query: str, outcome: Answered | Refused) -> None:
    """The answer, or one sentence."""
    if isinstance(outcome, Refused):
        _refused(ctx, query, outcome)
        return
    count = len(outcome.rows)
    if not outcome.columns or not count:
        st.text(ctx.say("sql.none"))
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        st.text(ctx.say("sql.took", {"n": f"{count:,}" if count > 1 else count, "seconds": f"{outcome.seconds:.2f}"}))
        st.download_button(ctx.say("sql.csv"), lambda: as_csv(outcome), "answer.csv", "text/csv", key="sql_csv",
                           help=ctx.say("sql.csv_help"), on_click="ignore")  # fmt: skip
        st.download_button(ctx.say("sql.json"), lambda: as_json(outcome), "answer.json", "application/json",
                           key="sql_json", on_click="ignore")  # fmt: skip
    if outcome.cut:
        st.text("◐ " + ctx.say("sql.cut", {"n": f"{count:,}"}))
    if count > SHOWN:
        st.text(ctx.say("sql.shown", {"shown": f"{SHOWN:,}", "n": f"{count:,}"}))
    if outcome.shortened:
        st.text(ctx.say("sql.shortened", {"n": outcome.shortened, "most": f"{ask_process.MOST_LETTERS:,}"}))
    timed = _timed(outcome.columns)
    event = st.dataframe(
        frame(outcome.columns, outcome.rows[:SHOWN]), hide_index=True, key=f"sql_answer_{hash(query)}",
        alt=ctx.say("sql.answer"), on_select="rerun" if timed else "ignore", selection_mode="single-row",
    )  # fmt: skip
    if timed and not isinstance(event, DeltaGenerator):
        _moment(ctx, outcome, event.selection.rows)


def limits(ctx: Context) -> str:
    """What a query may use, in a sentence."""
    return ctx.say("sql.limits", {"rows": f"{MAX_ROWS:,}", "shown": f"{SHOWN:,}", "seconds": LIMITS.cpu_s})


def _refused(ctx: Context, query: str, why: Refused) -> None:
    """One sentence, and the line it points at."""
    key = f"sql.error_{why.kind}"
    message = ctx.say(key) if i18n.known(key) else wording.plain(why.message)
    with st.container(border=True, key="sql_refused"):
        if why.line is None or why.column is None:
            st.text(message)
            return
        st.text(ctx.say("sql.error_at", {"line": why.line, "column": why.column, "message": message}))
        lines = query.splitlines()
        if 0 < why.line <= len(lines):
            start = max(0, why.column - 61)
            shown = wording.plain(lines[why.line - 1][start : start + 120])
            st.code(shown + "\n" + " " * (why.column - 1 - start) + "^", language=None)


def frame(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> pd.DataFrame:
    """The rows with exact whole numbers, columns told apart where two are called the same, texts harmless."""
    names: list[str] = []
    for name in columns:
        plain, again = cells.cell(name) or " ", 2
        while plain in names:
            plain, again = f"{cells.cell(name)} ({again})", again + 1
        names.append(plain)
    made = {name: _column([row[place] for row in rows]) for place, name in enumerate(names)}
    return cells.safe(pd.DataFrame(made, columns=names))


def _column(values: list[Any]) -> Any:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(value is None or abs(value) <= _SAFE for value in values):
        return pd.array(values, dtype="Int64")
    if kinds == {bool}:
        return pd.array(values, dtype="boolean")
    if kinds and kinds <= {int, float} and float in kinds:
        return pd.array([None if value is None else float(value) for value in values], dtype="Float64")
    return pd.array([None if value is None else _text(value) for value in values], dtype="object")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def as_csv(answer: Answered) -> str:
    """Cells that a spreadsheet would run get a quote before them."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([harmless(name) for name in answer.columns])
    writer.writerows([harmless(cell) for cell in row] for row in answer.rows)
    return text.getvalue()


def as_json(answer: Answered) -> str:
    """The keys of `npulens sql --json`, and whether rows are missing."""
    said = {"columns": list(answer.columns), "rows": answer.rows, "cut": answer.cut}
    return json.dumps(said, ensure_ascii=False)


def _timed(columns: Sequence[str]) -> bool:
    """Whether a row of the answer can be found on the timeline."""
    return "span_id" in columns or ("rank" in columns and ("ts_ns" in columns or "start_ns" in columns))


def _moment(ctx: Context, answer: Answered, chosen: Sequence[int]) -> None:
    if not chosen or chosen[0] >= len(answer.rows):
        st.caption(ctx.say("sql.row"))
        return
    row = dict(zip(answer.columns, answer.rows[chosen[0]], strict=True))
    span = _whole(row.get("span_id"))
    found = context.measured(ctx, sql_answers.moment, span) if span is not None else None
    rank, start = _whole(row.get("rank")), _whole(row.get("ts_ns", row.get("start_ns")))
    if found is None and rank is not None and start is not None:
        found, span = sql_answers.Moment(rank, start, max(0, _whole(row.get("dur_ns")) or 0)), None
    if found is None:
        st.text(ctx.say("sql.row_lost", {"row": chosen[0] + 1}))
        return
    st.text(ctx.say("sql.row_moment", {
        "row": chosen[0] + 1, "rank": found.rank, "start": i18n.exact(found.ts_ns),
        "length": i18n.duration(found.dur_ns),
    }))  # fmt: skip
    link.to_timeline(ctx, "shell.on_timeline", found.ts_ns, found.dur_ns, found.rank, span, key="sql")


def _whole(value: Any) -> int | None:
    fits = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62
    return value if fits else None
