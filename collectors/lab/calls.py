"""The operators of one run of a program: what each computes and moves, and what it is made of.

A run is heard where Python calls torch. So graphs, what is put around them and modules that were kept whole are heard
alike. What a call does inside is counted one layer below: the kernels that write memory of their own, their operations,
and the bytes of what they read and write. Views move nothing and launch nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.flop_counter import flop_registry

from npulens.collectors.backends.backend import Backend
from npulens.collectors.harness.cpu_time import has_cpu_time, on_one_thread

#: Class -> the operators of it; a name that is nowhere here is of class "other".
CLASSES: dict[str, tuple[str, ...]] = {
    "matmul": ("linear", "linear_pointwise", "matmul", "mm", "bmm", "addmm", "baddbmm", "mv", "dot", "einsum",
               "rmatmul", "chain_matmul"),
    "convolution": ("conv1d", "conv2d", "conv3d", "convolution", "convolution_pointwise", "conv_transpose1d",
                    "conv_transpose2d", "conv_transpose3d"),
    "norm": ("batch_norm", "layer_norm", "group_norm", "rms_norm", "instance_norm", "native_layer_norm",
             "native_batch_norm", "native_group_norm", "fused_rms_norm"),
    "softmax": ("softmax", "log_softmax"),
    "attention": ("scaled_dot_product_attention", "multi_head_attention_forward"),
    "function": ("gelu", "silu", "sigmoid", "tanh", "exp", "erf", "log", "softplus", "mish", "elu", "sin", "cos", "pow",
                 "sqrt", "rsqrt"),
    "elementwise": ("add", "sub", "mul", "div", "truediv", "radd", "rsub", "rmul", "rtruediv", "neg", "relu", "relu6",
                    "hardtanh", "hardswish", "hardsigmoid", "leaky_relu", "clamp", "where", "masked_fill", "maximum",
                    "minimum", "abs", "eq", "ne", "lt", "le", "gt", "ge", "logical_not", "logical_and", "bitwise_not",
                    "bitwise_and", "addcmul", "lerp", "threshold", "fill", "triu", "tril"),
    "reduction": ("mean", "sum", "amax", "amin", "max", "min", "var", "std", "argmax", "cumsum", "any", "all", "norm",
                  "adaptive_avg_pool1d", "adaptive_avg_pool2d", "max_pool1d", "max_pool2d", "avg_pool2d"),
    "copy": ("contiguous", "clone", "copy", "cat", "stack", "to", "float", "bfloat16", "half", "reshape", "flatten",
             "repeat", "roll", "pad", "constant_pad_nd", "expand_as", "type_as", "double", "zeros", "ones", "full",
             "zeros_like", "ones_like", "full_like", "arange", "new_zeros", "empty", "pixel_shuffle", "concat"),
    "lookup": ("embedding", "embedding_bag", "index", "index_select", "gather", "getitem", "take_along_dim"),
}  # fmt: skip
CLASS_OF = {name: kind for kind, names in CLASSES.items() for name in names}
#: A call that computes nothing.
VIEW, OTHER = "view", "other"


@dataclass(frozen=True)
class Tensor:
    """A tensor that comes in: enough to make another one like it. ``values`` where they decide what is done."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any
    device: Any
    values: Any = None


@dataclass(frozen=True)
class Call:
    """One call of an operator."""

    name: str
    kind: str  # its class
    key: str  # all that decides how long it takes: name, shapes, strides, types, other arguments
    launches: int
    flops: int
    moved: int  # bytes
    inside: tuple[str, ...]  # the kernels below it
    channels_last: bool  # whether a picture that comes in lies in memory with its channels last
    again: Callable[[], Callable[[], Any]]  # makes the call anew with numbers of its own


def heard(model: Callable[..., Any], batch: Sequence[Any]) -> list[Call]:
    """The calls of one run, in their order."""
    mode = _Hearing()
    given = tuple(each.clone() for each in batch)
    with torch.no_grad(), mode:
        model(given)
    return mode.calls


class Clock:
    """CPU time of one thread where a processor computes; the device's own marks elsewhere."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self.cpu = backend, has_cpu_time(backend)
        self.name = "cpu" if self.cpu else "device"
        self._cost = self._empty() if self.cpu else 0.0

    def threads(self) -> Any:
        """How torch computes while this clock is read."""
        return on_one_thread() if self.cpu else nullcontext()

    def stamp(self) -> Any:
        if self.cpu:
            return time.thread_time_ns()
        (mark,) = self._backend.marks(1)
        self._backend.mark(mark)
        return mark

    def read(self, stamps: Sequence[tuple[Any, Any]]) -> list[float]:
        """Between two stamps each, less what reading the clock costs."""
        self._backend.synchronize()
        if self.cpu:
            return [max(0.0, last - first - self._cost) for first, last in stamps]
        return [float(self._backend.between_ns(first, last)) for first, last in stamps]

    def _empty(self) -> float:
        """The clock read twice in a row."""
        taken = []
        for _ in range(200):
            first = time.thread_time_ns()
            taken.append(time.thread_time_ns() - first)
        return float(sorted(taken)[len(taken) // 2])


def timed(model: Callable[..., Any], batch: Sequence[Any], clock: Clock) -> list[tuple[Any, Any]]:
    """The stamps around each call of one run: the calls that ``heard`` gives, with the run's own numbers and caches."""
    mode = _Timing(clock)
    with torch.no_grad(), mode:
        model(tuple(batch))
    return mode.stamps


