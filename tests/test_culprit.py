"""Whose code a frame is, which frame is named, and which functions compile."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np
import pytest

from npulens.analysis.idle.blame import blames
from npulens.analysis.idle.culprit import FRAMEWORK, GENERATED, OWN, PACKAGE, codes, spoken, whose
from npulens.analysis.idle.host_names import PATTERNS
from npulens.analysis.idle.origin import origin
from npulens.analysis.run import Run
from tests.tablecase import connection


def span(number: int, kind: str, name: str, at: float, length: float, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": kind, "name": name, "at": at, "for": length, **more}


@pytest.mark.parametrize(("frame", "of"), [
    ("train.py(9): step", OWN), ("/opt/app/model.py(88): forward", OWN), ("moca/library/profile.py(34): run", OWN),
    ("transformers/pipelines/video_classification.py(129): preprocess", PACKAGE),
    ("/usr/lib/python3.11/site-packages/torchvision/models/alexnet.py(48): forward", PACKAGE),
    ("torch/nn/modules/linear.py(125): forward", FRAMEWORK),
    ("/usr/lib/python3.11/json/decoder.py(3): decode", FRAMEWORK),
    ("contextlib.py(78): inner", FRAMEWORK), ("logging/__init__.py(1): info", FRAMEWORK),
    ("<string>(1): forward", GENERATED), ("nn.Module: Linear_3", GENERATED), ("<built-in function time>", GENERATED),
    ("/tmp/torchinductor_me/c4/c4odgd3qi5m4vic5bhfszmdmjzihqmi6rnkg7taas4oh5oha7ts7.py(33): call", GENERATED),
    ("c4odgd3qi5m4vic5bhfszmdmjzihqmi6rnkg7taas4oh5oha7ts7.py(33): call", GENERATED),
])  # fmt: skip
def test_whose_code_a_frame_is(frame: str, of: str) -> None:
    assert whose(frame) == of


@pytest.mark.parametrize(("name", "said"), [
    ("<built-in method run_backward of torch._C._EngineBase object at 0x7efc2cecea40>", "run_backward"),
    ("<built-in function time>", "time"), ("<built-in method <lambda> of x>", "<built-in method <lambda> of x>"),
    ("<string>(1): forward", "<string>(1): forward"), ("aten::mm", "aten::mm"),
])  # fmt: skip
def test_a_built_in_function_is_said_by_its_name(name: str, said: str) -> None:
    assert spoken(name) == said


def test_a_frame_that_spans_the_step_is_not_named_but_what_it_calls_is() -> None:
    """`main` takes 95 of the step's 100 us; the pipeline's function 60; below it only what lies deeper in packages."""
    spans = [
        span(1, "step_mark", "ProfilerStep#1", 0, 100), span(2, "python", "main.py(2): main", 1, 95),
        span(3, "python", "transformers/pipelines/video.py(129): preprocess", 10, 60),
        span(4, "python", "transformers/image.py(40): __call__", 12, 50),
        span(5, "python", "torch/a.py(1): f", 80, 5), span(6, "kernel", "k", 20, 70),
    ]  # fmt: skip
    found = codes(Run(connection({"spans": spans})), 0, np.array([30_000, 82_000]))
    assert [str(code) for code in found] == [
        "transformers/pipelines/video.py(129): preprocess", "torch/a.py(1): f",
    ]  # fmt: skip


def test_the_innermost_own_code_with_most_of_the_time_is_named_and_its_moment_comes_first() -> None:
    """Gaps of 31 us in `load`, 25 and 30 in two functions that `batch` calls: `batch` has most."""
    spans = [span(1, "step_mark", "ProfilerStep#1", 0, 1000)]
    spans += [span(2, "python", "data.py(5): load", 50, 30), span(3, "python", "data.py(9): batch", 180, 130)]
    spans += [span(4, "python", "data.py(20): pad", 190, 20), span(5, "python", "data.py(30): mask", 270, 25)]
    for number, (at, length, begin) in enumerate(((5, 40, 10), (85, 100, 86), (215, 50, 216), (300, 699, 301))):
        spans.append(span(10 + 2 * number, "runtime", "Node@launch", at - 4, 2))
        spans.append(span(11 + 2 * number, "kernel", f"k{number}", begin, length, by=10 + 2 * number))
    run = Run(connection({"spans": spans}))
    (found,) = blames(run, "host_late")
    assert found.numbers["code"] == "data.py(9): batch"
    first = found.evidence[0]
    assert 180_000 <= first.ts_ns + first.dur_ns // 2 <= 310_000


@pytest.mark.parametrize(("name", "compiles"), [
    ("torch/_inductor/compile_fx.py(979): run", False), ("torch/_inductor/compile_fx.py(700): compile_fx_inner", True),
    ("torch/_inductor/compile_fx.py(700): fw_compiler_base", True),
    ("torch/_inductor/codecache.py(905): __call__", False),
    ("torch/_inductor/codecache.py(400): load_by_key_path", True), ("torch/_inductor/utils.py(20): run", False),
    ("triton/compiler/compiler.py(300): compile", True), ("triton/compiler/compiler.py(9): __getattribute__", False),
    ("triton/compiler/code_generator.py(4): visit_For", True), ("torch/_dynamo/convert_frame.py(6): __call__", True),
    ("/x/torchair/core/backend.py(8): compile", True), ("torchair/npu_fx_compiler.py(2): compiled_fn", False),
    ("AscendCL@aclopCompileAndExecute", True), ("cuModuleLoadData", True),
    ("Driver Compiler", True), ("Runtime Triggered Module Loading", False), ("Lazy Function Loading", False),
])  # fmt: skip
def test_what_compiles_is_a_function_not_its_file(name: str, compiles: bool) -> None:
    sql = "SELECT regexp_matches(?, ?)"
    assert duckdb.connect().execute(sql, [name, PATTERNS["compile"]]).fetchall() == [(compiles,)]


@pytest.mark.parametrize(
    ("above", "wanted"),
    [
        ([], ""),  # a launch tells nothing of itself
        ([("runtime", "AscendCL@aclnnAdd")], "aclnnAdd"),
        ([("runtime", "AscendCL@aclnnAdd"), ("cpu_op", "aten::add")], "aten::add"),
    ],
)
def test_msprof_alone_tells_which_call_launched_a_task(above: list[tuple[str, str]], wanted: str) -> None:
    hosts_ = [("runtime", "Node@launch"), *above]
    calls = [{"id": at, "kind": kind, "name": name, "at": 10 - at, "for": 5 + 2 * at}
             for at, (kind, name) in enumerate(hosts_, 1)]  # fmt: skip
    task = {"id": 9, "kind": "kernel", "name": "add", "at": 40, "for": 5, "by": 1}
    assert str(origin(Run(connection({"spans": [*calls, task]})), 9)) == wanted
