"""Collectives beside their links, and runs side by side: cases that can be worked out on paper, and real captures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.run import Run
from npulens.analysis.work.links import Moved, links
from npulens.analysis.work.models import link_bytes
from npulens.analysis.work.roofline import Roofline, of_run
from npulens.analysis.work.scale import order, scale
from npulens.app.cli import main
from npulens.app.commands import _beside, _links
from npulens.app.text.i18n import known
from npulens.ingest.store import runs as stores
from tests.real_captures import loaded
from tests.tablecase import connection

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
B3 = {"backend": "npu", "device_name": "Ascend910B3"}
H100 = {"backend": "cuda", "device_name": "NVIDIA H100 80GB HBM3", "formats": ["kineto"]}
RIGHT = {"group_name": "g", "rank": 0, "kind": "dp", "source": "made up"}


def moved(spans: list[dict[str, Any]], rank: dict[str, Any], group: Sequence[int] | None, **more: Any) -> list[Moved]:
    tables = {} if group is None else {"parallel_group": [{**RIGHT, "ranks": list(group)}]}
    con = connection({"spans": spans, "rank": {0: rank}, "tables": tables, **more})
    views.install(con)
    return list(Run(con).get(links))


def operator(number: int, at: float, long: float, size: int | None, kind: str = "allreduce") -> dict[str, Any]:
    told = {"op_span_id": number, "collective": kind, "group_name": "g", "bytes": size}
    return {"id": number, "kind": "comm_op", "name": kind, "track": "g", "at": at, "for": long, "comm": told}


def task(number: int, at: float, long: float, op: int, size: int, peer: int, kind: str = "Memcpy") -> dict[str, Any]:
    told = {"op_span_id": op, "plane": peer, "task_type": kind, "src_rank": 0, "dst_rank": peer, "src_local": 0,
            "dst_local": peer, "transport": "SDMA", "link_type": "HCCS", "bytes": size}  # fmt: skip
    return {"id": number, "kind": "comm_task", "name": kind, "track": f"p{peer}", "at": at, "for": long, "comm": told}


# ---- What was sent, in which time, over which link


def test_transfers_say_what_was_sent_and_the_wait_for_the_last_rank_is_not_counted() -> None:
    (one,) = moved(
        [operator(1, 0, 500, 4_000_000), task(2, 0, 300, 1, 0, 3, "Notify_Wait"),
         *(task(3 + peer, 300, 200, 1, 2_000_000, peer) for peer in (1, 2, 3))],
        B3, None,
    )  # fmt: skip
    assert (one.sent, one.counted, one.ranks, one.least) == (6_000_000, True, 4, False)
    # 6 MB in the 200 us after the last rank had come: 30 GB/s, of 196 GB/s that a 910B3 has over HCCS.
    assert one.transfers_ns == 200_000 and one.bytes_per_s == pytest.approx(30e9)
    assert (one.link, one.assumed) == ("hccs", False)
    assert one.share == pytest.approx(30 / 196) and one.above is None


def test_without_transfers_a_ring_is_counted_and_the_time_holds_waits() -> None:
    spans = [operator(1, 0, 1000, 100_000_000), operator(2, 2000, 1000, 100_000_000)]
    (one,) = moved(spans, H100, (0, 1, 2, 3))
    # A ring of four sends 2 x 3/4 of the whole: 150 MB in a millisecond.
    assert (one.sent, one.counted, one.calls, one.kind) == (150_000_000, False, 2, "dp")
    assert one.least and one.bytes_per_s == pytest.approx(150e9)
    assert (one.link, one.assumed, one.link_bytes_per_s) == ("nvlink", True, 450e9)
    assert one.share == pytest.approx(1 / 3)


def test_faster_than_the_link_is_no_share() -> None:
    (one,) = moved([operator(1, 0, 100, 100_000_000)], H100, (0, 1))
    assert one.bytes_per_s == pytest.approx(1e12) and one.share is None and one.above == pytest.approx(1000 / 450)
    assert "faster than the link" in _links.text([one], "en")


@pytest.mark.parametrize(
    ("rank", "group", "size", "kind", "why"),
    [
        (H100, (0, 1), None, "allreduce", "size"),
        (H100, (0, 1), 1000, "alltoallv", "size"),
        (H100, None, 1000, "allreduce", "group"),
        (H100, (0, 1), 1000, "gossip", "algorithm"),
        (B3, (0, 1), 1000, "allgather", "size"),  # HCCL may mean a part or the whole
    ],
)
def test_what_is_not_known_has_a_reason(
    rank: dict[str, Any], group: tuple[int, ...] | None, size: int | None, kind: str, why: str
) -> None:
    (one,) = moved([operator(1, 0, 100, size, kind)], rank, group)
    assert (one.sent, one.reason, one.bytes_per_s, one.share) == (None, why, None, None)
    assert known(f"roofline.links_no_{why}") and "Not measured" in _links.text([one], "en")


def test_of_a_group_that_spans_machines_no_link_is_assumed() -> None:
    (one,) = moved([operator(1, 0, 1000, 1_000_000)], H100, range(16))
    assert one.sent == link_bytes("allreduce", 1_000_000, 16) == 1_875_000
    assert one.link is None and one.share is None and one.bytes_per_s is not None


def test_a_run_without_collectives_has_none() -> None:
    assert moved([{"id": 1, "kind": "kernel", "name": "k", "at": 0, "for": 5}], B3, None) == []
    assert _links.text([], "en") == ""


def test_rings_send_what_the_hardware_counted(shared_traces: Path) -> None:
    """Eight 910B, Level1: the sizes of the all-reduces give the bytes of their transfers within 0.2 %."""
    store, report = loaded(shared_traces / "Ascend+msinsight/test/data/pytorch/text/level1")
    (run,) = report.runs
    con = stores.open_run(store, str(run.run_id))
    views.install(con)
    found = Run(con).get(links)
    assert len(found) == 4 and {one.ranks for one in found} == {8}
    for one in found:
        assert one.counted and one.bytes is not None and one.sent is not None and not one.least
        by_ring = link_bytes("allreduce", one.bytes, 8)
        assert by_ring is not None and one.sent == pytest.approx(by_ring, rel=2e-3)


# ---- One scale


def hand_made() -> Roofline:
    """Two products, of 20 us and of 60 us, and something unknown of 20 us."""

    def product(number: int, at: float, long: float, side: int) -> list[dict[str, Any]]:
        shapes, types = json.dumps([[side, 1000], [1000, 1000]]), '["c10::BFloat16", "c10::BFloat16"]'
        told = {"input_shapes": shapes, "input_dtypes": types}
        return [
            {"id": number, "kind": "cpu_op", "name": "aten::mm", "at": at, "for": 9, "host_op": told},
            {"id": number + 1, "kind": "runtime", "name": "cudaLaunchKernel", "at": at + 1, "for": 2},
            {"id": number + 2, "kind": "kernel", "name": "gemm", "at": at + 5, "for": long, "by": number + 1,
             "route": "correlation"},
        ]  # fmt: skip

    spans = [*product(10, 0, 20, 4945), *product(20, 50, 60, 989),
             {"id": 40, "kind": "kernel", "name": "mystery", "at": 150, "for": 20}]  # fmt: skip
    con = connection({"spans": spans, "rank": {0: H100}})
    views.install(con)
    return of_run(Run(con))


def test_a_family_s_share_is_its_roofs_over_its_time() -> None:
    found = scale("abc", None, hand_made())
    matmul, unknown = found.families
    assert (matmul.family, unknown.family) == ("matmul", "unknown")
    # 2 x 4945 x 1e6 operations take 10 us at 989 TFLOP/s, 989 rows a fifth of that: 12 of 80 us.
    assert matmul.share == pytest.approx(12 / 80, rel=1e-6) and matmul.known == 1.0 and not matmul.least
    assert matmul.time_share == pytest.approx(0.8) and unknown.share is None and unknown.known == 0.0
    assert found.share == matmul.share and found.known == pytest.approx(0.8)
    assert found.devices == ("NVIDIA H100 SXM",) and not found.measured


def test_families_come_by_the_most_that_they_take_anywhere() -> None:
    found = scale("abc", None, hand_made())
    assert order([found]) == ("matmul", "unknown")
    text = _beside.text([found], "en")
    assert "15.0 %" in text and "15.0 % (80 %)" in text


def test_runs_of_different_devices_stand_in_one_table(tmp_path: Path) -> None:
    store = tmp_path / "store"
    for name in ("kineto", "cpu_train_step"):
        ingest.load(SAMPLES / name, store, label=name)
    ask = ["roofline", "kineto", "cpu_train_step", "--store", str(store)]
    for lang, word in (("en", "products of matrices"), ("zh", "矩阵乘")):
        shown = CliRunner().invoke(main, [*ask, "--lang", lang])
        assert shown.exit_code == 0 and word in shown.output and "kineto: NVIDIA" in shown.output
    told = json.loads(CliRunner().invoke(main, [*ask, "--json"]).output)["runs"]
    assert [one["label"] for one in told] == ["kineto", "cpu_train_step"]
    alone = json.loads(
        CliRunner().invoke(main, ["roofline", "kineto", "--store", str(store), "--json", "--top", "9999"]).output
    )
    rows = [row for row in alone["rows"] if row["family"] == "matmul" and row["share"] is not None]
    (matmul,) = (one for one in told[0]["families"] if one["family"] == "matmul")
    least = sum(row["calls"] * row["roof_ns"] for row in rows)
    assert matmul["share"] == pytest.approx(least / sum(row["ns"] for row in rows))
    assert isinstance(alone["collectives"], list) and alone["collectives"][0]["collective"] == "allreduce"
    wrong = CliRunner().invoke(main, [*ask, "--step", "1"])
    assert wrong.exit_code == 2 and "of one run" in wrong.output
    missing = CliRunner().invoke(main, ["roofline", "kineto", "nothing", "--store", str(store)])
    assert missing.exit_code == 2 and "Traceback" not in missing.output


def test_the_text_tells_collectives_in_both_languages(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest.load(SAMPLES / "late_rank", store, label="late")
    for lang, words in (("en", "Collectives and their links"), ("zh", "集合通信与链路")):
        shown = CliRunner().invoke(main, ["roofline", "late", "--store", str(store), "--lang", lang])
        assert shown.exit_code == 0 and words in shown.output and "hccs" in shown.output
    with stores.open_run(store, stores.resolve(store, "late").run_id) as con:
        views.install(con)
        (one, *_) = Run(con).get(links)
    # The simulated ring of four: 2 x 3/4 of 4,915,200 bytes.
    assert one.sent == pytest.approx(7_372_800, rel=1e-3) and one.counted
