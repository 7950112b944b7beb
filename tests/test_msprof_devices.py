"""One msprof export about several devices is several ranks; databases of several ranks and exports are all found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npulens.collectors.simulator.simulated import write_both, write_text
from npulens.collectors.writers.ascend import AscendOptions
from npulens.ingest.loading import capture
from npulens.ingest.readers.ascend import read_torch_npu_db
from npulens.ingest.tables.draft import Draft
from tests import torch_npu_db_files
from tests.msprof_export import (
    KERNEL,
    PROF,
    STAMP,
    WHO,
    by_device,
    device_events,
    named,
    op_summary,
    rows,
    text_of,
    write,
)
from tests.simjob import job
from tests.text_export import Loaded, load
from tests.torch_npu_db_files import Maker


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = write_text(job(ranks=2), tmp_path_factory.mktemp("text"), AscendOptions("Level1"), [0, 1])
    return [root / "ASCEND_PROFILER_OUTPUT" for root in made]


@pytest.fixture(scope="module")
def torch(outputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Loaded]:
    return [named(load(output, tmp_path_factory.mktemp("torch"))) for output in outputs]


def test_two_devices_of_one_export_are_two_ranks(outputs: list[Path], torch: list[Loaded], tmp_path: Path) -> None:
    """The second rank's tasks are those of device 1; the calls of the process belong to both."""
    events = [event for output in outputs for event in device_events(output)]
    kernels = [row for output in outputs for row in op_summary(output)]
    root = write(tmp_path / PROF, events, kernels, 2, devices=(0, 1))
    found = by_device(tmp_path, tmp_path)
    assert [(source.facts.rank, source.facts.rank_source) for source, _ in found] == [
        (0, "device id"),
        (1, "device id"),
    ]
    for (source, got), wanted in zip(found, torch, strict=True):
        assert source.root == root and got.part.facts["device_id"] == source.device
        device = "key NOT LIKE 'host_thread|%'"
        query = f"SELECT key FROM named WHERE {device}"
        assert rows(got, query) == rows(wanted, query) != []
        assert rows(got, f"SELECT key, {KERNEL} FROM kernel JOIN named USING (span_id)") == rows(
            wanted, f"SELECT key, {KERNEL} FROM kernel JOIN named USING (span_id)"
        )
        counters = "SELECT counter, series, count(*), sum(value) FROM sample GROUP BY ALL"
        assert rows(got, counters) == rows(wanted, counters) != []
        assert "one process drove the devices 0, 1" in got.cover("span")["reason"]


def test_the_job_numbers_its_ranks_where_it_says_so(outputs: list[Path], tmp_path: Path) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]), devices=(0, 1))
    for device, rank in ((0, 5), (1, 4)):
        (root / f"device_{device}" / f"info.json.{device}").write_text(json.dumps({"rank_id": rank, "hostname": "h"}))
    sources = capture.find([root]).sources
    assert [(s.device, s.facts.rank, s.facts.rank_source) for s in sources] == [(0, 5, "metadata"), (1, 4, "metadata")]


def test_info_json_tells_the_cores_of_each_device(outputs: list[Path], tmp_path: Path) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]), devices=(3,))
    told = [{"id": 2, "ai_core_num": 9}, {"id": 3, "ai_core_num": 20, "aiv_num": 40, "aic_frequency": "1650"}, "x"]
    (root / "device_3" / "info.json.3").write_text(json.dumps({"DeviceInfo": told}))
    ((_, got),) = by_device(root, tmp_path)
    assert json.loads(got.part.facts["settings"]) == {
        "profiler": "msprof", "ai_core_num": 20, "aiv_num": 40, "aic_frequency": 1650,
    }  # fmt: skip


def test_directories_side_by_side_go_by_their_devices(outputs: list[Path], tmp_path: Path) -> None:
    for device in (2, 3):
        write(tmp_path / f"PROF_00000{device}_20250109034804123_ABC", device_events(outputs[0]),
              op_summary(outputs[0]), devices=(device,))  # fmt: skip
    sources = capture.find([tmp_path]).sources
    assert [(s.facts.rank, s.facts.rank_source) for s in sources] == [(2, "device id"), (3, "device id")]


# --- databases


