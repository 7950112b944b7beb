"""The parts of a step in a night: the same names in every session, their share of the step, and what is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npulens import ingest
from npulens.app.nightly import parts
from npulens.app.nightly.gathering.results import Result, Value, as_fact, from_fact
from npulens.app.nightly.gathering.runs import of_run
from npulens.app.nightly.night import Row, Verdict
from npulens.app.nightly.written import figures, night_text
from npulens.ingest.store import history_run, runs
from tests.power import own_noise

ROOT = Path(__file__).resolve().parents[1]
OTHERS = "kernel_ns others"


def session(kernels: dict[str, float], others: float = 50.0, step: float = 10_000.0) -> dict[str, Value]:
    found = {f"kernel_ns {name}": Value(ns, "ns", error=0.01, share=ns / step) for name, ns in kernels.items()}
    return {"step_ns": Value(step, "ns"), **found, OTHERS: Value(others, "ns", share=others / step)}


def total(metrics: dict[str, Value]) -> float:
    return sum(value.value for name, value in metrics.items() if name.startswith("kernel_ns "))


def test_a_kernel_that_some_sessions_name_is_among_the_others_in_all() -> None:
    head, base = [session({"A": 900, "B": 11}), session({"A": 910}, 61)], [session({"A": 905, "B": 12})]
    names = parts.chosen(head, base, ())
    assert names == {"kernel_ns A"}
    for each in (*head, *base):
        folded = parts.folded(each, names)
        assert set(folded) == {"step_ns", "kernel_ns A", OTHERS} and total(folded) == total(each)
    assert parts.folded(head[0], names)[OTHERS] == Value(61.0, "ns", share=0.0061), "its error is not known any more"


def test_a_night_judges_so_many_and_those_it_knows_first() -> None:
    many = {f"k{number:02}": 1000.0 - number for number in range(40)}
    names = parts.chosen([session(many)], [session(many)], ["kernel_ns k39", "kernel_ns gone"])
    assert names == {"kernel_ns k39", *(f"kernel_ns k{number:02}" for number in range(23))}
    assert total(parts.folded(session(many), names)) == total(session(many))


def test_a_kernel_under_a_new_name_moves_nothing_else() -> None:
    head, base = [session({"A": 900, "new": 500})] * 3, [session({"A": 900, "old": 500})] * 3
    names = parts.chosen(head, base, ["kernel_ns old"])
    mine, theirs = parts.folded(head[0], names), parts.folded(base[0], names)
    assert mine[OTHERS] == theirs[OTHERS] and mine["kernel_ns A"] == theirs["kernel_ns A"]
    assert "kernel_ns new" in mine and "kernel_ns new" not in theirs


def test_a_kernel_that_fell_below_the_least_share_is_compared_with_itself() -> None:
    head, base = [session({"A": 900}, 59.9)] * 3, [session({"A": 900, "B": 10.1})] * 3
    names = parts.chosen(head, base, ())
    assert parts.folded(base[0], names)[OTHERS].value == pytest.approx(60.1)
    assert parts.folded(head[0], names)[OTHERS].value == 59.9


def test_a_job_that_measures_itself_stays_as_it_is() -> None:
    mine = {"step": Value(12.5, "ms"), "rate": Value(80.0, "1/s", "higher")}
    assert parts.folded(mine, parts.chosen([mine], [mine], ())) == mine


def row(metric: str, verdict: Verdict, value: float, ratio: float | None = None) -> Row:
    return Row(task="llama", identity="one", where="", metric=metric, unit="ns", better="lower", value=value,
               verdict=verdict, by="pairs", ratio=ratio)  # fmt: skip


def test_a_part_says_its_share_and_that_the_step_cannot_tell() -> None:
    rows = parts.beside_step(
        [row("step_ns", "ambiguous", 2e7, 1.001),
         row("kernel_ns GEMM 64x4096 · 4096x11008", "regressed", 2e5, 1.061), row("computing_ns", "same", 1e7, 1.0)],
        {("one", "kernel_ns GEMM 64x4096 · 4096x11008"): 0.0103},
    )  # fmt: skip
    step, kernel, computing = rows
    assert (step.share, kernel.share, kernel.step) == (None, 0.0103, "ambiguous")
    assert (computing.share, night_text.in_step(computing, "en"), night_text.in_step(step, "en")) == (0.5, None, None)
    assert night_text.why(kernel, "en") == [
        "GEMM 64x4096 · 4096x11008: +6.1 % (sure), 1.0 % of the step; the step itself cannot tell yet."
    ]
    assert night_text.why(kernel, "zh") == [
        "GEMM 64x4096 · 4096x11008：+6.1 %（确定），占单步的 1.0 %；单步时间尚无法判定。"
    ]


@pytest.mark.parametrize(
    ("name", "en", "zh"),
    [
        ("kernel_ns Add", "Add", "Add"), ("kernel_cycles Add", "Add, cycles", "Add（周期数）"),
        (OTHERS, "other kernels", "其余算子"), ("module_ns Block", "module Block", "模块 Block"),
        ("transfer_ns", "communication without waits", "扣除等待的通信"), ("a metric of a job",) * 3,
    ],
)  # fmt: skip
def test_parts_have_names_in_both_languages(name: str, en: str, zh: str) -> None:
    assert (figures.metric("en", name), figures.metric("zh", name)) == (en, zh)


def test_a_loaded_run_brings_its_parts_beside_what_it_brought_before(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (run,) = ingest.load(ROOT / "sample_traces" / "torch_npu_text", store).runs
    found = of_run(store, run.run_id or "")
    before = history_run.numbers(store, runs.resolve(store, run.run_id or ""))
    assert before is not None and {point.metric for point in before[1]} <= found.metrics.keys()
    step = found.metrics["step_ns"].value
    gemm = found.metrics["kernel_cycles GEMM 4096x8192 · 8192x2048"]
    assert found.covariates["AI Core MHz"] == "1800" and gemm.unit == "cycles"
    assert gemm.share == pytest.approx(gemm.value / 1.8 / step, rel=0.001)
    assert from_fact(as_fact(found)) == found
    assert isinstance(found, Result) and 24 < sum(value.share is not None for value in found.metrics.values()) < 60


@pytest.mark.shared
def test_a_warped_real_capture_shows_its_kernel_and_nothing_else(tmp_path: Path) -> None:
    """Through loading and measuring: one kernel of every step takes 1.6 % more, and every gap is longer by chance."""
    capture = own_noise.TRACES / own_noise.WARPED
    if not capture.is_file():
        pytest.skip("the real captures are not here")
    found = own_noise.end_to_end(capture, "ampere_sgemm_128x64_tn", np.random.default_rng(3), pairs=2)
    assert found.ratio == pytest.approx(1.016, abs=1e-4) and found.others == 0.0
