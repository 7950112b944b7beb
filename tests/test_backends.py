"""Every backend keeps the same promises; here the processor's, and what is read of it below /proc and /sys."""

from __future__ import annotations

import importlib.util
import os
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from npulens.collectors.backends.backend import Backend, Telemetry, open_backend
from npulens.collectors.backends.npu import Npu
from npulens.collectors.telemetry.processor import Processor
from tests import npu_smi_texts

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_marks_of_the_processor_are_wall_time() -> None:
    cpu: Backend = open_backend("cpu")
    first, last = cpu.marks(2)
    begun = time.perf_counter_ns()
    cpu.mark(first)
    time.sleep(0.02)
    cpu.mark(last)
    ended = time.perf_counter_ns()
    assert 20_000_000 <= cpu.between_ns(first, last) <= ended - begun


@needs_torch
@pytest.mark.torch
def test_the_processor_says_what_it_is() -> None:
    import torch

    said = open_backend("cpu").properties()
    assert said["threads"] == torch.get_num_threads()
    assert said["name"]


CORE = "sys/devices/system/cpu/cpu{}/"


def test_clock_heat_and_load_of_a_processor(tmp_path: Path) -> None:
    """Two cores of an Intel server: 2.1 and 2.5 GHz, of which 2.4 are rated."""
    write(tmp_path, {
        "proc/stat": "cpu 0\ncpu0 100 0 100 700 100 0 0 0 0 0\ncpu1 100 0 100 800 0 0 0 0 0 0\ncpu2 9 0 0 0 0 0 0 0\n",
        CORE.format(0) + "cpufreq/scaling_cur_freq": "2100000\n",
        CORE.format(1) + "cpufreq/scaling_cur_freq": "2500000\n",
        CORE.format(0) + "cpufreq/base_frequency": "2400000\n",
        CORE.format(0) + "thermal_throttle/core_throttle_count": "5\n",
        CORE.format(1) + "thermal_throttle/core_throttle_count": "7\n",
        CORE.format(0) + "thermal_throttle/package_throttle_count": "7\n",
        "sys/fs/cgroup/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 3\n",
        "sys/class/thermal/thermal_zone0/type": "acpitz\n",
        "sys/class/thermal/thermal_zone0/temp": "27800\n",
        "sys/class/thermal/thermal_zone1/type": "x86_pkg_temp\n",
        "sys/class/thermal/thermal_zone1/temp": "81000\n",
    })  # fmt: skip
    processor = Processor(tmp_path, cores=(0, 1))
    write(tmp_path, {
        "proc/stat": "cpu 0\ncpu0 150 0 110 730 110 0 0 0 0 0\ncpu1 190 0 100 810 0 0 0 0 0 0\ncpu2 9 0 0 0 0 0 0 0\n",
        CORE.format(1) + "thermal_throttle/core_throttle_count": "8\n",
    })  # fmt: skip
    # Busy: 60 of 100 ticks of core 0, 90 of 100 of core 1.
    assert processor.telemetry() == Telemetry(
        clock_mhz=2300.0, rated_mhz=2400.0, busy_share=0.75, temperature_c=81.0, throttled_by=("heat of the core",)
    )
    write(tmp_path, {"sys/fs/cgroup/cpu.stat": "nr_throttled 4\n"})
    again = processor.telemetry()
    assert again.throttled_by == ("quota of the control group",)
    assert again.busy_share is None  # no tick has passed


def test_a_machine_that_tells_nothing(tmp_path: Path) -> None:
    processor = Processor(tmp_path, cores=(0,))
    assert processor.telemetry() == Telemetry()
    assert processor.cache_bytes() is None
    assert processor.name() is None


def test_the_rated_clock_of_a_virtual_machine_stands_in_its_name(tmp_path: Path) -> None:
    about = "processor : 0\nmodel name\t: Intel(R) Xeon(R) CPU E5-2690 v4 @ 2.60GHz\ncpu MHz\t\t: 2599.998\n"
    write(tmp_path, {"proc/cpuinfo": about})
    told = Processor(tmp_path, cores=(0,)).telemetry()
    assert (told.clock_mhz, told.rated_mhz) == (2599.998, 2600.0)


def test_the_last_cache_counts_once_for_the_cores_that_share_it(tmp_path: Path) -> None:
    """Four cores, two L3 of 32 MiB; what may only be used by a fifth core does not count."""
    for core in range(5):
        home = CORE.format(core) + "cache/"
        shared = "0-1" if core < 2 else "2-3" if core < 4 else "4"
        write(tmp_path, {
            home + "index0/level": "1\n", home + "index0/type": "Data\n", home + "index0/size": "48K\n",
            home + "index1/level": "1\n", home + "index1/type": "Instruction\n", home + "index1/size": "32K\n",
            home + "index3/level": "3\n", home + "index3/type": "Unified\n", home + "index3/size": "32M\n",
            home + "index3/shared_cpu_list": shared + "\n",
        })  # fmt: skip
    assert Processor(tmp_path, cores=range(4)).cache_bytes() == 64 << 20
    assert Processor(tmp_path, cores=(1,)).cache_bytes() == 32 << 20


def test_an_npu_is_asked_for_by_the_number_that_npu_smi_gives_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second visible of 1 and 3 is chip 1 of card 4 on an Atlas 300I Duo, not its neighbour."""
    write(tmp_path, {"map": npu_smi_texts.MAPPING_310P, "common": npu_smi_texts.COMMON_310P})
    tool = tmp_path / "npu-smi"
    answers = f'case "$*" in "info -m") cat {tmp_path}/map;; *"-i 4") cat {tmp_path}/common;; esac'
    tool.write_text(f"#!/bin/sh\n{answers}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", "1,3")
    npu = Npu("npu", SimpleNamespace(current_device=lambda: 1))
    assert npu.telemetry() == Telemetry(clock_mhz=1080, rated_mhz=1080, busy_share=0.71, temperature_c=59)
    tool.unlink()
    assert npu.telemetry() == Telemetry()
