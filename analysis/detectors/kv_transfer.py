"""Requests wait until their KV cache has come from another instance.

## What it measures
Transfers of the cache between the instance that computes prompts and the one that decodes. They count as far as the
request does nothing else meanwhile.

## Why it costs
The next token needs the whole cache. A transfer that nothing hides is added to every request.

## What to do
Send layer by layer while the prompt is computed, or use the faster link (RDMA, HCCS). Send fewer bytes: a cache in 8
bit, more hits on the decoding side.

## Limits of the method
The saving is a replay in which all transfers are hidden: a ceiling. Clocks of two hosts agree only as far as
causality tells.

## References
vllm-ascend#16984, sglang#5450.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import Edit
from npulens.analysis.serving.served import enough, spans, transfers

NEEDS = ("requests", "iterations", "transfers")

TEXT = {
    "en": {
        "found": Words(
            "{count} requests wait {transfer_ns} on average, {longest_ns} at most, for their KV cache",
            "Send it layer by layer while the prompt is computed, use the faster link, or send fewer bytes. "
            "If all of it were hidden: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "{count} 个请求等待 KV 缓存传输，平均 {transfer_ns}，最长 {longest_ns}",
            "请在计算提示时逐层发送，使用更快的链路，或减少字节数。全部掩盖时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: every transfer that holds its request up."""
    found = enough(run)
    moved = run.get(transfers)
    held = np.array([moved.get(one.key, 0) for one in found.requests], np.int64)
    places = np.flatnonzero(held > 0)
    if not len(places):
        return
    numbers: dict[str, Value] = {
        "count": len(places), "transfer_ns": int(held[places].mean()), "longest_ns": int(held.max()),
    }  # fmt: skip
    edit = Edit(before_ns={at: int(max(0, found.load.before_ns[at] - held[at])) for at in places.tolist()})
    evidence = spans(run, found, places, held[places].astype(float))
    yield Candidate("kv_transfer", "found", numbers, evidence, Change(), edit=edit)
