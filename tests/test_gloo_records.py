"""A recording stops when no collective of Gloo is about to write into what the stop frees."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from tests.nodes import launchers
from tests.nodes.ports import free_port

ROOT = Path(__file__).resolve().parent.parent
RECORDINGS = 150


@pytest.mark.torch
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are looked at as Linux shows them")
def test_every_collective_has_its_own_end() -> None:
    """Two ranks on one core: the one that wakes often runs before the thread that woke it goes on."""
    port = str(free_port())
    commands = [[sys.executable, "-m", "tests.nodes.ended", rank, port, str(RECORDINGS)] for rank in "01"]
    ran = launchers.done(commands, os.environ, ROOT)
    assert [each.returncode for each in ran] == [0, 0], "\n".join(each.stderr[-2000:] for each in ran)
    for each in ran:
        found, without = map(int, each.stdout.split())
        assert found == 2 * RECORDINGS and without == 0
