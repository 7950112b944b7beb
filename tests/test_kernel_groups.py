"""Kernels of one kind, what they usually take, and chains of them, against brute force and hand counts."""

from __future__ import annotations

import random
from statistics import median
from typing import Any

import numpy as np
import pytest

from npulens.analysis.detectors.unfused import chains, rules, traffic
from npulens.analysis.device.kernels import ENOUGH, identity, kernels, middle, ordinals, step_slowdown, usual
from npulens.analysis.device.kinds import COLUMNS, Kind, Kinds
from npulens.analysis.device.products import operations, operations_of, values
from npulens.analysis.device.tail import Bounds, tail
from npulens.analysis.device.tensors import dtype, tensors
from npulens.analysis.run import Run
from tests.tablecase import connection


def _run(spans: list[dict[str, Any]], **more: Any) -> Run:
    return Run(connection({"spans": spans, **more}))


def _kernel(number: int, at: float, length: float, op_type: str | None = "A", **more: Any) -> dict[str, Any]:
    rank, track = more.pop("rank", 0), more.pop("track", "s0")
    return {"id": number, "rank": rank, "track": track, "kind": "kernel", "name": more.pop("name", "k"), "at": at,
            "for": length, "kernel": {"op_type": op_type, **more}}  # fmt: skip


def _mark(step: int) -> dict[str, Any]:
    return {"id": 900 + step, "kind": "step_mark", "name": f"ProfilerStep#{step}", "at": 100 * step, "for": 1}


@pytest.mark.parametrize(
    ("shapes", "types", "expected"),
    [
        ("32,3,224,224;64", "FLOAT;DT_BF16", (("32,3,224,224", 19_267_584), ("64", 128))),
        (";8", "INT64;INT32", (("", 8), ("8", 32))),  # a scalar is one value
        ("8", "FLOAT;FLOAT", None),
        ("8", "UNHEARD_OF", None),
        ("a,b", "FLOAT", None),
        ("-1,4", "FLOAT", None),
        (None, "FLOAT", None),
        ("[[2,3],[],[4]]", '["c10::Half","Scalar","long int"]', (("2,3", 12), ("4", 32))),
        ("[[[2,3],[2,3]],[]]", '["TensorList","Scalar"]', None),
        ("[[2,3]", '["float"]', None),
        ("[[true]]", '["TensorList"]', None),
    ],
)
def test_bytes_of_tensors(shapes: str | None, types: str, expected: Any) -> None:
    assert tensors(shapes, types) == expected


def test_types_without_what_printers_add() -> None:
    assert [dtype(name) for name in ("DT_BF16", "c10::BFloat16", "torch.float16", " FLOAT ")] == [
        "BF16", "BFLOAT16", "FLOAT16", "FLOAT",
    ]  # fmt: skip


def test_kinds_tell_work_apart() -> None:
    """The same type with another shape, block count or core is other work; its name does not matter."""
    spans = [
        _kernel(1, 0, 1, input_shapes="8", core="AI_CORE", block_num=4),
        _kernel(2, 1, 1, input_shapes="8", core="AI_CORE", block_num=4, name="other"),
        _kernel(3, 2, 1, input_shapes="9", core="AI_CORE", block_num=4),
        _kernel(4, 3, 1, input_shapes="8", core="AI_CORE", block_num=5),
        _kernel(5, 4, 1, input_shapes="8", core="MIX_AIC", block_num=4),
        _kernel(6, 5, 1, None),
        _kernel(7, 6, 1, None),
        _kernel(8, 7, 1, None, name="other"),
    ]
    every = _run(spans).get(kernels)
    groups: dict[int, set[int]] = {}
    for span, kind in zip(every.span_id, every.kind, strict=True):
        groups.setdefault(int(kind), set()).add(int(span))
    assert sorted(map(sorted, groups.values())) == [[1, 2], [3], [4], [5], [6, 7], [8]]


def test_a_kineto_kernel_has_the_shapes_of_its_operator() -> None:
    spans: list[dict[str, Any]] = [
        {"id": 1, "kind": "cpu_op", "name": "aten::mul", "at": 0, "for": 9,
         "host_op": {"input_shapes": "[[8],[8]]", "input_dtypes": '["float","float"]'}},
        {"id": 2, "kind": "runtime", "name": "cudaLaunchKernel", "at": 1, "for": 1},
        {**_kernel(3, 20, 1, None), "by": 2, "route": "correlation"},
    ]  # fmt: skip
    every = _run(spans).get(kernels)
    (kind,) = every.kinds
    assert (kind.type, kind.inputs, kind.bytes) == ("mul", (("8", 32), ("8", 32)), 96)  # two read, one written


