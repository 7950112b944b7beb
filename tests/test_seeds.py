"""The figures of docs/seeds.md are what is computed now, and the pitfalls it lists cannot be fallen into with ours."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from npulens.collectors.recorder import Recorder, recording
from npulens.collectors.settings import Settings
from tests import seeds

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def test_the_page_has_the_figures_that_are_computed() -> None:
    page = seeds.PAGE.read_text("utf-8")
    shown = dict(seeds.FIGURE.findall(page))
    assert set(shown) == {*seeds.FIGURES, *seeds.WITH_TORCH}
    assert {name: shown[name] for name in seeds.FIGURES} == {name: made() for name, made in seeds.FIGURES.items()}


def test_every_part_of_the_articles_has_a_row_and_every_command_of_the_page_is_there() -> None:
    page = seeds.PAGE.read_text("utf-8")
    assert seeds.lacking(page) == []
    worse = page.replace("`FusionAutoTuner`", "") + "`npulens tune`, `python -m tests.nothing`, `make nothing`"
    told = " ".join(seeds.lacking(worse))
    assert all(each in told for each in ("FusionAutoTuner", "npulens tune", "tests.nothing", "make nothing"))
    assert len(seeds.lacking(worse)) == 4


@pytest.mark.torch
@needs_torch
def test_the_page_has_the_figures_that_torch_computes() -> None:
    shown = dict(seeds.FIGURE.findall(seeds.PAGE.read_text("utf-8")))
    assert {name: shown[name] for name in seeds.WITH_TORCH} == {name: made() for name, made in seeds.WITH_TORCH.items()}


def test_a_figure_that_is_wrong_in_the_page_is_put_right() -> None:
    assert seeds.written("a <!-- latency -->36.1 %<!-- / --> b") == "a <!-- latency -->-35.9 %<!-- / --> b"
    with pytest.raises(SystemExit, match="nothing computes"):
        seeds.written("<!-- made_up -->1<!-- / -->")


@pytest.mark.torch
@needs_torch
def test_a_profiler_inside_the_loop_says_so_in_the_first_batch(tmp_path: Path) -> None:
    """torch's own leaves nothing and says nothing."""
    import torch

    batches = 0
    with pytest.raises(RuntimeError, match="nothing was recorded: the job ended after 1 of 4 steps"):
        for _ in range(5):
            batches += 1
            with recording(tmp_path, Settings(wait=1, warmup=1, active=2), "cpu") as step:
                torch.ones(8).sum()
                step()
    assert batches == 1


@pytest.mark.torch
@needs_torch
def test_a_recorder_is_begun_once(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, Settings(), "cpu")
    recorder.start()
    with pytest.raises(RuntimeError, match="make another one"):
        recorder.start()
    recorder.stop()
