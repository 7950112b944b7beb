"""What a rewrite is, and how those that there are get found.

A file beside this one, or one of your own, with:

- a docstring: what it does, why it can be faster, when it would be wrong;
- ``apply(program, asked)``: a new callable in place of the program, or ``DoesNotApply`` with the reason.

A rewrite of the optimiser has ``optimizer(told)`` besides, which returns it with other settings.

It gets a program that it may change as it likes, because nobody else has it. What it returns takes the tuple of tensors
of a batch and returns a tuple of tensors, as the program does.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from npulens.collectors import own_file
from npulens.collectors.lab import graph, rewrites

#: What lies beside them, for them.
_NO_REWRITES = ("rewrite", "matching")


@dataclass(frozen=True)
class Asked:
    """What a rewrite may want to know of the subject."""

    training: bool
    gradients: bool
    dynamic: bool
    device: str
    graph: bool  # whether the program can be changed node by node
    optimizer: Mapping[str, Any] | None = None  # what was heard of the job's (optimizing.py)


@dataclass(frozen=True)
class Rewritten:
    """The new program, how many places were changed, and what was left as it was and why."""

    model: Callable[..., Any]
    changed: int
    dtype: str | None = None  # a type that it computes in on purpose
    left: Mapping[str, int] = field(default_factory=dict)  # the name of a reason -> places

    @staticmethod
    def of(program: Any, changed: int, left: Counter[str], nothing: str) -> Rewritten:
        """A program whose graphs were changed, less what nobody reads any more.

        Where none was, the most frequent reason is why; ``nothing`` where there was no place to change.
        """
        if not changed:
            raise DoesNotApply(left.most_common(1)[0][0] if left else nothing)
        for module in graph.graphs(program):
            module.graph.eliminate_dead_code()
        return Rewritten(graph.recompiled(program), changed, left=dict(left))


class DoesNotApply(Exception):
    """Why a rewrite leaves this subject alone: the name of a text, and its values."""

    def __init__(self, name: str, values: Mapping[str, object] | None = None) -> None:
        super().__init__(name)
        self.name, self.values = name, dict(values or {})


class Rewrite(Protocol):
    """A file of this folder."""

    __name__: str
    __doc__: str

    def apply(self, program: Any, asked: Asked) -> Rewritten:
        """The program rewritten."""


def names() -> list[str]:
    """Those that there are."""
    found = (module.name for module in pkgutil.iter_modules(rewrites.__path__))
    return sorted(name for name in found if name not in _NO_REWRITES and not name.startswith("_"))


def rewrite(name: str, own: Sequence[Path] = ()) -> Rewrite:
    """The rewrite of that name: one of ours, or a file of somebody's own."""
    for path in own:
        if path.stem == name:
            return _of_a_file(path)
    if name not in names():
        raise ValueError(f"there is no rewrite {name!r}; there are: {', '.join(names())}")
    found: Rewrite = importlib.import_module(f"{rewrites.__name__}.{name}")
    return found


def _of_a_file(path: Path) -> Rewrite:
    spec = own_file.spec(f"npulens_rewrite_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ValueError(f"{path} is no Python file")
    module: Any = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError, NameError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error
    if not callable(getattr(module, "apply", None)):
        raise ValueError(f"{path} has no apply(program, asked)")
    found: Rewrite = module
    return found
