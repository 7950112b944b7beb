"""What a change is made of: by hand, nanosecond by nanosecond, and on captures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pytest

from npulens import ingest
from npulens.analysis.idle.pieces import CODES, idle
from npulens.analysis.regression import pieces
from npulens.analysis.regression.change import Change, Contribution, change
from npulens.analysis.regression.compared import aligned, compared, warm_up
from npulens.analysis.regression.pieces import Measured, measure
from npulens.analysis.run import Run
from npulens.analysis.views import install
from npulens.ingest.store import runs as stores
from tests import random_runs
from tests.tablecase import connection

Row = Mapping[str, Any]


def step(number: int, at: float, length: float) -> Row:
    return {"id": 1000 + number, "kind": "step_mark", "name": f"ProfilerStep#{number}", "at": at, "for": length}


def kernel(number: int, at: float, length: float, op: str, shapes: str = "8,8", track: str = "s0") -> Row:
    return {"id": number, "kind": "kernel", "name": f"{op}_{number}", "at": at, "for": length, "track": track,
            "kernel": {"op_type": op, "input_shapes": shapes, "input_dtypes": "FLOAT"}}  # fmt: skip


def measured(spans: Sequence[Row], more: Row | None = None) -> Measured:
    con = connection({"spans": spans, **(more or {})})
    install(con)
    return measure(con)


def moved(found: Change) -> dict[tuple[str, str], int]:
    return {(one.kind, one.what): one.delta_ns for one in found.contributions if one.delta_ns}


def exact(found: Change) -> None:
    assert sum(one.delta_ns for one in found.contributions) + found.residual_ns == found.delta_ns


BASE = [step(1, 0, 100), kernel(1, 10, 30, "MatMul"), kernel(2, 50, 20, "Add")]


def test_a_slower_kernel_by_hand() -> None:
    """The kernel takes 5 us more and the step too: that is all of it."""
    head = [step(1, 0, 105), kernel(1, 10, 35, "MatMul"), kernel(2, 55, 20, "Add")]
    found = change([measured(BASE)], [measured(head)])
    assert (found.base_ns, found.head_ns, found.delta_ns, found.residual_ns) == (100_000, 105_000, 5_000, 0)
    assert moved(found) == {("kernel", "MatMul"): 5_000}
    assert found.contributions[0].state == "time" and found.of("kernel") == (50_000, 55_000)


def test_a_slower_kernel_that_eats_a_gap_costs_nothing_and_says_so() -> None:
    head = [step(1, 0, 100), kernel(1, 10, 35, "MatMul"), kernel(2, 50, 20, "Add")]
    found = change([measured(BASE)], [measured(head)])
    assert found.delta_ns == 0
    assert moved(found) == {("kernel", "MatMul"): 5_000, ("gap", "unknown"): -5_000}


def test_time_that_kernels_share_belongs_to_the_one_that_started_first() -> None:
    """A runs 10-40, B 20-50 beside it, C 25-30 within both: A owns 30, B what is left of it, C nothing."""
    rows = measured([
        step(1, 0, 100), kernel(1, 10, 30, "A"), kernel(2, 20, 30, "B", track="s1"), kernel(3, 25, 5, "C", track="s2"),
    ]).rows.set_index("op")["ns"]  # fmt: skip
    assert rows[["A", "B", "C"]].to_dict() == {"A": 30_000, "B": 10_000, "C": 0}


def test_of_those_that_start_together_the_longest_owns() -> None:
    rows = measured([step(1, 0, 100), kernel(1, 10, 5, "short"), kernel(2, 10, 9, "long", track="s1")]).rows
    assert rows.set_index("op")["ns"][["short", "long"]].to_dict() == {"short": 0, "long": 9_000}


def test_work_that_crosses_into_the_next_step_counts_where_it_runs() -> None:
    con = connection({"spans": [step(1, 0, 50), step(2, 50, 50), kernel(1, 40, 30, "A")]})
    assert measure(con, None, (1,)).rows.set_index("op")["ns"]["A"] == 10_000
    assert measure(con, None, (2,)).rows.set_index("op")["ns"]["A"] == 20_000


def renamed(found: Change) -> list[Contribution]:
    return [one for one in found.contributions if one.state == "renamed"]


def test_a_kernel_with_a_new_name_at_its_old_place_is_renamed() -> None:
    head = [step(1, 0, 105), kernel(1, 10, 35, "MatMulV3"), kernel(2, 55, 20, "Add")]
    found = change([measured(BASE)], [measured(head)])
    (one,) = renamed(found)
    assert (one.what, one.before, one.delta_ns) == ("MatMulV3", "MatMul", 5_000)
    other = [step(1, 0, 105), kernel(1, 10, 35, "MatMulV3", "8,16"), kernel(2, 55, 20, "Add")]
    found = change([measured(BASE)], [measured(other)])
    assert not renamed(found)
    assert {one.what: one.state for one in found.contributions if one.kind == "kernel"} == {
        "MatMul": "gone", "MatMulV3": "new", "Add": "same"
    }  # fmt: skip


def grouped(found: Change) -> list[tuple[str, tuple[str, ...], tuple[str, ...], int, int]]:
    return [(one.state, one.members.base, one.members.head, one.base_ns, one.head_ns)
            for one in found.contributions if one.members]  # fmt: skip


def test_two_kernels_at_the_place_of_one_are_a_split_and_the_reverse_a_fusion() -> None:
    head = [step(1, 0, 97), kernel(1, 10, 15, "X"), kernel(3, 25, 12, "Y"), kernel(2, 47, 20, "Add")]
    found = change([measured(BASE)], [measured(head)])
    exact(found)
    assert grouped(found) == [("split", ("MatMul",), ("X", "Y"), 30_000, 27_000)]
    assert moved(found) == {("kernel", "X + Y"): -3_000}
    found = change([measured(head)], [measured(BASE)])
    exact(found)
    assert grouped(found) == [("fused", ("X", "Y"), ("MatMul",), 27_000, 30_000)]
    assert moved(found) == {("kernel", "MatMul"): 3_000}


def test_a_group_holds_every_layer_and_a_kernel_twice() -> None:
    """Cast, Mul, Cast in three layers become one kernel in each."""
    base, head, at = [step(1, 0, 200)], [step(1, 0, 200)], 10
    for layer in range(3):
        for place, op in enumerate(("MatMul", "Cast", "Mul", "Cast")):
            base.append(kernel(10 * layer + place, at + 10 * place, 10, op))
        head += [kernel(10 * layer, at, 10, "MatMul"), kernel(10 * layer + 1, at + 10, 21, "CastMulCast")]
        at += 50
    found = change([measured(base)], [measured(head)])
    exact(found)
    assert grouped(found) == [("fused", ("Cast", "Mul", "Cast"), ("CastMulCast",), 90_000, 63_000)]
    (group,) = (one for one in found.contributions if one.members)
    assert (group.base_count, group.head_count) == (9.0, 3.0)


def test_what_does_not_belong_together_is_no_group() -> None:
    """Another place, far longer, two for two, and one that also runs elsewhere far more often."""
    elsewhere = [step(1, 0, 100), kernel(2, 10, 20, "Add"), kernel(1, 30, 15, "X"), kernel(3, 45, 15, "Y")]
    longer = [step(1, 0, 300), kernel(1, 10, 100, "X"), kernel(3, 110, 21, "Y"), kernel(2, 150, 20, "Add")]
    common = [step(1, 0, 100), kernel(1, 10, 15, "X"), kernel(3, 25, 15, "Y"), kernel(2, 50, 2, "Add"),
              *(kernel(10 + place, 55 + 3 * place, 2, "X") for place in range(4))]  # fmt: skip
    for head in (elsewhere, longer, common):
        assert not grouped(change([measured(BASE)], [measured(head)]))
    two = [step(1, 0, 100), kernel(1, 10, 15, "P", "1"), kernel(3, 25, 15, "Q", "1"), kernel(2, 50, 20, "Add")]
    assert not grouped(change([measured(two)], [measured(longer)]))


def launched(kernel_name: str, operator: str = "aten::mm") -> list[Row]:
    """A module calls an operator, which calls one, which launches the kernel; and another kernel of the same."""
    return [
        step(1, 0, 100), {"id": 10, "kind": "python", "name": "nn.Module: Linear_3", "at": 1, "for": 20},
        {"id": 11, "kind": "cpu_op", "name": "aten::linear", "at": 2, "for": 15},
        {"id": 12, "kind": "cpu_op", "name": operator, "at": 3, "for": 10, "host_op": {"input_shapes": "[[4,4]]"}},
        {"id": 13, "kind": "runtime", "name": "cudaLaunchKernel", "at": 4, "for": 2},
        {"id": 14, "kind": "kernel", "name": kernel_name, "at": 30, "for": 10, "by": 13, "kernel": {}},
    ]  # fmt: skip


def test_the_operator_and_module_of_a_kernel() -> None:
    rows = measured(launched("volta_gemm")).rows
    one = rows[rows["kind"] == "kernel"].iloc[0]
    assert (one["operator"], one["module"], one["shapes"]) == ("aten::linear", "nn.Module: Linear_3", "[[4,4]]")
    base, head = measured(launched("volta_gemm")), measured(launched("Cijk_gemm"))
    (found,) = renamed(change([base], [head]))
    assert (found.what, found.before) == ("Cijk_gemm", "volta_gemm")
    for level, name in (("operator", "aten::linear"), ("module", "nn.Module: Linear_3")):
        kernels = [one for one in change([base], [head], level).contributions if one.kind == "kernel"]
        assert [(one.what, one.state, one.base_ns) for one in kernels] == [(name, "same", 10_000)]


def test_what_one_side_did_not_record_is_residual() -> None:
    head = [step(1, 0, 105), kernel(1, 10, 35, "MatMul"), kernel(2, 55, 20, "Add")]
    found = change([measured(BASE)], [measured(head, {"absent": ["transfer"]})])
    assert found.told == ("kernel", "communication") and found.residual_ns == 0
    longer = [step(1, 0, 115), *head[1:]]
    found = change([measured(BASE)], [measured(longer, {"absent": ["transfer"]})])
    assert found.delta_ns == 15_000 and found.residual_ns == 10_000
    exact(found)


def test_several_runs_of_a_side_are_one() -> None:
    head = [step(1, 0, 130), kernel(1, 10, 60, "MatMul"), kernel(2, 80, 20, "Add")]
    found = change([measured(BASE)], [measured(BASE), measured(head)])
    assert found.delta_ns == 15_000 and moved(found) == {("kernel", "MatMul"): 15_000}


def test_a_sum_that_does_not_add_up_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the time of two kernels counted twice, the check says so."""
    monkeypatch.setattr(pieces, "first_come", lambda starts, ends: starts)
    with pytest.raises(pieces.NotExact):
        measured([step(1, 0, 100), kernel(1, 10, 30, "A"), kernel(2, 20, 30, "B", track="s1")])


