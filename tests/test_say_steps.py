"""Sentences about each step, of jobs that marked one or none."""

from __future__ import annotations

import re

import pytest
import tablecase

from npulens.analysis import say
from npulens.analysis.engine import check, detectors
from npulens.analysis.finding import Words
from npulens.analysis.say import ONLY_STEP, RECORDED, STEP, filled, per
from npulens.analysis.settings import DEFAULT
from npulens.app.text import wording

EACH = re.compile(r"(?<!out )\b(?:of|in|times) (?:each|every|a) step\b|\beach step would\b|每步")


@pytest.mark.parametrize(
    "text, none",
    [
        ("the device idles {a} of each step (3 %), x", "the device idles {a} of the recorded time (3 %), x"),
        ("move it out of the step. Take it out of the step's way", None),
        ("8 times a step: 3 ms", "8 times in the recorded time: 3 ms"),
        ("each step would be 2 ms shorter", "the recorded time would be 2 ms shorter"),
        ("200 kernels of each step, 2 µs each, are", "200 kernels, 2 µs each, are"),
        ("设备每步空闲 3 ms", "设备在采集时段内空闲 3 ms"),
        ("每步可缩短 2 ms", "采集时段可缩短 2 ms"),
        ("在同一步手动调用", None),
    ],
)
def test_sentences(text: str, none: str | None) -> None:
    assert per(text, RECORDED) == (none or text)
    assert per(text, STEP) == text


@pytest.mark.parametrize(
    "text, only",
    [
        ("the device idles {a} of each step (3 %), x", "the device idles {a} of the step (3 %), x"),
        ("move it out of the step. Take it out of the step's way", None),
        ("8 times a step: 3 ms", "8 times in the step: 3 ms"),
        ("each step would be 2 ms shorter", "the step would be 2 ms shorter"),
        ("设备每步空闲 3 ms", "设备该步空闲 3 ms"),
    ],
)
def test_sentences_of_the_only_step(text: str, only: str | None) -> None:
    assert per(text, ONLY_STEP) == (only or text)


@pytest.mark.parametrize("what", [RECORDED, ONLY_STEP])
def test_no_detector_speaks_of_each_step_where_there_are_not_several(what: str) -> None:
    told = [
        per(text, what)
        for detector in detectors(DEFAULT) for texts in detector.text.values() for words in texts.values()
        for text in (words.title, words.advice)
    ]  # fmt: skip
    assert len(told) > 80
    assert [text for text in told if EACH.search(text)] == []


def test_numbers_are_filled_as_ever() -> None:
    words = Words("Rank {ranks}: {idle_ns} of each step", "[[{none_ns} of each step]]{count} a step.")
    said = filled(words, {"ranks": "1, 2", "idle_ns": 1_500_000, "none_ns": None, "count": 3, "per": RECORDED})
    assert said == Words("Ranks 1, 2: 1.50 ms of the recorded time", "3 in the recorded time.")


def test_what_is_said_of_a_run_without_steps_is_of_the_recorded_time() -> None:
    """A device that idles 5 of 10 ms between launches, each 1 ms late: found; everything else is small or masked."""
    spans: list[dict[str, object]] = []
    for place in range(5):
        spans += [
            {"id": 3 * place + 1, "kind": "cpu_op", "name": "aten::copy_", "at": 2000 * place, "for": 1000},
            {"id": 3 * place + 2, "kind": "runtime", "name": "launch", "at": 2000 * place + 980, "for": 10},
            {"id": 3 * place + 3, "kind": "kernel", "name": "k", "at": 2000 * place + 1000, "for": 1000,
             "by": 3 * place + 2},
        ]  # fmt: skip
    found = check(tablecase.connection({"spans": spans}))
    assert found.findings and not found.whole.stepped
    for lang, wrong in (("en", re.compile(r"\b(?:of|in) (?:the|each|every|a)(?: [\d.]+ \w+)? step\b")), ("zh", EACH)):
        said = [wording.answer(found, lang), *(wording.reason(one, lang) for one in found.outcomes),
                *(wording.gives_back(one, lang, found.whole) for one in found.findings)]  # fmt: skip
        assert [text for text in said if wrong.search(text) and "not recorded" not in text] == []
        assert len(said) > 10


@pytest.mark.parametrize(
    "code, device, said",
    [
        ("f", "npu", "Idle. Move f, or put it on the device. Bind the process."),
        ("f", "cpu", "Idle. Move f. Bind the process."),
        (None, "npu", "Idle. Bind the process."),
    ],
)
def test_a_part_of_a_sentence_may_hold_another(code: str | None, device: str, said: str) -> None:
    text = "Idle. [[Move {code}[[npu: , or put it on the device]]. ]]Bind the process."
    assert filled(Words(text, ""), {"code": code, "device": device}).title == said


@pytest.mark.parametrize(("value", "told"), [
    (0.1234, "12.3 %"), (0.9958, "99.6 %"), (0.9994, "99.9 %"), (0.9996, "100 %"), (1.0, "100 %"), (2.151, "215 %"),
])  # fmt: skip
def test_less_than_all_is_not_said_to_be_all(value: float, told: str) -> None:
    assert say.share(value) == told
