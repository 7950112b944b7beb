"""Twenty wrong accesses of Triton kernels. Each kernel is launched with numbers that are right, or that are wrong.

The line that is wrong then ends in a comment with the case's name. What has to be found there was worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def whole(at, n, MASKED: tl.constexpr):
    return at < n if MASKED else at >= 0


@triton.jit
def add_kernel(x_at, out_at, n, last, step, READ: tl.constexpr, WRITE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_at + at * step, mask=whole(at, n, READ))  # load without a mask, bytes for elements
    tl.store(out_at + at, x + 1, mask=whole(at, n, WRITE))  # store without a mask, beyond a view
    tl.store(out_at + at, x + 1, mask=at <= last)  # one too many


@triton.jit
def shifted_kernel(x_at, out_at, n, by, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_at + at - by, mask=at < n)  # before the beginning
    tl.store(out_at + at, x, mask=at < n)


@triton.jit
def tile_kernel(x_at, out_at, rows, columns, stride, BLOCK: tl.constexpr):
    row, column = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < columns)
    x = tl.load(x_at + row * stride + column, mask=inside)  # the other dimension, a stride that is wrong
    tl.store(out_at + row * BLOCK + column, x, mask=inside)


@triton.jit
def gather_kernel(table_at, index_at, out_at, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    index = tl.load(index_at + at, mask=at < n, other=0)
    row = tl.load(table_at + index, mask=at < n)  # an index beyond the table
    tl.store(out_at + at, row, mask=at < n)


@triton.jit
def count_kernel(count_at, token_at, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    token = tl.load(token_at + at, mask=at < n, other=0)
    tl.atomic_add(count_at + token, 1, mask=at < n)  # a count beyond the table


@triton.jit
def lock_kernel(lock_at, which):
    tl.atomic_cas(lock_at + which, 0, 1)  # a lock that is not there


@triton.jit
def loop_kernel(x_at, out_at, inner, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for begin in range(0, inner, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x_at + at, mask=whole(at, inner, MASKED), other=0.0)  # the rest of a loop
    tl.store(out_at, tl.sum(total, axis=0))


@triton.jit
def taken(from_at, at, n, MASKED: tl.constexpr):
    return tl.load(from_at + at, mask=whole(at, n, MASKED))  # in a function that is called


@triton.jit
def calling_kernel(x_at, out_at, n, MASKED: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_at + at, taken(x_at, at, n, MASKED), mask=at < n)


@triton.jit
def two_kernel(x_at, y_at, out_at, n_x, n_y, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_at + at, mask=at < n_x, other=0.0)
    y = tl.load(y_at + at, mask=at < n_y, other=0.0)  # sizes that were exchanged
    tl.store(out_at + at, x + y, mask=at < BLOCK)


@triton.jit
def table_kernel(address_at, out_at):
    there = tl.load(address_at).to(tl.pointer_type(tl.float32))
    tl.store(out_at, tl.load(there))  # an address that is none


@triton.jit
def wide_kernel(bytes_at, out_at, skip, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    words = (bytes_at + skip).to(tl.pointer_type(tl.int32))
    tl.store(out_at + at, tl.load(words + at))  # words at odd bytes


@triton.jit
def pairs_kernel(half_at, skip, BLOCK: tl.constexpr):
    pairs = (half_at + skip).to(tl.pointer_type(tl.float32))
    tl.store(pairs + tl.arange(0, BLOCK), 1.0)  # pairs at an odd element


@triton.jit
def shorts_kernel(bytes_at, out_at, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    shorts = bytes_at.to(tl.pointer_type(tl.int16))
    tl.store(out_at + at, tl.load(shorts + at))  # a view that begins at an odd byte


@triton.jit
def sums_kernel(bytes_at, skip, BLOCK: tl.constexpr):
    sums = (bytes_at + skip).to(tl.pointer_type(tl.int32))
    tl.atomic_add(sums + tl.arange(0, BLOCK), 1)  # sums between two words


@triton.jit
def promise_kernel(x_at, out_at, begin, BLOCK: tl.constexpr):
    begin = tl.multiple_of(begin, 16)  # a promise that is broken
    at = tl.arange(0, BLOCK)
    tl.store(out_at + at, tl.load(x_at + begin + at))


@dataclass(frozen=True)
class Planted:
    """A launch, and what has to be found if it is made with ``wrong``."""

    launch: Callable[[bool], None]
    kind: str
    access: str | None
    kernel: str
    tensor: str | None
    lanes: int
    offset: int | None

    def line(self, name: str) -> int:
        return next(n for n, text in enumerate(Path(__file__).read_text().splitlines(), 1) if _names(text, name))


def _names(text: str, name: str) -> bool:
    return "  # " in text and name in text.rpartition("  # ")[2].split(", ")


def numbers(*sizes: int, dtype: Any = torch.float32) -> Any:
    return torch.ones(sizes, dtype=dtype)


def _add(read: bool, write: bool, last: int = 99, out: Any = None, step: int = 1, n: int = 100) -> None:
    add_kernel[(2,)](numbers(n), numbers(n) if out is None else out, n, last, step, READ=read, WRITE=write, BLOCK=64)


def _gather(bad: bool) -> None:
    index = torch.tensor([0, 3, 9 if bad else 7, 2])
    gather_kernel[(1,)](numbers(8), index, numbers(4), 4, BLOCK=4)


def _count(bad: bool) -> None:
    tokens = torch.tensor([0, 1, 2, 4 if bad else 3], dtype=torch.int32)
    count_kernel[(1,)](numbers(4, dtype=torch.int32), tokens, 4, BLOCK=4)


def _tile(rows: int, columns: int, stride: int) -> None:
    tile_kernel[(1,)](numbers(5, 7), numbers(8, 8), rows, columns, stride, BLOCK=8)


def _two(bad: bool) -> None:
    sizes = (60, 100) if bad else (100, 60)
    two_kernel[(1,)](numbers(100), numbers(60), numbers(128), *sizes, BLOCK=128)


def _table(bad: bool) -> None:
    there = numbers(1)
    address = torch.tensor([0 if bad else there.data_ptr()])
    table_kernel[(1,)](address, numbers(1))


def _bytes(count: int) -> Any:
    return numbers(count, dtype=torch.uint8)


def _view(bad: bool) -> None:
    _add(True, False, out=numbers(128)[:100]) if bad else _add(True, True, out=numbers(128)[:100])


def _steps(bad: bool) -> None:
    add_kernel[(1,)](numbers(8), numbers(8), 8, 7, 4 if bad else 1, READ=True, WRITE=True, BLOCK=64)


_INTS = torch.int32
PLANTED = {
    # 128 lanes of 100 elements of 4 bytes: the last 28, from byte 400 on.
    "load without a mask": Planted(lambda w: _add(not w, True), "outside", "load", "add_kernel", "x_at", 28, 400),
    "store without a mask": Planted(lambda w: _add(True, not w), "outside", "store", "add_kernel", "out_at", 28, 400),
    "one too many": Planted(
        lambda w: _add(True, True, last=100 if w else 99), "outside", "store", "add_kernel", "out_at", 1, 400
    ),
    "before the beginning": Planted(
        lambda w: shifted_kernel[(1,)](numbers(10), numbers(10), 10, int(w), BLOCK=16),
        "outside", "load", "shifted_kernel", "x_at", 1, -4,
    ),
    # 5 rows of 7, taken for 7 rows of 5: rows 5 and 6 begin at elements 35 and 42, five lanes each.
    "the other dimension": Planted(
        lambda w: _tile(*((7, 5) if w else (5, 7)), 7), "outside", "load", "tile_kernel", "x_at", 10, 140
    ),
    # 5 rows of 7 with a step of 8: the last row has elements 32 to 38, and there are 35.
    "a stride that is wrong": Planted(
        lambda w: _tile(5, 7, 8 if w else 7), "outside", "load", "tile_kernel", "x_at", 4, 140
    ),
    "an index beyond the table": Planted(_gather, "outside", "load", "gather_kernel", "table_at", 1, 36),
    "a count beyond the table": Planted(_count, "outside", "atomic", "count_kernel", "count_at", 1, 16),
    "a lock that is not there": Planted(
        lambda w: lock_kernel[(1,)](numbers(1, dtype=_INTS), int(w)),
        "outside", "atomic", "lock_kernel", "lock_at", 1, 4,
    ),
    # 40 elements in blocks of 16: the third block has 8 of them.
    "the rest of a loop": Planted(
        lambda w: loop_kernel[(1,)](numbers(40), numbers(1), 40, MASKED=not w, BLOCK=16),
        "outside", "load", "loop_kernel", "x_at", 8, 160,
    ),
    # Elements 0, 4, 8 ... 28 of 8: six are beyond, the first of them is element 8.
    "bytes for elements": Planted(_steps, "outside", "load", "add_kernel", "x_at", 6, 32),
    "in a function that is called": Planted(
        lambda w: calling_kernel[(2,)](numbers(100), numbers(100), 100, MASKED=not w, BLOCK=64),
        "outside", "load", "calling_kernel", "x_at", 28, 400,
    ),
    "beyond a view": Planted(_view, "beyond_view", "store", "add_kernel", "out_at", 28, 400),
    "sizes that were exchanged": Planted(_two, "outside", "load", "two_kernel", "y_at", 40, 240),
    "an address that is none": Planted(_table, "null", "load", "table_kernel", None, 1, None),
    "words at odd bytes": Planted(
        lambda w: wide_kernel[(1,)](_bytes(64), numbers(8, dtype=_INTS), 1 if w else 4, BLOCK=8),
        "unaligned", "load", "wide_kernel", "bytes_at", 8, 1,
    ),
    "pairs at an odd element": Planted(
        lambda w: pairs_kernel[(1,)](numbers(32, dtype=torch.float16), 1 if w else 2, BLOCK=8),
        "unaligned", "store", "pairs_kernel", "half_at", 8, 2,
    ),
    "a view that begins at an odd byte": Planted(
        lambda w: shorts_kernel[(1,)](_bytes(66)[1 if w else 2 :], numbers(8, dtype=torch.int16), BLOCK=8),
        "unaligned", "load", "shorts_kernel", "bytes_at", 8, 0,
    ),
    "sums between two words": Planted(
        lambda w: sums_kernel[(1,)](_bytes(64), 2 if w else 4, BLOCK=4),
        "unaligned", "atomic", "sums_kernel", "bytes_at", 4, 2,
    ),
    "a promise that is broken": Planted(
        lambda w: promise_kernel[(1,)](numbers(64), numbers(8), 8 if w else 16, BLOCK=8),
        "hint", None, "promise_kernel", None, 1, None,
    ),
}  # fmt: skip
