"""What late host work is named after, and what is advised: no line of the program as a whole, or of compiled code."""

from __future__ import annotations

import numpy as np
import pytest

from npulens.analysis.engine import check
from npulens.analysis.idle.culprit import codes
from npulens.analysis.run import Run
from tests.tablecase import connection
from tests.test_idle import STEP, span


@pytest.mark.parametrize(
    ("begin", "length", "named"),
    [(0, 1000, "aten::mm -> aten::add"), (10, 890, "model"), (5, 900, "aten::mm -> aten::add"), (5, 990, "model"),
     (5, 980, "model")],
)  # fmt: skip
def test_an_annotation_around_the_whole_step_names_nothing(begin: float, length: float, named: str) -> None:
    """Between two of many operators: the annotation that they lie in, or they.

    Around few operators (990), or a rest of more than its half (980), the annotation says more.
    """
    count, further = 4 if length == 990 else 10, 100 if length == 980 else 0
    spans = [
        STEP, span(2, "annotation", "model", begin, length), span(3, "cpu_op", "aten::mm", 100, 50),
        *(span(4 + number, "cpu_op", "aten::add", 550 + further + 10 * number, 5) for number in range(count - 1)),
    ]  # fmt: skip
    assert [str(code) for code in codes(Run(connection({"spans": spans})), 0, np.array([300_000]))] == [named]


@pytest.mark.parametrize(
    ("operator", "advised"),
    [
        ("Torch-Compiled Region: 0/0", "one by one"),
        ("CompiledFunction", "one by one"),
        ("aten::mm", "up inside aten::mm"),
    ],
)
def test_compiled_code_is_to_be_recorded_as_a_graph(operator: str, advised: str) -> None:
    spans = [
        STEP, span(2, "runtime", "cudaLaunchKernel", 0, 5), span(3, "kernel", "a", 10, 90, by=2),
        span(4, "cpu_op", operator, 90, 515), span(5, "runtime", "cudaLaunchKernel", 600, 5),
        span(6, "kernel", "a", 610, 390, by=5),
    ]  # fmt: skip
    (warm,) = check(
        connection({"spans": [*spans, span(7, "runtime", "cudaStreamBeginCapture", 991, 2),
                              span(8, "runtime", "cudaStreamEndCapture", 995, 2)]}), ["host_late"],
    ).findings  # fmt: skip
    assert ("This is warm-up" in warm.words["en"].advice) == (advised == "one by one")
    (found,) = check(connection({"spans": spans}), ["host_late"]).findings
    assert operator in found.words["en"].title and advised in found.words["en"].advice
    assert ("逐个下发" in found.words["zh"].advice) == (advised == "one by one")
