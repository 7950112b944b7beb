"""The work of operators, against figures worked out by hand, and what hostile shapes come to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npulens.analysis.work.call import REASONS, Argument, Call, Unmodelled, arguments, values
from npulens.analysis.work.families import Work, spec_of, specs
from npulens.analysis.work.models import MODELS, UNKNOWN, link_bytes, work
from npulens.analysis.work.products import causal_pairs
from npulens.app.text import i18n
from tests.work import counter, tracelens
from tests.work.explained import explained

SIZES = {"float": 4, "c10::BFloat16": 2, "double": 8, "bool": 1}


def kineto(name: str, shapes: Sequence[object], dtype: str | Sequence[str] = "float", given: object = ()) -> Work:
    """The work of a call as Kineto writes it; an empty shape is a plain number."""
    types = [dtype if shape else "Scalar" for shape in shapes] if isinstance(dtype, str) else list(dtype)
    return work(Call(name, arguments(json.dumps(shapes), json.dumps(types)), values(json.dumps(given))))


def cann(name: str, shapes: str, types: str, out: str | None, out_types: str = "", formats: str = "") -> Work:
    """The work of a kernel as torch_npu writes it; `formats` of inputs, then of outputs behind a slash."""
    of_inputs, _, of_outputs = formats.partition("/")
    outputs = None if out is None else arguments(out, out_types or types.split(";")[0], of_outputs)
    return work(Call(name, arguments(shapes, types, of_inputs), (), outputs))


def told(found: Work) -> tuple[int | None, int | None, int | None]:
    assert found.reason is None, found
    return found.matrix, found.vector, found.bytes


# ---- By hand: (matrix operations, other operations, bytes)


@pytest.mark.parametrize(("name", "shapes", "expected"), [
    # 2 x 3 times 3 x 4: 8 results of 3 multiply-adds; 6 + 12 + 8 values of 4 bytes.
    ("aten::mm", [[2, 3], [3, 4]], (48, 0, 104)),
    # As before, and 4 values of bias read, 8 additions.
    ("aten::addmm", [[4], [2, 3], [3, 4], [], []], (48, 8, 120)),
    ("aten::bmm", [[5, 2, 3], [5, 3, 4]], (240, 0, 520)),
    ("aten::baddbmm", [[5, 2, 4], [5, 2, 3], [5, 3, 4], [], []], (240, 40, 680)),
    # The weight of a linear layer lies transposed.
    ("aten::linear", [[7, 2, 3], [4, 3], [4]], (336, 56, (42 + 12 + 56 + 4) * 4)),
    # matmul spreads its batches: 5 x 1 and 6 become 5 x 6.
    ("aten::matmul", [[5, 1, 2, 3], [6, 3, 4]], (30 * 48, 0, (30 + 72 + 240) * 4)),
    ("aten::mv", [[2, 3], [3]], (12, 0, (6 + 3 + 2) * 4)),
    ("aten::dot", [[3], [3]], (6, 0, (3 + 3 + 1) * 4)),
    ("aten::addbmm", [[2, 4], [5, 2, 3], [5, 3, 4], [], []], (240, 8, (30 + 60 + 8 + 8) * 4)),
    ("aten::_grouped_mm", [[6, 3], [2, 3, 4], [2]], (2 * 6 * 3 * 4, 0, (18 + 24 + 24) * 4)),
])  # fmt: skip
def test_products_of_matrices(name: str, shapes: list[list[int]], expected: tuple[int, int, int]) -> None:
    assert told(kineto(name, shapes)) == expected


def test_convolutions_by_their_arguments() -> None:
    # 8 x 8 with a kernel of 3, stride 2, padding 1: 4 x 4 places, 6 channels, 2 x 3 x 3 x 3 operations each.
    places, each = 2 * 6 * 16, 2 * 3 * 9
    moved = (2 * 3 * 64 + 6 * 3 * 9 + places) * 4
    plain = ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"]
    shapes = [[2, 3, 8, 8], [6, 3, 3, 3], [], [], [], [], [], [], []]
    assert told(kineto("aten::convolution", shapes, given=plain)) == (places * each, 0, moved)
    assert told(kineto("aten::convolution", [*shapes[:2], [6], *shapes[3:]], given=plain)) == (
        places * each, places, moved + 24,
    )  # fmt: skip
    # cuDNN's own operator writes padding before stride.
    cudnn = ["", "", "[1, 1]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"]
    assert told(kineto("aten::cudnn_convolution", shapes, given=cudnn)) == (places * each, 0, moved)
    # In three groups every result meets one channel.
    grouped = kineto("aten::convolution", [[2, 3, 8, 8], [6, 1, 3, 3], *shapes[2:]], given=[*plain[:8], "3"])
    assert grouped.matrix == places * 2 * 9
    # Dilation 2 makes a kernel of 3 as wide as 5: 8 + 2 - 5 over 1, and one more, are 6 places.
    wide = ["", "", "", "[1, 1]", "[1, 1]", "[2, 2]", "False", "[0, 0]", "1"]
    assert kineto("aten::convolution", shapes, given=wide).matrix == 2 * 6 * 36 * each


def test_a_convolution_whose_result_another_operator_tells() -> None:
    """Without stride and padding: 2 x 5 x 4 x 4 results, each of 3 x 3 x 3 multiply-adds."""
    x, weight, y = [2, 3, 8, 8], [5, 3, 3, 3], [2, 5, 4, 4]
    moved = (2 * 3 * 64 + 5 * 27 + 2 * 5 * 16) * 4

    def found(name: str, shapes: list[list[int]], gives: list[int]) -> Work:
        types = json.dumps(["float" if shape else "Scalar" for shape in shapes])
        outputs = arguments(json.dumps([gives]), '["float"]')
        return work(Call(f"aten::{name}", arguments(json.dumps(shapes), types), (), outputs))

    expected = (2 * 160 * 27, 0, moved)
    assert told(found("cudnn_convolution", [x, weight, [], [], [], []], y)) == expected
    assert told(found("cudnn_convolution_backward_input", [[], y, weight, [], []], x)) == expected
    assert told(found("cudnn_convolution_backward_weight", [[], y, x, [], []], weight)) == expected
    assert found("cudnn_convolution", [x, weight, [], [], [], []], [2, 6, 4, 4]).reason == "do_not_fit"


def test_a_transposed_convolution_meets_the_kernel_once_for_each_input() -> None:
    # 4 x 4 with a kernel of 3, stride 2, padding 1, one more: (4 - 1) * 2 - 2 + 2 + 1 + 1 = 8.
    found = kineto(
        "aten::convolution", [[2, 3, 4, 4], [3, 5, 3, 3], [], [], [], [], [], [], []],
        given=["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[1, 1]", "1"],
    )  # fmt: skip
    assert told(found) == (2 * 2 * 3 * 16 * 5 * 9, 0, (2 * 3 * 16 + 3 * 5 * 9 + 2 * 5 * 64) * 4)


@pytest.mark.parametrize(("mask", "times", "moved"), [
    # dy 2 x 6 x 4 x 4 = 192, x 2 x 3 x 8 x 8 = 384, weights 162.
    ("[True, True, False]", 2, 192 + 2 * 384 + 2 * 162),
    ("[False, True, False]", 1, 192 + 384 + 162),
    ("[True, False, False]", 1, 192 + 384 + 162),
    ("[False, True, True]", 1, 192 + 384 + 162 + 6),
])  # fmt: skip
def test_each_gradient_of_a_convolution_costs_what_it_did(mask: str, times: int, moved: int) -> None:
    found = kineto(
        "aten::convolution_backward", [[2, 6, 4, 4], [2, 3, 8, 8], [6, 3, 3, 3], *[[]] * 8],
        given=["", "", "", "[0]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", mask],
    )  # fmt: skip
    assert found.matrix == times * 192 * 2 * 27 and found.bytes == moved * 4


def test_attention() -> None:
    shape = [2, 3, 5, 8]
    fused, three = "aten::_scaled_dot_product_flash_attention", [shape, shape, shape, [], []]
    bhsd = kineto(fused, three, given=["", "", "", "0.", "False"])
    assert told(bhsd) == (2 * 2 * 2 * 3 * 25 * 8, 0, 4 * 240 * 4)
    # A causal mask leaves 1 + 2 + 3 + 4 + 5 pairs.
    causal = kineto(fused, three, given=["", "", "", "0.", "True"])
    assert causal.matrix == 2 * 2 * 2 * 3 * 15 * 8
    # The same as batch, sequence, heads, depth; a key has 2 heads where a query has 4.
    grouped = kineto("flash_attn::_flash_attn_forward", [[2, 5, 4, 8], [2, 7, 2, 8], [2, 7, 2, 8]], given=[""] * 6)
    assert grouped.matrix == 2 * 2 * 2 * 4 * 35 * 8
    back = kineto(
        "aten::_scaled_dot_product_flash_attention_backward", [shape] * 5 + [[2, 3, 5]],
        given=[""] * 11 + ["False"],
    )  # fmt: skip
    assert bhsd.matrix is not None and back.matrix == 5 * bhsd.matrix // 2


def test_pairs_of_a_causal_mask_are_those_that_counting_finds() -> None:
    for rows in range(1, 9):
        for columns in range(1, 9):
            seen = sum(column - (columns - rows) <= row for row in range(rows) for column in range(columns))
            assert causal_pairs(rows, columns) == seen


def test_lengths_that_lie_in_data_are_not_guessed() -> None:
    packed = kineto("aten::_flash_attention_forward", [[70, 4, 8], [70, 4, 8], [70, 4, 8], [3], [3]], given=[""] * 9)
    assert packed.reason == "lengths" and packed.matrix is None
    assert kineto("vllm::unified_attention_with_output", [[32, 64, 64]]).reason == "lengths"


@pytest.mark.parametrize(("name", "shapes", "types", "out", "matrix"), [
    ("MatMulV2", "32,4096;4096,9216", "FLOAT;FLOAT", "32,9216", 2 * 32 * 4096 * 9216),
    # Either input may lie transposed: the result tells which side is the inner one.
    ("MatMulV3", "32,4096;32,9216", "FLOAT;FLOAT", "4096,9216", 2 * 32 * 4096 * 9216),
    ("MatMul", "4096,12288;4608,12288", "FLOAT16;FLOAT16", "4096,4608", 2 * 4096 * 12288 * 4608),
    ("BatchMatMul", "12,1024,512;12,512,1024", "FLOAT16;FLOAT16", "12,1024,1024", 12 * 2 * 1024 * 512 * 1024),
    # A product of all rows of a batch at once.
    ("MatMulV2", "2,4096,1024;1024,64", "DT_BF16;DT_BF16", "8192,64", 2 * 8192 * 1024 * 64),
])  # fmt: skip
def test_matrix_products_of_cann(name: str, shapes: str, types: str, out: str, matrix: int) -> None:
    found = cann(name, shapes, types, out)
    size = {"FLOAT": 4}.get(types.split(";")[0], 2)
    count = sum(_product(one) for one in (*shapes.split(";"), out))
    assert told(found) == (matrix, 0, count * size)


def _product(sides: str) -> int:
    found = 1
    for side in sides.split(","):
        found *= int(side)
    return found


def test_blocks_of_a_private_format_are_put_together() -> None:
    # 8192 products of 16 x 16 with 16 x 16, each side in one block.
    nz = cann("BatchMatMul", "8192,1,1,16,16;8192,1,1,16,16", "FLOAT16;FLOAT16", "8192,1,1,16,16", "FLOAT",
              "FRACTAL_NZ;FRACTAL_NZ/FRACTAL_NZ")  # fmt: skip
    assert told(nz) == (8192 * 2 * 16**3, 0, 8192 * 256 * (2 + 2 + 4))
    # AlexNet's first layer: 11 x 11 kernels of 3 channels padded to 8, 64 of them, at 55 x 55 places of 32 pictures.
    conv = cann("Conv2D", "32,1,224,224,8;121,4,16,8;64", "FLOAT;FLOAT;FLOAT", "32,8,55,55,8", "FLOAT",
                "NC1HWC0;FRACTAL_Z;NCHW/NC1HWC0")  # fmt: skip
    assert conv.matrix == 2 * 32 * 55 * 55 * 121 * 8 * 64
    by_kernel = cann("Conv2DBackpropFilter", "32,48,13,13,8;4;32,32,13,13,8", "FLOAT;INT32;FLOAT", "432,16,16,8",
                     "FLOAT", "NC1HWC0;NCHW;NC1HWC0/FRACTAL_Z")  # fmt: skip
    assert by_kernel.matrix == 2 * 32 * 13 * 13 * (48 * 8) * 9 * 256
    by_input = cann("Conv2DBackpropInput", "4;432,16,16,8;32,32,13,13,8", "INT32;FLOAT;FLOAT", "32,48,13,13,8",
                    "FLOAT", "NCHW;FRACTAL_Z;NC1HWC0/NC1HWC0")  # fmt: skip
    assert by_input.matrix == by_kernel.matrix


def test_flash_attention_of_cann_by_what_it_keeps_for_backward() -> None:
    shapes, types = "4096,1,2048;4096,1,1024;4096,1,1024;;;;{}", "DT_BF16;DT_BF16;DT_BF16;DT_BF16;UINT8;DT_BF16;BOOL"
    out, out_types = "1,16,4096,8;1,16,4096,8;;4096,1,2048", "FLOAT;FLOAT;DT_BF16;DT_BF16"
    causal = cann("FlashAttentionScore", shapes.format("2048,2048"), types, out, out_types)
    assert causal.matrix == 2 * 2 * 16 * (4096 * 4097 // 2) * 128
    plain = cann("FlashAttentionScore", shapes.format(""), types, out, out_types)
    assert plain.matrix == 2 * 2 * 16 * 4096 * 4096 * 128
    # A mask of the whole size may be causal or not.
    unknown = cann("FlashAttentionScore", shapes.format("4096,4096"), types, out, out_types)
    assert unknown.matrix is None and unknown.reason == "mask" and unknown.bytes is not None


@pytest.mark.parametrize(("layout", "shape"), [
    ("BSH", [2, 64, 32]), ("SBH", [64, 2, 32]), ("BNSD", [2, 4, 64, 8]), ("BSND", [2, 64, 4, 8]),
])  # fmt: skip
def test_torch_npu_says_how_its_tensors_lie(layout: str, shape: list[int]) -> None:
    def of(sparse: str, mask: list[int]) -> Work:
        plain = ["", "", "", "4", layout, "", "", "", "1.0", "1.0", "65535", "65535", "0", "", "", "", sparse]
        return kineto("npu::npu_fusion_attention", [shape] * 3 + [[]] * 4 + [mask] + [[]] * 9, given=plain)

    assert told(of("0", [])) == (2 * 2 * 2 * 4 * 64 * 64 * 8, 0, 4 * 2 * 64 * 32 * 4)
    assert of("2", [2048, 2048]).matrix == 2 * 2 * 2 * 4 * (64 * 65 // 2) * 8
    assert of("0", [64, 64]).reason == "mask"


@pytest.mark.parametrize(("name", "shapes", "given", "expected"), [
    ("aten::add", [[2, 3], [2, 3], []], (), (0, 6, 72)),
    ("aten::add_", [[2, 3], [3], []], (), (0, 6, (6 + 3 + 6) * 4)),
    # A third tensor, or a second of exp, is the one to write into.
    ("aten::exp", [[2, 3], [2, 3]], (), (0, 6, 48)),
    ("aten::mul", [[2, 3], [2, 3], [2, 3]], (), (0, 6, 72)),
    ("aten::add", [[2, 3], [2, 3], [], [2, 3]], (), (0, 6, 72)),
    ("aten::where", [[2, 3], [2, 3], [2, 3]], (), (0, 6, 96)),
    ("aten::relu", [[2, 3]], (), (0, 6, 48)),
    ("aten::gt", [[2, 3], []], (), (0, 6, 24 + 6)),
    ("aten::sum", [[2, 3, 5], [], [], []], ("", "[-1]", "False", ""), (0, 30, 120 + 24)),
    ("aten::sum", [[2, 3, 5], []], ("", ""), (0, 30, 120 + 4)),
    ("aten::max", [[2, 3], [2, 3]], ("", ""), (0, 6, 72)),
    ("aten::_softmax", [[2, 3], [], []], ("", "-1", "False"), (0, 30, 48)),
    ("aten::copy_", [[2, 3], [3], []], (), (0, 0, 24 + 12)),
    ("aten::fill_", [[2, 3], []], (), (0, 0, 24)),
    ("aten::constant_pad_nd", [[2, 3], [], []], ("", "[1, 2]", "0"), (0, 0, 24 + 48)),
    ("aten::max_pool2d_with_indices", [[1, 2, 6, 6], *[[]] * 5],
     ("", "[2, 2]", "[2, 2]", "[0, 0]", "[1, 1]", "False"), (0, 18 * 4, 288 + 72 + 144)),
    ("aten::upsample_nearest2d", [[1, 2, 3, 4], [], []], ("", "", "[2., 2.]"), (0, 96, 96 + 384)),
    # dy, x, mean and deviation of two rows, weights and bias read; dx and both gradients written.
    ("aten::native_layer_norm_backward", [[2, 8], [2, 8], [], [2, 1], [2, 1], [8], [8], []],
     ("", "", "[8]", "", "", "", "", "[True, True, True]"), (0, 144, (16 + 16 + 2 + 2 + 8 + 8 + 16 + 8 + 8) * 4)),
    # The gradient and the places are read, the input is not.
    ("aten::max_pool2d_with_indices_backward", [[1, 2, 3, 3], [1, 2, 6, 6], *[[]] * 5, [1, 2, 3, 3]],
     [""] * 8, (0, 72, (18 + 18 + 72) * 4)),
    # Two rows of eight values, each with mean and deviation in fp32: 5 a value and 6 a row.
    ("aten::native_layer_norm", [[2, 8], [], [8], [8], []], ("", "[8]", "", "", "1e-05"), (0, 92, 128 + 64 + 16)),
])  # fmt: skip
def test_what_memory_bounds(
    name: str, shapes: list[list[int]], given: Sequence[str], expected: tuple[int, int, int]
) -> None:
    assert told(kineto(name, shapes, given=list(given))) == expected


def test_rows_picked_from_a_table() -> None:
    types = ["float", "long int", "Scalar", "Scalar", "Scalar"]
    found = kineto("aten::embedding", [[1000, 16], [2, 5], [], [], []], types)
    assert told(found) == (0, 0, 10 * 8 + 2 * 10 * 16 * 4)


@pytest.mark.parametrize(("name", "shapes", "types", "expected"), [
    # Three rows of six floats, and of eight bytes with two floats behind them.
    ("fbgemm::FloatToFP8RowwiseQuantized", [[3, 6], []], ["float", "Scalar"], (0, 0, 72 + 3 * 16)),
    ("fbgemm::FP8RowwiseQuantizedToFloat", [[3, 16], []], ["unsigned char", "Scalar"], (0, 0, 48 + 3 * 8 * 4)),
    ("fbgemm::FloatToHFP8Quantized", [[10], [], [], []], ["float", *["Scalar"] * 3], (0, 0, 40 + 10)),
    ("fbgemm::HFP8QuantizedToFloat", [[10], [], []], ["unsigned char", "Scalar", "Scalar"], (0, 0, 10 + 40)),
    ("fbgemm::permute_pooled_embs_auto_grad", [[2, 7], [3], [2]], ["float", "long", "long"], (0, 0, 56 + 40 + 56)),
    # Every index is compared with the rows of its table; the weights of a bag are not looked at.
    ("fbgemm::bounds_check_indices", [[2], [9], [5], [], [1], [9]], ["long", "long", "long", "Scalar", "long", "float"],
     (0, 9, (2 + 9 + 5) * 8)),
])  # fmt: skip
def test_what_embeddings_are_packed_into(
    name: str, shapes: list[list[int]], types: list[str], expected: tuple[int, int, int]
) -> None:
    assert told(kineto(name, shapes, types)) == expected


def test_the_type_that_rows_are_unpacked_to_is_a_value() -> None:
    shapes, types = [[3, 16], [], []], ["unsigned char", "Scalar", "Scalar"]
    name = "fbgemm::FP8RowwiseQuantizedToFloat"
    assert told(kineto(name, shapes, types, ["", "True", "1"])) == (0, 0, 48 + 3 * 8 * 2)
    assert kineto(name, shapes, types).reason == "no_values"
    assert kineto(name, [[3, 7], []], types[:2]).reason == "do_not_fit"


def test_a_list_takes_its_type_from_the_kernel() -> None:
    lists, types = "[[[2, 3], [4]], [[2, 3], [4]]]", '["TensorList", "TensorList"]'
    kernel = "multi_tensor_apply_kernel<at::native::TensorListMetadata<2>, BinaryOpListFunctor<c10::BFloat16>>"
    found = work(Call("aten::_foreach_add_", arguments(lists, types, None, kernel)))
    assert told(found) == (0, 10, (10 + 10 + 10) * 2)
    assert work(Call("aten::_foreach_add_", arguments(lists, types))).reason == "no_types"
    opaque = "CatArrayBatchedCopy<at::native::OpaqueType<2u>, unsigned int>"
    assert told(work(Call("aten::cat", arguments("[[[2, 3], [4]]]", '["TensorList"]', None, opaque)))) == (0, 0, 40)


def test_an_optimiser_writes_what_it_updates() -> None:
    # Parameter, two moments and gradient are read, the first three written; the count is one number.
    found = cann("ApplyAdamWV2", "128;128;128;128;1", "FLOAT;FLOAT;FLOAT;FLOAT;INT64", None)
    assert found.bytes == (4 + 3) * 128 * 4 + 8


def test_what_a_ring_sends() -> None:
    assert link_bytes("allreduce", 1000, 4) == 1500
    assert link_bytes("allgather", 1000, 4) == link_bytes("reducescatter", 1000, 4) == 750
    assert link_bytes("broadcast", 1000, 4) == 1000
    assert link_bytes("allreduce", 1000, 1) == 0 and link_bytes("a new one", 1000, 4) is None


# ---- Properties


@given(st.integers(1, 9), st.integers(1, 99), st.integers(1, 99), st.integers(1, 99))
def test_a_batch_is_as_much_as_its_parts(batch: int, rows: int, inner: int, columns: int) -> None:
    one = kineto("aten::mm", [[rows, inner], [inner, columns]])
    many = kineto("aten::bmm", [[batch, rows, inner], [batch, inner, columns]])
    assert told(many) == tuple(batch * amount for amount in told(one) if amount is not None)


@given(st.integers(1, 5), st.integers(1, 4), st.integers(4, 12), st.integers(1, 3))
def test_groups_divide_a_convolution(batch: int, groups: int, side: int, kernel: int) -> None:
    def of(apart: int) -> Work:
        weight = [groups * 2, groups * 3 // apart, kernel, kernel]
        given_ = ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "False", "[0, 0]", str(apart)]
        return kineto("aten::convolution", [[batch, groups * 3, side, side], weight, *[[]] * 7], given=given_)

    assert of(1).matrix == groups * (of(groups).matrix or 0)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.integers(2, 5))
def test_doubling_every_value_doubles_what_is_moved(shape: list[int], times: int) -> None:
    small, large = (kineto("aten::mul", [one, one]) for one in (shape, [times * shape[0], *shape[1:]]))
    assert told(large) == tuple(times * (amount or 0) for amount in told(small))


SHAPES = st.one_of(
    st.none(), st.text(max_size=30), st.just("NULL"), st.just('"32,3;"'),
    st.from_regex(r"[-0-9,;s]{0,20}", fullmatch=True),
    st.recursive(
        st.one_of(st.none(), st.integers(-3, 2**70), st.text(max_size=5), st.floats()),
        lambda one: st.lists(one, max_size=5), max_leaves=12,
    ).map(json.dumps),
)  # fmt: skip
NAMES = st.sampled_from(sorted(specs()))


@given(NAMES, SHAPES, SHAPES, SHAPES, st.lists(st.text(max_size=12), max_size=12))
def test_whatever_is_written_there_is_an_answer_or_a_reason(
    name: str, shapes: str | None, types: str | None, out: str | None, plain: list[str]
) -> None:
    try:
        inputs = arguments(shapes, types)
        outputs = None if out is None else arguments(out, types)
    except Unmodelled as refused:
        assert refused.reason in REASONS
        return
    _sound(work(Call(name, inputs, tuple(plain), outputs)))


SIDES = st.lists(st.lists(st.one_of(st.integers(0, 3), st.just(64)), max_size=6), min_size=1, max_size=8)


@given(NAMES, SIDES, SIDES, st.sampled_from(sorted(SIZES)), st.lists(
    st.sampled_from(["", "[1, 1]", "[0, 0]", "True", "False", "[-1]", "3", "[True, True, False]", "same", "[]", "0"]),
    max_size=12,
))  # fmt: skip
def test_shapes_that_fit_nothing_come_to_a_reason(
    name: str, shapes: list[list[int]], out: list[list[int]], dtype: str, plain: list[str]
) -> None:
    def read(these: list[list[int]]) -> tuple[Argument, ...]:
        return arguments(json.dumps(these), json.dumps([dtype] * len(these)))

    _sound(work(Call(name, read(shapes), tuple(plain), read(out) if len(out) > 1 else None)))


def _sound(found: Work) -> None:
    for amount in (found.matrix, found.vector, found.bytes):
        assert amount is None or (isinstance(amount, int) and amount >= 0), found
    assert (found.reason is None) or found.reason in REASONS
    assert found.reason is not None or found.bytes is not None


@pytest.mark.parametrize("shapes", [
    "s0,128;128,64", "-1,128;128,64", "[[2, -1], [3, 4]]", '[["s0"], [3]]', "[[2,3]", "[1]",
])  # fmt: skip
def test_symbolic_negative_and_damaged_shapes(shapes: str) -> None:
    with pytest.raises(Unmodelled) as refused:
        arguments(shapes, '["float", "float"]' if shapes.startswith("[") else "FLOAT;FLOAT")
    assert refused.value.reason == "odd_shapes"


def test_an_empty_tensor_is_no_work() -> None:
    assert told(kineto("aten::mm", [[0, 3], [3, 4]])) == (0, 0, 48)
    assert kineto("aten::mm", [[2, 3], [4, 5]]).reason == "do_not_fit"


def test_names_with_endings_that_leave_the_work_as_it_is() -> None:
    for name, plain in (("aten::mul_", "aten::mul"), ("ReduceSumD", "ReduceSum"), ("MatMulV9", "MatMul")):
        found, same = spec_of(name), spec_of(plain)
        assert found is not None and same is not None and found.model == same.model
    assert spec_of("aten::nothing_of_the_kind") is None


def test_every_name_leads_to_a_model() -> None:
    assert {spec.model for spec in specs().values()} - set(MODELS) - set(UNKNOWN) == set()


def test_every_reason_is_told_in_both_languages() -> None:
    for reason in REASONS:
        assert i18n.say("en", f"roofline.why_{reason}") != i18n.say("zh", f"roofline.why_{reason}")


# ---- Beside others


@pytest.mark.shared
def test_rows_of_tracelens_are_equal(shared_traces: Path) -> None:
    rows = [row for path in tracelens.tables(shared_traces) for row in tracelens.rows(path)]
    assert len(rows) >= 29
    assert [row for row in rows if not (row.flops_equal and row.bytes_equal)] == []


@pytest.mark.parametrize(("name", "category", "shapes", "given", "flops", "moved", "right"), [
    # 4 x 4 values are copied: one operation each, which is none here.
    ("aten::copy_", "elementwise", [[4, 4], [4, 4], []], (), 16, 128, True),
    ("aten::copy_", "elementwise", [[4, 4], [4, 4], []], (), 17, 128, False),
    ("aten::copy_", "elementwise", [[4, 4], [4, 4], []], (), 16, 124, False),
    # One value is written and not two.
    ("aten::sum", "reduce", [[2, 3], [], [], []], ("", "[1]", "False", ""), 6, 24 + 4, True),
    ("aten::sum", "reduce", [[2, 3], [], [], []], ("", "[1]", "False", ""), 6, 24 + 12, False),
    # Statistics of eight channels where there are two rows: 5 x 16 and 6 x 8; six vectors of eight.
    ("aten::layer_norm", "NORM_fwd", [[2, 8], [], [8], [8]], ("", "[8]", "", ""), 80 + 48, 128 + 6 * 32, True),
    ("aten::layer_norm", "NORM_fwd", [[2, 8], [], [8], [8]], ("", "[8]", "", ""), 80 + 12, 128 + 7 * 32, False),
])  # fmt: skip
def test_a_difference_is_explained_where_it_comes_to_the_same_figures(
    name: str, category: str, shapes: list[list[int]], given: Sequence[str], flops: int, moved: int, right: bool
) -> None:
    types = json.dumps(["float" if shape else "Scalar" for shape in shapes])
    said = json.dumps(list(given) or [""] * len(shapes))
    ours = tracelens.modelled(name, json.dumps(shapes), types, said)
    row = tracelens.Row(Path("a.csv"), name, category, json.dumps(shapes), types, said, flops, moved, ours)
    assert ours.reason is None and explained(row) is right


@pytest.mark.torch
def test_operations_are_those_that_torch_counts() -> None:
    torch = pytest.importorskip("torch")
    from torch import nn

    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    nets = {
        "groups": (nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=4)), (2, 3, 16, 16)),
        "one side": (nn.Sequential(nn.Conv1d(3, 6, 5, padding=2), nn.Conv1d(6, 4, 3, dilation=2)), (2, 3, 32)),
        "transposed": (nn.ConvTranspose2d(4, 6, 3, 2, 1, 1), (2, 4, 9, 9)),
        "three sides": (nn.Conv3d(2, 3, 3, padding=1), (1, 2, 5, 6, 7)),
        "attention": (layer, (2, 12, 32)),
        "linear": (nn.Sequential(nn.Linear(5, 7), nn.GELU(), nn.Linear(7, 3, bias=False)), (2, 4, 5)),
    }
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        for name, (net, shape) in nets.items():
            data = torch.randn(*shape)
            found = counter.compared(lambda net=net, data=data: net(data).sum().backward())
            assert found.torch > 0 and found.explained and not found.unmodelled, (name, found)
            assert found.equal or name == "groups"


@pytest.mark.torch
def test_an_innermost_operator_is_one_that_holds_no_other() -> None:
    one, other, none = Work("matmul", 5, 0, 9), Work("attention", 7, 0, 9), Work("copy", 0, 0, 9)
    found = [
        counter.Event("outer", 0, 100, 1, other), counter.Event("left", 10, 30, 1, one),
        counter.Event("copy", 12, 20, 1, none), counter.Event("right", 40, 60, 1, one),
        counter.Event("elsewhere", 20, 90, 2, one), counter.Event("after", 100, 120, 1, one),
    ]  # fmt: skip
    assert {event.name for event in counter.kept(found, outermost=True)} == {"outer", "elsewhere", "after"}
    assert {event.name for event in counter.kept(found, outermost=False)} == {"left", "right", "elsewhere", "after"}