def test_a_database_about_two_devices_is_two_ranks(tmp_path: Path) -> None:
    made = Maker(tmp_path / f"msprof_{STAMP}.db")
    made.task(1, "KERNEL_AICORE", 10, 20)
    made.task(2, "KERNEL_AICORE", 40, 70)
    made.con.execute("UPDATE TASK SET deviceId = 4 WHERE globalTaskId = 2")
    made.table("RANK_DEVICE_MAP(rankId, deviceId)", (-1, 3), (-1, 4))
    made.con.close()
    sources = capture.find([tmp_path]).sources
    assert [(s.facts.rank, s.facts.rank_source) for s in sources] == [(3, "device id"), (4, "device id")]
    for source, expected in zip(sources, ([(10,)], [(30,)]), strict=True):
        draft = Draft(tmp_path / f"d{source.device}", 0)
        read_torch_npu_db.read(source.claims[0], draft)
        (select,) = draft.selects["span"]
        assert draft.con.execute(f"SELECT dur_ns FROM ({select})").fetchall() == expected


def test_databases_of_several_ranks_in_one_folder_are_all_found(tmp_path: Path) -> None:
    for rank in (0, 1, 7):
        made = Maker(tmp_path / f"msmonitor_12_20250109035001_{rank}.db")
        made.task(1, "KERNEL_AICORE", 10, 20)
        made.con.close()
    assert [s.facts.rank for s in capture.find([tmp_path]).sources] == [0, 1, 7]


def test_of_two_databases_of_one_export_the_newer_is_read(tmp_path: Path) -> None:
    root = tmp_path / PROF
    root.mkdir()
    for stamp in ("20250109035001", "20250109045001"):
        made = Maker(root / f"msprof_{stamp}.db")
        made.task(1, "KERNEL_AICORE", 10, 20)
        made.con.close()
    (source,) = capture.find([tmp_path]).sources
    assert [path.name for path in source.files if path.suffix == ".db"] == ["msprof_20250109045001.db"]


def test_text_and_database_of_one_export_agree(outputs: list[Path], torch: list[Loaded], tmp_path: Path) -> None:
    """A PROF directory with both is one rank; each of its files says the same of the device."""
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]))
    both = write_both(job(ranks=2), tmp_path / "db", AscendOptions("Level1"), [0])[0]
    database = both / "ASCEND_PROFILER_OUTPUT" / "ascend_pytorch_profiler_0.db"
    database.rename(root / f"msprof_{STAMP}.db")
    (source,) = capture.find([root]).sources
    assert [claim.format for claim in source.claims] == ["torch_npu_db", "torch_npu_text"]
    db = torch_npu_db_files.load(root, tmp_path / "read")
    db.con.execute(f"CREATE VIEW named AS {WHO.format(db.part.origin_ns)}")
    held = KERNEL.removesuffix(", wait_ns")  # a database does not hold what kernels waited
    query = f"SELECT key, {held} FROM kernel JOIN named USING (span_id)"
    assert sorted(map(repr, db.all(query))) == rows(torch[0], query)


def test_old_exports_lie_in_a_directory_per_device(outputs: list[Path], torch: list[Loaded], tmp_path: Path) -> None:
    root = tmp_path / "PROF_000001_20230818142704322_COJG"
    for device, output in enumerate(outputs):
        for place, name, text in (
            ("timeline", f"msprof_{device}_1.json", json.dumps(device_events(output))),
            ("summary", f"op_summary_{device}_1.csv", text_of(op_summary(output))),
        ):
            (root / f"device_{device}" / place).mkdir(parents=True)
            (root / f"device_{device}" / place / name).write_text(text, newline="")
    found = by_device(tmp_path, tmp_path)
    assert [(s.root.name, s.facts.rank) for s, _ in found] == [("device_0", 0), ("device_1", 1)]
    for (_, got), wanted in zip(found, torch, strict=True):
        query = f"SELECT key, {KERNEL} FROM kernel JOIN named USING (span_id)"
        assert rows(got, query) == rows(wanted, query) != []


def test_a_table_that_names_a_thousand_devices_is_not_parsed_a_thousand_times(tmp_path: Path) -> None:
    lines = "".join(f"{device},a,1,1\n" for device in range(1000))
    (tmp_path / f"op_summary_{STAMP}.csv").write_text(
        f"Device_id,Op Name,Task Start Time(us),Task Duration(us)\n{lines}"
    )
    (source,) = capture.find([tmp_path]).sources
    assert source.device is None


def test_a_device_beyond_any_number_is_none(tmp_path: Path) -> None:
    for device in ("0", "99999999999"):
        (tmp_path / f"op_summary_{device}_1.csv").write_text("Op Name,Task Start Time(us),Task Duration(us)\na,1,1\n")
    assert [source.device for source in capture.find([tmp_path]).sources] == [None]
