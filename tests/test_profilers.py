"""What torch_npu's profiler can do is reachable, and nothing is asked of it that it would drop in silence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from npulens.collectors.__main__ import _parser
from npulens.collectors.profilers import dynamic_profile
from npulens.collectors.settings import HOST_SYSTEM, METRICS, Settings

ROOT = Path(__file__).resolve().parent.parent


def collectors(*arguments: str) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "npulens.collectors", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "wrong",
    [{"metrics": "PipeUtilisation"}, {"host_system": ("GPU",)}, {"level": "Level3"}, {"export": ()},
     {"mstx_only": ("a",), "mstx_without": ("b",)}, {"active": 0}],
)  # fmt: skip
def test_what_torch_npu_would_drop_with_a_warning_is_an_error_here(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        replace(Settings(), **wrong)  # type: ignore[arg-type]


def test_every_setting_can_be_given_on_the_command_line() -> None:
    words = {
        option.lstrip("-").replace("-", "_")
        for parser in _parser()._subparsers._group_actions[0].choices.values()  # type: ignore[union-attr]
        for option in parser._option_string_actions
    }
    assert {field.name for field in fields(Settings)} <= words


def test_settings_survive_their_journey_to_the_processes_of_a_job() -> None:
    told = Settings(metrics="Memory", host_system=("CPU", "NUMA"), mstx=True, mstx_only=("a",), native=True, active=7)
    assert Settings.from_json(told.to_json()) == told


def test_a_running_job_is_told_in_the_words_of_torch_npu(tmp_path: Path) -> None:
    """The keys are those that ConfigContext of torch_npu 2.1.0.post17 to 2.14.0 reads; start_step -1 is at once."""
    watched = tmp_path / "watched"
    watched.mkdir()
    settings = Settings(
        level="Level2", metrics="L2Cache", export=("text", "db"), host_system=("CPU",), mstx=True, mstx_only=("nets",)
    )
    path = dynamic_profile.begin(watched, settings, tmp_path / "out", (0, 3))
    told = json.loads(path.read_text())
    assert told.pop("experimental_config") == {
        "profiler_level": "Level2", "aic_metrics": "L2Cache", "l2_cache": False, "op_attr": False,
        "gc_detect_threshold": None, "data_simplification": True, "export_type": ["text", "db"], "mstx": True,
        "mstx_domain_include": ["nets"], "mstx_domain_exclude": None, "host_sys": ["cpu"], "sys_io": False,
        "sys_interconnection": False,
    }  # fmt: skip
    assert told == {
        "activities": ["CPU", "NPU"], "prof_dir": str(tmp_path / "out"), "analyse": True, "async_mode": True,
        "start_step": -1, "warmup": 1, "active": 3, "is_rank": True, "rank_list": [0, 3], "record_shapes": True,
        "profile_memory": False, "with_stack": False, "with_flops": False, "with_modules": False,
    }  # fmt: skip


def test_a_second_request_is_another_second_of_change(tmp_path: Path) -> None:
    """The job compares whole seconds: two requests within one of them must not look like one."""
    moments = [int(os.stat(dynamic_profile.begin(tmp_path, Settings(), tmp_path / "out")).st_mtime) for _ in range(3)]
    assert moments[0] < moments[1] < moments[2]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [dynamic_profile.NAME]


def test_a_request_by_command(tmp_path: Path) -> None:
    rc, answer = collectors("begin", "-o", str(tmp_path / "out"), "--watched", str(tmp_path), "--metrics", "Memory")
    assert (rc, answer["status"]) == (0, "begun")
    told = json.loads((tmp_path / dynamic_profile.NAME).read_text())
    assert told["experimental_config"]["aic_metrics"] == "Memory"
    rc, answer = collectors("begin", "-o", str(tmp_path / "out"), "--watched", str(tmp_path / "no"))
    assert rc == 2 and "PROF_CONFIG_PATH" in json.dumps(answer)


def test_a_group_of_counters_that_is_none_is_an_error_before_the_job_runs(tmp_path: Path) -> None:
    rc, answer = collectors("begin", "-o", str(tmp_path), "--watched", str(tmp_path), "--metrics", "Pipes")
    assert rc == 2 and all(group in json.dumps(answer) for group in METRICS)
    assert "NUMA" in HOST_SYSTEM
