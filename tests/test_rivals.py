"""The rules by which another tool's tables count as saying a sentence, on small answers written by hand."""

from __future__ import annotations

from typing import Any

from tests.corpus import rival_rules, rivals
from tests.corpus.rival_rules import Answer, Statement, asked, says, wrong

SPLIT = {"rank": 0, "step": None, "computing_ns": [59_000, 61_000], "idle_ns": [29_000, 31_000]}
TIMELINE = [
    {"rank": 0, "type": name, "time ms": ms}
    for name, ms in (
        ("computation_time", "0.06"), ("exposed_comm_time", "0.01"), ("exposed_memcpy_time", "0"),
        ("idle_time", "0.03"), ("total_time", "0.1"), ("total_comm_time", "0.02"),
    )
]  # fmt: skip


def fact(kind: str = "must", /, **test: Any) -> dict[str, Any]:
    return {"id": "it", "kind": kind, "what": "what", "test": test}


def temporal(rank: int = 0, idle: float = 30, compute: float = 60) -> dict[str, Any]:
    return {
        "rank": rank, "idle_time(us)": idle, "compute_time(us)": compute,
        "non_compute_time(us)": 100 - idle - compute, "kernel_time(us)": 100,
    }  # fmt: skip


def waits(stream: int, host: float, kernel: float, rank: int = 0) -> list[dict[str, Any]]:
    return [
        {"rank": rank, "stream": stream, "idle_category": "host_wait", "idle_time": host},
        {"rank": rank, "stream": stream, "idle_category": "kernel_wait", "idle_time": kernel},
    ]


def test_what_only_npulens_can_hold_is_not_asked() -> None:
    assert asked(fact(split=SPLIT)) and asked(fact(profiler=SPLIT)) and asked(fact(finding={"cause": "gc"}))
    assert asked(fact(text={"with": ["TF32"]}))
    assert not asked(fact(text={"without": ["TF32"]}))
    assert not any(asked(fact(**{what: {}})) for what in ("sql", "runs", "outcome"))


def test_a_split_in_a_table_counts_as_said() -> None:
    answers = [rival_rules.tracelens({"gpu_timeline": TIMELINE})]
    assert says(fact(split=SPLIT), answers)
    assert not says(fact(split=SPLIT | {"idle_ns": [31_000, 32_000]}), answers)
    assert not says(fact(split=SPLIT | {"rank": 1}), answers)
    assert says(fact(split=SPLIT | {"step": 3}), answers), "a tool without steps gives the whole trace"


def test_a_step_table_is_asked_for_its_step() -> None:
    row = {"type": "rank", "index": "0", "communication": 2, "overlapped": 1, "bubble": 0, "free": 30}
    steps = [
        row | {"step": "50", "computing": 60.0, "communication_not_overlapped": 1},
        row | {"step": "51", "computing": 10.0, "communication_not_overlapped": 1},
        row | {"step": "50", "type": "stage", "computing": 1.0, "communication_not_overlapped": 1},
    ]
    answers = [rival_rules.msprof({"steps": steps}, "")]
    assert says(fact(profiler=SPLIT | {"step": 50}), answers)
    assert not says(fact(profiler=SPLIT | {"step": 51}), answers)


def test_a_time_off_by_more_than_double_is_wrong() -> None:
    near, far = ([rival_rules.traceinsight({"temporal": [temporal(compute=c)]})] for c in (35, 15))
    assert not says(fact(split=SPLIT), near) and not wrong(fact(split=SPLIT), near)
    assert wrong(fact(split=SPLIT), far)
    assert not wrong(fact(split=SPLIT), [Answer({}, (), "")]), "what is not given is not wrong"


def test_a_window_of_device_events_alone_is_let_pass() -> None:
    sentence = fact(split=SPLIT | {"idle_ns": [39_990, 40_010]})
    answers = [rival_rules.tracelens({"gpu_timeline": TIMELINE})]
    assert not says(sentence, answers)
    assert says(sentence | {"what": "computing 0.060 ms, idle 0.040 ms of 0.110 ms"}, answers)
    assert not says(sentence | {"what": "computing 0.060 ms, idle 0.040 ms of 0.130 ms"}, answers)


