"""Requests wait for a slot or for the budget of tokens, because more come than the engine takes at once.

## What it measures
Time that requests spend in the queue while all slots are taken, or while the budget of tokens is used up. A queue
behind a full KV cache is another finding (kv_pressure), and so is one behind long prompts.

## Why it costs
The first token cannot come before the request is scheduled.

## What to do
Raise the limit that is reached (`--max-num-seqs`, `--max-num-batched-tokens`) if memory allows it, or add a replica.
Send bursts more evenly.

## Limits of the method
The limits are those that the run was seen at, with requests waiting. The saving is a replay without the limit; more
decoders in an iteration make it longer, as the fit says.

## References
vllm#22454, vllm-ascend#16062.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import duckdb
import numpy as np

from npulens.analysis import limits as limits_
from npulens.analysis.finding import Candidate, Change, Value, Words
from npulens.analysis.run import Run
from npulens.analysis.serving.replay import UNLIMITED, Edit
from npulens.analysis.serving.served import enough, spans

NEEDS = ("requests", "iterations", "request_states")

#: An iteration so near to the budget has used it up.
_NEAR = 0.98

TEXT = {
    "en": {
        "found": Words(
            "Requests wait {queue_ns} on average, {longest_ns} at most, because {limit} are all taken "
            "({running} requests in {full_share} of the iterations)",
            "Raise {flag} if memory allows it, add a replica, or send bursts more evenly. Without the limit: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "请求平均排队 {queue_ns}，最长 {longest_ns}：{limit_zh}已用满（{full_share} 的迭代中有 {running} 个请求）",
            "内存允许时提高 {flag}，或增加副本、让突发请求更均匀。取消该限制后：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """Only the share of the measure that every detector of serving has."""


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: the slots, else the budget of tokens."""
    found = enough(run)
    model = found.model
    queued = np.array([float(one.queue_ns or 0) for one in found.requests])
    running = np.array([float((one.ctx_requests or 0) + (one.gen_requests or 0)) for one in found.iterations])
    tokens = np.array([float((one.ctx_tokens or 0) + (one.gen_requests or 0)) for one in found.iterations])
    waits = found.waiting > 0
    if model.slots != UNLIMITED:
        full, limit, flag = waits & (running >= model.slots), ("slots", "槽位"), "--max-num-seqs"
        edit = Edit(model={"slots": UNLIMITED})
    elif model.budget != UNLIMITED:
        full, limit, flag = (
            waits & (tokens >= _NEAR * model.budget),
            ("tokens", "token 预算"),
            "--max-num-batched-tokens",
        )
        edit = Edit(model={"budget": UNLIMITED})
    else:
        return
    late = np.flatnonzero(queued > 0)
    if not full.any() or not len(late):
        return
    numbers: dict[str, Value] = {
        "queue_ns": int(queued.mean()), "longest_ns": int(queued.max()), "limit": limit[0], "limit_zh": limit[1],
        "flag": flag, "running": int(running.max()), "full_share": float(full.mean()), "waited": len(late),
    }  # fmt: skip
    yield Candidate("queueing", "found", numbers, spans(run, found, late, queued[late]), Change(), edit=edit)
