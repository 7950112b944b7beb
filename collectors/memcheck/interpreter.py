"""Every lane's address of a kernel in Triton's interpreter, checked against the tensors that the kernel was given.

The interpreter reads and writes real memory: an access that goes astray reads a neighbour, or ends the process. So each
argument gets an address of its own far from all others, and what the kernel computes from it stays near it however far
it goes astray. An address so tells its argument and its offset. Only lanes that lie inside are passed on, at their real
address; the others read nothing and write nothing, and the kernel goes on. Addresses that come from elsewhere, such as
from a table of pointers, are looked up in the memory of this process.
"""

from __future__ import annotations

import importlib
import linecache
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import numpy as np

from npulens.collectors.memcheck.finding import Finding, Launch, Report

#: Addresses of arguments: beyond what a process can have, 16 TB apart, in the middle of their part.
TOP, APART, MIDDLE = 1 << 62, 44, 1 << 43
PAGE = 4096
#: Nothing lies below.
NULL = 1 << 16


@dataclass(frozen=True)
class Argument:
    """A tensor that a kernel was given, in its own part of the addresses."""

    name: str
    real: int  # where its memory begins
    size: int  # of its memory, in bytes
    base: int  # where its memory begins for the kernel
    first: int  # where the tensor that was passed begins and ends in it
    last: int


@dataclass
class Seen:
    """One place of wrong accesses, while it grows."""

    finding: Finding
    lanes: int = 0
    programs: set[tuple[int, ...]] = field(default_factory=set)
    lowest: int = 0
    highest: int = 0

    def closed(self) -> Finding:
        told = {**vars(self.finding), "lanes": self.lanes, "programs": len(self.programs)}
        if self.finding.offset_bytes is not None:
            told.update(lowest_bytes=self.lowest, highest_bytes=self.highest)
        return Finding(**told)


