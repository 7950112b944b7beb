"""Figures of requests on the pages Compare and History: what is shown of two builds under one load."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from npulens import ingest
from npulens.app import histories
from npulens.app.text import i18n
from npulens.collectors.serving.engine import run
from npulens.collectors.serving.plants import plan
from npulens.collectors.serving.writers import write
from npulens.ingest.store import history, runs


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build, and one whose decoders take 2.5 times as long, under one name."""
    place = tmp_path_factory.mktemp("serving")
    clean = plan(random.Random(12), 80)
    slow = replace(clean, setup=replace(clean.setup, decoder_ns=2.5 * clean.setup.decoder_ns))
    for name, of, seed in (("a", clean, 1), ("b", slow, 3)):
        write(run(list(of.asked), of.setup, seed), place / name / "serve")
        ingest.load(place / name / "serve", place / "store")
    return place / "store"


def by_hand(store: Path, name: str) -> dict[str, float]:
    """Percentiles of what a client saw: its first token, and the mean of the others until it had all."""
    con = runs.open_run(store, runs.resolve(store, name).run_id)
    rows = con.execute(
        "SELECT client_first_ts_ns - send_ts_ns, (client_end_ts_ns - client_first_ts_ns) / (output_tokens - 1) "
        "FROM request"
    ).fetchall()
    ttft, tpot = (np.array([row[at] for row in rows], float) for at in (0, 1))
    good = 100 * float(np.mean((ttft <= 200e6) & (tpot <= 25e6)))
    return {
        f"{measure}_p{percent}_ns": float(np.percentile(values, percent))
        for measure, values in (("ttft", ttft), ("tpot", tpot)) for percent in (50, 90, 99)
    } | {"goodput": good}  # fmt: skip


def test_the_history_has_a_series_a_percentile(store: Path) -> None:
    histories.catch_up(store)
    found = {each.metric: each for each in histories.judged(store)}
    expected = [by_hand(store, name) for name in ("serve", "serve (2)")]
    assert set(found) >= set(expected[0])
    for name in expected[0]:
        values = {point.run_id: point.value for point in found[name].points}
        for label, wanted in zip(("serve", "serve (2)"), expected, strict=True):
            assert values[runs.resolve(store, label).run_id] == pytest.approx(wanted[name], rel=1e-6), name
    assert found["goodput"].better == "higher" and found["ttft_p99_ns"].better == "lower"
    assert found["ttft_p99_ns"].identity.workload == "serve"


def test_what_people_say_of_a_night_stays_when_the_history_is_read_again(store: Path) -> None:
    histories.catch_up(store)
    first = next(each for each in histories.judged(store) if each.metric == "goodput")
    source = first.points[0].source
    history.set_usable(store, first.identity.key, source, False, "a test")
    histories.catch_up(store)
    again = next(each for each in histories.judged(store) if each.metric == "goodput")
    assert [point.usable for point in again.points if point.source == source] == [False]
    history.set_usable(store, first.identity.key, source, True)


def compare() -> None:
    from npulens.app import context
    from npulens.app.pages.compare import page

    page.render(context.current())


def shown(monkeypatch: pytest.MonkeyPatch, store: Path, lang: str, more: dict[str, str]) -> AppTest:
    monkeypatch.setenv("NPULENS_STORE", str(store))
    base, head = (runs.resolve(store, name).run_id for name in ("serve", "serve (2)"))
    found = AppTest.from_function(compare, default_timeout=120)
    for name, value in ({"lang": lang, "run": head, "by": "runs", "base": base, "head": head} | more).items():
        found.query_params[name] = value
    found.run()
    assert not found.exception, found.exception[0].value
    return found


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_compare_shows_each_figure_and_what_its_change_is_made_of(
    monkeypatch: pytest.MonkeyPatch, store: Path, lang: str
) -> None:
    found = shown(monkeypatch, store, lang, {})
    assert i18n.say(lang, "requests_compared.title") in [one.value for one in found.subheader]
    assert any(one.value == i18n.say(lang, "requests_compared.same_requests") for one in found.text)
    assert not any(one.value == i18n.say(lang, "compare.no_time") for one in found.text)
    figures = found.dataframe[0].value.set_index("figure")
    assert list(figures.index) == [
        "TTFT P50", "TTFT P90", "TTFT P99", "TPOT P50", "TPOT P90", "TPOT P99",
        i18n.say(lang, "requests_compared.goodput"),
    ]  # fmt: skip
    assert figures.loc["TPOT P50", "verdict"] == i18n.say(lang, "verdict.regressed")
    assert figures.loc["TPOT P50", "change"].startswith("▲ ")
    assert i18n.say(lang, "serving.kind_longer_batch") in figures.loc["TPOT P50", "made"]
    assert not any(str(cell).startswith(("'", "=", "+", "-")) for cell in figures.to_numpy().ravel())


def test_only_some_ranks_have_no_requests(monkeypatch: pytest.MonkeyPatch, store: Path) -> None:
    found = shown(monkeypatch, store, "en", {"base_ranks": "0", "head_ranks": "0"})
    assert any(one.value == i18n.say("en", "compare.no_time") for one in found.text)
