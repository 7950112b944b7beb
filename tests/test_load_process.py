"""How a command begins its load and ends: forked where no thread can be lost, gone when all is said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.test_store import kineto

SAYS = "import os; from npulens.ingest.loading import load_process as p; {}; print(p._bare(), flush=True); os._exit(0)"
ENDS = """
import atexit, sys
atexit.register(print, "the last word")
sys.argv = ["npulens", *sys.argv[1:]]
from npulens.app.cli import run
run()
"""


def python(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *arguments], text=True, capture_output=True, check=False)


def test_only_a_process_of_one_thread_and_without_libraries_that_have_some_is_forked() -> None:
    thread = "import threading, time; threading.Thread(target=time.sleep, args=[60], daemon=True).start()"
    assert [python(SAYS.format(what)).stdout.strip() for what in ("pass", thread, "import numpy")] == [
        str(sys.platform == "linux"), "False", "False",
    ]  # fmt: skip


def test_a_verb_of_the_console_script_says_all_and_ends_with_its_code(tmp_path: Path) -> None:
    store, trace = tmp_path / "store", kineto(tmp_path / "t.json")
    loaded = python(ENDS, "load", str(trace), "--store", str(store), "--label", "one")
    assert loaded.returncode == 0 and "complete" in loaded.stdout and loaded.stdout.endswith("the last word\n")
    listed = python(ENDS, "runs", "--store", str(store), "--json")
    assert listed.returncode == 0 and '"one"' in listed.stdout and listed.stdout.endswith("the last word\n")
    refused = python(ENDS, "check", "two", "--store", str(store))
    assert refused.returncode == 2 and "no run is called" in refused.stderr and refused.stdout == "the last word\n"
