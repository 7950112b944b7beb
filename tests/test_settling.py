"""What the server does once: not for every page, or everything alive would be taken for what never goes."""

from __future__ import annotations

import ast
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from npulens.app.team import settling
from tests.bench.captures import ROOT


def test_it_is_done_once_and_again_only_when_much_was_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen: list[int] = []
    monkeypatch.setattr(settling, "_known", 0)
    monkeypatch.setattr(settling, "_freeze", lambda: frozen.append(len(sys.modules)))
    monkeypatch.setattr(settling.runtime, "exists", lambda: True)
    monkeypatch.setattr(settling.load_queue, "ready", lambda: None)
    monkeypatch.setattr(settling.atexit, "register", lambda _: None)
    for _ in range(5):
        settling.settle()
        for thread in threading.enumerate():
            if thread.name == "ahead":
                thread.join()
    assert len(frozen) == 1
    for number in range(2 * settling._MANY):
        monkeypatch.setitem(sys.modules, f"nothing_at_all_{number}", ModuleType("nothing"))
    for _ in range(5):
        settling.settle()
    assert len(frozen) == 2


def test_the_script_of_a_page_keeps_nothing() -> None:
    """It runs anew for every page: what a name of its module held would be gone, and nobody would notice."""
    tree = ast.parse(Path(ROOT / "app" / "dashboard.py").read_text("utf-8"))
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global)] == []
