"""What people install: the wheel holds all it needs, and its demo runs in an environment that has nothing of ours."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FRONT = ROOT / "app" / "front"
PACKAGES = ("app", "analysis", "collectors", "ingest", "sample_traces")
BUILT = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, because a build leaves its own files beside the source."""
    source, output = tmp_path_factory.mktemp("source") / "npulens", tmp_path_factory.mktemp("wheel")
    for name in (*PACKAGES, ".streamlit"):
        shutil.copytree(ROOT / name, source / name, ignore=BUILT, symlinks=True)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", output, source],
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (built,) = output.glob("*.whl")
    return built


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    wanted = {
        f"npulens/{path.relative_to(ROOT).as_posix()}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix not in {".c", ".so", ".pyc"} and path.parent != FRONT
    } | {f"npulens/{path.name}" for path in FRONT.glob("*.py")}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    compiled = {name for name in held if name.endswith(".so")}
    assert wanted - held == set()
    assert held - wanted - compiled == set()
    if shutil.which("cc") and Path(sysconfig.get_path("include"), "Python.h").exists():
        extensions = ("analysis/replay/_maxplus", "ingest/tables/_nest", "ingest/events/_scan")
        assert compiled == {f"npulens/{name}.abi3.so" for name in extensions}


def test_one_name_is_installed(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"npulens"}


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The console script of a fresh environment."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", home], check=True, timeout=120)
    pip = [home / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q"]
    # A checkout on PYTHONPATH would look installed already.
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*pip, wheel], capture_output=True, text=True, timeout=900, env=ours)
    assert done.returncode == 0, done.stderr[-3000:]
    return home / "bin" / "npulens"


def clean(home: Path) -> dict[str, str]:
    """The environment of somebody who has set nothing."""
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}


def test_packages_of_the_user_are_in_nobodys_way(installed: Path, tmp_path: Path) -> None:
    """A directory with broken packages of the names that our folders have, first on the path."""
    for name in ("app", "analysis", "ingest", "collectors", "sample_traces"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the package of the user')\n")
    run = {"cwd": tmp_path, "env": {**clean(tmp_path), "PYTHONPATH": "."}, "capture_output": True, "text": True}
    capture, store = str(ROOT / "sample_traces" / "kineto"), ["--store", str(tmp_path / "store")]
    loaded = subprocess.run([installed, "load", capture, "--json", *store], timeout=120, **run)
    assert loaded.returncode == 0, loaded.stderr
    run_id = json.loads(loaded.stdout)["runs"][0]["run_id"]
    check = subprocess.run([installed, "check", run_id, "--json", *store], timeout=120, **run)
    assert check.returncode == 0, check.stderr
    assert json.loads(check.stdout)["outcomes"]
    for verb in ("doctor", "simulate --list", "sql " + run_id + " SELECT\t1"):
        told = subprocess.run([installed, *verb.split(" "), *(store if "sql" in verb else [])], timeout=120, **run)
        assert "the package of the user" not in told.stdout + told.stderr, verb


def test_the_demo_loads_its_samples(installed: Path, tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "store")]
    run = {"cwd": tmp_path, "env": clean(tmp_path), "capture_output": True, "text": True, "timeout": 300}
    demo = subprocess.run([installed, "demo", "--load-only", *store], **run)
    assert demo.returncode == 0, demo.stderr[-3000:]
    runs = json.loads(subprocess.run([installed, "runs", "--json", *store], **run).stdout)
    samples = {path.parent.name for path in (ROOT / "sample_traces").glob("*/manifest.json")}
    assert samples and samples <= {run["label"] for run in runs["runs"]}


def test_the_dashboard_answers_until_it_is_told_to_end(installed: Path, tmp_path: Path) -> None:
    """SIGTERM, as a service manager sends it to the one process it knows, leaves no server behind."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [installed, "serve", "--store", tmp_path / "store", f"--server.port={port}"]
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=tmp_path, env=clean(tmp_path), stdout=log, stderr=log, start_new_session=True
        )
    try:
        assert answers(f"http://127.0.0.1:{port}/_stcore/health"), (tmp_path / "log").read_text()[-3000:]
        server.terminate()
        server.wait(30)
        with socket.socket() as again:
            assert again.connect_ex(("127.0.0.1", port)) != 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, 9)
        server.wait()


def answers(url: str) -> bool:
    for _ in range(120):
        try:
            with urllib.request.urlopen(url, timeout=5) as response:
                return bool(response.status == 200)
        except (urllib.error.URLError, ConnectionError):
            time.sleep(0.5)
    return False