def test_middle_is_the_median_of_each_group() -> None:
    draw = random.Random(3)
    values = [draw.randrange(1000) for _ in range(500)]
    groups = [draw.randrange(40) for _ in range(500)]
    expected = {g: median(v for v, h in zip(values, groups, strict=True) if h == g) for g in groups}
    found = middle(np.array(values, np.float64), np.array(groups, np.int64))
    assert found.tolist() == [expected[g] for g in groups]
    assert len(middle(np.zeros(0), np.zeros(0, np.int64))) == 0


def test_usual_is_of_the_own_rank_where_it_has_enough() -> None:
    spans = [_kernel(n, n * 10, length, input_shapes="8") for n, length in enumerate([1, 2, 3, 4, 9])]
    spans += [_kernel(50 + n, n * 10, 7, input_shapes="8", rank=1) for n in range(3)]
    assert ENOUGH == 5
    run = _run(spans)
    normal, every = run.get(usual), run.get(kernels)
    assert set(normal.median[every.rank == 0]) == {3_000.0} and set(normal.mad[every.rank == 0]) == {1_000.0}
    # Rank 1 has three: all eight together are 1 2 3 4 7 7 7 9.
    assert set(normal.median[every.rank == 1]) == {5_500.0} and set(normal.count[every.rank == 1]) == {8}
    assert np.isnan(_run(spans[:4]).get(usual).median).all()


def test_without_shapes_the_place_in_the_step_is_the_work() -> None:
    marks = [_mark(step) for step in range(3)]
    spans = [_kernel(10 * s + n, 100 * s + 10 * n, 1, None, name="mm") for s in (0, 1, 2) for n in (1, 2)]
    spans += [_kernel(500 + s, 100 * s + 50, 1, None, name="odd") for s in (0, 1, 1, 2)][:3]
    spans[-1]["id"], spans[-1]["at"] = 777, 160  # the second step has two of them, the third none
    run = _run([*marks, *spans])
    place = dict(zip(run.get(kernels).span_id.tolist(), run.get(ordinals).tolist(), strict=True))
    assert [place[n] for n in (1, 11, 21)] == [0, 0, 0] and [place[n] for n in (2, 12, 22)] == [1, 1, 1]
    assert place[501] == place[777] == -1
    same = dict(zip(run.get(kernels).span_id.tolist(), run.get(identity).tolist(), strict=True))
    assert same[1] == same[11] == same[21] != same[2] == same[12] and same[501] == -1


def test_the_place_of_a_kernel_is_in_the_step_that_launched_it() -> None:
    """The host runs ahead: it launches three kernels in each of its steps of 100 us, and the device needs 135 us."""
    spans: list[dict[str, Any]] = [_mark(step) for step in range(5)]
    for step in range(5):
        for n in range(3):
            number, at = 10 * step + n, 100 * step + 20 * n + 10
            # The third call has no operator around it: the stream tells its step.
            spans += [{"id": 200 + number, "kind": "cpu_op", "name": "aten::mm", "at": at, "for": 9}][: 2 - n]
            spans.append({"id": 400 + number, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 1, "for": 1})
            ran = _kernel(number, 135 * step + 45 * n + 50, 40, None, name="mm")
            spans.append({**ran, "by": 400 + number, "route": "correlation"})
    # Launched before the first step: of no step, and no reason to doubt the others.
    spans += [{"id": 199, "kind": "cpu_op", "name": "aten::mm", "at": -50, "for": 9},
              {"id": 399, "kind": "runtime", "name": "cudaLaunchKernel", "at": -49, "for": 1},
              {**_kernel(99, 1, 30, None, name="mm"), "by": 399, "route": "correlation"}]  # fmt: skip
    run = _run(spans)
    every = run.get(kernels)
    assert [int((every.step == step).sum()) for step in range(5)] == [3, 2, 2, 2, 7]  # by where they ran
    place = dict(zip(every.span_id.tolist(), run.get(ordinals).tolist(), strict=True))
    assert [place[10 * step + n] for step in range(5) for n in range(3)] == [0, 1, 0] * 5  # two of mm, one of no name
    assert place[99] == -1


