"""What modules cost: runs made by hand, samples and captures beside a walk in plain Python, and the command."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from click.testing import CliRunner

from npulens.analysis.modules.measure import ZERO, Figures, Module, Modules, modules
from npulens.app.cli import main
from npulens.ingest.store import runs as stores
from npulens.ingest.tables import schema
from tests.conftest import SHARED
from tests.real_captures import loaded
from tests.tablecase import connection

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"
LENS = "AMD-AGI+TraceLens/tests/traces"
INSIGHT = "Ascend+msinsight/test/data/pytorch"
FORWARD_ONLY = (
    f"{LENS}/h100/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz",
    f"{LENS}/mi300/gaunernst_bert-small-uncased__1016001.json.gz", f"{LENS}/b200/eager_trace.json.gz",
)  # fmt: skip
TRAINED = (f"{INSIGHT}/text/level1", f"{INSIGHT}/db/level2")


def call(number: int, name: str, at: float, long: float, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": "python", "name": f"nn.Module: {name}", "at": at, "for": long, **more}


def operator(number: int, name: str, at: float, long: float, **more: Any) -> dict[str, Any]:
    told: dict[str, Any] = {"sequence": more.pop("sequence", None), "fwd_thread": more.pop("thread", None)}
    return {"id": number, "kind": "cpu_op", "name": name, "at": at, "for": long, "host_op": told, **more}


def kernel(number: int, at: float, long: float, by: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "kind": "kernel", "name": "k", "at": at, "for": long, "by": by, "kernel": {}, **more}


def measured(spans: list[dict[str, Any]], **case: Any) -> Modules:
    return modules(connection({"spans": spans, **case}))


def row(found: Modules, path: str) -> Module:
    (only,) = [one for one in found.rows if one.path == path]
    return only


def test_a_tree_with_its_own_and_total_times() -> None:
    found = measured([
        call(1, "Net_0", 0, 100), call(2, "Linear_0", 10, 20), call(3, "Linear_1", 40, 30),
        operator(4, "aten::mm", 12, 5), operator(5, "aten::mm", 45, 5), operator(6, "aten::add", 80, 5),
        operator(7, "aten::copy_", 110, 5),
        kernel(10, 200, 50, 4), kernel(11, 250, 40, 5), kernel(12, 290, 7, 6), kernel(13, 300, 3, 7),
    ])  # fmt: skip
    assert [(one.depth, one.name, one.type, one.parent, one.place) for one in found.rows] == [
        (0, "Net_0", "Net", -1, "module"), (1, "Linear_0", "Linear", 0, "module"),
        (1, "Linear_1", "Linear", 0, "module"), (0, "outside", "", -1, "outside"),
    ]  # fmt: skip
    assert [one.own.device_ns for one in found.rows] == [7_000, 50_000, 40_000, 3_000]
    assert [one.total.device_ns for one in found.rows] == [97_000, 50_000, 40_000, 3_000]
    assert [one.own.host_forward_ns for one in found.rows] == [50_000, 20_000, 30_000, 0]
    assert found.rows[0].total.host_forward_ns == 100_000 and found.source == "frames"
    assert found.whole.kernel_ns == 100_000 and found.whole.kernels == 4


def test_kernels_at_the_same_time_share_it() -> None:
    """The one that began first has the time; each keeps its own length."""
    found = measured([
        call(1, "A_0", 0, 20), call(2, "B_0", 30, 20), operator(3, "a", 1, 5), operator(4, "b", 31, 5),
        kernel(10, 100, 50, 3, track="s0"), kernel(11, 120, 60, 4, track="s1"),
    ])  # fmt: skip
    a, b = row(found, "A_0").own, row(found, "B_0").own
    assert (a.kernel_ns, a.device_ns, b.kernel_ns, b.device_ns) == (50_000, 50_000, 60_000, 30_000)


def test_gradients_belong_to_the_module_of_their_forward_operator() -> None:
    """By an arrow, else by the number: of operators with one number the last made the node of the graph."""
    found = measured([
        call(1, "Net_0", 0, 100), call(2, "Linear_0", 10, 20), call(3, "GELU_0", 40, 20),
        operator(4, "aten::linear", 11, 15, sequence=7, thread=0),
        operator(5, "aten::addmm", 15, 5, sequence=8, thread=0),
        operator(6, "aten::gelu", 45, 5, sequence=9, thread=0), operator(7, "loss", 120, 5, sequence=10, thread=0),
        operator(20, "autograd::engine::evaluate_function: Loss", 200, 9, sequence=10, thread=1, track="autograd"),
        operator(21, "GeluBackward0", 210, 20, sequence=9, thread=1, track="autograd", by=6, route="fwdbwd"),
        operator(22, "AddmmBackward0", 240, 20, sequence=8, thread=1, track="autograd"),
        operator(23, "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 270, 5, track="autograd"),
        operator(24, "aten::add_", 271, 2, track="autograd"),
        operator(25, "GeluBackward0", 280, 20, sequence=99, thread=1, track="autograd"),
        kernel(30, 300, 1, 20), kernel(31, 310, 2, 21), kernel(32, 320, 4, 22), kernel(33, 330, 8, 24),
        kernel(34, 340, 16, 25), kernel(35, 400, 32, 5),
    ])  # fmt: skip
    linear, gelu = row(found, "Net_0/Linear_0").own, row(found, "Net_0/GELU_0").own
    assert (linear.forward_ns, linear.backward_ns, linear.host_backward_ns) == (32_000, 4_000, 20_000)
    assert (gelu.forward_ns, gelu.backward_ns) == (0, 2_000)
    assert row(found, "outside").own.backward_ns == 1_000
    assert row(found, "not_tied").own.backward_ns == 24_000 and row(found, "not_tied").own.kernels == 2


def test_two_threads_with_one_number_tie_nothing() -> None:
    found = measured([
        call(1, "A_0", 0, 20), operator(2, "x", 1, 5, sequence=3, thread=0), call(3, "B_0", 0, 20, track="other"),
        operator(4, "y", 1, 5, sequence=3, thread=0, track="other"),
        operator(5, "XBackward0", 50, 5, sequence=3, thread=1, track="autograd"), kernel(9, 60, 5, 5),
    ])  # fmt: skip
    assert row(found, "not_tied").own.backward_ns == 5_000


def test_what_runs_again_in_the_backward_pass_is_where_it_was() -> None:
    """A checkpointed block is called twice; what it calls then is told by its names."""
    found = measured([
        call(1, "Net_0", 0, 100), call(2, "Block_0", 10, 30), call(3, "Linear_0", 15, 10), call(4, "Block_1", 50, 30),
        call(5, "Linear_1", 55, 10), operator(6, "aten::addmm", 57, 5, sequence=4, thread=0),
        operator(10, "autograd::engine::evaluate_function: AddmmBackward0", 200, 90, sequence=4, thread=1, by=6,
                 route="fwdbwd"),
        operator(11, "AddmmBackward0", 201, 80, sequence=4, thread=1),
        call(12, "Block_1", 205, 40), call(13, "Linear_1", 210, 20), operator(14, "aten::addmm", 215, 5),
        operator(15, "aten::mm", 260, 5), kernel(20, 300, 3, 14), kernel(21, 310, 5, 15), kernel(22, 320, 7, 6),
    ])  # fmt: skip
    block, linear = row(found, "Net_0/Block_1"), row(found, "Net_0/Block_1/Linear_1")
    assert (block.calls, block.recomputed, linear.calls, linear.recomputed) == (1, 1, 1, 1)
    assert (linear.own.forward_ns, linear.own.recompute_ns, linear.own.backward_ns) == (7_000, 3_000, 5_000)
    assert block.total.host_recompute_ns == 40_000 and linear.own.host_backward_ns == 50_000
    assert len(found.rows) == 5


def test_paths_that_collect_wrote_win_over_numbers() -> None:
    """A shared module has a node in each place, and one whose root does not know it has its class."""
    found = measured([call(20, "Net_0", 1, 98), *(call(*each, kind="annotation") for each in (
        (1, "Net (.)", 0, 100), (3, "Mlp (layers.0.mlp)", 10, 30), (4, "GELU (layers.0.mlp.act)", 12, 5),
        (5, "Mlp (layers.1.mlp)", 50, 30), (6, "GELU (layers.0.mlp.act)", 52, 5), (7, "Hidden (.?)", 85, 5),
        (8, "Net (.2)", 200, 9),
    ))])  # fmt: skip
    assert [(one.depth, one.name, one.path) for one in found.rows] == [
        (0, "Net", "Net"), (1, "layers.0.mlp", "layers.0.mlp"), (2, "act", "layers.0.mlp.act"),
        (1, "layers.1.mlp", "layers.1.mlp"), (2, "layers.0.mlp.act", "layers.0.mlp.act"), (1, "Hidden", "Net/Hidden"),
        (0, "Net", "Net2"),
    ]  # fmt: skip
    assert found.source == "hooks" and all(one.calls == 1 for one in found.rows)


def test_memory_goes_to_who_was_at_work() -> None:
    events = [{"at": 5, "bytes": 100}, {"at": 15, "bytes": 20}, {"at": 16, "bytes": -20}, {"at": 900, "bytes": 3},
              {"at": None, "bytes": 7}]  # fmt: skip
    spans = [call(1, "A_0", 0, 100), call(2, "B_0", 10, 10), operator(3, "aten::empty", 14, 4)]
    rows = [{name: value for name, value in event.items() if value is not None} for event in events]
    found = measured(spans, tables={"memory_event": rows})
    assert found.memory and [one.own.allocated_bytes for one in found.rows] == [100, 20, 3]
    assert not measured(spans).memory


def test_ranks_are_added_and_can_be_chosen() -> None:
    spans = [
        call(1, "A_0", 0, 10), operator(2, "x", 1, 5), kernel(3, 20, 5, 2),
        call(11, "A_0", 0, 10, rank=1), operator(12, "x", 1, 5, rank=1), kernel(13, 20, 7, 12, rank=1),
    ]  # fmt: skip
    con = connection({"spans": spans})
    both, one = modules(con), modules(con, (1,))
    assert (row(both, "A_0").own.device_ns, row(both, "A_0").calls, both.ranks) == (12_000, 2, (0, 1))
    assert (row(one, "A_0").own.device_ns, row(one, "A_0").calls, one.ranks) == (7_000, 1, (1,))


def test_without_modules_nothing_is_measured_and_the_setting_is_named() -> None:
    found = measured([operator(1, "x", 0, 5), kernel(2, 10, 5, 1)])
    assert found.rows == () and found.source is None and found.collect_with == "npulens collect --modules"


def test_names_that_only_look_like_modules_are_no_trouble() -> None:
    found = measured([
        call(1, "", 0, 100), call(2, "_3", 5, 5), call(3, " (", 20, 5), call(4, "A\n(b) (c)", 30, 5, kind="annotation"),
        operator(5, "x", 31, 2), kernel(6, 50, 5, 5),
    ])  # fmt: skip
    assert sum(one.own.kernel_ns for one in found.rows) == 5_000


def test_depth_of_a_thousand_is_no_trouble() -> None:
    found = measured([call(n + 1, f"A_{n}", n, 4000 - 2 * n) for n in range(1000)])
    assert found.rows[-1].depth == 999 and found.rows[0].total.host_forward_ns == 4_000_000


# ---- Samples and real captures


def captures() -> Iterator[Any]:
    yield from (pytest.param(SAMPLES / name, id=name) for name in ("kineto", "torch_npu_db", "torch_npu_text"))
    yield from (pytest.param(SHARED / name, id=name.replace("/", "_")[-40:]) for name in (*FORWARD_ONLY, *TRAINED))


def opened(capture: Path) -> duckdb.DuckDBPyConnection:
    if not capture.exists():
        pytest.skip("the real captures (../shared/traces) are not here")
    store, report = loaded(capture)
    return stores.open_run(store, str(report.runs[0].run_id))


@pytest.mark.parametrize("capture", list(captures()))
def test_own_figures_sum_to_the_run_exactly(capture: Path) -> None:
    """Kernels and their union are taken from the table, the union with a loop."""
    con = opened(capture)
    found = modules(con)
    rows = con.execute(
        "SELECT rank, ts_ns, ts_ns + dur_ns FROM span WHERE kind IN ('kernel', 'memset') ORDER BY rank, ts_ns"
    ).fetchall()
    con.close()
    union, reached = 0, (-1, 0)
    for rank, begin, end in rows:
        at = max(begin, reached[1]) if rank == reached[0] else begin
        union += max(0, end - at)
        reached = (rank, max(end, at))
    assert sum(one.own.kernel_ns for one in found.rows) == sum(end - begin for _, begin, end in rows) > 0
    assert sum(one.own.device_ns for one in found.rows) == union
    assert sum(one.own.kernels for one in found.rows) == len(rows)
    for one in found.rows:
        below = [each.total for each in found.below(one.id)]
        for name in vars(ZERO):
            assert getattr(one.total, name) == getattr(one.own, name) + sum(getattr(each, name) for each in below)
        assert one.own.forward_ns + one.own.backward_ns + one.own.recompute_ns == one.own.device_ns
    whole = Figures(**{name: sum(getattr(one.own, name) for one in found.rows) for name in vars(ZERO)})
    assert found.whole == whole


@pytest.mark.parametrize("name", FORWARD_ONLY)
def test_a_walk_through_the_trace_gives_the_same_tree(name: str) -> None:
    """Straight from the JSON: the launch of each kernel, and the calls around it on its thread."""
    if not (SHARED / name).exists():
        pytest.skip("the real captures (../shared/traces) are not here")
    events = json.loads(gzip.decompress((SHARED / name).read_bytes()), parse_float=Decimal)["traceEvents"]
    calls: dict[Any, list[tuple[Decimal, Decimal, str]]] = defaultdict(list)
    launches = {}
    for event in events:
        if str(event.get("name", "")).startswith("nn.Module: "):
            begin = Decimal(event["ts"])
            calls[event["tid"]].append((begin, begin + event["dur"], event["name"].removeprefix("nn.Module: ")))
        if event.get("cat") in ("cuda_runtime", "cuda_driver") and "correlation" in event.get("args", {}):
            launches[event["args"]["correlation"]] = (event["tid"], Decimal(event["ts"]))
    con = opened(SHARED / name)
    found = modules(con)
    talk = {name for (name,) in con.execute("SELECT DISTINCT name FROM span WHERE kind = 'comm_op'").fetchall()}
    con.close()
    wanted: Counter[str] = Counter()
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memset") and event["name"] not in talk:
            thread, at = launches.get(event["args"].get("correlation"), (None, Decimal(0)))
            around = sorted((begin, -end, name) for begin, end, name in calls[thread] if begin <= at < end)
            wanted["/".join(name for *_, name in around) or "outside"] += int(Decimal(event["dur"]) * 1000)
    assert {one.path: one.own.kernel_ns for one in found.rows if one.own.kernel_ns} == {
        path: ns for path, ns in wanted.items() if ns
    }
    assert sum(one.calls for one in found.rows) == sum(len(each) for each in calls.values())


@pytest.mark.parametrize("capture", [
    *(pytest.param(SHARED / name, id=name[-12:].replace("/", "_")) for name in TRAINED),
    pytest.param(SAMPLES / "torch_npu_text", id="sample"),
])  # fmt: skip
def test_a_walk_with_gradients_gives_the_same_tree(capture: Path) -> None:
    """From rows, one kernel after the other: up to a call or a gradient, and from there to its forward operator."""
    con = opened(capture)
    found = modules(con)
    spans = {row[0]: row[1:] for row in con.execute("SELECT span_id, name, parent_id, rank FROM span").fetchall()}
    links = con.execute("SELECT src_span_id, dst_span_id, route FROM link").fetchall()
    tied = {target: source for source, target, route in links if route == "fwdbwd"}
    launch = {target: source for source, target, route in links if route == "torch_to_npu"}
    gradients = {
        row[0] for row in con.execute("SELECT span_id FROM host_op WHERE sequence >= 0 AND fwd_thread > 0").fetchall()
    }
    kernels = con.execute("SELECT span_id, dur_ns FROM span WHERE kind IN ('kernel', 'memset')").fetchall()
    con.close()

    def path(span: int | None) -> str:
        names = []
        while span is not None:
            name, span, _ = spans[span]
            names += [name.removeprefix("nn.Module: ")] if name.startswith("nn.Module: ") else []
        return "/".join(reversed(names)) or "outside"

    def place(span: int | None) -> tuple[str, str]:
        here = span
        while here is not None:
            name, above, _ = spans[here]
            if name.startswith("nn.Module: "):
                break
            if here in gradients:
                return path(tied[here]), "backward"
            if name.startswith("autograd::engine"):
                inner = [each for each in gradients if spans[each][1] == here and each in tied]
                return (path(tied[inner[0]]), "backward") if inner else ("not_tied", "backward")
            here = above
        return path(span), "forward"

    wanted: Counter[tuple[str, str]] = Counter()
    for span, ns in kernels:
        wanted[place(launch.get(span))] += ns
    assert any(phase == "backward" and name not in ("outside", "not_tied") for name, phase in wanted)
    sums: Counter[str] = Counter()
    for (name, _), ns in wanted.items():
        sums[name] += ns
    assert {one.path: one.own.kernel_ns for one in found.rows if one.own.kernel_ns} == {
        name: ns for name, ns in sums.items() if ns
    }


def copied(capture: Path) -> duckdb.DuckDBPyConnection:
    """Its tables, to write into."""
    if not capture.exists():
        pytest.skip("the real captures (../shared/traces) are not here")
    store, report = loaded(capture)
    con = duckdb.connect()
    con.execute(schema.SCHEMA_FILE.read_text("utf-8"))
    for path in (store / str(report.runs[0].run_id)).glob("*.parquet"):
        con.execute(f"INSERT INTO {path.stem} BY NAME SELECT * FROM read_parquet('{path}')")
    return con


@pytest.mark.parametrize("capture", [SAMPLES / "torch_npu_text", SHARED / TRAINED[0]], ids=["sample", "alexnet"])
def test_stacks_alone_put_the_same_time_into_modules(capture: Path) -> None:
    """What is called in one line of the code is one row: a file of torch.nn has what its classes had."""
    con = copied(capture)
    calls = modules(con)
    con.execute("UPDATE span SET name = 'python' WHERE starts_with(name, 'nn.Module: ')")
    stacks = modules(con)
    con.close()
    assert (calls.source, stacks.source) == ("frames", "stacks") and {row.calls for row in stacks.rows} == {0}
    for name in ("device_ns", "forward_ns", "backward_ns", "flops"):
        assert getattr(stacks.whole, name) == getattr(calls.whole, name)
    places = [{one.place: one.own.device_ns for one in found.rows if one.place != "module"}
              for found in (calls, stacks)]  # fmt: skip
    assert places[0] == places[1]
    by_type = [Counter[str](), Counter[str]()]
    for sums, found in zip(by_type, (calls, stacks), strict=True):
        for each in found.rows:
            sums[each.type] += each.own.device_ns
    assert by_type[0]["Linear"] == by_type[1]["linear"] > 0


def test_stacks_of_what_runs_again_find_their_place() -> None:
    """In the backward pass the stack begins at the checkpoint: its first module is looked for by its frame."""
    caller = "lib/torch/nn/modules/module.py(1553): _call_impl"
    net, block, linear = "net.py(5): forward", "net.py(9): forward", "lib/torch/nn/modules/linear.py(114): forward"
    inner = [linear, caller, block, caller]
    found = measured([
        operator(1, "aten::mm", 0, 9, stack={"frames": "\n".join([*inner, net, caller, "train.py(3): step"])}),
        operator(2, "autograd::engine::evaluate_function: Mm", 50, 40),
        operator(3, "aten::mm", 60, 9, stack={"frames": "\n".join([*inner, "checkpoint.py(7): backward"])}),
        operator(4, "aten::x", 100, 5, stack={"frames": "train.py(4): step\n"}),
        kernel(10, 200, 2, 1), kernel(11, 210, 3, 3), kernel(12, 220, 4, 4),
    ])  # fmt: skip
    assert [(one.depth, one.name, one.own.forward_ns, one.own.recompute_ns) for one in found.rows] == [
        (0, "net.py(5)", 0, 0), (1, "net.py(9)", 0, 0), (2, "linear.py(114)", 2_000, 3_000), (0, "outside", 4_000, 0),
        (0, "not_tied", 0, 0),
    ]  # fmt: skip


# ---- The command


def asked(*words: str) -> str:
    store, _ = loaded(SAMPLES / "torch_npu_text")
    done = CliRunner().invoke(main, ["modules", *words, "--store", str(store)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command_shows_the_tree_in_both_languages() -> None:
    store, report = loaded(SAMPLES / "torch_npu_text")
    run = str(report.runs[0].run_id)
    con = stores.open_run(store, run)
    found = modules(con)
    con.close()
    text = asked(run, "--depth", "1")
    lines = text.splitlines()
    top = [one for one in found.rows if one.depth <= 1]
    first = next(at for at, line in enumerate(lines) if line.startswith("Module "))
    assert [line.split()[0] for line in lines[first + 1 : first + 1 + len(top)]] == [one.name for one in top]
    chinese = asked(run, "--lang", "zh", "--top", "2")
    assert "调用次数" in chinese and f"另有 {len(found.rows) - 2} 行" in chinese
    told = json.loads(asked(run, "--json", "--depth", "0"))
    assert told["whole"]["kernel_ns"] == found.whole.kernel_ns and told["modules"] == len(found.rows)
    assert [each["path"] for each in told["rows"]] == [one.path for one in found.rows if one.depth == 0]


def test_the_command_compares_a_run_with_itself() -> None:
    _, report = loaded(SAMPLES / "torch_npu_text")
    run = str(report.runs[0].run_id)
    told = json.loads(asked(run, run, "--json", "--top", "1000"))
    assert told["change_ns"] == 0 and {each["how"] for each in told["rows"]} == {"same"}
    assert "own change" in asked(run, run).lower()


def test_the_command_says_what_records_modules() -> None:
    store, report = loaded(SAMPLES / "cpu_train_step")
    run = str(report.runs[0].run_id)
    for words in ([run], [run, run]):
        done = CliRunner().invoke(main, ["modules", *words, "--store", str(store)], catch_exceptions=False)
        assert done.exit_code == 0 and "npulens collect --modules" in done.output