def owners(con: duckdb.DuckDBPyConnection, found: Measured) -> Counter[tuple[str, str]]:
    """Who owns each nanosecond of the windows, one after the other."""
    spans = con.execute("SELECT rank, kind, name, ts_ns, ts_ns + dur_ns FROM span ORDER BY ts_ns, -dur_ns, span_id")
    kinds = {"kernel": "kernel", "memset": "kernel", "comm_op": "communication", "memcpy": "copy", "unknown": "unknown"}
    work = [(rank, kinds[kind], name, begin, end) for rank, kind, name, begin, end in spans.fetchall() if kind in kinds]
    gaps = Run(con).get(idle)
    causes = list(zip(gaps.rank.tolist(), gaps.start.tolist(), gaps.end.tolist(), gaps.cause.tolist(), strict=True))
    owned: Counter[tuple[str, str]] = Counter()
    for window in found.side.windows:
        for at in range(window.start_ns, window.start_ns + window.dur_ns):
            running = [(kind, name) for rank, kind, name, begin, end in work
                       if rank == window.rank and begin <= at < end]  # fmt: skip
            order = ("kernel", "communication", "copy", "unknown")
            first = next((one for kind in order for one in running if one[0] == kind), None)
            idle_of = next((CODES[cause] for rank, begin, end, cause in causes
                            if rank == window.rank and begin <= at < end), None)  # fmt: skip
            owned[first or ("gap", idle_of or "nobody")] += 1
    return owned


