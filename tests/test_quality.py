"""The capture's own examination: the score by hand, why things are missing, a configuration that fills the holes."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from npulens.analysis.capability import CAPABILITIES, capabilities
from npulens.analysis.collect import Recipe
from npulens.analysis.device.strip import strip
from npulens.analysis.finding import Change, Finding, Words
from npulens.analysis.quality import POINTS, Part, Quality, quality, score_of
from npulens.analysis.run import Run
from tests.tablecase import connection

CONTRACT = Path(__file__).resolve().parents[2] / "shared" / "npu" / "torch_npu_profiler_contract_2.1.0-2.14.0.json"


def spans(steps: int = 5, rank: int = 0, first_us: int = 100) -> Iterator[dict[str, Any]]:
    """Steps of 100 us: one launched kernel each. The first may be longer."""
    at = 0
    for step in range(steps):
        number = 100 * rank + 10 * step
        yield {"id": number + 1, "rank": rank, "kind": "step_mark", "name": f"ProfilerStep#{step}", "at": at, "for": 90}
        yield {"id": number + 2, "rank": rank, "kind": "runtime", "name": "launch", "at": at + 5, "for": 1}
        yield {
            "id": number + 3, "rank": rank, "kind": "kernel", "name": "k", "at": at + 10, "for": 50, "by": number + 2,
            "kernel": {"op_type": "MatMul", "core": "AI_CORE", "input_shapes": "1,1", "block_num": 1},
        }  # fmt: skip
        at += first_us if step == 0 else 100


def said(case: Mapping[str, Any], findings: tuple[Finding, ...] = ()) -> Quality:
    return quality(Run(connection(case)), findings)


def shares(found: Quality) -> dict[str, tuple[int, float]]:
    return {part.name: (part.points, part.share) for part in found.parts}


NPU = {0: {"profiler_level": "Level1", "settings": '{"experimental_config": {"_gc_detect_threshold": null}}'}}
ALL_ABSENT = ["pmu", "host_op", "stack", "memory_sample", "memory_event", "sample"]


def test_the_score_can_be_done_again_by_hand() -> None:
    found = said({"spans": list(spans()), "rank": NPU, "absent": ALL_ABSENT, "run": {"world_size": 1}})
    # Recorded, of 63 points (no peers to wait for: 1 rank): kernels 14, launches 10, steps 8, runtime 4, types 4,
    # shapes 2, copies 2 and their bytes 2 (recorded, and none) = 46. Not: python 6, host_ops 4, counters 2, gc 2,
    # memory 2, frequency 1 = 17.
    # Trust: ranks 8, whole 3, linked 5, launch_clock 2, steps 5, and 0 of 5 for events (the case says 0 events) = 23.
    assert found.score == round(100 * (46 + 23) / (63 + 28)) == 76
    assert sum(points for points, _ in shares(found).values()) == 63 + 28
    assert shares(found)["python"] == (6, 0.0) and shares(found)["linked"] == (5, 1.0)


def test_points_add_up_as_documented() -> None:
    assert sum(POINTS.values()) == 70
    assert set(POINTS) <= {capability.name for capability in CAPABILITIES}
    assert score_of([Part("a", ("", ""), 3, 1.0), Part("b", ("", ""), 1, 0.0)]) == 75
    assert score_of([]) == 0


def test_ranks_that_lack_the_same_are_told_together() -> None:
    reasons = ("cut", "cut", "torn", "cut")
    ranks = {rank: {"status": "partial", "reason": why} for rank, why in enumerate(reasons)}
    told = [one.text[0] for one in quality(Run(connection({"spans": [*spans()], "rank": ranks}))).doubts
            if one.name == "partial"]  # fmt: skip
    assert told == ["ranks 0-1, 3 are incomplete: cut", "rank 2 is incomplete: torn"]


def test_partial_trust_is_a_share() -> None:
    lines = [*spans(2), {"id": 900, "kind": "kernel", "name": "lost", "at": 150, "for": 5, "kernel": {}}]
    lines += [{"id": 901, "kind": "kernel", "name": "early", "at": 104, "for": 1, "by": 12, "kernel": {}}]
    case = {"spans": lines, "run": {"world_size": 4, "missing_ranks": [1, 2, 3]},
            "rank": {0: {"events": 90, "dropped": 10, "status": "partial", "reason": "cut"}}}  # fmt: skip
    con = connection(case)
    con.execute("UPDATE coverage SET dropped = 10 WHERE table_name = 'span'")
    found = quality(Run(con))
    got = shares(found)
    assert got["ranks"] == (8, 0.25) and got["events"] == (5, 0.9) and got["whole"] == (3, 0.0)
    assert got["linked"] == (5, 0.75)  # 3 of 4 kernels
    assert got["launch_clock"] == (2, pytest.approx(2 / 3))  # one of three launches seems to arrive 1 us early
    assert got["step_count"] == (5, 0.4)
    names = {doubt.name for doubt in found.doubts}
    assert names == {"partial", "dropped", "links", "negative_latency"}
    early = next(doubt.text[0] for doubt in found.doubts if doubt.name == "negative_latency")
    assert "by up to 1.00 µs" in early
    missing = {entry.name: entry for entry in found.missing}
    assert missing["ranks"].what == ("ranks 1-3 of 4", "rank 1-3（共 4 个 rank）")
    assert missing["more_steps"].collect_with == "schedule(active=5)"


def test_rows_that_are_no_work_leave_no_doubt_about_idle_time() -> None:
    con = connection({"spans": [*spans()], "rank": {0: {"events": 90, "dropped": 10}}})
    con.execute("UPDATE coverage SET dropped = 10 WHERE table_name = 'arg'")
    found = quality(Run(con))
    assert shares(found)["events"] == (5, 0.9) and "dropped" not in {doubt.name for doubt in found.doubts}


def test_a_first_step_that_is_much_longer_is_doubted() -> None:
    assert "warm_up" in {doubt.name for doubt in said({"spans": list(spans(4, first_us=300))}).doubts}
    assert "warm_up" not in {doubt.name for doubt in said({"spans": list(spans(4))}).doubts}


def test_a_slow_profiler_is_doubted() -> None:
    settings = json.dumps({"common_config": {"with_stack": True, "profile_memory": False}})
    (doubt,) = said({"spans": list(spans()), "rank": {0: {"settings": settings}}}).doubts
    assert doubt.name == "overhead" and "with_stack slowed" in doubt.text[0] and "profile_memory" not in doubt.text[0]


def test_an_empty_capture_is_examined_too() -> None:
    for case in ({}, {"rank": {0: {"settings": "no json"}}}, {"rank": {0: {"settings": "[1]", "backend": None}}}):
        found = said(case)
        assert 0 <= found.score <= 100
        assert "no_steps" in {doubt.name for doubt in found.doubts}
        json.dumps(found.as_dict("zh"))


def test_why_says_what_it_is_about() -> None:
    """The reason is the level's where the level is too low, the table's where it speaks of this, else plain."""
    lines = [*spans(), {"id": 800, "kind": "comm_op", "name": "c", "at": 20, "for": 5, "comm": {}},
             {"id": 801, "kind": "memcpy", "name": "m", "at": 80, "for": 5, "transfer": {}}]  # fmt: skip
    con = connection({"spans": lines, "rank": {0: {"profiler_level": "Level0"}}, "absent": ["memory_sample"]})
    con.execute("UPDATE coverage SET reason = 'something about other rows' WHERE table_name IN ('span', 'comm')")
    con.execute("UPDATE coverage SET status = 'partial', reason = 'no bytes in a db', collect_with = 'Text' "
                "WHERE table_name = 'transfer'")  # fmt: skip
    has = capabilities(Run(con))
    assert has["peer_waits"].why == "recorded from Level1 on; this is Level0"
    assert has["peer_waits"].collect_with == "profiler_level=Level1"
    assert has["gc"].why == "it was not recorded" and has["gc"].collect_with == "gc_detect_threshold=0"
    assert has["memory"].why == "left out"
    assert has["copy_bytes"].why == "recorded from Level2 on; this is Level0"
    con.execute("UPDATE rank SET profiler_level = 'Level2'")
    has = capabilities(Run(con))
    assert (has["copy_bytes"].why, has["copy_bytes"].collect_with) == ("no bytes in a db", "Text")
    assert all(found.why_zh for found in has.values() if found.lacking)


def test_a_capture_of_torch_profiler_is_not_told_settings_of_torch_npu() -> None:
    case = {"spans": list(spans()), "rank": {0: {"backend": "cuda", "formats": ["kineto"]}}, "absent": ALL_ABSENT}
    run = Run(connection(case))
    has = capabilities(run)
    told = [found.collect_with for found in has.values() if found.collect_with]
    assert told and not any("Level" in setting or "gc_detect" in setting or "NPU" in setting for setting in told)
    assert has["kernel_counters"].collect_with is None  # and what the file says of them is said in both languages
    assert (has["frequency"].why, has["frequency"].why_zh) == ("left out", "未采集（left out）")
    found = quality(run)
    assert "gc" not in shares(found) and "frequency" not in shares(found)  # nothing records them: no points lost
    assert found.collect.tool == "torch"
    on_npu = {"spans": list(spans()), "rank": {0: {"backend": "npu", "formats": ["kineto"]}}}
    assert said(on_npu).collect.tool == "torch_npu"


def finding(cause: str, numbers: Mapping[str, Any]) -> Finding:
    words = Words("t", "a")
    both = {"en": words, "zh": words}
    return Finding("late_rank", cause, "high", both, 10, 10, 0.1, "high", dict(numbers), (), Change())


@pytest.mark.parametrize(
    ("world", "missing", "numbers", "ranks"),
    [
        (1, [], {}, None),
        (4, [1, 2, 3], {}, None),  # a small job: all of it
        (8, [1, 2, 3, 4, 5, 6, 7], {"peer": 5}, (0, 5)),
        (8, [1, 2, 3, 4, 5, 6, 7], {"peer": 0}, None),  # the late one was captured
        (64, list(range(1, 64)), {}, (0, 1, 8, 15, 22, 29, 36, 43, 50)),
        (None, None, {"peer": 5}, None),
    ],
)
def test_the_ranks_to_profile(
    world: int | None, missing: list[int] | None, numbers: dict[str, int], ranks: tuple[int, ...] | None
) -> None:
    case = {"spans": list(spans()), "run": {"world_size": world, "missing_ranks": missing}}
    assert said(case, (finding("late_rank", numbers),)).collect.ranks == ranks


def test_jitter_asks_for_more_steps() -> None:
    case = {"spans": list(spans())}
    assert (said(case).collect.steps, said(case, (finding("step_jitter", {}),)).collect.steps) == (5, 10)


class Called(ModuleType):
    """A module whose every attribute is a class of the same kind; calls are kept with their keywords."""

    calls: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Called(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        Called.calls.append((self.__name__, keywords))
        return self

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: object) -> None:
        return None


def calls(code: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What the configuration calls with which keywords, run with stand-ins for torch."""
    for name in ("torch", "torch.distributed", "torch_npu"):
        monkeypatch.setitem(sys.modules, name, Called(name))
    monkeypatch.setattr(Called, "calls", [])
    exec(compile(code, "configuration", "exec"), {"loader": [1, 2], "train_step": lambda batch: None})
    return dict(Called.calls)


