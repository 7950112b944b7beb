"""The roofs of a machine: measured, kept, carried into captures and benchmarks, and what is judged by them."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis import views
from npulens.analysis.device.abilities import Device, Measured, Seen, devices, known, models
from npulens.analysis.run import Run
from npulens.analysis.work.roofline import roofline
from npulens.analysis.work.roofs import roofs
from npulens.app.cli import main
from npulens.app.commands import doctor as verb
from npulens.app.text.i18n import known as has_text
from npulens.collectors import manifest
from npulens.collectors.backends.probe import Capability, Choice
from npulens.collectors.doctor import roofs as measured
from npulens.ingest.store import runs as stores
from tests.tablecase import connection

SAMPLE = Path(__file__).resolve().parent.parent / "sample_traces" / "cpu_train_step"
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
CPU = Choice(None, "cpu", (Capability("cpu", True, device="x86_64", count=1, versions={"torch": "2.13.0"}),))
#: What a measurement says, in figures that can be reckoned with.
TOLD: dict[str, Any] = {
    "backend": "cpu", "device": "made-up processor", "measured_at": "2026-11-26T08:00:00Z", "threads": 2,
    "versions": {"torch": "2.13.0"}, "seconds": 10.0, "left_out": {"fp16": "no_kernel"},
    "roofs": [
        {"kind": kind, "name": name, "best": best, "median": best / 2, "low": best / 3, "high": best, "agree": True,
         "shots": 20, "size": 1 << 20}
        for kind, name, best in (
            ("matmul", "fp32", 1e11), ("matmul", "bf16", 4e11), ("memory", "copy", 1e10), ("memory", "triad", 2e10),
            ("launch", "launch", 2500.0),
        )
    ],
}  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


# ---- Measuring


class Metered:
    """A device whose clock is made up: a call of a square product takes side**3 / 4 ns, any other step 1000 ns."""

    name, device = "cpu", "cpu"

    def __init__(self) -> None:
        self.now = 0

    def synchronize(self) -> None:
        """It never lags."""

    def marks(self, count: int) -> list[list[int]]:
        return [[0] for _ in range(count)]

    def mark(self, mark: list[int]) -> None:
        mark[0] = self.now

    def between_ns(self, first: list[int], last: list[int]) -> int:
        return last[0] - first[0]


def shots(device: Metered, ns: list[int], amount: float, size: int = 1) -> measured._Shots:
    """Something that takes so long, one call after the other."""
    left = list(ns)

    def step() -> None:
        device.now += left.pop(0) if len(left) > 1 else left[0]

    return measured._Shots(size, amount, step)


def test_a_roof_is_the_best_of_its_shots_and_says_whether_they_agree() -> None:
    device = Metered()
    one = shots(device, [1], 4e9)
    one.ns = [2e9, 1e9, 1.01e9, 1.02e9, 5e9]
    roof = measured._Target("memory", "copy", [one]).roof()
    assert (roof.best, roof.agree, roof.shots) == (4.0e9, True, 5)
    assert roof.median == pytest.approx(4e9 / 1.02)
    one.ns = [1e9, 1.03e9, 1.01e9]
    assert not measured._Target("memory", "copy", [one]).roof().agree
    launch = measured._Target("launch", "launch", [one]).roof()
    assert launch.best == 1e9 and launch.median == 1.01e9


def test_sizes_grow_while_a_call_is_short_and_the_fastest_is_the_roof() -> None:
    device = Metered()
    # 10 operations a ns at side 2, 40 at side 4, 20 at side 8: then a call is too long for another.
    each = [shots(device, [ns], ops * ns, side) for side, ns, ops in
            ((2, 10_000_000, 10), (4, 20_000_000, 40), (8, 40_000_000, 20), (16, 80_000_000, 90))]  # fmt: skip
    target = measured._Target("matmul", "fp32", each[:1], iter(each[1:]))
    for _ in range(6):
        target.shoot(device)  # type: ignore[arg-type]
    assert [one.size for one in target.sizes] == [2, 4, 8]
    assert target.roof().size == 4 and target.roof().best == 40e9
    # The slower ones fell out of the running after a few shots.
    assert len(target.sizes[0].ns) == measured.FEW < len(target.sizes[1].ns)


def test_a_type_slower_than_fp32_is_left_out() -> None:
    device, left_out = Metered(), {}  # type: Metered, dict[str, str]
    targets = [measured._Target("matmul", name, [shots(device, [1], ops)]) for name, ops in
               (("fp32", 100.0), ("bf16", 51.0), ("fp16", 49.0))]  # fmt: skip
    for one in targets:
        one.sizes[0].ns = [1.0, 1.0, 1.0]
    assert [roof.name for roof in measured._kept(targets, left_out)] == ["fp32", "bf16"]
    assert left_out == {"fp16": "no_kernel"}


@needs_torch
def test_this_machine_is_measured_and_what_came_out_is_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real thing, with small sizes and short shots."""
    for name, value in {"SIDES": (64, 128), "LEAST_BYTES": 1 << 22, "TIMES": 0, "SHOT_NS": 100_000}.items():
        monkeypatch.setattr(measured, name, value)
    from npulens.collectors.backends.backend import open_backend
    from npulens.collectors.backends.probe import choose

    choice = choose("cpu")
    found = measured.measure(open_backend("cpu"), choice, seconds=0.0, patience_s=0.0)
    best = {(each["kind"], each["name"]): each["best"] for each in found["roofs"]}
    assert ("matmul", "fp32") in best and ("launch", "launch") in best
    assert {name for kind, name in best if kind == "memory"} == {"copy", "triad", "read"} or "memory" in found[
        "left_out"
    ]
    assert min(each["shots"] for each in found["roofs"]) >= measured.SHOTS
    path = measured.keep(choice, found)
    assert cache in path.parents and measured.kept(choice) == json.loads(json.dumps(found))
    # Another torch is another machine to measure.
    other = replace(choice.tried[-1], versions={"torch": "1.0"})
    assert measured.kept(Choice(None, "cpu", (other,))) is None


