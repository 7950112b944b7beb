"""What the models of operators are worth: beside TraceLens, beside torch's counter, and on real captures.

    python -m tests.work [--tables DIR] [--captures DIR] [--no-models]

Tables are those of TraceLens (GEMM.csv, unified_perf_summary.csv) anywhere below a directory; a checkout of its
repository has them beside its traces. Models need torchvision, timm and transformers.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import SHARED
from tests.work import coverage, tracelens, zoo
from tests.work.explained import explained

#: Where TraceLens means something else, and which rows are told apart by that: by category and what differs.
MEANT = {
    ("CONV_fwd", "bytes"): "a bias is read: TraceLens leaves it out",
    ("CONV_bwd", "bytes"): "dy is read once: TraceLens reads it for each gradient",
    ("CONV_bwd", "flops"): "the input of the first layer needs no gradient (output_mask): TraceLens counts it",
    ("SDPA_fwd", "flops"): "causal: pairs below the diagonal with it; TraceLens takes half of all",
    ("SDPA_fwd", "bytes"): "the mask is read: TraceLens leaves it out",
    ("elementwise", "flops"): "copies and pads compute nothing: TraceLens counts one operation a value",
    ("elementwise", "bytes"): "numbers without sides do not widen the result; no second input where none is",
    ("reduce", "bytes"): "the result has the sides that are left; TraceLens writes one value; min of two tensors",
    ("NORM_fwd", "flops"): "statistics by row, group or instance: TraceLens takes channels",
    ("NORM_fwd", "bytes"): "statistics by row, group or instance: TraceLens takes channels; weights that are None",
    ("NORM_bwd", "flops"): "miopen: TraceLens counts the forward pass",
    ("NORM_bwd", "bytes"): "weights and statistics that are read, gradients that are written",
    ("InferenceAttention", "unknown"): "lengths lie in data: TraceLens takes them from annotations of its own",
    ("MoE_unfused", "unknown"): "operators that TraceLens makes up of several",
    ("triton", "flops"): "what a fused kernel computes: TraceLens reads it from its name",
    ("triton", "bytes"): "every tensor once: TraceLens follows what the name says",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, action="append", help="a directory with tables of TraceLens")
    parser.add_argument("--captures", type=Path, action="append", help="a directory of captures")
    parser.add_argument("--no-models", action="store_true", help="leave out the comparison with torch's counter")
    args = parser.parse_args()
    for place in (*(args.tables or ()), *(args.captures or ())):
        if not place.is_dir():
            parser.error(f"{place} is no directory")
    shared = [place for place in (SHARED, SHARED.with_name("traces_2")) if place.is_dir()]
    for line in beside_tracelens(args.tables or shared):
        print(line)
    for line in () if args.no_models else beside_torch():
        print(line, flush=True)
    for line in on_captures(args.captures or shared):
        print(line, flush=True)


def beside_tracelens(places: Iterable[Path]) -> Iterable[str]:
    """Rows equal by category, and every difference with what it comes from."""
    equal, total, operations, moved, told = (Counter[str]() for _ in range(5))
    different: dict[tuple[str, str], list[tracelens.Row]] = defaultdict(list)
    for place in places:
        for row in (row for path in tracelens.tables(place) for row in tracelens.rows(path)):
            total[row.category] += 1
            known = row.ours.reason is None
            operations[row.category] += known and row.flops_equal
            moved[row.category] += known and row.bytes_equal
            if known and row.flops_equal and row.bytes_equal:
                equal[row.category] += 1
                continue
            told[row.category] += explained(row)
            if not known:
                different[row.category, "unknown"].append(row)
            else:
                for what, same in (("flops", row.flops_equal), ("bytes", row.bytes_equal)):
                    if not same:
                        different[row.category, what].append(row)
    yield (f"TraceLens: {sum(equal.values())} of {sum(total.values())} rows have the same operations and bytes; "
           f"{sum(told.values())} come to TraceLens' figures when they are counted in its way")  # fmt: skip
    yield f"  {'category':20} {'rows':>5} {'equal':>5} {'its way':>7} {'operations':>10} {'bytes':>5}"
    for one in sorted(total):
        yield f"  {one:20} {total[one]:5} {equal[one]:5} {told[one]:7} {operations[one]:10} {moved[one]:5}"
    for (category, what), rows in sorted(different.items()):
        yield f"  differ in {what}: {category}, {len(rows)} rows: {MEANT.get((category, what), 'not explained')}"
        first = rows[0]
        yield (f"    e.g. {first.name} {first.shapes[:60]}: {first.flops}, {first.bytes} against "
               f"{first.ours.flops}, {first.ours.bytes} {first.ours.reason or ''}")  # fmt: skip


def beside_torch() -> Iterable[str]:
    """Operations of every model by both."""
    yield "torch.utils.flop_counter: model, step, torch, npulens (innermost operators, outermost ones), equal"
    for one, with_backward, found in zoo.measured():
        step = "forward and backward" if with_backward else "forward"
        if isinstance(found, str):
            yield f"  {one.name:24} left out: {found}"
            continue
        told = "yes" if found.equal else "but for groups, which torch forgets" if found.explained else "no"
        yield f"  {one.name:24} {step:22} {found.torch:>16} {found.innermost:>16} {found.outermost:>16} {told}"


def on_captures(places: Iterable[Path]) -> Iterable[str]:
    """Device time whose work is known."""
    yield "captures: device time, share with shapes, share modelled, share modelled of that with shapes, above 1"
    measured, unmeasured, rest = 0, 0, 0
    for one in coverage.captured(tuple(places)):
        residuals = [row.residual_ns for row in one.falls.rows]
        measured, unmeasured = measured + len(residuals), unmeasured + residuals.count(None)
        rest += sum(residual not in (0, None) for residual in residuals)
        modelled = one.found.modelled_share or 0.0
        of_shaped = modelled / one.shapes_share if one.shapes_share > 0 else 0.0
        yield (f"  {one.capture[:40]:40} {one.run_id[:8]} {one.device[:28]:28} {one.found.kernel_ns / 1e6:10.2f} ms "
               f"{one.shapes_share:7.1%} {modelled:7.1%} {of_shaped:7.1%} {one.above:4}")  # fmt: skip
        if one.counted:
            yield (f"    counted by the hardware over modelled: {len(one.counted)} operators, "
                   f"{one.counted[0]:.3f} to {one.counted[-1]:.3f}")  # fmt: skip
    yield f"waterfall: {measured} windows, {unmeasured} of them not measured, a residual in {rest}"


if __name__ == "__main__":
    main()
