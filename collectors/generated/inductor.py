"""One function through Inductor with certain choices: what it generates, how many kernels that is, and why it fails."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import shutil
import sysconfig
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from npulens.collectors.generated.function import Function
from npulens.collectors.lab.judging import FAILURES, first_line
from npulens.collectors.workloads.workload import NotHere

LIBRARY, LOOPS = "library", "loops"
#: Always: a cache's answer would hide the code that is shown.
_ALWAYS = {"fx_graph_cache": False}
_KERNEL = re.compile(r"^(\w+) = async_compile\.\w+\(.*?(?:r'''|''')\n?(.*?)^'''", re.MULTILINE | re.DOTALL)
_WIDTHS = {"AVX512": (512, 256), "AVX2": (256,)}
_PRODUCTS = ("aten.mm.default", "aten.addmm.default")
_WRAPPED = re.compile(r'^extern "C"\s+void\s+(\w+)\(.*?^\}', re.MULTILINE | re.DOTALL)


class NotOneGraph(ValueError):
    """A function that Inductor cannot take as a whole, and the line it stops at."""


class DoesNotCompile(RuntimeError):
    """Choices with which no code comes out."""


@dataclass(frozen=True)
class Choices:
    """What is decided for Inductor: its own options, and whether matrix products are written out as loops."""

    options: Mapping[str, Any] = field(default_factory=dict)
    products: str = LIBRARY

    def told(self) -> dict[str, Any]:
        return {**self.options, **({"products": self.products} if self.products != LIBRARY else {})}


@dataclass(frozen=True)
class Made:
    """A function as Inductor compiled it for one batch."""

    call: Callable[..., Any]
    choices: Choices
    code: str
    generated: int  # calls of kernels that it wrote
    library: int  # calls of operators that it left to a library
    seconds: float

    def digest(self) -> str:
        """Of the code without comments and without the place of the cache: the same code has the same digest."""
        home = os.environ.get("TORCHINDUCTOR_CACHE_DIR", "torchinductor")
        lines = (line for line in self.code.splitlines() if not line.lstrip().startswith(("# ", "//")))
        return hashlib.sha256("\n".join(line for line in lines if home not in line).encode()).hexdigest()

    def sources(self) -> dict[str, str]:
        """Each generated kernel's own source by its name."""
        return kernels_of(self.code)


def kernels_of(code: str) -> dict[str, str]:
    """The kernels in what Inductor wrote: C++ or Triton in the texts of a Python file, or one file of C++."""
    found = {name: body.strip("\n") for name, body in _KERNEL.findall(code)}
    return found or {each[1]: each[0] for each in _WRAPPED.finditer(code)}


def launches(code: str) -> int:
    """How often the code calls a kernel that it holds."""
    names = "|".join(map(re.escape, kernels_of(code)))
    return len(re.findall(rf"^\s+(?:{names})(?:\.run)?\(", code, re.MULTILINE)) if names else 0


def needs(device: str) -> None:
    """Refuses, in one sentence, where Inductor cannot work."""
    import torch

    if not hasattr(torch, "compile"):
        raise NotHere("Inductor came with torch 2.0: this is older")
    kind = device.partition(":")[0]
    if kind == "cpu":
        if not any(shutil.which(each) for each in (os.environ.get("CXX", "g++"), "clang++")):
            raise NotHere("Inductor writes C++ on a CPU and no compiler is there: install g++, or name one in CXX")
        if not (Path(sysconfig.get_paths()["include"]) / "Python.h").is_file():
            raise NotHere("Inductor needs Python.h on a CPU: install the headers of this Python (python3-dev)")
    elif kind == "mps":
        raise NotHere("kernels are made for a CPU, CUDA and NPUs; not for an Apple GPU")
    elif importlib.util.find_spec("triton") is None:
        raise NotHere("Inductor writes Triton here: pip install triton (CUDA) or triton-ascend (NPU)")


