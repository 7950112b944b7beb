"""Every workload in every variant and type gives, at its small size on a CPU, what the reference gives in float64."""

from __future__ import annotations

import contextlib
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors import kernels
from npulens.collectors.workloads.workload import Case, NotHere, names, workload

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
#: The first compilation imports parts of torch that torch itself calls deprecated.
own_affair = pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
ROOT = Path(__file__).resolve().parent.parent

#: Share of the norm by which a result may be away from the truth: what the type can hold, with room for its sums.
WITHIN = {"float32": 1e-5, "float16": 2e-3, "bfloat16": 1.6e-2}
#: What a CPU has no use for, and the reason that it gives.
NOT_ON_A_CPU = {
    "pinned": "no device to copy to", "double_buffered": "no device to copy to", "graph": "on CUDA and NPU only",
    "fused": "oneDNN does not compute",
}  # fmt: skip
#: Variants that need triton, which is not part of torch for a CPU.
OF_TRITON = ("triton", "epilogue", "atomic", "sorted")
#: These do several steps, because what a step leaves behind is part of what they compute.
STEPS = 3


def cases() -> Iterator[Any]:
    for name in names():
        for variant in workload(name).VARIANTS:
            for dtype in workload(name).DTYPES:
                # A compilation takes seconds: one type in every run, the others with the torture.
                rare = variant == "compiled" and dtype != "float32"
                marks = [] if variant in OF_TRITON else [pytest.mark.torch]
                yield pytest.param(name, variant, dtype, marks=[*marks, pytest.mark.torture] if rare else marks)


def away(found: Any, wanted: Any) -> float:
    """Their distance as a share of the norm; of nothing, if nothing is wanted and nothing found."""
    return float((found - wanted).norm() / wanted.norm()) if wanted.norm() else float(found.norm())


def outputs(case: Case) -> list[list[Any]]:
    """What each of some steps gave, as float64 and copied before the next step can change it."""
    made = []
    for _ in range(STEPS):
        out = case.step()
        made.append([each.detach().to("cpu").double().clone() for each in (out if isinstance(out, tuple) else (out,))])
    return made


def built(name: str, variant: str, dtype: str, seed: int = 3) -> Case:
    found = workload(name)
    return found.build(variant, found.SHAPES["small"], dtype, "cpu", seed)


@needs_torch
@own_affair
@pytest.mark.parametrize(("name", "variant", "dtype"), list(cases()))
def test_a_variant_computes_what_its_reference_does(
    name: str, variant: str, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kernels.INTERPRET, "1")
    try:
        case = built(name, variant, dtype)
    except NotHere as why:
        if variant in OF_TRITON:
            pytest.skip(str(why))
        assert NOT_ON_A_CPU.get(variant, "nothing") in str(why)
        return
    truth = outputs(built(name, "reference", "float64"))
    for found, wanted in zip(outputs(case), truth, strict=True):
        assert [each.shape for each in found] == [each.shape for each in wanted]
        for one, true in zip(found, wanted, strict=True):
            assert away(one, true) <= WITHIN[dtype]


def test_the_table_of_what_has_run_is_of_these_workloads() -> None:
    """A new variant has not run anywhere until `python -m npulens.collectors.evidence` has been there."""
    told = json.loads((ROOT / "docs" / "evidence" / "cpu.json").read_text())
    found = [(case["workload"], case["variant"], case["dtype"]) for case in told["cases"]]
    assert found == [tuple(case.values) for case in cases()]
    assert {case["outcome"] for case in told["cases"]} == {"run", "not here"}
    checked = json.loads((ROOT / "docs" / "evidence" / "npu-contract.json").read_text())["checked"]
    assert sorted(checked) == names() and all(set(checked[name]) <= set(workload(name).VARIANTS) for name in checked)
    for case in told["cases"]:
        assert case["outcome"] == "not here" or case["relative_error"] <= WITHIN[case["dtype"]], case


@pytest.mark.torch
@needs_torch
@pytest.mark.parametrize(
    ("name", "shape"),
    [("depthwise_conv", "one"), ("embedding_dense_grad", "small_zipf"), ("embedding_dense_grad", "small_same")],
)
def test_the_other_small_shapes_too(name: str, shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeated indices, and the smallest image there is."""
    monkeypatch.setenv(kernels.INTERPRET, "1")
    found = workload(name)
    (wanted,), *_ = outputs(found.build("reference", found.SHAPES[shape], "float64", "cpu", 4))
    tried = 0
    for variant in found.VARIANTS:
        with contextlib.suppress(NotHere):
            if variant != "compiled":
                (one,), *_ = outputs(found.build(variant, found.SHAPES[shape], "float32", "cpu", 4))
                assert one.shape == wanted.shape and away(one, wanted) <= WITHIN["float32"], variant
                tried += 1
    assert tried >= 3
