"""What is put together piece by piece is what is put together at once; ids of any writing connect what they connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from npulens.ingest.readers.ascend import read_torch_npu_text
from npulens.ingest.readers.ascend.text import links
from npulens.ingest.readers.kineto import read_kineto
from npulens.ingest.readers.kineto import tables as kineto_tables
from npulens.ingest.tables import draft, in_order
from npulens.ingest.tables import finish as finishing
from npulens.ingest.tables.draft import Draft
from npulens.ingest.tables.finish import Part, finish
from tests.kineto_files import TRACES as KINETO
from tests.kineto_files import Maker, flow, task, x
from tests.test_torch_npu_text import TEXT
from tests.text_export import HARDWARE, HOST, ROOT, load, processes, span, write
from tests.text_export import flow as arrow
from tests.text_export import task as npu_task

KINETO_CAPTURE = KINETO / "AMD-AGI+TraceLens/tests/traces/mi300/Falconsai_nsfw_image_detection__1016002.json.gz"

#: Ids that two events may share, and others that look like them and are not the same.
IDS: list[tuple[object, object]] = [
    (7, "007"), ("7", 70), (0, "00"), ("0", "-0"), (10**17, 10**18), (2**63 - 2, 2**63 - 1), (2**63 - 1, 2**63),
    ("18446744073709551615", "18446744073709551614"), (10**25, 10**25 + 1), ("0x7", 7), ("a b", ""), (-3, 3), (1.0, 1),
    ("7 ", "7"), ("\u0667", "7"),
]  # fmt: skip


def _tables(part: Part) -> dict[str, list[tuple[Any, ...]]]:
    con = duckdb.connect()
    files = {name: Path(part.directory) / f"{name}.parquet" for name in part.rows}
    return {name: con.execute(f"FROM '{path}' ORDER BY ALL").fetchall() for name, path in files.items()}


def _read(reader: Any, path: Path, scratch: Path) -> tuple[dict[str, list[tuple[Any, ...]]], list[dict[str, Any]]]:
    claim = reader.sniff(path)
    made = Draft(scratch / "draft", 0)
    reader.read(claim, made)
    part = finish(made, scratch / "tables")
    made.close()
    return _tables(part), part.coverage


@pytest.mark.shared
@pytest.mark.parametrize(
    ("reader", "path"),
    [(read_torch_npu_text, TEXT / "level1/rank0_ascend_pt"), (read_kineto, KINETO_CAPTURE)],
    ids=["text", "kineto"],
)
def test_small_pieces_make_the_same_tables(
    reader: Any, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not path.exists():
        pytest.skip("the shared real captures are not here")
    at_once = _read(reader, path, tmp_path / "once")
    monkeypatch.setattr(in_order, "STRETCH", 101)
    monkeypatch.setattr(links, "_STRETCH", 37)
    monkeypatch.setattr(finishing, "_STRETCH", 53)
    monkeypatch.setattr(kineto_tables, "_STRETCH", 71)
    monkeypatch.setattr(draft, "HELD_BYTES", 4_000)
    monkeypatch.setattr(draft, "FILE_BYTES", 20_000)
    in_pieces = _read(reader, path, tmp_path / "pieces")
    assert len(list((tmp_path / "pieces" / "draft").iterdir())) == 0, "spools are left behind"
    assert at_once[0].keys() == in_pieces[0].keys()
    assert {name: rows for name, rows in at_once[0].items() if rows != in_pieces[0][name]} == {}
    assert at_once[1] == in_pieces[1]
    assert len(at_once[0]["span"]) > 1_000 and len(at_once[0]["link"]) > 100


@pytest.mark.parametrize("stretch", [1, 7, 1000])
def test_rows_of_a_table_are_kept_and_ordered_whatever_a_stretch_holds(
    stretch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels in the order of their spans; lines of the cache's counters may know no span, and stay."""
    monkeypatch.setattr(finishing, "_STRETCH", stretch)
    made = Draft(tmp_path / "draft", 3)
    ids = [(number * 37) % 100 for number in range(100)]
    values = ", ".join(f"({number}, {place})" for place, number in enumerate(ids))
    made.con.execute(f"CREATE TABLE it AS FROM (VALUES {values}) t(id, place)")
    made.provide(
        "span", "SELECT id AS span_id, 1 AS track, 'kernel' AS kind, 'k' AS name, id AS ts_ns, 1 AS dur_ns FROM it"
    )
    made.provide("kernel", "SELECT id AS span_id, 'op' || place AS op_type FROM it", apart=True)
    made.provide("transfer", "SELECT id AS span_id, place AS bytes FROM it WHERE id % 3 = 0")
    made.provide("l2_cache", "SELECT CASE WHEN place % 2 = 0 THEN id END AS span_id, 'k' AS name FROM it")
    part = finish(made, tmp_path / "tables")
    made.close()
    con, first = duckdb.connect(), 3 << finishing.SPAN_BITS

    def column(table: str, name: str) -> list[Any]:
        return [row[0] for row in con.execute(f"SELECT {name} FROM '{part.directory}/{table}.parquet'").fetchall()]

    assert column("kernel", "span_id") == [first + number for number in range(100)]
    assert column("kernel", "op_type") == [f"op{ids.index(number)}" for number in range(100)]
    assert column("transfer", "span_id") == [first + number for number in range(0, 100, 3)]
    assert column("transfer", "bytes") == [ids.index(number) for number in range(0, 100, 3)]
    known = sorted(first + number for place, number in enumerate(ids) if place % 2 == 0)
    assert column("l2_cache", "span_id") == [*known, *[None] * 50]
    assert (part.rows["kernel"], part.rows["transfer"], part.rows["l2_cache"]) == (100, 34, 100)
    assert list((tmp_path / "draft").iterdir()) == []


