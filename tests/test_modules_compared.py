"""Two runs module by module: renamed, wrapped, added and removed modules, and differences that sum exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

from click.testing import CliRunner

from npulens.analysis.modules.compared import Change, Compared, compared
from npulens.analysis.modules.measure import NAMES, ZERO, Figures, Module, Modules
from npulens.app.cli import main
from tests.real_captures import loaded

SAMPLES = Path(__file__).resolve().parent.parent / "sample_traces"

#: A module as (class, name, ns of its own, operations of its own, what it calls).
Tree = tuple[str, str, int, int, Sequence["Tree"]]


def run(trees: Sequence[Tree], steps: int = 1, ranks: tuple[int, ...] = (0,), outside: int = 0) -> Modules:
    """A run with these modules."""
    rows: list[Module] = []

    def grow(tree: Tree, parent: int, depth: int, above: str) -> Figures:
        kind, name, ns, flops, below = tree
        at, path = len(rows), f"{above}.{name}" if above else name
        own = replace(ZERO, device_ns=ns, flops=flops)
        rows.append(Module(at, parent, depth, "module", kind, name, path, 1, 0, own, own))
        total = own
        for each in below:
            inside = grow(each, at, depth + 1, "" if depth == 0 else path)
            total = Figures(*(getattr(total, field) + getattr(inside, field) for field in NAMES))
        rows[at] = replace(rows[at], total=total)
        return total

    for tree in trees:
        grow(tree, -1, 0, "")
    if outside:
        own = replace(ZERO, device_ns=outside)
        rows.append(Module(len(rows), -1, 0, "outside", "", "outside", "outside", 0, 0, own, own))
    whole = Figures(*(sum(getattr(row.own, field) for row in rows) for field in NAMES))
    return Modules(tuple(rows), "hooks", steps, ranks, False, whole, None)


def block(name: str, ns: int, kind: str = "Block", inner: Sequence[str] = ("norm", "mlp")) -> Tree:
    return kind, name, 1, 0, [("LayerNorm", inner[0], ns, 10, ()), ("Mlp", inner[1], 2 * ns, 40, ())]


def net(*below: Tree, kind: str = "Net") -> Tree:
    return kind, kind, 5, 0, below


def pairs(found: Compared) -> list[tuple[str, str, str]]:
    """How, and the paths on both sides."""
    return [(row.how, row.base.path if row.base else "", row.head.path if row.head else "") for row in found.rows]


def one(found: Compared, head: str) -> Change:
    (only,) = [row for row in found.rows if row.head is not None and row.head.path == head]
    return only


def exact(found: Compared) -> bool:
    """Own changes sum to the change, and every total is its own with what is below."""
    for row in found.rows:
        below = [each for each in found.rows if each.parent == row.id]
        if row.change_ns != row.own_change_ns + sum((each.change_ns for each in below), Fraction(0)):
            return False
    return sum((row.own_change_ns for row in found.rows), Fraction(0)) == found.head_ns - found.base_ns


def test_the_same_model_twice() -> None:
    base = run([net(block("layers.0", 10), block("layers.1", 10))], outside=3)
    head = run([net(block("layers.0", 10), block("layers.1", 25))], outside=4)
    found = compared(base, head)
    assert {how for how, *_ in pairs(found)} == {"same"} and exact(found)
    assert one(found, "layers.1").change_ns == 45 and one(found, "layers.1").own_change_ns == 0
    assert one(found, "layers.1.mlp").own_change_ns == 30 and one(found, "outside").own_change_ns == 1
    assert found.head_ns - found.base_ns == 46


def test_renamed_modules_and_classes_are_matched_by_what_they_call() -> None:
    base = run([net(block("layers.0", 10), block("layers.1", 20))])
    head = run([net(block("blocks.0", 10, "Layer", ("ln", "ffn")), block("blocks.1", 21, "Layer", ("ln", "ffn")))])
    found = compared(base, head)
    assert pairs(found) == [
        ("same", "Net", "Net"),
        ("renamed", "layers.0", "blocks.0"), ("renamed", "layers.0.norm", "blocks.0.ln"),
        ("renamed", "layers.0.mlp", "blocks.0.ffn"),
        ("renamed", "layers.1", "blocks.1"), ("renamed", "layers.1.norm", "blocks.1.ln"),
        ("renamed", "layers.1.mlp", "blocks.1.ffn"),
    ]  # fmt: skip
    assert one(found, "blocks.1").change_ns == 3 and exact(found)


def test_a_class_that_was_replaced_keeps_its_name() -> None:
    base = run([net(("LayerNorm", "norm", 9, 0, ()), ("Mlp", "mlp", 50, 8, ()))])
    head = run([net(("RMSNorm", "norm", 4, 0, ()), ("FusedMlp", "mlp", 30, 8, ()))])
    assert pairs(compared(base, head))[1:] == [("renamed", "norm", "norm"), ("renamed", "mlp", "mlp")]


def test_a_module_put_in_between_moves_no_others() -> None:
    """In a Sequential the numbers after it are others; classes and what they call tell."""
    base = run([net(("Linear", "0", 10, 100, ()), ("ReLU", "1", 2, 1, ()), ("Linear", "2", 20, 300, ()))])
    head = run([net(
        ("Linear", "0", 10, 100, ()), ("Dropout", "1", 1, 2, ()), ("ReLU", "2", 2, 1, ()), ("Linear", "3", 20, 300, ())
    )])  # fmt: skip
    found = compared(base, head)
    assert pairs(found)[1:] == [("same", "0", "0"), ("added", "", "1"), ("renamed", "1", "2"), ("renamed", "2", "3")]
    assert one(found, "1").own_change_ns == found.head_ns - found.base_ns == 1 and exact(found)


def test_wrappers_are_stepped_over_both_ways() -> None:
    inner = net(block("layers.0", 10))
    base = run([inner])
    head = run([("DDP", "DDP", 7, 0, [("OptimizedModule", "module", 2, 0, [net(block("layers.0", 12))])])])
    found = compared(base, head)
    assert [how for how, *_ in pairs(found)] == ["added", "added", "same", "same", "same", "same"] and exact(found)
    assert found.rows[0].base_ns == found.base_ns and found.rows[0].change_ns == 15
    back = compared(head, base)
    assert [how for how, *_ in pairs(back)] == ["removed", "removed", "same", "same", "same", "same"] and exact(back)
    assert back.rows[0].change_ns == -15


def test_names_of_wrappers_do_not_count() -> None:
    base = run([net(("Block", "layers.0", 5, 0, ()))])
    head = run([net(("Block", "_fsdp_wrapped_module.layers.0", 5, 0, ()))])
    assert pairs(compared(base, head))[1] == ("same", "layers.0", "_fsdp_wrapped_module.layers.0")


def test_the_same_work_is_the_last_that_tells() -> None:
    base = run([net(("Attention", "attn", 10, 777, ()), ("Old", "a", 1, 5, ()))])
    head = run([net(("FlashAttention", "fast", 4, 777, ()), ("New", "b", 1, 6, ()))])
    assert pairs(compared(base, head))[1:] == [
        ("renamed", "attn", "fast"), ("added", "", "b"), ("removed", "a", ""),
    ]  # fmt: skip


def test_runs_of_other_lengths_are_compared_by_step_and_rank() -> None:
    """Three steps of two ranks beside one of one: thirds and halves are kept."""
    base = run([net(("Linear", "up", 10, 1, ()))], steps=3, ranks=(0, 1), outside=1)
    head = run([net(("Linear", "up", 2, 1, ()))])
    found = compared(base, head)
    assert one(found, "up").own_change_ns == 2 - Fraction(10, 6)
    assert found.head_ns - found.base_ns == 7 - Fraction(16, 6) and exact(found)


def test_a_captured_run_beside_another_one() -> None:
    """Two samples of the same model by two profilers."""
    (base_store, base), (head_store, head) = (loaded(SAMPLES / name) for name in ("torch_npu_text", "kineto"))
    runs = [stores_modules(store, str(report.runs[0].run_id)) for store, report in
            ((base_store, base), (head_store, head))]  # fmt: skip
    found = compared(*runs)
    assert exact(found)
    used = [[getattr(row, side).id for row in found.rows if getattr(row, side)] for side in ("base", "head")]
    assert [sorted(each) for each in used] == [list(range(len(each.rows))) for each in runs]  # each row once


def stores_modules(store: Path, run_id: str) -> Modules:
    from npulens.analysis.modules.measure import modules
    from npulens.ingest.store import runs as stores

    con = stores.open_run(store, run_id)
    try:
        return modules(con)
    finally:
        con.close()


def test_ten_thousand_modules_that_nothing_matches() -> None:
    base = run([net(*((f"A{n}", f"a{n}", 1, n + 1, ()) for n in range(5000)))])
    head = run([net(*((f"B{n}", f"b{n}", 1, -n - 1, ()) for n in range(5000)))])
    assert len(compared(base, head).rows) == 10_001


def test_a_run_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["modules", "nothing", "--store", str(tmp_path)])
    assert done.exit_code == 2 and len(done.output.strip().splitlines()) == 1
