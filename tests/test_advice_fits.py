"""Advice is about the job that ran: what it cannot follow, or what it does already, is not said."""

from __future__ import annotations

from typing import Any

import pytest

from npulens.analysis.engine import Check, check
from tests.tablecase import connection

STEP: dict[str, Any] = {"id": 1, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 1000}
CUDA: dict[int, Any] = {0: {"backend": "cuda", "formats": ["kineto"]}}


def judged(detector: str, *spans: dict[str, Any], **more: Any) -> Check:
    return check(connection({"rank": CUDA, "spans": [STEP, *spans], **more}), only=[detector])


@pytest.mark.parametrize(("operator", "world", "said"), [
    ("autograd::engine::evaluate_function: MulBackward0", 2, True), ("aten::mm", 2, False),
    ("autograd::engine::evaluate_function: MulBackward0", 1, False),
])  # fmt: skip
def test_buckets_of_gradients_are_for_ranks_that_train(operator: str, world: int, said: bool) -> None:
    check = judged(
        "device_copies", {"id": 2, "kind": "cpu_op", "name": operator, "at": 1, "for": 3},
        {"id": 3, "kind": "memcpy", "name": "Memcpy DtoD", "at": 10, "for": 200, "transfer": {"direction": "d2d"}},
        {"id": 4, "kind": "kernel", "name": "a", "at": 210, "for": 700},
        run={"world_size": world, "missing_ranks": list(range(1, world))},
    )  # fmt: skip
    (found,) = check.findings
    assert found.saving_ns == 200_000
    for lang in ("en", "zh"):
        assert ("DistributedDataParallel" in found.words[lang].advice) == said


def test_a_kernels_name_is_cut_where_it_cannot_be_judged() -> None:
    """Its first 60 letters, as a generator of kernels begins with what it is."""
    name = "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x32x64_MI16x16x1_SN_LDSB1" + "_X0" * 80
    check = judged("low_efficiency", {"id": 4, "kind": "kernel", "name": name, "at": 10, "for": 900})
    (outcome,) = check.outcomes
    assert outcome.outcome == "not_measured"
    assert outcome.reason.endswith(f"most in {name[:60]}"), outcome.reason


@pytest.mark.parametrize(("frame", "said"), [
    ("model.py(88): forward", "Take model.py(88): forward out of the step's way"),
    ("torch/cuda/graphs.py(240): __enter__", "that work is in a graph already"),
    ("torch/autograd/graph.py(856): _engine_run_backward", "is the whole backward pass"),
    ("torch/nn/functional.py(12): pad", "is a function of the framework: see which of your own lines calls it"),
])  # fmt: skip
def test_only_code_of_the_program_is_taken_out_of_its_way(frame: str, said: str) -> None:
    """The device is done at 130; the host is in the frame from 150 to 390 and launches at 400."""
    check = judged(
        "host_late", {"id": 2, "kind": "runtime", "name": "cudaLaunchKernel", "at": 2, "for": 5},
        {"id": 3, "kind": "kernel", "name": "matmul", "at": 22, "for": 108, "by": 2},
        {"id": 4, "kind": "python", "name": frame, "at": 150, "for": 240},
        {"id": 5, "kind": "runtime", "name": "cudaLaunchKernel", "at": 400, "for": 5},
        {"id": 6, "kind": "kernel", "name": "matmul", "at": 420, "for": 580, "by": 5},
    )  # fmt: skip
    (found,) = check.findings
    assert found.numbers["code"] == frame
    advice = found.words["en"].advice
    assert said in advice
    assert ("out of the step's way" in advice) == frame.startswith("model.py")
    assert ("capture the step as a graph" in advice.lower()) == ("graphs.py" not in frame)
