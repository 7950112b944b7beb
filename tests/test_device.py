"""Device facts: what the file says, and what a capture makes of a name."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from typing import Any

import pytest

from npulens.analysis.device.abilities import FACTS_FILE, Device, Seen, device, known, models
from npulens.analysis.device.spent import kernel_time
from npulens.analysis.run import Run
from tests.tablecase import connection


def test_every_entry_has_a_source_and_a_date() -> None:
    entries = tomllib.loads(FACTS_FILE.read_text("utf-8"))["device"]
    assert len({entry["model"] for entry in entries}) == len(entries) > 20
    for entry in entries:
        assert entry["source"].strip() and isinstance(entry["date"], date)
        assert entry["backend"] in ("npu", "cuda", "rocm")
        re.compile(entry["name"])


def test_peaks_of_ascend_follow_from_cores_and_clock() -> None:
    """Two operations for each of 16 x 16 x 16 multiply-adds, per core and cycle; written with one decimal of 1e12."""
    for model in models():
        if model.backend == "npu":
            peak = 2 * 16**3 * model.facts["cube_cores"] * model.facts["clock_mhz"] * 1e6
            assert model.facts["flops"]["fp16"] == pytest.approx(peak, abs=0.051e12), model.model


@pytest.mark.parametrize(
    ("name", "backend", "cube", "vector", "clock"),
    [
        ("Ascend910B2", "npu", 24, 48, 1800),
        ("910B4", "npu", 20, 40, 1500),
        ("Ascend910_9382", "npu", 24, 48, 1800),
        ("Ascend910A", "npu", 32, 32, 1000),
        ("NVIDIA H100 80GB HBM3", "cuda", 132, None, None),
        ("NVIDIA A100-SXM4-80GB", "cuda", 108, None, 1410),
        ("AMD Instinct MI300X VF", "rocm", 304, None, None),
    ],
)
def test_a_name_that_says_it_all(name: str, backend: str, cube: int, vector: int | None, clock: float | None) -> None:
    found = known(name, backend, Seen())
    assert found is not None
    assert (found.cube_cores, found.vector_cores, found.clock_mhz) == (cube, vector, clock)


def test_a_family_gives_what_its_members_share() -> None:
    """910B1 to 910B4 have 20 or 24 cores and run at 1500 to 1850: only the lowest clock is sure."""
    found = known("Ascend910B", "npu", Seen(vector_cores=40))
    assert found is not None and (found.cube_cores, found.vector_cores, found.clock_mhz) == (20, 40, 1500)
    large = known("Ascend910B", "npu", Seen(24, 48))  # 910B1 or 910B2: 1850 or 1800, so their peaks differ
    assert large is not None and (large.clock_mhz, dict(large.flops)) == (1800, {})
    fast = known("Ascend910B", "npu", Seen(24, 48, 1850.0))
    assert fast is not None and fast.name == "Ascend910B1"


def test_the_short_name_of_the_family_is_also_the_name_of_an_old_model() -> None:
    """The first generation's Ascend910B has 30 cores of one kind: vector cores of their own rule it out."""
    assert known("Ascend910B", "npu", Seen(cube_cores=30)) is not None
    split = known("Ascend910B", "npu", Seen(cube_cores=24, vector_cores=48))
    assert split is not None and split.cube_cores == 24


def test_the_clock_seen_is_a_rating_too() -> None:
    found = known("Ascend910B4", "npu", Seen(20, 40, 1650.0))
    assert found is not None and found.clock_mhz == 1650.0
    slow = known("Ascend910B4", "npu", Seen(20, 40, 800.0))
    assert slow is not None and slow.clock_mhz == 1500


def test_without_a_name() -> None:
    assert known(None, "npu", Seen()) is None
    assert known(None, None, Seen()) is None
    assert known("Never Heard Of", "cuda", Seen()) is None
    found = known(None, "npu", Seen(24, 48, 1800.0))
    assert found is not None and (found.cube_cores, found.vector_cores, found.clock_mhz) == (24, 48, 1800.0)
    odd = known(None, "npu", Seen(17, 34, 1234.0))  # no device has 17: so many blocks are what some kernels had
    assert odd is not None and (odd.cube_cores, odd.vector_cores, odd.clock_mhz) == (None, None, 1234.0)


