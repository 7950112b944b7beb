"""Any file name: captures of which every file was renamed load to the same tables as before."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import ingest
from ingest import store, told
from tests.text_export import ROOT, processes, task, write

#: Rank directories and folders of both sets, one a family.
CAPTURES = (
    "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/text/level1",
    "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/db/level0",
    "traces_2/Ascend+msinsight/test/st", "traces_2/Ascend+msinsight/server/src/test/test_data/full_db",
    "traces_2/mindspore-ai+mindinsight", "traces/Ascend+msinsight/test/data/pytorch/text/level2",
    "traces/Ascend+msprof-analyze", "traces/mindspore-ai+mindinsight/tests/utils/resource/run_1",
)  # fmt: skip


def renamed(source: Path, target: Path, ending: str | None) -> Path:
    """A copy under names of chance; ``ending`` in place of those of the files, None keeps them."""
    chance = random.Random(7)
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        place = target / path.relative_to(source).parent / f"{chance.getrandbits(40):x}{ending or path.suffix}"
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
@pytest.mark.parametrize("ending", [None, ".dat"], ids=["own ending", "other ending"])
def test_a_renamed_capture_gives_the_same_tables(
    shared_traces: Path, tmp_path: Path, capture: str, ending: str | None
) -> None:
    source = shared_traces.parent / capture
    if not source.is_dir():
        pytest.skip("the real captures of this set are not here")
    before = tables(source, tmp_path / "before")
    assert before and tables(renamed(source, tmp_path / source.name, ending), tmp_path / "after") == before


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
    assert told.role(path) is None


def test_no_more_than_the_beginning_is_read(tmp_path: Path) -> None:
    """What would tell it lies behind the first bytes."""
    path = tmp_path / "x.dat"
    path.write_bytes(b"[" + b" " * 100_000 + b'{"ts": "1700000000000000.000"}]')
    assert told.role(path) is None
