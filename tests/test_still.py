"""Nodes of the replay that used to stand still, and what they hang on; and calls that are no waits (times in us)."""

from __future__ import annotations

from pathlib import Path

import pytest

from npulens import ingest
from npulens.analysis.engine import check
from npulens.analysis.finding import Change
from npulens.analysis.intervals import EMPTY
from npulens.analysis.run import Run
from npulens.ingest.store.connection import open_run
from tests.test_late import TORCHREC
from tests.test_whatif import call, host, ids, mark, run_of, task, us

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
#: What these blame is time in which nothing is computed; the others also shorten kernels.
BARE = {"host_late", "sync_stall", "launch_overhead", "gc", "compile", "memory_alloc", "dataloader", "comm_exposed",
        "copy_exposed", "pipeline_bubble"}  # fmt: skip


def shorter(number: int, by: float) -> Change:
    return Change(tasks=ids(number), task_ns=ids(round(by * 1_000)))


@pytest.mark.parametrize("name", ["AscendCL@aclrtFree", "cudaFree"])
def test_a_free_waits_only_where_it_ends_with_a_task(name: str) -> None:
    """Its 400 behind the kernel are its own work; returning 5 behind it, it waited."""
    busy = run_of(mark(1_030), call(1, 2), task(2, 20, 480, 1), call(3, 30, 870, name=name), call(4, 910),
                  task(5, 930, 100, 4))  # fmt: skip
    assert us(busy, shorter(2, 300)) == 0
    waited = run_of(mark(635), call(1, 2), task(2, 20, 480, 1), call(3, 30, 475, name=name), call(4, 515),
                    task(5, 535, 100, 4))  # fmt: skip
    assert us(waited, shorter(2, 300)) == 300


def silent(length: float) -> Run:
    """Nothing of the host from 30 to 5,010, where it frees memory and goes on; the device works until 20 + length."""
    return run_of(mark(6_000), call(1, 2), task(2, 20, length, 1), call(6, 20, 10, name="cudaMalloc"),
                  call(3, 5_010, 10, name="cudaFree"), call(4, 5_030), task(5, 5_050, 950, 4))  # fmt: skip


def test_silence_that_ends_with_the_device_is_a_wait() -> None:
    assert us(silent(4_980), shorter(2, 3_000)) == 3_000


def test_a_host_that_sleeps_while_its_device_idles_does_not_wait_for_it() -> None:
    assert us(silent(980), shorter(2, 300)) == 0


def test_helpers_of_a_collective_hold_nobody_up() -> None:
    """A stream with nothing but tasks of no kind and no launch; the device is synchronised behind its last one."""
    def helper(number: int, at: float, length: float) -> dict[str, object]:
        return task(number, at, length, None, "device_other", "s9") | {"name": "Other"}

    run = run_of(mark(635), call(1, 2), task(2, 20, 480, 1), helper(6, 100, 10), helper(7, 490, 10),
                 call(3, 30, 475, name="cudaDeviceSynchronize"), call(4, 515), task(5, 535, 100, 4))  # fmt: skip
    assert us(run, shorter(2, 300)) == 300


def test_work_of_unknown_launch_follows_the_host() -> None:
    """The copy at 700 has no launch; the host's last known moment before it is the launch at 600."""
    run = run_of(mark(100), call(1, 8), task(2, 30, 70, 1), call(3, 598), task(4, 620, 20, 3),
                 task(5, 90, 5, None, "memcpy", "s1"), task(6, 700, 10, None, "memcpy", "s1"),
                 mark(610, number=2, at=100))  # fmt: skip
    assert us(run, host((100, 500))) == 400


def test_a_mark_that_is_stamped_when_its_event_has_come_follows_the_other_stream() -> None:
    run = run_of(call(1, 2), task(2, 20, 30, 1), call(3, 8), task(4, 30, 470, 3, stream="s1"),
                 task(5, 526, 0.01, None, "wait"), call(6, 14), task(7, 527, 100, 6))  # fmt: skip
    assert us(run, shorter(4, 200)) == 200


def test_a_launch_takes_no_longer_than_a_launch() -> None:
    """The kernel starts 855 after its launch, 3 behind a kernel of another stream: that is what held it up."""
    run = run_of(call(1, 2), task(2, 20, 838, 1, stream="s1"), call(3, 4), task(4, 861, 100, 3))
    assert us(run, shorter(2, 500)) == 500


def bare_ns(run: Run) -> int:
    """Idle time, exposed communication and copies of the rank that has most."""
    most = 0
    for rank in run.ranks:
        if (window := run.window(rank)) is not None:
            gaps = (run.activity(rank).computing or EMPTY).gaps(*window)
            most = max(most, gaps.total())
    return most


def within(run: Run) -> None:
    said, most = check(run.con), bare_ns(run)
    for finding in said.findings:
        if finding.cause in BARE - {"launch_overhead"}:
            assert finding.saving_ns * run.step_count <= most, finding.words["en"].title
        if finding.cause == "launch_overhead":
            idle = max(
                run.activity(rank).work().gaps(*window).total() for rank in run.ranks
                if (window := run.window(rank)) is not None
            )  # fmt: skip
            assert finding.saving_ns * run.step_count <= idle


@pytest.mark.parametrize("name", ["kineto", "torch_npu_db", "torch_npu_text"])
def test_no_saving_exceeds_what_is_not_computed(name: str, tmp_path: Path) -> None:
    for one in ingest.load(SAMPLES / name, tmp_path).runs:
        assert one.run_id
        within(Run(open_run(tmp_path, one.run_id)))


@pytest.mark.shared
@pytest.mark.parametrize("name", [
    "../traces_2/AMD-AGI+TraceLens/tests/traces/h100/facebook_timesformer-base-finetuned-k400__1016002.json.gz",
    f"../traces_2/{TORCHREC}/sst_sleep_pl_dense_after_backward_2",
    "../traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/text/level1",
    "../traces_2/pytorch-labs+segment-anything-fast/amg_example/amg_example_trace.json.gz",
    "AMD-AGI+TraceLens/tests/traces/b200/eager_trace.json.gz",
    "Ascend+msinsight/test/data/pytorch/text/level1",
])  # fmt: skip
def test_no_saving_exceeds_what_real_devices_do_not_compute(name: str, shared_traces: Path, tmp_path: Path) -> None:
    path = shared_traces / name
    if not path.exists():
        pytest.skip("the real captures of the second set are not here")
    for one in ingest.load(path, tmp_path).runs:
        assert one.run_id
        within(Run(open_run(tmp_path, one.run_id)))
