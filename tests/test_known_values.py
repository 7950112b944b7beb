"""The split of real captures against the figures their own files and an independent reader gave.

KNOWN_VALUES.json of each set holds, for each of twelve rank directories, what the profiler wrote of its step. Where
parts of a capture are not here, the profiler's own figure stands for what nothing else can tell.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.split import Row, breakdown
from npulens.ingest.store import runs

#: 0.001 us
TOLERANCE_NS = 1
NAMES = {
    "Computing": "computing_ns", "Communication(Not Overlapped)": "communication_not_overlapped_ns",
    "Overlapped": "overlapped_ns", "Communication": "communication_ns", "Free": "free_ns", "Stage": "stage_ns",
    "Bubble": "bubble_ns", "Preparing": "preparing_ns", "computing": "computing_ns",
    "communication_not_overlapped": "communication_not_overlapped_ns", "overlapped": "overlapped_ns",
    "communication": "communication_ns", "free": "free_ns", "stage": "stage_ns", "bubble": "bubble_ns",
    "preparing": "preparing_ns",
}  # fmt: skip


#: Sets of captures, and how many figures of eight a rank directory they hold.
SETS = {"traces": 12 * 8, "traces_2": 12 * 8}


@pytest.fixture(scope="module", params=SETS)
def traces(request: pytest.FixtureRequest, shared_traces: Path) -> Path:
    """A set of real captures."""
    found = shared_traces.parent / request.param
    if not found.is_dir():
        pytest.skip(f"the real captures of {request.param} are not here")
    return found


@pytest.fixture(scope="module")
def rows(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Row]]:
    """Each rank directory of the file loaded on its own."""
    where = tmp_path_factory.mktemp("store")
    found = {}
    for name in known(traces):
        directory = traces / name.split("/ASCEND_PROFILER_OUTPUT")[0]
        run = ingest.load(directory, where).runs[0]
        assert run.run_id, run.reason
        found[name] = breakdown(runs.open_run(where, run.run_id))
    return found


def known(traces: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((traces / "KNOWN_VALUES.json").read_text(), parse_float=Decimal)
    return {name: told for name, told in values.items() if name != "_more"}


def test_the_profilers_split_is_reproduced_to_a_thousandth_of_a_microsecond(
    traces: Path, rows: dict[str, list[Row]]
) -> None:
    compared, worst = 0, Decimal(0)
    for name, values in known(traces).items():
        said = values.get("step_trace") or values["StepTraceTime"]
        step = next(row for row in rows[name] if row.step == int(said.get("Step", said.get("step"))))
        assert step.profiler is not None
        for key, field in NAMES.items():
            if key in said:
                off = abs(Decimal(str(said[key])) * 1000 - getattr(step.profiler, field))
                assert off <= TOLERANCE_NS, f"{name}: {key} is off by {off} ns"
                compared, worst = compared + 1, max(worst, off)
        for lane, us in values.get("overlap_from_trace", {}).items():
            assert abs(us * 1000 - getattr(step.profiler, NAMES[lane])) <= TOLERANCE_NS, f"{name}: lane {lane}"
    assert compared == SETS[traces.name]
    print(f"{compared} values of {len(rows)} rank directories, worst {worst} ns off")


def test_every_split_closes_to_the_nanosecond(rows: dict[str, list[Row]]) -> None:
    for row in (row for each in rows.values() for row in each):
        parts = (row.computing_ns, row.communication_not_overlapped_ns, row.copy_not_overlapped_ns, row.idle_ns)
        assert row.residual_ns == (None if None in parts else 0)
