"""Jobs on a CPU with a loss of known length, made by hand: which detector says it, and to the nanosecond how much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.engine import Check
from npulens.analysis.finding import Change
from npulens.analysis.replay.whatif import saved_ns
from npulens.analysis.run import Run
from npulens.app import run_check
from npulens.ingest.store import runs as stores
from tests.kineto_files import Event, x

STEPS, LENGTH = 8, 10_000  # us
SHAPES: Event = {"Input Dims": [[256, 256], [256, 256]], "Input type": ["float", "float"], "Ev Idx": 1}
DOUBLE: Event = {**SHAPES, "Input type": ["double", "double"]}


def step(number: int, *inside: Event) -> list[Event]:
    """A step of 10 ms, and events at their place in it."""
    begin = number * LENGTH
    marks = [x("user_annotation", f"ProfilerStep#{number}", begin, LENGTH)]
    return marks + [{**event, "ts": event["ts"] + begin} for event in inside]


def written(path: Path, events: list[Event], rank: int = 0, world: int = 1, extra: Event | None = None) -> Path:
    job = {"backend": "gloo", "rank": rank, "world_size": world,
           "pg_config": [{"pg_name": "0", "pg_desc": "default_pg", "ranks": list(range(world))}]}  # fmt: skip
    header = {"schemaVersion": 1, "deviceProperties": [], "record_shapes": 1, "baseTimeNanoseconds": 0,
              **({"distributedInfo": job} if world > 1 else {}), **(extra or {})}  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**header, "traceEvents": events}))
    return path


def checked(capture: Path, store: Path) -> tuple[Check, Run]:
    (run,) = ingest.load(capture, store).runs
    assert run.run_id, run.reason
    return run_check.judge(store, run.run_id), Run(stores.open_run(store, run.run_id))


def said(check: Check) -> dict[str, int]:
    return {finding.detector: finding.saving_ns for finding in check.findings}


#: What fills 10 ms but for 40 us of Python between operators, and the 4 ms in the middle of which each test decides.
BEFORE = (x("cpu_op", "aten::linear", 0, 2_980, SHAPES), x("cpu_op", "aten::addmm", 10, 2_900, SHAPES))
AFTER = (x("cpu_op", "aten::mm", 7_000, 2_980, SHAPES),)

LOSSES = {
    "dataloader": [
        x("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 3_000, 3_980),
        x("cpu_op", "aten::stack", 3_100, 900),
    ],
    "gc": [x("cpu_op", "Python GC", 3_000, 3_980)],
    "compile": [
        x("cpu_op", "_compile.compile_inner (dynamo_timed)", 3_000, 3_980), x("cpu_op", "aten::add", 3_200, 30, SHAPES),
    ],
    "host_late": [x("cpu_op", "aten::detach", 3_000, 3_980)],
}  # fmt: skip


@pytest.mark.parametrize("cause", LOSSES)
def test_a_loss_of_four_milliseconds_a_step_is_told_as_such(cause: str, tmp_path: Path) -> None:
    events = [event for i in range(STEPS) for event in step(i, *BEFORE, *LOSSES[cause], *AFTER)]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events, extra={"python_gc": True}), tmp_path / "store")
    first = check.findings[0]
    assert first.detector == cause, said(check)
    assert 3_980_000 <= first.saving_ns <= 4_040_000  # with the Python around it
    others = {name: ns for name, ns in said(check).items() if name != cause}
    assert sum(others.values()) <= 60_000, others


def test_nothing_is_lost_where_operators_follow_each_other(tmp_path: Path) -> None:
    events = [e for i in range(STEPS) for e in step(i, *BEFORE, x("cpu_op", "aten::mm", 3_000, 3_980, SHAPES), *AFTER)]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events, extra={"python_gc": True}), tmp_path / "store")
    assert not check.findings
    outcomes = {one.detector: one.outcome for one in check.outcomes}
    spoke = {name for name, outcome in outcomes.items() if outcome == "clean"}
    assert spoke >= {
        "comm_exposed", "compile", "full_precision", "gc", "host_late", "imbalance", "late_rank",
        "launch_overhead", "slow_tail", "step_jitter", "unfused", "first_use",
    }  # fmt: skip
    silent = ("aicpu", "memory_alloc", "frequency_drop", "idle_cores", "dataloader")
    assert all(outcomes[name] == "not_measured" for name in silent)


def test_float64_takes_half_as_long_in_float32(tmp_path: Path) -> None:
    """Twice 4 ms; a number of float64 beside float32 is none."""
    number: Event = {"Input Dims": [[256, 256], []], "Input type": ["float", "double"]}
    inside = (x("cpu_op", "aten::mm", 0, 4_000, DOUBLE), x("cpu_op", "aten::mm", 4_000, 4_000, DOUBLE),
              x("cpu_op", "aten::div", 8_000, 1_990, number))  # fmt: skip
    events = [event for i in range(STEPS) for event in step(i, *inside)]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    assert said(check)["full_precision"] == 4_000_000
    assert "2 operators of each step compute in float64, 8.00 ms" in check.findings[0].words["en"].title


def test_copies_of_tensors_are_told(tmp_path: Path) -> None:
    one: Event = {"Input Dims": [[256, 256], []], "Input type": ["float", ""]}
    inside = (*BEFORE, x("cpu_op", "aten::clone", 3_000, 3_980, one), *AFTER)
    events = [event for i in range(STEPS) for event in step(i, *inside)]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    assert list(said(check)) == ["layout_conversion"] and abs(said(check)["layout_conversion"] - 3_980_000) < 20_000


def test_a_shorter_operator_makes_its_thread_shorter(tmp_path: Path) -> None:
    """On a device it need not: there the host has gone ahead."""
    events = [e for i in range(STEPS) for e in step(i, *BEFORE, x("cpu_op", "aten::mm", 3_000, 3_980, SHAPES), *AFTER)]
    _, run = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    rows = run.columns("SELECT span_id FROM span WHERE kind = 'kernel' AND name = 'aten::linear' ORDER BY ts_ns")
    spans = rows["span_id"].astype("int64")
    assert len(spans) == STEPS
    assert saved_ns(run, Change(tasks=spans, task_ns=spans * 0 + 1_000_000)) == STEPS * 1_000_000


def ranks(late: float) -> list[list[Event]]:
    """Two ranks that reduce a gradient in each step and wait for it; the second comes late by so many us."""
    made: list[list[Event]] = [[], []]
    tensor: Event = {"Input Dims": [[512, 512]], "Input type": ["float"]}
    for number in range(STEPS):
        for rank in range(2):
            behind = late if rank else 0.0
            inside = [
                x("cpu_op", "aten::mm", 100 + behind, 2_000, SHAPES),
                x("cpu_op", "c10d::allreduce_", 2_110 + behind, 20),
                x("user_annotation", "gloo:all_reduce", 2_150 + behind, late - behind + 1_000, tensor, tid=7),
                x("cpu_op", "aten::add_", 3_200 + late, 10_000 - 3_250 - late, SHAPES),
            ]  # fmt: skip
            made[rank] += step(number, *inside)
    return made


def test_a_late_rank_costs_what_the_other_waits_for_it(tmp_path: Path) -> None:
    for rank, events in enumerate(ranks(4_000)):
        written(tmp_path / "job" / f"rank{rank}.pt.trace.json", events, rank, 2)
    check, run = checked(tmp_path / "job", tmp_path / "store")
    assert run.ranks == (0, 1)
    assert check.findings[0].detector in ("host_late", "late_rank") and "ank 1" in check.findings[0].words["en"].title
    assert abs(check.findings[0].saving_ns - 4_000_000) <= 150_000
    assert run.con.execute("SELECT DISTINCT collective, bytes, group_name FROM comm").fetchall() == [
        ("allreduce", 4 * 512 * 512, "0")
    ]


#: 100 operators of 10 us with 5 us of Python between them, and what fills the rest of the step.
VECTORS: Event = {"Input Dims": [[16], [16], []], "Input type": ["float", "float", "Scalar"], "Ev Idx": 1}
ROWS = tuple(x("cpu_op", "aten::add", 3_000 + 15 * i, 10) for i in range(100))
REST = (x("cpu_op", "aten::mm", 4_495, 2_485, SHAPES), *AFTER)


def small(path: Path, shapes: Event) -> tuple[Check, Run]:
    """Eight steps with those operators, called with those shapes."""
    events = [e for i in range(STEPS) for e in step(i, *BEFORE, *({**row, "args": shapes} for row in ROWS), *REST)]
    return checked(written(path / "a.pt.trace.json", events), path / "store")


def test_operators_with_hardly_any_work_cost_what_calling_costs(tmp_path: Path) -> None:
    """16 additions take no 0.1 us. One call would remain: 99 x (10 us + 5 us) go."""
    check, _ = small(tmp_path, VECTORS)
    first = check.findings[0]
    assert first.detector == "launch_overhead" and 99 * 14_900 <= first.saving_ns <= 99 * 15_000
    assert first.numbers["kernels"] == 99 and first.numbers["kernel_ns"] == 10_000
    assert "host_late" not in said(check)


def test_operators_as_short_with_work_are_none(tmp_path: Path) -> None:
    """40,000 additions are what 10 us are needed for."""
    many: Event = {"Input Dims": [[40_000], [40_000], []], "Input type": ["float", "float", "Scalar"]}
    check, _ = small(tmp_path, many)
    assert "launch_overhead" not in said(check)
    assert {one.detector: one.outcome for one in check.outcomes}["launch_overhead"] == "clean"


def test_without_shapes_nobody_knows_how_small_they_are(tmp_path: Path) -> None:
    check, _ = small(tmp_path, {})
    (outcome,) = (one for one in check.outcomes if one.detector == "launch_overhead")
    assert outcome.outcome == "not_measured" and outcome.collect_with == "record_shapes=True"
