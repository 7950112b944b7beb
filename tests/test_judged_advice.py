"""What detectors of kernels say is true of what they name, and their advice helps on the device that ran."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from npulens.analysis.detectors import full_precision, host_late
from npulens.analysis.detectors.low_efficiency import _attention
from npulens.analysis.device.abilities import NOTHING, Device, known
from npulens.analysis.engine import Check, check
from npulens.analysis.idle.inside import Inside
from npulens.analysis.run import Run
from npulens.analysis.work.operators import Operator, operators
from tests.tablecase import connection

STEP: dict[str, Any] = {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 10}
NPU: dict[int, Any] = {0: {"device_name": "Ascend910B2"}}
MTIA: dict[int, Any] = {0: {"backend": "mtia", "formats": ["kineto"]}}


def judged(detector: str, rank: dict[int, Any], *spans: dict[str, Any]) -> Check:
    return check(connection({"rank": rank, "spans": [STEP, *spans]}), only=[detector])


def on_cuda(name: str) -> dict[int, Any]:
    return {0: {"device_name": name, "backend": "cuda", "formats": ["kineto"]}}


def vector(number: int, at: int, length: int, type_: str, inputs: int = 1) -> dict[str, Any]:
    """A kernel of tensors of 250 x 1000 floats, which have 1,000,000 bytes each."""
    shapes, types = ";".join(["250,1000"] * inputs), ";".join(["FLOAT"] * inputs)
    return {"id": number, "kind": "kernel", "name": "k", "at": at, "for": length,
            "kernel": {"op_type": type_, "core": "AI_VECTOR_CORE", "input_shapes": shapes, "input_dtypes": types,
                       "output_shapes": "250,1000", "output_dtypes": "FLOAT"}}  # fmt: skip


def product(number: int, at: int) -> dict[str, Any]:
    found = vector(number, at, 90, "MatMulV2", 2)
    return {**found, "kernel": {**found["kernel"], "core": "AI_CORE"}}


def test_a_chain_is_named_with_its_own_count_and_time() -> None:
    """Add + Exp + Sqrt take 32 + 22 + 22 = 76, as one kernel 32: twice 152 against 64. Neg + Exp + Abs take 22 each,
    66 in all; 3 x 2 + 60 for 6 MB, as one kernel 2 + 60 x 2 / 6 = 22. Fill moves next to nothing and shows the 2."""
    tiny = {"op_type": "Fill", "core": "AI_VECTOR_CORE", "input_shapes": "1", "input_dtypes": "FLOAT",
            "output_shapes": "1", "output_dtypes": "FLOAT"}  # fmt: skip
    said = judged(
        "unfused", NPU, {"id": 9, "kind": "kernel", "name": "k", "at": 10, "for": 2, "kernel": tiny},
        vector(11, 12, 22, "Neg"), vector(12, 34, 22, "Exp"), vector(13, 56, 22, "Abs"), product(14, 78),
        vector(15, 168, 32, "Add", 2), vector(16, 200, 22, "Exp"), vector(17, 222, 22, "Sqrt"), product(18, 244),
        vector(19, 334, 32, "Add", 2), vector(20, 366, 22, "Exp"), vector(21, 388, 22, "Sqrt"), product(22, 410),
    )  # fmt: skip
    (found,) = said.findings
    numbers = found.numbers
    assert (numbers["kernels"], numbers["count"], numbers["chain_ns"]) == ("Add + Exp + Sqrt", 2, 152_000)
    assert (numbers["chain_fused_ns"], numbers["chains"]) == (64_000, 3)
    assert (numbers["spent_ns"], numbers["fused_ns"]) == (218_000, 86_000)
    assert found.words["en"].title == (
        "Rank 0: 3 chains of separate kernels take 218 µs in the step, 86.0 µs as one kernel each. "
        "Most is lost in Add + Exp + Sqrt (2 times in the step): 152 µs instead of 64.0 µs"
    )
    assert found.evidence[0].note == "Add ... Sqrt"


def called(number: int, name: str, shapes: str, types: str, kernel: str, at: int, length: int) -> list[dict[str, Any]]:
    """An operator of the host, the launch in it, and its kernel."""
    return [
        {"id": number, "kind": "cpu_op", "name": name, "at": 1, "for": 8,
         "host_op": {"input_shapes": shapes, "input_dtypes": types}},
        {"id": number + 1, "kind": "runtime", "name": "launch", "at": 2, "for": 4},
        {"id": number + 2, "kind": "kernel", "name": kernel, "at": at, "for": length, "by": number + 1,
         "route": "correlation"},
    ]  # fmt: skip


@pytest.mark.parametrize(("types", "told"), [
    ('["float", "float"]', ("not_measured", "fp32 matrix kernels run; no faster precision of an unnamed device is")),
    ('["c10::Half", "c10::Half"]', ("clean", "nothing of the kind was seen")),
    ("", ("not_measured", "kernels whose precision is told have only 0.0 % of the time")),
])  # fmt: skip
def test_on_a_device_whose_names_nobody_knows_inputs_tell(types: str, told: tuple[str, str]) -> None:
    spans = called(10, "aten::mm", "[[4096, 4096], [4096, 4096]]" if types else "", types, "fc-dtype_X", 10, 900)
    (found,) = judged("full_precision", MTIA, *spans).outcomes
    assert (found.outcome, found.reason[: len(told[1])]) == told


@pytest.mark.parametrize(("device", "first", "beside"), [
    ("NVIDIA A100-SXM4-80GB", "Allow TF32", "TF32 is 8 times as fast as fp32."),
    ("NVIDIA GeForce RTX 3060", "Use bf16:", "bf16 is 2 times as fast as fp32. Compare"),
    ("NVIDIA GeForce RTX 4090", "Use bf16:", "bf16 is 2 times as fast as fp32. Compare"),
    ("Tesla V100-SXM2-16GB", "Use fp16:", "fp16 is 8 times as fast as fp32."),
])  # fmt: skip
def test_only_a_precision_that_is_faster_is_advised(device: str, first: str, beside: str) -> None:
    """By the facts: A100 19.5, 156; RTX 3060 12.7, 12.7, 25.5; RTX 4090 82.6, 82.6, 165.2; V100 15.7, 125."""
    kernel = {"id": 11, "kind": "kernel", "name": "ampere_sgemm_128x64_tn", "at": 10, "for": 800}
    (found,) = judged("full_precision", on_cuda(device), kernel).findings
    advice = found.words["en"].advice
    assert advice.startswith(first) and beside in advice
    assert ("TF32 = " in advice or "TF32:" in advice) == (first == "Allow TF32")


def test_what_is_lost_to_full_precision_is_what_a_faster_one_gives_back() -> None:
    """800 us on an A100 at an eighth: 700 us are lost, not 800."""
    kernel = {"id": 11, "kind": "kernel", "name": "ampere_sgemm_128x64_tn", "at": 10, "for": 800}
    run = Run.of(connection({"rank": on_cuda("NVIDIA A100-SXM4-80GB"), "spans": [STEP, kernel]}))
    (found,) = full_precision.detect(run.con, run, full_precision.Limits())
    assert found.measured_ns == found.change.task_ns.sum() == 700_000


def test_the_code_with_most_of_the_time_comes_first() -> None:
    """22 of 100 stand out by their calls; two frames of Python beside have 26 and 20."""
    others = (("b.py(2): g", 26), ("c.py(3): h", 20))
    found = Inside("a.py(1): f", 22, 100, np.zeros(1, np.int64), 5, False, others=others)
    assert host_late._largest(found) == {
        "code": "b.py(2): g", "code_share": 0.26, "between_share": None,
        "others": ["a.py(1): f (22.0 %)", "c.py(3): h (20.0 %)"],
    }  # fmt: skip
    assert host_late._largest(replace(found, ns=30)) == {}


def attention(name: str, kind: str) -> Operator:
    shapes = "[[4, 256, 8, 64], [4, 256, 8, 64], [4, 256, 8, 64]]"
    types = f'["{kind}", "{kind}", "{kind}"]'
    spans = called(10, name, shapes, types, "fmha", 10, 600)
    run = Run.of(connection({"rank": on_cuda("NVIDIA A100-SXM4-80GB"), "spans": [STEP, *spans]}))
    (found,) = run.get(operators).every
    return found


def advised(one: Operator, backend: str, name: str) -> dict[str, object]:
    here: Device | None = known(name, backend, NOTHING)
    assert here is not None and here.flops, name
    return {key: value for key, value in _attention(one, backend, here).items() if value is not None}


def test_attention_in_fp32_is_cast_before_any_flash_kernel() -> None:
    one = attention("aten::_efficient_attention_forward", "float")
    cast = {"wide": "fp32", "narrow": "bf16", "flash": "scaled_dot_product_attention"}
    for name in ("NVIDIA GeForce RTX 3060", "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"):
        assert advised(one, "cuda", name) == cast
    assert advised(one, "cuda", "Tesla V100-SXM2-16GB") == {"wide": "fp32", "narrow": "fp16"}


def test_flash_attention_3_is_for_hopper_and_16_bits() -> None:
    flash = attention("aten::_flash_attention_forward", "c10::Half")
    assert advised(flash, "cuda", "NVIDIA H100 80GB HBM3") == {"attention": "FlashAttention 3"}
    assert advised(flash, "cuda", "NVIDIA A100-SXM4-40GB") == {}
    other = attention("aten::_efficient_attention_forward", "c10::BFloat16")
    assert advised(other, "cuda", "NVIDIA A100-SXM4-40GB") == {"attention": "scaled_dot_product_attention"}
    assert advised(other, "cuda", "Tesla V100-SXM2-16GB") == {}


@pytest.mark.parametrize(("second", "said"), [("randint", "randn, randint"), ("randn", "randn")])
def test_all_that_draws_numbers_is_counted_by_its_name(second: str, said: str) -> None:
    """Of 1000 us eight draws take 30 us each on 10 values, and eight others 20 us each on 9."""
    spans: list[dict[str, Any]] = [{"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 1000}]
    for at in range(8):
        for place, (name, start, length, size) in enumerate(
            (("randn", 125 * at, 30, 10), (second, 125 * at + 30, 20, 9), ("mm", 125 * at + 50, 75, 8))
        ):
            number, called = 100 + 10 * at + 2 * place, {"name": f"aten::{name}", "at": start, "for": length}
            given = {"input_shapes": f"[[{size}]]", "input_dtypes": '["float"]'}
            spans += [{"id": number, "kind": "cpu_op", **called, "host_op": given},
                      {"id": number + 1, "kind": "kernel", **called, "by": number, "route": "itself"}]  # fmt: skip
    case = {"rank": {0: {"backend": "cpu", "formats": ["kineto"]}}, "spans": spans}
    (found,) = check(connection(case), only=["random_numbers"]).findings
    takes = "Rank 0: drawing random numbers takes 400 µs of the step (40.0 %)"
    assert found.words["en"].title == f"{takes} in 16 calls of {said}"
