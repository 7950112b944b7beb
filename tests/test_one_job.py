"""One job, one run: ranks of several directories and uploads, with and without stamps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from npulens import ingest
from npulens.ingest.store import runs
from tests.text_export import comm_lanes, comm_op, processes, task, write

GROUPS = {"group_name_0": {"group_name": "default_group", "group_rank": 0, "global_ranks": [0, 1]}}
METADATA = json.dumps({"distributed_args": {"world_size": 2}, "parallel_group_info": GROUPS})
SPLIT = "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n0,7,500,0,0,0,0\n"
KERNELS = (
    "Step Id,Device_id,Name,Type,Accelerator Core,Start Time(us),Duration(us)\n"
    "7,0,MatMul1,MatMul,AI_CORE,1700000000000000.000,500.0\n"
)


def rank_dir(where: Path, rank: int, *, stamps: bool) -> Path:
    files = {f"profiler_info_{rank}_json": "{}", "profiler_metadata_json": METADATA, "step_trace_time_csv": SPLIT}
    return write(where / f"r{rank}_ascend_pt", None, **files, **({"kernel_details_csv": KERNELS} if stamps else {}))


def test_a_rank_without_stamps_joins_and_moves_nothing(tmp_path: Path) -> None:
    """In one load, and with --join whichever comes first: the same run, as long as the rank that has times."""
    first, second = rank_dir(tmp_path / "a", 0, stamps=True), rank_dir(tmp_path / "b", 1, stamps=False)
    together = ingest.load([first, second], tmp_path / "one").runs
    assert [run.ranks for run in together] == [(0, 1)]
    for number, (left, right) in enumerate([(first, second), (second, first)]):
        where = tmp_path / f"join{number}"
        alone = ingest.load(left, where).runs[0].run_id
        joined = ingest.load(right, where, join=alone).runs[0]
        assert joined.ranks == (0, 1) and joined.run_id is not None
        manifest = runs.manifest(where, joined.run_id)
        assert manifest["dur_ns"] == 500_000 and manifest["origin_ns"] == 1_700_000_000_000_000_000
        con = runs.open_run(where, joined.run_id)
        assert con.execute("SELECT rank, first_ns, last_ns FROM rank ORDER BY rank").fetchall() == [
            (0, 0, 500_000), (1, None, None),
        ]  # fmt: skip
        assert con.execute("SELECT clock FROM run").fetchall() == [("unix",)]


def test_operators_of_communication_json_give_a_rank_its_times(tmp_path: Path) -> None:
    """Without a trace and without kernel_details they are all that is known of its communication."""
    times = {"Start Timestamp(us)": 1700000000000100.25, "Elapse Time(ms)": 0.4, "Wait Time(ms)": 0.3}
    told = {"Communication Time Info": times, "Communication Bandwidth Info": {}}
    directory = rank_dir(tmp_path, 1, stamps=False)
    output = directory / "ASCEND_PROFILER_OUTPUT"
    analysed = {"step7": {"collective": {"hcom_allReduce__1_0_1@123": told}}}
    (output / "communication.json").write_text(json.dumps(analysed))
    run = ingest.load(directory, tmp_path / "s").runs[0]
    con = runs.open_run(tmp_path / "s", run.run_id or "")
    query = "SELECT kind, name, dur_ns, collective, wait_ns FROM span JOIN comm USING (span_id)"
    assert con.execute(query).fetchall() == [
        ("comm_op", "hcom_allReduce__1_0_1", 400_000, "allreduce", 300_000)
    ]
    trace = [*processes(), *comm_lanes(), comm_op("hcom_allReduce__1_9_1", 0, 10), task("MatMul1", 0, 5, "AI_CORE")]
    write(directory, trace)
    run = ingest.load(directory, tmp_path / "t").runs[0]
    con = runs.open_run(tmp_path / "t", run.run_id or "")
    assert con.execute("SELECT name FROM span WHERE kind = 'comm_op'").fetchall() == [("hcom_allReduce__1_9_1",)]


@pytest.mark.shared
def test_a_real_job_of_four_ranks_is_one_run(shared_traces: Path, tmp_path: Path) -> None:
    """Two of them have neither trace nor kernels. Copied apart, and in two loads, they are the same run."""
    job = shared_traces.parent / "traces_2/Ascend+msinsight/test/st"
    if not job.is_dir():
        pytest.skip("the second set of shared captures is not here")
    (run,) = ingest.load(job, tmp_path / "s").runs
    assert run.ranks == (0, 1, 2, 3)
    apart = [tmp_path / f"upload{rank}" / f"rank_{rank}_ascend_pt" for rank in range(4)]
    for rank, target in enumerate(apart):
        shutil.copytree(job / "level2" / f"rank_{rank}_ascend_pt", target)
    assert [each.ranks for each in ingest.load(apart, tmp_path / "t").runs] == [(0, 1, 2, 3)]
    begun = ingest.load(apart[:2], tmp_path / "u").runs
    (joined,) = ingest.load(apart[2:], tmp_path / "u", join=begun[0].run_id).runs
    assert joined.ranks == (0, 1, 2, 3)
    manifests = [runs.manifest(tmp_path / "s", run.run_id or ""), runs.manifest(tmp_path / "u", joined.run_id or "")]
    assert manifests[0]["origin_ns"] == manifests[1]["origin_ns"] and manifests[0]["dur_ns"] == manifests[1]["dur_ns"]
    assert manifests[0]["dur_ns"] < 1_000_000_000
