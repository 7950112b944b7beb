"""Runs of a real vLLM with planted causes: what is said of each, and how near the replay comes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.engine import Check, check
from npulens.analysis.run import Run
from npulens.analysis.serving.served import Served, served
from npulens.ingest.store import runs as stores

MADE = Path(__file__).resolve().parents[2] / "shared" / "traces_serving" / "made+vllm-0.32.0-cpu"
MS = 1_000_000


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not MADE.is_dir():
        pytest.skip("the real captures (../shared/traces_serving) are not here")
    return tmp_path_factory.mktemp("store")


def judged(store: Path, name: str) -> tuple[Served, Check]:
    (folder,) = MADE.glob(f"{name}_*")
    (loaded,) = ingest.load(folder, store).runs
    con = stores.open_run(store, loaded.run_id)
    try:
        found = Run(con).get(served)
        assert found is not None
        return found, check(con)
    finally:
        con.close()


def near(found: Served, share: float, goodput: float) -> None:
    """Mean and P99 within a share, goodput within a share of the requests."""
    for name in ("ttft_mean_ns", "ttft_p99_ns", "tpot_mean_ns", "tpot_p99_ns"):
        real, base = getattr(found.real, name), getattr(found.base, name)
        assert base == pytest.approx(real, rel=share), name
    assert abs(found.base.good - found.real.good) <= goodput * found.real.requests


def causes(said: Check) -> list[str]:
    return [one.cause for one in said.findings if one.measure != "step"]


def test_nothing_was_planted(store: Path) -> None:
    found, said = judged(store, "A")
    assert causes(said) == []
    assert (round(found.real.good), found.real.requests) == (80, 80)
    near(found, 0.15, 0.05)


def test_four_long_prompts_are_named(store: Path) -> None:
    found, said = judged(store, "B")
    first = said.findings[0]
    assert first.cause == "prefill_interference"
    assert first.numbers["requests"] == ["b0016", "b0032", "b0048", "b0064"]
    assert round(found.real.good) == 33
    near(found, 0.15, 0.05)


def test_six_stalls_of_300_ms(store: Path) -> None:
    found, said = judged(store, "C")
    first = said.findings[0]
    assert first.cause == "engine_stall" and first.numbers["stalls"] == 6
    assert first.numbers["stall_ns"] == pytest.approx(300 * MS, rel=0.15)
    near(found, 0.15, 0.05)


def test_a_small_cache(store: Path) -> None:
    found, said = judged(store, "D")
    first = said.findings[0]
    assert first.cause == "kv_pressure"
    assert (first.numbers["recomputed"], first.numbers["iterations"]) == (4930, 33)
    assert first.numbers["recompute_ns"] == pytest.approx(2052.5 * MS, abs=0.1 * MS)
    near(found, 0.25, 0.25)


def test_an_export_is_told_and_left_out(store: Path) -> None:
    _, said = judged(store, "E")
    assert said.serving is not None
    assert said.serving.left_out == 22 and said.serving.real.requests == 38
    assert said.serving.export_ns == pytest.approx(10_200 * MS, rel=0.02)
    assert said.serving.real.ttft_p50_ns == pytest.approx(44 * MS, rel=0.05)
    assert "engine_stall" not in causes(said)
    assert any(one.name == "export" for one in said.quality.doubts)
