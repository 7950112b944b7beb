"""The sweep over spans in batches, and ranks put one after the other, against the slow way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from npulens.ingest.tables import device_time
from npulens.ingest.tables.concatenate import arrow, concatenate
from npulens.ingest.tables.steps import Steps

#: In the order of the columns: which of (computing, communication, copy, unknown, wait, transfer) make the state.
STATES = (
    lambda c, m, y, u, w, t: c,
    lambda c, m, y, u, w, t: m,
    lambda c, m, y, u, w, t: m and not c,
    lambda c, m, y, u, w, t: m and c,
    lambda c, m, y, u, w, t: y,
    lambda c, m, y, u, w, t: y and not c and not m,
    lambda c, m, y, u, w, t: u,
    lambda c, m, y, u, w, t: u and not (c or m or y),
    lambda c, m, y, u, w, t: not (c or m or y or u),
    lambda c, m, y, u, w, t: m and not c and w and not t,
)


@pytest.mark.parametrize("seed", range(150))
def test_a_sweep_in_batches_counts_every_nanosecond(seed: int) -> None:
    draw = random.Random(seed)
    length = draw.choice((6, 30, 90))
    spans = sorted(
        (begin, begin + draw.choice((1, 2, 5, length)), draw.randrange(6))
        for begin in (draw.randrange(length) for _ in range(draw.randrange(1, 25)))
    )
    work = [span for span in spans if span[2] < 4]  # tasks may also lie outside of every window
    edges = [span[0] for span in work] + [span[1] for span in work] + [draw.randrange(length)]
    whole = (min(edges), max(edges))
    windows = [whole, *(tuple(sorted(draw.sample(range(whole[0], whole[1] + 1), 2))) for _ in range(3))] if (
        whole[1] - whole[0] > 1
    ) else [whole]  # fmt: skip
    rows = np.array(spans, np.int64)
    cuts = sorted(draw.randrange(1, len(spans) + 1) for _ in range(draw.randrange(6)))
    pieces = [piece for piece in np.split(rows, cuts) if len(piece)]
    batches = [(piece[:, 0], piece[:, 1], piece[:, 2].astype(np.int8)) for piece in pieces]
    found = device_time._sums(np.array(windows, np.int64), batches)
    expected = [
        [
            sum(
                bool(state(*(any(b <= at < e and what == kind for b, e, what in spans) for kind in range(6))))
                for at in range(*window)
            )
            for state in STATES
        ]
        for window in windows
    ]
    assert found.tolist() == expected


def test_ranks_lie_one_after_the_other_each_moved_to_the_origin_of_the_run(tmp_path: Path) -> None:
    steps: list[list[dict[str, Any]]] = [
        [{"rank": 0, "step": 1, "ts_ns": 5, "dur_ns": 7, "device_ts_ns": None, "source": "ProfilerStep"}],
        [],
        [{"rank": 2, "step": n, "ts_ns": n, "dur_ns": 1, "device_ts_ns": n + 3, "source": "s"} for n in range(3)],
    ]
    parts = []
    for number, rows in enumerate(steps):
        home = tmp_path / str(number)
        home.mkdir()
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow("step")), home / "step.parquet")
        parts.append((home, 100 * number))
    concatenate("step", parts, tmp_path / "step.parquet")
    found = pq.read_table(tmp_path / "step.parquet").to_pylist()
    assert [(row["rank"], row["ts_ns"], row["device_ts_ns"], row["dur_ns"]) for row in found] == [
        (0, 5, None, 7), (2, 200, 203, 1), (2, 201, 204, 1), (2, 202, 205, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("work", [(None, None), (2**60 + 5, 2**61 + 7)])
def test_windows_of_years_are_exact(work: tuple[int | None, int | None]) -> None:
    """Beyond 2^53 ns, 104 days, a float no longer holds every nanosecond."""
    begins, ends = [2**60 + 1, 2**60 + 3], [2**60 + 3, 2**61 + 1]
    steps = Steps(*np.array([[1, 2], begins, ends, [2**60 + 2, 2**61 + 3]], np.int64))
    found = device_time._bounds(steps, *work).tolist()
    assert found == [[2**60 + 1, 2**61 + (3 if work[1] is None else 7)], *map(list, zip(begins, ends, strict=True))]
