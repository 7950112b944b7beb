"""Tensors as they were recorded, filled with numbers that the operator can take.

A capture holds shapes, not data. Floats are drawn from a normal distribution, or kept positive where a root, a
logarithm or a division waits for them. Whole numbers that are places lie in range of what they point into; others are
small and never 0. The same seed gives every device the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from npulens.collectors.replay.schema import Argument, CannotReplay, Chosen, value_of

#: Arguments that stay positive, wherever they occur: variances, their roots, running squares, temperatures.
_POSITIVE = (
    "running_var", "save_invstd", "save_var", "invstd", "rstd", "rsigma", "var", "std", "exp_avg_sq", "exp_avg_sqs",
    "max_exp_avg_sqs", "state_sum", "state_sums", "denom", "scale", "scale_a", "scale_b", "divisor", "tensor2",
)  # fmt: skip
#: Operators whose every float input stays positive, or within 0 and 1, or within -1 and 1.
_ROOTS = ("sqrt", "rsqrt", "log", "log2", "log10", "log1p", "pow", "float_power", "reciprocal", "lgamma", "digamma")
_SHARES = ("bernoulli", "multinomial", "binary_cross_entropy", "binary_cross_entropy_backward", "logit", "erfinv")
_INNER = ("acos", "asin", "atanh")
_DIVISORS = ("div", "true_divide", "floor_divide", "remainder", "fmod", "divide")
#: By operator and argument, what whole numbers point into: a side of another argument ("dim": the one that the
#: argument `dim` names), all of its values, or as many places as a value says.
_PLACES = {
    ("embedding", "indices"): ("weight", 0), ("embedding_renorm", "indices"): ("self", 0),
    ("embedding_dense_backward", "indices"): ("num_weights", "value"),
    ("embedding_backward", "indices"): ("num_weights", "value"),
    ("_embedding_bag", "indices"): ("weight", 0), ("_embedding_bag_forward_only", "indices"): ("weight", 0),
    ("embedding_bag", "indices"): ("weight", 0),
    ("index_select", "index"): ("self", "dim"), ("index_add", "index"): ("self", "dim"),
    ("index_copy", "index"): ("self", "dim"), ("index_fill", "index"): ("self", "dim"),
    ("index_reduce", "index"): ("self", "dim"),
    ("gather", "index"): ("self", "dim"), ("gather_backward", "index"): ("self", "dim"),
    ("scatter", "index"): ("self", "dim"), ("scatter_add", "index"): ("self", "dim"),
    ("scatter_reduce", "index"): ("self", "dim"), ("take_along_dim", "indices"): ("self", "dim"),
    ("take", "index"): ("self", "all"), ("put", "index"): ("self", "all"),
    ("nll_loss", "target"): ("self", 1), ("nll_loss_forward", "target"): ("self", 1),
    ("nll_loss_backward", "target"): ("self", 1), ("nll_loss_nd", "target"): ("self", 1),
    ("nll_loss2d", "target"): ("self", 1), ("nll_loss2d_forward", "target"): ("self", 1),
    ("nll_loss2d_backward", "target"): ("self", 1), ("cross_entropy_loss", "target"): ("self", 1),
    ("multi_margin_loss", "target"): ("self", 1), ("one_hot", "self"): ("num_classes", "value"),
    ("max_pool2d_with_indices_backward", "indices"): ("self", "plane"),
    ("max_unpool2d", "indices"): ("output_size", "product"), ("bincount", "self"): ("minlength", "value"),
}  # fmt: skip
#: Arguments that are offsets into a list of values: they rise from 0.
_OFFSETS = ("offsets", "cu_seqlens_q", "cu_seqlens_k", "cum_seq_q", "cum_seq_k", "crow_indices")
_SMALL = 8  # whole numbers that nobody says anything of lie between 1 and this
FLOATS = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
)  # fmt: skip
_COMPLEX = {"complex32": "complex64", "complex64": "complex64", "complex128": "complex128"}


@dataclass
class Slot:
    """One tensor: its memory, and how it lies there. `kept` is what an operator that writes destroys."""

    base: Any
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kept: Any = None

    @property
    def view(self) -> Any:
        return self.base.as_strided(self.shape, self.strides)

    def on(self, device: str) -> Slot:
        """A copy of it on a device."""
        return Slot(self.base.to(device, copy=True), self.shape, self.strides)

    def restore(self) -> None:
        """What it held at first."""
        if self.kept is not None:
            self.base.copy_(self.kept)


@dataclass
class Filled:
    """Every argument of a call: a slot, several, or a plain value."""

    chosen: Chosen
    device: str
    held: list[Any] = field(default_factory=list)

    def slots(self) -> list[Slot]:
        return [slot for one in self.held for slot in (one if isinstance(one, list) else [one]) if _is_slot(slot)]

    def written(self) -> list[Slot]:
        """Those that the operator changes."""
        return [
            slot for argument, one in zip(self.chosen.arguments, self.held) if argument.written
            for slot in (one if isinstance(one, list) else [one]) if _is_slot(slot)
        ]  # fmt: skip

    def keep(self) -> None:
        """Remembers what an operator that writes would destroy."""
        for slot in self.written():
            slot.kept = slot.base.clone()

    def restore(self) -> None:
        for slot in self.written():
            slot.restore()

    def call(self) -> Any:
        """The operator, ready to be called again and again."""
        places, names = self._arguments()
        operator = self.chosen.operator
        return lambda: operator(*places, **names)

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        places: list[Any] = []
        names: dict[str, Any] = {}
        for argument, one in zip(self.chosen.arguments, self.held):
            given = [_seen(each) for each in one] if isinstance(one, list) else _seen(one)
            if argument.by_keyword or names or len(places) != _place(self.chosen, argument):
                names[argument.name] = given
            else:
                places.append(given)
        return places, names

    def on(self, device: str, wide: str | None = None) -> Filled:
        """The same numbers on another device; floats as `wide` where that is given."""
        held = []
        for one in self.held:
            if isinstance(one, list):
                held.append([_moved(each, device, wide) for each in one])
            else:
                held.append(_moved(one, device, wide))
        return Filled(self.chosen, device, held)


def _is_slot(one: Any) -> bool:
    return isinstance(one, Slot)


def _seen(one: Any) -> Any:
    return one.view if isinstance(one, Slot) else one


def _place(chosen: Chosen, argument: Argument) -> int:
    return [one.name for one in chosen.operator._schema.arguments].index(argument.name)


def _moved(one: Any, device: str, wide: str | None) -> Any:
    import torch

    if not isinstance(one, Slot):
        return torch.device(device) if isinstance(one, torch.device) else one
    base = one.base
    if wide is not None and base.is_complex():
        base = base.to(torch.complex128 if wide == "float64" else torch.complex64)
    elif wide is not None and base.is_floating_point():
        base = base.to(getattr(torch, wide))
    return Slot(base.to(device, copy=True), one.shape, one.strides)


def sizes(inputs: Sequence[Sequence[Any]]) -> int:
    """Bytes of all recorded tensors, as they lie in memory."""
    total = 0
    for one in inputs:
        for kind, shape, strides in [one[1:]] if one[0] == "tensor" else one[1] if one[0] == "tensors" else ():
            total += _length(shape, strides) * _width(kind)
    return total


def result_bytes(chosen: Chosen) -> int:
    """Bytes of what the operator gives, as far as torch tells it without computing; 0 where it does not."""
    import torch

    found = Filled(chosen, "meta")
    for argument in chosen.arguments:
        if argument.recorded[0] == "tensor":
            found.held.append(_unfilled(argument.recorded[1:]))
        elif argument.recorded[0] == "tensors":
            found.held.append([_unfilled(one) for one in argument.recorded[1]])
        else:
            found.held.append(value_of(argument))
    if not found.slots() and any(one.name == "device" for one in chosen.operator._schema.arguments):
        found = _placed(found, "meta")
    try:
        output = found.call()()
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError, AssertionError):
        return 0
    flat = output if isinstance(output, (tuple, list)) else [output]
    return sum(one.numel() * one.element_size() for one in flat if isinstance(one, torch.Tensor))


def _unfilled(recorded: Sequence[Any]) -> Slot:
    import torch

    kind, shape, strides = recorded
    dtype = getattr(torch, kind, torch.float32)
    return Slot(torch.empty(_length(shape, strides), dtype=dtype, device="meta"), tuple(shape), tuple(strides))


def filled(chosen: Chosen, seed: int, device: str = "cpu") -> Filled:
    """Every argument of the call, drawn on the CPU and brought to the device."""
    import torch

    drawn = torch.Generator().manual_seed(seed)
    found = Filled(chosen, device)
    alone = not any(one.recorded[0] in ("tensor", "tensors") for one in chosen.arguments)
    for argument in chosen.arguments:
        kind, recorded = argument.recorded[0], argument.recorded
        if kind == "tensor":
            found.held.append(_slot(chosen, argument, recorded[1:], drawn).on(_home(argument, recorded, device)))
        elif kind == "tensors":
            found.held.append([_slot(chosen, argument, one, drawn).on(device) for one in recorded[1]])
        elif "Device" in argument.type and alone:
            found.held.append(torch.device(device))
        elif argument.name == "pin_memory":
            found.held.append(None)
        else:
            found.held.append(value_of(argument))
    known = {one.name for one in chosen.arguments}
    if alone and "device" not in known and any(one.name == "device" for one in chosen.operator._schema.arguments):
        found = _placed(found, device)
    return found


def _placed(found: Filled, device: str) -> Filled:
    """An operator that makes tensors of nothing makes them on the device."""
    import torch

    place = Argument("device", "Optional[Device]", ("nothing",), True, False)
    chosen = replace(found.chosen, arguments=(*found.chosen.arguments, place))
    return Filled(chosen, device, [*found.held, torch.device(device)])


def _home(argument: Argument, recorded: Sequence[Any], device: str) -> str:
    """A plain number beside a tensor is a tensor without sides on the CPU, whatever the device."""
    number = not recorded[2] and recorded[1] in ("float64", "int64") and argument.name in ("other", "value", "exponent")
    return "cpu" if number else device


def _slot(chosen: Chosen, argument: Argument, recorded: Sequence[Any], drawn: Any) -> Slot:
    kind, shape, strides = recorded
    base = _numbers(chosen, argument, kind, _length(shape, strides), drawn)
    return Slot(base, tuple(shape), tuple(strides))


def _length(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Values from the first to the last in memory."""
    return 1 + sum((side - 1) * step for side, step in zip(shape, strides)) if prod(shape) else 0


