"""The contract tables of a small trace, made of arrays instead of statements.

As those of a small database (../../ascend/db/few): what the arrays are not made for is left to the statements.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.kineto import npu
from npulens.ingest.readers.kineto.about import backend_of
from npulens.ingest.readers.kineto.asked import CAPTURE, LAUNCH, WORK
from npulens.ingest.readers.kineto.few import comm, links, series, tables, trace
from npulens.ingest.readers.kineto.few.comm import Rest
from npulens.ingest.readers.kineto.few.links import Tasks
from npulens.ingest.readers.kineto.few.trace import Trace
from npulens.ingest.readers.kineto.spools import Spools
from npulens.ingest.tables.arrays import Found, Unusual, truths


@dataclass
class Made:
    """What was made of a trace, and answers to what is asked of it."""

    trace: Trace
    found: Found
    tasks: Tasks | None = None
    rest: Rest | None = None
    has_size: bool = False
    marked: int = 0

    def cats(self) -> set[str]:
        return set(self.trace.shapes.cat)

    def is_npu(self) -> bool:
        busy = {pid for pid, spans in zip(self.trace.lanes.pid, self.trace.lanes.spans.tolist(), strict=True) if spans}
        if any(label.startswith("NPU") and pid in busy for pid, label in trace.labels(self.trace)):
            return True
        return self._named("runtime", npu.CALLS) or self._named("comm_op", npu.HCCL)

    def is_hip(self) -> bool:
        return self._named("runtime", "^hip")

    def _named(self, kind: str, pattern: str) -> bool:
        """Whether events of a kind have such a name."""
        shapes = self.trace.shapes
        return bool((truths(pc.match_substring_regex(shapes.name, pattern)) & shapes.where(kind)).any())

    def most_used(self) -> object:
        devices = self.trace.raws["device_raw"].ints("device_id")
        known, times = np.unique(devices[devices >= 0], return_counts=True)
        return int(known[np.argmax(times)]) if len(known) else None

    def busiest(self) -> object:
        lanes, spans = self.trace.lanes, Counter[str]()
        for lane in np.flatnonzero(~lanes.device & ~lanes.profiler).tolist():
            spans[lanes.pid[lane]] += int(lanes.spans[lane])
        return min(spans, key=lambda pid: (-spans[pid], pid)) if spans else None

    def groups(self) -> list[tuple[str | None, str | None, str | None]]:
        tasks, rest = self.tasks, self.rest
        if tasks is None or rest is None:
            return []
        rows = tasks.row[self.trace.shapes.where("comm_op")[tasks.of]].tolist()
        name, about, ranks = (f"Process Group {what}" for what in ("Name", "Description", "Ranks"))
        told = ((rest.text(row, name), rest.text(row, about), rest.text(row, ranks)) for row in rows if row in rest)
        return list(dict.fromkeys(told))

    def works(self) -> bool:
        return self.tasks is not None and bool(self.trace.shapes.where(*WORK)[self.tasks.of].any())

    def talks(self) -> bool:
        return self.tasks is not None and len(comm.rows_of(self.trace, self.tasks)) > 0

    def computes(self) -> bool:
        return self.tasks is not None and not self.trace.shapes.where("comm_op")[self.tasks.of].all()

    def suspected(self) -> int:
        return 0

    def unknown(self) -> int:
        return 0

    def sized(self) -> bool:
        return self.has_size

    def captures(self) -> int:
        shapes = self.trace.shapes
        begins = truths(pc.match_substring_regex(shapes.name, CAPTURE)) & shapes.where("runtime")
        return int(begins[self.trace.of].sum())

    def launching(self) -> object:
        shapes = self.trace.shapes
        launches = truths(pc.match_substring_regex(shapes.name, LAUNCH)) & shapes.where("runtime")
        return max(shapes.name.filter(pa.array(launches)).to_pylist(), default=None)

    def ranges(self) -> bool:
        return False

    def frames(self) -> bool:
        return "python" in self.trace.shapes.kind

    def steps(self) -> bool:
        return self.marked > 0


def make(raws: Mapping[str, pa.Table], header: Mapping[str, Any], shift: int, spools: Spools) -> Made | None:
    """What is found in the raw tables of a trace; None: the statements have to read it.

    They read begins without ends, jobs of a CPU, and what only launches tell to be communication.
    """
    rows = spools.rows
    if rows["edge_raw"] or rows["count_rest_raw"] or not rows["device_raw"]:
        return None
    try:
        return _made(raws, header, shift, spools)
    except (Unusual, pa.ArrowInvalid):
        return None


def _made(raws: Mapping[str, pa.Table], header: Mapping[str, Any], shift: int, spools: Spools) -> Made:
    made = Made(Trace(raws), Found())
    found = made.found
    if "unknown" in made.trace.shapes.kind or backend_of(header, made) == "npu":
        raise Unusual
    trace.give_tracks(made.trace, found)
    tasks = made.tasks = links.make(made.trace, found)
    made.rest = rest = Rest(made.trace, "device_rest_raw")
    said = comm.above(made.trace, tasks, Rest(made.trace, "host_rest_raw"))
    made.marked = series.give_steps(made.trace, shift, found)
    if spools.rows["memory_raw"]:
        series.give_memory(made.trace, shift, found)
    if spools.rows["count_raw"]:
        series.give_counters(made.trace, shift, found)
    trace.give_spans(made.trace, shift, found)
    tables.give_host(made.trace, spools.seen, found)
    tables.give_kernels(made.trace, tasks, found)
    tables.give_transfers(made.trace, tasks, rest, found)
    made.has_size = comm.give(made.trace, tasks, said, rest, found)
    tables.give_arguments(made.trace, tasks, found)
    return made
