"""A setting that was on is not asked for again: its file is missing, and that is said."""

from __future__ import annotations

import json

import pytest

from npulens.analysis.capability import capabilities, its_own, setting, was_on
from npulens.analysis.quality import quality
from npulens.analysis.run import Run
from tests.tablecase import connection

LACKS = "the export lacks trace_view.json, memory_record.csv: its analysis did not finish"


def run_of(level: str, reason: str, **config: object) -> Run:
    con = connection({"spans": [{"id": 1, "kind": "kernel", "name": "a", "at": 0, "for": 30}]})
    settings = json.dumps({"common_config": {"activities": ["ProfilerActivity.CPU", "ProfilerActivity.NPU"], **config}})
    con.execute(
        "UPDATE rank SET profiler_level = ?, status = 'partial', reason = ?, settings = ?", [level, reason, settings]
    )
    return Run(con)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("with_stack=True", "trace_view.json of this capture, which is not here (with_stack=True was on)"),
        ("profiler_level=Level1", "trace_view.json of this capture, which is not here (profiler_level=Level1 was on)"),
        ("profiler_level=Level2", "profiler_level=Level2"),  # Level1 was
        ("profile_memory=True", "profile_memory=True"),  # it was off
        ("gc_detect_threshold=0", "gc_detect_threshold=0"),
    ],
)
def test_a_setting_that_was_on_names_the_file_that_is_missing(setting: str, said: str) -> None:
    assert its_own(run_of("Level1", LACKS, with_stack=True, profile_memory=False), setting) == said


def test_where_the_export_lacks_nothing_settings_are_said_as_they_are() -> None:
    run = run_of("Level1", "the raw data is newer", with_stack=True)
    assert its_own(run, "with_stack=True") == "with_stack=True" and not was_on(run, "python")


def test_no_level_is_no_level_that_was_on() -> None:
    assert its_own(run_of("Level_none", LACKS), "profiler_level=Level1") == "profiler_level=Level1"


def test_what_was_on_is_not_new_and_ranks_of_groups_are_counted() -> None:
    run = run_of("Level1", LACKS, with_stack=True, profile_memory=True)
    run.con.execute("UPDATE run SET world_size = NULL")
    run.con.execute(
        "INSERT INTO parallel_group (group_name, rank, ranks, source) "
        "VALUES ('a', 0, [0, 1], 'm'), ('b', 0, [2, 3], 'm')"
    )
    made = quality(run).collect
    assert {name: new[0] for name, _, new in made.settings if name in ("with_stack", "profile_memory")} == {
        "with_stack": "", "profile_memory": "",
    }  # fmt: skip
    assert made.why[0] == "every rank: groups of this job name 4 of them"


def of_msprof(*, typed: bool, calls: bool, timeline: bool) -> Run:
    kernel = {"op_type": "Add" if typed else None}
    con = connection({"spans": [{"id": 1, "kind": "kernel", "name": "a", "at": 0, "for": 30, "kernel": kernel}]})
    con.execute("UPDATE rank SET settings = ?", ['{"profiler": "msprof"}'])
    if calls:
        con.execute(
            "INSERT INTO summary (rank, source, name, category) VALUES (0, 'api_statistic', 'aclrtMalloc', 'acl')"
        )
    if not timeline:
        con.execute("DELETE FROM coverage WHERE table_name = 'sample'")
        con.execute(
            "INSERT INTO coverage (rank, table_name, status, rows, dropped, reason) "
            "VALUES (0, 'sample', 'absent', 0, 0, 'there is no msprof_*.json')"
        )
    return Run(con)


GONE = "msprof_*.json of this capture, which is not here ({} was on)"


@pytest.mark.parametrize(
    ("name", "typed", "calls", "timeline", "said"),
    [
        ("launches", False, True, False, GONE.format("msprof --ascendcl=on")),
        ("copies", False, True, False, GONE.format("msprof --ascendcl=on")),
        ("launches", False, False, False, "msprof --ascendcl=on"),
        ("launches", False, True, True, "msprof --ascendcl=on"),
        ("kernel_shapes", True, False, True, None),  # l1 was on: launched so, kernels have no shapes
        ("kernel_shapes", False, False, True, "msprof --task-time=l1"),
        ("frequency", True, False, False, GONE.format("msprof --task-time=l1")),
        ("frequency", False, False, False, "msprof --task-time=l1"),
        ("collectives", True, False, True, "msprof --task-time=l1"),
    ],
)
def test_options_of_msprof_that_were_on(name: str, typed: bool, calls: bool, timeline: bool, said: str | None) -> None:
    run = of_msprof(typed=typed, calls=calls, timeline=timeline)
    assert setting(run, name) == said
    assert its_own(run, said) == said, "said again it stays"


