"""A kernel that was kept: the function, its inputs, the choices, the code that came out, and the evidence for them.

A directory of `kernel.json`, `source.py` (the file of the function), `inputs.pt`, `generated.py` (what Inductor wrote)
and one file for each kernel in it. It is opened again only where it was made: another torch, another processor or
another compiler would make other code, and the evidence would be of something else.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from npulens.collectors.backends.backend import Backend, open_backend
from npulens.collectors.generated import function as functions
from npulens.collectors.generated import inductor
from npulens.collectors.generated.function import Function
from npulens.collectors.generated.inductor import LIBRARY, Choices, Made
from npulens.collectors.workloads.workload import Case

NAME, SOURCE, GIVEN, CODE = "kernel.json", "source.py", "inputs.pt", "generated.py"
FORMAT = 1


class NoKernel(ValueError):
    """A directory that holds no kernel, or one that cannot be used here."""


@dataclass(frozen=True)
class Kernel:
    """A kept kernel with its function; nothing of it is compiled yet."""

    place: Path
    told: Mapping[str, Any]
    function: Function

    def made(self) -> Made:
        """Compiled again; other code than the one that was judged is refused."""
        kept = dict(self.told["choices"])
        products = kept.pop("products", LIBRARY)
        found = inductor.made(self.function, Choices(kept, products))
        if found.digest() != self.told["code_sha256"]:
            raise NoKernel(f"{self.place}: Inductor writes other code now than was judged; make the kernel again")
        return found


def machine(backend: Backend) -> dict[str, str]:
    """What the code and its speed depend on."""
    import torch

    told = {"torch": str(torch.__version__), "backend": backend.name, "device": str(backend.properties().get("name"))}
    if backend.name == "cpu":
        told["vectors"] = str(torch.backends.cpu.get_cpu_capability())
        told["threads"] = str(torch.get_num_threads())
        told["compiler"] = _compiler()
    else:
        import triton

        told["triton"] = str(triton.__version__)
    return told


def _compiler() -> str:
    name = os.environ.get("CXX", "g++")
    try:
        done = subprocess.run([name, "--version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return name
    return done.stdout.partition("\n")[0] or name


def write(place: Path, function: Function, made: Made, told: Mapping[str, Any]) -> None:
    """Writes everything; kernel.json comes last, without it there is no kernel."""
    import torch

    place.mkdir(parents=True, exist_ok=True)
    source = function.path.read_bytes()
    (place / SOURCE).write_bytes(source)
    torch.save(dict(function.values), place / GIVEN)
    (place / CODE).write_text(made.code, encoding="utf-8")
    for old in [*place.glob("kernel_*.cpp"), *place.glob("kernel_*.py")]:
        old.unlink()
    for number, (name, text) in enumerate(made.sources().items()):
        ending = "py" if "@triton" in text else "cpp"
        (place / f"kernel_{number}.{ending}").write_text(f"{'#' if ending == 'py' else '//'} {name}\n{text}\n", "utf-8")
    whole = {
        "format": FORMAT, "function": function.name, "file": str(function.path.resolve()),
        "source_sha256": hashlib.sha256(source).hexdigest(), "choices": made.choices.told(),
        "code_sha256": made.digest(), **told,
    }  # fmt: skip
    half = place / f".{NAME}.half"
    half.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    half.replace(place / NAME)


def about(place: Path) -> dict[str, Any]:
    """What a kept kernel says of itself."""
    try:
        told = json.loads((place / NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise NoKernel(f"{place} holds no kernel: npulens compile FILE.py:NAME -o DIR makes one") from error
    kinds = {"function": str, "file": str, "dtype": str, "source_sha256": str, "code_sha256": str, "choices": dict,
             "machine": dict, "shapes": dict}  # fmt: skip
    whole = isinstance(told, dict) and all(isinstance(told.get(name), kind) for name, kind in kinds.items())
    if not whole or told.get("format") != FORMAT or not all(isinstance(each, list) for each in told["shapes"].values()):
        raise NoKernel(f"{place} is a kernel of another release: make it again")
    found: dict[str, Any] = told
    return found


def read(place: Path, backend: Backend) -> Kernel:
    """A kept kernel, if it was made on a machine like this one and nobody has changed its source since."""
    import torch

    told = about(place)
    here = machine(backend)
    for name in sorted({*told["machine"], *here}):
        was, now = told["machine"].get(name), here.get(name)
        if was != now:
            raise NoKernel(f"{place} was made with {name} {was} and here it is {now}: make the kernel again")
    try:
        source = (place / SOURCE).read_bytes()
        values = torch.load(place / GIVEN, weights_only=True)
    except (OSError, RuntimeError, ValueError, KeyError, EOFError, AttributeError, TypeError) as error:
        raise NoKernel(f"{place} cannot be read: {(str(error).splitlines() or [type(error).__name__])[0]}") from error
    if hashlib.sha256(source).hexdigest() != told["source_sha256"]:
        raise NoKernel(f"{place}/{SOURCE} has changed since it was judged: make the kernel again")
    call = getattr(functions.module(place / SOURCE, Path(told["file"]).parent), told["function"])
    placed = {key: value.to(backend.device) if isinstance(value, torch.Tensor) else value
              for key, value in values.items()}  # fmt: skip
    return Kernel(place, told, Function(place / SOURCE, told["function"], call, placed))


class AsWorkload:
    """A kept kernel as `npulens bench` measures anything: as written, by the defaults, and as it was tuned."""

    SHOWS: tuple[str, ...] = ("unfused",)
    VARIANTS: tuple[str, ...] = ("reference", "defaults", "kept")
    BATCH: str | None = None
    __name__: str

    def __init__(self, place: Path) -> None:
        self._place, self._told = place, about(place)
        self.__doc__ = f"{self._told['function']}, a kernel made by Inductor"
        self.__name__ = str(self._told["function"])
        sizes = {
            f"{name}_{axis}": size for name, shape in self._told["shapes"].items() for axis, size in enumerate(shape)
        }
        self.SHAPES: Mapping[str, Mapping[str, int]] = {"small": sizes}
        self.DTYPES: tuple[str, ...] = (self._told["dtype"],)
        self._kept: Kernel | None = None

    def opened(self, backend: Backend) -> Kernel:
        """The kernel itself, if it may be used here."""
        if self._kept is None:
            self._kept = read(self._place, backend)
        return self._kept

    def build(self, variant: str, shape: Mapping[str, int], dtype: str, device: str, seed: int = 0) -> Case:
        """One way of computing it; ``float64`` is the truth that all are compared with."""
        if dict(shape) != dict(self.SHAPES["small"]):
            raise ValueError(f"{self.__name__} was compiled for its own shapes only")
        if variant == "reference":
            plain = self._function(device)
            return Case(_step(plain, plain.call, dtype == "float64"), None, None)
        kept = self.opened(open_backend(device.partition(":")[0]))
        made = kept.made() if variant == "kept" else inductor.made(kept.function, Choices())
        return Case(_step(kept.function, made.call, False), None, None, made.generated + made.library)

    def _function(self, device: str) -> Function:
        import torch

        values = torch.load(self._place / GIVEN, weights_only=True)
        call = getattr(functions.module(self._place / SOURCE, Path(self._told["file"]).parent), self.__name__)
        placed = {key: each.to(device) if isinstance(each, torch.Tensor) else each for key, each in values.items()}
        return Function(self._place / SOURCE, self.__name__, call, placed)


def _step(function: Function, call: Callable[..., Any], wide: bool) -> Callable[[], Any]:
    import torch

    values = [each.double() if wide and isinstance(each, torch.Tensor) and each.is_floating_point() else each
              for each in function.values.values()]  # fmt: skip

    def step() -> Any:
        with torch.no_grad():
            return call(*values)

    return step
