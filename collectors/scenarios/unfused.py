"""Neighbouring kernels pass data through memory that one kernel would keep.

Planted by writing out one operator of torch_npu that the healthy script calls, forward and backward. Attention is two
batched products around scale, mask, softmax and dropout (npu_fusion_attention). GELU is its tanh formula (npu_gelu).
The residual and its norm are sums, means and products (npu_add_layer_norm, npu_add_rms_norm). SwiGLU is sigmoid and
products (npu_swiglu). Rotary embedding is slices, negation, concatenation and products (npu_rotary_mul). Every piece
costs its memory traffic and a launch, the fused kernel its own traffic and one launch. So the gain is the difference of
both. It shows as chains of short-lived kernels whose outputs the next one reads. Level0 does not tell their types and
shapes.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from npulens.collectors.planting.edit import busy_ns, launches, operator, surroundings
from npulens.collectors.planting.fault import Fault, SimConfig
from npulens.collectors.simulator.items import Item, KernelSpec, Launch, Open
from npulens.collectors.simulator.kernels import CUBE_FLOP_PER_NS, tensors, traffic_ns
from npulens.collectors.simulator.layers import HEAD
from npulens.collectors.simulator.model import build_step

CAUSE = "unfused"
ALSO = ("launch_overhead",)
FORMATS = ("text", "db")
LEVELS = (1, 2)

SPAN = 2_048  # tokens that one token attends to
LEAST = 0.02  # of the step's work: what writing out has to add


class Piece(NamedTuple):
    """One operator of the written out formula, on tensors of a size."""

    op: str
    api: str
    op_type: str
    reads: int  # tensors
    writes: int = 1
    size: str = "rows"  # 'rows': as the fused kernel writes; 'half' of that; 'row': one number a token; 'scores'


def _mul(reads: int = 2, size: str = "rows") -> Piece:
    return Piece("aten::mul", "aclnnMul", "Mul", reads, 1, size)  # with one read, the other is a row


def _muls(size: str = "rows") -> Piece:
    return Piece("aten::mul", "aclnnMuls", "Muls", 1, 1, size)  # by a number


SCORES = Piece("aten::bmm", "aclnnBatchMatMul", "BatchMatMulV2", 2, 1, "product")
SOFTMAX = Piece("aten::softmax", "aclnnSoftmax", "SoftmaxV2", 1, 1, "scores")
SOFTMAX_GRAD = Piece("aten::_softmax_backward_data", "aclnnSoftmaxBackward", "SoftmaxGrad", 2, 1, "scores")
DROPOUT = Piece("npu::_npu_dropout", "aclnnDropoutDoMask", "DropOutDoMask", 1, 1, "scores")
MASK = Piece("aten::add", "aclnnAdd", "Add", 1, 1, "scores")
ADD = Piece("aten::add", "aclnnAdd", "Add", 2)
ADD_ROW = Piece("aten::add", "aclnnAdd", "Add", 1)
ADDS = Piece("aten::add", "aclnnAdds", "Adds", 1)
SUB = Piece("aten::sub", "aclnnSub", "Sub", 1)
POW = Piece("aten::pow", "aclnnPowTensorScalar", "Pow", 1)
TANH = Piece("aten::tanh", "aclnnTanh", "Tanh", 1)
MEAN = Piece("aten::mean", "aclnnMean", "ReduceMean", 1, 0)
RSQRT = (Piece("aten::add", "aclnnAdds", "Adds", 1, 1, "row"), Piece("aten::rsqrt", "aclnnRsqrt", "Rsqrt", 1, 1, "row"))
SIGMOID = Piece("aten::sigmoid", "aclnnSigmoid", "Sigmoid", 1)
SILU_GRAD = Piece("aten::silu_backward", "aclnnSiluBackward", "SwishGrad", 2, 1, "half")
SLICE = Piece("aten::slice", "aclnnInplaceCopy", "Slice", 1, 1, "half")
TURN = (SLICE, SLICE, Piece("aten::neg", "aclnnNeg", "Neg", 1, 1, "half"))
CAT = Piece("aten::cat", "aclnnCat", "ConcatD", 2, 2, "half")
RMS = (POW, MEAN, *RSQRT, _mul(1), _mul(1))

#: type of the fused kernel -> what stands for it where nobody fused it
WRITTEN_OUT: dict[str, tuple[Piece, ...]] = {
    "FlashAttentionScore": (SCORES, _muls("scores"), MASK, SOFTMAX, DROPOUT, SCORES),
    "FlashAttentionScoreGrad": (SCORES, SCORES, DROPOUT, SOFTMAX_GRAD, _muls("scores"), SCORES, SCORES),
    "Gelu": (POW, _muls(), ADD, _muls(), TANH, ADDS, _mul(), _muls()),
    "GeluGrad": (_mul(), POW, _muls(), ADDS, _mul(), _mul(), ADD, _muls()),
    "AddLayerNorm": (ADD, MEAN, SUB, POW, MEAN, *RSQRT, _mul(1), _mul(1), ADD_ROW),
    "AddLayerNormGrad": (_mul(1), MEAN, _mul(), MEAN, SUB, _mul(1), ADD),
    "RmsNorm": RMS,
    "AddRmsNorm": (ADD, *RMS),
    "RmsNormGrad": (_mul(1), _mul(), MEAN, _mul(1), SUB, _mul(1)),
    "SwiGlu": (SIGMOID, _mul(), _mul()),
    "SwiGluGrad": (_mul(2, "half"), _mul(2, "half"), SILU_GRAD, CAT),
    "RotaryPositionEmbedding": (*TURN, CAT, _mul(1), _mul(1), ADD),
    "RotaryPositionEmbeddingGrad": (_mul(1), _mul(1), *TURN, CAT, ADD),
}
FAMILIES = (
    ("FlashAttentionScore", "FlashAttentionScoreGrad"),
    ("Gelu", "GeluGrad"),
    ("AddLayerNorm", "AddLayerNormGrad"),
    ("RmsNorm", "AddRmsNorm", "RmsNormGrad"),
    ("SwiGlu", "SwiGluGrad"),
    ("RotaryPositionEmbedding", "RotaryPositionEmbeddingGrad"),
)


def suit(draw: random.Random, config: SimConfig) -> SimConfig:
    """Either kind of network has operators that could have been left unfused."""
    return replace(config, llama=draw.random() < 0.5)


def plant(draw: random.Random, config: SimConfig) -> Fault:
    more, busy = _more(config), busy_ns(config)
    chosen = draw.choice([family for family in FAMILIES if sum(more.get(kind, 0) for kind in family) > LEAST * busy])
    rank = draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        return items if rank is not None and at != rank else _write_out(items, chosen, config)

    return Fault(CAUSE, ALSO, rank, edit=edit)


def _more(config: SimConfig) -> dict[str, int]:
    """What writing out each kind of kernel adds to the step."""
    found: dict[str, int] = {}
    for item in build_step(config):
        for kernel in item.kernels if isinstance(item, Launch) else ():
            if kernel.op_type in WRITTEN_OUT:
                pieces = (_kernel(piece, kernel, config).base_ns for piece in WRITTEN_OUT[kernel.op_type])
                found[kernel.op_type] = found.get(kernel.op_type, 0) + sum(pieces) - kernel.base_ns
    return found


def _write_out(items: Sequence[Item], chosen: Sequence[str], config: SimConfig) -> list[Item]:
    found: list[Item] = []
    upto = 0
    for index, item in enumerate(items):
        if isinstance(item, Launch) and launches(item, *chosen):
            opened, closed = surroundings(items, index)
            pieces = WRITTEN_OUT[item.kernels[0].op_type]
            kernels = [_kernel(piece, item.kernels[0], config) for piece in pieces]
            first = items[opened]
            assert isinstance(first, Open)
            found += [*items[upto:opened], replace(first, name=pieces[0].op), *items[opened + 1 : index]]
            found += [replace(item, api=pieces[0].api, kernels=(kernels[0],)), items[closed]]
            for piece, kernel in zip(pieces[1:], kernels[1:], strict=True):
                found += operator(piece.op, piece.api, kernel, item.stack)
            upto = closed + 1
    return [*found, *items[upto:]]


def _kernel(piece: Piece, fused: KernelSpec, config: SimConfig) -> KernelSpec:
    rows, width = map(int, fused.outputs.shapes.split(";")[0].split(","))
    name = f"{piece.api}_{piece.op_type}AiCore_{piece.op_type}"
    heads = config.hidden // config.tensor_parallel // HEAD
    blocks = max(1, rows // SPAN)
    scores = (heads * blocks, min(rows, SPAN), SPAN)
    if piece.size == "product":
        left, right = (*scores[:2], HEAD), (heads * blocks, HEAD, SPAN)
        ns = max(2 * prod(scores) * HEAD // CUBE_FLOP_PER_NS, traffic_ns(prod(scores)))
        name = f"{piece.api}_{piece.op_type}_{piece.op_type}"
        return KernelSpec(name, piece.op_type, "AI_CORE", ns, tensors(left, right), tensors(scores))
    side = {"rows": (rows, width), "half": (rows, width // 2), "row": (rows, 1), "scores": scores}[piece.size]
    ns = traffic_ns(prod(side) * (piece.reads + piece.writes))
    out = tensors(side if piece.writes == 1 else (rows, width if piece.writes else 1))
    return KernelSpec(name, piece.op_type, "AI_VECTOR_CORE", ns, tensors(*([side] * piece.reads)), out)
