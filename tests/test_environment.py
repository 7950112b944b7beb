"""The environment of a measurement: read from files and tools as they are, and unknown where they are not."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from npulens.collectors.environment import devices, environment, variables
from npulens.collectors.telemetry import cann, machine
from tests import npu_smi_texts as texts
from tests.test_backends import write


@pytest.fixture
def npu_smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An npu-smi that answers with the recorded texts of an Atlas 800T A2."""
    home = tmp_path / "bin"
    write(home, {"info": texts.INFO_910B, "common": texts.COMMON_910B, "topo": texts.TOPOLOGY_910B})
    (home / "npu-smi").write_text(
        f'#!/bin/sh\ncase "$*" in\n  info) cat {home}/info;;\n  *common*) cat {home}/common;;\n'
        f"  *topo*) cat {home}/topo;;\n  *) exit 1;;\nesac\n"
    )
    (home / "npu-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}{os.pathsep}{os.environ['PATH']}")
    return home


def test_chips_clocks_processes_and_neighbours(npu_smi: Path) -> None:
    told = devices()
    assert told["soc"] == "910B3"
    assert [(d["npu"], d["memory_total_mb"], d["clock_mhz"], d["rated_mhz"]) for d in told["devices"]] == [
        (0, 65536, 800.0, 1800.0), (1, 65536, 800.0, 1800.0),
    ]  # fmt: skip
    assert [process["pid"] for process in told["processes"]] == [485946, 485947]
    assert told["topology"]["NPU1"] == {"links": {"NPU0": "HCCS", "NPU2": "HCCS"}, "cores": "144-167"}
    json.dumps(environment({"torch": "2.9.0"}))


def test_a_tool_that_fails_tells_nothing(npu_smi: Path) -> None:
    (npu_smi / "npu-smi").write_text("#!/bin/sh\necho 'dcmi module initialize failed. ret is -8005'\nexit 1\n")
    assert devices() == {"soc": None, "devices": None, "processes": None, "topology": None}


def test_variables_that_matter_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASCEND_LAUNCH_BLOCKING", "HCCL_BUFFSIZE", "TASK_QUEUE_ENABLE", "NCCL_API_TOKEN", "SHELL_X"):
        monkeypatch.setenv(name, "1")
    told = variables()
    assert {"ASCEND_LAUNCH_BLOCKING", "HCCL_BUFFSIZE", "TASK_QUEUE_ENABLE"} <= set(told)
    assert not {"NCCL_API_TOKEN", "SHELL_X"} & set(told)


def test_the_commit_says_whether_files_differ_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert environment()["commit"] is None
    told = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    (tmp_path / "a").write_text("1")
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "a"]):
        subprocess.run(["git", *command], check=True, env={**os.environ, **told})
    commit = environment()["commit"]
    assert len(commit) == 40
    (tmp_path / "a").write_text("2")
    assert environment()["commit"] == commit + "+"


@pytest.mark.parametrize(
    ("name", "text", "version"),
    [
        ("ascend_toolkit_install.info", "package_name=Ascend-cann-toolkit\nversion=8.2.RC1\narch=aarch64\n", "8.2.RC1"),
        ("aarch64-linux/ascend_toolkit_install.info", "version=8.5.0\n", "8.5.0"),
        ("version.cfg", "# version: 1.0\nruntime_running_version=[7.7.0.1.231:8.2.RC1]\n", "8.2.RC1"),
        ("version.info", "Version=9.1.0\nversion_dir=9.1.0\n", "9.1.0"),
    ],
)
def test_the_version_of_cann(tmp_path: Path, name: str, text: str, version: str | None) -> None:
    write(tmp_path, {name: text})
    assert cann.version(tmp_path) == version


def test_driver_firmware_and_the_script_that_sets_cann_up(tmp_path: Path) -> None:
    write(tmp_path, {
        cann.DRIVER: "Version=25.5.1\nascendhal_version=7.35.23\n", "usr/local/Ascend/ascend-toolkit/set_env.sh": "",
    })  # fmt: skip
    assert (cann.part(cann.DRIVER, tmp_path), cann.part(cann.FIRMWARE, tmp_path)) == ("25.5.1", None)
    assert cann.installed(tmp_path) == tmp_path / "usr/local/Ascend/ascend-toolkit/set_env.sh"
    assert cann.installed(tmp_path / "usr") is None


def test_limits_of_both_generations_of_control_groups(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    meminfo = "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:   12000000 kB\n"
    write(new, {
        "proc/meminfo": meminfo,
        "sys/fs/cgroup/memory.max": "4096000000\n", "sys/fs/cgroup/memory.current": "96000000\n",
        "sys/fs/cgroup/cpu.max": "150000 100000\n", ".dockerenv": "",
        "sys/devices/system/node/node0/cpulist": "0-23\n", "sys/devices/system/node/node10/cpulist": "24-47\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    })  # fmt: skip
    write(old, {
        "proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        "proc/1/cgroup": "0::/kubepods/besteffort/pod1\n",
    })  # fmt: skip
    assert machine.memory(new) == (4_000_000_000, 4_096_000_000)
    assert machine.memory(old) == (12_000_000 * 1024, 16_000_000 * 1024)
    assert (machine.core_quota(new), machine.core_quota(old)) == (1.5, None)
    assert (machine.container(new), machine.container(old), machine.container(tmp_path)) == ("docker", "kubepods", None)
    assert (machine.numa(new), machine.governor(new)) == ({"node0": "0-23", "node10": "24-47"}, "powersave")
    assert machine.memory(tmp_path) is None