def made(function: Function, choices: Choices) -> Made:
    """Compiles for the function's own batch; the first call is part of it."""
    import torch
    from torch._dynamo.exc import TorchDynamoException, Unsupported
    from torch._dynamo.utils import counters
    from torch._inductor.exc import InductorError

    options = {**_ALWAYS, **choices.options}
    if choices.products == LOOPS:
        options["post_grad_custom_post_pass"] = _loops()
    # A copy with code of its own, so that the tries do not share what Dynamo keeps with a function's code.
    its = function.call
    fresh = types.FunctionType(its.__code__.replace(), its.__globals__, its.__name__, its.__defaults__, its.__closure__)
    begun, calls = time.perf_counter(), counters["inductor"]["extern_calls"]
    try:
        compiled = torch.compile(fresh, fullgraph=True, dynamic=False, options=options)
        with _code() as written, torch.no_grad():
            function.model(compiled)([each.clone() for each in function.batch()])
    except Unsupported as error:
        raise NotOneGraph(_where(error, function)) from error
    except (InductorError, TorchDynamoException, *FAILURES) as error:
        inner = getattr(error, "inner_exception", None) or error
        raise DoesNotCompile(f"{type(inner).__name__}: {first_line(inner)}") from error
    if not written:
        raise DoesNotCompile("Inductor wrote no code: the function computes nothing")
    code = "\n".join(written)
    library = counters["inductor"]["extern_calls"] - calls
    return Made(compiled, choices, code, launches(code), library, time.perf_counter() - begun)


@contextmanager
def _code() -> Iterator[list[str]]:
    """What Inductor writes meanwhile."""
    from torch._inductor.graph import GraphLowering

    written: list[str] = []
    with mock.patch.object(GraphLowering, "save_output_code", written.append):
        yield written


def _where(error: Any, function: Function) -> str:
    """Why the function is not one graph, and the line of its owner's file."""
    stack = [each for each in getattr(error, "real_stack", None) or []]
    own = [
        each for each in stack if Path(each.filename) == function.path.resolve() or each.filename == str(function.path)
    ]
    frame = (own or stack)[-1] if own or stack else None
    why = first_line(error)
    if frame is None:
        return f"{function.name} is not one graph: {why}"
    source = (frame.line or "").strip()
    return f"{frame.filename}:{frame.lineno}: {function.name} is not one graph: {why} ({source})"


def before(function: Function) -> list[str]:
    """The operators that the function runs as it is written: each is a kernel of its own, views are none."""
    found = []
    for operator, _ in _operators(function):
        looks = any(each.alias_info is not None and not each.alias_info.is_write for each in operator._schema.returns)
        if not looks:
            found.append(str(operator).replace("aten.", "").partition(".")[0])
    return [name for name in found if name not in ("empty", "empty_like", "_unsafe_view")]


def products(function: Function) -> int:
    """Multiplications of all two-dimensional matrix products in the function as it is written."""
    sizes = [shapes[-2:] for operator, shapes in _operators(function) if str(operator) in _PRODUCTS]
    return sum(left[0] * left[1] * right[1] for left, right in sizes)


def _operators(function: Function) -> list[tuple[Any, list[tuple[int, ...]]]]:
    """Every operator that the function runs, in order, and the shapes of the tensors that it takes by their places."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[tuple[Any, list[tuple[int, ...]]]] = []

    class Seen(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append((func, [tuple(each.shape) for each in args if isinstance(each, torch.Tensor)]))
            return func(*args, **(kwargs or {}))

    batch = [each.clone() for each in function.batch()]
    with torch.no_grad(), Seen():
        function.model(function.call)(batch)
    return seen


def _loops() -> Any:
    """A pass that writes a matrix product as a sum of products, which fuses with what comes after it."""
    import torch
    from torch._inductor.custom_graph_pass import CustomGraphPass

    aten = torch.ops.aten

    class Loops(CustomGraphPass):  # type: ignore[misc]
        def uuid(self) -> str:
            return "npulens.products.as.loops"

        def __call__(self, graph: Any) -> None:
            for node in [each for each in graph.nodes if each.target in (aten.mm.default, aten.addmm.default)]:
                if not node.kwargs:
                    _written_out(graph, node, aten)
            graph.lint()

    return Loops()


def _written_out(graph: Any, node: Any, aten: Any) -> None:
    *bias, left, right = node.args

    def add(target: Any, *args: Any) -> Any:
        made = graph.call_function(target, args)
        values = [each.meta["val"] if hasattr(each, "meta") else each for each in args]
        with node.meta["val"].fake_mode:
            made.meta["val"] = target(*values)
        return made

    with graph.inserting_before(node):
        tall, wide = add(aten.unsqueeze.default, left, 2), add(aten.unsqueeze.default, right, 0)
        found = add(aten.sum.dim_IntList, add(aten.mul.Tensor, tall, wide), [1])
        found = add(aten.add.Tensor, found, bias[0]) if bias else found
    node.replace_all_uses_with(found)
    graph.erase_node(node)


def vector_bits() -> Sequence[int]:
    """The widths of vectors that this processor has, widest first; none where there is no choice."""
    import torch

    return _WIDTHS.get(torch.backends.cpu.get_cpu_capability(), ())