class _Timing(TorchFunctionMode):  # type: ignore[misc]  # mypy does not look into torch
    """Stamps what ``_Hearing`` writes down."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._stamp = clock.stamp
        self.stamps: list[tuple[Any, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _leads_further(args, kwargs):
            with self:
                return func(*args, **kwargs)
        first = self._stamp()
        found = func(*args, **kwargs)
        last = self._stamp()
        if _computes(found):
            self.stamps.append((first, last))
        return found


class _Hearing(TorchFunctionMode):  # type: ignore[misc]
    """Writes down what each call is."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if _leads_further(args, kwargs):
            with self:
                return func(*args, **kwargs)
        given = tree_map(_taken, (args, kwargs))
        inside = _Inside()
        with inside:
            found = func(*args, **kwargs)
        if _computes(found):
            self.calls.append(_call(func, given, inside))
        return found


class _Inside(TorchDispatchMode):  # type: ignore[misc]
    """Counts the kernels below one call."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = self.flops = self.moved = 0
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found = func(*args, **kwargs)
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        made = [each for each in tree_leaves(found) if isinstance(each, torch.Tensor)]
        writes = func._schema.is_mutable
        if not made or (not writes and all(_is_view(each, given) for each in made)):
            return found
        name = func._overloadpacket.__name__
        self.launches += name not in ("empty", "empty_like", "new_empty", "empty_strided")
        self.flops += _operations(func, name, args, kwargs, found)
        self.moved += sum(map(touched, given)) + sum(map(touched, made))
        self.names.append(name)
        return found


def touched(tensor: Any) -> int:
    """The bytes that a tensor really has: what is expanded lies in memory once."""
    real = [int(size) for size, stride in zip(tensor.shape, tensor.stride()) if stride != 0 or size == 0]
    return int(math.prod(real) * tensor.element_size())


def _is_view(made: Any, given: Sequence[Any]) -> bool:
    if not made.numel():
        return True
    return any(made.untyped_storage().data_ptr() == each.untyped_storage().data_ptr() for each in given)


def _operations(func: Any, name: str, args: Any, kwargs: Any, found: Any) -> int:
    """Of products and convolutions, as torch itself counts them; nothing else is counted."""
    if name.startswith("_scaled_dot_product") and "backward" not in name:
        query, key, value = (each.shape for each in args[:3])
        return int(2 * math.prod(query[:-1]) * key[-2] * (query[-1] + value[-1]))
    packet = func._overloadpacket
    if packet not in flop_registry:
        return 0
    return int(flop_registry[packet](*args, **kwargs, out_val=found))


def _leads_further(args: Any, kwargs: Any) -> bool:
    """A call that is given a graph to run, such as a part under autocast: what is in there is heard."""
    return any(isinstance(each, torch.nn.Module) for each in (*args, *kwargs.values()))


def _computes(found: Any) -> bool:
    return any(isinstance(each, torch.Tensor) for each in tree_leaves(found))


def _call(func: Any, given: Any, inside: _Inside) -> Call:
    name = plain_name(func)
    kind = VIEW if not inside.launches else CLASS_OF.get(name, OTHER)
    key = f"{name}{''.join(_words(given))}"
    again = _again(func, given)
    last = any(isinstance(each, Tensor) and _channels_last(each) for each in tree_leaves(given))
    return Call(name, kind, key, inside.launches, inside.flops, inside.moved, tuple(inside.names), last, again)


def plain_name(func: Any) -> str:
    """linear of torch.nn.functional.linear, aten.linear.default, and of Tensor.__radd__ radd."""
    schema = getattr(func, "_schema", None)
    name = schema.name.partition("::")[2] if schema is not None else getattr(func, "__name__", str(func))
    return str(name).strip("_")


def _taken(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    decides = not value.is_floating_point()  # indices and masks; a later call may write to them
    values = value.detach().clone() if decides else None
    return Tensor(tuple(value.shape), value.stride(), value.dtype, value.device, values)


def _words(given: Any) -> Iterator[str]:
    for each in tree_leaves(given):
        if isinstance(each, Tensor):
            yield f" {str(each.dtype)[6:]}{list(each.shape)}{'' if _plain(each) else list(each.stride)}"
        else:
            yield f" {each}"


def _plain(tensor: Tensor) -> bool:
    """Whether it lies in memory in the order of its dimensions."""
    want = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride)):
        if size > 1 and stride != want:
            return False
        want *= size
    return True


def _channels_last(tensor: Tensor) -> bool:
    return len(tensor.shape) == 4 and tensor.shape[1] > 1 and tensor.stride[1] == 1 and max(tensor.shape[2:]) > 1


def _again(func: Any, given: Any) -> Callable[[], Callable[[], Any]]:
    def made() -> Callable[[], Any]:
        args, kwargs = tree_map(_drawn, given)
        return lambda: func(*args, **kwargs)

    return made


def _drawn(value: Any) -> Any:
    """Numbers between 0.1 and 1.1, so that no root, logarithm or variance goes wrong."""
    if not isinstance(value, Tensor):
        return value
    if value.values is not None:
        return value.values
    span = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride))
    flat = torch.rand(span if all(value.shape) else 1, device=value.device).add_(0.1).to(value.dtype)
    return flat.as_strided(value.shape, value.stride)
