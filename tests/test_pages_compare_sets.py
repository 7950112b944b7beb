"""The Compare page with several runs, ranks or steps a side: as `npulens compare` answers, and kept by the address."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner
from streamlit.testing.v1 import AppTest
from test_compare_command import capture
from test_pages_data import LANGUAGES, opened, table, texts

from npulens import ingest
from npulens.app.cli import main
from npulens.app.text.number_lists import NoNumbers, numbers

SAMPLES = Path(ingest.__file__).resolve().parents[1] / "sample_traces"
DRIFT = (0, 11, -8, 5)  # us a step, of one capture against another of the same job


def whole_ns(text: object) -> int:
    """As the exact table writes it: digits in threes, and a minus sign of its own."""
    return int(str(text).replace(",", "").replace("−", "-"))


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[str]]:
    """Four captures of one job, and four of it 60 us a step longer."""
    folder, ids = tmp_path_factory.mktemp("sets"), dict[str, list[str]]()
    for name, more in (("before", 0), ("after", 60)):
        for number, drift in enumerate(DRIFT):
            file = capture(folder / f"{name}{number}.json", [1000 + more + drift + step % 3 for step in range(8)])
            run = ingest.load(file, folder / "store", label=f"{name} {number}").runs[0]
            ids.setdefault(name, []).append(str(run.run_id))
    return folder / "store", ids["before"], ids["after"]


def shown(sets: tuple[Path, list[str], list[str]], monkeypatch: pytest.MonkeyPatch, lang: str = "en",
          more: Mapping[str, str] | None = None) -> AppTest:  # fmt: skip
    monkeypatch.setenv("NPULENS_STORE", str(sets[0]))
    return opened("compare", lang, {"base": ",".join(sets[1]), "head": ",".join(sets[2]), **(more or {})})


def by_command(store: Path, *args: str) -> dict[str, object]:
    done = CliRunner().invoke(main, ["compare", *args, "--json", "--store", str(store)])
    assert done.exit_code == 0, done.output
    found: dict[str, object] = json.loads(done.output)
    return found


@pytest.mark.parametrize("lang", LANGUAGES)
def test_sets_are_judged_as_the_command_judges_them(
    lang: str, sets: tuple[Path, list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = shown(sets, monkeypatch, lang)
    found = by_command(sets[0], ",".join(sets[1]), ",".join(sets[2]))
    assert (found["method"], found["n"], found["delta_ns"]) == ("sets", 4, 60_000)
    said = texts(page)
    assert {"en": "Captures of each side taken as independent", "zh": "两侧的采集视为相互独立"}[lang] in said
    scope = {"en": "before 0 and 3 more: 4 runs, 32 windows of rank 0", "zh": "before 0 及另外 3 次采集：4 次采集"}
    assert scope[lang] in said
    assert {"en": "the findings of the first run: before 0", "zh": "只列出第一次采集的发现：before 0"}[lang] in said
    assert table(page, "change")[-1] == "60,000", "the mean step of all windows, ns"
    assert sum(map(whole_ns, table(page, "change")[:-1])) == 60_000
    assert table(page, "own_change") == [60.0]
    assert table(page, "interval") == [None], "four captures a side are too few for one"
    assert page.query_params["base"].split(",") == sets[1] and page.query_params["head"].split(",") == sets[2]


def test_what_is_chosen_stands_in_the_address(
    sets: tuple[Path, list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = shown(sets, monkeypatch, more={"base": sets[1][0], "head": sets[2][0]})
    assert "normal run-to-run variation cannot be ruled out" in texts(page)
    assert str(table(page, "interval")[0]).startswith("[+"), "eight steps a side are enough for one of these captures"
    page.multiselect[0].set_value(sets[1][1:3]).run()
    page.multiselect[1].set_value([sets[2][3], sets[2][0]]).run()
    assert page.query_params["base"] == ",".join(sets[1][1:3])
    assert page.query_params["head"] == f"{sets[2][3]},{sets[2][0]}", "in the order they were chosen"
    page.button(key="compare_swap").click().run()
    assert page.query_params["head"] == ",".join(sets[1][1:3]) and page.multiselect[1].value == sets[1][1:3]
    page.multiselect[0].set_value([]).run()
    assert not page.exception and "Choose at least one on each side." in texts(page)


def test_runs_recorded_next_to_each_other_are_pairs(
    sets: tuple[Path, list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = shown(sets, monkeypatch)
    page.toggle(key="compare_turns").set_value(True).run()
    assert "4 pairs of captures recorded in turns" in texts(page) and page.query_params["turns"] == "1"
    assert "4 pairs of captures" in texts(shown(sets, monkeypatch, more={"turns": "1"}))


def test_a_run_on_both_sides_is_spoken_of(
    sets: tuple[Path, list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = shown(sets, monkeypatch, more={"head": ",".join([*sets[2], sets[1][0]])})
    assert "A run stands on both sides" in texts(page)


def test_steps_of_either_side_are_chosen_as_the_command_takes_them(
    sets: tuple[Path, list[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = shown(sets, monkeypatch, more={"base": sets[1][0], "head": sets[2][0], "base_steps": "0-3",
                                          "head_steps": "4,5"})  # fmt: skip
    found = by_command(sets[0], sets[1][0], sets[2][0], "--steps", "0-3:4,5")
    assert "before 0: 4 windows, steps 0–3 of rank 0" in texts(page) and "after 0: 2 windows, steps 4–5" in texts(page)
    assert whole_ns(table(page, "change")[-1]) == found["delta_ns"]
    page.button(key="compare_swap").click().run()
    assert (page.query_params["base_steps"], page.query_params["head_steps"]) == ("4,5", "0-3")
    page.text_input(key="compare_base_steps_1_en").set_value("first").run()
    assert "first is no list of numbers" in texts(page)
    page.text_input(key="compare_base_steps_1_en").set_value("77").run()
    assert "It has no such rank or step" in texts(page)
    page.text_input(key="compare_base_steps_1_en").set_value("").run()
    assert "base_steps" not in page.query_params and "after 0: 8 windows" in texts(page)


@pytest.mark.parametrize("lang", LANGUAGES)
def test_sets_of_ranks_and_of_steps(lang: str, store_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = str(ingest.load(SAMPLES / "late_rank" / "capture", store_dir).runs[0].run_id)
    monkeypatch.setenv("NPULENS_STORE", str(store_dir))
    page = opened("compare", lang, {"by": "ranks", "base": "2,0", "head": "2"})
    assert "rank 0, 2" in texts(page)
    found = by_command(store_dir, run, run, "--ranks", "0,2:2")
    assert found["method"] == "ranks"
    assert whole_ns(table(page, "change")[-1]) == found["delta_ns"]
    page = opened("compare", lang, {"by": "steps"})
    page.multiselect[0].set_value([10, 11]).run()
    page.multiselect[1].set_value([11]).run()
    assert page.query_params["base"] == "10,11" and "step 10–11" in texts(page)
    found = by_command(store_dir, run, run, "--steps", "10-11:11")
    assert whole_ns(table(page, "change")[-1]) == found["delta_ns"]


def test_lists_of_numbers() -> None:
    assert numbers("0-2, 7,1") == (0, 1, 2, 7) and numbers("3") == (3,)
    for wrong in ("", "a", "1-", "-1", "1--2", "0-9999999", "9" * 60, "1;2"):
        with pytest.raises(NoNumbers):
            numbers(wrong)
    with pytest.raises(NoNumbers):
        numbers("0-60,100-160", most=100)
