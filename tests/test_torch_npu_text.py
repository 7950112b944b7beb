"""Text exports of torch_npu: six real ranks against figures computed from their files by hand."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from decimal import ROUND_HALF_EVEN, Decimal
from functools import cache
from typing import Any

import pytest

from tests.text_export import TRACES, Loaded, load

TEXT = TRACES / "Ascend+msinsight" / "test" / "data" / "pytorch" / "text"
KNOWN = TRACES / "KNOWN_VALUES.json"
RANKS = [f"level{level}/rank{rank}_ascend_pt" for level in (0, 1, 2) for rank in (0, 1)]
WITH_PLANES = RANKS[2:]
Spans = list[tuple[int, int]]

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(not TEXT.is_dir(), reason="the shared real captures are not here"),
]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Loads a real rank once."""
    return cache(lambda rank: load(TEXT / rank, tmp_path_factory.mktemp("text")))


@cache
def events(rank: str) -> list[dict[str, Any]]:
    path = TEXT / rank / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    found: list[dict[str, Any]] = json.loads(path.read_text(), parse_float=Decimal)
    return found


def rows(rank: str, name: str) -> list[dict[str, str]]:
    with (TEXT / rank / "ASCEND_PROFILER_OUTPUT" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def ns(microseconds: object) -> int:
    return int((Decimal(str(microseconds).strip()) * 1000).quantize(Decimal(1), ROUND_HALF_EVEN))


def processes(rank: str) -> dict[int, str]:
    return {e["pid"]: e["args"]["name"] for e in events(rank) if e["ph"] == "M" and e["name"] == "process_name"}


def of_process(rank: str, name: str) -> list[dict[str, Any]]:
    named = processes(rank)
    return [e for e in events(rank) if e["ph"] == "X" and named.get(e["pid"]) == name]


def merged(spans: Spans) -> Spans:
    found: Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def length(spans: Spans) -> int:
    return sum(end - start for start, end in spans)


@pytest.mark.parametrize("rank", RANKS)
def test_the_unions_of_spans_are_the_profilers_own_split(rank: str, loaded: Any) -> None:
    known = json.loads(KNOWN.read_text())[f"Ascend+msinsight/test/data/pytorch/text/{rank}"]["step_trace"]
    at: Loaded = loaded(rank)
    kernels, ops = (at.all(f"SELECT ts_ns, ts_ns + dur_ns FROM span WHERE kind = '{k}'") for k in ("kernel", "comm_op"))
    computing, communication, busy = merged(kernels), merged(ops), merged(kernels + ops)
    assert length(computing) == ns(known["Computing"])
    assert length(communication) == ns(known["Communication"])
    assert length(busy) - length(computing) == ns(known["Communication(Not Overlapped)"])
    assert length(computing) + length(communication) - length(busy) == ns(known["Overlapped"])
    assert sum(later[0] - earlier[1] for earlier, later in zip(busy, busy[1:], strict=False)) == ns(known["Free"])


@pytest.mark.parametrize("rank", RANKS)
def test_the_profilers_split_is_read_to_the_ns(rank: str, loaded: Any) -> None:
    (told,) = rows(rank, "step_trace_time.csv")
    columns = {
        "computing_ns": "Computing", "communication_ns": "Communication", "overlapped_ns": "Overlapped",
        "free_ns": "Free",
        "communication_not_overlapped_ns": "Communication(Not Overlapped)", "stage_ns": "Stage", "bubble_ns": "Bubble",
        "communication_not_overlapped_exclude_receive_ns": "Communication(Not Overlapped and Exclude Receive)",
        "preparing_ns": "Preparing",
    }  # fmt: skip
    expected = (int(told["Step"]), *(ns(told[name]) for name in columns.values()))
    assert loaded(rank).all(f"SELECT step, {', '.join(columns)} FROM profiler_step") == [expected]


@pytest.mark.parametrize("rank", RANKS)
def test_every_event_is_one_span_but_the_twins(rank: str, loaded: Any) -> None:
    at: Loaded = loaded(rank)
    named = processes(rank)
    expected = Counter(named[e["pid"]] for e in events(rank) if e["ph"] == "X")
    planes = [e for e in of_process(rank, "HCCL") if "task id" in e["args"]]
    shown = {
        (e["args"]["Physic Stream Id"], e["args"]["Task Id"], e["args"]["Subtask Id"], e["ts"])
        for e in of_process(rank, "Ascend Hardware")
    }
    keys = [(e["args"]["stream id"], e["args"]["task id"], e["args"]["context id"], e["ts"]) for e in planes]
    twins = [key for key in keys if key in shown]
    assert len(twins) == len(planes)
    expected["Ascend Hardware"] -= len(twins)
    found = at.all("SELECT process, count(*) FROM span JOIN track USING (track) GROUP BY process")
    assert dict(found) == dict(expected)
    assert (f"{len(twins)} tasks" in (at.cover("span")["reason"] or "")) == bool(twins)


@pytest.mark.parametrize("rank", RANKS)
def test_kinds_of_host_spans(rank: str, loaded: Any) -> None:
    cats = Counter(e["cat"] for e in of_process(rank, "Python"))
    marks = [e for e in of_process(rank, "Python") if e["name"] == "ProfilerStep#50"]
    expected = {
        "cpu_op": cats["cpu_op"] - 1, "step_mark": 1, "python": cats["python_function"], "enqueue": cats["enqueue"],
        "dequeue": cats["dequeue"],
    }  # fmt: skip
    at: Loaded = loaded(rank)
    query = "SELECT s.kind, count(*) FROM span s JOIN track USING (track) WHERE process = 'Python' GROUP BY ALL"
    assert dict(at.all(query)) == expected
    start, device = ns(marks[0]["ts"]), [ns(r["Start Time(us)"]) for r in rows(rank, "kernel_details.csv")]
    ((step, host, dur, device_start),) = at.all("SELECT step, ts_ns, host_dur_ns, device_ts_ns FROM step")
    assert (step, host + at.origin, dur, device_start + at.origin) == (50, start, ns(marks[0]["dur"]), min(device))


@pytest.mark.parametrize("rank", RANKS)
def test_every_flow_is_a_link_between_the_spans_at_its_ends(rank: str, loaded: Any) -> None:
    """An end stands at or in spans, of which the innermost counts; at Level0 CANN has no lane to stand on."""
    routes = {"HostToDevice": "host_to_device", "async_npu": "torch_to_npu", "async_task_queue": "task_queue"}
    lanes: dict[tuple[object, int], list[tuple[int, int]]] = defaultdict(list)
    for e in (e for e in events(rank) if e["ph"] == "X"):
        lanes[e["pid"], e["tid"]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])))
    python = next(pid for pid, name in processes(rank).items() if name == "Python")

    def start(e: dict[str, Any]) -> int:
        spans, at = lanes.get((e["pid"], e["tid"])) or lanes[python, e["tid"]], ns(e["ts"])
        return max(begin for begin, end in spans if begin <= at <= end)

    flows = [e for e in events(rank) if e["ph"] in "stf"]
    starts = {(e["cat"], str(e["id"])): start(e) for e in flows if e["ph"] == "s"}
    expected = sorted(
        (routes.get(e["cat"], e["cat"]), starts[e["cat"], str(e["id"])], start(e)) for e in flows if e["ph"] == "f"
    )
    at: Loaded = loaded(rank)
    found = at.all(
        f"SELECT route, s.ts_ns + {at.origin}, d.ts_ns + {at.origin} FROM link "
        "JOIN span s ON s.span_id = src_span_id JOIN span d ON d.span_id = dst_span_id"
    )
    assert sorted(found) == expected
    launched = "SELECT count(DISTINCT dst_span_id) FROM link JOIN kernel ON span_id = dst_span_id WHERE route = "
    assert at.one(f"{launched} 'host_to_device'") == at.one(f"{launched} 'torch_to_npu'") == 187
    assert at.cover("link")["dropped"] == 0


