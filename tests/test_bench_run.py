"""`npulens bench` from the command line to the store, on the CPU: what is right, what is not, an interrupt."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from npulens import ingest
from npulens.analysis.look import bench as look
from npulens.collectors.bench.result import REASONS, Reason
from npulens.ingest.messages import Message, render
from npulens.ingest.store import runs

ROOT = Path(__file__).resolve().parents[1]
needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
pytestmark = [pytest.mark.torch, needs_torch]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "npulens.app.cli", "bench", *arguments]


def test_a_workload_is_checked_timed_compared_and_loaded(tmp_path: Path) -> None:
    """Every option on one small workload; what the files say is what the terminal said."""
    places = [word for name in ("out", "out.json", "out.csv", "out.html") for word in ("-o", str(tmp_path / name))]
    done = subprocess.run(
        command("matmul_layernorm_gelu", "--variant", "unfused", "--variant", "reference", "--dtype", "float32",
                "--quick", "--time-budget", "4", "--cold", "--throughput", "--batch-curve", "--slo-ms", "50",
                "--concurrency", "2", "--sweep", *places, "--store", str(tmp_path / "store")),
        cwd=ROOT, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout
    parts = ("Numerics against float64", "Latency:", "Against unfused in float32", "unfused again (A/A)", "Shapes")
    places_of = [said.index(part) for part in parts]
    assert places_of == sorted(places_of) and f"{tmp_path / 'out'}: complete" in said
    (run,) = runs.runs(tmp_path / "store")
    assert run.formats == ("bench",) and run.status == "complete"
    with runs.open_run(tmp_path / "store", run.run_id) as con:
        found = look.bench(con)
    assert found is not None
    right = {figure["variant"]: figure["ok"] for figure in found.part("numerics")}
    assert right == {"unfused": True, "reference": True}
    assert {(figure["variant"], figure["cache"]) for figure in found.part("latency")} == {
        (variant, cache) for variant in ("unfused", "reference") for cache in ("hot", "cold")
    }
    assert {figure["clock"] for figure in found.part("latency")} == {"host", "cpu"}
    assert [figure["control"] for figure in found.part("versus")] == [True, False]
    for figure in found.part("versus"):
        assert {figure["clock"], figure["other_clock"]["clock"]} == {"host", "cpu"}
        assert figure["beside"] == "reference" and figure["base"] == "unfused"
    assert {figure["kind"] for figure in found.part("together")} == {"threads", "processes"}
    swept = {figure["shape"]: figure for figure in found.part("sweep")}
    assert {"small", "ones", "odd", "empty"} == set(swept)
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("out.json", "out.csv", "out.html"))


def answer(*arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(command(*arguments, "--json"), cwd=ROOT, capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("nothing",), "there is no workload 'nothing'"), (("train_step", "--variant", "magic"), "there is no variant"),
     (("train_step", "--dtype", "int3"), "there is no type"), (("train_step", "--shape", "huge"), "no shape 'huge'"),
     (("train_step", "--backend", "mps"), "mps: ")],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused_with_what_can(
    arguments: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    status, said = answer(*arguments, "-o", str(tmp_path / "out"), "--store", str(tmp_path / "store"))
    assert status == 2 and says in said["error"]["message"] and not (tmp_path / "out").exists()


def until_it_times(run: subprocess.Popen[str]) -> None:
    """Reads what a benchmark prints until its first calls are timed."""
    assert run.stdout is not None
    next(line for line in run.stdout if line.startswith("Latency:"))
    time.sleep(1)


def test_an_interrupt_keeps_what_was_measured_and_says_so(tmp_path: Path) -> None:
    asked = command("train_step", "--time-budget", "300", "-o", str(tmp_path / "out"),
                    "--store", str(tmp_path / "store"))  # fmt: skip
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True) as run:
        until_it_times(run)
        os.killpg(run.pid, signal.SIGINT)  # as a terminal does: to everybody
        rest = run.stdout.read() if run.stdout else ""
        assert run.wait(timeout=120) == 3
    assert "partial (interrupted during" in rest
    (kept,) = runs.runs(tmp_path / "store")
    assert kept.status == "partial" and "interrupted during" in str(kept.reason)


def test_a_result_that_was_killed_outright_loads_as_partial(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "npulens.collectors", "bench", "train_step", "--dtype",
             "float32", "--time-budget", "300", "-o", str(tmp_path / "out")]  # fmt: skip
    with subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        until_it_times(run)
        run.kill()
    (loaded,) = ingest.load(tmp_path / "out", tmp_path / "store").runs
    assert loaded.status == "partial" and "cut short during" in str(loaded.reason)
    assert "期间中断" in render(loaded.reason, "zh")


def test_every_reason_is_a_message_with_the_same_text() -> None:
    for name, text in REASONS.items():
        values = {name: f"<{name}>" for _, name, _, _ in Formatter().parse(text) if name}
        assert Message(f"benchmark_{name}", values) == str(Reason(name, values))


def test_cpu_time_counts_neither_sleep_nor_other_threads() -> None:
    import torch

    from npulens.collectors.backends.backend import open_backend
    from npulens.collectors.harness.cpu_time import on_one_thread
    from npulens.collectors.harness.latency import Load, measure
    from npulens.collectors.harness.watch import DeviceWatch

    backend = open_backend("cpu")
    wanted_s = 0.004

    def busy() -> None:
        end = time.thread_time() + wanted_s
        while time.thread_time() < end:
            pass
        time.sleep(2 * wanted_s)

    for clock, least, most in (("host", 3 * wanted_s, 60.0), ("cpu", wanted_s, 1.5 * wanted_s)):
        taken = sorted(measure(backend, Load((busy,)), clock, DeviceWatch(backend), 20, 20).ns)
        assert least * 1e9 <= taken[len(taken) // 2] <= most * 1e9
    before = torch.get_num_threads()
    with on_one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before


def test_numerics_by_hand() -> None:
    import torch

    from npulens.collectors.harness.numerics import SHORT_PRODUCTS, TOLERANCES, compare, tolerance

    truth = torch.tensor([3.0, 4.0], dtype=torch.float64)  # its norm is 5
    near = compare(torch.tensor([3.0, 4.0 + 4e-5]), truth, "float32", 1e-5)
    assert near.ok and near.relative_error == pytest.approx(8e-6, rel=0.02)
    # The neighbours of 4 in float32 are 2^-21 apart: 4e-5 rounds to 84 of them.
    assert near.max_ulp == round(4e-5 * 2**21)
    far = compare(torch.tensor([3.0, 4.1]), truth, "float32", 1e-5)
    assert not far.ok and "the error is 0.02 of the result" in str(far.why)
    lost = compare(torch.tensor([3.0, float("nan")]), truth, "float32", 1e-5)
    assert not lost.ok and lost.nan == 1 and lost.relative_error is None
    assert not compare(torch.tensor([3.0, float("inf")]), truth, "float32", 1e-5).ok
    assert not compare(torch.zeros(3), truth, "float32", 1e-5).ok and not compare((truth,), (truth, truth), "x", 1).ok
    assert compare((truth, truth), (truth, truth), "float64", 0.0).ok
    opposite = compare(-truth, truth, "float64", 1e-12)
    assert opposite.cosine == pytest.approx(-1.0) and opposite.relative_error == pytest.approx(2.0)
    assert tolerance("float32", {"short_products": True}) == SHORT_PRODUCTS and tolerance("float16", {}) == 2e-3
    assert tolerance("bfloat16", {"short_products": True}) == TOLERANCES["bfloat16"]


def test_full_products_are_switched_on_and_back() -> None:
    import torch

    from npulens.collectors.harness.numerics import full_products

    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("high")
    try:
        with full_products():
            assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("highest", False)
        assert (torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32) == ("high", before[1])
    finally:
        torch.set_float32_matmul_precision(before[0])


def test_a_step_under_torchs_profiler_gives_no_latency() -> None:
    import torch

    from npulens.collectors.harness.unprofiled import Profiled, refuse_profiled

    refuse_profiled({})
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]), pytest.raises(Profiled):
        refuse_profiled({})