def recipes() -> Iterator[Recipe]:
    for level in ("Level0", "Level1", "Level2", None):
        found = said({"spans": list(spans()), "rank": {0: {"profiler_level": level}}, "absent": ALL_ABSENT})
        yield found.collect
        yield replace(found.collect, ranks=(0, 5))


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_keyword_is_known_to_every_torch_npu(lang: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not CONTRACT.is_file():
        pytest.skip("the signatures of torch_npu (../shared/npu) are not here")
    contract = json.loads(CONTRACT.read_text("utf-8"))
    assert {"2.1.0.post17", "2.14.0"} <= set(contract)
    for recipe in recipes():
        code = recipe.code(lang)
        made = calls(code.replace("rank in RANKS", "True"), monkeypatch)
        names = {
            "profile.__init__": "torch_npu.profiler.profile",
            "_ExperimentalConfig": "torch_npu.profiler._ExperimentalConfig",
            "Schedule": "torch_npu.profiler.schedule",
            "tensorboard_trace_handler": "torch_npu.profiler.tensorboard_trace_handler",
        }  # fmt: skip
        for version, signatures in contract.items():
            for known, name in names.items():
                assert set(made[name]) <= set(signatures[known]), (version, name)
            for enum in ("ProfilerLevel", "AiCMetrics", "ExportType"):
                (value,) = {part.split(")")[0].rstrip(",") for part in code.split(f"{enum}.")[1].split("\n")[:1]}
                assert value in signatures[enum], (version, enum, value)
        assert made["torch_npu.profiler.schedule"] == {
            "skip_first": 10, "wait": 0, "warmup": 1, "active": recipe.steps, "repeat": 1,
        }  # fmt: skip


def test_the_configuration_fills_the_holes_and_says_which() -> None:
    found = said({"spans": list(spans()), "rank": {0: {"profiler_level": "Level0"}}, "absent": ALL_ABSENT})
    code = found.collect.code("en")
    for setting in {part.strip() for entry in found.missing if entry.collect_with for part in
                    entry.collect_with.split(",") if "=" in part}:  # fmt: skip
        name, value = setting.split("=", 1)
        if name in ("profile_memory", "with_stack", "gc_detect_threshold"):
            assert f"{name}={value}," in code, setting
        elif name in ("profiler_level", "aic_metrics"):
            assert f"{name}=torch_npu.profiler." in code and (value in code or value == "Level1"), setting
    assert "# new: garbage collections" in code and "# new: Python functions and call stacks" in code


def test_torch_profiler_gets_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    case = {"spans": list(spans()), "rank": {0: {"backend": "cuda", "formats": ["kineto"]}}, "absent": ["stack"]}
    made = calls(said(case).collect.code("en"), monkeypatch)
    known = {"activities", "schedule", "on_trace_ready", "record_shapes", "profile_memory", "with_stack"}
    assert set(made["torch.profiler.profile"]) == known
    assert not any(name.startswith("torch_npu") for name in made)


def test_a_strip_is_what_the_device_did() -> None:
    run = Run(connection({"spans": list(spans(2))}))
    drawn = strip(run, 0, 0, 200_000, slices=20)
    # Kernels at 10-60 and 110-160 us, slices of 10 us.
    assert drawn.computing == tuple(1.0 if 1 <= place % 10 < 6 else 0.0 for place in range(20))
    assert drawn.steps == ((0, 0, 100_000), (1, 100_000, 190_000))
    assert strip(run, 0, 5, 5).computing == ()


def alone(**rank: Any) -> Quality:
    """A capture of kernels and calls into the runtime, without a framework."""
    return said({
        "spans": [span for span in spans() if span["kind"] != "step_mark"], "rank": {0: rank},
        "absent": ["pmu", "stack", "transfer", "sample"],
    })  # fmt: skip


def test_a_capture_of_msprof_alone_is_told_its_own_options() -> None:
    found = alone(settings='{"profiler": "msprof"}')
    told = {entry.name: entry.collect_with for entry in found.missing}
    assert told["kernel_counters"] == "msprof --task-time=l1 --aic-metrics=PipeUtilization"
    assert told["frequency"] is None  # --task-time=l1 was on, as the type of the kernel shows
    assert told["copy_bytes"] == "msprof --ascendcl=on --runtime-api=on"
    assert told["python"] == "torch_npu.profiler: with_stack=True"  # msprof records nothing of Python
    assert found.collect.tool == "msprof"
    *lacking, command, end = found.collect.code("en").split("\n")
    assert command.split("  #")[0] == (
        "msprof --task-time=l1 --aic-metrics=PipeUtilization --ascendcl=on --runtime-api=on "
        "--output=./npulens_capture python train.py"
    )
    assert (end, any("with_stack=True of torch_npu.profiler" in line for line in lacking)) == ("", True)


@pytest.mark.parametrize(
    "rank",
    [{}, {"settings": '{"common_config": {}}'}, {"backend": "cuda", "formats": ["kineto"]}],
)
def test_a_capture_of_a_framework_keeps_the_settings_of_its_profiler(rank: dict[str, Any]) -> None:
    found = alone(**rank)
    assert found.collect.tool != "msprof"
    assert not any("msprof" in (entry.collect_with or "") for entry in found.missing)


@pytest.mark.parametrize(
    ("lines", "wanted"),
    [
        # 990 us of work before the first task, then 100 us of the device
        ([("runtime", "cudaFree", 0, 900), ("runtime", "launch", 980, 10), ("kernel", "k", 990, 100)],
         "rank 0: 990 µs of 1.09 ms recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is cudaFree (900 µs)"),
        # both ends; what surrounds everything is no call there
        ([("python", "main", 0, 1000), ("kernel", "k", 400, 100), ("cpu_op", "aten::sort", 500, 450)],
         "rank 0: 900 µs of 1.00 ms recorded lie before the first device task or after the last, and no figure here "
         "holds them. The longest call there is aten::sort (450 µs)"),
        # the library's call is most of the operator's 900 us; in the other it is a third of it
        ([("cpu_op", "aten::to", 0, 900), ("runtime", "cudaFree", 10, 800), ("runtime", "launch", 980, 10),
          ("kernel", "k", 990, 100)],
         "rank 0: 990 µs of 1.09 ms recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is cudaFree in aten::to (800 µs)"),
        ([("cpu_op", "aten::to", 0, 900), ("runtime", "cudaFree", 10, 300), ("runtime", "launch", 980, 10),
          ("kernel", "k", 990, 100)],
         "rank 0: 990 µs of 1.09 ms recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is aten::to (900 µs)"),
        # 20 of 120 us: less than a quarter, and yet worth saying of what lies before the first task
        ([("runtime", "launch", 0, 10), ("kernel", "k", 20, 100)],
         "rank 0: 20.0 µs of 120 µs recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is launch (10.0 µs). For 10.0 µs of it no call was recorded at all"),
        # 100 us before and 100 after of 1,000: of what lies after alone, a tenth is nothing to say
        ([("runtime", "launch", 0, 90), ("kernel", "k", 100, 800), ("cpu_op", "aten::sort", 800, 200)],
         "rank 0: 100 µs of 1.00 ms recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is launch (90.0 µs)"),
        ([("runtime", "launch", 0, 10), ("kernel", "k", 40, 760), ("cpu_op", "aten::sort", 700, 300)], None),  # 4 %
        # 30 us of calls before the first task at 500; a profiler's own span is no call
        ([("runtime", "cudaMalloc", 0, 30), ("host_other", "PyTorch Profiler (0)", 0, 600), ("kernel", "k", 500, 100)],
         "rank 0: 500 µs of 600 µs recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is cudaMalloc (30.0 µs). For 470 µs of it no call was recorded at all"),
        # 300 us on the AI CPU before the first task; a mark of 5 us is not said
        ([("runtime", "launch", 0, 400), ("device_other", "KERNEL_AICPU", 50, 300), ("device_other", "MARK", 360, 5),
          ("kernel", "k", 400, 100)],
         "rank 0: 400 µs of 500 µs recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is launch (400 µs). On the device KERNEL_AICPU ran there for 300 µs, which is not "
         "counted as work"),
        ([("runtime", "launch", 0, 400), ("device_other", "MARK", 360, 5), ("kernel", "k", 400, 100)],
         "rank 0: 400 µs of 500 µs recorded lie before the first device task, and no figure here holds them. "
         "The longest call there is launch (400 µs)"),
        ([("step_mark", "ProfilerStep#1", 900, 200), ("runtime", "cudaFree", 0, 890), ("kernel", "k", 990, 100)], None),
    ],
)  # fmt: skip
def test_time_outside_of_all_device_work_is_told_where_no_steps_are(
    lines: list[tuple[str, str, int, int]], wanted: str | None
) -> None:
    made = [{"id": number, "kind": kind, "name": name, "at": at, "for": length}
            for number, (kind, name, at, length) in enumerate(lines, 1)]  # fmt: skip
    told = [one.text[0] for one in said({"spans": made}).doubts if one.name == "outside"]
    assert told == ([] if wanted is None else [wanted])


def test_what_the_profiler_did_itself_is_no_call_before_the_first_task() -> None:
    """400 us of a buffer that the profiler asked for lie beside a call of 30: only the call is the job's."""
    con = connection({"spans": [
        {"id": 1, "kind": "runtime", "name": "cudaMalloc", "at": 0, "for": 30},
        {"id": 2, "kind": "host_other", "name": "Activity Buffer Request", "at": 40, "for": 400, "track": "thread -1"},
        {"id": 3, "kind": "kernel", "name": "k", "at": 500, "for": 100},
    ]})  # fmt: skip
    con.execute("UPDATE track SET kind = 'profiler' WHERE name = 'thread -1'")
    (told,) = [one.text[0] for one in quality(Run(con)).doubts if one.name == "outside"]
    assert told.endswith("The longest call there is cudaMalloc (30.0 µs). For 470 µs of it no call was recorded at all")


def test_of_sums_alone_conversions_are_added_up() -> None:
    """Each may be small: 3, 2 and 1 of 100 us are 6 %. Of the names, only AI_CPU tells where an operator ran."""
    con = connection({"spans": []})
    con.executemany(
        "INSERT INTO summary (rank, source, name, count, total_ns, category) VALUES (0, 'op_statistic', ?, 2, ?, ?)",
        [("MatMul", 90_000, "AI_CORE"), ("Unique", 4_000, "AI_CPU"), ("TransData", 3_000, "AI_VECTOR_CORE"),
         ("Cast", 2_000, "AI_VECTOR_CORE"), ("Transpose", 1_000, "AI_VECTOR_CORE")],
    )  # fmt: skip
    con.executemany(
        "INSERT INTO summary (rank, source, name, total_ns) VALUES (0, 'aicore_intermediate_detail', ?, ?)",
        [("Default/net/MatMul-op1", 1_000_000), ("Default/net/Cast-op2", 9_000)],
    )
    detail, types = [one.text[0] for one in quality(Run(con)).doubts if one.name == "sums"]
    assert types.endswith(
        "Transpose 1.00 µs (1.0 %). 6.00 µs (6.0 %) only convert data: TransData, Cast, Transpose. "
        "4.00 µs (4.0 %) ran on the AI CPU"
    )
    assert detail.endswith("Cast 9.00 µs (0.9 %)")  # too little to be said again


def test_a_first_task_that_waited_long_was_behind_work_from_before() -> None:
    """Launched at 10 to 15 us, it began at 35,000: 34,985 of the 35,000 before it are not the host's."""
    made = [
        {"id": 1, "kind": "runtime", "name": "cudaLaunchKernel", "at": 10, "for": 5},
        {"id": 2, "kind": "kernel", "name": "gemm", "at": 35_000, "for": 20_000, "by": 1},
        {"id": 3, "kind": "runtime", "name": "cudaDeviceSynchronize", "at": 0, "for": 1},
    ]
    (told,) = [one for one in said({"spans": made}).doubts if one.name == "outside"]
    assert "The first task had been launched 35.0 ms before it ran: the device still worked off" in told.text[0]
    assert "首个任务下发 35.0 ms 后才执行" in told.text[1]
    made[0] |= {"at": 34_900}
    assert all("had been launched" not in one.text[0] for one in said({"spans": made}).doubts)


def test_of_sums_alone_the_largest_are_told() -> None:
    def told(case: dict[str, Any]) -> list[str]:
        con = connection(case)
        con.executemany("INSERT INTO summary (rank, source, name, count, total_ns) VALUES (0, ?, ?, 2, ?)", sums)
        con.executemany(
            "INSERT INTO profiler_step (rank, step, computing_ns, communication_not_overlapped_ns, free_ns, source) "
            "VALUES (?, 2, ?, 2000, 1000, 'step_trace_time.csv')", [(0, 6_000), (1, 9_000), (2, 9_500)],
        )  # fmt: skip
        return [one.text[0] for one in quality(Run(con)).doubts if one.name == "sums"]

    sums = [("op_statistic", "MatMul", 3_000), ("op_statistic", "Add", 1_000), ("api_statistic", "aclrtMalloc", 9_000)]
    assert told({"spans": [], "ranks": [0, 1, 2]}) == [
        "only the profiler's sums were recorded. Of 4.00 µs in op_statistic: MatMul 3.00 µs (75.0 %), "
        "Add 1.00 µs (25.0 %)",
        # 24.5, 6 and 3 of 33.5 us
        "only the profiler's split was recorded, of rank 0-2: computing 73.1 %, communication that nothing hides "
        "17.9 %, free 9.0 %. Rank 2 computes longest: 9.50 µs a step, the median 9.00 µs",
        "calls of the host were only added up, and they hold each other. The longest in api_statistic: "
        "aclrtMalloc 9.00 µs (2x). Memory: aclrtMalloc 9.00 µs (2x)",
    ]
    call = {"id": 99, "kind": "runtime", "name": "AscendCL@aclrtMalloc", "at": 0, "for": 9}
    assert told({"spans": [*spans(), call]}) == []  # what was recorded is judged
