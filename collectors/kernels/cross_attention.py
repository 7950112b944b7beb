"""Attention over any number of keys in one kernel: a running maximum and sum, and no scores in memory."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

from npulens.collectors.kernels import PROGRAMS, widen

_QUERIES, _KEYS = 64, 32


@triton.jit
def cross_attention_kernel(
    query_at, key_at, value_at, out_at, queries, keys, size, tiles, units, scale,
    PROGRAMS: tl.constexpr, QUERIES: tl.constexpr, KEYS: tl.constexpr, SIZE: tl.constexpr, WIDEN: tl.constexpr,
):  # fmt: skip
    """A unit is one tile of the queries of one head."""
    for unit in range(tl.program_id(0), units, PROGRAMS):
        head, tile = unit // tiles, unit % tiles
        row = tile * QUERIES + tl.arange(0, QUERIES)[:, None]
        across = tl.arange(0, SIZE)[None, :]
        place, valid = (head * queries + row) * size + across, (row < queries) & (across < size)
        query = tl.load(query_at + place, mask=valid, other=0.0)
        highest = tl.full((QUERIES, 1), float("-inf"), dtype=tl.float32)
        weight = tl.zeros((QUERIES, 1), dtype=tl.float32)
        total = tl.zeros((QUERIES, SIZE), dtype=tl.float32)
        for begin in range(0, keys, KEYS):
            down = begin + tl.arange(0, KEYS)[:, None]
            there = (head * keys + down) * size + across
            key = tl.load(key_at + there, mask=(down < keys) & (across < size), other=0.0)
            value = tl.load(value_at + there, mask=(down < keys) & (across < size), other=0.0)
            if WIDEN:
                query, key, value = query.to(tl.float32), key.to(tl.float32), value.to(tl.float32)
            scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
            scores = tl.where(begin + tl.arange(0, KEYS)[None, :] < keys, scores, float("-inf"))
            # Every tile begins with a key that is there, so the new maximum is finite and no exp is of inf - inf.
            risen = tl.maximum(highest, tl.max(scores, axis=1)[:, None])
            share, shrink = tl.exp(scores - risen), tl.exp(highest - risen)
            weight = weight * shrink + tl.sum(share, axis=1)[:, None]
            total = total * shrink + tl.dot(share.to(value.dtype), value, input_precision="ieee")
            highest = risen
        tl.store(out_at + place, (total / weight).to(out_at.dtype.element_ty), mask=valid)


def cross_attention(query: Any, key: Any, value: Any, scale: float) -> Any:
    """softmax(query key^T scale) value, for tensors of (batch, heads, tokens, size)."""
    batch, heads, queries, size = query.shape
    out = torch.empty_like(query)
    tiles = triton.cdiv(queries, _QUERIES)
    units = batch * heads * tiles
    programs = min(units, PROGRAMS)
    cross_attention_kernel[(programs,)](
        query, key, value, out, queries, key.shape[2], size, tiles, units, scale,
        PROGRAMS=programs, QUERIES=_QUERIES, KEYS=_KEYS, SIZE=max(16, triton.next_power_of_2(size)), WIDEN=widen(query),
    )  # fmt: skip
    return out
