"""Which overload of an operator was called, and by which names its arguments go.

A profiler writes the operator's name, shapes and values by place. Torch's own schemas say what each place is called and
which overload fits. An operator that torch does not have belongs to a library, which is imported if it is there.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: One recorded argument: ("tensor", dtype, shape, strides), ("tensors", [(dtype, shape, strides), ...]), ("value", v)
#: or ("nothing",).
Recorded = Sequence[Any]

_NAME = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*", re.ASCII)
#: What a string may be that is handed on: modes as "none", "trunc", "same".
_MODE = re.compile(r"[a-z_]{1,24}", re.ASCII)
#: Namespace -> what registers its operators.
LIBRARIES = {
    "npu": "torch_npu", "torchvision": "torchvision", "torchaudio": "torchaudio", "vllm": "vllm", "_C": "vllm._C",
    "_C_cache_ops": "vllm._C", "_moe_C": "vllm._moe_C", "_vllm_fa2_C": "vllm.vllm_flash_attn",
    "_vllm_fa3_C": "vllm.vllm_flash_attn", "aiter": "aiter", "fbgemm": "fbgemm_gpu", "sgl_kernel": "sgl_kernel",
    "xformers": "xformers.ops", "flash_attn": "flash_attn", "torchao": "torchao",
}  # fmt: skip
#: They need other processes, files or a profiler, or are no work.
_NEVER = ("c10d", "_c10d_functional", "symm_mem", "prim", "profiler", "inductor", "higher_order", "onnx", "debugprims")
_NOT_ALONE = ("aten::from_file", "aten::record_stream", "aten::set_data", "aten::_pin_memory")
#: Where several overloads fit: how much less each makes one likely.
_NOT_RECORDED, _OTHER_LENGTH, _LOOSE = 100, 10, 1


class CannotReplay(Exception):
    """Why an operator cannot be called again, in one sentence."""


@dataclass(frozen=True)
class Argument:
    """One argument by its name in the schema, and what was recorded of it."""

    name: str
    type: str  # as TorchScript spells it: Optional[Tensor]
    recorded: Recorded
    by_keyword: bool
    written: bool  # the operator changes it


@dataclass(frozen=True)
class Chosen:
    """The overload, and its arguments in order; `defaults` are those that came after the capture's torch."""

    operator: Any  # torch.ops.aten.addmm.default
    name: str
    overload: str
    arguments: tuple[Argument, ...]
    defaults: tuple[str, ...]
    was: Mapping[str, str] = field(default_factory=dict)  # of another form: what the operator calls an argument

    @property
    def tags(self) -> tuple[str, ...]:
        return tuple(str(tag).rpartition(".")[2] for tag in getattr(self.operator, "tags", ()))


def choose(name: str, inputs: Sequence[Recorded]) -> Chosen:
    """The overload that fits best."""
    schemas = _schemas(name)
    fitting: list[tuple[int, int, Any, list[Argument]]] = []
    for schema in schemas:
        found = _fit(schema, inputs)
        if found is not None:
            fitting.append((found[0], len(fitting), schema, found[1]))
    if not fitting:
        raise CannotReplay(f"no overload of {name} takes what was recorded: {_spoken(inputs)}")
    penalty, _, schema, arguments = min(fitting, key=lambda one: one[:2])
    if penalty >= _NOT_RECORDED:
        lost = [one.name for one in arguments if one.recorded[0] == "nothing"]
        raise CannotReplay(f"{', '.join(lost)} of {name} was not recorded (torch writes plain values from 2.1 on)")
    defaults = tuple(one.name for one in schema.arguments[len(inputs) :])
    return Chosen(_operator(name, schema), name, schema.overload_name, tuple(arguments), defaults)


def _schemas(name: str) -> list[Any]:
    if not _NAME.fullmatch(name):
        raise CannotReplay(f"{ascii(name)[:80]} is no operator of torch")
    space = name.partition("::")[0]
    if space in _NEVER or name in _NOT_ALONE:
        raise CannotReplay(f"{name} does not run alone: it needs other processes or the state of its job")
    import torch

    if space in LIBRARIES and not torch._C._jit_get_schemas_for_operator(name):
        try:
            importlib.import_module(LIBRARIES[space])
        except (ImportError, OSError, RuntimeError) as error:
            why = str(error).partition("\n")[0]
            raise CannotReplay(f"{name} is an operator of {LIBRARIES[space]}, which is not here: {why}") from error
    found = [one for one in torch._C._jit_get_schemas_for_operator(name) if _operator(name, one) is not None]
    if not found:
        raise CannotReplay(f"torch {torch.__version__} has no operator {name}")
    return found


