"""The engine: every detector has one outcome, one's failure is its own, and no list promises more than the step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from npulens.analysis.discovery import Detector, detectors
from npulens.analysis.engine import Check, check
from npulens.analysis.finding import Words
from npulens.analysis.say import filled, number
from npulens.analysis.settings import DEFAULT, Settings, read_settings
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
