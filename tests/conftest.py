"""What every test may ask for, and the rule that in CI a skip for want of captures or a browser is a failure.

`NPULENS_REQUIRE=shared,browser` names what the machine is known to have. A test that skips for want of it would
look like a pass, so it fails instead.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

#: Where captures that several tests read lie while they run (tests/real_captures.py).
LOADED = "NPULENS_TESTS_LOADED"
SHARED = Path(__file__).resolve().parents[2] / "shared" / "traces"

# What the shell of whoever runs the tests has set is no part of what they test: texts break at COLUMNS.
for _name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "NPULENS_STORE"):
    os.environ.pop(_name, None)

# A shell that starts the tests in the background has SIGINT ignored, and every process of theirs inherits that: those
# that a test ends by SIGINT would run for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

#: How a skipped test says what it missed, for those that carry no marker.
MISSED = {
    "shared": re.compile(r"shared|real captures?|empty parameter set", re.IGNORECASE),
    "torch": re.compile(r"torch is not installed"),
    "triton": re.compile(r"triton.* is not installed"),
    "browser": re.compile(r"browser|chromium|playwright", re.IGNORECASE),
}


def pytest_configure(config: pytest.Config) -> None:
    """A place for what several tests read; the processes of pytest-xdist find it in their environment."""
    if not hasattr(config, "workerinput"):
        os.environ[LOADED] = tempfile.mkdtemp(prefix="npulens-tests-")
        os.environ["NPULENS_LEDGER"] = os.path.join(os.environ[LOADED], "ledger.jsonl")


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(LOADED, ""), ignore_errors=True)


def required() -> frozenset[str]:
    """What may not be missing on this machine."""
    return frozenset(filter(None, os.environ.get("NPULENS_REQUIRE", "").split(",")))


def missed(reason: str, markers: frozenset[str]) -> str | None:
    """The required thing a skip was for; None if it may skip."""
    for thing in sorted(required()):
        if thing in markers or (thing in MISSED and MISSED[thing].search(reason)):
            return thing
    return None


def refuse(report: pytest.TestReport | pytest.CollectReport, markers: frozenset[str]) -> None:
    """Turns a skip that may not be into a failure."""
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
    if thing := missed(reason, markers):
        report.outcome = "failed"
        report.longrepr = f"skipped, but NPULENS_REQUIRE says this machine has {thing}: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    refuse(report, frozenset(mark.name for mark in item.iter_markers()))
    if report.when == "call" and report.failed:
        for name, value in getattr(item, "funcargs", {}).items():
            if callable(tells := getattr(value, "tells", None)):
                report.sections.append((f"what {name} tells", tells()))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    refuse(report, frozenset())
    return report


@pytest.fixture(scope="session", autouse=True)
def warm_loads() -> Iterator[None]:
    """Loads of the tests' own processes begin at once (tests/warm_loads.py)."""
    from npulens.ingest.loading import load_process
    from tests import warm_loads

    usual, load_process._started = load_process._started, warm_loads.started
    yield
    load_process._started = usual


@pytest.fixture(scope="session")
def shared_traces() -> Path:
    """The real captures; they stay outside the repository."""
    if not SHARED.is_dir():
        pytest.skip("the real captures (../shared/traces) are not here")
    return SHARED


@pytest.fixture
def store_dir(tmp_path: Path) -> Path:
    """An empty store of this test's own."""
    return tmp_path / "store"