def test_every_nanosecond_by_brute_force() -> None:
    con, seen = random_runs.empty_connection(), 0
    for seed in range(40):
        random_runs.fill(con, seed, scale=1)
        found = measure(con)
        if len(found.told) < 5 or found.side.dur_ns > 1_200:
            continue
        expected = owners(con, found)
        expected["gap", "nobody"] -= found.residual_ns
        rows = found.rows.assign(op=found.rows["name"].where(found.rows["kind"] != "gap", found.rows["op"]))
        ours = Counter({key: int(ns) for key, ns in rows.groupby(["kind", "op"])["ns"].sum().items()})
        assert +ours == +expected, seed
        seen += bool(+ours)
    assert seen >= 8


@pytest.mark.parametrize("seed", range(16))
def test_random_runs_add_up(seed: int) -> None:
    """Whatever they hold, and whatever either side recorded."""
    sides = []
    for offset in (0, 1):
        con = random_runs.empty_connection()
        random_runs.fill(con, 1000 + 2 * seed + offset)
        sides.append(measure(con, whole=seed % 2 == 0))
    for level in ("kernel", "operator"):
        found = change([sides[0]], [sides[1]], level)
        exact(found)
        split = [dict(one.side.parts) for one in sides]
        for kind, part in (("kernel", "computing"), ("communication", "communication"), ("copy", "copy"),
                           ("gap", "idle")):  # fmt: skip
            if kind in found.told:
                means = [total[part] // max(1, len(one.side.windows)) for total, one in zip(split, sides, strict=True)]
                assert all(abs(a - b) <= 1 for a, b in zip(found.of(kind), means, strict=True))


def test_steps_stand_beside_each_other_by_number_or_in_order() -> None:
    def side(first: int, count: int) -> Any:
        return measured([step(first + k, 100 * k, 100) for k in range(count)]).side

    by_number, pairs = aligned(side(3, 4), side(5, 3))
    assert by_number and [(pair.base, pair.head) for pair in pairs] == [(3, None), (4, None), (5, 5), (6, 6), (None, 7)]
    by_number, pairs = aligned(side(3, 2), side(50, 3))
    assert not by_number and [(pair.base, pair.head) for pair in pairs] == [(3, 50), (4, 51), (None, 52)]


def lasting(*lengths: float) -> Measured:
    """Steps of these lengths, full of one kernel each."""
    at, spans = 0.0, list[Row]()
    for number, length in enumerate(lengths):
        spans += [step(number, at, length), kernel(number + 1, at, length, "Work")]
        at += length
    return measured(spans)


def test_warm_up_is_what_comes_first_and_lasts_longer() -> None:
    assert warm_up(lasting(300, 130, 100, 101, 99, 100).side) == (0, 1)
    assert warm_up(lasting(100, 101, 300, 99, 100).side) == ()
    assert warm_up(lasting(300, 100, 100).side) == ()  # three must be left


def test_one_capture_a_side_is_judged_by_its_steps() -> None:
    base, head = lasting(*[100, 101, 99, 100, 102, 98] * 2), lasting(*[110, 111, 109, 110, 112, 108] * 2)
    assert compared([base], [head]).verdict.method == "steps"  # two parts of one capture
    head = replace(head, side=replace(head.side, about=replace(head.side.about, run_id="another")))
    found = compared([base], [head])
    assert found.verdict.said == "regressed" and found.verdict.method == "captures" and found.verdict.settles
    assert found.metric == "step_ns" and moved(found.change) == {("kernel", "Work"): 10_000}
    assert compared([base], [head], drift=0.05).verdict.said == "ambiguous"
    assert compared([base], [base]).verdict.said == "ambiguous"  # a noise of 1 % says nothing about 0.5 %


@pytest.fixture(scope="module")
def one() -> Measured:
    return lasting(100)


def at_time(one: Measured, when: int, length: int) -> Measured:
    """A capture of one step, all of it one kernel, recorded at some time."""
    side = replace(one.side, windows=(replace(one.side.windows[0], dur_ns=length),), dur_ns=length)
    return replace(one, side=side, origin_ns=when, rows=one.rows[one.rows["kind"] == "kernel"].assign(ns=length))


def test_captures_recorded_in_turns_are_pairs(one: Measured) -> None:
    """ABBA four times over; the machine drifts by 10 %, the pairs do not."""
    runs: dict[str, list[Measured]] = {"A": [], "B": []}
    for place, which in enumerate("ABBA" * 4):
        length = (100_000 + place // 2 * 1_400) * (102 if which == "B" else 100)
        runs[which].append(at_time(one, 10**18 + place, length))
    found = compared(runs["A"], runs["B"])
    assert found.verdict.method == "pairs" and found.verdict.n == 8 and found.verdict.said == "regressed"
    assert found.verdict.ratio == pytest.approx(1.02, rel=1e-4) and not found.batches
    apart = compared(runs["A"][:4], runs["A"][4:])
    assert apart.verdict.method == "sets" and apart.batches
    assert compared(runs["A"][:4], runs["A"][4:], in_turns=True).verdict.method == "pairs"


@pytest.mark.shared
@pytest.mark.parametrize("parts", [
    ("Ascend+msinsight/test/data/pytorch/text/level1", "Ascend+msinsight/test/data/pytorch/db/level2"),
    ("AMD-AGI+TraceLens/tests/traces/h100/Falconsai_nsfw_image_detection__1016002.json.gz",
     "AMD-AGI+TraceLens/tests/traces/mi300/Falconsai_nsfw_image_detection__1016002.json.gz"),
])  # fmt: skip
def test_real_captures_add_up_and_agree_with_the_split(
    shared_traces: Path, store_dir: Path, parts: tuple[str, str]
) -> None:
    sides = []
    for part in parts:
        loaded = ingest.load(shared_traces / part, store_dir).runs[0]
        con = stores.open_run(store_dir, str(loaded.run_id))
        install(con)
        sides.append(measure(con))
        by_kind = sides[-1].rows.groupby("kind")["ns"].sum().to_dict()
        split = dict(sides[-1].side.parts)
        assert sides[-1].residual_ns == 0
        assert [by_kind.get(kind, 0) for kind in pieces.KINDS] == [
            split[part] for part in ("computing", "communication", "copy", "unknown", "idle")
        ]  # fmt: skip
    found = change([sides[0]], [sides[1]])
    exact(found)
    assert found.residual_ns == 0
