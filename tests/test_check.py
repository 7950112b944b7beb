"""`npulens check` as people and scripts see it: the answer first, every outcome, exit codes, keys, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import judged
import pytest
from click.testing import CliRunner, Result

from npulens import ingest
from npulens.analysis import engine
from npulens.app.cli import main
from npulens.app.console import filled
from npulens.app.text import wording
from npulens.ingest.store import runs as stores

NAME = "evil\x1b[31m\u202ename <b>&|*_"
SAFE = "evil\ufffd[31m\ufffdname <b>&|*_"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run called night, and settings with one detector of every outcome."""
    directory = tmp_path_factory.mktemp("check")
    ingest.load(judged.capture(directory / "trace.json", NAME), directory / "store", label="night")
    judged.folder(directory)
    return directory


def run(place: Path, *words: str, config: str = "npulens.toml") -> Result:
    command = ["check", "night", "--store", str(place / "store"), "--config", str(place / config), *words]
    return CliRunner().invoke(main, command)


def answer(place: Path, *words: str) -> dict[str, Any]:
    done = run(place, *words, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_first_line_is_the_answer(place: Path) -> None:
    done = run(place)
    assert done.exit_code == 0, done.output
    first, kernels, second, *rest = done.stdout.splitlines()
    saving = "at most 40.0 µs of the 100 µs step (40.0 %)."
    assert first == f"{SAFE} runs 40.0 µs of each step. Fixing it saves {saving}"
    assert kernels == "Kernels that compute add up to 40.0 µs in each step of a rank. Most of it: matmul 100 %."
    assert second.startswith("Capture quality: ")
    text = "\n".join(rest)
    assert "Make " + SAFE in text and "(and 9 more)" in text
    for word in ("quiet", "nothing of the kind was seen", "blind", "profile_memory=True", "RuntimeError: it broke"):
        assert word in text
    assert "4 checks: 1 with problems, 1 fine, 1 not possible with this capture, 1 failed." in text


def test_chinese_is_complete(place: Path) -> None:
    text = run(place, "--lang", "zh").stdout
    assert text.splitlines()[0] == f"{SAFE} 每步耗时 40.0 µs。修复后每步（100 µs）最多可省 40.0 µs（40.0 %）。"
    assert "共 4 项检查：1 项有发现，1 项无问题，1 项无法检查，1 项出错。" in text


def test_reasons_that_quote_reading_are_chinese_in_json(tmp_path: Path) -> None:
    """A Kineto trace without counters: reading says why in English, as reading does."""
    sample = Path(__file__).resolve().parents[1] / "sample_traces" / "kineto"
    run_id = str(ingest.load(sample, tmp_path).runs[0].run_id)
    words = ["check", run_id, "--store", str(tmp_path), "--json"]
    said = {}
    for lang in ("en", "zh"):
        found = json.loads(CliRunner().invoke(main, [*words, "--lang", lang]).stdout)
        said[lang] = next(each["why"] for each in found["quality"]["missing"] if each["name"] == "kernel_counters")
    assert said == {"en": "no hardware metrics in the file", "zh": "未采集（文件中没有硬件指标）"}


def test_what_would_record_it_is_chinese_in_json(tmp_path: Path) -> None:
    sample = Path(__file__).resolve().parents[1] / "sample_traces" / "kineto"
    run_id = str(ingest.load(sample, tmp_path).runs[0].run_id)
    done = CliRunner().invoke(main, ["check", run_id, "--store", str(tmp_path), "--json", "--lang", "zh"])
    wanted = {one["detector"]: one["collect_with"] for one in json.loads(done.stdout)["outcomes"]}
    assert wanted["step_jitter"] == "schedule(active=5)，或更多步" and wanted["comm_exposed"] is None


def test_names_cannot_act_on_the_terminal(place: Path) -> None:
    assert "\x1b" not in run(place).stdout
    assert "\u202e" not in run(place).stdout


def test_json_promises_its_keys(place: Path) -> None:
    found = answer(place)
    assert {"run_id", "quality", "findings", "outcomes"} <= set(found)
    assert {"score", "missing"} <= set(found["quality"])
    assert all({"what", "why", "collect_with"} <= set(entry) for entry in found["quality"]["missing"])
    (finding,) = found["findings"]
    assert set(finding) >= {
        "detector", "cause", "severity", "title", "advice", "saving_ns", "saving_share", "confidence", "numbers",
        "evidence",
    }  # fmt: skip
    assert set(finding["evidence"][0]) == {"rank", "ts_ns", "dur_ns", "span_id", "note"}
    assert len(finding["evidence"]) == judged.STEPS and finding["evidence"][0]["dur_ns"] == judged.OPERATOR_NS
    assert {o["detector"]: o["outcome"] for o in found["outcomes"]} == {
        "longest": "found", "quiet": "clean", "blind": "not_measured", "broken": "failed",
    }  # fmt: skip
    assert all({"detector", "outcome", "reason"} <= set(outcome) for outcome in found["outcomes"])
    assert (finding["saving_ns"], found["step_ns"], finding["saving_share"]) == (40_000, 100_000, 0.4)


def test_only_asks_one_detector(place: Path) -> None:
    assert [o["detector"] for o in answer(place, "--only", "quiet")["outcomes"]] == ["quiet"]
    assert "No problem worth" in run(place, "--only", "quiet").stdout.splitlines()[0]
    assert "Nothing could be judged" in run(place, "--only", "blind").stdout.splitlines()[0]


def test_fail_on_decides_the_exit_code(place: Path) -> None:
    assert run(place, "--fail-on", "0.4").exit_code == 1
    assert run(place, "--fail-on", "0.41").exit_code == 0
    assert run(place, "--fail-on", "0.4", "--json").exit_code == 1
    assert run(place).exit_code == 0
    assert run(place, "--fail-on", "7").exit_code == 2


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[limits.nobody]\nmin_share = 1\n", "there is no detector nobody"),
        ("[limits.gc]\nmin_shar = 1\n", "limits.gc: there is no limit 'min_shar'"),
        ('[limits.gc]\nmin_share = "big"\n', "min_share must be a number"),
        ("[detectors]\nfolder = 'nowhere'\n", "there is no folder"),
        ("[detectors\n", "npulens.toml"),
        ("[other]\n", "unknown section other"),
    ],
)
def test_a_mistake_in_the_settings_is_one_line(
    place: Path, tmp_path: Path, toml: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["npulens", "check", "--json"])
    config = tmp_path / "npulens.toml"
    config.write_text(toml)
    done = run(place, "--json", config=str(config))
    assert done.exit_code == 2
    assert json.loads(done.stdout)["error"]["kind"] == "settings"
    assert says in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr


