"""Any file name: captures of which every file was renamed load to the same tables as before."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from npulens import ingest
from npulens.ingest.loading import renamed_files
from npulens.ingest.store import runs as store
from tests.text_export import BASE_US, ROOT, named, processes, task, write

#: Rank directories and folders of both sets, one a family.
CAPTURES = (
    "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/text/level1",
    "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/db/level0",
    "traces_2/Ascend+msinsight/test/st", "traces_2/Ascend+msinsight/server/src/test/test_data/full_db",
    "traces_2/mindspore-ai+mindinsight", "traces/Ascend+msinsight/test/data/pytorch/text/level2",
    "traces/Ascend+msprof-analyze", "traces/mindspore-ai+mindinsight/tests/utils/resource/run_1",
)  # fmt: skip


def renamed(source: Path, target: Path, ending: str | None, *, directories: bool = False) -> Path:
    """A copy under names of chance; ``ending`` in place of those of the files, None keeps them."""
    chance = random.Random(7)
    called: dict[str, str] = {}
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        parts = path.relative_to(source).parent.parts
        if directories:
            parts = tuple(called.setdefault(part, f"{chance.getrandbits(40):x}") for part in parts)
        place = target.joinpath(*parts, f"{chance.getrandbits(40):x}{ending or path.suffix}")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return target


def tables(path: Path, where: Path) -> list[tuple[Any, ...]]:
    """Of each run what its spans are, and how many rows each table has."""
    found = []
    for run in ingest.load(path, where).runs:
        if run.run_id is not None:
            con = store.open_run(where, run.run_id)
            spans = con.execute("SELECT sum(hash(kind, name, ts_ns, dur_ns))::VARCHAR, count(*) FROM span").fetchall()
            rows = {row["table"]: 0 for row in run.coverage}
            for row in run.coverage:
                rows[row["table"]] += row["rows"]
            found.append((len(run.ranks), run.status, spans, rows))
    return sorted(found, key=str)


@pytest.mark.shared
@pytest.mark.parametrize("capture", CAPTURES)
def test_a_renamed_capture_gives_the_same_tables(shared_traces: Path, tmp_path: Path, capture: str) -> None:
    """Files with their own ending, and with another below directories of other names."""
    source = shared_traces.parent / capture
    if not source.is_dir():
        pytest.skip("the real captures of this set are not here")
    before = tables(source, tmp_path / "before")
    assert before
    for number, (ending, directories) in enumerate([(None, False), (".dat", True)]):
        place = renamed(source, tmp_path / str(number) / source.name, ending, directories=directories)
        assert tables(place, tmp_path / f"after {number}") == before, (ending, directories)


def rank_of_a_job(where: Path, rank: int, group: str = "g", seconds: int = 0, **files: str) -> Path:
    """A rank whose files name it only within them; ``seconds``: how much later than others it was captured."""
    stamp = (BASE_US // 1_000_000 + seconds) * 1_000_000_000
    info = {
        "config": {"common_config": {"activities": []}, "experimental_config": {}}, "rank_id": rank,
        "start_info": {"start_monotonic": 1_000}, "end_info": {"collectionTimeEnd": stamp, "MonotonicTimeEnd": 2_000},
    }  # fmt: skip
    groups = {group: {"group_name": "tp", "group_rank": rank, "global_ranks": [0, 1]}}
    metadata = {"distributed_args": {"world_size": 2, "rank": rank}, "parallel_group_info": groups}
    told = {"profiler_info_json": json.dumps(info), "profiler_metadata_json": json.dumps(metadata)} | files
    later = seconds * 1_000_000_000
    return write(where, [*processes(), task("MatMul1", later, 5000, "AI_CORE")], **told)


def ranks(path: Path, where: Path) -> list[tuple[int, ...]]:
    """Of each run its ranks; a refusal has none."""
    return sorted(run.ranks for run in ingest.load(path, where).runs)


def test_a_job_of_which_everything_was_renamed_is_one_run(tmp_path: Path) -> None:
    """What tells about a rank lies beside the directory of its output, which is told by what it holds."""
    for rank in range(2):
        rank_of_a_job(tmp_path / "job" / f"{rank}_ascend_pt", rank, api_statistic_csv="API Name,Level,Time(us),Count\n")
    place = renamed(tmp_path / "job", tmp_path / "chance", None, directories=True)
    assert not list(place.rglob("*profiler*")) and not list(place.rglob("*PROFILER*"))
    before, report = tables(tmp_path / "job", tmp_path / "s"), ingest.load(place, tmp_path / "t")
    assert [run.ranks for run in report.runs] == [(0, 1)] and tables(place, tmp_path / "t") == before
    assert {each.fate for each in report.files} == {"read"} and len(report.files) == 8
    assert {Path(each.path) for each in report.files} == {path for path in place.rglob("*") if path.is_file()}
    (packed,) = ingest.load(shutil.make_archive(str(place), "zip", place), tmp_path / "u").runs
    assert packed.run_id == report.runs[0].run_id


@pytest.mark.parametrize(
    ("second", "runs"),
    [
        ((1, "g", 0), [(0, 1)]), ((1, "g", 60), [(0, 1)]),
        ((0, "g", 0), [(0,), (0,)]), ((1, "g", 7200), [(0,), (1,)]), ((1, "other", 60), [(0,), (1,)]),
    ],
    ids=["of one job", "clocks a minute apart", "the same rank twice", "hours later", "other groups, later"],
)  # fmt: skip
def test_renamed_captures_of_two_jobs_stay_two_runs(
    tmp_path: Path, second: tuple[int, str, int], runs: list[tuple[int, ...]]
) -> None:
    rank, group, seconds = second
    rank_of_a_job(tmp_path / "jobs" / "a", 0)
    rank_of_a_job(tmp_path / "jobs" / "b", rank, group, seconds)
    place = renamed(tmp_path / "jobs", tmp_path / "chance", None, directories=True)
    assert ranks(place, tmp_path / "s") == runs


def test_an_output_that_may_not_be_of_the_rank_beside_it_is_on_its_own(tmp_path: Path) -> None:
    """Two that could be, one that tells about a rank of its own, and one with more than an output has."""
    names = ("two", "own", "deep")
    jobs = {name: rank_of_a_job(tmp_path / name, 1) for name in names}
    for job in jobs.values():
        (job / "ASCEND_PROFILER_OUTPUT").rename(job / "x")
    shutil.copytree(jobs["two"] / "x", jobs["two"] / "y")
    shutil.copy(jobs["two"] / "profiler_info.json", jobs["own"] / "x" / "profiler_info_0.json")
    (jobs["deep"] / "x" / "more").mkdir()
    found = {name: [each for each in ranks(job, tmp_path / f"store {name}") if each] for name, job in jobs.items()}
    assert found == {"two": [(0,), (0,)], "own": [(0,)], "deep": [(0,)]}


@pytest.mark.parametrize("files", [True, False], ids=["files and directories", "directories"])
def test_an_old_export_of_which_directories_were_renamed(tmp_path: Path, files: bool) -> None:
    """info.json numbers the device and the rank; the directory with its traces is told by them."""
    prof = tmp_path / "job" / "PROF_000001_20230818142704322_COJG"
    for device, rank in ((0, 4), (1, 5)):
        home = prof / f"device_{device}"
        (home / "timeline").mkdir(parents=True)
        (home / f"info.json.{device}").write_text(json.dumps({"rank_id": rank, "DeviceInfo": [{"id": device}]}))
        for number in (1, 2):
            event = task("MatMul1", number * 10_000, 5000, "AI_CORE")
            listed = [*processes(), named(1, "Step Trace(Model ID:1)"), event | {"ts": float(event["ts"])}]
            (home / "timeline" / f"msprof_{device}_1_{number}.json").write_text(json.dumps(listed))
    place = renamed(tmp_path / "job", tmp_path / "chance", None, directories=True)
    if not files:
        place = tmp_path / "job"
        for path in [*place.rglob("timeline"), *place.rglob("device_*"), prof]:
            path.rename(path.with_name(f"x{path.name[-1]}"))
    (run,) = ingest.load(place, tmp_path / "s").runs
    assert run.ranks == (4, 5)
    con = store.open_run(tmp_path / "s", run.run_id or "")
    assert con.execute("SELECT rank, device_id FROM rank ORDER BY rank").fetchall() == [(4, 0), (5, 1)]
    assert con.execute("SELECT rank, count(*) FROM kernel GROUP BY 1 ORDER BY 1").fetchall() == [
        (4, 2), (5, 2),
    ]  # fmt: skip


def test_the_ledger_calls_a_renamed_file_by_its_own_name(tmp_path: Path) -> None:
    directory = write(tmp_path / "job" / ROOT, [*processes(), task("MatMul1", 0, 5, "AI_CORE")])
    output = directory / "ASCEND_PROFILER_OUTPUT"
    (output / "trace_view.json").rename(output / "x.bin")
    (output / "notes.txt").write_text("nothing")
    report = ingest.load(tmp_path / "job", tmp_path / "s")
    fates = {Path(each.path).name: each.fate for each in report.files}
    assert fates == {"x.bin": "read", "notes.txt": "beside"} and report.runs[0].ranks == (2,)


def test_traces_side_by_side_are_told_one_by_one(tmp_path: Path) -> None:
    """Two that would go by one name are two captures."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(2):
        made = write(tmp_path / str(number), [*processes(), task(f"MatMul{number}", number, 5, "AI_CORE")])
        (made / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").rename(folder / f"t{number}.txt")
    runs = [run for run in ingest.load(folder, tmp_path / "s").runs]
    assert [run.run_id is not None for run in runs] == [True, True]


@pytest.mark.parametrize(
    "content",
    [b"", b"[", b'[{"ts": 5}]', b"{}", b"\0\xff" * 3000, b"a,b,c\n1,2,3\n", b"SQLite format 3\0" + b"\0" * 200,
     b"Name,Start Time(us)\n", "ts, 时间\n".encode("utf-16")],
)  # fmt: skip
def test_what_begins_like_nothing_is_told_by_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.dat"
    path.write_bytes(content)
    assert renamed_files.role(path) is None


def test_no_more_than_the_beginning_is_read(tmp_path: Path) -> None:
    """What would tell it lies behind the first bytes."""
    path = tmp_path / "x.dat"
    path.write_bytes(b"[" + b" " * 100_000 + b'{"ts": "1700000000000000.000"}]')
    assert renamed_files.role(path) is None


def test_a_stand_in_stays_in_its_own_directory(tmp_path: Path) -> None:
    """Whatever the way to a capture looks like."""
    folder = tmp_path / "a" / "b" / "c"
    folder.mkdir(parents=True)
    (folder / "x.dat").write_bytes(b'[{"ts": "1700000000000000.000"}]')
    stand_ins = renamed_files.StandIns(tmp_path / "scratch" / "told")
    way = folder / ".." / ".." / "b" / ".." / ".." / "a" / "b" / "c"
    place = stand_ins.of(way)
    assert place.name == "c" and (place / "trace_view.json").is_file()
    assert place.resolve().is_relative_to((tmp_path / "scratch" / "told").resolve())
    assert stand_ins.real(place / "trace_view.json") == way / "x.dat"
