"""The steps of a training script as a list of instructions, the same for every rank and step.

Writing the script is apart from running it. So a scenario can add an instruction or change a cost without touching the
clockwork of hosts, queues and streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from npulens.collectors.simulator.items import (
    Allocate,
    Close,
    Collect,
    CommCall,
    CopyData,
    Exchange,
    Item,
    KernelSpec,
    Launch,
    Open,
    Release,
    Signal,
    Switch,
    Sync,
    Work,
)

SITE = "/opt/conda/lib/python3.11/site-packages/"
CODE = "/workspace/train/"
OUTER = (
    "main.py(412): <module>",
    "main.py(287): main",
    "trainer.py(164): fit",
    "trainer.py(201): train",
)  # open for the whole capture


def source_path(frame: str) -> str:
    """A call stack names whole paths where the tracer of Python functions shortens them."""
    return (SITE if "/" in frame else CODE) + frame


@dataclass
class Script:
    """A list of instructions in the making; knows which frames are open, so that operators get their call stack."""

    frames: bool = True
    shapes: bool = True
    items: list[Item] = field(default_factory=list)
    prefix: str = ""  # of the names of operators and blocks: which micro batch they belong to
    _open: list[str] = field(default_factory=lambda: [source_path(frame) for frame in OUTER])
    _modules: dict[str, int] = field(default_factory=dict)
    _backward: bool = False

    @property
    def stack(self) -> tuple[str, ...]:
        return () if self._backward or not self.frames else tuple(reversed(self._open))

    @contextmanager
    def python(self, path: str, base_ns: int = 2_000) -> Iterator[None]:
        """A Python function, named as the tracer names it: path(line): function."""
        if not self.frames:
            self.items.append(Work("python", path, base_ns))
            yield
            return
        self.items.append(Open("python", path, base_ns))
        self._open.append(source_path(path))
        yield
        self._open.pop()
        self.items.append(Close(700))

    @contextmanager
    def module(self, name: str, forward: str) -> Iterator[None]:
        """An nn.Module call: its own frame, _call_impl, and the forward function. The same module runs once a step."""
        if not self.frames:
            self.items.append(Work("python", name, 5_000))
            yield
            return
        number = self._modules.get(name, 0)
        self._modules[name] = number + 1
        self.items.append(Open("python", f"nn.Module: {name}_{number}", 1_500, module=number))
        with self.python("torch/nn/modules/module.py(1553): _call_impl", 2_200), self.python(forward, 2_000):
            yield
        self.items.append(Close(500))

    @contextmanager
    def op(
        self,
        name: str,
        shapes: tuple[str, ...] = (),
        dtypes: tuple[str, ...] = (),
        key: str = "",
        base_ns: int = 3_500,
        call: CommCall | None = None,
    ) -> Iterator[None]:
        seen = self.shapes and bool(shapes)
        self.items.append(
            Open(
                "cpu_op",
                name,
                base_ns,
                shapes if seen else None,
                dtypes if seen else None,
                self.stack,
                key and self.prefix + key,
                self._backward and bool(key),
                call,
            )
        )
        yield
        self.items.append(Close(1_200))

    @contextmanager
    def annotation(self, name: str, base_ns: int = 4_000) -> Iterator[None]:
        self.items.append(Open("annotation", name, base_ns, stack=self.stack))
        yield
        self.items.append(Close(1_500))

    @contextmanager
    def step(self) -> Iterator[None]:
        self.items.append(Open("step_mark", "ProfilerStep#", 6_000, stack=self.stack))
        yield
        self.items.append(Close(2_000))

    @contextmanager
    def backward_thread(self) -> Iterator[None]:
        self.items.append(Switch("backward"))
        self._backward = True
        yield
        self._backward = False
        self.items.append(Switch("main"))

    def work(self, what: str, name: str, base_ns: int) -> None:
        self.items.append(Work(what, name, base_ns))

    def launch(self, api: str, kernels: tuple[KernelSpec, ...], stream: str = "compute") -> None:
        self.items.append(Launch(api, kernels, self.stack, stream))

    def copy(self, direction: str, size: int, blocking: bool = False) -> None:
        self.items.append(CopyData(direction, size, self.stack, blocking))

    def signal(self, source: str, target: str) -> None:
        self.items.append(Signal(source, target, self.stack))

    def collect(self, kind: str, count: int, item_bytes: int, dtype: str) -> None:
        self.items.append(Collect(kind, count, item_bytes, dtype, self.stack))

    def exchange(self, kind: str, send: int, receive: int, item_bytes: int, dtype: str) -> None:
        self.items.append(Exchange(kind, send, receive, item_bytes, dtype, self.stack))

    def sync(self) -> None:
        self.items.append(Sync(self.stack))

    def allocate(self, slot: str, name: str, size: int) -> None:
        self.items.append(Allocate(self.prefix + slot, name, size))

    def release(self, slot: str) -> None:
        self.items.append(Release(self.prefix + slot))
