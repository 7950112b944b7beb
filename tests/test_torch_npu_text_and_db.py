"""One simulated job written as text and as database: the two readers say the same, but for what only one file holds."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from torch_npu_db_files import Loaded, load

from npulens.collectors.simulator.simulated import SimConfig, simulate, write_both
from npulens.collectors.writers.ascend import AscendOptions, Generation, Level
from npulens.ingest.readers.ascend import read_torch_npu_db, read_torch_npu_text

#: What a span is, by anything but its number in the file.
KEY = "SELECT span_id, concat_ws('|', process, t.name, s.kind, s.name, s.ts_ns, s.dur_ns, s.step) AS key FROM span s JOIN track t USING (track)"  # noqa: E501
OF_SPANS = {
    "kernel": "op_type, stream, task_id, block_num, input_shapes, input_dtypes, output_shapes, output_formats",
    "comm": "collective, group_name, plane, task_type, src_rank, dst_rank, src_local, dst_local, bytes, count, dtype, "
    "algorithm, transport, link_type, stream, task_id, transit_ns, wait_ns, synchronization_ns, idle_ns",
    "transfer": "blocking",  # old databases do not hold the direction
    "host_op": "input_shapes, input_dtypes, sequence, fwd_thread",
    "stack": "frames",
}
OTHERS = {
    "memory_sample": "component, ts_ns, allocated_bytes, reserved_bytes, active_bytes, stream_ptr, device",
    "memory_event": "* EXCLUDE (rank)",
    "step": "step, ts_ns, dur_ns, host_dur_ns",
    "comm_link": "step, scope, collective, group_name, op_name, src_rank, dst_rank, transport, bytes, transit_ns",
    "parallel_group": "group_name, kind, ranks",
    "clock": "* EXCLUDE (rank)",
}


#: The first generation's database holds less than its text: no groups, tasks without a type.
ALIKE = [age for age in get_args(Generation) if age != "2024-09"]


@pytest.fixture(scope="module", params=[(level, age) for level in ("Level1", "Level2") for age in ALIKE])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Loaded, Loaded]:
    return _load(*request.param, tmp_path_factory.mktemp("both"))


def _load(level: Level, generation: Generation, scratch: Path) -> tuple[Loaded, Loaded]:
    job = simulate(SimConfig(steps=2, layers=2))
    root = write_both(job, scratch, AscendOptions(level, generation), [1])[0]
    loaded = (load(root, scratch / "db", read_torch_npu_db), load(root, scratch / "text", read_torch_npu_text))
    for run in loaded:
        run.con.execute(f"CREATE VIEW named AS {KEY}")
    return loaded


def rows(run: Loaded, query: str) -> list[str]:
    return sorted(map(repr, run.all(query)))


def test_spans_are_the_same(both: tuple[Loaded, Loaded]) -> None:
    """Only the old writer of the simulation spells one CANN call differently in text."""
    query = "SELECT replace(key, 'Launch_Ffts', 'Launch') FROM named WHERE key NOT LIKE '%profiler_split%'"
    db, text = (rows(run, query) for run in both)
    assert db == text and len(db) > 1000


@pytest.mark.parametrize("table", OF_SPANS)
def test_tables_keyed_by_span_are_the_same(both: tuple[Loaded, Loaded], table: str) -> None:
    query = f"SELECT replace(key, 'Launch_Ffts', 'Launch'), {OF_SPANS[table]} FROM {table} JOIN named USING (span_id)"
    db, text = (rows(run, query) for run in both)
    assert db == text and db


@pytest.mark.parametrize("table", OTHERS)
def test_other_tables_are_the_same(both: tuple[Loaded, Loaded], table: str) -> None:
    db, text = (rows(run, f"SELECT {OTHERS[table]} FROM {table}") for run in both)
    assert db == text and db


def test_every_arrow_of_the_text_is_in_the_database(both: tuple[Loaded, Loaded]) -> None:
    """The other way round old versions drew none to events. Arrows to operators start at one of two equal calls."""
    query = (
        "SELECT route, s.key, d.key, latency_ns FROM link JOIN named s ON s.span_id = src_span_id "
        "JOIN named d ON d.span_id = dst_span_id WHERE NOT (route = 'host_to_device' AND d.key LIKE '%|comm_op|%')"
    )
    db, text = (rows(run, query) for run in both)
    assert set(text) <= set(db) and len(text) > 500
    assert all("EVENT_" in arrow for arrow in set(db) - set(text))


def test_what_tasks_belong_to_is_the_same(both: tuple[Loaded, Loaded]) -> None:
    query = "SELECT t.key, o.key FROM comm JOIN named t USING (span_id) JOIN named o ON o.span_id = op_span_id"
    db, text = (rows(run, query) for run in both)
    assert db == text and db