def test_people_read_the_roofs_in_both_languages() -> None:
    english, chinese = (list(verb.roof_lines({**TOLD, "kept": "/there"}, lang)) for lang in ("en", "zh"))
    assert "0.1 TFLOP/s" in english[1] and "20 GB/s" in english[1] and "2.5 µs" in english[1]
    assert any("fp16" in line for line in english) and any("/there" in line for line in english)
    assert len(english) == len(chinese) and "矩阵乘，fp32" in chinese[1]
    unquiet = {**TOLD, "kept": None, "roofs": [{**TOLD["roofs"][0], "agree": False}]}
    assert any("others were at work" in line for line in verb.roof_lines(unquiet, "en"))
    for why in ("no_kernel", "short_products", "no_memory"):
        assert has_text(f"doctor.roofs_left_out_{why}")


def test_roofs_and_self_test_are_not_asked_for_together() -> None:
    answer = CliRunner().invoke(main, ["doctor", "--roofs", "--self-test"])
    assert answer.exit_code == 2 and "ask for one of them" in answer.output


# ---- Carried


def test_a_manifest_carries_what_was_measured_before(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    manifest.write(tmp_path / "a", "x", [], CPU, {})
    assert "roofs" not in manifest.read(tmp_path / "a")
    measured.keep(CPU, TOLD)
    (tmp_path / "b").mkdir()
    manifest.write(tmp_path / "b", "x", [], CPU, {})
    assert manifest.read(tmp_path / "b")["roofs"] == TOLD


def test_a_damaged_file_is_no_measurement(cache: Path) -> None:
    path = measured.keep(CPU, TOLD)
    for text in ("", "[1]", "{", "\x00"):
        path.write_text(text)
        assert measured.kept(CPU) is None


def capture(place: Path, roofs_: object, header: object = None) -> Path:
    """The sample of a CPU with a manifest that says this of its roofs."""
    shutil.copytree(SAMPLE, place)
    said = json.loads((place / "manifest.json").read_text())
    said.pop("roofs", None)
    (place / "manifest.json").write_text(json.dumps(said if roofs_ is None else {**said, "roofs": roofs_}))
    if header is not None:
        (trace,) = place.glob("*.json.gz")
        told = json.loads(gzip.decompress(trace.read_bytes()))
        trace.write_bytes(gzip.compress(json.dumps({"npulens_roofs": header, **told}).encode()))
    return place


def settings(place: Path, store: Path) -> dict[str, Any]:
    (run,) = ingest.load(place, store).runs
    assert run.run_id is not None
    with stores.open_run(store, run.run_id) as con:
        ((told,),) = con.execute("SELECT settings FROM rank").fetchall()
    found: dict[str, Any] = json.loads(told)
    return found


def test_a_capture_holds_the_roofs_of_its_manifest(tmp_path: Path) -> None:
    told = settings(capture(tmp_path / "in", TOLD), tmp_path / "store")
    assert told["npulens_roofs"]["measured_at"] == "2026-11-26T08:00:00Z"
    assert [each["best"] for each in told["npulens_roofs"]["roofs"]] == [1e11, 4e11, 1e10, 2e10, 2500.0]


@pytest.mark.parametrize(
    "wrong",
    [7, [], {"backend": "cpu"}, {**TOLD, "backend": "toaster"}, {**TOLD, "roofs": [{"kind": "matmul", "name": "fp32"}]},
     {**TOLD, "roofs": [{"kind": "matmul", "name": "fp32", "best": -1.0}]}, {**TOLD, "device": ""}],
)  # fmt: skip
def test_what_is_no_measurement_is_left_out(tmp_path: Path, wrong: object) -> None:
    assert "npulens_roofs" not in settings(capture(tmp_path / "in", wrong), tmp_path / "store")


def test_a_trace_cannot_bring_roofs_of_its_own(tmp_path: Path) -> None:
    assert "npulens_roofs" not in settings(capture(tmp_path / "in", None, {"backend": 1}), tmp_path / "store")


# ---- Facts


def test_every_device_has_peaks_that_fit_together_and_a_source() -> None:
    found = {one.model: one for one in models()}
    for one in found.values():
        assert one.source.endswith(")") and len(one.source) > 20
        flops = one.facts.get("flops", {})
        if one.backend == "npu":  # a cube does 16 x 16 x 16 multiply-adds of fp16 per cycle, and twice as many of int8
            by_hand = 2 * 16**3 * one.facts["cube_cores"] * one.facts["clock_mhz"] * 1e6
            assert flops["fp16"] == pytest.approx(by_hand, rel=2e-3), one.model
            assert flops.get("int8", 2 * by_hand) == pytest.approx(2 * by_hand, rel=2e-3), one.model
        if "bf16" in flops and "fp16" in flops:
            assert flops["bf16"] == flops["fp16"], one.model
        assert one.facts.get("vector", {}).get("fp32", 0.0) <= flops.get("fp32", float("inf")), one.model
        for name, rate in one.facts.get("links", {}).items():
            assert 10e9 <= rate <= one.facts.get("memory_bytes_per_s", 1e13), (one.model, name)


def test_the_cards_of_one_name_are_told_apart() -> None:
    def peak(name: str, backend: str = "cuda") -> tuple[float | None, float | None]:
        found = known(name, backend, Seen())
        assert found is not None
        return found.flops.get("fp16"), found.memory_bytes_per_s

    assert peak("Tesla V100-PCIE-32GB") == (112e12, 900e9) and peak("Tesla V100-SXM2-16GB") == (125e12, 900e9)
    assert peak("NVIDIA H100 PCIe") == (756.5e12, 2.0e12) and peak("NVIDIA H100 80GB HBM3") == (989e12, 3.35e12)
    assert peak("NVIDIA H800") == (989e12, 3.35e12)
    assert peak("AMD Instinct MI350X", "rocm") == (2307e12, 8e12)
    assert peak("AMD Instinct MI355X", "rocm") == (2517e12, 8e12)
    assert peak("Ascend910B4", "npu")[1] == 0.8e12 and peak("Ascend910B3", "npu")[1] == 1.6e12


def test_products_and_other_operations_have_roofs_of_their_own() -> None:
    mi210 = roofs(known("AMD Instinct MI210", "rocm", Seen()), "rocm")
    assert mi210 is not None and mi210.matrix["fp32"] == 45.3e12 and mi210.vector == 22.6e12
    b3 = roofs(known("Ascend910B3", "npu", Seen()), "npu")
    assert b3 is not None and b3.vector == pytest.approx(2 * 128 * 40 * 1.8e9, rel=0.01)
    # Where memory is not known the other units say next to nothing.
    b1 = roofs(known("Ascend910B1", "npu", Seen()), "npu")
    assert b1 is not None and b1.memory is None and b1.vector is None


# ---- Judged


def rank(**more: Any) -> dict[str, Any]:
    return {"backend": "cpu", "formats": ["kineto"], **more}


def run_with(told: dict[str, Any], of: dict[str, Any]) -> Run:
    con = connection({"spans": [], "rank": {0: {**of, "settings": json.dumps({"npulens_roofs": told})}}})
    views.install(con)
    return Run(con)


def test_a_processor_has_no_roofs_but_measured_ones() -> None:
    (device,) = devices(run_with(TOLD, rank())).values()
    assert device.measured == Measured(
        "made-up processor", "2026-11-26T08:00:00Z", {"fp32": 1e11, "bf16": 4e11}, 2e10, 2500.0, 2
    )
    found = roofs(device, "cpu")
    assert found is not None and found.matrix == {"fp32": 1e11, "bf16": 4e11} and found.memory == 2e10
    assert found.vector is None  # what its vector units do at most was not measured
    assert found.own == ("fp32", "bf16", "memory")


def test_roofs_of_another_kind_of_device_are_not_taken() -> None:
    assert devices(run_with(TOLD, rank(backend="cuda", device_name="NVIDIA H100 80GB HBM3")))[0].measured is None
    gpu = {**TOLD, "backend": "cuda"}
    assert devices(run_with(gpu, rank(backend="rocm", device_name="AMD Instinct MI210")))[0].measured is not None


def test_a_rated_peak_stays_and_a_measured_one_fills_what_no_source_gives() -> None:
    own = Measured("H100", "2026-11-26T08:00:00Z", {"bf16": 7e14, "fp64": 5e13}, 3e12, None, None)
    h100 = known("NVIDIA H100 80GB HBM3", "cuda", Seen())
    assert h100 is not None
    found = roofs(replace(h100, measured=own), "cuda")
    assert found is not None and found.matrix["bf16"] == 989e12 and found.memory == 3.35e12
    assert found.own == ("fp64",) or found.matrix["fp64"] != 5e13
    bare = roofs(Device("Ascend910B3", flops={"fp16": 2.9e14}, measured=own), "npu")
    assert bare is not None and bare.memory == 3e12 and "memory" in bare.own


def test_a_capture_of_a_processor_has_shares_with_roofs_and_says_what_to_do_without(tmp_path: Path) -> None:
    store = tmp_path / "store"
    ingest.load(capture(tmp_path / "with", TOLD), store, label="with")
    shown = CliRunner().invoke(main, ["roofline", "with", "--store", str(store)])
    assert shown.exit_code == 0 and "made-up processor, 2026-11-26" in shown.output
    assert "fp32 100 GFLOP/s" in shown.output and "memory 20 GB/s" in shown.output
    told = json.loads(CliRunner().invoke(main, ["roofline", "with", "--store", str(store), "--json"]).output)
    row = next(row for row in told["rows"] if row["operator"] == "mm")
    # By hand: the longer of its operations at 100 GFLOP/s and its bytes at 20 GB/s.
    least = max(row["matrix_flops"] / 100, row["bytes"] / 20)
    assert row["roof_ns"] == pytest.approx(least)
    assert row["share"] == pytest.approx(least * row["calls"] / row["ns"]) and row["share"] <= 1
    assert told["mfu"] is not None
    ingest.load(capture(tmp_path / "without", None, {}), store, label="without")
    bare = CliRunner().invoke(main, ["roofline", "without", "--store", str(store)])
    assert bare.exit_code == 0 and "npulens doctor --roofs" in bare.output
    with stores.open_run(store, stores.resolve(store, "without").run_id) as con:
        found = roofline(con)
    assert found.mfu is None and all(row.share is None for row in found.rows)


def test_a_step_of_known_work_beside_kept_roofs() -> None:
    # 1e6 operations at 1e11 a second take 10 us, 1e5 bytes at 2e10 a second 5 us.
    told = measured.against(TOLD, "float32", 10**6, 10**5, 20_000.0)
    assert told == {"least_ns": 10_000.0, "share": 0.5, "bound": "compute", "measured_at": TOLD["measured_at"]}
    moved = measured.against(TOLD, "float32", 10**6, 10**6, 20_000.0)
    assert moved is not None and moved["bound"] == "memory" and moved["share"] == pytest.approx(2.5)
    for wrong in (
        ("float64", 1, 1, 1.0),
        ("float32", None, 1, 1.0),
        ("float32", 1, None, 1.0),
        ("float32", 1, 1, None),
    ):
        assert measured.against(TOLD, *wrong) is None  # type: ignore[arg-type]
