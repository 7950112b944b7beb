"""The clock of the AI cores is below its rating while kernels run.

## What it measures

The samples of 'AI Core Freq' against the rated clock. That is the device's (analysis/device/device_facts.toml) or the
highest this job ever reached on such devices, whichever is more. A kernel that runs at f of a rating r would take f / r
of its time. Where kernels of the same kind ran at the rating too, their time is the comparison instead.

## Why it costs

Cube and vector units work per cycle. At 1350 of 1800 MHz a matrix product takes a third longer. So it does on every
rank of a group that waits for the slow one.

## What to do

Look at power and temperature (`npu-smi info -t power`, `-t temp`, `-t common`: rated against current frequency).
Usual reasons are a power cap, failing cooling, a hot neighbour slot, or too much load on one supply. Move the job to
another device to confirm; a device that stays slow is a hardware case. On NVIDIA: `nvidia-smi -q -d PERFORMANCE`.

## Limits of the method

Kernels bound by memory do not slow down with the clock. Without likes at the rated clock to compare with, the saving is
a ceiling. Clocks of an idle device do not count. If kernels did not get slower as the samples say, the samples belong
to idle moments between them, and nothing is said. The counter needs Level1.

## References

CANN msprof, AI Core Freq layer; msprof-analyze advisor `ai_core_freq_checker.py`; rated clocks: CANN platform_config.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits
from npulens.analysis.by_rank import by_rank
from npulens.analysis.device.abilities import device, named_by
from npulens.analysis.device.frequency import clocked
from npulens.analysis.device.kernels import evidence, kernels
from npulens.analysis.finding import Candidate, Change, NotMeasured, Words
from npulens.analysis.idle.blame import said
from npulens.analysis.run import Run

NEEDS = ("kernels", "kernel_cores", "frequency")


@dataclass(frozen=True)
class Limits(limits.Limits):
    pass


TEXT = {
    "en": {
        "found": Words(
            "Rank {ranks}: AI cores run at {clock_mhz} of {rated_mhz} MHz for {slow_ns} of each step",
            "Check power cap, temperature and cooling of the device (npu-smi info -t power / -t temp / -t common). "
            "Confirm by moving the job to another one. {count} kernels ran below the rating.",
        )
    },
    "zh": {
        "found": Words(
            "rank {ranks}：每步有 {slow_ns} 的时间 AI Core 运行在 {clock_mhz} MHz，额定 {rated_mhz} MHz",
            "请检查该设备的功耗上限、温度与散热（npu-smi info -t power / -t temp / -t common），并换卡验证。"
            "共有 {count} 个算子运行在额定频率以下。",
        )
    },
}


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    every, found = run.get(kernels), run.get(clocked)
    if len(every) and not any((here := device(run, rank)) and here.clock_mhz for rank in run.ranks):
        raise NotMeasured(
            "the rated clock of this device is not known", "该设备的额定频率未知",
            named_by(run) or "an entry in device_facts.toml",
        )
    slow = np.flatnonzero(found.cut > 0)
    for ranks, those in by_rank(every.rank[slow], found.cut[slow]):
        rows = slow[those]
        here = device(run, ranks[0])
        rated = here.clock_mhz or 0.0 if here else 0.0
        share = float(np.average(found.share[rows], weights=every.dur[rows]))
        yield Candidate(
            "frequency_drop", "found",
            {
                "ranks": said(ranks), "count": len(rows), "clock_share": share,
                "rated_mhz": round(rated), "clock_mhz": round(share * rated),
                "slow_ns": int(every.dur[rows].sum()) // run.step_count // len(ranks),
            },
            evidence(every, rows, found.cut[rows]), Change(tasks=every.span_id[rows], task_ns=found.cut[rows]),
            "high" if found.compared[rows].mean() > 0.5 else "medium",
        )  # fmt: skip