def test_kernels_of_few_blocks_make_no_small_device() -> None:
    """The vector cores of a 910B1 to 910B4 are 40 or 48, the cube's 20 or 24; a 310P3 alone has 8 at 1060 MHz."""
    for seen in (Seen(cube_cores=8, vector_cores=4), Seen(cube_cores=8, clock_mhz=950.0)):
        few = known(None, "npu", seen)
        assert few is not None and (few.cube_cores, few.vector_cores, few.between("AI_CORE")) == (None, None, None)
    named = known("Ascend910B", "npu", Seen(vector_cores=4))
    assert named is not None and (named.cube_cores, named.vector_cores) == (None, None)
    assert [named.between(core) for core in ("AI_CORE", "AI_VECTOR_CORE")] == [(20, 24), (40, 48)]
    small = known(None, "npu", Seen(cube_cores=8, clock_mhz=1060.0))
    assert small is not None and (small.name, small.cube_cores, small.vector_cores) == ("Ascend310P3", 8, 7)


@pytest.mark.parametrize(("name", "clock"), [("Ascend910B2", 1800), ("Ascend910B4", 1500)])
def test_more_blocks_than_cores_are_waves_on_a_named_device(name: str, clock: float) -> None:
    plain, waves = known(name, "npu", Seen()), known(name, "npu", Seen(32, 64))
    assert plain is not None and waves == plain and waves.clock_mhz == clock and waves.flops


def test_a_named_device_above_its_rating_keeps_its_cores() -> None:
    found = known("Ascend910B4", "npu", Seen(clock_mhz=1650.0))
    assert found is not None and (found.cube_cores, found.vector_cores, found.clock_mhz) == (20, 40, 1650.0)


def test_cores_by_kind_of_core() -> None:
    both = Device("x", cube_cores=24, vector_cores=48)
    kinds = ("AI_CORE", "MIX_AIC", "AI_VECTOR_CORE", "MIX_AIV", None)
    assert [both.cores(core) for core in kinds] == [24, 24, 48, 48, 24]


def _case(blocks: list[tuple[int, str, int]], **more: Any) -> dict[str, Any]:
    spans = [
        {"id": number, "rank": rank, "kind": "kernel", "name": "k", "at": number, "for": 1,
         "kernel": {"core": core, "block_num": count}}
        for number, (rank, core, count) in enumerate(blocks, 1)
    ]  # fmt: skip
    return {"spans": spans, **more}


def test_what_a_capture_shows() -> None:
    """24 is the largest count that several cube kernels share; 256 blocks are waves; one kernel with 30 is no proof."""
    cube = [(0, "AI_CORE", count) for count in (16, 16, 24, 24, 24, 30, 256, 256)]
    vector = [(0, "AI_VECTOR_CORE", count) for count in (1, 1, 43, 48, 48)]
    clock = [{"counter": "AI Core Freq", "series": "MHz", "at": 0, "value": 1800}]
    run = Run(connection(_case(cube + vector, tables={"sample": clock})))
    found = device(run, 0)
    assert found is not None and (found.cube_cores, found.vector_cores, found.clock_mhz) == (24, 48, 1800.0)


def test_a_slow_rank_does_not_lower_its_own_rating() -> None:
    clock = [
        {"rank": 0, "counter": "AI Core Freq", "series": "MHz", "at": 0, "value": 1800},
        {"rank": 1, "counter": "AI Core Freq", "series": "MHz", "at": 0, "value": 900},
    ]
    run = Run(connection(_case([(0, "AI_CORE", 4), (1, "AI_CORE", 4)], tables={"sample": clock})))
    found = device(run, 1)
    assert found is not None and found.clock_mhz == 1800.0


def test_nothing_recorded() -> None:
    assert device(Run(connection({"spans": []})), 0) is None


