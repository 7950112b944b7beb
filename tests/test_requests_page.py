"""The page of requests: without requests, with those of a planted run, and from a percentile down to an iteration."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.analysis.serving import look
from npulens.analysis.serving.parts import KEPT, parts
from npulens.app import run_open
from npulens.app.pages.requests import charts
from npulens.app.text import i18n
from npulens.collectors.serving.engine import Asked, Setup, run
from npulens.collectors.serving.plants import PLANTS, plan
from npulens.collectors.serving.writers import write
from npulens.ingest.store import runs as stores
from tests.serving.rows import connection

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run with long prompts, written as files and loaded."""
    draw = random.Random(4)
    faulty, _ = PLANTS["prefill_interference"](draw, plan(draw, 60))
    place = tmp_path_factory.mktemp("serving")
    write(run(list(faulty.asked), faulty.setup, 4), place / "run")
    (found,) = ingest.load(place / "run", place / "store").runs
    return place / "store", found.run_id


def page() -> None:
    from npulens.app import context
    from npulens.app.pages.requests import page

    page.render(context.current())


def shown(monkeypatch: pytest.MonkeyPatch, store: Path, run_id: str, lang: str) -> AppTest:
    monkeypatch.setenv("NPULENS_STORE", str(store))
    found = AppTest.from_function(page, default_timeout=60)
    found.query_params["lang"], found.query_params["run"] = lang, run_id
    found.run()
    assert not found.exception, found.exception[0].value
    return found


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_from_a_percentile_to_a_request_and_its_parts(
    monkeypatch: pytest.MonkeyPatch, loaded: tuple[Path, str], lang: str
) -> None:
    found = shown(monkeypatch, *loaded, lang)
    titles = [one.value for one in found.subheader]
    assert [one.value for one in found.header] == [i18n.say(lang, "requests.question")] and len(titles) == 5
    slowest = str(found.dataframe[0].value["id"].iloc[0])
    assert slowest in titles[2]
    parts = found.dataframe[1].value
    assert len(parts) >= 4 and i18n.say(lang, "requests.kind_own_prefill") in set(parts["kind"])
    assert parts["dur_ns"].is_monotonic_decreasing
    assert titles[4] == i18n.say(lang, "requests.inside_iteration", {"place": int(parts["iteration"].iloc[0])})
    assert any(one.value.endswith(("decoders", "个解码请求")) for one in found.text)


def test_a_moment_is_of_the_request_that_it_names_or_of_the_one_that_it_takes_most_of(loaded: tuple[Path, str]) -> None:
    con = stores.open_run(*loaded)
    try:
        every = parts(con).requests
        named = every[7]
        assert named.begin_ns is not None and named.done_ns is not None
        found = look.at(con, named.begin_ns, 1, named.id)
        assert found is not None and (found.begin_ns, found.end_ns) == (named.begin_ns, named.done_ns)
        middle = (named.begin_ns + named.done_ns) // 2
        open_ = [one for one in every if (one.begin_ns or 0) <= middle < (one.done_ns or 0)]
        shortest = min(open_, key=lambda one: (one.done_ns or 0) - (one.begin_ns or 0))
        found = look.at(con, middle, 1, "no such request")
        assert found is not None and (found.begin_ns, found.end_ns) == (shortest.begin_ns, shortest.done_ns)
        assert look.at(con, max(one.done_ns or 0 for one in every) + 1, 5, named.id) is None
    finally:
        con.close()


def test_pieces_of_the_drawn_request_are_its_whole_time(loaded: tuple[Path, str]) -> None:
    con = stores.open_run(*loaded)
    try:
        found = look.look(con)
        assert found is not None and found.count == found.counted == 60
        key = int(look.near(found.rows, "ttft", 99)["key"].iloc[0])
        around = look.around(con, key)
    finally:
        con.close()
    assert around is not None
    mine = around.pieces[around.pieces["request"] == key]
    assert int(mine["dur_ns"].sum()) == around.end_ns - around.begin_ns
    whole = int(found.rows.set_index("key").loc[key, "whole_ns"])
    assert whole == around.end_ns - around.begin_ns
    figure = charts.axis(around, lambda text, values: i18n.say("en", text, values), "#000000")
    assert {"waiting", "running", "decode", "own prefill"} <= {str(trace.name) for trace in figure.data}


