"""The file of a night: what it means, and mistakes in one sentence with line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from npulens.app.nightly import config, steps
from npulens.ingest.errors import IngestError

GOOD = """
[night]
name = "910b"
rounds = 4

[[watch]]
name = "llama"
path = "captures"

[[job]]
name = "train"
command = ["python", "train.py"]
base = { commit = "release" }

[[workload]]
run = "conv_bn_relu"
rounds = 2
"""


def read(tmp_path: Path, text: str) -> config.Config:
    (tmp_path / "nightly.toml").write_text(text)
    return config.read(tmp_path / "nightly.toml")


def wrong(tmp_path: Path, text: str) -> str:
    with pytest.raises(IngestError) as caught:
        read(tmp_path, text)
    assert caught.value.kind == "nightly_config"
    assert "\n" not in str(caught.value)
    return caught.value.message


def test_a_file_says_what_to_do(tmp_path: Path) -> None:
    found = read(tmp_path, GOOD)
    assert [task.title for task in found.tasks] == ["llama", "conv_bn_relu", "train"]
    assert found.job[0].base == config.Side(commit="release") and found.job[0].head == config.Side()
    assert found.night.budget == "8h" and config.seconds(found.night.budget) == 28800


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[night]\nname = 'x'\nbudjet = '1h'\n", ("line 3", "night", "budjet", "mean `budget`")),
        ("[night]\nrounds = 'ten'\n[[job]]\nname='a'\ncommand=['b']\n", ("line 2", "night.rounds", "int")),
        ("[[job]]\nname = 'a'\ncommand = ['x']\n\n[[job]]\nname = 'b'\ncommand = 'x'\n", ("line 7", "job[1].command")),
        ("[[job]]\nname = 'a'\ncommand = ['x']\n[[job]]\nname = 'a'\ncommand = ['y']\n", ("line 5", "two tasks")),
        ("[[job]]\nname = 'a'\ncommand = ['x']\ntimeout = 'soon'\n", ("line 4", "job[0].timeout", "90s, 30m or 8h")),
        ("[[job]]\nname = 'a'\ncommand = []\n", ("line 3", "job[0].command", "empty")),
        ("[[job]]\nname = 'a'\ncommand = ['x']\nbase = {}\n", ("line 4", "the same")),
        ("[[job]]\ncommand = ['x']\n", ("line 1", "job[0]", "name")),
        ("[night]\nname = '../../etc'\n[[job]]\nname='a'\ncommand=['b']\n", ("line 2", "night.name", "no name")),
        ("[[job]]\nname = 'a/b'\ncommand = ['x']\n", ("line 2", "no name")),
        ("[night]\nrounds = 0\n[[job]]\nname='a'\ncommand=['b']\n", ("line 2", "between 1 and 1000")),
        ("[night]\nbudget = '0s'\n[[job]]\nname='a'\ncommand=['b']\n", ("line 2", "longer than nothing")),
        ("[night]\nname = 'x'\n", ("nothing to do", "[[job]]")),
        ("[night\n", ("no TOML", "line 1")),
        ("[[job]]\nname = 'a'\ncommand = ['x']\n[job.base]\npyhton = 'x'\n", ("line 5", "pyhton", "mean `python`")),
        ("[[jobs]]\nname = 'a'\ncommand = ['x']\n", ("line 1", "mean `job`")),
        ("[notify]\nurl = ['x']\n[[job]]\nname='a'\ncommand=['b']\n", ("line 2", "mean `urls`")),
    ],
)
def test_a_mistake_is_one_sentence_with_its_line_and_key(tmp_path: Path, text: str, said: tuple[str, ...]) -> None:
    message = wrong(tmp_path, text)
    for word in said:
        assert word in message


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(IngestError, match="cannot read"):
        config.read(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(IngestError, match="no UTF-8"):
        config.read(tmp_path / "bytes.toml")


def test_the_steps_go_round_by_round_and_both_sides_in_each(tmp_path: Path) -> None:
    found = [step.name for step in steps.planned(read(tmp_path, GOOD), "2026-03-01")]
    assert found == [
        "llama/000/head", "conv_bn_relu/000/head", "train/000/head", "train/000/base",
        "conv_bn_relu/001/head", "train/001/base", "train/001/head",
        "train/002/base", "train/002/head", "train/003/base", "train/003/head",
    ]  # fmt: skip


def test_a_coin_says_which_side_comes_first(tmp_path: Path) -> None:
    """The same coins when the night is gone on with, others the next night, and about as many of both."""
    asked = read(tmp_path, GOOD.replace("rounds = 4", "rounds = 1000"))

    def base_first(night: str) -> list[bool]:
        names = [step.name for step in steps.planned(asked, night) if step.name.startswith("train/")]
        return [name.endswith("base") for name in names[::2]]

    assert base_first("2026-03-01") == base_first("2026-03-01") != base_first("2026-03-02")
    assert 420 <= sum(base_first("2026-03-01")) <= 580, "5 deviations of 1,000 fair coins"


def test_each_look_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    found = [step.name for step in steps.more(read(tmp_path, GOOD), {"train"}, (1, 2), "2026-03-01")]
    assert found[0].startswith("train/004/") and found[-1].startswith("train/007/") and len(set(found)) == 8
    third = [step.name for step in steps.more(read(tmp_path, GOOD), {"train"}, (2, 4), "2026-03-01")]
    assert third[0].startswith("train/008/") and third[-1].startswith("train/015/") and len(set(third)) == 16


def test_one_task_with_other_sides_is_a_night_of_its_own(tmp_path: Path) -> None:
    found = config.alone(read(tmp_path, GOOD), "train", ["commit=a1", "MODE=2"], ["python=/opt/x"])
    assert [task.title for task in found.tasks] == ["train"] and found.night.name == "910b only train"
    assert found.job[0].base == config.Side("", "a1", {"MODE": "2"}) and found.job[0].head == config.Side("/opt/x")
    with pytest.raises(IngestError, match="no task 'x'; there are llama, conv_bn_relu, train"):
        config.alone(read(tmp_path, GOOD), "x", [], [])
    with pytest.raises(IngestError, match="no NAME=VALUE"):
        config.alone(read(tmp_path, GOOD), "train", ["commit"], [])
    with pytest.raises(IngestError, match="watched folder"):
        config.alone(read(tmp_path, GOOD), "llama", ["a=b"], [])
