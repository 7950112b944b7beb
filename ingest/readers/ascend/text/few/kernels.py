"""kernel_details of a small rank: the same as ../../read_torch_npu_text.py says in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from npulens.ingest.readers.ascend.text import columns
from npulens.ingest.readers.ascend.text.few.cells import Cells
from npulens.ingest.readers.ascend.text.trace_view import LATEST
from npulens.ingest.tables.arrays import Texts, Unusual, is_one, matches
from npulens.ingest.tables.held import Bools
from npulens.ingest.tables.steps import Ints


@dataclass(frozen=True)
class Kernels:
    """Lines of kernel_details: the whole ones, in their order."""

    cells: Cells | None
    rows: Ints  # of the file
    ts: Ints
    dur: Ints
    name: Texts
    stream: Ints
    task: Ints
    step: Ints
    device: Ints
    comm: Bools  # communication operators
    metrics: Sequence[str]
    broken: int

    def __len__(self) -> int:
        return len(self.rows)

    def whole(self, *names: str) -> Ints:
        return self.cells.whole(*names)[self.rows] if self.cells else self.rows

    def ns(self, *names: str) -> Ints:
        return self.cells.ns(*names)[self.rows] if self.cells else self.rows

    def said(self, *names: str) -> Texts:
        return self.cells.said(*names).take(self.rows) if self.cells else self.name

    def tensor(self, name: str) -> Texts:
        """Shapes, types or formats of tensors, without quotes."""
        return self.said(name).map(_bare)

    def metric(self, name: str) -> pa.Array:
        assert self.cells is not None
        return self.cells.approx(name).take(pa.array(self.rows))


def _bare(known: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim(known, '"')
    return pc.if_else(pc.equal(trimmed, ""), None, trimmed)


def make(cells: Cells | None, metrics: Sequence[str]) -> Kernels:
    """The lines that have a name, a start and a duration."""
    if cells is None:
        nothing = np.zeros(0, np.int64)
        no_text = Texts(nothing, pa.nulls(1, pa.string()))
        return Kernels(
            None, nothing, nothing, nothing, no_text, nothing, nothing, nothing, nothing, np.zeros(0, bool), (), 0
        )
    if cells.cell(*columns.START).where(matches(columns.ROUNDED)).any():
        raise Unusual
    ts, dur, name = cells.ns(*columns.START), cells.ns(*columns.DURATION), cells.said(*columns.NAME)
    whole = (ts >= -LATEST) & (ts <= LATEST) & (dur >= 0) & (dur <= LATEST) & name.there
    rows = np.flatnonzero(whole)
    core = cells.said(*columns.CORE)
    talks = core.map(pc.utf8_upper).where(is_one("HCCL", "COMMUNICATION"))
    called = name.where(lambda known: pc.starts_with(known, "hcom_"))
    return Kernels(
        cells, rows, ts[rows], dur[rows], name.take(rows), cells.whole(*columns.STREAM)[rows],
        cells.whole(*columns.TASK)[rows], cells.whole("Step Id")[rows], cells.whole("Device_id")[rows],
        np.where(core.there, talks, called)[rows], metrics, int((~whole).sum()),
    )  # fmt: skip


def give_pmu(kernels: Kernels, spans: Ints, of: Ints, found: Mapping[str, list[pa.Table]]) -> None:
    """Rows of pmu: the measurements of the kernels of spans (-1: of none)."""
    has = np.flatnonzero(of >= 0)
    tables = found.setdefault("pmu", [])  # type: ignore[attr-defined]
    for name in kernels.metrics:
        value = kernels.metric(name).take(pa.array(of[has]))
        known = np.flatnonzero(np.asarray(pc.is_valid(value).to_numpy(False), bool))
        tables.append(
            pa.table({
                "span_id": spans[has][known], "metric": pa.repeat(name, len(known)),
                "value": value.take(pa.array(known)),
            })
        )  # fmt: skip
