"""Planted faults: reproducible, priced exactly, told where they act, and in the files as real profilers write them.

What each fault of the device looks like in the tables is in test_scenarios_device.py.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from npulens import ingest
from npulens.analysis.causes import CAUSES
from npulens.analysis.run import Run
from npulens.app.cli import main
from npulens.collectors.planting.base import base_config
from npulens.collectors.planting.fault import Fault
from npulens.collectors.planting.plant import Case, Options, plan, scenarios, write
from npulens.collectors.planting.truth import configured
from npulens.collectors.serving.plants import PLANTS
from npulens.collectors.simulator.items import Collect, Item
from npulens.collectors.simulator.job import Job, Span
from npulens.collectors.simulator.simulate import simulate
from npulens.ingest.store import runs as store
from tests.simjob import KINETO, TORCH_NPU_DB, TORCH_NPU_TEXT, expected_spans
from tests.test_scenarios_device import DEVICE

NAMES = sorted(scenarios())
FORMATS = {"text": TORCH_NPU_TEXT, "db": TORCH_NPU_DB, "kineto": KINETO}
SMALL = Options(ranks=2, steps=2)
#: Causes of the vocabulary that nothing plants; those of serving are planted by an engine (tests/serving).
WITHOUT_SCENARIO = {
    "idle_unexplained", "full_precision", "device_copies", "shape_churn", "first_use",
    "slow_link", "retransmission", "small_packets", "contention", "stage_balance", "expert_imbalance",
    "memory_pressure", "environment", "rollout_tail", "weight_sync", "role_idle",
    "random_numbers",
}  # fmt: skip


@cache
def case(name: str, seed: int = 4) -> Case:
    return plan([name], seed, SMALL)


@cache
def clean(name: str, seed: int = 4) -> Case:
    return plan([name], seed, replace(SMALL, clean=True))


def loaded(made: Case, directory: Path) -> duckdb.DuckDBPyConnection:
    write(made, directory)
    runs = ingest.load(directory / "capture", directory / "store").runs
    assert [run.error for run in runs] == [None]
    return store.open_run(directory / "store", str(runs[0].run_id))


def wall(job: Job, ranks: Sequence[int]) -> int:
    """From a rank's first mark to the end of all it does, for the rank that needs longest."""
    lengths = []
    for rank in ranks:
        record = job.ranks[rank]
        ends = [s.end_ns for s in record.of("kernel", "memset", "memcpy", "comm_op", "comm_task", "wait", "step_mark")]
        lengths.append(max(ends) - min(s.ts_ns for s in record.of("step_mark")))
    return max(lengths)


def test_every_scenario_plants_a_cause_of_its_name() -> None:
    for name, scenario in scenarios().items():
        assert name == scenario.CAUSE and {name, *scenario.ALSO} <= set(CAUSES)
        assert scenario.__doc__ and "\nPlanted " in scenario.__doc__
    assert set(PLANTS) <= set(CAUSES)
    assert set(CAUSES) - set(NAMES) - set(PLANTS) <= WITHOUT_SCENARIO


@pytest.mark.parametrize("name", sorted({*NAMES} - {*DEVICE}))
def test_the_same_seed_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    first = write(case(name), tmp_path / "a")
    second = write(plan([name], 4, SMALL), tmp_path / "b")
    assert first == second == json.loads((tmp_path / "a" / "truth.json").read_text())
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path / "b") for path in (tmp_path / "b").rglob("*") if path.is_file())
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)