@pytest.mark.parametrize(("same", "other"), IDS)
def test_ids_connect_what_has_the_same_text_in_kineto(tmp_path: Path, same: Any, other: Any) -> None:
    maker = Maker(tmp_path)
    loaded = maker([
        *(x("cuda_runtime", f"call {n}", n * 100, 5) for n in range(2)),
        *(task(f"task {n}", n * 100 + 20, 1) for n in range(2)),
        flow("s", "ac2g", same, 0), flow("f", "ac2g", same, 20, tid=7, pid=0),
        flow("s", "ac2g", other, 100), flow("f", "ac2g", other, 120, tid=7, pid=0),
    ])  # fmt: skip
    assert loaded.rows("link", "src_span_id, dst_span_id, route") == [(0, 2, "ac2g"), (1, 3, "ac2g")]
    maker.close()


@pytest.mark.parametrize(("same", "other"), IDS)
def test_an_id_that_only_looks_alike_connects_nothing_in_kineto(tmp_path: Path, same: Any, other: Any) -> None:
    maker = Maker(tmp_path)
    loaded = maker([
        x("cuda_runtime", "call", 0, 5), task("task", 20, 1),
        flow("s", "ac2g", same, 0), flow("f", "ac2g", other, 20, tid=7, pid=0),
    ])  # fmt: skip
    assert loaded.rows("link") == []
    maker.close()


@pytest.mark.parametrize(("same", "other"), IDS)
def test_ids_connect_what_has_the_same_text_in_torch_npu(tmp_path: Path, same: object, other: object) -> None:
    events = [
        *processes(), *(span(HOST, 1, f"op{n}", n * 100, 10, cat="cpu_op") for n in range(3)),
        *(npu_task(f"k{n}", n * 100 + 50, 5, "AI_CORE") for n in range(3)),
        *(arrow("s", "HostToDevice", id_, HOST, 1, n * 100) for n, id_ in enumerate((same, other, "only here"))),
        *(arrow("f", "HostToDevice", id_, HARDWARE, 2, n * 100 + 50) for n, id_ in enumerate((same, other, "there"))),
    ]  # fmt: skip
    got = load(write(tmp_path / ROOT, events), tmp_path)
    found = got.all(
        "SELECT s.name, d.name FROM link JOIN span s ON s.span_id = src_span_id "
        "JOIN span d ON d.span_id = dst_span_id ORDER BY ALL"
    )
    assert found == [("op0", "k0"), ("op1", "k1")]
    assert got.cover("link")["dropped"] == 1
