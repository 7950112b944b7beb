"""Streams that help communication operators, in text and in a database: told by what runs on them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.text_export import ROOT, comm_lanes, comm_op, load, processes, task, write
from tests.torch_npu_db_files import NONE, NOW, Maker
from tests.torch_npu_db_files import load as load_db

#: Two operators, at 1,000 to 2,000 and 2,100 to 3,000 ns.
OPERATORS = [(1_000, 1_000), (2_100, 900)]
#: A nameless task within each, and one that waits from the first into the second.
NAMELESS = [(1_100, 300), (2_200, 500), (1_900, 400)]


def helped(*more: dict[str, Any], kind: str = "Other", name: str = "Other") -> list[dict[str, Any]]:
    ops = [comm_op(f"hcom_allReduce__123_{i}_1", ts, dur) for i, (ts, dur) in enumerate(OPERATORS)]
    tasks = [task(name, ts, dur, kind, stream=11, connection_id=-1) for ts, dur in NAMELESS]
    return [*processes(), *comm_lanes(), *ops, *tasks, task("MatMul1", 0, 500, "Other", stream=2), *more]


def kinds(path: Path, scratch: Path) -> list[tuple[Any, ...]]:
    got = load(path, scratch)
    return got.all(
        "SELECT s.kind, s.dur_ns, o.name, c.task_type FROM span s JOIN track t USING (track) "
        "LEFT JOIN comm c USING (span_id) LEFT JOIN span o ON o.span_id = c.op_span_id WHERE t.stream = 11 ORDER BY 2"
    )


def test_nameless_tasks_of_a_helper_stream_are_communication(tmp_path: Path) -> None:
    """Each belongs to the operator it lies in; a wait from one operator into the next belongs to none for sure."""
    assert kinds(write(tmp_path / ROOT, helped()), tmp_path) == [
        ("comm_task", 300, "hcom_allReduce__123_0_1", None), ("comm_task", 400, None, None),
        ("comm_task", 500, "hcom_allReduce__123_1_1", None),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["NOTIFY_WAIT", "REDUCE_ASYNC_V2"])
def test_named_tasks_of_a_helper_stream_keep_their_type(tmp_path: Path, name: str) -> None:
    """A copy beside them is a part of the operator, no copy of the program's."""
    copy = task("MEMCPY_ASYNC", 1_500, 100, "Other", stream=11, connection_id=-1)
    got = kinds(write(tmp_path / ROOT, helped(copy, name=name)), tmp_path)
    assert [row[0] for row in got] == ["comm_task"] * 4
    assert [row[3] for row in got] == ["MEMCPY_ASYNC", name, name, name]


@pytest.mark.parametrize(
    "other",
    [
        task("MatMul7", 1_600, 100, "Other", stream=11, connection_id=-1),  # a kernel beside them
        task("Other", 1_600, 100, "Other", stream=11, connection_id=5),  # one that was launched
        task("Other", 4_000, 100, "Other", stream=11, connection_id=-1),  # one of four while nothing communicates
    ],
)
def test_what_cannot_be_told_is_neither_kernel_nor_communication(tmp_path: Path, other: dict[str, Any]) -> None:
    got = kinds(write(tmp_path / ROOT, helped(other)), tmp_path)
    assert [row[0] for row in got if row[1] != 100] == ["device_other"] * 3


def test_copies_alone_help_nobody(tmp_path: Path) -> None:
    """A stream of copies that no launch is known of may be the program's own."""
    got = kinds(write(tmp_path / ROOT, helped(name="MEMCPY_ASYNC")), tmp_path)
    assert [row[0] for row in got] == ["memcpy"] * 3


def test_a_database_tells_them_as_well(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "ascend_pytorch_profiler_0.db")
    maker.table(
        "COMMUNICATION_OP(opName INTEGER, startNs INTEGER, endNs INTEGER, connectionId INTEGER, groupName INTEGER, "
        "opId INTEGER)",
        *((f"hcom_allReduce__123_{i}_1", NOW + ts, NOW + ts + dur, 70 + i, "group", i)
          for i, (ts, dur) in enumerate(OPERATORS)),
    )  # fmt: skip
    for number, (ts, dur) in enumerate(NAMELESS):
        maker.task(number, "Other", ts, ts + dur, stream=11, connection=NONE)
    maker.task(9, "KERNEL_AICORE", 0, 500, stream=2, connection=5)
    got = load_db(maker.path, tmp_path / "scratch")
    assert got.all(
        "SELECT s.kind, s.dur_ns, o.name, c.task_type FROM span s JOIN track t USING (track) "
        "LEFT JOIN comm c USING (span_id) LEFT JOIN span o ON o.span_id = c.op_span_id WHERE t.stream = 11 ORDER BY 2"
    ) == [
        ("comm_task", 300, "hcom_allReduce__123_0_1", None), ("comm_task", 400, None, None),
        ("comm_task", 500, "hcom_allReduce__123_1_1", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "connection", "kind"),
    [
        ("DynTileFwkBackendKernelServer", 4294967295, "device_other"),  # by its entry point
        ("MatmulAllReduce_server", 7, "device_other"),  # launched with the kernel it waits for
        ("MatmulAllReduceAicpu", 4294967295, "device_other"),  # drives its transfers; nothing tells who launched it
        ("AllGatherMatmulAicpu", 9, "device_other"),
        ("GatherNd", 8, "kernel"),  # an operator of its own
        ("GatherNd", 4294967295, "kernel"),
    ],
)
def test_schedulers_on_the_ai_cpu_do_not_compute(tmp_path: Path, name: str, connection: int, kind: str) -> None:
    events = [
        *processes(), task("MatmulAllReduce", 100, 500, "MIX_AIC", connection_id=7),
        task(name, 50, 600, "AI_CPU", stream=5, connection_id=connection),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    assert got.one("SELECT kind FROM span WHERE dur_ns = 600") == kind
    assert got.one("SELECT computing_ns FROM device_time WHERE step IS NULL") == (600 if kind == "kernel" else 500)
