"""What is timed, how often and when: on a device made of a clock, without torch and without waiting for it."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.backends.backend import Memory, Telemetry
from npulens.collectors.bench import on_request
from npulens.collectors.bench.options import Options, shares
from npulens.collectors.bench.times import model
from npulens.collectors.harness import batch_curve
from npulens.collectors.harness.batch_curve import Point, knee, sweet_spot, within
from npulens.collectors.harness.cache import cold, hot
from npulens.collectors.harness.latency import Load, measure, one
from npulens.collectors.harness.throughput import throughput
from npulens.collectors.harness.unprofiled import Profiled, profiler, refuse_profiled
from npulens.collectors.harness.watch import DeviceWatch, throttled
from npulens.collectors.workloads.workload import Case


@dataclass
class Device:
    """A queue that takes ``work_ns`` a step of a clock of its own; whoever waits moves the clock to the end."""

    name: str = "cuda"
    device: str = "cuda:0"
    work_ns: int = 1_000
    now: int = 0  # where the queue ends
    reached: int = 0  # what has been waited for
    issued: int = 0
    most_under_way: int = 0
    done: list[str] = field(default_factory=list)

    def step(self) -> None:
        self.now += self.work_ns
        self.issued += 1
        self.done.append("step")

    def synchronize(self) -> None:
        self.reached = self.now
        self.done.append("wait")

    def marks(self, count: int) -> list[list[int]]:
        self.done.append(f"{count} marks")
        return [[0] for _ in range(count)]

    def mark(self, mark: list[int]) -> None:
        mark[0] = self.now
        self.most_under_way = max(self.most_under_way, (self.now - self.reached) // self.work_ns)

    def wait(self, mark: list[int]) -> None:
        self.reached = max(self.reached, mark[0])
        time.sleep(1e-5)

    def between_ns(self, first: list[int], last: list[int]) -> int:
        return last[0] - first[0]

    def stream(self) -> AbstractContextManager[None]:
        return nullcontext()

    def cache_bytes(self) -> int | None:
        return None

    def memory(self) -> Memory | None:
        return None

    def forget_peak(self) -> None: ...

    def properties(self) -> Mapping[str, Any]:
        return {}

    def telemetry(self) -> Telemetry:
        self.done.append("look")
        return Telemetry(clock_mhz=1000.0, rated_mhz=1000.0, busy_share=1.0)


def test_device_calls_are_marked_back_to_back_and_waited_for_once() -> None:
    device = Device(work_ns=7_000)
    series = measure(device, Load((device.step,)), "device", DeviceWatch(device), calls=20, seconds=5)
    assert series.ns == [7_000] * 20 and len(series.at_ns) == 20
    # A look and an untimed call; then the marks exist before the first step, and one wait ends all twenty.
    assert device.done == ["look", "wait", "step", "wait", "40 marks", "wait", *["step"] * 20, "wait"]


def test_host_calls_are_waited_for_one_by_one_and_the_device_is_never_asked_in_between() -> None:
    device = Device()
    measure(device, Load((device.step,)), "host", DeviceWatch(device), calls=3, seconds=5)
    assert device.done == ["look", "wait", "step", "wait", *["wait", "step", "wait"] * 3]


def test_what_prepares_a_call_is_outside_of_its_time() -> None:
    device = Device(work_ns=5)
    slow = Load((device.step,), prepare=lambda: time.sleep(0.02))
    assert max(measure(device, slow, "host", DeviceWatch(device), calls=5, seconds=5).ns) < 15_000_000
    assert one(device, slow) < 15_000_000


def test_calls_end_with_the_time_and_keep_what_there_is() -> None:
    device = Device()
    series = measure(device, Load((lambda: time.sleep(0.002),)), "host", DeviceWatch(device), calls=10_000, seconds=0.1)
    assert 5 <= len(series.ns) <= 60 and min(series.ns) >= 2_000_000


def test_a_garbage_collection_is_told_of_the_call_it_fell_into() -> None:
    device, calls = Device(), iter(range(100))

    def step() -> None:
        if next(calls) == 6:  # the first is untimed: the sixth that is timed
            gc.collect()

    gc.disable()
    try:
        series = measure(device, Load((step,)), "host", DeviceWatch(device), calls=10, seconds=5)
    finally:
        gc.enable()
    assert [at for at, events in series.events.items() if "garbage collection" in events] == [5]


def test_an_interrupt_leaves_what_was_measured() -> None:
    from npulens.collectors.harness.latency import CHUNK_CALLS, Series

    device, calls, kept = Device(), iter(range(10_000)), Series("host")

    def step() -> None:
        if next(calls) == 2 * CHUNK_CALLS:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure(device, Load((step,)), "host", DeviceWatch(device), calls=1000, seconds=5, into=kept)
    assert len(kept.ns) == CHUNK_CALLS


def test_cold_calls_take_turns_over_more_than_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr("npulens.collectors.harness.cache._flush", lambda _, size: lambda: flushed.append(size))
    called: list[int] = []

    def make(seed: int) -> Case:
        return Case(lambda: called.append(seed), None, 100 << 20)

    load, how = cold(Device(), make)
    assert how == {"cache_bytes": None, "flushed_bytes": 256 << 20, "copies": 3}  # 3 x 100 MiB > 256 MiB
    for _ in range(6):
        one(Device(), load)
    assert sorted(called) == [0, 0, 1, 1, 2, 2] and len(set(called[:3])) == 3 and flushed == [256 << 20] * 6
    assert hot(make(0)).prepare is None


def test_no_more_than_so_many_are_under_way_and_only_completed_ones_count() -> None:
    device = Device()
    found = throughput(device, Load((device.step,)), seconds=0.05, in_flight=4)
    assert device.most_under_way == 4
    assert 0 < found.completed <= device.issued - 3  # what was still under way at the end is not counted
    assert found.seconds >= 0.05 and found.per_second == found.completed / found.seconds


def point(batch: int, per_second: float, p50_ns: int, p99_ns: int = 0) -> Point:
    return Point(batch, per_second, p50_ns, p99_ns or p50_ns, 100, None, 1000)


def test_the_batches_that_a_curve_recommends() -> None:
    """Throughput saturates at 800: 770 is within 95 %, 700 is not."""
    points = [point(1, 100, 10), point(2, 200, 10), point(4, 390, 10), point(8, 700, 11, 30), point(16, 770, 21, 40),
              point(32, 800, 40, 90)]  # fmt: skip
    sweet, bend = sweet_spot(points), knee(points)
    assert sweet is not None and sweet.batch == 16
    assert bend is not None and bend.batch == 8  # 16 costs 1.9 times the latency for 1.1 times the throughput
    best = within(points, 40)
    assert best is not None and best.batch == 16
    assert within(points, 5) is None and sweet_spot([]) is None and knee(points[:1]) is None


def test_a_curve_ends_before_a_processors_memory_does(tmp_path: Path) -> None:
    seen: list[int] = []

    def measured(batch: int) -> Point:
        seen.append(batch)
        return Point(batch, 1.0, 1, 1, 1, None, batch * 1000)

    with pytest.raises(MemoryError, match="batch 8 would need more"):
        list(batch_curve.curve(measured, lambda: 20_000))
    assert seen == [1, 2, 4]  # 2 x 3 x 4,000 is more than 20,000
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "meminfo").write_text("MemTotal: 9 kB\nMemAvailable:    4000 kB\n")
    assert batch_curve.free_bytes(tmp_path) == 2000 * 1024 and batch_curve.free_bytes(tmp_path / "none") is None


@pytest.mark.parametrize(
    ("error", "out"),
    [(MemoryError(), True), (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), True),
     (RuntimeError("NPU out of memory. Tried to allocate"), True),
     (RuntimeError("[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"), True),
     (RuntimeError("shape mismatch"), False), (ValueError("batch"), False)],
)  # fmt: skip
def test_what_counts_as_out_of_memory(error: Exception, out: bool) -> None:
    assert batch_curve.out_of_memory(error) is out


def test_a_sweep_holds_the_shapes_and_the_extremes() -> None:
    found = on_request.sweep({"small": {"batch": 2, "rows": 7, "one": 1}, "vit": {"batch": 1, "rows": 197, "one": 1}})
    assert found["ones"] == {"batch": 1, "rows": 1, "one": 1} and found["odd"] == {"batch": 3, "rows": 7, "one": 1}
    assert list(found) == ["small", "vit", "ones", "odd"]
    assert on_request.empty({"batch": 2, "rows": 7}, "rows") == {"batch": 2, "rows": 0}


def test_a_profiled_process_gives_no_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    assert profiler({}) is None and profiler({"NPULENS_RECORDING": ""}) is None
    assert profiler({"NPULENS_RECORDING": "{}"}) == "npulens collect"
    assert profiler({"PROFILING_MODE": "false"}) is None and profiler({"PROFILING_MODE": "true"}) is not None
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "1")
    with pytest.raises(Profiled, match="Nsight Systems is at work"):
        measure(Device(), Load((lambda: None,)), "host", DeviceWatch(Device()), calls=1)
    monkeypatch.delenv("NSYS_PROFILING_SESSION_ID")
    failed: list[BaseException] = []

    def under_a_debugger() -> None:
        sys.setprofile(lambda *_: None)
        try:
            refuse_profiled({})
        except Profiled as error:
            failed.append(error)
        finally:
            sys.setprofile(None)

    thread = threading.Thread(target=under_a_debugger)
    thread.start()
    thread.join()
    assert len(failed) == 1


def test_a_clock_below_its_rating_is_throttled_only_at_work() -> None:
    idle = Telemetry(clock_mhz=500.0, rated_mhz=1000.0, busy_share=0.1)
    slow = Telemetry(clock_mhz=900.0, rated_mhz=1000.0, busy_share=0.9)
    full = Telemetry(clock_mhz=980.0, rated_mhz=1000.0, busy_share=0.9)
    assert throttled([idle, full]) is None and throttled([]) is None and throttled([Telemetry()]) is None
    assert throttled([idle, slow, full]) == "900 of 1000 MHz at work, in 1 of 3 looks"
    assert throttled([Telemetry(throttled_by=("power",))]) == "the device says it is throttled: power"


def test_looking_takes_no_more_than_a_tenth_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A look of 2 s is followed by none for 20 s; a quick one by none for a second."""
    clock = [100.0]
    monkeypatch.setattr("npulens.collectors.harness.watch.time.monotonic", lambda: clock[0])
    for took, pause in ((2.0, 20.0), (0.001, 1.0)):
        device, begun = Device(), clock[0]

        def slow(took: float = took) -> Telemetry:
            clock[0] += took
            return Telemetry()

        device.telemetry = slow  # type: ignore[method-assign]
        watch = DeviceWatch(device)
        watch.look()
        for at, seen in ((begun + 0.9 * pause, 1), (begun + 1.1 * pause, 2)):
            clock[0] = max(clock[0], at)
            watch.look()
            assert len(watch.seen) == seen


def test_a_model_counts_and_never_supposes_a_peak() -> None:
    told = model(Case(lambda: None, 2_000_000, 1_000, 3), 1e6)
    assert told == {"flops": 2_000_000, "bytes": 1_000, "kernels": 3, "flops_per_byte": 2_000.0,
                    "flops_per_s": 2e9, "bytes_per_s": 1e6}  # fmt: skip
    assert set(model(Case(lambda: None, None, None), 1.0).values()) == {None}


def test_the_budget_is_shared_out() -> None:
    options = Options("x", time_budget=100.0)
    each = shares(options, series=6, comparisons=3, besides=1)
    assert each.comparison == each.besides == 10 and (each.series, each.warm_up) == (8, 2)
    assert shares(Options("x", time_budget=1e5), 1, 0, 0).series == 30  # no series needs more
    assert options.quick().time_budget == 8 and options.quick().pairs == 8