def test_pace_is_of_the_whole_step() -> None:
    marks = [_mark(step) for step in range(5)]
    spans = [
        _kernel(10 * s + n, 100 * s + 9 * n, (5 + n) * (1.4 if s == 3 else 1.0), input_shapes=str(n))
        for s in range(5) for n in range(4)
    ]  # fmt: skip
    spans[1]["for"] = 60.0  # one slow kernel is no slow step
    run = _run([*marks, *spans])
    by_step = {int(step): set(run.get(step_slowdown)[run.get(kernels).step == step].round(9)) for step in range(5)}
    assert by_step == {0: {1.0}, 1: {1.0}, 2: {1.0}, 3: {1.4}, 4: {1.0}}


def test_a_tail_beside_collectives_only_is_contention() -> None:
    """Six kernels beside a collective take twice as long, six without one do not: not the kernel's fault."""
    spans: list[dict[str, Any]] = []
    at = 0
    for n in range(20):
        slow = n % 5 == 0
        spans.append(_kernel(100 + n, at, 200 if slow else 100, input_shapes="8"))
        if slow:
            spans.append({"id": 300 + n, "kind": "comm_op", "name": "hcom", "at": at, "for": 150, "track": "g"})
        at += 200
    assert tail(_run(spans), Bounds()).sum() == 0
    without = [span for span in spans if span["kind"] != "comm_op"]
    assert sorted(tail(_run(without), Bounds()).tolist())[-4:] == [100_000] * 4


def _chain(types: str, shape: str = "64,64", start: int = 1, track: str = "s0") -> list[dict[str, Any]]:
    return [
        _kernel(start + n, start + n, 1, one, track=track, core="AI_VECTOR_CORE", input_shapes=shape,
                input_dtypes="FLOAT", output_shapes=shape, output_dtypes="FLOAT")
        for n, one in enumerate(types.split())
    ]  # fmt: skip


def _found(spans: list[dict[str, Any]]) -> list[tuple[str | None, str]]:
    every = _run(spans).get(kernels)
    return [
        (None if chain.rule is None else chain.rule.operator.split()[0],
         " ".join(every.kinds[kind].type for kind in every.kind[chain.begin : chain.end]))
        for chain in chains(every)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ("MatMulV2 Gelu Add MatMulV2", []),  # two are no chain
        ("MatMulV2 Exp Neg Sqrt MatMulV2", [(None, "Exp Neg Sqrt")]),
        ("Add LayerNormV3 MatMulV2", [("torch_npu.npu_add_layer_norm", "Add LayerNormV3")]),
        ("Pow ReduceMean Adds Rsqrt Mul MatMulV2", [("torch_npu.npu_rms_norm", "Pow ReduceMean Adds Rsqrt Mul")]),
        ("MatMulV2 Sigmoid Mul Mul", [("torch_npu.npu_swiglu", "Sigmoid Mul Mul")]),
        ("BatchMatMulV2 Muls Add SoftmaxV2 BatchMatMulV2",
         [("torch_npu.npu_fusion_attention", "BatchMatMulV2 Muls Add SoftmaxV2 BatchMatMulV2")]),
        ("Muls Add SoftmaxV2 MatMulV2", [("torch_npu.npu_scaled_masked_softmax", "Muls Add SoftmaxV2")]),
        ("Mul Neg ConcatD Mul Add MatMulV2", [("torch_npu.npu_rotary_mul", "Mul Neg ConcatD Mul Add")]),
        ("ForeachMulScalar ForeachLerpScalar ForeachAddcdivScalar",
         [("torch_npu.optim.NpuFusedAdamW", "ForeachMulScalar ForeachLerpScalar ForeachAddcdivScalar")]),
        # What is slow by itself, or is one kernel already, is left alone.
        ("RmsNorm MatMulV2 FlashAttentionScore MatMulV2 SwiGlu MatMulV2 AddRmsNorm", []),
        # Twelve of the same three: a pattern of three, four times.
        ("Exp Neg Sqrt " * 4, [(None, "Exp Neg Sqrt")] * 4),
    ],
)  # fmt: skip
def test_chains(types: str, expected: list[tuple[str | None, str]]) -> None:
    assert _found(_chain(types)) == expected


def test_chains_end_with_the_stream_and_with_the_data() -> None:
    assert _found([*_chain("Exp Neg"), *_chain("Sqrt Tanh", start=10, track="s1")]) == []
    assert _found([*_chain("Exp Neg"), *_chain("Sqrt Tanh", "32,7", start=10)]) == []


