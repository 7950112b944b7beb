"""The engine: every detector has one outcome, one's failure is its own, and no list promises more than the step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npulens.analysis.discovery import Detector, detectors
from npulens.analysis.engine import Check, check
from npulens.analysis.finding import Words
from npulens.analysis.idle.blame import most_rank
from npulens.analysis.quality import Doubt
from npulens.analysis.say import ONCE, filled, number
from npulens.analysis.settings import DEFAULT, Settings, read_settings
from npulens.app.text import wording
from tests.tablecase import connection

#: One rank, one step of 1,000 us: a kernel of 400 us, 300 us of nothing, a kernel of 300 us. Both were launched by
#: one call, so what the first does not take, the second starts earlier.
CASE: dict[str, Any] = {
    "spans": [
        {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 50},
        {"id": 2, "kind": "runtime", "name": "launch", "at": 0, "for": 5},
        {"id": 4, "kind": "kernel", "name": "first", "at": 0, "for": 400, "by": 2, "kernel": {"op_type": "A"}},
        {"id": 5, "kind": "kernel", "name": "second", "at": 700, "for": 300, "by": 2, "kernel": {"op_type": "B"}},
    ]
}

DETECTOR = '''"""One sentence."""
import numpy as np
from npulens.analysis.finding import Candidate, Change, Evidence, Words
from npulens.analysis.limits import Limits as Base

NEEDS = ("kernels",)


class Limits(Base):
    pass


TEXT = {lang: {"found": Words("{kernel_ns} of kernel {name}", "shorten it")} for lang in ("en", "zh")}


def detect(db, run, limits):
    rows = db.execute("SELECT rank, span_id, ts_ns, dur_ns, name FROM span WHERE kind = 'kernel'").fetchall()
    for rank, span, ts, dur, name in rows:
        change = Change(tasks=np.array([span]), task_ns=np.array([dur * TIMES]))
        evidence = (Evidence(rank, ts, dur, span, name),)
        yield Candidate("slow_tail", "found", {"kernel_ns": dur, "name": name}, evidence, change)
'''


def own(folder: Path, name: str, text: str = DETECTOR.replace("TIMES", "1")) -> Settings:
    (folder / f"{name}.py").write_text(text)
    return Settings(folder=folder)


def test_a_detector_of_ones_own_is_one_file(tmp_path: Path) -> None:
    said = check(connection(CASE), only=["mine"], settings=own(tmp_path, "mine"))
    assert [(f.detector, f.saving_ns) for f in said.findings] == [("mine", 400_000), ("mine", 300_000)]
    assert said.findings[0].words["en"].title == "400 µs of kernel first"
    assert said.step_ns == 1_000_000 and said.together_ns == 700_000


def test_what_is_hidden_behind_another_limit_is_told_with_what_is_found(tmp_path: Path) -> None:
    """A kernel of 380 us ends 20 us before the first on another stream: to shorten it gives nothing back as yet."""
    beside = {"id": 6, "kind": "kernel", "name": "beside", "at": 0, "for": 380, "by": 2, "track": "s1",
              "kernel": {"op_type": "C"}}  # fmt: skip
    text = DETECTOR.replace("dur * TIMES", "dur").replace("change)\n", "change, measured_ns=dur)\n")
    said = check(connection({"spans": [*CASE["spans"], beside]}), only=["mine"], settings=own(tmp_path, "mine", text))
    assert [f.numbers["name"] for f in said.findings] == ["first", "second"]
    told = "There is more of the kind, hidden until other limits are gone: 380 µs of kernel beside."
    assert said.findings[0].words["en"].advice == f"shorten it {told}"
    assert "380 µs of kernel beside" in said.findings[0].words["zh"].advice
    assert said.findings[1].words["en"].advice == "shorten it"


def test_the_total_is_of_the_same_step_as_the_shares(tmp_path: Path) -> None:
    """700 us of 800: the start-up of 200 us is no part of either."""
    said = check(connection(CASE), only=["mine"], settings=own(tmp_path, "mine"))
    later = replace(said, steady_step_ns=800_000, whole=replace(said.whole, steady=True))
    told = wording.together(later, "en")
    assert told == "Fixing everything saves at most 700 µs of the 800 µs step without start-up (87.5 %)."
    first, *rest = later.findings
    started = replace(first, numbers={**first.numbers, "per": ONCE})
    told = wording.together(replace(later, findings=(started, *rest)), "en")
    assert told == "Fixing everything saves at most 700 µs of the 1.00 ms step (70.0 %)."


def test_a_saving_between_two_ends_is_said_with_both(tmp_path: Path) -> None:
    """400 and 300 us that the replay gives back, and up to 700 and 300 that are lost, of 1,000."""
    said = check(connection(CASE), only=["mine"], settings=own(tmp_path, "mine"))
    first, *rest = said.findings
    wide = replace(said, findings=(replace(first, saving_most_ns=700_000), *rest))
    ending = "Fixing it saves 400 µs to 700 µs of the 1.00 ms step (40.0 % to 70.0 %)."
    assert wording.answer(wide, "en").startswith(f"400 µs of kernel first. {ending}")
    assert wording.answer(wide, "zh").startswith("400 µs of kernel first。修复后每步（1.00 ms）可省 400 µs 至 700 µs")
    told = wording.together(wide, "en")
    assert told == "Fixing everything saves 700 µs to 1.00 ms of the 1.00 ms step (70.0 % to 100 %)."


@pytest.mark.parametrize(
    ("measured", "outcome", "said"),
    [
        (12_000, "clean", "12.0 µs of the step is lost to it; removing it gives back at most 9.00 µs (0.9 %), below"),
        (200_000, "masked", "removing it gives only 9.00 µs back until"),
        (500_000, "masked", "removing it gives nothing back until"),
    ],
)  # fmt: skip
def test_what_masked_time_gives_back_is_said(tmp_path: Path, measured: int, outcome: str, said: str) -> None:
    """Both kernels become 4.5 us shorter, 0.9 % of the step: three quarters, a 22nd and a 55th of what is lost."""
    text = DETECTOR.replace("dur * TIMES", "4_500").replace("change)\n", f"change, measured_ns={measured})\n")
    text = text.replace("np.array([span]), task_ns=np.array([4_500])", "np.array([4, 5]), task_ns=np.full(2, 4_500)")
    full = {"spans": [*CASE["spans"][:-1], {**CASE["spans"][-1], "at": 400, "for": 600}]}
    (told,) = check(connection(full), only=["mine"], settings=own(tmp_path, "mine", text)).outcomes
    assert told.outcome == outcome and said in told.reason


def test_time_that_was_not_seen_is_no_clean_run(tmp_path: Path) -> None:
    said = replace(check(connection(CASE), settings=own(tmp_path, "mine")), findings=())
    clean = [replace(outcome, outcome="clean") for outcome in said.outcomes]
    assert "No problem worth" in wording.answer(replace(said, outcomes=clean), "en")
    unseen = replace(said.quality, doubts=(Doubt("untold", ("for 514 ms of 516 ms", "516 ms 中有 514 ms")),))
    some = [*clean[:-1], replace(clean[-1], outcome="not_measured")]
    assert "Too little was recorded" in wording.answer(replace(said, outcomes=some, quality=unseen), "en")
    assert "No problem worth" in wording.answer(replace(said, outcomes=some), "en")


def test_no_problem_is_said_with_kernels_that_nobody_could_judge() -> None:
    """Kernels of 400 and 300 us in a step of 1,000; their shapes were not recorded."""
    said = replace(check(connection(CASE)), findings=())
    told = wording.answer(replace(said, outcomes=[
        replace(one, outcome="not_measured" if one.detector == "low_efficiency" else "clean") for one in said.outcomes
    ]), "en")  # fmt: skip
    assert "how well kernels use the device could not be judged. They take 70.0 % of that time." in told
    every = [replace(one, outcome="clean") for one in said.outcomes]
    assert "could not be judged" not in wording.answer(replace(said, outcomes=every), "en")


def test_a_small_problem_does_not_hide_kernels_that_nobody_could_judge(tmp_path: Path) -> None:
    """The same kernels beside a finding: what nobody could say of them is told with their types."""
    said = check(connection(CASE), settings=own(tmp_path, "mine"))
    assert said.findings
    every = {"low_efficiency": "not_measured", "pipe_stall": "not_measured"}
    blind = replace(said, outcomes=[replace(one, outcome=every.get(one.detector, "clean")) for one in said.outcomes])
    (told,), (chinese,) = wording.kernels(blind, "en"), wording.kernels(blind, "zh")
    assert told.endswith("They take 70.0 % of the 1.00 ms step, and how well they use the device could not be judged.")
    assert chinese.endswith("每步（1.00 ms）算子占 70.0 %，其效率无法判断。")
    counted = [replace(one, outcome="found") if one.detector == "pipe_stall" else one for one in blind.outcomes]
    for fine in (replace(said, outcomes=[replace(one, outcome="clean") for one in said.outcomes]),
                 replace(blind, findings=()), replace(blind, outcomes=counted)):  # fmt: skip
        assert "could not be judged" not in wording.kernels(fine, "en")[0]


def of_steps() -> list[Detector]:
    """Those that judge any job: this one has no requests and no stages."""
    return [detector for detector in detectors(DEFAULT) if detector.about is None]


def test_one_that_fails_takes_nobody_along(tmp_path: Path) -> None:
    own(tmp_path, "broken", DETECTOR.replace("dur * TIMES", "dur // 0"))
    said = check(connection(CASE), settings=own(tmp_path, "mine"))
    outcomes = {outcome.detector: outcome for outcome in said.outcomes}
    assert outcomes["broken"].outcome == "failed" and "ZeroDivisionError" in outcomes["broken"].reason
    assert outcomes["mine"].outcome == "found"
    assert set(outcomes) == {"mine", "broken", *(detector.name for detector in of_steps())}


def test_every_detector_ends_in_one_of_four(tmp_path: Path) -> None:
    said = check(connection(CASE))
    assert [outcome.detector for outcome in said.outcomes] == sorted(d.name for d in of_steps())
    assert not {detector.name for detector in detectors(DEFAULT)} & set(said.not_looked_for), (
        "requests are another job's"
    )
    assert {outcome.outcome for outcome in said.outcomes} <= {"found", "clean", "not_measured"}
    assert all(outcome.reason and outcome.reason_zh for outcome in said.outcomes)


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_the_list_never_promises_more_than_the_step(tmp_path: Path, copies: int) -> None:
    """The same 700 us found by several detectors: the last ones get what is left of 1,000 us, or are left out."""
    for number_ in range(copies):
        settings = own(tmp_path, f"mine{number_}")
    said = check(connection(CASE), only=[f"mine{n}" for n in range(copies)], settings=settings)
    total = sum(finding.saving_ns for finding in said.findings)
    assert total == min(700_000 * copies, 1_000_000) and total <= said.step_ns
    assert all(finding.saving_ns > 0 for finding in said.findings)
    # The replay knows that it is the same time; with five, what is left goes to the longer kernel alone.
    assert said.together_ns == (400_000 if copies == 5 else 700_000)


def test_a_switched_off_detector_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "npulens.toml").write_text('[detectors]\noff = ["gc"]\n[limits.aicpu]\nmin_share = 0.5\n')
    settings = read_settings(tmp_path / "npulens.toml")
    assert settings.limits_of("aicpu") == {"min_share": 0.5}
    assert "gc" not in {outcome.detector for outcome in check(connection(CASE), settings=settings).outcomes}


def test_a_detector_of_ones_own_is_as_it_is_written_now(tmp_path: Path) -> None:
    """Its annotations may be texts, and a change within the second and of the same length counts; nothing is left."""
    text = "from __future__ import annotations\n" + DETECTOR.replace("TIMES", "1")
    assert len(check(connection(CASE), only=["mine"], settings=own(tmp_path, "mine", text)).findings) == 2
    changed = text.replace("def detect(", "def detecX(", 1)
    with pytest.raises(ValueError, match="has no detect"):
        check(connection(CASE), only=["mine"], settings=own(tmp_path, "mine", changed))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


def test_limits_decide_what_is_found(tmp_path: Path) -> None:
    """The kernels are 40 % and 30 % of the step."""
    settings = own(tmp_path, "mine")
    for least, count in ((0.0, 2), (0.3, 2), (0.31, 1), (0.41, 0)):
        limited = Settings(limits={"mine": {"min_share": least}}, folder=settings.folder)
        assert len(check(connection(CASE), only=["mine"], settings=limited).findings) == count


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (DETECTOR.replace('NEEDS = ("kernels",)', ""), "has no NEEDS"),
        (DETECTOR.replace('("kernels",)', '("tea",)'), "NEEDS names tea"),
        (DETECTOR.replace('("en", "zh")', '("en",)'), "TEXT needs the same sentences in en and zh"),
        (DETECTOR.replace("class Limits(Base)", "class Limits"), "Limits must be a frozen dataclass"),
        (DETECTOR.replace("(Base):\n    pass", "(Base):\n    most: float = 1.0"), "Limits must be a frozen dataclass"),
    ],
)
def test_a_malformed_detector_is_told_what_it_lacks(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        check(connection(CASE), settings=own(tmp_path, "mine", text))


def test_one_of_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "their_detector.py").write_text(DETECTOR.replace("TIMES", "1"))
    info = tmp_path / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[npulens.detectors]\ntheirs = their_detector\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert said_by(check(connection(CASE), only=["theirs"])) == ["theirs", "theirs"]


def said_by(said: Check) -> list[str]:
    return [finding.detector for finding in said.findings]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("saving_ns", 1_234_567, "1.23 ms"), ("saving_ns", 999, "999 ns"), ("x_ns", 101_234_567, "101 ms"),
        ("x_ns", 2_500_000_000, "2.50 s"), ("x_share", 0.1234, "12.3 %"), ("x_share", 1.0, "100 %"),
        ("x_bytes", 1536, "1.50 KiB"), ("x_bytes_per_s", 2.5e10, "25 GB/s"), ("calls", 1234, "1,234"),
        ("ranks", [0, 1], "0, 1"), ("peer", None, "?"),
    ],
)  # fmt: skip
def test_the_ending_of_a_name_is_its_unit(name: str, value: Any, text: str) -> None:
    assert number(name, value) == text


def test_a_part_whose_number_is_not_known_is_left_out() -> None:
    words = Words("{n} kernels[[ on {shapes}]]", "see activities=[CPU, NPU]")
    assert filled(words, {"n": 2, "shapes": None}).title == "2 kernels"
    assert filled(words, {"n": 2, "shapes": "[[3]]"}).title == "2 kernels on [[3]]"
    assert filled(words, {"n": 2, "shapes": None}).advice == "see activities=[CPU, NPU]"


def test_the_rank_is_named_whose_figure_is_told_of_several() -> None:
    assert [most_rank({0: 16, 1: 17, 2: 30, 3: 30}), most_rank({0: 91, 1: 100}), most_rank({4: 5})] == [2, None, None]
    words = Words("Rank {ranks}: it idles {idle_ns} of each step ({idle_share})", "")
    numbers = {"ranks": "0-3", "idle_ns": 22_400_000, "idle_share": 0.479, "most_rank": 2}
    assert filled(words, numbers).title == "Ranks 0-3: it idles 22.4 ms of each step (47.9 %, on rank 2)"
    assert "on rank" not in filled(words, {**numbers, "most_rank": None}).title