@pytest.mark.parametrize(
    ("runtime", "option"), [(False, "msprof --ascendcl=on"), (True, "msprof --ascendcl=on --runtime-api=on")]
)
def test_calls_of_the_runtime_that_were_added_up_were_recorded(runtime: bool, option: str) -> None:
    run = of_msprof(typed=True, calls=True, timeline=False)
    if runtime:
        run.con.execute(
            "INSERT INTO summary (rank, source, name, category) VALUES (0, 'api_statistic', 'DevMalloc', 'runtime')"
        )
    assert setting(run, "copies") == GONE.format(option)


def of_torch_npu(*sums: tuple[str, str, str | None, float], typed: bool | None = None, timeline: bool = False) -> Run:
    """A text export without its timeline. `sums`: source, name, category, us; `typed`: a kernel, with its type."""
    kernel = {"op_type": "Add" if typed else "N/A"}
    spans = [{"id": 1, "kind": "kernel", "name": "a", "at": 0, "for": 30, "kernel": kernel}]
    absent = ("host_op", "link", "sample", "stack", "pmu", *(() if typed is not None else ("kernel",)))
    con = connection({"spans": [] if typed is None else spans, "absent": absent})
    if not timeline:
        con.execute("UPDATE coverage SET reason = 'there is no trace_view.json' WHERE status = 'absent'")
    con.execute("UPDATE coverage SET collect_with = 'activities=[CPU, NPU]' WHERE table_name IN ('kernel', 'host_op')")
    for source, name, category, us in sums:
        con.execute(
            "INSERT INTO summary (rank, source, name, category, count, total_ns) VALUES (0, ?, ?, ?, 2, ?)",
            [source, name, category, int(1000 * us)],
        )
    return Run(con)


OPERATORS = ("op_statistic", "MatMul", "AI_CORE", 9.0)
CALLS = ("api_statistic", "aclrtMalloc", "acl", 5.0)
HERE = "{} of this capture, which is not here ({} was on)"
NPU, LEVEL1, LEVEL2 = "activities=[CPU, NPU]", "profiler_level=Level1", "profiler_level=Level2"
TRACE = "trace_view.json"


@pytest.mark.parametrize(
    ("run", "text", "name", "said"),
    [
        (of_torch_npu(OPERATORS), NPU, "kernels", HERE.format("kernel_details.csv", "activities=[NPU]")),
        (of_torch_npu(OPERATORS), NPU, "collectives", HERE.format(TRACE, "activities=[NPU]")),
        (of_torch_npu(OPERATORS), LEVEL1, "launches", HERE.format(TRACE, LEVEL1)),
        (of_torch_npu(CALLS), NPU, "kernels", NPU),  # nothing shows that work of the device was recorded
        (of_torch_npu(CALLS), LEVEL1, "launches", HERE.format(TRACE, LEVEL1)),
        (of_torch_npu(CALLS), LEVEL2, "copy_bytes", LEVEL2),
        (of_torch_npu(("api_statistic", "a", "runtime", 1)), LEVEL2, "copy_bytes", HERE.format(TRACE, LEVEL2)),
        (of_torch_npu(typed=True), LEVEL1, "launches", HERE.format(TRACE, LEVEL1)),
        (of_torch_npu(typed=False), LEVEL1, "launches", LEVEL1),  # Level0 names no types
        (of_torch_npu(("op_statistic", "MatMul", "N/A", 9.0)), LEVEL1, "launches", LEVEL1),
        (of_torch_npu(typed=True), LEVEL1, "kernel_blocks", None),
        (of_torch_npu(typed=True), f"{LEVEL1}, aic_metrics=PipeUtilization", "kernel_counters",
         "aic_metrics=PipeUtilization"),
        (of_torch_npu(OPERATORS, CALLS, timeline=True), LEVEL1, "launches", LEVEL1),
        (of_torch_npu(OPERATORS), NPU, "host_ops",
         f"{TRACE} of this capture, which is not here. Where that holds nothing of it: {NPU}"),
    ],
)  # fmt: skip
def test_files_that_are_here_show_what_was_on(run: Run, text: str, name: str, said: str | None) -> None:
    assert its_own(run, text, name) == said
    assert its_own(run, said) == said, "said again it stays"


def test_what_was_only_added_up_is_not_called_unrecorded() -> None:
    found = of_torch_npu(
        OPERATORS, CALLS, ("api_statistic", "aclrtFree", "acl", 2.5), ("api_statistic", "Foo", "acl", 9)
    )
    why = {name: (has.why, has.why_zh) for name, has in capabilities(found).items()}
    assert why["kernels"][0] == "only sums of it were recorded, in op_statistic"
    assert why["runtime_calls"] == (
        "only sums of them were recorded, in api_statistic: aclrtMalloc 5.00 µs (2x), aclrtFree 2.50 µs (2x)",
        "只采集到其汇总（api_statistic）：aclrtMalloc 5.00 µs (2x), aclrtFree 2.50 µs (2x)",
    )
    assert why["compiling"][0].endswith("in api_statistic, and no call that compiles is in it")
    assert why["host_ops"][0] == "there is no trace_view.json"
