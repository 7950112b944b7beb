"""Marks become steps: the last one may be what the profiler opened when it was about to end."""

from __future__ import annotations

import pyarrow as pa
import pytest

from npulens.ingest.tables.steps import marks_of, tile


def marks(*begins_us: int, last_us: int) -> pa.Table:
    """ProfilerStep marks that touch each other."""
    ends = [*begins_us[1:], begins_us[-1] + last_us]
    return marks_of([pa.table({
        "step": pa.array(range(len(begins_us)), pa.int64()), "ts_ns": pa.array([us * 1000 for us in begins_us]),
        "host_dur_ns": pa.array([1000 * (end - us) for us, end in zip(begins_us, ends, strict=True)]),
        "source": ["ProfilerStep"] * len(begins_us),
    })])  # fmt: skip


@pytest.mark.parametrize(
    ("last_us", "worked_us", "lengths"),
    [
        (30, None, [3800, 3800]),  # nothing ran since, and it is a hundredth of the others
        (30, 7660, [3800, 3800, 60]),  # work of the device began in it
        (1900, None, [3800, 3800, 1900]),  # half a step
    ],
)
def test_a_short_rest_without_work_is_no_step(last_us: int, worked_us: int | None, lengths: list[int]) -> None:
    table, steps = tile(
        marks(0, 3800, 7600, last_us=last_us), 0, 0, lambda since: None if worked_us is None else worked_us * 1000
    )
    assert [ns // 1000 for ns in table["dur_ns"].to_pylist()] == lengths
    assert len(steps.number) == len(lengths)


def test_the_last_step_lasts_as_long_as_its_device_says() -> None:
    """A list of iterations with their ends alone: nothing of the host, and no task of the device."""
    begins = pa.array([0, 3_448_160, 6_561_060])
    table, _ = tile(marks_of([pa.table({
        "step": pa.array([1, 2, 3]), "ts_ns": begins, "device_ts_ns": begins,
        "device_dur_ns": pa.array([1_981_080, 1_917_780, 1_973_900]), "source": ["step_trace"] * 3,
    })]), 0, 0, lambda since: None)  # fmt: skip
    assert table["dur_ns"].to_pylist() == [3_448_160, 3_112_900, 1_973_900]
