"""Jobs on a CPU with a loss of known length, made by hand: which detector says it, and to the nanosecond how much."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.engine import Check
from npulens.analysis.finding import Change
from npulens.analysis.idle.pieces import CODES, idle
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
    "host_late": [x("user_annotation", "prepare", 3_000, 3_980)],
    "launch_overhead": [x("cpu_op", "aten::detach", 3_000, 3_980)],
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


#: Views and calls of others for 0.7 + 0.6 + 0.1 ms, beside 0.3 + 0.4 ms of work; no operator for the rest of 4.02 ms.
CALLS = (
    x("cpu_op", "aten::reshape", 3_000, 1_000), x("cpu_op", "aten::clone", 3_200, 300, SHAPES),
    x("cpu_op", "autograd::engine::evaluate_function: MmBackward0", 4_500, 1_000),
    x("cpu_op", "aten::mm", 4_600, 400, SHAPES), x("cpu_op", "aten::item", 6_000, 100),
    x("cpu_op", "aten::_local_scalar_dense", 6_010, 80),
)  # fmt: skip


def test_time_in_operators_is_not_idle(tmp_path: Path) -> None:
    """Nor is it a wait for a device: an operator of a CPU that reads a value only reads it."""
    events = [event for i in range(STEPS) for event in step(i, *BEFORE, *CALLS, *AFTER)]
    check, run = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    parts = {cause: run.get(idle).total(cause) for cause in CODES}
    late, calls = 4_020 - 1_400 - 700 + 20, 1_400  # us of a step; 20 at its end
    assert {cause: ns for cause, ns in parts.items() if ns} == {
        "host_late": STEPS * late * 1000, "calling": STEPS * calls * 1000,
    }  # fmt: skip
    ((empty,),) = run.con.execute("SELECT sum(idle_ns) FROM device_time WHERE step IS NOT NULL").fetchall()
    assert empty == sum(parts.values())
    assert check.host is not None and check.host.ran_ns + parts["host_late"] == check.host.whole_ns
    assert said(check) == {"host_late": late * 1000, "launch_overhead": calls * 1000, "layout_conversion": 300_000}
    title = {one.detector: one.words for one in check.findings}
    assert title["host_late"]["en"].title.startswith("Rank 0: no operator runs for 1.94 ms of each step (19.4 %), ")
    assert title["host_late"]["zh"].title.startswith("rank 0：每步有 1.94 ms 没有算子在运行（19.4 %）")
    assert title["launch_overhead"]["en"].title == (
        "Rank 0: operators that only make views or call others take 1.40 ms of each step (14.0 %), 50.0 % of that in "
        "aten::reshape"
    )


def test_a_range_of_the_job_is_no_operator(tmp_path: Path) -> None:
    """Old releases record both as one kind."""
    inside = x("cpu_op", "Optimizer.step#SGD.step", 3_000, 3_980)
    events = [event for i in range(STEPS) for event in step(i, *BEFORE, inside, *AFTER)]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    assert said(check) == {"host_late": 4_040_000}


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


def small(path: Path, shapes: Event, extra: Event | None = None) -> tuple[Check, Run]:
    """Eight steps with those operators, called with those shapes."""
    events = [e for i in range(STEPS) for e in step(i, *BEFORE, *({**row, "args": shapes} for row in ROWS), *REST)]
    return checked(written(path / "a.pt.trace.json", events, extra=extra), path / "store")


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


@pytest.mark.parametrize(("on", "asked"), [(0, "record_shapes=True"), (1, None)])
def test_without_shapes_nobody_knows_how_small_they_are(tmp_path: Path, on: int, asked: str | None) -> None:
    """What was on already is not asked for."""
    check, _ = small(tmp_path, {}, {"record_shapes": on})
    (outcome,) = (one for one in check.outcomes if one.detector == "launch_overhead")
    assert (outcome.outcome, outcome.collect_with) == ("not_measured", asked)


def test_beside_communication_alone_nothing_is_called_exposed(tmp_path: Path) -> None:
    """Operators compute on the CPU whether or not they were recorded."""
    bare = [event for event in ranks(4_000)[0] if not str(event.get("name")).startswith("aten::")]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", bare, 0, 2), tmp_path / "store")
    told = {one.detector: one.outcome for one in check.outcomes}
    assert told["comm_exposed"] == told["idle_unexplained"] == told["host_late"] == "not_measured"


#: A convolution of 2 x 100 x 100 x 100 x 100 operations, and a product of as many.
CONV: Event = {"Input Dims": [[1, 100, 100, 100], [100, 100, 1, 1], [], [], [], [], []],
               "Input type": ["float", "float", "", "ScalarList", "ScalarList", "ScalarList", "Scalar"],
               "Concrete Inputs": ["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"]}  # fmt: skip
PRODUCT: Event = {"Input Dims": [[1000, 1000], [1000, 100]], "Input type": ["float", "float"]}


def slow(shapes: Event) -> tuple[Event, ...]:
    """A convolution that spends 3.9 ms in the code that PyTorch falls back to."""
    return (x("cpu_op", "aten::conv2d", 3_000, 3_980, shapes), x("cpu_op", "aten::thnn_conv2d", 3_010, 3_920),
            x("cpu_op", "aten::_slow_conv2d_forward", 3_020, 3_900))  # fmt: skip


@pytest.mark.parametrize(("product_us", "saving_ns", "says"), [
    (1_000, 2_900_000, "At the rate of aten::mm, its work would take 1.00 ms. Called by aten::conv2d."),
    (2_980, 2_900_000 - 1_980_000, "its work would take 2.98 ms."),  # of 3.9 ms: it is faster still
    (None, 3_900_000, "How much of the 3.90 ms goes is not known: "),
])  # fmt: skip
def test_a_convolution_without_a_library_is_told(
    product_us: int | None, saving_ns: int, says: str, tmp_path: Path
) -> None:
    after = AFTER if product_us is None else (
        x("cpu_op", "aten::mm", 7_000, product_us, PRODUCT),
        x("cpu_op", "aten::sort", 7_000 + product_us, 2_980 - product_us),
    )
    events = [event for i in range(STEPS) for event in step(i, *BEFORE, *slow(CONV), *after)]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    assert said(check) == {"low_efficiency": saving_ns}
    words = check.findings[0].words
    assert words["en"].title == (
        "Rank 0: aten::_slow_conv2d_forward takes 3.90 ms of each step (39.0 %) in 1 call: PyTorch's own code for "
        "convolutions that no library takes"
    )
    assert says in words["en"].advice


def test_no_library_takes_a_convolution_in_float64(tmp_path: Path) -> None:
    """There the type is what costs."""
    double: Event = {**CONV, "Input type": ["double", "double", *CONV["Input type"][2:]]}
    events = [event for i in range(STEPS) for event in step(i, *BEFORE, *slow(double), *AFTER)]
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    assert "low_efficiency" not in said(check) and "full_precision" in said(check)


def norm(training: str, statistics: list[int], *more: Event) -> list[Event]:
    """A step whose only batch_norm lies in a range that says that it infers."""
    shapes: Event = {"Input Dims": [[2, 8, 4, 4], [8], [8], statistics, statistics, [], [], [], []],
                     "Input type": ["float"] * 5 + ["Scalar"] * 4,
                     "Concrete Inputs": ["", "", "", "", "", training, "0.1", "1e-05", "True"]}  # fmt: skip
    inside = (x("user_annotation", "model_inference", 2_990, 4_000),
              x("cpu_op", "aten::batch_norm", 3_000, 3_980, shapes))  # fmt: skip
    return [event for i in range(STEPS) for event in step(i, *BEFORE, *inside, *AFTER, *more)]


@pytest.mark.parametrize(("events", "told"), [
    (norm("True", [8]), True),
    (norm("False", [8]), False),
    (norm("True", []), False),  # a norm without running statistics
    (norm("True", [8], x("cpu_op", "NativeBatchNormBackward0", 9_985, 5)), False),
])  # fmt: skip
def test_training_mode_in_inference_is_a_doubt(events: list[Event], told: bool, tmp_path: Path) -> None:
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events), tmp_path / "store")
    said_ = [doubt.text[0] for doubt in check.quality.doubts if doubt.name == "training_mode"]
    assert bool(said_) == told
    assert not told or said_[0].startswith("rank 0: batch_norm runs in training mode within model_inference (8 calls, ")


def test_a_job_that_sends_and_receives_is_bound_by_that(tmp_path: Path) -> None:
    """Three sends of 1,000 us, each with its receive inside, and 10 us of adding between them."""
    events = [event for at in (0, 1_010, 2_020) for event in (
        x("cpu_op", "gloo:send", at, 1_000, SHAPES), x("cpu_op", "gloo:recv", at + 20, 900, SHAPES),
        x("cpu_op", "aten::add_", at + 1_000, 10, SHAPES),
    )]  # fmt: skip
    listed: Event = {"deviceProperties": [{"id": 0, "name": "Tesla P100"}]}
    check, _ = checked(written(tmp_path / "a.pt.trace.json", events, world=2, extra=listed), tmp_path / "store")
    assert [one.detector for one in check.findings] == ["pipeline_bubble"]
    assert check.findings[0].saving_ns == 3_000_000