def test_bare_communication_stands_in_the_types_of_kernels() -> None:
    types = [
        {"kernel_type": "COMMUNICATION", "sum": 5}, {"kernel_type": "COMMUNICATION overlapping MEMORY", "sum": 1},
        {"kernel_type": "COMPUTATION", "sum": 58}, {"kernel_type": "COMPUTATION overlapping COMMUNICATION", "sum": 2},
        {"kernel_type": "MEMORY", "sum": 4},
    ]  # fmt: skip
    bare = {"rank": 0, "step": None, "communication_not_overlapped_ns": [6_000, 6_000]}
    assert says(fact(split=bare), [rival_rules.traceinsight({"temporal": [temporal()], "kernel_types": types})])
    assert not says(fact(split=bare), [rival_rules.traceinsight({"temporal": [temporal()]})])
    both = {"temporal": [temporal(), temporal(1)], "kernel_types": types}
    assert not says(fact(split=bare), [rival_rules.traceinsight(both)]), "the types are of all ranks together"


def test_an_idle_share_in_a_table_says_that_the_device_idles() -> None:
    answers = [rival_rules.tracelens({"gpu_timeline": TIMELINE})]
    assert says(fact(finding={"cause": "host_late|idle_unexplained", "min_share": 0.29}), answers)
    assert not says(fact(finding={"cause": "host_late|idle_unexplained", "min_share": 0.31}), answers)
    assert not says(fact(finding={"cause": ["host_late"]}), answers), "idle time alone blames no host"


def test_the_host_is_late_on_the_stream_that_rests_least() -> None:
    tables = {"temporal": [temporal()], "idle": [*waits(7, 20, 10), *waits(8, 95, 0)]}
    answers = [rival_rules.traceinsight(tables)]
    assert says(fact(finding={"cause": "host_late", "min_share": 0.2}), answers)
    assert not says(fact(finding={"cause": "host_late", "min_share": 0.21}), answers)


def test_what_must_not_be_said_and_is_counts_as_wrong() -> None:
    answers = [rival_rules.traceinsight({"temporal": [temporal()], "idle": waits(7, 20, 10)})]
    assert wrong(fact("must_not", finding={"cause": "host_late", "min_share": 0.1}), answers)
    assert not wrong(fact("must_not", finding={"cause": "host_late", "min_share": 0.5}), answers)
    assert not wrong(fact("must_not", finding={"cause": "dataloader"}), answers)


def test_the_bound_of_a_critical_path_is_a_cause() -> None:
    path = [{"rank": 0, "bound": "cpu_bound", "share": 95.0}, {"rank": 0, "bound": "data_loading", "share": 5.0}]
    answers = [rival_rules.traceinsight({"path": path})]
    assert says(fact(finding={"cause": "host_late", "min_share": 0.9}), answers)
    assert not says(fact(finding={"cause": "dataloader"}), answers)


def test_one_long_launch_is_first_use() -> None:
    tables = {"temporal": [temporal()], "launches": [{"rank": 0, "cpu_duration": 40}, {"rank": 0, "cpu_duration": 1}]}
    answers = [rival_rules.traceinsight(tables)]
    assert says(fact(finding={"cause": ["first_use", "compile"], "min_share": 0.3}), answers)
    assert not says(fact(finding={"cause": ["first_use", "compile"], "min_share": 0.5}), answers)


def test_copies_on_the_device_are_named_kernels() -> None:
    kernels = [{"rank": 0, "Kernel name": "Memcpy DtoD (Device -> Device)", "Kernel duration (µs)_sum": "4"}]
    answers = [rival_rules.tracelens({"gpu_timeline": TIMELINE, "kernel_summary": kernels})]
    assert says(fact(finding={"cause": "device_copies", "min_share": 0.03}), answers)
    assert not says(fact(finding={"cause": "device_copies", "min_share": 0.05}), answers)
    kernels[0]["Kernel name"] = "Memcpy HtoD"
    assert not says(fact(finding={"cause": "device_copies"}), [rival_rules.tracelens({"kernel_summary": kernels})])


def test_a_rank_that_mostly_arrives_last_is_late() -> None:
    tables = {
        "straggler_summary": [{"rank": "2", "pct_arrived_last": "92.3"}, {"rank": "0", "pct_arrived_last": "7.7"}],
        "nccl_implicit_sync": [{"skew in start time": "9"}, {"skew in start time": "1000"}],
    }
    late = {"cause": "late_rank|host_late", "rank": 2}
    assert says(fact(finding=late), [rival_rules.tracelens(tables)])
    assert not says(fact(finding=late | {"rank": 0}), [rival_rules.tracelens(tables)])
    assert says(fact(finding=late | {"saving_ns": [990_000, 1_010_000]}), [rival_rules.tracelens(tables)])
    assert not says(fact(finding=late | {"saving_ns": [2_000_000, 3_000_000]}), [rival_rules.tracelens(tables)])


