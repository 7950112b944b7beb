"""What a gate is, and how those that there are get found.

A file beside this one, or one of your own, with:

- ``score(program, batches)``: a number, the higher the better. ``program`` takes the tuple of tensors of a batch and
  returns a tuple of tensors. ``batches`` are pairs of such a tuple and of what the original gives for it. Use them, or
  data of your own.
- ``at_least``: the lowest score that passes. Either a number, or a function of the original's score.

One of ours raises ``NotForThis`` where a program or its data are not what it is about.
"""

from __future__ import annotations

import importlib
import importlib.util
import math
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors import own_file
from npulens.collectors.lab import gates, judging

Program = Callable[[Any], "tuple[Any, ...]"]
#: Tensors that go in, and what the original gives for them.
Batches = Sequence["tuple[tuple[Any, ...], tuple[Any, ...]]"]


class NotForThis(ValueError):
    """Why a gate cannot say anything of a program."""


@dataclass(frozen=True)
class Scored:
    """What a gate says of a program."""

    gate: str
    score: float
    original: float
    at_least: float

    @property
    def ok(self) -> bool:
        return self.score >= self.at_least

    def as_dict(self) -> dict[str, Any]:
        return {**vars(self), "ok": self.ok}


@dataclass(frozen=True)
class Gate:
    """A gate on the batches of one subject, with the original's score."""

    name: str
    module: Any
    batches: Batches
    original: float
    at_least: float

    def scored(self, program: Program) -> Scored:
        return Scored(self.name, _score(self.name, self.module, program, self.batches), self.original, self.at_least)


def names() -> list[str]:
    """Those that there are."""
    found = (module.name for module in pkgutil.iter_modules(gates.__path__))
    return sorted(name for name in found if name != "gate" and not name.startswith("_"))


def opened(asked: str, program: Program, batches: Sequence[Sequence[Any]]) -> Gate:
    """The gate of that name, or of a file, with what the original gives and reaches."""
    module = _read(asked)
    pairs = [(tuple(batch), judging.run(program, batch, False).results) for batch in batches]
    name = Path(asked).stem
    original = _score(name, module, program, pairs)
    limit = module.at_least(original) if callable(module.at_least) else module.at_least
    if not isinstance(limit, (int, float)) or not math.isfinite(limit):
        raise ValueError(f"the gate {name}: at_least is no number")
    if original < limit:
        raise ValueError(f"the gate {name}: the original itself reaches {original:.4g}, and {limit:.4g} is asked for")
    return Gate(name, module, pairs, original, float(limit))


def _score(name: str, module: Any, program: Program, batches: Batches) -> float:
    import torch

    try:
        with torch.no_grad():
            found = float(module.score(program, batches))
    except NotForThis as reason:
        raise NotForThis(f"the gate {name} is not for this program: {reason}") from reason
    except (*judging.FAILURES, OSError, ImportError) as error:
        raise ValueError(f"the gate {name} fails: {judging.first_line(error)}") from error
    if math.isnan(found):
        return -math.inf
    return found


def _read(asked: str) -> Any:
    path = Path(asked)
    if asked in names():
        return importlib.import_module(f"{gates.__name__}.{asked}")
    spec = own_file.spec(f"npulens_gate_{path.stem}", path)
    if path.suffix != ".py" or not path.is_file() or spec is None or spec.loader is None:
        raise ValueError(f"there is no gate {asked!r}; there are {', '.join(names())}, or a Python file of your own")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (SyntaxError, ImportError, NameError, *judging.FAILURES) as error:
        raise ValueError(f"{path} cannot be read: {judging.first_line(error)}") from error
    if not callable(getattr(module, "score", None)) or not hasattr(module, "at_least"):
        raise ValueError(f"{path} has no score(program, batches), or no at_least")
    return module
