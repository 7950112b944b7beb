"""Captures of an RL job in STEP/ROLE folders: how the roles follow each other, and when that cannot be told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from torch_npu_db_files import NOW, Maker

from npulens import ingest
from npulens.analysis import engine
from npulens.analysis.run import Run
from npulens.analysis.serving.stages import IDLE, SYNC, TAIL, RlStep, rl_steps
from npulens.ingest.store import runs

MS = 10**6
HOUR = 3_600_000  # in ms
#: When each rank of a role worked in a step, in ms from the step's begin.
STEP = {
    "agent_loop_rollout_replica_0": [(0, 800), (1, 799)],
    "agent_loop_rollout_replica_1": [(2, 500), (3, 501)],
    "actor_compute_log_prob": [(1_000, 1_200), (1_001, 1_199)],
    "actor_update": [(1_200, 1_700), (1_203, 1_699)],
    "update_weights": [(1_710, 1_750), (1_710, 1_740)],
}


def capture(job: Path, folder: str, rank: int, begin: int, end: int) -> None:
    """What one rank left of a role: a task of the device from ``begin`` to ``end``, in ms."""
    home = job / folder / f"node-0_{4000 + rank}_20260105080000000_ascend_pt" / "ASCEND_PROFILER_OUTPUT"
    home.mkdir(parents=True)
    made = Maker(home / f"ascend_pytorch_profiler_{rank}.db")
    made.task(1, "KERNEL_AIVEC", begin * MS, end * MS)
    made.table(
        "COMPUTE_TASK_INFO(name, globalTaskId, blockNum, mixBlockNum, taskType, opType, inputShapes)",
        ("Add_1", 1, 24, 0, "AI_VECTOR_CORE", "Add", '"2,3;2,3"'),
    )
    made.con.close()


def step(job: Path, number: str, begin: int, without: str = "-") -> None:
    for role, ranks in STEP.items():
        if without not in role:
            for rank, (since, until) in enumerate(ranks):
                capture(job, f"{number}/{role}", rank, begin + since, begin + until)


def loaded(job: Path, store: Path) -> tuple[ingest.LoadedRun, list[ingest.LoadedRun]]:
    """The run of the job's stages, and the others."""
    found = ingest.load(job, store).runs
    of_job = [run for run in found if run.formats == ("verl",)]
    assert len(of_job) == 1, [run.as_dict() for run in found]
    return of_job[0], [run for run in found if run is not of_job[0]]


def steps(store: Path, run: ingest.LoadedRun) -> list[RlStep]:
    assert run.run_id is not None
    return list(rl_steps(Run(runs.open_run(store, run.run_id))))


def test_each_role_is_a_run_and_the_job_is_one_more(tmp_path: Path) -> None:
    job = tmp_path / "profiles"
    step(job, "2", 0)
    step(job, "4", 5_000)
    run, others = loaded(job, tmp_path / "store")
    assert len(others) == 2 * len(STEP) and all(one.ranks == (0, 1) and one.status == "complete" for one in others)
    assert run.run_id is not None and run.label == "profiles"
    con = runs.open_run(tmp_path / "store", run.run_id)
    rows = con.execute("SELECT step, name, role, replica, role_rank, ts_ns, dur_ns FROM stage ORDER BY ALL").fetchall()
    roles = {"agent_loop_rollout_replica_0": ("rollout", 0), "agent_loop_rollout_replica_1": ("rollout", 1),
             "actor_compute_log_prob": ("log_prob", None), "actor_update": ("update", None),
             "update_weights": ("weights", None)}  # fmt: skip
    assert rows == sorted(
        (number, name, *roles[name], rank, (begin + since) * MS, (until - since) * MS)
        for number, begin in ((2, 0), (4, 5_000)) for name, ranks in STEP.items()
        for rank, (since, until) in enumerate(ranks)
    )  # fmt: skip
    assert con.execute("SELECT origin_ns FROM run").fetchall() == [(NOW,)]


def test_the_three_causes_of_rl_answer(tmp_path: Path) -> None:
    """By hand: replicas end at 800 and 501 ms, so the last is 149.5 after the mean. Gaps: 200 and 10 ms."""
    step(tmp_path / "job", "global_step_7", 60_000)
    run, _ = loaded(tmp_path / "job", tmp_path / "store")
    (only,) = steps(tmp_path / "store", run)
    assert (only.step, only.dur_ns, only.replicas) == (7, 1_750 * MS, 2)
    assert {cause: lost.ns for cause, lost in only.lost.items()} == {
        TAIL: 149_500_000, SYNC: 40 * MS, IDLE: 210 * MS
    }  # fmt: skip
    assert only.lost[IDLE].note == "actor_compute_log_prob" and only.lost[TAIL].note == "agent_loop_rollout_replica_0"
    assert run.run_id is not None
    said = engine.check(runs.open_run(tmp_path / "store", run.run_id), (TAIL, SYNC, IDLE))
    outcomes = {one.detector: one.outcome for one in said.outcomes}
    assert outcomes["role_idle"] == outcomes["rollout_tail"] == "found"
    assert outcomes["weight_sync"] in ("clean", "found")