@pytest.mark.parametrize("name", NAMES)
def test_the_gain_is_the_difference_to_the_twin_without(name: str) -> None:
    made, twin = case(name), clean(name)
    assert twin.truths == () and twin.faults == () and not any(record.acts for record in twin.job.ranks)
    assert twin.capture == made.capture
    ranks, steps = made.capture.ranks, made.config.steps
    assert [truth.gain_ns for truth in made.truths] == [(wall(made.job, ranks) - wall(twin.job, ranks)) // steps]
    assert 0.02 * made.step_ns < made.truths[0].gain_ns < 0.5 * made.step_ns


def test_a_bubble_is_priced_against_stages_that_do_the_same_work() -> None:
    """The same kernels on every rank, so that all that it costs is waiting and passing on."""
    made, twin = case("pipeline_bubble"), clean("pipeline_bubble")
    waits = []
    for after, before in zip(made.job.ranks, twin.job.ranks, strict=True):
        one, other = after.of("kernel", "memset"), before.of("kernel", "memset")
        assert Counter(span.name for span in one) == Counter(span.name for span in other)
        lengths = [sum(span.dur_ns for span in spans) for spans in (one, other)]
        assert abs(lengths[0] - lengths[1]) < 0.001 * lengths[1]
        passed = [(s.ts_ns, s.end_ns) for s in after.of("comm_op") if "allReduce" not in s.name]
        assert passed and not [s for s in before.of("comm_op") if "allReduce" not in s.name]
        waits.append(union_length(passed))
    assert made.truths[0].gain_ns * made.config.steps < 1.01 * max(waits)


@pytest.mark.parametrize("name", NAMES)
def test_windows_lie_in_the_capture_on_captured_ranks(name: str) -> None:
    made = case(name)
    (truth,) = made.truths
    assert truth.windows
    for window in truth.windows:
        record = made.job.ranks[window.rank]
        assert window.rank in made.capture.ranks and window.dur_ns > 0
        assert record.begin_ns <= window.ts_ns and window.ts_ns + window.dur_ns <= record.end_ns
    last = {}
    for window in sorted(truth.windows):
        assert window.ts_ns > last.get(window.rank, 0)
        last[window.rank] = window.ts_ns + window.dur_ns
    rank = truth.fault.rank
    if rank is not None and rank in made.capture.ranks:
        assert rank in {window.rank for window in truth.windows}


def test_each_fault_of_several_is_priced_against_the_job_without_it() -> None:
    names = ["host_late", "slow_tail", "gc"]
    made = plan(names, 9, SMALL)
    assert [fault.cause for fault in made.faults] == names
    for fault, truth in zip(made.faults, made.truths, strict=True):
        others = [other for other in made.faults if other is not fault]
        without = simulate(configured(made.config, others))
        ranks, steps = made.capture.ranks, made.config.steps
        assert truth.gain_ns == (wall(made.job, ranks) - wall(without, ranks)) // steps
        assert truth.gain_ns > 0


def test_what_a_fault_adds_shifts_nobody_elses_noise() -> None:
    made, twin = case("host_late"), clean("host_late")
    for after, before in zip(made.job.ranks, twin.job.ranks, strict=True):
        def lengths(spans: Sequence[Span]) -> list[tuple[str, int]]:
            return [(span.name, span.dur_ns) for span in spans]

        kinds = ("kernel", "memset", "memcpy", "enqueue", "dequeue")
        assert lengths(after.of(*kinds)) != [] and lengths(after.of(*kinds)) == lengths(before.of(*kinds))


def test_a_collective_that_one_rank_leaves_out_hangs() -> None:
    def edit(rank: int, step: int, items: Sequence[Item]) -> Sequence[Item]:
        return items if rank else [item for item in items if not isinstance(item, Collect)]

    config = base_config(random.Random(1))
    with pytest.raises(RuntimeError, match="hangs: rank 1 for its dp group"):
        simulate(replace(config, ranks=2, steps=1, faults=(Fault("host_late", edit=edit),)))


@pytest.mark.parametrize("seed", range(5))
def test_the_healthy_job_has_nothing_to_find(seed: int) -> None:
    """Idle, exposed communication and exposed copies are each below half a per cent of the step."""
    made = plan([], seed)
    for rank in made.capture.ranks:
        record = made.job.ranks[rank]
        begin = record.steps[0].ts_ns
        compute = [(s.ts_ns, s.end_ns) for s in record.of("kernel", "memset")]
        other = [(s.ts_ns, s.end_ns) for s in record.of("comm_op", "memcpy")]
        total = wall(made.job, [rank])
        busy = union_length(compute + other)
        assert total - busy < 0.005 * total, "idle"
        assert busy - union_length(compute) < 0.005 * total, "exposed"
        assert min(start for start, _ in compute) - begin < 0.005 * total


def union_length(spans: Sequence[tuple[int, int]]) -> int:
    total, end = 0, 0
    for start, stop in sorted(spans):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


# -- in the files ------------------------------------------------------------------------------------------------------

SHOWN = [("gc", 1), ("compile", 2), ("memory_alloc", 2), ("pipeline_bubble", 1)]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("name", "seed"), SHOWN)
def test_what_is_written_is_read(name: str, seed: int, kind: str, tmp_path: Path) -> None:
    if name == "compile" and kind == "kineto":
        pytest.skip("only CANN compiles its operators in a call of its own")
    made = plan([name], seed, replace(SMALL, level=1, format=kind, missing_ranks=0))
    con = loaded(made, tmp_path)
    assert Run(con).step_ns == made.step_ns
    for rank in range(made.config.ranks):
        stored = con.execute(
            "SELECT kind, name, ts_ns + origin_ns, dur_ns FROM span, run WHERE rank = ? "
            "AND kind NOT IN ('profiler_split', 'host_other', 'device_annotation')", [rank],
        ).fetchall()  # fmt: skip
        expected = expected_spans(made.job.ranks[rank], FORMATS[kind])
        if kind == "kineto":  # device work and annotations have other names there
            stored = [row for row in stored if row[0] in ("cpu_op", "python", "runtime", "gc")]
            expected = [row for row in expected if row.kind in ("cpu_op", "python", "runtime", "gc")]
        assert Counter(stored) == Counter((row.kind, row.name, row.ts_ns, row.dur_ns) for row in expected)


