"""How much of the device time of every shared capture is modelled, and where a share of a roof came out above 1."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from npulens import ingest
from npulens.analysis.work.roofline import Roofline, roofline
from npulens.analysis.work.waterfall import Waterfall, waterfall
from npulens.ingest.errors import IngestError
from npulens.ingest.store import runs as stores


@dataclass(frozen=True)
class Captured:
    """One run of a capture."""

    capture: str
    run_id: str
    device: str
    shapes_share: float  # of device time, kernels whose shapes were recorded
    found: Roofline
    falls: Waterfall

    @property
    def above(self) -> int:
        """Operators with a share above 1."""
        return sum(row.above is not None for row in self.found.rows)

    @property
    def counted(self) -> tuple[float, ...]:
        """Operations that the hardware counted over those of the model, by operator."""
        return tuple(sorted(
            row.counted_flops / row.matrix_flops
            for row in self.found.rows if row.counted_flops and row.matrix_flops
        ))  # fmt: skip


def captured(places: tuple[Path, ...]) -> Iterator[Captured]:
    """Every run with kernels of every capture below the places."""
    for place in places:
        for capture in sorted(one for one in place.iterdir() if one.is_dir()):
            with tempfile.TemporaryDirectory() as kept:
                try:
                    report = ingest.load(capture, Path(kept))
                except IngestError:
                    continue
                for run in report.runs:
                    if run.run_id is not None:
                        yield from _one(capture, Path(kept), run.run_id)


def _one(capture: Path, store: Path, run_id: str) -> Iterator[Captured]:
    con = stores.open_run(store, run_id)
    try:
        found, falls = roofline(con), waterfall(con)
        names = con.execute("SELECT DISTINCT device_name, backend FROM rank ORDER BY ALL").fetchall()
    finally:
        con.close()
    if found.kernel_ns:
        blind = sum(one.ns for one in found.missing if one.reason in ("no_shapes", "no_types", "no_operator"))
        device = ", ".join(str(name or backend) for name, backend in names)
        yield Captured(capture.name, run_id, device, 1 - blind / found.kernel_ns, found, falls)