def test_what_was_not_recorded_is_not_measured(tmp_path: Path) -> None:
    step(tmp_path / "job", "2", 0, without="rollout")
    run, others = loaded(tmp_path / "job", tmp_path / "store")
    (said,) = steps(tmp_path / "store", run)
    assert len(others) == 3 and said.replicas is None and TAIL not in said.lost
    assert said.lost[IDLE].ns == 10 * MS


def test_an_archive_is_the_same_run(tmp_path: Path) -> None:
    step(tmp_path / "job", "2", 0)
    run, _ = loaded(tmp_path / "job", tmp_path / "store")
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "job")
    again, _ = loaded(Path(packed), tmp_path / "store")
    assert again.run_id == run.run_id and again.stored == "exists"


@pytest.mark.parametrize("late", [HOUR + 3_000, -HOUR - 3_000])
def test_a_step_of_two_clocks_is_left_out(tmp_path: Path, late: int) -> None:
    """One host's clock is an hour off: its replica seems to have worked long after, or before, all others."""
    job = tmp_path / "job"
    step(job, "2", 0)
    step(job, "4", 5_000, without="replica_1")
    for rank, (since, until) in enumerate(STEP["agent_loop_rollout_replica_1"]):
        capture(job, "4/agent_loop_rollout_replica_1", rank, 5_000 + late + since, 5_000 + late + until)
    run, _ = loaded(job, tmp_path / "store")
    assert [one.step for one in steps(tmp_path / "store", run)] == [2]
    (cover,) = [row for row in run.coverage if row["table"] == "stage"]
    assert (cover["status"], cover["dropped"]) == ("partial", 10) and "step 4" in cover["reason"]


def test_ranks_of_a_role_that_never_met_are_of_two_clocks(tmp_path: Path) -> None:
    job = tmp_path / "job"
    step(job, "2", 0)
    step(job, "4", 5_000, without="actor_update")
    capture(job, "4/actor_update", 0, 6_200, 6_700)
    capture(job, "4/actor_update", 1, 6_800, 7_300)
    run, _ = loaded(job, tmp_path / "store")
    assert [one.step for one in steps(tmp_path / "store", run)] == [2]


def test_steps_in_no_order_are_all_left_out(tmp_path: Path) -> None:
    """Step 2 lies behind step 4: one of them is on another clock, and nothing says which."""
    job = tmp_path / "job"
    step(job, "2", 60_000)
    step(job, "4", 0)
    found = ingest.load(job, tmp_path / "store").runs
    refused = [run for run in found if run.run_id is None]
    assert len(found) - len(refused) == 2 * len(STEP)
    assert len(refused) == 1 and "job" in str(refused[0].reason) and "clock" in str(refused[0].reason)


@pytest.mark.parametrize(
    "folders",
    [
        ("2/actor_update",),  # one role alone
        ("run-a/actor_update", "run-a/actor_compute_log_prob"),  # no number of a step
        ("2/node-a", "2/node-b"),  # no roles
        ("2/3", "2/4"),  # numbers
        ("2/actor_update/x/y/z", "2/actor_compute_log_prob/x/y/z"),  # too deep
    ],
)
def test_other_folders_are_no_job(tmp_path: Path, folders: tuple[str, ...]) -> None:
    for at, folder in enumerate(folders):
        capture(tmp_path / "job", folder, 0, 1_000 * at, 1_000 * at + 500)
    found = ingest.load(tmp_path / "job", tmp_path / "store").runs
    assert found and all(run.run_id and run.formats != ("verl",) for run in found)


def test_the_log_of_the_steps_comes_to_the_job(tmp_path: Path) -> None:
    step(tmp_path / "job", "2", 0)
    (tmp_path / "job" / "train.log").write_text("step:2 - timing_s/step:1.75 - timing_s/gen:0.9\n")
    run, others = loaded(tmp_path / "job", tmp_path / "store")
    assert len(others) == len(STEP) and run.run_id is not None
    con = runs.open_run(tmp_path / "store", run.run_id)
    assert con.execute("SELECT count(*) FROM stage").fetchall() == [(10,)]
    assert con.execute("SELECT step, value FROM serving_sample WHERE name = 'timing_s/step'").fetchall() == [(2, 1.75)]


def test_odd_names_stay_text(tmp_path: Path) -> None:
    step(tmp_path / "job", "2", 0)
    capture(tmp_path / "job", "2/=cmd|'rollout'<b>", 0, 100, 600)
    run, _ = loaded(tmp_path / "job", tmp_path / "store")
    assert run.run_id is not None
    con = runs.open_run(tmp_path / "store", run.run_id)
    assert con.execute("SELECT name, replica FROM stage WHERE role = 'rollout' AND replica IS NULL").fetchall() == [
        ("=cmd|'rollout'<b>", None)
    ]