@pytest.mark.parametrize("kind", FORMATS)
def test_collections_are_recorded_only_where_they_are_looked_for(kind: str, tmp_path: Path) -> None:
    found = {}
    for seed in range(12):
        made = plan(["gc"], seed, replace(SMALL, format=kind, missing_ranks=0, level=1))
        told = made.job.config.gc_threshold_ms is not None
        if told in found:
            continue
        count = loaded(made, tmp_path / str(seed)).execute("SELECT count(*) FROM span WHERE kind = 'gc'").fetchall()
        found[told] = (count[0][0] > 0, made.truths[0].fault.cause)
    assert found == {True: (True, "gc"), False: (False, "host_late")}


def test_a_late_peer_that_was_not_captured_is_seen_in_the_waits() -> None:
    hidden = [made for seed in range(12) if not (made := plan(["late_rank"], seed, SMALL)).faults[0].captured]
    assert hidden
    for made in hidden:
        (truth,) = made.truths
        assert truth.fault.rank not in made.capture.ranks and truth.fault.cause == "late_rank"
        waits = [(s.ts_ns, s.end_ns) for rank in made.capture.ranks for s in made.job.ranks[rank].of("comm_op")]
        assert all(any(a <= w.ts_ns <= b for a, b in waits) for w in truth.windows)


def test_times_of_the_truth_are_those_of_the_loaded_run(tmp_path: Path) -> None:
    """The planted function of the script starts where the truth says, in the units of the tables."""
    made = plan(["host_late"], 0, replace(SMALL, format="db", level=1))
    con = loaded(made, tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text())
    planted = [w for w in truth["faults"][0]["windows"] if w["rank"] == truth["faults"][0]["rank"]]
    frames = con.execute(
        "SELECT rank, ts_ns FROM span WHERE kind = 'python' AND name IN "
        "('main.py(331): build_mask', 'metrics.py(57): update', 'schedule.py(24): next_lengths')"
    ).fetchall()
    starts = {(w["rank"], w["ts_ns"]) for w in planted or truth["faults"][0]["windows"]}
    assert frames and set(frames) <= starts


