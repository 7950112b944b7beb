"""Data is copied from device memory to device memory, where a view or a result in place would do.

Planted as copies of activations between operators of the step. They are memory copies within the device, or kernels
that move a tensor (TensorMove under aclnnInplaceCopy). They show on the compute stream with nothing beside them. Which
way a memory copy goes is told from Level2 on, and the type of a kernel from Level1 on. The databases of old Ascend do
not tell it at any level: there they are copies that nothing hides, of unknown direction.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from npulens.collectors.planting.edit import busy_ns, inserted, insertion_points, operator
from npulens.collectors.planting.fault import Capture, Fault, Item, SimConfig
from npulens.collectors.simulator.items import Close, CopyData, KernelSpec, Open
from npulens.collectors.simulator.kernels import HBM_BYTES_PER_NS, tensors, traffic_ns
from npulens.collectors.simulator.rank_sim import COPY_BYTES_PER_NS

CAUSE = "device_copies"
ALSO = ()
LEVELS = (2,)

_TYPES = ("c10::BFloat16", "c10::BFloat16", "Scalar")


def plant(draw: random.Random, config: SimConfig) -> Fault:
    moved, count = draw.random() < 0.5, draw.choice((8, 20, 40))
    ns = draw.uniform(0.04, 0.25) * busy_ns(config) / count
    rank = draw.choice((None, draw.randrange(config.ranks)))

    def edit(at: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        if rank is not None and at != rank:
            return items
        every = insertion_points(items)
        chosen = [every[(number + 1) * len(every) // (count + 1)] for number in range(min(count, len(every) - 1))]
        new: dict[int, list[Item]] = {}
        for spot in chosen:
            new.setdefault(spot.index, []).extend(_moved(ns, spot.stack) if moved else _copied(ns, spot.stack))
        return inserted(items, new)

    untold = config.dialect == "910a" and not moved
    return Fault(CAUSE, ALSO, rank, edit=edit, seen=_untold if untold else None)


def _untold(capture: Capture) -> str:
    return "copy_exposed" if capture.format == "db" else CAUSE


def _copied(ns: float, stack: tuple[str, ...]) -> list[Item]:
    size = int(ns * COPY_BYTES_PER_NS["d2d"]) // 512 * 512
    shapes = (str(size // 2), str(size // 2), "")
    return [Open("cpu_op", "aten::copy_", 3_500, shapes, _TYPES, stack), CopyData("d2d", size, stack), Close(1_200)]


def _moved(ns: float, stack: tuple[str, ...]) -> list[Item]:
    length = max(1024, int(ns * HBM_BYTES_PER_NS / 4))  # two bytes a value, read and written
    side = tensors((length,))
    spec = KernelSpec("aclnnInplaceCopy_TensorMoveAiCore_TensorMove", "TensorMove", "AI_VECTOR_CORE",
                      traffic_ns(2 * length), side, side)  # fmt: skip
    _, launch, closed = operator("aten::copy_", "aclnnInplaceCopy", spec, stack)
    both = Open("cpu_op", "aten::copy_", 3_500, (str(length), str(length), ""), _TYPES, stack)  # written and read
    return [both, launch, closed]