@pytest.mark.parametrize("rank", WITH_PLANES)
def test_a_peers_wait_is_the_sum_of_its_notify_waits(rank: str, loaded: Any) -> None:
    waits: dict[tuple[int, int], int] = defaultdict(int)
    for e in of_process(rank, "HCCL"):
        if e["name"] == "Notify_Wait":
            waits[e["args"]["src rank"], e["args"]["dst rank"]] += ns(e["dur"])
    at: Loaded = loaded(rank)
    waited = "FROM comm JOIN span USING (span_id) WHERE task_type = 'Notify_Wait' GROUP BY ALL"
    query = f"SELECT {{0}}, sum(dur_ns)::BIGINT {waited}"
    for columns in ("src_local, dst_local", "src_rank, dst_rank"):
        assert {row[:2]: row[2] for row in at.all(query.format(columns))} == waits
    assert at.one("SELECT count(*) FROM comm WHERE plane IS NOT NULL AND op_span_id IS NULL") == 0


def test_the_rank_that_everybody_waits_for(loaded: Any) -> None:
    """It is rank 5, which was not even captured."""
    waits = "comm JOIN span USING (span_id) WHERE task_type = 'Notify_Wait'"
    query = f"SELECT max_by(dst_rank, dur_ns), max(dur_ns) FROM {waits}"
    assert loaded("level1/rank0_ascend_pt").all(query) == [(5, 78_764_614)]
    assert loaded("level1/rank1_ascend_pt").one(query) == 5