def test_the_backward_rule_waits_for_its_forward() -> None:
    """Sums of products are everywhere; they are a norm's backward pass only where the norm was written out too."""
    back = "Mul Muls ReduceMean Mul Sub Mul"
    assert _found(_chain(f"MatMulV2 {back} MatMulV2")) == [(None, back)]
    both = _found(_chain(f"Pow ReduceMean Adds Rsqrt Mul MatMulV2 {back} MatMulV2"))
    assert [operator for operator, _ in both] == ["torch_npu.npu_rms_norm"] * 2


def _kind(op_type: str, inputs: str, output: str) -> Kind:
    count = inputs.count(";") + 1
    return Kind(op_type, op_type, None, None, inputs, ";".join(["FLOAT"] * count), None, output, "FLOAT", None,
                None, None, None, None, False)  # fmt: skip


def test_traffic_of_a_chain() -> None:
    """Add reads two and writes one, Exp reads and writes one: 5 of 4 bytes; from outside come two, one leaves."""
    cost = traffic([_kind("Add", "8;8", "8"), _kind("Exp", "8", "8")], None)
    assert cost is not None and (cost.moved, cost.outside, cost.flop) == (160, 96, 0)
    norm = next(rule for rule in rules()[1] if rule.steps[-1].startswith("layernorm"))
    kept = traffic([_kind("Add", "8;8", "8"), _kind("LayerNormV3", "8", "8")], norm)
    assert kept is not None and kept.outside == 128  # the sum is still written
    assert traffic([_kind("Add", "8;8", "8"), Kind("X", "X", *[None] * 12, False)], None) is None


def test_operations_of_a_product() -> None:
    assert operations(_kind("MatMulV2", "32,64;64,16", "32,16")) == 2 * 32 * 64 * 16
    assert operations(_kind("BatchMatMulV2", "5,32,64;5,64,16", "5,32,16")) == pytest.approx(2 * 5 * 32 * 64 * 16)
    assert operations(_kind("Add", "32,64;64,16", "32,16")) == 0


def _of_torch(op: str, *shapes: list[int]) -> Kind:
    return Kind(op, None, None, op, str(list(shapes)), str(["float"] * len(shapes)).replace("'", '"'), None, None, None,
                None, None, None, None, None, False)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "made", "flop"),
    [
        # Attention of 96 heads over 3137 positions of 64: both products take 2 x 96 x 3137 x 3137 x 64 operations.
        (_of_torch("aten::bmm", [96, 3137, 64], [96, 64, 3137]), "96,3137,3137", 2 * 96 * 3137**2 * 64),
        (_of_torch("aten::bmm", [96, 3137, 3137], [96, 3137, 64]), "96,3137,64", 2 * 96 * 3137**2 * 64),
        (_of_torch("aten::addmm", [50], [30, 40], [40, 50]), "30,50", 2 * 30 * 40 * 50),
        (_of_torch("aten::baddbmm", [7, 3, 5], [7, 3, 4], [7, 4, 5]), "7,3,5", 2 * 7 * 3 * 4 * 5),
        (_of_torch("aten::linear", [2, 30, 40], [50, 40]), "2,30,50", 2 * 2 * 30 * 40 * 50),
        (_of_torch("aten::mm", [3, 4], [5, 6]), "5,6", None),  # they do not fit: like its largest input
    ],
    ids=["scores", "values", "addmm", "baddbmm", "linear", "no product"],
)
def test_what_a_product_of_torch_makes(kind: Kind, made: str, flop: int | None) -> None:
    assert kind.outputs is not None and kind.outputs[0] == (made, 4 * values(made))
    every = Kinds({name: [getattr(kind, name)] for name in COLUMNS})
    assert every.bytes[0] == kind.bytes
    if flop is not None:
        assert operations(kind) == pytest.approx(flop, rel=1e-12)
        assert operations_of(every)[0] == pytest.approx(flop, rel=1e-12)


def test_an_empty_run() -> None:
    run = _run([])
    assert len(run.get(kernels)) == len(run.get(identity)) == len(run.get(step_slowdown)) == 0
    assert len(tail(run, Bounds())) == 0
    assert list(chains(run.get(kernels))) == []


def test_twice_the_same_copy_is_no_chain() -> None:
    """Query, key and value are made contiguous one after the other: none reads what another wrote."""
    assert _found(_chain("Cast Cast Cast MatMulV2")) == []
    assert _found(_chain("Exp Exp Exp Exp")) == []
    assert _found(_chain("Cast Exp Cast")) == [(None, "Cast Exp Cast")]
