"""The doctor tells the truth about machines of every kind, and each outcome has its words and its commands."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens.app.cli import main
from npulens.app.commands import doctor as verb
from npulens.app.text.i18n import known
from npulens.collectors.backends.probe import STUB_SYMBOL, Capability
from npulens.collectors.doctor.facts import Facts, Node, Smi, missing_library
from npulens.collectors.doctor.visit import CHECKS, report
from npulens.collectors.telemetry import npu_smi
from npulens.collectors.telemetry.tool_answer import ToolAnswer
from tests import npu_smi_texts as texts

ROOT = Path(__file__).resolve().parent.parent
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no C compiler")
ABSENT = ToolAnswer(("npu-smi", "info"), "npu-smi is not on PATH", None)


def smi(text: str, common: str = texts.COMMON_910B, status: int = 0) -> Smi:
    told = npu_smi.info(text)
    chips = {chip.npu: npu_smi.chips(common) for chip in told.chips}
    return Smi(ToolAnswer(("npu-smi", "info"), text, status), told, chips)


BARE = Facts(
    python=(3, 11, 7), packages={},
    backends={name: Capability(name, False, "torch is not installed") for name in ("npu", "cuda", "mps", "cpu")},
    variables={}, cann_home=None, cann_version=None, cann_setup=None, cann_library="it does not load", nodes=(),
    smi=Smi(ABSENT, npu_smi.info(""), {}), gpu_processes=ToolAnswer(("nvidia-smi",), "", None), msprof=None,
    umask=0o022, root=True, cores=8, load=0.3, governor=None, container=None, memory=(6 << 30, 8 << 30),
    disk_free=90 << 30,
)  # fmt: skip
TORCH = {"torch": "2.9.0+cpu"}
NPU = Capability("npu", True, None, "Ascend910B3", 2, versions={"torch_npu": "2.9.0"})
CUDA = Capability("cpu", True, versions={**TORCH, "cuda": "12.8"})
IDLE = (
    texts.INFO_910B.replace("Warning", "OK     ").replace("53984/", "3984 /").replace("| 0       0  ", "| x       0  ")
)
HOT = texts.COMMON_910B.replace("Aicore Usage Rate(%)           : 0", "Aicore Usage Rate(%)           : 80")
LAPTOP = replace(
    BARE, packages={"torch": "2.9.0+cpu"}, backends={**BARE.backends, "cpu": Capability("cpu", True, versions=TORCH)}
)
NODES = tuple(
    Node(f"/dev/{name}", True, "HwHiAiUser") for name in ("davinci0", "davinci1", "davinci_manager", "hisi_hdc")
)
SERVER = replace(
    LAPTOP, packages={"torch": "2.9.0+cpu", "torch-npu": "2.9.0"}, cann_home=Path("/"), cann_version="8.5.0",
    backends={**LAPTOP.backends, "npu": NPU},
    cann_library="real", nodes=NODES, smi=smi(IDLE),
    msprof="/usr/bin/msprof", umask=0o027, root=False,
)  # fmt: skip


def found(facts: Facts) -> dict[str, dict[str, Any]]:
    """Every check of some facts; each is said in both languages, and a failure says what to do."""
    checks = report(facts)["checks"]
    for check in checks:
        for lang in ("en", "zh"):
            assert "{" not in verb.sentence(check, lang)
        assert check["do"] or check["status"] in ("PASS", "SKIP") or check["name"] in ("backend", "python", "versions")
    return {check["name"]: check for check in checks}


def said(facts: Facts, name: str) -> tuple[str, str]:
    check = found(facts)[name]
    return check["status"], check["said"]


def test_a_server_that_is_well_has_nothing_to_mend() -> None:
    checks = found(SERVER)
    assert {check["status"] for check in checks.values()} == {"PASS", "SKIP"}
    assert [name for name, check in checks.items() if check["status"] == "SKIP"] == ["triton"]
    assert report(SERVER)["status"] == "usable"
    assert checks["backend"]["seen"]["name"] == "npu"


def test_a_machine_with_nothing_says_only_that_torch_is_missing() -> None:
    checks = found(BARE)
    assert [name for name, check in checks.items() if check["status"] == "FAIL"] == ["backend", "torch"]
    assert report(BARE)["status"] == "unusable"


def test_a_laptop_with_torch_is_usable_and_hears_nothing_of_ascend() -> None:
    checks = found(LAPTOP)
    assert report(LAPTOP)["status"] == "usable"
    assert {checks[name]["status"] for name in ("torch_npu", "cann", "devices", "npu_smi", "msprof", "umask")} == {
        "SKIP"
    }


BROKEN = Capability(
    "npu", False, "torch_npu cannot be imported: libhccl.so: cannot open shared object file: No such file"
)
CASES = [
    ("torch_npu", {"backends": {**SERVER.backends, "npu": BROKEN}}, "FAIL", "library"),
    ("torch_npu", {"backends": {**SERVER.backends, "npu": replace(BROKEN, reason="torch_npu cannot be imported: no")}},
     "FAIL", "broken"),
    ("torch_npu", {"packages": TORCH, "backends": LAPTOP.backends}, "FAIL", "missing"),
    ("torch", {"backends": {**BARE.backends}}, "FAIL", "broken"),
    ("versions", {"packages": {**SERVER.packages, "torch": "2.8.0"}}, "FAIL", "torch"),
    ("versions", {"packages": {"torch-npu": "2.9.0"}}, "FAIL", "torch"),
    ("versions", {"python": (3, 9, 1)}, "WARN", "python"),
    ("versions", {"cann_version": "8.2.RC1"}, "WARN", "cann"),
    ("versions", {"cann_version": None}, "SKIP", "cann_unknown"),
    ("versions", {"packages": {"torch": "2.14.0", "torch-npu": "2.14.0"}}, "PASS", "unlisted"),
    ("profiler", {"packages": {"torch": "2.5.1", "torch-npu": "2.5.1"}}, "WARN", "lacks"),
    ("profiler", {}, "PASS", "lacks"),
    ("profiler", {"packages": {"torch": "2.14.0", "torch-npu": "2.14.0"}}, "PASS", "unlisted"),
    ("profiler", {"packages": {"torch": "2.12.0", "torch-npu": "2.12.0"}}, "PASS", "all"),
    ("torch_build", {"packages": {**SERVER.packages, "torch": "2.9.0+cu128"}}, "FAIL", "cuda"),
    ("torch_build", {"backends": {**SERVER.backends, "cpu": CUDA}}, "FAIL", "cuda"),
    ("cann", {"cann_library": "stub"}, "FAIL", "stub"),
    ("cann", {"cann_home": None}, "FAIL", "missing"),
    ("cann", {"cann_home": None, "cann_setup": Path("/opt/set_env.sh")}, "FAIL", "not_sourced"),
    ("cann", {"cann_home": Path("/no/such/place")}, "FAIL", "gone"),
    ("cann", {"cann_library": "OSError: libruntime.so: cannot open"}, "FAIL", "library"),
    ("devices", {"nodes": ()}, "FAIL", "none"),
    ("devices", {"nodes": (), "container": "docker"}, "FAIL", "not_passed"),
    ("devices", {"nodes": (Node("/dev/davinci0", False, "HwHiAiUser"), *NODES[1:])}, "FAIL", "denied"),
    ("devices", {"nodes": NODES[:2]}, "FAIL", "manager"),
    ("npu_smi", {"smi": Smi(ABSENT, npu_smi.info(""), {})}, "WARN", "silent"),
    ("npu_smi", {"smi": smi(texts.BUSY, status=1)}, "FAIL", "occupied"),
    ("npu_smi", {"smi": smi(texts.DENIED, status=1)}, "FAIL", "denied"),
    ("npu_smi", {"smi": smi("There is no NPU card on this server.\n", status=1)}, "FAIL", "failed"),
    ("npu_smi", {"smi": smi("", status=139)}, "FAIL", "failed"),
    ("npu_smi", {"smi": smi(texts.INFO_910B)}, "WARN", "ill"),
    ("msprof", {"msprof": None}, "FAIL", "missing"),
    ("user", {"root": True}, "WARN", "root"),
    ("umask", {"umask": 0o022}, "WARN", "open"),
    ("umask", {"umask": 0o077}, "PASS", "is"),
    ("log_level", {"variables": {"ASCEND_GLOBAL_LOG_LEVEL": "1"}}, "WARN", "verbose"),
    ("log_level", {"variables": {"ASCEND_SLOG_PRINT_TO_STDOUT": "1"}}, "WARN", "stdout"),
    ("variables", {"variables": {"ASCEND_LAUNCH_BLOCKING": "1", "TASK_QUEUE_ENABLE": "2"}}, "WARN", "costly"),
    ("triton", {"packages": {"triton": "3.9.0", "triton-ascend": "3.2.0"}}, "FAIL", "both"),
    ("triton", {"packages": {"triton-ascend": "3.2.0"}}, "FAIL", "pybind11"),
    ("triton", {"packages": {"triton-ascend": "3.2.0", "pybind11": "3.0", "numpy": "2.4.6"}}, "WARN", "numpy"),
    ("triton", {"packages": {"triton-ascend": "3.2.0", "pybind11": "3.0", "numpy": "2.3.5"}}, "PASS", "one"),
    ("triton", {"packages": {**SERVER.packages, "triton": "3.9.0"}}, "WARN", "plain"),
    ("processes", {"smi": smi(texts.INFO_910B)}, "WARN", "others"),
    ("processes", {"gpu_processes": ToolAnswer(("nvidia-smi",), "4711, python, 900\n", 0)}, "WARN", "others"),
    ("processes", {"load": 4.1}, "WARN", "load"),
    ("clocks", {"smi": smi(texts.INFO_910B, HOT)}, "WARN", "held_back"),
    ("clocks", {"governor": "powersave"}, "WARN", "governor"),
    ("memory", {"smi": smi(texts.INFO_910B)}, "WARN", "device"),
    ("memory", {"memory": (1 << 29, 8 << 30)}, "WARN", "host"),
    ("memory", {"memory": None}, "PASS", "unknown"),
    ("disk", {"disk_free": 1 << 30}, "WARN", "full"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "wrong", "status", "outcome"), CASES)
def test_each_thing_that_is_wrong_is_told(name: str, wrong: dict[str, Any], status: str, outcome: str) -> None:
    assert said(replace(SERVER, **wrong), name) == (status, outcome)


def test_every_outcome_has_its_words_and_is_reached_here() -> None:
    """Read from the source of the checks: Check("name", STATUS, "outcome")."""
    written = set()
    for path in (ROOT / f"collectors/doctor/{name}.py" for name in ("visit", "machine")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Check":
                name, _, outcome = node.args[:3]
                if isinstance(name, ast.Constant) and isinstance(outcome, ast.Constant):
                    written.add((name.value, outcome.value))
    assert all(known(f"doctor.{name}_{outcome}") for name, outcome in written)
    assert len(written) > 50
    reached = {(name, outcome) for name, _, _, outcome in CASES}
    for facts in (BARE, LAPTOP, SERVER):
        reached |= {(check["name"], check["said"]) for check in report(facts)["checks"]}
    assert written - reached == {("torch_build", "torch_unknown")}
    assert said(replace(SERVER, backends=BARE.backends), "torch_build") == ("SKIP", "torch_unknown")
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)


def test_a_missing_library_is_named() -> None:
    assert missing_library("libhccl.so: cannot open shared object file: No such file or directory") == "libhccl.so"
    assert missing_library("undefined symbol: aclFoo") is None


def visited(python: str, **environment: str) -> dict[str, dict[str, Any]]:
    """What the doctor finds in a process of its own."""
    done = subprocess.run(
        [python, str(ROOT / "collectors"), "doctor"], cwd=ROOT, capture_output=True, text=True, timeout=120,
        env={**os.environ, **environment},
    )  # fmt: skip
    answer = json.loads(done.stdout.splitlines()[-1])
    assert done.returncode == (0 if answer["status"] == "usable" else 1), done.stderr
    return {check["name"]: check for check in answer["checks"]}


def test_in_a_python_with_nothing_installed(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    checks = visited(str(tmp_path / "bare/bin/python"), PYTHONPATH="")
    assert (checks["torch"]["said"], checks["backend"]["said"]) == ("missing", "none")
    assert checks["torch_npu"]["status"] == "SKIP"


def package(home: Path, body: str) -> str:
    """A torch_npu of that body, as pip would have installed it beside this machine's torch."""
    import torch

    version = torch.__version__.split("+")[0]
    (home / "torch_npu").mkdir(parents=True)
    (home / "torch_npu/__init__.py").write_text(f"__version__ = {version!r}\n{body}\n")
    described = home / f"torch_npu-{version}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch_npu\nVersion: {version}\n")
    (described / "entry_points.txt").write_text("[torch.backends]\ntorch_npu = torch_npu:_autoload\n")
    return str(home)