@pytest.mark.parametrize("rank", WITH_PLANES)
def test_communication_operators_carry_their_analysis(rank: str, loaded: Any) -> None:
    path = TEXT / rank / "ASCEND_PROFILER_OUTPUT" / "communication.json"
    (step,) = json.loads(path.read_text(), parse_float=Decimal).values()
    expected = set()
    for key, told in step["collective"].items():
        name, _, group = key.rpartition("@")
        if not name.startswith("Total") and name:
            times = told["Communication Time Info"]
            expected.add((name, group, *(
                ns(times[f"{what} Time(ms)"] * 1000) for what in ("Transit", "Wait", "Synchronization", "Idle")
            )))  # fmt: skip
    at: Loaded = loaded(rank)
    found = at.all(
        "SELECT name, group_name, transit_ns, wait_ns, synchronization_ns, idle_ns FROM comm JOIN span USING (span_id) "
        "WHERE kind = 'comm_op'"
    )
    assert set(found) == expected and len(found) == 4
    args = at.all("SELECT args FROM arg JOIN span USING (span_id) WHERE kind = 'comm_op'")
    assert all("HCCS" in json.loads(text)["Communication Bandwidth Info"] for (text,) in args) and len(args) == 4


@pytest.mark.parametrize("rank", RANKS)
def test_kernels_are_the_rows_of_kernel_details(rank: str, loaded: Any) -> None:
    at: Loaded = loaded(rank)
    told = [r for r in rows(rank, "kernel_details.csv") if r["Accelerator Core"] != "HCCL"]
    columns = "ts_ns, name, wait_ns, input_shapes, output_dtypes, block_num"
    found = at.all(f"SELECT {columns} FROM kernel JOIN span USING (span_id)")
    expected = [
        (ns(r["Start Time(us)"]), r["Name"], ns(r["Wait Time(us)"]), r.get("Input Shapes", "").strip('"') or None,
         r.get("Output Data Types") or None, int(r["Block Dim"]) if "Type" in r and r["Type"] != "N/A" else None)
        for r in told
    ]  # fmt: skip
    shown = [(ts + at.origin, name, wait, shapes, types, block) for ts, name, wait, shapes, types, block in found]
    none = {"N/A": None}
    assert sorted(shown, key=str) == sorted(
        ((*e[:3], none.get(e[3] or "", e[3]), none.get(e[4] or "", e[4]), e[5]) for e in expected), key=str
    )
    for metric in ("aic_mac_time(us)", "aiv_vec_ratio", "cube_utilization(%)"):
        values = [Decimal(r[metric]) for r in told if metric in r and r[metric] != "N/A"]
        assert at.one(f"SELECT count(*) FROM pmu WHERE metric = '{metric}'") == len(values)
        if values:
            assert at.one(f"SELECT sum(value) FROM pmu WHERE metric = '{metric}'") == pytest.approx(float(sum(values)))