def _width(kind: str) -> int:
    """Bytes of one value."""
    digits = "".join(one for one in kind.partition("_")[0] if one.isdigit())
    return 1 if kind == "bool" or not digits else max(1, int(digits) // 8)


def _numbers(chosen: Chosen, argument: Argument, kind: str, length: int, drawn: Any) -> Any:
    import torch

    dtype = getattr(torch, kind, None)
    if dtype is None:
        raise CannotReplay(f"torch {torch.__version__} has no type {ascii(kind)[:40]}")
    if kind in FLOATS:
        wide = torch.float64 if kind == "float64" else torch.float32
        return _floats(_short(chosen), argument, length, drawn, wide).to(dtype)
    if kind in _COMPLEX:
        return torch.randn(length, generator=drawn, dtype=getattr(torch, _COMPLEX[kind])).to(dtype)
    if kind == "bool":
        made = torch.rand(length, generator=drawn) < 0.5
        made[:1] = True
        return torch.ones_like(made) if "mask" in argument.name and "attention" in chosen.name else made
    return _whole(chosen, argument, length, drawn).to(dtype)


def _short(chosen: Chosen) -> str:
    """The operator's name without its namespace, and without the mark of one that writes in place."""
    name = chosen.name.partition("::")[2].replace("_foreach_", "")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def _floats(name: str, argument: Argument, length: int, drawn: Any, dtype: Any) -> Any:
    import torch

    if name in _SHARES:
        return torch.rand(length, generator=drawn, dtype=dtype) * 0.98 + 0.01
    if name in _INNER:
        return torch.rand(length, generator=drawn, dtype=dtype) * 1.8 - 0.9
    made = torch.randn(length, generator=drawn, dtype=dtype)
    divides = name in _DIVISORS and argument.name in ("other", "scalars")
    if argument.name in _POSITIVE or name in _ROOTS or divides or argument.name.endswith(("_invstd", "_rstd")):
        return made.abs_().add_(0.5)
    return made


def _whole(chosen: Chosen, argument: Argument, length: int, drawn: Any) -> Any:
    import torch

    name, space = _short(chosen), chosen.name.partition("::")[0]
    if argument.name in _OFFSETS:
        return _rising(chosen, argument, length)
    known = _PLACES.get((name, argument.name))
    if known is not None:
        bound = _bound(chosen, argument, *known)
    elif argument.name == "indices" and name in ("index", "index_put", "_index_put_impl", "_unsafe_index",
                                                 "_unsafe_index_put", "index_put_impl"):  # fmt: skip
        bound = min(_sides(chosen, "self"), default=1)
    elif space not in ("aten", "prims") or any(word in argument.name for word in ("ind", "seed", "offset", "seq")):
        bound = 1  # nobody says what they point into: 0 always exists
    else:
        return torch.randint(1, _SMALL + 1, (length,), generator=drawn)
    return torch.randint(0, max(1, bound), (length,), generator=drawn)


def _rising(chosen: Chosen, argument: Argument, length: int) -> Any:
    """From 0 to as many values as the list has, in equal steps."""
    import torch

    wanted = ("indices", "key" if argument.name.endswith("k") else "query")
    lists = [one.recorded[2] for one in chosen.arguments if one.recorded[0] == "tensor" and one.name in wanted]
    last = int(lists[0][0]) if lists and lists[0] else 0
    return torch.linspace(0, last, length).long()


def _sides(chosen: Chosen, name: str) -> tuple[int, ...]:
    for one in chosen.arguments:
        if one.name == name and one.recorded[0] == "tensor":
            return tuple(one.recorded[2])
    return ()


def _bound(chosen: Chosen, argument: Argument, name: str, which: Any) -> int:
    """How many places there are in what an argument points into."""
    values = {one.name: one.recorded[1] for one in chosen.arguments if one.recorded[0] == "value"}
    if which == "value":
        return int(values.get(name, 1))
    if which == "product":
        return prod(values.get(name, [1]))
    sides = _sides(chosen, name)
    if which == "all":
        return prod(sides)
    if which == "plane":
        return prod(sides[-2:])
    place = values.get("dim", 0) if which == "dim" else which
    if which == 1 and len(sides) == 1:  # one sample of so many classes
        return sides[0]
    return sides[place] if -len(sides) <= place < len(sides) else 1
