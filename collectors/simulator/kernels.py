"""The kernels of a simulated network and what each costs: matrix work by its operations, the rest by its bytes."""

from __future__ import annotations

from math import prod

from npulens.collectors.simulator.items import KernelSpec, Tensors

CUBE_FLOP_PER_NS = 280_000  # what a large bfloat16 matrix product reaches
HBM_BYTES_PER_NS = 1_200
BF16 = 2
VECTOR_FLOOR_NS = 1_800  # the shortest vector kernel
EMPTY = Tensors("", "", "")


def tensors(*shapes: tuple[int, ...], dtype: str = "DT_BF16", layout: str = "ND") -> Tensors:
    return Tensors(
        ";".join(",".join(map(str, shape)) for shape in shapes),
        ";".join([dtype] * len(shapes)),
        ";".join([layout] * len(shapes)),
    )


def dims(*shapes: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(",".join(map(str, shape)) for shape in shapes)


def matmul(api: str, m: int, k: int, n: int) -> KernelSpec:
    return KernelSpec(
        f"{api}_MatMulCommon_MatMulV2",
        "MatMulV2",
        "AI_CORE",
        2 * m * k * n // CUBE_FLOP_PER_NS + 4_000,
        tensors((m, k), (k, n)),
        tensors((m, n)),
    )


def traffic_ns(values: int) -> int:
    """How long a vector kernel takes that moves so many bfloat16 values through memory."""
    return values * BF16 // HBM_BYTES_PER_NS + VECTOR_FLOOR_NS


def vector(api: str, op_type: str, inputs: int, shape: tuple[int, ...], core: str = "") -> KernelSpec:
    """Reads ``inputs`` tensors of that shape and writes one."""
    return KernelSpec(
        f"{api}_{op_type}AiCore_{op_type}",
        op_type,
        core or "AI_VECTOR_CORE",
        traffic_ns(prod(shape) * (inputs + 1)),
        tensors(*([shape] * inputs)),
        tensors(shape),
    )