def test_a_slow_rank_in_a_table_of_text() -> None:
    told = "| 1 | slow rank | Computing  |\n| | | has some issues because the max difference of Computing time |\n"
    told += "| | | has reached 0.02ms. |"
    steps = [{
        "type": "rank", "index": "0", "step": "1", "computing": 60, "communication": 10, "overlapped": 0,
        "communication_not_overlapped": 10, "bubble": 4, "free": 30,
    }]  # fmt: skip
    answers = [rival_rules.msprof({"steps": steps}, told)]
    assert says(fact(finding={"cause": "stage_balance", "min_share": 0.19, "max_share": 0.21}), answers)
    assert says(fact(finding={"cause": "pipeline_bubble", "min_share": 0.04}), answers)
    assert not says(fact(finding={"cause": "late_rank"}), answers)


def test_ranks_that_compute_unequally_stand_in_the_step_table() -> None:
    row = {"type": "rank", "step": "1", "communication": 0, "overlapped": 0, "communication_not_overlapped": 0}
    steps = [
        row | {"index": 0, "computing": 60, "free": 40, "bubble": 0},
        row | {"index": 1, "computing": 90, "free": 10, "bubble": 0},
    ]
    stages = {"cause": "stage_balance", "min_share": 0.29}
    assert says(fact(finding=stages), [rival_rules.msprof({"steps": steps}, "")])
    assert not says(fact(finding=stages | {"min_share": 0.31}), [rival_rules.msprof({"steps": steps}, "")])
    assert not says(fact(finding={"cause": "stage_balance"}), [rival_rules.msprof({"steps": steps[:1]}, "")])


def test_the_advisors_sections_are_causes() -> None:
    answers = [rival_rules.msprof({"sections": [{"name": "SynchronizeStream Issues"}]}, "")]
    assert says(fact(finding={"cause": "sync_stall"}), answers)
    assert not says(fact(finding={"cause": "gc"}), answers)


def test_words_of_a_sentence() -> None:
    answers = [Answer({}, (Statement("host_late"),), "matrix_fp32 of preprocess")]
    assert says(fact(text={"with": ["TF32", "tensor core"]}), answers)
    assert not says(fact(text={"with": ["tensor core"]}), answers)
    assert says(fact(finding={"cause": "host_late", "text": "Preprocess"}), answers)
    assert not says(fact(finding={"cause": "host_late", "text": "loader"}), answers)


def test_each_run_must_say_it_where_the_sentence_asks_so() -> None:
    answers = [Answer({}, (Statement("gc"),), ""), Answer({}, (), "")]
    assert says(fact(finding={"cause": "gc"}), answers)
    assert not says(fact(finding={"cause": "gc", "each_run": True}), answers)
    assert not says(fact(finding={"cause": "gc"}), [])


def test_families_and_formats() -> None:
    npu = "Ascend+msinsight@c1e639ee-910A/test/data/pytorch/db/level0"
    assert rivals.family(npu) == "Ascend 910A, database"
    assert rivals.family("AMD-AGI+TraceLens/tests/traces/mi210/x.json.gz") == "ROCm, torch.profiler"
    assert rivals.family("AMD-AGI+TraceLens/tests/traces/h100/x.json.gz") == "CUDA, torch.profiler"
    assert rivals.covers("msprof", npu) and not rivals.covers("tracelens", npu)
    assert rivals.covers("traceinsight", "pytorch+kineto/x.json") and not rivals.covers("msprof", "pytorch+kineto/x")


def test_counting_and_the_page() -> None:
    facts = [
        fact(finding={"cause": "gc"}), fact(finding={"cause": "compile"}), fact(sql={}),
        fact("must_not", finding={"cause": "gc"}),
    ]  # fmt: skip
    answers = [Answer({}, (Statement("gc"),), "")]
    one = rivals.score("a/capture", facts, [False, True, True, True], answers)
    assert (one.asked, one.said, one.ours, one.wrong, one.ours_wrong, one.not_asked) == (2, 1, 1, 1, 0, 1)
    assert one.behind == ["`it` of a/capture: what"]
    page = rivals.page({("CUDA", "tracelens"): one}, {"tracelens": "1.0"})
    assert "| CUDA | 1 | TraceLens | 2 | 1 | 1 | 1 | 0 | 1 |" in page
    assert "says as many as npulens (1 and 1 of 2)" in page and "Left out: traceinsight, msprof-analyze." in page
    ahead = rivals.Score(captures=1, asked=2, said=1, ours=2)
    assert "ahead on every family" in rivals.page({("CUDA", "tracelens"): ahead}, {"tracelens": "1.0"})


def test_names_of_the_text_form_become_those_of_the_database() -> None:
    named = rivals._named({"Step": "50", "Communication": "3", "Communication(Not Overlapped)": "2", "DP Index": "0"})
    assert named == {"step": "50", "communication": "3", "communication_not_overlapped": "2", "dp_index": "0"}
