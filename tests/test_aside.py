"""Questions of large runs are answered in processes beside the server: the same answers, and nothing of them stays."""

from __future__ import annotations

import gc
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from unittest.mock import patch

import duckdb
import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis import split
from npulens.analysis.kept import KEPT, TOGETHER
from npulens.analysis.look import compare, copies, kernels, launch, memory
from npulens.analysis.look.bench import bench
from npulens.analysis.look.communication import summary
from npulens.analysis.look.counters import series
from npulens.analysis.look.efficiency import rates
from npulens.analysis.look.sql_answers import column_types
from npulens.analysis.modules.measure import of_run
from npulens.analysis.run import Run
from npulens.analysis.selection import within
from npulens.analysis.selection.flame import flame
from npulens.analysis.serving.slo import USUAL
from npulens.analysis.settings import DEFAULT
from npulens.analysis.timeline.gaps import causes
from npulens.analysis.timeline.path import lane
from npulens.app import context, run_open
from npulens.app.aside import measured as asked_of
from npulens.app.aside import process as aside
from npulens.app.aside.process import Aside
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs

SAMPLE = Path(__file__).parents[1] / "sample_traces" / "cpu_train_step"


who = os.getpid  # which process answers


@pytest.fixture
def there() -> Iterator[Aside]:
    one = Aside(1)
    yield one
    one.close()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    place = tmp_path_factory.mktemp("store") / "s"
    return str(place), str(ingest.load(SAMPLE, place).runs[0].run_id)


def test_the_answers_are_those_of_the_server(there: Aside, run: tuple[str, str]) -> None:
    part = within.Part(window=(0, 10**9))
    asked = [(split.breakdown, None), (split.breakdown, part), (kernels.choices, None), (launch.launches, None),
             (runs.coverage, None), (causes, None), (lane, None)]  # fmt: skip
    for measure, which in asked:
        here = asked_of.measured(*run, which, measure, ())
        assert pickle.dumps(there.ask(run, asked_of.measured, *run, which, measure, ())) == pickle.dumps(here)
    here = asked_of.derived(*run, None, of_run)
    assert pickle.dumps(there.ask(run, asked_of.derived, *run, None, of_run)) == pickle.dumps(here)
    told = there.ask(run, asked_of.judged, *run, DEFAULT).check
    judged = asked_of.judged(*run, DEFAULT).check
    assert [vars(one) for one in told.outcomes] == [vars(one) for one in judged.outcomes]
    assert repr(told.findings) == repr(judged.findings)


def fact(run: Run) -> tuple[int, ...]:
    DERIVED.append(run.run_id)
    return run.ranks


def asking(con: duckdb.DuckDBPyConnection) -> tuple[int, ...]:
    return Run.of(con).get(fact)


DERIVED: list[str] = []


@pytest.mark.parametrize(("large", "times"), [(True, 1), (False, 2)])
def test_of_a_large_run_one_question_finds_what_another_derived(
    run: tuple[str, str], monkeypatch: pytest.MonkeyPatch, large: bool, times: int
) -> None:
    monkeypatch.setattr(run_open, "large", lambda *_: large)
    for opened in (asked_of._derived, asked_of._narrowed):
        opened.cache_clear()
    DERIVED.clear()
    assert asked_of.measured(*run, None, asking, ()) == asked_of.measured(*run, None, asking, ()) == (0,)
    part = within.Part(window=(0, 10**9))
    assert asked_of.measured(*run, part, asking, ()) == asked_of.measured(*run, part, asking, ()) == (0,)
    assert len(DERIVED) == times + 1  # a selection holds its own connection, whatever the size


def whole(answer: object) -> str:
    """Every value of an answer, as text."""
    with np.printoptions(threshold=sys.maxsize):
        return str(answer.to_csv()) if isinstance(answer, pd.DataFrame) else repr(answer)


def test_on_a_connection_that_is_held_nothing_changes_what_is_asked_next(
    run: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_open, "large", lambda *_: True)
    asked_of._derived.cache_clear()
    questions: list[tuple[Callable[..., object], tuple[object, ...]]] = [
        (flame, ("device",)), (flame, ("host",)), (split.breakdown, ()), (causes, ()), (lane, ()), (copies.copies, ()),
        (memory.pools, ()), (summary, ()), (compare.idle_by_cause, (None, None, False)), (rates, ()), (bench, ()),
        (column_types, ()), (kernels.choices, ()), (launch.launches, ()), (series, ()),
    ]  # fmt: skip
    alone = []
    for measure, given in questions:
        with run_open.opened(Path(run[0]), run[1]) as con:
            alone.append(whole(measure(con, *given)))
    asked_of.judged(*run, DEFAULT)
    for numbers in (range(len(questions)), range(len(questions) - 1, -1, -1)):
        for number in numbers:
            measure, given = questions[number]
            assert whole(asked_of.measured(*run, None, measure, given)) == alone[number], measure


