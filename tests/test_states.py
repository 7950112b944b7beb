"""Directories of the Ascend profilers in every state a job can leave them in: what is said, and what is to be run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from npulens.ingest.errors import IngestError
from npulens.ingest.loading import capture
from npulens.ingest.readers.ascend import completeness, rankdir, states
from npulens.ingest.tables.draft import Draft

PROF = "PROF_000001_20250109034804123_ABCDEFGHIJKLMNOP"
TORCH, MINDSPORE = "host_77_20250109034804123_ascend_pt", "rank-3_77_20250109034804123_ascend_ms"


def make(root: Path, *paths: str, **files: str) -> Path:
    """Directories end in a slash; everything else is a file with something in it."""
    root.mkdir(parents=True, exist_ok=True)
    for name in paths:
        path = root / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(b"\x5a\x5a raw")
    for name, text in files.items():
        (root / name.replace("__", ".")).write_text(text)
    return root


def only(path: Path) -> IngestError:
    found = capture.find([path])
    assert found.sources == ()
    (error,) = found.refused
    return error


DONE = tuple(f"device_0/{name}" for name in ("data/hwts.slice_0", "start_info.0", "end_info.0", "info.json.0"))


@pytest.mark.parametrize("above", [True, False])
def test_raw_msprof_data_is_to_be_exported(tmp_path: Path, above: bool) -> None:
    prof = make(tmp_path / PROF, "host/data/unaging.slice_0", *DONE)
    error = only(tmp_path if above else prof)
    assert error.kind == "raw_msprof" and error.path == str(prof)
    assert error.message.endswith(f"run `msprof --export=on --output={PROF}`")


def test_an_interrupted_collection_is_parsed_first(tmp_path: Path) -> None:
    make(tmp_path / PROF, "device_0/data/hwts.slice_0", "device_0/start_info.0", "host/data/", "host/start_info")
    error = only(tmp_path)
    assert "interrupted" in error.message
    assert f"`msprof --parse=on --output={PROF} && msprof --export=on --output={PROF}`" in error.message


def test_a_device_on_its_own_names_the_directory_above(tmp_path: Path) -> None:
    make(tmp_path / PROF, *DONE)
    error = only(tmp_path / PROF / "device_0")
    assert error.kind == "raw_msprof" and f"--output={PROF}`" in error.message


def test_a_prof_directory_without_data_was_stopped_early(tmp_path: Path) -> None:
    (tmp_path / PROF).mkdir()
    assert only(tmp_path).kind == "aborted"


@pytest.mark.parametrize(
    ("name", "kind", "module"),
    [(TORCH, "raw_torch_npu", "torch_npu.profiler.profiler"),
     (MINDSPORE, "raw_mindspore", "mindspore.profiler.profiler")],
)  # fmt: skip
def test_framework_data_is_to_be_analysed_and_its_prof_is_not_named_again(
    tmp_path: Path, name: str, kind: str, module: str
) -> None:
    root = make(tmp_path / name, "FRAMEWORK/torch.op_range", *(f"{PROF}/{part}" for part in DONE))
    error = only(tmp_path)
    assert (error.kind, error.path) == (kind, str(root))
    command = f"python -c \"from {module} import analyse; analyse('{name}')\"`"
    assert error.message.endswith(f"`source /usr/local/Ascend/cann/set_env.sh && {command}")


def test_framework_data_without_a_device_says_so(tmp_path: Path) -> None:
    make(tmp_path / TORCH, "FRAMEWORK/torch.op_range")
    assert "nothing of the device is in it" in only(tmp_path).message


def test_framework_data_of_a_killed_job_says_so_and_quotes_the_log(tmp_path: Path) -> None:
    config = {"common_config": {"activities": ["ProfilerActivity.NPU"]}}
    info = json.dumps({"config": config, "start_info": {}})
    root = make(tmp_path / TORCH, "FRAMEWORK/torch.op_range", "logs/", *(f"{PROF}/{part}" for part in DONE),
        profiler_info_0__json=info)  # fmt: skip
    (root / "logs" / "a.log").write_text("[INFO] x\n[ERROR] one\n[ERROR] two\n[ERROR] one\n[ERROR] three\n[ERROR] 4\n")
    message = only(tmp_path).message
    assert "did not stop in order" in message
    assert message.endswith("; the log's last errors: [ERROR] one | [ERROR] three | [ERROR] 4")


def test_a_nested_prof_without_the_framework_part_gives_the_device_alone(tmp_path: Path) -> None:
    make(tmp_path / TORCH, *(f"{PROF}/{part}" for part in DONE), profiler_info_0__json="{}")
    error = only(tmp_path)
    assert error.kind == "raw_msprof" and f"--output={TORCH}/{PROF}`" in error.message


def test_settings_alone_are_an_aborted_job(tmp_path: Path) -> None:
    make(tmp_path / "my run", "logs/", profiler_info_3__json="{}")
    error = only(tmp_path)
    assert error.kind == "aborted" and "profiler_info" in error.message


@pytest.mark.parametrize("raw", [True, False])
def test_an_analysis_that_failed_is_not_taken_for_done(tmp_path: Path, raw: bool) -> None:
    root = make(tmp_path / TORCH, "ASCEND_PROFILER_OUTPUT/analyse.done", "logs/", *["FRAMEWORK/torch.op_range"] * raw)
    (root / "logs" / "x.log").write_text("[ERROR] [77] msprof is not found\n")
    error = only(tmp_path)
    assert error.kind == "failed_analysis" and "analyse.done is written also when it fails" in error.message
    assert (f"analyse('{TORCH}')" in error.message) is raw
    assert "msprof is not found" in error.message


def test_a_name_that_a_shell_would_run_stands_in_no_command(tmp_path: Path) -> None:
    for name in ("$(reboot)_ascend_pt", "';import os;'_ascend_pt", "-rf_ascend_pt"):
        error = states.state(make(tmp_path / name, "FRAMEWORK/torch.op_range"))
        assert error is not None and "analyse('DIRECTORY')" in error.message


def test_an_export_inside_raw_data_is_loaded_and_says_what_is_raw(tmp_path: Path) -> None:
    root = make(tmp_path / TORCH, "FRAMEWORK/torch.op_range", *(f"{PROF}/{part}" for part in DONE))
    make(root / PROF / "mindstudio_profiler_output", msprof_20250109035001__json="[]")
    (source,) = capture.find([tmp_path]).sources
    assert source.root == root
    draft = Draft(tmp_path / "draft", 0)
    rankdir.describe(root, draft)
    assert len(draft.broken) == 1 and f"analyse('{TORCH}')" in draft.broken[0]


def test_pipes_are_not_waited_for(tmp_path: Path) -> None:
    root = make(tmp_path / PROF, *DONE[:2], "logs/")
    for name in ("device_0/info.json.0", "profiler_info_0.json", "logs/a.log"):
        os.mkfifo(root / name)
    rankdir.facts(root, 0)
    assert states.state(root) is not None


def test_other_directories_have_no_state(tmp_path: Path) -> None:
    assert states.state(make(tmp_path / "notes", "data/x", "host/y")) is None
    assert states.state(tmp_path / "nowhere") is None


FULL = {
    "common_config": {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"], "profile_memory": True},
    "experimental_config": {"_profiler_level": "Level1", "_export_type": ["text"], "_l2_cache": True},
}
TEXT = ("trace_view.json", "kernel_details.csv", "step_trace_time.csv", "op_statistic.csv", "operator_memory.csv",
    "memory_record.csv", "l2_cache.csv", "operator_details.csv")  # fmt: skip


def lacking(root: Path, config: object, *names: str) -> str | None:
    output = root / "ASCEND_PROFILER_OUTPUT"
    make(output, "analyse.done", *names)
    return completeness.missing(config, root, output)  # type: ignore[arg-type]


def test_a_complete_export_lacks_nothing(tmp_path: Path) -> None:
    assert lacking(tmp_path / TORCH, FULL, *TEXT) is None
    assert lacking(tmp_path / MINDSPORE, FULL, *TEXT[:-1]) is None


@pytest.mark.parametrize("name", TEXT)
def test_what_the_settings_ask_for_and_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    said = lacking(tmp_path / TORCH, FULL, *(other for other in TEXT if other != name))
    assert said is not None and said.startswith(f"the export lacks {name}: its analysis did not finish")


def test_a_file_of_no_bytes_is_not_there(tmp_path: Path) -> None:
    root = tmp_path / TORCH
    make(root / "ASCEND_PROFILER_OUTPUT", *TEXT)
    (root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_bytes(b"")
    assert "lacks trace_view.json:" in str(lacking(root, FULL, *TEXT[1:]))


def test_nothing_is_asked_for_where_the_settings_do_not_say(tmp_path: Path) -> None:
    for config in ({}, {"common_config": 3}, {"common_config": {"activities": ["ProfilerActivity.CPU"]}}):
        assert lacking(tmp_path / TORCH, config, "trace_view.json") is None


def test_a_capture_analysed_again_into_the_other_export_is_complete(tmp_path: Path) -> None:
    assert lacking(tmp_path / "a_ascend_pt", FULL, "ascend_pytorch_profiler_0.db") is None
    both = {**FULL, "experimental_config": {"_export_type": ["text", "db"]}}
    assert "lacks ascend_pytorch_profiler.db" in str(lacking(tmp_path / "b_ascend_pt", both, *TEXT))
