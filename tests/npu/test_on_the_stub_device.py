"""The NPU's backend and the doctor with the real torch_npu: broken, on stubs, on a device that computes nothing."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.npu.conftest import PYTHON, ROOT, Torch

pytestmark = pytest.mark.npu_contract

BACKEND = """
import json, time
from npulens.collectors.backends.backend import open_backend
npu = open_backend("npu")
first, last = npu.marks(2)
npu.mark(first); begun = time.monotonic_ns(); time.sleep(0.05); slept = time.monotonic_ns() - begun; npu.mark(last)
npu.wait(last); npu.synchronize()
import torch
before = npu.memory().allocated
held = torch.zeros(1 << 20, dtype=torch.uint8).to(npu.device)
taken, back = npu.memory(), held.cpu().sum().item()
with npu.stream():
    other = torch.ones(8).to(npu.device)
del held, other
npu.forget_peak()
print("\\n" + json.dumps({
    "name": npu.name, "device": npu.device, "slept": slept, "between": npu.between_ns(first, last), "back": back,
    "taken": taken.allocated - before, "peak": taken.peak, "left": npu.memory().peak, "total": taken.total,
    "cache": npu.cache_bytes(), "properties": dict(npu.properties())}))
"""


@pytest.fixture(scope="module")
def backend(device: Torch) -> dict[str, Any]:
    told: dict[str, Any] = device.told("-c", BACKEND)
    return told


def test_the_backend_drives_torch_npu(backend: dict[str, Any]) -> None:
    assert (backend["name"], backend["device"], backend["back"]) == ("npu", "npu:0", 0)
    assert backend["taken"] >= 1 << 20 and backend["peak"] >= backend["taken"] > backend["left"]
    assert backend["total"] == 1 << 30  # as device.c says


def test_its_marks_are_the_devices_time(backend: dict[str, Any]) -> None:
    assert 50_000_000 <= backend["slept"] <= backend["between"] < backend["slept"] + 1_000_000_000


def test_what_the_device_says_of_itself_is_asked_by_its_real_names(backend: dict[str, Any]) -> None:
    told = backend["properties"]
    assert told["name"] == "Ascend910B2" and told["memory_bytes"] == 1 << 30
    assert (told["conv_hf32"], told["matmul_hf32"]) == (True, False)
    assert not {name for name in ("cube_cores", "vector_cores", "cache_bytes") if told[name] is None}


def checks(environment: dict[str, str]) -> dict[str, tuple[str, str]]:
    """What the doctor says there."""
    done = subprocess.run(
        [str(PYTHON), "-m", "npulens.collectors", "doctor"], cwd=ROOT, env=environment, capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr[-2000:]
    return {each["name"]: (each["status"], each["said"]) for each in json.loads(done.stdout.splitlines()[-1])["checks"]}


def test_the_doctor_finds_a_torch_npu_without_cann(stubbed: Torch, tmp_path: Path) -> None:
    found = checks(stubbed.environment({"LD_LIBRARY_PATH": str(tmp_path)}))
    assert found["torch"][0] == "PASS" and found["torch_build"] == ("PASS", "cpu")
    assert found["torch_npu"] == ("FAIL", "library") and found["cann"] == ("FAIL", "missing")


@pytest.mark.parametrize("kind", ["stubbed", "device"])
def test_the_doctor_does_not_take_a_stub_for_cann(kind: str, request: pytest.FixtureRequest) -> None:
    torch: Torch = request.getfixturevalue(kind)
    found = checks(torch.environment())
    assert found["torch_npu"] == ("PASS", "starts") and found["cann"] == ("FAIL", "stub")
    assert found["devices"][0] == "FAIL"