# -- the command -------------------------------------------------------------------------------------------------------


def test_the_command_lists_writes_and_refuses(tmp_path: Path) -> None:
    run = CliRunner()
    listed = json.loads(run.invoke(main, ["simulate", "--list", "--json"]).stdout)["scenarios"]
    assert [row["name"] for row in listed] == NAMES and all(row["what"].endswith(".") for row in listed)
    words = ["simulate", "host_late,slow_tail", "--seed", "3", "--ranks", "2", "--steps", "2", "-o", str(tmp_path)]
    said = run.invoke(main, words)
    assert said.exit_code == 0 and said.stdout.count("\n") == 1 and "host_late" in said.stdout
    truth = json.loads((tmp_path / "truth.json").read_text())
    assert {"seed", "step_ns", "faults"} <= set(truth) and truth["seed"] == 3
    assert [fault["cause"] for fault in truth["faults"]] == ["host_late", "slow_tail"]
    assert any((tmp_path / "capture").iterdir())
    refused = run.invoke(main, ["simulate", "no_such", "-o", str(tmp_path)])
    assert refused.exit_code == 2 and refused.stderr.startswith("npulens: no scenario no_such: there are aicpu, ")


def test_the_command_writes_any_scenario_in_a_dialect(tmp_path: Path) -> None:
    run = CliRunner()
    listed = json.loads(run.invoke(main, ["simulate", "--list", "--json"]).stdout)["dialects"]
    assert {"plain", "910a", "merged"} <= {row["name"] for row in listed} and all(row["what"] for row in listed)
    words = ["simulate", "late_rank", "--ranks", "2", "--steps", "2", "--dialect"]
    assert run.invoke(main, [*words, "merged", "-o", str(tmp_path)]).exit_code == 0
    assert json.loads((tmp_path / "truth.json").read_text())["dialect"] == "merged"
    assert [path.name[:6] for path in (tmp_path / "capture").iterdir()] == ["merged"]
    refused = run.invoke(main, [*words, "klingon", "-o", str(tmp_path)])
    assert refused.exit_code == 2 and refused.stderr.startswith("npulens: no dialect klingon: there are plain, 910a, ")


def test_options_decide_instead_of_the_seed(tmp_path: Path) -> None:
    made = plan(["host_late"], 1, Options(4, 3, 2, "db", 2, 5_000_000))
    assert (made.config.ranks, made.config.steps, made.capture.format, made.capture.level) == (4, 3, "db", 2)
    assert len(made.capture.ranks) == 2 and made.config.clock_offsets_ns == (0, 5_000_000, 10_000_000, 15_000_000)


@pytest.mark.parametrize("kind", ["text", "kineto"])
def test_a_long_capture_repeats_the_steps(kind: str, tmp_path: Path) -> None:
    words = ["simulate", "slow_tail", "--format", kind, "--level", "1", "--ranks", "1", "--steps", "2"]
    counts = []
    for name, more in (("one", ["--replicate", "1"]), ("three", ["--replicate", "3"])):
        home = tmp_path / name
        assert CliRunner().invoke(main, [*words, *more, "-o", str(home)]).exit_code == 0
        report = ingest.load(home / "capture", tmp_path / "store")
        con = store.open_run(tmp_path / "store", str(report.runs[0].run_id))
        truth = json.loads((home / "truth.json").read_text())
        sql = "SELECT (SELECT count(*) FROM span WHERE kind IN ('cpu_op', 'kernel')), (SELECT count(*) FROM step)"
        spans, steps = con.execute(sql).fetchall()[0]
        counts.append((spans, steps, len(truth["faults"][0]["windows"]), truth["faults"][0]["gain_ns"]))
    (spans, steps, windows, gain), longer = counts
    assert longer == (3 * spans, 3 * steps, 3 * windows, gain) and steps == 2
