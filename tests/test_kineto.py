"""The Kineto reader against what real files say when read by hand, and against TraceLens' own figures.

Nothing here uses the reader's SQL to make an expected value: events are read with the json module, stamps
with Decimal, unions with a plain loop.
"""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from npulens.ingest.tables.finish import finish
from tests.kineto_files import (
    B200,
    DEVICE_KINDS,
    HTA,
    HTA_CPU,
    LENS,
    NANO,
    NCCL,
    REAL,
    RESNET,
    TRACES,
    Loaded,
    document,
    kind,
    length,
    ns,
    outermost,
)  # fmt: skip

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not REAL, reason="the real captures (../shared/traces) are not here"),
]

Load = Callable[[str], Loaded]


def short(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"[-60:]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    made: dict[str, Loaded] = {}

    def load(name: str) -> Loaded:
        if name not in made:
            made[name] = Loaded(TRACES / name, tmp_path_factory.mktemp("draft"))
        return made[name]

    yield load
    for loaded in made.values():
        loaded.draft.close()


#: Large files whose spans carry arguments that no small one has.
WIDE = ("eager_trace.json.gz", "worker0.pt.trace.json.gz", "nccl_data.json.gz")


# --- every real file -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", REAL, ids=short)
def test_every_span_of_a_real_file_is_kept_exactly(path: Path, tmp_path: Path) -> None:
    root = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events = root["traceEvents"]
    base = root.get("baseTimeNanoseconds", 0)
    expected = {
        i: (kind(e), e["name"], ns(e["ts"]) + base, ns(e.get("dur", 0)))
        for i, e in enumerate(events) if kind(e) is not None
    }  # fmt: skip
    if path == TRACES / HTA_CPU:  # of a job on the CPU each outermost operator is work of the device as well
        works = enumerate(sorted(outermost(events), key=events.index), 1 + max(expected))
        expected |= {
            i: ("comm_op" if e["name"].startswith("gloo:") else "kernel", e["name"], ns(e["ts"]) + base, ns(e["dur"]))
            for i, e in works
        }
    loaded = Loaded(path, tmp_path / "draft")
    found = {row[0]: row[1:] for row in loaded.rows("span", "span_id, kind, name, ts_ns, dur_ns")}
    assert Counter(row[0] for row in found.values()) == Counter(row[0] for row in expected.values())
    assert found == expected
    assert loaded.dropped() == {}
    assert loaded.draft.broken == []
    assert loaded.draft.facts["clock"] == "unix"
    memory = [e for e in events if e["name"] == "[memory]"]
    kept = loaded.rows("memory_event", "count(*) + count(dur_ns)")  # a paired allocation stands for two events
    assert sum(row[0] for row in kept) == len(memory)
    part = finish(loaded.draft, tmp_path / "out")
    assert part.rows["span"] == len(expected)
    assert part.origin_ns == min([row[2] for row in expected.values()] + [ns(e["ts"]) + base for e in memory])


@pytest.mark.parametrize("path", [p for p in REAL if p.stat().st_size < 400_000 or p.name in WIDE], ids=short)
def test_no_argument_of_a_span_is_lost(path: Path, tmp_path: Path) -> None:
    """Every argument key of every span is in a column or, verbatim, in arg."""
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    loaded = Loaded(path, tmp_path / "draft")
    rests: dict[int, Any] = {row: json.loads(text) for row, text in loaded.rows("arg", "span_id, args")}
    linked = {row[0] for row in loaded.rows("link", "dst_span_id", "route <> 'fwdbwd'")}
    kernels = {row[0] for row in loaded.rows("kernel", "span_id")}
    transfers = {row[0] for row in loaded.rows("transfer", "span_id")}
    geometry = {"grid", "block", "registers per thread", "shared memory", "est. achieved occupancy %"}
    host = {"correlation", "External id", "external id", "Input Dims", "Input dims", "Input type", "Sequence number",
            "Fwd thread id", "Call stack"}  # fmt: skip
    for i, event in enumerate(events):
        if kind(event) is None:
            continue
        args = event.get("args") or {}
        if event.get("cat") in (*DEVICE_KINDS, "mtia_ccp_events"):
            told = {"stream", "device"} | (geometry if i in kernels else set())
            told |= {"bytes", "memory bandwidth (GB/s)"} if i in transfers else set()
            told |= {"correlation", "External id", "external id"} if i in linked else set()
        else:
            told = host
        rest = rests.get(i, {})
        if rest.get("External id") == args.get("external id"):
            told = told | {"external id"}
        missing = {k for k, v in args.items() if k not in rest and k not in told and v is not None}
        assert not missing, f"event {i} ({event.get('cat')}): {missing}"
        wrong = {k for k in rest if k in args and not same(rest[k], args[k])}
        assert not wrong, f"event {i}: {wrong}"


def same(a: Any, b: Any) -> bool:
    """Equal, but for the quotes of a number."""
    return bool(a == b) or str(a) == str(b) or (isinstance(b, float) and float(a) == b)


# --- TraceLens -------------------------------------------------------------------------------------------------------

GOLDEN = sorted(TRACES.glob(f"{LENS}**/gpu_timeline.csv"))


@pytest.mark.parametrize("timeline", GOLDEN, ids=lambda p: "/".join(p.parts[-3:-1])[-50:])
def test_split_agrees_with_tracelens(timeline: Path, real: Load) -> None:
    """TraceLens counts in the device-side window of the step; without one, from the first to the last device task.

    It computes in doubles of us: at 1.4e12 they are 0.24 ns apart, and its unions add hundreds of intervals.
    """
    with timeline.open() as file:
        golden = {row["type"]: float(row["time ms"]) * 1e6 for row in csv.DictReader(file)}
    name = str(timeline.parent.relative_to(TRACES)).removesuffix("_perf_report_csvs") + ".json.gz"
    loaded = real(name)
    kinds = {"kernel": 0, "memset": 0, "comm_op": 1, "memcpy": 2}
    spans = [(kinds[k], ts, ts + dur) for k, ts, dur in loaded.rows("span", "kind, ts_ns, dur_ns") if k in kinds]
    steps = loaded.rows("step", "device_ts_ns, device_ts_ns + device_dur_ns", "device_ts_ns IS NOT NULL")
    (window,) = steps or [(min(s[1] for s in spans), max(s[2] for s in spans))]
    inside = [(k, max(a, window[0]), min(b, window[1])) for k, a, b in spans if b > window[0] and a < window[1]]
    compute = length((a, b) for k, a, b in inside if k == 0)
    work = length((a, b) for k, a, b in inside if k <= 1)
    busy = length((a, b) for _, a, b in inside)
    ours = {
        "computation_time": compute, "exposed_comm_time": work - compute, "exposed_memcpy_time": busy - work,
        "busy_time": busy, "idle_time": window[1] - window[0] - busy, "total_time": window[1] - window[0],
        "total_comm_time": length((a, b) for k, a, b in inside if k == 1),
        "total_memcpy_time": length((a, b) for k, a, b in inside if k == 2),
    }  # fmt: skip
    assert {key: pytest.approx(value, abs=1000) for key, value in golden.items()} == ours


# --- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [NANO, NCCL, B200, RESNET])
def test_launches_follow_the_correlation(name: str, real: Load) -> None:
    events = document(name)["traceEvents"]
    calls = {e["args"]["correlation"]: i for i, e in enumerate(events)
             if e["ph"] == "X" and e["cat"] in ("cuda_runtime", "cuda_driver", "Runtime")}  # fmt: skip
    work = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
    tasks = [(i, e) for i, e in enumerate(events) if e["ph"] == "X" and e["cat"].lower() in work]
    expected = {(calls[e["args"]["correlation"]], i) for i, e in tasks}
    loaded = real(name)
    assert set(loaded.rows("link", "src_span_id, dst_span_id", "route <> 'fwdbwd'")) == expected
    autograd = {e["id"] for e in events if e.get("cat") == "fwdbwd" and e["ph"] == "f"}
    assert loaded.draft.covers["link"].expected == len(expected) + len(autograd)


@pytest.mark.parametrize("name", [NANO, NCCL])
def test_backward_operators_answer_the_forward_one_with_their_sequence_number(name: str, real: Load) -> None:
    events = document(name)["traceEvents"]
    flows = {e["id"] for e in events if e.get("cat") == "fwdbwd"}
    links = real(name).rows("link", "src_span_id, dst_span_id", "route = 'fwdbwd'")
    assert len(links) == len(flows) > 500
    for forward, backward in links:
        assert events[forward]["args"]["Sequence number"] == events[backward]["args"]["Sequence number"]
        assert (events[forward]["tid"], events[forward]["ts"]) != (events[backward]["tid"], events[backward]["ts"])


def test_tasks_launched_before_the_capture_are_counted_not_linked(real: Load) -> None:
    name = HTA + "negative_queue_length_values_check/rank0.json.gz"
    events = document(name)["traceEvents"]
    calls = {e["args"]["correlation"] for e in events if e.get("cat") == "cuda_runtime"}
    tasks = [
        e["args"]["correlation"]
        for e in events
        if e["ph"] == "X" and e["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")
    ]
    cover = real(name).draft.covers["link"]
    assert len(real(name).rows("link")) == sum(c in calls for c in tasks) == 6875
    assert cover.expected == len(tasks)
    assert any(f"{len(tasks) - 6875} of {len(tasks)}" in note for note in cover.notes)


# --- communication, steps, memory, tracks of real files --------------------------------------------------------------


def test_collectives_say_what_they_moved(real: Load) -> None:
    events = document(NCCL)["traceEvents"]
    size, expected = {"Float": 4, "Long": 8, "Int": 4}, []
    for i, event in enumerate(events):
        args = event.get("args", {})
        if event.get("cat") == "kernel" and "Collective name" in args:
            count = max(args["In msg nelems"], args["Out msg nelems"])
            group = args["Process Group Name"]
            expected.append(
                (
                    i,
                    i,
                    args["Collective name"],
                    group,
                    count,
                    args["dtype"],
                    count * size[args["dtype"]],
                    args["stream"],
                )
            )
    columns = "span_id, op_span_id, collective, group_name, count, dtype, bytes, stream"
    assert real(NCCL).rows("comm", columns) == expected
    assert len(expected) == 21
    assert real(NCCL).rows("parallel_group", "group_name, kind, ranks") == [("0", "default_group", [0, 1])]
    columns = "collective, group_name, count, dtype, bytes, algorithm"
    assert real(B200).one("comm", columns, "collective <> 'allreduce'") == (
        "allgather", "3", 201088, "BFloat16", 402176, "RING_LL")  # fmt: skip
    assert real(B200).draft.facts["world_size"] == 8


def test_steps_are_the_marks(real: Load) -> None:
    for name in (NANO, RESNET):
        marks = {int(e["name"].split("#")[1]): (ns(e["ts"]), ns(e["dur"])) for e in document(name)["traceEvents"]
                 if e["name"].startswith("ProfilerStep#") and e["cat"] != "gpu_user_annotation"}  # fmt: skip
        assert real(name).rows("step", "step, ts_ns, host_dur_ns") == sorted((s, *w) for s, w in marks.items())


def test_memory_blocks_pair_by_address(real: Load) -> None:
    name = LENS + "h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz"
    root = document(name)
    open_: dict[Any, tuple[int, int]] = {}
    expected = []
    for e in root["traceEvents"]:
        if e["name"] == "[memory]":
            args, at = e["args"], ns(e["ts"]) + root["baseTimeNanoseconds"]
            key = (args["Device Type"], args["Addr"])
            if args["Bytes"] > 0:
                open_[key] = (at, args["Bytes"])
            else:
                start, size = open_.pop(key)
                assert size == -args["Bytes"]
                expected.append((start, at - start, size))
    expected += [(start, None, size) for start, size in open_.values()]
    key = lambda row: (row[0], row[2], row[1] or 0)  # noqa: E731
    assert sorted(real(name).rows("memory_event", "ts_ns, dur_ns, bytes"), key=key) == sorted(expected, key=key)


def test_tracks_carry_the_streams_of_their_tasks(real: Load) -> None:
    loaded = real(NCCL)
    streams: dict[int, set[int]] = defaultdict(set)
    events = document(NCCL)["traceEvents"]
    for span, track in loaded.rows("span", "span_id, track", "kind IN ('kernel', 'memcpy', 'memset', 'comm_op')"):
        streams[track].add(events[span]["args"]["stream"])
    told = {row[0]: {row[1]} for row in loaded.rows("track", "track, stream", "kind = 'stream'")}
    assert told == dict(streams)
    names = dict(loaded.rows("track", "tid, name", "kind = 'host_thread'"))
    assert names["2910249"] == "thread 2910249 (pt_main_thread)"


FACTS = {
    B200: ("cuda", "NVIDIA B200", 0),
    LENS + "mi210/gpu_only_trace/gpu_only_trace.json.gz": ("rocm", "AMD Instinct MI210", 1),
    HTA + "amd_trace/mi250_minitoy_train_ROCm6_2_kineto.json.gz": ("rocm", "AMD Radeon Graphics", 2),
    HTA + "mtia_inference_trace/mtia_inference_rank_0.json.gz": ("mtia", "ARTEMIS", None),
    HTA + "timeline_analysis/sampled_rank-0.json.gz": ("cuda", None, 0),
    "facebookresearch+HolisticTraceAnalysis@hist-05cd72fe/tests/data/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz":
        ("cpu", None, None),
}  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), FACTS.items(), ids=[n[-40:] for n in FACTS])
def test_device_of_a_real_file(name: str, expected: tuple[Any, ...], real: Load) -> None:
    facts = real(name).draft.facts
    assert (facts.get("backend"), facts.get("device_name"), facts.get("device_id")) == expected
