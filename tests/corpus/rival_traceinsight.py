"""Asks traceinsight of one run, inside its own environment: `PYTHON rival_traceinsight.py OUT RANK=FILE...`.

OUT is written again after every answer, so that one that takes too long does not lose those before it. Runs by itself:
it imports nothing of npulens.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Rows of a table that are kept: the longest first.
MOST = 200


def rows(table: Any, by: str | None = None) -> list[dict[str, Any]]:
    """A table as plain rows, the greatest of a column first."""
    if by is not None and by in table.columns:
        table = table.sort_values(by, ascending=False)
    found: list[dict[str, Any]] = json.loads(table.head(MOST).reset_index().to_json(orient="records"))
    return found


def answers(files: dict[int, str]) -> dict[str, Callable[[], list[dict[str, Any]]]]:
    """What its user asks, each as a call."""
    trace: Any = importlib.import_module("hta.trace_analysis").TraceAnalysis(
        trace_files=files, include_last_profiler_step=True
    )
    ranks = sorted(files)

    def launches() -> list[dict[str, Any]]:
        every = trace.get_cuda_kernel_launch_stats(ranks=ranks, visualize=False)
        return [{"rank": rank, **row} for rank, table in every.items() for row in rows(table, "cpu_duration")]

    def path() -> list[dict[str, Any]]:
        found = []
        for rank in ranks:
            graph, ok = trace.critical_path_analysis(rank=rank, annotation="ProfilerStep", instance_id=1)
            if ok:
                found += [{"rank": rank, "bound": name, "share": share} for name, share in graph.summary().items()]
        return found

    return {
        "temporal": lambda: rows(trace.get_temporal_breakdown(visualize=False)),
        "kernel_types": lambda: rows(trace.get_gpu_kernel_breakdown(visualize=False, num_kernels=50)[0]),
        "kernels": lambda: rows(trace.get_gpu_kernel_breakdown(visualize=False, num_kernels=50)[1]),
        "overlap": lambda: rows(trace.get_comm_comp_overlap(visualize=False)),
        "idle": lambda: rows(trace.get_idle_time_breakdown(ranks=ranks, visualize=False)[0]),
        "launches": launches,
        "queue": lambda: rows(trace.get_queue_length_summary(ranks=ranks)),
        "stragglers": lambda: [{"rank": rank} for rank in trace.get_potential_stragglers()],
        "path": path,
    }


def main(out: Path, files: dict[int, str]) -> None:
    said: dict[str, Any] = {
        "version": importlib.metadata.version("traceinsight"), "tables": {}, "failed": {}, "text": "",
    }  # fmt: skip
    os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
    try:
        asked = answers(files)
    except Exception as problem:  # what another program raises is not known
        said["failed"]["load"] = repr(problem)
        asked = {}
    out.write_text(json.dumps(said))
    for name, answer in asked.items():
        try:
            said["tables"][name] = answer()
        except Exception as problem:  # the same
            said["failed"][name] = repr(problem)[:300]
        out.write_text(json.dumps(said))


if __name__ == "__main__":
    main(Path(sys.argv[1]), {int(each.split("=", 1)[0]): each.split("=", 1)[1] for each in sys.argv[2:]})
