"""What fuzzing has found, as small as it became: each input once cost a whole rank or a traceback."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

from npulens.ingest import archive
from npulens.ingest.loading import capture
from npulens.ingest.loading.quota import Quota
from tests.fuzz.targets import database, target
from tests.text_export import KERNEL, L1, ROOT, Event, load, processes, task, write

TRACE: list[Event] = [*processes(), task("MatMul1", 1000, 2001, "KERNEL_AICORE")]
_MATRIX = b'{"step3":{"collective":{"allreduce@1":{"0-1":{"Bandwidth(GB/s)":%s}},"other@1":{"1-0":{"Op Name":%s}}}}}'


@pytest.mark.parametrize(
    ("bandwidth", "name"),
    [(b"3.0", b'"\xcf"'), (b"1e99999999999999999999", b'"op"')],
    ids=["a name that is no UTF-8", "a number beyond what decimals hold"],
)
def test_an_entry_of_the_matrix_is_lost_alone(bandwidth: bytes, name: bytes, tmp_path: Path) -> None:
    """communication_matrix.json: the decoder's errors for these two are none of its own kind."""
    made = write(
        tmp_path / ROOT, TRACE, kernel_details_csv=f"{L1}\n{KERNEL}\n",
        communication_matrix_json=_MATRIX % (bandwidth, name),
    )  # fmt: skip
    got = load(made, tmp_path)
    assert got.all("SELECT kind, name FROM span") == [("kernel", "MatMul1")]
    assert got.one("SELECT count(*) FROM comm_link") == 1
    assert got.cover("comm_link")["dropped"] == 1


def test_operators_of_communication_json_that_are_no_utf8(tmp_path: Path) -> None:
    text = b'{"step3":{"collective":{"a@1":{"Communication Time Info":{"x":"\xcf"}}}},"\xff":{}}'
    got = load(write(tmp_path / ROOT, TRACE, communication_json=text), tmp_path)
    assert got.one("SELECT count(*) FROM span") == 1
    assert got.cover("comm")["status"] != "recorded"


def test_a_name_of_a_column_with_a_nul_in_it(tmp_path: Path) -> None:
    """In the store a name ends at a NUL, and two that differ in case alone are one: each cell keeps its own."""
    made = write(
        tmp_path / ROOT, TRACE, kernel_details_csv=f"{L1}\n{KERNEL}\n",
        op_statistic_csv="OP Type,Core Type,Count,Total Time(us),Min Time(us),Max Time(us),a\0b,A B\n"
        "Add,x,1,2,2,2,5,6\n",
    )  # fmt: skip
    got = load(made, tmp_path)
    assert got.all("SELECT name, total_ns, args->>'a b', args->>'A B #8' FROM summary") == [("Add", 2_000, "5", "6")]


def test_a_database_whose_path_is_no_utf8(tmp_path: Path) -> None:
    """A name in another encoding is a name: its bytes go into SQLite's address of the file."""
    place = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xce\xd2?#%41"))
    place.mkdir()
    path = place / "ascend_pytorch_profiler_2.db"
    path.write_bytes(database.seeds()[0])
    (source,) = capture.find([place]).sources
    assert source.facts.rank == 2 and source.files == (path,)


def test_an_lzma_header_with_bits_that_cannot_be(tmp_path: Path) -> None:
    """lc 8 and lp 4: each is allowed, both together are not, and the decoder's error has no name of its own."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as made:
        made.writestr("first.json", b"[]" * 50)
        made.writestr("second.json", b"{}" * 50)
    whole = path.read_bytes()
    at = whole.index(b"first.json") + len(b"first.json") + 4  # behind the version and the length of the properties
    path.write_bytes(whole[:at] + bytes([8 + 9 * 4]) + whole[at + 1 :])
    kind = archive.recognise(path)
    assert kind is not None
    done = archive.unpack(path, kind, tmp_path / "into", Quota(), path.name)
    assert [(name, why) for _, name, why in done.lost] == [("first.json", "its LZMA header is damaged")]
    assert (tmp_path / "into" / "second.json").read_bytes() == b"{}" * 50


#: Target, and an input that went wrong once. Those above say what is right; these, that nothing goes wrong again.
INPUTS: dict[str, tuple[str, bytes]] = {
    "matrix": ("side_files", b"communication_matrix.json\n" + _MATRIX % (b"1", b'"\xcf"')),
}


@pytest.mark.parametrize("which", INPUTS)
def test_an_input_that_went_wrong(which: str, tmp_path: Path) -> None:
    name, data = INPUTS[which]
    target(name).check(data, tmp_path)
