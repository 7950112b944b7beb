"""The gradient of an embedding table: by atomic additions, and by giving each row to one program."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from npulens.collectors.kernels import PROGRAMS


@triton.jit
def atomic_kernel(
    gradient_at, token_at, table_at, count, width, padding, PROGRAMS: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Every token adds its gradient to the row of its token; which one comes first is left to chance."""
    column = tl.arange(0, WIDTH)
    for place in range(tl.program_id(0), count, PROGRAMS):
        token = tl.load(token_at + place)
        wanted = column < tl.where(token == padding, 0, width)
        value = tl.load(gradient_at + place * width + column, mask=wanted, other=0.0).to(tl.float32)
        tl.atomic_add(table_at + token * width + column, value, mask=wanted)


@triton.jit
def by_row_kernel(
    gradient_at, place_at, first_at, table_at, rows, width, padding, PROGRAMS: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Every row of the table adds what is its own, in the order of the tokens, and is written once."""
    column = tl.arange(0, WIDTH)
    for row in range(tl.program_id(0), rows, PROGRAMS):
        total = tl.zeros((WIDTH,), dtype=tl.float32)
        first, last = tl.load(first_at + row), tl.load(first_at + row + 1)
        last = tl.where(row == padding, first, last)
        for place in range(first, last):
            at = gradient_at + tl.load(place_at + place) * width + column
            total += tl.load(at, mask=column < width, other=0.0).to(tl.float32)
        tl.store(table_at + row * width + column, total.to(table_at.dtype.element_ty), mask=column < width)


def atomic(gradient: Any, tokens: Any, rows: int, padding: int) -> Any:
    """The table's gradient; sums are made in float32."""
    count, width = gradient.shape
    table = torch.zeros(rows, width, dtype=torch.float32, device=gradient.device)
    programs = min(count, PROGRAMS)
    atomic_kernel[(programs,)](
        gradient, tokens.to(torch.int32), table, count, width, padding,
        PROGRAMS=programs, WIDTH=triton.next_power_of_2(width),
    )  # fmt: skip
    return table.to(gradient.dtype)


def by_row(gradient: Any, tokens: Any, rows: int, padding: int) -> Any:
    """The table's gradient, the same bits every time."""
    width = gradient.shape[1]
    sorted_tokens, places = torch.sort(tokens, stable=True)
    first = torch.searchsorted(sorted_tokens, torch.arange(rows + 1, device=tokens.device))
    table = torch.empty(rows, width, dtype=gradient.dtype, device=gradient.device)
    programs = min(rows, PROGRAMS)
    by_row_kernel[(programs,)](
        gradient, places.to(torch.int32), first.to(torch.int32), table, rows, width, padding,
        PROGRAMS=programs, WIDTH=triton.next_power_of_2(width),
    )  # fmt: skip
    return table
