"""A function of somebody's own, by file and name, and the inputs it is tried with."""

from __future__ import annotations

import importlib.util
import inspect
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from npulens.collectors import kernels, own_file
from npulens.collectors.lab.judging import FAILURES, Model, first_line

INPUTS = "inputs"
#: Functions of this project that anybody may try: a file of collectors/kernels each.
EXAMPLES = ("mla_prolog",)
TYPES = {"float32": "float32", "float16": "float16", "bfloat16": "bfloat16", "float64": "float64", "int64": "int64",
         "int32": "int32", "bool": "bool", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}  # fmt: skip
_INPUT = re.compile(r"(\w+)=(\d+(?:x\d+)*|scalar)(?::(\w+))?")
#: What running somebody's file may raise.
_THEIRS = (*FAILURES, ImportError, NameError, SyntaxError, OSError, SystemExit)


class NoFunction(ValueError):
    """A file, a function or inputs that cannot be used, and what to do."""


@dataclass(frozen=True)
class Function:
    """A function with the values of its parameters; those that are tensors are its batch."""

    path: Path
    name: str
    call: Callable[..., Any]
    values: Mapping[str, Any]

    def batch(self) -> tuple[Any, ...]:
        return tuple(value for value in self.values.values() if _is_tensor(value))

    def names(self) -> tuple[str, ...]:
        """Of the tensors."""
        return tuple(name for name, value in self.values.items() if _is_tensor(value))

    def model(self, call: Callable[..., Any]) -> Model:
        """``call`` as the laboratory calls a program: a batch in, a tuple of tensors out."""
        values = list(self.values.values())
        places = [place for place, value in enumerate(values) if _is_tensor(value)]

        def run(batch: Sequence[Any]) -> tuple[Any, ...]:
            given = list(values)
            for place, tensor in zip(places, batch):
                given[place] = tensor
            found = call(*given)
            return tuple(found) if isinstance(found, (tuple, list)) else (found,)

        return run


def _is_tensor(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor)


def named(text: str) -> tuple[Path, str]:
    """FILE:NAME in two; a name alone is an example of ours."""
    path, _, name = text.rpartition(":")
    ours = Path(kernels.__file__ or "").parent / f"{name}.py"
    if not path and name in EXAMPLES and ours.is_file():
        return ours, name
    if not path or not name.isidentifier():
        raise NoFunction(f"{text!r} names no function: say FILE.py:NAME, or an example: {', '.join(EXAMPLES)}")
    return Path(path), name


def module(path: Path, beside: Path | None = None) -> ModuleType:
    """Somebody's file, run once; it may import what lies ``beside`` it, or beside where it was copied from."""
    if not path.is_file():
        raise NoFunction(f"there is no file {path}")
    spec = own_file.spec(f"npulens_given_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise NoFunction(f"{path} is no file of Python")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    sys.path.insert(0, str(beside or path.resolve().parent))
    try:
        spec.loader.exec_module(found)
    except _THEIRS as error:
        raise NoFunction(f"{path} cannot be run: {type(error).__name__}: {first_line(error)}") from error
    return found


def read(path: Path, name: str, given: Sequence[str] = (), device: str = "cpu") -> Function:
    """The function and its inputs: those of ``given``, else what the file's ``inputs()`` returns."""
    home = module(path)
    call = getattr(home, name, None)
    if not inspect.isfunction(call):
        there = sorted(key for key, value in vars(home).items() if _is_own(value, home) and key != INPUTS)
        what = "is no plain function" if call is not None else "is not in the file"
        raise NoFunction(f"{name} {what} {path}; its functions are: {', '.join(there) or 'none'}")
    parameters = list(inspect.signature(call).parameters.values())
    odd = [each.name for each in parameters if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.POSITIONAL_ONLY)]
    if odd:
        raise NoFunction(f"{name} takes {odd[0]} by keyword or in any number: give each input a parameter of its own")
    values = _drawn(parameters, given) if given else _returned(home, path, name, parameters)
    placed = {key: value.to(device) if _is_tensor(value) else value for key, value in values.items()}
    found = Function(path, name, call, placed)
    if not found.batch():
        raise NoFunction(f"{name} gets no tensor: there is nothing to compute with")
    return found


def _is_own(value: Any, home: ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == home.__name__


def _returned(home: ModuleType, path: Path, name: str, parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
    make = getattr(home, INPUTS, None)
    if make is None:
        wanted = " ".join(f"--input {each.name}=64x64" for each in parameters)
        raise NoFunction(f"{path} has no function {INPUTS}() that returns example inputs; or say {wanted}")
    try:
        told = make()
    except _THEIRS as error:
        raise NoFunction(f"{INPUTS}() of {path} fails: {type(error).__name__}: {first_line(error)}") from error
    if isinstance(told, Mapping):
        return _bound(name, parameters, dict(told))
    several = list(told) if isinstance(told, (tuple, list)) else [told]
    if len(several) > len(parameters):
        raise NoFunction(f"{INPUTS}() returns {len(several)} values and {name} takes {len(parameters)}")
    return _bound(name, parameters, {each.name: value for each, value in zip(parameters, several)})


def _bound(name: str, parameters: Sequence[inspect.Parameter], told: Mapping[str, Any]) -> dict[str, Any]:
    """Every parameter's value, in the order of the parameters."""
    known = {each.name for each in parameters}
    unknown = sorted(set(told) - known)
    missing = [each.name for each in parameters if each.name not in told and each.default is each.empty]
    if unknown:
        raise NoFunction(f"{name} has no parameter {unknown[0]!r}; it has: {', '.join(sorted(known))}")
    if missing:
        raise NoFunction(f"{name} needs an input for {', '.join(missing)}")
    return {each.name: told.get(each.name, each.default) for each in parameters}


def _drawn(parameters: Sequence[inspect.Parameter], given: Sequence[str]) -> dict[str, Any]:
    """Tensors of the shapes that somebody asked for: normal numbers, weights as small as a layer's."""
    import torch

    numbers = torch.Generator().manual_seed(0)
    told: dict[str, Any] = {}
    for text in given:
        found = _INPUT.fullmatch(text)
        if found is None or TYPES.get(found[3] or "float32") is None:
            raise NoFunction(f"--input {text}: say NAME=64x64 or NAME=64x64:bfloat16; types: {', '.join(TYPES)}")
        sizes = [] if found[2] == "scalar" else [int(each) for each in found[2].split("x")]
        if math.prod(sizes) > 2**31:
            raise NoFunction(f"--input {text} has more than 2^31 elements")
        kind = getattr(torch, TYPES[found[3] or "float32"])
        if kind.is_floating_point:
            scale = sizes[0] ** -0.5 if len(sizes) == 2 and told and sizes[0] else 1.0
            told[found[1]] = (torch.randn(sizes, generator=numbers) * scale).to(kind)
        else:
            told[found[1]] = torch.randint(0, 2, sizes, generator=numbers).to(kind)
    return _bound("the function", parameters, told)
