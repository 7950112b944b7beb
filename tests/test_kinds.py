"""What is told of many kinds of work at once is what each of them says alone."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from npulens.analysis.device.conversion import conversion
from npulens.analysis.device.kinds import COLUMNS, TYPED, Coded, Kind, Kinds
from npulens.analysis.device.products import operations, operations_of
from npulens.analysis.device.shapes import Tensors
from npulens.analysis.device.tensors import PRODUCTS, tensors
from npulens.analysis.work import many, operators
from npulens.analysis.work.operators import work_of
from npulens.analysis.work.works import Works

OPERATORS = (
    "aten::mm", "aten::addmm", "aten::bmm", "aten::linear", "aten::add", "aten::mul", "aten::native_layer_norm",
    "aten::_softmax", "aten::sum", "aten::mean", "aten::cat", "aten::copy_", "aten::index_select", "aten::gelu",
    "aten::_scaled_dot_product_flash_attention", "aten::conv2d", "aten::_convolution", "aten::max_pool2d",
    "aten::where", "aten::embedding", "aten::nobody_knows", "aten::addbmm", "aten::grid_sampler_2d",
)  # fmt: skip
TYPES = ("float", "c10::BFloat16", "c10::Half", "long int", "bool", "Scalar", "", "float", "float", "TensorList", "xyz")
#: Spellings that no profiler was seen with, or that say nothing.
ODD = (
    "[]", "[[]]", "[[], []]", "[[1,2]", "[[01]]", "[[1.5]]", "[[true]]", "[[-1, 2]]", "[[[2, 3], [4]], [5]]", "{}", "",
    "null", "[1, 2]", "[[4294967296, 4294967296, 4294967296]]", "[[1099511627776, 4096]]", " [[1]]", "[[1] ,[2]]",
    "[[1 2]]", "3,4;5", '"3,4;5"', "3,,4;5", ";", "N/A", "-3;4", "3, 4;5",
)  # fmt: skip


def _kineto(draw: random.Random, sides: int) -> tuple[str, str]:
    count = draw.randrange(1, 4)
    shapes = [[draw.choice((1, 1, 2, 3, 8, 768, draw.randrange(4096))) for _ in range(sides)] for _ in range(count)]
    comma = draw.choice((", ", ","))
    text = "[" + comma.join("[" + comma.join(map(str, one)) + "]" for one in shapes) + "]"
    known = TYPES[:1] if draw.random() < 0.6 else TYPES
    types = ", ".join(f'"{name}"' for name in draw.choices(known, k=count if draw.random() < 0.95 else count + 1))
    return text, f"[{types}]"


def _ascend(draw: random.Random) -> tuple[str, str]:
    count = draw.randrange(1, 4)
    shapes = (",".join(str(draw.randrange(0, 512)) for _ in range(draw.randrange(4))) for _ in range(count))
    types = (draw.choice(("FLOAT", "DT_BF16", "INT64", "", "NOTHING")) for _ in range(count))
    quote = draw.choice(("", '"'))
    return f"{quote}{';'.join(shapes)}{quote}", f"{quote}{';'.join(types)}{quote}"


def some(seed: int, count: int = 400) -> Kinds:
    """Kinds of every profiler, in usual and in odd spellings."""
    draw = random.Random(seed)
    rows: list[list[Any]] = []
    for _ in range(count):
        kind = dict.fromkeys(COLUMNS, None) | {"name": draw.choice(("k<1>", "void f()", "copy_x")), "memset": False}
        which = draw.random()
        if which < 0.1:
            kind |= {"op": f"aten::{draw.choice(tuple(PRODUCTS))}"}
            batch, (m, n, k) = [draw.randrange(1, 4)] * draw.randrange(2), (draw.randrange(1, 50) for _ in range(3))
            fit = [[*batch, m, k], [*draw.choice((batch, [])), *draw.choice(((k, n), (n, k)))]]
            kind["input_shapes"] = str([[n]] * draw.randrange(2) + fit)
            kind["input_dtypes"] = str(["float"] * (kind["input_shapes"].count("], [") + 1)).replace("'", '"')
        elif which < 0.7:
            kind |= {"op": draw.choice(OPERATORS)}
            kind["input_shapes"], kind["input_dtypes"] = _kineto(draw, draw.choice((0, 1, 2, 2, 2, 3, 4)))
        elif which < 0.9:
            kind |= {"op_type": draw.choice(("MatMulV2", "Add", "Cast")), "core": draw.choice(("AI_CORE", "AI_CPU"))}
            kind["input_shapes"], kind["input_dtypes"] = _ascend(draw)
            if draw.random() < 0.7:
                kind["output_shapes"], kind["output_dtypes"] = _ascend(draw)
        else:
            kind |= {"op": draw.choice((None, "aten::sum")), "memset": draw.random() < 0.2}
            kind["input_shapes"] = draw.choice((None, *ODD))
            kind["input_dtypes"] = draw.choice((None, '["float"]', '["float", "float"]', "FLOAT;FLOAT", "[1]", "[", ""))
        rows.append([kind[name] for name in COLUMNS])
    return Kinds(dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)))


def _one_by_one(some_: Tensors, at: int) -> list[int] | None:
    begin, end = some_.first[at : at + 2]
    return some_.bytes[begin:end].tolist() if some_.known[at] else None


def _sides(shape: str) -> list[int]:
    return [int(side) for side in shape.split(",")] if shape else []


@pytest.mark.parametrize("seed", range(4))
def test_tensors_of_all_kinds_are_those_of_each(seed: int) -> None:
    kinds = some(seed)
    for at in range(len(kinds)):
        kind = kinds[at]
        for told, said in ((kinds.inputs, kind.inputs), (kinds.outputs, kind.outputs)):
            if said is not None and any("True" in shape for shape, _ in said):
                continue
            sizes = None if said is None else [min(size, 2**60) for _, size in said]
            assert _one_by_one(told, at) == sizes, kind
            for place, (shape, _) in enumerate(said or ()):
                row, sides = int(told.first[at]) + place, _sides(shape)
                product = np.prod(np.array(sides, object), initial=1)
                assert told.values[row] == min(product, 2**60), kind
                assert told.sides[row] == len(sides)
                batch = np.prod(np.array(sides[:-2], object), initial=1)
                assert told.matrices[row] == min(batch, 2**60), kind
        whole = kind.bytes
        assert kinds.bytes[at] == (-1 if whole is None else min(whole, kinds.bytes[at])), kind


def test_what_a_few_columns_decide_is_asked_once_for_each() -> None:
    kinds = some(9)
    asked: list[Kind] = []

    def says(kind: Kind) -> str | None:
        asked.append(kind)
        return conversion(kind)

    told = kinds.each(says, "memset", "core", *TYPED, "input_dtypes")
    assert told.every() == [conversion(kind) for kind in kinds]
    assert len(asked) == len({(k.memset, k.core, k.name, k.op_type, k.op, k.input_dtypes) for k in kinds}) < len(kinds)
    assert kinds.types.every() == [kind.type for kind in kinds]
    assert kinds.there("output_shapes").tolist() == [kind.output_shapes is not None for kind in kinds]


@pytest.mark.parametrize("seed", range(6))
def test_calls_that_are_asked_together_get_the_work_that_each_gets_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = some(seed + 20, 1_500)
    given = Coded(np.full(len(kinds), random.Random(seed).randrange(2)), (None, '["", "", "1"]'))
    together = [0]
    alone = many.works

    def counted(*args: Any) -> list[many.Together]:
        found = list(alone(*args))
        together[0] += sum(len(one.rows) for one in found)
        return found

    monkeypatch.setattr(many, "works", counted)
    nothing = Coded(np.zeros(len(kinds), np.int64), (None,))
    found = operators.works(kinds, np.arange(len(kinds)), given, nothing, "cuda")
    for kind, said, one in zip(kinds, given.every(), found, strict=True):
        assert one == work_of(kind, said, "cuda"), kind
        assert {type(amount) for amount in (one.matrix, one.vector, one.bytes)} <= {int, type(None)}
    assert together[0] > 100


def test_numbers_that_do_not_fit_are_asked_alone() -> None:
    big = np.full(8, 1 << 31, np.int64)
    found = many.works("aten::mm", ("FLOAT", "FLOAT"), ((big, big), (big, big)), (), 8)
    assert list(found) == []
    small = np.arange(8, dtype=np.int64) + 1
    found = many.works("aten::mm", ("FLOAT", "FLOAT"), ((small, small), (small, small)), (), 8)
    (told,) = Works.of(8, found, {}).amounts[:1].tolist()
    assert told == [2 * side**3 for side in range(1, 9)]


def test_matrix_products_of_all_kinds_are_those_of_each() -> None:
    kinds = some(40)
    for kind, flop in zip(kinds, operations_of(kinds).tolist(), strict=True):
        if _plain(kind):
            assert flop == operations(kind), kind


def _plain(kind: Kind) -> bool:
    found = tensors(kind.input_shapes, kind.input_dtypes)
    return found is None or all(size < 2**50 and "True" not in shape for shape, size in found)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("_ZN2ck16tensor_operation6device12_GLOBAL__N_111kernel_gemmIfEEvT_", "kernel_gemm"),
        ("_Z9transposePfS_ii", "transpose"),
        ("_ZN2ck", "ck"),
        ("void at::native::vectorized_elementwise_kernel<4, F>(int)", "at::native::vectorized_elementwise_kernel"),
        (f"Cijk_Alik_Bljk_MT256x32x64_{'A' * 90}", f"Cijk_Alik_Bljk_MT256x32x64_{'A' * 33}"),
        ("_Z", "_Z"), ("_ZNSt", "_ZNSt"), ("_Z99x", "x"), ("_Z0abc", "_Z0abc"),
    ],
)  # fmt: skip
def test_what_a_kernel_without_an_operator_is_called(name: str, said: str) -> None:
    assert Kind(name, *[None] * 13, False).type == said
