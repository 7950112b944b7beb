"""Thirty-six nights of five tasks: what got slower is told in time, and is in sight until it is mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nights import month


@pytest.mark.timeout(600)
def test_nothing_is_forgotten_and_nothing_is_made_up(tmp_path: Path) -> None:
    every = month.nights(month.run(tmp_path, seed=0, with_folder=True))
    broken = [text for holds, text in month.promises(every, with_folder=True) if not holds]
    assert not broken, "\n".join([*broken, month.table(every)])
