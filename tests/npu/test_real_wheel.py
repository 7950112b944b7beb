"""The real torch_npu, imported on libraries made from what it asks for, against the facts our calls are checked by."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.backends import probe
from tests.npu.conftest import PYTHON, Torch
from tests.npu.contract import facts
from tests.npu.figures import FIGURES

pytestmark = pytest.mark.npu_contract
#: Wrapped by torch_npu in a function that hands on everything: Python cannot tell their arguments.
UNTOLD = {"torch.npu.set_device_limit()"}


@pytest.fixture(scope="module")
def live(device: Torch) -> dict[str, Any]:
    told: dict[str, Any] = device.told("-m", "tests.npu.live")
    return told


@pytest.fixture(scope="module")
def present(live: dict[str, Any]) -> dict[str, list[str]]:
    """The facts of the release that is installed."""
    at = facts()["releases"].index(live["version"])
    return {
        scope: [name for name, since in held.items() if (at in since if isinstance(since, list) else at >= since)]
        for scope, held in facts()["has"].items()
    }


def test_every_symbol_is_stubbed_and_the_import_succeeds(asked_for: list[str], stubbed: Torch) -> None:
    """The wheel is bound when it is loaded: one missing symbol, and there is no import."""
    FIGURES["releases of torch_npu whose facts our calls are checked by"] = len(facts()["releases"])
    FIGURES["symbols of CANN stubbed"] = len(asked_for)
    assert len(asked_for) == 84  # of 2.13.0
    source = "import torch, torch_npu; print(torch_npu.__version__, torch.npu.is_available())"
    assert stubbed.run("-c", source).splitlines()[-1] == "2.13.0 False"


def test_without_the_stubs_there_is_no_torch_npu(tmp_path: Path) -> None:
    """What the tests above stand on is theirs alone."""
    found = probe.probe("npu", str(PYTHON), patience_s=600)
    assert not found.available and not found.stub and "libhccl.so" in str(found.reason)


@pytest.mark.parametrize("kind", ["stubbed", "device"])
def test_a_stub_is_never_an_npu(kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(request.getfixturevalue(kind).libraries))
    choice = probe.choose(python=str(PYTHON), patience_s=600)
    found = choice.tried[0]
    assert (found.name, found.available, found.stub) == ("npu", False, True) and "stub" in str(found.reason)
    assert choice.actual == "cpu" and "stub" in str(choice.reason)


def test_the_real_names_are_those_of_the_facts(live: dict[str, Any], present: dict[str, list[str]]) -> None:
    missing = {
        f"{scope}.{name}"
        for scope, names in present.items()
        if not scope.endswith("()")
        for name in set(names) - set(live["names"][scope])
    }
    assert missing == set()


def test_the_real_signatures_are_those_of_the_facts(live: dict[str, Any], present: dict[str, list[str]]) -> None:
    told = {scope: taken for scope, taken in live["arguments"].items() if taken is not None}
    wrong = {scope: taken for scope, taken in told.items() if sorted(taken) != sorted(present[scope])}
    assert wrong == {}
    assert {scope for scope in live["arguments"] if scope not in told and present[scope]} == UNTOLD
    FIGURES["signatures and operator schemas compared with the live ones"] = len(told)


def test_the_registry_has_the_kernels_that_were_counted(live: dict[str, Any]) -> None:
    """Counted once with torch 2.13.0 on the same wheel, by another program."""
    assert live["registry"] == {"aten": 3529, "with_npu_kernel": 1496, "npu_operators": 403}
    FIGURES["operators of npu:: registered"] = live["registry"]["npu_operators"]
    FIGURES[f"of {live['registry']['aten']} overloads of aten:: have a kernel for the NPU"] = 1496


def test_a_convolution_is_hf32_unless_told_otherwise(live: dict[str, Any]) -> None:
    """Why a difference of 1e-5 cannot be asked of a float32 convolution there."""
    assert (live["conv_hf32"], live["matmul_hf32"], live["torchair"]) == (True, False, True)


@pytest.mark.parametrize("library", ["libascendcl.so", "libhccl.so", "libgraph.so"])
def test_the_loader_of_this_machine_knows_none_of_them(library: str) -> None:
    known = subprocess.run(["/sbin/ldconfig", "-p"], capture_output=True, text=True, check=False).stdout
    assert library not in known
