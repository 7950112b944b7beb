"""The KV cache is full: requests are thrown out and computed again, or wait for blocks.

## What it measures
Iterations with the KV cache at its limit. Tokens of decoders beyond one for each are computed again: a request was
thrown out and came back. Their iterations are priced. Recorded preemptions are counted where an engine tells them.

## Why it costs
Computing a context again is a prefill in the middle of everybody's decoding. Meanwhile new requests wait for blocks,
and the first token comes late.

## What to do
Give the cache more memory (`--gpu-memory-utilization`, a cache in 8 bit). Admit fewer requests at once
(`--max-num-seqs`), or spread the load over more replicas.

## Limits of the method
The saving is a replay with as many blocks as anybody asks for: a ceiling. How many blocks there are is read from the
use as it was logged. Drafts of speculation also are tokens beyond one for each; then nothing is called computed again.

## References
vLLM `--enable-logging-iteration-details`; vllm#42827, vllm#25780.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.capability import capabilities
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import UNLIMITED, Edit
from npulens.analysis.serving.served import enough, windows

NEEDS = ("requests", "iterations", "kv_use")

TEXT = {
    "en": {
        "recomputed": Words(
            "The KV cache is full: {recomputed} tokens were computed again in {iterations} iterations, which take "
            "{recompute_ns} ({recompute_share} of all iterations)",
            "Give the cache more memory (--gpu-memory-utilization, a cache in 8 bit), admit fewer requests at once "
            "(--max-num-seqs) or add a replica. With blocks enough: {gives}.",
        ),
        "waiting": Words(
            "The KV cache is full in {full_share} of the iterations, and requests wait for blocks",
            "Give the cache more memory (--gpu-memory-utilization, a cache in 8 bit) or add a replica. With blocks "
            "enough: {gives}.",
        ),
    },
    "zh": {
        "recomputed": Words(
            "KV 缓存已满：{iterations} 次迭代中重算了 {recomputed} 个 token，这些迭代耗时 {recompute_ns}"
            "（占全部迭代 {recompute_share}）",
            "请增大 KV 缓存（--gpu-memory-utilization、8 比特缓存），减少同时处理的请求（--max-num-seqs），或增加副本。"
            "块足够时：{gives}。",
        ),
        "waiting": Words(
            "{full_share} 的迭代中 KV 缓存已满，请求在等待空闲块",
            "请增大 KV 缓存（--gpu-memory-utilization、8 比特缓存）或增加副本。块足够时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """When the cache is full."""

    full_share: float = limits_.limit(0.9, "share of the KV cache", "a block more may not be there from here on")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: tokens computed again, or else requests that wait for blocks."""
    found = enough(run)
    rows, model = found.rows, found.model
    used = np.array([one.kv_used or 0.0 for one in found.iterations])
    full = used >= limits.full_share
    if model.blocks == UNLIMITED or not full.any():
        return
    drafts = bool(run.get(capabilities)["speculation"].ranks)
    again = np.array([max(0, (one.gen_tokens or 0) - (one.gen_requests or 0)) for one in found.iterations])
    mine = (again > 0) & ~np.bool_(drafts)
    waits = full & (found.waiting > 0)
    if not mine.any() and not waits.any():
        return
    shown = np.flatnonzero(mine if mine.any() else waits)
    numbers: dict[str, Value] = {
        "recomputed": int(again[mine].sum()), "iterations": int(mine.sum()),
        "recompute_ns": int(rows.dur_ns[mine].sum()),
        "recompute_share": float(rows.dur_ns[mine].sum() / rows.dur_ns.sum()), "full_share": float(full.mean()),
        "blocks": model.blocks, "block_tokens": model.block_tokens,
    }  # fmt: skip
    evidence = windows(run, found, shown, rows.dur_ns[shown])
    yield Candidate(
        "kv_pressure", "recomputed" if mine.any() else "waiting", numbers, evidence, Change(),
        edit=Edit(model={"blocks": UNLIMITED}),
    )  # fmt: skip