class Checker:
    """Stands between the interpreter and memory while it is on."""

    def __init__(self) -> None:
        self.module = importlib.import_module("triton.runtime.interpreter")
        self._native: Any = self.module._interpreter
        self._home = str(Path(importlib.import_module("triton").__file__ or "").parent)
        self._arguments: list[Argument] = []
        self._left: list[Argument] = []  # not yet given to the kernel of this launch
        self._kernel = ""
        self._seen: dict[tuple[Any, ...], Seen] = {}
        self._launches: list[Launch] = []
        self._accesses = self._unknown = 0
        self._scratch = np.zeros(64, dtype=np.uint8)

    def __getattr__(self, name: str) -> Any:
        """What the interpreter asks of its native part besides reading and writing."""
        return getattr(self._native, name)

    def report(self) -> Report:
        found = sorted(
            (each.closed() for each in self._seen.values()), key=lambda each: (each.file or "", each.line or 0)
        )
        return Report(tuple(found), tuple(self._launches), self._accesses, self._unknown)

    # What the interpreter calls.

    def load(self, addresses: Any, mask: Any, other: Any, kind: Any) -> Any:
        real, good = self._checked(addresses, mask, np.dtype(kind).itemsize, "load")
        return self._native.load(real, good, other, kind)

    def store(self, addresses: Any, value: Any, mask: Any) -> Any:
        real, good = self._checked(addresses, mask, value.dtype.itemsize, "store")
        return self._native.store(real, value, good)

    def atomic_rmw(self, operation: Any, addresses: Any, value: Any, mask: Any, order: Any) -> Any:
        real, good = self._checked(addresses, mask, value.dtype.itemsize, "atomic", keep_unaligned=False)
        return self._native.atomic_rmw(operation, real, value, good, order)

    def atomic_cas(self, addresses: Any, expected: Any, value: Any, order: Any) -> Any:
        every = np.ones(np.shape(addresses), dtype=bool)
        real, good = self._checked(addresses, every, value.dtype.itemsize, "atomic", keep_unaligned=False)
        real = np.where(good, real, np.uint64(self._scratch.ctypes.data))
        return self._native.atomic_cas(real, expected, value, order)

    # What a launch gives.

    def launched(self, executor: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """The tensors of a launch, before the kernel begins."""
        self._arguments = []
        self._kernel = str(executor.fn.__name__)
        for name, value in [*zip(executor.arg_names, args), *kwargs.items()]:
            self._given(name, value)
        self._left = list(self._arguments)
        where = next(iter(self._frames(outside=True)), None)
        file, line = ("", 0) if where is None else (where.f_code.co_filename, where.f_lineno)
        grid = executor.grid if isinstance(executor.grid, tuple) else ()
        self._launches.append(Launch(self._kernel, tuple(map(int, grid)), file, line))

    def _given(self, name: str, value: Any) -> None:
        if isinstance(value, tuple):
            for place, each in enumerate(value):
                self._given(f"{name}[{place}]", each)
        elif hasattr(value, "block_shape") and hasattr(value, "base"):
            self._given(name, value.base)
        elif hasattr(value, "data_ptr"):
            tensor = getattr(value, "base", value) if not hasattr(value, "untyped_storage") else value
            storage, size = tensor.untyped_storage(), tensor.element_size()
            first = tensor.storage_offset() * size
            reach = sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride())) + 1
            last = first + reach * size if tensor.numel() else first
            real = int(storage.data_ptr())
            part = TOP + (len(self._arguments) << APART)
            base = part + MIDDLE + real % PAGE
            self._arguments.append(Argument(name, real, int(storage.nbytes()), base, first, last))

    def converted(self, value: Any, handle: Any) -> Any:
        """A tensor as the kernel gets it: at the address of its own part."""
        tensor = value if hasattr(value, "untyped_storage") else value.base
        real, first = int(tensor.untyped_storage().data_ptr()), tensor.storage_offset() * tensor.element_size()
        for argument in self._left:
            if (argument.real, argument.first) == (real, first) and self._same(argument, tensor):
                pointer = handle.handle
                pointer.data = np.array([argument.base + int(pointer.data[0]) - real], dtype=np.uint64)
                self._left.remove(argument)  # the same tensor may be given twice, under two names
                break
        return handle

    @staticmethod
    def _same(argument: Argument, tensor: Any) -> bool:
        reach = sum((length - 1) * step for length, step in zip(tensor.shape, tensor.stride())) + 1
        wanted = argument.first + reach * tensor.element_size() if tensor.numel() else argument.first
        return bool(argument.last == wanted)

    # What is checked.

    def _checked(
        self, addresses: Any, mask: Any, size: int, access: str, keep_unaligned: bool = True
    ) -> tuple[Any, Any]:
        """The real addresses, and the lanes that may go on."""
        places = np.array(addresses, dtype=np.uint64)
        good = np.array(np.broadcast_to(mask, places.shape), dtype=bool)
        active = good.copy()
        self._accesses += int(active.sum())
        if not active.any():
            return places, good
        parts = np.where(
            active & (places >= np.uint64(TOP)), (places - np.uint64(TOP)) >> np.uint64(APART), np.uint64(2**62)
        )
        for part in np.unique(parts[active]):
            lanes = active & (parts == part)
            if int(part) < len(self._arguments):
                self._of_argument(self._arguments[int(part)], places, lanes, good, size, access, keep_unaligned)
            else:
                self._of_nobody(places, lanes, good, size, access)
        return places, good

    def _of_argument(
        self, argument: Argument, places: Any, lanes: Any, good: Any, size: int, access: str, keep_unaligned: bool
    ) -> None:
        offsets = (places - np.uint64(argument.base)).astype(np.int64)
        outside = lanes & ((offsets < 0) | (offsets + size > argument.size))
        beyond = lanes & ~outside & ((offsets < argument.first) | (offsets + size > argument.last))
        unaligned = lanes & ~outside & ((offsets + argument.real) % size != 0)
        for kind, wrong in (("outside", outside), ("beyond_view", beyond), ("unaligned", unaligned)):
            if wrong.any():
                self._found(kind, access, wrong, size, offsets - argument.first, argument)
        good &= ~outside
        if not keep_unaligned:
            good &= ~unaligned
        places[lanes] = (offsets[lanes] + argument.real).astype(np.uint64)

    def _of_nobody(self, places: Any, lanes: Any, good: Any, size: int, access: str) -> None:
        """Addresses that no argument explains: what this process may read or write is passed on, and counted."""
        maps = _mapped()
        starts, ends = (np.array([each[end] for each in maps], dtype=np.uint64) for end in (0, 1))
        at = np.searchsorted(starts, places, side="right") - 1
        there = (at >= 0) & (places + np.uint64(size) <= ends[np.maximum(at, 0)])
        writable = np.array([each[2] for each in maps])[np.maximum(at, 0)]
        wrong = lanes & (~there | (places < np.uint64(NULL)) | ((access != "load") & ~writable))
        null = wrong & (places < np.uint64(NULL))
        for kind, which in (("null", null), ("outside", wrong & ~null)):
            if which.any():
                self._found(kind, access, which, size, places.astype(np.int64), None)
        self._unknown += int((lanes & ~wrong).sum())
        good &= ~wrong

    def promised(self, handle: Any, multiples: Any) -> None:
        """``tl.multiple_of``: the first element has to be one in each dimension; a device reads wider for it."""
        data = np.asarray(handle.data)
        first = int(data.flat[0]) if data.size else 0
        broken = [int(each) for each in multiples if int(each) > 1 and first % int(each)]
        if broken:
            text = f"multiple_of {broken[0]}: {first % broken[0]} is left over"
            self._found("hint", None, np.ones(1, dtype=bool), None, None, None, text)

    def _found(
        self, kind: str, access: str | None, wrong: Any, size: int | None, offsets: Any, argument: Argument | None,
        text: str | None = None,
    ) -> None:  # fmt: skip
        frames = list(self._frames())
        file, line = (frames[0].f_code.co_filename, frames[0].f_lineno) if frames else (None, None)
        name = None if argument is None else argument.name
        key = (kind, access, self._kernel, file, line, name)
        program = tuple(int(each) for each in self.module.interpreter_builder.grid_idx or ())
        if key not in self._seen:
            lane = tuple(int(each[0]) for each in np.nonzero(wrong)) if offsets is not None else None
            first = None if offsets is None or argument is None else int(offsets[wrong].flat[0])
            whole = None if argument is None else argument.last - argument.first
            source = linecache.getline(file, line).strip() if file is not None and line is not None else None
            launch = next(iter(self._frames(outside=True)), None)
            callers = [
                f"{each.f_code.co_filename}:{each.f_lineno}" for each in [*frames[1:], *([launch] if launch else [])]
            ]
            self._seen[key] = Seen(Finding(
                kind, access, self._kernel, file, line, source or None, tuple(callers), name, whole, size,
                program=program, lane=lane, offset_bytes=first, text=text,
            ), lowest=first or 0, highest=first or 0)  # fmt: skip
        seen = self._seen[key]
        seen.lanes += int(wrong.sum())
        seen.programs.add(program)
        if offsets is not None and argument is not None:
            seen.lowest = min(seen.lowest, int(offsets[wrong].min()))
            seen.highest = max(seen.highest, int(offsets[wrong].max()))

    def _frames(self, outside: bool = False) -> Iterator[FrameType]:
        """The frames of the kernel's source, innermost first; with ``outside`` those from the launch on."""
        frame: FrameType | None = sys._getframe(1)
        executor, skipped, within = self.module.GridExecutor, (self._home, str(Path(np.__file__).parent), "<"), True
        while frame is not None:
            name = frame.f_code.co_filename
            if isinstance(frame.f_locals.get("self"), executor):
                within = False
            elif within != outside and not name.startswith(skipped) and name != __file__:
                yield frame
            frame = frame.f_back


