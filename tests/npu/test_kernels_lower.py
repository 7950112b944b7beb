"""The kernels of the workloads, lowered for an Ascend chip by triton-ascend as far as that goes without CANN."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.npu.conftest import PATHS, PYTHON, ROOT, Torch
from tests.npu.figures import FIGURES, checked

pytestmark = pytest.mark.npu_contract
TRITON = ROOT / ".venv-npu/triton"


@pytest.fixture(scope="module")
def lowered(site: Path) -> dict[str, Any]:
    if not (TRITON / "triton").is_dir():
        pytest.skip(f"triton-ascend 3.2.0 has no wheel for Python {sys.version_info.major}.{sys.version_info.minor}")
    told = Torch(libraries=PYTHON.parent).run(  # no library that pretends to be CANN is in reach here
        "-m", "tests.npu.lower", more={"PYTHONPATH": os.pathsep.join(map(str, (*PATHS, TRITON)))}
    )
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def jitted() -> dict[str, str]:
    """The kernels of ours that can be launched, public by their name, with their source."""
    trees = (ast.parse(path.read_text()) for path in (ROOT / "collectors/kernels").glob("*.py"))
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return {
        node.name: ast.unparse(node) for node in functions
        if any(ast.unparse(each) == "triton.jit" for each in node.decorator_list) and not node.name.startswith("_")
    }  # fmt: skip


def test_every_kernel_becomes_linalg_for_the_chip(lowered: dict[str, Any]) -> None:
    assert {key.partition("(")[0] for key in lowered} == set(jitted())
    assert {key: each["failed"] for key, each in lowered.items() if "failed" in each} == {}
    for each in lowered.values():
        checked(*each["of"], "kernels lowered for Ascend910B2")
    FIGURES["kernels lowered to Linalg for Ascend910B2"] = len(jitted())
    FIGURES["of them with their types of numbers"] = len(lowered)


def test_products_go_to_the_cube_and_the_rest_to_the_vector_unit(lowered: dict[str, Any]) -> None:
    """tl.dot must come out as a product of matrices: as loops it would run on the vector unit, many times slower."""
    dots = {name for name, source in jitted().items() if "tl.dot(" in source}
    assert dots  # whole_kernel and cross_attention_kernel
    for key, each in lowered.items():
        product = key.partition("(")[0] in dots
        assert (each["operations"]["linalg.matmul"] > 0, each["mode"]) == (product, ["mix" if product else "aiv"]), key