def test_a_detector_that_cannot_be_imported_is_one_line(place: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "bad.py").write_text("import no_such_module_anywhere\n")
    (tmp_path / "npulens.toml").write_text('[detectors]\nfolder = "own"\n')
    done = run(place, config=str(tmp_path / "npulens.toml"))
    assert done.exit_code == 2 and "no_such_module_anywhere" in done.stderr


def test_an_unknown_run_or_detector_is_an_error(place: Path) -> None:
    assert run(place, "--only", "nobody").exit_code == 2
    done = CliRunner().invoke(main, ["check", "nobody", "--store", str(place / "store")])
    assert done.exit_code == 2 and "no run is called 'nobody'" in done.stderr


def test_collect_prints_python_and_names_the_rank_of_the_finding(place: Path) -> None:
    code = run(place, "--collect").stdout
    compile(code, "configuration", "exec")
    assert "RANKS = {0, 3}" in code  # rank 0 was captured; the finding's late_rank is 3


def test_python_can_ask_too(place: Path) -> None:
    con = stores.open_run(place / "store", stores.resolve(place / "store", "night").run_id)
    found = engine.check(con)
    assert found.step_ns == judged.STEP_NS and found.steps == judged.STEPS
    con.close()


def test_text_is_broken_by_columns_and_keeps_every_character() -> None:
    for text, width in (("one two  three four", 9), ("修复后每步最多可省 12 ms，占步长", 10), ("a" * 30, 7), ("", 5)):
        lines = filled(text, width, "  ")
        assert "".join("".join(lines).split()) == "".join(text.split())
        assert all(line.startswith("  ") for line in lines)
    assert filled("one two three", 9, "  ") == ["  one two", "  three"]
    assert filled("修复后每步", 8, "  ") == ["  修复后", "  每步"]


def test_plain_leaves_no_character_that_acts() -> None:
    assert wording.plain("a\tb\nc\x07\u200b\u2028\ud800d") == "a b c\ufffd\ufffd\ufffd\ufffdd"