def test_what_was_derived_is_found_only_while_the_run_is_held(run: tuple[str, str]) -> None:
    con = runs.open_run(Path(run[0]), run[1])
    assert Run.of(con) is not Run.of(con)
    held = Run.of(con).hold()
    assert Run.of(con) is held and Run.of(con, replace(USUAL, ttft_ns=1)) is not held
    del held
    gc.collect()
    assert Run.of(con) is not Run.of(con)
    con.close()


def test_one_thing_is_asked_of_one_process_and_another_of_another() -> None:
    two = Aside(2)
    with closing(two), ThreadPoolExecutor(4) as pool:
        slow = pool.submit(two.ask, "a", time.sleep, 1.0)
        time.sleep(0.2)
        first = two.ask("b", who)  # not behind the other
        assert not slow.done() and first != os.getpid() and two.free()
        assert two.ask("b", who) == first
        behind = two.ask("a", who)  # behind it
        assert slow.done() and behind != first


def test_a_process_is_not_as_large_as_what_started_it() -> None:
    """Here 1.2 GiB are resident, more than a process may keep; it goes on, as it holds none of that."""
    held = np.ones(1_200 << 20, np.uint8)
    with closing(Aside(1)) as one:
        assert one.ask("a", who) == one.ask("a", who)
    assert held[-1]


def test_an_error_is_the_one_that_was_raised_and_the_process_goes_on(there: Aside) -> None:
    before = there.ask("a", who)
    with pytest.raises(IngestError, match="there is no such run") as caught:
        there.ask("a", runs.open_run, Path("/nowhere"), "0" * 16)
    assert caught.value.kind == "unknown_run" and there.ask("a", who) == before


def test_a_process_that_dies_is_a_sentence_and_the_next_question_has_another(there: Aside) -> None:
    before = there.ask("a", who)
    with pytest.raises(IngestError, match="without an answer"):
        there.ask("a", os.abort)
    assert there.ask("a", who) not in (before, os.getpid())


def test_a_process_without_questions_ends_and_gives_its_memory_back(
    there: Aside, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = there.ask("a", who)
    monkeypatch.setattr(aside, "IDLE_S", 0.0)  # as if that were long ago
    monkeypatch.setattr(aside, "_SOON", 0.0)
    assert there.ask("a", who) != first
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)


def test_a_judgement_does_not_wait_for_what_pages_ask_next(
    run: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    names: list[str] = []
    judged, prepared = Event(), Event()

    def ask(_: object, function: Callable[..., object], *given: object) -> object:
        asked.append(function)
        if function is not asked_of.prepared:
            return function(*given)
        assert judged.is_set()  # it was not asked while something else was
        names.extend(given[-1])  # type: ignore[arg-type]
        if len(names) >= len(KEPT):
            prepared.set()
        return None

    monkeypatch.setattr(run_open, "large", lambda *_: True)
    monkeypatch.setattr(context, "LONG", SimpleNamespace(ask=ask, free=judged.is_set))
    assert context._subject(*run, DEFAULT).check.outcomes
    judged.set()
    assert prepared.wait(60) and asked == [asked_of.judged, *[asked_of.prepared] * len(TOGETHER)]
    assert sorted(names) == sorted(KEPT)  # each of them, and none twice


def _page(name: str) -> None:
    import importlib

    from npulens.app import context

    page = importlib.import_module(f"npulens.app.pages.{name}.page")
    page.render(context.current())


def test_pages_of_a_large_run_are_drawn_from_answers_alone(
    run: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The server opens nothing of it."""
    monkeypatch.setenv("NPULENS_STORE", run[0])
    monkeypatch.setattr(run_open, "large", lambda *_: True)
    with patch.object(runs, "open_run", side_effect=AssertionError("opened in the server")):
        for name in ("workspace", "kernels", "efficiency", "launch", "flame", "compare"):
            page = AppTest.from_function(_page, kwargs={"name": name}, default_timeout=120).run()
            assert not page.exception, (name, page.exception[0].value)
    aside.SHORT.close()
    aside.LONG.close()


def _spans_after_others_came(con: duckdb.DuckDBPyConnection) -> int:
    """So many other runs are asked about meanwhile that this one is no longer kept open."""
    asked_of._opened.cache_clear()
    asked_of._narrowed.cache_clear()
    gc.collect()
    found = con.execute("SELECT count(*) FROM span").fetchone()
    assert found is not None
    return int(found[0])


@pytest.mark.parametrize("part", [None, within.Part(window=(0, 10**18))])
def test_the_files_of_a_run_stay_open_while_it_is_asked(run: tuple[str, str], part: within.Part | None) -> None:
    expected = asked_of.measured(*run, part, _spans, ())
    assert expected > 0
    asked_of._opened.cache_clear()
    assert asked_of.measured(*run, part, _spans_after_others_came, ()) == expected


def _spans(con: duckdb.DuckDBPyConnection) -> int:
    return int(con.execute("SELECT count(*) FROM span").fetchall()[0][0])