def _operator(name: str, schema: Any) -> Any:
    """The overload as it is called; None for those that only TorchScript has."""
    import torch

    space, _, short = name.partition("::")
    full = f"{name}.{schema.overload_name}" if schema.overload_name else name
    if not torch._C._dispatch_has_kernel(full):
        return None
    return getattr(getattr(getattr(torch.ops, space), short), schema.overload_name or "default")


def _fit(schema: Any, inputs: Sequence[Recorded]) -> tuple[int, list[Argument]] | None:
    """How badly a schema fits, and its arguments; None where it does not."""
    known = schema.arguments
    given = list(inputs)
    while len(given) > len(known) and given[-1][0] == "nothing":
        given.pop()  # a newer torch had more arguments, which were left out
    if len(given) > len(known) or any(not one.has_default_value() for one in known[len(given) :]):
        return None
    penalty = 0 if len(given) == len(known) == len(inputs) else _OTHER_LENGTH
    arguments = []
    for one, recorded in zip(known, given):
        cost = _cost(str(one.type), recorded, one.has_default_value())
        if cost is None:
            return None
        penalty += cost
        if recorded[0] != "nothing" or not one.has_default_value():
            written = one.alias_info is not None and one.alias_info.is_write
            arguments.append(Argument(one.name, str(one.type), recorded, bool(one.kwarg_only), written))
    return penalty, arguments


def _cost(kind: str, recorded: Recorded, has_default: bool) -> int | None:
    optional = kind.startswith("Optional[")
    inner = kind[9:-1] if optional else kind
    if recorded[0] == "nothing":
        if has_default or optional or inner == "Generator":
            return 0
        return _NOT_RECORDED if inner != "Tensor" and not inner.startswith("List[Tensor") else None
    if recorded[0] == "tensor":
        return 0 if inner in ("Tensor", "Any") else None
    if recorded[0] == "tensors":
        return 0 if inner in ("List[Tensor]", "List[Optional[Tensor]]") else None
    return _cost_of_value(inner, recorded[1])


def _cost_of_value(kind: str, value: Any) -> int | None:
    if isinstance(value, str):
        if value in ("inf", "-inf", "nan"):
            return 0 if kind in ("float", "number") else None
        return 0 if kind == "str" and _MODE.fullmatch(value) else None
    if isinstance(value, (list, tuple)):
        if kind not in ("List[int]", "List[float]", "List[bool]", "List[number]", "List[SymInt]"):
            return None
        costs = [_cost_of_value(kind[5:-1], one) for one in value]
        return None if None in costs else max([0, *(cost or 0 for cost in costs)])
    if isinstance(value, bool):
        return {"bool": 0, "number": _LOOSE}.get(kind)
    if isinstance(value, int):
        return {"int": 0, "SymInt": 0, "number": 0, "float": _LOOSE, "bool": 2 * _LOOSE, "List[int]": _LOOSE}.get(kind)
    return 0 if kind in ("float", "number") else None


def value_of(argument: Argument) -> Any:
    """A plain value as the operator takes it."""
    value = argument.recorded[1] if argument.recorded[0] == "value" else None
    inner = argument.type[9:-1] if argument.type.startswith("Optional[") else argument.type
    if isinstance(value, str):
        return float(value) if value in ("inf", "-inf", "nan") else value
    if inner in ("float", "List[float]"):
        return [float(one) for one in value] if isinstance(value, (list, tuple)) else _float(value)
    if inner == "bool" and isinstance(value, int):
        return bool(value)
    if inner == "List[int]" and isinstance(value, int):
        return [value]
    return list(value) if isinstance(value, tuple) else value


def _float(value: Any) -> Any:
    return float(value) if isinstance(value, (int, float)) else value


def _spoken(inputs: Sequence[Recorded]) -> str:
    told = []
    for one in inputs:
        if one[0] == "tensor":
            told.append(f"{one[1]}{list(one[2])}")
        elif one[0] == "tensors":
            told.append(f"{len(one[1])} tensors")
        else:
            told.append("-" if one[0] == "nothing" else ascii(one[1])[:40])
    return ", ".join(told)[:300] or "nothing"
