"""msprof exports: a simulated job written as msprof writes it gives the tables that its torch_npu export gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from collectors.backends._ascend import AscendOptions
from collectors.backends.simulated import write_both, write_text
from ingest import capture
from ingest.ascend import exports
from ingest.draft import Draft
from ingest.finish import finish
from ingest.readers import torch_npu_db, torch_npu_text
from tests import torch_npu_db_files
from tests.msprof_export import PROF, STAMP, device_events, op_summary, text_of, write
from tests.simjob import job
from tests.text_export import TRACES, Loaded, load
from tests.torch_npu_db_files import Maker

WHO = "SELECT span_id, concat_ws('|', t.kind, t.name, s.kind, s.name, s.ts_ns + {0}, s.dur_ns) AS key " \
    "FROM span s JOIN track t USING (track) WHERE t.process NOT IN ('Python', 'Python GC')"  # fmt: skip
KERNEL = "op_type, core, stream, task_id, block_num, mix_block_num, input_shapes, input_dtypes, output_formats, wait_ns"
COMM = (
    "collective, plane, task_type, src_local, bytes, dtype, algorithm, transport, stream, task_id, op_span_id IS NULL"
)


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    made = write_text(job(ranks=2), tmp_path_factory.mktemp("text"), AscendOptions("Level1"), [0, 1])
    return [root / "ASCEND_PROFILER_OUTPUT" for root in made]


@pytest.fixture(scope="module")
def torch(outputs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> list[Loaded]:
    return [named(load(output, tmp_path_factory.mktemp("torch"))) for output in outputs]


def named(run: Loaded) -> Loaded:
    run.con.execute(f"CREATE VIEW named AS {WHO.format(run.origin)}")
    return run


def by_device(root: Path, scratch: Path) -> list[tuple[capture.RankSource, Loaded]]:
    """Every rank of a directory, through the text reader."""
    import duckdb

    found = []
    for at, source in enumerate(capture.find([root]).sources):
        (claim,) = (claim for claim in source.claims if claim.format == "torch_npu_text")
        draft = Draft(scratch / f"draft{at}", source.facts.rank or 0)
        torch_npu_text.read(claim, draft)
        part = finish(draft, scratch / f"tables{at}")
        con = duckdb.connect()
        for table in part.rows:
            con.execute(f"CREATE VIEW {table} AS FROM '{scratch / f'tables{at}' / table}.parquet'")
        found.append((source, named(Loaded(part, con))))
    return found


def rows(run: Loaded, query: str) -> list[str]:
    return sorted(map(repr, run.all(query)))


def same(got: Loaded, wanted: Loaded, only: str = "true") -> None:
    queries = (
        f"SELECT key FROM named WHERE {only}",
        f"SELECT key, {KERNEL} FROM kernel JOIN named USING (span_id)",
        f"SELECT key, {COMM} FROM comm JOIN named USING (span_id)",
        "SELECT key, metric, value FROM pmu JOIN named USING (span_id)",
    )
    for query in queries:
        ours, theirs = rows(got, query), rows(wanted, query)
        assert ours == theirs and ours, query


ARROWS = "SELECT route, s.key, d.key, latency_ns FROM link JOIN named s ON s.span_id = src_span_id " \
    "JOIN named d ON d.span_id = dst_span_id WHERE route = 'host_to_device'"  # fmt: skip


@pytest.mark.parametrize("slices", [1, 3])
def test_an_msprof_export_gives_the_tables_of_torch_npu(
    outputs: list[Path], torch: list[Loaded], tmp_path: Path, slices: int
) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]), slices)
    ((source, got),) = by_device(root, tmp_path)
    assert source.root == root and source.facts.rank is None
    same(got, torch[0])
    assert rows(got, ARROWS) == rows(torch[0], ARROWS) != []
    assert got.part.reasons == []


def test_files_without_their_directory_are_read_alike(outputs: list[Path], torch: list[Loaded], tmp_path: Path) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]), 2)
    (root / "mindstudio_profiler_output").rename(tmp_path / "copied")
    ((_, got),) = by_device(tmp_path / "copied", tmp_path)
    same(got, torch[0])


def test_of_two_exports_of_one_capture_the_newer_is_read(
    outputs: list[Path], torch: list[Loaded], tmp_path: Path
) -> None:
    events, kernels = device_events(outputs[0]), op_summary(outputs[0])
    root = write(tmp_path / PROF, events[:40], kernels[:3], stamp="20250109035000")
    write(root, events, kernels, 2)
    ((_, got),) = by_device(root, tmp_path)
    same(got, torch[0])
    assert "msprof_20250109035000.json is an older export of the same" in got.cover("arg")["reason"]


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


def test_directories_side_by_side_go_by_their_devices(outputs: list[Path], tmp_path: Path) -> None:
    for device in (2, 3):
        write(tmp_path / f"PROF_00000{device}_20250109034804123_ABC", device_events(outputs[0]),
              op_summary(outputs[0]), devices=(device,))  # fmt: skip
    sources = capture.find([tmp_path]).sources
    assert [(s.facts.rank, s.facts.rank_source) for s in sources] == [(2, "device id"), (3, "device id")]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("op_summary_slice_2_20250109035001.csv", exports.Name("op_summary.csv", 2, (), 20250109035001)),
        ("op_summary_0_2_1.csv", exports.Name("op_summary.csv", None, (0, 2, 1), 0)),
        ("msprof_0_2_10.json", exports.Name("msprof.json", None, (0, 2, 10), 0)),
        ("l2_cache.csv", exports.Name("l2_cache.csv", None, (), 0)),
        ("step_trace_time.csv", exports.Name("step_trace_time.csv", None, (), 0)),
        ("step_trace_0_1.csv", exports.Name("step_trace.csv", None, (0, 1), 0)),
        ("msprof.json", None),
        ("trace_view_1.json", None),
        ("kernel_details.csv.bak", None),
        ("op_summary_x.csv", None),
    ],
)
def test_a_name_is_taken_apart(name: str, expected: exports.Name | None) -> None:
    assert exports.name(name) == expected


def test_a_trace_of_torch_npu_goes_before_the_same_of_msprof() -> None:
    files = [Path(name) for name in ("trace_view.json", f"msprof_{STAMP}.json", "kernel_details.csv",
        f"op_summary_{STAMP}.csv", f"task_time_{STAMP}.csv")]  # fmt: skip
    chosen = exports.choose(files)
    assert (chosen.trace, chosen.kernels) == ([files[0]], [files[2]])
    assert len(chosen.unread) == 3


def test_task_time_alone_tells_kernels_from_other_tasks(tmp_path: Path) -> None:
    (tmp_path / f"task_time_{STAMP}.csv").write_text(
        "Device_id,kernel_name,kernel_type,stream_id,task_id,task_time(us),task_start(us),task_stop(us)\n"
        '0,MatMul1,AI_CORE,2,1,2.001,"1736408883000001.000\t","1736408883000003.001\t"\n'
        '0,N/A,EVENT_RECORD,2,2,0.02,"1736408883000004.000\t","1736408883000004.020\t"\n'
        '0,copy,MEMCPY_ASYNC,3,3,5,"1736408883000006.000\t","1736408883000011.000\t"\n'
    )
    got = load(tmp_path, tmp_path)
    assert got.all("SELECT kind, name, ts_ns, dur_ns FROM span ORDER BY ts_ns") == [
        ("kernel", "MatMul1", 0, 2001), ("memcpy", "copy", 5000, 5000),
    ]  # fmt: skip
    assert got.cover("kernel")["dropped"] == 1


def test_iterations_of_step_trace_are_steps(outputs: list[Path], tmp_path: Path) -> None:
    root = write(tmp_path / PROF, device_events(outputs[0]), op_summary(outputs[0]))
    first = min(float(e["ts"]) for e in device_events(outputs[0]) if e["ph"] == "X") // 1
    (root / "mindstudio_profiler_output" / f"step_trace_{STAMP}.csv").write_text(
        "Device_id,Iteration ID,FP Start(us),BP End(us),Iteration End(us),Iteration Time(us),Model ID\n"
        f"0,1,{first},{first},{first + 30:.0f}.500,10.250,1\n0,2,{first},{first},{first + 60:.0f},20,1\n"
        "0,N/A,1,1,1,1,1\n"
    )
    ((_, got),) = by_device(root, tmp_path)
    base = int(first) * 1000 - got.origin
    assert got.all("SELECT step, ts_ns, device_dur_ns, source FROM step ORDER BY 1") == [
        (1, base + 20_250, 10_250, "step_trace"), (2, base + 40_000, 20_000, "step_trace"),
    ]  # fmt: skip


def test_tables_without_times_are_summaries(tmp_path: Path) -> None:
    (tmp_path / f"communication_statistic_{STAMP}.csv").write_text(
        "Device_id,OP Type,Count,Total Time(us),Min Time(us),Avg Time(us),Max Time(us),Ratio(%)\n"
        "0,hcom_allReduce_,4,40.5,10,10.125,10.5,100\n"
    )
    (tmp_path / "static_op_mem.csv").write_text("Op Name,Graph ID,Size(KB)\nConv,1,32.5\n")
    (tmp_path / f"fusion_op_{STAMP}.csv").write_text("Model Name,Model ID,Fusion Op,Original Ops\nm,1,AB,A;B\n")
    (tmp_path / f"op_summary_{STAMP}.csv").write_text(text_of([{"Op Name": "a", "Task Start Time(us)": "1",
        "Task Duration(us)": "1"}]))  # fmt: skip
    (tmp_path / f"pcie_{STAMP}.csv").write_text("Device_id,Mode\n0,x\n")
    got = load(tmp_path, tmp_path)
    assert got.all("SELECT source, name, count, total_ns, min_ns, max_ns FROM summary ORDER BY 1") == [
        ("communication_statistic", "hcom_allReduce_", 4, 40_500, 10_000, 10_500),
        ("fusion_op", "AB", None, None, None, None), ("static_op_mem", "Conv", None, None, None, None),
    ]  # fmt: skip
    assert json.loads(got.one("SELECT args FROM summary WHERE source = 'static_op_mem'")) == {
        "Graph ID": "1", "Size(KB)": "32.5",
    }  # fmt: skip
    assert "not read, no table holds them: pcie.csv" in got.cover("arg")["reason"]


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
        torch_npu_db.read(source.claims[0], draft)
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


# --- a real one


REAL = TRACES / "mindspore-ai+mindinsight/tests/utils/resource/profiler/PROF_000001_20230818142704322_COJGGGCANRMICFBC"


@pytest.mark.skipif(not REAL.is_dir(), reason="the shared real captures are not here")
@pytest.mark.parametrize("path", [REAL, REAL / "device_0"])
def test_the_iterations_of_a_real_export_are_its_steps(tmp_path: Path, path: Path) -> None:
    ((source, got),) = by_device(path, tmp_path)
    assert (source.facts.rank, source.facts.rank_source) == (0, "metadata")
    events = [
        event for file in sorted((REAL / "device_0/timeline").glob("msprof_*.json"))
        for event in json.loads(file.read_text(), parse_float=str)
    ]  # fmt: skip
    wanted = {
        event["args"]["Iteration ID"]: event["dur"] for event in events if event.get("cat") == "Iteration Time"
    }  # fmt: skip
    assert len(wanted) == 10
    steps = dict(got.all("SELECT step, device_dur_ns FROM step"))
    assert steps == {number: round(float(us) * 1000) for number, us in wanted.items()}
    streams = {event["tid"] for event in events if event["ph"] == "X" and event["pid"] == 3 and event["tid"] < 100}
    assert got.one("SELECT count(*) FROM track WHERE kind = 'stream'") == len(streams)
    assert got.part.facts["host"] == "A2007104679" and got.part.facts["device_id"] == 0