@needs_torch
@pytest.mark.torch
def test_with_a_torch_npu_that_does_not_start(tmp_path: Path) -> None:
    body = "raise ImportError('libhccl.so: cannot open shared object file: No such file or directory')"
    checks = visited(sys.executable, PYTHONPATH=package(tmp_path, body))
    assert (checks["torch_npu"]["said"], checks["torch_npu"]["seen"]["library"]) == ("library", "libhccl.so")
    assert checks["torch"]["status"] == "PASS"  # torch itself is well, and the doctor does not trip over autoload
    assert checks["versions"]["said"] in ("unlisted", "cann_unknown")
    assert checks["backend"]["seen"]["name"] != "npu"


@needs_torch
@needs_gcc
@pytest.mark.torch
def test_with_a_stub_of_cann_there_is_no_npu(tmp_path: Path) -> None:
    (tmp_path / "stub.c").write_text(f"int {STUB_SYMBOL} = 1;\n")
    library = tmp_path / "libascendcl.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "stub.c")], check=True)
    home = package(tmp_path / "site", "import ctypes; ctypes.CDLL('libascendcl.so')")
    checks = visited(sys.executable, PYTHONPATH=home, LD_LIBRARY_PATH=str(tmp_path))
    assert (checks["cann"]["status"], checks["cann"]["said"]) == ("FAIL", "stub")
    assert checks["backend"]["seen"]["name"] != "npu"
    assert checks["torch_npu"]["status"] == "PASS"


def test_the_verb_prints_what_to_do_and_exits_accordingly() -> None:
    english, chinese = (CliRunner().invoke(main, ["doctor", "--lang", lang]) for lang in ("en", "zh"))
    asked = CliRunner().invoke(main, ["doctor", "--json"])
    answer = json.loads(asked.stdout)
    assert english.exit_code == chinese.exit_code == asked.exit_code == (0 if answer["status"] == "usable" else 1)
    for check in answer["checks"]:
        if not check["said"].startswith("no_"):
            assert f"{check['status']}  {check['name']}" in english.stdout
            assert all(f"$ {todo}" in chinese.stdout for todo in check["do"] if check["name"] != "processes")


def test_a_python_that_cannot_run_the_collectors_is_an_error(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text("#!/bin/sh\nexit 7\n")
    other.chmod(0o755)
    done = CliRunner().invoke(main, ["doctor", "--python", str(other)])
    assert done.exit_code == 2
    assert "status 7" in done.stderr