def _mapped() -> list[tuple[int, int, bool]]:
    """What this process has mapped: begin, end, whether it may write; nothing where nobody tells."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return [(NULL, 1 << 62, True)]
    found: list[tuple[int, int, bool]] = []
    for line in lines:
        span, rights = line.split(" ")[:2]
        begin, end = (int(each, 16) for each in span.split("-"))
        if "r" not in rights or end > 1 << 62:
            continue
        if found and found[-1][1] == begin and found[-1][2] == ("w" in rights):
            begin = found.pop()[0]
        found.append((begin, end, "w" in rights))
    return found


@contextmanager
def checking() -> Iterator[Checker]:
    """Every kernel that starts meanwhile is checked; Triton has to be in its interpreter."""
    if os.environ.get("TRITON_INTERPRET") != "1":
        raise ValueError("kernels are checked in Triton's interpreter: TRITON_INTERPRET=1, before Triton is imported")
    checker = Checker()
    module = checker.module
    executor, convert = module.GridExecutor._init_args_hst, module._implicit_cvt
    promise = module.TensorHandle.set_attr
    tuner = importlib.import_module("triton.runtime.autotuner").Autotuner

    def begun(self: Any, args: Any, kwargs: Any) -> Any:
        found = executor(self, args, kwargs)
        checker.launched(self, *found)
        return found

    def converted(value: Any) -> Any:
        made = convert(value)
        return checker.converted(value, made) if hasattr(value, "data_ptr") else made

    def promised(self: Any, name: str, value: Any) -> None:
        promise(self, name, value)
        if name == "tt.divisibility":
            checker.promised(self, value)

    def every_config(self: Any, *args: Any, **kwargs: Any) -> None:
        """All configurations of an autotuned kernel, none of them timed."""
        self.nargs = dict(zip(self.arg_names, args))
        for config in self.prune_configs(kwargs):
            whole = {**kwargs, **config.all_kwargs()}
            if config.pre_hook is not None:
                config.pre_hook({**self.nargs, **whole})
            self.fn.run(*args, **whole)
        self.nargs = None

    with (
        mock.patch.object(module, "_interpreter", checker),
        mock.patch.object(module.GridExecutor, "_init_args_hst", begun),
        mock.patch.object(module, "_implicit_cvt", converted),
        mock.patch.object(tuner, "run", every_config),
        mock.patch.object(module.TensorHandle, "set_attr", promised),
    ):
        yield checker
