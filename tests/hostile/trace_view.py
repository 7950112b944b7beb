"""Text exports of Ascend: trace_view.json, its lanes, its arrows, its counters."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests.hostile.planted import Kind, Planted, damaged
from tests.hostile.values import INVALID, VALID
from tests.text_export import HARDWARE, HOST, comm_lanes, comm_op, comm_task, flow, processes, span, task, write

RANKS = Path(__file__).resolve().parents[2] / "sample_traces" / "torch_npu_text"
SAMPLE = next(RANKS.glob("*_200000_*"))
FIELDS = ("ph", "ts", "dur", "name", "cat", "pid", "tid", "id", "args", "args.Task Type", "args.Physic Stream Id",
          "args.Task Id", "args.connection_id", "args.Model Id", "args.size(Byte)", "args.src rank",
          "args.bandwidth(GB/s)", "args.notify_id", "args.Call stack", "args.Input Dims", "args.name", "args.labels",
          "args.sort_index", "args.MHz", "args.alg_type", "args.count")  # fmt: skip
PLANTS = [(field, value) for field in FIELDS for value in (*VALID, *INVALID)]
MARK = '"@planted@"'


def rank(directory: Path, name: str = "host_1_20260105080000000_ascend_pt") -> Path:
    return directory / name


def text(directory: Path, events: list[str]) -> Path:
    """A rank directory whose trace holds these events, written as they are."""
    root = write(rank(directory))
    (root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json").write_text(
        "[" + ",\n".join(events) + "]", "utf-8", "surrogatepass"
    )
    return root


def base() -> list[dict[str, object]]:
    """Every lane there is, ten host calls and ten kernels."""
    operator = [comm_op("hcom_allReduce__523_0_1", 100, 50), comm_task("Notify Wait", 110, 5, 0)]
    lanes = [*processes(), *comm_lanes(), *operator]
    calls = [span(HOST, 1, f"aten::{i}", 10 * i, 5, cat="cpu_op") for i in range(10)]
    return [*lanes, *calls, *(task(f"MatMul{i}", 1000 + 10 * i, 5, "KERNEL_AICORE", number=i) for i in range(10))]


def _values(directory: Path, dice: random.Random, number: int) -> Planted:
    events = [json.dumps(event) for event in base()]
    fields = set()
    for i in range(8):
        field, value = PLANTS[(number * 8 + i) * 7919 % len(PLANTS)]
        fields.add(field)
        event: dict[str, object] = json.loads(json.dumps(dice.choice(
            (task("K", 5000, 5, "KERNEL_AICORE"), comm_task("Memcpy", 5000, 5, 1), span(HOST, 1, "aten::x", 5000, 5))
        )))  # fmt: skip
        top, _, key = field.partition(".")
        args = event.setdefault("args", {})
        assert isinstance(args, dict)
        if key:
            args[key] = "@planted@"
        else:
            event[top] = "@planted@"
        events.append(json.dumps(event).replace(MARK, value))
    dice.shuffle(events)
    return Planted(text(directory, events), met={} if "ph" in fields else {"span": 30}, status=("complete", "partial"))


def _cut(directory: Path, dice: random.Random, number: int) -> Planted:
    events = [json.dumps(span(HOST, 1, f"aten::{i}", 10 * i, 5, cat="cpu_op")) for i in range(300)]
    root = text(directory, events)
    path = root / "ASCEND_PROFILER_OUTPUT" / "trace_view.json"
    data = path.read_bytes()
    ends, at = [], 1
    for one in events:
        ends.append(at + len(one))
        at += len(one) + 2
    cut = dice.randrange(ends[0], len(data))
    path.write_bytes(data[:cut])
    return Planted(root, rows={"span": sum(end <= cut for end in ends)}, status=("partial",))


def _flip(directory: Path, dice: random.Random, number: int) -> Planted:
    """The sample rank with its trace damaged, and half the time one more of its files."""
    root = rank(directory)
    files = sorted(path for path in SAMPLE.rglob("*") if path.is_file())
    hurt = {"trace_view.json", dice.choice(files).name if number % 2 else ""}
    for path in files:
        target = root / path.relative_to(SAMPLE)
        target.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes()
        target.write_bytes(damaged(data, dice) if path.name in hurt else data)
    return Planted(root)


def _lanes(directory: Path, dice: random.Random, number: int) -> Planted:
    """Lanes called what they are not: twice, after the events, by numbers, by markup, by nothing."""
    names = ("CANN", "Ascend Hardware", "Communication", "Overlap Analysis", "HCCL", "Python", "", " ", "<b>", "\u202e",
             "Plane 99999999999999999999", "Plane -1", "Group  Communication", "NPU MEM", "AI Core Freq", "a" * 9000)
    events: list[dict[str, object]] = base()
    for _ in range(dice.choice((1, 10, 500))):
        pid = dice.choice((100, 200, 300, 400, 500, -1, 2**40, "x", None, 1.5))
        tid = dice.choice((0, 1, 2, 2**40, "main", None, -7))
        what = dice.choice(("process_name", "thread_name", "process_labels", "process_sort_index", "thread_sort_index"))
        key = {"process_labels": "labels"}.get(what, "sort_index" if "sort" in what else "name")
        events.append({"ph": "M", "name": what, "pid": pid, "tid": tid,
                       "args": {key: dice.choice((*names, 5, None, [], 2**70))}})  # fmt: skip
    dice.shuffle(events)
    return Planted(text(directory, [json.dumps(event) for event in events]), met={"span": 22})


def _links(directory: Path, dice: random.Random, number: int) -> Planted:
    events = base()
    for _ in range(dice.choice((1, 50, 3000))):
        cat = dice.choice(("async_npu", "HostToDevice", "async_task_queue", "fwdbwd", "x"))
        told = dice.choice((1, "1", 2**40, 2**70, -1, "", "x", "1767600000000000.123", dice.randrange(30)))
        pid, tid = dice.choice(((HOST, 1), (HARDWARE, 2), (400, 0), (9, 9)))
        events.append(flow(dice.choice("stf"), cat, told, pid, tid, dice.randrange(1200)))
    dice.shuffle(events)
    return Planted(text(directory, [json.dumps(event) for event in events]), met={"span": 22})


def _counters(directory: Path, dice: random.Random, number: int) -> Planted:
    events = [json.dumps(event) for event in base()]
    for i in range(20):
        key = dice.choice(("MHz", "KB", "value", "Read(MB/s)", "Hit Rate(%)", "", "é", "a" * 5000, "x"))
        name = dice.choice(("AI Core Freq", "HBM", "", "<svg>", "Acc PMU"))
        events.append(f'{{"ph":"C","name":"{name}","pid":{600 + i % 3},"tid":0,"ts":"{1000 + i}.001",'
                      f'"args":{{"{key}":{dice.choice(VALID)},"acc_id":{dice.choice(VALID)}}}}}')  # fmt: skip
    return Planted(text(directory, events), rows={"span": 22})


def _overlap(directory: Path, dice: random.Random, number: int) -> Planted:
    """Spans of one lane that cross, contain each other, last nothing or last for ever."""
    events = base()
    count = dice.choice((10, 300, 3000))
    for i in range(count):
        begin, length = dice.randrange(3000), dice.choice((0, 0, 1, 10, 5000, 10**15, 4 * 10**18))
        events.append(dice.choice((
            task(f"K{i}", begin, length, "KERNEL_AIVEC", number=dice.randrange(9)),
            span(HOST, 1, "aten::x", begin, length, cat="cpu_op"), comm_task("Memcpy", begin, length, 1),
            span(500, dice.randrange(4), dice.choice(("Computing", "Communication", "Free")), begin, length),
        )))  # fmt: skip
    dice.shuffle(events)
    return Planted(text(directory, [json.dumps(event) for event in events]))


KINDS = (
    Kind("trace_view value", 200, _values),
    Kind("trace_view cut", 80, _cut),
    Kind("trace_view flip", 80, _flip),
    Kind("trace_view lanes", 40, _lanes),
    Kind("trace_view links", 40, _links),
    Kind("trace_view counters", 40, _counters),
    Kind("trace_view overlap", 30, _overlap),
)
