"""Types module by module: what each gains in a shorter type, what error it brings, and which of them are worth it.

Every operator belongs to the innermost module that it was captured in. The graph is written anew with conversions where
types meet; weights are converted once. An operator that does not run in the short type stays in its own.
"""

from __future__ import annotations

import copy
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from npulens.collectors.backends.backend import Backend
from npulens.collectors.harness.cpu_time import has_cpu_time, on_one_thread
from npulens.collectors.lab import graph, judging

SHORT = ("bfloat16", "float16")
#: Runs in which operators are timed.
TIMED = 5
#: A gain of less than this share of the program is none.
LEAST = 0.005
#: What does not fit into the allowed error is tried so often one by one.
ONE_BY_ONE = 12
#: Batches on which the error of each module is looked at.
FEW = 2
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)
_STACK = "nn_module_stack"


@dataclass(frozen=True)
class Item:
    """One module in one type: what it is expected to save, and how far the result moves with it alone."""

    unit: str
    dtype: str
    gain_ns: float
    error: float | None  # None: not finite, or so far off that nobody would take it
    left: int = 0  # operators that do not run in this type and stay
    ns: float = 0.0  # what its operators take as they are


Types = Mapping[str, str]


def unit_of(node: Any) -> str | None:
    """The path of the module that an operator was captured in; None where nobody knows.

    What a rewrite brought in belongs to whoever reads it, or else to whoever it reads.
    """
    seen, here = {node}, [node]
    while here:
        for each in here:
            stack = each.meta.get(_STACK)
            if stack:
                return str(list(stack.values())[-1][0]).removeprefix("module").lstrip(".")
        around = [other for each in here for other in (*each.users, *each.all_input_nodes)]
        here = [other for other in dict.fromkeys(around) if other not in seen and other.op == "call_function"]
        seen.update(here)
    return None


def units(program: Any) -> list[str]:
    """The modules with operators that compute with real numbers, in the order of the program."""
    found = []
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, torch.Tensor) and value.is_floating_point():
            found.append(unit_of(node) or "")
    return list(dict.fromkeys(found))


@dataclass(frozen=True)
class Typed:
    """A program in which some modules compute in another type."""

    program: Any
    left: Mapping[str, int]  # module -> operators that do not run in its type


def in_types(program: Any, types: Types, batch: Sequence[Any]) -> Typed:
    """The program with the modules of ``types`` in theirs; ``batch`` shows which types meet where."""
    made = _shallow(program)
    converting = _Converting(made, types)
    with torch.no_grad():
        converting.run(tuple(each.clone() for each in batch))
    made.graph.eliminate_dead_code()
    return Typed(graph.recompiled(made), converting.left)


