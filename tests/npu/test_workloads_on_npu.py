"""Every workload on tensors of an NPU that hold no numbers: torch_npu's own shape functions answer."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.collectors.workloads.workload import names, workload
from tests.npu.conftest import Torch
from tests.npu.figures import FIGURES, checked

pytestmark = pytest.mark.npu_contract
#: Variants whose step asks for more than shapes: workload, variant -> what it meets.
NEED_A_DEVICE = {
    ("embedding_dense_grad", "reference"): "DynamicOutputShapeException",  # rows that are chosen by their values
    ("host_to_device", "pinned"): "_pin_memory",
    ("host_to_device", "double_buffered"): "_pin_memory",
    ("launch_overhead", "graph"): "aclmdlRICaptureBegin",
    ("train_step", "fused"): "get_npu_format",  # joins its parameters in one tensor, by their layout in memory
}
#: Operators that torch_npu sends to the CPU and back.
ON_THE_CPU: set[str] = set()


@pytest.fixture(scope="module")
def told(device: Torch) -> dict[str, Any]:
    found: dict[str, Any] = device.told("-m", "tests.npu.shapes")
    return found


@pytest.mark.parametrize("name", names())
def test_every_variant_asks_for_what_torch_npu_has(told: dict[str, Any], name: str) -> None:
    said = told["workloads"][name]
    assert list(said["variants"]) == list(workload(name).VARIANTS)
    for variant, found in said["variants"].items():
        if "failed" in found:
            assert NEED_A_DEVICE.get((name, variant), "nothing") in found["failed"], (variant, found)
        elif "shapes" in found:
            assert (found["shapes"], found["devices"]) == (said["reference"], ["npu"]), variant
            checked(name, variant, "operators and shapes")
        else:
            assert any(word in found["not_here"] for word in ("torchair", "triton", "cuDNN")), (variant, found)
    assert any("shapes" in found for found in said["variants"].values())


def test_every_operator_they_ask_for_has_a_kernel(told: dict[str, Any]) -> None:
    assert {name for name, whose in told["kernels"].items() if whose == "cpu"} == ON_THE_CPU
    assert told["kernels"]["npu::npu_fusion_attention"] == "npu"
    ran = [found for said in told["workloads"].values() for found in said["variants"].values() if "shapes" in found]
    FIGURES["operators of our workloads checked"] = len(told["kernels"])
    FIGURES["variants of workloads run on shapes alone"] = len(ran)
