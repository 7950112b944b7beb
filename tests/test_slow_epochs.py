"""Before and after a real fix: a job that starts the workers of its loader with each epoch, and one that keeps them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.finding import Finding
from npulens.app import run_check

JOB = Path(__file__).with_name("slow_epochs.py")


def waits(trace: Path, *words: str) -> Finding | None:
    """What is said of the loader of a job that is run and recorded now."""
    subprocess.run([sys.executable, JOB, trace, *words], check=True, capture_output=True, timeout=300)
    (run,) = ingest.load(trace, trace.parent / "store").runs
    assert run.run_id, run.reason
    found = run_check.judge(trace.parent / "store", run.run_id).findings
    return next((one for one in found if one.cause == "dataloader"), None)


@pytest.mark.torch
def test_workers_that_start_with_each_epoch_are_told_and_gone_once_they_are_kept(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    before, after = waits(tmp_path / "a.pt.trace.json"), waits(tmp_path / "b.pt.trace.json", "keep")
    assert before is not None and "persistent_workers=True" in before.words["en"].advice
    assert "most while workers start or end" in before.words["en"].title
    assert after is None or (after.saving_ns < before.saving_ns / 2 and after.text == "found")
