"""The ways from a module to a program, in the order in which they are tried: each either takes it or says why not.

torch.export reads the module as PyTorch runs it and keeps its operators. Where that fails torch.fx records the calls of
the module's code. What torch.fx recorded is exported as well, because one kind of program is enough for every rewrite.
Where both fail the module itself is kept, if another process can find its class; only what leaves the module whole can
then be tried on it.
"""

from __future__ import annotations

import importlib
import io
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors.lab import graph

EXPORT, FX, MODULE = "torch.export", "torch.fx", "module"
#: How the program is written, and whether it takes other shapes than one.
Captured = tuple[Callable[[Path], None], bool]


class CannotCapture(ValueError):
    """No way leads to a program; every one of them with its reason."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True)
class Program:
    """A captured program: which way it came, how it is written, and what failed before."""

    engine: str
    dynamic: bool
    save: Callable[[Path], None]
    tried: tuple[str, ...]


def capture(flat: Any, batches: Sequence[Sequence[Any]]) -> Program:
    """``flat`` takes the tensors of a batch and returns a tuple of tensors."""
    tried: list[str] = []
    ways: list[tuple[str, Callable[[Any, Sequence[Sequence[Any]]], Captured]]] = [
        (EXPORT, _dynamic), (EXPORT, _static), (FX, _traced), (MODULE, _whole),
    ]  # fmt: skip
    if not _varying(batches):
        del ways[0]
    for engine, way in ways:
        try:
            with _left_as_it_is(flat):
                save, dynamic = way(flat, batches)
            return Program(engine, dynamic, save, tuple(tried))
        except Exception as error:  # code of the job and of three compilers runs here: each has errors of its own
            tried.append(f"{engine}: {type(error).__name__}: {_first(error)}")
    raise CannotCapture(tried)


def load(place: Path, engine: str, training: bool) -> Any:
    """The program of a file, without what only checks its input."""
    import torch

    if engine == MODULE:
        kept = torch.load(place, weights_only=False)
        sys.path.extend(path for path in kept["paths"] if path not in sys.path)
        return torch.load(io.BytesIO(kept["module"]), weights_only=False).train(training)
    return graph.clean(torch.export.load(str(place)).module())


def _dynamic(flat: Any, batches: Sequence[Sequence[Any]]) -> Captured:
    """For every size that differs between the batches: the compiler finds out which sizes it takes."""
    import torch

    shapes = [{place: torch.export.Dim.AUTO for place in places} for places in _varying(batches)]
    return _saver(torch.export.export(flat, (tuple(batches[0]),), dynamic_shapes=(tuple(shapes),))), True


def _static(flat: Any, batches: Sequence[Sequence[Any]]) -> Captured:
    """For the commonest shape."""
    import torch

    return _saver(torch.export.export(flat, (tuple(batches[0]),))), False


def _saver(exported: Any) -> Callable[[Path], None]:
    import torch

    return lambda place: torch.export.save(exported, str(place))


def _varying(batches: Sequence[Sequence[Any]]) -> list[list[int]]:
    """The dimensions of every tensor that differ between batches; empty where none does."""
    found = [
        [place for place in range(first.dim()) if len({batch[which].shape[place] for batch in batches}) > 1]
        for which, first in enumerate(batches[0])
    ]
    return found if any(found) else []


def _traced(flat: Any, batches: Sequence[Sequence[Any]]) -> Captured:
    import torch

    traced = torch.fx.symbolic_trace(flat.module)
    traced.graph.eliminate_dead_code()  # what only looks at a tensor, and may be what torch.export stumbled over
    traced.recompile()
    around = flat.around(traced)
    return _dynamic(around, batches) if _varying(batches) else _static(around, batches)


def _whole(flat: Any, batches: Sequence[Sequence[Any]]) -> Captured:
    import torch

    for module in flat.module.modules():
        kind = type(module)
        if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            raise pickle.PicklingError(f"{kind.__qualname__} is a class of the script itself")
    blob = io.BytesIO()
    torch.save(flat, blob)
    again = torch.load(io.BytesIO(blob.getvalue()), weights_only=False)
    if not isinstance(again, torch.nn.Module):
        raise pickle.PicklingError("the module does not survive being written")
    kept = {"module": blob.getvalue(), "paths": _paths(flat.module)}
    return lambda place: torch.save(kept, place), len({tuple(t.shape for t in batch) for batch in batches}) > 1


def _paths(module: Any) -> list[str]:
    """Where the classes of a module were found, besides what is installed: another process has to find them too."""
    found = []
    for kind in {type(each) for each in module.modules()}:
        name = kind.__module__.partition(".")[0]
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is None:
            continue
        place = Path(file).resolve().parent
        place = place.parent if Path(file).name == "__init__.py" else place
        if not any(place.is_relative_to(Path(each).resolve()) for each in {sys.prefix, sys.base_prefix}):
            found.append(str(place))
    return sorted(set(found))


@contextmanager
def _left_as_it_is(module: Any) -> Iterator[None]:
    """Code that is traced may keep what it saw on its module; the job must not find that there."""
    tables = ("_parameters", "_buffers", "_modules")
    kept = [(each, dict(vars(each)), {name: dict(vars(each)[name]) for name in tables}) for each in module.modules()]
    try:
        yield
    finally:
        for each, own, inner in kept:
            vars(each).clear()
            vars(each).update(own)
            for name, content in inner.items():
                own[name].clear()
                own[name].update(content)


def _first(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:200]


def prepare() -> None:
    """Imports what capturing needs: at the end of a process some of it can no longer be imported."""
    for name in ("torch.export", "torch.fx", "concurrent.futures.thread", "concurrent.futures.process"):
        if name not in sys.modules:
            importlib.import_module(name)
