"""Whether an operator's result is right: beside the same call on the CPU in float64, from the very same numbers.

What cannot be compared says why: random results, memory that stays undefined, a reference that would take minutes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from npulens.collectors.backends.backend import Backend
from npulens.collectors.bench import checks
from npulens.collectors.harness.batch_curve import free_bytes
from npulens.collectors.harness.numerics import TOLERANCES, compare, tolerance
from npulens.collectors.replay.filled import Filled, Slot
from npulens.collectors.replay.instead import instead
from npulens.collectors.replay.schema import Chosen, value_of

#: What torch raises when an operator cannot do what it is asked.
FAILURES = (*checks.FAILURES, AssertionError)
#: The reference runs on the CPU: beyond so many operations it would take minutes.
MOST_FLOPS = 400 * 10**9
_UNDEFINED = (
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "resize_", "set_",
)  # fmt: skip
_RANDOM = "nondeterministic_seeded"


def first_line(error: BaseException) -> str:
    """What torch says, as a terminal can show it."""
    line = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
    return line.encode("ascii", "backslashreplace").decode()


def numerics(call: Filled, backend: Backend, modes: Mapping[str, Any], flops: Any, insist: bool) -> dict[str, Any]:
    """The result beside the same call on the CPU in float64; `ok` is None where nothing can be compared, with why."""
    reference = call.on("cpu")
    call.keep()
    output = call.call()()
    backend.synchronize()
    found = _outputs(call, output)
    why = _incomparable(call, flops, insist)
    truth: Any = None
    for wide in ("float64", "float32") if why is None else ():
        try:
            other = _wider(reference, wide)
            truth = _outputs(other, other.call()())
            why = None
            break
        except FAILURES as error:
            why = f"the CPU cannot compute it in {wide}: {first_line(error)}"
    call.restore()
    if truth is None or why is not None:
        return {"ok": None, "why": why, "outputs": len(found)}
    if other.chosen.name != call.chosen.name:
        found, truth = found[:1], truth[:1]
    return {**_compared(found, truth, call, modes), "outputs": len(found), "reference": wide}


def _wider(reference: Filled, wide: str) -> Filled:
    """The call on the CPU in the form that it has there, with the same numbers."""
    chosen = instead(reference.chosen, "cpu")
    other = reference.on("cpu", wide)
    if chosen is not reference.chosen:
        other = Filled(chosen, "cpu", _matched(reference.chosen, chosen, other.held))
    for place, argument in enumerate(chosen.arguments):
        if argument.name == "input_dtype" and isinstance(other.held[place], int):
            other.held[place] = {"float64": 7, "float32": 6}[wide]
    return other


def _matched(before: Chosen, after: Chosen, held: Sequence[Any]) -> list[Any]:
    """What an operator holds, for its other form: the same memory, seen as that form sees it."""
    known = {argument.name: one for argument, one in zip(before.arguments, held)}
    found = []
    for argument in after.arguments:
        one = known.get(after.was.get(argument.name, argument.name))
        if isinstance(one, Slot):
            found.append(Slot(one.base, tuple(argument.recorded[2]), tuple(argument.recorded[3])))
        else:
            found.append(value_of(argument))
    return found


def _incomparable(call: Filled, flops: Any, insist: bool) -> str | None:
    if _RANDOM in call.chosen.tags and not _without_dropout(call.chosen):
        return "its result is random"
    if call.chosen.name.partition("::")[2] in _UNDEFINED:
        return "it leaves its memory as it is: its result is not defined"
    if any("quint" in str(slot.base.dtype) or "qint" in str(slot.base.dtype) for slot in call.slots()):
        return "quantised tensors are not compared"
    if isinstance(flops, int) and flops > MOST_FLOPS and not insist:
        return f"the reference would take the CPU {flops / 1e12:.2f} TFLOP in float64; --reference insists"
    free = free_bytes()
    needed = sum(8 * slot.base.numel() for slot in call.slots())
    if free is not None and 2 * needed > free:
        return f"the reference in float64 needs about {2 * needed / 1e9:.1f} GB of host memory"
    return None


def _without_dropout(chosen: Chosen) -> bool:
    """Whether chance has no part in it: nothing is dropped, or nothing is trained."""
    values = {one.name: one.recorded[1] for one in chosen.arguments if one.recorded[0] == "value"}
    return values.get("dropout_p") == 0 or values.get("p") == 0 or values.get("train") is False


def _outputs(call: Filled, output: Any) -> list[Any]:
    """Every tensor that came back or was written, of an operator that changes its arguments only those."""
    written = call.written()
    if written:
        return [slot.view.detach().clone() for slot in written]
    return list(_tensors(output))


def _tensors(output: Any) -> Iterator[Any]:
    import torch

    if isinstance(output, torch.Tensor):
        yield output
    elif isinstance(output, (tuple, list)):
        for each in output:
            yield from _tensors(each)
    elif isinstance(output, (bool, int, float)):
        yield torch.tensor(output)


def _compared(found: Sequence[Any], truth: Sequence[Any], call: Filled, modes: Mapping[str, Any]) -> dict[str, Any]:
    """The worst of all outputs."""
    if len(found) != len(truth):
        return {"ok": None, "why": f"{len(found)} outputs here, {len(truth)} of the reference"}
    kinds = [str(slot.base.dtype).rpartition(".")[2] for slot in call.slots() if slot.base.is_floating_point()]
    told = [_one(mine, its, kinds, modes) for mine, its in zip(found, truth) if mine.numel()]
    wrong = next((each for each in told if each["ok"] is False), None)
    known = [each for each in told if each["ok"]]
    if wrong is not None or not known:
        return wrong or (told[0] if told else {"ok": None, "why": "it gives no values"})
    return max(known, key=lambda each: float(each["relative_error"] or 0.0))


def _one(mine: Any, its: Any, inputs: Sequence[str], modes: Mapping[str, Any]) -> dict[str, Any]:
    import torch

    if mine.is_complex() or its.is_complex():
        if not (mine.is_complex() and its.is_complex()):
            return {"ok": None, "why": "complex and real results are not compared"}
        mine, its = torch.view_as_real(mine), torch.view_as_real(its)
    if not mine.is_floating_point():
        if mine.shape != its.shape:
            return {"ok": False, "why": f"the result has the shape {list(mine.shape)} instead of {list(its.shape)}"}
        differ = int((mine.cpu().to(torch.float64) != its.cpu().to(torch.float64)).sum())
        share = differ / mine.numel()
        return {"ok": not differ, "why": f"{differ} of {mine.numel()} values differ" if differ else None,
                "relative_error": share, "tolerance": 0.0}  # fmt: skip
    kinds = [*inputs, str(mine.dtype).rpartition(".")[2]]
    if not all(kind in TOLERANCES for kind in kinds):
        return {"ok": None, "why": "no tolerance is known of its types"}
    coarsest = max(kinds, key=lambda kind: TOLERANCES[kind])
    return compare(mine, its, coarsest, tolerance(coarsest, modes)).as_dict()
