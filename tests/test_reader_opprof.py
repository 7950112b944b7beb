"""An operator measured by `msprof op`: made directories (no real one was at hand), figures worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.split import breakdown
from npulens.ingest.loading import capture
from npulens.ingest.store import runs as store
from tests.test_reader_opprof_simulator import KERNEL, binary

BASIC = (
    "Op Name,Op Type,Task Duration(us),Block Dim,Mix Block Dim,Device Id,Pid,Current Freq,Rated Freq\n"
    "add_custom_0,vector,12.345,8,NA,3,4711,1650,1800\n"
)
PIPES = (
    "block_id,sub_block_id,aiv_time(us),aiv_vec_ratio,aiv_mte2_ratio,aic_cube_ratio\n"
    "0,vector0,10.5,0.25,0.5,NA\n1,vector0,11.5,0.35,0.75,NA\n"
)
MEMORY = "block_id,sub_block_id,aiv_time(us),aiv_main_mem_read_bw(GB/s)\n0,vector0,99,10\n1,vector0,99,30\n"


def write(directory: Path, **files: str) -> Path:
    directory.mkdir(parents=True)
    for name, text in files.items():
        (directory / f"{name}.csv").write_text(text)
    return directory


def load(path: Path, place: Path) -> ingest.LoadedRun:
    (run,) = ingest.load(path, place).runs
    return run


def test_the_operator_is_a_kernel_at_zero(tmp_path: Path) -> None:
    made = write(tmp_path / "OPPROF_20250101_ABC", OpBasicInfo=BASIC, PipeUtilization=PIPES, Memory=MEMORY)
    (made / "visualize_data.bin").write_bytes(b"x")
    run = load(tmp_path, tmp_path / "store")
    assert (run.formats, run.status) == (("opprof",), "complete")
    con = store.open_run(tmp_path / "store", str(run.run_id))
    query = """SELECT name, ts_ns, dur_ns, kind, op_type, core, block_num, mix_block_num
        FROM span JOIN kernel USING (span_id)"""
    assert con.execute(query).fetchall() == [
        ("add_custom_0", 0, 12_345, "kernel", None, "AI_VECTOR_CORE", 8, None)]  # fmt: skip
    assert con.execute("SELECT device_id, pid, backend FROM rank").fetchall() == [(3, 4711, "npu")]
    assert con.execute("SELECT clock FROM run").fetchall() == [("monotonic",)]
    assert con.execute("SELECT counter, value FROM sample").fetchall() == [("AI Core Freq", 1650.0)]
    notes = {row["table"]: row["reason"] for row in run.coverage}
    assert "its time of day was not" in notes["span"] and "visualize_data.bin" in notes["summary"]


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [("attention_mix_aic", "mix", (None, "MIX_AIC")), ("attention_mix_aiv", "mix", (None, "MIX_AIV")),
     ("matmul", "cube", (None, "AI_CORE")), ("odd", "MatMulV2", ("MatMulV2", None))],
)  # fmt: skip
def test_what_basic_info_calls_a_type_is_a_core(name: str, kind: str, wanted: tuple[str, str], tmp_path: Path) -> None:
    basic = BASIC.replace("add_custom_0,vector", f"{name},{kind}").replace("8,NA", "24,48")
    con = store.open_run(
        tmp_path / "store", str(load(write(tmp_path / "a", OpBasicInfo=basic), tmp_path / "store").run_id)
    )
    assert con.execute("SELECT op_type, core FROM kernel").fetchall() == [wanted]


def test_a_stalled_operator_is_called_by_its_name_and_its_blocks_are_said(tmp_path: Path) -> None:
    """Its scalar unit is busy for 0.7 of 12.3 ms, every other pipe for 0.3; no file names the device."""
    basic = BASIC.replace("add_custom_0,vector", "attention_mix_aic,mix").replace("8,NA", "24,48")
    pipes = "block_id,sub_block_id,aic_cube_ratio,aic_scalar_ratio\n0,cube0,0.3,0.7\n"
    made = write(tmp_path / "a", OpBasicInfo=basic.replace("12.345", "12345"), PipeUtilization=pipes)
    con = store.open_run(tmp_path / "store", str(load(made, tmp_path / "store").run_id))
    found = check(con, only=["pipe_stall", "idle_cores", "frequency_drop"])
    (stall,) = found.findings
    assert "holds attention_mix_aic up" in stall.words["en"].title
    (idle,) = [one for one in found.outcomes if one.detector == "idle_cores"]
    said = "kernels have up to 24 blocks, but how many cores this device has is not known"
    assert (idle.outcome, idle.reason) == ("not_measured", said)


@pytest.mark.parametrize(
    ("pipes", "says", "saving"),
    [("0.06,0.98,0.04", "up, busy for 98.0 % of its time, every other pipe for 6.0 %", 4_220),
     ("0.06,0.98,0.5", "the scalar unit holds add_custom_0 up, busy for 98.0 % of its time", 3_457),
     ("0.2,0.1,0", "add_custom_0 waits, none of its pipes is busy for more than 20.0 % of its time", 4_220)],
)  # fmt: skip
def test_a_short_operator_that_was_measured_alone_is_judged(
    pipes: str, says: str, saving: int, tmp_path: Path
) -> None:
    """9.22 us, of which the 5 us of a start and an end stay, or half of it at 0.8; nothing names the device.

    9.22 x (1 - 0.5 / 0.8) are 3.4575. Of the chips known here those of 1800 MHz have 40 vector cores and more.
    """
    basic = BASIC.replace("12.345", "9.22").replace("1650", "1800")
    counted = f"block_id,aiv_vec_ratio,aiv_scalar_ratio,aiv_mte2_ratio\n0,{pipes}\n"
    made = write(tmp_path / "a", OpBasicInfo=basic, PipeUtilization=counted)
    con = store.open_run(tmp_path / "store", str(load(made, tmp_path / "store").run_id))
    found = check(con, only=["pipe_stall", "idle_cores"])
    (stall,) = found.findings
    assert says in stall.words["en"].title and stall.saving_ns == saving
    (idle,) = [one for one in found.outcomes if one.detector == "idle_cores"]
    assert "no Ascend chip known here that runs at 1800 MHz has fewer than 40 cores" in idle.reason
    assert str(idle.collect_with) == "what names the device or counts its cores: visualize_data.bin"


def test_the_binary_names_the_device_and_counts_lines(tmp_path: Path) -> None:
    made = write(tmp_path / "a", OpBasicInfo=BASIC, PipeUtilization=PIPES)
    (made / "visualize_data.bin").write_bytes(binary(["ALL"]))
    run = load(made, tmp_path / "store")
    con = store.open_run(tmp_path / "store", str(run.run_id))
    assert con.execute("SELECT device_name FROM rank").fetchall() == [("Ascend910B3",)]
    (line,) = con.execute("SELECT name, category, args FROM summary WHERE source = 'OPPROF line'").fetchall()
    assert line[:2] == (f"{KERNEL}:2", "ALL") and json.loads(line[2])["source"] == "Add(z, x, y, 64);"


def test_counters_are_means_over_blocks_and_each_block_is_kept(tmp_path: Path) -> None:
    """A column that stands in two files counts once, as the first file has it; NA is no number."""
    made = write(tmp_path / "a", OpBasicInfo=BASIC, Memory=MEMORY, PipeUtilization=PIPES)
    run = load(made, tmp_path / "store")
    con = store.open_run(tmp_path / "store", str(run.run_id))
    found = dict(con.execute("SELECT metric, round(value, 9) FROM pmu").fetchall())
    means = {"aiv_vec_ratio": 0.3, "aiv_mte2_ratio": 0.625}
    assert found == {"aiv_time(us)": 99, "aiv_main_mem_read_bw(GB/s)": 20, **means}
    blocks = con.execute("SELECT category, args FROM summary WHERE source = 'OPPROF PipeUtilization' ORDER BY 1")
    first, second = blocks.fetchall()
    assert (first[0], second[0]) == ("0 vector0", "1 vector0")
    assert json.loads(second[1])["aiv_mte2_ratio"] == "0.75"
    reason = next(row["reason"] for row in run.coverage if row["table"] == "pmu")
    assert "means over 2 blocks" in reason


def test_the_split_says_nothing_of_what_was_not_recorded(tmp_path: Path) -> None:
    run = load(write(tmp_path / "a", OpBasicInfo=BASIC), tmp_path / "store")
    (row,) = breakdown(store.open_run(tmp_path / "store", str(run.run_id)))
    assert (row.dur_ns, row.computing_ns, row.communication_ns, row.idle_ns) == (12_345, 12_345, None, None)


def test_every_directory_is_a_run_of_its_own(tmp_path: Path) -> None:
    for name in ("0", "1"):
        write(tmp_path / "OPPROF_1_A" / "add" / name, OpBasicInfo=BASIC.replace("12.345", f"1{name}.5"))
    runs = ingest.load(tmp_path / "OPPROF_1_A", tmp_path / "store").runs
    lengths = [store.open_run(tmp_path / "store", str(run.run_id)).execute("SELECT dur_ns FROM span").fetchall()
               for run in runs]  # fmt: skip
    assert sorted(lengths) == [[(10_500,)], [(11_500,)]]


def test_several_operators_without_a_time_of_day_are_sums(tmp_path: Path) -> None:
    both = BASIC + BASIC.splitlines()[1].replace("add_custom_0", "mul_1") + "\n"
    run = load(write(tmp_path / "a", OpBasicInfo=both), tmp_path / "store")
    assert run.status == "partial" and "names 2 operators" in str(run.reason)
    con = store.open_run(tmp_path / "store", str(run.run_id))
    assert con.execute("SELECT name, total_ns FROM summary ORDER BY 1").fetchall() == [
        ("add_custom_0", 12_345), ("mul_1", 12_345)]  # fmt: skip
    assert con.execute("SELECT count(*) FROM span").fetchall() == [(0,)]


@pytest.mark.parametrize(
    "files",
    [{"PipeUtilization": PIPES}, {"OpBasicInfo": "Op Name,Task Duration(us)\n"}, {"OpBasicInfo": ""},
     {"OpBasicInfo": "Op Name,Task Duration(us)\na,-1\nb,nan\nc,1e300\n"}],
)  # fmt: skip
def test_nothing_to_show_is_a_reason(files: dict[str, str], tmp_path: Path) -> None:
    run = load(write(tmp_path / "OPPROF_1_A", **files), tmp_path / "store")
    assert run.run_id is None and run.error and run.error["kind"] == "empty"


def test_a_file_of_counters_elsewhere_is_nobodys(tmp_path: Path) -> None:
    assert not capture.find([write(tmp_path / "results", Memory=MEMORY)]).sources
