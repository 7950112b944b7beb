"""A span around every call of a module while something is recorded: "nn.Module: Linear (layers.0.mlp.up)".

torch's own names of modules ("nn.Module: Linear_3") need Python frames. Those cost more and do not say which of the
Linears it was. These spans come from hooks on all modules. They last as long as the recording, change no tensor and
no result, and nothing of them is left in the job. The backward pass needs none: the profiler says which operator a
gradient belongs to.

A root is a module that nothing calls. Its path is ".", of a second root of that class ".2". What no root knows by name
has the path ".?". What a compiler or a tracer reads is left alone: a compiled module is one call, without those in it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

PREFIX = "nn.Module: "


class ModuleRanges:
    """Sets the hooks with ``start`` and takes them away with ``stop``."""

    def __init__(self) -> None:
        self._hooks: list[Any] = []
        self._names: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._roots: dict[str, int] = {}  # class -> how many roots of it were met
        self._local = threading.local()
        self._naming = threading.Lock()
        self._enter: Callable[[str], Any] = str
        self._exit: Callable[[Any], Any] = str

    def start(self) -> None:
        """From now on calls of modules are spans."""
        import torch
        import torch.nn.modules.module as module

        if not self._hooks:
            self._enter, self._exit = _marks(torch)
            self._hooks = [
                module.register_module_forward_pre_hook(self._begins),
                module.register_module_forward_hook(self._ends, always_call=True),
            ]

    def stop(self) -> None:
        """No more; calls that are under way end their spans later, or with the profiler."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._names = {}

    def _begins(self, module: Any, *_: object) -> None:
        if _is_read():
            return
        calls = self._calls()
        calls.append((module, self._enter(self._name(module, calls))))

    def _ends(self, module: Any, *_: object) -> None:
        if _is_read():
            return
        calls = self._calls()
        if not any(each is module for each, _ in calls):  # it began before the recording did
            return
        while calls:
            each, span = calls.pop()
            self._exit(span)
            if each is module:
                return

    def _calls(self) -> list[tuple[Any, Any]]:
        """The calls that this thread is in."""
        calls: list[tuple[Any, Any]] | None = getattr(self._local, "calls", None)
        if calls is None:
            calls = self._local.calls = []
        return calls

    def _name(self, module: Any, calls: list[tuple[Any, Any]]) -> str:
        found = self._known(module)
        if found is None:
            with self._naming:
                self._learn(calls[0][0] if calls else module, new=not calls)
            found = self._known(module)
        return found or _spoken(module, ".?")

    def _known(self, module: Any) -> str | None:
        known = self._names.get(id(module))
        return known[1] if known is not None and known[0]() is module else None

    def _learn(self, root: Any, new: bool) -> None:
        """Names all modules below a root; of what two places hold the first one counts."""
        if new:
            kind = type(root).__name__
            self._roots[kind] = number = self._roots.get(kind, 0) + 1
            self._names[id(root)] = weakref.ref(root), _spoken(root, "." if number == 1 else f".{number}")
        for path, each in root.named_modules():
            if path:
                self._names[id(each)] = weakref.ref(each), _spoken(each, path)


def _spoken(module: Any, path: str) -> str:
    return f"{PREFIX}{type(module).__name__} ({''.join(path.split())})"


def _marks(torch: Any) -> tuple[Callable[[str], Any], Callable[[Any], Any]]:
    """What begins a span and what ends it. The first way takes 3 µs, record_function 8."""
    quick = getattr(torch.autograd, "_record_function_with_args_enter", None)
    if quick is not None:
        return quick, torch.autograd._record_function_with_args_exit

    def begin(name: str) -> Any:
        span = torch.autograd.profiler.record_function(name)
        span.__enter__()
        return span

    return begin, lambda span: span.__exit__(None, None, None)


def _is_read() -> bool:
    """Whether a compiler or a tracer reads this call."""
    import torch

    asked = getattr(getattr(torch, "compiler", None), "is_compiling", None)  # not in the oldest releases
    return bool((asked is not None and asked()) or torch.jit.is_tracing())
