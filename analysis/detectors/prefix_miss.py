"""Prompts begin alike, and what the cache could give is computed again.

## What it measures
Requests whose prompt was found in the prefix cache far less than that of most others, after the first such hit.

## Why it costs
A prefix that was computed once is computed again, in front of everybody who waits.

## What to do
Keep prefixes longer: more memory for the cache, or a tier in host memory. Send requests of one prefix to one replica,
and put what varies at the end of the prompt.

## Limits of the method
Only how many tokens were found is recorded, not which. So the prefix is taken to be what most requests found. The run
must hold requests that hit.

## References
vllm#18115, vllm-ascend#9845.
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
from npulens.analysis.serving.served import enough, spans

NEEDS = ("requests", "iterations", "cached_tokens")

TEXT = {
    "en": {
        "found": Words(
            "{misses} requests compute {prefix} tokens again that {hits} others found in the cache "
            "({computed} tokens together)",
            "Keep prefixes longer, send requests of one prefix to one replica, and put what varies at the "
            "end of the prompt. With these hits: {gives}.",
        ),
    },
    "zh": {
        "found": Words(
            "{misses} 个请求重算了 {prefix} 个 token，而另外 {hits} 个请求在缓存中命中（共 {computed} 个 token）",
            "请让前缀保留更久，把同一前缀的请求发到同一副本，并把变化的内容放在提示末尾。全部命中时：{gives}。",
        ),
    },
}


@dataclass(frozen=True)
class Limits(limits_.ServingLimits):
    """When a prefix is common."""

    hit_share: float = limits_.limit(0.2, "share of the requests", "a prefix that fewer share is not a common one")


def detect(db: duckdb.DuckDBPyConnection, run: Run, limits: Limits) -> Iterator[Candidate]:
    """One candidate: every request that could have hit."""
    found = enough(run)
    cached = found.load.cached
    hits = np.flatnonzero(cached > 0)
    if len(hits) < limits.hit_share * len(cached):
        return
    prefix = int(np.median(cached[hits]))
    after = np.arange(len(cached)) > hits[0]
    missed = np.flatnonzero(after & (cached < prefix // 2) & (found.load.prompt > prefix))
    if not len(missed):
        return
    numbers: dict[str, Value] = {
        "misses": len(missed), "hits": len(hits), "prefix": prefix, "computed": int((prefix - cached[missed]).sum()),
    }  # fmt: skip
    evidence = spans(run, found, missed, found.ttft_ns[missed])
    edit = Edit(cached=dict.fromkeys(missed.tolist(), prefix))
    yield Candidate("prefix_miss", "found", numbers, evidence, Change(), edit=edit)
