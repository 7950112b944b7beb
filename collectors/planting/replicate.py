"""A case made long: its steps laid end to end, for captures of ten million spans and more.

What is one stream of events or rows can be laid end to end: trace_view.json with kernel_details.csv, and Kineto traces.
The other tables beside a trace_view.json are left out; the capture says itself that they are missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npulens.collectors.planting.plant import LEVELS, Case, emptied, say, truth_of
from npulens.collectors.writers.ascend import AscendOptions
from npulens.collectors.writers.bench_trace import lap_ns, replicate_kineto, replicate_text
from npulens.collectors.writers.torch_npu_csv import write_kernels
from npulens.collectors.writers.torch_npu_text import rank_directory


def replicate(case: Case, directory: Path, laps: int) -> dict[str, Any]:
    """As ``write``, with every step ``laps`` times; the gain of a fault is the same in each lap."""
    capture, home = case.capture, emptied(directory)
    if capture.format == "db":
        raise ValueError("a database cannot be replicated: choose text or kineto")
    options = AscendOptions(LEVELS[capture.level])  # type: ignore[arg-type]
    for rank in capture.ranks:
        record = case.job.ranks[rank]
        if capture.format == "kineto":
            replicate_kineto(home / f"rank{rank}.pt.trace.json", case.job, record, lambda names, events: laps)
        else:
            output = rank_directory(case.job, record, home, options, ("text",))
            replicate_text(output / "trace_view.json", case.job, record, options, lambda names, events: laps)
            write_kernels(record, output, options, laps, lap_ns(case.job), case.config.steps)
    truth, stride = truth_of(case), lap_ns(case.job)
    for fault in truth["faults"]:
        fault["windows"] = [
            {**window, "ts_ns": window["ts_ns"] + lap * stride} for lap in range(laps) for window in fault["windows"]
        ]
    return say(directory, truth)