@pytest.mark.parametrize(
    ("told", "name", "cores", "clock"),
    [
        (Seen(1, 1, 1250.0), "an unnamed device", (1, 1), 1250),  # a 310B: no model of the file
        (Seen(20, 40, 1650.0), "an unnamed device", (20, 40), 1650),  # no model of the file has this clock
        (Seen(10, 8, 1060.0), "Ascend310P1", (10, 8), 1060),
        (Seen(32, None, 1000.0), "Ascend910A", (32, 32), 1000),
    ],
)
def test_a_capture_that_counts_its_cores_is_believed(
    told: Seen, name: str, cores: tuple[int, int], clock: float
) -> None:
    found = known(None, "npu", Seen(), told)
    assert found is not None and (found.name, (found.cube_cores, found.vector_cores)) == (name, cores)
    assert found.clock_mhz == clock and (name == "an unnamed device") == (not found.flops)


def test_a_name_stands_where_the_capture_tells_another_clock() -> None:
    found = known("Ascend910B4", "npu", Seen(), Seen(20, 40, 1650.0))
    assert found is not None and (found.name, found.clock_mhz, found.memory_bytes) == (
        "Ascend910B4", 1650, known("Ascend910B4", "npu", Seen()).memory_bytes,  # type: ignore[union-attr]
    )  # fmt: skip


@pytest.mark.parametrize("clock", ["nan", "-1", "1e300", "x"])
def test_a_clock_that_is_no_number_says_nothing(clock: str) -> None:
    settings = f'{{"ai_core_num": 20, "aic_frequency": "{clock}"}}'
    run = Run(connection({"spans": [], "rank": {0: {"settings": settings}}}))
    found = device(run, 0)
    assert found is not None and (found.cube_cores, found.clock_mhz) == (20, 1500)  # the lowest of 20


def test_a_kernel_whose_cube_counted_nothing_ran_on_vector_cores() -> None:
    """CANN of 2023 on a 910B: element-wise kernels are called AI_CORE, and have as many blocks as vector cores."""
    blocks = [("MIX_AIC", 24), ("MIX_AIC", 24), ("AI_CORE", 48), ("AI_CORE", 48)]
    spans = [{"id": at, "kind": "kernel", "name": "k", "at": 10 * at, "for": 5,
              "kernel": {"core": core, "block_num": count}} for at, (core, count) in enumerate(blocks)]  # fmt: skip
    cycles = [{"rank": 0, "span_id": at, "metric": "aic_total_cycles", "value": value}
              for at, value in enumerate((9.0, 9.0, 0.0, 0.0))]  # fmt: skip
    found = device(Run(connection({"spans": spans, "tables": {"pmu": cycles}})), 0)
    assert found is not None and (found.cube_cores, found.vector_cores) == (24, 48)


def test_the_types_with_most_time_are_told_and_the_rest_together() -> None:
    """Two ranks of one step: a 300 + 300, b 200, c 100, d 60, e 40; a memset of 500 is no kernel. 1,000 in all."""
    times = [(0, "a", 300), (0, "b", 200), (0, "d", 60), (1, "a", 300), (1, "c", 100), (1, "e", 40)]
    spans: list[dict[str, object]] = [
        {"id": 900 + rank, "rank": rank, "kind": "step_mark", "name": "ProfilerStep#1", "at": 0, "for": 2000}
        for rank in (0, 1)
    ]
    at = 10
    for number, (rank, name, length) in enumerate(times):
        spans.append({"id": 1 + number, "rank": rank, "kind": "kernel", "name": name, "at": at, "for": length})
        at += length
    spans.append({"id": 800, "kind": "memset", "name": "Memset", "at": at, "for": 500})
    found = kernel_time(Run.of(connection({"spans": spans})))
    assert found is not None
    assert (found.whole_ns, found.per, found.others, found.others_ns) == (1_000_000, 2, 2, 100_000)
    assert [(one.type, one.ns, one.kernels) for one in found.most] == [
        ("a", 600_000, 2), ("b", 200_000, 1), ("c", 100_000, 1),
    ]  # fmt: skip
