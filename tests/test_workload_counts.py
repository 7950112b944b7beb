"""The operations and bytes that a workload says it needs, counted again by torch while it runs."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from npulens.collectors.workloads.workload import workload

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]


def small(name: str, variant: str) -> Any:
    found = workload(name)
    return found.build(variant, found.SHAPES["small"], "float32", "cpu", 1)


@pytest.mark.parametrize(
    ("name", "more"),
    # Beyond the products of matrices and convolutions, which torch counts, every output has a little arithmetic.
    [("conv_bn_relu", 3 / 144), ("matmul_layernorm_gelu", 17 / 128), ("cross_modal_attention", 6 / 80),
     ("depthwise_conv", 3 / 18), ("host_to_device", 1 / 32)],
)  # fmt: skip
def test_operations_are_those_of_torch_and_a_little_arithmetic(name: str, more: float) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    case = small(name, "reference" if name == "host_to_device" else "unfused")
    with FlopCounterMode(display=False) as counted:
        case.step()
    assert counted.get_total_flops() > 0
    assert case.flops == round(counted.get_total_flops() * (1 + more))


def test_a_training_step_counts_its_five_products() -> None:
    from torch.utils.flop_counter import FlopCounterMode

    case = small("train_step", "unfused")
    with FlopCounterMode(display=False) as counted:
        case.step()
    parameters = 64 * 128 + 128 + 128 * 32 + 32
    assert case.flops == counted.get_total_flops() + 2 * parameters


def moved(case: Any) -> int:
    """Bytes of every operand that a step's operators read and of every result that they write; views move nothing."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        total = 0

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            out = function(*args, **(kwargs or {}))
            read = [each for each in args if isinstance(each, torch.Tensor)]
            written = [each for each in (out if isinstance(out, (tuple, list)) else [out]) if each is not None]
            places = {each.untyped_storage().data_ptr() for each in read}
            if not all(each.untyped_storage().data_ptr() in places for each in written):
                self.total += sum(each.numel() * each.element_size() for each in [*read, *written])
            return out

    with Counting() as counting:
        case.step()
    return counting.total


@pytest.mark.parametrize(
    "name", ["conv_bn_relu", "depthwise_conv", "matmul_layernorm_gelu", "cross_modal_attention", "launch_overhead"]
)
def test_bytes_are_those_of_all_operands_and_results(name: str) -> None:
    case = small(name, "unfused")
    counted = moved(case)
    # What normalisations write beside their result (a mean and a deviation for each row) is not counted.
    assert case.bytes is not None and case.bytes <= counted <= case.bytes * 1.02
