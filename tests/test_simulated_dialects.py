"""What each dialect does to the files, read with the standard library, against the job that they were written from."""

from __future__ import annotations

import csv
import gzip
import json
import re
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from npulens.collectors.planting.plant import Case, Options, plan, possible, scenarios, write
from npulens.collectors.planting.truth import wall
from npulens.collectors.simulator.dialect import DIALECTS, FIRST_USE_NS
from npulens.collectors.simulator.job import CommOp, CommTask, Kernel, RankRecord
from npulens.collectors.simulator.simulate import simulate
from tests.simjob import database, ns, processes

SMALL = Options(ranks=2, steps=2, level=1, missing_ranks=0, skew_ns=0)
NONE = 4294967295


@cache
def case(dialect: str, kind: str, level: int = 1, scenario: str = "host_late") -> Case:
    return plan([scenario], 3, replace(SMALL, dialect=dialect, format=kind, level=level))


def text(home: Path) -> list[Path]:
    """The outputs of the ranks."""
    return sorted(path.parent for path in home.rglob("trace_view.json"))


def events(path: Path) -> list[dict[str, Any]]:
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    content = json.loads(raw, parse_float=str)
    found: list[dict[str, Any]] = content if isinstance(content, list) else content["traceEvents"]
    return found


def kineto(made: Case, home: Path) -> list[list[dict[str, Any]]]:
    write(made, home)
    return [events(path) for path in sorted((home / "capture").iterdir())]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def work(record: RankRecord) -> int:
    return len(record.of("kernel", "memset"))


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_same_seed_gives_the_same_bytes_and_the_truth_names_the_dialect(dialect: str, tmp_path: Path) -> None:
    kind = DIALECTS[dialect].formats[0]
    options = replace(SMALL, dialect=dialect, format=kind)
    truths = [write(plan(["host_late"], 3, options), tmp_path / name) for name in ("a", "b")]
    assert truths[0] == truths[1] and truths[0].get("dialect", "plain") == dialect
    assert truths[0].get("steps") == (None if dialect == "plain" else 2)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(tmp_path / "b") for path in (tmp_path / "b").rglob("*") if path.is_file())
    assert all((tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes() for file in files)


@pytest.mark.parametrize("dialect", [name for name, one in DIALECTS.items() if not one.changes and not one.pair])
def test_what_is_only_recorded_otherwise_costs_the_same(dialect: str) -> None:
    """The job is the same one, so the fault's gain and windows are those of the plain dialect to the ns."""
    kind = DIALECTS[dialect].formats[0]
    made, plain = case(dialect, kind), case("plain", kind)
    assert [(t.gain_ns, t.windows) for t in made.truths] == [(t.gain_ns, t.windows) for t in plain.truths]
    assert made.step_ns == plain.step_ns


@pytest.mark.parametrize("dialect", [name for name, one in DIALECTS.items() if one.changes])
@pytest.mark.parametrize("scenario", ["sync_stall", "late_rank", "slow_tail", "comm_exposed"])
def test_faults_cost_time_where_the_job_is_another_one(dialect: str, scenario: str) -> None:
    made = plan([scenario], 5, replace(SMALL, dialect=dialect, format=None, level=None, missing_ranks=None))
    (truth,) = made.truths
    assert truth.gain_ns > 0.02 * made.step_ns and truth.windows


def test_dialects_and_scenarios_that_share_no_format_are_refused() -> None:
    assert not possible(["frequency_drop"], "910a"), "it has no samples of the clock"
    assert not possible(["aicpu"], "external_id") and possible(["aicpu"], "910a")
    assert possible(["low_efficiency"], "unlinked"), "kernels have shapes of their own, but in a Kineto trace"
    options = Options(steps=2, dialect="unlinked")
    assert {plan(["low_efficiency"], seed, options).capture.format for seed in range(12)} == {"text", "db"}
    assert all(possible([name], "plain") for name in scenarios())
    assert not possible(["first_use"], "first_step"), "every capture holds one already"
    with pytest.raises(ValueError, match="no capture in the dialect external_id shows aicpu"):
        plan(["aicpu"], 1, Options(dialect="external_id"))
    with pytest.raises(ValueError, match="the dialect 910a is written as text, db only"):
        plan([], 1, Options(dialect="910a", format="kineto"))


def test_only_faults_of_the_host_may_be_unexplained_where_launches_are_lost() -> None:
    assert "idle_unexplained" in case("unlinked", "text").truths[0].also
    assert "idle_unexplained" not in case("unlinked", "text", scenario="slow_tail").truths[0].also
    assert "idle_unexplained" not in case("plain", "text").truths[0].also


# -- one by one --------------------------------------------------------------------------------------------------------


def test_910a_waits_are_marks_and_tasks_have_no_type(tmp_path: Path) -> None:
    made = case("910a", "text")
    write(made, tmp_path)
    output = text(tmp_path)[0]
    trace = events(output / "trace_view.json")
    process = processes(trace)
    tasks = [e for e in trace if e["ph"] == "X" and process[e["pid"]] == "Ascend Hardware"]
    arrows = {(e["tid"], e["ts"]) for e in trace if e["ph"] == "f"}
    assert {e["args"]["Task Type"] for e in tasks} == {"Other"}
    waits = {ns(e["ts"]) + ns(e["dur"]): e for e in tasks if e["name"] in ("EVENT_WAIT", "EVENT_RECORD")}
    planted = made.job.ranks[0].of("wait", "device_other")
    assert set(waits) == {s.end_ns for s in planted if s.name.startswith("EVENT_")}, "stamped when satisfied"
    copied = {s.ts_ns for s in made.job.ranks[0].of("memcpy")}
    loose = [*waits.values(), *(e for e in tasks if e["name"] == "MEMCPY_ASYNC" and ns(e["ts"]) in copied)]
    assert {ns(e["dur"]) for e in waits.values()} == {10} and len(loose) >= len(waits) + len(copied)
    assert {e["args"]["connection_id"] for e in loose} == {-1}
    helpers = [e for e in tasks if e["name"] == "Other"]
    assert helpers and {e["tid"] for e in helpers} == {11} and {e["args"]["connection_id"] for e in helpers} == {-1}
    assert not [e for e in (*loose, *helpers) if (e["tid"], e["ts"]) in arrows]
    assert {"NOTIFY_WAIT", "NOTIFY_RECORD", "REDUCE_ASYNC_V2"} <= {e["name"] for e in tasks}
    header = list(table(output / "kernel_details.csv")[0])
    assert {"Block Dim", "total_cycles", "mac_ratio", "memory_bound"} <= set(header)
    assert not {"Mix Block Dim", "Device_id", "aic_total_cycles", "Context ID"} & set(header)
    kernels = table(output / "kernel_details.csv")
    assert {(r["Accelerator Core"], r["Block Dim"]) for r in kernels} == {("AI_CORE", "32"), ("HCCL", "0")}


def test_910a_columns_are_those_of_the_real_files(shared_traces: Path, tmp_path: Path) -> None:
    real = shared_traces.parent / "traces_2/Ascend+msinsight@c1e639ee-910A/test/data/pytorch/text"
    if not real.is_dir():
        pytest.skip("the real captures (../shared/traces_2) are not here")
    for level in (0, 1):
        write(case("910a", "text", level), tmp_path)
        for name in ("kernel_details.csv", "step_trace_time.csv", "memory_record.csv", "operator_memory.csv"):
            theirs = (real / f"level{level}/rank0_ascend_pt/ASCEND_PROFILER_OUTPUT" / name).read_text().splitlines()[0]
            assert (text(tmp_path)[0] / name).read_text().splitlines()[0] == theirs, name


def test_910a_database(tmp_path: Path) -> None:
    write(case("910a", "db"), tmp_path)
    con = database(next((tmp_path / "capture").iterdir()), 0)
    rows = con.execute("SELECT s(taskType), connectionId, count(*), max(endNs - startNs) FROM TASK GROUP BY 1, 2")
    kinds: dict[str, set[int]] = {}
    longest: dict[str, int] = {}
    for kind, connection, _, ns_ in rows:
        kinds.setdefault(kind, set()).add(connection)
        longest[kind] = max(longest.get(kind, 0), ns_)
    assert kinds["EVENT_WAIT"] == kinds["EVENT_RECORD"] == kinds["Other"] == {NONE}
    assert longest["EVENT_WAIT"] == 10 and NONE not in kinds["NOTIFY_WAIT"] | kinds["KERNEL_AICORE"]
    assert con.execute("SELECT name FROM META_DATA WHERE name = 'parallel_group_info'").fetchall() == []


def test_unlinked_leaves_fifteen_of_a_hundred_launches(tmp_path: Path) -> None:
    for made, home in ((case("unlinked", "db"), tmp_path / "db"), (case("unlinked", "kineto"), tmp_path / "kineto")):
        write(made, home)
    con = database(next((tmp_path / "db/capture").iterdir()), 0)
    known = "connectionId IN (SELECT connectionId FROM CANN_API)"
    tasks = con.execute(f"SELECT avg({known}) FROM TASK WHERE globalTaskId IN (SELECT globalTaskId FROM "
                        "COMPUTE_TASK_INFO)").fetchone()  # fmt: skip
    assert 0.08 < tasks[0] < 0.24
    found = events(next((tmp_path / "kineto/capture").iterdir()))
    calls = {e["args"]["correlation"] for e in found if e.get("cat") == "cuda_runtime"}
    kernels = [e for e in found if e.get("cat") == "kernel"]
    linked = [e for e in kernels if e["args"]["correlation"] in calls]
    assert 0.08 < len(linked) / len(kernels) < 0.24
    assert {e["args"]["External id"] for e in kernels if e not in linked} == {0}


def test_external_id_ties_what_containment_does_not(tmp_path: Path) -> None:
    made = case("external_id", "kineto")
    found = kineto(made, tmp_path)[0]
    operators = {e["args"]["External id"]: e for e in found if e.get("cat") == "cpu_op"}
    calls = {e["args"]["correlation"]: e for e in found if e.get("cat") == "cuda_runtime"}
    kernels = [e for e in found if e.get("cat") == "kernel"]
    outside = 0
    for kernel in kernels:
        operator, call = operators[kernel["args"]["External id"]], calls[kernel["args"]["correlation"]]
        assert "Input Dims" in operator["args"] or "Collective name" in operator["args"]
        assert kernel["args"]["grid"] and kernel["args"]["block"]
        outside += ns(operator["ts"]) + ns(operator["dur"]) < ns(call["ts"]) + ns(call["dur"])
    assert outside > 0.6 * len(kernels), "of several launches of one operator only the last is outside"
    before = sum(ns(operators[k["args"]["External id"]]["ts"]) + ns(operators[k["args"]["External id"]]["dur"])
                 < ns(calls[k["args"]["correlation"]]["ts"]) for k in kernels)  # fmt: skip
    assert 0.2 * len(kernels) < before < outside


def test_p2p_bare_says_what_was_sent_and_not_who_waited(tmp_path: Path) -> None:
    made = case("p2p_bare", "text")
    write(made, tmp_path)
    output = text(tmp_path)[0]
    trace = events(output / "trace_view.json")
    names = Counter(e["name"].partition("__")[0] for e in trace if e["ph"] == "X")
    steps = made.config.steps
    assert names["hcom_batchSendRecv"] == steps * made.config.layers and not names["Notify_Wait"]
    assert not {"Notify Wait", "SDMA", "hcom_allReduce"} & set(names)
    sums = json.loads((output / "communication.json").read_text())
    assert all(step["p2p"]["Total Op Info"]["Communication Time Info"]["Elapse Time(ms)"] > 0 for step in sums.values())
    write(case("p2p_bare", "kineto"), tmp_path / "kineto")
    found = events(next((tmp_path / "kineto/capture").iterdir()))
    kernels = {e["name"].partition("(")[0] for e in found if e.get("cat") == "kernel" and "nccl" in e["name"]}
    assert kernels == {"ncclDevKernel_SendRecv"}


def test_uneven_bytes_grow_by_three_in_a_thousand_from_rank_to_rank(tmp_path: Path) -> None:
    write(case("uneven_bytes", "db"), tmp_path)
    counts = []
    for rank, home in enumerate(sorted((tmp_path / "capture").iterdir())):
        con = database(home, rank)
        counts.append([row[0] for row in con.execute("SELECT count FROM COMMUNICATION_OP ORDER BY startNs")])
    assert len(counts) == 2 and counts[1] == [count * 1003 // 1000 for count in counts[0]]


@pytest.mark.parametrize(("kind", "names"), [
    ("kineto", r"deep_ep::|multimem_all_reduce|cross_device_reduce"), ("text", "MatmulAllReduce"),
])  # fmt: skip
def test_custom_comm_has_no_collective_library_and_no_group(kind: str, names: str, tmp_path: Path) -> None:
    made = case("custom_comm", kind)
    write(made, tmp_path)
    collectives = len(made.job.ranks[0].of("comm_op"))
    assert collectives
    if kind == "kineto":
        path = sorted((tmp_path / "capture").iterdir())[0]
        kernels = [e["name"] for e in events(path) if e.get("cat") == "kernel"]
        whole = gzip.decompress(path.read_bytes()).decode()
        assert "pg_config" not in whole and "Process Group" not in whole and "ncclDevKernel" not in whole
    else:
        output = text(tmp_path)[0]
        kernels = [row["Name"] for row in table(output / "kernel_details.csv")]
        whole = (output / "trace_view.json").read_text()
        assert "hcom_" not in whole and "Notify_Wait" not in whole
        facts = json.loads((output.parent / "profiler_metadata.json").read_text())
        assert facts["parallel_group_info"] == {} and facts["distributed_args"]["world_size"] == 2
        assert sum("MatmulAllReduceAicpu" in name for name in kernels) == collectives
        kernels = [name for name in kernels if "Aicpu" not in name]
    assert sum(bool(re.search(names, name)) for name in kernels) == collectives


def test_transfers_are_planted_in_kernels_that_do_nothing_else() -> None:
    made = case("custom_comm", "text", scenario="comm_exposed")
    spans = DIALECTS["custom_comm"].written(made.job, "text").ranks[0].of("kernel")
    assert {"LcclAllReduce"} == {s.name for s in spans if "AllReduce" in s.name}


def test_shifted_windows_start_one_collective_apart(tmp_path: Path) -> None:
    made = case("shifted_windows", "text")
    write(made, tmp_path)
    counts, loose = [], []
    for output in text(tmp_path):
        trace = events(output / "trace_view.json")
        counts.append(sum(e["ph"] == "X" and e["name"].startswith("hcom_") for e in trace))
        targets = {(e["tid"], e["ts"]) for e in trace if e["ph"] == "f" and e.get("cat") == "HostToDevice"}
        kernels = [row for row in table(output / "kernel_details.csv") if row["Accelerator Core"] != "COMMUNICATION"]
        loose.append(sum((int(r["Stream ID"]), r["Start Time(us)"].strip()) not in targets for r in kernels))
        steps = [e["name"] for e in trace if e["ph"] == "X" and e["name"].startswith("ProfilerStep")]
        assert steps == [f"ProfilerStep#{made.config.first_step + step}" for step in range(2)]
    assert counts[0] == counts[1] + 1 == made.config.steps * made.config.layers + 1
    assert min(loose) > 0, "what ran when the profiler came has no launch"
    plain = case("plain", "text")
    assert abs(made.step_ns - plain.step_ns) < 0.02 * plain.step_ns


def test_a_bare_list_is_as_in_2020(tmp_path: Path) -> None:
    made = case("bare_list", "kineto")
    write(made, tmp_path)
    path = tmp_path / "capture/worker0.pt.trace.json.gz"
    content = json.loads(gzip.decompress(path.read_bytes()))
    assert isinstance(content, list)
    spans = [e for e in content if e["ph"] == "X"]
    assert {e["cat"] for e in spans} == {"Operator", "Runtime", "Kernel", "Memcpy", "Memset", "Trace"} - (
        set() if made.job.ranks[0].of("memset") else {"Memset"}
    )
    assert all(isinstance(e["ts"], int) and isinstance(e.get("dur", 0), int) for e in content)
    kernel = next(e for e in spans if e["cat"] == "Kernel")
    assert kernel["tid"] == "stream 7" and {"external id", "grid", "correlation"} <= set(kernel["args"])
    first = min(s.ts_ns for s in made.job.ranks[0].of("kernel"))
    assert min(e["ts"] for e in spans if e["cat"] == "Kernel") == first // 1000
    assert {e["name"] for e in content if e["ph"] in "sf"} == {"launch"}


def test_renamed_files_say_nothing_by_their_names(tmp_path: Path) -> None:
    write(case("renamed", "text"), tmp_path / "text")
    write(case("plain", "text"), tmp_path / "plain")
    names = [path.name for path in (tmp_path / "text/capture").rglob("*")]
    assert names and all(re.fullmatch(r"[0-9a-f]{10}(\.json|\.csv)?", name) for name in names)

    def contents(home: Path) -> Counter[bytes]:
        return Counter(path.read_bytes() for path in (home / "capture").rglob("*") if path.is_file())

    assert contents(tmp_path / "text") == contents(tmp_path / "plain")
    write(case("renamed", "kineto"), tmp_path / "kineto")
    assert all(re.fullmatch(r"[0-9a-f]{10}\.json\.gz", p.name) for p in (tmp_path / "kineto/capture").iterdir())


def test_merged_ranks_are_told_apart_by_process_and_device(tmp_path: Path) -> None:
    made = case("merged", "kineto")
    (found,) = kineto(made, tmp_path)
    for rank in (0, 1):
        kernels = [e for e in found if e.get("cat") == "kernel" and e["pid"] == f"[TP{rank:02d}] {rank}"]
        assert {e["args"]["device"] for e in kernels} == {rank}
        assert len(kernels) == len(made.job.ranks[rank].of("kernel", "comm_op"))
    assert {e["pid"][:6] for e in found} == {"[TP00]", "[TP01]"}


def test_the_first_use_is_once_and_in_no_mean(tmp_path: Path) -> None:
    made, plain = case("first_step", "kineto"), case("plain", "kineto")
    begun = simulate(replace(plain.job.config, first_step=1))  # the same job, from its first step on
    found = kineto(made, tmp_path)[0]
    calls = sorted(ns(e["dur"]) for e in found if e.get("cat") == "cuda_runtime" and "Launch" in e["name"])
    assert calls[-1] > FIRST_USE_NS > 100 * calls[-2]
    assert made.step_ns == wall(begun, made.capture.ranks) // made.config.steps
    assert made.dialect.present == ("first_use",) and made.config.first_step == 1
    gains = [truth.gain_ns for truth in (*made.truths, *plain.truths)]
    assert abs(gains[0] - gains[1]) < 0.02 * gains[1]
    marks = [ns(e["dur"]) for e in found if e["name"].startswith("ProfilerStep#") and e["cat"] == "user_annotation"]
    assert marks[0] > FIRST_USE_NS > marks[1]


def test_kernels_of_graphs_are_launched_together(tmp_path: Path) -> None:
    made, plain = case("graphs", "kineto"), case("plain", "kineto")
    found = kineto(made, tmp_path)[0]
    calls = {e["args"]["correlation"]: e["name"] for e in found if e.get("cat") == "cuda_runtime"}
    kernels = [e for e in found if e.get("cat") in ("kernel", "gpu_memset")]
    nodes = [e for e in kernels if calls[e["args"]["correlation"]] == "cudaGraphLaunch"]
    graphs = Counter(e["args"]["correlation"] for e in nodes)
    assert work(made.job.ranks[0]) == work(plain.job.ranks[0]), "the work is the same"
    assert len(nodes) > 0.8 * work(made.job.ranks[0]) and max(graphs.values()) > 20
    assert not any("External id" in e["args"] for e in nodes)
    starts = Counter(e["id"] for e in found if e["ph"] == "s" and e["cat"] == "ac2g")
    ends = Counter(e["id"] for e in found if e["ph"] == "f" and e["cat"] == "ac2g")
    assert all(starts[number] == 1 and ends[number] == count for number, count in graphs.items())


def test_kernels_of_acl_graphs_name_their_model(tmp_path: Path) -> None:
    made = case("graphs", "text")
    write(made, tmp_path)
    rows = table(text(tmp_path)[0] / "kernel_details.csv")
    models = Counter(row["Model ID"] for row in rows if row["OP State"] == "static")
    assert str(NONE) not in models and sum(models.values()) > 0.8 * work(made.job.ranks[0])
    assert {row["Model ID"] for row in rows if row["OP State"] != "static"} == {str(NONE)}
    calls = [e for e in events(text(tmp_path)[0] / "trace_view.json") if e["name"].endswith("aclmdlRIExecuteAsync")]
    assert len(calls) == len(models)


@pytest.mark.parametrize("dialect", ["vllm", "no_steps"])
def test_no_step_is_marked(dialect: str, tmp_path: Path) -> None:
    write(case(dialect, "text"), tmp_path)
    output = text(tmp_path)[0]
    assert "ProfilerStep" not in (output / "trace_view.json").read_text()
    (row,) = table(output / "step_trace_time.csv")
    assert row["Step"] == "" and float(row["Computing"]) > 0
    assert {row["Step Id"] for row in table(output / "kernel_details.csv")} == {""}
    found = kineto(case(dialect, "kineto"), tmp_path / "kineto")[0]
    annotated = [e["name"] for e in found if e.get("cat") == "user_annotation" and e["name"].startswith("execute_")]
    assert not [e for e in found if e["name"].startswith("ProfilerStep")]
    shown = [bool(re.fullmatch(r"execute_context_\d\(\d+(_\d+)?\)_generation_\d+\(\d+\)", name)) for name in annotated]
    assert shown == ([True, True] if dialect == "vllm" else [])


def test_without_marks_time_begins_with_the_work_of_the_device(tmp_path: Path) -> None:
    """What the first step waits for before that lies in no capture's time, so it is no part of what a fault costs."""
    options = replace(SMALL, dialect="no_steps", format="kineto")
    made = plan(["dataloader"], 3, options)
    longest = []
    for name, job in (("with", made), ("without", plan(["dataloader"], 3, replace(options, clean=True)))):
        lengths = []
        for found in kineto(job, tmp_path / name):
            work = [e for e in found if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
            first = min(ns(e["ts"]) for e in work)
            lengths.append(max(ns(e["ts"]) + ns(e["dur"]) for e in work) - first)
        longest.append(max(lengths))
    (truth,) = made.truths
    assert truth.gain_ns == (longest[0] - longest[1]) // made.config.steps > 0
    (marked,) = plan(["dataloader"], 3, replace(options, dialect="renamed")).truths
    acts = {window.dur_ns for window in marked.windows}
    assert marked.gain_ns - truth.gain_ns >= 0.99 * min(acts) // made.config.steps  # the first step's wait


def test_what_is_written_is_not_what_the_job_keeps() -> None:
    """The truth is worked out on the job itself, so a dialect must leave that alone."""
    made = case("custom_comm", "text")
    before = made.job.ranks[0]
    DIALECTS["custom_comm"].written(made.job, "text")
    assert made.job.ranks[0] is before and any(isinstance(s.detail, CommOp | CommTask) for s in before.spans)
    assert not any(isinstance(s.detail, Kernel) and s.detail.op_type == "MatmulAllReduce" for s in before.spans)