@pytest.mark.parametrize("rank", RANKS)
def test_memory_is_exact_in_bytes(rank: str, loaded: Any) -> None:
    def total(name: str, column: str, unit: int) -> int:
        return sum(int(Decimal(r[column]) * unit) for r in rows(rank, name) if r[column])

    at: Loaded = loaded(rank)
    assert at.all("SELECT sum(reserved_bytes)::BIGINT, sum(allocated_bytes)::BIGINT, count(*) FROM memory_sample") == [
        (
            total("memory_record.csv", "Total Reserved(MB)", 1 << 20) + total("npu_module_mem.csv",
            "Total Reserved(MB)", 1 << 20),
            total("memory_record.csv", "Total Allocated(MB)", 1 << 20),
            len(rows(rank, "memory_record.csv")) + len(rows(rank, "npu_module_mem.csv")),
        )
    ]
    kept = [r for r in rows(rank, "operator_memory.csv") if r["Release Time(us)"].strip()]
    assert at.all("SELECT sum(bytes)::BIGINT, sum(dur_ns)::BIGINT, count(dur_ns) FROM memory_event") == [
        (total("operator_memory.csv", "Size(KB)", 1 << 10), sum(ns(r["Duration(us)"]) for r in kept), len(kept))
    ]


@pytest.mark.parametrize("rank", RANKS)
def test_counters_stacks_caches_and_sums(rank: str, loaded: Any) -> None:
    at: Loaded = loaded(rank)
    counters = [e for e in events(rank) if e["ph"] == "C"]
    assert at.one("SELECT count(*) FROM sample") == len(counters)
    read = [e["args"]["value"] for e in counters if e["name"] == "read_bandwidth" and e["args"]["acc_id"] == 0]
    query = "SELECT count(*), sum(value) FROM sample WHERE counter = 'Acc PMU 0/read_bandwidth'"
    assert at.all(query) == [(len(read), sum(read))]
    called = [e for e in of_process(rank, "Python") if "Call stack" in e.get("args", {})]
    frames = at.all("SELECT ts_ns, frames FROM stack JOIN span USING (span_id)")
    assert {ts + at.origin: text.split("\n") for ts, text in frames} == {
        ns(e["ts"]): e["args"]["Call stack"].split(";\r\n") for e in called
    }
    rates = [float(r["Victim Rate"]) for r in rows(rank, "l2_cache.csv")]
    assert at.one("SELECT sum(victim_share) FROM l2_cache") == pytest.approx(sum(rates))
    matched = at.all("SELECT c.name = s.name FROM l2_cache c JOIN span s USING (span_id)")
    assert len(matched) == len(rates) and all(same for (same,) in matched)
    details = rows(rank, "operator_details.csv")
    assert at.all("SELECT sum(count), sum(total_ns) FROM summary WHERE source = 'operator_details'") == [
        (len(details), sum(ns(r["Host Self Duration(us)"]) for r in details))
    ]


@pytest.mark.parametrize("rank", RANKS)
def test_copies_and_their_way(rank: str, loaded: Any) -> None:
    tasks = [e for e in of_process(rank, "Ascend Hardware") if e["name"] == "MEMCPY_ASYNC"]
    at: Loaded = loaded(rank)
    assert at.one("SELECT count(*) FROM transfer") == 24
    if "level2" in rank:
        short = {"host to device": "h2d", "device to host": "d2h", "device to device": "d2d",
            "host to device ex": "h2d"}
        told = sorted((e["args"]["data size(Byte)"], short[e["args"]["memcpy direction"]]) for e in tasks)
        assert sorted(at.all("SELECT bytes, direction FROM transfer")) == told
    else:
        assert at.one("SELECT count(*) FROM transfer WHERE direction = 'h2d'") >= 2


@pytest.mark.parametrize("rank", RANKS[:2])
def test_level0_shows_the_tasks_of_an_operator_but_not_their_peers(rank: str, loaded: Any) -> None:
    at: Loaded = loaded(rank)
    ops = {e["args"]["connection_id"]: ns(e["ts"]) for e in of_process(rank, "HCCL")}
    tasks = [e for e in of_process(rank, "Ascend Hardware") if e["args"]["connection_id"] in ops]
    expected = Counter((ops[e["args"]["connection_id"]], e["args"]["Task Type"]) for e in tasks)
    found = at.all(
        "SELECT o.ts_ns, c.task_type, count(*), count(c.src_rank) FROM comm c JOIN span o ON o.span_id = c.op_span_id "
        "WHERE c.span_id <> c.op_span_id GROUP BY ALL"
    )
    assert {(ts + at.origin, kind): number for ts, kind, number, _ in found} == expected
    assert not any(peers for *_, peers in found)