def test_an_iteration_is_opened_down_to_its_kernels() -> None:
    """Kernels that begin before it or end behind it count with what lies within; two at once are busy time once."""
    with connection(run([Asked("r", 0, 64, 8)], Setup(), 1)) as con:
        ts, dur = con.execute("SELECT ts_ns, dur_ns FROM iteration WHERE iteration = 3").fetchall()[0]
        spans = [("early", ts - 500, 1500), ("mul", ts + 2000, 100), ("mul", ts + 2050, 100),
                 ("late", ts + dur - 10, 90), ("next", ts + dur, 50)]  # fmt: skip
        for number, (name, at, ns) in enumerate(spans):
            con.execute(
                "INSERT INTO span BY NAME SELECT ? AS span_id, 0 AS rank, 0 AS track, 'kernel' AS kind, ? AS name, "
                "? AS ts_ns, ? AS dur_ns, 0 AS depth", [900 + number, name, at, ns],
            )  # fmt: skip
        found = look.inside(con, ts + 5, 5, 3, 0)
        gap = look.inside(con, ts + dur, 20, None, 0)
        bare = look.inside(con, ts, dur, 3, -1)
    assert (found.begin_ns, found.dur_ns, found.kind) == (ts, dur, "decode")
    rows = found.kernels[["name", "count", "dur_ns", "longest_ns"]].to_records(index=False).tolist()
    assert rows == [("early", 1, 1000, 1000), ("mul", 2, 200, 100), ("late", 1, 10, 10)]
    assert found.busy_ns == 1000 + 150 + 10
    assert (gap.kind, gap.kernels["name"].tolist(), gap.busy_ns) == (None, ["late", "next"], 20)
    assert not len(bare.kernels) and bare.busy_ns == 0


def test_a_slow_iteration_is_put_beside_those_with_as_many_tokens() -> None:
    """Of 500 prompt tokens six others have 450 to 550; one of its size decodes only, and one is far smaller."""
    with connection(run([Asked("r", 0, 64, 2)], Setup(), 1)) as con:
        con.execute("DELETE FROM iteration")
        rows = [(0, "mixed", 500, 3, 900), *((1 + at, "mixed", 450 + 20 * at, 3, 100 + at) for at in range(6)),
                (7, "decode", 0, 500, 5000), (8, "mixed", 440, 3, 7000), (9, "decode", 0, 3, 10)]  # fmt: skip
        for key, kind, tokens, decoders, ns in rows:
            con.execute(
                "INSERT INTO iteration BY NAME SELECT ? AS iteration, 'log' AS source, ? AS class, ? AS ctx_tokens, "
                "? AS gen_requests, 0 AS ts_ns, ? AS dur_ns", [key, kind, tokens, decoders, ns],
            )  # fmt: skip
        slow, alone, gap = (look.inside(con, 0, 1, key, -1) for key in (0, 9, None))
    assert (slow.alike, slow.alike_ns) == (6, 102)  # the median of 100 to 105 is 102.5; to the even one
    assert (alone.alike, alone.alike_ns) == (gap.alike, gap.alike_ns) == (0, 0)


def test_a_run_without_requests_says_what_records_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (other,) = ingest.load(ROOT / "sample_traces" / "kineto", tmp_path).runs
    found = shown(monkeypatch, tmp_path, other.run_id, "en")
    assert any("--otlp-traces-endpoint" in one.value for one in found.text)


def test_what_is_kept_of_requests_answers_as_their_iterations_do(loaded: tuple[Path, str], tmp_path: Path) -> None:
    store, run_id = tmp_path / "store", loaded[1]
    shutil.copytree(loaded[0], store)
    plain = stores.open_run(store, run_id)
    assert not run_open.keep_requests(store, run_id)  # a small run keeps nothing
    con = stores.open_run(store, run_id, kept=run_open.keep_requests(store, run_id, least=0))
    ours, theirs = parts(con), parts(plain)
    assert ours.requests == theirs.requests and con.execute(f"SELECT count(*) FROM {KEPT}").fetchall() == [(60,)]
    for name in ("whole", "ttft", "after", "excluded"):
        assert (getattr(ours, name) == getattr(theirs, name)).all()
    for one in (con, plain):
        one.close()