def _shallow(program: Any) -> Any:
    """Another graph over the same weights."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch copies what it no longer wants to be asked for
        return torch.fx.GraphModule(program, copy.deepcopy(program.graph))


class _Converting(torch.fx.Interpreter):  # type: ignore[misc]  # mypy does not look into torch
    """Runs a program once and puts a conversion wherever an operator gets another type than it computes in."""

    def __init__(self, made: Any, types: Types) -> None:
        super().__init__(made, garbage_collect_values=False)
        self._types = types
        self._writes = any(graph.mutates(node) for node in made.graph.nodes)
        self._done: dict[tuple[Any, Any], Any] = {}
        self.left: dict[str, int] = {}

    def run_node(self, node: Any) -> Any:
        if node.op == "output":
            self._convert(node, lambda each: _own(each))
            return super().run_node(node)
        if node.op != "call_function" or getattr(node.target, "_schema", None) is None:
            return super().run_node(node)
        unit = unit_of(node) or ""
        want = self._types.get(unit)
        if want is None:
            self._convert(node, _own)
            return super().run_node(node)
        args, kwargs = node.args, node.kwargs
        self._in_type(node, self._written(node) or getattr(torch, want))
        try:
            return super().run_node(node)
        except judging.FAILURES:
            node.args, node.kwargs = args, kwargs
            self.left[unit] = self.left.get(unit, 0) + 1
            self._convert(node, _own)
            return super().run_node(node)

    def _written(self, node: Any) -> Any:
        """The type of what an operator writes into, which cannot be converted."""
        if not graph.mutates(node):
            return None
        value = self.env.get(node.args[0]) if node.args else None
        return value.dtype if isinstance(value, torch.Tensor) and value.dtype in _FLOATS else None

    def _in_type(self, node: Any, dtype: Any) -> None:
        self._convert(node, lambda _: dtype)

        def other(value: Any) -> Any:
            return dtype if value is torch.float32 else value

        node.args = tuple(map(other, node.args))
        node.kwargs = {name: other(value) for name, value in node.kwargs.items()}

    def _convert(self, node: Any, wanted: Callable[[Any], Any]) -> None:
        """Conversions before an operator, of what comes in as another type than wanted."""

        def one(given: Any) -> Any:
            value = self.env.get(given)
            dtype = wanted(given)
            if not isinstance(value, torch.Tensor) or dtype is None or value.dtype in (dtype, torch.float64):
                return given
            return given if value.dtype not in _FLOATS else self._converted(node, given, value, dtype)

        node.args = torch.fx.node.map_arg(node.args, one)
        node.kwargs = torch.fx.node.map_arg(node.kwargs, one)

    def _converted(self, node: Any, given: Any, value: Any, dtype: Any) -> Any:
        key = (given, dtype)
        weight = graph.constant(self.module, given)
        if key in self._done and (weight is not None or not self._writes):
            return self._done[key]
        if weight is not None:
            name = f"{given.target}_{str(dtype)[6:]}"
            found = graph.added(self.module, node, name, weight.detach().to(dtype))
        else:
            with self.module.graph.inserting_before(node):
                found = self.module.graph.call_function(torch.ops.aten.to.dtype, (given, dtype))
            found.meta[_STACK] = node.meta.get(_STACK)
        self.env[found] = self._done_value(found, value, dtype)
        self._done[key] = found
        return found

    def _done_value(self, found: Any, value: Any, dtype: Any) -> Any:
        weight = graph.constant(self.module, found)
        return weight if weight is not None else value.to(dtype)


def _own(node: Any) -> Any:
    """The type that a value had before anything was converted."""
    value = node.meta.get("val")
    if isinstance(value, torch.Tensor):
        return value.dtype
    return torch.float32


# What each module gains and costs.


def times(
    program: Any, typed: Mapping[str, Any], batch: Sequence[Any], backend: Backend
) -> dict[str, dict[str, float]]:
    """Type -> module -> ns of its operators; "" is the program as it is. The runs take turns.

    On a processor it is CPU time of one thread, which other work on the machine hardly changes.
    """
    every = {"": program, **typed}
    taken: dict[str, list[dict[str, float]]] = {name: [] for name in every}
    for turn in range(TIMED + 1):
        for name, one in every.items():
            clock = _Timing(one, backend)
            with torch.no_grad(), on_one_thread() if has_cpu_time(backend) else nullcontext():
                clock.run(tuple(each.clone() for each in batch))
            if turn:  # the first one builds kernels
                taken[name].append(clock.ns)
    return {name: {unit: statistics.median(run.get(unit, 0.0) for run in runs) for unit in _keys(runs)}
            for name, runs in taken.items()}  # fmt: skip


def _keys(runs: Iterable[Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(unit for run in runs for unit in run))


class _Timing(torch.fx.Interpreter):  # type: ignore[misc]
    """Sums what the operators of each module take, conversions before them included."""

    def __init__(self, program: Any, backend: Backend) -> None:
        super().__init__(program)
        self._backend = backend
        self._now = time.thread_time_ns if has_cpu_time(backend) else time.perf_counter_ns
        self.ns: dict[str, float] = {}

    def run_node(self, node: Any) -> Any:
        if node.op != "call_function":
            return super().run_node(node)
        self._backend.synchronize()
        begun = self._now()
        found = super().run_node(node)
        self._backend.synchronize()
        unit = unit_of(node) or ""
        self.ns[unit] = self.ns.get(unit, 0.0) + self._now() - begun
        return found


@dataclass(frozen=True)
class Precisions:
    """Measures modules of one subject in shorter types."""

    program: Any
    batch: Sequence[Any]
    truths: Sequence[judging.Truth]
    backend: Backend

    def items(self, enough: Callable[[], bool] = lambda: False) -> list[Item]:
        """Every module in every short type. ``enough``: no time is left, and what is not reached is not an item."""
        whole = {dtype: in_types(self.program, dict.fromkeys(units(self.program), dtype), self.batch)
                 for dtype in SHORT}  # fmt: skip
        ns = times(self.program, {dtype: typed.program for dtype, typed in whole.items()}, self.batch, self.backend)
        found: list[Item] = []
        for unit in sorted(units(self.program), key=lambda one: -ns[""].get(one, 0.0)):
            for dtype in SHORT:
                if enough():
                    return found
                gain = ns[""].get(unit, 0.0) - ns[dtype].get(unit, 0.0)
                error = self.error({unit: dtype})
                found.append(Item(unit, dtype, gain, error, whole[dtype].left.get(unit, 0), ns[""].get(unit, 0.0)))
        return found

    def error(self, types: Types) -> float | None:
        """The largest error against float64 with modules in these types; None where it is not finite or above 1."""
        found = judging.judged(self._make(types), self._few(), False, "float16", False, 1.0)
        return found.of_rewrite if found.ok else None

    def _few(self) -> list[judging.Truth]:
        """Enough numbers to put modules into an order; what is chosen is judged on all."""
        of = {where: [truth for truth in self.truths if truth.where == where] for where in ("captured", "fresh")}
        return [*of["captured"][:FEW], *of["fresh"][:1]]

    def _make(self, types: Types) -> Callable[[Any], Any]:
        return lambda program: in_types(program, types, self.batch).program


def chosen(items: Sequence[Item], allowed: Callable[[Types], bool], least_ns: float = 0.0) -> dict[str, str]:
    """Modules in the types that give the most for the error they bring, as far as ``allowed`` lets the whole of them.

    A gain of no more than ``least_ns`` is not worth conversions.

    >>> items = [Item("a", "float16", 5.0, 1e-3), Item("b", "float16", 9.0, None), Item("c", "float16", -1.0, 1e-9)]
    >>> chosen(items, lambda types: True)
    {'a': 'float16'}
    """
    worth = [item for item in items if item.gain_ns > least_ns and item.error is not None]
    worth.sort(key=lambda item: -item.gain_ns / max(item.error or 0.0, 1e-12))
    first: dict[str, Item] = {}
    for item in worth:
        first.setdefault(item.unit, item)
    order = list(first.values())

    def of(some: Sequence[Item]) -> dict[str, str]:
        return {item.unit: item.dtype for item in some}

    low, high = 0, len(order)  # the longest beginning that is allowed, as if more modules never brought less error
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if allowed(of(order[:middle])) else (low, middle - 1)
    taken = order[:low]
    others = [item for item in worth if item not in taken and item.unit not in of(taken)]
    for item in others[:ONE_BY_ONE]:
        if item.unit not in of(taken) and allowed(of([*taken, item])):
            taken.append(item)
    return of(taken)
