"""The sides of a convolution's result by what other operators were called with: runs made by hand."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from npulens.analysis.run import Run
from npulens.analysis.work.beside import results
from tests.tablecase import connection

X, WEIGHT, Y = [2, 3, 8, 8], [5, 3, 3, 3], [2, 5, 4, 4]


def op(number: int, name: str, at: float, long: float, shapes: object, sequence: int | None = None) -> dict[str, Any]:
    told = {"input_shapes": json.dumps(shapes), "sequence": sequence}
    return {"id": number, "kind": "cpu_op", "name": name, "at": at, "for": long, "host_op": told}


def forward(number: int, at: float, sequence: int | None) -> dict[str, Any]:
    return op(number, "aten::cudnn_convolution", at, 5, [X, WEIGHT, [], []], sequence)


def node(number: int, at: float, sequence: int | None, gradient: object) -> dict[str, Any]:
    return op(number, "CudnnConvolutionBackward", at, 40, [gradient], sequence)


def found(spans: list[dict[str, Any]], hosts: list[int]) -> list[str | None]:
    numbers, texts = results(Run(connection({"spans": spans})), np.array(hosts, np.int64))
    return [texts.get(int(number)) for number in numbers]


def test_the_gradient_of_a_result_has_its_sides() -> None:
    """One operator twice, and one that is none: each answer stands at its place."""
    spans = [forward(1, 0, 7), forward(2, 10, 8), node(3, 100, 8, [2, 5, 2, 2]), node(4, 200, 7, Y)]
    assert found(spans, [2, 1, 99, 1, -1]) == ["[[2,5,2,2]]", "[[2,5,4,4]]", None, "[[2,5,4,4]]", None]


def test_a_number_that_several_have_says_nothing() -> None:
    twice = [forward(1, 0, 7), forward(2, 10, 7), node(3, 100, 7, Y)]
    assert found(twice, [1, 2]) == [None, None]
    assert found([forward(1, 0, 7), node(2, 100, 7, Y), node(3, 200, 7, [2, 5, 2, 2])], [1]) == [None]
    assert found([forward(1, 0, None), node(2, 100, None, Y)], [1]) == [None]
    assert found([forward(1, 0, 7), node(2, 100, 7, [])], [1]) == [None]


def test_what_both_gradients_result_in_stands_above_them() -> None:
    spans = [
        node(1, 0, 7, Y), op(2, "aten::cudnn_convolution_backward", 1, 30, [X, Y, WEIGHT, []]),
        op(3, "aten::cudnn_convolution_backward_input", 2, 5, [[], Y, WEIGHT, []]),
        op(4, "aten::cudnn_convolution_backward_weight", 10, 5, [[], Y, X, []]),
        op(5, "aten::cudnn_convolution_backward_weight", 50, 5, [[], Y, X, []]),
    ]  # fmt: skip
    assert found(spans, [3, 4, 5]) == ["[[2,3,8,8]]", "[[5,3,3,3]]", None]


def test_shapes_that_are_damaged_say_nothing() -> None:
    spans = [forward(1, 0, 7), node(2, 100, 7, Y)]
    spans[1]["host_op"]["input_shapes"] = "[[2, 5"
    assert found(spans, [1]) == [None]
