"""The step waits for its input.

## What it measures
Gaps of the device while the host sits in the data loader's `__next__`, as far as nothing else ran on the device.
PyTorch marks that call as `enumerate(DataLoader)#...__next__`. The time of `__next__` that a lead of the host hid is
not counted.

## Why it costs
Nothing can be issued before the batch is there. Workers that are too few, too slow or on the wrong cores make every
step wait.

## What to do
More workers (num_workers), prefetch_factor, persistent_workers, pin_memory with non_blocking copies. Decode on the
device (DVPP on Ascend, DALI on CUDA), or store the data decoded. Bind worker processes to other cores than the trainer.

## Limits of the method
Only loaders that mark their `__next__` are seen: PyTorch's DataLoader, MindSpore's dataset iterators, or a
`record_function` with such a name. The copy of the batch to the device is copy_exposed's business.

## References
torch.utils.data documentation; torch.profiler's annotation in torch/utils/data/dataloader.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, NotMeasured, Words
from npulens.analysis.idle.blame import everywhere
from npulens.analysis.idle.host_names import special
from npulens.analysis.run import Run

NEEDS = ("kernels", "host_ops")

TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: the device idles {idle_ns} of each step ({idle_share}) until the data loader hands over "
            "the next batch",
            "Give the loader more workers (num_workers, prefetch_factor, persistent_workers=True) on cores of their "
            "own. Or make a sample cheaper: decode "
            "[[npu: on the device (DVPP) or ]][[cuda|rocm: on the device (DALI) or ]]ahead of time.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：等待数据加载器给出下一批数据，设备每步空闲 {idle_ns}（{idle_share}）",
            "增加加载进程（num_workers、prefetch_factor、persistent_workers=True）并绑到独立的核，"
            "或降低单样本开销：[[npu: 在设备上解码（DVPP）或]][[cuda|rocm: 在设备上解码（DALI）或]]提前解码。",
        )
    },
}


@dataclass(frozen=True)
class Limits(limits_.Limits):
    """Only the share of the step that every detector has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the ranks that wait most for their input."""
    if not any((spans.causes == "dataloader").any() for spans in run.get(special).values()):
        raise NotMeasured(
            "no call of a data loader was recorded", "未采集到数据加载器的调用",
            "torch.utils.data.DataLoader, or torch.profiler.record_function('DataLoader.__next__') around your own",
        )  # fmt: skip
    if (seen := everywhere(run, "dataloader")) is not None:
        found, change = seen
        yield Candidate(
            "dataloader", "found", found.numbers, found.evidence, change, measured_ns=found.measured_ns
        )  # fmt: skip
